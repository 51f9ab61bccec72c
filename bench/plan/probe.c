#include "bench/plan/probe.h"

#include "engine/policy.h"
#include "engine/base/check.h"

#include <stdio.h>
#include <string.h>

/* ---- the request ---- */

/* One request at a time, in the order of the trace; nothing else brings or holds back requests. */
static void set_alone(struct replay_config *config)
{
	config->concurrency = 1;
	config->given.concurrency = true;
	config->arrivals = ARRIVE_BY_TRACE;
	config->rate = config->burstiness = 0;
	config->given.arrivals = config->given.rate = config->given.burstiness = false;
	config->ramp = NULL;
	config->given.ramp = false;
	config->speedup = 1000000;
	config->spread_ties = false;
	config->sessions = SESSIONS_OPEN;
	config->max_concurrency = config->cooldown = 0;
	config->given.speedup = config->given.spread_ties = config->given.sessions = false;
	config->given.max_concurrency = config->given.cooldown = false;
	if (config->loop == LOOP_OFF) {
		config->duration_s = 0;
		config->given.duration_s = false;
	}
	config->router_queue = NO_ROUTER_QUEUE_LIMIT;
	config->replica_limit = 0;
	if (config->fleet == NULL) {
		config->replicas = 1;
		config->given.replicas = false;
	}
}

/* What belongs to several replicas, of a run that has one because the plan says so. */
static void drop_router(struct replay_config *config)
{
	struct replay_given *given = &config->given;

	if (config->fleet == NULL) { /* whose groups are replicas, too */
		replay_config_drop_router(config);
	}
	given->router_queue = given->replica_limit = given->outages = false;
	config->outages = NULL;
	config->router_queue = NO_ROUTER_QUEUE_LIMIT;
	config->replica_limit = 0;
}

/* "fail:N@0,..." for the last `lost` of the replicas. */
static void lose_replicas(struct replay_config *config, uint64_t lost, char *outages)
{
	size_t used = 0;

	check(lost <= PROBE_LOST_MAX && lost < config->replicas);
	for (uint64_t i = 0; i < lost; i++) {
		used += (size_t)snprintf(outages + used, PROBE_OUTAGES_BYTES - used,
			"%sfail:%llu@0", i == 0 ? "" : ",",
			(unsigned long long)(config->replicas - lost + i));
	}
	check(used < PROBE_OUTAGES_BYTES);
	config->outages = outages;
	config->given.outages = true;
}

struct run_request probe_request(
	const struct probe_context *context, const struct probe_job *job, char *outages)
{
	struct run_request request = context->configurations[job->configuration].run;
	struct replay_config *config = &request.config;

	if (job->is_alone) {
		set_alone(config);
	} else {
		knob_set(job->knob, config, job->load);
	}
	if (config->replicas == 1 && (job->is_alone || job->knob == KNOB_REPLICAS)) {
		drop_router(config);
	}
	if (job->is_drawn) {
		config->resample_seed += job->replicate;
		config->given.resample_seed = true;
		config->resample_window_s = job->window_millionths;
		config->given.resample_window_s = job->window_millionths > 0;
	}
	if (job->draws_arrivals) {
		config->seed += job->replicate;
		config->given.seed = true;
	}
	if (job->step_time_scale != 0 && job->step_time_scale != config->step_time_scale) {
		config->step_time_scale = job->step_time_scale;
		config->given.step_time_scale = true;
	}
	if (job->lost > 0 && !job->is_alone) {
		lose_replicas(config, job->lost, outages);
	}
	request.slo = context->objective->slo;
	request.progress = PROGRESS_NONE;
	return request;
}

/* ---- the figures ---- */

static double per_second(uint64_t count, uint64_t ns)
{
	return ns == 0 ? 0 : (double)count * 1e9 / (double)ns;
}

static void set_latencies(struct probe_figures *figures, const struct run_outcome *outcome)
{
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		figures->has_latency[i] = outcome->latency[i].count > 0;
		for (uint32_t k = 0; k < STATISTIC_COUNT && figures->has_latency[i]; k++) {
			figures->latency_ms[i][k] = (double)outcome->latency[i].ns[k] / 1e6;
		}
	}
}

static void set_load(struct probe_figures *figures, const struct run_outcome *outcome)
{
	const struct run_sums *work = &outcome->work;
	uint64_t gaps = outcome->measured_submitted - (outcome->measured_submitted > 0);

	figures->has_offered = outcome->arrival_span_ns > 0;
	figures->arrival_span_ms = (double)outcome->arrival_span_ns / 1e6;
	figures->offered_per_s = per_second(gaps, outcome->arrival_span_ns);
	figures->finished_per_s = per_second(work->finished, outcome->window_ns);
	figures->goodput_per_s = per_second(work->attained, outcome->window_ns);
	figures->output_tokens_per_s = per_second(work->output_tokens, outcome->window_ns);
	figures->offered_goodput_per_s = figures->goodput_per_s;
	figures->offered_tokens_per_s = figures->output_tokens_per_s;
	if (figures->has_offered && work->finished > 0) {
		double all = (double)outcome->measured_submitted;
		double tokens = (double)work->output_tokens / (double)work->finished;
		double served = (double)outcome->measured_finished / all;
		figures->offered_goodput_per_s =
			figures->offered_per_s * ((double)outcome->slo_attained / all);
		figures->offered_tokens_per_s = figures->offered_per_s * served * tokens;
	}
	figures->has_hit_rate = outcome->has_prompt_ids && work->prompt_tokens > 0;
	if (figures->has_hit_rate) {
		figures->hit_rate = (double)work->hit_tokens / (double)work->prompt_tokens;
	}
	figures->has_utilisation = outcome->has_utilisation;
	figures->utilisation = outcome->has_utilisation ? outcome->utilisation : 0;
	if (outcome->has_utilisation) {
		figures->demand =
			outcome->offered_demand > 0 ? outcome->offered_demand : outcome->demand;
	}
	for (uint32_t i = 0; i < WAIT_CAUSE_COUNT; i++) {
		figures->wait_s[i] = (double)work->waits.ns[i] / 1e9;
	}
	figures->preemptions = work->preemptions;
}

static struct probe_figures figures_of(
	const struct run_outcome *outcome, const struct replay_config *config)
{
	struct probe_figures figures = {
		.verdict = outcome->verdict,
		.submitted = outcome->measured_submitted,
		.attained = outcome->slo_attained,
		.rejected = outcome->rejected,
		.failed = outcome->failed,
		.unfinished = outcome->unfinished,
		.missed_ttft = outcome->slo_missed_ttft,
		.missed_tpot = outcome->slo_missed_tpot,
		.missed_e2e = outcome->slo_missed_e2e,
		.longest_missed = outcome->longest_missed,
		.too_long = outcome->rejected_too_long,
		.never_fit = outcome->rejected_never_fits,
		.needed_model_len = outcome->longest_too_long,
		.needed_kv_blocks = outcome->rejected_never_fits == 0
					    ? 0
					    : policy_blocks_of(outcome->longest_never_fitting,
						      outcome->block_size),
		.is_router_blind = outcome->fleet.is_router_blind,
		.has_groups = config->fleet != NULL,
		.interval = outcome->slo_interval,
		.vain_causes = outcome->vain_causes,
		.spent_causes = outcome->spent_causes,
		.has_given_blocks = outcome->has_given_blocks,
		.is_held_back = outcome->is_held_back,
		.has_least_seats = config->max_num_seqs == 1,
		.has_least_budget = config->max_num_batched_tokens == 1,
		.kv_peak = outcome->kv_peak,
		.seats_peak = outcome->seats_peak,
		.budget_peak = outcome->budget_peak,
		.replicas = config->replicas,
		.kv_blocks = outcome->kv_blocks,
		.trace_xxh64 = outcome->trace_xxh64,
		.trace_requests = outcome->submitted,
		.result_hash = outcome->result_hash,
		.has_outside = outcome->has_outside,
		.outside_share = outcome->has_outside ? outcome->outside_share : 0,
	};

	set_latencies(&figures, outcome);
	set_load(&figures, outcome);
	return figures;
}

/* A plan of KV blocks goes up to what the memory has room for; there that decides. */
static void set_all_blocks(struct probe_figures *figures, const struct run_outcome *outcome,
	const struct replay_config *config)
{
	uint32_t bit = UINT32_C(1) << WAIT_BLOCKS;

	if (outcome->found_kv_blocks > 0 && outcome->kv_blocks >= outcome->found_kv_blocks) {
		figures->has_given_blocks = false;
		figures->spent_causes &= ~bit;
		figures->spent_causes |= replay_option_is_full("gpu-memory-utilization",
						 config->gpu_memory_utilization)
						 ? bit
						 : 0;
	}
}

/* Runs the request, of a replicate of a load that is described on a trace of its own. */
static enum status run(const struct probe_context *context, const struct probe_job *job,
	struct run_request *request, struct run_outcome *outcome, struct error *error)
{
	const struct trace_maker *maker = context->maker;

	if (maker == NULL || job->replicate == 0) {
		return run_replay(request, outcome, error);
	}
	enum status status = maker->open(maker->context, request->config.seed, error);
	if (status == STATUS_OK) {
		request->trace_path = maker->path(maker->context);
		status = run_replay(request, outcome, error);
	}
	maker->close(maker->context);
	return status;
}

enum status probe_run(const struct probe_context *context, const struct probe_job *job,
	struct probe_figures *figures, struct error *error)
{
	char outages[PROBE_OUTAGES_BYTES];
	struct run_request request = probe_request(context, job, outages);
	struct run_outcome outcome;

	TRY(run(context, job, &request, &outcome, error));
	if (outcome.measured_submitted == 0) {
		return error_set(error, STATUS_INPUT,
			"%s: no request is measured, so there is nothing to plan for",
			outcome.trace_name);
	}
	struct probe_figures found = figures_of(&outcome, &request.config);
	if (job->knob == KNOB_KV_BLOCKS) {
		set_all_blocks(&found, &outcome, &request.config);
	}
	TRY(objective_judge(context->objective, &outcome, job->is_alone, &found.judged, error));
	found.passes = found.judged.miss == MISS_NOTHING;
	*figures = found;
	return STATUS_OK;
}

static struct probe_job job_of(const struct text *bytes)
{
	struct probe_job job;

	check(bytes->byte_count == sizeof(job));
	memcpy(&job, bytes->bytes, sizeof(job));
	return job;
}

enum status probe_do_job(
	void *context, const struct text *job, struct text *result, struct error *error)
{
	const struct probe_context *probes = context;
	const struct probe_job own = job_of(job);
	struct probe_figures figures;

	TRY(probe_run(probes, &own, &figures, error));
	text_add_bytes(result, (const char *)&figures, sizeof(figures));
	return STATUS_OK;
}

void probe_describe_job(void *context, const struct text *job, struct text *text)
{
	const struct probe_job own = job_of(job);
	char outages[PROBE_OUTAGES_BYTES];
	const struct run_request request = probe_request(context, &own, outages);

	text_add(text, "the run with");
	replay_config_words(&request.config, text);
}
