#ifndef BENCH_RECORD_WINDOW_H
#define BENCH_RECORD_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/capacity.h"
#include "bench/record/timeline.h"
#include "bench/record/waits.h"
#include "engine/base/integer.h"

/* What an engine did in a window of a run.

   Requests of the warm-up and of the cooldown are in no statistic; the others are measured. The
   window is the time of the measured requests:

       warm-up requests     ──┬──────┬─────────┐
       measured requests      │   ┬──┴─────────┼───────────┐
       cooldown requests      │   │            │     ┬─────┼──────┐
                              │   │<─ window ─────────────>│
                              first arrival of one        last finish of one

   from the arrival of the first one that the engine takes to the finish of the last. It ends with
   the run where a measured request never finishes. All that the engine does in this time is
   counted, whomever it is for.

   A step that runs over an edge counts, with its tokens, hits, preemptions and finishes, where it
   ends; its time, and what is averaged over time, is divided at the edge. So the sums before, in
   and after a window are those of the whole run.

   The replicas of a run have one window. A replica learns of an edge with its next step or arrival,
   which is exact: until then it has done nothing. A window that is not partial is the whole run,
   and nothing is divided. */

/* Sums from the start of the run on. */
struct run_sums {
	struct step_sums sums; /* its peaks are those since the window opened */
	uint64_t steps, finished;
	uint64_t attained;		    /* of these within the SLO; all where none is given */
	uint64_t prompt_tokens, hit_tokens; /* of first admissions */
	uint64_t output_tokens, recomputed_tokens, preemptions;
	/* of the same, those of attempts that were lost with their replica */
	uint64_t lost_prompt_tokens, lost_hit_tokens, lost_output_tokens, lost_recomputed_tokens;
	uint64_t busy_ns;
	uint64_t outside_steps, outside_ns; /* steps unlike those that their prices are fitted to */
	u128 running_ns, waiting_ns, used_blocks_ns; /* counts of a step times its time */
	struct waits waits;
};

/* A step that was added to the sums. */
struct summed_step {
	struct timeline_step step;
	uint64_t tokens;	    /* that it computed */
	enum wait_cause wait_cause; /* of the requests that waited in it */
	uint64_t wait_count;
};

/* Adds span_ns of a step's time. */
static inline void run_sums_add_time(
	struct run_sums *sums, const struct timeline_step *step, uint64_t span_ns)
{
	sums->busy_ns += span_ns;
	sums->running_ns += (u128)step->running * span_ns;
	sums->used_blocks_ns += (u128)step->used_blocks * span_ns;
	if (step->waiting > 0) {
		sums->waiting_ns += (u128)step->waiting * span_ns;
	}
}

/* later - earlier; peaks and counts of waiting requests are those of `later`. */
struct run_sums run_sums_between(const struct run_sums *earlier, const struct run_sums *later);

/* Takes lost attempts out of the tokens, which are then those of the attempts that counted. The
   prompt of one is taken out of the window in which it was admitted, its output and recomputed
   tokens out of that in which it was lost; never more than there are. */
void run_sums_settle(struct run_sums *sums);

/* Adds those of another replica; peaks are those of one replica. */
void run_sums_join(struct run_sums *sums, const struct run_sums *other);

/* The times of the window, of all replicas. */
struct window_edges {
	bool is_partial;       /* there is a warm-up or a cooldown */
	bool is_open;	       /* a measured request has arrived */
	uint64_t finish_count; /* steps in which measured requests finished */
	uint64_t start_ns, end_ns;
};

/* What a replica did up to the edges. */
struct window {
	bool is_open;
	struct run_sums before; /* up to start_ns; 0 unless the window is partial */
	uint64_t finish_count;	/* of the edges, when `last` was taken */
	struct run_sums last;	/* up to end_ns; 0 unless the window is partial */

	/* while the window is not open: the latest step, and the sums before it */
	struct summed_step step;
	struct run_sums previous;
};

/* Takes the edges that another replica has set; before anything is added to the sums. */
void window_meet(struct window *window, const struct window_edges *edges, struct run_sums *sums);

/* To be called before a step is added to the sums, behind window_meet(), and after it. The step may
   have begun before an edge that another replica has set. */
void window_begin_step(struct window *window, const struct run_sums *sums);
void window_end_step(
	struct window *window, const struct window_edges *edges, const struct summed_step *step);

/* A measured request that arrived at start_ns was added to the waiting ones. */
void window_open(struct window *window, struct window_edges *edges, struct run_sums *sums,
	uint64_t start_ns);

/* Measured requests finished with the step that is added to the sums, and which ends at end_ns. */
void window_finish(struct window *window, struct window_edges *edges, const struct run_sums *sums,
	uint64_t end_ns);

/* An attempt that was admitted by the replica's step `first_step` is lost, and was added to the
   sums. */
void window_lose(struct window *window, const struct window_edges *edges, uint64_t first_step,
	uint64_t prompt_tokens, uint64_t hit_tokens);

/* `count` requests waited over [from_ns, until_ns), which is charged only now: a part may lie
   before an edge that has been met. */
void window_wait(struct window *window, const struct window_edges *edges, enum wait_cause cause,
	uint64_t count, uint64_t from_ns, uint64_t until_ns);

#endif
