#include "bench/generate/generate.h"
#include "bench/generate/generate_prompts.h"
#include "engine/model/config_json.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/reference/reference_runner.h"
#include "engine/policy.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

#define TOKENIZER_FOLDER QUIRE_SOURCE_DIR "/tests/fixtures/tokenizer"

/* Room for the 610 tokens of the small tokenizer, and some ids that stand for nothing. */
static const char config_json[] =
	"{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\",\n"
	" \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,\n"
	" \"num_key_value_heads\": 2, \"head_dim\": 8, \"intermediate_size\": 48,\n"
	" \"vocab_size\": 612, \"max_position_embeddings\": 512, \"rope_theta\": 10000,\n"
	" \"tie_word_embeddings\": false}";

/* A folder with config.json and the small tokenizer.json, and what tests need of it. */
struct fixture {
	char folder[TEMPORARY_PATH_BYTES];
	struct tokenizer *tokenizer;
	struct weights *weights;
	struct model_config model;
	enum rounding rounding; /* of the reference */
};

static void fixture_open(struct fixture *fixture)
{
	struct error error = {STATUS_OK, ""};

	fixture->rounding = ROUNDING_NONE;
	temporary_folder(fixture->folder);
	char *text = file_read(TOKENIZER_FOLDER "/small.json", NULL);
	temporary_write(fixture->folder, "tokenizer.json", text, NULL);
	temporary_write(fixture->folder, "config.json", config_json, NULL);
	free(text);
	enum status status = tokenizer_open(&fixture->tokenizer, fixture->folder, &error);
	require(status == STATUS_OK, "%s", error.text);
	status = model_config_find(fixture->folder, &fixture->model, &error);
	require(status == STATUS_OK, "%s", error.text);
	status = weights_open(&fixture->weights, &fixture->model, "dummy:3", &error);
	require(status == STATUS_OK, "%s", error.text);
}

static void fixture_close(struct fixture *fixture)
{
	weights_close(fixture->weights);
	tokenizer_close(fixture->tokenizer);
	temporary_remove(fixture->folder);
}

static struct engine_config plain_engine(void)
{
	return (struct engine_config){
		.policy = &policy_mixed,
		.block_size = 16,
		.kv_block_count = 128,
		.max_num_seqs = 8,
		.max_num_batched_tokens = 512,
		.max_model_len = 512,
		.eos_token_id = -1,
	};
}

/* Opens a generation with a runner of its own, which the caller closes. */
static enum status open_generation(const struct fixture *fixture,
	const struct generate_prompts *prompts, const struct engine_config *engine,
	struct runner *runner, struct generation *generation, struct error *error)
{
	const struct reference_options options = {.weights = fixture->weights,
		.engine = engine,
		.rounding = fixture->rounding,
		.seed = 11};

	enum status status = reference_runner_open(runner, &options, error);
	require(status == STATUS_OK, "%s", error->text);
	return generation_open(generation, engine, runner, fixture->tokenizer, prompts, error);
}

/* Runs prompts to the end; at any time all texts must be valid. The caller closes both. */
static void generate_all(const struct fixture *fixture, const struct generate_prompts *prompts,
	const struct engine_config *engine, struct runner *runner, struct generation *generation)
{
	struct error error = {STATUS_OK, ""};
	bool is_done = false;

	enum status status = open_generation(fixture, prompts, engine, runner, generation, &error);
	require(status == STATUS_OK, "%s", error.text);
	while (!is_done) {
		status = generation_step(generation, &is_done, &error);
		require(status == STATUS_OK, "%s", error.text);
		for (uint32_t i = 0; i < prompts->count; i++) {
			const struct text *text = &generation->answers[i].text;
			require(utf8_is_valid(text->bytes, text->byte_count), "half a character");
		}
	}
}

static void add_prompt(
	struct generate_prompts *prompts, const char *text, uint32_t max_tokens, float temperature)
{
	const struct generate_prompt defaults = {
		.max_tokens = max_tokens, .temperature = temperature, .ignore_eos = false};
	generate_prompts_add(prompts, text, strlen(text), &defaults);
}

/* Texts with common beginnings, greedy and sampled, long and short. */
static void add_prompts(const struct fixture *fixture, struct generate_prompts *prompts)
{
	static const char beginning[] =
		"The quick engineer measured twice and cut once, or so it is said. ";
	struct error error = {STATUS_OK, ""};
	char text[256];

	for (uint32_t i = 0; i < 12; i++) {
		snprintf(text, sizeof(text), "%s%u é", i % 3 == 0 ? "Hi" : beginning, i / 2);
		add_prompt(prompts, text, 3 + 7 * i % 40, i % 2 == 0 ? 0.0F : 0.9F);
	}
	enum status status = generate_prompts_encode(prompts, fixture->tokenizer, NULL, &error);
	require(status == STATUS_OK, "%s", error.text);
}

static void require_same_answers(const struct generation *a, const struct generation *b)
{
	for (uint32_t i = 0; i < a->prompts->count; i++) {
		const struct generate_answer *x = &a->answers[i], *y = &b->answers[i];
		require_equal(x->ids.count, y->ids.count);
		require(memcmp(x->ids.ids, y->ids.ids, x->ids.count * sizeof(int32_t)) == 0,
			"answer %u has other tokens", i);
		require_equal(x->text.byte_count, y->text.byte_count);
		require(memcmp(x->text.bytes, y->text.bytes, x->text.byte_count) == 0,
			"answer %u has another text", i);
		require_equal(x->is_stopped, y->is_stopped);
	}
}

Test(generate, answers_do_not_depend_on_the_engine)
{
	struct fixture fixture;
	struct generate_prompts prompts = {.count = 0};
	struct runner runner = {0}, other_runner = {0};
	struct generation generation, other;
	struct engine_config engine = plain_engine();
	uint64_t cached = 0;

	fixture_open(&fixture);
	add_prompts(&fixture, &prompts);
	generate_all(&fixture, &prompts, &engine, &runner, &generation);
	for (uint32_t i = 0; i < prompts.count; i++) {
		require_equal(generation.answers[i].ids.count, prompts.items[i].max_tokens);
		cached += generation.answers[i].cached_tokens;
	}
	require(cached > 0, "no prompt met the prefix cache");
	for (uint32_t i = 0; i < 3; i++) {
		struct engine_config changed = engine;
		changed.policy = i == 1 ? &policy_prefill_first : &policy_mixed;
		changed.max_num_seqs = i == 0 ? 1 : 5;
		changed.block_size = i == 2 ? 7 : 16;
		changed.kv_block_count = i == 2 ? 25 : 128;
		changed.max_num_batched_tokens = i == 2 ? 9 : 512;
		generate_all(&fixture, &prompts, &changed, &other_runner, &other);
		require_same_answers(&generation, &other);
		generation_close(&other);
		other_runner.close(other_runner.state);
	}
	generation_close(&generation);
	runner.close(runner.state);
	generate_prompts_deinit(&prompts);
	fixture_close(&fixture);
}

/* A runner whose steps take a millisecond for each of their tokens. */
struct timed {
	struct runner inner;
	uint64_t tokens;
};

enum { NS_PER_TOKEN = 1000000 };

static enum status timed_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	struct timed *timed = state;
	uint64_t tokens = batch->counts.prefill_tokens + batch->counts.decode_rows;

	TRY(timed->inner.execute(timed->inner.state, batch, token_ids, time, error));
	timed->tokens += tokens;
	time->elapsed_ns = tokens * NS_PER_TOKEN;
	return STATUS_OK;
}

/* Each token has its share of its step's time. */
static void require_divided_time(const struct fixture *fixture,
	const struct generate_prompts *prompts, const struct engine_config *engine)
{
	struct timed timed = {.tokens = 0};
	struct generation generation;
	struct error error = {STATUS_OK, ""};
	bool is_done = false;
	const struct reference_options options = {
		.weights = fixture->weights, .engine = engine, .seed = 11};
	const struct runner runner = {
		.name = "timed", .state = &timed, .is_computing = true, .execute = timed_execute};

	require_equal(reference_runner_open(&timed.inner, &options, &error), STATUS_OK);
	require_equal(
		generation_open(&generation, engine, &runner, fixture->tokenizer, prompts, &error),
		STATUS_OK);
	while (!is_done) {
		require_equal(generation_step(&generation, &is_done, &error), STATUS_OK);
	}
	const struct generate_speed *speed = &generation.speed;
	require_equal(speed->prefill_tokens + speed->decode_tokens, timed.tokens);
	require(speed->prefill_tokens > 0 && speed->decode_tokens > 0, "steps of one kind");
	require_equal(speed->prefill_ns, speed->prefill_tokens * NS_PER_TOKEN);
	require_equal(speed->decode_ns, speed->decode_tokens * NS_PER_TOKEN);
	require_equal(generate_rate(speed->decode_tokens, speed->decode_ns), 1000);
	require_equal(generate_rate(5, 0), 0);
	generation_close(&generation);
	timed.inner.close(timed.inner.state);
}

/* Steps of prefill, of decode, of both, and of a single token. */
Test(generate, the_time_of_a_step_is_divided_by_its_tokens)
{
	struct fixture fixture;
	struct generate_prompts prompts = {.count = 0};
	struct engine_config engine = plain_engine();

	fixture_open(&fixture);
	add_prompts(&fixture, &prompts);
	engine.max_num_batched_tokens = 9;
	require_divided_time(&fixture, &prompts, &engine);
	engine.max_num_seqs = 1;
	engine.max_num_batched_tokens = 1;
	require_divided_time(&fixture, &prompts, &engine);
	generate_prompts_deinit(&prompts);
	fixture_close(&fixture);
}

/* The first token of an answer that it has not had before, at least `from` tokens in. */
static uint32_t first_new_token(const struct token_list *ids, uint32_t from)
{
	for (uint32_t i = from; i < ids->count; i++) {
		bool is_new = true;
		for (uint32_t j = 0; j < i; j++) {
			is_new = is_new && ids->ids[j] != ids->ids[i];
		}
		if (is_new) {
			return i;
		}
	}
	require(false, "an answer of old tokens only");
	return 0;
}

Test(generate, any_of_the_ends_ends_a_text_unless_it_is_ignored)
{
	struct fixture fixture;
	struct generate_prompts prompts = {.count = 0};
	struct runner runner = {0}, other_runner = {0};
	struct generation generation, other;
	struct engine_config engine = plain_engine();
	struct error error = {STATUS_OK, ""};

	fixture_open(&fixture);
	add_prompt(&prompts, "Where it ends", 40, 0.0F);
	add_prompt(&prompts, "Where it ends", 40, 0.0F);
	prompts.items[1].ignore_eos = true;
	require_equal(
		generate_prompts_encode(&prompts, fixture.tokenizer, NULL, &error), STATUS_OK);
	generate_all(&fixture, &prompts, &engine, &runner, &generation);
	const struct token_list *ids = &generation.answers[0].ids;
	uint32_t end = first_new_token(ids, 2);
	for (uint32_t i = 0; i < 3; i++) {
		struct engine_config ended = engine;
		ended.eos_token_id = i == 0 ? ids->ids[end] : i == 1 ? 611 : -1;
		ended.further_eos_count = i == 0 ? 0 : 2;
		ended.further_eos_ids[1] = ids->ids[end];
		ended.further_eos_ids[0] = 610;
		/* The last time the limit is met at that very token. */
		prompts.items[1].max_tokens = i == 2 ? end + 1 : 40;
		generate_all(&fixture, &prompts, &ended, &other_runner, &other);
		require_equal(other.answers[0].ids.count, end + 1);
		require(memcmp(other.answers[0].ids.ids, ids->ids, (end + 1) * sizeof(int32_t)) ==
				0,
			"another beginning");
		require(other.answers[0].is_stopped, "stopped, and not known why");
		require_equal(other.answers[1].ids.count, prompts.items[1].max_tokens);
		require_equal(other.answers[1].ids.ids[end], ids->ids[end]);
		require(!other.answers[1].is_stopped, "went on, and is said to have stopped");
		generation_close(&other);
		other_runner.close(other_runner.state);
	}
	generation_close(&generation);
	runner.close(runner.state);
	generate_prompts_deinit(&prompts);
	fixture_close(&fixture);
}

Test(generate, the_template_is_that_of_qwen3)
{
	const struct {
		struct chat_template template;
		const char *expected;
	} cases[] = {
		{{NULL, false}, "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"},
		{{"Be brief.", false}, "<|im_start|>system\nBe "
				       "brief.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
				       "<|im_start|>assistant\n"},
		{{NULL, true}, "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
			       "<think>\n\n</think>\n\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct text text = {.bytes = NULL};
		chat_template_apply(&cases[i].template, "Why?", 4, &text);
		text_add_bytes(&text, "", 1);
		cr_assert_str_eq(text.bytes, cases[i].expected);
		free(text.bytes);
	}
}

/* Each prompt is wrapped by itself. */
Test(generate, wrapped_prompts_know_nothing_of_each_other)
{
	const struct chat_template template = {"Be brief.", true};
	struct generate_prompts together = {.count = 0};
	struct error error = {STATUS_OK, ""};
	static const char *const texts[] = {"Why?", "The second one is longer", "b"};
	struct fixture fixture;

	fixture_open(&fixture);
	for (int i = 0; i < 3; i++) {
		add_prompt(&together, texts[i], 3, 0.0F);
	}
	require_equal(generate_prompts_encode(&together, fixture.tokenizer, &template, &error),
		STATUS_OK);
	for (int i = 0; i < 3; i++) {
		struct generate_prompts alone = {.count = 0};
		add_prompt(&alone, texts[i], 3, 0.0F);
		require_equal(generate_prompts_encode(&alone, fixture.tokenizer, &template, &error),
			STATUS_OK);
		const struct token_list *a = &alone.items[0].ids, *b = &together.items[i].ids;
		require_equal(a->count, b->count);
		require(memcmp(a->ids, b->ids, a->count * sizeof(int32_t)) == 0, "prompt %d", i);
		generate_prompts_deinit(&alone);
	}
	generate_prompts_deinit(&together);
	fixture_close(&fixture);
}

/* ---- prompts from a file ---- */

static enum status read_prompts(
	const char *text, struct generate_prompts *prompts, struct error *error)
{
	const struct generate_prompt defaults = {
		.max_tokens = 5, .temperature = 0.5F, .ignore_eos = false};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "prompts.jsonl", text, path);
	enum status status = generate_prompts_read(prompts, path, &defaults, error);
	prompts->path = "prompts.jsonl";
	temporary_remove(folder);
	return status;
}

Test(generate, a_line_overrides_options)
{
	struct generate_prompts prompts = {.count = 0};
	struct error error = {STATUS_OK, ""};

	enum status status = read_prompts("{\"prompt\": \"a\"}\n\n"
					  "{\"prompt\": \"b\\u00e9\", \"max_tokens\": 9, "
					  "\"temperature\": 0, \"ignore_eos\": true}\n",
		&prompts, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(prompts.count, 2);
	require_equal(prompts.items[0].max_tokens, 5);
	require(prompts.items[0].temperature == 0.5F && !prompts.items[0].ignore_eos, "defaults");
	require_equal(prompts.items[1].max_tokens, 9);
	require(prompts.items[1].temperature == 0.0F && prompts.items[1].ignore_eos, "own");
	require_equal(prompts.items[1].text.byte_count, 3);
	require_equal(prompts.items[1].line, 3);
	generate_prompts_deinit(&prompts);
}

/* Writes lines with some of the options each, and what they then hold. */
static uint32_t draw_lines(struct prop *prop, struct text *text, struct generate_prompt *expected)
{
	uint32_t count = 0, lines = prop_range(prop, 1, 12);

	text_add(text, "");
	for (uint32_t line = 1; line <= lines; line++) {
		struct generate_prompt own = {.max_tokens = 5, .temperature = 0.5F, .line = line};
		if (prop_chance(prop, 1, 4) && line < lines) {
			text_add(text, prop_chance(prop, 1, 2) ? "\n" : " \t\n");
			continue;
		}
		text_format(text, "{\"prompt\": \"%u\"", line);
		if (prop_chance(prop, 1, 2)) {
			own.max_tokens = prop_range(prop, 1, 9);
			text_format(text, ", \"max_tokens\": %u", own.max_tokens);
		}
		if (prop_chance(prop, 1, 2)) {
			own.temperature = (float)prop_below(prop, 3);
			text_format(text, ", \"temperature\": %g", (double)own.temperature);
		}
		if (prop_chance(prop, 1, 2)) {
			own.ignore_eos = prop_chance(prop, 1, 2);
			text_format(
				text, ", \"ignore_eos\": %s", own.ignore_eos ? "true" : "false");
		}
		text_add(text, "}\n");
		expected[count++] = own;
	}
	prop_log(prop, "%s", text->bytes);
	return count;
}

static void read_drawn_lines(struct prop *prop, const void *context)
{
	struct generate_prompt expected[12];
	struct generate_prompts prompts = {.count = 0};
	struct text text = {0};
	struct error error = {STATUS_OK, ""};

	(void)context;
	uint32_t count = draw_lines(prop, &text, expected);
	enum status status = read_prompts(text.bytes, &prompts, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(prompts.count, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct generate_prompt *item = &prompts.items[i];
		require_equal(item->line, expected[i].line);
		require_equal(strtoul(item->text.bytes, NULL, 10), expected[i].line);
		require_equal(item->max_tokens, expected[i].max_tokens);
		require(item->temperature == expected[i].temperature, "prompt %u: temperature %g",
			i, (double)item->temperature);
		require_equal(item->ignore_eos, expected[i].ignore_eos);
	}
	generate_prompts_deinit(&prompts);
	text_deinit(&text);
}

/* What a line does not say is as the command line has it, whatever the lines around it say. */
Test(generate, a_line_overrides_options_for_itself_alone)
{
	const struct prop_options options = {
		.name = "lines of prompts", .body = read_drawn_lines, .trials = 200};

	cr_assert(prop_holds(&options));
}

/* Nothing in front of the first token: no runner could compute it. */
Test(generate, a_prompt_without_tokens_is_refused)
{
	struct fixture fixture;
	struct generate_prompts prompts = {.count = 0};
	struct error error = {STATUS_OK, ""};

	fixture_open(&fixture);
	enum status status =
		read_prompts("{\"prompt\": \"a\"}\n\n{\"prompt\": \"\"}\n", &prompts, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(
		generate_prompts_encode(&prompts, fixture.tokenizer, NULL, &error), STATUS_INPUT);
	require(strstr(error.text, "prompts.jsonl:3: field prompt: found an empty text") != NULL,
		"%s", error.text);
	generate_prompts_deinit(&prompts);
	fixture_close(&fixture);
}

Test(generate, a_bad_line_is_refused_by_its_number)
{
	static const struct {
		const char *text, *part;
	} cases[] = {
		{"", "prompts.jsonl: found no prompt"},
		{"\n \n", "prompts.jsonl: found no prompt"},
		{"{\"prompt\": \"a\"}\n{\"prompt\": 3}\n",
			"prompts.jsonl:2: field prompt: found 3"},
		{"{\"prompt\": \"a\"}\n{}\n", "prompts.jsonl:2: field prompt: found nothing"},
		{"{\"prompt\": \"a\", \"max_token\": 3}\n",
			"field max_token: found 3, expected no"},
		{"{\"prompt\": \"a\", \"max_tokens\": 0}\n", "field max_tokens: found 0"},
		{"{\"prompt\": \"a\", \"temperature\": -1}\n", "field temperature: found -1"},
		{"{\"prompt\": \"a\", \"ignore_eos\": 1}\n", "field ignore_eos: found 1"},
		{"{\"prompt\": \"a\"", "prompts.jsonl:1"},
		{"{\"prompt\": \"a\\u0000b\"}\n", "prompts.jsonl:1:1: found \\u0000"},
		{"[\"a\"]\n", "found an array, expected an object"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct generate_prompts prompts = {.count = 0};
		struct error error = {STATUS_OK, ""};
		require_equal(read_prompts(cases[i].text, &prompts, &error), STATUS_INPUT);
		require(strstr(error.text, cases[i].part) != NULL, "'%s' does not say '%s'",
			error.text, cases[i].part);
		generate_prompts_deinit(&prompts);
	}
}

static void require_unfit(const struct fixture *fixture, const struct engine_config *engine,
	const char *text, const char *part)
{
	struct generate_prompts prompts = {.count = 0};
	struct runner runner = {0};
	struct generation generation;
	struct error error = {STATUS_OK, ""};

	/* The one before it fits. */
	add_prompt(&prompts, "1", 5, 0.0F);
	add_prompt(&prompts, text, 30, 0.0F);
	prompts.path = "prompts.jsonl";
	prompts.items[0].line = 6;
	prompts.items[1].line = 7;
	require_equal(
		generate_prompts_encode(&prompts, fixture->tokenizer, NULL, &error), STATUS_OK);
	enum status status =
		open_generation(fixture, &prompts, engine, &runner, &generation, &error);
	require_equal(status, STATUS_INPUT);
	require(strstr(error.text, part) != NULL, "'%s' does not say '%s'", error.text, part);
	runner.close(runner.state);
	generate_prompts_deinit(&prompts);
}

Test(generate, a_prompt_beyond_the_limits_is_refused_before_anything_runs)
{
	struct fixture fixture;
	struct engine_config engine = plain_engine();

	fixture_open(&fixture);
	engine.max_model_len = 32;
	require_unfit(&fixture, &engine, "1 2",
		"prompts.jsonl:7: field prompt: found 3 tokens to "
		"continue by 30, expected at most 32 together");
	engine.max_model_len = 512;
	engine.kv_block_count = 1;
	require_unfit(&fixture, &engine, "1 2", "no more than 1 block of 16 hold (--kv-blocks)");
	fixture_close(&fixture);
}

/* ---- the command ---- */

Test(generate, the_command_writes_json_in_the_order_of_the_file)
{
	struct fixture fixture;
	static const char prompts[] =
		"{\"prompt\": \"long\", \"max_tokens\": 30}\n"
		"{\"prompt\": \"short\", \"max_tokens\": 2}\n"
		"{\"prompt\": \"gr\\u00fc\\u00df dich\", \"temperature\": 0, \"max_tokens\": 7}\n";
	static const int counts[] = {30, 2, 7};

	fixture_open(&fixture);
	temporary_write(fixture.folder, "prompts.jsonl", prompts, NULL);
	struct process_result outcome = quire_run_in(fixture.folder,
		"generate --model . --weights dummy:3 --prompts prompts.jsonl --json");
	require(outcome.code == 0, "exit code %d: %s", outcome.code, outcome.err);
	cr_assert_str_eq(outcome.err, "");
	const char *line = outcome.out;
	for (int i = 0; i < 3; i++) {
		const char *end = NULL;
		cJSON *answer = cJSON_ParseWithOpts(line, &end, false);
		require(answer != NULL && *end == '\n', "no JSON line: %s", line);
		require_equal(cJSON_GetObjectItem(answer, "index")->valueint, i);
		require_equal(
			cJSON_GetArraySize(cJSON_GetObjectItem(answer, "token_ids")), counts[i]);
		cr_assert_str_eq(
			cJSON_GetObjectItem(answer, "finish_reason")->valuestring, "length");
		cr_assert(cJSON_IsString(cJSON_GetObjectItem(answer, "text")));
		cJSON_Delete(answer);
		line = end + 1;
	}
	cr_assert_str_eq(line, "");
	process_result_free(&outcome);
	fixture_close(&fixture);
}

/* The greedy answer of the program. The caller frees it. */
static struct token_list answer_of_program(const struct fixture *fixture, const char *arguments)
{
	struct token_list ids = {.count = 0};
	struct process_result outcome = quire_run_in(fixture->folder, arguments);
	const cJSON *id;

	require(outcome.code == 0, "%s", outcome.err);
	cJSON *answer = cJSON_Parse(outcome.out);
	cJSON_ArrayForEach(id, cJSON_GetObjectItem(answer, "token_ids"))
	{
		token_list_add(&ids, id->valueint);
	}
	cJSON_Delete(answer);
	process_result_free(&outcome);
	return ids;
}

/* The long answers of both formats part company somewhere. */
Test(generate, the_format_is_that_to_which_the_reference_rounds)
{
	static const char *const commands[] = {
		"generate --model . --weights dummy:3 --prompt 'Say it' --temperature 0 "
		"--max-tokens 400 --ignore-eos --json --dtype float32",
		"generate --model . --weights dummy:3 --prompt 'Say it' --temperature 0 "
		"--max-tokens 400 --ignore-eos --json --dtype bfloat16"};
	static const enum rounding roundings[] = {ROUNDING_NONE, ROUNDING_BF16};
	struct error error = {STATUS_OK, ""};
	struct engine_config engine = plain_engine();
	struct token_list ids[2];
	struct fixture fixture;

	fixture_open(&fixture);
	for (int i = 0; i < 2; i++) {
		struct generate_prompts prompts = {.count = 0};
		struct runner runner = {0};
		struct generation generation;
		ids[i] = answer_of_program(&fixture, commands[i]);
		fixture.rounding = roundings[i];
		add_prompt(&prompts, "Say it", 400, 0.0F);
		require_equal(generate_prompts_encode(&prompts, fixture.tokenizer, NULL, &error),
			STATUS_OK);
		generate_all(&fixture, &prompts, &engine, &runner, &generation);
		const struct token_list *own = &generation.answers[0].ids;
		require_equal(own->count, 400);
		require_equal(ids[i].count, 400);
		require(memcmp(own->ids, ids[i].ids, 400 * sizeof(int32_t)) == 0,
			"%s: other tokens", commands[i]);
		generation_close(&generation);
		runner.close(runner.state);
		generate_prompts_deinit(&prompts);
	}
	require(memcmp(ids[0].ids, ids[1].ids, 400 * sizeof(int32_t)) != 0, "no token differs");
	free(ids[0].ids);
	free(ids[1].ids);
	fixture_close(&fixture);
}

Test(generate, exported_weights_say_the_same)
{
	struct fixture fixture;
	static const char *const runs[] = {
		"generate --model . --weights dummy:5 --tokenizer . --prompt 'Say it' --json",
		"generate --model exported --tokenizer . --prompt 'Say it' --json",
		("generate --model exported --tokenizer . --prompt 'Say it' --json "
		 "--policy prefill-first --max-num-batched-tokens 600 --block-size 3"),
		"generate --model exported --tokenizer . --prompt 'Say it' --json -tp 2",
	};
	struct process_result outcomes[4];

	fixture_open(&fixture);
	struct process_result exported =
		quire_run_in(fixture.folder, "export --model . --weights dummy:5 --out exported");
	require(exported.code == 0, "%s", exported.err);
	for (int i = 0; i < 4; i++) {
		outcomes[i] = quire_run_in(fixture.folder, runs[i]);
		require(outcomes[i].code == 0, "%s", outcomes[i].err);
		cr_assert_str_eq(outcomes[i].out, outcomes[0].out);
	}
	for (int i = 0; i < 4; i++) {
		process_result_free(&outcomes[i]);
	}
	process_result_free(&exported);
	exported =
		quire_run_in(fixture.folder, "export --model . --weights dummy:5 --out exported");
	require_equal(exported.code, 2);
	require(strstr(exported.err, "exists already") != NULL, "%s", exported.err);
	process_result_free(&exported);
	fixture_close(&fixture);
}

/* "model" means the model's own weights to other commands; an export reads a folder's. */
Test(generate, weights_are_exported_from_a_folder_called_model)
{
	static const char *const runs[] = {
		"export --model . --weights dummy:5 --out model",
		"export --model . --weights model --out copy",
	};
	struct fixture fixture;

	fixture_open(&fixture);
	for (int i = 0; i < 2; i++) {
		struct process_result outcome = quire_run_in(fixture.folder, runs[i]);
		require(outcome.code == 0, "%s", outcome.err);
		process_result_free(&outcome);
	}
	fixture_close(&fixture);
}

/* Wrong use: exit code 2, one line, nothing on stdout. */
static void require_wrong(const struct fixture *fixture, const char *arguments, const char *part)
{
	struct process_result outcome = quire_run_in(fixture->folder, arguments);

	require(outcome.code == 2, "'%s': exit code %d", arguments, outcome.code);
	cr_assert_str_eq(outcome.out, "");
	const char *end = strchr(outcome.err, '\n');
	require(end != NULL && end[1] == '\0', "'%s': not one line: %s", arguments, outcome.err);
	require(strstr(outcome.err, part) != NULL, "'%s' does not say '%s'", outcome.err, part);
	process_result_free(&outcome);
}

Test(generate, wrong_use_is_answered_in_one_line)
{
	struct fixture fixture;

	fixture_open(&fixture);
	require_wrong(&fixture, "generate --prompt a", "expected --model DIR");
	require_wrong(&fixture, "generate --model .", "either --prompt TEXT or --prompts FILE");
	require_wrong(&fixture, "generate --model . --prompt a --prompts b", "either --prompt");
	require_wrong(&fixture, "generate --model . --prompt a --system b", "--system belongs");
	require_wrong(&fixture, "generate --model . --prompt a --policy x", "--policy: found 'x'");
	require_wrong(&fixture, "generate --model . --prompt a --runner sim --weights dummy:1",
		"--runner sim computes no tokens");
	require_wrong(&fixture, "generate --model . --prompt a", "model.safetensors");
	require_wrong(&fixture, "generate --model . --prompts none.jsonl", "none.jsonl");
	require_wrong(&fixture, "generate --model nowhere --prompt a", "model 'nowhere'");
	require_wrong(&fixture, "generate --model . --prompt a --weights dummy:1 --max-tokens 600",
		"--prompt: found 1 token to continue by 600");
	temporary_write(fixture.folder, "tokenizer.json", "{}", NULL);
	require_wrong(&fixture, "generate --model . --weights dummy:1 --prompt a",
		"./tokenizer.json: field version: found nothing");
	fixture_close(&fixture);
}

Test(generate, a_tokenizer_beyond_the_vocabulary_is_refused)
{
	struct fixture fixture;
	char config[sizeof(config_json)];

	fixture_open(&fixture);
	memcpy(config, config_json, sizeof(config));
	memcpy(strstr(config, "612"), "600", 3);
	temporary_write(fixture.folder, "config.json", config, NULL);
	require_wrong(&fixture, "generate --model . --weights dummy:1 --prompt a",
		"expected them below the model's vocab_size 600");
	fixture_close(&fixture);
}

/* The largest id may be the last row of the embedding. */
Test(generate, a_tokenizer_may_fill_the_vocabulary)
{
	struct tokenizer *tokenizer;
	struct error error = {0};
	struct fixture fixture;

	fixture_open(&fixture);
	require(tokenizer_open(&tokenizer, fixture.folder, &error) == STATUS_OK, "%s", error.text);
	uint32_t limit = tokenizer_id_limit(tokenizer);
	tokenizer_close(tokenizer);
	for (uint32_t size = limit - 1; size <= limit + 1; size++) {
		char config[sizeof(config_json)], digits[16];
		memcpy(config, config_json, sizeof(config));
		require(snprintf(digits, sizeof(digits), "%u", size) == 3, "%u ids", size);
		memcpy(strstr(config, "612"), digits, 3);
		temporary_write(fixture.folder, "config.json", config, NULL);
		struct process_result outcome = quire_run_in(fixture.folder,
			"generate --model . --weights dummy:1 --prompt a --max-tokens 2");
		require(outcome.code == (size < limit ? 2 : 0), "%u of %u ids: %s", size, limit,
			outcome.err);
		process_result_free(&outcome);
	}
	fixture_close(&fixture);
}

Test(generate, a_text_that_cannot_be_written_is_an_error)
{
	struct fixture fixture;

	fixture_open(&fixture);
	struct process_result outcome = quire_run_in(fixture.folder,
		"generate --model . --weights dummy:1 --prompt a --json >/dev/full");
	require(outcome.code == 2, "exit code %d", outcome.code);
	require(strstr(outcome.err, "cannot write to stdout") != NULL, "%s", outcome.err);
	process_result_free(&outcome);
	fixture_close(&fixture);
}
