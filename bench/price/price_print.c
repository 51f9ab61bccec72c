#include "bench/price/price_study.h"

#include "engine/base/memory.h"
#include "engine/base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double share(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

static double added_ns(const struct price_sum *sum)
{
	return sum->predicted_ns - sum->measured_ns;
}

static void print_titles(const char *title, FILE *out)
{
	fprintf(out, "\n%-70s %9s %7s %10s %8s %8s %7s\n", title, "steps", "time, %", "mean, ms",
		"error, %", "|error|", "adds, %");
}

static void print_sum(
	const char *name, const struct price_sum *sum, const struct price_sum *all, FILE *out)
{
	fprintf(out, "  %-68s %9llu %7.2f %10.3f %+8.2f %8.2f %+7.2f\n", name,
		(unsigned long long)sum->steps, share(sum->measured_ns, all->measured_ns),
		sum->steps == 0 ? 0 : sum->measured_ns / (double)sum->steps / 1e6,
		share(added_ns(sum), sum->measured_ns), share(sum->apart_ns, sum->measured_ns),
		share(added_ns(sum), all->measured_ns));
}

/* ---- cells ---- */

/* By what they add to the error, then by their octaves: no order depends on sort's choice. */
static int by_weight(const void *left, const void *right)
{
	const struct price_cell *a = left, *b = right;
	double a_ns = fabs(added_ns(&a->sum)), b_ns = fabs(added_ns(&b->sum));
	const uint32_t a_at[] = {a->rows, a->tokens, a->context, a->shared};
	const uint32_t b_at[] = {b->rows, b->tokens, b->context, b->shared};

	if (a_ns != b_ns) {
		return a_ns < b_ns ? 1 : -1;
	}
	for (uint32_t i = 0; i < sizeof(a_at) / sizeof(a_at[0]); i++) {
		if (a_at[i] != b_at[i]) {
			return a_at[i] < b_at[i] ? -1 : 1;
		}
	}
	return 0;
}

static void add_count(struct text *text, const char *before, uint32_t octave, const char *after)
{
	if (octave > 0) {
		text_add(text, text->byte_count > 0 ? before : "");
		step_octave_name(octave, text);
		text_add(text, after);
	}
}

static void print_cell(const struct price_cell *cell, const struct price_sum *all, FILE *out)
{
	struct text name = {0};

	add_count(&name, "", cell->rows, word_of_count(cell->rows, " row", " rows"));
	add_count(&name, " of ", cell->context, "");
	add_count(&name, ", shared ", cell->shared, "");
	add_count(&name, " + ", cell->tokens, " prompt");
	print_sum(name.byte_count > 0 ? name.bytes : "no rows", &cell->sum, all, out);
	text_deinit(&name);
}

static void print_cells(const struct price_study *study, uint32_t most, FILE *out)
{
	if (study->cell_count == 0 || most == 0) {
		return;
	}
	struct price_cell *cells = memory_take(study->cell_count, sizeof(*cells));
	memcpy(cells, study->cells, study->cell_count * sizeof(*cells));
	qsort(cells, study->cell_count, sizeof(*cells), by_weight);
	print_titles("steps that add most: rows of context tokens, prompt tokens", out);
	for (uint32_t i = 0; i < study->cell_count && i < most; i++) {
		print_cell(&cells[i], &study->all, out);
	}
	free(cells);
}

/* ---- views ---- */

static void print_view(const struct price_study *study, uint32_t index, FILE *out)
{
	const struct step_view *view = &step_views[index];
	bool has_title = false;

	for (uint32_t i = 0; i < STEP_GROUPS; i++) {
		const struct price_sum *sum = &study->views[index][i];
		struct text name = {0};
		if (sum->steps == 0) {
			continue;
		}
		if (!has_title) {
			print_titles(view->title, out);
			has_title = true;
		}
		view->name(i, &name);
		print_sum(name.bytes, sum, &study->all, out);
		text_deinit(&name);
	}
}

void price_study_print(const struct price_study *study, uint32_t most, FILE *out)
{
	print_titles("", out);
	print_sum("all steps", &study->all, &study->all, out);
	print_sum("of that the host", &study->host, &study->all, out);
	print_cells(study, most, out);
	for (uint32_t i = 0; i < STEP_VIEWS; i++) {
		print_view(study, i, out);
	}
}
