#include "engine/window.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { INSERTED_MAX = 64 };

void window_init(
	struct decode_window *window, uint32_t max_count, uint32_t block_size, uint32_t block_count)
{
	/* A sequence is due within the next block_size passes. */
	uint64_t wheel = u64_power_of_two_at_least((uint64_t)block_size + 1);

	*window = (struct decode_window){
		.max_count = max_count,
		.block_size = block_size,
		.wheel = memory_take(wheel, sizeof(struct sequence *)),
		.wheel_mask = wheel - 1,
		.due = memory_take(max_count, sizeof(struct sequence *)),
	};
	block_sharing_init(&window->sharing, block_count);
}

void window_deinit(struct decode_window *window)
{
	free(window->wheel);
	free(window->due);
	block_sharing_deinit(&window->sharing);
	memset(window, 0, sizeof(*window));
}

/* ---- the timing wheel ---- */

/* Decode passes until the one in which the sequence begins a block, fills one or ends; 0 is the
   next pass. Settled sequences only. */
static uint64_t passes_until_due(
	const struct decode_window *window, const struct sequence *sequence)
{
	uint32_t block_size = window->block_size;
	uint32_t begun =
		(sequence->token_count - 1) % block_size; /* tokens before the last in its block */
	uint32_t until_end =
		sequence->prompt_count + sequence->max_tokens - 1 - sequence->token_count;
	uint32_t until_block = begun == 0 ? 0 : block_size - 1 - begun + window->registers_late;
	uint32_t eos_at = sequence->prompt_count + sequence->forced_eos_count;

	if (eos_at > sequence->token_count) {
		until_end = u32_min(until_end, eos_at - 1 - sequence->token_count);
	}
	return u32_min(until_block, until_end);
}

/* Files a settled sequence under the first pass, from the next one on, in which it is due. */
static void wheel_file(struct decode_window *window, struct sequence *sequence)
{
	uint64_t due = window->clock + passes_until_due(window, sequence);
	struct sequence **list = &window->wheel[due & window->wheel_mask];

	sequence->due_clock = due;
	sequence->is_due_listed = true;
	sequence->due_previous = NULL;
	sequence->due_next = *list;
	if (*list != NULL) {
		(*list)->due_previous = sequence;
	}
	*list = sequence;
}

static void wheel_unfile(struct decode_window *window, struct sequence *sequence)
{
	if (sequence->due_previous == NULL) {
		window->wheel[sequence->due_clock & window->wheel_mask] = sequence->due_next;
	} else {
		sequence->due_previous->due_next = sequence->due_next;
	}
	if (sequence->due_next != NULL) {
		sequence->due_next->due_previous = sequence->due_previous;
	}
	sequence->is_due_listed = false;
}

void window_file_again(struct decode_window *window, struct sequence *sequence)
{
	wheel_unfile(window, sequence);
	wheel_file(window, sequence);
}

static int compare_admission(const void *a, const void *b)
{
	const struct sequence *first = *(const struct sequence *const *)a;
	const struct sequence *second = *(const struct sequence *const *)b;

	return (first->admission > second->admission) - (first->admission < second->admission);
}

/* Sorts by admission. A list of the wheel is made of few ascending stretches, so inserting one
   after the other beats qsort() while there are not many. */
static void sort_due(struct sequence **due, uint32_t count)
{
	if (count > INSERTED_MAX) {
		qsort(due, count, sizeof(*due), compare_admission);
		return;
	}
	for (uint32_t i = 1; i < count; i++) {
		struct sequence *moved = due[i];
		uint32_t at = i;
		for (; at > 0 && due[at - 1]->admission > moved->admission; at--) {
			due[at] = due[at - 1];
		}
		due[at] = moved;
	}
}

uint32_t window_collect_due(struct decode_window *window)
{
	struct sequence *sequence = window->wheel[window->clock & window->wheel_mask];
	uint32_t count = 0;
	uint32_t max_count = window->max_count;

	/* The list begins with the latest, so it is turned round. */
	for (; sequence != NULL; sequence = sequence->due_next) {
		window->due[max_count - ++count] = sequence;
	}
	memmove(window->due, window->due + max_count - count, count * sizeof(*window->due));
	sort_due(window->due, count);
	return count;
}

uint32_t window_collect_all(struct decode_window *window, const struct sequence_queue *running)
{
	struct sequence *sequence = running->head;

	for (uint32_t i = 0; i < window->count; sequence = sequence->next) {
		if (sequence->is_decoding) {
			window->due[i++] = sequence;
		}
	}
	return window->count;
}

/* ---- the window ---- */

struct sequence *window_find_longest(
	const struct decode_window *window, const struct sequence_queue *running)
{
	struct sequence *longest = NULL;
	uint32_t most = 0;

	for (struct sequence *s = running->head; s != NULL; s = s->next) {
		uint32_t tokens = window_tokens_at(s, window->clock);
		if (tokens > most && s->is_decoding) {
			longest = s;
			most = tokens;
		}
	}
	return longest;
}

static void window_enter(struct decode_window *window, struct sequence *sequence)
{
	sequence->is_decoding = true;
	sequence->decode_clock = window->clock;
	if (window->longest != NULL &&
		sequence->token_count > window_tokens_at(window->longest, window->clock)) {
		window->longest = sequence;
	}
	window->count++;
	window->context += sequence->token_count;
	block_sharing_hold(&window->sharing, sequence->block_table, sequence->block_count);
	wheel_file(window, sequence);
}

void window_join(struct decode_window *window, struct sequence *sequence)
{
	if (window->outside_count == 0 && window->count < window->max_count) {
		window_enter(window, sequence);
	} else {
		sequence->is_outside = true;
		window->outside_count++;
	}
}

static void window_remove(struct decode_window *window, struct sequence *sequence)
{
	sequence_settle(sequence, window->clock);
	if (window->longest == sequence) {
		window->longest = NULL;
	}
	window->count--;
	window->context -= sequence->token_count;
	block_sharing_let_go(&window->sharing, sequence->block_table, sequence->block_count);
	sequence->is_decoding = false;
	if (sequence->is_due_listed) {
		wheel_unfile(window, sequence);
	}
}

void window_stall(struct decode_window *window, struct sequence *sequence)
{
	window_remove(window, sequence);
	sequence->is_outside = true;
	window->outside_count++;
}

void window_take_blocks(
	struct decode_window *window, const struct sequence *sequence, uint32_t first)
{
	block_sharing_hold(
		&window->sharing, sequence->block_table + first, sequence->block_count - first);
}

void window_leave(struct decode_window *window, struct sequence *sequence)
{
	if (sequence->is_decoding) {
		window_remove(window, sequence);
	} else if (sequence->is_outside) {
		sequence->is_outside = false;
		window->outside_count--;
	}
}

void window_extend(struct decode_window *window, const struct sequence_queue *running)
{
	struct sequence *sequence = running->head;

	while (window->outside_count > 0 && window->count < window->max_count) {
		if (sequence->is_outside) {
			sequence->is_outside = false;
			window->outside_count--;
			window_enter(window, sequence);
		}
		sequence = sequence->next;
	}
}

void window_check(const struct decode_window *window, const struct sequence_queue *running)
{
	uint32_t count = 0;
	uint32_t outside_count = 0;
	uint64_t context = 0;
	uint64_t admission = 0;
	uint32_t longest = 0;

	for (const struct sequence *s = running->head; s != NULL; s = s->next) {
		check(s == running->head || s->admission > admission);
		admission = s->admission;
		outside_count += s->is_outside;
		check(!s->is_outside || (s->is_prompt_computed && !s->is_decoding));
		if (!s->is_decoding) {
			continue;
		}
		check(s->is_due_listed);
		check(s->due_clock >= window->clock);
		check(s->due_clock - window->clock <= window->wheel_mask);
		context += window_tokens_at(s, window->clock);
		longest = u32_max(longest, window_tokens_at(s, window->clock));
		count++;
	}
	check(window->count == count);
	check(window->outside_count == outside_count);
	check(window->context == context);
	check(window->longest == NULL ||
		(window->longest->is_decoding &&
			window_tokens_at(window->longest, window->clock) == longest));
	check(count <= window->max_count);
}
