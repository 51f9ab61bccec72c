#ifndef WORKLOADS_TOKENS_H
#define WORKLOADS_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "workloads/trace/trace.h"

/* Token ids where a trace has only lengths and hash ids. Every id is a pure function of its key, by
   engine/base/counter_hash.h, and uniform in [0, vocab_size):

       prompt with hash ids     (seed, hash id, offset in its block): equal ids give equal tokens
       prompt without           (seed, row index, position)
       forced completion        (seed, row index, position in the sequence)
       a span of a prompt       (seed, the earlier row's index or block's id, position there)
       spelled out by the trace the trace's own ids, modulo vocab_size

   So a turn that continues an earlier one repeats the tokens of its prompt and completion, and
   blocks filled by a completion can be hit.

   A key has a stream of tokens. A row's tokens are pieces of streams, one behind the other; the
   pieces say what is equal without any token being made (workloads/block_keys.h). */

struct token_source {
	uint64_t seed;
	uint32_t vocab_size; /* min(model's vocab_size, 151643): below Qwen3's special tokens */
	uint32_t trace_block_size; /* tokens per hash id */
};

enum { TOKEN_VOCABULARY_LIMIT = 151643 };

/* token_ids: (row->input_length). */
void tokens_prompt(
	const struct token_source *source, const struct trace_row *row, int32_t *token_ids);

/* token_ids: (row->output_length), at positions input_length and up. */
void tokens_forced(
	const struct token_source *source, const struct trace_row *row, int32_t *token_ids);

/* Tokens [first, first + count) of a stream, or ids that the trace spells out. */
struct token_piece {
	uint64_t key;
	uint64_t first;
	const uint64_t *given; /* (count), or NULL: a piece of a stream */
	uint32_t count;	       /* >= 1 */
};

/* A walk over the pieces of a row's prompt and completion, from a position on. */
struct token_pieces {
	const struct trace_row *row;
	uint32_t trace_block_size;
	uint64_t block_base, row_base; /* keys of the streams' keys */
	uint64_t row_key;
	uint32_t position; /* of the next piece */
	uint32_t span;	   /* the first one that does not end before it */
};

struct token_pieces token_pieces_from(
	const struct token_source *source, const struct trace_row *row, uint32_t position);

/* false: the completion has ended. */
bool token_pieces_next(struct token_pieces *pieces, struct token_piece *piece);

/* Tokens [skipped, skipped + count) of a piece and, of a stream, what follows it. */
void token_piece_fill(const struct token_piece *piece, uint64_t skipped, size_t count,
	uint32_t vocab_size, int32_t *token_ids);

#endif
