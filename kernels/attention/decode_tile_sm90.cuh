#ifndef KERNELS_ATTENTION_DECODE_TILE_SM90_CUH
#define KERNELS_ATTENTION_DECODE_TILE_SM90_CUH

#include "kernels/attention/decode.cuh"
#include "kernels/device/barrier.cuh"
#include "kernels/device/math.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/device/sm90.h"
#include "kernels/device/tma.cuh"

#include <math_constants.h>

/* The arithmetic of decode attention on Hopper. decode_sm90.cu and decode_cluster_sm90.cu share it,
   so they have the same bits.

       tile     TILE tokens: unnormalised weighted sum of values, maximum score, sum of weights
       split    SPLIT_TILES tiles, merged in ascending order (online softmax)
       row      all splits, merged in ascending order

   In the mma.sync instructions the tokens are the 16 rows and the query heads (GQA) are the 8
   columns. The template parameter P has the sizes: d, head_dim; row, bytes of one token's key;
   tile_bytes, bytes of a tile's keys. In shared memory the values of a tile follow its keys. */

enum { TILE = 64, SPLIT_TILES = DECODE_SPLIT / TILE };

/* Whether every tile lies in one KV block. Else each of its steps of PAGED_KV_STEP tokens is looked
   up and copied alone, by kernels of their own: the others stay as fast as they are. */
static inline bool decode_has_whole_tiles(const decode_arguments &a)
{
	return a.shape.block_size % TILE == 0;
}

#ifdef QUIRE_SM90A

template <class P> struct tile_result {
	float out[P::d / 16][4]; /* rows are dimensions, columns are heads */
	float max[2], sum[2];	 /* of heads 2 * (lane % 4) and the next */
};

/* Scores of the tile, query * K^T: rows are tokens, columns are heads. Scores past the tile's
   last token are undefined. query(k, b) loads the lane's elements of dimensions 16 * k to 16 * k
   + 15. */
template <class P, class QUERY>
static __device__ inline void score_tile(float (*score)[4], uint32_t stage, const QUERY &query)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t keys = stage + (lane & 15) * P::row + ((lane >> 4) ^ (lane & 7)) * 16;

#pragma unroll
	for (int s = 0; s < TILE / 16; s++) {
		score[s][0] = score[s][1] = score[s][2] = score[s][3] = 0;
	}
#pragma unroll
	for (int k = 0; k < P::d / 16; k++) {
		uint32_t b[2];
		query(k, b);
#pragma unroll
		for (int s = 0; s < TILE / 16; s++) {
			uint32_t rows[4];
			load_matrices(rows, (keys ^ (k * 32)) + s * 16 * P::row);
			multiply_add(score[s], rows, b[0], b[1]);
		}
	}
}

/* The softmax of the tile alone: scores become weights, packed as operand b of multiply_add(),
   where columns are heads and rows are tokens. IS_FULL: the tile has all TILE tokens. */
template <class P, bool IS_FULL>
static __device__ inline void softmax_tile(tile_result<P> &result, uint32_t (*weight)[2],
	float (*score)[4], uint32_t count, float scale)
{
	uint32_t lane = threadIdx.x % WARP;

	result.max[0] = result.max[1] = -CUDART_INF_F;
#pragma unroll
	for (int s = 0; s < TILE / 16; s++) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (!IS_FULL && s * 16 + lane / 4 + (i >> 1) * 8 >= count) {
				score[s][i] = -CUDART_INF_F;
			}
			result.max[i & 1] = fmaxf(result.max[i & 1], score[s][i]);
		}
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
#pragma unroll
		for (int distance = 4; distance < WARP; distance *= 2) {
			result.max[i] = fmaxf(result.max[i],
				__shfl_xor_sync(0xffffffffu, result.max[i], distance));
		}
		result.max[i] *= scale;
		result.sum[i] = 0;
	}
#pragma unroll
	for (int s = 0; s < TILE / 16; s++) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			score[s][i] = power_of_two(fmaf(score[s][i], scale, -result.max[i & 1]));
			result.sum[i & 1] += score[s][i];
		}
		weight[s][0] = transpose(pack2(score[s][0], score[s][1]));
		weight[s][1] = transpose(pack2(score[s][2], score[s][3]));
	}
}

/* The weighted sum of the tile's values. Values past the tile's last token are undefined in
   memory and are masked to zero. */
template <class P, bool IS_FULL>
static __device__ inline void weigh_values(
	tile_result<P> &result, uint32_t (*weight)[2], uint32_t stage, uint32_t count)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t values = stage + P::tile_bytes + ((lane & 7) + (lane >> 4) * 8) * P::row +
			  (((lane >> 3) & 1) ^ (lane & 7)) * 16;

#pragma unroll
	for (int i = 0; i < P::d / 16; i++) {
		result.out[i][0] = result.out[i][1] = result.out[i][2] = result.out[i][3] = 0;
	}
#pragma unroll
	for (int s = 0; s < TILE / 16; s++) {
		uint32_t token = s * 16 + 2 * (lane % 4);
		uint32_t low = (token < count ? 0xffff : 0) | (token + 1 < count ? ~0xffffu : 0);
		uint32_t high =
			(token + 8 < count ? 0xffff : 0) | (token + 9 < count ? ~0xffffu : 0);
#pragma unroll
		for (int i = 0; i < P::d / 16; i++) {
			uint32_t rows[4];
			load_matrices_transposed(rows, (values ^ (i * 32)) + s * 16 * P::row);
			if (!IS_FULL) {
				rows[0] &= low;
				rows[1] &= low;
				rows[2] &= high;
				rows[3] &= high;
			}
			multiply_add(result.out[i], rows, weight[s][0], weight[s][1]);
		}
	}
}

/* Reduces the sum of weights over the lanes. Called last, since nothing in the tile waits for
   it. */
template <class P> static __device__ inline void add_weights(tile_result<P> &result)
{
#pragma unroll
	for (int i = 0; i < 2; i++) {
#pragma unroll
		for (int distance = 4; distance < WARP; distance *= 2) {
			result.sum[i] += __shfl_xor_sync(0xffffffffu, result.sum[i], distance);
		}
	}
}

/* Factors of the online softmax: of the running sums, and of the partial result that is merged. */
struct fold_weights {
	float old, part;
};

/* Updates the running maximum; returns the factors. */
static __device__ inline fold_weights fold_max(float &max, float part_max)
{
	float before = max;

	max = fmaxf(before, part_max);
	return {power_of_two(before - max), power_of_two(part_max - max)};
}

static __device__ inline void fold_value(float &sum, float part, fold_weights weights)
{
	sum = __fmaf_rn(sum, weights.old, __fmul_rn(part, weights.part));
}

#endif

#endif
