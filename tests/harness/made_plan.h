#ifndef TESTS_HARNESS_MADE_PLAN_H
#define TESTS_HARNESS_MADE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* Folders of `quire plan` and `quire sweep` that a test makes up. */

struct made_plan {
	uint32_t configurations;
	uint32_t loads;	     /* tried by the search, of each configuration */
	uint32_t replicates; /* of the sampling interval; 0: none was asked for */
	bool is_least;	     /* replicas are looked for, not load */
	bool is_unmet;	     /* no load passes */
	bool is_interrupted;
	bool has_cost;
	bool has_stretch; /* a load below the answer fails */
	bool is_calibrated;
	bool has_run_limits; /* on TTFT p95 and the mean queue of the run, and none of a request */
	const char *trace_name;
};

extern const struct made_plan made_plan_ordinary;

/* Makes FOLDER/NAME; its path is written to `path` (TEMPORARY_PATH_BYTES). */
void make_plan(const char *folder, const char *name, const struct made_plan *made, char *path);

struct made_sweep {
	uint32_t parameters; /* 1 to 5: kv-blocks, max-num-seqs, policy, model, block-size */
	uint32_t values;     /* of each but the policy; at most 8 */
	bool has_failures;   /* every seventh run failed, the last is missing */
	bool has_cache;
};

extern const struct made_sweep made_sweep_ordinary;

void make_sweep(const char *folder, const char *name, const struct made_sweep *made, char *path);

#endif
