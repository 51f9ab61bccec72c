#include "engine/batch.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

enum { PROMPTS_MAX = 12, TILES_MAX = 400, PROCESSORS_MAX = 150, HEADS_MAX = 9 };

struct drawn {
	uint32_t prompts;
	uint32_t first[PROMPTS_MAX + 1], count[PROMPTS_MAX + 1];
	struct prefill_spread spread;
};

static void draw(struct prop *prop, struct drawn *drawn)
{
	memset(drawn, 0, sizeof(*drawn));
	drawn->prompts = prop_range(prop, 1, PROMPTS_MAX);
	drawn->spread.heads = prop_range(prop, 1, HEADS_MAX);
	drawn->spread.multiprocessors = prop_range(prop, 1, PROCESSORS_MAX);
	for (uint32_t i = 0; i < drawn->prompts; i++) {
		drawn->first[i] = prop_chance(prop, 1, 2) ? prop_below(prop, 60000) : 0;
		drawn->count[i] = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 300 : 3000);
	}
}

/* The keys of every tile, query by query, in no order. */
static uint32_t naive_ends(const struct drawn *drawn, uint32_t *ends)
{
	uint32_t tiles = 0;

	for (uint32_t i = 0; i < drawn->prompts; i++) {
		for (uint32_t j = 0; j < drawn->count[i]; j++) {
			if (j % 128 == 127 || j + 1 == drawn->count[i]) {
				ends[tiles++] = drawn->first[i] + j + 1;
			}
		}
	}
	return tiles;
}

static uint32_t tiles_of(const struct drawn *drawn, uint32_t *tiles)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < drawn->prompts; i++) {
		count += prefill_tiles_list(tiles + count, drawn->first[i], drawn->count[i]);
	}
	prefill_tiles_sort(tiles, count);
	return count;
}

static uint64_t chain_of(const struct drawn *drawn)
{
	uint32_t tiles[TILES_MAX];
	uint32_t count = tiles_of(drawn, tiles);

	return prefill_chain_keys(tiles, count, &drawn->spread);
}

static uint64_t half_chain_of(const struct drawn *drawn)
{
	uint32_t tiles[TILES_MAX];
	uint32_t count = tiles_of(drawn, tiles);
	uint64_t longest = 0, alone = 0;

	for (uint32_t i = 0; i < drawn->prompts; i++) {
		longest = u64_max(longest, drawn->first[i] + drawn->count[i]);
		alone = u64_max(alone, prefill_half_chain_of_prompt(
					       drawn->first[i], drawn->count[i], &drawn->spread));
	}
	return prefill_half_chain_keys(tiles, count, longest, alone, &drawn->spread);
}

/* Work dealt one by one: to the first multiprocessor, the second and so on, and back again. */
static uint64_t naive_chain(
	const uint32_t *work, uint32_t tiles, const struct prefill_spread *spread)
{
	uint64_t load[PROCESSORS_MAX] = {0}, most = 0;
	uint32_t all = spread->multiprocessors;

	for (uint32_t i = 0; i < tiles * spread->heads; i++) {
		uint32_t at = i / all % 2 == 0 ? i % all : all - 1 - i % all;
		load[at] += work[i / spread->heads];
		most = u64_max(most, load[at]);
	}
	return most;
}

static int compare_falling(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return (*left < *right) - (*left > *right);
}

/* Halves of keys that each tile counts, query by query: both halves of one that is more than half
   full. */
static uint32_t naive_work(const struct drawn *drawn, uint32_t prompt, uint32_t *work)
{
	uint32_t tiles = 0, count = drawn->count[prompt];

	for (uint32_t j = 0; j < count; j++) {
		bool is_last = j + 1 == count;
		if (j % 128 == 127 || is_last) {
			work[tiles++] = (drawn->first[prompt] + j + 1) * (j % 128 >= 64 ? 2 : 1);
		}
	}
	return tiles;
}

/* The tiles of one prompt, its last one first. */
static uint64_t naive_alone(const struct drawn *drawn, uint32_t prompt)
{
	uint32_t work[TILES_MAX], backwards[TILES_MAX];
	uint32_t tiles = naive_work(drawn, prompt, work);

	for (uint32_t i = 0; i < tiles; i++) {
		backwards[i] = work[tiles - 1 - i];
	}
	return naive_chain(backwards, tiles, &drawn->spread);
}

/* All tiles in falling order of their work, or the tiles of one prompt. */
static uint64_t naive_half_chain(const struct drawn *drawn)
{
	uint32_t work[TILES_MAX], tiles = 0;
	uint64_t most = 0, longest = 0;

	for (uint32_t i = 0; i < drawn->prompts; i++) {
		tiles += naive_work(drawn, i, work + tiles);
		most = u64_max(most, naive_alone(drawn, i));
		longest = u64_max(longest, drawn->first[i] + drawn->count[i]);
	}
	if (2 * tiles * drawn->spread.heads <= drawn->spread.multiprocessors) {
		return (longest + 1) / 2;
	}
	qsort(work, tiles, sizeof(work[0]), compare_falling);
	return (u64_max(most, naive_chain(work, tiles, &drawn->spread)) + 1) / 2;
}

/* At least the longest tile and the mean, and at most the mean and a tile. */
static void body_bounds(struct prop *prop, const void *context)
{
	uint32_t tiles[TILES_MAX], ends[TILES_MAX], naive[TILES_MAX];
	uint64_t keys = 0, all = 0;
	struct drawn drawn;

	(void)context;
	draw(prop, &drawn);
	uint32_t count = tiles_of(&drawn, tiles), naive_count = naive_ends(&drawn, naive),
		 counted = 0;
	require_equal(count, naive_count);
	for (uint32_t i = 0; i < count; i++) {
		ends[i] = (uint32_t)prefill_tile_reach(tiles[i]);
		require(i == 0 || ends[i] <= ends[i - 1], "keys rise at tile %u", i);
		keys += ends[i];
		all += naive[i];
	}
	require_equal(keys, all);
	for (uint32_t i = 0; i < drawn.prompts; i++) {
		counted += (uint32_t)prefill_tile_count(drawn.count[i]);
		all -= prefill_tile_keys(drawn.first[i], drawn.count[i]);
	}
	require_equal(counted, count);
	require_equal(all, 0);
	uint64_t chain = prefill_chain_keys(tiles, count, &drawn.spread);
	require(chain >= ends[0], "shorter than the longest tile");
	require(chain * drawn.spread.multiprocessors >= keys * drawn.spread.heads,
		"less than the mean");
	require(chain * drawn.spread.multiprocessors <=
			keys * drawn.spread.heads +
				(uint64_t)ends[0] * drawn.spread.multiprocessors,
		"more than the mean and a tile");
	require_equal(chain, naive_chain(ends, count, &drawn.spread));
	uint64_t half = half_chain_of(&drawn);
	require_equal(half, naive_half_chain(&drawn));
	require(2 * half >= ends[0], "shorter than half of the longest tile");
}

Test(prefill_tiles, a_chain_is_what_the_busiest_multiprocessor_is_dealt)
{
	const struct prop_options options = {.name = "chains", .body = body_bounds, .trials = 1500};

	cr_assert(prop_holds(&options));
}

/* One more prompt, token, key or head. */
static void body_rises(struct prop *prop, const void *context)
{
	struct drawn drawn;

	(void)context;
	draw(prop, &drawn);
	uint64_t before = chain_of(&drawn), half_before = half_chain_of(&drawn);
	uint32_t i = prop_below(prop, drawn.prompts);
	switch (prop_below(prop, 4)) {
	case 0:
		drawn.first[drawn.prompts] = prop_below(prop, 60000);
		drawn.count[drawn.prompts++] = prop_range(prop, 1, 3000);
		break;
	case 1:
		drawn.count[i]++;
		break;
	case 2:
		drawn.first[i]++;
		break;
	default:
		drawn.spread.heads++;
	}
	uint64_t after = chain_of(&drawn);
	require(after >= before, "%llu keys before, %llu of more work", (unsigned long long)before,
		(unsigned long long)after);
	uint64_t half_after = half_chain_of(&drawn);
	require(half_after >= half_before, "%llu keys by half before, %llu of more work",
		(unsigned long long)half_before, (unsigned long long)half_after);
}

Test(prefill_tiles, a_chain_never_falls_with_more_work)
{
	const struct prop_options options = {
		.name = "longer chains", .body = body_rises, .trials = 3000};

	cr_assert(prop_holds(&options));
}

static void body_prompt(struct prop *prop, const void *context)
{
	struct drawn drawn;

	(void)context;
	draw(prop, &drawn);
	drawn.prompts = 1;
	require_equal(prefill_chain_of_prompt(drawn.first[0], drawn.count[0], &drawn.spread),
		chain_of(&drawn));
	uint64_t half = prefill_half_chain_of_prompt(drawn.first[0], drawn.count[0], &drawn.spread);
	bool is_halved = 2 * prefill_tile_count(drawn.count[0]) * drawn.spread.heads <=
			 drawn.spread.multiprocessors;
	uint64_t naive = is_halved ? drawn.first[0] + drawn.count[0] : naive_alone(&drawn, 0);
	require_equal(half, (naive + 1) / 2);
	require(half <= half_chain_of(&drawn), "more than beside nothing");
}

Test(prefill_tiles, of_one_prompt_the_chain_is_that_of_its_tiles)
{
	const struct prop_options options = {
		.name = "one prompt", .body = body_prompt, .trials = 1500};

	cr_assert(prop_holds(&options));
}

Test(prefill_tiles, equal_tiles_are_rounds)
{
	const struct prefill_spread spread = {.heads = 16, .multiprocessors = 132};

	for (uint32_t tiles = 1; tiles < 100; tiles++) {
		uint32_t full[100], half[100];
		for (uint32_t i = 0; i < tiles; i++) {
			full[i] = prefill_tile(700, true);
			half[i] = prefill_tile(700, false);
		}
		uint32_t rounds = (tiles * 16 + 131) / 132;
		bool is_halved = tiles <= 4;
		cr_assert_eq(prefill_chain_keys(full, tiles, &spread), rounds * 700);
		cr_assert_eq(prefill_chain_keys(half, tiles, &spread), rounds * 700);
		cr_assert_eq(prefill_half_chain_keys(full, tiles, 700, 0, &spread),
			rounds * (is_halved ? 350 : 700));
		cr_assert_eq(prefill_half_chain_keys(half, tiles, 700, 0, &spread), rounds * 350);
	}
}

Test(prefill_tiles, without_a_known_spread_there_is_no_chain)
{
	static const struct prefill_spread unknown[] = {{0, 0}, {16, 0}, {0, 132}};
	static const uint32_t tiles[] = {1800, 1400};

	for (uint32_t i = 0; i < 3; i++) {
		cr_assert_eq(prefill_chain_keys(tiles, 2, &unknown[i]), 0);
		cr_assert_eq(prefill_chain_of_prompt(100, 500, &unknown[i]), 0);
		cr_assert_eq(prefill_half_chain_keys(tiles, 2, 900, 0, &unknown[i]), 0);
		cr_assert_eq(prefill_half_chain_of_prompt(100, 500, &unknown[i]), 0);
	}
	cr_assert_eq(prefill_tile_keys(500, 0), 0);
}
