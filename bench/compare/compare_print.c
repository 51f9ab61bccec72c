#include "bench/compare/compare.h"

#include "engine/base/json.h"
#include "engine/base/number.h"
#include "engine/base/text.h"
#include "reports/results/fidelity.h"
#include "reports/results/metric.h"

#include <string.h>

enum { CELL_BYTES = 64 };

static void print_difference(FILE *out, const char *what, const struct step_difference *difference)
{
	fprintf(out, "  first %s to differ: step %llu, %s is %s in A and %s in B\n", what,
		(unsigned long long)difference->step, difference->column, difference->a,
		difference->b);
}

static void print_steps(const struct comparison *comparison, FILE *out)
{
	const struct step_comparison *steps = &comparison->steps;

	if (!comparison->has_steps) {
		fprintf(out, "  steps not compared: not both folders have a steps.tsv "
			     "(quire replay --steps)\n");
		return;
	}
	if (steps->decision.is_there) {
		print_difference(out, "decision", &steps->decision);
	} else if (steps->a_is_longer || steps->b_is_longer) {
		fprintf(out, "  %llu %s equal decisions, then only %s has more steps\n",
			(unsigned long long)steps->step_count,
			word_of_count(steps->step_count, "step has", "steps have"),
			steps->a_is_longer ? "A" : "B");
	} else if (steps->step_count == 1) {
		fprintf(out, "  the only step has equal decisions\n");
	} else {
		fprintf(out, "  all %llu steps have equal decisions\n",
			(unsigned long long)steps->step_count);
	}
	if (steps->other.is_there) {
		print_difference(out, "time or other column", &steps->other);
	}
}

static void print_config(const struct comparison *comparison, FILE *out)
{
	uint32_t count = 0, different = 0;
	for (uint32_t i = 0; i < comparison->value_count; i++) {
		count += comparison->values[i].is_config;
		different += comparison->values[i].is_config && !comparison->values[i].is_equal;
	}
	fprintf(out, "\nconfiguration: %u of %u values %s\n", different, count,
		word_of_count(different, "differs", "differ"));
	for (uint32_t i = 0; i < comparison->value_count; i++) {
		const struct compared_value *value = &comparison->values[i];
		if (value->is_config && !value->is_equal) {
			fprintf(out, "  %-34s %16s %16s\n", value->name + strlen(CONFIG_PREFIX),
				value->a, value->b);
		}
	}
}

/* Integers in full, decimals with six digits; --json has every digit. */
static void number_cell(char *cell, double number, const char *sign)
{
	char format[16];
	bool is_whole = number > -1e15 && number < 1e15 && (double)(long long)number == number;
	snprintf(format, sizeof(format), "%%%s%s", sign, is_whole ? ".0f" : ".6g");
	snprintf(cell, CELL_BYTES, format, number);
}

/* Whether B's value is the better one, by the table of metrics; NULL: neither is. */
static const char *change_of(const struct compared_value *value)
{
	const struct metric *metric = metric_find(value->name);
	int better = metric == NULL || value->is_equal ? 0 : metric->better;

	if (better == 0) {
		return NULL;
	}
	return (value->b_number > value->a_number) == (better > 0) ? "better" : "worse";
}

static void print_value(const struct compared_value *value, FILE *out)
{
	char a[CELL_BYTES], b[CELL_BYTES], difference[CELL_BYTES], relative[CELL_BYTES];

	if (!value->is_number) {
		fprintf(out, "  %-34s %16s %16s %14s\n", value->name, value->a, value->b,
			value->is_equal ? "" : "differs");
		return;
	}
	number_cell(a, value->a_number, "");
	number_cell(b, value->b_number, "");
	if (value->is_equal) {
		fprintf(out, "  %-34s %16s %16s\n", value->name, a, b);
		return;
	}
	number_cell(difference, value->b_number - value->a_number, "+");
	snprintf(relative, sizeof(relative), "-");
	struct result_value error = relative_error(value->a_number, value->b_number);
	if (error.has_value) {
		snprintf(relative, sizeof(relative), "%+.2f%%", error.value * 100);
	}
	const char *change = change_of(value);
	fprintf(out, "  %-34s %16s %16s %14s %10s%s%s\n", value->name, a, b, difference, relative,
		change == NULL ? "" : "  ", change == NULL ? "" : change);
}

static void print_folder(const char *label, const char *folder, FILE *out)
{
	struct text text = {0};

	text_add(&text, folder);
	text_make_printable(text.bytes);
	fprintf(out, "%s  %s\n", label, text.bytes);
	text_deinit(&text);
}

static void print_part(const char *label, const struct json_document *summary, FILE *out)
{
	const char *run_status = comparison_part_status(summary);
	struct text text = {0};

	if (run_status != NULL) {
		text_add(&text, run_status);
		text_make_printable(text.bytes);
		fprintf(out, "the run of %s is %s: its figures are of what was done until then\n",
			label, text.bytes);
	}
	text_deinit(&text);
}

void comparison_print_head(const struct comparison *comparison, FILE *out)
{
	print_folder("A", comparison->a, out);
	print_folder("B", comparison->b, out);
	print_part("A", &comparison->a_summary, out);
	print_part("B", &comparison->b_summary, out);
	fputc('\n', out);
	bool is_count_alone = comparison->has_same_hash && !comparison->has_same_decisions;
	fprintf(out, "decisions %s: the result hashes %s\n",
		comparison->has_same_decisions ? "are equal" : "DIFFER",
		is_count_alone		    ? "agree, the steps do not"
		: comparison->has_same_hash ? "agree"
					    : "differ");
	print_steps(comparison, out);
	print_config(comparison, out);
}

void comparison_print(const struct comparison *comparison, FILE *out)
{
	comparison_print_head(comparison, out);
	fprintf(out, "\n  %-34s %16s %16s %14s %10s\n", "summary", "A", "B", "B - A", "relative");
	for (uint32_t i = 0; i < comparison->value_count; i++) {
		const struct compared_value *value = &comparison->values[i];
		bool is_hidden = comparison->shows_changes_only && value->is_equal;
		if (!value->is_config && !is_hidden && strcmp(value->name, SUMMARY_SCHEMA) != 0) {
			print_value(value, out);
		}
	}
	if (comparison->has_same_decisions && !comparison->has_same_values) {
		fprintf(out, "\nBoth runs made the same decisions; only times and figures derived "
			     "from them "
			     "differ.\n");
	}
}

static void add_difference(
	cJSON *object, const char *name, const struct step_difference *difference)
{
	if (!difference->is_there) {
		cJSON_AddNullToObject(object, name);
		return;
	}
	cJSON *inner = cJSON_AddObjectToObject(object, name);
	cJSON_AddNumberToObject(inner, "step", (double)difference->step);
	cJSON_AddStringToObject(inner, "column", difference->column);
	cJSON_AddStringToObject(inner, "a", difference->a);
	cJSON_AddStringToObject(inner, "b", difference->b);
}

static void add_value(cJSON *array, const struct compared_value *value)
{
	cJSON *object = cJSON_CreateObject();
	cJSON_AddItemToArray(array, object);
	cJSON_AddStringToObject(object, "name", value->name);
	if (!value->is_number) {
		cJSON_AddStringToObject(object, "a", value->a);
		cJSON_AddStringToObject(object, "b", value->b);
		cJSON_AddBoolToObject(object, "equal", value->is_equal);
		return;
	}
	cJSON_AddNumberToObject(object, "a", value->a_number);
	cJSON_AddNumberToObject(object, "b", value->b_number);
	cJSON_AddBoolToObject(object, "equal", value->is_equal);
	cJSON_AddNumberToObject(object, "difference", value->b_number - value->a_number);
	struct result_value error = relative_error(value->a_number, value->b_number);
	if (error.has_value) {
		cJSON_AddNumberToObject(object, "relative", error.value);
	} else {
		cJSON_AddNullToObject(object, "relative");
	}
	const char *change = change_of(value);
	if (change != NULL) {
		cJSON_AddStringToObject(object, "change", change);
	}
}

void comparison_print_json(const struct comparison *comparison, FILE *out)
{
	cJSON *root = cJSON_CreateObject();
	cJSON_AddStringToObject(root, "a", comparison->a);
	cJSON_AddStringToObject(root, "b", comparison->b);
	cJSON_AddBoolToObject(root, "same_decisions", comparison->has_same_decisions);
	cJSON_AddBoolToObject(root, "same_result_hash", comparison->has_same_hash);
	cJSON_AddBoolToObject(root, "same_values", comparison->has_same_values);
	if (comparison->has_steps) {
		const struct step_comparison *steps = &comparison->steps;
		cJSON *object = cJSON_AddObjectToObject(root, "steps");
		cJSON_AddNumberToObject(object, "compared", (double)steps->step_count);
		cJSON_AddBoolToObject(object, "a_is_longer", steps->a_is_longer);
		cJSON_AddBoolToObject(object, "b_is_longer", steps->b_is_longer);
		add_difference(object, "first_decision", &steps->decision);
		add_difference(object, "first_other", &steps->other);
	} else {
		cJSON_AddNullToObject(root, "steps");
	}
	cJSON *config = cJSON_AddArrayToObject(root, "config");
	cJSON *values = cJSON_AddArrayToObject(root, "values");
	for (uint32_t i = 0; i < comparison->value_count; i++) {
		const struct compared_value *value = &comparison->values[i];
		add_value(value->is_config ? config : values, value);
	}
	json_print(root, out);
	cJSON_Delete(root);
}

void comparison_print_markdown(const struct comparison *comparison, FILE *out)
{
	const char *head = "\n| configuration | A | B |\n|---|---|---|\n";

	fprintf(out, "Decisions %s.\n", comparison->has_same_decisions ? "are equal" : "differ");
	for (uint32_t i = 0; i < comparison->value_count; i++) {
		const struct compared_value *value = &comparison->values[i];
		if (value->is_config && !value->is_equal) {
			fprintf(out, "%s| %s | %s | %s |\n", head,
				value->name + strlen(CONFIG_PREFIX), value->a, value->b);
			head = "";
		}
	}
	fputc('\n', out);
}
