#ifndef BENCH_OPTIONS_PROGRESS_H
#define BENCH_OPTIONS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A progress line on stderr, rewritten a few times per second. It has no influence on results. When
   it is not shown, no clock is read. */

struct progress {
	bool is_shown;
	bool has_line;
	uint64_t next_ns; /* next update, on the monotonic clock */
	uint64_t start_ns;
};

void progress_start(struct progress *progress, bool is_shown);
void progress_show(
	struct progress *progress, uint64_t finished, uint64_t virtual_ns, uint64_t steps);
void progress_end(struct progress *progress);

#endif
