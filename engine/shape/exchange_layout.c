#include "engine/shape/exchange_layout.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"

enum { ALIGNMENT = 256, BF16_BYTES = 2, WORD_BYTES = 8 };

/* Reserves bytes behind all that is reserved, and returns their offset. */
static uint64_t reserve(struct exchange_layout *layout, uint64_t bytes)
{
	uint64_t offset = layout->bytes;

	layout->bytes += u64_divide_up(bytes, ALIGNMENT) * ALIGNMENT;
	return offset;
}

struct exchange_layout exchange_layout(
	uint32_t ranks, uint32_t width, uint64_t tokens, uint64_t samples)
{
	struct exchange_layout layout = {
		.ranks = ranks,
		.width = width,
		.tokens = u32_from(tokens),
		.samples = u32_from(samples),
	};
	uint64_t row_bytes = (uint64_t)width * BF16_BYTES;

	check(ranks >= 1);
	check(ranks <= EXCHANGE_RANKS_MAX);
	check(width > 0);
	check(width % 8 == 0);
	check(width <= EXCHANGE_WIDTH_MAX);
	layout.push_rows = u32_from(u64_min(tokens, EXCHANGE_PUSH_BYTES / row_bytes));
	layout.partials = reserve(&layout, EXCHANGE_PARTIALS * tokens * row_bytes);
	layout.slots =
		reserve(&layout, (uint64_t)EXCHANGE_SLOTS * ranks * layout.push_rows * row_bytes);
	layout.candidates =
		reserve(&layout, (uint64_t)EXCHANGE_SLOTS * ranks * samples * WORD_BYTES);
	layout.flags = reserve(&layout, (uint64_t)ranks * EXCHANGE_BLOCKS_MAX * WORD_BYTES);
	return layout;
}
