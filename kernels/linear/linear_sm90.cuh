#ifndef KERNELS_LINEAR_LINEAR_SM90_CUH
#define KERNELS_LINEAR_LINEAR_SM90_CUH

#include "kernels/linear/linear.h"
#include "kernels/device/dynamic_shared.cuh"
#include "kernels/device/early_launch.cuh"
#include "kernels/device/math.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/device/tma.cuh"

/* What linear_tiny.cu, linear_stream.cu, linear_small.cu, linear_wide.cu and
   linear_tall.cu share. */

enum {
	CHUNK = LINEAR_CHUNK,
	CHUNK_BYTES = CHUNK * 2,
	BARRIER_BYTES = LINEAR_BARRIER_BYTES,
};

/* The launchers. Each carries out plans with its path. */
int linear_tiny(const struct linear_plan *plan, const struct linear_operands *operands,
	cudaStream_t stream);
int linear_stream(const struct linear_plan *plan, const struct linear_operands *operands,
	cudaStream_t stream);
int linear_small(const struct linear_plan *plan, const struct linear_operands *operands,
	cudaStream_t stream);
int linear_wide(const struct linear_plan *plan, const struct linear_operands *operands,
	cudaStream_t stream);
int linear_tall(const struct linear_plan *plan, const struct linear_operands *operands,
	cudaStream_t stream);

#ifdef QUIRE_SM90A

/* TMA copy of a box of the map: rows from `row` on (of gates and of ups where the map has two
   halves), inputs from chunk `chunk` on. */
static __device__ inline void copy_tiles(
	uint32_t shared, const CUtensorMap *map, uint32_t row, uint32_t chunk, uint32_t barrier)
{
	asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
		     "[%0], [%1, {%2, %3, %2, %4}], [%5];\n" ::"r"(shared),
		     "l"(map), "r"(0), "r"(row), "r"(chunk), "r"(barrier)
		     : "memory");
}

/* silu(gate) * up. Both are rounded to bf16 first, as silu_mul() would read them from memory. */
static __device__ inline float gated(float gate, float up)
{
	gate = __bfloat162float(__float2bfloat16_rn(gate));
	up = __bfloat162float(__float2bfloat16_rn(up));
	return silu(gate) * up;
}

#endif

/* The TMA descriptor of a (row_count, input_count) tensor as (chunk, half, row, CHUNK), 128-byte
   swizzle. halves: 2 for a weight of gates, then ups, so that one box holds rows of both; else 1.
   Rows of a box are 128 bytes. A promotion to 256 makes steps of linear_stream.cu slower by 2 to
   5 % (kernels/linear/TUNING.md). */
static inline int make_tile_map(CUtensorMap *map, const uint16_t *tensor, uint32_t row_count,
	uint32_t halves, uint32_t input_count, uint32_t tile_rows, uint32_t tile_chunks,
	CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE)
{
	const uint32_t rows = row_count / halves;
	const cuuint64_t sizes[] = {CHUNK, rows, halves, input_count / CHUNK};
	const cuuint64_t steps[] = {input_count * 2ull, input_count * 2ull * rows, CHUNK_BYTES};
	const cuuint32_t tile[] = {CHUNK, tile_rows / halves, halves, tile_chunks};

	return tensor_map_make(
		map, tensor, 4, sizes, steps, tile, CU_TENSOR_MAP_SWIZZLE_128B, promotion);
}

static inline uint32_t divide_up(uint32_t a, uint32_t b)
{
	return (a + b - 1) / b;
}

#endif
