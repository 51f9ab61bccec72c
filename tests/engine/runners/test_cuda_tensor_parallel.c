/* Tensor parallelism on two GPUs: a request has the same bits alone and in any company, however it
   is launched and however the ranks exchange their sums. Rank 0 compares the tokens of all ranks in
   every step of every run. */

#include "tests/harness/cuda_comparison.h"
#include "tests/harness/cuda_outcomes.h"
#include "tests/harness/small_model.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(cuda_tensor_parallel, .init = skip_without_two_devices, .timeout = 300);

static const struct setup one_by_one = {
	"one by one", "prefill-first", 1, 512, 200, .is_one_by_one = true, .ranks = 2};

static const struct setup setups[] = {
	{"one by one again", "prefill-first", 1, 512, 200, .is_one_by_one = true, .ranks = 2},
	{"prompts whole", "prefill-first", 20, 2048, 200, .ranks = 2},
	{"prompts whole, eager", "prefill-first", 20, 2048, 200, .is_eager = true, .ranks = 2},
	{"chunks and decodes", "mixed", 20, 200, 200, .ranks = 2},
	{"blocks of 16", "mixed", 20, 200, 200, .block_size = 16, .ranks = 2},
	{"chunks of odd sizes, eager", "mixed", 13, 61, 200, .is_eager = true, .ranks = 2},
	{"chunks, nccl", "mixed", 20, 130, 200, .ranks = 2, .transport = CUDA_TRANSPORT_NCCL},
	{"with 65 others", "mixed", 85, 190, 330, .background = 65, .ranks = 2},
	{"with 256 others, nccl", "mixed", 276, 333, 720, .background = 256, .ranks = 2,
		.transport = CUDA_TRANSPORT_NCCL},
	{"with 256 others, prompts whole", "prefill-first", 276, 2048, 720, .background = 256,
		.ranks = 2},
};

static void check_setups(uint32_t model)
{
	struct subject subject;

	open_invariance(&subject, model);
	struct outcomes *base = run_setup(&subject, &one_by_one, KERNEL_PATH_SM90);
	for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {
		struct outcomes *other = run_setup(&subject, &setups[i], KERNEL_PATH_SM90);
		expect_equal_outcomes(subject.model.name, setups[i].name, base, other, true);
		cr_expect(other->preemptions == 0);
		cr_expect(setups[i].is_one_by_one || other->shared_steps > 0);
		cr_expect(other->most_decode_rows > setups[i].background);
		free(other);
	}
	free(base);
	subject_close(&subject);
}

Test(cuda_tensor_parallel, requests_do_not_depend_on_the_batch_small)
{
	check_setups(0);
}

Test(cuda_tensor_parallel, requests_do_not_depend_on_the_batch_0_6b)
{
	check_setups(1);
}

Test(cuda_tensor_parallel, requests_do_not_depend_on_the_batch_8b)
{
	check_setups(2);
}

/* Partial sums of down come as slices. */
Test(cuda_tensor_parallel, requests_do_not_depend_on_the_batch_1_7b)
{
	check_setups(3);
}

/* With given completions, steps may be launched ahead. Their bits must not notice. */
Test(cuda_tensor_parallel, steps_launched_ahead_have_the_same_bits)
{
	static const struct setup forced[] = {
		{"forced", "mixed", 20, 200, 200, .is_forced = true, .ranks = 2},
		{"ahead", "mixed", 20, 200, 200, .is_forced = true, .is_ahead = true, .ranks = 2},
		{"ahead, eager, others", "mixed", 120, 200, 400, .background = 100,
			.is_eager = true, .is_forced = true, .is_ahead = true, .ranks = 2},
		{"ahead, nccl", "mixed", 20, 200, 200, .is_forced = true, .is_ahead = true,
			.ranks = 2, .transport = CUDA_TRANSPORT_NCCL},
	};
	struct subject subject;

	open_invariance(&subject, 1);
	struct outcomes *base = run_setup(&subject, &forced[0], KERNEL_PATH_SM90);
	for (size_t i = 1; i < sizeof(forced) / sizeof(forced[0]); i++) {
		struct outcomes *other = run_setup(&subject, &forced[i], KERNEL_PATH_SM90);
		expect_equal_outcomes(subject.model.name, forced[i].name, base, other, true);
		free(other);
	}
	free(base);
	subject_close(&subject);
}

/* What is computed again after a preemption may have other bits than before, the same in every
   run. */
Test(cuda_tensor_parallel, preempted_runs_repeat_bit_by_bit)
{
	static const struct setup preempted[] = {
		{"preempted", "mixed", 20, 200, 10, .ranks = 2},
		{"preempted, eager, nccl", "mixed", 20, 200, 10, .is_eager = true, .ranks = 2,
			.transport = CUDA_TRANSPORT_NCCL},
	};
	struct subject subject;

	open_invariance(&subject, 2);
	struct outcomes *base = run_setup(&subject, &one_by_one, KERNEL_PATH_SM90);
	struct outcomes *first = run_setup(&subject, &preempted[0], KERNEL_PATH_SM90);
	struct outcomes *second = run_setup(&subject, &preempted[1], KERNEL_PATH_SM90);
	cr_expect(first->preemptions > 0);
	expect_equal_outcomes(subject.model.name, preempted[1].name, first, second, true);
	expect_equal_outcomes(subject.model.name, "not preempted", base, first, false);
	free(base);
	free(first);
	free(second);
	subject_close(&subject);
}

/* The reference adds the same partial sums, rounded alike, in the same order. */
Test(cuda_tensor_parallel, logits_are_those_of_the_reference)
{
	for (uint32_t i = 0; i < FIXTURE_COUNT; i++) {
		struct subject subject;
		subject_open_fixture(&subject, i);
		if (subject.model.num_key_value_heads % 2 == 0) {
			compare_runs(&subject, "prefill-first", 200, false, 2);
			compare_runs(&subject, "mixed", 200, true, 2);
		}
		subject_close(&subject);
	}
}

Test(cuda_tensor_parallel, logits_of_random_weights_are_those_of_the_reference)
{
	struct subject subject;

	subject_open_small(&subject);
	compare_runs(&subject, "mixed", 200, false, 2);
	cr_expect(compare_runs(&subject, "mixed", 10, false, 2).preemptions > 0);
	subject_close(&subject);
}

/* The bias of o is whole on every rank, and only rank 0 adds it. */
Test(cuda_tensor_parallel, a_bias_is_added_once)
{
	struct error error = {0};
	struct subject subject = {
		.model = SMALL_MODEL(.name = "biased", .hidden_size = 128, .num_hidden_layers = 3,
			.num_attention_heads = 6, .num_key_value_heads = 2, .head_dim = 32,
			.intermediate_size = 192, .vocab_size = 1000, .attention_bias = true)};

	cr_assert(weights_open(&subject.weights, &subject.model, "dummy:7", &error) == STATUS_OK,
		"%s", error.text);
	compare_runs(&subject, "mixed", 200, false, 2);
	subject_close(&subject);
}
