#include "kernels/linear/linear_sm90.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/rows/rms_norm.cuh"

/* LINEAR_STREAM: out = in * weight^T (+ bias), or silu(gate) * up of it, or logits, for up to 8
   tokens of wide weights by mma.sync. in (tokens, K) and weight (N, K) are bf16, the accumulators
   and logits float32. For one token the add_rms_norm() in front can be fused.

   Such a GEMM is bound by the read of the weight, so the kernel is a stream: one block a
   multiprocessor, with an equal share of the rows of the weight, reads them through one ring of
   stages, tile after tile, without a gap between tiles.

       producer    1 thread       TMA of weight and tokens into a ring of stages  ──► full[stage]
       consumers   1 warp for     full[stage] ──► registers, then release it      ──► empty[stage]
                   16 rows        mma.sync, each chunk's fragments loaded during those before
       row warps   8, or those    the one token as a whole, behind the dependency wait;
                   of a norm      with a fused norm they normalise it, in every block

   One token alone is no part of the ring: copies of its pieces would queue behind those of the
   weight that fill the ring. Row warps load it by plain loads while the producer still requests the
   weight. Several tokens are copied with the weight, after the whole ring is requested.

   A warp sums 16 rows of the weight over all of K, 16 inputs after 16 (m16n8k16, the weight as its
   16 rows, the tokens as its 8 columns), so the bits are those of cuBLASLt. A step takes 32 cycles
   and reads 512 bytes. Two warps are faster than the memory's share of a multiprocessor, so they
   catch up with what was requested before the tokens were there.

   With split-K each of four warps sums its slice of K for the same 16 rows, and the first one adds
   their sums. A stage has a chunk of every slice, so all four work from the first stage on.

   The weight's part of all stages of the ring is requested before the dependency wait (PDL): the
   memory is read while a norm or the end of decode attention runs. The ring may have all shared
   memory but room for a block of a norm, which then starts beside it, so that the blocks of the
   next layer start as soon as those of this one end. */

enum {
	CHUNKS = LINEAR_STREAM_CHUNKS,
	GROUP_ROWS = LINEAR_STREAM_ROWS,
	GROUP_CHUNK_BYTES = GROUP_ROWS * CHUNK_BYTES,
	STEPS = CHUNK / 16, /* mmas of a chunk */
	ROW_LOADS = 8,	    /* of a row thread in flight, 16 bytes each */
	NORM_WARPS_MAX = LINEAR_STREAM_NORM_INPUTS / (NORM_VECTORS_MAX * 8 * WARP),
	THREADS_MAX = (LINEAR_STREAM_WARPS_MAX + 1 + NORM_WARPS_MAX) * WARP,
	SQUARES = 2 * 8 * LINEAR_STAGES_MAX, /* offset of the norm warps' sums of squares */
	SUM_STEP = WARP * 4,		     /* bytes between sums of one lane */
};

/* ROW_BARRIER: of the consumers and row warps: the token is there. NORM_BARRIER: of the row
   warps. SLICE_BARRIER: of the consumers: the sums of all slices are there. */
enum named_barrier { ROW_BARRIER = 1, NORM_BARRIER, SLICE_BARRIER };

static_assert(SQUARES + 4 * NORM_WARPS_MAX <= BARRIER_BYTES, "barriers and squares have room");
static_assert(CHUNKS == SPLIT_K, "a stage has a chunk of every slice");

/* What becomes of the sums. */
enum outputs { PLAIN, SILU, LOGITS };

/* Where tokens are: in the stages, or one of them, as a whole, behind these, with or without a
   fused norm. */
enum inputs { IN_RING, IN_ROW, NORMED };

struct gemm {
	void *out;	    /* bf16; LOGITS: float32 */
	const uint16_t *in; /* all but IN_RING */
	const uint16_t *bias;
	uint32_t row_count;
	uint32_t input_count;
	uint32_t output_count; /* columns of out */
	uint32_t group_count;  /* of GROUP_ROWS rows of the weight */
	uint32_t tile_groups;  /* of a tile */
	uint32_t warp_count;   /* consumers: one for each slice of each group of a tile */
	uint32_t fill_count;   /* stages' worth of inputs in K */
	uint32_t stage_count;
	uint32_t token_bytes; /* IN_RING: of the tokens in a stage, with their padding; else 0 */
	uint32_t row_bytes;   /* all but IN_RING: of the token */
	uint32_t row_threads; /* all but IN_RING */
	struct linear_norm norm;
};

#ifdef QUIRE_SM90A

/* ---- kernels ---- */

/* What a thread block computes, and the layout of its shared memory. */
struct block {
	uint32_t first_group, group_count;
	uint32_t fill_count;  /* of all tiles */
	uint32_t full, empty; /* addresses of the first mbarrier of each kind */
	/* each (chunks, tokens, CHUNK), padded; then (groups, chunks, GROUP_ROWS, CHUNK) */
	uint32_t stages;
	uint32_t stage_bytes;
	uint32_t row;  /* all but IN_RING: the token */
	uint32_t sums; /* SLICES > 1: (groups of a tile, slices but the first, 4, WARP) float32 */
};

static __device__ inline struct block locate_block(const struct gemm &gemm)
{
	extern __shared__ __align__(1024) uint8_t memory[];
	struct block block;

	block.first_group = (uint32_t)((uint64_t)blockIdx.x * gemm.group_count / gridDim.x);
	block.group_count = (uint32_t)((uint64_t)(blockIdx.x + 1) * gemm.group_count / gridDim.x) -
			    block.first_group;
	block.fill_count =
		(block.group_count + gemm.tile_groups - 1) / gemm.tile_groups * gemm.fill_count;
	block.full = shared_address(memory);
	block.empty = block.full + 8 * LINEAR_STAGES_MAX;
	block.stages = block.full + BARRIER_BYTES;
	block.stage_bytes = gemm.token_bytes + gemm.tile_groups * CHUNKS * GROUP_CHUNK_BYTES;
	block.row = block.stages + gemm.stage_count * block.stage_bytes;
	block.sums = block.row + gemm.row_bytes;
	return block;
}

/* The next fill of the ring: a stage's worth of inputs of one tile. */
struct fill_cursor {
	struct ring_cursor ring;
	uint32_t tile_group; /* first group of the tile, counted from the block's */
	uint32_t inputs;     /* index of the stage's worth within K */
};

static __device__ inline void advance(struct fill_cursor *at, const struct gemm &gemm)
{
	advance(&at->ring, gemm.stage_count);
	at->inputs++;
	if (at->inputs == gemm.fill_count) {
		at->inputs = 0;
		at->tile_group += gemm.tile_groups;
	}
}

template <outputs OUTPUTS, inputs INPUTS, uint32_t SLICES>
static __device__ inline void fetch_weight(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *map, const struct fill_cursor &at)
{
	const uint32_t rows = OUTPUTS == SILU ? GROUP_ROWS / 2 : GROUP_ROWS;
	const uint32_t tokens = INPUTS == IN_RING ? gemm.row_count : 0;
	const uint32_t barrier = block.full + 8 * at.ring.stage;
	const uint32_t groups = min(gemm.tile_groups, block.group_count - at.tile_group);
	uint32_t to = block.stages + at.ring.stage * block.stage_bytes + gemm.token_bytes;
	uint32_t row = (block.first_group + at.tile_group) * rows;

	barrier_arrive_expecting(
		barrier, CHUNKS * (groups * GROUP_CHUNK_BYTES + tokens * CHUNK_BYTES));
#pragma unroll 1
	for (uint32_t i = 0; i < groups; i++) {
		copy_tiles(to, map, row, at.inputs * (CHUNKS / SLICES), barrier);
		to += CHUNKS * GROUP_CHUNK_BYTES;
		row += rows;
	}
}

/* Initialises the mbarriers. */
static __device__ inline void prepare(const struct gemm &gemm, const struct block &block)
{
#pragma unroll 1
	for (uint32_t i = 0; i < gemm.stage_count; i++) {
		barrier_init(block.full + 8 * i, 1);
		barrier_init(block.empty + 8 * i, gemm.warp_count);
	}
	barrier_init_done();
	fence_shared_writes();
}

/* The producer thread. It starts the copies of the weight into all stages before the dependency
   wait, of which it has no need where the token is loaded by others. */
template <outputs OUTPUTS, inputs INPUTS, uint32_t SLICES>
static __device__ inline void produce(const struct gemm &gemm, const struct block &block,
	const CUtensorMap *weight_map, const CUtensorMap *in_map)
{
	struct fill_cursor at = {}, token = {}; /* the next to request */

#pragma unroll 1
	for (uint32_t i = 0; i < gemm.stage_count; i++) { /* no more than the fills of a tile */
		fetch_weight<OUTPUTS, INPUTS, SLICES>(gemm, block, weight_map, at);
		advance(&at, gemm);
	}
	if (INPUTS == IN_RING) {
		prefetch_map(in_map);
		dependency_wait();
		fence_global_writes();
	}
#pragma unroll 1
	for (uint32_t fill = INPUTS == IN_RING ? 0 : gemm.stage_count; fill < block.fill_count;
		fill++) {
		if (fill >= gemm.stage_count) {
			barrier_wait(block.empty + 8 * at.ring.stage, at.ring.parity ^ 1);
			fetch_weight<OUTPUTS, INPUTS, SLICES>(gemm, block, weight_map, at);
			advance(&at, gemm);
		}
		if (INPUTS == IN_RING) {
			copy_tiles(block.stages + token.ring.stage * block.stage_bytes, in_map, 0,
				token.inputs * (CHUNKS / SLICES),
				block.full + 8 * token.ring.stage);
			advance(&token, gemm);
		}
	}
}

/* The row warps: the token goes to shared memory. thread: counted from the first of theirs. */
static __device__ inline void load_row(
	const struct gemm &gemm, const struct block &block, uint32_t thread)
{
	const uint32_t step = gemm.row_threads * 8;

	dependency_wait();
	dependents_launch();
#pragma unroll 1
	for (uint32_t first = thread * 8; first < gemm.input_count; first += ROW_LOADS * step) {
		bf16x8 loaded[ROW_LOADS];
#pragma unroll
		for (uint32_t i = 0; i < ROW_LOADS; i++) {
			if (first + i * step < gemm.input_count) {
				loaded[i] = load8(gemm.in + first + i * step);
			}
		}
#pragma unroll
		for (uint32_t i = 0; i < ROW_LOADS; i++) {
			if (first + i * step < gemm.input_count) {
				store_shared(block.row + (first + i * step) * 2, loaded[i]);
			}
		}
	}
}

/* The row warps with a fused norm: every block normalises the token; the first also stores the new
   residual. The arithmetic is that of rms_norm_kernel (kernels/rows/rms_norm.cu), and so are the
   bits. */
static __device__ inline void norm_row(
	const struct gemm &gemm, const struct block &block, uint32_t thread)
{
	const uint32_t squares = block.full + SQUARES, step = gemm.row_threads * 8;
	bf16x8 weight[NORM_VECTORS_MAX], row[NORM_VECTORS_MAX], added[NORM_VECTORS_MAX];
	float square = 0, sum = 0;

#pragma unroll
	for (uint32_t v = 0, at = thread * 8; v < NORM_VECTORS_MAX; v++, at += step) {
		if (at < gemm.input_count) {
			weight[v] = load8(gemm.norm.weight + at);
		}
	}
	dependency_wait();
	dependents_launch();
#pragma unroll
	for (uint32_t v = 0, at = thread * 8; v < NORM_VECTORS_MAX; v++, at += step) {
		if (at < gemm.input_count) {
			row[v] = load8(gemm.in + at);
			added[v] = load8(gemm.norm.residual + at);
		}
	}
#pragma unroll
	for (uint32_t v = 0, at = thread * 8; v < NORM_VECTORS_MAX; v++, at += step) {
		if (at < gemm.input_count) {
			row[v] = sum8(row[v], added[v]);
			square = add_squares8(square, row[v]);
			if (blockIdx.x == 0) {
				store8(gemm.norm.sum + at, row[v]);
			}
		}
	}
	square = warp_sum(square);
	if (thread % WARP == 0) {
		store_shared(squares + thread / WARP * 4, square);
	}
	named_barrier_wait(NORM_BARRIER, gemm.row_threads);
	for (uint32_t i = 0; i < gemm.row_threads / WARP; i++) {
		sum += load_shared_float(squares + i * 4);
	}
	const float scale = norm_scale(sum, gemm.input_count, gemm.norm.epsilon);
#pragma unroll
	for (uint32_t v = 0, at = thread * 8; v < NORM_VECTORS_MAX; v++, at += step) {
		if (at < gemm.input_count) {
			store_shared(block.row + at * 2, scale8(row[v], scale, weight[v]));
		}
	}
}

/* This lane's fragments of a chunk: operands a and b of mma.sync. */
struct chunk_fragments {
	uint32_t weight[STEPS][4];
	uint32_t tokens[STEPS][2];
};

/* Shared addresses of a stage, and of the tokens of its inputs. */
struct stage_addresses {
	uint32_t stage, tokens;
};

template <inputs INPUTS, uint32_t SLICES>
static __device__ inline struct stage_addresses locate_stage(
	const struct block &block, uint32_t stage, uint32_t fill)
{
	const uint32_t at = block.stages + stage * block.stage_bytes;

	return {at, INPUTS == IN_RING ? at : block.row + fill * (CHUNKS / SLICES * CHUNK_BYTES)};
}

/* Offsets within a stage, and within a stage's tokens, from which this lane loads fragments. The
   128-byte swizzle permutes the 16-byte pieces of a row by the row's index. Missing tokens read the
   last one; their sums are not used. With split-K they are those of the one chunk of `slice`. */
struct fragment_offsets {
	uint32_t weight[STEPS];
	uint32_t tokens[CHUNKS][2];

	template <inputs INPUTS>
	__device__ inline void find(const struct gemm &gemm, uint32_t group, uint32_t slice)
	{
		const uint32_t lane = threadIdx.x % WARP;
		const uint32_t row = lane % 16, token = min(lane % 8, gemm.row_count - 1);
#pragma unroll
		for (uint32_t step = 0; step < STEPS; step++) {
			weight[step] =
				gemm.token_bytes + (group * CHUNKS + slice) * GROUP_CHUNK_BYTES +
				row * CHUNK_BYTES + ((2 * step + lane / 16) ^ (row % 8)) * 16;
			hold(weight[step]);
		}
#pragma unroll
		for (uint32_t i = 0; i < 2 * CHUNKS; i++) {
			uint32_t at = (i / 2 + slice) * gemm.row_count + token;
			uint32_t eighth = i % 2 * 4 + lane / 8;
			tokens[i / 2][i % 2] =
				INPUTS == IN_RING
					? at * CHUNK_BYTES + (eighth ^ (at % 8)) * 16
					: i / 2 * CHUNK_BYTES + slice * (gemm.row_bytes / SPLIT_K) +
						  eighth * 16;
			hold(tokens[i / 2][i % 2]);
		}
	}

	/* A quarter of a chunk's loads; half of them load tokens for two steps. */
	__device__ inline void load(struct chunk_fragments &out, const struct stage_addresses &at,
		uint32_t chunk, uint32_t step) const
	{
		load_matrices(
			out.weight[step], at.stage + chunk * GROUP_CHUNK_BYTES + weight[step]);
		if (step % 2 == 0) {
			uint32_t four[4];
			load_matrices(four, at.tokens + tokens[chunk][step / 2]);
			out.tokens[step][0] = four[0];
			out.tokens[step][1] = four[1];
			out.tokens[step + 1][0] = four[2];
			out.tokens[step + 1][1] = four[3];
		}
	}
};

/* Epilogue of a tile of logits by its warp. */
static __device__ inline void finish_logits(
	const struct gemm &gemm, const struct block &block, uint32_t group, const float (&sum)[4])
{
	const uint32_t lane = threadIdx.x % WARP;
	float *out = (float *)gemm.out + (block.first_group + group) * GROUP_ROWS + lane / 4;

#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t token = lane % 4 * 2 + i % 2;
		if (group < block.group_count && token < gemm.row_count) {
			out[(size_t)token * gemm.output_count + i / 2 * 8] = sum[i];
		}
	}
}

/* Epilogue of a tile by its warp: adds the bias or applies silu, and writes pairs of bf16. Lanes
   of neighbouring rows exchange sums, so that each has a pair of rows of one token. */
template <bool IS_SILU>
static __device__ inline void finish(
	const struct gemm &gemm, const struct block &block, uint32_t group, float (&sum)[4])
{
	const uint32_t lane = threadIdx.x % WARP;
	const uint32_t is_odd = lane / 4 % 2, token = lane % 4 * 2 + is_odd;
	const uint32_t first = (block.first_group + group) * (IS_SILU ? 8 : 16) + (lane / 4 & ~1u);

#pragma unroll
	for (uint32_t half = 0; half < (IS_SILU ? 1 : 2); half++) {
		float low = sum[2 * half], high = sum[2 * half + 1];
		if (IS_SILU) {
			low = gated(sum[0], sum[2]);
			high = gated(sum[1], sum[3]);
		}
		float other = __shfl_xor_sync(~0u, is_odd ? low : high, 4);
		if (is_odd) {
			low = other;
		} else {
			high = other;
		}
		if (group >= block.group_count || token >= gemm.row_count) {
			continue;
		}
		uint32_t column = first + half * 8;
		if (!IS_SILU && gemm.bias != NULL) {
			low += bf16_load(gemm.bias + column);
			high += bf16_load(gemm.bias + column + 1);
		}
		*reinterpret_cast<uint32_t *>(
			(uint16_t *)gemm.out + (size_t)token * gemm.output_count + column) =
			pack2(low, high);
	}
}

/* One stage: its mmas, and the loads of this warp's first chunk of the next stage. The loads and
   the wait for that stage stand between mmas of the chain, which hide them; so there is no branch
   but that wait. In the last stage of a block `next` is the stage itself, whose chunk is loaded
   again and not used. FIRST: which fragments hold the stage's first chunk. */
template <uint32_t SLICES, uint32_t FIRST>
static __device__ inline void sum_stage(float (&sum)[4], struct chunk_fragments (&fragments)[2],
	const struct fragment_offsets &offsets, const struct stage_addresses &stage,
	const struct stage_addresses &next, uint32_t next_full, uint32_t next_parity)
{
#pragma unroll
	for (uint32_t chunk = 0; chunk < CHUNKS / SLICES; chunk++) {
		const struct chunk_fragments &one = fragments[(FIRST + chunk) % 2];
		const bool is_last = chunk + 1 == CHUNKS / SLICES;
#pragma unroll
		for (uint32_t step = 0; step < STEPS; step++) {
			multiply_add(
				sum, one.weight[step], one.tokens[step][0], one.tokens[step][1]);
			if (is_last && step == 0) {
				barrier_wait(next_full, next_parity);
			}
			offsets.load(fragments[(FIRST + chunk + 1) % 2], is_last ? next : stage,
				is_last ? 0 : chunk + 1, step);
		}
	}
}

/* A consumer: its group of a tile, its slice of K, and where it is in the ring. */
template <inputs INPUTS, uint32_t SLICES> struct consumer {
	uint32_t group, slice;
	struct fragment_offsets offsets;
	struct chunk_fragments fragments[2];
	struct ring_cursor at, next;
	uint32_t left; /* stages to compute, the one at `at` included */

	/* Waits for the first stage, and for the token where it is no part of it. */
	__device__ inline void begin(const struct gemm &gemm, const struct block &block)
	{
		const uint32_t warp = threadIdx.x / WARP;

		group = warp / SLICES;
		slice = warp % SLICES;
		at = next = {0, 0};
		left = block.fill_count;
		offsets.find<INPUTS>(gemm, group, slice);
		if (INPUTS != IN_RING) {
			named_barrier_wait(ROW_BARRIER, gemm.warp_count * WARP + gemm.row_threads);
		}
		barrier_wait(block.full, 0);
#pragma unroll
		for (uint32_t step = 0; step < STEPS; step++) {
			offsets.load(
				fragments[0], locate_stage<INPUTS, SLICES>(block, 0, 0), 0, step);
		}
	}

	/* The stage of `fill`, counted from the tile's first, and its release. */
	template <uint32_t FIRST>
	__device__ inline void sum_next(
		float (&sum)[4], const struct gemm &gemm, const struct block &block, uint32_t fill)
	{
		const uint32_t next_fill = fill + 1 == gemm.fill_count ? 0 : fill + 1;

		if (left > 1) {
			advance(&next, gemm.stage_count);
		}
		sum_stage<SLICES, FIRST>(sum, fragments, offsets,
			locate_stage<INPUTS, SLICES>(block, at.stage, fill),
			locate_stage<INPUTS, SLICES>(block, next.stage, next_fill),
			block.full + 8 * next.stage, next.parity);
		if (threadIdx.x % WARP == 0) { /* all of the stage is in registers */
			barrier_arrive(block.empty + 8 * at.stage);
		}
		at = next;
		left--;
	}
};

/* All tiles of a block, by one warp. A warp without rows in the last tile computes what is
   not stored. */
template <outputs OUTPUTS, inputs INPUTS>
static __device__ inline void consume(const struct gemm &gemm, const struct block &block)
{
	struct consumer<INPUTS, 1> own;

	own.begin(gemm, block);
#pragma unroll 1
	for (uint32_t group = own.group; own.left > 0; group += gemm.tile_groups) {
		float sum[4] = {};
#pragma unroll 1
		for (uint32_t fill = 0; fill < gemm.fill_count; fill++) {
			own.template sum_next<0>(sum, gemm, block, fill);
		}
		if (OUTPUTS == LOGITS) {
			finish_logits(gemm, block, group, sum);
		} else {
			finish<OUTPUTS == SILU>(gemm, block, group, sum);
		}
	}
}

/* The only tile of a block with split-K, by one warp: its slice of K, an even number of stages. The
   warp of the first slice adds the others' sums in their order. */
template <inputs INPUTS>
static __device__ inline void consume_slice(const struct gemm &gemm, const struct block &block)
{
	const uint32_t lane = threadIdx.x % WARP, threads = gemm.warp_count * WARP;
	struct consumer<INPUTS, SPLIT_K> own;
	float sum[4] = {};

	own.begin(gemm, block);
#pragma unroll 1
	for (uint32_t fill = 0; fill < gemm.fill_count; fill += 2) {
		own.template sum_next<0>(sum, gemm, block, fill);
		own.template sum_next<1>(sum, gemm, block, fill + 1);
	}
	const uint32_t sums =
		block.sums + own.group * LINEAR_STREAM_SUM_BYTES + lane * (uint32_t)sizeof(float);
	if (own.slice > 0) {
#pragma unroll
		for (uint32_t i = 0; i < 4; i++) {
			store_shared(sums + ((own.slice - 1) * 4 + i) * SUM_STEP, sum[i]);
		}
		named_barrier_arrive(SLICE_BARRIER, threads);
		return;
	}
	named_barrier_wait(SLICE_BARRIER, threads);
#pragma unroll
	for (uint32_t slice = 0; slice + 1 < SPLIT_K; slice++) {
#pragma unroll
		for (uint32_t i = 0; i < 4; i++) {
			sum[i] += load_shared_float(sums + (slice * 4 + i) * SUM_STEP);
		}
	}
	finish<false>(gemm, block, own.group, sum);
}

#endif

template <outputs OUTPUTS, inputs INPUTS, uint32_t SLICES>
static __global__ void __launch_bounds__(THREADS_MAX, 1)
	linear_stream_kernel(const __grid_constant__ CUtensorMap weight_map,
		const __grid_constant__ CUtensorMap in_map, const struct gemm gemm)
{
#ifdef QUIRE_SM90A
	const struct block block = locate_block(gemm);
	const uint32_t producer = gemm.warp_count * WARP; /* its thread */

	if (threadIdx.x == producer) {
		prepare(gemm, block);
	}
	__syncthreads();
	if (threadIdx.x < producer) {
		if (INPUTS == IN_RING) {
			dependency_wait();
			dependents_launch();
		}
		if constexpr (SLICES > 1) {
			consume_slice<INPUTS>(gemm, block);
		} else {
			consume<OUTPUTS, INPUTS>(gemm, block);
		}
	} else if (threadIdx.x == producer) {
		produce<OUTPUTS, INPUTS, SLICES>(gemm, block, &weight_map, &in_map);
	} else if (INPUTS != IN_RING && threadIdx.x >= producer + WARP) {
		if (INPUTS == NORMED) {
			norm_row(gemm, block, threadIdx.x - producer - WARP);
		} else {
			load_row(gemm, block, threadIdx.x - producer - WARP);
		}
		named_barrier_arrive(ROW_BARRIER, producer + gemm.row_threads);
	}
#endif
}

/* ---- launchers ---- */

/* The descriptor of a (row_count, input_count) tensor as (chunk of a slice, slice, row, CHUNK). */
static int make_slice_map(CUtensorMap *map, const uint16_t *tensor, uint32_t row_count,
	uint32_t input_count, uint32_t tile_rows)
{
	const cuuint64_t slice = input_count / SPLIT_K;
	const cuuint64_t sizes[] = {CHUNK, row_count, SPLIT_K, slice / CHUNK};
	const cuuint64_t steps[] = {input_count * 2ull, slice * 2, CHUNK_BYTES};
	const cuuint32_t tile[] = {CHUNK, tile_rows, SPLIT_K, 1};

	return tensor_map_make(map, tensor, 4, sizes, steps, tile, CU_TENSOR_MAP_SWIZZLE_128B,
		CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

template <outputs OUTPUTS, inputs INPUTS, uint32_t SLICES = 1>
static int launch(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	auto kernel = linear_stream_kernel<OUTPUTS, INPUTS, SLICES>;
	const uint32_t inputs = plan->shape.input_count, outputs = plan->shape.output_count;
	struct gemm gemm = {};
	CUtensorMap weight_map, in_map;

	gemm.out = operands->out;
	gemm.in = operands->in;
	gemm.bias = operands->bias;
	gemm.row_count = plan->row_count;
	gemm.input_count = inputs;
	gemm.output_count = outputs / (OUTPUTS == SILU ? 2 : 1);
	gemm.group_count = outputs / GROUP_ROWS;
	gemm.tile_groups = plan->weight_rows / GROUP_ROWS;
	gemm.warp_count = gemm.tile_groups * SLICES;
	gemm.fill_count = inputs / CHUNK / CHUNKS;
	gemm.stage_count = plan->token_stages;
	gemm.token_bytes = INPUTS == IN_RING ? linear_stream_token_bytes(plan->row_count) : 0;
	gemm.row_bytes = INPUTS == IN_RING ? 0 : inputs * 2;
	if (INPUTS != IN_RING) {
		gemm.row_threads = LINEAR_STREAM_ROW_WARPS * WARP;
	}
	if (INPUTS == NORMED) {
		gemm.row_threads = norm_threads(inputs);
		gemm.norm = *operands->norm;
	}
	const uint32_t stage = gemm.token_bytes + gemm.tile_groups * CHUNKS * GROUP_CHUNK_BYTES;
	const uint32_t sums = SLICES > 1 ? gemm.tile_groups * LINEAR_STREAM_SUM_BYTES : 0;
	const uint32_t others = BARRIER_BYTES + gemm.row_bytes + sums;
	const uint32_t threads = (gemm.warp_count + 1) * WARP + gemm.row_threads;
	if (plan->shared_bytes != others + gemm.stage_count * stage || threads > THREADS_MAX) {
		return (int)cudaErrorInvalidValue;
	}
	int code = SLICES > 1 ? make_slice_map(
					&weight_map, operands->weight, outputs, inputs, GROUP_ROWS)
			      : make_tile_map(&weight_map, operands->weight, outputs,
					OUTPUTS == SILU ? 2 : 1, inputs, GROUP_ROWS, CHUNKS);
	if (code == 0) {
		code = SLICES > 1 ? make_slice_map(&in_map, operands->in, gemm.row_count, inputs,
					    gemm.row_count)
				  : make_tile_map(&in_map, operands->in, gemm.row_count, 1, inputs,
					    gemm.row_count, CHUNKS);
	}
	if (code == 0) {
		code = allow_shared<linear_stream_kernel<OUTPUTS, INPUTS, SLICES>>(
			plan->shared_bytes);
	}
	return code != 0 ? code
			 : launch_dependent(kernel, dim3(plan->blocks), threads, plan->shared_bytes,
				   stream, weight_map, in_map, gemm);
}

int linear_stream(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	if (plan->shape.is_logits) {
		return launch<LOGITS, IN_RING>(plan, operands, stream);
	}
	if (plan->fuses_norm) {
		return plan->shape.has_silu ? launch<SILU, NORMED>(plan, operands, stream)
					    : launch<PLAIN, NORMED>(plan, operands, stream);
	}
	if (plan->shape.split_k > 1) {
		return linear_stream_has_row(&plan->shape, plan->row_count)
			       ? launch<PLAIN, IN_ROW, SPLIT_K>(plan, operands, stream)
			       : launch<PLAIN, IN_RING, SPLIT_K>(plan, operands, stream);
	}
	if (linear_stream_has_row(&plan->shape, plan->row_count)) {
		return plan->shape.has_silu ? launch<SILU, IN_ROW>(plan, operands, stream)
					    : launch<PLAIN, IN_ROW>(plan, operands, stream);
	}
	return plan->shape.has_silu ? launch<SILU, IN_RING>(plan, operands, stream)
				    : launch<PLAIN, IN_RING>(plan, operands, stream);
}
