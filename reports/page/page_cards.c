#include "reports/page/page_sections.h"

#include "engine/base/number.h"
#include "reports/page/page_elements.h"

#include <string.h>

/* The share of requests within the SLO from which a run is shown to meet it: the limits are usually
   demanded of the 99th percentile. */
#define SLO_SHARE 0.99

/* What was rejected, in front of what the verdict says of the others. */
static void add_rejected(struct text *page, double rejected, double submitted)
{
	text_add_number(page, NUMBER_COUNT, true, rejected);
	text_add(page, " of ");
	text_add_count(page, (uint64_t)submitted, "request", "requests");
	text_add(page, " (");
	text_add_number(page, NUMBER_SHARE, submitted > 0, rejected / submitted);
	text_format(page, ") %s rejected. ", word_of_count((uint64_t)rejected, "was", "were"));
}

void page_verdict(struct text *page, const struct result *result)
{
	double rejected = result->numbers[VALUE_REJECTED].value;
	double submitted = result->numbers[VALUE_SUBMITTED].value;
	bool is_stable = strcmp(result->verdict, "stable") == 0;

	text_format(page,
		"<section class=\"verdict %s\" aria-label=\"Verdict\">\n<p><strong>%s</strong> ",
		is_stable && rejected > 0 ? "rejecting" : result->verdict, result->verdict);
	if (rejected > 0) {
		add_rejected(page, rejected, submitted);
	}
	if (!is_stable || rejected <= 0 || rejected < submitted) {
		text_add(page, page_verdict_meaning(result));
	}
	text_add(page, "</p>\n<p class=\"facts\">");
	if (result->numbers[VALUE_OFFERED_RATE].has_value) {
		page_value(page, result, VALUE_OFFERED_RATE);
		text_add(page, " requests/s offered, ");
		page_value(page, result, VALUE_REQUEST_RATE);
		text_add(page, " finished; ");
	}
	page_value(page, result, VALUE_BACKLOG);
	text_add(page, " waiting when the last one arrived, ");
	page_value(page, result, VALUE_DRAIN);
	text_add(page, " from then to the last finish.</p>\n</section>\n");
}

/* Median and 99th percentile side by side. limit: of the SLO for each request, or NULL; the card
   says whether 99 % of them are within it. */
static void add_latency_card(struct text *page, const struct result *result, const char *title,
	uint32_t metric, const struct result_value *limit)
{
	static const struct {
		enum latency_statistic statistic;
		const char *word;
	} shown[] = {{STATISTIC_P50, "median"}, {STATISTIC_P99, "p99"}};
	const struct result_value *values = result->latency_ms[metric];
	bool has_limit = limit != NULL && limit->has_value && values[STATISTIC_P99].has_value;
	bool is_met = has_limit && values[STATISTIC_P99].value <= limit->value;

	page_card_open(page, title, !has_limit ? "" : is_met ? "met" : "missed");
	text_add(page, "<span class=\"pair\">");
	for (uint32_t i = 0; i < 2; i++) {
		const struct result_value *value = &values[shown[i].statistic];
		text_add(page, "<span>");
		text_add_number(page, NUMBER_TIME_MS, value->has_value, value->value);
		text_format(page, "<small>%s</small></span>", shown[i].word);
	}
	text_add(page, "</span>");
	if (has_limit) {
		text_format(page, "<small>p99 %s the SLO of ", is_met ? "within" : "above");
		text_add_number(page, NUMBER_TIME_MS, true, limit->value);
		text_add(page, "</small>");
	}
	page_card_close(page);
}

static void add_request_card(struct text *page, const struct result *result)
{
	static const struct {
		enum result_number number;
		const char *word;
	} others[] = {{VALUE_REJECTED, "rejected"}, {VALUE_FAILED, "failed"},
		{VALUE_UNFINISHED, "unfinished"}};

	page_card_open(page, "Requests finished", "");
	page_value(page, result, VALUE_FINISHED);
	text_add(page, "<small>of ");
	page_value(page, result, VALUE_SUBMITTED);
	for (uint32_t i = 0; i < 3; i++) {
		if (result->numbers[others[i].number].value > 0) {
			text_add(page, "; <em>");
			page_value(page, result, others[i].number);
			text_format(page, " %s</em>", others[i].word);
		}
	}
	text_add(page, "</small>");
	page_card_close(page);
}

/* With an SLO, the card that answers the reader's question. */
static void add_slo_card(struct text *page, const struct result *result)
{
	static const struct {
		enum result_number number;
		const char *word;
	} limits[] = {{VALUE_SLO_TTFT, "TTFT"}, {VALUE_SLO_TPOT, "TPOT"}, {VALUE_SLO_E2E, "E2E"}};
	const char *comma = "";
	bool has_limit = false;

	for (uint32_t i = 0; i < 3; i++) {
		has_limit = has_limit || result->numbers[limits[i].number].has_value;
	}
	if (!has_limit) {
		return;
	}
	const struct result_value *attained = &result->numbers[VALUE_SLO_ATTAINED];
	bool is_met = attained->has_value && attained->value >= SLO_SHARE;
	page_card_open(page, "Requests within the SLO",
		!attained->has_value ? ""
		: is_met	     ? "met"
				     : "missed");
	page_value(page, result, VALUE_SLO_ATTAINED);
	text_format(page, "<small>%s: the goal is %.0f\u00a0%%; ", is_met ? "met" : "missed",
		100 * SLO_SHARE);
	for (uint32_t i = 0; i < 3; i++) {
		if (result->numbers[limits[i].number].has_value) {
			text_format(page, "%s%s \u2264 ", comma, limits[i].word);
			page_value(page, result, limits[i].number);
			comma = ", ";
		}
	}
	text_add(page, "; goodput ");
	page_value(page, result, VALUE_SLO_GOODPUT);
	text_add(page, " requests/s</small>");
	page_card_close(page);
}

static void add_use_cards(struct text *page, const struct result *result)
{
	page_card_open(page, "Utilisation", "");
	page_value(page, result, VALUE_UTILISATION);
	text_add(page, "<small>of what the engine can carry; at most ");
	page_value(page, result, VALUE_KV_PEAK);
	text_add(page, " of the KV blocks, ");
	page_value(page, result, VALUE_SEATS_PEAK);
	/* prefill-first limits the rows of a step, not the sequences that run */
	text_format(page, " of the seats%s%s</small>",
		page_fleet_table(result) == NULL ? "" : " of an average replica",
		result->numbers[VALUE_SEATS_PEAK].value <= 1
			? ""
			: ", which limit a step and not what runs");
	page_card_close(page);
	if (result->numbers[VALUE_HIT_RATE].has_value) {
		page_card_open(page, "Prefix-cache hit rate", "");
		page_value(page, result, VALUE_HIT_RATE);
		text_add(page, "<small>of ");
		page_value(page, result, VALUE_QUERY_TOKENS);
		text_format(page, " prompt %s</small>",
			word_of_count((uint64_t)result->numbers[VALUE_QUERY_TOKENS].value, "token",
				"tokens"));
		page_card_close(page);
	}
	if (result->numbers[VALUE_PREEMPTIONS].value > 0) {
		page_card_open(page, "Preemptions", "");
		page_value(page, result, VALUE_PREEMPTIONS);
		text_add(page, "<small>");
		page_value(page, result, VALUE_RECOMPUTED);
		text_format(page, " %s recomputed</small>",
			word_of_count((uint64_t)result->numbers[VALUE_RECOMPUTED].value, "token",
				"tokens"));
		page_card_close(page);
	}
}

void page_cards(struct text *page, const struct result *result)
{
	text_add(page, "<section aria-label=\"Key figures\">\n<dl class=\"cards\">\n");
	add_slo_card(page, result);
	add_latency_card(page, result, "Time to first token", LATENCY_TTFT,
		&result->numbers[VALUE_SLO_TTFT]);
	add_latency_card(page, result, "Time per output token", LATENCY_TPOT,
		&result->numbers[VALUE_SLO_TPOT]);
	add_latency_card(
		page, result, "End-to-end latency", LATENCY_E2E, &result->numbers[VALUE_SLO_E2E]);
	page_card_open(page, "Output throughput", "");
	page_value(page, result, VALUE_OUTPUT_RATE);
	text_add(page, "<small>tokens/s; ");
	page_value(page, result, VALUE_REQUEST_RATE);
	text_add(page, " requests/s</small>");
	page_card_close(page);
	add_request_card(page, result);
	add_use_cards(page, result);
	text_add(page, "</dl>\n</section>\n");
}
