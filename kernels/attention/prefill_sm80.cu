#include "kernels/attention/prefill.cuh"
#include "kernels/device/dynamic_shared.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/shared.cuh"

#include <math_constants.h>

/* Flash attention for sm_80 and later, head_dim D of 32, 64 or 128. out (tokens, heads, D) =
   softmax(query * K^T * scale, causal) * V, bf16 with float32 sums.

   A thread block computes one tile of 64 queries of one row and head. Each of its 4 warps holds
   16 queries in registers, with an online softmax. Keys and values are read from the paged pool
   in tiles of 64 tokens from position 0 on, double-buffered by cp.async. A tile lies in one KV
   block, or each 16 tokens of it do. */

enum { WARPS = 4, KEY_TILE = 64, STAGES = 2 };
enum { QUERY_TILE = 64 };

static_assert(QUERY_TILE == WARPS * 16, "a warp holds 16 queries");

/* Starts the copy of a tile of queries whose rows are `stride` elements apart. Rows from `valid`
   on become zero. */
template <int D>
static __device__ inline void load_queries(
	uint32_t shared, const uint16_t *from, uint32_t stride, uint32_t valid)
{
	const uint32_t chunks = D / 8;

#pragma unroll
	for (uint32_t i = threadIdx.x; i < 64 * chunks; i += WARPS * WARP) {
		uint32_t token = i / chunks, chunk = i % chunks;
		bool is_valid = token < valid;
		copy16(shared + tile_offset<D>(token, chunk),
			from + (is_valid ? (size_t)token * stride : 0) + chunk * 8, is_valid);
	}
}

/* The same for tokens of the pool, whose rows are contiguous and already swizzled. */
template <int D, int TOKENS>
static __device__ inline void load_tokens(uint32_t shared, const uint16_t *from, uint32_t valid)
{
	const uint32_t chunks = D / 8;

#pragma unroll
	for (uint32_t i = threadIdx.x; i < TOKENS * chunks; i += WARPS * WARP) {
		bool is_valid = i / chunks < valid;
		copy16(shared + i * 16, from + (is_valid ? i * 8 : 0), is_valid);
	}
}

/* Keys and values of TOKENS tokens of one KV block, to their place in a tile. */
template <int D, int TOKENS>
static __device__ inline void load_step(const prefill_arguments &a, const uint32_t *table,
	uint32_t kv_head, uint32_t position, uint32_t valid, uint32_t shared)
{
	uint64_t offset = paged_kv_offset(&a.shape, table[position / a.shape.block_size], kv_head,
		position % a.shape.block_size);

	load_tokens<D, TOKENS>(shared, a.keys + offset, valid);
	load_tokens<D, TOKENS>(shared + KEY_TILE * D * 2, a.values + offset, valid);
}

template <int D>
static __device__ inline void load_keys_values(const prefill_arguments &a, const uint32_t *table,
	uint32_t kv_head, uint32_t tile, uint32_t end, uint32_t shared)
{
	uint32_t position = tile * KEY_TILE;

	if (position < end && a.shape.block_size % KEY_TILE == 0) {
		load_step<D, KEY_TILE>(a, table, kv_head, position, end - position, shared);
	} else if (position < end) {
		for (uint32_t i = 0; i < KEY_TILE; i += PAGED_KV_STEP) {
			bool has_tokens = position + i < end; /* else zeroes */
			load_step<D, PAGED_KV_STEP>(a, table, kv_head,
				has_tokens ? position + i : position,
				has_tokens ? end - position - i : 0, shared + i * D * 2);
		}
	}
	copy_commit();
}

template <int D> struct query_state {
	uint32_t query[D / 16][4];
	float out[D / 8][4];
	float max[2], sum[2]; /* of rows lane / 4 and lane / 4 + 8 */
};

/* Scores of the warp's 16 queries against a tile of keys, with the causal mask. */
template <int D>
static __device__ inline void score_tile(const query_state<D> &state, float (*score)[4],
	uint32_t keys, uint32_t tile_position, uint32_t query_position, float scale)
{
	uint32_t lane = threadIdx.x % WARP;

#pragma unroll
	for (int n = 0; n < KEY_TILE / 8; n++) {
		score[n][0] = score[n][1] = score[n][2] = score[n][3] = 0;
	}
#pragma unroll
	for (int k = 0; k < D / 16; k++) {
#pragma unroll
		for (int n = 0; n < KEY_TILE / 16; n++) {
			uint32_t b[4];
			load_matrices(
				b, keys + tile_offset<D>(n * 16 + (lane & 7) + (lane >> 4) * 8,
						  2 * k + ((lane >> 3) & 1)));
			multiply_add(score[2 * n], state.query[k], b[0], b[1]);
			multiply_add(score[2 * n + 1], state.query[k], b[2], b[3]);
		}
	}
	bool needs_mask = tile_position + KEY_TILE > query_position + 1;
#pragma unroll
	for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t key = tile_position + n * 8 + 2 * (lane % 4) + (i & 1);
			uint32_t query = query_position + lane / 4 + (i >> 1) * 8;
			bool is_masked = needs_mask && key > query;
			score[n][i] = is_masked ? -CUDART_INF_F : score[n][i] * scale;
		}
	}
}

/* Adds the scores and values of a tile to the online softmax. */
template <int D>
static __device__ inline void add_tile(query_state<D> &state, float (*score)[4], uint32_t values)
{
	uint32_t lane = threadIdx.x % WARP;
	float rescale[2];

#pragma unroll
	for (int half = 0; half < 2; half++) {
		float top = state.max[half];
#pragma unroll
		for (int n = 0; n < KEY_TILE / 8; n++) {
			top = fmaxf(top, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
		}
		top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
		top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
		/* A padding row past the queries may have no key at all. */
		float base = top == -CUDART_INF_F ? 0.0f : top;
		rescale[half] = exp2f(state.max[half] - base);
		state.max[half] = top;
		float sum = 0;
#pragma unroll
		for (int n = 0; n < KEY_TILE / 8; n++) {
#pragma unroll
			for (int i = 0; i < 2; i++) {
				float p = exp2f(score[n][2 * half + i] - base);
				score[n][2 * half + i] = p;
				sum += p;
			}
		}
		state.sum[half] = state.sum[half] * rescale[half] + sum;
	}
#pragma unroll
	for (int n = 0; n < D / 8; n++) {
		state.out[n][0] *= rescale[0];
		state.out[n][1] *= rescale[0];
		state.out[n][2] *= rescale[1];
		state.out[n][3] *= rescale[1];
	}
#pragma unroll
	for (int k = 0; k < KEY_TILE / 16; k++) {
		uint32_t p[4] = {pack2(score[2 * k][0], score[2 * k][1]),
			pack2(score[2 * k][2], score[2 * k][3]),
			pack2(score[2 * k + 1][0], score[2 * k + 1][1]),
			pack2(score[2 * k + 1][2], score[2 * k + 1][3])};
#pragma unroll
		for (int n = 0; n < D / 16; n++) {
			uint32_t b[4];
			load_matrices_transposed(b,
				values + tile_offset<D>(k * 16 + (lane & 7) + ((lane >> 3) & 1) * 8,
						 2 * n + (lane >> 4)));
			multiply_add(state.out[2 * n], p, b[0], b[1]);
			multiply_add(state.out[2 * n + 1], p, b[2], b[3]);
		}
	}
}

template <int D>
static __device__ inline void store_out(const prefill_arguments &a, query_state<D> &state,
	uint32_t first_token, uint32_t valid, uint32_t head)
{
	uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;

#pragma unroll
	for (int half = 0; half < 2; half++) {
		float sum = state.sum[half];
		sum += __shfl_xor_sync(0xffffffffu, sum, 1);
		sum += __shfl_xor_sync(0xffffffffu, sum, 2);
		uint32_t query = warp * 16 + lane / 4 + half * 8;
		if (query >= valid) {
			continue;
		}
		uint16_t *out = a.out +
				((size_t)(first_token + query) * a.shape.head_count + head) * D +
				2 * (lane % 4);
#pragma unroll
		for (int n = 0; n < D / 8; n++) {
			*(uint32_t *)(out + n * 8) = pack2(
				state.out[n][2 * half] / sum, state.out[n][2 * half + 1] / sum);
		}
	}
}

template <int D>
static __global__ void __launch_bounds__(WARPS *WARP) prefill_attention_kernel(prefill_arguments a)
{
	extern __shared__ __align__(128) unsigned char memory[];
	const uint32_t stage_bytes = KEY_TILE * D * 2 * 2;
	uint32_t shared = shared_address(memory);
	uint32_t ring = shared + QUERY_TILE * D * 2;
	uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	struct prefill_tile tile = a.tiles[blockIdx.x];
	uint32_t head = blockIdx.y;
	uint32_t kv_head = head / (a.shape.head_count / a.shape.kv_head_count);
	uint32_t tokens = a.query_start[tile.row + 1] - a.query_start[tile.row];
	uint32_t first = tile.index * PREFILL_QUERY_TILE + blockIdx.z * QUERY_TILE;
	if (first >= tokens) {
		return;
	}
	uint32_t valid = min(tokens - first, (uint32_t)QUERY_TILE);
	uint32_t position = a.contexts[tile.row] - tokens + first; /* of the first query */
	/* keys to which the last query attends */
	uint32_t end = position + valid;
	uint32_t first_token = a.query_start[tile.row] + first;
	const uint32_t *table = a.tables + (size_t)a.rows[tile.row] * a.shape.table_width;

	load_queries<D>(shared, a.query + ((size_t)first_token * a.shape.head_count + head) * D,
		a.shape.head_count * D, valid);
	/* in one cp.async group with the queries */
	load_keys_values<D>(a, table, kv_head, 0, end, ring);
	query_state<D> state;
#pragma unroll
	for (int n = 0; n < D / 8; n++) {
		state.out[n][0] = state.out[n][1] = state.out[n][2] = state.out[n][3] = 0;
	}
	state.max[0] = state.max[1] = -CUDART_INF_F;
	state.sum[0] = state.sum[1] = 0;
	uint32_t tile_count = (end + KEY_TILE - 1) / KEY_TILE;
	for (uint32_t t = 0; t < tile_count; t++) {
		uint32_t stage = ring + (t % STAGES) * stage_bytes;
		load_keys_values<D>(
			a, table, kv_head, t + 1, end, ring + ((t + 1) % STAGES) * stage_bytes);
		copy_wait<1>();
		__syncthreads();
		if (t == 0) {
#pragma unroll
			for (int k = 0; k < D / 16; k++) {
				load_matrices(state.query[k],
					shared + tile_offset<D>(warp * 16 + (lane & 15),
							 2 * k + (lane >> 4)));
			}
		}
		float score[KEY_TILE / 8][4];
		score_tile<D>(state, score, stage, t * KEY_TILE, position + warp * 16, a.scale);
		add_tile<D>(state, score, stage + KEY_TILE * D * 2);
		__syncthreads();
	}
	store_out<D>(a, state, first_token, valid, head);
}

/* ---- launchers ---- */

template <int D> static int launch(const prefill_arguments &a, cudaStream_t stream)
{
	const uint32_t bytes = QUERY_TILE * D * 2 + STAGES * KEY_TILE * D * 2 * 2;
	const int code = allow_shared<prefill_attention_kernel<D>>(bytes);

	if (code != 0) {
		return code;
	}
	dim3 grid(a.tile_count, a.shape.head_count, PREFILL_QUERY_TILE / QUERY_TILE);
	prefill_attention_kernel<D><<<grid, WARPS * WARP, bytes, stream>>>(a);
	return (int)cudaGetLastError();
}

int prefill_attention_sm80(const prefill_arguments &a, cudaStream_t stream)
{
	switch (a.shape.head_dim) {
	case 32:
		return launch<32>(a, stream);
	case 64:
		return launch<64>(a, stream);
	case 128:
		return launch<128>(a, stream);
	default:
		return cudaErrorInvalidValue;
	}
}
