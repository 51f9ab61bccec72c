#include <criterion/criterion.h>

#include <cJSON.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"

Test(replay_cli, a_run_leaves_whole_files_and_a_summary)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	require_no_parts(fixture.out);
	for (uint32_t i = 0; i < REPLAY_FILES; i++) {
		char *text = read_in(fixture.out, replay_files[i]);
		require(text != NULL && text[0] != '\0', "%s is empty", replay_files[i]);
		require(text[strlen(text) - 1] == '\n', "%s has no end", replay_files[i]);
		free(text);
	}
	/* Without --steps there is no steps.tsv, and --force takes the older one away. */
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--force"));
	char *steps = read_in(fixture.out, RESULT_STEPS);
	require(steps == NULL, "steps.tsv of an older run is left");
	replay_fixture_close(&fixture);
}

/* The estimate of a GPU's blocks is refused then, which a number that is given overrules. */
Test(replay_cli, a_model_that_is_too_large_runs_with_blocks_that_are_given)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_good(RUN_SMALL(
		fixture.trace, "--model", "qwen3-32b", "--gpu", "rtx4090", "--out", fixture.out));
	replay_fixture_close(&fixture);
}

/* The option that is named is the one that decides in the run. */
Test(replay_cli, what_shortens_a_wait_is_said)
{
	static const struct {
		const char *option, *value, *other, *other_value, *lack;
	} cases[] = {
		{"--kv-blocks", "150", "--seed", "1", "KV blocks"},
		{"--gpu-memory-utilization", "0.03", "--seed", "1", "KV blocks"},
		{"--max-num-seqs", "8", "--seed", "1", "seats"},
		{"--max-concurrency", "4", "--max-num-seqs", "8", "seats"},
	};
	char words[128];

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct process_result result = RUN("workloads/traces/demo.jsonl", "--gpu",
			"h200-datasheet", "--speedup", "8", "--max-requests", "200",
			cases[i].option, cases[i].value, cases[i].other, cases[i].other_value);
		require(result.code == 0, "%s", result.err);
		const char *line = strstr(result.out, "waited    for ");
		require(line != NULL, "%s", result.out);
		snprintf(words, sizeof(words), "; %s would help\n", cases[i].option);
		const char *found = strstr(line, words);
		require(found != NULL && memchr(line, '\n', (size_t)(found - line)) == NULL &&
				strstr(line, cases[i].lack) < found,
			"%s, expected %s", line, words);
		process_result_free(&result);
	}
}

/* Twice the blocks carry 42 % more of this trace, whose prompts share prefixes, and 10 % more with
   the cache off. An engine that is overloaded with the cache off gains 1 % (bench/MEASURED.md). */
Test(replay_cli, more_blocks_are_advised_unless_they_are_in_vain)
{
	static const struct {
		const char *speedup, *caching, *advice;
	} cases[] = {
		{"1.422", "on", "; --gpu-memory-utilization would help\n"},
		{"0.9", "off", "; --gpu-memory-utilization would help\n"},
		{"20", "off", "; more of that would not help, --replicas would help\n"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct process_result result =
			RUN("workloads/traces/demo.jsonl", "--gpu", "h200-qwen3-0.6b", "--speedup",
				cases[i].speedup, "--enable-prefix-caching", cases[i].caching);
		require(result.code == 0, "%s", result.err);
		const char *line = strstr(result.out, "waited    for ");
		require(line != NULL && strstr(line, "KV blocks") != NULL &&
				strstr(line, cases[i].advice) != NULL,
			"%s, expected %s", result.out, cases[i].advice);
		process_result_free(&result);
	}
}

/* All of the memory is in use already. */
Test(replay_cli, no_option_at_its_end_is_advised)
{
	struct process_result result = RUN("workloads/traces/demo.jsonl", "--gpu",
		"h200-qwen3-0.6b", "--speedup", "1.6", "--gpu-memory-utilization", "1");

	require(result.code == 0, "%s", result.err);
	const char *line = strstr(result.out, "waited    for ");
	require(line != NULL && strstr(line, "KV blocks") != NULL, "%s", result.out);
	require(strstr(line, "--gpu-memory-utilization") == NULL &&
			strstr(line, "--replicas would help\n") != NULL,
		"%s", line);
	process_result_free(&result);
}

/* Whatever was computed is a load, down to a single token. */
Test(replay_cli, a_single_token_is_a_load)
{
	struct replay_fixture fixture;
	char text[128], path[PATH_BYTES];

	replay_fixture_open(&fixture);
	for (uint32_t output = 1; output <= 3; output++) {
		snprintf(text, sizeof(text),
			"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": %u}\n", output);
		temporary_write(fixture.folder, "one.jsonl", text, path);
		require_good(RUN(path, "--gpu", "h200-datasheet", "--out", fixture.out, "--force"));
		cJSON *summary = read_summary(fixture.out);
		const cJSON *load = cJSON_GetObjectItem(summary, "load");
		const cJSON *share = cJSON_GetObjectItem(load, "utilisation");
		require(cJSON_IsNumber(share) && share->valuedouble > 0, "%u tokens are no load",
			output);
		cJSON_Delete(summary);
	}
	replay_fixture_close(&fixture);
}

/* The hash of a run under the profile that vLLM was measured for. */
static char *hash_of_profile(
	const struct replay_fixture *fixture, const char *gpu, const char *process)
{
	require_good(RUN_SMALL(fixture->trace, "--policy", "vllm", "--model", "qwen3-0.6b", "--gpu",
		gpu, "--engine-process", process, "--out", fixture->out, "--force"));
	cJSON *summary = read_summary(fixture->out);
	char *hash = strdup(text_in(summary, NULL, "result_hash"));
	cJSON_Delete(summary);
	return hash;
}

/* Writes vLLM's profile with other prices of its engine's process. */
static void write_profile(const struct replay_fixture *fixture, const char *name, double step_ns,
	double row_ns, char *path)
{
	char *text = file_read(QUIRE_SOURCE_DIR "/sim/profiles/h200-vllm-qwen3-0.6b.json", NULL);
	cJSON *root = cJSON_Parse(text);
	cJSON *process = cJSON_GetObjectItem(root, "engine_process");

	cJSON_SetNumberValue(cJSON_GetObjectItem(process, "step_ns"), step_ns);
	cJSON_SetNumberValue(cJSON_GetObjectItem(process, "row_ns"), row_ns);
	free(text);
	text = cJSON_Print(root);
	temporary_write(fixture->folder, name, text, path);
	free(text);
	cJSON_Delete(root);
}

/* An engine in the same process pays nothing for another one, neither for a step nor for its rows:
   as one whose profile has no prices of it. */
Test(replay_cli, an_engine_in_the_same_process_pays_for_none)
{
	static const double prices[][2] = {{2e7, 0}, {0, 2e7}};
	struct replay_fixture fixture;
	char without[TEMPORARY_PATH_BYTES], with[TEMPORARY_PATH_BYTES];

	replay_fixture_open(&fixture);
	write_profile(&fixture, "without.json", 0, 0, without);
	char *none = hash_of_profile(&fixture, without, "own");
	for (uint32_t i = 0; i < 2; i++) {
		write_profile(&fixture, "with.json", prices[i][0], prices[i][1], with);
		char *same = hash_of_profile(&fixture, with, "same");
		char *own = hash_of_profile(&fixture, with, "own");
		cr_assert_str_eq(same, none);
		cr_assert_str_neq(own, none);
		free(same);
		free(own);
	}
	free(none);
	replay_fixture_close(&fixture);
}

/* A profile may be named that has the steps of another engine than the policy's. Quire's engine
   runs every policy; vLLM's runs its own alone. */
Test(replay_cli, whose_steps_a_named_profile_has_is_said)
{
	static const struct {
		const char *gpu, *policy, *note;
		bool is_calibrated;
	} cases[] = {
		{"h200-qwen3-0.6b", "mixed", NULL, true},
		{"h200-vllm-qwen3-0.6b", "vllm", NULL, true},
		{"h200", "vllm", NULL, true},
		{"h200-datasheet", "vllm", NULL, false},
		{"h200-qwen3-0.6b", "vllm",
			"steps are priced by h200-qwen3-0.6b: it has the step times of quire's own "
			"engine, which runs policy vllm too, and not those of vllm",
			true},
		{"h200-vllm-qwen3-0.6b", "mixed",
			"steps are priced by h200-vllm-qwen3-0.6b: it has the step times of vllm, "
			"which does not run policy mixed",
			false},
		{"h100", "mixed",
			"steps are priced by h100-datasheet: no profile is calibrated for "
			"qwen3-0.6b on 1 GPU",
			false},
	};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		require_good(RUN_SMALL(fixture.trace, "--policy", cases[i].policy, "--model",
			"qwen3-0.6b", "--gpu", cases[i].gpu, "--out", fixture.out, "--force"));
		cJSON *summary = read_summary(fixture.out);
		const cJSON *note = cJSON_GetObjectItem(summary, SUMMARY_PROFILE_NOTE);
		const cJSON *calibrated = cJSON_GetObjectItem(summary, SUMMARY_CALIBRATED);
		require(cJSON_IsTrue(calibrated) == cases[i].is_calibrated,
			"%s under %s: calibrated", cases[i].gpu, cases[i].policy);
		if (cases[i].note == NULL) {
			require(note == NULL, "%s under %s: %s", cases[i].gpu, cases[i].policy,
				note->valuestring);
		} else {
			require(note != NULL && strcmp(note->valuestring, cases[i].note) == 0,
				"%s under %s: %s", cases[i].gpu, cases[i].policy,
				note == NULL ? "no note" : note->valuestring);
		}
		cJSON_Delete(summary);
	}
	replay_fixture_close(&fixture);
}

Test(replay_cli, help_is_no_failure)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_good(RUN("--help"));
	require_good(RUN("nothing", "--kv-blocks", "x", "-h"));
	replay_fixture_close(&fixture);
}

/* Both policies take the same requests where no limit is given. */
Test(replay_cli, policies_can_be_compared_with_defaults)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_good(RUN(fixture.trace, "--trace-block-size", "16", "--policy", "prefill-first",
		"--out", fixture.out));
	cJSON *summary = read_summary(fixture.out);
	require_equal(number_in(summary, "requests", "finished"), 60);
	require_equal(number_in(summary, "config", "max_num_batched_tokens"), 40960);
	cJSON_Delete(summary);
	require_good(RUN(fixture.trace, "--trace-block-size", "16", "--policy", "mixed", "--out",
		fixture.out, "--force"));
	summary = read_summary(fixture.out);
	require_equal(number_in(summary, "requests", "finished"), 60);
	require_equal(number_in(summary, "config", "max_num_batched_tokens"), 16384);
	cJSON_Delete(summary);
	replay_fixture_close(&fixture);
}

/* Arrivals that all come at once never reach a duration. */
Test(replay_cli, a_loop_without_an_end_is_refused)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_refused(RUN(fixture.trace, "--loop", "shared", "--rate", "inf", "--duration", "3",
				"--out", fixture.out),
		"never reaches --duration");
	replay_fixture_close(&fixture);
}

/* --resample-seed 0 is the trace itself; another seed draws another trace, always the same one. */
Test(replay_cli, a_resampled_trace_is_another_one_and_can_be_had_again)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out));
	char *plain = read_in(fixture.out, RESULT_REQUESTS);
	require_good(
		RUN_SMALL(fixture.trace, "--resample-seed", "0", "--out", fixture.out, "--force"));
	char *zero = read_in(fixture.out, RESULT_REQUESTS);
	require(strcmp(plain, zero) == 0, "seed 0 draws");
	char *drawn[2];
	for (int i = 0; i < 2; i++) {
		require_good(RUN_SMALL(fixture.trace, "--resample-seed", "5", "--resample-window",
			"500ms", "--warmup", "7", "--out", fixture.out, "--force"));
		drawn[i] = read_in(fixture.out, RESULT_REQUESTS);
	}
	require(strcmp(plain, drawn[0]) != 0, "seed 5 draws nothing");
	require(strcmp(drawn[0], drawn[1]) == 0, "seed 5 draws this and that");
	free(plain);
	free(zero);
	free(drawn[0]);
	free(drawn[1]);
	require_refused(RUN(fixture.trace, "--resample-seed", "5", "--loop", "fresh",
				"--max-requests", "100"),
		"give one of them");
	require_refused(RUN(fixture.trace, "--resample-window", "5"),
		"--resample-window belongs to --resample-seed");
	replay_fixture_close(&fixture);
}

/* Every price is multiplied, and only prices are. */
Test(replay_cli, step_times_can_be_scaled)
{
	struct replay_fixture fixture;
	double busy[2];

	replay_fixture_open(&fixture);
	for (int i = 0; i < 2; i++) {
		require_good(RUN_SMALL(fixture.trace, "--concurrency", "1", "--step-time-scale",
			i == 0 ? "1" : "1.5", "--out", fixture.out, "--force"));
		cJSON *summary = read_summary(fixture.out);
		const cJSON *e2e =
			cJSON_GetObjectItem(cJSON_GetObjectItem(summary, "latency_ms"), "e2e");
		busy[i] = cJSON_GetObjectItem(e2e, "mean")->valuedouble;
		cJSON_Delete(summary);
	}
	double ratio = busy[1] / busy[0];
	require(ratio > 1.499999 && ratio < 1.500001, "1.5 times as long steps took %g times",
		ratio);
	require_refused(RUN(fixture.trace, "--runner", "reference", "--step-time-scale", "2"),
		"it needs --runner sim");
	replay_fixture_close(&fixture);
}

/* The prompts of the trace share prefixes, which only a prefix cache finds. */
Test(replay_cli, prefix_caching_can_be_switched_off)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out));
	cJSON *summary = read_summary(fixture.out);
	require(number_in(summary, "prefix_cache", "hit_tokens") > 0, "nothing hits");
	require(strcmp(text_in(summary, "config", "enable_prefix_caching"), "on") == 0,
		"it is off");
	cJSON_Delete(summary);

	struct process_result off = RUN_SMALL(
		fixture.trace, "--out", fixture.out, "--force", "--enable-prefix-caching", "off");
	require(strstr(off.out, "cache     off: --enable-prefix-caching off;") != NULL, "%s",
		off.out);
	require_good(off);
	summary = read_summary(fixture.out);
	require_equal(number_in(summary, "prefix_cache", "hit_tokens"), 0);
	require(strcmp(text_in(summary, "config", "enable_prefix_caching"), "off") == 0,
		"it is on");
	cJSON_Delete(summary);
	replay_fixture_close(&fixture);
}

/* Columns of requests.tsv and timeline.tsv. */
enum { REQUEST_STATUS = 2, REQUEST_OUTPUT = 9, REQUEST_PREEMPTIONS = 10, REQUEST_RECOMPUTED = 11 };
enum {
	TIMELINE_HIT = 5,
	TIMELINE_QUERY,
	TIMELINE_OUTPUT,
	TIMELINE_PREFILL,
	TIMELINE_PREEMPTIONS,
	TIMELINE_STEPS
};

Test(replay_cli, figures_of_all_files_agree)
{
	struct replay_fixture fixture;
	uint64_t rows;

	replay_fixture_open(&fixture);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	cJSON *summary = read_summary(fixture.out);
	char *requests = read_in(fixture.out, RESULT_REQUESTS);
	char *timeline = read_in(fixture.out, RESULT_TIMELINE);
	char *steps = read_in(fixture.out, RESULT_STEPS);
	cr_assert_str_eq(text_in(summary, NULL, "status"), "complete");
	require_equal(number_in(summary, "requests", "submitted"), 60);
	sum_column(requests, 0, REQUEST_STATUS, "finished", &rows);
	require_equal(number_in(summary, "requests", "finished"), rows);
	sum_column(requests, 0, REQUEST_STATUS, "rejected_too_long", &rows);
	require_equal(rows, 2);
	require_equal(number_in(summary, "requests", "rejected"), rows);
	uint64_t output = sum_column(requests, REQUEST_OUTPUT, 0, NULL, &rows);
	require_equal(rows, 60);
	require_equal(number_in(summary, "tokens", "output"), output);
	require_equal(sum_column(timeline, TIMELINE_OUTPUT, 0, NULL, &rows), output);
	require(rows <= TIMELINE_BINS_MAX, "too many bins");
	uint64_t preemptions = number_in(summary, NULL, "preemptions");
	require(preemptions > 0, "the pool is not small");
	require_equal(sum_column(requests, REQUEST_PREEMPTIONS, 0, NULL, &rows), preemptions);
	require_equal(sum_column(timeline, TIMELINE_PREEMPTIONS, 0, NULL, &rows), preemptions);
	require_equal(sum_column(requests, REQUEST_RECOMPUTED, 0, NULL, &rows),
		number_in(summary, "tokens", "recomputed"));
	require_equal(sum_column(timeline, TIMELINE_PREFILL, 0, NULL, &rows),
		number_in(summary, "tokens", "prefill_computed"));
	require(number_in(summary, "prefix_cache", "hit_tokens") > 0, "nothing was shared");
	require_equal(sum_column(timeline, TIMELINE_HIT, 0, NULL, &rows),
		number_in(summary, "prefix_cache", "hit_tokens"));
	require_equal(sum_column(timeline, TIMELINE_QUERY, 0, NULL, &rows),
		number_in(summary, "prefix_cache", "query_tokens"));
	require_equal(sum_column(timeline, TIMELINE_STEPS, 0, NULL, &rows),
		number_in(summary, "time", "steps"));
	sum_column(steps, 0, 0, NULL, &rows);
	require_equal(number_in(summary, "time", "steps"), rows);
	cJSON_Delete(summary);
	free(requests);
	free(timeline);
	free(steps);
	replay_fixture_close(&fixture);
}

/* ---- the same bytes ---- */

Test(replay_cli, surroundings_leave_no_trace_in_a_result)
{
	static const struct process_order others[] = {
		{.variable = "TZ", .value = "Asia/Kathmandu"},
		{.variable = "LC_ALL", .value = "de_DE.UTF-8"},
		{.variable = "LC_NUMERIC", .value = "fr_FR.UTF-8"},
		{.variable = "COLUMNS", .value = "20"},
		{.folder = "/"},
	};
	struct replay_fixture fixture;
	char again[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(again, fixture.folder, "again");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		require_good(quire_replay(others[i], true,
			LIST(fixture.trace, "--out", again, "--steps", "--force")));
		require_same_result(fixture.out, again);
	}
	/* And from the trace's own folder, with relative names and options in another order. */
	const struct process_order inside = {.folder = fixture.folder};
	require_good(quire_replay(inside, true,
		LIST("--steps", "--force", "--out=again", "--seed", "0", "trace.jsonl")));
	require_same_result(fixture.out, again);
	replay_fixture_close(&fixture);
}

Test(replay_cli, another_seed_is_another_result_of_equal_lengths)
{
	struct replay_fixture fixture;
	char again[PATH_BYTES];
	uint64_t rows;

	replay_fixture_open(&fixture);
	path_in(again, fixture.folder, "again");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out));
	require_good(RUN_SMALL(fixture.trace, "--out", again, "--seed", "1"));
	char *first = read_in(fixture.out, RESULT_REQUESTS);
	char *second = read_in(again, RESULT_REQUESTS);
	require_equal(sum_column(first, REQUEST_OUTPUT, 0, NULL, &rows),
		sum_column(second, REQUEST_OUTPUT, 0, NULL, &rows));
	free(first);
	free(second);
	replay_fixture_close(&fixture);
}

/* ---- wrong use ---- */

struct wrong_use {
	const char *words;	  /* of the line */
	const char *arguments[8]; /* behind a good trace and a good --out */
};

Test(replay_cli, wrong_options_are_reported_in_one_line)
{
	static const struct wrong_use cases[] = {
		{"unknown option --nothing", {"--nothing"}},
		{"did you mean --kv-blocks?", {"--kv-block", "3"}},
		{"model 'gpt-2'", {"--model", "gpt-2"}},
		{"abacus", {"--gpu", "abacus"}},
		{"--policy: found 'fair'", {"--policy", "fair"}},
		{"--runner: found 'slow'", {"--runner", "slow"}},
		{"--tokens: found 'none'", {"--tokens", "none"}},
		{"--admission: found 'all'", {"--admission", "all"}},
		{"--format", {"--format", "tsv"}},
		{"--sessions", {"--sessions", "ajar"}},
		{"--admission belongs to --policy prefill-first", {"--admission", "seed"}},
		{"--tokens sampled", {"--tokens", "sampled"}},
		{"--tape", {"--tape", "somewhere"}},
		{"--tape", {"--runner", "tape"}},
		{"nowhere: is no result folder: it has no summary.json",
			{"--runner", "tape", "--tape", "nowhere"}},
		{"--overlap: found 'some'", {"--overlap", "some"}},
		{"--clock: found 'sun'", {"--clock", "sun"}},
		{"--clock wall needs a runner", {"--clock", "wall"}},
		{"--tensor-parallel-size: found '9'", {"-tp", "9"}},
		{"--tensor-parallel-size: found 6, expected 1, 2, 4 or 8", {"-tp=6"}},
		{"--tp-transport is how GPUs exchange: it needs --runner cuda, not sim",
			{"-tp", "2", "--tp-transport", "nccl"}},
		{"it needs --runner cuda, not reference",
			{"--runner", "reference", "-tp", "2", "--tp-transport", "auto"}},
		{"--block-size", {"--block-size", "0"}},
		{"--kv-blocks", {"--kv-blocks", "268435457"}},
		{"--max-num-seqs", {"--max-num-seqs", "-1"}},
		{"--max-model-len", {"--max-model-len", "many"}},
		{"--gpu-memory-utilization", {"--gpu-memory-utilization", "1.5"}},
		{"--speedup", {"--speedup", "0"}},
		{"--speedup", {"--speedup", "0.0000001"}},
		{"--slo-ttft-ms", {"--slo-ttft-ms", "-5"}},
		{"--concurrency", {"--concurrency", "0"}},
		{"--concurrency", {"--concurrency", "4", "--speedup", "2"}},
		{"--concurrency", {"--concurrency", "4", "--rate", "2"}},
		{"--concurrency", {"--concurrency", "4", "--sessions", "closed"}},
		{"--rate", {"--rate", "2", "--speedup", "2"}},
		{"--rate", {"--arrivals", "poisson"}},
		{"--warmup 5", {"--warmup", "5", "--max-requests", "5"}},
		{"max-num-batched-tokens (4)", {"--max-num-batched-tokens", "4"}},
		{"max-model-len (40960)",
			{"--policy", "prefill-first", "--max-num-batched-tokens", "40959"}},
		{"found no session in any row",
			{"--sessions", "closed", "--trace-block-size", "16"}},
		{"--kv-blocks is given twice", {"--kv-blocks", "3", "--kv-blocks", "3"}},
		{"behind it", {"--seed"}},
		{"one argument too many", {"another.jsonl"}},
		{"--force takes no value", {"--force=yes"}},
	};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct replay_arguments own = {.count = 0};
		add_all(&own, LIST(fixture.trace, "--out", fixture.out));
		add_all(&own, cases[i].arguments);
		require_refused(
			quire_replay((struct process_order){0}, false, own.list), cases[i].words);
		require(!file_exists(fixture.out), "'%s' leaves a folder", cases[i].words);
	}
	require_refused(RUN("--out", fixture.out), "TRACE");
	require_refused(RUN(fixture.trace, "--out", ""), "--out");
	require_refused(RUN_SMALL(fixture.trace, "--out", fixture.out, "--warmup", "3",
				"--cooldown", "2", "--max-requests", "5"),
		"--warmup 3 and --cooldown 2 leave nothing of 5 requests");
	replay_fixture_close(&fixture);
}

/* Sessions behind the rows that are taken are none. */
Test(replay_cli, closed_sessions_are_looked_for_in_the_rows_that_are_taken)
{
	struct replay_fixture fixture;
	char path[TEMPORARY_PATH_BYTES + 16];

	replay_fixture_open(&fixture);
	temporary_write(fixture.folder, "late.jsonl",
		"{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 2}\n"
		"{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 2}\n"
		"{\"timestamp\": 2, \"input_length\": 9, \"output_length\": 2, "
		"\"session_id\": \"a\"}\n",
		path);
	require_refused(
		RUN(path, "--out", fixture.out, "--sessions", "closed", "--max-requests", "2"),
		"found no session in any row");
	require_good(
		RUN(path, "--out", fixture.out, "--sessions", "closed", "--max-requests", "3"));
	replay_fixture_close(&fixture);
}

#ifdef QUIRE_HAS_CUDA

Test(replay_cli, a_transport_without_ranks_is_refused)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_refused(RUN(fixture.trace, "--out", fixture.out, "--runner", "cuda",
				"--tp-transport", "nccl"),
		"--tp-transport belongs to --tensor-parallel-size above 1");
	require(!file_exists(fixture.out), "it leaves a folder");
	replay_fixture_close(&fixture);
}

/* Before weights are opened or a GPU is looked for. */
Test(replay_cli, shapes_that_kernels_lack_are_reported_first)
{
	static const struct {
		const char *dim, *intermediate, *ranks, *words;
	} cases[] = {
		{"16", "48", "1", "head_dim 16: the CUDA runner computes"},
		{"128", "44", "1", "intermediate_size 44: the CUDA runner needs"},
		{"128", "40", "2", "intermediate_size 20 of a rank: the CUDA runner needs"},
		{"128", "45", "2", "expected a divisor of its intermediate_size 45"},
	};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char config[1024];
		snprintf(config, sizeof(config),
			"{\"model_type\": \"qwen3\", \"hidden_size\": 32, "
			"\"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
			"\"num_key_value_heads\": 2, \"head_dim\": %s, "
			"\"intermediate_size\": %s, \"vocab_size\": 96, "
			"\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, "
			"\"rope_theta\": 1e6, \"tie_word_embeddings\": true, "
			"\"torch_dtype\": \"bfloat16\"}",
			cases[i].dim, cases[i].intermediate);
		temporary_write(fixture.folder, "config.json", config, NULL);
		require_refused(RUN(fixture.trace, "--out", fixture.out, "--runner", "cuda",
					"--kv-blocks", "16", "-tp", cases[i].ranks, "--model",
					fixture.folder, "--trace-block-size", "8"),
			cases[i].words);
	}
	replay_fixture_close(&fixture);
}

#endif

Test(replay_cli, invalid_traces_are_reported_in_one_line)
{
	struct replay_fixture fixture;
	char path[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(path, fixture.folder, "absent.jsonl");
	require_refused(RUN(path, "--out", fixture.out), "absent.jsonl");
	require_refused(RUN(fixture.folder, "--out", fixture.out), fixture.folder);
	path_in(path, fixture.folder, "pipe");
	require(mkfifo(path, 0666) == 0, "no pipe");
	require_refused(RUN(path, "--out", fixture.out), "pipe");
	require_refused(RUN("/dev/zero", "--out", fixture.out), "/dev/zero");
	temporary_write(fixture.folder, "empty.jsonl", "", path);
	require_refused(RUN(path, "--out", fixture.out), "empty.jsonl");
	temporary_write(fixture.folder, "prose.jsonl", "Dear all,\n", path);
	require_refused(RUN(path, "--out", fixture.out), "prose.jsonl:1");
	temporary_write(fixture.folder, "late.jsonl",
		"{\"timestamp\": 9000000000000, \"input_length\": 3, \"output_length\": 3}\n",
		path);
	require_refused(RUN(path, "--out", fixture.out, "--speedup", "0.000001"), "--speedup");
	require(!file_exists(fixture.out), "a folder is left");
	replay_fixture_close(&fixture);
}

/* A runner that computes may take seconds to open. */
Test(replay_cli, a_trace_is_looked_at_before_weights_are_opened)
{
	struct replay_fixture fixture;
	char path[PATH_BYTES];

	replay_fixture_open(&fixture);
	temporary_write(fixture.folder, "prose.jsonl", "Dear all,\n", path);
	require_refused(
		RUN(path, "--out", fixture.out, "--runner", "reference", "--weights", "/nowhere"),
		"prose.jsonl:1");
	path_in(path, fixture.folder, "absent.jsonl");
	require_refused(
		RUN(path, "--out", fixture.out, "--runner", "reference", "--weights", "/nowhere"),
		"absent.jsonl");
	require_refused(RUN(fixture.trace, "--out", fixture.out, "--runner", "reference",
				"--weights", "/nowhere", "--trace-block-size", "8"),
		"/nowhere");
	replay_fixture_close(&fixture);
}

/* Rows before a bad one have been replayed and written; nothing of that may stay. */
Test(replay_cli, a_bad_row_in_the_middle_leaves_nothing)
{
	static const struct {
		const char *line, *words;
	} cases[] = {
		{"{\"timestamp\": 45, \"input_length\": 0, \"output_length\": 3}", "input_length"},
		{"{\"timestamp\": 45, \"input_length\": 3}", "output_length"},
		{"{\"timestamp\": -1, \"input_length\": 3, \"output_length\": 3}", "timestamp"},
		{"{\"timestamp\": 3, \"input_length\": 3, \"output_length\": 3}", "time"},
		{"{\"timestamp\": 45, \"input_length\": 3, \"output_length\": 3, "
		 "\"hash_ids\": [1, 2]}",
			"hash_ids"},
		{"{\"timestamp\": 45, \"input_len", "trace.jsonl:32"},
		{"", "trace.jsonl:32"},
	};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		replay_write_trace(fixture.trace, 60, cases[i].line);
		for (uint32_t is_closed = 0; is_closed < 2; is_closed++) {
			struct process_result outcome =
				is_closed ? RUN_SMALL(fixture.trace, "--out", fixture.out,
						    "--concurrency", "2")
					  : RUN_SMALL(fixture.trace, "--out", fixture.out);
			require(strstr(outcome.err, "trace.jsonl:32") != NULL, "no line: %s",
				outcome.err);
			require_refused(outcome, cases[i].words);
			require(!file_exists(fixture.out), "a folder is left");
		}
	}
	replay_fixture_close(&fixture);
}

/* ---- the folder ---- */

static void keep_copies(const char *folder, char **copies)
{
	for (uint32_t i = 0; i < REPLAY_FILES; i++) {
		copies[i] = read_in(folder, replay_files[i]);
	}
}

/* The files are those that were copied, provenance too; frees the copies. */
static void require_untouched(const char *folder, char **copies)
{
	for (uint32_t i = 0; i < REPLAY_FILES; i++) {
		char *now = read_in(folder, replay_files[i]);
		require((now == NULL) == (copies[i] == NULL) &&
				(now == NULL || strcmp(now, copies[i]) == 0),
			"%s was touched", replay_files[i]);
		free(now);
		free(copies[i]);
	}
	require_no_parts(folder);
}

Test(replay_cli, a_result_is_replaced_neither_without_force_nor_by_a_failure)
{
	struct replay_fixture fixture;
	char bad[PATH_BYTES];
	char *copies[REPLAY_FILES];

	replay_fixture_open(&fixture);
	path_in(bad, fixture.folder, "bad.jsonl");
	replay_write_trace(bad, 60, "nonsense");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	keep_copies(fixture.out, copies);
	require_refused(RUN_SMALL(fixture.trace, "--out", fixture.out), "--force");
	require_untouched(fixture.out, copies);
	keep_copies(fixture.out, copies);
	require_refused(RUN_SMALL(bad, "--out", fixture.out, "--force"), "bad.jsonl:32");
	require_untouched(fixture.out, copies);
	replay_fixture_close(&fixture);
}

Test(replay_cli, an_impossible_folder_is_reported_in_one_line)
{
	struct replay_fixture fixture;
	char path[PATH_BYTES];

	replay_fixture_open(&fixture);
	require_refused(RUN(fixture.trace, "--out", fixture.trace), "--out");
	path_in(path, fixture.trace, "below");
	require_refused(RUN(fixture.trace, "--out", path), "--out");
	if (geteuid() != 0) {
		path_in(path, fixture.folder, "closed");
		require(mkdir(path, 0555) == 0, "no folder");
		require_refused(RUN(fixture.trace, "--out", path), "closed");
		path_in(path, fixture.folder, "closed/below");
		require_refused(RUN(fixture.trace, "--out", path), "closed");
	}
	char *trace = file_read(fixture.trace, NULL);
	require(trace != NULL && trace[0] == '{', "the trace was harmed");
	free(trace);
	replay_fixture_close(&fixture);
}

/* Whichever file does not fit on the disk: a line, nothing begun is left, an older result stays.
   The limit is that of one file, so each is in turn the first that is too large. */
Test(replay_cli, a_full_disk_leaves_what_was_there)
{
	struct replay_fixture fixture;
	char whole[PATH_BYTES];
	char *copies[REPLAY_FILES];
	uint32_t failures = 0;

	replay_fixture_open(&fixture);
	path_in(whole, fixture.folder, "whole");
	require_good(RUN_SMALL(fixture.trace, "--out", whole, "--steps"));
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	for (uint32_t i = 0; i < REPLAY_FILES; i++) {
		char *text = read_in(whole, replay_files[i]);
		const struct process_order tight = {.file_bytes_max = strlen(text) - 1};
		keep_copies(fixture.out, copies);
		struct process_result outcome = quire_replay(
			tight, true, LIST(fixture.trace, "--out", fixture.out, "--force"));
		if (outcome.code == 0) { /* without --steps no file is larger */
			process_result_free(&outcome);
			free(text);
			continue;
		}
		failures++;
		require_refused(outcome, "cannot be written: File too large");
		require_untouched(fixture.out, copies);
		free(text);
	}
	require(failures >= 4, "only %u runs failed", failures);
	replay_fixture_close(&fixture);
}

Test(replay_cli, a_write_that_fails_in_mid_run_leaves_nothing)
{
	static const uint64_t limits[] = {1, 100, 2000, 5000};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct process_order tight = {.file_bytes_max = limits[i]};
		struct process_result outcome = quire_replay(
			tight, true, LIST(fixture.trace, "--out", fixture.out, "--steps"));
		/* The line itself may not fit on the disk; the exit code and the folder are
		   checked. */
		require(outcome.code == 2, "code %d", outcome.code);
		process_result_free(&outcome);
		require(!file_exists(fixture.out), "a folder is left");
	}
	replay_fixture_close(&fixture);
}

/* ---- interrupts ---- */

static void wait_a_moment(void)
{
	const struct timespec moment = {.tv_nsec = 2000000};

	nanosleep(&moment, NULL);
}

/* Requests that are served one after the other, for much longer than the test waits. */
static void write_endless_trace(const char *path)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "cannot write %s", path);
	for (uint32_t i = 0; i < 100000; i++) {
		fprintf(file, "{\"timestamp\": %u, \"input_length\": 16, \"output_length\": 180}\n",
			i);
	}
	fclose(file);
}

static void require_interrupted(int signal_number)
{
	struct replay_fixture fixture;
	char part[PATH_BYTES + 64];
	uint64_t rows, unfinished;

	replay_fixture_open(&fixture);
	write_endless_trace(fixture.trace);
	struct replay_arguments arguments =
		replay_arguments(LIST(fixture.trace, "--out", fixture.out), true);
	struct process process;
	process_start(&process,
		&(struct process_order){.program = QUIRE_EXECUTABLE, .arguments = arguments.list});
	snprintf(part, sizeof(part), "%s/" RESULT_REQUESTS ".%ld.part", fixture.out,
		(long)process.id);
	while (file_byte_count(part) == 0 && waitpid(process.id, NULL, WNOHANG) == 0) {
		wait_a_moment();
	}
	require(kill(process.id, signal_number) == 0, "it has ended already");
	struct process_result outcome = process_finish(&process);
	require(strstr(outcome.out, "interrupted") != NULL, "it says %s", outcome.out);
	require(strstr(outcome.out, " s from first arrival to the end of the run,") != NULL,
		"it says %s", outcome.out);
	require(strstr(outcome.out, "stable:") == NULL, "a cut run is called stable");
	require_line(outcome, 1, "interrupted");
	require_no_parts(fixture.out);
	cJSON *summary = read_summary(fixture.out);
	char *requests = read_in(fixture.out, RESULT_REQUESTS);
	cr_assert_str_eq(text_in(summary, NULL, "status"), "interrupted");
	require(requests[strlen(requests) - 1] == '\n', "the last row is cut");
	sum_column(requests, 0, REQUEST_STATUS, "unfinished", &unfinished);
	require(unfinished > 0, "no request was unfinished");
	require_equal(number_in(summary, "requests", "unfinished"), unfinished);
	uint64_t output = sum_column(requests, REQUEST_OUTPUT, 0, NULL, &rows);
	require_equal(number_in(summary, "requests", "submitted"), rows);
	require_equal(number_in(summary, "tokens", "output"), output);
	require(rows < 100000, "it went on to the end");
	cJSON_Delete(summary);
	free(requests);
	replay_fixture_close(&fixture);
}

Test(replay_cli, an_interrupt_ends_the_files_cleanly, .timeout = 120)
{
	require_interrupted(SIGINT);
}

Test(replay_cli, so_does_a_termination, .timeout = 120)
{
	require_interrupted(SIGTERM);
}

/* ---- the wall clock ---- */

/* Arrivals are waited for, lateness is reported, and a tape repeats the decisions. */
Test(replay_cli, a_wall_clock_waits_for_arrivals)
{
	struct replay_fixture fixture;
	char again[PATH_BYTES];
	struct timespec begin, end;

	replay_fixture_open(&fixture);
	path_in(again, fixture.folder, "again");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--runner", "reference",
		"--model", "tests/fixtures/models/group1", "--clock", "wall", "--steps"));
	clock_gettime(CLOCK_MONOTONIC, &end);
	double seconds =
		(double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	/* The last row is rejected; the preceding one arrives after 87 ms. */
	require(seconds >= 0.087, "it took %.3f s", seconds);
	char *text = read_in(fixture.out, RESULT_SUMMARY);
	cJSON *summary = cJSON_Parse(text);
	cJSON *late = cJSON_GetObjectItem(summary, "dispatch_late_ms");
	require(cJSON_IsNumber(cJSON_GetObjectItem(late, "p99")), "no lateness in %s", text);
	require(cJSON_GetNumberValue(cJSON_GetObjectItem(late, "max")) > 0, "never late");
	require_good(RUN_SMALL(fixture.trace, "--out", again, "--runner", "tape", "--tape",
		fixture.out, "--steps", "--model", "tests/fixtures/models/group1"));
	require_same_file(fixture.out, again, RESULT_STEPS);
	require_same_file(fixture.out, again, RESULT_REQUESTS);
	cJSON_Delete(summary);
	free(text);
	replay_fixture_close(&fixture);
}

/* ---- memory ---- */

static long rss_of(struct replay_fixture *fixture, const char *requests)
{
	struct process_result outcome = RUN_SMALL(fixture->trace, "--out", fixture->out, "--force",
		"--concurrency", "8", "--max-requests", requests);
	long rss_kib = outcome.rss_kib;

	require_good(outcome);
	return rss_kib;
}

/* A longer trace takes no more memory: ten times the requests within a fifth and a megabyte. */
Test(replay_cli, memory_does_not_depend_on_the_length_of_the_trace, .timeout = 300)
{
#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("a sanitizer keeps what is freed");
#endif
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	FILE *file = fopen(fixture.trace, "wb");
	require(file != NULL, "cannot write %s", fixture.trace);
	for (uint32_t i = 0; i < 100000; i++) {
		fprintf(file,
			"{\"timestamp\": 0, \"input_length\": %u, \"output_length\": %u, "
			"\"hash_ids\": [%u]}\n",
			1 + i % 16, 1 + i % 3, i % 1000);
	}
	fclose(file);
	long few = rss_of(&fixture, "10000");
	long many = rss_of(&fixture, "100000");
	require(many < few + few / 5 + 1024, "%ld KiB for 10,000 requests, %ld KiB for 100,000",
		few, many);
	replay_fixture_close(&fixture);
}

/* --kv-blocks may ask what a larger memory would do, and is told of. */
Test(replay_cli, blocks_beyond_the_memory_are_told, .timeout = 60)
{
	static const struct {
		const char *blocks, *words;
	} cases[] = {
		{"4498", ""},
		{"4499", "warning: 4499 KV blocks are more than the memory of h200-qwen3-0.6b has "
			 "room for, which is 4498\n"},
	};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 2; i++) {
		struct process_result result =
			RUN(fixture.trace, "--trace-block-size", "16", "--gpu", "h200",
				"--kv-blocks", cases[i].blocks, "--out", fixture.out, "--force");
		require_equal(result.code, 0);
		require(strstr(result.err, cases[i].words) != NULL &&
				(i == 1 || strstr(result.err, "warning") == NULL),
			"%s", result.err);
		free(result.out);
		free(result.err);
		cJSON *root = read_summary(fixture.out);
		require_equal(cJSON_HasObjectItem(root, "beyond_memory"), i == 1);
		cJSON_Delete(root);
	}
	replay_fixture_close(&fixture);
}

/* One row that says which tokens it shares is enough for hits to be known. */
Test(replay_cli, hits_are_known_where_a_row_names_its_blocks, .timeout = 60)
{
	static const char named[] = "{\"timestamp\": 0, \"input_length\": 32, "
				    "\"output_length\": 3, \"hash_ids\": [1, 2]}\n";
	static const char unnamed[] = "{\"timestamp\": 0, \"input_length\": 32, "
				      "\"output_length\": 3}\n";
	/* The second turn repeats the first one's words. */
	static const char turn[] = "{\"timestamp\": 0, \"input_length\": 32, "
				   "\"output_length\": 3, \"session_id\": \"a\"}\n";
	static const char next[] = "{\"timestamp\": 9000, \"input_length\": 64, "
				   "\"output_length\": 3, \"session_id\": \"a\"}\n";
	const char *const rows[][2] = {
		{named, unnamed}, {unnamed, named}, {turn, next}, {unnamed, unnamed}};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 4; i++) {
		char text[sizeof(turn) + sizeof(next)], path[PATH_BYTES];
		snprintf(text, sizeof(text), "%s%s", rows[i][0], rows[i][1]);
		temporary_write(fixture.folder, "two.jsonl", text, path);
		struct process_result result =
			RUN(path, "--trace-block-size", "16", "--out", fixture.out, "--force");
		require_equal(result.code, 0);
		require((strstr(result.out, "hits are not known") == NULL) == (i < 3), "%s",
			result.out);
		process_result_free(&result);
	}
	replay_fixture_close(&fixture);
}

/* What only a runner that computes tokens takes is refused by its name and that of the runner. */
Test(replay_cli, options_of_computing_runners_are_refused_elsewhere, .timeout = 60)
{
	static const struct {
		const char *option, *value, *words;
	} cases[] = {
		{"--weights", "dummy:1",
			"--weights belongs to a runner that computes tokens; --runner sim does "
			"not"},
		{"--dtype", "float32",
			"--dtype belongs to a runner that computes tokens; --runner sim does not"},
		{"--tokens", "sampled",
			"--tokens sampled needs a runner that computes tokens, as reference does; "
			"--runner sim does not"},
		{"--clock", "wall", "those of --runner sim are numbers"},
	};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		require_refused(
			RUN(fixture.trace, "--out", fixture.out, cases[i].option, cases[i].value),
			cases[i].words);
	}
	replay_fixture_close(&fixture);
}

/* Runs `quire ARGUMENTS` and demands a text in what it says, once, or none where it is NULL. */
static void require_told(const char *folder, const char *arguments, const char *words)
{
	char *told = quire_output(folder, 0, arguments);
	const char *first = strstr(told, words == NULL ? "changes nothing with" : words);

	require((first != NULL) == (words != NULL), "%s:\n%s", arguments, told);
	if (words != NULL) {
		require(strstr(first + 1, words) == NULL, "twice, by %s:\n%s", arguments, told);
	}
	free(told);
}

/* Options of the CUDA runner may stand in a list for both, so a simulation takes and names them. */
Test(replay_cli, options_that_change_nothing_are_told_of_once, .timeout = 60)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	require_told(fixture.folder, "replay @/trace.jsonl --trace-block-size 16 --enforce-eager",
		"note: --enforce-eager changes nothing with --runner sim: the profile alone "
		"prices steps\n");
	require_told(fixture.folder,
		"replay @/trace.jsonl --trace-block-size 16 --temperature 0 --kernels general "
		"--shared-prefix-attention off",
		"note: --kernels, --shared-prefix-attention, --temperature change nothing with "
		"--runner sim: the profile alone prices steps\n");
	require_told(fixture.folder,
		"replay @/trace.jsonl --trace-block-size 16 --engine-process same",
		"note: --engine-process changes nothing with --gpu h200-qwen3-0.6b: its prices "
		"have no process of an engine\n");
	require_told(fixture.folder,
		"replay @/trace.jsonl --trace-block-size 16 --policy vllm --engine-process same "
		"--kernels auto "
		"--temperature 1 --shared-prefix-attention auto --steps --out @/run",
		NULL);
	require_told(fixture.folder,
		"replay @/trace.jsonl --trace-block-size 16 --runner tape --tape @/run "
		"--enforce-eager "
		"--engine-process same",
		"note: --enforce-eager, --engine-process change nothing with --runner tape: "
		"steps take as long as those recorded\n");
	require_told(fixture.folder,
		"sweep @/trace.jsonl --trace-block-size 16 --grid seed=1,2 --enforce-eager --out "
		"@/sweep",
		"note: --enforce-eager changes nothing with --runner sim: ");
	replay_fixture_close(&fixture);
}
