#include "bench/replay/replay_config.h"

#include "bench/replay/runners.h"
#include "engine/base/json.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/base/table.h"
#include "engine/policy.h"
#include "engine/shape/model_config.h"
#include "engine/shape/weight_shape.h"
#include "reports/results/results.h"
#include "workloads/trace/format.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

/* ---- words ---- */

#define WORDS(option, ...)                                                                         \
	static const char *option##_word(uint32_t index)                                           \
	{                                                                                          \
		static const char *const words[] = {__VA_ARGS__};                                  \
		return index < sizeof(words) / sizeof(words[0]) ? words[index] : NULL;             \
	}

WORDS(dtype, [DTYPE_FLOAT32] = "float32", [DTYPE_BFLOAT16] = "bfloat16")
WORDS(tp_transport, [TP_TRANSPORT_AUTO] = "auto", [TP_TRANSPORT_PEER] = "peer",
	[TP_TRANSPORT_NCCL] = "nccl")
WORDS(kernels, [KERNELS_AUTO] = "auto", [KERNELS_GENERAL] = "general")
WORDS(overlap, [OVERLAP_ON] = "on", [OVERLAP_OFF] = "off")
WORDS(clock, [REPLAY_CLOCK_VIRTUAL] = "virtual", [REPLAY_CLOCK_WALL] = "wall")
WORDS(tokens, [TOKENS_FORCED] = "forced", [TOKENS_SAMPLED] = "sampled")
WORDS(admission, [ADMISSION_EXACT] = "exact", [ADMISSION_SEED] = "seed")
WORDS(sessions, [SESSIONS_OPEN] = "open", [SESSIONS_CLOSED] = "closed")
WORDS(arrivals, [ARRIVE_BY_TRACE] = "trace", [ARRIVE_POISSON] = "poisson", [ARRIVE_GAMMA] = "gamma",
	[ARRIVE_CONSTANT] = "constant")

static const char *policy_word(uint32_t index)
{
	const struct policy *policy = policy_at(index);

	return policy == NULL ? NULL : policy->name;
}

static const char *about_policy(uint32_t index)
{
	return policy_at(index)->summary;
}

static const char *about_runner(uint32_t index)
{
	return runner_at(index)->summary;
}

static const char *runner_word(uint32_t index)
{
	const struct runner_entry *runner = runner_at(index);

	return runner == NULL ? NULL : runner->name;
}

/* ---- the table ---- */

static const struct option rows[] = {
#define OPTION(option_name, field, option_kind, tape, option_group, ...)                           \
	{.name = (option_name),                                                                    \
		.kind = OPTION_##option_kind,                                                      \
		.offset = offsetof(struct replay_config, field),                                   \
		.given_offset = offsetof(struct replay_config, given.field),                       \
		.group = #option_group,                                                            \
		__VA_ARGS__},
#include "bench/replay/replay_options.def"
#undef OPTION
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

const struct option_table replay_options = {rows, ROW_COUNT};

enum taping { UNTAPED, TAPED, LATER };

/* What summary.json and tapes need of a row, beside what the command line does. */
static const struct {
	const char *field; /* of the configuration in summary.json */
	enum taping taping;
} records[] = {
#define OPTION(name, field, kind, tape, group, ...) {#field, tape},
#include "bench/replay/replay_options.def"
#undef OPTION
};

void replay_config_default(struct replay_config *config)
{
	memset(config, 0, sizeof(*config));
	option_table_defaults(&replay_options, config);
}

/* ---- values as text ---- */

enum { VALUE_BYTES = NUMBER_TEXT_BYTES };

static const void *value_of(const struct replay_config *config, const struct option *row)
{
	return (const char *)config + row->offset;
}

/* The value as in summary.json, without quotes. Numbers are written to `buffer`. */
static const char *value_text(
	const struct replay_config *config, const struct option *row, char *buffer)
{
	const void *value = value_of(config, row);
	const char *text;

	switch (row->kind) {
	case OPTION_TEXT:
		text = *(const char *const *)value;
		return text == NULL ? row->none : text;
	case OPTION_WORD:
		return row->word_at(*(const uint32_t *)value);
	case OPTION_FLAG:
		decimal_text(buffer, *(const bool *)value, 0);
		return buffer;
	default:
		decimal_text(
			buffer, *(const uint64_t *)value, row->kind == OPTION_MILLIONTHS ? 6 : 0);
		return buffer;
	}
}

cJSON *replay_config_json(const struct replay_config *config)
{
	cJSON *object = cJSON_CreateObject();

	for (uint32_t i = 0; i < ROW_COUNT; i++) {
		char buffer[VALUE_BYTES];
		const char *text = value_text(config, &rows[i], buffer);
		if (rows[i].kind == OPTION_TEXT || rows[i].kind == OPTION_WORD) {
			cJSON_AddStringToObject(object, records[i].field, text);
		} else {
			cJSON_AddRawToObject(object, records[i].field, text);
		}
	}
	return object;
}

/* ---- agreement with a recorded run ---- */

/* Reads a row's value of a recorded configuration into `out`. A number may be 0 for an option that
   was not given, even if 0 is outside its range. */
static enum status read_value(const struct json_object *recorded, uint32_t index,
	struct replay_config *out, struct error *error)
{
	const struct option *row = &rows[index];
	const char *field = records[index].field;
	void *value = (char *)out + row->offset;
	const char *text;
	uint64_t number;
	double decimal;

	switch (row->kind) {
	case OPTION_TEXT:
	case OPTION_WORD:
		TRY(json_text(recorded, field, &text, error));
		return option_set(row, out, text, error);
	case OPTION_FLAG:
		TRY(json_u64(recorded, field, 0, 1, &number, error));
		*(bool *)value = number != 0;
		return STATUS_OK;
	case OPTION_MILLIONTHS:
		TRY(json_double(recorded, field, 0, 1e12, &decimal, error));
		/* Written with six decimals, so rounding gives the original integer. */
		*(uint64_t *)value = (uint64_t)(decimal * 1e6 + 0.5);
		return STATUS_OK;
	default:
		return json_u64(recorded, field, 0, UINT64_C(1) << 53, value, error);
	}
}

static enum status adopt_values(
	struct replay_config *config, const struct json_object *recorded, struct error *error)
{
	const struct replay_config asked = *config;

	for (uint32_t i = 0; i < ROW_COUNT; i++) {
		const struct option *row = &rows[i];
		bool is_given = *(const bool *)((const char *)config + row->given_offset);
		char here[VALUE_BYTES], there[VALUE_BYTES];
		if (records[i].taping == UNTAPED) {
			continue;
		}
		if (records[i].taping == LATER && json_find(recorded, records[i].field) == NULL) {
			TRY(option_set(row, config, row->initial, error));
		} else {
			TRY(read_value(recorded, i, config, error));
		}
		const char *found = value_text(&asked, row, here);
		const char *expected = value_text(config, row, there);
		if (is_given && strcmp(found, expected) != 0) {
			return error_set(error, STATUS_USAGE,
				"--%s is %s here and %s in the recorded run", row->name, found,
				expected);
		}
	}
	return STATUS_OK;
}

static enum status read_recording(struct replay_config *config,
	const struct json_document *document, struct replay_recording *recording,
	struct error *error)
{
	struct json_object root, section;
	const char *hash;

	TRY(json_root(&root, document, error));
	TRY(json_object(&root, SUMMARY_TRACE, &section, error));
	TRY(json_text(&section, SUMMARY_TRACE_XXH64, &hash, error));
	snprintf(recording->trace_xxh64, sizeof(recording->trace_xxh64), "%s", hash);
	TRY(json_bool(&root, SUMMARY_CALIBRATED, &recording->is_calibrated, error));
	TRY(json_object(&root, SUMMARY_CONFIG, &section, error));
	return adopt_values(config, &section, error);
}

enum status replay_config_from_recording(struct replay_config *config, const char *directory,
	struct replay_recording *recording, struct error *error)
{
	char path[PATH_BYTES_MAX];
	struct json_document document = {0};

	memset(recording, 0, sizeof(*recording));
	TRY(path_format(path, error, "%s/%s", directory, RESULT_SUMMARY));
	TRY(json_document_open(&document, path, error));
	enum status status = read_recording(config, &document, recording, error);
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
