#include "bench/gate/judge.h"

#include "bench/compare/compare_limits.h"
#include "bench/gate/ratio.h"
#include "engine/base/check.h"
#include "engine/base/number.h"
#include "reports/results/fidelity.h"
#include "reports/results/metric.h"
#include "reports/results/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct text *verdict_add(struct gate_verdict *verdict, enum gate_status status)
{
	if (status > verdict->status) {
		verdict->status = status;
	}
	/* Further findings continue the last one: what is wrong has been said by then. */
	if (verdict->count == FINDINGS_MAX) {
		text_add(&verdict->findings[FINDINGS_MAX - 1], "; ");
		return &verdict->findings[FINDINGS_MAX - 1];
	}
	return &verdict->findings[verdict->count++];
}

void verdict_close(struct gate_verdict *verdict)
{
	for (uint32_t i = 0; i < verdict->count; i++) {
		text_deinit(&verdict->findings[i]);
	}
	verdict->count = 0;
}

static const char *base_of(const struct gate_verdict *verdict)
{
	return verdict->is_against ? "the other program" : "the baseline";
}

/* ---- whether there is something to compare ---- */

static void add_json_value(struct text *text, const cJSON *node)
{
	char *printed = node == NULL ? NULL : cJSON_PrintUnformatted(node);

	text_add(text, printed == NULL ? "absent" : printed);
	cJSON_free(printed);
}

/* Every field that the base has must be equal. One that only the new program knows is an option
   that the suite's command line leaves at its default. of_filled: those that a run fills in, else
   the others, which may be the cause of these. */
static void compare_objects(struct gate_verdict *verdict, const cJSON *base, const cJSON *value,
	bool is_simulation, bool of_filled)
{
	for (const cJSON *item = base->child; item != NULL; item = item->next) {
		const cJSON *twin = cJSON_GetObjectItemCaseSensitive(value, item->string);
		if (evidence_is_filled_in(item->string) != of_filled ||
			(twin != NULL && cJSON_Compare(item, twin, true)) ||
			(is_simulation && fidelity_is_of_runner(item->string))) {
			continue;
		}
		struct text *text = verdict_add(verdict, GATE_INVALID);
		text_add(text, item->string);
		text_add(text, " is ");
		add_json_value(text, twin);
		text_format(text, ", %s's is ", base_of(verdict));
		add_json_value(text, item);
		text_add(text, of_filled ? " (a run fills it in where no option gives it)" : "");
	}
}

/* A profile of the same name may price otherwise. */
static void judge_profile(struct gate_verdict *verdict, const cJSON *base, const cJSON *value)
{
	const cJSON *base_gpu = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(base, SUMMARY_CONFIG), "gpu");
	const cJSON *gpu = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(value, SUMMARY_CONFIG), "gpu");
	const char *hash = cJSON_GetStringValue(
		cJSON_GetObjectItemCaseSensitive(value, SUMMARY_PROFILE_XXH64));
	const char *base_hash =
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(base, SUMMARY_PROFILE_XXH64));

	if (hash == NULL || base_hash == NULL || strcmp(hash, base_hash) == 0 ||
		!cJSON_Compare(gpu, base_gpu, true)) {
		return;
	}
	struct text *text = verdict_add(verdict, GATE_INVALID);
	text_add(text, "another content of the profile gpu ");
	add_json_value(text, gpu);
	text_add(text, ": its xxh64 is ");
	text_add(text, hash);
	text_format(text, ", %s's is %s", base_of(verdict), base_hash);
}

static void judge_identity(struct gate_verdict *verdict, const struct evidence *base,
	const struct evidence *value, bool is_simulation)
{
	const cJSON *base_root = base->summary.node, *root = value->summary.node;
	const cJSON *base_config = cJSON_GetObjectItemCaseSensitive(base_root, SUMMARY_CONFIG);
	const cJSON *config = cJSON_GetObjectItemCaseSensitive(root, SUMMARY_CONFIG);

	if (strcmp(base->trace_xxh64, value->trace_xxh64) != 0) {
		struct text *text = verdict_add(verdict, GATE_INVALID);
		text_add(text, "another trace: its xxh64 is ");
		text_add(text, value->trace_xxh64);
		text_format(text, ", %s's is %s", base_of(verdict), base->trace_xxh64);
	}
	compare_objects(verdict, base_config, config, is_simulation, false);
	compare_objects(verdict, base_config, config, is_simulation, true);
	judge_profile(verdict, base_root, root);
}

/* ---- decisions ---- */

static void judge_decisions(
	struct gate_verdict *verdict, const struct evidence *base, const struct evidence *value)
{
	uint64_t first, end;
	bool is_same_hash = strcmp(base->result_hash, value->result_hash) == 0;
	bool is_parted = decision_trail_part(&base->trail, &value->trail, &first, &end);

	if (!base->has_same_decisions) {
		return; /* they depend on measured times */
	}
	if (!value->has_same_decisions) {
		text_format(verdict_add(verdict, GATE_CHANGED),
			"the runs' decisions differ among themselves, %s's do not",
			base_of(verdict));
		return;
	}
	if (is_same_hash && !is_parted) {
		return;
	}
	struct text *text = verdict_add(verdict, GATE_CHANGED);
	if (!is_parted) {
		text_add(text, "the counts of every step are equal, the requests in them are not");
	} else if (end - first <= 1) {
		text_format(text, "first other decision in step %llu", (unsigned long long)first);
	} else {
		text_format(text, "first other decision between steps %llu and %llu",
			(unsigned long long)first, (unsigned long long)(end - 1));
	}
	if (base->trail.step_count != value->trail.step_count) {
		text_format(text, " (%llu %s, %llu %s %s)",
			(unsigned long long)value->trail.step_count,
			word_of_count(value->trail.step_count, "step", "steps"),
			(unsigned long long)base->trail.step_count,
			verdict->is_against ? "by" : "in", base_of(verdict));
	}
}

/* ---- figures ---- */

static double mean_of(const double *values, uint32_t count)
{
	double sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		sum += values[i];
	}
	return count == 0 ? 0 : sum / count;
}

static struct gate_figure *find_figure(struct gate_verdict *verdict, const char *name)
{
	uint32_t i = 0;

	while (i < verdict->figure_count && strcmp(verdict->figures[i].name, name) != 0) {
		i++;
	}
	return i == verdict->figure_count ? NULL : &verdict->figures[i];
}

static void note_base(struct gate_verdict *verdict, const char *name, double base)
{
	struct gate_figure *figure = find_figure(verdict, name);

	if (figure != NULL) {
		figure->has_base = true;
		figure->base = base;
	}
}

static void note_broken(struct gate_verdict *verdict, const char *name)
{
	struct gate_figure *figure = find_figure(verdict, name);

	if (figure != NULL) {
		figure->is_broken = true;
	}
}

/* Which latency a metric is of, and which statistic. False: of none. */
static bool find_latency(const struct metric *metric, enum latency_metric *latency,
	enum latency_statistic *statistic)
{
	size_t index = (size_t)(metric - metrics_table);

	*latency = LATENCY_COUNT;
	*statistic = STATISTIC_MEAN;
	if (index < RESULT_NUMBER_COUNT) {
		return false;
	}
	*latency = (enum latency_metric)((index - RESULT_NUMBER_COUNT) / STATISTIC_COUNT);
	*statistic = (enum latency_statistic)((index - RESULT_NUMBER_COUNT) % STATISTIC_COUNT);
	return true;
}

/* The interval of a figure over all runs of two sides. */
static struct ratio interval_of(
	const struct metric *metric, const struct evidence *base, const struct evidence *value)
{
	double a[SUITE_REPEATS_MAX], b[SUITE_REPEATS_MAX];
	uint32_t a_count = evidence_figures(base, metric, a);
	uint32_t b_count = evidence_figures(value, metric, b);
	struct ratio ratio = ratio_of(a, a_count, b, b_count);
	enum latency_metric latency;
	enum latency_statistic statistic;

	find_latency(metric, &latency, &statistic);
	if (ratio.is_known) {
		const struct bootstrap_side sides[] = {
			{a, base->requests, a_count}, {b, value->requests, b_count}};
		struct ratio drawn = bootstrap_ratio(&sides[0], &sides[1], latency, statistic);
		ratio_widen(&ratio, &drawn);
	}
	return ratio;
}

/* Judges by the interval of the ratio of the two sides' runs. */
static void judge_interval(struct gate_verdict *verdict, const struct metric_limit *limit,
	const struct ratio *ratio, struct limit_finding *finding)
{
	double allowed = 1 + limit->amount, room = fabs(limit->amount);
	bool is_broken = limit->is_least ? ratio->high < allowed : ratio->low > allowed;
	struct gate_figure *figure = find_figure(verdict, limit->metric->name);

	if (figure != NULL) {
		double end = limit->is_least ? ratio->high : ratio->low;
		figure->ratio = *ratio;
		figure->least_seen = allowed * ratio->ratio / end - 1;
	}
	finding->outcome = is_broken ? LIMIT_BROKEN : LIMIT_HOLDS;
	if (is_broken) {
		note_broken(verdict, limit->metric->name);
	}
	finding->is_improved = limit->is_least ? ratio->low > 1 + room : ratio->high < 1 - room;
	if (!is_broken && !finding->is_improved) {
		return;
	}
	struct text *text = verdict_add(verdict, is_broken ? GATE_REGRESSED : GATE_IMPROVED);
	limit_add_text(text, limit, finding);
	text_add(text, is_broken ? "" : "; better");
}

/* Tells how many values of a latency moved, where a percentile tells of one. */
static void tell_shape(struct gate_verdict *verdict, enum latency_metric latency,
	const struct evidence *base, const struct evidence *value)
{
	struct histogram_gap gap;

	if (!histogram_part(&base->histograms.of[latency], &value->histograms.of[latency], &gap)) {
		return;
	}
	struct text *text = verdict_add(verdict, GATE_PASS);
	text_format(text, "%.1f %% of %s are at most ", 100 * gap.share, latency_names[latency]);
	text_add_number(text, NUMBER_TIME_MS, true, (double)gap.at_ns / 1e6);
	text_format(text, ", %.1f %% %s %s: the largest difference", 100 * gap.base_share,
		verdict->is_against ? "by" : "in", base_of(verdict));
}

/* is_simulation: of the base, so no value is better than the base's. Returns whether the figure
   moved beyond its limit, or by more than the limit allows in the better direction. */
static bool judge_limit(struct gate_verdict *verdict, const struct metric_limit *limit,
	const struct evidence *base, const struct evidence *value, bool is_simulation)
{
	double a[SUITE_REPEATS_MAX], b[SUITE_REPEATS_MAX];
	uint32_t a_count = evidence_figures(base, limit->metric, a);
	uint32_t b_count = evidence_figures(value, limit->metric, b);
	struct result_value base_mean = {a_count > 0, mean_of(a, a_count)},
			    mean = {b_count > 0, mean_of(b, b_count)};
	struct limit_finding finding = limit_judge_values(limit, base_mean, mean);

	if (base_mean.has_value) {
		note_base(verdict, limit->metric->name, base_mean.value);
	}
	finding.is_improved &= !is_simulation;
	if (value->is_computed && limit->kind == LIMIT_PERCENT) {
		struct ratio ratio = interval_of(limit->metric, base, value);
		if (ratio.is_known) {
			judge_interval(verdict, limit, &ratio, &finding);
			return false; /* the interval knows of the requests */
		}
	}
	if (finding.outcome == LIMIT_UNKNOWN && b_count > 0) {
		text_format(verdict_add(verdict, GATE_PASS),
			"%s is not judged: %s does not have it%s", limit->metric->name,
			base_of(verdict), verdict->is_against ? "" : ", --update adds it");
	}
	bool is_moved = finding.outcome == LIMIT_BROKEN || finding.is_improved;
	if (finding.outcome == LIMIT_BROKEN) {
		note_broken(verdict, limit->metric->name);
	}
	if (is_moved) {
		struct text *text =
			verdict_add(verdict, finding.is_improved ? GATE_IMPROVED : GATE_REGRESSED);
		limit_add_text(text, limit, &finding);
		text_add(text, finding.is_improved ? "; better" : "");
	}
	return is_moved;
}

/* Names the limits whose figure no side has: they hold whatever happens. base: NULL where the case
   has none. */
static void tell_unjudged(struct gate_verdict *verdict, const struct limit_list *list,
	const struct evidence *base, const struct evidence *value)
{
	double figures[SUITE_REPEATS_MAX];
	bool has_figure[METRIC_LIMITS_MAX] = {false};
	struct text *text = NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		const struct metric *metric = list->limits[i].metric;
		has_figure[i] = (base != NULL && evidence_figures(base, metric, figures) > 0) ||
				evidence_figures(value, metric, figures) > 0;
		if (has_figure[i]) {
			continue;
		}
		text = text == NULL ? verdict_add(verdict, GATE_PASS) : text;
		text_add(text, count++ == 0 ? "" : ", ");
		limit_add_expression(text, &list->limits[i]);
	}
	if (text == NULL) {
		return;
	}
	text_add(text, count == 1 ? " is not judged: " : " are not judged: ");
	if (base == NULL) {
		text_add(text, "this run does not have ");
	} else {
		text_format(text, "neither %s nor this run has ", base_of(verdict));
	}
	text_add(text, count == 1 ? "the figure" : "the figures");
	limits_add_options(text, list, has_figure);
	text_format(text, "; the case's own limits can leave %s out", count == 1 ? "it" : "them");
}

static void judge_limits(struct gate_verdict *verdict, const struct limit_list *list,
	const struct evidence *base, const struct evidence *value, bool is_simulation)
{
	bool is_moved[LATENCY_COUNT] = {false};

	for (uint32_t i = 0; i < list->count; i++) {
		enum latency_metric latency;
		enum latency_statistic statistic;
		bool moved = judge_limit(verdict, &list->limits[i], base, value, is_simulation);
		if (moved && find_latency(list->limits[i].metric, &latency, &statistic)) {
			is_moved[latency] = true;
		}
	}
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		if (is_moved[i]) {
			tell_shape(verdict, i, base, value);
		}
	}
}

/* The same steps: every figure is the same, or it is counted in another way. */
static void judge_accounts(
	struct gate_verdict *verdict, const struct evidence *base, const struct evidence *value)
{
	bool is_same_run = !value->is_computed && base->trail.times == value->trail.times &&
			   base->trail.decisions == value->trail.decisions;

	for (uint32_t i = 0; is_same_run && i < METRIC_COUNT; i++) {
		const struct metric *metric = &metrics_table[i];
		struct result_value a = metric_value(&base->summary, metric),
				    b = metric_value(&value->summary, metric);
		if (a.has_value == b.has_value && a.value == b.value) {
			continue;
		}
		struct text *text = verdict_add(verdict, GATE_REGRESSED);
		text_format(text, "the same steps are counted differently: %s ", metric->name);
		text_add_number(text, metric->format, a.has_value, a.value);
		text_add(text, " to ");
		text_add_number(text, metric->format, b.has_value, b.value);
	}
	for (uint32_t i = 0; is_same_run && i < LATENCY_COUNT; i++) {
		const struct coarse_histogram *a = &base->histograms.of[i],
					      *b = &value->histograms.of[i];
		struct histogram_gap gap;
		bool is_counted = base->histograms.is_known &&
				  (a->values != b->values || histogram_part(a, b, &gap));
		if (is_counted) {
			text_format(verdict_add(verdict, GATE_REGRESSED),
				"the same steps are counted differently: histogram of %s",
				latency_names[i]);
		}
	}
}

/* ---- costs ---- */

#define COST_FLOOR(cost, name, unit, title, limit, floor) floor,
static const double cost_floors[COST_COUNT] = {GATE_COST_LIST(COST_FLOOR)};
#undef COST_FLOOR

/* The interval of a cost that was taken of several runs on both sides. */
static struct ratio cost_interval(
	const struct gate_costs *base, const struct gate_costs *value, enum gate_cost cost)
{
	const struct bootstrap_side sides[] = {{base->values[cost], NULL, base->counts[cost]},
		{value->values[cost], NULL, value->counts[cost]}};
	struct ratio ratio = ratio_of(
		sides[0].figures, sides[0].run_count, sides[1].figures, sides[1].run_count);

	if (ratio.is_known) {
		struct ratio drawn =
			bootstrap_ratio(&sides[0], &sides[1], LATENCY_COUNT, STATISTIC_MEAN);
		ratio_widen(&ratio, &drawn);
	}
	return ratio;
}

/* is_judged: both sides were measured alike. */
static void judge_cost(struct gate_verdict *verdict, enum gate_cost cost, double limit,
	const struct gate_costs *base, const struct gate_costs *value, bool is_judged)
{
	double a = gate_costs_mean(base, cost), b = gate_costs_mean(value, cost);
	double change = a > 0 ? b / a - 1 : b > 0 ? INFINITY : 0;
	bool is_worse = change > limit, is_better = change < -limit;
	struct ratio ratio = cost_interval(base, value, cost);
	struct gate_figure *figure = find_figure(verdict, gate_cost_names[cost]);

	note_base(verdict, gate_cost_names[cost], a);
	if (ratio.is_known && is_judged && figure != NULL) {
		is_worse = ratio.low > 1 + limit;
		is_better = ratio.high < 1 - limit;
		figure->ratio = ratio;
		figure->least_seen = (1 + limit) * ratio.ratio / ratio.low - 1;
	}
	if ((!is_worse && !is_better) || fabs(b - a) <= cost_floors[cost]) {
		return;
	}
	/* Bytes that are written do not depend on compiler or processor. */
	bool counts = is_judged || cost == COST_BYTES_WRITTEN;
	enum gate_status status = !counts ? GATE_PASS : is_worse ? GATE_REGRESSED : GATE_IMPROVED;
	text_format(verdict_add(verdict, status), "%s %.*f to %.*f (%+.2f %%), limit %+.6g %%%s",
		gate_cost_names[cost], cost == COST_CPU_TIME, a, cost == COST_CPU_TIME, b,
		100 * change, 100 * limit,
		counts ? "" : "; not judged: measured with another compiler, library or processor");
}

static void judge_costs(struct gate_verdict *verdict, const struct suite_case *rules,
	const struct evidence *base, const struct evidence *value, bool is_against)
{
	const char *base_environment = base->environment.bytes,
		   *environment = value->environment.bytes;
	bool is_judged = is_against || (base_environment != NULL && environment != NULL &&
					       strcmp(base_environment, environment) == 0);

	for (uint32_t i = 0; i < COST_COUNT; i++) {
		if (rules->measures[i] && base->costs.counts[i] > 0 && value->costs.counts[i] > 0) {
			judge_cost(verdict, i, rules->cost_limit[i], &base->costs, &value->costs,
				is_judged);
		}
	}
}

/* The base's figures, those without a limit too, and how far its runs are apart. */
static void note_bases(struct gate_verdict *verdict, const struct evidence *base)
{
	double runs[SUITE_REPEATS_MAX];

	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		struct gate_figure *figure = &verdict->figures[i];
		uint32_t count =
			figure->metric == NULL ? 0 : evidence_figures(base, figure->metric, runs);
		if (count == 0) {
			continue;
		}
		figure->has_base = true;
		figure->base = mean_of(runs, count);
		figure->has_spread = count > 1 && figure->base > 0;
		for (uint32_t j = 0; figure->has_spread && j < count; j++) {
			figure->spread = fmax(figure->spread, fabs(runs[j] / figure->base - 1));
		}
	}
	for (uint32_t i = 0; i < COST_COUNT; i++) {
		if (base->costs.counts[i] > 0) {
			note_base(verdict, gate_cost_names[i], gate_costs_mean(&base->costs, i));
		}
	}
}

void judge_case(struct gate_verdict *verdict, const struct suite_case *rules,
	const struct evidence *base, const struct evidence *value, bool is_against)
{
	verdict->is_against = is_against;
	if (rules->ignores_decisions) {
		judge_costs(verdict, rules, base, value, is_against);
		return;
	}
	bool is_simulation = rules->recorded_count > 0 && base->is_computed && !value->is_computed;
	judge_identity(verdict, base, value, is_simulation);
	if (verdict->status == GATE_INVALID) {
		note_bases(verdict, base);
		return;
	}
	verdict->is_simulation = is_simulation;
	if (is_simulation) {
		note_bases(verdict, base);
	} else {
		judge_decisions(verdict, base, value);
	}
	judge_limits(verdict, &rules->limits, base, value, is_simulation);
	judge_accounts(verdict, base, value);
	judge_costs(verdict, rules, base, value, is_against);
	tell_unjudged(verdict, &rules->limits, base, value);
}

void judge_new_case(
	struct gate_verdict *verdict, const struct suite_case *rules, const struct evidence *value)
{
	text_add(verdict_add(verdict, GATE_NEW), "not in the baseline");
	if (!rules->ignores_decisions) {
		tell_unjudged(verdict, &rules->limits, NULL, value);
	}
}

static void note(
	struct gate_verdict *verdict, const char *name, const struct metric *metric, double value)
{
	if (find_figure(verdict, name) == NULL) { /* else a metric with two limits */
		verdict->figures[verdict->figure_count++] =
			(struct gate_figure){.name = name, .metric = metric, .value = value};
	}
}

static void note_metric(
	struct gate_verdict *verdict, const struct metric *metric, const struct evidence *value)
{
	double figures[SUITE_REPEATS_MAX];
	uint32_t count = evidence_figures(value, metric, figures);

	if (count > 0) {
		note(verdict, metric->name, metric, mean_of(figures, count));
	}
}

void verdict_note_figures(
	struct gate_verdict *verdict, const struct suite_case *rules, const struct evidence *value)
{
	static const enum latency_statistic shown[] = {
		STATISTIC_MEAN, STATISTIC_P50, STATISTIC_P90, STATISTIC_P99};

	for (uint32_t i = 0; i < rules->limits.count; i++) {
		note_metric(verdict, rules->limits.limits[i].metric, value);
	}
	for (uint32_t i = 0; rules->recorded_count > 0 && i < LATENCY_COUNT; i++) {
		for (size_t j = 0; j < sizeof(shown) / sizeof(shown[0]); j++) {
			note_metric(verdict, metric_of_latency(i, shown[j]), value);
		}
	}
	for (uint32_t i = 0; i < COST_COUNT; i++) {
		if (rules->measures[i] && value->costs.counts[i] > 0) {
			note(verdict, gate_cost_names[i], NULL, gate_costs_mean(&value->costs, i));
		}
	}
}
