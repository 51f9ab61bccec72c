#include "sim/possible_step.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/require.h"

/* 4 rows, one of 700 tokens, and prompts of 300 tokens behind 100 and of 50. */
static struct step_counts mixed_step(void)
{
	const struct step_counts counts = {
		.decode_rows = 4,
		.decode_context_tokens = 1000,
		.decode_longest_context = 700,
		.prefill_rows = 2,
		.prefill_tokens = 350,
		.prefill_attention_pairs =
			batch_attention_pairs(100, 300) + batch_attention_pairs(0, 50),
		.prefill_longest_context = 400,
		.prefill_context_tokens = 450,
		.prefill_shared_tokens = 16,
		.prefill_tiles = 4,
		.prefill_tile_keys = prefill_tile_keys(100, 300) + prefill_tile_keys(0, 50),
		.prefill_chain_keys = 400,
		.prefill_half_chain_keys = 200,
		.sampled_rows = 6,
		.shared_tokens = 512,
		.reread_tokens = 256,
		.repeat_tokens = 512,
	};

	return counts;
}

/* What the engine counts, and what tables that lack a count have in its place. */
Test(possible_step, steps_of_an_engine_are)
{
	struct step_fault fault = {0};
	struct step_counts counts = mixed_step();

	require(step_is_possible(&counts, &fault), "%s", fault.count);
	counts.decode_longest_context = counts.prefill_longest_context = 0;
	counts.prefill_context_tokens = counts.prefill_shared_tokens = 0;
	counts.prefill_tiles = counts.prefill_tile_keys = 0;
	counts.prefill_chain_keys = counts.prefill_half_chain_keys = 0;
	require(step_is_possible(&counts, &fault), "%s", fault.count);
	counts = (struct step_counts){0};
	require(step_is_possible(&counts, &fault), "%s", fault.count);
	/* Means of two steps, rounded down: of 7 and 8 tokens, 4 and 4 the longest. */
	counts = (struct step_counts){.decode_rows = 2,
		.decode_context_tokens = 7,
		.decode_longest_context = 4,
		.sampled_rows = 2};
	require(step_is_possible(&counts, &fault), "%s", fault.count);
}

Test(possible_step, each_count_is_bound_by_those_before_it)
{
	static const struct {
		const char *count;
		size_t at;
		uint64_t value;
		const char *expected;
	} cases[] = {
#define CASE(name, value, expected) {#name, offsetof(struct step_counts, name), value, expected}
		CASE(decode_context_tokens, 3, "4 to 17179869180: one or more"),
		CASE(decode_context_tokens, UINT64_C(1) << 50, "4 to 17179869180"),
		CASE(decode_longest_context, 998, "250 to 997"),
		CASE(decode_longest_context, 249, "250 to 997"),
		CASE(prefill_rows, 0, "1 to 350"),
		CASE(prefill_rows, 351, "1 to 350"),
		CASE(prefill_longest_context, 174, "175 to 4294967295"),
		CASE(prefill_attention_pairs, 30799, "30800 to 140350"),
		CASE(prefill_attention_pairs, 140351, "30800 to 140350"),
		CASE(prefill_context_tokens, 399, "400 to 802"),
		CASE(prefill_context_tokens, 803, "400 to 802"),
		CASE(prefill_tiles, 2, "3 to 4"),
		CASE(prefill_tiles, 5, "3 to 4"),
		CASE(prefill_tile_keys, 349, "350 to 1604"),
		CASE(prefill_tile_keys, 1605, "350 to 1604"),
		CASE(prefill_chain_keys, 399, "400 to"),
		CASE(prefill_half_chain_keys, 401, "0 to 400"),
		CASE(sampled_rows, 7, "0 to 6"),
		CASE(shared_tokens, 1001, "0 to 1000"),
		CASE(prefill_shared_tokens, 451, "0 to 450"),
		CASE(reread_tokens, 513, "0 to 512"),
		CASE(repeat_tokens, 513, "0 to 512"),
#undef CASE
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct step_counts counts = mixed_step();
		struct step_fault fault = {0};
		memcpy((char *)&counts + cases[i].at, &cases[i].value, sizeof(uint64_t));
		require(!step_is_possible(&counts, &fault), "%s of %llu", cases[i].count,
			(unsigned long long)cases[i].value);
		require(strcmp(fault.count, cases[i].count) == 0, "%s, not %s", fault.count,
			cases[i].count);
		require_equal(fault.found, cases[i].value);
		require(strncmp(fault.expected, cases[i].expected, strlen(cases[i].expected)) == 0,
			"%s: %s, not %s", fault.count, fault.expected, cases[i].expected);
	}
}

/* Without prompts nothing is counted of them. */
Test(possible_step, no_prompt_has_no_tiles)
{
	static const size_t at[] = {
		offsetof(struct step_counts, prefill_attention_pairs),
		offsetof(struct step_counts, prefill_longest_context),
		offsetof(struct step_counts, prefill_context_tokens),
		offsetof(struct step_counts, prefill_tiles),
		offsetof(struct step_counts, prefill_tile_keys),
		offsetof(struct step_counts, prefill_chain_keys),
		offsetof(struct step_counts, prefill_half_chain_keys),
	};

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		struct step_counts counts = {
			.decode_rows = 1, .decode_context_tokens = 9, .sampled_rows = 1};
		struct step_fault fault = {0};
		const uint64_t one = 1;
		memcpy((char *)&counts + at[i], &one, sizeof(one));
		require(!step_is_possible(&counts, &fault), "count %zu", i);
	}
}

/* Engines without prefill_shared_tokens counted what all running sequences share. What is left to
   the rows is possible, whatever it was. */
Test(possible_step, shares_of_older_tables_are_given_to_the_rows)
{
	static const struct {
		uint64_t decodes, prompts, shared, by_rows, by_prompts;
	} cases[] = {
		{0, 2, 300, 0, 300},
		{0, 2, 9999, 0, 450},
		{0, 1, 300, 0, 0},
		{4, 2, 300, 300, 0},
		{4, 2, 9999, 1000, 0},
		{4, 0, 9999, 1000, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct step_counts counts = {.decode_rows = cases[i].decodes,
			.decode_context_tokens = cases[i].decodes > 0 ? 1000 : 0,
			.prefill_rows = cases[i].prompts,
			.prefill_context_tokens = cases[i].prompts > 0 ? 450 : 0,
			.shared_tokens = cases[i].shared,
			.reread_tokens = cases[i].shared,
			.repeat_tokens = cases[i].shared / 2};
		step_give_shares_to_rows(&counts);
		require_equal(counts.shared_tokens, cases[i].by_rows);
		require_equal(counts.prefill_shared_tokens, cases[i].by_prompts);
		require(counts.reread_tokens <= counts.shared_tokens &&
				counts.repeat_tokens <= counts.shared_tokens,
			"case %zu", i);
	}
}
