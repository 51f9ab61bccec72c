#include "reports/page/page_elements.h"

#include "engine/base/check.h"

#include <string.h>

void page_value(struct text *page, const struct result *result, enum result_number number)
{
	const struct result_value *value = &result->numbers[number];

	text_add_number(page, metrics_table[number].format, value->has_value, value->value);
}

void page_name(struct text *page, const struct result *result, uint32_t index)
{
	text_format(page, "<span class=\"name run-%u\">", index + 1);
	text_add_escaped(page, result->legend.bytes);
	text_add(page, "</span>");
}

void page_card_open(struct text *page, const char *title, const char *state)
{
	text_format(page, "<div class=\"card%s%s\"><dt>%s</dt><dd>", *state == '\0' ? "" : " ",
		state, title);
}

void page_card_close(struct text *page)
{
	text_add(page, "</dd></div>\n");
}

void page_config_text(struct text *page, const struct result *result, const char *field)
{
	const cJSON *node = json_find(&result->config, field);

	text_add_escaped(page, cJSON_IsString(node) ? node->valuestring : "?");
}

/* A JSON value as readable text. */
void page_json(struct text *page, const cJSON *node)
{
	if (node == NULL || cJSON_IsNull(node)) {
		text_add(page, "\u2013");
		return;
	}
	if (cJSON_IsString(node)) {
		text_add_escaped(page, node->valuestring);
		return;
	}
	char *printed = cJSON_PrintUnformatted(node);
	check(printed != NULL);
	text_add_escaped(page, printed);
	cJSON_free(printed);
}

const char *page_verdict_meaning(const struct result *result)
{
	const char *verdict = result->verdict;

	if (strcmp(verdict, "stable") == 0) {
		return result->numbers[VALUE_REJECTED].value > 0
			       ? "The engine kept up with the requests that it took."
			       : "The engine kept up with what arrived.";
	}
	if (strcmp(verdict, "backlogged") == 0) {
		return "Waiting dominates: many requests were still queued when the last one "
		       "arrived, or they queued longer than they were served.";
	}
	if (strcmp(verdict, "unserved") == 0) {
		return "Requests were left when no replica was there to take them: the figures are "
		       "of "
		       "those that were served.";
	}
	return "More arrived than was served, to the end of the arrivals, so latencies grow "
	       "with the length of the trace and only the throughput describes the engine.";
}

void page_table_open(struct text *page, const char *id, const char *title, const char *note)
{
	text_format(page, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
	if (note != NULL) {
		text_format(page, "<p class=\"note\">%s</p>\n", note);
	}
	text_add(page, "<div class=\"scroll\">\n<table>\n");
}

void page_rows_close(struct text *page)
{
	text_add(page, "</tbody>\n</table>\n</div>\n");
}

void page_table_close(struct text *page)
{
	page_rows_close(page);
	text_add(page, "</section>\n");
}

void page_result_columns(
	struct text *page, const struct result *results, uint32_t count, const char *corner)
{
	text_format(page, "<thead><tr><th scope=\"col\">%s</th>", corner);
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, "<th scope=\"col\">");
		if (count == 1) {
			text_add(page, "Value");
		} else {
			page_name(page, &results[i], i);
		}
		text_add(page, "</th>");
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
}
