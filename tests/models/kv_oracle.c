#include "tests/models/kv_oracle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "engine/policy.h"
#include "tests/harness/require.h"

enum { PURPOSE_SAMPLE = 1, PURPOSE_ELAPSED = 2, PURPOSE_FINGERPRINT = 3 };

static const uint32_t NO_ROW = UINT32_MAX;

void kv_oracle_init(struct kv_oracle *oracle, const struct engine_config *config,
	uint32_t request_limit, uint32_t vocabulary, uint64_t seed)
{
	memset(oracle, 0, sizeof(*oracle));
	oracle->config = *config;
	oracle->row_limit = config->policy->max_running(config);
	oracle->table_width = config->kv_block_count;
	oracle->pool =
		calloc((size_t)config->kv_block_count * config->block_size, sizeof(*oracle->pool));
	oracle->tables =
		calloc((size_t)oracle->row_limit * oracle->table_width, sizeof(*oracle->tables));
	oracle->last_tokens = calloc(oracle->row_limit, sizeof(*oracle->last_tokens));
	oracle->requests = calloc(request_limit, sizeof(*oracle->requests));
	require(oracle->pool != NULL && oracle->tables != NULL && oracle->last_tokens != NULL &&
			oracle->requests != NULL,
		"out of memory");
	oracle->request_limit = request_limit;
	oracle->vocabulary = vocabulary;
	oracle->seed = seed;
}

void kv_oracle_deinit(struct kv_oracle *oracle)
{
	for (uint32_t i = 0; i < oracle->request_limit; i++) {
		free(oracle->requests[i].tokens);
		free(oracle->requests[i].fingerprints);
	}
	free(oracle->pool);
	free(oracle->tables);
	free(oracle->last_tokens);
	free(oracle->requests);
}

static uint64_t fingerprint_after(uint64_t before, int32_t token)
{
	uint64_t print = counter_hash(counter_key(before, PURPOSE_FINGERPRINT), (uint32_t)token);
	return print == 0 ? 1 : print;
}

static void append_token(struct kv_oracle_request *own, int32_t token)
{
	require(own->token_count < own->capacity, "a sequence outgrows its limit");
	uint32_t index = own->token_count++;
	own->tokens[index] = token;
	own->fingerprints[index] =
		fingerprint_after(index == 0 ? 0 : own->fingerprints[index - 1], token);
}

void kv_oracle_add(struct kv_oracle *oracle, const struct request *request)
{
	require(request->id < oracle->request_limit, "a request's number is out of range");
	struct kv_oracle_request *own = &oracle->requests[request->id];
	require(own->tokens == NULL, "a request's number is used twice");
	own->capacity = request->prompt_count + request->max_tokens;
	own->tokens = calloc(own->capacity, sizeof(*own->tokens));
	own->fingerprints = calloc(own->capacity, sizeof(*own->fingerprints));
	require(own->tokens != NULL && own->fingerprints != NULL, "out of memory");
	own->row = NO_ROW;
	own->is_forced = request->forced != NULL;
	own->temperature = request->temperature;
	for (uint32_t i = 0; i < request->prompt_count; i++) {
		append_token(own, request->prompt[i]);
	}
	if (own->is_forced) {
		memcpy(own->tokens + own->token_count, request->forced,
			request->max_tokens * sizeof(int32_t));
	}
}

static void apply_additions(struct kv_oracle *oracle, const struct batch *batch)
{
	for (uint32_t i = 0; i < batch->addition_count; i++) {
		const struct block_addition *addition = &batch->additions[i];
		require(addition->row < oracle->row_limit, "row %u is out of range", addition->row);
		require(addition->index < oracle->table_width, "index %u is out of range",
			addition->index);
		require(addition->block < oracle->config.kv_block_count, "block %u is out of range",
			addition->block);
		oracle->tables[(size_t)addition->row * oracle->table_width + addition->index] =
			addition->block + 1;
	}
}

/* The place of a row's position by the runner's own table. */
static uint64_t slot_of(const struct kv_oracle *oracle, uint32_t row, uint32_t position)
{
	uint32_t index = position / oracle->config.block_size;
	require(index < oracle->table_width, "position %u has no place", position);
	uint32_t entry = oracle->tables[(size_t)row * oracle->table_width + index];
	require(entry != 0, "row %u was never given its block %u", row, index);
	return (uint64_t)(entry - 1) * oracle->config.block_size +
	       position % oracle->config.block_size;
}

static struct kv_oracle_request *request_of(
	struct kv_oracle *oracle, const struct batch *batch, uint32_t index)
{
	require(batch->request[index] < oracle->request_limit, "an unknown request");
	struct kv_oracle_request *own = &oracle->requests[batch->request[index]];
	require(own->tokens != NULL, "a request that never arrived");
	return own;
}

/* What a row says of itself, and the fingerprints that it stores. */
static void store_row(struct kv_oracle *oracle, const struct batch *batch, uint32_t index)
{
	struct kv_oracle_request *own = request_of(oracle, batch, index);
	uint32_t row = batch->row[index];
	uint32_t start = batch->query_start[index];
	uint32_t count = batch->query_start[index + 1] - start;
	uint32_t end = batch->context_length[index];
	require(row < oracle->row_limit, "row %u is out of range", row);
	require(own->step != batch->step + 1, "a request has two rows in a step");
	require(count >= 1 && count <= end, "a row computes %u tokens of %u", count, end);
	require(end <= own->token_count, "a row computes unknown tokens");
	require_equal(batch->is_sampled[index], end == own->token_count);
	require_equal(batch->sample_position[index], end);
	require(batch->temperature[index] == own->temperature, "a row has another's temperature");
	for (uint32_t i = 0; i < count; i++) {
		uint32_t position = end - count + i;
		uint64_t slot = slot_of(oracle, row, position);
		int32_t token = batch->token_id[start + i];
		if (token == -1) {
			require(own->row == row && count == 1, "-1 outside a decode row");
			token = oracle->last_tokens[row];
		}
		require(token == own->tokens[position],
			"token %u of request %" PRIu64 " is %d, not %d", position,
			batch->request[index], token, own->tokens[position]);
		require_equal(batch->position[start + i], position);
		require_equal(batch->slot[start + i], slot);
		oracle->pool[slot] = own->fingerprints[position];
	}
	own->row = row;
	own->step = batch->step + 1;
}

/* A row's view of its whole context. */
static void read_row(struct kv_oracle *oracle, const struct batch *batch, uint32_t index)
{
	const struct kv_oracle_request *own = request_of(oracle, batch, index);
	for (uint32_t position = 0; position < batch->context_length[index]; position++) {
		uint64_t slot = slot_of(oracle, batch->row[index], position);
		require(oracle->pool[slot] == own->fingerprints[position],
			"step %" PRIu64 ": request %" PRIu64 " reads %s at position %u (block "
			"%" PRIu64 ")",
			batch->step, batch->request[index],
			oracle->pool[slot] == 0 ? "nothing" : "another prefix", position,
			slot / oracle->config.block_size);
		oracle->tokens_read++;
	}
	oracle->rows_read++;
}

static void check_counts(const struct batch *batch)
{
	const struct step_counts *counts = &batch->counts;
	uint64_t context = 0;
	uint64_t longest = 0;
	uint64_t tokens = 0;
	uint64_t pairs = 0;
	uint64_t keys = 0;
	uint64_t contexts = 0;
	uint64_t tiles = 0;
	uint64_t tile_keys = 0;
	uint64_t sampled = 0;
	require_equal(batch->row_count, counts->decode_rows + counts->prefill_rows);
	for (uint32_t i = 0; i < batch->row_count; i++) {
		uint32_t count = batch->query_start[i + 1] - batch->query_start[i];
		uint32_t end = batch->context_length[i];
		sampled += batch->is_sampled[i];
		if (i < counts->decode_rows) {
			require(count == 1 && batch->is_sampled[i], "a decode row of %u", count);
			context += end;
			longest = end > longest ? end : longest;
			continue;
		}
		tokens += count;
		keys = end > keys ? end : keys;
		contexts += end;
		for (uint32_t position = end - count; position < end; position++) {
			bool ends_tile =
				position + 1 == end || (position - (end - count)) % 128 == 127;
			pairs += position + 1;
			tiles += ends_tile;
			tile_keys += ends_tile ? position + 1 : 0;
		}
	}
	require_equal(counts->decode_context_tokens, context);
	require_equal(counts->decode_longest_context, longest);
	require_equal(counts->prefill_tokens, tokens);
	require_equal(counts->prefill_attention_pairs, pairs);
	require_equal(counts->prefill_longest_context, keys);
	require_equal(counts->prefill_context_tokens, contexts);
	require_equal(counts->prefill_tiles, tiles);
	require_equal(counts->prefill_tile_keys, tile_keys);
	/* The engine knows what its runner spreads tiles over. */
	require(2 * counts->prefill_half_chain_keys >= keys &&
			counts->prefill_half_chain_keys <= counts->prefill_chain_keys,
		"a chain of %llu keys by half, %llu whole and a tile of %llu",
		(unsigned long long)counts->prefill_half_chain_keys,
		(unsigned long long)counts->prefill_chain_keys, (unsigned long long)keys);
	require(counts->prefill_chain_keys >= keys, "a chain of %llu keys, and a tile of %llu",
		(unsigned long long)counts->prefill_chain_keys, (unsigned long long)keys);
	require_equal(counts->sampled_rows, sampled);
	require_equal(batch->token_count, tokens + counts->decode_rows);
}

static int32_t sample(const struct kv_oracle *oracle, const struct batch *batch, uint32_t index)
{
	const struct kv_oracle_request *own = &oracle->requests[batch->request[index]];
	uint64_t key = counter_key(oracle->seed, PURPOSE_SAMPLE) ^ batch->request[index];
	uint64_t noise = counter_hash(key, batch->sample_position[index]);
	uint64_t bits = counter_mix(noise ^ own->fingerprints[own->token_count - 1]);
	return (int32_t)(bits % oracle->vocabulary);
}

/* Between 1 and 1000 ns, and now and then a stall of a second. */
static void take_time(uint64_t seed, uint64_t step, struct step_time *time)
{
	uint64_t bits = counter_hash(counter_key(seed, PURPOSE_ELAPSED), step);
	time->elapsed_ns = bits % 32 == 0 ? UINT64_C(1000000000) : 1 + bits / 32 % 1000;
	time->gpu_ns = time->elapsed_ns;
	time->mode = STEP_MODE_EAGER;
}

static enum status oracle_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct kv_oracle *oracle = state;
	uint32_t sampled = 0;
	(void)error;
	apply_additions(oracle, batch);
	for (uint32_t i = 0; i < batch->row_count; i++) {
		store_row(oracle, batch, i);
	}
	for (uint32_t i = 0; i < batch->row_count; i++) {
		read_row(oracle, batch, i);
	}
	check_counts(batch);
	for (uint32_t i = 0; i < batch->row_count; i++) {
		if (!batch->is_sampled[i]) {
			continue;
		}
		struct kv_oracle_request *own = &oracle->requests[batch->request[i]];
		int32_t token = sample(oracle, batch, i);
		token_ids[sampled++] = token;
		/* Forced tokens lie ready; what was sampled in their place is ignored. */
		append_token(own, own->is_forced ? own->tokens[own->token_count] : token);
		oracle->last_tokens[batch->row[i]] = own->tokens[own->token_count - 1];
	}
	take_time(oracle->seed, batch->step, time);
	return STATUS_OK;
}

struct runner kv_oracle_runner(struct kv_oracle *oracle)
{
	return (struct runner){.name = "kv oracle",
		.state = oracle,
		.is_computing = true,
		.spread = {.heads = 16, .multiprocessors = 132},
		.readers = 2,
		.execute = oracle_execute};
}

static enum status counting_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	(void)token_ids;
	(void)error;
	take_time(*(const uint64_t *)state, batch->step, time);
	return STATUS_OK;
}

struct runner counting_runner(uint64_t *seed)
{
	return (struct runner){.name = "counting", .state = seed, .execute = counting_execute};
}
