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
};

struct ratio ratio_of(
	const double *base, uint32_t base_count, const double *value, uint32_t value_count);

/* Widens an interval until it holds another one, too; one that is not known changes nothing. */
void ratio_widen(struct ratio *ratio, const struct ratio *other);

/* The share of events that 95 of 100 such counts would stay below: the upper end of the interval
   of Clopper and Pearson. Of n events none happened: 3 / n, about. */
double share_at_most(uint64_t happened, uint64_t count);

#endif
