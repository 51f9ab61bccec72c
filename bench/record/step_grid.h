#ifndef BENCH_RECORD_STEP_GRID_H
#define BENCH_RECORD_STEP_GRID_H

#include <stdint.h>

#include "engine/base/integer.h"
#include "engine/base/table.h"

/* Step times by what the step computed: decode rows against prefill tokens, each in ranges that are
   0, then [2^k, 2^(k+1)) with four ranges to an octave from 8 on. */

enum { STEP_GRID_RANGES = 112 };

struct step_grid_cell {
	uint64_t steps;
	u128 sum_ns;
	uint64_t max_ns;
};

struct step_grid {
	/* [decode rows][prefill tokens] */
	struct step_grid_cell cells[STEP_GRID_RANGES][STEP_GRID_RANGES];
};

void step_grid_add(
	struct step_grid *grid, uint64_t decode_rows, uint64_t prefill_tokens, uint64_t elapsed_ns);
void step_grid_write(const struct step_grid *grid, struct table_writer *table);

#endif
