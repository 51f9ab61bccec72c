#include "tests/harness/cuda_account.h"

#include <cuda_runtime_api.h>

/* The calls have no context. Test programs call CUDA from one thread at a time. */
static struct cuda_account held;

struct cuda_account cuda_account(void)
{
	return held;
}

/* X(call, parameters, arguments, what is counted, by how much). Of no bytes there is no memory. */
#define COUNTED_CALLS(X)                                                                           \
	X(cudaMalloc, (void **out, size_t bytes), (out, bytes), device, *out != NULL)              \
	X(cudaFree, (void *memory), (memory), device, memory == NULL ? 0 : -1)                     \
	X(cudaMallocHost, (void **out, size_t bytes), (out, bytes), pinned, *out != NULL)          \
	X(cudaFreeHost, (void *memory), (memory), pinned, memory == NULL ? 0 : -1)                 \
	X(cudaStreamCreate, (cudaStream_t * out), (out), streams, 1)                               \
	X(cudaStreamDestroy, (cudaStream_t stream), (stream), streams, -1)                         \
	X(cudaEventCreateWithFlags, (cudaEvent_t * out, unsigned flags), (out, flags), events, 1)  \
	X(cudaEventDestroy, (cudaEvent_t event), (event), events, -1)                              \
	X(cudaGraphInstantiate,                                                                    \
		(cudaGraphExec_t * out, cudaGraph_t graph, unsigned long long flags),              \
		(out, graph, flags), graphs, 1)                                                    \
	X(cudaGraphExecDestroy, (cudaGraphExec_t graph), (graph), graphs, -1)

#define COUNT_CALL(call, parameters, arguments, counted, by)                                       \
	cudaError_t __real_##call parameters;                                                      \
	cudaError_t __wrap_##call parameters;                                                      \
	cudaError_t __wrap_##call parameters                                                       \
	{                                                                                          \
		cudaError_t code = __real_##call arguments;                                        \
                                                                                                   \
		held.counted += code == cudaSuccess ? (by) : 0;                                    \
		return code;                                                                       \
	}

COUNTED_CALLS(COUNT_CALL)
