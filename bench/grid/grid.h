#ifndef BENCH_GRID_GRID_H
#define BENCH_GRID_GRID_H

#include "bench/replay/replay_config.h"

/* Configurations to compare, from texts of a command line.

       --grid 'gpu=h200,h100;max-num-seqs=128,256'    every combination of the values, the last
                                                      option varying fastest
       --try '--policy vllm --max-num-seqs 256'       one configuration
       --try base                                     the one without further options

   Options are those of a replay, by any of the names that its command line takes. In a grid,
   semicolons part options and commas their values; blanks around them do not count; `\,` `\;` and
   `\\` are the characters inside a value. A flag takes on and off. A number may be a range:
   1000:8000:x2 is 1000, 2000, 4000 and 8000, and 100:200:+50 is 100, 150 and 200. In a --try,
   blanks part the words, and single quotes keep them together.

   A grid may not vary what is given beside it; a --try replaces it. */

enum {
	GRID_PARAMETERS_MAX = 8,
	GRID_VALUES_MAX = 4096, /* of a parameter */
	GRID_CONFIGURATIONS_MAX = 10000,
	GRID_NAME_BYTES = 128,
};

/* An option that a grid varies. */
struct grid_parameter {
	const struct option *option; /* of replay_options */
	uint32_t value_count;
	char **values; /* (value_count) as replay_config_value() has them, owned */
};

struct configuration {
	/* What differs from the others: "gpu=h200,max-num-seqs=128"; where the grid has one
	   configuration, all that it says; "base" without further options. It is the name of a
	   folder too, and no other configuration's. */
	char name[GRID_NAME_BYTES];
	char *options; /* as a command line has them, "--gpu h200 --max-num-seqs 128"; owned */
	uint32_t values[GRID_PARAMETERS_MAX]; /* of a grid: an index of each parameter's values */

	/* Its own options have `given` set; use configuration_apply(). */
	struct replay_config own;
};

struct grid {
	uint32_t parameter_count; /* 0 without a grid */
	struct grid_parameter parameters[GRID_PARAMETERS_MAX];
	uint32_t count;
	struct configuration *list; /* (count) the grid's, then those of --try; owned */

	uint32_t word_count;
	char **words; /* (word_count) what texts of configurations point to; owned */
	size_t word_capacity, capacity;
};

/* Reads texts (grid_text NULL: none) into configurations of which no two are equal. base: the
   options of the command line. Both empty: one configuration, `base`. To be closed after a failure
   too. */
enum status grid_open(struct grid *grid, const char *grid_text, const struct option_texts *tries,
	const struct replay_config *base, struct error *error);

void grid_close(struct grid *grid);

/* Whether it has a configuration of that name. */
bool grid_has(const struct grid *grid, const char *name);

/* Replaces in `config` what the configuration sets; its texts are the grid's. */
void configuration_apply(const struct configuration *configuration, struct replay_config *config);

#endif
