#include "reports/page/page_plan.h"

#include "reports/page/page_elements.h"

#include <string.h>

static void add_cell(struct text *page, enum number_format format, struct result_value value)
{
	text_add(page, "<td>");
	text_add_number(page, format, value.has_value, value.value);
	text_add(page, "</td>");
}

/* ---- configurations ---- */

/* The largest value or interval end, the right end of all bars. */
static double largest_goodput(const struct plan_file *plan)
{
	double most = 0;

	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct plan_configuration *one = &plan->configurations[i];
		const struct result_value ends[] = {
			one->goodput_per_gpu, one->goodput_per_gpu_interval.high};
		for (uint32_t j = 0; j < 2; j++) {
			most = ends[j].has_value && ends[j].value > most ? ends[j].value : most;
		}
	}
	return most;
}

static void add_goodput_bar(struct text *page, const struct plan_configuration *one, double most)
{
	const struct plan_interval *interval = &one->goodput_per_gpu_interval;

	text_add(page, "<td class=\"picture\">");
	if (one->goodput_per_gpu.has_value && most > 0) {
		const struct result_value value = {true, 100 * one->goodput_per_gpu.value / most};
		page_interval_bar(page, "sampling", interval, 100 * interval->low.value / most,
			100 * interval->high.value / most, value);
	}
	text_add(page, "</td>");
}

/* "0.91 (0.85 to 0.97)" */
static void add_against(struct text *page, const struct plan_configuration *one)
{
	const struct plan_interval *interval = &one->against_best_interval;
	const struct plan_interval value = {one->against_best, one->against_best};
	struct text number = {0};

	text_add(page, "<td>");
	text_add_number(&number, NUMBER_RATE, one->against_best.has_value, one->against_best.value);
	if (strcmp(number.bytes, "1.00") == 0 && one->against_best.value != 1) {
		plan_add_ratio(page, &value);
	} else {
		text_add(page, number.bytes);
	}
	text_deinit(&number);
	if (interval->low.has_value && interval->high.has_value) {
		text_add(page, "<br><small>");
		plan_add_ratio(page, interval);
		text_add(page, "</small>");
	}
	text_add(page, "</td>");
}

static void add_same(struct text *page, const struct plan_configuration *one)
{
	const cJSON *name = NULL;
	bool is_first = true;

	text_add(page, "<td class=\"words\">");
	cJSON_ArrayForEach(name, one->same_as)
	{
		text_add(page, is_first ? "" : ", ");
		text_add_escaped(page, name->valuestring);
		is_first = false;
	}
	text_add(page, is_first ? "\u2013</td>" : "</td>");
}

static void add_pass(struct text *page, const struct plan_configuration *one)
{
	struct result_value pass = plan_answer_pass(&one->answer);

	text_add(page, "<td>");
	if (pass.has_value) {
		page_load(page, &one->answer, pass.value);
	} else {
		text_add(page, "no load");
	}
	text_add(page, "</td>");
}

/* Whether the plan was asked for a cost. */
static bool has_cost(const struct plan_file *plan)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		if (plan->configurations[i].answer.cost_per_million_tokens.has_value) {
			return true;
		}
	}
	return false;
}

/* Whether any two were compared on draws: without replicates there are none. */
static bool has_ratio(const struct plan_file *plan)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct plan_interval *ratio = &plan->configurations[i].against_best_interval;
		if (ratio->low.has_value || ratio->high.has_value) {
			return true;
		}
	}
	return false;
}

static void add_configuration(
	struct text *page, const struct plan_configuration *one, double most, bool is_priced)
{
	text_format(page, "<tr><th scope=\"row\">%u. ", one->rank);
	text_add_escaped(page, one->name);
	if (one->options[0] != '\0' && strcmp(one->options, one->name) != 0) {
		text_add(page, "<small>");
		text_add_escaped(page, one->options);
		text_add(page, "</small>");
	}
	text_add(page, "<small>priced by ");
	text_add_escaped(page, one->profile);
	text_add(page, one->is_calibrated
			       ? "</small></th>"
			       : " <span class=\"badge\">uncalibrated</span></small></th>");
	add_pass(page, one);
	add_cell(page, NUMBER_COUNT, (struct result_value){.has_value = true, .value = one->gpus});
	add_cell(page, NUMBER_RATE, one->goodput_per_gpu);
	add_goodput_bar(page, one, most);
	add_against(page, one);
	add_same(page, one);
	add_cell(page, NUMBER_SHARE, one->utilisation);
	add_cell(page, NUMBER_RATE, one->throughput_per_gpu);
	add_cell(page, NUMBER_RATE, one->speed_per_user);
	text_add(page, one->on_pareto_front ? "<td>yes</td>" : "<td>\u2013</td>");
	if (is_priced) {
		add_cell(page, NUMBER_RATE, one->answer.cost_per_million_tokens);
	}
	text_add(page, "<td class=\"words\">");
	text_add_escaped(page, one->answer.binding);
	text_add(page, "</td></tr>\n");
}

void page_plan_configurations(struct text *page, const struct plan_file *plan)
{
	static const char *const titles[] = {"Configuration", "Passes at", "GPUs a replica",
		"Goodput a GPU", "95\u00a0% interval", "Of the best", "Does not differ from",
		"Utilisation", "Output tokens/s a GPU", "Tokens/s a user", "Pareto front",
		"Cost of a million tokens", "What binds"};
	double most = largest_goodput(plan);
	bool is_priced = has_cost(plan);
	enum { COST_COLUMN = 11 };
	struct text note = {0};

	if (plan->configuration_count < 2) {
		return;
	}
	text_add(&note, plan->answer.is_least
				? "Ranked by the GPUs that they need; of equal ones the one with "
				  "more head room is first."
				: "Ranked by goodput (requests/s within the SLO) a GPU.");
	if (has_ratio(plan)) {
		text_add(&note, " All are compared on the same draws of the trace: two do not "
				"differ where the interval of their ratio holds 1, or lies within "
				"0.1\u00a0% of it.");
	}
	page_table_open(page, "configurations", "Configurations", note.bytes);
	text_deinit(&note);
	text_add(page, "<thead><tr>");
	for (uint32_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		if (i != COST_COLUMN || is_priced) {
			text_format(page, "<th scope=\"col\">%s</th>", titles[i]);
		}
	}
	text_add(page, "</tr></thead>\n<tbody>\n");
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		add_configuration(page, &plan->configurations[i], most, is_priced);
	}
	page_table_close(page);
}

/* ---- runs of the search ---- */

/* Beyond, the page would be too large to send; plan.tsv has all. */
enum { PROBES_SHOWN_MAX = 2000 };

static void add_probe(
	struct text *page, const struct plan_file *plan, const struct plan_probe *probe)
{
	static const char *const verdicts[] = {
#define VERDICT_NAME(name, text) text,
		VERDICT_LIST(VERDICT_NAME)
#undef VERDICT_NAME
	};
	bool has_load = probe->load.has_value;

	text_add(page, "<tr><th scope=\"row\">");
	if (has_load) {
		page_load(page, &plan->answer, probe->load.value);
	} else {
		text_add(page, "\u2013");
	}
	text_add(page, "</th><td class=\"words\">");
	if (plan->configuration_count > 1) {
		text_add_escaped(page, plan->configurations[probe->configuration].name);
		text_add(page, "</td><td class=\"words\">");
	}
	text_add(page, probe_purposes[probe->purpose]);
	text_add(page, "</td>");
	add_cell(page, NUMBER_COUNT, probe->replicate);
	add_cell(page, NUMBER_RATE, probe->step_time_scale);
	add_cell(page, NUMBER_COUNT, probe->replicas);
	add_cell(page, NUMBER_RATE, probe->offered_requests_per_s);
	add_cell(page, NUMBER_SHARE, probe->attained);
	add_cell(page, NUMBER_RATE, probe->goodput_requests_per_s);
	add_cell(page, NUMBER_RATE, probe->output_tokens_per_s);
	add_cell(page, NUMBER_TIME_MS, probe->ttft_p50_ms);
	add_cell(page, NUMBER_TIME_MS, probe->ttft_p99_ms);
	add_cell(page, NUMBER_TIME_MS, probe->tpot_p50_ms);
	add_cell(page, NUMBER_TIME_MS, probe->tpot_p99_ms);
	add_cell(page, NUMBER_SHARE, probe->hit_rate);
	add_cell(page, NUMBER_COUNT, probe->preemptions);
	add_cell(page, NUMBER_SHARE, probe->utilisation);
	text_format(page, "<td>%s</td>", probe->has_verdict ? verdicts[probe->verdict] : "\u2013");
	for (uint32_t i = 0; i < plan->limits.count; i++) {
		add_cell(page, plan->limits.list[i].metric->format, probe->limits[i]);
	}
	if (probe->failure != NULL) {
		text_add(page, "<td class=\"words\">not run: ");
		text_add_escaped(page, probe->failure);
		text_add(page, "</td></tr>\n");
		return;
	}
	text_add(page, !probe->passes.has_value	 ? "<td>\u2013</td></tr>\n"
		       : probe->passes.value > 0 ? "<td class=\"better\">passes</td></tr>\n"
						 : "<td class=\"worse\">fails</td></tr>\n");
}

void page_plan_probes(struct text *page, const struct plan_file *plan)
{
	static const char *const titles[] = {"Load", "Configuration", "Purpose", "Replicate",
		"Step time \u00d7", "Replicas", "Requests/s offered", "Within the SLO",
		"Goodput, requests/s", "Output tokens/s", "TTFT, median", "TTFT, p99",
		"TPOT, median", "TPOT, p99", "Hit rate", "Preemptions", "Utilisation", "Verdict"};
	enum { SHARE_COLUMN = 7 };
	uint64_t shown =
		plan->probe_count < PROBES_SHOWN_MAX ? plan->probe_count : PROBES_SHOWN_MAX;

	text_format(page,
		"<section id=\"probes\">\n<h2>Runs of the search</h2>\n<details><summary>%llu "
		"runs, "
		"in the order of plan.tsv",
		(unsigned long long)plan->probe_count);
	if (shown < plan->probe_count) {
		text_format(page, ", the first %llu of them", (unsigned long long)shown);
	}
	text_add(page, "</summary>\n<p class=\"note\">Each is made again by quire replay with the "
		       "options of its row in plan.tsv. Replicate 0 is the trace itself.");
	if (plan_answer_pass(&plan->answer).has_value) {
		text_add(page, " Goodput and output tokens/s here are of the whole run, until its "
			       "last answer; those of the answer above are at the load that is "
			       "offered, or that there is capacity for if that is less.");
	}
	text_add(page, "</p>\n<div class=\"scroll\">\n<table>\n<thead><tr>");
	for (uint32_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		if (i != 1 || plan->configuration_count > 1) {
			text_format(page, "<th scope=\"col\">%s</th>",
				i == SHARE_COLUMN && !plan_has_request_limits(plan) ? "Finished"
										    : titles[i]);
		}
	}
	for (uint32_t i = 0; i < plan->limits.count; i++) {
		text_format(page, "<th scope=\"col\">%s</th>", plan->limits.list[i].metric->name);
	}
	text_add(page, "<th scope=\"col\">SLO</th>");
	text_add(page, "</tr></thead>\n<tbody>\n");
	for (uint64_t i = 0; i < shown; i++) {
		add_probe(page, plan, &plan->probes[i]);
	}
	page_rows_close(page);
	text_add(page, "</details>\n</section>\n");
}
