#include "bench/gate/gate_print.h"

#include "engine/base/json.h"
#include "engine/base/text.h"

#include <string.h>

static void print_counts(const struct gate *gate, FILE *out)
{
	const char *separator = "";

	for (uint32_t i = 0; i < GATE_STATUS_COUNT; i++) {
		if (gate->counts[i] > 0) {
			fprintf(out, "%s%u %s", separator, gate->counts[i], gate_status_words[i]);
			separator = ", ";
		}
	}
}

void gate_print_text(const struct gate *gate, FILE *out)
{
	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		fprintf(out, "%-24s %s\n", verdict->name, gate_status_words[verdict->status]);
		for (uint32_t j = 0; j < verdict->count; j++) {
			fprintf(out, "    %s\n", verdict->findings[j].bytes);
		}
	}
	fputc('\n', out);
	print_counts(gate, out);
	fprintf(out, "; %llu.%llu s\n", (unsigned long long)(gate->elapsed_ns / 1000000000),
		(unsigned long long)(gate->elapsed_ns / 100000000 % 10));
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
		for (uint32_t j = 0; j < verdict->count; j++) {
			fputs(j == 0 ? "" : "<br>", out);
			/* a bar would end the cell */
			for (const char *at = verdict->findings[j].bytes; *at != '\0'; at++) {
				fputs(*at == '|'     ? "\\|"
					: *at == '<' ? "&lt;"
						     : (const char[]){*at, '\0'},
					out);
			}
		}
		fputs(" |\n", out);
	}
	fputc('\n', out);
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
		if (verdict->count == 0) {
			fputs("/>\n", out);
			continue;
		}
		struct text text = {0};
		for (uint32_t j = 0; j < verdict->count; j++) {
			text_add(&text, j == 0 ? "" : "; ");
			text_add_escaped(&text, verdict->findings[j].bytes);
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
		cJSON_AddItemToArray(cases, object);
	}
	cJSON_AddItemToObject(root, "cases", cases);
	json_print(root, out);
	cJSON_Delete(root);
}

/* % and line breaks are written as GitHub reads them. */
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
