#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "sim/cost_model.h"
#include "sim/profile_choice.h"
#include "tests/harness/require.h"

static void require_choice(
	const char *gpu, const char *model, uint32_t ranks, const char *expected, const char *note)
{
	struct gpu_profile_choice choice;
	struct error error = {0};

	require(gpu_profile_choose(gpu, model, ranks, &choice, &error) == STATUS_OK, "%s",
		error.text);
	require(strcmp(choice.profile.name, expected) == 0, "%s for %s on %u: %s, expected %s", gpu,
		model, ranks, choice.profile.name, expected);
	require(note[0] == '\0' ? choice.note[0] == '\0' : strstr(choice.note, note) != NULL,
		"'%s' does not say '%s'", choice.note, note);
}

Test(profile_choice, a_gpu_is_its_calibrated_profile_where_there_is_one)
{
	require_choice("h200", "qwen3-0.6b", 1, "h200-qwen3-0.6b", "");
	require_choice("h200", "qwen3-0.6b", 2, "h200-datasheet",
		"no profile is calibrated for qwen3-0.6b on 2 GPUs");
	require_choice("h200", "qwen3-4b", 1, "h200-datasheet",
		"no profile is calibrated for qwen3-4b on 1 GPU");
	require_choice("h100", "qwen3-0.6b", 1, "h100-datasheet", "no profile is calibrated");
	require_choice("h200", NULL, 1, "h200-datasheet", "");
}

Test(profile_choice, the_name_of_a_profile_is_that_profile)
{
	require_choice("h200-datasheet", "qwen3-0.6b", 1, "h200-datasheet", "");
	require_choice("h200-qwen3-8b", "qwen3-8b", 1, "h200-qwen3-8b", "");
	require_choice(QUIRE_SOURCE_DIR "/sim/profiles/a100-datasheet.json", "qwen3-0.6b", 1,
		"a100-datasheet", "");
}

/* A calibrated profile that is not sane is left out, and the note gives one of its prices. */
Test(profile_choice, a_profile_that_is_not_sane_is_left_out)
{
	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		const char *file = gpu_profile_file(i);
		char name[GPU_PROFILE_NAME_BYTES];
		struct gpu_profile profile;
		struct gpu_profile_fault fault;
		struct error error = {0};
		snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - 5), file);
		require(gpu_profile_find(name, &profile, &error) == STATUS_OK, "%s", error.text);
		if (!profile.is_calibrated) {
			continue;
		}
		bool is_sane = gpu_profile_is_sane(&profile, &fault);
		require_choice("h200", profile.model, profile.ranks,
			is_sane ? name : "h200-datasheet",
			is_sane ? "" : " is left out: it prices");
		if (!is_sane) {
			double dearer = fault.decode_ns > fault.prompt_ns ? fault.decode_ns
									  : fault.prompt_ns;
			require(fault.mixed_ns < dearer ||
					fault.mixed_ns > 2 * (fault.decode_ns + fault.prompt_ns),
				"%s has no fault", name);
		}
	}
}

/* The smallest dent in a curve that only mixed steps have makes a profile insane. */
Test(profile_choice, sanity_has_both_bounds)
{
	struct gpu_profile profile;
	struct gpu_profile_fault fault;
	struct error error = {0};

	cr_assert_eq(gpu_profile_find("h200-qwen3-0.6b", &profile, &error), STATUS_OK);
	cr_assert(gpu_profile_is_sane(&profile, &fault));
	struct step_curve_table *mixed = &profile.curves[STEP_CURVE_mixed_step];
	const struct step_curve_table kept = *mixed;
	*mixed = (struct step_curve_table){.count = 2, .at = {0, 1}, .ns = {0, -2e6}};
	cr_assert(!gpu_profile_is_sane(&profile, &fault));
	cr_assert(fault.mixed_ns < fault.decode_ns || fault.mixed_ns < fault.prompt_ns);
	*mixed = (struct step_curve_table){.count = 2, .at = {0, 1}, .ns = {0, 9e6}};
	cr_assert(!gpu_profile_is_sane(&profile, &fault));
	cr_assert(fault.mixed_ns > 2 * (fault.decode_ns + fault.prompt_ns));
	*mixed = kept;
	cr_assert(gpu_profile_is_sane(&profile, &fault));
}

Test(profile_choice, an_unknown_gpu_is_refused_with_the_names)
{
	struct gpu_profile_choice choice;
	struct error error = {0};

	cr_assert_eq(gpu_profile_choose("h300", "qwen3-0.6b", 1, &choice, &error), STATUS_USAGE);
	cr_assert_not_null(strstr(error.text, "gpu 'h300': expected a GPU such as h200, one of"));
}
