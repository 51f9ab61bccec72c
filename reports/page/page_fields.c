#include "reports/page/page_sections.h"

#include "engine/base/check.h"
#include "engine/base/number.h"
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

/* Whether every object has the default of a field. */
static bool is_default(const struct json_object *objects, uint32_t count, const char *field,
	const struct json_object *defaults)
{
	const cJSON *usual = defaults->node == NULL ? NULL : json_find(defaults, field);

	for (uint32_t i = 0; i < count; i++) {
		const cJSON *node = json_find(&objects[i], field);
		if (usual == NULL || node == NULL || !cJSON_Compare(node, usual, true)) {
			return false;
		}
	}
	return true;
}

/* Every field of some objects: a row for each, a column for each object. defaults: fields that have
   these are left out; or NULL. Returns the number of fields left out. */
static uint32_t add_field_rows(struct text *page, const struct json_object *objects, uint32_t count,
	const struct json_object *defaults)
{
	uint32_t left_out = 0;

	for (uint32_t i = 0; i < count; i++) {
		const cJSON *node = NULL;
		cJSON_ArrayForEach(node, objects[i].node)
		{
			if (node->string == NULL || !is_new_field(objects, i, node->string)) {
				continue;
			}
			if (defaults != NULL &&
				is_default(objects, count, node->string, defaults)) {
				left_out++;
			} else {
				add_field_row(page, objects, count, node->string);
			}
		}
	}
	return left_out;
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

static const char *label_of(const struct result *result)
{
	return result->label.bytes;
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

/* The head of a table of fields, with a column for each of some results, or for one value. */
static void add_columns(
	struct text *page, const struct result *results, uint32_t count, const char *corner)
{
	if (results != NULL) {
		page_result_columns(page, results, count, corner);
	} else {
		text_format(page,
			"<thead><tr><th scope=\"col\">%s</th><th scope=\"col\">Value</th></tr>"
			"</thead>\n<tbody>\n",
			corner);
	}
}

static void add_configuration(struct text *page, const struct json_object *objects,
	const struct result *results, uint32_t count, const struct json_object *defaults)
{
	page_table_open(page, "configuration", "Configuration",
		count > 1 ? "What decides a result and is not a default; rows in which the results "
			    "differ are marked."
			  : "What decides the result and is not a default.");
	add_columns(page, results, count, "Setting");
	uint32_t left_out = add_field_rows(page, objects, count, defaults);
	page_rows_close(page);
	if (left_out > 0) {
		text_format(page,
			"<details><summary>All settings, with %u %s</summary>\n"
			"<div class=\"scroll\">\n<table>\n",
			left_out, word_of_count(left_out, "default", "defaults"));
		add_columns(page, results, count, "Setting");
		add_field_rows(page, objects, count, NULL);
		page_rows_close(page);
		text_add(page, "</details>\n");
	}
	text_add(page, "</section>\n");
}

void page_configuration(struct text *page, const struct result *results, uint32_t count,
	const struct json_object *defaults)
{
	struct json_object objects[8];

	check(count <= 8);
	for (uint32_t i = 0; i < count; i++) {
		objects[i] = results[i].config;
	}
	add_configuration(page, objects, results, count, defaults);
}

void page_one_configuration(
	struct text *page, const struct json_object *config, const struct json_object *defaults)
{
	add_configuration(page, config, NULL, 1, defaults);
}

void page_one_provenance(struct text *page, const struct json_document *provenance)
{
	struct json_object object = {.node = provenance->root};

	if (provenance->root == NULL) {
		return;
	}
	page_table_open(page, "provenance", "Provenance", NULL);
	add_columns(page, NULL, 1, "Origin");
	add_field_rows(page, &object, 1, NULL);
	page_table_close(page);
}

void page_provenance(struct text *page, const struct result *results, uint32_t count)
{
	struct json_object objects[8];

	check(count <= 8);
	for (uint32_t i = 0; i < count; i++) {
		objects[i] = (struct json_object){.node = results[i].provenance.root};
	}
	page_table_open(page, "provenance", "Provenance",
		"Equal result hashes mean equal decisions, step by step.");
	page_result_columns(page, results, count, "Origin");
	add_text_row(page, results, count, "folder", label_of);
	add_text_row(page, results, count, "trace", trace_name_of);
	add_text_row(page, results, count, "trace hash (XXH64)", trace_hash_of);
	add_text_row(page, results, count, "result hash", result_hash_of);
	add_field_rows(page, objects, count, NULL);
	page_rows_close(page);
	text_add(page, "<p class=\"note\">For other tools, this page holds summary.json and "
		       "provenance.json of each result: the JSON in the element <code>quire-data"
		       "</code>. Its tables are described in reports/README.md.</p>\n</section>\n");
}
