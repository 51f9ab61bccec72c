#ifndef REPORTS_RESULTS_STEP_ERRORS_H
#define REPORTS_RESULTS_STEP_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/step_record.h"

/* Compares the step times of two runs. Their steps.tsv are streamed side by side, so memory does
   not depend on their length. Runs with different step times decide differently sooner or later. So
   there are two comparisons: the means of each kind of step over the whole runs, and step by step
   over the leading steps that did the same work in both. */

/* By enum step_kind: names in fidelity.tsv, and titles. */
extern const char *const step_kind_names[STEP_KIND_COUNT];
extern const char *const step_kind_titles[STEP_KIND_COUNT];

struct step_sum {
	uint64_t count;
	double ns;
};

struct step_errors {
	struct step_sum real[STEP_KIND_COUNT], sim[STEP_KIND_COUNT];
	uint64_t same_steps;	      /* number of leading steps that did the same work in both */
	bool is_same_throughout;      /* same_steps are all steps of both runs */
	uint64_t same_timed_steps;    /* those whose real time is not 0 */
	double same_real_ns;	      /* sum of their real times */
	double same_sim_ns;	      /* sum of their simulated times */
	double same_error_sum;	      /* of |sim - real| / real over the timed ones */
	double same_error_by_time_ns; /* of |sim - real| over all of them */
};

/* Sets has_steps to false, and reads nothing, when a folder has no steps.tsv. */
enum status step_errors_read(struct step_errors *errors, const char *real, const char *sim,
	bool *has_steps, struct error *error);

#endif
