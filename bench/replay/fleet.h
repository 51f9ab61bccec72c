#ifndef BENCH_REPLAY_FLEET_H
#define BENCH_REPLAY_FLEET_H

#include <stdint.h>

#include "bench/fleet/desk.h"
#include "bench/record/run_outcome.h"
#include "bench/replay/replay.h"
#include "engine/runner.h"

/* The replicas of a run, their runners and their desk. Of one replica it is only that. */

struct fleet {
	uint32_t count;
	struct runner *runners;	       /* (count) */
	struct replay *replays;	       /* (count) */
	struct replay **in_order;      /* (count) as the loop takes them */
	struct engine_config *configs; /* (count) set before fleet_open() */
	const char **groups;	       /* (count) names, borrowed; NULL: all are equal */
	bool has_desk;
	struct desk desk;
	struct replica_figures *figures; /* (count) for the outcome */
};

/* Room for `count` replicas. */
void fleet_init(struct fleet *fleet, uint32_t count);
void fleet_close(struct fleet *fleet);

/* Opens all replicas. Their runners are open. options: of a single replica. */
enum status fleet_open(
	struct fleet *fleet, const struct replay_options *options, struct error *error);

/* Limits of a replica on average. */
struct engine_config fleet_mean_limits(const struct fleet *fleet);

void fleet_set_sinks(struct fleet *fleet, const struct replay_sinks *sinks);

/* As replay_run(). */
enum status fleet_run(struct fleet *fleet, struct error *error);

/* The end of the run: its last step, or what came behind it. */
uint64_t fleet_now_ns(const struct fleet *fleet);

/* As replay_outcome(), of all replicas. Pointers of the outcome are the fleet's. */
void fleet_outcome(struct fleet *fleet, struct run_outcome *outcome);

#endif
