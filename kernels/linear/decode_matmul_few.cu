#include "kernels/linear/decode_matmul.cuh"
#include "kernels/linear/decode_matmul.h"
#include "kernels/rows/rms_norm.cuh"

/* Up to 16 tokens and a weight that is read once. Rows of the weight are the 16 rows of a warp's
   matrix instruction, tokens its 8 columns: a chain of these is shorter than one of a warpgroup's,
   which are made for 64 tokens, and has the same bits. A block has as many rows of the weight as
   let every multiprocessor have its share, and a warp for every 16 of them and every part that the
   inputs are cut into. Each leaves the sums of its chains in shared memory, for all threads to add
   and write.

   A block's share of the weight fits into shared memory. It is on its way, and the beginnings of
   the chains are in registers, before the kernel ahead is done; what is left then is to fetch the
   tokens, the chain, and the additions. Blocks are small, for those of two kernels and more to be
   on a multiprocessor. The next kernel begins only when this one's wait is over: were it to begin
   with this one, the weights of four would come between attention and its keys and values. */

enum {
	RUN = 128, /* inputs, of which a part has a multiple */
	RUN_STEPS = RUN / 16,
	RUN_CHUNKS = RUN / CHUNK,
	BARRIER_BYTES = 1024, /* keeps the tiles aligned */
	TOKEN_GAP = 16,	      /* bytes behind a token's inputs, for the next in other banks */
	SUM_GAP = 4,	      /* floats behind its sums, too */
	SHARED_MAX = 226 << 10,
	WEIGHT_MAX = 128 << 10, /* of a block */
	NORM_INPUTS = 8 * WARP, /* of a warp */
	NORM_WARPS_MAX = 8,
};

struct product {
	uint16_t *out;
	const uint16_t *in;
	const uint16_t *bias;
	uint32_t row_count;
	uint32_t output_count; /* of a row of out */
	uint32_t tile_tokens;  /* of a block, of which the last one may lack some */
	uint32_t run_count;    /* of a part */
	struct decode_norm norm;
};

/* What is made for a number of parts, of rows of the weight and of eights of tokens. */
template <int PARTS_, int ROWS_, int EIGHTS_, bool IS_SILU_> struct tile {
	static constexpr int PARTS = PARTS_, ROWS = ROWS_, EIGHTS = EIGHTS_;
	static constexpr bool IS_SILU = IS_SILU_;
	static constexpr int OUTPUTS = IS_SILU ? ROWS / 2 : ROWS; /* of a token */
	static constexpr int PART_WARPS = ROWS == 8 ? 1 : ROWS / 16;
	static constexpr int THREADS = PARTS * PART_WARPS * WARP;
	static constexpr int STEP_REGISTERS = ROWS == 8 ? 2 : 4; /* of the weight */
	static constexpr int HELD = ROWS == 8 ? 4 : 2;	       /* runs of the weight in registers */
	static constexpr int SUM_BYTES = 4 * (ROWS + SUM_GAP); /* of a token */
};

#ifdef QUIRE_SM90A

/* ---- kernels ---- */

/* What a block is to do, and where its shared memory has what. */
struct place {
	uint32_t first_row;		   /* of the weight; of half of it where it has two */
	uint32_t first_token;		   /* of the tile */
	uint32_t token_count;		   /* of it that there are */
	uint32_t part, warp;		   /* of this warp; warp among the part's */
	uint32_t weight_full, tokens_full; /* barriers, one for each part */
	uint32_t weight;		   /* (PARTS, part's chunks, ROWS, CHUNK) */
	uint32_t weight_bytes;		   /* of a part */
	uint32_t tokens;		   /* (PARTS, token_count, token_stride) */
	uint32_t token_bytes;		   /* a part's inputs of one token */
	uint32_t token_stride;
	uint32_t sums; /* (PARTS, token_count, ROWS + SUM_GAP) floats */
};

template <typename TILE>
static __device__ inline struct place find_place(const struct product &product)
{
	extern __shared__ __align__(1024) uint8_t memory[];
	const uint32_t warp = threadIdx.x / WARP;
	struct place place;

	place.first_row = blockIdx.x * TILE::OUTPUTS;
	place.first_token = blockIdx.y * product.tile_tokens;
	place.token_count = min(product.row_count - place.first_token, product.tile_tokens);
	place.part = warp / TILE::PART_WARPS;
	place.warp = warp % TILE::PART_WARPS;
	place.weight_full = shared_address(memory);
	place.tokens_full = place.weight_full + 8 * TILE::PARTS;
	place.weight = place.weight_full + BARRIER_BYTES;
	place.weight_bytes = product.run_count * (RUN_CHUNKS * TILE::ROWS * CHUNK_BYTES);
	place.tokens = place.weight + TILE::PARTS * place.weight_bytes;
	place.token_bytes = product.run_count * (RUN_CHUNKS * CHUNK_BYTES);
	place.token_stride = place.token_bytes + TOKEN_GAP;
	place.sums = place.tokens + TILE::PARTS * place.token_count * place.token_stride;
	return place;
}

/* One thread sends the weight on its way, part by part. */
template <typename TILE>
static __device__ inline void prepare(
	const struct product &product, const struct place &place, const CUtensorMap *weight_map)
{
#pragma unroll
	for (uint32_t part = 0; part < TILE::PARTS; part++) {
		barrier_init(place.weight_full + 8 * part, 1);
		barrier_init(place.tokens_full + 8 * part, 1);
	}
	barrier_init_done();
#pragma unroll
	for (uint32_t part = 0; part < TILE::PARTS; part++) {
		barrier_arrive_expecting(place.weight_full + 8 * part, place.weight_bytes);
		copy_tiles(place.weight + part * place.weight_bytes, weight_map, place.first_row,
			part * product.run_count * RUN_CHUNKS, place.weight_full + 8 * part);
		barrier_arrive_expecting(
			place.tokens_full + 8 * part, place.token_count * place.token_bytes);
	}
}

/* The first warp, after the dependency wait. */
template <typename TILE>
static __device__ inline void fetch_tokens(const struct product &product, const struct place &place)
{
	const uint32_t part = threadIdx.x % TILE::PARTS;
	const uint16_t *in = product.in + ((size_t)place.first_token * TILE::PARTS + part) *
						  (place.token_bytes / 2);
	uint32_t to = place.tokens + part * place.token_count * place.token_stride;

	fence_global_writes();
#pragma unroll 1
	for (uint32_t token = threadIdx.x / TILE::PARTS; token < place.token_count;
		token += WARP / TILE::PARTS) {
		copy_bytes(to + token * place.token_stride,
			in + token * (TILE::PARTS * place.token_bytes / 2), place.token_bytes,
			place.tokens_full + 8 * part);
	}
}

/* Of a run of this warp's rows what the instructions want of this lane. */
template <typename TILE> struct weight_run {
	uint32_t steps[RUN_STEPS][TILE::STEP_REGISTERS];
};

/* Where a lane finds its share of a run of the weight: copies swap the 16 bytes of a row by its
   number, so that all chunks have the same few places. */
template <typename TILE> struct weight_places {
	static constexpr int LOADS = 2 * TILE::STEP_REGISTERS; /* of a run */
	static constexpr int COUNT = LOADS / RUN_CHUNKS;
	uint32_t at[COUNT];

	__device__ inline void find(const struct place &place)
	{
		const uint32_t rows = TILE::ROWS == 8 ? 8 : 16; /* the other lanes go on */
		const uint32_t lane = threadIdx.x % WARP;
		const uint32_t row = place.warp * 16 + lane % rows;
#pragma unroll
		for (uint32_t i = 0; i < COUNT; i++) {
			uint32_t eighth = i * (WARP / rows) + lane / rows; /* 8 inputs each */
			at[i] = place.weight + place.part * place.weight_bytes + row * CHUNK_BYTES +
				((eighth ^ row) % 8) * 16;
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
template <typename TILE> struct token_places {
	uint32_t at[TILE::EIGHTS];

	__device__ inline void find(const struct place &place)
	{
		const uint32_t lane = threadIdx.x % WARP;
#pragma unroll
		for (uint32_t e = 0; e < TILE::EIGHTS; e++) {
			uint32_t token = min(8 * e + lane % 8, place.token_count - 1);
			at[e] = place.tokens + lane / 8 * 16 +
				(place.part * place.token_count + token) * place.token_stride;
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
static __device__ inline void norm_tokens(const struct product &product, const struct place &place)
{
	const uint32_t lane = threadIdx.x % WARP, warp = (threadIdx.x - TILE::THREADS) / WARP;
	const uint32_t warps = (blockDim.x - TILE::THREADS) / WARP, width = warps * NORM_INPUTS;
	const uint32_t column = warp * NORM_INPUTS + lane * 8;
	const bf16x8 weight = load8(product.norm.weight + column);

#pragma unroll 1
	for (uint32_t is_real = 0; is_real < 2; is_real++) {
		const uint16_t *residual = product.norm.weight, *in = product.norm.weight;
		uint32_t last = 0;
		bf16x8 rows[TOKENS], added[TOKENS];
		if (is_real) {
			dependency_wait();
			dependents_launch();
			residual = product.norm.residual;
			in = product.in;
			last = product.row_count - 1;
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
				store_shared(place.sums + (t * NORM_WARPS_MAX + warp) * 4, square);
			}
			if (is_real && blockIdx.x == t && t <= last) {
				store8(product.norm.sum + t * width + column, rows[t]);
			}
		}
		warps_wait(1, warps * WARP);
#pragma unroll
		for (uint32_t t = 0; t < TOKENS; t++) {
			float square = 0;
			for (uint32_t w = 0; w < warps; w += 2) {
				float2 two = load_shared(place.sums + (t * NORM_WARPS_MAX + w) * 4);
				square = square + two.x + two.y;
			}
			float scale = norm_scale(square, width, product.norm.epsilon);
			store8_shared(place.tokens + min(t, last) * place.token_stride + column * 2,
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
	const struct weight_places<TILE> &places, uint32_t next, bool loads)
{
	const uint32_t load_steps = RUN_STEPS / weight_places<TILE>::LOADS;

#pragma unroll
	for (uint32_t step = 0; step < RUN_STEPS; step++) {
		sum_step<TILE>(sum, weight.steps[step], tokens.steps[step]);
		if (loads && step % load_steps == load_steps - 1) {
			places.load(weight, next, step / load_steps);
		}
	}
}

/* The chains, of which HELD runs of the weight are in registers. What comes next is loaded while
   a run is multiplied. */
template <typename TILE>
static __device__ inline void sum_part(float (&sum)[TILE::EIGHTS][4],
	struct weight_run<TILE> (&held)[TILE::HELD], const struct weight_places<TILE> &weight,
	const struct token_places<TILE> &in, uint32_t run_count)
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

/* The sums of this warp's part and rows. */
template <typename TILE>
static __device__ inline void leave_sums(
	const float (&sum)[TILE::EIGHTS][4], const struct place &place)
{
	const uint32_t lane = threadIdx.x % WARP;
	const uint32_t to = place.sums + place.part * place.token_count * TILE::SUM_BYTES +
			    4 * (place.warp * 16 + lane / 4);

#pragma unroll
	for (uint32_t e = 0; e < TILE::EIGHTS; e++) {
#pragma unroll
		for (uint32_t i = 0; i < (TILE::ROWS == 8 ? 2 : 4); i++) {
			uint32_t token = 8 * e + lane % 4 * 2 + i % 2;
			if (token < place.token_count) {
				store_shared(to + token * TILE::SUM_BYTES + i / 2 * 32, sum[e][i]);
			}
		}
	}
}

/* Two outputs' sums, the parts in turn. */
template <typename TILE>
static __device__ inline float2 add_parts(const struct place &place, uint32_t token, uint32_t row)
{
	const uint32_t from = place.sums + token * TILE::SUM_BYTES + 4 * row;
	float2 sum = load_shared(from);

#pragma unroll
	for (uint32_t part = 1; part < TILE::PARTS; part++) {
		float2 more = load_shared(from + part * place.token_count * TILE::SUM_BYTES);
		sum.x += more.x;
		sum.y += more.y;
	}
	return sum;
}

/* All threads add, and write the outputs in pairs. */
template <typename TILE>
static __device__ inline void finish(const struct product &product, const struct place &place)
{
	const uint32_t pairs = TILE::OUTPUTS / 2; /* of a token */

#pragma unroll 1
	for (uint32_t i = threadIdx.x; i < place.token_count * pairs; i += TILE::THREADS) {
		uint32_t token = i / pairs, column = i % pairs * 2;
		float2 sum = add_parts<TILE>(place, token, column);
		if (TILE::IS_SILU) {
			float2 up = add_parts<TILE>(place, token, TILE::OUTPUTS + column);
			sum.x = gated(sum.x, up.x);
			sum.y = gated(sum.y, up.y);
		}
		column += place.first_row;
		if (!TILE::IS_SILU && product.bias != NULL) {
			sum.x += bf16_load(product.bias + column);
			sum.y += bf16_load(product.bias + column + 1);
		}
		size_t at = (size_t)(place.first_token + token) * product.output_count + column;
		*reinterpret_cast<uint32_t *>(product.out + at) = pack2(sum.x, sum.y);
	}
}

#endif

/* NORMED: 0, or up to how many tokens are made out of the residual stream. */
template <typename TILE, int NORMED>
static __global__ void __launch_bounds__(TILE::THREADS + (NORMED > 0 ? NORM_WARPS_MAX * WARP : 0),
	1) decode_matmul_few_kernel(const __grid_constant__ CUtensorMap weight_map,
	const struct product product)
{
#ifdef QUIRE_SM90A
	const struct place place = find_place<TILE>(product);
	struct weight_run<TILE> held[TILE::HELD];
	struct weight_places<TILE> weight;
	struct token_places<TILE> tokens;
	float sum[TILE::EIGHTS][4] = {};

	if (threadIdx.x == 0) {
		prepare<TILE>(product, place, &weight_map);
	}
	__syncthreads();
	if constexpr (NORMED > 0) {
		if (threadIdx.x >= TILE::THREADS) {
			norm_tokens<TILE, NORMED>(product, place);
			__syncthreads(); /* the tokens are there */
			__syncthreads(); /* as the others do before they add */
			return;
		}
	}
	weight.find(place);
	tokens.find(place);
	barrier_wait(place.weight_full + 8 * place.part, 0);
#pragma unroll
	for (uint32_t run = 0; run < TILE::HELD; run++) {
#pragma unroll
		for (uint32_t i = 0; i < weight_places<TILE>::LOADS; i++) {
			if (run < product.run_count) {
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
			fetch_tokens<TILE>(product, place);
		}
		barrier_wait(place.tokens_full + 8 * place.part, 0);
	}
	sum_part<TILE>(sum, held, weight, tokens, product.run_count);
	leave_sums<TILE>(sum, place);
	__syncthreads();
	finish<TILE>(product, place);
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
		if (chosen == rows && output_count / rows <= BLOCKS_MAX) {
			break;
		}
	}
	return chosen;
}

template <typename TILE> static uint32_t shared_bytes(uint32_t input_count, uint32_t tokens)
{
	return BARRIER_BYTES + TILE::ROWS * input_count * 2 +
	       tokens * (input_count * 2 + TILE::PARTS * (TOKEN_GAP + TILE::SUM_BYTES));
}

/* Of a block: all, as many as the kernel is made for, or as many as find room. */
template <typename TILE> static uint32_t choose_tokens(uint32_t row_count, uint32_t input_count)
{
	uint32_t tokens = 8 * TILE::EIGHTS;

	while (shared_bytes<TILE>(input_count, tokens) > SHARED_MAX) {
		tokens /= 2;
	}
	return row_count < tokens ? row_count : tokens;
}

template <typename TILE, int NORMED>
static int launch(const struct decode_product *wanted, cudaStream_t stream)
{
	auto kernel = decode_matmul_few_kernel<TILE, NORMED>;
	uint32_t threads = TILE::THREADS;
	const uint32_t inputs = wanted->input_count;
	struct product product = {};
	CUtensorMap weight_map;

	product.out = wanted->out;
	product.in = wanted->in;
	product.bias = wanted->bias;
	product.row_count = wanted->row_count;
	product.output_count = wanted->output_count / (TILE::IS_SILU ? 2 : 1);
	product.tile_tokens = choose_tokens<TILE>(wanted->row_count, inputs);
	product.run_count = inputs / TILE::PARTS / RUN;
	if (NORMED > 0) {
		product.norm = *wanted->norm;
		threads += inputs / NORM_INPUTS * WARP;
	}
	dim3 grid(wanted->output_count / TILE::ROWS,
		divide_up(wanted->row_count, product.tile_tokens));
	uint32_t shared = shared_bytes<TILE>(inputs, product.tile_tokens);
	int code = make_map(&weight_map, wanted->weight, wanted->output_count,
		TILE::IS_SILU ? 2 : 1, inputs, TILE::ROWS, inputs / TILE::PARTS / CHUNK);
	if (code == 0) {
		code = (int)cudaFuncSetAttribute(
			kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
	}
	return code != 0 ? code
			 : launch_dependent(
				   kernel, grid, threads, shared, stream, weight_map, product);
}

template <int PARTS, int ROWS, bool IS_SILU>
static int launch_tokens(const struct decode_product *product, cudaStream_t stream)
{
	if constexpr (PARTS == 1) {
		if (product->norm != NULL) {
			using normed = tile<PARTS, ROWS, 1, IS_SILU>;
			return product->row_count == 1
				       ? launch<normed, 1>(product, stream)
				       : launch<normed, DECODE_FEW_ROWS>(product, stream);
		}
	}
	/* without parts there are other kernels for more rows than 8 */
	if (product->row_count <= 8 || PARTS == 1) {
		return launch<tile<PARTS, ROWS, 1, IS_SILU>, 0>(product, stream);
	}
	return launch<tile<PARTS, ROWS, PARTS == 1 ? 1 : 2, IS_SILU>, 0>(product, stream);
}

template <int PARTS, bool IS_SILU>
static int launch_rows(const struct decode_product *product, cudaStream_t stream)
{
	const uint32_t rows_min = PARTS > 1 && !IS_SILU && product->row_count <= 8 ? 8 : 16;

	switch (choose_rows(rows_min, product->input_count, product->output_count)) {
	case 8:
		return launch_tokens<4, 8, false>(product, stream);
	case 16:
		return launch_tokens<PARTS, 16, IS_SILU>(product, stream);
	case 32:
		return launch_tokens<PARTS, 32, IS_SILU>(product, stream);
	case 48:
		return launch_tokens<PARTS, 48, IS_SILU>(product, stream);
	default:
		return (int)cudaErrorInvalidValue;
	}
}

bool decode_matmul_few_fits(uint32_t input_count, uint32_t output_count)
{
	return input_count > 0 && input_count % RUN == 0 &&
	       choose_rows(16, input_count, output_count) > 0;
}

bool decode_matmul_norms(uint32_t row_count, uint32_t input_count, uint32_t output_count)
{
	return kernel_path_of_device() == KERNEL_PATH_SM90 && row_count > 0 &&
	       row_count <= DECODE_FEW_ROWS &&
	       decode_matmul_parts(input_count, output_count) == 1 &&
	       decode_matmul_few_fits(input_count, output_count) &&
	       input_count % (2 * NORM_INPUTS) == 0 && input_count <= NORM_INPUTS * NORM_WARPS_MAX;
}

int decode_matmul_few(const struct decode_product *product, cudaStream_t stream)
{
	bool is_cut = decode_matmul_parts(product->input_count, product->output_count) > 1;

	if (product->is_silu) {
		return is_cut ? launch_rows<4, true>(product, stream)
			      : launch_rows<1, true>(product, stream);
	}
	return is_cut ? launch_rows<4, false>(product, stream)
		      : launch_rows<1, false>(product, stream);
}
