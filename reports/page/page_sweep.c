#include "reports/page/page.h"

#include "engine/base/number.h"
#include "reports/page/page_elements.h"
#include "reports/page/page_sections.h"

#include <float.h>
#include <string.h>

/* More rows are folded away, and beyond the second limit left to sweep.tsv. */
enum { OPEN_ROWS_MAX = 40, SHOWN_ROWS_MAX = 2000 };

static uint32_t count_of(const struct sweep_file *sweep, enum sweep_run_status status)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		count += sweep->runs[i].status == status;
	}
	return count;
}

static void add_parameters(struct text *page, const struct sweep_file *sweep)
{
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		const struct sweep_parameter *parameter = &sweep->parameters[i];
		text_add(page, i == 0 ? "over <strong>" : ", <strong>");
		text_add_escaped(page, parameter->name);
		text_add(page, "</strong> (");
		text_add_count(page, parameter->value_count, "value)", "values)");
	}
}

/* "; SLO: TTFT 50.0 ms, TPOT 10.0 ms". */
static void add_slo(struct text *page, const struct sweep_file *sweep)
{
	const struct {
		const char *word;
		const struct result_value *limit;
	} limits[] = {{"TTFT ", &sweep->slo_ttft_ms}, {"TPOT ", &sweep->slo_tpot_ms},
		{"E2E ", &sweep->slo_e2e_ms}};
	const char *before = "; SLO: ";

	for (uint32_t i = 0; i < 3; i++) {
		if (limits[i].limit->has_value) {
			text_add(page, before);
			text_add(page, limits[i].word);
			text_add_number(page, NUMBER_TIME_MS, true, limits[i].limit->value);
			before = ", ";
		}
	}
}

static void add_head(struct text *page, const struct sweep_file *sweep, const char *style)
{
	static const struct page_link links[] = {{"figures", "Figures"}, {"runs", "Runs"},
		{"configuration", "Configuration"}, {NULL, NULL}};

	page_open_titled(page, "Sweep", sweep->trace_name, "sweep", style);
	text_add(page, "<p class=\"run\">");
	text_add_count(page, sweep->run_count, "run ", "runs ");
	add_parameters(page, sweep);
	text_add(page, "; trace of ");
	text_add_number(
		page, NUMBER_COUNT, sweep->trace_requests.has_value, sweep->trace_requests.value);
	text_add(page,
		word_of_count((uint64_t)sweep->trace_requests.value, " request", " requests"));
	add_slo(page, sweep);
	text_add(page, "</p>\n");
	page_contents(page, links);
}

static void add_banner(struct text *page, const struct sweep_file *sweep)
{
	uint32_t missing = count_of(sweep, SWEEP_RUN_MISSING);
	uint32_t failed = count_of(sweep, SWEEP_RUN_FAILED);

	if (missing > 0) {
		text_format(page,
			"<p class=\"banner\" role=\"alert\"><strong>interrupted</strong> %u of %u "
			"%s %s missing; the same command goes on where it stopped.</p>\n",
			missing, sweep->run_count, word_of_count(sweep->run_count, "run", "runs"),
			word_of_count(missing, "is", "are"));
	}
	if (failed > 0) {
		text_format(page,
			"<p class=\"banner\" role=\"alert\"><strong>failed</strong> %u of %u %s "
			"failed; the table says why.</p>\n",
			failed, sweep->run_count, word_of_count(sweep->run_count, "run", "runs"));
	}
}

/* Whether a run before it has the same GPU and KV blocks. */
static bool is_said(const struct sweep_file *sweep, uint32_t index)
{
	const struct sweep_run *own = &sweep->runs[index];

	for (uint32_t i = 0; i < index; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->is_beyond_memory && !(run->kv_blocks.value < own->kv_blocks.value) &&
			!(run->kv_blocks.value > own->kv_blocks.value) &&
			strcmp(run->gpu, own->gpu) == 0) {
			return true;
		}
	}
	return false;
}

/* The first runs that assume a larger memory, once a number of KV blocks. */
static void add_beyond_memory(struct text *page, const struct sweep_file *sweep)
{
	enum { SAID_MAX = 8 };
	uint32_t said = 0, beyond = 0;

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		beyond += run->is_beyond_memory;
		if (!run->is_beyond_memory || said == SAID_MAX || is_said(sweep, i)) {
			continue;
		}
		text_add(page, said++ == 0
				       ? "<p class=\"caution\" id=\"beyond\">Assumed to have "
					 "more KV blocks than the GPU\u2019s memory has room for: "
				       : "; ");
		text_add_number(page, NUMBER_COUNT, run->kv_blocks.has_value, run->kv_blocks.value);
		text_add(page, " on ");
		text_add_escaped(page, run->gpu);
		text_add(page, ", whose memory holds ");
		text_add_number(page, NUMBER_COUNT, true, run->found_kv_blocks);
	}
	if (beyond > 0) {
		text_format(page, " (%u of %u %s, marked red in the table).</p>\n", beyond,
			sweep->run_count, word_of_count(sweep->run_count, "run", "runs"));
	}
}

/* Runs whose pools only look alike; whether there are any. */
static bool add_unlike_pools(struct text *page, const struct sweep_file *sweep)
{
	struct text pools = {0};
	bool is_there = sweep_add_unlike_pools(sweep, &pools);

	if (is_there) {
		text_add(page, "<p class=\"caution\" id=\"pools\">");
		text_add_escaped(page, pools.bytes);
		text_add(page, ": --block-size gives all runs blocks of one size.</p>\n");
	}
	text_deinit(&pools);
	return is_there;
}

static void add_overloaded(struct text *page, const struct sweep_file *sweep)
{
	uint32_t overloaded = sweep_count(sweep, sweep_is_overloaded);

	if (overloaded > 0) {
		text_format(page,
			"<p class=\"caution\" id=\"overloaded\"><span class=\"badge\">overloaded"
			"</span> %u of %u %s. More arrived than the engine served: latencies, "
			"goodput and shares within the SLO only reflect the length of the trace, "
			"throughput is what the engine can do.</p>\n",
			overloaded, sweep->run_count,
			word_of_count(sweep->run_count, "run", "runs"));
	}
}

/* Says whose times are an estimate: of all runs, or of those that the table names. Returns whether
   it is of some. */
static bool add_uncalibrated(struct text *page, const struct sweep_file *sweep)
{
	uint32_t uncalibrated = sweep_count(sweep, sweep_is_uncalibrated);
	uint32_t complete = count_of(sweep, SWEEP_RUN_COMPLETE);

	if (uncalibrated == complete) {
		if (complete > 0) {
			page_caution(page);
		}
		return false;
	}
	if (uncalibrated > 0) {
		text_format(page,
			"<p class=\"caution\" id=\"uncalibrated\"><span class=\"badge\">"
			"uncalibrated</span> %u of %u %s, marked in the table. Their times come "
			"from a cost model that was not checked against a run on that GPU: they "
			"are an estimate.</p>\n",
			uncalibrated, sweep->run_count,
			word_of_count(sweep->run_count, "run", "runs"));
	}
	return uncalibrated > 0;
}

/* Whether any run has a value of a metric. */
static bool has_metric(const struct sweep_file *sweep, uint32_t index)
{
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		if (sweep->runs[i].metrics[index].has_value) {
			return true;
		}
	}
	return false;
}

static double fewest_rejected(const struct sweep_file *sweep)
{
	double fewest = DBL_MAX;

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->status == SWEEP_RUN_COMPLETE && sweep_rejected(run) < fewest) {
			fewest = sweep_rejected(run);
		}
	}
	return fewest;
}

/* Which runs a best one is of: those that rejected fewest requests, since the others have the
   figures of an easier load, and of these those that kept up. */
struct candidates {
	double fewest_rejected;
	bool keep_up; /* some of them did */
};

static struct candidates find_candidates(const struct sweep_file *sweep)
{
	struct candidates candidates = {.fewest_rejected = fewest_rejected(sweep)};

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		candidates.keep_up |=
			sweep_keeps_up(run) && sweep_rejected(run) <= candidates.fewest_rejected;
	}
	return candidates;
}

/* Where the load is too much, figures of single requests only reflect the length of the trace. */
static bool is_of_requests(uint32_t index)
{
	const struct metric *metric = metric_find(sweep_metrics[index]);

	return metric >= &metrics_table[RESULT_NUMBER_COUNT] ||
	       metric == &metrics_table[VALUE_SLO_ATTAINED] ||
	       metric == &metrics_table[VALUE_SLO_GOODPUT];
}

static bool is_candidate(
	const struct sweep_run *run, uint32_t index, const struct candidates *candidates)
{
	return run->metrics[index].has_value &&
	       sweep_rejected(run) <= candidates->fewest_rejected &&
	       (candidates->keep_up ? sweep_keeps_up(run) : !is_of_requests(index));
}

/* The best value of a metric, where more or less is better. */
static bool find_best(const struct sweep_file *sweep, uint32_t index,
	const struct candidates *candidates, double *best)
{
	int better = metric_find(sweep_metrics[index])->better;
	bool is_found = false;

	for (uint32_t i = 0; i < sweep->run_count && better != 0; i++) {
		const struct result_value *value = &sweep->runs[i].metrics[index];
		bool counts = is_candidate(&sweep->runs[i], index, candidates);
		bool is_better = counts && (!is_found || (value->value - *best) * better > 0);
		*best = is_better ? value->value : *best;
		is_found = is_found || counts;
	}
	return is_found;
}

/* The metrics in the order of their columns: first what runs are chosen by, since a page shows not
   all columns at once. order: (SWEEP_METRIC_COUNT) indices. */
static void order_metrics(uint32_t *order)
{
	static const char *const leading[] = {"output_tokens_per_s", "rejected", "attained",
		"goodput", "ttft.p50", "ttft.p99", "tpot.p50", "tpot.p99", "e2e.p50", "e2e.p99"};
	bool is_placed[SWEEP_METRIC_COUNT] = {false};
	uint32_t count = 0;

	for (uint32_t i = 0; i < sizeof(leading) / sizeof(leading[0]); i++) {
		order[count] = sweep_metric_index(leading[i]);
		is_placed[order[count++]] = true;
	}
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		if (!is_placed[i]) {
			order[count++] = i;
		}
	}
}

/* What the rows of the table need of all of them. */
struct run_columns {
	uint32_t order[SWEEP_METRIC_COUNT]; /* of the metrics, whose indices the others have */
	bool is_shown[SWEEP_METRIC_COUNT];
	bool has_best[SWEEP_METRIC_COUNT];
	double best[SWEEP_METRIC_COUNT];
	struct candidates candidates;
	bool has_tokens;     /* the KV blocks of runs are not alike */
	bool has_calibrated; /* some runs are calibrated, others are not */
};

/* The class of a figure's cell. */
static const char *color_of(
	const struct sweep_run *run, uint32_t index, const struct run_columns *columns)
{
	const struct result_value *value = &run->metrics[index];

	if (index == sweep_metric_index("rejected") && value->value > 0) {
		return " class=\"worse\"";
	}
	if (index == sweep_metric_index("outside_time") && value->value > OUTSIDE_MOST) {
		return " class=\"worse\"";
	}
	return columns->has_best[index] && is_candidate(run, index, &columns->candidates) &&
			       !(value->value < columns->best[index]) &&
			       !(value->value > columns->best[index])
		       ? " class=\"better\""
		       : "";
}

#define VERDICT_NAME(name, text) text,
static const char *const verdicts[] = {VERDICT_LIST(VERDICT_NAME)};
#undef VERDICT_NAME

/* The figures of a run, or why it has none. */
static void add_figures(
	struct text *page, const struct sweep_run *run, const struct run_columns *columns)
{
	uint32_t count = 3U + columns->has_tokens + columns->has_calibrated;

	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		count += columns->is_shown[i];
	}
	if (run->status != SWEEP_RUN_COMPLETE) {
		text_format(page, "<td class=\"words worse\" colspan=\"%u\">%s%s", count,
			sweep_run_statuses[run->status], run->message[0] == '\0' ? "" : ": ");
		text_add_escaped(page, run->message);
		text_add(page, "</td>");
		return;
	}
	text_format(page, "<td%s>%s</td>", sweep_keeps_up(run) ? "" : " class=\"worse\"",
		verdicts[run->verdict]);
	if (columns->has_calibrated) {
		text_add(page, run->is_calibrated ? "<td>yes</td>" : "<td class=\"worse\">no</td>");
	}
	for (uint32_t k = 0; k < SWEEP_METRIC_COUNT; k++) {
		uint32_t i = columns->order[k];
		const struct result_value *value = &run->metrics[i];
		if (columns->is_shown[i]) {
			text_format(page, "<td%s>", color_of(run, i, columns));
			text_add_number(page, metric_find(sweep_metrics[i])->format,
				value->has_value, value->value);
			text_add(page, "</td>");
		}
	}
	text_add(page, run->is_beyond_memory ? "<td class=\"worse\">" : "<td>");
	text_add_number(page, NUMBER_COUNT, run->kv_blocks.has_value, run->kv_blocks.value);
	text_add(page, "</td><td>");
	if (columns->has_tokens) {
		text_add_number(page, NUMBER_COUNT, run->kv_tokens.has_value, run->kv_tokens.value);
		text_add(page, "</td><td>");
	}
	text_add_number(page, NUMBER_COUNT, run->gpus.has_value, run->gpus.value);
	text_add(page, "</td>");
}

/* Parameters come first: they are short, so that rows of a narrow page are not high. */
static void add_run(struct text *page, const struct sweep_file *sweep, const struct sweep_run *run,
	const struct run_columns *columns)
{
	text_add(page, "<tr>");
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		text_add(page, i == 0 ? "<th scope=\"row\">" : "<td>");
		text_add_escaped(page, sweep->parameters[i].values[run->values[i]]);
		text_add(page, i == 0 ? "</th>" : "</td>");
	}
	add_figures(page, run, columns);
	text_add(page, "<td class=\"folder\">");
	text_add_escaped(page, run->name);
	text_add(page, "</td></tr>\n");
}

static void add_columns(
	struct text *page, const struct sweep_file *sweep, const struct run_columns *columns)
{
	text_add(page, "<thead><tr>");
	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		text_add(page, "<th scope=\"col\">");
		text_add_escaped(page, sweep->parameters[i].name);
		text_add(page, "</th>");
	}
	text_add(page, "<th scope=\"col\">Verdict</th>");
	text_add(page, columns->has_calibrated ? "<th scope=\"col\">Calibrated</th>" : "");
	for (uint32_t k = 0; k < SWEEP_METRIC_COUNT; k++) {
		uint32_t i = columns->order[k];
		if (columns->is_shown[i]) {
			const struct metric *metric = metric_find(sweep_metrics[i]);
			const char *statistic = strchr(metric->name, '.');
			text_format(page, "<th scope=\"col\">%s</th>",
				statistic == NULL ? metric->title : metric->name);
		}
	}
	text_format(page,
		"<th scope=\"col\">KV blocks</th>%s<th scope=\"col\">GPUs</th>"
		"<th scope=\"col\">Folder</th></tr></thead>\n<tbody>\n",
		columns->has_tokens ? "<th scope=\"col\">KV tokens</th>" : "");
}

/* has_tokens: with a column of the tokens that a run's KV blocks hold. has_calibrated: with one of
   whether its times are. */
static void add_runs(
	struct text *page, const struct sweep_file *sweep, bool has_tokens, bool has_calibrated)
{
	bool is_folded = sweep->run_count > OPEN_ROWS_MAX;
	uint32_t shown = sweep->run_count < SHOWN_ROWS_MAX ? sweep->run_count : SHOWN_ROWS_MAX;
	struct run_columns columns = {.has_tokens = has_tokens,
		.has_calibrated = has_calibrated,
		.candidates = find_candidates(sweep)};

	order_metrics(columns.order);
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		columns.is_shown[i] = has_metric(sweep, i);
		columns.has_best[i] = find_best(sweep, i, &columns.candidates, &columns.best[i]);
	}
	text_add(page, "<section id=\"runs\">\n<h2>Runs</h2>\n<p class=\"note\">The best of each "
		       "column is green, of the runs that rejected fewest requests and kept up "
		       "(stable or backlogged). Where none of them kept up, no latency, goodput "
		       "or share within the SLO is best. A run is a "
		       "folder of its own: quire report shows it "
		       "alone, or several beside each other.</p>\n");
	if (is_folded) {
		text_format(page, "<details><summary>%u of %u %s</summary>\n", shown,
			sweep->run_count, word_of_count(sweep->run_count, "run", "runs"));
	}
	text_add(page, "<div class=\"scroll\">\n<table class=\"sweep\">\n");
	add_columns(page, sweep, &columns);
	for (uint32_t i = 0; i < shown; i++) {
		add_run(page, sweep, &sweep->runs[i], &columns);
	}
	page_rows_close(page);
	text_add(page, is_folded ? "</details>\n</section>\n" : "</section>\n");
}

enum status page_sweep_write(struct text *page, const struct sweep_file *sweep,
	const struct page_sheet *sheet, struct error *error)
{
	struct text name = {0};

	add_head(page, sweep, sheet->style);
	add_banner(page, sweep);
	add_beyond_memory(page, sweep);
	bool has_tokens = add_unlike_pools(page, sweep);
	add_overloaded(page, sweep);
	bool has_calibrated = add_uncalibrated(page, sweep);
	TRY(page_plots(page, sheet->plots, sheet->plot_count, error));
	add_runs(page, sweep, has_tokens, has_calibrated);
	page_one_configuration(page, &sweep->config, &sheet->defaults);
	page_one_provenance(page, &sweep->provenance);
	page_folder_name(&name, sweep->directory);
	page_close(
		page, name.bytes, "sweep", sweep->root.node, sweep->provenance.root, sheet->script);
	text_deinit(&name);
	return STATUS_OK;
}
