#include "kernels/linear/linear_sm90.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/wgmma.cuh"
#include "engine/shape/kernel_tiles.h"
#include "kernels/rows/rms_norm.cuh"

/* LINEAR_TINY: out = in * weight^T (+ bias), or silu(gate) * up of it, for up to 16 tokens by
   mma.sync. in (tokens, K) and weight (N, K) are bf16, the accumulators float32. For up to 4 tokens
   and without split-K, the add_rms_norm() in front can be fused.

   Such a GEMM is latency-bound: it reads each weight once, and the time is that of the chain of
   dependent instructions from the arrival of the last token to the output. So it uses mma.sync
   (m16n8k16) with the weight as the 16 rows and the tokens as the 8 columns. A chain of these has a
   lower latency than one of wgmma, whose 64 rows would be mostly missing tokens, and the same bits.

   A block computes 8 to 48 rows of the weight, as few as let all blocks run in one wave:

       warp (slice s, 16 rows)   mma.sync over slice s of K        ──► partial sums in shared memory
       all warps                 add the slices (split-K) in order ──► epilogue, bf16 outputs
       norm warps (if fused)     compute the normalised tokens in front of the mma

   The block's share of the weight fits into shared memory. It is copied by TMA before the
   dependency wait (PDL), and its first tiles are even loaded into registers. After the wait there
   remain the copy of the tokens, the chain, and the additions. Blocks are small enough that those
   of several kernels fit on a multiprocessor.

   dependents_launch() follows the dependency wait. If it came first, the weights of four linear
   layers would be in flight at once and delay the keys and values of attention. */

enum {
	HELD = 2, /* K tiles of the weight kept in registers */
	K_TILE = LINEAR_TINY_K_TILE,
	K_TILE_STEPS = K_TILE / 16,
	K_TILE_CHUNKS = K_TILE / CHUNK,
	TOKEN_GAP = LINEAR_TINY_TOKEN_GAP,
	SUM_GAP = LINEAR_TINY_SUM_GAP,
	NORM_INPUTS = LINEAR_NORM_WARP_INPUTS,
	NORM_WARPS_MAX = LINEAR_NORM_WARPS_MAX,
};

/* Barriers of some of a block's warps, or of warps that are at different places of the code, where
   __syncthreads() is undefined. */
enum named_barrier { NORM_BARRIER = 1, TOKENS_BARRIER, SUMS_BARRIER };

static_assert(NORM_INPUTS == 8 * WARP, "a lane normalises 8 inputs");

struct gemm {
	uint16_t *out;
	const uint16_t *in;
	const uint16_t *bias;
	uint32_t row_count;
	uint32_t output_count; /* columns of out */
	uint32_t tile_tokens;  /* of a block; the last block may have fewer */
	uint32_t k_tile_count; /* tiles of K_TILE inputs in a slice */
	struct linear_norm norm;
};

/* The tile of a block, a template parameter of the kernel. N_TILES: tiles of 8 tokens (N of an
   mma). */
template <int SLICES_, int ROWS_, int N_TILES_, bool IS_SILU_> struct tile {
	static constexpr int SLICES = SLICES_, ROWS = ROWS_, N_TILES = N_TILES_;
	static constexpr bool IS_SILU = IS_SILU_;
	static constexpr int OUTPUTS = IS_SILU ? ROWS / 2 : ROWS; /* of a token */
	static constexpr int SLICE_WARPS = ROWS == 8 ? 1 : ROWS / 16;
	static constexpr int THREADS = SLICES * SLICE_WARPS * WARP;
	static constexpr int STEP_REGISTERS = ROWS == 8 ? 2 : 4; /* weight registers of a step */
	static constexpr int SUM_BYTES = 4 * (ROWS + SUM_GAP);	 /* of a token */
};

#ifdef QUIRE_SM90A

/* ---- kernels ---- */

/* What a thread block computes, and the layout of its shared memory. */
struct block {
	uint32_t first_row;		   /* of the weight; with silu of both halves */
	uint32_t first_token;		   /* of the tile */
	uint32_t token_count;		   /* in this tile; the last tile may be short */
	uint32_t slice, warp;		   /* of this warp; its index within the slice */
	uint32_t weight_full, tokens_full; /* addresses of the mbarriers, one a slice */
	uint32_t weight;		   /* (SLICES, chunks of a slice, ROWS, CHUNK) */
	uint32_t weight_bytes;		   /* of the weight, a slice */
	uint32_t tokens;		   /* (SLICES, token_count, token_stride) */
	uint32_t token_bytes;		   /* the inputs of one token in a slice */
	uint32_t token_stride;
	uint32_t sums; /* (SLICES, token_count, ROWS + SUM_GAP) floats */
};

template <typename TILE> static __device__ inline struct block locate_block(const struct gemm &gemm)
{
	extern __shared__ __align__(1024) uint8_t memory[];
	const uint32_t warp = threadIdx.x / WARP;
	struct block block;

	block.first_row = blockIdx.x * TILE::OUTPUTS;
	block.first_token = blockIdx.y * gemm.tile_tokens;
	block.token_count = min(gemm.row_count - block.first_token, gemm.tile_tokens);
	block.slice = warp / TILE::SLICE_WARPS;
	block.warp = warp % TILE::SLICE_WARPS;
	block.weight_full = shared_address(memory);
	block.tokens_full = block.weight_full + 8 * TILE::SLICES;
	block.weight = block.weight_full + BARRIER_BYTES;
	block.weight_bytes = gemm.k_tile_count * (K_TILE_CHUNKS * TILE::ROWS * CHUNK_BYTES);
	block.tokens = block.weight + TILE::SLICES * block.weight_bytes;
	block.token_bytes = gemm.k_tile_count * (K_TILE_CHUNKS * CHUNK_BYTES);
	block.token_stride = block.token_bytes + TOKEN_GAP;
	block.sums = block.tokens + TILE::SLICES * block.token_count * block.token_stride;
	return block;
}

/* One thread starts the TMA copies of the weight, slice by slice. */
template <typename TILE>
static __device__ inline void prepare(
	const struct gemm &gemm, const struct block &block, const CUtensorMap *weight_map)
{
#pragma unroll
	for (uint32_t slice = 0; slice < TILE::SLICES; slice++) {
		barrier_init(block.weight_full + 8 * slice, 1);
		barrier_init(block.tokens_full + 8 * slice, 1);
	}
	barrier_init_done();
#pragma unroll
	for (uint32_t slice = 0; slice < TILE::SLICES; slice++) {
		barrier_arrive_expecting(block.weight_full + 8 * slice, block.weight_bytes);
		copy_tiles(block.weight + slice * block.weight_bytes, weight_map, block.first_row,
			slice * gemm.k_tile_count * K_TILE_CHUNKS, block.weight_full + 8 * slice);
		barrier_arrive_expecting(
			block.tokens_full + 8 * slice, block.token_count * block.token_bytes);
	}
}

/* The first warp copies the tokens, after the dependency wait. */
template <typename TILE>
static __device__ inline void fetch_tokens(const struct gemm &gemm, const struct block &block)
{
	const uint32_t slice = threadIdx.x % TILE::SLICES;
	const uint16_t *in = gemm.in + ((size_t)block.first_token * TILE::SLICES + slice) *
					       (block.token_bytes / 2);
	uint32_t to = block.tokens + slice * block.token_count * block.token_stride;

	fence_global_writes();
#pragma unroll 1
	for (uint32_t token = threadIdx.x / TILE::SLICES; token < block.token_count;
		token += WARP / TILE::SLICES) {
		copy_bytes(to + token * block.token_stride,
			in + token * (TILE::SLICES * block.token_bytes / 2), block.token_bytes,
			block.tokens_full + 8 * slice);
	}
}

/* This lane's fragments of a K tile of the weight: operand a of mma.sync. */
template <typename TILE> struct weight_k_tile {
	uint32_t steps[K_TILE_STEPS][TILE::STEP_REGISTERS];
};

/* Shared addresses from which this lane loads the fragments of a K tile. The 128-byte swizzle
   permutes the 16-byte pieces of a row by the row index, so all chunks have the same few
   offsets. */
template <typename TILE> struct weight_addresses {
	static constexpr int LOADS = 2 * TILE::STEP_REGISTERS; /* ldmatrix for a K tile */
	static constexpr int COUNT = LOADS / K_TILE_CHUNKS;
	uint32_t at[COUNT];

	__device__ inline void find(const struct block &block)
	{
		const uint32_t rows =
			TILE::ROWS == 8 ? 8 : 16; /* the lanes beyond load the next 8 inputs */
		const uint32_t lane = threadIdx.x % WARP;
		const uint32_t row = block.warp * 16 + lane % rows;
#pragma unroll
		for (uint32_t i = 0; i < COUNT; i++) {
			uint32_t eighth = i * (WARP / rows) + lane / rows; /* 16-byte piece */
			at[i] = block.weight + block.slice * block.weight_bytes +
				row * CHUNK_BYTES + ((eighth ^ row) % 8) * 16;
			hold(at[i]);
		}
	}

	/* Load i of a K tile. */
	__device__ inline void load(
		struct weight_k_tile<TILE> &weight, uint32_t k_tile, uint32_t i) const
	{
		load_matrices(&weight.steps[0][0] + 4 * i,
			at[i % COUNT] +
				(k_tile * K_TILE_CHUNKS + i / COUNT) * (TILE::ROWS * CHUNK_BYTES));
	}
};

/* This lane's fragments of a K tile of the tokens: operand b of mma.sync. */
template <typename TILE> struct token_k_tile {
	uint32_t steps[K_TILE_STEPS][TILE::N_TILES][2];
};

/* Shared addresses of the tokens. Missing tokens read the last one; their sums are not used. */
template <typename TILE> struct token_addresses {
	uint32_t at[TILE::N_TILES];

	__device__ inline void find(const struct block &block)
	{
		const uint32_t lane = threadIdx.x % WARP;
#pragma unroll
		for (uint32_t e = 0; e < TILE::N_TILES; e++) {
			uint32_t token = min(8 * e + lane % 8, block.token_count - 1);
			at[e] = block.tokens + lane / 8 * 16 +
				(block.slice * block.token_count + token) * block.token_stride;
			hold(at[e]);
		}
	}

	/* The fragments of this step and the next. */
	__device__ inline void load(
		struct token_k_tile<TILE> &tokens, uint32_t k_tile, uint32_t step) const
	{
#pragma unroll
		for (uint32_t e = 0; e < TILE::N_TILES; e++) {
			uint32_t four[4];
			load_matrices(four, at[e] + k_tile * (K_TILE * 2) + step * 32);
			tokens.steps[step][e][0] = four[0];
			tokens.steps[step][e][1] = four[1];
			tokens.steps[step + 1][e][0] = four[2];
			tokens.steps[step + 1][e][1] = four[3];
		}
	}
};

/* The fused norm: additional warps normalise up to TOKENS tokens. Every block normalises all of
   them; block t also stores the new residual of token t. The squares use the memory of the output
   sums, which is free until then.

   The first iteration is a rehearsal before the dependency wait: it runs on the weight of the
   norm alone, so that the instructions are in the cache when the real one starts. */
template <typename TILE, int TOKENS, int K_TILES>
static __device__ inline void norm_tokens(const struct gemm &gemm, const struct block &block)
{
	const uint32_t lane = threadIdx.x % WARP, warp = (threadIdx.x - TILE::THREADS) / WARP;
	const uint32_t warps =
		K_TILES > 0 ? K_TILES * K_TILE / NORM_INPUTS : (blockDim.x - TILE::THREADS) / WARP;
	const uint32_t width = warps * NORM_INPUTS;
	const uint32_t column = warp * NORM_INPUTS + lane * 8;
	const bf16x8 weight = load8(gemm.norm.weight + column);

#pragma unroll 1
	for (uint32_t is_real = 0; is_real < 2; is_real++) {
		const uint16_t *residual = gemm.norm.weight, *in = gemm.norm.weight;
		uint32_t last = 0;
		bf16x8 rows[TOKENS], added[TOKENS];
		if (is_real) {
			dependency_wait();
			dependents_launch();
			residual = gemm.norm.residual;
			in = gemm.in;
			last = gemm.row_count - 1;
		}
#pragma unroll
		for (uint32_t t = 0; t < TOKENS; t++) {
			rows[t] = load8(residual + min(t, last) * width + column);
			added[t] = load8(in + min(t, last) * width + column);
		}
#pragma unroll
		for (uint32_t t = 0; t < TOKENS; t++) {
			rows[t] = sum8(rows[t], added[t]);
			float square = warp_sum(add_squares8(0, rows[t]));
			if (lane == 0) {
				store_shared(block.sums + (t * NORM_WARPS_MAX + warp) * 4, square);
			}
			if (is_real && blockIdx.x == t && t <= last) {
				store8(gemm.norm.sum + t * width + column, rows[t]);
			}
		}
		named_barrier_wait(NORM_BARRIER, warps * WARP);
#pragma unroll
		for (uint32_t t = 0; t < TOKENS; t++) {
			float square = 0;
			for (uint32_t w = 0; w < warps; w += 2) {
				float2 two = load_shared_float2(
					block.sums + (t * NORM_WARPS_MAX + w) * 4);
				square = square + two.x + two.y;
			}
			float scale = norm_scale(square, width, gemm.norm.epsilon);
			store_shared(block.tokens + min(t, last) * block.token_stride + column * 2,
				scale8(rows[t], scale, weight));
		}
		if (!is_real) { /* the sums are written again */
			named_barrier_wait(NORM_BARRIER, warps * WARP);
		}
	}
}

/* One step of 16 inputs: an mma for each tile of 8 tokens. */
template <typename TILE>
static __device__ inline void sum_step(float (&sum)[TILE::N_TILES][4],
	const uint32_t (&weight)[TILE::STEP_REGISTERS], const uint32_t (&tokens)[TILE::N_TILES][2])
{
	uint32_t a[4] = {weight[0], 0, weight[1], 0};

	if (TILE::ROWS > 8) {
		a[1] = weight[1];
		a[2] = weight[TILE::STEP_REGISTERS - 2];
		a[3] = weight[TILE::STEP_REGISTERS - 1];
	}
#pragma unroll
	for (uint32_t e = 0; e < TILE::N_TILES; e++) {
		multiply_add(sum[e], a, tokens[e][0], tokens[e][1]);
	}
}

/* One K tile. The tokens of K tile `next` are loaded, and into the registers of this weight K tile
   `later`, each if it is there: a piece after each step, so that the loads do not interrupt the
   chain of mmas in a burst. */
template <typename TILE>
static __device__ inline void sum_k_tile(float (&sum)[TILE::N_TILES][4],
	struct weight_k_tile<TILE> &weight, const struct token_k_tile<TILE> &tokens,
	struct token_k_tile<TILE> &next_tokens, const struct weight_addresses<TILE> &addresses,
	const struct token_addresses<TILE> &in, uint32_t next, uint32_t later, bool has_next,
	bool has_later)
{
	const uint32_t load_steps = K_TILE_STEPS / weight_addresses<TILE>::LOADS;

#pragma unroll
	for (uint32_t step = 0; step < K_TILE_STEPS; step++) {
		sum_step<TILE>(sum, weight.steps[step], tokens.steps[step]);
		if (has_next && step % 2 == 0) {
			in.load(next_tokens, next, step);
		}
		if (has_later && step % load_steps == load_steps - 1) {
			addresses.load(weight, later, step / load_steps);
		}
	}
}

/* All K tiles of this warp's slice. HELD of them are in registers; the next ones are loaded
   during the mmas. K_TILES: their number where the compiler knows it, else 0. It then unrolls all
   of them, and nothing delays the chain. The loop over any number waits for its last loads in each
   round. Behind the last K tile it loads that again, so that it has no other branch. */
template <typename TILE, int K_TILES>
static __device__ inline void sum_slice(float (&sum)[TILE::N_TILES][4],
	struct weight_k_tile<TILE> (&held)[HELD], const struct weight_addresses<TILE> &weight,
	const struct token_addresses<TILE> &in, uint32_t k_tile_count)
{
	const uint32_t count = K_TILES > 0 ? K_TILES : k_tile_count, last = count - 1;
	struct token_k_tile<TILE> tokens[HELD];

#pragma unroll
	for (uint32_t step = 0; step < K_TILE_STEPS; step += 2) {
		in.load(tokens[0], 0, step);
	}
#pragma unroll(K_TILES > 0 ? K_TILES : 1)
	for (uint32_t first = 0; first + HELD <= count; first += HELD) {
#pragma unroll
		for (uint32_t i = 0; i < HELD; i++) {
			const uint32_t next = first + i + 1, later = first + i + HELD;
			sum_k_tile<TILE>(sum, held[i], tokens[i], tokens[(i + 1) % HELD], weight,
				in, min(next, last), min(later, last), K_TILES == 0 || next <= last,
				K_TILES == 0 || later <= last);
		}
	}
	if (count % HELD != 0) {
		sum_k_tile<TILE>(
			sum, held[0], tokens[0], tokens[1], weight, in, 0, 0, false, false);
	}
}

/* Stores the partial sums of this warp's slice and rows to shared memory. */
template <typename TILE>
static __device__ inline void store_sums(
	const float (&sum)[TILE::N_TILES][4], const struct block &block)
{
	const uint32_t lane = threadIdx.x % WARP;
	const uint32_t to = block.sums + block.slice * block.token_count * TILE::SUM_BYTES +
			    4 * (block.warp * 16 + lane / 4);

#pragma unroll
	for (uint32_t e = 0; e < TILE::N_TILES; e++) {
#pragma unroll
		for (uint32_t i = 0; i < (TILE::ROWS == 8 ? 2 : 4); i++) {
			uint32_t token = 8 * e + lane % 4 * 2 + i % 2;
			if (token < block.token_count) {
				store_shared(to + token * TILE::SUM_BYTES + i / 2 * 32, sum[e][i]);
			}
		}
	}
}

/* Adds the slices of two outputs in ascending order. */
template <typename TILE>
static __device__ inline float2 add_slices(const struct block &block, uint32_t token, uint32_t row)
{
	const uint32_t from = block.sums + token * TILE::SUM_BYTES + 4 * row;
	float2 sum = load_shared_float2(from);

#pragma unroll
	for (uint32_t slice = 1; slice < TILE::SLICES; slice++) {
		float2 more =
			load_shared_float2(from + slice * block.token_count * TILE::SUM_BYTES);
		sum.x += more.x;
		sum.y += more.y;
	}
	return sum;
}

/* Epilogue by all threads: adds the slices and the bias or applies silu, and writes pairs of
   bf16. */
template <typename TILE>
static __device__ inline void finish(const struct gemm &gemm, const struct block &block)
{
	const uint32_t pairs = TILE::OUTPUTS / 2; /* of a token */

#pragma unroll 1
	for (uint32_t i = threadIdx.x; i < block.token_count * pairs; i += TILE::THREADS) {
		uint32_t token = i / pairs, column = i % pairs * 2;
		float2 sum = add_slices<TILE>(block, token, column);
		if (TILE::IS_SILU) {
			float2 up = add_slices<TILE>(block, token, TILE::OUTPUTS + column);
			sum.x = gated(sum.x, up.x);
			sum.y = gated(sum.y, up.y);
		}
		column += block.first_row;
		if (!TILE::IS_SILU && gemm.bias != NULL) {
			sum.x += bf16_load(gemm.bias + column);
			sum.y += bf16_load(gemm.bias + column + 1);
		}
		size_t at = (size_t)(block.first_token + token) * gemm.output_count + column;
		*reinterpret_cast<uint32_t *>(gemm.out + at) = pack2(sum.x, sum.y);
	}
}

#endif

/* NORMED: the most tokens of a fused norm; 0: no fused norm. K_TILES: of a slice, or 0. */
template <typename TILE, int NORMED, int K_TILES>
static __global__ void __launch_bounds__(
	TILE::THREADS + (NORMED > 0 ? NORM_WARPS_MAX * WARP : 0), 1)
	linear_tiny_kernel(const __grid_constant__ CUtensorMap weight_map, const struct gemm gemm)
{
#ifdef QUIRE_SM90A
	const struct block block = locate_block<TILE>(gemm);
	struct weight_k_tile<TILE> held[HELD];
	struct weight_addresses<TILE> weight;
	struct token_addresses<TILE> tokens;
	float sum[TILE::N_TILES][4] = {};

	if (threadIdx.x == 0) {
		prepare<TILE>(gemm, block, &weight_map);
	}
	__syncthreads();
	if constexpr (NORMED > 0) {
		if (threadIdx.x >= TILE::THREADS) {
			norm_tokens<TILE, NORMED, K_TILES>(gemm, block);
			named_barrier_arrive(TOKENS_BARRIER, blockDim.x);
			return;
		}
	}
	weight.find(block);
	tokens.find(block);
	barrier_wait(block.weight_full + 8 * block.slice, 0);
#pragma unroll
	for (uint32_t k_tile = 0; k_tile < HELD; k_tile++) {
#pragma unroll
		for (uint32_t i = 0; i < weight_addresses<TILE>::LOADS; i++) {
			if (k_tile < (K_TILES > 0 ? K_TILES : gemm.k_tile_count)) {
				weight.load(held[k_tile], k_tile, i);
			}
		}
	}
	dependency_wait();
	dependents_launch();
	if (NORMED > 0) {
		named_barrier_wait(TOKENS_BARRIER, blockDim.x);
	} else {
		if (threadIdx.x < WARP) {
			fetch_tokens<TILE>(gemm, block);
		}
		barrier_wait(block.tokens_full + 8 * block.slice, 0);
	}
	sum_slice<TILE, K_TILES>(sum, held, weight, tokens, gemm.k_tile_count);
	store_sums<TILE>(sum, block);
	named_barrier_wait(SUMS_BARRIER, TILE::THREADS);
	finish<TILE>(gemm, block);
#endif
}

/* ---- launchers ---- */

/* Shared memory of the layout in locate_block(). */
template <typename TILE> static uint32_t layout_bytes(const struct linear_plan *plan)
{
	const uint32_t input_bytes = plan->shape.input_count * 2;
	const uint32_t token_bytes = input_bytes + TILE::SLICES * (TOKEN_GAP + TILE::SUM_BYTES);

	return BARRIER_BYTES + TILE::ROWS * input_bytes + plan->tile_tokens * token_bytes;
}

template <typename TILE, int NORMED, int K_TILES>
static int launch_kernel(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	auto kernel = linear_tiny_kernel<TILE, NORMED, K_TILES>;
	const uint32_t inputs = plan->shape.input_count, outputs = plan->shape.output_count;
	uint32_t threads = TILE::THREADS;
	struct gemm gemm = {};
	CUtensorMap weight_map;

	gemm.out = (uint16_t *)operands->out;
	gemm.in = operands->in;
	gemm.bias = operands->bias;
	gemm.row_count = plan->row_count;
	gemm.output_count = outputs / (TILE::IS_SILU ? 2 : 1);
	gemm.tile_tokens = plan->tile_tokens;
	gemm.k_tile_count = inputs / TILE::SLICES / K_TILE;
	if (NORMED > 0) {
		gemm.norm = *operands->norm;
		threads += inputs / NORM_INPUTS * WARP;
	}
	dim3 grid(outputs / TILE::ROWS, divide_up(plan->row_count, plan->tile_tokens));
	if (plan->shared_bytes != layout_bytes<TILE>(plan)) {
		return (int)cudaErrorInvalidValue;
	}
	int code = make_tile_map(&weight_map, operands->weight, outputs, TILE::IS_SILU ? 2 : 1,
		inputs, TILE::ROWS, inputs / TILE::SLICES / CHUNK);
	if (code == 0) {
		code = allow_shared<linear_tiny_kernel<TILE, NORMED, K_TILES>>(plan->shared_bytes);
	}
	return code != 0 ? code
			 : launch_dependent(kernel, grid, threads, plan->shared_bytes, stream,
				   weight_map, gemm);
}

/* The compiler knows the K tiles of qwen3-0.6b, and of o of qwen3-1.7b. */
template <typename TILE, int NORMED>
static int launch(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	const uint32_t k_tiles = plan->shape.input_count / TILE::SLICES / K_TILE;

	if constexpr (NORMED > 0) {
		if (k_tiles == 8) {
			return launch_kernel<TILE, NORMED, 8>(plan, operands, stream);
		}
	}
	if constexpr (TILE::SLICES > 1 && TILE::ROWS <= 16 && TILE::N_TILES == 1) {
		if (k_tiles == 4) {
			return launch_kernel<TILE, NORMED, 4>(plan, operands, stream);
		}
		if (k_tiles == 6) {
			return launch_kernel<TILE, NORMED, 6>(plan, operands, stream);
		}
	}
	return launch_kernel<TILE, NORMED, 0>(plan, operands, stream);
}

template <int SLICES, int ROWS, bool IS_SILU>
static int launch_tokens(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	if constexpr (SLICES == 1) {
		if (plan->fuses_norm) {
			using normed = tile<SLICES, ROWS, 1, IS_SILU>;
			return plan->row_count == 1
				       ? launch<normed, 1>(plan, operands, stream)
				       : launch<normed, LINEAR_TINY_ROWS>(plan, operands, stream);
		}
	}
	if (plan->row_count <= 8 || SLICES == 1) {
		return launch<tile<SLICES, ROWS, 1, IS_SILU>, 0>(plan, operands, stream);
	}
	return launch<tile<SLICES, ROWS, SLICES == 1 ? 1 : 2, IS_SILU>, 0>(plan, operands, stream);
}

template <int SLICES, bool IS_SILU>
static int launch_rows(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	switch (plan->weight_rows) {
	case 8:
		return launch_tokens<SPLIT_K, 8, false>(plan, operands, stream);
	case 16:
		return launch_tokens<SLICES, 16, IS_SILU>(plan, operands, stream);
	case 32:
		return launch_tokens<SLICES, 32, IS_SILU>(plan, operands, stream);
	case 48:
		return launch_tokens<SLICES, 48, IS_SILU>(plan, operands, stream);
	default:
		return (int)cudaErrorInvalidValue;
	}
}

int linear_tiny(
	const struct linear_plan *plan, const struct linear_operands *operands, cudaStream_t stream)
{
	const bool is_split = plan->shape.split_k > 1;

	if (plan->shape.has_silu) {
		return is_split ? launch_rows<SPLIT_K, true>(plan, operands, stream)
				: launch_rows<1, true>(plan, operands, stream);
	}
	return is_split ? launch_rows<SPLIT_K, false>(plan, operands, stream)
			: launch_rows<1, false>(plan, operands, stream);
}
