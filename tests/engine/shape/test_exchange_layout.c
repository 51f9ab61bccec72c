#include <criterion/criterion.h>

#include "engine/shape/exchange_layout.h"
#include "tests/harness/require.h"

/* The parts follow each other without overlap, each with room for what the header says. */
static void check_layout(uint32_t ranks, uint32_t width, uint64_t tokens, uint64_t samples)
{
	struct exchange_layout layout = exchange_layout(ranks, width, tokens, samples);
	const uint64_t row = (uint64_t)width * 2;
	const uint64_t ends[] = {
		layout.partials + EXCHANGE_PARTIALS * tokens * row,
		layout.slots + EXCHANGE_SLOTS * ranks * layout.push_rows * row,
		layout.candidates + EXCHANGE_SLOTS * ranks * samples * 8,
		layout.flags + (uint64_t)ranks * EXCHANGE_BLOCKS_MAX * 8,
	};
	const uint64_t begins[] = {
		layout.partials, layout.slots, layout.candidates, layout.flags, layout.bytes};

	for (uint32_t i = 0; i < 4; i++) {
		require_equal(begins[i] % 256, 0);
		require(ends[i] <= begins[i + 1] && begins[i + 1] < ends[i] + 256,
			"%u ranks, width %u: part %u", ranks, width, i);
	}
	require_equal(layout.partials, 0);
	require(layout.push_rows <= tokens, "more rows than tokens");
	require(layout.push_rows * row <= EXCHANGE_PUSH_BYTES, "too many rows to push");
	require(layout.push_rows == tokens || (layout.push_rows + 1) * row > EXCHANGE_PUSH_BYTES,
		"too few rows to push");
}

Test(exchange_layout, parts_follow_each_other)
{
	const uint32_t widths[] = {8, 1024, 2560, 4096, 5120};

	for (uint32_t ranks = 1; ranks <= EXCHANGE_RANKS_MAX; ranks++) {
		for (uint32_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
			check_layout(ranks, widths[i], 16384, 512);
			check_layout(ranks, widths[i], 1, 1);
			check_layout(ranks, widths[i], 300, 7);
		}
	}
}
