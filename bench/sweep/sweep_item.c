#include "bench/sweep/sweep_internal.h"

#include "bench/fleet/groups.h"
#include "bench/record/provenance.h"
#include "bench/replay/run_to_folder.h"
#include "engine/base/check.h"
#include "engine/base/input_file.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "engine/ranks/apart.h"
#include "reports/results/results.h"
#include "sim/profile.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- what a run depends on ---- */

enum status sweep_hash_trace(const char *path, uint64_t *hash, struct error *error)
{
	TRY(input_spool(path, error));
	return input_hash(path, INPUT_FILE_OR_PIPE, hash, error);
}

static void add_hash(struct text *text, uint64_t hash)
{
	text_format(text, " %016llx", (unsigned long long)hash);
}

/* The content of a file that an option names; a run says what is wrong with one that cannot be
   read. */
static void add_file(struct text *text, const char *path)
{
	struct error ignored = {0};
	uint64_t hash = 0;

	if (access(path, R_OK) == 0) {
		(void)input_hash(path, INPUT_FILE, &hash, &ignored);
	}
	add_hash(text, hash);
}

static struct replay_config config_of(const struct sweep *sweep, uint32_t index)
{
	struct replay_config config = sweep->request->run.config;

	configuration_apply(&sweep->grid.list[index], &config);
	return config;
}

/* The replay that does the same: "replay TRACE --gpu h200 --out DIR/NAME". */
static void add_command(
	const struct sweep *sweep, uint32_t index, const char *trace, struct text *text)
{
	const struct replay_config config = config_of(sweep, index);

	text_add(text, "replay ");
	text_add_shell_word(text, trace);
	replay_config_words(&config, text);
	slo_add_words(&sweep->request->run.slo, text);
}

/* The fleet's table and the profiles that are files, those of its groups too. */
static void add_profiles(struct text *text, const struct replay_config *config)
{
	struct fleet_groups *groups = memory_take(1, sizeof(*groups));
	struct error ignored = {0};

	if (gpu_profile_is_file(config->gpu)) {
		add_file(text, config->gpu);
	}
	if (config->fleet != NULL) {
		add_file(text, config->fleet);
		(void)fleet_groups_read(groups, config->fleet, &ignored);
	}
	for (uint32_t i = 0; i < groups->count; i++) {
		if (gpu_profile_is_file(groups->list[i].gpu)) {
			add_file(text, groups->list[i].gpu);
		}
	}
	free(groups);
}

static uint64_t identify(const struct sweep *sweep, uint32_t index)
{
	struct replay_config config = config_of(sweep, index);
	cJSON *json = replay_config_json(&config);
	char *options = cJSON_PrintUnformatted(json);
	struct text text = {0};
	char path[PATH_BYTES_MAX];
	struct error too_long = {0};

	text_add(&text, version_commit());
	add_hash(&text, sweep->trace_xxh64);
	text_add(&text, options); /* defaults too, which another build may have others of */
	/* A result has the trace's name, whatever folder it was read from. */
	add_command(sweep, index, path_name(sweep->request->run.trace_path), &text);
	add_profiles(&text, &config);
	add_file(&text, config.model); /* a file, or a folder */
	if (path_format(path, &too_long, "%s/config.json", config.model) == STATUS_OK) {
		add_file(&text, path);
	}
	uint64_t identity = XXH64(text.bytes, text.byte_count, 0);
	text_deinit(&text);
	cJSON_free(options);
	cJSON_Delete(json);
	return identity;
}

uint64_t sweep_identify(struct sweep *sweep)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < sweep->grid.count; i++) {
		sweep->items[i].identity = identify(sweep, i);
		all = XXH64(&sweep->items[i].identity, sizeof(all), all);
	}
	return all;
}

/* ---- what is there ---- */

/* A folder that is not whole is replaced. */
static void forget(const struct sweep *sweep, uint32_t index, const char *file)
{
	struct error too_long = {0};
	char path[PATH_BYTES_MAX];

	if (path_format(path, &too_long, "%s/%s/%s", sweep->request->out,
		    sweep->grid.list[index].name, file) == STATUS_OK) {
		input_file_forget(path);
	}
}

/* Whether a field of an object is the text. */
static bool is_text(const cJSON *root, const char *field, const char *wanted)
{
	const cJSON *node = cJSON_GetObjectItemCaseSensitive(root, field);

	return cJSON_IsString(node) && strcmp(node->valuestring, wanted) == 0;
}

enum { HASH_TEXT_BYTES = 17 };

/* The hash of a file of a run, as provenance.json has it; text: (HASH_TEXT_BYTES). */
static enum status hash_item_file(const struct sweep *sweep, uint32_t index, const char *name,
	char *text, struct error *error)
{
	char path[PATH_BYTES_MAX];
	uint64_t hash = 0;

	TRY(path_format(
		path, error, "%s/%s/%s", sweep->request->out, sweep->grid.list[index].name, name));
	enum status status = input_hash(path, INPUT_FILE, &hash, error);
	input_file_forget(path);
	snprintf(text, HASH_TEXT_BYTES, "%016llx", (unsigned long long)hash);
	return status;
}

/* Whether every file of the run is what it was when the run was done. */
static bool has_its_files(const struct sweep *sweep, uint32_t index, const cJSON *provenance)
{
	const cJSON *files = cJSON_GetObjectItemCaseSensitive(provenance, PROVENANCE_FILES);
	const cJSON *file = NULL;
	char hash[HASH_TEXT_BYTES];
	struct error ignored = {0};

	cJSON_ArrayForEach(file, files)
	{
		if (!cJSON_IsString(file) || strchr(file->string, '/') != NULL ||
			hash_item_file(sweep, index, file->string, hash, &ignored) != STATUS_OK ||
			strcmp(file->valuestring, hash) != 0) {
			return false;
		}
	}
	return cJSON_GetArraySize(files) > 0;
}

enum sweep_item_state sweep_item_look(const struct sweep *sweep, uint32_t index)
{
	struct json_document summary = {0}, provenance = {0};
	struct error error = {0};
	char identity[17];

	snprintf(identity, sizeof(identity), "%016llx",
		(unsigned long long)sweep->items[index].identity);
	bool is_complete =
		sweep_open_json(sweep, index, RESULT_SUMMARY, &summary, &error) == STATUS_OK &&
		is_text(summary.root, SUMMARY_STATUS, "complete");
	bool is_own = is_complete &&
		      sweep_open_json(sweep, index, RESULT_PROVENANCE, &provenance, &error) ==
			      STATUS_OK &&
		      is_text(provenance.root, PROVENANCE_IDENTITY, identity);
	bool is_whole = is_own && has_its_files(sweep, index, provenance.root);
	json_document_close(&summary);
	json_document_close(&provenance);
	forget(sweep, index, RESULT_SUMMARY);
	forget(sweep, index, RESULT_PROVENANCE);
	return is_whole			? SWEEP_ITEM_WHOLE
	       : is_complete && !is_own ? SWEEP_ITEM_OTHER
					: SWEEP_ITEM_MISSING;
}

/* ---- doing it ---- */

/* Whether a name is one that files have while they are written or replaced. */
static bool is_left(const char *name)
{
	const char *end = strrchr(name, '.');

	return end != NULL && (strcmp(end, ".part") == 0 || strcmp(end, ".old") == 0);
}

/* Removes what a killed worker left of files that it had not finished. Nobody else writes to the
   folder of a sweep. */
static void remove_parts(const char *folder)
{
	DIR *directory = opendir(folder);
	const struct dirent *entry;
	char path[PATH_BYTES_MAX];
	struct error ignored = {0};

	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		if (is_left(entry->d_name) &&
			path_format(path, &ignored, "%s/%s", folder, entry->d_name) == STATUS_OK) {
			unlink(path);
		}
	}
	if (directory != NULL) {
		closedir(directory);
	}
}

/* ---- what it left ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of the files of a run but provenance.json, ascending; to be freed with the list.
   Returns how many. */
static size_t list_files(const char *folder, char ***names)
{
	DIR *directory = opendir(folder);
	const struct dirent *entry;
	size_t count = 0, capacity = 0;

	*names = NULL;
	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		struct text name = {0};
		bool is_own = entry->d_name[0] != '.' && !is_left(entry->d_name) &&
			      strcmp(entry->d_name, RESULT_PROVENANCE) != 0;
		if (!is_own) {
			continue;
		}
		text_add(&name, entry->d_name);
		*names = memory_grow((void *)*names, &capacity, count + 1, sizeof(**names));
		(*names)[count++] = name.bytes;
	}
	if (directory != NULL) {
		closedir(directory);
	}
	if (count > 1) {
		qsort((void *)*names, count, sizeof(**names), by_name);
	}
	return count;
}

/* Adds the hash of every file that the run has written to its provenance.json, so that a table that
   was changed or emptied afterwards is found. */
static enum status note_files(
	const struct sweep *sweep, uint32_t index, const char *folder, struct error *error)
{
	struct json_document provenance = {0};
	struct output_file output = {0};
	char path[PATH_BYTES_MAX], hash[HASH_TEXT_BYTES];
	char **names;

	TRY(path_format(path, error, "%s/%s", folder, RESULT_PROVENANCE));
	TRY(json_document_open(&provenance, path, error));
	input_file_forget(path);
	cJSON_DeleteItemFromObjectCaseSensitive(provenance.root, PROVENANCE_FILES);
	cJSON *files = cJSON_AddObjectToObject(provenance.root, PROVENANCE_FILES);
	size_t count = list_files(folder, &names);
	for (size_t i = 0; i < count; i++) {
		if (error->status == STATUS_OK &&
			hash_item_file(sweep, index, names[i], hash, error) == STATUS_OK) {
			cJSON_AddStringToObject(files, names[i], hash);
		}
		free(names[i]);
	}
	free((void *)names);
	if (error->status == STATUS_OK && output_file_open(&output, path, error) == STATUS_OK) {
		json_print(provenance.root, output.file);
		output_file_commit(&output, error);
	}
	output_file_abandon(&output);
	json_document_close(&provenance);
	return error->status;
}

static enum status run_apart(void *argument, struct error *error)
{
	return run_to_folder(argument, error);
}

static uint32_t index_of(const struct text *job)
{
	uint32_t index;

	check(job->byte_count == sizeof(index));
	memcpy(&index, job->bytes, sizeof(index));
	return index;
}

void sweep_describe_item(void *context, const struct text *job, struct text *text)
{
	const struct sweep *sweep = context;

	text_add(text, sweep->grid.list[index_of(job)].name);
}

enum status sweep_do_item(
	void *context, const struct text *job, struct text *result, struct error *error)
{
	const struct sweep *sweep = context;
	struct replay_request *request = memory_take(1, sizeof(*request));
	struct text command = {0};
	char folder[PATH_BYTES_MAX];
	struct error failure = {0};
	const uint32_t index = index_of(job);

	add_command(sweep, index, sweep->request->run.trace_path, &command);
	request->run = sweep->request->run;
	request->run.config = config_of(sweep, index);
	request->is_forced = true;
	request->run.is_one_of_many = true;
	request->identity = sweep->items[index].identity;
	request->out = folder;
	if (path_format(folder, &failure, "%s/%s", sweep->request->out,
		    sweep->grid.list[index].name) == STATUS_OK) {
		text_add(&command, " --out ");
		text_add_shell_word(&command, folder);
		request->command = command.bytes;
		remove_parts(folder);
		(void)(sweep->is_alone ? apart_run(run_apart, request, &failure)
				       : run_to_folder(request, &failure));
	}
	text_deinit(&command);
	free(request);
	if (failure.status == STATUS_OK) {
		note_files(sweep, index, folder, &failure);
	}
	if (failure.status == STATUS_VERDICT && interrupt_is_pending()) {
		return error_set(error, STATUS_VERDICT, "%s", failure.text);
	}
	if (failure.status == STATUS_USAGE || failure.status == STATUS_INPUT) {
		return error_set(error, failure.status, "%s", failure.text);
	}
	if (failure.status != STATUS_OK) {
		text_add(result, failure.text[0] == '\0' ? "the run failed" : failure.text);
	}
	return STATUS_OK;
}
