#include "bench/replay/fleet.h"

#include "bench/replay/loop.h"
#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

void fleet_init(struct fleet *fleet, uint32_t count)
{
	memset(fleet, 0, sizeof(*fleet));
	fleet->count = count;
	fleet->runners = memory_take(count, sizeof(*fleet->runners));
	fleet->replays = memory_take(count, sizeof(*fleet->replays));
	fleet->configs = memory_take(count, sizeof(*fleet->configs));
	fleet->groups = memory_take(count, sizeof(*fleet->groups));
	fleet->in_order = memory_take(count, sizeof(*fleet->in_order));
	fleet->figures = memory_take(count, sizeof(*fleet->figures));
	for (uint32_t i = 0; i < count; i++) {
		fleet->in_order[i] = &fleet->replays[i];
	}
}

void fleet_close(struct fleet *fleet)
{
	/* The others add to what replica 0 owns. */
	for (uint32_t i = fleet->count; i > 0; i--) {
		replay_close(&fleet->replays[i - 1]);
	}
	for (uint32_t i = 0; i < fleet->count; i++) {
		struct runner *runner = &fleet->runners[i];
		if (runner->close != NULL) {
			runner->close(runner->state);
		}
	}
	if (fleet->has_desk) {
		desk_close(&fleet->desk);
	}
	free(fleet->runners);
	free(fleet->configs);
	free(fleet->groups);
	free(fleet->replays);
	free(fleet->in_order);
	free(fleet->figures);
	memset(fleet, 0, sizeof(*fleet));
}

static enum status open_desk(
	struct fleet *fleet, const struct replay_options *options, struct error *error)
{
	const struct replay_config *config = options->config;
	const struct desk_options desk_options = {
		.trace_path = options->trace_path,
		.workload = options->workload,
		.router = router_at(config->router),
		.router_options = config->router_option,
		.view = config->router_view,
		.outages = config->outages,
		.replica_limit = (uint32_t)config->replica_limit,
		.has_queue_limit = config->router_queue != NO_ROUTER_QUEUE_LIMIT,
		.queue_limit = config->router_queue,
		.replica_count = fleet->count,
		.block_size = fleet->configs[0].block_size,
		.seed = config->seed,
		.vocab_size = options->vocab_size,
		.needs_tokens = fleet->runners[0].is_computing,
	};

	fleet->has_desk = true;
	return desk_open(&fleet->desk, &desk_options, error);
}

enum status fleet_open(
	struct fleet *fleet, const struct replay_options *options, struct error *error)
{
	struct replay_options own = *options;

	if (fleet->count > 1) {
		TRY(open_desk(fleet, options, error));
		own.desk = &fleet->desk;
	}
	for (uint32_t i = 0; i < fleet->count; i++) {
		own.replica = i;
		own.first = i == 0 ? NULL : &fleet->replays[0];
		TRY(replay_open(
			&fleet->replays[i], &own, &fleet->configs[i], &fleet->runners[i], error));
		if (own.desk != NULL) {
			desk_set_engine(own.desk, i, fleet->replays[i].engine);
		}
	}
	fleet->desk.warmup = fleet->replays[0].metrics.options.warmup;
	fleet->desk.measured_end = fleet->replays[0].metrics.options.measured_end;
	return STATUS_OK;
}

struct engine_config fleet_mean_limits(const struct fleet *fleet)
{
	struct engine_config mean = fleet->configs[0];
	uint64_t blocks = 0, seats = 0, tokens = 0;

	for (uint32_t i = 0; i < fleet->count; i++) {
		blocks += fleet->configs[i].kv_block_count;
		seats += fleet->configs[i].max_num_seqs;
		tokens += fleet->configs[i].max_num_batched_tokens;
	}
	mean.kv_block_count = (uint32_t)(blocks / fleet->count);
	mean.max_num_seqs = (uint32_t)(seats / fleet->count);
	mean.max_num_batched_tokens = (uint32_t)(tokens / fleet->count);
	return mean;
}

void fleet_set_sinks(struct fleet *fleet, const struct replay_sinks *sinks)
{
	for (uint32_t i = 0; i < fleet->count; i++) {
		replay_set_sinks(&fleet->replays[i], sinks);
	}
}

/* A run that fails on one replica has failed on all: their steps are not carried out. */
static void share_end(struct fleet *fleet)
{
	const struct replay *failed = NULL;

	for (uint32_t i = 0; i < fleet->count && failed == NULL; i++) {
		failed = fleet->replays[i].has_failed ? &fleet->replays[i] : NULL;
	}
	for (uint32_t i = 0; failed != NULL && i < fleet->count; i++) {
		fleet->replays[i].has_failed = true;
		fleet->replays[i].failure = failed->failure;
	}
}

enum status fleet_run(struct fleet *fleet, struct error *error)
{
	struct desk *desk = fleet->has_desk ? &fleet->desk : NULL;

	TRY(loop_run(
		fleet->in_order, fleet->count, desk, fleet->replays[0].options.progress, error));
	share_end(fleet);
	for (uint32_t i = 0; i < fleet->count; i++) {
		TRY(replay_finish(&fleet->replays[i], error));
	}
	return STATUS_OK;
}

uint64_t fleet_now_ns(const struct fleet *fleet)
{
	uint64_t now_ns = 0;

	for (uint32_t i = 0; i < fleet->count; i++) {
		now_ns = u64_max(now_ns, fleet->replays[i].now_ns);
	}
	return now_ns;
}

/* The router's decisions, then the decisions of each replica. */
static uint64_t hash_of(const struct fleet *fleet)
{
	XXH64_state_t *hash = memory_take_hash();
	uint64_t word = desk_decisions_hash(&fleet->desk);

	XXH64_update(hash, &word, sizeof(word));
	for (uint32_t i = 0; i < fleet->count; i++) {
		word = metrics_result_hash(&fleet->replays[i].metrics);
		XXH64_update(hash, &word, sizeof(word));
	}
	word = XXH64_digest(hash);
	XXH64_freeState(hash);
	return word;
}

static struct replica_figures figures_of(const struct metrics *metrics)
{
	struct run_sums work = metrics->work;

	run_sums_settle(&work);
	return (struct replica_figures){
		.submitted = metrics->submitted - metrics->nowhere,
		.finished = metrics->finished,
		.preemptions = work.preemptions,
		.steps = work.steps,
		.busy_ns = work.busy_ns,
		.prompt_tokens = work.prompt_tokens,
		.output_tokens = work.output_tokens,
		.lost_tokens = work.lost_output_tokens,
		.query_tokens = work.prompt_tokens,
		.hit_tokens = work.hit_tokens,
	};
}

/* Times that replicas keep each for themselves. */
static void sum_times(const struct fleet *fleet, struct run_outcome *outcome)
{
	struct histogram late, gpu_idle;

	histogram_init(&late);
	histogram_init(&gpu_idle);
	for (uint32_t i = 0; i < fleet->count; i++) {
		histogram_add_all(&late, &fleet->replays[i].late);
		histogram_add_all(&gpu_idle, &fleet->replays[i].gpu_idle);
	}
	outcome->dispatch_late = latency_figures_of(&late);
	outcome->gpu_idle = latency_figures_of(&gpu_idle);
	histogram_deinit(&late);
	histogram_deinit(&gpu_idle);
}

void fleet_outcome(struct fleet *fleet, struct run_outcome *outcome)
{
	const struct metrics **parts;
	struct metrics sum;

	replay_outcome(&fleet->replays[0], outcome);
	if (fleet->count == 1) {
		return;
	}
	parts = memory_take(fleet->count, sizeof(const struct metrics *));
	outcome->backlog_at_last_arrival = 0;
	for (uint32_t i = 0; i < fleet->count; i++) {
		const struct replay *replay = &fleet->replays[i];
		parts[i] = &replay->metrics;
		outcome->backlog_at_last_arrival += replay->backlog_at_last_arrival;
		fleet->figures[i] = figures_of(&replay->metrics);
		fleet->figures[i].group = fleet->groups[i];
		fleet->figures[i].kv_blocks = fleet->configs[i].kv_block_count;
	}
	metrics_sum(&sum, parts, fleet->count);
	free(parts);
	for (uint32_t i = 0; i < fleet->count; i++) {
		fleet->figures[i].up_ns = presence_of(&fleet->desk.presence, i,
			u64_min(sum.first_arrival_ns, fleet_now_ns(fleet)), fleet_now_ns(fleet));
	}
	run_outcome_of_metrics(outcome, &sum, fleet_now_ns(fleet),
		fleet->replays[0].options.config->concurrency > 0);
	sum_times(fleet, outcome);
	outcome->result_hash = hash_of(fleet);
	outcome->has_prompt_ids = fleet->desk.has_prompt_ids;
	outcome->fleet = (struct fleet_figures){
		.count = fleet->count,
		.each = fleet->figures,
		.presence = &fleet->desk.presence,
		.router = fleet->desk.router.kind->name,
		.has_prompt_ids = fleet->desk.has_prompt_ids,
		.is_router_blind = fleet->desk.router.kind->wants_blocks &&
				   !fleet->desk.has_prompt_ids && outcome->submitted > 0,
		.knows_regret = fleet->desk.finds_cached,
		.regret_blocks = fleet->desk.regret_blocks,
		.retries = fleet->desk.retries,
		.refused = sum.rejected_queue_full,
		.whole_hit_tokens = fleet->desk.whole_hit_tokens,
		.whole_query_tokens = fleet->desk.whole_query_tokens,
	};
}
