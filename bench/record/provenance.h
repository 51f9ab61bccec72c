#ifndef BENCH_RECORD_PROVENANCE_H
#define BENCH_RECORD_PROVENANCE_H

#include <stdint.h>
#include <stdio.h>

/* provenance.json: where, when and how a result was made. It is the only file that differs between
   two equal runs. */

struct provenance {
	int argc; /* the command line, from the command's name on */
	char **argv;
	const char *command; /* the same as a text for a shell, in place of the two; or NULL */
	uint64_t wall_ns;
	const char *device; /* the GPU's name; "": only the host computed */
	uint64_t identity;  /* of a run of a sweep (bench/sweep/sweep.h); 0: none */
};

/* A failed write is reported when the file is closed. */
void provenance_write(const struct provenance *provenance, FILE *file);

/* What this program was built from: the project's version, the commit, and the CUDA toolkit with
   the GPU architectures, or "no CUDA". */
const char *version_number(void); /* "0.1.0" */
const char *version_commit(void); /* output of git describe; "unknown" outside a repository */
const char *version_cuda(void);	  /* "CUDA 13.0 for 90a", or "no CUDA" */

#endif
