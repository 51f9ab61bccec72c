#include "workloads/study/cache.h"
#include "workloads/study/cache_curve.h"
#include "workloads/generate/fixed.h"
#include "workloads/study/index_set.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

enum { BLOCKS_MAX = 12, REFERENCES_IN_ALL = 64, BLOCK_SIZE = 8 };

/* ---- random traces ---- */

/* Prompts whose ids are those of prefixes with branches, as real ones; or any ids at all. */
static void draw_references(
	struct prop *prop, struct references *references, uint32_t blocks, uint32_t references_max)
{
	uint32_t requests = prop_range(prop, 1, 8);
	bool is_chained = prop_chance(prop, 1, 2);
	uint64_t ids[REFERENCES_IN_ALL];
	struct error error = {0};

	references_init(references, BLOCK_SIZE);
	for (uint32_t r = 0; r < requests && references->reference_count < references_max; r++) {
		uint32_t most = references_max - (uint32_t)references->reference_count;
		uint32_t count = prop_range(prop, 1, most < 8 ? most : 8);
		uint64_t start = prop_below(prop, 2);
		struct trace_row row = {
			.index = r, .output_length = 1, .hash_ids = ids, .hash_id_count = count};
		for (uint32_t i = 0; i < count; i++) {
			/* A chained block's id identifies its whole prefix. */
			start = is_chained ? (i == 0 ? start : 2 * start + 2 + prop_below(prop, 2))
					   : prop_below(prop, blocks);
			ids[i] = start;
		}
		row.input_length = count * BLOCK_SIZE - prop_range(prop, 0, BLOCK_SIZE - 1);
		require_equal(references_add(references, &row, &error), STATUS_OK);
		prop_log(prop, "request %u: %u blocks from %llu on", r, count,
			(unsigned long long)ids[0]);
	}
}

/* ---- naive models: a cache is a list, the first to go first ---- */

struct list {
	uint32_t blocks[REFERENCES_IN_ALL];
	uint32_t count;
};

static bool list_has(const struct list *list, uint32_t block)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->blocks[i] == block) {
			return true;
		}
	}
	return false;
}

static void list_remove(struct list *list, uint32_t block)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		if (list->blocks[i] != block) {
			list->blocks[kept++] = list->blocks[i];
		}
	}
	list->count = kept;
}

static void list_append(struct list *list, uint32_t block, uint64_t capacity)
{
	if (list->count == capacity) {
		list_remove(list, list->blocks[0]);
	}
	list->blocks[list->count++] = block;
}

static void naive_count(
	struct cache_hits *hits, const struct references *references, uint64_t r, uint64_t i)
{
	uint64_t left = references->input_lengths[r] - i * BLOCK_SIZE;
	uint64_t tokens = left < BLOCK_SIZE ? left : BLOCK_SIZE;

	hits->blocks++;
	hits->tokens += tokens;
	hits->blocks_2nd_half += r >= references->request_count / 2;
	hits->tokens_2nd_half += r >= references->request_count / 2 ? tokens : 0;
}

static struct cache_hits naive_stream(const struct references *references, uint64_t capacity)
{
	struct cache_hits hits = {0};
	struct list list = {0};

	for (uint64_t r = 0; r < references->request_count; r++) {
		uint64_t start = references->request_start[r];
		for (uint64_t i = start; i < references->request_start[r + 1]; i++) {
			uint32_t block = references->blocks[i];
			if (list_has(&list, block)) {
				naive_count(&hits, references, r, i - start);
				list_remove(&list, block);
			}
			list_append(&list, block, capacity);
		}
	}
	return hits;
}

static struct cache_hits naive_run(
	const struct references *references, uint64_t capacity, bool is_fifo)
{
	struct cache_hits hits = {0};
	struct list list = {0};

	for (uint64_t r = 0; r < references->request_count; r++) {
		uint64_t start = references->request_start[r];
		uint64_t end = references->request_start[r + 1];
		uint64_t i = start;
		while (i < end && list_has(&list, references->blocks[i])) {
			naive_count(&hits, references, r, i - start);
			i++;
		}
		for (; is_fifo && i < end; i++) {
			if (!list_has(&list, references->blocks[i])) {
				list_append(&list, references->blocks[i], capacity);
			}
		}
		for (i = end; !is_fifo && i-- > start;) {
			list_remove(&list, references->blocks[i]);
			list_append(&list, references->blocks[i], capacity);
		}
	}
	return hits;
}

/* The most hits that any choice of what to keep can have: over all sets of cached blocks. */
static uint64_t naive_optimum(const struct references *references, uint64_t capacity)
{
	enum { SETS = 1 << 6 };
	int64_t best[SETS];
	int64_t most = 0;

	require(references->block_count <= 6, "too many blocks to try all sets");
	for (uint32_t set = 0; set < SETS; set++) {
		best[set] = set == 0 ? 0 : -1;
	}
	for (uint64_t i = 0; i < references->reference_count; i++) {
		uint32_t block = UINT32_C(1) << references->blocks[i];
		int64_t next[SETS];
		memset(next, 0xff, sizeof(next));
		for (uint32_t set = 0; set < SETS; set++) {
			if (best[set] < 0) {
				continue;
			}
			int64_t hits = best[set] + ((set & block) != 0);
			uint32_t all = set | block;
			for (uint32_t kept = all;; kept = (kept - 1) & all) {
				if ((uint64_t)__builtin_popcount(kept) <= capacity &&
					hits > next[kept]) {
					next[kept] = hits;
				}
				if (kept == 0) {
					break;
				}
			}
		}
		memcpy(best, next, sizeof(best));
	}
	for (uint32_t set = 0; set < SETS; set++) {
		most = best[set] > most ? best[set] : most;
	}
	return (uint64_t)most;
}

/* ---- properties ---- */

static void require_hits(
	const char *name, uint64_t capacity, struct cache_hits found, struct cache_hits expected)
{
	require(memcmp(&found, &expected, sizeof(found)) == 0,
		"%s at %llu: %llu blocks, %llu tokens, expected %llu, %llu", name,
		(unsigned long long)capacity, (unsigned long long)found.blocks,
		(unsigned long long)found.tokens, (unsigned long long)expected.blocks,
		(unsigned long long)expected.tokens);
}

static void policies_equal_their_models(struct prop *prop, const void *context)
{
	struct references references;
	struct cache_hits stream[REFERENCES_IN_ALL + 1], tail[REFERENCES_IN_ALL + 1];
	uint32_t next_use[REFERENCES_IN_ALL];

	(void)context;
	draw_references(prop, &references, BLOCKS_MAX, REFERENCES_IN_ALL);
	cache_lru_stream(&references, stream);
	cache_lru_tail(&references, tail);
	cache_next_uses(&references, next_use);
	struct cache_hits ideal = cache_infinite(&references);
	require_equal(ideal.blocks, references.reference_count - references.block_count);
	require_hits("lru_stream", 0, stream[0], (struct cache_hits){0});
	for (uint64_t capacity = 1; capacity <= references.block_count; capacity++) {
		struct cache_hits fifo = cache_fifo(&references, capacity);
		struct cache_hits belady = cache_belady(&references, next_use, capacity);
		require_hits("lru_stream", capacity, stream[capacity],
			naive_stream(&references, capacity));
		require_hits("lru_tail", capacity, tail[capacity],
			naive_run(&references, capacity, false));
		require_hits("fifo", capacity, fifo, naive_run(&references, capacity, true));
		require(belady.blocks >= fifo.blocks && belady.blocks >= tail[capacity].blocks &&
				belady.blocks >= stream[capacity].blocks,
			"the optimum at %llu finds %llu blocks, less than another",
			(unsigned long long)capacity, (unsigned long long)belady.blocks);
		require(belady.blocks <= ideal.blocks, "more than an infinite cache");
		require_hits("curve", capacity,
			cache_hits_at(&references, CACHE_LRU_TAIL, capacity), tail[capacity]);
	}
	references_deinit(&references);
}

Test(trace_cache, policies_equal_naive_models_at_every_capacity)
{
	const struct prop_options options = {
		.name = "cache policies", .body = policies_equal_their_models, .trials = 1000};

	cr_assert(prop_holds(&options));
}

/* ---- the curve ---- */

static struct cache_hits naive_hits(
	const struct references *references, enum cache_policy policy, uint64_t capacity)
{
	uint32_t next_use[REFERENCES_IN_ALL];

	switch (policy) {
	case CACHE_LRU_STREAM:
		return naive_stream(references, capacity);
	case CACHE_LRU_TAIL:
	case CACHE_FIFO:
		return naive_run(references, capacity, policy == CACHE_FIFO);
	case CACHE_BELADY: /* which is held against the optimum below */
		cache_next_uses(references, next_use);
		return cache_belady(references, next_use, capacity);
	default:
		return naive_stream(references, UINT64_MAX);
	}
}

/* The capacity that is evenly spaced in its logarithm, as integers have it. */
static bool is_spread(const struct references *references, uint64_t capacity)
{
	double last = (double)references->block_count;

	for (uint32_t i = 0; i < CACHE_CURVE_SPREAD; i++) {
		double exact = pow(last, (double)i / (CACHE_CURVE_SPREAD - 1));
		if (fabs((double)capacity - exact) < 0.5 + 1e-6 * exact) {
			return true;
		}
	}
	return false;
}

static void require_point(const struct references *references, const struct cache_point *point,
	const uint64_t *asked, uint32_t asked_count)
{
	bool is_asked = false;

	for (uint32_t i = 0; i < asked_count; i++) {
		is_asked = is_asked || asked[i] == point->capacity;
	}
	require(point->is_asked == is_asked, "%llu is %sasked for",
		(unsigned long long)point->capacity, is_asked ? "" : "not ");
	require(is_asked || is_spread(references, point->capacity), "%llu is of no curve",
		(unsigned long long)point->capacity);
	for (uint32_t p = 0; p < CACHE_POLICY_COUNT; p++) {
		struct cache_hits expected =
			naive_hits(references, (enum cache_policy)p, point->capacity);
		require_hits(cache_policy_name((enum cache_policy)p), point->capacity,
			point->hits[p], expected);
		require_hits("alone", point->capacity,
			cache_hits_at(references, (enum cache_policy)p, point->capacity), expected);
	}
}

static bool has_point(const struct cache_curve *curve, uint64_t capacity)
{
	for (uint32_t i = 0; i < curve->point_count; i++) {
		if (curve->points[i].capacity == capacity) {
			return true;
		}
	}
	return false;
}

/* Every row of the table, column by column. */
static void require_table(const struct cache_curve *curve, const struct references *references,
	uint64_t bytes_per_token)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	cache_curve_write(curve, references, bytes_per_token, file);
	require(fclose(file) == 0, "no table");
	char *line = strchr(text, '\n') + 1;
	for (uint32_t i = 0; i < curve->point_count; i++) {
		const struct cache_point *point = &curve->points[i];
		uint64_t tokens = point->capacity * BLOCK_SIZE;
		char expected[1024], gib[32] = "-";
		double size = (double)tokens * (double)bytes_per_token / 1073741824.0;
		snprintf(gib, sizeof(gib), bytes_per_token > 0 ? "%.6f" : "-", size);
		int used = snprintf(expected, sizeof(expected), "%llu\t%llu\t%s\t%llu\t%llu",
			(unsigned long long)point->capacity, (unsigned long long)tokens, gib,
			(unsigned long long)references->reference_count,
			(unsigned long long)references->token_count);
		for (uint32_t p = 0; p < CACHE_POLICY_COUNT; p++) {
			used += snprintf(expected + used, sizeof(expected) - (size_t)used,
				"\t%llu\t%llu", (unsigned long long)point->hits[p].blocks,
				(unsigned long long)point->hits[p].tokens);
		}
		char *end = strchr(line, '\n');
		*end = '\0';
		require(strcmp(line, expected) == 0, "row %s, expected %s", line, expected);
		line = end + 1;
	}
	require(*line == '\0', "more rows than points");
	free(text);
}

/* Capacities that are asked for: of the spread too, twice, and beyond the trace. */
static void curve_equals_the_models(struct prop *prop, const void *context)
{
	struct references references;
	struct cache_curve curve;
	uint64_t asked[8];
	uint32_t asked_count = prop_range(prop, 0, 8);

	(void)context;
	draw_references(prop, &references, BLOCKS_MAX, REFERENCES_IN_ALL);
	for (uint32_t i = 0; i < asked_count; i++) {
		asked[i] = prop_range(prop, 1, (uint32_t)references.block_count + 3);
	}
	cache_curve_make(&curve, &references, asked, asked_count);
	require(has_point(&curve, 1) && has_point(&curve, references.block_count),
		"the curve has not both ends");
	for (uint32_t i = 0; i < asked_count; i++) {
		require(has_point(&curve, asked[i]), "%llu is left out",
			(unsigned long long)asked[i]);
	}
	for (uint32_t i = 0; i < curve.point_count; i++) {
		require(i == 0 || curve.points[i].capacity > curve.points[i - 1].capacity,
			"points are out of order");
		require_point(&references, &curve.points[i], asked, asked_count);
	}
	require_table(
		&curve, &references, prop_chance(prop, 1, 2) ? prop_range(prop, 1, 200000) : 0);
	references_deinit(&references);
}

Test(trace_cache, a_curve_has_the_models_hits_at_every_capacity)
{
	const struct prop_options options = {
		.name = "cache curve", .body = curve_equals_the_models, .trials = 300};

	cr_assert(prop_holds(&options));
}

/* The spread of a curve is made of powers of two, so the most blocks must have one. */
Test(trace_cache, more_references_than_a_curve_takes_are_refused)
{
	struct references references;
	struct error error = {0};
	struct trace_row row = {.input_length = 1, .output_length = 1};
	int64_t most = fixed_exp2(u64_log2(REFERENCES_MAX));

	require(fabs((double)most / FIXED_ONE / REFERENCES_MAX - 1) < 1e-6, "%" PRId64, most);
	references_init(&references, 1);
	require_equal(references_add(&references, &row, &error), STATUS_OK);
	row.input_length = REFERENCES_MAX; /* and one before it */
	require_equal(references_add(&references, &row, &error), STATUS_INPUT);
	require(strcmp(error.text, "the prompts of this trace have more than 2147483647 blocks, "
				   "expected fewer") == 0,
		"%s", error.text);
	require_equal(references.reference_count, 1);
	require_equal(references.request_count, 1);
	references_deinit(&references);
}

/* ---- the optimum ---- */

static void belady_is_the_optimum(struct prop *prop, const void *context)
{
	struct references references;
	uint32_t next_use[REFERENCES_IN_ALL];

	(void)context;
	draw_references(prop, &references, 6, 20);
	cache_next_uses(&references, next_use);
	for (uint64_t capacity = 1; capacity <= 4 && references.block_count <= 6; capacity++) {
		require_equal(cache_belady(&references, next_use, capacity).blocks,
			naive_optimum(&references, capacity));
	}
	references_deinit(&references);
}

Test(trace_cache, belady_finds_what_the_best_of_all_choices_finds)
{
	const struct prop_options options = {
		.name = "belady", .body = belady_is_the_optimum, .trials = 400};

	cr_assert(prop_holds(&options));
}

static void index_set_is_a_set(struct prop *prop, const void *context)
{
	const uint32_t bounds[] = {1, 63, 64, 65, 4095, 4096, 4097, 300000};
	uint32_t bound = bounds[prop_below(prop, 8)];
	uint32_t members[64];
	uint32_t count = 0;
	struct index_set set;

	(void)context;
	index_set_init(&set, bound);
	for (uint32_t i = 0; i < 60; i++) {
		uint32_t member = (uint32_t)prop_below(prop, bound);
		uint32_t at = 0;
		uint32_t last = 0;
		while (at < count && members[at] != member) {
			at++;
		}
		require(index_set_has(&set, member) == (at < count), "%u is astray", member);
		if (at < count) {
			index_set_remove(&set, member);
			members[at] = members[--count];
		} else {
			index_set_add(&set, member);
			members[count++] = member;
		}
		for (uint32_t j = 0; j < count; j++) {
			last = members[j] > last ? members[j] : last;
		}
		require_equal(set.count, count);
		require(count == 0 || index_set_last(&set) == last, "last of %u", bound);
	}
	index_set_deinit(&set);
}

Test(trace_cache, index_set_equals_a_list)
{
	const struct prop_options options = {
		.name = "index set", .body = index_set_is_a_set, .trials = 400};

	cr_assert(prop_holds(&options));
}

/* ---- rows of all kinds ---- */

Test(trace_cache, rows_without_ids_fill_the_cache_and_are_never_found)
{
	const uint64_t ids[] = {1, 2};
	struct references references;
	struct error error = {0};
	struct trace_row shared = {
		.input_length = 16, .output_length = 1, .hash_ids = ids, .hash_id_count = 2};
	struct trace_row alone = {.input_length = 17, .output_length = 1};

	references_init(&references, BLOCK_SIZE);
	references_add(&references, &shared, &error);
	references_add(&references, &alone, &error);
	references_add(&references, &alone, &error);
	references_add(&references, &shared, &error);
	require_equal(references.block_count, 2 + 3 + 3);
	require_equal(cache_infinite(&references).blocks, 2);
	require_equal(cache_hits_at(&references, CACHE_LRU_TAIL, 8).blocks, 2);
	require_equal(cache_hits_at(&references, CACHE_LRU_TAIL, 7).blocks, 1);
	require_equal(cache_hits_at(&references, CACHE_LRU_TAIL, 6).blocks, 0);
	references_deinit(&references);
}

/* A few ids in any order, several times in a row too: what is shared are prefixes, and nothing
   within a row. */
static void ids_share_as_prefixes(struct prop *prop, const void *context)
{
	enum { ROWS = 8, LONGEST = 6 };
	uint64_t ids[ROWS][LONGEST];
	uint32_t counts[ROWS], rows = prop_range(prop, 1, ROWS);
	uint64_t hits = 0, all = 0;
	struct references references;
	struct error error = {0};

	(void)context;
	references_init(&references, BLOCK_SIZE);
	for (uint32_t r = 0; r < rows; r++) {
		uint32_t shared = 0;
		counts[r] = prop_range(prop, 1, LONGEST);
		for (uint32_t i = 0; i < counts[r]; i++) {
			ids[r][i] = prop_below(prop, 3);
		}
		for (uint32_t other = 0; other < r; other++) {
			uint32_t i = 0;
			while (i < counts[r] && i < counts[other] && ids[r][i] == ids[other][i]) {
				i++;
			}
			shared = i > shared ? i : shared;
		}
		const struct trace_row row = {.input_length = counts[r] * BLOCK_SIZE,
			.output_length = 1,
			.hash_ids = ids[r],
			.hash_id_count = counts[r]};
		require_equal(references_add(&references, &row, &error), STATUS_OK);
		hits += shared;
		all += counts[r];
	}
	require_equal(cache_infinite(&references).blocks, hits);
	require_equal(references.block_count, all - hits);
	for (uint32_t policy = 0; policy < CACHE_POLICY_COUNT; policy++) {
		uint64_t found = cache_hits_at(&references, policy, all).blocks;
		require(found == hits, "%s: %llu hits, not %llu", cache_policy_name(policy),
			(unsigned long long)found, (unsigned long long)hits);
	}
	references_deinit(&references);
}

Test(trace_cache, ids_share_as_far_as_prompts_begin_alike)
{
	const struct prop_options options = {
		.name = "prefixes", .body = ids_share_as_prefixes, .trials = 500};

	cr_assert(prop_holds(&options));
}

Test(trace_cache, token_ids_share_as_far_as_they_are_equal)
{
	const uint64_t a[] = {1, 2, 3, 4, 5, 6, 7};
	const uint64_t b[] = {1, 2, 3, 4, 9, 6, 7};
	const uint64_t c[] = {9, 2, 3, 4, 5, 6, 7};
	struct trace_row row = {.input_length = 7, .output_length = 1};
	struct references references;
	struct error error = {0};

	references_init(&references, 2);
	row.prompt_ids = a;
	references_add(&references, &row, &error);
	row.prompt_ids = b; /* two equal blocks, and equal ends behind an unequal one */
	references_add(&references, &row, &error);
	row.prompt_ids = c;
	references_add(&references, &row, &error);
	require_equal(cache_infinite(&references).blocks, 2);
	row.prompt_ids = a;
	references_add(&references, &row, &error);
	require_equal(cache_infinite(&references).blocks, 6);
	require_equal(cache_infinite(&references).tokens, 11);
	references_deinit(&references);
}

/* A trace says what its prompts share by ids of blocks or of tokens, in one row at least. */
Test(trace_cache, it_is_known_whether_a_trace_has_ids)
{
	static const struct {
		const char *text;
		bool has_ids;
		uint64_t blocks, hits;
	} cases[] = {
		{"{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 1}\n", false, 3, 0},
		{"{\"timestamp\": 0, \"input_length\": 4, \"output_length\": 1, "
		 "\"hash_ids\": [7]}\n"
		 "{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 1}\n",
			true, 4, 0},
		{"{\"arrival_time_ns\": 0, \"input_tok_ids\": [1, 2, 3, 4, 5], \"output_toks\": "
		 "1}\n"
		 "{\"arrival_time_ns\": 1, \"input_tok_ids\": [1, 2, 3, 4, 6], \"output_toks\": "
		 "1}\n",
			true, 3, 1},
	};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct trace_options options = {0};
		struct references references;
		struct trace *trace = NULL;
		struct error error = {0};
		bool has_ids = !cases[i].has_ids;
		temporary_write(folder, "trace.jsonl", cases[i].text, path);
		require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
		references_init(&references, 4);
		require(references_read(&references, trace, &has_ids, &error) == STATUS_OK, "%s",
			error.text);
		require_equal(has_ids, cases[i].has_ids);
		require_equal(references.block_count, cases[i].blocks);
		require_equal(cache_infinite(&references).blocks, cases[i].hits);
		references_deinit(&references);
		trace_close(trace);
	}
	temporary_remove(folder);
}

/* ---- the recorded figures ---- */

static void require_recorded(const cJSON *recorded, struct cache_hits hits, const char *where)
{
	const char *const names[] = {
		"hit_blocks", "hit_tokens", "hit_blocks_2nd_half", "hit_tokens_2nd_half"};
	const uint64_t found[] = {
		hits.blocks, hits.tokens, hits.blocks_2nd_half, hits.tokens_2nd_half};

	for (uint32_t i = 0; i < 4; i++) {
		const cJSON *value = cJSON_GetObjectItem(recorded, names[i]);
		require(value == NULL || (double)found[i] == value->valuedouble,
			"%s: %s is %llu, expected %.0f", where, names[i],
			(unsigned long long)found[i], value == NULL ? 0 : value->valuedouble);
	}
}

static void read_references(const char *path, struct references *references)
{
	const struct trace_options options = {0};
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;

	require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
	references_init(references, trace_block_size(trace));
	while (has_row) {
		require_equal(trace_next(trace, &row, &has_row, &error), STATUS_OK);
		if (has_row) {
			require_equal(references_add(references, &row, &error), STATUS_OK);
		}
	}
	trace_close(trace);
}

Test(trace_cache, equals_every_recorded_figure_of_the_conversation_trace)
{
	char *text = file_read_if_there("../shared/golden/cache_conversation.json", NULL);
	struct references references;
	const cJSON *capacity = NULL;
	const cJSON *policy = NULL;

	if (text == NULL) {
		cr_skip_test("../shared/golden is not here");
	}
	cJSON *golden = cJSON_Parse(text);
	read_references("../shared/traces/mooncake_conversation.jsonl", &references);
	require_equal(references.reference_count, 288500);
	require_recorded(
		cJSON_GetObjectItem(golden, "infinite"), cache_infinite(&references), "infinite");
	uint32_t compared = 0;
	cJSON_ArrayForEach(capacity, cJSON_GetObjectItem(golden, "caps"))
	{
		uint64_t blocks = strtoull(capacity->string, NULL, 10);
		cJSON_ArrayForEach(policy, capacity)
		{
			bool is_stream = strcmp(policy->string, "lru_stream") == 0;
			bool is_fifo = strcmp(policy->string, "fifo") == 0;
			enum cache_policy which = is_stream ? CACHE_LRU_STREAM
						  : is_fifo ? CACHE_FIFO
							    : CACHE_LRU_TAIL;
			require_recorded(policy, cache_hits_at(&references, which, blocks),
				capacity->string);
			compared++;
		}
	}
	require_equal(compared, 14 * 4);
	references_deinit(&references);
	cJSON_Delete(golden);
	free(text);
}
