#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/text.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* What `quire generate` prints: its forms say the same, and all have the text of the tokens. */

#define GENERATE "generate --model . --weights dummy:3 --max-tokens 120 "

static const char config_json[] =
	"{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\",\n"
	" \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,\n"
	" \"num_key_value_heads\": 2, \"head_dim\": 8, \"intermediate_size\": 48,\n"
	" \"vocab_size\": 612, \"max_position_embeddings\": 512, \"rope_theta\": 10000,\n"
	" \"tie_word_embeddings\": false}";

/* Characters that JSON escapes, texts of the longest title and around it, and one token. */
static const char prompts_jsonl[] =
	"{\"prompt\": \"Say it \\\"now\\\" \\\\ and\\n\\u0001\\u007f go\"}\n"
	"{\"prompt\": \"012345678901234567890123456789012345678901234567890123456789\"}\n"
	"{\"prompt\": \"01234567890123456789012345678901234567890123456789012345678é and on\"}\n"
	"{\"prompt\": \"short\", \"max_tokens\": 1}\n";

/* As several answers are headed. */
static const char *const titles[] = {"\"Say it \\\"now\\\" \\\\ and\\n\\u0001\\u007f go\"",
	"\"012345678901234567890123456789012345678901234567890123456789\"",
	"\"01234567890123456789012345678901234567890123456789012345678\"...", "\"short\""};

enum { PROMPTS = sizeof(titles) / sizeof(titles[0]) };

static char folder[TEMPORARY_PATH_BYTES];
static struct tokenizer *tokenizer;

static void set_up(void)
{
	struct error error = {STATUS_OK, ""};

	temporary_folder(folder);
	char *text = file_read(QUIRE_SOURCE_DIR "/tests/fixtures/tokenizer/small.json", NULL);
	temporary_write(folder, "tokenizer.json", text, NULL);
	free(text);
	temporary_write(folder, "config.json", config_json, NULL);
	temporary_write(folder, "prompts.jsonl", prompts_jsonl, NULL);
	enum status status = tokenizer_open(&tokenizer, folder, &error);
	require(status == STATUS_OK, "%s", error.text);
}

static void tear_down(void)
{
	tokenizer_close(tokenizer);
	temporary_remove(folder);
}

TestSuite(generate_output, .init = set_up, .fini = tear_down);

static struct process_result run_well(const char *arguments)
{
	struct process_result outcome = quire_run_in(folder, arguments);

	require(outcome.code == 0, "%s: exit code %d: %s", arguments, outcome.code, outcome.err);
	cr_assert_str_eq(outcome.err, "");
	return outcome;
}

/* ---- what it says ---- */

/* The text of an answer's ids. The caller frees it. */
static char *decode(const cJSON *answer)
{
	struct utf8_stream stream = {0};
	struct text text = {0};
	const cJSON *id;

	cJSON_ArrayForEach(id, cJSON_GetObjectItem(answer, "token_ids"))
	{
		tokenizer_decode(tokenizer, id->valueint, true, &stream, &text);
	}
	utf8_end(&stream, &text);
	text_add_bytes(&text, "", 1);
	return text.bytes;
}

/* Only what has to be escaped is. */
static void require_escapes(const char *line, const char *end)
{
	for (const char *c = strchr(line, '\\'); c != NULL && c < end; c = strchr(c + 2, '\\')) {
		unsigned code = 0;
		bool is_control = sscanf(c, "\\u%4x", &code) == 1 && code != '\n' &&
				  (code < 0x20 || code == 0x7f);
		require(is_control || strchr("\"\\n", c[1]) != NULL, "escaped: %.8s", c);
	}
}

/* The text of the answer on a line of JSON, which must be that of its tokens. The caller frees
   it. */
static char *take_answer(const char **line, int index)
{
	const char *end = NULL;
	cJSON *answer = cJSON_ParseWithOpts(*line, &end, false);

	require(answer != NULL && *end == '\n', "no JSON line: %s", *line);
	require_escapes(*line, end);
	require_equal(cJSON_GetObjectItem(answer, "index")->valueint, index);
	char *text = decode(answer);
	cr_assert_str_eq(cJSON_GetObjectItem(answer, "text")->valuestring, text);
	cJSON_Delete(answer);
	*line = end + 1;
	return text;
}

Test(generate_output, json_and_text_say_the_same)
{
	struct process_result json = run_well(GENERATE "--prompts prompts.jsonl --json");
	struct process_result plain = run_well(GENERATE "--prompts prompts.jsonl");
	const char *line = json.out;
	struct text expected = {0};

	for (int i = 0; i < PROMPTS; i++) {
		char *text = take_answer(&line, i);
		text_format(&expected, "%s==> %d of %d: %s\n", i == 0 ? "" : "\n", i + 1, PROMPTS,
			titles[i]);
		text_add(&expected, text);
		text_add(&expected, "\n");
		free(text);
	}
	cr_assert_str_eq(line, "");
	cr_assert_str_eq(plain.out, expected.bytes);
	process_result_free(&json);
	process_result_free(&plain);
	text_deinit(&expected);
}

Test(generate_output, one_answer_is_its_text_alone)
{
	struct process_result json = run_well(GENERATE "--prompt 'Say it' --json");
	struct process_result plain = run_well(GENERATE "--prompt 'Say it'");
	const char *line = json.out;
	char *text = take_answer(&line, 0);
	size_t bytes = strlen(text);

	cr_assert_str_eq(line, "");
	require(strncmp(plain.out, text, bytes) == 0, "another text: %s", plain.out);
	cr_assert_str_eq(plain.out + bytes, "\n");
	free(text);
	process_result_free(&json);
	process_result_free(&plain);
}

/* Tokens are bytes or several of them, so that many of these answers end within a character. */
Test(generate_output, an_answer_of_any_length_has_the_text_of_its_tokens)
{
	enum { LENGTHS = 120 };
	struct text prompts = {0}, expected = {0};
	int cut = 0;

	for (int i = 1; i <= LENGTHS; i++) {
		text_format(&prompts,
			"{\"prompt\": \"a\", \"temperature\": 0, \"max_tokens\": %d}\n", i);
	}
	temporary_write(folder, "lengths.jsonl", prompts.bytes, NULL);
	struct process_result json =
		run_well(GENERATE "--ignore-eos --prompts lengths.jsonl --json");
	struct process_result plain = run_well(GENERATE "--ignore-eos --prompts lengths.jsonl");
	const char *line = json.out;
	for (int i = 0; i < LENGTHS; i++) {
		char *text = take_answer(&line, i);
		text_format(&expected, "%s==> %d of %d: \"a\"\n%s\n", i == 0 ? "" : "\n", i + 1,
			LENGTHS, text);
		size_t bytes = strlen(text);
		bool is_cut = bytes >= 3 && strcmp(text + bytes - 3, "\xef\xbf\xbd") == 0;
		if (is_cut && cut++ < 3) {
			char command[200];
			snprintf(command, sizeof(command),
				"generate --model . --weights dummy:3 --ignore-eos --prompt a "
				"--temperature 0 --max-tokens %d",
				i + 1);
			struct process_result alone = run_well(command);
			require(strlen(alone.out) == bytes + 1 &&
					memcmp(alone.out, text, bytes) == 0,
				"%d tokens alone: %s", i + 1, alone.out);
			process_result_free(&alone);
		}
		free(text);
	}
	require(cut > 3, "%d answers end within a character", cut);
	cr_assert_str_eq(plain.out, expected.bytes);
	process_result_free(&json);
	process_result_free(&plain);
	text_deinit(&prompts);
	text_deinit(&expected);
}

/* A chat is its text in the template, whatever else is asked for. */
Test(generate_output, a_chat_is_a_prompt_in_the_template)
{
	static const char *const pairs[][2] = {
		{"--chat --prompt 'Why?'",
			"--prompt '<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n'"},
		{"--chat --ignore-eos --no-thinking --system Now --prompt 'Why?'",
			"--ignore-eos --prompt '<|im_start|>system\nNow<|im_end|>\n"
			"<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
			"<think>\n\n</think>\n\n'"},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char arguments[2][400];
		snprintf(arguments[0], sizeof(arguments[0]), GENERATE "--json %s", pairs[i][0]);
		snprintf(arguments[1], sizeof(arguments[1]), GENERATE "--json %s", pairs[i][1]);
		struct process_result chat = run_well(arguments[0]);
		struct process_result plain = run_well(arguments[1]);
		cr_assert_str_eq(chat.out, plain.out);
		process_result_free(&chat);
		process_result_free(&plain);
	}
}

/* The ids of the answer to 'Say it' by a model whose text ends at any of the listed ids.
   ids: (most). Returns how many. */
static int answer_ids(const char *eos_list, int *ids, int most, char *reason, size_t reason_bytes)
{
	char config[sizeof(config_json) + 128];
	int count = 0;

	snprintf(config, sizeof(config), "%.*s, \"eos_token_id\": %s}",
		(int)sizeof(config_json) - 2, config_json, eos_list);
	temporary_write(folder, "config.json", config, NULL);
	struct process_result json = run_well(GENERATE "--prompt 'Say it' --json");
	cJSON *answer = cJSON_Parse(json.out);
	const cJSON *id;
	cJSON_ArrayForEach(id, cJSON_GetObjectItem(answer, "token_ids"))
	{
		require(count < most, "more than %d tokens", most);
		ids[count++] = id->valueint;
	}
	snprintf(reason, reason_bytes, "%s",
		cJSON_GetObjectItem(answer, "finish_reason")->valuestring);
	cJSON_Delete(answer);
	process_result_free(&json);
	return count;
}

/* A model may name several tokens that end a text. Each of them does, wherever it stands in the
   list: the answer is the same up to its first one. */
Test(generate_output, every_listed_token_ends_a_text)
{
	enum { MOST = 120, STOP_AT = 20 };
	int whole[MOST], ids[MOST];
	char reason[16];

	int count = answer_ids("[]", whole, MOST, reason, sizeof(reason));
	require(count == MOST, "%d tokens", count);
	cr_assert_str_eq(reason, "length");
	int end = whole[STOP_AT], first = 0;
	while (whole[first] != end) {
		first++;
	}
	int never = 0; /* an id that is not in the answer */
	for (int i = 0; i < MOST; i++) {
		if (whole[i] == never) {
			never++;
			i = -1;
		}
	}
	for (int place = 0; place < 3; place++) {
		char list[64];
		snprintf(list, sizeof(list), "[%d, %d, %d]", place == 0 ? end : never,
			place == 1 ? end : never, place == 2 ? end : never);
		count = answer_ids(list, ids, MOST, reason, sizeof(reason));
		require(count == first + 1, "%s: %d tokens, not %d", list, count, first + 1);
		require(memcmp(ids, whole, (size_t)count * sizeof(ids[0])) == 0, "%s", list);
		cr_assert_str_eq(reason, "stop");
	}
}

/* ---- what a terminal shows ---- */

#define CLEARED "\r\033[K"

/* What is written to a terminal, which is stderr alone. The caller frees it. */
static char *shown(const char *arguments)
{
	struct process_result outcome = shell_run(folder,
		"script -qec \"'" QUIRE_EXECUTABLE "' %s >out\" /dev/null </dev/null", arguments);
	char *text = outcome.out;

	require(outcome.code == 0, "%s: exit code %d: %s", arguments, outcome.code, text);
	outcome.out = NULL;
	process_result_free(&outcome);
	return text;
}

/* Requires the figures of a whole run at the end of the text, and cuts them off. */
static void require_speed(char *text, unsigned prefill, unsigned decode)
{
	char expected[64];
	char *last = strstr(text, "prefill ");

	for (char *next = last; next != NULL; next = strstr(next + 1, "prefill ")) {
		last = next;
	}
	require(last != NULL, "no speed: %s", text);
	snprintf(expected, sizeof(expected), "prefill %u %s, ", prefill,
		prefill == 1 ? "token" : "tokens");
	require(strncmp(last, expected, strlen(expected)) == 0, "%s", last);
	snprintf(expected, sizeof(expected), " tok/s; decode %u %s, ", decode,
		decode == 1 ? "token" : "tokens");
	require(strstr(last, expected) != NULL, "%s", last);
	size_t bytes = strlen(last);
	require(bytes > 8 && strcmp(last + bytes - 8, " tok/s\r\n") == 0, "%s", last);
	*last = '\0';
}

static bool has_terminal(void)
{
	struct process_result result = shell_run(folder, "script -qec true /dev/null </dev/null");
	bool has_it = result.code == 0;

	process_result_free(&result);
	return has_it;
}

/* Every answer is a token of the prefill's last step and one of each step of decode after it. */
static void count_tokens(const char *json, unsigned *prefill, unsigned *decode)
{
	const char *end = NULL;

	for (const char *line = json; *line != '\0'; line = end + 1) {
		cJSON *answer = cJSON_ParseWithOpts(line, &end, false);
		require(answer != NULL, "no JSON: %s", line);
		*prefill += (unsigned)cJSON_GetObjectItem(answer, "prompt_tokens")->valueint;
		*decode += (unsigned)cJSON_GetArraySize(cJSON_GetObjectItem(answer, "token_ids"));
		*decode -= 1;
		cJSON_Delete(answer);
	}
}

/* Lines that overwrite each other, at most ten a second, and are gone in the end. */
Test(generate_output, a_terminal_shows_how_far_it_is)
{
	unsigned prefill = 0, decode = 0;
	uint64_t lines = 0;

	if (!has_terminal()) {
		cr_skip_test("script is not here");
	}
	struct process_result json = run_well(GENERATE "--prompts prompts.jsonl --json");
	count_tokens(json.out, &prefill, &decode);
	uint64_t start_ns = monotonic_ns();
	char *text = shown(GENERATE "--prompts prompts.jsonl --json");
	uint64_t elapsed_ns = monotonic_ns() - start_ns;
	require_speed(text, prefill, decode);
	require(strncmp(text, CLEARED "1 of 4 prompts finished, prefill ", 36) == 0 ||
			strncmp(text, CLEARED "0 of 4 prompts finished, prefill ", 36) == 0,
		"first shown: %s", text);
	for (const char *c = text; (c = strstr(c, " prompts finished, ")) != NULL; c++) {
		lines++;
	}
	require(lines <= 1 + elapsed_ns / 100000000, "%llu lines", (unsigned long long)lines);
	size_t bytes = strlen(text);
	require(bytes > 4 && strcmp(text + bytes - 4, CLEARED) == 0, "not gone: %s", text);
	process_result_free(&json);
	free(text);
}

/* A text that grows shows how far it is. */
Test(generate_output, a_terminal_shows_nothing_beside_one_answer)
{
	unsigned prefill = 0, decode = 0;

	if (!has_terminal()) {
		cr_skip_test("script is not here");
	}
	struct process_result json = run_well(GENERATE "--prompt 'Say it' --json");
	count_tokens(json.out, &prefill, &decode);
	char *text = shown(GENERATE "--prompt 'Say it'");
	require_speed(text, prefill, decode);
	cr_assert_str_eq(text, "");
	process_result_free(&json);
	free(text);
}

/* Each count has its own word. */
Test(generate_output, one_token_is_told_of_as_one)
{
	static const char *const prompts[] = {"a", "Say it"};

	if (!has_terminal()) {
		cr_skip_test("script is not here");
	}
	for (uint32_t i = 0; i < 6; i++) {
		unsigned prefill = 0, decode = 0;
		char arguments[256];
		snprintf(arguments, sizeof(arguments),
			"generate --model . --weights dummy:1 --ignore-eos --prompt '%s' "
			"--max-tokens %u --json",
			prompts[i / 3], 1 + i % 3);
		struct process_result json = run_well(arguments);
		count_tokens(json.out, &prefill, &decode);
		require_equal(decode, i % 3);
		require((prefill == 1) == (i / 3 == 0), "%u tokens", prefill);
		char *text = shown(arguments);
		require_speed(text, prefill, decode);
		process_result_free(&json);
		free(text);
	}
}
