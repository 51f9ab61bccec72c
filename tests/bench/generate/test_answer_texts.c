#include "bench/generate/generate.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Texts of answers whose every byte is a token, from a runner that says what it is told. An answer
   may end behind any byte: whole characters are its text, and one that is cut off is U+FFFD. */

#define TOKENIZER QUIRE_SOURCE_DIR "/tests/fixtures/tokenizer/small.json"
#define REPLACEMENT "\xef\xbf\xbd"

enum { ANSWERS_MAX = 40, ANSWER_BYTES = 64, PROMPT_TOKENS = 3, CHARACTER_BYTES = 4 };

/* The first and the last character of each length, and those beside the surrogates. */
static const char *const characters[] = {"a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80",
	"\xed\x9f\xbf", "\xee\x80\x80", REPLACEMENT, "\xef\xbf\xbf", "\xf0\x90\x80\x80",
	"\xf4\x8f\xbf\xbf", "\xf0\x9f\x98\x80"};

enum { CHARACTERS = sizeof(characters) / sizeof(characters[0]) };

/* By the limit of its tokens; by the token that ends a text; by the limit, at that very token,
   which is ignored. */
enum end { END_LENGTH, END_STOPPED, END_IGNORED, END_COUNT };

struct answer {
	char bytes[ANSWER_BYTES];
	uint32_t byte_count; /* as many tokens, and one more that ends it or is ignored */
	enum end end;
	float temperature;
	char text[ANSWER_BYTES + CHARACTER_BYTES];
};

struct scene {
	struct tokenizer *tokenizer;
	int32_t byte_ids[256];
	int32_t end_id;
	uint32_t count;
	struct answer answers[ANSWERS_MAX];
};

/* ---- tokens ---- */

/* Byte-level vocabularies spell a byte as the character of its number; those that are not printed
   follow from 256 on. */
static void find_byte_ids(struct scene *scene, const char *json)
{
	cJSON *root = cJSON_Parse(json);
	const cJSON *vocab = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "model"), "vocab");
	unsigned others = 256;

	for (unsigned byte = 0; byte < 256; byte++) {
		bool is_printed = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
		unsigned point = is_printed ? byte : others++;
		char name[3] = {(char)point};
		if (point >= 0x80) {
			name[0] = (char)(0xc0 | point >> 6);
			name[1] = (char)(0x80 | (point & 0x3f));
		}
		const cJSON *id = cJSON_GetObjectItemCaseSensitive(vocab, name);
		require(id != NULL, "no token of byte %u", byte);
		scene->byte_ids[byte] = id->valueint;
	}
	cJSON_Delete(root);
}

static void scene_open(struct scene *scene)
{
	struct error error = {STATUS_OK, ""};
	char *json = file_read(TOKENIZER, NULL);

	enum status status =
		tokenizer_parse(&scene->tokenizer, "small.json", json, strlen(json), &error);
	require(status == STATUS_OK, "%s", error.text);
	find_byte_ids(scene, json);
	scene->end_id = tokenizer_find_added(scene->tokenizer, "<|im_end|>");
	require(scene->end_id >= 0, "no token that ends a text");
	free(json);
}

/* ---- answers ---- */

/* Cuts the characters behind `byte_count` bytes. */
static void add_answer(struct scene *scene, const uint32_t *drawn, uint32_t drawn_count,
	uint32_t byte_count, enum end end)
{
	struct answer *answer = &scene->answers[scene->count++];
	uint32_t left = byte_count;

	*answer = (struct answer){.byte_count = byte_count,
		.end = end,
		.temperature = (float)(scene->count * 7 % 5) / 4};
	for (uint32_t i = 0; i < drawn_count && left > 0; i++) {
		const char *character = characters[drawn[i]];
		uint32_t bytes = (uint32_t)strlen(character);
		bool is_whole = bytes <= left;
		strncat(answer->bytes, character, left);
		strcat(answer->text, is_whole ? character : REPLACEMENT);
		left -= is_whole ? bytes : left;
	}
	require(left == 0 && strlen(answer->bytes) == byte_count, "too few characters");
}

/* A runner that computes nothing; each row has its own prompt's temperature. */
static enum status say(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct scene *scene = state;

	(void)time;
	(void)error;
	for (uint32_t i = 0; i < batch->row_count; i++) {
		const struct answer *answer = &scene->answers[batch->request[i]];
		uint32_t at = batch->sample_position[i] - PROMPT_TOKENS;
		require(batch->temperature[i] == answer->temperature, "the temperature is %g",
			(double)batch->temperature[i]);
		if (batch->is_sampled[i]) {
			*token_ids++ = at < answer->byte_count
					       ? scene->byte_ids[(unsigned char)answer->bytes[at]]
					       : scene->end_id;
		}
	}
	return STATUS_OK;
}

static void make_prompts(const struct scene *scene, struct generate_prompts *prompts)
{
	for (uint32_t i = 0; i < scene->count; i++) {
		const struct answer *answer = &scene->answers[i];
		const struct generate_prompt prompt = {
			.max_tokens = answer->end == END_STOPPED
					      ? 100
					      : answer->byte_count + (answer->end == END_IGNORED),
			.temperature = answer->temperature,
			.ignore_eos = answer->end == END_IGNORED};
		generate_prompts_add(prompts, "", 0, &prompt);
		for (uint32_t k = 0; k < PROMPT_TOKENS; k++) {
			token_list_add(&prompts->items[i].ids, scene->byte_ids['a' + (i + k) % 7]);
		}
	}
}

static void require_answer(const struct generate_answer *found, const struct answer *answer)
{
	uint32_t tokens = answer->byte_count + (answer->end != END_LENGTH);
	const char *text = found->text.bytes == NULL ? "" : found->text.bytes; /* of no bytes */

	require(found->text.byte_count == strlen(answer->text) &&
			memcmp(text, answer->text, found->text.byte_count) == 0,
		"%u bytes: the text is '%.*s', not '%s'", answer->byte_count,
		(int)found->text.byte_count, text, answer->text);
	require(found->is_finished, "no end");
	require_equal(found->is_stopped, answer->end == END_STOPPED);
	require_equal(found->ids.count, tokens);
}

/* Generates all answers, in turns as the engine has it; a text never takes back what it had. */
static void generate(struct scene *scene, uint32_t max_num_seqs)
{
	const struct engine_config config = {.policy = &policy_mixed,
		.block_size = 4,
		.kv_block_count = 256,
		.max_num_seqs = max_num_seqs,
		.max_num_batched_tokens = 64,
		.max_model_len = 256,
		.eos_token_id = scene->end_id};
	const struct runner runner = {
		.name = "told", .state = scene, .is_computing = true, .execute = say};
	struct generate_prompts prompts = {.count = 0};
	struct generation generation;
	struct error error = {STATUS_OK, ""};
	size_t bytes[ANSWERS_MAX] = {0};
	bool is_done = false;

	make_prompts(scene, &prompts);
	enum status status =
		generation_open(&generation, &config, &runner, scene->tokenizer, &prompts, &error);
	require(status == STATUS_OK, "%s", error.text);
	while (!is_done) {
		require_equal(generation_step(&generation, &is_done, &error), STATUS_OK);
		for (uint32_t i = 0; i < scene->count; i++) {
			const struct text *text = &generation.answers[i].text;
			require(text->byte_count >= bytes[i] &&
					memcmp(text->bytes == NULL ? "" : text->bytes,
						scene->answers[i].text, text->byte_count) == 0,
				"answer %u has a text on its way that it does not keep", i);
			bytes[i] = text->byte_count;
		}
	}
	for (uint32_t i = 0; i < scene->count; i++) {
		require_answer(&generation.answers[i], &scene->answers[i]);
	}
	generation_close(&generation);
	generate_prompts_deinit(&prompts);
}

/* All characters in a row, cut behind every byte. */
Test(answer_texts, an_answer_may_end_behind_any_byte)
{
	struct scene scene = {.count = 0};
	uint32_t drawn[CHARACTERS], bytes = 0;

	scene_open(&scene);
	for (uint32_t i = 0; i < CHARACTERS; i++) {
		drawn[i] = i;
		bytes += (uint32_t)strlen(characters[i]);
	}
	require(bytes <= ANSWERS_MAX, "%u bytes", bytes);
	for (uint32_t end = 0; end < END_COUNT; end++) {
		scene.count = 0;
		for (uint32_t cut = 1; cut <= bytes; cut++) {
			add_answer(&scene, drawn, CHARACTERS, cut, (enum end)end);
		}
		generate(&scene, 1);
		generate(&scene, 7);
	}
	tokenizer_close(scene.tokenizer);
}

static void draw_answers(struct prop *prop, const void *context)
{
	struct scene scene = {.count = 0};
	uint32_t answers = prop_range(prop, 1, ANSWERS_MAX);
	uint32_t seats = prop_range(prop, 1, 12);

	(void)context;
	scene_open(&scene);
	for (uint32_t i = 0; i < answers; i++) {
		uint32_t drawn[12];
		uint32_t bytes = 0;
		for (uint32_t k = 0; k < 12; k++) {
			drawn[k] = (uint32_t)prop_below(prop, CHARACTERS);
			bytes += (uint32_t)strlen(characters[drawn[k]]);
		}
		enum end end = (enum end)prop_below(prop, END_COUNT);
		add_answer(&scene, drawn, 12, prop_range(prop, end == END_LENGTH, bytes), end);
		prop_log(prop, "%u bytes: %s", scene.answers[i].byte_count, scene.answers[i].text);
	}
	generate(&scene, seats);
	tokenizer_close(scene.tokenizer);
}

/* Answers that grow side by side do not know of each other's halves. */
Test(answer_texts, answers_in_one_batch_have_their_own_characters)
{
	const struct prop_options options = {
		.name = "texts of answers", .body = draw_answers, .trials = 150};

	cr_assert(prop_holds(&options));
}
