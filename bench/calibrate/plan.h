#ifndef BENCH_CALIBRATE_PLAN_H
#define BENCH_CALIBRATE_PLAN_H

#include <stdint.h>
#include <stdio.h>

#include "engine/shape/model_config.h"
#include "sim/profile.h"

/* What a calibration makes the engine do: a trace whose replay visits the grid.

   The trace is a row of scenes, in seeded random order, a thousand virtual seconds apart, so that a
   scene begins with an idle engine and decides alone what its steps compute. The time between them
   is jumped over.

       stairs   as many sequences as the widest batch, equal or ragged, are prefilled; then they
		end one group after the other, so that the decode batch goes down a stair whose
		treads lie on both sides of the edges of graph buckets; with distinct contexts,
		or groups of them behind a prefix whose blocks they share, or one many times
		as long as the others, which stays to the end
       prompts  single prompts of many lengths behind a cached prefix, each alone
       crowds   several prompts in a step, equal or ragged, with or without prefixes
       mixed    prompts of many lengths that arrive while a batch decodes

   Long prompts slow a GPU down for a while. So before short prompts or few rows are measured it
   rests, as far as decoding a sequence alone is rest, and prompts come the shortest first.

   What comes before CALIBRATE_WARM_NS warms the GPU up and is no measurement. */

#define CALIBRATE_WARM_NS (UINT64_C(1000) * 1000000000)

struct calibrate_plan {
	const struct model_config *model;
	const struct gpu_profile *gpu; /* for estimates of duration alone */
	uint64_t seed;
	double budget_s;
	uint32_t block_size;
	uint32_t kv_blocks; /* of the pool, or an estimate */
	uint32_t max_num_seqs;
	uint32_t max_num_batched_tokens;
	uint32_t max_model_len;
};

struct calibrate_plan_size {
	uint32_t scenes, scenes_left_out; /* for lack of time or of KV blocks */
	double estimate_s;
};

/* Writes the trace as Mooncake JSONL. Scenes are taken by falling importance as long as the
   estimate stays within the budget. Failures show in ferror(file). */
void calibrate_plan_write(
	const struct calibrate_plan *plan, FILE *file, struct calibrate_plan_size *size);

/* A stair alone whose requests are all there from the start, so that nothing can arrive any more
   and steps are launched ahead. */
void calibrate_plan_write_ahead(const struct calibrate_plan *plan, FILE *file);

#endif
