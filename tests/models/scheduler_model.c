#include "tests/models/scheduler_model.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/integer.h"
#include "engine/policy.h"
#include "tests/harness/require.h"

enum { MODEL_HEADS = 2, MODEL_PROCESSORS = 3, MODEL_TILES = 4 * MODEL_SEQUENCES };

/* ---- queues ---- */

static void push_back(struct model_queue *queue, uint32_t item)
{
	require(queue->count < MODEL_SEQUENCES, "the model's queue is full");
	queue->items[queue->count++] = item;
}

static void push_front(struct model_queue *queue, uint32_t item)
{
	require(queue->count < MODEL_SEQUENCES, "the model's queue is full");
	for (uint32_t i = queue->count; i > 0; i--) {
		queue->items[i] = queue->items[i - 1];
	}
	queue->items[0] = item;
	queue->count++;
}

static void remove_item(struct model_queue *queue, uint32_t item)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < queue->count; i++) {
		if (queue->items[i] != item) {
			queue->items[kept++] = queue->items[i];
		}
	}
	require(kept + 1 == queue->count, "the model's queue is broken");
	queue->count = kept;
}

/* ---- life ---- */

void scheduler_model_init(struct scheduler_model *model, const struct engine_config *config)
{
	memset(model, 0, sizeof(*model));
	model->config = *config;
	model->is_mixed = config->policy == &policy_mixed;
	model->spread = (struct prefill_spread){MODEL_HEADS, MODEL_PROCESSORS};
	model->readers = config->kv_block_count % 4;
	model->max_running = model->is_mixed ? config->max_num_seqs : config->kv_block_count;
	block_model_init(&model->blocks, config->kv_block_count, config->block_size);
}

void scheduler_model_deinit(struct scheduler_model *model)
{
	block_model_deinit(&model->blocks);
}

void scheduler_model_add(struct scheduler_model *model, const struct request *request)
{
	require(model->sequence_count < MODEL_SEQUENCES, "the model has no room for a sequence");
	require(request->prompt_count + request->max_tokens <= BLOCK_MODEL_TOKENS,
		"the model has no room for so many tokens");
	struct model_sequence *sequence = &model->sequences[model->sequence_count];
	sequence->request = request->id;
	memcpy(sequence->tokens, request->prompt, request->prompt_count * sizeof(int32_t));
	sequence->token_count = request->prompt_count;
	sequence->prompt_count = request->prompt_count;
	sequence->max_tokens = request->max_tokens;
	sequence->ignore_eos = request->ignore_eos;
	push_back(&model->waiting, model->sequence_count);
	model->sequence_count++;
}

/* ---- what decisions mean ---- */

static void event(
	struct scheduler_model *model, enum event_kind kind, uint32_t index, uint64_t a, uint64_t b)
{
	require(model->event_count < MODEL_EVENTS, "the model has no room for events");
	model->events[model->event_count++] = (struct model_event){
		.kind = kind, .request = model->sequences[index].request, .a = a, .b = b};
}

static void preempt(struct scheduler_model *model, uint32_t index)
{
	struct model_sequence *sequence = &model->sequences[index];
	event(model, EVENT_PREEMPT, index, sequence->computed, sequence->table.count);
	block_model_release_all(&model->blocks, &sequence->table);
	if (sequence->computed > sequence->computed_high) {
		sequence->computed_high = sequence->computed;
	}
	sequence->computed = 0;
	sequence->cached = 0;
	sequence->is_prompt_computed = false;
	sequence->preemptions++;
	remove_item(&model->running, index);
	push_front(&model->waiting, index);
	model->counts.preemptions++;
}

static void place(struct scheduler_model *model, uint32_t index, uint32_t count, bool is_decode)
{
	struct model_sequence *sequence = &model->sequences[index];
	uint32_t first = sequence->computed;
	for (uint32_t i = 0; i < model->row_count; i++) {
		require(model->rows[i].sequence != index, "the model places a sequence twice");
	}
	model->rows[model->row_count++] = (struct model_row){
		.sequence = index,
		.first = first,
		.count = count,
		.is_decode = is_decode,
		.is_sampled = first + count == sequence->token_count,
	};
	if (model->config.prefix_caching == PREFIX_CACHING_ON) {
		block_model_register_filled(
			&model->blocks, &sequence->table, sequence->tokens, first, first + count);
	}
	if (!is_decode) {
		event(model, EVENT_CHUNK, index, first, count);
		model->events[model->event_count - 1].is_sampled =
			first + count == sequence->token_count;
	}
}

/* Gives one running sequence its next token; whether it is still running. */
static bool decode(struct scheduler_model *model, uint32_t index)
{
	struct model_sequence *sequence = &model->sequences[index];
	require(sequence->computed + 1 == sequence->token_count, "a decode computes one token");
	if (sequence->table.count * model->config.block_size < sequence->token_count) {
		while (model->blocks.free_count == 0) {
			uint32_t victim = model->running.items[model->running.count - 1];
			preempt(model, victim);
			if (victim == index) {
				return false;
			}
		}
		uint32_t block = block_model_take(&model->blocks);
		event(model, EVENT_BLOCK_GIVEN, index, sequence->table.count, block);
		sequence->table.blocks[sequence->table.count++] = block;
	}
	place(model, index, 1, true);
	return true;
}

static uint32_t lowest_free_row(const struct scheduler_model *model)
{
	for (uint32_t row = 0;; row++) {
		bool is_free = true;
		for (uint32_t i = 0; i < model->running.count; i++) {
			is_free = is_free && model->sequences[model->running.items[i]].row != row;
		}
		if (is_free) {
			return row;
		}
	}
}

static void admit(struct scheduler_model *model, uint32_t index, uint32_t hits)
{
	struct model_sequence *sequence = &model->sequences[index];
	remove_item(&model->waiting, index);
	block_model_allocate(
		&model->blocks, &sequence->table, sequence->tokens, sequence->token_count, hits);
	sequence->cached = hits * model->config.block_size;
	sequence->computed = sequence->cached;
	sequence->row = lowest_free_row(model);
	push_back(&model->running, index);
	model->counts.cached_tokens += sequence->cached;
	event(model, EVENT_ADMIT, index, sequence->cached, sequence->token_count);
	for (uint32_t i = 0; i < sequence->table.count; i++) {
		event(model, EVENT_BLOCK_GIVEN, index, i, sequence->table.blocks[i]);
	}
}

/* ---- policies ---- */

/* What the head of the waiting queue lacks: what would stop an admission even if all else were
   there, seats before blocks before tokens. */
static enum wait_cause cause_of(
	const struct scheduler_model *model, uint32_t seats, uint32_t budget, bool must_fit)
{
	const struct engine_config *config = &model->config;
	const struct model_sequence *head = &model->sequences[model->waiting.items[0]];
	uint32_t hits = block_model_hits(&model->blocks, head->tokens, head->token_count);
	uint32_t blocks = (head->token_count + config->block_size - 1) / config->block_size;
	bool is_seed = config->admission == ADMISSION_SEED;
	uint32_t tokens =
		is_seed ? head->token_count : head->token_count - hits * config->block_size;

	if (seats == 0) {
		return WAIT_SEATS;
	}
	if (budget == 0 && !must_fit) {
		return WAIT_BUDGET;
	}
	bool has_blocks =
		block_model_can_allocate(&model->blocks, head->tokens, head->token_count, hits);
	if (!has_blocks || (is_seed && must_fit && blocks > model->blocks.free_count)) {
		return WAIT_BLOCKS;
	}
	require(must_fit && tokens > budget, "nothing stops the head, and it was not admitted");
	return WAIT_BUDGET;
}

static void prefill_first(struct scheduler_model *model)
{
	const struct engine_config *config = &model->config;
	uint32_t batched = 0;
	while (model->waiting.count > 0 && model->row_count < config->max_num_seqs) {
		uint32_t index = model->waiting.items[0];
		struct model_sequence *head = &model->sequences[index];
		uint32_t hits = block_model_hits(&model->blocks, head->tokens, head->token_count);
		uint32_t uncached = head->token_count - hits * config->block_size;
		bool is_seed = config->admission == ADMISSION_SEED;
		uint32_t counted = is_seed ? head->token_count : uncached;
		if (batched + counted > config->max_num_batched_tokens ||
			!block_model_can_allocate(
				&model->blocks, head->tokens, head->token_count, hits)) {
			break;
		}
		uint32_t blocks = (head->token_count + config->block_size - 1) / config->block_size;
		if (is_seed && blocks > model->blocks.free_count) {
			break;
		}
		admit(model, index, hits);
		place(model, index, uncached, false);
		batched += uncached;
	}
	if (model->waiting.count > 0) {
		model->wait_cause = cause_of(model, config->max_num_seqs - model->row_count,
			config->max_num_batched_tokens - batched, true);
	}
	if (model->row_count > 0) {
		return;
	}
	for (uint32_t i = 0; i < model->running.count && i < config->max_num_seqs; i++) {
		if (!decode(model, model->running.items[i])) {
			break;
		}
	}
}

static void mixed(struct scheduler_model *model)
{
	const struct engine_config *config = &model->config;
	uint32_t budget = config->max_num_batched_tokens;
	for (uint32_t i = 0; i < model->running.count; i++) {
		uint32_t index = model->running.items[i];
		struct model_sequence *sequence = &model->sequences[index];
		if (sequence->is_prompt_computed) {
			budget -= decode(model, index) ? 1 : 0;
			continue;
		}
		require(i + 1 == model->running.count, "only the last may be in mid-prompt");
		uint32_t rest = sequence->token_count - sequence->computed;
		uint32_t chunk = rest < budget ? rest : budget;
		require(chunk > 0, "a prompt in progress gets nothing");
		place(model, index, chunk, false);
		budget -= chunk;
	}
	if (model->counts.preemptions > 0) {
		model->wait_cause = WAIT_BLOCKS; /* the pool was too small for those running */
		return;
	}
	while (model->waiting.count > 0 && budget > 0 &&
		model->running.count < config->max_num_seqs) {
		uint32_t index = model->waiting.items[0];
		struct model_sequence *head = &model->sequences[index];
		uint32_t hits = block_model_hits(&model->blocks, head->tokens, head->token_count);
		if (!block_model_can_allocate(
			    &model->blocks, head->tokens, head->token_count, hits)) {
			break;
		}
		admit(model, index, hits);
		uint32_t rest = head->token_count - head->computed;
		uint32_t chunk = rest < budget ? rest : budget;
		place(model, index, chunk, false);
		budget -= chunk;
	}
	if (model->waiting.count > 0) {
		model->wait_cause =
			cause_of(model, config->max_num_seqs - model->running.count, budget, false);
	}
}

/* Rows of the step that decode, or do not, and hold a block. */
static uint32_t holders(const struct scheduler_model *model, uint32_t block, bool is_decode)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < model->row_count; i++) {
		const struct model_row *row = &model->rows[i];
		const struct block_model_table *table = &model->sequences[row->sequence].table;
		for (uint32_t j = 0; j < table->count && row->is_decode == is_decode; j++) {
			count += table->blocks[j] == block;
		}
	}
	return count;
}

static void count_shared(struct scheduler_model *model)
{
	uint64_t parts = 0; /* 1 / 65536 of a block */
	uint64_t repeats = 0;

	for (uint32_t block = 0; block < model->config.kv_block_count; block++) {
		uint32_t count = holders(model, block, true);
		uint32_t prompts = holders(model, block, false);
		model->counts.prefill_shared_tokens +=
			prompts > 1 ? (prompts - 1) * model->config.block_size : 0;
		if (count > 1) {
			model->counts.shared_tokens += (count - 1) * model->config.block_size;
			parts += (uint64_t)(count - 1) * 65536 / count;
			repeats += model->readers == 0
					   ? 0
					   : (count + model->readers - 1) / model->readers - 1;
		}
	}
	model->counts.reread_tokens = parts * model->config.block_size / 65536;
	model->counts.repeat_tokens = repeats * model->config.block_size;
}

/* All heads' tiles, dealt one by one to the multiprocessors and back again, the longest of those
   that are left each time. */
static uint64_t longest_chain(const struct scheduler_model *model)
{
	static uint64_t tiles[MODEL_HEADS * MODEL_TILES];
	static uint64_t loads[MODEL_HEADS * MODEL_TILES];
	uint64_t longest = 0;
	uint32_t count = 0, all = model->spread.multiprocessors;

	for (uint32_t i = 0; i < model->row_count; i++) {
		const struct model_row *row = &model->rows[i];
		for (uint32_t first = 0; !row->is_decode && first < row->count; first += 128) {
			uint32_t end = first + 128 < row->count ? first + 128 : row->count;
			for (uint32_t head = 0; head < model->spread.heads; head++) {
				require(count < sizeof(tiles) / sizeof(tiles[0]), "too many tiles");
				tiles[count++] = row->first + end;
			}
		}
	}
	for (uint32_t place = 0; place < count; place++) {
		uint32_t at = 0, round = place / all, turn = place % all;
		for (uint32_t i = 1; i < count; i++) {
			at = tiles[i] > tiles[at] ? i : at;
		}
		uint32_t to = round % 2 == 0 ? turn : all - 1 - turn;
		require(to < sizeof(loads) / sizeof(loads[0]), "too many multiprocessors");
		loads[to] = (round == 0 ? 0 : loads[to]) + tiles[at];
		longest = loads[to] > longest ? loads[to] : longest;
		tiles[at] = 0;
	}
	return longest;
}

/* Halves of keys: a tile counts both where it is more than half full. All tiles in falling order of
   that, and the tiles of each prompt alone, its last one first. */
static uint64_t longest_half_chain(const struct scheduler_model *model)
{
	static uint64_t work[MODEL_TILES], loads[MODEL_HEADS * MODEL_TILES];
	uint64_t most = 0, longest = 0, heads = model->spread.heads;
	uint32_t all = model->spread.multiprocessors, tiles = 0;

	for (uint32_t i = 0; i < model->row_count; i++) {
		const struct model_row *row = &model->rows[i];
		uint32_t own = row->is_decode ? 0 : (row->count + 127) / 128;
		memset(loads, 0, sizeof(loads));
		longest = row->is_decode ? longest : u64_max(longest, row->first + row->count);
		for (uint32_t j = 0; j < own; j++) {
			uint32_t begin = (own - 1 - j) * 128;
			uint32_t end = begin + 128 < row->count ? begin + 128 : row->count;
			uint64_t each = row->first + end;
			each *= end - begin > 64 ? 2 : 1;
			require(tiles < MODEL_TILES, "too many tiles");
			work[tiles++] = each;
			for (uint64_t place = j * heads; place < (j + 1) * heads; place++) {
				uint64_t turn = place % all;
				turn = place / all % 2 == 0 ? turn : all - 1 - turn;
				loads[turn] += each;
				most = u64_max(most, loads[turn]);
			}
		}
	}
	if (2 * tiles * heads <= all) {
		return (longest + 1) / 2;
	}
	memset(loads, 0, sizeof(loads));
	for (uint32_t place = 0, at = 0; place < tiles * heads; place++) {
		if (place % heads == 0) {
			at = 0;
			for (uint32_t i = 1; i < tiles; i++) {
				at = work[i] > work[at] ? i : at;
			}
		}
		uint32_t turn = place % all;
		turn = place / all % 2 == 0 ? turn : all - 1 - turn;
		loads[turn] += work[at];
		most = u64_max(most, loads[turn]);
		work[at] = (place + 1) % heads == 0 ? 0 : work[at];
	}
	return (most + 1) / 2;
}

static void count_rows(struct scheduler_model *model)
{
	struct step_counts *counts = &model->counts;
	for (uint32_t i = 0; i < model->row_count; i++) {
		const struct model_row *row = &model->rows[i];
		counts->sampled_rows += row->is_sampled;
		if (row->is_decode) {
			counts->decode_rows++;
			counts->decode_context_tokens += row->first + 1;
			counts->decode_longest_context =
				u64_max(counts->decode_longest_context, row->first + 1);
			continue;
		}
		counts->prefill_rows++;
		counts->prefill_tokens += row->count;
		counts->prefill_longest_context =
			u64_max(counts->prefill_longest_context, row->first + row->count);
		counts->prefill_context_tokens += row->first + row->count;
		for (uint32_t token = row->first; token < row->first + row->count; token++) {
			bool is_last = token + 1 == row->first + row->count;
			counts->prefill_attention_pairs += token + 1;
			if (is_last || (token - row->first) % 128 == 127) {
				counts->prefill_tiles++;
				counts->prefill_tile_keys += token + 1;
			}
		}
	}
	counts->prefill_chain_keys = longest_chain(model);
	counts->prefill_half_chain_keys = longest_half_chain(model);
	counts->running = model->running.count;
	counts->waiting = model->waiting.count;
	counts->used_blocks = model->config.kv_block_count - model->blocks.free_count;
	count_shared(model);
	counts->cached_free_blocks = block_model_cached_free_count(&model->blocks);
	counts->free_blocks = model->blocks.free_count;
}

void scheduler_model_schedule(struct scheduler_model *model)
{
	model->row_count = 0;
	model->event_count = 0;
	memset(&model->counts, 0, sizeof(model->counts));
	model->wait_cause = WAIT_BLOCKS; /* of sequences that the step preempts */
	if (model->is_mixed) {
		mixed(model);
	} else {
		prefill_first(model);
	}
	count_rows(model);
}

void scheduler_model_postprocess(struct scheduler_model *model, const int32_t *token_ids)
{
	for (uint32_t i = 0; i < model->row_count; i++) {
		const struct model_row *row = &model->rows[i];
		struct model_sequence *sequence = &model->sequences[row->sequence];
		sequence->computed += row->count;
		if (!row->is_sampled) {
			continue;
		}
		int32_t token = *token_ids++;
		sequence->is_prompt_computed = true;
		sequence->tokens[sequence->token_count++] = token;
		uint32_t completion = sequence->token_count - sequence->prompt_count;
		if (completion == sequence->max_tokens ||
			(!sequence->ignore_eos && token == model->config.eos_token_id)) {
			event(model, EVENT_FINISH, row->sequence, completion,
				sequence->table.count);
			block_model_release_all(&model->blocks, &sequence->table);
			remove_item(&model->running, row->sequence);
			push_back(&model->finished, row->sequence);
		}
	}
}

/* ---- comparison ---- */

static void same_events(const struct scheduler_model *model, const struct scheduler *real)
{
	static const char *const names[] = {
#define EVENT_NAME(kind, name) name,
		EVENT_LIST(EVENT_NAME)
#undef EVENT_NAME
	};
	for (uint32_t i = 0; i < model->event_count && i < real->events.count; i++) {
		const struct model_event *expected = &model->events[i];
		const struct event *found = &real->events.events[i];
		require(found->kind == expected->kind && found->request == expected->request &&
				found->a == expected->a && found->b == expected->b,
			"event %u of step %" PRIu64 " is %s of request %" PRIu64 " (%" PRIu64
			", %" PRIu64 "), the model says %s of %" PRIu64 " (%" PRIu64 ", %" PRIu64
			")",
			i, real->batch.step, names[found->kind], found->request, found->a, found->b,
			names[expected->kind], expected->request, expected->a, expected->b);
		require_equal(found->is_sampled, expected->is_sampled);
		require(found->sequence != NULL && found->sequence->request == found->request,
			"event %u does not point to its sequence", i);
	}
	require_equal(real->events.count, model->event_count);
}

static void same_counts(const struct step_counts *found, const struct step_counts *expected)
{
#define SAME_COUNT(column) require_equal(found->column, expected->column);
	STEP_COUNT_LIST(SAME_COUNT)
#undef SAME_COUNT
}

static void same_sequence(const struct scheduler_model *model, const struct scheduler *real,
	const struct sequence *found, const struct model_sequence *expected, bool is_running)
{
	struct sequence settled = *found;
	sequence_settle(&settled, real->window.clock);
	require_equal(settled.request, expected->request);
	require(&real->pool[settled.slot] == found, "a sequence is not where it says it is");
	require_equal(settled.prompt_count, expected->prompt_count);
	require_equal(settled.token_count, expected->token_count);
	require_equal(settled.computed_count, expected->computed);
	require_equal(settled.computed_high, expected->computed_high);
	require_equal(settled.preemption_count, expected->preemptions);
	require_equal(settled.block_count, expected->table.count);
	for (uint32_t i = 0; i < settled.block_count; i++) {
		require(settled.block_table[i] == expected->table.blocks[i],
			"entry %u of request %" PRIu64 "'s block table is %u, the model's is %u", i,
			settled.request, settled.block_table[i], expected->table.blocks[i]);
	}
	for (uint32_t i = 0; i < settled.token_count; i++) {
		require(settled.token_ids[i] == expected->tokens[i],
			"token %u of request %" PRIu64 " is %d, the model's is %d", i,
			settled.request, settled.token_ids[i], expected->tokens[i]);
	}
	if (is_running) {
		require_equal(settled.cached_count, expected->cached);
		require_equal(settled.row, expected->row);
		require_equal(sequence_num_cached_blocks(&settled, model->config.block_size),
			expected->cached / model->config.block_size);
	}
}

static void same_queue(const struct scheduler_model *model, const struct scheduler *real,
	const struct sequence_queue *found, const struct model_queue *expected, const char *name)
{
	const struct sequence *sequence = found->head;
	for (uint32_t i = 0; i < expected->count; i++) {
		const struct model_sequence *own = &model->sequences[expected->items[i]];
		require(sequence != NULL && sequence->request == own->request,
			"place %u of the %s queue has request %" PRId64
			", the model's has %" PRIu64,
			i, name, sequence == NULL ? -1 : (int64_t)sequence->request, own->request);
		same_sequence(model, real, sequence, own, expected == &model->running);
		sequence = sequence->next;
	}
	require(sequence == NULL, "the %s queue has more than the model's %u", name,
		expected->count);
	require_equal(found->count, expected->count);
}

static void same_row(const struct scheduler_model *model, const struct batch *batch, uint32_t index)
{
	const struct model_row *row = &model->rows[index];
	const struct model_sequence *sequence = &model->sequences[row->sequence];
	uint32_t block_size = model->config.block_size;
	uint32_t start = batch->query_start[index];
	require_equal(batch->row[index], sequence->row);
	require_equal(batch->request[index], sequence->request);
	require_equal(batch->query_start[index + 1] - start, row->count);
	require_equal(batch->context_length[index], row->first + row->count);
	require_equal(batch->is_sampled[index], row->is_sampled);
	require_equal(batch->sample_position[index], row->first + row->count);
	for (uint32_t i = 0; i < row->count; i++) {
		uint32_t position = row->first + i;
		uint32_t block = sequence->table.blocks[position / block_size];
		require_equal(batch->position[start + i], position);
		require_equal(batch->slot[start + i], block * block_size + position % block_size);
		require((row->is_decode && batch->token_id[start + i] == -1) ||
				batch->token_id[start + i] == sequence->tokens[position],
			"token %u of row %u is %d, the model's is %d", i, index,
			batch->token_id[start + i], sequence->tokens[position]);
	}
}

/* The batch adds to block tables what the events say. */
static void same_additions(const struct scheduler_model *model, const struct batch *batch)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < model->event_count; i++) {
		const struct model_event *given = &model->events[i];
		if (given->kind != EVENT_BLOCK_GIVEN) {
			continue;
		}
		require(count < batch->addition_count,
			"a block was given and not added to the batch");
		const struct block_addition *addition = &batch->additions[count++];
		require_equal(addition->index, given->a);
		require_equal(addition->block, given->b);
		for (uint32_t j = 0; j < model->running.count; j++) {
			const struct model_sequence *own =
				&model->sequences[model->running.items[j]];
			require(own->request != given->request || own->row == addition->row,
				"a block was given to another row");
		}
	}
	require_equal(batch->addition_count, count);
}

static void same_batch(const struct scheduler_model *model, const struct batch *batch)
{
	require_equal(batch->row_count, model->row_count);
	require_equal(batch->query_start[0], 0);
	for (uint32_t i = 0; i < model->row_count; i++) {
		same_row(model, batch, i);
	}
	require_equal(batch->token_count, batch->query_start[batch->row_count]);
	same_additions(model, batch);
}

/* Each running sequence knows how many of its tokens the step computes. */
static void same_placed(const struct scheduler_model *model, const struct scheduler *real)
{
	for (const struct sequence *s = real->running.head; s != NULL; s = s->next) {
		uint32_t placed = 0;
		for (uint32_t i = 0; i < model->row_count; i++) {
			const struct model_row *row = &model->rows[i];
			bool is_own = model->sequences[row->sequence].request == s->request;
			placed += is_own ? row->count : 0;
		}
		require_equal(s->scheduled_count, placed);
	}
}

void scheduler_model_require_same(
	const struct scheduler_model *model, const struct scheduler *real, bool is_scheduled)
{
	scheduler_check(real);
	same_events(model, real);
	same_queue(model, real, &real->waiting, &model->waiting, "waiting");
	same_queue(model, real, &real->running, &model->running, "running");
	same_queue(model, real, &real->finished, &model->finished, "finished");
	block_model_require_same(&model->blocks, &real->blocks);
	same_counts(&real->batch.counts, &model->counts);
	require(!is_scheduled || model->waiting.count == 0 || real->wait_cause == model->wait_cause,
		"the head waits for cause %d, the model says %d", (int)real->wait_cause,
		(int)model->wait_cause);
	if (is_scheduled && real->is_computing) {
		same_batch(model, &real->batch);
		same_placed(model, real);
	}
}
