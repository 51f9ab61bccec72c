#include "workloads/study/cache.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/study/index_set.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_YET = 0 };

const char *cache_policy_name(enum cache_policy policy)
{
	static const char *const names[CACHE_POLICY_COUNT] = {
		"lru_stream", "lru_tail", "fifo", "belady", "infinite"};

	check(policy < CACHE_POLICY_COUNT);
	return names[policy];
}

static void count_hit(struct cache_hits *hits, const struct references *references,
	uint64_t request, uint64_t index_in_request)
{
	uint32_t tokens = references_tokens(references, request, index_in_request);

	hits->blocks++;
	hits->tokens += tokens;
	if (request >= references->request_count / 2) {
		hits->blocks_2nd_half++;
		hits->tokens_2nd_half += tokens;
	}
}

/* ---- stack distances ----

   Touches are numbered. Each block has a mark at the number of its latest touch. The marks behind a
   block's own count the blocks touched since. A Fenwick tree sums the marks. */

struct stack {
	uint32_t *sums;	      /* (size + 1) Fenwick tree over touch numbers from 1 */
	uint32_t *last_touch; /* (block_count) NOT_YET: never touched */
	uint32_t size;
	uint32_t touch_count, mark_count;
};

static void stack_init(struct stack *stack, const struct references *references)
{
	stack->size = u32_from(references->reference_count);
	stack->sums = memory_take((size_t)stack->size + 1, sizeof(*stack->sums));
	stack->last_touch = memory_take(references->block_count, sizeof(*stack->last_touch));
	stack->touch_count = 0;
	stack->mark_count = 0;
}

static void stack_deinit(struct stack *stack)
{
	free(stack->sums);
	free(stack->last_touch);
}

/* Blocks touched after this one was; it must have been touched. */
static uint32_t stack_distance(const struct stack *stack, uint32_t block)
{
	uint32_t up_to = 0;

	for (uint32_t i = stack->last_touch[block]; i > 0; i &= i - 1) {
		up_to += stack->sums[i];
	}
	return stack->mark_count - up_to;
}

static void stack_add(struct stack *stack, uint32_t at, uint32_t difference)
{
	for (uint32_t i = at; i <= stack->size; i += i & (0 - i)) {
		stack->sums[i] += difference;
	}
}

static void stack_touch(struct stack *stack, uint32_t block)
{
	if (stack->last_touch[block] != NOT_YET) {
		stack_add(stack, stack->last_touch[block], UINT32_MAX);
	} else {
		stack->mark_count++;
	}
	stack->last_touch[block] = ++stack->touch_count;
	stack_add(stack, stack->touch_count, 1);
}

/* Turns hits by the smallest capacity that finds them into hits by capacity (prefix sums). */
static void accumulate(struct cache_hits *hits, uint64_t block_count)
{
	for (uint64_t i = 1; i <= block_count; i++) {
		hits[i].blocks += hits[i - 1].blocks;
		hits[i].tokens += hits[i - 1].tokens;
		hits[i].blocks_2nd_half += hits[i - 1].blocks_2nd_half;
		hits[i].tokens_2nd_half += hits[i - 1].tokens_2nd_half;
	}
}

void cache_lru_stream(const struct references *references, struct cache_hits *hits)
{
	struct stack stack;

	stack_init(&stack, references);
	memset(hits, 0, (references->block_count + 1) * sizeof(*hits));
	for (uint64_t r = 0; r < references->request_count; r++) {
		uint64_t start = references->request_start[r];
		for (uint64_t i = start; i < references->request_start[r + 1]; i++) {
			uint32_t block = references->blocks[i];
			if (stack.last_touch[block] != NOT_YET) {
				uint32_t distance = stack_distance(&stack, block);
				count_hit(&hits[distance + 1], references, r, i - start);
			}
			stack_touch(&stack, block);
		}
	}
	accumulate(hits, references->block_count);
	stack_deinit(&stack);
}

void cache_lru_tail(const struct references *references, struct cache_hits *hits)
{
	struct stack stack;

	stack_init(&stack, references);
	memset(hits, 0, (references->block_count + 1) * sizeof(*hits));
	for (uint64_t r = 0; r < references->request_count; r++) {
		uint64_t start = references->request_start[r];
		uint64_t end = references->request_start[r + 1];
		uint32_t farthest = 0; /* a run is found when its farthest block is */
		for (uint64_t i = start; i < end; i++) {
			uint32_t block = references->blocks[i];
			if (stack.last_touch[block] == NOT_YET) {
				break;
			}
			farthest = u32_max(farthest, stack_distance(&stack, block));
			count_hit(&hits[farthest + 1], references, r, i - start);
		}
		for (uint64_t i = end; i-- > start;) {
			stack_touch(&stack, references->blocks[i]);
		}
	}
	accumulate(hits, references->block_count);
	stack_deinit(&stack);
}

/* ---- one capacity at a time ---- */

struct cache_hits cache_fifo(const struct references *references, uint64_t capacity)
{
	struct cache_hits hits = {0};
	/* A block is cached while fewer than `capacity` others were added after it. */
	uint32_t *added_at = memory_take(references->block_count, sizeof(*added_at));
	uint64_t added = 0;

	check(capacity >= 1);
	for (uint64_t r = 0; r < references->request_count; r++) {
		uint64_t start = references->request_start[r];
		uint64_t end = references->request_start[r + 1];
		uint64_t i = start;
		for (; i < end; i++) {
			uint32_t at = added_at[references->blocks[i]];
			if (at == NOT_YET || added - at >= capacity) {
				break;
			}
			count_hit(&hits, references, r, i - start);
		}
		for (; i < end; i++) {
			uint32_t *at = &added_at[references->blocks[i]];
			if (*at == NOT_YET || added - *at >= capacity) {
				*at = u32_from(++added);
			}
		}
	}
	free(added_at);
	return hits;
}

void cache_next_uses(const struct references *references, uint32_t *next_use)
{
	uint32_t *seen_at = memory_take(references->block_count, sizeof(*seen_at));

	memset(seen_at, 0xff, references->block_count * sizeof(*seen_at));
	for (uint64_t i = references->reference_count; i-- > 0;) {
		next_use[i] = seen_at[references->blocks[i]];
		seen_at[references->blocks[i]] = (uint32_t)i;
	}
	free(seen_at);
}

struct cache_hits cache_belady(
	const struct references *references, const uint32_t *next_use, uint64_t capacity)
{
	struct cache_hits hits = {0};
	struct index_set cached; /* blocks by the index of their next use */

	check(capacity >= 1);
	index_set_init(&cached, u32_from(references->reference_count));
	for (uint64_t r = 0; r < references->request_count; r++) {
		uint64_t start = references->request_start[r];
		for (uint64_t i = start; i < references->request_start[r + 1]; i++) {
			if (index_set_has(&cached, (uint32_t)i)) {
				index_set_remove(&cached, (uint32_t)i);
				count_hit(&hits, references, r, i - start);
			}
			if (next_use[i] == UINT32_MAX) {
				continue;
			}
			index_set_add(&cached, next_use[i]);
			if (cached.count > capacity) {
				index_set_remove(&cached, index_set_last(&cached));
			}
		}
	}
	index_set_deinit(&cached);
	return hits;
}

struct cache_hits cache_infinite(const struct references *references)
{
	struct cache_hits hits = {0};
	bool *is_known = memory_take(references->block_count, sizeof(*is_known));

	for (uint64_t r = 0; r < references->request_count; r++) {
		uint64_t start = references->request_start[r];
		for (uint64_t i = start; i < references->request_start[r + 1]; i++) {
			if (is_known[references->blocks[i]]) {
				count_hit(&hits, references, r, i - start);
			}
			is_known[references->blocks[i]] = true;
		}
	}
	free(is_known);
	return hits;
}
