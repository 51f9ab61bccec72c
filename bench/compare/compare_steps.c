#include "bench/compare/compare_steps.h"

#include "engine/batch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 256 };

struct table {
	const char *path;
	FILE *file;
	char *line; /* grown by getline */
	size_t capacity;
	uint64_t line_number;
	uint32_t field_count;
	char *field[FIELDS_MAX]; /* (field_count) into line */
};

/* waiting depends on how far a replay has read ahead, and the free blocks on the pool's size; all
   other counts are decided by the engine. */
static bool is_decision(const char *column, bool has_same_pool)
{
	static const char *const counts[] = {
#define COUNT_NAME(name) #name,
		STEP_COUNT_LIST(COUNT_NAME)
#undef COUNT_NAME
	};
	if (strcmp(column, "waiting") == 0) {
		return false;
	}
	if (strcmp(column, "free_blocks") == 0 || strcmp(column, "cached_free_blocks") == 0) {
		return has_same_pool;
	}
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (strcmp(counts[i], column) == 0) {
			return true;
		}
	}
	return false;
}

static enum status table_open(struct table *table, const char *path, struct error *error)
{
	table->path = path;
	table->file = fopen(path, "r");
	if (table->file == NULL) {
		return error_set(error, STATUS_FILE, "cannot open %s: %s", path, strerror(errno));
	}
	return STATUS_OK;
}

static void table_close(struct table *table)
{
	if (table->file != NULL) {
		fclose(table->file);
	}
	free(table->line);
}

/* Reads a line and splits it; *has_row is false at the end of the file. */
static enum status table_next(struct table *table, bool *has_row, struct error *error)
{
	errno = 0;
	ssize_t length = getline(&table->line, &table->capacity, table->file);
	*has_row = length >= 0;
	table->field_count = 0;
	if (length < 0 && ferror(table->file)) {
		return error_set(
			error, STATUS_FILE, "cannot read %s: %s", table->path, strerror(errno));
	}
	if (length < 0) {
		return STATUS_OK;
	}
	table->line_number++;
	table->line[strcspn(table->line, "\r\n")] = '\0';
	for (char *rest = table->line; rest != NULL;) {
		if (table->field_count == FIELDS_MAX) {
			return error_set(error, STATUS_INPUT, "%s:%llu: found more than %d columns",
				table->path, (unsigned long long)table->line_number, FIELDS_MAX);
		}
		table->field[table->field_count++] = rest;
		char *tab = strchr(rest, '\t');
		if (tab != NULL) {
			*tab = '\0';
		}
		rest = tab == NULL ? NULL : tab + 1;
	}
	return STATUS_OK;
}

/* A column that both tables have. */
struct pair {
	uint32_t a, b; /* fields */
	bool is_decision;
	char name[STEP_CELL_BYTES];
};

struct pairs {
	struct pair pair[FIELDS_MAX];
	uint32_t count;
	uint32_t a_fields, b_fields;
};

/* Both tables stand at their headers. */
static enum status match_columns(const struct table *a, const struct table *b, bool has_same_pool,
	struct pairs *out, struct error *error)
{
	for (uint32_t i = 0; i < a->field_count; i++) {
		for (uint32_t j = 0; j < b->field_count; j++) {
			if (strcmp(a->field[i], b->field[j]) != 0 || out->count == FIELDS_MAX) {
				continue;
			}
			struct pair *pair = &out->pair[out->count++];
			pair->a = i;
			pair->b = j;
			pair->is_decision = is_decision(a->field[i], has_same_pool);
			snprintf(pair->name, sizeof(pair->name), "%s", a->field[i]);
			break;
		}
	}
	out->a_fields = a->field_count;
	out->b_fields = b->field_count;
	if (out->count == 0 || strcmp(out->pair[0].name, "step") != 0) {
		return error_set(error, STATUS_INPUT,
			"%s:1: found no column 'step' in front that %s has too", a->path, b->path);
	}
	return STATUS_OK;
}

static enum status check_width(const struct table *table, uint32_t fields, struct error *error)
{
	if (table->field_count == fields) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_INPUT, "%s:%llu: found %u columns, expected the header's %u",
		table->path, (unsigned long long)table->line_number, table->field_count, fields);
}

static void note_difference(struct step_difference *out, const struct table *a,
	const struct table *b, const struct pair *pair, uint64_t step)
{
	if (out->is_there) {
		return;
	}
	out->is_there = true;
	out->step = step;
	snprintf(out->column, sizeof(out->column), "%s", pair->name);
	snprintf(out->a, sizeof(out->a), "%s", a->field[pair->a]);
	snprintf(out->b, sizeof(out->b), "%s", b->field[pair->b]);
}

static enum status compare_rows(struct table *a, struct table *b, const struct pairs *pairs,
	struct step_comparison *out, struct error *error)
{
	while (!out->decision.is_there) {
		bool a_has_row = false, b_has_row = false;
		enum status status = table_next(a, &a_has_row, error);
		if (status == STATUS_OK) {
			status = table_next(b, &b_has_row, error);
		}
		if (status == STATUS_OK && a_has_row) {
			status = check_width(a, pairs->a_fields, error);
		}
		if (status == STATUS_OK && b_has_row) {
			status = check_width(b, pairs->b_fields, error);
		}
		if (status != STATUS_OK) {
			return status;
		}
		if (!a_has_row || !b_has_row) {
			out->a_is_longer = a_has_row;
			out->b_is_longer = b_has_row;
			return STATUS_OK;
		}
		for (uint32_t i = 0; i < pairs->count; i++) {
			const struct pair *pair = &pairs->pair[i];
			if (strcmp(a->field[pair->a], b->field[pair->b]) != 0) {
				note_difference(pair->is_decision ? &out->decision : &out->other, a,
					b, pair, out->step_count);
			}
		}
		out->step_count++;
	}
	return STATUS_OK;
}

enum status compare_steps(const char *a_path, const char *b_path, bool has_same_pool,
	struct step_comparison *out, struct error *error)
{
	struct table a = {0}, b = {0};
	struct pairs pairs = {.count = 0};
	bool a_has_row = false, b_has_row = false;

	memset(out, 0, sizeof(*out));
	enum status status = table_open(&a, a_path, error);
	if (status == STATUS_OK) {
		status = table_open(&b, b_path, error);
	}
	if (status == STATUS_OK) {
		status = table_next(&a, &a_has_row, error);
	}
	if (status == STATUS_OK) {
		status = table_next(&b, &b_has_row, error);
	}
	if (status == STATUS_OK) {
		status = match_columns(&a, &b, has_same_pool, &pairs, error);
	}
	if (status == STATUS_OK) {
		status = compare_rows(&a, &b, &pairs, out, error);
	}
	table_close(&a);
	table_close(&b);
	return status;
}
