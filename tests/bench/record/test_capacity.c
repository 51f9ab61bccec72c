#include "bench/record/capacity.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/record/run_outcome.h"
#include "bench/replay/run.h"
#include "bench/replay/run_to_folder.h"
#include "engine/policy.h"
#include "engine/step_record.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Utilisation beside loads whose saturation is found by trying: the rate from which on requests are
   left waiting. */

enum { PATH_BYTES = TEMPORARY_PATH_BYTES + 32, ROWS = 2500, PROBES = 9 };

struct load {
	const char *name;
	uint32_t input, output;
	uint64_t max_num_seqs, kv_blocks, block_size; /* 0: the default */
	const char *model, *gpu;
	uint32_t policy; /* its index in the table of policies */
};

static const struct load loads[] = {
	{.name = "decode, many rows", .input = 128, .output = 256},
	{.name = "decode, few seats", .input = 1024, .output = 128, .max_num_seqs = 32},
	{.name = "decode, few blocks", .input = 500, .output = 600, .kv_blocks = 300},
	{.name = "decode, a larger model", .input = 128, .output = 256, .model = "qwen3-8b"},
	{.name = "decode, calibrated", .input = 512, .output = 256, .gpu = "h200-qwen3-0.6b"},
	{.name = "prompts and a few tokens", .input = 2000, .output = 16},
	{.name = "prompts alone", .input = 300, .output = 1},
	{.name = "prompts, small blocks", .input = 2000, .output = 16, .block_size = 16},
	{.name = "two phases", .input = 1500, .output = 64, .policy = 1},
	{.name = "prompts, calibrated", .input = 3000, .output = 16, .gpu = "h200-qwen3-0.6b"},
	{.name = "decode, 8b calibrated",
		.input = 256,
		.output = 256,
		.model = "qwen3-8b",
		.gpu = "h200-qwen3-8b"},
	{.name = "decode, vLLM",
		.input = 256,
		.output = 256,
		.max_num_seqs = 256,
		.block_size = 16,
		.model = "qwen3-8b",
		.gpu = "h200-vllm-qwen3-8b",
		.policy = 2},
	{.name = "prompts, vLLM",
		.input = 3000,
		.output = 16,
		.block_size = 16,
		.gpu = "h200-vllm-qwen3-0.6b",
		.policy = 2},
};

enum { LOADS = sizeof(loads) / sizeof(loads[0]) };

/* Lengths vary by half to each side of the mean; times do not count. */
static void write_trace(const char *path, const struct load *load)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "cannot write %s", path);
	for (uint32_t i = 0; i < ROWS; i++) {
		uint32_t input = load->input / 2 + i * 2654435761u % (load->input + 1);
		uint32_t output = load->output / 2 + i * 2246822519u % (load->output + 1);
		fprintf(file, "{\"timestamp\": %u, \"input_length\": %u, \"output_length\": %u}\n",
			i, input, output == 0 ? 1 : output);
	}
	require(fclose(file) == 0, "cannot write %s", path);
}

static struct run_request request_of(const struct load *load, const char *trace, double rate)
{
	struct run_request request = {.trace_path = trace};
	struct replay_config *config = &request.config;

	replay_config_default(config);
	config->max_model_len = 8192;
	config->rate = (uint64_t)(rate * 1e6);
	config->max_num_seqs = load->max_num_seqs > 0 ? load->max_num_seqs : config->max_num_seqs;
	config->block_size = load->block_size > 0 ? load->block_size : config->block_size;
	config->kv_blocks = load->kv_blocks;
	config->model = load->model != NULL ? load->model : config->model;
	config->gpu = load->gpu != NULL ? load->gpu : config->gpu;
	config->policy = load->policy;
	return request;
}

static struct run_outcome run_at(const struct load *load, const char *trace, double rate)
{
	struct run_request request = request_of(load, trace, rate);
	struct run_outcome outcome;
	struct error error = {0};

	require(run_replay(&request, &outcome, &error) == STATUS_OK, "%s", error.text);
	require(outcome.has_utilisation, "%s: utilisation is not known", load->name);
	return outcome;
}

/* The highest rate at which hardly a request waits at the end, within 5 %. No price counts. */
static double saturation(const struct load *load, const char *trace)
{
	const struct run_outcome burst = run_at(load, trace, 100000);
	double capacity = (double)burst.finished * 1e9 / (double)burst.window_ns;
	double low = capacity * 0.5, high = capacity * 1.5;

	for (uint32_t i = 0; i < PROBES && high / low > 1.05; i++) {
		double middle = (low + high) / 2;
		struct run_outcome outcome = run_at(load, trace, middle);
		if (outcome.backlog_at_last_arrival * 20 > outcome.submitted) {
			high = middle;
		} else {
			low = middle;
		}
	}
	return low;
}

Test(capacity, utilisation_is_about_the_share_of_the_rate_at_which_the_queue_starts_to_grow)
{
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES];

	temporary_folder(folder);
	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	for (uint32_t i = 0; i < LOADS; i++) {
		const struct load *load = &loads[i];
		write_trace(trace, load);
		double rate = saturation(load, trace);
		double fifth = run_at(load, trace, rate * 0.2).utilisation;
		double half = run_at(load, trace, rate * 0.5).utilisation;
		double most = run_at(load, trace, rate * 0.9).utilisation;
		cr_log_info("%s: %.2f requests/s; %.3f at a fifth, %.3f at half, %.3f at 0.9\n",
			load->name, rate, fifth, half, most);
		cr_expect(fifth > 0.15 && fifth < 0.26, "%s: %.3f at a fifth", load->name, fifth);
		cr_expect(half >= 0.4 && half <= 0.6, "%s: %.3f at half", load->name, half);
		cr_expect(most > 0.8 && most < 1.1, "%s: %.3f at 0.9", load->name, most);
		cr_expect(run_at(load, trace, rate * 0.8).verdict != VERDICT_OVERLOADED,
			"%s: overloaded at 0.8", load->name);
		cr_expect(run_at(load, trace, rate * 1.3).verdict == VERDICT_OVERLOADED,
			"%s: not overloaded at 1.3", load->name);
	}
	temporary_remove(folder);
}

/* Requests pile up while they run: where there is a seat for each of them, none waits. The verdict
   is the same for a third of the trace. */
Test(capacity, more_than_the_engine_can_carry_is_overload_though_nothing_waits)
{
	const struct load load = {.name = "a seat for each",
		.input = 128,
		.output = 256,
		.max_num_seqs = ROWS,
		.kv_blocks = 2 * ROWS,
		.model = "qwen3-8b",
		.gpu = "h200-qwen3-8b"};
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES];

	temporary_folder(folder);
	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	write_trace(trace, &load);
	const struct run_outcome burst = run_at(&load, trace, 100000);
	double capacity = (double)burst.finished * 1e9 / (double)burst.window_ns;
	for (uint32_t part = 1; part <= 3; part += 2) {
		for (uint32_t i = 0; i < 2; i++) {
			struct run_request request =
				request_of(&load, trace, capacity * (i == 0 ? 0.7 : 1.5));
			struct run_outcome outcome;
			struct error error = {0};
			request.config.max_requests = ROWS / part;
			require(run_replay(&request, &outcome, &error) == STATUS_OK, "%s",
				error.text);
			require_equal(outcome.backlog_at_last_arrival, 0);
			require_equal(
				outcome.verdict, i == 0 ? VERDICT_STABLE : VERDICT_OVERLOADED);
			require(outcome.offered_demand > (i == 0 ? 0.5 : 1.2) &&
					outcome.offered_demand < (i == 0 ? 0.9 : 2.0),
				"%.3f of capacity arrives", outcome.offered_demand);
		}
	}
	temporary_remove(folder);
}

/* Advice is tried: where the named limit is twice as large, an overloaded run carries more, and
   where it is called vain it does not. */
/* Prompts that come all at once cost less than capacity has for them. */
Test(capacity, utilisation_is_a_share_also_of_a_burst)
{
	const struct load load = {.input = 20, .output = 400};
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES];

	temporary_folder(folder);
	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	write_trace(trace, &load);
	const struct run_outcome burst = run_at(&load, trace, 100000);
	cr_expect(burst.demand > 1, "%f", burst.demand);
	cr_expect(burst.utilisation == 1, "%f", burst.utilisation);
	const struct run_outcome light = run_at(&load, trace, 20);
	cr_expect(light.demand < 1 && light.utilisation == light.demand);
	temporary_remove(folder);
}

Test(capacity, advice_is_true_where_it_is_followed)
{
	static const struct {
		struct load load;
		enum wait_cause cause;
		bool is_vain;
		uint64_t batched;
	} cases[] = {
		{{.input = 1024, .output = 128, .max_num_seqs = 16}, WAIT_SEATS, false, 8192},
		{{.input = 500, .output = 600, .kv_blocks = 100}, WAIT_BLOCKS, false, 8192},
		{{.input = 6000, .output = 4}, WAIT_BUDGET, true, 8192},
		{{.input = 2000, .output = 4, .max_num_seqs = 16}, WAIT_BUDGET, false, 64},
		{{.input = 6000, .output = 4, .kv_blocks = 900}, WAIT_BLOCKS, true, 8192},
	};
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES];

	temporary_folder(folder);
	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct load load = cases[i].load;
		struct error error = {0};
		struct run_outcome narrow, wide;
		load.gpu = QUIRE_SOURCE_DIR "/tests/fixtures/calibrated_profile.json";
		write_trace(trace, &load);
		struct run_request request = request_of(&load, trace, 100000);
		request.config.max_num_batched_tokens = cases[i].batched;
		require(run_replay(&request, &narrow, &error) == STATUS_OK, "%s", error.text);
		request = request_of(&load, trace, 100000);
		request.config.max_num_batched_tokens = cases[i].batched;
		request.config.max_num_seqs <<= cases[i].cause == WAIT_SEATS;
		request.config.kv_blocks <<= cases[i].cause == WAIT_BLOCKS;
		request.config.max_num_batched_tokens <<= cases[i].cause == WAIT_BUDGET;
		require(run_replay(&request, &wide, &error) == STATUS_OK, "%s", error.text);
		double gain = (double)narrow.window_ns / (double)wide.window_ns - 1;
		bool is_vain = (narrow.vain_causes >> cases[i].cause & 1) != 0;
		cr_log_info("case %u: %.3f more at twice the limit\n", i, gain);
		require(is_vain == cases[i].is_vain && is_vain == (gain < 0.05),
			"case %u: called %s, and %.3f is gained", i, is_vain ? "vain" : "of help",
			gain);
	}
	temporary_remove(folder);
}

/* ---- the steps that are priced ---- */

struct asked {
	const struct engine_config *limits;
	uint64_t count;
};

/* Prices nothing but steps that an engine could compute. */
static enum status price_possible(
	void *state, const struct step_counts *counts, uint64_t *elapsed_ns, struct error *error)
{
	struct asked *asked = state;
	uint64_t tokens = counts->decode_rows + counts->prefill_tokens;

	(void)error;
	asked->count++;
	require(tokens > 0, "a step without a row");
	require((counts->prefill_rows > 0) == (counts->prefill_tokens > 0) &&
			counts->prefill_rows <= counts->prefill_tokens,
		"%llu prompts of %llu tokens", (unsigned long long)counts->prefill_rows,
		(unsigned long long)counts->prefill_tokens);
	require(counts->sampled_rows <= counts->decode_rows + counts->prefill_rows,
		"more samples than rows");
	require(counts->decode_rows <= asked->limits->max_num_seqs, "%llu rows",
		(unsigned long long)counts->decode_rows);
	*elapsed_ns = 1000 + 10 * tokens;
	return STATUS_OK;
}

Test(capacity, prices_steps_that_can_be)
{
	for (uint64_t length = 1; length < 20000; length = length * 3 / 2 + 1) {
		for (uint64_t output = 1; output < 3000; output = output * 3 + 1) {
			const struct engine_config limits = {.policy = policy_at(0),
				.kv_block_count = 4000,
				.max_num_seqs = 64,
				.max_num_batched_tokens = 2048};
			const struct step_sums sums = {.prompts = 100,
				.prefill_tokens = 100 * length,
				.prefill_attention_pairs = 50 * length * length,
				.decode_rows = 100 * (output - 1),
				.decode_steps = output > 1 ? 10 * output : 0,
				.decode_context_tokens = 100 * (output - 1) * length};
			struct asked asked = {.limits = &limits};
			const struct runner pricer = {.state = &asked, .price = price_possible};
			double ns = 0;
			require(capacity_time(&sums, &limits, 10, &pricer, &ns), "no time");
			require(asked.count > 0 && ns > 0, "%g ns", ns);
		}
	}
}

/* ---- shares of the limits ---- */

/* Means and peaks from the rows of steps.tsv. */
struct shares {
	double running_ns, used_ns, tokens;
	double running, used, most_tokens;
	double steps;
};

static struct shares read_steps(const char *path)
{
	struct shares sums = {0};
	char line[1024];
	FILE *file = fopen(path, "rb");

	require(file != NULL, "no %s", path);
	require(fgets(line, sizeof(line), file) != NULL, "no header");
	while (fgets(line, sizeof(line), file) != NULL) {
		double start, elapsed, gpu, host, cell[STEP_COLUMN_COUNT];
		char mode[16];
		int step, used = 0;
		require(sscanf(line, "%d %lf %lf %lf %lf %15s%n", &step, &start, &elapsed, &gpu,
				&host, mode, &used) == 6,
			"%s", line);
		char *rest = line + used;
		for (uint32_t i = STEP_COLUMN_FIRST_COUNT; i < STEP_COLUMN_COUNT; i++) {
			cell[i] = strtod(rest, &rest);
		}
		double tokens = cell[STEP_COLUMN_decode_rows] + cell[STEP_COLUMN_prefill_tokens];
		double running = cell[STEP_COLUMN_running];
		double used_blocks = cell[STEP_COLUMN_used_blocks];
		sums.running_ns += running * elapsed;
		sums.used_ns += used_blocks * elapsed;
		sums.tokens += tokens;
		sums.running = running > sums.running ? running : sums.running;
		sums.used = used_blocks > sums.used ? used_blocks : sums.used;
		sums.most_tokens = tokens > sums.most_tokens ? tokens : sums.most_tokens;
		sums.steps++;
	}
	fclose(file);
	return sums;
}

static void require_near(double found, double expected, const char *name)
{
	double error = found - expected;

	require((error < 0 ? -error : error) < 1e-9, "%s is %.9f, the steps say %.9f", name, found,
		expected);
}

Test(capacity, shares_of_the_limits_are_those_of_the_steps)
{
	const struct load load = {.input = 300, .output = 60, .kv_blocks = 100};
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES], out[PATH_BYTES],
		steps[PATH_BYTES + 16];
	struct error error = {0};

	temporary_folder(folder);
	snprintf(trace, sizeof(trace), "%s/trace.jsonl", folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	snprintf(steps, sizeof(steps), "%s/steps.tsv", out);
	write_trace(trace, &load);
	const struct run_outcome outcome = run_at(&load, trace, 200);
	struct replay_request recorded = {
		.run = request_of(&load, trace, 200), .out = out, .wants_steps = true};
	require(run_to_folder(&recorded, &error) == STATUS_OK, "%s", error.text);
	const struct shares sums = read_steps(steps);
	const struct replay_config *config = &recorded.run.config;
	double window = (double)outcome.window_ns, blocks = 100;
	double seats = (double)config->max_num_seqs;
	double budget = (double)config->max_num_batched_tokens;

	require_equal(outcome.work.steps, (uint64_t)sums.steps);
	require_near(outcome.kv_mean, sums.used_ns / window / blocks, "kv_mean");
	require_near(outcome.kv_peak, sums.used / blocks, "kv_peak");
	require_near(outcome.seats_mean, sums.running_ns / window / seats, "seats_mean");
	require_near(outcome.seats_peak, sums.running / seats, "seats_peak");
	require_near(outcome.budget_mean, sums.tokens / sums.steps / budget, "budget_mean");
	require_near(outcome.budget_peak, sums.most_tokens / budget, "budget_peak");
	temporary_remove(folder);
}

/* ---- the formula of capacity.h, with prices that are a line ---- */

enum { STEP_NS = 1000, ROW_NS = 10, TOKEN_NS = 3 };

static enum status price_line(
	void *state, const struct step_counts *counts, uint64_t *elapsed_ns, struct error *error)
{
	(void)state;
	(void)error;
	*elapsed_ns = STEP_NS + ROW_NS * counts->decode_rows + TOKEN_NS * counts->prefill_tokens;
	return STATUS_OK;
}

/* Most rows are best. Each of them stands in a step with so many prompt tokens as come for a
   decode token, and no step is longer than the budget. */
Test(capacity, rows_leave_room_for_the_prompts_of_their_step)
{
	const struct runner pricer = {.price = price_line};
	const struct step_sums sums = {
		.decode_steps = 100, .decode_rows = 5000, .prompts = 50, .prefill_tokens = 15000};
	struct engine_config limits = {.policy = policy_at(0),
		.max_num_seqs = 1000,
		.kv_block_count = 100000,
		.max_num_batched_tokens = 800};
	double ns;

	/* 3 tokens of prompts for each decode token: 200 rows and 600 tokens */
	require(limits.policy->mixes_phases, "another policy");
	require(capacity_time(&sums, &limits, 1, &pricer, &ns), "no price");
	double expected = 5000.0 * (STEP_NS + 200 * ROW_NS) / 200 + 15000.0 * TOKEN_NS;
	require(ns > expected - 1e-6 && ns < expected + 1e-6, "%g, not %g", ns, expected);
	/* fewer seats, then fewer blocks */
	limits.max_num_seqs = 160;
	require(capacity_time(&sums, &limits, 1, &pricer, &ns), "no price");
	expected = 5000.0 * (STEP_NS + 160 * ROW_NS) / 160 + 15000.0 * TOKEN_NS;
	require(ns > expected - 1e-6 && ns < expected + 1e-6, "%g, not %g", ns, expected);
	limits.kv_block_count = 320;
	require(capacity_time(&sums, &limits, 4, &pricer, &ns), "no price");
	expected = 5000.0 * (STEP_NS + 80 * ROW_NS) / 80 + 15000.0 * TOKEN_NS;
	require(ns > expected - 1e-6 && ns < expected + 1e-6, "%g, not %g", ns, expected);
}

/* ---- shares of a run and of its levels ---- */

static struct run_sums draw_work(struct prop *prop)
{
	struct run_sums work = {.steps = prop_below(prop, 40)};
	uint64_t decodes = work.steps == 0 ? 0 : prop_below(prop, work.steps + 1);

	work.sums = (struct step_sums){.decode_steps = decodes,
		.decode_rows = decodes * prop_range(prop, 1, 9),
		.decode_context_tokens = decodes * prop_range(prop, 1, 900),
		.prompts = work.steps - decodes,
		.prefill_tokens = (work.steps - decodes) * prop_range(prop, 1, 90),
		.running_peak = prop_below(prop, 12),
		.used_blocks_peak = prop_below(prop, 120),
		.tokens_peak = prop_below(prop, 900)};
	work.running_ns = prop_chance(prop, 1, 6) ? 0 : prop_below(prop, 100000);
	work.used_blocks_ns = prop_below(prop, 1000000);
	return work;
}

static void require_share(double found, double expected, const char *name)
{
	require(fabs(found - expected) <= 1e-12 * (1 + fabs(expected)),
		"%s is %.15g, expected %.15g", name, found, expected);
}

/* The share of a time that the work takes at capacity, at most all of it. */
static void require_demand(const struct run_sums *work, const struct engine_config *limits,
	const struct runner *pricer, uint64_t time_ns, bool has, double found)
{
	double running_ns = (double)work->running_ns, ns = 0;
	bool is_known = running_ns > 0 && time_ns > 0 &&
			capacity_time(&work->sums, limits,
				(double)work->used_blocks_ns / running_ns, pricer, &ns);

	require(has == is_known, "its utilisation is %sknown", has ? "" : "not ");
	if (has) {
		require_share(found, fmin(ns / (double)time_ns, 1), "utilisation");
	}
}

static void body_shares(struct prop *prop, const void *context)
{
	const struct runner pricer = {.price = price_line};
	struct engine_config limits = {.policy = policy_at(0),
		.max_num_seqs = prop_range(prop, 1, 50),
		.kv_block_count = prop_range(prop, 1, 500),
		.max_num_batched_tokens = prop_range(prop, 50, 900)};
	const struct metrics_options options = {
		.level_count = prop_range(prop, 0, 3), .level_ns = 1 + prop_below(prop, 100000)};
	uint64_t seats = limits.max_num_seqs + prop_below(prop, 20);
	static struct metrics metrics;
	struct run_outcome outcome = {.work = draw_work(prop),
		.window_start_ns = prop_below(prop, 1000),
		.window_ns = prop_below(prop, 200000),
		.level_count = options.level_count,
		.level_ns = options.level_ns};

	(void)context;
	metrics_init(&metrics, &options, 1, NULL);
	struct levels *levels = &metrics.distributions->levels;
	for (uint32_t i = 0; i < options.level_count; i++) {
		levels->levels[i].work = draw_work(prop);
	}
	outcome.levels = levels->figures;
	run_outcome_of_load(&outcome, &metrics, &limits, seats, &pricer);
	const struct run_sums *work = &outcome.work;
	require_share(outcome.kv_peak, (double)work->sums.used_blocks_peak / limits.kv_block_count,
		"kv_peak");
	require_share(
		outcome.seats_peak, (double)work->sums.running_peak / (double)seats, "seats_peak");
	require_share(outcome.budget_peak,
		(double)work->sums.tokens_peak / limits.max_num_batched_tokens, "budget_peak");
	if (outcome.window_ns > 0 && work->steps > 0) {
		double ns = (double)outcome.window_ns, steps = (double)work->steps;
		double tokens = (double)(work->sums.decode_rows + work->sums.prefill_tokens);
		require_share(outcome.budget_mean, tokens / steps / limits.max_num_batched_tokens,
			"budget_mean");
		require_share(outcome.kv_mean,
			(double)work->used_blocks_ns / ns / limits.kv_block_count, "kv_mean");
		require_share(outcome.seats_mean, (double)work->running_ns / ns / (double)seats,
			"seats_mean");
		require_demand(work, &limits, &pricer, outcome.window_ns, outcome.has_utilisation,
			outcome.utilisation);
	}
	for (uint32_t i = 0; i < options.level_count; i++) {
		require_demand(&levels->levels[i].work, &limits, &pricer, options.level_ns,
			levels->figures[i].has_utilisation, levels->figures[i].utilisation);
	}
	metrics_deinit(&metrics);
}

Test(capacity, shares_of_a_run_and_its_levels_follow_from_their_work)
{
	const struct prop_options options = {
		.name = "shares of the limits", .body = body_shares, .trials = 500};

	cr_assert(prop_holds(&options));
}
