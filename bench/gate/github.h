#ifndef BENCH_GATE_GITHUB_H
#define BENCH_GATE_GITHUB_H

#include <stdbool.h>

#include "bench/gate/gate.h"
#include "engine/base/status.h"

/* GitHub's machines tell a program by its environment where verdicts are shown. */

/* Whether the program runs on one: GITHUB_ACTIONS is true. */
bool gate_is_on_github(void);

/* The file of the step's summary, GITHUB_STEP_SUMMARY; NULL: there is none. */
const char *gate_summary_path(void);

/* Adds the verdicts to the summary of the step behind what stands there.
   Without a summary nothing is done. */
enum status gate_add_to_summary(const struct gate *gate, struct error *error);

#endif
