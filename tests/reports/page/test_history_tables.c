#include <criterion/criterion.h>

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

#include "reports/page/page.h"
#include "reports/results/gate_words.h"
#include "tests/harness/made_result.h"
#include "tests/harness/page_table.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The page of a gate's history, of drawn ones: one run alone or more than are shown, figures that
   some runs lack, cases that the last run lacks, equal values and zeros, levels of any length.
   Levels are drawn too: where they begin is tested elsewhere, as which cases and runs count. */

enum { RUNS_MOST = 60, CASES_MOST = 3, FIGURES = 3, TRACKS_MOST = CASES_MOST * FIGURES };

/* The last is no metric: more of it is neither better nor worse. */
static const char *const figure_names[FIGURES] = {"ttft.p99", "output_tokens_per_s", "odd"};
static const int betters[FIGURES] = {-1, 1, 0};

struct drawn_history {
	struct history_file history;
	struct history_run runs[RUNS_MOST];
	struct history_track tracks[TRACKS_MOST];
	struct history_case cases[CASES_MOST];
	char commits[RUNS_MOST][16], dates[RUNS_MOST][16];
	double values[TRACKS_MOST][RUNS_MOST];
	uint32_t track_runs[TRACKS_MOST][RUNS_MOST], starts[TRACKS_MOST][RUNS_MOST + 1];
	uint32_t figure[TRACKS_MOST]; /* index in figure_names */
	uint32_t case_count;
};

static const char *const names[CASES_MOST] = {"<a>", "b", "c"};

static void draw_run(struct prop *prop, struct drawn_history *drawn, uint32_t index)
{
	static const double values[] = {0, 0, 1, 1, 2.5, 80, 81};
	struct history_run *run = &drawn->runs[index];
	cJSON *root = cJSON_CreateObject(), *cases = cJSON_AddObjectToObject(root, "cases");

	snprintf(drawn->commits[index], sizeof(drawn->commits[index]), "c%04u", index);
	snprintf(drawn->dates[index], sizeof(drawn->dates[index]), "d%u", index);
	for (uint32_t i = 0; i < drawn->case_count; i++) {
		if (index > 0 && prop_chance(prop, 1, 5)) {
			continue; /* the first run has all */
		}
		cJSON *one = cJSON_AddObjectToObject(cases, names[i]);
		cJSON_AddStringToObject(one, "verdict",
			gate_status_words[prop_chance(prop, 1, 2)
						  ? 0
						  : prop_below(prop, GATE_STATUS_COUNT)]);
		cJSON *own = cJSON_AddObjectToObject(one, "figures");
		for (uint32_t k = 0; k < FIGURES; k++) {
			if (prop_chance(prop, 4, 5)) {
				cJSON_AddNumberToObject(
					own, figure_names[k], values[prop_below(prop, 7)]);
			}
		}
	}
	*run = (struct history_run){.document = {.root = root},
		.commit = drawn->commits[index],
		.date = drawn->dates[index],
		.cases = cases};
}

static const cJSON *figure_in(const struct history_run *run, const char *name, const char *figure)
{
	const cJSON *one = cJSON_GetObjectItemCaseSensitive(run->cases, name);

	return cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(one, "figures"), figure);
}

static const char *verdict_in(const struct history_run *run, const char *name)
{
	const cJSON *one = cJSON_GetObjectItemCaseSensitive(run->cases, name);

	return one == NULL ? "" : cJSON_GetObjectItemCaseSensitive(one, "verdict")->valuestring;
}

static bool is_invalid_in(const struct history_run *run, const char *name)
{
	return strcmp(verdict_in(run, name), gate_status_words[GATE_INVALID]) == 0;
}

static void draw_track(
	struct prop *prop, struct drawn_history *drawn, const char *name, uint32_t figure)
{
	uint32_t index = drawn->history.track_count++;
	struct history_track *track = &drawn->tracks[index];

	*track = (struct history_track){.name = name,
		.figure = figure_names[figure],
		.values = drawn->values[index],
		.runs = drawn->track_runs[index],
		.starts = drawn->starts[index]};
	drawn->figure[index] = figure;
	for (uint32_t i = 0; i < drawn->history.count; i++) {
		const cJSON *value = figure_in(&drawn->runs[i], name, figure_names[figure]);
		if (value != NULL && !is_invalid_in(&drawn->runs[i], name)) {
			track->values[track->count] = value->valuedouble;
			track->runs[track->count++] = i;
		}
	}
	for (uint32_t i = 0; i < track->count; i++) {
		if (i == 0 || prop_chance(prop, 1, 6)) {
			track->starts[track->level_count++] = i;
		}
	}
	track->starts[track->level_count] = track->count;
}

static uint32_t last_run_of(const struct drawn_history *drawn, const char *name)
{
	uint32_t run = drawn->history.count - 1;

	while (verdict_in(&drawn->runs[run], name)[0] == '\0') {
		run--;
	}
	return run;
}

static void draw_history(struct prop *prop, struct drawn_history *drawn)
{
	memset(drawn, 0, sizeof(*drawn));
	drawn->case_count = prop_range(prop, 1, CASES_MOST);
	drawn->history = (struct history_file){.runs = drawn->runs,
		.count = prop_chance(prop, 1, 3) ? prop_range(prop, 1, 3)
						 : prop_range(prop, 1, RUNS_MOST),
		.tracks = drawn->tracks};
	drawn->history.line_count = drawn->history.count + prop_below(prop, 2);
	for (uint32_t i = 0; i < drawn->history.count; i++) {
		draw_run(prop, drawn, i);
	}
	drawn->history.cases = drawn->cases;
	drawn->history.case_count = drawn->case_count;
	for (uint32_t i = 0; i < drawn->case_count; i++) {
		uint32_t run = last_run_of(drawn, names[i]), from = run;
		drawn->cases[i] = (struct history_case){names[i], run};
		while (from > 0 && is_invalid_in(&drawn->runs[from], names[i])) {
			from--;
		}
		for (uint32_t k = 0; k < FIGURES; k++) {
			const struct history_run *own = &drawn->runs[from];
			if (figure_in(own, names[i], figure_names[k]) != NULL &&
				!is_invalid_in(own, names[i])) {
				draw_track(prop, drawn, names[i], k);
			}
		}
	}
}

/* ---- what is expected ---- */

static double mean_of(const struct history_track *track, uint32_t level)
{
	double sum = 0;

	for (uint32_t i = track->starts[level]; i < track->starts[level + 1]; i++) {
		sum += track->values[i];
	}
	return sum / (track->starts[level + 1] - track->starts[level]);
}

static const char *shown_name(const char *name)
{
	return name[0] == '<' ? "&lt;a&gt;" : name;
}

static void require_number(const struct shown_table *table, const char *title,
	enum number_format format, bool has_value, double value)
{
	struct text text = {0};

	text_add_number(&text, format, has_value, value);
	shown_table_require(table, title, text.bytes);
	text_deinit(&text);
}

static int direction_of(const struct drawn_history *drawn, uint32_t index, uint32_t level)
{
	const struct history_track *track = &drawn->tracks[index];
	double change = mean_of(track, level) - mean_of(track, level - 1);

	return betters[drawn->figure[index]] * (change > 0 ? 1 : change < 0 ? -1 : 0);
}

static void require_change(const struct drawn_history *drawn, const struct shown_table *table,
	uint32_t index, uint32_t level)
{
	const struct history_track *track = &drawn->tracks[index];
	double before = mean_of(track, level - 1), after = mean_of(track, level);
	enum number_format format = history_figure_of(track->figure).format;
	int direction = direction_of(drawn, index, level);
	struct text text = {0};

	require_number(table, "Level before", format, true, before);
	text_add_difference(&text, format, &before, &after);
	text_add(&text, direction < 0 ? " worse" : direction > 0 ? " better" : "");
	shown_table_require(table, "Change", text.bytes);
	text_deinit(&text);
	const char *tag = table->row.tags[shown_table_column(table, "Change")];
	require_equal(strstr(tag, "worse") != NULL, direction < 0);
	require_equal(strstr(tag, "better") != NULL, direction > 0);
}

static void require_head(const struct shown_table *table, const struct history_track *track)
{
	char head[64];

	snprintf(
		head, sizeof(head), "%s <small>%s</small>", shown_name(track->name), track->figure);
	shown_table_require(table, "Case", head);
	require_equal(table->row.count, table->titles.count);
}

/* ---- tables ---- */

/* The changes of all figures, the latest run first, of one run in the order of the figures. */
static void require_changes(const struct drawn_history *drawn, const char *page)
{
	struct shown_table table;
	uint32_t total = 0;

	for (uint32_t i = 0; i < drawn->history.track_count; i++) {
		total += drawn->tracks[i].level_count - 1;
	}
	require_equal(occurrences(page, "<p>No level has changed.</p>"), total == 0);
	if (total == 0) {
		return;
	}
	shown_table_open(&table, strstr(page, "<section id=\"changes\">"));
	for (uint32_t run = drawn->history.count; run-- > 0;) {
		for (uint32_t i = 0; i < drawn->history.track_count; i++) {
			const struct history_track *track = &drawn->tracks[i];
			uint32_t level = 1;
			while (level < track->level_count &&
				track->runs[track->starts[level]] != run) {
				level++;
			}
			if (level == track->level_count) {
				continue;
			}
			require(shown_table_next(&table), "a change is missing");
			require_head(&table, track);
			shown_table_require(&table, "Since", drawn->commits[run]);
			shown_table_require(&table, "Date", drawn->dates[run]);
			require_number(&table, "Level since",
				history_figure_of(track->figure).format, true,
				mean_of(track, level));
			require_change(drawn, &table, i, level);
		}
	}
	require(!shown_table_next(&table), "more changes than there are");
}

static void require_run(const struct shown_table *table, const char *title,
	const struct drawn_history *drawn, uint32_t run)
{
	char text[64];

	snprintf(
		text, sizeof(text), "%s <small>%s</small>", drawn->commits[run], drawn->dates[run]);
	shown_table_require(table, title, text);
}

static void require_levels(const struct drawn_history *drawn, const char *page)
{
	struct shown_table table;

	shown_table_open(&table, strstr(page, "<section id=\"levels\">"));
	for (uint32_t i = 0; i < drawn->history.track_count; i++) {
		const struct history_track *track = &drawn->tracks[i];
		enum number_format format = history_figure_of(track->figure).format;
		uint32_t last = track->level_count - 1, start = track->starts[last];
		require(shown_table_next(&table), "a figure is missing");
		require_head(&table, track);
		require_number(&table, "Last run", format, true, track->values[track->count - 1]);
		require_run(&table, "Run", drawn, track->runs[track->count - 1]);
		require_number(&table, "Level", format, true, mean_of(track, last));
		shown_table_require(&table, "Since", drawn->commits[track->runs[start]]);
		require_number(&table, "Runs in it", NUMBER_COUNT, true, track->count - start);
		if (last > 0) {
			require_change(drawn, &table, i, last);
		} else {
			shown_table_require(&table, "Level before", "\u2013");
			shown_table_require(&table, "Change", "\u2013");
		}
	}
	require(!shown_table_next(&table), "more figures than there are");
}

/* One of other settings is marked. */
static void require_run_value(const struct shown_table *table, const struct history_run *run,
	const char *name, const char *figure)
{
	const cJSON *value = figure_in(run, name, figure);
	struct text text = {0};

	text_add_number(&text, history_figure_of(figure).format, value != NULL,
		value == NULL ? 0 : value->valuedouble);
	text_add(&text, value != NULL && is_invalid_in(run, name) ? " <small>INVALID</small>" : "");
	shown_table_require(table, shown_name(name), text.bytes);
	text_deinit(&text);
}

/* The latest 50 runs of a figure, the last first, and its cases beside each other. */
static void require_runs(const struct drawn_history *drawn, const char *page)
{
	const struct history_file *history = &drawn->history;
	const char *at = strstr(page, "<section id=\"runs\">");

	for (uint32_t k = 0; k < history->track_count; k++) {
		const char *figure = history->tracks[k].figure;
		struct shown_table table;
		uint32_t run = history->count;
		bool is_first = true;
		for (uint32_t i = 0; i < k; i++) {
			is_first = is_first && strcmp(history->tracks[i].figure, figure) != 0;
		}
		if (!is_first) {
			continue;
		}
		shown_table_open(&table, at);
		at = table.end;
		while (shown_table_next(&table)) {
			char head[64];
			require(run > 0 && history->count - run < 50, "more runs than 50");
			run--;
			snprintf(head, sizeof(head), "%s<small>%s</small>", drawn->commits[run],
				drawn->dates[run]);
			shown_table_require(&table, "Commit", head);
			for (uint32_t i = 0; i < history->track_count; i++) {
				const struct history_track *track = &history->tracks[i];
				if (strcmp(track->figure, figure) == 0) {
					require_run_value(
						&table, &drawn->runs[run], track->name, figure);
				}
			}
		}
		require_equal(run, history->count > 50 ? history->count - 50 : 0);
	}
}

/* The last change of each figure of a case, in the column that says whither it went. */
static void require_changed(const struct drawn_history *drawn, const struct shown_table *table,
	const char *name, int direction)
{
	struct text text = {0};

	for (uint32_t i = 0; i < drawn->history.track_count; i++) {
		const struct history_track *track = &drawn->tracks[i];
		uint32_t last = track->level_count - 1;
		if (strcmp(track->name, name) != 0 || last == 0 ||
			direction_of(drawn, i, last) != direction) {
			continue;
		}
		double before = mean_of(track, last - 1), after = mean_of(track, last);
		text_format(&text, "%s%s ", text.byte_count > 0 ? "<br>" : "", track->figure);
		text_add_difference(
			&text, history_figure_of(track->figure).format, &before, &after);
		text_format(&text, " since %s", drawn->commits[track->runs[track->starts[last]]]);
	}
	shown_table_require(table, direction < 0 ? "Worse" : "Better",
		text.byte_count == 0 ? "\u2013" : text.bytes);
	text_deinit(&text);
}

/* Each case once, with the runs since which it has its verdict without a break; runs that lack it
   are no break. */
static void require_last(const struct drawn_history *drawn, const char *page)
{
	const struct history_run *runs = drawn->runs;
	struct shown_table table;

	for (uint32_t i = 0; i < drawn->case_count; i++) {
		uint32_t last = last_run_of(drawn, names[i]), since = last, count = 1, before = 0;
		const char *verdict = verdict_in(&runs[last], names[i]);
		char text[64];
		shown_table_open(&table, strstr(page, "<section id=\"last\">"));
		do {
			require(shown_table_next(&table), "no row of %s", names[i]);
		} while (strcmp(table.row.cells[0], shown_name(names[i])) != 0);
		for (uint32_t run = last; run-- > 0 && before == 0;) {
			const char *word = verdict_in(&runs[run], names[i]);
			bool is_same = strcmp(word, verdict) == 0;
			since = is_same ? run : since;
			count += is_same;
			before += word[0] != '\0' && !is_same;
		}
		snprintf(text, sizeof(text), "%s, %u %s%s", drawn->commits[since], count,
			count == 1 ? "run" : "runs", before == 0 ? " (all)" : "");
		require_run(&table, "Last run", drawn, last);
		shown_table_require(&table, "Verdict since", text);
		snprintf(text, sizeof(text), ">%s</span>", verdict);
		require_has(table.row.cells[shown_table_column(&table, "Verdict")], text);
		require_changed(drawn, &table, names[i], -1);
		require_changed(drawn, &table, names[i], 1);
	}
}

static void body_history(struct prop *prop, const void *context)
{
	const struct page_sheet sheet = {.style = "", .script = ""};
	static struct drawn_history drawn;
	struct text page = {0}, head = {0};
	struct error error = {0};

	(void)context;
	draw_history(prop, &drawn);
	uint32_t last = drawn.history.count - 1;
	require(page_history_write(&page, &drawn.history, "h.jsonl", &sheet, &error) == STATUS_OK,
		"%s", error.text);
	text_format(&head, "%u %s c0000 (d0)", last + 1, last == 0 ? "run, of" : "runs, from");
	if (last > 0) {
		text_format(&head, " to c%04u (d%u)", last, last);
	}
	if (drawn.history.line_count > last + 1) {
		text_format(&head, "; the latest of %u in the file", last + 2);
	}
	text_add(&head, "</p>");
	require_has(page.bytes, head.bytes);
	require_last(&drawn, page.bytes);
	if (drawn.history.track_count > 0) {
		require_changes(&drawn, page.bytes);
		require_levels(&drawn, page.bytes);
		require_runs(&drawn, page.bytes);
	}
	text_deinit(&head);
	text_deinit(&page);
	for (uint32_t i = 0; i <= last; i++) {
		cJSON_Delete(drawn.runs[i].document.root);
	}
}

Test(history_tables, have_every_figure_of_every_run, .timeout = 240)
{
	const struct prop_options options = {
		.name = "page of a history", .body = body_history, .trials = 300};

	cr_assert(prop_holds(&options));
}
