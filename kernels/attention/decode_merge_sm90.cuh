#ifndef KERNELS_ATTENTION_DECODE_MERGE_SM90_CUH
#define KERNELS_ATTENTION_DECODE_MERGE_SM90_CUH

#include "kernels/attention/decode_pipe_sm90.cuh"

/* Merging: tiles to splits (the folder), and splits to rows (the mergers).

   A merger counts a row's splits that are stored; who counts the last one merges them all. Mergers
   take units in turn, because each waits for round trips to global memory. But the shared splits of
   many rows are stored at once, so of rows with shared splits all mergers count every split, and
   each merges a quarter of the dimensions: those of all query heads of a key/value head side by
   side. The sums of an element are the same either way. */

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

/* ---- mergers: a quarter of a row ---- */

/* What a merger merges. */
struct merge_task {
	uint32_t row, kv_head;
	uint32_t first_split, split_count; /* of the row, within this launch */
};

/* A lane has WIDTH consecutive elements of the query heads, all of one head; LANES lanes share a
   head. BATCH splits are loaded at once. */
template <class P> struct quarter {
	static constexpr int WIDTH = P::heads * P::d / (MERGERS * WARP);
	static constexpr int LANES = P::heads == 8 ? WARP / 2 : WARP;
	static constexpr int BATCH = 64 / WIDTH < LANES ? 64 / WIDTH : LANES;
	uint32_t head;	    /* of the key/value head's */
	uint32_t dimension; /* the first */
};

template <class P> static __device__ inline quarter<P> quarter_of(uint32_t merger)
{
	uint32_t at = (merger * WARP + threadIdx.x % WARP) * quarter<P>::WIDTH;

	return {at / P::d, at % P::d};
}

template <int WIDTH> static __device__ inline void load_floats(float *to, const float *from)
{
	if (WIDTH == 1) {
		to[0] = __ldcg(from);
	} else if (WIDTH == 2) {
		float2 pair = __ldcg((const float2 *)from);
		to[0] = pair.x;
		to[WIDTH - 1] = pair.y;
	} else {
#pragma unroll
		for (int i = 0; i + 3 < WIDTH; i += 4) {
			float4 four = __ldcg((const float4 *)(from + i));
			to[i] = four.x;
			to[i + 1] = four.y;
			to[i + 2] = four.z;
			to[i + 3] = four.w;
		}
	}
}

/* The factors of a head's splits, those of split l of a batch in its lane l. */
struct batch_weights {
	fold_weights weights;
	float part_sum;
};

/* state: of this lane's split. max: of the splits in front, then of these too. The maxima are those
   of one split after the other, since a maximum is exact. */
template <int LANES>
static __device__ inline batch_weights weigh_batch(float2 state, uint32_t count, float &max)
{
	uint32_t lane = threadIdx.x % LANES;
	float top = fmaxf(max, state.x);

#pragma unroll
	for (int distance = 1; distance < LANES; distance *= 2) {
		float other = __shfl_up_sync(0xffffffffu, top, distance, LANES);
		top = lane >= distance ? fmaxf(other, top) : top;
	}
	float before = __shfl_up_sync(0xffffffffu, top, 1, LANES);
	before = lane == 0 ? max : before;
	max = __shfl_sync(0xffffffffu, top, (int)count - 1, LANES);
	return {{power_of_two(before - top), power_of_two(state.x - top)}, state.y};
}

/* Merges all splits of a row in ascending order, and stores this merger's quarter. */
template <class P>
static __device__ inline void merge_row(
	const decode_arguments &a, const quarter<P> &own, const merge_task &task)
{
	constexpr int WIDTH = quarter<P>::WIDTH, LANES = quarter<P>::LANES;
	constexpr int BATCH = quarter<P>::BATCH;
	uint32_t group = a.shape.head_count / a.shape.kv_head_count, lane = threadIdx.x % LANES;
	uint32_t head = task.kv_head * group + min(own.head, group - 1);
	size_t first = (size_t)task.first_split * a.shape.head_count + head;
	const float *outs = a.partial_out + first * P::d + own.dimension;
	float out[WIDTH] = {}, max = -CUDART_INF_F, sum = 0;

	for (uint32_t s = 0; s < task.split_count; s += BATCH) {
		float parts[BATCH][WIDTH];
		float2 state = make_float2(-CUDART_INF_F, 0);
		uint32_t count = min(task.split_count - s, (uint32_t)BATCH);
#pragma unroll
		for (uint32_t b = 0; b < BATCH; b++) {
			size_t at = (size_t)(s + min(b, count - 1)) * a.shape.head_count * P::d;
			load_floats<WIDTH>(parts[b], outs + at);
		}
		if (lane < count) {
			state = __ldcg(
				a.partial_state + first + (size_t)(s + lane) * a.shape.head_count);
		}
		const batch_weights weights = weigh_batch<LANES>(state, count, max);
#pragma unroll
		for (uint32_t b = 0; b < BATCH; b++) {
			const fold_weights w = {
				__shfl_sync(0xffffffffu, weights.weights.old, (int)b, LANES),
				__shfl_sync(0xffffffffu, weights.weights.part, (int)b, LANES)};
			float part_sum = __shfl_sync(0xffffffffu, weights.part_sum, (int)b, LANES);
			if (b < count) {
				fold_value(sum, part_sum, w);
#pragma unroll
				for (int i = 0; i < WIDTH; i++) {
					fold_value(out[i], parts[b][i], w);
				}
			}
		}
	}
	if (own.head < group) {
		size_t at = (size_t)task.row * a.shape.head_count + head;
		uint16_t *to = a.out + at * P::d + own.dimension;
		float scale = reciprocal(sum);
		if (WIDTH == 1) {
			*to = (uint16_t)pack2(out[0] * scale, 0);
		}
#pragma unroll
		for (int i = 0; i + 1 < WIDTH; i += 2) {
			*(uint32_t *)(to + i) = pack2(out[i] * scale, out[i + 1] * scale);
		}
	}
}

/* Counts the stored split of each lane's task, and merges the rows that are complete. */
template <class P>
static __device__ inline void count_tasks(const decode_arguments &a, const quarter<P> &own,
	uint32_t merger, bool has_task, const merge_task &task)
{
	bool is_last = false;

	fence_device();
	if (has_task) {
		uint32_t *counter = a.arrivals + 1 +
				    (task.row * a.shape.kv_head_count + task.kv_head) * MERGERS +
				    merger;
		is_last = atomicAdd(counter, 1) + 1 == task.split_count;
		if (is_last) {
			*counter = 0;
		}
	}
	uint32_t complete = __ballot_sync(0xffffffffu, is_last);
	if (complete != 0) {
		fence_device();
	}
	for (; complete != 0; complete &= complete - 1) {
		int from = __ffs((int)complete) - 1;
		merge_row<P>(a, own,
			{__shfl_sync(0xffffffffu, task.row, from),
				__shfl_sync(0xffffffffu, task.kv_head, from),
				__shfl_sync(0xffffffffu, task.first_split, from),
				__shfl_sync(0xffffffffu, task.split_count, from)});
	}
}

/* A lane for each split and reader of a shared unit. */
template <class P>
static __device__ void merge_shared(const decode_arguments &a, const pipe<P> &pipe, uint32_t merger)
{
	const quarter<P> own = quarter_of<P>(merger);
	uint32_t lane = threadIdx.x % WARP;

	for (uint32_t round = 0;; round++) {
		uint32_t slot = round % SLOTS;
		merge_task task = {};
		barrier_wait(pipe.slot_stored(slot), round / SLOTS & 1);
		const shared_unit &unit = *pipe.shared_unit(slot);
		bool is_end = unit.row_count == 0;
		bool has_task = lane < unit.row_count * unit.splits;
		if (!is_end && has_task) {
			uint32_t reader = lane % unit.row_count;
			task = {unit.row[reader], unit.kv_head, unit.first_split[reader],
				unit.split_count[reader]};
		}
		__syncwarp();
		if (lane == 0) {
			barrier_arrive(pipe.slot_empty(slot));
		}
		if (is_end) {
			return;
		}
		count_tasks<P>(a, own, merger, has_task, task);
	}
}

/* ---- mergers: a whole row ---- */

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
		if (P::has_shared && info.kind == UNIT_OF_SHARED_ROW) {
			count_tasks<P>(a, quarter_of<P>(merger), merger, threadIdx.x % WARP == 0,
				{info.row, info.kv_head, info.first_split, info.split_count});
		} else if (is_last_to_arrive(a, info)) {
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

	/* Passes a unit to each merger. */
	__device__ inline void push_to_all(const pipe<P> &pipe, const tile_info &info)
	{
		for (uint32_t i = 0; i < MERGERS; i++) {
			push(pipe, info);
		}
	}
};

/* Ends a unit: adds it to its chain, or stores it for a merger. */
template <class P>
static __device__ inline void end_unit(const decode_arguments &a, const pipe<P> &pipe,
	const tile_info &info, fold<P> &unit, fold<P> &chain, merge_queue<P> &mergers)
{
	if (info.kind != UNIT_WHOLE) {
		store_partial<P>(a, unit, info.split, info.kv_head);
		if (P::has_shared && info.kind == UNIT_OF_SHARED_ROW) {
			mergers.push_to_all(pipe, info);
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
	if (info.split + 1 == info.first_split + info.split_count) {
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
			mergers.push_to_all(pipe, info);
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
