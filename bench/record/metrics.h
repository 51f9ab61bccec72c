#ifndef BENCH_RECORD_METRICS_H
#define BENCH_RECORD_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/record/capacity.h"
#include "bench/record/histogram.h"
#include "bench/record/levels.h"
#include "bench/record/slo.h"
#include "engine/base/table.h"
#include "reports/results/results.h"
#include "bench/record/step_grid.h"
#include "bench/record/timeline.h"
#include "bench/record/window.h"
#include "engine/engine.h"

/* Turns steps and their events into records, histograms and sums during a run. Memory depends on
   the engine's limits, not on the length of the run.

   Gaps between tokens (ITL) are not added one by one. All sequences that decoded in the last decode
   pass and in this one have the same gap. They are called steady, and a pass adds their gap once
   with their number as weight. A sequence whose last token was sampled by a prefill row is called
   fresh: its first decode pass has a gap of its own. */

struct metrics_options {
	/* Requests with an id below warmup are excluded from the statistics, and those with an id
	   from measured_end on; 0: none are. */
	uint64_t warmup, measured_end;
	struct slo slo;
	uint32_t level_count; /* levels of a ramp, of level_ns each; 0: none */
	uint64_t level_ns;
};

/* What the replicas of a run add up together. */
struct distributions {
	struct histogram latency[LATENCY_COUNT];
	struct timeline timeline;
	struct step_grid grid;
	struct window_edges window;
	struct levels levels;
	struct slo_batches slo_batches;
	bool has_origin; /* of the timeline: a request has arrived */
};

/* A request inside the engine, by the slot of its sequence. */
struct request_record {
	uint64_t id;
	char *session; /* owned; NULL: none */
	uint64_t arrival_ns;
	uint64_t first_scheduled_ns;
	uint64_t first_step; /* of the replica: the step that admitted it first */
	uint64_t first_token_ns;
	uint64_t last_token_ns; /* unless is_steady: then the end of the last decode pass */
	uint32_t prompt_tokens;
	uint32_t cached_tokens;
	uint32_t preemptions;
	/* Tokens of its sequence when it became fresh; while it is steady, one more for every
	   decode pass from first_pass on. The engine may be a step ahead of this. */
	uint32_t token_count;
	uint64_t first_pass;
	uint32_t generation; /* distinguishes an entry of the fresh ring from a later one */
	uint64_t recomputed_tokens;
	bool is_live;
	bool is_scheduled; /* has been admitted */
	bool has_token;
	bool is_steady; /* decoded in the last decode pass */
	bool is_measured;
	bool is_capped;
	bool is_nowhere; /* no engine was given it */
};

struct fresh_entry {
	const struct sequence *sequence; /* dangling once the generation differs */
	uint32_t slot;
	uint32_t generation;
	uint64_t step; /* in which it became fresh */
};

/* A request as it arrives. */
struct metrics_arrival {
	uint64_t id;
	const char *session; /* NULL: none; copied */
	uint64_t arrival_ns;
	/* In a fleet, between its arrival and the replica: what earlier attempts were charged for,
	   and what is to be charged to WAIT_ROUTER. */
	uint64_t attempts_ns, router_ns;
	uint32_t prompt_tokens;
	uint32_t max_tokens;
	bool is_capped;	 /* its answer ends at max_model_len before max_tokens */
	bool is_awaited; /* metrics_await() was called for it */
};

/* What a run counts, in sums over its replicas too. X(counter). */
#define METRICS_COUNTER_LIST(X)                                                                    \
	X(submitted)                                                                               \
	X(finished)                                                                                \
	X(rejected)                                                                                \
	X(rejected_queue_full)                                                                     \
	X(rejected_too_long) /* of the rejected; the others never fit the KV pool */               \
	X(capped)	     /* whose answers end at max_model_len before max_tokens */            \
	X(nowhere)	     /* submitted, and given to no engine */                               \
	X(failed)                                                                                  \
	X(unfinished)                                                                              \
	X(warmup_submitted)                                                                        \
	X(measured_submitted)                                                                      \
	X(measured_taken) /* and not rejected, also if the engine had no room yet */               \
	X(measured_finished)                                                                       \
	X(slo_attained)                                                                            \
	X(slo_missed_ttft) /* finished, and missed this limit, perhaps others too */               \
	X(slo_missed_tpot)                                                                         \
	X(slo_missed_e2e)

struct metrics {
	struct metrics_options options;
	struct table_writer *requests; /* borrowed: requests.tsv, or NULL */
	bool has_replica;	       /* its rows have the column replica */
	uint32_t replica;
	struct request_record *records; /* (record_count) by slot */
	uint32_t record_count;

	/* ring of sequences whose first gap is still to come, in order of admission */
	struct fresh_entry *fresh;
	uint32_t fresh_capacity; /* a power of two */
	uint64_t fresh_head, fresh_tail;
	uint64_t last_pass_end_ns;
	uint64_t pass_count;	       /* decode passes */
	uint64_t steady_excluded_rows; /* steady sequences that are excluded from the statistics */

	struct event_hash *hash; /* NULL in a sum of several */
	struct distributions *distributions;
	bool owns_distributions;
	struct run_sums work; /* of the whole run */
	bool is_outside; /* of the next step, set before metrics_step(): step_time.is_outside */
	struct window window;
	struct level_progress level_progress;

	/* of all requests, then of the measured ones */
#define COUNTER_FIELD(counter) uint64_t counter;
	METRICS_COUNTER_LIST(COUNTER_FIELD)
#undef COUNTER_FIELD
	uint64_t longest_too_long; /* tokens of the longest of each kind, prompt and output */
	uint64_t longest_never_fitting;
	uint64_t longest_missed; /* of those that missed the SLO, prompt and output */
	uint64_t first_arrival_ns, last_arrival_ns, last_finish_ns;
	uint64_t measured_first_arrival_ns, measured_last_arrival_ns;
	u128 service_ns; /* of measured requests, first scheduled to finish, summed */

	/* the step being added up */
	struct timeline_step step;
};

void metrics_init(struct metrics *metrics, const struct metrics_options *options,
	uint32_t record_count, struct table_writer *requests);

/* Metrics of another replica of the same run: as `whole`, to whose distributions it adds. `whole`
   outlives it. */
void metrics_init_part(struct metrics *metrics, const struct metrics *whole, uint32_t record_count);
void metrics_deinit(struct metrics *metrics);

/* The first request of the run arrives, at the timeline's origin. Later calls change nothing. */
void metrics_begin(struct metrics *metrics, uint64_t arrival_ns);

/* Sums the counters of a run's replicas, for its figures as a whole. The sum borrows the
   distributions, has no records and no hash, and needs no metrics_deinit(). count >= 1. */
void metrics_sum(struct metrics *sum, const struct metrics *const *parts, uint32_t count);

/* The first measured request of a fleet arrives at its router, at the latest time seen. Without a
   fleet metrics_await() opens the window. Later calls change nothing. */
void metrics_open_window(struct metrics *metrics, uint64_t arrival_ns);

/* A request that has arrived and that the engine has no room for yet. now_ns: when the decision
   that sees it first is made. */
void metrics_await(struct metrics *metrics, const struct metrics_arrival *arrival, uint64_t now_ns);

/* A request that the engine queued, with the slot of its sequence. now_ns: as above. */
void metrics_arrive(struct metrics *metrics, uint32_t slot, const struct metrics_arrival *arrival,
	uint64_t now_ns);

/* A request that the engine rejected; its row is written at once. */
void metrics_reject(struct metrics *metrics, enum fit fit, const struct metrics_arrival *arrival);

/* A request that no engine was given, with the status of its row: REQUEST_REJECTED_QUEUE_FULL, or
   the end of a run, at end_ns. */
void metrics_refuse(struct metrics *metrics, enum request_status status,
	const struct metrics_arrival *arrival, uint64_t end_ns);

/* A request that no engine was given waited over [from_ns, until_ns). */
void metrics_wait(
	struct metrics *metrics, enum wait_cause cause, uint64_t from_ns, uint64_t until_ns);

/* The engine has dropped every request that it had; each will arrive again, here or elsewhere. All
   are charged up to now_ns. */
void metrics_forget(struct metrics *metrics, uint64_t now_ns);

/* The same of a request that was awaited, and that the engine had not been given. */
void metrics_forget_awaited(struct metrics *metrics, uint64_t id);

/* Adds a postprocessed step, before the next one is postprocessed: its decisions, its times, and
   the number of waiting requests (the backlog outside the engine included). */
void metrics_step(struct metrics *metrics, const struct engine *engine,
	const struct step_decisions *decisions, uint64_t start_ns, uint64_t end_ns,
	uint64_t waiting);

/* Adds the rejections since the last step to the result hash. Must not be called after a failed
   step, whose decisions were not carried out. */
void metrics_flush_events(struct metrics *metrics, const struct engine *engine);

/* Ends the run, at end_ns: every request still in the engine gets a row with this status, and those
   that wait are charged up to then. */
void metrics_end(struct metrics *metrics, enum request_status status, uint64_t end_ns);

/* 0 of a sum of several. */
uint64_t metrics_result_hash(const struct metrics *metrics);

/* What was done in the window (bench/record/window.h). run_end_ns: the end of the run. Returns
   false where no measured request was taken: then all is 0. */
bool metrics_window(const struct metrics *metrics, uint64_t run_end_ns, struct run_sums *work,
	uint64_t *start_ns, uint64_t *end_ns);

void metrics_write_latency(const struct metrics *metrics, struct table_writer *table);

#endif
