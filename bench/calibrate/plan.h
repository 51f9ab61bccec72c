#ifndef BENCH_CALIBRATE_PLAN_H
#define BENCH_CALIBRATE_PLAN_H

#include <stdint.h>
#include <stdio.h>

#include "engine/shape/model_config.h"
#include "sim/profile.h"

/* What a calibration makes the engine do: a trace whose replay measures steps of all kinds.

   The trace is a row of scenes, in seeded random order, a thousand virtual seconds apart, so that a
   scene begins with an idle engine and decides alone what its steps compute. The time between them
   is jumped over.

       decode sweep   prefills as many sequences as the widest batch, equal or ragged. They end one
		      group after the other, so the decode batch shrinks from step to step, through
		      batch sizes on both sides of graph buckets. Contexts are distinct, or groups
		      of them share the blocks of a prefix, or one is many times as long as the
		      others and stays to the end
       prompts        single prompts of many lengths behind a cached prefix
       prefill batch  several prompts in a step, equal or ragged, with or without prefixes
       mixed          prompts of many lengths that arrive while a batch decodes

   Long prompts lower the GPU's clock for a while. So before short prompts or few rows are measured
   it cools down, as far as decoding one sequence lets it, and prompts come the shortest first.

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

/* Writes the trace as Mooncake JSONL. Scenes are added by falling importance while the estimate
   stays within the budget. Failures show in ferror(file). */
void calibrate_plan_write(
	const struct calibrate_plan *plan, FILE *file, struct calibrate_plan_size *size);

/* A single decode sweep whose requests are all there from the start: nothing can arrive any more,
   so steps are launched ahead. */
void calibrate_plan_write_ahead(const struct calibrate_plan *plan, FILE *file);

#endif
