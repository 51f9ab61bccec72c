#ifndef BENCH_REPLAY_OVERLAP_H
#define BENCH_REPLAY_OVERLAP_H

#include "bench/replay/replay.h"

/* Launching ahead: a step is launched before the one before it has ended, so that the GPU does not
   wait for the host between them.

       host   decide k │ launch k │ decide k+1 │ launch k+1 │ collect k │ record k │ decide k+2 ...
       GPU               └────────────── step k ──────────────┘└──────── step k+1 ──────── ...

   Its decisions must be those that would have been made after the end of the step before. Tokens
   are forced, so what finishes in that step is known, but not how long it takes. So a step is
   launched ahead only where the rows that arrive meanwhile cannot change what it decides
   (enum newcomers). The decisions of the step in flight are kept until it is collected, and are
   recorded then. All results are the same as without, except the durations themselves. */

/* Ends the step in flight, after launching the next one behind it where that is possible. The
   runner's start() is not called for a step launched ahead. */
enum status overlap_advance(struct replay *replay, struct error *error);

#endif
