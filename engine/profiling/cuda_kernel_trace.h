#ifndef ENGINE_PROFILING_CUDA_KERNEL_TRACE_H
#define ENGINE_PROFILING_CUDA_KERNEL_TRACE_H

#include "engine/base/status.h"
#include "engine/profiling/kernel_source.h"
#include "engine/profiling/nvtx.h"

/* Kernel times from CUPTI's activity records, in graphs too.

       a launch ──► callback: correlation id, ranges open, step ──► launches ─┐
       capture ───► callback: node made, ranges open ──► nodes ◄─ cloned ─────┤
       the GPU ───► CUPTI's buffers ──► record: correlation id, graph node ◄──┴─► kernel_record

   CUPTI fills at most 64 buffers of 1 MiB; records without a buffer are lost and counted. The
   latest 2^19 changes of range are kept: a record that arrives later is lost too. CUPTI is loaded
   when the trace is opened, which has to be before the first CUDA call. */

/* At most one trace may be open in a program. The runner's ranges must be opened with *stack, which
   lives as long as the source. */
enum status cuda_kernel_trace_open(
	struct kernel_source *out, struct range_stack **stack, struct error *error);

#endif
