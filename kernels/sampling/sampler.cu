#include "kernels/device/early_launch.cuh"
#include "kernels/sampling/candidate.cuh"
#include "kernels/sampling/sampler.h"
#include "kernels/sampling/sampler_noise.h"

#include <math_constants.h>

/* Gumbel-max sampling of float32 logits (rows, vocabulary); the formula is in sampler.h. Two
   kernels: thread blocks find the best score of each tile of the vocabulary, then one warp a row
   finds the best of its tiles. Compiled without contraction to fused multiply-add, so scores have
   the bits of the CPU twin.

   Why it is fast: it is bound by reading the logits, because nearly all logarithms are avoided. Two
   logarithms for each candidate would take longer than reading the logits. So a block keeps the
   best score known so far, and computes scores only for groups of candidates whose common upper
   bound reaches it, a few a tile. A lower bound of the first candidates' scores gives the first
   best score.

   The result is the largest score, and the lowest id among equals. It does not depend on the
   order of comparisons or on the tiles, so neither is fixed. */

enum {
	SAMPLER_THREADS = 128,
	CHUNK = 4, /* ids of a 16-byte load */
	GROUP = 8, /* ids of a thread in a stride: two chunks, HALF_STRIDE apart */
	HALF_STRIDE = SAMPLER_THREADS * CHUNK,
	STRIDE = SAMPLER_THREADS * GROUP, /* ids of a block in a stride */
	STRIDES_MAX = 20,		  /* of a tile, for many rows */
	BLOCKS_WANTED = 2048,
	ROW_WARPS = 4,
};

/* ---- kernels ---- */

/* Maps floats to integers of the same order (never NaN here), for atomicMax(). */
static __device__ inline int32_t ordered(float value)
{
	int32_t bits = __float_as_int(value);

	return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

static __device__ inline float from_ordered(int32_t bits)
{
	return __int_as_float(bits >= 0 ? bits : bits ^ 0x7fffffff);
}

/* Logits of ids [first, first + CHUNK); -infinity past the end. */
template <bool IS_ALIGNED>
static __device__ inline void load_chunk(
	float *out, const float *logits, uint32_t first, uint32_t end)
{
	if (IS_ALIGNED && first < end) {
		float4 four = __ldcs(reinterpret_cast<const float4 *>(logits + first));
		out[0] = four.x;
		out[1] = four.y;
		out[2] = four.z;
		out[3] = four.w;
	} else {
#pragma unroll
		for (int i = 0; i < CHUNK; i++) {
			bool is_there = !IS_ALIGNED && first + i < end;
			out[i] = is_there ? logits[first + i] : -CUDART_INF_F;
		}
	}
}

/* The candidates of a thread: their logits and the random bits of their noise. Ids are counted
   from the first one of the part of the vocabulary. */
struct group {
	uint32_t first; /* ids first + [0, CHUNK) and first + HALF_STRIDE + [0, CHUNK) */
	float logits[GROUP];
	uint32_t bits[GROUP];
};

static __device__ inline int32_t id_in(const group &g, int i)
{
	return (int32_t)(g.first + i % CHUNK + i / CHUNK * HALF_STRIDE);
}

/* One hash serves an even id and the odd one behind it. first_id: of the part, even unless the
   ids of the part are not ALIGNED. */
template <bool IS_ALIGNED>
static __device__ inline void draw(group &g, uint64_t key, uint32_t first_id)
{
#pragma unroll
	for (int i = 0; i < GROUP; i += 2) {
		uint32_t id = first_id + (uint32_t)id_in(g, i);
		uint64_t hash = counter_hash(key, id >> 1);
		g.bits[i] = (uint32_t)hash;
		g.bits[i + 1] = (uint32_t)(hash >> 32);
		if (!IS_ALIGNED && id % 2 == 1) {
			g.bits[i] = g.bits[i + 1];
			g.bits[i + 1] = (uint32_t)counter_hash(key, (id >> 1) + 1);
		}
	}
}

/* An upper bound of the group's scores. fmaxf ignores a NaN. */
static __device__ inline float group_bound(const group &g, float temperature)
{
	float logit = g.logits[0];
	uint32_t bits = g.bits[0];

#pragma unroll
	for (int i = 1; i < GROUP; i++) {
		logit = fmaxf(logit, g.logits[i]);
		bits = min(bits, g.bits[i]);
	}
	return logit + temperature * sampler_noise_bound(bits);
}

/* A lower bound of the group's best score, or -infinity. */
static __device__ inline float group_floor(const group &g, float temperature)
{
	float most = -CUDART_INF_F;

#pragma unroll
	for (int i = 0; i < GROUP; i++) {
		if (sampler_noise_has_floor(g.bits[i])) {
			float noise = sampler_noise_floor(g.bits[i]);
			most = fmaxf(most, g.logits[i] + temperature * noise);
		}
	}
	return most;
}

/* Raises the block's best score to the best of a warp. */
static __device__ inline void raise_best(int32_t *block_best, float score)
{
	int32_t most = __reduce_max_sync(0xffffffffu, ordered(score));

	if (threadIdx.x % WARP == 0 && most > *(volatile int32_t *)block_best) {
		atomicMax(block_best, most);
	}
}

/* Computes the scores of candidates that could still be the best, by falling upper bound. All
   lanes of a warp call it. Comparisons with NaN are false. */
static __device__ candidate score_candidates(
	candidate best, int32_t *block_best, const group &g, float temperature)
{
	float bound[GROUP], most = -CUDART_INF_F;
	float seen = from_ordered(*(volatile int32_t *)block_best);

#pragma unroll
	for (int i = 0; i < GROUP; i++) {
		bound[i] = g.logits[i] + temperature * sampler_noise_bound(g.bits[i]);
		most = fmaxf(most, bound[i]);
	}
	while (__any_sync(0xffffffffu, most >= seen && most > -CUDART_INF_F)) {
		if (most >= seen && most > -CUDART_INF_F) {
			uint32_t bits = 0;
			candidate mine = candidate_none();
			bool is_taken = false;
#pragma unroll
			for (int i = 0; i < GROUP; i++) {
				if (!is_taken && bound[i] == most) {
					is_taken = true;
					bits = g.bits[i];
					mine.score = g.logits[i];
					mine.id = id_in(g, i);
					bound[i] = -CUDART_INF_F;
				}
			}
			mine.score += temperature * sampler_noise_of_bits(bits);
			best = candidate_better(best, mine);
			most = -CUDART_INF_F;
#pragma unroll
			for (int i = 0; i < GROUP; i++) {
				most = fmaxf(most, bound[i]);
			}
		}
		raise_best(block_best, best.score);
		__syncwarp();
		seen = from_ordered(*(volatile int32_t *)block_best);
	}
	return best;
}

/* Greedy: the ids of a thread ascend from group to group, so the first of equals is kept. */
static __device__ inline candidate greedy(candidate best, const group &g)
{
#pragma unroll
	for (int i = 0; i < GROUP; i++) {
		if (g.logits[i] > best.score) {
			best.score = g.logits[i];
			best.id = id_in(g, i);
		}
	}
	return best;
}

template <bool IS_ALIGNED>
static __global__ void __launch_bounds__(SAMPLER_THREADS)
	sampler_tiles_kernel(candidate *tiles, const float *logits, const uint64_t *row_keys,
		const float *temperatures, uint32_t first_id, uint32_t count, uint32_t tile_size)
{
	__shared__ candidate shared[SAMPLER_THREADS / WARP];
	__shared__ int32_t block_best;

	dependents_launch();
	uint32_t row = blockIdx.y;
	uint32_t begin = blockIdx.x * tile_size;
	uint32_t end = min(begin + tile_size, count);
	const float *row_logits = logits + (size_t)row * count;
	uint64_t key = row_keys[row];
	float temperature = temperatures[row];
	candidate best = candidate_none();
	float next[GROUP];
	group g;

	if (threadIdx.x == 0) {
		block_best = ordered(-CUDART_INF_F);
	}
	__syncthreads();
	dependency_wait();
	g.first = begin + threadIdx.x * CHUNK;
	load_chunk<IS_ALIGNED>(next, row_logits, g.first, end);
	load_chunk<IS_ALIGNED>(next + CHUNK, row_logits, g.first + HALF_STRIDE, end);
	for (uint32_t at = begin; at < end; at += STRIDE) {
		g.first = at + threadIdx.x * CHUNK;
#pragma unroll
		for (int i = 0; i < GROUP; i++) {
			g.logits[i] = next[i];
		}
		uint32_t later = g.first + STRIDE;
		load_chunk<IS_ALIGNED>(next, row_logits, later, end);
		load_chunk<IS_ALIGNED>(next + CHUNK, row_logits, later + HALF_STRIDE, end);
		if (!(temperature > 0)) {
			best = greedy(best, g);
			continue;
		}
		draw<IS_ALIGNED>(g, key, first_id);
		if (at == begin && at + STRIDE < end) {
			raise_best(&block_best, group_floor(g, temperature));
			__syncthreads();
		}
		float seen = from_ordered(*(volatile int32_t *)&block_best);
		if (__any_sync(0xffffffffu, group_bound(g, temperature) >= seen)) {
			best = score_candidates(best, &block_best, g, temperature);
		}
	}
	best = warp_best(best);
	if (threadIdx.x % WARP == 0) {
		shared[threadIdx.x / WARP] = best;
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		for (int i = 1; i < SAMPLER_THREADS / WARP; i++) {
			best = candidate_better(best, shared[i]);
		}
		best.id += best.id == INT32_MAX ? 0 : (int32_t)first_id;
		tiles[(size_t)row * gridDim.x + blockIdx.x] = best;
	}
}

static __global__ void sampler_rows_kernel(int32_t *token_ids, int32_t *last_tokens,
	const candidate *tiles, const uint32_t *rows, uint32_t row_count, uint32_t tile_count)
{
	dependents_launch();
	uint32_t row = blockIdx.x * ROW_WARPS + threadIdx.x / WARP;

	if (row >= row_count) {
		return;
	}
	uint32_t last = rows[row];
	dependency_wait();
	candidate best = best_of_tiles(tiles + (size_t)row * tile_count, tile_count);
	if (threadIdx.x % WARP == 0) {
		store_token(token_ids, last_tokens, row, last, best);
	}
}

/* ---- launchers ---- */

/* Small tiles for few rows, so that every multiprocessor has some. Long tiles for many rows,
   because each tile has to find a good score before it can skip candidates. */
static uint32_t tile_size_of(uint32_t row_count, uint32_t count)
{
	uint32_t strides = (count + STRIDE - 1) / STRIDE;
	uint64_t wanted = (uint64_t)row_count * strides / BLOCKS_WANTED;
	uint32_t most = wanted < 1 ? 1 : wanted > STRIDES_MAX ? STRIDES_MAX : (uint32_t)wanted;
	uint32_t tiles = (strides + most - 1) / most;

	return (strides + tiles - 1) / tiles * STRIDE;
}

uint32_t sampler_tile_count(uint32_t row_count, uint32_t count)
{
	uint32_t tile_size = tile_size_of(row_count, count);

	return (count + tile_size - 1) / tile_size;
}

int sampler_tiles(void *tiles, const float *logits, const uint64_t *row_keys,
	const float *temperatures, uint32_t row_count, uint32_t first_id, uint32_t count,
	struct CUstream_st *stream)
{
	static_assert(sizeof(candidate) == SAMPLER_TILE_BYTES,
		"the size of a tile's result in the header");
	static_assert((int)STRIDE == (int)SAMPLER_TILE, "the smallest tile, as in the header");
	bool is_aligned = count % CHUNK == 0 && first_id % 2 == 0;
	auto *kernel = is_aligned ? sampler_tiles_kernel<true> : sampler_tiles_kernel<false>;
	uint32_t tile_count = sampler_tile_count(row_count, count);

	if (row_count == 0) {
		return (int)cudaSuccess;
	}
	return launch_dependent(kernel, dim3(tile_count, row_count), SAMPLER_THREADS, 0, stream,
		(candidate *)tiles, logits, row_keys, temperatures, first_id, count,
		tile_size_of(row_count, count));
}

int sampler(int32_t *token_ids, int32_t *last_tokens, void *tiles, const float *logits,
	const uint64_t *row_keys, const float *temperatures, const uint32_t *rows,
	uint32_t row_count, uint32_t vocabulary_size, struct CUstream_st *stream)
{
	int code = sampler_tiles(
		tiles, logits, row_keys, temperatures, row_count, 0, vocabulary_size, stream);

	if (code != 0 || row_count == 0) {
		return code;
	}
	return launch_dependent(sampler_rows_kernel, (row_count + ROW_WARPS - 1) / ROW_WARPS,
		ROW_WARPS * WARP, 0, stream, token_ids, last_tokens, (const candidate *)tiles, rows,
		row_count, sampler_tile_count(row_count, vocabulary_size));
}
