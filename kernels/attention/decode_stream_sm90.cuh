#ifndef KERNELS_ATTENTION_DECODE_STREAM_SM90_CUH
#define KERNELS_ATTENTION_DECODE_STREAM_SM90_CUH

#include "kernels/attention/decode_merge_sm90.cuh"

/* Producer and consumers of decode_sm90.cu and decode_shared_sm90.cu. */

#ifdef QUIRE_SM90A

/* ---- producer ---- */

template <class P>
static __device__ inline void copy_query(
	const decode_arguments &a, const pipe<P> &pipe, uint32_t stage, const tile_info *info)
{
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;
	size_t head = (size_t)info->row * a.shape.head_count + info->kv_head * group;

	copy_bytes(pipe.stage(stage) + 2 * P::tile_bytes, a.query + head * P::d, group * P::row,
		pipe.full(stage));
}

/* Starts the copies of `count` keys and values of a tile, whose steps lie at offset[0], ... */
template <class P>
static __device__ inline void copy_tokens(const decode_arguments &a, uint32_t stage,
	uint32_t barrier, const uint64_t *offset, uint32_t count, uint64_t policy)
{
	uint64_t from[P::lane_steps]; /* loaded side by side, since no load moves past a copy */

#pragma unroll
	for (uint32_t i = 0; i < P::lane_steps; i++) {
		from[i] = offset[i];
	}
	if (P::lane_steps > 1 && count == TILE) {
#pragma unroll
		for (uint32_t i = 0; i < P::lane_steps; i++) {
			uint32_t bytes = P::step * P::row, to = stage + i * bytes;
			copy_bytes(to, a.keys + from[i], bytes, barrier, policy);
			copy_bytes(to + P::tile_bytes, a.values + from[i], bytes, barrier, policy);
		}
		return;
	}
#pragma unroll
	for (uint32_t i = 0; i < P::lane_steps; i++) {
		uint32_t first = i * P::step, to = stage + first * P::row;
		if (first < count) {
			uint32_t bytes = min(count - first, (uint32_t)P::step) * P::row;
			copy_bytes(to, a.keys + from[i], bytes, barrier, policy);
			copy_bytes(to + P::tile_bytes, a.values + from[i], bytes, barrier, policy);
		}
	}
}

/* Starts the copies of the tiles of a shared unit: the first tile of each split, then the second,
   and so on, since each split has warps of its own. */
template <class P>
static __device__ inline void copy_shared(const decode_arguments &a, const pipe<P> &pipe,
	stage_cursor<P> &to, const unit<P::step> &u, uint64_t policy)
{
	for (uint32_t i = 0; i < SPLIT_TILES * u.shared_splits; i++) {
		uint32_t tile = i / u.shared_splits, split = i - tile * u.shared_splits;
		uint32_t stage = pipe.stage(to.stage), barrier = pipe.full(to.stage);
		barrier_wait(pipe.empty(to.stage), to.parity);
		barrier_arrive_expecting(barrier, 2 * P::tile_bytes);
		copy_tokens<P>(a, stage, barrier,
			u.offset + (split * SPLIT_TILES + tile) * P::lane_steps, TILE, policy);
		to.advance(1);
	}
}

/* Starts the copies of a tile's keys and values and writes its info. */
template <class P>
static __device__ inline void copy_tile(const decode_arguments &a, const pipe<P> &pipe,
	uint32_t stage, uint32_t n, const unit<P::step> &u, uint32_t first, uint64_t policy)
{
	uint32_t count = min(u.count - first, (uint32_t)TILE);
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;
	uint32_t to = pipe.stage(stage), barrier = pipe.full(stage);
	tile_info *info = pipe.info(n);

	info->count = count;
	info->is_last = first + count == u.count;
	info->row = u.row;
	info->kv_head = u.kv_head;
	info->split = u.split;
	info->first_split = u.first_split;
	info->split_count = u.split_count;
	info->kind = u.kind;
	barrier_arrive_expecting(barrier, 2 * count * P::row + group * P::row);
	copy_tokens<P>(a, to, barrier, u.offset + first / P::step, count, policy);
}

template <class P> static __device__ void produce(const decode_arguments &a, const pipe<P> &pipe)
{
	const unit<P::step> &u = *pipe.scheduled();
	uint64_t policy = evict_first_policy();
	stage_cursor<P> to = {0, 1};
	uint32_t n = 0;
	uint32_t first_own = 0; /* tile */
	bool is_waiting = true; /* the dependency wait is still to come */
	auto wait = [&]() {
		dependency_wait();
		for (uint32_t i = first_own; i < n; i++) {
			copy_query<P>(a, pipe, i, pipe.info(i));
		}
		is_waiting = false;
	};

	for (uint32_t i = 0;; i++) {
		barrier_wait(pipe.unit_full(), i & 1);
		if (u.count == 0) {
			break;
		}
		if (P::has_shared && u.shared_splits > 0) {
			first_own = n += SPLIT_TILES * u.shared_splits;
			copy_shared<P>(a, pipe, to, u, policy);
			barrier_arrive(pipe.unit_empty());
			continue;
		}
		if (first_own > 0 && is_waiting) {
			wait(); /* no tile waits for its queries */
		}
		for (uint32_t first = 0; first < u.count; first += TILE, n++) {
			bool is_last = first + TILE >= u.count && u.has_last_token;
			if (is_waiting && (is_last || n == STAGES)) {
				wait();
			}
			barrier_wait(pipe.empty(to.stage), to.parity);
			copy_tile<P>(a, pipe, to.stage, n, u, first, policy);
			if (!is_waiting) {
				copy_query<P>(a, pipe, to.stage, pipe.info(n));
			}
			to.advance(1);
		}
		barrier_arrive(pipe.unit_empty());
		if (is_waiting && i + 1 == EARLY_UNITS) {
			wait();
		}
	}
	if (is_waiting) {
		wait();
	}
	for (uint32_t i = 0; i < WARPS; i++, n++) {
		barrier_wait(pipe.empty(to.stage), to.parity);
		pipe.info(n)->count = 0;
		barrier_arrive(pipe.full(to.stage));
		to.advance(1);
	}
}

/* ---- consumers ---- */

/* Loads the lane's elements of dimensions 16 * k to 16 * k + 15 as operand b of multiply_add().
   query: shared address of the elements of dimension 0. Columns past the query heads are zero. */
static __device__ inline void load_query_columns(uint32_t *b, uint32_t query, int k, bool is_column)
{
	b[0] = b[1] = 0;
	if (is_column) {
		asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(b[0]) : "r"(query + k * 32));
		asm volatile("ld.shared.b32 %0, [%1];\n" : "=r"(b[1]) : "r"(query + k * 32 + 16));
	}
}

template <class P, bool IS_FULL>
static __device__ inline void compute_tile(
	tile_result<P> &result, uint32_t stage, uint32_t count, uint32_t group, float scale)
{
	float score[TILE / 16][4];
	uint32_t weight[TILE / 16][2];
	uint32_t lane = threadIdx.x % WARP;
	uint32_t query = stage + 2 * P::tile_bytes + (lane / 4) * P::row + (lane % 4) * 4;
	bool is_head = lane / 4 < group;
	auto load_query = [&](int k, uint32_t *b) { load_query_columns(b, query, k, is_head); };

	score_tile<P>(score, stage, load_query);
	softmax_tile<P, IS_FULL>(result, weight, score, count, scale);
	weigh_values<P, IS_FULL>(result, weight, stage, count);
	add_weights<P>(result);
}

template <class P>
static __device__ inline void store_result(const tile_result<P> &result, float *out, float2 *state)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t head = 2 * (lane % 4);

	if (head >= P::heads) {
		return;
	}
	out += head * P::result_row + lane / 4;
#pragma unroll
	for (int i = 0; i < P::d / 16; i++) {
		out[i * 16] = result.out[i][0];
		out[i * 16 + 8] = result.out[i][2];
		out[P::result_row + i * 16] = result.out[i][1];
		out[P::result_row + i * 16 + 8] = result.out[i][3];
	}
	if (lane < 4) {
		state[head] = make_float2(result.max[0], result.sum[0]);
		state[head + 1] = make_float2(result.max[1], result.sum[1]);
	}
}

/* first: the first tile that is the block's own. */
template <class P>
static __device__ void consume(
	const decode_arguments &a, const pipe<P> &pipe, uint32_t warp, uint32_t first)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;
	stage_cursor<P> from = {(first + warp) % STAGES, (first + warp) / STAGES & 1};

	for (uint32_t n = first + warp, round = 0;; n += WARPS, round++) {
		tile_result<P> result;
		barrier_wait(pipe.full(from.stage), from.parity);
		uint32_t count = pipe.info(n)->count;
		if (count == TILE) {
			compute_tile<P, true>(
				result, pipe.stage(from.stage), count, group, a.scale);
		} else if (count > 0) {
			compute_tile<P, false>(
				result, pipe.stage(from.stage), count, group, a.scale);
		}
		__syncwarp();
		if (lane == 0) {
			barrier_arrive_times(
				pipe.empty(from.stage), P::has_shared ? COLUMN_BLOCKS : 1);
		}
		barrier_wait(pipe.result_empty(warp), (round & 1) ^ 1);
		if (count > 0) {
			store_result<P>(result, pipe.result(warp), pipe.state(warp));
		}
		__syncwarp();
		if (lane == 0) {
			barrier_arrive(pipe.result_full(warp));
		}
		if (count == 0) {
			return;
		}
		from.advance(WARPS);
	}
}

#endif

/* ---- launchers ---- */

template <bool HAS_SHARED, int D, int STEP, class LAUNCH>
static int launch_heads(const decode_arguments &a, const LAUNCH &launch)
{
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;

	if (group <= 2) {
		return launch(plan<D, 2, HAS_SHARED, STEP>());
	}
	if (group <= 4) {
		return launch(plan<D, 4, HAS_SHARED, STEP>());
	}
	return launch(plan<D, 8, HAS_SHARED, STEP>());
}

template <bool HAS_SHARED, int D, class LAUNCH>
static int launch_step(const decode_arguments &a, const LAUNCH &launch)
{
	return decode_has_whole_tiles(a) ? launch_heads<HAS_SHARED, D, TILE>(a, launch)
					 : launch_heads<HAS_SHARED, D, PAGED_KV_STEP>(a, launch);
}

/* Calls launch(plan) for the shape; returns its cudaError_t. */
template <bool HAS_SHARED, class LAUNCH>
static int launch_plan(const decode_arguments &a, const LAUNCH &launch)
{
	return a.shape.head_dim == 64 ? launch_step<HAS_SHARED, 64>(a, launch)
				      : launch_step<HAS_SHARED, 128>(a, launch);
}

#endif
