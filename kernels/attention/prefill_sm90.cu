#include "kernels/device/dynamic_shared.cuh"
#include "kernels/device/math.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/device/sm90.h"
#include "kernels/device/tma.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/attention/prefill.cuh"

#include <math_constants.h>

/* Flash attention on Hopper, head_dim D of 64 or 128. out (tokens, heads, D) = softmax(query * K^T
   * scale, causal) * V, bf16 with float32 sums.

   Blocks are persistent, one a multiprocessor; each computes one tile of 128 queries of one head
   after another. Warps are specialised:

       consumers        two warpgroups of 64 queries each; scores against tiles of 128 keys by
                        wgmma, online softmax in registers, weighted sum of values by wgmma
       key producer     one lane; copies keys and values by TMA, up to two tiles ahead. Of small
                        KV blocks eight lanes, and those of one more warp copy the values
       query producer   one warp; copies the queries of the next item by cp.async

   Shared memory holds, in bf16,

       queries   [2 items]  [group] [column half] [64 queries]  [64 elements]
       keys      [2 stages]         [column half] [128 tokens]  [64 elements]
       values    [2 stages]         [column half] [128 tokens]  [64 elements]

   but of small KV blocks, so that one copy brings the 16 tokens of a lookup,

       keys      [2 stages]  [16 eights]  [column half]  [8 tokens]  [64 elements]
       values    [2 stages]  [16 eights]  [column half]  [8 tokens]  [64 elements]

   Rows of 64 elements are in the 128-byte swizzle of wgmma; keys and values have it in the pool
   already.

   Why it is fast: a warpgroup issues the wgmmas of a tile's scores together with those of the
   previous tile's values. The two warpgroups ping-pong, so the tensor cores work for one group
   while the other computes its softmax.

   The bits of a query depend on its row and position only. A tile of keys that lies entirely
   past the query changes no bit: the maximum stays, and sums are scaled by 1 and 0 is added. So
   it does not matter which queries share a tile. */

enum { WARPS_IN_GROUP = 4, GROUP = WARPS_IN_GROUP * WARP };
enum { GROUPS = 2, GROUP_QUERIES = 64 };
enum { KEYS = 128, DEPTH = 2 }; /* tokens in a tile of keys; stages of a ring */
/* The TMA copies boxes of WHOLE_BOX tokens where block sizes are multiples of it, else of
   PAGED_KV_STEP: the template parameter BOX. */
enum { COLUMNS = 64, WHOLE_BOX = 64, BOXES = KEYS / WHOLE_BOX, STEPS = KEYS / PAGED_KV_STEP };
/* Warps of the third group. */
enum { KEY_PRODUCER = GROUPS * WARPS_IN_GROUP, QUERY_PRODUCER, VALUE_PRODUCER };
enum { ALL_WARPS = (GROUPS + 1) * WARPS_IN_GROUP };
enum { BARRIERS = 2 * DEPTH * 3 };
enum { ROW_BYTES = COLUMNS * 2, SWIZZLE_ALIGNMENT = 1024 };

static_assert(GROUPS * GROUP_QUERIES == PREFILL_QUERY_TILE, "the groups hold a tile of queries");

/* A work item: a tile of queries, or half of one, of one head. */
struct prefill_item {
	uint32_t row, head;
	uint32_t first_token;
	uint32_t valid;	   /* queries of the tile that exist */
	uint32_t position; /* of the first query */
	uint32_t end;	   /* keys to which the last query attends */
};

template <int D> struct prefill_memory {
	static const uint32_t query_bytes = GROUP_QUERIES * D * 2; /* of a group */
	static const uint32_t tile_bytes = KEYS * D * 2;
	static const uint32_t bytes = 2 * GROUPS * query_bytes + 2 * DEPTH * tile_bytes;

	uint32_t queries, keys, values;
	uint32_t full_queries, empty_queries, full_keys, empty_keys, full_values, empty_values;
};

/* Strides of a tile of keys or values in shared memory, in bytes: from a column half to the other,
   and from 8 tokens to the next 8. */
template <int D, int BOX> struct tile_layout {
	static const bool is_stepwise = BOX != WHOLE_BOX;
	static const uint32_t half = is_stepwise ? 8 * ROW_BYTES : KEYS * ROW_BYTES;
	static const uint32_t rows_8 = is_stepwise ? 8 * 2 * D : 8 * ROW_BYTES;
};

#ifdef QUIRE_SM90A

/* The block's item in a round; false after the last. A round gives one item to each block. It
   starts at the end of the list, where the longest tiles are, and every other round runs
   backwards, so that all blocks get about the same work. */
static __device__ inline bool item_of_round(
	const prefill_arguments &a, uint32_t round, struct prefill_item *out)
{
	uint32_t position_in_round = round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
	uint32_t index = round * gridDim.x + position_in_round;
	uint32_t pieces = a.piece_count * a.shape.head_count;

	if (index >= a.tile_count * pieces) {
		return false;
	}
	struct prefill_tile tile = a.tiles[a.tile_count - 1 - index / pieces];
	uint32_t start = a.query_start[tile.row];
	uint32_t tokens = a.query_start[tile.row + 1] - start;
	uint32_t queries = PREFILL_QUERY_TILE / a.piece_count;
	uint32_t piece = index % pieces / a.shape.head_count;
	uint32_t first = tile.index * PREFILL_QUERY_TILE + piece * queries;
	out->row = tile.row;
	out->head = index % a.shape.head_count;
	out->first_token = start + first;
	out->valid = first < tokens ? min(tokens - first, queries) : 0;
	out->position = a.contexts[tile.row] - tokens + first;
	out->end = out->valid > 0 ? out->position + out->valid : 1;
	return true;
}

/* The row of the pool that holds a position of the item's sequence. */
static __device__ inline uint32_t pool_row(
	const prefill_arguments &a, const struct prefill_item &item, uint32_t position)
{
	const uint32_t *table = a.tables + (size_t)a.rows[item.row] * a.shape.table_width;
	uint32_t kv_head = item.head / (a.shape.head_count / a.shape.kv_head_count);
	uint32_t block = __ldg(table + position / a.shape.block_size);

	return (block * a.shape.kv_head_count + kv_head) * a.shape.block_size +
	       position % a.shape.block_size;
}

/* The rows of the pool where the boxes of a tile begin. Keys and values of a box past the item's
   end are masked, but must be finite: they are those of the tile's first box. */
static __device__ inline void find_boxes(uint32_t (&rows)[BOXES], const prefill_arguments &a,
	const struct prefill_item &item, uint32_t position)
{
	rows[0] = pool_row(a, item, position);
#pragma unroll
	for (uint32_t i = 1; i < BOXES; i++) {
		uint32_t at = position + i * WHOLE_BOX;
		rows[i] = at < item.end ? pool_row(a, item, at) : rows[0];
	}
}

template <int D>
static __device__ inline void copy_tile(
	uint32_t shared, const CUtensorMap *map, const uint32_t (&rows)[BOXES], uint32_t full)
{
	barrier_arrive_expecting(full, prefill_memory<D>::tile_bytes);
#pragma unroll
	for (int half = 0; half < D / COLUMNS; half++) {
#pragma unroll
		for (uint32_t i = 0; i < BOXES; i++) {
			copy_box(shared + (half * KEYS + i * WHOLE_BOX) * ROW_BYTES, map,
				half * COLUMNS, rows[i], full);
		}
	}
}

static __device__ inline void take_rows(uint32_t (&to)[BOXES], const uint32_t (&from)[BOXES])
{
#pragma unroll
	for (int i = 0; i < BOXES; i++) {
		to[i] = from[i];
	}
}

/* The key producer: copies the keys and values of all items. The values of a tile follow the keys
   of the next, in the order in which the consumers need them. */
template <int D>
static __device__ inline void copy_keys_values(const prefill_arguments &a, const CUtensorMap *keys,
	const CUtensorMap *values, const prefill_memory<D> &at)
{
	struct prefill_item item, next;
	uint32_t key_serial = 0, value_serial = 0;
	bool has_item = item_of_round(a, 0, &item);

	for (uint32_t round = 1; has_item; round++) {
		uint32_t count = (item.end + KEYS - 1) / KEYS;
		uint32_t rows[BOXES], previous[BOXES] = {}, ahead[BOXES];
		find_boxes(ahead, a, item, 0);
		for (uint32_t t = 0; t <= count; t++) {
			take_rows(rows, ahead);
			uint32_t position = (t + 1) * KEYS;
			if (position < item.end) {
				find_boxes(ahead, a, item, position);
			}
			if (t < count) {
				uint32_t slot = key_serial % DEPTH;
				barrier_wait(
					at.empty_keys + slot * 8, (key_serial / DEPTH + 1) % 2);
				copy_tile<D>(at.keys + slot * at.tile_bytes, keys, rows,
					at.full_keys + slot * 8);
				key_serial++;
			}
			if (t > 0) {
				uint32_t slot = value_serial % DEPTH;
				barrier_wait(
					at.empty_values + slot * 8, (value_serial / DEPTH + 1) % 2);
				copy_tile<D>(at.values + slot * at.tile_bytes, values, previous,
					at.full_values + slot * 8);
				value_serial++;
			} else {
				has_item = item_of_round(a, round, &next);
			}
			take_rows(previous, rows);
		}
		item = next;
	}
}

/* Where the keys and values of an item are. */
struct item_source {
	const uint32_t *table;
	uint32_t kv_head;
	uint32_t end; /* of the item */
};

/* Of the block's item in a round; false after the last. */
static __device__ inline bool source_of_round(
	const prefill_arguments &a, uint32_t round, struct item_source *out)
{
	struct prefill_item item;

	if (!item_of_round(a, round, &item)) {
		return false;
	}
	out->table = a.tables + (size_t)a.rows[item.row] * a.shape.table_width;
	out->kv_head = item.head / (a.shape.head_count / a.shape.kv_head_count);
	out->end = item.end;
	return true;
}

/* The key or value producer of small KV blocks: copies the tiles of all items into its ring of
   stages. Each lane looks up and copies PAGED_KV_STEP tokens of a tile. Those past the item's end
   are masked, but must be finite: they are the tile's first.

   Lookups are chains of loads. So that no copy waits for one, a tile is looked up while its stage
   is still full, and the next item after the first tile of this one. */
template <int D>
static __device__ inline void copy_steps(const prefill_arguments &a, const CUtensorMap *map,
	uint32_t tiles, uint32_t full, uint32_t empty)
{
	const uint32_t tile_bytes = prefill_memory<D>::tile_bytes, size = a.shape.block_size;
	uint32_t step = threadIdx.x % WARP * PAGED_KV_STEP, serial = 0;
	struct item_source source, next;
	bool has_next = source_of_round(a, 0, &next);

	for (uint32_t round = 1; has_next; round++) {
		source = next;
		for (uint32_t first = 0; first < source.end; first += KEYS, serial++) {
			uint32_t slot = serial % DEPTH, to = tiles + slot * tile_bytes;
			uint32_t at = first + step < source.end ? first + step : first;
			uint32_t block = __ldg(source.table + at / size);
			uint32_t row =
				(block * a.shape.kv_head_count + source.kv_head) * size + at % size;
			barrier_wait(empty + slot * 8, (serial / DEPTH + 1) % 2);
			if (step == 0) {
				barrier_arrive_expecting(full + slot * 8, tile_bytes);
			}
			copy_box4(to + step * D * 2, map, row / 8, full + slot * 8);
			if (first == 0) {
				has_next = source_of_round(a, round, &next);
			}
		}
	}
}

/* The query producer, one warp: copies the queries of all items, and publishes each item to the
   consumers. */
template <int D>
static __device__ inline void copy_queries(
	const prefill_arguments &a, struct prefill_item *items, const prefill_memory<D> &at)
{
	const uint32_t chunks = D / 8, rows = WARP / chunks, turns = 8 / rows;
	struct prefill_item item;
	uint32_t lane = threadIdx.x % WARP, chunk = lane % chunks;
	size_t stride = (size_t)a.shape.head_count * D;

	for (uint32_t round = 0; item_of_round(a, round, &item); round++) {
		uint32_t slot = round % 2, query = lane / chunks;
		const uint16_t *first = a.query + item.first_token * stride + item.head * D;
		const uint16_t *from = first + query * stride + chunk * 8;
		uint32_t to = at.queries + slot * GROUPS * at.query_bytes +
			      chunk / 8 * GROUP_QUERIES * ROW_BYTES;
		barrier_wait(at.empty_queries + slot * 8, (round / 2 + 1) % 2);
		if (lane == 0) {
			items[slot] = item;
		}
		for (uint32_t eight = 0; eight < GROUPS * GROUP_QUERIES / 8; eight++) {
#pragma unroll
			for (uint32_t i = 0; i < turns; i++) {
				uint32_t row = lane / chunks + i * rows; /* of the eight */
				bool is_valid = query < item.valid;
				copy16(to + row * ROW_BYTES + (chunk % 8 ^ row) * 16,
					is_valid ? from : first, is_valid);
				query += rows;
				from += rows * stride;
			}
			to += 8 * ROW_BYTES;
			if (eight == GROUP_QUERIES / 8 - 1) {
				to += at.query_bytes - GROUP_QUERIES * ROW_BYTES;
			}
		}
		copy_commit();
		copy_wait<0>();
		fence_shared_writes();
		__syncwarp();
		if (lane == 0) {
			barrier_arrive(at.full_queries + slot * 8);
		}
	}
}

/* The third warpgroup: the producers. */
template <int D, int BOX>
static __device__ inline void produce(const prefill_arguments &a, const CUtensorMap *keys,
	const CUtensorMap *values, struct prefill_item *items, const prefill_memory<D> &at,
	uint32_t warp)
{
	uint32_t lane = threadIdx.x % WARP;
	bool is_keys = warp == KEY_PRODUCER;

	if (BOX == WHOLE_BOX && is_keys && lane == 0) {
		fence_global_writes();
		copy_keys_values<D>(a, keys, values, at);
	} else if (BOX != WHOLE_BOX && (is_keys || warp == VALUE_PRODUCER) && lane < STEPS) {
		fence_global_writes();
		copy_steps<D>(a, is_keys ? keys : values, is_keys ? at.keys : at.values,
			is_keys ? at.full_keys : at.full_values,
			is_keys ? at.empty_keys : at.empty_values);
	} else if (warp == QUERY_PRODUCER) {
		copy_queries<D>(a, items, at);
	}
}

/* The online softmax of a warpgroup's 64 queries. Lane l of warp w holds rows w * 16 + l / 4
   (index 0 of pairs) and w * 16 + l / 4 + 8 (index 1), at columns 8 * n + 2 * (l % 4) and the
   next. */
template <int D> struct group_state {
	float out[D / 2];
	float max[2], sum[2], rescale[2];
};

template <int D, int BOX>
static __device__ inline void multiply_keys(float (&score)[KEYS / 2], uint64_t query, uint64_t keys)
{
#pragma unroll
	for (int k = 0; k < D / 16; k++) {
		uint64_t within = k % 4 * 2;
		wgmma<KEYS>::issue(score, query + k / 4 * (GROUP_QUERIES * ROW_BYTES / 16) + within,
			keys + k / 4 * (tile_layout<D, BOX>::half / 16) + within, k > 0);
	}
}

template <int D, int BOX>
static __device__ inline void multiply_values(
	float (&out)[D / 2], const uint32_t (&p)[KEYS / 16][4], uint64_t values, int adds)
{
#pragma unroll
	for (int k = 0; k < KEYS / 16; k++) {
		wgmma_transposed(out, p[k], values + k * (tile_layout<D, BOX>::rows_8 / 8),
			k > 0 ? 1 : adds);
	}
}

/* Turns scores into weights and updates maximum and sum. rescale: the factor for earlier sums.
   first_masked: the first column that is causally masked for the lane's upper row. */
template <int D, bool IS_MASKED>
static __device__ inline void online_softmax(
	group_state<D> &state, float (&score)[KEYS / 2], float scale, int first_masked)
{
	if (IS_MASKED) {
#pragma unroll
		for (int i = 0; i < KEYS / 2; i++) {
			int column = i / 4 * 8 + i % 2;
			if (column >= first_masked + i % 4 / 2 * 8) {
				score[i] = -CUDART_INF_F;
			}
		}
	}
#pragma unroll
	for (int half = 0; half < 2; half++) {
		float pair_max[2] = {score[2 * half], score[2 * half + 1]};
#pragma unroll
		for (int i = 4; i < KEYS / 2; i += 4) {
			pair_max[0] = fmaxf(pair_max[0], score[i + 2 * half]);
			pair_max[1] = fmaxf(pair_max[1], score[i + 2 * half + 1]);
		}
		float row_max = fmaxf(pair_max[0], pair_max[1]);
		row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 1));
		row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 2));
		row_max = fmaxf(row_max, state.max[half]);
		state.rescale[half] = power_of_two((state.max[half] - row_max) * scale);
		state.max[half] = row_max;
	}
#pragma unroll
	for (int half = 0; half < 2; half++) {
		float base = state.max[half] * scale, sum[2] = {};
#pragma unroll
		for (int i = 0; i < KEYS / 2; i += 4) {
#pragma unroll
			for (int j = 0; j < 2; j++) {
				float p = power_of_two(
					__fmaf_rn(score[i + 2 * half + j], scale, -base));
				score[i + 2 * half + j] = p;
				sum[j] += p;
			}
		}
		state.sum[half] = __fmaf_rn(state.sum[half], state.rescale[half], sum[0] + sum[1]);
	}
}

template <int D> static __device__ inline void rescale_out(group_state<D> &state)
{
#pragma unroll
	for (int i = 0; i < D / 2; i++) {
		state.out[i] *= state.rescale[i % 4 / 2];
	}
}

static __device__ inline void pack_weights(
	uint32_t (&p)[KEYS / 16][4], const float (&score)[KEYS / 2])
{
#pragma unroll
	for (int i = 0; i < KEYS / 4; i++) {
		p[i / 4][i % 4] = pack2(score[2 * i], score[2 * i + 1]);
	}
}

/* The position of a warpgroup in its item. */
template <int D> struct group_cursor {
	prefill_memory<D> at;
	uint32_t group;
	uint32_t serial; /* index of the tile of keys, counted over all items */
	uint64_t query;	 /* descriptor */
	float scale;
	int first_masked; /* first_masked for the tile of keys at position 0 */
};

/* Ping-pong: the warpgroups issue their wgmmas alternately, so that one group's run while the
   other computes its softmax. */
static __device__ inline void ping_pong_wait(uint32_t group)
{
	named_barrier_wait(1 + group, GROUPS * GROUP);
}

static __device__ inline void ping_pong_signal(uint32_t group)
{
	named_barrier_arrive(1 + (group ^ 1), GROUPS * GROUP);
}

static __device__ inline void arrive_for_warp(uint32_t barrier)
{
	if (threadIdx.x % WARP == 0) {
		barrier_arrive(barrier);
	}
}

/* Scores and softmax of key tile t, and the weighted sum of the values of tile t - 1. */
template <int D, int BOX, bool IS_MASKED>
static __device__ inline void attend_tile(group_cursor<D> &cursor, group_state<D> &state,
	float (&score)[KEYS / 2], uint32_t (&p)[KEYS / 16][4], uint32_t t)
{
	const prefill_memory<D> &at = cursor.at;
	uint32_t slot = cursor.serial % DEPTH, previous = (cursor.serial - 1) % DEPTH;
	uint64_t keys =
		tile_descriptor(at.keys + slot * at.tile_bytes, tile_layout<D, BOX>::rows_8);
	uint64_t values = transposed_descriptor(at.values + previous * at.tile_bytes,
		tile_layout<D, BOX>::half, tile_layout<D, BOX>::rows_8);

	barrier_wait(at.full_keys + slot * 8, cursor.serial / DEPTH % 2);
	ping_pong_wait(cursor.group);
	hold(score);
	hold(state.out);
	wgmma_fence();
	multiply_keys<D, BOX>(score, cursor.query, keys);
	wgmma_commit();
	barrier_wait(at.full_values + previous * 8, (cursor.serial - 1) / DEPTH % 2);
	wgmma_fence();
	multiply_values<D, BOX>(state.out, p, values, t > 1);
	wgmma_commit();
	ping_pong_signal(cursor.group);
	wgmma_wait<1>();
	hold(score);
	arrive_for_warp(at.empty_keys + slot * 8);
	online_softmax<D, IS_MASKED>(
		state, score, cursor.scale, cursor.first_masked - (int)(t * KEYS));
	wgmma_wait<0>();
	hold(state.out);
	arrive_for_warp(at.empty_values + previous * 8);
	rescale_out<D>(state);
	pack_weights(p, score);
	cursor.serial++;
}

/* Scores and softmax of key tile 0. */
template <int D, int BOX>
static __device__ inline void attend_first_tile(group_cursor<D> &cursor, group_state<D> &state,
	float (&score)[KEYS / 2], uint32_t (&p)[KEYS / 16][4])
{
	const prefill_memory<D> &at = cursor.at;
	uint32_t slot = cursor.serial % DEPTH;
	uint64_t keys =
		tile_descriptor(at.keys + slot * at.tile_bytes, tile_layout<D, BOX>::rows_8);

	state.max[0] = state.max[1] = -CUDART_INF_F;
	state.sum[0] = state.sum[1] = 0;
	barrier_wait(at.full_keys + slot * 8, cursor.serial / DEPTH % 2);
	ping_pong_wait(cursor.group);
	hold(score);
	wgmma_fence();
	multiply_keys<D, BOX>(score, cursor.query, keys);
	wgmma_commit();
	ping_pong_signal(cursor.group);
	wgmma_wait<0>();
	hold(score);
	arrive_for_warp(at.empty_keys + slot * 8);
	online_softmax<D, true>(state, score, cursor.scale, cursor.first_masked);
	pack_weights(p, score);
	cursor.serial++;
}

/* Transposes the 4 x 4 words of four lanes: word w of lane l becomes word l of lane w. Then each
   lane stores 16 contiguous bytes. */
static __device__ inline void transpose_words(uint32_t (&word)[4])
{
	uint32_t lane = threadIdx.x % 4;

#pragma unroll
	for (int distance = 1; distance < 4; distance *= 2) {
		bool is_upper = lane & distance;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if (i & distance) {
				continue;
			}
			uint32_t sent = is_upper ? word[i] : word[i + distance];
			uint32_t got = __shfl_xor_sync(0xffffffffu, sent, distance);
			word[i] = is_upper ? got : word[i];
			word[i + distance] = is_upper ? word[i + distance] : got;
		}
	}
}

template <int D>
static __device__ inline void store_group(const prefill_arguments &a, group_state<D> &state,
	const struct prefill_item &item, uint32_t group)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t first =
		group * GROUP_QUERIES + threadIdx.x / WARP % WARPS_IN_GROUP * 16 + lane / 4;

#pragma unroll
	for (int half = 0; half < 2; half++) {
		float sum = state.sum[half];
		sum += __shfl_xor_sync(0xffffffffu, sum, 1);
		sum += __shfl_xor_sync(0xffffffffu, sum, 2);
		float share = 1 / sum;
		uint32_t query = first + half * 8;
		uint16_t *out =
			a.out +
			((size_t)(item.first_token + query) * a.shape.head_count + item.head) * D;
#pragma unroll
		for (int n = 0; n < D / 8; n += 4) {
			uint32_t word[4];
#pragma unroll
			for (int i = 0; i < 4; i++) {
				word[i] = pack2(state.out[(n + i) * 4 + 2 * half] * share,
					state.out[(n + i) * 4 + 2 * half + 1] * share);
			}
			transpose_words(word);
			if (query < item.valid) {
				*(uint4 *)(out + (n + lane % 4) * 8) =
					make_uint4(word[0], word[1], word[2], word[3]);
			}
		}
	}
}

/* An item without queries for this warpgroup: it only releases the stages. */
template <int D> static __device__ inline void skip_item(group_cursor<D> &cursor, uint32_t count)
{
	const prefill_memory<D> &at = cursor.at;

	for (uint32_t t = 0; t < count; t++, cursor.serial++) {
		uint32_t slot = cursor.serial % DEPTH, parity = cursor.serial / DEPTH % 2;
		ping_pong_wait(cursor.group);
		ping_pong_signal(cursor.group);
		barrier_wait(at.full_keys + slot * 8, parity);
		arrive_for_warp(at.empty_keys + slot * 8);
		barrier_wait(at.full_values + slot * 8, parity);
		arrive_for_warp(at.empty_values + slot * 8);
	}
}

/* A consumer warpgroup: computes all items of the block. */
template <int D, int BOX>
static __device__ inline void attend_items(const prefill_arguments &a,
	const struct prefill_item *items, const prefill_memory<D> &at, uint32_t group,
	uint32_t rounds)
{
	group_cursor<D> cursor;
	group_state<D> state;
	float score[KEYS / 2];
	uint32_t p[KEYS / 16][4];
	uint32_t lane = threadIdx.x % WARP;
	uint32_t lane_query =
		group * GROUP_QUERIES + threadIdx.x / WARP % WARPS_IN_GROUP * 16 + lane / 4;

	cursor.at = at;
	cursor.group = group;
	cursor.serial = 0;
	cursor.scale = a.scale;
	if (group == 1) {
		ping_pong_signal(group);
	}
	for (uint32_t round = 0; round < rounds; round++) {
		uint32_t slot = round % 2;
		barrier_wait(at.full_queries + slot * 8, round / 2 % 2);
		struct prefill_item item = items[slot];
		cursor.query =
			tile_descriptor(at.queries + (slot * GROUPS + group) * at.query_bytes);
		cursor.first_masked = (int)(item.position + lane_query + 1 - 2 * (lane % 4));
		uint32_t count = (item.end + KEYS - 1) / KEYS;
		if (group * GROUP_QUERIES >= item.valid) {
			skip_item<D>(cursor, count);
			arrive_for_warp(at.empty_queries + slot * 8);
			continue;
		}
		uint32_t whole = (item.position + group * GROUP_QUERIES + 1) /
				 KEYS; /* key tiles without a mask */
		uint32_t t = 1;
		attend_first_tile<D, BOX>(cursor, state, score, p);
#pragma unroll 1
		for (; t < whole; t++) {
			attend_tile<D, BOX, false>(cursor, state, score, p, t);
		}
#pragma unroll 1
		for (; t < count; t++) {
			attend_tile<D, BOX, true>(cursor, state, score, p, t);
		}
		arrive_for_warp(at.empty_queries + slot * 8);
		uint32_t previous = (cursor.serial - 1) % DEPTH;
		uint64_t values = transposed_descriptor(at.values + previous * at.tile_bytes,
			tile_layout<D, BOX>::half, tile_layout<D, BOX>::rows_8);
		barrier_wait(at.full_values + previous * 8, (cursor.serial - 1) / DEPTH % 2);
		hold(state.out);
		wgmma_fence();
		multiply_values<D, BOX>(state.out, p, values, count > 1);
		wgmma_commit();
		wgmma_wait<0>();
		hold(state.out);
		arrive_for_warp(at.empty_values + previous * 8);
		store_group<D>(a, state, item, group);
	}
	if (group == 0) {
		ping_pong_wait(group);
	}
}

#endif

template <int D, int BOX>
static __global__ void __launch_bounds__(ALL_WARPS *WARP, 1)
	prefill_attention_sm90_kernel(const __grid_constant__ CUtensorMap keys,
		const __grid_constant__ CUtensorMap values, const prefill_arguments a)
{
#ifdef QUIRE_SM90A
	extern __shared__ __align__(SWIZZLE_ALIGNMENT) unsigned char tiles[];
	__shared__ struct prefill_item items[2];
	__shared__ uint64_t barriers[BARRIERS];

	dependents_launch();
	prefill_memory<D> at;
	uint32_t group = threadIdx.x / GROUP, warp = threadIdx.x / WARP;
	uint32_t barrier = shared_address(barriers);

	at.queries = (shared_address(tiles) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT *
		     SWIZZLE_ALIGNMENT;
	at.keys = at.queries + 2 * GROUPS * at.query_bytes;
	at.values = at.keys + DEPTH * at.tile_bytes;
	at.full_queries = barrier;
	at.empty_queries = barrier + 2 * 8;
	at.full_keys = barrier + 4 * 8;
	at.empty_keys = barrier + 6 * 8;
	at.full_values = barrier + 8 * 8;
	at.empty_values = barrier + 10 * 8;
	if (threadIdx.x == 0) {
		for (uint32_t i = 0; i < BARRIERS; i++) {
			bool is_empty = i / 2 % 2 == 1;
			barrier_init(barrier + i * 8, is_empty ? GROUPS * WARPS_IN_GROUP : 1);
		}
		barrier_init_done();
		prefetch_map(&keys);
		prefetch_map(&values);
	}
	__syncthreads();
	dependency_wait();
	if (group == GROUPS) {
		registers_release<40>();
		produce<D, BOX>(a, &keys, &values, items, at, warp);
	} else {
		registers_acquire<232>();
		uint32_t total = a.tile_count * a.piece_count * a.shape.head_count;
		uint32_t rounds = total / gridDim.x, rest = total % gridDim.x;
		uint32_t position_in_round =
			rounds % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
		attend_items<D, BOX>(
			a, items, at, group, rounds + (position_in_round < rest ? 1 : 0));
	}
#endif
}

/* TMA descriptor of the keys or values of a layer, (rows, D) bf16; of small KV blocks as
   (eights of rows, column halves, 8, 64). The number of rows is unknown here, so the descriptor has
   the largest; only rows from the block tables are read. */
template <int D, int BOX> static int describe_pool(CUtensorMap *out, const uint16_t *pool)
{
	if (tile_layout<D, BOX>::is_stepwise) {
		const cuuint64_t sizes[] = {COLUMNS, 8, D / COLUMNS, INT32_MAX / 8};
		const cuuint64_t strides[] = {D * 2, ROW_BYTES, 8 * D * 2};
		const cuuint32_t step[] = {COLUMNS, 8, D / COLUMNS, BOX / 8};
		return tensor_map_make(
			out, pool, 4, sizes, strides, step, CU_TENSOR_MAP_SWIZZLE_NONE);
	}
	const cuuint64_t size[] = {D, INT32_MAX}, row_bytes[] = {D * 2};
	const cuuint32_t box[] = {COLUMNS, BOX};

	return tensor_map_make(out, pool, 2, size, row_bytes, box, CU_TENSOR_MAP_SWIZZLE_NONE);
}

/* Makes the TMA descriptors of keys and values, and finds the number of resident blocks. */
template <int D, int BOX>
static int prepare(
	const prefill_arguments &a, CUtensorMap *keys, CUtensorMap *values, uint32_t *block_count)
{
	int device = 0, processors = 0;
	int error = describe_pool<D, BOX>(keys, a.keys);

	if (error == 0) {
		error = describe_pool<D, BOX>(values, a.values);
	}
	if (error == 0) {
		error = (int)cudaGetDevice(&device);
	}
	if (error == 0) {
		error = (int)cudaDeviceGetAttribute(
			&processors, cudaDevAttrMultiProcessorCount, device);
	}
	*block_count = (uint32_t)processors;
	return error;
}

template <int D, int BOX> static int launch(prefill_arguments a, cudaStream_t stream)
{
	const uint32_t bytes = prefill_memory<D>::bytes + SWIZZLE_ALIGNMENT;
	CUtensorMap keys, values;
	uint32_t block_count;
	int error = prepare<D, BOX>(a, &keys, &values, &block_count);

	if (error == 0) {
		error = allow_shared<prefill_attention_sm90_kernel<D, BOX>>(bytes);
	}
	if (error != 0) {
		return error;
	}
	/* One warpgroup alone has three quarters of the throughput of two. So tiles are halved
	   only where whole tiles would fill at most half of the multiprocessors. */
	uint32_t items = a.tile_count * a.shape.head_count;
	a.piece_count = 2 * items <= block_count ? 2 : 1;
	items *= a.piece_count;
	return launch_dependent(prefill_attention_sm90_kernel<D, BOX>,
		dim3(items < block_count ? items : block_count), dim3(ALL_WARPS * WARP), bytes,
		stream, keys, values, a);
}

template <int D> static int launch_boxes(const prefill_arguments &a, cudaStream_t stream)
{
	return a.shape.block_size % WHOLE_BOX == 0 ? launch<D, WHOLE_BOX>(a, stream)
						   : launch<D, PAGED_KV_STEP>(a, stream);
}

int prefill_attention_sm90(const prefill_arguments &a, cudaStream_t stream)
{
	return a.shape.head_dim == 128 ? launch_boxes<128>(a, stream) : launch_boxes<64>(a, stream);
}
