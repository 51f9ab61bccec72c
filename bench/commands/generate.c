#include "bench/commands/commands.h"
#include "bench/replay/generate.h"
#include "bench/replay/generate_prompts.h"
#include "bench/options/options.h"
#include "bench/replay/replay_config.h"
#include "bench/replay/runners.h"
#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/model/config_json.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/shape/model_config.h"
#include "engine/tokenizer/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char summary[] =
	"Continues texts with a model, through the same scheduler and block manager that replays\n"
	"use. One prompt is written as it grows; several come in the order of the file. Prompts "
	"and\n"
	"options being the same, so are the answers, whatever is batched with what.";

static const char examples[] =
	"  quire generate --model DIR --prompt 'The capital of France is' --max-tokens 8\n"
	"  quire generate --model DIR --chat --prompt 'Why is the sky blue?' --max-tokens 500\n"
	"  quire generate --model DIR --prompts prompts.jsonl --json\n"
	"with prompts.jsonl:\n"
	"  {\"prompt\": \"Once upon a time\", \"max_tokens\": 100}\n"
	"  {\"prompt\": \"1 + 1 =\", \"temperature\": 0, \"max_tokens\": 4, \"ignore_eos\": "
	"true}\n";

enum { MILLION = 1000 * 1000, SHOWN_INTERVAL_NS = 100 * 1000 * 1000, TITLE_BYTES = 60 };

/* What the command line asks for. */
struct order {
	struct replay_config config;
	struct replay_given given;
	const char *prompt, *prompts_path;
	const char *tokenizer; /* NULL: the model's folder */
	const char *system;    /* NULL: none */
	bool is_chat, skips_thinking, is_json, ignores_eos;
	uint64_t max_tokens;
	bool has_prompt, has_prompts, has_system;
};

/* Everything that a run holds, zeroed before it is opened. */
struct session {
	struct model_config model;
	struct tokenizer *tokenizer;
	struct generate_prompts prompts;
	struct engine_config engine;
	struct runner runner;
	struct generation generation;
	uint32_t written_count; /* answers that are on stdout */
	size_t streamed_bytes;	/* of the answer that is being streamed */
	bool is_streaming;	/* one prompt, as text */
	bool shows_progress, has_progress;
	uint64_t next_progress_ns;
};

/* ---- opening ---- */

static enum status check_order(const struct order *order, struct error *error)
{
	if (!order->given.model) {
		return error_set(error, STATUS_USAGE,
			"expected --model DIR: a folder with config.json, tokenizer.json and "
			"model.safetensors");
	}
	if (order->has_prompt == order->has_prompts) {
		return error_set(
			error, STATUS_USAGE, "expected either --prompt TEXT or --prompts FILE");
	}
	if (!order->is_chat && (order->has_system || order->skips_thinking)) {
		return error_set(error, STATUS_USAGE, "--%s belongs to --chat",
			order->has_system ? "system" : "no-thinking");
	}
	return replay_config_check(&order->config, &order->given, error);
}

static enum status open_text(
	const struct order *order, struct session *session, struct error *error)
{
	const struct generate_prompt defaults = {
		.max_tokens = (uint32_t)order->max_tokens,
		.temperature = (float)order->config.temperature / MILLION,
		.ignore_eos = order->ignores_eos,
	};
	const struct chat_template template = {order->system, order->skips_thinking};
	const char *folder = order->tokenizer != NULL ? order->tokenizer : order->config.model;

	enum status status = tokenizer_open(&session->tokenizer, folder, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (tokenizer_id_limit(session->tokenizer) > session->model.vocab_size) {
		return error_set(error, STATUS_INPUT,
			"%.200s/tokenizer.json: found ids up to %u, expected them below the "
			"model's vocab_size %u",
			folder, tokenizer_id_limit(session->tokenizer) - 1,
			session->model.vocab_size);
	}
	if (order->has_prompt) {
		generate_prompts_add(
			&session->prompts, order->prompt, strlen(order->prompt), &defaults);
	} else {
		status = generate_prompts_read(
			&session->prompts, order->prompts_path, &defaults, error);
	}
	if (status != STATUS_OK) {
		return status;
	}
	return generate_prompts_encode(
		&session->prompts, session->tokenizer, order->is_chat ? &template : NULL, error);
}

/* Tokens that end a text are the model's. */
static void take_eos(struct engine_config *engine, const struct model_config *model)
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

static enum status open_runner(struct order *order, struct session *session, struct error *error)
{
	struct replay_config *config = &order->config;
	const struct runner_entry *entry = NULL;
	struct runner_facts facts = {0};

	enum status status = runner_find(config->runner, &entry, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (config->max_model_len == 0) {
		config->max_model_len = session->model.max_position_embeddings;
	}
	/* No more sequences than there are can run at a time. */
	config->max_num_seqs = u64_min(config->max_num_seqs, session->prompts.count);
	const struct runner_request request = {
		.model = &session->model, .model_path = config->model};
	status = entry->open(&session->runner, config, &request, &facts, error);
	if (status != STATUS_OK) {
		return status;
	}
	if (!session->runner.is_computing) {
		return error_set(error, STATUS_USAGE,
			"--runner %s computes no tokens; reference does", config->runner);
	}
	replay_config_engine(config, &session->engine);
	take_eos(&session->engine, &session->model);
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

/* Bytes of a text's beginning that end with a character. */
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

/* Writes what is new: of one prompt its text so far, of several the finished ones, in order. */
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
	fprintf(stderr, "prefill %llu tokens, %llu tok/s; decode %llu tokens, %llu tok/s",
		(unsigned long long)speed->prefill_tokens,
		(unsigned long long)generate_rate(speed->prefill_tokens, speed->prefill_ns),
		(unsigned long long)speed->decode_tokens,
		(unsigned long long)generate_rate(speed->decode_tokens, speed->decode_ns));
}

/* Some times a second, on a terminal that no answer is being streamed to. */
static void show_progress(struct session *session)
{
	uint64_t now_ns = session->shows_progress ? monotonic_ns() : 0;

	if (!session->shows_progress || session->is_streaming ||
		now_ns < session->next_progress_ns) {
		return;
	}
	session->next_progress_ns = now_ns + SHOWN_INTERVAL_NS;
	session->has_progress = true;
	fprintf(stderr, "\r\033[K%u of %u prompts finished, ", session->generation.finished_count,
		session->prompts.count);
	print_speed(&session->generation.speed);
	fflush(stderr);
}

static enum status run_session(struct session *session, bool is_json, struct error *error)
{
	bool is_done = false;

	while (!is_done) {
		enum status status = generation_step(&session->generation, &is_done, error);
		if (status != STATUS_OK) {
			return status;
		}
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

static enum status generate(struct order *order, struct error *error)
{
	struct session session = {.written_count = 0};

	enum status status = check_order(order, error);
	if (status == STATUS_OK) {
		status = model_config_find(order->config.model, &session.model, error);
	}
	if (status == STATUS_OK) {
		status = open_text(order, &session, error);
	}
	if (status == STATUS_OK) {
		status = open_runner(order, &session, error);
	}
	if (status == STATUS_OK) {
		session.is_streaming = session.prompts.count == 1 && !order->is_json;
		session.shows_progress = isatty(STDERR_FILENO) == 1;
		status = run_session(&session, order->is_json, error);
		clear_progress(&session);
		if (status == STATUS_OK && session.shows_progress) {
			print_speed(&session.generation.speed);
			fprintf(stderr, "\n");
		}
	}
	close_session(&session);
	return status;
}

/* ---- the command line ---- */

enum { OPTIONS_MAX = 32 };

/* Appends rows to the table; returns their number with them. */
static uint32_t append_options(
	struct option *rows, uint32_t count, const struct option *added, uint32_t added_count)
{
	check(count + added_count <= OPTIONS_MAX);
	memcpy(rows + count, added, added_count * sizeof(*added));
	return count + added_count;
}

static uint32_t prompt_options(struct order *order, struct option *rows, uint32_t count)
{
	struct replay_config *c = &order->config;
	const struct option added[] = {
		{.kind = OPTION_HEADING, .help = "what is continued"},
		{"prompt", OPTION_TEXT, &order->prompt, "TEXT", "one text", 0, 0, NULL,
			&order->has_prompt},
		{"prompts", OPTION_TEXT, &order->prompts_path, "FILE",
			"JSON objects, one a line: prompt, and max_tokens, temperature, "
			"ignore_eos where they differ from the options below",
			0, 0, NULL, &order->has_prompts},
		{"chat", OPTION_FLAG, &order->is_chat, NULL,
			"prompts are a user's messages: wraps them in Qwen3's chat template", 0, 0,
			NULL, NULL},
		{"system", OPTION_TEXT, &order->system, "TEXT", "system message of --chat", 0, 0,
			NULL, &order->has_system},
		{"no-thinking", OPTION_FLAG, &order->skips_thinking, NULL,
			"with --chat: answers without thinking first", 0, 0, NULL, NULL},
		{.kind = OPTION_HEADING, .help = "how"},
		{"max-tokens", OPTION_COUNT, &order->max_tokens, "N",
			"tokens of an answer at most, default 64", 1, 1 << 28, NULL, NULL},
		{"temperature", OPTION_MILLIONTHS, &c->temperature, "T",
			"0 takes the likeliest token, default 1", 0, UINT64_C(1000) * MILLION, NULL,
			NULL},
		{"ignore-eos", OPTION_FLAG, &order->ignores_eos, NULL,
			"go on behind tokens that end a text", 0, 0, NULL, NULL},
		{"seed", OPTION_COUNT, &c->seed, "N", "of the sampling, default 0", 0, UINT64_MAX,
			NULL, NULL},
		{"json", OPTION_FLAG, &order->is_json, NULL,
			"one JSON object a prompt: index, prompt_tokens, cached_tokens, "
			"finish_reason, text, token_ids",
			0, 0, NULL, NULL},
	};

	return append_options(rows, count, added, sizeof(added) / sizeof(added[0]));
}

static uint32_t engine_options(struct order *order, struct option *rows, uint32_t count)
{
	struct replay_config *c = &order->config;
	struct replay_given *g = &order->given;
	const struct option added[] = {
		{.kind = OPTION_HEADING, .help = "with what"},
		{"model", OPTION_TEXT, &c->model, "DIR",
			"folder with config.json, tokenizer.json and safetensors", 0, 0, NULL,
			&g->model},
		{"weights", OPTION_TEXT, &c->weights, "DIR|dummy:SEED",
			"other weights than the model folder's; dummy: made up from a seed", 0, 0,
			NULL, NULL},
		{"tokenizer", OPTION_TEXT, &order->tokenizer, "DIR",
			"folder of another tokenizer.json", 0, 0, NULL, NULL},
		{"dtype", OPTION_TEXT, &c->dtype, "float32|bfloat16",
			"what the reference rounds weights, activations, keys and values to; "
			"default float32",
			0, 0, NULL, NULL},
		{"runner", OPTION_TEXT, &c->runner, "NAME",
			"reference (default) computes on the CPU, cuda on the GPU", 0, 0, NULL,
			NULL},
		{.kind = OPTION_HEADING, .help = "engine"},
		{"policy", OPTION_TEXT, &c->policy, "NAME", "mixed (default) or prefill-first", 0,
			0, NULL, NULL},
		{"block-size", OPTION_COUNT, &c->block_size, "TOKENS",
			"tokens a KV block holds, default 256", 1, 65536, NULL, NULL},
		{"kv-blocks", OPTION_COUNT, &c->kv_blocks, "N",
			"blocks in the KV pool; default: 1 GiB of them", 1, 1 << 28, NULL, NULL},
		{"max-num-seqs", OPTION_COUNT, &c->max_num_seqs, "N",
			"sequences in a step, default 512", 1, 65536, NULL, NULL},
		{"max-num-batched-tokens", OPTION_COUNT, &c->max_num_batched_tokens, "N",
			"tokens in a step, default 16384", 1, 1 << 28, NULL, NULL},
		{"max-model-len", OPTION_COUNT, &c->max_model_len, "N",
			"prompt and answer at most; default: the model's own limit", 1, 1 << 28,
			NULL, NULL},
	};

	return append_options(rows, count, added, sizeof(added) / sizeof(added[0]));
}

int command_generate(int argc, char **argv)
{
	struct order order = {.max_tokens = 64};
	struct option options[OPTIONS_MAX];
	bool wants_help = false;
	uint32_t positional_count = 0;
	struct error error = {STATUS_OK, ""};

	replay_config_default(&order.config);
	order.config.runner = "reference";
	uint32_t count = prompt_options(&order, options, 0);
	count = engine_options(&order, options, count);
	const struct command command = {
		.name = "generate",
		.arguments = "--model DIR --prompt TEXT | --prompts FILE [options]",
		.summary = summary,
		.examples = examples,
		.options = options,
		.option_count = count,
	};
	enum status status =
		options_parse(&command, argc, argv, NULL, &positional_count, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK) {
		status = generate(&order, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
