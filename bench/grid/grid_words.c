#include "bench/grid/grid_words.h"

#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MILLION = 1000 * 1000, WORDS_MAX = 256 };

/* ---- texts ---- */

char *grid_words_copy(const char *text, size_t bytes)
{
	char *copy = memory_take(bytes + 1, 1);

	memcpy(copy, text, bytes);
	return copy;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

char *grid_words_trimmed(const char *text, size_t bytes)
{
	while (bytes > 0 && is_blank(*text)) {
		text++;
		bytes--;
	}
	while (bytes > 0 && is_blank(text[bytes - 1])) {
		bytes--;
	}
	return grid_words_copy(text, bytes);
}

size_t grid_words_until(const char *text, size_t bytes, char separator)
{
	size_t at = 0;

	while (at < bytes && text[at] != separator) {
		at += text[at] == '\\' && at + 1 < bytes ? 2 : 1;
	}
	return at;
}

char *grid_words_value(const char *text, size_t bytes)
{
	char *value = grid_words_trimmed(text, bytes);
	size_t to = 0;

	for (size_t from = 0; value[from] != '\0'; from++) {
		from += value[from] == '\\' && value[from + 1] != '\0';
		value[to++] = value[from];
	}
	value[to] = '\0';
	return value;
}

/* ---- options ---- */

static const struct option all_options[] = {
	{GROUP_OF_TABLE("simulated")},
	{GROUP_OF_TABLE("fleet")},
	{GROUP_OF_TABLE("engine")},
	{GROUP_OF_TABLE("load")},
	{GROUP_OF_TABLE("tokens")},
};

/* A command line that has the options of a replay and nothing else. */
static const struct command options_only = {
	.name = "replay",
	OPTIONS(all_options),
	.table = &replay_options,
	.value_bytes = sizeof(struct replay_config),
};

/* Parses words (count), of which the first is not read. They must outlive config. */
static enum status parse(
	char **words, uint32_t count, struct replay_config *config, struct error *error)
{
	struct command_line line = {
		.command = &options_only, .argc = (int)count, .argv = words, .values = config};
	bool wants_help;

	command_defaults(&options_only, config);
	TRY(command_parse(&line, &wants_help, error));
	return wants_help
		       ? error_set(error, STATUS_USAGE, "found --help, expected options of a run")
		       : STATUS_OK;
}

/* Gives a text to the grid, which keeps it as long as its configurations. */
static char *keep(struct grid *grid, char *word)
{
	grid->words = memory_grow(
		grid->words, &grid->word_capacity, grid->word_count + 1, sizeof(*grid->words));
	grid->words[grid->word_count++] = word;
	return word;
}

static const struct option *flag_named(const char *name)
{
	const struct option *row = option_table_find(&replay_options, name);

	return row != NULL && row->kind == OPTION_FLAG ? row : NULL;
}

/* A name of one dash, such as -tp. */
static bool is_alias(const char *name)
{
	for (uint32_t i = 0; i < replay_options.count; i++) {
		const char *alias = replay_options.rows[i].alias;
		if (alias != NULL && strcmp(alias, name) == 0) {
			return true;
		}
	}
	return false;
}

/* A range of numbers that does not say how it goes on. */
static bool is_short_range(const char *name, const char *value)
{
	const struct option *row = option_table_find(&replay_options, name);

	return row != NULL && (row->kind == OPTION_COUNT || row->kind == OPTION_MILLIONTHS) &&
	       strchr(value, ':') != NULL;
}

enum status grid_words_option(struct grid *grid, const char *name, const char *value,
	struct replay_config *config, struct error *error)
{
	const struct option *flag = flag_named(name);
	size_t bytes = strlen(name) + strlen(value) + 4;
	char *word = keep(grid, memory_take(bytes, 1));
	char first[] = "grid";
	char *words[] = {first, word};
	struct error reason = {0};

	if (flag != NULL && strcmp(value, "on") != 0 && strcmp(value, "off") != 0) {
		return error_set(error, STATUS_USAGE,
			"--grid: --%s: found '%s', expected on or off", name, value);
	}
	const char *dashes = is_alias(name) ? "-" : "--";
	snprintf(word, bytes, flag != NULL ? "%s%s" : "%s%s=%s", dashes, name, value);
	if (parse(words, 2, config, &reason) != STATUS_OK) {
		return error_set(error, STATUS_USAGE, "--grid: %s%s", reason.text,
			is_short_range(name, value)
				? "; a range is FROM:TO:xFACTOR or FROM:TO:+STEP"
				: "");
	}
	if (flag != NULL) {
		*(bool *)((char *)config + flag->offset) = strcmp(value, "on") == 0;
	}
	return STATUS_OK;
}

/* ---- --try ---- */

/* The next word of a text, which moves behind it; quotes keep blanks. NULL: there is none, or a
   quote is not closed. */
static char *next_word(const char **text)
{
	size_t used = 0;
	bool is_quoted = false;

	while (is_blank(**text)) {
		(*text)++;
	}
	if (**text == '\0') {
		return NULL;
	}
	char *word = memory_take(strlen(*text) + 1, 1);
	for (; **text != '\0' && (is_quoted || !is_blank(**text)); (*text)++) {
		if (**text == '\'') {
			is_quoted = !is_quoted;
		} else {
			word[used++] = **text;
		}
	}
	return word;
}

enum status grid_words_try(
	struct grid *grid, const char *text, struct replay_config *config, struct error *error)
{
	const char *rest = text;
	char first[] = "try";
	char *words[WORDS_MAX] = {first}, *word;
	uint32_t count = 1;
	struct error reason = {0};

	replay_config_default(config);
	if (strcmp(text, "base") == 0) {
		return STATUS_OK;
	}
	for (const char *at = strchr(text, '\''); at != NULL; at = strchr(at + 1, '\'')) {
		at = strchr(at + 1, '\'');
		if (at == NULL) {
			return error_set(error, STATUS_USAGE,
				"--try '%.200s': a single quote is not closed", text);
		}
	}
	while ((word = next_word(&rest)) != NULL) {
		words[count] = keep(grid, word);
		if (++count == WORDS_MAX) {
			return error_set(
				error, STATUS_USAGE, "--try has more than %d words", WORDS_MAX - 2);
		}
	}
	if (count == 1) {
		return error_set(error, STATUS_USAGE,
			"--try: found no option, expected some, or the word base");
	}
	if (parse(words, count, config, &reason) != STATUS_OK) {
		bool is_extra = strncmp(reason.text, "one argument too many", 21) == 0;
		return error_set(error, STATUS_USAGE, "--try '%.150s': %s%s", text, reason.text,
			is_extra ? ", expected options" : "");
	}
	return STATUS_OK;
}

/* ---- ranges ---- */

static bool read_number(
	const struct grid_range *range, const char *text, size_t bytes, uint64_t *out)
{
	char number[NUMBER_TEXT_BYTES];

	if (bytes >= sizeof(number)) {
		return false;
	}
	snprintf(number, sizeof(number), "%.*s", (int)bytes, text);
	return range->kind == OPTION_COUNT ? text_to_u64(number, out)
					   : text_to_millionths(number, out);
}

bool grid_range_read(struct grid_range *range, const char *name, const char *value)
{
	const struct option *row = option_table_find(&replay_options, name);
	const char *first = strchr(value, ':');
	const char *second = first == NULL ? NULL : strchr(first + 1, ':');

	if (row == NULL || second == NULL ||
		(row->kind != OPTION_COUNT && row->kind != OPTION_MILLIONTHS)) {
		return false;
	}
	*range = (struct grid_range){.kind = row->kind};
	if (!read_number(range, value, (size_t)(first - value), &range->next) ||
		!read_number(range, first + 1, (size_t)(second - first - 1), &range->to)) {
		return false;
	}
	return second[1] == 'x'	  ? text_to_millionths(second + 2, &range->factor)
	       : second[1] == '+' ? read_number(range, second + 2, strlen(second + 2), &range->step)
				  : false;
}

/* The value behind one; UINT64_MAX: beyond all. */
static uint64_t value_behind(const struct grid_range *range, uint64_t value)
{
	u128 next = range->factor > 0 ? (u128)value * range->factor / MILLION
				      : (u128)value + range->step;

	return next > UINT64_MAX ? UINT64_MAX : (uint64_t)next;
}

enum status grid_range_check(
	const struct grid_range *range, const char *name, const char *value, struct error *error)
{
	if (range->next > range->to) {
		return error_set(
			error, STATUS_USAGE, "--grid: %s=%s ends before it begins", name, value);
	}
	/* A factor moves larger values by more. */
	if (value_behind(range, range->next) <= range->next) {
		return error_set(error, STATUS_USAGE, "--grid: %s=%s does not grow", name, value);
	}
	return STATUS_OK;
}

bool grid_range_next(struct grid_range *range, char *text)
{
	if (range->is_over) {
		return false;
	}
	decimal_text(text, range->next, range->kind == OPTION_COUNT ? 0 : 6);
	uint64_t next = value_behind(range, range->next);
	range->is_over = next > range->to || next <= range->next;
	range->next = next;
	return true;
}
