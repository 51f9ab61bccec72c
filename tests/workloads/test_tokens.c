#include "workloads/tokens.h"

#include "engine/base/counter_hash.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

enum { VOCABULARY = TOKEN_VOCABULARY_LIMIT, TOKENS_MAX = 4096 };

static struct token_source source_of(uint64_t seed, uint32_t block_size)
{
	return (struct token_source){
		.seed = seed, .vocab_size = VOCABULARY, .trace_block_size = block_size};
}

static struct trace_row row_of(uint64_t index, uint32_t input, uint32_t output)
{
	return (struct trace_row){.index = index, .input_length = input, .output_length = output};
}

/* The definition, a token at a time: half p % 2 of the counter p / 2 of a stream. */
static int32_t naive_token(uint64_t seed, uint64_t purpose, uint64_t id, uint64_t position)
{
	uint64_t key = counter_hash(counter_key(seed, purpose), id);
	uint64_t bits = counter_hash(key, position / 2);

	return (int32_t)(((bits >> (32 * (position % 2)) & UINT32_MAX) * VOCABULARY) >> 32);
}

Test(tokens, are_the_same_on_every_machine)
{
	/* Pinned: a change of these changes every result that was ever written. */
	static const int32_t by_row[] = {147938, 137993, 54252, 16123, 7777, 9593, 53926};
	static const int32_t by_block[] = {23454, 150242, 54321, 739, 74774};
	const uint64_t ids[] = {7};
	struct token_source source = source_of(1, 512);
	struct trace_row row = row_of(3, 5, 2);
	int32_t found[8];

	tokens_prompt(&source, &row, found);
	tokens_forced(&source, &row, found + 5);
	for (size_t i = 0; i < 7; i++) {
		require_equal(found[i], by_row[i]);
	}
	row.hash_ids = ids;
	row.hash_id_count = 1;
	tokens_prompt(&source, &row, found);
	for (size_t i = 0; i < 5; i++) {
		require_equal(found[i], by_block[i]);
	}
}

struct case_of_row {
	struct trace_row row;
	uint64_t ids[64];
	struct token_span spans[2];
};

/* Draws a row with blocks of 1 to 40 tokens, with or without ids, a rest without an id, a span. */
static void draw_row(struct prop *prop, struct case_of_row *drawn, uint32_t *block_size)
{
	struct trace_row *row = &drawn->row;

	*row = row_of(prop_below(prop, 1000), prop_range(prop, 1, 200), prop_range(prop, 1, 50));
	*block_size = prop_range(prop, 4, 40);
	if (prop_chance(prop, 2, 3)) {
		bool has_rest = prop_chance(prop, 1, 2);
		row->hash_ids = drawn->ids;
		row->hash_id_count =
			(row->input_length + has_rest * (*block_size - 1)) / *block_size;
		for (uint32_t i = 0; i < row->hash_id_count; i++) {
			drawn->ids[i] = prop_below(prop, 20);
		}
	}
	row->spans = drawn->spans;
	if (prop_chance(prop, 1, 2)) {
		uint32_t first = prop_range(prop, 0, row->input_length - 1);
		drawn->spans[0] = (struct token_span){.source = prop_below(prop, 1000),
			.first = first,
			.count = prop_range(prop, 0, row->input_length - first)};
		drawn->spans[0].is_block = prop_chance(prop, 1, 2);
		drawn->spans[0].origin = drawn->spans[0].is_block ? prop_range(prop, 0, first) : 0;
		row->span_count = 1;
	}
	prop_log(prop, "row %llu: %u in, %u out, %u ids of %u tokens, %u spans",
		(unsigned long long)row->index, row->input_length, row->output_length,
		row->hash_id_count, *block_size, row->span_count);
}

static void each_token_is_as_defined(struct prop *prop, const void *context)
{
	struct case_of_row drawn = {0};
	int32_t found[256];
	uint32_t block_size;
	uint64_t seed = prop_below(prop, 3);

	(void)context;
	draw_row(prop, &drawn, &block_size);
	struct token_source source = source_of(seed, block_size);
	const struct trace_row *row = &drawn.row;
	tokens_prompt(&source, row, found);
	for (uint32_t i = 0; i < row->input_length; i++) {
		const struct token_span *span = row->spans;
		int32_t expected = i / block_size < row->hash_id_count
					   ? naive_token(seed, 1, row->hash_ids[i / block_size],
						     i % block_size)
					   : naive_token(seed, 2, row->index, i);
		if (row->span_count > 0 && i >= span->first && i < span->first + span->count) {
			expected = naive_token(
				seed, span->is_block ? 1 : 2, span->source, i - span->origin);
		}
		require(found[i] == expected, "token %u is %d, expected %d", i, found[i], expected);
	}
	tokens_forced(&source, row, found);
	for (uint32_t i = 0; i < row->output_length; i++) {
		require_equal(found[i], naive_token(seed, 2, row->index, row->input_length + i));
	}
}

Test(tokens, are_as_defined_at_any_offset)
{
	const struct prop_options options = {
		.name = "tokens", .body = each_token_is_as_defined, .trials = 400};

	cr_assert(prop_holds(&options));
}

Test(tokens, lie_below_the_vocabulary_and_fill_it_evenly)
{
	enum { COUNT = 1 << 20, BINS = 64 };
	static uint32_t bins[BINS];
	struct token_source source = source_of(0, 512);
	struct trace_row row = row_of(0, COUNT, 1);
	int32_t *found = malloc(COUNT * sizeof(*found));

	tokens_prompt(&source, &row, found);
	for (size_t i = 0; i < COUNT; i++) {
		require(found[i] >= 0 && found[i] < VOCABULARY, "token %d", found[i]);
		bins[(uint64_t)found[i] * BINS / VOCABULARY]++;
	}
	/* 16,384 each; a deviation is 127. */
	for (size_t i = 0; i < BINS; i++) {
		require(bins[i] > 16384 - 640 && bins[i] < 16384 + 640, "bin %zu has %u", i,
			bins[i]);
	}
	free(found);
}

Test(tokens, of_the_trace_are_used_unchanged)
{
	const uint64_t prompt[] = {5, 151642, 151643, 151700};
	const uint64_t completion[] = {9};
	struct token_source source = source_of(0, 512);
	struct trace_row row = row_of(0, 4, 1);
	int32_t found[4];

	row.prompt_ids = prompt;
	row.output_ids = completion;
	tokens_prompt(&source, &row, found);
	require_equal(found[0], 5);
	require_equal(found[1], 151642);
	require_equal(found[2], 0);
	require_equal(found[3], 57);
	tokens_forced(&source, &row, found);
	require_equal(found[0], 9);
}
