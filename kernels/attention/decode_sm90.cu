#include "kernels/attention/decode.cuh"
#include "kernels/attention/decode_tile_sm90.cuh"

/* Flash decoding on Hopper, for enough rows to be bandwidth-bound. head_dim D is 64 or 128, with up
   to 8 query heads a key/value head (GQA). out (rows, heads, D) = softmax(query * K^T * scale) * V,
   bf16 with float32 sums.

   A unit of work is one split of one row and key/value head, with all query heads of that head, so
   that K and V are read once. A thread block, one a multiprocessor, is a pipeline of specialised
   warps:

       scheduler ──unit──► producer ──stage──► consumers ──result──► folder ──unit──► mergers
       1 warp              1 lane              3 warps               1 warp           4 warps
                 1 buffer            6 buffers           1 a consumer         1 a merger

       scheduler   claims units and looks up the pool offsets of their tiles
       producer    starts bulk copies (TMA) of tiles of K and V, and of the queries with each, into
                   a ring of stages
       consumers   warp n % WARPS computes tile n of the block: scores, softmax and weighted sum of
                   the tile alone, stored in shared memory unnormalised with maximum and sum of
                   weights
       folder      merges the tiles of a unit in ascending order; stores the result, final if the
                   block has all units of the row and head, else partial
       mergers     count the stored units; the merger that counts the last unit of a row and head
                   merges all of them in ascending order. Several mergers alternate, because each
                   waits for round trips to global memory.

   Each buffer has a full and an empty mbarrier; warps wait only where a buffer is empty or full.
   The ring keeps bulk copies in flight all the time, and that makes the kernel fast. A result
   depends on its own row only, whichever block computes which unit when.

   Scheduling: most units are claimed as chains, all splits of a row and head, which the block
   merges without global memory. The last ones are claimed singly, so that all blocks end together.
   The first claims of a block follow from its index; later ones come from an atomic counter,
   because multiprocessors are not equally fast and units not equally long.

   PDL: keys and values of earlier steps are copied before the dependency wait; the queries, and
   the tile with the row's last token, after it. Nothing is written to global memory before it. */

/* Scheduling and copies:

       EARLY_UNITS       units whose keys and values may be copied before the dependency wait
       ASSIGNED_CLAIMS   claims of a block that follow from its index
       TABLE_STEP        tokens that are sure to lie in one KV block
       INFOS             entries of the ring of struct tile_info */
enum { EARLY_UNITS = 2, ASSIGNED_CLAIMS = 4, TABLE_STEP = 64 };
enum { WARPS = 3, STAGES = 6, MERGERS = 4, INFOS = 32 };
/* Splits of the longest chain: each lane of the scheduler looks up one offset. */
enum { CHAIN_SPLITS = WARP * TABLE_STEP / DECODE_SPLIT };

/* From the scheduler to the producer. */
struct unit {
	uint64_t offset[DECODE_SPLIT / TABLE_STEP]; /* pool offset of each 64 tokens, in elements */
	uint32_t count;				    /* tokens; 0: no more units */
	uint32_t has_last_token;		    /* the unit has the last token of the row */
	uint32_t row;				    /* of the batch */
	uint32_t kv_head;
	uint32_t split;	      /* index within this launch */
	uint32_t first_split; /* of the row */
	uint32_t split_count; /* of the row */
	uint32_t is_whole;    /* this block computes all splits of the row and head */
};

/* From the producer to consumers, folder and mergers: describes a tile. */
struct tile_info {
	uint32_t count;	  /* tokens; 0: no more tiles */
	uint32_t is_last; /* of its unit */
	uint32_t row, kv_head;
	uint32_t split, first_split, split_count;
	uint32_t is_whole;
};

/* Sizes and offsets in shared memory, in bytes. HEADS: capacity in query heads, a power of two. */
template <int D, int HEADS> struct plan {
	static constexpr int d = D, heads = HEADS;
	static constexpr int threads = (WARPS + 3 + MERGERS) * WARP;
	static constexpr int row = D * 2, tile_bytes = TILE * row; /* K or V of a tile */
	static constexpr int stage = 2 * tile_bytes + HEADS * row;
	static constexpr int result_row = D + 4; /* floats, with padding against bank conflicts */
	static constexpr int result = HEADS * (result_row + 2) * 4;
	static constexpr int results = STAGES * stage;
	static constexpr int infos = results + WARPS * result;
	static constexpr int merges = infos + INFOS * (int)sizeof(tile_info);
	static constexpr int units = merges + MERGERS * (int)sizeof(tile_info);
	static constexpr int barrier_count = 2 * (STAGES + WARPS + 1 + MERGERS);
	static constexpr int barriers = units + (int)sizeof(unit);
	static constexpr int bytes = barriers + barrier_count * 8;

	static_assert(DECODE_SPLIT % TILE == 0 && TABLE_STEP % TILE == 0 && TILE % 16 == 0, "");
	/* Each stage belongs to one consumer. Copies may end out of order. A consumer that
	   waited for a stage while a copy for another consumer was in flight there would mistake
	   one phase for the next. */
	static_assert(STAGES % WARPS == 0, "");
	/* The info of a tile must not be overwritten before the folder has read it. A stage
	   becomes free only after its consumer has stored its previous result, so this many
	   entries suffice. */
	static_assert(INFOS >= STAGES + 2 * WARPS, "");
	static_assert(
		merges % 8 == 0 && units % 8 == 0 && barriers % 8 == 0 && result % 16 == 0, "");
};

#ifdef QUIRE_SM90A

/* ---- the pipeline ---- */

static __device__ inline void fence_device()
{
	asm volatile("fence.acq_rel.gpu;\n" ::: "memory");
}

/* The shared memory of a block. Each mbarrier completes a phase after one arrival. */
template <class P> struct pipe {
	unsigned char *memory;
	uint32_t base; /* of memory, as shared address */

	__device__ inline uint32_t stage(uint32_t i) const
	{
		return base + i * P::stage;
	}
	__device__ inline uint32_t full(uint32_t stage) const
	{
		return base + P::barriers + stage * 8;
	}
	__device__ inline uint32_t empty(uint32_t stage) const
	{
		return full(STAGES + stage);
	}
	__device__ inline uint32_t result_full(uint32_t warp) const
	{
		return full(2 * STAGES + warp);
	}
	__device__ inline uint32_t result_empty(uint32_t warp) const
	{
		return full(2 * STAGES + WARPS + warp);
	}
	__device__ inline uint32_t unit_full() const
	{
		return full(2 * STAGES + 2 * WARPS);
	}
	__device__ inline uint32_t unit_empty() const
	{
		return full(2 * STAGES + 2 * WARPS + 1);
	}
	__device__ inline uint32_t merge_full(uint32_t merger) const
	{
		return full(2 * STAGES + 2 * WARPS + 2 + merger);
	}
	__device__ inline uint32_t merge_empty(uint32_t merger) const
	{
		return merge_full(MERGERS + merger);
	}
	__device__ inline tile_info *merge(uint32_t merger) const
	{
		return (tile_info *)(memory + P::merges) + merger;
	}
	__device__ inline tile_info *info(uint32_t n) const
	{
		return (tile_info *)(memory + P::infos) + n % INFOS;
	}
	__device__ inline float *result(uint32_t warp) const
	{
		return (float *)(memory + P::results + warp * P::result);
	}
	/* (heads) maximum and sum of weights; they follow the result. */
	__device__ inline float2 *state(uint32_t warp) const
	{
		return (float2 *)(result(warp) + P::heads * P::result_row);
	}
};

/* A position in the ring of stages. The producer advances by 1, consumers by WARPS. */
template <class P> struct stage_cursor {
	uint32_t stage, parity;

	__device__ inline void advance(uint32_t by)
	{
		stage += by;
		if (stage >= STAGES) {
			stage -= STAGES;
			parity ^= 1;
		}
	}
};

/* ---- scheduler ---- */

/* How units are claimed. Claim c is a chain, all splits of a row and head, while c <
   chain_count, and a single split from there on. */
struct claim_plan {
	uint32_t base;	       /* index of this launch's first split */
	uint32_t first_single; /* the first split that is claimed singly */
	uint32_t chain_count;
	uint32_t claim_count;
	uint32_t assigned; /* claims that follow from the block index */
};

/* A claim that is being looked up. The address of each load depends on the load before, so a
   claim passes through load_split(), load_row() and find_offset() in successive rounds. */
struct claim_lookup {
	uint32_t claim; /* claim_count or more: none */
	bool is_chain;
	uint32_t kv_head;
	struct decode_split split; /* the row and the first split */
	uint32_t context, table_row, first_split, end_split;
};

/* Chains need no merge in global memory. The single splits at the end let all blocks end
   together; there are about as many for each block as the longest row has splits. */
static __device__ inline claim_plan make_claim_plan(const decode_arguments &a)
{
	uint32_t end = a.split_start[a.first_row + a.row_count], longest = 0;
	claim_plan claims;

	claims.base = a.split_start[a.first_row];
	for (uint32_t r = threadIdx.x % WARP; r < a.row_count; r += WARP) {
		longest = max(longest, a.contexts[a.first_row + r]);
	}
	longest = __reduce_max_sync(0xffffffffu, longest);
	longest = (longest + DECODE_SPLIT - 1) / DECODE_SPLIT;
	uint32_t units = (end - claims.base) * a.shape.kv_head_count;
	uint32_t singles = longest * gridDim.x;
	claims.first_single = claims.base;
	claims.chain_count = 0;
	if (longest <= CHAIN_SPLITS && units > singles) {
		uint32_t row = a.splits[end - 1 - singles / a.shape.kv_head_count].row;
		claims.chain_count = (row - a.first_row) * a.shape.kv_head_count;
		claims.first_single = a.split_start[row];
	}
	claims.claim_count =
		claims.chain_count + (end - claims.first_single) * a.shape.kv_head_count;
	claims.assigned = ASSIGNED_CLAIMS * gridDim.x;
	return claims;
}

/* Looks up the row and first split of a claim. All heads share the list of splits. */
static __device__ inline void load_split(
	const decode_arguments &a, const claim_plan &claims, claim_lookup &c)
{
	uint32_t single = c.claim - claims.chain_count;

	if (c.claim < claims.chain_count) {
		c.is_chain = true;
		c.kv_head = c.claim % a.shape.kv_head_count;
		c.split.row = a.first_row + c.claim / a.shape.kv_head_count;
	} else if (c.claim < claims.claim_count) {
		c.kv_head = single % a.shape.kv_head_count;
		c.split = a.splits[claims.first_single + single / a.shape.kv_head_count];
	}
}

static __device__ inline void load_row(
	const decode_arguments &a, const claim_plan &claims, claim_lookup &c)
{
	if (c.claim < claims.claim_count) {
		c.context = a.contexts[c.split.row];
		c.table_row = a.rows[c.split.row];
		c.first_split = a.split_start[c.split.row];
		c.end_split = a.split_start[c.split.row + 1];
	}
}

/* Lane l gets the pool offset of tokens 64 * l to 64 * l + 63 of the claim. */
static __device__ inline uint64_t find_offset(const decode_arguments &a, const claim_lookup &c)
{
	uint32_t position = c.split.index * DECODE_SPLIT + threadIdx.x % WARP * TABLE_STEP;

	if (position >= c.context) {
		return 0;
	}
	const uint32_t *table = a.tables + (size_t)c.table_row * a.shape.table_width;
	return paged_kv_offset(&a.shape, table[position / a.shape.block_size], c.kv_head,
		position % a.shape.block_size);
}

/* The block's i-th claim. */
static __device__ inline uint32_t claim_at(
	const decode_arguments &a, const claim_plan &claims, uint32_t i)
{
	uint32_t claimed = 0;

	if (i < ASSIGNED_CLAIMS) {
		return blockIdx.x + i * gridDim.x;
	}
	if (claims.claim_count <= claims.assigned) {
		return claims.claim_count;
	}
	if (threadIdx.x % WARP == 0) {
		claimed = atomicAdd(a.arrivals, 1);
		/* Each block makes one claim past the end; the last of these resets the counter. */
		if (claimed == claims.claim_count - claims.assigned + gridDim.x - 1) {
			*a.arrivals = 0;
		}
	}
	return claims.assigned + __shfl_sync(0xffffffffu, claimed, 0);
}

/* Passes the block's n-th unit to the producer: split i of a claim. */
template <class P>
static __device__ inline void push_unit(const decode_arguments &a, const pipe<P> &pipe,
	const claim_plan &claims, const claim_lookup &c, uint64_t offset, uint32_t i, uint32_t n)
{
	const uint32_t steps = DECODE_SPLIT / TABLE_STEP;
	uint32_t lane = threadIdx.x % WARP;
	uint32_t first = (c.split.index + i) * DECODE_SPLIT;
	unit *shared = (unit *)(pipe.memory + P::units);

	barrier_wait(pipe.unit_empty(), (n & 1) ^ 1);
	if (lane / steps == i) {
		shared->offset[lane % steps] = offset;
	}
	if (lane == 0) {
		uint32_t count = min(c.context - first, (uint32_t)DECODE_SPLIT);
		shared->count = count;
		shared->has_last_token = first + count == c.context;
		shared->row = c.split.row;
		shared->kv_head = c.kv_head;
		shared->split = c.first_split - claims.base + c.split.index + i;
		shared->first_split = c.first_split - claims.base;
		shared->split_count = c.end_split - c.first_split;
		shared->is_whole = c.is_chain || c.end_split - c.first_split == 1;
	}
	__syncwarp();
	if (lane == 0) {
		barrier_arrive(pipe.unit_full());
	}
}

/* The scheduler warp. Three claims are in progress at once, one load of each a round, because
   the latencies of dependent loads add up. */
template <class P> static __device__ void schedule(const decode_arguments &a, const pipe<P> &pipe)
{
	const claim_plan claims = make_claim_plan(a);
	claim_lookup current = {claim_at(a, claims, 0)}, next = {claim_at(a, claims, 1)};
	uint32_t claim = claim_at(a, claims, 2), n = 0;

	load_split(a, claims, current);
	load_split(a, claims, next);
	load_row(a, claims, current);
	for (uint32_t i = 0; current.claim < claims.claim_count; i++) {
		claim_lookup after_next = {claim};
		uint64_t offset = find_offset(a, current);
		load_row(a, claims, next);
		load_split(a, claims, after_next);
		uint32_t splits = current.is_chain ? current.end_split - current.first_split : 1;
		for (uint32_t k = 0; k < splits; k++, n++) {
			push_unit<P>(a, pipe, claims, current, offset, k, n);
		}
		if (i + 3 == ASSIGNED_CLAIMS) {
			dependency_wait(); /* before the first access to the counter */
		}
		claim = claim < claims.claim_count ? claim_at(a, claims, i + 3) : claim;
		current = next;
		next = after_next;
	}
	barrier_wait(pipe.unit_empty(), (n & 1) ^ 1);
	if (threadIdx.x % WARP == 0) {
		((unit *)(pipe.memory + P::units))->count = 0;
		barrier_arrive(pipe.unit_full());
	}
}

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

/* Starts the copies of a tile's keys and values and writes its info. */
template <class P>
static __device__ inline void copy_tile(const decode_arguments &a, const pipe<P> &pipe,
	uint32_t stage, uint32_t n, const unit &u, uint32_t first, uint64_t policy)
{
	uint32_t count = min(u.count - first, (uint32_t)TILE);
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;
	uint64_t offset = u.offset[first / TABLE_STEP] + (first % TABLE_STEP) * P::d;
	uint32_t to = pipe.stage(stage), barrier = pipe.full(stage);
	tile_info *info = pipe.info(n);

	info->count = count;
	info->is_last = first + count == u.count;
	info->row = u.row;
	info->kv_head = u.kv_head;
	info->split = u.split;
	info->first_split = u.first_split;
	info->split_count = u.split_count;
	info->is_whole = u.is_whole;
	barrier_arrive_expecting(barrier, 2 * count * P::row + group * P::row);
	copy_bytes(to, a.keys + offset, count * P::row, barrier, policy);
	copy_bytes(to + P::tile_bytes, a.values + offset, count * P::row, barrier, policy);
}

template <class P> static __device__ void produce(const decode_arguments &a, const pipe<P> &pipe)
{
	const unit &u = *(const unit *)(pipe.memory + P::units);
	uint64_t policy = evict_first_policy();
	stage_cursor<P> to = {0, 1};
	uint32_t n = 0;
	bool is_waiting = true; /* the dependency wait is still to come */
	auto wait = [&]() {
		dependency_wait();
		for (uint32_t i = 0; i < n; i++) {
			copy_query<P>(a, pipe, i, pipe.info(i));
		}
		is_waiting = false;
	};

	for (uint32_t i = 0;; i++) {
		barrier_wait(pipe.unit_full(), i & 1);
		if (u.count == 0) {
			break;
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

template <class P, bool IS_FULL>
static __device__ inline void compute_tile(
	tile_result<P> &result, uint32_t stage, uint32_t count, uint32_t group, float scale)
{
	float score[TILE / 16][4];
	uint32_t weight[TILE / 16][2];
	uint32_t lane = threadIdx.x % WARP;
	uint32_t query = stage + 2 * P::tile_bytes + (lane / 4) * P::row + (lane % 4) * 4;
	bool is_head = lane / 4 < group;
	auto load_query = [&](int k, uint32_t *b) {
		b[0] = b[1] = 0;
		if (is_head) {
			asm volatile("ld.shared.b32 %0, [%1];\n"
				     : "=r"(b[0])
				     : "r"(query + k * 32));
			asm volatile("ld.shared.b32 %0, [%1];\n"
				     : "=r"(b[1])
				     : "r"(query + k * 32 + 16));
		}
	};

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

template <class P>
static __device__ void consume(const decode_arguments &a, const pipe<P> &pipe, uint32_t warp)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;
	stage_cursor<P> from = {warp, 0};

	for (uint32_t n = warp, round = 0;; n += WARPS, round++) {
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
			barrier_arrive(pipe.empty(from.stage));
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

/* ---- merger ---- */

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
static __device__ inline void store_unit(
	const decode_arguments &a, const fold<P> &fold, const tile_info &info)
{
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;

#pragma unroll
	for (int i = 0; i < fold.pieces; i++) {
		uint32_t head = piece_head<P>(i);
		if (head < group) {
			size_t at = (size_t)info.split * a.shape.head_count + info.kv_head * group +
				    head;
			*(float4 *)(a.partial_out + at * P::d + piece_dimension<P>()) = fold.out[i];
			if (piece_dimension<P>() == 0) {
				a.partial_state[at] = make_float2(fold.max[i], fold.sum[i]);
			}
		}
	}
}

/* Counts a stored unit; true for the last one of its row and head. */
static __device__ inline bool is_last_to_arrive(const decode_arguments &a, const tile_info &info)
{
	uint32_t *arrivals = a.arrivals + 1 + info.row * a.shape.kv_head_count + info.kv_head;
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
};

template <class P>
static __device__ void fold_all_tiles(const decode_arguments &a, const pipe<P> &pipe)
{
	uint32_t lane = threadIdx.x % WARP, warp = 0, parity = 0;
	merge_queue<P> mergers = {0, 1};
	fold<P> fold, chain;

	dependency_wait();
	clear_padding(a);
	fold_clear<P>(fold);
	fold_clear<P>(chain);
	for (uint32_t n = 0;; n++) {
		barrier_wait(pipe.result_full(warp), parity);
		const tile_info info = *pipe.info(n);
		if (info.count == 0) {
			for (uint32_t i = 0; i < MERGERS; i++) {
				mergers.push(pipe, info);
			}
			return;
		}
		const float *out = pipe.result(warp) + piece_dimension<P>();
#pragma unroll
		for (int i = 0; i < fold.pieces; i++) {
			uint32_t head = piece_head<P>(i);
			fold_add<P>(fold, i, *(const float4 *)(out + head * P::result_row),
				pipe.state(warp)[head]);
		}
		__syncwarp();
		if (lane == 0) {
			barrier_arrive(pipe.result_empty(warp));
		}
		warp = warp + 1 == WARPS ? 0 : warp + 1;
		parity ^= warp == 0;
		if (info.is_last) {
			if (info.is_whole) {
#pragma unroll
				for (int i = 0; i < fold.pieces; i++) {
					fold_add<P>(chain, i, fold.out[i],
						make_float2(fold.max[i], fold.sum[i]));
				}
				if (info.split + 1 == info.first_split + info.split_count) {
					store_out<P>(a, chain, info.row, info.kv_head);
					fold_clear<P>(chain);
				}
			} else {
				store_unit<P>(a, fold, info);
				mergers.push(pipe, info);
			}
			fold_clear<P>(fold);
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

#endif

/* ---- kernel and launcher ---- */

template <class P>
static __global__ void __launch_bounds__(P::threads, 1)
	decode_attention_sm90_kernel(decode_arguments a)
{
#ifdef QUIRE_SM90A
	extern __shared__ __align__(1024) unsigned char memory[];

	dependents_launch();
	uint32_t warp = threadIdx.x / WARP;
	pipe<P> pipe = {memory, shared_address(memory)};

	if (threadIdx.x == 0) {
		for (uint32_t i = 0; i < P::barrier_count; i++) {
			barrier_init(pipe.full(i), 1);
		}
		barrier_init_done();
	}
	__syncthreads();
	if (warp < WARPS) {
		consume<P>(a, pipe, warp);
	} else if (warp == WARPS) {
		if (threadIdx.x % WARP == 0) {
			produce<P>(a, pipe);
		}
	} else if (warp == WARPS + 1) {
		schedule<P>(a, pipe);
	} else if (warp == WARPS + 2) {
		fold_all_tiles<P>(a, pipe);
	} else {
		merge<P>(a, pipe, warp - WARPS - 3);
	}
#endif
}

template <class P>
static int launch(const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	cudaError_t error = cudaFuncSetAttribute(decode_attention_sm90_kernel<P>,
		cudaFuncAttributeMaxDynamicSharedMemorySize, P::bytes);

	if (error != cudaSuccess) {
		return (int)error;
	}
	return launch_dependent(
		decode_attention_sm90_kernel<P>, block_count, P::threads, P::bytes, stream, a);
}

template <int D>
static int launch_heads(const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	uint32_t group = a.shape.head_count / a.shape.kv_head_count;

	if (group <= 2) {
		return launch<plan<D, 2>>(a, block_count, stream);
	}
	if (group <= 4) {
		return launch<plan<D, 4>>(a, block_count, stream);
	}
	return launch<plan<D, 8>>(a, block_count, stream);
}

int decode_attention_sm90(const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	return a.shape.head_dim == 64 ? launch_heads<64>(a, block_count, stream)
				      : launch_heads<128>(a, block_count, stream);
}
