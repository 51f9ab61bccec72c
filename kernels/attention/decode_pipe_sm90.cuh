#ifndef KERNELS_ATTENTION_DECODE_PIPE_SM90_CUH
#define KERNELS_ATTENTION_DECODE_PIPE_SM90_CUH

#include "kernels/attention/decode_tile_sm90.cuh"

/* The shared memory of decode_sm90.cu and decode_shared_sm90.cu: what their warps hand to each
   other, and the mbarriers.

       EARLY_UNITS       units whose keys and values may be copied before the dependency wait
       ASSIGNED_CLAIMS   claims of a block that follow from its index, in a long launch
       LANE_TOKENS       tokens whose place in the pool a lane of the scheduler looks up
       OWNERS            warps of a block that merge rows, where rows have owners
       INFOS             entries of the ring of struct tile_info
       COLUMN_BLOCKS     warps that compute a shared unit, a column block of 8 query heads each:
                         the consumers and the folder
       SLOTS             shared units whose queries are in shared memory */
enum { EARLY_UNITS = 2, ASSIGNED_CLAIMS = DECODE_ASSIGNED_CLAIMS, LANE_TOKENS = 64 };
enum { WARPS = 3, STAGES = 6, MERGERS = DECODE_MERGERS, OWNERS = 5, INFOS = 32 };
enum { COLUMN_BLOCK = DECODE_COLUMN_BLOCK, COLUMN_BLOCKS = DECODE_COLUMN_BLOCKS, SLOTS = 2 };
static_assert((int)COLUMN_BLOCKS == WARPS + 1, "the consumers and the folder");
enum { COLUMNS = COLUMN_BLOCK * COLUMN_BLOCKS };
enum { SPLIT_LANES = DECODE_SPLIT / LANE_TOKENS }; /* lanes that look up a split */
enum { LOOKUP_SPLITS = 32 / SPLIT_LANES };	   /* splits that a warp looks up at once */

enum unit_kind {
	UNIT_PART,
	UNIT_WHOLE, /* this block computes all splits of the row and head */
	UNIT_CHAIN, /* this block computes the row's splits from the first on, but not all */
	UNIT_CHAIN_END,
};

/* From the scheduler to the producer. */
template <int STEP> struct unit {
	/* pool offset of each STEP tokens, in elements; a shared unit has several splits */
	uint64_t offset[COLUMN_BLOCKS * DECODE_SPLIT / STEP];
	uint32_t count;		 /* tokens; 0: no more units */
	uint32_t shared_splits;	 /* of a shared unit, for which nothing below is set; or 0 */
	uint32_t has_last_token; /* the unit has the last token of the row */
	uint32_t row;		 /* of the batch */
	uint32_t kv_head;
	uint32_t split;	      /* index within this launch */
	uint32_t first_split; /* of the row */
	uint32_t split_count; /* of the row */
	uint32_t kind;	      /* enum unit_kind */
};

/* From the scheduler to the warps that compute a shared unit, and to the counter. */
struct shared_unit {
	uint32_t row_count; /* 0: no more shared units */
	uint32_t kv_head;
	uint32_t index; /* of the first split, in each row */
	uint32_t splits;
	uint32_t row[COLUMNS];	       /* of the batch */
	uint32_t first_split[COLUMNS]; /* of the row, within this launch */
	uint32_t split_count[COLUMNS]; /* of the row */
};

/* From the producer to consumers, folder and mergers: describes a tile. */
struct tile_info {
	uint32_t count;	  /* tokens; 0: no more tiles */
	uint32_t is_last; /* of its unit */
	uint32_t row, kv_head;
	uint32_t split, first_split, split_count;
	uint32_t kind;
};

/* Sizes and offsets in shared memory, in bytes. HEADS: capacity in query heads, a power of two.
   HAS_SHARED: with slots for shared units. STEP: tokens that are sure to lie in one KV block, of
   which a tile has one or several. */
template <int D, int HEADS, bool HAS_SHARED, int STEP> struct plan {
	static constexpr int d = D, heads = HEADS;
	static constexpr int step = STEP, lane_steps = LANE_TOKENS / STEP;
	static constexpr bool has_shared = HAS_SHARED;
	static constexpr int threads = (WARPS + 3 + (HAS_SHARED ? 1 + OWNERS : MERGERS)) * WARP;
	static constexpr int row = D * 2, tile_bytes = TILE * row; /* K or V of a tile */
	static constexpr int stage = 2 * tile_bytes + HEADS * row;
	static constexpr int result_row = D + 4; /* floats, with padding against bank conflicts */
	static constexpr int result = HEADS * (result_row + 2) * 4;
	static constexpr int query_row = row + 16; /* of a shared unit, with padding likewise */
	static constexpr int slot = COLUMNS * query_row;
	static constexpr int results = STAGES * stage;
	/* Slots lie where results do: shared units come first. */
	static constexpr int slots = results;
	static constexpr int slots_bytes = HAS_SHARED ? SLOTS * slot : 0;
	static constexpr int results_bytes =
		WARPS * result > slots_bytes ? WARPS *result : slots_bytes;
	static constexpr int infos = results + results_bytes;
	static constexpr int merges = infos + INFOS * (int)sizeof(tile_info);
	static constexpr int units = merges + MERGERS * (int)sizeof(tile_info);
	static constexpr int shared_units = units + (int)sizeof(unit<STEP>);
	static constexpr int barriers =
		shared_units + (HAS_SHARED ? SLOTS * (int)sizeof(shared_unit) : 0);
	static constexpr int barrier_count = 2 * (STAGES + WARPS + 1 + MERGERS + SLOTS) + SLOTS;
	static constexpr int bytes = barriers + barrier_count * 8;

	static_assert(
		DECODE_SPLIT % TILE == 0 && (int)LANE_TOKENS == (int)TILE && TILE % STEP == 0, "");
	/* Each stage belongs to one consumer. Copies may end out of order. A consumer that
	   waited for a stage while a copy for another consumer was in flight there would mistake
	   one phase for the next. */
	static_assert(STAGES % WARPS == 0, "");
	/* The info of a tile must not be overwritten before the folder has read it. A stage
	   becomes free only after its consumer has stored its previous result, so this many
	   entries suffice. */
	static_assert(INFOS >= STAGES + 2 * WARPS, "");
	static_assert(merges % 8 == 0 && units % 8 == 0 && shared_units % 8 == 0 &&
			      barriers % 8 == 0 && result % 16 == 0 && slots % 16 == 0 &&
			      bytes <= SM90_SHARED_BYTES,
		"");
};

#ifdef QUIRE_SM90A

static __device__ inline void fence_device()
{
	asm volatile("fence.acq_rel.gpu;\n" ::: "memory");
}

/* The shared memory of a block. An mbarrier completes a phase after one arrival. With shared units,
   empty stages and stored slots wait for all warps that compute them, which are four; the counter
   arrives four times at an empty slot. */
template <class P> struct pipe {
	unsigned char *memory;
	uint32_t base; /* of memory, as shared address */

	__device__ inline uint32_t barrier(uint32_t i) const
	{
		return base + P::barriers + i * 8;
	}
	__device__ inline uint32_t stage(uint32_t i) const
	{
		return base + i * P::stage;
	}
	__device__ inline uint32_t empty(uint32_t stage) const
	{
		return barrier(stage);
	}
	__device__ inline uint32_t slot_empty(uint32_t slot) const
	{
		return barrier(STAGES + slot);
	}
	__device__ inline uint32_t slot_stored(uint32_t slot) const
	{
		return slot_empty(SLOTS + slot);
	}
	__device__ inline uint32_t slot_full(uint32_t slot) const
	{
		return slot_stored(SLOTS + slot);
	}
	__device__ inline uint32_t full(uint32_t stage) const
	{
		return slot_full(SLOTS + stage);
	}
	__device__ inline uint32_t result_full(uint32_t warp) const
	{
		return full(STAGES + warp);
	}
	__device__ inline uint32_t result_empty(uint32_t warp) const
	{
		return result_full(WARPS + warp);
	}
	__device__ inline uint32_t unit_full() const
	{
		return result_empty(WARPS);
	}
	__device__ inline uint32_t unit_empty() const
	{
		return result_empty(WARPS + 1);
	}
	__device__ inline uint32_t merge_full(uint32_t merger) const
	{
		return result_empty(WARPS + 2 + merger);
	}
	__device__ inline uint32_t merge_empty(uint32_t merger) const
	{
		return merge_full(MERGERS + merger);
	}
	__device__ inline void init() const
	{
		for (uint32_t i = 0; i < P::barrier_count; i++) {
			barrier_init(barrier(i),
				P::has_shared && i < STAGES + 2 * SLOTS ? COLUMN_BLOCKS : 1);
		}
		barrier_init_done();
	}
	__device__ inline tile_info *merge(uint32_t merger) const
	{
		return (tile_info *)(memory + P::merges) + merger;
	}
	__device__ inline tile_info *info(uint32_t n) const
	{
		return (tile_info *)(memory + P::infos) + n % INFOS;
	}
	__device__ inline unit<P::step> *scheduled() const
	{
		return (unit<P::step> *)(memory + P::units);
	}
	__device__ inline struct shared_unit *shared_unit(uint32_t slot) const
	{
		return (struct shared_unit *)(memory + P::shared_units) + slot;
	}
	/* (COLUMNS) queries of a shared unit. */
	__device__ inline uint32_t queries(uint32_t slot) const
	{
		return base + P::slots + slot * P::slot;
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

/* Where LANE_TOKENS of a sequence lie in the pool: the offset of each step. */
template <class P> struct lane_offsets {
	uint64_t at[P::lane_steps];
};

/* Where a block is a step: without divisions. */
template <class P>
static __device__ inline void lookup_steps(const decode_arguments &a, lane_offsets<P> &offsets,
	const uint32_t *table, uint32_t kv_head, const uint32_t (&position)[P::lane_steps])
{
	uint32_t block[P::lane_steps];

#pragma unroll
	for (uint32_t i = 0; i < P::lane_steps; i++) {
		block[i] = table[position[i] / PAGED_KV_STEP];
	}
#pragma unroll
	for (uint32_t i = 0; i < P::lane_steps; i++) {
		offsets.at[i] = ((uint64_t)block[i] * a.shape.kv_head_count + kv_head) *
				(PAGED_KV_STEP * P::d);
	}
}

/* Of tokens [first, first + LANE_TOKENS) as far as they lie before `end`; of others any. */
template <class P>
static __device__ inline lane_offsets<P> lookup_offsets(const decode_arguments &a,
	uint32_t table_row, uint32_t kv_head, uint32_t first, uint32_t end)
{
	const uint32_t *table = a.tables + (size_t)table_row * a.shape.table_width;
	lane_offsets<P> offsets = {};

	/* All loads precede the first use, without a branch in between: their latencies overlap. */
	if (first < end) {
		uint32_t position[P::lane_steps], block[P::lane_steps];
#pragma unroll
		for (uint32_t i = 0; i < P::lane_steps; i++) {
			uint32_t at = first + i * P::step;
			position[i] = i == 0 || at < end ? at : first;
		}
		if (P::lane_steps > 1 && a.shape.block_size == PAGED_KV_STEP) {
			lookup_steps<P>(a, offsets, table, kv_head, position);
			return offsets;
		}
#pragma unroll
		for (uint32_t i = 0; i < P::lane_steps; i++) {
			block[i] = table[position[i] / a.shape.block_size];
		}
#pragma unroll
		for (uint32_t i = 0; i < P::lane_steps; i++) {
			offsets.at[i] = paged_kv_offset(
				&a.shape, block[i], kv_head, position[i] % a.shape.block_size);
		}
	}
	return offsets;
}

/* Writes them as those of lane `lane` of the unit. */
template <class P>
static __device__ inline void put_offsets(
	unit<P::step> &unit, uint32_t lane, const lane_offsets<P> &offsets)
{
#pragma unroll
	for (uint32_t i = 0; i < P::lane_steps; i++) {
		unit.offset[lane * P::lane_steps + i] = offsets.at[i];
	}
}

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

#endif

#endif
