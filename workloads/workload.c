#include "workloads/workload.h"

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "workloads/conversations.h"
#include "workloads/resample.h"
#include "workloads/row_copy.h"

#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX

/* A row that cannot be returned at once, with a copy of everything it points to. */
struct held {
	struct trace_row row;
	struct held *next; /* list of rows that wait for the same turn */
};

/* State of a turn in closed sessions, beyond workloads/conversations.h. */
struct turn_state {
	struct held *waiting; /* rows that follow it, in the order of the file */
	struct held *waiting_last;
	uint64_t finish_ns;
	bool is_finished;
	bool never_comes; /* it would arrive after the end, and so would all turns that follow it */
};

/* Requests that finished at one time, each of which triggers a new row. */
struct credit {
	uint64_t at_ns, count;
};

struct workload {
	struct workload_options options;
	struct trace_loop *loop;
	struct trace *trace;	   /* borrowed from it: the first reading */
	struct resample *resample; /* where the rows come from it; or NULL */
	struct conversations *conversations;
	struct arrivals *arrivals;

	struct spread_times times; /* of the rows, where ties are spread */
	uint64_t spread_ns;	   /* of the latest row, where ties are spread */
	struct tick_finder ticks;

	struct trace_row row; /* the next one of the file, if has_row */
	bool has_row;
	bool is_file_over; /* then has_row is false: nothing is read any more */
	uint64_t read_count;

	struct turn_state *turns; /* by turn_index; closed sessions only */
	size_t turn_count, turn_capacity;
	uint64_t waiting_count;
	struct held **ready; /* heap by arrival and index: rows whose arrival is known */
	size_t ready_count, ready_capacity;
	struct held *handed_out; /* valid until the next call */

	bool has_dropped;	   /* a row that arrives behind the end */
	uint64_t unreachable_line; /* of the first row due beyond the clock; 0: none */

	struct credit *credits; /* closed loop: [credit_first, credit_end) are unused */
	size_t credit_capacity, credit_first, credit_end;
};

static void add_credit(struct workload *workload, uint64_t at_ns, uint64_t count)
{
	if (workload->credit_end > workload->credit_first &&
		workload->credits[workload->credit_end - 1].at_ns == at_ns) {
		workload->credits[workload->credit_end - 1].count += count;
		return;
	}
	/* Used credits are removed when they are half of all, so each is moved less than once. */
	if (workload->credit_first > workload->credit_end / 2) {
		workload->credit_end -= workload->credit_first;
		memmove(workload->credits, workload->credits + workload->credit_first,
			workload->credit_end * sizeof(*workload->credits));
		workload->credit_first = 0;
	}
	workload->credits = memory_grow(workload->credits, &workload->credit_capacity,
		workload->credit_end + 1, sizeof(*workload->credits));
	workload->credits[workload->credit_end++] = (struct credit){at_ns, count};
}

/* Opens what the rows come from. */
static enum status open_source(struct workload *workload, const char *path, struct error *error)
{
	const struct workload_options *options = &workload->options;
	const struct resample_options draw = {
		.seed = options->resample_seed,
		.window_ns = options->resample_window_ns,
		.max_rows = options->max_requests,
		.times = options->spreads_ties ? &workload->times : NULL,
	};

	TRY(trace_loop_open(&workload->loop, path, &options->trace, options->loop, error));
	workload->trace = trace_loop_trace(workload->loop);
	if (options->spreads_ties) {
		TRY(spread_times_make(&workload->times, path, &options->trace,
			options->max_requests, options->seed, error));
	}
	if (options->resample_seed == 0) {
		return STATUS_OK;
	}
	TRY(resample_open(&workload->resample, workload->trace, &draw, error));
	workload->ticks = *resample_ticks(workload->resample);
	return STATUS_OK;
}

enum status workload_open(struct workload **out, const char *path,
	const struct workload_options *options, struct error *error)
{
	struct workload *workload = memory_take(1, sizeof(*workload));

	check(options->speedup_millionths > 0);
	check(options->concurrency == 0 ||
		(options->profile == NULL && options->sessions == SESSIONS_OPEN));
	check(options->resample_seed == 0 || options->loop == LOOP_OFF);
	*out = NULL;
	workload->options = *options;
	enum status status = open_source(workload, path, error);
	if (status != STATUS_OK) {
		workload_close(workload);
		return status;
	}
	workload->conversations = conversations_open(trace_block_size(workload->trace));
	if (options->profile != NULL) {
		workload->arrivals = arrivals_open(options->profile, options->seed);
	}
	if (options->concurrency > 0) {
		add_credit(workload, 0, options->concurrency);
	}
	*out = workload;
	return STATUS_OK;
}

static void free_list(struct held *held)
{
	while (held != NULL) {
		struct held *next = held->next;
		free(held);
		held = next;
	}
}

void workload_close(struct workload *workload)
{
	if (workload == NULL) {
		return;
	}
	for (size_t i = 0; i < workload->turn_count; i++) {
		free_list(workload->turns[i].waiting);
	}
	for (size_t i = 0; i < workload->ready_count; i++) {
		free(workload->ready[i]);
	}
	free(workload->turns);
	free(workload->ready);
	free(workload->handed_out);
	free(workload->credits);
	spread_times_free(&workload->times);
	arrivals_close(workload->arrivals);
	conversations_close(workload->conversations);
	resample_close(workload->resample);
	trace_loop_close(workload->loop);
	free(workload);
}

/* ---- rows that are kept ---- */

/* One allocation: the structure and, behind it, everything that the row points to. */
static struct held *hold(const struct trace_row *row)
{
	struct held *held = memory_take(sizeof(struct held) + row_copy_bytes(row), 1);

	row_copy(&held->row, row, held + 1);
	return held;
}

static bool is_earlier(const struct trace_row *a, const struct trace_row *b)
{
	return a->arrival_ns != b->arrival_ns ? a->arrival_ns < b->arrival_ns : a->index < b->index;
}

static void ready_push(struct workload *workload, struct held *held)
{
	workload->ready = memory_grow(workload->ready, &workload->ready_capacity,
		workload->ready_count + 1, sizeof(*workload->ready));
	size_t i = workload->ready_count++;
	while (i > 0 && is_earlier(&held->row, &workload->ready[(i - 1) / 2]->row)) {
		workload->ready[i] = workload->ready[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	workload->ready[i] = held;
}

static struct held *ready_pop(struct workload *workload)
{
	struct held *first = workload->ready[0];
	struct held *moved = workload->ready[--workload->ready_count];
	size_t count = workload->ready_count;
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;
		if (child + 1 < count && is_earlier(&workload->ready[child + 1]->row,
						 &workload->ready[child]->row)) {
			child++;
		}
		if (child >= count || !is_earlier(&workload->ready[child]->row, &moved->row)) {
			break;
		}
		workload->ready[i] = workload->ready[child];
		i = child;
	}
	if (count > 0) {
		workload->ready[i] = moved;
	}
	return first;
}

/* ---- closed sessions ---- */

/* The arrival of a turn whose predecessor finished at finish_ns. */
static uint64_t follow_up_ns(
	const struct workload *workload, const struct trace_row *row, uint64_t finish_ns)
{
	uint64_t delay_ns = row->delay_ns;

	if (workload->options.profile != NULL && !row->has_delay) {
		uint64_t parent =
			conversations_turn(workload->conversations, row->turn_index)->parent;
		uint64_t own = conversations_turn(workload->conversations, row->turn_index)
				       ->trace_arrival_ns;
		uint64_t before =
			conversations_turn(workload->conversations, parent)->trace_arrival_ns;
		delay_ns = own - before;
	}
	check(finish_ns <= CLOCK_NS_MAX);
	return u64_max(row->arrival_ns, finish_ns + delay_ns);
}

static struct turn_state *turn_state(struct workload *workload, uint64_t turn_index)
{
	if (turn_index >= workload->turn_count) {
		workload->turns = memory_grow(workload->turns, &workload->turn_capacity,
			turn_index + 1, sizeof(*workload->turns));
		memset(workload->turns + workload->turn_count, 0,
			(turn_index + 1 - workload->turn_count) * sizeof(*workload->turns));
		workload->turn_count = turn_index + 1;
	}
	return &workload->turns[turn_index];
}

/* The last tick of a trace that is repeated may reach into the next repetition. */
static void spread_row(struct workload *workload)
{
	struct trace_row *row = &workload->row;
	uint64_t offset_ns = workload->times.offset_ns[row->index % workload->times.row_count];

	if (row->arrival_ns <= CLOCK_NS_MAX) {
		row->arrival_ns = u64_min(row->arrival_ns + offset_ns, CLOCK_NS_MAX);
	}
	row->arrival_ns = u64_max(row->arrival_ns, workload->spread_ns);
	workload->spread_ns = row->arrival_ns;
}

/* Rows arrive before this. */
static uint64_t end_ns(const struct workload *workload)
{
	return workload->options.duration_ns > 0 ? workload->options.duration_ns : NEVER;
}

/* Drops a row that will not arrive, and all rows that wait for it. */
static void give_up(struct workload *workload, struct held *held)
{
	workload->has_dropped = true;
	while (held != NULL) {
		struct held *next = held->next;
		if (held->row.turn_index == NO_TURN) {
			free(held);
			held = next;
			continue;
		}
		struct turn_state *turn = turn_state(workload, held->row.turn_index);
		turn->never_comes = true;
		for (struct held *follower = turn->waiting; follower != NULL;) {
			struct held *further = follower->next;
			follower->next = next;
			next = follower;
			follower = further;
			workload->waiting_count--;
		}
		turn->waiting = NULL;
		free(held);
		held = next;
	}
}

/* Whether the row is due at a time that the clock does not reach. Beyond the end it is dropped
   whenever it is due. */
static bool is_unreachable(const struct workload *workload, const struct trace_row *row)
{
	return workload->options.duration_ns == 0 && row->arrival_ns > CLOCK_NS_MAX;
}

static void arrive(struct workload *workload, struct held *held)
{
	if (is_unreachable(workload, &held->row) && workload->unreachable_line == 0) {
		workload->unreachable_line = held->row.line; /* the next call refuses it */
	}
	if (held->row.arrival_ns < end_ns(workload)) {
		ready_push(workload, held);
	} else {
		give_up(workload, held);
	}
}

static void follow(struct workload *workload, struct held *held, uint64_t finish_ns)
{
	held->row.arrival_ns = follow_up_ns(workload, &held->row, finish_ns);
	arrive(workload, held);
}

static uint64_t parent_of(const struct workload *workload)
{
	if (workload->options.sessions == SESSIONS_OPEN || workload->row.turn_index == NO_TURN) {
		return NO_TURN;
	}
	return conversations_turn(workload->conversations, workload->row.turn_index)->parent;
}

/* Whether rows may arrive in another order than that of the file. Under a profile a turn may be due
   long before sessions that begin earlier in the file. */
static bool is_order_free(const struct workload *workload)
{
	return workload->options.profile != NULL && workload->options.sessions == SESSIONS_CLOSED;
}

/* Puts the row just read aside if it follows another turn. Either it waits for that turn, or its
   arrival is known but may be later than that of rows behind it. */
static void settle_row(struct workload *workload)
{
	uint64_t parent = parent_of(workload);

	if (parent == NO_TURN && !is_order_free(workload)) {
		return;
	}
	struct held *held = hold(&workload->row);
	workload->has_row = false;
	if (parent == NO_TURN) {
		arrive(workload, held);
		return;
	}
	struct turn_state *before = turn_state(workload, parent);
	if (before->never_comes) {
		give_up(workload, held);
		return;
	}
	if (before->is_finished) {
		follow(workload, held, before->finish_ns);
		return;
	}
	if (before->waiting == NULL) {
		before->waiting = held;
	} else {
		before->waiting_last->next = held;
	}
	before->waiting_last = held;
	workload->waiting_count++;
}

bool workload_is_closed(const struct workload *workload)
{
	return workload->options.concurrency > 0 || workload->options.sessions == SESSIONS_CLOSED;
}

void workload_finish(struct workload *workload, uint64_t turn_index, uint64_t now_ns)
{
	if (workload->options.concurrency > 0) {
		add_credit(workload, now_ns, 1);
	}
	if (workload->options.sessions == SESSIONS_OPEN || turn_index == NO_TURN) {
		return;
	}
	struct turn_state *turn = turn_state(workload, turn_index);
	struct held *held = turn->waiting;
	check(!turn->is_finished);
	turn->is_finished = true;
	turn->finish_ns = now_ns;
	turn->waiting = NULL;
	while (held != NULL) {
		struct held *next = held->next;
		held->next = NULL;
		follow(workload, held, now_ns);
		workload->waiting_count--;
		held = next;
	}
}

/* ---- the file ---- */

/* Refuses a row of a time that no clock reaches, by what gave it that time. */
static enum status refuse_time(const struct workload *workload, struct error *error)
{
	bool is_drawn = workload->resample != NULL;
	bool is_repeated = !is_drawn && trace_loop_is_repetition(workload->loop);

	return trace_refuse_row(workload->trace, workload->row.line,
		is_drawn      ? "a drawn time beyond 2^63 ns (292 years)"
		: is_repeated ? "a repeated time beyond 2^63 ns (292 years)"
			      : "a time that is beyond 2^63 ns over --speedup",
		is_drawn      ? "a larger --speedup beside --resample-seed"
		: is_repeated ? "a larger --speedup or a smaller --max-requests beside --loop"
			      : "a larger --speedup",
		error);
}

/* Sets the row's arrival by the workload's rule. A follow-up under a profile has none of its own. A
   row that would never arrive, although no end was asked for, is refused rather than left out. */
static enum status set_arrival(struct workload *workload, struct error *error)
{
	struct trace_row *row = &workload->row;

	if (workload->options.profile != NULL) {
		row->arrival_ns =
			parent_of(workload) != NO_TURN ? 0 : arrivals_next(workload->arrivals);
		return !is_unreachable(workload, row)
			       ? STATUS_OK
			       : trace_refuse_row(workload->trace, row->line,
					 "a drawn arrival beyond 2^62 ns (146 years)",
					 "a higher rate, --duration or --max-requests", error);
	}
	u128 arrival_ns = (u128)row->arrival_ns * 1000000 / workload->options.speedup_millionths;
	if (arrival_ns > CLOCK_NS_MAX) {
		return refuse_time(workload, error);
	}
	row->arrival_ns = (uint64_t)arrival_ns;
	return STATUS_OK;
}

/* Refuses repetitions that never reach the duration. */
static enum status check_repetition(const struct workload *workload, struct error *error)
{
	const struct workload_options *options = &workload->options;
	bool has_own_times = options->profile == NULL && options->concurrency == 0;

	if (!trace_loop_stands_still(workload->loop) || !has_own_times ||
		options->max_requests > 0) {
		return STATUS_OK;
	}
	return trace_refuse_row(workload->trace, workload->row.line, "rows that all have one time",
		"--max-requests or --rate beside --loop", error);
}

/* The next row of the file, at its time in the trace. */
static enum status next_of_file(struct workload *workload, struct error *error)
{
	uint64_t most = workload->options.max_requests;

	if (most > 0 && workload->read_count == most) {
		return STATUS_OK;
	}
	TRY(trace_loop_next(workload->loop, &workload->row, &workload->has_row, error));
	if (!workload->has_row) {
		return STATUS_OK;
	}
	TRY(check_repetition(workload, error));
	workload->read_count++;
	if (!trace_loop_is_repetition(workload->loop)) {
		tick_finder_add(&workload->ticks, workload->row.arrival_ns);
	}
	if (workload->options.spreads_ties) {
		spread_row(workload);
	}
	return STATUS_OK;
}

static enum status read_row(struct workload *workload, struct error *error)
{
	check(!workload->has_row);
	if (workload->resample != NULL) {
		workload->has_row = resample_next(workload->resample, &workload->row);
	} else {
		TRY(next_of_file(workload, error));
	}
	workload->is_file_over = !workload->has_row;
	if (!workload->has_row) {
		return STATUS_OK;
	}
	conversations_add(workload->conversations, &workload->row);
	return set_arrival(workload, error);
}

/* Reads until the next row of the file can be compared with those put aside. A row is put aside
   only once its own arrival is due; otherwise the whole file would be put aside. */
static enum status read_ahead(struct workload *workload, uint64_t now_ns, struct error *error)
{
	for (;;) {
		if (!workload->has_row) {
			if (workload->is_file_over) {
				return STATUS_OK;
			}
			TRY(read_row(workload, error));
			if (!workload->has_row) {
				return STATUS_OK;
			}
		}
		bool is_due = workload->row.arrival_ns <= now_ns || is_order_free(workload);
		if (!is_due || workload->options.concurrency > 0) {
			return STATUS_OK;
		}
		settle_row(workload);
		if (workload->has_row) {
			return STATUS_OK;
		}
	}
}

/* Returns the row of the file, or the first of those put aside. */
static void hand_out(struct workload *workload, bool is_from_file, struct trace_row *row)
{
	if (is_from_file) {
		*row = workload->row;
		workload->has_row = false;
	} else {
		workload->handed_out = ready_pop(workload);
		*row = workload->handed_out->row;
	}
}

static enum status next_of_closed_loop(
	struct workload *workload, struct trace_row *row, enum workload_state *state)
{
	if (!workload->has_row) {
		*state = WORKLOAD_END;
		return STATUS_OK;
	}
	if (workload->credit_first == workload->credit_end) {
		*state = WORKLOAD_WAITS;
		return STATUS_OK;
	}
	struct credit *credit = &workload->credits[workload->credit_first];
	uint64_t at_ns = credit->at_ns;
	if (at_ns >= end_ns(workload)) {
		*state = WORKLOAD_END;
		return STATUS_OK;
	}
	credit->count--;
	workload->credit_first += credit->count == 0;
	hand_out(workload, true, row);
	row->arrival_ns = at_ns;
	*state = WORKLOAD_ROW;
	return STATUS_OK;
}

enum status workload_next(struct workload *workload, uint64_t now_ns, struct trace_row *row,
	enum workload_state *state, uint64_t *next_ns, struct error *error)
{
	free(workload->handed_out);
	workload->handed_out = NULL;
	TRY(read_ahead(workload, now_ns, error));
	if (workload->unreachable_line > 0) {
		return trace_refuse_row(workload->trace, workload->unreachable_line,
			"a turn that arrives beyond 2^63 ns (292 years)",
			"a shorter delay behind the turn before it, or --duration", error);
	}
	if (workload->options.concurrency > 0) {
		return next_of_closed_loop(workload, row, state);
	}
	if (!workload->has_row && workload->ready_count == 0) {
		*state = workload->waiting_count > 0 ? WORKLOAD_WAITS : WORKLOAD_END;
		return STATUS_OK;
	}
	bool is_from_file =
		workload->has_row && (workload->ready_count == 0 ||
					     is_earlier(&workload->row, &workload->ready[0]->row));
	*next_ns = is_from_file ? workload->row.arrival_ns : workload->ready[0]->row.arrival_ns;
	if (*next_ns >= end_ns(workload)) {
		*state = workload->waiting_count > 0 ? WORKLOAD_WAITS : WORKLOAD_END;
	} else if (*next_ns > now_ns) {
		*state = WORKLOAD_LATER;
	} else {
		hand_out(workload, is_from_file, row);
		*state = WORKLOAD_ROW;
	}
	return STATUS_OK;
}

const struct tick_finder *workload_ticks(const struct workload *workload)
{
	return &workload->ticks;
}

enum status workload_count(const char *path, const struct workload_options *options,
	uint64_t *count, struct error *error)
{
	struct workload_options open = *options;
	struct workload *workload;
	struct trace_row row;
	enum workload_state state = WORKLOAD_ROW;
	uint64_t next_ns;

	check(options->duration_ns == 0 ||
		(options->concurrency == 0 && options->sessions == SESSIONS_OPEN));
	if (open.concurrency > 0 || open.sessions == SESSIONS_CLOSED) {
		open.concurrency = 0;
		open.sessions = SESSIONS_OPEN;
		open.profile = NULL;
	}
	*count = 0;
	TRY(workload_open(&workload, path, &open, error));
	while (error->status == STATUS_OK && state == WORKLOAD_ROW) {
		workload_next(workload, CLOCK_NS_MAX, &row, &state, &next_ns, error);
		*count += error->status == STATUS_OK && state == WORKLOAD_ROW;
	}
	workload_close(workload);
	return error->status;
}

bool workload_ran_out(const struct workload *workload)
{
	const struct workload_options *options = &workload->options;
	uint64_t read_count = workload->resample == NULL ? workload->read_count
							 : resample_source_rows(workload->resample);
	bool is_cut = options->max_requests > 0 && read_count == options->max_requests;
	bool wants_more = options->duration_ns > 0 || options->max_requests > 0;

	return wants_more && !is_cut && workload->is_file_over && !workload->has_dropped;
}

struct trace *workload_trace(struct workload *workload)
{
	return workload->trace;
}
