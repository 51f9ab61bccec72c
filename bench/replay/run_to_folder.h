#ifndef BENCH_REPLAY_RUN_TO_FOLDER_H
#define BENCH_REPLAY_RUN_TO_FOLDER_H

#include "bench/replay/run.h"

/* A run that writes a result folder: the implementation of `quire replay`. One of many says nothing
   on stderr, and writes nothing where it is interrupted. */

struct replay_request {
	struct run_request run;
	const char *out;		  /* the folder; NULL: nothing is written */
	bool is_forced;			  /* replace an older result */
	bool wants_steps;		  /* write steps.tsv */
	const char *timeline;		  /* file to write for Perfetto; NULL: none */
	const char *timeline_window_text; /* FROM:TO, or NULL */
	struct perfetto_window timeline_window;
	bool prints_summary; /* on stdout, as a table, or */
	bool prints_json;    /* as summary.json has it, and nothing else */
	uint64_t identity;   /* for provenance.json; 0: none */
	int argc;	     /* the command line, for provenance.json */
	char **argv;
	const char *command; /* the same as a text for a shell, in place of the two; or NULL */
};

/* A run that failed in its runner or was interrupted writes its results too, and returns the
   failure's status. */
enum status run_to_folder(struct replay_request *request, struct error *error);

#endif
