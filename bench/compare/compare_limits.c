#include "bench/compare/compare_limits.h"

#include "engine/base/input_file.h"
#include "engine/base/text.h"
#include "reports/results/result_tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum status limit_list_add(
	struct limit_list *list, const char *name, const char *text, struct error *error)
{
	struct metric_limit limits[METRIC_LIMITS_MAX];
	uint32_t count;

	TRY(metric_limits_parse(name, text, true, limits, &count, error));
	if (count > METRIC_LIMITS_MAX - list->count) {
		return error_set(
			error, STATUS_USAGE, "%s: more than %d limits", name, METRIC_LIMITS_MAX);
	}
	memcpy(list->limits + list->count, limits, count * sizeof(limits[0]));
	list->count += count;
	return STATUS_OK;
}

/* Cuts off a remark, and the blanks at both ends. */
static char *trimmed(char *line)
{
	line[strcspn(line, "#\r\n")] = '\0';
	line += strspn(line, " \t");
	size_t length = strlen(line);
	while (length > 0 && strchr(" \t,", line[length - 1]) != NULL) {
		line[--length] = '\0';
	}
	return line;
}

enum { LINE_BYTES_MAX = 4094 };

/* Reads a line, with its end where that is near enough, and one byte of a longer one. False: there
   is none. */
static bool read_line(FILE *file, char line[LINE_BYTES_MAX + 2], size_t *bytes)
{
	int c = 0;

	*bytes = 0;
	while (*bytes <= LINE_BYTES_MAX && c != '\n' && (c = getc(file)) != EOF) {
		line[(*bytes)++] = (char)c;
	}
	line[*bytes] = '\0';
	return *bytes > 0;
}

static enum status add_lines(
	struct limit_list *list, const char *path, FILE *file, struct error *error)
{
	char line[LINE_BYTES_MAX + 2], name[512];
	size_t bytes;

	for (unsigned number = 1; read_line(file, line, &bytes); number++) {
		snprintf(name, sizeof(name), "%s:%u", path, number);
		if (memchr(line, '\0', bytes) != NULL) {
			return error_set(error, STATUS_INPUT,
				"%s: found a zero byte, expected limits as text", name);
		}
		if (bytes > LINE_BYTES_MAX && line[bytes - 1] != '\n') {
			return error_set(error, STATUS_INPUT, "%s: a line of over %d bytes", name,
				LINE_BYTES_MAX);
		}
		char *text = trimmed(line + (number == 1 ? text_order_mark(line, bytes) : 0));
		if (text[0] != '\0' && limit_list_add(list, name, text, error) != STATUS_OK) {
			error->status = STATUS_INPUT;
			return STATUS_INPUT;
		}
	}
	if (ferror(file) != 0) {
		return error_set(error, STATUS_FILE, "%s: cannot be read", path);
	}
	if (list->count == 0) {
		return error_set(error, STATUS_INPUT,
			"%s: found no limit, expected lines such as ttft.p99<=+5%%", path);
	}
	return STATUS_OK;
}

enum status limit_list_add_file(struct limit_list *list, const char *path, struct error *error)
{
	FILE *file;

	TRY(input_file_open(&file, path, INPUT_FILE_OR_PIPE, error));
	enum status status = add_lines(list, path, file, error);
	fclose(file);
	return status;
}

/* By how much a value may change, in the direction that is better: the size of a change that the
   limit allows in the other. A limit that is no change has none. */
static bool is_better_beyond(const struct metric_limit *limit, double base, double value)
{
	double room =
		limit->kind == LIMIT_PERCENT ? fabs(base * limit->amount) : fabs(limit->amount);

	return limit->kind != LIMIT_VALUE &&
	       (limit->is_least ? value > base + room : value < base - room);
}

struct limit_finding limit_judge_values(
	const struct metric_limit *limit, struct result_value base, struct result_value value)
{
	struct limit_finding finding = {.base = base, .value = value, .outcome = LIMIT_UNKNOWN};

	if (!value.has_value) {
		finding.outcome = base.has_value ? LIMIT_BROKEN : LIMIT_UNKNOWN;
		return finding;
	}
	if (!base.has_value && limit->kind != LIMIT_VALUE) {
		return finding;
	}
	bool holds = metric_limit_holds(limit, base.value, value.value);
	finding.outcome = holds ? LIMIT_HOLDS : LIMIT_BROKEN;
	finding.is_improved = holds && is_better_beyond(limit, base.value, value.value);
	return finding;
}

struct limit_finding limit_judge(const struct metric_limit *limit, const struct json_object *base,
	const struct json_object *value)
{
	return limit_judge_values(
		limit, metric_value(base, limit->metric), metric_value(value, limit->metric));
}

void limit_add_expression(struct text *text, const struct metric_limit *limit)
{
	double scale = limit->kind == LIMIT_VALUE ? 1 : 100;

	text_format(text, limit->kind == LIMIT_VALUE ? "%s%s%.6g%s" : "%s%s%+.6g%s",
		limit->metric->name, limit->is_least ? ">=" : "<=", limit->amount * scale,
		limit->kind == LIMIT_PERCENT  ? "%"
		: limit->kind == LIMIT_POINTS ? "pt"
					      : "");
}

static void add_change(
	struct text *text, const struct metric *metric, const struct limit_finding *finding)
{
	if (finding->base.has_value && finding->value.has_value) {
		text_add_difference(
			text, metric->format, &finding->base.value, &finding->value.value);
	}
}

void limit_add_text(
	struct text *text, const struct metric_limit *limit, const struct limit_finding *finding)
{
	const struct metric *metric = limit->metric;

	text_format(text, "%s ", metric->name);
	text_add_number(text, metric->format, finding->base.has_value, finding->base.value);
	text_add(text, " to ");
	text_add_number(text, metric->format, finding->value.has_value, finding->value.value);
	if (finding->base.has_value && finding->value.has_value) {
		text_add(text, " (");
		add_change(text, metric, finding);
		text_add(text, ")");
	}
	text_add(text, ", limit ");
	limit_add_expression(text, limit);
}

void limits_add_options(struct text *text, const struct limit_list *list, const bool *has_figure)
{
	const char *told = NULL;

	for (uint32_t i = 0; i < list->count; i++) {
		const char *options = metric_options(list->limits[i].metric);
		if (has_figure[i] || options == NULL ||
			(told != NULL && strcmp(told, options) == 0)) {
			continue;
		}
		text_format(text, "; %s needs %s", list->limits[i].metric->name, options);
		told = options;
	}
}

static const char *const outcome_words[] = {
	[LIMIT_HOLDS] = "holds", [LIMIT_BROKEN] = "BROKEN", [LIMIT_UNKNOWN] = "not known"};

/* The width of a cell on a terminal: bytes that continue a character of UTF-8 take none. */
static void print_cell(const char *cell, int width, FILE *out)
{
	int shown = 0;
	for (const char *at = cell; *at != '\0'; at++) {
		shown += ((unsigned char)*at & 0xc0) != 0x80;
	}
	fprintf(out, "%*s%s", width > shown ? width - shown : 0, "", cell);
}

static void print_row(const struct metric_limit *limit, const struct limit_finding *finding,
	bool is_markdown, FILE *out)
{
	enum { CELLS = 4 };
	static const int widths[CELLS] = {16, 16, 14, 0};
	struct text cells[CELLS] = {{0}}, expression = {0};

	text_add_number(
		&cells[0], limit->metric->format, finding->base.has_value, finding->base.value);
	text_add_number(
		&cells[1], limit->metric->format, finding->value.has_value, finding->value.value);
	add_change(&cells[2], limit->metric, finding);
	text_add(&cells[3], outcome_words[finding->outcome]);
	limit_add_expression(&expression, limit);
	fprintf(out, is_markdown ? "| `%s`" : "  %-34s", expression.bytes);
	for (int i = 0; i < CELLS; i++) {
		fputs(is_markdown ? " | " : "  ", out);
		print_cell(cells[i].bytes == NULL ? "" : cells[i].bytes,
			is_markdown ? 0 : widths[i], out);
		text_deinit(&cells[i]);
	}
	fputs(is_markdown ? " |\n" : "\n", out);
	text_deinit(&expression);
}

struct limit_counts limits_print(const struct limit_list *list, const struct json_object *base,
	const struct json_object *value, bool is_markdown, FILE *out)
{
	struct limit_counts counts = {0};

	fprintf(out,
		is_markdown ? "| %s | %s | %s | %s | |\n|---|---:|---:|---:|---|\n"
			    : "\n  %-34s  %16s  %16s  %14s\n",
		"limit", "A", "B", "change");
	for (uint32_t i = 0; i < list->count; i++) {
		struct limit_finding finding = limit_judge(&list->limits[i], base, value);
		bool is_unknown = finding.outcome == LIMIT_UNKNOWN;
		counts.broken += finding.outcome == LIMIT_BROKEN;
		counts.without_base += is_unknown && finding.value.has_value;
		counts.without_both += is_unknown && !finding.value.has_value;
		counts.has_figure[i] = finding.base.has_value || finding.value.has_value;
		print_row(&list->limits[i], &finding, is_markdown, out);
	}
	return counts;
}
