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

   Scheduling: blocks claim the entries of the host's list (decode_list.h), each once for every
   key/value head. Most are whole rows, which the block merges without global memory. The first
   claims of a block follow from its index; later ones come from an atomic counter, because
   multiprocessors are not equally fast.

   PDL: keys and values of earlier steps are copied before the dependency wait; the queries, and
   the tile with the row's last token, after it. Nothing is written to global memory before it. */

#ifdef QUIRE_SM90A

/* ---- scheduler ---- */

/* The claims of a launch. */
struct claim_list {
	uint32_t first; /* entry */
	uint32_t base;	/* index of this launch's first split */
	uint32_t count; /* claims */
	uint32_t assigned;
};

/* A claim that is being looked up. */
struct claim_lookup {
	uint32_t claim; /* count or more: none */
	uint32_t kv_head;
	struct decode_claim entry;
};

/* Of the first launch of a step nothing is loaded but the number of claims, which the first claims
   do not wait for. */
static __device__ inline claim_list load_claims(const decode_arguments &a)
{
	claim_list claims = {};

	if (a.first_row > 0) {
		claims.first = a.launch->first;
		claims.base = a.split_start[a.first_row];
	}
	claims.count = a.launch->count * a.shape.kv_head_count;
	claims.assigned = DECODE_ASSIGNED_SHORT * gridDim.x;
	return claims;
}

/* Loads the entry of a claim. Of the first DECODE_EARLY_CLAIMS of a block it may lie behind the
   last entry, where there is memory. */
static __device__ inline claim_lookup load_entry(
	const decode_arguments &a, const claim_list &claims, uint32_t claim)
{
	uint32_t entry = claim / a.shape.kv_head_count;
	claim_lookup c = {claim, claim - entry * a.shape.kv_head_count, {}};
	uint4 loaded = *(const uint4 *)(a.claims + claims.first + entry);

	static_assert(sizeof(loaded) == sizeof(c.entry), "one load");
	memcpy(&c.entry, &loaded, sizeof(loaded));
	return c;
}

/* Lane l gets the pool offsets of tokens 64 * l to 64 * l + 63 behind split k of the claim. */
template <class P>
static __device__ inline lane_offsets<P> find_offsets(
	const decode_arguments &a, const claim_lookup &c, uint32_t k)
{
	uint32_t lane = threadIdx.x % WARP, begin = (c.entry.index + k) * DECODE_SPLIT;
	uint32_t end = (c.entry.index + c.entry.count) * DECODE_SPLIT;

	return lookup_offsets<P>(a, c.entry.table_row, c.kv_head, begin + lane * LANE_TOKENS,
		min(end, c.entry.context));
}

/* The block's i-th claim. */
static __device__ inline uint32_t claim_at(
	const decode_arguments &a, const claim_list &claims, uint32_t i)
{
	uint32_t claimed = 0;

	if (i < DECODE_ASSIGNED_SHORT) {
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

/* Passes the block's n-th unit to the producer: split k of a claim, whose row has these splits. */
template <class P>
static __device__ inline void push_unit(const pipe<P> &pipe, const claim_lookup &c,
	const lane_offsets<P> &offsets, uint32_t k, uint32_t first_split, uint32_t split_count,
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
		shared->has_last_token = first + count == c.entry.context;
		shared->row = c.entry.row;
		shared->kv_head = c.kv_head;
		shared->split = first_split + index;
		shared->first_split = first_split;
		shared->split_count = split_count;
		shared->kind = c.entry.count == split_count ? UNIT_WHOLE : UNIT_PART;
	}
	__syncwarp();
	if (lane == 0) {
		barrier_arrive(pipe.unit_full());
	}
}

/* The scheduler warp. The next claim's entry and the number of the one behind it are loaded while a
   claim is passed on, because the latencies of dependent loads add up. */
template <class P> static __device__ void schedule(const decode_arguments &a, const pipe<P> &pipe)
{
	const claim_list claims = load_claims(a);
	claim_lookup current = load_entry(a, claims, claim_at(a, claims, 0));
	claim_lookup next = load_entry(a, claims, claim_at(a, claims, 1));
	uint32_t claim = claim_at(a, claims, 2), n = 0;

	for (uint32_t i = 0; current.claim < claims.count; i++) {
		lane_offsets<P> offsets = find_offsets<P>(a, current, 0);
		uint32_t first_split = a.split_start[current.entry.row];
		uint32_t splits = a.split_start[current.entry.row + 1] - first_split;
		for (uint32_t k = 0; k < current.entry.count; k++, n++) {
			if (k > 0 && k % LOOKUP_SPLITS == 0) {
				offsets = find_offsets<P>(a, current, k);
			}
			push_unit<P>(
				pipe, current, offsets, k, first_split - claims.base, splits, n);
		}
		current = next;
		if (claim < claims.count) {
			next = load_entry(a, claims, claim);
			if (i + 3 == DECODE_ASSIGNED_SHORT) {
				dependency_wait(); /* before the first access to the counter */
			}
			claim = claim_at(a, claims, i + 3);
		} else {
			next.claim = claims.count;
		}
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
	const uint64_t early = (uint64_t)DECODE_EARLY_CLAIMS * block_count;

	if (early > (uint64_t)DECODE_CLAIMS_BEHIND * a.shape.kv_head_count) {
		return cudaErrorInvalidValue;
	}
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
