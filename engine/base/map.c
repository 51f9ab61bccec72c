#include "engine/base/map.h"

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>

enum { ENTRIES_AT_START = 64 };

#define FREE UINT64_MAX

void map_deinit(struct map *map)
{
	free(map->entries);
	*map = (struct map){0};
}

/* The entry of a key, or the free entry for it. */
static inline struct map_entry *entry_of(const struct map *map, uint64_t key)
{
	size_t mask = map->entry_count - 1;
	size_t i = (size_t)counter_mix(key) & mask;

	while (map->entries[i].key != FREE && map->entries[i].key != key) {
		i = (i + 1) & mask;
	}
	return &map->entries[i];
}

static void resize(struct map *map, size_t entry_count)
{
	const struct map old = *map;

	map->entry_count = entry_count;
	map->entries = memory_take(entry_count, sizeof(*map->entries));
	for (size_t i = 0; i < entry_count; i++) {
		map->entries[i].key = FREE;
	}
	for (size_t i = 0; i < old.entry_count; i++) {
		if (old.entries[i].key != FREE) {
			*entry_of(map, old.entries[i].key) = old.entries[i];
		}
	}
	free(old.entries);
}

void map_reserve(struct map *map, size_t count)
{
	size_t needed = (size_t)u64_power_of_two_at_least(u64_max(2 * count, ENTRIES_AT_START));

	if (needed > map->entry_count) {
		resize(map, needed);
	}
}

uint64_t *map_find(const struct map *map, uint64_t key)
{
	if (map->entries != NULL) {
		struct map_entry *entry = entry_of(map, key);
		if (entry->key != FREE) {
			return &entry->value;
		}
	}
	return key == FREE && map->has_last_key ? (uint64_t *)&map->last_value : NULL;
}

uint64_t *map_add(struct map *map, uint64_t key, uint64_t value)
{
	if (key == FREE) {
		map->last_value = map->has_last_key ? map->last_value : value;
		map->count += !map->has_last_key;
		map->has_last_key = true;
		return &map->last_value;
	}
	if (2 * (map->count + 1) > map->entry_count) {
		map_reserve(map, map->count + 1);
	}
	struct map_entry *entry = entry_of(map, key);
	if (entry->key == FREE) {
		*entry = (struct map_entry){key, value};
		map->count++;
	}
	return &entry->value;
}
