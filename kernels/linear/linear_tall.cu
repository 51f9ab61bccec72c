#include "kernels/linear/linear_sm90.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/wgmma.cuh"

/* LINEAR_TALL: out = in * weight^T (+ bias), or silu(gate) * up of it, for tens to thousands of
   tokens by wgmma. in (tokens, K) and weight (N, K) are bf16, the accumulators float32.

   M of the instruction are 64 rows of the weight, N are the tokens of the tile. So one block reads
   its rows of the weight once for all tokens, and the tile of gate_up of qwen3-8b, 192 rows by 256
   tokens, gives each multiprocessor one block. A block sums over all of K, 16 inputs after 16, so
   the bits are those of cuBLASLt.

       producer    1 thread            TMA of weight and tokens into a ring   ──► full[stage]
       consumers   1 to 3 warpgroups   wgmma, then release the stage          ──► empty[stage]

   A cluster is token_sharers times weight_sharers blocks. Those with the same tokens load a share
   of them each and multicast it to the others, and so do those with the same rows of the weight.

   With silu a group of 16 rows in shared memory is 8 gates and their 8 ups, so that one thread has
   the sums of both. */

enum {
	GROUP = 4 * WARP,
	GROUP_ROWS = 64,	   /* M of a wgmma */
	EIGHT = LINEAR_TALL_EIGHT, /* rows of the swizzle's pattern */
	BAND = LINEAR_TALL_BAND,   /* token tiles that take turns within all rows */
	/* a thread, of three warpgroups and one: all that a multiprocessor has */
	CONSUMER_REGISTERS = 160,
	PRODUCER_REGISTERS = 32,
};

/* Two mbarriers a stage: full and empty. */
static_assert(2 * 8 * LINEAR_STAGES_MAX <= BARRIER_BYTES, "the barriers have room");

/* The tile of a block. */
template <int GROUPS_, int TOKENS_, bool IS_SILU_> struct tall_tile {
	static constexpr int GROUPS = GROUPS_, TOKENS = TOKENS_;
	static constexpr int ROWS = GROUPS * GROUP_ROWS; /* of the weight */
	/* N of a wgmma. Of 512 threads each has 128 registers when the kernel starts, too few for
	   the sums of 256 tokens in one instruction. */
	static constexpr int COLUMNS = TOKENS > 128 ? TOKENS / 2 : TOKENS;
	static constexpr int CHUNKS = LINEAR_TALL_CHUNKS(ROWS, TOKENS);
	static constexpr int WEIGHT_BYTES = CHUNKS * ROWS * CHUNK_BYTES; /* of a stage */
	static constexpr int STAGE_BYTES = WEIGHT_BYTES + CHUNKS * TOKENS * CHUNK_BYTES;
	/* A warpgroup of consumers needs more registers than the producer's leaves it. */
	static constexpr bool IS_LARGE = GROUPS == LINEAR_TALL_GROUPS && TOKENS > 192;
	static constexpr int THREADS = GROUPS * GROUP + (IS_LARGE ? (int)GROUP : (int)WARP);
	static constexpr bool IS_SILU = IS_SILU_;
};

/* The kernel's parameter. */
struct gemm {
	uint16_t *out;
	const uint16_t *bias;
	uint32_t row_count;
	uint32_t output_count; /* columns of out */
	uint32_t tile_tokens;  /* tokens from a tile to the next */
	uint32_t copy_tokens;  /* tokens in the box of a copy, a multiple of 8 */
	uint32_t fill_count;   /* stages' worth of inputs in K */
	uint32_t stage_count;
	/* A cluster: blocks that share tokens, times blocks that share rows of the weight. */
	uint32_t token_sharers, weight_sharers;
};

#ifdef QUIRE_SM90A

/* ---- kernels ---- */

/* What a thread block computes, and the layout of its shared memory. */
struct block {
	uint32_t first_row; /* of the weight; with silu of both halves */
	uint32_t first_token;
	uint32_t token_share, weight_share;   /* which part of a shared tile it copies */
	uint16_t token_blocks, weight_blocks; /* of the cluster that get its copies, a bit each */
	uint32_t full, empty;		      /* addresses of the first mbarrier of each kind */
	uint32_t stages; /* each (CHUNKS, ROWS, CHUNK), then (CHUNKS, TOKENS, CHUNK) */
};

template <typename TILE> static __device__ inline struct block locate_block(const struct gemm &gemm)
{
	extern __shared__ __align__(1024) uint8_t memory[];
	struct block block;
	uint32_t row_tile = blockIdx.x, token_tile = blockIdx.y;

	/* Blocks that run at a time use few tiles of both kinds, so that L2 holds them. */
	if (gridDim.y > BAND) {
		const uint32_t index = blockIdx.y * gridDim.x + blockIdx.x;
		const uint32_t first = index / (BAND * gridDim.x) * BAND;
		const uint32_t height = min((uint32_t)BAND, gridDim.y - first);
		const uint32_t pair = index % (BAND * gridDim.x) / gemm.token_sharers;
		row_tile = pair / height * gemm.token_sharers + index % gemm.token_sharers;
		token_tile = first + pair % height;
	}
	block.first_row = row_tile * (TILE::IS_SILU ? TILE::ROWS / 2 : TILE::ROWS);
	block.first_token = token_tile * gemm.tile_tokens;
	block.token_share = blockIdx.x % gemm.token_sharers;
	block.weight_share = blockIdx.y % gemm.weight_sharers;
	block.token_blocks = (uint16_t)(((1u << gemm.token_sharers) - 1)
					<< block.weight_share * gemm.token_sharers);
	block.weight_blocks =
		(uint16_t)((gemm.weight_sharers > 1 ? 1u | 1u << gemm.token_sharers : 1u)
			   << block.token_share);
	block.full = shared_address(memory);
	block.empty = block.full + 8 * LINEAR_STAGES_MAX;
	block.stages = block.full + BARRIER_BYTES;
	return block;
}

/* Copies this block's share of the rows of the weight to all blocks that use them; the map has
   eights of rows in pairs of halves. */
template <typename TILE>
static __device__ inline void fetch_weight(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *map, uint32_t fill, uint32_t stage)
{
	const uint32_t barrier = block.full + 8 * stage;
	const uint32_t rows = TILE::ROWS / gemm.weight_sharers, first = block.weight_share * rows;
	const uint32_t eight = (block.first_row + (TILE::IS_SILU ? first / 2 : first)) / EIGHT;
	uint32_t to = block.stages + stage * TILE::STAGE_BYTES + first * CHUNK_BYTES;

	barrier_arrive_expecting(barrier, TILE::WEIGHT_BYTES + TILE::CHUNKS * gemm.token_sharers *
								       gemm.copy_tokens *
								       CHUNK_BYTES);
#pragma unroll
	for (uint32_t i = 0; i < TILE::CHUNKS; i++, to += TILE::ROWS * CHUNK_BYTES) {
		const uint32_t chunk = fill * TILE::CHUNKS + i;
		if (gemm.weight_sharers == 1) {
			asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global"
				     ".mbarrier::complete_tx::bytes "
				     "[%0], [%1, {%2, %2, %2, %3, %4}], [%5];\n" ::"r"(to),
				     "l"(map), "r"(0), "r"(eight), "r"(chunk), "r"(barrier)
				     : "memory");
		} else {
			asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global"
				     ".mbarrier::complete_tx::bytes.multicast::cluster "
				     "[%0], [%1, {%2, %2, %2, %3, %4}], [%5], %6;\n" ::"r"(to),
				     "l"(map), "r"(0), "r"(eight), "r"(chunk), "r"(barrier),
				     "h"(block.weight_blocks)
				     : "memory");
		}
	}
}

/* Copies this block's share of the tokens to all blocks of the cluster. */
template <typename TILE>
static __device__ inline void fetch_tokens(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *map, uint32_t fill, uint32_t stage)
{
	const uint32_t barrier = block.full + 8 * stage;
	const uint32_t share = block.token_share * gemm.copy_tokens;
	uint32_t to =
		block.stages + stage * TILE::STAGE_BYTES + TILE::WEIGHT_BYTES + share * CHUNK_BYTES;

#pragma unroll
	for (uint32_t i = 0; i < TILE::CHUNKS; i++, to += TILE::TOKENS * CHUNK_BYTES) {
		const uint32_t row = block.first_token + share, chunk = fill * TILE::CHUNKS + i;
		if (gemm.token_sharers == 1) {
			copy_tiles(to, map, row, chunk, barrier);
		} else {
			asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global"
				     ".mbarrier::complete_tx::bytes.multicast::cluster "
				     "[%0], [%1, {%2, %3, %2, %4}], [%5], %6;\n" ::"r"(to),
				     "l"(map), "r"(0), "r"(row), "r"(chunk), "r"(barrier),
				     "h"(block.token_blocks)
				     : "memory");
		}
	}
}

static __device__ inline uint32_t cluster_blocks(const struct gemm &gemm)
{
	return gemm.token_sharers * gemm.weight_sharers;
}

/* Initialises the mbarriers. */
template <typename TILE>
static __device__ inline void prepare(const struct gemm &gemm, const struct block &block)
{
#pragma unroll 1
	for (uint32_t i = 0; i < gemm.stage_count; i++) {
		barrier_init(block.full + 8 * i, 1);
		barrier_init(block.empty + 8 * i, TILE::GROUPS * 4 * cluster_blocks(gemm));
	}
	barrier_init_done();
	fence_shared_writes();
}

/* The producer thread. It starts the copies of the weight into all stages before the dependency
   wait. */
template <typename TILE>
static __device__ inline void produce(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *weight_map, const CUtensorMap *in_map)
{
	struct ring_cursor at = {0, 0};

	prefetch_map(in_map);
#pragma unroll 1
	for (uint32_t i = 0; i < gemm.stage_count; i++) {
		fetch_weight<TILE>(gemm, block, weight_map, i, i);
	}
	dependency_wait();
	dependents_launch();
	fence_global_writes();
#pragma unroll 1
	for (uint32_t fill = 0; fill < gemm.fill_count; fill++) {
		if (fill >= gemm.stage_count) {
			barrier_wait(block.empty + 8 * at.stage, at.parity ^ 1);
			fetch_weight<TILE>(gemm, block, weight_map, fill, at.stage);
		}
		fetch_tokens<TILE>(gemm, block, in_map, fill, at.stage);
		advance(&at, gemm.stage_count);
	}
}

/* Issues the wgmmas of a stage. weight, tokens: shared addresses of the warpgroup's operands. */
template <typename TILE>
static __device__ inline void sum_stage(
	float (&sum)[TILE::TOKENS / 2], uint32_t weight, uint32_t tokens, bool accumulates)
{
	const uint64_t a = tile_descriptor(weight), b = tile_descriptor(tokens);

	wgmma_fence();
#pragma unroll
	for (uint32_t chunk = 0; chunk < TILE::CHUNKS; chunk++) {
#pragma unroll
		for (uint32_t k = 0; k < CHUNK / 16; k++) { /* 16 inputs are 32 bytes of a row */
			const uint64_t of_a = a + chunk * (TILE::ROWS * CHUNK_BYTES / 16) + 2 * k;
			const uint64_t of_b = b + chunk * (TILE::TOKENS * CHUNK_BYTES / 16) + 2 * k;
			const bool is_sum = chunk + k > 0 || accumulates;
			wgmma<TILE::COLUMNS>::issue(sum, of_a, of_b, is_sum);
			if constexpr (TILE::TOKENS > TILE::COLUMNS) {
				wgmma<TILE::COLUMNS>::issue(sum + TILE::COLUMNS / 2, of_a,
					of_b + TILE::COLUMNS * CHUNK_BYTES / 16, is_sum);
			}
		}
	}
	wgmma_commit();
}

/* Releases a stage: this warp arrives at `empty` of every block that copies into this block. */
static __device__ inline void release(
	const struct gemm &gemm, const struct block &block, uint32_t stage)
{
	if (threadIdx.x % WARP < cluster_blocks(gemm)) {
		if (cluster_blocks(gemm) == 1) {
			barrier_arrive(block.empty + 8 * stage);
		} else {
			barrier_arrive_remote(block.empty + 8 * stage, threadIdx.x % WARP);
		}
	}
}

template <typename TILE>
static __device__ inline void sum_all(const struct gemm &gemm, const struct block &block,
	uint32_t group, float (&sum)[TILE::TOKENS / 2])
{
	struct ring_cursor at = {0, 0};
	uint32_t before = 0;

#pragma unroll 1
	for (uint32_t fill = 0; fill < gemm.fill_count; fill++) {
		const uint32_t stage = block.stages + at.stage * TILE::STAGE_BYTES;
		barrier_wait(block.full + 8 * at.stage, at.parity);
		sum_stage<TILE>(sum, stage + group * (GROUP_ROWS * CHUNK_BYTES),
			stage + TILE::WEIGHT_BYTES, fill > 0);
		if (fill > 0) {
			wgmma_wait<1>();
			if (fill + gemm.stage_count <= gemm.fill_count) {
				release(gemm, block, before);
			}
		}
		before = at.stage;
		advance(&at, gemm.stage_count);
	}
	wgmma_wait<0>();
	hold(sum);
}

/* Epilogue: adds the bias or applies silu, and writes bf16, 8 tokens by 8 or 16 outputs at a
   time. */
template <typename TILE>
static __device__ inline void finish(const struct gemm &gemm, const struct block &block,
	uint32_t group, const float (&sum)[TILE::TOKENS / 2])
{
	const uint32_t lane = threadIdx.x % WARP;
	const uint32_t first_row =
		block.first_row +
		(group * GROUP_ROWS + threadIdx.x % GROUP / WARP * 16) / (TILE::IS_SILU ? 2 : 1);
	const uint32_t first_token = block.first_token + lane / 4;
	const uint32_t end = min(gemm.row_count, block.first_token + gemm.tile_tokens);
	uint16_t *out =
		gemm.out + (size_t)first_token * gemm.output_count + first_row + lane % 4 * 2;
	float low = 0, high = 0;

	if (!TILE::IS_SILU && gemm.bias != NULL) {
		low = bf16_load(gemm.bias + first_row + lane / 4);
		high = bf16_load(gemm.bias + first_row + lane / 4 + 8);
	}
#pragma unroll
	for (uint32_t i = 0; i < TILE::TOKENS / 8; i++) {
		const float *four = sum + 4 * i;
		uint32_t first, second = 0;
		if (TILE::IS_SILU) {
			first = transpose(pack2(gated(four[0], four[2]), gated(four[1], four[3])));
		} else if (gemm.bias != NULL) {
			first = transpose(pack2(four[0] + low, four[1] + low));
			second = transpose(pack2(four[2] + high, four[3] + high));
		} else {
			first = transpose(pack2(four[0], four[1]));
			second = transpose(pack2(four[2], four[3]));
		}
		if (first_token + i * 8 < end) {
			*reinterpret_cast<uint32_t *>(out) = first;
			if (!TILE::IS_SILU) {
				*reinterpret_cast<uint32_t *>(out + 8) = second;
			}
		}
		out += (size_t)8 * gemm.output_count;
	}
}

#endif

template <typename TILE>
static __global__ void __launch_bounds__(TILE::THREADS, 1)
	linear_tall_kernel(const __grid_constant__ CUtensorMap weight_map,
		const __grid_constant__ CUtensorMap in_map, const struct gemm gemm)
{
#ifdef QUIRE_SM90A
	const struct block block = locate_block<TILE>(gemm);
	/* The shuffle shows the compiler that the value is uniform over the warp. */
	const uint32_t group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0);

	if (threadIdx.x == TILE::GROUPS * GROUP) {
		prepare<TILE>(gemm, block);
	}
	__syncthreads();
	if (cluster_blocks(gemm) > 1) {
		cluster_arrive_relaxed();
		cluster_wait();
	}
	if (group < TILE::GROUPS) {
		if constexpr (TILE::IS_LARGE) {
			registers_acquire<CONSUMER_REGISTERS>();
		}
		float sum[TILE::TOKENS / 2];
		dependency_wait();
		dependents_launch();
		sum_all<TILE>(gemm, block, group, sum);
		finish<TILE>(gemm, block, group, sum);
	} else {
		if constexpr (TILE::IS_LARGE) {
			registers_release<PRODUCER_REGISTERS>();
		}
		if (threadIdx.x == TILE::GROUPS * GROUP) {
			produce<TILE>(gemm, block, &weight_map, &in_map);
		}
	}
#endif
}

/* ---- launchers ---- */

/* The TMA descriptor of a weight as (chunk, eight of rows, half, row, CHUNK), 128-byte swizzle, so
   that a box of two halves has 8 gates, their 8 ups, the next 8 gates, ... */
static int make_weight_map(CUtensorMap *map, const uint16_t *weight, uint32_t row_count,
	uint32_t halves, uint32_t input_count, uint32_t tile_rows, uint32_t tile_chunks)
{
	const cuuint64_t row = input_count * 2ull, rows = row_count / halves;
	const cuuint64_t sizes[] = {CHUNK, EIGHT, halves, rows / EIGHT, input_count / CHUNK};
	const cuuint64_t steps[] = {row, row * rows, row * EIGHT, CHUNK_BYTES};
	const cuuint32_t tile[] = {CHUNK, EIGHT, halves, tile_rows / EIGHT / halves, tile_chunks};

	return tensor_map_make(map, weight, 5, sizes, steps, tile, CU_TENSOR_MAP_SWIZZLE_128B,
		CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

template <typename TILE>
static struct gemm describe(const struct linear_plan *plan, const struct linear_operands *operands)
{
	struct gemm gemm = {};

	gemm.out = (uint16_t *)operands->out;
	gemm.bias = operands->bias;
	gemm.row_count = plan->row_count;
	gemm.output_count = plan->shape.output_count / (TILE::IS_SILU ? 2 : 1);
	gemm.tile_tokens = plan->tile_tokens;
	gemm.copy_tokens = divide_up(plan->tile_tokens, EIGHT * plan->token_sharers) * EIGHT;
	gemm.fill_count = plan->shape.input_count / CHUNK / TILE::CHUNKS;
	gemm.stage_count = plan->token_stages;
	gemm.token_sharers = plan->token_sharers;
	gemm.weight_sharers = plan->sharers;
	return gemm;
}

template <typename TILE>
static int launch(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	auto kernel = linear_tall_kernel<TILE>;
	const uint32_t inputs = plan->shape.input_count, outputs = plan->shape.output_count;
	const struct gemm gemm = describe<TILE>(plan, operands);
	const dim3 grid(outputs / TILE::ROWS, divide_up(plan->row_count, plan->tile_tokens));
	CUtensorMap weight_map, in_map;

	if (plan->shared_bytes != BARRIER_BYTES + plan->token_stages * TILE::STAGE_BYTES ||
		gemm.copy_tokens * plan->token_sharers > TILE::TOKENS ||
		grid.x % plan->token_sharers != 0 || grid.y % plan->sharers != 0 ||
		(grid.y > BAND && plan->sharers > 1)) {
		return (int)cudaErrorInvalidValue;
	}
	int code = make_weight_map(&weight_map, operands->weight, outputs, TILE::IS_SILU ? 2 : 1,
		inputs, TILE::ROWS / plan->sharers, 1);
	if (code == 0) {
		code = make_tile_map(
			&in_map, operands->in, plan->row_count, 1, inputs, gemm.copy_tokens, 1);
	}
	if (code == 0) {
		code = allow_shared<linear_tall_kernel<TILE>>(plan->shared_bytes);
	}
	return code != 0 ? code
			 : launch_dependent_clusters(kernel, grid, TILE::THREADS,
				   dim3(plan->token_sharers, plan->sharers), plan->shared_bytes,
				   stream, weight_map, in_map, gemm);
}

template <int GROUPS, bool IS_SILU>
static int launch_tokens(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
#define COLUMNS_CASE(n)                                                                            \
	case n:                                                                                    \
		return launch<tall_tile<GROUPS, n, IS_SILU>>(plan, operands, stream);
	if constexpr (GROUPS == LINEAR_TALL_GROUPS) {
		switch (linear_tall_columns(plan->tile_tokens)) {
			COLUMNS_CASE(160)
			COLUMNS_CASE(192)
			COLUMNS_CASE(224)
			COLUMNS_CASE(256)
		default:
			break;
		}
	}
	switch (linear_tall_columns(plan->tile_tokens)) {
		COLUMNS_CASE(16)
		COLUMNS_CASE(32)
		COLUMNS_CASE(48)
		COLUMNS_CASE(64)
		COLUMNS_CASE(80)
		COLUMNS_CASE(96)
		COLUMNS_CASE(112)
		COLUMNS_CASE(128)
	default:
		return (int)cudaErrorInvalidValue;
	}
#undef COLUMNS_CASE
}

int linear_tall(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	switch (plan->weight_rows / GROUP_ROWS) {
	case 1:
		return launch_tokens<1, false>(plan, operands, stream);
	case 2:
		return plan->shape.has_silu ? launch_tokens<2, true>(plan, operands, stream)
					    : launch_tokens<2, false>(plan, operands, stream);
	case LINEAR_TALL_GROUPS:
		return launch_tokens<LINEAR_TALL_GROUPS, true>(plan, operands, stream);
	default:
		return (int)cudaErrorInvalidValue;
	}
}
