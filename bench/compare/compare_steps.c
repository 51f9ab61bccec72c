#include "bench/compare/compare_steps.h"

#include "engine/base/number.h"
#include "engine/base/table.h"
#include "engine/base/text.h"
#include "engine/step_record.h"

#include <stdio.h>
#include <string.h>

/* Counts that follow from the rows and their blocks, which other columns tell apart. So a run that
   was recorded without them, or whose engine counted sharing otherwise, stays comparable. */
static bool follows_from_others(uint32_t column)
{
	switch (column) {
	case STEP_COLUMN_prefill_half_chain_keys:
	case STEP_COLUMN_prefill_context_tokens:
	case STEP_COLUMN_prefill_shared_tokens:
	case STEP_COLUMN_shared_tokens:
	case STEP_COLUMN_reread_tokens:
	case STEP_COLUMN_repeat_tokens:
		return true;
	default:
		return false;
	}
}

bool step_column_is_decision(const char *name, bool has_same_pool)
{
	for (uint32_t i = STEP_COLUMN_FIRST_COUNT; i < STEP_COLUMN_COUNT; i++) {
		if (strcmp(name, step_column_names[i]) == 0) {
			bool is_of_pool =
				i == STEP_COLUMN_free_blocks || i == STEP_COLUMN_cached_free_blocks;
			return i != STEP_COLUMN_waiting && !follows_from_others(i) &&
			       (has_same_pool || !is_of_pool);
		}
	}
	return strcmp(name, STEP_REPLICA_COLUMN) == 0;
}

/* Of a column that quire writes; what other columns hold is not known. */
static bool is_integer(const char *name)
{
	for (uint32_t i = 0; i < STEP_COLUMN_COUNT; i++) {
		if (strcmp(name, step_column_names[i]) == 0) {
			return i != STEP_COLUMN_mode;
		}
	}
	return strcmp(name, STEP_REPLICA_COLUMN) == 0;
}

static enum status check_cell(
	const struct table_reader *table, uint32_t column, struct error *error)
{
	uint64_t value;

	return strcmp(table->cells[column], "-") == 0 || text_to_u64(table->cells[column], &value)
		       ? STATUS_OK
		       : table_reader_refuse(table, column, "an integer", error);
}

/* A column that both tables have. */
struct pair {
	uint32_t a, b;
	bool is_decision, is_integer;
};

struct pairs {
	struct pair pair[TABLE_COLUMNS_MAX];
	uint32_t count;
};

static enum status match_columns(const struct table_reader *a, const struct table_reader *b,
	bool has_same_pool, struct pairs *out, struct error *error)
{
	for (uint32_t i = 0; i < a->column_count; i++) {
		uint32_t j = table_reader_find(b, a->names[i]);
		if (j != TABLE_NO_COLUMN) {
			out->pair[out->count++] = (struct pair){i, j,
				step_column_is_decision(a->names[i], has_same_pool),
				is_integer(a->names[i])};
		}
	}
	if (out->count == 0 ||
		strcmp(a->names[out->pair[0].a], step_column_names[STEP_COLUMN_step]) != 0) {
		return error_set(error, STATUS_INPUT,
			"%s:1: found no column 'step' in front that %s has too", a->path, b->path);
	}
	return STATUS_OK;
}

static void note_difference(struct step_difference *out, const struct table_reader *a,
	const struct table_reader *b, const struct pair *pair, uint64_t step)
{
	if (out->is_there) {
		return;
	}
	out->is_there = true;
	out->step = step;
	snprintf(out->column, sizeof(out->column), "%s", a->names[pair->a]);
	snprintf(out->a, sizeof(out->a), "%s", a->cells[pair->a]);
	snprintf(out->b, sizeof(out->b), "%s", b->cells[pair->b]);
	text_make_printable(out->column);
	text_make_printable(out->a);
	text_make_printable(out->b);
}

static enum status compare_rows(struct table_reader *a, struct table_reader *b,
	const struct pairs *pairs, struct step_comparison *out, struct error *error)
{
	while (!out->decision.is_there) {
		bool a_has_row = table_reader_next(a, error);
		bool b_has_row = table_reader_next(b, error);
		TRY(error->status);
		if (!a_has_row || !b_has_row) {
			out->a_is_longer = a_has_row;
			out->b_is_longer = b_has_row;
			return STATUS_OK;
		}
		for (uint32_t i = 0; i < pairs->count; i++) {
			const struct pair *pair = &pairs->pair[i];
			if (pair->is_integer) {
				TRY(check_cell(a, pair->a, error));
				TRY(check_cell(b, pair->b, error));
			}
			if (strcmp(a->cells[pair->a], b->cells[pair->b]) != 0) {
				note_difference(pair->is_decision ? &out->decision : &out->other, a,
					b, pair, out->step_count);
			}
		}
		out->step_count++;
	}
	return STATUS_OK;
}

static enum status compare_tables(struct table_reader *a, struct table_reader *b,
	bool has_same_pool, struct step_comparison *out, struct error *error)
{
	struct pairs pairs = {.count = 0};

	TRY(match_columns(a, b, has_same_pool, &pairs, error));
	return compare_rows(a, b, &pairs, out, error);
}

enum status compare_steps(const char *a_path, const char *b_path, bool has_same_pool,
	struct step_comparison *out, struct error *error)
{
	struct table_reader a, b;

	memset(out, 0, sizeof(*out));
	table_reader_open(&a, a_path, NULL, error);
	enum status status = table_reader_open(&b, b_path, NULL, error);
	if (status == STATUS_OK) {
		status = compare_tables(&a, &b, has_same_pool, out, error);
	}
	table_reader_close(&a);
	table_reader_close(&b);
	return status;
}
