#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"

/* Traces from pipes, summaries on stdout, and results in new folders. */

#define QUIRE "'" QUIRE_EXECUTABLE "'"
#define SMALL                                                                                      \
	" --block-size 16 --trace-block-size 16 --kv-blocks 16 --max-model-len 200"                \
	" --max-num-seqs 4 --max-num-batched-tokens 48"

static struct replay_fixture fixture;

static void open_fixture(void)
{
	replay_fixture_open(&fixture);
}

static void close_fixture(void)
{
	replay_fixture_close(&fixture);
}

TestSuite(pipes_cli, .init = open_fixture, .fini = close_fixture);

static char *shell(int code, const char *line)
{
	struct process_result result = shell_run(fixture.folder, "%s", line);

	require(result.code == code, "%s: code %d: %s%s", line, result.code, result.out,
		result.err);
	free(result.err);
	return result.out;
}

/* The second reading counts what waits outside the engine, which is small enough to need it. */
Test(pipes_cli, a_trace_may_come_from_a_pipe)
{
	static const char *const sources[] = {
		"cat trace.jsonl | " QUIRE " replay - " SMALL " --steps --out piped",
		"cat trace.jsonl | gzip | " QUIRE " replay - " SMALL " --steps --out piped",
		QUIRE " replay - " SMALL " --steps --out piped <trace.jsonl",
		"mkfifo pipe && (cat trace.jsonl >pipe &) && exec 3<pipe && " QUIRE
		" replay /dev/fd/3 " SMALL " --steps --out piped",
	};

	free(shell(0, QUIRE " replay trace.jsonl " SMALL " --steps --out file"));
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		free(shell(0, sources[i]));
		for (size_t j = 0; j < REPLAY_FILES; j++) {
			char command[512];
			if (strcmp(replay_files[j], RESULT_SUMMARY) == 0 ||
				strcmp(replay_files[j], RESULT_PROVENANCE) == 0) {
				continue; /* they name the trace */
			}
			snprintf(command, sizeof(command), "cmp file/%s piped/%s", replay_files[j],
				replay_files[j]);
			free(shell(0, command));
		}
		free(shell(0, "rm -r piped"));
	}
	char *stat = shell(0, "cat trace.jsonl | " QUIRE " trace stat - --trace-block-size 16");
	require(strstr(stat, "rows        60\n") != NULL, "%s", stat);
	free(stat);
}

/* A plan reads its trace once a run, in other processes. */
Test(pipes_cli, a_plan_reads_a_pipe_as_often_as_a_file)
{
	static const char *const sources[] = {
		"cat trace.jsonl | " QUIRE " plan - ",
		"cat trace.jsonl | gzip | " QUIRE " plan - ",
		QUIRE " plan - <trace.jsonl ",
		"mkfifo pipe && (cat trace.jsonl >pipe &) && exec 3<pipe && " QUIRE
		" plan /dev/fd/3 ",
	};
	static const char options[] =
		SMALL " --slo-ttft-ms 100 --attain 0.5 --replicates 2 --jobs 2 --out ";
	char command[512];

	snprintf(command, sizeof(command), QUIRE " plan trace.jsonl %s file", options);
	free(shell(0, command));
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		snprintf(command, sizeof(command),
			"%s %s piped && cmp file/plan.tsv piped/plan.tsv", sources[i], options);
		free(shell(0, command));
		free(shell(0, "rm -r piped"));
	}
}

Test(pipes_cli, faults_of_a_piped_trace_have_its_lines)
{
	free(shell(0, "{ printf 'junk\\n' | " QUIRE " replay - 2>err; test $? = 2; } && "
		      "grep -q '^quire replay: -:1: found junk, expected the first line' err"));
	free(shell(0, "{ " QUIRE " replay - 2>err </dev/null; test $? = 2; } && "
		      "grep -q 'found an empty file' err"));
	free(shell(0, "{ printf '' | " QUIRE " replay - 2>err; test $? = 2; } && "
		      "grep -q 'found an empty file' err"));
}

Test(pipes_cli, a_look_writes_nothing)
{
	free(shell(0, "mkdir look && cp trace.jsonl look"));
	char *text = shell(0, "cd look && " QUIRE " replay trace.jsonl " SMALL);
	require(strstr(text, "result_hash") != NULL, "%s", text);
	free(text);
	text = shell(0, "ls -A look");
	cr_assert_str_eq(text, "trace.jsonl\n");
	free(text);
	require_refused(RUN(fixture.trace, "--steps"), "--steps belongs to a result");
	require_refused(RUN(fixture.trace, "--timeline", "t"), "--timeline belongs to a result");
	require_refused(RUN(fixture.trace, "--force"), "--force belongs to a result");
}

Test(pipes_cli, json_is_the_summary_and_nothing_else)
{
	char *text = shell(0, QUIRE " replay trace.jsonl " SMALL " --json --out result 2>err");
	char *written = read_in(fixture.out, RESULT_SUMMARY);

	cr_assert_str_eq(text, written);
	free(text);
	text = shell(0, QUIRE " replay trace.jsonl " SMALL " --json");
	cr_assert_str_eq(text, written);
	free(text);
	free(written);
	text = shell(0, "cat err");
	require(strstr(text, "2 requests") != NULL, "rejections are not said: %s", text);
	free(text);
}

Test(pipes_cli, folders_above_a_result_are_made_and_not_left_behind)
{
	free(shell(0, QUIRE " replay trace.jsonl " SMALL " --out new/a//b/ && test -f "
			    "new/a/b/summary.json && ! ls new/a/b/.quire-lock 2>/dev/null"));
	free(shell(0, "echo '{' >>trace.jsonl; { " QUIRE " replay trace.jsonl " SMALL
		      " --out other/a/b 2>/dev/null; test $? = 2; } && ! ls other 2>/dev/null"));
	free(shell(0, "touch file; { " QUIRE " replay trace.jsonl " SMALL
		      " --out one/../file/b 2>err; test $? = 2; } && ! ls one 2>/dev/null && "
		      "grep -q 'the folder cannot be made: Not a directory' err"));
}

/* Rows that share a time are a burst, which is said, and spread where that is asked for. */
Test(pipes_cli, ties_are_said_and_spread)
{
	static const char *const make =
		"for i in 0 0 0 3000 3000 3000 5999 9000 9000; do echo "
		"'{\"timestamp\": '$i', \"input_length\": 20, \"output_length\": 2}'; done "
		">ticks.jsonl";
	static const char *const counted =
		"cut -f 4 spread/requests.tsv | tail -n +2 | sort -u | wc -l";

	free(shell(0, make));
	char *text = shell(0, QUIRE " trace stat ticks.jsonl");
	require(strstr(text, "times are quantised to 3 s: 2.2 requests share one") != NULL, "%s",
		text);
	free(text);
	text = shell(0, QUIRE " trace stat trace.jsonl --trace-block-size 16");
	require(strstr(text, "quantised") == NULL, "%s", text);
	free(text);
	text = shell(0, QUIRE " replay ticks.jsonl 2>&1 >/dev/null");
	require(strstr(text, "to 3 s: 2.2 requests share one; --spread-ties draws") != NULL, "%s",
		text);
	free(text);
	/* Where requests come at other times, those of the file are not told of. */
	text = shell(0, QUIRE " replay ticks.jsonl --concurrency 2 2>&1 >/dev/null; " QUIRE
			      " replay ticks.jsonl --rate 2 2>&1 >/dev/null");
	require(strstr(text, "quantised") == NULL, "%s", text);
	free(text);
	text = shell(0, QUIRE " replay ticks.jsonl --spread-ties --out spread 2>&1 >/dev/null");
	require(strstr(text, "; --spread-ties drew them inside it") != NULL, "%s", text);
	free(text);
	text = shell(0, "head -1 spread/requests.tsv | cut -f 4");
	cr_assert_str_eq(text, "arrival_ns\n");
	free(text);
	text = shell(0, counted);
	cr_assert_str_eq(text, "9\n");
	free(text);
	text = shell(0, QUIRE " replay ticks.jsonl --rate 3 2>&1 >/dev/null");
	require(strstr(text, "quantised") == NULL, "drawn times have no ties: %s", text);
	free(text);
	require_refused(RUN(fixture.trace, "--spread-ties", "--rate", "3"),
		"--spread-ties spreads the trace's times, which --rate does not use");
	require_refused(RUN(fixture.trace, "--spread-ties", "--concurrency", "3"),
		"--spread-ties spreads the trace's times, which --concurrency does not use");
}

/* What `trace stat` finds is said of every run that uses the file's times, whatever else becomes of
   them, and of no other run. */
Test(pipes_cli, ties_are_said_whatever_becomes_of_the_rows)
{
	static const char *const make =
		"for i in 0 0 0 3000 3000 3000 5999 9000 9000; do echo '{\"timestamp\": '$i', "
		"\"session_id\": \"'$i'\", \"input_length\": 20, \"output_length\": 2}'; done "
		">ticks.jsonl";
	static const char *const drawn[] = {"", " --resample-seed 1", " --resample-seed 2"};
	static const char *const ways[] = {"", " --sessions closed", " --speedup 3",
		" --duration 20", " --max-requests 9", " --replicas 2", " --max-concurrency 2"};
	static const char *const loops[] = {
		" --loop fresh --max-requests 40", " --loop shared --duration 50"};
	static const char *const silent[] = {" --rate 3", " --concurrency 2"};
	char line[256], expected[256];

	free(shell(0, make));
	for (uint32_t i = 0; i < sizeof(drawn) / sizeof(drawn[0]); i++) {
		for (uint32_t j = 0; j < 2 * sizeof(ways) / sizeof(ways[0]); j++) {
			snprintf(line, sizeof(line), "%s replay ticks.jsonl%s%s%s 2>&1 >/dev/null",
				QUIRE, drawn[i], ways[j / 2], j % 2 == 0 ? "" : " --spread-ties");
			snprintf(expected, sizeof(expected),
				"note: times are quantised to 3 s: 2.2 requests share one; "
				"--spread-ties %s them inside it\n",
				j % 2 == 0 ? "draws" : "drew");
			char *text = shell(0, line);
			require(strstr(text, expected) != NULL, "%s: '%s'", line, text);
			free(text);
		}
		for (uint32_t j = 0; j < (i == 0 ? sizeof(loops) / sizeof(loops[0]) : 0); j++) {
			snprintf(line, sizeof(line), "%s replay ticks.jsonl%s 2>&1 >/dev/null",
				QUIRE, loops[j]);
			char *text = shell(0, line);
			require(strstr(text, "to 3 s: 2.2 requests share one; --spread-ties, "
					     "without --loop, draws them inside it\n") != NULL,
				"%s: '%s'", line, text);
			free(text);
		}
		for (uint32_t j = 0; j < sizeof(silent) / sizeof(silent[0]); j++) {
			snprintf(line, sizeof(line), "%s replay ticks.jsonl%s%s 2>&1 >/dev/null",
				QUIRE, drawn[i], silent[j]);
			char *text = shell(0, line);
			require(strstr(text, "quantised") == NULL, "%s: '%s'", line, text);
			free(text);
		}
	}
}

/* ---- a window of the timeline ---- */

enum { FROM_S = 10, TO_S = 25 };

/* Demands that every slice that begins also ends, and that nothing lies outside of the window.
   Returns the number of steps. */
static uint32_t check_events(const cJSON *events)
{
	uint32_t steps = 0, begun = 0, ended = 0;
	const cJSON *event;

	cJSON_ArrayForEach(event, events)
	{
		char kind = cJSON_GetObjectItem(event, "ph")->valuestring[0];
		double at_s = cJSON_GetObjectItem(event, "ts")->valuedouble / 1e6;
		require(at_s >= FROM_S && at_s <= TO_S, "an event at %g s", at_s);
		steps += kind == 'X';
		begun += kind == 'b';
		ended += kind == 'e';
	}
	require(begun == ended && begun > 0, "%u slices begin, %u end", begun, ended);
	return steps;
}

Test(pipes_cli, a_timeline_can_be_of_a_window)
{
	free(shell(0, QUIRE " replay trace.jsonl " SMALL " --steps --out r --timeline whole.json"));
	free(shell(0, QUIRE " replay trace.jsonl " SMALL " --out r --force --timeline all.json "
			    "--timeline-window :"));
	free(shell(0, "cmp whole.json all.json"));
	free(shell(0, QUIRE " replay trace.jsonl " SMALL " --rate 1 --steps --out r --force "
			    "--timeline part.json --timeline-window 10:25"));
	char *text = read_in(fixture.folder, "part.json");
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "%.200s", text);
	uint32_t steps = check_events(cJSON_GetObjectItem(root, "traceEvents"));
	char *expected =
		shell(0, "first=$(tail -n +2 r/requests.tsv | cut -f 4 | sort -n | head -1); "
			 "tail -n +2 r/steps.tsv | awk -v o=$first '$2 - o >= 10e9 && "
			 "$2 - o < 25e9' | wc -l");
	require(steps > 0 && steps == (uint32_t)atoi(expected), "%u steps, expected %s", steps,
		expected);
	free(expected);
	cJSON_Delete(root);
	free(text);
	require_refused(
		RUN(fixture.trace, "--out", "o", "--timeline", "t", "--timeline-window", "5:4"),
		"--timeline-window: found '5:4'");
	require_refused(RUN(fixture.trace, "--out", "o", "--timeline-window", "5:6"),
		"--timeline-window belongs to --timeline");
}
