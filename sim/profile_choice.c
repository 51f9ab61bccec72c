#include "sim/profile_choice.h"

#include "engine/base/check.h"
#include "sim/price_by_curves.h"

#include <stdio.h>
#include <string.h>

#define SUM_MAX 2.0

/* ---- sanity ---- */

static double price_ns(const struct gpu_profile *profile, uint64_t decode_rows, uint64_t context,
	uint64_t prompt_tokens)
{
	const struct step_counts counts = {
		.decode_rows = decode_rows,
		.decode_context_tokens = decode_rows * context,
		.decode_longest_context = decode_rows > 0 ? context : 0,
		.prefill_rows = prompt_tokens > 0,
		.prefill_tokens = prompt_tokens,
		.prefill_attention_pairs = prompt_tokens * (prompt_tokens + 1) / 2,
		.sampled_rows = decode_rows + (prompt_tokens > 0),
	};
	struct step_curve_hints hints = {0};
	struct step_price price;

	price_by_curves(profile->curves, &counts, false, &hints, &price);
	return price.decode_attention + price.prefill_attention + price.sampling +
	       price.step_fixed + price.host;
}

/* How far a mixed step lies outside of its bounds, in the dearer part; at most 0: inside. */
static double excess(const struct gpu_profile_fault *step)
{
	double dearer = step->decode_ns > step->prompt_ns ? step->decode_ns : step->prompt_ns;
	double below = dearer - step->mixed_ns;
	double above = step->mixed_ns - SUM_MAX * (step->decode_ns + step->prompt_ns);

	return (below > above ? below : above) / dearer;
}

bool gpu_profile_is_sane(const struct gpu_profile *calibrated, struct gpu_profile_fault *worst)
{
	static const uint64_t rows[] = {1, 8, 32, 64, 128, 256, 448, 512};
	static const uint64_t contexts[] = {128, 512, 2048};
	static const uint64_t prompts[] = {16, 128, 512, 2048, 8192, 15872};
	enum { ROWS = 8, CONTEXTS = 3, PROMPTS = 6 };
	double worst_excess = 0;

	check(calibrated->is_calibrated);
	*worst = (struct gpu_profile_fault){0};
	for (uint32_t i = 0; i < ROWS * CONTEXTS * PROMPTS; i++) {
		uint64_t context = contexts[i / PROMPTS % CONTEXTS];
		struct gpu_profile_fault step = {
			.decode_rows = rows[i / PROMPTS / CONTEXTS],
			.prompt_tokens = prompts[i % PROMPTS],
		};
		step.decode_ns = price_ns(calibrated, step.decode_rows, context, 0);
		step.prompt_ns = price_ns(calibrated, 0, 0, step.prompt_tokens);
		step.mixed_ns = price_ns(calibrated, step.decode_rows, context, step.prompt_tokens);
		if (excess(&step) > worst_excess) {
			worst_excess = excess(&step);
			*worst = step;
		}
	}
	return worst_excess == 0;
}

/* ---- the choice ---- */

static bool is_built_in(const char *name)
{
	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		const char *file = gpu_profile_file(i);
		size_t bytes = strlen(file) - strlen(".json");
		if (strlen(name) == bytes && strncmp(name, file, bytes) == 0) {
			return true;
		}
	}
	return false;
}

/* Takes the calibrated profile of this name; false: it is not sane, and the note says so. */
static enum status take_calibrated(
	const char *name, struct gpu_profile_choice *out, bool *is_taken, struct error *error)
{
	struct gpu_profile_fault fault;

	TRY(gpu_profile_find(name, &out->profile, error));
	*is_taken = gpu_profile_is_sane(&out->profile, &fault);
	if (!*is_taken) {
		snprintf(out->note, sizeof(out->note),
			"%s is left out: it prices %llu decode rows beside a prompt of %llu tokens "
			"at %.1f ms, the two alone at %.1f and %.1f ms",
			name, (unsigned long long)fault.decode_rows,
			(unsigned long long)fault.prompt_tokens, fault.mixed_ns / 1e6,
			fault.decode_ns / 1e6, fault.prompt_ns / 1e6);
	}
	return STATUS_OK;
}

enum status gpu_profile_choose(const char *gpu, const char *model, uint32_t ranks,
	struct gpu_profile_choice *out, struct error *error)
{
	char datasheet[2 * GPU_PROFILE_NAME_BYTES], name[3 * GPU_PROFILE_NAME_BYTES];
	bool is_taken = false;

	out->note[0] = '\0';
	snprintf(datasheet, sizeof(datasheet), "%.*s" GPU_PROFILE_DATASHEET, GPU_PROFILE_NAME_BYTES,
		gpu);
	if (!is_built_in(datasheet)) {
		return gpu_profile_find(gpu, &out->profile, error);
	}
	if (model != NULL) {
		snprintf(name, sizeof(name), "%s-%.*s", gpu, GPU_PROFILE_NAME_BYTES, model);
		if (ranks > 1) {
			size_t used = strlen(name);
			snprintf(name + used, sizeof(name) - used, "-tp%u", ranks);
		}
		if (is_built_in(name)) {
			TRY(take_calibrated(name, out, &is_taken, error));
		} else {
			snprintf(out->note, sizeof(out->note),
				"no profile is calibrated for %s on %u GPU%s", model, ranks,
				ranks == 1 ? "" : "s");
		}
	}
	return is_taken ? STATUS_OK : gpu_profile_find(datasheet, &out->profile, error);
}
