#include "reports/results/history_file.h"

#include "engine/base/input_file.h"
#include "engine/base/memory.h"
#include "reports/results/metric.h"

#include <stdlib.h>
#include <string.h>

/* ---- a line ---- */

static enum status check_case(
	const struct json_object *cases, const char *name, struct error *error)
{
	struct json_object one, figures;
	const char *word;
	uint32_t status = 0;

	TRY(json_object(cases, name, &one, error));
	TRY(json_text(&one, "verdict", &word, error));
	while (status < GATE_STATUS_COUNT && strcmp(word, gate_status_words[status]) != 0) {
		status++;
	}
	if (status == GATE_STATUS_COUNT) {
		return json_refuse(&one, "verdict", "a verdict of quire gate, such as PASS", error);
	}
	TRY(json_object(&one, "figures", &figures, error));
	for (const cJSON *figure = figures.node->child; figure != NULL; figure = figure->next) {
		double value;
		if (!cJSON_IsNull(figure)) {
			TRY(json_double(&figures, figure->string, -HISTORY_NUMBER_MAX,
				HISTORY_NUMBER_MAX, &value, error));
		}
	}
	return STATUS_OK;
}

/* Takes over the document. */
static enum status read_run(struct history_run *run, struct error *error)
{
	struct json_object root, cases;

	TRY(json_root(&root, &run->document, error));
	if (!json_has(&root, "commit") && !json_has(&root, "cases")) {
		return error_set(error, STATUS_INPUT,
			"%.200s: found no line of quire gate --history", run->document.name);
	}
	TRY(json_text(&root, "commit", &run->commit, error));
	TRY(json_text(&root, "date", &run->date, error));
	TRY(json_object(&root, "cases", &cases, error));
	for (const cJSON *one = cases.node->child; one != NULL; one = one->next) {
		TRY(check_case(&cases, one->string, error));
	}
	run->cases = cases.node;
	return STATUS_OK;
}

static enum status parse_run(struct history_run *run, const char *path, uint64_t number,
	const char *line, size_t length, struct error *error)
{
	char name[JSON_NAME_BYTES];
	struct error unread = {0};

	snprintf(name, sizeof(name), "%.200s:%llu", path, (unsigned long long)number);
	if (length > HISTORY_LINE_BYTES_MAX) {
		return error_set(error, STATUS_INPUT, "%s: found more bytes, expected at most %d",
			name, HISTORY_LINE_BYTES_MAX);
	}
	if (json_document_parse(&run->document, name, line, length, &unread) != STATUS_OK) {
		bool has_field = strncmp(unread.text + strlen(name), ": field ", 8) == 0;
		return has_field ? error_set(error, STATUS_INPUT, "%s", unread.text)
				 : error_set(error, STATUS_INPUT,
					   "%s: found no valid JSON, expected a line of quire gate "
					   "--history",
					   name);
	}
	return read_run(run, error);
}

/* ---- the lines ---- */

/* The oldest run makes room for a new one. */
static struct history_run *next_run(struct history_run *ring, struct history_file *history)
{
	struct history_run *run = &ring[history->line_count % HISTORY_RUNS_MAX];

	json_document_close(&run->document);
	*run = (struct history_run){.commit = NULL};
	history->line_count++;
	history->count += history->count < HISTORY_RUNS_MAX;
	return run;
}

/* A line with its end, and of one that is too long a byte more than the limit, since what is no
   history may be one line of gigabytes. line: (HISTORY_LINE_BYTES_MAX + 2) ends in a zero. Returns
   its bytes, 0 at the end of the file. */
static size_t read_line(char *line, FILE *file)
{
	size_t length = 0;
	int c = 0;

	while (length <= HISTORY_LINE_BYTES_MAX && c != '\n' && (c = getc_unlocked(file)) != EOF) {
		line[length++] = (char)c;
	}
	line[length] = '\0';
	return length;
}

static enum status read_lines(struct history_file *history, struct history_run *ring,
	const char *path, FILE *file, struct error *error)
{
	enum status status = STATUS_OK;
	char *line = memory_take_uncleared(HISTORY_LINE_BYTES_MAX + 2);
	size_t length = 0;

	while (status == STATUS_OK && (length = read_line(line, file)) > 0) {
		struct history_run *run = next_run(ring, history);
		status = parse_run(run, path, history->line_count, line, length, error);
	}
	free(line);
	return status != STATUS_OK || !ferror(file)
		       ? status
		       : error_set(error, STATUS_FILE, "cannot read %s", path);
}

/* ---- tracks ---- */

static void find_levels(struct history_track *track)
{
	uint32_t points[CHANGE_POINT_SERIES_MAX];
	uint32_t count = change_points_find(track->values, track->count, points);

	track->level_count = count + 1;
	track->starts = memory_take(count + 2, sizeof(*track->starts));
	memcpy(track->starts + 1, points, count * sizeof(*points));
	track->starts[count + 1] = track->count;
}

/* The figures of a case by run (history->count): NULL where it lacks the case, or is INVALID. */
static void find_figures(
	const cJSON **figures, const struct history_file *history, const char *name)
{
	for (uint32_t i = 0; i < history->count; i++) {
		const struct history_run *run = &history->runs[i];
		const cJSON *one = cJSON_GetObjectItemCaseSensitive(run->cases, name);
		bool is_invalid = one != NULL && history_verdict(run, name) == GATE_INVALID;
		figures[i] = one == NULL || is_invalid
				     ? NULL
				     : cJSON_GetObjectItemCaseSensitive(one, "figures");
	}
}

static void find_track(
	struct history_track *track, const struct history_file *history, const cJSON **figures)
{
	track->values = memory_take(history->count, sizeof(*track->values));
	track->runs = memory_take(history->count, sizeof(*track->runs));
	for (uint32_t i = 0; i < history->count; i++) {
		const cJSON *value = cJSON_GetObjectItemCaseSensitive(figures[i], track->figure);
		if (cJSON_IsNumber(value)) {
			track->runs[track->count] = i;
			track->values[track->count++] = value->valuedouble;
		}
	}
	find_levels(track);
}

static bool has_number(const cJSON *figures)
{
	const cJSON *figure = figures == NULL ? NULL : figures->child;

	while (figure != NULL && !cJSON_IsNumber(figure)) {
		figure = figure->next;
	}
	return figure != NULL;
}

/* The tracks of a case. */
static void add_tracks(struct history_file *history, size_t *capacity, const cJSON **figures,
	const struct history_case *one)
{
	uint32_t end = one->run + 1;

	find_figures(figures, history, one->name);
	while (end > 0 && !has_number(figures[end - 1])) {
		end--;
	}
	const cJSON *figure = end == 0 ? NULL : figures[end - 1]->child;
	for (; figure != NULL; figure = figure->next) {
		if (!cJSON_IsNumber(figure)) {
			continue;
		}
		history->tracks = memory_grow(history->tracks, capacity, history->track_count + 1,
			sizeof(*history->tracks));
		struct history_track *track = &history->tracks[history->track_count++];
		*track = (struct history_track){.name = one->name, .figure = figure->string};
		find_track(track, history, figures);
	}
}

static void find_tracks(struct history_file *history)
{
	const cJSON **figures = memory_take((size_t)history->count + 1, sizeof(*figures));
	size_t capacity = 0;

	for (uint32_t i = 0; i < history->case_count; i++) {
		add_tracks(history, &capacity, figures, &history->cases[i]);
	}
	free(figures);
}

/* ---- cases ---- */

/* A case in a run, at its place there. */
struct placed_case {
	struct history_case one;
	uint32_t place;
};

static int by_name(const void *a, const void *b)
{
	const struct placed_case *x = a, *y = b;
	int names = strcmp(x->one.name, y->one.name);

	return names != 0 ? names : (x->one.run < y->one.run) - (x->one.run > y->one.run);
}

static int by_last_run(const void *a, const void *b)
{
	const struct placed_case *x = a, *y = b;

	return x->one.run != y->one.run ? (x->one.run < y->one.run) - (x->one.run > y->one.run)
					: (x->place > y->place) - (x->place < y->place);
}

static void find_cases(struct history_file *history)
{
	struct placed_case *placed = NULL;
	size_t capacity = 0, total = 0, count = 0;

	for (uint32_t run = 0; run < history->count; run++) {
		uint32_t place = 0;
		for (const cJSON *one = history->runs[run].cases->child; one != NULL;
			one = one->next) {
			placed = memory_grow(placed, &capacity, total + 1, sizeof(*placed));
			placed[total++] = (struct placed_case){{one->string, run}, place++};
		}
	}
	if (total == 0) {
		return;
	}
	qsort(placed, total, sizeof(*placed), by_name);
	for (size_t i = 0; i < total; i++) {
		if (count == 0 || strcmp(placed[i].one.name, placed[count - 1].one.name) != 0) {
			placed[count++] = placed[i];
		}
	}
	qsort(placed, count, sizeof(*placed), by_last_run);
	history->cases = memory_take(count, sizeof(*history->cases));
	for (size_t i = 0; i < count; i++) {
		history->cases[i] = placed[i].one;
	}
	history->case_count = (uint32_t)count;
	free(placed);
}

/* ---- the file ---- */

/* Puts the ring in the order of the lines. */
static void sort_runs(struct history_file *history, struct history_run *ring)
{
	uint64_t first = history->line_count - history->count;

	history->runs = memory_take(history->count + 1, sizeof(*history->runs));
	for (uint32_t i = 0; i < history->count; i++) {
		history->runs[i] = ring[(first + i) % HISTORY_RUNS_MAX];
	}
}

enum status history_file_open(struct history_file *out, const char *path, struct error *error)
{
	FILE *file;

	*out = (struct history_file){.count = 0};
	TRY(input_file_open(&file, path, INPUT_FILE, error));
	struct history_run *ring = memory_take(HISTORY_RUNS_MAX, sizeof(*ring));
	enum status status = read_lines(out, ring, path, file, error);
	fclose(file);
	sort_runs(out, ring);
	free(ring);
	if (status == STATUS_OK) {
		find_cases(out);
		find_tracks(out);
	}
	return status;
}

void history_file_close(struct history_file *history)
{
	for (uint32_t i = 0; i < history->count; i++) {
		json_document_close(&history->runs[i].document);
	}
	for (uint32_t i = 0; i < history->track_count; i++) {
		free(history->tracks[i].values);
		free(history->tracks[i].runs);
		free(history->tracks[i].starts);
	}
	free(history->runs);
	free(history->cases);
	free(history->tracks);
	*history = (struct history_file){.count = 0};
}

enum gate_status history_verdict(const struct history_run *run, const char *name)
{
	const cJSON *word = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(run->cases, name), "verdict");
	uint32_t status = word == NULL ? GATE_STATUS_COUNT : 0;

	while (status < GATE_STATUS_COUNT &&
		strcmp(word->valuestring, gate_status_words[status]) != 0) {
		status++;
	}
	return (enum gate_status)status;
}

bool history_is_of_last_run(const struct history_file *history, const struct history_track *track)
{
	return track->runs[track->count - 1] + 1 == history->count;
}

double history_level_mean(const struct history_track *track, uint32_t level)
{
	double sum = 0;

	for (uint32_t i = track->starts[level]; i < track->starts[level + 1]; i++) {
		sum += track->values[i];
	}
	return sum / (track->starts[level + 1] - track->starts[level]);
}

uint32_t history_level_run(const struct history_track *track, uint32_t level)
{
	return track->runs[track->starts[level]];
}

int history_level_is_better(const struct history_track *track, uint32_t level)
{
	double before = history_level_mean(track, level - 1);
	double after = history_level_mean(track, level);
	int better = history_figure_of(track->figure).better;

	return after > before ? better : after < before ? -better : 0;
}

bool history_figure_is_first(const struct history_file *history, uint32_t track)
{
	for (uint32_t i = 0; i < track; i++) {
		if (strcmp(history->tracks[i].figure, history->tracks[track].figure) == 0) {
			return false;
		}
	}
	return true;
}

struct history_figure history_figure_of(const char *name)
{
#define COST_FIGURE(cost, name, unit, title, limit, floor) {title, unit, NUMBER_COUNT, -1},
	static const struct history_figure costs[] = {GATE_COST_LIST(COST_FIGURE)};
#undef COST_FIGURE
	const struct metric *metric = metric_find(name);

	if (metric != NULL) {
		return (struct history_figure){
			metric->title, metric->unit, metric->format, metric->better};
	}
	for (uint32_t i = 0; i < COST_COUNT; i++) {
		if (strcmp(name, gate_cost_names[i]) == 0) {
			return costs[i];
		}
	}
	return (struct history_figure){name, "", NUMBER_RATE, 0};
}
