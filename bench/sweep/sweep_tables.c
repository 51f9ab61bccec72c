#include "bench/sweep/sweep_internal.h"

#include "bench/record/provenance.h"
#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/output_file.h"
#include "engine/base/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status sweep_open_json(const struct sweep *sweep, uint32_t index, const char *file,
	struct json_document *document, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(
		path, error, "%s/%s/%s", sweep->request->out, sweep->grid.list[index].name, file));
	return json_document_open(document, path, error);
}

static bool is_complete(const struct sweep *sweep)
{
	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		if (sweep->items[i].status == SWEEP_RUN_MISSING) {
			return false;
		}
	}
	return true;
}

/* ---- sweep.tsv ---- */

/* At most 15 digits: then they are those of summary.json. */
static void add_number(struct table_writer *table, struct result_value value)
{
	char text[NUMBER_TEXT_BYTES];

	snprintf(text, sizeof(text), "%.15g", value.value);
	table_text(table, value.has_value ? text : NULL);
}

/* A number of the run's configuration; none where it is null. */
static struct result_value config_number(const struct json_object *config, const char *field)
{
	const cJSON *node = json_find(config, field);

	return (struct result_value){
		cJSON_IsNumber(node), cJSON_IsNumber(node) ? node->valuedouble : 0};
}

static void add_sizes(struct table_writer *table, const struct json_object *config)
{
	struct result_value blocks = config_number(config, "kv_blocks");
	struct result_value tokens = config_number(config, "block_size");
	struct result_value replicas = config_number(config, "replicas");
	struct result_value gpus = config_number(config, "tensor_parallel_size");

	/* Replicas that differ have no size in common. */
	bool has_one_size = !json_has(config, "fleet") ||
			    strcmp(json_find(config, "fleet")->valuestring, "none") == 0;
	blocks.has_value = blocks.has_value && has_one_size;
	tokens.has_value = blocks.has_value && tokens.has_value && replicas.has_value;
	tokens.value *= blocks.value * replicas.value;
	gpus.has_value = gpus.has_value && replicas.has_value && has_one_size;
	gpus.value *= replicas.value;
	add_number(table, blocks);
	add_number(table, tokens);
	add_number(table, gpus);
}

/* NULL: the summary has none. */
static const char *verdict_of(const struct json_object *summary)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
		json_find(summary, SUMMARY_LOAD), SUMMARY_LOAD_VERDICT));
}

static bool is_calibrated_run(const struct json_document *summary)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(summary->root, SUMMARY_CALIBRATED));
}

static enum status add_metrics(
	const struct sweep *sweep, uint32_t index, struct table_writer *table, struct error *error)
{
	struct json_document document = {0};
	struct json_object root, config;

	TRY(sweep_open_json(sweep, index, RESULT_SUMMARY, &document, error));
	json_root(&root, &document, error);
	json_object(&root, SUMMARY_CONFIG, &config, error);
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT && error->status == STATUS_OK; i++) {
		add_number(table, metric_value(&root, metric_find(sweep_metrics[i])));
	}
	if (error->status == STATUS_OK) {
		add_sizes(table, &config);
		table_text(table, verdict_of(&root));
		table_text(table, is_calibrated_run(&document) ? "1" : "0");
	}
	json_document_close(&document);
	return error->status;
}

static enum status add_row(
	const struct sweep *sweep, uint32_t index, struct table_writer *table, struct error *error)
{
	const struct configuration *configuration = &sweep->grid.list[index];
	const struct sweep_item *item = &sweep->items[index];
#define ONE(name) +1
	enum { SIZE_COUNT = 0 SWEEP_SIZE_LIST(ONE) };
#undef ONE

	table_text(table, configuration->name);
	table_text(table, sweep_run_statuses[item->status]);
	table_text(table, item->message.bytes);
	for (uint32_t i = 0; i < sweep->grid.parameter_count; i++) {
		table_text(table, sweep->grid.parameters[i].values[configuration->values[i]]);
	}
	if (item->status == SWEEP_RUN_COMPLETE) {
		TRY(add_metrics(sweep, index, table, error));
	} else {
		for (int i = 0; i < (int)SWEEP_METRIC_COUNT + (int)SIZE_COUNT + 2; i++) {
			table_none(table);
		}
	}
	table_end_row(table);
	return STATUS_OK;
}

static enum status write_table(const struct sweep *sweep, FILE *file, struct error *error)
{
	struct table_writer *table = memory_take(1, sizeof(*table));
	const char *names[GRID_PARAMETERS_MAX];
	struct text header = {0};
	enum status status = STATUS_OK;

	for (uint32_t i = 0; i < sweep->grid.parameter_count; i++) {
		names[i] = sweep->grid.parameters[i].option->name;
	}
	sweep_header(&header, names, sweep->grid.parameter_count);
	table_begin(table, file, header.bytes);
	for (uint32_t i = 0; i < sweep->grid.count && status == STATUS_OK; i++) {
		status = add_row(sweep, i, table, error);
	}
	table_end(table);
	text_deinit(&header);
	free(table);
	return status;
}

/* ---- sweep.json ---- */

/* Leaves of `shared` what `other` has too; NULL: nothing is known yet. Both are freed. */
static cJSON *common_part(cJSON *shared, cJSON *other)
{
	cJSON *child = shared == NULL ? NULL : shared->child;

	if (shared == NULL) {
		return other;
	}
	while (child != NULL) {
		cJSON *next = child->next;
		const cJSON *twin = cJSON_GetObjectItemCaseSensitive(other, child->string);
		if (twin == NULL || !cJSON_Compare(child, twin, true)) {
			cJSON_Delete(cJSON_DetachItemViaPointer(shared, child));
		}
		child = next;
	}
	cJSON_Delete(other);
	return shared;
}

/* What the complete runs share of their summaries: "trace" and "config". */
struct shared {
	cJSON *trace, *config, *calibrated;
};

static enum status add_shared(
	const struct sweep *sweep, uint32_t index, struct shared *shared, struct error *error)
{
	struct json_document document = {0};

	TRY(sweep_open_json(sweep, index, RESULT_SUMMARY, &document, error));
	cJSON *trace = cJSON_DetachItemFromObject(document.root, SUMMARY_TRACE);
	cJSON *config = cJSON_DetachItemFromObject(document.root, SUMMARY_CONFIG);
	cJSON *calibrated = cJSON_DetachItemFromObject(document.root, SUMMARY_CALIBRATED);
	shared->trace = common_part(shared->trace, trace);
	shared->config = common_part(shared->config, config);
	/* Of runs of which some are calibrated it is false. */
	bool is_new = shared->calibrated == NULL || cJSON_IsTrue(shared->calibrated);
	cJSON_Delete(is_new ? shared->calibrated : calibrated);
	shared->calibrated = is_new ? calibrated : shared->calibrated;
	json_document_close(&document);
	return STATUS_OK;
}

static cJSON *slo_json(const struct sweep *sweep)
{
	const struct slo *slo = &sweep->request->run.slo;
	const struct {
		const char *name;
		uint64_t ns;
	} limits[] = {
		{"ttft_ms", slo->ttft_ns}, {"tpot_ms", slo->tpot_ns}, {"e2e_ms", slo->e2e_ns}};
	cJSON *object = cJSON_CreateObject();

	for (uint32_t i = 0; i < 3; i++) {
		cJSON_AddItemToObject(object, limits[i].name,
			limits[i].ns == 0 ? cJSON_CreateNull()
					  : cJSON_CreateNumber((double)limits[i].ns / 1e6));
	}
	return object;
}

static cJSON *parameters_json(const struct sweep *sweep)
{
	cJSON *list = cJSON_CreateArray();

	for (uint32_t i = 0; i < sweep->grid.parameter_count; i++) {
		const struct grid_parameter *parameter = &sweep->grid.parameters[i];
		cJSON *object = cJSON_CreateObject(), *values = cJSON_CreateArray();
		cJSON_AddStringToObject(object, "name", parameter->option->name);
		for (uint32_t j = 0; j < parameter->value_count; j++) {
			cJSON_AddItemToArray(values, cJSON_CreateString(parameter->values[j]));
		}
		cJSON_AddItemToObject(object, "values", values);
		cJSON_AddItemToArray(list, object);
	}
	return list;
}

/* The trace's section: fields that runs do not share are null. */
static cJSON *trace_json(const struct sweep *sweep, cJSON *shared)
{
	const char *path = sweep->request->run.trace_path;
	const cJSON *requests = cJSON_GetObjectItemCaseSensitive(shared, "requests");
	cJSON *trace = cJSON_CreateObject();
	char hash[17];

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)sweep->trace_xxh64);
	cJSON_AddStringToObject(
		trace, SUMMARY_TRACE_NAME, strcmp(path, "-") == 0 ? "stdin" : path_name(path));
	cJSON_AddStringToObject(trace, SUMMARY_TRACE_XXH64, hash);
	if (requests == NULL) {
		cJSON_AddNullToObject(trace, "requests");
	} else {
		cJSON_AddItemToObject(trace, "requests", cJSON_Duplicate(requests, true));
	}
	cJSON_Delete(shared);
	return trace;
}

/* What all configurations have, where no run is complete. */
static cJSON *given_config(const struct sweep *sweep)
{
	cJSON *config = NULL;

	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		struct replay_config own = sweep->request->run.config;
		configuration_apply(&sweep->grid.list[i], &own);
		config = common_part(config, replay_config_json(&own));
	}
	return config;
}

static enum status write_summary(const struct sweep *sweep, FILE *file, struct error *error)
{
	cJSON *root = cJSON_CreateObject();
	struct shared shared = {NULL, NULL, NULL};

	for (uint32_t i = 0; i < sweep->grid.count && error->status == STATUS_OK; i++) {
		if (sweep->items[i].status == SWEEP_RUN_COMPLETE) {
			add_shared(sweep, i, &shared, error);
		}
	}
	cJSON_AddStringToObject(root, SUMMARY_SCHEMA, SWEEP_SCHEMA);
	cJSON_AddStringToObject(
		root, SUMMARY_STATUS, is_complete(sweep) ? "complete" : "interrupted");
	cJSON_AddItemToObject(root, SUMMARY_CALIBRATED,
		shared.calibrated == NULL ? cJSON_CreateNull() : shared.calibrated);
	cJSON_AddItemToObject(root, "parameters", parameters_json(sweep));
	cJSON *beyond = sweep_memory_json(sweep, error);
	if (cJSON_GetArraySize(beyond) > 0) {
		cJSON_AddItemToObject(root, SUMMARY_BEYOND_MEMORY, beyond);
	} else {
		cJSON_Delete(beyond);
	}
	cJSON_AddItemToObject(root, SWEEP_SLO, slo_json(sweep));
	cJSON_AddItemToObject(root, SUMMARY_TRACE, trace_json(sweep, shared.trace));
	cJSON_AddItemToObject(
		root, SUMMARY_CONFIG, shared.config == NULL ? given_config(sweep) : shared.config);
	json_print(root, file);
	cJSON_Delete(root);
	return error->status;
}

/* ---- the files ---- */

static enum status write_provenance(const struct sweep *sweep, FILE *file, struct error *error)
{
	const struct provenance provenance = {.argc = sweep->request->argc,
		.argv = sweep->request->argv,
		.wall_ns = monotonic_ns() - sweep->start_ns,
		.device = ""};

	provenance_write(&provenance, file);
	return error->status;
}

/* In the order in which they get their names: sweep.json last, when what it tells of is there. */
static const struct {
	const char *name;
	enum status (*write)(const struct sweep *sweep, FILE *file, struct error *error);
} files[] = {{SWEEP_RUNS, write_table}, {RESULT_PROVENANCE, write_provenance},
	{SWEEP_SUMMARY, write_summary}};

enum { FILES = sizeof(files) / sizeof(files[0]), FILE_SUMMARY = FILES - 1 };

/* The files of an older sweep, in the order in which they go: without sweep.json a folder holds no
   sweep. */
static const char *const older[] = {SWEEP_SUMMARY, SWEEP_CACHE, SWEEP_RUNS, RESULT_PROVENANCE};

enum { OLDER = sizeof(older) / sizeof(older[0]) };

static enum status older_paths(
	const struct sweep *sweep, uint32_t index, char *path, char *old, struct error *error)
{
	TRY(path_format(path, error, "%s/%s", sweep->request->out, older[index]));
	return path_format(old, error, "%s.old", path);
}

/* Gives the files of the older sweep other names. is_retired: (OLDER) what was there. */
static enum status retire(const struct sweep *sweep, bool *is_retired, struct error *error)
{
	char path[PATH_BYTES_MAX], old[PATH_BYTES_MAX];

	for (uint32_t i = 0; i < OLDER; i++) {
		TRY(older_paths(sweep, i, path, old, error));
		is_retired[i] = rename(path, old) == 0;
		if (!is_retired[i] && errno != ENOENT) {
			return error_set(error, STATUS_FILE, "%.200s: cannot be replaced: %s", path,
				strerror(errno));
		}
		if (i == 0 && is_retired[i]) {
			TRY(output_file_sync_folder(path, error));
		}
	}
	return STATUS_OK;
}

/* Removes the files of the older sweep, or brings them back, sweep.json last. */
static void settle(const struct sweep *sweep, const bool *is_retired, bool is_done)
{
	char path[PATH_BYTES_MAX], old[PATH_BYTES_MAX];
	struct error ignored = {0};

	for (uint32_t i = OLDER; i > 0; i--) {
		if (is_retired[i - 1] &&
			older_paths(sweep, i - 1, path, old, &ignored) == STATUS_OK) {
			(void)(is_done ? unlink(old) : rename(old, path));
		}
	}
}

static enum status publish(
	const struct sweep *sweep, struct output_file *outputs, bool replaces, struct error *error)
{
	bool is_retired[OLDER] = {false};

	enum status status = replaces ? retire(sweep, is_retired, error) : STATUS_OK;
	for (uint32_t i = 0; i < FILES && status == STATUS_OK; i++) {
		status = output_file_publish(&outputs[i], error);
	}
	settle(sweep, is_retired, status == STATUS_OK);
	TRY(status);
	return output_file_sync_folder(outputs[FILE_SUMMARY].path, error);
}

static enum status finish_file(
	const struct sweep *sweep, uint32_t index, struct output_file *output, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/%s", sweep->request->out, files[index].name));
	TRY(output_file_open(output, path, error));
	TRY(files[index].write(sweep, output->file, error));
	return output_file_finish(output, error);
}

/* Writes the files from `first` on. All are on the disk before the first gets its name. */
static enum status write_files(
	const struct sweep *sweep, uint32_t first, bool replaces, struct error *error)
{
	struct output_file *outputs = memory_take(FILES, sizeof(*outputs));
	enum status status = STATUS_OK;

	for (uint32_t i = first; i < FILES && status == STATUS_OK; i++) {
		status = finish_file(sweep, i, &outputs[i], error);
	}
	if (status == STATUS_OK) {
		status = publish(sweep, outputs, replaces, error);
	}
	for (uint32_t i = 0; i < FILES; i++) {
		output_file_abandon(&outputs[i]);
	}
	free(outputs);
	return status;
}

enum status sweep_begin(const struct sweep *sweep, struct error *error)
{
	if (sweep->request->is_forced) {
		return write_files(sweep, 0, true, error);
	}
	if (sweep->is_new) {
		/* The next sweep knows the folder for its own, whatever else is in it by then. */
		TRY(write_files(sweep, FILE_SUMMARY, false, error));
	}
	return write_files(sweep, 0, false, error);
}

enum status sweep_write(const struct sweep *sweep, struct error *error)
{
	return write_files(sweep, 0, false, error);
}

/* ---- on the terminal ---- */

/* What is printed of each run, with decimals. */
static const struct {
	const char *metric, *title;
	int decimals;
	double scale;
} printed[] = {
	{"rejected", "rejected", 0, 1}, /* only where a run rejected requests */
	{"output_tokens_per_s", "tokens/s", 1, 1},
	{"ttft.p99", "ttft p99 ms", 1, 1},
	{"tpot.p99", "tpot p99 ms", 2, 1},
	{"attained", "in SLO %", 2, 100},
	{"hit_rate", "hits %", 2, 100},
	{"preemptions", "preempt.", 0, 1},
};

enum { PRINTED_COUNT = sizeof(printed) / sizeof(printed[0]), PRINTED_RUNS_MAX = 64 };

/* As wide as the longest verdict. */
enum { VERDICT_WIDTH = 10 };

static int width_of(uint32_t column)
{
	enum { WIDTH_MIN = 9 };
	int bytes = (int)strlen(printed[column].title);

	return bytes > WIDTH_MIN ? bytes : WIDTH_MIN;
}

/* What the complete runs say together. */
struct overview {
	bool has_rejected, has_calibrated, has_guess; /* guess: not calibrated */
	bool has_outside;			      /* of one more than OUTSIDE_MOST */
	bool has_overloaded;
};

/* The share of a run's step time that its profile was not fitted to. */
static double outside_of(const struct json_object *summary)
{
	struct result_value value = metric_value(summary, metric_find("outside_time"));

	return value.has_value ? value.value : 0;
}

static bool is_overloaded(const struct json_object *summary)
{
	const char *verdict = verdict_of(summary);

	return verdict != NULL && strcmp(verdict, "overloaded") == 0;
}

static enum status look_over(
	const struct sweep *sweep, struct overview *overview, struct error *error)
{
	*overview = (struct overview){0};
	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		struct json_document document = {0};
		struct json_object root;
		bool is_calibrated = false;
		if (sweep->items[i].status != SWEEP_RUN_COMPLETE) {
			continue;
		}
		TRY(sweep_open_json(sweep, i, RESULT_SUMMARY, &document, error));
		if (json_root(&root, &document, error) == STATUS_OK) {
			is_calibrated = is_calibrated_run(&document);
			overview->has_rejected |=
				metric_value(&root, metric_find(printed[0].metric)).value > 0;
			overview->has_outside |= outside_of(&root) > OUTSIDE_MOST;
			overview->has_overloaded |= is_overloaded(&root);
		}
		json_document_close(&document);
		TRY(error->status);
		overview->has_calibrated |= is_calibrated;
		overview->has_guess |= !is_calibrated;
	}
	return STATUS_OK;
}

static enum status print_run(const struct sweep *sweep, uint32_t index, int width,
	const struct overview *overview, struct error *error)
{
	const struct sweep_item *item = &sweep->items[index];
	struct json_document document = {0};
	struct json_object root;

	if (item->status != SWEEP_RUN_COMPLETE) {
		printf("%-*s  %s: %s\n", width, sweep->grid.list[index].name,
			sweep_run_statuses[item->status],
			item->message.bytes == NULL ? "not run" : item->message.bytes);
		return STATUS_OK;
	}
	TRY(sweep_open_json(sweep, index, RESULT_SUMMARY, &document, error));
	json_root(&root, &document, error);
	const char *verdict = verdict_of(&root);
	printf("%-*s  %-*s", width, sweep->grid.list[index].name, VERDICT_WIDTH,
		verdict == NULL ? "-" : verdict);
	for (uint32_t i = overview->has_rejected ? 0 : 1;
		i < PRINTED_COUNT && error->status == STATUS_OK; i++) {
		struct result_value value = metric_value(&root, metric_find(printed[i].metric));
		if (value.has_value) {
			printf("  %*.*f", width_of(i), printed[i].decimals,
				value.value * printed[i].scale);
		} else {
			printf("  %*s", width_of(i), "-");
		}
	}
	if (overview->has_calibrated && !is_calibrated_run(&document)) {
		printf("  uncalibrated");
	}
	if (error->status == STATUS_OK && outside_of(&root) > OUTSIDE_MOST) {
		printf("  outside %.1f %%", 100 * outside_of(&root));
	}
	printf("\n");
	json_document_close(&document);
	return error->status;
}

enum status sweep_print(const struct sweep *sweep, struct error *error)
{
	struct overview overview;
	int width = 4;

	if (sweep->grid.count > PRINTED_RUNS_MAX) {
		printf("more than %d runs are not listed here: quire report %s --out sweep.html "
		       "shows "
		       "them\n",
			PRINTED_RUNS_MAX, sweep->request->out);
		return STATUS_OK;
	}
	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		int bytes = (int)strlen(sweep->grid.list[i].name);
		width = bytes > width ? bytes : width;
	}
	TRY(look_over(sweep, &overview, error));
	printf("%-*s  %-*s", width, "run", VERDICT_WIDTH, "verdict");
	for (uint32_t i = overview.has_rejected ? 0 : 1; i < PRINTED_COUNT; i++) {
		printf("  %*s", width_of(i), printed[i].title);
	}
	printf("\n");
	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		TRY(print_run(sweep, i, width, &overview, error));
	}
	if (overview.has_overloaded) {
		printf("overloaded: more arrived than the engine served, so latencies, goodput and "
		       "shares in the SLO only reflect the length of the trace\n");
	}
	if (overview.has_guess) {
		printf("uncalibrated: the times of the profile were never compared with a run of "
		       "that engine on a GPU\n");
	}
	if (overview.has_outside) {
		printf("outside: of the step time, on steps unlike those that the profile was "
		       "fitted to; their prices are a guess\n");
	}
	return STATUS_OK;
}
