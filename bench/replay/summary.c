#include "bench/replay/summary.h"

#include "bench/record/table_writer.h"
#include "engine/base/check.h"

#include <cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- verdict ---- */

const char *verdict_name(enum verdict verdict)
{
	static const char *const names[] = {"stable", "backlogged", "overloaded"};

	return names[verdict];
}

static bool is_queue_growing(const struct replay *replay)
{
	const struct metrics *metrics = &replay->metrics;
	uint64_t start = metrics->first_arrival_ns;
	uint64_t third = (metrics->last_arrival_ns - start) / 3;

	if (third == 0) {
		return false; /* all at once: a batch, not a rate */
	}
	uint64_t middle =
		timeline_mean_waiting(&metrics->timeline, start + third, start + 2 * third);
	uint64_t last = timeline_mean_waiting(
		&metrics->timeline, start + 2 * third, metrics->last_arrival_ns);
	/* In thousandths of a request; a third of the requests arrives in a third of the time. */
	return last > middle && (u128)(last - middle) * 60 > (u128)metrics->submitted * 1000;
}

enum verdict summary_verdict(const struct replay *replay)
{
	const struct metrics *metrics = &replay->metrics;
	bool has_backlog = replay->backlog_at_last_arrival * 20 > metrics->submitted;

	if (has_backlog && is_queue_growing(replay)) {
		return VERDICT_OVERLOADED;
	}
	if (has_backlog || metrics->latency[LATENCY_QUEUE].sum > metrics->service_ns) {
		return VERDICT_BACKLOGGED;
	}
	return VERDICT_STABLE;
}

/* ---- figures as text ---- */

static u128 busy_window_ns(const struct replay *replay)
{
	return replay->metrics.submitted == 0
		       ? 0
		       : replay->now_ns - u64_min(replay->now_ns, replay->metrics.first_arrival_ns);
}

/* count a second over `ns`, three places. */
static void rate_text(char *text, uint64_t count, u128 ns, const char *none)
{
	ratio_text(text, (u128)count * 1000000000, ns, 3, none);
}

static void offered_text(char *text, const struct replay *replay, const char *none)
{
	const struct metrics *metrics = &replay->metrics;
	uint64_t span =
		metrics->submitted == 0 ? 0 : metrics->last_arrival_ns - metrics->first_arrival_ns;

	if (replay->options.config->concurrency > 0) {
		span = 0; /* a closed loop offers what is asked of it */
	}
	rate_text(text, metrics->submitted == 0 ? 0 : metrics->submitted - 1, span, none);
}

static uint64_t drain_ns(const struct metrics *metrics)
{
	return metrics->finished == 0 ? 0
				      : metrics->last_finish_ns - u64_min(metrics->last_finish_ns,
									  metrics->last_arrival_ns);
}

/* ---- summary.json ---- */

static void add_raw(cJSON *object, const char *name, const char *text)
{
	cJSON_AddRawToObject(object, name, text);
}

static void add_integer(cJSON *object, const char *name, uint64_t value)
{
	char text[TABLE_CELL_BYTES];

	decimal_text(text, value, 0);
	add_raw(object, name, text);
}

/* Nanoseconds as seconds (9 places) or milliseconds (6 places). */
static void add_time(cJSON *object, const char *name, uint64_t ns, uint32_t places)
{
	char text[TABLE_CELL_BYTES];

	decimal_text(text, ns, places);
	add_raw(object, name, text);
}

static void add_ratio(cJSON *object, const char *name, u128 numerator, u128 denominator)
{
	char text[TABLE_CELL_BYTES];

	ratio_text(text, numerator, denominator, 6, "null");
	add_raw(object, name, text);
}

static void add_rate(cJSON *object, const char *name, uint64_t count, uint64_t ns)
{
	char text[TABLE_CELL_BYTES];

	rate_text(text, count, ns, "null");
	add_raw(object, name, text);
}

static void add_trace(cJSON *root, const struct summary_input *input)
{
	cJSON *trace = cJSON_AddObjectToObject(root, "trace");
	char hash[17];

	snprintf(hash, sizeof(hash), "%016llx",
		(unsigned long long)trace_xxh64(workload_trace(input->replay->intake.workload)));
	cJSON_AddStringToObject(trace, "name", input->trace_name);
	cJSON_AddStringToObject(trace, "xxh64", hash);
	add_integer(trace, "requests", input->replay->metrics.submitted);
}

static void add_counts(cJSON *root, const struct replay *replay)
{
	const struct metrics *metrics = &replay->metrics;
	cJSON *requests = cJSON_AddObjectToObject(root, "requests");
	cJSON *time = cJSON_AddObjectToObject(root, "time");
	cJSON *load = cJSON_AddObjectToObject(root, "load");
	char offered[TABLE_CELL_BYTES];

	add_integer(requests, "submitted", metrics->submitted);
	add_integer(requests, "finished", metrics->finished);
	add_integer(requests, "rejected", metrics->rejected);
	add_integer(requests, "failed", metrics->failed);
	add_integer(requests, "unfinished", metrics->unfinished);
	add_time(time, "makespan_s", metrics_makespan_ns(metrics), 9);
	add_time(time, "busy_s", metrics->busy_ns, 9);
	add_integer(time, "steps", metrics->steps);
	offered_text(offered, replay, "null");
	add_raw(load, "offered_per_s", offered);
	add_ratio(load, "busy_share", metrics->busy_ns, busy_window_ns(replay));
	add_integer(load, "backlog_at_last_arrival", replay->backlog_at_last_arrival);
	add_time(load, "drain_s", drain_ns(metrics), 9);
	cJSON_AddStringToObject(load, "verdict", verdict_name(summary_verdict(replay)));
}

static void add_tokens(cJSON *root, const struct metrics *metrics)
{
	cJSON *tokens = cJSON_AddObjectToObject(root, "tokens");
	cJSON *cache = cJSON_AddObjectToObject(root, "prefix_cache");
	uint64_t makespan = metrics_makespan_ns(metrics);

	add_integer(tokens, "prompt", metrics->prompt_tokens);
	add_integer(tokens, "output", metrics->output_tokens);
	add_integer(tokens, "prefill_computed", metrics->prefill_computed_tokens);
	add_integer(tokens, "recomputed", metrics->recomputed_tokens);
	add_integer(cache, "query_tokens", metrics->query_tokens);
	add_integer(cache, "hit_tokens", metrics->hit_tokens);
	add_ratio(cache, "hit_rate", metrics->hit_tokens, metrics->query_tokens);
	add_integer(root, "preemptions", metrics->preemptions);
	cJSON *throughput = cJSON_AddObjectToObject(root, "throughput");
	add_rate(throughput, "output_tokens_per_s", metrics->output_tokens, makespan);
	add_rate(throughput, "total_tokens_per_s", metrics->prompt_tokens + metrics->output_tokens,
		makespan);
	add_rate(throughput, "requests_per_s", metrics->measured_finished, makespan);
}

static void add_histogram(cJSON *parent, const char *name, const struct histogram *histogram)
{
	static const struct {
		const char *name;
		uint32_t percent;
	} percentiles[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}};
	cJSON *object = cJSON_AddObjectToObject(parent, name);

	if (histogram->count == 0) {
		cJSON_AddNullToObject(object, "mean");
		for (uint32_t i = 0; i < 3; i++) {
			cJSON_AddNullToObject(object, percentiles[i].name);
		}
		cJSON_AddNullToObject(object, "max");
		return;
	}
	add_time(object, "mean", histogram_mean(histogram), 6);
	for (uint32_t i = 0; i < 3; i++) {
		add_time(object, percentiles[i].name,
			histogram_percentile(histogram, percentiles[i].percent), 6);
	}
	add_time(object, "max", histogram->max, 6);
}

static void add_latency(cJSON *root, const struct metrics *metrics)
{
	cJSON *latency = cJSON_AddObjectToObject(root, "latency_ms");

	for (uint32_t metric = 0; metric < LATENCY_COUNT; metric++) {
		add_histogram(latency, latency_metric_name(metric), &metrics->latency[metric]);
	}
}

static void add_limit(cJSON *object, const char *name, uint64_t limit_ns)
{
	if (limit_ns == 0) {
		cJSON_AddNullToObject(object, name);
	} else {
		add_time(object, name, limit_ns, 6);
	}
}

static bool has_slo(const struct summary_input *input)
{
	return input->slo_ttft_ns > 0 || input->slo_tpot_ns > 0;
}

static void add_slo(cJSON *root, const struct summary_input *input)
{
	const struct metrics *metrics = &input->replay->metrics;
	cJSON *slo = cJSON_AddObjectToObject(root, "slo");

	add_limit(slo, "ttft_ms", input->slo_ttft_ns);
	add_limit(slo, "tpot_ms", input->slo_tpot_ns);
	if (!has_slo(input)) {
		cJSON_AddNullToObject(slo, "attained");
		cJSON_AddNullToObject(slo, "goodput_requests_per_s");
		return;
	}
	add_ratio(slo, "attained", metrics->slo_attained, metrics->measured_finished);
	add_rate(
		slo, "goodput_requests_per_s", metrics->slo_attained, metrics_makespan_ns(metrics));
}

static const char *run_status(const struct replay *replay)
{
	return replay->has_failed ? "failed" : replay->is_interrupted ? "interrupted" : "complete";
}

static cJSON *summary_json(const struct summary_input *input)
{
	const struct replay *replay = input->replay;
	cJSON *root = cJSON_CreateObject();
	char hash[17];

	cJSON_AddStringToObject(root, "schema", RESULT_SCHEMA);
	cJSON_AddStringToObject(root, "status", run_status(replay));
	if (replay->has_failed) {
		cJSON_AddStringToObject(root, "failure", replay->failure.text);
	}
	cJSON_AddItemToObject(root, "config", replay_config_json(input->config));
	add_trace(root, input);
	cJSON_AddStringToObject(root, "runner_kind", runner_kind_name(input->runner_kind));
	cJSON_AddBoolToObject(root, "calibrated", input->is_calibrated);
	if (input->found_kv_blocks == 0) {
		cJSON_AddNullToObject(root, "found_kv_blocks");
	} else {
		add_integer(root, "found_kv_blocks", input->found_kv_blocks);
	}
	add_counts(root, replay);
	add_tokens(root, &replay->metrics);
	add_latency(root, &replay->metrics);
	add_slo(root, input);
	snprintf(hash, sizeof(hash), "%016llx",
		(unsigned long long)metrics_result_hash(&replay->metrics));
	cJSON_AddStringToObject(root, "result_hash", hash);
	if (replay->options.is_wall_clock) {
		add_histogram(root, "dispatch_late_ms", &replay->late);
	}
	if (replay->gpu_idle.count > 0) {
		add_histogram(root, "gpu_idle_ms", &replay->gpu_idle);
	}
	return root;
}

enum status summary_write(const struct summary_input *input, const char *path, struct error *error)
{
	cJSON *root = summary_json(input);
	char *text = cJSON_Print(root);
	FILE *file = fopen(path, "wb");
	bool is_written = file != NULL && text != NULL && fprintf(file, "%s\n", text) > 0;

	if (file != NULL && fclose(file) != 0) {
		is_written = false;
	}
	cJSON_Delete(root);
	cJSON_free(text);
	if (!is_written) {
		return error_set(
			error, STATUS_FILE, "%s: cannot be written: %s", path, strerror(errno));
	}
	return STATUS_OK;
}

/* ---- the table for a person ---- */

/* Digits in groups of three. */
static void print_grouped(uint64_t value)
{
	char text[TABLE_CELL_BYTES];
	size_t bytes = decimal_text(text, value, 0);

	for (size_t i = 0; i < bytes; i++) {
		if (i > 0 && (bytes - i) % 3 == 0) {
			putchar(',');
		}
		putchar(text[i]);
	}
}

static void print_count(const char *label, uint64_t value)
{
	printf("  ");
	print_grouped(value);
	printf(" %s", label);
}

static void print_head(const struct summary_input *input)
{
	static const char *const meanings[] = {
		"the engine kept up with what arrived",
		"requests queued longer than they were served, or many waited when arrivals ended",
		"the queue grew to the end of the arrivals; latencies grow with the trace's length",
	};
	const struct replay *replay = input->replay;
	enum verdict verdict = summary_verdict(replay);
	char offered[TABLE_CELL_BYTES], busy[TABLE_CELL_BYTES];

	offered_text(offered, replay, "");
	ratio_text(busy, (u128)replay->metrics.busy_ns * 100, busy_window_ns(replay), 1, "0");
	printf("%s: %s", verdict_name(verdict), meanings[verdict]);
	printf(offered[0] == '\0' ? " (%s%% busy)\n" : " (%s%% busy, %s requests/s offered)\n",
		busy, offered);
	if (replay->has_failed) {
		printf("failed: %s\n", replay->failure.text);
	}
	if (replay->is_interrupted) {
		printf("interrupted: what follows is up to that point\n");
	}
	if (!input->is_calibrated) {
		printf("uncalibrated: the times of profile %s have not been held against a run on "
		       "the "
		       "GPU\n",
			input->config->gpu);
	} else if (input->profile != NULL && input->profile[0] != '\0') {
		printf("priced by profile %s: %s\n", input->config->gpu, input->profile);
	}
}

static void print_histogram(const char *name, const struct histogram *histogram)
{
	printf("  %-8s", name);
	if (histogram->count == 0) {
		printf(" %12s %12s %12s %12s %12s\n", "-", "-", "-", "-", "-");
		return;
	}
	const uint64_t values[] = {histogram_mean(histogram), histogram_percentile(histogram, 50),
		histogram_percentile(histogram, 90), histogram_percentile(histogram, 99),
		histogram->max};
	for (uint32_t i = 0; i < 5; i++) {
		char text[TABLE_CELL_BYTES];
		decimal_text(text, values[i] / 1000, 3);
		printf(" %12s", text);
	}
	printf("\n");
}

static void print_latency(const struct replay *replay)
{
	printf("\n  %-8s %12s %12s %12s %12s %12s\n", "ms", "mean", "p50", "p90", "p99", "max");
	for (uint32_t metric = 0; metric < LATENCY_COUNT; metric++) {
		print_histogram(latency_metric_name(metric), &replay->metrics.latency[metric]);
	}
	if (replay->options.is_wall_clock) {
		print_histogram("late", &replay->late);
	}
	if (replay->gpu_idle.count > 0) {
		print_histogram("gpu idle", &replay->gpu_idle);
	}
}

static void print_slo(const struct summary_input *input)
{
	const struct metrics *metrics = &input->replay->metrics;
	char share[TABLE_CELL_BYTES], goodput[TABLE_CELL_BYTES];

	if (!has_slo(input)) {
		return;
	}
	ratio_text(share, (u128)metrics->slo_attained * 100, metrics->measured_finished, 2, "-");
	rate_text(goodput, metrics->slo_attained, metrics_makespan_ns(metrics), "-");
	printf("\n  slo      %s%% of requests attain it, goodput %s requests/s\n", share, goodput);
}

void summary_print(const struct summary_input *input)
{
	const struct metrics *metrics = &input->replay->metrics;
	uint64_t makespan = metrics_makespan_ns(metrics);
	char text[4][TABLE_CELL_BYTES];

	print_head(input);
	printf("\n  requests");
	print_count("submitted,", metrics->submitted);
	print_count("finished,", metrics->finished);
	print_count("rejected,", metrics->rejected);
	print_count("failed,", metrics->failed);
	print_count("unfinished\n", metrics->unfinished);
	decimal_text(text[0], makespan / 1000000, 3);
	printf("  time      %s s from first arrival to last finish,", text[0]);
	print_count("steps\n", metrics->steps);
	rate_text(text[0], metrics->output_tokens, makespan, "-");
	rate_text(text[1], metrics->prompt_tokens + metrics->output_tokens, makespan, "-");
	rate_text(text[2], metrics->measured_finished, makespan, "-");
	printf("  rate      %s output tokens/s, %s tokens/s in all, %s requests/s\n", text[0],
		text[1], text[2]);
	ratio_text(text[3], (u128)metrics->hit_tokens * 100, metrics->query_tokens, 2, "-");
	printf("  tokens  ");
	print_count("prompt,", metrics->prompt_tokens);
	print_count("output,", metrics->output_tokens);
	print_count("recomputed\n", metrics->recomputed_tokens);
	printf("  cache     %s%% of prompt tokens hit;", text[3]);
	print_count("preemptions;", metrics->preemptions);
	print_count("KV blocks of", input->config->kv_blocks);
	print_count("tokens\n", input->config->block_size);
	print_latency(input->replay);
	print_slo(input);
	printf("\n  result_hash %016llx\n", (unsigned long long)metrics_result_hash(metrics));
}
