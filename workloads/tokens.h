#ifndef WORKLOADS_TOKENS_H
#define WORKLOADS_TOKENS_H

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
   blocks filled by a completion can be hit. */

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

#endif
