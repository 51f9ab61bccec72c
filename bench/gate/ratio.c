#include "bench/gate/ratio.h"

#include <math.h>

/* The quantile 0.995 of Student's t by degrees of freedom, 1 to 30; the normal one beyond 30 is
   smaller by less than 7 %, so that of 30 serves there too. */
static const double t_995[] = {63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250,
	3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819,
	2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750};

enum { T_ROWS = sizeof(t_995) / sizeof(t_995[0]) };

/* The mean of logarithms, and the variance of that mean. False: a figure has no logarithm. */
static bool moments(const double *values, uint32_t count, double *mean, double *variance)
{
	double sum = 0, squares = 0;

	if (count < 2) {
		return false;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!(values[i] > 0)) {
			return false;
		}
		sum += log(values[i]);
	}
	*mean = sum / count;
	for (uint32_t i = 0; i < count; i++) {
		double distance = log(values[i]) - *mean;
		squares += distance * distance;
	}
	*variance = squares / (count - 1) / count;
	return true;
}

struct ratio ratio_of(
	const double *base, uint32_t base_count, const double *value, uint32_t value_count)
{
	double base_mean, base_variance, value_mean, value_variance;
	struct ratio out = {.is_known = false};

	if (!moments(base, base_count, &base_mean, &base_variance) ||
		!moments(value, value_count, &value_mean, &value_variance)) {
		return out;
	}
	double variance = base_variance + value_variance;
	double difference = value_mean - base_mean;
	double width = 0;
	if (variance > 0) {
		double freedom = variance * variance /
				 (base_variance * base_variance / (base_count - 1) +
					 value_variance * value_variance / (value_count - 1));
		uint32_t row = freedom < 1 ? 1 : freedom > T_ROWS ? T_ROWS : (uint32_t)freedom;
		width = t_995[row - 1] * sqrt(variance);
	}
	out.is_known = true;
	out.ratio = exp(difference);
	out.low = exp(difference - width);
	out.high = exp(difference + width);
	return out;
}

void ratio_widen(struct ratio *ratio, const struct ratio *other)
{
	if (other->is_known) {
		ratio->low = fmin(ratio->low, other->low);
		ratio->high = fmax(ratio->high, other->high);
	}
}

/* How likely `most` events or fewer are of `count`, each of which happens with a probability. */
static double chance_of_at_most(uint64_t most, uint64_t count, double probability)
{
	double chance = 0;

	for (uint64_t i = 0; i <= most; i++) {
		double ways = lgamma((double)count + 1) - lgamma((double)i + 1) -
			      lgamma((double)(count - i) + 1);
		chance += exp(ways + (double)i * log(probability) +
			      (double)(count - i) * log1p(-probability));
	}
	return chance;
}

double share_at_most(uint64_t happened, uint64_t count)
{
	double low = 0, high = 1;

	for (int i = 0; i < 60 && happened < count; i++) {
		double middle = (low + high) / 2;
		if (chance_of_at_most(happened, count, middle) > 0.05) {
			low = middle;
		} else {
			high = middle;
		}
	}
	return high;
}
