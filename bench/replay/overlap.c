#include "bench/replay/overlap.h"

#include "bench/replay/replay_step.h"

/* A copy of what the engine's latest step decided. */
static struct step_decisions keep_decisions(struct replay *replay)
{
	struct step_decisions kept = engine_keep_decisions(replay->engine, &replay->kept_events);

	replay->kept_counts = *kept.counts;
	kept.counts = &replay->kept_counts;
	return kept;
}

/* What is known about the rows that arrive while a step runs, before it has ended. */
enum newcomers {
	/* Which rows arrive depends on when the step ends, and they may change the next decision:
	   nothing is launched ahead. */
	NEWCOMERS_UNKNOWN,
	/* No rows arrive: the workload has no more rows, or none before a request departs, and none
	   has departed. */
	NEWCOMERS_NONE,
	/* In a closed loop as many rows arrive as requests depart, whenever the step ends: the next
	   rows of the file. The engine has room for all of them. They are added before the next
	   step is decided, and recorded when the time is known. */
	NEWCOMERS_KNOWN,
	/* No arrival can change the next decision. Rows are added after it, as many as there was
	   room for before it. */
	NEWCOMERS_IRRELEVANT,
};

static enum newcomers newcomers_in_flight(const struct replay *replay)
{
	const struct intake *intake = &replay->intake;
	bool waits = intake->state == WORKLOAD_WAITS;

	if (replay->is_interrupted) {
		return NEWCOMERS_UNKNOWN; /* the replay is ending */
	}
	if (intake->state == WORKLOAD_END || (waits && intake->departure_count == 0)) {
		return NEWCOMERS_NONE;
	}
	if (waits && intake->always_has_room && intake->options.workload->duration_ns == 0) {
		return NEWCOMERS_KNOWN;
	}
	return engine_next_step_depends_on_arrivals(replay->engine) ? NEWCOMERS_UNKNOWN
								    : NEWCOMERS_IRRELEVANT;
}

/* Launches the step behind the one in flight, which was postprocessed, if it can be decided
   already. */
static enum status launch_ahead(
	struct replay *replay, enum newcomers newcomers, struct error *error)
{
	intake_count_room(&replay->intake);
	if (newcomers == NEWCOMERS_KNOWN) {
		intake_report_departures(&replay->intake, replay->now_ns);
		TRY(intake_add_arrived(&replay->intake, replay->now_ns, error));
	}
	replay->is_in_flight = newcomers != NEWCOMERS_UNKNOWN && engine_has_work(replay->engine);
	if (replay->is_in_flight) {
		engine_schedule(replay->engine);
		replay->has_failed = engine_launch(replay->engine, &replay->failure) != STATUS_OK;
	}
	return STATUS_OK;
}

/* Goes on with a launch that was left to hand on the tokens of the step before it. */
static void launch_rest(struct replay *replay)
{
	if (engine_launch_rest(replay->engine, &replay->failure) != STATUS_OK) {
		replay->has_failed = true;
	}
}

/* Records the arrivals that were added before their time was known: the step's end. */
static void record_known_arrivals(struct replay *replay)
{
	for (size_t i = 0; i < replay->intake.arrival_count; i++) {
		replay->intake.arrivals[i].row.arrival_ns = replay->now_ns;
	}
	replay_record_arrivals(replay);
}

enum status overlap_advance(struct replay *replay, struct error *error)
{
	struct step_time time;

	replay_postprocess(replay);
	const struct step_decisions kept = keep_decisions(replay);
	enum newcomers newcomers = newcomers_in_flight(replay);
	TRY(launch_ahead(replay, newcomers, error));
	enum status status = engine_collect(replay->engine, &time, &replay->failure);
	if (status == STATUS_OK) {
		status = replay_check_time(replay, &time, &replay->failure);
	}
	if (status != STATUS_OK) {
		replay->has_failed = true;
		return STATUS_OK;
	}
	replay_record(replay, &kept, &time);
	launch_rest(replay);
	record_known_arrivals(replay);
	if (!replay->is_in_flight) {
		return STATUS_OK;
	}
	if (newcomers == NEWCOMERS_IRRELEVANT) {
		TRY(replay_add_arrived(replay, error));
	}
	return replay_count_waiting(replay, error);
}

/* ---- asynchronous scheduling ---- */

/* Decides a step at now_ns, and gives it to the runner. */
static enum status decide(struct replay *replay, bool is_ahead, struct error *error)
{
	struct ahead_step *ahead = &replay->ahead;
	struct engine *engine = replay->engine;

	engine_schedule(engine);
	TRY(replay_count_waiting(replay, error));
	*ahead = (struct ahead_step){.is_decided = true, .waiting = replay->waiting};
	if (is_ahead && replay->overlaps) {
		engine_set_ahead(engine);
	}
	enum status status = replay->launches_async
				     ? engine_launch(engine, &replay->failure)
				     : engine_execute(engine, &ahead->time, &replay->failure);
	replay->has_failed = status != STATUS_OK;
	return STATUS_OK;
}

enum status async_run_step(struct replay *replay, struct error *error)
{
	struct ahead_step *ahead = &replay->ahead;

	launch_rest(replay);
	if (!replay->has_failed && !ahead->is_decided) {
		TRY(decide(replay, false, error));
	}
	if (replay->has_failed) {
		return STATUS_OK;
	}
	struct ahead_step current = *ahead;
	ahead->is_decided = false;
	intake_count_room(&replay->intake);
	TRY(replay_add_arrived(replay, error));
	if (engine_has_work(replay->engine)) {
		TRY(decide(replay, true, error));
	}
	if (replay->has_failed) {
		return STATUS_OK;
	}
	enum status status = STATUS_OK;
	if (replay->launches_async) {
		status = engine_collect(replay->engine, &current.time, &replay->failure);
	}
	if (status == STATUS_OK) {
		status = replay_check_time(replay, &current.time, &replay->failure);
	}
	replay->has_failed = status != STATUS_OK;
	replay->is_stepping = !replay->has_failed;
	replay->time = current.time;
	replay->waiting = current.waiting;
	return STATUS_OK;
}
