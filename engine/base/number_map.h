#ifndef ENGINE_BASE_NUMBER_MAP_H
#define ENGINE_BASE_NUMBER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 64-bit keys to 64-bit numbers: open addressing, a power of two of places, at most half full. The
   order of its places is never seen. */

struct number_map {
	struct number_place *places; /* (place_count) */
	size_t place_count;
	size_t count;
};

void number_map_init(struct number_map *map);
void number_map_deinit(struct number_map *map);

/* The number under a key, set to `otherwise` when the key is new. */
uint64_t number_map_get(struct number_map *map, uint64_t key, uint64_t otherwise);

#endif
