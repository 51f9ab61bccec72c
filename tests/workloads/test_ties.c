#include "workloads/ties.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/text.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

#define NS_PER_MS UINT64_C(1000000)

static struct tick_finder find(const uint64_t *ms, uint32_t count)
{
	struct tick_finder finder = {0};

	for (uint32_t i = 0; i < count; i++) {
		tick_finder_add(&finder, ms[i] * NS_PER_MS);
	}
	return finder;
}

#define FIND(...)                                                                                  \
	find((const uint64_t[]){__VA_ARGS__},                                                      \
		sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void require_tick(struct tick_finder finder, uint64_t tick_ms, const char *text)
{
	char found[TICK_TEXT_BYTES];

	require(tick_finder_tick(&finder) == tick_ms * NS_PER_MS,
		"%" PRIu64 " ns, expected %" PRIu64 " ms", tick_finder_tick(&finder), tick_ms);
	if (tick_ms > 0) {
		tick_finder_text(&finder, found);
		require(strstr(found, text) != NULL, "'%s' lacks '%s'", found, text);
	}
}

Test(ties, have_the_greatest_tick_of_all_times)
{
	require_tick(FIND(0, 0, 3000, 3000, 3000, 9000, 9000), 3000,
		"times are quantised to 3 s: 2.3 requests share one");
	require_tick(FIND(500, 500, 3500, 6500, 6500), 3000, "3 s: 1.6 requests");
	require_tick(FIND(0, 0, 4000, 6000), 2000, "2 s: 1.3 requests");
	require_tick(FIND(0, 0, 40, 60), 20, "20 ms: 1.3 requests");
	/* Rounded to milliseconds by the recorder. */
	require_tick(FIND(0, 0, 3000, 5999, 5999, 9001, 12000, 12000), 3000, "to 3 s:");
	require_tick(FIND(0, 0, 999, 2000, 3001, 4000), 1000, "to 1 s:");
}

Test(ties, have_no_tick_where_times_are_their_own)
{
	require_tick(FIND(7), 0, "");
	require_tick(FIND(7, 7, 7, 7), 0, "");		/* a batch */
	require_tick(FIND(0, 1000, 2000, 3000), 0, ""); /* nobody shares a time */
	require_tick(FIND(0, 0, 9, 18, 27), 0, "");	/* too short to matter */
	require_tick(FIND(0, 0, 1234, 2777, 3456, 7891), 0, "");
}

/* One row in ten shares its time, and no fewer. */
Test(ties, are_a_tenth_of_the_rows_at_least)
{
	for (uint32_t rows = 3; rows <= 200; rows++) {
		for (uint32_t sharing = 0; sharing < 25 && sharing + 2 < rows; sharing++) {
			struct tick_finder finder = {0};
			for (uint32_t i = 0; i < rows; i++) {
				uint64_t tick = i < rows - sharing ? i : rows - sharing - 1;
				tick_finder_add(&finder, tick * 3000 * NS_PER_MS);
			}
			bool has_tick = 10 * sharing >= rows;
			require((tick_finder_tick(&finder) > 0) == has_tick,
				"%u of %u rows share a time", sharing, rows);
		}
	}
}

/* Times of a random tick, each rounded a little, behind a first row anywhere. */
static void find_rounded(struct prop *prop, const void *context)
{
	struct tick_finder finder = {0};
	uint64_t tick_ms = prop_range(prop, 1000, 20000), tick = 0;
	uint64_t zero_ms = prop_range(prop, 0, 100000), salt = prop_range(prop, 1, 9999);

	(void)context;
	for (uint32_t i = 0; i < 2000; i++) {
		uint64_t draw = (i + salt) * 2654435761u >> 7;
		tick += draw % 3 == 0 ? 1 + draw % 5 : 0;
		uint64_t jitter_ms = tick * 7919 % 2; /* the same for all rows of the tick */
		tick_finder_add(&finder, (zero_ms + tick * tick_ms + jitter_ms) * NS_PER_MS);
	}
	double error = (double)tick_finder_tick(&finder) / (double)(tick_ms * NS_PER_MS) - 1;
	require(error > -0.001 && error < 0.001, "tick %" PRIu64 " ms found as %" PRIu64 " ns",
		tick_ms, tick_finder_tick(&finder));
}

Test(ties, are_found_under_rounding)
{
	const struct prop_options options = {
		.name = "rounded ticks", .body = find_rounded, .trials = 300};

	cr_assert(prop_holds(&options));
}

/* ---- spreading ---- */

static void make(struct spread_times *times, const char *path, uint64_t max_rows, uint64_t seed)
{
	const struct trace_options options = {0};
	struct error error = {0};

	require(spread_times_make(times, path, &options, max_rows, seed, &error) == STATUS_OK, "%s",
		error.text);
}

/* A trace of ticks of 3 s, of up to five rows each. After every seventh tick some have no row. */
static uint32_t write_ticks(const char *folder, char *path, uint64_t *old_ns)
{
	static char text[1 << 16];
	size_t used = 0;
	uint32_t rows = 0;

	for (uint32_t tick = 0; tick < 200; tick++) {
		uint32_t at_ms = (tick + tick / 7 * 4) * 3000 - (tick > 0 && tick % 4 == 0);
		for (uint32_t i = 0; i <= tick * 7 % 5; i++) {
			used += (size_t)snprintf(text + used, sizeof(text) - used,
				"{\"timestamp\":%u,\"input_length\":1,\"output_length\":1}\n",
				at_ms);
			old_ns[rows++] = at_ms * NS_PER_MS;
		}
	}
	temporary_write(folder, "ticks.jsonl", text, path);
	return rows;
}

Test(ties, are_spread_inside_their_tick_in_order)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	uint64_t old_ns[1000];
	struct spread_times times, again, other, few;
	double sum = 0;

	temporary_folder(folder);
	uint32_t rows = write_ticks(folder, path, old_ns);
	make(&times, path, 0, 1);
	make(&again, path, 0, 1);
	make(&other, path, 0, 2);
	make(&few, path, 10, 1);
	require_equal(times.row_count, rows);
	require_equal(few.row_count, 10);
	uint32_t differing = 0;
	uint64_t before_ns = 0, moved_to_ns = 0; /* the latest row moved within its tick */
	for (uint32_t i = 0; i < rows; i++) {
		uint64_t offset = times.offset_ns[i], new_ns = old_ns[i] + offset;
		require(offset < 3000 * NS_PER_MS, "row %u", i);
		require(new_ns >= before_ns, "row %u", i);
		require(offset == again.offset_ns[i], "row %u of one seed", i);
		differing += offset != other.offset_ns[i];
		before_ns = new_ns;
		sum += (double)offset;
		moved_to_ns = offset > 0 ? old_ns[i] : moved_to_ns;
	}
	require_equal(moved_to_ns, old_ns[rows - 1]); /* no row shows how long the last tick is */
	require(differing > rows * 9 / 10, "another seed gives the same times");
	double mean_ms = sum / rows / (double)NS_PER_MS;
	require(mean_ms > 1350 && mean_ms < 1650, "mean offset %g ms of 3 s", mean_ms);
	spread_times_free(&times);
	spread_times_free(&again);
	spread_times_free(&other);
	spread_times_free(&few);
	temporary_remove(folder);
}

/* Ticks that begin as much too early or too late as their rounding may be, of many rows, so that
   some row is drawn to each part of its tick: none passes the begin of the next one that has rows,
   nor the tick's length. */
static void spread_rounded(struct prop *prop, const void *context)
{
	const char *folder = context;
	uint64_t tick_ms = prop_range(prop, 1000, 3000), at_ms = 0, next_ms[20];
	uint32_t rounding = (uint32_t)tick_ms / TICK_TOLERANCE / 4, ticks = 0;
	char path[TEMPORARY_PATH_BYTES];
	struct spread_times times;
	struct text text = {0};

	for (; ticks < 20; ticks++) {
		next_ms[ticks] = at_ms + (ticks == 0 ? rounding : prop_below(prop, 2 * rounding));
		at_ms += tick_ms * prop_range(prop, 1, 2);
		for (uint32_t i = 0; i < 200; i++) {
			text_format(&text,
				"{\"timestamp\":%" PRIu64
				",\"input_length\":1,\"output_length\":1}\n",
				next_ms[ticks]);
		}
	}
	temporary_write(folder, "rounded.jsonl", text.bytes, path);
	text_deinit(&text);
	make(&times, path, 0, prop_below(prop, 100));
	uint64_t found_ns = tick_finder_tick(&times.finder), most_ns = 0;
	require(found_ns > tick_ms * NS_PER_MS * 49 / 50 &&
			found_ns < tick_ms * NS_PER_MS * 51 / 50,
		"a tick of %" PRIu64 " ns, not %" PRIu64 " ms", found_ns, tick_ms);
	for (uint32_t i = 0; i < 200 * ticks; i++) {
		uint32_t tick = i / 200;
		uint64_t room_ns = tick + 1 < ticks
					   ? (next_ms[tick + 1] - next_ms[tick]) * NS_PER_MS
					   : found_ns;
		require(times.offset_ns[i] < room_ns && times.offset_ns[i] < found_ns,
			"row %u of a tick of %" PRIu64 " ns is %" PRIu64 " ns late", i, room_ns,
			times.offset_ns[i]);
		require(i % 200 == 0 || times.offset_ns[i] >= times.offset_ns[i - 1], "row %u", i);
		most_ns = times.offset_ns[i] > most_ns ? times.offset_ns[i] : most_ns;
	}
	require(most_ns > found_ns * 19 / 20, "no row is near the end of its tick");
	spread_times_free(&times);
}

Test(ties, that_are_rounded_are_spread_up_to_the_next_tick)
{
	char folder[TEMPORARY_PATH_BYTES];
	const struct prop_options options = {
		.name = "spread", .body = spread_rounded, .context = folder, .trials = 60};

	temporary_folder(folder);
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

Test(ties, of_a_trace_without_ticks_stay)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct spread_times times;

	temporary_folder(folder);
	temporary_write(folder, "t.jsonl",
		"{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n"
		"{\"timestamp\":0,\"input_length\":1,\"output_length\":1}\n"
		"{\"timestamp\":1234,\"input_length\":1,\"output_length\":1}\n"
		"{\"timestamp\":1777,\"input_length\":1,\"output_length\":1}\n",
		path);
	make(&times, path, 0, 1);
	require_equal(times.offset_ns[1], 0);
	require_equal(times.offset_ns[3], 0);
	spread_times_free(&times);
	temporary_remove(folder);
}
