/* Logits of the last position of some requests, by the whole engine, for programs that compare:

       cuda_logits [--reference | --reference-bf16] [--decode N] MODEL_DIR TOKENS_FILE OUT

   MODEL_DIR has weights and a config.json. A line of TOKENS_FILE is a request: token ids with
   spaces in between. OUT gets (requests, vocab_size) float32 of this machine, in the order of the
   lines. All requests are there from the start, under a policy and limits that chunk long prompts
   and mix rows. The last N tokens of a request are forced as its completion (but not its first
   token), so that its last position is a decode row in a CUDA graph. --reference computes on the
   CPU, where there is no GPU. */

#include "engine/base/memory.h"
#include "engine/engine.h"
#include "engine/model/cuda_runner.h"
#include "engine/model/reference_runner.h"
#include "engine/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS_MAX = 256, BLOCK_SIZE = 64, STEP_TOKENS = 512 };

struct text {
	int32_t *tokens; /* (count + 1): forced completions have one behind the last position */
	uint32_t count;
};

struct command {
	const char *model_path, *tokens_path, *out_path;
	bool is_reference;
	enum rounding rounding; /* of the reference */
	uint32_t decode_count;

	struct model_config model;
	struct weights *weights;
	struct text texts[REQUESTS_MAX];
	uint32_t text_count;
	float *logits; /* (text_count, vocab_size) */
};

/* ---- arguments and files ---- */

static enum status usage(struct error *error)
{
	return error_set(error, STATUS_USAGE,
		"expected [--reference | --reference-bf16] [--decode N] MODEL_DIR TOKENS_FILE OUT");
}

static enum status parse(struct command *command, int argc, char **argv, struct error *error)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (strcmp(argv[i], "--reference") == 0) {
			command->is_reference = true;
		} else if (strcmp(argv[i], "--reference-bf16") == 0) {
			command->is_reference = true;
			command->rounding = ROUNDING_BF16;
		} else if (strcmp(argv[i], "--decode") == 0 && i + 1 < argc) {
			char *end;
			unsigned long count = strtoul(argv[++i], &end, 10);
			if (*end != '\0' || end == argv[i] || count > 1000) {
				return error_set(error, STATUS_USAGE,
					"--decode: found %s, expected a number in [0, 1000]",
					argv[i]);
			}
			command->decode_count = (uint32_t)count;
		} else {
			return usage(error);
		}
	}
	if (argc - i != 3) {
		return usage(error);
	}
	command->model_path = argv[i];
	command->tokens_path = argv[i + 1];
	command->out_path = argv[i + 2];
	return STATUS_OK;
}

/* A line, which is changed. */
static enum status parse_line(struct command *command, char *line, struct error *error)
{
	struct text *text = &command->texts[command->text_count];
	size_t most = strlen(line) / 2 + 1;
	char *at = line;

	if (command->text_count == REQUESTS_MAX) {
		return error_set(error, STATUS_INPUT, "%s: more than %d lines",
			command->tokens_path, REQUESTS_MAX);
	}
	text->tokens = memory_take(most + 1, sizeof(*text->tokens));
	command->text_count++;
	for (;;) {
		char *end;
		long id = strtol(at, &end, 10);
		if (end == at) {
			break;
		}
		if (id < 0 || id >= (long)command->model.vocab_size) {
			return error_set(error, STATUS_INPUT,
				"%s:%u: found token %ld, expected one in [0, %u)",
				command->tokens_path, command->text_count, id,
				command->model.vocab_size);
		}
		text->tokens[text->count++] = (int32_t)id;
		at = end;
	}
	if (text->count == 0 || at[strspn(at, " \n")] != '\0' ||
		text->count > command->model.max_position_embeddings) {
		return error_set(error, STATUS_INPUT, "%s:%u: expected 1 to %u token ids",
			command->tokens_path, command->text_count,
			command->model.max_position_embeddings);
	}
	return STATUS_OK;
}

static enum status read_texts(struct command *command, struct error *error)
{
	FILE *file = fopen(command->tokens_path, "r");
	enum status status = STATUS_OK;
	size_t capacity = 0;
	char *line = NULL;

	if (file == NULL) {
		return error_set(
			error, STATUS_FILE, "%s: %s", command->tokens_path, strerror(errno));
	}
	while (status == STATUS_OK && getline(&line, &capacity, file) >= 0) {
		status = parse_line(command, line, error);
	}
	if (status == STATUS_OK && (ferror(file) || command->text_count == 0)) {
		status = error_set(error, STATUS_FILE, "%s: %s", command->tokens_path,
			ferror(file) ? "cannot be read" : "has no line");
	}
	free(line);
	fclose(file);
	return status;
}

static enum status write_logits(const struct command *command, struct error *error)
{
	size_t count = (size_t)command->text_count * command->model.vocab_size;
	FILE *file = fopen(command->out_path, "wb");

	bool is_written =
		file != NULL && fwrite(command->logits, sizeof(float), count, file) == count;
	if (file != NULL && fclose(file) != 0) {
		is_written = false;
	}
	return is_written ? STATUS_OK
			  : error_set(error, STATUS_FILE, "%s: %s", command->out_path,
				    strerror(errno));
}

/* ---- the run ---- */

static uint32_t forced_count(const struct command *command, const struct text *text)
{
	return command->decode_count < text->count ? command->decode_count : text->count - 1;
}

static struct engine_config config_of(const struct command *command)
{
	struct engine_config config = {
		.policy = &policy_mixed,
		.block_size = BLOCK_SIZE,
		.max_num_seqs = command->text_count,
		.max_num_batched_tokens = STEP_TOKENS,
		.eos_token_id = -1,
	};

	for (uint32_t i = 0; i < command->text_count; i++) {
		uint32_t tokens = command->texts[i].count + 1;
		config.kv_block_count += tokens / BLOCK_SIZE + 1;
		if (config.max_model_len < tokens) {
			config.max_model_len = tokens;
		}
	}
	return config;
}

static enum status open_runner(const struct command *command, const struct engine_config *config,
	struct runner *runner, struct error *error)
{
	struct cuda_memory memory;
	const struct cuda_runner_options cuda = {
		.weights = command->weights, .engine = config, .path = kernel_path_of_device()};
	const struct reference_options reference = {
		.weights = command->weights, .engine = config, .rounding = command->rounding};

	return command->is_reference ? reference_runner_open(runner, &reference, error)
				     : cuda_runner_open(runner, &cuda, &memory, error);
}

/* Keeps the rows that decide what comes behind a request's last position. */
static enum status keep_logits(struct command *command, const struct runner *runner,
	const struct batch *batch, struct error *error)
{
	uint32_t vocab_size = command->model.vocab_size;
	uint32_t rows = (uint32_t)batch->counts.sampled_rows, sampled = 0;
	float *logits = memory_take((size_t)rows * vocab_size + 1, sizeof(*logits));
	enum status status = STATUS_OK;

	if (command->is_reference) {
		memcpy(logits, reference_runner_logits(runner),
			(size_t)rows * vocab_size * sizeof(*logits));
	} else {
		status = cuda_runner_logits(runner, rows, logits, error);
	}
	for (uint32_t r = 0; r < batch->row_count && status == STATUS_OK; r++) {
		if (!batch->is_sampled[r]) {
			continue;
		}
		uint64_t request = batch->request[r];
		if (batch->sample_position[r] == command->texts[request].count) {
			memcpy(command->logits + request * vocab_size,
				logits + (size_t)sampled * vocab_size,
				vocab_size * sizeof(*logits));
		}
		sampled++;
	}
	free(logits);
	return status;
}

static enum status serve(struct command *command, struct engine *engine, struct error *error)
{
	struct step_time time;
	enum status status = STATUS_OK;

	for (uint32_t i = 0; i < command->text_count; i++) {
		const struct text *text = &command->texts[i];
		uint32_t forced = forced_count(command, text);
		uint32_t prompt = text->count - forced;
		const struct request request = {
			.id = i,
			.prompt = text->tokens,
			.prompt_count = prompt,
			.forced = forced == 0 ? NULL : text->tokens + prompt,
			.max_tokens = forced + 1,
			.ignore_eos = true,
		};
		if (engine_add(engine, &request) != FIT_OK) {
			return error_set(error, STATUS_INPUT, "%s:%u: does not fit",
				command->tokens_path, i + 1);
		}
	}
	while (status == STATUS_OK && engine_has_work(engine)) {
		const struct batch *batch = engine_schedule(engine);
		status = engine_execute(engine, &time, error);
		if (status == STATUS_OK) {
			status = keep_logits(command, engine->runner, batch, error);
		}
		if (status == STATUS_OK) {
			engine_postprocess(engine);
		}
		while (engine_take_finished(engine) != NULL) {
		}
	}
	return status;
}

static enum status run(struct command *command, struct error *error)
{
	struct engine_config config = config_of(command);
	struct runner runner;
	struct engine engine;

	command->logits =
		memory_take((size_t)command->text_count * command->model.vocab_size, sizeof(float));
	enum status status = open_runner(command, &config, &runner, error);
	if (status != STATUS_OK) {
		return status;
	}
	status = engine_open(&engine, &config, &runner, error);
	if (status == STATUS_OK) {
		status = serve(command, &engine, error);
		engine_close(&engine);
	}
	runner.close(runner.state);
	return status;
}

int main(int argc, char **argv)
{
	struct command command = {0};
	struct error error = {0};

	enum status status = parse(&command, argc, argv, &error);
	if (status == STATUS_OK) {
		status = model_config_find(command.model_path, &command.model, &error);
	}
	if (status == STATUS_OK) {
		status = weights_open(&command.weights, &command.model, command.model_path, &error);
	}
	if (status == STATUS_OK) {
		status = read_texts(&command, &error);
	}
	if (status == STATUS_OK) {
		status = run(&command, &error);
	}
	if (status == STATUS_OK) {
		status = write_logits(&command, &error);
	}
	for (uint32_t i = 0; i < command.text_count; i++) {
		free(command.texts[i].tokens);
	}
	free(command.logits);
	weights_close(command.weights);
	if (status != STATUS_OK) {
		fprintf(stderr, "cuda_logits: %s\n", error.text);
	}
	return status == STATUS_OK ? 0 : 2;
}
