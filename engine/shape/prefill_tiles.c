#include "engine/shape/prefill_tiles.h"

#include <stdbool.h>

static bool is_known(const struct prefill_spread *spread)
{
	return spread->heads > 0 && spread->multiprocessors > 0;
}

static uint64_t mean_keys(uint64_t keys, const struct prefill_spread *spread)
{
	return u64_divide_up(keys * spread->heads, spread->multiprocessors);
}

uint64_t prefill_chain_keys(
	const uint32_t *ends, uint32_t count, const struct prefill_spread *spread)
{
	uint64_t tiles = (uint64_t)count * spread->heads, keys = 0, longest = 0, round = 1;

	if (!is_known(spread)) {
		return 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		keys += ends[i];
	}
	for (uint64_t at = 0; at < tiles; at += spread->multiprocessors) {
		longest = u64_max(longest, round++ * ends[at / spread->heads]);
	}
	return u64_max(longest, mean_keys(keys, spread));
}

/* The tiles but the last are full, and the last one is the longest. */
uint64_t prefill_chain_of_prompt(
	uint64_t first, uint64_t count, const struct prefill_spread *spread)
{
	uint64_t tiles = prefill_tile_count(count), longest = 0, round = 1;

	if (!is_known(spread)) {
		return 0;
	}
	for (uint64_t at = 0; at < tiles * spread->heads; at += spread->multiprocessors) {
		uint64_t tile = at / spread->heads;
		uint64_t end = tile == 0 ? count : (tiles - tile) * PREFILL_QUERY_TILE;
		longest = u64_max(longest, round++ * (first + end));
	}
	return u64_max(longest, mean_keys(prefill_tile_keys(first, count), spread));
}

uint32_t prefill_tile_ends(uint32_t *ends, uint32_t first, uint32_t count)
{
	uint32_t tiles = 0;

	for (uint32_t end = count; end > 0;) {
		ends[tiles++] = first + end;
		end = (end - 1) / PREFILL_QUERY_TILE * PREFILL_QUERY_TILE;
	}
	return tiles;
}

/* Sorted by gaps (Ciura's). The tiles of a prompt are in order already. */
void prefill_tiles_sort(uint32_t *ends, uint32_t count)
{
	static const uint32_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};

	for (uint32_t g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++) {
		uint32_t gap = gaps[g];
		for (uint32_t i = gap; i < count; i++) {
			uint32_t end = ends[i], at = i;
			for (; at >= gap && ends[at - gap] < end; at -= gap) {
				ends[at] = ends[at - gap];
			}
			ends[at] = end;
		}
	}
}
