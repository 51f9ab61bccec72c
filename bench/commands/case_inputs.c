#include "bench/commands/case_inputs.h"

#include "bench/commands/commands.h"
#include "bench/commands/trace/trace_commands.h"
#include "bench/fleet/groups.h"
#include "bench/gate/gate.h"
#include "bench/replay/replay_config.h"
#include "bench/replay/run_to_folder.h"
#include "engine/base/memory.h"
#include "reports/results/fidelity.h"

#include <cJSON.h>
#include <stdlib.h>
#include <string.h>

/* As the program would be called: COMMAND WORD ... */
struct words {
	const char *list[2 * SUITE_ARGUMENTS_MAX + 2];
	int count;
};

static void add(struct words *words, const char *const *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		words->list[words->count++] = list[i];
	}
}

/* Parses the words; values: (command->value_bytes). What the run refuses ends the parse. */
static void parse(const struct command *command, struct words *words, void *values)
{
	/* argv's type is not const, but parsing does not change the words. */
	struct command_line line = {.command = command,
		.argc = words->count,
		.argv = (char **)words->list,
		.values = values};
	struct error refused = {0};
	bool wants_help;

	command_defaults(command, values);
	(void)command_parse(&line, &wants_help, &refused);
}

static void note_options(const struct command *command, const void *values)
{
	struct option option;

	for (uint32_t i = 0; command_option(command, i, &option); i++) {
		if (!option_takes_file(&option) && !option_takes_folder(&option)) {
			continue;
		}
		const char *path = *(const char *const *)((const char *)values + option.offset);
		if (path != NULL) {
			gate_note_input(path);
		}
	}
}

static void note_profiles(const char *fleet)
{
	struct fleet_groups *groups = memory_take(1, sizeof(*groups));
	struct error refused = {0};

	(void)fleet_groups_read(groups, fleet, &refused);
	for (uint32_t i = 0; i < groups->count; i++) {
		gate_note_input(groups->list[i].gpu);
	}
	free(groups);
}

/* The options of a case's runs, owned; records: of the baseline's runs. */
static struct replay_request *parse_replay(const struct suite_case *rules, bool records)
{
	const struct command *command = &command_replay;
	struct replay_request *request = memory_take(1, command->value_bytes);
	struct words words = {{command->name}, 1};

	add(&words, rules->options, rules->option_count);
	if (records) {
		add(&words, rules->recorded, rules->recorded_count);
	}
	parse(command, &words, request);
	return request;
}

static void note_replay(const struct suite_case *rules, bool records)
{
	struct replay_request *request = parse_replay(rules, records);

	note_options(&command_replay, request);
	if (request->run.config.fleet != NULL) {
		note_profiles(request->run.config.fleet);
	}
	free(request);
}

static void note_make(const struct suite_case *rules)
{
	const struct command *command = &command_trace_make;
	void *values = memory_take(1, command->value_bytes);
	struct words words = {{command->name}, 1};

	add(&words, rules->make, rules->make_count);
	parse(command, &words, values);
	note_options(command, values);
	free(values);
}

void case_inputs_note(const struct suite *suite, bool records)
{
	for (uint32_t i = 0; i < suite->count; i++) {
		note_replay(&suite->cases[i], records);
		note_make(&suite->cases[i]);
	}
}

static bool computes(const struct replay_config *config)
{
	return strcmp(config->runner, "cuda") == 0 || strcmp(config->runner, "reference") == 0;
}

/* Refuses a setting of the baseline's runs that the case lacks: all runs would be INVALID. */
static enum status check_settings(const struct suite *suite, const struct suite_case *rules,
	const cJSON *recorded, const cJSON *own, struct error *error)
{
	for (const cJSON *item = recorded->child; item != NULL; item = item->next) {
		const cJSON *twin = cJSON_GetObjectItemCaseSensitive(own, item->string);
		if (!fidelity_is_of_runner(item->string) && !cJSON_Compare(item, twin, true)) {
			char *found = cJSON_PrintUnformatted(item);
			error_set(error, STATUS_INPUT,
				"%s: case %s: field recorded: found %s %.64s, expected options "
				"that "
				"say what computes the steps; `options` are of the simulation too",
				suite->path, rules->name, item->string, found);
			cJSON_free(found);
			return error->status;
		}
	}
	return STATUS_OK;
}

static enum status check_case(
	const struct suite *suite, const struct suite_case *rules, struct error *error)
{
	struct replay_request *recorded = parse_replay(rules, true);
	struct replay_request *own = parse_replay(rules, false);
	cJSON *recorded_json = replay_config_json(&recorded->run.config);
	cJSON *own_json = replay_config_json(&own->run.config);

	enum status status = check_settings(suite, rules, recorded_json, own_json, error);
	if (status == STATUS_OK && !computes(&recorded->run.config)) {
		status = error_set(error, STATUS_INPUT,
			"%s: case %s: field recorded: found --runner %.64s, expected one that "
			"computes: cuda or reference",
			suite->path, rules->name, recorded->run.config.runner);
	}
	cJSON_Delete(recorded_json);
	cJSON_Delete(own_json);
	free(recorded);
	free(own);
	return status;
}

enum status case_inputs_check(const struct suite *suite, struct error *error)
{
	for (uint32_t i = 0; i < suite->count; i++) {
		if (suite->cases[i].recorded_count > 0) {
			TRY(check_case(suite, &suite->cases[i], error));
		}
	}
	return STATUS_OK;
}
