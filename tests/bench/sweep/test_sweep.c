#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/text.h"
#include "reports/results/sweep_file.h"
#include "tests/harness/files.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"

/* `quire sweep` as its users run it. */

TestSuite(sweep, .timeout = 120);

#define ENGINE "--block-size 16 --trace-block-size 16 --max-model-len 200 --max-num-seqs 4"
#define POOL "--trace-block-size 16 --max-model-len 200 --max-num-seqs 4 --kv-blocks 20"
#define GRID "--grid 'kv-blocks=16,20,40;policy=mixed,vllm;seed=1,2'"
#define SWEEP "sweep trace.jsonl " ENGINE " --slo-ttft-ms 50 " GRID
#define ONE_RUN "sweep trace.jsonl " ENGINE " --grid seed=1 --out one"

enum { RUNS = 12 };

static void run_shell(const struct replay_fixture *fixture, int code, const char *line)
{
	struct process_result result = shell_run(fixture->folder, "%s", line);

	require(result.code == code, "%s: %d: %s%s", line, result.code, result.out, result.err);
	process_result_free(&result);
}

/* Runs the program, demands the exit code and words in what it prints. */
static void quire(
	const struct replay_fixture *fixture, int code, const char *arguments, const char *words)
{
	struct process_result result = quire_run_in(fixture->folder, arguments);
	bool is_there = strstr(result.out, words) != NULL || strstr(result.err, words) != NULL;

	require(result.code == code, "%s: %d: %s%s", arguments, result.code, result.out,
		result.err);
	require(is_there, "%s: no '%s' in: %s%s", arguments, words, result.out, result.err);
	process_result_free(&result);
}

static void close_fixture(struct replay_fixture *fixture)
{
	run_shell(fixture, 0, "rm -rf one two three alone");
	replay_fixture_close(fixture);
}

static void require_equal_files(const struct replay_fixture *fixture, const char *a, const char *b)
{
	char first[PATH_BYTES], second[PATH_BYTES];

	path_in(first, fixture->folder, a);
	path_in(second, fixture->folder, b);
	require_same_file(first, second, SWEEP_RUNS);
	require_same_file(first, second, SWEEP_SUMMARY);
}

static void open_sweep(const struct replay_fixture *fixture, const char *name, char *path,
	struct sweep_file *sweep)
{
	struct error error = {0};

	path_in(path, fixture->folder, name);
	require(sweep_file_open(sweep, path, &error) == STATUS_OK, "%s", error.text);
}

/* ---- the files ---- */

/* The vllm policy wants blocks for max-model-len, 13 and one more: 16 have room. */
Test(sweep, every_run_is_what_replay_alone_writes)
{
	struct replay_fixture fixture;
	struct sweep_file sweep;
	char path[PATH_BYTES], alone[PATH_BYTES], folder[PATH_BYTES];
	uint32_t index = 0;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, SWEEP " --out one --jobs 3", "12 of 12 runs are complete");
	open_sweep(&fixture, "one", path, &sweep);
	require_equal(sweep.run_count, RUNS);
	require(sweep.is_complete, "not complete");
	path_in(alone, fixture.folder, "alone");
	for (uint32_t b = 0; b < 3; b++) {
		for (uint32_t p = 0; p < 2; p++) {
			for (uint32_t s = 1; s <= 2; s++, index++) {
				static const char *const blocks[] = {"16", "20", "40"};
				const struct sweep_run *run = &sweep.runs[index];
				char line[512];
				snprintf(line, sizeof(line),
					"replay trace.jsonl %s --slo-ttft-ms 50 --kv-blocks %s "
					"--policy %s --seed %u --out alone --force",
					ENGINE, blocks[b], p == 0 ? "mixed" : "vllm", s);
				quire(&fixture, 0, line, "result_hash");
				path_in(folder, path, run->name);
				require_same_result(folder, alone);
				require_equal(run->status, SWEEP_RUN_COMPLETE);
				require_equal(run->values[0], b);
				require_equal(run->values[1], p);
				require_equal(run->values[2], s - 1);
				require(run->kv_blocks.value == atof(blocks[b]), "blocks");
				require(run->kv_tokens.value == 16 * atof(blocks[b]), "tokens");
				require(run->gpus.value == 1, "gpus");
			}
		}
	}
	sweep_file_close(&sweep);
	close_fixture(&fixture);
}

#define VERDICT_NAME(name, text) text,
static const char *const verdicts[] = {VERDICT_LIST(VERDICT_NAME)};
#undef VERDICT_NAME

/* Each metric of the table is the number in the run's summary.json. */
Test(sweep, the_table_has_the_figures_of_the_summaries)
{
	struct replay_fixture fixture;
	struct sweep_file sweep;
	char path[PATH_BYTES], folder[PATH_BYTES], file[PATH_BYTES];
	struct error error = {0};

	replay_fixture_open(&fixture);
	quire(&fixture, 0, SWEEP " --out one", "12 of 12");
	open_sweep(&fixture, "one", path, &sweep);
	require(sweep.slo_ttft_ms.has_value && sweep.slo_ttft_ms.value == 50, "the SLO");
	require(!sweep.slo_tpot_ms.has_value && !sweep.slo_e2e_ms.has_value, "the SLO");
	for (uint32_t i = 0; i < sweep.run_count; i++) {
		struct json_document document;
		struct json_object root;
		path_in(folder, path, sweep.runs[i].name);
		path_in(file, folder, RESULT_SUMMARY);
		require(json_document_open(&document, file, &error) == STATUS_OK, "%s", error.text);
		json_root(&root, &document, &error);
		for (uint32_t m = 0; m < SWEEP_METRIC_COUNT; m++) {
			struct result_value wanted =
				metric_value(&root, metric_find(sweep_metrics[m]));
			struct result_value found = sweep.runs[i].metrics[m];
			require(found.has_value == wanted.has_value &&
					(!found.has_value || found.value == wanted.value),
				"%s of %s", sweep_metrics[m], sweep.runs[i].name);
		}
		const cJSON *load = cJSON_GetObjectItemCaseSensitive(root.node, SUMMARY_LOAD);
		const char *verdict = cJSON_GetStringValue(
			cJSON_GetObjectItemCaseSensitive(load, SUMMARY_LOAD_VERDICT));
		require(strcmp(verdict, verdicts[sweep.runs[i].verdict]) == 0, "%s of %s", verdict,
			sweep.runs[i].name);
		json_document_close(&document);
	}
	sweep_file_close(&sweep);
	close_fixture(&fixture);
}

static double metric_of(const struct sweep_run *run, const char *name)
{
	uint32_t index = 0;

	while (strcmp(sweep_metrics[index], name) != 0) {
		index++;
	}
	require(run->metrics[index].has_value, "%s has no %s", run->name, name);
	return run->metrics[index].value;
}

/* An overloaded engine is used to more than its whole capacity, and a run may use more than a limit
   of the average replica, or of a step; no other share is above 1. */
Test(sweep, only_shares_of_limits_are_above_the_whole)
{
	struct replay_fixture fixture;
	struct sweep_file sweep = {0};
	char path[PATH_BYTES], line[512];

	replay_fixture_open(&fixture);
	quire(&fixture, 0, ONE_RUN " --slo-ttft-ms 50", "1 of 1");
	run_shell(&fixture, 0, "cp one/" SWEEP_RUNS " kept");
	path_in(path, fixture.folder, "one");
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		const char *name = sweep_metrics[i];
		bool is_share = strcmp(metric_find(name)->unit, "share") == 0;
		bool is_of_a_limit = strcmp(name, "utilisation") == 0 ||
				     strcmp(name, "kv_peak") == 0 ||
				     strcmp(name, "seats_peak") == 0;
		struct error error = {0};
		snprintf(line, sizeof(line),
			"awk -F'\t' -v OFS='\t' 'NR == 1 {for (i = 1; i <= NF; i++) if ($i == "
			"\"%s\") at = i} NR == 2 && at {$at = \"1.5\"} {print} END {exit !at}' "
			"kept >one/" SWEEP_RUNS,
			name);
		run_shell(&fixture, 0, line);
		enum status status = sweep_file_open(&sweep, path, &error);
		if (is_share && !is_of_a_limit) {
			require_equal(status, STATUS_INPUT);
		} else {
			require(status == STATUS_OK, "%s: %s", name, error.text);
			require(sweep.runs[0].metrics[i].value == 1.5, "%s", name);
		}
		sweep_file_close(&sweep);
	}
	run_shell(&fixture, 0, "rm kept");
	close_fixture(&fixture);
}

/* Shares are in percent on the terminal. */
Test(sweep, the_terminal_has_a_line_a_run)
{
	struct replay_fixture fixture;
	struct sweep_file sweep;
	char path[PATH_BYTES], line[256];
	bool has_outside = false;

	replay_fixture_open(&fixture);
	struct process_result result = quire_run_in(fixture.folder, SWEEP " --out one");
	open_sweep(&fixture, "one", path, &sweep);
	require(strstr(result.out,
			"   rejected   tokens/s  ttft p99 ms  tpot p99 ms   in SLO %     hits %   "
			"preempt.\n") != NULL,
		"%s", result.out);
	for (uint32_t i = 0; i < sweep.run_count; i++) {
		const struct sweep_run *run = &sweep.runs[i];
		snprintf(line, sizeof(line),
			"  %-10s  %9.0f  %9.1f  %11.1f  %11.2f  %9.2f  %9.2f  %9.0f",
			verdicts[run->verdict], metric_of(run, "rejected"),
			metric_of(run, "output_tokens_per_s"), metric_of(run, "ttft.p99"),
			metric_of(run, "tpot.p99"), 100 * metric_of(run, "attained"),
			100 * metric_of(run, "hit_rate"), metric_of(run, "preemptions"));
		const char *found = strstr(result.out, line);
		require(found != NULL, "no '%s' in %s", line, result.out);
		const char *rest = found + strlen(line);
		bool is_outside = strncmp(rest, "  outside ", 10) == 0;
		require(is_outside || rest[0] == '\n', "behind %s: %s", line, rest);
		has_outside = has_outside || is_outside;
	}
	require_equal(strstr(result.out, "\noverloaded: more arrived") != NULL,
		sweep_count(&sweep, sweep_is_overloaded) > 0);
	require(has_outside, "no run has steps outside");
	require(strstr(result.out, "\noutside: of the step time, on steps unlike") != NULL, "%s",
		result.out);
	process_result_free(&result);
	sweep_file_close(&sweep);
	close_fixture(&fixture);
}

/* A run that rejects requests has the latencies of an easier load, so the terminal has a column of
   them as soon as any run rejects one, the first or the last. */
Test(sweep, the_terminal_says_what_runs_rejected)
{
	static const struct {
		const char *lengths;
		bool has_column;
	} cases[] = {{"200,4000", true}, {"4000,200", true}, {"4000,4001", false}};
	struct replay_fixture fixture;
	char line[256];

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(line, sizeof(line),
			"sweep trace.jsonl --block-size 16 --trace-block-size 16 --kv-blocks 1000 "
			"--grid max-model-len=%s --out one --force",
			cases[i].lengths);
		struct process_result result = quire_run_in(fixture.folder, line);
		bool has_column = strstr(result.out, "   rejected   tokens/s  ") != NULL;
		require(has_column == cases[i].has_column, "%s: %s", line, result.out);
		require((strstr(result.out, "max-model-len=200   stable              2  ") !=
				NULL) == has_column,
			"%s: %s", line, result.out);
		require((strstr(result.out, "max-model-len=4000  stable              0  ") !=
				NULL) == has_column,
			"%s: %s", line, result.out);
		process_result_free(&result);
	}
	close_fixture(&fixture);
}

/* One seat serves fewer requests than arrive, 64 serve them all. */
Test(sweep, the_terminal_says_which_runs_are_overloaded)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	run_shell(&fixture, 0,
		"for i in $(seq 90); do echo '{\"timestamp\": '$((i * 20))', \"input_length\": "
		"100, "
		"\"output_length\": 20}'; done >steady.jsonl");
	struct process_result result = quire_run_in(fixture.folder,
		"sweep steady.jsonl --gpu h200-datasheet --grid max-num-seqs=1,64 --out one");
	require(result.code == 0 && strstr(result.out, "max-num-seqs=1   overloaded  ") != NULL &&
			strstr(result.out, "max-num-seqs=64  stable      ") != NULL &&
			strstr(result.out, "\noverloaded: more arrived than the engine served") !=
				NULL,
		"%s%s", result.out, result.err);
	process_result_free(&result);
	close_fixture(&fixture);
}

static cJSON *json_in(const struct replay_fixture *fixture, const char *name)
{
	char path[PATH_BYTES];

	path_in(path, fixture->folder, name);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "%s is no JSON", path);
	free(text);
	return root;
}

/* A GPU whose memory holds few blocks: a pool of millions takes minutes under sanitizers. */
#define SMALL_GPU ENGINE " --gpu-memory-utilization 0.03"

/* Two seeds of a pool that no GPU has room for: one warning, two rows that are marked. */
Test(sweep, pools_beyond_the_memory_are_warned_of_and_marked)
{
	static const char arguments[] =
		"sweep trace.jsonl " SMALL_GPU " --grid 'kv-blocks=40,9000;seed=1,2' --out one";
	static const char warning[] =
		"warning: 9000 KV blocks are more than the memory of h200-qwen3-0.6b "
		"has room for, which is ";
	struct replay_fixture fixture;
	struct sweep_file sweep;
	char path[PATH_BYTES], file[PATH_BYTES];

	replay_fixture_open(&fixture);
	for (uint32_t again = 0; again < 2; again++) {
		struct process_result result = quire_run_in(fixture.folder, arguments);
		const char *found = strstr(result.err, warning);
		require(result.code == 0 && found != NULL, "%s", result.err);
		require(strstr(found + 1, "warning") == NULL, "said twice: %s", result.err);
		process_result_free(&result);
	}
	open_sweep(&fixture, "one", path, &sweep);
	for (uint32_t i = 0; i < 4; i++) {
		const struct sweep_run *run = &sweep.runs[i];
		require(run->is_beyond_memory == (i >= 2), "run %u", i);
		require(i < 2 || (run->found_kv_blocks > 40 && run->found_kv_blocks < 9000),
			"memory for %g", run->found_kv_blocks);
	}
	sweep_file_close(&sweep);
	quire(&fixture, 0, "report one --out one.html", "");
	path_in(file, fixture.folder, "one.html");
	char *page = file_read(file, NULL);
	require(strstr(page, "room for: 9,000 on h200-qwen3-0.6b, whose memory holds ") != NULL,
		"not said");
	require(strstr(page, "(2 of 4 runs, marked red in the table)") != NULL, "not counted");
	const char *marked = strstr(page, "<td class=\"worse\">9,000</td>");
	require(marked != NULL, "not marked");
	require(strstr(marked + 1, "<td class=\"worse\">9,000</td>") != NULL, "marked once");
	require(strstr(page, "<td class=\"worse\">40</td>") == NULL, "40 blocks are marked");
	free(page);
	run_shell(&fixture, 0, "rm one.html");
	quire(&fixture, 0,
		"sweep trace.jsonl " SMALL_GPU " --grid 'kv-blocks=9001:9012:+1' --out two",
		"warning: likewise 4 more values of KV blocks");
	close_fixture(&fixture);
}

/* The same blocks on the same GPU, of which another model leaves another room. */
Test(sweep, each_room_of_a_gpu_is_warned_of)
{
	struct replay_fixture fixture;
	uint32_t warnings = 0;

	replay_fixture_open(&fixture);
	struct process_result result = quire_run_in(fixture.folder,
		"sweep trace.jsonl " ENGINE " --gpu h200-datasheet --gpu-memory-utilization 0.1 "
		"--grid 'model=qwen3-0.6b,qwen3-1.7b;seed=1,2' --kv-blocks 9000 --out rooms");
	require(result.code == 0, "%s", result.err);
	for (const char *at = result.err; (at = strstr(at, "warning: 9000 KV")) != NULL; at++) {
		warnings++;
	}
	require(warnings == 2, "%u warnings: %s", warnings, result.err);
	process_result_free(&result);
	close_fixture(&fixture);
}

/* Equal numbers of blocks that hold unlike numbers of tokens, of replicas that are as many. */
Test(sweep, pools_that_only_look_alike_are_told)
{
	static const char pools[] = "20 KV blocks hold 5,120 tokens in policy=mixed,replicas=1 and "
				    "320 in policy=vllm,replicas=1: --block-size gives";
	static const char *const alike[] = {"--block-size 16 --grid 'policy=mixed,vllm'",
		"--grid 'policy=mixed,vllm;block-size=32,64'", "--grid 'policy=vllm;replicas=1,2'",
		"--gpu h200-datasheet --grid 'policy=vllm;tensor-parallel-size=1,2'"};
	struct replay_fixture fixture;
	char file[PATH_BYTES], line[256];

	replay_fixture_open(&fixture);
	quire(&fixture, 0,
		"sweep trace.jsonl " POOL " --grid 'policy=mixed,vllm;replicas=1,2' --out one",
		pools);
	quire(&fixture, 0, "report one --out one.html", "");
	path_in(file, fixture.folder, "one.html");
	char *page = file_read(file, NULL);
	require(strstr(page, pools) != NULL, "not said on the page");
	require(strstr(page, "<td>20</td><td>5,120</td><td>1</td>") != NULL, "tokens of mixed");
	require(strstr(page, "<td>20</td><td>640</td><td>2</td>") != NULL, "tokens of vllm");
	require(strstr(page, ">KV tokens</th>") != NULL, "no column");
	free(page);
	for (uint32_t i = 0; i < sizeof(alike) / sizeof(alike[0]); i++) {
		snprintf(line, sizeof(line), "sweep trace.jsonl " POOL " %s --out two --force",
			alike[i]);
		struct process_result result = quire_run_in(fixture.folder, line);
		require(result.code == 0 && strstr(result.err, "tokens in") == NULL, "%s: %s",
			alike[i], result.err);
		process_result_free(&result);
	}
	quire(&fixture, 0, "report two --out one.html", "");
	page = file_read(file, NULL);
	require(strstr(page, "KV tokens") == NULL, "a column of tokens that nothing asks for");
	free(page);
	run_shell(&fixture, 0, "rm one.html");
	close_fixture(&fixture);
}

/* The seed draws token ids; arrivals where they are drawn. */
Test(sweep, a_seed_that_changes_nothing_is_told)
{
	static const struct {
		const char *grid;
		bool is_told;
	} cases[] = {{"seed=1,2", true}, {"kv-blocks=20,40;seed=1,2", true}, {"seed=1", false},
		{"seed=1,2;rate=9", false}, {"resample-seed=1,2", false},
		{"kv-blocks=20,40", false}};
	struct replay_fixture fixture;
	char line[256];

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line),
			"sweep trace.jsonl " ENGINE " --grid '%s' --out one --force",
			cases[i].grid);
		struct process_result result = quire_run_in(fixture.folder, line);
		bool is_told = strstr(result.err, "note: runs that differ in seed alone") != NULL;
		require(result.code == 0 && is_told == cases[i].is_told, "%s: %s", cases[i].grid,
			result.err);
		process_result_free(&result);
	}
	close_fixture(&fixture);
}

Test(sweep, a_length_beyond_the_model_is_told_once)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	struct process_result result =
		quire_run_in(fixture.folder, "sweep trace.jsonl --trace-block-size 16 --grid "
					     "'max-model-len=40960,40961,50000' --out one");
	const char *note = strstr(result.err, "note: --max-model-len 40961 is beyond the 40960 "
					      "positions qwen3-0.6b was made for\n");
	require(result.code == 0 && note != NULL, "%s", result.err);
	require(strstr(strchr(note, '\n'), "beyond") == NULL, "told twice: %s", result.err);
	process_result_free(&result);
	close_fixture(&fixture);
}

/* The base of a grid over replicas is the run without a router; what limits a router still needs
   several. */
Test(sweep, one_replica_of_a_grid_needs_no_router)
{
	struct replay_fixture fixture;
	char folder[PATH_BYTES], alone[PATH_BYTES];

	replay_fixture_open(&fixture);
	quire(&fixture, 0,
		"sweep trace.jsonl " ENGINE " --router round-robin --router-view delayed:50 "
		"--grid replicas=1,2 --out one",
		"2 of 2 runs are complete");
	quire(&fixture, 0, "replay trace.jsonl " ENGINE " --replicas 1 --out alone", "");
	path_in(folder, fixture.folder, "one/replicas=1");
	path_in(alone, fixture.folder, "alone");
	require_same_result(folder, alone);
	quire(&fixture, 1,
		"sweep trace.jsonl " ENGINE " --router-queue 5 --grid replicas=1,2 --out two",
		"failed: --router-queue belongs to --replicas above 1");
	quire(&fixture, 2, "sweep trace.jsonl " ENGINE " --router prefix --grid seed=1 --out three",
		"--router belongs to --replicas above 1");
	close_fixture(&fixture);
}

/* What lists a run that the table lacks is refused. */
Test(sweep, an_entry_beyond_the_memory_must_be_a_run)
{
	struct replay_fixture fixture;
	struct sweep_file sweep;
	struct error error = {0};
	char path[PATH_BYTES];

	replay_fixture_open(&fixture);
	quire(&fixture, 0, "sweep trace.jsonl " SMALL_GPU " --grid kv-blocks=40,9000 --out one",
		"2 of 2");
	run_shell(&fixture, 0,
		"sed -i 's/\"run\":.*9000\"/\"run\": \"kv-blocks=9\"/' one/sweep.json");
	path_in(path, fixture.folder, "one");
	require(sweep_file_open(&sweep, path, &error) == STATUS_INPUT, "read");
	require(strstr(error.text, "beyond_memory[0].run: found \"kv-blocks=9\", expected a run of "
				   "sweep.tsv, in the order of its rows") != NULL,
		"%s", error.text);
	sweep_file_close(&sweep);
	close_fixture(&fixture);
}

/* sweep.json has a field of the configuration exactly where it is equal in all runs. */
Test(sweep, the_summary_has_what_all_runs_share)
{
	struct replay_fixture fixture;
	struct sweep_file sweep;
	char path[PATH_BYTES], name[PATH_BYTES];
	cJSON *runs[RUNS];
	uint32_t differing = 0;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, SWEEP " --out one", "12 of 12");
	open_sweep(&fixture, "one", path, &sweep);
	cJSON *summary = json_in(&fixture, "one/" SWEEP_SUMMARY);
	const cJSON *shared = cJSON_GetObjectItem(summary, "config"), *field;
	for (uint32_t i = 0; i < RUNS; i++) {
		snprintf(name, sizeof(name), "one/%s/summary.json", sweep.runs[i].name);
		runs[i] = json_in(&fixture, name);
	}
	cJSON_ArrayForEach(field, cJSON_GetObjectItem(runs[0], "config"))
	{
		const cJSON *found = cJSON_GetObjectItem(shared, field->string);
		bool is_shared = true;
		for (uint32_t i = 1; i < RUNS; i++) {
			const cJSON *config = cJSON_GetObjectItem(runs[i], "config");
			const cJSON *own = cJSON_GetObjectItem(config, field->string);
			is_shared = is_shared && cJSON_Compare(own, field, true);
		}
		require(is_shared == (found != NULL) &&
				(!is_shared || cJSON_Compare(found, field, true)),
			"%s", field->string);
		differing += !is_shared;
	}
	require(differing >= 3, "%u fields differ", differing); /* those of the grid */
	for (uint32_t i = 0; i < RUNS; i++) {
		cJSON_Delete(runs[i]);
	}
	cJSON_Delete(summary);
	sweep_file_close(&sweep);
	close_fixture(&fixture);
}

Test(sweep, its_command_is_kept_word_by_word)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, SWEEP " --out one", "12 of 12");
	cJSON *provenance = json_in(&fixture, "one/provenance.json");
	const char *command =
		cJSON_GetStringValue(cJSON_GetObjectItem(provenance, PROVENANCE_COMMAND));
	require(command != NULL, "no command");
	const char *words = strstr(command, " sweep ");
	require(words != NULL && strcmp(words + 1, SWEEP " --out one") == 0, "%s", command);
	cJSON_Delete(provenance);
	close_fixture(&fixture);
}

/* A sweep is calibrated where every run is, in whatever order they come. */
Test(sweep, one_estimate_makes_a_sweep_uncalibrated)
{
	static const struct {
		const char *gpus;
		bool is_calibrated;
	} rows[] = {{"h200-qwen3-0.6b", true}, {"h200-datasheet,h200-qwen3-0.6b", false},
		{"h200-qwen3-0.6b,h200-datasheet", false}, {"h200-datasheet", false}};
	struct replay_fixture fixture;
	char line[256];

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 4; i++) {
		snprintf(line, sizeof(line),
			"sweep trace.jsonl " ENGINE " --kv-blocks 40 --grid gpu=%s --out one",
			rows[i].gpus);
		run_shell(&fixture, 0, "rm -rf one");
		quire(&fixture, 0, line, " complete (");
		cJSON *summary = json_in(&fixture, "one/" SWEEP_SUMMARY);
		require_equal(cJSON_IsTrue(cJSON_GetObjectItem(summary, "calibrated")),
			rows[i].is_calibrated);
		cJSON_Delete(summary);
	}
	close_fixture(&fixture);
}

/* Where the pool's size varies, and only there. */
Test(sweep, the_caches_curve_is_that_of_trace_cache)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, SWEEP " --out one", "12 of 12");
	quire(&fixture, 0,
		"trace cache trace.jsonl --trace-block-size 16 --model qwen3-0.6b --out curve.tsv",
		"infinite");
	run_shell(&fixture, 0, "cmp one/" SWEEP_CACHE " curve.tsv && rm curve.tsv");
	quire(&fixture, 0, "sweep trace.jsonl " ENGINE " --grid seed=1,2 --out two", "2 of 2");
	run_shell(&fixture, 1, "test -e two/" SWEEP_CACHE);
	close_fixture(&fixture);
}

/* Prompts of token ids that share beginnings. */
static void write_token_ids(const struct replay_fixture *fixture)
{
	struct text text = {0};

	for (uint32_t i = 0; i < 20; i++) {
		text_format(&text, "{\"arrival_time_ns\": %u, \"output_toks\": 3, ", i * 1000000);
		text_add(&text, "\"input_tok_ids\": [7");
		for (uint32_t k = 1; k < 20 + i % 3 * 16; k++) {
			text_format(&text, ", %u", k + 100 * (k / 32) * i);
		}
		text_add(&text, "]}\n");
	}
	temporary_write(fixture->folder, "tokens.jsonl", text.bytes, NULL);
	text_deinit(&text);
}

#define SIZES(values)                                                                              \
	"sweep trace.jsonl " ENGINE " --policy vllm --grid kv-blocks=" values " --out two"

/* Also in a folder that has been a sweep of another kind before. */
Test(sweep, a_curve_is_there_where_sizes_vary_and_prompts_share)
{
	static const char *const grids[] = {"kv-blocks=16,20", "gpu-memory-utilization=0.5,0.9",
		"gpu=h200,h100", "block-size=16,32", "replicas=1,2", "kv-blocks=20;seed=1,2",
		"max-num-seqs=2,4", "seed=1;replicas=2,3"};
	static const char *const traces[] = {"trace", "tokens", "lengths"};
	enum { GRIDS = sizeof(grids) / sizeof(grids[0]), TRACES = 3 };
	struct replay_fixture fixture;
	char line[512];

	replay_fixture_open(&fixture);
	write_token_ids(&fixture);
	run_shell(&fixture, 0, "sed 's/, \"hash_ids\".*/}/' trace.jsonl >lengths.jsonl");
	run_shell(&fixture, 0,
		"for t in trace tokens; do " QUIRE_EXECUTABLE
		" trace cache $t.jsonl --trace-block-size 16 --model qwen3-0.6b "
		"--out $t.tsv >out.txt || exit 3; done");
	/* By steps of 7, which 24 has no factor of, each follows one of another kind. */
	for (uint32_t i = 0; i < GRIDS * TRACES; i++) {
		uint32_t grid = i * 7 % (GRIDS * TRACES) / TRACES, trace = i * 7 % TRACES;
		bool has_curve = trace < 2 && (grid < 5 || grid == 7);
		snprintf(line, sizeof(line),
			"sweep %s.jsonl --trace-block-size 16 --max-model-len 200 --grid '%s' "
			"--out one --force",
			traces[trace], grids[grid]);
		quire(&fixture, 0, line, "2 of 2");
		snprintf(line, sizeof(line),
			has_curve ? "cmp one/" SWEEP_CACHE " %s.tsv" : "! test -e one/" SWEEP_CACHE,
			traces[trace]);
		run_shell(&fixture, 0, line);
	}
	run_shell(&fixture, 0, "rm *.tsv out.txt tokens.jsonl lengths.jsonl");
	/* Without --force too: a failed run is no longer in the grid, and one size is left. */
	quire(&fixture, 1, SIZES("13,14"), "1 of 2 runs failed");
	run_shell(&fixture, 0, "test -e two/" SWEEP_CACHE);
	quire(&fixture, 0, SIZES("14"), "1 of 1 run is complete (1 was before)");
	run_shell(&fixture, 0, "! test -e two/" SWEEP_CACHE);
	close_fixture(&fixture);
}

/* An older sweep, whose files are those of one until those of the new one are all on the disk:
   where none can be written, or one cannot be replaced. */
Test(sweep, force_leaves_the_older_sweep_whole_where_it_cannot_begin)
{
	static const char *const obstacles[] = {
		"ulimit -f 1", "mkdir one/sweep.json.old", "mkdir one/provenance.json.old"};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, "sweep trace.jsonl " ENGINE " --grid kv-blocks=20,40 --out one", "2 of");
	run_shell(&fixture, 0, "test -e one/" SWEEP_CACHE " && cp -r one two");
	for (uint32_t i = 0; i < 3; i++) {
		struct process_result result = shell_run(fixture.folder,
			"%s; " QUIRE_EXECUTABLE " " ONE_RUN " --force", obstacles[i]);
		require(result.code == 2 && strstr(result.err, "cannot be") != NULL &&
				strchr(result.err, '\n')[1] == '\0',
			"%d: %s", result.code, result.err);
		process_result_free(&result);
		run_shell(&fixture, 0, "rm -rf one/*.old && diff -r one two");
	}
	quire(&fixture, 0, ONE_RUN " --force", "1 of 1 run is complete (0 were before)");
	run_shell(&fixture, 0, "! test -e one/" SWEEP_CACHE " && ! ls one/*.old");
	close_fixture(&fixture);
}

/* A folder with files and without sweep.json is no sweep's, whatever the files are. */
Test(sweep, a_folder_of_others_is_refused_in_a_line)
{
	static const char *const makes[] = {"mkdir one && echo mine >one/notes.txt",
		"mkdir -p one/photos", "mkdir one && ln -s nowhere one/link"};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 3; i++) {
		run_shell(&fixture, 0, "rm -rf one before");
		run_shell(&fixture, 0, makes[i]);
		run_shell(&fixture, 0, "ls -lA one >before");
		quire(&fixture, 2, ONE_RUN,
			"quire sweep: --out one: holds files and no sweep.json, so no sweep made "
			"it; name another folder, or --force writes into it\n");
		run_shell(&fixture, 0, "ls -lA one | cmp - before && rm before");
	}
	quire(&fixture, 0, ONE_RUN " --force", "1 of 1 run is complete (0 were before)");
	run_shell(&fixture, 0, "test -L one/link && echo more >one/notes.txt");
	quire(&fixture, 0, ONE_RUN, "1 of 1 run is complete (1 was before)");
	run_shell(
		&fixture, 0, "rm -rf one && mkdir one && touch one/.hidden one/sweep.json.9.part");
	quire(&fixture, 0, ONE_RUN, "1 of 1 run is complete (0 were before)");
	close_fixture(&fixture);
}

/* Files that no sweep has written stay, as a folder of a plan does. */
Test(sweep, replaces_no_files_of_others)
{
	static const char *const names[] = {SWEEP_RUNS, "provenance.json", SWEEP_CACHE};
	struct replay_fixture fixture;
	char line[256];

	replay_fixture_open(&fixture);
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(line, sizeof(line), "rm -rf one; mkdir one; echo mine >one/%s", names[i]);
		run_shell(&fixture, 0, line);
		quire(&fixture, 2, "sweep trace.jsonl " ENGINE " --grid seed=1 --out one",
			"which this would replace");
		snprintf(line, sizeof(line), "grep -qx mine one/%s", names[i]);
		run_shell(&fixture, 0, line);
	}
	run_shell(&fixture, 0, "rm -rf one; mkdir one; echo '{}' >one/plan.json");
	quire(&fixture, 2, "sweep trace.jsonl " ENGINE " --grid seed=1 --out one --force",
		"a result of its own");
	close_fixture(&fixture);
}

Test(sweep, the_number_of_workers_changes_no_byte)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	run_shell(&fixture, 0,
		"'" QUIRE_EXECUTABLE "' " SWEEP " --out one --jobs 1 >printed 2>&1 && "
		"'" QUIRE_EXECUTABLE "' " SWEEP " --out two --jobs 7 2>&1 | sed s/two/one/ | "
		"cmp - printed && grep -q '12 of 12' printed && rm printed");
	require_equal_files(&fixture, "one", "two");
	run_shell(&fixture, 0,
		"diff -r -x provenance.json one two && test -z \"$(find . -name "
		"'*.part' -o -name .quire-lock)\"");
	close_fixture(&fixture);
}

/* ---- going on ---- */

static uint64_t inode(const struct replay_fixture *fixture, const char *name)
{
	char path[PATH_BYTES];
	struct stat found;

	path_in(path, fixture->folder, name);
	require(stat(path, &found) == 0, "no %s", path);
	return found.st_ino;
}

#define WHOLE "one/kv-blocks=16,policy=mixed,seed=1/summary.json"
#define HALF "one/kv-blocks=20,policy=vllm,seed=2"

Test(sweep, what_is_whole_is_not_run_again)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, SWEEP " --out one", "(0 were before)");
	quire(&fixture, 0, SWEEP " --out two", "(0 were before)");
	uint64_t before = inode(&fixture, WHOLE);
	/* What a killed worker leaves: files under the names they are written by or kept under. */
	run_shell(&fixture, 0, "rm " HALF "/summary.json; echo x > " HALF "/summary.json.1.part");
	run_shell(&fixture, 0, "echo x > " HALF "/requests.tsv.12.old");
	run_shell(&fixture, 0,
		"cd one; sed -i 's/complete/interrupted/' kv-blocks=16,policy=vllm,seed=1/"
		"summary.json; rm kv-blocks=16,policy=vllm,seed=2/summary.json; echo '{' > "
		"kv-blocks=40,policy=mixed,seed=1/summary.json; rm -r "
		"kv-blocks=40,policy=vllm,seed=2 sweep.tsv");
	/* A summary that is no JSON of quire is not replaced without being told to. */
	quire(&fixture, 1, SWEEP " --out one",
		"11 of 12 runs are complete (7 were before), 1 failed");
	run_shell(&fixture, 0, "rm one/kv-blocks=40,policy=mixed,seed=1/summary.json");
	quire(&fixture, 0, SWEEP " --out one", "12 of 12 runs are complete (11 were before)");
	require_equal(inode(&fixture, WHOLE), before);
	require_equal_files(&fixture, "one", "two");
	run_shell(&fixture, 0, "diff -r -x provenance.json one two");
	quire(&fixture, 0, SWEEP " --out one --force", "(0 were before)");
	require(inode(&fixture, WHOLE) != before, "not done again");
	close_fixture(&fixture);
}

/* A result has the name of its trace, not the folder that it was in. */
Test(sweep, a_trace_spelled_otherwise_is_the_same)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, ONE_RUN, "1 of 1 run is complete");
	quire(&fixture, 0, "sweep ./trace.jsonl " ENGINE " --grid seed=1 --out one",
		"1 of 1 run is complete (1 was before)");
	run_shell(&fixture, 0, "mkdir three && cp trace.jsonl three/ && cp trace.jsonl same.jsonl");
	quire(&fixture, 0, "sweep three/trace.jsonl " ENGINE " --grid seed=1 --out one",
		"1 of 1 run is complete (1 was before)");
	run_shell(&fixture, 0, "sed -i 1d three/trace.jsonl");
	quire(&fixture, 2, "sweep three/trace.jsonl " ENGINE " --grid seed=1 --out one", "");
	quire(&fixture, 2, "sweep same.jsonl " ENGINE " --grid seed=1 --out one", "");
	run_shell(&fixture, 0, "rm same.jsonl");
	close_fixture(&fixture);
}

/* A table that was emptied, cut or changed, and a file that is gone, make a run one to be done. */
Test(sweep, a_run_with_other_files_is_run_again)
{
	static const char *const breaks[] = {": >one/seed=2/requests.tsv",
		"sed -i '$d' one/seed=2/timeline.tsv", "rm one/seed=2/latency.tsv",
		"sed -i 's/\"preemptions\":/\"preemptions\": /' one/seed=2/summary.json",
		"sed -i 's/files/others/' one/seed=2/provenance.json"};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
#define TWO "sweep trace.jsonl " ENGINE " --grid seed=1,2 --out one"
	quire(&fixture, 0, TWO, "2 of 2");
	run_shell(&fixture, 0, "cp -r one good");
	quire(&fixture, 0, TWO, "(2 were before)");
	run_shell(&fixture, 0, "echo mine >one/seed=1/notes.txt");
	quire(&fixture, 0, TWO, "(2 were before)");
	for (uint32_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
		run_shell(&fixture, 0, breaks[i]);
		quire(&fixture, 0, TWO, "(1 was before)");
		run_shell(&fixture, 0,
			"for f in good/seed=2/*.tsv good/seed=2/summary.json; do "
			"cmp $f one/seed=2/${f##*/} || exit 1; done");
	}
	close_fixture(&fixture);
}
Test(sweep, another_trace_option_or_file_is_another_run)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	run_shell(&fixture, 0, "echo 'group\treplicas\na\t1' > fleet.tsv");
#define FLEET                                                                                      \
	"sweep trace.jsonl " ENGINE " --kv-blocks 20 --fleet fleet.tsv --grid seed=1,2 --out one"
	quire(&fixture, 0, FLEET, "(0 were before)");
	quire(&fixture, 0, FLEET, "(2 were before)");
	run_shell(&fixture, 0, "echo 'b\t1' >> fleet.tsv");
	quire(&fixture, 2, FLEET, "seed=1 is of another trace, other options");
	quire(&fixture, 0, FLEET " --force", "(0 were before)");
	quire(&fixture, 2, FLEET " --slo-tpot-ms 5", "--force replaces it");
	quire(&fixture, 0, FLEET " --slo-tpot-ms 5 --force", "(0 were before)");
	quire(&fixture, 2, FLEET " --slo-tpot-ms 5 --router random", "other options");
	quire(&fixture, 0, FLEET " --slo-tpot-ms 5", "(2 were before)");
	run_shell(&fixture, 0, "sed -i '$d' trace.jsonl");
	quire(&fixture, 2, FLEET " --slo-tpot-ms 5", "of another trace");
	quire(&fixture, 0, FLEET " --slo-tpot-ms 5 --force", "(0 were before)");
	quire(&fixture, 0, FLEET " --slo-tpot-ms 5", "(2 were before)");
	close_fixture(&fixture);
}

/* Every file that a run is made from is part of what it is: the profile of --gpu, a model's folder
   and file, a fleet's table, and the profiles that the table names, the last one too. */
Test(sweep, a_file_that_has_changed_makes_other_runs)
{
	static const char *const cases[][2] = {{"--gpu own.json", "own.json"},
		{"--model model", "model/config.json"},
		{"--model model/config.json", "model/config.json"},
		{"--fleet fleet.tsv", "first.json"}, {"--fleet fleet.tsv", "last.json"},
		{"--fleet fleet.tsv --gpu own.json", "own.json"}};
	struct replay_fixture fixture;
	char line[512], change[256];

	replay_fixture_open(&fixture);
	run_shell(&fixture, 0,
		"for f in own first last; do cp " QUIRE_SOURCE_DIR
		"/sim/profiles/h200-datasheet.json $f.json || exit 1; done; cp -r " QUIRE_SOURCE_DIR
		"/tests/fixtures/models/group1 model && printf 'group\treplicas\tgpu\na\t1\tfirst."
		"json\nb\t1\t-\nc\t1\tlast.json\n' >fleet.tsv");
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line),
			"sweep trace.jsonl " ENGINE " --kv-blocks 20 %s --grid seed=1,2 --out one",
			cases[i][0]);
		quire(&fixture, 0, line, "(0 were before)");
		quire(&fixture, 0, line, "(2 were before)");
		snprintf(change, sizeof(change), "echo >>%s", cases[i][1]);
		run_shell(&fixture, 0, change);
		quire(&fixture, 2, line, "other options");
		run_shell(&fixture, 0, "rm -r one");
	}
	run_shell(&fixture, 0, "rm -r model *.json fleet.tsv");
	close_fixture(&fixture);
}

/* Of several replicas; those that differ have no size in common. */
Test(sweep, sizes_are_those_of_all_replicas)
{
	struct replay_fixture fixture;
	struct sweep_file sweep;
	char path[PATH_BYTES];

	replay_fixture_open(&fixture);
	quire(&fixture, 0,
		"sweep trace.jsonl " ENGINE " --kv-blocks 20 -tp 2 --gpu h200-datasheet --grid "
		"replicas=1,3 --out one",
		"2 of 2");
	open_sweep(&fixture, "one", path, &sweep);
	for (uint32_t i = 0; i < 2; i++) {
		const struct sweep_run *run = &sweep.runs[i];
		uint32_t replicas = i == 0 ? 1 : 3;
		require(run->kv_blocks.has_value && run->kv_blocks.value == 20, "blocks");
		require(run->kv_tokens.value == 16 * 20 * replicas, "tokens");
		require(run->gpus.value == 2 * replicas, "GPUs");
	}
	sweep_file_close(&sweep);
	run_shell(&fixture, 0, "printf 'group\treplicas\na\t1\nb\t2\n' >fleet.tsv");
	quire(&fixture, 0,
		"sweep trace.jsonl " ENGINE " --kv-blocks 20 --fleet fleet.tsv --grid seed=1 --out "
		"two",
		"1 of 1");
	open_sweep(&fixture, "two", path, &sweep);
	require(!sweep.runs[0].kv_blocks.has_value && !sweep.runs[0].kv_tokens.has_value &&
			!sweep.runs[0].gpus.has_value,
		"sizes of replicas that differ");
	sweep_file_close(&sweep);
	run_shell(&fixture, 0, "rm fleet.tsv");
	close_fixture(&fixture);
}

Test(sweep, a_grid_can_be_extended)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, "sweep trace.jsonl " ENGINE " --grid kv-blocks=16,20 --out one",
		"2 of 2");
	quire(&fixture, 0, "sweep trace.jsonl " ENGINE " --grid kv-blocks=16:64:x2,20 --out one",
		"4 of 4 runs are complete (2 were before)");
	close_fixture(&fixture);
}

/* A grid has one to eight options, and what is written is read again. */
Test(sweep, as_many_options_as_a_grid_has_are_read_again)
{
	static const char *const options[] = {"seed=1", "kv-blocks=20,24", "max-requests=5",
		"warmup=1", "cooldown=1", "gpu=h200", "speedup=2", "loop=off"};
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	for (uint32_t count = 2; count <= SWEEP_PARAMETERS_MAX; count += 2) {
		struct text command = {0};
		struct sweep_file sweep;
		char path[PATH_BYTES];
		text_add(&command, "sweep trace.jsonl " ENGINE " --force --out one --grid '");
		for (uint32_t i = 0; i < count; i++) {
			text_format(&command, "%s%s", i == 0 ? "" : ";", options[i]);
		}
		text_add(&command, "'");
		quire(&fixture, 0, command.bytes, "2 of 2");
		open_sweep(&fixture, "one", path, &sweep);
		require_equal(sweep.parameter_count, count);
		require_equal(sweep.run_count, 2);
		sweep_file_close(&sweep);
		quire(&fixture, 0, "report one --out one.html", "");
		text_deinit(&command);
	}
	run_shell(&fixture, 0, "rm one.html");
	close_fixture(&fixture);
}

/* A table of fewer runs would lose those that are there; one that failed may go. */
Test(sweep, a_grid_without_runs_of_the_folder_is_refused)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
#define GPUS(values) "sweep trace.jsonl " ENGINE " --grid gpu=" values " --out one"
	quire(&fixture, 1, GPUS("h200,x9,h100"), "2 of 3 runs");
	run_shell(&fixture, 0, "cp -r one before");
	quire(&fixture, 2, GPUS("h200,x9"), "has the run gpu=h100");
	quire(&fixture, 2, GPUS("h100"), "has the run gpu=h200");
	run_shell(&fixture, 0, "diff -r one before");
	quire(&fixture, 0, GPUS("h200,h100"), "2 of 2 runs are complete (2 were before)");
	quire(&fixture, 0, GPUS("h100") " --force", "1 of 1 run is complete (0 were before)");
	close_fixture(&fixture);
}

/* Of a run of the table: the folder that its values name, with these values in its summary. */
static void require_values_of_summaries(const struct replay_fixture *fixture, const char *name)
{
	static const char *const fields[] = {"kv_blocks", "seed"};
	struct sweep_file sweep;
	char path[PATH_BYTES], file[PATH_BYTES], expected[PATH_BYTES];

	open_sweep(fixture, name, path, &sweep);
	require_equal(sweep.parameter_count, 2);
	for (uint32_t i = 0; i < sweep.run_count; i++) {
		const struct sweep_run *run = &sweep.runs[i];
		const char *values[2];
		path_in(file, path, run->name);
		cJSON *summary = read_summary(file);
		const cJSON *config = cJSON_GetObjectItem(summary, "config");
		for (uint32_t k = 0; k < 2; k++) {
			values[k] = sweep.parameters[k].values[run->values[k]];
			require_equal(cJSON_GetObjectItem(config, fields[k])->valuedouble,
				atof(values[k]));
		}
		snprintf(expected, sizeof(expected), "kv-blocks=%s,seed=%s", values[0], values[1]);
		cr_assert_str_eq(run->name, expected);
		require_equal(run->status, SWEEP_RUN_COMPLETE);
		cJSON_Delete(summary);
	}
	sweep_file_close(&sweep);
}

/* Values of which each begins the next one, in every order: none is taken for another, neither as a
   folder nor in the table nor where a table would lose it. */
Test(sweep, values_that_begin_others_are_values_of_their_own)
{
	static const char *const orders[] = {"16,160,1600", "16,1600,160", "160,16,1600",
		"160,1600,16", "1600,16,160", "1600,160,16"};
	static const char *const rests[] = {
		"16,160", "16,1600", "160,16", "160,1600", "1600,160", "1600,16"};
	char line[PATH_BYTES];

	for (uint32_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct replay_fixture fixture;
		replay_fixture_open(&fixture);
#define STEMS "sweep trace.jsonl " ENGINE " --grid 'kv-blocks=%s;seed=%s' --out one"
		snprintf(line, sizeof(line), STEMS, orders[i], i % 2 == 0 ? "1,10" : "10,1");
		quire(&fixture, 0, line, "6 of 6");
		require_values_of_summaries(&fixture, "one");
		snprintf(line, sizeof(line), STEMS, rests[i], "1,10");
		quire(&fixture, 2, line, "which --grid lacks");
		close_fixture(&fixture);
	}
}

/* What runs have to say is in their folders; many would say it at once. */
Test(sweep, runs_say_nothing_on_stderr)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	run_shell(&fixture, 0,
		QUIRE_EXECUTABLE " replay trace.jsonl " ENGINE " --kv-blocks 3 --out alone 2>&1 | "
				 "grep -q 'were rejected'");
	run_shell(&fixture, 0,
		QUIRE_EXECUTABLE " sweep trace.jsonl " ENGINE " --grid kv-blocks=3,4 --jobs 1 "
				 "--out one 2>err.txt >out.txt; ! grep rejected err.txt");
	close_fixture(&fixture);
}

/* Bad input, as for the command that does one run. */
Test(sweep, a_grid_of_which_nothing_can_be_run_is_bad_input)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 2, "sweep trace.jsonl " ENGINE " --grid gpu=x8,x9 --out one",
		"no run can be done: gpu 'x8'");
	run_shell(&fixture, 0, ": >empty.jsonl");
	quire(&fixture, 2, "sweep empty.jsonl --grid gpu=h200 --out two",
		"no run can be done: empty.jsonl: found an empty file");
	/* What was wrong does not stand in the way of what is right. */
	quire(&fixture, 1, "sweep trace.jsonl " ENGINE " --grid gpu=h200,x9 --out one",
		"1 of 2 runs");
	run_shell(&fixture, 0, "test -d one/gpu=h200");
	close_fixture(&fixture);
}

#define LONG "sweep trace.jsonl " ENGINE " --kv-blocks 20 --grid seed=1:80:+1 --jobs 2 --out one"
#define BEGIN_WITH(option)                                                                         \
	QUIRE_EXECUTABLE " " LONG " " option                                                       \
			 " >out.txt 2>&1 & p=$!; while [ $(ls one 2>/dev/null | wc -l) "           \
			 "-lt 9 ]; do sleep 0.01; done; "
#define BEGIN BEGIN_WITH("")

/* A signal to the manager alone, as kill sends it. */
Test(sweep, an_interrupted_sweep_says_how_to_go_on)
{
	struct replay_fixture fixture;
	struct sweep_file sweep;
	char path[PATH_BYTES];
	uint32_t complete = 0;

	replay_fixture_open(&fixture);
	run_shell(&fixture, 1, BEGIN "kill -INT $p; wait $p");
	run_shell(&fixture, 0,
		"grep -q 'the same command goes on from there' out.txt && test -z \"$(find one "
		"-name '*.part' -o -name .quire-lock)\"");
	open_sweep(&fixture, "one", path, &sweep);
	for (uint32_t i = 0; i < sweep.run_count; i++) {
		complete += sweep.runs[i].status == SWEEP_RUN_COMPLETE;
	}
	require(!sweep.is_complete && complete > 0 && complete < 80, "%u runs", complete);
	sweep_file_close(&sweep);
	run_shell(&fixture, 0, "rm out.txt");
	quire(&fixture, 0, LONG, "80 of 80 runs are complete");
	quire(&fixture, 0, LONG, "more than 64 runs are not listed here: quire report one --out");
	close_fixture(&fixture);
}

/* The curve of the sweep that was there may be of another trace. */
Test(sweep, an_interrupted_sweep_has_no_curve_of_the_one_before)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 0, "sweep trace.jsonl " ENGINE " --grid kv-blocks=20,40 --out one",
		"2 of 2");
	run_shell(&fixture, 0, "test -e one/" SWEEP_CACHE);
	run_shell(&fixture, 1, BEGIN_WITH("--force") "kill -INT $p; wait $p");
	run_shell(&fixture, 0, "! test -e one/" SWEEP_CACHE " && rm out.txt");
	close_fixture(&fixture);
}

Test(sweep, a_killed_sweep_goes_on)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	run_shell(&fixture, 0,
		BEGIN "w=$(cat /proc/$p/task/$p/children); kill -9 $p; wait $p; sleep 0.2; for x "
		      "in $w; do "
		      "! grep -q '^State:.[RSD]' /proc/$x/status 2>/dev/null || exit 3; done");
	quire(&fixture, 0, LONG, "80 of 80 runs are complete");
	run_shell(&fixture, 0, "rm out.txt; test -z \"$(find one -name '*.part')\"");
	close_fixture(&fixture);
}

/* Workers that are killed lose nothing. */
Test(sweep, killed_workers_are_replaced)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	run_shell(&fixture, 0,
		BEGIN
		"for i in 1 2 3; do w=$(pgrep -P $p | head -1); kill -9 $w 2>/dev/null; sleep "
		"0.1; done; wait $p");
	run_shell(&fixture, 0,
		"grep -q '80 of 80' out.txt && rm out.txt && test -z \"$(find one -name "
		"'*.part')\"");
	close_fixture(&fixture);
}

Test(sweep, two_at_once_in_a_folder_are_one)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	run_shell(&fixture, 0,
		BEGIN QUIRE_EXECUTABLE " " LONG " >two.txt 2>&1; test $? = 2 || exit 3; wait $p");
	run_shell(&fixture, 0,
		"grep -q 'another quire is writing to this folder' two.txt && test $(wc -l < "
		"two.txt) = 1 && rm two.txt out.txt");
	close_fixture(&fixture);
}

/* ---- what is wrong ---- */

Test(sweep, a_configuration_that_cannot_run_is_a_row)
{
	struct replay_fixture fixture;
	struct sweep_file sweep;
	char path[PATH_BYTES];

	replay_fixture_open(&fixture);
	quire(&fixture, 1,
		"sweep trace.jsonl " ENGINE " --grid 'policy=vllm;kv-blocks=13,14' --out one",
		"1 of 2 runs failed: one/sweep.tsv says why");
	open_sweep(&fixture, "one", path, &sweep);
	require_equal(sweep.runs[0].status, SWEEP_RUN_FAILED);
	require(strstr(sweep.runs[0].message,
			"12 of kv-blocks can be used, of 16 tokens each, and max-model-len is 200; "
			"--kv-blocks 14, --max-model-len 192 or a larger --block-size suffices") !=
			NULL,
		"%s", sweep.runs[0].message);
	require_equal(sweep.runs[1].status, SWEEP_RUN_COMPLETE);
	require(sweep.is_complete, "a failed run is not missing");
	sweep_file_close(&sweep);
	quire(&fixture, 2, "replay trace.jsonl " ENGINE " --policy vllm --kv-blocks 1",
		"none of kv-blocks can be used, and max-model-len is 200; --kv-blocks 14 suffices");
	close_fixture(&fixture);
}

Test(sweep, wrong_use_is_refused_and_writes_nothing)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
	quire(&fixture, 2, "sweep trace.jsonl --out one", "expected --grid");
	quire(&fixture, 2, "sweep trace.jsonl --grid seed=1", "expected --out");
	quire(&fixture, 2, "sweep none.jsonl --grid seed=1 --out one", "none.jsonl");
	quire(&fixture, 2, "sweep trace.jsonl --grid seed=1,1 --out one", "seed has 1 twice");
	quire(&fixture, 2, "sweep trace.jsonl --seed 3 --grid seed=1,2 --out one",
		"--seed is given, and --grid varies it");
	quire(&fixture, 2, "sweep trace.jsonl --grid 'runner=sim,none' --out one",
		"--runner: found 'none'");
	quire(&fixture, 2, "sweep trace.jsonl --runner reference --grid seed=1 --jobs 2 --out one",
		"one at a time");
	run_shell(&fixture, 0, "test ! -e one");
	quire(&fixture, 0, "replay trace.jsonl " ENGINE " --out one", "result_hash");
	quire(&fixture, 2, "sweep trace.jsonl --grid seed=1 --out one",
		"holds a result of its own");
	run_shell(&fixture, 0, "mkdir two && mkdir two/base");
	quire(&fixture, 2, "sweep trace.jsonl --grid seed=1 --out two", "no sweep made it");
	quire(&fixture, 0, "sweep trace.jsonl " ENGINE " --grid seed=1 --out two --force",
		"1 of 1");
	close_fixture(&fixture);
}

/* No file may grow beyond 3,000 bytes: runs and table fail, and what is written is whole. */
Test(sweep, a_full_disk_is_said)
{
	struct replay_fixture fixture;
	const char *const arguments[] = {"quire", "sweep", "trace.jsonl", "--trace-block-size",
		"16", "--grid", "seed=1:9:+1", "--out", "one", NULL};
	struct process process;

	replay_fixture_open(&fixture);
	process_start(&process, &(struct process_order){.program = QUIRE_EXECUTABLE,
					.arguments = arguments,
					.folder = fixture.folder,
					.file_bytes_max = 600});
	struct process_result result = process_finish(&process);
	require_equal(result.code, 2);
	require(strstr(result.err, "one/sweep.json: cannot be written") != NULL, "%s", result.err);
	process_result_free(&result);
	run_shell(&fixture, 0, "test ! -e one/sweep.tsv -a ! -e one/sweep.json");
	quire(&fixture, 0, "sweep trace.jsonl --trace-block-size 16 --grid seed=1:9:+1 --out one",
		"9 of 9");
	close_fixture(&fixture);
}

/* Runs that compute have a process each, one after the other. */
Test(sweep, runs_that_compute)
{
	struct replay_fixture fixture;

	replay_fixture_open(&fixture);
#define COMPUTED                                                                                   \
	"--runner reference --model " QUIRE_SOURCE_DIR                                             \
	"/tests/fixtures/models/group2 --trace-block-size 16 --block-size 8 --kv-blocks 40 "       \
	"--max-num-seqs 8 --max-num-batched-tokens 64 "
	quire(&fixture, 0, "trace make --requests 20 --input 60 --output 4 --seed 1 --out t.jsonl",
		"");
	quire(&fixture, 0, "sweep t.jsonl " COMPUTED "--grid tensor-parallel-size=1,2 --out one",
		"2 of 2");
	quire(&fixture, 0, "replay t.jsonl " COMPUTED "-tp 2 --out alone", "result_hash");
	run_shell(&fixture, 0,
		"test \"$(grep result_hash alone/summary.json)\" = \"$(grep result_hash "
		"one/tensor-parallel-size=2/summary.json)\"");
	close_fixture(&fixture);
}
