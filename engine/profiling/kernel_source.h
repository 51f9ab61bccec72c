#ifndef ENGINE_PROFILING_KERNEL_SOURCE_H
#define ENGINE_PROFILING_KERNEL_SOURCE_H

#include <stddef.h>
#include <stdint.h>

/* The source of kernel times: engine/profiling/cuda_kernel_trace.h, or a test. It returns a record
   for every kernel, copy and fill that the GPU ran, some time after it ended. */

#define KERNEL_NO_SITE UINT32_MAX

/* The ranges that were open around a call (engine/profiling/nvtx.h). */
struct kernel_site {
	const char *path;      /* names from the outermost on, such as "prefill/qkv"; "": no range
				  */
	const char *operation; /* the innermost name; "": no range */
	uint32_t layer;	       /* of the innermost that has one, or RANGE_NO_LAYER */
};

struct kernel_record {
	uint64_t start_ns, end_ns; /* on the source's clock */
	uint64_t step;		   /* the step it was launched for, or RANGE_NO_STEP */
	uint32_t launch_site;	   /* around the launch */
	uint32_t graph_site;	   /* around its capture; KERNEL_NO_SITE: not of a graph */
	uint32_t rows;		   /* that the operation computed, 0: unknown */
	uint32_t call;	  /* differs from one execution of the innermost range to the next */
	uint64_t bytes;	  /* of a copy or fill, else 0 */
	const char *name; /* mangled name of the kernel; equal names are one pointer, which lives as
			     long as the source */
};

struct kernel_source {
	void *state; /* NULL: there is no source */

	/* Now, on the clock of the records. */
	uint64_t (*now)(void *state);

	/* Removes and returns records that have arrived, at most capacity; returns their number. */
	size_t (*take)(void *state, struct kernel_record *records, size_t capacity);

	/* Waits until the records of all completed work have arrived. */
	void (*flush)(void *state);

	struct kernel_site (*site)(void *state, uint32_t index);

	/* Number of records that were dropped, or whose launch is no longer known. */
	uint64_t (*lost)(void *state);

	void (*close)(void *state);
};

#endif
