#include <criterion/criterion.h>

#include <signal.h>
#include <string.h>

#include "engine/batch.h"
#include "engine/sequence.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Batches and the derived values of sequences that they are made of. */

static void make_sequence(
	struct sequence *sequence, uint32_t prompt_count, uint32_t max_tokens, uint32_t block_size)
{
	int32_t prompt[64];
	for (uint32_t i = 0; i < prompt_count; i++) {
		prompt[i] = (int32_t)(100 + i);
	}
	memset(sequence, 0, sizeof(*sequence));
	sequence_init(sequence,
		&(struct request){.id = 77,
			.prompt = prompt,
			.prompt_count = prompt_count,
			.max_tokens = max_tokens,
			.temperature = 0.5F},
		block_size);
}

Test(batch, a_chunk_lies_where_its_blocks_lie)
{
	struct batch batch;
	struct sequence sequence;
	make_sequence(&sequence, 7, 2, 4);
	sequence.row = 3;
	sequence.block_table[0] = 9;
	sequence.block_table[1] = 2;
	batch_init(&batch, 4, 16);
	batch_clear(&batch, 5);
	batch_add_row(&batch, &sequence, 2, 4, false, 4);
	batch_add_row(&batch, &sequence, 6, 1, true, 4);
	cr_assert_eq(batch.step, 5);
	cr_assert_eq(batch.row_count, 2);
	cr_assert_eq(batch.token_count, 5);
	const uint32_t starts[] = {0, 4, 5};
	const int32_t tokens[] = {102, 103, 104, 105, 106};
	const uint32_t positions[] = {2, 3, 4, 5, 6};
	const int64_t slots[] = {38, 39, 8, 9, 10};
	cr_assert_arr_eq(batch.query_start, starts, sizeof(starts));
	cr_assert_arr_eq(batch.token_id, tokens, sizeof(tokens));
	cr_assert_arr_eq(batch.position, positions, sizeof(positions));
	cr_assert_arr_eq(batch.slot, slots, sizeof(slots));
	cr_assert_eq(batch.context_length[0], 6);
	cr_assert_eq(batch.context_length[1], 7);
	cr_assert_not(batch.is_sampled[0]);
	cr_assert(batch.is_sampled[1]);
	cr_assert_eq(batch.row[1], 3);
	cr_assert_eq(batch.request[1], 77);
	cr_assert_eq(batch.sample_position[1], 7);
	cr_assert_eq(batch.temperature[1], 0.5F);
	batch_deinit(&batch);
	sequence_deinit(&sequence);
}

Test(batch, clearing_empties_it)
{
	struct batch batch;
	struct sequence sequence;
	make_sequence(&sequence, 3, 1, 4);
	sequence.block_table[0] = 0;
	batch_init(&batch, 2, 8);
	batch_clear(&batch, 0);
	batch_add_row(&batch, &sequence, 0, 3, true, 4);
	batch_add_addition(&batch, 1, 2, 3);
	batch.counts.prefill_rows = 1;
	batch.counts.preemptions = 1;
	batch_clear(&batch, 1);
	const struct step_counts zero = {0};
	cr_assert_eq(memcmp(&batch.counts, &zero, sizeof(zero)), 0);
	cr_assert_eq(batch.row_count, 0);
	cr_assert_eq(batch.token_count, 0);
	cr_assert_eq(batch.addition_count, 0);
	cr_assert_eq(batch.query_start[0], 0);
	batch_deinit(&batch);
	sequence_deinit(&sequence);
}

Test(batch, additions_keep_their_order_as_the_buffer_grows)
{
	struct batch batch;
	batch_init(&batch, 0, 0);
	batch_clear(&batch, 0);
	for (uint32_t i = 0; i < 5000; i++) {
		batch_add_addition(&batch, i, 2 * i, 3 * i);
	}
	cr_assert_eq(batch.addition_count, 5000);
	for (uint32_t i = 0; i < 5000; i++) {
		cr_assert(batch.additions[i].row == i && batch.additions[i].index == 2 * i &&
			  batch.additions[i].block == 3 * i);
	}
	batch_deinit(&batch);
}

Test(batch, a_row_too_many_is_a_failed_check, .signal = SIGABRT)
{
	struct batch batch;
	struct sequence sequence;
	make_sequence(&sequence, 3, 1, 4);
	sequence.block_table[0] = 0;
	batch_init(&batch, 1, 8);
	batch_clear(&batch, 0);
	batch_add_row(&batch, &sequence, 0, 1, false, 4);
	batch_add_row(&batch, &sequence, 1, 1, false, 4);
}

Test(batch, a_token_too_many_is_a_failed_check, .signal = SIGABRT)
{
	struct batch batch;
	struct sequence sequence;
	make_sequence(&sequence, 3, 1, 4);
	sequence.block_table[0] = 0;
	batch_init(&batch, 2, 2);
	batch_clear(&batch, 0);
	batch_add_row(&batch, &sequence, 0, 3, true, 4);
}

Test(batch, attention_pairs_are_counted_one_by_one)
{
	for (uint64_t first = 0; first < 20; first++) {
		uint64_t pairs = 0;
		for (uint64_t count = 0; count < 20; count++) {
			cr_assert_eq(batch_attention_pairs(first, count), pairs);
			pairs += first + count + 1;
		}
	}
	/* The largest chunk of the largest sequence: 2^28 tokens behind none. */
	uint64_t large = UINT64_C(1) << 28;
	cr_assert_eq(batch_attention_pairs(0, large), (large * large + large) / 2);
}

/* The derived values against counting blocks one token after the other. */
static void body_derived(struct prop *prop, const void *context)
{
	(void)context;
	uint32_t block_size = prop_range(prop, 1, 9);
	uint32_t prompt_count = prop_range(prop, 1, 40);
	struct sequence sequence;
	make_sequence(&sequence, prompt_count, 20, block_size);
	require_equal(sequence.token_capacity, prompt_count + 20);
	require_equal(sequence.block_key_count, prompt_count / block_size);
	uint32_t blocks = 0;
	uint32_t in_last = block_size;
	for (uint32_t token = 1; token <= sequence.token_capacity; token++) {
		if (in_last == block_size) {
			blocks++;
			in_last = 0;
		}
		in_last++;
		sequence.token_count = token;
		require_equal(sequence_num_blocks(&sequence, block_size), blocks);
		require_equal(sequence_last_block_num_tokens(&sequence, block_size), in_last);
		/* All blocks but the one of the last token may be shared. */
		require_equal(sequence_max_hit_blocks(&sequence, block_size), blocks - 1);
	}
	sequence.token_count = prompt_count + 3;
	require_equal(sequence_completion_count(&sequence), 3);
	sequence_deinit(&sequence);
}

Test(batch, derived_values_of_a_sequence)
{
	struct prop_options options = {.name = "derived", .body = body_derived, .trials = 500};
	cr_assert(prop_holds(&options));
}

/* A key is made once, and is that of the tokens and of all blocks before. */
Test(batch, keys_chain_and_are_kept)
{
	struct sequence first;
	struct sequence second;
	make_sequence(&first, 8, 8, 4);
	make_sequence(&second, 8, 8, 4);
	cr_assert_eq(first.block_key_count, 2);
	cr_assert(block_key_equal(first.block_keys[1], second.block_keys[1]));
	cr_assert_not(block_key_equal(first.block_keys[0], first.block_keys[1]));
	for (uint32_t i = 8; i < 16; i++) {
		first.token_ids[i] = second.token_ids[i] = (int32_t)i;
	}
	second.token_ids[15] = -1;
	cr_assert(block_key_equal(
		sequence_block_key(&first, 2, 4), sequence_block_key(&second, 2, 4)));
	cr_assert_not(block_key_equal(
		sequence_block_key(&first, 3, 4), sequence_block_key(&second, 3, 4)));
	struct block_key before = first.block_keys[0];
	first.token_ids[0]++;
	cr_assert(block_key_equal(sequence_block_key(&first, 0, 4), before));
	sequence_deinit(&first);
	sequence_deinit(&second);
}

Test(batch, a_decoding_sequence_settles)
{
	struct sequence sequence = {.token_count = 10, .computed_count = 9, .decode_clock = 5};
	sequence_settle(&sequence, 8);
	cr_assert_eq(sequence.token_count, 10, "only a decoding sequence gains tokens");
	sequence.is_decoding = true;
	sequence_settle(&sequence, 8);
	sequence_settle(&sequence, 8);
	cr_assert_eq(sequence.token_count, 13);
	cr_assert_eq(sequence.computed_count, 12);
	cr_assert_eq(sequence.decode_clock, 8);
}

/* A pool may hold more tokens than fit into 32 bits: 2^28 blocks of 65,536. */
Test(batch, slots_go_beyond_32_bits)
{
	static const struct {
		uint32_t block, block_size;
		int64_t slot; /* of the second token */
	} cases[] = {
		{(1 << 23) - 1, 256, 2147483393},
		{1 << 23, 256, 2147483649},
		{1 << 24, 256, 4294967297},
		{(1 << 28) - 1, 65536, 17592185978881},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct batch batch;
		struct sequence sequence;
		make_sequence(&sequence, 2, 1, cases[i].block_size);
		sequence.block_table[0] = cases[i].block;
		batch_init(&batch, 1, 2);
		batch_clear(&batch, 0);
		batch_add_row(&batch, &sequence, 0, 2, true, cases[i].block_size);
		cr_expect_eq(batch.slot[0], cases[i].slot - 1);
		cr_expect_eq(batch.slot[1], cases[i].slot);
		batch_deinit(&batch);
		sequence_deinit(&sequence);
	}
}
