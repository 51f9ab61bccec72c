#include "engine/base/number_map.h"

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"

#include <stdlib.h>

struct number_place {
	uint64_t key, number;
	bool is_used;
};

enum { PLACES_AT_START = 1024 };

void number_map_init(struct number_map *map)
{
	*map = (struct number_map){.place_count = PLACES_AT_START};
	map->places = memory_take(map->place_count, sizeof(*map->places));
}

void number_map_deinit(struct number_map *map)
{
	free(map->places);
	*map = (struct number_map){0};
}

/* The place of a key, or the free one where it belongs. */
static struct number_place *find(const struct number_map *map, uint64_t key)
{
	size_t mask = map->place_count - 1;
	size_t i = (size_t)counter_mix(key) & mask;

	while (map->places[i].is_used && map->places[i].key != key) {
		i = (i + 1) & mask;
	}
	return &map->places[i];
}

static void grow(struct number_map *map)
{
	struct number_place *old = map->places;
	size_t old_count = map->place_count;

	map->place_count *= 2;
	map->places = memory_take(map->place_count, sizeof(*map->places));
	for (size_t i = 0; i < old_count; i++) {
		if (old[i].is_used) {
			*find(map, old[i].key) = old[i];
		}
	}
	free(old);
}

uint64_t number_map_get(struct number_map *map, uint64_t key, uint64_t otherwise)
{
	struct number_place *place = find(map, key);

	if (!place->is_used) {
		if (2 * (map->count + 1) > map->place_count) {
			grow(map);
			place = find(map, key);
		}
		map->count++;
		*place = (struct number_place){key, otherwise, true};
	}
	return place->number;
}
