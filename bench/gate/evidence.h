#ifndef BENCH_GATE_EVIDENCE_H
#define BENCH_GATE_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/gate/bootstrap.h"
#include "bench/gate/decision_trail.h"
#include "bench/gate/histograms.h"
#include "bench/gate/request_latencies.h"
#include "bench/gate/suite.h"
#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

/* What a gate knows of a case: summary, decisions and latencies of its first run, the figures of
   every run, and what the runs cost. It comes from runs, or from a baseline, CASE.json of some
   kilobytes, which is meant to be committed. */

#define BASELINE_SCHEMA "quire-baseline-1"

/* What runs cost, a value a run where it is taken of each. */
struct gate_costs {
	uint32_t counts[COST_COUNT]; /* of values; 0: not known */
	double values[COST_COUNT][SUITE_REPEATS_MAX];
};

void gate_costs_add(struct gate_costs *costs, enum gate_cost cost, double value);

/* Of a cost that is known. */
double gate_costs_mean(const struct gate_costs *costs, enum gate_cost cost);

struct evidence {
	struct json_document document; /* a summary.json, or a baseline */
	struct json_object summary;    /* in the document */
	bool is_computed;	       /* its times were measured, and differ between runs */
	const char *trace_xxh64, *result_hash; /* in the document */
	struct decision_trail trail;
	bool has_same_decisions; /* all runs made the same ones */
	uint32_t run_count;
	double *figures;  /* owned: (run_count, METRIC_COUNT) */
	bool *is_present; /* owned: (run_count, METRIC_COUNT) */
	struct histograms histograms;
	/* owned: (run_count) where times were measured, else NULL; a count of 0: not known */
	struct request_latencies *requests;
	struct gate_costs costs;
	struct text environment; /* of the costs: compiler, libraries, processor */
};

/* Takes a run's folder: the first one gives summary and decisions, further ones their figures. One
   of another trace, or with another setting that was not filled in, is refused. */
enum status evidence_add_run(struct evidence *evidence, const char *folder, struct error *error);

/* Reads the baseline of the case `name`. To be closed after a failure too. */
enum status evidence_read(
	struct evidence *evidence, const char *path, const char *name, struct error *error);

/* name: of the case. A failed write is reported when the file is closed. */
void evidence_write(const struct evidence *evidence, const char *name, FILE *file);

/* A zeroed one is accepted. */
void evidence_close(struct evidence *evidence);

/* The figures of a metric over all runs, into values (run_count); returns how many there are. */
uint32_t evidence_figures(
	const struct evidence *evidence, const struct metric *metric, double *values);

/* Whether a run fills in this setting where no option gives it, by what its machine has free:
   FILLED of bench/replay/replay_options.def. */
bool evidence_is_filled_in(const char *field);

#endif
