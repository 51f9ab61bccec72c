#ifndef BENCH_GATE_GATE_H
#define BENCH_GATE_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/gate/judge.h"
#include "bench/gate/suite.h"
#include "engine/base/path.h"
#include "engine/base/status.h"

/* Runs every case of a suite and judges it, by a baseline folder or by another program that runs
   the same cases beside it. */

struct gate_request {
	const char *suite;
	const char *baseline; /* folder; NULL: SUITE without .json, and "-baseline" */
	const char *against;  /* another quire, which takes the baseline's place; NULL: none */
	bool against_itself;  /* the other program is this one */
	const char *out;      /* folder for the results */
	const char *only;     /* name of a case; NULL: all */
	uint32_t jobs;	      /* cases at once, unless they measure time */
	const char
		*recorded; /* folder of runs that an update takes for recorded cases; NULL: none */
	bool updates;	   /* write the baseline */
	bool adds;	   /* only of cases that the baseline lacks */
	bool keeps_steps;  /* with every step, as CASE.steps.tsv */
	bool shows_progress;
};

struct gate {
	const struct gate_request *request;
	struct suite suite;
	char program[PATH_BYTES_MAX];  /* this one */
	char baseline[PATH_BYTES_MAX]; /* its folder */
	struct gate_verdict *verdicts; /* (count) owned: of the cases, then of missing ones */
	uint32_t count, capacity;
	uint32_t done; /* cases shown as done */
	uint32_t counts[GATE_STATUS_COUNT];
	uint64_t elapsed_ns;
};

/* Reads the suite, and notes its traces and the programs as read (engine/base/input_file.h). To be
   closed after a failure too. */
enum status gate_open(struct gate *gate, const struct gate_request *request, struct error *error);

/* Notes what a run reads as read: a file, or every file of a folder. A path that is not there is
   ignored. */
void gate_note_input(const char *path);

/* Before hours of runs: refuses what the runs would write, and files that the caller will write,
   where they would replace what is read. paths: (count) NULL where nothing is written. */
enum status gate_check_outputs(
	const struct gate *gate, const char *const *paths, uint32_t count, struct error *error);

/* Results go to OUT/CASE, a further run's to OUT/CASE.2 and so on, those of the other program to
   OUT/CASE.base. */
enum status gate_run(struct gate *gate, struct error *error);
void gate_close(struct gate *gate);

#endif
