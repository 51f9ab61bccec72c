#include "kernels/attention/decode_stream_sm90.cuh"
#include "kernels/device/dynamic_shared.cuh"

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
                   merges all of them in ascending order (decode_merge_sm90.cuh). Several mergers
                   alternate, because each waits for round trips to global memory.

   Each buffer has a full and an empty mbarrier; warps wait only where a buffer is empty or full.
   The ring keeps bulk copies in flight all the time, and that makes the kernel fast. A result
   depends on its own row only, whichever block computes which unit when.

   Scheduling: most units are claimed as chains, all splits of a row and head, which the block
   merges without global memory. The last ones are claimed singly, so that all blocks end together.
   The first claims of a block follow from its index; later ones come from an atomic counter,
   because multiprocessors are not equally fast and units not equally long.

   PDL: keys and values of earlier steps are copied before the dependency wait; the queries, and
   the tile with the row's last token, after it. Nothing is written to global memory before it. */

/* Splits of the longest chain: all lanes of the scheduler look up LANE_TOKENS. */
enum { CHAIN_SPLITS = WARP * LANE_TOKENS / DECODE_SPLIT };

#ifdef QUIRE_SM90A

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
   claim passes through load_split(), load_row() and find_offsets() in successive rounds. */
struct claim_lookup {
	uint32_t claim; /* claim_count or more: none */
	bool is_chain;
	uint32_t kv_head;
	struct decode_claim split; /* the row and the first split */
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
		uint32_t row = a.claims[end - 1 - singles / a.shape.kv_head_count].row;
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
		c.split = a.claims[claims.first_single + single / a.shape.kv_head_count];
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

/* Lane l gets the pool offsets of tokens 64 * l to 64 * l + 63 of the claim. */
template <class P>
static __device__ inline lane_offsets<P> find_offsets(
	const decode_arguments &a, const claim_lookup &c)
{
	uint32_t first = c.split.index * DECODE_SPLIT + threadIdx.x % WARP * LANE_TOKENS;

	return lookup_offsets<P>(a, c.table_row, c.kv_head, first, c.context);
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
	const claim_plan &claims, const claim_lookup &c, const lane_offsets<P> &offsets, uint32_t i,
	uint32_t n)
{
	uint32_t lane = threadIdx.x % WARP;
	uint32_t first = (c.split.index + i) * DECODE_SPLIT;
	unit<P::step> *shared = pipe.scheduled();

	barrier_wait(pipe.unit_empty(), (n & 1) ^ 1);
	if (lane / SPLIT_LANES == i) {
		put_offsets<P>(*shared, lane % SPLIT_LANES, offsets);
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
		shared->kind =
			c.is_chain || c.end_split - c.first_split == 1 ? UNIT_WHOLE : UNIT_PART;
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
		const lane_offsets<P> offsets = find_offsets<P>(a, current);
		load_row(a, claims, next);
		load_split(a, claims, after_next);
		uint32_t splits = current.is_chain ? current.end_split - current.first_split : 1;
		for (uint32_t k = 0; k < splits; k++, n++) {
			push_unit<P>(a, pipe, claims, current, offsets, k, n);
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
		pipe.scheduled()->count = 0;
		barrier_arrive(pipe.unit_full());
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
		pipe.init();
	}
	__syncthreads();
	if (warp < WARPS) {
		consume<P>(a, pipe, warp, 0);
	} else if (warp == WARPS) {
		if (P::lane_steps > 1 ? elect_lane() : threadIdx.x % WARP == 0) {
			produce<P>(a, pipe);
		}
	} else if (warp == WARPS + 1) {
		schedule<P>(a, pipe);
	} else if (warp == WARPS + 2) {
		fold_all_tiles<P>(a, pipe, 0);
	} else {
		merge<P>(a, pipe, warp - WARPS - 3);
	}
#endif
}

template <class P>
static int launch(const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	const int code = allow_shared<decode_attention_sm90_kernel<P>>(P::bytes);

	if (code != 0) {
		return code;
	}
	return launch_dependent(
		decode_attention_sm90_kernel<P>, block_count, P::threads, P::bytes, stream, a);
}

int decode_attention_sm90(const decode_arguments &a, uint32_t block_count, cudaStream_t stream)
{
	return launch_plan<false>(
		a, [&](auto plan) { return launch<decltype(plan)>(a, block_count, stream); });
}
