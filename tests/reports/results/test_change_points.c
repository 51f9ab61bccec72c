#include "reports/results/change_points.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "tests/harness/require.h"

enum { COUNT = 100 };

static double uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
	return sqrt(-2 * log(uniform(state))) * cos(6.283185307179586 * uniform(state));
}

/* Noise alone is hardly ever split. */
Test(change_points, noise_is_no_change)
{
	uint64_t state = 3;
	uint32_t split = 0;

	for (uint32_t series = 0; series < 1000; series++) {
		double values[COUNT];
		uint32_t points[COUNT];
		for (uint32_t i = 0; i < COUNT; i++) {
			values[i] = 50 + normal(&state);
		}
		split += change_points_find(values, COUNT, points) > 0;
	}
	require(split < 10, "%u of 1,000 series are split", split);
}

/* A step of four times the noise is found, where it is. */
Test(change_points, a_step_is_found_where_it_is)
{
	uint64_t state = 5;
	uint32_t found = 0, exact = 0;

	for (uint32_t series = 0; series < 500; series++) {
		double values[COUNT];
		uint32_t points[COUNT], at = 10 + series % 80;
		for (uint32_t i = 0; i < COUNT; i++) {
			values[i] = (i < at ? 50 : 54) + normal(&state);
		}
		uint32_t count = change_points_find(values, COUNT, points);
		found += count == 1 && abs((int)points[0] - (int)at) <= 1;
		exact += count == 1 && points[0] == at;
	}
	require(found > 480 && exact > 440, "found %u, exact %u of 500", found, exact);
}

/* Without noise every change is one, up to the last figure, but for the last digits. */
Test(change_points, without_noise_every_change_is_one)
{
	const double values[] = {7, 7, 7, 7, 7.01, 7.01, 7.01, 6, 6, 6, 6.00001, 6.00001, 9};
	uint32_t points[13];

	uint32_t count = change_points_find(values, 13, points);
	require(count == 3 && points[0] == 4 && points[1] == 7 && points[2] == 12,
		"%u points, %u %u %u", count, points[0], points[1], points[2]);
	require_equal(change_points_find(values, 4, points), 0);
	require_equal(change_points_find(values, 1, points), 0);
	require_equal(change_points_find(values, 0, points), 0);
}
