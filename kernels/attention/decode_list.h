#ifndef KERNELS_ATTENTION_DECODE_LIST_H
#define KERNELS_ATTENTION_DECODE_LIST_H

#include "engine/shape/kernel_tiles.h"
#include "kernels/attention/paged_kv.h"
#include "kernels/op/launch.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	/* First claims of a block, which follow from its index: in a long launch and in others. */
	DECODE_ASSIGNED_CLAIMS = 4,
	DECODE_ASSIGNED_SHORT = 8,
	/* Of these a block of a launch that is not long loads so many entries before it knows how
	   many there are. They lie within so many behind the last one. */
	DECODE_EARLY_CLAIMS = 2,
	DECODE_CLAIMS_BEHIND = 1024,
};

/* The work list of decode attention: what its thread blocks claim, one entry after the other, once
   for each key/value head. The host fills it for every step from the block tables.

       shared   splits that several rows hold in equal blocks. Their keys and values are read once
                for up to decode_readers() rows; more rows have several entries.
       chain    the first splits of one row, which one block merges as it computes them
       single   one split of one row

   Claim c of a launch is head c % heads of entry c / heads. Block c % blocks makes it while c is
   less than DECODE_ASSIGNED_CLAIMS * blocks (DECODE_ASSIGNED_SHORT in the kernel of launches that
   are not long); who makes a later one is not known.

   Shared entries come first. Shared entries of several splits keep more warps busy; towards their
   end they have fewer, so that all blocks end together.

   A split is shared if it is full, all its blocks are those of the first row that has its last
   block, and the row's last token lies behind it. Rows can share any of their splits; what they
   share is found split by split, so every level of a tree of prefixes is. The lists decide only
   who computes what: the bits of a row do not depend on them. */

/* A launch is long if it has shared entries, or a row of more than DECODE_LONG splits (a row alone:
   decode_long_alone(), up to which decode_cluster_sm90.cu is faster). Long launches have a kernel
   of their own, decode_shared_sm90.cu; where it does not run, none is long. */

/* In a long launch without shared entries each row begins with a chain: its block stores one
   partial result instead of one for each split, and none where the chain is the whole row. The bits
   are the same, because splits are merged in ascending order anyway. Chains have about as many
   splits as keep all blocks busy until the singles, which let them end together. A chain is as long
   as the block allows that has most of the chains before. */

/* In a launch that is not long a chain is a whole row, so that nothing of it passes through global
   memory. The longest rows may be singles instead, so that all blocks end together. They come
   first, so that the others hide their merging, and longer chains before shorter ones. */

/* A shared entry has no row but the index of its readers, behind the claims:

       readers   uint32_t: their rows in the batch */
struct decode_claim {
	uint32_t row; /* of the batch */
	/* of the first split, which begins at token index * DECODE_SPLIT */
	uint32_t index : 24;
	/* splits; of a shared entry at most DECODE_COLUMN_BLOCKS, of a single 1 */
	uint32_t count : 8;
	uint32_t table_row; /* of the row, or of one of the readers */
	uint32_t context;   /* of the row; of a shared entry the number of readers */
};

/* The lists of one launch, in one array of claims. */
struct decode_launch {
	uint32_t first;	  /* claim */
	uint32_t shared;  /* claims that are shared entries */
	uint32_t chains;  /* of a long launch: claims that are chains, of its rows in order */
	uint32_t count;	  /* claims, with those */
	uint32_t readers; /* index in uint32_t, from the array's begin, of the first readers */
	uint32_t is_long;
};

/* Whether decode attention has the kernels of Hopper for a shape. Others know only singles. */
bool decode_list_has_sm90(enum kernel_path path, const struct attention_shape *shape);

/* When splits that several rows hold are read once for all of them. */
enum decode_sharing {
	DECODE_SHARING_AUTO, /* in steps that are long or save DECODE_SHARING_LEAST bytes */
	DECODE_SHARING_ON,   /* wherever a whole split is shared */
	DECODE_SHARING_OFF,
};

/* How lists are filled, and memory for it. */
struct decode_list {
	/* set by the caller before decode_list_open() */
	struct attention_shape shape;
	enum kernel_path path;
	enum decode_sharing sharing; /* decode_list_open() sets OFF where no kernel can */
	uint32_t block_count;	     /* thread blocks of a launch: decode_attention_blocks() */
	uint32_t pool_blocks;	     /* every entry of a table is below it */
	uint32_t row_capacity;
	uint32_t split_capacity; /* splits of all rows */

	struct decode_holder *holders; /* (pool_blocks * splits that end in a block) */
	uint32_t generation;
	struct decode_group *groups; /* (split_capacity) splits with several holders */
	struct decode_member *members;
	uint32_t group_count, member_count;
	bool *has_shared;  /* (row_capacity) */
	uint32_t *readers; /* (split_capacity) */
	/* (2 * row_capacity) readers of a run and of the group behind it, or rows by length */
	uint32_t *order;
	uint32_t *busy; /* (block_count) how much a block has to do, while claims are filled */
};

/* The most claims that the lists of so many splits need, readers included, in any number of
   launches, and DECODE_CLAIMS_BEHIND behind them. */
uint64_t decode_list_capacity(uint64_t splits);

/* Takes the memory; aborts where there is none. */
void decode_list_open(struct decode_list *list);
void decode_list_close(struct decode_list *list);

/* The rows of a launch, on the host; see struct decode_work. */
struct decode_rows {
	const uint32_t *tables, *rows, *contexts, *split_start;
	uint32_t first_row, row_count;
	bool may_share; /* else no shared splits are looked for */
};

/* The splits of a row. */
static inline uint32_t decode_splits_of(const struct decode_rows *rows, uint32_t row)
{
	return rows->split_start[row + 1] - rows->split_start[row];
}

/* So many splits of a row from `index` on. */
static inline struct decode_claim decode_claim_of(
	const struct decode_rows *rows, uint32_t row, uint32_t index, uint32_t count)
{
	struct decode_claim claim = {.row = row};

	claim.index = index & 0xffffff;
	claim.count = count & 0xff;
	claim.table_row = rows->rows[row];
	claim.context = rows->contexts[row];
	return claim;
}

/* Whether shared splits are to be looked for in a step. shared_tokens: of the step's counts, those
   that sharing saves at most. longest: splits of the longest row. The list's shape is that of one
   rank. */
bool decode_list_may_share(
	const struct decode_list *list, uint64_t shared_tokens, uint32_t longest);

/* Fills claims from index `first` on, and *launch. Returns the index behind them. */
uint32_t decode_list_fill(struct decode_list *list, const struct decode_rows *rows,
	struct decode_claim *claims, uint32_t first, struct decode_launch *launch);

#ifdef __cplusplus
}
#endif

#endif
