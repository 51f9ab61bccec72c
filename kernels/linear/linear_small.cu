#include "kernels/linear/linear.h"

#include "kernels/linear/linear_sm90.cuh"
#include "kernels/device/wgmma.cuh"

/* LINEAR_SMALL: out = in * weight^T (+ bias), or silu(gate) * up of it, for up to 64 tokens by
   wgmma. in (tokens, K) and weight (N, K) are bf16, the accumulators float32.

   Such a GEMM is latency-bound: it reads each weight once, and the time is that of the chain of
   dependent wgmmas from the arrival of the tokens to the output. M of the instruction are the 64
   tokens, of which most may be missing. N are 16 to 96 rows of the weight, as few as let all blocks
   run in one wave, so that every multiprocessor reads a share of the weight; or, of wide weights,
   several waves that fill most of the multiprocessors. A block sums over all
   of K without split-K, 16 inputs after 16, so the bits are those of cuBLASLt.

       producer    1 thread       TMA of weight and tokens into a ring of stages  ──► full[stage]
       consumers   1 warpgroup    full[stage] ──► wgmma, then release the stage   ──► empty[stage]

   The weight's part of all stages of the ring, mostly the whole weight of the block, is
   requested before the dependency wait (PDL), while the kernels in front still run. After the
   wait only the tokens have to be copied. */

enum {
	GROUP = 4 * WARP, /* threads of a warpgroup */
	THREADS = GROUP + WARP,
};

/* Two mbarriers a stage: full and empty. */
static_assert(2 * 8 * LINEAR_STAGES_MAX <= BARRIER_BYTES, "the barriers have room");

/* Chunks of inputs in a stage, for tiles of ROWS rows of the weight. */
template <int ROWS> constexpr int stage_chunks = ROWS == 16 ? 4 : 2;

struct gemm {
	uint16_t *out;
	const uint16_t *bias;
	uint32_t row_count;
	uint32_t output_count; /* columns of out */
	uint32_t tile_tokens;  /* a multiple of 8 up to 64 */
	uint32_t fill_count;   /* stages' worth of inputs in K */
	uint32_t stage_count;
};

#ifdef QUIRE_SM90A

/* ---- kernels ---- */

/* What a thread block computes, and the layout of its shared memory. */
struct block {
	uint32_t first_row;   /* of the weight; with silu of both halves */
	uint32_t first_token; /* of the tile */
	uint32_t token_count; /* in this tile; the last tile may be short */
	uint32_t full, empty; /* addresses of the first mbarrier of each kind */
	/* each (stage_chunks, tile_tokens, CHUNK), then (stage_chunks, ROWS, CHUNK) */
	uint32_t stages;
	uint32_t stage_bytes;
	uint32_t token_bytes; /* of the tokens in a stage */
};

template <int ROWS, bool IS_SILU>
static __device__ inline struct block locate_block(const struct gemm &gemm)
{
	extern __shared__ __align__(1024) uint8_t memory[];
	struct block block;

	block.first_row = blockIdx.x * (IS_SILU ? ROWS / 2 : ROWS);
	block.first_token = blockIdx.y * gemm.tile_tokens;
	block.token_count = min(gemm.row_count - block.first_token, gemm.tile_tokens);
	block.full = shared_address(memory);
	block.empty = block.full + 8 * LINEAR_STAGES_MAX;
	block.stages = block.full + BARRIER_BYTES;
	block.token_bytes = stage_chunks<ROWS> * gemm.tile_tokens * CHUNK_BYTES;
	block.stage_bytes = block.token_bytes + stage_chunks<ROWS> * ROWS * CHUNK_BYTES;
	return block;
}

template <int ROWS>
static __device__ inline void fetch_weight(
	const struct block &block, const CUtensorMap *map, uint32_t fill, uint32_t stage)
{
	const uint32_t barrier = block.full + 8 * stage;

	barrier_arrive_expecting(barrier, block.stage_bytes);
	copy_tiles(block.stages + stage * block.stage_bytes + block.token_bytes, map,
		block.first_row, fill * stage_chunks<ROWS>, barrier);
}

/* Initialises the mbarriers, and starts the copies of the weight into all stages. */
template <int ROWS>
static __device__ inline void prepare(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *weight_map, const CUtensorMap *in_map)
{
#pragma unroll 1
	for (uint32_t i = 0; i < gemm.stage_count; i++) {
		barrier_init(block.full + 8 * i, 1);
		barrier_init(block.empty + 8 * i, GROUP / WARP);
	}
	barrier_init_done();
	fence_shared_writes();
#pragma unroll 1
	for (uint32_t i = 0; i < gemm.stage_count; i++) {
		fetch_weight<ROWS>(block, weight_map, i, i);
	}
	prefetch_map(in_map);
}

/* The producer thread, after the dependency wait. */
template <int ROWS>
static __device__ inline void produce(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *weight_map, const CUtensorMap *in_map)
{
	struct ring_cursor at = {0, 0};

	fence_global_writes();
#pragma unroll 1
	for (uint32_t fill = 0; fill < gemm.fill_count; fill++) {
		if (fill >= gemm.stage_count) {
			barrier_wait(block.empty + 8 * at.stage, at.parity ^ 1);
			fetch_weight<ROWS>(block, weight_map, fill, at.stage);
		}
		copy_tiles(block.stages + at.stage * block.stage_bytes, in_map, block.first_token,
			fill * stage_chunks<ROWS>, block.full + 8 * at.stage);
		advance(&at, gemm.stage_count);
	}
}

/* Issues the wgmmas of a stage. */
template <int ROWS>
static __device__ inline void sum_stage(const struct gemm &gemm, const struct block &block,
	float *sum, uint32_t stage, bool accumulates)
{
	const uint32_t tokens = block.stages + stage * block.stage_bytes;
	const uint64_t a = tile_descriptor(tokens);
	const uint64_t b = tile_descriptor(tokens + block.token_bytes);

	wgmma_fence();
#pragma unroll
	for (uint32_t chunk = 0; chunk < stage_chunks<ROWS>; chunk++) {
#pragma unroll
		for (uint32_t k = 0; k < CHUNK / 16; k++) { /* 16 inputs are 32 bytes of a row */
			wgmma<ROWS>::issue(sum,
				a + chunk * (gemm.tile_tokens * CHUNK_BYTES / 16) + 2 * k,
				b + chunk * (ROWS * CHUNK_BYTES / 16) + 2 * k,
				chunk + k > 0 || accumulates);
		}
	}
	wgmma_commit();
}

template <int ROWS>
static __device__ inline void sum_all(
	const struct gemm &gemm, const struct block &block, float *sum)
{
	struct ring_cursor at = {0, 0};
	uint32_t before = 0;

#pragma unroll 1
	for (uint32_t fill = 0; fill < gemm.fill_count; fill++) {
		barrier_wait(block.full + 8 * at.stage, at.parity);
		sum_stage<ROWS>(gemm, block, sum, at.stage, fill > 0);
		if (fill > 0 && fill + gemm.stage_count <= gemm.fill_count) {
			wgmma_wait<1>();
			if (threadIdx.x % WARP == 0) {
				barrier_arrive(block.empty + 8 * before);
			}
		}
		before = at.stage;
		advance(&at, gemm.stage_count);
	}
	wgmma_wait<0>();
}

/* Epilogue: adds the bias or applies silu, and writes bf16 from registers. */
template <int ROWS, bool IS_SILU>
static __device__ inline void finish(
	const struct gemm &gemm, const struct block &block, const float *sum)
{
	const uint32_t first = threadIdx.x / WARP * 16 + threadIdx.x % WARP / 4;
	const uint32_t ups = ROWS / 4; /* index distance of an up's sum from its gate's */

#pragma unroll
	for (uint32_t i = 0; i < (IS_SILU ? ROWS / 4 : ROWS / 2); i += 2) {
		uint32_t token = first + i / 2 % 2 * 8;
		uint32_t column = block.first_row + i / 4 * 8 + threadIdx.x % 4 * 2;
		float low = sum[i], high = sum[i + 1];
		if (token >= block.token_count) {
			continue;
		}
		if (IS_SILU) {
			low = gated(low, sum[i + ups]);
			high = gated(high, sum[i + 1 + ups]);
		} else if (gemm.bias != NULL) {
			low += bf16_load(gemm.bias + column);
			high += bf16_load(gemm.bias + column + 1);
		}
		size_t at = (size_t)(block.first_token + token) * gemm.output_count + column;
		*reinterpret_cast<uint32_t *>(gemm.out + at) = pack2(low, high);
	}
}

#endif

template <int ROWS, bool IS_SILU>
static __global__ void __launch_bounds__(THREADS)
	linear_small_kernel(const __grid_constant__ CUtensorMap weight_map,
		const __grid_constant__ CUtensorMap in_map, const struct gemm gemm)
{
#ifdef QUIRE_SM90A
	const struct block block = locate_block<ROWS, IS_SILU>(gemm);

	if (threadIdx.x == GROUP) {
		prepare<ROWS>(gemm, block, &weight_map, &in_map);
	}
	__syncthreads();
	dependency_wait();
	dependents_launch();
	if (threadIdx.x < GROUP) {
		float sum[ROWS / 2];
		sum_all<ROWS>(gemm, block, sum);
		finish<ROWS, IS_SILU>(gemm, block, sum);
	} else if (threadIdx.x == GROUP) {
		produce<ROWS>(gemm, block, &weight_map, &in_map);
	}
#endif
}

/* ---- launchers ---- */

/* Shared memory of the layout in locate_block(). wgmma reads 64 rows of tokens, so memory for
   the missing rows follows the last stage. */
template <int ROWS> static uint32_t layout_bytes(const struct linear_plan *plan)
{
	const uint32_t stage = stage_chunks<ROWS> * (plan->tile_tokens + ROWS) * CHUNK_BYTES;

	return BARRIER_BYTES + plan->token_stages * stage + (64 - plan->tile_tokens) * CHUNK_BYTES;
}

template <int ROWS, bool IS_SILU>
static int launch(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	auto kernel = linear_small_kernel<ROWS, IS_SILU>;
	const uint32_t inputs = plan->shape.input_count, outputs = plan->shape.output_count;
	struct gemm gemm = {};
	CUtensorMap weight_map, in_map;

	gemm.out = (uint16_t *)operands->out;
	gemm.bias = operands->bias;
	gemm.row_count = plan->row_count;
	gemm.output_count = outputs / (IS_SILU ? 2 : 1);
	gemm.tile_tokens = plan->tile_tokens;
	gemm.fill_count = inputs / CHUNK / stage_chunks<ROWS>;
	gemm.stage_count = plan->token_stages;
	dim3 grid(outputs / ROWS, divide_up(gemm.row_count, gemm.tile_tokens));
	if (plan->shared_bytes != layout_bytes<ROWS>(plan)) {
		return (int)cudaErrorInvalidValue;
	}
	int code = make_tile_map(&weight_map, operands->weight, outputs, IS_SILU ? 2 : 1, inputs,
		ROWS, stage_chunks<ROWS>);
	if (code == 0) {
		code = make_tile_map(&in_map, operands->in, gemm.row_count, 1, inputs,
			gemm.tile_tokens, stage_chunks<ROWS>);
	}
	if (code == 0) {
		code = allow_shared<linear_small_kernel<ROWS, IS_SILU>>(plan->shared_bytes);
	}
	return code != 0 ? code
			 : launch_dependent(kernel, grid, THREADS, plan->shared_bytes, stream,
				   weight_map, in_map, gemm);
}

template <bool IS_SILU>
static int launch_rows(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	if constexpr (!IS_SILU) { /* gates and ups: a multiple of 8 rows each */
		if (plan->weight_rows == 40) {
			return launch<40, false>(plan, operands, stream);
		}
	}
	switch (plan->weight_rows) {
	case 16:
		return launch<16, IS_SILU>(plan, operands, stream);
	case 32:
		return launch<32, IS_SILU>(plan, operands, stream);
	case 48:
		return launch<48, IS_SILU>(plan, operands, stream);
	case 64:
		return launch<64, IS_SILU>(plan, operands, stream);
	case 80:
		return launch<80, IS_SILU>(plan, operands, stream);
	case 96:
		return launch<96, IS_SILU>(plan, operands, stream);
	default:
		return (int)cudaErrorInvalidValue;
	}
}

int linear_small(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	return plan->shape.has_silu ? launch_rows<true>(plan, operands, stream)
				    : launch_rows<false>(plan, operands, stream);
}
