#ifndef ENGINE_BASE_MAP_H
#define ENGINE_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A general-purpose map of 64-bit keys to 64-bit values: open addressing with linear probing, a
   power of two of entries, at most half of them in use. It only grows; keys cannot be removed. The
   order of entries is not exposed. A zeroed map is empty.

   A text or a structure is stored under its hash. Two of them may have the same hash: the caller
   compares the one found with its own, and tries the hash + 1 and so on until they are equal or
   nothing is found. */

struct map_entry {
	uint64_t key, value;
};

struct map {
	struct map_entry *entries; /* (entry_count), owned; NULL: none yet */
	size_t entry_count;
	size_t count;	   /* keys */
	bool has_last_key; /* UINT64_MAX marks free entries, so its value is stored separately */
	uint64_t last_value;
};

void map_deinit(struct map *map);

/* Makes room for this many keys, so that adding them moves no entries. */
void map_reserve(struct map *map, size_t count);

/* The value of a key, or NULL. The pointer is valid until a key is added. */
uint64_t *map_find(const struct map *map, uint64_t key);

/* The value of a key; a new key is added with `value`. */
uint64_t *map_add(struct map *map, uint64_t key, uint64_t value);

#endif
