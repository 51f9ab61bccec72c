#include "bench/gate/gate_history.h"

#include "bench/gate/replaced_file.h"
#include "bench/record/provenance.h"
#include "engine/base/input_file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/text.h"
#include "reports/results/change_points.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static enum status check_lines(const char *path, struct error *error);

/* A file that the command has read for another reason, or that is no history, stays as it is. */
static enum status check_old(const char *path, bool *is_there, struct error *error)
{
	struct stat file;

	TRY(path_is_there(path, is_there, error));
	if (!*is_there) {
		return STATUS_OK;
	}
	if (stat(path, &file) == 0 && input_file_was_read(&file)) {
		return error_set(error, STATUS_USAGE,
			"--history %s: is read by this command, expected another file", path);
	}
	return check_lines(path, error);
}

static enum status write_new(
	const struct gate *gate, struct replaced_file *file, struct error *error)
{
	bool is_there;

	TRY(check_old(file->path, &is_there, error));
	if (is_there) {
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

/* The lines of a history, the latest ones where there are more than the series may have. */
struct history {
	struct json_document lines[CHANGE_POINT_SERIES_MAX]; /* (count), a ring from `first` on */
	uint32_t count, first;
};

static const struct json_document *line_at(const struct history *history, uint32_t index)
{
	return &history->lines[(history->first + index) % CHANGE_POINT_SERIES_MAX];
}

static enum status read_lines(
	struct history *history, const char *path, FILE *file, struct error *error)
{
	char *line = NULL, name[JSON_NAME_BYTES];
	size_t capacity = 0;
	ssize_t length;
	enum status status = STATUS_OK;

	for (unsigned number = 1; status == STATUS_OK; number++) {
		length = getline(&line, &capacity, file);
		if (length < 0) {
			break;
		}
		uint32_t at = (history->first + history->count) % CHANGE_POINT_SERIES_MAX;
		if (history->count == CHANGE_POINT_SERIES_MAX) {
			json_document_close(&history->lines[at]);
			history->first++;
		} else {
			history->count++;
		}
		snprintf(name, sizeof(name), "%.200s:%u", path, number);
		status =
			json_document_parse(&history->lines[at], name, line, (size_t)length, error);
	}
	free(line);
	return status;
}

static enum status open_history(struct history *history, const char *path, struct error *error)
{
	FILE *file;

	TRY(input_file_open(&file, path, INPUT_FILE, error));
	enum status status = read_lines(history, path, file, error);
	fclose(file);
	return status;
}

static void close_history(struct history *history)
{
	for (uint32_t i = 0; i < history->count; i++) {
		json_document_close(&history->lines[i]);
	}
	free(history);
}

static enum status check_lines(const char *path, struct error *error)
{
	struct history *history = memory_take(1, sizeof(*history));
	enum status status = open_history(history, path, error);

	close_history(history);
	return status;
}

static const cJSON *figures_of(const struct json_document *line, const char *name)
{
	const cJSON *cases = cJSON_GetObjectItemCaseSensitive(line->root, "cases");
	return cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(cases, name), "figures");
}

static double mean_of(const double *values, uint32_t first, uint32_t end)
{
	double sum = 0;

	for (uint32_t i = first; i < end; i++) {
		sum += values[i];
	}
	return sum / (end - first);
}

static void print_series(
	const struct history *history, const char *name, const char *figure, FILE *out)
{
	double values[CHANGE_POINT_SERIES_MAX];
	uint32_t lines[CHANGE_POINT_SERIES_MAX], points[CHANGE_POINT_SERIES_MAX + 1], count = 0;

	for (uint32_t i = 0; i < history->count; i++) {
		const cJSON *value = cJSON_GetObjectItemCaseSensitive(
			figures_of(line_at(history, i), name), figure);
		if (cJSON_IsNumber(value)) {
			lines[count] = i;
			values[count++] = value->valuedouble;
		}
	}
	uint32_t found = change_points_find(values, count, points);
	points[found] = count;
	for (uint32_t i = 0; i < found; i++) {
		double before = mean_of(values, i == 0 ? 0 : points[i - 1], points[i]);
		double after = mean_of(values, points[i], points[i + 1]);
		const cJSON *commit = cJSON_GetObjectItemCaseSensitive(
			line_at(history, lines[points[i]])->root, "commit");
		char text[256];
		snprintf(text, sizeof(text), "since %.64s: %.64s %.64s",
			cJSON_IsString(commit) ? commit->valuestring : "unknown", name, figure);
		text_make_printable(text);
		fprintf(out, "%s %.6g to %.6g (%+.2f %%)\n", text, before, after,
			before == 0 ? 0 : 100 * (after / before - 1));
	}
}

enum status gate_history_print(const char *path, FILE *out, struct error *error)
{
	struct history *history = memory_take(1, sizeof(*history));
	enum status status = open_history(history, path, error);

	if (status == STATUS_OK && history->count > 0) {
		const cJSON *cases = cJSON_GetObjectItemCaseSensitive(
			line_at(history, history->count - 1)->root, "cases");
		for (const cJSON *one = cases == NULL ? NULL : cases->child; one != NULL;
			one = one->next) {
			const cJSON *figures = cJSON_GetObjectItemCaseSensitive(one, "figures");
			for (const cJSON *figure = figures == NULL ? NULL : figures->child;
				figure != NULL; figure = figure->next) {
				print_series(history, one->string, figure->string, out);
			}
		}
	}
	close_history(history);
	return status;
}
