#include "bench/gate/bootstrap.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "tests/harness/require.h"

/* Intervals over runs and requests. */

enum { RUNS = 5, REQUESTS = 64 };

static double uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
	return sqrt(-2 * log(uniform(state))) * cos(6.283185307179586 * uniform(state));
}

/* Runs of one trace. */
struct made_side {
	uint64_t ns[RUNS][REQUESTS];
	struct request_latencies requests[RUNS];
	double figures[RUNS]; /* means */
	struct bootstrap_side side;
};

/* A request takes shared[i] times `factor` in every run, but for what runs and their parts add. */
static void make_side(struct made_side *out, const double *shared, double factor, double of_run,
	double of_part, uint64_t *state)
{
	for (uint32_t run = 0; run < RUNS; run++) {
		double size = factor * exp(of_run * normal(state)), part = 1;
		out->figures[run] = 0;
		for (uint32_t i = 0; i < REQUESTS; i++) {
			if (i % (REQUESTS / BOOTSTRAP_BLOCKS) == 0) {
				part = exp(of_part * normal(state));
			}
			out->ns[run][i] = (uint64_t)(1e6 * shared[i] * size * part);
			out->figures[run] += (double)out->ns[run][i] / REQUESTS;
		}
		out->requests[run] = (struct request_latencies){.count = REQUESTS};
		out->requests[run].ns[LATENCY_TTFT] = out->ns[run];
	}
	out->side = (struct bootstrap_side){out->figures, out->requests, RUNS};
}

static void make_shared(double *shared, uint64_t *state)
{
	for (uint32_t i = 0; i < REQUESTS; i++) {
		shared[i] = exp(normal(state));
	}
}

/* Requests differ by magnitudes, and all of them by the same factor: nothing is uncertain. */
Test(bootstrap, both_sides_get_the_same_requests)
{
	static const enum latency_statistic statistics[] = {STATISTIC_MEAN, STATISTIC_P50,
		STATISTIC_P90, STATISTIC_P95, STATISTIC_P99, STATISTIC_P99_9};
	struct made_side base, value;
	double shared[REQUESTS];
	uint64_t state = 3;

	make_shared(shared, &state);
	make_side(&base, shared, 1, 0, 0, &state);
	make_side(&value, shared, 1.02, 0, 0, &state);
	for (size_t i = 0; i < sizeof(statistics) / sizeof(statistics[0]); i++) {
		struct ratio ratio =
			bootstrap_ratio(&base.side, &value.side, LATENCY_TTFT, statistics[i]);
		require(ratio.is_known && fabs(ratio.low - 1.02) < 1e-4 &&
				fabs(ratio.high - 1.02) < 1e-4,
			"%s: %g to %g", latency_statistics[statistics[i]], ratio.low, ratio.high);
	}
}

/* Requests take 1 to 64 times what they all took: the draws lie around each figure of 1 to 64. */
Test(bootstrap, statistics_are_those_of_the_drawn_requests)
{
	static const struct {
		enum latency_statistic statistic;
		double low, high;
	} expected[] = {{STATISTIC_MEAN, 31.5, 33.5}, {STATISTIC_P50, 30, 34},
		{STATISTIC_P90, 56, 59}, {STATISTIC_P95, 59.5, 62}, {STATISTIC_P99, 62, 64.01},
		{STATISTIC_P99_9, 62, 64.01}};
	struct made_side base, value;
	double same[REQUESTS], rising[REQUESTS];
	uint64_t state = 23;

	for (uint32_t i = 0; i < REQUESTS; i++) {
		same[i] = 1;
		rising[i] = i + 1;
	}
	make_side(&base, same, 1, 0, 0, &state);
	make_side(&value, rising, 1, 0, 0, &state);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		struct ratio ratio = bootstrap_ratio(
			&base.side, &value.side, LATENCY_TTFT, expected[i].statistic);
		require(ratio.ratio >= expected[i].low && ratio.ratio <= expected[i].high &&
				ratio.low < ratio.ratio && ratio.high >= ratio.ratio,
			"%s: %g to %g to %g", latency_statistics[expected[i].statistic], ratio.low,
			ratio.ratio, ratio.high);
	}
}

/* Every part of a run has requests of 1 to `each` times what they all took on the other side. So in
   each draw a percentile is the least of these that so many do not exceed. */
Test(bootstrap, a_percentile_is_the_least_value_that_so_many_do_not_exceed)
{
	enum { EACH = 150, ALL = BOOTSTRAP_BLOCKS * EACH };
	static const struct {
		enum latency_statistic statistic;
		uint32_t per_mille;
	} rows[] = {{STATISTIC_P50, 500}, {STATISTIC_P90, 900}, {STATISTIC_P95, 950},
		{STATISTIC_P99, 990}, {STATISTIC_P99_9, 999}};
	static const uint32_t lengths[] = {2, 10, 97, EACH};
	static uint64_t ns[2][ALL];

	for (uint32_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		uint32_t each = lengths[k];
		struct request_latencies requests[2][2];
		double figures[2] = {1, 1};
		for (uint32_t i = 0; i < BOOTSTRAP_BLOCKS * each; i++) {
			ns[0][i] = 1000000;
			ns[1][i] = 1000000 * (i % each + 1);
		}
		for (uint32_t i = 0; i < 4; i++) {
			requests[i / 2][i % 2] =
				(struct request_latencies){.count = BOOTSTRAP_BLOCKS * each};
			requests[i / 2][i % 2].ns[LATENCY_TTFT] = ns[i / 2];
		}
		const struct bootstrap_side sides[] = {
			{figures, requests[0], 2}, {figures, requests[1], 2}};
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			uint32_t expected = (each * rows[i].per_mille + 999) / 1000;
			struct ratio ratio = bootstrap_ratio(
				&sides[0], &sides[1], LATENCY_TTFT, rows[i].statistic);
			require(fabs(ratio.low - expected) < 1e-6 &&
					fabs(ratio.high - expected) < 1e-6,
				"%u of 1000 of %u are at most %g to %g, expected %u",
				rows[i].per_mille, each, ratio.low, ratio.high, expected);
		}
	}
}

/* Together with the interval over runs it misses the true ratio of means in no more than 1 of 100
   gates, where that over runs alone, which knows nothing of requests, may miss it too. */
Test(bootstrap, the_wider_interval_covers_the_ratio)
{
	enum { GATES = 200 };
	struct made_side base, value;
	double shared[REQUESTS];
	uint64_t state = 5;
	uint32_t missed = 0, missed_alone = 0;

	for (uint32_t gate = 0; gate < GATES; gate++) {
		make_shared(shared, &state);
		make_side(&base, shared, 1, 0.003, 0.05, &state);
		make_side(&value, shared, 1.01, 0.003, 0.05, &state);
		struct ratio drawn =
			bootstrap_ratio(&base.side, &value.side, LATENCY_TTFT, STATISTIC_MEAN);
		struct ratio ratio = ratio_of(base.figures, RUNS, value.figures, RUNS);
		require(drawn.is_known && ratio.is_known, "gate %u", gate);
		missed_alone += drawn.low > 1.01 || drawn.high < 1.01;
		ratio_widen(&ratio, &drawn);
		missed += ratio.low > 1.01 || ratio.high < 1.01;
	}
	require(missed <= GATES / 100, "missed %u of %u", missed, GATES);
	require(missed_alone <= GATES / 12, "the bootstrap alone missed %u of %u", missed_alone,
		GATES);
}

/* Parts of a trace that are slower on one side, in every run alike: runs differ by nothing, and the
   requests tell that another trace may not be slower. */
Test(bootstrap, requests_are_uncertain_where_runs_agree)
{
	struct made_side base, value;
	double shared[REQUESTS], slower[REQUESTS];
	uint64_t state = 11;

	make_shared(shared, &state);
	for (uint32_t i = 0; i < REQUESTS; i++) {
		slower[i] = shared[i] * (i < REQUESTS / 4 ? 1.2 : 1);
	}
	make_side(&base, shared, 1, 0, 0, &state);
	make_side(&value, slower, 1, 0, 0, &state);
	struct ratio alone = ratio_of(base.figures, RUNS, value.figures, RUNS);
	struct ratio drawn = bootstrap_ratio(&base.side, &value.side, LATENCY_TTFT, STATISTIC_MEAN);
	require(alone.high - alone.low < 1e-6, "%g to %g", alone.low, alone.high);
	require(drawn.low < alone.low - 0.01 && drawn.high > alone.high + 0.01, "%g to %g",
		drawn.low, drawn.high);
	require(drawn.low > 0.99 && drawn.high < 1.21, "%g to %g", drawn.low, drawn.high);
}

/* Figures that are no latency, runs without requests, and too few of them: runs alone are drawn. */
Test(bootstrap, runs_alone_are_drawn_where_requests_are_not_known)
{
	struct made_side base, value;
	double shared[REQUESTS];
	uint64_t state = 17;

	make_shared(shared, &state);
	make_side(&base, shared, 1, 0.01, 0, &state);
	make_side(&value, shared, 1, 0.01, 0, &state);
	struct ratio figures =
		bootstrap_ratio(&base.side, &value.side, LATENCY_COUNT, STATISTIC_MEAN);
	require(figures.is_known && figures.low < figures.high, "%g to %g", figures.low,
		figures.high);
	for (uint32_t i = 0; i < 4; i++) {
		struct bootstrap_side side = base.side;
		struct ratio ratio;
		side.requests = i == 0 ? NULL : base.requests;
		base.requests[1].count = i == 1 ? 2 * BOOTSTRAP_BLOCKS_MIN : REQUESTS;
		ratio = bootstrap_ratio(&side, &value.side, i == 2 ? LATENCY_ITL : LATENCY_TTFT,
			i == 3 ? STATISTIC_MAX : STATISTIC_MEAN);
		require(ratio.low == figures.low && ratio.high == figures.high, "%u: %g to %g", i,
			ratio.low, ratio.high);
	}
	for (uint32_t few = 2 * BOOTSTRAP_BLOCKS_MIN - 1; few <= 2 * BOOTSTRAP_BLOCKS_MIN; few++) {
		for (uint32_t run = 0; run < RUNS; run++) {
			base.requests[run].count = value.requests[run].count = few;
		}
		struct ratio ratio =
			bootstrap_ratio(&base.side, &value.side, LATENCY_TTFT, STATISTIC_MEAN);
		bool is_alone = ratio.low == figures.low && ratio.high == figures.high;
		require(is_alone == (few < 2 * BOOTSTRAP_BLOCKS_MIN), "%u requests", few);
	}
	base.side.run_count = 1;
	require(!bootstrap_ratio(&base.side, &value.side, LATENCY_TTFT, STATISTIC_MEAN).is_known,
		"one run");
	base.side.run_count = RUNS;
	base.figures[2] = 0;
	require(!bootstrap_ratio(&base.side, &value.side, LATENCY_COUNT, STATISTIC_MEAN).is_known,
		"a figure of 0");
}

/* Which share of all ways to draw RUNS of RUNS figures has a geometric mean of at most `mean`. */
static double share_of_draws(const double *figures, double mean)
{
	uint32_t ways = 1, below = 0;

	for (uint32_t i = 0; i < RUNS; i++) {
		ways *= RUNS;
	}
	for (uint32_t way = 0; way < ways; way++) {
		double sum = 0;
		for (uint32_t rest = way, i = 0; i < RUNS; i++, rest /= RUNS) {
			sum += log(figures[rest % RUNS]) / RUNS;
		}
		below += sum <= log(mean) + 1e-12;
	}
	return (double)below / ways;
}

/* Where one side has the same figure in all runs, the ratios are the draws of the other: 0.5 %,
   50 % and 99.5 % of all of them lie below the three numbers, whichever side it is. A share of
   0.005 of BOOTSTRAP_DRAWS is off by 0.0016. */
Test(bootstrap, the_interval_is_that_of_all_ways_to_draw)
{
	static const double ends[] = {0.005, 0.995};
	uint64_t state = 29;

	for (uint32_t i = 0; i < 40; i++) {
		double same[RUNS] = {1, 1, 1, 1, 1}, figures[RUNS];
		bool is_base = i % 2 == 1;
		for (uint32_t run = 0; run < RUNS; run++) {
			figures[run] = exp(0.1 * normal(&state));
		}
		const struct bootstrap_side constant = {same, NULL, RUNS};
		const struct bootstrap_side varying = {figures, NULL, RUNS};
		struct ratio ratio = bootstrap_ratio(is_base ? &varying : &constant,
			is_base ? &constant : &varying, LATENCY_COUNT, STATISTIC_MEAN);
		require(ratio.is_known, "not known");
		double low = is_base ? 1 / ratio.high : ratio.low;
		double high = is_base ? 1 / ratio.low : ratio.high;
		double middle = is_base ? 1 / ratio.ratio : ratio.ratio;
		require(fabs(share_of_draws(figures, low) - ends[0]) < 0.007,
			"%u: %g of the draws are below the low end", i,
			share_of_draws(figures, low));
		require(fabs(share_of_draws(figures, high) - ends[1]) < 0.007,
			"%u: %g of the draws are below the high end", i,
			share_of_draws(figures, high));
		require(fabs(share_of_draws(figures, middle) - 0.5) < 0.06,
			"%u: %g of the draws are below the middle", i,
			share_of_draws(figures, middle));
	}
}

/* The bound of Clopper and Pearson, by tables. */
Test(bootstrap, the_share_of_false_alarms_is_bounded)
{
	require(fabs(share_at_most(0, 640) - 0.00467) < 1e-5, "%g", share_at_most(0, 640));
	require(fabs(share_at_most(0, 1) - 0.95) < 1e-9, "%g", share_at_most(0, 1));
	require(fabs(share_at_most(1, 10) - 0.39416) < 1e-5, "%g", share_at_most(1, 10));
	require(share_at_most(3, 3) == 1, "%g", share_at_most(3, 3));
}
