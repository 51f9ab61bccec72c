#include <criterion/criterion.h>

#include <cJSON.h>
#include <dirent.h>
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
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* `quire replay` as its users meet it: the built program, its exit codes, its lines and its files.
 */

enum { PATH_BYTES = 2 * TEMPORARY_PATH_BYTES, ARGUMENTS_MAX = 64, FILES_MAX = 7 };

static const char *const result_files[FILES_MAX] = {RESULT_REQUESTS, RESULT_TIMELINE,
	RESULT_STEP_GRID, RESULT_LATENCY, RESULT_STEPS, RESULT_PROVENANCE, RESULT_SUMMARY};

/* ---- running it ---- */

/* A folder with a trace, and the arguments that every run of a test has. */
struct fixture {
	char folder[TEMPORARY_PATH_BYTES];
	char trace[PATH_BYTES];
	char out[PATH_BYTES]; /* FOLDER/result */
};

/* Prompts that share beginnings, more than the pool of the runs below holds at a time, one that is
   too long for them, and the last one too. */
static void write_trace(const char *path, uint32_t count, const char *extra_line)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "cannot write %s", path);
	for (uint32_t i = 0; i < count; i++) {
		bool is_long = i == 5 || i + 1 == count;
		uint32_t input = is_long ? 1000 : 20 + i * 7 % 60;
		fprintf(file,
			"{\"timestamp\": %u, \"input_length\": %u, \"output_length\": %u, "
			"\"hash_ids\": [%u",
			i * 3 / 2, input, 1 + i * 5 % 50, i % 3);
		for (uint32_t id = 1; id < (input + 15) / 16; id++) {
			fprintf(file, ", %u", (i % 3) * 1000 + id);
		}
		fprintf(file, "]}\n");
		if (extra_line != NULL && i == count / 2) {
			fprintf(file, "%s\n", extra_line);
		}
	}
	fclose(file);
}

static void fixture_open(struct fixture *fixture)
{
	temporary_folder(fixture->folder);
	snprintf(fixture->trace, PATH_BYTES, "%s/trace.jsonl", fixture->folder);
	snprintf(fixture->out, PATH_BYTES, "%s/result", fixture->folder);
	write_trace(fixture->trace, 60, NULL);
}

static void fixture_close(struct fixture *fixture)
{
	temporary_remove(fixture->folder);
}

/* The arguments behind `quire replay`, then those of an engine so small that it preempts. */
struct arguments {
	const char *list[ARGUMENTS_MAX];
	uint32_t count;
};

static void add_all(struct arguments *arguments, const char *const *list)
{
	for (; *list != NULL; list++) {
		require(arguments->count + 1 < ARGUMENTS_MAX, "too many arguments");
		arguments->list[arguments->count++] = *list;
	}
}

static struct arguments arguments_of(const char *const *own, bool is_small)
{
	static const char *const first[] = {"quire", "replay", NULL};
	static const char *const small[] = {"--block-size", "16", "--trace-block-size", "16",
		"--kv-blocks", "16", "--max-model-len", "200", "--max-num-seqs", "4",
		"--max-num-batched-tokens", "48", NULL};
	struct arguments arguments = {.count = 0};

	add_all(&arguments, first);
	add_all(&arguments, own);
	if (is_small) {
		add_all(&arguments, small);
	}
	return arguments;
}

/* Runs the program under an order's circumstances. */
static struct process_result run_with(
	struct process_order order, bool is_small, const char *const *own)
{
	struct arguments arguments = arguments_of(own, is_small);
	struct process process;

	order.program = QUIRE_EXECUTABLE;
	order.arguments = arguments.list;
	process_start(&process, &order);
	return process_finish(&process);
}

static const struct process_order ordinary = {0};

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define RUN(...) run_with(ordinary, false, LIST(__VA_ARGS__))
#define RUN_SMALL(...) run_with(ordinary, true, LIST(__VA_ARGS__))

/* ---- files ---- */

static void path_in(char *path, const char *folder, const char *name)
{
	int bytes = snprintf(path, PATH_BYTES, "%s/%s", folder, name);

	require(bytes > 0 && bytes < PATH_BYTES, "the path is too long");
}

static char *read_in(const char *folder, const char *name)
{
	char path[PATH_BYTES];

	path_in(path, folder, name);
	return file_read_if_there(path, NULL);
}

static void require_no_parts(const char *folder)
{
	DIR *open = opendir(folder);
	struct dirent *entry;

	require(open != NULL, "%s is not there", folder);
	while ((entry = readdir(open)) != NULL) {
		require(strstr(entry->d_name, ".part") == NULL, "%s is left behind", entry->d_name);
	}
	closedir(open);
}

static void require_same_file(const char *a, const char *b, const char *name)
{
	char *first = read_in(a, name);
	char *second = read_in(b, name);

	require((first == NULL) == (second == NULL), "%s is there once", name);
	require(first == NULL || strcmp(first, second) == 0, "%s differs", name);
	free(first);
	free(second);
}

/* All but provenance.json. */
static void require_same_result(const char *a, const char *b)
{
	for (uint32_t i = 0; i < FILES_MAX; i++) {
		if (strcmp(result_files[i], RESULT_PROVENANCE) != 0) {
			require_same_file(a, b, result_files[i]);
		}
	}
}

static void require_good(struct process_result outcome)
{
	require(outcome.code == 0, "code %d: %s", outcome.code, outcome.err);
	require(outcome.err[0] == '\0', "it says %s", outcome.err);
	require(outcome.out[0] != '\0', "it says nothing");
	process_result_free(&outcome);
}

/* One line on stderr that names the command and holds the words. */
static void require_line(struct process_result outcome, int code, const char *words)
{
	size_t bytes = strlen(outcome.err);

	require(outcome.code == code, "code %d instead of %d: %s%s", outcome.code, code,
		outcome.out, outcome.err);
	require(bytes > 0, "it says nothing");
	require(strchr(outcome.err, '\n') == outcome.err + bytes - 1, "not one line: %s",
		outcome.err);
	require(strncmp(outcome.err, "quire replay: ", 14) == 0, "it says %s", outcome.err);
	require(strstr(outcome.err, words) != NULL, "'%s' is not in: %s", words, outcome.err);
	process_result_free(&outcome);
}

static void require_refused(struct process_result outcome, const char *words)
{
	require(outcome.out[0] == '\0', "a refused run prints %s", outcome.out);
	require_line(outcome, 2, words);
}

/* ---- a good run ---- */

Test(replay_cli, a_run_leaves_whole_files_and_a_summary)
{
	struct fixture fixture;

	fixture_open(&fixture);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	require_no_parts(fixture.out);
	for (uint32_t i = 0; i < FILES_MAX; i++) {
		char *text = read_in(fixture.out, result_files[i]);
		require(text != NULL && text[0] != '\0', "%s is empty", result_files[i]);
		require(text[strlen(text) - 1] == '\n', "%s has no end", result_files[i]);
		free(text);
	}
	/* Without --steps there is no steps.tsv, and --force takes the older one away. */
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--force"));
	char *steps = read_in(fixture.out, RESULT_STEPS);
	require(steps == NULL, "steps.tsv of an older run is left");
	fixture_close(&fixture);
}

/* The estimate of a GPU's blocks is refused then, which a number that is given overrules. */
Test(replay_cli, a_model_that_is_too_large_runs_with_blocks_that_are_given)
{
	struct fixture fixture;

	fixture_open(&fixture);
	require_good(RUN_SMALL(
		fixture.trace, "--model", "qwen3-32b", "--gpu", "rtx4090", "--out", fixture.out));
	fixture_close(&fixture);
}

Test(replay_cli, help_is_no_failure)
{
	struct fixture fixture;

	fixture_open(&fixture);
	require_good(RUN("--help"));
	require_good(RUN("nothing", "--kv-blocks", "x", "-h"));
	fixture_close(&fixture);
}

static cJSON *read_summary(const char *folder)
{
	char *text = read_in(folder, RESULT_SUMMARY);

	require(text != NULL, "no summary");
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "the summary is no JSON");
	free(text);
	return root;
}

static uint64_t number_in(const cJSON *root, const char *section, const char *name)
{
	const cJSON *object = section == NULL ? root : cJSON_GetObjectItem(root, section);
	const cJSON *value = cJSON_GetObjectItem(object, name);

	require(cJSON_IsNumber(value), "%s is no number", name);
	return (uint64_t)value->valuedouble;
}

static const char *text_in(const cJSON *root, const char *section, const char *name)
{
	const cJSON *object = section == NULL ? root : cJSON_GetObjectItem(root, section);
	const cJSON *value = cJSON_GetObjectItem(object, name);

	require(cJSON_IsString(value), "%s is no text", name);
	return value->valuestring;
}

/* The sum of a column over the rows whose column `key` is `wanted` (NULL: over all); `-` is 0.
 *rows: how many there are. Columns count from 0. */
static uint64_t sum_column(
	const char *table, uint32_t column, uint32_t key, const char *wanted, uint64_t *rows)
{
	uint64_t sum = 0;

	*rows = 0;
	for (const char *row = strchr(table, '\n') + 1; *row != '\0';) {
		uint64_t value = 0;
		bool is_wanted = wanted == NULL;
		for (uint32_t i = 0;; i++) {
			size_t bytes = strcspn(row, "\t\n");
			value = i == column ? strtoull(row, NULL, 10) : value;
			is_wanted = is_wanted || (i == key && strlen(wanted) == bytes &&
							 strncmp(row, wanted, bytes) == 0);
			row += bytes + 1;
			if (row[-1] == '\n') {
				break;
			}
		}
		sum += is_wanted ? value : 0;
		*rows += is_wanted;
	}
	return sum;
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
	struct fixture fixture;
	uint64_t rows;

	fixture_open(&fixture);
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
	fixture_close(&fixture);
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
	struct fixture fixture;
	char again[PATH_BYTES];

	fixture_open(&fixture);
	path_in(again, fixture.folder, "again");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		require_good(run_with(others[i], true,
			LIST(fixture.trace, "--out", again, "--steps", "--force")));
		require_same_result(fixture.out, again);
	}
	/* And from the trace's own folder, with relative names and options in another order. */
	const struct process_order inside = {.folder = fixture.folder};
	require_good(run_with(inside, true,
		LIST("--steps", "--force", "--out=again", "--seed", "0", "trace.jsonl")));
	require_same_result(fixture.out, again);
	fixture_close(&fixture);
}

Test(replay_cli, another_seed_is_another_result_of_equal_lengths)
{
	struct fixture fixture;
	char again[PATH_BYTES];
	uint64_t rows;

	fixture_open(&fixture);
	path_in(again, fixture.folder, "again");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out));
	require_good(RUN_SMALL(fixture.trace, "--out", again, "--seed", "1"));
	char *first = read_in(fixture.out, RESULT_REQUESTS);
	char *second = read_in(again, RESULT_REQUESTS);
	require_equal(sum_column(first, REQUEST_OUTPUT, 0, NULL, &rows),
		sum_column(second, REQUEST_OUTPUT, 0, NULL, &rows));
	free(first);
	free(second);
	fixture_close(&fixture);
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
		{"--format", {"--format", "csv"}},
		{"--sessions", {"--sessions", "ajar"}},
		{"--admission belongs to --policy prefill-first", {"--admission", "seed"}},
		{"--tokens sampled", {"--tokens", "sampled"}},
		{"--tape", {"--tape", "somewhere"}},
		{"--tape", {"--runner", "tape"}},
		{"nowhere/summary.json", {"--runner", "tape", "--tape", "nowhere"}},
		{"--overlap: found 'some'", {"--overlap", "some"}},
		{"--clock: found 'sun'", {"--clock", "sun"}},
		{"--clock wall needs a runner", {"--clock", "wall"}},
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
		{"max-model-len (40960)", {"--policy", "prefill-first"}},
		{"--kv-blocks is given twice", {"--kv-blocks", "3", "--kv-blocks", "3"}},
		{"behind it", {"--seed"}},
		{"one argument too many", {"another.jsonl"}},
		{"--force takes no value", {"--force=yes"}},
	};
	struct fixture fixture;

	fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arguments own = {.count = 0};
		add_all(&own, LIST(fixture.trace, "--out", fixture.out));
		add_all(&own, cases[i].arguments);
		require_refused(run_with(ordinary, false, own.list), cases[i].words);
		require(!file_exists(fixture.out), "'%s' leaves a folder", cases[i].words);
	}
	require_refused(RUN("--out", fixture.out), "TRACE");
	require_refused(RUN(fixture.trace), "--out");
	require_refused(RUN(fixture.trace, "--out", ""), "--out");
	fixture_close(&fixture);
}

Test(replay_cli, invalid_traces_are_reported_in_one_line)
{
	struct fixture fixture;
	char path[PATH_BYTES];

	fixture_open(&fixture);
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
	fixture_close(&fixture);
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
	struct fixture fixture;

	fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_trace(fixture.trace, 60, cases[i].line);
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
	fixture_close(&fixture);
}

/* ---- the folder ---- */

static void keep_copies(const char *folder, char **copies)
{
	for (uint32_t i = 0; i < FILES_MAX; i++) {
		copies[i] = read_in(folder, result_files[i]);
	}
}

/* The files are those that were copied, provenance too; frees the copies. */
static void require_untouched(const char *folder, char **copies)
{
	for (uint32_t i = 0; i < FILES_MAX; i++) {
		char *now = read_in(folder, result_files[i]);
		require((now == NULL) == (copies[i] == NULL) &&
				(now == NULL || strcmp(now, copies[i]) == 0),
			"%s was touched", result_files[i]);
		free(now);
		free(copies[i]);
	}
	require_no_parts(folder);
}

Test(replay_cli, a_result_is_replaced_neither_without_force_nor_by_a_failure)
{
	struct fixture fixture;
	char bad[PATH_BYTES];
	char *copies[FILES_MAX];

	fixture_open(&fixture);
	path_in(bad, fixture.folder, "bad.jsonl");
	write_trace(bad, 60, "nonsense");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	keep_copies(fixture.out, copies);
	require_refused(RUN_SMALL(fixture.trace, "--out", fixture.out), "--force");
	require_untouched(fixture.out, copies);
	keep_copies(fixture.out, copies);
	require_refused(RUN_SMALL(bad, "--out", fixture.out, "--force"), "bad.jsonl:32");
	require_untouched(fixture.out, copies);
	fixture_close(&fixture);
}

Test(replay_cli, an_impossible_folder_is_reported_in_one_line)
{
	struct fixture fixture;
	char path[PATH_BYTES];

	fixture_open(&fixture);
	require_refused(RUN(fixture.trace, "--out", fixture.trace), "--out");
	path_in(path, fixture.folder, "a/b");
	require_refused(RUN(fixture.trace, "--out", path), "--out");
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
	fixture_close(&fixture);
}

/* Whichever file does not fit on the disk: a line, nothing begun is left, an older result stays. */
Test(replay_cli, a_full_disk_leaves_what_was_there)
{
	struct fixture fixture;
	char part[PATH_BYTES], name[64];
	char *copies[FILES_MAX];

	if (access("/dev/full", W_OK) != 0) {
		cr_skip_test("/dev/full is not here");
	}
	fixture_open(&fixture);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	for (uint32_t i = 0; i < FILES_MAX; i++) {
		keep_copies(fixture.out, copies);
		snprintf(name, sizeof(name), "%s.part", result_files[i]);
		path_in(part, fixture.out, name);
		require(symlink("/dev/full", part) == 0, "no link");
		require_refused(
			RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps", "--force"),
			"No space left");
		require_untouched(fixture.out, copies);
	}
	fixture_close(&fixture);
}

Test(replay_cli, a_write_that_fails_in_mid_run_leaves_nothing)
{
	static const uint64_t limits[] = {1, 100, 2000, 5000};
	struct fixture fixture;

	fixture_open(&fixture);
	for (uint32_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct process_order tight = {.file_bytes_max = limits[i]};
		struct process_result outcome =
			run_with(tight, true, LIST(fixture.trace, "--out", fixture.out, "--steps"));
		/* The line itself may not fit; the code and the folder tell. */
		require(outcome.code == 2, "code %d", outcome.code);
		process_result_free(&outcome);
		require(!file_exists(fixture.out), "a folder is left");
	}
	fixture_close(&fixture);
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
	struct fixture fixture;
	char part[PATH_BYTES];
	uint64_t rows, unfinished;

	fixture_open(&fixture);
	write_endless_trace(fixture.trace);
	path_in(part, fixture.out, RESULT_REQUESTS ".part");
	struct arguments arguments = arguments_of(LIST(fixture.trace, "--out", fixture.out), true);
	struct process process;
	process_start(&process,
		&(struct process_order){.program = QUIRE_EXECUTABLE, .arguments = arguments.list});
	while (file_byte_count(part) == 0 && waitpid(process.id, NULL, WNOHANG) == 0) {
		wait_a_moment();
	}
	require(kill(process.id, signal_number) == 0, "it has ended already");
	struct process_result outcome = process_finish(&process);
	require(strstr(outcome.out, "interrupted") != NULL, "it says %s", outcome.out);
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
	fixture_close(&fixture);
}

Test(replay_cli, an_interrupt_ends_the_files_cleanly, .timeout = 120)
{
	require_interrupted(SIGINT);
}

Test(replay_cli, so_does_a_termination, .timeout = 120)
{
	require_interrupted(SIGTERM);
}

/* ---- the tape ---- */

static void write_in(const char *folder, const char *name, const char *text)
{
	temporary_write(folder, name, text, NULL);
}

/* A copy of a table with one cell replaced: row and column count from 0, the header aside. */
static char *with_cell(const char *table, uint32_t row, uint32_t column, const char *cell)
{
	char *copy = malloc(strlen(table) + strlen(cell) + 1);
	const char *at = strchr(table, '\n') + 1;

	require(copy != NULL, "out of memory");
	for (; row > 0; row--) {
		at = strchr(at, '\n') + 1;
	}
	for (; column > 0; column--) {
		at = strchr(at, '\t') + 1;
	}
	size_t before = (size_t)(at - table);
	memcpy(copy, table, before);
	strcpy(copy + before, cell);
	strcat(copy + before, at + strcspn(at, "\t\n"));
	return copy;
}

#define RUN_TAPE(fixture, tape, out)                                                               \
	RUN((fixture)->trace, "--runner", "tape", "--tape", tape, "--out", out, "--steps",         \
		"--force")

Test(replay_cli, a_tape_decides_what_was_recorded)
{
	struct fixture fixture;
	char played[PATH_BYTES];

	fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	require_good(RUN_TAPE(&fixture, fixture.out, played));
	for (uint32_t i = 0; i < 5; i++) {
		require_same_file(fixture.out, played, result_files[i]);
	}
	cJSON *recorded = read_summary(fixture.out);
	cJSON *summary = read_summary(played);
	cr_assert_str_eq(
		text_in(recorded, NULL, "result_hash"), text_in(summary, NULL, "result_hash"));
	require(cJSON_Compare(cJSON_GetObjectItem(recorded, "latency_ms"),
			cJSON_GetObjectItem(summary, "latency_ms"), true) == 1,
		"latencies differ");
	require(cJSON_Compare(cJSON_GetObjectItem(recorded, "load"),
			cJSON_GetObjectItem(summary, "load"), true) == 1,
		"load differs");
	require(cJSON_IsTrue(cJSON_GetObjectItem(recorded, "calibrated")) ==
			cJSON_IsTrue(cJSON_GetObjectItem(summary, "calibrated")),
		"a tape is as calibrated as what it recorded");
	cJSON_Delete(recorded);
	cJSON_Delete(summary);
	/* An option given again has to agree. */
	require_refused(RUN(fixture.trace, "--runner", "tape", "--tape", fixture.out, "--out",
				played, "--force", "--kv-blocks", "17"),
		"--kv-blocks");
	fixture_close(&fixture);
}

/* Arrivals are waited for, lateness is reported, and a tape repeats the decisions. */
Test(replay_cli, a_wall_clock_waits_for_arrivals)
{
	struct fixture fixture;
	char again[PATH_BYTES];
	struct timespec begin, end;

	fixture_open(&fixture);
	path_in(again, fixture.folder, "again");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--runner", "reference",
		"--model", "tests/fixtures/models/group1", "--clock", "wall", "--steps"));
	clock_gettime(CLOCK_MONOTONIC, &end);
	double seconds =
		(double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	/* The last row is turned away; the one before it comes after 87 ms. */
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
	fixture_close(&fixture);
}

/* Any count of any step that differs ends the run there and is named; its files are whole. */
Test(replay_cli, a_tape_names_the_step_and_column_that_differ)
{
	static const char *const columns[] = {"decode_rows", "prefill_rows", "prefill_tokens",
		"cached_tokens", "decode_context_tokens", "decode_longest_context",
		"prefill_attention_pairs", "sampled_rows", "running", "waiting", "used_blocks",
		"shared_tokens", "pair_tokens", "cached_free_blocks", "free_blocks", "preemptions"};
	struct fixture fixture;
	char tape[PATH_BYTES], played[PATH_BYTES], words[128];

	fixture_open(&fixture);
	path_in(tape, fixture.folder, "tape");
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", tape, "--steps"));
	char *steps = read_in(tape, RESULT_STEPS);
	for (uint32_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		uint32_t step = 7 * i;
		char *changed = with_cell(steps, step, 6 + i, "12345");
		write_in(tape, RESULT_STEPS, changed);
		free(changed);
		struct process_result outcome = RUN_TAPE(&fixture, tape, played);
		if (strcmp(columns[i], "waiting") == 0) {
			require_good(outcome); /* depends on how far was read ahead */
			continue;
		}
		snprintf(words, sizeof(words), "step %u: column %s is ", step, columns[i]);
		require_line(outcome, 1, words);
		require_no_parts(played);
		cJSON *summary = read_summary(played);
		cr_assert_str_eq(text_in(summary, NULL, "status"), "failed");
		require(strstr(text_in(summary, NULL, "failure"), columns[i]) != NULL, "why?");
		require_equal(number_in(summary, "time", "steps"), step);
		require_equal(number_in(summary, "requests", "submitted"),
			number_in(summary, "requests", "finished") +
				number_in(summary, "requests", "rejected") +
				number_in(summary, "requests", "failed"));
		cJSON_Delete(summary);
	}
	free(steps);
	fixture_close(&fixture);
}

Test(replay_cli, a_tape_fits_its_trace_from_end_to_end)
{
	struct fixture fixture;
	char tape[PATH_BYTES], played[PATH_BYTES];

	fixture_open(&fixture);
	path_in(tape, fixture.folder, "tape");
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", tape, "--steps"));
	char *steps = read_in(tape, RESULT_STEPS);
	size_t bytes = strlen(steps);

	/* shorter by a step, and longer by one */
	size_t last = bytes - 1;
	while (steps[last - 1] != '\n') {
		last--;
	}
	char *shorter = strndup(steps, last);
	write_in(tape, RESULT_STEPS, shorter);
	require_line(RUN_TAPE(&fixture, tape, played), 1, "the tape has ended");
	char *longer = malloc(2 * bytes);
	require(shorter != NULL && longer != NULL, "out of memory");
	uint64_t rows;
	sum_column(steps, 0, 0, NULL, &rows);
	snprintf(longer, 2 * bytes, "%s%llu%s", steps, (unsigned long long)rows,
		strchr(steps + last, '\t'));
	write_in(tape, RESULT_STEPS, longer);
	require_line(RUN_TAPE(&fixture, tape, played), 1, "the tape goes on");
	free(shorter);
	free(longer);

	/* The same rows in other bytes are another trace. */
	write_in(tape, RESULT_STEPS, steps);
	char *trace = file_read(fixture.trace, NULL);
	char *other = malloc(strlen(trace) + 2);
	sprintf(other, "{ %s", trace + 1);
	write_in(fixture.folder, "trace.jsonl", other);
	require_line(RUN_TAPE(&fixture, tape, played), 1, "XXH64");
	free(other);
	free(trace);
	free(steps);
	fixture_close(&fixture);
}

/* A run that failed and cannot be written either leaves nothing begun. */
Test(replay_cli, a_failed_run_on_a_full_disk_leaves_nothing)
{
	struct fixture fixture;
	char tape[PATH_BYTES], played[PATH_BYTES], part[PATH_BYTES];

	if (access("/dev/full", W_OK) != 0) {
		cr_skip_test("/dev/full is not here");
	}
	fixture_open(&fixture);
	path_in(tape, fixture.folder, "tape");
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", tape, "--steps"));
	char *steps = read_in(tape, RESULT_STEPS);
	char *changed = with_cell(steps, 30, 6, "12345");
	write_in(tape, RESULT_STEPS, changed);
	require(mkdir(played, 0777) == 0, "no folder");
	path_in(part, played, RESULT_TIMELINE ".part");
	require(symlink("/dev/full", part) == 0, "no link");
	require_refused(RUN_TAPE(&fixture, tape, played), "No space left");
	require_no_parts(played);
	free(steps);
	free(changed);
	fixture_close(&fixture);
}

/* ---- memory ---- */

static long rss_of(struct fixture *fixture, const char *requests)
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
	struct fixture fixture;

	fixture_open(&fixture);
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
	fixture_close(&fixture);
}
