#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "bench/plan/binding.h"
#include "bench/plan/probe.h"
#include "engine/wait_cause.h"
#include "tests/harness/require.h"

/* What binds, in words: figures to the left and to the right of each limit, and what is said. */

enum { TTFT_MS = 1000 };

/* Of 1,000 requests 940 are within limits; the others miss TTFT after waiting for seats. */
static struct probe_figures usual(void)
{
	struct probe_figures figures = {.submitted = 1000,
		.attained = 940,
		.missed_ttft = 60,
		.judged = {.miss = MISS_ATTAINED}};

	figures.latency_ms[LATENCY_TTFT][STATISTIC_P99] = TTFT_MS;
	figures.latency_ms[LATENCY_E2E][STATISTIC_P99] = 2 * TTFT_MS;
	figures.latency_ms[LATENCY_QUEUE][STATISTIC_P99] = TTFT_MS / 2;
	figures.wait_s[WAIT_SEATS] = 3;
	figures.wait_s[WAIT_BLOCKS] = 1;
	return figures;
}

static struct objective limits_of_ttft(void)
{
	struct objective objective = {.slo = {.ttft_ns = 1}, .limit_count = 2};

	objective.limits[0] = (struct metric_limit){
		.metric = metric_find("hit_rate"), .is_least = true, .amount = 0.25};
	objective.limits[1] =
		(struct metric_limit){.metric = metric_find("ttft.p95"), .amount = 700};
	return objective;
}

static void require_said(void (*add)(struct text *text, const struct objective *objective,
				 const struct probe_figures *figures),
	const struct probe_figures *figures, const char *expected)
{
	const struct objective objective = limits_of_ttft();
	struct text text = {0};

	add(&text, &objective, figures);
	require(strcmp(text.bytes, expected) == 0, "found    %s\nexpected %s", text.bytes,
		expected);
	text_deinit(&text);
}

static void require_binds(const struct probe_figures *figures, const char *name, const char *why)
{
	const struct objective objective = limits_of_ttft();

	cr_assert_str_eq(binding_name(&objective, figures), name);
	require_said(binding_add_text, figures, why);
}

#define SEATS "seats: 75.0\u00a0% of the time in the queue; "
#define BLOCKS "KV blocks: 75.0\u00a0% of the time in the queue; "
#define STEPS_OF                                                                                   \
	"latency: steps take longer than the limit, by the prompts and the sequences that share "  \
	"them"
#define STEPS                                                                                      \
	STEPS_OF "; a smaller --max-num-batched-tokens or --max-num-seqs shortens them, and may "  \
		 "carry less"
#define MEMORY                                                                                     \
	"memory: 11 preemptions interrupt answers; more KV blocks would help "                     \
	"(--gpu-memory-utilization, --kv-blocks)"

Test(binding, a_queue_is_explained_by_what_it_waits_for)
{
	struct probe_figures figures = usual();

	require_binds(&figures, "ttft", SEATS "--max-num-seqs would help");
	figures.vain_causes = 1 << WAIT_BLOCKS;
	require_binds(&figures, "ttft", SEATS "--max-num-seqs would help");
	figures.vain_causes = 1 << WAIT_SEATS;
	require_binds(&figures, "ttft", SEATS "more of that would not help, --replicas would help");
	figures.has_groups = true; /* --replicas is refused beside --fleet */
	require_binds(&figures, "ttft",
		SEATS "more of that would not help, more replicas in --fleet would help");
	figures.has_groups = false;
	/* An option that decides in the run is named, and none that is at its end. */
	figures.vain_causes = 0;
	figures.is_held_back = true;
	require_binds(&figures, "ttft", SEATS "--max-concurrency would help");
	figures.is_held_back = false;
	figures.spent_causes = 1 << WAIT_SEATS;
	require_binds(&figures, "ttft", SEATS "--replicas would help");
	figures.spent_causes |= 1 << WAIT_ROUTER;
	require_binds(&figures, "ttft", "seats: 75.0\u00a0% of the time in the queue");
	figures.spent_causes = 1 << WAIT_SEATS;
	figures.wait_s[WAIT_BLOCKS] = 9;
	require_binds(&figures, "ttft", BLOCKS "--gpu-memory-utilization would help");
	figures.has_given_blocks = true;
	require_binds(&figures, "ttft", BLOCKS "--kv-blocks would help");
	figures.spent_causes = 1 << WAIT_BLOCKS;
	require_binds(&figures, "ttft", BLOCKS "--replicas would help");
	/* Less than half of it in the queue. */
	figures.latency_ms[LATENCY_QUEUE][STATISTIC_P99] = TTFT_MS * 0.499;
	require_binds(&figures, "ttft", "latency: steps that compute a prompt take that long");
	figures = usual();
	figures.wait_s[WAIT_STEP] = 4;
	require_binds(&figures, "ttft",
		"latency: the step in flight: 50.0\u00a0% of the time in the queue");
	figures.judged.miss = MISS_OVERLOADED;
	require_binds(&figures, "overload",
		"latency: the step in flight: 50.0\u00a0% of the time in the queue");
}

Test(binding, steps_are_long_by_preemptions_or_by_themselves)
{
	struct probe_figures figures = usual();

	figures.missed_tpot = 60; /* as many as miss TTFT, which comes first */
	require_binds(&figures, "ttft", SEATS "--max-num-seqs would help");
	figures.missed_tpot = 61;
	figures.preemptions = 10; /* more than 1 % is much */
	require_binds(&figures, "tpot", STEPS);
	figures.has_least_budget = true;
	require_binds(&figures, "tpot",
		STEPS_OF "; a smaller --max-num-seqs shortens them, and may carry less");
	figures.has_least_seats = true;
	require_binds(&figures, "tpot", STEPS_OF);
	figures.has_least_budget = false;
	require_binds(&figures, "tpot",
		STEPS_OF "; a smaller --max-num-batched-tokens shortens them, and may carry less");
	figures.has_least_seats = false;
	figures.preemptions = 11;
	require_binds(&figures, "tpot", MEMORY);
	figures.has_given_blocks = true;
	require_binds(&figures, "tpot",
		"memory: 11 preemptions interrupt answers; more KV blocks would help "
		"(--kv-blocks)");
	figures.spent_causes = 1 << WAIT_BLOCKS;
	require_binds(&figures, "tpot",
		"memory: 11 preemptions interrupt answers; --replicas would help");
	figures.has_given_blocks = false;
	figures.spent_causes = 0;
	figures.missed_e2e = 62;
	require_binds(&figures, "e2e", MEMORY);
	figures.latency_ms[LATENCY_QUEUE][STATISTIC_P99] = TTFT_MS;
	require_binds(&figures, "e2e", SEATS "--max-num-seqs would help");
}

Test(binding, rejections_say_what_takes_them)
{
	struct probe_figures figures = usual();

	figures.failed = 30;
	figures.unfinished = 31;
	require_binds(&figures, "rejections", "no replica took them");
	figures.rejected = 1234;
	figures.too_long = 1000;
	figures.needed_model_len = 5000;
	figures.never_fit = 200;
	figures.needed_kv_blocks = 70;
	require_binds(&figures, "rejections",
		"rejections: 1,000 too long (--max-model-len 5000 takes all), 200 for lack of KV "
		"blocks (--kv-blocks 70 takes all), 34 by a full queue at the router");
	figures.too_long = 0;
	figures.never_fit = 1234;
	require_binds(&figures, "rejections",
		"rejections: 1,234 for lack of KV blocks (--kv-blocks 70 takes all)");
	figures.too_long = 1000;
	figures.never_fit = 234;
	figures.has_groups = true;
	require_binds(&figures, "rejections",
		"rejections: 1,000 too long (max_model_len 5000 in every row of --fleet takes "
		"all), 234 for lack of KV blocks (kv_blocks 70 in every row of --fleet takes all)");
}

Test(binding, a_limit_of_the_run_is_named)
{
	struct probe_figures figures = usual();

	figures.judged.miss = MISS_LIMIT;
	figures.judged.value = 0.2;
	require_binds(&figures, "hit_rate", "Prefix-cache hit rate of the run");
	require_said(binding_add_misses, &figures,
		"hit_rate is 20.0\u00a0%, not at least 25 %; 94.00 % of the requests are within "
		"the "
		"limits: 60 miss TTFT");
	figures.judged.limit = 1;
	figures.judged.value = NAN;
	figures.missed_tpot = 3;
	figures.missed_e2e = 2;
	figures.failed = 5;
	require_said(binding_add_misses, &figures,
		"ttft.p95 is \u2013, not at most 700 ms; 94.00 % of the requests are within the "
		"limits: 60 miss TTFT, 3 miss TPOT, 2 miss E2E, 5 are not served");
	cr_assert_str_eq(
		binding_name(
			&(struct objective){.limits[1].metric = metric_find("e2e.p50")}, &figures),
		"e2e.p50");
}

/* What the words on a limit of a latency of the run end with. */
static void require_limit_ends(
	const struct probe_figures *figures, const char *metric, const char *end)
{
	const struct objective objective = {
		.limit_count = 1, .limits[0] = {.metric = metric_find(metric), .amount = 9}};
	struct text text = {0};

	binding_add_text(&text, &objective, figures);
	size_t bytes = strlen(end);
	require(text.byte_count > bytes && strcmp(text.bytes + text.byte_count - bytes, end) == 0,
		"%s: %s", metric, text.bytes);
	text_deinit(&text);
}

/* Nobody is in the queue between two tokens, so what is waited for there explains no TPOT. */
Test(binding, a_limit_between_tokens_is_explained_by_steps)
{
	struct probe_figures figures = usual();

	figures.judged.miss = MISS_LIMIT;
	require_limit_ends(&figures, "tpot.p99", " of the run; " STEPS);
	require_limit_ends(&figures, "itl.p99", " of the run; " STEPS);
	require_limit_ends(&figures, "e2e.p99", " of the run; " STEPS);
	require_limit_ends(&figures, "ttft.p99", SEATS "--max-num-seqs would help");
	require_limit_ends(&figures, "queue.p99", SEATS "--max-num-seqs would help");
	figures.latency_ms[LATENCY_QUEUE][STATISTIC_P99] = TTFT_MS;
	require_limit_ends(&figures, "e2e.p99", SEATS "--max-num-seqs would help");
}

/* The largest pool of a plan of KV blocks is what the memory has room for: beyond it only a larger
   share of the memory helps, until that is all of it. */
Test(binding, the_largest_pool_is_a_matter_of_the_share_of_memory)
{
	const struct objective objective = {.slo = {.ttft_ns = 1}, .attain = 1000000};

	for (uint32_t share = 900000; share <= 1000000; share += 100000) {
		struct probe_configuration own = {
			.run.trace_path = QUIRE_SOURCE_DIR "/workloads/traces/demo.jsonl"};
		struct run_outcome outcome;
		struct probe_figures figures;
		struct error error = {0};

		replay_config_default(&own.run.config);
		own.run.config.model = "qwen3-0.6b";
		own.run.config.gpu = "h200";
		own.run.config.max_requests = 20;
		own.run.config.gpu_memory_utilization = share;
		own.run.slo = objective.slo;
		struct run_request run = own.run; /* which names what it chose */
		require(run_replay(&run, &outcome, &error) == STATUS_OK, "%s", error.text);
		const struct probe_context context = {
			.configurations = &own, .objective = &objective};
		for (uint32_t less = 0; less < 2; less++) {
			const struct probe_job job = {
				.knob = KNOB_KV_BLOCKS, .load = outcome.found_kv_blocks - less};
			require(probe_run(&context, &job, &figures, &error) == STATUS_OK, "%s",
				error.text);
			require_equal(figures.kv_blocks, job.load);
			require_equal(figures.has_given_blocks, less == 1);
			if (less == 0) {
				require_equal(
					figures.spent_causes >> WAIT_BLOCKS & 1, share == 1000000);
			}
		}
	}
}
