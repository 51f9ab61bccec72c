#include "reports/page/page_sections.h"

#include "engine/base/check.h"
#include "reports/page/page.h"
#include "reports/page/page_elements.h"

#include <string.h>

/* How the runs of a page differ, and the names that follow from it. */

enum { NAME_SETTINGS_MAX = 2, NAME_BYTES_MAX = 48 };

static bool is_same_value(const cJSON *one, const cJSON *other)
{
	bool has_one = one != NULL && !cJSON_IsNull(one);
	bool has_other = other != NULL && !cJSON_IsNull(other);

	return has_one == has_other && (!has_one || cJSON_Compare(one, other, true));
}

/* What a run has no option for, as a recording has none for prices, is no difference. */
static bool is_same_in(const struct result *one, const struct result *other, const char *field)
{
	const cJSON *first = json_find(&one->config, field);
	const cJSON *second = json_find(&other->config, field);

	return first == NULL || second == NULL || is_same_value(first, second);
}

bool page_setting_differs(const struct result *results, uint32_t count, const char *field)
{
	for (uint32_t i = 1; i < count; i++) {
		if (!is_same_in(&results[0], &results[i], field)) {
			return true;
		}
	}
	return false;
}

bool page_traces_differ(const struct result *results, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		if (strcmp(results[0].trace_xxh64, results[i].trace_xxh64) != 0) {
			return true;
		}
	}
	return false;
}

/* The index-th setting in which the runs differ, or NULL. Only settings that the first run has:
   all results of one schema have the same. */
static const char *setting_at(const struct result *results, uint32_t count, uint32_t index)
{
	const cJSON *node = NULL;

	cJSON_ArrayForEach(node, results[0].config.node)
	{
		if (page_setting_differs(results, count, node->string) && index-- == 0) {
			return node->string;
		}
	}
	return NULL;
}

/* "max-num-seqs 128". The name comes from a file, so its length is not known. */
static void add_setting(struct text *out, const struct result *result, const char *field)
{
	const cJSON *node = json_find(&result->config, field);
	char *printed = cJSON_IsString(node) ? NULL : cJSON_PrintUnformatted(node);
	bool is_empty = node == NULL || cJSON_IsNull(node);

	for (const char *at = field; *at != '\0'; at++) {
		text_add_bytes(out, *at == '_' ? "-" : at, 1);
	}
	text_add(out, " ");
	text_add(out, is_empty ? "none" : cJSON_IsString(node) ? node->valuestring : printed);
	cJSON_free(printed);
}

static void add_name(struct text *out, const struct result *results, uint32_t count, uint32_t index,
	uint32_t settings)
{
	if (page_traces_differ(results, count)) {
		text_add(out, results[index].trace_name);
	}
	for (uint32_t i = 0; i < settings; i++) {
		const char *field = setting_at(results, count, i);
		if (field != NULL) {
			text_add(out, out->byte_count > 0 ? ", " : "");
			add_setting(out, &results[index], field);
		}
	}
}

/* Whether each run has a short name of its own. */
static bool names_tell_apart(const struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct text *name = &results[i].legend;
		if (name->byte_count == 0 || name->byte_count > NAME_BYTES_MAX) {
			return false;
		}
		for (uint32_t j = 0; j < i; j++) {
			if (strcmp(name->bytes, results[j].legend.bytes) == 0) {
				return false;
			}
		}
	}
	return true;
}

static void clear_names(struct result *results, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		text_deinit(&results[i].legend);
	}
}

static bool names_are_settings(struct result *results, uint32_t count)
{
	for (uint32_t settings = 0; count > 1 && settings <= NAME_SETTINGS_MAX; settings++) {
		for (uint32_t i = 0; i < count; i++) {
			add_name(&results[i].legend, results, count, i, settings);
		}
		if (names_tell_apart(results, count)) {
			return true;
		}
		clear_names(results, count);
	}
	return false;
}

void page_name_runs(struct result *results, uint32_t count, bool is_fidelity)
{
	if (!is_fidelity && names_are_settings(results, count)) {
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		text_add(&results[i].legend, !is_fidelity ? results[i].label.bytes
					     : i == 0	  ? "real"
							  : "simulated");
	}
}

/* All settings in which a run differs, unless its name says them, and its folder. */
void page_run_differences(
	struct text *page, const struct result *results, uint32_t count, uint32_t index)
{
	struct text text = {0};
	const char *field = NULL;

	for (uint32_t i = 0; (field = setting_at(results, count, i)) != NULL; i++) {
		text_add(&text, i == 0 ? "" : ", ");
		add_setting(&text, &results[index], field);
	}
	if (text.byte_count == 0) {
		text_add(&text, "no setting differs");
	}
	if (strcmp(text.bytes, results[index].legend.bytes) != 0) {
		text_add_escaped(page, text.bytes);
		text_add(page, "; ");
	}
	text_add(page, "folder ");
	text_add_escaped(page, results[index].label.bytes);
	text_deinit(&text);
}
