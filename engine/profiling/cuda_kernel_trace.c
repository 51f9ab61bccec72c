#include "engine/profiling/cuda_kernel_trace.h"

#ifdef QUIRE_HAS_CUPTI
#include "engine/profiling/cupti_trace.h"
#endif

enum status cuda_kernel_trace_open(
	struct kernel_source *out, struct range_stack **stack, struct error *error)
{
#ifdef QUIRE_HAS_CUPTI
	return cupti_trace_open(out, stack, error);
#else
	(void)out;
	(void)stack;
	return error_set(error, STATUS_DEVICE,
		"kernel times need CUPTI, whose headers were missing when this was built");
#endif
}
