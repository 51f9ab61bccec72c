#ifndef WORKLOADS_STUDY_CACHE_CURVE_H
#define WORKLOADS_STUDY_CACHE_CURVE_H

#include <stdio.h>

#include "workloads/study/cache.h"

/* Hits against cache size: every policy at capacities spaced evenly on a logarithmic scale from one
   block to all different blocks of the trace, and at requested ones. */

enum { CACHE_CURVE_SPREAD = 64, CACHE_CURVE_ASKED_MAX = 64 };

struct cache_point {
	uint64_t capacity; /* blocks */
	bool is_asked;
	struct cache_hits hits[CACHE_POLICY_COUNT];
};

struct cache_curve {
	uint32_t point_count;
	struct cache_point points[CACHE_CURVE_SPREAD + CACHE_CURVE_ASKED_MAX]; /* by capacity */
};

/* references: of at least one row. asked: (asked_count) capacities, each at least 1; asked_count <=
   CACHE_CURVE_ASKED_MAX. Needs 64 bytes of temporary memory for each different block of the trace.
 */
void cache_curve_make(struct cache_curve *curve, const struct references *references,
	const uint64_t *asked, uint32_t asked_count);

/* Writes the curve as a table, a row a capacity: capacity_blocks, capacity_tokens, capacity_gib (-
   without kv_bytes_per_token), total_blocks and total_tokens of all prompts, and POLICY_hit_blocks
   and POLICY_hit_tokens of every policy. kv_bytes_per_token: 0: no model. A failed write is
   reported when the file is closed. */
void cache_curve_write(const struct cache_curve *curve, const struct references *references,
	uint64_t kv_bytes_per_token, FILE *file);

/* The hits of one policy at one capacity. */
struct cache_hits cache_hits_at(
	const struct references *references, enum cache_policy policy, uint64_t capacity);

#endif
