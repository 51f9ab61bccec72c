#include "kernels/device/early_launch.cuh"
#include "kernels/step_io/step_io.h"

/* ---- kernels ---- */

enum { BEGIN_THREADS = 256, END_THREADS = 512 };

static __device__ uint64_t clock_ns()
{
	uint64_t now;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
	return now;
}

/* Copies a step's data from pinned host memory to the device, and scatters the additions into
   the block tables. It is latency-bound by round trips over the bus, so each thread issues all
   its first reads before it waits for any. The reads bypass the caches, which may hold an
   earlier step's bytes. */
static __global__ void __launch_bounds__(BEGIN_THREADS)
	step_begin_kernel(struct step_io io, uint32_t speculative_chunks)
{
	const uint32_t thread = blockIdx.x * BEGIN_THREADS + threadIdx.x;
	const uint32_t threads = STEP_BLOCKS * BEGIN_THREADS;
	__shared__ uint32_t counts[2];

	dependents_launch();
	uint32_t slot = (uint32_t)(*io.step_count & 1);
	const unsigned char *host = io.host_data + slot * io.host_stride;
	const unsigned char *host_data = host + STEP_BLOCKS * sizeof(struct step_header);
	const uint4 *from = reinterpret_cast<const uint4 *>(host_data);
	const uint4 *additions = reinterpret_cast<const uint4 *>(host_data + io.data_bytes);
	uint4 *to = reinterpret_cast<uint4 *>(io.data);
	uint4 chunk = {}, addition = {}, header = {};

	if (thread == 0) {
		io.completions[slot].begin_ns = clock_ns();
	}
	if (thread < speculative_chunks) {
		chunk = __ldcv(from + thread);
	}
	if (thread < STEP_SPECULATIVE_ADDITIONS) {
		addition = __ldcv(additions + thread);
	}
	if (threadIdx.x == 0) {
		header = __ldcv(reinterpret_cast<const uint4 *>(
			host + blockIdx.x * sizeof(struct step_header)));
		counts[0] = header.x;
		counts[1] = header.y;
	}
	if (thread < speculative_chunks) {
		to[thread] = chunk;
	}
	__syncthreads();
	uint32_t chunk_count = max(counts[0], speculative_chunks);
	for (uint32_t i = thread < speculative_chunks ? thread + threads : thread; i < chunk_count;
		i += threads) {
		to[i] = __ldcv(from + i);
	}
	for (uint32_t i = thread; i < counts[1]; i += threads) {
		uint4 a = i < STEP_SPECULATIVE_ADDITIONS ? addition : __ldcv(additions + i);
		io.tables[(size_t)a.x * io.table_width + a.y] = a.z;
	}
}

static __global__ void step_end_kernel(struct step_io io, uint32_t token_count)
{
	dependency_wait();
	uint64_t count = *io.step_count;
	uint32_t slot = (uint32_t)(count & 1);
	int32_t *tokens = io.host_tokens + slot * io.token_stride;

	for (uint32_t i = threadIdx.x; i < token_count; i += blockDim.x) {
		tokens[i] = io.sampled[i];
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		volatile struct step_completion *completion = &io.completions[slot];
		*io.step_count = count + 1;
		completion->end_ns = clock_ns();
		__threadfence_system(); /* the tokens of all threads come before the flag */
		completion->done = count + 1;
	}
}

/* ---- launchers ---- */

int step_begin(const struct step_io *io, size_t speculative_bytes, struct CUstream_st *stream)
{
	static_assert(sizeof(struct step_header) == 128, "one line each");
	static_assert(sizeof(struct table_addition) == sizeof(uint4), "one access each");

	step_begin_kernel<<<STEP_BLOCKS, BEGIN_THREADS, 0, stream>>>(
		*io, (uint32_t)(speculative_bytes / STEP_CHUNK));
	return (int)cudaGetLastError();
}

int step_end(const struct step_io *io, uint32_t token_count, struct CUstream_st *stream)
{
	return launch_dependent(
		step_end_kernel, dim3(1), dim3(END_THREADS), 0, stream, *io, token_count);
}
