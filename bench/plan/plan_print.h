#ifndef BENCH_PLAN_PLAN_PRINT_H
#define BENCH_PLAN_PLAN_PRINT_H

#include "bench/plan/answer.h"
#include "engine/base/text.h"

/* Appends the answer for a reader: the sentence first, then the loads around it, and the
   configurations where there are several. */
void plan_print(struct text *text, const struct answers *answers);

/* One line on stderr for each configuration with more KV blocks than the GPU's memory has room for.
   */
void plan_warn_of_memory(const struct plan *plan);

/* Likewise one line for the first that takes longer requests than its model was made for. */
void plan_note_positions(const struct plan *plan);

#endif
