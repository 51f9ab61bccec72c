#ifndef BENCH_RECORD_CAPACITY_H
#define BENCH_RECORD_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/integer.h"
#include "engine/base/status.h"
#include "engine/batch.h"
#include "engine/config.h"
#include "engine/runner.h"

/* How much of what an engine can carry a run used.

   An engine is busy whenever one sequence runs, so the share of busy time says little: a step of
   500 sequences may take no longer than one of 50. Utilisation asks instead how long the same work
   would have taken at capacity, where the queue starts to grow:

       utilisation = time at capacity / time from the first arrival to the end of the run

   At capacity so many sequences run as give the most throughput, of those that find a seat and KV
   blocks: a queue grows only when no number of rows keeps up. Steps are priced by the runner or by
   the profile of its GPU.

       rows      <= min(max_num_seqs, KV blocks / mean blocks of a running sequence)
       and, where prompts share steps with decode rows, rows * (1 + prefill / decode tokens) <=
                    max_num_batched_tokens
       decode     = price(rows decode rows) / rows                           a decode token
       prefill    = (price(rows decode rows and a chunk) - price(rows)) / chunk   a prompt token
                    where they share steps, else price(a chunk) / chunk
       chunk        the prompts that are admitted in a step at that rate, at least one of them,
                    cut to the token budget

   Contexts, hits, shared tokens and prompt lengths are the means of the run's own steps. */

/* What the steps of a run computed, summed. */
struct step_sums {
	uint64_t decode_steps, decode_rows;
	uint64_t decode_context_tokens, decode_longest_context;
	uint64_t prompts; /* whose last chunk was computed; after a preemption once more */
	uint64_t prefill_tokens, prefill_attention_pairs, cached_tokens;
	uint64_t shared_tokens, reread_tokens, repeat_tokens;
	uint64_t running_peak, used_blocks_peak, tokens_peak;
};

static inline void step_sums_add(struct step_sums *sums, const struct step_counts *counts)
{
	uint64_t tokens = counts->decode_rows + counts->prefill_tokens;

	sums->running_peak = u64_max(sums->running_peak, counts->running);
	sums->used_blocks_peak = u64_max(sums->used_blocks_peak, counts->used_blocks);
	sums->tokens_peak = u64_max(sums->tokens_peak, tokens);
	if (counts->decode_rows > 0) {
		sums->decode_steps++;
		sums->decode_rows += counts->decode_rows;
		sums->decode_context_tokens += counts->decode_context_tokens;
		sums->decode_longest_context += counts->decode_longest_context;
	}
	if (counts->prefill_rows > 0) {
		sums->prompts += counts->sampled_rows - counts->decode_rows;
		sums->prefill_tokens += counts->prefill_tokens;
		sums->prefill_attention_pairs += counts->prefill_attention_pairs;
		sums->cached_tokens += counts->cached_tokens;
	}
	if (counts->shared_tokens > 0) {
		sums->shared_tokens += counts->shared_tokens;
		sums->reread_tokens += counts->reread_tokens;
		sums->repeat_tokens += counts->repeat_tokens;
	}
}

/* Adds another replica's sums; peaks are those of one replica. */
void step_sums_join(struct step_sums *sums, const struct step_sums *other);

/* All but the peaks, which stay. */
static inline void step_sums_subtract(struct step_sums *sums, const struct step_sums *earlier)
{
	sums->decode_steps -= earlier->decode_steps;
	sums->decode_rows -= earlier->decode_rows;
	sums->decode_context_tokens -= earlier->decode_context_tokens;
	sums->decode_longest_context -= earlier->decode_longest_context;
	sums->prompts -= earlier->prompts;
	sums->prefill_tokens -= earlier->prefill_tokens;
	sums->prefill_attention_pairs -= earlier->prefill_attention_pairs;
	sums->cached_tokens -= earlier->cached_tokens;
	sums->shared_tokens -= earlier->shared_tokens;
	sums->reread_tokens -= earlier->reread_tokens;
	sums->repeat_tokens -= earlier->repeat_tokens;
}

/* The time that the work of `sums` takes at capacity, in ns. blocks_per_sequence: mean KV blocks of
   a running sequence, time-weighted. Returns false where the work is none or has no price. */
bool capacity_time(const struct step_sums *sums, const struct engine_config *limits,
	double blocks_per_sequence, const struct runner *pricer, double *ns);

#endif
