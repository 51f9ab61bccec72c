#include "bench/commands/trace/trace_commands.h"

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "engine/base/output_file.h"
#include "bench/commands/trace/trace_request.h"
#include "reports/results/result_names.h"
#include "workloads/trace/trace_writer.h"

#include <stddef.h>
#include <stdio.h>

#define MILLION UINT64_C(1000000)

/* ---- presets ---- */

/* workloads/README.md compares their statistics with those of real traces. Sizes of prefixes are
   multiples of the block size of hash ids. */

static const struct trace_preset presets[] = {
	{"none", {{NULL, NULL}}},
	/* A chat assistant: a few system prompts, short messages, some turns. */
	{"chat", {{"requests", "5000"}, {"prefix", "256:4"}, {"zipf", "1"},
			 {"input", "lognormal:90:1.2"}, {"output", "lognormal:150:0.8"},
			 {"turns", "1:7"}, {"think", "25"}, {"session-rate", "1.4"},
			 {"trace-block-size", "16"}}},
	/* Coding agents: one long system prompt, a context that grows with tool results over many
	   turns. */
	{"agent",
		{{"requests", "1000"}, {"prefix", "16384:1,8192:12"}, {"input", "lognormal:3000:1"},
			{"follow-up", "lognormal:1200:1.4"}, {"output", "lognormal:200:1.1"},
			{"turns", "20:80"}, {"think", "4"}, {"session-rate", "0.02"},
			{"max-context", "150000"}, {"trace-block-size", "64"}}},
	/* Questions about documents: instructions, a document by popularity, a short question. */
	{"rag", {{"requests", "5000"}, {"prefix", "512:1,2048:400"}, {"zipf", "0.9"},
			{"input", "lognormal:60:0.6"}, {"output", "lognormal:180:0.6"},
			{"rate", "8"}, {"trace-block-size", "256"}}},
	/* Offline work: all requests at once, no shared prefixes. */
	{"batch", {{"requests", "256"}, {"input", "100:1024"}, {"output", "100:1024"}}},
};

const struct trace_preset *trace_preset_at(uint32_t index)
{
	return index < sizeof(presets) / sizeof(presets[0]) ? &presets[index] : NULL;
}

/* What was made, as stderr says it: the trace itself may go to stdout. */
struct made {
	uint64_t rows, sessions;
	uint64_t last_ns; /* arrival of the last row */
};

static void report(const struct made *made)
{
	double seconds = (double)made->last_ns / 1e9;

	fprintf(stderr, "%llu %s", (unsigned long long)made->rows,
		word_of_count(made->rows, "request", "requests"));
	if (made->sessions > 0) {
		fprintf(stderr, " of %llu %s", (unsigned long long)made->sessions,
			word_of_count(made->sessions, "session", "sessions"));
	}
	if (seconds > 0) {
		fprintf(stderr, " in %.3f s: %.4g requests/s", seconds,
			(double)made->rows / seconds);
	}
	fputc('\n', stderr);
}

static enum status write_trace(
	const char *path, const struct generator_options *options, struct error *error)
{
	struct output_file output;
	struct trace_row row;
	struct made made = {0};

	TRY(output_file_open(&output, path, error));
	struct generator *generator = generator_open(options);
	while (generator_next(generator, &row)) {
		trace_write_row(output.file, &row);
		made.rows++;
		made.sessions += row.session != NULL && !row.has_delay;
		made.last_ns = row.arrival_ns;
	}
	generator_close(generator);
	uint64_t count = made.rows;
	if (count < options->request_count && options->duration_ns == 0) {
		output_file_abandon(&output);
		return error_set(error, STATUS_USAGE,
			"--requests: found room for %llu of %llu rows, the next would arrive "
			"beyond 2^62 ns (146 years); expected a higher rate, fewer rows or "
			"--duration",
			(unsigned long long)count, (unsigned long long)options->request_count);
	}
	TRY(output_file_commit(&output, error));
	report(&made);
	return STATUS_OK;
}

void trace_request_init(struct trace_request *request, uint32_t preset)
{
	const struct trace_preset *chosen = trace_preset_at(preset);
	struct command_line line = {.command = &command_trace_make, .values = request};
	struct error error = {0};

	command_defaults(&command_trace_make, request);
	for (uint32_t i = 0; i < TRACE_PRESET_OPTIONS_MAX; i++) {
		const char *name = chosen->options[i].option;
		if (name == NULL) {
			break;
		}
		check(command_set(&line, name, chosen->options[i].text, &error) == STATUS_OK);
	}
}

/* An option of the user replaces a preset's options for the same lengths or rates, even if of
   another kind, but never another option of the user. */
static void drop_preset_values(struct trace_request *request)
{
	struct replay_config *config = &request->config;

	if (request->lengths_from != NULL) {
		request->input = request->has_input ? request->input : NULL;
		request->output = request->has_output ? request->output : NULL;
	}
	bool has_other =
		request->wave != NULL || config->ramp != NULL || config->arrivals == ARRIVE_AT_ONCE;
	if (has_other || request->has_session_rate) {
		config->rate = config->given.rate ? config->rate : 0;
	}
	if (has_other || config->given.rate) {
		request->session_rate = request->has_session_rate ? request->session_rate : 0;
	}
}

static enum status run(struct command_line *line, struct error *error)
{
	struct trace_request *request = line->values;
	struct trace_plan plan = {0};
	bool wants_help;

	/* The first parse found --preset. Options override the preset, so they are parsed again. */
	trace_request_init(request, request->preset);
	TRY(command_parse(line, &wants_help, error));
	drop_preset_values(request);
	if (request->out == NULL) {
		return error_set(error, STATUS_USAGE, "--out is missing");
	}
	TRY(result_names_refuse("--out", request->out, "trace.jsonl", error));
	TRY(output_file_refuse_old(request->out, request->is_forced, error));
	enum status status = trace_plan_open(&plan, request, error);
	if (status == STATUS_OK) {
		status = write_trace(request->out, &plan.options, error);
	}
	trace_plan_close(&plan);
	return status;
}

static const char *preset_word(uint32_t index)
{
	const struct trace_preset *preset = trace_preset_at(index);

	return preset == NULL ? NULL : preset->name;
}

#define REQUEST(field) offsetof(struct trace_request, field)

static const struct option options[] = {
	{.kind = OPTION_HEADING, .help = "Requests"},
	{"preset", OPTION_WORD, REQUEST(preset), .argument = "NAME", .word_at = preset_word,
		.help = "a workload to start from, which the options below override: chat, agent, "
			"rag or batch"},
	{"requests", OPTION_COUNT, REQUEST(requests), .argument = "N", .minimum = 1,
		.maximum = UINT64_C(1) << 40, .help = "rows at most (--duration may end earlier)"},
	{FROM_TABLE("seed"), .maximum = UINT64_MAX, .help = "same seed, same bytes"},
	{"out", OPTION_TEXT, REQUEST(out), .argument = "FILE",
		.help = "file to write; - is the standard output"},
	{"force", OPTION_FLAG, REQUEST(is_forced), .help = "replace an existing file"},

	{.kind = OPTION_HEADING,
		.help = "lengths: N, LOW:HIGH (uniform) or lognormal:MEDIAN:SIGMA"},
	{"input", OPTION_TEXT, REQUEST(input), REQUEST(has_input), .argument = "LEN",
		.help = "prompt tokens behind the prefix"},
	{"output", OPTION_TEXT, REQUEST(output), REQUEST(has_output), .argument = "LEN",
		.help = "output tokens"},
	{"lengths-from", OPTION_TEXT, REQUEST(lengths_from), .argument = "TRACE",
		.help = "draw both together from the rows of another trace"},

	{.kind = OPTION_HEADING, .help = "shared prefixes"},
	{"prefix", OPTION_TEXT, REQUEST(prefix), .argument = "TOKENS:COUNT[,...]",
		.help = "tree of prefixes in front of every prompt: length, and how many "
			"different ones below each of the level above"},
	{"zipf", OPTION_MILLIONTHS, REQUEST(zipf), .argument = "S", .initial = "0",
		.maximum = 10 * MILLION,
		.help = "popularity of the prefixes of a level: the i-th has weight 1/i^S; 0: "
			"uniform"},
	{FROM_TABLE("trace-block-size"), .argument = "N", .initial = "512",
		.help = "tokens a hash id stands for, or the preset's; only whole blocks are "
			"shared; the file says a size other than 512"},

	{.kind = OPTION_HEADING,
		.help = "sessions: each prompt repeats the whole conversation so far"},
	{"turns", OPTION_TEXT, REQUEST(turns), .argument = "LEN", .initial = "1",
		.help = "turns of a session"},
	{"follow-up", OPTION_TEXT, REQUEST(follow_up), .argument = "LEN",
		.help = "new prompt tokens of later turns; default: as --input"},
	{"think", OPTION_MILLIONTHS, REQUEST(think), .argument = "S", .unit = "s", .initial = "10",
		.maximum = MILLION * MILLION,
		.help = "mean of the exponential pause before a later turn, in seconds"},
	{"max-context", OPTION_COUNT, REQUEST(max_context), .argument = "N", .initial = "131072",
		.minimum = 1, .maximum = TRACE_LENGTH_MAX,
		.help = "prompt and output tokens at most: a session ends before"},

	{.kind = OPTION_HEADING,
		.help = "arrivals of requests, or of sessions where there are --turns; default: "
			"all "
			"at once"},
	{FROM_TABLE("rate"), .help = "requests a second"},
	{"session-rate", OPTION_MILLIONTHS, REQUEST(session_rate), REQUEST(has_session_rate),
		.argument = "R", .minimum = 1, .maximum = MILLION * MILLION,
		.help = "sessions a second, each of which makes as many requests as it has "
			"turns; what was made is printed"},
	{FROM_TABLE("arrivals"), .help = "poisson, gamma or constant; trace is poisson too"},
	{FROM_TABLE("burstiness")},
	{FROM_TABLE("ramp"), .help = "rates that rise or fall in equal steps over --duration"},
	{"wave", OPTION_TEXT, REQUEST(wave), .argument = "SECONDS:LOW:HIGH",
		.help = "a rate that swings from LOW to HIGH and back in each period"},
	{FROM_TABLE("duration"), .help = "no rows at or after this second"},
};

static const char summary[] =
	"Makes a trace in Mooncake's format from a seed: the same options give the same bytes "
	"on\n"
	"every machine. Presets, which any other option overrides:\n"
	"  chat   a chat assistant: a few system prompts, short messages, some "
	"turns\n"
	"  agent  coding agents: a long system prompt, a context that grows by tool results\n"
	"  rag    questions about documents: instructions, a document by popularity, a question\n"
	"  batch  offline work: all requests at once, no shared prefixes";

const struct command command_trace_make = {
	.name = "trace make",
	.title = "make a trace from a seed",
	.arguments = "--requests N --input LEN --output LEN --out FILE [options]",
	.summary = summary,
	.examples =
		"  quire trace make --requests 1000 --input 200:2000 --output 100:400 --rate 8 \\\n"
		"      --prefix 1024:4 --seed 1 --out shared.jsonl\n"
		"  quire trace make --preset chat --session-rate 5 --out chat.jsonl\n",
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = REQUEST(config),
	.value_bytes = sizeof(struct trace_request),
	.run = run,
};
