#include "kernels/attention/decode_short.h"

#include "engine/base/integer.h"
#include "engine/shape/kernel_tiles.h"

/* Launches that are not long. Source: kernels/attention/TUNING.md, "Decode of 2 to 128 rows".
   READING_PART of 32 blocks read as fast as all of them, since a block reads at most so fast. While
   a row is merged the others read MERGE_BYTES, less in a launch of fewer than MERGE_FULL tokens a
   block. The result of a single is written and read, as many bytes for each query head as the keys
   and values of SINGLE_TOKENS. At most CUTS + 1 numbers of rows are tried as singles; more singles
   have to be worth one part of CUT_GAIN. */
enum {
	SINGLE_TOKENS = 2,
	READING_PART = 17,
	MERGE_BYTES = 15 << 20,
	MERGE_FULL = DECODE_SPLIT,
	CUTS = 8,
	CUT_GAIN = 64,
};

/* Orders the rows of a launch that have splits, longest first. Returns their number. */
static uint32_t order_rows(struct decode_list *list, const struct decode_rows *rows)
{
	uint32_t begin[DECODE_ALONE + 1] = {0}, count = 0;
	uint32_t end = rows->first_row + rows->row_count;

	for (uint32_t r = rows->first_row; r < end; r++) {
		begin[decode_splits_of(rows, r)]++;
	}
	for (uint32_t splits = DECODE_ALONE; splits > 0; splits--) {
		uint32_t equal = begin[splits];
		begin[splits] = count;
		count += equal;
	}
	for (uint32_t r = rows->first_row; r < end; r++) {
		uint32_t splits = decode_splits_of(rows, r);
		if (splits > 0) {
			list->order[begin[splits]++] = r;
		}
	}
	return count;
}

/* The tokens that each block reads if the first `cut` rows of list->order are singles and the
   others chains, as if claims went round. Returns those of the singles of a block that has most. */
static uint32_t fill_busy(
	struct decode_list *list, const struct decode_rows *rows, uint32_t cut, uint32_t row_count)
{
	const uint32_t *order = list->order;
	uint32_t blocks = list->block_count, heads = list->shape.kv_head_count;
	uint32_t group = list->shape.head_count / heads;
	uint64_t singles = 0, tokens = 0;

	for (uint32_t i = 0; i < cut; i++) {
		singles += (uint64_t)decode_splits_of(rows, order[i]) * heads;
		tokens += (uint64_t)rows->contexts[order[i]] * heads;
	}
	tokens += singles * SINGLE_TOKENS * group;
	uint64_t each = singles / blocks, divisor = u64_max(singles, 1);
	uint32_t at = (uint32_t)(singles % blocks);
	uint32_t least = (uint32_t)(each * tokens / divisor);
	uint32_t most = at == 0 ? least : (uint32_t)((each + 1) * tokens / divisor);
	if (each == 0 && at > 0) { /* one single is not the mean of several */
		most = u32_min(rows->contexts[order[0]], (uint32_t)DECODE_SPLIT);
	}
	for (uint32_t b = 0; b < blocks; b++) {
		list->busy[b] = b < at ? most : least;
	}
	for (uint32_t i = cut; i < row_count; i++) {
		for (uint32_t head = 0; head < heads; head++) {
			list->busy[at] += rows->contexts[order[i]];
			at = at + 1 == blocks ? 0 : at + 1;
		}
	}
	return most;
}

/* Blocks that read as fast as all. */
static uint32_t reading_blocks(const struct decode_list *list)
{
	return list->block_count * READING_PART / 32 + 1;
}

/* The tokens that a block has read when only reading_blocks() are still busy, to one of BINS / 2
   parts of those of the busiest. */
static uint32_t tokens_of_all(const struct decode_list *list, uint32_t busiest)
{
	enum { BINS = 128 };
	uint32_t bins[BINS] = {0}, shift = 0, bin = BINS, busy = 0;

	while (busiest >> shift >= BINS) {
		shift++;
	}
	for (uint32_t b = 0; b < list->block_count; b++) {
		bins[list->busy[b] >> shift]++;
	}
	while (bin > 0 && busy < reading_blocks(list)) {
		busy += bins[--bin];
	}
	return bin << shift;
}

/* When no block that is still busy has read fewer tokens: as many as all blocks together can read
   until then. The memory is busy up to `of_all` tokens of a block. */
static uint64_t time_of(const struct decode_list *list, uint32_t tokens, uint32_t of_all)
{
	uint32_t most = u32_min(tokens, of_all);
	uint64_t together = 0;

	for (uint32_t b = 0; b < list->block_count; b++) {
		together += u32_min(list->busy[b], most);
	}
	return together + (uint64_t)reading_blocks(list) * (tokens - most);
}

/* The time that merging takes behind the last single of a launch of so many tokens of all heads. */
static uint64_t merge_time(const struct decode_list *list, uint64_t tokens)
{
	uint64_t full = (uint64_t)list->block_count * MERGE_FULL;
	uint64_t token_bytes = 2 * (uint64_t)list->shape.head_dim * sizeof(uint16_t);

	return MERGE_BYTES / token_bytes * u64_min(tokens, full) / full;
}

/* The time of a launch in which the first `cut` rows of list->order are singles. */
static uint64_t launch_time(struct decode_list *list, const struct decode_rows *rows, uint32_t cut,
	uint32_t row_count, uint64_t tokens)
{
	uint32_t singles = fill_busy(list, rows, cut, row_count), busiest = 0;

	for (uint32_t b = 0; b < list->block_count; b++) {
		busiest = u32_max(busiest, list->busy[b]);
	}
	uint32_t of_all = tokens_of_all(list, busiest);
	uint64_t time = time_of(list, busiest, of_all);
	uint64_t merged = time_of(list, singles, of_all) + merge_time(list, tokens);
	return cut == 0 ? time : u64_max(time, merged);
}

/* Whether all claims behind `cut` rows of singles are made by blocks that are known. Else a block
   that is a little early gets two chains where others get none. */
static bool is_planned(const struct decode_list *list, const struct decode_rows *rows, uint32_t cut,
	uint32_t row_count)
{
	uint64_t claims = row_count - cut;

	for (uint32_t i = 0; i < cut; i++) {
		claims += decode_splits_of(rows, list->order[i]);
	}
	return cut == 0 || cut == row_count ||
	       claims * list->shape.kv_head_count <=
		       (uint64_t)DECODE_ASSIGNED_SHORT * list->block_count;
}

/* The number of rows, the longest, that are singles so that the launch ends soonest. */
static uint32_t rows_to_cut(
	struct decode_list *list, const struct decode_rows *rows, uint32_t row_count)
{
	uint64_t tokens = 0, least = UINT64_MAX;
	uint32_t best = 0;

	if (row_count == 0 || decode_splits_of(rows, list->order[0]) == 1) {
		return 0;
	}
	for (uint32_t i = 0; i < row_count; i++) {
		tokens += (uint64_t)rows->contexts[list->order[i]] * list->shape.kv_head_count;
	}
	uint32_t step = (row_count - 1) / CUTS + 1;
	for (uint32_t next = 0; next < row_count + step; next += step) {
		uint32_t cut = u32_min(next, row_count);
		if (!is_planned(list, rows, cut, row_count)) {
			continue;
		}
		uint64_t time = launch_time(list, rows, cut, row_count, tokens);
		if (time < least - least / CUT_GAIN) {
			least = time;
			best = cut;
		}
		if (least <= tokens + tokens / CUT_GAIN) {
			break; /* no launch is faster than its bytes */
		}
	}
	return best;
}

uint32_t decode_short_fill(struct decode_list *list, const struct decode_rows *rows,
	struct decode_claim *claims, uint32_t end)
{
	uint32_t row_count = order_rows(list, rows), cut = rows_to_cut(list, rows, row_count);

	for (uint32_t i = 0; i < row_count; i++) {
		uint32_t row = list->order[i], splits = decode_splits_of(rows, row);
		if (i >= cut) {
			claims[end++] = decode_claim_of(rows, row, 0, splits);
			continue;
		}
		for (uint32_t k = 0; k < splits; k++) {
			claims[end++] = decode_claim_of(rows, row, k, 1);
		}
	}
	return end;
}
