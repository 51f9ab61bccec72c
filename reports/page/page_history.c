#include "reports/page/page.h"

#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "reports/page/page_elements.h"
#include "reports/page/page_sections.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN_CHANGES_MAX = 500, SHOWN_RUNS_MAX = 50 };

/* A case with the verdict of the last run that has it. */
struct shown_case {
	const char *name;
	enum gate_status status;
	uint32_t last;	    /* the run of the verdict */
	uint32_t since;	    /* run from which on the case has it */
	uint32_t run_count; /* of the case, from there on */
	bool is_all;	    /* these are all of its runs */
	uint32_t worse;	    /* figures whose last change of level is for the worse */
	uint32_t place;	    /* in the history's cases */
};

/* The commit of a run and its date. */
static void add_run(struct text *page, const struct history_run *run)
{
	text_add_escaped(page, run->commit);
	text_add(page, " (");
	text_add_escaped(page, run->date);
	text_add(page, ")");
}

/* ---- cases and their last verdicts ---- */

static uint32_t worse_figures(const struct history_file *history, const char *name)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < history->track_count; i++) {
		const struct history_track *track = &history->tracks[i];
		count += strcmp(track->name, name) == 0 && track->level_count > 1 &&
			 history_level_is_better(track, track->level_count - 1) < 0;
	}
	return count;
}

/* What needs work comes first, then the order of the suite. */
static int by_urgency(const void *a, const void *b)
{
	const struct shown_case *x = a, *y = b;
	int cost = gate_status_costs[y->status] - gate_status_costs[x->status];
	int status = (int)y->status - (int)x->status;

	if (cost != 0) {
		return cost;
	}
	if (status != 0) {
		return status;
	}
	return x->worse != y->worse ? (x->worse < y->worse) - (x->worse > y->worse)
				    : (x->place > y->place) - (x->place < y->place);
}

/* Runs that lack the case are skipped. */
static struct shown_case find_case(const struct history_file *history, uint32_t place)
{
	const struct history_case *own = &history->cases[place];
	struct shown_case out = {.name = own->name,
		.status = history_verdict(&history->runs[own->run], own->name),
		.last = own->run,
		.is_all = true,
		.worse = worse_figures(history, own->name),
		.place = place};

	for (uint32_t run = own->run + 1; run-- > 0 && out.is_all;) {
		enum gate_status status = history_verdict(&history->runs[run], own->name);
		if (status == out.status) {
			out.since = run;
			out.run_count++;
		}
		out.is_all = status == out.status || status == GATE_STATUS_COUNT;
	}
	return out;
}

static struct shown_case *find_cases(const struct history_file *history)
{
	struct shown_case *cases = memory_take((size_t)history->case_count + 1, sizeof(*cases));

	for (uint32_t i = 0; i < history->case_count; i++) {
		cases[i] = find_case(history, i);
	}
	qsort(cases, history->case_count, sizeof(*cases), by_urgency);
	return cases;
}

/* ---- head ---- */

static void add_head(
	struct text *page, const struct history_file *history, const char *path, const char *style)
{
	static const struct page_link links[] = {{"last", "Last run"}, {"changes", "Changes"},
		{"figures", "Figures"}, {"levels", "Levels"}, {"runs", "Runs"}, {NULL, NULL}};
	static const struct page_link few[] = {{"last", "Last run"}, {NULL, NULL}};

	page_open_titled(page, "Gate history", path_name(path), "gate history", style);
	text_add(page, "<p class=\"run\">");
	text_add_count(page, history->count, "run, of ", "runs, from ");
	add_run(page, &history->runs[0]);
	if (history->count > 1) {
		text_add(page, " to ");
		add_run(page, &history->runs[history->count - 1]);
	}
	if (history->line_count > history->count) {
		text_format(page, "; the latest of %llu in the file",
			(unsigned long long)history->line_count);
	}
	text_add(page, "</p>\n");
	page_contents(page, history->track_count > 0 ? links : few);
}

/* ---- the last run ---- */

static void add_verdict(struct text *page, const struct history_file *history,
	const struct shown_case *cases, uint32_t count)
{
	uint32_t counts[GATE_STATUS_COUNT] = {0}, worse = 0, worse_cases = 0, others = 0;
	const char *separator = "";
	int cost = 0;

	for (uint32_t i = 0; i < count; i++) {
		counts[cases[i].status]++;
		worse += cases[i].worse;
		worse_cases += cases[i].worse > 0;
		others += cases[i].last + 1 < history->count;
		cost = gate_status_costs[cases[i].status] > cost
			       ? gate_status_costs[cases[i].status]
			       : cost;
	}
	text_format(page, "<section class=\"verdict %s\">\n<p class=\"sentence\">",
		cost == 0 ? "stable" : "overloaded");
	for (uint32_t i = GATE_STATUS_COUNT; i-- > 0;) {
		if (counts[i] > 0) {
			text_format(page, "%s%u %s", separator, counts[i], gate_status_words[i]);
			separator = ", ";
		}
	}
	text_add(page, count == 0 ? "No case" : "");
	text_add(page, "</p>\n<p class=\"facts\">The last run: ");
	add_run(page, &history->runs[history->count - 1]);
	if (others > 0) {
		text_format(page, ", which has %u of %u cases; %s own last run", count - others,
			count,
			word_of_count(
				others, "the other is as in its", "the others are as in their"));
	}
	if (worse == 0) {
		text_add(page, ". No figure is worse than in the level before its own.");
	} else {
		text_format(page, ". %u %s of %u %s %s worse than in the level before %s own.",
			worse, word_of_count(worse, "figure", "figures"), worse_cases,
			word_of_count(worse_cases, "case", "cases"),
			word_of_count(worse, "is", "are"), word_of_count(worse, "its", "their"));
	}
	text_add(page, "</p>\n</section>\n");
}

/* The figures of a case whose last change of level goes in a direction. */
static void add_changed(
	struct text *page, const struct history_file *history, const char *name, int direction)
{
	struct text words = {0};

	for (uint32_t i = 0; i < history->track_count; i++) {
		const struct history_track *track = &history->tracks[i];
		uint32_t last = track->level_count - 1;
		if (strcmp(track->name, name) != 0 || last == 0 ||
			history_level_is_better(track, last) != direction) {
			continue;
		}
		double before = history_level_mean(track, last - 1);
		double after = history_level_mean(track, last);
		text_add(&words, words.byte_count == 0 ? "" : "<br>");
		text_add_escaped(&words, track->figure);
		text_add(&words, " ");
		text_add_difference(
			&words, history_figure_of(track->figure).format, &before, &after);
		text_add(&words, " since ");
		text_add_escaped(&words, history->runs[history_level_run(track, last)].commit);
	}
	if (words.byte_count == 0) {
		text_add(page, "<td>\u2013</td>");
	} else {
		text_format(page, "<td class=\"words%s\">", direction < 0 ? " worse" : " better");
		text_add(page, words.bytes);
		text_add(page, "</td>");
	}
	text_deinit(&words);
}

/* The commit of a run and its date in a cell. */
static void add_run_cell(struct text *page, const struct history_run *run)
{
	text_add(page, "<td class=\"words\">");
	text_add_escaped(page, run->commit);
	text_add(page, " <small>");
	text_add_escaped(page, run->date);
	text_add(page, "</small></td>");
}

static void add_case(
	struct text *page, const struct history_file *history, const struct shown_case *one)
{
	int cost = gate_status_costs[one->status];

	text_add(page, "<tr><th scope=\"row\">");
	text_add_escaped(page, one->name);
	text_format(page, "</th><td class=\"words\"><span class=\"chip %s\" title=\"%s\">%s</span>",
		cost == 0   ? "stable"
		: cost == 1 ? "overloaded"
			    : "backlogged",
		gate_status_meanings[one->status], gate_status_words[one->status]);
	text_add(page, "</td>");
	add_changed(page, history, one->name, -1);
	add_changed(page, history, one->name, 1);
	add_run_cell(page, &history->runs[one->last]);
	text_add(page, "<td class=\"words\">");
	text_add_escaped(page, history->runs[one->since].commit);
	text_add(page, ", ");
	text_add_count(page, one->run_count, "run", "runs");
	text_add(page, one->is_all ? " (all)</td></tr>\n" : "</td></tr>\n");
}

static void add_last(struct text *page, const struct history_file *history)
{
	struct shown_case *cases = find_cases(history);

	add_verdict(page, history, cases, history->case_count);
	page_table_open(page, "last", "Last run",
		"What needs work comes first. A verdict is the gate's, by its baseline, in the "
		"last run that has the case. Worse and better are the last change of a figure's "
		"level, whatever its limit.");
	text_add(page, "<thead><tr><th scope=\"col\">Case</th><th scope=\"col\">Verdict</th>"
		       "<th scope=\"col\">Worse</th><th scope=\"col\">Better</th>"
		       "<th scope=\"col\">Last run</th>"
		       "<th scope=\"col\">Verdict since</th></tr></thead>\n<tbody>\n");
	for (uint32_t i = 0; i < history->case_count; i++) {
		add_case(page, history, &cases[i]);
	}
	page_table_close(page);
	free(cases);
}

/* ---- tables ---- */

static void add_columns(struct text *page, const char *const *titles)
{
	text_add(page, "<thead><tr>");
	for (uint32_t i = 0; titles[i] != NULL; i++) {
		text_format(page, "<th scope=\"col\">%s</th>", titles[i]);
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
}

static void add_value(struct text *page, enum number_format format, double value)
{
	text_add(page, "<td>");
	text_add_number(page, format, true, value);
	text_add(page, "</td>");
}

static void add_commit_cell(struct text *page, const struct history_run *run)
{
	text_add(page, "<td class=\"words\">");
	text_add_escaped(page, run->commit);
	text_add(page, "</td>");
}

/* From the level before to a level. */
static void add_difference(struct text *page, const struct history_track *track, uint32_t level)
{
	double before = history_level_mean(track, level - 1);
	double after = history_level_mean(track, level);
	int better = history_level_is_better(track, level);

	text_format(page, "<td%s>",
		better < 0   ? " class=\"worse\""
		: better > 0 ? " class=\"better\""
			     : "");
	text_add_difference(page, history_figure_of(track->figure).format, &before, &after);
	text_add(page, better < 0 ? " worse</td>" : better > 0 ? " better</td>" : "</td>");
}

static void add_row_head(struct text *page, const struct history_track *track)
{
	text_add(page, "<tr><th scope=\"row\">");
	text_add_escaped(page, track->name);
	text_add(page, " <small>");
	text_add_escaped(page, track->figure);
	text_add(page, "</small></th>");
}

/* ---- changes ---- */

struct change {
	const struct history_track *track;
	uint32_t level, run, place;
};

static int by_run(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return x->run != y->run ? (x->run < y->run) - (x->run > y->run)
				: (x->place > y->place) - (x->place < y->place);
}

static uint32_t find_changes(const struct history_file *history, struct change **out)
{
	size_t capacity = 0;
	uint32_t count = 0;

	*out = NULL;
	for (uint32_t i = 0; i < history->track_count; i++) {
		const struct history_track *track = &history->tracks[i];
		for (uint32_t level = 1; level < track->level_count; level++) {
			*out = memory_grow(*out, &capacity, count + 1, sizeof(**out));
			(*out)[count] = (struct change){
				track, level, history_level_run(track, level), count};
			count++;
		}
	}
	if (count > 0) {
		qsort(*out, count, sizeof(**out), by_run);
	}
	return count;
}

static void add_change(
	struct text *page, const struct history_file *history, const struct change *change)
{
	const struct history_track *track = change->track;
	enum number_format format = history_figure_of(track->figure).format;

	add_row_head(page, track);
	add_commit_cell(page, &history->runs[change->run]);
	text_add(page, "<td>");
	text_add_escaped(page, history->runs[change->run].date);
	text_add(page, "</td>");
	add_value(page, format, history_level_mean(track, change->level - 1));
	add_value(page, format, history_level_mean(track, change->level));
	add_difference(page, track, change->level);
	text_add(page, "</tr>\n");
}

static void add_method(struct text *page)
{
	text_format(page,
		"<p class=\"note\">Levels are found by binary segmentation: a stretch of runs is "
		"split where the means of its two parts differ most in units of that difference's "
		"standard deviation, if by more than %g, and the parts are split in turn. The "
		"noise "
		"is estimated by the median distance of neighbours and taken as normal; a part has "
		"three runs or more. ",
		CHANGE_POINT_THRESHOLD);
	text_format(page,
		"A figure that equals its neighbour in more than half of the runs has no noise: "
		"there every change of more than %g %% of the level is one. A run that is INVALID "
		"for a case, since its settings are not the baseline's, is in no level of "
		"it.</p>\n",
		100 * CHANGE_POINT_FLOOR);
}

static void add_changes(struct text *page, const struct history_file *history)
{
	static const char *const titles[] = {
		"Case", "Since", "Date", "Level before", "Level since", "Change", NULL};
	struct change *changes;
	uint32_t count = find_changes(history, &changes);
	uint32_t shown = count < SHOWN_CHANGES_MAX ? count : SHOWN_CHANGES_MAX;

	text_add(page, "<section id=\"changes\">\n<h2>Changes of level</h2>\n");
	add_method(page);
	if (count == 0) {
		text_add(page, "<p>No level has changed.</p>\n</section>\n");
		return;
	}
	if (shown < count) {
		text_format(page, "<p class=\"note\">The latest %u of %u.</p>\n", shown, count);
	}
	text_add(page, "<div class=\"scroll\">\n<table>\n");
	add_columns(page, titles);
	for (uint32_t i = 0; i < shown; i++) {
		add_change(page, history, &changes[i]);
	}
	page_table_close(page);
	free(changes);
}

/* ---- levels ---- */

static void add_levels(struct text *page, const struct history_file *history)
{
	static const char *const titles[] = {"Case", "Last run", "Run", "Level", "Since",
		"Runs in it", "Level before", "Change", NULL};

	page_table_open(page, "levels", "Levels",
		"Every figure of every case in the last run that has it and is not INVALID, the "
		"mean of its level, and the commit and the number of runs since which it has it.");
	add_columns(page, titles);
	for (uint32_t i = 0; i < history->track_count; i++) {
		const struct history_track *track = &history->tracks[i];
		enum number_format format = history_figure_of(track->figure).format;
		uint32_t last = track->level_count - 1;
		add_row_head(page, track);
		add_value(page, format, track->values[track->count - 1]);
		add_run_cell(page, &history->runs[track->runs[track->count - 1]]);
		add_value(page, format, history_level_mean(track, last));
		add_commit_cell(page, &history->runs[history_level_run(track, last)]);
		add_value(page, NUMBER_COUNT, track->count - track->starts[last]);
		if (last > 0) {
			add_value(page, format, history_level_mean(track, last - 1));
			add_difference(page, track, last);
		} else {
			text_add(page, "<td>\u2013</td><td>\u2013</td>");
		}
		text_add(page, "</tr>\n");
	}
	page_table_close(page);
}

/* ---- runs ---- */

static void add_run_value(
	struct text *page, const struct history_run *run, const char *name, const char *figure)
{
	const cJSON *one = cJSON_GetObjectItemCaseSensitive(run->cases, name);
	const cJSON *value = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(one, "figures"), figure);

	text_add(page, "<td>");
	text_add_number(page, history_figure_of(figure).format, cJSON_IsNumber(value),
		cJSON_IsNumber(value) ? value->valuedouble : 0);
	bool is_invalid = cJSON_IsNumber(value) && history_verdict(run, name) == GATE_INVALID;
	text_add(page, is_invalid ? " <small>INVALID</small></td>" : "</td>");
}

/* A row a run, a column for each case that has the figure. */
static void add_figure_runs(
	struct text *page, const struct history_file *history, const char *figure)
{
	uint32_t shown = history->count < SHOWN_RUNS_MAX ? history->count : SHOWN_RUNS_MAX;

	text_add(page, "<details><summary>");
	text_add_escaped(page, history_figure_of(figure).title);
	text_add(page, "</summary>\n<div class=\"scroll\">\n<table>\n<thead><tr><th scope=\"col\">"
		       "Commit</th>");
	for (uint32_t i = 0; i < history->track_count; i++) {
		if (strcmp(history->tracks[i].figure, figure) == 0) {
			text_add(page, "<th scope=\"col\">");
			text_add_escaped(page, history->tracks[i].name);
			text_add(page, "</th>");
		}
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
	for (uint32_t run = history->count; run-- > history->count - shown;) {
		text_add(page, "<tr><th scope=\"row\">");
		text_add_escaped(page, history->runs[run].commit);
		text_add(page, "<small>");
		text_add_escaped(page, history->runs[run].date);
		text_add(page, "</small></th>");
		for (uint32_t i = 0; i < history->track_count; i++) {
			if (strcmp(history->tracks[i].figure, figure) == 0) {
				add_run_value(
					page, &history->runs[run], history->tracks[i].name, figure);
			}
		}
		text_add(page, "</tr>\n");
	}
	page_rows_close(page);
	text_add(page, "</details>\n");
}

static void add_runs(struct text *page, const struct history_file *history)
{
	text_format(page,
		"<section id=\"runs\">\n<h2>Runs</h2>\n<p class=\"note\">The latest %d runs, the "
		"last one first, a table for each figure. The page's data (#quire-data) has "
		"all.</p>\n",
		SHOWN_RUNS_MAX);
	for (uint32_t i = 0; i < history->track_count; i++) {
		const char *figure = history->tracks[i].figure;
		if (history_figure_is_first(history, i)) {
			add_figure_runs(page, history, figure);
		}
	}
	text_add(page, "</section>\n");
}

/* ---- data ---- */

/* The lines of the file, under "history". */
static void add_end(
	struct text *page, const struct history_file *history, const char *path, const char *script)
{
	cJSON *lines = cJSON_CreateArray();

	for (uint32_t i = 0; i < history->count; i++) {
		cJSON_AddItemReferenceToArray(lines, history->runs[i].document.root);
	}
	page_close(page, path_name(path), "history", lines, NULL, script);
	cJSON_Delete(lines);
}

enum status page_history_write(struct text *page, const struct history_file *history,
	const char *path, const struct page_sheet *sheet, struct error *error)
{
	add_head(page, history, path, sheet->style);
	add_last(page, history);
	if (history->track_count == 0) {
		text_add(page,
			"<p class=\"note\">The runs recorded no figures, only verdicts: there "
			"is nothing to draw over commits.</p>\n");
	} else {
		add_changes(page, history);
		TRY(page_plots(page, sheet->plots, sheet->plot_count, error));
		add_levels(page, history);
		add_runs(page, history);
	}
	add_end(page, history, path, sheet->script);
	return STATUS_OK;
}
