#include "kernels/device.cuh"
#include "kernels/sampler.h"
#include "kernels/sampler_noise.h"

#include <math_constants.h>

/* Two passes: blocks find the best of tiles of the vocabulary, then a block a row finds the best of
   its tiles. Compiled without contraction, so the scores are the CPU twin's bit for bit. */

enum { SAMPLER_THREADS = 256 };

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

static __device__ inline candidate block_best(candidate best)
{
	__shared__ candidate shared[SAMPLER_THREADS / WARP];

#pragma unroll
	for (int distance = WARP / 2; distance > 0; distance /= 2) {
		candidate other;
		other.score = __shfl_xor_sync(0xffffffffu, best.score, distance);
		other.id = __shfl_xor_sync(0xffffffffu, best.id, distance);
		best = better(best, other);
	}
	if (threadIdx.x % WARP == 0) {
		shared[threadIdx.x / WARP] = best;
	}
	__syncthreads();
	best = shared[0];
	for (int i = 1; i < SAMPLER_THREADS / WARP; i++) {
		best = better(best, shared[i]);
	}
	return best;
}

static __global__ void sampler_tiles_kernel(candidate *tiles, const float *logits,
	const uint64_t *row_keys, const float *temperatures, uint32_t vocabulary_size)
{
	uint32_t row = blockIdx.y;
	uint32_t first = blockIdx.x * SAMPLER_TILE;
	uint32_t end = min(first + SAMPLER_TILE, vocabulary_size);
	const float *row_logits = logits + (size_t)row * vocabulary_size;
	uint64_t key = row_keys[row];
	float temperature = temperatures[row];
	candidate best = {-CUDART_INF_F, INT32_MAX};

	for (uint32_t id = first + threadIdx.x; id < end; id += SAMPLER_THREADS) {
		float score = row_logits[id];
		if (temperature > 0) {
			score += temperature * sampler_noise(key, id);
		}
		candidate mine = {score, (int32_t)id};
		/* A NaN and -infinity are never chosen. */
		if (score > -CUDART_INF_F) {
			best = better(best, mine);
		}
	}
	best = block_best(best);
	if (threadIdx.x == 0) {
		tiles[(size_t)row * gridDim.x + blockIdx.x] = best;
	}
}

static __global__ void sampler_rows_kernel(int32_t *token_ids, int32_t *last_tokens,
	const candidate *tiles, const uint32_t *rows, uint32_t tile_count)
{
	uint32_t row = blockIdx.x;
	candidate best = {-CUDART_INF_F, INT32_MAX};

	for (uint32_t i = threadIdx.x; i < tile_count; i += SAMPLER_THREADS) {
		best = better(best, tiles[(size_t)row * tile_count + i]);
	}
	best = block_best(best);
	if (threadIdx.x == 0) {
		int32_t id = best.id == INT32_MAX ? 0 : best.id;
		token_ids[row] = id;
		if (rows[row] != SAMPLER_NO_ROW) {
			last_tokens[rows[row]] = id;
		}
	}
}

/* ---- launchers ---- */

int sampler(int32_t *token_ids, int32_t *last_tokens, void *tiles, const float *logits,
	const uint64_t *row_keys, const float *temperatures, const uint32_t *rows,
	uint32_t row_count, uint32_t vocabulary_size, struct CUstream_st *stream)
{
	static_assert(sizeof(candidate) == SAMPLER_TILE_BYTES, "the header tells the size");
	uint32_t tile_count = (vocabulary_size + SAMPLER_TILE - 1) / SAMPLER_TILE;

	if (row_count > 0) {
		sampler_tiles_kernel<<<dim3(tile_count, row_count), SAMPLER_THREADS, 0, stream>>>(
			(candidate *)tiles, logits, row_keys, temperatures, vocabulary_size);
		sampler_rows_kernel<<<row_count, SAMPLER_THREADS, 0, stream>>>(
			token_ids, last_tokens, (const candidate *)tiles, rows, tile_count);
	}
	return cudaGetLastError();
}
