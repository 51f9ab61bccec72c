#include "kernels/device.cuh"
#include "kernels/sampler.h"
#include "kernels/sampler_noise.h"

#include <math_constants.h>

/* Two passes: blocks find the best of tiles of the vocabulary, then a warp a row finds the best of
   its tiles. Compiled without contraction, so the scores are the CPU twin's bit for bit.

   Two logarithms a candidate would take longer than reading the logits. So a block knows the best
   score it has seen, and only candidates whose bound reaches it are computed at all: a handful a
   warp. The best of a set with the lower id of equals is the same in whatever order it is sought
   and however the vocabulary is cut, so neither is fixed. */

enum {
	SAMPLER_THREADS = 256,
	GROUP = 4, /* ids that a thread takes at a time, 16 bytes of logits */
	STRIDE = SAMPLER_THREADS * GROUP, /* ids that a block takes at a time */
	STRIDES_MAX = 20,		  /* of a tile, where there are rows enough */
	BLOCKS_WANTED = 2048,
	ROW_WARPS = 4,
};

struct candidate {
	float score;
	int32_t id;
};

/* ---- kernels ---- */

/* The larger score, the lower id of equals: the same whatever the order of comparisons. */
static __device__ inline candidate better(candidate a, candidate b)
{
	bool is_b = b.score > a.score || (b.score == a.score && b.id < a.id);

	return is_b ? b : a;
}

static __device__ inline candidate warp_best(candidate best)
{
#pragma unroll
	for (int distance = WARP / 2; distance > 0; distance /= 2) {
		candidate other;
		other.score = __shfl_xor_sync(0xffffffffu, best.score, distance);
		other.id = __shfl_xor_sync(0xffffffffu, best.id, distance);
		best = better(best, other);
	}
	return best;
}

/* Floats as integers of the same order (no NaN comes here). */
static __device__ inline int32_t ordered(float value)
{
	int32_t bits = __float_as_int(value);

	return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

static __device__ inline float from_ordered(int32_t bits)
{
	return __int_as_float(bits >= 0 ? bits : bits ^ 0x7fffffff);
}

/* Logits of ids [first, first + GROUP); -infinity past the end. */
template <bool IS_ALIGNED>
static __device__ inline void load_group(
	float *out, const float *logits, uint32_t first, uint32_t end)
{
	if (IS_ALIGNED) {
		if (first < end) {
			float4 four = __ldcs(reinterpret_cast<const float4 *>(logits + first));
			out[0] = four.x;
			out[1] = four.y;
			out[2] = four.z;
			out[3] = four.w;
		} else {
#pragma unroll
			for (int i = 0; i < GROUP; i++) {
				out[i] = -CUDART_INF_F;
			}
		}
	} else {
#pragma unroll
		for (int i = 0; i < GROUP; i++) {
			out[i] = first + i < end ? logits[first + i] : -CUDART_INF_F;
		}
	}
}

/* The noisy candidates of a group that could be the best yet. All lanes of a warp come here. */
static __device__ candidate contend(candidate best, int32_t *block_best, const float *logits,
	uint32_t first, uint64_t key, float temperature)
{
	uint64_t hash[GROUP / 2];
	float bound[GROUP];
	float seen = from_ordered(*(volatile int32_t *)block_best);

#pragma unroll
	for (int i = 0; i < GROUP; i++) {
		if (i % 2 == 0) {
			hash[i / 2] = counter_hash(key, (first + i) >> 1);
		}
		uint32_t bits = (uint32_t)(i % 2 == 0 ? hash[i / 2] : hash[i / 2] >> 32);
		bound[i] = logits[i] + temperature * sampler_noise_bound(bits);
	}
	/* fmaxf passes over a NaN, and no comparison with one is true. */
	float most = fmaxf(fmaxf(bound[0], bound[1]), fmaxf(bound[2], bound[3]));
	while (__any_sync(0xffffffffu, most >= seen && most > -CUDART_INF_F)) {
		if (most >= seen && most > -CUDART_INF_F) {
			uint32_t bits = 0;
			candidate mine = {-CUDART_INF_F, INT32_MAX};
			bool is_taken = false;
#pragma unroll
			for (int i = 0; i < GROUP; i++) {
				if (!is_taken && bound[i] == most) {
					is_taken = true;
					bits = (uint32_t)(i % 2 == 0 ? hash[i / 2]
								     : hash[i / 2] >> 32);
					mine.score = logits[i];
					mine.id = (int32_t)first + i;
					bound[i] = -CUDART_INF_F;
				}
			}
			mine.score += temperature * sampler_noise_of_bits(bits);
			best = better(best, mine);
			most = fmaxf(fmaxf(bound[0], bound[1]), fmaxf(bound[2], bound[3]));
		}
		int32_t warp_most = __reduce_max_sync(0xffffffffu, ordered(best.score));
		if (from_ordered(warp_most) > seen) {
			seen = from_ordered(warp_most);
			if (threadIdx.x % WARP == 0) {
				atomicMax(block_best, warp_most);
			}
		}
	}
	return best;
}

template <bool IS_ALIGNED>
static __global__ void __launch_bounds__(SAMPLER_THREADS)
	sampler_tiles_kernel(candidate *tiles, const float *logits, const uint64_t *row_keys,
		const float *temperatures, uint32_t vocabulary_size, uint32_t tile_size)
{
	__shared__ candidate shared[SAMPLER_THREADS / WARP];
	__shared__ int32_t block_best;

	dependents_launch();
	uint32_t row = blockIdx.y;
	uint32_t begin = blockIdx.x * tile_size;
	uint32_t end = min(begin + tile_size, vocabulary_size);
	const float *row_logits = logits + (size_t)row * vocabulary_size;
	uint64_t key = row_keys[row];
	float temperature = temperatures[row];
	candidate best = {-CUDART_INF_F, INT32_MAX};

	if (threadIdx.x == 0) {
		block_best = ordered(-CUDART_INF_F);
	}
	__syncthreads();
	dependency_wait();
	float next[GROUP];
	load_group<IS_ALIGNED>(next, row_logits, begin + threadIdx.x * GROUP, end);
	for (uint32_t at = begin; at < end; at += STRIDE) {
		uint32_t first = at + threadIdx.x * GROUP;
		float now[GROUP];
#pragma unroll
		for (int i = 0; i < GROUP; i++) {
			now[i] = next[i];
		}
		load_group<IS_ALIGNED>(next, row_logits, first + STRIDE, end);
		if (temperature > 0) {
			best = contend(best, &block_best, now, first, key, temperature);
		} else {
#pragma unroll
			for (int i = 0; i < GROUP; i++) {
				/* ids ascend, so the first of equals stays */
				if (now[i] > best.score) {
					best.score = now[i];
					best.id = (int32_t)first + i;
				}
			}
		}
	}
	best = warp_best(best);
	if (threadIdx.x % WARP == 0) {
		shared[threadIdx.x / WARP] = best;
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		for (int i = 1; i < SAMPLER_THREADS / WARP; i++) {
			best = better(best, shared[i]);
		}
		tiles[(size_t)row * gridDim.x + blockIdx.x] = best;
	}
}

static __global__ void sampler_rows_kernel(int32_t *token_ids, int32_t *last_tokens,
	const candidate *tiles, const uint32_t *rows, uint32_t row_count, uint32_t tile_count)
{
	dependents_launch();
	uint32_t row = blockIdx.x * ROW_WARPS + threadIdx.x / WARP;
	candidate best = {-CUDART_INF_F, INT32_MAX};

	if (row >= row_count) {
		return;
	}
	uint32_t last = rows[row];
	dependency_wait();
	for (uint32_t i = threadIdx.x % WARP; i < tile_count; i += WARP) {
		best = better(best, tiles[(size_t)row * tile_count + i]);
	}
	best = warp_best(best);
	if (threadIdx.x % WARP == 0) {
		int32_t id = best.id == INT32_MAX ? 0 : best.id;
		token_ids[row] = id;
		if (last != SAMPLER_NO_ROW) {
			last_tokens[last] = id;
		}
	}
}

/* ---- launchers ---- */

/* Small tiles where rows are few, so that every multiprocessor has some; long ones where they are
   many, since a tile has to find a good score first. */
static uint32_t tile_size_of(uint32_t row_count, uint32_t vocabulary_size)
{
	uint32_t strides = (vocabulary_size + STRIDE - 1) / STRIDE;
	uint64_t wanted = (uint64_t)row_count * strides / BLOCKS_WANTED;
	uint32_t most = wanted < 1 ? 1 : wanted > STRIDES_MAX ? STRIDES_MAX : (uint32_t)wanted;
	uint32_t tiles = (strides + most - 1) / most;

	return (strides + tiles - 1) / tiles * STRIDE;
}

int sampler(int32_t *token_ids, int32_t *last_tokens, void *tiles, const float *logits,
	const uint64_t *row_keys, const float *temperatures, const uint32_t *rows,
	uint32_t row_count, uint32_t vocabulary_size, struct CUstream_st *stream)
{
	static_assert(sizeof(candidate) == SAMPLER_TILE_BYTES, "the header tells the size");
	static_assert((int)STRIDE == (int)SAMPLER_TILE, "the header tells the least tile");
	uint32_t tile_size = tile_size_of(row_count, vocabulary_size);
	uint32_t tile_count = (vocabulary_size + tile_size - 1) / tile_size;
	auto *kernel = vocabulary_size % GROUP == 0 ? sampler_tiles_kernel<true>
						    : sampler_tiles_kernel<false>;

	if (row_count == 0) {
		return (int)cudaSuccess;
	}
	int code = launch_dependent(kernel, dim3(tile_count, row_count), SAMPLER_THREADS, 0, stream,
		(candidate *)tiles, logits, row_keys, temperatures, vocabulary_size, tile_size);
	if (code != 0) {
		return code;
	}
	return launch_dependent(sampler_rows_kernel, (row_count + ROW_WARPS - 1) / ROW_WARPS,
		ROW_WARPS * WARP, 0, stream, token_ids, last_tokens, (const candidate *)tiles, rows,
		row_count, tile_count);
}
