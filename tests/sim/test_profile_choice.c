#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "sim/cost_model.h"
#include "sim/profile_choice.h"
#include "tests/harness/require.h"

static void require_policy_choice(const char *gpu, const char *policy, const char *model,
	uint32_t ranks, const char *expected, const char *note)
{
	struct gpu_profile_choice choice;
	struct error error = {0};

	require(gpu_profile_choose(gpu, policy, model, ranks, &choice, &error) == STATUS_OK, "%s",
		error.text);
	require(strcmp(choice.profile.name, expected) == 0, "%s for %s on %u: %s, expected %s", gpu,
		model, ranks, choice.profile.name, expected);
	require(strcmp(choice.note, note) == 0, "found '%s', expected '%s'", choice.note, note);
}

static void require_choice(
	const char *gpu, const char *model, uint32_t ranks, const char *expected, const char *note)
{
	require_policy_choice(gpu, "mixed", model, ranks, expected, note);
}

Test(profile_choice, a_gpu_is_its_calibrated_profile_where_there_is_one)
{
	require_choice("h200", "qwen3-0.6b", 1, "h200-qwen3-0.6b", "");
	require_choice("h200", "qwen3-8b", 1, "h200-qwen3-8b", "");
	require_choice("h200", "qwen3-0.6b", 2, "h200-datasheet",
		"no profile is calibrated for qwen3-0.6b on 2 GPUs");
	require_choice("h200", "qwen3-4b", 4, "h200-datasheet",
		"no profile is calibrated for qwen3-4b on 4 GPUs");
	require_choice("h100", "qwen3-0.6b", 1, "h100-datasheet",
		"no profile is calibrated for qwen3-0.6b on 1 GPU");
	require_choice("h200", NULL, 1, "h200-datasheet", "");
}

/* Steps of another engine go before where they were measured, and a note says where they were not.
   Named profiles are taken as they are. */
Test(profile_choice, a_policy_of_another_engine_has_its_profiles)
{
	require_policy_choice("h200", "vllm", "qwen3-8b", 1, "h200-vllm-qwen3-8b", "");
	require_policy_choice("h200", "prefill-first", "qwen3-8b", 1, "h200-qwen3-8b", "");
	require_policy_choice("h200", "vllm", "qwen3-4b", 4, "h200-datasheet",
		"no profile has the step times of vllm with qwen3-4b on 4 GPUs");
	require_policy_choice("h200", "vllm", "qwen3-8b", 4, "h200-datasheet",
		"no profile has the step times of vllm with qwen3-8b on 4 GPUs");
	require_policy_choice("h200", "vllm", "qwen3-4b", 1, "h200-qwen3-4b",
		"no profile has the step times of vllm with qwen3-4b on 1 GPU");
	require_policy_choice("h100", "vllm", "qwen3-8b", 1, "h100-datasheet",
		"no profile is calibrated for qwen3-8b on 1 GPU");
	require_policy_choice("h200-qwen3-8b", "vllm", "qwen3-8b", 1, "h200-qwen3-8b", "");
	require_policy_choice("h200", "vllm", NULL, 1, "h200-datasheet", "");
}

Test(profile_choice, the_name_of_a_profile_is_that_profile)
{
	require_choice("h200-datasheet", "qwen3-0.6b", 1, "h200-datasheet", "");
	require_choice("h200-qwen3-8b", "qwen3-8b", 1, "h200-qwen3-8b", "");
	require_choice(QUIRE_SOURCE_DIR "/sim/profiles/a100-datasheet.json", "qwen3-0.6b", 1,
		"a100-datasheet", "");
}

Test(profile_choice, an_unknown_gpu_is_refused_with_the_names)
{
	struct gpu_profile_choice choice;
	struct error error = {0};

	cr_assert_eq(gpu_profile_choose("h300", "mixed", "qwen3-0.6b", 1, &choice, &error),
		STATUS_USAGE);
	cr_assert_not_null(strstr(error.text, "gpu 'h300': expected a GPU such as h200, one of"));
	static const char *const typed[][2] = {{"H200", "; did you mean h200?"},
		{"h201", "; did you mean h200?"}, {"rtx-4090", "; did you mean rtx4090?"},
		{"h200-datashet", "; did you mean h200-datasheet?"},
		{"h200-vllm-qwen3-0.5b", "; did you mean h200-vllm-qwen3-0.6b?"},
		{"none-such", "or a .json file"}};
	for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++) {
		const char *end = typed[i][1];
		error = (struct error){0};
		cr_assert_eq(gpu_profile_choose(typed[i][0], "mixed", NULL, 1, &choice, &error),
			STATUS_USAGE);
		cr_assert(strlen(error.text) > strlen(end) &&
				  strcmp(error.text + strlen(error.text) - strlen(end), end) == 0,
			"%s", error.text);
	}
}
