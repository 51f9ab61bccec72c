#ifndef KERNELS_SAMPLING_CANDIDATE_CUH
#define KERNELS_SAMPLING_CANDIDATE_CUH

#include "kernels/device/vector.cuh"
#include "kernels/sampling/candidate.h"
#include "kernels/sampling/sampler.h"

/* From the best of each tile of the vocabulary to a row's token, one warp a row. All lanes of the
   warp call these functions. */

__device__ inline candidate warp_best(candidate best)
{
#pragma unroll
	for (int distance = WARP / 2; distance > 0; distance /= 2) {
		candidate other;
		other.score = __shfl_xor_sync(0xffffffffu, best.score, distance);
		other.id = __shfl_xor_sync(0xffffffffu, best.id, distance);
		best = candidate_better(best, other);
	}
	return best;
}

/* Every lane gets the best of a row's tiles. */
__device__ inline candidate best_of_tiles(const candidate *tiles, uint32_t tile_count)
{
	candidate best = candidate_none();

	for (uint32_t i = threadIdx.x % WARP; i < tile_count; i += WARP) {
		best = candidate_better(best, tiles[i]);
	}
	return warp_best(best);
}

/* One lane stores a row's token; last: the row's index into last_tokens. */
__device__ inline void store_token(
	int32_t *token_ids, int32_t *last_tokens, uint32_t row, uint32_t last, candidate best)
{
	int32_t id = candidate_token(best);

	token_ids[row] = id;
	if (last != SAMPLER_NO_ROW) {
		last_tokens[last] = id;
	}
}

#endif
