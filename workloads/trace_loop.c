#include "workloads/trace_loop.h"

#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/twin.h"

#include <stdlib.h>

struct trace_loop {
	const char *path;
	struct trace_options options;
	enum loop_mode mode;
	struct trace *first;   /* the first reading */
	struct trace *current; /* likewise in the first repetition */
	uint64_t repetition;   /* from 0 */

	/* of the first repetition */
	uint64_t row_count;
	uint64_t first_ns, last_ns;

	struct twin twin; /* of the current row, where it is another one than the file's */
};

enum status trace_loop_open(struct trace_loop **out, const char *path,
	const struct trace_options *options, enum loop_mode mode, struct error *error)
{
	struct trace_loop *loop = memory_take(1, sizeof(*loop));

	*out = NULL;
	loop->path = path;
	loop->options = *options;
	loop->mode = mode;
	if (trace_open(&loop->first, path, options, error) != STATUS_OK) {
		trace_loop_close(loop);
		return error->status;
	}
	loop->current = loop->first;
	*out = loop;
	return STATUS_OK;
}

void trace_loop_close(struct trace_loop *loop)
{
	if (loop == NULL) {
		return;
	}
	if (loop->current != loop->first) {
		trace_close(loop->current);
	}
	trace_close(loop->first);
	twin_deinit(&loop->twin);
	free(loop);
}

/* From the start of a repetition to that of the next. */
static uint64_t period_ns(const struct trace_loop *loop)
{
	uint64_t span_ns = loop->last_ns - loop->first_ns;

	return loop->row_count < 2 ? 0 : span_ns + span_ns / (loop->row_count - 1);
}

bool trace_loop_is_repetition(const struct trace_loop *loop)
{
	return loop->repetition > 0;
}

bool trace_loop_stands_still(const struct trace_loop *loop)
{
	return loop->repetition > 0 && period_ns(loop) == 0;
}

struct trace *trace_loop_trace(const struct trace_loop *loop)
{
	return loop->first;
}

/* ---- rows of a later repetition ---- */

static uint64_t shifted_ns(const struct trace_loop *loop, uint64_t arrival_ns)
{
	u128 ns = arrival_ns + (u128)loop->repetition * period_ns(loop);

	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

static void repeat_row(struct trace_loop *loop, struct trace_row *row)
{
	row->index += loop->repetition * loop->row_count;
	row->arrival_ns = shifted_ns(loop, row->arrival_ns);
	twin_rename(&loop->twin, loop->repetition, row);
	if (loop->mode == LOOP_FRESH) {
		twin_change_ids(&loop->twin, loop->repetition, 0, 0, row);
	}
}

/* ---- reading ---- */

static void note_row(struct trace_loop *loop, const struct trace_row *row)
{
	loop->first_ns = loop->row_count == 0 ? row->arrival_ns : loop->first_ns;
	loop->last_ns = row->arrival_ns;
	loop->row_count++;
}

static enum status begin_again(struct trace_loop *loop, struct error *error)
{
	if (loop->current != loop->first) {
		trace_close(loop->current);
	}
	loop->current = NULL;
	loop->repetition++;
	return trace_open(&loop->current, loop->path, &loop->options, error);
}

enum status trace_loop_next(
	struct trace_loop *loop, struct trace_row *row, bool *has_row, struct error *error)
{
	TRY(trace_next(loop->current, row, has_row, error));
	if (!*has_row && loop->mode != LOOP_OFF) {
		TRY(begin_again(loop, error));
		TRY(trace_next(loop->current, row, has_row, error));
	}
	if (!*has_row) {
		return STATUS_OK;
	}
	if (loop->repetition == 0) {
		note_row(loop, row);
	} else {
		repeat_row(loop, row);
	}
	return STATUS_OK;
}
