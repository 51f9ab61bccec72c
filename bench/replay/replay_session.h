#ifndef BENCH_REPLAY_REPLAY_SESSION_H
#define BENCH_REPLAY_REPLAY_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/replay/replay_config.h"
#include "engine/base/status.h"

/* One `quire replay` from its options to its result folder: opens model, runner, trace and folder,
   replays, writes the results and prints the summary. */

struct replay_request {
	struct replay_config config;	   /* completed by the session */
	uint64_t slo_ttft_ns, slo_tpot_ns; /* 0: none */
	const char *trace_path;
	const char *out;
	const char *tape;     /* NULL: none */
	const char *timeline; /* file to write; NULL: none */
	bool wants_kernel_times;
	bool wants_steps; /* write steps.tsv */
	bool is_checking;
	bool is_forced; /* replace an older result */
	bool is_quiet;	/* print no summary */
	int argc;	/* for provenance.json */
	char **argv;
};

/* A run that failed in its runner, or was interrupted, has written its results all the same; its
   status says why. */
enum status replay_session_run(struct replay_request *request, struct error *error);

#endif
