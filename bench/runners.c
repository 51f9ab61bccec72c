#include "bench/runners.h"

#include "bench/results.h"
#include "sim/cost_model.h"
#include "sim/profile.h"
#include "sim/tape.h"

#include <stdio.h>
#include <string.h>

static enum status open_sim(struct runner *out, struct replay_config *config,
	const struct runner_request *request, bool *is_calibrated, struct error *error)
{
	struct gpu_profile profile;
	enum status status = gpu_profile_find(config->gpu, &profile, error);

	if (status != STATUS_OK) {
		return status;
	}
	if (config->kv_blocks == 0) {
		struct kv_memory memory;
		const struct kv_memory_limits limits = {
			.gpu_memory_utilization = config->gpu_memory_utilization,
			.block_size = (uint32_t)config->block_size,
			.max_num_seqs = (uint32_t)config->max_num_seqs,
			.max_num_batched_tokens = (uint32_t)config->max_num_batched_tokens,
			.max_model_len = (uint32_t)config->max_model_len,
		};
		status = cost_model_kv_memory(request->model, &profile, &limits, &memory, error);
		if (status != STATUS_OK) {
			return status;
		}
		config->kv_blocks = memory.block_count;
	}
	*is_calibrated = profile.is_calibrated;
	return cost_model_open(out, request->model, &profile, error);
}

static enum status open_tape(struct runner *out, struct replay_config *config,
	const struct runner_request *request, bool *is_calibrated, struct error *error)
{
	char path[4096];

	(void)config; /* the recording has filled it in */
	if (request->tape == NULL) {
		return error_set(error, STATUS_USAGE,
			"--runner tape plays a recorded run: name its folder by --tape DIR");
	}
	snprintf(path, sizeof(path), "%s/%s", request->tape, RESULT_STEPS);
	*is_calibrated = request->tape_is_calibrated;
	return tape_open(out, path, error);
}

static const struct runner_entry entries[] = {
	{"sim", "prices each step by a cost model of the GPU", open_sim, NULL},
	{"tape", "plays the step times of a recorded run (--tape DIR)", open_tape, tape_finish},
};

enum { ENTRY_COUNT = sizeof(entries) / sizeof(entries[0]) };

const struct runner_entry *runner_at(uint32_t index)
{
	return index < ENTRY_COUNT ? &entries[index] : NULL;
}

enum status runner_find(const char *name, const struct runner_entry **out, struct error *error)
{
	char names[256] = "";

	for (uint32_t i = 0; i < ENTRY_COUNT; i++) {
		if (strcmp(entries[i].name, name) == 0) {
			*out = &entries[i];
			return STATUS_OK;
		}
		size_t used = strlen(names);
		snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
			entries[i].name);
	}
	return error_set(error, STATUS_USAGE,
		"--runner: found '%s', expected one of those in this build: %s", name, names);
}
