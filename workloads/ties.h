#ifndef WORKLOADS_TIES_H
#define WORKLOADS_TIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "workloads/trace/trace.h"

/* Times of a trace that was recorded by a clock with coarse ticks. Its rows arrive in bursts that
   the real requests did not come in.

   The rule: the tick is the greatest time of which all distances from the first row are multiples,
   give or take a TICK_TOLERANCE-th of it, since such times are often rounded to milliseconds. A
   trace is quantised to it if it is at least TICK_MIN_NS, below which ties are shorter than the
   steps of an engine, and if at least one row in TIES_SHARE shares its time with the row before it.
   Rows that all have one time are a batch, and have no tick. */

enum { TIES_SHARE = 10, TICK_TOLERANCE = 100, TICK_MIN_NS = 10 * 1000 * 1000 };

/* Zeroed at first; rows are added in order of time. */
struct tick_finder {
	uint64_t row_count, time_count; /* rows, and different times among them */
	uint64_t first_ns, last_ns;
	/* the tick is span_ns / span_ticks, from the latest row; 0 ticks: there is only one time */
	uint64_t span_ns, span_ticks;
	bool is_fine; /* it is below TICK_MIN_NS */
};

void tick_finder_add(struct tick_finder *finder, uint64_t arrival_ns);

/* The tick in ns, rounded; 0: the times are not quantised. */
uint64_t tick_finder_tick(const struct tick_finder *finder);

/* "times are quantised to 3 s: 10.2 requests share one", for a tick that is not 0. */
enum { TICK_TEXT_BYTES = 96 };
void tick_finder_text(const struct tick_finder *finder, char *text);

/* New times of a trace's rows: each is drawn from the tick that begins at its old one, uniformly,
   and the rows keep their order. A trace that is not quantised keeps its times, and one that is
   repeated has the same offsets each time. */
struct spread_times {
	uint64_t *offset_ns; /* (row_count) how much later each row comes, by its index */
	size_t row_count, capacity;
	struct tick_finder finder;
};

/* Reads the first max_rows rows (0: all) of a trace. To be freed after a failure too. */
enum status spread_times_make(struct spread_times *times, const char *path,
	const struct trace_options *options, uint64_t max_rows, uint64_t seed, struct error *error);
void spread_times_free(struct spread_times *times);

#endif
