#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/page_sections.h"
#include "tests/harness/made_result.h"
#include "tests/harness/page_table.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Replicas and levels on the page, of drawn results: figures that are 0, null, absent or negative,
   results without a fleet or levels beside others, one level alone. */

enum { RESULTS_MOST = 3, LEVELS_MOST = 3 };

struct shown_figure {
	const char *field;
	enum number_format format;
	const char *title;
};

static const struct shown_figure fleet_figures[] = {
	{"imbalance", NUMBER_RATE, "Most tokens a second of a replica over their mean"},
	{"jain", NUMBER_RATE, "Jain's index of the tokens a second (1 is even)"},
	{"regret_blocks", NUMBER_COUNT, "Cached blocks that another replica had (regret)"},
	{"whole_hit_rate", NUMBER_SHARE, "Hit rate of one cache with all the memory"},
	{"retries", NUMBER_COUNT, "Requests sent again after a failure"},
	{"rejected_queue_full", NUMBER_COUNT, "Rejected by the router's full queue"}};

static const struct shown_figure level_figures[] = {{"rate_per_s", NUMBER_RATE, "Requests/s"},
	{"start_s", NUMBER_TIME_S, "From"}, {"requests", NUMBER_COUNT, "Requests"},
	{"finished", NUMBER_COUNT, "Finished"}, {"ttft_p50_ms", NUMBER_TIME_MS, "TTFT, median"},
	{"ttft_p99_ms", NUMBER_TIME_MS, "TTFT, p99"}, {"tpot_p99_ms", NUMBER_TIME_MS, "TPOT, p99"},
	{"attained", NUMBER_SHARE, "Within the SLO"}, {"waiting", NUMBER_RATE, "Waiting, mean"},
	{"utilisation", NUMBER_SHARE, "Utilisation"}};

enum {
	FLEET_FIGURES = sizeof(fleet_figures) / sizeof(fleet_figures[0]),
	LEVEL_FIGURES = sizeof(level_figures) / sizeof(level_figures[0]),
};

static void draw_figures(
	struct prop *prop, cJSON *object, const struct shown_figure *figures_of, uint32_t count)
{
	static const double values[] = {0, 1, 0.25, 1.1, 1.5, 12, 4321};

	for (uint32_t i = 0; i < count; i++) {
		uint32_t kind = (uint32_t)prop_below(prop, 12);
		if (kind < 7) {
			cJSON_AddNumberToObject(object, figures_of[i].field, values[kind]);
		} else if (kind < 9) {
			cJSON_AddNumberToObject(
				object, figures_of[i].field, (double)prop_below(prop, 100000) / 64);
		} else if (kind == 9) {
			cJSON_AddNullToObject(object, figures_of[i].field);
		} else if (kind == 10) {
			cJSON_AddNumberToObject(object, figures_of[i].field, -1);
		}
	}
}

static struct text expected_text(const cJSON *object, const struct shown_figure *figure)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, figure->field);
	struct text text = {0};
	bool has_value = cJSON_IsNumber(node) && node->valuedouble >= 0;

	text_add_number(&text, figure->format, has_value, has_value ? node->valuedouble : 0);
	return text;
}

static void draw_results(struct prop *prop, struct result *results, uint32_t count)
{
	memset(results, 0, RESULTS_MOST * sizeof(*results));
	for (uint32_t i = 0; i < count; i++) {
		cJSON *root = cJSON_CreateObject();
		text_format(&results[i].legend, "run%u", i);
		results[i].root.node = root;
		if (prop_chance(prop, 2, 3)) {
			cJSON *fleet = cJSON_AddObjectToObject(root, SUMMARY_FLEET);
			draw_figures(prop, fleet, fleet_figures, FLEET_FIGURES);
			cJSON_AddStringToObject(fleet, "router", "prefix");
			cJSON *replicas = cJSON_AddArrayToObject(fleet, "replicas");
			for (uint32_t k = prop_range(prop, 0, 3); k > 0; k--) {
				cJSON *replica = cJSON_CreateObject();
				cJSON_AddNumberToObject(
					replica, "requests", (double)prop_below(prop, 2));
				cJSON_AddItemToArray(replicas, replica);
			}
		}
		if (prop_chance(prop, 2, 3)) {
			cJSON *levels = cJSON_AddArrayToObject(root, "levels");
			for (uint32_t k = prop_range(prop, 0, LEVELS_MOST); k > 0; k--) {
				cJSON *level = cJSON_CreateObject();
				draw_figures(prop, level, level_figures, LEVEL_FIGURES);
				cJSON_AddItemToArray(levels, level);
			}
		}
	}
}

static void free_results(struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		cJSON_Delete((cJSON *)results[i].root.node);
		text_deinit(&results[i].legend);
	}
}

/* NULL where the result has none. */
static const cJSON *list_of(const struct result *result, bool is_fleet)
{
	const cJSON *fleet = cJSON_GetObjectItemCaseSensitive(result->root.node, SUMMARY_FLEET);
	const cJSON *list = is_fleet
				    ? cJSON_GetObjectItemCaseSensitive(fleet, "replicas")
				    : cJSON_GetObjectItemCaseSensitive(result->root.node, "levels");

	return cJSON_GetArraySize(list) > 0 ? list : NULL;
}

static bool has_any(const struct result *results, uint32_t count, bool is_fleet)
{
	for (uint32_t i = 0; i < count; i++) {
		if (list_of(&results[i], is_fleet) != NULL) {
			return true;
		}
	}
	return false;
}

/* A row for each figure and a column for each result. */
static void require_fleet(const struct result *results, uint32_t count, const char *page)
{
	struct shown_table table;

	shown_table_open(&table, page);
	require_equal(table.titles.count, count + 1);
	require(shown_table_next(&table), "no replicas");
	for (uint32_t i = 0; i < count; i++) {
		const cJSON *replicas = list_of(&results[i], true);
		char behind[32] = "";
		snprintf(behind, sizeof(behind), "%d behind ", cJSON_GetArraySize(replicas));
		require((strstr(table.row.cells[i + 1], behind) != NULL) == (replicas != NULL),
			"%s of %d", table.row.cells[i + 1], cJSON_GetArraySize(replicas));
	}
	for (uint32_t i = 0; i < FLEET_FIGURES; i++) {
		require(shown_table_next(&table), "no row of %s", fleet_figures[i].field);
		require(strcmp(table.row.cells[0], fleet_figures[i].title) == 0, "%s, expected %s",
			table.row.cells[0], fleet_figures[i].title);
		for (uint32_t k = 0; k < count; k++) {
			const cJSON *fleet = list_of(&results[k], true) == NULL
						     ? NULL
						     : cJSON_GetObjectItemCaseSensitive(
							       results[k].root.node, SUMMARY_FLEET);
			struct text text = expected_text(fleet, &fleet_figures[i]);
			require(strcmp(table.row.cells[k + 1], text.bytes) == 0,
				"%s: %s, expected %s", fleet_figures[i].field,
				table.row.cells[k + 1], text.bytes);
			text_deinit(&text);
		}
	}
	require(!shown_table_next(&table), "more rows than figures");
}

/* A table for each result that has levels, a row for each of them. */
static void require_levels(const struct result *results, uint32_t count, const char *page)
{
	struct shown_table table = {.end = page};

	for (uint32_t i = 0; i < count; i++) {
		const cJSON *level = NULL, *levels = list_of(&results[i], false);
		if (levels == NULL) {
			continue;
		}
		shown_table_open(&table, table.end);
		require_equal(table.titles.count, LEVEL_FIGURES);
		cJSON_ArrayForEach(level, levels)
		{
			require(shown_table_next(&table), "a level is missing");
			for (uint32_t k = 0; k < LEVEL_FIGURES; k++) {
				struct text text = expected_text(level, &level_figures[k]);
				shown_table_require(&table, level_figures[k].title, text.bytes);
				text_deinit(&text);
			}
		}
		require(!shown_table_next(&table), "more rows than levels");
	}
	require(strstr(table.end, "<thead>") == NULL, "more tables than results");
}

static void body_tables(struct prop *prop, const void *context)
{
	struct result results[RESULTS_MOST];
	uint32_t count = prop_range(prop, 1, RESULTS_MOST);
	struct text page = {0};

	(void)context;
	draw_results(prop, results, count);
	require_equal(page_has_fleet(results, count), has_any(results, count, true));
	require_equal(page_has_levels(results, count), has_any(results, count, false));
	page_fleet(&page, results, count);
	require((page.byte_count > 0) == has_any(results, count, true), "a fleet");
	if (page.byte_count > 0) {
		require_fleet(results, count, page.bytes);
	}
	text_deinit(&page);
	page_levels(&page, results, count);
	require((page.byte_count > 0) == has_any(results, count, false), "levels");
	if (page.byte_count > 0) {
		require_levels(results, count, page.bytes);
	}
	text_deinit(&page);
	free_results(results, count);
}

Test(fleet_tables, have_every_figure_of_every_result, .timeout = 120)
{
	const struct prop_options options = {
		.name = "replicas and levels", .body = body_tables, .trials = 1000};

	cr_assert(prop_holds(&options));
}
