#include "bench/gate/error_table.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gate/gate.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* The table of errors of a gate's simulated cases, cell by cell, of drawn cases: with figures that
   others lack, that are 0, equal or without a base, and with runs that are apart or not. */

enum { CASES_MOST = 5, LINE_BYTES = 4096 };

/* As cases note them: latencies by their statistics, then others. */
static const char *const names[] = {"ttft.mean", "ttft.p50", "ttft.p99", "tpot.p50", "tpot.p99",
	"e2e.p99", "output_tokens_per_s", "preemptions"};

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static double draw_number(struct prop *prop)
{
	return prop_chance(prop, 1, 4) ? 0 : 1 + (double)prop_below(prop, 400) / 8;
}

static void draw_case(struct prop *prop, struct gate_verdict *verdict, uint32_t index)
{
	snprintf(verdict->name, sizeof(verdict->name), "case%u", index);
	verdict->is_simulation = prop_chance(prop, 3, 4);
	for (uint32_t i = 0; i < NAMES; i++) {
		if (prop_chance(prop, 1, 4)) {
			continue;
		}
		double value = draw_number(prop);
		bool is_equal = prop_chance(prop, 1, 6);
		verdict->figures[verdict->figure_count++] = (struct gate_figure){.name = names[i],
			.value = value,
			.has_base = prop_chance(prop, 4, 5),
			.base = is_equal ? value : draw_number(prop),
			.is_broken = prop_chance(prop, 1, 3),
			.has_spread = prop_chance(prop, 1, 4),
			.spread = (double)prop_below(prop, 100) / 1024};
	}
}

static const struct gate_figure *figure_named(const struct gate_verdict *verdict, const char *name)
{
	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		if (strcmp(verdict->figures[i].name, name) == 0) {
			return &verdict->figures[i];
		}
	}
	return NULL;
}

static void expect_error(const struct gate_figure *figure, char *out, size_t bytes)
{
	if (figure == NULL || !figure->has_base) {
		snprintf(out, bytes, "-");
	} else if (figure->base == 0 && figure->value == 0) {
		snprintf(out, bytes, "0");
	} else if (figure->base == 0) {
		snprintf(out, bytes, "%g for 0", figure->value);
	} else {
		snprintf(out, bytes, figure->is_broken ? "**%+.2f**" : "%+.2f",
			100 * (figure->value / figure->base - 1));
	}
}

static void expect_spread(const struct gate_figure *figure, char *out, size_t bytes)
{
	snprintf(out, bytes, "-");
	if (figure != NULL && figure->has_spread) {
		snprintf(out, bytes, "%.2f", figure->spread * 100);
	}
}

/* The figures of a row in order: those of one latency share a cell. */
static void require_row(char *line, const char *title, const struct gate_verdict *head,
	const struct gate_verdict *verdict, bool is_spread)
{
	char expected[LINE_BYTES], cell[64];
	size_t used = (size_t)snprintf(expected, sizeof(expected), "| %s", title);

	for (uint32_t i = 0; i < head->figure_count; i++) {
		const char *name = head->figures[i].name;
		const char *before = i == 0 ? "" : head->figures[i - 1].name;
		bool is_same = strchr(name, '.') != NULL && strchr(before, '.') != NULL &&
			       strncmp(name, before, 4) == 0;
		(is_spread ? expect_spread : expect_error)(
			figure_named(verdict, name), cell, sizeof(cell));
		used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%s%s",
			is_same ? ", " : " | ", cell);
	}
	snprintf(expected + used, sizeof(expected) - used, " |");
	require(strcmp(line, expected) == 0, "found %s, expected %s", line, expected);
}

static char *next_line(char **at)
{
	char *line = *at, *end = strchr(line, '\n');

	require(end != NULL, "the table ends early");
	*end = '\0';
	*at = end + 1;
	return line;
}

/* The first of those with the most figures: its figures are the columns. */
static const struct gate_verdict *head_of(const struct gate *gate)
{
	const struct gate_verdict *head = NULL;
	uint32_t most = 0;

	for (uint32_t i = gate->count; i > 0; i--) {
		const struct gate_verdict *verdict = &gate->verdicts[i - 1];
		if (verdict->is_simulation && verdict->figure_count >= most) {
			head = verdict;
			most = verdict->figure_count;
		}
	}
	return head;
}

static void require_table(const struct gate *gate, char *at)
{
	const struct gate_verdict *head = head_of(gate);

	if (head == NULL) {
		require(*at == '\0', "a table of nothing: %s", at);
		return;
	}
	const char *titles = next_line(&at), *rule = next_line(&at);
	uint32_t bars[2] = {0};
	for (const char *c = titles; *c != '\0'; c++) {
		bars[0] += *c == '|';
	}
	for (const char *c = rule; *c != '\0'; c++) {
		bars[1] += *c == '|';
	}
	require_equal(bars[0], bars[1]);
	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		bool has_spread = false;
		char title[LINE_BYTES / 4];
		for (uint32_t k = 0; k < verdict->figure_count; k++) {
			has_spread = has_spread || verdict->figures[k].has_spread;
		}
		if (verdict->is_simulation) {
			require_row(next_line(&at), verdict->name, head, verdict, false);
		}
		if (verdict->is_simulation && has_spread) {
			snprintf(title, sizeof(title), "%s, its runs apart", verdict->name);
			require_row(next_line(&at), title, head, verdict, true);
		}
	}
	require(strcmp(at, "\n") == 0, "more than the table: %s", at);
}

static void body_table(struct prop *prop, const void *context)
{
	struct gate_verdict *verdicts = calloc(CASES_MOST, sizeof(*verdicts));
	struct gate *gate = calloc(1, sizeof(*gate));
	char *text = NULL;
	size_t bytes = 0;

	(void)context;
	require(verdicts != NULL && gate != NULL, "out of memory");
	gate->verdicts = verdicts;
	gate->count = prop_range(prop, 0, CASES_MOST);
	for (uint32_t i = 0; i < gate->count; i++) {
		draw_case(prop, &verdicts[i], i);
	}
	FILE *out = open_memstream(&text, &bytes);
	error_table_print(gate, out);
	require(fclose(out) == 0, "no text");
	require_table(gate, text);
	free(text);
	free(verdicts);
	free(gate);
}

Test(error_table, has_the_error_of_every_figure_of_every_simulated_case)
{
	const struct prop_options options = {
		.name = "table of errors", .body = body_table, .trials = 500};

	cr_assert(prop_holds(&options));
}
