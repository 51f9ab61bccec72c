#include "bench/replay/replay_config.h"

#include "bench/replay/option_synonyms.h"
#include "bench/replay/runners.h"
#include "engine/base/json.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/base/table.h"
#include "engine/base/text.h"
#include "engine/policy.h"
#include "engine/router/router.h"
#include "engine/shape/model_config.h"
#include "engine/shape/weight_shape.h"
#include "reports/results/result.h"
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
WORDS(shared_prefix_attention, [SHARED_PREFIX_ATTENTION_AUTO] = "auto",
	[SHARED_PREFIX_ATTENTION_ON] = "on", [SHARED_PREFIX_ATTENTION_OFF] = "off")
WORDS(overlap, [OVERLAP_ON] = "on", [OVERLAP_OFF] = "off")
WORDS(clock, [REPLAY_CLOCK_VIRTUAL] = "virtual", [REPLAY_CLOCK_WALL] = "wall")
WORDS(tokens, [TOKENS_FORCED] = "forced", [TOKENS_SAMPLED] = "sampled")
WORDS(admission, [ADMISSION_EXACT] = "exact", [ADMISSION_SEED] = "seed")
WORDS(queue_order, [QUEUE_FCFS] = "fcfs", [QUEUE_PRIORITY] = "priority")
WORDS(async_scheduling, [ASYNC_SCHEDULING_OFF] = "off", [ASYNC_SCHEDULING_ON] = "on")
WORDS(chunked_prefill, [CHUNKED_PREFILL_ON] = "on", [CHUNKED_PREFILL_OFF] = "off")
WORDS(engine_process, [ENGINE_PROCESS_OWN] = "own", [ENGINE_PROCESS_SAME] = "same")
WORDS(eviction, [EVICTION_LRU] = "lru", [EVICTION_FIFO] = "fifo", [EVICTION_RANDOM] = "random")
WORDS(allocation, [ALLOCATION_PROMPT] = "prompt", [ALLOCATION_CHUNK] = "chunk")
WORDS(free_order, [FREE_BACK] = "back", [FREE_UNHASHED_FIRST] = "unhashed-first")
WORDS(prefix_caching, [PREFIX_CACHING_ON] = "on", [PREFIX_CACHING_OFF] = "off")
WORDS(loop, [LOOP_OFF] = "off", [LOOP_FRESH] = "fresh", [LOOP_SHARED] = "shared")
WORDS(sessions, [SESSIONS_OPEN] = "open", [SESSIONS_CLOSED] = "closed")
WORDS(arrivals, [ARRIVE_BY_TRACE] = "trace", [ARRIVE_POISSON] = "poisson", [ARRIVE_GAMMA] = "gamma",
	[ARRIVE_CONSTANT] = "constant", [ARRIVE_AT_ONCE] = "at-once")

static const char *policy_word(uint32_t index)
{
	const struct policy *policy = policy_at(index);

	return policy == NULL ? NULL : policy->name;
}

static const char *about_policy(uint32_t index)
{
	return policy_at(index)->summary;
}

static const char *router_word(uint32_t index)
{
	const struct router_kind *router = router_at(index);

	return router == NULL ? NULL : router->name;
}

static const char *about_router(uint32_t index)
{
	return router_at(index)->summary;
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

const struct option_table replay_options = {
	.rows = rows,
	.count = ROW_COUNT,
	.synonyms = option_synonyms,
};

enum taping { UNTAPED, TAPED, FILLED, LATER };

/* What summary.json and tapes need of a row, beside what the command line does. */
static const struct {
	const char *field; /* of the configuration in summary.json */
	enum taping taping;
} records[] = {
#define OPTION(name, field, kind, tape, group, ...) {#field, tape},
#include "bench/replay/replay_options.def"
#undef OPTION
};

bool replay_option_is_full(const char *name, uint64_t value)
{
	const struct option *option = option_table_find(&replay_options, name);

	check(option != NULL && option->maximum > 0);
	return value >= option->maximum;
}

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

/* A number that was not given and has no default. */
static bool is_absent(const struct replay_config *config, const struct option *row)
{
	bool is_number = row->kind == OPTION_COUNT || row->kind == OPTION_MILLIONTHS;

	return is_number && row->initial == NULL &&
	       *(const uint64_t *)value_of(config, row) == row->absent;
}

/* Whether an option means something to the run's runner: some belong to prices alone. */
static bool is_of_runner(const struct replay_config *config, uint32_t index)
{
	const char *field = records[index].field;
	bool is_given = *(const bool *)((const char *)config + rows[index].given_offset);
	bool is_of_prices =
		strcmp(field, "engine_process") == 0 || strcmp(field, "step_time_scale") == 0;

	return !is_of_prices || is_given || strcmp(config->runner, "sim") == 0;
}

cJSON *replay_config_json(const struct replay_config *config)
{
	cJSON *object = cJSON_CreateObject();

	for (uint32_t i = 0; i < ROW_COUNT; i++) {
		if (!is_of_runner(config, i)) {
			continue;
		}
		char buffer[VALUE_BYTES];
		const char *text = value_text(config, &rows[i], buffer);
		if (is_absent(config, &rows[i])) {
			cJSON_AddNullToObject(object, records[i].field);
		} else if (rows[i].kind == OPTION_TEXT || rows[i].kind == OPTION_WORD) {
			cJSON_AddStringToObject(object, records[i].field, text);
		} else {
			cJSON_AddRawToObject(object, records[i].field, text);
		}
	}
	return object;
}

/* ---- values for a command line ---- */

const char *replay_config_value(
	const struct replay_config *config, const struct option *row, char *buffer)
{
	_Static_assert((int)REPLAY_VALUE_BYTES >= (int)VALUE_BYTES, "room for a number");
	bool is_given = *(const bool *)((const char *)config + row->given_offset);
	if (is_absent(config, row)) {
		return is_given && row->absent == 0 ? "0" : "";
	}
	if (row->kind == OPTION_FLAG) {
		return *(const bool *)value_of(config, row) ? "on" : "off";
	}
	const char *text = value_text(config, row, buffer);
	if (row->kind == OPTION_MILLIONTHS) {
		size_t bytes = strlen(buffer);
		while (buffer[bytes - 1] == '0') {
			buffer[--bytes] = '\0';
		}
		bytes -= buffer[bytes - 1] == '.';
		buffer[bytes] = '\0';
	}
	return text == NULL ? "" : text;
}

void replay_config_words(const struct replay_config *config, struct text *text)
{
	for (uint32_t i = 0; i < ROW_COUNT; i++) {
		const struct option *row = &rows[i];
		bool is_flag = row->kind == OPTION_FLAG;
		char buffer[REPLAY_VALUE_BYTES];
		if (!*(const bool *)((const char *)config + row->given_offset) ||
			(is_flag && !*(const bool *)value_of(config, row))) {
			continue;
		}
		text_format(text, " --%s", row->name);
		if (!is_flag) {
			text_add(text, " ");
			text_add_shell_word(text, replay_config_value(config, row, buffer));
		}
	}
}

/* ---- agreement with a recorded run ---- */

/* The integer that a recorded number was written from: COUNT, or MILLIONTHS with six places. False:
   it cannot have been written by quire. */
static bool recorded_integer(double recorded, enum option_kind kind, uint64_t *out)
{
	double places = kind == OPTION_MILLIONTHS ? 1e6 : 1;
	double scaled = recorded * places;

	if (!(recorded >= 0 && scaled <= (double)JSON_INTEGER_MAX)) {
		return false;
	}
	*out = (uint64_t)scaled;
	*out += scaled - (double)*out >= 0.5;
	return (double)*out / places == recorded;
}

/* Reads a number of a recorded configuration. null stands for an option that was not given and that
   has no default. */
static bool read_number(
	const struct json_object *recorded, uint32_t index, struct replay_config *out)
{
	const struct option *row = &rows[index];
	bool may_lack = row->initial == NULL && records[index].taping != FILLED;
	struct error ignored = {0};
	uint64_t value;
	double decimal;

	const cJSON *node = json_find(recorded, records[index].field);
	if (may_lack && cJSON_IsNull(node)) {
		*(uint64_t *)((char *)out + row->offset) = row->absent;
		return true;
	}
	/* Refuses what is no number, or is there twice. */
	json_double(recorded, records[index].field, 0, 1e300, &decimal, &ignored);
	if (ignored.status != STATUS_OK || !recorded_integer(decimal, row->kind, &value) ||
		!(option_fits(row, value) || (may_lack && value == row->absent))) {
		return false;
	}
	*(uint64_t *)((char *)out + row->offset) = value;
	return true;
}

static bool read_flag(const struct json_object *recorded, uint32_t index, struct replay_config *out)
{
	struct error ignored = {0};
	uint64_t value;

	if (json_u64(recorded, records[index].field, 0, 1, &value, &ignored) != STATUS_OK) {
		return false;
	}
	*(bool *)((char *)out + rows[index].offset) = value != 0;
	return true;
}

static bool read_word(const struct json_object *recorded, uint32_t index, struct replay_config *out)
{
	struct error ignored = {0};
	const char *text;

	return json_text(recorded, records[index].field, &text, &ignored) == STATUS_OK &&
	       option_set(&rows[index], out, text, &ignored) == STATUS_OK;
}

/* Reads a row's value of a recorded configuration into `out`, within the ranges of the command
   line. */
static enum status read_value(const struct json_object *recorded, uint32_t index,
	struct replay_config *out, struct error *error)
{
	const enum option_kind kind = rows[index].kind;
	char expected[OPTION_EXPECTED_BYTES];
	bool is_number = kind == OPTION_COUNT || kind == OPTION_MILLIONTHS;
	bool is_good = is_number	     ? read_number(recorded, index, out)
		       : kind == OPTION_FLAG ? read_flag(recorded, index, out)
					     : read_word(recorded, index, out);

	if (is_good) {
		return STATUS_OK;
	}
	option_expected(&rows[index], expected);
	return json_refuse(recorded, records[index].field, expected, error);
}

/* Sets an option to what it is where it is not given. */
static enum status set_default(
	const struct option *row, struct replay_config *config, struct error *error)
{
	void *value = (char *)config + row->offset;

	if (row->initial != NULL) {
		return option_set(row, config, row->initial, error);
	}
	if (row->kind == OPTION_FLAG) {
		*(bool *)value = false;
	} else if (row->kind == OPTION_TEXT) {
		*(const char **)value = NULL;
	} else {
		*(uint64_t *)value = row->absent;
	}
	return STATUS_OK;
}

void replay_config_drop_router(struct replay_config *config)
{
	static const char *const names[] = {"router", "router-option", "router-view"};

	for (uint32_t i = 0; i < ROW_COUNT; i++) {
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
			struct error none = {0};
			if (strcmp(rows[i].name, names[k]) == 0) {
				check(set_default(&rows[i], config, &none) == STATUS_OK);
				*(bool *)((char *)config + rows[i].given_offset) = false;
			}
		}
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
			TRY(set_default(row, config, error));
		} else {
			TRY(read_value(recorded, i, config, error));
		}
		const char *found = value_text(&asked, row, here);
		const char *expected = value_text(config, row, there);
		if (is_given && strcmp(found, expected) != 0) {
			return error_set(error, STATUS_USAGE,
				"--%s is %s here and %s in the recorded run", row->name, found,
				is_absent(config, row) ? "not given" : expected);
		}
	}
	return STATUS_OK;
}

/* As config.json has at most. */
enum { SPREAD_HEADS_MOST = 1024 };

/* What is only known of runs on a GPU, or with a profile calibrated for one. */
static enum status read_spread(
	const struct json_object *root, struct prefill_spread *out, struct error *error)
{
	struct json_object section;

	if (!json_has(root, SUMMARY_SPREAD)) {
		return STATUS_OK;
	}
	TRY(json_object(root, SUMMARY_SPREAD, &section, error));
	TRY(json_u32(&section, SUMMARY_SPREAD_HEADS, 1, SPREAD_HEADS_MOST, &out->heads, error));
	TRY(json_u32(&section, SUMMARY_SPREAD_MULTIPROCESSORS, 1, PREFILL_MULTIPROCESSORS_MAX,
		&out->multiprocessors, error));
	return STATUS_OK;
}

static enum status read_readers(const struct json_object *root, uint32_t *out, struct error *error)
{
	return json_has(root, SUMMARY_READERS)
		       ? json_u32(root, SUMMARY_READERS, 1, OPERATION_READERS_MOST, out, error)
		       : STATUS_OK;
}

static enum status read_recording(struct replay_config *config,
	const struct json_document *document, struct replay_recording *recording,
	struct error *error)
{
	struct json_object root, section;
	struct error ignored = {0};
	const char *hash, *clock;

	TRY(json_root(&root, document, error));
	TRY(json_object(&root, SUMMARY_TRACE, &section, error));
	TRY(json_text(&section, SUMMARY_TRACE_NAME, &recording->trace_name, error));
	TRY(json_text(&section, SUMMARY_TRACE_XXH64, &hash, error));
	snprintf(recording->trace_xxh64, sizeof(recording->trace_xxh64), "%s", hash);
	TRY(json_bool(&root, SUMMARY_CALIBRATED, &recording->is_calibrated, error));
	TRY(read_spread(&root, &recording->spread, error));
	TRY(read_readers(&root, &recording->readers, error));
	TRY(json_object(&root, SUMMARY_CONFIG, &section, error));
	recording->is_wall_clock = json_text(&section, "clock", &clock, &ignored) == STATUS_OK &&
				   strcmp(clock, "wall") == 0;
	return adopt_values(config, &section, error);
}

enum status replay_config_from_recording(struct replay_config *config, const char *directory,
	struct replay_recording *recording, struct error *error)
{
	struct json_document document = {0};

	memset(recording, 0, sizeof(*recording));
	TRY(result_summary_open(&document, directory, error));
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
