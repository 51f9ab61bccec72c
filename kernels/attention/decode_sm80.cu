#include "kernels/attention/decode.cuh"
#include "kernels/device/dynamic_shared.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/device/shared.cuh"

#include <math_constants.h>

/* Flash decoding for sm_80 and later, head_dim D of 32, 64 or 128. out (rows, heads, D) =
   softmax(query * K^T * scale) * V, bf16 with float32 sums.

   A unit of work is one split (256 tokens) of one row and key/value head, with all query heads of
   that head (GQA), so that K and V are read once. Thread blocks are persistent: block b computes
   units b, b + gridDim.x, ...

       split   16 slices of 16 tokens
       warp w  slices w, w + 4, w + 8 and w + 12, with an online softmax of its own
       block   merges the four warps in ascending order

   Each warp copies its own slices ahead (cp.async, three stages) into shared memory that no
   other warp uses. So no block barrier separates loads from computation, and the copies run on
   into the next unit. mma.sync computes the products; the query heads are up to 8 of the 16 rows
   of a matrix. */

enum { WARPS = 4, SLICE = 16, STAGES = 3 };
enum { SLICES_PER_WARP = DECODE_SPLIT / SLICE / WARPS };

static_assert((int)SLICE == PAGED_KV_STEP, "a slice lies in one KV block");
static_assert(DECODE_SPLIT % (SLICE * WARPS) == 0, "each warp has the same number of slices");

/* A unit; every thread of the block has the same copy. */
struct unit {
	uint32_t split; /* index within this launch */
	uint32_t row;	/* of the batch */
	uint32_t kv_head;
	uint32_t first; /* token */
	uint32_t count; /* tokens, 1 to DECODE_SPLIT; 0: no more units */
	const uint32_t *table;
};

static __device__ inline unit unit_at(const decode_arguments &a, uint32_t index, uint32_t count)
{
	unit u = {};

	if (index >= count) {
		return u;
	}
	u.split = index / a.shape.kv_head_count;
	u.kv_head = index % a.shape.kv_head_count;
	struct decode_claim split = a.claims[a.launch->first + u.split]; /* all are singles */
	u.row = split.row;
	u.first = split.index * DECODE_SPLIT;
	u.count = min(a.contexts[u.row] - u.first, (uint32_t)DECODE_SPLIT);
	u.table = a.tables + (size_t)a.rows[u.row] * a.shape.table_width;
	return u;
}

/* Starts the copies of one slice of K and V. Tokens past the end of the split become zero. */
template <int D>
static __device__ inline void load_slice(
	const decode_arguments &a, const unit &u, uint32_t slice, uint32_t shared)
{
	const uint32_t chunks = D / 8;
	uint32_t lane = threadIdx.x % WARP;
	uint32_t begin = slice * SLICE;

	if (begin < u.count) {
		/* A slice never crosses a KV block, since block sizes are multiples of it. */
		uint32_t position = u.first + begin;
		uint64_t block = u.table[position / a.shape.block_size];
		uint64_t offset =
			paged_kv_offset(&a.shape, block, u.kv_head, position % a.shape.block_size);
#pragma unroll
		for (uint32_t i = lane; i < SLICE * chunks; i += WARP) {
			bool is_valid = begin + i / chunks < u.count;
			uint32_t to = shared + i * 16; /* already swizzled in the pool */
			copy16(to, a.keys + offset + i * 8, is_valid);
			copy16(to + SLICE * D * 2, a.values + offset + i * 8, is_valid);
		}
	}
	copy_commit(); /* committed even when empty: copy_wait() counts groups */
}

template <int D> struct warp_state {
	uint32_t query[D / 16][2]; /* rows 0 to 7 of the fragments; rows 8 to 15 are zero */
	float out[D / 8][4];
	float max, sum;
};

template <int D>
static __device__ inline void load_query(
	const decode_arguments &a, const unit &u, warp_state<D> &state)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;
	uint32_t head = lane / 4;
	const uint16_t *query =
		a.query + ((size_t)u.row * a.shape.head_count + u.kv_head * group + head) * D +
		2 * (lane % 4);

#pragma unroll
	for (int k = 0; k < D / 16; k++) {
		bool is_head = head < group;
		state.query[k][0] = is_head ? *(const uint32_t *)(query + k * 16) : 0;
		state.query[k][1] = is_head ? *(const uint32_t *)(query + k * 16 + 8) : 0;
	}
#pragma unroll
	for (int i = 0; i < D / 8; i++) {
		state.out[i][0] = state.out[i][1] = state.out[i][2] = state.out[i][3] = 0;
	}
	state.max = -CUDART_INF_F;
	state.sum = 0;
}

/* Adds the `valid` tokens of a slice, 1 to 16, to the warp's online softmax. */
template <int D>
static __device__ inline void add_slice(
	warp_state<D> &state, uint32_t shared, uint32_t valid, float scale)
{
	uint32_t lane = threadIdx.x % WARP;
	float score[2][4] = {};

#pragma unroll
	for (int k = 0; k < D / 16; k++) {
		uint32_t b[4];
		uint32_t a[4] = {state.query[k][0], 0, state.query[k][1], 0};
		load_matrices(b, shared + tile_offset<D>((lane & 7) + (lane >> 4) * 8,
						  2 * k + ((lane >> 3) & 1)));
		multiply_add(score[0], a, b[0], b[1]);
		multiply_add(score[1], a, b[2], b[3]);
	}
	float top = -CUDART_INF_F;
#pragma unroll
	for (int n = 0; n < 2; n++) {
#pragma unroll
		for (int i = 0; i < 2; i++) {
			bool is_valid = n * 8 + 2 * (lane % 4) + i < valid;
			score[n][i] = is_valid ? score[n][i] * scale : -CUDART_INF_F;
			top = fmaxf(top, score[n][i]);
		}
	}
	top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
	top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
	top = fmaxf(top, state.max);
	float rescale = exp2f(state.max - top);
	state.max = top;
#pragma unroll
	for (int n = 0; n < 2; n++) {
		score[n][0] = exp2f(score[n][0] - top);
		score[n][1] = exp2f(score[n][1] - top);
	}
	state.sum =
		state.sum * rescale + ((score[0][0] + score[0][1]) + (score[1][0] + score[1][1]));
	uint32_t p[4] = {pack2(score[0][0], score[0][1]), 0, pack2(score[1][0], score[1][1]), 0};
	uint32_t values = shared + SLICE * D * 2;
#pragma unroll
	for (int n = 0; n < D / 16; n++) {
		uint32_t b[4];
		load_matrices_transposed(
			b, values + tile_offset<D>((lane & 7) + ((lane >> 3) & 1) * 8,
					    2 * n + (lane >> 4)));
#pragma unroll
		for (int i = 0; i < 2; i++) {
			state.out[2 * n][i] *= rescale;
			state.out[2 * n + 1][i] *= rescale;
		}
		multiply_add(state.out[2 * n], p, b[0], b[1]);
		multiply_add(state.out[2 * n + 1], p, b[2], b[3]);
	}
}

/* Merges the four warps in ascending order and writes the result of the unit: the final one if
   the row has only this split, else the unnormalised sum with its maximum and sum of weights. */
template <int D>
static __device__ inline void store_unit(const decode_arguments &a, const unit &u,
	warp_state<D> &state, float *merge_out, float2 *merge_state)
{
	uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;
	uint32_t head = lane / 4;

	state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 1);
	state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 2);
	if (head < group) {
		float *to = merge_out + (warp * GROUP_MAX + head) * D + 2 * (lane % 4);
		if (lane % 4 == 0) {
			merge_state[warp * GROUP_MAX + head] = make_float2(state.max, state.sum);
		}
#pragma unroll
		for (int i = 0; i < D / 8; i++) {
			*(float2 *)(to + i * 8) = make_float2(state.out[i][0], state.out[i][1]);
		}
	}
	__syncthreads();
	bool is_only = a.split_start[u.row + 1] - a.split_start[u.row] == 1;
	for (uint32_t i = threadIdx.x; i < group * D; i += WARPS * WARP) {
		uint32_t h = i / D, d = i % D;
		float top = -CUDART_INF_F, sum = 0, out = 0;
		for (int w = 0; w < WARPS; w++) {
			top = fmaxf(top, merge_state[w * GROUP_MAX + h].x);
		}
		for (int w = 0; w < WARPS; w++) {
			float2 part = merge_state[w * GROUP_MAX + h];
			float weight = exp2f(part.x - top);
			sum += part.y * weight;
			out += merge_out[(w * GROUP_MAX + h) * D + d] * weight;
		}
		uint32_t query_head = u.kv_head * group + h;
		if (is_only) {
			bf16_store(
				a.out + ((size_t)u.row * a.shape.head_count + query_head) * D + d,
				out / sum);
		} else {
			size_t at = (size_t)u.split * a.shape.head_count + query_head;
			a.partial_out[at * D + d] = out;
			if (d == 0) {
				a.partial_state[at] = make_float2(top, sum);
			}
		}
	}
	__syncthreads();
}

template <int D>
static __global__ void __launch_bounds__(WARPS *WARP) decode_attention_kernel(decode_arguments a)
{
	extern __shared__ __align__(128) unsigned char memory[];
	const uint32_t stage_bytes = SLICE * D * 2 * 2;
	uint32_t warp = threadIdx.x / WARP;
	uint32_t ring = shared_address(memory) + warp * STAGES * stage_bytes;
	float *merge_out = (float *)(memory + WARPS * STAGES * stage_bytes);
	float2 *merge_state = (float2 *)(merge_out + WARPS * GROUP_MAX * D);
	uint32_t split_count =
		a.split_start[a.first_row + a.row_count] - a.split_start[a.first_row];
	uint32_t unit_count = split_count * a.shape.kv_head_count;

	/* Loads run STAGES - 1 slices ahead of the computation. */
	uint32_t load_index = blockIdx.x, load_slice_number = 0, load_stage = 0, stage = 0;
	unit loading = unit_at(a, load_index, unit_count);
	auto load_next = [&]() {
		load_slice<D>(a, loading, load_slice_number * WARPS + warp,
			ring + load_stage * stage_bytes);
		load_stage = load_stage + 1 == STAGES ? 0 : load_stage + 1;
		if (++load_slice_number == SLICES_PER_WARP) {
			load_slice_number = 0;
			load_index += gridDim.x;
			loading = unit_at(a, load_index, unit_count);
		}
	};
	for (int i = 0; i < STAGES - 1; i++) {
		load_next();
	}
	for (uint32_t index = blockIdx.x; index < unit_count; index += gridDim.x) {
		unit u = unit_at(a, index, unit_count);
		warp_state<D> state;
		load_query<D>(a, u, state);
		for (uint32_t i = 0; i < SLICES_PER_WARP; i++) {
			uint32_t begin = (i * WARPS + warp) * SLICE;
			copy_wait<STAGES - 2>();
			__syncwarp();
			if (begin < u.count) {
				add_slice<D>(state, ring + stage * stage_bytes,
					min(u.count - begin, (uint32_t)SLICE), a.scale);
			}
			__syncwarp();
			stage = stage + 1 == STAGES ? 0 : stage + 1;
			load_next();
		}
		store_unit<D>(a, u, state, merge_out, merge_state);
	}
	copy_wait<0>();
}

/* Second kernel: merges the splits of rows that have several, in ascending order. A row without
   splits, padding of a graph, becomes zero. One thread block a row and head, one thread an
   element. */
static __global__ void decode_merge_kernel(decode_arguments a)
{
	uint32_t row = a.first_row + blockIdx.x, head = blockIdx.y, d = threadIdx.x;
	uint32_t base = a.split_start[a.first_row];
	uint32_t first = a.split_start[row] - base, end = a.split_start[row + 1] - base;
	uint32_t dim = a.shape.head_dim;
	uint16_t *out = a.out + ((size_t)row * a.shape.head_count + head) * dim + d;

	if (end - first == 1) {
		return; /* the only split wrote the final result */
	}
	float top = -CUDART_INF_F, sum = 0, value = 0;
	for (uint32_t s = first; s < end; s++) {
		top = fmaxf(top, a.partial_state[(size_t)s * a.shape.head_count + head].x);
	}
	for (uint32_t s = first; s < end; s++) {
		size_t at = (size_t)s * a.shape.head_count + head;
		float2 part = a.partial_state[at];
		float weight = exp2f(part.x - top);
		sum += part.y * weight;
		value += a.partial_out[at * dim + d] * weight;
	}
	bf16_store(out, first == end ? 0.0f : value / sum);
}

/* ---- launchers ---- */

template <int D>
static int launch(const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	const uint32_t bytes = WARPS * STAGES * SLICE * D * 2 * 2 + WARPS * GROUP_MAX * (D + 2) * 4;
	const int code = allow_shared<decode_attention_kernel<D>>(bytes);

	if (code != 0) {
		return code;
	}
	decode_attention_kernel<D><<<block_count, WARPS * WARP, bytes, stream>>>(a);
	decode_merge_kernel<<<dim3(a.row_count, a.shape.head_count), D, 0, stream>>>(a);
	return cudaGetLastError();
}

int decode_attention_sm80(const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	switch (a.shape.head_dim) {
	case 32:
		return launch<32>(a, block_count, stream);
	case 64:
		return launch<64>(a, block_count, stream);
	case 128:
		return launch<128>(a, block_count, stream);
	default:
		return cudaErrorInvalidValue;
	}
}
