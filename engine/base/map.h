#ifndef ENGINE_BASE_MAP_H
#define ENGINE_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 64-bit keys to 64-bit values, for all whose point is not the table itself: open addressing with
   linear probing, a power of two of entries, at most half of them in use. It grows and never
   shrinks; nothing is removed. The order of its entries is never seen. Zeroed is empty. */

struct map_entry {
	uint64_t key, value;
};

struct map {
	struct map_entry *entries; /* (entry_count), owned; NULL: none yet */
	size_t entry_count;
	size_t count;	   /* keys */
	bool has_last_key; /* UINT64_MAX, which marks free entries, is kept apart */
	uint64_t last_value;
};

void map_deinit(struct map *map);

/* Makes room for so many keys, so that adding them moves nothing. */
void map_reserve(struct map *map, size_t count);

/* The value of a key; NULL: there is none. It lives until a key is added. */
uint64_t *map_find(const struct map *map, uint64_t key);

/* The value of a key, which is added with `value` when it is new. */
uint64_t *map_add(struct map *map, uint64_t key, uint64_t value);

#endif
