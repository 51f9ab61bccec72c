#ifndef BENCH_CALIBRATE_PLAN_H
#define BENCH_CALIBRATE_PLAN_H

#include <stdint.h>
#include <stdio.h>

#include "engine/runner.h"

/* The measuring plan of a calibration: a trace whose replay contains steps of all kinds.

   The trace is a sequence of scenes, in seeded random order, 1,000 virtual seconds apart. So each
   scene begins with an idle engine, and only its own requests determine its steps. The time between
   scenes is skipped.

       decode sweep   as many sequences as the widest batch, equal or ragged. They end one
		      group after the other, so the decode batch shrinks from step to step, through
		      batch sizes on both sides of graph buckets. Contexts are distinct, or groups
		      of them share the blocks of a prefix, which may begin with what all share,
		      or one is many times as long as the others and stays to the end
       prompts        single prompts of many lengths behind a cached prefix
       prefill batch  several prompts in a step, equal or ragged, behind prefixes of their own, or
		      some that groups of them share, or none
       mixed          prompts of many lengths, or a crowd of them, that join a decoding batch,
		      which is equal or ragged, and may share a prefix. Each is a turn that follows
		      the end of the one before it at once
       burst          prompts one after the other for some seconds

   A scene with prompts is played three times, once in each third of the plan, with the same counts,
   so that a step's time is a median of three places. The contexts of decode rows, and prefixes, are
   not computed: their rows say stored_length (workloads/trace/trace.h). What K and V hold is then
   that of earlier scenes, or the numbers that the pool was filled with. Only the last tokens of a
   context are computed, so that contexts end anywhere in a block; fewer where many rows or a large
   model would take long. The steps that follow, before the batch shrinks, let the GPU cool down. A
   prompt behind or beside something is cut to what a step of a quarter of a second computes.

   Long prompts lower the GPU's clock for a while. So before prompts or few rows are measured,
   decoding one sequence lets the GPU cool down, and prompts are measured shortest first. In one of
   its three places a scene with prompts begins hot instead, behind a few long prompts, as it often
   does in traffic. In the other two the GPU rests before each prompt of the usual lengths that has
   no prefix and takes 3 to 150 ms, so that the same steps are measured hot and rested.

   Steps before CALIBRATE_WARM_NS warm the GPU up and are not measured. */

/* Tokens of a hash id of the trace: a block, the least that sequences share. */
enum { CALIBRATE_ID_TOKENS = 256 };

#define CALIBRATE_WARM_NS (UINT64_C(1000) * 1000000000)

struct calibrate_plan {
	const struct runner *pricer; /* with a price, for estimates of the duration only */
	uint64_t seed;
	double budget_s;
	uint32_t block_size;
	uint32_t kv_blocks; /* blocks of the pool, or an estimate */
	uint32_t max_num_seqs;
	uint32_t max_num_batched_tokens;
	uint32_t max_model_len;
};

struct calibrate_plan_size {
	uint32_t scenes, scenes_left_out; /* for lack of time or of KV blocks */
	double estimate_s;
};

/* Writes the trace as Mooncake JSONL. Scenes are added by falling importance while the estimate
   stays within the budget. Failures are reported by ferror(file). */
void calibrate_plan_write(
	const struct calibrate_plan *plan, FILE *file, struct calibrate_plan_size *size);

/* Writes a single decode sweep whose requests all arrive at the start. Nothing arrives later, so
   steps are launched ahead. */
void calibrate_plan_write_ahead(const struct calibrate_plan *plan, FILE *file);

#endif
