#include "sim/profile_choice.h"

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

enum status gpu_profile_choose(const char *gpu, const char *model, uint32_t ranks,
	struct gpu_profile_choice *out, struct error *error)
{
	char datasheet[2 * GPU_PROFILE_NAME_BYTES], name[3 * GPU_PROFILE_NAME_BYTES];

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
			return gpu_profile_find(name, &out->profile, error);
		}
		snprintf(out->note, sizeof(out->note),
			"no profile is calibrated for %s on %u GPU%s", model, ranks,
			ranks == 1 ? "" : "s");
	}
	return gpu_profile_find(datasheet, &out->profile, error);
}
