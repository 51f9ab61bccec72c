#ifndef ENGINE_WINDOW_H
#define ENGINE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/block_sharing.h"
#include "engine/sequence_queue.h"

/* The decode window: the running sequences that a decode pass gives one token each, at most
   max_count of them. A sequence joins when its prompt is computed; the others in mid-prompt may be
   anywhere in the running queue. One that finds no room, or that a step has no token for, is
   outside until window_extend() lets it in again.

   A pass costs nothing for a sequence that needs no work from the scheduler. When it will need work
   is known ahead: a new block at a block's first token, registration at its last, its end at
   max_tokens or at a forced EOS. So each sequence is filed in a timing wheel under the pass in
   which that happens, and a pass visits the sequences due in it. The counts of the others are
   brought up to date by sequence_settle() when they are next read. */

struct decode_window {
	uint32_t max_count;
	uint32_t block_size;
	bool registers_late;	/* a block is registered when the next one begins, not when its last
				token is computed */
	uint64_t clock;		/* decode passes completed */
	uint32_t count;		/* sequences in the window */
	uint32_t outside_count; /* running sequences that are outside */
	uint64_t context;	/* their tokens, as of clock */
	struct block_sharing sharing; /* of the blocks that they hold */
	struct sequence *longest;     /* the one with the most tokens; NULL: unknown */
	struct sequence **wheel;      /* (wheel_mask + 1) lists by decode pass */
	uint64_t wheel_mask;
	struct sequence **due; /* (max_count) collected for the next pass */
};

/* block_count: of the pool. */
void window_init(struct decode_window *window, uint32_t max_count, uint32_t block_size,
	uint32_t block_count);
void window_deinit(struct decode_window *window);

/* A running sequence whose prompt is computed enters, behind those outside. */
void window_join(struct decode_window *window, struct sequence *sequence);

/* Lets those outside enter in queue order while there is room. */
void window_extend(struct decode_window *window, const struct sequence_queue *running);

/* Puts a sequence of the window outside: it gets no token in the next pass. */
void window_stall(struct decode_window *window, struct sequence *sequence);

/* A sequence of the window has got the entries of its block table from `first` on. */
void window_take_blocks(
	struct decode_window *window, const struct sequence *sequence, uint32_t first);

/* Removes a sequence that stops running, and settles it, while it holds its blocks. It need not be
   in the window. */
void window_leave(struct decode_window *window, struct sequence *sequence);

/* Writes the sequences due in the next pass to window->due, in queue order; returns their number.
   */
uint32_t window_collect_due(struct decode_window *window);

/* As window_collect_due(), but with all sequences of the window. */
uint32_t window_collect_all(struct decode_window *window, const struct sequence_queue *running);

static inline bool window_has_due(const struct decode_window *window)
{
	return window->wheel[window->clock & window->wheel_mask] != NULL;
}

/* Completes a decode pass. */
static inline void window_advance(struct decode_window *window)
{
	window->clock++;
	window->context += window->count;
}

/* Files a settled sequence again, after the pass it was filed under. */
void window_file_again(struct decode_window *window, struct sequence *sequence);

static inline void window_refile(struct decode_window *window, struct sequence *sequence)
{
	if (sequence->is_due_listed && sequence->due_clock < window->clock) {
		window_file_again(window, sequence);
	}
}

/* Tokens of a sequence of the window after decode pass `clock`. */
static inline uint32_t window_tokens_at(const struct sequence *sequence, uint64_t clock)
{
	return sequence->token_count + (uint32_t)(clock - sequence->decode_clock);
}

/* Searches a non-empty window for the sequence with the most tokens. All sequences of the window
   grow by one token per pass. So the longest stays the longest until a longer one enters or it
   leaves; only then is a new search needed. */
struct sequence *window_find_longest(
	const struct decode_window *window, const struct sequence_queue *running);

/* Tokens of the longest sequence; 0: the window is empty. */
static inline uint32_t window_longest_context(
	struct decode_window *window, const struct sequence_queue *running)
{
	if (window->count == 0) {
		return 0;
	}
	if (window->longest == NULL) {
		window->longest = window_find_longest(window, running);
	}
	return window_tokens_at(window->longest, window->clock);
}

/* Verifies every invariant of the window and the order of the running queue. */
void window_check(const struct decode_window *window, const struct sequence_queue *running);

#endif
