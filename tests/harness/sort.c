#include "tests/harness/sort.h"

#include <stdlib.h>

static int compare_u64(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a;
	uint64_t second = *(const uint64_t *)b;

	return (first > second) - (first < second);
}

void sort_u64(uint64_t *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare_u64);
}
