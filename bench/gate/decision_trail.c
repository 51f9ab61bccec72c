#include "bench/gate/decision_trail.h"

#include "bench/compare/compare_steps.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Keeps every other checkpoint, once there is no room for more. */
static void thin(struct decision_trail *trail)
{
	for (uint32_t i = 0; i < TRAIL_CHECKPOINTS_MAX / 2; i++) {
		trail->hashes[i] = trail->hashes[2 * i + 1];
	}
	trail->count = TRAIL_CHECKPOINTS_MAX / 2;
	trail->stride *= 2;
}

static void add_checkpoint(struct decision_trail *trail, uint64_t hash)
{
	if (trail->count == TRAIL_CHECKPOINTS_MAX) {
		thin(trail);
	}
	/* thinning may have made this step one that is not kept */
	if (trail->step_count % trail->stride == 0) {
		trail->hashes[trail->count++] = (uint32_t)hash;
	}
}

static enum status read_rows(struct decision_trail *trail, struct table_reader *table,
	XXH64_state_t *decisions, XXH64_state_t *times, struct error *error)
{
	bool is_decision[TABLE_COLUMNS_MAX];

	for (uint32_t i = 0; i < table->column_count; i++) {
		is_decision[i] = step_column_is_decision(table->names[i], true);
	}
	while (table_reader_next(table, error)) {
		for (uint32_t i = 0; i < table->column_count; i++) {
			const char *cell = table->cells[i];
			/* with its NUL, which separates the cells */
			XXH64_update(is_decision[i] ? decisions : times, cell, strlen(cell) + 1);
		}
		trail->step_count++;
		if (trail->step_count % trail->stride == 0) {
			add_checkpoint(trail, XXH64_digest(decisions));
		}
	}
	trail->decisions = XXH64_digest(decisions);
	trail->times = XXH64_digest(times);
	return error->status;
}

enum status decision_trail_read(struct decision_trail *trail, const char *path, struct error *error)
{
	struct table_reader table;

	*trail = (struct decision_trail){.stride = 1};
	trail->hashes = memory_take(TRAIL_CHECKPOINTS_MAX, sizeof(*trail->hashes));
	enum status status = table_reader_open(&table, path, NULL, error);
	if (status == STATUS_OK) {
		XXH64_state_t *decisions = memory_take_hash(), *times = memory_take_hash();
		status = read_rows(trail, &table, decisions, times, error);
		XXH64_freeState(decisions);
		XXH64_freeState(times);
	}
	table_reader_close(&table);
	return status;
}

void decision_trail_close(struct decision_trail *trail)
{
	free(trail->hashes);
	*trail = (struct decision_trail){0};
}

static void add_hash(cJSON *object, const char *name, uint64_t hash)
{
	char text[20];

	snprintf(text, sizeof(text), "%016" PRIx64, hash);
	cJSON_AddStringToObject(object, name, text);
}

cJSON *decision_trail_to_json(const struct decision_trail *trail)
{
	cJSON *object = cJSON_CreateObject();
	char *digits = memory_take((size_t)trail->count * 8 + 1, 1);

	cJSON_AddNumberToObject(object, "steps", (double)trail->step_count);
	cJSON_AddNumberToObject(object, "stride", (double)trail->stride);
	add_hash(object, "decisions", trail->decisions);
	add_hash(object, "times", trail->times);
	for (uint32_t i = 0; i < trail->count; i++) {
		snprintf(digits + (size_t)8 * i, 9, "%08" PRIx32, trail->hashes[i]);
	}
	cJSON_AddStringToObject(object, "checkpoints", digits);
	free(digits);
	return object;
}

static enum status read_hash(
	const struct json_object *object, const char *name, uint64_t *out, struct error *error)
{
	const char *text;

	TRY(json_text(object, name, &text, error));
	if (strlen(text) != 16 || sscanf(text, "%16" SCNx64, out) != 1) {
		return json_refuse(object, name, "16 hexadecimal digits", error);
	}
	return STATUS_OK;
}

enum status decision_trail_from_json(
	struct decision_trail *trail, const struct json_object *object, struct error *error)
{
	const char *digits;

	*trail = (struct decision_trail){0};
	TRY(json_u64(object, "steps", 0, JSON_INTEGER_MAX, &trail->step_count, error));
	TRY(json_u64(object, "stride", 1, JSON_INTEGER_MAX, &trail->stride, error));
	TRY(read_hash(object, "decisions", &trail->decisions, error));
	TRY(read_hash(object, "times", &trail->times, error));
	TRY(json_text(object, "checkpoints", &digits, error));
	bool is_power = (trail->stride & (trail->stride - 1)) == 0;
	uint64_t count = trail->step_count / trail->stride;
	if (!is_power || count > TRAIL_CHECKPOINTS_MAX || strlen(digits) != 8 * count ||
		strspn(digits, "0123456789abcdef") != 8 * count) {
		return json_refuse(
			object, "checkpoints", "8 hexadecimal digits for each stride", error);
	}
	trail->hashes = memory_take(count + 1, sizeof(*trail->hashes));
	for (; trail->count < count; trail->count++) {
		(void)sscanf(digits + (size_t)8 * trail->count, "%8" SCNx32,
			&trail->hashes[trail->count]);
	}
	return STATUS_OK;
}

bool decision_trail_part(const struct decision_trail *a, const struct decision_trail *b,
	uint64_t *first, uint64_t *end)
{
	if (a->step_count == b->step_count && a->decisions == b->decisions) {
		return false;
	}
	uint64_t stride = u64_max(a->stride, b->stride);
	uint64_t shorter = u64_min(a->step_count, b->step_count);

	*first = 0;
	for (uint64_t at = stride; at <= shorter; at += stride) {
		if (a->hashes[at / a->stride - 1] != b->hashes[at / b->stride - 1]) {
			*end = at;
			return true;
		}
		*first = at;
	}
	*end = u64_max(a->step_count, b->step_count);
	return true;
}
