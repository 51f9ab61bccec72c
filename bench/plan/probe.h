#ifndef BENCH_PLAN_PROBE_H
#define BENCH_PLAN_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/plan/knob.h"
#include "bench/plan/objective.h"
#include "bench/replay/run.h"

/* A probe: one run of a plan, which `quire replay` would make with the same options. Jobs and
   figures are plain structs, so that they go to worker processes and back as bytes. */

struct probe_job {
	uint32_t configuration;
	enum knob_index knob;
	bool is_alone;		    /* one request in the system at a time; load is not used */
	uint64_t load;		    /* of the knob */
	uint64_t replicate;	    /* from 1; 0: the trace itself */
	bool is_drawn;		    /* --resample-seed is `replicate` higher */
	uint64_t window_millionths; /* --resample-window of that, in s; 0: its default */
	bool draws_arrivals;	    /* --seed is `replicate` higher, for a trace that is made too */
	uint64_t step_time_scale;   /* in millionths */
	uint64_t lost;		    /* replicas, of all of them, that fail at time 0 */
};

struct probe_figures {
	bool passes;
	struct objective_verdict judged;
	enum verdict verdict;

	/* measured requests */
	uint64_t submitted, attained, rejected, failed, unfinished;
	uint64_t missed_ttft, missed_tpot, missed_e2e, longest_missed;
	/* rejected, by what they exceed, and what would take all of them; 0: none is */
	uint64_t too_long, never_fit, needed_model_len, needed_kv_blocks;
	bool is_router_blind;	      /* bench/fleet/replicas.h */
	bool has_groups;	      /* --fleet has a table of them, in which their limits stand */
	struct slo_interval interval; /* of the share that attains */
	bool has_offered;
	double offered_per_s, arrival_span_ms;			   /* where arrivals take time */
	double finished_per_s, goodput_per_s, output_tokens_per_s; /* as replay has them */
	/* The same at the load that is offered, without the time behind the last arrival in which
	   the remaining requests are served; where arrivals take no time, as above. */
	double offered_goodput_per_s, offered_tokens_per_s;
	bool has_latency[LATENCY_COUNT];
	double latency_ms[LATENCY_COUNT][STATISTIC_COUNT];
	bool has_hit_rate, has_utilisation, has_outside;
	double hit_rate, utilisation;
	double outside_share; /* of step time, outside of what the profile was fitted to */
	/* Of all that arrives, in the time in which it arrives: above 1 it cannot be carried. */
	double demand;
	double kv_peak, seats_peak, budget_peak;
	double wait_s[WAIT_CAUSE_COUNT];
	uint32_t vain_causes;  /* of which more would not help: run_outcome.h */
	uint32_t spent_causes; /* of which no option gives more */
	bool has_given_blocks; /* --kv-blocks decides, not --gpu-memory-utilization */
	bool is_held_back;     /* --max-concurrency decides, not --max-num-seqs */
	bool has_least_seats, has_least_budget; /* steps can have no fewer */
	uint64_t preemptions;
	uint64_t replicas;
	uint64_t kv_blocks, trace_xxh64, result_hash, trace_requests;
};

/* A configuration of a plan: complete but for what a job sets. */
struct probe_configuration {
	struct run_request run;
};

/* Makes a trace from a seed, for replicates of a load that is described and not recorded. */
struct trace_maker {
	enum status (*open)(void *context, uint64_t seed, struct error *error);
	const char *(*path)(void *context); /* of the trace that is open */
	void (*close)(void *context);	    /* removes it; also after a failure */
	void *context;
};

/* What all probes share. */
struct probe_context {
	const struct trace_maker *maker; /* NULL: the trace is a file */
	const struct probe_configuration *configurations;
	const struct objective *objective;
};

/* The request of a job. outages: storage of PROBE_OUTAGES_BYTES that it may point to. */
enum { PROBE_LOST_MAX = 64, PROBE_OUTAGES_BYTES = PROBE_LOST_MAX * 16 };
struct run_request probe_request(
	const struct probe_context *context, const struct probe_job *job, char *outages);

/* Runs it. An interrupted or failed run is an error. */
enum status probe_run(const struct probe_context *context, const struct probe_job *job,
	struct probe_figures *figures, struct error *error);

/* The same for bench/jobs/jobs.h: the bytes of a struct probe_job to those of its figures. */
enum status probe_do_job(
	void *context, const struct text *job, struct text *result, struct error *error);

/* Appends what the job runs: "the run with --speedup 2 --resample-seed 3". */
void probe_describe_job(void *context, const struct text *job, struct text *text);

#endif
