#include "bench/replay/run.h"

#include "bench/replay/runners.h"
#include "engine/base/input_file.h"
#include "engine/base/interrupt.h"
#include "bench/replay/drawn_arrivals.h"
#include "bench/replay/trace_reading.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/model/config_json.h"
#include "engine/ranks/launch.h"
#include "sim/cost_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- configuration ---- */

/* Refuses options that need a runner that computes tokens. */
static enum status check_tokens(const struct run *run, struct error *error)
{
	const struct replay_config *config = &run->request->config;

	if (run->fleet.runners[0].is_computing) {
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
	if (config->given.weights || config->given.dtype) {
		return error_set(error, STATUS_USAGE,
			"--%s belongs to a runner that computes tokens; --runner %s does not",
			config->given.weights ? "weights" : "dtype", config->runner);
	}
	return STATUS_OK;
}

/* A recording names the profile that --gpu chose. */
static enum status check_recorded_gpu(
	const struct replay_config *config, const char *given, struct error *error)
{
	struct gpu_profile_choice choice;

	if (strcmp(path_name(given), config->gpu) == 0) {
		return STATUS_OK;
	}
	TRY(gpu_profile_choose(given, replay_config_policy(config), config->model,
		(uint32_t)config->tensor_parallel_size, &choice, error));
	if (strcmp(choice.profile.name, config->gpu) != 0) {
		return error_set(error, STATUS_USAGE, "--gpu is %s here and %s in the recorded run",
			given, config->gpu);
	}
	return STATUS_OK;
}

/* Takes over a recorded run's configuration. A recording holds only the names of its model and
   profile, so a --model and a --gpu that were given are compared by name; the model is kept. */
static enum status take_recording(struct run *run, struct error *error)
{
	struct replay_config *config = &run->request->config;
	const char *model = config->model, *gpu = config->gpu;
	const struct replay_given given = config->given;

	config->given.model = false;
	config->given.gpu = false;
	enum status status =
		replay_config_from_recording(config, run->request->tape, &run->recording, error);
	config->given = given;
	TRY(status);
	if (given.gpu) {
		TRY(check_recorded_gpu(config, gpu, error));
	}
	if (!given.model) {
		return STATUS_OK;
	}
	TRY(model_config_find(model, &run->model, error));
	if (strcmp(run->model.name, config->model) != 0) {
		return error_set(error, STATUS_USAGE,
			"--model is %s here and %s in the recorded run", run->model.name,
			config->model);
	}
	config->model = model;
	return STATUS_OK;
}

/* A tape is of one trace. Before the run, since another one's first step differs already. */
static enum status check_recorded_trace(const struct run *run, struct error *error)
{
	const struct replay_recording *recording = &run->recording;
	const char *path = run->request->trace_path;
	uint64_t hash = 0;
	char text[17];

	TRY(input_hash(path, INPUT_FILE_OR_PIPE, &hash, error));
	snprintf(text, sizeof(text), "%016llx", (unsigned long long)hash);
	if (strcmp(text, recording->trace_xxh64) == 0) {
		return STATUS_OK;
	}
	bool is_namesake = strcmp(path_name(path), recording->trace_name) == 0;
	return error_set(error, STATUS_INPUT,
		"%.200s: not the trace of the recorded run: the tape is of %s%.128s; XXH64 is %s, "
		"recorded was %s",
		path, is_namesake ? "another " : "", recording->trace_name, text,
		recording->trace_xxh64);
}

/* What the options mean together: rows of the trace, and the model. */
static enum status combine_options(struct run *run, struct error *error)
{
	struct replay_config *config = &run->request->config;

	replay_config_close_loop(config);
	TRY(replay_config_check(config, error));
	TRY(replay_config_workload(config, &run->workload, &run->profile, error));
	if (run->workload.profile != NULL) {
		config->arrivals = drawn_arrivals_word(&run->profile);
	}
	TRY(model_config_find(config->model, &run->model, error));
	TRY(replay_config_ranks_check(config, &run->model, error));
	replay_config_complete(config, &run->model);
	return config->sessions == SESSIONS_OPEN
		       ? STATUS_OK
		       : trace_reading_need_sessions(run->request->trace_path, &run->workload.trace,
				 config->max_requests, error);
}

/* As combine_options(). All of these options are the recording's, and so are their faults. */
static enum status combine_recorded_options(struct run *run, struct error *error)
{
	struct error fault = {0};
	enum status status = combine_options(run, &fault);

	return status == STATUS_OK
		       ? STATUS_OK
		       : error_set(error, STATUS_INPUT, "%.200s/" RESULT_SUMMARY ": config: %s",
				 run->request->tape, fault.text);
}

/* Reads the groups of --fleet; the number of replicas is theirs. */
static enum status read_groups(struct run *run, struct error *error)
{
	struct replay_config *config = &run->request->config;

	if (config->fleet == NULL) {
		return STATUS_OK;
	}
	if (run->entry->kind != RUNNER_PRICED) {
		return error_set(error, STATUS_USAGE,
			"--fleet has replicas that differ in what prices them: it needs --runner "
			"sim, not %s",
			config->runner);
	}
	TRY(fleet_groups_read(&run->groups, config->fleet, error));
	if (config->given.replicas && config->replicas != run->groups.replicas) {
		return error_set(error, STATUS_USAGE, "--replicas %llu: --fleet has %llu",
			(unsigned long long)config->replicas,
			(unsigned long long)run->groups.replicas);
	}
	config->replicas = run->groups.replicas;
	/* The path would depend on the machine. */
	config->fleet = path_name(config->fleet);
	return STATUS_OK;
}

static enum status complete_config(struct run *run, struct error *error)
{
	struct replay_config *config = &run->request->config;
	const char *tape = run->request->tape;

	TRY(runner_find(config->runner, &run->entry, error));
	if (!run->request->is_one_of_many) {
		TRY(runner_take_launch(run->entry, config, error));
	}
	TRY(read_groups(run, error));
	if (run->request->wants_kernel_times && !run->entry->measures_kernels) {
		return error_set(error, STATUS_USAGE,
			"--kernel-times measures kernels of the GPU: it needs --runner cuda, not "
			"%s",
			config->runner);
	}
	if (run->request->wants_kernel_times && config->replicas > 1) {
		return error_set(error, STATUS_USAGE,
			"--kernel-times measures one replica: give --replicas 1");
	}
	if (config->given.step_time_scale && run->entry->kind != RUNNER_PRICED) {
		return error_set(error, STATUS_USAGE,
			"--step-time-scale scales prices: it needs --runner sim, not %s",
			config->runner);
	}
	if (tape != NULL && run->entry->kind != RUNNER_RECORDED) {
		return error_set(error, STATUS_USAGE, "--tape belongs to --runner tape");
	}
	if (tape == NULL) {
		replay_config_take_policy(config);
		return combine_options(run, error);
	}
	TRY(take_recording(run, error));
	TRY(check_recorded_trace(run, error));
	if (config->fleet != NULL) {
		return error_set(error, STATUS_USAGE,
			"--runner tape: the replicas of the recorded run differ (--fleet %.64s), "
			"and the limits of each are not on the tape",
			config->fleet);
	}
	if (run->recording.is_wall_clock && config->outages != NULL &&
		strstr(config->outages, "fail") != NULL) {
		return error_set(error, STATUS_USAGE,
			"--runner tape: a replica failed in the recorded run, and under the wall "
			"clock the start of the step that it lost is not on the tape");
	}
	return combine_recorded_options(run, error);
}

/* Notes once what about the profile of a group, or of equal replicas, is not as was asked for. */
static void note_profile(struct run *run, const struct runner_facts *facts)
{
	struct text note = {0};

	if (facts->gpu_note[0] == '\0') {
		return;
	}
	text_format(&note, "steps are priced by %s: %s", facts->gpu, facts->gpu_note);
	if (run->profile_note.bytes == NULL) {
		text_add(&run->profile_note, note.bytes);
	} else if (strstr(run->profile_note.bytes, note.bytes) == NULL) {
		text_format(&run->profile_note, "; %s", note.bytes);
	}
	text_deinit(&note);
}

/* config.gpu says what computed or priced the steps, in storage that outlives the run. */
static void name_gpu(struct run *run)
{
	const struct runner_facts *facts = &run->facts;
	struct run_request *request = run->request;
	const char *own = facts->device[0] != '\0' ? facts->device : run->entry->own_gpu;
	const char *name = run->entry->own_gpu != NULL ? own : facts->gpu;

	if (name[0] != '\0') {
		snprintf(request->gpu, sizeof(request->gpu), "%s", name);
		request->config.gpu = request->gpu;
	}
	note_profile(run, facts);
}

/* Opens a runner for each replica. */
static enum status open_equal_runners(
	struct run *run, const struct runner_request *first, struct error *error)
{
	struct fleet *fleet = &run->fleet;
	struct replay_config *config = &run->request->config;
	const char *weights = config->weights;
	struct runner_request request = *first;

	TRY(run->entry->open(&fleet->runners[0], config, &request, &run->facts, error));
	replay_config_engine(config, &fleet->configs[0]);
	request.first = &fleet->runners[0];
	for (uint32_t i = 1; i < fleet->count; i++) {
		struct runner_facts facts = {0};
		request.replica = i;
		config->weights = weights; /* the first has shortened it to its name */
		TRY(run->entry->open(&fleet->runners[i], config, &request, &facts, error));
		replay_config_engine(config, &fleet->configs[i]);
	}
	return STATUS_OK;
}

/* Replicas [at + 1, at + count) of a group, like the one at `at`. */
static enum status open_others_of_group(struct run *run, uint32_t at, uint64_t count,
	struct replay_config *config, const struct runner_request *first, struct error *error)
{
	struct fleet *fleet = &run->fleet;
	struct runner_request request = *first;

	request.first = &fleet->runners[at];
	for (uint32_t i = at + 1; i < at + count; i++) {
		struct runner_facts facts = {0};
		request.replica = i;
		TRY(run->entry->open(&fleet->runners[i], config, &request, &facts, error));
		replay_config_engine(config, &fleet->configs[i]);
	}
	return STATUS_OK;
}

static void set_if(uint64_t *option, uint64_t value)
{
	*option = value > 0 ? value : *option;
}

/* Says where a group has more KV blocks than its memory has room for, as --kv-blocks may: what a
   GPU that is not there could do is a fair question. */
static void tell_room(
	const char *name, const struct replay_config *own, const struct runner_facts *facts)
{
	if (facts->found_kv_blocks > 0 && own->kv_blocks > facts->found_kv_blocks) {
		fprintf(stderr,
			"group %s of --fleet has %llu KV %s, more than the %llu that its GPU "
			"memory has room for\n",
			name, (unsigned long long)own->kv_blocks,
			word_of_count(own->kv_blocks, "block", "blocks"),
			(unsigned long long)facts->found_kv_blocks);
	}
}

/* Adds a name to a list with commas, unless it is there. */
static void add_name(struct text *list, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *at = list->bytes; at != NULL; at = strchr(at, ',')) {
		at += strspn(at, ", ");
		if (strncmp(at, name, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0')) {
			return;
		}
	}
	if (bytes > 0) {
		text_format(list, "%s%s", list->byte_count > 0 ? ", " : "", name);
	}
}

/* Opens the runners of a group. own: the run's configuration, which becomes the group's. */
static enum status open_group(struct run *run, const struct fleet_group *group, uint32_t at,
	struct replay_config *own, const struct runner_request *request, struct runner_facts *facts,
	struct error *error)
{
	struct error why = {0};

	own->gpu = group->gpu[0] == '\0' ? own->gpu : group->gpu;
	set_if(&own->tensor_parallel_size, group->tensor_parallel_size);
	set_if(&own->kv_blocks, group->kv_blocks);
	set_if(&own->max_num_seqs, group->max_num_seqs);
	set_if(&own->max_num_batched_tokens, group->max_num_batched_tokens);
	set_if(&own->max_model_len, group->max_model_len);
	if (run->entry->open(&run->fleet.runners[at], own, request, facts, &why) != STATUS_OK) {
		return error_set(error, why.status, "--fleet %.128s: group %s: %s", own->fleet,
			group->name, why.text);
	}
	tell_room(group->name, own, facts);
	note_profile(run, facts);
	add_name(&run->profiles, facts->gpu);
	if (!facts->is_calibrated) {
		add_name(&run->uncalibrated, facts->gpu);
	}
	replay_config_engine(own, &run->fleet.configs[at]);
	return open_others_of_group(run, at, group->replicas, own, request, error);
}

/* Opens the runners of each group of a fleet. */
static enum status open_group_runners(
	struct run *run, const struct runner_request *request, struct error *error)
{
	const struct fleet_groups *groups = &run->groups;
	struct fleet *fleet = &run->fleet;
	struct replay_config *config = &run->request->config;
	uint32_t at = 0;

	for (uint32_t i = 0; i < groups->count; i++) {
		const struct fleet_group *group = &groups->list[i];
		struct replay_config own = *config;
		struct runner_facts facts = {0};
		TRY(open_group(run, group, at, &own, request, &facts, error));
		for (uint64_t k = 0; k < group->replicas; k++) {
			fleet->groups[at++] = group->name;
		}
		double largest = run->facts.model_error > facts.model_error ? run->facts.model_error
									    : facts.model_error;
		const uint64_t contents[] = {run->facts.profile_xxh64, facts.profile_xxh64};
		run->facts = i == 0 ? facts : run->facts;
		run->facts.profile_xxh64 =
			i == 0 ? facts.profile_xxh64 : XXH64(contents, sizeof(contents), 0);
		run->facts.model_error = largest;
		run->facts.knows_cards = run->facts.knows_cards && facts.knows_cards;
		run->facts.is_calibrated = run->facts.is_calibrated && facts.is_calibrated;
	}
	set_if(&config->kv_blocks, fleet->configs[0].kv_block_count);
	return STATUS_OK;
}

static enum status open_runners(
	struct run *run, const struct runner_request *request, struct error *error)
{
	struct engine_config *limits = &run->fleet.configs[0];

	TRY(run->groups.count > 0 ? open_group_runners(run, request, error)
				  : open_equal_runners(run, request, error));
	/* --max-concurrency is of one replica. */
	run->seats = limits->max_num_seqs;
	replay_config_hold_back(&run->request->config, limits);
	return STATUS_OK;
}

static enum status open_runner(struct run *run, struct error *error)
{
	struct run_request *request = run->request;
	const struct runner_request runner_request = {.model = &run->model,
		.model_path = request->config.model,
		.tape = request->tape,
		.tape_is_calibrated = run->recording.is_calibrated,
		.tape_spread = run->recording.spread,
		.tape_readers = run->recording.readers,
		.runs_after = request->runs_after,
		.kernels = request->wants_kernel_times ? &run->kernels : NULL};

	/* The model's folder name identifies it; the full path would depend on the machine. */
	request->config.model = run->model.name;
	fleet_init(&run->fleet, (uint32_t)request->config.replicas);
	TRY(open_runners(run, &runner_request, error));
	name_gpu(run);
	/* Replicas that compute launch nothing ahead, but for asynchronous scheduling. */
	if (run->fleet.count > 1 && run->fleet.runners[0].is_computing &&
		request->config.async_scheduling == ASYNC_SCHEDULING_OFF) {
		request->config.overlap = OVERLAP_OFF;
	}
	/* What is priced is the CUDA engine, and both compute in bf16. */
	if (run->entry->kind == RUNNER_PRICED || run->facts.device[0] != '\0') {
		request->config.dtype = DTYPE_BFLOAT16;
	}
	return check_tokens(run, error);
}

/* A runner that computes takes seconds to open, so a trace that cannot be read is refused first. Of
   processes that mpirun started only rank 0 reads it. */
static enum status check_trace(const struct run *run, struct error *error)
{
	return run->entry->kind == RUNNER_COMPUTED && rank_launch_find().rank == 0
		       ? trace_reading_check(run->request->trace_path, &run->workload.trace, error)
		       : STATUS_OK;
}

static enum status open_replay(struct run *run, struct error *error)
{
	const struct run_request *request = run->request;
	const struct replay_options options = {
		.config = &request->config,
		.workload = &run->workload,
		.trace_path = request->trace_path,
		.is_checking = request->is_checking,
		.progress = request->progress,
		.overlaps = request->config.overlap == OVERLAP_ON,
		.is_wall_clock = request->config.clock == REPLAY_CLOCK_WALL,
		.slo = request->slo,
		.vocab_size = run->model.vocab_size,
	};

	return fleet_open(&run->fleet, &options, error);
}

/* ---- the run ---- */

enum status run_check_names(const struct replay_config *config, struct error *error)
{
	const struct runner_entry *entry;
	struct gpu_profile_choice choice;
	struct model_config model;

	TRY(runner_find(config->runner, &entry, error));
	TRY(model_config_find(config->model, &model, error));
	return entry->kind == RUNNER_PRICED
		       ? gpu_profile_choose(
				 config->gpu, replay_config_policy(config), NULL, 1, &choice, error)
		       : STATUS_OK;
}

enum status run_open(struct run *run, struct run_request *request, struct error *error)
{
	memset(run, 0, sizeof(*run));
	run->request = request;
	if (input_spool(request->trace_path, error) == STATUS_OK &&
		complete_config(run, error) == STATUS_OK) {
		check_trace(run, error);
	}
	if (request->is_one_of_many) {
		TRY(error->status);
		TRY(open_runner(run, error));
		return open_replay(run, error);
	}
	if (!request->has_joined) {
		TRY(launched_join(&request->config, error)); /* which carries the error */
	}
	if (error->status != STATUS_OK || open_runner(run, error) != STATUS_OK) {
		return rank_launch_fail(error);
	}
	return open_replay(run, error);
}

/* A tape must be played to its end. */
static enum status finish_runner(struct run *run, struct error *error)
{
	return run->entry->finish == NULL ? STATUS_OK
					  : run->entry->finish(&run->fleet.runners[0], error);
}

static uint32_t bit_of(enum wait_cause cause, const char *option, uint64_t value)
{
	return replay_option_is_full(option, value) ? UINT32_C(1) << cause : 0;
}

/* Of the options that decide in the run; a table of groups has its own columns. */
static uint32_t spent_causes(const struct run *run)
{
	const struct replay_config *config = &run->request->config;

	if (run->groups.count > 0) {
		return 0;
	}
	return bit_of(WAIT_SEATS, "max-num-seqs", config->max_num_seqs) |
	       bit_of(WAIT_BUDGET, "max-num-batched-tokens", config->max_num_batched_tokens) |
	       bit_of(WAIT_ROUTER, "replicas", config->replicas) |
	       (config->given.kv_blocks ? bit_of(WAIT_BLOCKS, "kv-blocks", config->kv_blocks)
					: bit_of(WAIT_BLOCKS, "gpu-memory-utilization",
						  config->gpu_memory_utilization));
}

/* Utilisation by the runner's own prices, or by those of the built-in profile that is named as its
   GPU. A file is not looked for: results must not depend on what this machine has. */
static void set_load(struct run *run, struct run_outcome *outcome)
{
	struct fleet *fleet = &run->fleet;
	const struct replay *replay = &fleet->replays[0];
	const struct engine_config limits = fleet_mean_limits(fleet);
	struct gpu_profile_choice choice;
	struct runner pricer = fleet->runners[0];
	struct error error = {0};
	bool is_own = pricer.price != NULL;
	const char *gpu = run->request->config.gpu;
	const char *policy = replay_config_policy(&run->request->config);
	uint32_t ranks = (uint32_t)run->request->config.tensor_parallel_size;
	bool has_price = is_own || (gpu != NULL && !gpu_profile_is_file(gpu) &&
					   gpu_profile_choose(gpu, policy, run->model.name, ranks,
						   &choice, &error) == STATUS_OK &&
					   cost_model_open(&pricer, &run->model, &choice.profile,
						   ranks, &error) == STATUS_OK);

	uint64_t seats =
		run->request->config.max_concurrency > 0 ? run->seats : limits.max_num_seqs;

	run_outcome_of_load(outcome, &replay->metrics, &limits, seats,
		has_price && run->groups.count <= 1 ? &pricer : NULL);
	if (has_price && !is_own) {
		pricer.close(pricer.state);
	}
}

enum status run_play(struct run *run, struct run_outcome *outcome, struct error *error)
{
	struct fleet *fleet = &run->fleet;
	struct replay *replay = &fleet->replays[0];
	const struct runner_facts *facts = &run->facts;

	interrupt_hold();
	run->is_holding = true;
	TRY(fleet_run(fleet, error));
	if (!replay->has_failed && !replay->is_interrupted) {
		replay->has_failed = finish_runner(run, &replay->failure) != STATUS_OK;
	}
	fleet_outcome(fleet, outcome);
	for (uint32_t i = 0; i < outcome->level_count; i++) {
		outcome->levels[i].rate_millionths = arrival_profile_rate(&run->profile, i);
	}
	set_load(run, outcome);
	bool is_stdin = strcmp(run->request->trace_path, "-") == 0;
	snprintf(outcome->trace_name, sizeof(outcome->trace_name), "%s",
		is_stdin ? "stdin" : path_name(run->request->trace_path));
	outcome->runner_kind = runner_kind_name(run->entry->kind);
	outcome->is_calibrated = facts->is_calibrated;
	if (run->groups.count == 0) {
		outcome->spread = fleet->runners[0].spread;
		outcome->readers = fleet->runners[0].readers;
	}
	outcome->has_outside = facts->profile[0] != '\0' && outcome->work.steps > 0;
	if (outcome->has_outside) {
		const struct run_sums *work = &outcome->work;
		outcome->outside_step_share = (double)work->outside_steps / (double)work->steps;
		/* A step at the edge of the window is in it only in part. */
		outcome->outside_share =
			(double)u64_min(work->outside_ns, work->busy_ns) / (double)work->busy_ns;
	}
	snprintf(outcome->profile, sizeof(outcome->profile), "%s", facts->profile);
	if (run->profiles.byte_count > 0 && strchr(run->profiles.bytes, ',') != NULL) {
		snprintf(outcome->profiles, sizeof(outcome->profiles), "%s", run->profiles.bytes);
		snprintf(outcome->uncalibrated, sizeof(outcome->uncalibrated), "%s",
			run->uncalibrated.bytes == NULL ? "" : run->uncalibrated.bytes);
	}
	snprintf(outcome->profile_note, sizeof(outcome->profile_note), "%s",
		run->profile_note.bytes == NULL ? "" : run->profile_note.bytes);
	outcome->found_kv_blocks = facts->found_kv_blocks;
	outcome->is_beyond_memory = facts->is_beyond_memory;
	outcome->has_given_blocks = run->request->config.given.kv_blocks;
	outcome->is_held_back = run->request->config.max_concurrency > 0 &&
				run->request->config.max_concurrency < run->seats;
	outcome->spent_causes = spent_causes(run);
	outcome->profile_xxh64 = facts->profile_xxh64;
	if (outcome->end == RUN_COMPLETE && outcome->submitted > 0 &&
		outcome->measured_submitted == 0) {
		return error_set(error, STATUS_USAGE,
			"--warmup %llu leaves nothing of %llu %s to measure",
			(unsigned long long)run->request->config.warmup,
			(unsigned long long)outcome->submitted,
			word_of_count(outcome->submitted, "request", "requests"));
	}
	return STATUS_OK;
}

enum status run_outcome_status(const struct run_outcome *outcome, struct error *error)
{
	if (outcome->end == RUN_FAILED) {
		*error = outcome->failure;
		return error->status;
	}
	return outcome->end == RUN_COMPLETE ? STATUS_OK
					    : error_set(error, STATUS_VERDICT, "interrupted");
}

void run_close(struct run *run)
{
	fleet_close(&run->fleet);
	if (run->kernels.state != NULL) {
		run->kernels.close(run->kernels.state);
	}
	replay_recording_close(&run->recording);
	text_deinit(&run->profile_note);
	text_deinit(&run->profiles);
	text_deinit(&run->uncalibrated);
	if (run->is_holding) {
		interrupt_release();
	}
}

enum status run_replay(
	struct run_request *request, struct run_outcome *outcome, struct error *error)
{
	struct run *run = memory_take(1, sizeof(*run));

	request->is_one_of_many = true;
	enum status status = run_open(run, request, error);

	if (status == STATUS_OK) {
		status = run_play(run, outcome, error);
	}
	run_close(run);
	free(run);
	TRY(status);
	/* Levels and replicas are gone with the run. */
	outcome->level_count = 0;
	outcome->levels = NULL;
	outcome->fleet = (struct fleet_figures){.is_router_blind = outcome->fleet.is_router_blind};
	return run_outcome_status(outcome, error);
}

bool run_note_positions(
	const struct replay_config *config, const struct model_config *model, FILE *file)
{
	struct model_config found;
	struct error unknown = {0};

	if (model == NULL) {
		if (!config->given.max_model_len ||
			model_config_find(config->model, &found, &unknown) != STATUS_OK) {
			return false;
		}
		model = &found;
	}
	if (config->max_model_len <= model->max_position_embeddings) {
		return false;
	}
	fprintf(file, "note: --max-model-len %llu is beyond the %u positions %s was made for\n",
		(unsigned long long)config->max_model_len, model->max_position_embeddings,
		model->name);
	return true;
}
