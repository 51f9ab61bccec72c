#include "tests/fuzz/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/commands/commands.h"
#include "bench/replay/replay_config.h"
#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "reports/results/results.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/require.h"

/* A command line is parsed and not run. Its configuration is recorded and read again. */

enum { WORDS_MAX = 100, LINE_BYTES_MAX = 8192 };

struct words {
	char text[LINE_BYTES_MAX];
	char *list[WORDS_MAX + 1];
	int count;
};

static void split(struct words *words, const uint8_t *bytes, size_t byte_count)
{
	size_t length = byte_count < LINE_BYTES_MAX ? byte_count : LINE_BYTES_MAX - 1;
	char *at = words->text;

	memcpy(words->text, bytes, length);
	words->text[length] = '\0';
	words->count = 0;
	while (*at != '\0' && words->count < WORDS_MAX) {
		words->list[words->count++] = at;
		at += strcspn(at, "\n");
		if (*at == '\n') {
			*at++ = '\0';
		}
	}
	words->list[words->count] = NULL;
}

/* The command that the first words name; *depth: how many there are. NULL: none, or a group. */
static const struct command *find_command(const struct words *words, int *depth)
{
	const struct command *command = &command_quire;

	for (*depth = 0; command != NULL && command->members != NULL; ++*depth) {
		command = *depth < words->count ? command_find(command, words->list[*depth]) : NULL;
	}
	return command;
}

/* The configuration as summary.json has it; owned. */
static char *config_text(const struct replay_config *config)
{
	cJSON *json = replay_config_json(config);
	char *text = cJSON_PrintUnformatted(json);

	require(text != NULL, "out of memory");
	cJSON_Delete(json);
	return text;
}

/* What the command line accepts, a recording may hold. */
static void record_and_read(const struct replay_config *config)
{
	struct replay_config recorded = *config, read;
	struct replay_recording recording;
	struct error error = {0};
	struct text summary = {0};
	char folder[TEMPORARY_PATH_BYTES];

	/* What a run completes. */
	recorded.kv_blocks += recorded.kv_blocks == 0;
	recorded.max_model_len += recorded.max_model_len == 0;
	if (recorded.model == NULL || recorded.seed > JSON_INTEGER_MAX) {
		return; /* `generate` needs a model and never records */
	}
	char *before = config_text(&recorded);
	text_add(&summary, "{\"" SUMMARY_TRACE "\":{\"" SUMMARY_TRACE_NAME
			   "\":\"t\",\"" SUMMARY_TRACE_XXH64 "\":\"0\"},"
			   "\"" SUMMARY_CALIBRATED "\":true,\"" SUMMARY_CONFIG "\":");
	text_add(&summary, before);
	text_add(&summary, "}");
	temporary_folder(folder);
	temporary_write(folder, RESULT_SUMMARY, summary.bytes, NULL);
	read = recorded;
	enum status status = replay_config_from_recording(&read, folder, &recording, &error);
	require(status == STATUS_OK, "%s in %s", error.text, summary.bytes);
	char *after = config_text(&read);
	require(strcmp(before, after) == 0, "'%s' became '%s'", before, after);
	replay_recording_close(&recording);
	sections_remove(folder);
	text_deinit(&summary);
	cJSON_free(before);
	cJSON_free(after);
}

static void use_config(const struct replay_config *config)
{
	struct workload_options workload;
	struct arrival_profile profile;
	struct error error = {0};

	require_refused_in_one_line(replay_config_check(config, &error), &error);
	error = (struct error){0};
	require_refused_in_one_line(
		replay_config_workload(config, &workload, &profile, &error), &error);
}

bool fuzz_options(const uint8_t *bytes, size_t byte_count)
{
	struct words words;
	struct error error = {0};
	bool wants_help;
	int depth;

	split(&words, bytes, byte_count);
	const struct command *command = find_command(&words, &depth);
	if (command == NULL) {
		return false;
	}
	struct command_line line = {.command = command,
		.argc = words.count - depth + 1,
		.argv = words.list + depth - 1,
		.values = memory_take(1, command->value_bytes + 1)};
	command_defaults(command, line.values);
	enum status status = command_parse(&line, &wants_help, &error);
	require(status == STATUS_OK || status == STATUS_USAGE, "status %d", (int)status);
	require(status == error.status && (status == STATUS_OK) == (error.text[0] == '\0'), "'%s'",
		error.text);
	if (status == STATUS_OK && command == &command_replay) {
		const struct replay_config *config =
			(const void *)((const char *)line.values + command->table_offset);
		record_and_read(config);
		use_config(config);
	}
	free(line.values);
	return status == STATUS_OK;
}

/* ---- the mutator ---- */

static uint32_t option_count(const struct command *command)
{
	struct option option;
	uint32_t count = 0;

	while (command_option(command, count, &option)) {
		count++;
	}
	return count;
}

static void add_value(struct text *out, const struct option *option, struct draw *draw)
{
	static const char *const values[] = {"", "-", "nan", "inf", "3 ", "+3", "0x10", "1_000",
		"%s%n", "1:2:3", "0.5:2:10", "none", "dummy:1", "--help", "\xd9\xa3", "x\x1b[1m"};
	uint32_t words = 0;

	while (option->kind == OPTION_WORD && option->word_at(words) != NULL) {
		words++;
	}
	if (words > 0 && draw_below(draw, 4) > 0) {
		text_add(out, option->word_at(draw_below(draw, words)));
	} else if (draw_below(draw, 3) == 0) {
		text_add(out, values[draw_below(draw, sizeof(values) / sizeof(values[0]))]);
	} else if (draw_below(draw, 3) == 0 && option->maximum > 0) {
		/* within a step of either end; millionths are too small by a factor */
		uint64_t edge = draw_below(draw, 2) == 0 ? option->minimum : option->maximum;
		text_format(out, "%llu", (unsigned long long)edge + draw_below(draw, 3) - 1);
	} else {
		text_add(out, draw_number(draw));
	}
	text_add(out, "\n");
}

/* An option of the command with a value, as one argument or two. */
static void add_option(struct text *out, const struct command *command, struct draw *draw)
{
	struct option option;
	uint32_t count = option_count(command);

	if (count == 0 || !command_option(command, draw_below(draw, count), &option) ||
		option.kind == OPTION_HEADING) {
		text_add(out, "file\n");
		return;
	}
	text_format(out, "--%s", option.name);
	text_add(out, draw_below(draw, 4) == 0 ? "=" : "\n");
	if (option.kind != OPTION_FLAG) {
		add_value(out, &option, draw);
	}
}

size_t fuzz_mutate_command_line(uint8_t *bytes, size_t byte_count, size_t room, uint64_t seed)
{
	struct draw draw = {.key = seed};
	struct words words;
	struct text out = {0};
	int depth;

	split(&words, bytes, byte_count);
	const struct command *command = find_command(&words, &depth);
	if (command == NULL) {
		return fuzz_mutate_bytes(bytes, byte_count, room, seed);
	}
	int at = depth + (int)draw_below(&draw, (uint32_t)(words.count - depth) + 1);
	uint32_t dropped = draw_below(&draw, 4);
	for (int i = 0; i <= words.count; i++) {
		if (i == at) {
			add_option(&out, command, &draw);
		}
		if (i < words.count && (i < at || i >= at + (int)dropped)) {
			text_add(&out, words.list[i]);
			text_add(&out, "\n");
		}
	}
	if (out.byte_count <= room) {
		byte_count = out.byte_count;
		memcpy(bytes, out.bytes, byte_count);
	}
	text_deinit(&out);
	return byte_count;
}
