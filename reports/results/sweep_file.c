#include "reports/results/sweep_file.h"

#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "reports/results/fields.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

const char *const sweep_metrics[SWEEP_METRIC_COUNT] = {
#define SWEEP_NAME(name) name,
	SWEEP_METRIC_LIST(SWEEP_NAME)
#undef SWEEP_NAME
};

uint32_t sweep_metric_index(const char *name)
{
	uint32_t index = 0;

	while (strcmp(sweep_metrics[index], name) != 0) {
		index++;
	}
	return index;
}

/* The place of a parameter; parameter_count: the grid does not vary it. */
static uint32_t find_parameter(const struct sweep_file *sweep, const char *name)
{
	uint32_t index = 0;

	while (index < sweep->parameter_count && strcmp(sweep->parameters[index].name, name) != 0) {
		index++;
	}
	return index;
}

static bool differs(const struct result_value *a, const struct result_value *b)
{
	return a->value < b->value || a->value > b->value;
}

/* The first run before this one that has as many KV blocks and replicas, for other tokens; index:
   there is none. */
static uint32_t find_unlike(const struct sweep_file *sweep, uint32_t index, uint32_t replicas)
{
	const struct sweep_run *own = &sweep->runs[index];
	bool varies = replicas < sweep->parameter_count;

	for (uint32_t i = 0; i < index && own->kv_tokens.has_value; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->kv_tokens.has_value && !differs(&run->kv_blocks, &own->kv_blocks) &&
			differs(&run->kv_tokens, &own->kv_tokens) &&
			(!varies || run->values[replicas] == own->values[replicas])) {
			return i;
		}
	}
	return index;
}

bool sweep_add_unlike_pools(const struct sweep_file *sweep, struct text *text)
{
	const uint32_t replicas = find_parameter(sweep, "replicas");
	bool is_chosen = find_parameter(sweep, "block-size") < sweep->parameter_count;

	/* What all runs share is in sweep.json. */
	if (is_chosen || cJSON_IsNumber(json_find(&sweep->config, "block_size"))) {
		return false;
	}
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *b = &sweep->runs[i];
		const struct sweep_run *a = &sweep->runs[find_unlike(sweep, i, replicas)];
		if (a != b) {
			text_add_count(text, (uint64_t)a->kv_blocks.value, "KV block holds ",
				"KV blocks hold ");
			text_add_number(text, NUMBER_COUNT, true, a->kv_tokens.value);
			text_format(text, " tokens in %s and ", a->name);
			text_add_number(text, NUMBER_COUNT, true, b->kv_tokens.value);
			text_format(text, " in %s", b->name);
			return true;
		}
	}
	return false;
}

double sweep_rejected(const struct sweep_run *run)
{
	const struct result_value *value = &run->metrics[sweep_metric_index("rejected")];

	return value->has_value ? value->value : 0;
}

bool sweep_keeps_up(const struct sweep_run *run)
{
	return run->status == SWEEP_RUN_COMPLETE &&
	       (run->verdict == VERDICT_STABLE || run->verdict == VERDICT_BACKLOGGED);
}

bool sweep_is_overloaded(const struct sweep_run *run)
{
	return run->status == SWEEP_RUN_COMPLETE && run->verdict == VERDICT_OVERLOADED;
}

bool sweep_is_uncalibrated(const struct sweep_run *run)
{
	return run->status == SWEEP_RUN_COMPLETE && !run->is_calibrated;
}

uint32_t sweep_count(const struct sweep_file *sweep, bool (*is)(const struct sweep_run *run))
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		count += is(&sweep->runs[i]);
	}
	return count;
}

const char *const sweep_run_statuses[SWEEP_RUN_STATUS_COUNT + 1] = {
#define SWEEP_NAME(name, text) text,
	SWEEP_RUN_STATUS_LIST(SWEEP_NAME)
#undef SWEEP_NAME
};

enum { SWEEP_VALUES_MAX = 4096 };

void sweep_header(struct text *header, const char *const *parameters, uint32_t count)
{
	text_add(header, "run\tstatus\tmessage");
	for (uint32_t i = 0; i < count; i++) {
		text_add(header, "\t");
		text_add(header, parameters[i]);
	}
#define ADD_METRIC(name) text_add(header, "\t" name);
	SWEEP_METRIC_LIST(ADD_METRIC)
#undef ADD_METRIC
#define ADD_SIZE(name) text_add(header, "\t" #name);
	SWEEP_SIZE_LIST(ADD_SIZE)
#undef ADD_SIZE
	text_add(header, "\t" SWEEP_VERDICT "\t" SWEEP_CALIBRATED);
}

/* ---- reading sweep.json ---- */

static enum status read_values(
	const struct json_object *object, struct sweep_parameter *parameter, struct error *error)
{
	const cJSON *list = json_find(object, "values");
	const cJSON *node = NULL;
	int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;

	if (count < 1 || count > SWEEP_VALUES_MAX) {
		return json_refuse(object, "values", "a list of 1 to 4096", error);
	}
	parameter->values = memory_take((size_t)count, sizeof(*parameter->values));
	parameter->is_number = true;
	cJSON_ArrayForEach(node, list)
	{
		if (!cJSON_IsString(node)) {
			return json_refuse(object, "values", "a list of texts", error);
		}
		const char *value = node->valuestring;
		for (uint32_t i = 0; i < parameter->value_count; i++) {
			if (strcmp(parameter->values[i], value) == 0) {
				return json_refuse(object, "values", "each value once", error);
			}
		}
		parameter->values[parameter->value_count++] = value;
		parameter->is_number =
			parameter->is_number && *value != '-' && cell_is_number(value);
	}
	return STATUS_OK;
}

static enum status read_parameters(struct sweep_file *sweep, struct error *error)
{
	TRY(error->status);
	const cJSON *list = json_find(&sweep->root, "parameters");
	const cJSON *node = NULL;
	int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;

	if (count < 1 || count > SWEEP_PARAMETERS_MAX) {
		return json_refuse(&sweep->root, "parameters", "a list of 1 to 8", error);
	}
	cJSON_ArrayForEach(node, list)
	{
		struct json_object object = {.document = &sweep->summary, .node = node};
		struct sweep_parameter *parameter = &sweep->parameters[sweep->parameter_count];

		snprintf(object.path, sizeof(object.path), "parameters[%u]",
			sweep->parameter_count++);
		if (!cJSON_IsObject(node)) {
			return json_refuse(&sweep->root, "parameters", "a list of objects", error);
		}
		TRY(json_text(&object, "name", &parameter->name, error));
		TRY(read_values(&object, parameter, error));
	}
	return STATUS_OK;
}

static enum status read_summary(struct sweep_file *sweep, struct error *error)
{
	static const char *const schemas[] = {SWEEP_SCHEMA, NULL};
	static const char *const ends[] = {"interrupted", "complete", NULL};
	struct json_object trace, slo;
	uint32_t place = 0, schema;
	bool is_calibrated;

	TRY(json_root(&sweep->root, &sweep->summary, error));
	const struct json_object *root = &sweep->root;
	field_word(root, "schema", schemas, "\"" SWEEP_SCHEMA "\"", &schema, error);
	field_word(root, "status", ends, "complete or interrupted", &place, error);
	sweep->is_complete = place == 1;
	if (json_has(root, SUMMARY_CALIBRATED)) {
		json_bool(root, SUMMARY_CALIBRATED, &is_calibrated, error);
	}
	read_parameters(sweep, error);
	json_object(root, SWEEP_SLO, &slo, error);
	field_number(&slo, "ttft_ms", true, DBL_MAX, &sweep->slo_ttft_ms, error);
	field_number(&slo, "tpot_ms", true, DBL_MAX, &sweep->slo_tpot_ms, error);
	field_number(&slo, "e2e_ms", true, DBL_MAX, &sweep->slo_e2e_ms, error);
	json_object(root, SUMMARY_TRACE, &trace, error);
	json_text(&trace, SUMMARY_TRACE_NAME, &sweep->trace_name, error);
	field_number(&trace, "requests", true, DBL_MAX, &sweep->trace_requests, error);
	return json_object(root, SUMMARY_CONFIG, &sweep->config, error);
}

/* ---- reading sweep.tsv ---- */

struct columns {
	uint32_t run, status, message, verdict, calibrated;
	uint32_t parameters[SWEEP_PARAMETERS_MAX];
	uint32_t metrics[SWEEP_METRIC_COUNT];
#define COLUMN(name) uint32_t name;
	SWEEP_SIZE_LIST(COLUMN)
#undef COLUMN
};

static enum status find_columns(const struct sweep_file *sweep, const struct table_reader *table,
	struct columns *columns, struct error *error)
{
	table_reader_column(table, "run", &columns->run, error);
	table_reader_column(table, "status", &columns->status, error);
	table_reader_column(table, "message", &columns->message, error);
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		table_reader_column(
			table, sweep->parameters[i].name, &columns->parameters[i], error);
	}
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		table_reader_column(table, sweep_metrics[i], &columns->metrics[i], error);
	}
#define FIND(name) table_reader_column(table, #name, &columns->name, error);
	SWEEP_SIZE_LIST(FIND)
#undef FIND
	table_reader_column(table, SWEEP_VERDICT, &columns->verdict, error);
	table_reader_column(table, SWEEP_CALIBRATED, &columns->calibrated, error);
	return error->status;
}

static char *copy(const char *text)
{
	size_t bytes = strlen(text) + 1;

	return memcpy(memory_take(bytes, 1), text, bytes);
}

static enum status read_value(const struct table_reader *table, uint32_t column,
	const struct sweep_parameter *parameter, uint32_t *index, struct error *error)
{
	TRY(error->status);
	for (*index = 0; *index < parameter->value_count; ++*index) {
		if (strcmp(parameter->values[*index], table->cells[column]) == 0) {
			return STATUS_OK;
		}
	}
	return table_reader_refuse(
		table, column, "a value of this parameter in " SWEEP_SUMMARY, error);
}

/* Shares of a whole. Those of capacity and of limits may be above 1: prefill-first runs more
   sequences than a step has rows, and a replica may use more than the average one has. */
static bool is_part(const char *metric)
{
	static const char *const beyond[] = {"utilisation", "kv_peak", "seats_peak"};
	bool is_beyond = false;

	for (uint32_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		is_beyond = is_beyond || strcmp(metric, beyond[i]) == 0;
	}
	return !is_beyond && strcmp(metric_find(metric)->unit, "share") == 0;
}

/* What only complete runs have. */
static enum status read_outcome(const struct table_reader *table, const struct columns *columns,
	struct sweep_run *run, struct error *error)
{
#define WORD(name, text) text,
	static const char *const verdicts[] = {VERDICT_LIST(WORD) NULL};
#undef WORD
	struct result_value calibrated = {0};
	uint32_t verdict = 0;

	cell_word(table, columns->verdict, verdicts, "stable, backlogged, overloaded or unserved",
		&verdict, error);
	cell_number(table, columns->calibrated, 1, &calibrated, error);
	run->verdict = verdict;
	run->is_calibrated = calibrated.value > 0;
	return error->status;
}

static enum status read_run(const struct sweep_file *sweep, const struct table_reader *table,
	const struct columns *columns, struct sweep_run *run, struct error *error)
{
	uint32_t status = 0;

	run->name = copy(table->cells[columns->run]);
	const char *message = table->cells[columns->message];
	run->message = copy(strcmp(message, "-") == 0 ? "" : message);
	cell_word(table, columns->status, sweep_run_statuses, "complete, failed or missing",
		&status, error);
	run->status = status;
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		read_value(table, columns->parameters[i], &sweep->parameters[i], &run->values[i],
			error);
	}
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		cell_number(table, columns->metrics[i], is_part(sweep_metrics[i]) ? 1 : DBL_MAX,
			&run->metrics[i], error);
	}
#define READ(name) cell_number(table, columns->name, DBL_MAX, &run->name, error);
	SWEEP_SIZE_LIST(READ)
#undef READ
	return run->status == SWEEP_RUN_COMPLETE ? read_outcome(table, columns, run, error)
						 : error->status;
}

static enum status read_runs(
	struct sweep_file *sweep, struct table_reader *table, struct error *error)
{
	struct columns columns;
	size_t capacity = 0;

	TRY(find_columns(sweep, table, &columns, error));
	while (table_reader_next(table, error)) {
		if (sweep->run_count == SWEEP_RUNS_MAX) {
			return table_reader_refuse(
				table, 0, "a table of at most 100,000 rows", error);
		}
		sweep->runs = memory_grow(
			sweep->runs, &capacity, sweep->run_count + 1, sizeof(*sweep->runs));
		struct sweep_run *run = &sweep->runs[sweep->run_count++];
		*run = (struct sweep_run){0};
		TRY(read_run(sweep, table, &columns, run, error));
	}
	return error->status;
}

static enum status open_runs(struct sweep_file *sweep, struct error *error)
{
	struct table_reader table;
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s", sweep->directory, SWEEP_RUNS));
	enum status status = table_reader_open(&table, path, NULL, error);
	if (status == STATUS_OK) {
		status = read_runs(sweep, &table, error);
	}
	table_reader_close(&table);
	return status;
}

/* One entry of beyond_memory, of a run from *place on, which it moves behind that one. */
static enum status read_beyond(struct sweep_file *sweep, const struct json_object *object,
	uint32_t *place, struct error *error)
{
	struct result_value blocks, found;
	const char *name = NULL, *gpu = NULL;

	TRY(json_text(object, "run", &name, error));
	TRY(json_text(object, "gpu", &gpu, error));
	TRY(field_number(object, "kv_blocks", false, DBL_MAX, &blocks, error));
	TRY(field_number(object, SUMMARY_FOUND_KV_BLOCKS, false, DBL_MAX, &found, error));
	while (*place < sweep->run_count && strcmp(sweep->runs[*place].name, name) != 0) {
		++*place;
	}
	if (*place == sweep->run_count) {
		return json_refuse(
			object, "run", "a run of " SWEEP_RUNS ", in the order of its rows", error);
	}
	struct sweep_run *run = &sweep->runs[(*place)++];
	run->is_beyond_memory = true;
	run->found_kv_blocks = found.value;
	run->gpu = gpu;
	return STATUS_OK;
}

static enum status read_beyond_memory(struct sweep_file *sweep, struct error *error)
{
	const cJSON *list = json_find(&sweep->root, SUMMARY_BEYOND_MEMORY);
	const cJSON *node = NULL;
	uint32_t place = 0, index = 0;

	if (list != NULL && !cJSON_IsArray(list)) {
		return json_refuse(&sweep->root, SUMMARY_BEYOND_MEMORY, "a list of objects", error);
	}
	cJSON_ArrayForEach(node, list)
	{
		struct json_object object = {.document = &sweep->summary, .node = node};
		snprintf(object.path, sizeof(object.path), SUMMARY_BEYOND_MEMORY "[%u]", index++);
		if (!cJSON_IsObject(node)) {
			return json_refuse(
				&sweep->root, SUMMARY_BEYOND_MEMORY, "a list of objects", error);
		}
		TRY(read_beyond(sweep, &object, &place, error));
	}
	return STATUS_OK;
}

static enum status read_cache_row(const struct table_reader *table, const uint32_t *columns,
	struct sweep_cache *row, struct error *error)
{
	struct result_value value;

#define READ_CACHE(name)                                                                           \
	TRY(cell_number(table, *columns, DBL_MAX, &value, error));                                 \
	if (!value.has_value) {                                                                    \
		return table_reader_refuse(table, *columns, "a number >= 0", error);               \
	}                                                                                          \
	row->name = value.value;                                                                   \
	columns++;
	SWEEP_CACHE_LIST(READ_CACHE)
#undef READ_CACHE
	return STATUS_OK;
}

static enum status read_cache(
	struct sweep_file *sweep, struct table_reader *table, struct error *error)
{
	static const char *const names[] = {
#define CACHE_NAME(name) #name,
		SWEEP_CACHE_LIST(CACHE_NAME)
#undef CACHE_NAME
	};
	enum { COUNT = sizeof(names) / sizeof(names[0]) };
	uint32_t columns[COUNT];
	size_t capacity = 0;

	for (uint32_t i = 0; i < COUNT; i++) {
		TRY(table_reader_column(table, names[i], &columns[i], error));
	}
	while (table_reader_next(table, error)) {
		if (sweep->cache_count == SWEEP_CACHE_MAX) {
			return table_reader_refuse(
				table, 0, "a table of at most 100,000 rows", error);
		}
		sweep->cache = memory_grow(
			sweep->cache, &capacity, sweep->cache_count + 1, sizeof(*sweep->cache));
		TRY(read_cache_row(table, columns, &sweep->cache[sweep->cache_count++], error));
	}
	return error->status;
}

static enum status open_cache(struct sweep_file *sweep, struct error *error)
{
	struct table_reader table;
	char path[PATH_BYTES_MAX];
	bool is_there = false;

	TRY(path_format(path, error, "%s/%s", sweep->directory, SWEEP_CACHE));
	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return STATUS_OK;
	}
	enum status status = table_reader_open(&table, path, NULL, error);
	if (status == STATUS_OK) {
		status = read_cache(sweep, &table, error);
	}
	table_reader_close(&table);
	return status;
}

enum status sweep_file_open(struct sweep_file *sweep, const char *directory, struct error *error)
{
	char path[PATH_BYTES_MAX];

	*sweep = (struct sweep_file){.directory = directory};
	TRY(path_format(path, error, "%s/%s", directory, SWEEP_SUMMARY));
	TRY(json_document_open(&sweep->summary, path, error));
	TRY(read_summary(sweep, error));
	TRY(provenance_open(&sweep->provenance, directory, error));
	TRY(open_runs(sweep, error));
	TRY(read_beyond_memory(sweep, error));
	return open_cache(sweep, error);
}

void sweep_file_close(struct sweep_file *sweep)
{
	json_document_close(&sweep->summary);
	json_document_close(&sweep->provenance);
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		free(sweep->parameters[i].values);
	}
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		free(sweep->runs[i].name);
		free(sweep->runs[i].message);
	}
	free(sweep->runs);
	free(sweep->cache);
	*sweep = (struct sweep_file){0};
}
