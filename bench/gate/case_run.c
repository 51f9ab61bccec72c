#include "bench/gate/case_run.h"

#include "engine/base/check.h"
#include "bench/gate/costs.h"
#include "engine/base/integer.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/base/table.h"
#include "reports/results/metric.h"
#include "reports/results/results.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* The value of --runner, or what it was before. */
static const char *find_runner(const char *const *words, uint32_t count, const char *runner)
{
	for (uint32_t i = 0; i < count; i++) {
		if (strncmp(words[i], "--runner=", 9) == 0) {
			runner = words[i] + 9;
		} else if (strcmp(words[i], "--runner") == 0 && i + 1 < count) {
			runner = words[i + 1];
		}
	}
	return runner;
}

bool case_measures_time(const struct suite_case *rules, bool records)
{
	const char *runner = find_runner(rules->options, rules->option_count, "sim");

	if (records) {
		runner = find_runner(rules->recorded, rules->recorded_count, runner);
	}
	return rules->measures[COST_CPU_TIME] ||
	       (strcmp(runner, "sim") != 0 && strcmp(runner, "tape") != 0);
}

static void plan(struct case_run *run, enum plan_kind kind, bool is_base, uint32_t number)
{
	check(run->plan_count < PLAN_MAX);
	run->plan[run->plan_count++] = (struct planned_run){kind, is_base, number};
}

void case_run_plan(struct case_run *run)
{
	const struct suite_case *rules = run->rules;
	uint32_t repeats = case_measures_time(rules, run->records) ? rules->repeats : 1;

	if (rules->make_count > 0) {
		plan(run, PLAN_MAKE, false, 0);
	}
	for (uint32_t i = 0; i < repeats; i++) {
		/* A B, B A, A B, ...: a drift of the machine falls on both sides alike */
		bool base_first = i % 2 == 1;
		for (int side = 0; side < 2; side++) {
			bool is_base = base_first == (side == 0);
			if (!is_base || run->against != NULL) {
				plan(run, PLAN_RUN, is_base, i);
			}
		}
	}
	bool counts = rules->measures[COST_INSTRUCTIONS] ||
		      rules->measures[COST_STEP_INSTRUCTIONS] ||
		      rules->measures[COST_REQUEST_INSTRUCTIONS];
	if (!run->counts_instructions || !counts) {
		return;
	}
	plan(run, PLAN_COUNT, false, 0);
	if (run->against != NULL) {
		plan(run, PLAN_COUNT, true, 0);
	}
}

enum status case_run_made_trace(
	const char *out, const struct suite_case *rules, char *path, struct error *error)
{
	return path_format(path, error, "%s/%s.jsonl", out, rules->name);
}

enum status case_run_folder(const struct case_run *run, const struct planned_run *planned,
	char *path, struct error *error)
{
	const char *side = planned->is_base ? ".base" : "";
	const char *counted = planned->kind == PLAN_COUNT ? ".counted" : "";

	if (planned->run == 0) {
		return path_format(
			path, error, "%s/%s%s%s", run->out, run->rules->name, side, counted);
	}
	return path_format(
		path, error, "%s/%s%s.%u", run->out, run->rules->name, side, planned->run + 1);
}

static void add_words(
	const char **arguments, uint32_t *count, const char *const *words, uint32_t word_count)
{
	for (uint32_t i = 0; i < word_count; i++) {
		arguments[(*count)++] = words[i];
	}
}

/* Notes the result that the folder has from an earlier gate. */
static enum status find_older(struct case_run *run, const char *folder, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s", folder, RESULT_SUMMARY));
	if (stat(path, &run->older) != 0) {
		memset(&run->older, 0, sizeof(run->older));
	}
	return STATUS_OK;
}

/* A program that ends well and writes nothing must not be judged by an older result. */
static enum status check_new(const struct case_run *run, const char *folder, struct error *error)
{
	char path[PATH_BYTES_MAX];
	struct stat now;

	TRY(path_format(path, error, "%s/%s", folder, RESULT_SUMMARY));
	bool is_there = stat(path, &now) == 0;
	if (!is_there && errno != ENOENT && errno != ENOTDIR) {
		return error_set(
			error, STATUS_FILE, "%s: cannot be read: %s", path, strerror(errno));
	}
	bool is_new = is_there && (now.st_ino != run->older.st_ino ||
					  now.st_mtim.tv_sec != run->older.st_mtim.tv_sec ||
					  now.st_mtim.tv_nsec != run->older.st_mtim.tv_nsec);
	return is_new ? STATUS_OK
		      : error_set(error, STATUS_INPUT, "the run ended well and wrote no %s", path);
}

static enum status start(
	struct case_run *run, const struct planned_run *planned, struct error *error)
{
	const struct suite_case *rules = run->rules;
	const char *arguments[CHILD_ARGUMENTS_MAX];
	const struct suite_case *of_trace = rules->tape == NULL ? rules : rules->tape;
	bool is_made = of_trace->make_count > 0;
	char made[PATH_BYTES_MAX], folder[PATH_BYTES_MAX], tape[PATH_BYTES_MAX];
	const char *const tape_words[] = {"--runner", "tape", "--tape", tape};
	uint32_t count = 0;

	TRY(case_run_made_trace(run->out, of_trace, made, error));
	TRY(path_format(
		tape, error, "%s/%s%s", run->out, of_trace->name, planned->is_base ? ".base" : ""));
	TRY(case_run_folder(run, planned, folder, error));
	if (planned->kind == PLAN_COUNT) {
		count = costs_count_words(arguments);
	}
	arguments[count++] = planned->is_base ? run->against : run->program;
	if (planned->kind == PLAN_MAKE) {
		static const char *const make[] = {"trace", "make"};
		add_words(arguments, &count, make, 2);
		add_words(arguments, &count, rules->make, rules->make_count);
	} else {
		arguments[count++] = "replay";
		arguments[count++] = is_made ? made : of_trace->trace;
		if (rules->tape != NULL) {
			add_words(arguments, &count, tape_words, 4);
		}
		add_words(arguments, &count, rules->options, rules->option_count);
		if (run->records) {
			add_words(arguments, &count, rules->recorded, rules->recorded_count);
		}
		if (!rules->ignores_decisions) {
			arguments[count++] = "--steps";
		}
	}
	arguments[count++] = "--force";
	arguments[count++] = "--out";
	arguments[count++] = planned->kind == PLAN_MAKE ? made : folder;
	arguments[count] = NULL;
	check(count < CHILD_ARGUMENTS_MAX);
	TRY(find_older(run, folder, error));
	return child_start(&run->child, arguments, rules->timeout_s * UINT64_C(1000000000), error);
}

static void end_with(struct case_run *run, enum gate_status status, const char *text)
{
	text_add(verdict_add(run->verdict, status), text);
	run->is_over = true;
	run->next = run->plan_count;
}

/* What a disk or the machine refuses is no verdict on the program. */
static void end_by(struct case_run *run, const struct error *error)
{
	if (error->status == STATUS_FILE || error->status == STATUS_MEMORY) {
		run->broken = *error;
		run->is_over = true;
		run->next = run->plan_count;
	} else {
		end_with(run, GATE_FAILED, error->text);
	}
}

bool case_run_start(struct case_run *run)
{
	struct error error = {0};

	if (run->next == run->plan_count) {
		return false;
	}
	if (start(run, &run->plan[run->next], &error) != STATUS_OK) {
		end_by(run, &error);
		return false;
	}
	return true;
}

/* A count of the first run's summary. */
static double at_least_one(const struct evidence *evidence, enum result_number number)
{
	double count = metric_value(&evidence->summary, &metrics_table[number]).value;

	return count < 1 ? 1 : count;
}

static enum status take_run(
	struct case_run *run, const struct planned_run *planned, struct error *error)
{
	struct evidence *evidence = planned->is_base ? &run->base : &run->evidence;
	struct gate_costs *costs = &evidence->costs;
	char folder[PATH_BYTES_MAX];

	TRY(case_run_folder(run, planned, folder, error));
	TRY(check_new(run, folder, error));
	TRY(evidence_add_run(evidence, folder, error));
	if (run->rules->measures[COST_BYTES_WRITTEN]) {
		double bytes;
		TRY(costs_bytes_written(folder, &bytes, error));
		gate_costs_add(costs, COST_BYTES_WRITTEN, bytes);
	}
	if (run->rules->measures[COST_PEAK_MEMORY]) {
		gate_costs_add(costs, COST_PEAK_MEMORY, (double)run->child.peak_memory_bytes);
	}
	if (run->rules->measures[COST_CPU_TIME]) {
		gate_costs_add(costs, COST_CPU_TIME, (double)run->child.cpu_ns / 1e6);
	}
	return STATUS_OK;
}

static enum status take_count(
	struct case_run *run, const struct planned_run *planned, struct error *error)
{
	struct evidence *evidence = planned->is_base ? &run->base : &run->evidence;
	struct gate_costs *costs = &evidence->costs;
	double instructions;

	if (!costs_instructions(&run->child, &instructions)) {
		return planned->is_base
			       ? error_set(error, STATUS_INPUT,
					 "valgrind counted no instructions of the other program: "
					 "--against takes the program itself, no script that "
					 "starts it")
			       : error_set(error, STATUS_INPUT,
					 "valgrind counted no instructions of this program: a "
					 "case that does not measure them needs no valgrind");
	}
	gate_costs_add(costs, COST_INSTRUCTIONS, instructions);
	gate_costs_add(
		costs, COST_STEP_INSTRUCTIONS, instructions / at_least_one(evidence, VALUE_STEPS));
	gate_costs_add(costs, COST_REQUEST_INSTRUCTIONS,
		instructions / at_least_one(evidence, VALUE_SUBMITTED));
	return STATUS_OK;
}

/* The first line that a program wrote on its standard error, or its exit code. */
static void fail_with_errors(struct case_run *run, const struct planned_run *planned)
{
	struct text errors = {0}, line = {0};

	child_add_errors(&run->child, &errors);
	text_format(&line, "%s%s ended with exit code %d",
		planned->is_base ? "the other program's " : "",
		planned->kind == PLAN_MAKE ? "trace make" : "replay", run->child.exit_code);
	if (errors.byte_count > 0) {
		errors.bytes[strcspn(errors.bytes, "\n")] = '\0';
		text_make_printable(errors.bytes);
		text_add(&line, ": ");
		text_add(&line, errors.bytes);
	}
	/* What the other program refuses, since it lacks an option, is new. */
	bool is_refused = planned->is_base && run->child.exit_code == 2;
	end_with(run, is_refused ? GATE_NEW : GATE_FAILED, line.bytes);
	text_deinit(&errors);
	text_deinit(&line);
}

void case_run_ended(struct case_run *run)
{
	const struct planned_run *planned = &run->plan[run->next++];
	struct error error = {0};

	run->verdict->elapsed_ns += run->child.elapsed_ns;
	if (run->child.is_late) {
		struct text line = {0};
		text_format(&line, "%s%s took longer than timeout_s %u",
			planned->is_base ? "the other program's " : "",
			planned->kind == PLAN_MAKE ? "trace make" : "replay",
			run->rules->timeout_s);
		end_with(run, GATE_FAILED, line.bytes);
		text_deinit(&line);
	} else if (run->child.exit_code != 0) {
		fail_with_errors(run, planned);
	} else if (planned->kind == PLAN_RUN) {
		take_run(run, planned, &error);
	} else if (planned->kind == PLAN_COUNT) {
		take_count(run, planned, &error);
	}
	if (error.status != STATUS_OK) {
		end_by(run, &error);
	}
	child_close(&run->child);
}

/* ---- tables as long as their summary says ---- */

static enum status count_rows(const char *path, uint64_t *rows, struct error *error)
{
	struct table_reader table;

	*rows = 0;
	table_reader_open(&table, path, NULL, error);
	while (table_reader_next(&table, error)) {
		(*rows)++;
	}
	table_reader_close(&table);
	return error->status;
}

static enum status check_rows(const char *path, uint64_t expected, struct error *error)
{
	uint64_t rows;

	TRY(count_rows(path, &rows, error));
	return rows == expected
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT,
				 "%s: found %llu %s, expected the %llu of its " RESULT_SUMMARY,
				 path, (unsigned long long)rows, word_of_count(rows, "row", "rows"),
				 (unsigned long long)expected);
}

/* Adds a count of the summary. Sticky. */
static void add_count(const struct json_object *summary, enum result_number number, uint64_t *sum,
	struct error *error)
{
	const struct metric *metric = &metrics_table[number];
	struct json_object section;
	uint64_t count = 0;

	json_object(summary, metric->section, &section, error);
	json_u64(&section, metric->field, 0, JSON_INTEGER_MAX, &count, error);
	*sum += count;
}

static enum status check_tables(
	const char *folder, const struct json_object *summary, bool has_steps, struct error *error)
{
	char path[PATH_BYTES_MAX];
	uint64_t requests = 0, steps = 0;

	add_count(summary, VALUE_SUBMITTED, &requests, error);
	add_count(summary, VALUE_STEPS_BEFORE, &steps, error);
	add_count(summary, VALUE_STEPS, &steps, error);
	add_count(summary, VALUE_STEPS_AFTER, &steps, error);
	TRY(error->status);
	TRY(path_format(path, error, "%s/%s", folder, RESULT_REQUESTS));
	TRY(check_rows(path, requests, error));
	TRY(path_format(path, error, "%s/%s", folder, RESULT_STEPS));
	return has_steps ? check_rows(path, steps, error) : STATUS_OK;
}

/* has_steps: of the first run, which finds it out. */
static enum status check_steps(
	const char *folder, bool is_first, bool *has_steps, struct error *error)
{
	char path[PATH_BYTES_MAX];
	bool is_there;

	TRY(path_format(path, error, "%s/%s", folder, RESULT_STEPS));
	TRY(path_is_there(path, &is_there, error));
	if (!is_first && is_there != *has_steps) {
		return error_set(error, STATUS_INPUT, "%s: %s", path,
			is_there ? "is there, but the case's first run has none"
				 : "is not there, but the case's first run has one");
	}
	*has_steps = is_there;
	return STATUS_OK;
}

/* ---- which runs there are ---- */

/* The highest N of FOLDER/NAME.N; 1: there is none. */
static enum status find_last(
	const char *folder, const char *name, uint64_t *last, struct error *error)
{
	DIR *entries = opendir(folder);
	size_t bytes = strlen(name);

	*last = 1;
	if (entries == NULL) {
		return error_set(
			error, STATUS_FILE, "%s: cannot be read: %s", folder, strerror(errno));
	}
	for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
		uint64_t number;
		if (strncmp(entry->d_name, name, bytes) == 0 && entry->d_name[bytes] == '.' &&
			text_to_u64(entry->d_name + bytes + 1, &number)) {
			*last = u64_max(*last, number);
		}
	}
	closedir(entries);
	return *last <= SUITE_REPEATS_MAX
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT,
				 "%s/%s.%llu: found a run of this number, "
				 "expected at most %d runs of a case",
				 folder, name, (unsigned long long)*last, SUITE_REPEATS_MAX);
}

static enum status add_run(
	struct evidence *evidence, const char *run, bool *has_steps, struct error *error)
{
	struct json_document document = {.root = NULL};
	struct json_object summary;
	char path[PATH_BYTES_MAX];

	TRY(check_steps(run, evidence->run_count == 0, has_steps, error));
	TRY(evidence_add_run(evidence, run, error));
	TRY(path_format(path, error, "%s/%s", run, RESULT_SUMMARY));
	TRY(json_document_open(&document, path, error));
	json_root(&summary, &document, error);
	if (error->status == STATUS_OK && metrics_check(&summary, error) == STATUS_OK) {
		check_tables(run, &summary, *has_steps, error);
	}
	json_document_close(&document);
	return error->status;
}

/* Adds FOLDER/NAME, FOLDER/NAME.2, ... Refuses a number that is missing below the highest, and
   tables with other rows than their summary counts, as a copy that was cut short has them. */
static enum status recorded_runs_add(
	struct evidence *evidence, const char *folder, const char *name, struct error *error)
{
	char run[PATH_BYTES_MAX], summary[PATH_BYTES_MAX];
	bool has_steps = false, is_there;
	uint64_t last;

	TRY(find_last(folder, name, &last, error));
	for (uint64_t number = 1; number <= last; number++) {
		if (number == 1) {
			TRY(path_format(run, error, "%s/%s", folder, name));
		} else {
			TRY(path_format(run, error, "%s/%s.%llu", folder, name,
				(unsigned long long)number));
		}
		TRY(path_format(summary, error, "%s/%s", run, RESULT_SUMMARY));
		TRY(path_is_there(summary, &is_there, error));
		if (!is_there && number < last) {
			return error_set(error, STATUS_FILE, "%s is not there, but %s.%llu is",
				summary, name, (unsigned long long)last);
		}
		if (!is_there) {
			return error_set(error, STATUS_FILE, "%s is not there", summary);
		}
		TRY(add_run(evidence, run, &has_steps, error));
	}
	return STATUS_OK;
}

void case_run_take_recorded(struct case_run *run)
{
	struct error error = {0};

	if (recorded_runs_add(&run->evidence, run->recorded, run->rules->name, &error) !=
		STATUS_OK) {
		end_with(run, GATE_FAILED, error.text);
	}
}

void case_run_close(struct case_run *run)
{
	child_close(&run->child);
	evidence_close(&run->evidence);
	evidence_close(&run->base);
}
