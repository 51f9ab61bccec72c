#include "engine/step_record.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/require.h"

Test(step_record, columns_are_named_in_order)
{
	cr_expect_str_eq(STEP_COLUMNS,
		"step\tstart_ns\telapsed_ns\tgpu_ns\thost_ns\tmode\tdecode_rows\tprefill_rows\t"
		"prefill_tokens\tcached_tokens\tdecode_context_tokens\tdecode_longest_context\t"
		"prefill_attention_pairs\tprefill_longest_context\tprefill_context_tokens\t"
		"prefill_shared_tokens\t"
		"prefill_tiles\tprefill_tile_keys\tprefill_chain_keys\tprefill_half_chain_keys\t"
		"sampled_rows\trunning\twaiting\tused_blocks\tshared_tokens\treread_tokens\t"
		"repeat_tokens\tcached_free_blocks\tfree_blocks\tpreemptions");
	cr_expect_str_eq(step_column_names[STEP_COLUMN_step], "step");
	cr_expect_str_eq(step_column_names[STEP_COLUMN_preemptions], "preemptions");
	require_equal(STEP_COLUMN_preemptions, STEP_COLUMN_COUNT - 1);
	require_equal(STEP_COLUMN_decode_rows, STEP_COLUMN_FIRST_COUNT);
}

Test(step_record, counts_are_listed_by_their_columns)
{
	uint64_t values[STEP_COLUMN_COUNT - STEP_COLUMN_FIRST_COUNT];
	const struct step_counts counts = {.decode_rows = 3, .waiting = 5, .preemptions = 7};

	step_count_values(&counts, values);
	require_equal(values[STEP_COLUMN_decode_rows - STEP_COLUMN_FIRST_COUNT], 3);
	require_equal(values[STEP_COLUMN_waiting - STEP_COLUMN_FIRST_COUNT], 5);
	require_equal(values[STEP_COLUMN_preemptions - STEP_COLUMN_FIRST_COUNT], 7);
}

Test(step_record, modes_are_found_by_their_names)
{
	enum step_mode mode = STEP_MODE_NONE;

	for (uint32_t i = STEP_MODE_NONE; i <= STEP_MODE_GRAPH; i++) {
		cr_assert(step_mode_find(step_mode_name((enum step_mode)i), &mode));
		require_equal(mode, i);
	}
	cr_expect_not(step_mode_find("fast", &mode));
	cr_expect_not(step_mode_find("", &mode));
}

Test(step_record, a_step_is_of_one_kind)
{
	require_equal(step_kind_of(&(struct step_counts){.decode_rows = 0, .prefill_rows = 0}),
		STEP_DECODE);
	require_equal(step_kind_of(&(struct step_counts){.decode_rows = 4, .prefill_rows = 0}),
		STEP_DECODE);
	require_equal(step_kind_of(&(struct step_counts){.decode_rows = 0, .prefill_rows = 1}),
		STEP_PREFILL);
	require_equal(step_kind_of(&(struct step_counts){.decode_rows = 4, .prefill_rows = 1}),
		STEP_MIXED);
	cr_expect_str_eq(step_kind_name(STEP_PREFILL), "prefill");
}
