#include "bench/record/summary.h"

#include "engine/base/number.h"

#include <cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* count a second over `ns`, three places. */
static void rate_text(char *text, uint64_t count, uint64_t ns, const char *none)
{
	if (ns == 0) {
		snprintf(text, NUMBER_TEXT_BYTES, "%s", none);
	} else {
		decimal_text(text, run_rate(count, ns), 3);
	}
}

/* Requests a second that the arrivals offered. */
static void offered_text(char *text, const struct run_outcome *outcome, const char *none)
{
	uint64_t gaps = outcome->submitted == 0 ? 0 : outcome->submitted - 1;

	rate_text(text, gaps, outcome->arrival_span_ns, none);
}

/* ---- summary.json ---- */

static void add_raw(cJSON *object, const char *name, const char *text)
{
	cJSON_AddRawToObject(object, name, text);
}

static void add_integer(cJSON *object, const char *name, uint64_t value)
{
	char text[NUMBER_TEXT_BYTES];

	decimal_text(text, value, 0);
	add_raw(object, name, text);
}

/* Nanoseconds as seconds (9 places) or milliseconds (6 places). */
static void add_time(cJSON *object, const char *name, uint64_t ns, uint32_t places)
{
	char text[NUMBER_TEXT_BYTES];

	decimal_text(text, ns, places);
	add_raw(object, name, text);
}

static void add_ratio(cJSON *object, const char *name, u128 numerator, u128 denominator)
{
	char text[NUMBER_TEXT_BYTES];

	ratio_text(text, numerator, denominator, 6, "null");
	add_raw(object, name, text);
}

static void add_rate(cJSON *object, const char *name, uint64_t count, uint64_t ns)
{
	char text[NUMBER_TEXT_BYTES];

	rate_text(text, count, ns, "null");
	add_raw(object, name, text);
}

static void add_hash(cJSON *object, const char *name, uint64_t hash)
{
	char text[17];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)hash);
	cJSON_AddStringToObject(object, name, text);
}

static void add_trace(cJSON *root, const struct run_outcome *outcome)
{
	cJSON *trace = cJSON_AddObjectToObject(root, "trace");

	cJSON_AddStringToObject(trace, "name", outcome->trace_name);
	add_hash(trace, "xxh64", outcome->trace_xxh64);
	add_integer(trace, "requests", outcome->submitted);
}

static void add_counts(cJSON *root, const struct run_outcome *outcome)
{
	cJSON *requests = cJSON_AddObjectToObject(root, "requests");
	cJSON *time = cJSON_AddObjectToObject(root, "time");
	cJSON *load = cJSON_AddObjectToObject(root, "load");
	char offered[NUMBER_TEXT_BYTES];

	add_integer(requests, "submitted", outcome->submitted);
	add_integer(requests, "finished", outcome->finished);
	add_integer(requests, "rejected", outcome->rejected);
	add_integer(requests, "failed", outcome->failed);
	add_integer(requests, "unfinished", outcome->unfinished);
	add_time(time, "makespan_s", outcome->makespan_ns, 9);
	add_time(time, "busy_s", outcome->busy_ns, 9);
	add_integer(time, "steps", outcome->steps);
	offered_text(offered, outcome, "null");
	add_raw(load, "offered_per_s", offered);
	add_ratio(load, "busy_share", outcome->busy_ns, outcome->busy_window_ns);
	add_integer(load, "backlog_at_last_arrival", outcome->backlog_at_last_arrival);
	add_time(load, "drain_s", outcome->drain_ns, 9);
	cJSON_AddStringToObject(load, "verdict", verdict_name(outcome->verdict));
}

static void add_tokens(cJSON *root, const struct run_outcome *outcome)
{
	cJSON *tokens = cJSON_AddObjectToObject(root, "tokens");
	cJSON *cache = cJSON_AddObjectToObject(root, "prefix_cache");
	uint64_t makespan = outcome->makespan_ns;

	add_integer(tokens, "prompt", outcome->prompt_tokens);
	add_integer(tokens, "output", outcome->output_tokens);
	add_integer(tokens, "prefill_computed", outcome->prefill_computed_tokens);
	add_integer(tokens, "recomputed", outcome->recomputed_tokens);
	add_integer(cache, "query_tokens", outcome->query_tokens);
	add_integer(cache, "hit_tokens", outcome->hit_tokens);
	add_ratio(cache, "hit_rate", outcome->hit_tokens, outcome->query_tokens);
	add_integer(root, "preemptions", outcome->preemptions);
	cJSON *throughput = cJSON_AddObjectToObject(root, "throughput");
	add_rate(throughput, "output_tokens_per_s", outcome->output_tokens, makespan);
	add_rate(throughput, "total_tokens_per_s", outcome->prompt_tokens + outcome->output_tokens,
		makespan);
	add_rate(throughput, "requests_per_s", outcome->measured_finished, makespan);
}

static void add_figure(cJSON *object, const char *name, bool has_value, uint64_t ns)
{
	if (has_value) {
		add_time(object, name, ns, 6);
	} else {
		cJSON_AddNullToObject(object, name);
	}
}

static void add_figures(cJSON *parent, const char *name, const struct latency_figures *figures)
{
	cJSON *object = cJSON_AddObjectToObject(parent, name);
	bool has_value = figures->count > 0;

	add_figure(object, "mean", has_value, figures->mean_ns);
	add_figure(object, "p50", has_value, figures->p50_ns);
	add_figure(object, "p90", has_value, figures->p90_ns);
	add_figure(object, "p99", has_value, figures->p99_ns);
	add_figure(object, "max", has_value, figures->max_ns);
}

static void add_latency(cJSON *root, const struct run_outcome *outcome)
{
	cJSON *latency = cJSON_AddObjectToObject(root, "latency_ms");

	for (uint32_t metric = 0; metric < LATENCY_COUNT; metric++) {
		add_figures(latency, latency_names[metric], &outcome->latency[metric]);
	}
}

static bool has_slo(const struct run_outcome *outcome)
{
	return outcome->slo_ttft_ns > 0 || outcome->slo_tpot_ns > 0;
}

static void add_slo(cJSON *root, const struct run_outcome *outcome)
{
	cJSON *slo = cJSON_AddObjectToObject(root, "slo");

	add_figure(slo, "ttft_ms", outcome->slo_ttft_ns > 0, outcome->slo_ttft_ns);
	add_figure(slo, "tpot_ms", outcome->slo_tpot_ns > 0, outcome->slo_tpot_ns);
	if (!has_slo(outcome)) {
		cJSON_AddNullToObject(slo, "attained");
		cJSON_AddNullToObject(slo, "goodput_requests_per_s");
		return;
	}
	add_ratio(slo, "attained", outcome->slo_attained, outcome->measured_finished);
	add_rate(slo, "goodput_requests_per_s", outcome->slo_attained, outcome->makespan_ns);
}

static cJSON *summary_json(const struct run_outcome *outcome, cJSON *config)
{
	cJSON *root = cJSON_CreateObject();

	cJSON_AddStringToObject(root, "schema", RESULT_SCHEMA);
	cJSON_AddStringToObject(root, "status", run_end_name(outcome->end));
	if (outcome->end == RUN_FAILED) {
		cJSON_AddStringToObject(root, "failure", outcome->failure.text);
	}
	cJSON_AddItemToObject(root, "config", config);
	add_trace(root, outcome);
	cJSON_AddStringToObject(root, "runner_kind", outcome->runner_kind);
	cJSON_AddBoolToObject(root, "calibrated", outcome->is_calibrated);
	if (outcome->found_kv_blocks == 0) {
		cJSON_AddNullToObject(root, "found_kv_blocks");
	} else {
		add_integer(root, "found_kv_blocks", outcome->found_kv_blocks);
	}
	add_counts(root, outcome);
	add_tokens(root, outcome);
	add_latency(root, outcome);
	add_slo(root, outcome);
	add_hash(root, "result_hash", outcome->result_hash);
	if (outcome->has_dispatch_late) {
		add_figures(root, "dispatch_late_ms", &outcome->dispatch_late);
	}
	if (outcome->gpu_idle.count > 0) {
		add_figures(root, "gpu_idle_ms", &outcome->gpu_idle);
	}
	return root;
}

enum status summary_write(const struct run_outcome *outcome, struct cJSON *config, const char *path,
	struct error *error)
{
	cJSON *root = summary_json(outcome, config);
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
	char text[NUMBER_TEXT_BYTES];
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

static void print_head(const struct run_outcome *outcome, const char *gpu)
{
	static const char *const meanings[] = {
		"the engine kept up with what arrived",
		"requests queued longer than they were served, or many waited when arrivals ended",
		"the queue grew to the end of the arrivals; latencies grow with the trace's length",
	};
	char offered[NUMBER_TEXT_BYTES], busy[NUMBER_TEXT_BYTES];

	offered_text(offered, outcome, "");
	ratio_text(busy, (u128)outcome->busy_ns * 100, outcome->busy_window_ns, 1, "0");
	printf("%s: %s", verdict_name(outcome->verdict), meanings[outcome->verdict]);
	printf(offered[0] == '\0' ? " (%s%% busy)\n" : " (%s%% busy, %s requests/s offered)\n",
		busy, offered);
	if (outcome->end == RUN_FAILED) {
		printf("failed: %s\n", outcome->failure.text);
	}
	if (outcome->end == RUN_INTERRUPTED) {
		printf("interrupted: what follows is up to that point\n");
	}
	if (!outcome->is_calibrated) {
		printf("uncalibrated: the times of profile %s have not been held against a run on "
		       "the GPU\n",
			gpu);
	} else if (outcome->profile[0] != '\0') {
		printf("priced by profile %s: %s\n", gpu, outcome->profile);
	}
}

static void print_figures(const char *name, const struct latency_figures *figures)
{
	printf("  %-8s", name);
	if (figures->count == 0) {
		printf(" %12s %12s %12s %12s %12s\n", "-", "-", "-", "-", "-");
		return;
	}
	const uint64_t values[] = {figures->mean_ns, figures->p50_ns, figures->p90_ns,
		figures->p99_ns, figures->max_ns};
	for (uint32_t i = 0; i < 5; i++) {
		char text[NUMBER_TEXT_BYTES];
		decimal_text(text, values[i] / 1000, 3);
		printf(" %12s", text);
	}
	printf("\n");
}

static void print_latency(const struct run_outcome *outcome)
{
	printf("\n  %-8s %12s %12s %12s %12s %12s\n", "ms", "mean", "p50", "p90", "p99", "max");
	for (uint32_t metric = 0; metric < LATENCY_COUNT; metric++) {
		print_figures(latency_names[metric], &outcome->latency[metric]);
	}
	if (outcome->has_dispatch_late) {
		print_figures("late", &outcome->dispatch_late);
	}
	if (outcome->gpu_idle.count > 0) {
		print_figures("gpu idle", &outcome->gpu_idle);
	}
}

static void print_slo(const struct run_outcome *outcome)
{
	char share[NUMBER_TEXT_BYTES], goodput[NUMBER_TEXT_BYTES];

	if (!has_slo(outcome)) {
		return;
	}
	ratio_text(share, (u128)outcome->slo_attained * 100, outcome->measured_finished, 2, "-");
	rate_text(goodput, outcome->slo_attained, outcome->makespan_ns, "-");
	printf("\n  slo      %s%% of requests attain it, goodput %s requests/s\n", share, goodput);
}

void summary_print(const struct run_outcome *outcome, const char *gpu)
{
	uint64_t makespan = outcome->makespan_ns;
	char text[4][NUMBER_TEXT_BYTES];

	print_head(outcome, gpu);
	printf("\n  requests");
	print_count("submitted,", outcome->submitted);
	print_count("finished,", outcome->finished);
	print_count("rejected,", outcome->rejected);
	print_count("failed,", outcome->failed);
	print_count("unfinished\n", outcome->unfinished);
	decimal_text(text[0], makespan / 1000000, 3);
	printf("  time      %s s from first arrival to last finish,", text[0]);
	print_count("steps\n", outcome->steps);
	rate_text(text[0], outcome->output_tokens, makespan, "-");
	rate_text(text[1], outcome->prompt_tokens + outcome->output_tokens, makespan, "-");
	rate_text(text[2], outcome->measured_finished, makespan, "-");
	printf("  rate      %s output tokens/s, %s tokens/s in all, %s requests/s\n", text[0],
		text[1], text[2]);
	ratio_text(text[3], (u128)outcome->hit_tokens * 100, outcome->query_tokens, 2, "-");
	printf("  tokens  ");
	print_count("prompt,", outcome->prompt_tokens);
	print_count("output,", outcome->output_tokens);
	print_count("recomputed\n", outcome->recomputed_tokens);
	printf("  cache     %s%% of prompt tokens hit;", text[3]);
	print_count("preemptions;", outcome->preemptions);
	print_count("KV blocks of", outcome->kv_blocks);
	print_count("tokens\n", outcome->block_size);
	print_latency(outcome);
	print_slo(outcome);
	printf("\n  result_hash %016llx\n", (unsigned long long)outcome->result_hash);
}
