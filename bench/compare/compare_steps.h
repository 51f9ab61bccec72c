#ifndef BENCH_COMPARE_COMPARE_STEPS_H
#define BENCH_COMPARE_COMPARE_STEPS_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Where two steps.tsv part. Tables are streamed side by side and cells compared as text, so length
   costs no memory. Columns are matched by name; those that one table lacks are left out. */

enum { STEP_CELL_BYTES = 32 };

/* The first row in which some column differs, and the leftmost such column of it. */
struct step_difference {
	bool is_there;
	uint64_t step;
	char column[STEP_CELL_BYTES];
	char a[STEP_CELL_BYTES], b[STEP_CELL_BYTES];
};

struct step_comparison {
	uint64_t step_count;		 /* rows that both have */
	bool a_is_longer, b_is_longer;	 /* one has rows beyond the other's end */
	struct step_difference decision; /* of the counts, but for waiting */
	struct step_difference other;	 /* of times, mode and waiting */
};

/* has_same_pool: both runs had as many KV blocks. If not, free_blocks and cached_free_blocks differ
   without a decision. A row that is no row of its header is a STATUS_INPUT with file and line.
   Reading stops at the first decision that differs: what follows would differ anyway. */
enum status compare_steps(const char *a_path, const char *b_path, bool has_same_pool,
	struct step_comparison *out, struct error *error);

#endif
