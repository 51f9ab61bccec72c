#include "tests/models/vllm_model.h"

#include <string.h>

#include "tests/harness/require.h"

/* ---- lists ---- */

static void insert(struct vllm_list *list, uint32_t place, uint32_t item)
{
	require(list->count < VLLM_LIST, "a list of the model is full");
	for (uint32_t i = list->count; i > place; i--) {
		list->items[i] = list->items[i - 1];
	}
	list->items[place] = item;
	list->count++;
}

static void append(struct vllm_list *list, uint32_t item)
{
	insert(list, list->count, item);
}

static void remove_at(struct vllm_list *list, uint32_t place)
{
	require(place < list->count, "the model removes what is not there");
	list->count--;
	for (uint32_t i = place; i < list->count; i++) {
		list->items[i] = list->items[i + 1];
	}
}

static uint32_t place_of(const struct vllm_list *list, uint32_t item)
{
	uint32_t place = 0;
	while (place < list->count && list->items[place] != item) {
		place++;
	}
	return place;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- life ---- */

void vllm_model_init(struct vllm_model *model, const struct vllm_rules *rules)
{
	require(rules->num_blocks >= 2 && rules->num_blocks <= VLLM_BLOCKS,
		"the model has no room for so many blocks");
	memset(model, 0, sizeof(*model));
	model->rules = *rules;
	for (uint32_t block = 1; block < rules->num_blocks; block++) {
		append(&model->free, block);
	}
}

/* Whether a goes before b: smaller priority, then earlier, then smaller id. */
static bool precedes(const struct vllm_model *model, uint32_t a, uint32_t b)
{
	const struct vllm_request *first = model->sequences[a].request;
	const struct vllm_request *second = model->sequences[b].request;
	if (first->priority != second->priority) {
		return first->priority < second->priority;
	}
	if (first->arrival_time != second->arrival_time) {
		return first->arrival_time < second->arrival_time;
	}
	return a < b;
}

static void insert_sorted(struct vllm_model *model, uint32_t id)
{
	uint32_t place = 0;
	while (place < model->waiting.count && precedes(model, model->waiting.items[place], id)) {
		place++;
	}
	insert(&model->waiting, place, id);
}

void vllm_model_add(struct vllm_model *model, uint32_t id, const struct vllm_request *request)
{
	require(id < VLLM_REQUESTS, "the model has no room for so many requests");
	require(request->prompt_count + request->max_tokens <= VLLM_TOKENS,
		"the model has no room for so many tokens");
	struct vllm_sequence *sequence = &model->sequences[id];
	memset(sequence, 0, sizeof(*sequence));
	sequence->request = request;
	memcpy(sequence->tokens, request->tokens, request->prompt_count * sizeof(int32_t));
	sequence->known = request->prompt_count;
	if (model->rules.is_priority) {
		insert_sorted(model, id);
	} else {
		append(&model->waiting, id);
	}
}

bool vllm_model_has_work(const struct vllm_model *model)
{
	return model->waiting.count + model->running.count > 0 || model->has_before;
}

/* ---- blocks ---- */

static uint32_t find(const struct vllm_model *model, const int32_t *tokens, uint32_t count)
{
	for (uint32_t i = 0; i < model->entry_count; i++) {
		const struct vllm_entry *entry = &model->entries[i];
		if (entry->token_count == count && memcmp(model->sequences[entry->sequence].tokens,
							   tokens, count * sizeof(*tokens)) == 0) {
			return entry->block;
		}
	}
	return 0;
}

static uint32_t take(struct vllm_model *model)
{
	uint32_t block = model->free.items[0];
	remove_at(&model->free, 0);
	require(model->references[block] == 0, "the model gives a block twice");
	for (uint32_t i = 0; i < model->entry_count; i++) {
		if (model->entries[i].block == block) {
			append(&model->now.evicted, block);
			model->entry_count--;
			memmove(&model->entries[i], &model->entries[i + 1],
				(model->entry_count - i) * sizeof(model->entries[0]));
		}
	}
	model->references[block] = 1;
	return block;
}

/* Registers full blocks up to `tokens`, each once. */
static void register_up_to(
	struct vllm_model *model, struct vllm_sequence *sequence, uint32_t tokens)
{
	uint32_t full = smaller(tokens, sequence->known) / model->rules.block_size;
	for (; model->rules.has_prefix_caching && sequence->registered < full;
		sequence->registered++) {
		require(model->entry_count < VLLM_BLOCKS, "the model registers too much");
		struct vllm_entry *entry = &model->entries[model->entry_count++];
		entry->block = sequence->table.items[sequence->registered];
		entry->token_count = (sequence->registered + 1) * model->rules.block_size;
		entry->sequence = (uint32_t)(sequence - model->sequences);
	}
}

static void release(struct vllm_model *model, struct vllm_sequence *sequence)
{
	uint32_t front = 0;
	while (sequence->table.count > 0) {
		uint32_t place = --sequence->table.count;
		uint32_t block = sequence->table.items[place];
		if (--model->references[block] > 0) {
			continue;
		}
		if (place < sequence->registered) {
			append(&model->free, block);
		} else {
			insert(&model->free, front++, block);
		}
	}
	sequence->registered = 0;
}

/* Leading blocks of a sequence that are in the index. */
static uint32_t hits_of(const struct vllm_model *model, const struct vllm_sequence *sequence)
{
	uint32_t size = model->rules.block_size;
	uint32_t hits = 0;
	while (hits < (sequence->known - 1) / size &&
		find(model, sequence->tokens, (hits + 1) * size) != 0) {
		hits++;
	}
	return hits;
}

/* ---- the decision ---- */

static uint32_t blocks_for(const struct vllm_model *model, uint32_t tokens)
{
	return (tokens + model->rules.block_size - 1) / model->rules.block_size;
}

static struct vllm_row *add_row(
	struct vllm_model *model, uint32_t id, char kind, uint32_t first, uint32_t count)
{
	struct vllm_step *now = &model->now;
	require(now->row_count < VLLM_REQUESTS, "the model has too many rows");
	struct vllm_row *row = &now->rows[now->row_count++];
	*row = (struct vllm_row){.request = id,
		.kind = kind,
		.first = first,
		.count = count,
		.first_block = now->blocks.count};
	return row;
}

static void give(struct vllm_model *model, struct vllm_sequence *sequence, struct vllm_row *row,
	uint32_t block)
{
	append(&sequence->table, block);
	append(&model->now.blocks, block);
	row->block_count++;
}

static void preempt(struct vllm_model *model, uint32_t place)
{
	uint32_t id = model->running.items[place];
	struct vllm_sequence *sequence = &model->sequences[id];
	struct vllm_step *now = &model->now;
	remove_at(&model->running, place);
	release(model, sequence);
	sequence->computed = 0;
	sequence->pending = 0;
	sequence->stale = sequence->in_flight;
	if (model->rules.is_priority) {
		insert_sorted(model, id);
	} else {
		insert(&model->waiting, 0, id);
	}
	append(&now->preempted, id);
	for (uint32_t i = 0; i < now->row_count; i++) {
		if (now->rows[i].request == id) { /* loses its row */
			model->budget += now->rows[i].count;
			now->row_count--;
			memmove(&now->rows[i], &now->rows[i + 1],
				(now->row_count - i) * sizeof(now->rows[0]));
		}
	}
}

/* The place in the running queue of the one to preempt. */
static uint32_t victim_of(const struct vllm_model *model)
{
	if (!model->rules.is_priority) {
		return model->running.count - 1;
	}
	uint32_t worst = 0;
	for (uint32_t i = 1; i < model->running.count; i++) {
		const struct vllm_request *own = model->sequences[model->running.items[i]].request;
		const struct vllm_request *other =
			model->sequences[model->running.items[worst]].request;
		if (own->priority > other->priority ||
			(own->priority == other->priority &&
				own->arrival_time > other->arrival_time)) {
			worst = i;
		}
	}
	return worst;
}

static uint32_t wanted_by(const struct vllm_sequence *sequence)
{
	uint32_t prompt_and_answer =
		sequence->request->prompt_count + sequence->request->max_tokens;
	if (sequence->pending > 0 &&
		sequence->computed + 2 - sequence->pending >= prompt_and_answer) {
		return 0; /* its last token is in flight */
	}
	return sequence->known + sequence->pending - sequence->computed;
}

static uint32_t below_threshold(const struct vllm_model *model, uint32_t tokens, bool is_alone)
{
	uint32_t threshold = model->rules.long_prefill_token_threshold;
	return threshold > 0 && !is_alone ? smaller(tokens, threshold) : tokens;
}

/* Preempts until `needed` blocks are free; whether the sequence itself is still running. */
static bool make_room(struct vllm_model *model, uint32_t id, uint32_t needed)
{
	while (needed > model->free.count) {
		uint32_t place = victim_of(model);
		uint32_t victim = model->running.items[place];
		preempt(model, place);
		if (victim == id) {
			return false;
		}
	}
	return true;
}

static void decide_running(struct vllm_model *model, bool is_alone)
{
	/* Queues change while they are walked, so the walk is over a copy. */
	struct vllm_list order = model->running;
	for (uint32_t i = 0; i < order.count && model->budget > 0; i++) {
		uint32_t id = order.items[i];
		struct vllm_sequence *sequence = &model->sequences[id];
		if (place_of(&model->running, id) == model->running.count) {
			continue; /* preempted before its turn */
		}
		uint32_t n = below_threshold(model, wanted_by(sequence), is_alone);
		n = smaller(n, model->budget);
		n = smaller(n, model->rules.max_model_len - 1 - sequence->computed);
		if (n == 0) {
			continue;
		}
		uint32_t end = blocks_for(model, sequence->computed + n);
		uint32_t held = sequence->table.count;
		uint32_t needed = end > held ? end - held : 0;
		if (!make_room(model, id, needed)) {
			continue;
		}
		struct vllm_row *row = add_row(model, id, 'C', sequence->computed, n);
		for (uint32_t j = 0; j < needed; j++) {
			give(model, sequence, row, take(model));
		}
		register_up_to(model, sequence, sequence->computed + n);
		model->budget -= n;
	}
}

/* Whether the head of the waiting queue was admitted. */
static bool admit_head(struct vllm_model *model, bool is_alone)
{
	const struct vllm_rules *rules = &model->rules;
	uint32_t id = model->waiting.items[0];
	struct vllm_sequence *sequence = &model->sequences[id];
	require(sequence->stale == 0, "rows of a waiting head are in flight");
	uint32_t hits = hits_of(model, sequence);
	uint32_t revived = 0;
	for (uint32_t i = 0; i < hits; i++) {
		uint32_t block = find(model, sequence->tokens, (i + 1) * rules->block_size);
		revived += model->references[block] == 0;
	}
	uint32_t first = hits * rules->block_size;
	uint32_t n = below_threshold(model, sequence->known - first, is_alone);
	if (!rules->has_chunked_prefill && n > model->budget) {
		model->now.lack = 'T';
		return false;
	}
	n = smaller(n, model->budget);
	uint32_t spent = revived;
	if (model->running.count > 0) {
		spent += (uint32_t)(rules->watermark * rules->num_blocks);
	}
	if (rules->reserves_full_isl &&
		blocks_for(model, sequence->known) - hits + spent > model->free.count) {
		return false;
	}
	if (blocks_for(model, first + n) - hits + spent > model->free.count) {
		return false;
	}
	remove_at(&model->waiting, 0);
	append(&model->running, id);
	struct vllm_row *row = add_row(model, id, sequence->was_admitted ? 'R' : 'N', first, n);
	for (uint32_t i = 0; i < hits; i++) {
		uint32_t block = find(model, sequence->tokens, (i + 1) * rules->block_size);
		if (model->references[block]++ == 0) {
			remove_at(&model->free, place_of(&model->free, block));
		}
		give(model, sequence, row, block);
	}
	while (sequence->table.count < blocks_for(model, first + n)) {
		give(model, sequence, row, take(model));
	}
	sequence->was_admitted = true;
	sequence->registered = hits;
	sequence->computed = first;
	register_up_to(model, sequence, first + n);
	model->budget -= n;
	return true;
}

static void decide(struct vllm_model *model)
{
	bool is_alone = model->waiting.count + model->running.count <= 1;
	model->now.is_decided = true;
	model->budget = model->rules.max_num_batched_tokens;
	decide_running(model, is_alone);
	model->now.lack = 'B';
	while (model->now.preempted.count == 0 && model->budget > 0 && model->waiting.count > 0 &&
		model->running.count < model->rules.max_num_seqs && admit_head(model, is_alone)) {
	}
	if (model->waiting.count == 0) {
		model->now.lack = '-';
	} else if (model->now.preempted.count == 0 &&
		   model->running.count == model->rules.max_num_seqs) {
		model->now.lack = 'S';
	} else if (model->now.preempted.count == 0 && model->budget == 0) {
		model->now.lack = 'T';
	}
	for (uint32_t i = 0; i < model->now.row_count; i++) {
		struct vllm_row *row = &model->now.rows[i];
		struct vllm_sequence *sequence = &model->sequences[row->request];
		sequence->computed += row->count;
		sequence->in_flight += row->count;
		row->is_sampled = sequence->computed == sequence->known + sequence->pending;
		sequence->pending += row->is_sampled && model->rules.is_async;
	}
	model->now.free_after_schedule = model->free.count;
}

/* ---- the outcome ---- */

static bool is_over(const struct vllm_model *model, const struct vllm_sequence *sequence)
{
	bool is_eos = sequence->tokens[sequence->known - 1] == model->rules.eos;
	return (is_eos && !sequence->request->ignore_eos) ||
	       sequence->known >= model->rules.max_model_len ||
	       sequence->known - sequence->request->prompt_count == sequence->request->max_tokens;
}

static void apply_row(struct vllm_model *model, const struct vllm_row *row)
{
	struct vllm_sequence *sequence = &model->sequences[row->request];
	if (sequence->is_finished) {
		return;
	}
	bool is_stale = sequence->stale > 0;
	sequence->in_flight -= row->count;
	if (is_stale) {
		sequence->stale -= row->count;
	}
	if (!row->is_sampled) {
		return;
	}
	sequence->tokens[sequence->known] = sequence->request->tokens[sequence->known];
	sequence->known++;
	if (model->rules.is_async && !is_stale) {
		sequence->pending--;
		register_up_to(model, sequence, sequence->computed - sequence->in_flight);
	}
	if (is_over(model, sequence)) {
		uint32_t place = place_of(&model->running, row->request);
		sequence->is_finished = true;
		release(model, sequence);
		if (place < model->running.count) {
			remove_at(&model->running, place);
		} else {
			remove_at(&model->waiting, place_of(&model->waiting, row->request));
		}
		append(&model->now.finished, row->request);
	}
}

static void apply(struct vllm_model *model, const struct vllm_step *decided)
{
	model->now.applied = decided->step;
	for (uint32_t i = 0; i < decided->row_count; i++) {
		apply_row(model, &decided->rows[i]);
	}
}

void vllm_model_step(struct vllm_model *model, uint32_t step)
{
	struct vllm_step *now = &model->now;
	memset(now, 0, sizeof(*now));
	now->step = step;
	now->applied = VLLM_NOTHING;
	if (model->waiting.count + model->running.count > 0) {
		decide(model);
	}
	if (!model->rules.is_async) {
		apply(model, now);
	} else if (model->has_before) {
		apply(model, &model->before);
	}
	model->has_before = model->rules.is_async && now->is_decided;
	if (model->has_before) {
		model->before = *now;
	}
	now->free_after_step = model->free.count;
	now->waiting = model->waiting;
	now->running = model->running;
}
