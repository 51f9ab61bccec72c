#ifndef ENGINE_RANKS_LAUNCH_H
#define ENGINE_RANKS_LAUNCH_H

#include <stdint.h>

#include "engine/base/status.h"

/* Processes that mpirun started, each of which is a rank: all of them parse the command line and
   come to ranks_open() by themselves. Open MPI's library is loaded at run time, so that the program
   also runs where there is none. MPI begins and ends once in the life of a process, so the number
   of runs of ranks is known from the start (runs_after in engine/ranks/ranks.h). */

struct rank_launch {
	uint32_t rank;
	uint32_t count; /* processes; 1: not started by mpirun, or alone */
};

struct rank_launch rank_launch_find(void);

/* Begins the run in each process; before anything is opened. error is this process's so far, as for
   ranks_barrier(). identity: a hash of build and configuration, which must be equal. On an error
   that any process has, rank 0 returns it and the others end. */
enum status rank_launch_join(uint64_t identity, struct error *error);

/* Before the end of ranks_open(), or between two runs of ranks: tells the others of an error that
   no barrier has carried. Rank 0 returns it and the others end. Does nothing where mpirun did not
   start the process or all runs are over. */
enum status rank_launch_fail(struct error *error);

#endif
