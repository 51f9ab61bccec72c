#include "bench/gate/suite.h"

#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define COST_LIMIT(cost, name, unit, title, limit, floor) limit,
static const double cost_limits[COST_COUNT] = {GATE_COST_LIST(COST_LIMIT)};
#undef COST_LIMIT

/* Options that the gate itself gives to each run, and those with which nothing runs. */
static const char *const reserved[] = {
	"--out", "--steps", "--force", "--json", "--timeline", "--help", "-h"};

static const char *keep_word(struct suite *suite, const char *bytes, size_t length)
{
	char *word = memory_take(length + 1, 1);

	memcpy(word, bytes, length);
	suite->words = memory_grow(
		suite->words, &suite->word_capacity, suite->word_count + 1, sizeof(*suite->words));
	suite->words[suite->word_count++] = word;
	return word;
}

/* Splits options at blanks. An option has no blank in it, for there is no shell that would read
   quotes. */
static enum status add_words(struct suite *suite, const struct json_object *object,
	const char *field, const char **out, uint32_t *count, struct error *error)
{
	const char *text;

	if (!json_has(object, field)) {
		return STATUS_OK;
	}
	TRY(json_text(object, field, &text, error));
	for (text += strspn(text, " "); *text != '\0'; text += strspn(text, " ")) {
		size_t length = strcspn(text, " ");
		if (*count == SUITE_ARGUMENTS_MAX) {
			return json_refuse(object, field, "fewer words", error);
		}
		const char *word = keep_word(suite, text, length);
		for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
			size_t bytes = strlen(reserved[i]);
			if (strncmp(word, reserved[i], bytes) == 0 &&
				(word[bytes] == '\0' || word[bytes] == '=')) {
				return json_refuse(object, field,
					"no --help, nor --out, --steps, --force, --json or "
					"--timeline, which the gate gives",
					error);
			}
		}
		out[(*count)++] = word;
		text += length;
	}
	return STATUS_OK;
}

/* Names the one of a list that is no cost. */
static enum status refuse_measure(
	const struct json_object *object, const cJSON *item, struct error *error)
{
	const char *dot = object->path[0] == '\0' ? "" : ".";

	return error_set(error, STATUS_INPUT,
		"%s: field %s%smeasure: found %s%.64s%s, expected names among instructions, "
		"instructions_per_step, instructions_per_request, cpu_ms, peak_memory, "
		"bytes_written",
		object->document->name, object->path, dot, cJSON_IsString(item) ? "\"" : "",
		cJSON_IsString(item) ? item->valuestring : "what is no text",
		cJSON_IsString(item) ? "\"" : "");
}

static enum status read_measures(
	struct suite_case *out, const struct json_object *object, struct error *error)
{
	const cJSON *list = json_find(object, "measure");

	if (list == NULL) {
		return STATUS_OK;
	}
	if (!cJSON_IsArray(list)) {
		return json_refuse(object, "measure", "a list of names", error);
	}
	memset(out->measures, 0, sizeof(out->measures));
	for (const cJSON *item = list->child; item != NULL; item = item->next) {
		uint32_t cost = 0;
		while (cost < COST_COUNT &&
			(!cJSON_IsString(item) ||
				strcmp(item->valuestring, gate_cost_names[cost]) != 0)) {
			cost++;
		}
		if (cost == COST_COUNT) {
			return refuse_measure(object, item, error);
		}
		out->measures[cost] = true;
	}
	return STATUS_OK;
}

static enum status read_cost_limits(
	struct suite_case *out, const struct json_object *object, struct error *error)
{
	struct json_object limits;

	if (!json_has(object, "cost_limits_percent")) {
		return STATUS_OK;
	}
	TRY(json_object(object, "cost_limits_percent", &limits, error));
	for (const cJSON *item = limits.node->child; item != NULL; item = item->next) {
		uint32_t cost = 0;
		while (cost < COST_COUNT && strcmp(item->string, gate_cost_names[cost]) != 0) {
			cost++;
		}
		if (cost == COST_COUNT) {
			return json_refuse(&limits, item->string, "the name of a cost", error);
		}
		double percent;
		TRY(json_double(&limits, item->string, 0, 1000, &percent, error));
		out->cost_limit[cost] = percent / 100;
	}
	return STATUS_OK;
}

static enum status read_decisions(
	struct suite_case *out, const struct json_object *object, struct error *error)
{
	const char *word;

	if (!json_has(object, "decisions")) {
		return STATUS_OK;
	}
	TRY(json_text(object, "decisions", &word, error));
	out->ignores_decisions = strcmp(word, "ignored") == 0;
	return out->ignores_decisions || strcmp(word, "compared") == 0
		       ? STATUS_OK
		       : json_refuse(object, "decisions", "compared or ignored", error);
}

/* What a case and the defaults may both have. */
static enum status read_common(struct suite *suite, struct suite_case *out,
	const struct json_object *object, struct error *error)
{
	const char *limits;

	TRY(add_words(suite, object, "options", out->options, &out->option_count, error));
	TRY(add_words(suite, object, "recorded", out->recorded, &out->recorded_count, error));
	if (json_has(object, "limits")) {
		TRY(json_text(object, "limits", &limits, error));
		out->limits.count = 0;
		char name[PATH_BYTES_MAX + 16];
		snprintf(name, sizeof(name), "%s: limits", object->document->name);
		if (limits[0] != '\0' &&
			limit_list_add(&out->limits, name, limits, error) != STATUS_OK) {
			error->status = STATUS_INPUT;
			return STATUS_INPUT;
		}
	}
	TRY(read_measures(out, object, error));
	TRY(read_cost_limits(out, object, error));
	TRY(read_decisions(out, object, error));
	if (json_has(object, "timeout_s")) {
		TRY(json_u32(object, "timeout_s", 1, SUITE_TIMEOUT_S_MAX, &out->timeout_s, error));
	}
	return json_has(object, "repeats")
		       ? json_u32(object, "repeats", 1, SUITE_REPEATS_MAX, &out->repeats, error)
		       : STATUS_OK;
}

/* Refuses a field that no case has, since a misspelt one would be read as absent. */
static enum status check_fields(
	const struct json_object *object, const char *const *known, struct error *error)
{
	for (const cJSON *item = object->node->child; item != NULL; item = item->next) {
		uint32_t i = 0;
		while (known[i] != NULL && strcmp(known[i], item->string) != 0) {
			i++;
		}
		if (known[i] == NULL) {
			return json_refuse(object, item->string,
				"no such field (bench/gate/README.md)", error);
		}
	}
	return STATUS_OK;
}

/* A name is a file's name in the baseline. */
static bool is_name(const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789_-");
	return length > 0 && length < SUITE_NAME_BYTES && name[length] == '\0';
}

static enum status find_tape(const struct suite *suite, struct suite_case *out,
	const struct json_object *object, struct error *error)
{
	const char *name;

	TRY(json_text(object, "tape", &name, error));
	for (uint32_t i = 0; i < suite->count; i++) {
		if (suite->cases[i].tape == NULL && strcmp(suite->cases[i].name, name) == 0) {
			out->tape = &suite->cases[i];
			return STATUS_OK;
		}
	}
	return json_refuse(object, "tape", "an earlier case, which is no tape itself", error);
}

static enum status read_case(struct suite *suite, struct suite_case *out,
	const struct json_object *object, struct error *error)
{
	static const char *const known[] = {"name", "trace", "make", "tape", "options", "recorded",
		"limits", "measure", "cost_limits_percent", "repeats", "decisions", "timeout_s",
		NULL};
	const char *name, *trace;

	TRY(check_fields(object, known, error));
	TRY(json_text(object, "name", &name, error));
	if (!is_name(name)) {
		return json_refuse(object, "name",
			"1 to 63 letters, digits, _ or -, since it is a file's name", error);
	}
	for (uint32_t i = 0; i < suite->count; i++) {
		if (strcmp(suite->cases[i].name, name) == 0) {
			return json_refuse(object, "name", "a name that no other case has", error);
		}
	}
	snprintf(out->name, sizeof(out->name), "%s", name);
	TRY(read_common(suite, out, object, error));
	if (json_has(object, "trace") + json_has(object, "make") + json_has(object, "tape") != 1) {
		return json_refuse(object, "trace", "one of trace, make and tape", error);
	}
	if (json_has(object, "tape")) {
		return find_tape(suite, out, object, error);
	}
	if (json_has(object, "make")) {
		TRY(add_words(suite, object, "make", out->make, &out->make_count, error));
		return out->make_count > 0
			       ? STATUS_OK
			       : json_refuse(object, "make", "options of quire trace make", error);
	}
	TRY(json_text(object, "trace", &trace, error));
	int folder = trace[0] == '/' ? 0 : (int)(path_name(suite->path) - suite->path);
	return path_format(out->trace, error, "%.*s%s", folder, suite->path, trace);
}

static enum status read_suite(
	struct suite *suite, const struct json_document *document, struct error *error)
{
	static const char *const known[] = {"about", "defaults", "cases", NULL};
	static const char *const common[] = {"options", "recorded", "limits", "measure",
		"cost_limits_percent", "repeats", "decisions", "timeout_s", NULL};
	struct json_object root, defaults;
	struct suite_case initial = {.repeats = SUITE_REPEATS, .timeout_s = SUITE_TIMEOUT_S};

	for (uint32_t i = 0; i < COST_COUNT; i++) {
		initial.cost_limit[i] = cost_limits[i] / 100;
	}
	TRY(json_root(&root, document, error));
	TRY(check_fields(&root, known, error));
	if (json_has(&root, "defaults")) {
		TRY(json_object(&root, "defaults", &defaults, error));
		TRY(check_fields(&defaults, common, error));
		TRY(read_common(suite, &initial, &defaults, error));
	}
	const cJSON *list = json_find(&root, "cases");
	int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
	if (cJSON_IsArray(list) && count == 0) {
		return error_set(error, STATUS_INPUT,
			"%s: field cases: found no case, expected at least one", document->name);
	}
	if (count == 0 || count > SUITE_CASES_MAX) {
		return json_refuse(&root, "cases", "a list of 1 to 256 cases", error);
	}
	suite->cases = memory_take((size_t)count, sizeof(*suite->cases));
	for (const cJSON *item = list->child; item != NULL; item = item->next) {
		struct json_object object = {.document = document, .node = item};
		snprintf(object.path, sizeof(object.path), "cases[%u]", suite->count);
		if (!cJSON_IsObject(item)) {
			return json_refuse(&root, "cases", "a list of objects", error);
		}
		suite->cases[suite->count] = initial;
		TRY(read_case(suite, &suite->cases[suite->count], &object, error));
		suite->count++;
	}
	return STATUS_OK;
}

enum status suite_open(struct suite *suite, const char *path, struct error *error)
{
	struct json_document document = {.root = NULL};

	memset(suite, 0, sizeof(*suite));
	TRY(path_format(suite->path, error, "%s", path));
	TRY(json_document_open(&document, path, error));
	enum status status = read_suite(suite, &document, error);
	json_document_close(&document);
	return status;
}

void suite_close(struct suite *suite)
{
	for (size_t i = 0; i < suite->word_count; i++) {
		free(suite->words[i]);
	}
	free(suite->words);
	free(suite->cases);
	memset(suite, 0, sizeof(*suite));
}
