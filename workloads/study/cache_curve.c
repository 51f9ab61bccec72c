#include "workloads/study/cache_curve.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/generate/fixed.h"

#include <inttypes.h>
#include <stdlib.h>

/* Inserts a capacity in order, unless it is present. */
static void add_point(struct cache_curve *curve, uint64_t capacity, bool is_asked)
{
	uint32_t at = curve->point_count;

	while (at > 0 && curve->points[at - 1].capacity >= capacity) {
		at--;
	}
	if (at < curve->point_count && curve->points[at].capacity == capacity) {
		curve->points[at].is_asked = curve->points[at].is_asked || is_asked;
		return;
	}
	for (uint32_t i = curve->point_count; i > at; i--) {
		curve->points[i] = curve->points[i - 1];
	}
	curve->points[at] = (struct cache_point){.capacity = capacity, .is_asked = is_asked};
	curve->point_count++;
}

/* No trace has more blocks than references, and fixed_exp2() gives no more than these. */
_Static_assert((uint64_t)REFERENCES_MAX < UINT64_C(1) << 31, "a power of 2 below 2^31");

static void add_spread(struct cache_curve *curve, uint64_t block_count)
{
	int64_t whole = u64_log2(block_count);

	for (int64_t i = 0; i < CACHE_CURVE_SPREAD; i++) {
		int64_t power = fixed_exp2(whole * i / (CACHE_CURVE_SPREAD - 1));
		uint64_t capacity = (uint64_t)(power + FIXED_ONE / 2) >> 32;
		add_point(curve, u64_min(capacity, block_count), false);
	}
	add_point(curve, block_count, false); /* rounding may put the last point below it */
}

struct cache_hits cache_hits_at(
	const struct references *references, enum cache_policy policy, uint64_t capacity)
{
	struct cache_hits result;
	uint64_t block_count = references->block_count;

	if (policy == CACHE_INFINITE) {
		return cache_infinite(references);
	}
	if (policy == CACHE_FIFO) {
		return cache_fifo(references, capacity);
	}
	if (policy == CACHE_BELADY) {
		uint32_t *next_use = memory_take(references->reference_count, sizeof(*next_use));
		cache_next_uses(references, next_use);
		result = cache_belady(references, next_use, capacity);
		free(next_use);
		return result;
	}
	struct cache_hits *hits = memory_take(block_count + 1, sizeof(*hits));
	if (policy == CACHE_LRU_STREAM) {
		cache_lru_stream(references, hits);
	} else {
		cache_lru_tail(references, hits);
	}
	result = hits[u64_min(capacity, block_count)];
	free(hits);
	return result;
}

void cache_curve_make(struct cache_curve *curve, const struct references *references,
	const uint64_t *asked, uint32_t asked_count)
{
	uint64_t block_count = references->block_count;
	struct cache_hits *stream = memory_take(block_count + 1, sizeof(*stream));
	struct cache_hits *tail = memory_take(block_count + 1, sizeof(*tail));
	uint32_t *next_use = memory_take(references->reference_count, sizeof(*next_use));
	struct cache_hits infinite = cache_infinite(references);

	check(block_count >= 1 && asked_count <= CACHE_CURVE_ASKED_MAX);
	curve->point_count = 0;
	add_spread(curve, block_count);
	for (uint32_t i = 0; i < asked_count; i++) {
		check(asked[i] >= 1);
		add_point(curve, asked[i], true);
	}
	cache_lru_stream(references, stream);
	cache_lru_tail(references, tail);
	cache_next_uses(references, next_use);
	for (uint32_t i = 0; i < curve->point_count; i++) {
		struct cache_point *point = &curve->points[i];
		uint64_t within = u64_min(point->capacity, block_count);
		point->hits[CACHE_LRU_STREAM] = stream[within];
		point->hits[CACHE_LRU_TAIL] = tail[within];
		point->hits[CACHE_FIFO] = cache_fifo(references, point->capacity);
		point->hits[CACHE_BELADY] = cache_belady(references, next_use, point->capacity);
		point->hits[CACHE_INFINITE] = infinite;
	}
	free(stream);
	free(tail);
	free(next_use);
}

void cache_curve_write(const struct cache_curve *curve, const struct references *references,
	uint64_t kv_bytes_per_token, FILE *file)
{
	fprintf(file, "capacity_blocks\tcapacity_tokens\tcapacity_gib\ttotal_blocks\ttotal_tokens");
	for (uint32_t p = 0; p < CACHE_POLICY_COUNT; p++) {
		const char *name = cache_policy_name((enum cache_policy)p);
		fprintf(file, "\t%s_hit_blocks\t%s_hit_tokens", name, name);
	}
	fprintf(file, "\n");
	for (uint32_t i = 0; i < curve->point_count; i++) {
		const struct cache_point *point = &curve->points[i];
		uint64_t tokens = point->capacity * references->block_size;
		fprintf(file, "%" PRIu64 "\t%" PRIu64 "\t", point->capacity, tokens);
		if (kv_bytes_per_token > 0) {
			fprintf(file, "%.6f",
				(double)tokens * (double)kv_bytes_per_token / (1 << 30));
		} else {
			fprintf(file, "-");
		}
		fprintf(file, "\t%" PRIu64 "\t%" PRIu64, references->reference_count,
			references->token_count);
		for (uint32_t p = 0; p < CACHE_POLICY_COUNT; p++) {
			fprintf(file, "\t%" PRIu64 "\t%" PRIu64, point->hits[p].blocks,
				point->hits[p].tokens);
		}
		fprintf(file, "\n");
	}
}
