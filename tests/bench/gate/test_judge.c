#include "bench/gate/judge.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/compare_limits.h"
#include "bench/replay/replay_config.h"
#include "tests/harness/require.h"

/* Two sides of a case, made in memory, and every finding that they lead to, byte by byte. */

enum { RUNS_MAX = 4 };

struct side {
	struct evidence evidence;
	double figures[RUNS_MAX * METRIC_COUNT];
	bool is_present[RUNS_MAX * METRIC_COUNT];
	struct coarse_bucket buckets[2];
	uint32_t hashes[4];
};

static struct side base, value;
static struct suite_case rules;
static struct gate_verdict verdict;

#define SUMMARY                                                                                    \
	"{\"config\": {\"runner\": \"sim\", \"gpu\": \"g\", \"seed\": 1}, "                        \
	"\"profile_xxh64\": \"aa\", \"requests\": {\"rejected\": 2}}"

static void open_summary(struct side *side, const char *text)
{
	struct error error = {0};

	json_document_close(&side->evidence.document);
	json_document_parse(&side->evidence.document, "summary", text, strlen(text), &error);
	json_root(&side->evidence.summary, &side->evidence.document, &error);
	require(error.status == STATUS_OK, "%s", error.text);
}

static void set(struct side *side, const char *name, uint32_t count, const double *values)
{
	size_t metric = (size_t)(metric_find(name) - metrics_table);

	side->evidence.run_count = count;
	for (uint32_t i = 0; i < count; i++) {
		side->figures[i * METRIC_COUNT + metric] = values[i];
		side->is_present[i * METRIC_COUNT + metric] = true;
	}
}

static void open_side(struct side *side)
{
	struct evidence *evidence = &side->evidence;

	memset(side, 0, sizeof(*side));
	open_summary(side, SUMMARY);
	evidence->trace_xxh64 = "t1";
	evidence->result_hash = "r1";
	evidence->has_same_decisions = true;
	evidence->run_count = 1;
	evidence->figures = side->figures;
	evidence->is_present = side->is_present;
	evidence->trail = (struct decision_trail){
		.step_count = 4, .stride = 2, .count = 2, .hashes = side->hashes};
	evidence->trail.decisions = 7;
	evidence->trail.times = side == &base ? 8 : 9;
	evidence->histograms.is_known = true;
	evidence->histograms.of[LATENCY_TTFT] = (struct coarse_histogram){side->buckets, 2, 4};
	side->buckets[0] = (struct coarse_bucket){1500000, 3};
	side->buckets[1] = (struct coarse_bucket){9000000, 1};
}

static void set_up(void)
{
	open_side(&base);
	open_side(&value);
	memset(&rules, 0, sizeof(rules));
	memset(&verdict, 0, sizeof(verdict));
}

static void tear_down(void)
{
	json_document_close(&base.evidence.document);
	json_document_close(&value.evidence.document);
	verdict_close(&verdict);
}

TestSuite(judge, .init = set_up, .fini = tear_down);

static void add_limits(const char *text)
{
	struct error error = {0};

	limit_list_add(&rules.limits, "limits", text, &error);
	require(error.status == STATUS_OK, "%s", error.text);
}

/* Judges, and demands the findings, a line each. */
static void require_verdict(bool is_against, enum gate_status status, const char *const expected)
{
	struct text found = {0};

	verdict_close(&verdict);
	memset(&verdict, 0, sizeof(verdict));
	verdict_note_figures(&verdict, &rules, &value.evidence);
	judge_case(&verdict, &rules, &base.evidence, &value.evidence, is_against);
	for (uint32_t i = 0; i < verdict.count; i++) {
		text_format(&found, "%s\n", verdict.findings[i].bytes);
	}
	require(strcmp(found.bytes == NULL ? "" : found.bytes, expected) == 0,
		"found\n%s\nexpected\n%s", found.bytes, expected);
	text_deinit(&found);
	require_equal(verdict.status, status);
}

Test(judge, nothing_is_compared_with_another_run)
{
	add_limits("rejected<=1");
	set(&value, "rejected", 1, (const double[]){5});
	base.evidence.result_hash = "r0";
	value.evidence.trace_xxh64 = "t2";
	open_summary(&value, "{\"config\": {\"runner\": \"sim\", \"gpu\": \"g\", \"new\": 1}, "
			     "\"profile_xxh64\": \"bb\"}");
	require_verdict(false, GATE_INVALID,
		"another trace: its xxh64 is t2, the baseline's is t1\n"
		"seed is absent, the baseline's is 1\n"
		"another content of the profile gpu \"g\": its xxh64 is bb, the baseline's is "
		"aa\n");
	value.evidence.trace_xxh64 = "t1";
	open_summary(&value, "{\"config\": {\"runner\": \"cuda\", \"gpu\": \"h\", \"seed\": 2}, "
			     "\"profile_xxh64\": \"bb\"}");
	require_verdict(false, GATE_INVALID,
		"runner is \"cuda\", the baseline's is \"sim\"\n"
		"gpu is \"h\", the baseline's is \"g\"\n"
		"seed is 2, the baseline's is 1\n");
}

/* With --against no baseline is there, and none can be updated. */
Test(judge, another_program_is_called_so)
{
	add_limits("ttft.p99<=+5%,hit_rate>=-1pt");
	set(&value, "ttft.p99", 1, (const double[]){3});
	value.evidence.result_hash = "r2";
	value.evidence.trail.decisions = 70;
	value.evidence.trail.step_count = 5;
	require_verdict(true, GATE_CHANGED,
		"first other decision in step 4 (5 steps, 4 by the other program)\n"
		"ttft.p99 is not judged: the other program does not have it\n"
		"hit_rate>=-1pt is not judged: neither the other program nor this run has the "
		"figure; the case's own limits can leave it out\n");
	value.evidence.has_same_decisions = false;
	set(&base, "ttft.p99", 1, (const double[]){1});
	value.buckets[0].upper_ns = 2500000;
	require_verdict(true, GATE_CHANGED,
		"the runs' decisions differ among themselves, the other program's do not\n"
		"ttft.p99 1.00\u00a0ms to 3.00\u00a0ms (+200\u00a0%), limit ttft.p99<=+5%\n"
		"0.0 % of ttft are at most 1.50\u00a0ms, 75.0 % by the other program: the largest "
		"difference\n"
		"hit_rate>=-1pt is not judged: neither the other program nor this run has the "
		"figure; the case's own limits can leave it out\n");
	value.evidence.trace_xxh64 = "t2";
	open_summary(&value, "{\"config\": {\"runner\": \"sim\", \"gpu\": \"g\", \"seed\": 2}, "
			     "\"profile_xxh64\": \"bb\"}");
	require_verdict(true, GATE_INVALID,
		"another trace: its xxh64 is t2, the other program's is t1\n"
		"seed is 2, the other program's is 1\n"
		"another content of the profile gpu \"g\": its xxh64 is bb, the other program's is "
		"aa\n");
}

Test(judge, other_decisions_are_placed)
{
	value.evidence.result_hash = "r2";
	require_verdict(false, GATE_CHANGED,
		"the counts of every step are equal, the requests in them are not\n");
	value.evidence.trail.decisions = 70;
	value.hashes[1] = 1;
	require_verdict(false, GATE_CHANGED, "first other decision between steps 2 and 3\n");
	value.evidence.trail.step_count = 5;
	value.hashes[1] = 0;
	require_verdict(false, GATE_CHANGED,
		"first other decision in step 4 (5 steps, 4 in the baseline)\n");
	value.evidence.has_same_decisions = false;
	require_verdict(false, GATE_CHANGED,
		"the runs' decisions differ among themselves, the baseline's do not\n");
	base.evidence.has_same_decisions = false;
	require_verdict(false, GATE_PASS, "");
}

/* A figure that only one side has, and one that neither has. */
Test(judge, limits_on_figures_that_a_side_lacks)
{
	add_limits("ttft.p99<=+5%,hit_rate>=-1pt,preemptions<=2");
	require_verdict(false, GATE_PASS,
		"ttft.p99<=+5%, hit_rate>=-1pt, preemptions<=2 are not judged: neither the "
		"baseline nor this run has the figures; the case's own limits can leave them "
		"out\n");
	set(&value, "ttft.p99", 1, (const double[]){3});
	require_verdict(false, GATE_PASS,
		"ttft.p99 is not judged: the baseline does not have it, --update adds it\n"
		"hit_rate>=-1pt, preemptions<=2 are not judged: neither the baseline nor this run "
		"has the figures; the case's own limits can leave them out\n");
	require_equal(verdict.figure_count, 1);
	require(!verdict.figures[0].has_base && verdict.figures[0].value == 3, "%g",
		verdict.figures[0].value);
	set(&base, "ttft.p99", 1, (const double[]){3});
	set(&base, "hit_rate", 1, (const double[]){0.5});
	set(&value, "preemptions", 1, (const double[]){3});
	require_verdict(false, GATE_REGRESSED,
		"hit_rate 50.0\u00a0% to \u2013, limit hit_rate>=-1pt\n"
		"preemptions \u2013 to 3, limit preemptions<=2\n");
}

/* One judged limit does not hide another, and who has set no SLO is told the options. */
Test(judge, a_limit_that_judges_nothing_is_named)
{
	add_limits("goodput>=-2%,ttft.p99<=+5%,attained>=0.9,hit_rate>=-1pt");
	set(&base, "ttft.p99", 1, (const double[]){3});
	set(&value, "ttft.p99", 1, (const double[]){3});
	require_verdict(false, GATE_PASS,
		"goodput>=-2%, attained>=0.9, hit_rate>=-1pt are not judged: neither the baseline "
		"nor this run has the figures; goodput needs --slo-ttft-ms, --slo-tpot-ms or "
		"--slo-e2e-ms; the case's own limits can leave them out\n");
	set(&value, "attained", 1, (const double[]){0.95});
	set(&base, "hit_rate", 1, (const double[]){0.5});
	set(&value, "hit_rate", 1, (const double[]){0.5});
	require_verdict(false, GATE_PASS,
		"goodput>=-2% is not judged: neither the baseline nor this run has the figure; "
		"goodput needs --slo-ttft-ms, --slo-tpot-ms or --slo-e2e-ms; the case's own limits "
		"can leave it out\n");
	verdict_close(&verdict);
	verdict.status = GATE_PASS;
	judge_new_case(&verdict, &rules, &value.evidence);
	require_equal(verdict.status, GATE_NEW);
	require_equal(verdict.count, 2);
	cr_assert_str_eq(verdict.findings[0].bytes, "not in the baseline");
	cr_assert_str_eq(verdict.findings[1].bytes,
		"goodput>=-2% is not judged: this run does not have the figure; goodput needs "
		"--slo-ttft-ms, --slo-tpot-ms or --slo-e2e-ms; the case's own limits can leave it "
		"out");
	verdict_close(&verdict);
	rules.ignores_decisions = true;
	judge_new_case(&verdict, &rules, &value.evidence);
	require_equal(verdict.count, 1);
}

/* Settings that somebody chose come before those that a run fills in, and what they change stands
   beside them. */
Test(judge, another_setting_is_shown_with_its_figures)
{
	add_limits("ttft.p99<=+5%,ttft.p50<=+5%");
	rules.measures[COST_PEAK_MEMORY] = true;
	gate_costs_add(&base.evidence.costs, COST_PEAK_MEMORY, 3e6);
	gate_costs_add(&value.evidence.costs, COST_PEAK_MEMORY, 9e6);
	set(&base, "ttft.p99", 1, (const double[]){8});
	set(&value, "ttft.p99", 1, (const double[]){12});
	set(&value, "ttft.p50", 1, (const double[]){4});
	open_summary(&base, "{\"config\": {\"kv_blocks\": 4498, \"max_num_seqs\": 512}}");
	open_summary(&value, "{\"config\": {\"kv_blocks\": 4518, \"max_num_seqs\": 4}}");
	require_verdict(false, GATE_INVALID,
		"max_num_seqs is 4, the baseline's is 512\n"
		"kv_blocks is 4518, the baseline's is 4498 (a run fills it in where no option "
		"gives it)\n");
	require_equal(verdict.figure_count, 3);
	require(verdict.figures[0].has_base && verdict.figures[0].base == 8, "ttft.p99");
	require(!verdict.figures[1].has_base, "ttft.p50");
	require(verdict.figures[2].has_base && verdict.figures[2].base == 3e6, "peak_memory");
}

/* The shares of both sides stand in their places; a latency is told of once. */
Test(judge, a_latency_that_moved_is_told_with_its_requests)
{
	add_limits("ttft.p99<=+5%,ttft.p50<=+5%");
	set(&base, "ttft.p99", 1, (const double[]){8});
	set(&value, "ttft.p99", 1, (const double[]){12});
	set(&base, "ttft.p50", 1, (const double[]){1});
	set(&value, "ttft.p50", 1, (const double[]){0.5});
	value.buckets[0].count = 1;
	value.buckets[1].count = 3;
	require_verdict(false, GATE_REGRESSED,
		"ttft.p99 8.00\u00a0ms to 12.0\u00a0ms (+50.0\u00a0%), limit ttft.p99<=+5%\n"
		"ttft.p50 1.00\u00a0ms to 500\u00a0\u00b5s (\u221250.0\u00a0%), limit "
		"ttft.p50<=+5%; "
		"better\n"
		"25.0 % of ttft are at most 1.50\u00a0ms, 75.0 % in the baseline: the largest "
		"difference\n");
	require(verdict.figures[0].has_base && verdict.figures[0].base == 8 &&
			verdict.figures[0].value == 12,
		"%g", verdict.figures[0].base);
}

/* The base ran on a GPU, the case is its simulation: what it decides and runs on may differ, and
   it is never better. */
Test(judge, simulations_of_recorded_runs_are_never_better)
{
	rules.recorded_count = 1;
	base.evidence.is_computed = true;
	value.evidence.result_hash = "r2";
	open_summary(&value, "{\"config\": {\"runner\": \"cuda\", \"gpu\": \"h\", \"seed\": 1}}");
	add_limits("ttft.p99<=+5%");
	set(&base, "ttft.p99", 1, (const double[]){8});
	set(&value, "ttft.p99", 1, (const double[]){4});
	require_verdict(false, GATE_PASS, "");
	require(verdict.is_simulation, "no simulation");
	set(&value, "ttft.p99", 1, (const double[]){12});
	require_verdict(false, GATE_REGRESSED,
		"ttft.p99 8.00\u00a0ms to 12.0\u00a0ms (+50.0\u00a0%), limit ttft.p99<=+5%\n");
}

/* A field of the configuration that both sides have with other values, or the base alone. */
static void require_field(const char *name, bool is_of_runner)
{
	char text[256];

	snprintf(text, sizeof(text), "{\"config\": {\"%s\": \"x\"}}", name);
	open_summary(&base, text);
	for (uint32_t is_absent = 0; is_absent < 2; is_absent++) {
		snprintf(text, sizeof(text), "{\"config\": {\"%s\": \"y\"}}",
			is_absent ? "other" : name);
		open_summary(&value, text);
		for (uint32_t is_computed = 0; is_computed < 2; is_computed++) {
			base.evidence.is_computed = is_computed == 1;
			bool is_filled_in = strcmp(name, "kv_blocks") == 0 ||
					    strcmp(name, "max_model_len") == 0;
			snprintf(text, sizeof(text), "%s is %s, the baseline's is \"x\"%s\n", name,
				is_absent ? "absent" : "\"y\"",
				is_filled_in ? " (a run fills it in where no option gives it)"
					     : "");
			bool may = is_of_runner && is_computed == 1;
			require_verdict(false, may ? GATE_PASS : GATE_INVALID, may ? "" : text);
		}
	}
}

/* What a run and its simulation differ in by their nature, and nothing else: no other option, and
   no name that begins as one of these or ends in it. */
Test(judge, simulations_may_differ_in_what_computes)
{
	static const char *const fields[] = {"runner", "gpu", "weights", "dtype", "kernels",
		"shared_prefix_attention", "tp_transport", "engine_process"};
	enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };
	uint32_t found = 0;

	rules.recorded_count = 1;
	for (uint32_t i = 0; i < replay_options.count; i++) {
		char name[64];
		bool is_of_runner = false;
		snprintf(name, sizeof(name), "%s", replay_options.rows[i].name);
		for (char *dash = strchr(name, '-'); dash != NULL; dash = strchr(dash, '-')) {
			*dash = '_';
		}
		for (uint32_t j = 0; j < FIELDS; j++) {
			is_of_runner = is_of_runner || strcmp(fields[j], name) == 0;
		}
		found += is_of_runner;
		require_field(name, is_of_runner);
	}
	require_equal(found, FIELDS);
	for (uint32_t i = 0; i < FIELDS; i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s_more", fields[i]);
		require_field(name, false);
		snprintf(name, sizeof(name), "no_%s", fields[i]);
		require_field(name, false);
		snprintf(name, strlen(fields[i]), "%s", fields[i]);
		require_field(name, false);
	}
}

/* Figures are means of the runs; those of a recording also say how far the runs lie apart. */
Test(judge, figures_of_several_runs_are_their_mean)
{
	add_limits("ttft.p99<=+900%");
	set(&value, "ttft.p99", 3, (const double[]){4, 5, 9});
	set(&base, "tpot.p50", 1, (const double[]){2});
	set(&value, "tpot.p50", 1, (const double[]){3});
	base.evidence.run_count = value.evidence.run_count = 3;
	for (uint32_t i = 0; i < 4; i++) {
		/* the one that is farthest from the mean lies below it, and above */
		static const double runs[2][3] = {{1, 5, 6}, {2, 3, 7}};
		uint32_t is_recorded = i % 2;
		set(&base, "ttft.p99", 3, runs[i / 2]);
		rules.recorded_count = is_recorded;
		base.evidence.is_computed = is_recorded == 1;
		require_verdict(false, GATE_PASS, "");
		require_equal(verdict.figure_count, 1 + is_recorded);
		const struct gate_figure *figure = &verdict.figures[0];
		require(figure->value == 6 && figure->has_base && figure->base == 4, "%g %g",
			figure->value, figure->base);
		require(figure->has_spread == (is_recorded == 1) &&
				figure->spread == (is_recorded ? 0.75 : 0),
			"%g", figure->spread);
	}
	require(verdict.figures[1].value == 3 && verdict.figures[1].base == 2 &&
			!verdict.figures[1].has_spread,
		"one run has no spread");
}

Test(judge, the_same_steps_give_the_same_figures)
{
	value.evidence.trail.times = base.evidence.trail.times;
	open_summary(&value, "{\"config\": {\"runner\": \"sim\", \"gpu\": \"g\", \"seed\": 1}, "
			     "\"requests\": {\"rejected\": 3}, \"preemptions\": 4}");
	value.buckets[1].upper_ns++;
	require_verdict(false, GATE_REGRESSED,
		"the same steps are counted differently: preemptions \u2013 to 4\n"
		"the same steps are counted differently: rejected 2 to 3\n"
		"the same steps are counted differently: histogram of ttft\n");
	value.buckets[1].upper_ns--;
	/* none and 0 are not the same */
	open_summary(&value, "{\"config\": {\"runner\": \"sim\", \"gpu\": \"g\", \"seed\": 1}, "
			     "\"preemptions\": 0}");
	require_verdict(false, GATE_REGRESSED,
		"the same steps are counted differently: preemptions \u2013 to 0\n"
		"the same steps are counted differently: rejected 2 to \u2013\n");
	value.evidence.histograms.of[LATENCY_TTFT].values++;
	open_summary(&value, SUMMARY);
	require_verdict(false, GATE_REGRESSED,
		"the same steps are counted differently: histogram of ttft\n");
	/* Each value twice: the shares are the same. */
	value.evidence.histograms.of[LATENCY_TTFT].values = 8;
	value.buckets[0].count = 6;
	value.buckets[1].count = 2;
	require_verdict(false, GATE_REGRESSED,
		"the same steps are counted differently: histogram of ttft\n");
	base.evidence.histograms.is_known = false;
	require_verdict(false, GATE_PASS, "");
}

/* Measured runs: the interval of the ratio decides, not the ratio. */
Test(judge, measured_figures_are_judged_by_their_interval)
{
	static const double near[] = {100, 101, 99, 100}, far[] = {130, 131, 129, 130};
	static const double wide[] = {60, 180, 100, 170}, fast[] = {70, 71, 69, 70};

	base.evidence.is_computed = value.evidence.is_computed = true;
	struct request_latencies none[RUNS_MAX] = {{0}};
	base.evidence.requests = value.evidence.requests = none;
	add_limits("makespan_s<=+5%");
	set(&base, "makespan_s", RUNS_MAX, near);
	set(&value, "makespan_s", RUNS_MAX, wide);
	require_verdict(false, GATE_PASS, "");
	require(verdict.figures[0].ratio.is_known, "no interval");
	require(verdict.figures[0].least_seen > 0.275, "%g", verdict.figures[0].least_seen);
	set(&value, "makespan_s", RUNS_MAX, far);
	require_verdict(false, GATE_REGRESSED,
		"makespan_s 100\u00a0s to 130\u00a0s (+30.0\u00a0%), limit "
		"makespan_s<=+5%\n");
	set(&value, "makespan_s", RUNS_MAX, fast);
	require_verdict(false, GATE_IMPROVED,
		"makespan_s 100\u00a0s to 70.0\u00a0s (\u221230.0\u00a0%), limit makespan_s<=+5%; "
		"better\n");
}

/* Requests of which a part are slow make a mean uncertain, whichever side they are of. */
Test(judge, requests_of_either_side_widen_the_interval)
{
	enum { REQUESTS = 128, PART = REQUESTS / BOOTSTRAP_BLOCKS };
	static const double as_is[] = {100, 100, 100, 100}, more[] = {110, 110, 110, 110};
	/* means of 100 and 110 ms */
	static const uint64_t even_ns[] = {100000000, 110000000};
	static const uint64_t fast_ns[] = {10000000, 20000000};
	static const uint64_t slow_ns[] = {370000000, 380000000};
	uint64_t ns[2][2][REQUESTS]; /* of a side, even or not */
	struct request_latencies requests[2][2][RUNS_MAX];

	for (uint32_t side = 0; side < 2; side++) {
		for (uint32_t i = 0; i < REQUESTS; i++) {
			bool is_slow = i / PART % 4 == 0;
			ns[side][0][i] = even_ns[side];
			ns[side][1][i] = is_slow ? slow_ns[side] : fast_ns[side];
		}
		for (uint32_t i = 0; i < 2 * RUNS_MAX; i++) {
			requests[side][i % 2][i / 2] = (struct request_latencies){
				REQUESTS, {[LATENCY_TTFT] = ns[side][i % 2]}};
		}
	}
	base.evidence.is_computed = value.evidence.is_computed = true;
	add_limits("ttft.mean<=+5%");
	set(&base, "ttft.mean", RUNS_MAX, as_is);
	set(&value, "ttft.mean", RUNS_MAX, more);
	for (uint32_t uneven = 0; uneven < 3; uneven++) {
		base.evidence.requests = requests[0][uneven == 1];
		value.evidence.requests = requests[1][uneven == 2];
		require_verdict(false, uneven == 0 ? GATE_REGRESSED : GATE_PASS,
			uneven == 0 ? "ttft.mean 100\u00a0ms to 110\u00a0ms (+10.0\u00a0%), limit "
				      "ttft.mean<=+5%\n"
				    : "");
	}
}

/* Of what must not fall, the upper end decides. */
Test(judge, a_lower_limit_is_judged_by_the_upper_end)
{
	static const double near[] = {100, 101, 99, 100}, wide[] = {60, 180, 100, 170};
	static const double slow[] = {70, 71, 69, 70};
	struct request_latencies none[RUNS_MAX] = {{0}};

	base.evidence.is_computed = value.evidence.is_computed = true;
	base.evidence.requests = value.evidence.requests = none;
	add_limits("requests_per_s>=-5%");
	set(&base, "requests_per_s", RUNS_MAX, near);
	set(&value, "requests_per_s", RUNS_MAX, wide);
	require_verdict(false, GATE_PASS, "");
	const struct gate_figure *figure = &verdict.figures[0];
	require(figure->ratio.is_known && figure->ratio.high > 1.5, "%g", figure->ratio.high);
	double least = 0.95 * figure->ratio.ratio / figure->ratio.high - 1;
	require(figure->least_seen > least - 1e-12 && figure->least_seen < least + 1e-12, "%g",
		figure->least_seen);
	set(&value, "requests_per_s", RUNS_MAX, slow);
	require_verdict(false, GATE_REGRESSED,
		"requests_per_s 100 to 70.0 (\u221230.0\u00a0%), limit requests_per_s>=-5%\n");
}

Test(judge, costs_of_another_machine_are_shown)
{
	rules.measures[COST_INSTRUCTIONS] = rules.measures[COST_BYTES_WRITTEN] = true;
	rules.cost_limit[COST_INSTRUCTIONS] = rules.cost_limit[COST_BYTES_WRITTEN] = 0.01;
	rules.cost_limit[COST_PEAK_MEMORY] = 0.05;
	gate_costs_add(&base.evidence.costs, COST_INSTRUCTIONS, 1000);
	gate_costs_add(&value.evidence.costs, COST_INSTRUCTIONS, 1100);
	gate_costs_add(&base.evidence.costs, COST_BYTES_WRITTEN, 200);
	gate_costs_add(&value.evidence.costs, COST_BYTES_WRITTEN, 100);
	gate_costs_add(&base.evidence.costs, COST_CPU_TIME, 1);
	gate_costs_add(&value.evidence.costs, COST_CPU_TIME, 2);
#define WRITTEN "bytes_written 200 to 100 (-50.00 %), limit +1 %\n"
#define EXECUTED "instructions 1000 to 1100 (+10.00 %), limit +1 %"
	require_verdict(true, GATE_REGRESSED, EXECUTED "\n" WRITTEN);
	require_verdict(false, GATE_IMPROVED,
		EXECUTED
		"; not judged: measured with another compiler, library or processor\n" WRITTEN);
	text_add(&base.evidence.environment, "gcc");
	text_add(&value.evidence.environment, "gcc");
	require_verdict(false, GATE_REGRESSED, EXECUTED "\n" WRITTEN);
	/* within the limit, and above it by less than the pages that the kernel happens to map */
	rules.cost_limit[COST_INSTRUCTIONS] = rules.cost_limit[COST_BYTES_WRITTEN] = 0.5;
	rules.measures[COST_PEAK_MEMORY] = true;
	gate_costs_add(&base.evidence.costs, COST_PEAK_MEMORY, 1e6);
	gate_costs_add(&value.evidence.costs, COST_PEAK_MEMORY, 1e6 + 512 * 1024);
	require_verdict(false, GATE_PASS, "");
	require_equal(verdict.figure_count, 3);
	value.evidence.costs.values[COST_PEAK_MEMORY][0]++;
	require_verdict(
		false, GATE_REGRESSED, "peak_memory 1000000 to 1524289 (+52.43 %), limit +5 %\n");
	text_deinit(&base.evidence.environment);
	text_deinit(&value.evidence.environment);
}

/* A baseline may be of fewer runs than the case has: three that differ say little, twelve do. */
Test(judge, costs_of_any_number_of_runs_are_compared)
{
	enum { LEAST = 3, MOST = 12 };
	static const double first[LEAST] = {150, 100, 225};

	rules.ignores_decisions = true;
	rules.measures[COST_CPU_TIME] = true;
	rules.cost_limit[COST_CPU_TIME] = 0.03;
	for (uint32_t i = 0; i < LEAST; i++) {
		gate_costs_add(&base.evidence.costs, COST_CPU_TIME, 100);
	}
	for (uint32_t runs = 1; runs <= MOST; runs++) {
		gate_costs_add(
			&value.evidence.costs, COST_CPU_TIME, runs > LEAST ? 150 : first[runs - 1]);
		if (runs != LEAST && runs != MOST) {
			continue;
		}
		verdict_close(&verdict);
		memset(&verdict, 0, sizeof(verdict));
		verdict_note_figures(&verdict, &rules, &value.evidence);
		judge_case(&verdict, &rules, &base.evidence, &value.evidence, true);
		require(verdict.status == (runs == MOST ? GATE_REGRESSED : GATE_PASS), "%u runs",
			runs);
	}
}

/* Of a case that ignores decisions, costs alone are judged. */
Test(judge, costs_may_be_all_that_is_judged)
{
	rules.ignores_decisions = true;
	rules.measures[COST_CPU_TIME] = true;
	rules.cost_limit[COST_CPU_TIME] = 0.03;
	value.evidence.trace_xxh64 = "t2";
	value.evidence.result_hash = "r2";
	gate_costs_add(&base.evidence.costs, COST_CPU_TIME, 2);
	rules.measures[COST_INSTRUCTIONS] = true; /* which are known of one side alone */
	gate_costs_add(&base.evidence.costs, COST_INSTRUCTIONS, 1e9);
	require_verdict(true, GATE_PASS, "");
	gate_costs_add(&value.evidence.costs, COST_CPU_TIME, 3.04);
	require_verdict(true, GATE_REGRESSED, "cpu_ms 2.0 to 3.0 (+52.00 %), limit +3 %\n");
	/* the means of runs */
	gate_costs_add(&value.evidence.costs, COST_CPU_TIME, 1);
	require_verdict(false, GATE_PASS, "");
}

/* More findings than there is room for continue the last one. */
Test(judge, no_finding_is_lost)
{
	for (int i = 0; i <= FINDINGS_MAX; i++) {
		text_format(verdict_add(&verdict, i == 3 ? GATE_CHANGED : GATE_PASS), "%d", i);
	}
	require_equal(verdict.count, FINDINGS_MAX);
	cr_assert_str_eq(verdict.findings[FINDINGS_MAX - 1].bytes, "47; 48");
	require_equal(verdict.status, GATE_CHANGED);
}
