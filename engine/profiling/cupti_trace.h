#ifndef ENGINE_PROFILING_CUPTI_TRACE_H
#define ENGINE_PROFILING_CUPTI_TRACE_H

#include "engine/base/status.h"
#include "engine/profiling/kernel_source.h"
#include "engine/profiling/nvtx.h"

/* cuda_kernel_trace_open() of builds with CUPTI's headers. */
enum status cupti_trace_open(
	struct kernel_source *out, struct range_stack **stack, struct error *error);

#endif
