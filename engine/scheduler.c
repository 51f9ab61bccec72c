#include "engine/scheduler.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/policy.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static uint32_t row_allocate(struct scheduler *scheduler)
{
	for (uint32_t word = 0; word < scheduler->row_words; word++) {
		uint64_t bits = scheduler->free_rows[word];
		if (bits != 0) {
			scheduler->free_rows[word] = bits & (bits - 1);
			return word * 64 + (uint32_t)__builtin_ctzll(bits);
		}
	}
	check_unreachable("more sequences running than the policy's max_running");
}

static void row_release(struct scheduler *scheduler, struct sequence *sequence)
{
	scheduler->free_rows[sequence->row / 64] |= UINT64_C(1) << (sequence->row % 64);
	sequence->row = SEQUENCE_NO_ROW;
}

/* ---- opening, adding, rejecting ---- */

void scheduler_init(
	struct scheduler *scheduler, const struct engine_config *config, bool is_computing)
{
	memset(scheduler, 0, sizeof(*scheduler));
	scheduler->config = *config;
	scheduler->is_computing = is_computing;
	scheduler->max_running = config->policy->max_running(config);
	block_manager_init(&scheduler->blocks, config->kv_block_count, config->block_size);

	/* max_num_seqs that wait for the first time, all that run or were preempted, and those that
	   finished in one step, which are recycled after the next. */
	scheduler->pool_capacity = scheduler->max_running + 2 * config->max_num_seqs;
	scheduler->pool = memory_take(scheduler->pool_capacity, sizeof(struct sequence));

	window_init(&scheduler->window, config->max_num_seqs, config->block_size);

	scheduler->row_words = u32_from(u64_divide_up(scheduler->max_running, 64));
	scheduler->free_rows = memory_take(scheduler->row_words, sizeof(uint64_t));
	for (uint32_t row = 0; row < scheduler->max_running; row++) {
		scheduler->free_rows[row / 64] |= UINT64_C(1) << (row % 64);
	}
	/* No step places more sequences: policy mixed runs at most max_num_seqs, and prefill-first
	   applies the limit to each phase. */
	scheduler->placement_capacity = config->max_num_seqs;
	scheduler->placements =
		memory_take(scheduler->placement_capacity, sizeof(struct placement));
	batch_init(&scheduler->batch, is_computing ? scheduler->placement_capacity : 0,
		is_computing ? u32_max(config->max_num_batched_tokens, config->max_num_seqs) : 0);
}

void scheduler_deinit(struct scheduler *scheduler)
{
	for (uint32_t slot = 0; slot < scheduler->pool_count; slot++) {
		sequence_deinit(&scheduler->pool[slot]);
	}
	block_manager_deinit(&scheduler->blocks);
	batch_deinit(&scheduler->batch);
	free(scheduler->pool);
	window_deinit(&scheduler->window);
	free(scheduler->free_rows);
	free(scheduler->placements);
	free(scheduler->events.events);
	memset(scheduler, 0, sizeof(*scheduler));
}

/* The next event of the step, to be written whole. */
static inline struct event *next_event(struct scheduler *scheduler)
{
	if (scheduler->events_are_past) {
		scheduler->events.count = 0;
		scheduler->events_are_past = false;
	}
	return event_list_next(&scheduler->events);
}

/* An event of a sequence; what a and b mean depends on its kind, see engine/event.h. */
static inline void record_sequence(struct scheduler *scheduler, enum event_kind kind,
	const struct sequence *sequence, uint64_t a, uint64_t b)
{
	*next_event(scheduler) = (struct event){
		.kind = kind, .sequence = sequence, .request = sequence->request, .a = a, .b = b};
}

bool scheduler_can_add(const struct scheduler *scheduler)
{
	return scheduler->unused.head != NULL || scheduler->pool_count < scheduler->pool_capacity;
}

/* Tokens until the sequence ends. Forced tokens are known, so an EOS among them is too. */
static uint32_t forced_count(const struct scheduler *scheduler, const struct request *request)
{
	if (request->ignore_eos) {
		return request->max_tokens;
	}
	for (uint32_t i = 0; i < request->max_tokens; i++) {
		if (engine_config_is_eos(&scheduler->config, request->forced[i])) {
			return i + 1;
		}
	}
	return request->max_tokens;
}

uint32_t scheduler_add(struct scheduler *scheduler, const struct request *request)
{
	struct sequence *sequence = scheduler->unused.head;
	struct request own = *request;

	check(request_is_forced(request) || scheduler->is_computing);
	check(request->keys == NULL || !scheduler->is_computing);
	if (sequence != NULL) {
		queue_remove(&scheduler->unused, sequence);
	} else {
		check(scheduler->pool_count < scheduler->pool_capacity);
		sequence = &scheduler->pool[scheduler->pool_count++];
	}
	if (request_is_forced(request)) {
		own.max_tokens = forced_count(scheduler, request);
	}
	sequence_init(sequence, &own, scheduler->config.block_size);
	sequence->slot = (uint32_t)(sequence - scheduler->pool);
	queue_push_back(&scheduler->waiting, sequence);
	return sequence->slot;
}

void scheduler_reject(struct scheduler *scheduler, const struct request *request, enum fit fit)
{
	const struct event reject = {.kind = EVENT_REJECT,
		.request = request->id,
		.a = fit,
		.b = (uint64_t)request->prompt_count + request->max_tokens};

	*next_event(scheduler) = reject;
	struct event *event = &scheduler->events.events[scheduler->events.count - 1];
	for (; event > scheduler->events.events && event[-1].kind != EVENT_REJECT; event--) {
		event[0] = event[-1];
	}
	*event = reject;
}

/* ---- scheduling ---- */

static void place_row(struct scheduler *scheduler, struct sequence *sequence, uint32_t first,
	uint32_t count, bool is_decode)
{
	bool is_sampled = first + count == sequence->token_count;

	check(scheduler->placement_count < scheduler->placement_capacity);
	scheduler->placements[scheduler->placement_count++] = (struct placement){
		.sequence = sequence,
		.first = first,
		.count = count,
		.is_decode = is_decode,
		.is_sampled = is_sampled,
	};
	sequence->scheduled_count = count;
	if (scheduler->config.prefix_caching == PREFIX_CACHING_ON) {
		block_manager_register_filled(&scheduler->blocks, sequence, first, count);
	}
	if (scheduler->is_computing) {
		batch_add_row(&scheduler->batch, sequence, first, count, is_sampled,
			scheduler->config.block_size);
	}
}

/* Records a new entry at the end of a block table, and adds it to the batch. */
static void block_given(
	struct scheduler *scheduler, const struct sequence *sequence, uint32_t index)
{
	uint32_t block = sequence->block_table[index];

	record_sequence(scheduler, EVENT_BLOCK_GIVEN, sequence, index, block);
	if (scheduler->is_computing) {
		batch_add_addition(&scheduler->batch, sequence->row, index, block);
	}
}

static void preempt(struct scheduler *scheduler, struct sequence *sequence)
{
	if (sequence->is_decoding) {
		window_leave(&scheduler->window, sequence);
	}
	record_sequence(scheduler, EVENT_PREEMPT, sequence, sequence->computed_count,
		sequence->block_count);
	block_manager_release_all(&scheduler->blocks, sequence);
	sequence->computed_high = u32_max(sequence->computed_high, sequence->computed_count);
	sequence->computed_count = 0;
	sequence->is_prompt_computed = false;
	sequence->cached_count = 0;
	sequence->preemption_count++;
	sequence->status = SEQUENCE_WAITING;
	row_release(scheduler, sequence);
	queue_remove(&scheduler->running, sequence);
	queue_push_front(&scheduler->waiting, sequence);
	scheduler->batch.counts.preemptions++;
}

/* Preempts from the back until there is room for the sequence's last token; false: it was preempted
   itself. */
static bool make_room(struct scheduler *scheduler, struct sequence *sequence)
{
	while (!block_manager_can_append(&scheduler->blocks, sequence)) {
		struct sequence *victim = scheduler->running.tail;
		preempt(scheduler, victim);
		if (victim == sequence) {
			return false;
		}
	}
	return true;
}

/* Gives each collected sequence a row, and a block where its token begins one. */
static void place_due(struct scheduler *scheduler, uint32_t due_count)
{
	for (uint32_t i = 0; i < due_count; i++) {
		struct sequence *sequence = scheduler->window.due[i];
		if (!sequence->is_decoding) {
			continue; /* preempted by an older sequence in this pass */
		}
		sequence_settle(sequence, scheduler->window.clock);
		if (!make_room(scheduler, sequence)) {
			continue;
		}
		if (block_manager_append(&scheduler->blocks, sequence)) {
			block_given(scheduler, sequence, sequence->block_count - 1);
		}
		place_row(scheduler, sequence, sequence->token_count - 1, 1, true);
	}
}

uint32_t scheduler_place_decodes(struct scheduler *scheduler)
{
	struct step_counts *counts = &scheduler->batch.counts;
	struct decode_window *window = &scheduler->window;

	if (scheduler->is_computing) {
		place_due(scheduler, window_collect_all(window, &scheduler->running));
	} else if (window_has_due(window)) {
		place_due(scheduler, window_collect_due(window));
	}
	counts->decode_rows = window->count;
	counts->sampled_rows += window->count;
	counts->decode_context_tokens = window->context;
	counts->decode_longest_context = window_longest_context(window, &scheduler->running);
	scheduler->has_decode_pass = window->count > 0;
	return (uint32_t)counts->preemptions;
}

bool scheduler_can_admit(
	struct scheduler *scheduler, struct sequence *sequence, uint32_t *hit_count)
{
	const struct block_manager *blocks = &scheduler->blocks;

	if (!sequence->is_probed || sequence->probe_version != blocks->version) {
		sequence->is_probed = true;
		sequence->probe_version = blocks->version;
		sequence->probed_hits = scheduler->config.prefix_caching == PREFIX_CACHING_ON
						? block_manager_probe(blocks, sequence)
						: 0;
		sequence->probed_fits =
			block_manager_can_allocate(blocks, sequence, sequence->probed_hits);
	}
	*hit_count = sequence->probed_hits;
	return sequence->probed_fits;
}

void scheduler_admit(struct scheduler *scheduler, struct sequence *sequence, uint32_t hit_count)
{
	check(sequence == scheduler->waiting.head);
	queue_remove(&scheduler->waiting, sequence);
	block_manager_allocate(&scheduler->blocks, sequence, hit_count);
	sequence->status = SEQUENCE_RUNNING;
	sequence->computed_count = sequence->cached_count;
	sequence->admission = scheduler->admission_count++;
	sequence->row = row_allocate(scheduler);
	queue_push_back(&scheduler->running, sequence);
	scheduler->batch.counts.cached_tokens += sequence->cached_count;
	record_sequence(
		scheduler, EVENT_ADMIT, sequence, sequence->cached_count, sequence->token_count);
	for (uint32_t i = 0; i < sequence->block_count; i++) {
		block_given(scheduler, sequence, i);
	}
}

void scheduler_place_chunk(struct scheduler *scheduler, struct sequence *sequence, uint32_t count)
{
	struct step_counts *counts = &scheduler->batch.counts;
	uint32_t first = sequence->computed_count;
	uint32_t known = u32_max(first, u32_min(first + count, sequence->computed_high));

	check(count >= 1 && count <= sequence->token_count - first);
	*next_event(scheduler) = (struct event){.kind = EVENT_CHUNK,
		.sequence = sequence,
		.request = sequence->request,
		.a = first,
		.b = count,
		.is_sampled = first + count == sequence->token_count,
		.recomputed = known - first};
	place_row(scheduler, sequence, first, count, false);
	counts->prefill_rows++;
	counts->prefill_tokens += count;
	counts->prefill_attention_pairs += batch_attention_pairs(first, count);
	counts->sampled_rows += first + count == sequence->token_count;
}

void scheduler_schedule(struct scheduler *scheduler)
{
	struct step_counts *counts = &scheduler->batch.counts;

	if (scheduler->events_are_past) {
		scheduler->events.count = 0;
		scheduler->events_are_past = false;
	}
	batch_clear(&scheduler->batch, scheduler->step);
	scheduler->placement_count = 0;
	scheduler->has_decode_pass = false;
	scheduler->config.policy->schedule(scheduler);
	/* A request that can never fit was rejected. So the oldest sequence can always be placed,
	   if need be after preempting all others. */
	check(counts->decode_rows + counts->prefill_rows > 0 ||
		scheduler->running.count + scheduler->waiting.count == 0);
	check(counts->decode_rows <= scheduler->config.max_num_seqs);
	check(counts->decode_rows + counts->prefill_tokens <=
		u32_max(scheduler->config.max_num_batched_tokens, scheduler->config.max_num_seqs));
	counts->running = scheduler->running.count;
	counts->waiting = scheduler->waiting.count;
	counts->used_blocks = block_manager_used_count(&scheduler->blocks);
	counts->shared_tokens = scheduler->blocks.shared_count * scheduler->config.block_size;
	counts->pair_tokens = scheduler->blocks.pair_count * scheduler->config.block_size;
	counts->cached_free_blocks = scheduler->blocks.cached_free_count;
	counts->free_blocks = scheduler->blocks.free_count;
}

/* ---- outcome ---- */

static void finish(struct scheduler *scheduler, struct sequence *sequence)
{
	if (sequence->is_decoding) {
		window_leave(&scheduler->window, sequence);
	}
	record_sequence(scheduler, EVENT_FINISH, sequence, sequence_completion_count(sequence),
		sequence->block_count);
	block_manager_release_all(&scheduler->blocks, sequence);
	sequence->status = SEQUENCE_FINISHED;
	row_release(scheduler, sequence);
	queue_remove(&scheduler->running, sequence);
	queue_push_back(&scheduler->finished, sequence);
}

/* Applies the step to a placed sequence; returns whether its last token is reached. */
static bool advance(
	struct scheduler *scheduler, const struct placement *placement, const int32_t *token_id)
{
	struct sequence *sequence = placement->sequence;

	sequence->scheduled_count = 0;
	if (placement->is_decode) {
		sequence_settle(sequence, scheduler->window.clock);
	} else {
		sequence->computed_count += placement->count;
		sequence->token_count += placement->is_sampled;
		sequence->is_prompt_computed = placement->is_sampled;
	}
	if (!placement->is_sampled) {
		return false;
	}
	uint32_t last = sequence->token_count - 1;
	if (!sequence->is_forced) {
		sequence->token_ids[last] = *token_id;
	}
	return sequence_completion_count(sequence) == sequence->max_tokens ||
	       (!sequence->ignore_eos &&
		       engine_config_is_eos(&scheduler->config, sequence->token_ids[last]));
}

/* A sequence returned by scheduler_take_finished() stays valid for one more step: with steps
   launched ahead, the events of a step are recorded after the next one has been decided. */
static void recycle(struct scheduler *scheduler)
{
	struct sequence *sequence;

	while ((sequence = scheduler->given.head) != NULL) {
		queue_remove(&scheduler->given, sequence);
		sequence_deinit(sequence);
		queue_push_back(&scheduler->unused, sequence);
	}
}

void scheduler_postprocess(struct scheduler *scheduler, const int32_t *token_ids)
{
	check((token_ids != NULL) == scheduler->is_computing);
	recycle(scheduler);
	if (scheduler->has_decode_pass) {
		window_advance(&scheduler->window);
	}
	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		const struct placement *placement = &scheduler->placements[i];
		struct sequence *sequence = placement->sequence;
		if (advance(scheduler, placement, token_ids)) {
			finish(scheduler, sequence);
		} else {
			window_refile(&scheduler->window, sequence);
		}
		if (token_ids != NULL && placement->is_sampled) {
			token_ids++;
		}
	}
	window_extend(&scheduler->window, &scheduler->running);
	scheduler->step++;
	scheduler->events_are_past = true;
}

const struct sequence *scheduler_take_finished(struct scheduler *scheduler)
{
	struct sequence *sequence = scheduler->finished.head;

	if (sequence != NULL) {
		queue_remove(&scheduler->finished, sequence);
		queue_push_back(&scheduler->given, sequence);
	}
	return sequence;
}
