#include "reports/results/fidelity.h"

#include "engine/base/check.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

struct result_value relative_error(double base, double value)
{
	bool is_zero = fabs(base) <= 0;

	if (is_zero) {
		return (struct result_value){.has_value = fabs(value) <= 0};
	}
	double error = value / base - 1;
	bool is_finite = isfinite(error);
	return (struct result_value){.has_value = is_finite, .value = is_finite ? error : 0};
}

struct result_value fidelity_step_error(const struct step_errors *steps)
{
	uint64_t count = steps->same_timed_steps;

	return (struct result_value){.has_value = count > 0,
		.value = count > 0 ? steps->same_error_sum / (double)count : 0};
}

/* ---- roles ---- */

bool fidelity_is_real(const struct result *result)
{
	return result->runner_kind == RUNNER_COMPUTED;
}

static bool is_simulated(const struct result *result)
{
	return result->runner_kind == RUNNER_PRICED || result->runner_kind == RUNNER_RECORDED;
}

bool fidelity_is_pair(const struct result *first, const struct result *second)
{
	return (fidelity_is_real(first) && is_simulated(second)) ||
	       (is_simulated(first) && fidelity_is_real(second));
}

enum status fidelity_open(struct fidelity *fidelity, const struct result *first,
	const struct result *second, struct error *error)
{
	memset(fidelity, 0, sizeof(*fidelity));
	if (strcmp(first->trace_xxh64, second->trace_xxh64) != 0) {
		return error_set(error, STATUS_INPUT,
			"%.500s and %.500s: found runs of different traces (%.16s and %.16s), "
			"expected two runs of one trace",
			first->directory, second->directory, first->trace_xxh64,
			second->trace_xxh64);
	}
	fidelity->is_recognised = fidelity_is_pair(first, second);
	bool is_swapped = fidelity->is_recognised && fidelity_is_real(second);
	fidelity->real = is_swapped ? second : first;
	fidelity->sim = is_swapped ? first : second;
	return step_errors_read(&fidelity->steps, fidelity->real->directory,
		fidelity->sim->directory, &fidelity->has_steps, error);
}

/* ---- settings ---- */

/* is_of_runner: it says what computes or prices the steps. A real run and its simulation may differ
   in the others too where a user chose them for each; the cases of a gate have one choice of them
   for both. */
static const struct {
	const char *field;
	bool is_of_runner;
} settings[] = {
	{"runner", true},
	{"gpu", true},
	{"weights", true},
	{"dtype", true},
	{"kernels", true},
	{"shared_prefix_attention", true},
	{"tp_transport", true},
	{"engine_process", true},
	{"enforce_eager", false},
	{"overlap", false},
	{"clock", false},
	{"temperature", false},
	{"gpu_memory_utilization", false},
};

enum { SETTING_COUNT = sizeof(settings) / sizeof(settings[0]) };

/* The index of the field; SETTING_COUNT: it has none. */
static uint32_t setting_of(const char *field)
{
	uint32_t index = 0;

	while (index < SETTING_COUNT && strcmp(settings[index].field, field) != 0) {
		index++;
	}
	return index;
}

bool fidelity_is_of_runner(const char *field)
{
	uint32_t index = setting_of(field);

	return index < SETTING_COUNT && settings[index].is_of_runner;
}

const char *fidelity_other_setting(const struct fidelity *fidelity, uint32_t index)
{
	const cJSON *node = NULL;

	cJSON_ArrayForEach(node, fidelity->real->config.node)
	{
		const cJSON *other = json_find(&fidelity->sim->config, node->string);
		if (other != NULL && !cJSON_Compare(node, other, true) &&
			setting_of(node->string) == SETTING_COUNT && index-- == 0) {
			return node->string;
		}
	}
	return NULL;
}

/* ---- rows ---- */

struct rows {
	struct fidelity_row *row;
	uint32_t count;
};

static void add_row(struct rows *rows, const char *title, enum number_format format,
	struct result_value real, struct result_value sim)
{
	check(rows->count < FIDELITY_ROWS_MAX);
	struct fidelity_row *row = &rows->row[rows->count++];

	row->title = title;
	row->format = format;
	row->real = real;
	row->sim = sim;
	row->error = (struct result_value){.has_value = false};
	if (real.has_value && sim.has_value) {
		row->error = relative_error(real.value, sim.value);
	}
}

static void name_row(struct rows *rows, const char *section, const char *part, const char *field)
{
	struct fidelity_row *row = &rows->row[rows->count - 1];
	int length = snprintf(row->name, sizeof(row->name), "%s%s%s%s%s", section,
		*section == '\0' ? "" : ".", part, *part == '\0' ? "" : ".", field);

	check(length > 0 && (size_t)length < sizeof(row->name));
}

static void add_number(
	struct rows *rows, const struct fidelity *fidelity, enum result_number number)
{
	const struct metric *row = &metrics_table[number];

	add_row(rows, row->title, row->format, fidelity->real->numbers[number],
		fidelity->sim->numbers[number]);
	name_row(rows, row->section, "", row->field);
}

static struct result_value blocks_of(const struct json_object *object, const char *field)
{
	const cJSON *node = json_find(object, field);
	bool is_count = cJSON_IsNumber(node) && node->valuedouble >= 0;

	return (struct result_value){
		.has_value = is_count, .value = is_count ? node->valuedouble : 0};
}

/* The KV pools of the runs, then the number of blocks that each runner found or estimated. */
static void add_blocks(struct rows *rows, const struct fidelity *fidelity)
{
	const struct result *real = fidelity->real, *sim = fidelity->sim;

	add_row(rows, "KV blocks of the run", NUMBER_COUNT, blocks_of(&real->config, "kv_blocks"),
		blocks_of(&sim->config, "kv_blocks"));
	name_row(rows, SUMMARY_CONFIG, "", "kv_blocks");
	add_row(rows, "KV blocks found and estimated", NUMBER_COUNT,
		blocks_of(&real->root, SUMMARY_FOUND_KV_BLOCKS),
		blocks_of(&sim->root, SUMMARY_FOUND_KV_BLOCKS));
	name_row(rows, "", "", SUMMARY_FOUND_KV_BLOCKS);
}

static struct result_value mean_ms(const struct step_sum *sum)
{
	return (struct result_value){.has_value = sum->count > 0,
		.value = sum->count > 0 ? sum->ns / (double)sum->count / 1e6 : 0};
}

static struct result_value count_of(const struct step_sum *sum)
{
	return (struct result_value){.has_value = true, .value = (double)sum->count};
}

static void add_steps(struct rows *rows, const struct fidelity *fidelity)
{
	const struct step_errors *steps = &fidelity->steps;

	for (uint32_t i = 0; i < STEP_KIND_COUNT && fidelity->has_steps; i++) {
		if (steps->real[i].count == 0 && steps->sim[i].count == 0) {
			continue;
		}
		add_row(rows, step_kind_titles[i], NUMBER_COUNT, count_of(&steps->real[i]),
			count_of(&steps->sim[i]));
		name_row(rows, "steps", step_kind_names[i], "count");
		add_row(rows, "their mean time", NUMBER_TIME_MS, mean_ms(&steps->real[i]),
			mean_ms(&steps->sim[i]));
		name_row(rows, "step_ms", step_kind_names[i], "mean");
	}
}

uint32_t fidelity_rows(const struct fidelity *fidelity, struct fidelity_row *out)
{
	static const enum result_number numbers[] = {VALUE_OUTPUT_RATE, VALUE_REQUEST_RATE,
		VALUE_MAKESPAN, VALUE_BUSY, VALUE_HIT_RATE, VALUE_HIT_TOKENS, VALUE_PREEMPTIONS,
		VALUE_RECOMPUTED, VALUE_STEPS};
	struct rows rows = {.row = out, .count = 0};

	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		add_number(&rows, fidelity, numbers[i]);
	}
	add_steps(&rows, fidelity);
	add_blocks(&rows, fidelity);
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		for (uint32_t j = 0; j < STATISTIC_COUNT; j++) {
			if (!latency_is_main[j]) {
				continue;
			}
			add_row(&rows, latency_titles[i], NUMBER_TIME_MS,
				fidelity->real->latency_ms[i][j], fidelity->sim->latency_ms[i][j]);
			name_row(
				&rows, SUMMARY_LATENCY_MS, latency_names[i], latency_statistics[j]);
		}
	}
	return rows.count;
}

/* ---- as a table ---- */

static void print_cell(const struct result_value *value, const char *format, FILE *out)
{
	fputc('\t', out);
	if (value->has_value) {
		fprintf(out, format, value->value);
	} else {
		fputc('-', out);
	}
}

static void print_row(const struct fidelity_row *row, FILE *out)
{
	fputs(row->name, out);
	print_cell(&row->real, "%.15g", out);
	print_cell(&row->sim, "%.15g", out);
	print_cell(&row->error, "%.6f", out);
	fputc('\n', out);
}

/* Prints the errors of the steps that did the same work: on average, and of their sum. */
static void print_same_steps(const struct step_errors *steps, FILE *out)
{
	double count = (double)steps->same_steps;
	struct result_value none = {.has_value = false};
	const struct result_value real = {.has_value = true, .value = steps->same_real_ns / 1e6};
	const struct result_value sim = {.has_value = true, .value = steps->same_sim_ns / 1e6};
	struct fidelity_row row = {.name = "step_ms.same.mean_absolute_error",
		.real = none,
		.sim = none,
		.error = fidelity_step_error(steps)};

	fprintf(out, "steps.same.count\t%.0f\t%.0f\t0\n", count, count);
	print_row(&row, out);
	row = (struct fidelity_row){.name = "step_ms.same.sum",
		.real = real,
		.sim = sim,
		.error = relative_error(real.value, sim.value)};
	print_row(&row, out);
}

void fidelity_print(const struct fidelity *fidelity, FILE *out)
{
	struct fidelity_row rows[FIDELITY_ROWS_MAX];
	uint32_t count = fidelity_rows(fidelity, rows);

	fprintf(out, "metric\treal\tsim\terror\n");
	for (uint32_t i = 0; i < count; i++) {
		print_row(&rows[i], out);
	}
	if (fidelity->has_steps) {
		print_same_steps(&fidelity->steps, out);
	}
}
