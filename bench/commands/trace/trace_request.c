#include "bench/commands/trace/trace_request.h"

#include "bench/replay/drawn_arrivals.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "workloads/generate/zipf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_BYTES = 32, FIELDS_MAX = 4, LOG_NORMAL_MAX = 131072, WAVE_STEPS = 16 };

#define MILLION UINT64_C(1000000)
#define RATE_MAX (MILLION * MILLION)

static const uint64_t TOKEN_NS = 15000000; /* a decode step of a loaded engine, for timestamps */

/* Splits "a:b:c" into fields of less than FIELD_BYTES; returns their number, 0 if they do not fit.
   */
static uint32_t split(const char *text, char separator, char fields[FIELDS_MAX][FIELD_BYTES])
{
	uint32_t count = 0;

	for (;;) {
		const char *end = strchr(text, separator);
		size_t bytes = end == NULL ? strlen(text) : (size_t)(end - text);
		if (count == FIELDS_MAX || bytes >= FIELD_BYTES) {
			return 0;
		}
		memcpy(fields[count], text, bytes);
		fields[count++][bytes] = '\0';
		if (end == NULL) {
			return count;
		}
		text = end + 1;
	}
}

static bool parse_u32(const char *text, uint64_t maximum, uint32_t *value)
{
	uint64_t number;

	if (!text_to_u64(text, &number) || number < 1 || number > maximum) {
		return false;
	}
	*value = (uint32_t)number;
	return true;
}

/* "512", "128:1024" or "lognormal:900:1.1". */
static bool parse_length(const char *text, struct length_draw *draw)
{
	char fields[FIELDS_MAX][FIELD_BYTES];
	uint32_t count = split(text, ':', fields);

	if (count == 3 && strcmp(fields[0], "lognormal") == 0) {
		*draw = (struct length_draw){
			.kind = LENGTH_LOG_NORMAL, .low = 1, .high = LOG_NORMAL_MAX};
		return parse_u32(fields[1], LOG_NORMAL_MAX, &draw->median) &&
		       text_to_millionths(fields[2], &draw->sigma_millionths) &&
		       draw->sigma_millionths <= 10 * MILLION;
	}
	*draw = (struct length_draw){.kind = LENGTH_UNIFORM};
	return (count == 1 || count == 2) &&
	       parse_u32(fields[0], TRACE_LENGTH_MAX / 4, &draw->low) &&
	       parse_u32(fields[count - 1], TRACE_LENGTH_MAX / 4, &draw->high) &&
	       draw->low <= draw->high;
}

static enum status length_option(
	const char *name, const char *text, struct length_draw *draw, struct error *error)
{
	if (text == NULL) {
		return error_set(error, STATUS_USAGE, "--%s is missing", name);
	}
	if (!parse_length(text, draw)) {
		return error_set(error, STATUS_USAGE,
			"--%s: found '%s', expected N, LOW:HIGH (each from 1 to %d) or "
			"lognormal:MEDIAN:SIGMA",
			name, text, TRACE_LENGTH_MAX / 4);
	}
	return STATUS_OK;
}

/* "1024:4" or "512:1,1024:200": tokens and number of prefixes, level by level. */
static enum status parse_prefix(
	const char *text, struct generator_options *options, struct error *error)
{
	const char *at = text;
	uint64_t sum = 0;

	while (at != NULL) {
		char level_text[2 * FIELD_BYTES] = "";
		char fields[FIELDS_MAX][FIELD_BYTES];
		const char *comma = strchr(at, ',');
		size_t bytes = comma == NULL ? strlen(at) : (size_t)(comma - at);
		struct prefix_level level = {.count = 1};
		memcpy(level_text, at, u64_min(bytes, sizeof(level_text) - 1));
		uint32_t count = split(level_text, ':', fields);
		bool is_good = (count == 1 || count == 2) &&
			       parse_u32(fields[0], TRACE_LENGTH_MAX / 4, &level.tokens) &&
			       (count == 1 || parse_u32(fields[1], ZIPF_COUNT_MAX, &level.count));
		sum += level.tokens;
		if (!is_good || options->level_count == PREFIX_LEVELS_MAX ||
			sum > TRACE_LENGTH_MAX / 4) {
			return error_set(error, STATUS_USAGE,
				"--prefix: found '%s', expected TOKENS:COUNT, up to %d of them "
				"with "
				"commas between",
				text, PREFIX_LEVELS_MAX);
		}
		options->levels[options->level_count++] = level;
		at = comma == NULL ? NULL : comma + 1;
	}
	return STATUS_OK;
}

/* "300:2:12": the rate goes from 2 to 12 requests a second and back every 300 seconds. */
static enum status parse_wave(
	const char *text, struct arrival_profile *profile, struct error *error)
{
	char fields[FIELDS_MAX][FIELD_BYTES];
	uint64_t period = 0;

	if (split(text, ':', fields) != 3 || !text_to_millionths(fields[0], &period) ||
		!text_to_millionths(fields[1], &profile->rate_from) ||
		!text_to_millionths(fields[2], &profile->rate_to) || period < MILLION ||
		period > MILLION * MILLION || profile->rate_from == 0 || profile->rate_to == 0 ||
		profile->rate_from > RATE_MAX || profile->rate_to > RATE_MAX) {
		return error_set(error, STATUS_USAGE,
			"--wave: found '%s', expected SECONDS:LOW:HIGH, a period from 1 second and "
			"two "
			"rates above 0",
			text);
	}
	profile->step_count = WAVE_STEPS;
	profile->step_ns = period * 1000 / (2 * (WAVE_STEPS - 1));
	profile->swings = true;
	return STATUS_OK;
}

static enum status plan_arrivals(
	struct trace_plan *plan, const struct trace_request *request, struct error *error)
{
	struct replay_config config = request->config;
	bool has_profile = false;

	plan->options.duration_ns = config.duration_s * 1000;
	if (config.rate > 0 && request->session_rate > 0) {
		return error_set(error, STATUS_USAGE,
			"--rate is of requests and --session-rate of sessions: give one of them");
	}
	if (config.rate > 0 && plan->options.turns.high > 1) {
		return error_set(error, STATUS_USAGE,
			"--rate is of requests, and a session of --turns %s makes several: give "
			"--session-rate, of sessions",
			request->turns);
	}
	if (request->session_rate > 0) {
		config.rate = request->session_rate;
	}
	if (request->wave != NULL) {
		if (config.rate > 0 || config.ramp != NULL) {
			return error_set(error, STATUS_USAGE,
				"--wave and %s both say the rate: give one of them",
				config.ramp != NULL	    ? "--ramp"
				: request->session_rate > 0 ? "--session-rate"
							    : "--rate");
		}
		config.rate = MILLION; /* a placeholder, so that drawn_arrivals() checks the kind of
					  arrivals */
	}
	TRY(drawn_arrivals(&config, &plan->profile, &has_profile, error));
	if (request->wave != NULL) {
		TRY(parse_wave(request->wave, &plan->profile, error));
	}
	if (has_profile) {
		plan->profile.resolution_ns = 1000; /* resolution of the trace's timestamps */
		plan->options.profile = &plan->profile;
	}
	return STATUS_OK;
}

static enum status read_rows(
	struct trace_plan *plan, struct trace *trace, const char *path, struct error *error)
{
	struct trace_row row;
	bool has_row = true;

	for (;;) {
		TRY(trace_next(trace, &row, &has_row, error));
		if (!has_row) {
			return STATUS_OK;
		}
		if (row.input_length > TRACE_LENGTH_MAX / 4) {
			return error_set(error, STATUS_INPUT,
				"%.200s: found an input_length of %u, expected at most %d to draw "
				"from",
				path, row.input_length, TRACE_LENGTH_MAX / 4);
		}
		uint64_t count = plan->options.pair_count++;
		plan->pairs = memory_grow(
			plan->pairs, &plan->pair_capacity, count + 1, sizeof(*plan->pairs));
		plan->pairs[count] = (struct length_pair){row.input_length, row.output_length};
	}
}

static enum status read_pairs(struct trace_plan *plan, const char *path, struct error *error)
{
	const struct trace_options any = {0};
	struct trace *trace = NULL;

	TRY(trace_open(&trace, path, &any, error));
	enum status status = read_rows(plan, trace, path, error);
	trace_close(trace);
	plan->options.pairs = plan->pairs;
	return status;
}

static enum status plan_lengths(
	struct trace_plan *plan, const struct trace_request *request, struct error *error)
{
	struct generator_options *options = &plan->options;
	const char *follow_up = request->follow_up != NULL ? request->follow_up : request->input;

	TRY(length_option("turns", request->turns, &options->turns, error));
	if (request->lengths_from != NULL) {
		if (request->input != NULL || request->output != NULL) {
			return error_set(error, STATUS_USAGE,
				"--lengths-from says both lengths, so --%s does not go with it",
				request->input != NULL ? "input" : "output");
		}
		if (options->turns.high > 1) {
			return error_set(error, STATUS_USAGE,
				"--lengths-from draws whole prompts, which leaves --turns no "
				"follow-ups");
		}
		return read_pairs(plan, request->lengths_from, error);
	}
	TRY(length_option("input", request->input, &options->input, error));
	TRY(length_option("output", request->output, &options->output, error));
	return length_option("follow-up", follow_up, &options->follow_up, error);
}

enum status trace_plan_open(
	struct trace_plan *plan, const struct trace_request *request, struct error *error)
{
	*plan = (struct trace_plan){0};
	struct generator_options *options = &plan->options;
	if (request->requests == 0) {
		return error_set(error, STATUS_USAGE, "--requests is missing");
	}
	options->request_count = request->requests;
	options->seed = request->config.seed;
	options->pause_ns = request->think * 1000;
	options->token_ns = TOKEN_NS;
	options->context_max = u32_from(request->max_context);
	options->skew_millionths = request->zipf;
	options->trace_block_size = u32_from(request->config.trace_block_size);
	TRY(plan_lengths(plan, request, error));
	TRY(plan_arrivals(plan, request, error));
	if (request->prefix != NULL) {
		TRY(parse_prefix(request->prefix, options, error));
	}
	if (options->turns.high > 1 && options->profile == NULL) {
		return error_set(error, STATUS_USAGE,
			"--turns needs sessions that begin over time: give --session-rate, --ramp "
			"or "
			"--wave");
	}
	return STATUS_OK;
}

void trace_plan_close(struct trace_plan *plan)
{
	free(plan->pairs);
	*plan = (struct trace_plan){0};
}
