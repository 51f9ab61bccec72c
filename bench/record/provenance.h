#ifndef BENCH_RECORD_PROVENANCE_H
#define BENCH_RECORD_PROVENANCE_H

#include <stdint.h>

#include "engine/base/status.h"

/* provenance.json: where, when and how a result was made. It is the only file that differs between
   two equal runs. */

struct provenance {
	int argc; /* the command line, from the command's name on */
	char **argv;
	uint64_t wall_ns;
	const char *device; /* the GPU's name; "": only the host computed */
};

enum status provenance_write(
	const struct provenance *provenance, const char *path, struct error *error);

#endif
