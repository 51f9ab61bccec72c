#ifndef REPORTS_RESULTS_HISTORY_FILE_H
#define REPORTS_RESULTS_HISTORY_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/path.h"
#include "engine/base/status.h"
#include "engine/base/text.h"
#include "reports/results/change_points.h"
#include "reports/results/gate_words.h"

/* The file that `quire gate --history FILE` adds a line to: a JSON object a run of a suite, the
   oldest first. This is the contract between the gate and the page.

       {"commit": "1a2b3c4", "date": "2026-11-22T09:10:46Z",
        "cases": {"chat": {"verdict": "PASS", "figures": {"ttft.p99": 81.2}}}}

   A verdict is a word of GATE_STATUS_LIST. Figures are metrics by the names of metric.h, in their
   units, and costs of GATE_COST_LIST; null where a run has no such figure. Other fields are
   skipped. A run need not have every case. Where a case is INVALID its settings are not the
   baseline's: such figures are in no track.

   The latest HISTORY_RUNS_MAX lines are kept, all are checked. Limits: a line of
   HISTORY_LINE_BYTES_MAX, numbers of at most HISTORY_NUMBER_MAX in size. */

enum { HISTORY_RUNS_MAX = CHANGE_POINT_SERIES_MAX, HISTORY_LINE_BYTES_MAX = 1 << 20 };
#define HISTORY_NUMBER_MAX 1e18

struct history_run {
	struct json_document document; /* owned */
	const char *commit, *date;     /* the document's */
	const cJSON *cases;
};

/* One figure of one case over the runs that have it and are not INVALID. Levels are the stretches
   between the points of change_points.h. */
struct history_track {
	const char *name, *figure; /* of the case; a run's */
	uint32_t count;		   /* >= 1 */
	double *values;		   /* (count) */
	uint32_t *runs;		   /* (count) ascending */
	uint32_t level_count;	   /* >= 1 */
	uint32_t *starts; /* (level_count + 1) where in values a level begins; ends in count */
};

struct history_case {
	const char *name; /* a run's */
	uint32_t run;	  /* the last one that has the case */
};

struct history_file {
	struct history_run *runs; /* (count) owned, the oldest first */
	uint32_t count;
	uint64_t line_count; /* of the file, those before the latest ones too */
	struct history_case
		*cases; /* (case_count) owned: all, by their last runs, the latest first,
				       then in the run's order */
	uint32_t case_count;
	/* (track_count) owned: in the order of cases, each number of the last run that has figures
	   of the case and is not INVALID */
	struct history_track *tracks;
	uint32_t track_count;
};

/* Closed by the caller after a failure too. A file without a line is a history of no run. */
enum status history_file_open(struct history_file *out, const char *path, struct error *error);
void history_file_close(struct history_file *history);

/* The verdict of a case in a run; GATE_STATUS_COUNT: the run lacks the case. */
enum gate_status history_verdict(const struct history_run *run, const char *name);

/* Whether a track's last value is of the last run. */
bool history_is_of_last_run(const struct history_file *history, const struct history_track *track);

/* The mean of a level. */
double history_level_mean(const struct history_track *track, uint32_t level);

/* The run with which a level begins. */
uint32_t history_level_run(const struct history_track *track, uint32_t level);

/* 1: a level is better than the one before it, -1: worse, 0: neither, or the same. level >= 1. */
int history_level_is_better(const struct history_track *track, uint32_t level);

/* Whether no earlier track is of the same figure. */
bool history_figure_is_first(const struct history_file *history, uint32_t track);

/* What a figure is called and how it is written: a metric or a cost. Another name is itself, and
   more of it neither better nor worse. */
struct history_figure {
	const char *title, *unit;
	enum number_format format;
	int better; /* 1: more, -1: less, 0: neither */
};

struct history_figure history_figure_of(const char *name);

#endif
