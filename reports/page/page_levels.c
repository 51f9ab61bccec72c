#include "reports/page/page_sections.h"

#include "reports/page/page_elements.h"

#include <stddef.h>

/* The columns of a level that the page shows, by their names in summary.json. */
static const struct level_column {
	const char *field;
	enum number_format format;
	const char *title;
} level_columns[] = {
	{"rate_per_s", NUMBER_RATE, "Requests/s"},
	{"start_s", NUMBER_TIME_S, "From"},
	{"requests", NUMBER_COUNT, "Requests"},
	{"finished", NUMBER_COUNT, "Finished"},
	{"ttft_p50_ms", NUMBER_TIME_MS, "TTFT, median"},
	{"ttft_p99_ms", NUMBER_TIME_MS, "TTFT, p99"},
	{"tpot_p99_ms", NUMBER_TIME_MS, "TPOT, p99"},
	{"attained", NUMBER_SHARE, "Within the SLO"},
	{"waiting", NUMBER_RATE, "Waiting, mean"},
	{"utilisation", NUMBER_SHARE, "Utilisation"},
};

enum { LEVEL_COLUMN_COUNT = sizeof(level_columns) / sizeof(level_columns[0]) };

static const cJSON *levels_of(const struct result *result)
{
	const cJSON *levels = json_find(&result->root, "levels");

	return cJSON_IsArray(levels) && cJSON_GetArraySize(levels) > 0 ? levels : NULL;
}

static void add_row(struct text *page, const cJSON *level)
{
	text_add(page, "<tr>");
	for (uint32_t i = 0; i < LEVEL_COLUMN_COUNT; i++) {
		const cJSON *node = cJSON_GetObjectItemCaseSensitive(level, level_columns[i].field);
		bool has_value = cJSON_IsNumber(node) && node->valuedouble >= 0;
		text_add(page, i == 0 ? "<th scope=\"row\">" : "<td>");
		text_add_number(page, level_columns[i].format, has_value,
			has_value ? node->valuedouble : 0);
		text_add(page, i == 0 ? "</th>" : "</td>");
	}
	text_add(page, "</tr>\n");
}

static void add_table(struct text *page, const cJSON *levels)
{
	const cJSON *level = NULL;

	text_add(page, "<div class=\"scroll\">\n<table>\n<thead><tr>");
	for (uint32_t i = 0; i < LEVEL_COLUMN_COUNT; i++) {
		text_format(page, "<th scope=\"col\">%s</th>", level_columns[i].title);
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
	cJSON_ArrayForEach(level, levels)
	{
		add_row(page, level);
	}
	page_rows_close(page);
}

bool page_has_levels(const struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (levels_of(&results[i]) != NULL) {
			return true;
		}
	}
	return false;
}

void page_levels(struct text *page, const struct result *results, uint32_t count)
{
	if (!page_has_levels(results, count)) {
		return;
	}
	text_add(page, "<section id=\"levels\">\n<h2>Levels of the ramp</h2>\n<p class=\"note\">"
		       "Requests and latencies are those of the requests that arrived in the "
		       "level. Its edges are marked in the figures over time.</p>\n");
	for (uint32_t i = 0; i < count; i++) {
		if (levels_of(&results[i]) == NULL) {
			continue;
		}
		if (count > 1) {
			text_add(page, "<h3>");
			page_name(page, &results[i], i);
			text_add(page, "</h3>\n");
		}
		add_table(page, levels_of(&results[i]));
	}
	text_add(page, "</section>\n");
}
