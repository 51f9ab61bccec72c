#include "reports/report_files.h"

#include "engine/base/memory.h"
#include "reports/results/metric.h"
#include "reports/results/plan_file.h"
#include "reports/sheet.h"

#include <stdlib.h>
#include <string.h>

/* Of reports/figures/style.gp. */
enum { COLORS_MAX = 8 };

/* Titles of a figure over a load, replicas and KV blocks. */
enum { AXIS_LOAD, AXIS_REPLICAS, AXIS_KV_BLOCKS, AXIS_COUNT };
#define AGAINST(what)                                                                              \
	{                                                                                          \
		what " against load", what " against replicas", what " against KV blocks"          \
	}

/* What varies, as a figure names it. A text of the file does not become part of a script. */
static const struct knob {
	const char *vary, *title, *unit;
	uint32_t axis; /* of AGAINST() */
} knobs[] = {
	{"speedup", "Speedup", "", AXIS_LOAD},
	{"rate", "Request rate", "requests/s", AXIS_LOAD},
	{"rate", "Session rate", PLAN_UNIT_SESSIONS, AXIS_LOAD},
	{"concurrency", "Requests in the system", "", AXIS_LOAD},
	{"kv-blocks", "KV blocks", "", AXIS_KV_BLOCKS},
	{"replicas", "Replicas", "", AXIS_REPLICAS},
	{"", "Load", "", AXIS_LOAD},
};

static const struct knob *knob_of(const struct plan_answer *answer)
{
	const struct knob *knob = knobs;

	while (knob->vary[0] != '\0' && strcmp(knob->vary, answer->vary) != 0) {
		knob++;
	}
	return strcmp(answer->unit, PLAN_UNIT_SESSIONS) == 0 && strcmp(knob->vary, "rate") == 0
		       ? knob + 1
		       : knob;
}

static void set_value(struct plot *plot, const char *name, struct result_value value)
{
	if (value.has_value) {
		plot_set_number(plot, name, value.value);
	}
}

/* Limits on latencies of a run, in the order of the panels of plan_latency.gp. */
static void set_limits(struct plot *plot, const struct plan_limits *limits)
{
	static const enum latency_metric panels[] = {
		LATENCY_TTFT, LATENCY_TPOT, LATENCY_E2E, LATENCY_QUEUE, LATENCY_ITL};
	uint32_t total = 0;
	char name[64];

	for (uint32_t i = 0; i < limits->count; i++) {
		const struct metric_limit *limit = &limits->list[i];
		const char *statistic = strchr(limit->metric->name, '.');
		for (uint32_t k = 0; k < sizeof(panels) / sizeof(panels[0]); k++) {
			const struct metric *mean = metric_of_latency(panels[k], STATISTIC_MEAN);
			if (statistic == NULL || limit->metric->section != mean->section) {
				continue;
			}
			total++;
			snprintf(name, sizeof(name), "limit_latency_%u", total);
			plot_set_number(plot, name, k + 1);
			snprintf(name, sizeof(name), "limit_statistic_%u", total);
			plot_set_text(plot, name, statistic + 1);
			snprintf(name, sizeof(name), "limit_value_%u", total);
			plot_set_number(plot, name, limit->amount);
		}
	}
	plot_set_number(plot, "limit_total", total);
}

/* With --spare the search runs with replicas lost; those runs decide. */
static double lost_of(const struct plan_file *plan)
{
	double lost = 0;

	for (uint64_t i = 0; i < plan->probe_count; i++) {
		const struct result_value *own = &plan->probes[i].lost;
		lost = own->has_value && own->value > lost ? own->value : lost;
	}
	return lost;
}

/* The variables that style.gp explains, and the rows of the best configuration. */
static void fill_load_plot(struct plot *plot, const struct plan_file *plan)
{
	const struct plan_answer *answer = &plan->answer;
	const struct knob *knob = knob_of(answer);
	struct table_writer *table = memory_take(1, sizeof(*table));

	plot_set_text(plot, "knob", knob->title);
	plot_set_text(plot, "unit", knob->unit);
	plot_set_text(plot, "chosen", plan->configurations[0].name);
	plot_set_number(plot, "lost_own", lost_of(plan));
	set_value(plot, "pass", plan_answer_pass(answer));
	set_value(plot, "fail", plan_answer_fail(answer));
	set_value(plot, "sampling_low", answer->sampling.interval.low);
	set_value(plot, "sampling_high", answer->sampling.interval.high);
	set_value(plot, "model_low", answer->model.interval.low);
	set_value(plot, "model_high", answer->model.interval.high);
	set_value(plot, "ttft_slo", plan->slo_ttft_ms);
	set_value(plot, "tpot_slo", plan->slo_tpot_ms);
	set_value(plot, "e2e_slo", plan->slo_e2e_ms);
	set_value(plot, "attain_slo", plan->slo_attain);
	plot_set_number(plot, "has_slo", plan_has_request_limits(plan));
	set_limits(plot, &plan->limits);
	struct text header = {0};
	plan_probe_header(&header, &plan->limits);
	table_begin(table, plot->table, header.bytes);
	text_deinit(&header);
	for (uint64_t i = 0; i < plan->probe_count; i++) {
		const struct plan_probe *probe = &plan->probes[i];
		if (probe->configuration == 0 && probe->purpose != PROBE_SAMPLING &&
			probe->purpose != PROBE_MODEL) {
			plan_probe_write(table, plan->configurations[0].name, probe, &plan->limits);
		}
	}
	table_end(table);
	free(table);
}

static bool is_own_run(const struct plan_probe *probe)
{
	return probe->purpose != PROBE_ALONE && probe->purpose != PROBE_SAMPLING &&
	       probe->purpose != PROBE_MODEL;
}

/* A point of the Pareto figure: speed of a user, throughput of a GPU. */
struct point {
	double x, y;
};

static double larger(double one, double other)
{
	return one > other ? one : other;
}

/* The runs of the search that are no answers; their largest values are added to `most`. */
static void add_other_loads(struct plot *plot, const struct plan_file *plan, struct point *most)
{
	for (uint64_t i = 0; i < plan->probe_count; i++) {
		const struct plan_probe *probe = &plan->probes[i];
		const struct plan_configuration *one = &plan->configurations[probe->configuration];
		double replicas = probe->replicas.has_value ? probe->replicas.value : 1;
		double gpus = plan_gpus(one->gpus, replicas);
		if (is_own_run(probe) && probe->tpot_p50_ms.value > 0 && gpus > 0) {
			const struct point point = {1000 / probe->tpot_p50_ms.value,
				probe->output_tokens_per_s.value / gpus};
			fprintf(plot->table, "%u\t%.9g\t%.9g\t0\t0\t-\n", one->rank, point.x,
				point.y);
			*most = (struct point){larger(most->x, point.x), larger(most->y, point.y)};
		}
	}
}

/* What has both figures has a place in the figure. */
static bool has_place(const struct plan_configuration *one)
{
	return one->speed_per_user.has_value && one->throughput_per_gpu.has_value;
}

/* Whether ranks beside the two points would be written over each other: a rank is about 2 % of the
   figure wide and 5 % high. */
static bool is_near(const struct plan_configuration *one, const struct plan_configuration *other,
	const struct point *most)
{
	double x = one->speed_per_user.value - other->speed_per_user.value;
	double y = one->throughput_per_gpu.value - other->throughput_per_gpu.value;

	return has_place(one) && has_place(other) && x < 0.07 * most->x && x > -0.07 * most->x &&
	       y < 0.06 * most->y && y > -0.06 * most->y;
}

/* For each configuration the one beside whose point its rank is written: the first that is near and
   has a label, or itself. owners: (configuration_count). */
static void find_owners(const struct plan_file *plan, const struct point *most, uint32_t *owners)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		owners[i] = i;
		for (uint32_t j = 0; j < i && owners[i] == i; j++) {
			if (owners[j] == j &&
				is_near(&plan->configurations[i], &plan->configurations[j], most)) {
				owners[i] = j;
			}
		}
	}
}

/* The ranks beside a point and the end of its row. */
static void add_label(
	struct plot *plot, const struct plan_file *plan, const uint32_t *owners, uint32_t index)
{
	const char *comma = "";

	for (uint32_t i = index; i < plan->configuration_count; i++) {
		if (owners[i] == index && has_place(&plan->configurations[i])) {
			fprintf(plot->table, "%s%u", comma, plan->configurations[i].rank);
			comma = ", ";
		}
	}
	fprintf(plot->table, *comma == '\0' ? "-\n" : "\n");
}

/* Every answer, and the other runs of the same configurations. */
static void fill_pareto(struct plot *plot, const struct plan_file *plan)
{
	uint32_t *owners = memory_take(plan->configuration_count, sizeof(*owners));
	struct point most = {0, 0};

	fprintf(plot->table, "configuration\tspeed_per_user\tthroughput_per_gpu\tis_answer\t"
			     "is_front\tlabel\n");
	add_other_loads(plot, plan, &most);
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct plan_configuration *one = &plan->configurations[i];
		if (has_place(one)) {
			most.x = larger(most.x, one->speed_per_user.value);
			most.y = larger(most.y, one->throughput_per_gpu.value);
		}
	}
	find_owners(plan, &most, owners);
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct plan_configuration *one = &plan->configurations[i];
		if (!has_place(one)) {
			continue;
		}
		fprintf(plot->table, "%u\t%.9g\t%.9g\t1\t%d\t", one->rank,
			one->speed_per_user.value, one->throughput_per_gpu.value,
			one->on_pareto_front);
		add_label(plot, plan, owners, i);
	}
	free(owners);
}

/* The names of the configurations by their colours, which are as many; none of one alone. */
static uint32_t name_configurations(
	const struct plan_file *plan, struct text *names, const char **curves)
{
	uint32_t count =
		plan->configuration_count < COLORS_MAX ? plan->configuration_count : COLORS_MAX;

	if (plan->configuration_count < 2) {
		return 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct plan_configuration *one = &plan->configurations[i];
		text_format(&names[i], "%u. ", one->rank);
		text_add(&names[i], one->name);
		curves[i] = names[i].bytes;
	}
	return count;
}

#define PARETO_READING                                                                             \
	"Up is cheaper, to the right is faster. The line joins the configurations of which no "    \
	"other is better at both; numbers are ranks, those of near points beside the first."

#define SHARES "The bars are 95 % Wilson intervals; the scale stretches the last percent."
#define SHADES                                                                                     \
	" The shades are the intervals of the answer: of sampling, and of the model of step "      \
	"times."

#define LATENCY_PLOT                                                                               \
	{                                                                                          \
		"plan_latency.gp", "plan-latency", AGAINST("Latency"),                             \
			"Where a curve turns up, requests begin to wait for each other." SHADES,   \
			"Where a curve has come down, requests hardly wait for each other." SHADES \
	}

/* which: "were within the SLO"; where: what the curve does, and what that means */
#define CARRIED(which, where)                                                                      \
	"Requests a second that " which                                                            \
	", of those that were offered, or that there is capacity for if that is less. Where the "  \
	"curve " where
#define GOODPUT(which)                                                                             \
	{                                                                                          \
		"plan_goodput.gp", "plan-goodput", AGAINST("Goodput"),                             \
			CARRIED(which,                                                             \
				"leaves that of the offered ones, more load serves fewer users."), \
			CARRIED(which, "has reached that of the offered ones, more serves no "     \
				       "more users.")                                              \
	}

/* reading_least: where more makes it easier. */
struct load_plot {
	const char *script, *name, *titles[AXIS_COUNT], *reading, *reading_least;
};

#define OF_SUBMITTED "Of all requests that were submitted. " SHARES
#define OF_RUN "No request has a limit of its own: the SLO is of figures of the run. " SHARES

enum { LOAD_PLOTS = 3 };

/* curves: (curve_count) names of the configurations. */
static enum status add_plots(struct sheet *sheet, const struct plan_file *plan,
	const char *const *curves, uint32_t curve_count, struct error *error)
{
	static const struct load_plot of_limits[LOAD_PLOTS] = {
		{"plan_attained.gp", "plan-attained", AGAINST("Requests within the SLO"),
			OF_SUBMITTED, OF_SUBMITTED},
		LATENCY_PLOT, GOODPUT("were within the SLO")};
	static const struct load_plot of_finished[LOAD_PLOTS] = {
		{"plan_attained.gp", "plan-attained", AGAINST("Requests finished"), OF_RUN, OF_RUN},
		LATENCY_PLOT, GOODPUT("finished")};
	const struct load_plot *rows = plan_has_request_limits(plan) ? of_limits : of_finished;
	const uint32_t axis = knob_of(&plan->answer)->axis;
	struct page_plot pareto = {.name = "plan-pareto",
		.title = "Throughput of a GPU against speed of a user",
		.curves = curves,
		.curve_count = curve_count,
		.reading = PARETO_READING};
	struct plot *plot;

	for (uint32_t i = 0; i < LOAD_PLOTS; i++) {
		struct page_plot shown = {.name = rows[i].name, .title = rows[i].titles[axis]};
		shown.reading = plan->answer.is_least ? rows[i].reading_least : rows[i].reading;
		TRY(sheet_add(sheet, &shown, rows[i].script, &plot, error));
		fill_load_plot(plot, plan);
	}
	if (plan->configuration_count > COLORS_MAX) {
		pareto.reading = PARETO_READING " Behind the eighth the colours begin again.";
	}
	TRY(sheet_add(sheet, &pareto, "plan_pareto.gp", &plot, error));
	fill_pareto(plot, plan);
	return sheet_draw(sheet, error);
}

enum status report_plan(const char *directory, const struct json_object *defaults,
	struct text *page, struct error *error)
{
	struct plan_file plan;
	struct text names[COLORS_MAX] = {{0}};
	const char *curves[COLORS_MAX] = {NULL};
	struct sheet *sheet = memory_take(1, sizeof(*sheet));

	enum status status = plan_file_open(&plan, directory, error);
	if (status == STATUS_OK) {
		uint32_t count = name_configurations(&plan, names, curves);
		status = add_plots(sheet, &plan, curves, count, error);
	}
	if (status == STATUS_OK) {
		struct page_sheet parts = sheet_page(sheet, defaults);
		status = page_plan_write(page, &plan, &parts, error);
	}
	for (uint32_t i = 0; i < COLORS_MAX; i++) {
		text_deinit(&names[i]);
	}
	sheet_close(sheet);
	free(sheet);
	plan_file_close(&plan);
	return status;
}
