#ifndef BENCH_GATE_RATIO_H
#define BENCH_GATE_RATIO_H

#include <stdbool.h>
#include <stdint.h>

/* How far the figure of new runs is from that of base runs, when both were measured and are
   uncertain.

   The interval is Welch's of the difference of two means, taken of logarithms: it covers the true
   ratio in 99 of 100 gates whose runs are independent and whose logarithms are about normal. Runs
   that alternate with those of the base (A B B A) keep slow drifts of a card out of the ratio. The
   quantiles of Student's t are tabulated. */

struct ratio {
	bool is_known;	  /* both sides have two runs or more, and no figure is 0 or below */
	double low, high; /* of value / base */
	double ratio;
	double visible; /* the least change that would have been seen: (high - low) / 2 */
};

struct ratio ratio_of(
	const double *base, uint32_t base_count, const double *value, uint32_t value_count);

#endif
