#include "bench/sweep/sweep.h"

#include "bench/jobs/jobs.h"
#include "bench/record/owned_folder.h"
#include "bench/replay/runners.h"
#include "bench/sweep/sweep_internal.h"
#include "bench/sweep/sweep_progress.h"
#include "engine/base/clock.h"
#include "engine/base/input_file.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/ranks/launch.h"
#include "reports/results/plan_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the folder ---- */

/* Whether DIR/NAME is there. */
static enum status is_there(
	const struct sweep *sweep, const char *name, bool *found, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s", sweep->request->out, name));
	return path_is_there(path, found, error);
}

/* Whether the folder holds something. Hidden names, such as that of the lock, do not count, nor
   what a sweep leaves that was killed as it began: sweep.json under the name it is written by. */
static enum status has_entries(const char *path, bool *has, struct error *error)
{
	DIR *directory = opendir(path);
	const struct dirent *entry;
	static const char begun[] = SWEEP_SUMMARY "."; /* sweep.json.123.part */

	if (directory == NULL) {
		return error_set(error, STATUS_FILE, "--out %.200s: cannot be read: %s", path,
			strerror(errno));
	}
	*has = false;
	while (!*has && (entry = readdir(directory)) != NULL) {
		const char *name = entry->d_name;
		*has = name[0] != '.' && strncmp(name, begun, strlen(begun)) != 0;
	}
	closedir(directory);
	return STATUS_OK;
}

/* Of a sweep's folder; the first says that it is one. */
static const char *const files[] = {SWEEP_SUMMARY, SWEEP_RUNS, SWEEP_CACHE, RESULT_PROVENANCE};
enum { FILES = sizeof(files) / sizeof(files[0]) };

/* A folder without sweep.json must be empty, for its files would lie between those of the runs, and
   a run could have the name of one. */
static enum status refuse_foreign(const char *out, struct error *error)
{
	bool has = false;

	TRY(owned_folder_refuse_old(out, files + 1, FILES - 1, error));
	TRY(has_entries(out, &has, error));
	return !has ? STATUS_OK
		    : error_set(error, STATUS_FILE,
			      "--out %.200s: holds files and no " SWEEP_SUMMARY
			      ", so no sweep made it; name another folder, or --force writes "
			      "into it",
			      out);
}

/* The sweep replaces what it has read of its folder. */
static enum status forget_files(const char *out, struct error *error)
{
	char path[PATH_BYTES_MAX];

	for (uint32_t i = 0; i < FILES; i++) {
		TRY(path_format(path, error, "%s/%s", out, files[i]));
		input_file_forget(path);
	}
	return STATUS_OK;
}

/* Every complete run of the folder's table must be of this grid, or the table would lose it. */
static enum status check_rows(struct sweep *sweep, struct error *error)
{
	struct sweep_file *old = memory_take(1, sizeof(*old));
	struct error unreadable = {0};
	enum status status = STATUS_OK;

	/* A table that cannot be read has nothing to lose. */
	if (sweep_file_open(old, sweep->request->out, &unreadable) == STATUS_OK) {
		for (uint32_t i = 0; i < old->run_count && status == STATUS_OK; i++) {
			const char *name = old->runs[i].name;
			bool is_kept = old->runs[i].status == SWEEP_RUN_COMPLETE;
			if (is_kept && !grid_has(&sweep->grid, name)) {
				status = error_set(error, STATUS_FILE,
					"--out %.200s: " SWEEP_RUNS
					" has the run %.150s, which --grid lacks; name another "
					"folder, give a grid with all its runs, or --force drops "
					"it",
					sweep->request->out, name);
			}
		}
	}
	sweep_file_close(old);
	free(old);
	TRY(status);
	return forget_files(sweep->request->out, error);
}

/* Refuses a folder in which the sweep would replace what is not its own, and notes which of its
   runs are whole. */
static enum status check_folder(struct sweep *sweep, struct error *error)
{
	const char *out = sweep->request->out;
	bool is_sweep, is_result = false, is_plan = false;

	TRY(is_there(sweep, SWEEP_SUMMARY, &is_sweep, error));
	sweep->is_new = !is_sweep;
	TRY(is_there(sweep, RESULT_SUMMARY, &is_result, error));
	TRY(is_there(sweep, PLAN_SUMMARY, &is_plan, error));
	if (is_result || is_plan) {
		return error_set(error, STATUS_FILE,
			"--out %.200s: holds a result of its own; name another folder", out);
	}
	if (!sweep->request->is_forced) {
		TRY(is_sweep ? check_rows(sweep, error) : refuse_foreign(out, error));
	}
	for (uint32_t i = 0; i < sweep->grid.count && !sweep->request->is_forced; i++) {
		enum sweep_item_state state = sweep_item_look(sweep, i);
		sweep->items[i].was_whole = state == SWEEP_ITEM_WHOLE;
		if (is_sweep && state == SWEEP_ITEM_OTHER) {
			return error_set(error, STATUS_FILE,
				"--out %.200s: %s is of another trace, other options or another "
				"build; name another folder, or --force replaces it",
				out, sweep->grid.list[i].name);
		}
	}
	return STATUS_OK;
}

/* ---- the runs ---- */

/* Queues the runs that are not whole; numbers: (grid.count) the item of each job. */
static uint32_t queue(struct sweep *sweep, struct jobs *jobs, uint32_t *numbers)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		struct sweep_item *item = &sweep->items[i];
		item->status = item->was_whole ? SWEEP_RUN_COMPLETE : SWEEP_RUN_MISSING;
		if (!item->was_whole) {
			numbers[count++] = i;
			jobs_add(jobs, &i, sizeof(i));
		}
	}
	return count;
}

/* What came of a job: nothing, the line of a failure, or the end of its workers. */
static void note(struct sweep *sweep, struct sweep_item *item, uint32_t index,
	const struct text *result, const struct error *error)
{
	const char *failure = error->status != STATUS_OK ? error->text : result->bytes;

	if (failure == NULL && sweep_item_look(sweep, index) != SWEEP_ITEM_WHOLE) {
		failure = "the run's folder is not whole here: --out must be on a file system "
			  "that all hosts share";
	}
	item->status = failure == NULL ? SWEEP_RUN_COMPLETE : SWEEP_RUN_FAILED;
	item->is_refused = error->status == STATUS_USAGE || error->status == STATUS_INPUT;
	if (failure != NULL) {
		text_add(&item->message, failure);
	}
}

static enum status do_all(struct sweep *sweep, struct jobs *jobs, struct error *error)
{
	uint32_t *numbers = memory_take(sweep->grid.count, sizeof(*numbers));
	uint32_t count = queue(sweep, jobs, numbers);
	struct sweep_progress progress;
	struct text result = {0};
	enum status status = sweep_begin(sweep, error);

	sweep->has_begun = status == STATUS_OK;
	sweep_progress_begin(&progress, !sweep->request->is_silent, sweep->grid.count, count);
	while (status == STATUS_OK && jobs_pending(jobs) > 0) {
		uint64_t number;
		struct error own = {0};
		(void)jobs_next(jobs, &number, &result, &own);
		if (number == JOBS_NONE) {
			status = error_set(error, own.status, "%s", own.text);
			break;
		}
		struct sweep_item *item = &sweep->items[numbers[number]];
		note(sweep, item, numbers[number], &result, &own);
		sweep_progress_add(&progress, item->status == SWEEP_RUN_FAILED);
	}
	sweep_progress_end(&progress);
	text_deinit(&result);
	free(numbers);
	return status;
}

/* ---- the end ---- */

static uint32_t count_of(const struct sweep *sweep, enum sweep_run_status status)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		count += sweep->items[i].status == status;
	}
	return count;
}

/* The verdict of a sweep whose files are written. ended: how doing the runs ended. */
static enum status conclude(
	const struct sweep *sweep, const struct error *ended, struct error *error)
{
	uint32_t all = sweep->grid.count, failed = count_of(sweep, SWEEP_RUN_FAILED);
	uint32_t complete = count_of(sweep, SWEEP_RUN_COMPLETE), before = 0;
	const char *out = sweep->request->out;
	bool is_refused = true;

	for (uint32_t i = 0; i < all; i++) {
		before += sweep->items[i].was_whole;
		is_refused = is_refused && sweep->items[i].is_refused;
	}
	if (!sweep->request->is_silent) {
		TRY(sweep_warn_of_memory(sweep, error));
		TRY(sweep_tell(sweep, error));
		TRY(sweep_print(sweep, error));
		printf("%u of %u %s %s complete (%u %s before), %u failed; %s/" SWEEP_RUNS
		       " has %s\n",
			complete, all, word_of_count(all, "run", "runs"),
			word_of_count(complete, "is", "are"), before,
			word_of_count(before, "was", "were"), failed, out,
			word_of_count(all, "it", "them all"));
		fflush(stdout);
	}
	if (ended->status == STATUS_VERDICT) {
		return error_set(error, STATUS_VERDICT,
			"interrupted: %u of %u %s in %.200s %s complete; the same command goes on "
			"from there",
			complete, all, word_of_count(all, "run", "runs"), out,
			word_of_count(complete, "is", "are"));
	}
	if (ended->status != STATUS_OK) {
		return error_set(error, ended->status, "%s", ended->text);
	}
	if (is_refused) {
		return error_set(error, STATUS_INPUT, "no run can be done: %s",
			sweep->items[0].message.bytes);
	}
	return failed == 0 ? STATUS_OK
			   : error_set(error, STATUS_VERDICT,
				     "%u of %u %s failed: %.200s/" SWEEP_RUNS " says why", failed,
				     all, word_of_count(all, "run", "runs"), out);
}

static enum status manage(struct sweep *sweep, struct jobs *jobs, struct error *error)
{
	struct error ended = {0};

	TRY(check_folder(sweep, error));
	do_all(sweep, jobs, &ended);
	if (!sweep->has_begun) {
		return error_set(error, ended.status, "%s", ended.text);
	}
	TRY(sweep_write(sweep, error));
	if (ended.status == STATUS_OK) {
		TRY(sweep_write_cache(sweep, error));
	}
	return conclude(sweep, &ended, error);
}

/* ---- beginning ---- */

/* How many workers. Runs that compute measure the machine, so they are alone on it. */
static enum status choose_workers(
	struct sweep *sweep, const char *runner, uint32_t *workers, struct error *error)
{
	const struct sweep_request *request = sweep->request;
	const struct runner_entry *entry;

	uint32_t launched = rank_launch_find().count;
	*workers = request->jobs > 0 ? (uint32_t)request->jobs : jobs_default_workers();
	TRY(runner_find(runner, &entry, error));
	if (entry->kind != RUNNER_COMPUTED) {
		return STATUS_OK;
	}
	sweep->is_alone = true;
	if (launched > 1) {
		return error_set(error, STATUS_USAGE,
			"mpirun started %u processes, but runs of --runner %s are measured, so one "
			"at a time",
			launched, runner);
	}
	if (request->jobs > 1) {
		return error_set(error, STATUS_USAGE,
			"--jobs %llu: runs of --runner %s are measured, so one at a time",
			(unsigned long long)request->jobs, runner);
	}
	*workers = 1;
	return STATUS_OK;
}

/* The runners of all configurations must be found. */
static enum status prepare(struct sweep *sweep, uint32_t *workers, struct error *error)
{
	const struct sweep_request *request = sweep->request;
	const struct replay_config *base = &request->run.config;

	if (request->grid == NULL || request->out == NULL) {
		return error_set(error, STATUS_USAGE, "expected --%s",
			request->grid == NULL ? "grid OPTION=VALUE,..." : "out DIR");
	}
	TRY(jobs_check_launch(request->jobs, request->run.trace_path, error));
	TRY(grid_open(&sweep->grid, request->grid, NULL, base, error));
	*workers = JOBS_WORKERS_MAX;
	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		struct replay_config config = *base;
		uint32_t own;
		configuration_apply(&sweep->grid.list[i], &config);
		TRY(choose_workers(sweep, config.runner, &own, error));
		*workers = own < *workers ? own : *workers;
	}
	sweep->items = memory_take(sweep->grid.count, sizeof(*sweep->items));
	return sweep_hash_trace(request->run.trace_path, &sweep->trace_xxh64, error);
}

static enum status run(struct sweep *sweep, struct error *error)
{
	struct jobs_options options = {
		.run = sweep_do_item, .describe = sweep_describe_item, .context = sweep};
	struct owned_folder folder;
	struct jobs *jobs = NULL;

	if (prepare(sweep, &options.workers, error) == STATUS_OK) {
		options.identity = sweep_identify(sweep);
	}
	TRY(jobs_open(&jobs, &options, error)); /* which carries the error */
	enum status status = owned_folder_open(&folder, sweep->request->out, error);
	if (status == STATUS_OK) {
		status = manage(sweep, jobs, error);
		owned_folder_close(&folder);
	}
	jobs_close(jobs);
	return status;
}

enum status sweep_run(const struct sweep_request *request, struct error *error)
{
	struct sweep sweep = {.request = request, .start_ns = monotonic_ns()};
	enum status status = run(&sweep, error);

	for (uint32_t i = 0; sweep.items != NULL && i < sweep.grid.count; i++) {
		text_deinit(&sweep.items[i].message);
	}
	free(sweep.items);
	grid_close(&sweep.grid);
	return status;
}
