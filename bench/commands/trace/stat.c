#include "bench/commands/trace/trace_commands.h"

#include "bench/replay/trace_reading.h"
#include "engine/base/json.h"
#include "engine/base/number.h"
#include "engine/base/output_file.h"
#include "reports/figures/plot.h"
#include "reports/results/result_names.h"
#include "workloads/study/trace_stat.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUANTILES = 200 };

#define NS_PER_S 1e9

static double duration_s(const struct trace_stat *stat)
{
	return (double)(stat->last_ns - stat->first_ns) / NS_PER_S;
}

/* Rows per second from the first to the last; 0 when all arrive at once. */
static double rate(const struct trace_stat *stat)
{
	double seconds = duration_s(stat);

	return seconds > 0 ? (double)(stat->row_count - 1) / seconds : 0;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 0 : (double)part / (double)whole;
}

static void print_lengths(const char *name, const struct length_stat *lengths, uint64_t rows)
{
	printf("  %-16s %10.1f %10" PRIu32 " %10" PRIu32 " %10" PRIu32 " %10" PRIu32 " %10" PRIu32
	       "\n",
		name, (double)lengths->sum / (double)rows, lengths->minimum, lengths->p50,
		lengths->p90, lengths->p99, lengths->maximum);
}

static void print_table(const struct trace_stat *stat, const struct trace *trace)
{
	char ticks[TICK_TEXT_BYTES];

	printf("format      %s\n", trace_format_name(trace));
	printf("rows        %" PRIu64 "\n", stat->row_count);
	printf("duration    %.3f s\n", duration_s(stat));
	if (rate(stat) > 0) {
		printf("rate        %.4f requests/s\n", rate(stat));
		printf("gaps        CV %.3f (Poisson: 1)\n", stat->gap_cv);
		if (tick_finder_tick(&stat->ticks) > 0) {
			tick_finder_text(&stat->ticks, ticks);
			printf("ticks       %s\n", ticks);
		}
		printf("peak        %" PRIu64 " %s in second %" PRIu64 "\n",
			stat->peak_second_count,
			word_of_count(stat->peak_second_count, "request", "requests"),
			stat->peak_second);
	} else {
		printf("rate        all rows at once\n");
	}
	printf("\n  tokens                 mean        min        p50        p90        p99        "
	       "max\n");
	print_lengths("input", &stat->input, stat->row_count);
	print_lengths("output", &stat->output, stat->row_count);
	printf("\ntokens      %" PRIu64 " input, %" PRIu64 " output\n", stat->input.sum,
		stat->output.sum);
	if (stat->has_ids) {
		printf("blocks      %" PRIu64 " of %" PRIu32 " %s, %" PRIu64 " different\n",
			stat->block_references, stat->references.block_size,
			word_of_count(stat->references.block_size, "token", "tokens"),
			stat->unique_blocks);
		printf("ideal hits  %.2f %% of blocks, %.2f %% of input tokens (nothing ever "
		       "evicted)\n",
			100 * share(stat->ideal.blocks, stat->block_references),
			100 * share(stat->ideal.tokens, stat->input.sum));
	} else {
		printf("blocks      no hash ids and no token ids: prompts share nothing\n");
	}
	if (stat->session_count > 0) {
		printf("sessions    %" PRIu64 ", %.2f turns each; %" PRIu64
		       " %s the one before word for word\n",
			stat->session_count, (double)stat->turn_count / (double)stat->session_count,
			stat->follow_up_count,
			word_of_count(stat->follow_up_count, "turn continues", "turns continue"));
	} else {
		printf("sessions    none named\n");
	}
}

static void add_lengths(
	cJSON *root, const char *name, const struct length_stat *lengths, uint64_t rows)
{
	cJSON *object = cJSON_AddObjectToObject(root, name);

	cJSON_AddNumberToObject(object, "sum", (double)lengths->sum);
	cJSON_AddNumberToObject(object, "mean", (double)lengths->sum / (double)rows);
	cJSON_AddNumberToObject(object, "min", lengths->minimum);
	cJSON_AddNumberToObject(object, "p50", lengths->p50);
	cJSON_AddNumberToObject(object, "p90", lengths->p90);
	cJSON_AddNumberToObject(object, "p99", lengths->p99);
	cJSON_AddNumberToObject(object, "max", lengths->maximum);
}

/* null where the times are not quantised. */
static void add_ticks(cJSON *root, const struct tick_finder *ticks)
{
	uint64_t tick_ns = tick_finder_tick(ticks);

	if (tick_ns == 0) {
		cJSON_AddNullToObject(root, "tick_s");
		cJSON_AddNullToObject(root, "requests_per_tick");
		return;
	}
	cJSON_AddNumberToObject(root, "tick_s", (double)tick_ns / NS_PER_S);
	cJSON_AddNumberToObject(
		root, "requests_per_tick", (double)ticks->row_count / (double)ticks->time_count);
}

static void print_json(const struct trace_stat *stat, const struct trace *trace)
{
	cJSON *root = cJSON_CreateObject();

	cJSON_AddStringToObject(root, "format", trace_format_name(trace));
	cJSON_AddNumberToObject(root, "rows", (double)stat->row_count);
	cJSON_AddNumberToObject(root, "skipped_rows", (double)trace_skipped_count(trace));
	cJSON_AddNumberToObject(root, "duration_s", duration_s(stat));
	if (rate(stat) > 0) {
		cJSON_AddNumberToObject(root, "rate_per_s", rate(stat));
		cJSON_AddNumberToObject(root, "gap_cv", stat->gap_cv);
	} else {
		cJSON_AddNullToObject(root, "rate_per_s");
		cJSON_AddNullToObject(root, "gap_cv");
	}
	add_ticks(root, &stat->ticks);
	cJSON_AddNumberToObject(root, "peak_second", (double)stat->peak_second);
	cJSON_AddNumberToObject(root, "peak_second_rows", (double)stat->peak_second_count);
	add_lengths(root, "input_tokens", &stat->input, stat->row_count);
	add_lengths(root, "output_tokens", &stat->output, stat->row_count);
	cJSON *blocks = cJSON_AddObjectToObject(root, "blocks");
	cJSON_AddBoolToObject(blocks, "has_ids", stat->has_ids);
	cJSON_AddNumberToObject(blocks, "tokens", stat->references.block_size);
	cJSON_AddNumberToObject(blocks, "total", (double)stat->block_references);
	cJSON_AddNumberToObject(blocks, "unique", (double)stat->unique_blocks);
	cJSON *ideal = cJSON_AddObjectToObject(root, "ideal");
	cJSON_AddNumberToObject(ideal, "hit_blocks", (double)stat->ideal.blocks);
	cJSON_AddNumberToObject(ideal, "hit_tokens", (double)stat->ideal.tokens);
	cJSON_AddNumberToObject(
		ideal, "block_hit_rate", share(stat->ideal.blocks, stat->block_references));
	cJSON_AddNumberToObject(
		ideal, "token_hit_rate", share(stat->ideal.tokens, stat->input.sum));
	cJSON *sessions = cJSON_AddObjectToObject(root, "sessions");
	cJSON_AddNumberToObject(sessions, "count", (double)stat->session_count);
	cJSON_AddNumberToObject(sessions, "turns", (double)stat->turn_count);
	cJSON_AddNumberToObject(sessions, "continued_turns", (double)stat->follow_up_count);
	json_print(root, stdout);
	cJSON_Delete(root);
}

static void write_lengths(FILE *table, const char *kind, const uint32_t *sorted, uint64_t count)
{
	for (uint64_t i = 0; i <= QUANTILES; i++) {
		uint64_t at = i * (count - 1) / QUANTILES;
		fprintf(table, "%s\t%" PRIu32 "\t%.6f\n", kind, sorted[at],
			(double)(at + 1) / (double)count);
	}
}

/* Writes the table that reports/figures/trace_stat.gp reads: rows of kind, x, y. */
static enum status draw(
	const struct trace_stat *stat, const char *trace, const char *path, struct error *error)
{
	const char *slash = strrchr(trace, '/');
	struct plot plot;
	enum status status = plot_begin(&plot, error);
	uint64_t last = (stat->last_ns - stat->first_ns) / stat->bin_ns;
	double width_s = (double)stat->bin_ns / NS_PER_S;

	if (status != STATUS_OK) {
		return status;
	}
	fprintf(plot.table, "kind\tx\ty\n");
	for (uint64_t i = 0; i <= last; i++) {
		fprintf(plot.table, "rate\t%.6f\t%.6f\n",
			(double)stat->first_ns / NS_PER_S + (double)i * width_s,
			(double)stat->bins[i] / width_s);
	}
	write_lengths(plot.table, "input", stat->inputs, stat->row_count);
	write_lengths(plot.table, "output", stat->outputs, stat->row_count);
	plot_set_text(&plot, "subject", slash == NULL ? trace : slash + 1);
	plot_set_number(&plot, "requests", (double)stat->row_count);
	return plot_draw(&plot, "trace_stat.gp", path, error);
}

static enum status add_rows(struct trace_stat *stat, struct trace *trace, struct error *error)
{
	struct trace_row row;
	bool has_row = true;

	for (;;) {
		TRY(trace_next(trace, &row, &has_row, error));
		if (!has_row) {
			trace_stat_finish(stat);
			return STATUS_OK;
		}
		TRY(trace_stat_add(stat, &row, error));
	}
}

struct stat_request {
	struct replay_config config; /* how the trace is read */
	bool wants_json, is_forced;
	const char *path, *plot;
};

static enum status show(const struct stat_request *request, struct trace_stat *stat,
	struct trace *trace, struct error *error)
{
	TRY(add_rows(stat, trace, error));
	trace_reading_report(trace);
	if (request->wants_json) {
		print_json(stat, trace);
	} else {
		print_table(stat, trace);
	}
	return request->plot == NULL ? STATUS_OK : draw(stat, request->path, request->plot, error);
}

static enum status run(struct command_line *line, struct error *error)
{
	struct stat_request *request = line->values;
	struct trace *trace = NULL;
	struct trace_stat stat;

	request->path = line->positionals[0];
	TRY(result_names_refuse("--plot", request->plot, "trace.svg", error));
	if (request->plot != NULL) {
		TRY(output_file_refuse_old(request->plot, request->is_forced, error));
	}
	TRY(trace_reading_open(&trace, request->path, &request->config, error));
	trace_stat_init(&stat, trace_reading_block_size(trace));
	enum status status = show(request, &stat, trace, error);
	trace_stat_deinit(&stat);
	trace_close(trace);
	return status;
}

static const struct option options[] = {
	TRACE_READING_OPTIONS,
	{.kind = OPTION_HEADING, .help = "Output"},
	{"json", OPTION_FLAG, offsetof(struct stat_request, wants_json),
		.help = "one JSON object instead of a table"},
	{"plot", OPTION_TEXT, offsetof(struct stat_request, plot), .argument = "FILE.svg",
		.help = "arrivals over time and the lengths, as a picture"},
	{"force", OPTION_FLAG, offsetof(struct stat_request, is_forced),
		.help = "replace an existing file"},
};

const struct command command_trace_stat = {
	.name = "trace stat",
	.title = "statistics of a trace: rates, lengths, shared prefixes",
	.arguments = "TRACE [options]",
	.summary = "Shows statistics of a trace without running an engine: how many requests "
		   "arrive and\n"
		   "how regularly, how long they are, and how much of their prompts an infinite "
		   "cache\n"
		   "of prompts would find.",
	.examples = "  quire trace stat chat.jsonl\n"
		    "  quire trace stat AzureLLMInferenceTrace_conv.csv --json --plot azure.svg\n",
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = offsetof(struct stat_request, config),
	.value_bytes = sizeof(struct stat_request),
	.positional_minimum = 1,
	.positional_maximum = 1,
	.run = run,
};
