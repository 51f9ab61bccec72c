#include "bench/options/progress.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/number.h"

#include <stdio.h>
#include <unistd.h>

enum { SHARES = 1000 }; /* tenths of a percent */

#define NS_PER_S UINT64_C(1000000000)

static const uint64_t interval_ns[] = {
	[PROGRESS_NONE] = 0,
	[PROGRESS_TERMINAL] = NS_PER_S / 10,
	[PROGRESS_LOG] = 30 * NS_PER_S,
};

enum progress_mode progress_mode_of_stderr(void)
{
	return isatty(STDERR_FILENO) == 1 ? PROGRESS_TERMINAL : PROGRESS_LOG;
}

void progress_start(struct progress *progress, enum progress_mode mode)
{
	*progress = (struct progress){.mode = mode};
	if (mode != PROGRESS_NONE) {
		progress->start_ns = monotonic_ns();
		progress->next_ns = progress->start_ns + interval_ns[mode];
	}
}

bool progress_is_due(const struct progress *progress)
{
	return progress->mode != PROGRESS_NONE && monotonic_ns() >= progress->next_ns;
}

/* Numbers with commas between thousands, in at most 27 bytes. */
static const char *grouped(uint64_t number, char *text)
{
	char digits[24];
	int count = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	size_t used = 0;

	for (int i = 0; i < count; i++) {
		if (i > 0 && (count - i) % 3 == 0) {
			text[used++] = ',';
		}
		text[used++] = digits[i];
	}
	text[used] = '\0';
	return text;
}

/* How much of the run is done, in SHARES. */
static uint64_t share_done(const struct progress_state *state)
{
	u128 of_rows = state->total == 0 ? 0 : (u128)state->ended * SHARES / state->total;
	u128 of_time =
		state->duration_ns == 0 ? 0 : (u128)state->virtual_ns * SHARES / state->duration_ns;
	u128 share = of_rows > of_time ? of_rows : of_time;

	return share < SHARES ? (uint64_t)share : SHARES;
}

void progress_line(const struct progress_state *state, uint64_t wall_ns, char *text)
{
	char numbers[3][32];
	uint64_t share = share_done(state);
	size_t used = (size_t)snprintf(
		text, PROGRESS_LINE_BYTES, "%s", grouped(state->ended, numbers[0]));

	if (state->total > 0) {
		used += (size_t)snprintf(text + used, PROGRESS_LINE_BYTES - used, " of %s",
			grouped(state->total, numbers[1]));
	}
	used += (size_t)snprintf(text + used, PROGRESS_LINE_BYTES - used, " %s",
		word_of_count(
			state->total > 0 ? state->total : state->ended, "request", "requests"));
	if (share > 0) {
		used += (size_t)snprintf(text + used, PROGRESS_LINE_BYTES - used, " (%llu.%llu %%)",
			(unsigned long long)(share / 10), (unsigned long long)(share % 10));
	}
	used += (size_t)snprintf(text + used, PROGRESS_LINE_BYTES - used,
		", %s %s, %s s of the trace in %llu.%llu s", grouped(state->steps, numbers[1]),
		word_of_count(state->steps, "step", "steps"),
		grouped(state->virtual_ns / NS_PER_S, numbers[2]),
		(unsigned long long)(wall_ns / NS_PER_S),
		(unsigned long long)(wall_ns / (NS_PER_S / 10) % 10));
	if (share > 0) {
		u128 left_ns = (u128)wall_ns * (SHARES - share) / share;
		snprintf(text + used, PROGRESS_LINE_BYTES - used, ", about %s s left",
			grouped((uint64_t)(left_ns / NS_PER_S), numbers[0]));
	}
}

void progress_show_line(struct progress *progress, const char *line)
{
	bool is_terminal = progress->mode == PROGRESS_TERMINAL;

	progress->next_ns = monotonic_ns() + interval_ns[progress->mode];
	progress->has_line = is_terminal;
	fprintf(stderr, is_terminal ? "\r\033[K%s" : "%s\n", line);
	fflush(stderr);
}

void progress_show(struct progress *progress, const struct progress_state *state)
{
	char line[PROGRESS_LINE_BYTES];

	progress_line(state, monotonic_ns() - progress->start_ns, line);
	progress_show_line(progress, line);
}

double progress_elapsed_s(const struct progress *progress)
{
	return (double)(monotonic_ns() - progress->start_ns) / 1e9;
}

void progress_end(struct progress *progress)
{
	if (progress->has_line) {
		fprintf(stderr, "\r\033[K");
		fflush(stderr);
	}
}
