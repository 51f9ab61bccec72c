#include "sim/profile_choice.h"

#include "engine/base/number.h"

#include <stdio.h>
#include <string.h>

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

/* Whether a profile of this GPU has the steps of a policy's own engine, whatever the model. */
static bool has_engine(const char *gpu, const char *policy)
{
	char start[2 * GPU_PROFILE_NAME_BYTES];
	int bytes = snprintf(start, sizeof(start), "%.*s-%.*s-", GPU_PROFILE_NAME_BYTES, gpu,
		GPU_PROFILE_NAME_BYTES / 2, policy);

	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		if (strncmp(gpu_profile_file(i), start, (size_t)bytes) == 0) {
			return true;
		}
	}
	return false;
}

/* The name of a calibrated profile; engine: "" or a policy's with a dash behind it. Whether it is
   built in. */
static bool find_calibrated(char *name, size_t bytes, const char *gpu, const char *engine,
	const char *model, uint32_t ranks)
{
	char group[16] = "";

	if (ranks > 1) {
		snprintf(group, sizeof(group), "-tp%u", ranks);
	}
	snprintf(name, bytes, "%.*s-%.*s%.*s%s", GPU_PROFILE_NAME_BYTES, gpu,
		GPU_PROFILE_NAME_BYTES, engine, GPU_PROFILE_NAME_BYTES, model, group);
	return is_built_in(name);
}

enum status gpu_profile_choose(const char *gpu, const char *policy, const char *model,
	uint32_t ranks, struct gpu_profile_choice *out, struct error *error)
{
	char name[4 * GPU_PROFILE_NAME_BYTES], engine[GPU_PROFILE_NAME_BYTES];

	out->note[0] = '\0';
	snprintf(name, sizeof(name), "%.*s" GPU_PROFILE_DATASHEET, GPU_PROFILE_NAME_BYTES, gpu);
	if (!is_built_in(name)) {
		return gpu_profile_find(gpu, &out->profile, error);
	}
	if (model == NULL) {
		return gpu_profile_find(name, &out->profile, error);
	}
	snprintf(engine, sizeof(engine), "%.*s-", GPU_PROFILE_NAME_BYTES - 2, policy);
	if (find_calibrated(name, sizeof(name), gpu, engine, model, ranks)) {
		return gpu_profile_find(name, &out->profile, error);
	}
	if (has_engine(gpu, policy)) {
		snprintf(out->note, sizeof(out->note),
			"no profile has the step times of %s with %s on %u %s", policy, model,
			ranks, word_of_count(ranks, "GPU", "GPUs"));
	}
	if (find_calibrated(name, sizeof(name), gpu, "", model, ranks)) {
		return gpu_profile_find(name, &out->profile, error);
	}
	if (out->note[0] == '\0') {
		snprintf(out->note, sizeof(out->note), "no profile is calibrated for %s on %u %s",
			model, ranks, word_of_count(ranks, "GPU", "GPUs"));
	}
	snprintf(name, sizeof(name), "%.*s" GPU_PROFILE_DATASHEET, GPU_PROFILE_NAME_BYTES, gpu);
	return gpu_profile_find(name, &out->profile, error);
}
