#include "engine/sequence.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Token ids are hashed as bytes in memory, so hashes would differ on a big-endian machine. */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "hashes are of little-endian token ids");

static void take_keys(struct sequence *sequence, const struct request *request, uint32_t key_count)
{
	check(request->ignore_eos); /* which tokens end it is unknown */
	if (key_count > 0) {
		memcpy(sequence->block_keys, request->keys, key_count * sizeof(*request->keys));
	}
	sequence->block_key_count = key_count;
}

static void take_tokens(
	struct sequence *sequence, const struct request *request, uint32_t block_size)
{
	memcpy(sequence->token_ids, request->prompt, request->prompt_count * sizeof(int32_t));
	if (sequence->is_forced) {
		memcpy(sequence->token_ids + request->prompt_count, request->forced,
			request->max_tokens * sizeof(int32_t));
	}
	if (request->prompt_count >= block_size) {
		sequence_block_key(sequence, request->prompt_count / block_size - 1, block_size);
	}
}

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
	sequence->stored_count = request->stored_count;
	sequence->priority = request->priority;
	sequence->forced_eos_count = request->forced_eos_count;
	sequence->arrival = request->arrival;
	sequence->temperature = request->temperature;
	sequence->ignore_eos = request->ignore_eos;
	sequence->is_forced = request_is_forced(request);
	sequence->token_count = request->prompt_count;
	sequence->token_capacity = u32_from(capacity);
	sequence->row = SEQUENCE_NO_ROW;

	/* One allocation: the keys first, for their alignment. It is not cleared, since every
	   element is written before it is read. */
	uint64_t stored_tokens = request->keys == NULL ? capacity : 0;
	char *memory = memory_take_uncleared(full_blocks * sizeof(struct block_key) +
					     table_blocks * sizeof(uint32_t) +
					     stored_tokens * sizeof(int32_t));
	sequence->block_keys = (struct block_key *)(void *)memory;
	memory += full_blocks * sizeof(struct block_key);
	sequence->block_table = (uint32_t *)(void *)memory;
	memory += table_blocks * sizeof(uint32_t);
	if (request->keys != NULL) {
		take_keys(sequence, request, u32_from(full_blocks));
	} else {
		sequence->token_ids = (int32_t *)(void *)memory;
		take_tokens(sequence, request, block_size);
	}
}

void sequence_deinit(struct sequence *sequence)
{
	free(sequence->block_keys);
	memset(sequence, 0, sizeof(*sequence));
}

struct block_key sequence_make_block_key(
	struct sequence *sequence, uint32_t index, uint32_t block_size)
{
	while (sequence->block_key_count <= index) {
		uint32_t next = sequence->block_key_count;
		struct block_key before =
			next == 0 ? (struct block_key){0} : sequence->block_keys[next - 1];
		sequence->block_keys[next] = block_key_of_tokens(
			before, sequence->token_ids + (size_t)next * block_size, block_size);
		sequence->block_key_count = next + 1;
	}
	return sequence->block_keys[index];
}
