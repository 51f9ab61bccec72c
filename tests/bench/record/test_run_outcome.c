#include "bench/record/run_outcome.h"

#include <assert.h>
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The verdict at its edges, and the times and figures that an outcome takes from the metrics. */

/* Metrics of a run without steps. */
static void open_metrics(struct metrics *metrics)
{
	const struct metrics_options options = {0};

	metrics_init(metrics, &options, 1, NULL);
	metrics->first_arrival_ns = 0;
}

/* Adds a span of the timeline in which so many wait. */
static void add_waiting(struct metrics *metrics, uint64_t start_ns, uint64_t end_ns, uint64_t count)
{
	timeline_add(&metrics->distributions->timeline,
		&(struct timeline_step){.start_ns = start_ns, .end_ns = end_ns, .waiting = count});
}

static enum verdict verdict_of(struct metrics *metrics, uint64_t backlog)
{
	struct run_outcome outcome = {.backlog_at_last_arrival = backlog};

	run_outcome_of_metrics(&outcome, metrics, metrics->last_arrival_ns, false);
	return outcome.verdict;
}

/* ---- the verdict ---- */

/* Over 5 % of all requests: of 100 these are 6. */
Test(run_outcome, a_backlog_is_over_five_percent)
{
	static struct metrics metrics;
	static const struct {
		uint64_t submitted, backlog;
		enum verdict verdict;
	} cases[] = {
		{100, 0, VERDICT_STABLE},
		{100, 5, VERDICT_STABLE},
		{100, 6, VERDICT_BACKLOGGED},
		{119, 5, VERDICT_STABLE},
		{119, 6, VERDICT_BACKLOGGED},
		{20, 1, VERDICT_STABLE},
		{19, 1, VERDICT_BACKLOGGED},
		{0, 0, VERDICT_STABLE},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_metrics(&metrics);
		metrics.submitted = cases[i].submitted;
		metrics.service_ns = 1;
		require_equal(verdict_of(&metrics, cases[i].backlog), cases[i].verdict);
		metrics_deinit(&metrics);
	}
}

/* Arrivals over three thirds of 100 us; in each, so many wait. */
static enum verdict verdict_of_thirds(
	uint64_t submitted, uint64_t first, uint64_t middle, uint64_t last, uint64_t origin_ns)
{
	static struct metrics metrics;
	const uint64_t third = 100000;

	open_metrics(&metrics);
	metrics.submitted = submitted;
	metrics.first_arrival_ns = origin_ns;
	metrics.last_arrival_ns = origin_ns + 3 * third;
	metrics.distributions->timeline.origin_ns = origin_ns;
	add_waiting(&metrics, origin_ns, origin_ns + third, first);
	add_waiting(&metrics, origin_ns + third, origin_ns + 2 * third, middle);
	add_waiting(&metrics, origin_ns + 2 * third, origin_ns + 3 * third, last);
	/* What waits when no more requests arrive says nothing about growth. */
	add_waiting(&metrics, origin_ns + 3 * third, origin_ns + 6 * third, 1000000);
	enum verdict verdict = verdict_of(&metrics, submitted);
	metrics_deinit(&metrics);
	return verdict;
}

/* The queue grows if the last third has over 5 % of a third of the requests, a sixtieth of all,
   more in it than the middle one: of 600 these are over 10. */
Test(run_outcome, a_queue_grows_by_over_a_sixtieth_of_the_requests)
{
	for (uint64_t origin_ns = 0; origin_ns < 3000000000; origin_ns += 1234567890) {
		require_equal(verdict_of_thirds(600, 0, 0, 10, origin_ns), VERDICT_BACKLOGGED);
		require_equal(verdict_of_thirds(600, 0, 0, 11, origin_ns), VERDICT_OVERLOADED);
		require_equal(verdict_of_thirds(600, 0, 50, 60, origin_ns), VERDICT_BACKLOGGED);
		require_equal(verdict_of_thirds(600, 0, 50, 61, origin_ns), VERDICT_OVERLOADED);
		require_equal(verdict_of_thirds(599, 0, 50, 60, origin_ns), VERDICT_OVERLOADED);
		require_equal(verdict_of_thirds(601, 0, 50, 60, origin_ns), VERDICT_BACKLOGGED);
		/* The first third does not count. */
		require_equal(verdict_of_thirds(600, 900, 50, 61, origin_ns), VERDICT_OVERLOADED);
		require_equal(verdict_of_thirds(600, 900, 50, 50, origin_ns), VERDICT_BACKLOGGED);
		require_equal(verdict_of_thirds(600, 0, 61, 50, origin_ns), VERDICT_BACKLOGGED);
	}
}

/* Growth without a backlog at the last arrival is no overload. */
Test(run_outcome, growth_without_a_backlog_is_stable)
{
	static struct metrics metrics;

	open_metrics(&metrics);
	metrics.submitted = 60;
	metrics.service_ns = 1;
	metrics.last_arrival_ns = 300000;
	add_waiting(&metrics, 200000, 300000, 60);
	require_equal(verdict_of(&metrics, 3), VERDICT_STABLE);
	require_equal(verdict_of(&metrics, 4), VERDICT_OVERLOADED);
	/* Arrivals within 2 ns have no thirds, and so no growth. */
	metrics.last_arrival_ns = 2;
	require_equal(verdict_of(&metrics, 60), VERDICT_BACKLOGGED);
	metrics_deinit(&metrics);
}

Test(run_outcome, requests_that_wait_longer_than_they_are_served_are_backlogged)
{
	static struct metrics metrics;

	open_metrics(&metrics);
	metrics.submitted = 100;
	histogram_add(&metrics.distributions->latency[LATENCY_QUEUE], 500, 2);
	metrics.service_ns = 1000;
	require_equal(verdict_of(&metrics, 0), VERDICT_STABLE);
	metrics.service_ns = 999;
	require_equal(verdict_of(&metrics, 0), VERDICT_BACKLOGGED);
	metrics_deinit(&metrics);
}

/* A run that came to its end and left requests: nobody was there to take them. One that was stopped
   leaves requests too. */
Test(run_outcome, requests_that_nobody_took_are_unserved)
{
	static struct metrics metrics;
	struct run_outcome outcome = {.end = RUN_COMPLETE};

	open_metrics(&metrics);
	metrics.submitted = 200;
	metrics.unfinished = 1;
	run_outcome_of_metrics(&outcome, &metrics, 0, false);
	require_equal(outcome.verdict, VERDICT_UNSERVED);
	outcome.end = RUN_INTERRUPTED;
	run_outcome_of_metrics(&outcome, &metrics, 0, false);
	require_equal(outcome.verdict, VERDICT_STABLE);
	metrics_deinit(&metrics);
}

/* ---- times and counts ---- */

/* Every figure is a number of its own, so that none can stand for another. The window is drawn too,
   since its sums are a copy of those of the metrics. */
static void fill_metrics(struct prop *prop, struct metrics *metrics)
{
	struct run_sums *work = &metrics->work;
	uint64_t *const counts[] = {&metrics->submitted, &metrics->finished, &metrics->rejected,
		&metrics->failed, &metrics->unfinished, &work->steps, &work->busy_ns,
		&metrics->measured_finished, &work->prompt_tokens, &work->output_tokens,
		&work->finished, &work->recomputed_tokens, &work->hit_tokens, &work->preemptions,
		&metrics->slo_attained, &metrics->measured_submitted, &metrics->warmup_submitted};
	const uint64_t longest = UINT64_C(1) << prop_below(prop, 60);

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		*counts[i] = prop_chance(prop, 1, 6) ? 0 : 1000 + 10 * prop_below(prop, 100) + i;
	}
	metrics->first_arrival_ns = prop_below(prop, longest);
	metrics->last_arrival_ns = metrics->first_arrival_ns + prop_below(prop, longest);
	metrics->last_finish_ns = metrics->first_arrival_ns + prop_below(prop, 2 * longest);
	metrics->measured_first_arrival_ns = metrics->first_arrival_ns + prop_below(prop, 9);
	metrics->measured_last_arrival_ns =
		metrics->measured_first_arrival_ns + prop_below(prop, longest);
	metrics->measured_taken = metrics->measured_finished + prop_below(prop, 2);
	metrics->distributions->window.is_open = prop_chance(prop, 7, 8);
	metrics->distributions->window.start_ns =
		metrics->measured_first_arrival_ns + prop_below(prop, 9);
	metrics->distributions->window.end_ns =
		metrics->distributions->window.start_ns + prop_below(prop, longest);
	metrics->window.before.steps = metrics->distributions->window.is_open ? work->steps / 3 : 0;
	metrics->distributions->timeline.origin_ns = metrics->first_arrival_ns;
	metrics->options.slo.ttft_ns = prop_below(prop, 1000);
	metrics->options.slo.tpot_ns = prop_below(prop, 1000);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		histogram_add(
			&metrics->distributions->latency[i], 100 * (i + 1), prop_below(prop, 3));
	}
}

static void require_times(const struct run_outcome *outcome, const struct metrics *metrics,
	uint64_t end_ns, bool is_closed_loop)
{
	bool has_arrivals = metrics->measured_submitted > 0;
	uint64_t span_ns = metrics->measured_last_arrival_ns - metrics->measured_first_arrival_ns;
	bool drains = metrics->finished > 0 && metrics->last_finish_ns > metrics->last_arrival_ns;
	bool is_cut_short = metrics->measured_taken > metrics->measured_finished;
	uint64_t start_ns = metrics->distributions->window.start_ns;
	uint64_t window_end_ns =
		is_cut_short ? u64_max(end_ns, start_ns) : metrics->distributions->window.end_ns;

	require_equal(
		outcome->window_start_ns, metrics->distributions->window.is_open ? start_ns : 0);
	require_equal(outcome->window_ns,
		metrics->distributions->window.is_open ? window_end_ns - start_ns : 0);
	require_equal(outcome->arrival_span_ns, has_arrivals && !is_closed_loop ? span_ns : 0);
	require_equal(
		outcome->drain_ns, drains ? metrics->last_finish_ns - metrics->last_arrival_ns : 0);
}

static void body_outcome(struct prop *prop, const void *context)
{
	static struct metrics metrics;
	struct run_outcome outcome = {.backlog_at_last_arrival = prop_below(prop, 9)};
	bool is_closed_loop = prop_chance(prop, 1, 2);
	(void)context;

	open_metrics(&metrics);
	fill_metrics(prop, &metrics);
	uint64_t end_ns = metrics.first_arrival_ns + prop_below(prop, 1000000) -
			  prop_below(prop, u64_min(metrics.first_arrival_ns + 1, 9));
	run_outcome_of_metrics(&outcome, &metrics, end_ns, is_closed_loop);
	require_times(&outcome, &metrics, end_ns, is_closed_loop);
#define REQUIRE_SAME(field) require_equal(outcome.field, metrics.field)
	REQUIRE_SAME(submitted);
	REQUIRE_SAME(finished);
	REQUIRE_SAME(rejected);
	REQUIRE_SAME(failed);
	REQUIRE_SAME(unfinished);
	REQUIRE_SAME(warmup_submitted);
	REQUIRE_SAME(measured_submitted);
	REQUIRE_SAME(measured_finished);
	REQUIRE_SAME(slo_attained);
#undef REQUIRE_SAME
	bool is_open = metrics.distributions->window.is_open;
#define REQUIRE_SAME(field) require_equal(outcome.work.field, is_open ? metrics.work.field : 0)
	REQUIRE_SAME(busy_ns);
	REQUIRE_SAME(finished);
	REQUIRE_SAME(prompt_tokens);
	REQUIRE_SAME(output_tokens);
	REQUIRE_SAME(recomputed_tokens);
	REQUIRE_SAME(hit_tokens);
	REQUIRE_SAME(preemptions);
#undef REQUIRE_SAME
	require_equal(outcome.steps_before + outcome.work.steps + outcome.steps_after,
		metrics.work.steps);
	require_equal(
		outcome.steps_before, is_open ? metrics.window.before.steps : metrics.work.steps);
	require_equal(outcome.steps_after, 0);
	require_equal(outcome.slo.ttft_ns, metrics.options.slo.ttft_ns);
	require_equal(outcome.slo.tpot_ns, metrics.options.slo.tpot_ns);
	require_equal(outcome.slo.e2e_ns, metrics.options.slo.e2e_ns);
	require_equal(outcome.result_hash, metrics_result_hash(&metrics));
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		struct latency_figures figures = outcome.latency[i];
		require_equal(figures.count, metrics.distributions->latency[i].count);
		require_equal(figures.ns[STATISTIC_MAX], figures.count > 0 ? 100 * (i + 1) : 0);
		require_equal(figures.ns[STATISTIC_MEAN], figures.count > 0 ? 100 * (i + 1) : 0);
	}
	metrics_deinit(&metrics);
}

Test(run_outcome, figures_are_those_of_the_metrics)
{
	const struct prop_options options = {
		.name = "run outcome", .body = body_outcome, .trials = 500};

	cr_assert(prop_holds(&options));
}

/* ---- sums of several replicas and of a part of a run ---- */

enum { SUM_WORDS = sizeof(struct run_sums) / sizeof(uint64_t) };

/* Sums as words: each is a count, or half of one of 128 bits whose low half never overflows. */
struct sum_words {
	uint64_t words[SUM_WORDS];
};

static struct sum_words words_of(const struct run_sums *sums)
{
	struct sum_words out;

	memcpy(&out, sums, sizeof(out));
	return out;
}

/* Words that are no sums: peaks, and the state of the requests that wait. */
static bool is_state(uint32_t word)
{
	static const size_t offsets[] = {offsetof(struct run_sums, sums.running_peak),
		offsetof(struct run_sums, sums.used_blocks_peak),
		offsetof(struct run_sums, sums.tokens_peak), offsetof(struct run_sums, waits.count),
		offsetof(struct run_sums, waits.charged_ns)};

	for (uint32_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		if (word * sizeof(uint64_t) == offsets[i]) {
			return true;
		}
	}
	return false;
}

/* The word that lets the sums of 128 bits begin at a multiple of 16 bytes, where there is one. */
static bool is_padding(uint32_t word)
{
	size_t at = word * sizeof(uint64_t);

	return at > offsetof(struct run_sums, outside_ns) &&
	       at < offsetof(struct run_sums, running_ns);
}

/* Two replicas joined have the sums of both, whichever comes first, and the larger peaks. What is
   between the sums of one and those of both is the other. */
static void join_and_part(struct prop *prop, const void *context)
{
	struct sum_words drawn[2];
	struct run_sums sums[2], joined, turned;

	(void)context;
	static_assert(sizeof(struct sum_words) == sizeof(struct run_sums), "words fill the sums");
	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t word = 0; word < SUM_WORDS; word++) {
			drawn[i].words[word] = 1 + prop_below(prop, UINT64_C(1) << 40);
		}
		memcpy(&sums[i], &drawn[i], sizeof(sums[i]));
	}
	joined = sums[0];
	run_sums_join(&joined, &sums[1]);
	turned = sums[1];
	run_sums_join(&turned, &sums[0]);
	const struct run_sums between = run_sums_between(&sums[0], &joined);
	const struct sum_words both = words_of(&joined), other = words_of(&turned),
			       parted = words_of(&between);
	for (uint32_t i = 0; i < SUM_WORDS; i++) {
		uint64_t a = drawn[0].words[i], b = drawn[1].words[i];
		bool is_peak = is_state(i) && i * sizeof(uint64_t) < sizeof(struct step_sums);
		if (is_padding(i)) {
			continue;
		}
		require(is_state(i) || both.words[i] == a + b, "word %u is not joined", i);
		require(!is_peak || both.words[i] == (a > b ? a : b), "peak %u", i);
		require((is_state(i) && !is_peak) || other.words[i] == both.words[i],
			"word %u depends on the order", i);
		require(parted.words[i] == (is_state(i) ? both.words[i] : b),
			"word %u is not taken out", i);
	}
}

Test(run_outcome, sums_are_joined_and_parted_whole)
{
	const struct prop_options options = {
		.name = "sums of runs", .body = join_and_part, .trials = 100};

	cr_assert(prop_holds(&options));
}

/* ---- counters of several replicas ---- */

enum {
	COUNTERS_OFFSET = offsetof(struct metrics, submitted),
	COUNTERS_END = offsetof(struct metrics, measured_last_arrival_ns) + sizeof(uint64_t),
	COUNTER_WORDS = (COUNTERS_END - COUNTERS_OFFSET) / sizeof(uint64_t),
	PARTS_MOST = 4,
};

/* How a counter of the whole follows from those of the parts. */
enum joining { JOIN_SUM, JOIN_MOST, JOIN_LEAST };

static enum joining joining_of(uint32_t word)
{
	static const size_t most[] = {offsetof(struct metrics, longest_too_long),
		offsetof(struct metrics, longest_never_fitting),
		offsetof(struct metrics, longest_missed), offsetof(struct metrics, last_arrival_ns),
		offsetof(struct metrics, last_finish_ns),
		offsetof(struct metrics, measured_last_arrival_ns)};
	const size_t offset = COUNTERS_OFFSET + word * sizeof(uint64_t);

	for (uint32_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		if (offset == most[i]) {
			return JOIN_MOST;
		}
	}
	return offset == offsetof(struct metrics, first_arrival_ns) ||
			       offset == offsetof(struct metrics, measured_first_arrival_ns)
		       ? JOIN_LEAST
		       : JOIN_SUM;
}

static uint64_t counter_of(const struct metrics *metrics, uint32_t word)
{
	uint64_t value;

	memcpy(&value, (const char *)metrics + COUNTERS_OFFSET + word * sizeof(value),
		sizeof(value));
	return value;
}

static void draw_part(struct prop *prop, struct metrics *part)
{
	for (uint32_t word = 0; word < COUNTER_WORDS; word++) {
		uint64_t value = prop_chance(prop, 1, 4) ? prop_below(prop, 2)
							 : prop_below(prop, UINT64_C(1) << 40);
		memcpy((char *)part + COUNTERS_OFFSET + word * sizeof(value), &value,
			sizeof(value));
	}
	part->service_ns = (u128)prop_below(prop, 1000) << 60;
	part->work.steps = prop_below(prop, 1000);
	part->work.waits.ns[WAIT_BLOCKS] = prop_below(prop, 1000);
}

/* Each counter of a fleet is the sum, the most or the least of its replicas', whichever of them are
   idle. */
static void sum_parts(struct prop *prop, const void *context)
{
	const struct metrics_options options = {0};
	struct metrics parts[PARTS_MOST], sum;
	const struct metrics *list[PARTS_MOST];
	uint32_t count = prop_range(prop, 1, PARTS_MOST);
	u128 service_ns = 0, waited_ns = 0;
	uint64_t steps = 0;

	(void)context;
	metrics_init(&parts[0], &options, 1, NULL);
	for (uint32_t i = 0; i < count; i++) {
		if (i > 0) {
			metrics_init_part(&parts[i], &parts[0], 1);
		}
		draw_part(prop, &parts[i]);
		list[i] = &parts[i];
		service_ns += parts[i].service_ns;
		steps += parts[i].work.steps;
		waited_ns += parts[i].work.waits.ns[WAIT_BLOCKS];
	}
	metrics_sum(&sum, list, count);
	for (uint32_t word = 0; word < COUNTER_WORDS; word++) {
		uint64_t expected = counter_of(&parts[0], word);
		enum joining joining = joining_of(word);
		for (uint32_t i = 1; i < count; i++) {
			uint64_t own = counter_of(&parts[i], word);
			expected = joining == JOIN_SUM	  ? expected + own
				   : joining == JOIN_MOST ? (own > expected ? own : expected)
				   : own < expected	  ? own
							  : expected;
		}
		require(counter_of(&sum, word) == expected, "counter %u of %u parts", word, count);
	}
	require(sum.service_ns == service_ns, "the time of service");
	require_equal(sum.work.steps, steps);
	require(sum.work.waits.ns[WAIT_BLOCKS] == waited_ns, "the time of waiting");
	require(sum.records == NULL && !sum.owns_distributions, "a sum owns what its parts have");
	require((sum.hash == NULL) == (count > 1 || parts[0].hash == NULL), "a hash of several");
	while (count > 0) {
		metrics_deinit(&parts[--count]);
	}
}

Test(run_outcome, counters_of_replicas_are_joined_whole)
{
	const struct prop_options options = {
		.name = "counters of replicas", .body = sum_parts, .trials = 300};

	cr_assert(prop_holds(&options));
}
