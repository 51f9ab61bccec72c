#include "bench/gate/error_table.h"

#include <string.h>

/* "ttft" of "ttft.p99". */
static size_t group_length(const char *name)
{
	return strcspn(name, ".");
}

/* Whether a figure is in the column of the one before it: another statistic of a latency. */
static bool continues_column(const struct gate_verdict *verdict, uint32_t index)
{
	if (index == 0) {
		return false;
	}
	const char *name = verdict->figures[index].name;
	const char *before = verdict->figures[index - 1].name;
	size_t length = group_length(name);
	return name[length] == '.' && group_length(before) == length &&
	       strncmp(name, before, length) == 0;
}

static void print_names(const struct gate_verdict *verdict, FILE *out)
{
	uint32_t columns = 0;

	fputs("| error, %", out);
	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		const char *name = verdict->figures[i].name;
		if (continues_column(verdict, i)) {
			fprintf(out, ", %s", name + group_length(name) + 1);
			continue;
		}
		int length = (int)group_length(name);
		fprintf(out, " | %.*s%s%s", length, name, name[length] == '.' ? " " : "",
			name[length] == '.' ? name + length + 1 : "");
		columns++;
	}
	fputs(" |\n|---", out);
	for (uint32_t i = 0; i < columns; i++) {
		fputs("|---", out);
	}
	fputs("|\n", out);
}

/* No relative error to 0 exists, so both figures are shown. */
static void print_error(const struct gate_figure *figure, FILE *out)
{
	if (!figure->has_base) {
		fputs("-", out);
	} else if (figure->base == 0) {
		fprintf(out, "%g", figure->value);
		fprintf(out, figure->value == 0 ? "" : " for 0");
	} else {
		const char *mark = figure->is_broken ? "**" : "";
		fprintf(out, "%s%+.2f%s", mark, 100 * (figure->value / figure->base - 1), mark);
	}
}

/* The figure of a case by its name: a case need not have those that the first one has. */
static const struct gate_figure *find(const struct gate_verdict *verdict, const char *name)
{
	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		if (strcmp(verdict->figures[i].name, name) == 0) {
			return &verdict->figures[i];
		}
	}
	return NULL;
}

/* What recorded runs of one program on one card are apart. */
static void print_spread(const struct gate_figure *figure, FILE *out)
{
	if (figure->has_spread) {
		fprintf(out, "%.2f", 100 * figure->spread);
	} else {
		fputs("-", out);
	}
}

/* head: whose figures make the columns. */
static void print_row(const struct gate_verdict *verdict, const struct gate_verdict *head,
	bool is_spread, FILE *out)
{
	static const struct gate_figure none = {.has_base = false};

	fprintf(out, is_spread ? "| %s, its runs apart" : "| %s", verdict->name);
	for (uint32_t i = 0; i < head->figure_count; i++) {
		const struct gate_figure *figure = find(verdict, head->figures[i].name);
		fputs(continues_column(head, i) ? ", " : " | ", out);
		(is_spread ? print_spread : print_error)(figure == NULL ? &none : figure, out);
	}
	fputs(" |\n", out);
}

static bool has_spread(const struct gate_verdict *verdict)
{
	bool has_spread = false;

	for (uint32_t i = 0; i < verdict->figure_count; i++) {
		has_spread |= verdict->figures[i].has_spread;
	}
	return has_spread;
}

void error_table_print(const struct gate *gate, FILE *out)
{
	const struct gate_verdict *head = NULL;

	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		bool is_widest = head == NULL || verdict->figure_count > head->figure_count;
		if (verdict->is_simulation && is_widest) {
			head = verdict;
		}
	}
	if (head == NULL) {
		return;
	}
	print_names(head, out);
	for (uint32_t i = 0; i < gate->count; i++) {
		const struct gate_verdict *verdict = &gate->verdicts[i];
		if (verdict->is_simulation) {
			print_row(verdict, head, false, out);
		}
		if (verdict->is_simulation && has_spread(verdict)) {
			print_row(verdict, head, true, out);
		}
	}
	fputc('\n', out);
}
