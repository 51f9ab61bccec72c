#include "workloads/block_keys.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Keys are compared with tokens: two blocks have equal keys exactly where their tokens and all
   tokens before them are equal. Rows share streams in as many ways as rows can, and vocabularies
   are small enough for tokens of different streams to be equal often. */

enum { ROWS = 5, LENGTH_MAX = 700, SEGMENTS = 6, SPANS_MAX = 2 * SEGMENTS };

struct made_row {
	struct trace_row row;
	struct token_span spans[SPANS_MAX];
	uint64_t ids[LENGTH_MAX];
	uint64_t prompt_ids[LENGTH_MAX], output_ids[LENGTH_MAX];
	int32_t tokens[LENGTH_MAX];
	struct block_key keys[LENGTH_MAX];
};

struct made_rows {
	struct token_source source;
	uint32_t block_size;
	struct token_span segments[SEGMENTS]; /* of one long prompt, which rows repeat */
	uint64_t text[LENGTH_MAX];
	struct made_row rows[ROWS];
};

static void draw_segments(struct prop *prop, struct made_rows *made)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < SEGMENTS; i++) {
		uint32_t longest = prop_chance(prop, 1, 2) ? 10 : LENGTH_MAX / SEGMENTS / 2;
		struct token_span *segment = &made->segments[i];
		*segment = (struct token_span){.source = prop_below(prop, 3),
			.first = first,
			.count = prop_range(prop, 1, longest),
			.is_block = prop_chance(prop, 1, 3)};
		segment->origin = segment->is_block ? prop_range(prop, 0, first) : 0;
		first += segment->count;
	}
}

static void add_span(struct made_row *made, struct token_span span, uint32_t first, uint32_t end)
{
	if (first < end) {
		span.first = first;
		span.count = end - first;
		made->spans[made->row.span_count++] = span;
	}
}

/* The segments up to a place, some of them in two halves, some left out. */
static void draw_spans(struct prop *prop, const struct made_rows *all, struct made_row *made)
{
	uint32_t limit = prop_range(prop, 0, made->row.input_length);

	made->row.spans = made->spans;
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		struct token_span segment = all->segments[i];
		if (segment.first >= limit || prop_chance(prop, 1, 10)) {
			continue;
		}
		uint32_t end = segment.first + segment.count;
		end = end < limit ? end : limit;
		uint32_t middle =
			prop_chance(prop, 1, 3) ? prop_range(prop, segment.first, end) : end;
		add_span(made, segment, segment.first, middle);
		add_span(made, segment, middle, end);
	}
}

/* Ids as a trace spells them out: those of one text, with one of them changed. They are equal to
   tokens of streams by chance only, as in a trace. */
static void draw_ids(struct prop *prop, const struct made_rows *all, struct made_row *made)
{
	struct trace_row *row = &made->row;

	memcpy(made->prompt_ids, all->text, row->input_length * sizeof(*all->text));
	if (prop_chance(prop, 1, 2)) {
		made->prompt_ids[prop_below(prop, row->input_length)] = prop_below(prop, 3);
	}
	row->prompt_ids = made->prompt_ids;
	if (prop_chance(prop, 1, 2)) {
		memcpy(made->output_ids, all->text + row->input_length,
			row->output_length * sizeof(*all->text));
		row->output_ids = made->output_ids;
	}
}

static void draw_row(struct prop *prop, struct made_rows *all, struct made_row *made)
{
	struct trace_row *row = &made->row;
	uint32_t block_size = all->source.trace_block_size;

	*row = (struct trace_row){.index = prop_below(prop, 3),
		.input_length = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 40 : LENGTH_MAX / 2),
		.output_length = prop_range(prop, 1, LENGTH_MAX / 4)};
	uint32_t kind = (uint32_t)prop_below(prop, 4);
	if (kind == 3) {
		draw_ids(prop, all, made);
		return;
	}
	if (kind > 0) {
		bool has_rest = prop_chance(prop, 1, 2);
		row->hash_ids = made->ids;
		row->hash_id_count = (row->input_length + has_rest * (block_size - 1)) / block_size;
		for (uint32_t i = 0; i < row->hash_id_count; i++) {
			made->ids[i] = prop_chance(prop, 3, 4) ? 0 : prop_below(prop, 3);
		}
	}
	if (prop_chance(prop, 3, 4)) {
		draw_spans(prop, all, made);
	}
}

static void draw_rows(struct prop *prop, struct made_rows *all)
{
	static const uint32_t vocabularies[] = {TOKEN_VOCABULARY_LIMIT, 1, 2, 3, 5, 300};
	static const uint32_t most[] = {4, 16, 40, 300};

	all->source = (struct token_source){.seed = prop_below(prop, 3),
		.vocab_size = vocabularies[prop_below(prop, 6)],
		.trace_block_size = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 4 : 64)};
	all->block_size = prop_range(prop, 1, most[prop_below(prop, 4)]);
	draw_segments(prop, all);
	uint64_t key = counter_key(prop_below(prop, 100), 1);
	for (uint32_t i = 0; i < LENGTH_MAX; i++) {
		all->text[i] = counter_hash(key, i) >> 1; /* modulo the vocabulary, tokens */
	}
	for (uint32_t i = 0; i < ROWS; i++) {
		struct made_row *made = &all->rows[i];
		draw_row(prop, all, made);
		tokens_prompt(&all->source, &made->row, made->tokens);
		tokens_forced(&all->source, &made->row, made->tokens + made->row.input_length);
		prop_log(prop, "row %u, index %u: %u in, %u out, %u ids, %u spans%s", i,
			(uint32_t)made->row.index, made->row.input_length, made->row.output_length,
			made->row.hash_id_count, made->row.span_count,
			made->row.prompt_ids != NULL ? ", spelled out" : "");
	}
	prop_log(prop, "vocabulary %u, blocks of %u, of the trace %u", all->source.vocab_size,
		all->block_size, all->source.trace_block_size);
}

static uint32_t block_count(const struct made_rows *all, const struct made_row *made)
{
	return (made->row.input_length + made->row.output_length) / all->block_size;
}

static void require_same_classes(
	const struct made_rows *all, const struct made_row *a, const struct made_row *b)
{
	for (uint32_t i = 0; i < block_count(all, a); i++) {
		for (uint32_t j = 0; j < block_count(all, b); j++) {
			bool is_equal =
				i == j && memcmp(a->tokens, b->tokens,
						  (i + 1) * all->block_size * sizeof(int32_t)) == 0;
			require(block_key_equal(a->keys[i], b->keys[j]) == is_equal,
				"block %u of row %d and block %u of row %d have %s tokens", i,
				(int)(a - all->rows), j, (int)(b - all->rows),
				is_equal ? "equal" : "different");
		}
	}
}

static void keys_are_equal_where_tokens_are(struct prop *prop, const void *context)
{
	struct made_rows *all = calloc(1, sizeof(*all));
	struct block_keys keys;

	(void)context;
	require(all != NULL, "out of memory");
	draw_rows(prop, all);
	block_keys_init(&keys, &all->source, all->block_size);
	for (uint32_t i = 0; i < ROWS; i++) {
		struct made_row *made = &all->rows[i];
		memcpy(made->keys, block_keys_of(&keys, &made->row),
			block_count(all, made) * sizeof(*made->keys));
	}
	for (uint32_t i = 0; i < ROWS; i++) {
		for (uint32_t j = 0; j <= i; j++) {
			require_same_classes(all, &all->rows[i], &all->rows[j]);
		}
	}
	block_keys_deinit(&keys);
	free(all);
}

Test(block_keys, are_equal_where_tokens_are)
{
	const struct prop_options options = {
		.name = "keys", .body = keys_are_equal_where_tokens_are, .trials = 6000};

	cr_assert(prop_holds(&options));
}

/* ---- by example ---- */

static struct block_key key_of(
	const struct token_source *source, const struct trace_row *row, uint32_t block_size)
{
	struct block_keys keys;

	block_keys_init(&keys, source, block_size);
	struct block_key key = block_keys_of(&keys, row)[0];
	block_keys_deinit(&keys);
	return key;
}

/* The token behind a shared prompt may be the same by chance: once in vocab_size rows. */
Test(block_keys, a_completion_may_go_on_like_a_prompt)
{
	enum { VOCABULARY = 1000, PROMPT = 15, BLOCK = 16, LATER = 20000 };
	const struct token_source source = {
		.seed = 1, .vocab_size = VOCABULARY, .trace_block_size = 512};
	const uint64_t ids[] = {7};
	struct trace_row first = {
		.input_length = PROMPT, .output_length = 1, .hash_ids = ids, .hash_id_count = 1};
	struct trace_row later = first;
	int32_t expected, found;
	uint32_t equal = 0;

	tokens_forced(&source, &first, &expected);
	struct block_key key = key_of(&source, &first, BLOCK);
	for (uint32_t i = 1; i <= LATER; i++) {
		later.index = i;
		tokens_forced(&source, &later, &found);
		equal += found == expected;
		cr_assert_eq(
			block_key_equal(key, key_of(&source, &later, BLOCK)), found == expected);
	}
	cr_assert(equal > 5 && equal < 50, "%u of %u", equal, (unsigned)LATER);
}

/* A stream that begins again is not the stream that goes on. */
Test(block_keys, the_place_in_a_stream_counts)
{
	const struct token_source source = {
		.vocab_size = TOKEN_VOCABULARY_LIMIT, .trace_block_size = 16};
	const uint64_t ids[] = {7, 7};
	const struct token_span span = {.source = 7, .count = 32, .is_block = true};
	const struct trace_row again = {
		.input_length = 32, .output_length = 1, .hash_ids = ids, .hash_id_count = 2};
	struct trace_row on = again;
	struct block_keys keys;

	on.spans = &span;
	on.span_count = 1;
	block_keys_init(&keys, &source, 16);
	struct block_key found[2];
	memcpy(found, block_keys_of(&keys, &again), sizeof(found));
	const struct block_key *others = block_keys_of(&keys, &on);
	cr_assert(block_key_equal(found[0], others[0]));
	cr_assert_neq(found[1].low, others[1].low);
	cr_assert_neq(found[1].high, others[1].high);
	block_keys_deinit(&keys);
}

/* Ids that are spelled out have the keys that the engine makes from tokens. */
Test(block_keys, of_spelled_out_tokens_are_those_of_tokens)
{
	const uint64_t prompt[] = {5, 6, 7, 8};
	const int32_t tokens[] = {5, 6, 7, 8};
	const struct token_source source = {.vocab_size = 100};
	const struct trace_row row = {.input_length = 4, .output_length = 1, .prompt_ids = prompt};
	struct block_keys keys;

	block_keys_init(&keys, &source, 2);
	const struct block_key *made = block_keys_of(&keys, &row);
	struct block_key first = block_key_of_tokens((struct block_key){0}, tokens, 2);
	cr_assert(block_key_equal(made[0], first));
	cr_assert(block_key_equal(made[1], block_key_of_tokens(first, tokens + 2, 2)));
	block_keys_deinit(&keys);
}

/* Each half of a key by itself distinguishes the places of many streams. */
Test(block_keys, both_halves_tell_streams_and_places_apart)
{
	enum { STREAMS = 200, BLOCKS = 100, COUNT = STREAMS * BLOCKS };
	const struct token_source source = {.vocab_size = TOKEN_VOCABULARY_LIMIT};
	struct block_keys keys;
	static uint64_t halves[2][COUNT];

	block_keys_init(&keys, &source, 16);
	for (uint64_t i = 0; i < STREAMS; i++) {
		const struct trace_row row = {
			.index = i, .input_length = 16 * BLOCKS - 1, .output_length = 1};
		const struct block_key *made = block_keys_of(&keys, &row);
		for (uint32_t j = 0; j < BLOCKS; j++) {
			halves[0][i * BLOCKS + j] = made[j].low;
			halves[1][i * BLOCKS + j] = made[j].high;
		}
	}
	for (uint32_t half = 0; half < 2; half++) {
		for (uint32_t i = 0; i < COUNT; i++) {
			for (uint32_t j = i + 1; j < COUNT && j < i + 2 * BLOCKS; j++) {
				require(halves[half][i] != halves[half][j], "%u and %u", i, j);
			}
		}
	}
	block_keys_deinit(&keys);
}
