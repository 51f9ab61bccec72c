#include "engine/base/map.h"

#include <criterion/criterion.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

enum { PAIRS_MAX = 600 };

struct pair {
	uint64_t key, value;
};

/* A list that is searched from its beginning. */
struct naive_map {
	struct pair pairs[PAIRS_MAX];
	uint32_t count;
};

static struct pair *naive_find(struct naive_map *naive, uint64_t key)
{
	for (uint32_t i = 0; i < naive->count; i++) {
		if (naive->pairs[i].key == key) {
			return &naive->pairs[i];
		}
	}
	return NULL;
}

/* Few different keys, so that most are found again; neighbours and both ends of the range. */
static uint64_t draw_key(struct prop *prop)
{
	uint64_t key = prop_below(prop, 200);

	switch (prop_below(prop, 4)) {
	case 0:
		return key;
	case 1:
		return UINT64_MAX - key;
	case 2:
		return key << 32;
	default:
		return key * UINT64_C(0x9e3779b97f4a7c15);
	}
}

static void body_map(struct prop *prop, const void *context)
{
	static struct naive_map naive;
	struct map map = {0};
	uint32_t steps = prop_range(prop, 0, PAIRS_MAX);

	(void)context;
	naive.count = 0;
	if (prop_chance(prop, 1, 4)) {
		map_reserve(&map, prop_range(prop, 0, PAIRS_MAX));
	}
	for (uint32_t i = 0; i < steps; i++) {
		uint64_t key = draw_key(prop);
		struct pair *pair = naive_find(&naive, key);
		uint64_t *found = map_find(&map, key);
		prop_log(prop, "key %llx", (unsigned long long)key);
		require((found == NULL) == (pair == NULL), "one of both has the key");
		require(found == NULL || *found == pair->value, "another value");
		switch (prop_below(prop, 3)) {
		case 0:
			if (found != NULL) {
				*found = pair->value = i;
			}
			break;
		default:
			if (pair == NULL) {
				pair = &naive.pairs[naive.count++];
				*pair = (struct pair){key, i};
			}
			require_equal(*map_add(&map, key, i), pair->value);
			break;
		}
		require_equal(map.count, naive.count);
	}
	for (uint32_t i = 0; i < naive.count; i++) {
		require_equal(*map_find(&map, naive.pairs[i].key), naive.pairs[i].value);
	}
	map_deinit(&map);
	require(map_find(&map, 1) == NULL, "a key in an empty map");
}

Test(map, finds_what_a_list_finds)
{
	const struct prop_options options = {.name = "map", .body = body_map, .trials = 1000};

	cr_expect(prop_holds(&options));
}

Test(map, keeps_what_came_first_while_it_grows)
{
	struct map map = {0};

	for (uint64_t i = 0; i < 100000; i++) {
		require_equal(*map_add(&map, i * i, i), i);
	}
	for (uint64_t i = 0; i < 100000; i++) {
		require_equal(*map_add(&map, i * i, 77), i);
	}
	require_equal(map.count, 100000);
	map_deinit(&map);
}

Test(map, moves_nothing_within_what_was_reserved)
{
	struct map map = {0};

	map_reserve(&map, 1000);
	const struct map_entry *entries = map.entries;
	for (uint64_t i = 0; i < 1000; i++) {
		map_add(&map, i, i);
	}
	require(map.entries == entries, "the entries have moved");
	map_deinit(&map);
}
