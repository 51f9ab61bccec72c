#ifndef BENCH_PLAN_ANSWER_H
#define BENCH_PLAN_ANSWER_H

#include "bench/plan/asked_load.h"
#include "bench/plan/plan.h"
#include "reports/results/plan_file.h"

/* What a plan's runs say: the answer of each configuration, in figures and sentences, and how the
   configurations compare. */

struct configuration_answer {
	struct plan_answer answer; /* its texts are those below, or constants */
	struct text sentence, binding_text, why_not_more, short_trace, early_turns, router_note;
	struct text sampling, model;
	const struct track *track; /* its main one */
	bool is_found;		   /* a load passes, and it is the one that was asked for */
	bool is_missed;		   /* one passes, and it is not that one (asked_load.h) */
	bool is_limited;	   /* none fails, and harder ones would change nothing */
	/* runs at the answer, at the load that fails next to it, and of a request at a time; NULL:
	   none */
	const struct probe_figures *pass, *fail, *alone;
	struct asked_load asked; /* of the load that passes */
	uint64_t gpus;		 /* of all replicas at the answer; 0: there is none */

	/* at the answer; of one that is found */
	struct result_value goodput_per_gpu, throughput_per_gpu, speed_per_user, utilisation;
	struct plan_interval goodput_interval; /* of the goodput a GPU, from the sampling error */
	/* Its goodput a GPU in that of the best configuration, on the same draws. */
	struct result_value against_best;
	struct plan_interval against_best_interval;
	uint32_t rank; /* from 1; configurations without an answer last */
	bool on_pareto_front;
};

struct answers {
	const struct plan *plan;
	uint32_t count;
	struct configuration_answer *list; /* (count) by configuration */
	uint32_t *by_rank;		   /* (count) indexes into the list, the best first */
	struct text slo;		   /* the objective in words */
};

/* The plan must outlive the answers. */
void answers_open(struct answers *answers, const struct plan *plan);
void answers_close(struct answers *answers);

/* The interval of the goodput a GPU of configuration a in that of b. */
struct plan_interval answers_ratio(const struct answers *answers, uint32_t a, uint32_t b);

/* Whether two configurations do not differ: their ratio is 1 (plan_ratio_is_one()). */
bool answers_are_same(const struct answers *answers, uint32_t a, uint32_t b);

#endif
