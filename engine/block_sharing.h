#ifndef ENGINE_BLOCK_SHARING_H
#define ENGINE_BLOCK_SHARING_H

#include <stdint.h>
#include <stdlib.h>

#include "engine/base/memory.h"

/* What some rows save, or read again, because they hold the same blocks: the decode rows of a step,
   or its prefill rows. A row is counted when it takes a block, and discounted when it leaves, so a
   step in between costs nothing. */

struct block_sharing {
	uint32_t *holders;     /* (block_count) rows that hold each */
	uint32_t readers;      /* rows that one reading of a block serves; 0: not known. To be set
				  while no row is counted */
	uint64_t shared_count; /* holders beyond the first of each block */
	uint64_t reread_parts; /* sum of block_reread_part() */
	uint64_t repeat_count; /* sum of block_repeats() */
};

/* Of a block that k rows hold, a step reads k - 1 copies again, each C / k tokens after the reading
   before, where C is the context of all rows. So reread tokens * C is the sum of these distances:
   (k - 1) / k of a block. In whole parts, so that sums stay exact as rows come and go. */
enum { BLOCK_REREAD_PARTS = 1 << 16 };

static inline uint64_t block_reread_part(uint32_t holders)
{
	return holders == 0 ? 0 : (uint64_t)(holders - 1) * BLOCK_REREAD_PARTS / holders;
}

/* How often a step reads a block that `holders` rows hold again, where one reading serves `readers`
   of them; 0 where that is not known (0). */
static inline uint32_t block_repeats(uint32_t holders, uint32_t readers)
{
	return readers == 0 || holders == 0 ? 0 : (holders - 1) / readers;
}

static inline void block_sharing_init(struct block_sharing *sharing, uint32_t block_count)
{
	*sharing = (struct block_sharing){
		.holders = memory_take(block_count, sizeof(*sharing->holders))};
}

static inline void block_sharing_deinit(struct block_sharing *sharing)
{
	free(sharing->holders);
}

/* Counts a row that holds the blocks of table: (count). */
static inline void block_sharing_hold(
	struct block_sharing *sharing, const uint32_t *table, uint32_t count)
{
	uint32_t *holders = sharing->holders, readers = sharing->readers;

	for (const uint32_t *end = table + count; table < end; table++) {
		uint32_t before = holders[*table]++;
		if (before > 0) {
			sharing->shared_count++;
			sharing->reread_parts +=
				block_reread_part(before + 1) - block_reread_part(before);
			sharing->repeat_count +=
				block_repeats(before + 1, readers) - block_repeats(before, readers);
		}
	}
}

/* Undoes block_sharing_hold(). */
static inline void block_sharing_let_go(
	struct block_sharing *sharing, const uint32_t *table, uint32_t count)
{
	uint32_t *holders = sharing->holders, readers = sharing->readers;

	for (const uint32_t *end = table + count; table < end; table++) {
		uint32_t after = --holders[*table];
		if (after > 0) {
			sharing->shared_count--;
			sharing->reread_parts -=
				block_reread_part(after + 1) - block_reread_part(after);
			sharing->repeat_count -=
				block_repeats(after + 1, readers) - block_repeats(after, readers);
		}
	}
}

#endif
