#include "bench/gate/gate_print.h"

#include "bench/gate/error_table.h"
#include "engine/base/json.h"
#include "engine/base/text.h"

#include <string.h>

static void print_counts(const struct gate *gate, FILE *out)
{
	const char *separator = "";

	if (gate->count == 0) {
		fputs("no case was run", out);
	}
	for (uint32_t i = 0; i < GATE_STATUS_COUNT; i++) {
		if (gate->counts[i] > 0) {
			fprintf(out, "%s%u %s", separator, gate->counts[i], gate_status_words[i]);
			separator = ", ";
		}
	}
}

/* Whether the figures are shown: of a case whose times were measured how uncertain they are, of a
   new one what they are, of one with other settings what these change. */
static bool is_shown(const struct gate_verdict *verdict, const struct gate_figure *figure)
{
	return figure->ratio.is_known || verdict->status == GATE_NEW ||
	       verdict->status == GATE_INVALID;
}

static void add_value(struct text *text, const struct gate_figure *figure, double value)
{
	if (figure->metric != NULL) {
		text_add_number(text, figure->metric->format, true, value);
	} else {
		text_format(text, value < 1e5 ? "%.5g" : "%.0f", value);
	}
}

/* Adds "ttft.p99 3.81 ms to 9.63 ms (+153 %), not judged". */
static void add_unjudged(struct text *text, const struct gate_figure *figure)
{
	enum number_format format = figure->metric == NULL ? NUMBER_COUNT : figure->metric->format;

	text_format(text, "%s ", figure->name);
	if (figure->has_base) {
		add_value(text, figure, figure->base);
		text_add(text, " to ");
	}
	add_value(text, figure, figure->value);
	if (figure->has_base) {
		text_add(text, " (");
		text_add_difference(text, format, &figure->base, &figure->value);
		text_add(text, ")");
	}
	text_add(text, ", not judged");
}

/* Adds "tpot.p50 3.51 ms: +0.03 % (99 % interval -0.02 to +0.08 %); +0.55 % would have been
   flagged". */
static void add_figure(struct text *text, const struct gate_figure *figure)
{
	const struct ratio *ratio = &figure->ratio;

	text_format(text, "%s ", figure->name);
	add_value(text, figure, figure->value);
	if (ratio->is_known) {
		text_format(text,
			": %+.2f %% (99 %% interval %+.2f to %+.2f %%); a change of %+.2f %% would "
			"have been flagged",
			100 * (ratio->ratio - 1), 100 * (ratio->low - 1), 100 * (ratio->high - 1),
			100 * figure->least_seen);
	}
}

/* Calls print for every line that is told of a case: its findings, then its figures. */
static void for_each_line(const struct gate_verdict *verdict,
	void (*print)(const char *line, uint32_t number, void *context), void *context)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < verdict->count; i++) {
		print(verdict->findings[i].bytes, number++, context);
	}
	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		struct text line = {0};
		if (is_shown(verdict, &verdict->figures[i])) {
			(verdict->status == GATE_INVALID ? add_unjudged : add_figure)(
				&line, &verdict->figures[i]);
			print(line.bytes, number++, context);
		}
		text_deinit(&line);
	}
}

static void print_text_line(const char *line, uint32_t number, void *context)
{
	(void)number;
	fprintf(context, "    %s\n", line);
}

void gate_print_case(const struct gate_verdict *verdict, FILE *out)
{
	fprintf(out, "%-24s %s\n", verdict->name, gate_status_words[verdict->status]);
	for_each_line(verdict, print_text_line, out);
}

void gate_print_text(const struct gate *gate, FILE *out)
{
	for (uint32_t i = 0; i < gate->count; i++) {
		gate_print_case(&gate->verdicts[i], out);
	}
	fputc('\n', out);
	error_table_print(gate, out);
	print_counts(gate, out);
	fprintf(out, "; %llu.%llu s\n", (unsigned long long)(gate->elapsed_ns / 1000000000),
		(unsigned long long)(gate->elapsed_ns / 100000000 % 10));
}

static void print_markdown_line(const char *line, uint32_t number, void *context)
{
	fputs(number == 0 ? "" : "<br>", context);
	/* a bar would end the cell */
	for (const char *at = line; *at != '\0'; at++) {
		fputs(*at == '|'     ? "\\|"
			: *at == '<' ? "&lt;"
				     : (const char[]){*at, '\0'},
			context);
	}
}

void gate_print_markdown(const struct gate *gate, FILE *out)
{
	fputs("### quire gate: ", out);
	print_counts(gate, out);
	fputs("\n\n| case | verdict | found |\n|---|---|---|\n", out);
	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		bool is_good = gate_status_costs[verdict->status] == 0;
		fprintf(out, "| %s | %s%s%s | ", verdict->name, is_good ? "" : "**",
			gate_status_words[verdict->status], is_good ? "" : "**");
		for_each_line(verdict, print_markdown_line, out);
		fputs(" |\n", out);
	}
	fputc('\n', out);
	error_table_print(gate, out);
}

static void add_junit_line(const char *line, uint32_t number, void *context)
{
	text_add(context, number == 0 ? "" : "; ");
	text_add_escaped(context, line);
}

void gate_print_junit(const struct gate *gate, FILE *out)
{
	uint32_t failures = 0;

	for (uint32_t i = 0; i < gate->count; i++) {
		failures += gate_status_costs[gate->verdicts[i].status] > 0;
	}
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuite name=\"quire gate\" tests=\"%u\" failures=\"%u\">\n",
		gate->count, failures);
	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		fprintf(out, "  <testcase name=\"%s\" time=\"%llu.%03llu\"", verdict->name,
			(unsigned long long)(verdict->elapsed_ns / 1000000000),
			(unsigned long long)(verdict->elapsed_ns / 1000000 % 1000));
		struct text text = {0};
		for_each_line(verdict, add_junit_line, &text);
		if (text.byte_count == 0) {
			fputs("/>\n", out);
			continue;
		}
		bool is_failure = gate_status_costs[verdict->status] > 0;
		fprintf(out,
			is_failure ? ">\n    <failure message=\"%s\">%s</failure>\n"
				   : ">\n    <system-out>%s: %s</system-out>\n",
			gate_status_words[verdict->status], text.bytes);
		fputs("  </testcase>\n", out);
		text_deinit(&text);
	}
	fputs("</testsuite>\n", out);
}

static cJSON *figures_to_json(const struct gate_verdict *verdict)
{
	cJSON *figures = cJSON_CreateObject();

	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		const struct gate_figure *figure = &verdict->figures[i];
		cJSON *object = cJSON_AddObjectToObject(figures, figure->name);
		cJSON_AddNumberToObject(object, "value", figure->value);
		if (figure->has_base) {
			cJSON_AddNumberToObject(object, "base", figure->base);
		}
		if (figure->ratio.is_known) {
			const struct ratio *ratio = &figure->ratio;
			cJSON_AddNumberToObject(object, "change", ratio->ratio - 1);
			cJSON_AddNumberToObject(object, "change_low", ratio->low - 1);
			cJSON_AddNumberToObject(object, "change_high", ratio->high - 1);
			cJSON_AddNumberToObject(object, "least_seen", figure->least_seen);
		}
	}
	return figures;
}

void gate_print_json(const struct gate *gate, FILE *out)
{
	cJSON *root = cJSON_CreateObject(), *cases = cJSON_CreateArray();
	cJSON *counts = cJSON_CreateObject();

	cJSON_AddStringToObject(root, "suite", gate->suite.path);
	for (uint32_t i = 0; i < GATE_STATUS_COUNT; i++) {
		cJSON_AddNumberToObject(counts, gate_status_words[i], gate->counts[i]);
	}
	cJSON_AddItemToObject(root, "counts", counts);
	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		cJSON *object = cJSON_CreateObject(), *findings = cJSON_CreateArray();
		cJSON_AddStringToObject(object, "case", verdict->name);
		cJSON_AddStringToObject(object, "status", gate_status_words[verdict->status]);
		for (uint32_t j = 0; j < verdict->count; j++) {
			cJSON_AddItemToArray(
				findings, cJSON_CreateString(verdict->findings[j].bytes));
		}
		cJSON_AddItemToObject(object, "findings", findings);
		cJSON_AddItemToObject(object, "figures", figures_to_json(verdict));
		cJSON_AddItemToArray(cases, object);
	}
	cJSON_AddItemToObject(root, "cases", cases);
	json_print(root, out);
	cJSON_Delete(root);
}

/* As GitHub reads a message: % is written %25. A finding is one line. */
static void print_message(const char *text, FILE *out)
{
	for (; *text != '\0'; text++) {
		if (*text == '%') {
			fputs("%25", out);
		} else {
			fputc(*text, out);
		}
	}
}

void gate_print_annotations(const struct gate *gate, FILE *out)
{
	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		if (verdict->status == GATE_PASS) {
			continue;
		}
		fprintf(out, "::%s title=quire gate: %s %s::",
			gate_status_costs[verdict->status] > 0 ? "error" : "notice", verdict->name,
			gate_status_words[verdict->status]);
		for (uint32_t j = 0; j < verdict->count; j++) {
			fputs(j == 0 ? "" : "; ", out);
			print_message(verdict->findings[j].bytes, out);
		}
		fputc('\n', out);
	}
}
