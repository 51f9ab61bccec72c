#ifndef BENCH_GATE_SUITE_H
#define BENCH_GATE_SUITE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/compare/compare_limits.h"
#include "engine/base/json.h"
#include "engine/base/path.h"
#include "engine/base/status.h"
#include "reports/results/gate_words.h"

/* A suite of `quire gate`: a JSON file that names cases.

       {
         "defaults": {"limits": "ttft.p99<=+5%,output_tokens_per_s>=-2%"},
         "cases": [
           {"name": "chat", "make": "--preset chat --requests 500 --session-rate 20 --seed 3",
            "options": "--policy mixed", "measure": ["instructions"]},
           {"name": "demo", "trace": "../traces/demo.jsonl", "repeats": 5}
         ]
       }

   `recorded` are options that the runs of the baseline have beside the case's own, as "--runner
   cuda --weights dummy:0". The case itself is then a simulation of what was recorded.

   A case has either a trace, whose path is relative to the suite's folder, or `make`, the options
   of `quire trace make` that generate it. `tape` names an earlier case, whose trace and step times
   the case replays. What a case does not say is taken from the defaults; options of both are
   joined. */

enum {
	SUITE_CASES_MAX = 256,
	SUITE_ARGUMENTS_MAX = 48,
	SUITE_NAME_BYTES = 64,
	SUITE_REPEATS_MAX = 64,
	SUITE_REPEATS = 5,	/* where the suite gives none */
	SUITE_TIMEOUT_S = 1800, /* where the suite gives none */
	SUITE_TIMEOUT_S_MAX = 604800
};

struct suite_case {
	char name[SUITE_NAME_BYTES];
	char trace[PATH_BYTES_MAX];    /* "": it is made, or that of the tape */
	const struct suite_case *tape; /* an earlier case; NULL: none */
	uint32_t make_count, option_count, recorded_count;
	const char *make[SUITE_ARGUMENTS_MAX];	   /* (make_count) borrowed of the suite */
	const char *options[SUITE_ARGUMENTS_MAX];  /* (option_count) */
	const char *recorded[SUITE_ARGUMENTS_MAX]; /* (recorded_count) of the baseline's runs */
	struct limit_list limits;
	bool measures[COST_COUNT];
	double cost_limit[COST_COUNT]; /* as a share: 0.01 is +1 % */
	uint32_t timeout_s;	       /* of each run */
	uint32_t repeats;	       /* of a runner that measures time */
	bool ignores_decisions;	       /* only costs are judged */
};

struct suite {
	char path[PATH_BYTES_MAX];
	struct suite_case *cases; /* (count) owned */
	uint32_t count;
	char **words; /* (word_count) owned: the arguments of all cases */
	size_t word_count, word_capacity;
};

/* To be closed after a failure too. */
enum status suite_open(struct suite *suite, const char *path, struct error *error);
void suite_close(struct suite *suite);

#endif
