#include "bench/command_trace.h"

#include "bench/options.h"
#include "bench/output_file.h"
#include "engine/base/integer.h"
#include "workloads/generator.h"
#include "workloads/trace_writer.h"

#include <string.h>

struct make_options {
	uint64_t requests, seed, rate, prefix, prefixes, block_size;
	const char *input, *output, *out;
};

/* "512" or "128:1024". */
static enum status parse_lengths(
	const char *name, const char *text, struct length_range *range, struct error *error)
{
	char low_text[24] = "";
	const char *colon = strchr(text, ':');
	uint64_t low = 0;
	uint64_t high = 0;
	size_t low_bytes = colon == NULL ? strlen(text) : (size_t)(colon - text);

	if (low_bytes < sizeof(low_text)) {
		memcpy(low_text, text, low_bytes);
	}
	if (!text_to_u64(low_text, &low) ||
		!text_to_u64(colon == NULL ? low_text : colon + 1, &high) || low < 1 ||
		high > TRACE_LENGTH_MAX || low > high) {
		return error_set(error, STATUS_USAGE,
			"--%s: found '%s', expected tokens or LOW:HIGH, from 1 to %d", name, text,
			TRACE_LENGTH_MAX);
	}
	*range = (struct length_range){(uint32_t)low, (uint32_t)high};
	return STATUS_OK;
}

static enum status write_trace(
	const char *path, const struct generator_options *options, struct error *error)
{
	struct output_file output;
	struct trace_row row;
	enum status status = output_file_open(&output, path, error);

	if (status != STATUS_OK) {
		return status;
	}
	struct generator *generator = generator_open(options);
	while (generator_next(generator, &row)) {
		trace_write_row(output.file, &row);
	}
	generator_close(generator);
	return output_file_commit(&output, error);
}

static enum status make(const struct make_options *given, struct error *error)
{
	struct generator_options options = {
		.request_count = given->requests,
		.seed = given->seed,
		.rate_millionths = given->rate,
		.prefix_tokens = u32_from(given->prefix),
		.prefix_count = u32_from(given->prefixes),
		.trace_block_size = u32_from(given->block_size),
	};

	if (given->requests == 0 || given->input == NULL || given->output == NULL ||
		given->out == NULL) {
		return error_set(error, STATUS_USAGE, "--%s is missing",
			given->requests == 0	? "requests"
			: given->input == NULL	? "input"
			: given->output == NULL ? "output"
						: "out");
	}
	enum status status = parse_lengths("input", given->input, &options.input, error);
	if (status == STATUS_OK) {
		status = parse_lengths("output", given->output, &options.output, error);
	}
	if (status == STATUS_OK && options.prefix_tokens + options.input.high > TRACE_LENGTH_MAX) {
		status = error_set(error, STATUS_USAGE,
			"--prefix and --input together are more than %d tokens", TRACE_LENGTH_MAX);
	}
	return status == STATUS_OK ? write_trace(given->out, &options, error) : status;
}

int command_trace_make(int argc, char **argv)
{
	struct make_options given = {.prefixes = 1, .block_size = 512};
	const struct option options[] = {
		{.kind = OPTION_HEADING, .help = "What is made"},
		{"requests", OPTION_COUNT, &given.requests, "N", "rows", 1, UINT64_C(1) << 40, NULL,
			NULL},
		{"input", OPTION_TEXT, &given.input, "LEN",
			"prompt tokens: a number, or LOW:HIGH for uniform draws", 0, 0, NULL, NULL},
		{"output", OPTION_TEXT, &given.output, "LEN", "output tokens, likewise", 0, 0, NULL,
			NULL},
		{"seed", OPTION_COUNT, &given.seed, "N", "same seed, same bytes (0)", 0, UINT64_MAX,
			NULL, NULL},
		{"out", OPTION_TEXT, &given.out, "FILE", "where to; - is stdout", 0, 0, NULL, NULL},
		{.kind = OPTION_HEADING, .help = "When requests come"},
		{"rate", OPTION_MILLIONTHS, &given.rate, "R",
			"requests a second, a Poisson process; without it all come at time 0", 1,
			UINT64_C(1000000000000), NULL, NULL},
		{.kind = OPTION_HEADING, .help = "What they share"},
		{"prefix", OPTION_COUNT, &given.prefix, "LEN",
			"tokens of a prefix in front of every prompt; whole trace blocks of it are "
			"shared (0)",
			0, TRACE_LENGTH_MAX / 2, NULL, NULL},
		{"prefixes", OPTION_COUNT, &given.prefixes, "N",
			"different prefixes, each as likely (1)", 1, UINT32_MAX, NULL, NULL},
		{"trace-block-size", OPTION_COUNT, &given.block_size, "N",
			"tokens a hash id stands for (512)", 1, 1 << 20, NULL, NULL},
	};
	const struct command command = {
		.name = "trace make",
		.arguments = "--requests N --input LEN --output LEN --out FILE [options]",
		.summary = "Makes a trace in Mooncake's format out of a seed.",
		.examples = "  quire trace make --requests 1000 --input 200:2000 --output 100:400 "
			    "--rate 8 \\\n"
			    "      --prefix 1024 --prefixes 4 --seed 1 --out chat.jsonl\n",
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
	};
	struct error error = {0};
	uint32_t positional_count = 0;
	bool wants_help = false;
	enum status status =
		options_parse(&command, argc, argv, NULL, &positional_count, &wants_help, &error);

	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK) {
		status = make(&given, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
