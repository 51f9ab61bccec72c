#include "workloads/study/index_set.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <stdlib.h>

void index_set_init(struct index_set *set, uint32_t bound)
{
	uint64_t words = bound;

	*set = (struct index_set){.bound = bound};
	do {
		words = words / 64 + 1;
		check(set->level_count < INDEX_SET_LEVELS_MAX);
		set->levels[set->level_count++] = memory_take(words, sizeof(uint64_t));
	} while (words > 1);
}

void index_set_deinit(struct index_set *set)
{
	for (uint32_t i = 0; i < set->level_count; i++) {
		free(set->levels[i]);
	}
	*set = (struct index_set){0};
}

bool index_set_has(const struct index_set *set, uint32_t member)
{
	check(member < set->bound);
	return set->levels[0][member / 64] >> (member % 64) & 1;
}

void index_set_add(struct index_set *set, uint32_t member)
{
	uint32_t at = member;

	check(!index_set_has(set, member));
	for (uint32_t level = 0; level < set->level_count; level++) {
		uint64_t *word = &set->levels[level][at / 64];
		bool was_empty = *word == 0;
		*word |= UINT64_C(1) << (at % 64);
		if (!was_empty) {
			break;
		}
		at /= 64;
	}
	set->count++;
}

void index_set_remove(struct index_set *set, uint32_t member)
{
	uint32_t at = member;

	check(index_set_has(set, member));
	for (uint32_t level = 0; level < set->level_count; level++) {
		uint64_t *word = &set->levels[level][at / 64];
		*word &= ~(UINT64_C(1) << (at % 64));
		if (*word != 0) {
			break;
		}
		at /= 64;
	}
	set->count--;
}

uint32_t index_set_last(const struct index_set *set)
{
	uint64_t at = 0;

	check(set->count > 0);
	for (uint32_t level = set->level_count; level-- > 0;) {
		uint64_t word = set->levels[level][at];
		at = at * 64 + (63 - (uint64_t)__builtin_clzll(word));
	}
	return (uint32_t)at;
}
