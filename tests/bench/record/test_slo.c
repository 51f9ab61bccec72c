#include "bench/record/slo.h"

#include <criterion/criterion.h>
#include <math.h>

#include "engine/base/text.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Batches against a list of all requests, and the interval against the truth. */

enum { REQUESTS_MOST = 400 };

static void body_batches(struct prop *prop, const void *context)
{
	struct slo_batches batches = {0};
	uint32_t count = prop_range(prop, 1, REQUESTS_MOST);
	bool submitted[REQUESTS_MOST], attained[REQUESTS_MOST];

	(void)context;
	for (uint32_t i = 0; i < count; i++) {
		/* what fails starts anew, and a later request may attain before an earlier one */
		slo_batches_submit(&batches, i);
		submitted[i] = !prop_chance(prop, 1, 10);
		attained[i] = submitted[i] && prop_chance(prop, 1, 2);
	}
	for (uint32_t i = count; i-- > 0;) {
		if (!submitted[i]) {
			slo_batches_forget(&batches, i);
		} else if (attained[i]) {
			slo_batches_attain(&batches, i);
		}
	}
	require(batches.size * SLO_BATCHES >= count, "too many requests for the batches");
	require(batches.size == 1 || batches.size * SLO_BATCHES < 2 * count, "too few batches");
	for (uint32_t batch = 0; batch < SLO_BATCHES; batch++) {
		uint64_t in = 0, within = 0;
		for (uint32_t i = 0; i < count; i++) {
			in += i / batches.size == batch && submitted[i];
			within += i / batches.size == batch && attained[i];
		}
		require_equal(batches.submitted[batch], in);
		require_equal(batches.attained[batch], within);
	}
}

Test(slo, batches_hold_what_a_list_would)
{
	const struct prop_options options = {
		.name = "slo_batches", .body = body_batches, .trials = 300};

	cr_assert(prop_holds(&options));
}

/* Every limit is an option of its own, in milliseconds; one that is not set is none. What repeats a
   run, and what tells two runs apart, is made of these words. */
Test(slo, each_limit_is_an_option)
{
	static const uint64_t limits_ns[] = {2000000000, 80500000, 1};
	static const char *const words[] = {
		" --slo-ttft-ms 2000", " --slo-tpot-ms 80.5", " --slo-e2e-ms 0.000001"};

	for (uint32_t given = 0; given < 1 << 3; given++) {
		const struct slo slo = {.ttft_ns = (given & 1) != 0 ? limits_ns[0] : 0,
			.tpot_ns = (given & 2) != 0 ? limits_ns[1] : 0,
			.e2e_ns = (given & 4) != 0 ? limits_ns[2] : 0};
		struct text text = {0}, expected = {0};
		text_add(&text, "replay");
		text_add(&expected, "replay");
		for (uint32_t i = 0; i < 3; i++) {
			text_add(&expected, (given >> i & 1) != 0 ? words[i] : "");
		}
		slo_add_words(&slo, &text);
		cr_assert_str_eq(text.bytes, expected.bytes);
		text_deinit(&text);
		text_deinit(&expected);
	}
}

/* Of few requests each is a batch, which is full. From eight batches on they tell how many of the
   requests are independent: with half of them within the limits one fewer than there are. Fewer
   batches tell nothing, and all requests count. Either way it is Wilson's interval. */
Test(slo, eight_full_batches_tell_how_many_requests_are_independent)
{
	const double z = 1.959963984540054;

	for (uint32_t count = 2; count <= 16; count += 2) {
		struct slo_batches batches = {0};
		for (uint32_t i = 0; i < count; i++) {
			slo_batches_submit(&batches, i);
			if (i % 2 == 0) {
				slo_batches_attain(&batches, i);
			}
		}
		require_equal(batches.size, 1);
		double n = count < 8 ? count : count - 1;
		double half = z / (1 + z * z / n) * sqrt(0.25 / n + z * z / (4 * n * n));
		struct slo_interval interval = slo_batches_interval(&batches);
		require(fabs(interval.low - (0.5 - half)) < 1e-9 &&
				fabs(interval.high - (0.5 + half)) < 1e-9,
			"%u requests: %g to %g, expected %g to %g", count, interval.low,
			interval.high, 0.5 - half, 0.5 + half);
	}
}

static double uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(*state >> 11) / 9007199254740992.0;
}

/* Runs of `length` requests that share their fate. Returns how often the interval has the truth. */
static double coverage(double truth, uint32_t count, uint32_t length, uint32_t trials)
{
	uint64_t state = 7;
	uint32_t covered = 0;

	for (uint32_t trial = 0; trial < trials; trial++) {
		struct slo_batches batches = {0};
		bool is_met = false;
		for (uint32_t i = 0; i < count; i++) {
			if (i % length == 0) {
				is_met = uniform(&state) < truth;
			}
			slo_batches_submit(&batches, i);
			if (is_met) {
				slo_batches_attain(&batches, i);
			}
		}
		struct slo_interval interval = slo_batches_interval(&batches);
		covered += interval.low <= truth && truth <= interval.high;
	}
	return (double)covered / trials;
}

/* Requests that share a fate in runs make the share less sure; an interval that took each as
   independent would hold the truth in about half of the cases. */
Test(slo, the_interval_holds_the_truth_of_dependent_requests_too)
{
	static const struct {
		double truth;
		uint32_t count, length;
	} cases[] = {{0.99, 10000, 1}, {0.9, 3000, 1}, {0.9, 12000, 10}, {0.7, 20000, 40}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double share = coverage(cases[i].truth, cases[i].count, cases[i].length, 400);
		require(share > 0.9 && share < 0.995, "case %u: %g", i, share);
	}
}

Test(slo, a_share_of_nothing_and_of_few_is_unsure)
{
	struct slo_batches batches = {0};
	struct slo_interval interval = slo_batches_interval(&batches);

	require(interval.low == 0 && interval.high == 1, "of nothing");
	for (uint32_t i = 0; i < 4; i++) {
		slo_batches_submit(&batches, i);
		slo_batches_attain(&batches, i);
	}
	interval = slo_batches_interval(&batches);
	/* Wilson of 4 in 4 */
	require(fabs(interval.low - 0.51010) < 1e-4 && interval.high == 1, "%g", interval.low);
}

/* Few batches say nothing of how requests depend on each other: 1 of 2 is Wilson's interval of two
   independent ones. */
Test(slo, a_few_requests_count_as_independent)
{
	struct slo_batches batches = {0};

	slo_batches_submit(&batches, 0);
	slo_batches_submit(&batches, 1);
	slo_batches_attain(&batches, 0);
	struct slo_interval interval = slo_batches_interval(&batches);
	require(fabs(interval.low - 0.0945312) < 1e-6 && fabs(interval.high - 0.9054688) < 1e-6,
		"%.7f to %.7f", interval.low, interval.high);
}

Test(slo, a_request_misses_each_limit_that_it_is_beyond)
{
	const struct slo slo = {.ttft_ns = 10, .e2e_ns = 100};

	require_equal(slo_missed(&slo, 10, 999, 100), 0);
	require_equal(slo_missed(&slo, 11, 0, 100), SLO_MISSED_TTFT);
	require_equal(slo_missed(&slo, 11, 0, 101), SLO_MISSED_TTFT | SLO_MISSED_E2E);
	require(slo_is_given(&slo) && !slo_is_given(&(struct slo){0}), "given");
}
