#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "reports/page/page_elements.h"
#include "reports/page/page_sections.h"
#include "tests/harness/made_plan.h"
#include "tests/harness/made_result.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Sections of a page, each figure of another value, and values on both sides of each limit. */

static void put(struct result *result, enum result_number number, double value)
{
	result->numbers[number] = (struct result_value){.has_value = true, .value = value};
}

static void put_latency(struct result *result, enum latency_metric metric, double p50, double p99)
{
	result->latency_ms[metric][STATISTIC_P50] = (struct result_value){true, p50};
	result->latency_ms[metric][STATISTIC_P99] = (struct result_value){true, p99};
}

static void require_text(void (*add)(struct text *page, const struct result *result),
	const struct result *result, const char *expected)
{
	struct text page = {0};

	add(&page, result);
	require(strcmp(page.bytes, expected) == 0, "found\n%s\nexpected\n%s", page.bytes, expected);
	text_deinit(&page);
}

static void require_in(void (*add)(struct text *page, const struct result *result),
	const struct result *result, const char *expected)
{
	struct text page = {0};

	add(&page, result);
	require_has(page.bytes, expected);
	text_deinit(&page);
}

static struct result ordinary(void)
{
	struct result result = {.verdict = "stable"};

	put_latency(&result, LATENCY_TTFT, 11, 12);
	put_latency(&result, LATENCY_TPOT, 13, 14);
	put_latency(&result, LATENCY_E2E, 15, 16);
	put(&result, VALUE_OFFERED_RATE, 17);
	put(&result, VALUE_REQUEST_RATE, 18);
	put(&result, VALUE_BACKLOG, 19);
	put(&result, VALUE_DRAIN, 20);
	put(&result, VALUE_OUTPUT_RATE, 2100);
	put(&result, VALUE_FINISHED, 22);
	put(&result, VALUE_SUBMITTED, 99);
	put(&result, VALUE_REJECTED, 24);
	put(&result, VALUE_FAILED, 25);
	put(&result, VALUE_UNFINISHED, 0);
	put(&result, VALUE_UTILISATION, 0.26);
	put(&result, VALUE_KV_PEAK, 0.27);
	put(&result, VALUE_SEATS_PEAK, 0.28);
	put(&result, VALUE_HIT_RATE, 0.29);
	put(&result, VALUE_QUERY_TOKENS, 3000);
	put(&result, VALUE_PREEMPTIONS, 31);
	put(&result, VALUE_RECOMPUTED, 3200);
	put(&result, VALUE_SLO_TTFT, 12);
	put(&result, VALUE_SLO_E2E, 15.9);
	put(&result, VALUE_SLO_ATTAINED, 0.99);
	put(&result, VALUE_SLO_GOODPUT, 33);
	return result;
}

#define NB "\u00a0"
#define CARD(state, title, value)                                                                  \
	"<div class=\"card" state "\"><dt>" title "</dt><dd>" value "</dd></div>\n"
#define PAIR(a, b)                                                                                 \
	"<span class=\"pair\"><span>" a NB "ms<small>median</small></span><span>" b NB             \
	"ms<small>p99</small></span></span>"
#define SMALL(text) "<small>" text "</small>"

Test(page_sections, cards_have_every_figure)
{
	const struct result result = ordinary();

	require_text(page_cards, &result,
		"<section aria-label=\"Key figures\">\n<dl class=\"cards\">\n" CARD(" met",
			"Requests within the SLO",
			"99.0" NB "%" SMALL("met: the goal is 99" NB "%; TTFT \u2264 12.0" NB
					    "ms, E2E \u2264 15.9" NB
					    "ms; goodput 33.0 requests/s")) CARD(" met",
			"Time to first token",
			PAIR("11.0", "12.0") SMALL("p99 within the SLO of 12.0" NB "ms")) CARD("",
			"Time per output token",
			PAIR("13.0", "14.0")) CARD(" missed", "End-to-end latency",
			PAIR("15.0", "16.0") SMALL("p99 above the SLO of 15.9" NB "ms")) CARD("",
			"Output throughput",
			"2,100" SMALL("tokens/s; 18.0 requests/s")) CARD("", "Requests finished",
			"22" SMALL("of 99; <em>24 rejected</em>; <em>25 failed</em>")) CARD("",
			"Utilisation",
			"26.0" NB "%" SMALL("of what the engine can carry; at most 27.0" NB
					    "% of the KV blocks, 28.0" NB
					    "% of the seats")) CARD("", "Prefix-cache hit rate",
			"29.0" NB "%" SMALL("of 3,000 prompt tokens")) CARD("", "Preemptions",
			"31" SMALL("3,200 tokens recomputed")) "</dl>\n</section>\n");
}

Test(page_sections, an_slo_is_missed_below_99_percent)
{
	struct result result = ordinary();

	put(&result, VALUE_SLO_ATTAINED, 0.9899);
	require_in(page_cards, &result,
		"<div class=\"card missed\"><dt>Requests within the SLO</dt><dd>99.0" NB
		"%<small>missed: ");
}

/* With prefill-first. */
Test(page_sections, more_sequences_than_seats_are_explained)
{
	struct result result = ordinary();

	put(&result, VALUE_SEATS_PEAK, 11);
	require_in(page_cards, &result,
		"% of the seats, which limit a step and not what runs</small>");
}

Test(page_sections, a_verdict_has_the_load)
{
	struct result result = ordinary();

	require_text(page_verdict, &result,
		"<section class=\"verdict rejecting\" aria-label=\"Verdict\">\n<p><strong>stable"
		"</strong> 24 of 99 requests (24.2" NB "%) were rejected. The engine kept up with "
		"the requests that it took.</p>\n"
		"<p class=\"facts\">17.0 requests/s offered, 18.0 finished; 19 waiting when the "
		"last one arrived, 20.0" NB "s from then to the last finish.</p>\n</section>\n");
	put(&result, VALUE_REJECTED, 99);
	require_in(page_verdict, &result,
		"<p><strong>stable</strong> 99 of 99 requests (100.0" NB "%) were rejected. </p>");
	put(&result, VALUE_REJECTED, 0);
	require_in(page_verdict, &result,
		"<section class=\"verdict stable\" aria-label=\"Verdict\">\n<p><strong>stable"
		"</strong> The engine kept up with what arrived.");
	put(&result, VALUE_SUBMITTED, 0);
	require_in(page_verdict, &result, "The engine kept up with what arrived.");
	put(&result, VALUE_SUBMITTED, 1);
	put(&result, VALUE_REJECTED, 1);
	result.verdict = "unserved";
	require_in(page_verdict, &result,
		"<section class=\"verdict unserved\" aria-label=\"Verdict\">\n<p><strong>unserved"
		"</strong> 1 of 1 request (100.0" NB "%) was rejected. Requests were left when no "
		"replica was there");
	result.verdict = "overloaded";
	require_in(page_verdict, &result, "More arrived than was served");
}

/* The cautions of three runs, of which the second has all that is warned of. */
static void require_cautions(const char *summary, const char *config, bool is_calibrated,
	double outside, const char *expected)
{
	struct result results[4] = {
		{.is_calibrated = true}, {.is_calibrated = is_calibrated}, {.is_calibrated = true}};
	struct result *second = &results[1];
	struct text page = {0};
	cJSON *nodes[2] = {cJSON_Parse(summary), cJSON_Parse(config)};

	require(nodes[0] != NULL && nodes[1] != NULL, "no JSON: %s %s", summary, config);
	second->root.node = nodes[0];
	second->config.node = nodes[1];
	second->is_beyond_memory = strstr(summary, SUMMARY_FOUND_KV_BLOCKS) != NULL;
	text_add(&second->label, "a<b");
	put(second, VALUE_SUBMITTED, 4000);
	put(second, VALUE_REJECTED_TOO_LONG, 1000);
	put(second, VALUE_REJECTED_NEVER_FITS, 1);
	put(second, VALUE_OUTSIDE_TIME, outside);
	put(&results[0], VALUE_OUTSIDE_TIME, OUTSIDE_MOST);
	put(&results[3], VALUE_OUTSIDE_TIME, 1); /* one behind the last, with all of it */
	results[3].is_beyond_memory = true;
	page_calibration(&page, results, 3);
	cr_assert_str_eq(page.bytes == NULL ? "" : page.bytes, expected);
	text_deinit(&page);
	text_deinit(&second->label);
	cJSON_Delete(nodes[0]);
	cJSON_Delete(nodes[1]);
}

#define CAUTION "<p class=\"caution\">"

Test(page_sections, cautions_are_of_the_run_that_has_them)
{
	require_cautions("{}", "{}", true, 0.05, "");
	require_cautions("{}", "{}", true, 0.0501,
		CAUTION "a&lt;b: 5.0 % of the time is in steps unlike those that the profile was "
			"fitted to. Their prices are a guess.</p>\n");
	require_cautions("{}", "{}", false, 1,
		CAUTION "<span class=\"badge\">uncalibrated</span> The times come from a cost "
			"model that was not checked against a run on this GPU: scheduling, cache "
			"hits and counts are exact for these times, the times themselves are an "
			"estimate.</p>\n");
	require_cautions("{\"found_kv_blocks\": 1234}", "{\"kv_blocks\": 5678}", true, 0,
		CAUTION "a&lt;b: the run assumes 5,678 KV blocks, and the GPU\u2019s memory has "
			"room for 1,234.</p>\n");
}

/* Blocks are whole, and the last token needs none: 34 tokens take three of 16, 33 two. */
Test(page_sections, rejections_say_which_option_takes_all)
{
	require_cautions("{\"requests\": {\"longest_too_long\": 9000}}", "{}", true, 0,
		CAUTION "a&lt;b: 1,000 requests (25.0" NB
			"%) exceed max_model_len and were rejected; --max-model-len 9000 takes "
			"all.</p>\n");
	for (uint32_t i = 0; i < 2; i++) {
		char summary[80];
		snprintf(summary, sizeof(summary), "{\"requests\": {\"longest_never_fits\": %u}}",
			34 - i);
		require_cautions(summary, "{\"block_size\": 16}", true, 0,
			i == 0 ? CAUTION "a&lt;b: 1 request (0.03" NB
					 "%) exceeds the KV pool and was rejected; --kv-blocks 3 "
					 "takes all.</p>\n"
			       : CAUTION "a&lt;b: 1 request (0.03" NB
					 "%) exceeds the KV pool and was rejected; --kv-blocks 2 "
					 "takes all.</p>\n");
	}
	require_cautions(
		"{\"requests\": {\"longest_never_fits\": 33}}", "{\"block_size\": 0}", true, 0, "");
}

/* Replicas that differ have their limits in the table of the fleet, which the options do not
   change. */
Test(page_sections, rejections_by_a_group_say_which_column_takes_all)
{
	static const char both[] =
		"{\"requests\": {\"longest_too_long\": 9000, \"longest_never_fits\": 34}}";
	static const char said[] = CAUTION
		"a&lt;b: 1,000 requests (25.0" NB
		"%%) exceed max_model_len and were rejected; %s 9000%s takes all.</p>\n" CAUTION
		"a&lt;b: 1 request (0.03" NB
		"%%) exceeds the KV pool and was rejected; %s 3%s takes all.</p>\n";
	char expected[512];

	snprintf(expected, sizeof(expected), said, "max_model_len", " in every row of --fleet",
		"kv_blocks", " in every row of --fleet");
	require_cautions(both, "{\"block_size\": 16, \"fleet\": \"f.tsv\"}", true, 0, expected);
	snprintf(expected, sizeof(expected), said, "--max-model-len", "", "--kv-blocks", "");
	require_cautions(both, "{\"block_size\": 16, \"fleet\": \"none\"}", true, 0, expected);
}

/* ---- differences of several results ---- */

enum { LATENCY_FIGURES = LATENCY_COUNT * STATISTIC_COUNT };

/* Two results of which the second has more of everything by a share. */
static void make_pair(struct result *results, double share)
{
	for (uint32_t i = 0; i < 2; i++) {
		double value = i == 0 ? 100 : 100 * (1 + share);
		results[i] = (struct result){.verdict = "stable", .status = "complete"};
		text_add(&results[i].legend, "run");
		for (uint32_t j = 0; j < RESULT_NUMBER_COUNT; j++) {
			put(&results[i], (enum result_number)j, value);
		}
		for (uint32_t j = 0; j < LATENCY_FIGURES; j++) {
			results[i].latency_ms[j / STATISTIC_COUNT][j % STATISTIC_COUNT] =
				(struct result_value){true, value};
		}
	}
}

/* A table of the pair has so many differences that are worse, neither and better. */
static void require_differences(
	void (*add)(struct text *page, const struct result *results, uint32_t count),
	const struct result *pair, const uint32_t *expected, double share)
{
	static const char *const kinds[] = {" worse", "", " better"};
	struct text page = {0};

	add(&page, pair, 2);
	for (uint32_t i = 0; i < 3; i++) {
		char tag[64];
		snprintf(tag, sizeof(tag), "<span class=\"difference%s\">", kinds[i]);
		uint32_t found = (uint32_t)occurrences(page.bytes, tag);
		require(found == expected[i], "%g more: %u%s, expected %u: %s", share, found,
			kinds[i], expected[i], page.bytes);
	}
	text_deinit(&page);
}

/* Figures that grow with what is offered. */
static bool is_rate(uint32_t number)
{
	return number == VALUE_OUTPUT_RATE || number == VALUE_TOTAL_RATE ||
	       number == VALUE_REQUEST_RATE;
}

/* Less latency is better, of other figures what their metric says; differences of less than half
   a thousandth are neither, and served rates are neither where offered ones differ by 1 %. */
Test(page_sections, differences_are_better_or_worse)
{
	static const double shares[] = {
		-0.5, -0.011, -0.009, -0.0006, -0.0004, 0, 0.0004, 0.0006, 0.009, 0.011, 0.5};
	struct result pair[2];

	for (uint32_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		double share = shares[i];
		int sign = (share > 0.0005) - (share < -0.0005);
		uint32_t latencies[3] = {0}, numbers[3] = {0};
		make_pair(pair, share);
		latencies[1 - sign] = LATENCY_FIGURES;
		for (uint32_t j = 0; j < RESULT_NUMBER_COUNT; j++) {
			bool is_neither = is_rate(j) && (share > 0.01 || share < -0.01);
			numbers[1 + (is_neither ? 0 : sign * metrics_table[j].better)]++;
		}
		require_differences(page_latencies, pair, latencies, share);
		require_differences(page_totals, pair, numbers, share);
		/* A value that one of them lacks has no difference. */
		latencies[1 - sign] -= 2;
		pair[0].latency_ms[LATENCY_TTFT][STATISTIC_P99].has_value = false;
		pair[1].latency_ms[LATENCY_E2E][STATISTIC_P50].has_value = false;
		require_differences(page_latencies, pair, latencies, share);
		text_deinit(&pair[0].legend);
		text_deinit(&pair[1].legend);
	}
}

static void add_fleet(struct text *page, const struct result *result)
{
	page_fleet(page, result, 1);
}

Test(page_sections, evenness_of_a_fleet_is_said_in_words)
{
	static const struct {
		const char *imbalance, *words;
	} rows[] = {{"1.09", "<p>The load was even: "}, {"1.1", "somewhat uneven: "},
		{"1.49", "somewhat uneven: "}, {"1.5", "<p>The load was uneven: "}};

	for (uint32_t i = 0; i < 4; i++) {
		struct result result = {0};
		char text[512];
		snprintf(text, sizeof(text),
			"{\"fleet\":{\"router\":\"prefix\",\"imbalance\":%s,\"jain\":0.9,"
			"\"regret_blocks\":12,\"whole_hit_rate\":0.25,\"retries\":7,"
			"\"rejected_queue_full\":null,\"replicas\":[1,2,3]}}",
			rows[i].imbalance);
		cJSON *root = cJSON_Parse(text);
		result.root.node = root;
		require_in(add_fleet, &result, rows[i].words);
		require_in(add_fleet, &result,
			"Jain's index is 0.900 (1 if all have the "
			"same, 1 over their number if one has all).</p>\n");
		require_in(add_fleet, &result,
			"(regret)</th><td>12</td></tr>\n<tr><th scope=\"row\">Hit rate of one "
			"cache "
			"with all the memory</th><td>25.0" NB
			"%</td></tr>\n<tr><th scope=\"row\">Requests sent again after a failure"
			"</th><td>7</td></tr>\n<tr><th scope=\"row\">Rejected by the router's full "
			"queue</th><td>\u2013</td></tr>\n");
		require_in(add_fleet, &result, "<td>3 behind ");
		cJSON_Delete(root);
	}
}

Test(page_sections, replicas_without_a_request_are_counted)
{
	static const struct {
		const char *replicas, *words;
	} rows[] = {{"{\"requests\":0},{\"requests\":2},{\"requests\":0}",
			    "if one has all). 2 of 3 got no request.</p>"},
		{"{\"requests\":1},{\"requests\":2}", "if one has all).</p>"},
		{"{},{\"requests\":null}", "if one has all).</p>"}};

	for (uint32_t i = 0; i < 3; i++) {
		struct result result = {0};
		char text[256];
		snprintf(text, sizeof(text),
			"{\"fleet\":{\"imbalance\":1,\"jain\":1,\"replicas\":[%s]}}",
			rows[i].replicas);
		cJSON *root = cJSON_Parse(text);
		result.root.node = root;
		require_in(add_fleet, &result, rows[i].words);
		cJSON_Delete(root);
	}
}

/* made_plan.c: c0 has 6.96 and c1 20.01 requests/s a GPU, within 10 %; the end of c1's is 100 %. */
Test(page_sections, configurations_of_a_plan_have_their_bars)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct made_plan made = made_plan_ordinary;
	const char *directory = path;

	temporary_folder(folder);
	made.configurations = 2;
	make_plan(folder, "plan", &made, path);
	char *page = make_page(folder, &directory, 1, "page.html");
	require_has(page,
		"<td>6.96" NB "requests/s</td><td>1</td><td>6.96</td><td class=\"picture\">"
		"<span class=\"interval sampling\"><i style=\"left:28.5%;width:6.3%\"></i>"
		"<b style=\"left:31.6%\"></b></span></td><td>1.00<br><small>0.95 to 1.05</small>"
		"</td><td class=\"words\">c1</td><td>80.0" NB
		"%</td><td>2,088</td><td>30.0</td><td>yes</td><td>0.410</td>"
		"<td class=\"words\">ttft</td></tr>");
	require_has(page,
		"<td>20.01" NB "requests/s</td><td>2</td><td>20.0</td><td class=\"picture\">"
		"<span class=\"interval sampling\"><i style=\"left:81.8%;width:18.2%\"></i>"
		"<b style=\"left:90.9%\"></b></span></td><td>2.88<br><small>2.73 to 3.02</small>"
		"</td><td class=\"words\">c0</td><td>80.0" NB
		"%</td><td>6,003</td><td>39.0</td><td>\u2013</td><td>0.410</td>");
	/* The first load of c0, 13/15 requests/s, is 13/120 of what it carries. */
	require_has(page, "<td>0</td><td>1.00</td><td>1</td><td>0.867</td><td>99.9" NB
			  "%</td><td>0.866</td><td>260</td><td>67.3" NB "ms</td><td>561" NB
			  "ms</td><td>11.3" NB "ms</td><td>18.6" NB "ms</td><td>40.0" NB
			  "%</td><td>1</td><td>10.8" NB "%</td><td>stable</td>"
			  "<td class=\"better\">passes</td></tr>");
	free(page);
	temporary_remove(folder);
}

Test(page_sections, contents_link_to_their_targets)
{
	static const struct page_link links[] = {{"one", "First"}, {"two", "Second"}, {0}};
	struct text page = {0};

	page_contents(&page, links);
	cr_assert_str_eq(page.bytes, "<nav aria-label=\"Contents\"><a href=\"#one\">First</a> "
				     "<a href=\"#two\">Second</a></nav>\n</header>\n<main>\n");
	text_deinit(&page);
}

/* Demands that the value stands in a cell behind *at, and goes on behind it. */
static void require_cell(
	const char **at, enum number_format format, const struct result_value *value)
{
	struct text cell = {0};

	text_add(&cell, "<td>");
	text_add_number(&cell, format, value->has_value, value->value);
	const char *found = strstr(*at, cell.bytes);
	require(found != NULL, "'%s' is not in '%.200s'", cell.bytes, *at);
	*at = found + cell.byte_count;
	text_deinit(&cell);
}

enum { COMPARED_MOST = 3 };

/* Results in which no two figures are equal, in three digits either. */
static void fill_results(struct result *results)
{
	double next = 3;

	memset(results, 0, COMPARED_MOST * sizeof(*results));
	for (uint32_t k = 0; k < COMPARED_MOST; k++) {
		results[k].verdict = "stable";
		text_add(&results[k].legend, "run");
		for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
			put(&results[k], (enum result_number)i, next *= 1.02);
		}
		for (uint32_t i = 0; i < LATENCY_COUNT * STATISTIC_COUNT; i++) {
			results[k].latency_ms[i / STATISTIC_COUNT][i % STATISTIC_COUNT] =
				(struct result_value){true, next *= 1.02};
		}
	}
}

/* Each latency and each total of each result, in the order of rows and columns. */
Test(page_sections, tables_have_every_figure_of_every_result)
{
	static struct result results[COMPARED_MOST];

	fill_results(results);
	for (uint32_t count = 1; count <= COMPARED_MOST; count++) {
		struct text page = {0};
		page_latencies(&page, results, count);
		const char *at = page.bytes;
		for (uint32_t i = 0; i < LATENCY_COUNT * STATISTIC_COUNT; i++) {
			for (uint32_t k = 0; k < count; k++) {
				require_cell(&at, count == 1 ? NUMBER_MS : NUMBER_TIME_MS,
					&results[k].latency_ms[i / STATISTIC_COUNT]
							      [i % STATISTIC_COUNT]);
			}
		}
		require(strstr(at, "<td>") == NULL, "more cells than figures: %s", at);
		text_deinit(&page);
		page_totals(&page, results, count);
		at = page.bytes;
		for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
			for (uint32_t k = 0; k < count; k++) {
				require_cell(&at, metrics_table[i].format, &results[k].numbers[i]);
			}
		}
		require(strstr(at, "<td>") == NULL, "more cells than figures: %s", at);
		text_deinit(&page);
	}
	for (uint32_t k = 0; k < COMPARED_MOST; k++) {
		text_deinit(&results[k].legend);
	}
}

/* ---- results side by side ---- */

enum { SIDES_MOST = 4 };

static struct result_value draw_value(struct prop *prop, double scale)
{
	static const double shares[] = {0, 1, 1.0004, 1.009, 1.011, 1.5};
	uint64_t drawn = prop_below(prop, 7);

	return drawn == 6 ? (struct result_value){0}
			  : (struct result_value){true, scale * shares[drawn]};
}

static void draw_sides(struct prop *prop, struct result *results, uint32_t count)
{
	static const char *const verdicts[] = {"stable", "backlogged", "overloaded"};
	static const char *const ends[] = {"complete", "interrupted", "failed"};
	bool has_some = prop_chance(prop, 1, 2);

	memset(results, 0, count * sizeof(*results));
	for (uint32_t k = 0; k < count; k++) {
		results[k].verdict = verdicts[prop_below(prop, 3)];
		results[k].status = ends[prop_below(prop, 3)];
		results[k].is_calibrated = has_some && prop_chance(prop, 1, 2);
		text_add(&results[k].legend, "run");
	}
	for (uint32_t i = 0; i < RESULT_NUMBER_COUNT; i++) {
		bool has_any = prop_chance(prop, 3, 4);
		bool is_zero = prop_chance(prop, 1, 4);
		for (uint32_t k = 0; has_any && k < count; k++) {
			results[k].numbers[i] = draw_value(prop, is_zero ? 0 : 40 + i);
		}
	}
	for (uint32_t i = 0; i < LATENCY_FIGURES; i++) {
		for (uint32_t k = 0; k < count; k++) {
			results[k].latency_ms[i / STATISTIC_COUNT][i % STATISTIC_COUNT] =
				draw_value(prop, 100 + i);
		}
	}
}

/* Values of each result and, behind those of the first, their differences from it. */
static void add_expected_row(struct text *out, const char *title, enum number_format format,
	int better, const struct result_value *values, uint32_t count)
{
	text_format(out, "<tr><th scope=\"row\">%s</th>", title);
	for (uint32_t k = 0; k < count; k++) {
		double more = (values[k].value - values[0].value) * better;
		bool is_equal = more < 0.0005 * values[0].value && -more < 0.0005 * values[0].value;
		text_add(out, "<td>");
		text_add_number(out, format, values[k].has_value, values[k].value);
		if (k > 0 && values[0].has_value && values[k].has_value) {
			text_format(out, " <span class=\"difference%s\">",
				more > 0 && !is_equal	? " better"
				: more < 0 && !is_equal ? " worse"
							: "");
			text_add_difference(out, format, &values[0].value, &values[k].value);
			text_add(out, "</span>");
		}
		text_add(out, "</td>");
	}
	text_add(out, "</tr>\n");
}

/* A row is left out where it is optional and no result has it, and, of those that only matter where
   something happened, where all are 0. */
static void add_expected_number(struct text *out, const struct result *results, uint32_t count,
	enum result_number number, bool only_above_0)
{
	const struct metric *metric = &metrics_table[number];
	const struct result_value *offered = &results[0].numbers[VALUE_OFFERED_RATE];
	struct result_value values[SIDES_MOST];
	bool has_any = false, is_above_0 = false, is_offered_alike = true;

	for (uint32_t k = 0; k < count; k++) {
		const struct result_value *own = &results[k].numbers[VALUE_OFFERED_RATE];
		values[k] = results[k].numbers[number];
		has_any |= values[k].has_value;
		is_above_0 |= values[k].has_value && values[k].value > 0;
		is_offered_alike &= own->has_value == offered->has_value &&
				    own->value <= 1.01 * offered->value &&
				    own->value >= 0.99 * offered->value;
	}
	if (only_above_0 ? is_above_0 : has_any || !metric->is_optional) {
		add_expected_row(out, metric->title, metric->format,
			is_rate(number) && !is_offered_alike ? 0 : metric->better, values, count);
	}
}

static void add_expected_latency(struct text *out, const struct result *results, uint32_t count,
	enum latency_metric metric, enum latency_statistic statistic, const char *title)
{
	struct result_value values[SIDES_MOST];

	for (uint32_t k = 0; k < count; k++) {
		values[k] = results[k].latency_ms[metric][statistic];
	}
	add_expected_row(out, title, NUMBER_TIME_MS, -1, values, count);
}

/* Where no result is calibrated, the page says so of all of them. */
static void add_expected_verdicts(struct text *out, const struct result *results, uint32_t count)
{
	bool has_calibrated = false;

	for (uint32_t k = 0; k < count; k++) {
		has_calibrated |= results[k].is_calibrated;
	}
	text_add(out, "<tr class=\"verdicts\"><th scope=\"row\">Verdict</th>");
	for (uint32_t k = 0; k < count; k++) {
		const struct result *result = &results[k];
		bool is_whole = strcmp(result->status, "complete") == 0;
		bool is_told = has_calibrated && !result->is_calibrated;
		text_format(out, "<td><span class=\"chip %s\" title=\"%s\">%s</span>",
			result->verdict, page_verdict_meaning(result), result->verdict);
		text_format(
			out, is_whole ? "" : " <span class=\"badge\">%s</span>", result->status);
		text_add(
			out, is_told ? " <span class=\"badge\">uncalibrated</span></td>" : "</td>");
	}
	text_add(out, "</tr>\n");
}

static void body_side_by_side(struct prop *prop, const void *context)
{
	static const enum result_number first[] = {VALUE_SLO_ATTAINED, VALUE_SLO_GOODPUT,
		VALUE_OFFERED_RATE, VALUE_REQUEST_RATE, VALUE_OUTPUT_RATE};
	static const enum result_number last[] = {VALUE_UTILISATION, VALUE_KV_PEAK,
		VALUE_SEATS_PEAK, VALUE_HIT_RATE, VALUE_PREEMPTIONS, VALUE_BACKLOG, VALUE_DRAIN,
		VALUE_SUBMITTED, VALUE_FINISHED, VALUE_REJECTED, VALUE_FAILED, VALUE_UNFINISHED};
	struct result *results = calloc(SIDES_MOST, sizeof(*results));
	struct text page = {0}, rows = {0};
	uint32_t count = prop_range(prop, 2, SIDES_MOST);

	(void)context;
	draw_sides(prop, results, count);
	text_add(&rows, "<tbody>\n");
	add_expected_verdicts(&rows, results, count);
	for (uint32_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
		add_expected_number(&rows, results, count, first[i], false);
	}
#define LATENCY(metric, statistic, title)                                                          \
	add_expected_latency(&rows, results, count, LATENCY_##metric, STATISTIC_##statistic, title)
	LATENCY(TTFT, P50, "Time to first token, median");
	LATENCY(TTFT, P99, "Time to first token, p99");
	LATENCY(TPOT, P50, "Time per output token, median");
	LATENCY(TPOT, P99, "Time per output token, p99");
	LATENCY(E2E, P50, "End-to-end latency, median");
	LATENCY(E2E, P99, "End-to-end latency, p99");
	for (uint32_t i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
		add_expected_number(&rows, results, count, last[i], true);
	}
	text_add(&rows, "</tbody>");
	page_comparison(&page, results, count);
	require(strstr(page.bytes, rows.bytes) != NULL, "found\n%s\nexpected\n%s", page.bytes,
		rows.bytes);
	for (uint32_t k = 0; k < count; k++) {
		text_deinit(&results[k].legend);
	}
	text_deinit(&page);
	text_deinit(&rows);
	free(results);
}

Test(page_sections, results_stand_side_by_side, .timeout = 120)
{
	const struct prop_options options = {
		.name = "side by side", .body = body_side_by_side, .trials = 300};

	cr_assert(prop_holds(&options));
}

/* ---- fields ---- */

enum { OBJECTS_MOST = 8, FIELDS = 6 };

/* Values as JSON and on the page; no two are equal, though two look alike. The first: absent. */
static const struct {
	const char *json, *shown;
} values[] = {{NULL, "\u2013"}, {"null", "\u2013"}, {"1", "1"}, {"\"1\"", "1"}, {"1.5", "1.5"},
	{"0", "0"}, {"true", "true"}, {"false", "false"}, {"\"\"", ""}, {"\"a<b\"", "a&lt;b"},
	{"\"A<b\"", "A&lt;b"}, {"[1,2]", "[1,2]"}, {"[2,1]", "[2,1]"}, {"[1]", "[1]"}, {"{}", "{}"},
	{"[]", "[]"}};

static const char *const field_names[FIELDS] = {
	"model", "kv_blocks", "Model", "model_", "policy", "a&b"};

/* Objects of fields: values[at[i][field]] of each, in the order that each has them in. */
struct fields {
	uint32_t count;
	uint32_t at[OBJECTS_MOST + 1][FIELDS]; /* the last: the defaults */
	uint32_t order[OBJECTS_MOST + 1][FIELDS];
	cJSON *nodes[OBJECTS_MOST + 1]; /* NULL: there is no object */
};

static void draw_object(struct prop *prop, struct fields *fields, uint32_t index)
{
	enum { VALUES = sizeof(values) / sizeof(values[0]) };
	bool is_there = !prop_chance(prop, 1, 8);
	uint32_t turn = (uint32_t)prop_below(prop, FIELDS);

	fields->nodes[index] = is_there ? cJSON_CreateObject() : NULL;
	for (uint32_t i = 0; i < FIELDS; i++) {
		uint32_t field = (i + turn) % FIELDS;
		/* Mostly as an object before it has the field. */
		uint32_t like = (uint32_t)prop_below(prop, u32_min(index, fields->count) + 1);
		uint32_t value = like < u32_min(index, fields->count) && prop_chance(prop, 2, 3)
					 ? fields->at[like][field]
					 : (uint32_t)prop_below(prop, VALUES);
		fields->order[index][i] = field;
		fields->at[index][field] = is_there ? value : 0;
		if (is_there && value > 0) {
			cJSON_AddItemToObject(fields->nodes[index], field_names[field],
				cJSON_Parse(values[value].json));
		}
	}
}

static bool is_usual(const struct fields *fields, uint32_t field)
{
	uint32_t usual = fields->at[OBJECTS_MOST][field];

	for (uint32_t i = 0; i < fields->count; i++) {
		if (usual == 0 || fields->at[i][field] != usual) {
			return false;
		}
	}
	return true;
}

/* A row of each field that an object has, in the order of its first object; marked unless all are
   equal to each other. Returns how many of them have their default and are left out. */
static uint32_t add_expected_fields(
	struct text *out, const struct fields *fields, bool leaves_defaults)
{
	bool is_seen[FIELDS] = {false};
	uint32_t left_out = 0;

	for (uint32_t k = 0; k < fields->count * FIELDS; k++) {
		uint32_t field = fields->order[k / FIELDS][k % FIELDS];
		bool differs = false;
		if (is_seen[field] || fields->at[k / FIELDS][field] == 0) {
			continue;
		}
		is_seen[field] = true;
		if (leaves_defaults && is_usual(fields, field)) {
			left_out++;
			continue;
		}
		for (uint32_t i = 0; i < fields->count * fields->count; i++) {
			differs = differs || fields->at[i / fields->count][field] !=
						     fields->at[i % fields->count][field];
		}
		text_format(out, "<tr%s><th scope=\"row\">%s</th>",
			differs ? " class=\"differs\"" : "",
			field + 1 == FIELDS ? "a&amp;b" : field_names[field]);
		for (uint32_t i = 0; i < fields->count; i++) {
			text_format(out, "<td>%s</td>", values[fields->at[i][field]].shown);
		}
		text_add(out, "</tr>\n");
	}
	return left_out;
}

/* Demands the rows as all of the next table's, and goes behind it. */
static const char *require_rows(const char *page, const struct text *rows)
{
	const char *expected = rows->bytes == NULL ? "" : rows->bytes;
	const char *begin = strstr(page, "<tbody>\n");

	require(begin != NULL, "no table in\n%s", page);
	begin += strlen("<tbody>\n");
	const char *end = strstr(begin, "</tbody>");
	require((size_t)(end - begin) == strlen(expected) &&
			strncmp(begin, expected, strlen(expected)) == 0,
		"found\n%.*s\nexpected\n%s", (int)(end - begin), begin, expected);
	return end;
}

static void require_configuration(
	const struct fields *fields, const struct result *results, bool is_one)
{
	const struct json_object defaults = {.node = fields->nodes[OBJECTS_MOST]};
	struct text page = {0}, rows = {0}, all = {0};
	char summary[96];

	uint32_t left_out = add_expected_fields(&rows, fields, true);
	add_expected_fields(&all, fields, false);
	if (is_one) {
		page_one_configuration(&page, &results[0].config, &defaults);
	} else {
		page_configuration(&page, results, fields->count, &defaults);
	}
	const char *rest = require_rows(page.bytes, &rows);
	snprintf(summary, sizeof(summary), "<summary>All settings, with %u %s</summary>", left_out,
		left_out == 1 ? "default" : "defaults");
	require((strstr(rest, "<details>") != NULL) == (left_out > 0), "%u left out", left_out);
	if (left_out > 0) {
		require_has(rest, summary);
		require_rows(rest, &all);
	}
	text_deinit(&page);
	text_deinit(&rows);
	text_deinit(&all);
}

static void require_provenance(
	const struct fields *fields, const struct result *results, bool is_one)
{
	static const char *const titles[] = {
		"folder", "trace", "trace hash (XXH64)", "result hash"};
	struct text page = {0}, rows = {0};

	for (uint32_t i = 0; i < 4 && !is_one; i++) {
		text_format(&rows, "<tr><th scope=\"row\">%s</th>", titles[i]);
		for (uint32_t k = 0; k < fields->count; k++) {
			text_format(&rows, "<td>%c%u</td>", "lnxr"[i], k);
		}
		text_add(&rows, "</tr>\n");
	}
	add_expected_fields(&rows, fields, false);
	if (is_one) {
		page_one_provenance(&page, &results[0].provenance);
	} else {
		page_provenance(&page, results, fields->count);
	}
	if (is_one && fields->nodes[0] == NULL) {
		require(page.byte_count == 0, "found %s", page.bytes);
	} else {
		require_rows(page.bytes, &rows);
	}
	text_deinit(&page);
	text_deinit(&rows);
}

/* Runs of other runners, or of other builds, have other fields. */
static void body_fields(struct prop *prop, const void *context)
{
	static const char *const texts[][OBJECTS_MOST] = {
		{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"},
		{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"},
		{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"}};
	struct fields fields = {
		.count = prop_chance(prop, 1, 2) ? 2 : prop_range(prop, 1, OBJECTS_MOST)};
	struct result *results = calloc(OBJECTS_MOST, sizeof(*results));

	(void)context;
	draw_object(prop, &fields, 0);
	for (uint32_t i = 1; i < fields.count; i++) {
		draw_object(prop, &fields, i);
	}
	draw_object(prop, &fields, OBJECTS_MOST);
	for (uint32_t i = 0; i < fields.count; i++) {
		struct result *result = &results[i];
		result->config.node = result->provenance.root = fields.nodes[i];
		result->trace_name = texts[0][i];
		result->trace_xxh64 = texts[1][i];
		result->result_hash = texts[2][i];
		text_format(&result->label, "l%u", i);
		text_format(&result->legend, "l%u", i);
	}
	bool is_one = fields.count == 1 && prop_chance(prop, 1, 2);
	require_configuration(&fields, results, is_one);
	require_provenance(&fields, results, is_one);
	for (uint32_t i = 0; i < OBJECTS_MOST; i++) {
		cJSON_Delete(fields.nodes[i]);
		text_deinit(&results[i].label);
		text_deinit(&results[i].legend);
	}
	cJSON_Delete(fields.nodes[OBJECTS_MOST]);
	free(results);
}

Test(page_sections, fields_that_differ_are_marked, .timeout = 120)
{
	const struct prop_options options = {.name = "fields", .body = body_fields, .trials = 2000};

	cr_assert(prop_holds(&options));
}
