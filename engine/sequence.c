#include "engine/sequence.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Token ids are hashed as bytes in memory, so hashes would differ on a big-endian machine. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "hashes are of little-endian token ids");

void sequence_init(struct sequence *sequence, const struct request *request, uint32_t block_size)
{
	uint64_t capacity = (uint64_t)request->prompt_count + request->max_tokens;
	uint64_t full_blocks = capacity / block_size;
	uint64_t table_blocks = u64_divide_up(capacity, block_size);

	check(request->prompt_count >= 1);
	check(request->max_tokens >= 1);
	sequence->request = request->id;
	sequence->status = SEQUENCE_WAITING;
	sequence->prompt_count = request->prompt_count;
	sequence->max_tokens = request->max_tokens;
	sequence->temperature = request->temperature;
	sequence->ignore_eos = request->ignore_eos;
	sequence->is_forced = request->forced != NULL;
	sequence->token_count = request->prompt_count;
	sequence->token_capacity = u32_from(capacity);
	sequence->row = SEQUENCE_NO_ROW;

	/* One allocation: the hashes first, for their alignment. It is not cleared, since every
	   element is written before it is read. */
	char *memory =
		memory_take_uncleared(full_blocks * sizeof(uint64_t) +
				      table_blocks * sizeof(uint32_t) + capacity * sizeof(int32_t));
	sequence->block_hashes = (uint64_t *)(void *)memory;
	memory += full_blocks * sizeof(uint64_t);
	sequence->block_table = (uint32_t *)(void *)memory;
	memory += table_blocks * sizeof(uint32_t);
	sequence->token_ids = (int32_t *)(void *)memory;

	memcpy(sequence->token_ids, request->prompt, request->prompt_count * sizeof(int32_t));
	if (sequence->is_forced) {
		memcpy(sequence->token_ids + request->prompt_count, request->forced,
			request->max_tokens * sizeof(int32_t));
	}
	if (request->prompt_count >= block_size) {
		sequence_block_hash(sequence, request->prompt_count / block_size - 1, block_size);
	}
}

void sequence_deinit(struct sequence *sequence)
{
	free(sequence->block_hashes);
	memset(sequence, 0, sizeof(*sequence));
}

uint64_t sequence_block_hash(struct sequence *sequence, uint32_t index, uint32_t block_size)
{
	while (sequence->block_hash_count <= index) {
		uint32_t next = sequence->block_hash_count;
		uint64_t prefix = next == 0 ? 0 : sequence->block_hashes[next - 1];
		sequence->block_hashes[next] =
			XXH64(sequence->token_ids + (size_t)next * block_size,
				block_size * sizeof(int32_t), prefix);
		sequence->block_hash_count = next + 1;
	}
	return sequence->block_hashes[index];
}
