#ifndef ENGINE_SHAPE_PREFILL_TILES_H
#define ENGINE_SHAPE_PREFILL_TILES_H

#include <stdint.h>

#include "engine/base/number.h"
#include "engine/shape/kernel_tiles.h"

/* The work of prefill attention in a step, counted as the kernel cuts it.

   A row's queries are cut into tiles of PREFILL_QUERY_TILE, the last one in part. Every tile is
   computed once for each query head, by one multiprocessor, which walks through the keys of the
   tile's last query. The longest tiles come first. */

/* Tiles of `count` queries. */
static inline uint64_t prefill_tile_count(uint64_t count)
{
	return u64_divide_up(count, PREFILL_QUERY_TILE);
}

/* The keys of all tiles of `count` tokens behind `first` others. */
static inline uint64_t prefill_tile_keys(uint64_t first, uint64_t count)
{
	uint64_t tiles = prefill_tile_count(count), tile = PREFILL_QUERY_TILE;

	return tiles == 0 ? 0 : tiles * first + tile * (tiles * (tiles - 1) / 2) + count;
}

/* What the tiles are spread over; 0, 0: not known. */
struct prefill_spread {
	uint32_t heads; /* query heads of a rank */
	uint32_t multiprocessors;
};

/* The keys that the busiest multiprocessor walks through, at the least: the mean of all, rounded
   up, or the largest k * (keys of the tile at place (k - 1) * multiprocessors) of all heads' tiles
   in falling order, since of (k - 1) * multiprocessors + 1 tiles one multiprocessor computes k. It
   is at least the longest tile's keys, and never falls when a tile or a key is added. 0 where the
   spread is not known. ends: (count), the keys of each tile, in falling order. */
uint64_t prefill_chain_keys(
	const uint32_t *ends, uint32_t count, const struct prefill_spread *spread);

/* The same of a single prompt: `count` tokens behind `first` others. */
uint64_t prefill_chain_of_prompt(
	uint64_t first, uint64_t count, const struct prefill_spread *spread);

/* Writes the keys of the tiles of a prompt, in falling order. Returns their number. */
uint32_t prefill_tile_ends(uint32_t *ends, uint32_t first, uint32_t count);

/* Puts keys in falling order. */
void prefill_tiles_sort(uint32_t *ends, uint32_t count);

#endif
