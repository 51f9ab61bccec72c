#include "bench/plan/objective.h"

#include "bench/record/summary.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

enum { MILLION = 1000000 };

/* Whether more load can only raise the metric. */
static bool grows_with_load(const struct metric *metric)
{
	bool is_in_use =
		strcmp(metric->section, SUMMARY_LOAD) == 0 && strcmp(metric->unit, "share") == 0;
	bool is_makespan = metric == &metrics_table[VALUE_MAKESPAN];

	return is_in_use || (metric->better < 0 && !is_makespan);
}

/* Whether more load can only lower it. */
static bool shrinks_with_load(const struct metric *metric)
{
	return metric == &metrics_table[VALUE_HIT_RATE] ||
	       metric == &metrics_table[VALUE_SLO_ATTAINED];
}

static enum status check_direction(
	const struct metric_limit *limit, bool is_least, struct error *error)
{
	const struct metric *metric = limit->metric;
	bool is_served = limit->is_least ? metric->better > 0 : metric->better < 0;
	bool is_broken_by_load =
		limit->is_least ? shrinks_with_load(metric) : grows_with_load(metric);

	if (is_broken_by_load || (is_least && is_served)) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_USAGE,
		"--slo %s%s%.10g: %s, expected a limit that load can only break, such as "
		"ttft.p99<=2000%s",
		metric->name, limit->is_least ? ">=" : "<=", limit->amount,
		limit->is_least && metric->better > 0
			? "more load raises it, so it is no limit of a load"
			: "load does not break it",
		is_least ? "" : " (--vary replicas takes throughputs too)");
}

enum status objective_check(struct objective *objective, bool is_least, struct error *error)
{
	if (objective->limits_text != NULL) {
		TRY(metric_limits_parse("--slo", objective->limits_text, false, objective->limits,
			&objective->limit_count, error));
	}
	if (objective->limit_count > OBJECTIVE_LIMITS_MAX) {
		return error_set(error, STATUS_USAGE, "--slo: found %u limits, expected at most %d",
			objective->limit_count, OBJECTIVE_LIMITS_MAX);
	}
	for (uint32_t i = 0; i < objective->limit_count; i++) {
		TRY(check_direction(&objective->limits[i], is_least, error));
	}
	if (!slo_is_given(&objective->slo) && objective->limit_count == 0) {
		return error_set(error, STATUS_USAGE,
			"no service level to plan for: give --slo-ttft-ms, --slo-tpot-ms, "
			"--slo-e2e-ms or --slo 'ttft.p99<=2000'");
	}
	return STATUS_OK;
}

/* Decimals without trailing zeros. */
static void add_decimal(struct text *text, double value)
{
	text_format(text, "%.10g", value);
}

static void add_limit(struct text *text, const char *name, uint64_t ns, uint32_t *count)
{
	if (ns == 0) {
		return;
	}
	text_add(text, *count == 0 ? " within " : ", ");
	text_format(text, "%s ", name);
	add_decimal(text, (double)ns / 1e6);
	text_add(text, " ms");
	*count += 1;
}

void metric_limit_add_text(const struct metric_limit *limit, struct text *text)
{
	bool is_share = strcmp(limit->metric->unit, "share") == 0;

	text_add(text, limit->is_least ? "at least " : "at most ");
	add_decimal(text, is_share ? limit->amount * 100 : limit->amount);
	text_format(text, " %s", is_share ? "%" : limit->metric->unit);
}

void objective_text(const struct objective *objective, struct text *text)
{
	uint32_t count = 0;

	add_decimal(text, (double)objective->attain * 100 / MILLION);
	text_add(text, " % of requests");
	if (!slo_is_given(&objective->slo)) {
		text_add(text, " finished");
	}
	add_limit(text, "TTFT", objective->slo.ttft_ns, &count);
	add_limit(text, "TPOT", objective->slo.tpot_ns, &count);
	add_limit(text, "E2E", objective->slo.e2e_ns, &count);
	for (uint32_t i = 0; i < objective->limit_count; i++) {
		const struct metric_limit *limit = &objective->limits[i];
		text_format(text, "%s%s ", i == 0 ? " and " : ", ", limit->metric->name);
		metric_limit_add_text(limit, text);
	}
}

/* Whether it is an upper limit on a latency, which an idle engine has lowest. */
static bool judges_alone(const struct metric_limit *limit)
{
	return !limit->is_least && strncmp(limit->metric->section, "latency_ms", 10) == 0;
}

/* The run's figures as readers of a result see them. */
static enum status parse_summary(
	const struct run_outcome *outcome, struct json_document *document, struct error *error)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);

	if (file == NULL) {
		return error_set(error, STATUS_MEMORY, "no memory for a summary");
	}
	summary_write(outcome, cJSON_CreateObject(), file);
	bool is_bad = ferror(file) != 0;
	is_bad |= fclose(file) != 0;
	enum status status = is_bad ? error_set(error, STATUS_MEMORY, "no memory for a summary")
				    : json_document_parse(document, "summary", text, bytes, error);
	free(text);
	return status;
}

/* The margin of a figure in its limit. */
static double margin_of(const struct metric_limit *limit, double value)
{
	double over = limit->is_least ? limit->amount : value;
	double under = limit->is_least ? value : limit->amount;

	return under > 0 ? over / under - 1 : over > 0 ? 1 : 0;
}

static void raise_margin(struct objective_verdict *verdict, double margin)
{
	verdict->margin = margin > verdict->margin ? margin : verdict->margin;
}

/* Refuses a limit on a figure that no load gives to runs of the trace: a hit rate without hash ids,
   a time between tokens of answers of one. */
static enum status check_exists(const struct metric_limit *limit, const struct run_outcome *outcome,
	bool has_value, struct error *error)
{
	const struct metric *metric = limit->metric;
	bool is_latency = strncmp(metric->section, "latency_ms", 10) == 0;
	bool all_finish = outcome->measured_finished == outcome->measured_submitted;

	if (metric == &metrics_table[VALUE_HIT_RATE] && !outcome->has_prompt_ids) {
		return error_set(error, STATUS_INPUT,
			"--slo %s: the trace %s does not say which prompts share tokens",
			metric->name, outcome->trace_name);
	}
	if (is_latency && !has_value && all_finish) {
		return error_set(error, STATUS_INPUT,
			"--slo %s: no request of the trace %s has one", metric->name,
			outcome->trace_name);
	}
	return STATUS_OK;
}

static enum status judge_limits(const struct objective *objective,
	const struct run_outcome *outcome, bool is_alone, struct objective_verdict *verdict,
	struct error *error)
{
	struct json_document document = {0};
	struct json_object root;

	TRY(parse_summary(outcome, &document, error));
	json_root(&root, &document, error);
	for (uint32_t i = 0; i < objective->limit_count; i++) {
		const struct metric_limit *limit = &objective->limits[i];
		struct result_value value = metric_value(&root, limit->metric);
		verdict->values[i] = value.has_value ? value.value : NAN;
		if (check_exists(limit, outcome, value.has_value, error) != STATUS_OK) {
			break;
		}
		if (is_alone && !judges_alone(limit)) {
			continue;
		}
		verdict->has_margin = verdict->has_margin && value.has_value;
		raise_margin(verdict, margin_of(limit, value.value));
		bool holds = value.has_value && metric_limit_holds(limit, 0, value.value);
		if (!holds && verdict->miss == MISS_NOTHING) {
			verdict->miss = MISS_LIMIT;
			verdict->limit = i;
			verdict->value = value.has_value ? value.value : NAN;
		}
	}
	json_document_close(&document);
	return error->status;
}

enum status objective_judge(const struct objective *objective, const struct run_outcome *outcome,
	bool is_alone, struct objective_verdict *verdict, struct error *error)
{
	u128 attained = (u128)outcome->slo_attained * MILLION;
	u128 needed = (u128)outcome->measured_submitted * objective->attain;
	double allowed = (double)outcome->measured_submitted *
			 (double)(MILLION - objective->attain) / MILLION;
	double misses = (double)(outcome->measured_submitted - outcome->slo_attained);

	*verdict = (struct objective_verdict){.has_margin = allowed > 0 || misses <= 0};
	verdict->margin = allowed > 0 ? misses / allowed - 1 : 0;
	verdict->miss = attained < needed ? MISS_ATTAINED : MISS_NOTHING;
	if (objective->limit_count > 0) {
		TRY(judge_limits(objective, outcome, is_alone, verdict, error));
	}
	if (outcome->verdict == VERDICT_OVERLOADED && !is_alone) {
		verdict->has_margin = false; /* which no figure says */
		verdict->miss = verdict->miss == MISS_NOTHING ? MISS_OVERLOADED : verdict->miss;
	}
	return STATUS_OK;
}
