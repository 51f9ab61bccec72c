#include "bench/plan/plan.h"

#include "bench/jobs/jobs.h"
#include "bench/plan/asked_load.h"
#include "bench/plan/replicates.h"
#include "bench/replay/runners.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/input_file.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/policy.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Probes of a round of the main search; more would use more workers, and waste more runs. */
enum { MAIN_WIDTH = 2 };

/* ---- opening ---- */

static bool finds_replicas(const struct plan_request *request)
{
	return request->target_rate > 0 || request->target_speedup > 0;
}

/* A rate leaves no times of the trace for a speedup to divide. */
static enum status check_rate(
	const struct plan_request *request, const struct replay_config *config, struct error *error)
{
	bool is_target = request->target_speedup > 0;
	bool has_speedup = is_target || (!finds_replicas(request) && request->vary == KNOB_SPEEDUP);

	if (!has_speedup || !config->given.rate) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_USAGE,
		"--rate sets when the requests of the trace come, and --%s divides the times that "
		"they have: leave --rate out, or %s",
		is_target ? "target-speedup" : "vary speedup",
		is_target ? "give --target-rate" : "--vary rate");
}

/* A closed loop has neither times nor a rate, so the errors of a run would name options that nobody
   gave. */
static enum status check_concurrency(
	const struct plan_request *request, const struct replay_config *config, struct error *error)
{
	const char *load = request->target_speedup > 0	? "--target-speedup"
			   : request->target_rate > 0	? "--target-rate"
			   : request->vary == KNOB_RATE ? "--vary rate"
			   : request->vary == KNOB_SPEEDUP
				   ? (request->has_vary ? "--vary speedup" : "by default --speedup")
				   : NULL;

	if (config->concurrency == 0 || load == NULL) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_USAGE,
		"--concurrency sets how many requests are in the system, whatever comes when, and "
		"the plan varies the load (%s): leave --concurrency out, or give --vary "
		"concurrency",
		load);
}

static enum status check_request(const struct plan_request *request, struct error *error)
{
	const struct replay_config *config = &request->run.config;
	bool is_for_replicas =
		finds_replicas(request) || (request->has_vary && request->vary == KNOB_REPLICAS);

	if (request->target_rate > 0 && request->target_speedup > 0) {
		return error_set(error, STATUS_USAGE,
			"--target-rate and --target-speedup are two loads: give one of them");
	}
	if (finds_replicas(request) && request->has_vary && request->vary != KNOB_REPLICAS) {
		return error_set(error, STATUS_USAGE,
			"--target-rate and --target-speedup are of --vary replicas, found --vary "
			"%s",
			knob_word(request->vary));
	}
	if (request->spare > 0 && !is_for_replicas) {
		return error_set(error, STATUS_USAGE,
			"--spare is of --vary replicas, or give --target-rate or --target-speedup");
	}
	check(request->spare <= PROBE_LOST_MAX);
	if (request->spare > 0 && config->outages != NULL) {
		return error_set(error, STATUS_USAGE,
			"--spare lets replicas fail, and so does --outages: give one of them");
	}
	if (finds_replicas(request) && config->given.replicas) {
		return error_set(error, STATUS_USAGE,
			"--%s looks for the number of replicas: leave --replicas out",
			request->target_rate > 0 ? "target-rate" : "target-speedup");
	}
	if (is_for_replicas && config->fleet != NULL) {
		return error_set(error, STATUS_USAGE,
			"the number of replicas cannot vary with --fleet, which lists them");
	}
	if (is_for_replicas && config->outages != NULL) {
		return error_set(error, STATUS_USAGE,
			"--outages names replicas, and their number varies; --spare K lets K fail");
	}
	if (request->vary == KNOB_KV_BLOCKS && request->has_vary && config->fleet != NULL) {
		return error_set(error, STATUS_USAGE,
			"--vary kv-blocks: --fleet says how many blocks its replicas have");
	}
	if (request->target_rate > 0 && config->given.rate) {
		return error_set(error, STATUS_USAGE,
			"--target-rate and --rate are two loads: give one of them");
	}
	if (request->target_speedup > 0 && config->given.speedup) {
		return error_set(error, STATUS_USAGE,
			"--target-speedup and --speedup are two loads: give one of them");
	}
	TRY(check_concurrency(request, config, error));
	TRY(check_rate(request, config, error));
	if (config->ramp != NULL) {
		return error_set(error, STATUS_USAGE,
			"--ramp has loads of its own, and a plan looks for one");
	}
	return STATUS_OK;
}

/* The load that replicas must carry. */
static void set_target(const struct plan *plan, struct replay_config *config)
{
	const struct plan_request *request = plan->request;

	if (request->target_rate > 0) {
		knob_set(KNOB_RATE, config, asked_rate_option(plan, config, request->target_rate));
	} else if (request->target_speedup > 0) {
		knob_set(KNOB_SPEEDUP, config, request->target_speedup);
	}
}

/* The least pool that the engine accepts. */
static uint64_t least_blocks(const struct replay_config *config)
{
	return policy_at(config->policy) == &policy_vllm
		       ? u64_divide_up(config->max_model_len, config->block_size) + 1
		       : 1;
}

/* A closed loop of as many requests as there are has all of them in it from the start. */
static void limit_concurrency(const struct plan *plan, struct plan_configuration_state *state,
	const struct replay_config *config)
{
	bool knows_rows = config->loop == LOOP_OFF &&
			  config->max_requests == plan->request->run.config.max_requests;

	if (plan->knob == KNOB_CONCURRENCY && knows_rows && plan->trace_rows > 0 &&
		plan->trace_rows < state->highest) {
		state->highest = plan->trace_rows;
		state->limit = LIMIT_ROWS;
	}
}

static void set_range(struct plan *plan, struct plan_configuration_state *state,
	const struct replay_config *given, const struct run *run)
{
	const struct replay_config *config = &run->request->config;

	knob_range(plan->knob, &state->lowest, &state->highest);
	limit_concurrency(plan, state, config);
	if (plan->knob == KNOB_REPLICAS) {
		/* What a router does needs two. */
		bool has_limits =
			config->router_queue != NO_ROUTER_QUEUE_LIMIT || config->replica_limit > 0;
		state->lowest = u64_max(plan->request->spare + 1, has_limits ? 2 : 1);
	}
	if (plan->knob == KNOB_KV_BLOCKS) {
		state->highest = run->fleet.configs[0].kv_block_count;
		state->lowest = u64_min(least_blocks(config), state->highest);
	}
	state->first = knob_given(plan->knob, given);
	state->first = state->first > 0 ? state->first : knobs[plan->knob].first;
	if (plan->knob == KNOB_KV_BLOCKS) {
		state->first = state->highest;
	}
	state->first = u64_min(u64_max(state->first, state->lowest), state->highest);
}

/* The profiles that price the configuration's steps, and those of them that are not calibrated: of
   a fleet, each of its groups' once. */
static void note_profiles(struct plan_configuration_state *state, const struct run *run)
{
	const char *own = run->request->config.gpu;
	bool has_groups = run->profiles.byte_count > 0;

	snprintf(state->profile, sizeof(state->profile), "%s",
		has_groups ? run->profiles.bytes : own);
	snprintf(state->uncalibrated, sizeof(state->uncalibrated), "%s",
		has_groups && run->uncalibrated.byte_count > 0 ? run->uncalibrated.bytes
							       : state->profile);
}

static void note_facts(struct plan_configuration_state *state, const struct run *run)
{
	const struct replay_config *config = &run->request->config;
	uint64_t gpus = 0;

	state->kv_blocks = run->fleet.configs[0].kv_block_count;
	state->block_size = config->block_size;
	state->found_kv_blocks = run->facts.found_kv_blocks;
	/* Groups of --fleet say it one by one when they are opened. */
	state->is_beyond_memory = run->facts.is_beyond_memory && run->groups.count == 0;
	state->is_calibrated = run->facts.is_calibrated;
	text_add(&state->profile_note,
		run->profile_note.bytes == NULL ? "" : run->profile_note.bytes);
	state->is_guess = !state->is_calibrated || !(run->facts.model_error > 0);
	state->knows_cards = run->facts.knows_cards;
	state->model_error = MODEL_GUESS;
	if (!state->is_guess) {
		state->model_error = (uint64_t)(run->facts.model_error * 1e6 + 0.5);
		state->model_error = u64_min(u64_max(state->model_error, 1), 999999);
	}
	snprintf(state->model, sizeof(state->model), "%s", run->model.name);
	snprintf(state->gpu, sizeof(state->gpu), "%s", config->gpu);
	note_profiles(state, run);
	for (uint32_t i = 0; i < run->groups.count; i++) {
		const struct fleet_group *group = &run->groups.list[i];
		gpus += group->replicas * (group->tensor_parallel_size > 0
							  ? group->tensor_parallel_size
							  : config->tensor_parallel_size);
	}
	state->gpus = gpus > 0 ? (double)gpus / (double)run->groups.replicas
			       : (double)config->tensor_parallel_size;
	state->config = replay_config_json(config);
}

/* Of a configuration that cannot be opened: each of its probes fails with the same reason. */
static void assume_facts(const struct plan *plan, struct plan_configuration_state *state,
	const struct replay_config *config)
{
	knob_range(plan->knob, &state->lowest, &state->highest);
	state->first = state->lowest;
	state->block_size = config->block_size;
	state->is_guess = true;
	state->model_error = MODEL_GUESS;
	state->gpus = (double)config->tensor_parallel_size;
	snprintf(state->model, sizeof(state->model), "%s", config->model);
	snprintf(state->gpu, sizeof(state->gpu), "%s", path_name(config->gpu));
	snprintf(state->profile, sizeof(state->profile), "%s", state->gpu);
	snprintf(state->uncalibrated, sizeof(state->uncalibrated), "%s", state->gpu);
	state->config = replay_config_json(config);
}

/* A trace whose rows have one time is the same at every speedup, one request at every rate. */
static enum status check_times(
	const struct plan *plan, const struct replay_config *config, struct error *error)
{
	bool is_target = plan->request->target_speedup > 0;
	bool uses_times =
		(plan->knob == KNOB_SPEEDUP || is_target) && config->sessions == SESSIONS_OPEN;

	if (plan->knob == KNOB_RATE && plan->trace_rows == 1 && config->loop == LOOP_OFF) {
		return error_set(error, STATUS_USAGE,
			"the trace has one request, so --rate changes nothing: expected more, or "
			"--loop with --max-requests");
	}
	if (!uses_times || plan->trace_span_ns > 0) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_USAGE,
		"the requests of the trace (%llu) come all at once, so --%s changes nothing: "
		"expected %s",
		(unsigned long long)plan->trace_rows, is_target ? "target-speedup" : "speedup",
		is_target ? "--target-rate" : "--vary rate or --vary concurrency");
}

/* What no other load changes: a file that cannot be read, memory that is exhausted. */
static bool is_of_machine(enum status status)
{
	return status == STATUS_FILE || status == STATUS_MEMORY;
}

/* Opens a run of the configuration as its first probe would, and closes it again. */
static enum status open_configuration(struct plan *plan, uint32_t index, struct error *error)
{
	struct plan_configuration_state *state = &plan->states[index];
	struct run_request request = plan->configurations[index].run;
	const struct replay_config given = request.config;

	TRY(check_times(plan, &given, error));
	struct run *run = memory_take(1, sizeof(*run));
	request.is_one_of_many = true;
	if (plan->knob != KNOB_KV_BLOCKS) {
		uint64_t load = u64_max(knob_given(plan->knob, &given), knobs[plan->knob].first);
		bool has_router = plan->knob == KNOB_REPLICAS;
		knob_set(plan->knob, &request.config, has_router ? u64_max(load, 2) : load);
	}
	enum status status = run_open(run, &request, error);
	if (status == STATUS_OK) {
		set_range(plan, state, &given, run);
		note_facts(state, run);
	}
	run_close(run);
	free(run);
	return status;
}

/* A grid must not vary the load that is given. */
static enum status check_grid_load(
	const struct replay_config *own, const struct plan_request *request, struct error *error)
{
	const char *name = request->target_rate > 0 && own->given.rate	       ? "rate"
			   : request->target_speedup > 0 && own->given.speedup ? "speedup"
									       : NULL;

	return name == NULL ? STATUS_OK
			    : error_set(error, STATUS_USAGE,
				      "--target-%s is the load of every configuration: --%s does "
				      "not vary beside it",
				      name, name);
}

/* A name that is misspelt in a grid is wrong use, as it is on the command line: the configuration
   would be ranked as none. */
static enum status check_names(
	const struct replay_config *config, const char *name, struct error *error)
{
	struct error unknown = {0};

	return run_check_names(config, &unknown) == STATUS_OK
		       ? STATUS_OK
		       : error_set(
				 error, unknown.status, "configuration %s: %s", name, unknown.text);
}

static enum status open_configurations(struct plan *plan, struct error *error)
{
	const struct plan_request *request = plan->request;
	struct error first = {0};
	uint32_t refused_count = 0;

	TRY(grid_open(&plan->grid, request->grid, &request->tries, &request->run.config, error));
	plan->configuration_count = plan->grid.count;
	plan->states = memory_take(plan->configuration_count, sizeof(*plan->states));
	plan->configurations =
		memory_take(plan->configuration_count, sizeof(*plan->configurations));
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct configuration *configuration = &plan->grid.list[i];
		if (knob_given(plan->knob, &configuration->own) > 0) {
			return error_set(error, STATUS_USAGE,
				"the plan varies --%s, and so does configuration %s: it may not",
				knobs[plan->knob].name, configuration->name);
		}
		plan->states[i].name = configuration->name;
		plan->states[i].options = configuration->options;
		plan->states[i].index = i;
		plan->configurations[i].run = request->run;
		configuration_apply(configuration, &plan->configurations[i].run.config);
		TRY(check_grid_load(&configuration->own, request, error));
		TRY(check_rate(request, &configuration->own, error));
		set_target(plan, &plan->configurations[i].run.config);
		TRY(check_names(&plan->configurations[i].run.config, configuration->name, error));
		struct error refused = {0};
		if (open_configuration(plan, i, &refused) != STATUS_OK) {
			if (is_of_machine(refused.status) || plan->configuration_count == 1) {
				return error_set(error, refused.status, "%s", refused.text);
			}
			assume_facts(plan, &plan->states[i], &plan->configurations[i].run.config);
			first = first.status == STATUS_OK ? refused : first;
			refused_count++;
		}
	}
	return refused_count < plan->configuration_count
		       ? STATUS_OK
		       : error_set(error, first.status, "configuration %s: %s",
				 plan->states[0].name, first.text);
}

static enum status open_plan(
	struct plan *plan, const struct plan_request *request, struct error *error)
{
	*plan = (struct plan){
		.request = request, .objective = request->objective, .start_ns = monotonic_ns()};
	plan->objective.slo = request->run.slo;
	plan->knob = finds_replicas(request) ? KNOB_REPLICAS : (enum knob_index)request->vary;
	TRY(objective_check(&plan->objective, knobs[plan->knob].is_least, error));
	TRY(check_request(request, error));
	TRY(jobs_check_launch(request->jobs, request->run.trace_path, error));
	TRY(input_spool(request->run.trace_path, error)); /* each run reads it again */
	TRY(replicates_measure(plan, error));
	TRY(open_configurations(plan, error));
	plan->context =
		(struct probe_context){request->maker, plan->configurations, &plan->objective};
	return STATUS_OK;
}

enum status plan_open(struct plan *plan, const struct plan_request *request, struct error *error)
{
	const struct jobs_options options = {
		.workers = request->jobs > 0 ? (uint32_t)request->jobs : jobs_default_workers(),
		.identity = launched_identity(&request->run.config),
		.run = probe_do_job,
		.describe = probe_describe_job,
		.context = &plan->context,
	};

	open_plan(plan, request, error);
	return jobs_open(&plan->jobs, &options, error); /* which carries the error */
}

void plan_close(struct plan *plan)
{
	jobs_close(plan->jobs);
	for (size_t i = 0; i < plan->track_count; i++) {
		search_close(plan->tracks[i]->search);
		for (size_t k = 0; k < plan->tracks[i]->count; k++) {
			free(plan->tracks[i]->probes[k].failure);
		}
		free(plan->tracks[i]->probes);
		free(plan->tracks[i]);
	}
	free((void *)plan->tracks);
	free(plan->places);
	for (uint32_t i = 0; plan->states != NULL && i < plan->configuration_count; i++) {
		cJSON_Delete(plan->states[i].config);
		text_deinit(&plan->states[i].profile_note);
	}
	free(plan->states);
	free(plan->configurations);
	free(plan->gaps);
	grid_close(&plan->grid);
	*plan = (struct plan){0};
}

/* ---- running ---- */

bool track_probe_is_done(const struct track_probe *probe)
{
	return probe->is_taken && probe->failure == NULL;
}

struct probe_job plan_job(
	const struct plan *plan, const struct track *track, const struct search_probe *probe)
{
	const struct track_options *options = &track->options;
	struct probe_job job;

	memset(&job, 0, sizeof(job)); /* padding too: jobs go to workers as bytes */
	job.configuration = options->configuration;
	job.knob = plan->knob;
	job.is_alone = probe->purpose == SEARCH_ALONE;
	job.load = probe->load;
	job.replicate = options->replicate;
	job.is_drawn = options->is_drawn;
	job.window_millionths = options->window_millionths;
	job.draws_arrivals = options->draws_arrivals;
	job.step_time_scale = options->step_time_scale;
	job.lost = plan->request->spare;
	return job;
}

/* Hands the probes that the track may run to the workers. */
static void feed(struct plan *plan, uint32_t number)
{
	struct track *track = plan->tracks[number];
	struct search_probe probe;

	while (search_next(track->search, &probe)) {
		const struct probe_job job = plan_job(plan, track, &probe);
		track->probes = memory_grow(
			track->probes, &track->capacity, track->count + 1, sizeof(*track->probes));
		track->probes[track->count++] = (struct track_probe){.probe = probe};
		uint64_t at = jobs_add(plan->jobs, &job, sizeof(job));
		check(at == plan->place_count);
		plan->places = memory_grow(plan->places, &plan->place_capacity,
			plan->place_count + 1, sizeof(*plan->places));
		plan->places[plan->place_count++] = (struct job_place){number, probe.number};
	}
}

uint32_t plan_add_track(struct plan *plan, const struct track_options *options)
{
	uint32_t number = u32_from(plan->track_count);
	struct track *track = memory_take(1, sizeof(*track));

	track->options = *options;
	track->search = search_open(&options->search);
	plan->tracks = memory_grow(
		(void *)plan->tracks, &plan->track_capacity, number + 1, sizeof(*plan->tracks));
	plan->tracks[plan->track_count++] = track;
	feed(plan, number);
	return number;
}

static void add_main(struct plan *plan, uint32_t configuration)
{
	struct plan_configuration_state *state = &plan->states[configuration];
	const struct track_options options = {
		.configuration = configuration,
		.kind = TRACK_MAIN,
		.search =
			{
				.is_least = knobs[plan->knob].is_least,
				.minimum = state->lowest,
				.maximum = state->highest,
				.first = state->first,
				.precision = plan->request->precision,
				.width = MAIN_WIDTH,
				.starts_alone = true,
				.starts_by_utilisation = true,
				.has_shape = true,
			},
	};

	state->main = plan_add_track(plan, &options);
}

/* How much of what there is a run used. */
static double used_of(const struct plan *plan, const struct probe_figures *figures)
{
	return plan->knob == KNOB_KV_BLOCKS ? figures->kv_peak : figures->demand;
}

/* Where all requests of a run would arrive within a step, those of harder loads do too. A step is
   at least as long as the shortest time between two tokens, or to the first one. */
static void limit_span(struct plan *plan, struct track *track, const struct track_probe *probe)
{
	struct plan_configuration_state *state = &plan->states[track->options.configuration];
	const struct probe_figures *figures = &probe->figures;
	double step_ms = figures->latency_ms[LATENCY_TTFT][STATISTIC_MIN];
	double between_ms = figures->latency_ms[LATENCY_ITL][STATISTIC_MIN];
	bool is_whole = plan->configurations[state->index].run.config.loop == LOOP_OFF;

	if ((plan->knob != KNOB_SPEEDUP && plan->knob != KNOB_RATE) || !is_whole ||
		!figures->has_offered) {
		return;
	}
	if (figures->has_latency[LATENCY_ITL] && between_ms < step_ms) {
		step_ms = between_ms;
	}
	double most = (double)probe->probe.load * figures->arrival_span_ms / step_ms;
	if (step_ms > 0 && most < (double)state->highest) {
		state->highest = u64_max((uint64_t)most, state->first);
		state->limit = LIMIT_SPAN;
		search_limit(track->search, state->highest);
	}
}

/* Whether what fails with one request in the system at a time fails in every fleet. Not where
   prompts share tokens: more replicas have more caches, which may hold what one cannot. */
static bool is_bound_alone(
	const struct plan *plan, const struct track *track, const struct probe_figures *figures)
{
	const struct replay_config *config =
		&plan->configurations[track->options.configuration].run.config;

	return plan->knob != KNOB_REPLICAS || !figures->has_hit_rate ||
	       config->enable_prefix_caching == PREFIX_CACHING_OFF;
}

/* Tells the search what came of a probe that has figures. */
static void tell(struct plan *plan, struct track *track, const struct track_probe *probe)
{
	const struct probe_figures *figures = &probe->figures;
	uint32_t number = probe->probe.number;

	if (probe->probe.purpose == SEARCH_ALONE && !is_bound_alone(plan, track, figures)) {
		search_take_nothing(track->search, number);
		return;
	}
	/* Between the near ends of a replicate's bracket the line is drawn once, by bands.h. */
	if (figures->judged.has_margin && track->options.kind != TRACK_SAMPLING) {
		search_take_margin(track->search, number, figures->passes, used_of(plan, figures),
			figures->judged.margin);
	} else {
		search_take(track->search, number, figures->passes, used_of(plan, figures));
	}
	if (track->options.kind == TRACK_MAIN && probe->probe.purpose == SEARCH_FIRST) {
		limit_span(plan, track, probe);
	}
}

bool plan_mains_have_ended(const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		if (!search_has_ended(plan->tracks[plan->states[i].main]->search)) {
			return false;
		}
	}
	return true;
}

/* failure: of a run that cannot be made. */
static void take(
	struct plan *plan, uint64_t number, const struct text *result, const struct error *failure)
{
	check(number < plan->place_count);
	struct job_place place = plan->places[number];
	struct track *track = plan->tracks[place.track];
	struct track_probe *probe = &track->probes[place.probe];

	probe->is_taken = true;
	probe->status = failure->status;
	plan->done++;
	if (failure->status == STATUS_OK) {
		check(result->byte_count == sizeof(probe->figures));
		memcpy(&probe->figures, result->bytes, sizeof(probe->figures));
		tell(plan, track, probe);
	} else {
		struct text text = {0};
		text_add(&text, failure->text);
		probe->failure = text.bytes;
		search_take_nothing(track->search, place.probe);
	}
	feed(plan, place.track);
	if (track->options.kind == TRACK_MAIN && plan_mains_have_ended(plan)) {
		replicates_add(plan);
	}
}

void plan_progress_line(uint64_t done, uint64_t left, double elapsed_s, char *text)
{
	snprintf(text, PROGRESS_LINE_BYTES, "%llu of about %llu %s, %.0f s left",
		(unsigned long long)done, (unsigned long long)(done + left),
		word_of_count(done + left, "run", "runs"),
		elapsed_s * (double)left / (double)(done > 0 ? done : 1));
}

static void show_progress(struct plan *plan)
{
	char line[PROGRESS_LINE_BYTES];
	uint64_t left = 0;

	if (!progress_is_due(&plan->progress)) {
		return;
	}
	for (size_t i = 0; i < plan->track_count; i++) {
		left += search_expected(plan->tracks[i]->search);
	}
	plan_progress_line(plan->done, left, progress_elapsed_s(&plan->progress), line);
	progress_show_line(&plan->progress, line);
}

void plan_run(struct plan *plan)
{
	struct text result = {0};

	progress_start(&plan->progress, plan->request->run.progress);
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		add_main(plan, i);
	}
	while (jobs_pending(plan->jobs) > 0) {
		uint64_t number;
		struct error failure = {0};
		enum status status = jobs_next(plan->jobs, &number, &result, &failure);
		plan->is_interrupted = number == JOBS_NONE && status == STATUS_VERDICT;
		if (number == JOBS_NONE || is_of_machine(status)) {
			plan->ended = plan->is_interrupted ? (struct error){0} : failure;
			break;
		}
		take(plan, number, &result, &failure);
		show_progress(plan);
	}
	text_deinit(&result);
	progress_end(&plan->progress);
}

enum status plan_refusal(const struct plan *plan, struct error *error)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct track *track = plan->tracks[plan->states[i].main];
		const struct track_probe *first = &track->probes[0];
		bool is_open = plan->ended.status == STATUS_OK && !first->is_taken;
		if (is_open || track_probe_is_done(first)) {
			return STATUS_OK;
		}
	}
	if (plan->ended.status != STATUS_OK) {
		return error_set(error, plan->ended.status, "%s", plan->ended.text);
	}
	const struct track_probe *first = &plan->tracks[plan->states[0].main]->probes[0];
	return error_set(error, first->status, "%s", first->failure);
}
