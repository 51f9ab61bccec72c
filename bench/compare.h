#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include "engine/base/status.h"

#include <stdbool.h>
#include <stdio.h>

/* The differences of two result folders: configuration, every number of the summaries, and the
   first step and column where their steps part. */

struct comparison {
	bool has_same_decisions; /* result hashes equal, and no count of any recorded step differs
				  */
	bool has_same_times;	 /* every other number equal */
};

/* Writes the comparison to `out`, as a table or, with is_json, as one JSON object. */
enum status compare_results(const char *a, const char *b, bool is_json, FILE *out,
	struct comparison *result, struct error *error);

#endif
