#ifndef BENCH_RECORD_SUMMARY_H
#define BENCH_RECORD_SUMMARY_H

#include <stdio.h>

#include "bench/record/run_outcome.h"
#include "engine/base/table.h"

struct cJSON;

/* Writes a run's outcome as summary.json. config: its section of that name, which is freed. A
   failed write is reported when the file is closed. */
void summary_write(const struct run_outcome *outcome, struct cJSON *config, FILE *file);

/* Says on stderr that the trace ended before the run was to, if it did. */
void summary_warn_of_end(const struct run_outcome *outcome);

/* One line on stderr where the KV blocks are more than the GPU that is priced has room for. A study
   may ask for them; a deployment cannot have them. gpu: its profile. */
void summary_warn_of_memory(const struct run_outcome *outcome, const char *gpu);

/* Says on stderr how many requests were rejected, why, and which option takes them; nothing if none
   was. */
void summary_warn_of_rejections(const struct run_outcome *outcome, uint64_t max_model_len);

/* Writes levels.tsv. */
void summary_write_levels(const struct run_outcome *outcome, struct table_writer *table);

/* Prints the outcome as a table on stdout. gpu: the name of the profile that priced the steps. */
void summary_print(const struct run_outcome *outcome, const char *gpu);

#endif
