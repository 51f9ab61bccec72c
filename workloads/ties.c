#include "workloads/ties.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/generate/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PURPOSE_TIES = 200 };

/* ---- the tick ---- */

/* How far a distance is from the nearest multiple of span / ticks, in ns; *multiple: which. */
static uint64_t miss_of(uint64_t distance_ns, uint64_t span_ns, uint64_t ticks, uint64_t *multiple)
{
	*multiple = (uint64_t)(((u128)distance_ns * ticks + span_ns / 2) / span_ns);
	uint64_t nearest_ns = (uint64_t)((u128)*multiple * span_ns / ticks);

	return nearest_ns > distance_ns ? nearest_ns - distance_ns : distance_ns - nearest_ns;
}

/* Euclid's greatest common divisor, where a rest within the tolerance is none. */
static uint64_t divisor_about(uint64_t a, uint64_t b)
{
	while (b > a / TICK_TOLERANCE && b >= TICK_MIN_NS) {
		uint64_t rest = a % b;
		a = b;
		b = u64_min(rest, b - rest);
	}
	return b > a / TICK_TOLERANCE ? b : a;
}

/* The longer the distance, the less its rounding tells of the tick: so the tick is always taken
   from the latest row. */
static void refine(struct tick_finder *finder, uint64_t distance_ns)
{
	uint64_t ticks = 1;

	if (finder->span_ticks > 0) {
		uint64_t tick_ns = finder->span_ns / finder->span_ticks;
		uint64_t miss_ns =
			miss_of(distance_ns, finder->span_ns, finder->span_ticks, &ticks);
		if (miss_ns > tick_ns / TICK_TOLERANCE) {
			miss_of(distance_ns, divisor_about(tick_ns, miss_ns), 1, &ticks);
		}
	}
	finder->span_ns = distance_ns;
	finder->span_ticks = ticks;
	finder->is_fine = distance_ns / ticks < TICK_MIN_NS;
}

void tick_finder_add(struct tick_finder *finder, uint64_t arrival_ns)
{
	if (finder->row_count++ == 0) {
		finder->first_ns = finder->last_ns = arrival_ns;
		finder->time_count = 1;
		return;
	}
	if (arrival_ns != finder->last_ns) {
		finder->last_ns = arrival_ns;
		finder->time_count++;
		if (!finder->is_fine) {
			refine(finder, arrival_ns - finder->first_ns);
		}
	}
}

uint64_t tick_finder_tick(const struct tick_finder *finder)
{
	uint64_t sharing = finder->row_count - finder->time_count;
	bool has_tick = finder->span_ticks > 0 && !finder->is_fine &&
			sharing >= u64_divide_up(finder->row_count, TIES_SHARE);

	return has_tick ? (finder->span_ns + finder->span_ticks / 2) / finder->span_ticks : 0;
}

void tick_finder_text(const struct tick_finder *finder, char *text)
{
	double tick_ms = (double)tick_finder_tick(finder) / 1e6;
	uint64_t tenths = finder->row_count * 10 / finder->time_count;
	bool is_long = tick_ms >= 999.5;

	snprintf(text, TICK_TEXT_BYTES,
		"times are quantised to %.3g %s: %llu.%llu requests share one",
		is_long ? tick_ms / 1000 : tick_ms, is_long ? "s" : "ms",
		(unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10));
}

/* ---- spreading ---- */

static enum status read_times(
	struct spread_times *times, struct trace *trace, uint64_t max_rows, struct error *error)
{
	struct trace_row row;
	bool has_row = true;

	while (max_rows == 0 || times->row_count < max_rows) {
		TRY(trace_next(trace, &row, &has_row, error));
		if (!has_row) {
			return STATUS_OK;
		}
		times->offset_ns = memory_grow(times->offset_ns, &times->capacity,
			times->row_count + 1, sizeof(*times->offset_ns));
		times->offset_ns[times->row_count++] = row.arrival_ns;
		tick_finder_add(&times->finder, row.arrival_ns);
	}
	return STATUS_OK;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Turns times into offsets. */
static void spread(struct spread_times *times, uint64_t tick_ns, uint64_t seed)
{
	struct random random = random_stream(seed, PURPOSE_TIES);
	uint64_t *at = times->offset_ns;

	for (size_t first = 0, end; first < times->row_count; first = end) {
		uint64_t start_ns = at[first];
		for (end = first; end < times->row_count && at[end] == start_ns;) {
			end++;
		}
		/* Ticks are rounded: the next one may begin a little early. */
		uint64_t room_ns = end < times->row_count ? at[end] - start_ns : tick_ns;
		room_ns = u64_min(u64_min(room_ns, tick_ns), CLOCK_NS_MAX - start_ns);
		for (size_t i = first; i < end; i++) {
			at[i] = (uint64_t)((u128)random_bits(&random) * room_ns >> 64);
		}
		qsort(at + first, end - first, sizeof(*at), by_size);
	}
}

enum status spread_times_make(struct spread_times *times, const char *path,
	const struct trace_options *options, uint64_t max_rows, uint64_t seed, struct error *error)
{
	struct trace *trace = NULL;

	memset(times, 0, sizeof(*times));
	TRY(trace_open(&trace, path, options, error));
	enum status status = read_times(times, trace, max_rows, error);
	trace_close(trace);
	TRY(status);
	spread(times, tick_finder_tick(&times->finder), seed); /* without a tick: by 0 */
	return STATUS_OK;
}

void spread_times_free(struct spread_times *times)
{
	free(times->offset_ns);
	memset(times, 0, sizeof(*times));
}
