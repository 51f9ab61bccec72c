#ifndef TESTS_HARNESS_SORT_H
#define TESTS_HARNESS_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts in ascending order. */
void sort_u64(uint64_t *values, size_t count);

#endif
