#include <criterion/criterion.h>
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

/* What commands do to files and folders that are not theirs, and to their own when they are stopped
   at any moment. */

static struct replay_fixture fixture;

static void set_up(void)
{
	replay_fixture_open(&fixture);
}

static void tear_down(void)
{
	replay_fixture_close(&fixture);
}

TestSuite(files_cli, .init = set_up, .fini = tear_down, .timeout = 120);

#define QUIRE "'" QUIRE_EXECUTABLE "'"
#define SHELL(...) shell_run(fixture.folder, __VA_ARGS__)

/* Runs a line of the shell in the folder and demands this exit code and these words, if any, as the
   only line on stderr. */
static void require_shell(int code, const char *words, const char *line)
{
	struct process_result result = SHELL("%s", line);
	const char *end = strchr(result.err, '\n');

	require(result.code == code, "%s: code %d: %s%s", line, result.code, result.out,
		result.err);
	if (words != NULL) {
		require(strstr(result.err, words) != NULL, "%s: '%s' is not in: %s", line, words,
			result.err);
		require(end != NULL && end[1] == '\0', "%s: not one line: %s", line, result.err);
	}
	process_result_free(&result);
}

/* The names in a folder of the fixture, and what each file holds: equal if nothing changed. */
static char *state_of(const char *folder)
{
	struct process_result result = SHELL("cd '%s' && ls -A && cat $(ls -A)", folder);

	free(result.err);
	return result.out;
}

static void require_state(const char *folder, const char *expected)
{
	char *state = state_of(folder);

	require(strcmp(state, expected) == 0, "%s was changed: %.600s", folder, state);
	free(state);
}

/* Requests that small engines serve one after the other: many take longer than a test waits. */
static void write_plain_trace(uint32_t requests)
{
	FILE *file = fopen(fixture.trace, "wb");

	require(file != NULL, "cannot write %s", fixture.trace);
	for (uint32_t i = 0; i < requests; i++) {
		fprintf(file, "{\"timestamp\": %u, \"input_length\": 16, \"output_length\": 180}\n",
			i);
	}
	fclose(file);
}

static void wait_ms(long ms)
{
	const struct timespec moment = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&moment, NULL);
}

static struct process start_replay(const char *const *own)
{
	struct replay_arguments arguments = replay_arguments(own, true);
	struct process process;

	process_start(&process,
		&(struct process_order){.program = QUIRE_EXECUTABLE, .arguments = arguments.list});
	return process;
}

/* Starts a run without end into the fixture's folder and waits until it has written something. */
static struct process start_endless_run(void)
{
	char part[PATH_BYTES + 64];

	write_plain_trace(100000);
	struct process process = start_replay(LIST(fixture.trace, "--out", fixture.out));
	snprintf(part, sizeof(part), "%s/" RESULT_REQUESTS ".%ld.part", fixture.out,
		(long)process.id);
	while (file_byte_count(part) == 0 && waitpid(process.id, NULL, WNOHANG) == 0) {
		wait_ms(2);
	}
	return process;
}

/* ---- one owner ---- */

Test(files_cli, a_folder_that_is_being_written_is_refused_at_once)
{
	struct process first = start_endless_run();

	for (uint32_t is_forced = 0; is_forced < 2; is_forced++) {
		require_refused(RUN_SMALL(fixture.trace, "--out", fixture.out,
					is_forced ? "--force" : "--steps"),
			"another quire is writing to this folder");
	}
	require(kill(first.id, SIGINT) == 0, "it has ended");
	require_line(process_finish(&first), 1, "interrupted");
	require_no_parts(fixture.out);
	require_good(
		RUN_SMALL(fixture.trace, "--max-requests", "20", "--out", fixture.out, "--force"));
}

/* Before a model is opened, or a GPU. */
Test(files_cli, an_older_result_is_refused_before_anything_is_opened)
{
	write_plain_trace(10);
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out));
	require_refused(RUN_SMALL("missing.jsonl", "--out", fixture.out), "--force does");
	require_refused(RUN_SMALL("missing.jsonl", "--out", fixture.out, "--force"),
		"missing.jsonl: cannot be opened");
}

/* One of two runs, and the whole of its result. */
Test(files_cli, of_two_that_start_at_once_one_runs)
{
	char lone[2][PATH_BYTES];

	for (uint32_t i = 0; i < 2; i++) {
		path_in(lone[i], fixture.folder, i == 0 ? "first" : "second");
		require_good(
			RUN_SMALL(fixture.trace, "--out", lone[i], "--seed", i == 0 ? "1" : "2"));
	}
	for (uint32_t round = 0; round < 5; round++) {
		struct process runs[2];
		int codes[2];
		for (uint32_t i = 0; i < 2; i++) {
			runs[i] = start_replay(LIST(
				fixture.trace, "--out", fixture.out, "--seed", i == 0 ? "1" : "2"));
		}
		for (uint32_t i = 0; i < 2; i++) {
			struct process_result outcome = process_finish(&runs[i]);
			codes[i] = outcome.code;
			if (codes[i] == 0) {
				require_good(outcome);
				continue;
			}
			require(strstr(outcome.err, "--out") != NULL, "it says %s", outcome.err);
			process_result_free(&outcome);
		}
		require(codes[0] + codes[1] == 2, "codes %d and %d", codes[0], codes[1]);
		require_same_result(fixture.out, lone[codes[0] == 0 ? 0 : 1]);
		require_no_parts(fixture.out);
		require_shell(0, NULL, "test ! -e result/.quire-lock && rm -r result");
	}
}

/* ---- kill -9 ---- */

/* The old result, the new one, or none that a reader takes; and the folder can be used again. */
Test(files_cli, kill_9_leaves_the_old_result_or_the_new_one)
{
	char old[PATH_BYTES], new[PATH_BYTES];

	path_in(old, fixture.folder, "old");
	path_in(new, fixture.folder, "new");
	require_good(RUN_SMALL(fixture.trace, "--out", old, "--steps"));
	require_good(RUN_SMALL(fixture.trace, "--out", new, "--seed", "2"));
	for (long round = 0; round < 16; round++) {
		require_shell(0, NULL, "rm -rf result && cp -r old result");
		struct process run = start_replay(
			LIST(fixture.trace, "--out", fixture.out, "--seed", "2", "--force"));
		wait_ms(round * 2);
		kill(run.id, SIGKILL);
		struct process_result outcome = process_finish(&run);
		process_result_free(&outcome);
		char *summary = read_in(fixture.out, RESULT_SUMMARY);
		char *steps = read_in(fixture.out, RESULT_STEPS);
		if (summary == NULL) {
			require_shell(2, "no summary.json", QUIRE " report result --out page");
		} else {
			/* Only the old one has steps. */
			require_same_result(fixture.out, steps == NULL ? new : old);
		}
		free(summary);
		free(steps);
		require_good(
			RUN_SMALL(fixture.trace, "--out", fixture.out, "--seed", "2", "--force"));
		require_same_result(fixture.out, new);
	}
}

/* ---- what is not quire's ---- */

Test(files_cli, a_folder_that_holds_any_file_of_a_result_is_refused)
{
	static const char *const names[] = {RESULT_REQUESTS, RESULT_TIMELINE, RESULT_STEPS,
		RESULT_KERNELS, RESULT_LATENCY, RESULT_STEP_GRID, RESULT_PROVENANCE,
		RESULT_SUMMARY};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char line[256];
		snprintf(line, sizeof(line), "mkdir result && echo mine >result/%s", names[i]);
		require_shell(0, NULL, line);
		char *before = state_of("result");
		require_refused(RUN_SMALL(fixture.trace, "--out", fixture.out), names[i]);
		require_state("result", before);
		free(before);
		require_shell(0, NULL, "rm -r result");
	}
}

/* What a link of a result points to is not the result's, and stays. */
Test(files_cli, force_replaces_a_link_and_not_its_target)
{
	static const char *const names[] = {RESULT_REQUESTS, RESULT_STEPS, RESULT_LATENCY};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char line[256];
		require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
		snprintf(line, sizeof(line),
			"echo mine >kept && rm result/%s && ln -s ../kept result/%s", names[i],
			names[i]);
		require_shell(0, NULL, line);
		require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps", "--force"));
		snprintf(line, sizeof(line),
			"test $(cat kept) = mine && test ! -L result/%s && test -s result/%s && "
			"rm -r kept result",
			names[i], names[i]);
		require_shell(0, NULL, line);
	}
}

Test(files_cli, force_replaces_only_a_result_of_quire)
{
	static const char *const summaries[] = {"echo '{\"mine\": 1}' >result/summary.json",
		"ln -s ../trace.jsonl result/summary.json", "mkdir result/summary.json",
		"mkfifo result/summary.json", "mkdir result/steps.tsv"};

	for (size_t i = 0; i < sizeof(summaries) / sizeof(summaries[0]); i++) {
		require_shell(0, NULL, "mkdir result && echo notes >result/notes.txt");
		require_shell(0, NULL, summaries[i]);
		require_refused(RUN_SMALL(fixture.trace, "--out", fixture.out, "--force"), "--out");
		require_shell(0, NULL,
			"test $(cat result/notes.txt) = notes && test $(ls -A result | wc -l) = 2 "
			"&& rm -r result");
	}
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps"));
	require_shell(0, NULL, "echo notes >result/notes.txt");
	require_good(RUN_SMALL(fixture.trace, "--out", fixture.out, "--force"));
	require_shell(
		0, NULL, "test $(cat result/notes.txt) = notes && test ! -e result/steps.tsv");
}

/* Names that a commit may be thought to use: of each file of a result, with an ending. */
Test(files_cli, other_files_of_the_folder_stay)
{
	char timeline[PATH_BYTES];

	path_in(timeline, fixture.folder, "t.json");
	require_good(
		RUN_SMALL(fixture.trace, "--out", fixture.out, "--steps", "--timeline", timeline));
	require_shell(0, NULL,
		"for f in result/* t.json; do for e in old part tmp new bak 1.old 1.part; do "
		"echo \"mine $f $e\" >\"$f.$e\"; done; done; "
		"md5sum result/*.*.* t.json.* >sums && test $(wc -l <sums) = 56");
	require_good(RUN_SMALL(
		fixture.trace, "--out", fixture.out, "--force", "--steps", "--timeline", timeline));
	require_good(
		RUN_SMALL(fixture.trace, "--out", fixture.out, "--force", "--timeline", timeline));
	require_shell(0, NULL, "md5sum -c --quiet sums && test $(ls result/*.*.* | wc -l) = 49");
}

/* Line of the shell, and the file that it must not touch. Each also under another name. */
static const struct {
	const char *line, *file;
} onto_inputs[] = {
	{QUIRE " replay trace.jsonl --out result --timeline trace.jsonl", "trace.jsonl"},
	{QUIRE " replay trace.jsonl --out result --timeline link", "trace.jsonl"},
	{QUIRE " replay trace.jsonl --out result --timeline tape/summary.json --runner tape "
	       "--tape tape",
		"tape/summary.json"},
	{QUIRE " replay trace.jsonl --out tape --force --steps --runner tape --tape tape",
		"tape/steps.tsv"},
	{QUIRE " replay other/kernels.tsv --out other --force", "other/kernels.tsv"},
	{QUIRE " trace convert trace.jsonl --out trace.jsonl", "trace.jsonl"},
	{QUIRE " trace convert link --out trace.jsonl", "trace.jsonl"},
	{QUIRE " trace cache trace.jsonl --out link", "trace.jsonl"},
	{QUIRE " trace make --requests 9 --lengths-from trace.jsonl --force --out link",
		"trace.jsonl"},
	{QUIRE " report tape --out tape/summary.json", "tape/summary.json"},
	{QUIRE " report tape --out tape/timeline.tsv", "tape/timeline.tsv"},
	{QUIRE " kernels --from kernels.tsv --plot kernels.tsv", "kernels.tsv"},
	{QUIRE " replay trace.jsonl --out result --gpu h.json --timeline h.json", "h.json"},
};

/* Tables of a result that the command does not open, and those of another one. */
static const struct {
	const char *line, *file;
} onto_results[] = {
	{QUIRE " price tape --gpu h200-datasheet --out tape/requests.tsv", "tape/requests.tsv"},
	{QUIRE " price tape --gpu h200-datasheet --out ./tape/latency.tsv", "tape/latency.tsv"},
	{QUIRE " replay trace.jsonl --out result --runner tape --tape tape --timeline "
	       "tape/requests.tsv",
		"tape/requests.tsv"},
	{QUIRE " replay trace.jsonl --out result --timeline tape/step_grid.tsv",
		"tape/step_grid.tsv"},
	{QUIRE " trace cache trace.jsonl --out tape/requests.tsv", "tape/requests.tsv"},
	{QUIRE " trace cache trace.jsonl --plot tape/requests.tsv", "tape/requests.tsv"},
	{QUIRE " trace stat trace.jsonl --plot tape/summary.json", "tape/summary.json"},
	{QUIRE " trace convert trace.jsonl --out tape/timeline.tsv", "tape/timeline.tsv"},
	{QUIRE " trace make --requests 9 --input 9 --output 9 --out tape/requests.tsv",
		"tape/requests.tsv"},
	{QUIRE " calibrate --points points.tsv --name summary --out tape", "tape/summary.json"},
	{QUIRE " calibrate --points points.tsv --name a --out c --plot tape/requests.tsv",
		"tape/requests.tsv"},
	{QUIRE " report tape --out tape/requests.tsv", "tape/requests.tsv"},
};

Test(files_cli, no_output_replaces_what_the_command_reads)
{
	char tape[PATH_BYTES];

	write_plain_trace(60);
	path_in(tape, fixture.folder, "tape");
	require_good(RUN(fixture.trace, "--out", tape, "--steps"));
	require_shell(0, NULL,
		"ln trace.jsonl link && cp -r tape other && cp trace.jsonl other/kernels.tsv && "
		"cp '" QUIRE_SOURCE_DIR "/sim/profiles/h200-datasheet.json' h.json && "
		"cp '" QUIRE_SOURCE_DIR "/bench/kernels/kernels_h200.tsv' kernels.tsv");
	for (size_t i = 0; i < sizeof(onto_inputs) / sizeof(onto_inputs[0]); i++) {
		char *before = read_in(fixture.folder, onto_inputs[i].file);
		require_shell(2, "", onto_inputs[i].line);
		char *after = read_in(fixture.folder, onto_inputs[i].file);
		require(after != NULL && strcmp(before, after) == 0, "%s: lost",
			onto_inputs[i].line);
		require_no_parts(fixture.folder);
		require_no_parts(tape);
		require(!file_exists(fixture.out), "%s: a folder is left", onto_inputs[i].line);
		free(before);
		free(after);
	}
}

Test(files_cli, no_output_replaces_a_table_of_a_result)
{
	char tape[PATH_BYTES];

	write_plain_trace(60);
	path_in(tape, fixture.folder, "tape");
	require_good(RUN(fixture.trace, "--out", tape, "--steps"));
	char *before = state_of("tape");
	for (size_t i = 0; i < sizeof(onto_results) / sizeof(onto_results[0]); i++) {
		require_shell(2, strrchr(onto_results[i].file, '/'), onto_results[i].line);
		require_shell(2, "found the name of a file of a result", onto_results[i].line);
		require_state("tape", before);
		require(!file_exists(fixture.out), "%s: a folder is left", onto_results[i].line);
	}
	free(before);
}

/* The second of two outputs with one name is refused: the first stays. */
Test(files_cli, two_outputs_of_a_command_are_two_files)
{
	write_plain_trace(60);
	require_shell(0, NULL,
		"sed 's/}$/, \"hash_ids\": [1]}/' trace.jsonl >ids.jsonl && "
		"head -n 90 '" QUIRE_SOURCE_DIR
		"/sim/profiles/points/h200-qwen3-8b.tsv' >points.tsv");
	require_shell(2, "is written to twice by this command",
		QUIRE " trace cache ids.jsonl --out curve --plot ./curve");
	require_shell(0, NULL, "grep -q '<svg' curve");
	require_shell(2, "is written to twice by this command",
		QUIRE " calibrate --points points.tsv --name y --out c --plot c/y.json");
	require_shell(0, NULL, "grep -q quire-calibrated c/y.json");
	require_no_parts(fixture.folder);
}

Test(files_cli, the_timeline_is_no_file_of_the_result)
{
	write_plain_trace(60);
	require_shell(2, "found the name of a file of a result",
		QUIRE " replay trace.jsonl --out result --timeline ./result/steps.tsv");
	require(!file_exists(fixture.out), "a folder is left");
}

/* ---- pipes ---- */

/* Lines of the shell, and the file of a result, if any, in whose place a pipe stands. */
static const struct {
	const char *line, *file;
} onto_pipes[] = {
	{QUIRE " replay trace.jsonl --out result --timeline pipe", NULL},
	{QUIRE " replay trace.jsonl --out result --gpu ./pipe.json", NULL},
	{QUIRE " replay trace.jsonl --out result --model ./model", NULL},
	{QUIRE " replay pipe --out result", NULL},
	{QUIRE " trace stat pipe", NULL},
	{QUIRE " kernels --from pipe --plot k.svg", NULL},
	{QUIRE " calibrate --points pipe --name a --out c", NULL},
	{QUIRE " replay trace.jsonl --out result --runner tape --tape tape", RESULT_SUMMARY},
	{QUIRE " replay trace.jsonl --out result --runner tape --tape tape", RESULT_STEPS},
	{QUIRE " replay trace.jsonl --out tape --force", RESULT_SUMMARY},
	{QUIRE " compare tape tape", RESULT_SUMMARY},
	{QUIRE " compare tape tape", RESULT_STEPS},
	{QUIRE " report tape --out page.html", RESULT_SUMMARY},
	{QUIRE " report tape --out page.html", RESULT_TIMELINE},
	{QUIRE " report tape --out page.html", RESULT_PROVENANCE},
};

/* Nothing waits for the other end of a pipe. */
Test(files_cli, a_pipe_that_nobody_uses_is_refused)
{
	char tape[PATH_BYTES], line[256];

	write_plain_trace(60);
	path_in(tape, fixture.folder, "tape");
	require_good(RUN(fixture.trace, "--out", tape, "--steps"));
	require_shell(0, NULL,
		"mkfifo pipe pipe.json && mkdir model && mkfifo model/config.json && cp -r tape "
		"whole");
	for (size_t i = 0; i < sizeof(onto_pipes) / sizeof(onto_pipes[0]); i++) {
		const char *name = onto_pipes[i].file;
		if (name != NULL) {
			snprintf(line, sizeof(line),
				"rm -r tape && cp -r whole tape && rm tape/%s && mkfifo tape/%s",
				name, name);
			require_shell(0, NULL, line);
		}
		require_shell(2, "", onto_pipes[i].line);
	}
	require(!file_exists(fixture.out), "a folder is left");
}

/* ---- signals ---- */

Test(files_cli, a_hang_up_keeps_what_was_measured)
{
	struct process run = start_endless_run();

	require(kill(run.id, SIGHUP) == 0, "it has ended");
	require_line(process_finish(&run), 1, "interrupted");
	cJSON *summary = read_summary(fixture.out);
	cr_assert_str_eq(text_in(summary, NULL, "status"), "interrupted");
	cJSON_Delete(summary);
	require_no_parts(fixture.out);
}

Test(files_cli, nohup_keeps_a_hang_up_away)
{
	require_shell(0, NULL,
		QUIRE " trace make --requests 20000 --input 16 --output 180 --out long.jsonl && "
		      "nohup " QUIRE " replay long.jsonl --out result >out 2>&1 & pid=$!; "
		      "sleep 0.2; kill -HUP $pid; wait $pid && grep -q complete "
		      "result/summary.json");
}

/* Commands that write one file end at once. */
Test(files_cli, a_signal_leaves_nothing_of_a_file)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXCPU, SIGUSR1, SIGUSR2};
	static const char *const arguments[] = {"quire", "trace", "make", "--requests", "90000000",
		"--input", "5", "--output", "5", "--out", "new.jsonl", NULL};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct process make;
		char *names = strdup("");
		process_start(&make, &(struct process_order){.program = QUIRE_EXECUTABLE,
					     .arguments = arguments,
					     .folder = fixture.folder});
		while (strstr(names, ".part") == NULL) {
			struct process_result listed = SHELL("ls -A");
			free(names);
			free(listed.err);
			names = listed.out;
		}
		free(names);
		require(kill(make.id, signals[i]) == 0, "it has ended");
		struct process_result outcome = process_finish(&make);
		if (i < 3) {
			require(outcome.code == 1, "code %d", outcome.code);
			cr_assert_str_eq(outcome.err, "quire: interrupted\n");
		} else {
			require(outcome.code == -1 && outcome.err[0] == '\0', "%s", outcome.err);
		}
		process_result_free(&outcome);
		require_no_parts(fixture.folder);
		require_shell(0, NULL, "test ! -e new.jsonl");
	}
}

/* ---- names ---- */

/* A terminal must not obey what a file says. */
Test(files_cli, control_characters_of_files_do_not_reach_the_terminal)
{
	static const char *const lines[] = {QUIRE
		" replay trace.jsonl --out other --runner tape --tape result",
		QUIRE " compare result result", QUIRE " compare result result --json",
		QUIRE " report result --out page.html",
		QUIRE " replay trace.jsonl --out other --gpu ./profile.json",
		QUIRE " info --model ./model", "cat page.html"};

	write_plain_trace(60);
	require_good(RUN(fixture.trace, "--out", fixture.out, "--steps"));
	require_shell(0, NULL,
		"sed -i 's/\"status\":/\"ev\\\\u001b[31mil\\\\u009b\\\\u0007\": 1, \"status\":/; "
		"s/complete/com\\\\u001b]0;plete/' result/summary.json && "
		"printf 'step\\t\\033[2J\\n' >result/steps.tsv && mkdir model && "
		"printf '{\"model_type\": \"\\\\u001b[31m\"}' >model/config.json && "
		"printf '{\"schema\": \"\\\\u001b[31m\\t\"}' >profile.json");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct process_result result = SHELL("%s", lines[i]);
		const char *texts[] = {result.out, result.err};
		for (uint32_t j = 0; j < 2; j++) {
			require(strpbrk(texts[j], "\033\007") == NULL &&
					strstr(texts[j], "\xc2\x9b") == NULL,
				"%s: %s", lines[i], texts[j]);
		}
		process_result_free(&result);
	}
}

Test(files_cli, a_name_that_is_no_utf_8_gives_valid_json)
{
	write_plain_trace(60);
	require_shell(0, NULL,
		"name=$(printf 'tr\\377ace\\033.jsonl') && cp trace.jsonl \"$name\" && " QUIRE
		" replay \"$name\" --out result >out && " QUIRE " compare result result --json "
		">compared && iconv -f UTF-8 -t UTF-8 result/summary.json result/provenance.json "
		"compared >valid");
	cJSON *summary = read_summary(fixture.out);
	const char *name = text_in(summary, "trace", "name");
	require(strcmp(name, "tr?ace\033.jsonl") == 0, "found %s", name);
	cJSON_Delete(summary);
}

/* ---- the standard output ---- */

Test(files_cli, a_full_standard_output_is_one_line)
{
	static const char *const lines[] = {QUIRE " --help >/dev/full", QUIRE " help >/dev/full",
		QUIRE " replay --help >/dev/full", QUIRE " version >/dev/full",
		QUIRE " trace make --requests 9 --input 9 --output 9 --out - >/dev/full",
		QUIRE " trace stat trace.jsonl >/dev/full",
		QUIRE " trace convert trace.jsonl --out - >/dev/full"};

	write_plain_trace(60);
	if (access("/dev/full", W_OK) != 0) {
		cr_skip_test("/dev/full is not here");
	}
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		require_shell(2, "No space left on device", lines[i]);
	}
}

/* As root a rename onto /dev/stdout would replace it for the whole machine. */
Test(files_cli, dev_stdout_is_written_to_and_not_replaced)
{
	require_shell(0, NULL,
		QUIRE " trace make --requests 9 --input 9 --output 9 --out /dev/stdout >made && "
		      "test $(wc -l <made) = 9 && test -L /dev/stdout");
	/* But files may lie below /dev too. */
	require_shell(0, NULL,
		"test ! -w /dev/shm || { folder=$(mktemp -d /dev/shm/quire-test-XXXXXX) && " QUIRE
		" trace make --requests 9 --input 9 --output 9 --out $folder/made && "
		"test $(wc -l <$folder/made) = 9 && rm -r $folder; }");
}
