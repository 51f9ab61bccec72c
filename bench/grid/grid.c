#include "bench/grid/grid.h"

#include "bench/grid/grid_words.h"
#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "engine/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

static bool *given_of(const struct option *row, struct replay_config *config)
{
	return (bool *)((char *)config + row->given_offset);
}

static bool is_given(const struct option *row, const struct replay_config *config)
{
	return *(const bool *)((const char *)config + row->given_offset);
}

static size_t value_bytes(const struct option *row)
{
	return row->kind == OPTION_FLAG	  ? sizeof(bool)
	       : row->kind == OPTION_TEXT ? sizeof(const char *)
	       : row->kind == OPTION_WORD ? sizeof(uint32_t)
					  : sizeof(uint64_t);
}

static void copy_option(
	const struct option *row, const struct replay_config *from, struct replay_config *to)
{
	memcpy((char *)to + row->offset, (const char *)from + row->offset, value_bytes(row));
	*given_of(row, to) = true;
}

void configuration_apply(const struct configuration *configuration, struct replay_config *config)
{
	for (uint32_t i = 0; i < replay_options.count; i++) {
		const struct option *row = &replay_options.rows[i];
		if (is_given(row, &configuration->own)) {
			copy_option(row, &configuration->own, config);
		}
	}
	/* The base of a grid over replicas has nothing to choose among. */
	if (configuration->own.given.replicas && config->replicas == 1 && config->fleet == NULL) {
		replay_config_drop_router(config);
	}
}

/* ---- configurations ---- */

static void add_name(char *name, const struct option *row, const struct replay_config *config)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789_-+=:,.";
	char buffer[REPLAY_VALUE_BYTES];
	size_t used = strlen(name);

	snprintf(name + used, GRID_NAME_BYTES - used, "%s%s=%s", used == 0 ? "" : ",", row->name,
		path_name(replay_config_value(config, row, buffer)));
	for (char *at = name + used; *at != '\0'; at++) {
		*at = strchr(plain, *at) == NULL ? '_' : *at;
	}
}

bool grid_has(const struct grid *grid, const char *name)
{
	for (uint32_t i = 0; i < grid->count; i++) {
		if (strcmp(grid->list[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

/* Adds a configuration, whose name gets a number where another has it or it does not fit. */
static struct configuration *add(
	struct grid *grid, const struct replay_config *own, const char *name)
{
	enum { NUMBER_BYTES = 12 };
	struct text options = {0};
	bool is_long = strlen(name) + NUMBER_BYTES >= GRID_NAME_BYTES;

	grid->list = memory_grow(grid->list, &grid->capacity, grid->count + 1, sizeof(*grid->list));
	struct configuration *added = &grid->list[grid->count];
	*added = (struct configuration){.own = *own};
	snprintf(added->name, sizeof(added->name), "%.*s", GRID_NAME_BYTES - NUMBER_BYTES - 1,
		name[0] == '\0' ? "base" : name);
	if (is_long || grid_has(grid, added->name)) {
		size_t used = strlen(added->name);
		snprintf(added->name + used, sizeof(added->name) - used, "~%u", grid->count + 1);
	}
	replay_config_words(own, &options);
	added->options = memory_take(options.byte_count + 1, 1);
	if (options.byte_count > 0) {
		strcpy(added->options, options.bytes + 1); /* without the first blank */
	}
	text_deinit(&options);
	grid->count++;
	return added;
}

/* ---- --grid ---- */

/* The values of the parameters while they are read: (value) in the order of the text. */
struct column {
	struct replay_config *configs; /* (count) with one option given */
	size_t capacity;
	uint32_t count;
};

/* The row that a word has set; NULL: none but those of `before`. */
static const struct option *row_given(const struct replay_config *config)
{
	for (uint32_t i = 0; i < replay_options.count; i++) {
		if (is_given(&replay_options.rows[i], config)) {
			return &replay_options.rows[i];
		}
	}
	return NULL;
}

static enum status add_value(struct grid *grid, struct column *column, const char *name,
	const char *value, struct error *error)
{
	struct grid_parameter *parameter = &grid->parameters[grid->parameter_count];
	struct replay_config config;
	char buffer[REPLAY_VALUE_BYTES];

	if (value[strcspn(value, "\t\r\n")] != '\0') { /* it is a cell of a table too */
		return error_set(error, STATUS_USAGE,
			"--grid: a value of %s has a tab or a line break", name);
	}
	TRY(grid_words_option(grid, name, value, &config, error));
	const struct option *row = row_given(&config);
	if (parameter->option != NULL && row != parameter->option) {
		return error_set(error, STATUS_USAGE, "--grid: %s=%s sets --%s and not --%s", name,
			value, row->name, parameter->option->name);
	}
	parameter->option = row;
	const char *text = replay_config_value(&config, row, buffer);
	for (uint32_t i = 0; i < parameter->value_count; i++) {
		if (strcmp(parameter->values[i], text) == 0) {
			return error_set(
				error, STATUS_USAGE, "--grid: %s has %s twice", row->name, text);
		}
	}
	if (column->count == GRID_VALUES_MAX) {
		return error_set(error, STATUS_USAGE, "--grid: %s has more than %d values", name,
			GRID_VALUES_MAX);
	}
	column->configs = memory_grow(
		column->configs, &column->capacity, column->count + 1, sizeof(*column->configs));
	column->configs[column->count++] = config;
	parameter->values = memory_resize(
		parameter->values, (parameter->value_count + 1) * sizeof(*parameter->values));
	parameter->values[parameter->value_count++] = grid_words_copy(text, strlen(text));
	return STATUS_OK;
}

/* Adds a value of the text, or all of its range. */
static enum status add_values(struct grid *grid, struct column *column, const char *name,
	const char *value, struct error *error)
{
	struct grid_range range;
	char text[REPLAY_VALUE_BYTES];

	if (!grid_range_read(&range, name, value)) {
		return add_value(grid, column, name, value, error);
	}
	TRY(grid_range_check(&range, name, value, error));
	while (grid_range_next(&range, text)) {
		TRY(add_value(grid, column, name, text, error));
	}
	return STATUS_OK;
}

/* "NAME=VALUE,VALUE" */
static enum status read_column(struct grid *grid, struct column *column, const char *text,
	size_t bytes, const struct replay_config *base, struct error *error)
{
	char *name = NULL, *value = NULL;
	const char *end = text + bytes;
	enum status status = STATUS_OK;

	if (grid->parameter_count == GRID_PARAMETERS_MAX) {
		return error_set(error, STATUS_USAGE, "--grid varies more than %d options",
			GRID_PARAMETERS_MAX);
	}
	const char *equals = memchr(text, '=', bytes);
	if (equals == NULL) {
		return error_set(error, STATUS_USAGE,
			"--grid: found '%.*s', expected OPTION=VALUE,...", (int)bytes, text);
	}
	text += strspn(text, " -"); /* --gpu is understood too */
	name = grid_words_trimmed(text, text < equals ? (size_t)(equals - text) : 0);
	for (text = equals; status == STATUS_OK && text < end;) {
		size_t length = grid_words_until(text + 1, (size_t)(end - text - 1), ',');
		value = grid_words_value(text + 1, length);
		status = add_values(grid, column, name, value, error);
		free(value);
		text += 1 + length;
	}
	free(name);
	grid->parameter_count++; /* what was read of it is closed with the others */
	TRY(status);
	const struct option *row = grid->parameters[grid->parameter_count - 1].option;
	for (uint32_t i = 0; i + 1 < grid->parameter_count; i++) {
		if (grid->parameters[i].option == row) {
			return error_set(
				error, STATUS_USAGE, "--grid: %s is there twice", row->name);
		}
	}
	return !is_given(row, base) ? STATUS_OK
				    : error_set(error, STATUS_USAGE,
					      "--%s is given, and --grid varies it", row->name);
}

/* Adds the configurations of the parameters' values. */
static enum status multiply(struct grid *grid, const struct column *columns, struct error *error)
{
	uint64_t count = 1;

	for (uint32_t i = 0; i < grid->parameter_count; i++) {
		count *= columns[i].count;
		if (count > GRID_CONFIGURATIONS_MAX) {
			return error_set(error, STATUS_USAGE,
				"--grid has more than %d configurations", GRID_CONFIGURATIONS_MAX);
		}
	}
	for (uint64_t n = 0; n < count; n++) {
		uint32_t values[GRID_PARAMETERS_MAX] = {0};
		struct replay_config own;
		char name[GRID_NAME_BYTES] = "";
		uint64_t rest = n;
		replay_config_default(&own);
		for (uint32_t i = grid->parameter_count; i-- > 0;) {
			values[i] = (uint32_t)(rest % columns[i].count);
			rest /= columns[i].count;
		}
		for (uint32_t i = 0; i < grid->parameter_count; i++) {
			const struct option *row = grid->parameters[i].option;
			copy_option(row, &columns[i].configs[values[i]], &own);
			if (columns[i].count > 1 || count == 1) {
				add_name(name, row, &own);
			}
		}
		memcpy(add(grid, &own, name)->values, values, sizeof(values));
	}
	return STATUS_OK;
}

static enum status read_columns(struct grid *grid, struct column *columns, const char *text,
	const struct replay_config *base, struct error *error)
{
	for (;;) {
		size_t bytes = grid_words_until(text, strlen(text), ';');
		struct column spare = {0};
		struct column *column = grid->parameter_count < GRID_PARAMETERS_MAX
						? &columns[grid->parameter_count]
						: &spare;
		TRY(read_column(grid, column, text, bytes, base, error));
		if (text[bytes] == '\0') {
			return multiply(grid, columns, error);
		}
		text += bytes + 1;
	}
}

static enum status read_grid(
	struct grid *grid, const char *text, const struct replay_config *base, struct error *error)
{
	struct column columns[GRID_PARAMETERS_MAX] = {{0}};
	enum status status = read_columns(grid, columns, text, base, error);

	for (uint32_t i = 0; i < GRID_PARAMETERS_MAX; i++) {
		free(columns[i].configs);
	}
	return status;
}

/* ---- --try ---- */

static bool is_equal(const struct replay_config *a, const struct replay_config *b)
{
	for (uint32_t i = 0; i < replay_options.count; i++) {
		const struct option *row = &replay_options.rows[i];
		char here[REPLAY_VALUE_BYTES], there[REPLAY_VALUE_BYTES];
		if (is_given(row, a) != is_given(row, b) ||
			strcmp(replay_config_value(a, row, here),
				replay_config_value(b, row, there)) != 0) {
			return false;
		}
	}
	return true;
}

static enum status read_try(
	struct grid *grid, const char *text, const struct replay_config *base, struct error *error)
{
	struct replay_config own, whole = *base, other;
	char name[GRID_NAME_BYTES] = "";

	if (grid->count == GRID_CONFIGURATIONS_MAX) {
		return error_set(error, STATUS_USAGE, "more than %d configurations",
			GRID_CONFIGURATIONS_MAX);
	}
	TRY(grid_words_try(grid, text, &own, error));
	for (uint32_t i = 0; i < replay_options.count; i++) {
		if (is_given(&replay_options.rows[i], &own)) {
			add_name(name, &replay_options.rows[i], &own);
		}
	}
	configuration_apply(&(struct configuration){.own = own}, &whole);
	for (uint32_t i = 0; i < grid->count; i++) {
		other = *base;
		configuration_apply(&grid->list[i], &other);
		if (is_equal(&whole, &other)) {
			return error_set(error, STATUS_USAGE,
				"--try '%.200s' is the same configuration as %s", text,
				grid->list[i].name);
		}
	}
	add(grid, &own, name);
	return STATUS_OK;
}

/* ---- opening ---- */

enum status grid_open(struct grid *grid, const char *grid_text, const struct option_texts *tries,
	const struct replay_config *base, struct error *error)
{
	*grid = (struct grid){.count = 0};
	if (grid_text != NULL) {
		TRY(read_grid(grid, grid_text, base, error));
	}
	for (uint32_t i = 0; tries != NULL && i < tries->count; i++) {
		TRY(read_try(grid, tries->list[i], base, error));
	}
	return grid->count > 0 ? STATUS_OK : read_try(grid, "base", base, error);
}

void grid_close(struct grid *grid)
{
	for (uint32_t i = 0; i < grid->parameter_count; i++) {
		for (uint32_t j = 0; j < grid->parameters[i].value_count; j++) {
			free(grid->parameters[i].values[j]);
		}
		free(grid->parameters[i].values);
	}
	for (uint32_t i = 0; i < grid->count; i++) {
		free(grid->list[i].options);
	}
	for (uint32_t i = 0; i < grid->word_count; i++) {
		free(grid->words[i]);
	}
	free(grid->list);
	free(grid->words);
	*grid = (struct grid){.count = 0};
}
