#ifndef BENCH_FLEET_REPLICAS_H
#define BENCH_FLEET_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/fleet/presence.h"
#include "engine/base/text.h"

/* The replicas of a run, one by one, and how evenly they were loaded: the section `fleet` of
   summary.json, and its printed table. */

struct replica_figures {
	const char *group; /* NULL: all are equal */
	uint64_t submitted, finished, preemptions, steps, busy_ns;
	uint64_t prompt_tokens, output_tokens, query_tokens, hit_tokens;
	uint64_t lost_tokens; /* output tokens of requests that it lost when it failed */
	uint64_t up_ns;	      /* of the run, when it could work (bench/fleet/presence.h) */
	uint64_t kv_blocks;   /* in its pool */
};

struct fleet_figures {
	uint32_t count;			    /* of replicas; 0: no fleet */
	const struct replica_figures *each; /* (count), borrowed */
	const struct presence *presence;    /* when each could work, borrowed */
	const char *router;
	bool has_prompt_ids;	/* hits are known */
	bool is_router_blind;	/* it goes by the blocks of prompts, and the trace has none */
	bool knows_regret;	/* and what each replica had cached of a request */
	uint64_t regret_blocks; /* most that a replica had less what the picked one had, summed */
	uint64_t retries;	/* requests sent again after a failure */
	uint64_t refused;	/* because the router's queue was full */
	uint64_t whole_hit_tokens, whole_query_tokens; /* of one cache with all the memory; 0 where
							  it is not known, as regret is not */
};

/* What follows for a router that is blind, as a sentence without its stop. */
void replicas_add_blind(struct text *text, const char *router);

/* How even the load was, where x is the tokens (prompt and output) of a replica in a unit of the
   time w in which it could work. A replica that was never there does not count. Where all were
   there all the time, x is the tokens and n the number of replicas.

   The most x over the mean, max x / (sum w x / sum w). 1: all have the same; n: one has all. */
double replicas_imbalance(const struct fleet_figures *fleet);

/* Jain's index, (sum w x)^2 / (sum w sum w x^2): 1 is even, 1/n is one replica with all (Jain,
   Chiu, Hawe, "A quantitative measure of fairness", 1984). */
double replicas_jain(const struct fleet_figures *fleet);

struct cJSON;

/* The section of summary.json, the caller's. */
struct cJSON *replicas_json(const struct fleet_figures *fleet);

void replicas_print(const struct fleet_figures *fleet);

#endif
