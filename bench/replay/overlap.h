#ifndef BENCH_REPLAY_OVERLAP_H
#define BENCH_REPLAY_OVERLAP_H

#include "bench/replay/replay.h"

/* Launching ahead: a step is launched before the preceding one has ended, so that the GPU does not
   wait for the host between them.

       host   decide k │ launch k │ decide k+1 │ launch k+1 │ collect k │ record k │ decide k+2 ...
       GPU               └────────────── step k ──────────────┘└──────── step k+1 ──────── ...

   Its decisions must be the same as if they were made after the end of the preceding step. Tokens
   are forced, so it is known which requests finish in that step, but not how long it takes. So a
   step is launched ahead only if rows that arrive meanwhile cannot change its decisions (enum
   newcomers). The decisions of the step in flight are copied and recorded when it is collected. All
   results but the durations are the same as without launching ahead.

   A step with prompts may take longer to launch than the step in flight takes to end. That step is
   then collected and recorded in mid-launch, so that its tokens are handed on when they are there,
   and not when the launch is over:

       host   launch k+1, some parts │ collect k │ record k │ launch k+1, the rest │ decide k+2 ...
       GPU    ──── step k ─────────┘└──────────── step k+1 ──────────── ... */

/* Ends the step in flight, after launching the next one behind it where that is possible. The
   runner's start() is not called for a step launched ahead. */
enum status overlap_advance(struct replay *replay, struct error *error);

/* Asynchronous scheduling on the replay's clock: step k is decided when step k-1 starts, and step
   k-1 is applied when it ends.

       decisions     0,1        2            3          4
       steps         |-- 0 --|------ 1 ------|--- 2 ---|--- 3 ...
       applied               0               1         2

   What arrives while step k-1 runs waits for the decision of step k+1. A step that is decided ahead
   is launched at once where the runner can overlap steps; else it is executed at once, and its time
   is kept until it starts. A step without rows takes no time. */

/* Begins the step that was decided ahead, or else decides one that starts at now_ns; then decides
   the next one. Sets is_stepping, or has_failed. */
enum status async_run_step(struct replay *replay, struct error *error);

#endif
