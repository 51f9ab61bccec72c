#ifndef WORKLOADS_STUDY_INDEX_SET_H
#define WORKLOADS_STUDY_INDEX_SET_H

#include <stdbool.h>
#include <stdint.h>

/* A set of integers below a fixed bound, with fast access to its largest member. It is a tree of
   bit words: a set bit means that the word below it is not empty.

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

/* add: the member must not be in the set. remove: it must be. */
void index_set_add(struct index_set *set, uint32_t member);
void index_set_remove(struct index_set *set, uint32_t member);

/* The largest member of a set that is not empty. */
uint32_t index_set_last(const struct index_set *set);

#endif
