#include "bench/compare/compare.h"

#include "engine/base/integer.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "engine/base/text.h"
#include "reports/results/result.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 8, VALUES_MAX = 4096 };

static void value_text(const cJSON *node, char *out)
{
	if (node == NULL || cJSON_IsNull(node)) {
		snprintf(out, COMPARED_TEXT_BYTES, "-");
	} else if (cJSON_IsNumber(node)) {
		snprintf(out, COMPARED_TEXT_BYTES, "%.15g", node->valuedouble);
	} else if (cJSON_IsString(node)) {
		snprintf(out, COMPARED_TEXT_BYTES, "%s", node->valuestring);
	} else if (cJSON_IsBool(node)) {
		snprintf(out, COMPARED_TEXT_BYTES, "%s", cJSON_IsTrue(node) ? "true" : "false");
	} else {
		char *text = cJSON_PrintUnformatted(node);
		snprintf(out, COMPARED_TEXT_BYTES, "%s", text == NULL ? "?" : text);
		cJSON_free(text);
	}
	text_make_printable(out);
}

/* The value at a path like "latency_ms.ttft.p99", or NULL. */
static const cJSON *find_path(const cJSON *node, const char *path)
{
	while (node != NULL && *path != '\0') {
		size_t length = strcspn(path, ".");
		const cJSON *child = cJSON_IsObject(node) ? node->child : NULL;
		while (child != NULL && (strlen(child->string) != length ||
						memcmp(child->string, path, length) != 0)) {
			child = child->next;
		}
		node = child;
		path += length + (path[length] == '.');
	}
	return node;
}

static void set_value(struct compared_value *out, const char *name, const cJSON *a, const cJSON *b)
{
	snprintf(out->name, sizeof(out->name), "%s", name);
	text_make_printable(out->name);
	value_text(a, out->a);
	value_text(b, out->b);
	out->is_number = cJSON_IsNumber(a) && cJSON_IsNumber(b);
	out->a_number = cJSON_IsNumber(a) ? a->valuedouble : 0;
	out->b_number = cJSON_IsNumber(b) ? b->valuedouble : 0;
	/* The texts may be truncated or rounded, so the JSON values are compared. */
	out->is_equal = strcmp(out->a, out->b) == 0 && cJSON_Compare(a, b, true);
	if (out->a[0] == '-' && out->a[1] == '\0' && strcmp(out->b, "-") == 0) {
		out->is_equal = true; /* null on one side and absent on the other */
	}
	out->is_config = strncmp(name, CONFIG_PREFIX, strlen(CONFIG_PREFIX)) == 0;
}

/* Walks the leaves of `root` in order and adds those that are not present yet. `a` and `b` are the
   two summaries; root is one of them. */
static enum status add_leaves(struct comparison *out, size_t *capacity, const cJSON *root,
	const cJSON *a, const cJSON *b, struct error *error)
{
	const cJSON *stack[DEPTH_MAX];
	size_t length[DEPTH_MAX]; /* length of the path above each level */
	char path[COMPARED_NAME_BYTES] = "";
	uint32_t depth = 1;

	stack[0] = root->child;
	length[0] = 0;
	while (depth > 0) {
		const cJSON *node = stack[depth - 1];
		if (node == NULL) {
			depth--;
			continue;
		}
		stack[depth - 1] = node->next;
		size_t above = length[depth - 1];
		snprintf(path + above, sizeof(path) - above, "%s%s", above == 0 ? "" : ".",
			node->string);
		if (cJSON_IsObject(node) && depth < DEPTH_MAX) {
			stack[depth] = node->child;
			length[depth++] = strlen(path);
			continue;
		}
		if (root == b && find_path(a, path) != NULL) {
			continue; /* added by the walk over A */
		}
		if (out->value_count == VALUES_MAX) {
			return error_set(error, STATUS_INPUT, "a summary has more than %d values",
				VALUES_MAX);
		}
		out->values = memory_grow(
			out->values, capacity, out->value_count + (size_t)1, sizeof(*out->values));
		set_value(&out->values[out->value_count++], path, find_path(a, path),
			find_path(b, path));
	}
	return STATUS_OK;
}

static enum status open_summary(struct json_document *out, const char *folder, struct error *error)
{
	struct json_object root;
	const char *schema = NULL, *hash = NULL;

	TRY(result_summary_open(out, folder, error));
	TRY(json_root(&root, out, error));
	TRY(json_text(&root, SUMMARY_SCHEMA, &schema, error));
	if (strcmp(schema, RESULT_SCHEMA) != 0) {
		return json_refuse(&root, SUMMARY_SCHEMA, "\"" RESULT_SCHEMA "\"", error);
	}
	TRY(json_text(&root, SUMMARY_RESULT_HASH, &hash, error));
	return metrics_check(&root, error);
}

static enum status add_steps(struct comparison *out, struct error *error)
{
	char a[PATH_BYTES_MAX], b[PATH_BYTES_MAX];
	bool has_same_pool = true, has_a = false, has_b = false;

	for (uint32_t i = 0; i < out->value_count; i++) {
		if (strcmp(out->values[i].name, CONFIG_PREFIX "kv_blocks") == 0) {
			has_same_pool = out->values[i].is_equal;
		}
	}
	TRY(path_format(a, error, "%s/%s", out->a, RESULT_STEPS));
	TRY(path_format(b, error, "%s/%s", out->b, RESULT_STEPS));
	TRY(path_is_there(a, &has_a, error));
	TRY(path_is_there(b, &has_b, error));
	out->has_steps = has_a && has_b;
	if (!out->has_steps) {
		return STATUS_OK;
	}
	return compare_steps(a, b, has_same_pool, &out->steps, error);
}

static void conclude(struct comparison *out)
{
	const struct step_comparison *steps = &out->steps;

	out->has_same_values = true;
	for (uint32_t i = 0; i < out->value_count; i++) {
		const struct compared_value *value = &out->values[i];
		if (strcmp(value->name, SUMMARY_RESULT_HASH) == 0) {
			out->has_same_hash = value->is_equal;
		} else if (strcmp(value->name, SUMMARY_TRACE "." SUMMARY_TRACE_XXH64) == 0) {
			out->has_same_trace = value->is_equal;
			out->has_same_values &= value->is_equal;
		} else if (!value->is_config && !value->is_equal) {
			out->has_same_values = false;
		}
	}
	bool has_same_steps =
		!steps->decision.is_there && !steps->a_is_longer && !steps->b_is_longer;
	out->has_same_decisions = out->has_same_hash && has_same_steps;
}

static enum status compare_folders(struct comparison *out, struct error *error)
{
	struct json_document *a = &out->a_summary, *b = &out->b_summary;
	size_t capacity = 0;

	TRY(open_summary(a, out->a, error));
	TRY(open_summary(b, out->b, error));
	TRY(add_leaves(out, &capacity, a->root, a->root, b->root, error));
	TRY(add_leaves(out, &capacity, b->root, a->root, b->root, error));
	return add_steps(out, error);
}

enum status comparison_open(
	struct comparison *out, const char *a, const char *b, struct error *error)
{
	memset(out, 0, sizeof(*out));
	out->a = a;
	out->b = b;
	enum status status = compare_folders(out, error);
	if (status != STATUS_OK) {
		comparison_close(out);
		return status;
	}
	conclude(out);
	return STATUS_OK;
}

const char *comparison_part_status(const struct json_document *summary)
{
	const char *run_status = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(summary->root, SUMMARY_STATUS));

	return run_status == NULL || strcmp(run_status, "complete") == 0 ? NULL : run_status;
}

static enum status require_whole(
	const struct json_document *summary, const char *folder, struct error *error)
{
	const char *run_status = comparison_part_status(summary);

	if (run_status == NULL) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_INPUT,
		"%.200s: its run is %.20s, expected complete: limits do not judge a part; make the "
		"run again, or compare without limits",
		folder, run_status);
}

enum status comparison_require_whole(const struct comparison *comparison, struct error *error)
{
	TRY(require_whole(&comparison->a_summary, comparison->a, error));
	return require_whole(&comparison->b_summary, comparison->b, error);
}

void comparison_close(struct comparison *comparison)
{
	free(comparison->values);
	comparison->values = NULL;
	json_document_close(&comparison->a_summary);
	json_document_close(&comparison->b_summary);
}
