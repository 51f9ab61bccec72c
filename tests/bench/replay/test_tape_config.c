#include "bench/replay/run_to_folder.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "reports/results/results.h"
#include "tests/harness/property.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"

/* The recorded configuration of a tape is a file that anyone may have written. Whatever a field of
   it holds, the replay ends with a status and one line, and a number outside the range of its
   option is refused as on the command line. */

/* JSON values, written as they are. */
static const char *const values[] = {"0", "-1", "1", "2147483648", "4294967295", "4294967296",
	"268435457", "9007199254740992", "9007199254740993", "1e15", "1e18", "1e19", "1e308",
	"1e999", "1e-7", "0.0000001", "0.5", "1000001", "true", "null", "\"x\"", "\"\"", "[]", "{}",
	"\"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\"", "\"auto\"",
	"\"1:2:3\"", "\"a\\u001b[31m\""};

enum { VALUES = sizeof(values) / sizeof(values[0]) };

struct recording {
	struct replay_fixture fixture;
	char played[PATH_BYTES];
	cJSON *summary; /* of fixture.out, which has steps.tsv too */
};

static struct run_request request_of(const struct recording *recording)
{
	struct run_request request = {.trace_path = recording->fixture.trace};

	replay_config_default(&request.config);
	return request;
}

static void recording_open(struct recording *recording)
{
	struct error error = {0};

	replay_fixture_open(&recording->fixture);
	path_in(recording->played, recording->fixture.folder, "played");
	struct replay_request request = {
		.run = request_of(recording), .out = recording->fixture.out, .wants_steps = true};
	request.run.config.block_size = 16;
	request.run.config.trace_block_size = 16;
	request.run.config.kv_blocks = 16;
	request.run.config.max_num_seqs = 4;
	request.run.config.max_num_batched_tokens = 48;
	require(run_to_folder(&request, &error) == STATUS_OK, "%s", error.text);
	recording->summary = read_summary(recording->fixture.out);
}

static void recording_close(struct recording *recording)
{
	cJSON_Delete(recording->summary);
	replay_fixture_close(&recording->fixture);
}

/* Writes the recorded summary with another value in one field. */
static const char *change_field(
	const struct recording *recording, uint32_t index, const char *value)
{
	cJSON *config = cJSON_GetObjectItem(recording->summary, SUMMARY_CONFIG);
	const char *field = cJSON_GetArrayItem(config, (int)index)->string;
	cJSON *copy = cJSON_Duplicate(recording->summary, true);

	cJSON_ReplaceItemInObject(
		cJSON_GetObjectItem(copy, SUMMARY_CONFIG), field, cJSON_CreateRaw(value));
	char *text = cJSON_Print(copy);
	temporary_write(recording->fixture.out, RESULT_SUMMARY, text, NULL);
	cJSON_free(text);
	cJSON_Delete(copy);
	return field;
}

static bool is_untaped(const char *name)
{
	return strcmp(name, "runner") == 0 || strcmp(name, "kernels") == 0 ||
	       strcmp(name, "enforce-eager") == 0 || strcmp(name, "overlap") == 0 ||
	       strcmp(name, "shared-prefix-attention") == 0 || strcmp(name, "clock") == 0 ||
	       strcmp(name, "tp-transport") == 0 || strcmp(name, "engine-process") == 0;
}

/* By the option's own text: whether the command line would take this number. null and 0 also stand
   for an option that was not given and has no default, except where a run fills it in. */
static bool is_in_range(const struct option *row, const char *value)
{
	bool is_filled =
		strcmp(row->name, "kv-blocks") == 0 || strcmp(row->name, "max-model-len") == 0;
	struct replay_config scratch;
	struct error error = {0};
	char *end;
	double number = strtod(value, &end);
	char decimal[400];

	if (strcmp(value, "null") == 0 && row->initial == NULL && !is_filled) {
		return row->kind != OPTION_FLAG;
	}
	if (*end != '\0' || end == value) {
		return false;
	}
	if (number == 0 && row->initial == NULL && !is_filled) {
		return true;
	}
	if (row->kind == OPTION_FLAG) {
		return number == 0 || number == 1;
	}
	/* Without its exponent; with a seventh place the option refuses it. */
	int places = number == floor(number) ? 0 : number * 1e6 == floor(number * 1e6) ? 6 : 7;
	snprintf(decimal, sizeof(decimal), "%.*f", places, number);
	return option_set(row, &scratch, decimal, &error) == STATUS_OK;
}

static void require_one_line(const struct error *error)
{
	require(error->text[0] != '\0', "no line");
	require(strpbrk(error->text, "\r\n") == NULL, "two lines: '%s'", error->text);
}

static void any_value_ends_with_a_status(struct prop *prop, const void *context)
{
	const struct recording *recording = context;
	uint32_t index = prop_range(prop, 0, replay_options.count - 1);
	const char *value = values[prop_below(prop, VALUES)];
	const struct option *row = &replay_options.rows[index];
	const char *field = change_field(recording, index, value);
	bool is_number = row->kind == OPTION_COUNT || row->kind == OPTION_MILLIONTHS ||
			 row->kind == OPTION_FLAG;
	struct error error = {0};
	char refusal[128];

	prop_log(prop, "%s: %s", field, value);
	struct replay_request request = {
		.run = request_of(recording), .out = recording->played, .is_forced = true};
	request.run.config.runner = "tape";
	request.run.tape = recording->fixture.out;
	enum status status = run_to_folder(&request, &error);
	require(status == error.status, "status %d, error %d", (int)status, (int)error.status);
	if (status != STATUS_OK) {
		require_one_line(&error);
	}
	if (is_number && !is_untaped(row->name) && !is_in_range(row, value)) {
		snprintf(refusal, sizeof(refusal), "/summary.json: field config.%s: found ", field);
		require(status == STATUS_INPUT, "%s %s: status %d", field, value, (int)status);
		require(strstr(error.text, refusal) != NULL, "found '%s'", error.text);
	}
	/* No field of any file may be beyond doubles. */
	if (is_untaped(row->name)) {
		bool is_beyond = strcmp(value, "1e999") == 0;
		require(status == (is_beyond ? STATUS_INPUT : STATUS_OK), "%s: status %d", field,
			(int)status);
	}
}

Test(tape_config, any_value_of_any_field_ends_with_a_status, .timeout = 300)
{
	struct recording recording;
	uint64_t count;

	recording_open(&recording);
	const struct prop_options options = {.name = "tape_config",
		.body = any_value_ends_with_a_status,
		.context = &recording,
		.trials = 2000};
	bool holds = prop_holds_always(&options, &count);
	recording_close(&recording);
	cr_assert(holds);
	require_equal(count, replay_options.count * VALUES);
}

/* The first and last numbers of every range are read, and those beside them refused. */
static void borders_are_those_of_the_option(struct prop *prop, const void *context)
{
	const struct recording *recording = context;
	uint32_t index = prop_range(prop, 0, replay_options.count - 1);
	const struct option *row = &replay_options.rows[index];
	uint32_t border = prop_range(prop, 0, 3);
	bool is_inside = border < 2;
	struct replay_config config;
	struct replay_recording read;
	struct error error = {0};
	char value[NUMBER_TEXT_BYTES];
	uint64_t number = border == 0	? row->minimum
			  : border == 1 ? row->maximum
			  : border == 2 ? row->minimum - 1
					: row->maximum + 1;

	if ((row->kind != OPTION_COUNT && row->kind != OPTION_MILLIONTHS) ||
		(border == 2 && row->minimum <= 1)) {
		return; /* 0 may mean that an option was not given */
	}
	decimal_text(value, number, row->kind == OPTION_MILLIONTHS ? 6 : 0);
	const char *field = change_field(recording, index, value);
	prop_log(prop, "%s: %s", field, value);
	replay_config_default(&config);
	enum status status =
		replay_config_from_recording(&config, recording->fixture.out, &read, &error);
	if (is_inside) {
		require(status == STATUS_OK, "%s: %s", value, error.text);
		require_equal(*(const uint64_t *)((const char *)&config + row->offset), number);
		replay_recording_close(&read);
		return;
	}
	require(status == STATUS_INPUT, "%s %s: status %d", field, value, (int)status);
	require(strstr(error.text, field) != NULL, "found '%s'", error.text);
}

Test(tape_config, the_borders_of_a_recorded_number_are_those_of_its_option, .timeout = 120)
{
	struct recording recording;
	uint64_t count;

	recording_open(&recording);
	const struct prop_options options = {.name = "borders",
		.body = borders_are_those_of_the_option,
		.context = &recording,
		.trials = 1000};
	bool holds = prop_holds_always(&options, &count);
	recording_close(&recording);
	cr_assert(holds);
}

/* ---- words ---- */

enum { WORD_BYTES = 128, TEXT_KINDS = 8 };

/* A word of the row, one much like it, or one of another row. False: no text at all. */
static bool draw_text(struct prop *prop, const struct option *row, char *text)
{
	const struct option *other = &replay_options.rows[prop_below(prop, replay_options.count)];
	const struct option *from = prop_chance(prop, 1, 4) ? other : row;
	uint32_t kind = prop_range(prop, 0, TEXT_KINDS - 1), words = 0;

	while (from->kind == OPTION_WORD && from->word_at(words) != NULL) {
		words++;
	}
	uint32_t index = words == 0 ? 0 : (uint32_t)prop_below(prop, words);
	snprintf(text, WORD_BYTES, "%s", words == 0 ? "nosuch" : from->word_at(index));
	size_t bytes = strlen(text);
	if (kind == 0) {
		snprintf(text, WORD_BYTES, "nosuch");
	} else if (kind == 1) {
		text[bytes - 1] = '\0';
	} else if (kind == 2) {
		snprintf(text + bytes, WORD_BYTES - bytes, "2");
	} else if (kind == 3) {
		text[0] = (char)(text[0] ^ ' '); /* the other case */
	} else if (kind == 4) {
		snprintf(text, WORD_BYTES, "%u", index);
	} else if (kind == 5) {
		text[0] = '\0';
	}
	return kind != 6;
}

/* A text is read where the command line takes it, and is the option's then. */
static void require_read_as_on_the_command_line(const struct recording *recording,
	const struct option *row, const char *field, const char *text)
{
	struct replay_config config, given;
	struct replay_recording read;
	struct error error = {0}, refusal = {0};
	char here[REPLAY_VALUE_BYTES], there[REPLAY_VALUE_BYTES], place[WORD_BYTES];

	replay_config_default(&config);
	replay_config_default(&given);
	bool is_good = text != NULL && option_set(row, &given, text, &refusal) == STATUS_OK;
	enum status status =
		replay_config_from_recording(&config, recording->fixture.out, &read, &error);
	if (is_good || is_untaped(row->name)) {
		require(status == STATUS_OK, "%s %s: %s", field, text, error.text);
		const char *found = replay_config_value(&config, row, here);
		const char *expected = replay_config_value(&given, row, there);
		require(is_untaped(row->name) || strcmp(found, expected) == 0,
			"%s: %s is read as %s", field, expected, found);
		replay_recording_close(&read);
		return;
	}
	snprintf(place, sizeof(place), "/summary.json: field config.%s: found ", field);
	require(status == STATUS_INPUT, "%s %s: status %d", field, text, (int)status);
	require(strstr(error.text, place) != NULL, "found '%s'", error.text);
	for (uint32_t i = 0; row->kind == OPTION_WORD && row->word_at(i) != NULL; i++) {
		require(strstr(error.text, row->word_at(i)) != NULL, "'%s' lacks %s", error.text,
			row->word_at(i));
	}
}

static void words_are_those_of_the_option(struct prop *prop, const void *context)
{
	static const char *const others[] = {"null", "true", "1", "[]", "{}", "[\"fcfs\"]"};
	const struct recording *recording = context;
	uint32_t index = prop_range(prop, 0, replay_options.count - 1);
	const struct option *row = &replay_options.rows[index];
	char text[WORD_BYTES], value[WORD_BYTES + 2];

	if (row->kind != OPTION_WORD && row->kind != OPTION_TEXT) {
		return;
	}
	bool is_text = draw_text(prop, row, text);
	snprintf(value, sizeof(value), is_text ? "\"%s\"" : "%s",
		is_text ? text : others[prop_below(prop, sizeof(others) / sizeof(others[0]))]);
	const char *field = change_field(recording, index, value);
	prop_log(prop, "%s: %s", field, value);
	require_read_as_on_the_command_line(recording, row, field, is_text ? text : NULL);
}

/* A word that this build does not know is refused, and not taken for the default. */
Test(tape_config, the_words_of_a_recording_are_those_of_its_options, .timeout = 120)
{
	struct recording recording;

	recording_open(&recording);
	const struct prop_options options = {.name = "words",
		.body = words_are_those_of_the_option,
		.context = &recording,
		.trials = 1000};
	bool holds = prop_holds(&options);
	recording_close(&recording);
	cr_assert(holds);
}

/* Each of them, with a word in its place that no option has: a replay ends with the refusal. */
Test(tape_config, no_replay_begins_with_an_unknown_word)
{
	struct recording recording;
	uint32_t count = 0;

	recording_open(&recording);
	for (uint32_t i = 0; i < replay_options.count; i++) {
		const struct option *row = &replay_options.rows[i];
		struct run_outcome outcome;
		struct error error = {0};
		if (row->kind != OPTION_WORD || is_untaped(row->name)) {
			continue;
		}
		struct run_request request = request_of(&recording);
		const char *field = change_field(&recording, i, "\"nosuch\"");
		request.config.runner = "tape";
		request.tape = recording.fixture.out;
		require(run_replay(&request, &outcome, &error) == STATUS_INPUT, "%s is taken",
			field);
		require(strstr(error.text, field) != NULL && strstr(error.text, "nosuch") != NULL,
			"%s: found '%s'", field, error.text);
		count++;
	}
	recording_close(&recording);
	require(count > 12, "%u words", count);
}

/* Without a field, as of a recording that an older build made: the default, or a refusal that names
   it. */
Test(tape_config, a_lacking_field_is_its_default_or_refused)
{
	struct recording recording;
	uint32_t defaults = 0, refused = 0;

	recording_open(&recording);
	cJSON *config = cJSON_GetObjectItem(recording.summary, SUMMARY_CONFIG);
	for (uint32_t i = 0; i < replay_options.count; i++) {
		const struct option *row = &replay_options.rows[i];
		const char *field = cJSON_GetArrayItem(config, (int)i)->string;
		char here[REPLAY_VALUE_BYTES], there[REPLAY_VALUE_BYTES];
		struct replay_config found, usual;
		struct replay_recording read;
		struct error error = {0};
		cJSON *copy = cJSON_Duplicate(recording.summary, true);
		cJSON_DeleteItemFromArray(cJSON_GetObjectItem(copy, SUMMARY_CONFIG), (int)i);
		char *text = cJSON_Print(copy);
		temporary_write(recording.fixture.out, RESULT_SUMMARY, text, NULL);
		cJSON_free(text);
		cJSON_Delete(copy);
		replay_config_default(&found);
		replay_config_default(&usual);
		enum status status =
			replay_config_from_recording(&found, recording.fixture.out, &read, &error);
		if (status == STATUS_OK) {
			cr_assert_str_eq(replay_config_value(&found, row, here),
				replay_config_value(&usual, row, there), "%s", row->name);
			replay_recording_close(&read);
			defaults++;
		} else {
			require_equal(status, STATUS_INPUT);
			require(strstr(error.text, field) != NULL, "%s: '%s'", field, error.text);
			refused++;
		}
	}
	recording_close(&recording);
	require(defaults > 5 && refused > 5, "%u defaults, %u refused", defaults, refused);
}

/* ---- what is given beside a recording ---- */

/* A value of the option as a recording and as a refusal have it. */
static void draw_value(struct prop *prop, const struct option *row, char *text)
{
	static const char *const texts[] = {"one", "two", "on"};
	uint64_t middle = row->minimum + prop_below(prop, row->maximum - row->minimum + 1);
	uint64_t ends[] = {row->minimum, row->maximum, middle};
	uint32_t words = 0;

	switch (row->kind) {
	case OPTION_COUNT:
	case OPTION_MILLIONTHS:
		decimal_text(
			text, ends[prop_below(prop, 3)], row->kind == OPTION_MILLIONTHS ? 6 : 0);
		break;
	case OPTION_FLAG:
		snprintf(text, WORD_BYTES, "%u", (unsigned)prop_below(prop, 2));
		break;
	case OPTION_WORD:
		while (row->word_at(words) != NULL) {
			words++;
		}
		snprintf(text, WORD_BYTES, "%s", row->word_at((uint32_t)prop_below(prop, words)));
		break;
	default:
		snprintf(text, WORD_BYTES, "%s",
			row->none != NULL && *row->none != '\0' && prop_chance(prop, 1, 3)
				? row->none
				: texts[prop_below(prop, 3)]);
		break;
	}
}

static void give(struct replay_config *config, const struct option *row, const char *text)
{
	struct error error = {0};

	*(bool *)((char *)config + row->given_offset) = true;
	if (row->kind == OPTION_FLAG) {
		*(bool *)((char *)config + row->offset) = *text == '1';
	} else {
		require(option_set(row, config, text, &error) == STATUS_OK, "%s", error.text);
	}
}

/* Of a number. */
static uint64_t value_in(const struct replay_config *config, const struct option *row)
{
	return *(const uint64_t *)((const char *)config + row->offset);
}

/* An option that is given has the recorded value, or is refused with both, unless a tape lets it
   free. */
static void given_agrees(struct prop *prop, const void *context)
{
	const struct recording *recording = context;
	uint32_t index = prop_range(prop, 0, replay_options.count - 1);
	const struct option *row = &replay_options.rows[index];
	bool is_text = row->kind == OPTION_WORD || row->kind == OPTION_TEXT;
	bool may_lack = !is_text && row->kind != OPTION_FLAG && row->initial == NULL &&
			strcmp(row->name, "kv-blocks") != 0 &&
			strcmp(row->name, "max-model-len") != 0;
	bool lacks = may_lack && prop_chance(prop, 1, 4);
	char here[WORD_BYTES], there[WORD_BYTES], value[WORD_BYTES + 2], line[4 * WORD_BYTES];
	char buffer[REPLAY_VALUE_BYTES], kept[REPLAY_VALUE_BYTES];
	struct replay_config config, asked, recorded;
	struct replay_recording read;
	struct error error = {0};

	draw_value(prop, row, here);
	draw_value(prop, row, there);
	snprintf(value, sizeof(value), is_text ? "\"%s\"" : "%s", lacks ? "null" : there);
	const char *field = change_field(recording, index, value);
	replay_config_default(&config);
	recorded = config;
	give(&recorded, row, there);
	give(&config, row, here);
	asked = config;
	prop_log(prop, "%s: %s here, %s recorded", field, here, value);
	enum status status =
		replay_config_from_recording(&config, recording->fixture.out, &read, &error);
	/* Of some, 0 is what they are where nobody gives them. */
	bool was_given = !may_lack || (!lacks && value_in(&recorded, row) != row->absent);
	bool is_same = lacks ? value_in(&asked, row) == row->absent : strcmp(here, there) == 0;
	if (is_same || is_untaped(row->name)) {
		require(status == STATUS_OK, "%s", error.text);
		const char *found = replay_config_value(&config, row, buffer);
		const char *expected = replay_config_value(&asked, row, kept);
		require(strcmp(found, expected) == 0, "%s, not %s", found, expected);
		replay_recording_close(&read);
		return;
	}
	snprintf(line, sizeof(line), "--%s is %s here and %s in the recorded run", row->name, here,
		was_given ? there : "not given");
	require(status == STATUS_USAGE, "status %d", (int)status);
	require(strcmp(error.text, line) == 0, "found '%s', expected '%s'", error.text, line);
}

Test(tape_config, what_is_given_is_what_was_recorded, .timeout = 120)
{
	struct recording recording;

	recording_open(&recording);
	const struct prop_options options = {
		.name = "given", .body = given_agrees, .context = &recording, .trials = 1000};
	bool holds = prop_holds(&options);
	recording_close(&recording);
	cr_assert(holds);
}

/* What else is known of the recorded run. */
static void facts_are_those_of_the_recording(struct prop *prop, const void *context)
{
	const struct recording *recording = context;
	cJSON *copy = cJSON_Duplicate(recording->summary, true);
	cJSON *config = cJSON_GetObjectItem(copy, SUMMARY_CONFIG);
	bool is_calibrated = prop_chance(prop, 1, 2), is_wall = prop_chance(prop, 1, 2);
	bool has_spread = prop_chance(prop, 1, 2);
	uint32_t heads = prop_range(prop, 1, 1024), multiprocessors = prop_range(prop, 1, 4096);
	struct replay_config found;
	struct replay_recording read;
	struct error error = {0};
	char hash[17];

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)prop_below(prop, UINT64_MAX));
	cJSON_ReplaceItemInObject(cJSON_GetObjectItem(copy, SUMMARY_TRACE), SUMMARY_TRACE_XXH64,
		cJSON_CreateString(hash));
	cJSON_ReplaceItemInObject(copy, SUMMARY_CALIBRATED, cJSON_CreateBool(is_calibrated));
	cJSON_ReplaceItemInObject(
		config, "clock", cJSON_CreateString(is_wall ? "wall" : "virtual"));
	cJSON_DeleteItemFromObject(copy, SUMMARY_SPREAD);
	if (has_spread) {
		cJSON *spread = cJSON_AddObjectToObject(copy, SUMMARY_SPREAD);
		cJSON_AddNumberToObject(spread, SUMMARY_SPREAD_HEADS, heads);
		cJSON_AddNumberToObject(spread, SUMMARY_SPREAD_MULTIPROCESSORS, multiprocessors);
	}
	char *text = cJSON_Print(copy);
	temporary_write(recording->fixture.out, RESULT_SUMMARY, text, NULL);
	cJSON_free(text);
	cJSON_Delete(copy);
	replay_config_default(&found);
	require(replay_config_from_recording(&found, recording->fixture.out, &read, &error) ==
			STATUS_OK,
		"%s", error.text);
	require(strcmp(read.trace_xxh64, hash) == 0, "found %s, expected %s", read.trace_xxh64,
		hash);
	require_equal(read.is_calibrated, is_calibrated);
	require_equal(read.is_wall_clock, is_wall);
	require_equal(read.spread.heads, has_spread ? heads : 0);
	require_equal(read.spread.multiprocessors, has_spread ? multiprocessors : 0);
	replay_recording_close(&read);
}

Test(tape_config, facts_of_a_recording_are_read)
{
	struct recording recording;

	recording_open(&recording);
	const struct prop_options options = {.name = "facts",
		.body = facts_are_those_of_the_recording,
		.context = &recording,
		.trials = 100};
	bool holds = prop_holds(&options);
	recording_close(&recording);
	cr_assert(holds);
}

/* Options that contradict each other name the file too, not options that nobody gave. */
Test(tape_config, a_contradiction_names_the_recording)
{
	struct recording recording;
	struct run_outcome outcome;
	struct error error = {0};

	recording_open(&recording);
	struct run_request request = request_of(&recording);
	request.config.runner = "tape";
	request.tape = recording.fixture.out;
	for (uint32_t i = 0; i < replay_options.count; i++) {
		if (strcmp(replay_options.rows[i].name, "ramp") == 0) {
			change_field(&recording, i, "\"1:2:3\"");
		}
	}
	require_equal(run_replay(&request, &outcome, &error), STATUS_INPUT);
	require(strstr(error.text, "/summary.json: config: --ramp divides --duration") != NULL,
		"found '%s'", error.text);
	recording_close(&recording);
}
