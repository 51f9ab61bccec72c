#ifndef BENCH_RECORD_SUMMARY_H
#define BENCH_RECORD_SUMMARY_H

#include "bench/record/run_outcome.h"
#include "engine/base/status.h"

struct cJSON;

/* Writes a run's outcome as summary.json. config: its section of that name; freed also after a
   failure. */
enum status summary_write(const struct run_outcome *outcome, struct cJSON *config, const char *path,
	struct error *error);

/* Prints the outcome as a table on stdout. gpu: the name of the profile that priced the steps. */
void summary_print(const struct run_outcome *outcome, const char *gpu);

#endif
