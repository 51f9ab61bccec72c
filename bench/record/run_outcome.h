#ifndef BENCH_RECORD_RUN_OUTCOME_H
#define BENCH_RECORD_RUN_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/fleet/replicas.h"
#include "bench/record/metrics.h"
#include "engine/base/status.h"
#include "engine/batch.h"
#include "reports/results/results.h"

/* The outcome of a run: every figure of summary.json as a plain struct without pointers to own, so
   that outcomes can be copied, compared and searched.

   The verdict states whether the latencies describe the engine under this load or merely the length
   of the trace:
     unserved    the run came to its end and left requests that no replica was there to take.
     overloaded  when the last request arrived, over 5 % of all requests were waiting, and the queue
                 was growing: from the second third of the arrivals' time to the last it gained over
                 5 % of the requests that arrive in a third. Latencies grow with the trace; read
                 only the throughput.
                 Or more arrives than the engine can carry (bench/record/capacity.h), where prices
                 say so, and requests pile up, waiting or running: more of them on the mean in each
                 third of the arrivals' time than in the one before.
     backlogged  over 5 % were waiting then without such growth, or requests waited longer than they
                 were served. The engine catches up, but queueing dominates the latencies.
     stable      none of these.
   It is of the whole run, like the backlog at the last arrival and the drain time.
   A closed loop offers no more than is finished, so it is stable unless its requests queue. */

/* Figures of a histogram; all 0 if count is 0. */
struct latency_figures {
	uint64_t count;
	uint64_t ns[STATISTIC_COUNT];
};

struct run_outcome {
	enum run_end end;
	struct error failure; /* RUN_FAILED: why */
	char trace_name[256]; /* without its folder */
	uint64_t trace_xxh64;
	uint64_t result_hash; /* XXH64 of every decision; equal hashes: the same steps */
	enum verdict verdict;
	struct fleet_figures fleet; /* count 0: one replica */

	/* the origin of the step times, and the KV pool */
	const char *runner_kind; /* a constant, as in summary.json */
	bool is_calibrated;
	struct prefill_spread spread; /* of the replicas, where they are equal */
	uint32_t readers;	      /* of a shared block, likewise; 0: not known */
	char profile[160]; /* of a calibrated profile: GPU and date of the calibration; "":
				     none */
	/* Where groups of a fleet are priced by several: the names of all, and of those that are
	   not calibrated; "": one, or none. */
	char profiles[1024], uncalibrated[1024];
	char profile_note[1024];  /* what about what prices the steps is not as was asked for; "":
				     nothing */
	uint64_t profile_xxh64;	  /* of the content of what priced the steps; 0: nothing did */
	uint64_t found_kv_blocks; /* blocks that the memory has room for; 0: unknown */
	uint64_t kv_blocks, block_size;
	bool is_beyond_memory; /* --kv-blocks is more than the GPU that is priced has room for */
	bool has_given_blocks; /* by --kv-blocks */
	bool is_held_back;     /* --max-concurrency lets fewer run than there are seats */

	/* all requests */
	uint64_t submitted, finished, rejected, failed, unfinished;
	uint64_t rejected_too_long, rejected_never_fits;
	uint64_t capped; /* answers that max_model_len ended */
	/* tokens of the longest rejected request of each kind, prompt and output; 0: none */
	uint64_t longest_too_long, longest_never_fitting;
	bool has_run_out;	  /* the trace ended before --duration or --max-requests */
	uint64_t last_arrival_ns; /* of all requests */
	uint64_t backlog_at_last_arrival;
	uint64_t drain_ns; /* from the last arrival to the last finish */

	/* measured requests: after the warm-up and before the cooldown */
	uint64_t warmup_submitted; /* before them */
	uint64_t measured_submitted, measured_finished;
	uint64_t arrival_span_ns; /* first to last arrival; 0: a closed loop, or all at once */
	struct slo slo;
	uint64_t slo_attained;		  /* requests within it, of measured_submitted */
	struct slo_interval slo_interval; /* 95 %, of the share that attains it */
	/* finished requests that missed each limit, and the tokens of the longest one */
	uint64_t slo_missed_ttft, slo_missed_tpot, slo_missed_e2e, longest_missed;
	struct latency_figures latency[LATENCY_COUNT];

	/* the window (bench/record/window.h), and the steps that end before it and after it */
	uint64_t window_start_ns, window_ns; /* window_ns 0: no measured request was taken */
	uint64_t steps_before, steps_after;
	struct run_sums work;	  /* in it, by all requests */
	bool is_prefix_cache_off; /* by the configuration: nothing can hit */
	bool has_prompt_ids;	  /* the trace says which prompts share tokens */
	/* Steps unlike those that the profile's prices were fitted to, as shares of the steps and
	   of their time; without a calibrated profile there are none. */
	bool has_outside;
	double outside_step_share, outside_share;
	/* Bit of each cause of waiting whose limit does not keep an engine at capacity: twice as
	   much of it would carry hardly more. KV blocks are among them only where the engine
	   was overloaded and prompts share nothing. */
	uint32_t vain_causes;
	/* Bit of each cause whose option is at the end of its range, so nobody can give more. */
	uint32_t spent_causes;
	bool has_utilisation;
	/* Of what the engine can carry (bench/record/capacity.h). demand: the same without the
	   bound of 1. It lies above 1 where work took less than the price of capacity has for it,
	   as prompts that come all at once do. */
	double utilisation, demand;
	/* What arrives in a time would take so much of it at capacity; 0: not known, a closed loop,
	   or all arrive at once. */
	double offered_demand;
	bool is_filling; /* requests pile up until the last arrival */
	/* shares of the limits: peaks, and means over the window, of the token budget over steps */
	double kv_peak, kv_mean, seats_peak, seats_mean, budget_peak, budget_mean;

	uint32_t level_count; /* 0: the run is no ramp */
	uint64_t level_ns;
	struct level_figures
		*levels; /* (level_count); of the metrics, and gone with them; rates are
					 set by the caller */

	bool has_dispatch_late; /* by a wall clock: how late steps started */
	struct latency_figures dispatch_late;
	struct latency_figures gpu_idle; /* between two decode steps; count 0: not measured */
};

struct latency_figures latency_figures_of(const struct histogram *histogram);

/* Fills in the figures that the metrics hold at the end of a run, and the verdict. end_ns: the time
   at its end. outcome->end and backlog_at_last_arrival must be set before. */
void run_outcome_of_metrics(struct run_outcome *outcome, const struct metrics *metrics,
	uint64_t end_ns, bool is_closed_loop);

/* Fills in utilisation and shares, after run_outcome_of_metrics(). Of a fleet they are over the
   time in which each replica could work. limits: of a replica on average. seats: --max-num-seqs, of
   which limits has fewer where --max-concurrency holds requests back. pricer: prices steps of this
   GPU; NULL: nothing does. */
void run_outcome_of_load(struct run_outcome *outcome, const struct metrics *metrics,
	const struct engine_config *limits, uint64_t seats, const struct runner *pricer);

const char *verdict_name(enum verdict verdict);
const char *run_end_name(enum run_end end);

#endif
