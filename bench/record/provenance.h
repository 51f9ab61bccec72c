#ifndef BENCH_RECORD_PROVENANCE_H
#define BENCH_RECORD_PROVENANCE_H

#include <stdint.h>

#include "engine/base/status.h"

/* provenance.json: where, when and how a result was made. It is the one file that differs between
   two runs of the same thing. */

struct provenance {
	int argc; /* the command line, from the command's name on */
	char **argv;
	uint64_t wall_ns;
	const char *device; /* what computed; "": only the host */
};

enum status provenance_write(
	const struct provenance *provenance, const char *path, struct error *error);

#endif
