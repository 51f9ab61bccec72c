#ifndef WORKLOADS_STUDY_INDEX_SET_H
#define WORKLOADS_STUDY_INDEX_SET_H

#include <stdbool.h>
#include <stdint.h>

/* A set of integers below a fixed bound that knows its largest member, as bits in a tree: a bit of
   a word above says that the word below is not empty.

       level 2                   1
       level 1          1 0 0 ...    1 ...
       level 0   0 1 1 0 ...  (members)  */

enum { INDEX_SET_LEVELS_MAX = 6 };

struct index_set {
	uint64_t *levels[INDEX_SET_LEVELS_MAX]; /* levels[0] holds the members */
	uint32_t level_count;
	uint32_t bound;
	uint64_t count;
};

/* Members are below `bound`. */
void index_set_init(struct index_set *set, uint32_t bound);
void index_set_deinit(struct index_set *set);

bool index_set_has(const struct index_set *set, uint32_t member);

/* The member must not be, or must be, in the set. */
void index_set_add(struct index_set *set, uint32_t member);
void index_set_remove(struct index_set *set, uint32_t member);

/* The largest member of a set that is not empty. */
uint32_t index_set_last(const struct index_set *set);

#endif
