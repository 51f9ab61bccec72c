#ifndef BENCH_REPLAY_STEP_THREADS_H
#define BENCH_REPLAY_STEP_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/runner.h"

/* Threads that execute the steps of replicas at the same time, one thread a replica. The caller
   decides steps, and owns all else of an engine; between step_threads_begin() and the step's end it
   may only read the engine.

       caller      begin(0)  begin(1)  await() ────────► end(1)  begin(1)  await() ...
       thread 0        └──── engine_execute() ──────────────────────────────┐
       thread 1                  └─ engine_execute() ─┘             └── ...

   Waiting threads spin for a while, then sleep (engine/ranks/shared_word.h). */

struct step_threads;

/* engines: (count), which outlive the threads. Must be closed, also after a failure. */
enum status step_threads_open(struct step_threads **out, struct engine *const *engines,
	uint32_t count, struct error *error);

/* Waits for the steps that are executed, drops them, and ends the threads. Accepts NULL. */
void step_threads_close(struct step_threads *threads);

/* Has a replica's thread execute the step that its engine has scheduled. */
void step_threads_begin(struct step_threads *threads, uint32_t replica);

/* Whether a step was begun and not ended. */
bool step_threads_is_busy(const struct step_threads *threads, uint32_t replica);

/* Whether step_threads_end() would not wait. The step was begun. */
bool step_threads_is_done(const struct step_threads *threads, uint32_t replica);

/* Waits for a step that was begun. Returns what engine_execute() did. */
enum status step_threads_end(struct step_threads *threads, uint32_t replica, struct step_time *time,
	struct error *error);

/* Steps that were executed so far, ended or not. */
uint32_t step_threads_executed(const struct step_threads *threads);

/* Waits until step_threads_executed() is not `seen` any more, at most timeout_ns, of which it spins
   spin_ns. */
void step_threads_await(
	struct step_threads *threads, uint32_t seen, uint64_t spin_ns, uint64_t timeout_ns);

#endif
