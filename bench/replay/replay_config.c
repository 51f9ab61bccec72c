#include "bench/replay/replay_config.h"

#include "bench/fleet/outages.h"
#include "bench/replay/drawn_arrivals.h"
#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/policy.h"
#include "engine/shape/weight_shape.h"
#include "workloads/trace/format.h"

#include <string.h>

/* A replica that fails loses one step, and asynchronous scheduling has decided two. At time 0 it
   has decided none. */
static enum status check_failures(const struct replay_config *config, struct error *error)
{
	struct outages outages;
	enum status status =
		outages_parse(&outages, config->outages, (uint32_t)config->replicas, error);

	for (uint32_t i = 0; i < outages.count && status == STATUS_OK; i++) {
		if (outages.list[i].kind == OUTAGE_FAIL && outages.list[i].time_ns > 0) {
			status = error_set(error, STATUS_USAGE,
				"--outages fail: a replica that fails loses one step, and "
				"asynchronous scheduling has decided two: give --async-scheduling "
				"off, or let it fail at 0 s");
		}
	}
	outages_close(&outages);
	return status;
}

static enum status check_fleet(const struct replay_config *config, struct error *error)
{
	if (config->outages != NULL && config->async_scheduling == ASYNC_SCHEDULING_ON) {
		TRY(check_failures(config, error));
	}
	const struct {
		bool is_given;
		const char *name;
	} of_a_fleet[] = {
		{config->given.router, "router"},
		{config->given.router_option, "router-option"},
		{config->given.router_view, "router-view"},
		{config->given.router_queue, "router-queue"},
		{config->given.replica_limit, "replica-limit"},
		{config->given.outages, "outages"},
	};
	for (size_t i = 0; i < sizeof(of_a_fleet) / sizeof(of_a_fleet[0]); i++) {
		if (config->replicas == 1 && of_a_fleet[i].is_given) {
			return error_set(error, STATUS_USAGE, "--%s belongs to --replicas above 1",
				of_a_fleet[i].name);
		}
	}
	return STATUS_OK;
}

const char *replay_config_policy(const struct replay_config *config)
{
	return policy_at(config->policy)->name;
}

void replay_config_take_policy(struct replay_config *config)
{
	const struct policy_defaults *own = &policy_at(config->policy)->defaults;
	const struct replay_given *given = &config->given;

	if (own->block_size == 0) {
		return;
	}
	config->block_size = given->block_size ? config->block_size : own->block_size;
	config->max_num_batched_tokens = given->max_num_batched_tokens
						 ? config->max_num_batched_tokens
						 : own->max_num_batched_tokens;
	/* Seats that no step has tokens for are none, as in vLLM. */
	config->max_num_seqs = given->max_num_seqs
				       ? config->max_num_seqs
				       : u64_min(own->max_num_seqs, config->max_num_batched_tokens);
	config->gpu_memory_utilization = given->gpu_memory_utilization
						 ? config->gpu_memory_utilization
						 : own->gpu_memory_utilization;
	config->async_scheduling = given->async_scheduling ? config->async_scheduling
				   : own->is_async	   ? ASYNC_SCHEDULING_ON
							   : ASYNC_SCHEDULING_OFF;
	config->allocation = given->allocation ? config->allocation : own->allocation;
	config->free_order = given->free_order ? config->free_order : own->free_order;
}

/* Refuses options of policy vllm with another one. */
static enum status check_vllm(const struct replay_config *config, struct error *error)
{
	const struct policy *policy = policy_at(config->policy);
	const struct {
		const char *name;
		bool is_given;
	} own[] = {
		{"async-scheduling", config->given.async_scheduling},
		{"scheduling-policy", config->given.scheduling_policy},
		{"enable-chunked-prefill", config->given.enable_chunked_prefill},
		{"long-prefill-token-threshold", config->given.long_prefill_token_threshold},
		{"watermark", config->given.watermark},
		{"no-scheduler-reserve-full-isl", config->given.no_scheduler_reserve_full_isl},
	};

	for (uint32_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (own[i].is_given && policy != &policy_vllm) {
			return error_set(error, STATUS_USAGE,
				"--%s belongs to --policy vllm, not %s", own[i].name, policy->name);
		}
	}
	if (config->async_scheduling == ASYNC_SCHEDULING_ON && config->clock == REPLAY_CLOCK_WALL) {
		return error_set(error, STATUS_USAGE,
			"--clock wall starts steps at real times, and asynchronous scheduling "
			"decides "
			"them before: give --async-scheduling off or --clock virtual");
	}
	return STATUS_OK;
}

void replay_config_close_loop(struct replay_config *config)
{
	if (config->max_concurrency > 0 && config->arrivals == ARRIVE_AT_ONCE &&
		config->concurrency == 0) {
		config->concurrency = config->max_concurrency;
		config->max_concurrency = 0;
		config->arrivals = ARRIVE_BY_TRACE;
	}
}

void replay_config_hold_back(const struct replay_config *config, struct engine_config *engine)
{
	if (config->max_concurrency > 0) {
		engine->max_num_seqs =
			(uint32_t)u64_min(engine->max_num_seqs, config->max_concurrency);
	}
}

enum status replay_config_check(const struct replay_config *config, struct error *error)
{
	const struct policy *policy = policy_at(config->policy);

	if (config->given.admission && policy != &policy_prefill_first) {
		return error_set(error, STATUS_USAGE,
			"--admission belongs to --policy prefill-first; policy %s admits exactly",
			policy->name);
	}
	TRY(check_vllm(config, error));
	if (config->given.max_requests && config->warmup >= config->max_requests) {
		return error_set(error, STATUS_USAGE,
			"--warmup %llu leaves nothing of --max-requests %llu to measure",
			(unsigned long long)config->warmup,
			(unsigned long long)config->max_requests);
	}
	if (config->max_concurrency > 0 && config->concurrency > 0) {
		return error_set(error, STATUS_USAGE,
			"--max-concurrency holds arrivals back, and --concurrency makes its own: "
			"give one of them");
	}
	if (config->max_concurrency > 0 && policy == &policy_prefill_first) {
		return error_set(error, STATUS_USAGE,
			"--max-concurrency belongs to a policy that computes no prompts ahead, as "
			"mixed; policy %s does",
			policy->name);
	}
	if (config->max_concurrency > 0 && config->replicas > 1) {
		return error_set(error, STATUS_USAGE,
			"--max-concurrency holds back the requests of one replica, found "
			"--replicas %llu",
			(unsigned long long)config->replicas);
	}
	bool is_closed = config->concurrency > 0 || config->sessions == SESSIONS_CLOSED;
	if (config->cooldown > 0 && config->duration_s > 0 && is_closed) {
		return error_set(error, STATUS_USAGE,
			"--cooldown counts from the last request, which --duration of a closed "
			"loop does not tell in advance: give --max-requests instead");
	}
	TRY(replay_config_transport_check(config, config->runner, error));
	return check_fleet(config, error);
}

enum status replay_config_transport_check(
	const struct replay_config *config, const char *runner, struct error *error)
{
	if (config->given.tp_transport && strcmp(runner, "cuda") != 0) {
		return error_set(error, STATUS_USAGE,
			"--tp-transport is how GPUs exchange: it needs --runner cuda, not %.64s",
			runner);
	}
	if (config->given.tp_transport && config->tensor_parallel_size == 1) {
		return error_set(error, STATUS_USAGE,
			"--tp-transport belongs to --tensor-parallel-size above 1");
	}
	return STATUS_OK;
}

enum status replay_config_rank_count_check(uint64_t ranks, struct error *error)
{
	if (ranks == 0 || ranks > TENSOR_PARALLEL_MAX || (ranks & (ranks - 1)) != 0) {
		return error_set(error, STATUS_USAGE,
			"--tensor-parallel-size: found %llu, expected 1, 2, 4 or 8",
			(unsigned long long)ranks);
	}
	return STATUS_OK;
}

enum status replay_config_ranks_check(
	const struct replay_config *config, const struct model_config *model, struct error *error)
{
	const struct weight_shard shard = {.ranks = (uint32_t)config->tensor_parallel_size};

	TRY(replay_config_rank_count_check(shard.ranks, error));
	return weight_shard_check(model, shard, error);
}

/* Repetitions need an end. */
static enum status check_loop(
	const struct replay_config *config, bool has_profile, struct error *error)
{
	if (config->loop == LOOP_OFF) {
		return STATUS_OK;
	}
	if (config->spread_ties) {
		return error_set(error, STATUS_USAGE,
			"--spread-ties spreads the times of one reading, --loop reads the trace "
			"again: give one of them");
	}
	if (config->max_requests > 0) {
		return STATUS_OK;
	}
	if (config->duration_s == 0) {
		return error_set(error, STATUS_USAGE,
			"--loop repeats the trace until --duration or --max-requests: give one");
	}
	if (config->arrivals == ARRIVE_AT_ONCE) {
		return error_set(error, STATUS_USAGE,
			"--loop with --arrivals at-once (--rate inf) never reaches --duration, "
			"since "
			"no time passes: give --max-requests");
	}
	if (has_profile && config->sessions == SESSIONS_CLOSED) {
		return error_set(error, STATUS_USAGE,
			"--loop with --sessions closed and a rate reads ahead without an end: "
			"give --max-requests too");
	}
	return STATUS_OK;
}

static enum status check_resample(const struct replay_config *config, struct error *error)
{
	if (config->resample_seed > 0 && config->loop != LOOP_OFF) {
		return error_set(error, STATUS_USAGE,
			"--resample-seed draws a trace as long as the trace, --loop repeats the "
			"trace: give one of them");
	}
	if (config->resample_seed == 0 && config->given.resample_window_s) {
		return error_set(error, STATUS_USAGE,
			"--resample-window belongs to --resample-seed above 0");
	}
	return STATUS_OK;
}

/* A closed loop or drawn arrivals do not use the trace's times. */
static enum status check_load(
	const struct replay_config *config, bool has_profile, struct error *error)
{
	const char *rate = config->arrivals == ARRIVE_AT_ONCE ? "--arrivals at-once"
			   : config->given.ramp		      ? "--ramp"
							      : "--rate";

	if (config->concurrency > 0 && config->given.speedup) {
		return error_set(error, STATUS_USAGE,
			"--speedup divides the trace's times, which --concurrency does not use: "
			"give one of them");
	}
	if (config->concurrency > 0 && has_profile) {
		return error_set(error, STATUS_USAGE,
			"%s draws arrivals, which --concurrency does not use: give one of them",
			rate);
	}
	if (config->concurrency > 0 && config->sessions == SESSIONS_CLOSED) {
		return error_set(error, STATUS_USAGE,
			"--concurrency brings rows in the order of the file, --sessions closed by "
			"the turns before them: give one of them");
	}
	if (config->spread_ties && (has_profile || config->concurrency > 0)) {
		return error_set(error, STATUS_USAGE,
			"--spread-ties spreads the trace's times, which %s does not use: give one "
			"of them",
			has_profile ? rate : "--concurrency");
	}
	if (has_profile && config->given.speedup) {
		return error_set(error, STATUS_USAGE,
			"--speedup divides the trace's times, which %s replaces: give one of them",
			rate);
	}
	return STATUS_OK;
}

enum status replay_config_workload(const struct replay_config *config,
	struct workload_options *options, struct arrival_profile *profile, struct error *error)
{
	bool has_profile;

	*options = (struct workload_options){
		.trace.format = trace_format_of_word(config->trace_format),
		.trace.trace_block_size = u32_from(config->trace_block_size),
		.trace.sort = config->sort,
		.loop = (enum loop_mode)config->loop,
		.sessions = (enum workload_sessions)config->sessions,
		.spreads_ties = config->spread_ties,
		.speedup_millionths = config->speedup,
		.concurrency = config->concurrency,
		.seed = config->seed,
		.duration_ns = config->duration_s * 1000,
		.max_requests = config->max_requests,
		.resample_seed = config->resample_seed,
		.resample_window_ns = config->resample_window_s * 1000,
	};
	TRY(drawn_arrivals(config, profile, &has_profile, error));
	TRY(check_load(config, has_profile, error));
	TRY(check_loop(config, has_profile, error));
	TRY(check_resample(config, error));
	options->profile = has_profile ? profile : NULL;
	return STATUS_OK;
}

void replay_config_complete(struct replay_config *config, const struct model_config *model)
{
	/* Where prompts are computed whole, the requests that fit otherwise shall fit too. */
	bool is_whole = policy_at(config->policy) == &policy_prefill_first ||
			config->enable_chunked_prefill == CHUNKED_PREFILL_OFF;

	if (config->max_model_len == 0) {
		config->max_model_len = model->max_position_embeddings;
	}
	if (is_whole && !config->given.max_num_batched_tokens) {
		config->max_num_batched_tokens =
			u64_max(config->max_num_batched_tokens, config->max_model_len);
	}
}

void replay_config_engine(const struct replay_config *config, struct engine_config *engine)
{
	*engine = (struct engine_config){
		.policy = policy_at(config->policy),
		.admission = (enum admission)config->admission,
		.prefix_caching = (enum prefix_caching)config->enable_prefix_caching,
		.allocation = (enum allocation)config->allocation,
		.strategies = {.free_order = (enum free_order)config->free_order,
			.eviction = (enum eviction)config->eviction},
		.block_size = u32_from(config->block_size),
		.kv_block_count = u32_from(config->kv_blocks),
		.max_num_seqs = u32_from(config->max_num_seqs),
		.max_num_batched_tokens = u32_from(config->max_num_batched_tokens),
		.max_model_len = u32_from(config->max_model_len),
		.eos_token_id = -1, /* completion lengths are given by the trace */
		.is_async = config->async_scheduling == ASYNC_SCHEDULING_ON,
		.queue_order = (enum queue_order)config->scheduling_policy,
		.has_whole_prompts = config->enable_chunked_prefill == CHUNKED_PREFILL_OFF,
		.has_no_full_gate = config->no_scheduler_reserve_full_isl,
		.long_prefill_threshold = u32_from(config->long_prefill_token_threshold),
		.watermark = (double)config->watermark / 1e6,
	};
	check(engine->policy != NULL);
	engine->strategies.equal_blocks = engine->policy->defaults.equal_blocks;
	engine->strategies.has_null_block = engine->policy->defaults.has_null_block;
}
