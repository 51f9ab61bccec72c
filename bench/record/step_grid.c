#include "bench/record/step_grid.h"

#include "engine/base/check.h"

/* Counts below 8 have a range each. Above, the two bits behind the leading one select a quarter of
   the octave. */
static uint32_t range_of(uint64_t count)
{
	if (count < 8) {
		return (uint32_t)count;
	}
	uint32_t octave = 63 - (uint32_t)__builtin_clzll(count);
	uint32_t range = 8 + (octave - 3) * 4 + (uint32_t)(count >> (octave - 2) & 3);
	return u32_min(range, STEP_GRID_RANGES - 1);
}

static uint64_t range_low(uint32_t range)
{
	if (range < 8) {
		return range;
	}
	uint32_t octave = 3 + (range - 8) / 4;
	return (UINT64_C(4) + (range - 8) % 4) << (octave - 2);
}

void step_grid_add(
	struct step_grid *grid, uint64_t decode_rows, uint64_t prefill_tokens, uint64_t elapsed_ns)
{
	struct step_grid_cell *cell = &grid->cells[range_of(decode_rows)][range_of(prefill_tokens)];

	cell->steps++;
	cell->sum_ns += elapsed_ns;
	cell->max_ns = u64_max(cell->max_ns, elapsed_ns);
}

void step_grid_write(const struct step_grid *grid, struct table_writer *table)
{
	for (uint32_t i = 0; i < STEP_GRID_RANGES; i++) {
		for (uint32_t j = 0; j < STEP_GRID_RANGES; j++) {
			const struct step_grid_cell *cell = &grid->cells[i][j];
			if (cell->steps == 0) {
				continue;
			}
			table_u64(table, range_low(i));
			table_u64(table, range_low(i + 1) - 1);
			table_u64(table, range_low(j));
			table_u64(table, range_low(j + 1) - 1);
			table_u64(table, cell->steps);
			table_u64(table, (uint64_t)(cell->sum_ns / cell->steps));
			table_u64(table, cell->max_ns);
			table_end_row(table);
		}
	}
}
