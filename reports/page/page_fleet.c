#include "reports/page/page_sections.h"

#include "reports/page/page_elements.h"

#include <string.h>

/* What the page says of a fleet, by the names of summary.json. */
static const struct fleet_row {
	const char *field;
	enum number_format format;
	const char *title;
} rows[] = {
	{"imbalance", NUMBER_RATE, "Most tokens a second of a replica over their mean"},
	{"jain", NUMBER_RATE, "Jain's index of the tokens a second (1 is even)"},
	{"regret_blocks", NUMBER_COUNT, "Cached blocks that another replica had (regret)"},
	{"whole_hit_rate", NUMBER_SHARE, "Hit rate of one cache with all the memory"},
	{"retries", NUMBER_COUNT, "Requests sent again after a failure"},
	{"rejected_queue_full", NUMBER_COUNT, "Rejected by the router's full queue"},
};

static const cJSON *fleet_of(const struct result *result)
{
	const cJSON *fleet = json_find(&result->root, SUMMARY_FLEET);
	const cJSON *replicas = cJSON_GetObjectItemCaseSensitive(fleet, "replicas");

	return cJSON_IsArray(replicas) && cJSON_GetArraySize(replicas) > 0 ? fleet : NULL;
}

/* A number >= 0 of an object. */
static struct result_value number_of(const cJSON *object, const char *field)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, field);
	bool has_value = cJSON_IsNumber(node) && node->valuedouble >= 0;

	return (struct result_value){has_value, has_value ? node->valuedouble : 0};
}

bool page_has_fleet(const struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (fleet_of(&results[i]) != NULL) {
			return true;
		}
	}
	return false;
}

/* How even it was, in words: the limits are where Jain's index and the imbalance both say so. */
static const char *evenness(double imbalance)
{
	return imbalance < 1.1	 ? "The load was even"
	       : imbalance < 1.5 ? "The load was somewhat uneven"
				 : "The load was uneven";
}

/* How many replicas had nothing to do. */
static void add_idle(struct text *page, const cJSON *replicas)
{
	const cJSON *replica;
	double idle = 0;

	cJSON_ArrayForEach(replica, replicas)
	{
		struct result_value requests = number_of(replica, "requests");
		idle += requests.has_value && requests.value == 0;
	}
	if (idle > 0) {
		text_add(page, " ");
		text_add_number(page, NUMBER_COUNT, true, idle);
		text_add(page, " of ");
		text_add_number(page, NUMBER_COUNT, true, cJSON_GetArraySize(replicas));
		text_add(page, " got no request.");
	}
}

static void add_sentence(struct text *page, const cJSON *fleet)
{
	struct result_value imbalance = number_of(fleet, "imbalance");
	struct result_value jain = number_of(fleet, "jain");

	if (!imbalance.has_value || !jain.has_value) {
		return;
	}
	text_format(page,
		"<p>%s: over the time in which each could work, the replica with the most tokens "
		"had ",
		evenness(imbalance.value));
	text_add_number(page, NUMBER_RATE, true, imbalance.value);
	text_add(page, " times the mean, and Jain's index is ");
	text_add_number(page, NUMBER_RATE, true, jain.value);
	text_add(page, " (1 if all have the same, 1 over their number if one has all).");
	add_idle(page, cJSON_GetObjectItemCaseSensitive(fleet, "replicas"));
	text_add(page, "</p>\n");
}

static void add_head_cells(
	struct text *page, const struct result *results, uint32_t count, const char *title)
{
	text_format(page, "<tr><th scope=\"row\">%s</th>", title);
	for (uint32_t i = 0; i < count; i++) {
		const cJSON *fleet = fleet_of(&results[i]);
		const cJSON *replicas = cJSON_GetObjectItemCaseSensitive(fleet, "replicas");
		text_add(page, "<td>");
		if (fleet != NULL) {
			text_add_number(page, NUMBER_COUNT, true, cJSON_GetArraySize(replicas));
			text_add(page, " behind ");
		}
		page_json(page, cJSON_GetObjectItemCaseSensitive(fleet, "router"));
		text_add(page, "</td>");
	}
	text_add(page, "</tr>\n");
}

void page_fleet(struct text *page, const struct result *results, uint32_t count)
{
	if (!page_has_fleet(results, count)) {
		return;
	}
	text_add(page, "<section id=\"fleet\">\n<h2>Replicas</h2>\n");
	if (count == 1) {
		add_sentence(page, fleet_of(&results[0]));
	}
	text_add(page, "<div class=\"scroll\">\n<table>\n");
	page_result_columns(page, results, count, "Fleet");
	add_head_cells(page, results, count, "Replicas and router");
	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		text_format(page, "<tr><th scope=\"row\">%s</th>", rows[i].title);
		for (uint32_t j = 0; j < count; j++) {
			struct result_value value = number_of(fleet_of(&results[j]), rows[i].field);
			text_add(page, "<td>");
			text_add_number(page, rows[i].format, value.has_value, value.value);
			text_add(page, "</td>");
		}
		text_add(page, "</tr>\n");
	}
	page_table_close(page);
	for (uint32_t i = 0; i < count; i++) {
		const cJSON *note =
			cJSON_GetObjectItemCaseSensitive(fleet_of(&results[i]), "router_note");
		page_note(page, results[i].label.bytes,
			cJSON_IsString(note) ? note->valuestring : "");
	}
}
