#ifndef REPORTS_RESULTS_FIDELITY_H
#define REPORTS_RESULTS_FIDELITY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/status.h"
#include "reports/results/result.h"
#include "reports/results/step_errors.h"

/* How far a simulated run is from a real one of the same trace: the error of every figure, which is
   (simulated - real) / real. The page and `quire compare --errors` show what stands here.

   A run is real when its tokens were computed, and simulated when its steps were priced or recorded
   (result->runner_kind). Of two runs of one kind the first given is taken for the real one,
   and is_recognised is false. */

struct fidelity {
	const struct result *real, *sim; /* borrowed */
	bool is_recognised;		 /* one is real, one simulated */
	bool has_steps;			 /* both folders have a steps.tsv */
	struct step_errors steps;
};

/* A figure of both: of summary.json by its path ("latency_ms.ttft.p99"), of steps.tsv as
   "step_ms.decode.mean". */
struct fidelity_row {
	char name[64];
	const char *title;
	enum number_format format;
	struct result_value real, sim;
	struct result_value error; /* none: a figure is missing, the real one is 0 and the other is
				      not, or the error is more than a number can hold */
};

enum { FIDELITY_ROWS_MAX = 64 };

bool fidelity_is_real(const struct result *result);

/* Are they one real and one simulated run? Then a page shows how far they are apart. */
bool fidelity_is_pair(const struct result *first, const struct result *second);

/* Reads steps.tsv of both where they have one. Runs of different traces are refused: nothing of
   them can be compared. Both results must outlive the fidelity. */
enum status fidelity_open(struct fidelity *fidelity, const struct result *first,
	const struct result *second, struct error *error);

/* rows: (FIDELITY_ROWS_MAX); returns how many there are, in the order of the table. */
uint32_t fidelity_rows(const struct fidelity *fidelity, struct fidelity_row *rows);

/* (value - base) / base; 0 where both are 0. Has no value where base alone is 0, or too small to
   divide by. */
struct result_value relative_error(double base, double value);

/* |sim - real| / real, the mean over the steps that did the same work and took time in the real
   run. */
struct result_value fidelity_step_error(const struct step_errors *steps);

/* The setting `index` by which the two differ though they should not, as a field of config; NULL
   past the last. Runner, profile, weights and the like differ by nature. */
const char *fidelity_other_setting(const struct fidelity *fidelity, uint32_t index);

/* Tab-separated: metric, real, sim, error; `-` where there is none. */
void fidelity_print(const struct fidelity *fidelity, FILE *out);

#endif
