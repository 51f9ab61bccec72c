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

/* A level may be as short as three figures, at both ends, and no shorter. */
Test(change_points, a_level_has_three_figures_or_more)
{
	enum { FEW = 12 };

	for (uint32_t at = 1; at < FEW; at++) {
		double values[FEW];
		uint32_t points[FEW];
		for (uint32_t i = 0; i < FEW; i++) {
			values[i] = (i < at ? 1000 : 2000) + (i % 2 == 0 ? 1 : -1);
		}
		uint32_t count = change_points_find(values, FEW, points);
		bool is_long = at >= 3 && at <= FEW - 3;
		require(!is_long || (count == 1 && points[0] == at), "a step at %u: %u points", at,
			count);
		for (uint32_t i = 0; i < count; i++) {
			uint32_t before = i == 0 ? 0 : points[i - 1];
			uint32_t end = i + 1 < count ? points[i + 1] : FEW;
			require(points[i] - before >= 3 && end - points[i] >= 3,
				"a step at %u: a point at %u", at, points[i]);
		}
	}
}

/* What is a change of level is one in the other direction too: a series and the same from its end
   have the same levels. */
Test(change_points, a_series_and_its_mirror_have_the_same_levels)
{
	enum { FEW = 8 };
	uint32_t changes = 0, trials = 0;

	for (double level = -3; level <= 3; level += 0.75) {
		for (double part = 0.9990; part < 1.0011; part += 0.00005) {
			double values[FEW], mirror[FEW];
			uint32_t points[FEW], mirrored[FEW];
			for (uint32_t i = 0; i < FEW; i++) {
				values[i] = i < 3 ? level : level * (1 + CHANGE_POINT_FLOOR * part);
				mirror[FEW - 1 - i] = values[i];
			}
			uint32_t count = change_points_find(values, FEW, points);
			require_equal(change_points_find(mirror, FEW, mirrored), count);
			require(count == 0 || (points[0] == 3 && mirrored[0] == FEW - 3), "%g",
				level);
			changes += count;
			trials++;
		}
	}
	require(changes > trials / 4 && changes < trials * 3 / 4, "%u of %u", changes, trials);
}
