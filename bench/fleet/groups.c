#include "bench/fleet/groups.h"

#include "engine/base/table.h"
#include "engine/base/text.h"
#include "engine/router/router.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The columns of numbers, with the ranges of the options of the same names. */
static const struct {
	const char *name;
	size_t offset;
	uint64_t maximum;
} columns[] = {
	{"replicas", offsetof(struct fleet_group, replicas), ROUTER_REPLICAS_MAX},
	{"tensor_parallel_size", offsetof(struct fleet_group, tensor_parallel_size), 8},
	{"kv_blocks", offsetof(struct fleet_group, kv_blocks), 1 << 28},
	{"max_num_seqs", offsetof(struct fleet_group, max_num_seqs), 65536},
	{"max_num_batched_tokens", offsetof(struct fleet_group, max_num_batched_tokens), 1 << 28},
	{"max_model_len", offsetof(struct fleet_group, max_model_len), 1 << 28},
};

enum { COLUMN_COUNT = sizeof(columns) / sizeof(columns[0]) };

struct fields {
	uint32_t group, gpu;
	uint32_t numbers[COLUMN_COUNT];
};

static enum status find_fields(
	struct table_reader *table, struct fields *fields, struct error *error)
{
	fields->gpu = table_reader_find(table, "gpu");
	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		fields->numbers[i] = table_reader_find(table, columns[i].name);
	}
	for (uint32_t i = 0; i < table->column_count; i++) {
		const char *name = table->names[i];
		bool is_known = strcmp(name, "group") == 0 || strcmp(name, "gpu") == 0;
		for (uint32_t j = 0; j < COLUMN_COUNT; j++) {
			is_known = is_known || strcmp(name, columns[j].name) == 0;
		}
		if (!is_known) {
			return error_set(error, STATUS_INPUT,
				"%s:%llu: found a column '%s', expected group, gpu, replicas, "
				"tensor_parallel_size, kv_blocks, max_num_seqs, "
				"max_num_batched_tokens or max_model_len%s",
				table->path, (unsigned long long)table->line_number, name,
				table_reader_way_out(table));
		}
	}
	table_reader_column(table, "group", &fields->group, error);
	table_reader_column(table, columns[0].name, &fields->numbers[0], error);
	return error->status;
}

static enum status read_text(const struct table_reader *table, uint32_t field, char *out,
	size_t capacity, struct error *error)
{
	if (strlen(table->cells[field]) >= capacity) {
		return table_reader_refuse(table, field, "a shorter name", error);
	}
	snprintf(out, capacity, "%s", table->cells[field]);
	return STATUS_OK;
}

static bool has_cell(const struct table_reader *table, uint32_t field)
{
	return field != TABLE_NO_COLUMN && strcmp(table->cells[field], "-") != 0;
}

static enum status read_group(struct table_reader *table, const struct fields *fields,
	struct fleet_group *group, struct error *error)
{
	*group = (struct fleet_group){.replicas = 0};
	TRY(read_text(table, fields->group, group->name, sizeof(group->name), error));
	if (has_cell(table, fields->gpu)) {
		TRY(read_text(table, fields->gpu, group->gpu, sizeof(group->gpu), error));
	}
	for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
		uint64_t *value = (uint64_t *)(void *)((char *)group + columns[i].offset);
		uint32_t field = fields->numbers[i];
		if (!has_cell(table, field) && i > 0) {
			continue;
		}
		TRY(table_reader_u64(table, field, columns[i].maximum, value, error));
		if (*value == 0) {
			return table_reader_refuse(table, field, "at least 1", error);
		}
		bool is_ranks =
			columns[i].offset == offsetof(struct fleet_group, tensor_parallel_size);
		if (is_ranks && (*value & (*value - 1)) != 0) {
			return table_reader_refuse(table, field, "1, 2, 4 or 8", error);
		}
	}
	return STATUS_OK;
}

/* Results tell groups apart by their names. */
static enum status check_name(const struct table_reader *table, uint32_t field,
	const struct fleet_groups *groups, struct error *error)
{
	const char *name = table->cells[field];

	if (name[0] == '\0' || strcmp(name, "-") == 0) {
		return table_reader_refuse(table, field, "a name", error);
	}
	char shown[sizeof(groups->list[0].name)];
	snprintf(shown, sizeof(shown), "%s", name);
	text_make_printable(shown);
	if (strlen(name) < sizeof(shown) && strcmp(shown, name) != 0) {
		return table_reader_refuse(table, field, "a name of printable characters", error);
	}
	for (uint32_t i = 0; i < groups->count; i++) {
		if (strcmp(groups->list[i].name, name) == 0) {
			return table_reader_refuse(
				table, field, "a name that no group above has", error);
		}
	}
	return STATUS_OK;
}

static enum status read_groups(
	struct fleet_groups *groups, struct table_reader *table, struct error *error)
{
	struct fields fields;

	TRY(find_fields(table, &fields, error));
	while (table_reader_next(table, error)) {
		if (groups->count == FLEET_GROUPS_MAX) {
			return error_set(error, STATUS_INPUT, "%s: found over %d groups",
				table->path, FLEET_GROUPS_MAX);
		}
		TRY(check_name(table, fields.group, groups, error));
		struct fleet_group *group = &groups->list[groups->count++];
		TRY(read_group(table, &fields, group, error));
		groups->replicas += group->replicas;
	}
	TRY(error->status);
	if (groups->replicas == 0 || groups->replicas > ROUTER_REPLICAS_MAX) {
		return error_set(error, STATUS_INPUT,
			"%s: found %llu replicas in all, expected 1 to %d", table->path,
			(unsigned long long)groups->replicas, ROUTER_REPLICAS_MAX);
	}
	return STATUS_OK;
}

enum status fleet_groups_read(struct fleet_groups *groups, const char *path, struct error *error)
{
	struct table_reader table = {0};

	groups->count = 0;
	groups->replicas = 0;
	table_reader_open(&table, path, NULL, error);
	enum status status = error->status;
	if (status == STATUS_OK) {
		status = read_groups(groups, &table, error);
	}
	table_reader_close(&table);
	return status;
}
