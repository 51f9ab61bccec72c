#include "tests/models/simulation.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/engine_internal.h"
#include "engine/policy.h"
#include "tests/models/kv_oracle.h"
#include "tests/harness/require.h"

enum { TOKENS_MAX = 64, REQUESTS_MAX = 40 };

/* ---- drawing ---- */

/* Any policy may choose any of them. */
static void draw_strategies(struct prop *prop, struct engine_config *config)
{
	config->allocation = prop_chance(prop, 1, 4) ? ALLOCATION_CHUNK : ALLOCATION_PROMPT;
	config->strategies = (struct block_strategies){
		.free_order = prop_chance(prop, 1, 4) ? FREE_UNHASHED_FIRST : FREE_BACK,
		.equal_blocks = prop_chance(prop, 1, 4) ? EQUAL_OLDEST : EQUAL_NEWEST,
		.eviction = prop_chance(prop, 1, 4) ? (enum eviction)prop_range(prop, 1, 2)
						    : EVICTION_LRU,
		.has_null_block = prop_chance(prop, 1, 4),
	};
	config->kv_block_count += config->strategies.has_null_block;
	prop_log(prop, "blocks: allocation %d, free order %d, equal %d, eviction %d, null %d",
		(int)config->allocation, (int)config->strategies.free_order,
		(int)config->strategies.equal_blocks, (int)config->strategies.eviction,
		(int)config->strategies.has_null_block);
}

struct engine_config simulation_draw_config(struct prop *prop)
{
	static const uint32_t block_sizes[] = {4, 1, 2, 3, 5, 7, 16};
	struct engine_config config = {
		.policy = prop_chance(prop, 1, 2) ? &policy_prefill_first : &policy_mixed,
		.admission = prop_chance(prop, 1, 3) ? ADMISSION_SEED : ADMISSION_EXACT,
		.block_size = block_sizes[prop_below(prop, 7)],
		.max_num_seqs = prop_range(prop, 1, 8),
		.max_model_len = prop_range(prop, 2, TOKENS_MAX),
		.eos_token_id = prop_chance(prop, 1, 4) ? -1 : 0,
	};
	/* About as many blocks as one to four of the longest sequences need. */
	uint32_t longest = (config.max_model_len + config.block_size - 1) / config.block_size;
	config.kv_block_count = prop_range(prop, 1, 4 * longest);
	uint32_t least =
		config.policy == &policy_mixed ? config.max_num_seqs : config.max_model_len;
	config.max_num_batched_tokens = least + prop_range(prop, 0, 32);
	draw_strategies(prop, &config);
	config.prefix_caching = prop_chance(prop, 1, 6) ? PREFIX_CACHING_OFF : PREFIX_CACHING_ON;
	struct error error = {0};
	require(engine_config_validate(&config, &error) == STATUS_OK, "%s", error.text);
	prop_log(prop,
		"%s, admission %s, %u blocks of %u, %u sequences, %u tokens a step, model length "
		"%u, end %d",
		config.policy->name, config.admission == ADMISSION_SEED ? "seed" : "exact",
		config.kv_block_count, config.block_size, config.max_num_seqs,
		config.max_num_batched_tokens, config.max_model_len, config.eos_token_id);
	return config;
}

static void draw_request(struct prop *prop, struct drawn_requests *drawn, uint32_t limit)
{
	uint32_t index = drawn->request_count++;
	struct simulation_request *own = &drawn->requests[index];
	uint32_t shared = 0;
	uint32_t from = index;
	own->prompt_count = prop_range(prop, 1, limit);
	own->max_tokens = prop_range(prop, 1, limit);
	own->ignore_eos = prop_chance(prop, 1, 3);
	own->is_forced = prop_chance(prop, 1, 3);
	own->temperature = (float)prop_below(prop, 3);
	own->arrival_ns = index == 0 ? 0 : drawn->requests[index - 1].arrival_ns;
	own->arrival_ns += prop_chance(prop, 1, 3) ? prop_below(prop, 20000) : 0;
	uint32_t capacity = own->prompt_count + own->max_tokens;
	own->tokens = calloc(capacity, sizeof(int32_t));
	require(own->tokens != NULL, "out of memory");
	if (index > 0 && prop_chance(prop, 2, 3)) {
		from = (uint32_t)prop_below(prop, index);
		const struct simulation_request *older = &drawn->requests[from];
		shared = prop_range(prop, 0, older->prompt_count + older->max_tokens);
		shared = shared < own->prompt_count ? shared : own->prompt_count;
		memcpy(own->tokens, older->tokens, shared * sizeof(int32_t));
	}
	for (uint32_t i = shared; i < capacity; i++) {
		own->tokens[i] = (int32_t)prop_below(prop, drawn->vocabulary);
	}
	prop_log(prop, "request %u at %lu ns: %u tokens (%u of request %u), %u at most%s%s", index,
		(unsigned long)own->arrival_ns, own->prompt_count, shared, from, own->max_tokens,
		own->is_forced ? ", forced" : "", own->ignore_eos ? ", ignoring the end" : "");
}

void requests_draw(
	struct prop *prop, struct drawn_requests *drawn, const struct engine_config *config)
{
	uint32_t limit = TOKENS_MAX / 2 - 1;
	memset(drawn, 0, sizeof(*drawn));
	if (config != NULL && config->max_model_len < limit) {
		limit = config->max_model_len;
	}
	/* Half of the workloads fit as a rule, so that the pool and not rejection decides. */
	limit = prop_chance(prop, 1, 2) ? (limit + 1) / 2 : prop_range(prop, 1, limit);
	drawn->seed = prop_below(prop, 1000);
	drawn->vocabulary = prop_chance(prop, 1, 2) ? 1000 : prop_range(prop, 1, 4);
	drawn->requests = calloc(REQUESTS_MAX, sizeof(*drawn->requests));
	require(drawn->requests != NULL, "out of memory");
	uint32_t count = prop_range(prop, 0, REQUESTS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		draw_request(prop, drawn, limit);
	}
}

void requests_deinit(struct drawn_requests *drawn)
{
	for (uint32_t i = 0; i < drawn->request_count; i++) {
		free(drawn->requests[i].tokens);
	}
	free(drawn->requests);
}

void requests_force(struct drawn_requests *forced, const struct drawn_requests *drawn,
	const struct simulated_run *run)
{
	*forced = *drawn;
	forced->requests = calloc(REQUESTS_MAX, sizeof(*forced->requests));
	require(forced->requests != NULL, "out of memory");
	for (uint32_t i = 0; i < drawn->request_count; i++) {
		struct simulation_request *own = &forced->requests[i];
		*own = drawn->requests[i];
		uint32_t capacity = own->prompt_count + own->max_tokens;
		own->tokens = calloc(capacity, sizeof(int32_t));
		require(own->tokens != NULL, "out of memory");
		own->is_forced = true;
		memcpy(own->tokens, drawn->requests[i].tokens, own->prompt_count * sizeof(int32_t));
		if (run->outcomes[i].token_count > 0) {
			memcpy(own->tokens + own->prompt_count, run->outcomes[i].tokens,
				run->outcomes[i].token_count * sizeof(int32_t));
		}
	}
}

/* ---- running ---- */

enum life { LIFE_AWAY, LIFE_WAITING, LIFE_RUNNING, LIFE_FINISHED, LIFE_REJECTED };

/* What the events say of a request. */
struct biography {
	enum life life;
	uint32_t blocks;     /* in its table */
	uint64_t computed;   /* by chunks, since its admission */
	uint64_t tokens;     /* in the sequence at its admission */
	uint64_t chunk_step; /* + 1 */
	uint32_t preemptions;
	uint64_t first_scheduled_ns;
	bool was_admitted;
};

struct simulation {
	const struct drawn_requests *drawn;
	struct engine_config config;
	struct engine *engine;
	struct runner runner;
	struct kv_oracle oracle;
	struct biography *biographies; /* (request_count) */
	struct simulated_run *run;
	XXH64_state_t *hash;
	uint32_t next; /* request to arrive */
	uint32_t finished, rejected, rejected_told;
	uint64_t now_ns;
	uint64_t step_limit;
	uint64_t preemption_step; /* + 1 */
};

static struct request as_request(const struct drawn_requests *drawn, uint32_t index)
{
	const struct simulation_request *own = &drawn->requests[index];
	return (struct request){
		.id = index,
		.prompt = own->tokens,
		.prompt_count = own->prompt_count,
		.forced = own->is_forced ? own->tokens + own->prompt_count : NULL,
		.max_tokens = own->max_tokens,
		.temperature = own->temperature,
		.ignore_eos = own->ignore_eos,
	};
}

static enum fit expected_fit(const struct engine_config *config, const struct request *request)
{
	uint64_t tokens = (uint64_t)request->prompt_count + request->max_tokens;
	if (tokens > config->max_model_len) {
		return FIT_TOO_LONG;
	}
	uint64_t usable = config->kv_block_count - config->strategies.has_null_block;

	return tokens - 1 > usable * config->block_size ? FIT_NEVER : FIT_OK;
}

static void arrive(struct simulation *simulation)
{
	const struct drawn_requests *drawn = simulation->drawn;
	while (simulation->next < drawn->request_count &&
		drawn->requests[simulation->next].arrival_ns <= simulation->now_ns &&
		engine_has_room(simulation->engine)) {
		uint32_t index = simulation->next++;
		struct request request = as_request(drawn, index);
		enum fit fit = engine_add(simulation->engine, &request, NULL);
		require_equal(fit, expected_fit(&simulation->config, &request));
		simulation->run->outcomes[index].fit = fit;
		simulation->rejected += fit != FIT_OK;
		simulation->biographies[index].life = fit == FIT_OK ? LIFE_WAITING : LIFE_AWAY;
		if (fit == FIT_OK && simulation->runner.is_computing) {
			kv_oracle_add(&simulation->oracle, &request);
		}
	}
}

static void on_reject(struct simulation *simulation, const struct event *event)
{
	struct biography *own = &simulation->biographies[event->request];
	const struct simulation_request *request = &simulation->drawn->requests[event->request];
	require_equal(own->life, LIFE_AWAY);
	require_equal(event->a, simulation->run->outcomes[event->request].fit);
	require_equal(event->b, request->prompt_count + request->max_tokens);
	require(event->a != FIT_OK && event->sequence == NULL, "a rejection without a reason");
	own->life = LIFE_REJECTED;
	simulation->rejected_told++;
}

static void on_admit(struct simulation *simulation, const struct event *event, uint64_t step)
{
	struct biography *own = &simulation->biographies[event->request];
	require_equal(own->life, LIFE_WAITING);
	require(event->a < event->b, "%lu of %lu tokens are cached", (unsigned long)event->a,
		(unsigned long)event->b);
	require_equal(event->a % simulation->config.block_size, 0);
	require(simulation->preemption_step != step + 1, "admitted in a step that preempted");
	own->life = LIFE_RUNNING;
	own->computed = event->a;
	own->tokens = event->b;
	own->blocks = 0;
	if (!own->was_admitted) {
		own->was_admitted = true;
		own->first_scheduled_ns = simulation->now_ns;
		require(simulation->drawn->requests[event->request].arrival_ns <=
				simulation->now_ns,
			"a request is scheduled before it arrives");
		require_equal(event->b, simulation->drawn->requests[event->request].prompt_count);
	}
	simulation->run->cached_tokens += event->a;
}

static void on_preempt(struct simulation *simulation, const struct event *event, uint64_t step)
{
	struct biography *own = &simulation->biographies[event->request];
	require_equal(own->life, LIFE_RUNNING);
	require_equal(event->b, own->blocks);
	require(own->chunk_step != step + 1, "preempted in the step that placed it");
	simulation->preemption_step = step + 1;
	own->life = LIFE_WAITING;
	own->preemptions++;
	simulation->run->preemptions++;
}

static void on_chunk(struct simulation *simulation, const struct event *event, uint64_t step)
{
	struct biography *own = &simulation->biographies[event->request];
	require_equal(own->life, LIFE_RUNNING);
	require_equal(event->a, own->computed);
	require(event->b >= 1 && event->a + event->b <= own->tokens, "a chunk beyond the prompt");
	own->computed += event->b;
	own->chunk_step = step + 1;
}

static void on_finish(struct simulation *simulation, const struct event *event)
{
	struct biography *own = &simulation->biographies[event->request];
	const struct simulation_request *request = &simulation->drawn->requests[event->request];
	require_equal(own->life, LIFE_RUNNING);
	require_equal(own->computed, own->tokens);
	require_equal(event->b, own->blocks);
	require(event->a >= 1 && event->a <= request->max_tokens, "an answer too long");
	own->life = LIFE_FINISHED;
	simulation->finished++;
}

static void on_event(struct simulation *simulation, const struct event *event, uint64_t step)
{
	const uint64_t record[] = {step, event->kind, event->request, event->a, event->b};
	struct biography *own = &simulation->biographies[event->request];
	require(XXH64_update(simulation->hash, record, sizeof(record)) == XXH_OK, "no hash");
	require(event->request < simulation->next, "an event of a request that is not there");
	switch ((enum event_kind)event->kind) {
	case EVENT_REJECT:
		on_reject(simulation, event);
		break;
	case EVENT_ADMIT:
		on_admit(simulation, event, step);
		break;
	case EVENT_BLOCK_GIVEN:
		require_equal(own->life, LIFE_RUNNING);
		require_equal(event->a, own->blocks);
		require(event->b < simulation->config.kv_block_count, "no such block");
		own->blocks++;
		break;
	case EVENT_CHUNK:
		on_chunk(simulation, event, step);
		break;
	case EVENT_PREEMPT:
		on_preempt(simulation, event, step);
		break;
	case EVENT_STALL:
	case EVENT_DROP:
		require_equal(own->life, LIFE_RUNNING);
		break;
	case EVENT_FINISH:
		on_finish(simulation, event);
		break;
	}
}

/* First come, first served: those running, then those waiting, are in order of arrival. */
static void require_order(const struct scheduler *scheduler)
{
	uint64_t before = 0;
	const struct sequence *heads[] = {scheduler->running.head, scheduler->waiting.head};
	for (uint32_t i = 0; i < 2; i++) {
		for (const struct sequence *s = heads[i]; s != NULL; s = s->next) {
			require(s->request + 1 > before, "request %lu overtook another",
				(unsigned long)s->request);
			before = s->request + 1;
		}
	}
}

static void require_limits(const struct simulation *simulation, const struct batch *batch)
{
	const struct engine_config *config = &simulation->config;
	const struct step_counts *counts = &batch->counts;
	const struct scheduler *scheduler = &simulation->engine->scheduler;
	bool is_mixed = config->policy == &policy_mixed;
	require(counts->decode_rows + counts->prefill_rows > 0, "a step without a row");
	require(counts->decode_rows <= config->max_num_seqs, "too many decode rows");
	require(counts->prefill_rows <= config->max_num_seqs, "too many prefill rows");
	require(counts->prefill_tokens + (is_mixed ? counts->decode_rows : 0) <=
			config->max_num_batched_tokens,
		"too many tokens");
	require(!is_mixed || counts->running <= config->max_num_seqs, "too many are running");
	require_equal(counts->used_blocks + counts->free_blocks + config->strategies.has_null_block,
		config->kv_block_count);
	require(counts->cached_free_blocks <= counts->free_blocks, "more cached than free");
	if (scheduler->is_computing && (is_mixed || counts->decode_rows > 0)) {
		require(batch->request[0] == scheduler->running.head->request,
			"the oldest sequence makes no progress");
	}
}

/* mixed leaves no sequence waiting that could be placed. */
static void require_work_conserved(struct simulation *simulation, const struct batch *batch)
{
	const struct engine_config *config = &simulation->config;
	struct scheduler *scheduler = &simulation->engine->scheduler;
	struct sequence *head = scheduler->waiting.head;
	uint64_t tokens = batch->counts.decode_rows + batch->counts.prefill_tokens;
	if (config->policy != &policy_mixed || head == NULL || batch->counts.preemptions > 0 ||
		tokens == config->max_num_batched_tokens ||
		scheduler->running.count == config->max_num_seqs) {
		return;
	}
	uint32_t hits = block_manager_probe(&scheduler->blocks, head);
	require(!block_manager_can_allocate(&scheduler->blocks, head, hits, head->token_count, 0),
		"a sequence that could be admitted still waits");
}

static void take_finished(struct simulation *simulation)
{
	const struct sequence *sequence;
	while ((sequence = engine_take_finished(simulation->engine)) != NULL) {
		const struct simulation_request *request =
			&simulation->drawn->requests[sequence->request];
		struct simulated_outcome *outcome = &simulation->run->outcomes[sequence->request];
		require(outcome->tokens == NULL, "a request finishes twice");
		outcome->token_count = sequence_completion_count(sequence);
		outcome->preemptions = sequence->preemption_count;
		require_equal(outcome->preemptions,
			simulation->biographies[sequence->request].preemptions);
		outcome->tokens = calloc(outcome->token_count, sizeof(int32_t));
		require(outcome->tokens != NULL, "out of memory");
		memcpy(outcome->tokens, sequence->token_ids + request->prompt_count,
			outcome->token_count * sizeof(int32_t));
		require(memcmp(sequence->token_ids, request->tokens,
				request->prompt_count * sizeof(int32_t)) == 0,
			"a prompt was changed");
	}
}

static void take_step(struct simulation *simulation)
{
	struct engine *engine = simulation->engine;
	struct step_time time;
	struct error error = {0};
	uint64_t step = simulation->run->steps++;
	require(step < simulation->step_limit, "it does not drain");
	const struct batch *batch = engine_schedule(engine);
	require(batch != NULL, "there is work and no step");
	require_equal(batch->step, step);
	engine_check(engine);
	require_limits(simulation, batch);
	require_work_conserved(simulation, batch);
	require(engine_execute(engine, &time, &error) == STATUS_OK, "%s", error.text);
	engine_postprocess(engine);
	engine_check(engine);
	require_order(&engine->scheduler);
	const struct event_list *events = engine_decisions(engine).events;
	for (size_t i = 0; i < events->count; i++) {
		on_event(simulation, &events->events[i], step);
	}
	require_equal(simulation->rejected_told, simulation->rejected);
	simulation->now_ns += time.elapsed_ns;
	take_finished(simulation);
}

static void require_outcomes(const struct simulation *simulation)
{
	const struct drawn_requests *drawn = simulation->drawn;
	int32_t eos = simulation->config.eos_token_id;
	for (uint32_t i = 0; i < drawn->request_count; i++) {
		const struct simulation_request *own = &drawn->requests[i];
		const struct simulated_outcome *outcome = &simulation->run->outcomes[i];
		if (outcome->fit != FIT_OK) {
			continue;
		}
		require_equal(simulation->biographies[i].life, LIFE_FINISHED);
		for (uint32_t j = 0; j < outcome->token_count; j++) {
			bool is_last = j + 1 == outcome->token_count;
			bool is_end = !own->ignore_eos && eos >= 0 && outcome->tokens[j] == eos;
			require(!is_end || is_last, "request %u went on behind its end", i);
			require(!is_last || is_end || j + 1 == own->max_tokens,
				"request %u stopped early", i);
			require(!own->is_forced ||
					outcome->tokens[j] == own->tokens[own->prompt_count + j],
				"a forced token was not appended");
		}
	}
}

/* Every step samples a token, or is a chunk of the oldest prompt while nothing else runs. */
static uint64_t most_steps(const struct drawn_requests *drawn, const struct engine_config *config)
{
	uint64_t steps = 0;
	for (uint32_t i = 0; i < drawn->request_count; i++) {
		const struct simulation_request *own = &drawn->requests[i];
		steps += own->max_tokens + 1 +
			 (own->prompt_count + own->max_tokens) / config->max_num_batched_tokens;
	}
	return steps;
}

static void simulation_open(struct simulation *simulation, struct simulated_run *run,
	const struct drawn_requests *drawn, const struct engine_config *config, bool is_counting)
{
	struct error error = {0};
	memset(simulation, 0, sizeof(*simulation));
	memset(run, 0, sizeof(*run));
	simulation->drawn = drawn;
	simulation->config = *config;
	simulation->run = run;
	simulation->step_limit = most_steps(drawn, config);
	simulation->biographies = calloc(REQUESTS_MAX, sizeof(*simulation->biographies));
	run->outcomes = calloc(REQUESTS_MAX, sizeof(*run->outcomes));
	run->request_count = drawn->request_count;
	simulation->hash = XXH64_createState();
	require(simulation->biographies != NULL && run->outcomes != NULL &&
			simulation->hash != NULL,
		"out of memory");
	(void)XXH64_reset(simulation->hash, 0);
	kv_oracle_init(&simulation->oracle, config, REQUESTS_MAX, drawn->vocabulary, drawn->seed);
	simulation->runner = is_counting ? counting_runner(&simulation->oracle.seed)
					 : kv_oracle_runner(&simulation->oracle);
	require(engine_open(&simulation->engine, config, &simulation->runner, &error) == STATUS_OK,
		"%s", error.text);
}

static void simulation_close(struct simulation *simulation)
{
	engine_close(simulation->engine);
	kv_oracle_deinit(&simulation->oracle);
	(void)XXH64_freeState(simulation->hash);
	free(simulation->biographies);
}

/* Rejections behind the last step lie ready although no step follows. */
static void require_rejections_told(struct simulation *simulation)
{
	const struct event_list *events = engine_decisions(simulation->engine).events;
	if (simulation->rejected_told < simulation->rejected) {
		for (size_t i = 0; i < events->count; i++) {
			on_event(simulation, &events->events[i], simulation->run->steps);
		}
	}
	require_equal(simulation->rejected_told, simulation->rejected);
}

void simulation_run(struct simulated_run *run, const struct drawn_requests *drawn,
	const struct engine_config *config, bool is_counting)
{
	struct simulation simulation;
	simulation_open(&simulation, run, drawn, config, is_counting);
	while (true) {
		arrive(&simulation);
		if (engine_has_work(simulation.engine)) {
			take_step(&simulation);
		} else if (simulation.next < drawn->request_count) {
			simulation.now_ns = drawn->requests[simulation.next].arrival_ns;
		} else {
			break;
		}
	}
	require(engine_schedule(simulation.engine) == NULL, "a step out of nothing");
	require_rejections_told(&simulation);
	const struct scheduler *scheduler = &simulation.engine->scheduler;
	require_equal(simulation.finished + simulation.rejected, drawn->request_count);
	require_equal(scheduler->blocks.free_count + config->strategies.has_null_block,
		config->kv_block_count);
	require(engine_take_finished(simulation.engine) == NULL, "someone finished unseen");
	require_outcomes(&simulation);
	run->event_hash = XXH64_digest(simulation.hash);
	run->end_ns = simulation.now_ns;
	simulation_close(&simulation);
}

void simulated_run_deinit(struct simulated_run *run)
{
	for (uint32_t i = 0; i < run->request_count; i++) {
		free(run->outcomes[i].tokens);
	}
	free(run->outcomes);
}
