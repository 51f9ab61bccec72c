#include "workloads/tokens.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"

/* A key has a stream of tokens: its counters 0, 1, 2, ... each give 64 bits, which are two tokens,
   the low half first. So token p of a stream lies in half p % 2 of counter p / 2. */

enum purpose { PURPOSE_BLOCK = 1, PURPOSE_ROW = 2 };

static uint64_t stream_key(const struct token_source *source, enum purpose purpose, uint64_t id)
{
	return counter_hash(counter_key(source->seed, purpose), id);
}

static int32_t half_token(uint64_t bits, uint32_t half, uint32_t vocab_size)
{
	return (int32_t)counter_below((uint32_t)(bits >> (32 * half)), vocab_size);
}

/* Tokens [first, first + count) of a stream. */
static void fill(
	uint64_t key, uint64_t first, size_t count, uint32_t vocab_size, int32_t *token_ids)
{
	uint64_t counter = first / 2;
	size_t i = 0;

	if (count > 0 && first % 2 == 1) {
		token_ids[i++] = half_token(counter_hash(key, counter++), 1, vocab_size);
	}
	for (; i + 2 <= count; i += 2) {
		uint64_t bits = counter_hash(key, counter++);
		token_ids[i] = half_token(bits, 0, vocab_size);
		token_ids[i + 1] = half_token(bits, 1, vocab_size);
	}
	if (i < count) {
		token_ids[i] = half_token(counter_hash(key, counter), 0, vocab_size);
	}
}

static void check_source(const struct token_source *source)
{
	check(source->vocab_size >= 1 && source->vocab_size <= TOKEN_VOCABULARY_LIMIT);
}

/* Copies token ids of a trace, modulo the vocabulary size. */
static void copy_ids(const struct token_source *source, const uint64_t *given, uint32_t count,
	int32_t *token_ids)
{
	for (uint32_t i = 0; i < count; i++) {
		token_ids[i] = (int32_t)(given[i] % source->vocab_size);
	}
}

static void fill_from_blocks(
	const struct token_source *source, const struct trace_row *row, int32_t *token_ids)
{
	uint32_t block_size = source->trace_block_size;

	check(block_size > 0);
	check(row->hash_id_count >= row->input_length / block_size);
	for (uint32_t i = 0; i < row->hash_id_count; i++) {
		uint64_t start = (uint64_t)i * block_size;
		fill(stream_key(source, PURPOSE_BLOCK, row->hash_ids[i]), 0,
			(size_t)u64_min(block_size, row->input_length - start), source->vocab_size,
			token_ids + start);
	}
	uint64_t named = (uint64_t)row->hash_id_count * block_size;
	if (named < row->input_length) {
		fill(stream_key(source, PURPOSE_ROW, row->index), named,
			(size_t)(row->input_length - named), source->vocab_size, token_ids + named);
	}
}

void tokens_prompt(
	const struct token_source *source, const struct trace_row *row, int32_t *token_ids)
{
	check_source(source);
	if (row->prompt_ids != NULL) {
		copy_ids(source, row->prompt_ids, row->input_length, token_ids);
		return;
	}
	if (row->hash_ids != NULL) {
		fill_from_blocks(source, row, token_ids);
	} else {
		fill(stream_key(source, PURPOSE_ROW, row->index), 0, row->input_length,
			source->vocab_size, token_ids);
	}
	for (uint32_t i = 0; i < row->span_count; i++) {
		const struct token_span *span = &row->spans[i];
		enum purpose purpose = span->is_block ? PURPOSE_BLOCK : PURPOSE_ROW;
		check(span->origin <= span->first && span->count <= row->input_length &&
			span->first <= row->input_length - span->count);
		fill(stream_key(source, purpose, span->source), span->first - span->origin,
			span->count, source->vocab_size, token_ids + span->first);
	}
}

void tokens_forced(
	const struct token_source *source, const struct trace_row *row, int32_t *token_ids)
{
	check_source(source);
	if (row->output_ids != NULL) {
		copy_ids(source, row->output_ids, row->output_length, token_ids);
		return;
	}
	fill(stream_key(source, PURPOSE_ROW, row->index), row->input_length, row->output_length,
		source->vocab_size, token_ids);
}
