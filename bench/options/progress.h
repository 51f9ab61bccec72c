#ifndef BENCH_OPTIONS_PROGRESS_H
#define BENCH_OPTIONS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* How far a run is, on stderr: a line that is rewritten a few times a second, or where stderr is no
   terminal a new one every 30 seconds. It has no influence on results. When it is not shown, no
   clock is read. */

enum progress_mode {
	PROGRESS_NONE,
	PROGRESS_TERMINAL, /* one line, rewritten */
	PROGRESS_LOG,	   /* a line every 30 s */
};

struct progress {
	enum progress_mode mode;
	bool has_line;
	uint64_t next_ns; /* next update, on the monotonic clock */
	uint64_t start_ns;
};

struct progress_state {
	uint64_t ended; /* requests that left the engine */
	uint64_t total; /* requests; 0: unknown */
	uint64_t virtual_ns;
	uint64_t
		duration_ns; /* at which the run ends, if the requests do not end before; 0: none */
	uint64_t steps;
};

/* The mode for this process's stderr. */
enum progress_mode progress_mode_of_stderr(void);

void progress_start(struct progress *progress, enum progress_mode mode);

/* Whether it is time for progress_show(). */
bool progress_is_due(const struct progress *progress);
void progress_show(struct progress *progress, const struct progress_state *state);
/* The same for a line of the caller's. */
void progress_show_line(struct progress *progress, const char *line);
void progress_end(struct progress *progress);

/* Since progress_start(), in a mode that shows something. */
double progress_elapsed_s(const struct progress *progress);

/* The line, without a line break. wall_ns: since the start. Where the end is known, it says the
   share and the time left as well. */
enum { PROGRESS_LINE_BYTES = 200 };
void progress_line(const struct progress_state *state, uint64_t wall_ns, char *text);

#endif
