#include "reports/results/plan_file.h"

#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "reports/results/fields.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const probe_purposes[PROBE_PURPOSE_COUNT + 1] = {
#define PROBE_PURPOSE_NAME(name, text) text,
	PROBE_PURPOSE_LIST(PROBE_PURPOSE_NAME)
#undef PROBE_PURPOSE_NAME
};

#define WORD(name, text) text,
static const char *const verdicts[] = {VERDICT_LIST(WORD) "-", NULL};
#undef WORD

struct result_value plan_answer_pass(const struct plan_answer *answer)
{
	return answer->is_least ? answer->lowest_pass : answer->highest_pass;
}

struct result_value plan_answer_fail(const struct plan_answer *answer)
{
	return answer->is_least ? answer->highest_fail : answer->lowest_fail;
}

const char *plan_answer_unit(const struct plan_answer *answer, double load)
{
	static const char *const counted[][2] = {{"request at a time", "requests at a time"},
		{"KV block", "KV blocks"}, {"replica", "replicas"}};

	for (uint32_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
		if (load == 1 && strcmp(answer->unit, counted[i][1]) == 0) {
			return counted[i][0];
		}
	}
	return answer->unit;
}

void plan_add_ratio(struct text *text, const struct plan_interval *ratio)
{
	enum { DIGITS_MIN = 3, DIGITS_MAX = 9 };
	double low = ratio->low.value, high = ratio->high.value;
	char first[32], last[32];
	bool is_told = false;

	for (int digits = DIGITS_MIN; digits <= DIGITS_MAX && !is_told; digits++) {
		snprintf(first, sizeof(first), "%.*g", digits, low);
		snprintf(last, sizeof(last), "%.*g", digits, high);
		is_told = (strcmp(first, last) != 0 || low == high) &&
			  (strcmp(first, "1") != 0 || low == 1) &&
			  (strcmp(last, "1") != 0 || high == 1);
	}
	bool is_one = strcmp(first, last) == 0;
	text_format(text, "%s%s%s", first, is_one ? "" : " to ", is_one ? "" : last);
}

bool plan_ratio_is_one(const struct plan_interval *ratio)
{
	static const double within = 0.001;
	double low = ratio->low.value, high = ratio->high.value;

	return ratio->low.has_value && ratio->high.has_value &&
	       ((low <= 1 && high >= 1) || (low >= 1 - within && high <= 1 + within));
}

/* ---- writing ---- */

static void add_number(cJSON *object, const char *name, struct result_value value)
{
	if (value.has_value) {
		cJSON_AddNumberToObject(object, name, value.value);
	} else {
		cJSON_AddNullToObject(object, name);
	}
}

static void add_text(cJSON *object, const char *name, const char *text)
{
	cJSON_AddStringToObject(object, name, text == NULL ? "" : text);
}

static void add_interval(cJSON *object, const struct plan_interval *interval)
{
	add_number(object, "low", interval->low);
	add_number(object, "high", interval->high);
}

cJSON *plan_answer_json(const struct plan_answer *answer)
{
	cJSON *root = cJSON_CreateObject();

#define ADD_TEXT(name) add_text(root, #name, answer->name);
	PLAN_ANSWER_TEXT_LIST(ADD_TEXT)
#undef ADD_TEXT
	add_text(root, "short_trace", answer->short_trace);
	add_text(root, "early_turns", answer->early_turns);
	if (answer->router_note != NULL && answer->router_note[0] != '\0') {
		add_text(root, "router_note", answer->router_note);
	}
#define ADD_BOOL(name) cJSON_AddBoolToObject(root, #name, answer->name);
	PLAN_ANSWER_BOOL_LIST(ADD_BOOL)
#undef ADD_BOOL
#define ADD_NUMBER(name, maximum) add_number(root, #name, answer->name);
	PLAN_ANSWER_NUMBER_LIST(ADD_NUMBER)
#undef ADD_NUMBER
	cJSON *stretches = cJSON_AddArrayToObject(root, "stretches");
	for (uint32_t i = 0; i < answer->stretch_count; i++) {
		cJSON *stretch = cJSON_CreateObject();
		cJSON_AddNumberToObject(stretch, "from", answer->stretches[i].from);
		cJSON_AddNumberToObject(stretch, "to", answer->stretches[i].to);
		cJSON_AddItemToArray(stretches, stretch);
	}
	cJSON *sampling = cJSON_AddObjectToObject(root, "sampling");
	add_interval(sampling, &answer->sampling.interval);
	add_number(sampling, "replicates", answer->sampling.replicates);
	add_text(sampling, "method", answer->sampling.method);
	add_number(sampling, "window_s", answer->sampling.window_s);
	add_text(sampling, "text", answer->sampling.text);
	cJSON *model = cJSON_AddObjectToObject(root, "model");
	add_interval(model, &answer->model.interval);
	add_number(model, "error", answer->model.error);
	cJSON_AddBoolToObject(model, "is_guess", answer->model.is_guess);
	add_text(model, "text", answer->model.text);
	cJSON *alone = cJSON_AddObjectToObject(root, "alone");
	add_number(alone, "requests", answer->alone.requests);
	add_number(alone, "misses", answer->alone.misses);
	add_number(alone, "longest_tokens", answer->alone.longest_tokens);
	return root;
}

static void write_number(struct table_writer *table, struct result_value value, uint32_t places)
{
	double scaled = value.value;

	for (uint32_t i = 0; i < places; i++) {
		scaled *= 10;
	}
	if (value.has_value) {
		table_decimal(table, (uint64_t)(scaled + 0.5), places);
	} else {
		table_none(table);
	}
}

/* The texts of a row by their columns. */
#define TEXT_configuration configuration
#define TEXT_purpose probe_purposes[probe->purpose]
#define TEXT_verdict (probe->has_verdict ? verdicts[probe->verdict] : NULL)
#define TEXT_failure probe->failure
#define TEXT_options probe->options

/* Whether no limit before it is on the same metric. */
static bool has_column(const struct plan_limits *limits, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++) {
		if (limits->list[i].metric == limits->list[index].metric) {
			return false;
		}
	}
	return true;
}

void plan_probe_header(struct text *header, const struct plan_limits *limits)
{
	text_add(header, PROBE_COLUMNS);
	for (uint32_t i = 0; i < limits->count; i++) {
		if (has_column(limits, i)) {
			text_format(
				header, "\t" PLAN_LIMIT_PREFIX "%s", limits->list[i].metric->name);
		}
	}
}

void plan_probe_write(struct table_writer *table, const char *configuration,
	const struct plan_probe *probe, const struct plan_limits *limits)
{
#define WRITE_TEXT(name) table_text(table, TEXT_##name);
#define WRITE_NUMBER(name, places, maximum) write_number(table, probe->name, places);
	PROBE_COLUMN_LIST(WRITE_TEXT, WRITE_NUMBER)
#undef WRITE_TEXT
#undef WRITE_NUMBER
	for (uint32_t i = 0; i < limits->count; i++) {
		if (has_column(limits, i)) {
			write_number(table, probe->limits[i], 6);
		}
	}
	table_end_row(table);
}

/* ---- reading plan.json ---- */

double plan_gpus(double gpus, double replicas)
{
	return floor(gpus * replicas + 0.5);
}

bool plan_has_request_limits(const struct plan_file *plan)
{
	return plan->slo_ttft_ms.has_value || plan->slo_tpot_ms.has_value ||
	       plan->slo_e2e_ms.has_value;
}

static enum status read_interval(
	const struct json_object *object, struct plan_interval *interval, struct error *error)
{
	field_number(object, "low", true, DBL_MAX, &interval->low, error);
	TRY(field_number(object, "high", true, DBL_MAX, &interval->high, error));
	bool is_ordered = !interval->low.has_value || !interval->high.has_value ||
			  interval->low.value <= interval->high.value;
	return is_ordered ? STATUS_OK : json_refuse(object, "high", "at least low", error);
}

static enum status read_stretches(
	const struct json_object *object, struct plan_answer *answer, struct error *error)
{
	TRY(error->status);
	const cJSON *list = json_find(object, "stretches");
	const cJSON *node = NULL;

	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > PLAN_STRETCHES_MAX) {
		return json_refuse(object, "stretches", "a list of at most 64", error);
	}
	cJSON_ArrayForEach(node, list)
	{
		struct json_object one = {.document = object->document, .node = node};
		struct plan_stretch *stretch = &answer->stretches[answer->stretch_count++];

		if (!cJSON_IsObject(node)) {
			return json_refuse(object, "stretches", "a list of objects", error);
		}
		snprintf(one.path, sizeof(one.path), "stretches");
		json_double(&one, "from", 0, DBL_MAX, &stretch->from, error);
		TRY(json_double(&one, "to", 0, DBL_MAX, &stretch->to, error));
		if (stretch->from > stretch->to) {
			return json_refuse(&one, "to", "at least from", error);
		}
	}
	return STATUS_OK;
}

static enum status read_answer(
	const struct json_object *parent, struct plan_answer *answer, struct error *error)
{
	struct json_object object, sampling, model, alone;

	json_object(parent, "answer", &object, error);
#define READ_TEXT(name) field_text(&object, #name, &answer->name, error);
	PLAN_ANSWER_TEXT_LIST(READ_TEXT)
#undef READ_TEXT
#define READ_BOOL(name) json_bool(&object, #name, &answer->name, error);
	PLAN_ANSWER_BOOL_LIST(READ_BOOL)
#undef READ_BOOL
#define READ_NUMBER(name, maximum)                                                                 \
	field_number(&object, #name, true, maximum, &answer->name, error);
	PLAN_ANSWER_NUMBER_LIST(READ_NUMBER)
#undef READ_NUMBER
	field_optional_text(&object, "short_trace", &answer->short_trace, error);
	field_optional_text(&object, "early_turns", &answer->early_turns, error);
	field_optional_text(&object, "router_note", &answer->router_note, error);
	read_stretches(&object, answer, error);
	json_object(&object, "sampling", &sampling, error);
	read_interval(&sampling, &answer->sampling.interval, error);
	field_number(&sampling, "replicates", true, DBL_MAX, &answer->sampling.replicates, error);
	field_number(&sampling, "window_s", true, DBL_MAX, &answer->sampling.window_s, error);
	field_text(&sampling, "method", &answer->sampling.method, error);
	field_text(&sampling, "text", &answer->sampling.text, error);
	json_object(&object, "model", &model, error);
	read_interval(&model, &answer->model.interval, error);
	field_number(&model, "error", true, DBL_MAX, &answer->model.error, error);
	json_bool(&model, "is_guess", &answer->model.is_guess, error);
	field_text(&model, "text", &answer->model.text, error);
	json_object(&object, "alone", &alone, error);
	field_number(&alone, "requests", true, DBL_MAX, &answer->alone.requests, error);
	field_number(&alone, "misses", true, DBL_MAX, &answer->alone.misses, error);
	return field_number(
		&alone, "longest_tokens", true, DBL_MAX, &answer->alone.longest_tokens, error);
}

static enum status read_names(const struct json_object *object, const char *field,
	const cJSON **names, struct error *error)
{
	TRY(error->status);
	const cJSON *name = NULL;

	*names = json_find(object, field);
	bool is_list = cJSON_IsArray(*names);
	cJSON_ArrayForEach(name, *names)
	{
		is_list = is_list && cJSON_IsString(name);
	}
	return is_list ? STATUS_OK : json_refuse(object, field, "a list of names", error);
}

static enum status read_configuration(const struct json_object *object,
	struct plan_configuration *configuration, struct error *error)
{
	struct json_object goodput, against;
	uint32_t rank = 0;

	json_text(object, "name", &configuration->name, error);
	field_text(object, "options", &configuration->options, error);
	field_text(object, "profile", &configuration->profile, error);
	json_bool(object, SUMMARY_CALIBRATED, &configuration->is_calibrated, error);
	field_optional_text(object, SUMMARY_PROFILE_NOTE, &configuration->profile_note, error);
	configuration->is_beyond_memory = cJSON_IsTrue(json_find(object, SUMMARY_BEYOND_MEMORY));
	json_double(object, "gpus", 0, 1e9, &configuration->gpus, error);
	read_answer(object, &configuration->answer, error);
	json_object(object, "goodput_per_gpu", &goodput, error);
	field_number(&goodput, "value", true, DBL_MAX, &configuration->goodput_per_gpu, error);
	read_interval(&goodput, &configuration->goodput_per_gpu_interval, error);
	json_object(object, "against_best", &against, error);
	field_number(&against, "value", true, DBL_MAX, &configuration->against_best, error);
	read_interval(&against, &configuration->against_best_interval, error);
	field_number(object, "utilisation", true, DBL_MAX, &configuration->utilisation, error);
	field_number(object, "throughput_per_gpu", true, DBL_MAX,
		&configuration->throughput_per_gpu, error);
	field_number(
		object, "speed_per_user", true, DBL_MAX, &configuration->speed_per_user, error);
	json_u32(object, "rank", 1, PLAN_CONFIGURATIONS_MAX, &rank, error);
	configuration->rank = rank;
	read_names(object, "same_as", &configuration->same_as, error);
	return json_bool(object, "on_pareto_front", &configuration->on_pareto_front, error);
}

static bool find_configuration(const struct plan_file *plan, const char *name, uint32_t *index)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		if (strcmp(plan->configurations[i].name, name) == 0) {
			*index = i;
			return true;
		}
	}
	return false;
}

static enum status read_configurations(struct plan_file *plan, struct error *error)
{
	TRY(error->status);
	const cJSON *list = json_find(&plan->root, "configurations");
	const cJSON *node = NULL;
	int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
	uint32_t same;

	if (count < 1 || count > PLAN_CONFIGURATIONS_MAX) {
		return json_refuse(&plan->root, "configurations", "a list of 1 to 256", error);
	}
	plan->configurations = memory_take((size_t)count, sizeof(*plan->configurations));
	cJSON_ArrayForEach(node, list)
	{
		struct plan_configuration *one = &plan->configurations[plan->configuration_count];
		struct json_object object = {.document = &plan->summary, .node = node};

		snprintf(object.path, sizeof(object.path), "configurations[%u]",
			plan->configuration_count);
		if (!cJSON_IsObject(node)) {
			return json_refuse(
				&plan->root, "configurations", "a list of objects", error);
		}
		TRY(read_configuration(&object, one, error));
		if (find_configuration(plan, one->name, &same)) {
			return json_refuse(&object, "name", "a name of its own", error);
		}
		plan->configuration_count++;
	}
	return STATUS_OK;
}

static enum status read_limits(
	const struct json_object *slo, struct plan_limits *limits, struct error *error)
{
	const char *text = "";

	TRY(field_text(slo, "limits", &text, error));
	if (text[0] == '\0') {
		return STATUS_OK;
	}
	struct error reason = {0};
	bool is_read = metric_limits_parse("limits", text, false, limits->list, &limits->count,
			       &reason) == STATUS_OK &&
		       limits->count <= PLAN_LIMITS_MAX;
	return is_read ? STATUS_OK
		       : json_refuse(slo, "limits",
				 "at most 16 limits such as ttft.p99<=2000, with commas", error);
}

static enum status read_summary(struct plan_file *plan, struct error *error)
{
	static const char *const schemas[] = {PLAN_SCHEMA, NULL};
	static const char *const ends[] = {"interrupted", "complete", "failed", NULL};
	struct json_object slo, trace;
	uint32_t place = 0, schema;

	TRY(json_root(&plan->root, &plan->summary, error));
	const struct json_object *root = &plan->root;
	field_word(root, "schema", schemas, "\"" PLAN_SCHEMA "\"", &schema, error);
	field_word(root, "status", ends, "complete, interrupted or failed", &place, error);
	plan->is_complete = place == 1;
	plan->is_failed = place == 2;
	json_bool(root, SUMMARY_CALIBRATED, &plan->is_calibrated, error);
	read_answer(root, &plan->answer, error);
	json_object(root, "slo", &slo, error);
	field_text(&slo, "text", &plan->slo_text, error);
	field_number(&slo, "ttft_ms", true, DBL_MAX, &plan->slo_ttft_ms, error);
	field_number(&slo, "tpot_ms", true, DBL_MAX, &plan->slo_tpot_ms, error);
	field_number(&slo, "e2e_ms", true, DBL_MAX, &plan->slo_e2e_ms, error);
	field_number(&slo, "attain", true, 1, &plan->slo_attain, error);
	read_limits(&slo, &plan->limits, error);
	json_object(root, SUMMARY_TRACE, &trace, error);
	json_text(&trace, SUMMARY_TRACE_NAME, &plan->trace_name, error);
	field_number(&trace, "requests", true, DBL_MAX, &plan->trace_requests, error);
	field_optional_text(&trace, PLAN_MADE_BY, &plan->made_by, error);
	TRY(read_configurations(plan, error));
	return json_object(root, SUMMARY_CONFIG, &plan->config, error);
}

/* ---- reading plan.tsv ---- */

/* The columns in the order of the list. */
enum probe_column {
#define COLUMN_OF_TEXT(name) COLUMN_##name,
#define COLUMN_OF_NUMBER(name, places, maximum) COLUMN_##name,
	PROBE_COLUMN_LIST(COLUMN_OF_TEXT, COLUMN_OF_NUMBER)
#undef COLUMN_OF_TEXT
#undef COLUMN_OF_NUMBER
		COLUMN_COUNT
};

/* A copy of a text cell; NULL: it has none. */
static const char *text_of(const struct table_reader *table, uint32_t column)
{
	struct text text = {0};

	if (strcmp(table->cells[column], "-") != 0) {
		text_add(&text, table->cells[column]);
	}
	return text.bytes;
}

/* columns: (COLUMN_COUNT) and those of the limits. */
static enum status read_probe(const struct plan_file *plan, const struct table_reader *table,
	const uint32_t *columns, struct plan_probe *probe, struct error *error)
{
	uint32_t configuration = columns[COLUMN_configuration];
	uint32_t purpose = 0, verdict = 0;

	if (!find_configuration(plan, table->cells[configuration], &probe->configuration)) {
		return table_reader_refuse(
			table, configuration, "a configuration of " PLAN_SUMMARY, error);
	}
	cell_word(table, columns[COLUMN_purpose], probe_purposes, "a purpose", &purpose, error);
	cell_word(table, columns[COLUMN_verdict], verdicts, "a verdict", &verdict, error);
	probe->purpose = purpose;
	probe->has_verdict = verdict <= VERDICT_UNSERVED;
	probe->verdict = probe->has_verdict ? verdict : VERDICT_STABLE;
#define NO_TEXT(name)
#define READ_CELL(name, places, maximum)                                                           \
	cell_number(table, columns[COLUMN_##name], maximum, &probe->name, error);
	PROBE_COLUMN_LIST(NO_TEXT, READ_CELL)
#undef READ_CELL
	for (uint32_t i = 0; i < plan->limits.count; i++) {
		cell_number(table, columns[COLUMN_COUNT + i], PROBE_NUMBER_MAX, &probe->limits[i],
			error);
	}
	probe->failure = text_of(table, columns[COLUMN_failure]);
	probe->options = text_of(table, columns[COLUMN_options]);
	return error->status;
}

static enum status read_probes(
	struct plan_file *plan, struct table_reader *table, struct error *error)
{
	static const char *const names[] = {
#define NAME_OF_TEXT(name) #name,
#define NAME_OF_NUMBER(name, places, maximum) #name,
		PROBE_COLUMN_LIST(NAME_OF_TEXT, NAME_OF_NUMBER)
#undef NAME_OF_TEXT
#undef NAME_OF_NUMBER
	};
	uint32_t columns[COLUMN_COUNT + PLAN_LIMITS_MAX];
	size_t capacity = 0;

	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		TRY(table_reader_column(table, names[i], &columns[i], error));
	}
	for (uint32_t i = 0; i < plan->limits.count; i++) {
		char name[64];
		snprintf(name, sizeof(name), PLAN_LIMIT_PREFIX "%s",
			plan->limits.list[i].metric->name);
		TRY(table_reader_column(table, name, &columns[COLUMN_COUNT + i], error));
	}
	while (table_reader_next(table, error)) {
		if (plan->probe_count == PLAN_PROBES_MAX) {
			return table_reader_refuse(
				table, 0, "a table of at most 1,000,000 rows", error);
		}
		plan->probes = memory_grow(
			plan->probes, &capacity, plan->probe_count + 1, sizeof(*plan->probes));
		struct plan_probe *probe = &plan->probes[plan->probe_count++];
		memset(probe, 0, sizeof(*probe));
		TRY(read_probe(plan, table, columns, probe, error));
	}
	return error->status;
}

static enum status open_probes(struct plan_file *plan, struct error *error)
{
	struct table_reader table;
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s", plan->directory, PLAN_PROBES));
	enum status status = table_reader_open(&table, path, NULL, error);
	if (status == STATUS_OK) {
		status = read_probes(plan, &table, error);
	}
	table_reader_close(&table);
	return status;
}

enum status plan_file_open(struct plan_file *plan, const char *directory, struct error *error)
{
	char path[PATH_BYTES_MAX];

	*plan = (struct plan_file){.directory = directory};
	TRY(path_format(path, error, "%s/%s", directory, PLAN_SUMMARY));
	TRY(json_document_open(&plan->summary, path, error));
	TRY(read_summary(plan, error));
	TRY(provenance_open(&plan->provenance, directory, error));
	return open_probes(plan, error);
}

void plan_file_close(struct plan_file *plan)
{
	json_document_close(&plan->summary);
	json_document_close(&plan->provenance);
	for (uint64_t i = 0; i < plan->probe_count; i++) {
		free((void *)plan->probes[i].failure);
		free((void *)plan->probes[i].options);
	}
	free(plan->configurations);
	free(plan->probes);
	plan->configurations = NULL;
	plan->probes = NULL;
}
