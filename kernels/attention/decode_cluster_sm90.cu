#include "kernels/attention/decode_tile_sm90.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/device/dynamic_shared.cuh"
#include "kernels/device/resident_clusters.cuh"

/* Decode attention of few rows, which is latency-bound rather than bandwidth-bound. head_dim is
   128, with up to 8 query heads a key/value head (GQA). out (rows, heads, 128) = softmax(query *
   K^T * scale) * V, bf16 with float32 sums, bit for bit as decode_sm90.cu.

   A cluster of RANKS thread blocks computes one row and key/value head, with all query heads of
   that head. Each warp computes single tiles, in a stage of its own that it fills by bulk copies
   (TMA): before the dependency wait with what earlier steps stored, after it with the rest. The
   result of a tile goes from registers into the distributed shared memory of the ranks (st.async).
   Each rank gathers 16 dimensions of all tiles, merges them and writes 16 dimensions of the row. So
   no partial result passes through global memory, and a block waits for nothing but tiles.

       warp   tile: scores, softmax, weighted sum  ─┐
       warp   tile                                 ─┼─►  rank r: 16 dimensions of all tiles;
       ...                                         ─┘    merges tiles to splits, these to the row

   Shared memory has room for `slots` tiles, so a long row is gathered in rounds.

   The blocks of a cluster lie in one GPC, each on a multiprocessor of its own. Two clusters of
   eight fit into a GPC of an H200, and then the kernel behind this one finds its room in the other
   GPCs, whose few paths to the L2 cache it crowds. So a cluster has an idle block more, with which
   a GPC of 16 multiprocessors holds only one. */

enum { HEAD_DIM = 128, RANKS = HEAD_DIM / 16, SPREAD_BLOCKS = RANKS + 1 };

/* Sizes and offsets in shared memory, in bytes. HEADS: capacity in query heads, a power of two.
   STEP: tokens that are sure to lie in one KV block, of which a tile has one or several.
   A piece is what a lane holds of a rank's 16 dimensions: dimensions r and r + 8 of two heads, a
   float4. */
template <int HEADS, int STEP> struct cluster_plan {
	static constexpr int d = HEAD_DIM, warps = 4, threads = warps * WARP;
	static constexpr int step = STEP, tile_steps = TILE / STEP;
	static constexpr int slots = 128; /* tiles that a round gathers */
	static constexpr int row = d * 2, tile_bytes = TILE * row, stage = 2 * tile_bytes;
	static constexpr int pairs = HEADS / 2, pieces = 8 * pairs;
	/* (slots, pieces) float4: weighted sums */
	static constexpr int outs = warps * stage;
	/* (slots, pairs) float4: maximum and sum of weights of both heads; then the same for
	   splits */
	static constexpr int states = outs + slots * pieces * 16;
	static constexpr int folded = states + slots * pairs * 16;
	/* float4 state and float4 sums of no tile: merging it changes no bit */
	static constexpr int neutral = folded + slots / SPLIT_TILES * pairs * 16;
	static constexpr int barriers = neutral + 32;
	static constexpr int gathered = barriers + warps * 16;
	static constexpr int bytes = gathered + 8;

	static_assert(
		slots % SPLIT_TILES == 0 && pieces <= threads && bytes <= SM90_SHARED_BYTES, "");
	static_assert(RANKS * warps * TILE == DECODE_ROUND, "all warps compute a tile each");
};

#ifdef QUIRE_SM90A

/* ---- tiles ---- */

/* The row and key/value head of a cluster. */
struct cluster_row {
	const uint32_t *table;
	const uint16_t *query; /* of the first query head */
	uint16_t *out;
	uint32_t group; /* query heads */
	uint32_t kv_head, context, tile_count, rank;

	__device__ inline uint32_t count(uint32_t tile) const
	{
		return min(context - tile * TILE, (uint32_t)TILE);
	}
	/* Tokens of a tile that earlier steps stored: all but the row's last token. */
	__device__ inline uint32_t old_count(uint32_t tile) const
	{
		return count(tile) - (tile + 1 == tile_count ? 1 : 0);
	}
};

/* What the batch's lists say of a row. */
struct row_lists {
	uint32_t context, first_split, end_split, table_row;
};

/* Starts the loads of the lists; find_tokens() completes the row. */
static __device__ inline cluster_row find_row(const decode_arguments &a, row_lists &lists)
{
	uint32_t at = a.first_row + blockIdx.z, heads = a.shape.head_count;
	cluster_row row;

	lists.context = a.contexts[at];
	lists.first_split = a.split_start[at];
	lists.end_split = a.split_start[at + 1];
	lists.table_row = a.rows[at];
	row.rank = cluster_rank();
	row.kv_head = blockIdx.y;
	row.group = heads / a.shape.kv_head_count;
	size_t head = (size_t)at * heads + row.kv_head * row.group;
	row.query = a.query + head * HEAD_DIM;
	row.out = a.out + head * HEAD_DIM;
	/* Keeps the compiler from moving these computations behind the dependency wait. */
	asm volatile("" : "+l"(row.query), "+l"(row.out), "+r"(row.group));
	return row;
}

static __device__ inline void find_tokens(
	const decode_arguments &a, cluster_row &row, row_lists &lists)
{
	/* Keeps the compiler from waiting for the loads any earlier. */
	asm volatile(""
		     : "+r"(lists.context), "+r"(lists.first_split), "+r"(lists.end_split),
		     "+r"(lists.table_row)
		     :
		     : "memory");
	row.context = lists.context;
	row.table = a.tables + (size_t)lists.table_row * a.shape.table_width;
	row.tile_count = lists.first_split == lists.end_split ? 0 : (row.context + TILE - 1) / TILE;
}

/* Where a lane's step of a tile begins. It follows from the tile's index alone. */
struct step_place {
	uint32_t position;
	uint32_t index; /* of its block, in the row's table */
	uint32_t byte;	/* in a block's keys or values */
};

/* In lane l that of step l % tile_steps. */
template <class F>
static __device__ inline step_place find_step(
	const decode_arguments &a, uint32_t kv_head, uint32_t tile)
{
	uint32_t position = tile * TILE + threadIdx.x % F::tile_steps * F::step;
	uint32_t index = position / a.shape.block_size;
	uint32_t token = position - index * a.shape.block_size;

	return {position, index, (kv_head * a.shape.block_size + token) * F::row};
}

/* The block of the pool; any where the row has no such token. */
static __device__ inline uint32_t find_block(const cluster_row &row, const step_place &place)
{
	return place.position < row.context ? row.table[place.index] : 0;
}

/* Pool offset of the step in bytes. A block's keys have less than 4 GiB. */
template <class F>
static __device__ inline uint64_t step_offset(
	const decode_arguments &a, uint32_t block, uint32_t byte)
{
	uint32_t block_bytes = a.shape.kv_head_count * a.shape.block_size * F::row;

	return (uint64_t)block * block_bytes + byte;
}

/* Sends the result of a tile to all ranks, 16 dimensions to each. */
template <class F>
static __device__ inline void send_tile(const tile_result<F> &tile, uint32_t base, uint32_t slot)
{
	uint32_t lane = threadIdx.x % WARP, pair = lane % 4;
	uint32_t piece = lane / 4 * F::pairs + pair;
	const float state[4] = {tile.max[0], tile.sum[0], tile.max[1], tile.sum[1]};

	if (pair >= F::pairs) {
		return;
	}
#pragma unroll
	for (int rank = 0; rank < RANKS; rank++) {
		uint32_t remote = cluster_address(base, rank);
		store_remote(remote + F::outs + (slot * F::pieces + piece) * 16,
			remote + F::gathered, tile.out[rank]);
	}
	uint32_t remote = cluster_address(base, lane / 4);
	store_remote(
		remote + F::states + (slot * F::pairs + pair) * 16, remote + F::gathered, state);
}

/* The tiles of a warp, one after another. */
template <class F> struct warp_tiles {
	uint32_t tile;
	step_place place; /* of the lane's step of the first tile */
	uint64_t offset;  /* of the lane's step of the tile, in the pool; in bytes */
	uint32_t stage;	  /* shared address of its keys and values */
	uint32_t full;	  /* mbarrier of its keys; the next is that of its values */
	uint32_t parity;
	uint32_t query[F::d / 16][2]; /* in the layout of score_tile() */

	/* Whether the lane copies a step of each tile. */
	__device__ inline bool is_copying() const
	{
		return threadIdx.x % WARP < F::tile_steps;
	}

	/* Tells the mbarrier of the tile's keys (kv 0) or values (kv 1) how many tokens come. */
	__device__ inline void expect(int kv, uint32_t count)
	{
		if (threadIdx.x % WARP == 0) {
			barrier_arrive_expecting(full + kv * 8, count * F::row);
		}
	}

	/* Copies those of tokens [first, end) of the tile's keys or values that lie in the lane's
	   step. */
	__device__ inline void copy(
		const decode_arguments &a, int kv, uint64_t from, uint32_t first, uint32_t end)
	{
		uint32_t begin = 0; /* of the step */

		if (F::tile_steps > 1) {
			begin = threadIdx.x % WARP * F::step;
			first = max(first, begin);
			end = min(end, begin + F::step);
		}
		if (first < end) {
			copy_bytes(stage + kv * F::tile_bytes + first * F::row,
				(const unsigned char *)(kv == 0 ? a.keys : a.values) + from +
					(first - begin) * F::row,
				(end - first) * F::row, full + kv * 8);
		}
	}

	/* What does not need the row's lists: it is computed while they are loaded. */
	__device__ inline void begin(
		const decode_arguments &a, const cluster_row &row, uint32_t base)
	{
		uint32_t warp = threadIdx.x / WARP;

		tile = row.rank + RANKS * warp;
		place = find_step<F>(a, row.kv_head, tile);
		asm volatile("" : "+r"(place.position), "+r"(place.index), "+r"(place.byte));
		stage = base + warp * F::stage;
		full = base + F::barriers + warp * 16;
		parity = 0;
	}

	/* Before the dependency wait: copies the tokens of the first tile that earlier steps
	   stored. */
	__device__ inline void prefetch(const decode_arguments &a, const cluster_row &row)
	{
		uint32_t block = find_block(row, place);
		bool is_used = is_copying() && tile < row.tile_count;

		if (is_used) {
			expect(0, row.count(tile));
			expect(1, row.count(tile));
		}
		offset = step_offset<F>(a, block, place.byte);
		if (is_used) {
			copy(a, 0, offset, 0, row.old_count(tile));
			copy(a, 1, offset, 0, row.old_count(tile));
		}
	}

	/* After the dependency wait: copies the rest of the first tile, and loads the queries. */
	__device__ inline void fetch_rest(const decode_arguments &a, const cluster_row &row)
	{
		uint32_t lane = threadIdx.x % WARP;
		const uint32_t *from = (const uint32_t *)(row.query + lane / 4 * F::d) + lane % 4;

#pragma unroll
		for (int k = 0; k < F::d / 16; k++) {
			query[k][0] = lane / 4 < row.group ? from[k * 8] : 0;
			query[k][1] = lane / 4 < row.group ? from[k * 8 + 4] : 0;
		}
		if (is_copying()) {
			copy(a, 0, offset, row.old_count(tile), row.count(tile));
			copy(a, 1, offset, row.old_count(tile), row.count(tile));
		}
	}

	/* Copies the keys (kv 0) or values (kv 1) of the next tile, which lies at `offset`, over
	   those of this one, which are used up. */
	__device__ inline void refill(
		const decode_arguments &a, const cluster_row &row, int kv, uint32_t next)
	{
		__syncwarp();
		if (is_copying() && next < row.tile_count) {
			expect(kv, row.count(next));
			copy(a, kv, offset, 0, row.count(next));
		}
	}

	template <bool IS_FULL>
	__device__ inline void compute(const decode_arguments &a, const cluster_row &row,
		tile_result<F> &result, uint32_t next, uint32_t next_block, uint32_t next_byte)
	{
		float score[TILE / 16][4];
		uint32_t weight[TILE / 16][2], count = row.count(tile);
		auto load_query = [&](int k, uint32_t *b) {
			b[0] = query[k][0];
			b[1] = query[k][1];
		};

		barrier_wait(full, parity);
		score_tile<F>(score, stage, load_query);
		offset = step_offset<F>(a, next_block, next_byte);
		refill(a, row, 0, next);
		softmax_tile<F, IS_FULL>(result, weight, score, count, a.scale);
		barrier_wait(full + 8, parity);
		weigh_values<F, IS_FULL>(result, weight, stage, count);
		add_weights<F>(result);
		refill(a, row, 1, next);
	}

	/* Computes this warp's tiles below `end`. Tile `first` goes to slot 0. */
	__device__ inline void compute_until(const decode_arguments &a, const cluster_row &row,
		uint32_t base, uint32_t first, uint32_t end)
	{
		while (tile < end) {
			tile_result<F> result;
			uint32_t next = tile + RANKS * F::warps;
			/* loaded here, but used behind the scores */
			step_place next_place = find_step<F>(a, row.kv_head, next);
			uint32_t block = find_block(row, next_place);
			if (row.count(tile) == TILE) {
				compute<true>(a, row, result, next, block, next_place.byte);
			} else {
				compute<false>(a, row, result, next, block, next_place.byte);
			}
			send_tile<F>(result, base, tile - first);
			tile = next;
			parity ^= 1;
		}
	}
};

/* ---- merging ---- */

/* fold_max() by one exponential: one of its two factors is always 1. Both have the same bits. */
static __device__ inline fold_weights fold_max_once(float &max, float part_max)
{
	float weight = power_of_two(-fabsf(max - part_max));
	bool is_more = part_max > max;

	max = fmaxf(max, part_max);
	return {is_more ? weight : 1, is_more ? 1 : weight};
}

/* The running sums of a piece of two heads. */
struct piece_fold {
	float4 out;
	float4 state; /* maximum and sum of weights of each head */

	/* The neutral element: merging it changes no bit. */
	__device__ inline void clear()
	{
		out = make_float4(0, 0, 0, 0);
		state = make_float4(-CUDART_INF_F, 0, -CUDART_INF_F, 0);
	}
	/* The first part of a sum, with the bits of a part that is added to the neutral element:
	   -0 becomes 0. */
	__device__ inline void begin(const piece_fold &part)
	{
		out = make_float4(__fadd_rn(part.out.x, 0), __fadd_rn(part.out.y, 0),
			__fadd_rn(part.out.z, 0), __fadd_rn(part.out.w, 0));
		state = make_float4(part.state.x, __fadd_rn(part.state.y, 0), part.state.z,
			__fadd_rn(part.state.w, 0));
	}
	__device__ inline void add(const piece_fold &part)
	{
		fold_weights first = fold_max_once(state.x, part.state.x);
		fold_weights second = fold_max_once(state.z, part.state.z);

		fold_value(state.y, part.state.y, first);
		fold_value(state.w, part.state.w, second);
		fold_value(out.x, part.out.x, first);
		fold_value(out.y, part.out.y, second);
		fold_value(out.z, part.out.z, first);
		fold_value(out.w, part.out.w, second);
	}
};

/* Shared addresses of up to four partial results that are merged one after the other. */
struct four_places {
	uint32_t out[4], state[4];

	/* Keeps the compiler from computing them behind a barrier. */
	__device__ inline void compute()
	{
		asm volatile(""
			     : "+r"(out[0]), "+r"(out[1]), "+r"(out[2]), "+r"(out[3]),
			     "+r"(state[0]), "+r"(state[1]), "+r"(state[2]), "+r"(state[3]));
	}
};

/* Places whose addresses differ by the steps. Behind the first `count`, at least 1, they are those
   of the neutral element. */
template <class F>
static __device__ inline four_places find_four(uint32_t base, uint32_t count, uint32_t out,
	uint32_t out_step, uint32_t state, uint32_t state_step)
{
	four_places at;

#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		bool is_part = i == 0 || i < count;
		at.state[i] = is_part ? state + i * state_step : base + F::neutral;
		at.out[i] = is_part ? out + i * out_step : base + F::neutral + 16;
	}
	return at;
}

/* All loads precede the first use, so that their latencies overlap. */
static __device__ inline void load_four(piece_fold *part, const four_places &at)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		part[i].state = load_shared_float4(at.state[i]);
	}
#pragma unroll
	for (int i = 0; i < 4; i++) {
		part[i].out = load_shared_float4(at.out[i]);
	}
}

/* The tiles of piece i % pieces of split i / pieces. */
template <class F>
static __device__ inline four_places find_tiles(uint32_t base, uint32_t tile_count, uint32_t i)
{
	uint32_t first = i / F::pieces * SPLIT_TILES, piece = i % F::pieces;

	static_assert(SPLIT_TILES == 4, "a split has four places");
	return find_four<F>(base, tile_count - first,
		base + F::outs + (first * F::pieces + piece) * 16, F::pieces * 16,
		base + F::states + (first * F::pairs + piece % F::pairs) * 16, F::pairs * 16);
}

/* Four splits from split s on, of this thread's piece. */
template <class F>
static __device__ inline four_places find_splits(uint32_t base, uint32_t splits, uint32_t s)
{
	const uint32_t out_step = SPLIT_TILES * F::pieces * 16, state_step = F::pairs * 16;

	return find_four<F>(base, splits - s,
		base + F::outs + threadIdx.x % F::pieces * 16 + s * out_step, out_step,
		base + F::folded + threadIdx.x % F::pairs * 16 + s * state_step, state_step);
}

/* Merges the tiles of piece i % pieces of split i / pieces. The sums replace the first tile. */
template <class F>
static __device__ inline void fold_split(
	uint32_t base, uint32_t i, uint32_t end, const four_places &at)
{
	uint32_t split = i / F::pieces, piece = i % F::pieces;
	piece_fold tile[4], fold;

	load_four(tile, at);
	fold.begin(tile[0]);
#pragma unroll
	for (int k = 1; k < 4; k++) {
		fold.add(tile[k]);
	}
	if (i < end) {
		store_shared(at.out[0], fold.out);
		if (piece < F::pairs) {
			store_shared(
				base + F::folded + (split * F::pairs + piece) * 16, fold.state);
		}
	}
}

/* Merges the splits in ascending order, one thread a piece. at: find_splits() of split 0. */
template <class F>
static __device__ inline void fold_splits(
	piece_fold &chain, uint32_t base, uint32_t splits, four_places at)
{
	for (uint32_t s = 0;;) {
		piece_fold split[4];
		load_four(split, at);
#pragma unroll
		for (int k = 0; k < 4; k++) {
			chain.add(split[k]);
		}
		s += 4;
		if (s >= splits) {
			break;
		}
		at = find_splits<F>(base, splits, s);
	}
}

/* Waits for the tiles of a round, at least one, and merges them into the row. The addresses that
   come first are computed before the waits, by all threads: those without a piece load and merge
   what others do, so that no branch stands between a wait and the loads. */
template <class F>
static __device__ inline void fold_round(
	piece_fold &chain, uint32_t base, uint32_t tile_count, uint32_t parity)
{
	uint32_t splits = (tile_count + SPLIT_TILES - 1) / SPLIT_TILES, end = splits * F::pieces;
	uint32_t first = threadIdx.x;
	four_places tiles_at = find_tiles<F>(base, tile_count, min(first, end - 1));
	four_places splits_at = find_splits<F>(base, splits, 0);

	tiles_at.compute();
	splits_at.compute();
	barrier_wait(base + F::gathered, parity);
	fold_split<F>(base, first, end, tiles_at);
	for (uint32_t i = first + F::threads; i < end; i += F::threads) {
		fold_split<F>(base, i, end, find_tiles<F>(base, tile_count, i));
	}
	__syncthreads();
	fold_splits<F>(chain, base, splits, splits_at);
}

/* Writes this rank's dimensions of the row. */
template <class F>
static __device__ inline void write_piece(const cluster_row &row, const piece_fold &chain)
{
	uint32_t pair = threadIdx.x % F::pairs;
	uint16_t *out = row.out + 2 * pair * F::d + row.rank * 16 + threadIdx.x / F::pairs;
	float first = reciprocal(chain.state.y), second = reciprocal(chain.state.w);

	if (threadIdx.x < F::pieces && 2 * pair < row.group) {
		bf16_store(out, chain.out.x * first);
		bf16_store(out + 8, chain.out.z * first);
	}
	if (threadIdx.x < F::pieces && 2 * pair + 1 < row.group) {
		bf16_store(out + F::d, chain.out.y * second);
		bf16_store(out + F::d + 8, chain.out.w * second);
	}
}

/* Tells the mbarrier of the gathering how many bytes the tiles of a round have, at most `slots`
   tiles. */
template <class F> static __device__ inline void expect_tiles(uint32_t base, uint32_t count)
{
	if (threadIdx.x == 0) {
		barrier_arrive_expecting(base + F::gathered,
			min(count, (uint32_t)F::slots) * (F::pieces + F::pairs) * 16);
	}
	__syncwarp();
}

/* ---- rows ---- */

template <class F>
static __device__ inline void attend_row(
	const decode_arguments &a, const cluster_row &row, warp_tiles<F> &tiles, uint32_t base)
{
	piece_fold chain;

	tiles.prefetch(a, row);
	__syncwarp();
	cluster_wait();
	/* lets one kernel start, which prefetches its weight: linear layers of few rows hold back
	   those behind them until their own wait */
	dependents_launch();
	dependency_wait();
	if (tiles.tile < row.tile_count) {
		tiles.fetch_rest(a, row);
	}
	chain.clear();
	for (uint32_t first = 0, round = 0; first < row.tile_count; first += F::slots, round++) {
		uint32_t end = min(first + F::slots, row.tile_count);
		tiles.compute_until(a, row, base, first, end);
		fold_round<F>(chain, base, end - first, round & 1);
		if (end < row.tile_count) {
			expect_tiles<F>(base, row.tile_count - end);
			cluster_arrive();
			cluster_wait();
		}
	}
	write_piece<F>(row, chain);
}

#endif

/* ---- kernel and launchers ---- */

template <class F>
static __global__ void __launch_bounds__(F::threads)
	decode_attention_cluster_kernel(decode_arguments a)
{
#ifdef QUIRE_SM90A
	extern __shared__ __align__(1024) unsigned char memory[];
	uint32_t base = shared_address(memory);
	row_lists lists;
	warp_tiles<F> tiles;

	if (cluster_rank() >= RANKS) { /* idle: keeps its place until all clusters have theirs */
		cluster_arrive_relaxed();
		dependents_launch();
		dependency_wait();
		return;
	}
	cluster_row row = find_row(a, lists);
	tiles.begin(a, row, base);
	if (threadIdx.x == 0) {
		for (uint32_t i = 0; i < 2 * F::warps + 1; i++) {
			barrier_init(base + F::barriers + i * 8, 1);
		}
		barrier_init_done();
	}
	if (threadIdx.x == WARP) {
		store_shared(base + F::neutral, make_float4(-CUDART_INF_F, 0, -CUDART_INF_F, 0));
		store_shared(base + F::neutral + 16, make_float4(0, 0, 0, 0));
	}
	__syncthreads();
	cluster_arrive_relaxed();
	find_tokens(a, row, lists);
	expect_tiles<F>(base, row.tile_count);
	if (row.tile_count > 0) {
		attend_row<F>(a, row, tiles, base);
	} else { /* a row without tokens is padding of a graph: zeroes */
		dependency_wait();
		for (uint32_t i = threadIdx.x; row.rank == 0 && i < row.group * F::d;
			i += F::threads) {
			row.out[i] = 0;
		}
	}
#endif
}

template <class F> static int launch(const decode_arguments &a, cudaStream_t stream)
{
	constexpr auto kernel = decode_attention_cluster_kernel<F>;
	const int code = allow_shared<kernel>(F::bytes);

	if (code != 0) {
		return code;
	}
	uint64_t clusters = (uint64_t)a.shape.kv_head_count * a.row_count;
	bool is_spread = clusters <= resident_clusters<kernel>(SPREAD_BLOCKS, F::threads, F::bytes);
	uint32_t blocks = is_spread ? SPREAD_BLOCKS : RANKS;
	return launch_dependent_clusters(kernel, dim3(blocks, a.shape.kv_head_count, a.row_count),
		F::threads, dim3(blocks), F::bytes, stream, a);
}

/* All blocks of a cluster start together, on multiprocessors of one GPC, so some multiprocessors
   stay unused. Therefore clusters are sure to be resident at once only when they need at most
   half of the multiprocessors. */
bool decode_attention_fits_clusters(
	uint32_t row_count, const struct attention_shape *shape, uint32_t block_count)
{
	return shape->head_dim == HEAD_DIM &&
	       (uint64_t)2 * row_count * shape->kv_head_count * RANKS <= block_count;
}

template <int STEP> static int launch_heads(const decode_arguments &a, cudaStream_t stream)
{
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;

	if (group <= 2) {
		return launch<cluster_plan<2, STEP>>(a, stream);
	}
	if (group <= 4) {
		return launch<cluster_plan<4, STEP>>(a, stream);
	}
	return launch<cluster_plan<8, STEP>>(a, stream);
}

int decode_attention_cluster_sm90(const decode_arguments &a, cudaStream_t stream)
{
	return decode_has_whole_tiles(a) ? launch_heads<TILE>(a, stream)
					 : launch_heads<PAGED_KV_STEP>(a, stream);
}
