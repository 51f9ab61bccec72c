#ifndef BENCH_SWEEP_SWEEP_H
#define BENCH_SWEEP_SWEEP_H

#include "bench/replay/run.h"

/* Runs of one trace over a grid of configurations, each into a result folder of its own, and one
   table of them all: the implementation of `quire sweep`.

       DIR/sweep.json, sweep.tsv    reports/results/sweep_file.h has their contract
       DIR/cache.tsv                the trace's cache curve, where the KV pool's size varies
       DIR/provenance.json          of the sweep
       DIR/NAME/                    the result of `quire replay --out`, byte for byte

   A run whose folder is whole is not done again: its provenance.json holds a hash of the program's
   commit, the trace, every option and the files that options name, but for weights. So a sweep
   that was interrupted or killed goes on when it is started again, and a grid can be extended.

   Under mpirun the other processes do the runs, and DIR is on a file system that all hosts share
   (bench/jobs/jobs.h). */

struct sweep_request {
	struct run_request run; /* what all runs share */
	const char *grid;	/* text of --grid */
	const char *out;
	uint64_t jobs;	/* runs at once; 0: as many as there are processors */
	bool is_forced; /* every run is done again, and other results are replaced */
	bool is_silent; /* no progress and no table */
	int argc;	/* the command line, for provenance.json */
	char **argv;
};

/* STATUS_VERDICT: a run failed (its row says why), or the sweep was interrupted. */
enum status sweep_run(const struct sweep_request *request, struct error *error);

#endif
