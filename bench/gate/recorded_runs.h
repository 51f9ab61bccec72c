#ifndef BENCH_GATE_RECORDED_RUNS_H
#define BENCH_GATE_RECORDED_RUNS_H

#include "bench/gate/evidence.h"
#include "engine/base/status.h"

/* Results that were made elsewhere: FOLDER/CASE, FOLDER/CASE.2, FOLDER/CASE.3, ... */

/* Adds all of a case to its evidence. Refuses, with the file: a number that is missing below the
   highest, and requests.tsv or steps.tsv with other rows than its summary.json counts, as a copy
   that was cut short has them. Either all runs have a steps.tsv or none has. */
enum status recorded_runs_add(
	struct evidence *evidence, const char *folder, const char *name, struct error *error);

#endif
