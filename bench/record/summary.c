#include "bench/record/summary.h"

#include "engine/policy.h"
#include "engine/base/json.h"
#include "engine/base/number.h"
#include "reports/results/metric.h"

#include <cJSON.h>
#include <stdio.h>
#include <string.h>

enum { WRITTEN_DIGITS = 6, PRINTED_DIGITS = 4 };

/* count per second over `ns`: three decimals, or as many as give so many significant digits, at
   most twelve. Those of a file are cut off, as its other ratios are; printed ones are rounded. */
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
	(digits == PRINTED_DIGITS ? rounded_text : ratio_text)(
		text, (u128)count * 1000000000, ns, places, none);
}

/* Requests per second offered by the measured arrivals. */
static void offered_text(
	char *text, const struct run_outcome *outcome, uint32_t digits, const char *none)
{
	uint64_t gaps = outcome->measured_submitted == 0 ? 0 : outcome->measured_submitted - 1;

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
	if (outcome->has_run_out) {
		add_seconds(root, VALUE_RAN_OUT, outcome->last_arrival_ns);
	} else {
		add_value(root, VALUE_RAN_OUT, "null");
	}
}

/* A share or a mean, six places. */
static void share_text(char *text, bool has_value, double share, const char *none)
{
	if (has_value) {
		decimal_text(text, (u128)(share * 1e6 + 0.5), 6);
	} else {
		snprintf(text, NUMBER_TEXT_BYTES, "%s", none);
	}
}

/* A share, or null where the run had no time. */
static void add_share(cJSON *root, enum result_number number, bool has_value, double share)
{
	char text[NUMBER_TEXT_BYTES];

	share_text(text, has_value, share, "null");
	add_value(root, number, text);
}

static void add_load_shares(cJSON *root, const struct run_outcome *outcome)
{
	bool has_steps = outcome->work.steps > 0 && outcome->window_ns > 0;

	add_share(root, VALUE_UTILISATION, outcome->has_utilisation, outcome->utilisation);
	add_share(root, VALUE_KV_MEAN, has_steps, outcome->kv_mean);
	add_share(root, VALUE_KV_PEAK, has_steps, outcome->kv_peak);
	add_share(root, VALUE_SEATS_MEAN, has_steps, outcome->seats_mean);
	add_share(root, VALUE_SEATS_PEAK, has_steps, outcome->seats_peak);
	add_share(root, VALUE_BUDGET_MEAN, has_steps, outcome->budget_mean);
	add_share(root, VALUE_BUDGET_PEAK, has_steps, outcome->budget_peak);
}

/* Which requests and steps the figures are of. */
static void add_window(cJSON *root, const struct run_outcome *outcome)
{
	uint64_t cooldown =
		outcome->submitted - outcome->warmup_submitted - outcome->measured_submitted;

	add_seconds(root, VALUE_WINDOW_START, outcome->window_start_ns);
	add_seconds(root, VALUE_WINDOW_END, outcome->window_start_ns + outcome->window_ns);
	add_count(root, VALUE_WARMUP, outcome->warmup_submitted);
	add_count(root, VALUE_MEASURED, outcome->measured_submitted);
	add_count(root, VALUE_COOLDOWN, cooldown);
	add_count(root, VALUE_WINDOW_FINISHED, outcome->work.finished);
	add_count(root, VALUE_STEPS_BEFORE, outcome->steps_before);
	add_count(root, VALUE_STEPS_AFTER, outcome->steps_after);
}

/* Tokens of the longest request that was rejected for a reason, where one was. */
static void add_longest(cJSON *root, const char *name, uint64_t tokens)
{
	char text[NUMBER_TEXT_BYTES];

	if (tokens > 0) {
		decimal_text(text, tokens, 0);
		add_raw(section_of(root, SUMMARY_REQUESTS), name, text);
	}
}

static void add_counts(cJSON *root, const struct run_outcome *outcome)
{
	char offered[NUMBER_TEXT_BYTES], capped[NUMBER_TEXT_BYTES];

	add_count(root, VALUE_SUBMITTED, outcome->submitted);
	add_count(root, VALUE_FINISHED, outcome->finished);
	add_count(root, VALUE_REJECTED, outcome->rejected);
	add_count(root, VALUE_FAILED, outcome->failed);
	add_count(root, VALUE_UNFINISHED, outcome->unfinished);
	add_count(root, VALUE_REJECTED_TOO_LONG, outcome->rejected_too_long);
	add_count(root, VALUE_REJECTED_NEVER_FITS, outcome->rejected_never_fits);
	decimal_text(capped, outcome->capped, 0);
	add_raw(section_of(root, SUMMARY_REQUESTS), SUMMARY_REQUESTS_CAPPED, capped);
	add_longest(root, SUMMARY_LONGEST_TOO_LONG, outcome->longest_too_long);
	add_longest(root, SUMMARY_LONGEST_NEVER_FITS, outcome->longest_never_fitting);
	add_window(root, outcome);
	add_seconds(root, VALUE_MAKESPAN, outcome->window_ns);
	add_seconds(root, VALUE_BUSY, outcome->work.busy_ns);
	add_count(root, VALUE_STEPS, outcome->work.steps);
	add_share(root, VALUE_OUTSIDE_STEPS, outcome->has_outside, outcome->outside_step_share);
	add_share(root, VALUE_OUTSIDE_TIME, outcome->has_outside, outcome->outside_share);
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
	const struct run_sums *work = &outcome->work;
	uint64_t window_ns = outcome->window_ns;

	add_count(root, VALUE_PROMPT, work->prompt_tokens);
	add_count(root, VALUE_OUTPUT, work->output_tokens);
	add_count(root, VALUE_PREFILL, work->sums.prefill_tokens);
	add_count(root, VALUE_RECOMPUTED, work->recomputed_tokens);
	add_count(root, VALUE_LOST, work->lost_output_tokens);
	add_count(root, VALUE_QUERY_TOKENS, work->prompt_tokens);
	add_count(root, VALUE_HIT_TOKENS, work->hit_tokens);
	add_ratio(root, VALUE_HIT_RATE, work->hit_tokens,
		outcome->has_prompt_ids ? work->prompt_tokens : 0);
	add_count(root, VALUE_PREEMPTIONS, work->preemptions);
	add_rate(root, VALUE_OUTPUT_RATE, work->output_tokens, window_ns);
	add_rate(root, VALUE_TOTAL_RATE, work->prompt_tokens + work->output_tokens, window_ns);
	add_rate(root, VALUE_REQUEST_RATE, work->finished, window_ns);
}

/* Milliseconds, six places. */
static void milliseconds_text(char *text, bool has_value, uint64_t ns, const char *none)
{
	if (has_value) {
		decimal_text(text, ns, 6);
	} else {
		snprintf(text, NUMBER_TEXT_BYTES, "%s", none);
	}
}

static void add_figures(cJSON *parent, const char *name, const struct latency_figures *figures)
{
	cJSON *object = cJSON_AddObjectToObject(parent, name);
	char text[NUMBER_TEXT_BYTES];

	for (uint32_t i = 0; i < STATISTIC_COUNT; i++) {
		milliseconds_text(text, figures->count > 0, figures->ns[i], "null");
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
		decimal_text(text, outcome->work.waits.ns[cause], 9);
		add_value(root, (enum result_number)(VALUE_WAIT_STEP + cause), text);
	}
}

static void add_limit(cJSON *root, enum result_number number, uint64_t limit_ns)
{
	char text[NUMBER_TEXT_BYTES];

	milliseconds_text(text, limit_ns > 0, limit_ns, "null");
	add_value(root, number, text);
}

static void add_slo(cJSON *root, const struct run_outcome *outcome)
{
	bool has_limit = slo_is_given(&outcome->slo);

	add_limit(root, VALUE_SLO_TTFT, outcome->slo.ttft_ns);
	add_limit(root, VALUE_SLO_TPOT, outcome->slo.tpot_ns);
	add_limit(root, VALUE_SLO_E2E, outcome->slo.e2e_ns);
	/* Of no requests and in no time there is no share and no rate. */
	add_ratio(root, VALUE_SLO_ATTAINED, outcome->slo_attained,
		has_limit ? outcome->measured_submitted : 0);
	add_rate(root, VALUE_SLO_GOODPUT, outcome->work.attained,
		has_limit ? outcome->window_ns : 0);
}

static void add_found_kv_blocks(cJSON *root, uint64_t blocks)
{
	char text[NUMBER_TEXT_BYTES] = "null";

	if (blocks > 0) {
		decimal_text(text, blocks, 0);
	}
	add_raw(root, SUMMARY_FOUND_KV_BLOCKS, text);
}

/* ---- levels ---- */

enum level_column {
#define LEVEL_COLUMN_ENUM(name) LEVEL_##name,
	LEVEL_COLUMN_LIST(LEVEL_COLUMN_ENUM, LEVEL_COLUMN_ENUM)
#undef LEVEL_COLUMN_ENUM
		LEVEL_COLUMN_COUNT
};

static const char *const level_columns[LEVEL_COLUMN_COUNT] = {
#define LEVEL_COLUMN_NAME(name) #name,
	LEVEL_COLUMN_LIST(LEVEL_COLUMN_NAME, LEVEL_COLUMN_NAME)
#undef LEVEL_COLUMN_NAME
};

struct level_cells {
	char text[LEVEL_COLUMN_COUNT][NUMBER_TEXT_BYTES];
};

/* The figures of a level as text; `none` for what there is not. */
static void level_cells(const struct run_outcome *outcome, uint32_t index, const char *none,
	struct level_cells *cells)
{
	const struct level_figures *level = &outcome->levels[index];
	char(*text)[NUMBER_TEXT_BYTES] = cells->text;

	decimal_text(text[LEVEL_rate_per_s], level->rate_millionths, 6);
	decimal_text(text[LEVEL_start_s], (u128)index * outcome->level_ns, 9);
	decimal_text(text[LEVEL_width_s], outcome->level_ns, 9);
	decimal_text(text[LEVEL_requests], level->submitted, 0);
	decimal_text(text[LEVEL_finished], level->finished, 0);
	milliseconds_text(text[LEVEL_ttft_p50_ms], level->has_ttft, level->ttft_p50_ns, none);
	milliseconds_text(text[LEVEL_ttft_p99_ms], level->has_ttft, level->ttft_p99_ns, none);
	milliseconds_text(text[LEVEL_tpot_p99_ms], level->has_tpot, level->tpot_p99_ns, none);
	ratio_text(text[LEVEL_attained], level->attained,
		slo_is_given(&outcome->slo) ? level->submitted : 0, 6, none);
	share_text(text[LEVEL_waiting], true, level->waiting, none);
	share_text(text[LEVEL_utilisation], level->has_utilisation, level->utilisation, none);
}

static void add_levels(cJSON *root, const struct run_outcome *outcome)
{
	if (outcome->level_count == 0) {
		return;
	}
	cJSON *levels = cJSON_AddArrayToObject(root, SUMMARY_LEVELS);
	for (uint32_t i = 0; i < outcome->level_count; i++) {
		struct level_cells cells;
		cJSON *level = cJSON_CreateObject();
		level_cells(outcome, i, "null", &cells);
		for (uint32_t j = 0; j < LEVEL_COLUMN_COUNT; j++) {
			add_raw(level, level_columns[j], cells.text[j]);
		}
		cJSON_AddItemToArray(levels, level);
	}
}

void summary_write_levels(const struct run_outcome *outcome, struct table_writer *table)
{
	for (uint32_t i = 0; i < outcome->level_count; i++) {
		struct level_cells cells;
		level_cells(outcome, i, "-", &cells);
		for (uint32_t j = 0; j < LEVEL_COLUMN_COUNT; j++) {
			table_text(table, cells.text[j]);
		}
		table_end_row(table);
	}
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
	if (outcome->profile_note[0] != '\0') {
		cJSON_AddStringToObject(root, SUMMARY_PROFILE_NOTE, outcome->profile_note);
	}
	if (outcome->spread.heads > 0) {
		cJSON *spread = cJSON_AddObjectToObject(root, SUMMARY_SPREAD);
		cJSON_AddNumberToObject(spread, SUMMARY_SPREAD_HEADS, outcome->spread.heads);
		cJSON_AddNumberToObject(
			spread, SUMMARY_SPREAD_MULTIPROCESSORS, outcome->spread.multiprocessors);
	}
	if (outcome->readers > 0) {
		cJSON_AddNumberToObject(root, SUMMARY_READERS, outcome->readers);
	}
	if (outcome->profile_xxh64 > 0) {
		add_hash(root, SUMMARY_PROFILE_XXH64, outcome->profile_xxh64);
	}
	add_found_kv_blocks(root, outcome->found_kv_blocks);
	if (outcome->is_beyond_memory) {
		cJSON_AddTrueToObject(root, SUMMARY_BEYOND_MEMORY);
	}
	add_counts(root, outcome);
	add_tokens(root, outcome);
	add_waits(root, outcome);
	add_latency(root, outcome);
	add_slo(root, outcome);
	if (outcome->fleet.count > 0) {
		cJSON_AddItemToObject(root, SUMMARY_FLEET, replicas_json(&outcome->fleet));
	}
	add_levels(root, outcome);
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

/* A run that is stable because it rejected requests is not said to be good. */
static void print_verdict(const struct run_outcome *outcome)
{
	static const char *const meanings[] = {
		"the engine kept up with what arrived",
		"requests queued longer than they were served, or many waited when arrivals ended",
		("more arrived than was served, to the end of the arrivals; latencies grow "
		 "with the trace's length"),
		"requests were left when no replica was there to take them",
	};
	bool is_stable = outcome->verdict == VERDICT_STABLE;
	bool has_others = outcome->rejected < outcome->submitted;

	printf("%s: ", verdict_name(outcome->verdict));
	if (outcome->rejected == 0) {
		printf("%s", meanings[outcome->verdict]);
		return;
	}
	if (!is_stable) {
		printf("%s; ", meanings[outcome->verdict]);
	}
	print_grouped(outcome->rejected);
	printf(" of ");
	print_grouped(outcome->submitted);
	printf(" requests (%.1f%%) %s rejected%s",
		100 * (double)outcome->rejected / (double)outcome->submitted,
		outcome->rejected == 1 ? "was" : "were",
		is_stable && has_others ? "; the engine kept up with the others" : "");
}

/* Of a fleet whose groups have different ones. */
static void print_profiles(const struct run_outcome *outcome)
{
	printf("priced by profiles %s\n", outcome->profiles);
	if (outcome->uncalibrated[0] != '\0') {
		printf("uncalibrated: the times of %s were never compared with a run of this "
		       "engine on a GPU\n",
			outcome->uncalibrated);
	}
}

static void print_head(const struct run_outcome *outcome, const char *gpu)
{
	char offered[NUMBER_TEXT_BYTES];

	if (outcome->end == RUN_FAILED) {
		printf("failed: %s\n", outcome->failure.text);
	}
	if (outcome->end == RUN_INTERRUPTED) {
		printf("interrupted: what follows is up to that point\n");
	}
	offered_text(offered, outcome, PRINTED_DIGITS, "");
	printf("%s", outcome->end == RUN_COMPLETE ? "" : "until then ");
	print_verdict(outcome);
	if (offered[0] != '\0') {
		printf(" (%s requests/s offered)", offered);
	}
	printf("\n");
	if (outcome->profiles[0] != '\0') {
		print_profiles(outcome);
	} else if (!outcome->is_calibrated) {
		printf("uncalibrated: the times of profile %s were never compared with a run %son "
		       "a "
		       "GPU\n",
			gpu, outcome->profile[0] != '\0' ? "of this engine " : "");
	} else if (outcome->profile[0] != '\0') {
		printf("priced by profile %s: %s\n", gpu, outcome->profile);
	}
	if (outcome->has_outside && outcome->outside_share > OUTSIDE_MOST) {
		printf("warning: %.1f%% of the time is in steps unlike those that the profile was "
		       "fitted to\n",
			outcome->outside_share * 100);
	}
}

/* How much of what the engine can carry was used, and of its memory and seats. That is a mean: a
   burst may have taken all. So the load that would fit, by the rate of the arrivals where there is
   one, is told only where none of it was full at any time, and the run was neither overloaded nor
   left requests rejected or without a replica. */
static void print_load(const struct run_outcome *outcome)
{
	bool are_grouped = outcome->fleet.count > 0 && outcome->fleet.each[0].group != NULL;
	bool are_served = outcome->rejected == 0 && outcome->verdict != VERDICT_OVERLOADED &&
			  outcome->verdict != VERDICT_UNSERVED;
	double demand =
		outcome->offered_demand > 0 ? outcome->offered_demand : outcome->utilisation;
	bool has_head_room = are_served && demand > 0 && demand < 1 && outcome->utilisation < 1 &&
			     outcome->kv_peak < 1 && outcome->seats_peak < 1;

	char used[NUMBER_TEXT_BYTES] = "", offered[NUMBER_TEXT_BYTES] = "";

	/* One is over the time to the last finish, the other over that of the arrivals. */
	snprintf(used, sizeof(used), "%.1f", 1 / outcome->utilisation);
	snprintf(offered, sizeof(offered), "%.1f", 1 / demand);
	bool are_two = strcmp(used, offered) != 0 && outcome->offered_demand > 0;
	if (!outcome->has_utilisation) {
		printf("  used      an unknown share of capacity: %s",
			outcome->work.steps == 0 ? "no step was computed"
			: are_grouped		 ? "it is computed for equal replicas only"
						 : "no profile prices these steps");
	} else if (has_head_room && are_two) {
		printf("  used      %.1f%% of capacity, %.1f%% while requests arrive (%sx the load "
		       "fits if evenly spread)",
			outcome->utilisation * 100, demand * 100, offered);
	} else if (has_head_room) {
		printf("  used      %.1f%% of capacity (%.1fx the load fits if evenly spread)",
			outcome->utilisation * 100, 1 / demand);
	} else {
		printf("  used      %.1f%% of capacity", outcome->utilisation * 100);
	}
	printf("; at most %.0f%% of the KV blocks", outcome->kv_peak * 100);
	if (outcome->seats_peak <= 1) {
		printf(", %.0f%% of the seats", outcome->seats_peak * 100);
	} else { /* prefill-first limits the rows of a step, not the sequences that run */
		printf(", up to %.1f sequences running for each seat", outcome->seats_peak);
	}
	printf("%s\n", are_grouped ? " of an average replica" : "");
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
			rounded_text(text, figures->ns[i], 1000000, 3, "-");
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

/* The option that decides in this run, and words before it; NULL: all are at their ends. */
static const char *remedy_here(
	const struct run_outcome *outcome, enum wait_cause cause, const char *remedy)
{
	bool is_vain = (outcome->vain_causes >> cause & 1) != 0;

	if (remedy != NULL && !is_vain && (outcome->spent_causes >> cause & 1) != 0) {
		return (outcome->spent_causes >> WAIT_ROUTER & 1) != 0 ? NULL : "--replicas";
	}
	return is_vain ? "more of that would not help, --replicas"
	       : cause == WAIT_SEATS && outcome->is_held_back	   ? "--max-concurrency"
	       : cause == WAIT_BLOCKS && outcome->has_given_blocks ? "--kv-blocks"
								   : remedy;
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
		sum += outcome->work.waits.ns[cause];
		largest = outcome->work.waits.ns[cause] > outcome->work.waits.ns[largest] ? cause
											  : largest;
	}
	if (sum == 0) {
		return;
	}
	printf("  waited    for");
	for (uint32_t cause = 0; cause < WAIT_CAUSE_COUNT; cause++) {
		char share[NUMBER_TEXT_BYTES];
		rounded_text(share, outcome->work.waits.ns[cause] * 100, sum, 1, "-");
		if (outcome->work.waits.ns[cause] > 0) {
			printf("%s %s %s%%", comma, causes[cause].title, share);
			comma = ",";
		}
	}
	const char *remedy = remedy_here(outcome, (enum wait_cause)largest, causes[largest].remedy);
	if (remedy != NULL) {
		printf("; %s would help", remedy);
	}
	printf("\n");
}

static void print_slo(const struct run_outcome *outcome)
{
	char share[NUMBER_TEXT_BYTES], goodput[NUMBER_TEXT_BYTES];

	if (!slo_is_given(&outcome->slo)) {
		return;
	}
	rounded_text(share, (u128)outcome->slo_attained * 100, outcome->measured_submitted, 2, "-");
	rate_text(goodput, outcome->work.attained, outcome->window_ns, PRINTED_DIGITS, "-");
	printf("\n  slo      %s%% of requests attain it, goodput %s requests/s\n", share, goodput);
}

/* A percentile in ms with three places, or a dash. */
static void print_level_time(bool has_time, uint64_t ns)
{
	char text[NUMBER_TEXT_BYTES] = "-";

	if (has_time) {
		rounded_text(text, ns, 1000000, 3, "-");
	}
	printf(" %11s", text);
}

static void print_level_share(bool has_value, double share)
{
	if (has_value) {
		printf(" %8.1f%%", share * 100);
	} else {
		printf(" %9s", "-");
	}
}

static void print_levels(const struct run_outcome *outcome)
{
	if (outcome->level_count == 0) {
		return;
	}
	printf("\n  %-5s %10s %9s %11s %11s %11s %9s %9s %9s\n", "level", "rate/s", "requests",
		"ttft p50", "ttft p99", "tpot p99", "attained", "waiting", "used");
	for (uint32_t i = 0; i < outcome->level_count; i++) {
		const struct level_figures *level = &outcome->levels[i];
		bool has_share = slo_is_given(&outcome->slo) && level->submitted > 0;
		printf("  %-5u %10.3f %9llu", i + 1, (double)level->rate_millionths / 1e6,
			(unsigned long long)level->submitted);
		print_level_time(level->has_ttft, level->ttft_p50_ns);
		print_level_time(level->has_ttft, level->ttft_p99_ns);
		print_level_time(level->has_tpot, level->tpot_p99_ns);
		print_level_share(has_share,
			has_share ? (double)level->attained / (double)level->submitted : 0);
		printf(" %9.1f", level->waiting);
		print_level_share(level->has_utilisation, level->utilisation);
		printf("\n");
	}
}

void summary_warn_of_end(const struct run_outcome *outcome)
{
	char at[NUMBER_TEXT_BYTES];

	if (outcome->has_run_out) {
		rounded_text(at, outcome->last_arrival_ns, 1000000000, 3, "-");
		fprintf(stderr,
			"the trace ran out after %llu %s, at %s s, before --duration or "
			"--max-requests: --loop shared repeats it\n",
			(unsigned long long)outcome->submitted,
			word_of_count(outcome->submitted, "request", "requests"), at);
	}
	/* A run that is complete and left requests has lost its last replica. */
	if (outcome->end == RUN_COMPLETE && outcome->unfinished > 0) {
		fprintf(stderr, "%llu %s not served: no replica was left to send them to\n",
			(unsigned long long)outcome->unfinished,
			word_of_count(outcome->unfinished, "request was", "requests were"));
	}
}

void summary_warn_of_memory(const struct run_outcome *outcome, const char *gpu)
{
	if (!outcome->is_beyond_memory) {
		return;
	}
	fprintf(stderr, "warning: %llu KV %s more than the memory of %s has room for",
		(unsigned long long)outcome->kv_blocks,
		word_of_count(outcome->kv_blocks, "block is", "blocks are"), gpu);
	if (outcome->found_kv_blocks > 0) {
		fprintf(stderr, ", which is %llu\n", (unsigned long long)outcome->found_kv_blocks);
	} else {
		fprintf(stderr, ": beside the weights none fits\n");
	}
}

/* "3 requests (1.5%; the longest has 90 tokens) " and its verb. */
static void warn_of_longest(uint64_t count, double all, uint64_t longest, const char *verb)
{
	fprintf(stderr, "%llu %s (%.1f%%; the longest has %llu %s) %s%s ",
		(unsigned long long)count, word_of_count(count, "request", "requests"),
		100 * (double)count / all, (unsigned long long)longest,
		word_of_count(longest, "token", "tokens"), verb, word_of_count(count, "s", ""));
}

/* Rejections by a group of a fleet, whose limits are its own: the columns that take all. */
static void warn_of_groups(const struct run_outcome *outcome, double all)
{
	uint64_t too_long = outcome->rejected_too_long, never_fits = outcome->rejected_never_fits;

	if (too_long > 0) {
		warn_of_longest(too_long, all, outcome->longest_too_long, "exceed");
		fprintf(stderr,
			"max_model_len of the group that %s sent to and %s rejected; max_model_len "
			"%llu in every row of --fleet takes all\n",
			word_of_count(too_long, "it was", "they were"),
			word_of_count(too_long, "was", "were"),
			(unsigned long long)outcome->longest_too_long);
	}
	if (never_fits > 0) {
		warn_of_longest(never_fits, all, outcome->longest_never_fitting, "need");
		fprintf(stderr,
			"more than the KV blocks of the group that %s sent to and %s rejected; "
			"kv_blocks %llu in every row of --fleet takes all\n",
			word_of_count(never_fits, "it was", "they were"),
			word_of_count(never_fits, "was", "were"),
			(unsigned long long)policy_blocks_of(
				outcome->longest_never_fitting, outcome->block_size));
	}
}

static void warn_of_equal_limits(
	const struct run_outcome *outcome, uint64_t max_model_len, double all)
{
	uint64_t too_long = outcome->rejected_too_long, never_fits = outcome->rejected_never_fits;

	if (too_long > 0) {
		warn_of_longest(too_long, all, outcome->longest_too_long, "exceed");
		fprintf(stderr,
			"--max-model-len %llu and %s rejected; --max-model-len %llu takes all\n",
			(unsigned long long)max_model_len, word_of_count(too_long, "was", "were"),
			(unsigned long long)outcome->longest_too_long);
	}
	if (never_fits > 0) {
		warn_of_longest(never_fits, all, outcome->longest_never_fitting, "need");
		fprintf(stderr,
			"more than the %llu KV %s and %s rejected; --kv-blocks %llu takes all\n",
			(unsigned long long)outcome->kv_blocks,
			word_of_count(outcome->kv_blocks, "block there is", "blocks there are"),
			word_of_count(never_fits, "was", "were"),
			(unsigned long long)policy_blocks_of(
				outcome->longest_never_fitting, outcome->block_size));
	}
}

void summary_warn_of_rejections(const struct run_outcome *outcome, uint64_t max_model_len)
{
	double all = outcome->submitted == 0 ? 1 : (double)outcome->submitted;

	if (outcome->fleet.count > 0 && outcome->fleet.each[0].group != NULL) {
		warn_of_groups(outcome, all);
	} else {
		warn_of_equal_limits(outcome, max_model_len, all);
	}
	uint64_t refused = outcome->fleet.refused, capped = outcome->capped;
	if (refused > 0) {
		fprintf(stderr,
			"%llu %s (%.1f%%) found the router's queue full and %s rejected; a larger "
			"--router-queue or --replica-limit, or more --replicas, takes %s\n",
			(unsigned long long)refused, word_of_count(refused, "request", "requests"),
			100 * (double)refused / all, word_of_count(refused, "was", "were"),
			word_of_count(refused, "it", "them"));
	}
	if (capped > 0) {
		fprintf(stderr, "the %s of %llu %s (%.1f%%) %s cut short at --max-model-len %llu\n",
			word_of_count(capped, "answer", "answers"), (unsigned long long)capped,
			word_of_count(capped, "request", "requests"), 100 * (double)capped / all,
			word_of_count(capped, "was", "were"), (unsigned long long)max_model_len);
	}
}

/* Which requests and what time the figures below are of, where it is not the whole run. */
static void print_window(const struct run_outcome *outcome)
{
	uint64_t others = outcome->submitted - outcome->measured_submitted;
	char start[NUMBER_TEXT_BYTES], end[NUMBER_TEXT_BYTES];

	if (others == 0) {
		return;
	}
	rounded_text(start, outcome->window_start_ns, 1000000000, 3, "-");
	rounded_text(end, outcome->window_start_ns + outcome->window_ns, 1000000000, 3, "-");
	printf("  window    %s to %s s: ", start, end);
	print_count(word_of_count(outcome->warmup_submitted, "request of the warm-up,",
			    "requests of the warm-up,"),
		outcome->warmup_submitted);
	print_count("measured,", outcome->measured_submitted);
	print_count("of the cooldown\n", others - outcome->warmup_submitted);
}

/* The KV pool; of replicas that differ the average one, which shares of it are of. */
static void print_blocks(const struct run_outcome *outcome)
{
	const struct fleet_figures *fleet = &outcome->fleet;
	uint64_t blocks = outcome->kv_blocks, sum = 0;
	bool differs = false;

	for (uint32_t i = 0; i < fleet->count; i++) {
		sum += fleet->each[i].kv_blocks;
		differs = differs || fleet->each[i].kv_blocks != fleet->each[0].kv_blocks;
	}
	blocks = differs ? sum / fleet->count : blocks;
	print_count(word_of_count(blocks, "KV block of", "KV blocks of"), blocks);
	print_count(word_of_count(outcome->block_size, "token", "tokens"), outcome->block_size);
	if (differs) {
		printf(" in an average replica");
	}
	if (outcome->is_beyond_memory) {
		printf(", more than the memory has room for");
	}
	printf("\n");
}

void summary_print(const struct run_outcome *outcome, const char *gpu)
{
	const struct run_sums *work = &outcome->work;
	uint64_t window_ns = outcome->window_ns;
	char text[4][NUMBER_TEXT_BYTES];

	print_head(outcome, gpu);
	printf("\n  requests");
	print_count("submitted,", outcome->submitted);
	print_count("finished,", outcome->finished);
	print_count("rejected,", outcome->rejected);
	print_count("failed,", outcome->failed);
	print_count("unfinished\n", outcome->unfinished);
	print_window(outcome);
	rounded_text(text[0], window_ns, 1000000000, 3, "-");
	printf("  time      %s s %s,", text[0],
		outcome->submitted > outcome->measured_submitted ? "of the window"
		: outcome->failed + outcome->unfinished > 0
			? "from first arrival to the end of the run"
			: "from first arrival to last finish");
	print_count(word_of_count(work->steps, "step\n", "steps\n"), work->steps);
	rate_text(text[0], work->output_tokens, window_ns, PRINTED_DIGITS, "-");
	rate_text(
		text[1], work->prompt_tokens + work->output_tokens, window_ns, PRINTED_DIGITS, "-");
	rate_text(text[2], work->finished, window_ns, PRINTED_DIGITS, "-");
	printf("  rate      %s output tokens/s, %s tokens/s in all, %s requests/s\n", text[0],
		text[1], text[2]);
	printf("  tokens  ");
	print_count("prompt,", work->prompt_tokens);
	print_count("output,", work->output_tokens);
	print_count("recomputed\n", work->recomputed_tokens);
	if (outcome->is_prefix_cache_off) {
		printf("  cache     off: --enable-prefix-caching off;");
	} else if (outcome->has_prompt_ids) {
		rounded_text(text[3], (u128)work->hit_tokens * 100, work->prompt_tokens, 2, "-");
		printf("  cache     %s%% of prompt tokens hit;", text[3]);
	} else {
		printf("  cache     hits are not known: the trace has no prompt ids;");
	}
	print_count(
		word_of_count(work->preemptions, "preemption;", "preemptions;"), work->preemptions);
	print_blocks(outcome);
	print_load(outcome);
	print_waits(outcome);
	print_latency(outcome);
	print_slo(outcome);
	if (outcome->fleet.count > 0) {
		replicas_print(&outcome->fleet);
	}
	print_levels(outcome);
	printf("\n  result_hash %016llx\n", (unsigned long long)outcome->result_hash);
}
