#include "workloads/trace/format.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "workloads/trace/json_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What `vllm bench serve --save-result --save-detailed` writes: one JSON object on one line
   (vllm/benchmarks/serve.py), in which request i has input_lens[i], output_lens[i] and
   start_times[i], the seconds at which the client sent it, by a clock without a known zero. A
   request without output tokens failed; it is skipped.

   Releases that write no start_times leave request_rate and burstiness. Requests then arrive evenly
   at that rate, request i at i / request_rate, or all at once where the rate is "inf"; vLLM itself
   drew their gaps at random, and the note says so. */

enum { FIELD_INPUT, FIELD_OUTPUT, FIELD_START, FIELD_RATE, FIELD_COUNT };

static const uint64_t RATE_UNIT = 1000000; /* request_rate is read in millionths */

static const struct json_field fields[FIELD_COUNT] = {
	[FIELD_INPUT] = {"input_lens", JSON_IDS, true, 0, 0, TRACE_LENGTH_MAX,
		"an array of integers in [0, 268435456]; --save-detailed writes it"},
	[FIELD_OUTPUT] = {"output_lens", JSON_IDS, true, 0, 0, TRACE_LENGTH_MAX,
		"an array of integers in [0, 268435456]"},
	[FIELD_START] = {"start_times", JSON_TIMES, false, 9, 0, CLOCK_NS_MAX,
		"an array of seconds in [0, 2^63 ns)"},
	[FIELD_RATE] = {"request_rate", JSON_RATE, false, 6, 1, UINT64_C(1000000000000),
		"requests a second in [0.000001, 1000000], or \"inf\""},
};

struct sent {
	uint64_t start_ns;
	uint32_t index, input, output;
};

struct vllm_bench {
	struct json_reader *json;
	struct sent *sent; /* (count) by time, ties as in the file */
	uint32_t count, next;
	const char *note; /* NULL: nothing to say */
};

static bool vllm_bench_recognises(const char *line, size_t line_bytes)
{
	return line_bytes > 0 && line[0] == '{' &&
	       (line_contains(line, line_bytes, "\"input_lens\"") ||
		       (line_contains(line, line_bytes, "\"request_rate\"") &&
			       line_contains(line, line_bytes, "\"mean_ttft_ms\"")));
}

static void *vllm_bench_open(const struct trace_options *options)
{
	struct vllm_bench *bench = memory_take(1, sizeof(*bench));

	(void)options;
	bench->json = json_reader_open(fields, FIELD_COUNT);
	return bench;
}

static void vllm_bench_close(void *state)
{
	struct vllm_bench *bench = state;

	if (bench != NULL) {
		json_reader_close(bench->json);
		free(bench->sent);
		free(bench);
	}
}

static enum status check_count(const struct source_line *at, const struct json_value *values,
	uint32_t field, struct error *error)
{
	char found[32];

	if (values[field].id_count == values[FIELD_INPUT].id_count) {
		return STATUS_OK;
	}
	int bytes = snprintf(found, sizeof(found), "%zu %s", values[field].id_count,
		word_of_count(values[field].id_count, "value", "values"));
	return source_line_error(error, at, fields[field].name, found, (size_t)bytes,
		"%zu as in input_lens", values[FIELD_INPUT].id_count);
}

static int by_start(const void *a, const void *b)
{
	const struct sent *x = a, *y = b;

	if (x->start_ns != y->start_ns) {
		return x->start_ns < y->start_ns ? -1 : 1;
	}
	return x->index < y->index ? -1 : x->index > y->index;
}

/* The arrival of request i at a steady rate, in millionths of a request a second. */
static u128 even_ns(uint64_t rate, uint32_t i)
{
	return rate == JSON_INFINITE ? 0 : (u128)i * 1000000000 * RATE_UNIT / rate;
}

/* Some clients leave every start_time at 0. */
static bool has_starts(const struct json_value *values)
{
	const struct json_value *start = &values[FIELD_START];

	for (size_t i = 0; i < start->id_count; i++) {
		if (start->ids[i] != 0) {
			return true;
		}
	}
	return false;
}

static enum status check_times(
	const struct source_line *at, const struct json_value *values, struct error *error)
{
	const struct json_value *rate = &values[FIELD_RATE];
	size_t count = values[FIELD_INPUT].id_count;

	if (count == 0) {
		return source_line_error(
			error, at, fields[FIELD_INPUT].name, "no request", 10, "at least one");
	}
	TRY(check_count(at, values, FIELD_OUTPUT, error));
	if (values[FIELD_START].is_present) {
		TRY(check_count(at, values, FIELD_START, error));
	}
	if (has_starts(values)) {
		return STATUS_OK;
	}
	if (!rate->is_present) {
		return source_line_error(error, at, NULL, "neither start_times nor request_rate",
			36, "one of them: it says when requests arrive");
	}
	if (even_ns(rate->number, (uint32_t)count) > CLOCK_NS_MAX) {
		return source_line_error(error, at, fields[FIELD_RATE].name,
			"a last arrival beyond", 21, "one before 2^63 ns");
	}
	return STATUS_OK;
}

static bool vllm_bench_more(void *state, struct trace_row *row, bool *is_skipped)
{
	struct vllm_bench *bench = state;

	if (bench->next == bench->count) {
		return false;
	}
	const struct sent *sent = &bench->sent[bench->next++];
	row->arrival_ns = sent->start_ns;
	row->input_length = sent->input;
	row->output_length = sent->output;
	*is_skipped = sent->output == 0;
	return true;
}

static const char *note_of(const struct json_value *values)
{
	if (has_starts(values)) {
		return NULL;
	}
	if (values[FIELD_RATE].number == JSON_INFINITE) {
		return "the file has no start_times: all requests arrive at once, by its "
		       "request_rate inf; replay with --max-concurrency if the client had it";
	}
	return "the file has no start_times: requests arrive evenly at its request_rate; replay "
	       "with --rate R --arrivals poisson for random gaps, as the client's";
}

/* Takes in the line, and gives its first row. */
static enum status vllm_bench_row(void *state, const struct source_line *at, const char *line,
	size_t line_bytes, struct trace_row *row, bool *is_skipped, struct error *error)
{
	struct vllm_bench *bench = state;
	struct json_value values[FIELD_COUNT];

	if (bench->count > 0) {
		return source_line_error(error, at, NULL, line, line_bytes,
			"the end of the file: a trace is one result (--append-result wrote "
			"several)");
	}
	TRY(json_reader_row(bench->json, at, line, line_bytes, values, error));
	TRY(check_times(at, values, error));
	bench->note = note_of(values);
	bench->count = u32_from(values[FIELD_INPUT].id_count);
	bench->sent = memory_take(bench->count, sizeof(*bench->sent));
	for (uint32_t i = 0; i < bench->count; i++) {
		bench->sent[i] = (struct sent){
			.start_ns = bench->note == NULL
					    ? values[FIELD_START].ids[i]
					    : (uint64_t)even_ns(values[FIELD_RATE].number, i),
			.index = i,
			.input = u32_from(values[FIELD_INPUT].ids[i]),
			.output = u32_from(values[FIELD_OUTPUT].ids[i]),
		};
		/* An answer needs a prompt. */
		if (bench->sent[i].output > 0 && bench->sent[i].input == 0) {
			return source_line_error(error, at, fields[FIELD_INPUT].name, "0", 1,
				"at least 1 for a request with an answer (request %" PRIu32 ")", i);
		}
	}
	qsort(bench->sent, bench->count, sizeof(*bench->sent), by_start);
	(void)vllm_bench_more(bench, row, is_skipped);
	return STATUS_OK;
}

static const char *vllm_bench_misspelt(const void *state)
{
	return json_reader_note(((const struct vllm_bench *)state)->json);
}

static const char *vllm_bench_note(const void *state, const struct trace_totals *totals)
{
	(void)totals;
	return ((const struct vllm_bench *)state)->note;
}

const struct trace_format format_vllm_bench = {
	.name = "vllm-bench",
	.starts_at_first_row = true,
	.skipped = {"request without output tokens: failures at the source",
		"requests without output tokens: failures at the source"},
	.recognises = vllm_bench_recognises,
	.open = vllm_bench_open,
	.close = vllm_bench_close,
	.row = vllm_bench_row,
	.more = vllm_bench_more,
	.misspelt = vllm_bench_misspelt,
	.note = vllm_bench_note,
};
