#ifndef BENCH_PRICE_PRICE_STUDY_H
#define BENCH_PRICE_PRICE_STUDY_H

#include <stdint.h>
#include <stdio.h>

#include "bench/price/step_views.h"
#include "engine/base/map.h"
#include "engine/base/status.h"
#include "engine/base/table.h"
#include "engine/runner.h"

/* The steps that a run recorded, priced one by one, and summed by what they computed. Every step is
   priced as it was, so an error is that of its price: no decision and no queue is in it. Memory
   does not depend on the number of steps. */

struct price_sum {
	uint64_t steps;
	double measured_ns, predicted_ns;
	double apart_ns; /* sum of |predicted - measured| */
};

/* Steps of about the same work: octaves of rows, prompt tokens, context tokens a decode row and
   shared tokens. */
struct price_cell {
	uint32_t rows, tokens, context, shared;
	struct price_sum sum;
};

struct price_study {
	struct price_sum all, host; /* host: the part of all steps that is the host's */
	struct price_sum views[STEP_VIEWS][STEP_GROUPS];
	struct price_cell *cells; /* (cell_count) owned */
	uint32_t cell_count;
	size_t cell_capacity;
	struct map cell_of; /* by its octaves: index of the cell */
};

/* A zeroed study is empty. */
void price_study_add(struct price_study *study, const struct priced_step *step);
void price_study_close(struct price_study *study);

/* Cost models of one profile. What a step costs may depend on those before it, so each replica has
   a model of its own, which executes the replica's steps once and in order. */
struct price_models {
	const struct runner *of_replica; /* (replicas) open */
	uint32_t replicas;
	struct runner host; /* open; is only asked what the host takes of a step */
	bool has_hull;	    /* the profile was fitted to steps, and tells those unlike them */
};

/* Prices the steps of DIR/steps.tsv, a run of as many replicas, and adds them. each: table of every
   step, PRICE_STEP_COLUMNS, begun; NULL: none. */
enum status price_study_read(struct price_study *study, const char *directory,
	const struct price_models *models, struct table_writer *each, struct error *error);

/* A row for each step in the order of steps.tsv. ahead, outside: 1 or 0; outside is a dash where
   the profile was fitted to no steps. */
#define PRICE_STEP_COLUMNS                                                                         \
	"step\tstart_ns\tmeasured_ns\tpredicted_ns\tmeasured_host_ns\tpredicted_host_ns\tahead\t"  \
	"outside"

/* Prints the sum of all, the `most` cells that add most to the error, and every view. */
void price_study_print(const struct price_study *study, uint32_t most, FILE *out);

#endif
