#include "bench/commands/commands.h"
#include "bench/generate/generate.h"
#include "bench/generate/generate_prompts.h"
#include "bench/replay/replay_config.h"
#include "bench/replay/runners.h"
#include "engine/base/number.h"
#include "engine/base/path.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/model/config_json.h"
#include "engine/ranks/launch.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/shape/model_config.h"
#include "engine/tokenizer/tokenizer.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
	"Continues texts with a model, through the same scheduler and block manager that replays\n"
	"use. One prompt is written as it grows; several come in the order of the file. The\n"
	"same prompts and options give the same answers, however they are batched.";

static const char examples[] =
	"  quire generate --model DIR --prompt 'The capital of France is' --max-tokens 8\n"
	"  quire generate --model DIR --chat --prompt 'Why is the sky blue?' --max-tokens 500\n"
	"  quire generate --model DIR --prompts prompts.jsonl --json\n"
	"with prompts.jsonl:\n"
	"  {\"prompt\": \"Once upon a time\", \"max_tokens\": 100}\n"
	"  {\"prompt\": \"1 + 1 =\", \"temperature\": 0, \"max_tokens\": 4, \"ignore_eos\": "
	"true}\n";

enum { MILLION = 1000 * 1000, SHOWN_INTERVAL_NS = 100 * 1000 * 1000, TITLE_BYTES = 60 };

struct generate_request {
	struct replay_config config;
	const char *prompt, *prompts_path;
	const char *tokenizer; /* NULL: the model's folder */
	const char *system;    /* NULL: none */
	bool is_chat, skips_thinking, is_json, ignores_eos;
	uint64_t max_tokens;
};

/* The state of a run, zeroed before it is opened. */
struct session {
	struct model_config model;
	struct tokenizer *tokenizer;
	struct generate_prompts prompts;
	struct engine_config engine;
	struct runner runner;
	struct generation generation;
	uint32_t written_count; /* answers written to stdout */
	size_t streamed_bytes;	/* bytes written of the answer that is being streamed */
	bool is_streaming;	/* one prompt, as text */
	bool shows_progress, has_progress;
	uint64_t next_progress_ns;
};

/* ---- opening ---- */

static enum status check_request(const struct generate_request *request, struct error *error)
{
	if (request->config.model == NULL) {
		return error_set(error, STATUS_USAGE,
			"expected --model DIR: a folder with config.json, tokenizer.json and "
			"model.safetensors");
	}
	if ((request->prompt == NULL) == (request->prompts_path == NULL)) {
		return error_set(
			error, STATUS_USAGE, "expected either --prompt TEXT or --prompts FILE");
	}
	if (!request->is_chat && (request->system != NULL || request->skips_thinking)) {
		return error_set(error, STATUS_USAGE, "--%s belongs to --chat",
			request->system != NULL ? "system" : "no-thinking");
	}
	return replay_config_check(&request->config, error);
}

/* A name of --model alone is a shape, which has no tokenizer. */
static enum status need_tokenizer(const char *folder, struct error *error)
{
	char path[PATH_BYTES_MAX];
	bool is_there = false;

	TRY(path_format(path, error, "%s/tokenizer.json", folder));
	TRY(path_is_there(path, &is_there, error));
	if (!is_there) {
		return error_set(error, STATUS_FILE,
			"found no %.200s, expected it in the folder of --model or --tokenizer; "
			"such a folder is got by: hf download Qwen/Qwen3-0.6B --local-dir DIR",
			path);
	}
	return STATUS_OK;
}

static enum status open_text(
	const struct generate_request *request, struct session *session, struct error *error)
{
	const struct generate_prompt defaults = {
		.max_tokens = (uint32_t)request->max_tokens,
		.temperature = (float)request->config.temperature / MILLION,
		.ignore_eos = request->ignores_eos,
	};
	const struct chat_template template = {request->system, request->skips_thinking};
	const char *folder =
		request->tokenizer != NULL ? request->tokenizer : request->config.model;

	TRY(need_tokenizer(folder, error));
	TRY(tokenizer_open(&session->tokenizer, folder, error));
	if (tokenizer_id_limit(session->tokenizer) > session->model.vocab_size) {
		return error_set(error, STATUS_INPUT,
			"%.200s/tokenizer.json: found ids up to %u, expected them below the "
			"model's vocab_size %u",
			folder, tokenizer_id_limit(session->tokenizer) - 1,
			session->model.vocab_size);
	}
	if (request->prompt != NULL) {
		generate_prompts_add(
			&session->prompts, request->prompt, strlen(request->prompt), &defaults);
	} else {
		TRY(generate_prompts_read(
			&session->prompts, request->prompts_path, &defaults, error));
	}
	return generate_prompts_encode(
		&session->prompts, session->tokenizer, request->is_chat ? &template : NULL, error);
}

/* Copies the ids of the tokens that end a text from the model's configuration. */
static void copy_eos(struct engine_config *engine, const struct model_config *model)
{
	for (uint32_t i = 0; i < model->eos_token_id_count; i++) {
		if (i == 0) {
			engine->eos_token_id = model->eos_token_ids[0];
		} else {
			check(i <= ENGINE_FURTHER_EOS_MAX);
			engine->further_eos_ids[i - 1] = model->eos_token_ids[i];
			engine->further_eos_count = i;
		}
	}
}

static enum status open_runner(
	struct generate_request *request, struct session *session, struct error *error)
{
	struct replay_config *config = &request->config;
	const struct runner_entry *entry = NULL;
	struct runner_facts facts = {0};

	replay_config_take_policy(config);
	/* Every step is applied before the next one is decided. */
	config->async_scheduling = ASYNC_SCHEDULING_OFF;
	TRY(runner_find(config->runner, &entry, error));
	replay_config_complete(config, &session->model);
	/* A larger limit would only use more memory. */
	config->max_num_seqs = u64_min(config->max_num_seqs, session->prompts.count);
	const struct runner_request runner_request = {
		.model = &session->model, .model_path = config->model};
	TRY(entry->open(&session->runner, config, &runner_request, &facts, error));
	if (!session->runner.is_computing) {
		return error_set(error, STATUS_USAGE,
			"--runner %s computes no tokens; reference does", config->runner);
	}
	replay_config_engine(config, &session->engine);
	copy_eos(&session->engine, &session->model);
	return generation_open(&session->generation, &session->engine, &session->runner,
		session->tokenizer, &session->prompts, error);
}

static void close_session(struct session *session)
{
	generation_close(&session->generation);
	if (session->runner.close != NULL) {
		session->runner.close(session->runner.state);
	}
	generate_prompts_deinit(&session->prompts);
	tokenizer_close(session->tokenizer);
}

/* ---- writing ---- */

/* A JSON string of valid UTF-8. */
static void print_json_text(const char *bytes, size_t byte_count)
{
	putchar('"');
	for (size_t i = 0; i < byte_count; i++) {
		unsigned char c = (unsigned char)bytes[i];
		if (c == '"' || c == '\\') {
			printf("\\%c", c);
		} else if (c == '\n') {
			printf("\\n");
		} else if (c < 0x20 || c == 0x7f) {
			printf("\\u%04x", c);
		} else {
			putchar(c);
		}
	}
	putchar('"');
}

static void print_json_answer(const struct session *session, uint32_t index)
{
	const struct generate_answer *answer = &session->generation.answers[index];

	printf("{\"index\": %u, \"prompt_tokens\": %zu, \"cached_tokens\": %u, "
	       "\"finish_reason\": \"%s\", \"text\": ",
		index, session->prompts.items[index].ids.count, answer->cached_tokens,
		answer->is_stopped ? "stop" : "length");
	print_json_text(answer->text.bytes, answer->text.byte_count);
	printf(", \"token_ids\": [");
	for (size_t i = 0; i < answer->ids.count; i++) {
		printf("%s%d", i == 0 ? "" : ", ", answer->ids.ids[i]);
	}
	printf("]}\n");
}

/* Length in bytes of a text's beginning, cut at a UTF-8 character boundary. */
static size_t title_bytes(const struct text *text)
{
	size_t bytes = text->byte_count < TITLE_BYTES ? text->byte_count : TITLE_BYTES;

	while (bytes > 0 && bytes < text->byte_count &&
		((unsigned char)text->bytes[bytes] & 0xc0) == 0x80) {
		bytes--;
	}
	return bytes;
}

static void print_text_answer(const struct session *session, uint32_t index)
{
	const struct generate_answer *answer = &session->generation.answers[index];
	const struct text *prompt = &session->prompts.items[index].text;
	size_t title = title_bytes(prompt);

	printf("==> %u of %u: ", index + 1, session->prompts.count);
	print_json_text(prompt->bytes, title);
	printf("%s\n", title < prompt->byte_count ? "..." : "");
	fwrite(answer->text.bytes, 1, answer->text.byte_count, stdout);
	printf("\n%s", index + 1 < session->prompts.count ? "\n" : "");
}

static void clear_progress(struct session *session)
{
	if (session->has_progress) {
		fprintf(stderr, "\r\033[K");
		session->has_progress = false;
	}
}

/* Writes new output: for one prompt its new text, for several the finished answers, in order. */
static void write_answers(struct session *session, bool is_json)
{
	struct generation *generation = &session->generation;

	if (session->is_streaming) {
		const struct text *text = &generation->answers[0].text;
		if (text->byte_count > session->streamed_bytes) {
			fwrite(text->bytes + session->streamed_bytes, 1,
				text->byte_count - session->streamed_bytes, stdout);
			session->streamed_bytes = text->byte_count;
		}
		if (generation->answers[0].is_finished) {
			putchar('\n');
		}
		fflush(stdout);
		return;
	}
	while (session->written_count < session->prompts.count &&
		generation->answers[session->written_count].is_finished) {
		clear_progress(session);
		if (is_json) {
			print_json_answer(session, session->written_count);
		} else {
			print_text_answer(session, session->written_count);
		}
		fflush(stdout);
		session->written_count++;
	}
}

static void print_speed(const struct generate_speed *speed)
{
	fprintf(stderr, "prefill %llu %s, %llu tok/s; decode %llu %s, %llu tok/s",
		(unsigned long long)speed->prefill_tokens,
		word_of_count(speed->prefill_tokens, "token", "tokens"),
		(unsigned long long)generate_rate(speed->prefill_tokens, speed->prefill_ns),
		(unsigned long long)speed->decode_tokens,
		word_of_count(speed->decode_tokens, "token", "tokens"),
		(unsigned long long)generate_rate(speed->decode_tokens, speed->decode_ns));
}

/* A few times a second, unless an answer is streamed to the terminal. */
static void show_progress(struct session *session)
{
	uint64_t now_ns = session->shows_progress ? monotonic_ns() : 0;

	if (!session->shows_progress || session->is_streaming ||
		now_ns < session->next_progress_ns) {
		return;
	}
	session->next_progress_ns = now_ns + SHOWN_INTERVAL_NS;
	session->has_progress = true;
	fprintf(stderr, "\r\033[K%u of %u %s finished, ", session->generation.finished_count,
		session->prompts.count, word_of_count(session->prompts.count, "prompt", "prompts"));
	print_speed(&session->generation.speed);
	fflush(stderr);
}

static enum status run_session(struct session *session, bool is_json, struct error *error)
{
	bool is_done = false;

	while (!is_done) {
		TRY(generation_step(&session->generation, &is_done, error));
		write_answers(session, is_json);
		if (!is_done) {
			show_progress(session);
		}
		if (ferror(stdout) != 0) {
			return error_set(
				error, STATUS_FILE, "cannot write to stdout: %s", strerror(errno));
		}
	}
	return STATUS_OK;
}

static enum status run_opened(
	const struct generate_request *request, struct session *session, struct error *error)
{
	session->is_streaming = session->prompts.count == 1 && !request->is_json;
	session->shows_progress = isatty(STDERR_FILENO) == 1;
	enum status status = run_session(session, request->is_json, error);
	clear_progress(session);
	if (status == STATUS_OK && session->shows_progress) {
		print_speed(&session->generation.speed);
		fprintf(stderr, "\n");
	}
	return status;
}

/* All that is refused before anything is opened. */
static enum status complete_request(
	struct generate_request *request, struct session *session, struct error *error)
{
	const struct runner_entry *entry = NULL;

	TRY(check_request(request, error));
	TRY(runner_find(request->config.runner, &entry, error));
	TRY(runner_take_launch(entry, &request->config, error));
	TRY(model_config_find(request->config.model, &session->model, error));
	TRY(replay_config_ranks_check(&request->config, &session->model, error));
	return open_text(request, session, error);
}

static enum status open_and_run(
	struct generate_request *request, struct session *session, struct error *error)
{
	complete_request(request, session, error);
	TRY(launched_join(&request->config, error)); /* which carries the error */
	if (open_runner(request, session, error) != STATUS_OK) {
		return rank_launch_fail(error);
	}
	return run_opened(request, session, error);
}

static enum status run(struct command_line *line, struct error *error)
{
	struct session session = {.written_count = 0};

	enum status status = open_and_run(line->values, &session, error);
	close_session(&session);
	return status;
}

/* ---- the command line ---- */

#define REQUEST(field) offsetof(struct generate_request, field)

static const struct option options[] = {
	{.kind = OPTION_HEADING, .help = "prompts"},
	{"prompt", OPTION_TEXT, REQUEST(prompt), .argument = "TEXT", .help = "one text"},
	{"prompts", OPTION_TEXT, REQUEST(prompts_path), .argument = "FILE",
		.help = "JSON objects, one per line: prompt, and max_tokens, temperature, "
			"ignore_eos where they differ from the options below"},
	{"chat", OPTION_FLAG, REQUEST(is_chat),
		.help = "prompts are a user's messages: wraps them in Qwen3's chat template"},
	{"system", OPTION_TEXT, REQUEST(system), .argument = "TEXT",
		.help = "system message of --chat"},
	{"no-thinking", OPTION_FLAG, REQUEST(skips_thinking),
		.help = "with --chat: answer without thinking first"},

	{.kind = OPTION_HEADING, .help = "how"},
	{"max-tokens", OPTION_COUNT, REQUEST(max_tokens), .argument = "N", .initial = "64",
		.minimum = 1, .maximum = 1 << 28, .help = "most tokens of an answer"},
	{FROM_TABLE("temperature"), .maximum = UINT64_C(1000) * MILLION,
		.help = "0 chooses the likeliest token"},
	{"ignore-eos", OPTION_FLAG, REQUEST(ignores_eos),
		.help = "continue after tokens that end a text"},
	{FROM_TABLE("seed"), .maximum = UINT64_MAX, .help = "seed of the sampling"},
	{"json", OPTION_FLAG, REQUEST(is_json),
		.help = "one JSON object per prompt: index, prompt_tokens, cached_tokens, "
			"finish_reason, text, token_ids"},

	{.kind = OPTION_HEADING, .help = "model and engine"},
	{FROM_TABLE("model"), .argument = "DIR", .initial = "",
		.help = "folder with config.json, tokenizer.json and safetensors"},
	{FROM_TABLE("weights")},
	{"tokenizer", OPTION_TEXT, REQUEST(tokenizer), .argument = "DIR",
		.help = "folder with another tokenizer.json"},
	{FROM_TABLE("dtype")},
	{FROM_TABLE("runner"), .initial = "reference",
		.help = "reference computes on the CPU, cuda on the GPU"},
	{FROM_TABLE("tensor-parallel-size")},
	{FROM_TABLE("tp-transport")},

	{.kind = OPTION_HEADING, .help = "engine"},
	{FROM_TABLE("policy")},
	{FROM_TABLE("block-size")},
	{FROM_TABLE("kv-blocks"), .help = "blocks in the KV pool; default: 1 GiB"},
	{FROM_TABLE("max-num-seqs")},
	{FROM_TABLE("max-num-batched-tokens")},
	{FROM_TABLE("max-model-len")},
};

const struct command command_generate = {
	.name = "generate",
	.title = "continue texts with a model",
	.arguments = "--model DIR --prompt TEXT | --prompts FILE [options]",
	.summary = summary,
	.examples = examples,
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = REQUEST(config),
	.value_bytes = sizeof(struct generate_request),
	.takes_processes = true,
	.run = run,
};
