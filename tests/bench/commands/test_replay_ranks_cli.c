#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"

/* `quire replay -tp 2` with a process for each rank on the CPU, as its users see failures: one
   line, the exit code, the results of the finished steps, and no process left. */

enum { MS = 1000 * 1000, SECONDS_MAX = 15 };

static const char model[] = QUIRE_SOURCE_DIR "/tests/fixtures/models/group2";

/* A run that takes minutes if nothing ends it. */
struct long_run {
	char folder[TEMPORARY_PATH_BYTES], trace[PATH_BYTES], out[PATH_BYTES];
	struct process process;
	pid_t rank; /* rank 1 */
};

/* The first child of a process; 0: none yet. */
static pid_t child_of(pid_t parent)
{
	char path[128];
	int child = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	FILE *file = fopen(path, "r");
	if (file != NULL) {
		if (fscanf(file, "%d", &child) != 1) {
			child = 0;
		}
		fclose(file);
	}
	return child;
}

static bool is_there(pid_t pid)
{
	char path[64], state = 'X';

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *file = fopen(path, "r");
	if (file == NULL) {
		return false;
	}
	bool is_read = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
	fclose(file);
	return is_read && state != 'Z' && state != 'X';
}

/* Starts the run and waits until requests have finished. */
static void long_run_start(struct long_run *run)
{
	char part[PATH_BYTES], command[2 * PATH_BYTES];

	temporary_folder(run->folder);
	path_in(run->trace, run->folder, "trace.jsonl");
	path_in(run->out, run->folder, "result");
	snprintf(command, sizeof(command),
		"%s trace make --requests 100000 --input 20 --output 3 --seed 1 --out %s",
		QUIRE_EXECUTABLE, run->trace);
	struct process_result made = shell_run(run->folder, "%s", command);
	require(made.code == 0, "%s", made.err);
	process_result_free(&made);
	const char *const arguments[] = {"quire", "replay", run->trace, "--out", run->out,
		"--model", model, "--runner", "reference", "-tp", "2", "--trace-block-size", "16",
		"--kv-blocks", "400", "--block-size", "8", "--max-num-seqs", "8",
		"--max-num-batched-tokens", "512", NULL};
	const struct process_order order = {.program = QUIRE_EXECUTABLE, .arguments = arguments};
	process_start(&run->process, &order);
	snprintf(command, sizeof(command), RESULT_REQUESTS ".%d.part", (int)run->process.id);
	path_in(part, run->out, command);
	for (uint32_t i = 0; i < 1000 * SECONDS_MAX && file_byte_count(part) == 0; i++) {
		pause_ns(MS);
	}
	require(file_byte_count(part) > 0, "no request has finished");
	run->rank = child_of(run->process.id);
	require(run->rank > 0 && is_there(run->rank), "there is no second rank");
}

/* Waits for the end: it takes less than 15 s, and leaves one line and no process. */
static void require_end(struct long_run *run, int code, const char *words)
{
	uint64_t start_ns = monotonic_ns();
	struct process_result outcome = process_finish(&run->process);

	require(monotonic_ns() - start_ns < UINT64_C(1000) * SECONDS_MAX * MS, "it took too long");
	require_line(outcome, code, words);
	require(!is_there(run->rank), "rank 1 is still there");
}

/* The result holds what had been measured. */
static void require_result(const struct long_run *run, const char *failure)
{
	cJSON *summary = read_summary(run->out);
	const cJSON *text = cJSON_GetObjectItem(summary, "failure");

	if (failure != NULL) {
		require(cJSON_IsString(text), "no failure in the summary");
		require(strstr(text->valuestring, failure) != NULL, "%s", text->valuestring);
	}
	require(number_in(summary, "time", "steps") > 0, "no steps");
	cJSON_Delete(summary);
	require_no_parts(run->out);
}

static void require_failure(int signal, const char *words)
{
	struct long_run run;

	long_run_start(&run);
	kill(run.rank, signal);
	require_end(&run, 2, words);
	require_result(&run, words);
	temporary_remove(run.folder);
}

Test(replay_ranks, a_killed_rank_ends_the_run)
{
	require_failure(SIGKILL, "rank 1: killed by signal 9 (Killed) in step ");
}

/* After the 10 s that a step may wait. */
Test(replay_ranks, a_rank_that_hangs_ends_the_run, .timeout = 60)
{
	require_failure(SIGSTOP, "rank 1: no part of an exchange for 10.0 s in step ");
}

Test(replay_ranks, an_interrupt_ends_the_run_with_its_results)
{
	struct long_run run;

	long_run_start(&run);
	/* As a terminal does. */
	kill(run.rank, SIGINT);
	kill(run.process.id, SIGINT);
	require_end(&run, 1, "interrupted; ");
	require_result(&run, NULL);
	temporary_remove(run.folder);
}

Test(replay_ranks, no_rank_outlives_a_killed_run)
{
	struct long_run run;

	long_run_start(&run);
	kill(run.process.id, SIGKILL);
	struct process_result outcome = process_finish(&run.process);
	for (uint32_t i = 0; i < 1000 * SECONDS_MAX && is_there(run.rank); i++) {
		pause_ns(MS);
	}
	require(!is_there(run.rank), "rank 1 is still there");
	process_result_free(&outcome);
	temporary_remove(run.folder);
}

Test(replay_ranks, a_transport_without_ranks_is_refused_before_a_file_is_written)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	struct process_result outcome = shell_run(folder,
		"'%s' calibrate --runner cuda --model qwen3-0.6b --name a --out c "
		"--tp-transport peer; code=$?; ls; exit $code",
		QUIRE_EXECUTABLE);
	require(outcome.code == 2, "exit code %d: %s", outcome.code, outcome.err);
	require(strstr(outcome.err, "above 1") != NULL, "%s", outcome.err);
	require(strcmp(outcome.out, "") == 0, "left or said: %s", outcome.out);
	process_result_free(&outcome);
	temporary_remove(folder);
}
