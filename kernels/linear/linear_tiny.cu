#include "kernels/linear/linear_sm90.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/linear/linear.h"
#include "kernels/rows/rms_norm.cuh"

/* Up to 16 tokens and a weight that is read once. Rows of the weight are the 16 rows of a warp's
   matrix instruction, tokens its 8 columns: a chain of these is shorter than one of a warpgroup's,
   which are made for 64 tokens, and has the same bits. A block has as many rows of the weight as
   let every multiprocessor have its share, and a warp for every 16 of them and every slice that the
   inputs are cut into. Each leaves the sums of its chains in shared memory, for all threads to add
   and write.

   A block's share of the weight fits into shared memory. It is on its way, and the beginnings of
   the chains are in registers, before the kernel ahead is done; what is left then is to fetch the
   tokens, the chain, and the additions. Blocks are small, for those of two kernels and more to be
   on a multiprocessor. The next kernel begins only when this one's wait is over: were it to begin
   with this one, the weights of four would come between attention and its keys and values. */

enum {
	RUN = 128, /* inputs, of which a slice has a multiple */
	RUN_STEPS = RUN / 16,
	RUN_CHUNKS = RUN / CHUNK,
	BARRIER_BYTES = 1024,	/* keeps the tiles aligned */
	TOKEN_GAP = 16,		/* bytes behind a token's inputs, for the next in other banks */
	SUM_GAP = 4,		/* floats behind its sums, too */
	WEIGHT_MAX = 128 << 10, /* of a block */
	NORM_INPUTS = 8 * WARP, /* of a warp */
	NORM_WARPS_MAX = 8,
};

struct gemm {
	uint16_t *out;
	const uint16_t *in;
	const uint16_t *bias;
	uint32_t row_count;
	uint32_t output_count; /* of a row of out */
	uint32_t tile_tokens;  /* of a block, of which the last one may lack some */
	uint32_t run_count;    /* of a slice */
	struct linear_norm norm;
};

/* What is made for a number of slices, of rows of the weight and of eights of tokens. */
template <int SPLIT_K_, int ROWS_, int EIGHTS_, bool IS_SILU_> struct tile {
	static constexpr int SPLIT_K = SPLIT_K_, ROWS = ROWS_, EIGHTS = EIGHTS_;
	static constexpr bool IS_SILU = IS_SILU_;
	static constexpr int OUTPUTS = IS_SILU ? ROWS / 2 : ROWS; /* of a token */
	static constexpr int SLICE_WARPS = ROWS == 8 ? 1 : ROWS / 16;
	static constexpr int THREADS = SPLIT_K * SLICE_WARPS * WARP;
	static constexpr int STEP_REGISTERS = ROWS == 8 ? 2 : 4; /* of the weight */
	static constexpr int HELD = ROWS == 8 ? 4 : 2;	       /* runs of the weight in registers */
	static constexpr int SUM_BYTES = 4 * (ROWS + SUM_GAP); /* of a token */
};

#ifdef QUIRE_SM90A

/* ---- kernels ---- */

/* What a block is to do, and where its shared memory has what. */
struct block {
	uint32_t first_row;		   /* of the weight; of half of it where it has two */
	uint32_t first_token;		   /* of the tile */
	uint32_t token_count;		   /* of it that there are */
	uint32_t slice, warp;		   /* of this warp; warp among the slice's */
	uint32_t weight_full, tokens_full; /* barriers, one for each slice */
	uint32_t weight;		   /* (SPLIT_K, slice's chunks, ROWS, CHUNK) */
	uint32_t weight_bytes;		   /* of a slice */
	uint32_t tokens;		   /* (SPLIT_K, token_count, token_stride) */
	uint32_t token_bytes;		   /* a slice's inputs of one token */
	uint32_t token_stride;
	uint32_t sums; /* (SPLIT_K, token_count, ROWS + SUM_GAP) floats */
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
	block.tokens_full = block.weight_full + 8 * TILE::SPLIT_K;
	block.weight = block.weight_full + BARRIER_BYTES;
	block.weight_bytes = gemm.run_count * (RUN_CHUNKS * TILE::ROWS * CHUNK_BYTES);
	block.tokens = block.weight + TILE::SPLIT_K * block.weight_bytes;
	block.token_bytes = gemm.run_count * (RUN_CHUNKS * CHUNK_BYTES);
	block.token_stride = block.token_bytes + TOKEN_GAP;
	block.sums = block.tokens + TILE::SPLIT_K * block.token_count * block.token_stride;
	return block;
}

/* One thread sends the weight on its way, slice by slice. */
template <typename TILE>
static __device__ inline void prepare(
	const struct gemm &gemm, const struct block &block, const CUtensorMap *weight_map)
{
#pragma unroll
	for (uint32_t slice = 0; slice < TILE::SPLIT_K; slice++) {
		barrier_init(block.weight_full + 8 * slice, 1);
		barrier_init(block.tokens_full + 8 * slice, 1);
	}
	barrier_init_done();
#pragma unroll
	for (uint32_t slice = 0; slice < TILE::SPLIT_K; slice++) {
		barrier_arrive_expecting(block.weight_full + 8 * slice, block.weight_bytes);
		copy_tiles(block.weight + slice * block.weight_bytes, weight_map, block.first_row,
			slice * gemm.run_count * RUN_CHUNKS, block.weight_full + 8 * slice);
		barrier_arrive_expecting(
			block.tokens_full + 8 * slice, block.token_count * block.token_bytes);
	}
}

/* The first warp, after the dependency wait. */
template <typename TILE>
static __device__ inline void fetch_tokens(const struct gemm &gemm, const struct block &block)
{
	const uint32_t slice = threadIdx.x % TILE::SPLIT_K;
	const uint16_t *in = gemm.in + ((size_t)block.first_token * TILE::SPLIT_K + slice) *
					       (block.token_bytes / 2);
	uint32_t to = block.tokens + slice * block.token_count * block.token_stride;

	fence_global_writes();
#pragma unroll 1
	for (uint32_t token = threadIdx.x / TILE::SPLIT_K; token < block.token_count;
		token += WARP / TILE::SPLIT_K) {
		copy_bytes(to + token * block.token_stride,
			in + token * (TILE::SPLIT_K * block.token_bytes / 2), block.token_bytes,
			block.tokens_full + 8 * slice);
	}
}

/* Of a run of this warp's rows what the instructions want of this lane. */
template <typename TILE> struct weight_run {
	uint32_t steps[RUN_STEPS][TILE::STEP_REGISTERS];
};

/* Where a lane finds its share of a run of the weight: copies swap the 16 bytes of a row by its
   number, so that all chunks have the same few offsets. */
template <typename TILE> struct weight_addresses {
	static constexpr int LOADS = 2 * TILE::STEP_REGISTERS; /* of a run */
	static constexpr int COUNT = LOADS / RUN_CHUNKS;
	uint32_t at[COUNT];

	__device__ inline void find(const struct block &block)
	{
		const uint32_t rows = TILE::ROWS == 8 ? 8 : 16; /* the other lanes go on */
		const uint32_t lane = threadIdx.x % WARP;
		const uint32_t row = block.warp * 16 + lane % rows;
#pragma unroll
		for (uint32_t i = 0; i < COUNT; i++) {
			uint32_t eighth = i * (WARP / rows) + lane / rows; /* 8 inputs each */
			at[i] = block.weight + block.slice * block.weight_bytes +
				row * CHUNK_BYTES + ((eighth ^ row) % 8) * 16;
			hold(at[i]);
		}
	}

	/* One of the loads of a run. */
	__device__ inline void load(struct weight_run<TILE> &weight, uint32_t run, uint32_t i) const
	{
		load_matrices(&weight.steps[0][0] + 4 * i,
			at[i % COUNT] +
				(run * RUN_CHUNKS + i / COUNT) * (TILE::ROWS * CHUNK_BYTES));
	}
};

/* Of a run of the tokens what the instructions want of this lane. */
template <typename TILE> struct token_run {
	uint32_t steps[RUN_STEPS][TILE::EIGHTS][2];
};

/* Missing tokens repeat the last one; their sums nobody reads. */
template <typename TILE> struct token_addresses {
	uint32_t at[TILE::EIGHTS];

	__device__ inline void find(const struct block &block)
	{
		const uint32_t lane = threadIdx.x % WARP;
#pragma unroll
		for (uint32_t e = 0; e < TILE::EIGHTS; e++) {
			uint32_t token = min(8 * e + lane % 8, block.token_count - 1);
			at[e] = block.tokens + lane / 8 * 16 +
				(block.slice * block.token_count + token) * block.token_stride;
			hold(at[e]);
		}
	}

	__device__ inline void load(struct token_run<TILE> &tokens, uint32_t run) const
	{
#pragma unroll
		for (uint32_t step = 0; step < RUN_STEPS; step += 2) {
#pragma unroll
			for (uint32_t e = 0; e < TILE::EIGHTS; e++) {
				uint32_t four[4];
				load_matrices(four, at[e] + run * (RUN * 2) + step * 32);
				tokens.steps[step][e][0] = four[0];
				tokens.steps[step][e][1] = four[1];
				tokens.steps[step + 1][e][0] = four[2];
				tokens.steps[step + 1][e][1] = four[3];
			}
		}
	}
};

/* Warps of their own, behind those of the chains, make the tokens instead, of which there are up to
   TOKENS. Every block makes all of them; one for each token keeps the sum. The places of sums hold
   squares until then. All this is rehearsed with the weight alone before the kernel in front has
   ended, so that the instructions are there when it counts. */
template <typename TILE, int TOKENS>
static __device__ inline void norm_tokens(const struct gemm &gemm, const struct block &block)
{
	const uint32_t lane = threadIdx.x % WARP, warp = (threadIdx.x - TILE::THREADS) / WARP;
	const uint32_t warps = (blockDim.x - TILE::THREADS) / WARP, width = warps * NORM_INPUTS;
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
		warps_wait(1, warps * WARP);
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
		warps_wait(1, warps * WARP);
	}
}

/* Goes on with all chains by one step of a run. */
template <typename TILE>
static __device__ inline void sum_step(float (&sum)[TILE::EIGHTS][4],
	const uint32_t (&weight)[TILE::STEP_REGISTERS], const uint32_t (&tokens)[TILE::EIGHTS][2])
{
	uint32_t a[4] = {weight[0], 0, weight[1], 0};

	if (TILE::ROWS > 8) {
		a[1] = weight[1];
		a[2] = weight[TILE::STEP_REGISTERS - 2];
		a[3] = weight[TILE::STEP_REGISTERS - 1];
	}
#pragma unroll
	for (uint32_t e = 0; e < TILE::EIGHTS; e++) {
		multiply_add(sum[e], a, tokens[e][0], tokens[e][1]);
	}
}

/* By a run, whose place in registers the run `next` takes where it `loads`: step by step, for
   nothing may come between the links of a chain. */
template <typename TILE>
static __device__ inline void sum_run(float (&sum)[TILE::EIGHTS][4],
	struct weight_run<TILE> &weight, const struct token_run<TILE> &tokens,
	const struct weight_addresses<TILE> &addresses, uint32_t next, bool loads)
{
	const uint32_t load_steps = RUN_STEPS / weight_addresses<TILE>::LOADS;

#pragma unroll
	for (uint32_t step = 0; step < RUN_STEPS; step++) {
		sum_step<TILE>(sum, weight.steps[step], tokens.steps[step]);
		if (loads && step % load_steps == load_steps - 1) {
			addresses.load(weight, next, step / load_steps);
		}
	}
}

/* The chains, of which HELD runs of the weight are in registers. What comes next is loaded while
   a run is multiplied. */
template <typename TILE>
static __device__ inline void sum_slice(float (&sum)[TILE::EIGHTS][4],
	struct weight_run<TILE> (&held)[TILE::HELD], const struct weight_addresses<TILE> &weight,
	const struct token_addresses<TILE> &in, uint32_t run_count)
{
	struct token_run<TILE> tokens[2];

	in.load(tokens[0], 0);
#pragma unroll 1
	for (uint32_t first = 0; first < run_count; first += TILE::HELD) {
#pragma unroll
		for (uint32_t i = 0; i < TILE::HELD; i++) {
			uint32_t run = first + i;
			if (run >= run_count) {
				break;
			}
			if (run + 1 < run_count) {
				in.load(tokens[(i + 1) % 2], run + 1);
			}
			if (run + TILE::HELD < run_count) {
				sum_run<TILE>(sum, held[i], tokens[i % 2], weight, run + TILE::HELD,
					true);
			} else {
				sum_run<TILE>(sum, held[i], tokens[i % 2], weight, 0, false);
			}
		}
	}
}

/* The sums of this warp's slice and rows. */
template <typename TILE>
static __device__ inline void leave_sums(
	const float (&sum)[TILE::EIGHTS][4], const struct block &block)
{
	const uint32_t lane = threadIdx.x % WARP;
	const uint32_t to = block.sums + block.slice * block.token_count * TILE::SUM_BYTES +
			    4 * (block.warp * 16 + lane / 4);

#pragma unroll
	for (uint32_t e = 0; e < TILE::EIGHTS; e++) {
#pragma unroll
		for (uint32_t i = 0; i < (TILE::ROWS == 8 ? 2 : 4); i++) {
			uint32_t token = 8 * e + lane % 4 * 2 + i % 2;
			if (token < block.token_count) {
				store_shared(to + token * TILE::SUM_BYTES + i / 2 * 32, sum[e][i]);
			}
		}
	}
}

/* Two outputs' sums, the slices in turn. */
template <typename TILE>
static __device__ inline float2 add_slices(const struct block &block, uint32_t token, uint32_t row)
{
	const uint32_t from = block.sums + token * TILE::SUM_BYTES + 4 * row;
	float2 sum = load_shared_float2(from);

#pragma unroll
	for (uint32_t slice = 1; slice < TILE::SPLIT_K; slice++) {
		float2 more =
			load_shared_float2(from + slice * block.token_count * TILE::SUM_BYTES);
		sum.x += more.x;
		sum.y += more.y;
	}
	return sum;
}

/* All threads add, and write the outputs in pairs. */
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

/* NORMED: 0, or up to how many tokens are made out of the residual stream. */
template <typename TILE, int NORMED>
static __global__ void __launch_bounds__(
	TILE::THREADS + (NORMED > 0 ? NORM_WARPS_MAX * WARP : 0), 1)
	linear_tiny_kernel(const __grid_constant__ CUtensorMap weight_map, const struct gemm gemm)
{
#ifdef QUIRE_SM90A
	const struct block block = locate_block<TILE>(gemm);
	struct weight_run<TILE> held[TILE::HELD];
	struct weight_addresses<TILE> weight;
	struct token_addresses<TILE> tokens;
	float sum[TILE::EIGHTS][4] = {};

	if (threadIdx.x == 0) {
		prepare<TILE>(gemm, block, &weight_map);
	}
	__syncthreads();
	if constexpr (NORMED > 0) {
		if (threadIdx.x >= TILE::THREADS) {
			norm_tokens<TILE, NORMED>(gemm, block);
			__syncthreads(); /* the tokens are there */
			__syncthreads(); /* as the others do before they add */
			return;
		}
	}
	weight.find(block);
	tokens.find(block);
	barrier_wait(block.weight_full + 8 * block.slice, 0);
#pragma unroll
	for (uint32_t run = 0; run < TILE::HELD; run++) {
#pragma unroll
		for (uint32_t i = 0; i < weight_addresses<TILE>::LOADS; i++) {
			if (run < gemm.run_count) {
				weight.load(held[run], run, i);
			}
		}
	}
	dependency_wait();
	dependents_launch();
	if (NORMED > 0) {
		__syncthreads();
	} else {
		if (threadIdx.x < WARP) {
			fetch_tokens<TILE>(gemm, block);
		}
		barrier_wait(block.tokens_full + 8 * block.slice, 0);
	}
	sum_slice<TILE>(sum, held, weight, tokens, gemm.run_count);
	leave_sums<TILE>(sum, block);
	__syncthreads();
	finish<TILE>(gemm, block);
#endif
}

/* ---- launchers ---- */

/* Half of a silu's rows are gates and half are ups, each in groups of 8: hence 16 at least. With
   more than 8 tokens each block fetches much, so that there are fewer of them. */
static const uint32_t block_rows[] = {8, 16, 32, 48};

/* The fewest rows a block with which all blocks run side by side, or the most that fit; 0 if there
   are none such. */
static uint32_t choose_rows(uint32_t rows_min, uint32_t input_count, uint32_t output_count)
{
	uint32_t chosen = 0;

	for (uint32_t i = 0; i < sizeof(block_rows) / sizeof(block_rows[0]); i++) {
		uint32_t rows = block_rows[i];
		if (rows >= rows_min && output_count % rows == 0 &&
			rows * input_count * 2 <= WEIGHT_MAX) {
			chosen = rows;
		}
		if (chosen == rows && output_count / rows <= H200_PROCESSORS) {
			break;
		}
	}
	return chosen;
}

template <typename TILE> static uint32_t shared_bytes(uint32_t input_count, uint32_t tokens)
{
	return BARRIER_BYTES + TILE::ROWS * input_count * 2 +
	       tokens * (input_count * 2 + TILE::SPLIT_K * (TOKEN_GAP + TILE::SUM_BYTES));
}

/* Of a block: all, as many as the kernel is made for, or as many as find room. */
template <typename TILE> static uint32_t choose_tokens(uint32_t row_count, uint32_t input_count)
{
	uint32_t tokens = 8 * TILE::EIGHTS;

	while (shared_bytes<TILE>(input_count, tokens) > SM90_SHARED_BYTES_TWO) {
		tokens /= 2;
	}
	return row_count < tokens ? row_count : tokens;
}

template <typename TILE, int NORMED>
static int launch(const struct linear_operands *operands, cudaStream_t stream)
{
	auto kernel = linear_tiny_kernel<TILE, NORMED>;
	uint32_t threads = TILE::THREADS;
	const uint32_t inputs = operands->input_count;
	struct gemm gemm = {};
	CUtensorMap weight_map;

	gemm.out = operands->out;
	gemm.in = operands->in;
	gemm.bias = operands->bias;
	gemm.row_count = operands->row_count;
	gemm.output_count = operands->output_count / (TILE::IS_SILU ? 2 : 1);
	gemm.tile_tokens = choose_tokens<TILE>(operands->row_count, inputs);
	gemm.run_count = inputs / TILE::SPLIT_K / RUN;
	if (NORMED > 0) {
		gemm.norm = *operands->norm;
		threads += inputs / NORM_INPUTS * WARP;
	}
	dim3 grid(operands->output_count / TILE::ROWS,
		divide_up(operands->row_count, gemm.tile_tokens));
	uint32_t shared = shared_bytes<TILE>(inputs, gemm.tile_tokens);
	int code = make_map(&weight_map, operands->weight, operands->output_count,
		TILE::IS_SILU ? 2 : 1, inputs, TILE::ROWS, inputs / TILE::SPLIT_K / CHUNK);
	if (code == 0) {
		code = (int)cudaFuncSetAttribute(
			kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
	}
	return code != 0
		       ? code
		       : launch_dependent(kernel, grid, threads, shared, stream, weight_map, gemm);
}

template <int SPLIT_K, int ROWS, bool IS_SILU>
static int launch_tokens(const struct linear_operands *operands, cudaStream_t stream)
{
	if constexpr (SPLIT_K == 1) {
		if (operands->norm != NULL) {
			using normed = tile<SPLIT_K, ROWS, 1, IS_SILU>;
			return operands->row_count == 1
				       ? launch<normed, 1>(operands, stream)
				       : launch<normed, LINEAR_TINY_ROWS>(operands, stream);
		}
	}
	/* without slices there are other kernels for more rows than 8 */
	if (operands->row_count <= 8 || SPLIT_K == 1) {
		return launch<tile<SPLIT_K, ROWS, 1, IS_SILU>, 0>(operands, stream);
	}
	return launch<tile<SPLIT_K, ROWS, SPLIT_K == 1 ? 1 : 2, IS_SILU>, 0>(operands, stream);
}

template <int SPLIT_K, bool IS_SILU>
static int launch_rows(const struct linear_operands *operands, cudaStream_t stream)
{
	const uint32_t rows_min = SPLIT_K > 1 && !IS_SILU && operands->row_count <= 8 ? 8 : 16;

	switch (choose_rows(rows_min, operands->input_count, operands->output_count)) {
	case 8:
		return launch_tokens<4, 8, false>(operands, stream);
	case 16:
		return launch_tokens<SPLIT_K, 16, IS_SILU>(operands, stream);
	case 32:
		return launch_tokens<SPLIT_K, 32, IS_SILU>(operands, stream);
	case 48:
		return launch_tokens<SPLIT_K, 48, IS_SILU>(operands, stream);
	default:
		return (int)cudaErrorInvalidValue;
	}
}

bool linear_tiny_fits(uint32_t input_count, uint32_t output_count)
{
	return input_count > 0 && input_count % RUN == 0 &&
	       choose_rows(16, input_count, output_count) > 0;
}

bool linear_fuses_norm(uint32_t row_count, uint32_t input_count, uint32_t output_count)
{
	return kernel_path_of_device() == KERNEL_PATH_SM90 && row_count > 0 &&
	       row_count <= LINEAR_TINY_ROWS && linear_split_k(input_count, output_count) == 1 &&
	       linear_tiny_fits(input_count, output_count) &&
	       input_count % (2 * NORM_INPUTS) == 0 && input_count <= NORM_INPUTS * NORM_WARPS_MAX;
}

int linear_tiny(const struct linear_operands *operands, cudaStream_t stream)
{
	bool is_cut = linear_split_k(operands->input_count, operands->output_count) > 1;

	if (operands->is_silu) {
		return is_cut ? launch_rows<4, true>(operands, stream)
			      : launch_rows<1, true>(operands, stream);
	}
	return is_cut ? launch_rows<4, false>(operands, stream)
		      : launch_rows<1, false>(operands, stream);
}
