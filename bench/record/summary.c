#include "bench/record/summary.h"

#include "engine/base/json.h"
#include "engine/base/number.h"
#include "reports/results/metric.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

enum { WRITTEN_DIGITS = 6, PRINTED_DIGITS = 4 };

/* count per second over `ns`: three decimals, or as many as give so many significant digits, at
   most twelve. */
static void rate_text(char *text, uint64_t count, uint64_t ns, uint32_t digits, const char *none)
{
	u128 scaled = (u128)count * 1000000000 * 1000;
	u128 least = 1;
	uint32_t places = 3;

	for (uint32_t i = 1; i < digits; i++) {
		least *= 10;
	}
	while (count > 0 && places < 12 && scaled / (ns + (ns == 0)) < least) {
		scaled *= 10;
		places++;
	}
	ratio_text(text, (u128)count * 1000000000, ns, places, none);
}

/* Requests per second offered by the arrivals. */
static void offered_text(
	char *text, const struct run_outcome *outcome, uint32_t digits, const char *none)
{
	uint64_t gaps = outcome->submitted == 0 ? 0 : outcome->submitted - 1;

	rate_text(text, gaps, outcome->arrival_span_ns, digits, none);
}

/* ---- summary.json ---- */

static void add_raw(cJSON *object, const char *name, const char *text)
{
	cJSON_AddRawToObject(object, name, text);
}

/* The section of a number, which its first number adds. */
static cJSON *section_of(cJSON *root, const char *name)
{
	cJSON *section = name[0] == '\0' ? root : cJSON_GetObjectItem(root, name);

	return section != NULL ? section : cJSON_AddObjectToObject(root, name);
}

static void add_value(cJSON *root, enum result_number number, const char *text)
{
	const struct metric *row = &metrics_table[number];

	add_raw(section_of(root, row->section), row->field, text);
}

static void add_count(cJSON *root, enum result_number number, uint64_t count)
{
	char text[NUMBER_TEXT_BYTES];

	decimal_text(text, count, 0);
	add_value(root, number, text);
}

static void add_seconds(cJSON *root, enum result_number number, uint64_t ns)
{
	char text[NUMBER_TEXT_BYTES];

	decimal_text(text, ns, 9);
	add_value(root, number, text);
}

static void add_ratio(cJSON *root, enum result_number number, u128 numerator, u128 denominator)
{
	char text[NUMBER_TEXT_BYTES];

	ratio_text(text, numerator, denominator, 6, "null");
	add_value(root, number, text);
}

static void add_rate(cJSON *root, enum result_number number, uint64_t count, uint64_t ns)
{
	char text[NUMBER_TEXT_BYTES];

	rate_text(text, count, ns, WRITTEN_DIGITS, "null");
	add_value(root, number, text);
}

static void add_hash(cJSON *object, const char *name, uint64_t hash)
{
	char text[17];

	snprintf(text, sizeof(text), "%016llx", (unsigned long long)hash);
	cJSON_AddStringToObject(object, name, text);
}

static void add_trace(cJSON *root, const struct run_outcome *outcome)
{
	cJSON *trace = cJSON_AddObjectToObject(root, SUMMARY_TRACE);

	cJSON_AddStringToObject(trace, SUMMARY_TRACE_NAME, outcome->trace_name);
	add_hash(trace, SUMMARY_TRACE_XXH64, outcome->trace_xxh64);
	add_count(root, VALUE_TRACE_REQUESTS, outcome->submitted);
}

/* A share, or null where the run had no time. */
static void add_share(cJSON *root, enum result_number number, bool has_value, double share)
{
	char text[NUMBER_TEXT_BYTES] = "null";

	if (has_value) {
		decimal_text(text, (u128)(share * 1e6 + 0.5), 6);
	}
	add_value(root, number, text);
}

static void add_load_shares(cJSON *root, const struct run_outcome *outcome)
{
	bool has_steps = outcome->steps > 0 && outcome->window_ns > 0;

	add_share(root, VALUE_UTILISATION, outcome->has_utilisation, outcome->utilisation);
	add_share(root, VALUE_KV_MEAN, has_steps, outcome->kv_mean);
	add_share(root, VALUE_KV_PEAK, has_steps, outcome->kv_peak);
	add_share(root, VALUE_SEATS_MEAN, has_steps, outcome->seats_mean);
	add_share(root, VALUE_SEATS_PEAK, has_steps, outcome->seats_peak);
	add_share(root, VALUE_BUDGET_MEAN, has_steps, outcome->budget_mean);
	add_share(root, VALUE_BUDGET_PEAK, has_steps, outcome->budget_peak);
}

static void add_counts(cJSON *root, const struct run_outcome *outcome)
{
	char offered[NUMBER_TEXT_BYTES];

	add_count(root, VALUE_SUBMITTED, outcome->submitted);
	add_count(root, VALUE_FINISHED, outcome->finished);
	add_count(root, VALUE_REJECTED, outcome->rejected);
	add_count(root, VALUE_FAILED, outcome->failed);
	add_count(root, VALUE_UNFINISHED, outcome->unfinished);
	add_count(root, VALUE_REJECTED_TOO_LONG, outcome->rejected_too_long);
	add_count(root, VALUE_REJECTED_NEVER_FITS, outcome->rejected_never_fits);
	add_seconds(root, VALUE_MAKESPAN, outcome->makespan_ns);
	add_seconds(root, VALUE_BUSY, outcome->busy_ns);
	add_count(root, VALUE_STEPS, outcome->steps);
	offered_text(offered, outcome, WRITTEN_DIGITS, "null");
	add_value(root, VALUE_OFFERED_RATE, offered);
	add_load_shares(root, outcome);
	add_count(root, VALUE_BACKLOG, outcome->backlog_at_last_arrival);
	add_seconds(root, VALUE_DRAIN, outcome->drain_ns);
	cJSON_AddStringToObject(section_of(root, SUMMARY_LOAD), SUMMARY_LOAD_VERDICT,
		verdict_name(outcome->verdict));
}

static void add_tokens(cJSON *root, const struct run_outcome *outcome)
{
	uint64_t makespan = outcome->makespan_ns;

	add_count(root, VALUE_PROMPT, outcome->prompt_tokens);
	add_count(root, VALUE_OUTPUT, outcome->output_tokens);
	add_count(root, VALUE_PREFILL, outcome->prefill_computed_tokens);
	add_count(root, VALUE_RECOMPUTED, outcome->recomputed_tokens);
	add_count(root, VALUE_QUERY_TOKENS, outcome->query_tokens);
	add_count(root, VALUE_HIT_TOKENS, outcome->hit_tokens);
	add_ratio(root, VALUE_HIT_RATE, outcome->hit_tokens,
		outcome->has_prompt_ids ? outcome->query_tokens : 0);
	add_count(root, VALUE_PREEMPTIONS, outcome->preemptions);
	add_rate(root, VALUE_OUTPUT_RATE, outcome->output_tokens, makespan);
	add_rate(root, VALUE_TOTAL_RATE, outcome->prompt_tokens + outcome->output_tokens, makespan);
	add_rate(root, VALUE_REQUEST_RATE, outcome->measured_finished, makespan);
}

/* Milliseconds, six places. */
static void milliseconds_text(char *text, bool has_value, uint64_t ns)
{
	if (has_value) {
		decimal_text(text, ns, 6);
	} else {
		snprintf(text, NUMBER_TEXT_BYTES, "null");
	}
}

static void add_figures(cJSON *parent, const char *name, const struct latency_figures *figures)
{
	cJSON *object = cJSON_AddObjectToObject(parent, name);
	char text[NUMBER_TEXT_BYTES];

	for (uint32_t i = 0; i < STATISTIC_COUNT; i++) {
		milliseconds_text(text, figures->count > 0, figures->ns[i]);
		add_raw(object, latency_statistics[i], text);
	}
}

static void add_latency(cJSON *root, const struct run_outcome *outcome)
{
	cJSON *latency = cJSON_AddObjectToObject(root, SUMMARY_LATENCY_MS);

	for (uint32_t metric = 0; metric < LATENCY_COUNT; metric++) {
		add_figures(latency, latency_names[metric], &outcome->latency[metric]);
	}
}

static void add_waits(cJSON *root, const struct run_outcome *outcome)
{
	char text[NUMBER_TEXT_BYTES];

	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		decimal_text(text, outcome->wait_ns[cause], 9);
		add_value(root, (enum result_number)(VALUE_WAIT_STEP + cause), text);
	}
}

static bool has_slo(const struct run_outcome *outcome)
{
	return outcome->slo_ttft_ns > 0 || outcome->slo_tpot_ns > 0;
}

static void add_slo(cJSON *root, const struct run_outcome *outcome)
{
	bool has_limit = has_slo(outcome);
	char text[NUMBER_TEXT_BYTES];

	milliseconds_text(text, outcome->slo_ttft_ns > 0, outcome->slo_ttft_ns);
	add_value(root, VALUE_SLO_TTFT, text);
	milliseconds_text(text, outcome->slo_tpot_ns > 0, outcome->slo_tpot_ns);
	add_value(root, VALUE_SLO_TPOT, text);
	/* Of no requests and in no time there is no share and no rate. */
	add_ratio(root, VALUE_SLO_ATTAINED, outcome->slo_attained,
		has_limit ? outcome->measured_submitted : 0);
	add_rate(root, VALUE_SLO_GOODPUT, outcome->slo_attained,
		has_limit ? outcome->makespan_ns : 0);
}

static void add_found_kv_blocks(cJSON *root, uint64_t blocks)
{
	char text[NUMBER_TEXT_BYTES] = "null";

	if (blocks > 0) {
		decimal_text(text, blocks, 0);
	}
	add_raw(root, SUMMARY_FOUND_KV_BLOCKS, text);
}

static cJSON *summary_json(const struct run_outcome *outcome, cJSON *config)
{
	cJSON *root = cJSON_CreateObject();

	cJSON_AddStringToObject(root, SUMMARY_SCHEMA, RESULT_SCHEMA);
	cJSON_AddStringToObject(root, SUMMARY_STATUS, run_end_name(outcome->end));
	if (outcome->end == RUN_FAILED) {
		cJSON_AddStringToObject(root, SUMMARY_FAILURE, outcome->failure.text);
	}
	cJSON_AddItemToObject(root, SUMMARY_CONFIG, config);
	add_trace(root, outcome);
	cJSON_AddStringToObject(root, SUMMARY_RUNNER_KIND, outcome->runner_kind);
	cJSON_AddBoolToObject(root, SUMMARY_CALIBRATED, outcome->is_calibrated);
	add_found_kv_blocks(root, outcome->found_kv_blocks);
	add_counts(root, outcome);
	add_tokens(root, outcome);
	add_waits(root, outcome);
	add_latency(root, outcome);
	add_slo(root, outcome);
	if (outcome->fleet.count > 0) {
		cJSON_AddItemToObject(root, SUMMARY_FLEET, replicas_json(&outcome->fleet));
	}
	add_hash(root, SUMMARY_RESULT_HASH, outcome->result_hash);
	if (outcome->has_dispatch_late) {
		add_figures(root, SUMMARY_DISPATCH_LATE_MS, &outcome->dispatch_late);
	}
	if (outcome->gpu_idle.count > 0) {
		add_figures(root, SUMMARY_GPU_IDLE_MS, &outcome->gpu_idle);
	}
	return root;
}

void summary_write(const struct run_outcome *outcome, struct cJSON *config, FILE *file)
{
	cJSON *root = summary_json(outcome, config);

	json_print(root, file);
	cJSON_Delete(root);
}

/* ---- the printed table ---- */

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
	char offered[NUMBER_TEXT_BYTES];

	offered_text(offered, outcome, PRINTED_DIGITS, "");
	printf("%s: %s", verdict_name(outcome->verdict), meanings[outcome->verdict]);
	if (offered[0] != '\0') {
		printf(" (%s requests/s offered)", offered);
	}
	printf("\n");
	if (outcome->end == RUN_FAILED) {
		printf("failed: %s\n", outcome->failure.text);
	}
	if (outcome->end == RUN_INTERRUPTED) {
		printf("interrupted: what follows is up to that point\n");
	}
	if (!outcome->is_calibrated) {
		printf("uncalibrated: the times of profile %s were never compared with a run on a "
		       "GPU\n",
			gpu);
	} else if (outcome->profile[0] != '\0') {
		printf("priced by profile %s: %s\n", gpu, outcome->profile);
	}
}

/* How much of what the engine can carry was used, and of its memory and seats. */
static void print_load(const struct run_outcome *outcome)
{
	if (!outcome->has_utilisation) {
		printf("  used      an unknown share of capacity: no profile prices these steps");
	} else if (outcome->utilisation > 0 && outcome->utilisation < 1) {
		printf("  used      %.1f%% of capacity, head room %.1fx",
			outcome->utilisation * 100, 1 / outcome->utilisation);
	} else {
		printf("  used      %.1f%% of capacity", outcome->utilisation * 100);
	}
	printf("; at most %.0f%% of the KV blocks, %.0f%% of the seats\n", outcome->kv_peak * 100,
		outcome->seats_peak * 100);
}

static void print_figures(const char *name, const struct latency_figures *figures)
{
	char text[NUMBER_TEXT_BYTES] = "-";

	printf("  %-8s", name);
	for (uint32_t i = 0; i < STATISTIC_COUNT; i++) {
		if (!latency_is_main[i]) {
			continue;
		}
		if (figures->count > 0) {
			decimal_text(text, figures->ns[i] / 1000, 3);
		}
		printf(" %12s", text);
	}
	printf("\n");
}

static void print_latency(const struct run_outcome *outcome)
{
	printf("\n  %-8s", "ms");
	for (uint32_t i = 0; i < STATISTIC_COUNT; i++) {
		if (latency_is_main[i]) {
			printf(" %12s", latency_statistics[i]);
		}
	}
	printf("\n");
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

/* Why requests waited, and the option that would shorten the largest part. */
static void print_waits(const struct run_outcome *outcome)
{
	static const struct {
		const char *title, *remedy;
	} causes[] = {
#define WAIT_CAUSE_ROW(of, cause, name, title, remedy) {title, remedy},
		WAIT_CAUSE_LIST(WAIT_CAUSE_ROW, )
#undef WAIT_CAUSE_ROW
	};
	uint32_t largest = 0;
	const char *comma = "";
	u128 sum = 0;

	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		sum += outcome->wait_ns[cause];
		largest = outcome->wait_ns[cause] > outcome->wait_ns[largest] ? cause : largest;
	}
	if (sum == 0) {
		return;
	}
	printf("  waited    for");
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		char share[NUMBER_TEXT_BYTES];
		ratio_text(share, outcome->wait_ns[cause] * 100, sum, 1, "-");
		if (outcome->wait_ns[cause] > 0) {
			printf("%s %s %s%%", comma, causes[cause].title, share);
			comma = ",";
		}
	}
	if (causes[largest].remedy != NULL) {
		printf("; %s would help", causes[largest].remedy);
	}
	printf("\n");
}

static void print_slo(const struct run_outcome *outcome)
{
	char share[NUMBER_TEXT_BYTES], goodput[NUMBER_TEXT_BYTES];

	if (!has_slo(outcome)) {
		return;
	}
	ratio_text(share, (u128)outcome->slo_attained * 100, outcome->measured_submitted, 2, "-");
	rate_text(goodput, outcome->slo_attained, outcome->makespan_ns, PRINTED_DIGITS, "-");
	printf("\n  slo      %s%% of requests attain it, goodput %s requests/s\n", share, goodput);
}

void summary_warn_of_rejections(const struct run_outcome *outcome, uint64_t max_model_len)
{
	double all = outcome->submitted == 0 ? 1 : (double)outcome->submitted;

	if (outcome->rejected_too_long > 0) {
		fprintf(stderr,
			"%llu requests (%.1f%%; the longest has %llu tokens) exceed "
			"--max-model-len %llu and were rejected; --max-model-len %llu takes all\n",
			(unsigned long long)outcome->rejected_too_long,
			100 * (double)outcome->rejected_too_long / all,
			(unsigned long long)outcome->longest_too_long,
			(unsigned long long)max_model_len,
			(unsigned long long)outcome->longest_too_long);
	}
	if (outcome->rejected_never_fits > 0) {
		fprintf(stderr,
			"%llu requests (%.1f%%; the longest has %llu tokens) need more than the "
			"%llu KV blocks there are and were rejected; --kv-blocks %llu takes all\n",
			(unsigned long long)outcome->rejected_never_fits,
			100 * (double)outcome->rejected_never_fits / all,
			(unsigned long long)outcome->longest_never_fitting,
			(unsigned long long)outcome->kv_blocks,
			(unsigned long long)u64_divide_up(
				outcome->longest_never_fitting, outcome->block_size));
	}
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
	rate_text(text[0], outcome->output_tokens, makespan, PRINTED_DIGITS, "-");
	rate_text(text[1], outcome->prompt_tokens + outcome->output_tokens, makespan,
		PRINTED_DIGITS, "-");
	rate_text(text[2], outcome->measured_finished, makespan, PRINTED_DIGITS, "-");
	printf("  rate      %s output tokens/s, %s tokens/s in all, %s requests/s\n", text[0],
		text[1], text[2]);
	printf("  tokens  ");
	print_count("prompt,", outcome->prompt_tokens);
	print_count("output,", outcome->output_tokens);
	print_count("recomputed\n", outcome->recomputed_tokens);
	if (outcome->is_prefix_cache_off) {
		printf("  cache     off: --enable-prefix-caching off;");
	} else if (outcome->has_prompt_ids) {
		ratio_text(text[3], (u128)outcome->hit_tokens * 100, outcome->query_tokens, 2, "-");
		printf("  cache     %s%% of prompt tokens hit;", text[3]);
	} else {
		printf("  cache     hits are not known: the trace has no prompt ids;");
	}
	print_count("preemptions;", outcome->preemptions);
	print_count("KV blocks of", outcome->kv_blocks);
	print_count("tokens\n", outcome->block_size);
	print_load(outcome);
	print_waits(outcome);
	print_latency(outcome);
	print_slo(outcome);
	if (outcome->fleet.count > 0) {
		replicas_print(&outcome->fleet);
	}
	printf("\n  result_hash %016llx\n", (unsigned long long)outcome->result_hash);
}
