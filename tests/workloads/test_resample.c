#include "workloads/resample.h"

#include "workloads/workload.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"
#include "workloads/generate/random.h"

/* A draw beside a naive one: every row of every unit is looked at for every window, and how
   far an id spreads is found anew for every one. */

enum { ROWS_MAX = 24, IDS_MAX = 4, DRAWN_MAX = 4096, BLOCK = 16, PURPOSE_RESAMPLE = 201 };

struct kept {
	uint64_t arrival_ns, start_ns; /* start: of its unit */
	uint64_t line;
	uint32_t unit, input_length;
	uint64_t ids[IDS_MAX];
	uint32_t id_count;
	char session[16];
};

struct naive_row {
	uint64_t arrival_ns;
	uint32_t order, row, twin;
};

struct naive {
	struct kept rows[ROWS_MAX];
	uint32_t row_count;
	uint64_t window_ns, period_ns;
	struct naive_row drawn[DRAWN_MAX];
	uint32_t drawn_count;
	uint32_t twins[ROWS_MAX]; /* of each unit, by its first row */
};

/* has_tokens: rows spell their prompts out, a few chunks from a small stock each. */
static void write_trace(struct prop *prop, const char *path, uint32_t count, bool has_tokens)
{
	FILE *file = fopen(path, "wb");
	uint64_t time_ms = prop_below(prop, 5) * 1000;
	bool stands_still = prop_chance(prop, 1, 6);

	require(file != NULL, "%s cannot be written", path);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t blocks = prop_range(prop, 1, IDS_MAX);
		time_ms += stands_still ? 0 : prop_below(prop, 3000);
		if (has_tokens) {
			fprintf(file, "{\"arrival_time_ns\": %llu, \"input_tok_ids\": [",
				(unsigned long long)time_ms * 1000000);
			for (uint32_t j = 0; j < blocks * BLOCK; j++) {
				uint64_t chunk = j % BLOCK == 0 ? prop_below(prop, 3) : 0;
				fprintf(file, "%s%llu", j == 0 ? "" : ", ",
					(unsigned long long)(100 * chunk + j));
			}
			fprintf(file, "], \"output_toks\": 1}\n");
			continue;
		}
		fprintf(file, "{\"timestamp\": %llu, \"input_length\": %u, \"output_length\": %u, ",
			(unsigned long long)time_ms, blocks * BLOCK, prop_range(prop, 1, 9));
		if (prop_chance(prop, 1, 2)) {
			fprintf(file, "\"session_id\": \"s%u\", ", (unsigned)prop_below(prop, 4));
		}
		fprintf(file, "\"hash_ids\": [");
		for (uint32_t j = 0; j < blocks; j++) {
			fprintf(file, "%s%llu", j == 0 ? "" : ", ",
				(unsigned long long)prop_below(prop, 20));
		}
		fprintf(file, "]}\n");
	}
	fclose(file);
}

/* The ids by which prompts are equal: hash ids, or one for each chunk and all before it. */
static void keep_ids(struct kept *kept, const struct trace_row *row)
{
	uint64_t key = 0;

	kept->id_count = row->prompt_ids == NULL ? row->hash_id_count : row->input_length / BLOCK;
	require(kept->id_count <= IDS_MAX, "too many ids");
	for (uint32_t i = 0; i < kept->id_count; i++) {
		key = row->prompt_ids == NULL ? row->hash_ids[i]
					      : XXH64(row->prompt_ids + (size_t)i * BLOCK,
							BLOCK * sizeof(uint64_t), key);
		kept->ids[i] = key;
	}
}

/* offsets: (ROWS_MAX) how much later each row comes than the trace says, but not before the row
   before it; NULL: none. */
static void keep_rows(struct naive *naive, const char *path, uint64_t most, const uint64_t *offsets)
{
	uint64_t spread_ns = 0;
	const struct trace_options options = {.trace_block_size = BLOCK};
	struct trace *trace;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;

	naive->row_count = 0;
	require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
	while ((most == 0 || naive->row_count < most) &&
		trace_next(trace, &row, &has_row, &error) == STATUS_OK && has_row) {
		struct kept *kept = &naive->rows[naive->row_count];
		if (offsets != NULL) {
			spread_ns = u64_max(spread_ns, row.arrival_ns + offsets[naive->row_count]);
			row.arrival_ns = spread_ns;
		}
		*kept = (struct kept){.arrival_ns = row.arrival_ns,
			.start_ns = row.arrival_ns,
			.line = row.line,
			.unit = naive->row_count,
			.input_length = row.input_length};
		keep_ids(kept, &row);
		snprintf(kept->session, sizeof(kept->session), "%s",
			row.session == NULL ? "" : row.session);
		for (uint32_t i = 0; i < naive->row_count && row.session != NULL; i++) {
			if (strcmp(naive->rows[i].session, row.session) == 0) {
				kept->unit = naive->rows[i].unit;
				kept->start_ns = naive->rows[i].start_ns;
				break;
			}
		}
		naive->row_count++;
	}
	trace_close(trace);
}

static void naive_add(struct naive *naive, uint32_t unit, uint64_t at_ns)
{
	uint64_t end_ns = naive->rows[0].arrival_ns + naive->period_ns;
	uint32_t twin = naive->twins[unit]++;
	bool is_split = false;

	for (uint32_t i = 0; i < naive->row_count; i++) {
		const struct kept *kept = &naive->rows[i];
		uint64_t time_ns = at_ns + (kept->arrival_ns - kept->start_ns);
		if (kept->unit != unit) {
			continue;
		}
		require(naive->drawn_count < DRAWN_MAX, "too many rows");
		struct naive_row *drawn = &naive->drawn[naive->drawn_count];
		*drawn = (struct naive_row){time_ns, naive->drawn_count, i, twin};
		if (naive->period_ns > 0 && time_ns >= end_ns) {
			drawn->arrival_ns -= naive->period_ns;
			drawn->twin++;
			is_split = true;
		}
		naive->drawn_count++;
	}
	naive->twins[unit] += is_split;
}

static uint64_t below(struct random *random, uint64_t bound)
{
	return (uint64_t)((u128)random_bits(random) * bound >> 64);
}

static void naive_windows(struct naive *naive, struct random *random)
{
	uint64_t zero_ns = naive->rows[0].arrival_ns;

	for (uint64_t at = 0; at < naive->period_ns; at += naive->window_ns) {
		uint64_t from = below(random, naive->period_ns);
		uint64_t length = u64_min(naive->window_ns, naive->period_ns - at);
		/* Units in the order of the window: those from its begin on, then the trace's. */
		for (uint32_t k = 0; k < 2 * naive->row_count; k++) {
			uint32_t i = k % naive->row_count;
			uint64_t start = naive->rows[i].start_ns - zero_ns;
			bool is_wrapped = start < from;
			uint64_t distance =
				is_wrapped ? start + naive->period_ns - from : start - from;
			if (naive->rows[i].unit == i && distance < length &&
				is_wrapped == (k >= naive->row_count)) {
				naive_add(naive, i, zero_ns + at + distance);
			}
		}
	}
}

static int by_time(const void *a, const void *b)
{
	const struct naive_row *x = a, *y = b;

	return x->arrival_ns != y->arrival_ns ? (x->arrival_ns < y->arrival_ns ? -1 : 1)
					      : (x->order < y->order ? -1 : 1);
}

static void naive_draw(struct naive *naive, uint64_t seed, uint64_t window_ns)
{
	struct random random = random_stream(seed, PURPOSE_RESAMPLE);
	uint64_t span = naive->rows[naive->row_count - 1].arrival_ns - naive->rows[0].arrival_ns;
	uint32_t units[ROWS_MAX], unit_count = 0;

	naive->drawn_count = 0;
	memset(naive->twins, 0, sizeof(naive->twins));
	naive->period_ns = span == 0 ? 0 : span + u64_max(span / (naive->row_count - 1), 1);
	naive->window_ns = window_ns == 0 ? u64_divide_up(naive->period_ns, RESAMPLE_SHARE)
					  : u64_min(window_ns, naive->period_ns);
	for (uint32_t i = 0; i < naive->row_count; i++) {
		units[unit_count] = i;
		unit_count += naive->rows[i].unit == i;
	}
	if (naive->period_ns > 0) {
		naive_windows(naive, &random);
	} else {
		for (uint32_t i = 0; i < unit_count; i++) {
			uint32_t unit = units[below(&random, unit_count)];
			naive_add(naive, unit, naive->rows[unit].start_ns);
		}
	}
	qsort(naive->drawn, naive->drawn_count, sizeof(naive->drawn[0]), by_time);
}

/* Whether units that have the id begin at least a window apart. */
static bool is_spread(const struct naive *naive, uint64_t id)
{
	uint64_t first = UINT64_MAX, last = 0;

	for (uint32_t i = 0; i < naive->row_count; i++) {
		for (uint32_t j = 0; j < naive->rows[i].id_count; j++) {
			if (naive->rows[i].ids[j] == id) {
				first = u64_min(first, naive->rows[i].start_ns);
				last = u64_max(last, naive->rows[i].start_ns);
			}
		}
	}
	return last - first >= naive->window_ns;
}

static void require_ids(const struct naive *naive, const struct trace_row *row,
	const struct kept *kept, uint32_t twin)
{
	bool is_other = false;

	for (uint32_t i = 0; i < kept->id_count; i++) {
		is_other = is_other || (twin > 0 && !is_spread(naive, kept->ids[i]));
		if (row->prompt_ids == NULL) {
			uint64_t other = XXH64(&kept->ids[i], sizeof(uint64_t), twin) >> 1;
			require_equal(row->hash_ids[i], is_other ? other : kept->ids[i]);
			continue;
		}
		for (uint32_t j = 0; j < BLOCK; j++) {
			/* The stock is 0, 100 and 200 in a chunk's first place. */
			uint64_t plain = i * BLOCK + j, found = row->prompt_ids[plain];
			bool is_known = false;
			for (uint64_t k = 0; k < (j == 0 ? 3 : 1); k++) {
				uint64_t id = j == 0 ? plain % 100 + 100 * k : plain;
				id = is_other ? XXH64(&id, sizeof(id), twin) >> 1 : id;
				is_known = is_known || found == id;
			}
			require(is_known, "token %llu", (unsigned long long)found);
		}
	}
}

static void require_row(const struct naive *naive, const struct trace_row *row, uint64_t index)
{
	const struct naive_row *drawn = &naive->drawn[index];
	const struct kept *kept = &naive->rows[drawn->row];
	char name[32];

	require_equal(row->index, index);
	require_equal(row->arrival_ns, drawn->arrival_ns);
	require_equal(row->line, kept->line);
	require_equal(row->input_length, kept->input_length);
	require((row->session == NULL) == (kept->session[0] == '\0'), "a session too many");
	snprintf(name, sizeof(name), drawn->twin == 0 ? "%s" : "%s#%u", kept->session,
		drawn->twin + 1);
	require(row->session == NULL || strcmp(row->session, name) == 0, "session %s, expected %s",
		row->session, name);
	require_ids(naive, row, kept, drawn->twin);
}

/* What the times have in common as the file has them, whatever becomes of its rows. */
static struct tick_finder ticks_of(const char *path, uint64_t most)
{
	const struct trace_options options = {.trace_block_size = BLOCK};
	struct tick_finder ticks = {0};
	struct trace *trace;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;

	require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
	while ((most == 0 || ticks.row_count < most) &&
		trace_next(trace, &row, &has_row, &error) == STATUS_OK && has_row) {
		tick_finder_add(&ticks, row.arrival_ns);
	}
	require(error.status == STATUS_OK, "%s", error.text);
	trace_close(trace);
	return ticks;
}

static void require_ticks(const struct tick_finder *found, const struct tick_finder *expected)
{
	require_equal(found->row_count, expected->row_count);
	require_equal(found->time_count, expected->time_count);
	require_equal(tick_finder_tick(found), tick_finder_tick(expected));
}

static void body_draw(struct prop *prop, const void *context)
{
	static struct naive naive;
	const char *path = context;
	const struct trace_options options = {.trace_block_size = BLOCK};
	struct resample_options draw = {.seed = prop_below(prop, 1000)};
	struct resample *resample;
	struct trace *trace;
	struct trace_row row;
	struct error error = {0};
	uint64_t index = 0;

	write_trace(prop, path, prop_range(prop, 1, ROWS_MAX), prop_chance(prop, 1, 4));
	draw.max_rows = prop_chance(prop, 1, 3) ? prop_below(prop, ROWS_MAX) : 0;
	draw.window_ns = prop_chance(prop, 2, 3) ? 1 + prop_below(prop, 40000) * 1000000 : 0;
	uint64_t offsets[ROWS_MAX];
	const struct spread_times times = {.offset_ns = offsets, .row_count = ROWS_MAX};
	for (uint32_t i = 0; i < ROWS_MAX; i++) {
		offsets[i] = prop_below(prop, 5000) * 1000000;
	}
	draw.times = prop_chance(prop, 1, 3) ? &times : NULL;
	const struct tick_finder ticks = ticks_of(path, draw.max_rows);
	keep_rows(&naive, path, draw.max_rows, draw.times == NULL ? NULL : offsets);
	uint64_t span = naive.rows[naive.row_count - 1].arrival_ns - naive.rows[0].arrival_ns;
	if (draw.window_ns == 1 && span > 0) {
		draw.window_ns = 1000000000; /* else it has too many */
	}
	naive_draw(&naive, draw.seed, draw.window_ns);
	require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
	require(resample_open(&resample, trace, &draw, &error) == STATUS_OK, "%s", error.text);
	require_equal(resample_source_rows(resample), naive.row_count);
	require_equal(resample_window_ns(resample), naive.period_ns == 0 ? 0 : naive.window_ns);
	require_ticks(resample_ticks(resample), &ticks);
	for (; resample_next(resample, &row); index++) {
		require(index < naive.drawn_count, "a row too many");
		require_row(&naive, &row, index);
	}
	require_equal(index, naive.drawn_count);
	require(!resample_next(resample, &row), "a row behind the end");
	resample_close(resample);
	trace_close(trace);
}

Test(resample, draws_what_a_naive_draw_does)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {.name = "resample", .body = body_draw, .trials = 600};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	options.context = path;
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* ---- trees of chats ---- */

enum { CHATS = 30 };

/* The chat that chat i follows; -1: none. Trees of five, some of which branch. */
static int parent_of(int i)
{
	return i % 5 == 0 ? -1 : i % 5 == 3 ? i - 2 : i - 1;
}

static void write_trees(const char *path)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "%s cannot be written", path);
	for (int i = 0; i < CHATS; i++) {
		fprintf(file,
			"{\"chat_id\": %d, \"parent_chat_id\": %d, \"timestamp\": %d, "
			"\"input_length\": 16, \"output_length\": 1, \"hash_ids\": [%d]}\n",
			i, parent_of(i), i, i);
	}
	fclose(file);
}

static void require_name(const char *found, int chat, const char *twin)
{
	char expected[32];

	snprintf(expected, sizeof(expected), "%d%s", chat, twin);
	require(chat < 0 ? found == NULL : found != NULL && strcmp(found, expected) == 0,
		"found %s, expected %s", found == NULL ? "none" : found, expected);
}

/* A tree of chats that is drawn again is a tree of its own: each of its chats follows the one of
   the same draw. */
Test(resample, a_chat_follows_the_chat_of_its_own_twin)
{
	const struct trace_options options = {.trace_block_size = BLOCK};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	uint32_t twins = 0;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	write_trees(path);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		const struct resample_options draw = {
			.seed = seed, .window_ns = UINT64_C(7) * 1000000000};
		struct resample *resample;
		struct trace *trace;
		struct trace_row row;
		struct error error = {0};
		require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
		require(resample_open(&resample, trace, &draw, &error) == STATUS_OK, "%s",
			error.text);
		while (resample_next(resample, &row)) {
			int chat = (int)row.line - 1;
			const char *twin = strchr(row.turn, '#');
			twins += twin != NULL;
			require_name(row.turn, chat, twin == NULL ? "" : twin);
			require_name(row.parent, parent_of(chat), twin == NULL ? "" : twin);
		}
		resample_close(resample);
		trace_close(trace);
	}
	require(twins > 100, "%u twins", twins);
	temporary_remove(folder);
}

/* Chats that branch, each of some turns, whose lines are the file's. */
static void write_chats(struct prop *prop, const char *path, uint32_t count)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "%s cannot be written", path);
	for (uint32_t i = 0; i < count; i++) {
		int parent = i == 0 || prop_chance(prop, 1, 3) ? -1 : (int)prop_below(prop, i);
		fprintf(file,
			"{\"chat_id\": %u, \"parent_chat_id\": %d, \"timestamp\": %u, "
			"\"input_length\": 16, \"output_length\": 1, \"type\": \"text\", "
			"\"turn\": 1, \"hash_ids\": [%u]}\n",
			i, parent, i * 7, i);
	}
	fclose(file);
}

/* The turn before one that came at the period's begin may have come at its end, under the name of
   the twin before. */
static void set_twin_before(const char *name, char *before, size_t bytes)
{
	const char *mark = strchr(name, '#');
	int twin = mark == NULL ? 0 : atoi(mark + 1);
	int length = mark == NULL ? 0 : (int)(mark - name);

	if (twin <= 2) {
		snprintf(before, bytes, "%.*s", length, name);
	} else {
		snprintf(before, bytes, "%.*s#%d", length, name, twin - 1);
	}
}

/* A turn follows one that was drawn with it, and has a name of its own. */
static void body_chats(struct prop *prop, const void *context)
{
	static char turns[DRAWN_MAX][16], parents[DRAWN_MAX][16];
	const char *path = context;
	const struct trace_options options = {.trace_block_size = BLOCK};
	const struct resample_options draw = {
		.seed = prop_below(prop, 1000), .window_ns = UINT64_C(20) * 1000000000};
	struct resample *resample;
	struct trace *trace;
	struct trace_row row;
	struct error error = {0};
	uint32_t count = 0;

	write_chats(prop, path, prop_range(prop, 1, ROWS_MAX));
	require(trace_open(&trace, path, &options, &error) == STATUS_OK, "%s", error.text);
	require(resample_open(&resample, trace, &draw, &error) == STATUS_OK, "%s", error.text);
	for (; resample_next(resample, &row); count++) {
		require(count < DRAWN_MAX && row.turn != NULL, "no name, or too many rows");
		snprintf(turns[count], sizeof(turns[count]), "%s", row.turn);
		snprintf(parents[count], sizeof(parents[count]), "%s",
			row.parent == NULL ? "" : row.parent);
	}
	for (uint32_t i = 0; i < count; i++) {
		bool has_parent = parents[i][0] == '\0' || strcmp(parents[i], "-1") == 0;
		char before[16];
		set_twin_before(parents[i], before, sizeof(before));
		for (uint32_t j = 0; j < count; j++) {
			require(j == i || strcmp(turns[i], turns[j]) != 0, "two turns are %s",
				turns[i]);
			has_parent = has_parent || strcmp(parents[i], turns[j]) == 0 ||
				     (j > i && strcmp(before, turns[j]) == 0);
		}
		require(has_parent, "nobody is %s, whom %s follows", parents[i], turns[i]);
	}
	resample_close(resample);
	trace_close(trace);
}

Test(resample, turns_follow_those_that_were_drawn_with_them)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {.name = "chats", .body = body_chats, .trials = 200};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	options.context = path;
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* ---- as a workload ---- */

enum { MANY = 200 };

/* Rows at even times, but for two at the end of a tick of 1 s each; every fourth begins a session
   of four. */
static void write_many(const char *path)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "%s cannot be written", path);
	for (unsigned i = 0; i < MANY; i++) {
		fprintf(file,
			"{\"timestamp\": %u, \"input_length\": 16, \"output_length\": 1, "
			"\"session_id\": \"s%u\", \"hash_ids\": [%u]}\n",
			i / 2 * 1000, i / 8 * 2 + i % 2, i);
	}
	fclose(file);
}

/* Reads a workload; counts[i]: how often line i + 1 came. */
static uint64_t read_workload(
	const char *path, const struct workload_options *options, uint64_t *counts, uint64_t *hash)
{
	struct workload *workload;
	struct trace_row row;
	struct error error = {0};
	enum workload_state state = WORKLOAD_ROW;
	uint64_t next_ns, count = 0, last_ns = 0;

	require(workload_open(&workload, path, options, &error) == STATUS_OK, "%s", error.text);
	while (workload_next(workload, CLOCK_NS_MAX, &row, &state, &next_ns, &error) == STATUS_OK &&
		state == WORKLOAD_ROW) {
		require(row.arrival_ns >= last_ns, "a time before that of the row before");
		require(row.line >= 1 && row.line <= MANY, "line %llu",
			(unsigned long long)row.line);
		last_ns = row.arrival_ns;
		*hash = XXH64(&row.arrival_ns, sizeof(row.arrival_ns), *hash ^ row.line);
		counts[row.line - 1]++;
		count++;
	}
	require(error.status == STATUS_OK, "%s", error.text);
	workload_close(workload);
	return count;
}

static const struct workload_options plain = {
	.trace.trace_block_size = BLOCK, .speedup_millionths = 1000000};

/* Each line comes once on average, with windows at the trace's edges as well as inside. */
Test(resample, favours_no_row)
{
	enum { DRAWS = 2000 };
	struct workload_options options = plain;
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	uint64_t counts[MANY] = {0}, hash = 0, all = 0;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	write_many(path);
	options.resample_window_ns = UINT64_C(17) * 1000000000;
	for (options.resample_seed = 1; options.resample_seed <= DRAWS; options.resample_seed++) {
		all += read_workload(path, &options, counts, &hash);
	}
	/* A unit is drawn by up to two of six windows: its variance is below 1. 5 deviations. */
	for (uint32_t i = 0; i < MANY; i++) {
		require(counts[i] > DRAWS - 224 && counts[i] < DRAWS + 224,
			"line %u came %llu times in %d draws", i + 1, (unsigned long long)counts[i],
			DRAWS);
	}
	require(all > (uint64_t)DRAWS * MANY * 99 / 100 && all < (uint64_t)DRAWS * MANY * 101 / 100,
		"%llu rows", (unsigned long long)all);
	temporary_remove(folder);
}

Test(resample, works_with_the_other_options)
{
	struct workload_options options = plain;
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	uint64_t counts[MANY] = {0}, hash = 0, again = 0, other = 0, counted;
	struct error error = {0};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	write_many(path);
	options.resample_seed = 3;
	options.resample_window_ns = UINT64_C(10) * 1000000000;
	options.speedup_millionths = 3000000;
	options.spreads_ties = true;
	options.max_requests = 100;
	uint64_t count = read_workload(path, &options, counts, &hash);
	for (uint32_t i = 100; i < MANY; i++) {
		require(counts[i] == 0, "line %u is behind --max-requests", i + 1);
	}
	/* Sessions come whole: their four rows, two of each tick, equally often. */
	for (uint32_t i = 0; i < 96; i++) {
		require(counts[i] == counts[i / 8 * 8 + i % 2], "line %u", i + 1);
	}
	require_equal(read_workload(path, &options, counts, &again), count);
	require_equal(again, hash);
	require(workload_count(path, &options, &counted, &error) == STATUS_OK, "%s", error.text);
	require_equal(counted, count);
	options.resample_seed = 4;
	read_workload(path, &options, counts, &other);
	require(other != hash, "another seed gives the same rows");
	options.resample_window_ns = 1000;
	require(workload_count(path, &options, &counted, &error) == STATUS_USAGE,
		"windows beyond the limit");
	cr_assert_not_null(strstr(error.text, "expected at most 1000000"), "%s", error.text);
	temporary_remove(folder);
}

/* Ticks of 10 ms to 5 s, many of several rows, some of sessions; every tenth file has no tick. */
static void write_ticks(struct prop *prop, const char *path)
{
	FILE *file = fopen(path, "wb");
	uint64_t tick_ms = prop_range(prop, 10, 5000), at_ms = 0;
	bool has_tick = prop_chance(prop, 9, 10);

	require(file != NULL, "%s cannot be written", path);
	for (uint32_t i = 0; i < MANY; i++) {
		at_ms += prop_chance(prop, 1, 3) ? prop_range(prop, 1, 4) * tick_ms : 0;
		at_ms += has_tick ? 0 : i % 97;
		fprintf(file,
			"{\"timestamp\": %llu, \"input_length\": 16, \"output_length\": 1, "
			"\"session_id\": \"s%u\", \"hash_ids\": [%u]}\n",
			(unsigned long long)at_ms,
			i == 0 ? 0 : (unsigned)prop_below(prop, 3 * MANY), i);
	}
	fclose(file);
}

/* Reads to the end, as closed sessions do: each row has finished when the next one is asked for. */
static void require_ticks_of_a_workload(const char *path, const struct workload_options *options)
{
	const struct tick_finder expected = ticks_of(path, options->max_requests);
	struct workload *workload;
	struct trace_row row;
	struct error error = {0};
	enum workload_state state = WORKLOAD_ROW;
	uint64_t next_ns, now_ns = 0;

	require(workload_open(&workload, path, options, &error) == STATUS_OK, "%s", error.text);
	for (;;) {
		require(workload_next(workload, now_ns, &row, &state, &next_ns, &error) ==
				STATUS_OK,
			"%s", error.text);
		if (state != WORKLOAD_ROW && state != WORKLOAD_LATER) {
			break;
		}
		now_ns = state == WORKLOAD_LATER ? next_ns : now_ns;
		if (state == WORKLOAD_ROW) {
			workload_finish(workload, row.turn_index, now_ns);
		}
	}
	require_equal(state, WORKLOAD_END);
	require_ticks(workload_ticks(workload), &expected);
	workload_close(workload);
}

/* The ticks are those of the file's rows, before anything moves, draws or leaves out rows: so one
   is told of them whatever else the options ask for. */
static void body_ticks(struct prop *prop, const void *context)
{
	static const struct arrival_profile profile = {.kind = ARRIVALS_CONSTANT,
		.rate_from = 5000000,
		.rate_to = 5000000,
		.step_count = 1,
		.resolution_ns = 1};
	const char *path = context;
	struct workload_options options = plain;

	write_ticks(prop, path);
	options.spreads_ties = prop_chance(prop, 1, 2);
	options.resample_seed = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 100) : 0;
	options.seed = prop_below(prop, 100);
	options.speedup_millionths =
		prop_chance(prop, 1, 2) ? 1000000 : prop_range(prop, 1, 9) * 300000;
	options.max_requests = prop_chance(prop, 1, 2) ? 0 : prop_range(prop, 1, 3 * MANY);
	if (!options.spreads_ties && options.resample_seed == 0 && options.max_requests > 0) {
		options.loop = LOOP_OFF + prop_below(prop, LOOP_SHARED + 1);
	}
	options.sessions = prop_chance(prop, 1, 3) ? SESSIONS_CLOSED : SESSIONS_OPEN;
	options.profile = !options.spreads_ties && prop_chance(prop, 1, 4) ? &profile : NULL;
	prop_log(prop, "%s%s, speedup %llu, %llu rows", options.spreads_ties ? "spread" : "",
		options.resample_seed > 0 ? " resampled" : "",
		(unsigned long long)options.speedup_millionths,
		(unsigned long long)options.max_requests);
	require_ticks_of_a_workload(path, &options);
}

Test(resample, ticks_are_those_of_the_file_whatever_moves_its_rows)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct prop_options options = {.name = "ticks", .body = body_ticks, .trials = 400};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	options.context = path;
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}
