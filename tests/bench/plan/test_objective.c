#include "bench/plan/objective.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/harness/property.h"
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

/* ---- drawn limits ---- */

enum { DRAWN_LIMITS = 5, DRAWN_METRICS = 4, DRAWN_MAX = 12 };

static const struct {
	const char *name;
	bool is_least, is_latency;
} drawn_metrics[DRAWN_METRICS] = {
	{"ttft.p99", false, true},
	{"tpot.p50", false, true},
	{"preemptions", false, false},
	{"output_tokens_per_s", true, false},
};

struct drawn_limits {
	struct objective objective;
	struct run_outcome outcome;
	char text[256];
	uint32_t metrics[DRAWN_LIMITS], amounts[DRAWN_LIMITS];
	double figures[DRAWN_METRICS]; /* NAN: the run has none */
	uint64_t submitted, attained;
};

/* Small figures, so that they meet their limits, and some that the run lacks. */
static void draw_limits(struct prop *prop, struct drawn_limits *drawn)
{
	struct objective *objective = &drawn->objective;
	struct run_outcome *outcome = &drawn->outcome;
	size_t used = 0;
	uint32_t count = prop_range(prop, 0, DRAWN_LIMITS);
	struct error error = {0};

	for (uint32_t i = 0; i < count; i++) {
		drawn->metrics[i] = (uint32_t)prop_below(prop, DRAWN_METRICS);
		drawn->amounts[i] = prop_range(prop, 1, DRAWN_MAX);
		used += (size_t)snprintf(drawn->text + used, sizeof(drawn->text) - used, "%s%s%s%u",
			i == 0 ? "" : ",", drawn_metrics[drawn->metrics[i]].name,
			drawn_metrics[drawn->metrics[i]].is_least ? ">=" : "<=", drawn->amounts[i]);
	}
	*objective = (struct objective){.slo = {.ttft_ns = 1000000},
		.attain = prop_range(prop, 0, 10) * UINT64_C(100000),
		.limits_text = count > 0 ? drawn->text : NULL};
	require(objective_check(objective, true, &error) == STATUS_OK, "%s", error.text);
	drawn->submitted = prop_range(prop, 1, 20);
	drawn->attained = prop_range(prop, 0, (uint32_t)drawn->submitted);
	*outcome = outcome_of(drawn->submitted, drawn->attained);
	outcome->verdict = prop_chance(prop, 1, 4) ? VERDICT_OVERLOADED : VERDICT_STABLE;
	for (uint32_t i = 0; i < DRAWN_METRICS; i++) {
		uint32_t figure = prop_range(prop, 1, DRAWN_MAX);
		drawn->figures[i] = figure;
		if (drawn_metrics[i].is_latency) {
			uint32_t at = i == 0 ? LATENCY_TTFT : LATENCY_TPOT;
			bool has_any = !prop_chance(prop, 1, 6);
			outcome->latency[at].count = has_any ? drawn->submitted : 0;
			outcome->latency[at].ns[i == 0 ? STATISTIC_P99 : STATISTIC_P50] =
				figure * UINT64_C(1000000);
			drawn->figures[i] = has_any ? figure : NAN;
		}
	}
	outcome->work.preemptions = (uint64_t)drawn->figures[2];
	outcome->work.output_tokens = (uint64_t)drawn->figures[3];
	prop_log(prop, "%s, %llu of %llu", drawn->text, (unsigned long long)drawn->attained,
		(unsigned long long)drawn->submitted);
}

/* The share comes first, then the limits in their order, then whether the engine is overloaded. */
static struct objective_verdict naive_verdict(const struct drawn_limits *drawn, bool is_alone)
{
	double submitted = (double)drawn->submitted, attained = (double)drawn->attained;
	double misses = submitted - attained;
	double allowed = submitted - submitted * (double)drawn->objective.attain / 1e6;
	bool has_allowed = drawn->objective.attain < 1000000;
	struct objective_verdict out = {.has_margin = has_allowed || misses == 0,
		.margin = has_allowed ? misses / allowed - 1 : 0};

	if (attained * 1e6 < submitted * (double)drawn->objective.attain) {
		out.miss = MISS_ATTAINED;
	}
	for (uint32_t i = 0; i < drawn->objective.limit_count; i++) {
		bool is_least = drawn_metrics[drawn->metrics[i]].is_least;
		double found = drawn->figures[drawn->metrics[i]], amount = drawn->amounts[i];
		double share = is_least ? amount / found : found / amount;
		if (is_alone && !drawn_metrics[drawn->metrics[i]].is_latency) {
			continue;
		}
		out.has_margin = out.has_margin && !isnan(found);
		out.margin = fmax(out.margin, share - 1);
		if (!(share <= 1) && out.miss == MISS_NOTHING) {
			out.miss = MISS_LIMIT;
			out.limit = i;
			out.value = found;
		}
	}
	if (drawn->outcome.verdict == VERDICT_OVERLOADED && !is_alone) {
		out.has_margin = false;
		out.miss = out.miss == MISS_NOTHING ? MISS_OVERLOADED : out.miss;
	}
	return out;
}

/* A limit on a latency that no request has, though all finish, is refused. */
static bool is_refused(const struct drawn_limits *drawn)
{
	for (uint32_t i = 0; i < drawn->objective.limit_count; i++) {
		if (isnan(drawn->figures[drawn->metrics[i]]) &&
			drawn->attained == drawn->submitted) {
			return true;
		}
	}
	return false;
}

static bool are_same(double a, double b)
{
	return (isnan(a) && isnan(b)) || fabs(a - b) < 1e-9;
}

static void body_limits(struct prop *prop, const void *context)
{
	static struct drawn_limits drawn;

	(void)context;
	memset(&drawn, 0, sizeof(drawn));
	draw_limits(prop, &drawn);
	if (is_refused(&drawn)) {
		struct objective_verdict verdict;
		struct error error = {0};
		require(objective_judge(&drawn.objective, &drawn.outcome, false, &verdict,
				&error) == STATUS_INPUT,
			"what no request has is judged");
		return;
	}
	for (uint32_t is_alone = 0; is_alone < 2; is_alone++) {
		struct objective_verdict expected = naive_verdict(&drawn, is_alone == 1);
		struct objective_verdict found =
			judge(&drawn.objective, &drawn.outcome, is_alone == 1);
		require_equal(found.miss, expected.miss);
		require(found.miss != MISS_LIMIT || found.limit == expected.limit,
			"limit %u is named, not %u", found.limit, expected.limit);
		require(found.miss != MISS_LIMIT || are_same(found.value, expected.value),
			"a figure of %g, not %g", found.value, expected.value);
		require_equal(found.has_margin, expected.has_margin);
		require(!found.has_margin || are_same(found.margin, expected.margin),
			"a margin of %g, not %g", found.margin, expected.margin);
		for (uint32_t i = 0; i < drawn.objective.limit_count; i++) {
			require(are_same(found.values[i], drawn.figures[drawn.metrics[i]]),
				"limit %u: %g, not %g", i, found.values[i],
				drawn.figures[drawn.metrics[i]]);
		}
	}
}

/* Of several reasons the first is named, whichever break. */
Test(objective, the_first_reason_is_named)
{
	const struct prop_options options = {.name = "limits", .body = body_limits, .trials = 2000};

	cr_assert(prop_holds(&options));
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
