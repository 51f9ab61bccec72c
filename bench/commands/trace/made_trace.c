#include "bench/commands/trace/made_trace.h"

#include "bench/commands/trace/trace_request.h"
#include "engine/base/input_file.h"
#include "engine/base/number.h"
#include "workloads/trace/trace_writer.h"

#include <stdio.h>
#include <string.h>

#define MILLION UINT64_C(1000000)

/* No file has this path: it tells traces of different seeds apart. */
#define MADE_TRACE_FOLDER "/dev/null/seed-"
#define MADE_TRACE_NAME "made.jsonl"

bool made_trace_is_wanted(const struct made_trace_options *options)
{
	return options->preset > 0 || options->input != NULL || options->output != NULL ||
	       options->prefix != NULL || options->turns != NULL || options->follow_up != NULL ||
	       options->has_think || options->session_rate > 0;
}

static void set_text(const char **to, const char *given)
{
	*to = given != NULL ? given : *to;
}

/* Moves the arrivals from the run to the trace. */
static void take_arrivals(struct trace_request *request, const struct made_trace_options *options,
	struct replay_config *config)
{
	bool has_turns = request->turns != NULL && strcmp(request->turns, "1") != 0;
	bool has_rate = request->config.rate > 0 || request->session_rate > 0;

	if (options->session_rate > 0) {
		request->session_rate = options->session_rate;
		request->config.rate = config->given.rate ? config->rate : 0;
	} else if (config->given.rate || !has_rate) {
		uint64_t rate = config->given.rate ? config->rate : MILLION;
		request->config.rate = has_turns ? 0 : rate;
		request->session_rate = has_turns ? rate : 0;
	}
	request->config.arrivals = config->arrivals;
	request->config.burstiness = config->burstiness;
	request->config.given.arrivals = config->given.arrivals;
	request->config.given.burstiness = config->given.burstiness;
	request->config.seed = config->seed;
	if (config->given.trace_block_size) {
		request->config.trace_block_size = config->trace_block_size;
	}
	config->rate = config->burstiness = 0;
	config->arrivals = ARRIVE_BY_TRACE;
	config->given.rate = config->given.arrivals = config->given.burstiness = false;
}

static void make_request(struct trace_request *request, const struct made_trace_options *options,
	struct replay_config *config)
{
	trace_request_init(request, options->preset);
	if (options->requests > 0) {
		request->requests = options->requests;
	} else if (options->preset == 0) {
		request->requests = MADE_TRACE_REQUESTS;
	}
	set_text(&request->input, options->input);
	set_text(&request->output, options->output);
	set_text(&request->prefix, options->prefix);
	set_text(&request->turns, options->turns);
	set_text(&request->follow_up, options->follow_up);
	request->think = options->has_think ? options->think : request->think;
	take_arrivals(request, options, config);
}

static void add_word(struct text *text, const char *option, const char *word)
{
	if (word != NULL) {
		text_format(text, " --%s ", option);
		text_add_shell_word(text, word);
	}
}

static void add_number(struct text *text, const char *option, uint64_t number, uint32_t places)
{
	char word[NUMBER_TEXT_BYTES];

	short_decimal_text(word, number, places);
	add_word(text, option, word);
}

void made_trace_add_command(const struct made_trace_options *options,
	const struct replay_config *config, struct text *text)
{
	struct trace_request request = {0};
	struct replay_config rest = *config;

	make_request(&request, options, &rest);
	text_add(text, "quire trace make");
	if (options->preset > 0) {
		add_word(text, "preset", trace_preset_at(options->preset)->name);
	}
	add_number(text, "requests", request.requests, 0);
	add_word(text, "input", options->input);
	add_word(text, "output", options->output);
	add_word(text, "prefix", options->prefix);
	add_word(text, "turns", options->turns);
	add_word(text, "follow-up", options->follow_up);
	if (options->has_think) {
		add_number(text, "think", options->think, 6);
	}
	if (request.session_rate > 0) {
		add_number(text, "session-rate", request.session_rate, 6);
	}
	request.config.given = (struct replay_given){.seed = true,
		.rate = request.config.rate > 0,
		.arrivals = config->given.arrivals,
		.burstiness = config->given.burstiness,
		.trace_block_size = config->given.trace_block_size};
	replay_config_words(&request.config, text);
	text_add(text, " --out " MADE_TRACE_NAME);
}

static enum status write_rows(
	const struct made_trace *made, struct trace_plan *plan, FILE *file, struct error *error)
{
	struct generator *generator = generator_open(&plan->options);
	struct trace_row row;
	uint64_t rows = 0;

	while (generator_next(generator, &row)) {
		trace_write_row(file, &row);
		rows++;
	}
	generator_close(generator);
	if (fflush(file) != 0 || ferror(file)) {
		return error_set(error, STATUS_FILE, "%s: cannot be written", made->path);
	}
	return rows == plan->options.request_count
		       ? STATUS_OK
		       : error_set(error, STATUS_USAGE,
				 "--requests: found room for %llu of %llu rows before 2^62 ns, "
				 "expected a higher --rate or fewer rows",
				 (unsigned long long)rows,
				 (unsigned long long)plan->options.request_count);
}

enum status made_trace_open(struct made_trace *made, const struct made_trace_options *options,
	struct replay_config *config, struct error *error)
{
	struct trace_request request = {0};
	struct trace_plan plan = {0};
	FILE *file;

	*made = (struct made_trace){.path = ""};
	make_request(&request, options, config);
	enum status status = trace_plan_open(&plan, &request, error);
	if (status == STATUS_OK) {
		snprintf(made->path, sizeof(made->path), MADE_TRACE_FOLDER "%llu/" MADE_TRACE_NAME,
			(unsigned long long)config->seed);
		status = input_file_make(&file, made->path, error);
	}
	if (status == STATUS_OK) {
		status = write_rows(made, &plan, file, error);
	}
	trace_plan_close(&plan);
	return status;
}

void made_trace_close(struct made_trace *made)
{
	if (made->path[0] != '\0') {
		input_file_drop(made->path);
	}
	*made = (struct made_trace){.path = ""};
}
