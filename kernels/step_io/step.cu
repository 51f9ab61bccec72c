#include "kernels/device/device.cuh"
#include "kernels/step_io/step.h"

/* ---- kernels ---- */

enum { BEGIN_THREADS = 256, END_THREADS = 512 };

static __device__ uint64_t clock_ns()
{
	uint64_t now;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
	return now;
}

/* The host's memory is read past the caches, which may hold what stood there before. The first read
   of each thread is under way before any is waited for. */
static __global__ void __launch_bounds__(BEGIN_THREADS)
	step_begin_kernel(struct step_edges edges, uint32_t sure_chunks)
{
	const uint32_t thread = blockIdx.x * BEGIN_THREADS + threadIdx.x;
	const uint32_t threads = STEP_BLOCKS * BEGIN_THREADS;
	__shared__ uint32_t counts[2];

	dependents_launch();
	uint32_t turn = (uint32_t)(*edges.count & 1);
	const unsigned char *host = edges.host_data + turn * edges.host_stride;
	const unsigned char *host_data = host + STEP_BLOCKS * sizeof(struct step_head);
	const uint4 *from = reinterpret_cast<const uint4 *>(host_data);
	const uint4 *additions = reinterpret_cast<const uint4 *>(host_data + edges.data_bytes);
	uint4 *to = reinterpret_cast<uint4 *>(edges.data);
	uint4 chunk = {}, addition = {}, head = {};

	if (thread == 0) {
		edges.marks[turn].begin_ns = clock_ns();
	}
	if (thread < sure_chunks) {
		chunk = __ldcv(from + thread);
	}
	if (thread < STEP_SURE_ADDITIONS) {
		addition = __ldcv(additions + thread);
	}
	if (threadIdx.x == 0) {
		head = __ldcv(reinterpret_cast<const uint4 *>(
			host + blockIdx.x * sizeof(struct step_head)));
		counts[0] = head.x;
		counts[1] = head.y;
	}
	if (thread < sure_chunks) {
		to[thread] = chunk;
	}
	__syncthreads();
	uint32_t chunk_count = max(counts[0], sure_chunks);
	for (uint32_t i = thread < sure_chunks ? thread + threads : thread; i < chunk_count;
		i += threads) {
		to[i] = __ldcv(from + i);
	}
	for (uint32_t i = thread; i < counts[1]; i += threads) {
		uint4 a = i < STEP_SURE_ADDITIONS ? addition : __ldcv(additions + i);
		edges.tables[(size_t)a.x * edges.table_width + a.y] = a.z;
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
	__syncthreads();
	if (threadIdx.x == 0) {
		volatile struct step_mark *mark = &edges.marks[turn];
		*edges.count = count + 1;
		mark->end_ns = clock_ns();
		__threadfence_system(); /* for the tokens of all threads */
		mark->done = count + 1;
	}
}

/* ---- launchers ---- */

int step_begin(const struct step_edges *edges, size_t sure_bytes, struct CUstream_st *stream)
{
	static_assert(sizeof(struct step_head) == 128, "a line of its own");
	static_assert(sizeof(struct table_addition) == sizeof(uint4), "read at once");

	step_begin_kernel<<<STEP_BLOCKS, BEGIN_THREADS, 0, stream>>>(
		*edges, (uint32_t)(sure_bytes / STEP_CHUNK));
	return (int)cudaGetLastError();
}

int step_end(const struct step_edges *edges, uint32_t token_count, struct CUstream_st *stream)
{
	return launch_dependent(
		step_end_kernel, dim3(1), dim3(END_THREADS), 0, stream, *edges, token_count);
}
