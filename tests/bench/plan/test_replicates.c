#include "bench/plan/replicates.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plan/bands.h"
#include "bench/plan/probe.h"
#include "sim/profile.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The error bars of a plan as its users see them. bands: how they are made of replicates; coverage:
   how often they hold what they should. */

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	char line[TEMPORARY_PATH_BYTES + 16];

	snprintf(line, sizeof(line), "rm -rf '%s'", folder);
	require_equal(system(line), 0);
}

TestSuite(replicates, .init = set_up, .fini = tear_down);

#define DEMO                                                                                       \
	QUIRE_SOURCE_DIR "/workloads/traces/demo.jsonl --max-requests 400 --slo-ttft-ms 400 "      \
			 "--slo-tpot-ms 7 --attain 0.95 "

/* Plans with the options into folder/NAME and reads that. */
static void plan_with(struct plan_file *plan, const char *name, const char *options)
{
	char line[1024], path[TEMPORARY_PATH_BYTES + 32];
	struct error error = {0};

	snprintf(line, sizeof(line), "plan " DEMO "%s --out @/%s", options, name);
	free(quire_output(folder, 0, line));
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	require(plan_file_open(plan, path, &error) == STATUS_OK, "%s", error.text);
}

static void require_holds(const struct plan_interval *interval, double pass, const char *name)
{
	require(interval->low.has_value && interval->high.has_value, "%s: an end is open", name);
	require(interval->low.value <= pass && interval->high.value >= pass,
		"%s: %g is not in %g to %g", name, pass, interval->low.value, interval->high.value);
	require(interval->high.value > interval->low.value, "%s has no width", name);
}

/* Of the profile that prices the runs. */
static double error_of_prices(void)
{
	static struct gpu_profile profile;
	struct error error = {0};

	require(gpu_profile_find("h200-qwen3-0.6b", &profile, &error) == STATUS_OK, "%s",
		error.text);
	require(profile.held_out.mean > 0.001, "the profile has none");
	require(profile.card_spread > 0.001, "the profile knows no cards");
	return profile.held_out.mean + profile.card_spread;
}

/* A replicate is the run of the answer but for what is drawn anew: it loses as many replicas, and
   its load and its steps are those of its track. */
Test(replicates, every_run_is_that_of_its_track)
{
	static const struct track_options tracks[] = {
		{.configuration = 1, .kind = TRACK_MAIN},
		{.configuration = 2,
			.kind = TRACK_SAMPLING,
			.replicate = 3,
			.is_drawn = true,
			.window_millionths = 70},
		{.configuration = 3,
			.kind = TRACK_SAMPLING,
			.replicate = 9,
			.draws_arrivals = true},
		{.configuration = 4, .kind = TRACK_MODEL, .step_time_scale = 1050000},
	};

	for (uint64_t spare = 0; spare < 3; spare++) {
		for (size_t i = 0; i < sizeof(tracks) / sizeof(tracks[0]); i++) {
			const struct plan_request request = {.spare = spare};
			const struct plan plan = {.request = &request, .knob = KNOB_REPLICAS};
			const struct track track = {.options = tracks[i]};
			const struct search_probe probe = {.purpose = SEARCH_FIRST, .load = 5 + i};
			struct probe_job job = plan_job(&plan, &track, &probe);
			require_equal(job.lost, spare);
			require_equal(job.load, 5 + i);
			require_equal(job.knob, KNOB_REPLICAS);
			require_equal(job.configuration, tracks[i].configuration);
			require_equal(job.replicate, tracks[i].replicate);
			require_equal(job.is_drawn, tracks[i].is_drawn);
			require_equal(job.window_millionths, tracks[i].window_millionths);
			require_equal(job.draws_arrivals, tracks[i].draws_arrivals);
			require_equal(job.step_time_scale, tracks[i].step_time_scale);
			require_equal(job.is_alone, false);
		}
	}
}

/* Seeds of a replicate are so much higher than those that were given, and everything that is not
   drawn anew is as the configuration has it. */
static void body_request(struct prop *prop, const void *context)
{
	static struct probe_configuration configurations[2];
	static struct objective objective;
	const struct probe_context probes = {
		.configurations = configurations, .objective = &objective};
	struct probe_job job = {.configuration = (uint32_t)prop_below(prop, 2),
		.knob = KNOB_KV_BLOCKS,
		.load = prop_range(prop, 1, 900),
		.replicate = prop_below(prop, 40),
		.is_drawn = prop_chance(prop, 1, 2),
		.window_millionths = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 5000000) : 0,
		.draws_arrivals = prop_chance(prop, 1, 2),
		.step_time_scale = prop_chance(prop, 1, 2) ? prop_range(prop, 1, 1200000) : 0};
	char outages[PROBE_OUTAGES_BYTES];

	(void)context;
	for (uint32_t i = 0; i < 2; i++) {
		struct replay_config *config = &configurations[i].run.config;
		memset(config, 0, sizeof(*config));
		config->replicas = 2;
		config->seed = prop_below(prop, 1000);
		config->resample_seed = prop_below(prop, 1000);
		config->resample_window_s = prop_below(prop, 2) * 7000000;
		config->step_time_scale = 900000 + prop_below(prop, 2) * 100000;
		config->kv_blocks = 1000 + i;
		config->given.seed = prop_chance(prop, 1, 2);
		config->given.resample_seed = prop_chance(prop, 1, 2);
		config->given.resample_window_s = config->resample_window_s > 0;
	}
	objective.slo.ttft_ns = prop_below(prop, 9);
	const struct run_request found = probe_request(&probes, &job, outages);
	struct replay_config expected = configurations[job.configuration].run.config;
	expected.kv_blocks = job.load;
	expected.given.kv_blocks = true;
	if (job.is_drawn) {
		expected.resample_seed = expected.resample_seed + job.replicate;
		expected.given.resample_seed = true;
		expected.resample_window_s = job.window_millionths;
		expected.given.resample_window_s = job.window_millionths > 0;
	}
	if (job.draws_arrivals) {
		expected.seed = expected.seed + job.replicate;
		expected.given.seed = true;
	}
	if (job.step_time_scale > 0 && job.step_time_scale != expected.step_time_scale) {
		expected.step_time_scale = job.step_time_scale;
		expected.given.step_time_scale = true;
	}
	require_equal(found.config.resample_seed, expected.resample_seed);
	require_equal(found.config.seed, expected.seed);
	require_equal(found.config.resample_window_s, expected.resample_window_s);
	require(memcmp(&found.config, &expected, sizeof(expected)) == 0, "another configuration");
	require_equal(found.slo.ttft_ns, objective.slo.ttft_ns);
}

Test(replicates, a_run_changes_what_is_drawn_anew)
{
	const struct prop_options options = {
		.name = "requests of runs", .body = body_request, .trials = 2000};

	cr_assert(prop_holds(&options));
}

/* Traces that are drawn from another seed are those that replay draws with it. */
Test(replicates, a_given_seed_is_that_of_the_trace_before_the_first)
{
	struct plan_file plain, seeded;
	uint32_t count = 0;

	plan_with(&plain, "plain", "--replicates 8");
	plan_with(&seeded, "seeded", "--replicates 8 --resample-seed 500");
	for (uint64_t i = 0; i < seeded.probe_count + plain.probe_count; i++) {
		bool is_plain = i >= seeded.probe_count;
		const struct plan_probe *run =
			is_plain ? &plain.probes[i - seeded.probe_count] : &seeded.probes[i];
		double first = is_plain ? 1 : 501;
		if (run->purpose == PROBE_SAMPLING) {
			require(run->resample_seed.value >= first &&
					run->resample_seed.value < first + 8,
				"seed %g, expected one of 8 from %g on", run->resample_seed.value,
				first);
			count++;
		}
	}
	require(count > 16, "%u runs", count);
	plan_file_close(&plain);
	plan_file_close(&seeded);
}

Test(replicates, an_answer_has_both_error_bars)
{
	struct plan_file plan;

	plan_with(&plan, "bars", "--replicates 12");
	const struct plan_answer *answer = &plan.answer;
	require_holds(&answer->sampling.interval, answer->highest_pass.value, "sampling");
	require_holds(&answer->model.interval, answer->highest_pass.value, "model");
	cr_assert_str_eq(answer->sampling.method, "block bootstrap");
	cr_assert_eq(answer->sampling.replicates.value, 12);
	cr_assert(answer->sampling.window_s.value > 1);
	cr_assert_float_eq(answer->model.error.value, error_of_prices(), 1e-6);
	cr_assert(!answer->model.is_guess);
	cr_assert(answer->outside_share.has_value, "the profile has a hull");
	cr_assert_not_null(strstr(answer->sampling.text, "at 95 %, by 12 traces drawn"));
	cr_assert_not_null(strstr(answer->model.text, "% longer or shorter, the mean error"));
	const struct plan_configuration *only = &plan.configurations[0];
	require_holds(&only->goodput_per_gpu_interval, only->goodput_per_gpu.value, "goodput");
	plan_file_close(&plan);
}

/* Of a profile that was never compared with a GPU nobody knows the error. */
Test(replicates, an_uncalibrated_profile_has_a_guess)
{
	struct plan_file plan;

	plan_with(&plan, "guess", "--replicates 8 --gpu h200-datasheet");
	require_holds(&plan.answer.model.interval, plan.answer.highest_pass.value, "model");
	cr_assert_eq(plan.answer.model.error.value, 0.15);
	cr_assert(plan.answer.model.is_guess);
	cr_assert(!plan.answer.outside_share.has_value);
	cr_assert_not_null(strstr(plan.answer.model.text, "a guess"));
	plan_file_close(&plan);
}

/* With --rate chance is in the arrivals too; a trace that is repeated is not drawn from. */
Test(replicates, drawn_arrivals_have_other_seeds)
{
	struct plan_file plan;

	plan_with(&plan, "rate", "--replicates 8 --vary rate");
	require_holds(&plan.answer.sampling.interval, plan.answer.highest_pass.value, "sampling");
	cr_assert_not_null(strstr(plan.answer.sampling.text, "with other arrivals"));
	plan_file_close(&plan);
	plan_with(&plan, "loop", "--replicates 8 --vary rate --loop fresh");
	cr_assert_str_eq(plan.answer.sampling.method, "seeds");
	cr_assert(!plan.answer.sampling.window_s.has_value);
	require_holds(&plan.answer.sampling.interval, plan.answer.highest_pass.value, "sampling");
	plan_file_close(&plan);
}

/* A rate that is given draws arrivals where another thing is varied too: each replicate has a seed
   of its own. Without one they are the trace's, of one seed. */
Test(replicates, a_given_rate_draws_arrivals)
{
	static const struct {
		const char *options;
		bool draws;
	} cases[] = {{"--vary replicas --target-rate 120", true},
		{"--vary kv-blocks --rate 2", true}, {"--vary replicas --target-speedup 30", false},
		{"--vary kv-blocks --speedup 0.5", false}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct plan_file plan;
		char options[128], name[16];
		uint32_t samples = 0;
		snprintf(options, sizeof(options), "--replicates 8 --seed 5 %s", cases[i].options);
		snprintf(name, sizeof(name), "given%u", i);
		plan_with(&plan, name, options);
		const char *said = strstr(plan.answer.sampling.text, "with other arrivals");
		require((said != NULL) == cases[i].draws, "%s: %s", cases[i].options,
			plan.answer.sampling.text);
		for (uint64_t k = 0; k < plan.probe_count; k++) {
			const struct plan_probe *run = &plan.probes[k];
			bool is_sample = run->purpose == PROBE_SAMPLING;
			double further = cases[i].draws && is_sample ? run->replicate.value : 0;
			samples += is_sample;
			require(run->seed.value == 5 + further, "%s: seed %g", cases[i].options,
				run->seed.value);
		}
		require(samples >= 8, "%s: %u runs", cases[i].options, samples);
		plan_file_close(&plan);
	}
}

Test(replicates, memory_has_error_bars_too)
{
	struct plan_file plan;

	plan_with(&plan, "memory", "--replicates 8 --vary kv-blocks --speedup 0.5");
	require_holds(&plan.answer.sampling.interval, plan.answer.lowest_pass.value, "sampling");
	plan_file_close(&plan);
}

Test(replicates, one_is_drawn_but_tells_nothing)
{
	struct plan_file plan;

	plan_with(&plan, "one", "--replicates 1");
	cr_assert_str_eq(plan.answer.sampling.method, "block bootstrap");
	cr_assert(plan.answer.sampling.window_s.has_value);
	cr_assert(!plan.answer.sampling.interval.low.has_value);
	plan_file_close(&plan);
}

Test(replicates, none_are_made_where_none_are_asked_for)
{
	struct plan_file plan;

	plan_with(&plan, "none", "--replicates 0");
	cr_assert_str_eq(plan.answer.sampling.method, "none");
	cr_assert(!plan.answer.model.interval.low.has_value);
	for (uint64_t i = 0; i < plan.probe_count; i++) {
		cr_assert_neq(plan.probes[i].purpose, PROBE_SAMPLING);
	}
	plan_file_close(&plan);
}

/* ---- windows ---- */

/* From the first row of folder/trace.jsonl to the last one, and how many there are. */
struct span {
	double seconds, rows;
};

static struct span span_of_trace(void)
{
	char path[TEMPORARY_PATH_BYTES + 32];
	struct span span = {0, 0};
	double first_ms = 0, last_ms = 0;

	snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
	char *text = file_read(path, NULL);
	for (const char *line = text, *end = NULL; *line != '\0'; line = end + 1) {
		cJSON *row = cJSON_ParseWithOpts(line, &end, false);
		require(row != NULL && *end == '\n', "no row: %.40s", line);
		last_ms = cJSON_GetObjectItem(row, "timestamp")->valuedouble;
		first_ms = span.rows == 0 ? last_ms : first_ms;
		span.rows++;
		cJSON_Delete(row);
	}
	free(text);
	span.seconds = (last_ms - first_ms) / 1000;
	return span;
}

/* How long the latency of a configuration's answer lasts in the time of the trace. */
static double latency_s(const struct plan_file *plan, uint32_t index, const struct span *span)
{
	struct result_value pass = plan_answer_pass(&plan->configurations[index].answer);

	for (uint64_t i = 0; i < plan->probe_count; i++) {
		const struct plan_probe *run = &plan->probes[i];
		bool is_search = run->purpose <= PROBE_SHAPE && run->configuration == index;
		if (is_search && fabs(run->load.value - pass.value) < 1e-6) {
			return run->e2e_p99_ms.value / 1000 * run->offered_requests_per_s.value *
			       span->seconds / (span->rows - 1);
		}
	}
	require(false, "no run of the answer");
	return 0;
}

/* All configurations draw windows of one length: BAND_LATENCIES of the longest latency among them,
   within the parts that a trace may be cut into. Returns which of these it is: -1, 0 or 1. */
static int require_windows(const struct plan_file *plan, const struct span *span)
{
	double longest_s = 0, least = span->seconds / BAND_WINDOWS_MOST;
	double most = span->seconds / BAND_WINDOWS_MIN;

	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		longest_s = fmax(longest_s, latency_s(plan, i, span));
	}
	double needed_s = longest_s * BAND_LATENCIES;
	double expected_s = fmin(fmax(needed_s, least), most);
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct plan_configuration *own = &plan->configurations[i];
		double found_s = own->answer.sampling.window_s.value;
		require(found_s <= expected_s + 1e-4 && found_s > expected_s - 1.1e-3,
			"%s: windows of %g s, not %g s", own->name, found_s, expected_s);
		const char *take = strstr(own->answer.sampling.text, "latency take ");
		bool has_text = own->answer.sampling.interval.low.has_value ||
				own->answer.sampling.interval.high.has_value;
		require((take != NULL) == (has_text && needed_s > most), "%s: %s", own->name,
			own->answer.sampling.text);
		require(take == NULL || fabs(atof(take + 13) - needed_s * BAND_WINDOWS_MIN) < 0.51,
			"%s: %s, not %g", own->name, take, needed_s * BAND_WINDOWS_MIN);
	}
	for (uint64_t i = 0; i < plan->probe_count; i++) {
		const struct plan_probe *run = &plan->probes[i];
		require(run->purpose != PROBE_SAMPLING ||
				fabs(run->resample_window_s.value -
					plan->configurations[0].answer.sampling.window_s.value) <
					1e-6,
			"a run of other windows");
	}
	return needed_s > most ? 1 : needed_s < least ? -1 : 0;
}

/* The longest latency is that of the first, of the last, or of one between them. */
Test(replicates, configurations_have_windows_for_the_longest_latency, .timeout = 120)
{
	static const char *const orders[] = {"132", "312", "123"};
	/* Of too short a trace the text says what it takes, where there is an interval. */
	static const char *const limits[] = {"--slo-e2e-ms 9 --replicates 1",
		"--slo-e2e-ms 20 --replicates 1", "--slo-e2e-ms 20 --replicates 1 --vary rate",
		"--slo-e2e-ms 100 --replicates 8"};
	int regimes[3] = {0};

	free(quire_output(folder, 0,
		"trace make --requests 2000 --input 20 --output 5 --rate 10 --seed 3 --out "
		"@/trace.jsonl"));
	struct span span = span_of_trace();
	for (size_t i = 0; i < 3 * sizeof(limits) / sizeof(limits[0]); i++) {
		char line[1024], path[TEMPORARY_PATH_BYTES + 32];
		const char *seats = orders[i % 3];
		struct plan_file plan;
		struct error error = {0};
		snprintf(line, sizeof(line),
			"plan @/trace.jsonl --gpu h200-qwen3-0.6b --attain 0.99 --precision 0.1 "
			"%s --try '--max-num-seqs %c' --try '--max-num-seqs %c' "
			"--try '--max-num-seqs %c' --out @/windows%zu",
			limits[i / 3], seats[0], seats[1], seats[2], i);
		free(quire_output(folder, 0, line));
		snprintf(path, sizeof(path), "%s/windows%zu", folder, i);
		require(plan_file_open(&plan, path, &error) == STATUS_OK, "%s", error.text);
		require_equal(plan.configuration_count, 3);
		regimes[1 + require_windows(&plan, &span)]++;
		plan_file_close(&plan);
	}
	require(regimes[0] > 0 && regimes[1] > 0 && regimes[2] > 0, "%d %d %d", regimes[0],
		regimes[1], regimes[2]);
}

/* Windows that are given are what they are, however long latencies last. */
Test(replicates, given_windows_are_drawn)
{
	struct plan_file plan;

	plan_with(&plan, "given", "--replicates 8 --resample-seed 3 --resample-window 2.5");
	cr_assert_float_eq(plan.answer.sampling.window_s.value, 2.5, 1e-9);
	cr_assert_not_null(strstr(plan.answer.sampling.text, "in windows of 2.5 s"));
	cr_assert_null(strstr(plan.answer.sampling.text, "too short"));
	for (uint64_t i = 0; i < plan.probe_count; i++) {
		const struct plan_probe *run = &plan.probes[i];
		require(run->purpose != PROBE_SAMPLING || run->resample_window_s.value == 2.5,
			"windows of %g s", run->resample_window_s.value);
	}
	plan_file_close(&plan);
}
