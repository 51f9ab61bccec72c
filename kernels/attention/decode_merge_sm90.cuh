#ifndef KERNELS_ATTENTION_DECODE_MERGE_SM90_CUH
#define KERNELS_ATTENTION_DECODE_MERGE_SM90_CUH

#include "kernels/attention/decode_pipe_sm90.cuh"

/* Merging: tiles to splits (the folder), and splits to rows (the mergers).

   A merger counts a row's splits that are stored; who counts the last one merges them all. Mergers
   take units in turn, because each waits for round trips to global memory. In
   decode_shared_sm90.cu rows have owners instead (decode_owner_sm90.cuh). */

#ifdef QUIRE_SM90A

/* Running sums of the online softmax. Piece i of a lane is 4 dimensions of head i * (128 / D) +
   lane / (D / 4). */
template <class P> struct fold {
	static constexpr int pieces = P::heads * P::d / 128;
	float4 out[pieces];
	float max[pieces], sum[pieces];
};

template <class P> static __device__ inline uint32_t piece_head(int i)
{
	return i * (128 / P::d) + threadIdx.x % WARP / (P::d / 4);
}

template <class P> static __device__ inline uint32_t piece_dimension()
{
	return threadIdx.x % WARP % (P::d / 4) * 4;
}

template <class P> static __device__ inline void fold_clear(fold<P> &fold)
{
#pragma unroll
	for (int i = 0; i < fold.pieces; i++) {
		fold.out[i] = make_float4(0, 0, 0, 0);
		fold.max[i] = -CUDART_INF_F;
		fold.sum[i] = 0;
	}
}

template <class P>
static __device__ inline void fold_add(fold<P> &fold, int i, float4 out, float2 state)
{
	fold_weights weights = fold_max(fold.max[i], state.x);

	fold_value(fold.sum[i], state.y, weights);
	fold_value(fold.out[i].x, out.x, weights);
	fold_value(fold.out[i].y, out.y, weights);
	fold_value(fold.out[i].z, out.z, weights);
	fold_value(fold.out[i].w, out.w, weights);
}

template <class P>
static __device__ inline void store_out(
	const decode_arguments &a, const fold<P> &fold, uint32_t row, uint32_t kv_head)
{
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;

#pragma unroll
	for (int i = 0; i < fold.pieces; i++) {
		uint32_t head = piece_head<P>(i);
		if (head < group) {
			size_t at = (size_t)row * a.shape.head_count + kv_head * group + head;
			float4 out = fold.out[i];
			float scale = reciprocal(fold.sum[i]);
			uint2 packed = make_uint2(pack2(out.x * scale, out.y * scale),
				pack2(out.z * scale, out.w * scale));
			*(uint2 *)(a.out + at * P::d + piece_dimension<P>()) = packed;
		}
	}
}

template <class P>
static __device__ inline void store_partial(
	const decode_arguments &a, const fold<P> &fold, uint32_t split, uint32_t kv_head)
{
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;

#pragma unroll
	for (int i = 0; i < fold.pieces; i++) {
		uint32_t head = piece_head<P>(i);
		size_t at = (size_t)split * a.shape.head_count + kv_head * group + head;
		if (head < group) {
			*(float4 *)(a.partial_out + at * P::d + piece_dimension<P>()) = fold.out[i];
			if (piece_dimension<P>() == 0) {
				a.partial_state[at] = make_float2(fold.max[i], fold.sum[i]);
			}
		}
	}
}

/* ---- mergers ---- */

/* Counts a stored unit; true for the last one of its row and head. */
static __device__ inline bool is_last_to_arrive(const decode_arguments &a, const tile_info &info)
{
	uint32_t *arrivals =
		a.arrivals + 1 + (info.row * a.shape.kv_head_count + info.kv_head) * MERGERS;
	uint32_t count = 0;

	fence_device();
	if (threadIdx.x % WARP == 0) {
		count = atomicAdd(arrivals, 1) + 1;
		if (count == info.split_count) {
			*arrivals = 0;
		}
	}
	return __shfl_sync(0xffffffffu, count, 0) == info.split_count;
}

template <class P>
static __device__ inline void merge_units(
	const decode_arguments &a, fold<P> &fold, const tile_info &info)
{
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;

	fence_device();
	fold_clear<P>(fold);
#pragma unroll P::heads> 4 ? 2 : 4
	for (uint32_t s = 0; s < info.split_count; s++) {
#pragma unroll
		for (int i = 0; i < fold.pieces; i++) {
			uint32_t head = min(piece_head<P>(i), group - 1);
			size_t at = (size_t)(info.first_split + s) * a.shape.head_count +
				    info.kv_head * group + head;
			fold_add<P>(fold, i,
				__ldcg((const float4 *)(a.partial_out + at * P::d +
							piece_dimension<P>())),
				__ldcg(a.partial_state + at));
		}
	}
}

template <class P>
static __device__ void merge(const decode_arguments &a, const pipe<P> &pipe, uint32_t merger)
{
	for (uint32_t round = 0;; round++) {
		barrier_wait(pipe.merge_full(merger), round & 1);
		const tile_info info = *pipe.merge(merger);
		__syncwarp();
		if (threadIdx.x % WARP == 0) {
			barrier_arrive(pipe.merge_empty(merger));
		}
		if (info.count == 0) {
			return;
		}
		if (is_last_to_arrive(a, info)) {
			fold<P> fold;
			merge_units<P>(a, fold, info);
			store_out<P>(a, fold, info.row, info.kv_head);
		}
	}
}

/* Writes zeroes to rows without tokens, the padding of a graph. */
static __device__ inline void clear_padding(const decode_arguments &a)
{
	uint32_t size = a.shape.head_count * a.shape.head_dim;

	for (uint32_t r = a.first_row + blockIdx.x; r < a.first_row + a.row_count; r += gridDim.x) {
		if (a.split_start[r] == a.split_start[r + 1]) {
			for (uint32_t i = threadIdx.x % WARP * 8; i < size; i += WARP * 8) {
				*(uint4 *)(a.out + (size_t)r * size + i) = make_uint4(0, 0, 0, 0);
			}
		}
	}
}

/* ---- folder ---- */

/* Passes stored units to the mergers in rotation. */
template <class P> struct merge_queue {
	uint32_t merger, parity;

	__device__ inline void push(const pipe<P> &pipe, const tile_info &info)
	{
		barrier_wait(pipe.merge_empty(merger), parity);
		if (threadIdx.x % WARP == 0) {
			*pipe.merge(merger) = info;
		}
		__syncwarp();
		if (threadIdx.x % WARP == 0) {
			barrier_arrive(pipe.merge_full(merger));
		}
		merger = merger + 1 == MERGERS ? 0 : merger + 1;
		parity ^= merger == 0;
	}

	/* Passes a unit to the counter. */
	__device__ inline void push_to_counter(const pipe<P> &pipe, const tile_info &info)
	{
		barrier_wait(pipe.merge_empty(0), parity);
		if (threadIdx.x % WARP == 0) {
			*pipe.merge(0) = info;
		}
		__syncwarp();
		if (threadIdx.x % WARP == 0) {
			barrier_arrive(pipe.merge_full(0));
		}
		parity ^= 1;
	}

	/* Passes a unit to each merger. */
	__device__ inline void push_to_all(const pipe<P> &pipe, const tile_info &info)
	{
		for (uint32_t i = 0; i < MERGERS; i++) {
			push(pipe, info);
		}
	}
};

/* Ends a unit: adds it to its chain, or stores it for a merger. The partial result of a chain is
   that of the row's first split. */
template <class P>
static __device__ inline void end_unit(const decode_arguments &a, const pipe<P> &pipe,
	const tile_info &info, fold<P> &unit, fold<P> &chain, merge_queue<P> &mergers)
{
	if (P::has_shared ? info.kind == UNIT_PART : info.kind != UNIT_WHOLE) {
		store_partial<P>(a, unit, info.split, info.kv_head);
		if (P::has_shared) {
			mergers.push_to_counter(pipe, info);
		} else {
			mergers.push(pipe, info);
		}
		fold_clear<P>(unit);
		return;
	}
#pragma unroll
	for (int i = 0; i < unit.pieces; i++) {
		fold_add<P>(chain, i, unit.out[i], make_float2(unit.max[i], unit.sum[i]));
	}
	if (P::has_shared && info.kind != UNIT_WHOLE) {
		if (info.kind == UNIT_CHAIN_END) {
			store_partial<P>(a, chain, info.first_split, info.kv_head);
			mergers.push_to_counter(pipe, info);
			fold_clear<P>(chain);
		}
	} else if (info.split + 1 == info.first_split + info.split_count) {
		store_out<P>(a, chain, info.row, info.kv_head);
		fold_clear<P>(chain);
	}
	fold_clear<P>(unit);
}

/* n: the first tile that is the block's own. */
template <class P>
static __device__ void fold_all_tiles(const decode_arguments &a, const pipe<P> &pipe, uint32_t n)
{
	uint32_t lane = threadIdx.x % WARP, warp = 0, parity = 0;
	merge_queue<P> mergers = {0, 1};
	fold<P> unit, chain;

	dependency_wait();
	clear_padding(a);
	fold_clear<P>(unit);
	fold_clear<P>(chain);
	for (;; n++) {
		barrier_wait(pipe.result_full(warp), parity);
		const tile_info info = *pipe.info(n);
		if (info.count == 0) {
			if (P::has_shared) {
				mergers.push_to_counter(pipe, info);
			} else {
				mergers.push_to_all(pipe, info);
			}
			return;
		}
		const float *out = pipe.result(warp) + piece_dimension<P>();
#pragma unroll
		for (int i = 0; i < unit.pieces; i++) {
			uint32_t head = piece_head<P>(i);
			fold_add<P>(unit, i, *(const float4 *)(out + head * P::result_row),
				pipe.state(warp)[head]);
		}
		__syncwarp();
		if (lane == 0) {
			barrier_arrive(pipe.result_empty(warp));
		}
		warp = warp + 1 == WARPS ? 0 : warp + 1;
		parity ^= warp == 0;
		if (info.is_last) {
			end_unit<P>(a, pipe, info, unit, chain, mergers);
		}
	}
}

#endif

#endif
