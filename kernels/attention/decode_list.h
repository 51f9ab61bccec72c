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
	DECODE_ASSIGNED_CLAIMS = 4, /* first claims of a block, which follow from its index */
};

/* The work list of decode attention: what its thread blocks claim, one entry after the other, once
   for each key/value head. The host fills it for every step from the block tables.

       shared   splits that several rows hold in equal blocks. Their keys and values are read once
                for up to decode_readers() rows; more rows have several entries.
       chain    the first splits of one row, which one block merges as it computes them
       single   one split of one row

   Shared entries come first, then singles. Shared entries of several splits keep more warps busy;
   towards their end they have fewer, so that all blocks end together.

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
   splits as keep all blocks busy until the singles, which let them end together. Claim c of a
   launch is made by block c % blocks while c is less than DECODE_ASSIGNED_CLAIMS * blocks, so a
   chain is as long as the block allows that has most of the chains before. */

/* A shared entry has no row but the index of its readers, behind the claims:

       readers   uint32_t: table row of one of them, their number, their rows in the batch */
struct decode_claim {
	uint32_t row; /* of the batch */
	/* of the first split, which begins at token index * DECODE_SPLIT */
	uint32_t index : 24;
	/* splits; of a shared entry at most DECODE_COLUMN_BLOCKS, of a single 1 */
	uint32_t count : 8;
};

/* The lists of one launch, in one array of claims. */
struct decode_launch {
	uint32_t first;	  /* claim */
	uint32_t shared;  /* claims that are shared entries */
	uint32_t chains;  /* else: claims that are chains, of the launch's rows in order */
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
	uint32_t *readers; /* (2 * split_capacity) */
	uint32_t *order;   /* (2 * row_capacity) readers of a run and of the group behind it */
	uint32_t *busy;	   /* (block_count) splits of chains, while these are filled */
};

/* The most claims that the lists of so many splits need, readers included, in any number of
   launches. */
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

/* Whether shared splits are to be looked for in a step. shared_tokens: of the step's counts, those
   that sharing saves at most. longest: splits of the longest row. The list's shape is that of one
   rank. */
bool decode_list_may_share(
	const struct decode_list *list, uint64_t shared_tokens, uint32_t longest);

/* Fills claims from index `first` on, and *launch. Returns the index behind them. Where no launch
   of a step has shared entries, claim i is split i of the step. */
uint32_t decode_list_fill(struct decode_list *list, const struct decode_rows *rows,
	struct decode_claim *claims, uint32_t first, struct decode_launch *launch);

#ifdef __cplusplus
}
#endif

#endif
