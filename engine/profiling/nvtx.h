#ifndef ENGINE_PROFILING_NVTX_H
#define ENGINE_PROFILING_NVTX_H

#include <stdint.h>

/* Names the operations that are being launched, as nested ranges: NVTX ranges in the domain
   "quire", which NVIDIA's profilers show, and a struct range_stack for quire's own kernel times.
   When neither is used, a range costs some nanoseconds.

   A launch belongs to the ranges that are open around it; a node of a graph belongs to those open
   at its capture. */

enum { RANGE_DEPTH_MAX = 8 };

#define RANGE_NO_LAYER UINT32_MAX
#define RANGE_NO_STEP UINT64_MAX

struct range {
	const char *name; /* outlives the run: a literal, or a name of a table */
	uint32_t layer;	  /* or RANGE_NO_LAYER */
	uint32_t rows;	  /* rows computed, padding included; 0: unknown */
	uint32_t serial;  /* differs between executions of a range */
};

/* The ranges that are open, the outermost first. Owned by the source of kernel times that reads it;
   written and read by the launching thread only. */
struct range_stack {
	struct range open[RANGE_DEPTH_MAX];
	uint32_t depth; /* may exceed RANGE_DEPTH_MAX: deeper ranges are not stored */
	uint32_t push_count;
	uint64_t step; /* the step being launched, or RANGE_NO_STEP */
};

struct nvtx_ranges;

/* stack: borrowed until the end; NULL: disabled. */
struct nvtx_ranges *nvtx_open(struct range_stack *stack);
void nvtx_close(struct nvtx_ranges *ranges); /* accepts NULL */

/* Later launches belong to this step. Emits an NVTX mark "step" with its number. This function and
   those below accept NULL: disabled. */
void nvtx_step(struct nvtx_ranges *ranges, uint64_t step);

void nvtx_push(struct nvtx_ranges *ranges, const char *name);

/* "NAME LAYER", with the number of rows that the operation computes as its payload. */
void nvtx_push_layer(
	struct nvtx_ranges *ranges, const char *name, uint32_t layer, uint32_t row_count);

void nvtx_pop(struct nvtx_ranges *ranges);

#endif
