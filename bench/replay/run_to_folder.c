#include "bench/replay/run_to_folder.h"

#include "bench/record/provenance.h"
#include "bench/record/result_folder.h"
#include "bench/record/summary.h"
#include "bench/replay/runners.h"
#include "bench/replay/trace_reading.h"
#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/shape/weight_shape.h"
#include "engine/step_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run and what records it. It is zeroed before it is opened, so that it can be closed at any
   time. */
struct recorded_run {
	struct run run;
	struct result_folder folder;
	struct table_writer requests, steps;
	struct kernel_times *kernel_times;
	struct perfetto *timeline;
};

/* ---- opening ---- */

static enum status begin_table(struct result_folder *folder, struct table_writer *table,
	const char *name, const char *header, struct error *error)
{
	FILE *file;

	TRY(result_folder_begin(folder, name, &file, error));
	table_begin(table, file, header);
	return STATUS_OK;
}

static enum status open_sinks(
	struct recorded_run *own, const struct replay_request *request, struct error *error)
{
	struct run *run = &own->run;
	bool is_fleet = run->fleet.count > 1;
	bool wants_steps = request->wants_steps || run->facts.records_steps;

	if (request->out == NULL) {
		return STATUS_OK;
	}
	if (request->timeline != NULL && is_fleet) {
		return error_set(error, STATUS_USAGE,
			"--timeline shows one replica: give --replicas 1, or --steps, whose table "
			"names the replica of each step");
	}
	TRY(result_folder_open(&own->folder, request->out, request->is_forced, error));
	TRY(begin_table(&own->folder, &own->requests, RESULT_REQUESTS,
		is_fleet ? REQUEST_COLUMNS "\t" REQUEST_REPLICA_COLUMN : REQUEST_COLUMNS, error));
	if (wants_steps) {
		TRY(begin_table(&own->folder, &own->steps, RESULT_STEPS,
			is_fleet ? STEP_COLUMNS "\t" STEP_REPLICA_COLUMN : STEP_COLUMNS, error));
	}
	if (request->timeline != NULL) {
		FILE *file;
		TRY(result_folder_begin_beside(&own->folder, request->timeline, &file, error));
		own->timeline = perfetto_open(file, engine_slot_count(run->fleet.replays[0].engine),
			&request->timeline_window);
	}
	if (run->kernels.state != NULL) {
		uint32_t ranks = (uint32_t)request->run.config.tensor_parallel_size;
		const struct model_config model =
			weight_shard_config(&run->model, (struct weight_shard){.ranks = ranks});
		own->kernel_times = kernel_times_open(&run->kernels, &model, ranks, own->timeline);
	}
	const struct replay_sinks sinks = {
		.requests = &own->requests,
		.steps = wants_steps ? &own->steps : NULL,
		.timeline = own->timeline,
		.kernel_times = own->kernel_times,
	};
	fleet_set_sinks(&run->fleet, &sinks);
	return STATUS_OK;
}

/* ---- writing ---- */

static enum status write_tables(
	const struct metrics *metrics, struct result_folder *folder, struct error *error)
{
	struct table_writer table = {0};

	TRY(begin_table(folder, &table, RESULT_TIMELINE, TIMELINE_COLUMNS, error));
	timeline_write(&metrics->distributions->timeline, &table);
	table_end(&table);
	TRY(begin_table(folder, &table, RESULT_STEP_GRID, STEP_GRID_COLUMNS, error));
	step_grid_write(&metrics->distributions->grid, &table);
	table_end(&table);
	TRY(begin_table(folder, &table, RESULT_LATENCY, LATENCY_COLUMNS, error));
	metrics_write_latency(metrics, &table);
	table_end(&table);
	return STATUS_OK;
}

static enum status write_kernels(
	const struct kernel_times *times, struct result_folder *folder, struct error *error)
{
	struct table_writer table = {0};

	TRY(begin_table(folder, &table, RESULT_KERNELS, KERNEL_COLUMNS, error));
	kernel_times_write(times, &table);
	table_end(&table);
	TRY(begin_table(folder, &table, RESULT_KERNEL_PHASES, KERNEL_PHASE_COLUMNS, error));
	kernel_times_write_phases(times, &table);
	table_end(&table);
	TRY(begin_table(folder, &table, RESULT_KERNEL_TIMELINE, KERNEL_TIMELINE_COLUMNS, error));
	kernel_times_write_timeline(times, &table);
	table_end(&table);
	return STATUS_OK;
}

static enum status write_results(struct recorded_run *own, const struct run_outcome *outcome,
	const struct provenance *provenance, struct error *error)
{
	struct result_folder *folder = &own->folder;
	const struct fleet *fleet = &own->run.fleet;
	FILE *file;

	table_end(&own->requests);
	table_end(&own->steps);
	TRY(write_tables(&fleet->replays[0].metrics, folder, error));
	if (own->kernel_times != NULL) {
		TRY(write_kernels(own->kernel_times, folder, error));
	}
	if (own->timeline != NULL) {
		perfetto_end(own->timeline, fleet_now_ns(fleet));
	}
	if (outcome->level_count > 0) {
		struct table_writer levels = {0};
		TRY(begin_table(folder, &levels, RESULT_LEVELS, LEVEL_COLUMNS, error));
		summary_write_levels(outcome, &levels);
		table_end(&levels);
	}
	TRY(result_folder_begin(folder, RESULT_PROVENANCE, &file, error));
	provenance_write(provenance, file);
	TRY(result_folder_begin(folder, RESULT_SUMMARY, &file, error));
	summary_write(outcome, replay_config_json(&own->run.request->config), file);
	return result_folder_commit(folder, error);
}

static void print_result(const struct recorded_run *own, const struct run_outcome *outcome)
{
	const struct run *run = &own->run;
	const struct replay_config *config = &run->request->config;

	run_note_positions(config, &run->model, stdout);
	if (outcome->profile_note[0] != '\0') {
		printf("note: %s\n", outcome->profile_note);
	}
	summary_print(outcome, config->gpu);
	fflush(stdout);
	if (own->kernel_times != NULL) {
		kernel_times_print(own->kernel_times);
	}
}

/* Rows that share a time are a burst that the recorded requests may not have been. */
static void warn_of_ties(const struct run *run)
{
	const struct tick_finder *ticks = workload_ticks(replay_workload(&run->fleet.replays[0]));
	const struct replay_config *config = &run->request->config;
	bool uses_times = run->workload.profile == NULL && config->concurrency == 0;
	const char *advice = config->spread_ties	? "--spread-ties drew"
			     : config->loop == LOOP_OFF ? "--spread-ties draws"
							: "--spread-ties, without --loop, draws";
	char text[TICK_TEXT_BYTES];

	if (!uses_times || tick_finder_tick(ticks) == 0) {
		return;
	}
	tick_finder_text(ticks, text);
	fprintf(stderr, "note: %s; %s them inside it\n", text, advice);
}

/* Seconds that were meant as milliseconds leave a result that looks like any other. */
static void warn_of_outages(const struct run *run)
{
	struct text lines = {0};

	if (run->fleet.has_desk) {
		outages_add_idle(&run->fleet.desk.outages, fleet_now_ns(&run->fleet), &lines);
	}
	for (const char *at = lines.bytes; at != NULL && *at != '\0';) {
		size_t bytes = strcspn(at, "\n") + 1;
		fprintf(stderr, "note: %.*s", (int)bytes, at);
		at += bytes;
	}
	text_deinit(&lines);
}

static void warn_of_options(const struct run *run)
{
	runner_tell_idle_options(&run->request->config);
	if (run->facts.has_no_process && run->groups.count == 0) {
		fprintf(stderr,
			"note: --engine-process changes nothing with --gpu %s: its prices have no "
			"process of an engine\n",
			run->request->config.gpu);
	}
}

/* What stderr says of the trace and of what was rejected. */
static void warn(const struct recorded_run *own, const struct run_outcome *outcome)
{
	const struct run *run = &own->run;

	trace_reading_report(workload_trace(replay_workload(&run->fleet.replays[0])));
	warn_of_ties(run);
	if (run->groups.count == 0) {
		summary_warn_of_memory(outcome, run->request->config.gpu);
	}
	if (outcome->end == RUN_COMPLETE) { /* else the error is the one line on stderr */
		warn_of_options(run);
		warn_of_outages(run);
		summary_warn_of_end(outcome);
		summary_warn_of_rejections(outcome, run->request->config.max_model_len);
	}
}

/* ---- the run ---- */

static enum status record_run(
	struct recorded_run *own, struct replay_request *request, struct error *error)
{
	uint64_t start_ns = monotonic_ns();
	struct run_outcome outcome;

	if (request->out != NULL) {
		TRY(result_folder_check(request->out, request->is_forced, error));
	}
	TRY(run_open(&own->run, &request->run, error));
	TRY(open_sinks(own, request, error));
	TRY(run_play(&own->run, &outcome, error));
	if (own->kernel_times != NULL) {
		kernel_times_finish(own->kernel_times);
	}
	if (outcome.end == RUN_INTERRUPTED && request->run.is_one_of_many) {
		return run_outcome_status(&outcome, error);
	}
	const struct provenance provenance = {.argc = request->argc,
		.argv = request->argv,
		.command = request->command,
		.wall_ns = monotonic_ns() - start_ns,
		.device = own->run.facts.device,
		.identity = request->identity};
	if (request->out != NULL) {
		TRY(write_results(own, &outcome, &provenance, error));
	}
	if (request->prints_json) {
		summary_write(&outcome, replay_config_json(&own->run.request->config), stdout);
		fflush(stdout);
	} else if (request->prints_summary) {
		print_result(own, &outcome);
	}
	if (!request->run.is_one_of_many) {
		warn(own, &outcome);
	}
	if (outcome.end == RUN_INTERRUPTED && request->out != NULL) {
		return error_set(error, STATUS_VERDICT,
			"interrupted; %s holds what was measured until then", request->out);
	}
	return run_outcome_status(&outcome, error);
}

static void close_run(struct recorded_run *own)
{
	kernel_times_close(own->kernel_times);
	perfetto_close(own->timeline);
	result_folder_close(&own->folder);
	run_close(&own->run);
}

enum status run_to_folder(struct replay_request *request, struct error *error)
{
	struct recorded_run *own = memory_take(1, sizeof(*own));
	enum status status = record_run(own, request, error);

	close_run(own);
	free(own);
	return status;
}
