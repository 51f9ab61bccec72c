#include "bench/replay/replay_step.h"

#include "engine/step_record.h"

static void write_step(struct replay *replay, const struct step_decisions *decisions,
	uint64_t start_ns, uint64_t waiting, const struct step_time *time)
{
	struct table_writer *table = replay->sinks.steps;
	struct step_counts counts = *decisions->counts;

	counts.waiting = waiting; /* with the backlog, which the engine has not been given yet */
	table_u64(table, decisions->step);
	table_u64(table, start_ns);
	table_u64(table, time->elapsed_ns);
	table_u64(table, time->gpu_ns);
	table_u64(table, time->host_ns);
	table_text(table, step_mode_name(time->mode));
#define STEP_COUNT_CELL(column) table_u64(table, counts.column);
	STEP_COUNT_LIST(STEP_COUNT_CELL)
#undef STEP_COUNT_CELL
	if (replay->intake.options.desk != NULL) {
		table_u64(table, replay->index);
	}
	table_end_row(table);
}

static void note_idle(
	struct replay *replay, const struct step_counts *counts, const struct step_time *time)
{
	bool is_decode = counts->prefill_rows == 0;

	if (time->idle_ns > 0 && is_decode && replay->was_decode) {
		if (replay->gpu_idle.counts == NULL) {
			histogram_init(&replay->gpu_idle);
		}
		histogram_add(&replay->gpu_idle, time->idle_ns, 1);
	}
	replay->was_decode = is_decode;
}

enum status replay_refuse_time(
	const struct replay *replay, const struct step_time *time, struct error *error)
{
	return error_set(error, STATUS_INPUT,
		"step %llu would end beyond 2^63 ns: it starts at %llu and takes %llu ns by runner "
		"%s, gpu %.200s",
		(unsigned long long)replay->metrics.work.steps, (unsigned long long)replay->now_ns,
		(unsigned long long)time->elapsed_ns, replay->runner->name,
		replay->options.config->gpu);
}

void replay_record(
	struct replay *replay, const struct step_decisions *decisions, const struct step_time *time)
{
	uint64_t start_ns = replay->now_ns;
	uint64_t waiting = replay->waiting;

	replay->now_ns = start_ns + time->elapsed_ns;
	if (replay->sinks.kernel_times != NULL) {
		kernel_times_step(replay->sinks.kernel_times, decisions->step, decisions->counts,
			start_ns, replay->now_ns);
	}
	replay->metrics.is_outside = time->is_outside;
	metrics_step(
		&replay->metrics, replay->engine, decisions, start_ns, replay->now_ns, waiting);
	if (replay->sinks.timeline != NULL) {
		perfetto_step(replay->sinks.timeline, decisions, start_ns, replay->now_ns, waiting);
	}
	if (replay->sinks.steps != NULL) {
		write_step(replay, decisions, start_ns, waiting, time);
	}
	note_idle(replay, decisions->counts, time);
	if (replay->intake.options.desk != NULL) {
		intake_report_first_tokens(&replay->intake, decisions->events, replay->now_ns);
	}
	if (replay->intake.departure_count > 0) {
		intake_report_departures(&replay->intake, replay->now_ns);
	}
}

void replay_postprocess(struct replay *replay)
{
	const struct sequence *sequence;

	engine_postprocess(replay->engine);
	while ((sequence = engine_take_finished(replay->engine)) != NULL) {
		intake_add_departure(&replay->intake, &replay->intake.of_slot[sequence->slot]);
	}
	if (replay->options.is_checking) {
		engine_check(replay->engine);
	}
}

void replay_record_arrivals(struct replay *replay)
{
	struct intake *intake = &replay->intake;
	struct perfetto *timeline = replay->sinks.timeline;

	for (size_t i = 0; i < intake->arrival_count; i++) {
		const struct arrival *arrival = &intake->arrivals[i];
		if (arrival->fit == FIT_OK) {
			metrics_arrive(
				&replay->metrics, arrival->slot, &arrival->row, replay->now_ns);
		} else {
			metrics_reject(&replay->metrics, arrival->fit, &arrival->row);
			intake_add_departure(intake, &arrival->departure);
		}
		if (timeline != NULL && arrival->fit == FIT_OK) {
			perfetto_arrive(timeline, arrival->slot, &arrival->row);
		} else if (timeline != NULL) {
			perfetto_reject(timeline, arrival->fit, &arrival->row);
		}
	}
	intake_clear_arrivals(intake);
}

enum status replay_add_arrived(struct replay *replay, struct error *error)
{
	enum status status = intake_add_arrived(&replay->intake, replay->now_ns, error);

	if (replay->intake.arrival_count > 0) {
		replay_record_arrivals(replay);
	}
	return status;
}

enum status replay_count_waiting(struct replay *replay, struct error *error)
{
	uint64_t backlog;
	bool all_have_arrived;

	TRY(intake_count_backlog(
		&replay->intake, replay->now_ns, &backlog, &all_have_arrived, error));
	replay->waiting = engine_waiting_count(replay->engine) + backlog;
	for (size_t i = 0; i < replay->intake.awaited_count; i++) {
		metrics_await(&replay->metrics, &replay->intake.awaited[i], replay->now_ns);
	}
	replay->intake.awaited_count = 0;
	if (all_have_arrived && !replay->has_backlog_at_last_arrival) {
		replay->has_backlog_at_last_arrival = true;
		replay->backlog_at_last_arrival = replay->waiting;
	}
	return STATUS_OK;
}
