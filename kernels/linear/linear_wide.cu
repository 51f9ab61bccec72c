#include "kernels/linear/linear_sm90.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/wgmma.cuh"
#include "engine/shape/kernel_tiles.h"

/* LINEAR_WIDE: out = in * weight^T (+ bias), or silu(gate) * up of it, by wgmma, for tens to
   hundreds of tokens, with split-K from two on. in (tokens, K) and weight (N, K) are bf16, the
   accumulators float32. All tiles run in one wave.

   The GEMM is latency-bound by what cannot overlap with the kernel in front: the copy of the tokens
   into shared memory, the exchange of partial sums between blocks, and the stores. So there are two
   rings of stages:

       ring      filled                       holds
       weight    before the dependency wait   the block's whole share of the weight, where it fits
       tokens    after it                     a few stages

       producer    1 thread          TMA into both rings       ──►  weight_full, tokens_full
       consumers   1-2 warpgroups    wgmma, release the stage  ──►  empty

   Two forms of cluster:

       whole_tile   blocks with different tokens and the same rows of the weight. Each loads a share
                    of these rows and multicasts it to all. No split-K.
       split_tile   SPLIT_K blocks, each with one slice of K, for weights with too few outputs to
                    give every multiprocessor a tile. Each block gathers the partial sums of a
                    quarter of the outputs in its shared memory (st.async), and adds the slices in
                    ascending order. */

enum {
	GROUP = 4 * WARP,
	GROUP_SIZE = 64, /* M of a wgmma */
};

/* mbarriers: tokens_full, weight_full and empty for each stage, and gathered_full. */
static_assert(3 * 8 * LINEAR_STAGES_MAX + 8 <= BARRIER_BYTES, "the barriers have room");

/* The kernel's parameter. */
struct gemm {
	uint16_t *out;
	const uint16_t *bias;
	uint32_t row_count;
	uint32_t output_count; /* columns of out */
	uint32_t fill_count;   /* stages' worth of inputs in K, or in a slice */
	uint32_t token_stages, weight_stages;
	/* blocks of a cluster that share weight rows by multicast, a power of 2; 1 with split-K */
	uint32_t sharers;
};

/* The tile of a block, a template parameter of the kernel. Without split-K, M of the wgmma are
   64 tokens and N are COLUMNS rows of the weight. With split-K, M are 64 rows of the weight and
   N are the tokens: the weight has few rows, and N can follow the number of tokens. */
template <int TOKEN_GROUPS_, int WEIGHT_GROUPS_, int COLUMNS_, int CHUNKS_, bool IS_SILU_>
struct whole_tile {
	static constexpr int TOKEN_GROUPS = TOKEN_GROUPS_, WEIGHT_GROUPS = WEIGHT_GROUPS_;
	static constexpr int COLUMNS = COLUMNS_, CHUNKS = CHUNKS_; /* of a stage */
	static constexpr int GROUPS = TOKEN_GROUPS * WEIGHT_GROUPS;
	static constexpr bool IS_SILU = IS_SILU_, IS_SPLIT = false;
	static constexpr int TOKENS = TOKEN_GROUPS * GROUP_SIZE;
	static constexpr int ROWS = WEIGHT_GROUPS * COLUMNS; /* of the weight */
	static constexpr int COPY_ROWS = COLUMNS;	     /* of the weight */
	static constexpr int GATHERED = 0;
};

template <int GROUPS_, int COLUMNS_, int CHUNKS_> struct split_tile {
	static constexpr int TOKEN_GROUPS = 1, WEIGHT_GROUPS = GROUPS_, GROUPS = GROUPS_;
	static constexpr int COLUMNS = COLUMNS_, CHUNKS = CHUNKS_;
	static constexpr bool IS_SILU = false, IS_SPLIT = true;
	static constexpr int TOKENS = COLUMNS;
	static constexpr int ROWS = GROUPS * GROUP_SIZE;
	static constexpr int COPY_ROWS = ROWS;
	static constexpr int PIECE = 16 * COLUMNS * 4; /* bytes of a warp's sums */
	static constexpr int GATHERED = SPLIT_K * GROUPS * PIECE;
};

template <typename TILE> constexpr int consumers = TILE::GROUPS *GROUP;
template <typename TILE> constexpr int token_stage = TILE::CHUNKS *TILE::TOKENS *CHUNK_BYTES;
template <typename TILE> constexpr int weight_stage = TILE::CHUNKS *TILE::ROWS *CHUNK_BYTES;
template <typename TILE> constexpr int sums = TILE::COLUMNS / 2;

#ifdef QUIRE_SM90A

/* ---- kernels ---- */

/* barrier_wait() for two mbarriers. */
static __device__ inline void barriers_wait(
	uint32_t first, uint32_t first_parity, uint32_t second, uint32_t second_parity)
{
	asm volatile("{\n.reg .pred first, second;\n"
		     "again:\n"
		     "mbarrier.try_wait.parity.shared::cta.b64 first, [%0], %1;\n"
		     "mbarrier.try_wait.parity.shared::cta.b64 second, [%2], %3;\n"
		     "and.pred first, first, second;\n"
		     "@!first bra again;\n}\n" ::"r"(first),
		     "r"(first_parity), "r"(second), "r"(second_parity)
		     : "memory");
}

/* TMA copy of one chunk of inputs of the rows from `row` on (of gates and of ups where the map
   has two halves), to the same shared address in each of the first `blocks` blocks of the
   cluster. */
static __device__ inline void copy_tile(uint32_t shared, const CUtensorMap *map, uint32_t row,
	uint32_t chunk, uint32_t barrier, uint32_t blocks)
{
	if (blocks == 1) {
		asm volatile(
			"cp.async.bulk.tensor.4d.shared::cluster.global"
			".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %2, %4}], [%5];\n" ::"r"(
				shared),
			"l"(map), "r"(0), "r"(row), "r"(chunk), "r"(barrier)
			: "memory");
	} else {
		asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global"
			     ".mbarrier::complete_tx::bytes.multicast::cluster "
			     "[%0], [%1, {%2, %3, %2, %4}], [%5], %6;\n" ::"r"(shared),
			     "l"(map), "r"(0), "r"(row), "r"(chunk), "r"(barrier),
			     "h"((uint16_t)((1u << blocks) - 1))
			     : "memory");
	}
}

/* What a thread block computes, and the layout of its shared memory. */
struct block {
	uint32_t first_row;   /* of the weight; with silu of both halves */
	uint32_t first_token; /* of the tile */
	uint32_t first_chunk;
	uint32_t rank; /* in the cluster; with split-K also the slice */
	uint32_t tokens_full, weight_full, empty, gathered_full; /* addresses of mbarriers */
	uint32_t tokens;   /* stages of (CHUNKS, TOKENS, CHUNK) */
	uint32_t weight;   /* stages of (CHUNKS, ROWS, CHUNK) */
	uint32_t gathered; /* (SPLIT_K, GROUPS) pieces */
};

template <typename TILE> static __device__ inline struct block locate_block(const struct gemm &gemm)
{
	extern __shared__ __align__(1024) uint8_t memory[];
	const uint32_t row_tile = TILE::IS_SPLIT ? blockIdx.x / SPLIT_K : blockIdx.x;
	struct block block;

	block.rank = cluster_rank();
	block.first_row = row_tile * (TILE::IS_SILU ? TILE::ROWS / 2 : TILE::ROWS);
	/* The last tile of tokens starts earlier instead of reaching past the last row, because
	   copies with missing rows are slower. A row in two tiles gets the same bits from both. */
	block.first_token = min(blockIdx.y * TILE::TOKENS,
		gemm.row_count - min(gemm.row_count, (uint32_t)TILE::TOKENS));
	block.first_chunk = TILE::IS_SPLIT ? block.rank * gemm.fill_count * TILE::CHUNKS : 0;
	block.tokens_full = shared_address(memory);
	block.weight_full = block.tokens_full + 8 * LINEAR_STAGES_MAX;
	block.empty = block.weight_full + 8 * LINEAR_STAGES_MAX;
	block.gathered_full = block.empty + 8 * LINEAR_STAGES_MAX;
	block.tokens = block.tokens_full + BARRIER_BYTES;
	block.weight = block.tokens + gemm.token_stages * token_stage<TILE>;
	block.gathered = block.weight + gemm.weight_stages * weight_stage<TILE>;
	return block;
}

template <typename TILE>
static __device__ inline void fetch_weight(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *map, uint32_t fill, uint32_t stage)
{
	const uint32_t barrier = block.weight_full + 8 * stage;
	const uint32_t to = block.weight + stage * weight_stage<TILE>;
	constexpr uint32_t copies = TILE::ROWS / TILE::COPY_ROWS; /* of a chunk */

	barrier_arrive_expecting(barrier, weight_stage<TILE>);
#pragma unroll
	for (uint32_t i = 0; i < TILE::CHUNKS * copies; i++) {
		const uint32_t row = i % copies * TILE::COPY_ROWS;
		if (TILE::IS_SPLIT || (i & (gemm.sharers - 1)) == block.rank) {
			copy_tile(to + i * TILE::COPY_ROWS * CHUNK_BYTES, map,
				block.first_row + (TILE::IS_SILU ? row / 2 : row),
				block.first_chunk + fill * TILE::CHUNKS + i / copies, barrier,
				gemm.sharers);
		}
	}
}

template <typename TILE>
static __device__ inline void fetch_tokens(
	const struct block &block, const CUtensorMap *map, uint32_t fill, uint32_t stage)
{
	const uint32_t barrier = block.tokens_full + 8 * stage;
	const uint32_t to = block.tokens + stage * token_stage<TILE>;

	barrier_arrive_expecting(barrier, token_stage<TILE>);
#pragma unroll
	for (uint32_t chunk = 0; chunk < TILE::CHUNKS; chunk++) {
		copy_tile(to + chunk * TILE::TOKENS * CHUNK_BYTES, map, block.first_token,
			block.first_chunk + fill * TILE::CHUNKS + chunk, barrier, 1);
	}
}

/* Initialises the mbarriers. Without multicast it also starts the copies of the weight into all
   stages; a multicast has to wait until the other blocks have initialised theirs. */
template <typename TILE>
static __device__ inline void prepare(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *weight_map, const CUtensorMap *in_map)
{
#pragma unroll 1
	for (uint32_t i = 0; i < gemm.token_stages; i++) {
		barrier_init(block.tokens_full + 8 * i, 1);
		barrier_init(block.empty + 8 * i, TILE::GROUPS * 4 * gemm.sharers);
	}
#pragma unroll 1
	for (uint32_t i = 0; i < gemm.weight_stages; i++) {
		barrier_init(block.weight_full + 8 * i, 1);
	}
	if (TILE::IS_SPLIT) {
		barrier_init(block.gathered_full, 1);
	}
	barrier_init_done();
	fence_shared_writes();
	if constexpr (TILE::IS_SPLIT) {
		barrier_arrive_expecting(
			block.gathered_full, TILE::GATHERED / SPLIT_K * (SPLIT_K - 1));
	}
	if (gemm.sharers == 1) {
#pragma unroll 1
		for (uint32_t i = 0; i < gemm.weight_stages; i++) {
			fetch_weight<TILE>(gemm, block, weight_map, i, i);
		}
	}
	prefetch_map(in_map);
}

/* The producer thread, once all blocks of the cluster have initialised their mbarriers. `empty`
   of a token stage also releases the weight stage that was used with it. */
template <typename TILE>
static __device__ inline void produce(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *weight_map, const CUtensorMap *in_map)
{
	struct ring_cursor at = {0, 0}, weight_at = {0, 0};

	if (gemm.sharers > 1) {
#pragma unroll 1
		for (uint32_t i = 0; i < gemm.weight_stages; i++) {
			fetch_weight<TILE>(gemm, block, weight_map, i, i);
		}
	}
	dependency_wait();
	fence_global_writes();
#pragma unroll 1
	for (uint32_t fill = 0; fill < gemm.fill_count; fill++) {
		if (fill >= gemm.token_stages) {
			const uint32_t next = fill - gemm.token_stages + gemm.weight_stages;
			barrier_wait(block.empty + 8 * at.stage, at.parity ^ 1);
			fetch_tokens<TILE>(block, in_map, fill, at.stage);
			if (next < gemm.fill_count) {
				fetch_weight<TILE>(gemm, block, weight_map, next, weight_at.stage);
				advance(&weight_at, gemm.weight_stages);
			}
		} else {
			fetch_tokens<TILE>(block, in_map, fill, at.stage);
		}
		advance(&at, gemm.token_stages);
	}
}

/* Issues the wgmmas of a stage. tokens, weight: shared addresses of this warpgroup's tiles. */
template <typename TILE>
static __device__ inline void sum_stage(
	float (&sum)[sums<TILE>], uint32_t tokens, uint32_t weight, bool accumulates)
{
	const uint64_t a = tile_descriptor(TILE::IS_SPLIT ? weight : tokens);
	const uint64_t b = tile_descriptor(TILE::IS_SPLIT ? tokens : weight);
	const uint32_t a_rows = TILE::IS_SPLIT ? TILE::ROWS : TILE::TOKENS;
	const uint32_t b_rows = TILE::IS_SPLIT ? TILE::TOKENS : TILE::ROWS;

	wgmma_fence();
#pragma unroll
	for (uint32_t chunk = 0; chunk < TILE::CHUNKS; chunk++) {
#pragma unroll
		for (uint32_t k = 0; k < CHUNK / 16; k++) { /* 16 inputs are 32 bytes of a row */
			wgmma<TILE::COLUMNS>::issue(sum,
				a + chunk * (a_rows * CHUNK_BYTES / 16) + 2 * k,
				b + chunk * (b_rows * CHUNK_BYTES / 16) + 2 * k,
				chunk + k > 0 || accumulates);
		}
	}
	wgmma_commit();
}

/* Releases a stage: this warp arrives at `empty` of every block that copies into this block. */
template <typename TILE>
static __device__ inline void release(
	const struct gemm &gemm, const struct block &block, uint32_t stage)
{
	if (TILE::IS_SPLIT ? threadIdx.x % WARP == block.rank : threadIdx.x % WARP < gemm.sharers) {
		barrier_arrive_remote(block.empty + 8 * stage, threadIdx.x % WARP);
	}
}

/* The shuffle shows the compiler that the value is uniform over the warp. */
static __device__ inline uint32_t warpgroup_index()
{
	return __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0);
}

template <typename TILE>
static __device__ inline void sum_all(
	const struct gemm &gemm, const struct block &block, float (&sum)[sums<TILE>])
{
	const uint32_t group = warpgroup_index();
	const uint32_t tokens = block.tokens + (TILE::IS_SPLIT ? 0 : group / TILE::WEIGHT_GROUPS) *
						       (GROUP_SIZE * CHUNK_BYTES);
	const uint32_t weight =
		block.weight +
		group % TILE::WEIGHT_GROUPS * (TILE::ROWS / TILE::WEIGHT_GROUPS * CHUNK_BYTES);
	struct ring_cursor at = {0, 0}, weight_at = {0, 0};
	uint32_t before = 0;

#pragma unroll 1
	for (uint32_t fill = 0; fill < gemm.fill_count; fill++) {
		barriers_wait(block.weight_full + 8 * weight_at.stage, weight_at.parity,
			block.tokens_full + 8 * at.stage, at.parity);
		sum_stage<TILE>(sum, tokens + at.stage * token_stage<TILE>,
			weight + weight_at.stage * weight_stage<TILE>, fill > 0);
		if (fill > 0) {
			wgmma_wait<1>();
			if (fill + gemm.token_stages <= gemm.fill_count) {
				release<TILE>(gemm, block, before);
			}
		}
		before = at.stage;
		advance(&at, gemm.token_stages);
		advance(&weight_at, gemm.weight_stages);
	}
	wgmma_wait<0>();
	hold(sum);
}

/* Epilogue without split-K. The outputs of a warp's 16 tokens go through shared memory, so that
   whole cache lines are written. */
template <typename TILE>
static __device__ inline void finish(
	const struct gemm &gemm, const struct block &block, const float *sum)
{
	const uint32_t group = threadIdx.x / GROUP, warp = threadIdx.x / WARP;
	const uint32_t lane = threadIdx.x % WARP;
	constexpr uint32_t columns = TILE::IS_SILU ? TILE::COLUMNS / 2 : TILE::COLUMNS;
	constexpr uint32_t ups = TILE::COLUMNS / 4; /* from a gate's sum to its up's */
	constexpr uint32_t pitch =
		columns * 2 + (columns % 16 == 0 ? 16 : 32); /* avoids bank conflicts */
	constexpr uint32_t eights = columns / 8;
	const uint32_t first_column = block.first_row + group % TILE::WEIGHT_GROUPS * columns;
	const uint32_t first_token =
		block.first_token + group / TILE::WEIGHT_GROUPS * GROUP_SIZE + warp % 4 * 16;
	const uint32_t rows = block.tokens + warp * 16 * pitch;

	named_barrier_wait(1, consumers<TILE>); /* no warp reads the stages any more */
#pragma unroll
	for (uint32_t i = 0; i < columns / 2; i += 2) {
		const uint32_t row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2;
		float low = sum[i], high = sum[i + 1];
		if (TILE::IS_SILU) {
			low = gated(low, sum[i + ups]);
			high = gated(high, sum[i + 1 + ups]);
		} else if (gemm.bias != NULL) {
			low += bf16_load(gemm.bias + first_column + column);
			high += bf16_load(gemm.bias + first_column + column + 1);
		}
		store_shared(rows + row * pitch + column * 2, pack2(low, high));
	}
	__syncwarp();
#pragma unroll
	for (uint32_t i = lane; i < 16 * eights; i += WARP) {
		const uint32_t row = i / eights, eight = i % eights;
		const uint4 values = load_shared_uint4(rows + row * pitch + eight * 16);
		if (first_token + row < gemm.row_count) {
			size_t at = (size_t)(first_token + row) * gemm.output_count + first_column +
				    eight * 8;
			*reinterpret_cast<uint4 *>(gemm.out + at) = values;
		}
	}
}

/* Split-K: sends each block of the cluster the partial sums that it finishes, those of the warp
   of its rank in each warpgroup. A piece is (COLUMNS / 8, WARP) float4, four sums of a lane
   each. */
template <typename TILE>
static __device__ inline void exchange(const struct block &block, const float *sum)
{
	const uint32_t warp = threadIdx.x / WARP, to = warp % 4;
	const uint32_t piece = block.gathered +
			       (block.rank * TILE::GROUPS + warp / 4) * TILE::PIECE +
			       threadIdx.x % WARP * 16;
	const uint32_t remote = cluster_address(piece, to);
	const uint32_t barrier = cluster_address(block.gathered_full, to);

	if (to == block.rank) {
#pragma unroll
		for (uint32_t i = 0; i < sums<TILE>; i += 4) {
			store_shared(piece + i / 4 * WARP * 16,
				make_float4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]));
		}
	} else {
#pragma unroll
		for (uint32_t i = 0; i < sums<TILE>; i += 4) {
			store_remote(remote + i / 4 * WARP * 16, barrier, sum + i);
		}
	}
	named_barrier_wait(1, consumers<TILE>);
	barrier_wait(block.gathered_full, 0);
}

/* Epilogue with split-K: adds the gathered slices, 8 tokens by 16 outputs at a time. */
template <typename TILE>
static __device__ inline void finish_gathered(const struct gemm &gemm, const struct block &block)
{
	const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, group = warp / 4;
	const uint32_t first_row = block.first_row + group * GROUP_SIZE + block.rank * 16;
	float low = 0, high = 0;

	if (gemm.bias != NULL) {
		low = bf16_load(gemm.bias + first_row + lane / 4);
		high = bf16_load(gemm.bias + first_row + lane / 4 + 8);
	}
#pragma unroll
	for (uint32_t round = 0; round < (TILE::COLUMNS / 8 + 3) / 4; round++) {
		const uint32_t i = round * 4 + warp % 4;
		if (i >= TILE::COLUMNS / 8) {
			break;
		}
		const uint32_t from = block.gathered + group * TILE::PIECE + (i * WARP + lane) * 16;
		const uint32_t token = block.first_token + i * 8 + lane / 4;
		float4 sum = load_shared_float4(from);
#pragma unroll
		for (uint32_t slice = 1; slice < SPLIT_K; slice++) {
			float4 more =
				load_shared_float4(from + slice * (TILE::GROUPS * TILE::PIECE));
			sum.x += more.x;
			sum.y += more.y;
			sum.z += more.z;
			sum.w += more.w;
		}
		if (gemm.bias != NULL) {
			sum.x += low;
			sum.y += low;
			sum.z += high;
			sum.w += high;
		}
		const uint32_t first = transpose(pack2(sum.x, sum.y));
		const uint32_t second = transpose(pack2(sum.z, sum.w));
		if (token < gemm.row_count) {
			uint16_t *to = gemm.out + (size_t)token * gemm.output_count + first_row +
				       lane % 4 * 2;
			*reinterpret_cast<uint32_t *>(to) = first;
			*reinterpret_cast<uint32_t *>(to + 8) = second;
		}
	}
}

#endif

template <typename TILE>
static __global__ void __launch_bounds__(consumers<TILE> + WARP, 1)
	linear_wide_kernel(const __grid_constant__ CUtensorMap weight_map,
		const __grid_constant__ CUtensorMap in_map, const struct gemm gemm)
{
#ifdef QUIRE_SM90A
	dependents_launch();
	const struct block block = locate_block<TILE>(gemm);
	const bool is_producer = threadIdx.x == consumers<TILE>;

	if (is_producer) {
		prepare<TILE>(gemm, block, &weight_map, &in_map);
	}
	__syncthreads();
	if (TILE::IS_SPLIT || gemm.sharers > 1) {
		cluster_arrive_relaxed();
		cluster_wait();
	}
	if (warpgroup_index() < TILE::GROUPS) {
		float sum[sums<TILE>];
		sum_all<TILE>(gemm, block, sum);
		if constexpr (TILE::IS_SPLIT) {
			exchange<TILE>(block, sum);
			finish_gathered<TILE>(gemm, block);
		} else {
			finish<TILE>(gemm, block, sum);
		}
	} else if (is_producer) {
		produce<TILE>(gemm, block, &weight_map, &in_map);
	}
#endif
}

/* ---- launchers ---- */

/* Shared memory of the layout in locate_block(). */
template <typename TILE> static uint32_t layout_bytes(const struct linear_plan *plan)
{
	return BARRIER_BYTES + plan->token_stages * token_stage<TILE> +
	       plan->weight_stages * weight_stage<TILE> + TILE::GATHERED;
}

template <typename TILE>
static struct gemm describe(const struct linear_plan *plan, const struct linear_operands *operands)
{
	struct gemm gemm = {};

	gemm.out = (uint16_t *)operands->out;
	gemm.bias = operands->bias;
	gemm.row_count = plan->row_count;
	gemm.output_count = plan->shape.output_count / (TILE::IS_SILU ? 2 : 1);
	gemm.fill_count = plan->shape.input_count / plan->shape.split_k / (CHUNK * TILE::CHUNKS);
	gemm.token_stages = plan->token_stages;
	gemm.weight_stages = plan->weight_stages;
	gemm.sharers = plan->sharers;
	return gemm;
}

template <typename TILE>
static int launch(const struct linear_plan *plan, const struct linear_operands *operands,
	struct CUstream_st *stream)
{
	auto kernel = linear_wide_kernel<TILE>;
	const uint32_t inputs = plan->shape.input_count, outputs = plan->shape.output_count;
	const uint32_t split = TILE::IS_SPLIT ? SPLIT_K : 1;
	const uint32_t token_tiles = divide_up(plan->row_count, TILE::TOKENS);
	const struct gemm gemm = describe<TILE>(plan, operands);
	const dim3 grid(outputs / TILE::ROWS * split,
		divide_up(token_tiles, plan->sharers) * plan->sharers);
	CUtensorMap weight_map, in_map;

	if (plan->shared_bytes != layout_bytes<TILE>(plan)) {
		return (int)cudaErrorInvalidValue;
	}
	int code = make_tile_map(&weight_map, operands->weight, outputs, TILE::IS_SILU ? 2 : 1,
		inputs, TILE::COPY_ROWS, 1);
	if (code == 0) {
		code = make_tile_map(
			&in_map, operands->in, plan->row_count, 1, inputs, TILE::TOKENS, 1);
	}
	if (code == 0) {
		code = allow_shared<linear_wide_kernel<TILE>>(plan->shared_bytes);
	}
	return code != 0 ? code
			 : launch_dependent_clusters(kernel, grid, consumers<TILE> + WARP,
				   dim3(split, plan->sharers), plan->shared_bytes, stream,
				   weight_map, in_map, gemm);
}

static int launch_split(const struct linear_plan *plan, const struct linear_operands *operands,
	struct CUstream_st *stream)
{
#define LAUNCH_TILE(rows, tokens, chunks, token_stages)                                            \
	if (plan->weight_rows == (rows) && plan->tile_tokens == (tokens) &&                        \
		plan->stage_chunks == (chunks)) {                                                  \
		return launch<split_tile<(rows) / GROUP_SIZE, tokens, chunks>>(                    \
			plan, operands, stream);                                                   \
	}
	LINEAR_WIDE_SPLIT_TILES(LAUNCH_TILE)
#undef LAUNCH_TILE
	return (int)cudaErrorInvalidValue;
}

template <bool IS_SILU>
static int launch_whole(const struct linear_plan *plan, const struct linear_operands *operands,
	struct CUstream_st *stream)
{
	return plan->tile_tokens == GROUP_SIZE
		       ? launch<whole_tile<1, 2, 48, 2, IS_SILU>>(plan, operands, stream)
		       : launch<whole_tile<2, 1, 96, 2, IS_SILU>>(plan, operands, stream);
}

int linear_wide(const struct linear_plan *plan, const struct linear_operands *operands,
	struct CUstream_st *stream)
{
	if (plan->shape.split_k > 1) {
		return launch_split(plan, operands, stream);
	}
	return plan->shape.has_silu ? launch_whole<true>(plan, operands, stream)
				    : launch_whole<false>(plan, operands, stream);
}
