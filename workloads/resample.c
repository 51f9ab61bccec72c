#include "workloads/resample.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/map.h"
#include "engine/base/memory.h"
#include "workloads/conversations.h"
#include "workloads/generate/random.h"
#include "workloads/row_copy.h"
#include "workloads/twin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

enum { PURPOSE_RESAMPLE = 201 };

#define NO_ROW UINT32_MAX

/* A row of the trace. */
struct source_row {
	struct trace_row row;
	void *memory;	   /* what it points to */
	uint32_t next;	   /* of its unit, or NO_ROW */
	uint32_t id_first; /* of its ids in id_numbers */
	uint32_t id_count;
};

struct unit {
	uint64_t start_ns;
	uint32_t first_row, last_row;
	uint32_t drawn; /* twins of it that there are */
};

/* Times of the first and the last unit that have an id. */
struct id_span {
	uint64_t first_ns, last_ns;
};

struct drawn_row {
	uint64_t arrival_ns;
	uint32_t order; /* of the draw, for rows of one time */
	uint32_t source;
	uint32_t twin; /* 0: the unit was drawn for the first time */
};

struct resample {
	uint64_t window_ns, period_ns;
	struct tick_finder ticks;

	struct source_row *rows; /* (row_count) */
	size_t row_count, row_capacity;
	struct unit *units; /* (unit_count) by time */
	size_t unit_count, unit_capacity;
	struct id_span *ids; /* (id_count) */
	size_t id_count, id_capacity;
	uint32_t *id_numbers; /* (id_number_count) indexes in ids, row after row */
	size_t id_number_count, id_number_capacity;

	struct drawn_row *drawn; /* (drawn_count) in order of time */
	size_t drawn_count, drawn_capacity, drawn_next;

	struct twin twin; /* of the latest row, where it is one */
};

/* ---- reading ---- */

/* What is needed only while rows are read. */
struct reading {
	struct conversations *conversations;
	struct map unit_of_session;
	struct map id_numbers;
	uint64_t spread_ns; /* of the latest row, where ties are spread */
};

static uint32_t unit_of(
	struct resample *resample, struct reading *reading, const struct trace_row *row)
{
	uint32_t new_unit = u32_from(resample->unit_count);

	if (row->turn_index != NO_TURN) {
		uint64_t session =
			conversations_turn(reading->conversations, row->turn_index)->session;
		uint32_t unit = u32_from(*map_add(&reading->unit_of_session, session, new_unit));
		if (unit < new_unit) {
			return unit;
		}
	}
	resample->units = memory_grow(resample->units, &resample->unit_capacity,
		resample->unit_count + 1, sizeof(*resample->units));
	resample->units[resample->unit_count++] = (struct unit){row->arrival_ns, NO_ROW, NO_ROW, 0};
	return new_unit;
}

/* Notes that a unit of this time has the id, as the next one of the row. */
static void note_id(
	struct resample *resample, struct reading *reading, uint64_t id, uint64_t start_ns)
{
	uint64_t number = *map_add(&reading->id_numbers, id, resample->id_count);

	if (number == resample->id_count) {
		resample->ids = memory_grow(resample->ids, &resample->id_capacity,
			resample->id_count + 1, sizeof(*resample->ids));
		resample->ids[resample->id_count++] = (struct id_span){start_ns, start_ns};
	}
	struct id_span *span = &resample->ids[number];
	span->first_ns = u64_min(span->first_ns, start_ns);
	span->last_ns = u64_max(span->last_ns, start_ns);
	resample->id_numbers = memory_grow(resample->id_numbers, &resample->id_number_capacity,
		resample->id_number_count + 1, sizeof(*resample->id_numbers));
	resample->id_numbers[resample->id_number_count++] = u32_from(number);
}

static void note_ids(struct resample *resample, struct reading *reading,
	const struct trace_row *row, uint64_t start_ns)
{
	uint32_t chunks = row->prompt_ids == NULL ? 0 : row->input_length / RESAMPLE_CHUNK;
	uint64_t key = 0;

	for (uint32_t i = 0; i < row->hash_id_count && row->hash_ids != NULL; i++) {
		note_id(resample, reading, row->hash_ids[i], start_ns);
	}
	for (uint32_t i = 0; i < chunks; i++) {
		key = XXH64(row->prompt_ids + (size_t)i * RESAMPLE_CHUNK,
			RESAMPLE_CHUNK * sizeof(*row->prompt_ids), key);
		note_id(resample, reading, key, start_ns);
	}
}

/* names: the row as the trace has it; row: with its turn. */
static void keep_row(struct resample *resample, struct reading *reading,
	const struct trace_row *names, const struct trace_row *row)
{
	uint32_t number = u32_from(resample->row_count);
	uint32_t unit_number = unit_of(resample, reading, row);
	struct unit *unit = &resample->units[unit_number];
	struct source_row kept = {
		.next = NO_ROW,
		.id_first = u32_from(resample->id_number_count),
		.memory = memory_take_uncleared(row_copy_bytes(names) + 1),
	};

	row_copy(&kept.row, names, kept.memory);
	note_ids(resample, reading, names, unit->start_ns);
	kept.id_count = u32_from(resample->id_number_count) - kept.id_first;
	resample->rows = memory_grow(
		resample->rows, &resample->row_capacity, number + 1, sizeof(*resample->rows));
	resample->rows[resample->row_count++] = kept;
	if (unit->first_row == NO_ROW) {
		unit->first_row = number;
	} else {
		resample->rows[unit->last_row].next = number;
	}
	unit->last_row = number;
}

static enum status read_rows(struct resample *resample, struct reading *reading,
	struct trace *trace, const struct resample_options *options, struct error *error)
{
	struct trace_row names;
	bool has_row = true;

	while (options->max_rows == 0 || resample->row_count < options->max_rows) {
		TRY(trace_next(trace, &names, &has_row, error));
		if (!has_row) {
			return STATUS_OK;
		}
		tick_finder_add(&resample->ticks, names.arrival_ns);
		if (options->times != NULL) {
			names.arrival_ns = u64_max(reading->spread_ns,
				names.arrival_ns + options->times->offset_ns[names.index]);
			reading->spread_ns = names.arrival_ns;
		}
		struct trace_row row = names;
		conversations_add(reading->conversations, &row);
		keep_row(resample, reading, &names, &row);
	}
	return STATUS_OK;
}

static enum status read_all(struct resample *resample, struct trace *trace,
	const struct resample_options *options, struct error *error)
{
	struct reading reading = {.conversations = conversations_open(trace_block_size(trace))};
	enum status status = read_rows(resample, &reading, trace, options, error);

	conversations_close(reading.conversations);
	map_deinit(&reading.unit_of_session);
	map_deinit(&reading.id_numbers);
	return status;
}

/* ---- drawing ---- */

/* What a session has behind the end of the period comes at its begin, as a twin of its own. */
static void draw_unit(struct resample *resample, struct unit *unit, uint64_t at_ns)
{
	const uint64_t period_ns = resample->period_ns;
	const uint64_t end_ns = resample->rows[0].row.arrival_ns + period_ns;
	bool has_wrapped = false;

	for (uint32_t i = unit->first_row; i != NO_ROW; i = resample->rows[i].next) {
		uint64_t time_ns = at_ns + (resample->rows[i].row.arrival_ns - unit->start_ns);
		bool is_behind = period_ns > 0 && time_ns >= end_ns;
		has_wrapped = has_wrapped || is_behind;
		resample->drawn = memory_grow(resample->drawn, &resample->drawn_capacity,
			resample->drawn_count + 1, sizeof(*resample->drawn));
		resample->drawn[resample->drawn_count] = (struct drawn_row){
			.arrival_ns = is_behind ? time_ns - period_ns : time_ns,
			.order = u32_from(resample->drawn_count),
			.source = i,
			.twin = unit->drawn + is_behind,
		};
		resample->drawn_count++;
	}
	unit->drawn += 1 + has_wrapped;
}

/* The first unit that begins at start_ns or later. */
static size_t unit_from(const struct resample *resample, uint64_t start_ns)
{
	size_t low = 0, high = resample->unit_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (resample->units[middle].start_ns < start_ns) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

/* The units of [from_ns, end_ns), each as much later as at_ns is than from_ns. */
static void draw_units(struct resample *resample, uint64_t from_ns, uint64_t end_ns, uint64_t at_ns)
{
	for (size_t i = unit_from(resample, from_ns);
		i < resample->unit_count && resample->units[i].start_ns < end_ns; i++) {
		struct unit *unit = &resample->units[i];
		draw_unit(resample, unit, at_ns + (unit->start_ns - from_ns));
	}
}

static uint64_t draw_below(struct random *random, uint64_t bound)
{
	return (uint64_t)((u128)random_bits(random) * bound >> 64);
}

static void draw_windows(struct resample *resample, struct random *random)
{
	const uint64_t zero_ns = resample->rows[0].row.arrival_ns;
	const uint64_t period_ns = resample->period_ns;

	for (uint64_t at_ns = 0; at_ns < period_ns; at_ns += resample->window_ns) {
		uint64_t length_ns = u64_min(resample->window_ns, period_ns - at_ns);
		uint64_t from_ns = draw_below(random, period_ns);
		uint64_t before_ns = u64_min(length_ns, period_ns - from_ns);
		draw_units(resample, zero_ns + from_ns, zero_ns + from_ns + before_ns,
			zero_ns + at_ns);
		draw_units(resample, zero_ns, zero_ns + (length_ns - before_ns),
			zero_ns + at_ns + before_ns);
	}
}

static void draw_batch(struct resample *resample, struct random *random)
{
	for (size_t i = 0; i < resample->unit_count; i++) {
		struct unit *unit = &resample->units[draw_below(random, resample->unit_count)];
		draw_unit(resample, unit, unit->start_ns);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct drawn_row *x = a, *y = b;

	if (x->arrival_ns != y->arrival_ns) {
		return x->arrival_ns < y->arrival_ns ? -1 : 1;
	}
	return x->order < y->order ? -1 : 1;
}

/* Sets period and window. */
static enum status measure(
	struct resample *resample, const struct resample_options *options, struct error *error)
{
	uint64_t first_ns = resample->rows[0].row.arrival_ns;
	uint64_t span_ns = resample->rows[resample->row_count - 1].row.arrival_ns - first_ns;

	if (span_ns == 0) {
		return STATUS_OK;
	}
	resample->period_ns = span_ns + u64_max(span_ns / (resample->row_count - 1), 1);
	resample->window_ns = options->window_ns > 0
				      ? u64_min(options->window_ns, resample->period_ns)
				      : u64_divide_up(resample->period_ns, RESAMPLE_SHARE);
	uint64_t windows = u64_divide_up(resample->period_ns, resample->window_ns);
	if (windows > RESAMPLE_WINDOWS_MAX) {
		return error_set(error, STATUS_USAGE,
			"--resample-window: found one of which the trace has %" PRIu64
			", expected at most %d",
			windows, RESAMPLE_WINDOWS_MAX);
	}
	return STATUS_OK;
}

enum status resample_open(struct resample **out, struct trace *trace,
	const struct resample_options *options, struct error *error)
{
	struct resample *resample = memory_take(1, sizeof(*resample));
	struct random random = random_stream(options->seed, PURPOSE_RESAMPLE);
	enum status status = read_all(resample, trace, options, error);

	*out = NULL;
	if (status == STATUS_OK) {
		status = measure(resample, options, error);
	}
	if (status != STATUS_OK) {
		resample_close(resample);
		return status;
	}
	if (resample->period_ns > 0) {
		draw_windows(resample, &random);
	} else {
		draw_batch(resample, &random);
	}
	if (resample->drawn_count > 0) {
		qsort(resample->drawn, resample->drawn_count, sizeof(*resample->drawn), by_time);
	}
	*out = resample;
	return STATUS_OK;
}

void resample_close(struct resample *resample)
{
	if (resample == NULL) {
		return;
	}
	for (size_t i = 0; i < resample->row_count; i++) {
		free(resample->rows[i].memory);
	}
	free(resample->rows);
	free(resample->units);
	free(resample->ids);
	free(resample->id_numbers);
	free(resample->drawn);
	twin_deinit(&resample->twin);
	free(resample);
}

/* ---- twins ---- */

/* How many of a row's ids, from the first on, spread over more than a window. */
static uint32_t count_shared(const struct resample *resample, const struct source_row *source)
{
	uint32_t count = 0;

	while (count < source->id_count) {
		const struct id_span *span =
			&resample->ids[resample->id_numbers[source->id_first + count]];
		if (span->last_ns - span->first_ns < resample->window_ns) {
			break;
		}
		count++;
	}
	return count;
}

static void make_twin(struct resample *resample, const struct source_row *source, uint32_t twin,
	struct trace_row *row)
{
	size_t shared = count_shared(resample, source);

	twin_rename(&resample->twin, twin, row);
	twin_change_ids(&resample->twin, twin, shared, shared * RESAMPLE_CHUNK, row);
}

bool resample_next(struct resample *resample, struct trace_row *row)
{
	if (resample->drawn_next == resample->drawn_count) {
		return false;
	}
	const struct drawn_row *drawn = &resample->drawn[resample->drawn_next];
	const struct source_row *source = &resample->rows[drawn->source];
	*row = source->row;
	row->index = resample->drawn_next++;
	row->arrival_ns = drawn->arrival_ns;
	if (drawn->twin > 0) {
		make_twin(resample, source, drawn->twin, row);
	}
	return true;
}

uint64_t resample_source_rows(const struct resample *resample)
{
	return resample->row_count;
}

const struct tick_finder *resample_ticks(const struct resample *resample)
{
	return &resample->ticks;
}

uint64_t resample_window_ns(const struct resample *resample)
{
	return resample->window_ns;
}
