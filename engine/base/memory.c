#include "engine/base/memory.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/unfinished.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

void memory_exhausted(size_t bytes)
{
	fprintf(stderr, "quire: out of memory: %zu bytes requested\n", bytes);
	unfinished_remove_all();
	exit(2);
}

void *memory_take(size_t count, size_t size)
{
	check(size > 0 && count <= SIZE_MAX / size);
	void *memory = calloc(count == 0 ? 1 : count, size);
	if (memory == NULL) {
		memory_exhausted(count * size);
	}
	return memory;
}

void *memory_take_uncleared(size_t bytes)
{
	void *memory = malloc(bytes == 0 ? 1 : bytes);

	if (memory == NULL) {
		memory_exhausted(bytes);
	}
	return memory;
}

struct XXH64_state_s *memory_take_hash(void)
{
	XXH64_state_t *hash = XXH64_createState();

	if (hash == NULL) {
		memory_exhausted(128); /* about the size of the state */
	}
	check(XXH64_reset(hash, 0) == XXH_OK);
	return hash;
}

void *memory_resize(void *memory, size_t bytes)
{
	memory = realloc(memory, bytes == 0 ? 1 : bytes);
	if (memory == NULL) {
		memory_exhausted(bytes);
	}
	return memory;
}

void *memory_grow(void *buffer, size_t *capacity, size_t count, size_t size)
{
	if (count <= *capacity) {
		return buffer;
	}
	size_t grown = (size_t)u64_power_of_two_at_least(u64_max(count, 16));
	check(size > 0 && grown <= SIZE_MAX / size);
	*capacity = grown;
	return memory_resize(buffer, grown * size);
}
