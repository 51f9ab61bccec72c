#include "bench/options/progress.h"

#include "engine/base/clock.h"

#include <stdio.h>

enum { PROGRESS_INTERVAL_NS = 100 * 1000 * 1000 };

void progress_start(struct progress *progress, bool is_shown)
{
	*progress = (struct progress){.is_shown = is_shown};
	if (is_shown) {
		progress->start_ns = monotonic_ns();
		progress->next_ns = progress->start_ns + PROGRESS_INTERVAL_NS;
	}
}

void progress_show(
	struct progress *progress, uint64_t finished, uint64_t virtual_ns, uint64_t steps)
{
	if (!progress->is_shown) {
		return;
	}
	uint64_t now = monotonic_ns();
	if (now < progress->next_ns) {
		return;
	}
	progress->next_ns = now + PROGRESS_INTERVAL_NS;
	progress->has_line = true;
	uint64_t wall_ns = now - progress->start_ns;
	fprintf(stderr, "\r\033[K%llu requests finished, %llu steps, %llu s of the trace in %.1f s",
		(unsigned long long)finished, (unsigned long long)steps,
		(unsigned long long)(virtual_ns / 1000000000), (double)wall_ns / 1e9);
	fflush(stderr);
}

void progress_end(struct progress *progress)
{
	if (progress->has_line) {
		fprintf(stderr, "\r\033[K");
		fflush(stderr);
	}
}
