#ifndef ENGINE_PROFILING_KERNEL_SOURCE_H
#define ENGINE_PROFILING_KERNEL_SOURCE_H

#include <stddef.h>
#include <stdint.h>

/* Where kernel times come from: engine/profiling/cuda_kernel_trace.h, or a test. A source gives a
   record for every kernel, copy and fill that the GPU ran, some time after it ended. */

#define KERNEL_NO_SITE UINT32_MAX

/* The ranges that were open around a call (engine/profiling/nvtx.h). */
struct kernel_site {
	const char *path;      /* names from the outermost on, as "prefill/qkv"; "": no range */
	const char *operation; /* the innermost name; "": no range */
	uint32_t layer;	       /* of the innermost that has one, or RANGE_NO_LAYER */
};

struct kernel_record {
	uint64_t start_ns, end_ns; /* on the source's clock */
	uint64_t step;		   /* for which it was launched, or RANGE_NO_STEP */
	uint32_t launch_site;	   /* around the launch */
	uint32_t graph_site;	   /* around its capture; KERNEL_NO_SITE: not of a graph */
	uint32_t rows;		   /* that the operation computed, 0: unknown */
	uint32_t call;	  /* differs from one execution of the innermost range to the next */
	uint64_t bytes;	  /* of a copy or fill, else 0 */
	const char *name; /* of the kernel as the compiler calls it; one pointer a name, lives as
			     long as the source */
};

struct kernel_source {
	void *state; /* NULL: there is no source */

	/* Now, on the clock of the records. */
	uint64_t (*now)(void *state);

	/* Takes records that have arrived, at most capacity; returns how many. */
	size_t (*take)(void *state, struct kernel_record *records, size_t capacity);

	/* Lets everything that the GPU has done arrive. */
	void (*flush)(void *state);

	struct kernel_site (*site)(void *state, uint32_t index);

	/* Records that will never arrive, or whose launch has been forgotten. */
	uint64_t (*lost)(void *state);

	void (*close)(void *state);
};

#endif
