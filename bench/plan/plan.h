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
	struct run_request run;		 /* of all configurations; its slo is the objective's */
	struct objective objective;	 /* as given; its slo is taken from `run` */
	uint32_t vary;			 /* enum knob_index */
	bool has_vary;			 /* it was given */
	uint64_t precision;		 /* of the answer, in millionths */
	uint64_t replicates;		 /* of the sampling interval; 0: no intervals */
	uint64_t jobs;			 /* runs at once; 0: as many as there are processors */
	uint64_t target_rate;		 /* requests/s * 10^6 that replicas must carry; 0: none */
	uint64_t target_speedup;	 /* likewise, times 10^6 the trace's traffic; 0: none */
	uint64_t spare;			 /* replicas that may be lost */
	uint64_t cost_per_gpu_hour;	 /* * 10^6; 0: not given */
	const char *grid;		 /* configurations; NULL: none */
	struct option_texts tries;	 /* further ones */
	const struct trace_maker *maker; /* of the trace of `run`, with its seed; NULL: a file */
	const char *made_by;		 /* the command that makes that trace; NULL: a file */
	const char *out;		 /* folder to write; NULL: none */
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
	enum status status;	      /* of one that is taken */
	char *failure;		      /* why its run cannot be made; owned; NULL: it was made */
	struct probe_figures figures; /* of a run that was made */
};

/* Whether the probe has figures. */
bool track_probe_is_done(const struct track_probe *probe);

struct track {
	struct track_options options;
	struct search *search;
	struct track_probe *probes; /* (count) by number */
	size_t count, capacity;
};

/* Why harder loads change nothing. */
enum load_limit {
	LIMIT_NONE,
	LIMIT_ROWS, /* all requests of the trace are in the system at a time */
	LIMIT_SPAN, /* all of them arrive within the first step */
};

/* What is known of a configuration before any run, and which runs its intervals have. */
struct plan_configuration_state {
	const char *name, *options;
	uint64_t lowest, highest, first; /* loads of the knob */
	enum load_limit limit;		 /* what the trace cannot show, if the search ends there */
	double gpus;			 /* of a replica; the mean, where those of --fleet differ */
	uint64_t kv_blocks, block_size;
	uint64_t found_kv_blocks; /* what the GPU's memory has room for */
	bool is_beyond_memory;	  /* kv_blocks is more */
	bool is_calibrated;
	struct text profile_note;	  /* as of summary.json; owned; empty: none */
	char gpu[GPU_PROFILE_NAME_BYTES]; /* the profile of its steps, unless --fleet says */
	char profile[256];		  /* all that do, with commas */
	char uncalibrated[256];		  /* those of them that are not calibrated, if any is not */
	char model[64];
	uint32_t main;	      /* its main track */
	struct cJSON *config; /* as summary.json has it; owned */

	/* of its intervals (bench/plan/replicates.h) */
	uint32_t index;		   /* of the configuration */
	uint64_t model_error;	   /* of its prices, in millionths */
	bool is_guess;		   /* a guess: no error was measured */
	bool knows_cards;	   /* how far cards of the GPU differ is in it */
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
	/* From each later turn's predecessor to it, ns, ascending; (gap_count), owned. */
	uint64_t *gaps;
	size_t gap_count, gap_capacity;
	struct track **tracks; /* (track_count) */
	size_t track_count, track_capacity;
	struct jobs *jobs;
	struct job_place *places; /* (place_count) by the number of the job */
	size_t place_count, place_capacity;
	uint64_t done;	   /* runs */
	uint64_t start_ns; /* of the plan, by the monotonic clock */
	struct progress progress;
	bool is_interrupted;
	struct error ended; /* why it ended early, but for an interrupt */
};

/* Checks the request, opens each configuration once, so that wrong use is found before a run, and
   has workers. Under mpirun only the manager returns (bench/jobs/jobs.h). To be closed after a
   failure too. */
enum status plan_open(struct plan *plan, const struct plan_request *request, struct error *error);

/* Runs all tracks. A run that cannot be made at its load is a probe with a failure. Ends early,
   with plan->is_interrupted or plan->ended, by an interrupt, where no worker can be had, or where
   the machine fails a run: a file cannot be read, or memory cannot be had. */
void plan_run(struct plan *plan);

/* Whether the answers of all configurations are known; what is missing then is of error bars. */
bool plan_mains_have_ended(const struct plan *plan);

/* Why no configuration has a run to begin with, if so: then nothing is known, nor written. */
enum status plan_refusal(const struct plan *plan, struct error *error);

/* "18 of about 25 runs, 3 s left", where `done` took the seconds that elapsed. text:
   PROGRESS_LINE_BYTES. */
void plan_progress_line(uint64_t done, uint64_t left, double elapsed_s, char *text);

/* The run of a track's probe. */
struct probe_job plan_job(
	const struct plan *plan, const struct track *track, const struct search_probe *probe);

/* Adds a track, which starts at once. Returns its number. */
uint32_t plan_add_track(struct plan *plan, const struct track_options *options);

void plan_close(struct plan *plan);

#endif
