#include "bench/replay/intake.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

static enum fit fit_of(const struct intake *intake, const struct trace_row *row)
{
	return engine_config_fit(
		engine_limits(intake->engine), row->input_length, row->output_length);
}

static bool row_fits(const struct intake *intake, const struct trace_row *row)
{
	return fit_of(intake, row) == FIT_OK;
}

/* ---- arrivals ---- */

static struct metrics_arrival arrival_of(const struct intake *intake, const struct trace_row *row)
{
	const struct engine_config *limits = engine_limits(intake->engine);

	return (struct metrics_arrival){
		.id = row->index,
		.session = row->session,
		.arrival_ns = row->arrival_ns,
		.prompt_tokens = row->input_length,
		.max_tokens = row->output_length,
		.is_capped = engine_config_answer_limit(limits, row->input_length,
				     row->output_length) < row->output_length,
	};
}

static struct arrival *add_arrival(struct intake *intake, const struct trace_row *row)
{
	intake->arrivals = memory_grow(intake->arrivals, &intake->arrival_capacity,
		intake->arrival_count + 1, sizeof(*intake->arrivals));
	struct arrival *arrival = &intake->arrivals[intake->arrival_count++];
	*arrival = (struct arrival){.departure.turn_index = row->turn_index};
	if (row->session != NULL) {
		size_t bytes = strlen(row->session) + 1;
		arrival->session = memory_take(bytes, 1);
		memcpy(arrival->session, row->session, bytes);
	}
	arrival->row = arrival_of(intake, row);
	arrival->row.session = arrival->session;
	return arrival;
}

void intake_clear_arrivals(struct intake *intake)
{
	for (size_t i = 0; i < intake->arrival_count; i++) {
		free(intake->arrivals[i].session);
	}
	intake->arrival_count = 0;
}

/* Makes a row's tokens, or the keys of its blocks. */
static void make_content(
	struct intake *intake, const struct trace_row *row, struct request *request)
{
	if (intake->options.is_forced && !intake->options.needs_tokens) {
		request->keys = block_keys_of(&intake->keys, row);
		return;
	}
	intake->prompt = memory_grow(
		intake->prompt, &intake->prompt_capacity, row->input_length, sizeof(int32_t));
	tokens_prompt(&intake->tokens, row, intake->prompt);
	request->prompt = intake->prompt;
	if (intake->options.is_forced) {
		intake->forced = memory_grow(intake->forced, &intake->forced_capacity,
			row->output_length, sizeof(int32_t));
		tokens_forced(&intake->tokens, row, intake->forced);
		request->forced = intake->forced;
	}
}

void intake_add_times(struct metrics_arrival *arrival, const struct parcel *parcel)
{
	arrival->attempts_ns = parcel->since_ns - parcel->row.arrival_ns;
	arrival->router_ns = parcel->sent_ns - parcel->since_ns;
	arrival->is_awaited = parcel->is_awaited;
}

/* Makes the row's content and gives the request to the engine. parcel: NULL without a desk. */
static void add_row(struct intake *intake, const struct trace_row *row, struct parcel *parcel)
{
	struct request request = {
		.id = row->index,
		.prompt_count = row->input_length,
		.max_tokens = row->output_length,
		.priority = row->priority,
		.stored_count = row->stored_length,
		.arrival = row->arrival_ns,
		.temperature = intake->options.temperature,
		.ignore_eos = true,
	};

	if (!intake->options.needs_tokens && parcel != NULL) {
		request.keys = parcel->keys;
	} else if (row_fits(intake, row)) {
		make_content(intake, row, &request);
	}
	intake->has_prompt_ids = intake->has_prompt_ids || row->hash_ids != NULL ||
				 row->prompt_ids != NULL || row->span_count > 0;
	struct arrival *arrival = add_arrival(intake, row);
	arrival->departure.parcel = parcel;
	arrival->fit = engine_add(intake->engine, &request, &arrival->slot);
	if (arrival->fit == FIT_OK) {
		/* Whether it was counted before the engine had room for it, and listed then. */
		if (parcel != NULL) {
			intake_add_times(&arrival->row, parcel);
		} else {
			arrival->row.is_awaited = intake->accepted_count < intake->arrived_count;
		}
		intake->of_slot[arrival->slot] = arrival->departure;
		intake->accepted_count++;
		intake->room--;
	}
}

/* Gives the engine the parcels that the desk has for it, while there is room. */
static void add_parcels(struct intake *intake)
{
	struct parcel *parcel;

	while (intake->room > 0 &&
		(parcel = desk_take(intake->options.desk, intake->options.replica)) != NULL) {
		add_row(intake, &parcel->row, parcel);
	}
}

enum status intake_add_arrived(struct intake *intake, uint64_t now_ns, struct error *error)
{
	struct trace_row row;

	if (intake->options.desk != NULL) {
		add_parcels(intake);
		return STATUS_OK;
	}
	/* In an open loop nothing arrives before the time that the workload named. */
	if (intake->state == WORKLOAD_LATER && now_ns < intake->next_ns && intake->room > 0 &&
		!workload_is_closed(intake->workload)) {
		return STATUS_OK;
	}
	while (intake->room > 0) {
		TRY(workload_next(
			intake->workload, now_ns, &row, &intake->state, &intake->next_ns, error));
		if (intake->state != WORKLOAD_ROW) {
			return STATUS_OK;
		}
		add_row(intake, &row, NULL);
	}
	if (intake->state != WORKLOAD_END) {
		intake->state = WORKLOAD_ROW; /* more rows may have arrived, but were not read */
	}
	return STATUS_OK;
}

/* ---- departures ---- */

void intake_add_departure(struct intake *intake, const struct departure *departure)
{
	intake->departures = memory_grow(intake->departures, &intake->departure_capacity,
		intake->departure_count + 1, sizeof(*intake->departures));
	intake->departures[intake->departure_count++] = *departure;
}

void intake_report_first_tokens(
	struct intake *intake, const struct event_list *events, uint64_t now_ns)
{
	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->events[i];
		if (event->kind == EVENT_CHUNK && event->is_sampled) {
			desk_first_token(intake->options.desk,
				intake->of_slot[event->sequence->slot].parcel, now_ns);
		}
	}
}

void intake_report_departures(struct intake *intake, uint64_t now_ns)
{
	if (intake->options.desk != NULL) {
		for (size_t i = 0; i < intake->departure_count; i++) {
			desk_finish(intake->options.desk, intake->departures[i].parcel, now_ns);
		}
		intake->departure_count = 0;
		return;
	}
	/* Only a closed workload waits for departures. */
	size_t count = workload_is_closed(intake->workload) ? intake->departure_count : 0;

	for (size_t i = 0; i < count; i++) {
		workload_finish(intake->workload, intake->departures[i].turn_index, now_ns);
		if (intake->counter != NULL) {
			workload_finish(intake->counter, intake->departures[i].turn_index, now_ns);
		}
	}
	intake->departure_count = 0;
}

/* ---- the backlog ---- */

static enum status open_counter(struct intake *intake, struct error *error)
{
	return workload_open(
		&intake->counter, intake->options.trace_path, intake->options.workload, error);
}

static void list_awaited(
	struct intake *intake, const struct trace_row *row, const struct parcel *parcel)
{
	intake->awaited = memory_grow(intake->awaited, &intake->awaited_capacity,
		intake->awaited_count + 1, sizeof(*intake->awaited));
	struct metrics_arrival *awaited = &intake->awaited[intake->awaited_count++];
	*awaited = (struct metrics_arrival){.id = row->index, .arrival_ns = row->arrival_ns};
	if (parcel != NULL) {
		intake_add_times(awaited, parcel);
	}
}

/* Counts a row that has arrived; lists it if the engine was not given it yet. */
static void note_arrived(struct intake *intake, const struct trace_row *row)
{
	if (!row_fits(intake, row)) {
		return;
	}
	if (intake->arrived_count++ >= intake->accepted_count) {
		list_awaited(intake, row, NULL);
	}
}

/* Lets the arrival counter read everything that has arrived by now_ns. */
static enum status advance_counter(struct intake *intake, uint64_t now_ns, struct error *error)
{
	struct trace_row row;
	uint64_t next_ns;

	do {
		TRY(workload_next(
			intake->counter, now_ns, &row, &intake->counter_state, &next_ns, error));
		if (intake->counter_state == WORKLOAD_ROW) {
			note_arrived(intake, &row);
		}
	} while (intake->counter_state == WORKLOAD_ROW);
	return STATUS_OK;
}

/* Lists the parcels of the inbox that are not listed yet; returns how many there are in all that
   the engine will not reject. */
static uint32_t count_inbox(struct intake *intake)
{
	struct desk *desk = intake->options.desk;
	struct parcel *parcel;
	uint32_t count = desk_newly_waiting(desk, intake->options.replica, &parcel);

	for (; count > 0; count--, parcel = parcel->next) {
		if (parcel->fits) {
			list_awaited(intake, &parcel->row, parcel);
		}
	}
	return desk->berths[intake->options.replica].fit_count;
}

enum status intake_count_backlog(struct intake *intake, uint64_t now_ns, uint64_t *backlog,
	bool *all_have_arrived, struct error *error)
{
	*backlog = 0;
	if (intake->options.desk != NULL) {
		*backlog = count_inbox(intake);
		*all_have_arrived = false; /* the fleet's loop knows */
		return STATUS_OK;
	}
	if (intake->state == WORKLOAD_END) {
		*all_have_arrived = true;
		return STATUS_OK;
	}
	/* If there is room left, every row that has arrived was read. */
	bool is_engine_full = intake->room == 0;

	if (is_engine_full && intake->counter == NULL) {
		TRY(open_counter(intake, error));
	}
	if (intake->counter != NULL) {
		TRY(advance_counter(intake, now_ns, error));
	}
	if (is_engine_full) {
		check(intake->arrived_count >= intake->accepted_count);
		*backlog = intake->arrived_count - intake->accepted_count;
	}
	*all_have_arrived =
		(is_engine_full ? intake->counter_state : intake->state) == WORKLOAD_END;
	return STATUS_OK;
}

enum status intake_take_backlog(struct intake *intake, uint64_t now_ns,
	struct metrics_arrival *arrival, enum fit *fit, bool *is_row, struct error *error)
{
	struct trace_row row;

	TRY(workload_next(intake->workload, now_ns, &row, &intake->state, &intake->next_ns, error));
	*is_row = intake->state == WORKLOAD_ROW;
	if (*is_row) {
		*arrival = arrival_of(intake, &row);
		arrival->is_capped = false; /* there is no answer to end */
		*fit = fit_of(intake, &row);
	}
	return STATUS_OK;
}

/* ---- opening and closing ---- */

enum status intake_open(struct intake *intake, const struct intake_options *options,
	struct engine *engine, struct error *error)
{
	uint32_t max_waiting = engine_max_waiting(engine);
	uint64_t concurrency = options->workload->concurrency;

	*intake = (struct intake){.options = *options,
		.engine = engine,
		.max_waiting = max_waiting,
		.always_has_room = concurrency > 0 && concurrency <= max_waiting};
	intake->of_slot = memory_take(engine_slot_count(engine), sizeof(*intake->of_slot));
	if (options->desk != NULL) {
		intake->tokens = options->desk->tokens;
		return STATUS_OK;
	}
	TRY(workload_open(&intake->workload, options->trace_path, options->workload, error));
	/* If a closed workload can outgrow the engine, its rows are counted from the first one. */
	if (workload_is_closed(intake->workload) && !intake->always_has_room) {
		TRY(open_counter(intake, error));
	}
	intake->tokens = (struct token_source){
		.seed = options->seed,
		.vocab_size = u32_min(options->vocab_size, TOKEN_VOCABULARY_LIMIT),
		.trace_block_size = trace_block_size(workload_trace(intake->workload)),
	};
	block_keys_init(&intake->keys, &intake->tokens, engine_limits(engine)->block_size);
	return STATUS_OK;
}

void intake_close(struct intake *intake)
{
	workload_close(intake->workload);
	workload_close(intake->counter);
	intake_clear_arrivals(intake);
	free(intake->arrivals);
	free(intake->departures);
	free(intake->awaited);
	free(intake->of_slot);
	block_keys_deinit(&intake->keys);
	free(intake->prompt);
	free(intake->forced);
	memset(intake, 0, sizeof(*intake));
}
