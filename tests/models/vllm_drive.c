#include "tests/models/vllm_drive.h"

#include <string.h>

#include "engine/base/integer.h"
#include "engine/policy.h"
#include "tests/harness/require.h"

struct engine_config vllm_engine_config(const struct vllm_rules *rules)
{
	return (struct engine_config){
		.policy = &policy_vllm,
		.prefix_caching =
			rules->has_prefix_caching ? PREFIX_CACHING_ON : PREFIX_CACHING_OFF,
		.allocation = policy_vllm.defaults.allocation,
		.strategies = {.free_order = policy_vllm.defaults.free_order,
			.equal_blocks = policy_vllm.defaults.equal_blocks,
			.has_null_block = policy_vllm.defaults.has_null_block},
		.block_size = rules->block_size,
		.kv_block_count = rules->num_blocks,
		.max_num_seqs = rules->max_num_seqs,
		.max_num_batched_tokens = rules->max_num_batched_tokens,
		.max_model_len = rules->max_model_len,
		.eos_token_id = rules->eos,
		.is_async = rules->is_async,
		.queue_order = rules->is_priority ? QUEUE_PRIORITY : QUEUE_FCFS,
		.has_whole_prompts = !rules->has_chunked_prefill,
		.has_no_full_gate = !rules->reserves_full_isl,
		.long_prefill_threshold = rules->long_prefill_token_threshold,
		.watermark = rules->watermark,
	};
}

void vllm_drive_init(
	struct vllm_drive *drive, const struct vllm_rules *rules, enum vllm_feeding feeding)
{
	const struct engine_config config = vllm_engine_config(rules);

	memset(drive, 0, sizeof(*drive));
	drive->feeding = feeding;
	scheduler_init(&drive->real, &config, feeding != VLLM_COUNTED);
	drive->real.window.sharing.readers = config.kv_block_count % 4;
}

void vllm_drive_deinit(struct vllm_drive *drive)
{
	scheduler_deinit(&drive->real);
}

/* Keeps the order of times that are not negative. */
static uint64_t ordered(double time)
{
	uint64_t bits;

	require(time >= 0, "a request arrives before 0");
	memcpy(&bits, &time, sizeof(bits));
	return bits;
}

static void append(struct vllm_list *list, uint64_t item)
{
	require(list->count < VLLM_LIST, "a list is full");
	list->items[list->count++] = (uint32_t)item;
}

void vllm_drive_add(struct vllm_drive *drive, uint32_t id, const struct vllm_request *request)
{
	require(id < VLLM_REQUESTS, "there is no room for so many requests");
	drive->requests[id] = request;
	append(&drive->backlog, id);
}

/* As many requests as the scheduler takes. */
static void feed(struct vllm_drive *drive)
{
	struct scheduler *real = &drive->real;
	uint32_t fed = 0;

	while (fed < drive->backlog.count && real->waiting.count < real->max_waiting) {
		uint32_t id = drive->backlog.items[fed++];
		const struct vllm_request *own = drive->requests[id];
		const int32_t *answer = own->tokens + own->prompt_count;
		scheduler_add(
			real, &(struct request){
				      .id = id,
				      .prompt = own->tokens,
				      .prompt_count = own->prompt_count,
				      .forced = drive->feeding == VLLM_SAMPLED ? NULL : answer,
				      .max_tokens = own->max_tokens,
				      .priority = own->priority,
				      .arrival = ordered(own->arrival_time),
				      .ignore_eos = own->ignore_eos,
			      });
	}
	drive->backlog.count -= fed;
	memmove(drive->backlog.items, drive->backlog.items + fed,
		drive->backlog.count * sizeof(uint32_t));
}

void vllm_drive_free_list(const struct vllm_drive *drive, struct vllm_list *list)
{
	const struct block_manager *blocks = &drive->real.blocks;

	list->count = 0;
	for (uint32_t id = blocks->free_head; id != BLOCK_NONE; id = blocks->links[id].next) {
		append(list, id);
	}
}

static void list_queue(struct vllm_list *list, const struct sequence_queue *queue)
{
	for (const struct sequence *s = queue->head; s != NULL; s = s->next) {
		append(list, s->request);
	}
}

/* ---- rows ---- */

/* Blocks that a sequence was given, and how its row came about. */
static void finish_row(struct vllm_drive *drive, struct vllm_row *row)
{
	const struct event_list *events = &drive->real.events;

	row->kind = 'C';
	row->first_block = drive->now.blocks.count;
	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->events[i];
		if (event->kind == EVENT_REJECT || event->request != row->request) {
			continue;
		}
		if (event->kind == EVENT_ADMIT) {
			row->kind = event->sequence->preemption_count == 0 ? 'N' : 'R';
			require_equal(event->a, row->first);
		} else if (event->kind == EVENT_BLOCK_GIVEN) {
			append(&drive->now.blocks, event->b);
			row->block_count++;
		}
	}
}

static const struct placement *placement_of(
	const struct scheduler *real, const struct sequence *sequence)
{
	for (uint32_t i = 0; i < real->placement_count; i++) {
		if (real->placements[i].sequence == sequence) {
			return &real->placements[i];
		}
	}
	return NULL;
}

/* The row of a running sequence; false: it has none. Sequences that need nothing from the scheduler
   get their token without a placement. */
static bool row_of(
	const struct scheduler *real, const struct sequence *sequence, struct vllm_row *row)
{
	const struct placement *placement = placement_of(real, sequence);
	struct sequence settled = *sequence;

	*row = (struct vllm_row){.request = (uint32_t)sequence->request, .count = 1};
	if (placement != NULL) {
		row->first = placement->first;
		row->count = placement->count;
		row->is_sampled = placement->is_sampled;
		row->is_decode = placement->is_decode;
		return true;
	}
	sequence_settle(&settled, real->window.clock);
	/* An asynchronous step has moved its sequences already. */
	row->first = settled.computed_count - real->config.is_async;
	row->is_sampled = true;
	row->is_decode = true;
	require(!real->visits_all || !sequence->is_decoding, "a decode was not visited");
	return sequence->is_decoding;
}

/* What a step counts follows from its rows, whatever rows were withdrawn from it. */
static void require_counts(const struct step_counts *counts, const struct vllm_step *now)
{
	struct step_counts own = {0};

	for (uint32_t i = 0; i < now->row_count; i++) {
		const struct vllm_row *row = &now->rows[i];
		uint64_t context = row->first + row->count;
		own.sampled_rows += row->is_sampled;
		if (row->is_decode) {
			own.decode_rows++;
			own.decode_context_tokens += context;
			own.decode_longest_context = u64_max(own.decode_longest_context, context);
			continue;
		}
		own.prefill_rows++;
		own.prefill_tokens += row->count;
		own.prefill_longest_context = u64_max(own.prefill_longest_context, context);
		own.prefill_context_tokens += context;
		for (uint64_t token = row->first; token < context; token++) {
			bool ends_tile = token + 1 == context || (token - row->first) % 128 == 127;
			own.prefill_attention_pairs += token + 1;
			own.prefill_tiles += ends_tile;
			own.prefill_tile_keys += ends_tile ? token + 1 : 0;
		}
	}
	require_equal(counts->decode_rows, own.decode_rows);
	require_equal(counts->decode_context_tokens, own.decode_context_tokens);
	require_equal(counts->decode_longest_context, own.decode_longest_context);
	require_equal(counts->prefill_rows, own.prefill_rows);
	require_equal(counts->prefill_tokens, own.prefill_tokens);
	require_equal(counts->prefill_attention_pairs, own.prefill_attention_pairs);
	require_equal(counts->prefill_longest_context, own.prefill_longest_context);
	require_equal(counts->prefill_context_tokens, own.prefill_context_tokens);
	require_equal(counts->prefill_tiles, own.prefill_tiles);
	require_equal(counts->prefill_tile_keys, own.prefill_tile_keys);
	require_equal(counts->sampled_rows, own.sampled_rows);
}

/* How many running sequences hold each block, from all of their tables. */
static void count_holders(const struct scheduler *real, uint32_t *holders)
{
	memset(holders, 0, VLLM_BLOCKS * sizeof(*holders));
	for (const struct sequence *s = real->running.head; s != NULL; s = s->next) {
		for (uint32_t i = 0; i < s->block_count; i++) {
			holders[s->block_table[i]]++;
		}
	}
}

/* The same of the sequences with a decode row, or a prefill row, in the step. */
static void count_holders_of_rows(const struct scheduler *real, bool is_decode, uint32_t *holders)
{
	struct vllm_row row;

	memset(holders, 0, VLLM_BLOCKS * sizeof(*holders));
	for (const struct sequence *s = real->running.head; s != NULL; s = s->next) {
		bool is_counted = row_of(real, s, &row) && row.is_decode == is_decode;
		for (uint32_t i = 0; i < s->block_count && is_counted; i++) {
			holders[s->block_table[i]]++;
		}
	}
}

static void require_sharing(const struct scheduler *real, const struct step_counts *counts)
{
	const uint32_t readers = real->window.sharing.readers;
	uint32_t decodes[VLLM_BLOCKS], prompts[VLLM_BLOCKS];
	uint64_t shared = 0, parts = 0, repeats = 0, by_prompts = 0;

	count_holders_of_rows(real, true, decodes);
	count_holders_of_rows(real, false, prompts);
	for (uint32_t id = 1; id < real->config.kv_block_count; id++) {
		uint32_t count = decodes[id];
		shared += count > 1 ? count - 1 : 0;
		parts += count > 1 ? (uint64_t)(count - 1) * 65536 / count : 0;
		for (uint32_t read = readers; read > 0 && read < count; repeats++) {
			read += readers;
		}
		by_prompts += prompts[id] > 1 ? prompts[id] - 1 : 0;
	}
	require_equal(counts->shared_tokens, shared * real->config.block_size);
	require_equal(counts->reread_tokens, parts * real->config.block_size / 65536);
	require_equal(counts->repeat_tokens, repeats * real->config.block_size);
	require_equal(counts->prefill_shared_tokens, by_prompts * real->config.block_size);
}

/* Queues and blocks are counted anew, and what is cached by the events. Block 0 is held by nobody
   and never given. */
static void require_state(const struct scheduler *real, const struct step_counts *counts)
{
	struct vllm_list waiting = {0}, running = {0};
	uint32_t holders[VLLM_BLOCKS];
	uint64_t used = 0, cached_free = 0, cached = 0, preempted = 0;
	const uint32_t block_count = real->config.kv_block_count;

	list_queue(&waiting, &real->waiting);
	list_queue(&running, &real->running);
	count_holders(real, holders);
	for (uint32_t id = 1; id < block_count; id++) {
		uint32_t count = holders[id];
		require_equal(real->blocks.blocks[id].is_free, count == 0);
		used += count > 0;
		cached_free += count == 0 && real->blocks.blocks[id].is_indexed;
	}
	for (size_t i = 0; i < real->events.count; i++) {
		const struct event *event = &real->events.events[i];
		cached += event->kind == EVENT_ADMIT ? event->a : 0;
		preempted += event->kind == EVENT_PREEMPT;
	}
	require_equal(counts->running, running.count);
	require_equal(counts->waiting, waiting.count);
	require_equal(counts->used_blocks, used);
	require_equal(counts->free_blocks, block_count - 1 - used);
	require_equal(counts->cached_free_blocks, cached_free);
	require_equal(counts->cached_tokens, cached);
	require_equal(counts->preemptions, preempted);
}

/* The row of a request; NULL: it has none. */
static const struct vllm_row *row_of_request(const struct vllm_step *now, uint64_t request)
{
	for (uint32_t i = 0; i < now->row_count; i++) {
		if (now->rows[i].request == request) {
			return &now->rows[i];
		}
	}
	return NULL;
}

/* Each prefill row has one event, which says how much of it was computed before a preemption;
   a withdrawn row has none. */
static void require_chunks(struct vllm_drive *drive, const struct vllm_step *now)
{
	const struct event_list *events = &drive->real.events;
	uint64_t chunks = 0;

	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->events[i];
		if (event->kind != EVENT_CHUNK) {
			continue;
		}
		const struct vllm_row *row = row_of_request(now, event->request);
		require(row != NULL && !row->is_decode, "a chunk without a row");
		uint32_t known = drive->computed_high[event->request];
		uint32_t end = u32_min(row->first + row->count, known);
		require_equal(event->a, row->first);
		require_equal(event->b, row->count);
		require_equal(event->is_sampled, row->is_sampled);
		require_equal(event->recomputed, end > row->first ? end - row->first : 0);
		chunks++;
	}
	require_equal(chunks, drive->real.batch.counts.prefill_rows);
	for (uint32_t i = 0; i < now->row_count; i++) {
		const struct vllm_row *row = &now->rows[i];
		uint32_t *high = &drive->computed_high[row->request];
		*high = u32_max(*high, row->first + row->count);
	}
}

static void list_rows(struct vllm_drive *drive)
{
	const struct scheduler *real = &drive->real;
	struct vllm_step *now = &drive->now;

	for (const struct sequence *s = real->running.head; s != NULL; s = s->next) {
		struct vllm_row *row = &now->rows[now->row_count];
		if (row_of(real, s, row)) {
			finish_row(drive, row);
			now->row_count++;
		}
	}
	require_counts(&real->batch.counts, now);
	require_state(real, &real->batch.counts);
	require_sharing(real, &real->batch.counts);
	require_chunks(drive, now);
	require(!real->is_computing || real->batch.row_count == now->row_count,
		"the batch has other rows");
}

/* ---- steps ---- */

static void list_events(struct vllm_drive *drive)
{
	const struct event_list *events = &drive->real.events;

	for (size_t i = 0; i < events->count; i++) {
		const struct event *event = &events->events[i];
		if (event->kind == EVENT_PREEMPT) {
			append(&drive->now.preempted, event->request);
		} else if (event->kind == EVENT_BLOCK_GIVEN && event->has_evicted) {
			append(&drive->now.evicted, event->b);
		}
	}
}

static void list_finished(struct vllm_drive *drive)
{
	const struct sequence *sequence;

	while ((sequence = scheduler_take_finished(&drive->real)) != NULL) {
		const struct vllm_request *own = drive->requests[sequence->request];
		uint32_t count = sequence_completion_count(sequence);
		append(&drive->now.finished, sequence->request);
		drive->answered[sequence->request] = count;
		drive->is_finished[sequence->request] = true;
		require(memcmp(sequence->token_ids, own->tokens,
				(own->prompt_count + count) * sizeof(int32_t)) == 0,
			"request %u has other tokens", (unsigned)sequence->request);
	}
}

static void apply(struct vllm_drive *drive, const struct vllm_step *decided)
{
	int32_t tokens[VLLM_REQUESTS];
	uint32_t count = 0;

	/* The batch has decode rows first. */
	for (uint32_t i = 0; i < 2 * decided->row_count; i++) {
		const struct vllm_row *row = &decided->rows[i % decided->row_count];
		if (row->is_sampled && row->is_decode == (i < decided->row_count)) {
			/* Forced tokens must win over what was sampled. */
			tokens[count++] = drive->feeding == VLLM_SAMPLED
						  ? drive->requests[row->request]
							    ->tokens[row->first + row->count]
						  : 7;
		}
	}
	drive->now.applied = decided->step;
	scheduler_postprocess(&drive->real, drive->feeding == VLLM_COUNTED ? NULL : tokens);
	scheduler_check(&drive->real);
}

static char lack_of(const struct vllm_drive *drive)
{
	static const char lacks[WAIT_CAUSE_COUNT] = {
		[WAIT_SEATS] = 'S', [WAIT_BLOCKS] = 'B', [WAIT_BUDGET] = 'T'};

	return drive->real.waiting.count == 0 && drive->backlog.count == 0
		       ? '-'
		       : lacks[drive->real.wait_cause];
}

void vllm_drive_step(struct vllm_drive *drive, uint32_t step)
{
	struct scheduler *real = &drive->real;
	struct vllm_step *now = &drive->now;

	memset(now, 0, sizeof(*now));
	now->step = step;
	now->applied = VLLM_NOTHING;
	feed(drive);
	now->is_decided = real->waiting.count + real->running.count > 0;
	if (now->is_decided) {
		scheduler_schedule(real);
		scheduler_check(real);
		list_rows(drive);
		list_events(drive);
		now->lack = lack_of(drive);
		now->free_after_schedule = real->blocks.free_count;
	}
	if (!real->config.is_async) {
		apply(drive, now);
	} else if (drive->has_before) {
		apply(drive, &drive->before);
	}
	drive->has_before = real->config.is_async && now->is_decided;
	if (drive->has_before) {
		drive->before = *now;
	}
	require_equal(scheduler_undone_count(real), drive->has_before);
	list_finished(drive);
	now->free_after_step = real->blocks.free_count;
	list_queue(&now->waiting, &real->waiting);
	for (uint32_t i = 0; i < drive->backlog.count; i++) {
		append(&now->waiting, drive->backlog.items[i]);
	}
	list_queue(&now->running, &real->running);
}
