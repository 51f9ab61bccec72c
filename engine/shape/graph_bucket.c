#include "engine/shape/graph_bucket.h"

#include "engine/base/integer.h"

uint64_t graph_bucket(uint64_t rows)
{
	if (rows <= GRAPH_BUCKET_STEP) {
		return rows == 0 ? 0 : u64_power_of_two_at_least(rows);
	}
	return u64_divide_up(rows, (uint64_t)GRAPH_BUCKET_STEP) * GRAPH_BUCKET_STEP;
}
