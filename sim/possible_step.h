#ifndef SIM_POSSIBLE_STEP_H
#define SIM_POSSIBLE_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"

/* What the counts of one step obey, whoever wrote them: the rows and tokens of a table decide what
   contexts, pairs and tiles can be. A count that tables may lack is not compared where it is 0. The
   means of the counts of several steps, rounded down, pass too where all have the same rows and
   tokens. */

struct step_fault {
	const char *count; /* its name in STEP_COUNT_LIST */
	uint64_t found;
	char expected[96];
};

/* False: the first count that the counts before it rule out. A step without rows is possible. */
bool step_is_possible(const struct step_counts *counts, struct step_fault *fault);

/* Of a table without prefill_shared_tokens, whose engine counted as shared_tokens, reread_tokens
   and repeat_tokens those of all running sequences. In a step of prompts alone they are given to
   these; beside decode rows it is not known whose they are, but no more than the rows' context is
   theirs. */
void step_give_shares_to_rows(struct step_counts *counts);

#endif
