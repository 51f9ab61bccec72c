#include "bench/replay/replay_session.h"

#include "bench/replay/trace_reading.h"
#include "bench/replay/progress.h"
#include "bench/record/provenance.h"
#include "bench/replay/replay.h"
#include "bench/record/result_folder.h"
#include "bench/record/summary.h"
#include "bench/replay/runners.h"
#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/path.h"
#include "engine/model/config_json.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Everything that a run holds, zeroed before it is opened, so that it can be closed at any time. */
struct replay_session {
	struct replay_recording recording;
	struct workload_options workload;
	struct arrival_profile profile; /* workload's, when arrivals are drawn */
	struct model_config model;
	const struct runner_entry *entry;
	struct runner runner;
	struct runner_facts facts;
	struct result_folder folder;
	bool has_folder;
	bool is_committed; /* the folder is whole */
	struct table_writer requests, steps;
	struct kernel_source kernels; /* without a state: none */
	struct kernel_times *kernel_times;
	struct perfetto *timeline;
	struct replay replay;
};

/* What only a runner that computes can do. */
static enum status check_tokens(const struct replay_request *request,
	const struct replay_session *session, struct error *error)
{
	const struct replay_config *config = &request->config;

	if (session->runner.is_computing) {
		return STATUS_OK;
	}
	if (config->clock == REPLAY_CLOCK_WALL) {
		return error_set(error, STATUS_USAGE,
			"--clock wall needs a runner whose steps take real time, as cuda and "
			"reference do; those of --runner %s are numbers",
			config->runner);
	}
	if (config->tokens == TOKENS_SAMPLED) {
		return error_set(error, STATUS_USAGE,
			"--tokens sampled needs a runner that computes tokens, as reference does; "
			"--runner %s does not",
			config->runner);
	}
	if (request->config.given.weights || request->config.given.dtype) {
		return error_set(error, STATUS_USAGE,
			"--%s belongs to a runner that computes tokens; --runner %s does not",
			request->config.given.weights ? "weights" : "dtype", config->runner);
	}
	return STATUS_OK;
}

/* Takes over a recorded run's configuration. A recording holds the name of its model, so a model
   that was given is compared by its name, and stays what it is. */
static enum status take_recording(
	struct replay_request *request, struct replay_session *session, struct error *error)
{
	const char *model = request->config.model;
	bool is_model_given = request->config.given.model;

	request->config.given.model = false;
	enum status status = replay_config_from_recording(
		&request->config, request->tape, &session->recording, error);
	request->config.given.model = is_model_given;
	if (status != STATUS_OK || !is_model_given) {
		return status;
	}
	status = model_config_find(model, &session->model, error);
	if (status == STATUS_OK && strcmp(session->model.name, request->config.model) != 0) {
		return error_set(error, STATUS_USAGE,
			"--model is %s here and %s in the recorded run", session->model.name,
			request->config.model);
	}
	request->config.model = model;
	return status;
}

static enum status prepare_config(
	struct replay_request *request, struct replay_session *session, struct error *error)
{
	struct replay_config *config = &request->config;
	enum status status = runner_find(config->runner, &session->entry, error);
	if (status != STATUS_OK) {
		return status;
	}
	bool is_tape = session->entry->kind == RUNNER_RECORDED;
	if (request->wants_kernel_times && !session->entry->measures_kernels) {
		status = error_set(error, STATUS_USAGE,
			"--kernel-times measures kernels of the GPU: it needs --runner cuda, not "
			"%s",
			config->runner);
	}
	if (status == STATUS_OK && is_tape && request->tape != NULL) {
		status = take_recording(request, session, error);
	} else if (status == STATUS_OK && !is_tape && request->tape != NULL) {
		status = error_set(error, STATUS_USAGE, "--tape belongs to --runner tape");
	}
	if (status == STATUS_OK) {
		status = replay_config_check(config, error);
	}
	if (status == STATUS_OK) {
		status = replay_config_workload(
			config, &session->workload, &session->profile, error);
	}
	if (status == STATUS_OK) {
		status = model_config_find(config->model, &session->model, error);
	}
	if (status == STATUS_OK && config->max_model_len == 0) {
		config->max_model_len = session->model.max_position_embeddings;
	}
	if (status == STATUS_OK) {
		const char *model_path = config->model;
		/* A folder's name is enough to tell the model; its path would tell the machine. */
		config->model = session->model.name;
		const struct runner_request runner_request = {.model = &session->model,
			.model_path = model_path,
			.tape = request->tape,
			.tape_is_calibrated = session->recording.is_calibrated,
			.kernels = request->wants_kernel_times ? &session->kernels : NULL};
		status = session->entry->open(
			&session->runner, config, &runner_request, &session->facts, error);
		if (session->entry->own_gpu != NULL) {
			config->gpu = session->entry->own_gpu;
		}
		request->wants_steps |= session->facts.records_steps;
	}
	return status == STATUS_OK ? check_tokens(request, session, error) : status;
}

static enum status open_table(struct result_folder *folder, struct table_writer *table,
	const char *name, const char *header, struct error *error)
{
	char path[PATH_BYTES_MAX];
	enum status status = result_folder_begin(folder, name, path, error);

	return status == STATUS_OK ? table_open(table, path, header, error) : status;
}

static enum status open_session(
	struct replay_request *request, struct replay_session *session, struct error *error)
{
	struct engine_config engine_config;
	const struct replay_options options = {
		.config = &request->config,
		.workload = &session->workload,
		.trace_path = request->trace_path,
		.is_checking = request->is_checking,
		.shows_progress = isatty(STDERR_FILENO) == 1,
		.overlaps = request->config.overlap == OVERLAP_ON,
		.is_wall_clock = request->config.clock == REPLAY_CLOCK_WALL,
		.slo_ttft_ns = request->slo_ttft_ns,
		.slo_tpot_ns = request->slo_tpot_ns,
		.vocab_size = session->model.vocab_size,
	};

	replay_config_engine(&request->config, &engine_config);
	enum status status =
		replay_open(&session->replay, &options, &engine_config, &session->runner,
			&session->requests, request->wants_steps ? &session->steps : NULL, error);
	if (status == STATUS_OK) {
		status = result_folder_open(
			&session->folder, request->out, request->is_forced, error);
		session->has_folder = status == STATUS_OK;
	}
	if (status == STATUS_OK) {
		status = open_table(&session->folder, &session->requests, RESULT_REQUESTS,
			REQUEST_COLUMNS, error);
	}
	if (status == STATUS_OK && request->wants_steps) {
		status = open_table(
			&session->folder, &session->steps, RESULT_STEPS, STEP_COLUMNS, error);
	}
	return status;
}

/* What watches the replay beside its metrics. */
static enum status open_watchers(
	const struct replay_request *request, struct replay_session *session, struct error *error)
{
	enum status status = STATUS_OK;

	if (request->timeline != NULL) {
		status = perfetto_open(&session->timeline, request->timeline,
			engine_slot_count(session->replay.engine), error);
		session->replay.timeline = session->timeline;
	}
	if (status == STATUS_OK && session->kernels.state != NULL) {
		session->kernel_times =
			kernel_times_open(&session->kernels, &session->model, session->timeline);
		session->replay.kernel_times = session->kernel_times;
	}
	return status;
}

/* A tape belongs to one trace, and has to be played to its end. */
static void finish_runner(struct replay_session *session)
{
	struct replay *replay = &session->replay;
	char hash[17];

	if (replay->has_failed || replay->is_interrupted) {
		return;
	}
	snprintf(hash, sizeof(hash), "%016llx",
		(unsigned long long)trace_xxh64(workload_trace(replay->intake.workload)));
	if (session->recording.root != NULL && strcmp(hash, session->recording.trace_xxh64) != 0) {
		error_set(&replay->failure, STATUS_VERDICT,
			"this is not the trace of the recorded run: its XXH64 is %s, recorded was "
			"%s",
			hash, session->recording.trace_xxh64);
		replay->has_failed = true;
	} else if (session->entry->finish != NULL &&
		   session->entry->finish(&session->runner, &replay->failure) != STATUS_OK) {
		replay->has_failed = true;
	}
}

static enum status write_tables(
	const struct metrics *metrics, struct result_folder *folder, struct error *error)
{
	struct table_writer table = {0};
	enum status status = open_table(folder, &table, RESULT_TIMELINE, TIMELINE_COLUMNS, error);

	if (status == STATUS_OK) {
		timeline_write(&metrics->timeline, &table);
		status = table_close(&table, error);
	}
	if (status == STATUS_OK) {
		status = open_table(folder, &table, RESULT_STEP_GRID, STEP_GRID_COLUMNS, error);
	}
	if (status == STATUS_OK) {
		step_grid_write(&metrics->grid, &table);
		status = table_close(&table, error);
	}
	if (status == STATUS_OK) {
		status = open_table(folder, &table, RESULT_LATENCY, LATENCY_COLUMNS, error);
	}
	if (status == STATUS_OK) {
		metrics_write_latency(metrics, &table);
		status = table_close(&table, error);
	}
	return status;
}

static enum status write_kernels(
	const struct kernel_times *times, struct result_folder *folder, struct error *error)
{
	struct table_writer table = {0};
	enum status status = open_table(folder, &table, RESULT_KERNELS, KERNEL_COLUMNS, error);

	if (status == STATUS_OK) {
		kernel_times_write(times, &table);
		status = table_close(&table, error);
	}
	if (status == STATUS_OK) {
		status = open_table(
			folder, &table, RESULT_KERNEL_PHASES, KERNEL_PHASE_COLUMNS, error);
	}
	if (status == STATUS_OK) {
		kernel_times_write_phases(times, &table);
		status = table_close(&table, error);
	}
	if (status == STATUS_OK) {
		status = open_table(
			folder, &table, RESULT_KERNEL_TIMELINE, KERNEL_TIMELINE_COLUMNS, error);
	}
	if (status == STATUS_OK) {
		kernel_times_write_timeline(times, &table);
		status = table_close(&table, error);
	}
	return status;
}

static enum status write_results(struct replay_session *session, const struct replay_config *config,
	const struct run_outcome *outcome, const struct provenance *provenance, struct error *error)
{
	char path[PATH_BYTES_MAX];
	struct result_folder *folder = &session->folder;

	enum status status = table_close(&session->requests, error);
	if (status == STATUS_OK) {
		status = table_close(&session->steps, error);
	}
	if (status == STATUS_OK) {
		status = write_tables(&session->replay.metrics, folder, error);
	}
	if (status == STATUS_OK && session->kernel_times != NULL) {
		status = write_kernels(session->kernel_times, folder, error);
	}
	if (status == STATUS_OK && session->timeline != NULL) {
		status = perfetto_commit(session->timeline, session->replay.now_ns, error);
	}
	if (status == STATUS_OK) {
		status = result_folder_begin(folder, RESULT_PROVENANCE, path, error);
	}
	if (status == STATUS_OK) {
		status = provenance_write(provenance, path, error);
	}
	if (status == STATUS_OK) {
		status = result_folder_begin(folder, RESULT_SUMMARY, path, error);
	}
	if (status == STATUS_OK) {
		status = summary_write(outcome, replay_config_json(config), path, error);
	}
	return status == STATUS_OK ? result_folder_commit(folder, error) : status;
}

static void close_session(struct replay_session *session)
{
	struct error ignored = {0};

	table_close(&session->requests, &ignored);
	table_close(&session->steps, &ignored);
	if (session->has_folder && !session->is_committed) {
		result_folder_abandon(&session->folder);
	}
	replay_close(&session->replay);
	kernel_times_close(session->kernel_times);
	perfetto_close(session->timeline);
	if (session->runner.close != NULL) {
		session->runner.close(session->runner.state);
	}
	if (session->kernels.state != NULL) {
		session->kernels.close(session->kernels.state);
	}
	replay_recording_close(&session->recording);
}

/* Interrupts wait until the replay asks for them, so that files end cleanly. */
static void block_interrupts(sigset_t *before)
{
	sigset_t interrupts;

	sigemptyset(&interrupts);
	sigaddset(&interrupts, SIGINT);
	sigaddset(&interrupts, SIGTERM);
	sigprocmask(SIG_BLOCK, &interrupts, before);
}

/* An interrupt that has been obeyed must not strike when it is let through. */
static void discard_interrupts(void)
{
	sigset_t interrupts;
	const struct timespec at_once = {0};

	sigemptyset(&interrupts);
	sigaddset(&interrupts, SIGINT);
	sigaddset(&interrupts, SIGTERM);
	while (sigtimedwait(&interrupts, NULL, &at_once) > 0) {
	}
}

static void fill_outcome(const struct replay_request *request, const struct replay_session *session,
	struct run_outcome *outcome)
{
	const struct runner_facts *facts = &session->facts;

	replay_outcome(&session->replay, outcome);
	snprintf(outcome->trace_name, sizeof(outcome->trace_name), "%s",
		path_name(request->trace_path));
	outcome->runner_kind = runner_kind_name(session->entry->kind);
	outcome->is_calibrated = facts->is_calibrated;
	snprintf(outcome->profile, sizeof(outcome->profile), "%s", facts->profile);
	outcome->found_kv_blocks = facts->found_kv_blocks;
}

static void print_result(const struct replay_request *request, const struct replay_session *session,
	const struct run_outcome *outcome)
{
	trace_reading_report(workload_trace(session->replay.intake.workload));
	if (request->config.max_model_len > session->model.max_position_embeddings) {
		printf("note: --max-model-len %llu is beyond the %u positions %s was made for\n",
			(unsigned long long)request->config.max_model_len,
			session->model.max_position_embeddings, session->model.name);
	}
	summary_print(outcome, request->config.gpu);
	if (session->kernel_times != NULL) {
		kernel_times_print(session->kernel_times);
	}
}

static enum status run(
	struct replay_request *request, struct replay_session *session, struct error *error)
{
	uint64_t start_ns = monotonic_ns();

	enum status status = prepare_config(request, session, error);
	if (status == STATUS_OK) {
		status = open_session(request, session, error);
	}
	if (status == STATUS_OK) {
		status = open_watchers(request, session, error);
	}
	if (status == STATUS_OK) {
		status = replay_run(&session->replay, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	if (session->kernel_times != NULL) {
		kernel_times_finish(session->kernel_times);
	}
	finish_runner(session);
	struct run_outcome outcome;
	fill_outcome(request, session, &outcome);
	const struct provenance provenance = {.argc = request->argc,
		.argv = request->argv,
		.wall_ns = monotonic_ns() - start_ns,
		.device = session->facts.device};
	status = write_results(session, &request->config, &outcome, &provenance, error);
	if (status != STATUS_OK) {
		return status;
	}
	session->is_committed = true;
	if (!request->is_quiet) {
		print_result(request, session, &outcome);
	}
	if (session->replay.has_failed) {
		*error = session->replay.failure;
		return error->status;
	}
	if (session->replay.is_interrupted) {
		return error_set(error, STATUS_VERDICT,
			"interrupted; %s holds what was measured until then", request->out);
	}
	return STATUS_OK;
}

enum status replay_session_run(struct replay_request *request, struct error *error)
{
	struct replay_session *session = memory_take(1, sizeof(*session));
	sigset_t before;

	block_interrupts(&before);
	enum status status = run(request, session, error);
	close_session(session);
	free(session);
	discard_interrupts();
	sigprocmask(SIG_SETMASK, &before, NULL);
	return status;
}
