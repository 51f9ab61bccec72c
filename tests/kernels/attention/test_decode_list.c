/* The work lists of decode attention against what they have to cover: every split of every row
   once, and a split together with others exactly where all its blocks are equal. */

#include "kernels/attention/decode_list.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/shape/kernel_tiles.h"
#include "sim/operation_prices.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 40, WIDTH_MAX = 128, SPLITS_MAX = 48, POOL = ROWS_MAX * WIDTH_MAX };

/* Sequences, with what their lists claim of them. */
struct scene {
	struct decode_list list;
	uint32_t tables[ROWS_MAX * WIDTH_MAX], rows[ROWS_MAX], contexts[ROWS_MAX];
	uint32_t split_start[ROWS_MAX + 1];
	uint32_t row_count;
	bool may_share;
	struct decode_claim claims[2 * ROWS_MAX * SPLITS_MAX];
	uint8_t covered[ROWS_MAX][SPLITS_MAX]; /* times */
	bool is_read_together[ROWS_MAX][SPLITS_MAX];
	uint8_t readings[ROWS_MAX][SPLITS_MAX]; /* of the first holder's split, for all holders */
};

static struct scene scene;

static const uint32_t *table_of(uint32_t row)
{
	return scene.tables + (size_t)scene.rows[row] * scene.list.shape.table_width;
}

/* Each sequence has blocks of its own behind the first ones of an earlier one, and sometimes one of
   an earlier one among them. */
static void draw_tables(struct prop *prop)
{
	uint32_t width = scene.list.shape.table_width, size = scene.list.shape.block_size;

	for (uint32_t r = 0; r < scene.row_count; r++) {
		uint32_t *table = scene.tables + (size_t)(scene.row_count - 1 - r) * width;
		scene.rows[r] = scene.row_count - 1 - r;
		scene.contexts[r] = prop_range(prop, 1, width * size);
		for (uint32_t i = 0; i < width; i++) {
			table[i] = r * width + i;
		}
		if (r > 0 && prop_chance(prop, 3, 4)) {
			uint32_t other = prop_range(prop, 0, r - 1);
			uint32_t count = prop_range(prop, 0, width);
			memcpy(table, table_of(other), count * sizeof(*table));
			uint32_t extra = prop_range(prop, 0, width - 1);
			table[extra] = table_of(other)[extra];
		}
		scene.split_start[r + 1] =
			scene.split_start[r] +
			(scene.contexts[r] + DECODE_SPLIT - 1) / (uint32_t)DECODE_SPLIT;
	}
}

static bool is_same(uint32_t a, uint32_t b, uint32_t split)
{
	uint32_t size = scene.list.shape.block_size, end = (split + 1) * DECODE_SPLIT;

	if (end >= scene.contexts[a] || end >= scene.contexts[b]) {
		return false;
	}
	for (uint32_t i = split * DECODE_SPLIT / size; i <= (end - 1) / size; i++) {
		if (table_of(a)[i] != table_of(b)[i]) {
			return false;
		}
	}
	return true;
}

/* The first row that holds the last block of a row's split. */
static uint32_t first_holder(uint32_t first, uint32_t row, uint32_t split)
{
	uint32_t end = (split + 1) * DECODE_SPLIT;
	uint32_t block = (end - 1) / scene.list.shape.block_size;

	while (end >= scene.contexts[first] || table_of(first)[block] != table_of(row)[block]) {
		first++;
	}
	return first;
}

/* Whether a row has to read its split together with others of rows [first, end). */
static bool is_shared(uint32_t first, uint32_t end, uint32_t row, uint32_t split)
{
	bool is_shared = false;

	if (scene.list.sharing == DECODE_SHARING_OFF || !scene.may_share ||
		(split + 1) * DECODE_SPLIT >= scene.contexts[row]) {
		return false;
	}
	uint32_t holder = first_holder(first, row, split);
	for (uint32_t o = first; o < end; o++) {
		is_shared |=
			o != holder && (row == holder || o == row) && is_same(holder, o, split);
	}
	return is_shared;
}

static void cover(uint32_t row, uint32_t split, bool is_together)
{
	check(row < scene.row_count && split < SPLITS_MAX);
	check(split < scene.split_start[row + 1] - scene.split_start[row]);
	scene.covered[row][split]++;
	scene.is_read_together[row][split] = is_together;
}

/* left: splits of the shared claims from this one on. A claim takes several while there are two
   like it for each block. */
static void take_shared(const struct decode_launch *launch, const struct decode_claim *claim,
	uint32_t left, uint32_t first)
{
	const uint32_t *readers = (const uint32_t *)scene.claims + launch->readers + claim->row;
	uint32_t group = scene.list.shape.head_count / scene.list.shape.kv_head_count;
	uint32_t count = claim->context, warps = (count + 8 / group - 1) / (8 / group);

	check(count >= 1 && count <= decode_readers(scene.list.shape.head_count,
					     scene.list.shape.kv_head_count));
	check(claim->count * warps <= DECODE_COLUMN_BLOCKS);
	check(claim->count == 1 ||
		claim->count * 2 * scene.list.block_count <= left * scene.list.shape.kv_head_count);
	check(claim->table_row == scene.rows[readers[0]]);
	for (uint32_t k = claim->index; k < claim->index + claim->count; k++) {
		scene.readings[first_holder(first, readers[0], k)][k]++;
		for (uint32_t i = 0; i < count; i++) {
			check(i == 0 || readers[i] > readers[i - 1]);
			check(i == 0 || is_same(readers[0], readers[i], k));
			cover(readers[i], k, true);
		}
	}
}

/* A split that several rows hold is read for decode_readers() of them at a time, and no more often:
   so repeat_tokens of a step count it. */
static void require_least_readings(uint32_t first, uint32_t end, uint32_t row, uint32_t split)
{
	uint32_t holders = 0, readings = scene.readings[row][split];
	uint32_t most = decode_readers(scene.list.shape.head_count, scene.list.shape.kv_head_count);

	if (readings == 0 || first_holder(first, row, split) != row) {
		return;
	}
	for (uint32_t o = row; o < end; o++) {
		holders += scene.is_read_together[o][split] && is_same(row, o, split) &&
			   first_holder(first, o, split) == row;
	}
	check((holders + most - 1) / most == readings);
}

/* The chain of a launch's i-th row. Blocks keep some splits for singles. */
static void take_chain(const struct decode_launch *launch, uint32_t i, uint32_t first, uint32_t end)
{
	const struct decode_claim *claim = &scene.claims[launch->first + i];
	uint32_t splits = scene.split_start[end] - scene.split_start[first];
	uint32_t share = splits * scene.list.shape.kv_head_count / scene.list.block_count;

	check(launch->is_long && launch->shared == 0 && launch->chains == end - first);
	check(claim->row == first + i && claim->index == 0 && claim->count >= 1);
	check(share >= 16 && claim->count <= share - 2);
	for (uint32_t k = 0; k < claim->count; k++) {
		cover(claim->row, k, false);
	}
}

/* A whole row in a launch that is not long. Behind it are others that are no longer. */
static void take_whole(const struct decode_launch *launch, uint32_t i, uint32_t first)
{
	const struct decode_claim *claims = &scene.claims[launch->first];
	uint32_t row = claims[i].row;

	for (uint32_t k = i + 1; k < launch->count; k++) {
		uint32_t behind = claims[k].row;
		check(claims[k].count == scene.split_start[behind + 1] - scene.split_start[behind]);
	}
	check(scene.list.path == KERNEL_PATH_SM90 && !launch->is_long && row >= first);
	check(claims[i].index == 0);
	check(claims[i].count == scene.split_start[row + 1] - scene.split_start[row]);
	check(i + 1 == launch->count || claims[i + 1].count <= claims[i].count);
	for (uint32_t k = 0; k < claims[i].count; k++) {
		cover(row, k, false);
	}
}

/* Fills the lists of rows [first, end) and takes them apart; returns the end of the claims. */
static uint32_t take_launch(uint32_t first, uint32_t end, uint32_t at)
{
	const struct decode_rows rows = {.tables = scene.tables,
		.rows = scene.rows,
		.contexts = scene.contexts,
		.split_start = scene.split_start,
		.first_row = first,
		.row_count = end - first,
		.may_share = scene.may_share};
	struct decode_launch launch;
	uint32_t left = 0;

	uint32_t next = decode_list_fill(&scene.list, &rows, scene.claims, at, &launch);
	check(launch.first == at && launch.shared <= launch.count);
	for (uint32_t i = 0; i < launch.shared; i++) {
		left += scene.claims[at + i].count;
	}
	for (uint32_t i = 0; i < launch.count; i++) {
		const struct decode_claim *claim = &scene.claims[at + i];
		if (i < launch.chains) {
			take_chain(&launch, i, first, end);
			continue;
		}
		if (i < launch.shared) {
			check(claim->count >= 1 && claim->count <= DECODE_COLUMN_BLOCKS);
			take_shared(&launch, claim, left, first);
			left -= claim->count;
			continue;
		}
		check(claim->row >= first && claim->row < end);
		check(claim->table_row == scene.rows[claim->row]);
		check(claim->context == scene.contexts[claim->row]);
		if (claim->count > 1) {
			take_whole(&launch, i, first);
			continue;
		}
		cover(claim->row, claim->index, false);
	}
	bool is_long = launch.shared > 0;
	for (uint32_t r = first; r < end; r++) {
		uint32_t splits = scene.split_start[r + 1] - scene.split_start[r];
		uint32_t alone = scene.list.shape.kv_head_count < 8 ? 48 : 96;
		is_long |= splits > (end - first == 1 ? alone : (uint32_t)DECODE_LONG);
		for (uint32_t k = 0; k < splits; k++) {
			check(scene.covered[r][k] == 1);
			check(scene.is_read_together[r][k] == is_shared(first, end, r, k));
		}
	}
	for (uint32_t r = first; r < end; r++) {
		for (uint32_t k = 0; k < scene.split_start[r + 1] - scene.split_start[r]; k++) {
			require_least_readings(first, end, r, k);
		}
	}
	check(launch.is_long == (is_long && scene.list.path == KERNEL_PATH_SM90));
	return next;
}

static void body_lists(struct prop *prop, const void *context)
{
	static const uint32_t sizes[] = {64, 128, 192, 256, 320, 512, 768, 16, 32, 48, 80};
	uint32_t group = prop_range(prop, 1, 8), i = prop_range(prop, 0, 10);
	uint32_t width = 1 + prop_range(prop, 0, SPLITS_MAX * DECODE_SPLIT / sizes[i] - 1);

	(void)context;
	memset(&scene, 0, sizeof(scene));
	width = width < WIDTH_MAX ? width : WIDTH_MAX;
	scene.row_count = prop_range(prop, 1, ROWS_MAX);
	scene.may_share = !prop_chance(prop, 1, 8);
	scene.list = (struct decode_list){
		.shape = {.head_count = 2 * group,
			.kv_head_count = 2,
			.head_dim = 128,
			.block_size = sizes[i],
			.table_width = width},
		.path = prop_chance(prop, 1, 8) ? KERNEL_PATH_GENERAL : KERNEL_PATH_SM90,
		.sharing = (enum decode_sharing)prop_below(prop, 3),
		.block_count = prop_range(prop, 1, 200),
		.pool_blocks = POOL,
		.row_capacity = ROWS_MAX,
	};
	draw_tables(prop);
	scene.list.split_capacity = scene.split_start[scene.row_count];
	decode_list_open(&scene.list);
	uint32_t middle = prop_range(prop, 0, scene.row_count);
	for (uint32_t round = 0; round < 2; round++) {
		memset(scene.covered, 0, sizeof(scene.covered));
		memset(scene.readings, 0, sizeof(scene.readings));
		uint32_t end = take_launch(0, middle, 0);
		end = take_launch(middle, scene.row_count, end);
		check(end + DECODE_CLAIMS_BEHIND <=
			decode_list_capacity(scene.list.split_capacity));
	}
	decode_list_close(&scene.list);
}

Test(decode_list, every_split_is_read_once_and_together_where_its_blocks_are_equal)
{
	const struct prop_options options = {
		.name = "decode lists", .body = body_lists, .trials = 1500};

	cr_assert(prop_holds(&options));
}

/* 32 rows of 64 splits and 8 key/value heads on 132 blocks, which have 124 splits each: 16 rows are
   whole chains, and the others leave 15 splits a block, and what these miss, to singles. A padded
   row has none. */
Test(decode_list, chains_fill_all_blocks_but_for_a_rest)
{
	enum { ROWS = 32, SPLITS = 64 };
	static uint32_t split_start[ROWS + 2], contexts[ROWS + 1];
	static struct decode_claim claims[ROWS * SPLITS * 2];
	struct decode_list list = {
		.shape = {.head_count = 16, .kv_head_count = 8, .head_dim = 128, .block_size = 256},
		.path = KERNEL_PATH_SM90,
		.sharing = DECODE_SHARING_OFF,
		.block_count = 132,
		.row_capacity = ROWS + 1};
	struct decode_launch launch;
	static const uint32_t tables[1], table_rows[ROWS + 1];

	for (uint32_t r = 0; r < ROWS; r++) {
		contexts[r] = SPLITS * DECODE_SPLIT;
		split_start[r + 1] = split_start[r] + SPLITS;
	}
	split_start[ROWS + 1] = split_start[ROWS];
	const struct decode_rows rows = {.tables = tables,
		.rows = table_rows,
		.contexts = contexts,
		.split_start = split_start,
		.row_count = ROWS + 1};
	decode_list_open(&list);
	cr_expect(decode_list_fill(&list, &rows, claims, 0, &launch) == ROWS * SPLITS);
	cr_expect(launch.chains == ROWS && launch.count == 16 + 16 * (SPLITS - 45 + 1));
	for (uint32_t r = 0; r < ROWS; r++) {
		cr_expect(claims[r].count == (r < 16 ? SPLITS : 45), "%u", claims[r].count);
	}
	decode_list_close(&list);
}

/* A row alone belongs to its clusters up to so many splits, beside another to chains from 17 on. */
Test(decode_list, a_row_alone_is_long_from_its_own_number_of_splits_on)
{
	static const struct {
		uint32_t heads, most;
	} alone[] = {{1, 48}, {2, 48}, {4, 48}, {7, 48}, {8, 96}, {16, 96}};
	static struct decode_claim claims[2 * 2 * 140];
	static const uint32_t tables[1], table_rows[2];

	for (uint32_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
		struct decode_list list = {.shape = {.head_count = 2 * alone[i].heads,
						   .kv_head_count = alone[i].heads,
						   .head_dim = 128,
						   .block_size = 256},
			.path = KERNEL_PATH_SM90,
			.sharing = DECODE_SHARING_OFF,
			.block_count = 132,
			.row_capacity = 2};
		decode_list_open(&list);
		for (uint32_t splits = 1; splits < 140; splits++) {
			const uint32_t contexts[] = {splits * DECODE_SPLIT, 1};
			const uint32_t split_start[] = {0, splits, splits + 1};
			for (uint32_t rows = 1; rows <= 2; rows++) {
				const struct decode_rows launch_rows = {.tables = tables,
					.rows = table_rows,
					.contexts = contexts,
					.split_start = split_start,
					.row_count = rows};
				struct decode_launch launch;
				decode_list_fill(&list, &launch_rows, claims, 0, &launch);
				uint32_t most = rows == 1 ? alone[i].most : 16;
				cr_assert(launch.is_long == (splits > most), "%u heads, %u splits",
					alone[i].heads, splits);
			}
		}
		decode_list_close(&list);
	}
}

/* Rows of random numbers of splits, in one launch of chains and singles. */
struct ragged {
	struct decode_list list;
	struct decode_launch launch;
	struct decode_claim *claims;
	uint32_t *split_start; /* (rows + 1) */
	uint32_t rows, longest;
};

static void open_ragged(struct ragged *ragged, struct prop *prop)
{
	static const uint32_t heads[] = {1, 2, 4, 8}, tables[1];
	uint32_t splits_most = prop_range(prop, 20, 120);

	memset(ragged, 0, sizeof(*ragged));
	ragged->rows = prop_range(prop, 1, 200);
	ragged->list = (struct decode_list){.shape = {.kv_head_count = heads[prop_below(prop, 4)],
						    .head_dim = 128,
						    .block_size = 256},
		.path = KERNEL_PATH_SM90,
		.sharing = DECODE_SHARING_OFF,
		.block_count = prop_range(prop, 20, 132),
		.row_capacity = ragged->rows};
	ragged->list.shape.head_count = 2 * ragged->list.shape.kv_head_count;
	uint32_t *contexts = memory_take(ragged->rows, sizeof(*contexts));
	uint32_t *table_rows = memory_take(ragged->rows, sizeof(*table_rows));
	ragged->split_start = memory_take(ragged->rows + 1, sizeof(*ragged->split_start));
	for (uint32_t r = 0; r < ragged->rows; r++) {
		uint32_t splits = prop_range(prop, 1, splits_most);
		ragged->longest = splits > ragged->longest ? splits : ragged->longest;
		contexts[r] = splits * DECODE_SPLIT;
		ragged->split_start[r + 1] = ragged->split_start[r] + splits;
	}
	uint64_t splits = ragged->split_start[ragged->rows];
	ragged->claims = memory_take(decode_list_capacity(splits), sizeof(*ragged->claims));
	const struct decode_rows rows = {.tables = tables,
		.rows = table_rows,
		.contexts = contexts,
		.split_start = ragged->split_start,
		.row_count = ragged->rows};
	decode_list_open(&ragged->list);
	decode_list_fill(&ragged->list, &rows, ragged->claims, 0, &ragged->launch);
	free(contexts);
	free(table_rows);
}

static void close_ragged(struct ragged *ragged)
{
	decode_list_close(&ragged->list);
	free(ragged->claims);
	free(ragged->split_start);
}

/* Blocks work at one speed. The first claims of each follow from its index. When it begins its
   third claim, and each one after that, it makes another, two behind that one. Returns the splits
   of the last block to end. */
static uint32_t last_end(const struct ragged *ragged)
{
	enum { BLOCKS_MOST = 132, AHEAD = 2, HELD = DECODE_ASSIGNED_CLAIMS };
	uint32_t blocks = ragged->list.block_count, heads = ragged->list.shape.kv_head_count;
	uint32_t count = ragged->launch.count * heads, next = HELD * blocks, last = 0;
	uint32_t ready[BLOCKS_MOST] = {0}; /* when its next claim begins */
	uint32_t held[BLOCKS_MOST][HELD], begun[BLOCKS_MOST] = {0};

	for (uint32_t b = 0; b < blocks; b++) {
		for (uint32_t i = 0; i < HELD; i++) {
			held[b][i] = b + i * blocks;
		}
	}
	for (;;) {
		uint32_t b = UINT32_MAX;
		for (uint32_t k = 0; k < blocks; k++) {
			bool has_claim = held[k][begun[k] % HELD] < count;
			b = has_claim && (b == UINT32_MAX || ready[k] < ready[b]) ? k : b;
		}
		if (b == UINT32_MAX) {
			return last;
		}
		uint32_t claim = held[b][begun[b] % HELD];
		if (begun[b] + AHEAD >= HELD) {
			held[b][(begun[b] + AHEAD) % HELD] = next++;
		}
		begun[b]++;
		ready[b] += ragged->claims[claim / heads].count;
		last = ready[b] > last ? ready[b] : last;
	}
}

/* All blocks end together, but for a long row's worth. */
static void body_ragged(struct prop *prop, const void *context)
{
	struct ragged ragged;

	(void)context;
	open_ragged(&ragged, prop);
	uint32_t splits = ragged.split_start[ragged.rows];
	double share = (double)splits * ragged.list.shape.kv_head_count / ragged.list.block_count;
	uint32_t last = last_end(&ragged);
	check(ragged.launch.chains == 0 || (double)last <= 1.03 * share + 4);
	close_ragged(&ragged);
}

Test(decode_list, blocks_end_together_however_long_the_rows_are)
{
	const struct prop_options options = {
		.name = "ragged rows", .body = body_ragged, .trials = 400};

	cr_assert(prop_holds(&options));
}

/* The least number of saved tokens at which a list looks for shared splits. */
static uint64_t least_tokens(enum decode_sharing sharing, uint32_t kv_heads, uint32_t head_dim)
{
	const struct decode_list list = {.sharing = sharing,
		.shape = {.head_count = kv_heads, .kv_head_count = kv_heads, .head_dim = head_dim}};
	uint64_t tokens = 0;

	while (tokens < 1000000 && !decode_list_may_share(&list, tokens, DECODE_LONG)) {
		tokens++;
	}
	cr_expect(decode_list_may_share(&list, tokens + 1, DECODE_LONG) == (tokens < 1000000));
	return tokens;
}

/* 72 MiB of keys and values of two bytes an element. A rank of two has half of the heads. */
Test(decode_list, sharing_begins_where_it_saves_enough_bytes)
{
	cr_expect(least_tokens(DECODE_SHARING_AUTO, 8, 128) == 18432);
	cr_expect(least_tokens(DECODE_SHARING_AUTO, 4, 128) == 36864);
	cr_expect(least_tokens(DECODE_SHARING_AUTO, 1, 128) == 147456);
	cr_expect(least_tokens(DECODE_SHARING_AUTO, 2, 64) == 147456);
	cr_expect(least_tokens(DECODE_SHARING_AUTO, 7, 128) == 21066); /* rounded up */
	cr_expect(least_tokens(DECODE_SHARING_AUTO, 1024, 128) == DECODE_SPLIT);
	cr_expect(least_tokens(DECODE_SHARING_ON, 8, 128) == DECODE_SPLIT);
	cr_expect(least_tokens(DECODE_SHARING_OFF, 8, 128) == 1000000);
}

Test(decode_list, sharing_costs_nothing_where_a_row_is_long)
{
	struct decode_list list = {.sharing = DECODE_SHARING_AUTO,
		.shape = {.head_count = 8, .kv_head_count = 8, .head_dim = 128}};

	cr_expect(!decode_list_may_share(&list, DECODE_SPLIT, DECODE_LONG));
	cr_expect(decode_list_may_share(&list, DECODE_SPLIT, DECODE_LONG + 1));
	cr_expect(!decode_list_may_share(&list, DECODE_SPLIT - 1, DECODE_LONG + 1));
	list.sharing = DECODE_SHARING_OFF;
	cr_expect(!decode_list_may_share(&list, DECODE_SPLIT, DECODE_LONG + 1));
}

/* The cost model prices a step by the same rule. */
Test(decode_list, the_cost_model_knows_when_splits_are_shared)
{
	static const uint32_t heads[] = {8, 4, 2};

	for (uint32_t i = 0; i < 3; i++) {
		const struct model_config shape = {
			.num_key_value_heads = heads[i], .head_dim = 128};
		const struct operation_sharing rule = operation_sharing_of(&shape);
		const struct decode_list list = {
			.shape = {.kv_head_count = heads[i], .head_dim = 128},
			.sharing = DECODE_SHARING_AUTO};
		const uint64_t tokens[] = {
			DECODE_SPLIT, (uint64_t)rule.tokens - 1, (uint64_t)rule.tokens, 1000000};
		for (uint32_t j = 0; j < 8; j++) {
			uint32_t splits = DECODE_LONG + j % 2;
			const struct step_counts counts = {.shared_tokens = tokens[j / 2],
				.decode_context_tokens = 2000000,
				.decode_longest_context = (uint64_t)splits * DECODE_SPLIT};
			require(operation_shares(&rule, &counts) ==
					decode_list_may_share(&list, tokens[j / 2], splits),
				"%u heads, %llu tokens, %u splits", heads[i],
				(unsigned long long)tokens[j / 2], splits);
		}
	}
}
