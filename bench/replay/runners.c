#include "bench/replay/runners.h"

#include "bench/fleet/outages.h"
#include "bench/record/provenance.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/policy.h"
#include "engine/ranks/launch.h"
#include "reports/results/results.h"
#include "engine/reference/reference_ranks.h"
#include "engine/reference/reference_runner.h"
#include "engine/model/config_json.h"
#include "engine/model/weights.h"
#include "sim/cost_model.h"
#include "sim/kv_memory.h"
#include "sim/profile_choice.h"
#include "sim/tape.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* The policy whose own engine took the steps of a built-in profile, by its name
   (sim/profile_choice.h); NULL: quire's engine. */
static const struct policy *engine_of(const char *profile)
{
	char part[GPU_PROFILE_NAME_BYTES];

	for (uint32_t i = 0; policy_at(i) != NULL; i++) {
		snprintf(part, sizeof(part), "-%s-", policy_at(i)->name);
		if (strstr(profile, part) != NULL) {
			return policy_at(i);
		}
	}
	return NULL;
}

static bool has_own_engine(const struct policy *policy)
{
	for (uint32_t i = 0; i < gpu_profile_count(); i++) {
		if (engine_of(gpu_profile_file(i)) == policy) {
			return true;
		}
	}
	return false;
}

/* Notes where a profile that was named has steps of another engine than the policy's. Quire's
   engine runs every policy, so its prices hold for that; no engine runs quire's policies at
   another's prices. Whose steps the file of a user has, the user knows. */
static void note_engine(const struct replay_config *config, const struct gpu_profile *profile,
	struct runner_facts *facts)
{
	const struct policy *policy = policy_at(config->policy);
	const struct policy *engine = engine_of(profile->name);

	if (!profile->is_calibrated || gpu_profile_is_file(config->gpu) ||
		facts->gpu_note[0] != '\0' || engine == policy) {
		return;
	}
	if (engine != NULL) {
		facts->is_calibrated = false;
		snprintf(facts->gpu_note, sizeof(facts->gpu_note),
			"it has the step times of %s, which does not run policy %s", engine->name,
			policy->name);
	} else if (has_own_engine(policy)) {
		snprintf(facts->gpu_note, sizeof(facts->gpu_note),
			"it has the step times of quire's own engine, which runs policy %s too, "
			"and not those of %s",
			policy->name, policy->name);
	}
}

static enum status open_sim(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct runner_facts *facts, struct error *error)
{
	struct gpu_profile_choice choice;
	const struct gpu_profile *profile = &choice.profile;
	struct kv_memory memory;
	struct engine_config engine;
	uint32_t ranks = (uint32_t)config->tensor_parallel_size;

	if (request->first != NULL) {
		cost_model_open_beside(out, request->first);
		return STATUS_OK;
	}
	TRY(gpu_profile_choose(config->gpu, replay_config_policy(config), request->model->name,
		ranks, &choice, error));
	replay_config_engine(config, &engine);
	enum status status = kv_memory_estimate(request->model, profile, &engine,
		config->gpu_memory_utilization, ranks, &memory, error);
	if (config->kv_blocks == 0) {
		TRY(status);
	}
	if (config->engine_process == ENGINE_PROCESS_SAME) {
		facts->has_no_process = profile->process_step <= 0 && profile->process_row <= 0;
		choice.profile.process_step = 0;
		choice.profile.process_row = 0;
	}
	*error = (struct error){0}; /* a given number of blocks overrules the refusal */
	/* Kept even where --kv-blocks is given, to compare with what a run on the GPU finds. */
	facts->found_kv_blocks = status == STATUS_OK ? memory.block_count : 0;
	if (config->kv_blocks == 0) {
		config->kv_blocks = memory.block_count;
	}
	facts->is_beyond_memory = config->kv_blocks > facts->found_kv_blocks;
	/* With a note the steps are of another engine than the one that is simulated. */
	facts->is_calibrated = profile->is_calibrated && choice.note[0] == '\0';
	snprintf(facts->gpu_note, sizeof(facts->gpu_note), "%s", choice.note);
	note_engine(config, profile, facts);
	if (profile->is_calibrated) {
		snprintf(facts->profile, sizeof(facts->profile), "%s", profile->description);
	}
	facts->model_error =
		facts->is_calibrated ? profile->held_out.mean + profile->card_spread : 0;
	facts->knows_cards = facts->is_calibrated && profile->card_spread > 0;
	/* The path of a file would depend on the machine; its content is in profile_xxh64. */
	snprintf(facts->gpu, sizeof(facts->gpu), "%s",
		gpu_profile_is_file(config->gpu) ? path_name(config->gpu) : profile->name);
	text_make_printable(facts->gpu);
	facts->profile_xxh64 = profile->xxh64;
	TRY(cost_model_open(out, request->model, profile, ranks, error));
	cost_model_scale(out, config->step_time_scale);
	return STATUS_OK;
}

/* Tells a tape when replicas failed in its recorded run. */
static enum status note_failures(
	const struct runner *tape, const struct replay_config *config, struct error *error)
{
	struct outages outages;

	enum status status =
		outages_parse(&outages, config->outages, (uint32_t)config->replicas, error);
	for (uint32_t i = 0; i < outages.count && status == STATUS_OK; i++) {
		if (outages.list[i].kind == OUTAGE_FAIL) {
			tape_note_failure(tape, outages.list[i].replica, outages.list[i].time_ns);
		}
	}
	outages_close(&outages);
	return status;
}

static enum status open_tape(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct runner_facts *facts, struct error *error)
{
	char path[PATH_BYTES_MAX];
	bool is_there = false;

	if (request->first != NULL) {
		tape_open_beside(out, request->first, request->replica);
		tape_set_gpu(out, request->tape_spread, request->tape_readers);
		return STATUS_OK;
	}
	if (request->tape == NULL) {
		return error_set(error, STATUS_USAGE,
			"--runner tape plays a recorded run: name its folder by --tape DIR");
	}
	TRY(path_format(path, error, "%s/%s", request->tape, RESULT_STEPS));
	facts->is_calibrated = request->tape_is_calibrated;
	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return error_set(error, STATUS_FILE,
			"%s: found no " RESULT_STEPS ", expected a run recorded with --steps",
			request->tape);
	}
	TRY(tape_open(out, path, (uint32_t)config->replicas, error));
	tape_set_gpu(out, request->tape_spread, request->tape_readers);
	if (note_failures(out, config, error) != STATUS_OK) {
		out->close(out->state);
		*out = (struct runner){.state = NULL};
	}
	return error->status;
}

/* The last name of a path; a trailing slash stays. */
static const char *last_name(const char *path)
{
	const char *name = path;

	for (const char *c = path; *c != '\0'; c++) {
		if (*c == '/' && c[1] != '\0' && c[1] != '/') {
			name = c + 1;
		}
	}
	return name;
}

enum status runner_open_weights(struct weights **out, struct replay_config *config,
	const struct runner_request *request, struct error *error)
{
	const char *source = config->weights;

	if (source == NULL) {
		struct model_config builtin;
		bool is_builtin = false;
		source = request->model_path;
		TRY(model_config_find_builtin(source, &builtin, &is_builtin, error));
		if (is_builtin) {
			return error_set(error, STATUS_USAGE,
				"--model %s is a shape without weights: add --weights DIR, or "
				"--weights dummy:SEED for made-up ones",
				source);
		}
	} else {
		/* The path says something about this machine; the result must not. */
		config->weights = last_name(source);
	}
	return weights_open(out, request->model, source, error);
}

/* The KV pool of the reference where --kv-blocks is not given. */
#define REFERENCE_KV_BYTES (UINT64_C(1) << 30)

static enum status open_reference(struct runner *out, struct replay_config *config,
	const struct runner_request *request, struct runner_facts *facts, struct error *error)
{
	struct weights *weights = NULL;
	struct engine_config engine;

	if (config->kv_blocks == 0) {
		config->kv_blocks = reference_runner_blocks(
			request->model, (uint32_t)config->block_size, REFERENCE_KV_BYTES);
	}
	replay_config_engine(config, &engine);
	TRY(engine_config_validate(&engine, error));
	TRY(runner_open_weights(&weights, config, request, error));
	const struct reference_options options = {
		.weights = weights,
		.engine = &engine,
		.rounding = config->dtype == DTYPE_BFLOAT16 ? ROUNDING_BF16 : ROUNDING_NONE,
		.seed = config->seed,
		.ranks.count = (uint32_t)config->tensor_parallel_size,
		.runs_after = request->runs_after,
	};
	enum status status = options.ranks.count > 1 ? reference_ranks_open(out, &options, error)
						     : reference_runner_open(out, &options, error);
	weights_close(weights);
	facts->is_calibrated = true; /* its times are measured */
	return status;
}

const struct runner_entry runner_sim = {
	.name = "sim",
	.summary = "prices each step by a cost model",
	.kind = RUNNER_PRICED,
	.open = open_sim,
};

const struct runner_entry runner_reference = {
	.name = "reference",
	.summary = "computes tokens on the CPU",
	.kind = RUNNER_COMPUTED,
	.own_gpu = "cpu",
	.open = open_reference,
};

const struct runner_entry runner_tape = {
	.name = "tape",
	.summary = "plays a recorded run",
	.kind = RUNNER_RECORDED,
	.open = open_tape,
	.finish = tape_finish,
};

static const struct runner_entry *const entries[] = {
#define RUNNER_ENTRY(name) &runner_##name,
	RUNNERS(RUNNER_ENTRY)
#undef RUNNER_ENTRY
};

enum { ENTRY_COUNT = sizeof(entries) / sizeof(entries[0]) };

const char *runner_kind_name(enum runner_kind kind)
{
	static const char *const names[RUNNER_KIND_COUNT] = {
#define RUNNER_KIND_NAME(kind_name, text) text,
		RUNNER_KIND_LIST(RUNNER_KIND_NAME)
#undef RUNNER_KIND_NAME
	};

	return names[kind];
}

enum status launched_take_ranks(struct replay_config *config, struct error *error)
{
	uint32_t count = rank_launch_find().count;

	if (config->given.tensor_parallel_size && config->tensor_parallel_size != count) {
		return error_set(error, STATUS_USAGE,
			"--tensor-parallel-size %llu: mpirun started %u processes",
			(unsigned long long)config->tensor_parallel_size, count);
	}
	config->tensor_parallel_size = count;
	return STATUS_OK;
}

enum status runner_take_launch(
	const struct runner_entry *entry, struct replay_config *config, struct error *error)
{
	uint32_t count = rank_launch_find().count;

	if (count <= 1) {
		return STATUS_OK;
	}
	if (entry->kind != RUNNER_COMPUTED) {
		return error_set(error, STATUS_USAGE,
			"mpirun started %u processes, which are ranks of a runner that computes; "
			"--runner %s needs one",
			count, entry->name);
	}
	if (config->replicas > 1) {
		return error_set(error, STATUS_USAGE,
			"--replicas %llu: mpirun started %u processes, which are the ranks of one; "
			"replicas start their own, without mpirun",
			(unsigned long long)config->replicas, count);
	}
	return launched_take_ranks(config, error);
}

uint64_t launched_identity(const struct replay_config *config)
{
	cJSON *json = replay_config_json(config);
	char *text = cJSON_PrintUnformatted(json);
	uint64_t commit = XXH64(version_commit(), strlen(version_commit()), 0);
	uint64_t identity = XXH64(text, strlen(text), commit);

	cJSON_free(text);
	cJSON_Delete(json);
	return identity;
}

enum status launched_join(const struct replay_config *config, struct error *error)
{
	return rank_launch_join(error->status == STATUS_OK ? launched_identity(config) : 0, error);
}

const struct runner_entry *runner_at(uint32_t index)
{
	return index < ENTRY_COUNT ? entries[index] : NULL;
}

enum status runner_find(const char *name, const struct runner_entry **out, struct error *error)
{
	char names[256] = "";

	for (uint32_t i = 0; i < ENTRY_COUNT; i++) {
		if (strcmp(entries[i]->name, name) == 0) {
			*out = entries[i];
			return STATUS_OK;
		}
		size_t used = strlen(names);
		snprintf(names + used, sizeof(names) - used, "%s%s", i == 0 ? "" : ", ",
			entries[i]->name);
	}
	return error_set(error, STATUS_USAGE,
		"--runner: found '%s', expected one of those in this build: %s", name, names);
}

void runner_tell_idle_options(const struct replay_config *config)
{
	static const char *const reasons[RUNNER_KIND_COUNT] = {
		[RUNNER_PRICED] = "the profile alone prices steps",
		[RUNNER_RECORDED] = "steps take as long as those recorded",
		[RUNNER_COMPUTED] = "steps are computed on the CPU",
	};
	const struct runner_entry *entry;
	struct error unknown = {0};

	if (runner_find(config->runner, &entry, &unknown) != STATUS_OK || entry->measures_kernels) {
		return;
	}
	bool is_priced = entry->kind == RUNNER_PRICED;
	const struct {
		const char *name;
		bool is_given;
	} idle[] = {
		{"--kernels", config->kernels != KERNELS_AUTO},
		{"--shared-prefix-attention",
			config->shared_prefix_attention != SHARED_PREFIX_ATTENTION_AUTO},
		{"--enforce-eager", config->enforce_eager},
		{"--engine-process", config->engine_process != ENGINE_PROCESS_OWN && !is_priced},
		{"--temperature", config->temperature != 1000000 && is_priced},
	};
	uint32_t count = 0;
	for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
		if (idle[i].is_given) {
			fprintf(stderr, "%s%s", count++ == 0 ? "note: " : ", ", idle[i].name);
		}
	}
	if (count > 0) {
		fprintf(stderr, " %s nothing with --runner %s: %s\n",
			word_of_count(count, "changes", "change"), entry->name,
			reasons[entry->kind]);
	}
}
