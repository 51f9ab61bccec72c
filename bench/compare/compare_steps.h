#ifndef BENCH_COMPARE_COMPARE_STEPS_H
#define BENCH_COMPARE_COMPARE_STEPS_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Finds where two steps.tsv diverge. Tables are streamed side by side and cells compared as text,
   so memory does not depend on their length. Columns are matched by name; columns that only one
   table has are ignored. */

enum { STEP_CELL_BYTES = 32 };

/* The first row in which a column differs, and its leftmost differing column. */
struct step_difference {
	bool is_there;
	uint64_t step;
	char column[STEP_CELL_BYTES];
	char a[STEP_CELL_BYTES], b[STEP_CELL_BYTES];
};

struct step_comparison {
	uint64_t step_count;		 /* rows that both tables have */
	bool a_is_longer, b_is_longer;	 /* one has rows beyond the other's end */
	struct step_difference decision; /* in the counts except waiting */
	struct step_difference other;	 /* in times, mode and waiting */
};

/* Whether a column of steps.tsv shows only decisions of the engine. `waiting` does not, since it
   depends on how far a replay has read ahead, nor do the free blocks, unless has_same_pool, since
   they depend on the pool's size. prefill_context_tokens, prefill_half_chain_keys and the counts of
   shared blocks do not either: they follow from the rows and blocks that the other counts tell
   apart. */
bool step_column_is_decision(const char *name, bool has_same_pool);

/* has_same_pool: both runs had the same number of KV blocks. If not, free_blocks and
   cached_free_blocks may differ although all decisions are equal. A row that does not match its
   header, or has a cell that is no integer where it must be one, is a STATUS_INPUT with file and
   line. Reading stops at the first decision that differs,
   since all later ones may differ because of it. */
enum status compare_steps(const char *a_path, const char *b_path, bool has_same_pool,
	struct step_comparison *out, struct error *error);

#endif
