#ifndef BENCH_GRID_GRID_WORDS_H
#define BENCH_GRID_GRID_WORDS_H

#include "bench/grid/grid.h"

/* The texts of --grid and --try in parts. Texts that are returned belong to the caller. */

char *grid_words_copy(const char *text, size_t bytes);
char *grid_words_trimmed(const char *text, size_t bytes); /* without blanks around it */

/* Bytes up to a separator that has no backslash before it, or all. */
size_t grid_words_until(const char *text, size_t bytes, char separator);

/* A value: trimmed, and without its backslashes. */
char *grid_words_value(const char *text, size_t bytes);

/* Defaults, and one option as --NAME=VALUE sets it; a flag takes on and off. */
enum status grid_words_option(struct grid *grid, const char *name, const char *value,
	struct replay_config *config, struct error *error);

/* Defaults, and the options of a --try. */
enum status grid_words_try(
	struct grid *grid, const char *text, struct replay_config *config, struct error *error);

/* A range of numbers, FROM:TO:xFACTOR or FROM:TO:+STEP, of an option that is a number. */
struct grid_range {
	enum option_kind
		kind; /* of the option: COUNT, or MILLIONTHS in which all of this is then */
	uint64_t next, to;
	uint64_t step;	 /* 0: none */
	uint64_t factor; /* in millionths; 0: none */
	bool is_over;
};

/* False: a value that is no range, or of another option. */
bool grid_range_read(struct grid_range *range, const char *name, const char *value);

/* Refuses one that has no end or no values. */
enum status grid_range_check(
	const struct grid_range *range, const char *name, const char *value, struct error *error);

/* The next value as text (REPLAY_VALUE_BYTES). False: there is none. */
bool grid_range_next(struct grid_range *range, char *text);

#endif
