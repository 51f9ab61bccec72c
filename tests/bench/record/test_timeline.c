#include "bench/record/timeline.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/record/step_grid.h"
#include "engine/base/clock.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"

/* Compares the timeline with a list of its steps, from which every bin is summed separately. */

enum { STEPS_MAX = 200 };

struct steps {
	struct timeline_step steps[STEPS_MAX];
	struct timeline_wait_span {
		enum wait_cause cause;
		uint64_t count;
	} waits[STEPS_MAX]; /* over the time of each step */
	uint32_t count;
};

static uint64_t overlap_ns(const struct timeline_step *step, uint64_t low, uint64_t high)
{
	uint64_t from = step->start_ns > low ? step->start_ns : low;
	uint64_t to = step->end_ns < high ? step->end_ns : high;

	return to > from ? to - from : 0;
}

/* A step that ends where a bin does belongs to that bin: its last nanosecond is in it. */
static bool ends_in(const struct timeline_step *step, uint64_t low, uint64_t high)
{
	uint64_t last = step->end_ns > step->start_ns ? step->end_ns - 1 : step->end_ns;

	return last >= low && last < high;
}

static struct timeline_bin naive_bin(const struct steps *steps, uint64_t low, uint64_t high)
{
	struct timeline_bin bin = {0};

	for (uint32_t i = 0; i < steps->count; i++) {
		const struct timeline_step *step = &steps->steps[i];
		uint64_t span_ns = overlap_ns(step, low, high);
		bin.running_ns += (u128)step->running * span_ns;
		bin.waiting_ns += (u128)step->waiting * span_ns;
		bin.used_blocks_ns += (u128)step->used_blocks * span_ns;
		bin.busy_ns += span_ns;
		bin.wait_ns[steps->waits[i].cause] += (u128)steps->waits[i].count * span_ns;
		if (ends_in(step, low, high)) {
			bin.hit_tokens += step->hit_tokens;
			bin.query_tokens += step->query_tokens;
			bin.output_tokens += step->output_tokens;
			bin.prefill_tokens += step->prefill_tokens;
			bin.preemptions += step->preemptions;
			bin.steps++;
		}
	}
	return bin;
}

static void require_bin(const struct timeline_bin *found, const struct timeline_bin *expected)
{
	require(found->running_ns == expected->running_ns, "running differs");
	require(found->waiting_ns == expected->waiting_ns, "waiting differs");
	require(found->used_blocks_ns == expected->used_blocks_ns, "used blocks differ");
	require(memcmp(found->wait_ns, expected->wait_ns, sizeof(found->wait_ns)) == 0,
		"waits differ");
	require_equal(found->busy_ns, expected->busy_ns);
	require_equal(found->hit_tokens, expected->hit_tokens);
	require_equal(found->query_tokens, expected->query_tokens);
	require_equal(found->output_tokens, expected->output_tokens);
	require_equal(found->prefill_tokens, expected->prefill_tokens);
	require_equal(found->preemptions, expected->preemptions);
	require_equal(found->steps, expected->steps);
}

/* Times of all magnitudes up to 2^62 ns, often on the edge of a bin. */
static uint64_t draw_span(struct prop *prop, uint64_t bin_ns, uint64_t now_ns)
{
	switch (prop_below(prop, 5)) {
	case 0:
		return prop_below(prop, 4);
	case 1:
		return bin_ns - now_ns % bin_ns; /* to the end of the bin */
	case 2:
		return prop_below(prop, 3 * bin_ns);
	case 3:
		return bin_ns * prop_below(prop, 50);
	default:
		return prop_below(prop, UINT64_C(1) << prop_below(prop, 57));
	}
}

static struct timeline_step draw_step(
	struct prop *prop, uint64_t *now_ns, uint64_t origin_ns, uint64_t bin_ns)
{
	if (prop_chance(prop, 1, 3)) {
		*now_ns += draw_span(prop, bin_ns, *now_ns - origin_ns); /* idle */
	}
	struct timeline_step step = {.start_ns = *now_ns};
	*now_ns += draw_span(prop, bin_ns, *now_ns - origin_ns);
	step.end_ns = *now_ns;
	step.running = prop_below(prop, 1000);
	step.waiting = prop_below(prop, UINT64_C(1) << 40);
	step.used_blocks = prop_below(prop, 1 << 20);
	step.hit_tokens = prop_below(prop, 100);
	step.query_tokens = prop_below(prop, 100);
	step.output_tokens = prop_below(prop, 100);
	step.prefill_tokens = prop_below(prop, 100);
	step.preemptions = prop_below(prop, 3);
	prop_log(prop, "step from %llu to %llu ns", (unsigned long long)step.start_ns,
		(unsigned long long)step.end_ns);
	return step;
}

static void body_bins(struct prop *prop, const void *context)
{
	static struct timeline timeline; /* large; a trial has a process of its own */
	static struct steps steps;
	uint64_t origin_ns = prop_below(prop, UINT64_C(1) << prop_below(prop, 62));
	uint64_t now_ns = origin_ns;
	(void)context;

	steps.count = 0;
	timeline_init(&timeline);
	timeline.origin_ns = origin_ns;
	uint32_t count = prop_range(prop, 1, STEPS_MAX);
	for (uint32_t i = 0; i < count && now_ns < UINT64_C(1) << 62; i++) {
		struct timeline_step *step = &steps.steps[steps.count++];
		*step = draw_step(prop, &now_ns, origin_ns, timeline.bin_ns);
		steps.waits[i].cause = prop_below(prop, WAIT_CAUSE_COUNT);
		steps.waits[i].count = prop_below(prop, 3);
		if (prop_chance(prop, 1, 2)) {
			timeline_wait(&timeline, steps.waits[i].cause, steps.waits[i].count,
				step->start_ns, step->end_ns);
			timeline_add(&timeline, step);
		} else {
			timeline_add(&timeline, step);
			timeline_wait(&timeline, steps.waits[i].cause, steps.waits[i].count,
				step->start_ns, step->end_ns);
		}
	}
	require(timeline.bin_count <= TIMELINE_BINS_MAX, "too many bins");
	struct timeline_bin sum = {0};
	for (uint32_t i = 0; i < timeline.bin_count; i++) {
		uint64_t low = origin_ns + i * timeline.bin_ns;
		struct timeline_bin expected = naive_bin(&steps, low, low + timeline.bin_ns);
		require_bin(&timeline.bins[i], &expected);
		sum.busy_ns += timeline.bins[i].busy_ns;
		sum.steps += timeline.bins[i].steps;
		sum.waiting_ns += timeline.bins[i].waiting_ns;
	}
	/* Nothing lies outside the bins. */
	struct timeline_bin all = naive_bin(&steps, 0, UINT64_MAX);
	require_equal(sum.busy_ns, all.busy_ns);
	require_equal(sum.steps, all.steps);
	require(sum.waiting_ns == all.waiting_ns, "waiting was lost");
	/* The last bin is that of the latest step's end, or of its last nanosecond. */
	const struct timeline_step *last = &steps.steps[steps.count - 1];
	uint64_t last_low = origin_ns + (timeline.bin_count - 1) * timeline.bin_ns;
	require(last->end_ns >= last_low && last->end_ns <= last_low + timeline.bin_ns,
		"bins go on behind the end");
	/* No wider than it needs to be: half as wide would not have held it. */
	require(timeline.bin_ns == 1000 || timeline.bin_count > TIMELINE_BINS_MAX / 2,
		"%u bins of %llu ns", timeline.bin_count, (unsigned long long)timeline.bin_ns);
}

Test(timeline, bins_equal_the_sums_over_steps)
{
	struct prop_options options = {.name = "timeline", .body = body_bins, .trials = 300};

	cr_assert(prop_holds(&options));
}

/* Up to the last nanosecond of the clock the bins cover the time, and the ends of bins fit 64 bits.
   */
Test(timeline, bins_reach_the_end_of_the_clock)
{
	static struct timeline timeline;
	const uint64_t starts[] = {0, CLOCK_NS_MAX - 1, CLOCK_NS_MAX};
	uint64_t busy_ns = 0;

	timeline_init(&timeline);
	for (uint32_t i = 0; i < 3; i++) {
		const struct timeline_step step = {.start_ns = starts[i],
			.end_ns = i == 0 ? CLOCK_NS_MAX - 1 : CLOCK_NS_MAX,
			.running = 1};
		timeline_add(&timeline, &step);
	}
	for (uint32_t i = 0; i < timeline.bin_count; i++) {
		busy_ns += timeline.bins[i].busy_ns;
	}
	require_equal(busy_ns, CLOCK_NS_MAX);
	require(timeline.bin_count > TIMELINE_BINS_MAX / 2, "%u bins", timeline.bin_count);
}

/* A step is in the bins of its time, and in none that begins where it ends. */
Test(timeline, no_bin_begins_where_the_last_step_ends)
{
	static struct timeline timeline;

	for (uint64_t bins = 1; bins <= 3; bins++) {
		timeline_init(&timeline);
		const uint64_t edge_ns = bins * timeline.bin_ns;
		const struct timeline_step to_edge = {.end_ns = edge_ns, .running = 1};
		const struct timeline_step beyond = {
			.start_ns = edge_ns, .end_ns = edge_ns + 1, .running = 1};
		timeline_add(&timeline, &to_edge);
		require_equal(timeline.bin_count, bins);
		timeline_add(&timeline, &beyond);
		require_equal(timeline.bin_count, bins + 1);
	}
}

Test(timeline, a_step_that_ends_before_it_starts_is_an_error, .signal = SIGABRT)
{
	static struct timeline timeline;
	const struct timeline_step step = {.start_ns = 10, .end_ns = 9};

	timeline_init(&timeline);
	timeline_add(&timeline, &step);
}

Test(timeline, a_step_beyond_the_clock_is_an_error, .signal = SIGABRT)
{
	static struct timeline timeline;
	const struct timeline_step step = {.start_ns = 10, .end_ns = CLOCK_NS_MAX + 1};

	timeline_init(&timeline);
	timeline_add(&timeline, &step);
}

/* The mean over whole bins is the integral by their width; outside of all bins it is 0. All times
   are the clock's, whenever the first bin starts. */
Test(timeline, mean_waiting_is_the_integral_by_its_width)
{
	static struct timeline timeline;
	static const uint64_t origins[] = {0, 1, 5500, UINT64_C(1) << 60};
	static const struct {
		uint64_t start_ns, end_ns, mean;
	} cases[] = {{0, 10000, 4000}, {0, 12000, 3333}, {12000, 13000, 9000}, {12001, 12002, 9000},
		{9999, 12001, 3250}, {5000, 5000, 0}, {50000, 60000, 0}};

	for (uint32_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
		const uint64_t at = origins[i];
		struct timeline_step step = {
			.start_ns = at, .end_ns = at + 10000, .waiting = 4, .running = 1};
		timeline_init(&timeline);
		timeline.origin_ns = at;
		require_equal(timeline_mean_waiting(&timeline, at, at + 1000), 0);
		timeline_add(&timeline, &step);
		step = (struct timeline_step){
			.start_ns = at + 12000, .end_ns = at + 13000, .waiting = 9};
		timeline_add(&timeline, &step);
		require_equal(timeline.bin_ns, 1000);
		for (uint32_t j = 0; j < sizeof(cases) / sizeof(cases[0]); j++) {
			require_equal(timeline_mean_waiting(&timeline, at + cases[j].start_ns,
					      at + cases[j].end_ns),
				cases[j].mean);
			/* Of one running request over the first step more. */
			uint64_t alone = timeline_mean_present(
				&timeline, at + cases[j].start_ns, at + cases[j].end_ns);
			require(alone >= cases[j].mean && alone <= cases[j].mean + 1000,
				"%llu are present", (unsigned long long)alone);
		}
		require_equal(timeline_mean_present(&timeline, at, at + 10000), 5000);
	}
}

/* ---- what is written ---- */

/* Opens the one table that there is at a time: a table is too large for a stack. */
static struct table_writer *open_table(const char *path)
{
	struct table_writer *table = calloc(1, sizeof(*table));

	require(table != NULL, "out of memory");
	table_file_open(table, path, "header");
	return table;
}

static void close_table(struct table_writer *table)
{
	table_file_close(table);
	free(table);
}

Test(timeline, rows_hold_averages_sums_and_shares)
{
	static struct timeline timeline;
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	const struct timeline_step step = {.start_ns = 500,
		.end_ns = 1250,
		.running = 3,
		.waiting = 1,
		.used_blocks = 1000000,
		.hit_tokens = 1,
		.query_tokens = 2,
		.output_tokens = 3,
		.prefill_tokens = 4,
		.preemptions = 5};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/t", folder);
	struct table_writer *table = open_table(path);
	timeline_init(&timeline);
	timeline_add(&timeline, &step);
	timeline_wait(&timeline, WAIT_SEATS, 2, 500, 1250);
	timeline_wait(&timeline, WAIT_STEP, 1, 900, 1000);
	timeline_write(&timeline, table);
	close_table(table);
	char *text = file_read(path, NULL);
	cr_assert_str_eq(text,
		"header\n"
		"0.000000000\t0.000001000\t1.500\t0.500\t500000.000\t0\t0\t0\t0\t0\t0\t0.500000\t"
		"0.100\t1.000\t0.000\t0.000\t0.000\t0.000\t0.000\n"
		"0.000001000\t0.000001000\t0.750\t0.250\t250000.000\t1\t2\t3\t4\t5\t1\t0.250000\t"
		"0.000\t0.500\t0.000\t0.000\t0.000\t0.000\t0.000\n");
	free(text);
	temporary_remove(folder);
}

/* What is the same over all of a run is so in every row, whatever the bins' width is. One step over
   all bins, and another of half a bin in the first. */
Test(timeline, averages_do_not_depend_on_the_width)
{
	static struct timeline timeline;
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	const char *const sums[] = {"3\t4\t5\t6\t7\t1", "0\t0\t0\t0\t0\t0", "0\t0\t0\t0\t0\t1"};
	char expected[3]
		     [256]; /* the first row, those behind it, and the last, where the step ends */

	for (uint32_t i = 0; i < 3; i++) {
		snprintf(expected[i], sizeof(expected[i]),
			"\t%s\t%s\t%s\t1073741824.000\t%s\t0.000\t0.000\t0.000\t0.000\t0.000",
			i == 0 ? "1.500\t1649267441664.500\t402653184.500"
			       : "1.000\t1099511627776.000\t268435456.000",
			sums[i], i == 0 ? "1.500000" : "1.000000", i == 0 ? "0.500" : "0.000");
	}
	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/t", folder);
	for (uint64_t bin_ns = 1000; bin_ns <= CLOCK_NS_MAX / TIMELINE_BINS_MAX; bin_ns *= 2) {
		const uint64_t end_ns = bin_ns * TIMELINE_BINS_MAX;
		const struct timeline_step whole = {.end_ns = end_ns,
			.running = 1,
			.waiting = UINT64_C(1) << 40,
			.used_blocks = 1 << 28};
		const struct timeline_step half = {.end_ns = bin_ns / 2,
			.running = 1,
			.waiting = (UINT64_C(1) << 40) + 1,
			.used_blocks = (1 << 28) + 1,
			.hit_tokens = 3,
			.query_tokens = 4,
			.output_tokens = 5,
			.prefill_tokens = 6,
			.preemptions = 7};
		timeline_init(&timeline);
		timeline_add(&timeline, &whole);
		timeline_add(&timeline, &half);
		timeline_wait(&timeline, 0, 1 << 30, 0, end_ns);
		timeline_wait(&timeline, 1, 1, 0, bin_ns / 2);
		require_equal(timeline.bin_ns, bin_ns);
		require_equal(
			timeline_mean_waiting(&timeline, bin_ns, end_ns), 1000 * whole.waiting);
		struct table_writer *table = open_table(path);
		timeline_write(&timeline, table);
		close_table(table);
		char *text = file_read(path, NULL), *rest = NULL;
		strtok_r(text, "\n", &rest);
		for (uint32_t i = 0; i < TIMELINE_BINS_MAX; i++) {
			const char *row = strtok_r(NULL, "\n", &rest);
			require(row != NULL, "%u rows", i);
			const char *cells = strchr(strchr(row, '\t') + 1, '\t');
			require(strcmp(cells, expected[(i > 0) + (i + 1 == TIMELINE_BINS_MAX)]) ==
					0,
				"row %u of %llu ns: %s", i, (unsigned long long)bin_ns, row);
		}
		free(text);
	}
	temporary_remove(folder);
}

/* ---- the step grid ---- */

struct grid_row {
	uint64_t rows_low, rows_high, tokens_low, tokens_high, steps, mean, max;
};

/* The only row that a grid with steps of one composition writes. */
static struct grid_row written_row(struct step_grid *grid, const char *path)
{
	struct grid_row row = {0};
	struct table_writer *table = open_table(path);
	unsigned long long cells[7];

	step_grid_write(grid, table);
	close_table(table);
	char *text = file_read(path, NULL);
	int bytes = 0;
	require(sscanf(text, "header\n%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n%n", &cells[0],
			&cells[1], &cells[2], &cells[3], &cells[4], &cells[5], &cells[6],
			&bytes) == 7,
		"no row: %s", text);
	require_equal(bytes, strlen(text));
	row = (struct grid_row){
		cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]};
	free(text);
	return row;
}

/* Ranges tile the counts from 0 to the engine's largest without a gap or an overlap, no range is
   wider than a quarter of where it begins, and every count is added to the range it lies in. */
Test(step_grid, ranges_tile_all_counts)
{
	static struct step_grid grid;
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];
	uint64_t next = 0;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/grid", folder);
	while (next <= UINT64_C(1) << 28) {
		memset(&grid, 0, sizeof(grid));
		step_grid_add(&grid, next, 0, 10);
		struct grid_row row = written_row(&grid, path);
		require_equal(row.rows_low, next);
		require(row.rows_high >= row.rows_low, "an empty range");
		require(row.rows_high - row.rows_low + 1 <= (next < 8 ? 1 : next / 4),
			"a wide range from %llu", (unsigned long long)next);
		require_equal(row.tokens_low, 0);
		require_equal(row.tokens_high, 0);
		/* Its end and its middle are in the same cell, in both directions. */
		step_grid_add(&grid, row.rows_high, 0, 11);
		step_grid_add(&grid, next + (row.rows_high - next) / 2, 0, 15);
		struct grid_row full = written_row(&grid, path);
		require_equal(full.rows_low, row.rows_low);
		require_equal(full.steps, 3);
		require_equal(full.mean, 12);
		require_equal(full.max, 15);
		memset(&grid, 0, sizeof(grid));
		step_grid_add(&grid, 1, next, 10);
		struct grid_row across = written_row(&grid, path);
		require_equal(across.tokens_low, row.rows_low);
		require_equal(across.tokens_high, row.rows_high);
		require_equal(across.rows_low, 1);
		next = row.rows_high + 1;
	}
	temporary_remove(folder);
}

Test(step_grid, means_do_not_overflow)
{
	static struct step_grid grid;
	char folder[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES + 16];

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/grid", folder);
	for (uint32_t i = 0; i < 4; i++) {
		step_grid_add(&grid, 3, 5, UINT64_MAX - i);
	}
	struct grid_row row = written_row(&grid, path);
	require_equal(row.steps, 4);
	require_equal(row.mean, UINT64_MAX - 2);
	require_equal(row.max, UINT64_MAX);
	temporary_remove(folder);
}
