#include "reports/results/metric.h"

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "reports/results/fields.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#define LATENCY_NAME_OF(name, title) name
#define LATENCY_TITLE_OF(name, title) title

const struct metric metrics_table[METRIC_COUNT] = {
#define METRIC_OF_NUMBER(enumerator, name, ...) {name, __VA_ARGS__},
	RESULT_NUMBER_LIST(METRIC_OF_NUMBER)
#undef METRIC_OF_NUMBER
#define METRIC_OF_STATISTIC(latency, statistic, word, is_main)                                     \
	{LATENCY_NAME_OF latency "." word, "ms", SUMMARY_LATENCY_MS "." LATENCY_NAME_OF latency,   \
		word, true, NUMBER_TIME_MS, -1, LATENCY_TITLE_OF latency ", " word},
#define METRICS_OF_LATENCY(metric, name, title)                                                    \
	LATENCY_STATISTIC_LIST(METRIC_OF_STATISTIC, (name, title))
		LATENCY_METRIC_LIST(METRICS_OF_LATENCY)
#undef METRICS_OF_LATENCY
#undef METRIC_OF_STATISTIC
};

const struct metric *metric_of_latency(
	enum latency_metric latency, enum latency_statistic statistic)
{
	check(latency < LATENCY_COUNT && statistic < STATISTIC_COUNT);
	return &metrics_table[(uint32_t)RESULT_NUMBER_COUNT + (uint32_t)latency * STATISTIC_COUNT +
			      (uint32_t)statistic];
}

/* Whether `length` bytes of text are the string. */
static bool is_text(const char *text, size_t length, const char *string)
{
	return strlen(string) == length && memcmp(text, string, length) == 0;
}

static bool is_path(const char *text, size_t length, const struct metric *metric)
{
	size_t section = strlen(metric->section);

	return section > 0 && length > section && text[section] == '.' &&
	       memcmp(text, metric->section, section) == 0 &&
	       is_text(text + section + 1, length - section - 1, metric->field);
}

static const struct metric *find(const char *text, size_t length)
{
	static const char dotted[] = ".p99.9";
	size_t end = sizeof(dotted) - 1;
	char name[64];

	if (length >= end && length < sizeof(name) && is_text(text + length - end, end, dotted)) {
		snprintf(name, sizeof(name), "%.*s_9", (int)(length - 2), text);
		text = name;
	}
	for (uint32_t i = 0; i < METRIC_COUNT; i++) {
		const struct metric *metric = &metrics_table[i];
		if (is_text(text, length, metric->name) || is_path(text, length, metric)) {
			return metric;
		}
	}
	return NULL;
}

const struct metric *metric_find(const char *name)
{
	return find(name, strlen(name));
}

/* The object that has a metric's field. False: the summary lacks it. */
static bool find_section(
	const struct json_object *summary, const struct metric *metric, struct json_object *section)
{
	const char *at = metric->section;

	*section = *summary;
	while (section->node != NULL && *at != '\0') {
		char name[64];
		size_t length = strcspn(at, ".");
		check(length < sizeof(name));
		memcpy(name, at, length);
		name[length] = '\0';
		section->node = cJSON_GetObjectItemCaseSensitive(section->node, name);
		at += length + (at[length] == '.');
	}
	if (metric->section[0] != '\0') {
		int length = snprintf(section->path, sizeof(section->path), "%s%s%s", summary->path,
			summary->path[0] == '\0' ? "" : ".", metric->section);
		check(length >= 0); /* a path too long is truncated: only messages use it */
	}
	return cJSON_IsObject(section->node);
}

struct result_value metric_value(const struct json_object *summary, const struct metric *metric)
{
	struct json_object section;
	const cJSON *node = find_section(summary, metric, &section)
				    ? cJSON_GetObjectItemCaseSensitive(section.node, metric->field)
				    : NULL;

	return (struct result_value){.has_value = cJSON_IsNumber(node),
		.value = cJSON_IsNumber(node) ? node->valuedouble : 0};
}

enum status metrics_check(const struct json_object *summary, struct error *error)
{
	for (uint32_t i = 0; i < METRIC_COUNT; i++) {
		const struct metric *metric = &metrics_table[i];
		struct json_object section;
		struct result_value value;
		if (find_section(summary, metric, &section) &&
			json_find(&section, metric->field) != NULL) {
			TRY(field_number(&section, metric->field, true, DBL_MAX, &value, error));
		}
	}
	return STATUS_OK;
}

const char *metric_options(const struct metric *metric)
{
	switch ((enum result_number)(metric - metrics_table)) {
	case VALUE_SLO_TTFT:
		return "--slo-ttft-ms";
	case VALUE_SLO_TPOT:
		return "--slo-tpot-ms";
	case VALUE_SLO_E2E:
		return "--slo-e2e-ms";
	case VALUE_SLO_ATTAINED:
	case VALUE_SLO_GOODPUT:
		return "--slo-ttft-ms, --slo-tpot-ms or --slo-e2e-ms";
	default:
		return NULL;
	}
}

/* ---- limits ---- */

/* Reads [+-]NUMBER, and % or pt behind it where changes are allowed. */
static bool read_amount(
	const char *text, size_t length, bool is_relative, struct metric_limit *limit)
{
	bool has_sign = length > 0 && (text[0] == '+' || text[0] == '-');
	bool is_negative = has_sign && text[0] == '-';
	char number[NUMBER_TEXT_BYTES];
	uint64_t millionths;
	double scale = 1e6;

	text += has_sign;
	length -= has_sign;
	limit->kind = LIMIT_VALUE;
	if (length > 1 && text[length - 1] == '%') {
		limit->kind = LIMIT_PERCENT;
		length -= 1;
	} else if (length > 2 && memcmp(text + length - 2, "pt", 2) == 0) {
		limit->kind = LIMIT_POINTS;
		length -= 2;
	}
	if (limit->kind != LIMIT_VALUE) {
		scale *= 100;
	}
	if (length >= sizeof(number) || has_sign != (limit->kind != LIMIT_VALUE) ||
		(has_sign && !is_relative)) {
		return false;
	}
	memcpy(number, text, length);
	number[length] = '\0';
	if (!text_to_millionths(number, &millionths)) {
		return false;
	}
	limit->amount = (double)millionths / scale * (is_negative ? -1 : 1);
	return limit->kind != LIMIT_POINTS || limit->metric->format == NUMBER_SHARE;
}

static enum status parse_limit(const char *name, const char *text, size_t length, bool is_relative,
	struct metric_limit *limit, struct error *error)
{
	size_t end = 0;

	while (end < length && text[end] != '<' && text[end] != '>') {
		end++;
	}
	*limit = (struct metric_limit){.metric = find(text, end)};
	if (limit->metric == NULL) {
		return error_set(error, STATUS_USAGE,
			"%s: found no metric '%.*s', expected one such as ttft.p99, tpot.p99, "
			"output_tokens_per_s or hit_rate (reports/README.md lists all)",
			name, (int)(end < 60 ? end : 60), text);
	}
	bool has_operator = end + 1 < length && text[end + 1] == '=';
	limit->is_least = has_operator && text[end] == '>';
	bool is_count = strcmp(limit->metric->unit, "count") == 0;
	bool is_amount = limit->metric->format != NUMBER_SHARE && !is_count;
	const char *in_words = is_amount ? "in " : is_count ? "a count" : "a share of 1";
	if (!has_operator || !read_amount(text + end + 2, length - end - 2, is_relative, limit)) {
		return error_set(error, STATUS_USAGE,
			"%s: found '%.*s', expected METRIC<=NUMBER or METRIC>=NUMBER%s; %.*s is "
			"%s%s",
			name, (int)(length < 80 ? length : 80), text,
			is_relative ? ", where NUMBER may be a change such as +5% or, of a share, "
				      "-0.5pt"
				    : ", without a sign",
			(int)end, text, in_words, is_amount ? limit->metric->unit : "");
	}
	return STATUS_OK;
}

enum status metric_limits_parse(const char *name, const char *text, bool is_relative,
	struct metric_limit *limits, uint32_t *count, struct error *error)
{
	for (*count = 0;;) {
		size_t length = strcspn(text, ","), first = strspn(text, " \t"), end = length;
		while (end > first && (text[end - 1] == ' ' || text[end - 1] == '\t')) {
			end--;
		}
		if (*count == METRIC_LIMITS_MAX) {
			return error_set(error, STATUS_USAGE, "%s: more than %d limits", name,
				METRIC_LIMITS_MAX);
		}
		first = first < end ? first : end;
		TRY(parse_limit(
			name, text + first, end - first, is_relative, &limits[*count], error));
		*count += 1;
		if (text[length] == '\0') {
			return STATUS_OK;
		}
		text += length + 1;
	}
}

bool metric_limit_holds(const struct metric_limit *limit, double base, double value)
{
	double bound = limit->kind == LIMIT_PERCENT  ? base * (1 + limit->amount)
		       : limit->kind == LIMIT_POINTS ? base + limit->amount
						     : limit->amount;

	return limit->is_least ? value >= bound : value <= bound;
}
