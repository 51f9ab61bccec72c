#include "bench/replay/replay_config.h"

#include "bench/replay/load.h"
#include "bench/options/options.h"
#include "reports/results/results.h"
#include "bench/record/table_writer.h"
#include "engine/base/check.h"
#include "engine/base/json.h"
#include "engine/base/path.h"
#include "engine/policy.h"
#include "workloads/trace/format.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

static const char *const admissions[] = {"exact", "seed", NULL}; /* by enum admission */

void replay_config_default(struct replay_config *config)
{
	*config = (struct replay_config){
		.model = "qwen3-0.6b",
		.runner = "sim",
		.gpu = "h200",
		.weights = "model",
		.dtype = "float32",
		.policy = policy_at(0)->name,
		.admission = admissions[ADMISSION_EXACT],
		.block_size = 256,
		.gpu_memory_utilization = 900000,
		.max_num_seqs = 512,
		.max_num_batched_tokens = 16384,
		.kernels = "auto",
		.overlap = "on",
		.clock = "virtual",
		.tokens = "forced",
		.trace_format = "any",
		.sessions = "open",
		.arrivals = "trace",
		.ramp = "none",
		.temperature = 1000000,
		.speedup = 1000000,
	};
}

static enum status check_word(
	const char *option, const char *found, const char *const *words, struct error *error)
{
	char list[256] = "";

	for (uint32_t i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], found) == 0) {
			return STATUS_OK;
		}
		size_t used = strlen(list);
		snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ", words[i]);
	}
	return error_set(
		error, STATUS_USAGE, "--%s: found '%s', expected one of %s", option, found, list);
}

enum status replay_config_check(
	const struct replay_config *config, const struct replay_given *given, struct error *error)
{
	const char *policies[16] = {NULL};

	for (uint32_t i = 0; i < 15 && policy_at(i) != NULL; i++) {
		policies[i] = policy_at(i)->name;
	}
	enum status status = check_word("policy", config->policy, policies, error);
	if (status == STATUS_OK) {
		status = check_word("admission", config->admission, admissions, error);
	}
	if (status == STATUS_OK) {
		const char *const sessions[] = {"open", "closed", NULL};
		status = check_word("sessions", config->sessions, sessions, error);
	}
	if (status == STATUS_OK) {
		const char *const dtypes[] = {"float32", "bfloat16", NULL};
		status = check_word("dtype", config->dtype, dtypes, error);
	}
	if (status == STATUS_OK) {
		const char *const kernels[] = {"auto", "general", NULL};
		status = check_word("kernels", config->kernels, kernels, error);
	}
	if (status == STATUS_OK) {
		const char *const overlaps[] = {"on", "off", NULL};
		status = check_word("overlap", config->overlap, overlaps, error);
	}
	if (status == STATUS_OK) {
		const char *const clocks[] = {"virtual", "wall", NULL};
		status = check_word("clock", config->clock, clocks, error);
	}
	if (status == STATUS_OK) {
		const char *const tokens[] = {"forced", "sampled", NULL};
		status = check_word("tokens", config->tokens, tokens, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	if (given->admission && strcmp(config->policy, policy_prefill_first.name) != 0) {
		return error_set(error, STATUS_USAGE,
			"--admission belongs to --policy prefill-first; policy %s admits exactly",
			config->policy);
	}
	if (given->max_requests && config->warmup >= config->max_requests) {
		return error_set(error, STATUS_USAGE,
			"--warmup %llu leaves nothing of --max-requests %llu to measure",
			(unsigned long long)config->warmup,
			(unsigned long long)config->max_requests);
	}
	return STATUS_OK;
}

static enum status find_format(
	const char *name, const struct trace_format **out, struct error *error)
{
	const char *words[32] = {NULL};

	*out = trace_format_find(name);
	if (*out != NULL || strcmp(name, "any") == 0) {
		return STATUS_OK;
	}
	for (uint32_t i = 0; trace_format_word(i) != NULL; i++) {
		check(i + 1 < sizeof(words) / sizeof(words[0]));
		words[i] = trace_format_word(i);
	}
	return check_word("format", name, words, error);
}

/* Closed loop and drawn arrivals leave the trace's times unused. */
static enum status check_load(const struct replay_config *config, const struct replay_given *given,
	bool has_profile, struct error *error)
{
	const char *rate = given->ramp ? "--ramp" : "--rate";
	bool is_closed = strcmp(config->sessions, "closed") == 0;

	if (config->concurrency > 0 && given->speedup) {
		return error_set(error, STATUS_USAGE,
			"--speedup divides the trace's times, which --concurrency does not use: "
			"give one of them");
	}
	if (config->concurrency > 0 && has_profile) {
		return error_set(error, STATUS_USAGE,
			"%s draws arrivals, which --concurrency does not use: give one of them",
			rate);
	}
	if (config->concurrency > 0 && is_closed) {
		return error_set(error, STATUS_USAGE,
			"--concurrency brings rows in the order of the file, --sessions closed by "
			"the turns before them: give one of them");
	}
	if (has_profile && given->speedup) {
		return error_set(error, STATUS_USAGE,
			"--speedup divides the trace's times, which %s replaces: give one of them",
			rate);
	}
	return STATUS_OK;
}

enum status replay_config_workload(const struct replay_config *config,
	const struct replay_given *given, struct workload_options *options,
	struct arrival_profile *profile, struct error *error)
{
	const struct load load = {
		.arrivals = config->arrivals,
		.rate = config->rate,
		.burstiness = config->burstiness,
		.ramp = config->ramp,
		.duration = config->duration_s,
	};
	bool has_profile;

	*options = (struct workload_options){
		.trace.trace_block_size = (uint32_t)config->trace_block_size,
		.trace.sort = config->sort != 0,
		.sessions =
			strcmp(config->sessions, "closed") == 0 ? SESSIONS_CLOSED : SESSIONS_OPEN,
		.speedup_millionths = config->speedup,
		.concurrency = config->concurrency,
		.seed = config->seed,
		.duration_ns = config->duration_s * 1000,
		.max_requests = config->max_requests,
	};
	enum status status = find_format(config->trace_format, &options->trace.format, error);
	if (status == STATUS_OK) {
		status = load_profile(&load, profile, &has_profile, error);
	}
	if (status == STATUS_OK) {
		status = check_load(config, given, has_profile, error);
	}
	options->profile = status == STATUS_OK && has_profile ? profile : NULL;
	return status;
}

void replay_config_engine(const struct replay_config *config, struct engine_config *engine)
{
	*engine = (struct engine_config){
		.policy = policy_find(config->policy),
		.admission =
			strcmp(config->admission, "seed") == 0 ? ADMISSION_SEED : ADMISSION_EXACT,
		.block_size = u32_from(config->block_size),
		.kv_block_count = u32_from(config->kv_blocks),
		.max_num_seqs = u32_from(config->max_num_seqs),
		.max_num_batched_tokens = u32_from(config->max_num_batched_tokens),
		.max_model_len = u32_from(config->max_model_len),
		.eos_token_id = -1, /* a replay's lengths are the trace's */
	};
	check(engine->policy != NULL);
}

static void add_number(cJSON *object, const char *name, uint64_t value, uint32_t places)
{
	char text[TABLE_CELL_BYTES];

	decimal_text(text, value, places);
	cJSON_AddRawToObject(object, name, text);
}

#define ADD_TEXT(object, field, value) cJSON_AddStringToObject(object, #field, value)
#define ADD_NUMBER(object, field, value) add_number(object, #field, value, 0)
#define ADD_MILLIONTHS(object, field, value) add_number(object, #field, value, 6)

cJSON *replay_config_json(const struct replay_config *config)
{
	cJSON *object = cJSON_CreateObject();

#define REPLAY_FIELD(field, kind, option, binds) ADD_##kind(object, field, config->field);
	REPLAY_FIELD_LIST(REPLAY_FIELD)
#undef REPLAY_FIELD
	return object;
}

static enum status disagree(
	const char *option, const char *found, const char *recorded, struct error *error)
{
	return error_set(error, STATUS_USAGE, "--%s is %s here and %s in the recorded run", option,
		found, recorded);
}

static enum status take_text(const struct json_object *config, const char *field,
	const char *option, bool is_given, const char **value, struct error *error)
{
	const char *recorded;
	enum status status = json_text(config, field, &recorded, error);

	if (status == STATUS_OK && is_given && strcmp(*value, recorded) != 0) {
		return disagree(option, *value, recorded, error);
	}
	if (status == STATUS_OK) {
		*value = recorded;
	}
	return status;
}

static enum status take_number(const struct json_object *config, const char *field,
	const char *option, bool is_given, uint64_t *value, struct error *error)
{
	uint64_t recorded;
	enum status status = json_u64(config, field, 0, UINT64_C(1) << 53, &recorded, error);

	if (status == STATUS_OK && is_given && *value != recorded) {
		char found[TABLE_CELL_BYTES], expected[TABLE_CELL_BYTES];
		decimal_text(found, *value, 0);
		decimal_text(expected, recorded, 0);
		return disagree(option, found, expected, error);
	}
	if (status == STATUS_OK) {
		*value = recorded;
	}
	return status;
}

static enum status take_millionths(const struct json_object *config, const char *field,
	const char *option, bool is_given, uint64_t *value, struct error *error)
{
	double decimal;
	enum status status = json_double(config, field, 0, 1e12, &decimal, error);

	if (status != STATUS_OK) {
		return status;
	}
	/* Written with six places, so the nearest integer is what was meant. */
	uint64_t recorded = (uint64_t)(decimal * 1e6 + 0.5);
	if (is_given && *value != recorded) {
		char found[TABLE_CELL_BYTES], expected[TABLE_CELL_BYTES];
		decimal_text(found, *value, 6);
		decimal_text(expected, recorded, 6);
		return disagree(option, found, expected, error);
	}
	*value = recorded;
	return STATUS_OK;
}

#define TAKE_TEXT take_text
#define TAKE_NUMBER take_number
#define TAKE_MILLIONTHS take_millionths

static enum status take_fields(struct replay_config *config, const struct replay_given *given,
	const struct json_object *recorded, struct error *error)
{
	enum status status = STATUS_OK;

#define REPLAY_FIELD(field, kind, option, binds)                                                   \
	if (binds && status == STATUS_OK) {                                                        \
		status = TAKE_##kind(                                                              \
			recorded, #field, option, given->field, &config->field, error);            \
	}
	REPLAY_FIELD_LIST(REPLAY_FIELD)
#undef REPLAY_FIELD
	return status;
}

enum status replay_config_from_recording(struct replay_config *config,
	const struct replay_given *given, const char *directory, struct replay_recording *recording,
	struct error *error)
{
	char path[PATH_BYTES_MAX];
	struct json_document document = {0};
	struct json_object root, section;
	const char *hash;

	memset(recording, 0, sizeof(*recording));
	TRY(path_format(path, error, "%s/%s", directory, RESULT_SUMMARY));
	enum status status = json_document_open(&document, path, error);
	if (status == STATUS_OK) {
		status = json_root(&root, &document, error);
	}
	if (status == STATUS_OK) {
		status = json_object(&root, "trace", &section, error);
	}
	if (status == STATUS_OK) {
		status = json_text(&section, "xxh64", &hash, error);
	}
	if (status == STATUS_OK) {
		snprintf(recording->trace_xxh64, sizeof(recording->trace_xxh64), "%s", hash);
		status = json_bool(&root, "calibrated", &recording->is_calibrated, error);
	}
	if (status == STATUS_OK) {
		status = json_object(&root, "config", &section, error);
	}
	if (status == STATUS_OK) {
		status = take_fields(config, given, &section, error);
	}
	if (status == STATUS_OK) {
		recording->root = document.root; /* config's texts point into it */
		document.root = NULL;
	}
	json_document_close(&document);
	return status;
}

void replay_recording_close(struct replay_recording *recording)
{
	cJSON_Delete(recording->root);
	memset(recording, 0, sizeof(*recording));
}
