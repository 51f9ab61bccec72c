#include "workloads/trace_loop.h"

#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/text.h"

#include <stdlib.h>

#include <xxhash.h>

struct ids {
	uint64_t *ids;
	size_t capacity;
};

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

	/* of the current row, where it is another one than the file's */
	struct text session, turn, parent;
	struct ids hash_ids, prompt_ids, output_ids;
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
	text_deinit(&loop->session);
	text_deinit(&loop->turn);
	text_deinit(&loop->parent);
	free(loop->hash_ids.ids);
	free(loop->prompt_ids.ids);
	free(loop->output_ids.ids);
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

/* The name of a session or turn in this repetition. */
static const char *rename(const struct trace_loop *loop, struct text *text, const char *name)
{
	if (name == NULL) {
		return NULL;
	}
	text->byte_count = 0;
	text_add(text, name);
	text_format(text, "#%llu", (unsigned long long)loop->repetition + 1);
	return text->bytes;
}

/* Other hash ids, below 2^63 as all of them, or token ids, which are taken modulo the size of the
   vocabulary. Token ids that were only raised would be those of a row whose own are higher. */
static const uint64_t *other_ids(
	const struct trace_loop *loop, struct ids *out, const uint64_t *ids, size_t count)
{
	if (ids == NULL) {
		return NULL;
	}
	out->ids = memory_grow(out->ids, &out->capacity, count, sizeof(*out->ids));
	for (size_t i = 0; i < count; i++) {
		out->ids[i] = XXH64(&ids[i], sizeof(ids[i]), loop->repetition) >> 1;
	}
	return out->ids;
}

static uint64_t shifted_ns(const struct trace_loop *loop, uint64_t arrival_ns)
{
	u128 ns = arrival_ns + (u128)loop->repetition * period_ns(loop);

	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

static void repeat_row(struct trace_loop *loop, struct trace_row *row)
{
	row->index += loop->repetition * loop->row_count;
	row->arrival_ns = shifted_ns(loop, row->arrival_ns);
	row->session = rename(loop, &loop->session, row->session);
	row->turn = rename(loop, &loop->turn, row->turn);
	row->parent = rename(loop, &loop->parent, row->parent);
	if (loop->mode == LOOP_FRESH) {
		row->hash_ids = other_ids(loop, &loop->hash_ids, row->hash_ids, row->hash_id_count);
		row->prompt_ids =
			other_ids(loop, &loop->prompt_ids, row->prompt_ids, row->input_length);
		row->output_ids =
			other_ids(loop, &loop->output_ids, row->output_ids, row->output_length);
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
