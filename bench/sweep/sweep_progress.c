#include "bench/sweep/sweep_progress.h"

#include "engine/base/clock.h"
#include "engine/base/number.h"

#include <stdio.h>

enum { LINE_BYTES = 160, NS_A_SECOND = 1000 * 1000 * 1000 };

static void show(struct sweep_progress *own)
{
	uint64_t elapsed_ns = monotonic_ns() - own->progress.start_ns;
	char line[LINE_BYTES];
	int used = snprintf(line, sizeof(line), "%u of %u %s complete",
		own->total - own->to_do + own->done - own->failed, own->total,
		word_of_count(own->total, "run", "runs"));

	if (own->failed > 0) {
		used += snprintf(
			line + used, sizeof(line) - (size_t)used, ", %u failed", own->failed);
	}
	if (own->done > 0) {
		snprintf(line + used, sizeof(line) - (size_t)used, ", about %llu s left",
			(unsigned long long)(elapsed_ns / own->done * (own->to_do - own->done) /
					     NS_A_SECOND));
	}
	progress_show_line(&own->progress, line);
}

void sweep_progress_begin(struct sweep_progress *own, bool is_shown, uint32_t total, uint32_t to_do)
{
	*own = (struct sweep_progress){.total = total, .to_do = to_do};
	progress_start(&own->progress, is_shown ? progress_mode_of_stderr() : PROGRESS_NONE);
	if (own->progress.mode == PROGRESS_TERMINAL) {
		show(own);
	}
}

void sweep_progress_add(struct sweep_progress *own, bool has_failed)
{
	own->done++;
	own->failed += has_failed;
	if (progress_is_due(&own->progress)) {
		show(own);
	}
}

void sweep_progress_end(struct sweep_progress *own)
{
	progress_end(&own->progress);
}
