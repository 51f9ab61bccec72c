#include "reports/results/change_points.h"

#include "engine/base/check.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The median of |x - y| of two normal figures is this many standard deviations of one:
   sqrt(2) times the third quartile of the normal distribution. */
static const double NEIGHBOUR_MEDIAN = 0.9538725524;

struct series {
	const double *values;
	double noise; /* standard deviation; 0: none */
	bool is_point[CHANGE_POINT_SERIES_MAX];
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double noise_of(const double *values, uint32_t count)
{
	double distances[CHANGE_POINT_SERIES_MAX];

	for (uint32_t i = 0; i + 1 < count; i++) {
		distances[i] = fabs(values[i + 1] - values[i]);
	}
	qsort(distances, count - 1, sizeof(distances[0]), ascending);
	return distances[(count - 1) / 2] / NEIGHBOUR_MEDIAN;
}

static double mean_of(const double *values, uint32_t first, uint32_t end)
{
	double sum = 0;

	for (uint32_t i = first; i < end; i++) {
		sum += values[i];
	}
	return sum / (end - first);
}

static bool is_change(double a, double b)
{
	return fabs(a - b) > CHANGE_POINT_FLOOR * fmax(fabs(a), fabs(b));
}

static void split(struct series *series, uint32_t first, uint32_t end)
{
	double most = CHANGE_POINT_THRESHOLD;
	uint32_t best = 0;

	for (uint32_t at = first + 3; at + 3 <= end; at++) {
		double a = mean_of(series->values, first, at);
		double b = mean_of(series->values, at, end);
		double deviation = series->noise * sqrt(1.0 / (at - first) + 1.0 / (end - at));
		if (is_change(a, b) && fabs(a - b) > most * deviation) {
			most = fabs(a - b) / deviation;
			best = at;
		}
	}
	if (best > 0) {
		series->is_point[best] = true;
		split(series, first, best);
		split(series, best, end);
	}
}

uint32_t change_points_find(const double *values, uint32_t count, uint32_t *points)
{
	struct series series = {.values = values};
	uint32_t found = 0;

	check(count <= CHANGE_POINT_SERIES_MAX);
	if (count < 2) {
		return 0;
	}
	series.noise = noise_of(values, count);
	if (series.noise > 0) {
		split(&series, 0, count);
	}
	for (uint32_t i = 1; i < count; i++) {
		bool is_step = series.noise == 0 && is_change(values[i - 1], values[i]);
		if (series.is_point[i] || is_step) {
			points[found++] = i;
		}
	}
	return found;
}
