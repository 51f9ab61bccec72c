#ifndef BENCH_PLAN_BANDS_H
#define BENCH_PLAN_BANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/plan/search.h"

/* Intervals of an answer from the answers of its replicates.

   Sampling. The trace is one draw of the process that sends requests, and so is its answer; the
   process's own is the median of the answers of many. Replicates show how far single draws lie
   apart:

       half     = (the 97.5 % quantile of the replicates' answers - the 2.5 % quantile) / 2
       interval = answer - half to answer + half, at 95 %

   So it lies about the answer, as wide as 95 % of the replicates do. They need not lie about the
   answer themselves: those of other seeds lie about the process's, and draws from a trace break
   what its neighbouring sessions shared. To which side the answer is skewed they do not tell well
   enough to be used: of the intervals that were tried only this one misses as often to both sides.

   The quantile at p of n values is the one of rank p * (n + 1), between two of them in proportion,
   and not beyond the first and the last: another draw lies beyond rank k of n with a chance of
   k / (n + 1). So 39 replicates are the least for 95 %.

   Draws of few windows vary too little: of w independent windows a mean's variance comes out at
   (w - 1) / w of what it is, and is itself uncertain, as Student's t shows. Both widen the half:

       half * sqrt(w / (w - 1)) * t_97.5(w - 1) / z_97.5

   The arithmetic is + - * / and square roots on doubles, the same on every machine. */

enum { BAND_VALUES_MIN = 8, BAND_VALUES_95 = 39 };

/* A replicate without an answer in the range that was searched: its answer is less than that, or
   more. */
#define BAND_LESS UINT64_C(0)
#define BAND_MORE UINT64_MAX

/* An end without a value is open: nothing is known there, or the interval reaches down to no load
   at all. */
struct band {
	bool has_low, has_high;
	double low, high;
};

/* values: (count) of the replicates, in any order. windows: that a draw consists of; 0: replicates
   are not drawn from the trace. Fewer than BAND_VALUES_MIN values give no ends. */
struct band band_of_sampling(
	double answer, const uint64_t *values, uint32_t count, uint64_t windows);

/* The same of whole things of which the least number that passes is looked for: the quantiles of
   the values, the lower one rounded down and the upper one up. BAND_LESS lies between `least`, of
   which there can be no fewer, and `searched`, the fewest that were searched, which suffice: the
   lower end counts it as the one, the upper end as the other. 1 <= least <= searched. */
struct band band_of_counts(
	const uint64_t *values, uint32_t count, uint64_t least, uint64_t searched);

/* The interval of a ratio of two configurations' figures. firsts, seconds: (count) of both on the
   same draws, in the same order; what a draw does to both alike drops out. It is that of sampling,
   of (first - second) / (first + second), so neither of the two is preferred; a figure of 0 or of
   INFINITY is one beyond what was searched. */
struct band band_of_ratio(double first, double second, const double *firsts, const double *seconds,
	uint32_t count, uint64_t windows);

/* The 97.5 % point of Student's t, relative to that of the normal distribution; at least two
   degrees of freedom, accurate to 3 % there and to 0.1 % from eight on (expansion of Fisher and
   Cornish, 1960). */
double band_student(uint64_t freedom);

/* ---- replicates ---- */

/* The search of a replicate: it begins at the answer and goes up or down from there, by 5 % first,
   until it has a load that passes and one that fails, and ends when these are `coarseness` times
   the plan's precision apart. It gives up at BAND_RANGE times the answer and at that part of it. */
enum { BAND_RANGE = 8 };
struct search_options band_search(
	const struct search_options *plan, uint64_t answer, uint64_t coarseness);

/* The answer of a replicate whose search has ended: where the straight line between the load that
   passes and the one that fails crosses 0, by their margins (search_take_margin()); their middle
   where these are both 0, or the one that passes where they are neighbours. */
uint64_t band_value(
	const struct search_answer *answer, bool is_least, double pass_margin, double fail_margin);

/* How long the windows of a draw are (workloads/resample.h), in the trace's own time. A window
   should hold BAND_LATENCIES times the 99th percentile of latency, so that what a request does to
   those behind it stays in its window; and it is a BAND_WINDOWS_MOST-th of the trace where that is
   longer. A trace of fewer than BAND_WINDOWS_MIN such windows is too short: it gets
   BAND_WINDOWS_MIN shorter ones, and its interval may be too narrow. */
struct band_window {
	uint64_t window_ns;
	uint64_t windows; /* of the trace, rounded up */
	bool is_too_short;
	uint64_t needed_ns; /* length of a trace that would do */
};

enum { BAND_LATENCIES = 20, BAND_WINDOWS_MIN = 8, BAND_WINDOWS_MOST = 20 };

/* span_ns: of the trace, >= 1. latency_ns: p99 of e2e at the answer, in the trace's own time: times
   the speedup. */
struct band_window band_window_of(uint64_t span_ns, uint64_t latency_ns);

#endif
