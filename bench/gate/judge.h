#ifndef BENCH_GATE_JUDGE_H
#define BENCH_GATE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/gate/evidence.h"
#include "bench/gate/ratio.h"
#include "bench/gate/suite.h"
#include "engine/base/text.h"
#include "reports/results/gate_words.h"
#include "reports/results/metric.h"

/* What was found of a case, a line each. */
enum {
	FINDINGS_MAX = 48,
	GATE_FIGURES_MAX =
		METRIC_LIMITS_MAX + (int)LATENCY_COUNT * (int)STATISTIC_COUNT + (int)COST_COUNT
};

/* A figure of a case that has a limit, a latency of a simulation of recorded runs, or a cost: the
   means of both sides' runs, and how far they are apart where times were measured. */
struct gate_figure {
	const char *name;
	const struct metric *metric; /* NULL: a cost */
	double value;
	bool has_base;
	double base;
	bool is_broken;	    /* a limit of it is */
	bool has_spread;    /* the base has several runs, */
	double spread;	    /* which are at most this far from their mean, as a share of it */
	struct ratio ratio; /* of value / base; not known: a comparison of two numbers */
	double least_seen;  /* the least change beyond the limit that would have been flagged, as a
			       share of the base: the noise decides; valid with the ratio */
};

struct gate_verdict {
	char name[SUITE_NAME_BYTES]; /* of the case */
	enum gate_status status;
	bool is_simulation;		    /* of the recorded runs that its base is */
	bool is_against;		    /* the base is of another program, run beside it */
	struct text findings[FINDINGS_MAX]; /* (count) owned */
	uint32_t count;
	struct gate_figure figures[GATE_FIGURES_MAX]; /* (figure_count) */
	uint32_t figure_count;
	uint64_t elapsed_ns; /* of its runs; 0: there were none */
};

/* Adds a finding and raises the status; returns the finding's text, to be continued. */
struct text *verdict_add(struct gate_verdict *verdict, enum gate_status status);
void verdict_close(struct gate_verdict *verdict);

/* Notes the figures of a case that have limits, mean, p50, p90 and p99 of every latency where the
   case simulates recorded runs, and its costs. */
void verdict_note_figures(
	struct gate_verdict *verdict, const struct suite_case *rules, const struct evidence *value);

/* Judges a case's evidence by its base's.

   Decisions are compared unless times are measured and the runs of a side differ among themselves,
   as where arrivals meet a step that took another time.

   Where the steps are equal in decisions and times, every figure must be equal too, whatever its
   limit: the same steps counted differently are a fault of the accounts.

   Where a latency breaks its limit, and nothing was measured, the histograms tell how many requests
   moved.

   Figures of measured times are judged by the interval of their ratio, which reaches as far as that
   over runs (bench/gate/ratio.h) and that over runs and requests (bench/gate/bootstrap.h). A limit
   is broken only where all of the interval lies beyond it.

   A simulation of a recorded base (`recorded` of the suite) is judged by its limits alone: it may
   decide otherwise, since its steps take other times, and no figure is better than the real one.

   Where trace, profile or settings are not the base's, the case is INVALID and nothing else is
   judged; its figures have the base's beside them.

   is_against: the base is of another program, whose costs were measured on this machine too. Those
   of a baseline are shown and not judged, unless the environments agree. */
void judge_case(struct gate_verdict *verdict, const struct suite_case *rules,
	const struct evidence *base, const struct evidence *value, bool is_against);

/* A case that the baseline does not have. */
void judge_new_case(
	struct gate_verdict *verdict, const struct suite_case *rules, const struct evidence *value);

#endif
