#include "bench/plan/objective.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/harness/require.h"

/* When a run passes, and by how much. */

static struct run_outcome outcome_of(uint64_t submitted, uint64_t attained)
{
	struct run_outcome outcome = {
		.end = RUN_COMPLETE,
		.runner_kind = "priced",
		.submitted = submitted,
		.finished = submitted,
		.measured_submitted = submitted,
		.measured_finished = attained,
		.slo = {.ttft_ns = 1000000},
		.slo_attained = attained,
		.window_ns = 1000000000,
		.verdict = VERDICT_STABLE,
	};

	outcome.latency[LATENCY_TTFT].count = submitted;
	outcome.latency[LATENCY_TTFT].ns[STATISTIC_P99] = 30000000; /* 30 ms */
	outcome.work.output_tokens = 500;
	outcome.work.steps = 10;
	return outcome;
}

static struct objective objective_of(uint64_t attain, const char *limits)
{
	struct objective objective = {
		.slo = {.ttft_ns = 1000000}, .attain = attain, .limits_text = limits};
	struct error error = {0};

	require(objective_check(&objective, true, &error) == STATUS_OK, "%s", error.text);
	return objective;
}

static struct objective_verdict judge(
	const struct objective *objective, const struct run_outcome *outcome, bool is_alone)
{
	struct objective_verdict verdict;
	struct error error = {0};

	require(objective_judge(objective, outcome, is_alone, &verdict, &error) == STATUS_OK, "%s",
		error.text);
	return verdict;
}

/* Of 1,000 requests 990 are 99 %. What did not finish is submitted, and so misses. */
Test(objective, the_share_is_of_all_that_was_submitted)
{
	const struct objective objective = objective_of(990000, NULL);
	const struct run_outcome enough = outcome_of(1000, 990), few = outcome_of(1000, 989);

	struct objective_verdict verdict = judge(&objective, &enough, false);
	require(verdict.miss == MISS_NOTHING && verdict.has_margin, "990 of 1,000 are enough");
	require(fabs(verdict.margin) < 1e-9, "at the border, and not %g", verdict.margin);
	verdict = judge(&objective, &few, false);
	require(verdict.miss == MISS_ATTAINED && verdict.margin > 0, "989 of 1,000 are too few");
	const struct objective all = objective_of(1000000, NULL);
	verdict = judge(&all, &enough, false);
	require(verdict.miss == MISS_ATTAINED && !verdict.has_margin, "none may miss");
}

Test(objective, an_overloaded_engine_does_not_pass)
{
	const struct objective objective = objective_of(990000, NULL);
	struct run_outcome outcome = outcome_of(1000, 1000);

	outcome.verdict = VERDICT_OVERLOADED;
	struct objective_verdict verdict = judge(&objective, &outcome, false);
	require(verdict.miss == MISS_OVERLOADED && !verdict.has_margin, "overloaded");
	require_equal(judge(&objective, &outcome, true).miss, MISS_NOTHING);
	outcome.verdict = VERDICT_BACKLOGGED;
	require_equal(judge(&objective, &outcome, false).miss, MISS_NOTHING);
}

Test(objective, limits_on_figures_hold_or_are_named)
{
	const struct objective objective =
		objective_of(500000, "ttft.p99<=40,output_tokens_per_s>=400,ttft.p99<=20");
	const struct run_outcome outcome = outcome_of(1000, 1000);
	struct objective_verdict verdict = judge(&objective, &outcome, false);

	require(verdict.miss == MISS_LIMIT && verdict.limit == 2, "limit %u", verdict.limit);
	require(fabs(verdict.margin - 0.5) < 1e-9, "30 of 20 ms is 0.5 above, not %g",
		verdict.margin);
	const struct objective loose =
		objective_of(500000, "ttft.p99<=40,output_tokens_per_s>=400");
	verdict = judge(&loose, &outcome, false);
	require(verdict.miss == MISS_NOTHING && fabs(verdict.margin + 0.2) < 1e-9,
		"500 of at least 400 is 0.2 below, not %g", verdict.margin);
}

/* Under more load a limit may break and must not mend, or a search walks away from the answer. */
Test(objective, limits_that_load_helps_are_refused)
{
	static const struct {
		const char *limits;
		bool of_load, of_replicas; /* whether they are taken */
	} cases[] = {
		{"ttft.p99<=40", true, true},
		{"queue.mean<=3,itl.max<=90", true, true},
		{"utilisation<=0.8", true, false},
		{"wait_blocks_s<=1,preemptions<=9,rejected<=0", true, true},
		{"hit_rate>=0.5", true, true},
		{"attained>=0.9", true, true},
		{"output_tokens_per_s>=400", false, true},
		{"goodput>=2", false, true},
		{"makespan_s<=60", false, true},
		{"output_tokens_per_s<=400", false, false},
		{"ttft.p99>=40", false, false},
		{"hit_rate<=0.5", false, false},
		{"offered_per_s>=3", false, false},
		{"steps<=7", false, false},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint32_t is_least = 0; is_least < 2; is_least++) {
			struct objective objective = {
				.attain = 990000, .limits_text = cases[i].limits};
			struct error error = {0};
			bool is_taken =
				objective_check(&objective, is_least == 1, &error) == STATUS_OK;
			bool expected = is_least ? cases[i].of_replicas : cases[i].of_load;
			/* A limit that load breaks is one that more replicas keep. */
			expected |= cases[i].of_load;
			require(is_taken == expected, "%s, least %u: %s", cases[i].limits, is_least,
				error.text);
		}
	}
}

/* A throughput that one request at a time does not reach says nothing about load. */
Test(objective, a_request_alone_is_judged_by_what_load_makes_worse)
{
	const struct objective slow = objective_of(500000, "output_tokens_per_s>=4000");
	const struct objective late = objective_of(500000, "ttft.p99<=20");
	const struct objective uneven = objective_of(500000, "preemptions<=3");
	struct run_outcome outcome = outcome_of(1000, 1000);

	outcome.work.preemptions = 4;
	require_equal(judge(&uneven, &outcome, true).miss, MISS_NOTHING);
	require_equal(judge(&uneven, &outcome, false).miss, MISS_LIMIT);
	require_equal(judge(&slow, &outcome, true).miss, MISS_NOTHING);
	require_equal(judge(&slow, &outcome, false).miss, MISS_LIMIT);
	require_equal(judge(&late, &outcome, true).miss, MISS_LIMIT);
}

Test(objective, is_said_in_words)
{
	struct objective objective = objective_of(995000, "tpot.p95<=50");
	struct text text = {0};

	objective.slo.e2e_ns = 20000000000;
	objective_text(&objective, &text);
	require(strcmp(text.bytes, "99.5 % of requests within TTFT 1 ms, E2E 20000 ms and tpot.p95 "
				   "at most 50 ms") == 0,
		"%s", text.bytes);
	text_deinit(&text);
}
