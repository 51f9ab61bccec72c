#include "reports/page/page_sections.h"

#include "reports/page/page_elements.h"

void page_verdict(struct text *page, const struct result *result)
{
	text_format(page,
		"<section class=\"verdict %s\" aria-label=\"Verdict\">\n<p><strong>%s</strong> ",
		result->verdict, result->verdict);
	text_add(page, page_verdict_meaning(result->verdict));
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

static void open_card(struct text *page, const char *title)
{
	text_format(page, "<div class=\"card\"><dt>%s</dt><dd>", title);
}

static void close_card(struct text *page)
{
	text_add(page, "</dd></div>\n");
}

static void add_latency_card(
	struct text *page, const struct result *result, const char *title, uint32_t metric)
{
	const struct result_value *values = result->latency_ms[metric];
	const struct result_value *middle = &values[STATISTIC_P50];
	const struct result_value *tail = &values[STATISTIC_P99];

	open_card(page, title);
	text_add_number(page, NUMBER_TIME_MS, middle->has_value, middle->value);
	text_add(page, "<small>median; p99 ");
	text_add_number(page, NUMBER_TIME_MS, tail->has_value, tail->value);
	text_add(page, "</small>");
	close_card(page);
}

static void add_request_card(struct text *page, const struct result *result)
{
	static const struct {
		enum result_number number;
		const char *word;
	} others[] = {{VALUE_REJECTED, "rejected"}, {VALUE_FAILED, "failed"},
		{VALUE_UNFINISHED, "unfinished"}};

	open_card(page, "Requests finished");
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
	close_card(page);
}

static void add_slo_card(struct text *page, const struct result *result)
{
	const struct result_value *ttft = &result->numbers[VALUE_SLO_TTFT];
	const struct result_value *tpot = &result->numbers[VALUE_SLO_TPOT];

	if (!ttft->has_value && !tpot->has_value) {
		return;
	}
	open_card(page, "Within the SLO");
	page_value(page, result, VALUE_SLO_ATTAINED);
	text_add(page, "<small>");
	if (ttft->has_value) {
		text_add(page, "TTFT \u2264 ");
		page_value(page, result, VALUE_SLO_TTFT);
	}
	if (tpot->has_value) {
		text_add(page, ttft->has_value ? ", TPOT \u2264 " : "TPOT \u2264 ");
		page_value(page, result, VALUE_SLO_TPOT);
	}
	text_add(page, "; goodput ");
	page_value(page, result, VALUE_SLO_GOODPUT);
	text_add(page, " requests/s</small>");
	close_card(page);
}

void page_cards(struct text *page, const struct result *result)
{
	text_add(page, "<section aria-label=\"Key figures\">\n<dl class=\"cards\">\n");
	open_card(page, "Output throughput");
	page_value(page, result, VALUE_OUTPUT_RATE);
	text_add(page, "<small>tokens/s; ");
	page_value(page, result, VALUE_REQUEST_RATE);
	text_add(page, " requests/s</small>");
	close_card(page);
	add_latency_card(page, result, "Time to first token", LATENCY_TTFT);
	add_latency_card(page, result, "Time per output token", LATENCY_TPOT);
	add_latency_card(page, result, "End-to-end latency", LATENCY_E2E);
	add_request_card(page, result);
	if (result->numbers[VALUE_HIT_RATE].has_value) {
		open_card(page, "Prefix-cache hit rate");
		page_value(page, result, VALUE_HIT_RATE);
		text_add(page, "<small>of ");
		page_value(page, result, VALUE_QUERY_TOKENS);
		text_add(page, " prompt tokens</small>");
		close_card(page);
	}
	open_card(page, "Preemptions");
	page_value(page, result, VALUE_PREEMPTIONS);
	text_add(page, "<small>");
	page_value(page, result, VALUE_RECOMPUTED);
	text_add(page, " tokens recomputed</small>");
	close_card(page);
	open_card(page, "Utilisation");
	page_value(page, result, VALUE_UTILISATION);
	text_add(page, "<small>of what the engine can carry; at most ");
	page_value(page, result, VALUE_KV_PEAK);
	text_add(page, " of the KV blocks, ");
	page_value(page, result, VALUE_SEATS_PEAK);
	text_add(page, " of the seats</small>");
	close_card(page);
	add_slo_card(page, result);
	text_add(page, "</dl>\n</section>\n");
}
