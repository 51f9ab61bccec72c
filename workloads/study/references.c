#include "workloads/study/references.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

void references_init(struct references *references, uint32_t block_size)
{
	check(block_size > 0);
	*references = (struct references){.block_size = block_size};
	references->request_start = memory_grow(
		NULL, &references->start_capacity, 1, sizeof(*references->request_start));
	references->request_start[0] = 0;
}

void references_deinit(struct references *references)
{
	free(references->blocks);
	free(references->request_start);
	free(references->input_lengths);
	free(references->before);
	map_deinit(&references->numbers);
	free(references->ids);
	*references = (struct references){0};
}

static const uint32_t NO_BLOCK = UINT32_MAX;

/* The number under a key; a new one follows the block `before`. */
static uint32_t number_under(struct references *references, uint64_t key, uint32_t before)
{
	uint64_t next = references->block_count;
	uint64_t number = *map_add(&references->numbers, key, next);

	if (number == next) {
		references->block_count++;
		references->before = memory_grow(references->before, &references->before_capacity,
			references->block_count, sizeof(*references->before));
		references->before[number] = before;
	}
	return u32_from(number);
}

/* The number of the block with an id behind the block `before`, or NO_BLOCK. Behind another one it
   is another block: its key is then a hash, with the bit that ids do not have. */
static uint32_t number_of(struct references *references, uint32_t before, uint64_t id)
{
	uint32_t number = number_under(references, id, before);

	return references->before[number] == before
		       ? number
		       : number_under(references,
				 counter_hash(counter_key(before, 0), id) | UINT64_C(1) << 63,
				 before);
}

uint32_t row_block_count(const struct trace_row *row, uint32_t block_size)
{
	return row->hash_ids != NULL ? row->hash_id_count
				     : u32_from(u64_divide_up(row->input_length, block_size));
}

bool row_block_ids(const struct trace_row *row, uint32_t block_size, uint64_t *ids)
{
	uint64_t count = row_block_count(row, block_size);

	if (row->hash_ids != NULL) {
		memcpy(ids, row->hash_ids, (size_t)count * sizeof(*ids));
		return true;
	}
	if (row->prompt_ids == NULL) {
		return false;
	}
	uint64_t chain = 0;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t start = i * block_size;
		size_t tokens = (size_t)u64_min(block_size, row->input_length - start);
		chain = XXH64(row->prompt_ids + start, tokens * sizeof(*row->prompt_ids), chain);
		ids[i] = chain >> 1; /* ids of a trace are below 2^63 */
	}
	return true;
}

enum status references_add(
	struct references *references, const struct trace_row *row, struct error *error)
{
	uint64_t count = row_block_count(row, references->block_size);
	uint64_t start = references->reference_count;

	if (count > REFERENCES_MAX - start) {
		return error_set(error, STATUS_INPUT,
			"the prompts of this trace have more than %d blocks, expected fewer",
			REFERENCES_MAX);
	}
	references->ids = memory_grow(
		references->ids, &references->ids_capacity, count + 1, sizeof(*references->ids));
	references->blocks = memory_grow(references->blocks, &references->blocks_capacity,
		start + count + 1, sizeof(*references->blocks));
	if (row_block_ids(row, references->block_size, references->ids)) {
		uint32_t before = NO_BLOCK;
		for (uint64_t i = 0; i < count; i++) {
			before = number_of(references, before, references->ids[i]);
			references->blocks[start + i] = before;
		}
	} else {
		for (uint64_t i = 0; i < count; i++) {
			references->blocks[start + i] = u32_from(references->block_count++);
		}
	}
	references->reference_count += count;
	references->token_count += row->input_length;
	references->request_start =
		memory_grow(references->request_start, &references->start_capacity,
			references->request_count + 2, sizeof(*references->request_start));
	references->input_lengths =
		memory_grow(references->input_lengths, &references->lengths_capacity,
			references->request_count + 1, sizeof(*references->input_lengths));
	references->input_lengths[references->request_count] = row->input_length;
	references->request_count++;
	references->request_start[references->request_count] = references->reference_count;
	return STATUS_OK;
}

enum status references_read(
	struct references *references, struct trace *trace, bool *has_ids, struct error *error)
{
	struct trace_row row;
	bool has_row = true;

	*has_ids = false;
	for (;;) {
		TRY(trace_next(trace, &row, &has_row, error));
		if (!has_row) {
			return STATUS_OK;
		}
		*has_ids = *has_ids || row.hash_ids != NULL || row.prompt_ids != NULL;
		TRY(references_add(references, &row, error));
	}
}
