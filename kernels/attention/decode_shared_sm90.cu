#include "kernels/attention/decode_owner_sm90.cuh"
#include "kernels/attention/decode_stream_sm90.cuh"
#include "kernels/device/dynamic_shared.cuh"

/* Flash decoding on Hopper as decode_sm90.cu, for launches with rows that share blocks or have many
   splits (decode_list.h). The bits are the same.

   Shared units, some splits of several rows each, come first. Their query heads stand side by side
   in column blocks of 8, whole rows in each. A warp computes one split for one column block and
   folds its tiles in registers: the sums of each head are those of a unit of its own, since nothing
   in them crosses columns. The folder is a fourth consumer then, and the scheduler copies the
   queries, to one of two slots:

       scheduler ──unit──► producer ──stage──► consumers and folder ──slot──► counter
           └────────────────slot──────────────────────▲

   Behind the shared units come single splits, as in decode_sm90.cu. Where nothing is shared, the
   first splits of each row are a chain, which the folder merges. Rows of several splits have
   owners, which merge the rest (decode_owner_sm90.cuh).

   Scheduling: blocks claim the entries of the host's list, each once for every key/value head. The
   first claims of a block follow from its index; later ones come from an atomic counter.

   PDL: as decode_sm90.cu. */

#ifdef QUIRE_SM90A

/* ---- shared units ---- */

/* Running sums of a column block, laid out as tile_result. */
template <class P> struct column_fold {
	float out[P::d / 16][4];
	float max[2], sum[2];
};

template <class P> static __device__ inline void clear_columns(column_fold<P> &fold)
{
#pragma unroll
	for (int i = 0; i < P::d / 16; i++) {
		fold.out[i][0] = fold.out[i][1] = fold.out[i][2] = fold.out[i][3] = 0;
	}
	fold.max[0] = fold.max[1] = -CUDART_INF_F;
	fold.sum[0] = fold.sum[1] = 0;
}

/* Adds the values of a tile, weighted, to the sums. */
template <class P>
static __device__ inline void fold_values(
	column_fold<P> &fold, uint32_t (*weight)[2], const fold_weights *weights, uint32_t stage)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t values = stage + P::tile_bytes + ((lane & 7) + (lane >> 4) * 8) * P::row +
			  (((lane >> 3) & 1) ^ (lane & 7)) * 16;

#pragma unroll
	for (int i = 0; i < P::d / 16; i++) {
		float out[4] = {0, 0, 0, 0};
#pragma unroll
		for (int s = 0; s < TILE / 16; s++) {
			uint32_t rows[4];
			load_matrices_transposed(rows, (values ^ (i * 32)) + s * 16 * P::row);
			multiply_add(out, rows, weight[s][0], weight[s][1]);
		}
#pragma unroll
		for (int k = 0; k < 4; k++) {
			fold_value(fold.out[i][k], out[k], weights[k & 1]);
		}
	}
}

/* Computes a full tile for a column block, and adds it to the sums: the arithmetic of a tile's
   result (decode_tile_sm90.cuh), of which the values are never all in registers. */
template <class P>
static __device__ inline void fold_tile(
	column_fold<P> &fold, uint32_t stage, uint32_t queries, uint32_t columns, float scale)
{
	float score[TILE / 16][4];
	uint32_t weight[TILE / 16][2];
	tile_result<P> tile; /* without values */
	fold_weights weights[2];
	uint32_t lane = threadIdx.x % WARP;
	uint32_t query = queries + lane / 4 * P::query_row + lane % 4 * 4;
	bool is_column = lane / 4 < columns;
	auto load_query = [&](int k, uint32_t *b) { load_query_columns(b, query, k, is_column); };

	score_tile<P>(score, stage, load_query);
	softmax_tile<P, true>(tile, weight, score, TILE, scale);
	weights[0] = fold_max(fold.max[0], tile.max[0]);
	weights[1] = fold_max(fold.max[1], tile.max[1]);
	fold_values<P>(fold, weight, weights, stage);
	add_weights<P>(tile);
	fold_value(fold.sum[0], tile.sum[0], weights[0]);
	fold_value(fold.sum[1], tile.sum[1], weights[1]);
}

/* What a warp computes of a shared unit. */
struct warp_share {
	uint32_t split;		       /* of the unit; past its splits: nothing */
	uint32_t block;		       /* of columns */
	uint32_t first_row, row_count; /* readers */
};

static __device__ inline warp_share share_of(
	const shared_unit &unit, uint32_t warp, uint32_t rows_of_block)
{
	uint32_t blocks = (unit.row_count + rows_of_block - 1) / rows_of_block;
	warp_share share;

	share.split = warp / blocks;
	share.block = warp - share.split * blocks;
	share.first_row = share.block * rows_of_block;
	share.row_count = min(unit.row_count - share.first_row, rows_of_block);
	return share;
}

/* Stores the sums of a column block as the partial results of its rows. */
template <class P>
static __device__ inline void store_columns(const decode_arguments &a, const shared_unit &unit,
	const column_fold<P> &fold, const warp_share &own, uint32_t columns)
{
	uint32_t lane = threadIdx.x % WARP, group = a.shape.head_count / a.shape.kv_head_count;

#pragma unroll
	for (int i = 0; i < 2; i++) {
		uint32_t column = 2 * (lane % 4) + i;
		if (column < columns) {
			uint32_t split = unit.first_split[own.first_row + column / group] +
					 unit.index + own.split;
			size_t at = (size_t)split * a.shape.head_count + unit.kv_head * group +
				    column % group;
			float *out = a.partial_out + at * P::d + lane / 4;
#pragma unroll
			for (int k = 0; k < P::d / 16; k++) {
				out[k * 16] = fold.out[k][i];
				out[k * 16 + 8] = fold.out[k][i + 2];
			}
			if (lane < 4) {
				a.partial_state[at] = make_float2(fold.max[i], fold.sum[i]);
			}
		}
	}
}

/* Computes this warp's share of the block's shared units; returns the number of their tiles. */
template <class P>
static __device__ uint32_t consume_shared(
	const decode_arguments &a, const pipe<P> &pipe, uint32_t warp)
{
	uint32_t lane = threadIdx.x % WARP, group = a.shape.head_count / a.shape.kv_head_count;
	uint32_t n = 0;
	stage_cursor<P> from = {0, 0};

	dependency_wait();
	for (uint32_t round = 0;; round++) {
		uint32_t slot = round % SLOTS;
		column_fold<P> fold;
		barrier_wait(pipe.slot_full(slot), round / SLOTS & 1);
		const shared_unit &unit = *pipe.shared_unit(slot);
		if (unit.row_count == 0) {
			if (lane == 0) {
				barrier_arrive(pipe.slot_stored(slot));
			}
			named_barrier_wait(1, COLUMN_BLOCKS * WARP); /* results lie in the slots */
			return n;
		}
		const warp_share own = share_of(unit, warp, COLUMN_BLOCK / group);
		uint32_t splits = unit.splits, columns = own.row_count * group;
		uint32_t queries = pipe.queries(slot) + own.block * COLUMN_BLOCK * P::query_row;
		clear_columns<P>(fold);
		for (uint32_t i = 0, split = 0; i < SPLIT_TILES * splits; i++, n++) {
			barrier_wait(pipe.full(from.stage), from.parity);
			if (split == own.split) {
				fold_tile<P>(
					fold, pipe.stage(from.stage), queries, columns, a.scale);
			}
			__syncwarp();
			if (lane == 0) {
				barrier_arrive(pipe.empty(from.stage));
			}
			from.advance(1);
			split = split + 1 == splits ? 0 : split + 1;
		}
		if (own.split < splits) {
			store_columns<P>(a, unit, fold, own, columns);
		}
		__syncwarp();
		if (lane == 0) {
			barrier_arrive(pipe.slot_stored(slot));
		}
	}
}

/* ---- scheduler ---- */

/* A claim that is being looked up. What load_row() and find_offsets() load depends on the entry, so
   a claim passes through load_entry() in an earlier round. */
struct claim_lookup {
	uint32_t claim; /* past the last: none */
	bool is_shared, is_chain;
	uint32_t kv_head;
	struct decode_claim entry;
	uint32_t first_split, end_split; /* of the row of an entry that is not shared */
};

/* The claims of a launch. */
struct claim_list {
	struct decode_launch launch;
	uint32_t base;	/* index of this launch's first split */
	uint32_t count; /* claims */
	uint32_t assigned;

	__device__ inline const uint32_t *readers(
		const decode_arguments &a, const claim_lookup &c) const
	{
		return (const uint32_t *)a.claims + launch.readers + c.entry.row;
	}
};

static __device__ inline claim_list load_claims(const decode_arguments &a)
{
	claim_list claims;

	claims.launch = *a.launch;
	claims.base = a.split_start[a.first_row];
	claims.count = claims.launch.count * a.shape.kv_head_count;
	claims.assigned = ASSIGNED_CLAIMS * gridDim.x;
	return claims;
}

/* Looks up the entry of a claim. */
static __device__ inline void load_entry(
	const decode_arguments &a, const claim_list &claims, claim_lookup &c)
{
	uint32_t entry = c.claim / a.shape.kv_head_count;

	if (c.claim < claims.count) {
		c.kv_head = c.claim - entry * a.shape.kv_head_count;
		c.is_shared = entry < claims.launch.shared;
		c.is_chain = entry < claims.launch.chains;
		c.entry = a.claims[claims.launch.first + entry];
	}
}

static __device__ inline void load_row(
	const decode_arguments &a, const claim_list &claims, claim_lookup &c)
{
	if (c.claim < claims.count && !c.is_shared) {
		c.first_split = a.split_start[c.entry.row];
		c.end_split = a.split_start[c.entry.row + 1];
	}
}

/* Lane l gets the pool offsets of tokens 64 * l to 64 * l + 63 behind split k of the claim. */
template <class P>
static __device__ inline lane_offsets<P> find_offsets(
	const decode_arguments &a, const claim_lookup &c, uint32_t k)
{
	uint32_t lane = threadIdx.x % WARP, begin = (c.entry.index + k) * DECODE_SPLIT;
	uint32_t end = (c.entry.index + c.entry.count) * DECODE_SPLIT;

	return lookup_offsets<P>(a, c.entry.table_row, c.kv_head, begin + lane * LANE_TOKENS,
		c.is_shared ? end : min(end, c.entry.context));
}

/* The block's i-th claim. */
static __device__ inline uint32_t claim_at(
	const decode_arguments &a, const claim_list &claims, uint32_t i)
{
	uint32_t claimed = 0;

	if (i < ASSIGNED_CLAIMS) {
		return blockIdx.x + i * gridDim.x;
	}
	if (claims.count <= claims.assigned) {
		return claims.count;
	}
	if (threadIdx.x % WARP == 0) {
		claimed = atomicAdd(a.arrivals, 1);
		/* Each block makes one claim past the end; the last of these resets the counter. */
		if (claimed == claims.count - claims.assigned + gridDim.x - 1) {
			*a.arrivals = 0;
		}
	}
	return claims.assigned + __shfl_sync(0xffffffffu, claimed, 0);
}

static __device__ inline enum unit_kind kind_of_unit(const claim_lookup &c, uint32_t k)
{
	uint32_t splits = c.end_split - c.first_split; /* of the row */

	if (c.is_chain && c.entry.count < splits) {
		return k + 1 < c.entry.count ? UNIT_CHAIN : UNIT_CHAIN_END;
	}
	return c.is_chain || splits == 1 ? UNIT_WHOLE : UNIT_PART;
}

/* Passes the block's n-th unit to the producer: split k of a claim. */
template <class P>
static __device__ inline void push_unit(const decode_arguments &a, const pipe<P> &pipe,
	const claim_list &claims, const claim_lookup &c, const lane_offsets<P> &offsets, uint32_t k,
	uint32_t n)
{
	uint32_t lane = threadIdx.x % WARP, index = c.entry.index + k;
	uint32_t first = index * DECODE_SPLIT;
	unit<P::step> *shared = pipe.scheduled();

	barrier_wait(pipe.unit_empty(), (n & 1) ^ 1);
	if (lane / SPLIT_LANES == k % LOOKUP_SPLITS) {
		put_offsets<P>(*shared, lane % SPLIT_LANES, offsets);
	}
	if (lane == 0) {
		uint32_t count = min(c.entry.context - first, (uint32_t)DECODE_SPLIT);
		shared->count = count;
		shared->shared_splits = 0;
		shared->has_last_token = first + count == c.entry.context;
		shared->row = c.entry.row;
		shared->kv_head = c.kv_head;
		shared->split = c.first_split - claims.base + index;
		shared->first_split = c.first_split - claims.base;
		shared->split_count = c.end_split - c.first_split;
		shared->kind = kind_of_unit(c, k);
	}
	__syncwarp();
	if (lane == 0) {
		barrier_arrive(pipe.unit_full());
	}
}

/* Passes all splits of a shared claim to the producer. */
template <class P>
static __device__ inline void push_shared(
	const pipe<P> &pipe, const claim_lookup &c, const lane_offsets<P> &offsets, uint32_t n)
{
	uint32_t lane = threadIdx.x % WARP;
	unit<P::step> *shared = pipe.scheduled();

	barrier_wait(pipe.unit_empty(), (n & 1) ^ 1);
	if (lane < c.entry.count * SPLIT_LANES) {
		put_offsets<P>(*shared, lane, offsets);
	}
	if (lane == 0) {
		shared->count = DECODE_SPLIT;
		shared->shared_splits = c.entry.count;
	}
	__syncwarp();
	if (lane == 0) {
		barrier_arrive(pipe.unit_full());
	}
}

/* Fills the n-th slot with the readers of a shared unit, and starts the copies of their queries, a
   lane a column. */
template <class P>
static __device__ inline void push_readers(const decode_arguments &a, const pipe<P> &pipe,
	const claim_list &claims, const claim_lookup &c, uint32_t n)
{
	uint32_t lane = threadIdx.x % WARP, slot = n % SLOTS, row = 0;
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;
	uint32_t rows = COLUMN_BLOCK / group; /* of a column block */
	shared_unit *unit = pipe.shared_unit(slot);

	barrier_wait(pipe.slot_empty(slot), (n / SLOTS & 1) ^ 1);
	if (lane < c.entry.context) {
		row = claims.readers(a, c)[lane];
		uint32_t first = a.split_start[row];
		unit->row[lane] = row;
		unit->first_split[lane] = first - claims.base;
		unit->split_count[lane] = a.split_start[row + 1] - first;
	}
	__syncwarp(); /* the arrival is on behalf of all lanes */
	if (lane == 0) {
		unit->row_count = c.entry.context;
		unit->kv_head = c.kv_head;
		unit->index = c.entry.index;
		unit->splits = c.entry.count;
		barrier_arrive_expecting(pipe.slot_full(slot), c.entry.context * group * P::row);
	}
	__syncwarp();
	uint32_t column = lane % COLUMN_BLOCK;
	uint32_t reader = lane / COLUMN_BLOCK * rows + column / group;
	row = __shfl_sync(0xffffffffu, row, (int)(reader % WARP));
	if (column < rows * group && reader < c.entry.context) {
		size_t head = (size_t)row * a.shape.head_count + c.kv_head * group + column % group;
		copy_bytes(pipe.queries(slot) + lane * P::query_row, a.query + head * P::d, P::row,
			pipe.slot_full(slot));
	}
}

template <class P> static __device__ inline void end_shared(const pipe<P> &pipe, uint32_t n)
{
	uint32_t slot = n % SLOTS;

	barrier_wait(pipe.slot_empty(slot), (n / SLOTS & 1) ^ 1);
	__syncwarp();
	if (threadIdx.x % WARP == 0) {
		pipe.shared_unit(slot)->row_count = 0;
		barrier_arrive(pipe.slot_full(slot));
	}
}

/* The scheduler warp. Three claims are in progress at once, one load of each a round, because
   the latencies of dependent loads add up. */
template <class P> static __device__ void schedule(const decode_arguments &a, const pipe<P> &pipe)
{
	const claim_list claims = load_claims(a);
	claim_lookup current = {claim_at(a, claims, 0)}, next = {claim_at(a, claims, 1)};
	uint32_t claim = claim_at(a, claims, 2), n = 0;
	bool has_shared = true; /* the end of the shared units is still to be told */

	load_entry(a, claims, current);
	load_entry(a, claims, next);
	load_row(a, claims, current);
	for (uint32_t i = 0; current.claim < claims.count; i++) {
		claim_lookup after_next = {claim};
		lane_offsets<P> offsets = find_offsets<P>(a, current, 0);
		load_row(a, claims, next);
		load_entry(a, claims, after_next);
		if (current.is_shared) {
			push_shared<P>(pipe, current, offsets, n);
			if (n == 0) {
				dependency_wait();
			}
			push_readers<P>(a, pipe, claims, current, n++);
		} else {
			if (has_shared) {
				end_shared<P>(pipe, n);
				has_shared = false;
			}
			for (uint32_t k = 0; k < current.entry.count; k++, n++) {
				if (k > 0 && k % LOOKUP_SPLITS == 0) {
					offsets = find_offsets<P>(a, current, k);
				}
				push_unit<P>(a, pipe, claims, current, offsets, k, n);
			}
		}
		if (i + 3 == ASSIGNED_CLAIMS) {
			dependency_wait(); /* before the first access to the counter */
		}
		claim = claim < claims.count ? claim_at(a, claims, i + 3) : claim;
		current = next;
		next = after_next;
	}
	if (has_shared) {
		end_shared<P>(pipe, n);
	}
	barrier_wait(pipe.unit_empty(), (n & 1) ^ 1);
	if (threadIdx.x % WARP == 0) {
		pipe.scheduled()->count = 0;
		barrier_arrive(pipe.unit_full());
	}
}

#endif

/* ---- kernel and launcher ---- */

template <class P>
static __global__ void __launch_bounds__(P::threads, 1)
	decode_attention_shared_sm90_kernel(decode_arguments a)
{
#ifdef QUIRE_SM90A
	extern __shared__ __align__(1024) unsigned char memory[];

	dependents_launch();
	uint32_t warp = threadIdx.x / WARP;
	pipe<P> pipe = {memory, shared_address(memory)};

	if (threadIdx.x == 0) {
		pipe.init();
	}
	__syncthreads();
	if (warp < COLUMN_BLOCKS) {
		uint32_t first = consume_shared<P>(a, pipe, warp);
		if (warp < WARPS) {
			consume<P>(a, pipe, warp, first);
		} else {
			fold_all_tiles<P>(a, pipe, first);
		}
	} else if (warp == COLUMN_BLOCKS) {
		if (P::lane_steps > 1 ? elect_lane() : threadIdx.x % WARP == 0) {
			produce<P>(a, pipe);
		}
	} else if (warp == COLUMN_BLOCKS + 1) {
		schedule<P>(a, pipe);
	} else if (warp == COLUMN_BLOCKS + 2) {
		count_splits<P>(a, pipe);
	} else {
		own_rows<P>(a, warp - COLUMN_BLOCKS - 3);
	}
#endif
}

template <class P>
static int launch(const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	int device = 0, processors = 0;
	int code = allow_shared<decode_attention_shared_sm90_kernel<P>>(P::bytes);

	if (code == 0) {
		code = (int)cudaGetDevice(&device);
	}
	if (code == 0) {
		code = (int)cudaDeviceGetAttribute(
			&processors, cudaDevAttrMultiProcessorCount, device);
	}
	if (code != 0) {
		return code;
	}
	/* Owners wait for the splits of other blocks, so all blocks must be resident. */
	block_count = min(block_count, (uint32_t)processors);
	return launch_dependent(decode_attention_shared_sm90_kernel<P>, block_count, P::threads,
		P::bytes, stream, a);
}

int decode_attention_shared_sm90(
	const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	return launch_plan<true>(
		a, [&](auto plan) { return launch<decltype(plan)>(a, block_count, stream); });
}
