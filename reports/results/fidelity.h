#ifndef REPORTS_RESULTS_FIDELITY_H
#define REPORTS_RESULTS_FIDELITY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/status.h"
#include "reports/results/result.h"
#include "reports/results/step_errors.h"

/* The errors of a simulated run relative to a real one of the same trace: (simulated - real) / real
   for every figure. The page and `quire compare --errors` show them.

   A run is real when its tokens were computed, and simulated when its steps were priced or recorded
   (result->runner_kind). Of two runs of one kind the first given counts as the real one, and
   is_recognised is false. */

struct fidelity {
	const struct result *real, *sim; /* borrowed */
	bool is_recognised;		 /* one is real, one simulated */
	bool has_steps;			 /* both folders have a steps.tsv */
	struct step_errors steps;
};

/* A figure of both runs. Its name is its path in summary.json ("latency_ms.ttft.p99"), or
   "step_ms.decode.mean" and the like for steps.tsv. */
struct fidelity_row {
	char name[64];
	const char *title;
	enum number_format format;
	struct result_value real, sim;
	struct result_value error; /* no value: a figure is missing, only the real one is 0, or the
				      error overflows */
};

enum { FIDELITY_ROWS_MAX = 64 };

bool fidelity_is_real(const struct result *result);

/* Whether one run is real and the other simulated, so that a page shows their errors. */
bool fidelity_is_pair(const struct result *first, const struct result *second);

/* Reads steps.tsv of both where they have one. Runs of different traces are refused, since they
   cannot be compared. Both results must outlive the fidelity. */
enum status fidelity_open(struct fidelity *fidelity, const struct result *first,
	const struct result *second, struct error *error);

/* rows: (FIDELITY_ROWS_MAX); returns how many there are, in the order of the table. */
uint32_t fidelity_rows(const struct fidelity *fidelity, struct fidelity_row *rows);

/* (value - base) / base; 0 if both are 0. Has no value if only base is 0 or the quotient overflows.
   */
struct result_value relative_error(double base, double value);

/* |sim - real| / real, the mean over the steps that did the same work and took time in the real
   run. */
struct result_value fidelity_step_error(const struct step_errors *steps);

/* The name in config of the index-th setting in which the two differ but should not; NULL past the
   last. Runner, profile, weights and the like are expected to differ. */
const char *fidelity_other_setting(const struct fidelity *fidelity, uint32_t index);

/* Whether a setting of config says what computes or prices the steps, so that a gate's simulation
   of recorded runs may differ in it. */
bool fidelity_is_of_runner(const char *field);

/* Tab-separated: metric, real, sim, error; `-` for a missing value. */
void fidelity_print(const struct fidelity *fidelity, FILE *out);

#endif
