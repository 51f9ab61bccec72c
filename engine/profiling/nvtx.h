#ifndef ENGINE_PROFILING_NVTX_H
#define ENGINE_PROFILING_NVTX_H

#include <stdint.h>

/* What the GPU is being told to do, as nested ranges: NVTX ranges in the domain "quire", which any
   profiler of NVIDIA's shows, and a struct range_stack for kernel times of our own. With neither, a
   range costs some nanoseconds.

   This is the one place that names operations: a launch belongs to the ranges open around it, and
   so does a node of a graph, by those open at its capture. */

enum { RANGE_DEPTH_MAX = 8 };

#define RANGE_NO_LAYER UINT32_MAX
#define RANGE_NO_STEP UINT64_MAX

struct range {
	const char *name; /* outlives the run: a literal, or a name out of a table */
	uint32_t layer;	  /* or RANGE_NO_LAYER */
	uint32_t rows;	  /* that are computed, padding included; 0: unknown */
	uint32_t serial;  /* tells one execution of a range from the next */
};

/* The ranges that are open, the outermost first. Owned by the source of kernel times that reads it;
   written and read by the launching thread only. */
struct range_stack {
	struct range open[RANGE_DEPTH_MAX];
	uint32_t depth; /* may be larger: what is deeper is not kept */
	uint32_t push_count;
	uint64_t step; /* that is being launched, or RANGE_NO_STEP */
};

struct nvtx_ranges;

/* stack: borrowed until the end; NULL: disabled. */
struct nvtx_ranges *nvtx_open(struct range_stack *stack);
void nvtx_close(struct nvtx_ranges *ranges); /* accepts NULL */

/* What is launched from here on belongs to this step; a mark "step" that carries its number. Every
   function from here on accepts NULL: disabled. */
void nvtx_step(struct nvtx_ranges *ranges, uint64_t step);

void nvtx_push(struct nvtx_ranges *ranges, const char *name);

/* "NAME LAYER", with the number of rows that the operation computes as its payload. */
void nvtx_push_layer(
	struct nvtx_ranges *ranges, const char *name, uint32_t layer, uint32_t row_count);

void nvtx_pop(struct nvtx_ranges *ranges);

#endif
