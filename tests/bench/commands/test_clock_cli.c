#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"

/* The clock ends at 2^63 - 1 ns. What would pass it, a step or the arrival of a row, ends the run
   with a line and exit code 2; nothing wraps and nothing is left out in silence. */

/* sim/profiles/h200-qwen3-0.6b.json with decode steps that take 9.9e14 ns more. */
static void write_slow_profile(const char *folder)
{
	char *text = file_read(QUIRE_SOURCE_DIR "/sim/profiles/h200-qwen3-0.6b.json", NULL);
	cJSON *root = cJSON_Parse(text);
	cJSON *price = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "prices"), "graph");
	const double ns[] = {9.9e14};

	require(price != NULL, "the profile has no price of that name");
	cJSON_ReplaceItemInObject(price, "ns", cJSON_CreateDoubleArray(ns, 1));
	char *slow = cJSON_Print(root);
	temporary_write(folder, "slow.json", slow, NULL);
	cJSON_free(slow);
	cJSON_Delete(root);
	free(text);
}

Test(clock_cli, a_simulated_step_beyond_its_end_is_named)
{
	static const char *const overlaps[] = {"on", "off"};
	struct replay_fixture fixture;
	char profile[PATH_BYTES];

	replay_fixture_open(&fixture);
	write_slow_profile(fixture.folder);
	path_in(profile, fixture.folder, "slow.json");
	temporary_write(fixture.folder, "trace.jsonl",
		"{\"timestamp\":0,\"input_length\":10,\"output_length\":20000}\n", NULL);
	for (uint32_t i = 0; i < 2; i++) {
		struct process_result outcome = RUN(fixture.trace, "--gpu", profile, "--overlap",
			overlaps[i], "--out", fixture.out, "--force");
		require(strstr(outcome.err, ", gpu slow.json\n") != NULL, "no profile: %s",
			outcome.err);
		require_line(outcome, 2, "step 9317 would end beyond 2^63 ns: it starts at ");
		cJSON *summary = read_summary(fixture.out);
		cr_assert_str_eq(text_in(summary, NULL, "status"), "failed");
		require_equal(number_in(summary, "time", "steps"), 9317);
		require_equal(number_in(summary, "requests", "failed"), 1);
		cJSON_Delete(summary);
		require_no_parts(fixture.out);
	}
	replay_fixture_close(&fixture);
}

/* The cell of a column of steps.tsv in the row of a step, replaced. Owned by the caller. */
static char *with_time(const char *steps, uint32_t step, uint32_t column, const char *cell)
{
	const char *at = steps;

	for (uint32_t i = 0; i <= step; i++) {
		at = strchr(at, '\n') + 1;
	}
	for (uint32_t i = 0; i < column; i++) {
		at = strchr(at, '\t') + 1;
	}
	char *changed = malloc(strlen(steps) + strlen(cell) + 1);
	require(changed != NULL, "out of memory");
	sprintf(changed, "%.*s%s%s", (int)(at - steps), steps, cell, strchr(at, '\t'));
	return changed;
}

Test(clock_cli, times_that_no_run_recorded_are_refused_with_line_and_column)
{
	enum { START = 1, ELAPSED, GPU, HOST };
	static const struct {
		uint32_t step, column;
		const char *cell, *words;
	} cases[] = {
		{3, ELAPSED, "18446744073709551615", "steps.tsv:5: column elapsed_ns: found"},
		{3, ELAPSED, "9223372036854775808", "steps.tsv:5: column elapsed_ns: found"},
		{3, ELAPSED, "18446744073709550616", "steps.tsv:5: column elapsed_ns: found"},
		{3, GPU, "18446744073709551615", "steps.tsv:5: column gpu_ns: found"},
		{3, HOST, "18446744073709551615", "steps.tsv:5: column gpu_ns: found"},
		{3, START, "18446744073709551615", "steps.tsv:5: column start_ns: found"},
		{3, START, "9223372036854775807", "steps.tsv:5: column elapsed_ns: found"},
		{3, START, "0", "steps.tsv:5: column start_ns: found '0', expected a time from"},
		{0, START, "9223372036854775808", "steps.tsv:2: column start_ns: found"},
	};
	struct replay_fixture fixture;
	char played[PATH_BYTES];

	replay_fixture_open(&fixture);
	path_in(played, fixture.folder, "played");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	char *steps = read_in(fixture.out, RESULT_STEPS);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *changed = with_time(steps, cases[i].step, cases[i].column, cases[i].cell);
		temporary_write(fixture.out, RESULT_STEPS, changed, NULL);
		free(changed);
		require_line(RUN(fixture.trace, "--runner", "tape", "--tape", fixture.out, "--out",
				     played, "--force"),
			2, cases[i].words);
		cJSON *summary = read_summary(played);
		cr_assert_str_eq(text_in(summary, NULL, "status"), "failed");
		require_equal(number_in(summary, "time", "steps"), cases[i].step);
		cJSON_Delete(summary);
	}
	free(steps);
	replay_fixture_close(&fixture);
}

static void write_rows(const struct replay_fixture *fixture, uint32_t count, const char *format)
{
	FILE *file = fopen(fixture->trace, "wb");

	require(file != NULL, "cannot write %s", fixture->trace);
	for (uint32_t i = 0; i < count; i++) {
		fprintf(file, format, 100 * (i % 5 + 1));
	}
	fclose(file);
}

Test(clock_cli, a_row_that_never_comes_is_an_error_or_was_asked_for)
{
	struct replay_fixture fixture;
	char path[TEMPORARY_PATH_BYTES];

	replay_fixture_open(&fixture);
	write_rows(&fixture, 5000, "{\"timestamp\":0,\"input_length\":%u,\"output_length\":2}\n");
	/* one in 10^6 s: 2^62 ns have room for 4,611 */
	require_refused(RUN(fixture.trace, "--rate", "0.000001", "--arrivals", "constant", "--out",
				fixture.out),
		":4612: found a drawn arrival beyond 2^62 ns");
	require(!file_exists(fixture.out), "a result is left");
	require_good(RUN(fixture.trace, "--rate", "0.000001", "--arrivals", "constant",
		"--max-requests", "4611", "--out", fixture.out));
	cJSON *summary = read_summary(fixture.out);
	require_equal(number_in(summary, "requests", "finished"), 4611);
	cJSON_Delete(summary);
	require_good(RUN(fixture.trace, "--rate", "0.000001", "--arrivals", "constant",
		"--duration", "1000000000", "--out", fixture.out, "--force"));
	summary = read_summary(fixture.out);
	require_equal(number_in(summary, "requests", "finished"), 999);
	cJSON_Delete(summary);

	/* Three delays of 5e12 ms are longer than 2^63 ns. */
	write_rows(&fixture, 3,
		"{\"timestamp\":0,\"input_length\":%u,\"output_length\":2,\"session_id\":1,"
		"\"delay\":5e12}\n");
	require_refused(RUN(fixture.trace, "--sessions", "closed", "--out", fixture.out, "--force"),
		":3: found a turn that arrives beyond 2^63 ns");
	require_good(RUN(fixture.trace, "--sessions", "closed", "--duration", "1000000000", "--out",
		fixture.out, "--force"));
	/* A time of the trace, slower. */
	write_rows(&fixture, 1, "{\"timestamp\":1e7,\"input_length\":%u,\"output_length\":2}\n");
	require_refused(
		RUN(fixture.trace, "--speedup", "0.000001", "--out", fixture.out, "--force"),
		":1: found a time that is beyond 2^63 ns over --speedup");
	/* No speedup made these times; a larger one makes them come. */
	temporary_write(fixture.folder, "long.jsonl",
		"{\"timestamp\":0,\"input_length\":10,\"output_length\":3}\n"
		"{\"timestamp\":9.2e12,\"input_length\":10,\"output_length\":3}\n",
		path);
	require_refused(RUN(path, "--resample-seed", "1", "--out", fixture.out, "--force"),
		"found a drawn time beyond 2^63 ns (292 years), expected a larger --speedup "
		"beside --resample-seed");
	require_good(RUN(
		path, "--resample-seed", "1", "--speedup", "2", "--out", fixture.out, "--force"));
	require_refused(RUN(path, "--loop", "fresh", "--max-requests", "5", "--out", fixture.out,
				"--force"),
		"found a repeated time beyond 2^63 ns (292 years), expected a larger --speedup or "
		"a smaller --max-requests beside --loop");
	require_good(RUN(
		path, "--loop", "fresh", "--max-requests", "2", "--out", fixture.out, "--force"));
	require_good(RUN(path, "--loop", "fresh", "--max-requests", "5", "--speedup", "4", "--out",
		fixture.out, "--force"));
	replay_fixture_close(&fixture);
}
