#ifndef WORKLOADS_STUDY_REFERENCES_H
#define WORKLOADS_STUDY_REFERENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/base/map.h"
#include "workloads/trace/trace.h"

/* A whole trace as a prefix cache sees it: the blocks of its prompts, request after request,
   numbered in the order of first occurrence.

       blocks          | 0 1 2 3 | 0 1 4 | 5 6 | ...          (reference_count)
       request_start     0         4       7                  (request_count + 1)

   The blocks of a row are its hash ids, each together with those before it; or, where the trace has
   token ids, the chained hashes of its blocks; or, where it has neither, blocks that no other row
   has. So a block comes with all blocks before it, and once in a row, as a cache of prefixes has
   it, whether or not the ids of the trace say as much. Takes 4 bytes per reference and 12 per
   request, and about 36 per different block while it is built. */

struct references {
	uint32_t block_size; /* tokens; a prompt's last block may be partial */
	uint64_t request_count, reference_count, block_count;
	uint64_t token_count;
	uint32_t *blocks;
	uint64_t *request_start;
	uint32_t *input_lengths; /* (request_count) */

	/* while it is built */
	size_t blocks_capacity, start_capacity, lengths_capacity, before_capacity;
	struct map numbers; /* by id, of a block that has it behind two others also by a hash */
	uint32_t *before;   /* (block_count) of a block with an id: the one that it follows */
	uint64_t *ids;
	size_t ids_capacity;
};

enum { REFERENCES_MAX = INT32_MAX };

/* block_size: tokens per hash id, or per block that token ids are cut into. */
void references_init(struct references *references, uint32_t block_size);
void references_deinit(struct references *references);

/* Adds a row. STATUS_INPUT beyond REFERENCES_MAX references in all. */
enum status references_add(
	struct references *references, const struct trace_row *row, struct error *error);

/* Adds all rows of a trace. *has_ids: a row says what its prompt shares with others. */
enum status references_read(
	struct references *references, struct trace *trace, bool *has_ids, struct error *error);

/* Tokens in a reference's block: block_size, or fewer in the last block of a prompt. */
static inline uint32_t references_tokens(
	const struct references *references, uint64_t request, uint64_t index_in_request)
{
	uint64_t before = index_in_request * references->block_size;
	uint64_t left = references->input_lengths[request] - before;
	return left < references->block_size ? (uint32_t)left : references->block_size;
}

/* Number of blocks of a row: its hash ids, or else ceil(input_length / block_size). */
uint32_t row_block_count(const struct trace_row *row, uint32_t block_size);

/* Writes the ids of these blocks to ids: (row_block_count()), from hash ids or token ids. False:
   the row has neither. */
bool row_block_ids(const struct trace_row *row, uint32_t block_size, uint64_t *ids);

#endif
