#include "kernels/attention/decode_list.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/shape/kernel_tiles.h"
#include "kernels/attention/decode_short.h"

#include <stdlib.h>
#include <string.h>

/* A shared entry has as many splits as leave so many entries for each block. */
enum { SHARED_LEFT = 2 };

/* Chains leave this part of a block's splits to singles, because blocks are not equally fast. There
   are none where a block has fewer than CHAIN_SHARE splits, or less than one of CHAIN_BLOCKS blocks
   would begin with one. A chain that any block may claim has one of CHAIN_LATE of the splits that
   chains have left. */
enum {
	CHAIN_REST = 8,
	CHAIN_SHARE = 16,
	CHAIN_BLOCKS = 4,
	CHAIN_LATE = 2,
	CHAIN_MOST = (1 << 8) - 1
};

static const uint32_t NONE = UINT32_MAX;

/* Who holds the split that ends at some place of a block. */
struct decode_holder {
	uint32_t generation; /* of the list that it belongs to; else nobody holds it */
	uint32_t row;	     /* the first */
	uint32_t index;	     /* of the split */
	uint32_t group;	     /* of all, where there are several; or NONE */
};

/* The rows that hold a split, in ascending order. */
struct decode_group {
	uint32_t index; /* of the split */
	uint32_t first, last, count;
};

struct decode_member {
	uint32_t row, next;
};

bool decode_list_has_sm90(enum kernel_path path, const struct attention_shape *shape)
{
	return path == KERNEL_PATH_SM90 && (shape->head_dim == 64 || shape->head_dim == 128);
}

static uint32_t rows_of_warp(const struct attention_shape *shape)
{
	return DECODE_COLUMN_BLOCK / (shape->head_count / shape->kv_head_count);
}

static uint32_t readers_of(const struct attention_shape *shape)
{
	return decode_readers(shape->head_count, shape->kv_head_count);
}

enum { CLAIM_READERS = sizeof(struct decode_claim) / sizeof(uint32_t) };

/* Where n rows share a split, their entries and numbers take at most n claims: each entry is for
   four rows or more, or for all. */
uint64_t decode_list_capacity(uint64_t splits)
{
	return splits + DECODE_CLAIMS_BEHIND;
}

static uint32_t ends_in_a_block(const struct attention_shape *shape)
{
	return (uint32_t)u64_divide_up(shape->block_size, (uint64_t)DECODE_SPLIT);
}

void decode_list_open(struct decode_list *list)
{
	size_t holders = (size_t)list->pool_blocks * ends_in_a_block(&list->shape);

	if (!decode_list_has_sm90(list->path, &list->shape)) {
		list->sharing = DECODE_SHARING_OFF;
	}
	list->generation = 0;
	list->has_shared = memory_take(list->row_capacity, sizeof(*list->has_shared));
	list->busy = memory_take(list->block_count, sizeof(*list->busy));
	list->order = memory_take(2 * (size_t)list->row_capacity, sizeof(*list->order));
	if (list->sharing == DECODE_SHARING_OFF) {
		return;
	}
	list->holders = memory_take(holders, sizeof(*list->holders));
	list->groups = memory_take(list->split_capacity, sizeof(*list->groups));
	list->members = memory_take(list->split_capacity, sizeof(*list->members));
	list->readers = memory_take(list->split_capacity, sizeof(*list->readers));
}

void decode_list_close(struct decode_list *list)
{
	void **const memory[] = {(void **)&list->holders, (void **)&list->groups,
		(void **)&list->members, (void **)&list->has_shared, (void **)&list->readers,
		(void **)&list->order, (void **)&list->busy};

	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++) {
		free(*memory[i]);
		*memory[i] = NULL;
	}
}

/* ---- groups ---- */

static const uint32_t *table_of(
	const struct decode_list *list, const struct decode_rows *rows, uint32_t row)
{
	return rows->tables + (size_t)rows->rows[row] * list->shape.table_width;
}

/* Splits of a row that are full and lie in front of its last token. */
static uint32_t full_splits(const struct decode_rows *rows, uint32_t row)
{
	return rows->contexts[row] == 0 ? 0 : (rows->contexts[row] - 1) / (uint32_t)DECODE_SPLIT;
}

static struct decode_holder *holder_of(
	const struct decode_list *list, const uint32_t *table, uint32_t index)
{
	uint32_t last = index * DECODE_SPLIT + DECODE_SPLIT - 1, size = list->shape.block_size;
	uint32_t block = table[last / size];

	check(block < list->pool_blocks);
	return &list->holders[(size_t)block * ends_in_a_block(&list->shape) +
			      last % size / DECODE_SPLIT];
}

/* Whether two tables have the same blocks in a split. */
static bool is_same_split(
	const struct decode_list *list, const uint32_t *a, const uint32_t *b, uint32_t index)
{
	uint32_t size = list->shape.block_size;
	uint32_t first = index * DECODE_SPLIT / size;
	uint32_t last = (index * DECODE_SPLIT + DECODE_SPLIT - 1) / size;

	return memcmp(a + first, b + first, (last - first + 1) * sizeof(*a)) == 0;
}

static void add_member(struct decode_list *list, struct decode_group *group, uint32_t row)
{
	uint32_t at = list->member_count++;

	check(at < list->split_capacity);
	list->members[at] = (struct decode_member){.row = row, .next = NONE};
	if (group->count == 0) {
		group->first = at;
	} else {
		list->members[group->last].next = at;
	}
	group->last = at;
	group->count++;
	list->has_shared[row] = true;
}

/* Adds split `index` of a row to those that hold its last block. */
static void hold(struct decode_list *list, const struct decode_rows *rows, uint32_t row,
	const uint32_t *table, uint32_t index)
{
	struct decode_holder *holder = holder_of(list, table, index);

	if (holder->generation != list->generation) {
		*holder = (struct decode_holder){list->generation, row, index, NONE};
		return;
	}
	if (holder->index != index ||
		!is_same_split(list, table, table_of(list, rows, holder->row), index)) {
		return;
	}
	if (holder->group == NONE) {
		holder->group = list->group_count++;
		list->groups[holder->group] = (struct decode_group){.index = index};
		add_member(list, &list->groups[holder->group], holder->row);
	}
	add_member(list, &list->groups[holder->group], row);
}

static void find_groups(struct decode_list *list, const struct decode_rows *rows)
{
	list->group_count = list->member_count = 0;
	list->generation++;
	for (uint32_t r = rows->first_row; r < rows->first_row + rows->row_count; r++) {
		const uint32_t *table = table_of(list, rows, r);
		for (uint32_t i = 0; i < full_splits(rows, r); i++) {
			hold(list, rows, r, table, i);
		}
	}
}

/* Whether a row reads its split together with others. */
static bool is_shared(const struct decode_list *list, const struct decode_rows *rows, uint32_t row,
	const uint32_t *table, uint32_t index)
{
	if (!list->has_shared[row] || index >= full_splits(rows, row)) {
		return false;
	}
	const struct decode_holder *holder = holder_of(list, table, index);
	return holder->index == index && holder->group != NONE &&
	       is_same_split(list, table, table_of(list, rows, holder->row), index);
}

/* ---- entries ---- */

/* The splits of a shared entry while so many are left, each once for every key/value head. */
static uint32_t entry_splits(const struct decode_list *list, uint64_t left, uint32_t most)
{
	uint64_t splits =
		left * list->shape.kv_head_count / ((uint64_t)SHARED_LEFT * list->block_count);

	return splits < 1 ? 1 : splits > most ? most : (uint32_t)splits;
}

/* Groups of consecutive splits with the same rows. */
struct run {
	const uint32_t *rows; /* (row_count) */
	uint32_t row_count;
	uint32_t index; /* of the first split */
	uint32_t splits;
};

/* Appends the readers of a run in parts; returns the end of list->readers. */
static uint32_t add_readers(struct decode_list *list, const struct run *run, uint32_t end)
{
	uint32_t most = readers_of(&list->shape);

	for (uint32_t i = 0; i < run->row_count; i += most) {
		uint32_t part = u32_min(run->row_count - i, most);
		memcpy(list->readers + end, run->rows + i, part * sizeof(*run->rows));
		end += part;
	}
	return end;
}

/* Appends the entries of a run, those of all parts side by side, so that the parts meet in the L2
   cache. *left: splits of shared entries that are still to come, once for each part. */
static uint32_t add_entries(const struct decode_list *list, const struct decode_rows *rows,
	const struct run *run, uint32_t readers, struct decode_claim *claims, uint32_t end,
	uint64_t *left)
{
	uint32_t most = readers_of(&list->shape);

	for (uint32_t at = 0; at < run->splits; at += DECODE_COLUMN_BLOCKS) {
		uint32_t chunk = u32_min(run->splits - at, (uint32_t)DECODE_COLUMN_BLOCKS);
		uint32_t part_readers = readers;
		for (uint32_t i = 0; i < run->row_count; i += most) {
			uint32_t part = u32_min(run->row_count - i, most), count = 0;
			uint32_t warps = u32_from(u64_divide_up(part, rows_of_warp(&list->shape)));
			for (uint32_t k = 0; k < chunk; k += count) {
				count = entry_splits(list, *left, DECODE_COLUMN_BLOCKS / warps);
				count = u32_min(count, chunk - k);
				claims[end++] = (struct decode_claim){.row = part_readers,
					.index = (run->index + at + k) & 0xffffff,
					.count = count & 0xff,
					.table_row = rows->rows[run->rows[i]],
					.context = part};
				*left -= count;
			}
			part_readers += part;
		}
	}
	return end;
}

static uint32_t list_members(
	const struct decode_list *list, const struct decode_group *group, uint32_t *rows)
{
	uint32_t count = 0;

	for (uint32_t m = group->first; m != NONE; m = list->members[m].next) {
		rows[count++] = list->members[m].row;
	}
	return count;
}

/* Fills the shared entries, and list->readers; returns the index behind the entries. */
static uint32_t fill_shared(struct decode_list *list, const struct decode_rows *rows,
	struct decode_claim *claims, uint32_t end, uint32_t *reader_count)
{
	uint32_t most = readers_of(&list->shape);
	uint32_t *members = list->order, *behind = list->order + list->row_capacity;
	uint64_t left = 0;

	*reader_count = 0;
	for (uint32_t g = 0; g < list->group_count; g++) {
		left += u64_divide_up(list->groups[g].count, most);
	}
	for (uint32_t g = 0; g < list->group_count;) {
		const struct decode_group *group = &list->groups[g];
		struct run run = {.rows = members,
			.row_count = list_members(list, group, members),
			.index = group->index};
		do {
			run.splits++;
			g++;
		} while (g < list->group_count && list->groups[g].index == run.index + run.splits &&
			 list_members(list, &list->groups[g], behind) == run.row_count &&
			 memcmp(members, behind, run.row_count * sizeof(*members)) == 0);
		uint32_t readers = *reader_count;
		*reader_count = add_readers(list, &run, readers);
		end = add_entries(list, rows, &run, readers, claims, end, &left);
	}
	return end;
}

/* Singles of the splits that a row does not share. */
static uint32_t fill_singles(const struct decode_list *list, const struct decode_rows *rows,
	uint32_t row, struct decode_claim *claims, uint32_t end)
{
	const uint32_t *table = table_of(list, rows, row);

	for (uint32_t i = 0; i < decode_splits_of(rows, row); i++) {
		if (!is_shared(list, rows, row, table, i)) {
			claims[end++] = decode_claim_of(rows, row, i, 1);
		}
	}
	return end;
}

/* Rows of the launch that have splits, if those without come last; else 0. */
static uint32_t rows_with_splits(const struct decode_rows *rows)
{
	uint32_t count = 0, end = rows->first_row + rows->row_count;

	while (count < rows->row_count && decode_splits_of(rows, rows->first_row + count) > 0) {
		count++;
	}
	uint32_t behind = rows->first_row + count;
	return rows->split_start[behind] == rows->split_start[end] ? count : 0;
}

/* The splits that a block gets for chains, of `splits` of `rows` rows for each key/value head;
   0: no chains. */
static uint32_t chain_budget(const struct decode_list *list, uint32_t rows, uint32_t splits)
{
	uint64_t heads = list->shape.kv_head_count, share = splits * heads / list->block_count;

	if (share < CHAIN_SHARE || CHAIN_BLOCKS * rows * heads < list->block_count) {
		return 0;
	}
	return u32_from(share - share / CHAIN_REST);
}

/* Whether the claims of a launch's r-th row are made by blocks that are known. */
static bool is_assigned(const struct decode_list *list, uint32_t r)
{
	return (uint64_t)(r + 1) * list->shape.kv_head_count <=
	       (uint64_t)DECODE_ASSIGNED_CLAIMS * list->block_count;
}

/* The splits of chains that the busiest block has of those that claim the chains of a launch's r-th
   row, one for each key/value head. The first DECODE_ASSIGNED_CLAIMS claims of a block follow from
   its index; which block makes a later one is not known, so these count as the mean. */
static uint32_t busiest_block(const struct decode_list *list, uint32_t r, uint64_t chained)
{
	uint32_t heads = list->shape.kv_head_count, busy = 0;

	if (!is_assigned(list, r)) {
		return (uint32_t)(chained / list->block_count);
	}
	for (uint32_t head = 0; head < heads; head++) {
		busy = u32_max(busy, list->busy[(r * heads + head) % list->block_count]);
	}
	return busy;
}

/* Fills a chain for each row, and singles behind them. Returns the number of claims. */
static uint32_t fill_chains(const struct decode_list *list, const struct decode_rows *rows,
	uint32_t row_count, uint32_t budget, struct decode_claim *claims)
{
	uint32_t heads = list->shape.kv_head_count, end = row_count;
	uint64_t chained = 0; /* splits, of all heads */

	memset(list->busy, 0, list->block_count * sizeof(*list->busy));
	for (uint32_t r = 0; r < row_count; r++) {
		uint32_t row = rows->first_row + r, splits = decode_splits_of(rows, row);
		uint32_t busy = busiest_block(list, r, chained);
		uint32_t room = budget > busy ? budget - busy : 1;
		room = is_assigned(list, r) ? room : u32_max(room / CHAIN_LATE, 1);
		uint32_t count = u32_min(u32_min(splits, room), (uint32_t)CHAIN_MOST);
		for (uint32_t head = 0; head < heads; head++) {
			list->busy[(r * heads + head) % list->block_count] += count;
		}
		chained += (uint64_t)count * heads;
		claims[r] = decode_claim_of(rows, row, 0, count);
		for (uint32_t i = count; i < splits; i++) {
			claims[end++] = decode_claim_of(rows, row, i, 1);
		}
	}
	return end;
}

bool decode_list_may_share(const struct decode_list *list, uint64_t shared_tokens, uint32_t longest)
{
	uint64_t elements = 2 * (uint64_t)list->shape.kv_head_count * list->shape.head_dim;
	uint64_t saved = shared_tokens * elements * sizeof(uint16_t);

	if (list->sharing == DECODE_SHARING_OFF || shared_tokens < (uint64_t)DECODE_SPLIT) {
		return false;
	}
	return list->sharing == DECODE_SHARING_ON || longest > (uint32_t)DECODE_LONG ||
	       saved >= (uint64_t)DECODE_SHARING_LEAST;
}

/* Fills chains and singles over a launch's singles, where chains are worth it. */
static void try_chains(const struct decode_list *list, const struct decode_rows *rows,
	struct decode_claim *claims, struct decode_launch *launch)
{
	uint32_t chains = rows_with_splits(rows);
	uint32_t budget = chain_budget(list, chains, launch->count);

	if (budget > 0) {
		launch->chains = chains;
		launch->count = fill_chains(list, rows, chains, budget, claims);
	}
}

static bool has_long_row(const struct decode_list *list, const struct decode_rows *rows)
{
	uint32_t most =
		rows->row_count == 1 ? decode_long_alone(list->shape.kv_head_count) : DECODE_LONG;
	bool is_long = false;

	for (uint32_t r = rows->first_row; r < rows->first_row + rows->row_count; r++) {
		is_long |= decode_splits_of(rows, r) > most;
	}
	return is_long;
}

uint32_t decode_list_fill(struct decode_list *list, const struct decode_rows *rows,
	struct decode_claim *claims, uint32_t first, struct decode_launch *launch)
{
	const bool has_sm90 = decode_list_has_sm90(list->path, &list->shape);
	uint32_t count = first, readers = 0;

	memset(list->has_shared, 0, list->row_capacity * sizeof(*list->has_shared));
	if (list->sharing != DECODE_SHARING_OFF && rows->may_share) {
		find_groups(list, rows);
		count = fill_shared(list, rows, claims, first, &readers);
	}
	launch->first = first;
	launch->shared = count - first;
	launch->chains = 0;
	launch->is_long = has_sm90 && (launch->shared > 0 || has_long_row(list, rows));
	if (has_sm90 && !launch->is_long) {
		count = decode_short_fill(list, rows, claims, count);
	} else {
		for (uint32_t r = 0; r < rows->row_count; r++) {
			count = fill_singles(list, rows, rows->first_row + r, claims, count);
		}
	}
	launch->count = count - first;
	if (launch->is_long && launch->shared == 0) {
		try_chains(list, rows, claims + first, launch);
	}
	launch->readers = CLAIM_READERS * count;
	if (readers > 0) {
		memcpy(claims + count, list->readers, readers * sizeof(*list->readers));
	}
	return count + (readers + CLAIM_READERS - 1) / CLAIM_READERS;
}
