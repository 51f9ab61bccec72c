#include "reports/page/page_sections.h"

#include "engine/base/check.h"
#include "reports/page/page_elements.h"

/* Whether none of the objects before `end` has the field. */
static bool is_new_field(const struct json_object *objects, uint32_t end, const char *field)
{
	for (uint32_t i = 0; i < end; i++) {
		if (json_find(&objects[i], field) != NULL) {
			return false;
		}
	}
	return true;
}

static void add_field_row(
	struct text *page, const struct json_object *objects, uint32_t count, const char *field)
{
	const cJSON *first = json_find(&objects[0], field);
	bool differs = false;

	for (uint32_t i = 1; i < count; i++) {
		const cJSON *node = json_find(&objects[i], field);
		differs = differs ||
			  !(first == NULL ? node == NULL
					  : node != NULL && cJSON_Compare(first, node, true));
	}
	text_add(page,
		differs ? "<tr class=\"differs\"><th scope=\"row\">" : "<tr><th scope=\"row\">");
	text_add_escaped(page, field);
	text_add(page, "</th>");
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, "<td>");
		page_json(page, json_find(&objects[i], field));
		text_add(page, "</td>");
	}
	text_add(page, "</tr>\n");
}

/* Every field of some objects: a row for each, a column for each object. */
static void add_field_rows(struct text *page, const struct json_object *objects, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const cJSON *node = NULL;
		cJSON_ArrayForEach(node, objects[i].node)
		{
			if (node->string != NULL && is_new_field(objects, i, node->string)) {
				add_field_row(page, objects, count, node->string);
			}
		}
	}
}

static void add_text_row(struct text *page, const struct result *results, uint32_t count,
	const char *title, const char *(*text_of)(const struct result *result))
{
	text_format(page, "<tr><th scope=\"row\">%s</th>", title);
	for (uint32_t i = 0; i < count; i++) {
		text_add(page, "<td>");
		text_add_escaped(page, text_of(&results[i]));
		text_add(page, "</td>");
	}
	text_add(page, "</tr>\n");
}

static const char *trace_hash_of(const struct result *result)
{
	return result->trace_xxh64;
}

static const char *result_hash_of(const struct result *result)
{
	return result->result_hash;
}

static const char *trace_name_of(const struct result *result)
{
	return result->trace_name;
}

void page_fields(struct text *page, const struct result *results, uint32_t count)
{
	struct json_object objects[8];

	check(count <= 8);
	page_table_open(page, "configuration", "Configuration",
		count > 1 ? "Everything that decides a result; rows in which the results differ "
			    "are marked."
			  : "Everything that decides the result.");
	page_result_columns(page, results, count, "Setting");
	for (uint32_t i = 0; i < count; i++) {
		objects[i] = results[i].config;
	}
	add_field_rows(page, objects, count);
	page_table_close(page);

	page_table_open(page, "provenance", "Provenance",
		"Equal result hashes mean equal decisions, step by step.");
	page_result_columns(page, results, count, "Origin");
	add_text_row(page, results, count, "trace", trace_name_of);
	add_text_row(page, results, count, "trace hash (XXH64)", trace_hash_of);
	add_text_row(page, results, count, "result hash", result_hash_of);
	for (uint32_t i = 0; i < count; i++) {
		objects[i] = (struct json_object){.node = results[i].provenance.root};
	}
	add_field_rows(page, objects, count);
	page_table_close(page);
}
