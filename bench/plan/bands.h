#ifndef BENCH_PLAN_BANDS_H
#define BENCH_PLAN_BANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/plan/search.h"

/* Intervals of an answer from the answers of its replicates.

   Sampling. The trace is one draw of the process that sends requests, and so is its answer. Of how
   far answers of single draws lie from the process's own, which is their median, replicates show
   the distribution:

       r = a replicate's answer / the median of all replicates' answers
       the process's answer lies between answer / r_97.5 and answer / r_2.5, at 95 %

   That is the basic bootstrap interval, of ratios: an answer that is high by chance is taken down.
   Percentiles of the replicates' answers would not do: other seeds lie around the process's answer
   and not around this trace's, and draws from a trace lie around its answer the wrong way round
   where r is skewed. The replicates' median need not be the answer: draws from a trace break its
   sessions' neighbourhoods, which moves all of them alike.

   The quantile at p of n values is the one of rank p * (n + 1), between two of them in proportion,
   and not beyond the first and the last: another draw lies beyond rank k of n with a chance of
   k / (n + 1). So 39 replicates are the least for 95 %.

   Draws of few windows vary too little: of w independent windows a mean's variance comes out at
   (w - 1) / w of what it is, and is itself uncertain, as Student's t shows. Both widen r - 1:

       r is 1 + (r - 1) * sqrt(w / (w - 1)) * t_97.5(w - 1) / z_97.5

   The arithmetic is + - * / and square roots on doubles, the same on every machine. */

enum { BAND_VALUES_MIN = 8 };

/* A replicate without an answer in the range that was searched: its answer is less than that, or
   more. */
#define BAND_LESS UINT64_C(0)
#define BAND_MORE UINT64_MAX

/* An end without a value is open: nothing is known there. */
struct band {
	bool has_low, has_high;
	double low, high;
};

/* values: (count) of the replicates, in any order. windows: that a draw consists of; 0: replicates
   are not drawn from the trace. Fewer than BAND_VALUES_MIN values give no ends. */
struct band band_of_sampling(
	double answer, const uint64_t *values, uint32_t count, uint64_t windows);

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

/* The answer of a replicate whose search has ended: the middle between the load that passes and the
   one that fails. */
uint64_t band_value(const struct search_answer *answer, bool is_least);

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
