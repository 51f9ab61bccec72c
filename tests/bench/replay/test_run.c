#include "bench/replay/run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/record/summary.h"
#include "bench/replay/run_to_folder.h"
#include "sim/profile.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* A run without files beside the same run with a result folder. */

enum { PATH_BYTES = TEMPORARY_PATH_BYTES + 32, ROWS = 200 };

struct scene {
	char folder[TEMPORARY_PATH_BYTES];
	char trace[PATH_BYTES];
};

static void open_scene(struct scene *scene)
{
	temporary_folder(scene->folder);
	snprintf(scene->trace, PATH_BYTES, "%s/trace.jsonl", scene->folder);
	FILE *file = fopen(scene->trace, "wb");
	cr_assert_not_null(file);
	for (unsigned i = 0; i < ROWS; i++) {
		fprintf(file,
			"{\"timestamp\": %u, \"input_length\": %u, \"output_length\": %u, "
			"\"hash_ids\": [%u, %u]}\n",
			i * 4, 520 + i * 37 % 200, 20 + i * 13 % 60, i % 7, i);
	}
	cr_assert_eq(fclose(file), 0);
}

static struct run_request request_of(const struct scene *scene)
{
	struct run_request request = {.trace_path = scene->trace, .slo.ttft_ns = 50000000};

	replay_config_default(&request.config);
	request.config.block_size = 16;
	request.config.kv_blocks = 300;
	request.config.max_num_seqs = 8;
	request.config.max_model_len = 780; /* the longest rows are rejected */
	return request;
}

static struct run_outcome run_without_files(const struct scene *scene)
{
	struct run_request request = request_of(scene);
	struct run_outcome outcome;
	struct error error = {0};

	cr_assert_eq(run_replay(&request, &outcome, &error), STATUS_OK, "%s", error.text);
	return outcome;
}

/* The outcome as summary.json says it. */
static char *summary_of(const struct scene *scene, const struct run_outcome *outcome)
{
	struct run_request request = request_of(scene);
	char path[PATH_BYTES];

	request.config.model = "qwen3-0.6b";
	request.config.gpu = "h200-qwen3-0.6b"; /* which --gpu h200 is for this model */
	request.config.dtype = DTYPE_BFLOAT16;
	snprintf(path, sizeof(path), "%s/summary.json", scene->folder);
	FILE *file = fopen(path, "wb");
	cr_assert_not_null(file);
	summary_write(outcome, replay_config_json(&request.config), file);
	cr_assert_eq(fclose(file), 0);
	char *text = file_read(path, NULL);
	unlink(path);
	return text;
}

Test(run, can_be_done_twice_in_a_process_and_gives_what_the_result_folder_says)
{
	struct scene scene;
	struct error error = {0};
	char out[PATH_BYTES], summary[PATH_BYTES + 16];

	open_scene(&scene);
	const struct run_outcome first = run_without_files(&scene);
	const struct run_outcome second = run_without_files(&scene);
	snprintf(out, sizeof(out), "%s/out", scene.folder);
	struct replay_request recorded = {.run = request_of(&scene), .out = out};
	cr_assert_eq(run_to_folder(&recorded, &error), STATUS_OK, "%s", error.text);

	cr_assert_eq(first.end, RUN_COMPLETE);
	cr_assert_gt(first.finished, 0);
	cr_assert_gt(first.rejected, 0);
	cr_assert_eq(first.submitted, ROWS);
	cr_assert_gt(first.work.output_tokens, 0);
	snprintf(summary, sizeof(summary), "%s/summary.json", out);
	char *written = file_read(summary, NULL);
	char *of_first = summary_of(&scene, &first);
	char *of_second = summary_of(&scene, &second);
	cr_assert_str_eq(of_first, written);
	cr_assert_str_eq(of_second, written);
	free(written);
	free(of_first);
	free(of_second);
	temporary_remove(scene.folder);
}

Test(run, leaves_no_file_behind)
{
	struct scene scene;

	open_scene(&scene);
	run_without_files(&scene);
	cr_assert_eq(unlink(scene.trace), 0);
	cr_assert_eq(rmdir(scene.folder), 0, "the folder holds something beside the trace");
}

Test(run, of_another_trace_than_the_recorded_one_has_failed)
{
	struct scene scene;
	struct error error = {0};
	struct run_outcome outcome;
	char out[PATH_BYTES];

	open_scene(&scene);
	snprintf(out, sizeof(out), "%s/out", scene.folder);
	struct replay_request recorded = {
		.run = request_of(&scene), .out = out, .wants_steps = true};
	cr_assert_eq(run_to_folder(&recorded, &error), STATUS_OK, "%s", error.text);

	struct run_request request = request_of(&scene);
	request.config.runner = "tape";
	request.tape = out;
	cr_assert_eq(run_replay(&request, &outcome, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(outcome.end, RUN_COMPLETE);

	FILE *file = fopen(scene.trace, "ab");
	cr_assert_not_null(file);
	fprintf(file, "\n");
	cr_assert_eq(fclose(file), 0);
	request = request_of(&scene);
	request.config.runner = "tape";
	request.tape = out;
	cr_assert_eq(run_replay(&request, &outcome, &error), STATUS_INPUT);
	cr_assert_not_null(strstr(error.text, "not the trace of the recorded run: the tape is of "
					      "another "),
		"found: %s", error.text);
	char wanted[64];
	snprintf(wanted, sizeof(wanted), ", recorded was %016llx",
		(unsigned long long)outcome.trace_xxh64);
	cr_assert_not_null(strstr(error.text, wanted), "found: %s", error.text);
	temporary_remove(scene.folder);
}

Test(run, without_a_trace_is_an_error_and_leaves_no_outcome)
{
	struct scene scene;
	struct error error = {0};
	struct run_outcome outcome;

	open_scene(&scene);
	struct run_request request = request_of(&scene);
	unlink(scene.trace);
	cr_assert_eq(run_replay(&request, &outcome, &error), STATUS_FILE);
	cr_assert_not_null(strstr(error.text, scene.trace), "found: %s", error.text);
	temporary_remove(scene.folder);
}

/* ---- groups of a fleet ---- */

enum { GROUPS_MOST = 3, COLUMNS = 5 };

/* A group's own options; 0 and "": as the run's. */
struct drawn_group {
	uint32_t replicas;
	const char *gpu;
	uint64_t values[COLUMNS];
};

static const char *const group_columns[COLUMNS] = {"kv_blocks", "max_num_seqs",
	"max_num_batched_tokens", "max_model_len", "tensor_parallel_size"};

static void draw_groups(struct prop *prop, struct drawn_group *groups, uint32_t count)
{
	static const char *const gpus[] = {
		"", "h200-qwen3-0.6b", "h200-datasheet", "a100-datasheet", "h200-vllm-qwen3-0.6b"};
	static const uint64_t low[COLUMNS] = {200, 1, 128, 300, 1};

	for (uint32_t i = 0; i < count; i++) {
		groups[i] = (struct drawn_group){
			.replicas = prop_range(prop, 1, 3), .gpu = gpus[prop_below(prop, 5)]};
		for (uint32_t k = 0; k < COLUMNS; k++) {
			bool is_ranks = k + 1 == COLUMNS; /* few profiles are of several */
			bool is_own = prop_chance(prop, 1, is_ranks ? 8 : 2);
			groups[i].values[k] =
				is_own ? low[k] + prop_below(prop, is_ranks ? 1 : 90) : 0;
		}
	}
}

static void write_groups(const char *path, const struct drawn_group *groups, uint32_t count)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "no table");
	fprintf(file, "group\treplicas\tgpu");
	for (uint32_t k = 0; k < COLUMNS; k++) {
		fprintf(file, "\t%s", group_columns[k]);
	}
	fprintf(file, "\n");
	for (uint32_t i = 0; i < count; i++) {
		fprintf(file, "g%u\t%u\t%s", i, groups[i].replicas,
			groups[i].gpu[0] == '\0' ? "-" : groups[i].gpu);
		for (uint32_t k = 0; k < COLUMNS; k++) {
			if (groups[i].values[k] > 0) {
				fprintf(file, "\t%llu", (unsigned long long)groups[i].values[k]);
			} else {
				fprintf(file, "\t-");
			}
		}
		fprintf(file, "\n");
	}
	require(fclose(file) == 0, "no table");
}

/* The same options without a table: a run of the group alone. */
static struct run_request request_of_group(
	const struct scene *scene, const struct drawn_group *group)
{
	struct run_request request = request_of(scene);
	struct replay_config *config = &request.config;
	uint64_t *const fields[COLUMNS] = {&config->kv_blocks, &config->max_num_seqs,
		&config->max_num_batched_tokens, &config->max_model_len,
		&config->tensor_parallel_size};

	for (uint32_t k = 0; k < COLUMNS; k++) {
		*fields[k] = group->values[k] > 0 ? group->values[k] : *fields[k];
	}
	if (group->gpu[0] != '\0') {
		config->gpu = group->gpu;
		config->given.gpu = true;
	}
	return request;
}

static void require_same_limits(
	const struct engine_config *found, const struct engine_config *expected)
{
	require_equal(found->kv_block_count, expected->kv_block_count);
	require_equal(found->max_num_seqs, expected->max_num_seqs);
	require_equal(found->max_num_batched_tokens, expected->max_num_batched_tokens);
	require_equal(found->max_model_len, expected->max_model_len);
	require_equal(found->block_size, expected->block_size);
}

/* How far a profile's prices may be off is what its own steps say, and how far the next card may
   be from those that were measured. Of an uncalibrated one nothing is known. */
Test(run, the_error_of_the_prices_has_that_of_the_card)
{
	static const struct {
		const char *gpu;
		bool knows_cards;
	} cases[] = {{"h200-qwen3-0.6b", true}, {"h100", false},
		{QUIRE_SOURCE_DIR "/tests/fixtures/calibrated_profile.json", false}};
	struct scene scene;

	open_scene(&scene);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run_request request = request_of(&scene);
		struct gpu_profile profile;
		struct error error = {0};
		struct run run;
		request.config.gpu = cases[i].gpu;
		request.config.given.gpu = true;
		require(run_open(&run, &request, &error) == STATUS_OK, "%s", error.text);
		const char *name =
			strcmp(cases[i].gpu, "h100") == 0 ? "h100-datasheet" : cases[i].gpu;
		require(gpu_profile_find(name, &profile, &error) == STATUS_OK, "%s", error.text);
		double expected =
			profile.is_calibrated ? profile.held_out.mean + profile.card_spread : 0;
		require(fabs(run.facts.model_error - expected) <= 0, "%s: %g, not %g", cases[i].gpu,
			run.facts.model_error, expected);
		require_equal(run.facts.knows_cards, cases[i].knows_cards);
		require_equal(profile.card_spread > 0, cases[i].knows_cards);
		run_close(&run);
	}
	temporary_remove(scene.folder);
}

/* A fleet of groups has the limits and prices of runs of each group alone. It is calibrated where
   all of them are, and its model as far off as that of the worst. */
static void body_groups(struct prop *prop, const void *context)
{
	struct drawn_group groups[GROUPS_MOST];
	uint32_t count = prop_range(prop, 1, GROUPS_MOST), at = 0;
	struct scene scene;
	struct error error = {0};
	struct run whole;
	char table[PATH_BYTES];
	double model_error = 0;
	bool is_calibrated = true, knows_cards = true;

	(void)context;
	open_scene(&scene);
	draw_groups(prop, groups, count);
	snprintf(table, sizeof(table), "%s/fleet.tsv", scene.folder);
	write_groups(table, groups, count);
	struct run_request request = request_of(&scene);
	request.config.fleet = table;
	enum status status = run_open(&whole, &request, &error);
	require(status == STATUS_OK, "%s", error.text);
	for (uint32_t i = 0; i < count; i++) {
		struct run_request own = request_of_group(&scene, &groups[i]);
		struct run alone;
		status = run_open(&alone, &own, &error);
		require(status == STATUS_OK, "%s", error.text);
		is_calibrated = is_calibrated && alone.facts.is_calibrated;
		model_error = fmax(model_error, alone.facts.model_error);
		knows_cards = knows_cards && alone.facts.knows_cards;
		for (uint32_t k = 0; k < groups[i].replicas; k++, at++) {
			const struct step_counts counts = {.decode_rows = 3,
				.decode_context_tokens = 900,
				.decode_longest_context = 300,
				.sampled_rows = 3};
			uint64_t found = 0, expected = 0;
			const struct runner *runner = &whole.fleet.runners[at];
			require_same_limits(&whole.fleet.configs[at], &alone.fleet.configs[0]);
			runner->price(runner->state, &counts, &found, &error);
			alone.fleet.runners[0].price(
				alone.fleet.runners[0].state, &counts, &expected, &error);
			require_equal(found, expected);
			require(strtoul(whole.fleet.groups[at] + 1, NULL, 10) == i, "group %s",
				whole.fleet.groups[at]);
		}
		run_close(&alone);
	}
	require_equal(whole.fleet.count, at);
	require_equal(whole.facts.is_calibrated, is_calibrated);
	require_equal(whole.facts.knows_cards, knows_cards);
	require(fabs(whole.facts.model_error - model_error) <= 0, "the error is %g, expected %g",
		whole.facts.model_error, model_error);
	run_close(&whole);
	temporary_remove(scene.folder);
}

Test(run, of_groups_is_that_of_each_group_alone, .timeout = 120)
{
	const struct prop_options options = {.name = "groups", .body = body_groups, .trials = 60};

	cr_assert(prop_holds(&options));
}

/* ---- shares of the limits ---- */

/* The limit of a replica on average, column k of the groups; 0: as the run's. */
static double mean_limit(
	const struct drawn_group *groups, uint32_t count, uint32_t k, uint64_t of_run)
{
	uint64_t sum = 0, replicas = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t own = groups[i].values[k] > 0 ? groups[i].values[k] : of_run;
		sum += groups[i].replicas * own;
		replicas += groups[i].replicas;
	}
	return (double)(sum / replicas);
}

static void require_near(double found, double expected, const char *what)
{
	require(fabs(found - expected) <= 1e-12 * fabs(expected), "%s: found %.17g, expected %.17g",
		what, found, expected);
}

/* Peaks and means are shares of what the engine has, not of what --max-concurrency leaves of it. */
static void require_shares(const struct run_outcome *outcome, const struct run_request *request,
	const struct drawn_group *groups, uint32_t count)
{
	const struct replay_config *config = &request->config;
	const struct step_sums *sums = &outcome->work.sums;
	double blocks = mean_limit(groups, count, 0, config->kv_blocks);
	double seats = mean_limit(groups, count, 1, config->max_num_seqs);
	double budget = mean_limit(groups, count, 2, config->max_num_batched_tokens);
	double steps = (double)outcome->work.steps, up_ns = 0;

	for (uint32_t i = 0; i < count; i++) {
		up_ns += groups[i].replicas * (double)outcome->window_ns;
	}
	require_near(outcome->kv_peak, (double)sums->used_blocks_peak / blocks, "kv_peak");
	require_near(outcome->seats_peak, (double)sums->running_peak / seats, "seats_peak");
	require_near(outcome->budget_peak, (double)sums->tokens_peak / budget, "budget_peak");
	if (outcome->work.steps > 0) {
		require_near(outcome->kv_mean,
			(double)outcome->work.used_blocks_ns / up_ns / blocks, "kv_mean");
		require_near(outcome->seats_mean, (double)outcome->work.running_ns / up_ns / seats,
			"seats_mean");
		require_near(outcome->budget_mean,
			(double)(sums->decode_rows + sums->prefill_tokens) / steps / budget,
			"budget_mean");
	}
	uint64_t most = config->max_concurrency;
	require(most == 0 || sums->running_peak <= most, "%llu run",
		(unsigned long long)sums->running_peak);
	require_equal(outcome->is_held_back, most > 0 && (double)most < seats);
	/* No price is that of replicas that differ. */
	require_equal(outcome->has_utilisation, count == 1 && outcome->work.steps > 0);
}

static struct run_outcome outcome_of(struct run_request request)
{
	struct run_outcome outcome;
	struct error error = {0};
	enum status status = run_replay(&request, &outcome, &error);

	require(status == STATUS_OK, "%s", error.text);
	return outcome;
}

/* Shares of the limits of drawn groups. One group is what the same options without a table are. */
static void body_shares(struct prop *prop, const void *context)
{
	const struct scene *scene = context;
	struct drawn_group groups[GROUPS_MOST];
	uint32_t count = prop_chance(prop, 1, 2) ? 1 : prop_range(prop, 2, GROUPS_MOST);
	struct run_request request = request_of(scene);
	char table[PATH_BYTES];

	draw_groups(prop, groups, count);
	for (uint32_t i = 0; i < count; i++) {
		groups[i].values[1] = prop_chance(prop, 1, 3) ? 0 : prop_range(prop, 1, 16);
		groups[i].values[3] = 0; /* a small one rejects all requests */
	}
	if (count == 1 && prop_chance(prop, 2, 3)) {
		groups[0].replicas = 1;
		request.config.max_concurrency = prop_range(prop, 1, 16);
	}
	prop_log(prop, "%u groups, %llu seats in the first, at most %llu", count,
		(unsigned long long)groups[0].values[1],
		(unsigned long long)request.config.max_concurrency);
	snprintf(table, sizeof(table), "%s/fleet.tsv", scene->folder);
	write_groups(table, groups, count);
	request.config.fleet = table;
	const struct run_outcome whole = outcome_of(request);
	require_shares(&whole, &request, groups, count);
	if (count > 1) {
		return;
	}
	struct run_request own = request_of_group(scene, &groups[0]);
	own.config.replicas = groups[0].replicas;
	own.config.max_concurrency = request.config.max_concurrency;
	const struct run_outcome same = outcome_of(own);
	require_shares(&same, &own, groups, count);
	require_equal(whole.result_hash, same.result_hash);
	require_equal(whole.vain_causes, same.vain_causes);
	require_near(whole.demand, same.demand, "demand");
	require_near(whole.utilisation, same.utilisation, "utilisation");
}

Test(run, has_shares_of_what_its_engines_have, .timeout = 240)
{
	struct scene scene;
	const struct prop_options options = {
		.name = "shares", .body = body_shares, .context = &scene, .trials = 60};

	open_scene(&scene);
	cr_assert(prop_holds(&options));
	temporary_remove(scene.folder);
}
