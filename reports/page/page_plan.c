#include "reports/page/page_plan.h"

#include "engine/base/number.h"
#include "reports/page/page.h"
#include "reports/page/page_elements.h"
#include "reports/page/page_sections.h"

#include <string.h>

void page_load(struct text *page, const struct plan_answer *answer, double value)
{
	bool is_factor = strcmp(answer->vary, "speedup") == 0;
	bool is_whole = !is_factor && strcmp(answer->vary, "rate") != 0;

	if (is_whole || value >= 1000) {
		text_add_number(page, NUMBER_COUNT, true, value);
	} else {
		text_format(page, "%.4g", value); /* a search ends at less than 1 % */
	}
	if (is_factor) {
		text_add(page, "\u00d7");
	} else if (answer->unit[0] != '\0') {
		text_add(page, "\u00a0");
		text_add_escaped(page, plan_answer_unit(answer, value));
	}
}

static void add_value(struct text *page, enum number_format format, struct result_value value)
{
	text_add_number(page, format, value.has_value, value.value);
}

/* ---- the answer ---- */

static void add_bounds(struct text *page, const struct plan_answer *answer)
{
	struct result_value pass = plan_answer_pass(answer), fail = plan_answer_fail(answer);

	if (pass.has_value) {
		text_add(page, "Passes: ");
		page_load(page, answer, pass.value);
		text_add(page, answer->is_bound ? ", and more was not tried. " : ". ");
	}
	if (fail.has_value) {
		text_add(page, "Fails: ");
		page_load(page, answer, fail.value);
		text_add(page, ". ");
	}
}

static void add_answer(struct text *page, const struct plan_file *plan)
{
	const struct plan_answer *answer = &plan->answer;
	bool has_pass = plan_answer_pass(answer).has_value;

	text_format(page, "<section id=\"answer\" class=\"verdict %s\" aria-label=\"Answer\">\n",
		has_pass ? "stable" : "overloaded");
	text_add(page, "<p class=\"sentence\">");
	text_add_escaped(page, answer->sentence);
	text_add(page, "</p>\n<p class=\"facts\">");
	add_bounds(page, answer);
	if (plan->slo_text[0] != '\0' && strstr(answer->sentence, plan->slo_text) == NULL) {
		text_add(page, "SLO: ");
		text_add_escaped(page, plan->slo_text);
		text_add(page, ".");
	}
	text_add(page, "</p>\n</section>\n");
}

/* ---- the two intervals ---- */

/* Where a value stands on the common scale of both bars, in percent. */
static double place_of(double value, double low, double high)
{
	double share = high > low ? (value - low) / (high - low) : 0.5;

	return 100 * (share < 0 ? 0 : share > 1 ? 1 : share);
}

/* "1× to 3×"; once where both ends read the same. */
static void add_ends(
	struct text *page, const struct plan_answer *answer, const struct plan_interval *interval)
{
	struct text low = {0}, high = {0};

	text_add(&low, interval->low.has_value ? "" : "open");
	text_add(&high, interval->high.has_value ? "" : "open");
	if (interval->low.has_value) {
		page_load(&low, answer, interval->low.value);
	}
	if (interval->high.has_value) {
		page_load(&high, answer, interval->high.value);
	}
	if (strcmp(low.bytes, high.bytes) != 0) {
		text_add(page, low.bytes);
		text_add(page, " to ");
	}
	text_add(page, high.bytes);
	text_deinit(&low);
	text_deinit(&high);
}

static bool is_known(const struct plan_interval *interval)
{
	return interval->low.has_value || interval->high.has_value;
}

void page_interval_bar(struct text *page, const char *name, const struct plan_interval *interval,
	double low, double high, struct result_value value)
{
	bool has_low = interval->low.has_value, has_high = interval->high.has_value;

	text_format(page, "<span class=\"interval %s\">", name);
	if (has_low || has_high) {
		double from = has_low ? low : 0, to = has_high ? high : 100;
		text_format(page, "<i%s style=\"left:%.1f%%;width:%.1f%%\"></i>",
			!has_low    ? " class=\"no-low\""
			: !has_high ? " class=\"no-high\""
				    : "",
			from, to - from);
	}
	if (value.has_value) {
		text_format(page, "<b style=\"left:%.1f%%\"></b>", value.value);
	}
	text_add(page, "</span>");
}

static void add_interval(struct text *page, const struct plan_answer *answer, const char *name,
	const char *title, const struct plan_interval *interval, double low, double high)
{
	struct result_value pass = plan_answer_pass(answer);

	text_format(page, "<tr><th scope=\"row\">%s</th><td>", title);
	if (!is_known(interval)) {
		text_add(page, "\u2013</td><td class=\"picture\"></td><td class=\"words\">");
		return;
	}
	add_ends(page, answer, interval);
	text_add(page, "</td><td class=\"picture\">");
	pass.value = place_of(pass.value, low, high);
	page_interval_bar(page, name, interval, place_of(interval->low.value, low, high),
		place_of(interval->high.value, low, high), pass);
	text_add(page, "</td><td class=\"words\">");
}

/* The smallest and largest end of both, so that the bars have one scale. */
static void find_scale(const struct plan_answer *answer, double *low, double *high)
{
	const struct result_value values[] = {answer->sampling.interval.low,
		answer->sampling.interval.high, answer->model.interval.low,
		answer->model.interval.high, plan_answer_pass(answer)};
	bool is_first = true;

	for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		double value = values[i].value;
		if (values[i].has_value) {
			*low = is_first || value < *low ? value : *low;
			*high = is_first || value > *high ? value : *high;
			is_first = false;
		}
	}
	double margin = (*high - *low) * 0.08;
	*low -= margin;
	*high += margin;
}

static void add_intervals(struct text *page, const struct plan_answer *answer)
{
	double low = 0, high = 0;

	/* Where an answer's interval cannot be told, the text says why. */
	bool has_pass = plan_answer_pass(answer).has_value;
	bool has_sampling = is_known(&answer->sampling.interval) ||
			    (has_pass && answer->sampling.text[0] != '\0');
	bool has_model =
		is_known(&answer->model.interval) || (has_pass && answer->model.text[0] != '\0');

	if (!has_sampling && !has_model) {
		return;
	}
	find_scale(answer, &low, &high);
	text_add(page,
		"<section id=\"intervals\">\n<h2>How sure that is</h2>\n<p class=\"note\">Two "
		"separate doubts: another stretch of the same traffic, and step times that are "
		"off. The line in each bar is the answer.</p>\n<div class=\"scroll\">\n"
		"<table class=\"intervals\"><tbody>\n");
	if (has_sampling) {
		add_interval(page, answer, "sampling", "Sampling, 95\u00a0%",
			&answer->sampling.interval, low, high);
		text_add_escaped(page, answer->sampling.text);
		text_add(page, "</td></tr>\n");
	}
	if (has_model) {
		add_interval(page, answer, "model", "Model of step times", &answer->model.interval,
			low, high);
		text_add_escaped(page, answer->model.text);
		text_add(page,
			answer->model.is_guess ? " <span class=\"badge\">a guess</span>" : "");
		text_add(page, "</td></tr>\n");
	}
	page_table_close(page);
}

/* ---- key figures ---- */

static void add_card(struct text *page, const char *title, enum number_format format,
	struct result_value value, const char *unit)
{
	if (!value.has_value) {
		return;
	}
	page_card_open(page, title, "");
	text_add_number(page, format, true, value.value);
	text_add(page, "<small>");
	text_add(page, unit);
	text_add(page, "</small>");
	page_card_close(page);
}

static void add_gpu_card(struct text *page, const struct plan_answer *answer)
{
	if (!answer->gpus.has_value) {
		return;
	}
	page_card_open(page, "GPUs", "");
	add_value(page, NUMBER_COUNT, answer->gpus);
	text_add(page, "<small>");
	if (answer->replicas.has_value) {
		text_add_count(page, (uint64_t)answer->replicas.value, "replica", "replicas");
	}
	if (answer->spare.has_value && answer->spare.value > 0) {
		text_add(page, "; the SLO holds with ");
		add_value(page, NUMBER_COUNT, answer->spare);
		text_add(page, " lost");
	}
	text_add(page, "</small>");
	page_card_close(page);
}

static void add_cost_card(struct text *page, const struct plan_answer *answer)
{
	if (!answer->cost_per_million_tokens.has_value) {
		return;
	}
	page_card_open(page, "Cost of a million tokens", "");
	add_value(page, NUMBER_RATE, answer->cost_per_million_tokens);
	text_add(page, "<small>output tokens, in the unit of --cost-per-gpu-hour ");
	add_value(page, NUMBER_RATE, answer->currency_per_gpu_hour);
	text_add(page, "</small>");
	page_card_close(page);
}

static void add_cards(struct text *page, const struct plan_file *plan)
{
	const struct plan_answer *answer = &plan->answer;
	bool has_slo = plan_has_request_limits(plan);

	if (!plan_answer_pass(answer).has_value) {
		return; /* what they describe is the load that passes */
	}
	text_add(page, "<section aria-label=\"Key figures\">\n<dl class=\"cards\">\n");
	add_gpu_card(page, answer);
	add_cost_card(page, answer);
	add_card(page, has_slo ? "Requests within the SLO" : "Requests finished", NUMBER_SHARE,
		answer->attained, "with what passes");
	add_card(page, "Requests offered", NUMBER_RATE, answer->offered_requests_per_s, "a second");
	add_card(page, "Goodput", NUMBER_RATE, answer->goodput_requests_per_s,
		has_slo ? "requests/s within the SLO, of those offered"
			: "requests/s that finish, of those offered");
	add_card(page, "Output", NUMBER_RATE, answer->output_tokens_per_s, "tokens/s");
	add_card(page, "Priced outside the profile", NUMBER_SHARE, answer->outside_share,
		"of the step time: steps unlike those that the profile was measured on");
	text_add(page, "</dl>\n</section>\n");
}

/* ---- why not more ---- */

static void add_stretches(struct text *page, const struct plan_answer *answer)
{
	for (uint32_t i = 0; i < answer->stretch_count; i++) {
		text_add(page, i == 0 ? "<li>Not every lower load passes: " : "; ");
		page_load(page, answer, answer->stretches[i].from);
		if (answer->stretches[i].to > answer->stretches[i].from) {
			text_add(page, " to ");
			page_load(page, answer, answer->stretches[i].to);
		}
		text_add(page, " fails");
	}
	text_add(page, answer->stretch_count > 0 ? ".</li>\n" : "");
}

static void add_alone(struct text *page, const struct plan_answer *answer)
{
	if (!answer->alone.requests.has_value || !answer->alone.misses.has_value) {
		return;
	}
	text_add(page, "<li>One request at a time, ");
	add_value(page, NUMBER_COUNT, answer->alone.misses);
	text_add(page, " of ");
	text_add_count(page, (uint64_t)answer->alone.requests.value, "request ", "requests ");
	text_add(page, word_of_count((uint64_t)answer->alone.misses.value, "misses", "miss"));
	text_add(page, " the SLO");
	if (answer->alone.misses.value > 0) {
		text_format(page, ": no number of GPUs helps %s",
			word_of_count((uint64_t)answer->alone.misses.value, "it", "those"));
	}
	if (answer->alone.longest_tokens.has_value) {
		text_add(page, "; the longest prompt has ");
		text_add_count(
			page, (uint64_t)answer->alone.longest_tokens.value, "token", "tokens");
	}
	text_add(page, ".</li>\n");
}

static void add_item(struct text *page, const char *title, const char *sentence)
{
	if (sentence[0] != '\0') {
		text_format(page, "<li>%s", title);
		text_add_escaped(page, sentence);
		text_add(page, "</li>\n");
	}
}

static void add_reasons(struct text *page, const struct plan_answer *answer)
{
	text_format(page, "<section id=\"why\">\n<h2>%s</h2>\n<ul class=\"reasons\">\n",
		answer->is_least ? "Why not fewer" : "Why not more");
	add_item(page, "What binds: ", answer->binding_text);
	add_item(page, "What fails next: ", answer->why_not_more);
	add_item(page, "The trace is short: ", answer->short_trace);
	add_item(page, "Sessions are squeezed: ", answer->early_turns);
	add_item(page, "The router has nothing to go by: ", answer->router_note);
	add_stretches(page, answer);
	add_alone(page, answer);
	text_add(page, "</ul>\n</section>\n");
}

/* ---- the page ---- */

static void add_run_line(struct text *page, const struct plan_file *plan)
{
	static const char *const fields[] = {"model", "gpu", "policy"};
	static const char *const words[] = {
		"<strong>", "</strong> on <strong>", "</strong> (policy "};

	/* Groups of a fleet have profiles of their own, which config.gpu does not name. */
	const cJSON *fleet = json_find(&plan->config, "fleet");
	bool has_fleet = cJSON_IsString(fleet) && strcmp(fleet->valuestring, "none") != 0;

	text_add(page, "<p class=\"run\">");
	for (uint32_t i = 0; i < 3; i++) {
		const cJSON *node = json_find(&plan->config, fields[i]);
		text_add(page, words[i]);
		if (strcmp(fields[i], "gpu") == 0 && has_fleet) {
			text_add_escaped(page, plan->configurations[0].profile);
			continue;
		}
		text_add_escaped(page, cJSON_IsString(node) ? node->valuestring : "?");
	}
	text_add(page, "), trace <strong>");
	text_add_escaped(page, plan->trace_name);
	text_add(page, "</strong> of ");
	add_value(page, NUMBER_COUNT, plan->trace_requests);
	text_add(
		page, word_of_count((uint64_t)plan->trace_requests.value, " request", " requests"));
	if (plan->made_by[0] != '\0') {
		text_add(page, ", made by <code>");
		text_add_escaped(page, plan->made_by);
		text_add(page, "</code>");
	}
	text_add(page, plan->is_calibrated ? "</p>\n"
					   : " <span class=\"badge\">uncalibrated</span></p>\n");
}

static void add_head(struct text *page, const struct plan_file *plan, const char *style)
{
	const struct page_link links[] = {{"answer", "Answer"},
		{"why", plan->answer.is_least ? "Why not fewer" : "Why not more"},
		{"figures", "Figures"}, {"probes", "Runs"}, {"configuration", "Configuration"},
		{plan->configuration_count > 1 ? "configurations" : NULL, "Configurations"},
		{NULL, NULL}};

	page_open_titled(page, "Capacity plan", plan->trace_name, "plan", style);
	add_run_line(page, plan);
	page_contents(page, links);
}

static void add_cautions(struct text *page, const struct plan_file *plan)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		page_note(page, plan->configurations[i].name, plan->configurations[i].profile_note);
		if (plan->configurations[i].is_beyond_memory) {
			text_add(page, "<p class=\"caution\">");
			text_add_escaped(page, plan->configurations[i].name);
			text_add(page, ": it is assumed to have more KV blocks than the GPU\u2019s "
				       "memory has room for.</p>\n");
		}
	}
}

enum status page_plan_write(struct text *page, const struct plan_file *plan,
	const struct page_sheet *sheet, struct error *error)
{
	struct text name = {0};

	add_head(page, plan, sheet->style);
	if (!plan->is_complete) {
		text_format(page,
			"<p class=\"banner\" role=\"alert\"><strong>%s</strong> The search %s; "
			"the answer is what was known by then, a bound.</p>\n",
			plan->is_failed ? "failed" : "interrupted",
			plan->is_failed ? "could not go on" : "was stopped by hand");
	}
	add_answer(page, plan);
	add_intervals(page, &plan->answer);
	add_cards(page, plan);
	if (!plan->is_calibrated) {
		page_caution(page);
	}
	add_cautions(page, plan);
	add_reasons(page, &plan->answer);
	TRY(page_plots(page, sheet->plots, sheet->plot_count, error));
	page_plan_configurations(page, plan);
	page_plan_probes(page, plan);
	page_one_configuration(page, &plan->config, &sheet->defaults);
	page_one_provenance(page, &plan->provenance);
	page_folder_name(&name, plan->directory);
	page_close(page, name.bytes, "plan", plan->root.node, plan->provenance.root, sheet->script);
	text_deinit(&name);
	return STATUS_OK;
}
