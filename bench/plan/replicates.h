#ifndef BENCH_PLAN_REPLICATES_H
#define BENCH_PLAN_REPLICATES_H

#include "bench/plan/plan.h"
#include "engine/base/text.h"
#include "reports/results/plan_file.h"

/* The two error bars of an answer (bench/plan/bands.h), each by the same search again.

       sampling  another trace: drawn from the trace (workloads/resample.h), and other arrivals
                 where --rate draws them, or made from another seed where the load is described and
                 not recorded; 40 of them unless told
       model     the trace itself, step times longer or shorter by the error of their prices: the
                 mean error of the profile's held-out steps as a bias of all of them, which is more
                 than it can be, and how far a card is from the mean of those measured, where that
                 is known; or MODEL_GUESS where no error was measured

   They are never merged: more traffic on record makes the first narrower, a better profile the
   second. Their searches begin when all answers are found, and run side by side. Replicate i is the
   same draw for every configuration, so that configurations are compared on the same traffic. */

enum { MODEL_GUESS = 150000 }; /* millionths */

/* Reads how long the trace is. */
enum status replicates_measure(struct plan *plan, struct error *error);

/* Adds the tracks of all configurations, whose main tracks have ended. None, where no load passes,
   or none fails. */
void replicates_add(struct plan *plan);

/* The interval of the ratio of two configurations' answers, on the same draws: of loads, or of
   replicas a replica of the other. No ends, where the answers are no loads that can be compared, or
   either has too few replicates. first, second: figures in proportion to the answers (or, of
   replicas, to their inverse), such as goodput a GPU. */
struct band replicates_ratio(
	const struct plan *plan, uint32_t a, uint32_t b, double first, double second);

/* Fills in answer->sampling and .model, as far as their tracks have ended; their texts are in
   `sampling` and `model`, empty ones of the caller. Where replicates were asked for and there is
   no interval of them, the text says why. */
void replicates_answer(const struct plan *plan, uint32_t configuration, struct plan_answer *answer,
	struct text *sampling, struct text *model);

/* Requests/s at the trace's own times; 0 where these span no time. */
double plan_trace_rate(const struct plan *plan);

#endif
