#ifndef BENCH_CALIBRATE_STEP_LOG_H
#define BENCH_CALIBRATE_STEP_LOG_H

#include "bench/calibrate/points.h"
#include "sim/operation_prices.h"

/* The step log of an engine that is not quire's: a tab-separated table with one header line and a
   row a step, plain or compressed with gzip or zstd. bench/vllm/README.md says what the columns
   mean, and bench/vllm/record_steps.py records them.

       required  elapsed_ns, decode_rows, prefill_tokens, decode_context_tokens
       optional  phase, prefill_rows (else 1 where there are prompt tokens), sampled_rows (else a
		 token for each row), prefill_attention_pairs (else of whole prompts of equal
		 length), decode_longest_context, prefill_longest_context, prefill_tiles,
		 prefill_tile_keys, prefill_chain_keys, prefill_half_chain_keys,
		 prefill_context_tokens, prefill_shared_tokens (needs the column before),
		 shared_tokens, reread_tokens, repeat_tokens

   Other columns are not read. Rows and tokens of a step are below 2^32, its time is at most
   STEP_PRICE_LIMIT, other numbers are at most 2^52, and all counts are those of a step that can be
   (sim/possible_step.h); a log has at least one step and at most STEP_LOG_STEPS_MAX. */

enum { STEP_LOG_STEPS_MAX = 1 << 22 };

struct step_log_options {
	const char *left_out; /* phase that is not read, as "warmup"; NULL: none */
	const char *held_out; /* phase that no price is fitted to, as "nano"; NULL: none */
};

struct step_log {
	struct calibrate_points fitted, held_out; /* in the log's order; all have samples 1 */
	uint64_t left_out_count;
	uint64_t late_count; /* by step_log_drop_late() */
};

enum status step_log_read(struct step_log *out, const char *path,
	const struct step_log_options *options, struct error *error);
void step_log_free(struct step_log *log);

/* Leaves out of `fitted` what was noticed late. Where steps are decided ahead, the host may be busy
   with the next one when a step's tokens arrive: that step then took its own time and some of the
   next one's, which took less than it can. So a step below its floors (operation_roofline()) goes,
   and the one before it too. The held-out phase keeps all: its sum is right. */
void step_log_drop_late(struct step_log *log, const struct operation_floors *floors);

#endif
