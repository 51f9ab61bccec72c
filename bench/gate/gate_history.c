#include "bench/gate/gate_history.h"

#include "engine/base/replaced_file.h"
#include "bench/record/provenance.h"
#include "engine/base/input_file.h"
#include "engine/base/json.h"
#include "engine/base/text.h"
#include "reports/results/history_file.h"

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

/* A file that is no history stays as it is. */
static enum status check_old(const char *path, struct error *error)
{
	struct history_file history;
	enum status status = history_file_open(&history, path, error);

	history_file_close(&history);
	return status;
}

enum status gate_history_check(const char *path, struct error *error)
{
	bool is_there;

	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return STATUS_OK;
	}
	TRY(check_old(path, error));
	input_file_forget(path); /* which the line is added to */
	return STATUS_OK;
}

static enum status write_new(
	const struct gate *gate, struct replaced_file *file, struct error *error)
{
	bool is_there;

	TRY(replaced_file_old(file, "--history", &is_there, error));
	if (is_there) {
		TRY(check_old(file->path, error));
		TRY(replaced_file_copy(file, file->path, error));
	}
	cJSON *line = line_of(gate);
	char *text = cJSON_PrintUnformatted(line);
	fprintf(file->output.file, "%s\n", text);
	cJSON_free(text);
	cJSON_Delete(line);
	return replaced_file_commit(file, error);
}

enum status gate_history_add(const struct gate *gate, const char *path, struct error *error)
{
	struct replaced_file file;
	enum status status = replaced_file_open(&file, path, error);

	if (status == STATUS_OK) {
		status = write_new(gate, &file, error);
	}
	replaced_file_abandon(&file);
	return status;
}

/* ---- changes of level ---- */

static void print_level(const struct history_file *history, const struct history_track *track,
	uint32_t level, FILE *out)
{
	double before = history_level_mean(track, level - 1);
	double after = history_level_mean(track, level);
	char text[256];

	snprintf(text, sizeof(text), "since %.64s: %.64s %.64s",
		history->runs[history_level_run(track, level)].commit, track->name, track->figure);
	text_make_printable(text);
	fprintf(out, "%s %.6g to %.6g (%+.2f %%)\n", text, before, after,
		before == 0 ? 0 : 100 * (after / before - 1));
}

enum status gate_history_print(const char *path, FILE *out, struct error *error)
{
	struct history_file history;
	enum status status = history_file_open(&history, path, error);

	for (uint32_t i = 0; i < history.track_count; i++) {
		const struct history_track *track = &history.tracks[i];
		bool is_told = history_is_of_last_run(&history, track);
		for (uint32_t level = 1; is_told && level < track->level_count; level++) {
			print_level(&history, track, level, out);
		}
	}
	history_file_close(&history);
	return status;
}
