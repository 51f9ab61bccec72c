#include "bench/gate/gate.h"

#include "bench/compare/compare_steps.h"
#include "bench/gate/case_run.h"
#include "bench/gate/costs.h"
#include "engine/base/replaced_file.h"
#include "bench/record/owned_folder.h"
#include "engine/base/clock.h"
#include "engine/base/input_file.h"
#include "engine/base/integer.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "engine/base/unfinished.h"
#include "reports/results/results.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct gate_verdict *add_verdict(struct gate *gate, const char *name)
{
	struct gate_verdict *verdict = &gate->verdicts[gate->count++];

	snprintf(verdict->name, sizeof(verdict->name), "%s", name);
	return verdict;
}

static enum status baseline_path(
	const struct gate *gate, const char *name, char *path, struct error *error)
{
	return path_format(path, error, "%s/%s.json", gate->baseline, name);
}

/* ---- judging ---- */

/* Names the first step that differs, where the base's steps are there: of the other program, or
   kept in the baseline. */
static enum status name_step(struct gate *gate, const struct case_run *run, struct error *error)
{
	const struct planned_run value = {PLAN_RUN, false, 0}, base = {PLAN_RUN, true, 0};
	char a[PATH_BYTES_MAX], b[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];
	struct step_comparison steps;
	bool is_there;

	if (run->against != NULL) {
		TRY(case_run_folder(run, &base, folder, error));
		TRY(path_format(a, error, "%s/%s", folder, RESULT_STEPS));
	} else {
		TRY(path_format(
			a, error, "%s/%s.%s", gate->baseline, run->rules->name, RESULT_STEPS));
	}
	TRY(path_is_there(a, &is_there, error));
	if (!is_there) {
		return STATUS_OK;
	}
	TRY(case_run_folder(run, &value, folder, error));
	TRY(path_format(b, error, "%s/%s", folder, RESULT_STEPS));
	TRY(compare_steps(a, b, true, &steps, error));
	if (steps.decision.is_there) {
		text_format(verdict_add(run->verdict, GATE_CHANGED),
			"step %llu: %s was %s and is %s", (unsigned long long)steps.decision.step,
			steps.decision.column, steps.decision.a, steps.decision.b);
	}
	return STATUS_OK;
}

/* Writes a case's evidence, or a copy of its steps where `steps` is not NULL. */
static enum status replace(
	const struct case_run *run, const char *path, const char *steps, struct error *error)
{
	struct replaced_file file;
	enum status status = replaced_file_open(&file, path, error);

	if (status == STATUS_OK && steps == NULL) {
		evidence_write(&run->evidence, run->rules->name, file.output.file);
	} else if (status == STATUS_OK) {
		status = replaced_file_copy(&file, steps, error);
	}
	if (status == STATUS_OK) {
		status = replaced_file_commit(&file, error);
	}
	replaced_file_abandon(&file);
	return status;
}

static enum status remove_if_there(const char *path, struct error *error)
{
	return unlink(path) == 0 || errno == ENOENT
		       ? STATUS_OK
		       : error_set(error, STATUS_FILE, "%s: cannot be removed: %s", path,
				 strerror(errno));
}

static enum status update(struct gate *gate, const struct case_run *run, struct error *error)
{
	const struct planned_run value = {PLAN_RUN, false, 0};
	char path[PATH_BYTES_MAX], folder[PATH_BYTES_MAX], steps[PATH_BYTES_MAX];

	TRY(baseline_path(gate, run->rules->name, path, error));
	TRY(replace(run, path, NULL, error));
	TRY(path_format(path, error, "%s/%s.%s", gate->baseline, run->rules->name, RESULT_STEPS));
	if (!gate->request->keeps_steps || run->rules->ignores_decisions) {
		/* those of an older baseline are not of this one */
		return remove_if_there(path, error);
	}
	TRY(case_run_folder(run, &value, folder, error));
	TRY(path_format(steps, error, "%s/%s", folder, RESULT_STEPS));
	return replace(run, path, steps, error);
}

/* Judges a case whose runs are over. */
static enum status conclude(struct gate *gate, struct case_run *run, struct error *error)
{
	struct gate_verdict *verdict = run->verdict;
	char path[PATH_BYTES_MAX];
	bool is_there;

	if (run->broken.status != STATUS_OK) {
		return error_set(error, run->broken.status, "%s", run->broken.text);
	}
	if (run->is_over) {
		return STATUS_OK;
	}
	TRY(costs_add_environment(&run->evidence.environment, error));
	verdict_note_figures(verdict, run->rules, &run->evidence);
	if (run->against != NULL) {
		judge_case(verdict, run->rules, &run->base, &run->evidence, true);
		return verdict->status == GATE_CHANGED ? name_step(gate, run, error) : STATUS_OK;
	}
	TRY(baseline_path(gate, run->rules->name, path, error));
	TRY(path_is_there(path, &is_there, error));
	if (is_there) {
		struct evidence base = {.run_count = 0};
		enum status status = evidence_read(&base, path, run->rules->name, error);
		if (status == STATUS_OK) {
			judge_case(verdict, run->rules, &base, &run->evidence, false);
		}
		evidence_close(&base);
		/* One with other content than a baseline's is replaced by --update. */
		if (status != STATUS_OK && (!gate->request->updates || status != STATUS_INPUT)) {
			return status;
		}
		*error = (struct error){0};
	} else {
		judge_new_case(verdict, run->rules, &run->evidence);
	}
	if (verdict->status == GATE_CHANGED) {
		TRY(name_step(gate, run, error));
	}
	return gate->request->updates ? update(gate, run, error) : STATUS_OK;
}

/* ---- running ---- */

static void show(struct gate *gate, const struct gate_verdict *verdict)
{
	if (gate->request->shows_progress) {
		fprintf(stderr, "%3u of %u  %-16s %s\n", ++gate->done, gate->count,
			gate_status_words[verdict->status], verdict->name);
	}
}

static enum status is_asked_for(
	const struct gate *gate, const struct suite_case *rules, bool *out, struct error *error)
{
	const struct gate_request *request = gate->request;
	char path[PATH_BYTES_MAX];
	bool is_there = false;

	if (request->adds) {
		TRY(baseline_path(gate, rules->name, path, error));
		TRY(path_is_there(path, &is_there, error));
	}
	*out = !is_there && (request->only == NULL || strcmp(request->only, rules->name) == 0);
	return STATUS_OK;
}

/* A case that is asked for needs the one whose tape it replays. */
static enum status is_chosen(
	const struct gate *gate, const struct suite_case *rules, bool *out, struct error *error)
{
	TRY(is_asked_for(gate, rules, out, error));
	for (uint32_t i = 0; i < gate->suite.count && !*out; i++) {
		const struct suite_case *other = &gate->suite.cases[i];
		if (other->tape == rules) {
			TRY(is_asked_for(gate, other, out, error));
		}
	}
	return STATUS_OK;
}

/* Tapes come after the cases that they replay. */
enum phase { PHASE_FIRST, PHASE_TAPES, PHASE_TIMED };

static enum phase phase_of(const struct case_run *run)
{
	return case_measures_time(run->rules, run->records) ? PHASE_TIMED
	       : run->rules->tape != NULL		    ? PHASE_TAPES
							    : PHASE_FIRST;
}

/* Runs the cases of a phase, up to `jobs` at once; verdicts stand in the order of the suite. */
static enum status run_cases(struct gate *gate, struct case_run *runs, enum phase phase,
	uint32_t jobs, struct error *error)
{
	struct child *children[SUITE_CASES_MAX];
	struct case_run *running[SUITE_CASES_MAX];
	uint32_t count = 0, next = 0;

	for (;;) {
		while (count < jobs && next < gate->suite.count) {
			struct case_run *run = &runs[next++];
			if (run->rules == NULL || phase_of(run) != phase) {
				continue;
			}
			if (!case_run_start(run)) {
				TRY(conclude(gate, run, error));
				show(gate, run->verdict);
				continue;
			}
			running[count] = run;
			children[count++] = &run->child;
		}
		if (count == 0) {
			return STATUS_OK;
		}
		uint32_t ended;
		TRY(child_wait(children, count, &ended, error));
		case_run_ended(running[ended]);
		if (case_run_start(running[ended])) {
			continue;
		}
		TRY(conclude(gate, running[ended], error));
		show(gate, running[ended]->verdict);
		count--;
		running[ended] = running[count];
		children[ended] = children[count];
	}
}

/* run: zeroed. */
static void prepare(const struct gate *gate, const struct suite_case *rules, struct case_run *run)
{
	const struct gate_request *request = gate->request;

	run->rules = rules;
	run->program = gate->program;
	run->against = request->against_itself ? gate->program : request->against;
	run->out = request->out;
	run->records = request->updates && rules->recorded_count > 0;
	run->recorded = run->records ? request->recorded : NULL;
}

static enum status run_all(struct gate *gate, struct case_run *runs, struct error *error)
{
	const struct gate_request *request = gate->request;
	struct child valgrind = {.process = 0};
	struct child *const children[] = {&valgrind};
	static const char *const asking[] = {"valgrind", "--version", NULL};
	struct error nothing = {0};
	uint32_t ended;

	bool has_valgrind = child_start(&valgrind, asking, 0, &nothing) == STATUS_OK &&
			    child_wait(children, 1, &ended, &nothing) == STATUS_OK &&
			    valgrind.exit_code == 0;
	child_close(&valgrind);
	for (uint32_t i = 0; i < gate->suite.count; i++) {
		struct case_run *run = &runs[i];
		bool is_run;
		TRY(is_chosen(gate, &gate->suite.cases[i], &is_run, error));
		if (!is_run) {
			continue;
		}
		prepare(gate, &gate->suite.cases[i], run);
		run->counts_instructions = has_valgrind;
		run->verdict = add_verdict(gate, run->rules->name);
		if (run->recorded != NULL) {
			case_run_take_recorded(run);
		} else {
			case_run_plan(run);
		}
	}
	TRY(run_cases(gate, runs, PHASE_FIRST, request->jobs, error));
	TRY(run_cases(gate, runs, PHASE_TAPES, request->jobs, error));
	return run_cases(gate, runs, PHASE_TIMED, 1, error);
}

/* ---- the baseline's folder ---- */

static bool is_in_suite(const struct gate *gate, const char *name)
{
	for (uint32_t i = 0; i < gate->suite.count; i++) {
		if (strcmp(gate->suite.cases[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(
		((const struct gate_verdict *)a)->name, ((const struct gate_verdict *)b)->name);
}

/* The evidence goes last: while it is there, the case is found again. */
static enum status remove_case(const struct gate *gate, const char *name, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s.%s", gate->baseline, name, RESULT_STEPS));
	TRY(remove_if_there(path, error));
	TRY(baseline_path(gate, name, path, error));
	return remove_if_there(path, error);
}

static bool is_case(const struct gate *gate, const char *name)
{
	char path[PATH_BYTES_MAX];
	struct error error = {0};

	return baseline_path(gate, name, path, &error) == STATUS_OK &&
	       owned_folder_is_of_quire(path, BASELINE_SCHEMA);
}

/* The name of the next file NAME.json. False: there are no more. */
static bool next_name(DIR *folder, char name[SUITE_NAME_BYTES])
{
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		size_t length = strlen(entry->d_name);
		if (length > 5 && length - 5 < SUITE_NAME_BYTES &&
			strcmp(entry->d_name + length - 5, ".json") == 0) {
			snprintf(name, SUITE_NAME_BYTES, "%.*s", (int)(length - 5), entry->d_name);
			return true;
		}
	}
	return false;
}

static enum status cannot_read(const char *path, struct error *error)
{
	return error_set(error, STATUS_FILE, "%s: cannot be read: %s", path, strerror(errno));
}

/* Cases of the baseline that the suite lacks: an update removes them. Other files of the folder are
   not its own. */
static enum status find_missing(struct gate *gate, struct error *error)
{
	DIR *folder = opendir(gate->baseline);
	uint32_t first = gate->count;

	if (folder == NULL) {
		return cannot_read(gate->baseline, error);
	}
	for (char name[SUITE_NAME_BYTES]; next_name(folder, name);) {
		if (is_in_suite(gate, name) || gate->count == gate->capacity ||
			!is_case(gate, name)) {
			continue;
		}
		struct gate_verdict *verdict = add_verdict(gate, name);
		text_add(verdict_add(verdict, GATE_MISSING),
			"the baseline has this case, the suite has not");
		if (gate->request->updates) {
			remove_case(gate, name, error);
		}
	}
	closedir(folder);
	qsort(gate->verdicts + first, gate->count - first, sizeof(*gate->verdicts), by_name);
	return error->status;
}

/* *made: NULL where the folder is there already; removed again where nothing is written to it. */
static enum status make_baseline(
	const struct gate *gate, struct unfinished **made, struct error *error)
{
	return unfinished_make_folder(made, gate->baseline) == 0 || errno == EEXIST
		       ? STATUS_OK
		       : error_set(error, STATUS_FILE, "%s: cannot be made: %s", gate->baseline,
				 strerror(errno));
}

/* Without its files every case would be NEW, and a mistyped one a gate that is always green. */
static enum status need_baseline(const struct gate *gate, struct error *error)
{
	DIR *folder = opendir(gate->baseline);
	char name[SUITE_NAME_BYTES];

	if (folder == NULL && errno == ENOTDIR) {
		return error_set(
			error, STATUS_FILE, "the baseline %s is no folder", gate->baseline);
	}
	if (folder == NULL && errno != ENOENT) {
		return cannot_read(gate->baseline, error);
	}
	bool has_files = folder != NULL && next_name(folder, name);
	if (folder != NULL) {
		closedir(folder);
	}
	return has_files ? STATUS_OK
			 : error_set(error, STATUS_FILE,
				   "the baseline %s %s: --update makes it, --baseline DIR names "
				   "another",
				   gate->baseline, folder == NULL ? "is not there" : "has no case");
}

static enum status find_places(struct gate *gate, struct error *error)
{
	const struct gate_request *request = gate->request;
	ssize_t length = readlink("/proc/self/exe", gate->program, sizeof(gate->program) - 1);

	if (length <= 0) {
		return error_set(error, STATUS_FILE, "this program's own path is not known: %s",
			strerror(errno));
	}
	if (request->baseline != NULL) {
		return path_format(gate->baseline, error, "%s", request->baseline);
	}
	size_t bytes = strlen(request->suite);
	bool has_ending = bytes > 5 && strcmp(request->suite + bytes - 5, ".json") == 0;
	return path_format(gate->baseline, error, "%.*s-baseline",
		(int)(has_ending ? bytes - 5 : bytes), request->suite);
}

void gate_note_input(const char *path)
{
	DIR *folder = opendir(path);

	if (folder == NULL) {
		input_file_note(path);
		return;
	}
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		char file[PATH_BYTES_MAX];
		struct error too_long = {0}; /* for the run too */
		if (path_format(file, &too_long, "%s/%s", path, entry->d_name) == STATUS_OK) {
			input_file_note(file);
		}
	}
	closedir(folder);
}

/* No output of the gate may replace them. */
static void note_inputs(const struct gate *gate)
{
	for (uint32_t i = 0; i < gate->suite.count; i++) {
		input_file_note(gate->suite.cases[i].trace);
	}
	input_file_note(gate->program);
	if (gate->request->against != NULL) {
		input_file_note(gate->request->against);
	}
}

/* Of what is not there yet the folder may be made by the run. */
static enum status check_kept(const char *path, struct error *error)
{
	bool is_there;

	TRY(path_is_there(path, &is_there, error));
	return is_there ? output_files_check(&path, 1, error) : STATUS_OK;
}

/* Refuses a file that is read where a run of the case would replace it. */
static enum status check_planned(
	const struct case_run *run, const struct planned_run *planned, struct error *error)
{
	static const char *const names[] = {RESULT_FILE_NAMES};
	char folder[PATH_BYTES_MAX], file[PATH_BYTES_MAX];

	if (planned->kind == PLAN_MAKE) {
		TRY(case_run_made_trace(run->out, run->rules, file, error));
		return check_kept(file, error);
	}
	TRY(case_run_folder(run, planned, folder, error));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		TRY(path_format(file, error, "%s/%s", folder, names[i]));
		TRY(check_kept(file, error));
	}
	return STATUS_OK;
}

static enum status check_case(
	const struct gate *gate, const struct suite_case *rules, struct error *error)
{
	struct case_run *run = memory_take(1, sizeof(*run));

	prepare(gate, rules, run);
	run->counts_instructions = true;
	if (run->recorded == NULL) {
		case_run_plan(run);
	}
	for (uint32_t i = 0; i < run->plan_count && error->status == STATUS_OK; i++) {
		check_planned(run, &run->plan[i], error);
	}
	free(run);
	return error->status;
}

enum status gate_check_outputs(
	const struct gate *gate, const char *const *paths, uint32_t count, struct error *error)
{
	gate_note_input(gate->baseline);
	for (uint32_t i = 0; i < gate->suite.count; i++) {
		TRY(check_case(gate, &gate->suite.cases[i], error));
	}
	return output_files_check(paths, count, error);
}

static enum status run_suite(struct gate *gate, struct error *error)
{
	struct owned_folder out;

	TRY(owned_folder_open(&out, gate->request->out, error));
	struct case_run *runs = memory_take(gate->suite.count, sizeof(*runs));
	/* A parent that ignores it would take the children's exit codes away. */
	signal(SIGCHLD, SIG_DFL);
	interrupt_hold();
	enum status status = run_all(gate, runs, error);
	for (uint32_t i = 0; i < gate->suite.count; i++) {
		case_run_close(&runs[i]);
	}
	interrupt_release();
	free(runs);
	owned_folder_close(&out);
	return status;
}

enum status gate_open(struct gate *gate, const struct gate_request *request, struct error *error)
{
	memset(gate, 0, sizeof(*gate));
	gate->request = request;
	TRY(find_places(gate, error));
	TRY(suite_open(&gate->suite, request->suite, error));
	gate->capacity = gate->suite.count + SUITE_CASES_MAX;
	gate->verdicts = memory_take(gate->capacity, sizeof(*gate->verdicts));
	bool is_known = request->only == NULL || is_in_suite(gate, request->only);
	if (!is_known) {
		return error_set(error, STATUS_USAGE, "--only: found '%s', expected a case of %s",
			request->only, request->suite);
	}
	note_inputs(gate);
	return STATUS_OK;
}

enum status gate_run(struct gate *gate, struct error *error)
{
	const struct gate_request *request = gate->request;
	uint64_t start_ns = monotonic_ns();

	bool has_baseline = request->against == NULL && !request->against_itself;
	struct unfinished *made = NULL;
	if (has_baseline) {
		TRY(request->updates ? make_baseline(gate, &made, error)
				     : need_baseline(gate, error));
	}
	enum status status = run_suite(gate, error);
	if (status == STATUS_OK && request->only == NULL && has_baseline) {
		status = find_missing(gate, error);
	}
	if (made != NULL) {
		unfinished_remove(made);
	}
	TRY(status);
	for (uint32_t i = 0; i < gate->count; i++) {
		gate->counts[gate->verdicts[i].status]++;
	}
	gate->elapsed_ns = monotonic_ns() - start_ns;
	return STATUS_OK;
}

void gate_close(struct gate *gate)
{
	for (uint32_t i = 0; i < gate->count; i++) {
		verdict_close(&gate->verdicts[i]);
	}
	free(gate->verdicts);
	suite_close(&gate->suite);
	memset(gate, 0, sizeof(*gate));
}
