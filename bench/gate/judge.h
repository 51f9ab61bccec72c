#ifndef BENCH_GATE_JUDGE_H
#define BENCH_GATE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/gate/evidence.h"
#include "bench/gate/suite.h"
#include "engine/base/text.h"

/* What a gate says of a case. X(enumerator, word, what it costs: 0 nothing, 1 a verdict, 2 the
   comparison is not one, what it means). A later one goes before an earlier one. */
#define GATE_STATUS_LIST(X)                                                                        \
	X(GATE_PASS, "PASS", 0, "same decisions, figures within their limits")                     \
	X(GATE_IMPROVED, "IMPROVED", 0, "better than the limits allow to be worse")                \
	X(GATE_NEW, "NEW", 0, "the baseline does not have this case: --update adds it")            \
	X(GATE_REGRESSED, "REGRESSED", 1, "a figure or a cost is beyond its limit")                \
	X(GATE_CHANGED, "BEHAVIOR_CHANGED", 1, "other decisions for the same trace")               \
	X(GATE_MISSING, "MISSING", 1, "the baseline has a case that the suite lacks")              \
	X(GATE_FAILED, "FAILED", 1, "the run failed")                                              \
	X(GATE_INVALID, "INVALID", 2, "trace, model, profile or option is not the baseline's")

enum gate_status {
#define GATE_STATUS_ENUM(status, word, cost, meaning) status,
	GATE_STATUS_LIST(GATE_STATUS_ENUM)
#undef GATE_STATUS_ENUM
		GATE_STATUS_COUNT
};

extern const char *const gate_status_words[GATE_STATUS_COUNT];
extern const char *const gate_status_meanings[GATE_STATUS_COUNT];
extern const int gate_status_costs[GATE_STATUS_COUNT];

/* What was found of a case, a line each. */
enum { FINDINGS_MAX = 48 };

/* A figure of a case that has a limit, or a cost: the mean of its runs. */
struct gate_figure {
	const char *name;
	double value;
};

struct gate_verdict {
	char name[SUITE_NAME_BYTES]; /* of the case */
	enum gate_status status;
	struct text findings[FINDINGS_MAX]; /* (count) owned */
	uint32_t count;
	struct gate_figure figures[METRIC_LIMITS_MAX + COST_COUNT]; /* (figure_count) */
	uint32_t figure_count;
	uint64_t elapsed_ns; /* of its runs; 0: there were none */
};

/* Adds a finding and raises the status; returns the finding's text, to be continued. */
struct text *verdict_add(struct gate_verdict *verdict, enum gate_status status);
void verdict_close(struct gate_verdict *verdict);

/* Notes the figures of a case that have limits, and its costs. */
void verdict_note_figures(
	struct gate_verdict *verdict, const struct suite_case *rules, const struct evidence *value);

/* Judges a case's evidence by its base's.

   Decisions are compared unless times are measured and the runs of a side differ among themselves,
   as where arrivals meet a step that took another time.

   Where the steps are equal in decisions and times, every figure must be equal too, whatever its
   limit: the same steps counted differently are a fault of the accounts.

   Figures of measured times are judged by the interval of their ratio (bench/gate/ratio.h) and
   broken only where all of it lies beyond the limit.

   is_same_machine: the base's costs were measured on this machine, with this compiler. Else they
   are shown and not judged, unless the environments agree. */
void judge_case(struct gate_verdict *verdict, const struct suite_case *rules,
	const struct evidence *base, const struct evidence *value, bool is_same_machine);

#endif
