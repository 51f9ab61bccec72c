#ifndef BENCH_COMPARE_COMPARE_H
#define BENCH_COMPARE_COMPARE_H

#include "bench/compare/compare_steps.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "reports/results/results.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The differences of two result folders: configuration, every value of the summaries, and the first
   step and column where their steps diverge. Decisions are covered by the result hash and shown by
   the step counts. Two runs with equal decisions may differ in times. */

/* Where the names of the configuration's values begin. */
#define CONFIG_PREFIX SUMMARY_CONFIG "."

enum { COMPARED_NAME_BYTES = 96, COMPARED_TEXT_BYTES = 192 };

/* A value of summary.json, by its path: "latency_ms.ttft.p99". */
struct compared_value {
	char name[COMPARED_NAME_BYTES];
	char a[COMPARED_TEXT_BYTES], b[COMPARED_TEXT_BYTES]; /* as text; "-": absent or null */
	double a_number, b_number;
	bool is_number; /* both values are numbers */
	bool is_equal;
	bool is_config; /* below "config" */
};

struct comparison {
	const char *a, *b; /* the folders, borrowed */
	struct json_document a_summary, b_summary;
	struct compared_value *values; /* (value_count) in the order of A, then those that only B
					  has */
	uint32_t value_count;
	bool has_same_trace;
	bool has_same_hash;
	bool has_steps; /* both folders have a steps.tsv */
	struct step_comparison steps;
	bool has_same_decisions;
	bool has_same_values;	 /* all values are equal but config and names */
	bool shows_changes_only; /* set by who prints: equal values are left out */
};

/* Borrows the folder names. Nothing has to be closed after a failure. */
enum status comparison_open(
	struct comparison *out, const char *a, const char *b, struct error *error);
void comparison_close(struct comparison *comparison);

/* The status of a summary's run where that is not complete: its figures are of the requests until
   then. NULL: it is complete, or older than the field. */
const char *comparison_part_status(const struct json_document *summary);

/* Refuses such runs: limits would judge them by other requests. */
enum status comparison_require_whole(const struct comparison *comparison, struct error *error);

/* Prints folders, decisions and the values of the configuration that differ. */
void comparison_print_head(const struct comparison *comparison, FILE *out);

/* Prints the head and a table of all figures for reading, or one JSON object of both. */
void comparison_print(const struct comparison *comparison, FILE *out);
void comparison_print_json(const struct comparison *comparison, FILE *out);

/* Prints the values of the configuration that differ, as a table of Markdown. */
void comparison_print_markdown(const struct comparison *comparison, FILE *out);

#endif
