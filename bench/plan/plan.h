#ifndef BENCH_PLAN_PLAN_H
#define BENCH_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/grid/grid.h"
#include "bench/options/progress.h"
#include "bench/plan/bands.h"
#include "bench/plan/knob.h"
#include "bench/plan/objective.h"
#include "bench/plan/probe.h"
#include "bench/plan/search.h"
#include "engine/base/text.h"

/* A plan: for each configuration the highest load that passes, or the least of what is needed.

       configurations ─► tracks: a search each ─► probes ─► jobs ─► figures ─► tracks
                          ▲                                                      │
                          └───── further tracks, for intervals ◄── main track ◄──┘

   A track is one search and the runs that it made. All tracks run side by side; each depends on its
   own figures only, so a plan has the same bytes with any number of workers. */

struct plan_request {
	struct run_request run;	    /* of all configurations; its slo is the objective's */
	struct objective objective; /* as given; its slo is taken from `run` */
	uint32_t vary;		    /* enum knob_index */
	bool has_vary;		    /* it was given */
	uint64_t precision;	    /* of the answer, in millionths */
	uint64_t replicates;	    /* of the sampling interval; 0: no intervals */
	uint64_t jobs;		    /* runs at once; 0: as many as there are processors */
	uint64_t target_rate;	    /* requests/s * 10^6 that replicas must carry; 0: none */
	uint64_t target_speedup;    /* likewise, times 10^6 the trace's traffic; 0: none */
	uint64_t spare;		    /* replicas that may be lost */
	uint64_t cost_per_gpu_hour; /* * 10^6; 0: not given */
	const char *grid;	    /* configurations; NULL: none */
	struct option_texts tries;  /* further ones */
	const char *out;	    /* folder to write; NULL: none */
	bool is_forced, prints_json;
	int argc; /* the command line, for provenance.json */
	char **argv;
};

/* What a track is for. */
enum track_kind { TRACK_MAIN, TRACK_SAMPLING, TRACK_MODEL };

struct track_options {
	uint32_t configuration;
	enum track_kind kind;
	uint64_t replicate;	    /* from 1; 0: the trace itself */
	bool is_drawn;		    /* from the trace, by --resample-seed `replicate` */
	uint64_t window_millionths; /* --resample-window of that; 0: its default */
	bool draws_arrivals;	    /* by a seed that is `replicate` higher */
	uint64_t step_time_scale;   /* in millionths; 0: as configured */
	struct search_options search;
};

struct track_probe {
	struct search_probe probe;
	bool is_taken;
	struct probe_figures figures; /* of one that is taken */
};

struct track {
	struct track_options options;
	struct search *search;
	struct track_probe *probes; /* (count) by number */
	size_t count, capacity;
};

/* What is known of a configuration before any run. */
struct plan_configuration_state {
	const char *name, *options;
	uint64_t lowest, highest, first; /* loads of the knob */
	uint64_t gpus;			 /* of one replica */
	uint64_t kv_blocks, block_size;
	bool is_calibrated;
	char gpu[GPU_PROFILE_NAME_BYTES]; /* what prices its steps */
	char model[64];
	uint32_t main;	      /* its main track */
	struct cJSON *config; /* as summary.json has it; owned */

	/* of its intervals (bench/plan/replicates.h) */
	uint32_t index;		   /* of the configuration */
	uint64_t model_error;	   /* of its prices, in millionths */
	bool is_guess;		   /* nobody measured that */
	struct band_window window; /* of draws from the trace */
	uint32_t replicate_first;  /* the first of their tracks: `samples` and two; 0: none yet */
	uint64_t samples;
};

struct job_place {
	uint32_t track, probe;
};

struct jobs;

struct plan {
	const struct plan_request *request;
	enum knob_index knob;
	struct objective objective;
	struct grid grid;
	uint32_t configuration_count;
	struct plan_configuration_state *states;    /* (configuration_count) */
	struct probe_configuration *configurations; /* (configuration_count) */
	struct probe_context context;
	uint64_t trace_span_ns, trace_rows; /* first to last time of the trace */
	struct track **tracks;		    /* (track_count) */
	size_t track_count, track_capacity;
	struct jobs *jobs;
	struct job_place *places; /* (place_count) by the number of the job */
	size_t place_count, place_capacity;
	uint64_t done;	   /* runs */
	uint64_t start_ns; /* of the plan, by the monotonic clock */
	struct progress progress;
	bool is_interrupted;
};

/* Checks the request, opens each configuration once, so that wrong use is found before a run, and
   has workers. Under mpirun only the manager returns (bench/jobs/jobs.h). To be closed after a
   failure too. */
enum status plan_open(struct plan *plan, const struct plan_request *request, struct error *error);

/* Runs all tracks. Interrupted: STATUS_OK, with plan->is_interrupted. */
enum status plan_run(struct plan *plan, struct error *error);

/* Adds a track, which starts at once. Returns its number. */
uint32_t plan_add_track(struct plan *plan, const struct track_options *options);

void plan_close(struct plan *plan);

#endif
