#include "bench/gate/gate_history.h"

#include "bench/record/version.h"
#include "engine/base/input_file.h"
#include "engine/base/json.h"
#include "engine/base/output_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static cJSON *case_to_json(const struct gate_verdict *verdict)
{
	cJSON *object = cJSON_CreateObject(), *figures = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "verdict", gate_status_words[verdict->status]);
	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		cJSON_AddNumberToObject(
			figures, verdict->figures[i].name, verdict->figures[i].value);
	}
	cJSON_AddItemToObject(object, "figures", figures);
	return object;
}

static cJSON *line_of(const struct gate *gate)
{
	cJSON *line = cJSON_CreateObject(), *cases = cJSON_CreateObject();
	time_t now = time(NULL);
	struct tm utc;
	char date[32] = "";

	if (gmtime_r(&now, &utc) != NULL) {
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
	}
	cJSON_AddStringToObject(line, "commit", version_commit());
	cJSON_AddStringToObject(line, "date", date);
	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		cJSON_AddItemToObject(cases, verdict->name, case_to_json(verdict));
	}
	cJSON_AddItemToObject(line, "cases", cases);
	return line;
}

/* What the file has so far; nothing if there is none. */
static enum status copy_old(const char *path, FILE *to, struct error *error)
{
	char buffer[65536];
	size_t size;
	bool is_there;
	FILE *from;

	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return STATUS_OK;
	}
	TRY(input_file_open(&from, path, INPUT_FILE, error));
	while ((size = fread(buffer, 1, sizeof(buffer), from)) > 0) {
		(void)fwrite(buffer, 1, size, to); /* found by the commit */
	}
	bool is_bad = ferror(from) != 0;
	fclose(from);
	return is_bad ? error_set(error, STATUS_FILE, "%s: cannot be read", path) : STATUS_OK;
}

static enum status write_new(
	const struct gate *gate, const char *path, struct output_file *file, struct error *error)
{
	TRY(copy_old(path, file->file, error));
	cJSON *line = line_of(gate);
	char *text = cJSON_PrintUnformatted(line);
	fprintf(file->file, "%s\n", text);
	cJSON_free(text);
	cJSON_Delete(line);
	return output_file_commit(file, error);
}

enum status gate_history_add(const struct gate *gate, const char *path, struct error *error)
{
	struct output_file file = {.file = NULL};
	char made[PATH_BYTES_MAX];

	TRY(path_format(made, error, "%s.new", path));
	TRY(output_file_open(&file, made, error));
	enum status status = write_new(gate, path, &file, error);
	output_file_abandon(&file);
	TRY(status);
	if (rename(made, path) != 0) {
		return error_set(error, STATUS_FILE, "%s: cannot be named %s: %s", made, path,
			strerror(errno));
	}
	return output_file_sync_folder(path, error);
}
