#include "kernels/device.cuh"
#include "kernels/step.h"

/* ---- kernels ---- */

enum { BEGIN_BLOCKS = 16, BEGIN_THREADS = 256, END_THREADS = 512 };

static __device__ uint64_t clock_ns()
{
	uint64_t now;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
	return now;
}

/* The host's memory is read past the caches, which may hold what stood there before. */
static __global__ void step_begin_kernel(
	struct step_edges edges, uint32_t sure_chunks, size_t addition_start)
{
	uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
	uint32_t threads = gridDim.x * blockDim.x;
	uint32_t turn = (uint32_t)(*edges.count & 1);
	const unsigned char *host = edges.host_data + turn * edges.host_stride;
	const uint4 *from = reinterpret_cast<const uint4 *>(host);
	uint4 *to = reinterpret_cast<uint4 *>(edges.data);
	uint32_t i = thread;

	if (thread == 0) {
		edges.marks[turn].begin_ns = clock_ns();
	}
	uint4 head = __ldcv(from);
	for (; i < sure_chunks; i += threads) {
		to[i] = __ldcv(from + i);
	}
	for (; i < head.x; i += threads) {
		to[i] = __ldcv(from + i);
	}
	const uint32_t *additions = reinterpret_cast<const uint32_t *>(host + addition_start);
	for (uint32_t a = thread; a < head.y; a += threads) {
		uint32_t row = __ldcv(additions + 3 * a);
		uint32_t index = __ldcv(additions + 3 * a + 1);
		edges.tables[(size_t)row * edges.table_width + index] =
			__ldcv(additions + 3 * a + 2);
	}
}

static __global__ void step_end_kernel(struct step_edges edges, uint32_t token_count)
{
	dependency_wait();
	uint64_t count = *edges.count;
	uint32_t turn = (uint32_t)(count & 1);
	int32_t *tokens = edges.host_tokens + turn * edges.token_stride;

	for (uint32_t i = threadIdx.x; i < token_count; i += blockDim.x) {
		tokens[i] = edges.sampled[i];
	}
	__threadfence_system();
	__syncthreads();
	if (threadIdx.x == 0) {
		volatile struct step_mark *mark = &edges.marks[turn];
		*edges.count = count + 1;
		mark->end_ns = clock_ns();
		__threadfence_system();
		mark->done = count + 1;
	}
}

/* ---- launchers ---- */

int step_begin(const struct step_edges *edges, size_t sure_bytes, size_t addition_start,
	struct CUstream_st *stream)
{
	static_assert(sizeof(struct step_head) == STEP_CHUNK, "a chunk of its own");
	static_assert(sizeof(struct table_addition) == 3 * sizeof(uint32_t), "read as words");

	step_begin_kernel<<<BEGIN_BLOCKS, BEGIN_THREADS, 0, stream>>>(
		*edges, (uint32_t)(sure_bytes / STEP_CHUNK), addition_start);
	return (int)cudaGetLastError();
}

int step_end(const struct step_edges *edges, uint32_t token_count, struct CUstream_st *stream)
{
	return launch_dependent(
		step_end_kernel, dim3(1), dim3(END_THREADS), 0, stream, *edges, token_count);
}
