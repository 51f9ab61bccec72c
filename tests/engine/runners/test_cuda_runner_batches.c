/* Batch invariance of whole runs on the GPU: tokens and K/V of a request have the same bits,
   whatever the batches that it is computed in. */

#include "tests/harness/cuda_outcomes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_runner_batches, .init = skip_without_device, .timeout = 300);

static const struct setup one_by_one = {
	"one by one", "prefill-first", 1, 512, 200, .is_one_by_one = true};

static const struct setup setups[] = {
	{"prompts whole", "prefill-first", 20, 2048, 200, .is_eager = false},
	{"prompts whole, eager", "prefill-first", 20, 2048, 200, .is_eager = true},
	{"chunks and decodes", "mixed", 20, 200, 200, .is_eager = false},
	{"chunks of odd sizes", "mixed", 13, 61, 200, .is_eager = false},
	{"chunks, eager", "mixed", 20, 130, 200, .is_eager = true},
	{"one by one, chunks, other bucket", "mixed", 2, 100, 200, .is_one_by_one = true,
		.is_eager = true},
	{"a few at a time", "mixed", 3, 333, 200, .is_eager = false},
	{"prefixes read apart", "mixed", 20, 200, 200, .reads_prefixes_apart = true},
	{"blocks of 16", "mixed", 20, 200, 200, .block_size = 16},
	{"blocks of 48, eager", "mixed", 13, 61, 200, .block_size = 48, .is_eager = true},
	{"blocks of 16, prompts whole", "prefill-first", 20, 2048, 200, .block_size = 16},
	{"blocks of 16, one by one", "mixed", 2, 100, 200, .block_size = 16, .is_one_by_one = true},
	{"blocks of 256", "mixed", 20, 200, 200, .block_size = 256},
	{"vllm", "vllm", 20, 200, 200, .block_size = 16},
	{"vllm, asynchronous", "vllm", 20, 200, 200, .block_size = 16, .is_async = true},
	{"vllm, asynchronous, odd sizes, eager", "vllm", 13, 61, 200, .block_size = 48,
		.is_async = true, .is_eager = true},
};

/* Enough decode rows for every linear kernel. Their number falls from that of all requests, the
   background included, to one, through all numbers between. */
static const struct setup large_batches[] = {
	{"with 1 other", "mixed", 21, 100, 200, .background = 1},
	{"with 63 others", "mixed", 83, 300, 330, .background = 63},
	{"with 65 others, eager", "mixed", 85, 190, 330, .is_eager = true, .background = 65},
	{"with 128 others, eager", "mixed", 148, 400, 460, .is_eager = true, .background = 128},
	{"with 200 others, prompts whole", "prefill-first", 220, 2048, 600, .background = 200},
	{"with 256 others, chunks of odd sizes", "mixed", 276, 333, 720, .background = 256},
};

static void check_invariance(const struct subject *subject, enum kernel_path path,
	const struct setup *others, size_t count)
{
	char name[128];
	struct outcomes *base = run_setup(subject, &one_by_one, path);

	snprintf(name, sizeof(name), "%s, path %d", subject->model.name, (int)path);
	for (size_t i = 0; i < count; i++) {
		struct outcomes *other = run_setup(subject, &others[i], path);
		expect_equal_outcomes(name, others[i].name, base, other, true);
		cr_expect(other->preemptions == 0);
		cr_expect(others[i].is_one_by_one || other->shared_steps > 0);
		cr_expect(other->most_decode_rows > others[i].background);
		bool has_graphs = others[i].background <= 1 && !others[i].is_async &&
				  strcmp(others[i].policy, "mixed") == 0;
		cr_expect(!others[i].is_eager || other->prompt_graphs == 0);
		cr_expect(others[i].is_eager || !has_graphs || other->prompt_graphs > 0);
		free(other);
	}
	free(base);
}

Test(cuda_runner_batches, requests_do_not_depend_on_the_batch)
{
	const size_t count = sizeof(setups) / sizeof(setups[0]);

	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		check_invariance(&subject, kernel_path_of_device(), setups, count);
		if (kernel_path_of_device() != KERNEL_PATH_GENERAL) {
			check_invariance(&subject, KERNEL_PATH_GENERAL, setups, count);
		}
		subject_close(&subject);
	}
}

Test(cuda_runner_batches, requests_do_not_depend_on_large_batches)
{
	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		check_invariance(&subject, kernel_path_of_device(), large_batches,
			sizeof(large_batches) / sizeof(large_batches[0]));
		subject_close(&subject);
	}
}

/* An EOS is not foreseen. With asynchronous scheduling the row behind it computes for nothing, with
   the EOS as its token, and changes no other request. */
Test(cuda_runner_batches, rows_behind_an_eos_change_nothing)
{
	struct setup setup = {"vllm", "vllm", 20, 200, 200, .block_size = 16};
	struct subject subject;
	uint32_t ended = 0;

	open_invariance(&subject, 0);
	struct outcomes *whole = run_setup(&subject, &setup, kernel_path_of_device());
	const struct outcome *first = &whole->of[0];
	setup.eos_token = first->tokens[(first->prompt_count + first->token_count) / 2];
	struct outcomes *base = run_setup(&subject, &setup, kernel_path_of_device());
	for (uint32_t i = 0; i < REQUESTS; i++) {
		ended += base->of[i].token_count < whole->of[i].token_count;
	}
	cr_expect(ended > 0 && setup.eos_token > 0);
	setup.is_async = true;
	struct outcomes *other = run_setup(&subject, &setup, kernel_path_of_device());
	cr_expect(base->dropped_rows == 0 && other->dropped_rows > 0);
	expect_equal_outcomes(subject.model.name, "rows behind an EOS", base, other, true);
	free(whole);
	free(base);
	free(other);
	subject_close(&subject);
}

/* What is computed again after a preemption may have other bits than before. But a run that is
   repeated has the same bits, and requests that were never preempted keep theirs. */
Test(cuda_runner_batches, preempted_runs_repeat_bit_by_bit)
{
	static const struct setup preempted[] = {
		{"preempted, mixed", "mixed", 20, 200, 10, .is_eager = false},
		{"preempted, prefill-first", "prefill-first", 20, 512, 10, .is_eager = false},
		{"preempted, with 100 others", "mixed", 120, 300, 100, .background = 100},
	};
	const uint32_t count = sizeof(preempted) / sizeof(preempted[0]);

	for (uint32_t i = 0; i < INVARIANCE_MODELS; i++) {
		struct subject subject;
		open_invariance(&subject, i);
		struct outcomes *base = run_setup(&subject, &one_by_one, kernel_path_of_device());
		for (uint32_t c = 0; c < count; c++) {
			struct outcomes *a =
				run_setup(&subject, &preempted[c], kernel_path_of_device());
			struct outcomes *b =
				run_setup(&subject, &preempted[c], kernel_path_of_device());
			cr_expect(a->preemptions > 0);
			expect_equal_outcomes(subject.model.name, preempted[c].name, a, b, true);
			expect_equal_outcomes(subject.model.name, "not preempted", base, a, false);
			free(a);
			free(b);
		}
		free(base);
		subject_close(&subject);
	}
}
