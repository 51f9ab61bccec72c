#include "sim/profile.h"

#include "engine/base/embedded_file.h"
#include "engine/base/json.h"
#include "engine/base/path.h"
#include "engine/base/text.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

extern const struct embedded_file sim_profiles[];
extern const uint32_t sim_profiles_count;

#define PROFILE_SCHEMA "quire-gpu-1"

uint32_t gpu_profile_count(void)
{
	return sim_profiles_count;
}

const char *gpu_profile_file(uint32_t index)
{
	return index < sim_profiles_count ? sim_profiles[index].name : NULL;
}

/* One number: {"value": 1, "unit": "ns", "source": "..."}. */
struct number {
	const char *field;
	const char *unit;
	double minimum, maximum;
	double *value;
};

static enum status read_number(
	const struct json_object *object, const struct number *number, struct error *error)
{
	struct json_object inner;
	const char *unit = NULL, *source = NULL;
	char expected[32];

	TRY(json_object(object, number->field, &inner, error));
	TRY(json_double(&inner, "value", number->minimum, number->maximum, number->value, error));
	TRY(json_text(&inner, "unit", &unit, error));
	if (strcmp(unit, number->unit) != 0) {
		snprintf(expected, sizeof(expected), "\"%s\"", number->unit);
		return json_refuse(&inner, "unit", expected, error);
	}
	TRY(json_text(&inner, "source", &source, error));
	if (source[0] == '\0') {
		return json_refuse(&inner, "source", "where the number was taken from", error);
	}
	return STATUS_OK;
}

/* All numbers of an object, and no other field, so that a misspelt one is an error. */
static enum status read_numbers(const struct json_object *object, const struct number *numbers,
	size_t count, struct error *error)
{
	for (size_t i = 0; i < count; i++) {
		TRY(read_number(object, &numbers[i], error));
	}
	const cJSON *child = NULL;
	cJSON_ArrayForEach(child, object->node)
	{
		bool is_known = false;
		for (size_t i = 0; i < count; i++) {
			is_known = is_known || strcmp(child->string, numbers[i].field) == 0;
		}
		if (!is_known) {
			return json_refuse(object, child->string,
				"no such field: a profile has none of that name", error);
		}
	}
	return STATUS_OK;
}

static enum status read_linears(
	const struct json_object *root, struct gpu_profile *out, struct error *error)
{
	struct json_object linears;

	TRY(json_object(root, "products", &linears, error));
	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		struct gpu_linear *linear = &out->linear[i];
		const struct number numbers[] = {
#define LINEAR_NUMBER(field, unit, minimum, maximum)                                               \
	{#field, unit, minimum, maximum, &linear->field},
			GPU_PROFILE_LINEAR_LIST(LINEAR_NUMBER)
#undef LINEAR_NUMBER
		};
		struct json_object object;
		TRY(json_object(&linears, model_linear_name((enum model_linear)i), &object, error));
		TRY(read_numbers(&object, numbers, sizeof(numbers) / sizeof(numbers[0]), error));
	}
	return STATUS_OK;
}

/* The best that the GPU can do, without which nothing can be calibrated. */
static enum status read_limits(
	const struct json_object *root, struct gpu_profile *out, struct error *error)
{
	struct operation_limits *limits = &out->prices.limits;
	const struct number numbers[] = {
#define LIMIT_NUMBER(field, unit, minimum, maximum)                                                \
	{#field, unit, minimum, maximum, &limits->field},
		OPERATION_LIMIT_LIST(LIMIT_NUMBER)
#undef LIMIT_NUMBER
	};
	struct json_object object;

	out->has_limits = out->is_calibrated || json_find(root, "limits") != NULL;
	if (!out->has_limits) {
		return STATUS_OK;
	}
	TRY(json_object(root, "limits", &object, error));
	return read_numbers(&object, numbers, sizeof(numbers) / sizeof(numbers[0]), error);
}

/* A profile without the section prices one rank. */
static enum status read_link(
	const struct json_object *root, struct gpu_profile *out, struct error *error)
{
	const struct number numbers[] = {
#define LINK_NUMBER(field, unit, minimum, maximum) {#field, unit, minimum, maximum, &out->field},
		GPU_PROFILE_LINK_LIST(LINK_NUMBER)
#undef LINK_NUMBER
	};
	struct json_object object;

	out->has_link = json_find(root, "link") != NULL;
	if (!out->has_link) {
		return STATUS_OK;
	}
	TRY(json_object(root, "link", &object, error));
	return read_numbers(&object, numbers, sizeof(numbers) / sizeof(numbers[0]), error);
}

static enum status read_rates(
	const struct json_object *root, struct gpu_profile *out, struct error *error)
{
	const struct number numbers[] = {
#define PROFILE_NUMBER(field, unit, minimum, maximum) {#field, unit, minimum, maximum, &out->field},
		GPU_PROFILE_NUMBER_LIST(PROFILE_NUMBER)
#undef PROFILE_NUMBER
	};
	struct json_object object;

	TRY(json_object(root, "numbers", &object, error));
	TRY(read_numbers(&object, numbers, sizeof(numbers) / sizeof(numbers[0]), error));
	TRY(read_link(root, out, error));
	return read_linears(root, out, error);
}

static enum status read_profile(
	const struct json_document *document, struct gpu_profile *out, struct error *error)
{
	struct json_object root;
	const char *schema = NULL, *description = NULL;

	json_root(&root, document, error);
	TRY(json_text(&root, "schema", &schema, error));
	out->is_calibrated = strcmp(schema, GPU_PROFILE_CALIBRATED_SCHEMA) == 0;
	if (!out->is_calibrated && strncmp(schema, GPU_PROFILE_CALIBRATED_FORM,
					   strlen(GPU_PROFILE_CALIBRATED_FORM)) == 0) {
		return json_refuse(&root, "schema",
			"\"" GPU_PROFILE_CALIBRATED_SCHEMA
			"\": make the profile again from its points, "
			"quire calibrate --points DIR/points.tsv",
			error);
	}
	if (!out->is_calibrated && strcmp(schema, PROFILE_SCHEMA) != 0) {
		return json_refuse(&root, "schema",
			"\"" PROFILE_SCHEMA "\" or \"" GPU_PROFILE_CALIBRATED_SCHEMA "\"", error);
	}
	TRY(json_text(&root, "description", &description, error));
	snprintf(out->description, sizeof(out->description), "%s", description);
	text_make_printable(out->description);
	TRY(read_limits(&root, out, error));
	return out->is_calibrated ? gpu_profile_read_calibrated(&root, out, error)
				  : read_rates(&root, out, error);
}

/* ---- finding ---- */

/* A file's name without folders and without ".json". */
static void profile_name(struct gpu_profile *out, const char *path)
{
	const char *start = path_name(path);
	size_t length = strlen(start) - strlen(".json");
	if (length >= sizeof(out->name)) {
		length = sizeof(out->name) - 1;
	}
	memcpy(out->name, start, length);
	out->name[length] = '\0';
	text_make_printable(out->name);
}

/* The GPU or profile that a mistyped name was meant to be. */
static bool find_meant(const char *name, char *out)
{
	static const char sheet[] = GPU_PROFILE_DATASHEET;
	uint32_t edits = TEXT_EDITS_NONE;
	bool is_found = false;

	for (uint32_t i = 0; i < sim_profiles_count; i++) {
		char known[GPU_PROFILE_NAME_BYTES];
		const char *file = sim_profiles[i].name;
		snprintf(known, sizeof(known), "%.*s", (int)(strlen(file) - strlen(".json")), file);
		char *end = strstr(known, sheet);
		/* first the GPU, whose own name has no ending */
		for (uint32_t whole = end == NULL; whole < 2; whole++) {
			if (end != NULL) {
				*end = whole == 0 ? '\0' : sheet[0];
			}
			if (text_is_meant(name, known, &edits)) {
				snprintf(out, GPU_PROFILE_NAME_BYTES, "%s", known);
				is_found = true;
			}
		}
	}
	return is_found;
}

static enum status unknown_profile(const char *name, struct error *error)
{
	char names[320] = "";
	size_t used = 0;
	for (uint32_t i = 0; i < sim_profiles_count && used < sizeof(names); i++) {
		const char *file = sim_profiles[i].name;
		int written = snprintf(names + used, sizeof(names) - used, "%s%.*s",
			i == 0 ? "" : ", ", (int)(strlen(file) - strlen(".json")), file);
		used += written > 0 ? (size_t)written : 0;
	}
	char meant[GPU_PROFILE_NAME_BYTES];
	bool has_meant = find_meant(name, meant);
	return error_set(error, STATUS_USAGE,
		"gpu '%s': expected a GPU such as h200, one of %s, or a .json file%s%s%s", name,
		names, has_meant ? "; did you mean " : "", has_meant ? meant : "",
		has_meant ? "?" : "");
}

bool gpu_profile_is_file(const char *name_or_path)
{
	size_t length = strlen(name_or_path);

	return length > 5 && strcmp(name_or_path + length - 5, ".json") == 0;
}

/* XXH64 over the values of a JSON document, whatever the blanks between them. */
static uint64_t content_hash(const struct json_document *document)
{
	enum { DEPTH_MAX = 32 };
	const cJSON *above[DEPTH_MAX];
	const cJSON *node = document->root;
	uint32_t depth = 0;
	uint64_t hash = 0;

	for (;;) {
		const uint64_t words[] = {hash, depth, (uint64_t)node->type};
		hash = XXH64(&node->valuedouble, sizeof(double), XXH64(words, sizeof(words), 0));
		hash = node->string == NULL ? hash
					    : XXH64(node->string, strlen(node->string), hash);
		hash = node->valuestring == NULL
			       ? hash
			       : XXH64(node->valuestring, strlen(node->valuestring), hash);
		if (node->child != NULL && depth < DEPTH_MAX) {
			above[depth++] = node;
			node = node->child;
			continue;
		}
		while (node->next == NULL && depth > 0) {
			node = above[--depth];
		}
		if (node->next == NULL) {
			return hash;
		}
		node = node->next;
	}
}

static enum status open_document(struct json_document *document, const char *name_or_path,
	struct gpu_profile *out, struct error *error)
{
	char file[GPU_PROFILE_NAME_BYTES + sizeof(".json")];
	size_t length = strlen(name_or_path);

	if (gpu_profile_is_file(name_or_path)) {
		profile_name(out, name_or_path);
		return json_document_open(document, name_or_path, error);
	}
	if (length >= GPU_PROFILE_NAME_BYTES) {
		return unknown_profile(name_or_path, error);
	}
	snprintf(file, sizeof(file), "%s.json", name_or_path);
	const struct embedded_file *embedded =
		embedded_file_find(sim_profiles, sim_profiles_count, file);
	if (embedded == NULL) {
		return unknown_profile(name_or_path, error);
	}
	profile_name(out, file);
	return json_document_parse(document, file, embedded->bytes, embedded->size, error);
}

enum status gpu_profile_find(const char *name_or_path, struct gpu_profile *out, struct error *error)
{
	struct json_document document = {.root = NULL};

	memset(out, 0, sizeof(*out));
	TRY(open_document(&document, name_or_path, out, error));
	enum status status = read_profile(&document, out, error);
	out->xxh64 = content_hash(&document);
	json_document_close(&document);
	return status;
}
