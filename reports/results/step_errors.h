#ifndef REPORTS_RESULTS_STEP_ERRORS_H
#define REPORTS_RESULTS_STEP_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/step_record.h"

/* The step times of two runs compared, read from their steps.tsv side by side; length costs no
   memory. Runs whose steps take other times decide differently sooner or later, so there
   are two comparisons: the means of each kind of step over the whole runs, and step by step over
   the steps from the first on that did the same work in both. */

/* By enum step_kind: as in fidelity.tsv, and in words. */
extern const char *const step_kind_names[STEP_KIND_COUNT];
extern const char *const step_kind_titles[STEP_KIND_COUNT];

struct step_sum {
	uint64_t count;
	double ns;
};

struct step_errors {
	struct step_sum real[STEP_KIND_COUNT], sim[STEP_KIND_COUNT];
	uint64_t same_steps;	      /* from the first on, of the same work */
	bool is_same_throughout;      /* these are all steps of both */
	uint64_t same_timed_steps;    /* those of them whose real time is not 0 */
	double same_real_ns;	      /* sum over them */
	double same_sim_ns;	      /* likewise */
	double same_error_sum;	      /* of |sim - real| / real over the timed ones */
	double same_error_by_time_ns; /* of |sim - real| over all of them */
};

/* has_steps is false, and nothing read, when a folder has no steps.tsv. */
enum status step_errors_read(struct step_errors *errors, const char *real, const char *sim,
	bool *has_steps, struct error *error);

#endif
