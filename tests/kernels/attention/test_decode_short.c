/* Launches of decode attention that are not long: how soon all blocks end, by a model of a GPU that
   goes through the claims one by one. */

#include "engine/base/check.h"
#include "engine/shape/kernel_tiles.h"
#include "kernels/attention/decode_list.h"
#include "tests/harness/property.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>

/* As on an H200: the memory reads so many tokens a microsecond for a key/value head, a block at
   most its own part of them, and a row that is merged ends so much after its last split. */
enum { BLOCKS = 132, HEADS = 8, ROWS_MOST = 160, CLAIMS_MOST = ROWS_MOST * DECODE_LONG };
enum { AHEAD = 2 }; /* claims that a block has made beyond the one that it computes */
static const double memory_tokens = 9000, block_tokens = 130, merge_us = 3.3;

struct launch {
	uint32_t rows, contexts[ROWS_MOST], split_start[ROWS_MOST + 1];
	struct decode_claim claims[CLAIMS_MOST];
	uint32_t count;
};

static struct launch launch;

static uint32_t splits_of(uint32_t row)
{
	return launch.split_start[row + 1] - launch.split_start[row];
}

static uint32_t tokens_of(const struct decode_claim *claim)
{
	uint32_t begin = claim->index * DECODE_SPLIT, end = begin + claim->count * DECODE_SPLIT;

	return (end < launch.contexts[claim->row] ? end : launch.contexts[claim->row]) - begin;
}

/* What a block has made: its claims in order, which it computes one after the other. */
struct block {
	uint32_t claims[CLAIMS_MOST * HEADS / BLOCKS * 2 + DECODE_ASSIGNED_SHORT];
	uint32_t made, done;
	double left; /* tokens of the claim that it computes */
};

static struct block blocks[BLOCKS];

static void make_claims(struct block *block, uint32_t *next)
{
	uint32_t claims = launch.count * HEADS;

	while (block->made <= block->done + AHEAD && *next < claims) {
		block->claims[block->made++] = (*next)++;
	}
}

/* Begins the next claim of a block that has one. */
static bool begin_claim(struct block *block, uint32_t *next)
{
	make_claims(block, next);
	if (block->done == block->made) {
		return false;
	}
	block->left = tokens_of(&launch.claims[block->claims[block->done] / HEADS]);
	return true;
}

/* Goes from the end of one claim to that of the next; all blocks read equally fast. Returns the
   microseconds until the last row is there. */
static double launch_us(void)
{
	uint32_t next = DECODE_ASSIGNED_SHORT * BLOCKS, busy = 0;
	double now = 0, chains = 0, singles = 0, tokens = 0;

	for (uint32_t r = 0; r < launch.rows; r++) {
		tokens += (double)launch.contexts[r] * HEADS;
	}
	for (uint32_t b = 0; b < BLOCKS; b++) {
		blocks[b].made = blocks[b].done = 0;
		for (uint32_t i = 0; i < DECODE_ASSIGNED_SHORT; i++) {
			if (b + i * BLOCKS < launch.count * HEADS) {
				blocks[b].claims[blocks[b].made++] = b + i * BLOCKS;
			}
		}
		blocks[b].left = 0;
		busy += begin_claim(&blocks[b], &next);
	}
	while (busy > 0) {
		double speed = memory_tokens / busy, least = 1e9;
		speed = speed < block_tokens ? speed : block_tokens;
		for (uint32_t b = 0; b < BLOCKS; b++) {
			bool is_busy = blocks[b].done < blocks[b].made;
			least = is_busy && blocks[b].left < least ? blocks[b].left : least;
		}
		now += least / speed;
		for (uint32_t b = 0; b < BLOCKS; b++) {
			struct block *block = &blocks[b];
			if (block->done == block->made) {
				continue;
			}
			block->left -= least;
			if (block->left > 1e-9) {
				continue;
			}
			const struct decode_claim *claim =
				&launch.claims[block->claims[block->done] / HEADS];
			bool is_whole = claim->count == splits_of(claim->row);
			*(is_whole ? &chains : &singles) = now;
			block->done++;
			busy -= begin_claim(block, &next) ? 0 : 1;
		}
	}
	double part = tokens / (BLOCKS * DECODE_SPLIT);
	double merged = singles > 0 ? singles + merge_us * (part < 1 ? part : 1) : 0;
	return merged > chains ? merged : chains;
}

/* ---- lists ---- */

static void draw_rows(struct prop *prop)
{
	uint32_t kind = prop_below(prop, 4), all = prop_range(prop, 20, DECODE_LONG * DECODE_SPLIT);

	launch.rows =
		prop_chance(prop, 1, 2) ? prop_range(prop, 2, 24) : prop_range(prop, 2, ROWS_MOST);
	for (uint32_t r = 0; r < launch.rows; r++) {
		uint32_t context = kind == 0   ? all
				   : kind == 1 ? prop_range(prop, 1, all)
				   : kind == 2 ? prop_range(prop, (all + 1) / 2, all)
					       : (r % 4 == 0 ? all : 1 + all / 5);
		launch.contexts[r] = context;
		launch.split_start[r + 1] =
			launch.split_start[r] + (context + DECODE_SPLIT - 1) / DECODE_SPLIT;
	}
}

static void fill_list(void)
{
	static const uint32_t tables[1];
	static uint32_t table_rows[ROWS_MOST];
	struct decode_list list = {.shape = {.head_count = 2 * HEADS,
					   .kv_head_count = HEADS,
					   .head_dim = 128,
					   .block_size = 256},
		.path = KERNEL_PATH_SM90,
		.sharing = DECODE_SHARING_OFF,
		.block_count = BLOCKS,
		.row_capacity = ROWS_MOST};
	const struct decode_rows rows = {.tables = tables,
		.rows = table_rows,
		.contexts = launch.contexts,
		.split_start = launch.split_start,
		.row_count = launch.rows};
	struct decode_launch filled;

	decode_list_open(&list);
	launch.count = decode_list_fill(&list, &rows, launch.claims, 0, &filled);
	check(!filled.is_long);
	decode_list_close(&list);
}

/* The rows in order, each as a whole or in splits. */
static void fill_plainly(bool is_whole)
{
	launch.count = 0;
	for (uint32_t r = 0; r < launch.rows; r++) {
		uint32_t splits = splits_of(r);
		for (uint32_t i = 0; i < splits; i += is_whole ? splits : 1) {
			launch.claims[launch.count++] = (struct decode_claim){.row = r,
				.index = i & 0xffffff,
				.count = (is_whole ? splits : 1) & 0xff};
		}
	}
}

/* Of the launch's rows, by the planned list and by both plain ones. */
struct times {
	double planned, whole, splits;
	double bytes; /* what the memory takes at least */
};

static struct times times_of_launch(void)
{
	struct times times = {0};

	fill_list();
	times.planned = launch_us();
	fill_plainly(true);
	times.whole = launch_us();
	fill_plainly(false);
	times.splits = launch_us();
	for (uint32_t r = 0; r < launch.rows; r++) {
		times.bytes += (double)launch.contexts[r] * HEADS / memory_tokens;
	}
	return times;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* ---- tests ---- */

static void body_soon(struct prop *prop, const void *context)
{
	(void)context;
	draw_rows(prop);
	const struct times times = times_of_launch();
	double plain = smaller(times.whole, times.splits);
	prop_log(prop, "planned %.2f, whole %.2f, splits %.2f, bytes %.2f", times.planned,
		times.whole, times.splits, times.bytes);
	check(times.planned <= 1.1 * plain + merge_us);
	check(times.bytes < 30 || times.planned <= 1.1 * plain);
	check(times.bytes < 30 || times.planned <= 1.2 * times.bytes);
}

/* Nowhere much later than by the better of both plain ways, and with many tokens soon after the
   memory has read them. */
Test(decode_short, no_launch_ends_late)
{
	const struct prop_options options = {
		.name = "short launches", .body = body_soon, .trials = 400};

	cr_assert(prop_holds(&options));
}

/* Where one row more than all blocks hold at once would take as long as twice as many, and where
   rows are few and long. */
Test(decode_short, planned_launches_end_sooner)
{
	static const struct {
		uint32_t rows, context;
		double whole, splits; /* most of both plain ways */
	} cases[] = {{2, 2000, 0.6, 1.0}, {8, 600, 1.0, 0.8}, {12, 600, 1.0, 0.7},
		{16, 600, 1.0, 0.75}, {17, 600, 0.75, 0.7}, {20, 600, 0.8, 0.8},
		{20, 1200, 0.85, 0.9}, {24, 1200, 1.0, 0.95}, {40, 1200, 1.0, 1.0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		launch.rows = cases[i].rows;
		for (uint32_t r = 0; r < launch.rows; r++) {
			uint32_t splits = (cases[i].context + DECODE_SPLIT - 1) / DECODE_SPLIT;
			launch.contexts[r] = cases[i].context;
			launch.split_start[r + 1] = launch.split_start[r] + splits;
		}
		const struct times times = times_of_launch();
		cr_expect(times.planned <= cases[i].whole * times.whole * 1.001 &&
				  times.planned <= cases[i].splits * times.splits * 1.001,
			"%u rows of %u tokens: planned %.2f, whole %.2f, splits %.2f", launch.rows,
			cases[i].context, times.planned, times.whole, times.splits);
	}
}
