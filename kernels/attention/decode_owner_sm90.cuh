#ifndef KERNELS_ATTENTION_DECODE_OWNER_SM90_CUH
#define KERNELS_ATTENTION_DECODE_OWNER_SM90_CUH

#include "kernels/attention/decode_merge_sm90.cuh"

/* Merging the splits of rows that have many, or share them: such rows become complete at nearly the
   same moment, or a whole row is left to merge when its last split is stored. So each quarter of a
   row and key/value head (of the dimensions of all its query heads, side by side) belongs to one
   warp of the launch, its owner, whichever blocks compute the splits. Owners of one row are in
   different blocks.

       counter   a warp of each block: counts the stored splits, in global memory
       owners    OWNERS warps of each block: each waits for its rows, one after the other, and
                 merges the leading splits that are stored, in ascending order

   The sums of an element are those of decode_merge_sm90.cuh. Owners wait for splits that other
   blocks compute, so all blocks of the launch must be resident. */

#ifdef QUIRE_SM90A

/* A row and key/value head. */
struct merge_task {
	uint32_t row, kv_head;
	uint32_t first_split, split_count; /* of the row, within this launch */
	uint32_t chain; /* splits whose sums are stored as the first one's; or 0 */
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

template <class P> static __device__ inline quarter<P> quarter_of(uint32_t index)
{
	uint32_t at = (index * WARP + threadIdx.x % WARP) * quarter<P>::WIDTH;

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

/* A row's splits are counted in spans, the last of which are the shortest: so little is left to
   merge when the last split is stored. Span k ends at split span_end(count, k + 1). */
enum { SPANS = DECODE_MERGERS, QUARTERS = DECODE_MERGERS };

static __device__ inline uint32_t span_end(uint32_t count, uint32_t spans)
{
	return spans == SPANS ? count : count - (count >> spans);
}

static __device__ inline uint32_t span_of(uint32_t count, uint32_t split)
{
	uint32_t span = 0;

#pragma unroll
	for (uint32_t k = 1; k < SPANS; k++) {
		span += split >= span_end(count, k) ? 1 : 0;
	}
	return span;
}

/* A counter has the stored splits of a span in its low bits, and above them the quarters whose
   owner has seen them all. */
enum { SEEN_SHIFT = 24 };

/* The counters of a row's spans. */
static __device__ inline uint32_t *span_counters(
	const decode_arguments &a, uint32_t row, uint32_t kv_head)
{
	return a.arrivals + 1 + (row * a.shape.kv_head_count + kv_head) * SPANS;
}

/* Waits for more than `from` leading splits of a row; returns how many of them are stored. */
static __device__ inline uint32_t await_splits(
	const uint32_t *counters, uint32_t count, uint32_t from)
{
	uint32_t lane = threadIdx.x % WARP;

	for (;;) {
		bool is_open = false;
		if (lane < SPANS) {
			uint32_t value;
			asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];\n"
				     : "=r"(value)
				     : "l"(counters + lane)
				     : "memory");
			is_open = (value & ((1u << SEEN_SHIFT) - 1)) !=
				  span_end(count, lane + 1) - span_end(count, lane);
		}
		uint32_t open = __ballot_sync(0xffffffffu, is_open);
		uint32_t end = span_end(
			count, open == 0 ? (uint32_t)SPANS : (uint32_t)__ffs((int)open) - 1);
		if (end > from) {
			__syncwarp();
			fence_device();
			return end;
		}
		__nanosleep(64);
	}
}

/* The running sums of a quarter. */
template <class P> struct quarter_fold {
	float out[quarter<P>::WIDTH], max, sum;
};

/* Merges splits [from, end) of a row in ascending order. outs, states: of its first split. */
template <class P>
static __device__ inline void merge_splits(const decode_arguments &a, quarter_fold<P> &fold,
	const float *outs, const float2 *states, uint32_t from, uint32_t end)
{
	constexpr int WIDTH = quarter<P>::WIDTH, LANES = quarter<P>::LANES;
	constexpr int BATCH = quarter<P>::BATCH;
	uint32_t lane = threadIdx.x % LANES;

	for (uint32_t s = from; s < end; s += BATCH) {
		float parts[BATCH][WIDTH];
		float2 state = make_float2(-CUDART_INF_F, 0);
		uint32_t count = min(end - s, (uint32_t)BATCH);
#pragma unroll
		for (uint32_t b = 0; b < BATCH; b++) {
			size_t at = (size_t)(s + min(b, count - 1)) * a.shape.head_count * P::d;
			load_floats<WIDTH>(parts[b], outs + at);
		}
		if (lane < count) {
			state = __ldcg(states + (size_t)(s + lane) * a.shape.head_count);
		}
		const batch_weights weights = weigh_batch<LANES>(state, count, fold.max);
#pragma unroll
		for (uint32_t b = 0; b < BATCH; b++) {
			const fold_weights w = {
				__shfl_sync(0xffffffffu, weights.weights.old, (int)b, LANES),
				__shfl_sync(0xffffffffu, weights.weights.part, (int)b, LANES)};
			float part_sum = __shfl_sync(0xffffffffu, weights.part_sum, (int)b, LANES);
			if (b < count) {
				fold_value(fold.sum, part_sum, w);
#pragma unroll
				for (int i = 0; i < WIDTH; i++) {
					fold_value(fold.out[i], parts[b][i], w);
				}
			}
		}
	}
}

/* Begins with the sums of a row's chain, which has been stored. */
template <class P>
static __device__ inline void take_chain(
	quarter_fold<P> &fold, const float *outs, const float2 *states)
{
	float2 state = __ldcg(states);

	load_floats<quarter<P>::WIDTH>(fold.out, outs);
	fold.max = state.x;
	fold.sum = state.y;
}

/* Merges all splits of a row as they are stored, and writes a quarter. */
template <class P>
static __device__ inline void merge_row(
	const decode_arguments &a, const quarter<P> &own, const merge_task &task)
{
	constexpr int WIDTH = quarter<P>::WIDTH;
	uint32_t group = a.shape.head_count / a.shape.kv_head_count, lane = threadIdx.x % WARP;
	uint32_t head = task.kv_head * group + min(own.head, group - 1);
	size_t first = (size_t)task.first_split * a.shape.head_count + head;
	uint32_t *counters = span_counters(a, task.row, task.kv_head);
	quarter_fold<P> fold = {{}, -CUDART_INF_F, 0};
	const float *outs = a.partial_out + first * P::d + own.dimension;

	if (task.chain > 0) {
		await_splits(counters, task.split_count, 0); /* a chain is counted as a whole */
		take_chain<P>(fold, outs, a.partial_state + first);
	}
	for (uint32_t s = task.chain; s < task.split_count;) {
		uint32_t end = await_splits(counters, task.split_count, s);
		merge_splits<P>(a, fold, outs, a.partial_state + first, s, end);
		s = end;
	}
	if (lane < SPANS) {
		uint32_t seen = atomicAdd(counters + lane, 1u << SEEN_SHIFT) >> SEEN_SHIFT;
		if (seen == QUARTERS - 1) {
			counters[lane] = 0;
		}
	}
	if (own.head < group) {
		size_t at = (size_t)task.row * a.shape.head_count + head;
		uint16_t *to = a.out + at * P::d + own.dimension;
		float scale = reciprocal(fold.sum);
		if (WIDTH == 1) {
			*to = (uint16_t)pack2(fold.out[0] * scale, 0);
		}
#pragma unroll
		for (int i = 0; i + 1 < WIDTH; i += 2) {
			*(uint32_t *)(to + i) = pack2(fold.out[i] * scale, fold.out[i + 1] * scale);
		}
	}
}

/* Merges quarters of rows in ascending order, in which the claims of a long launch are too.
   Neighbours belong to different blocks. owner: below OWNERS. */
template <class P> static __device__ void own_rows(const decode_arguments &a, uint32_t owner)
{
	uint32_t heads = a.shape.kv_head_count, base = a.split_start[a.first_row];
	uint32_t end = a.row_count * heads * QUARTERS;

	const struct decode_launch launch = *a.launch;

	dependency_wait(); /* the launch before may have the same counters */
	for (uint32_t t = owner * gridDim.x + blockIdx.x; t < end; t += OWNERS * gridDim.x) {
		uint32_t unit = t / QUARTERS, row = a.first_row + unit / heads;
		uint32_t first = a.split_start[row], count = a.split_start[row + 1] - first;
		uint32_t index = row - a.first_row;
		uint32_t chain = index < launch.chains ? a.claims[launch.first + index].count : 0;
		if (count > 1 && chain < count) {
			merge_row<P>(a, quarter_of<P>(t % QUARTERS),
				{row, unit % heads, first - base, count, chain});
		}
	}
}

/* Counts a stored split of each lane's row. */
static __device__ inline void count_split(
	const decode_arguments &a, bool has_split, const merge_task &task, uint32_t index)
{
	fence_device();
	if (has_split) {
		atomicAdd(
			span_counters(a, task.row, task.kv_head) + span_of(task.split_count, index),
			1);
	}
	__syncwarp();
}

/* Counts the stored chain of a row, a lane for each span. */
static __device__ inline void count_chain(
	const decode_arguments &a, const merge_task &task, uint32_t chain)
{
	uint32_t lane = threadIdx.x % WARP;

	fence_device();
	if (lane < SPANS) {
		uint32_t begin = min(span_end(task.split_count, lane), chain);
		uint32_t end = min(span_end(task.split_count, lane + 1), chain);
		if (begin < end) {
			atomicAdd(span_counters(a, task.row, task.kv_head) + lane, end - begin);
		}
	}
	__syncwarp();
}

/* The counter: of shared units, a lane for each split and reader; then of other units. */
template <class P>
static __device__ void count_splits(const decode_arguments &a, const pipe<P> &pipe)
{
	uint32_t lane = threadIdx.x % WARP;

	for (uint32_t round = 0;; round++) {
		uint32_t slot = round % SLOTS, index = 0;
		merge_task task = {};
		barrier_wait(pipe.slot_stored(slot), round / SLOTS & 1);
		const shared_unit &unit = *pipe.shared_unit(slot);
		bool is_end = unit.row_count == 0;
		bool has_split = lane < unit.row_count * unit.splits;
		if (!is_end && has_split) {
			uint32_t reader = lane % unit.row_count;
			task = {unit.row[reader], unit.kv_head, unit.first_split[reader],
				unit.split_count[reader]};
			index = unit.index + lane / unit.row_count;
		}
		__syncwarp();
		if (lane == 0) {
			barrier_arrive_times(pipe.slot_empty(slot), COLUMN_BLOCKS);
		}
		if (is_end) {
			break;
		}
		count_split(a, has_split, task, index);
	}
	for (uint32_t round = 0;; round++) {
		barrier_wait(pipe.merge_full(0), round & 1);
		const tile_info info = *pipe.merge(0);
		__syncwarp();
		if (lane == 0) {
			barrier_arrive(pipe.merge_empty(0));
		}
		if (info.count == 0) {
			return;
		}
		uint32_t index = info.split - info.first_split;
		merge_task task = {info.row, info.kv_head, info.first_split, info.split_count};
		if (info.kind == UNIT_CHAIN_END) {
			count_chain(a, task, index + 1);
		} else {
			count_split(a, lane == 0, task, index);
		}
	}
}

#endif

#endif
