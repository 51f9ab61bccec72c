#ifndef ENGINE_STEP_RECORD_H
#define ENGINE_STEP_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"
#include "engine/runner.h"

/* A step as it is recorded, for all who write, play, compare or price steps: the columns of
   steps.tsv and the kinds of steps. */

/* The columns of steps.tsv in order: FIRST(step), then X(column) for each of the others. Times are
   integer nanoseconds, mode is a step_mode_name(), all others are counts. */
#define STEP_COLUMN_LIST(FIRST, X)                                                                 \
	FIRST(step) /* from 0, without gaps */                                                     \
	X(start_ns) X(elapsed_ns) X(gpu_ns) X(host_ns) X(mode) STEP_COUNT_LIST(X)

enum step_column {
#define STEP_COLUMN_ENUM(column) STEP_COLUMN_##column,
	STEP_COLUMN_LIST(STEP_COLUMN_ENUM, STEP_COLUMN_ENUM)
#undef STEP_COLUMN_ENUM
		STEP_COLUMN_COUNT,
	STEP_COLUMN_FIRST_COUNT = STEP_COLUMN_mode + 1 /* of STEP_COUNT_LIST */
};

extern const char *const step_column_names[STEP_COLUMN_COUNT];

/* The header line of steps.tsv. */
#define STEP_COLUMN_FIRST_TEXT(column) #column
#define STEP_COLUMN_TEXT(column) "\t" #column
#define STEP_COLUMNS STEP_COLUMN_LIST(STEP_COLUMN_FIRST_TEXT, STEP_COLUMN_TEXT)

/* The column behind them in runs of several replicas, whose steps are counted by replica. */
#define STEP_REPLICA_COLUMN "replica"

/* The counts of a step by index, in the order of STEP_COUNT_LIST; values:
   (STEP_COLUMN_COUNT - STEP_COLUMN_FIRST_COUNT). */
void step_count_values(const struct step_counts *counts, uint64_t *values);

/* none, eager, graph. The second returns false for other names. */
const char *step_mode_name(enum step_mode mode);
bool step_mode_find(const char *name, enum step_mode *mode);

/* A step by its rows: only decode rows, only prefill rows, or both. A step without rows counts as
   decode. */
enum step_kind { STEP_DECODE, STEP_PREFILL, STEP_MIXED, STEP_KIND_COUNT };

enum step_kind step_kind_of(const struct step_counts *counts);
const char *step_kind_name(enum step_kind kind); /* decode, prefill, mixed */

#endif
