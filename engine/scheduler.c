#include "engine/scheduler.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/policy.h"

#include <stdlib.h>
#include <string.h>

/* Requests that wait in the engine with QUEUE_PRIORITY. Those beyond it are not sorted yet. */
enum { PRIORITY_WAITING = 65536 };

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

static uint32_t max_waiting(const struct engine_config *config)
{
	if (config->queue_order == QUEUE_PRIORITY) {
		return u32_max(PRIORITY_WAITING, config->max_num_seqs);
	}
	/* With a threshold a decision depends on whether a second request is there. */
	return u32_max(config->max_num_seqs, config->long_prefill_threshold > 0 ? 2 : 1);
}

void scheduler_init(
	struct scheduler *scheduler, const struct engine_config *config, bool is_computing)
{
	memset(scheduler, 0, sizeof(*scheduler));
	scheduler->config = *config;
	scheduler->is_computing = is_computing;
	scheduler->max_running = config->policy->max_running(config);
	scheduler->visits_all = is_computing || config->long_prefill_threshold > 0;
	block_manager_init(
		&scheduler->blocks, config->kv_block_count, config->block_size, config->strategies);

	/* Those that wait for the first time, all that run or were preempted, and those that
	   finished in one step, which are recycled after the next. */
	scheduler->max_waiting = max_waiting(config);
	scheduler->pool_capacity = scheduler->max_running + scheduler->max_waiting +
				   config->max_num_seqs * (config->is_async ? 2 : 1);
	scheduler->pool = memory_take(scheduler->pool_capacity, sizeof(struct sequence));

	window_init(&scheduler->window, config->max_num_seqs, config->block_size,
		config->kv_block_count);
	scheduler->window.registers_late = config->is_async;

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
	if (config->is_async) {
		scheduler->before.placements =
			memory_take(scheduler->placement_capacity, sizeof(struct placement));
	}
	scheduler->tiles = memory_take(
		prefill_tile_count(config->max_num_batched_tokens) + config->max_num_seqs,
		sizeof(*scheduler->tiles));
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
	block_sharing_deinit(&scheduler->prompt_sharing);
	free(scheduler->free_rows);
	free(scheduler->placements);
	free(scheduler->stores);
	free(scheduler->tiles);
	free(scheduler->events.events);
	free(scheduler->before.placements);
	free(scheduler->before.events.events);
	memset(scheduler, 0, sizeof(*scheduler));
}

/* The next events of the step, to be written whole. */
static inline struct event *next_events(struct scheduler *scheduler, size_t count)
{
	if (scheduler->events_are_past) {
		scheduler->events.count = 0;
		scheduler->events_are_past = false;
	}
	return event_list_extend(&scheduler->events, count);
}

static inline struct event *next_event(struct scheduler *scheduler)
{
	return next_events(scheduler, 1);
}

/* An event of a sequence; what a and b mean depends on its kind, see engine/event.h. */
static inline void record_sequence(struct scheduler *scheduler, enum event_kind kind,
	const struct sequence *sequence, uint64_t a, uint64_t b)
{
	*next_event(scheduler) = (struct event){
		.kind = kind, .sequence = sequence, .request = sequence->request, .a = a, .b = b};
}

/* Whether a goes before b with QUEUE_PRIORITY. */
static bool precedes(const struct sequence *a, const struct sequence *b)
{
	if (a->priority != b->priority) {
		return a->priority < b->priority;
	}
	if (a->arrival != b->arrival) {
		return a->arrival < b->arrival;
	}
	return a->request < b->request;
}

/* Puts a sequence where it belongs in the waiting queue: a new one behind all others, with
   QUEUE_PRIORITY behind those that precede it. */
static void enqueue(struct scheduler *scheduler, struct sequence *sequence)
{
	struct sequence *before = scheduler->waiting.tail;

	if (scheduler->config.queue_order == QUEUE_PRIORITY) {
		while (before != NULL && precedes(sequence, before)) {
			before = before->previous;
		}
	}
	queue_insert_behind(&scheduler->waiting, before, sequence);
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

/* Looks at the queues before the first newcomer joins them. */
static void note_newcomer(struct scheduler *scheduler)
{
	if (!scheduler->has_newcomers) {
		scheduler->has_newcomers = true;
		scheduler->stores_behind =
			!scheduler->is_undone &&
			!scheduler->config.policy->next_step_depends_on_arrivals(scheduler);
	}
}

static void store(struct scheduler *scheduler, struct sequence *sequence)
{
	block_manager_store(&scheduler->blocks, sequence, sequence->stored_count);
}

/* Enters what a new sequence says is stored. */
static void add_store(struct scheduler *scheduler, struct sequence *sequence)
{
	if (sequence->stored_count == 0 || scheduler->config.prefix_caching != PREFIX_CACHING_ON) {
		return;
	}
	if (!scheduler->stores_behind) {
		store(scheduler, sequence);
		return;
	}
	scheduler->stores = memory_grow(scheduler->stores, &scheduler->store_capacity,
		scheduler->store_count + 1, sizeof(struct sequence *));
	scheduler->stores[scheduler->store_count++] = sequence;
}

static void store_behind(struct scheduler *scheduler)
{
	for (size_t i = 0; i < scheduler->store_count; i++) {
		store(scheduler, scheduler->stores[i]);
	}
	scheduler->store_count = 0;
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
	own.max_tokens = u32_from(engine_config_answer_limit(
		&scheduler->config, request->prompt_count, request->max_tokens));
	scheduler->capped_count += own.max_tokens < request->max_tokens;
	if (request_is_forced(request)) {
		uint32_t count = forced_count(scheduler, &own);
		own.forced_eos_count = count < own.max_tokens ? count : 0;
		own.max_tokens = scheduler->config.is_async ? own.max_tokens : count;
	}
	sequence_init(sequence, &own, scheduler->config.block_size);
	sequence->slot = (uint32_t)(sequence - scheduler->pool);
	note_newcomer(scheduler);
	add_store(scheduler, sequence);
	enqueue(scheduler, sequence);
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

/* Tokens whose values are known when a step is decided: all but one that the preceding step
   samples. */
static uint32_t known_count(const struct scheduler *scheduler, const struct sequence *sequence)
{
	bool is_pending = scheduler->config.is_async && sequence->is_decoding &&
			  (!scheduler->visits_all || sequence->sampled_step == scheduler->step);

	return sequence->token_count - is_pending;
}

static void place_row(struct scheduler *scheduler, struct sequence *sequence, uint32_t first,
	uint32_t count, bool is_decode)
{
	check(scheduler->placement_count < scheduler->placement_capacity);
	scheduler->placements[scheduler->placement_count++] = (struct placement){
		.sequence = sequence,
		.first = first,
		.count = count,
		.is_decode = is_decode,
		.is_sampled = first + count == sequence->token_count,
	};
	sequence->scheduled_count = count;
	if (scheduler->config.prefix_caching == PREFIX_CACHING_ON) {
		block_manager_register_up_to(&scheduler->blocks, sequence,
			u32_min(first + count, known_count(scheduler, sequence)));
	}
}

/* Records the entries of a block table from `first` on, and adds them to the batch. Those before
   `fresh` are shared. */
static void blocks_given(struct scheduler *scheduler, const struct sequence *sequence,
	uint32_t first, uint32_t fresh)
{
	struct event *event = next_events(scheduler, sequence->block_count - first);

	for (uint32_t i = first; i < sequence->block_count; i++) {
		uint32_t block = sequence->block_table[i];
		*event++ = (struct event){.kind = EVENT_BLOCK_GIVEN,
			.sequence = sequence,
			.request = sequence->request,
			.a = i,
			.b = block,
			.has_evicted = i >= fresh && scheduler->blocks.blocks[block].has_evicted};
		if (scheduler->is_computing) {
			batch_add_addition(&scheduler->batch, sequence->row, i, block);
		}
	}
}

static uint64_t longest_prefill(const struct scheduler *scheduler)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		const struct placement *row = &scheduler->placements[i];
		longest = row->is_decode ? longest : u64_max(longest, row->first + row->count);
	}
	return longest;
}

/* Takes a preempted sequence's row of the current step back. The blocks that were registered for it
   stay registered. */
static void withdraw_row(struct scheduler *scheduler, struct sequence *sequence)
{
	struct step_counts *counts = &scheduler->batch.counts;
	struct placement *placements = scheduler->placements;
	struct event_list *events = &scheduler->events;
	uint32_t row = 0;
	size_t chunk = events->count;

	while (placements[row].sequence != sequence) {
		row++;
	}
	const struct placement gone = placements[row];
	scheduler->placement_count--;
	memmove(&placements[row], &placements[row + 1],
		(scheduler->placement_count - row) * sizeof(*placements));
	sequence->scheduled_count = 0;
	if (gone.is_decode) {
		scheduler->placed_decodes--;
		return;
	}
	counts->prefill_rows--;
	counts->prefill_tokens -= gone.count;
	counts->prefill_attention_pairs -= batch_attention_pairs(gone.first, gone.count);
	counts->prefill_tiles -= prefill_tile_count(gone.count);
	counts->prefill_tile_keys -= prefill_tile_keys(gone.first, gone.count);
	counts->prefill_context_tokens -= gone.first + gone.count;
	counts->sampled_rows -= gone.is_sampled;
	counts->prefill_longest_context = longest_prefill(scheduler);
	do {
		chunk--;
	} while (events->events[chunk].kind != EVENT_CHUNK ||
		 events->events[chunk].sequence != sequence);
	events->count--;
	memmove(&events->events[chunk], &events->events[chunk + 1],
		(events->count - chunk) * sizeof(*events->events));
}

static void preempt(struct scheduler *scheduler, struct sequence *sequence)
{
	window_leave(&scheduler->window, sequence);
	if (sequence->scheduled_count > 0) {
		withdraw_row(scheduler, sequence);
	}
	record_sequence(scheduler, EVENT_PREEMPT, sequence, sequence->computed_count,
		sequence->block_count);
	block_manager_release_all(&scheduler->blocks, sequence);
	sequence->computed_high = u32_max(sequence->computed_high, sequence->computed_count);
	sequence->computed_count = 0;
	sequence->is_prompt_computed = false;
	sequence->is_ending = false;
	sequence->cached_count = 0;
	sequence->preemption_count++;
	sequence->status = SEQUENCE_WAITING;
	row_release(scheduler, sequence);
	queue_remove(&scheduler->running, sequence);
	if (scheduler->config.queue_order == QUEUE_PRIORITY) {
		enqueue(scheduler, sequence);
	} else {
		queue_push_front(&scheduler->waiting, sequence);
	}
	scheduler->batch.counts.preemptions++;
}

/* Who is preempted next: the latest admission, or with QUEUE_PRIORITY the one that goes last, of
   equal ones the oldest admission. */
static struct sequence *next_victim(const struct scheduler *scheduler)
{
	struct sequence *victim = scheduler->running.tail;

	if (scheduler->config.queue_order == QUEUE_FCFS) {
		return victim;
	}
	for (struct sequence *s = victim->previous; s != NULL; s = s->previous) {
		if (s->priority > victim->priority ||
			(s->priority == victim->priority && s->arrival >= victim->arrival)) {
			victim = s;
		}
	}
	return victim;
}

/* Gives a running sequence blocks for its first token_count tokens, preempting where they are
   missing; false: it was preempted itself. */
static bool take_blocks(
	struct scheduler *scheduler, struct sequence *sequence, uint32_t token_count)
{
	uint32_t missing = block_manager_missing(&scheduler->blocks, sequence, token_count);

	while (missing > scheduler->blocks.free_count) {
		struct sequence *victim = next_victim(scheduler);
		preempt(scheduler, victim);
		if (victim == sequence) {
			return false;
		}
	}
	if (missing > 0) {
		uint32_t first = sequence->block_count;
		for (; missing > 0; missing--) {
			block_manager_append(&scheduler->blocks, sequence);
		}
		if (sequence->is_decoding) {
			window_take_blocks(&scheduler->window, sequence, first);
		}
		blocks_given(scheduler, sequence, first, first);
	}
	return true;
}

static void place_chunk(struct scheduler *scheduler, struct sequence *sequence, uint32_t count)
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
	counts->prefill_tiles += prefill_tile_count(count);
	counts->prefill_tile_keys += prefill_tile_keys(first, count);
	counts->prefill_context_tokens += first + count;
	counts->prefill_longest_context = u64_max(counts->prefill_longest_context, first + count);
	counts->sampled_rows += first + count == sequence->token_count;
}

bool scheduler_place(struct scheduler *scheduler, struct sequence *sequence, uint32_t count)
{
	if (!take_blocks(scheduler, sequence, sequence->computed_count + count)) {
		return false;
	}
	if (sequence->is_decoding) {
		check(count == 1);
		place_row(scheduler, sequence, sequence->computed_count, 1, true);
		scheduler->placed_decodes++;
	} else {
		place_chunk(scheduler, sequence, count);
	}
	return true;
}

void scheduler_stall(struct scheduler *scheduler, struct sequence *sequence)
{
	window_stall(&scheduler->window, sequence);
	record_sequence(scheduler, EVENT_STALL, sequence, sequence->token_count, 0);
}

uint32_t scheduler_collect(struct scheduler *scheduler)
{
	struct decode_window *window = &scheduler->window;
	struct sequence *last = scheduler->running.tail;
	uint32_t count = 0;

	if (scheduler->visits_all) {
		for (struct sequence *s = scheduler->running.head; s != NULL; s = s->next) {
			sequence_settle(s, window->clock);
			window->due[count++] = s;
		}
		return count;
	}
	if (window_has_due(window)) {
		count = window_collect_due(window);
		for (uint32_t i = 0; i < count; i++) {
			sequence_settle(window->due[i], window->clock);
		}
	}
	/* Chunks use a step's tokens up, so only the last can be in mid-prompt. */
	if (last != NULL && !last->is_decoding && !last->is_ending) {
		window->due[count++] = last;
	}
	return count;
}

uint32_t scheduler_budget(const struct scheduler *scheduler, const struct sequence *sequence)
{
	bool is_counted = sequence != NULL && sequence->is_decoding;
	uint32_t decodes = scheduler->visits_all ? scheduler->placed_decodes
						 : scheduler->window.count - is_counted;

	return scheduler->config.max_num_batched_tokens -
	       (uint32_t)scheduler->batch.counts.prefill_tokens - decodes;
}

void scheduler_end_decodes(struct scheduler *scheduler)
{
	struct step_counts *counts = &scheduler->batch.counts;
	struct decode_window *window = &scheduler->window;

	counts->decode_rows = window->count;
	counts->sampled_rows += window->count;
	counts->decode_context_tokens = window->context;
	counts->decode_longest_context = window_longest_context(window, &scheduler->running);
	scheduler->has_decode_pass = window->count > 0;
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
		scheduler_place(scheduler, sequence, 1);
	}
}

void scheduler_place_decodes(struct scheduler *scheduler)
{
	struct decode_window *window = &scheduler->window;

	if (scheduler->is_computing) {
		place_due(scheduler, window_collect_all(window, &scheduler->running));
	} else if (window_has_due(window)) {
		place_due(scheduler, window_collect_due(window));
	}
	scheduler_end_decodes(scheduler);
}

uint32_t scheduler_probe(const struct scheduler *scheduler, struct sequence *sequence)
{
	return scheduler->config.prefix_caching == PREFIX_CACHING_ON
		       ? block_manager_probe(&scheduler->blocks, sequence)
		       : 0;
}

bool scheduler_can_admit(
	struct scheduler *scheduler, struct sequence *sequence, uint32_t *hit_count)
{
	const struct block_manager *blocks = &scheduler->blocks;

	if (!sequence->is_probed || sequence->probe_version != blocks->version) {
		sequence->is_probed = true;
		sequence->probe_version = blocks->version;
		sequence->probed_hits = scheduler_probe(scheduler, sequence);
		sequence->probed_fits = block_manager_can_allocate(
			blocks, sequence, sequence->probed_hits, sequence->token_count, 0);
	}
	*hit_count = sequence->probed_hits;
	return sequence->probed_fits;
}

void scheduler_admit(
	struct scheduler *scheduler, struct sequence *sequence, uint32_t hit_count, uint32_t count)
{
	uint32_t token_count = sequence->token_count;

	check(sequence == scheduler->waiting.head);
	queue_remove(&scheduler->waiting, sequence);
	if (scheduler->config.allocation == ALLOCATION_CHUNK) {
		token_count = hit_count * scheduler->config.block_size + count;
	}
	block_manager_allocate(&scheduler->blocks, sequence, hit_count, token_count);
	sequence->status = SEQUENCE_RUNNING;
	sequence->computed_count = sequence->cached_count;
	sequence->admission = scheduler->admission_count++;
	sequence->row = row_allocate(scheduler);
	queue_push_back(&scheduler->running, sequence);
	scheduler->batch.counts.cached_tokens += sequence->cached_count;
	record_sequence(
		scheduler, EVENT_ADMIT, sequence, sequence->cached_count, sequence->token_count);
	blocks_given(scheduler, sequence, 0, hit_count);
	place_chunk(scheduler, sequence, count);
}

/* Fills rows and tokens, for a runner that computes: decode rows, then prefill rows, which policy
   vllm may place between them. */
static void fill_batch(struct scheduler *scheduler)
{
	uint32_t sampled = 0;

	for (uint32_t i = 0; i < 2 * scheduler->placement_count; i++) {
		bool is_decode = i < scheduler->placement_count;
		struct placement *row = &scheduler->placements[i % scheduler->placement_count];
		if (row->is_decode != is_decode) {
			continue;
		}
		batch_add_row(&scheduler->batch, row->sequence, row->first, row->count,
			row->is_sampled, scheduler->config.block_size);
		row->sample = sampled;
		sampled += row->is_sampled;
	}
}

/* Sets the latest step aside if it is undone, and empties what the next one fills. */
static void begin_step(struct scheduler *scheduler)
{
	struct decided_step *before = &scheduler->before;

	if (scheduler->is_undone) {
		const struct decided_step older = *before;
		check(scheduler->config.is_async && !older.is_undone);
		*before = (struct decided_step){
			.is_undone = true,
			.step = scheduler->batch.step,
			.counts = scheduler->batch.counts,
			.wait_cause = scheduler->wait_cause,
			.events = scheduler->events,
			.placements = scheduler->placements,
			.placement_count = scheduler->placement_count,
		};
		for (uint32_t i = 0; i < before->placement_count; i++) {
			before->placements[i].sequence->scheduled_count = 0;
		}
		scheduler->events = older.events;
		scheduler->placements = older.placements;
		scheduler->events_are_past = true;
	}
	if (scheduler->events_are_past) {
		scheduler->events.count = 0;
		scheduler->events_are_past = false;
	}
	batch_clear(&scheduler->batch, scheduler->step);
	scheduler->placement_count = 0;
	scheduler->placed_decodes = 0;
	scheduler->has_decode_pass = false;
}

static void check_decision(const struct scheduler *scheduler)
{
	const struct engine_config *config = &scheduler->config;
	const struct step_counts *counts = &scheduler->batch.counts;

	/* A request that can never fit was rejected. So the oldest sequence can always be placed,
	   if need be after preempting all others. */
	check(counts->decode_rows + counts->prefill_rows > 0 || config->policy->may_place_nothing ||
		scheduler->running.count + scheduler->waiting.count == 0);
	check(counts->decode_rows <= config->max_num_seqs);
	check(counts->decode_rows + counts->prefill_tokens <=
		u32_max(config->max_num_batched_tokens, config->max_num_seqs));
}

/* Moves a placed sequence behind the tokens that the step computes. */
static void advance(struct scheduler *scheduler, const struct placement *placement)
{
	struct sequence *sequence = placement->sequence;

	if (placement->is_decode) {
		sequence_settle(sequence, scheduler->window.clock);
	} else {
		sequence->computed_count += placement->count;
		sequence->token_count += placement->is_sampled;
		sequence->is_prompt_computed = placement->is_sampled;
	}
	if (!placement->is_sampled) {
		return;
	}
	sequence->sampled_step = scheduler->step + 1;
	if (!sequence->is_forced) {
		sequence->token_ids[sequence->token_count - 1] = -1;
	}
	if (sequence_completion_count(sequence) == sequence->max_tokens) {
		window_leave(&scheduler->window, sequence);
		sequence->is_ending = true;
	} else if (sequence->is_decoding) {
		window_refile(&scheduler->window, sequence);
	} else {
		window_join(&scheduler->window, sequence);
	}
}

static void advance_all(struct scheduler *scheduler)
{
	if (scheduler->has_decode_pass) {
		window_advance(&scheduler->window);
	}
	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		advance(scheduler, &scheduler->placements[i]);
	}
	scheduler->step++;
}

/* What prefill attention takes on the GPU that the runner has. */
static void count_chains(struct scheduler *scheduler)
{
	struct step_counts *counts = &scheduler->batch.counts;
	const struct prefill_spread *spread = &scheduler->spread;
	uint32_t *tiles = scheduler->tiles, count = 0;
	uint64_t alone = 0;

	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		const struct placement *row = &scheduler->placements[i];
		if (row->is_decode) {
			continue;
		}
		alone = u64_max(
			alone, prefill_half_chain_of_prompt(row->first, row->count, spread));
		if (counts->prefill_rows == 1) {
			counts->prefill_chain_keys =
				prefill_chain_of_prompt(row->first, row->count, spread);
			counts->prefill_half_chain_keys = alone;
			return;
		}
		count += prefill_tiles_list(tiles + count, row->first, row->count);
	}
	prefill_tiles_sort(tiles, count);
	counts->prefill_chain_keys = prefill_chain_keys(tiles, count, spread);
	counts->prefill_half_chain_keys = prefill_half_chain_keys(
		tiles, count, counts->prefill_longest_context, alone, spread);
}

/* The leading blocks of a step's prompts that another of them may hold: one of two that hold a
   block found it in the prefix cache, and both have it at the same place. */
static uint32_t prompt_blocks_that_may_be_shared(const struct scheduler *scheduler)
{
	uint32_t cached = 0;

	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		const struct placement *row = &scheduler->placements[i];
		cached = row->is_decode ? cached : u32_max(cached, row->sequence->cached_count);
	}
	return cached / scheduler->config.block_size;
}

/* Holds, or lets go, the leading `most` blocks of each of the step's prompts. */
static void count_prompts(struct scheduler *scheduler, uint32_t most,
	void (*count)(struct block_sharing *, const uint32_t *, uint32_t))
{
	for (uint32_t i = 0; i < scheduler->placement_count; i++) {
		const struct placement *row = &scheduler->placements[i];
		if (!row->is_decode) {
			count(&scheduler->prompt_sharing, row->sequence->block_table,
				u32_min(row->sequence->block_count, most));
		}
	}
}

static uint64_t blocks_shared_by_prompts(struct scheduler *scheduler)
{
	uint32_t most = prompt_blocks_that_may_be_shared(scheduler);
	struct block_sharing *sharing = &scheduler->prompt_sharing;

	if (most == 0) {
		return 0;
	}
	if (sharing->holders == NULL) {
		block_sharing_init(sharing, scheduler->config.kv_block_count);
	}
	count_prompts(scheduler, most, block_sharing_hold);
	uint64_t shared = sharing->shared_count;
	count_prompts(scheduler, most, block_sharing_let_go);
	return shared;
}

/* What rows hold in common. Sequences that run without a row in this step do not count, nor does
   the window where the step has no decode pass. */
static void count_sharing(struct scheduler *scheduler)
{
	struct step_counts *counts = &scheduler->batch.counts;
	const struct block_sharing *decodes = &scheduler->window.sharing;
	uint64_t block_size = scheduler->config.block_size;

	if (counts->decode_rows > 0) {
		counts->shared_tokens = decodes->shared_count * block_size;
		counts->reread_tokens = decodes->reread_parts * block_size / BLOCK_REREAD_PARTS;
		counts->repeat_tokens = decodes->repeat_count * block_size;
	}
	if (counts->prefill_rows > 1) {
		counts->prefill_shared_tokens = blocks_shared_by_prompts(scheduler) * block_size;
	}
}

void scheduler_schedule(struct scheduler *scheduler)
{
	struct step_counts *counts = &scheduler->batch.counts;

	begin_step(scheduler);
	scheduler->config.policy->schedule(scheduler);
	if (scheduler->is_computing) {
		fill_batch(scheduler);
	}
	check_decision(scheduler);
	if (counts->prefill_rows > 0 && scheduler->spread.heads > 0) {
		count_chains(scheduler);
	}
	counts->running = scheduler->running.count;
	counts->waiting = scheduler->waiting.count;
	counts->used_blocks = block_manager_used_count(&scheduler->blocks);
	count_sharing(scheduler);
	counts->cached_free_blocks = scheduler->blocks.cached_free_count;
	counts->free_blocks = scheduler->blocks.free_count;
	scheduler->is_undone = true;
	store_behind(scheduler);
	if (scheduler->config.is_async) {
		advance_all(scheduler);
	}
}

/* ---- outcome ---- */

/* Ends a running sequence or, with is_async, one that the latest step has preempted. */
static void finish(
	struct scheduler *scheduler, struct sequence *sequence, struct event_list *events)
{
	bool is_running = sequence->status == SEQUENCE_RUNNING;
	const struct event finished = {.kind = EVENT_FINISH,
		.sequence = sequence,
		.request = sequence->request,
		.a = sequence_completion_count(sequence),
		.b = sequence->block_count};

	window_leave(&scheduler->window, sequence);
	*event_list_next(events) = finished;
	block_manager_release_all(&scheduler->blocks, sequence);
	sequence->status = SEQUENCE_FINISHED;
	if (is_running) {
		row_release(scheduler, sequence);
	}
	queue_remove(is_running ? &scheduler->running : &scheduler->waiting, sequence);
	queue_push_back(&scheduler->finished, sequence);
}

/* With is_async a sequence may have a row in the step behind the one that is applied. Its tokens
   are in flight; those before them are computed. The block they fill is registered here if no
   decision came by since its last token is known. Returns the tokens in flight. */
static uint32_t settle_flight(struct scheduler *scheduler, struct sequence *sequence)
{
	uint32_t in_flight = sequence->scheduled_count;

	sequence_settle(sequence, scheduler->window.clock);
	if (!scheduler->before.is_undone) {
		in_flight = 0;
	} else if (in_flight == 0 && !scheduler->visits_all) {
		in_flight = sequence->is_decoding;
	}
	if (scheduler->config.prefix_caching == PREFIX_CACHING_ON) {
		block_manager_register_up_to(
			&scheduler->blocks, sequence, sequence->computed_count - in_flight);
	}
	return in_flight;
}

/* An EOS was not foreseen: the row behind it computes for nothing. */
static void drop_flight(struct scheduler *scheduler, struct sequence *sequence)
{
	window_leave(&scheduler->window, sequence);
	sequence->token_count--;
	sequence->computed_count--;
	record_sequence(scheduler, EVENT_DROP, sequence, sequence->token_count, 0);
}

/* Appends a sampled token, and ends the sequence if it is its last. */
static void apply_row(struct scheduler *scheduler, const struct placement *placement,
	struct event_list *events, const int32_t *token_id)
{
	struct sequence *sequence = placement->sequence;
	uint32_t last = placement->first + placement->count;
	uint32_t in_flight = 0;

	if (sequence->status == SEQUENCE_FINISHED) {
		return; /* by an EOS in the step before */
	}
	if (!sequence->is_forced) {
		sequence->token_ids[last] = *token_id;
	}
	if (scheduler->config.is_async && sequence->status == SEQUENCE_RUNNING) {
		in_flight = settle_flight(scheduler, sequence);
	}
	bool is_eos = !sequence->ignore_eos &&
		      engine_config_is_eos(&scheduler->config, sequence->token_ids[last]);
	if (is_eos && in_flight > 0) {
		drop_flight(scheduler, sequence);
	}
	if (is_eos || last + 1 - sequence->prompt_count == sequence->max_tokens) {
		finish(scheduler, sequence, events);
	}
}

/* A sequence returned by scheduler_take_finished() stays valid for one more step: with steps
   launched ahead, the events of a step are recorded after the next one has been decided. With
   is_async the step behind its last one may have a row of it, and stays for one step more. */
static void recycle(struct scheduler *scheduler)
{
	bool is_async = scheduler->config.is_async;
	struct sequence_queue *queue = is_async ? &scheduler->retired : &scheduler->given;
	struct sequence *sequence;

	while ((sequence = queue->head) != NULL) {
		queue_remove(queue, sequence);
		sequence_deinit(sequence);
		queue_push_back(&scheduler->unused, sequence);
	}
	while (is_async && (sequence = scheduler->given.head) != NULL) {
		queue_remove(&scheduler->given, sequence);
		queue_push_back(&scheduler->retired, sequence);
	}
}

uint32_t scheduler_undone_count(const struct scheduler *scheduler)
{
	return (uint32_t)scheduler->is_undone + scheduler->before.is_undone;
}

void scheduler_postprocess(struct scheduler *scheduler, const int32_t *token_ids)
{
	struct decided_step *before = &scheduler->before;
	bool is_before = before->is_undone;
	const struct placement *placements = is_before ? before->placements : scheduler->placements;
	uint32_t count = is_before ? before->placement_count : scheduler->placement_count;

	check((token_ids != NULL) == scheduler->is_computing);
	scheduler->has_newcomers = false;
	recycle(scheduler);
	if (!scheduler->config.is_async) {
		advance_all(scheduler);
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!scheduler->config.is_async) {
			placements[i].sequence->scheduled_count = 0;
		}
		if (placements[i].is_sampled) {
			apply_row(scheduler, &placements[i],
				is_before ? &before->events : &scheduler->events,
				token_ids == NULL ? NULL : token_ids + placements[i].sample);
		}
	}
	if (scheduler->window.outside_count > 0) {
		window_extend(&scheduler->window, &scheduler->running);
	}
	if (is_before) {
		before->is_undone = false;
	} else {
		scheduler->is_undone = false;
		scheduler->events_are_past = true;
	}
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
