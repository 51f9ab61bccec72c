#include "reports/report_files.h"

#include "engine/base/memory.h"
#include "reports/page/page.h"
#include "reports/results/history_file.h"
#include "reports/sheet.h"

#include <stdlib.h>
#include <string.h>

enum {
	PANELS_MAX = 24,  /* more would make a page of one figure */
	TICS_MAX = 4,	  /* commits that fit below a panel */
	COMMIT_SHOWN = 7, /* as git abbreviates them */
	POINTS_MAX = 200, /* with more runs no points are drawn, only lines */
};

/* The first bytes of a commit, without what gnuplot takes for a quoted cell or a format. */
static void shorten(char shown[COMMIT_SHOWN + 1], const char *commit)
{
	snprintf(shown, COMMIT_SHOWN + 1, "%s", commit);
	text_make_printable(shown);
	for (char *at = shown; *at != '\0'; at++) {
		*at = *at == '"' || *at == '%' ? '?' : *at;
	}
}

static void set_runs(struct plot *plot, const struct history_file *history)
{
	uint32_t tics = history->count < TICS_MAX ? history->count : TICS_MAX;
	char variable[32], commit[COMMIT_SHOWN + 1];

	plot_set_number(plot, "run_total", history->count);
	plot_set_number(plot, "tic_total", tics);
	for (uint32_t i = 0; i < tics; i++) {
		uint32_t run = tics == 1 ? 0 : i * (history->count - 1) / (tics - 1);
		shorten(commit, history->runs[run].commit);
		plot_set_text_at(plot, "tic_text", i + 1, commit);
		snprintf(variable, sizeof(variable), "tic_at_%u", i + 1);
		plot_set_number(plot, variable, run + 1);
	}
}

/* "chat: 81.2 ms in the last run; 2 changes of level, the last since 1a2b3c4: 80.1 ms to 81.2 ms,
   worse." A case that the last run lacks: "in its last run, 1a2b3c4 (2026-11-22T09:10:46Z)". */
static void describe(
	struct text *out, const struct history_file *history, const struct history_track *track)
{
	enum number_format format = history_figure_of(track->figure).format;
	uint32_t last = track->level_count - 1;

	text_add(out, track->name);
	text_add(out, ": ");
	text_add_number(out, format, true, track->values[track->count - 1]);
	if (history_is_of_last_run(history, track)) {
		text_add(out, " in the last run; ");
	} else {
		const struct history_run *run = &history->runs[track->runs[track->count - 1]];
		text_format(out, " in its last run, %s (%s); ", run->commit, run->date);
	}
	if (last == 0) {
		text_add(out, "one level in ");
		text_add_count(out, track->count, "run.", "runs.");
		return;
	}
	int better = history_level_is_better(track, last);
	text_add_count(
		out, last, "change of level, the last since ", "changes of level, the last since ");
	text_add(out, history->runs[history_level_run(track, last)].commit);
	text_add(out, ": ");
	text_add_number(out, format, true, history_level_mean(track, last - 1));
	text_add(out, " to ");
	text_add_number(out, format, true, history_level_mean(track, last));
	text_add(out, better < 0 ? ", worse." : better > 0 ? ", better." : ".");
}

/* Ends in a blank line, which ends the curve of the level. */
static void fill_level(struct plot *plot, const struct history_file *history,
	const struct history_track *track, uint32_t panel, uint32_t level)
{
	struct history_figure figure = history_figure_of(track->figure);
	double mean = plot_value(figure.format, figure.unit, history_level_mean(track, level));
	uint32_t first = history_level_run(track, level);
	uint32_t end = track->runs[track->starts[level + 1] - 1];
	int better = level == 0 ? 0 : history_level_is_better(track, level);
	char commit[COMMIT_SHOWN + 1];

	shorten(commit, history->runs[first].commit);
	fprintf(plot->table, "%u\t%.1f\tNaN\t%.9g\t0\t-\n", panel, first + 0.5, mean);
	fprintf(plot->table, "%u\t%.1f\tNaN\t%.9g\t0\t-\n", panel, end + 1.5, mean);
	fprintf(plot->table, "%u\t%u\tNaN\tNaN\t%d\t%s\n\n", panel, first + 1,
		level == 0    ? 0
		: better == 0 ? 2
			      : better,
		level == 0 ? "-" : commit);
}

/* Whether a line through the neighbours of a value goes through it too, since all are equal. */
static bool is_between_equals(const struct history_track *track, uint32_t index)
{
	if (index == 0 || index + 1 == track->count) {
		return false;
	}
	const double *at = &track->values[index];
	return !(at[-1] < at[0] || at[-1] > at[0] || at[1] < at[0] || at[1] > at[0]);
}

static void fill_panel(struct plot *plot, const struct history_file *history,
	const struct history_track *track, uint32_t panel)
{
	struct history_figure figure = history_figure_of(track->figure);
	struct text text = {0};

	describe(&text, history, track);
	plot_set_text_at(plot, "panel_name", panel, track->name);
	plot_set_text_at(plot, "panel_text", panel, text.bytes);
	text_deinit(&text);
	for (uint32_t i = 0; i < track->count; i++) {
		if (history->count <= POINTS_MAX || !is_between_equals(track, i)) {
			fprintf(plot->table, "%u\t%u\t%.9g\tNaN\t0\t-\n", panel, track->runs[i] + 1,
				plot_value(figure.format, figure.unit, track->values[i]));
		}
	}
	for (uint32_t level = 0; level < track->level_count; level++) {
		fill_level(plot, history, track, panel, level);
	}
}

/* Cases whose level has changed come first, since there may be more than panels. */
static void fill(struct plot *plot, const struct history_file *history, const char *figure)
{
	uint32_t panel = 0;

	set_runs(plot, history);
	plot_set_text(plot, "kind", plot_kind(history_figure_of(figure).format));
	fprintf(plot->table, "panel\trun\tvalue\tlevel\tmark\tcommit\n");
	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < history->track_count && panel < PANELS_MAX; i++) {
			const struct history_track *track = &history->tracks[i];
			bool is_now = (track->level_count > 1) == (pass == 0);
			if (is_now && strcmp(track->figure, figure) == 0) {
				fill_panel(plot, history, track, ++panel);
			}
		}
	}
	plot_set_number(plot, "panel_total", panel);
}

/* The cases that have a figure: a panel each. */
static uint32_t panels_of(const struct history_file *history, const char *figure)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < history->track_count; i++) {
		count += strcmp(history->tracks[i].figure, figure) == 0;
	}
	return count;
}

static enum status add_plots(struct sheet *sheet, const struct history_file *history,
	char names[SHEET_PLOTS_MAX][16], struct error *error)
{
	struct plot *plot;

	for (uint32_t i = 0; i < history->track_count && sheet->count < SHEET_PLOTS_MAX; i++) {
		const char *figure = history->tracks[i].figure;
		if (!history_figure_is_first(history, i)) {
			continue;
		}
		char *name = names[sheet->count];
		snprintf(name, 16, "history-%u", sheet->count + 1);
		const struct page_plot shown = {.name = name,
			.title = history_figure_of(figure).title,
			.reading = "A panel for each case (at most 24, those that changed first); "
				   "a point is a run, the oldest left. The broad line is the mean "
				   "of a level. A dotted line is a commit since which the level "
				   "is another: red worse, green better. A run that lacks the "
				   "case, or is INVALID for it, has no point. Each panel has its "
				   "own scale, which need not begin at 0.",
			.is_wide = panels_of(history, figure) > 1};
		TRY(sheet_add(sheet, &shown, "history.gp", &plot, error));
		fill(plot, history, figure);
	}
	return sheet_draw(sheet, error);
}

static enum status write_page(const struct history_file *history, const char *path,
	struct text *page, struct error *error)
{
	const struct json_object none = {.node = NULL};
	char names[SHEET_PLOTS_MAX][16];

	if (history->count == 0) {
		return error_set(error, STATUS_INPUT,
			"%.400s: found no line, expected those of quire gate --history", path);
	}
	struct sheet *sheet = memory_take(1, sizeof(*sheet));
	enum status status = add_plots(sheet, history, names, error);
	if (status == STATUS_OK) {
		struct page_sheet parts = sheet_page(sheet, &none);
		status = page_history_write(page, history, path, &parts, error);
	}
	sheet_close(sheet);
	free(sheet);
	return status;
}

/* A file of any kind is taken for a history; who gave another is told what a page is made of. */
static enum status tell_what_is_taken(struct error *error)
{
	const struct error found = *error;

	return error_set(error, found.status,
		"%.600s; quire report takes folders of quire replay, plan and sweep, or one file "
		"of quire gate --history",
		found.text);
}

enum status report_history(const char *path, struct text *page, struct error *error)
{
	struct history_file history;
	enum status status = history_file_open(&history, path, error);

	if (status == STATUS_OK) {
		status = write_page(&history, path, page, error);
	} else if (status == STATUS_INPUT && history.line_count == 1) {
		status = tell_what_is_taken(error);
	}
	history_file_close(&history);
	return status;
}
