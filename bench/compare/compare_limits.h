#ifndef BENCH_COMPARE_COMPARE_LIMITS_H
#define BENCH_COMPARE_COMPARE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/text.h"
#include "reports/results/metric.h"

/* Limits on how far the figures of one result may be from those of another, its base. */

struct limit_list {
	struct metric_limit limits[METRIC_LIMITS_MAX];
	uint32_t count;
};

/* Adds the limits of a text, "ttft.p99<=+5%,hit_rate>=-0.5pt". name: of the option or field, for
   errors. */
enum status limit_list_add(
	struct limit_list *list, const char *name, const char *text, struct error *error);

/* Adds those of a file: one or more a line; what follows a # and empty lines are not read. */
enum status limit_list_add_file(struct limit_list *list, const char *path, struct error *error);

/* What became of a limit. LIMIT_UNKNOWN: neither result has the figure, or only the new one does,
   and the limit is a change. A figure that only the base has is a broken limit. */
enum limit_outcome { LIMIT_HOLDS, LIMIT_BROKEN, LIMIT_UNKNOWN };

struct limit_finding {
	struct result_value base, value;
	enum limit_outcome outcome;
	bool is_improved; /* the value is better than the base, beyond what the limit allows */
};

struct limit_finding limit_judge(const struct metric_limit *limit, const struct json_object *base,
	const struct json_object *value);

/* The same for two figures. */
struct limit_finding limit_judge_values(
	const struct metric_limit *limit, struct result_value base, struct result_value value);

/* Adds "ttft.p99 12.3 ms to 14.1 ms (+14.63 %), limit <=+5%". */
void limit_add_text(
	struct text *text, const struct metric_limit *limit, const struct limit_finding *finding);

/* Adds the limit as it is written: "ttft.p99<=+5%". */
void limit_add_expression(struct text *text, const struct metric_limit *limit);

/* Adds "; goodput needs --slo-ttft-ms, ..." for the figures that neither side has and that need
   options. has_figure (list->count): whether a side has the figure of a limit. */
void limits_add_options(struct text *text, const struct limit_list *list, const bool *has_figure);

/* How many limits are broken; of those not known, whose figure only the new result has, and whose
   figure neither has. */
struct limit_counts {
	uint32_t broken, without_base, without_both;
	bool has_figure[METRIC_LIMITS_MAX]; /* (list->count) a result has the limit's figure */
};

/* Prints a table of all limits, for reading or as Markdown. */
struct limit_counts limits_print(const struct limit_list *list, const struct json_object *base,
	const struct json_object *value, bool is_markdown, FILE *out);

#endif
