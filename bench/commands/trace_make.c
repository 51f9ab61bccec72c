#include "bench/commands/trace.h"

#include "bench/options/options.h"
#include "engine/base/output_file.h"
#include "bench/commands/trace_order.h"
#include "engine/base/check.h"
#include "workloads/trace/trace_writer.h"

#include <assert.h>
#include <string.h>

enum { ROWS_MAX = 32 };

#define MILLION UINT64_C(1000000)

/* Where the command line's words go. */
struct make_words {
	struct trace_order order;
	uint32_t preset;
	bool has_rate;
	const char *out;
};

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

static enum status make(const struct trace_order *order, const char *out, struct error *error)
{
	struct trace_plan plan = {0};

	if (out == NULL) {
		return error_set(error, STATUS_USAGE, "--out is missing");
	}
	enum status status = trace_plan_open(&plan, order, error);
	if (status == STATUS_OK) {
		status = write_trace(out, &plan.options, error);
	}
	trace_plan_close(&plan);
	return status;
}

/* Lengths and rates of other kinds replace those of a preset, not those that somebody gave. */
static void drop_preset_values(struct make_words *words)
{
	const struct trace_order *preset = &trace_presets[words->preset].order;
	struct trace_order *order = &words->order;

	if (order->lengths_from != NULL) {
		order->input = order->input == preset->input ? NULL : order->input;
		order->output = order->output == preset->output ? NULL : order->output;
	}
	if (order->wave != NULL || strcmp(order->load.ramp, "none") != 0) {
		order->load.rate = words->has_rate ? order->load.rate : 0;
	}
}

static uint32_t add_rows(
	struct option *rows, uint32_t count, const struct option *added, uint32_t added_count)
{
	check(count + added_count <= ROWS_MAX);
	memcpy(rows + count, added, added_count * sizeof(*added));
	return count + added_count;
}

static uint32_t content_options(struct make_words *words, struct option *rows, uint32_t count)
{
	static const char *const presets[] = {"none", "chat", "agent", "rag", "batch", NULL};
	static_assert(sizeof(presets) / sizeof(presets[0]) == TRACE_PRESET_COUNT + 1,
		"a word for each preset");
	struct trace_order *order = &words->order;
	const struct option added[] = {
		{.kind = OPTION_HEADING, .help = "what is made"},
		{"preset", OPTION_CHOICE, &words->preset, "NAME",
			"a workload to start from, which the options below change: chat, agent, "
			"rag "
			"or batch",
			0, 0, presets, NULL},
		{"requests", OPTION_COUNT, &order->requests, "N", "rows at most", 1,
			UINT64_C(1) << 40, NULL, NULL},
		{"seed", OPTION_COUNT, &order->seed, "N", "same seed, same bytes, default 0", 0,
			UINT64_MAX, NULL, NULL},
		{"out", OPTION_TEXT, &words->out, "FILE", "where to; - is the standard output", 0,
			0, NULL, NULL},
		{.kind = OPTION_HEADING,
			.help = "lengths: N, LOW:HIGH (uniform) or lognormal:MEDIAN:SIGMA"},
		{"input", OPTION_TEXT, &order->input, "LEN", "prompt tokens behind the prefix", 0,
			0, NULL, NULL},
		{"output", OPTION_TEXT, &order->output, "LEN", "output tokens", 0, 0, NULL, NULL},
		{"lengths-from", OPTION_TEXT, &order->lengths_from, "TRACE",
			"draw both together from the rows of another trace", 0, 0, NULL, NULL},
		{.kind = OPTION_HEADING, .help = "what prompts share"},
		{"prefix", OPTION_TEXT, &order->prefix, "TOKENS:COUNT[,...]",
			"prefixes in front of every prompt, as a tree: how long, and how many "
			"different ones under each of the level before",
			0, 0, NULL, NULL},
		{"zipf", OPTION_MILLIONTHS, &order->zipf, "S",
			"popularity of the prefixes of a level: the i-th with weight 1/i^S; "
			"default 0, "
			"all alike",
			0, 10 * MILLION, NULL, NULL},
		{"trace-block-size", OPTION_COUNT, &order->trace_block_size, "N",
			"tokens a hash id stands for, default 512 or the preset's; only whole "
			"blocks "
			"are shared, and who reads the trace has to be told another size than 512",
			1, 1 << 20, NULL, NULL},
	};

	return add_rows(rows, count, added, sizeof(added) / sizeof(added[0]));
}

static uint32_t time_options(struct make_words *words, struct option *rows, uint32_t count)
{
	struct trace_order *order = &words->order;
	struct load *load = &order->load;
	const struct option added[] = {
		{.kind = OPTION_HEADING,
			.help = "sessions: prompts that take up all that was said before"},
		{"turns", OPTION_TEXT, &order->turns, "LEN", "turns of a session, default 1", 0, 0,
			NULL, NULL},
		{"follow-up", OPTION_TEXT, &order->follow_up, "LEN",
			"new prompt tokens of later turns; default: as --input", 0, 0, NULL, NULL},
		{"think", OPTION_MILLIONTHS, &order->think, "S",
			"mean of the exponential pause before a later turn, default 10 seconds", 0,
			MILLION * MILLION, NULL, NULL},
		{"max-context", OPTION_COUNT, &order->max_context, "N",
			"prompt and output tokens at most: a session ends before, default 131072",
			1, TRACE_LENGTH_MAX, NULL, NULL},
		{.kind = OPTION_HEADING,
			.help = "when requests (or sessions) come; else all at once"},
		{"rate", OPTION_MILLIONTHS, &load->rate, "R", "a second", 1, MILLION * MILLION,
			NULL, &words->has_rate},
		{"arrivals", OPTION_TEXT, &load->arrivals, "KIND",
			"poisson (default), gamma or constant", 0, 0, NULL, NULL},
		{"burstiness", OPTION_MILLIONTHS, &load->burstiness, "B",
			"shape of gamma arrivals: 1 is Poisson, below it burstier", 10000,
			1000 * MILLION, NULL, NULL},
		{"ramp", OPTION_TEXT, &load->ramp, "FROM:TO:STEPS",
			"rates that rise or fall in equal steps over --duration", 0, 0, NULL, NULL},
		{"wave", OPTION_TEXT, &order->wave, "SECONDS:LOW:HIGH",
			"a rate that goes from LOW to HIGH and back in each period", 0, 0, NULL,
			NULL},
		{"duration", OPTION_MILLIONTHS, &load->duration, "S", "no row from this second on",
			1, UINT64_C(1000000000) * MILLION, NULL, NULL},
	};

	return add_rows(rows, count, added, sizeof(added) / sizeof(added[0]));
}

static const char summary[] =
	"Makes a trace in Mooncake's format out of a seed: the same options give the same bytes "
	"on\n"
	"every machine. Presets, to be changed by any other option:\n"
	"  chat   people who talk to an assistant: a few system prompts, short messages, some "
	"turns\n"
	"  agent  coding agents: a long system prompt, a context that grows by tool results\n"
	"  rag    questions about documents: instructions, a document by popularity, a question\n"
	"  batch  offline work: everything at once, nothing shared";

int command_trace_make(int argc, char **argv)
{
	struct make_words words = {0};
	struct option rows[ROWS_MAX];
	uint32_t count = content_options(&words, rows, 0);
	count = time_options(&words, rows, count);
	const struct command command = {
		.name = "trace make",
		.arguments = "--requests N --input LEN --output LEN --out FILE [options]",
		.summary = summary,
		.examples = "  quire trace make --requests 1000 --input 200:2000 --output 100:400 "
			    "--rate 8 \\\n"
			    "      --prefix 1024:4 --seed 1 --out shared.jsonl\n"
			    "  quire trace make --preset chat --rate 5 --out chat.jsonl\n",
		.options = rows,
		.option_count = count,
	};
	struct error error = {0};
	uint32_t positional_count = 0;
	bool wants_help = false;

	/* Once to learn the preset, and again so that the other options change it. */
	trace_order_init(&words.order, 0);
	enum status status =
		options_parse(&command, argc, argv, NULL, &positional_count, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK) {
		trace_order_init(&words.order, words.preset);
		words.has_rate = false;
		status = options_parse(
			&command, argc, argv, NULL, &positional_count, &wants_help, &error);
	}
	if (status == STATUS_OK) {
		drop_preset_values(&words);
		status = make(&words.order, words.out, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
