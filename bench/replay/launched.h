#ifndef BENCH_REPLAY_LAUNCHED_H
#define BENCH_REPLAY_LAUNCHED_H

#include "bench/replay/replay_config.h"
#include "engine/base/status.h"

/* A hash of the program's commit and of every option. */
uint64_t launched_identity(const struct replay_config *config);

/* rank_launch_join() of a run (engine/ranks/launch.h): under mpirun all processes must have the
   same build and the same configuration. error: what this process has found wrong so far. */
enum status launched_join(const struct replay_config *config, struct error *error);

#endif
