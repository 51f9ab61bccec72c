#include "bench/price/price_study.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/step_record.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Recorded steps that are priced, beside a naive account of them. */

enum { STEPS_MAX = 1500, DRAWN_MAX = 60, REPLICAS = 2 };

struct drawn {
	struct priced_step steps[STEPS_MAX]; /* what a reader must find */
	uint64_t replica[STEPS_MAX];
	uint32_t count;
};

/* Prices of a made-up profile. The host takes 2,000 ns of a step that is launched ahead, else
   30,000. Steps of an odd number of rows are outside. A step has rows. */
static enum status fake_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct step_counts *counts = &batch->counts;

	(void)state;
	(void)token_ids;
	(void)error;
	require(counts->decode_rows + counts->prefill_rows > 0, "a step without rows");
	memset(time, 0, sizeof(*time));
	time->host_ns = batch->is_ahead ? 2000 : 30000;
	time->gpu_ns = 1000 * counts->decode_rows + 77 * counts->prefill_tokens +
		       counts->decode_context_tokens;
	time->elapsed_ns = time->gpu_ns + time->host_ns;
	time->is_outside = counts->decode_rows % 2 == 1;
	return STATUS_OK;
}

static const struct runner fakes[REPLICAS] = {
	{.name = "fake", .execute = fake_execute}, {.name = "fake", .execute = fake_execute}};
static const struct price_models models = {.of_replica = fakes,
	.has_hull = true,
	.replicas = REPLICAS,
	.host = {.name = "fake", .execute = fake_execute}};

static uint64_t draw_count(struct prop *prop)
{
	return prop_below(prop, UINT64_C(1) << prop_below(prop, 20));
}

/* The share of the 0.2 s before a step in which its replica computed prompts. */
static double naive_recent(const struct drawn *drawn, uint32_t at)
{
	const struct priced_step *step = &drawn->steps[at];
	double from = (double)step->start_ns - (double)STEP_RECENT_NS, busy = 0;

	from = from < 0 ? 0 : from;
	for (uint32_t i = 0; i < at; i++) {
		const struct priced_step *other = &drawn->steps[i];
		double start = (double)other->start_ns, end = start + (double)other->measured_ns;
		if (drawn->replica[i] == drawn->replica[at] && other->counts.prefill_rows > 0 &&
			end > from) {
			busy += end - (start > from ? start : from);
		}
	}
	return busy / (double)STEP_RECENT_NS;
}

static void draw(struct prop *prop, struct drawn *drawn)
{
	uint64_t now[REPLICAS] = {0};

	memset(drawn, 0, sizeof(*drawn));
	drawn->count = prop_range(prop, 1, DRAWN_MAX);
	for (uint32_t i = 0; i < drawn->count; i++) {
		struct priced_step *step = &drawn->steps[i];
		struct step_counts *counts = &step->counts;
		uint64_t replica = prop_below(prop, REPLICAS);
		counts->decode_rows = draw_count(prop);
		counts->prefill_rows = prop_below(prop, 3);
		counts->prefill_tokens =
			counts->prefill_rows > 0 ? counts->prefill_rows + draw_count(prop) : 0;
		counts->decode_context_tokens = counts->decode_rows * (1 + prop_below(prop, 5000));
		counts->shared_tokens = draw_count(prop) % (counts->decode_context_tokens + 1);
		counts->prefill_longest_context =
			counts->prefill_rows > 0 ? counts->prefill_tokens + draw_count(prop) : 0;
		counts->prefill_attention_pairs =
			counts->prefill_tokens * counts->prefill_longest_context;
		step->measured_host_ns = 1 + prop_below(prop, 40000);
		step->measured_ns = step->measured_host_ns + 400 * draw_count(prop);
		step->start_ns = now[replica] + prop_below(prop, 50000000);
		now[replica] = step->start_ns + step->measured_ns;
		drawn->replica[i] = replica;
		step->has_hull = true;
		step->recent = naive_recent(drawn, i);
		if (counts->decode_rows + counts->prefill_rows == 0) {
			continue; /* nobody executes a step without rows */
		}
		step->is_ahead = step->measured_host_ns < 16000;
		step->is_outside = counts->decode_rows % 2 == 1;
		step->predicted_host_ns = step->is_ahead ? 2000 : 30000;
		step->predicted_ns = step->predicted_host_ns + 1000 * counts->decode_rows +
				     77 * counts->prefill_tokens + counts->decode_context_tokens;
	}
}

static void write_steps(const struct drawn *drawn, const char *folder)
{
	char path[TEMPORARY_PATH_BYTES + 16];
	uint64_t values[STEP_COLUMN_COUNT - STEP_COLUMN_FIRST_COUNT];

	snprintf(path, sizeof(path), "%s/steps.tsv", folder);
	FILE *file = fopen(path, "w");
	fprintf(file, STEP_COLUMNS "\t" STEP_REPLICA_COLUMN "\n");
	for (uint32_t i = 0; i < drawn->count; i++) {
		const struct priced_step *step = &drawn->steps[i];
		fprintf(file, "%u\t%llu\t%llu\t%llu\t%llu\tnone", i,
			(unsigned long long)step->start_ns, (unsigned long long)step->measured_ns,
			(unsigned long long)(step->measured_ns - step->measured_host_ns),
			(unsigned long long)step->measured_host_ns);
		step_count_values(&step->counts, values);
		for (uint32_t j = 0; j < sizeof(values) / sizeof(values[0]); j++) {
			fprintf(file, "\t%llu", (unsigned long long)values[j]);
		}
		fprintf(file, "\t%llu\n", (unsigned long long)drawn->replica[i]);
	}
	fclose(file);
}

/* ---- the naive account ---- */

typedef bool takes_step(const struct priced_step *step, const void *context);

/* is_host: of what the host takes of these steps. */
static struct price_sum sum_of(
	const struct drawn *drawn, takes_step *takes, const void *context, bool is_host)
{
	struct price_sum sum = {.steps = 0};

	for (uint32_t i = 0; i < drawn->count; i++) {
		const struct priced_step *step = &drawn->steps[i];
		double measured = (double)(is_host ? step->measured_host_ns : step->measured_ns);
		double predicted = (double)(is_host ? step->predicted_host_ns : step->predicted_ns);
		if (takes(step, context)) {
			sum.steps++;
			sum.measured_ns += measured;
			sum.predicted_ns += predicted;
			sum.apart_ns += fabs(predicted - measured);
		}
	}
	return sum;
}

static void require_sum(
	const struct price_sum *sum, const struct price_sum *expected, const char *name)
{
	require(sum->steps == expected->steps, "%s: %llu steps, expected %llu", name,
		(unsigned long long)sum->steps, (unsigned long long)expected->steps);
	require(sum->measured_ns == expected->measured_ns &&
			sum->predicted_ns == expected->predicted_ns &&
			sum->apart_ns == expected->apart_ns,
		"%s: %g %g %g, expected %g %g %g", name, sum->measured_ns, sum->predicted_ns,
		sum->apart_ns, expected->measured_ns, expected->predicted_ns, expected->apart_ns);
}

static bool takes_all(const struct priced_step *step, const void *context)
{
	(void)context;
	return step->measured_ns > 0;
}

struct group {
	uint32_t view, number;
};

static bool takes_group(const struct priced_step *step, const void *context)
{
	const struct group *group = context;

	return step_views[group->view].group(step) == group->number;
}

static bool takes_cell(const struct priced_step *step, const void *context)
{
	const struct price_cell *cell = context;
	uint64_t rows = step->counts.decode_rows;

	return step_octave(rows) == cell->rows &&
	       step_octave(step->counts.prefill_tokens) == cell->tokens &&
	       step_octave(step->counts.shared_tokens) == cell->shared &&
	       step_octave(rows == 0 ? 0 : step->counts.decode_context_tokens / rows) ==
		       cell->context;
}

/* ---- what is printed ---- */

static void add_titles(struct text *out, const char *title)
{
	text_format(
		out, "\n%-70s     steps time, %%   mean, ms error, %%  |error| adds, %%\n", title);
}

static double percent(double part, double whole)
{
	return whole > 0 ? 100 * part / whole : 0;
}

/* A row of a sum, beside the time of all steps. */
static void add_row(struct text *out, const char *name, const struct price_sum *sum, double all_ns)
{
	double added = sum->predicted_ns - sum->measured_ns;

	text_format(out, "  %-68s %9llu %7.2f %10.3f %+8.2f %8.2f %+7.2f\n", name,
		(unsigned long long)sum->steps, percent(sum->measured_ns, all_ns),
		sum->steps > 0 ? sum->measured_ns / (double)sum->steps / 1e6 : 0,
		percent(added, sum->measured_ns), percent(sum->apart_ns, sum->measured_ns),
		percent(added, all_ns));
}

/* Cells by what they add, then by their octaves. */
static bool comes_first(const struct price_cell *a, const struct price_cell *b)
{
	double a_ns = fabs(a->sum.predicted_ns - a->sum.measured_ns);
	double b_ns = fabs(b->sum.predicted_ns - b->sum.measured_ns);

	return a_ns != b_ns		  ? a_ns > b_ns
	       : a->rows != b->rows	  ? a->rows < b->rows
	       : a->tokens != b->tokens	  ? a->tokens < b->tokens
	       : a->context != b->context ? a->context < b->context
					  : a->shared < b->shared;
}

/* The cells of all steps, in order. */
static uint32_t list_cells(const struct drawn *drawn, struct price_cell *cells)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < drawn->count; i++) {
		const struct step_counts *counts = &drawn->steps[i].counts;
		uint64_t rows = counts->decode_rows, at = 0;
		struct price_cell cell = {.rows = step_octave(rows),
			.tokens = step_octave(counts->prefill_tokens),
			.shared = step_octave(counts->shared_tokens),
			.context =
				step_octave(rows == 0 ? 0 : counts->decode_context_tokens / rows)};
		cell.sum = sum_of(drawn, takes_cell, &cell, false);
		while (at < count && comes_first(&cells[at], &cell)) {
			at++;
		}
		bool is_new = at == count || comes_first(&cell, &cells[at]);
		if (is_new) {
			memmove(&cells[at + 1], &cells[at], (count - at) * sizeof(cell));
			cells[at] = cell;
			count++;
		}
	}
	return count;
}

static void add_octave(struct text *name, uint32_t octave, const char *before, const char *after)
{
	if (octave > 0) {
		text_add(name, name->byte_count > 0 ? before : "");
		step_octave_name(octave, name);
		text_add(name, after);
	}
}

static void add_cells(struct text *out, const struct drawn *drawn, uint32_t most, double all_ns)
{
	struct price_cell cells[STEPS_MAX + 1];
	uint32_t count = list_cells(drawn, cells);

	if (most > 0) {
		add_titles(out, "steps that add most: rows of context tokens, prompt tokens");
	}
	for (uint32_t i = 0; i < count && i < most; i++) {
		struct text name = {0};
		add_octave(&name, cells[i].rows, "", cells[i].rows == 1 ? " row" : " rows");
		add_octave(&name, cells[i].context, " of ", "");
		add_octave(&name, cells[i].shared, ", shared ", "");
		add_octave(&name, cells[i].tokens, " + ", " prompt");
		add_row(out, name.byte_count > 0 ? name.bytes : "no rows", &cells[i].sum, all_ns);
		text_deinit(&name);
	}
}

static void add_view(struct text *out, const struct drawn *drawn, uint32_t view, double all_ns)
{
	struct group group = {.view = view};
	bool has_title = false;

	for (; group.number < STEP_GROUPS; group.number++) {
		const struct price_sum sum = sum_of(drawn, takes_group, &group, false);
		struct text name = {0};
		if (sum.steps == 0) {
			continue;
		}
		if (!has_title) {
			add_titles(out, step_views[view].title);
		}
		has_title = true;
		step_views[view].name(group.number, &name);
		add_row(out, name.bytes, &sum, all_ns);
		text_deinit(&name);
	}
}

static void require_printed(
	const struct price_study *study, const struct drawn *drawn, uint32_t most)
{
	const struct price_sum all = sum_of(drawn, takes_all, NULL, false);
	const struct price_sum host = sum_of(drawn, takes_all, NULL, true);
	struct text expected = {0};
	char *printed = NULL;
	size_t bytes = 0;

	add_titles(&expected, "");
	add_row(&expected, "all steps", &all, all.measured_ns);
	add_row(&expected, "of that the host", &host, all.measured_ns);
	add_cells(&expected, drawn, most, all.measured_ns);
	for (uint32_t i = 0; i < STEP_VIEWS; i++) {
		add_view(&expected, drawn, i, all.measured_ns);
	}
	FILE *file = open_memstream(&printed, &bytes);
	price_study_print(study, most, file);
	fclose(file);
	require(strcmp(printed, expected.bytes) == 0, "found\n%s\nexpected\n%s", printed,
		expected.bytes);
	free(printed);
	text_deinit(&expected);
}

static void accounts(struct prop *prop, const void *context)
{
	static struct drawn drawn;
	struct price_study study = {.cell_count = 0};
	struct error error = {0};
	uint64_t in_cells = 0;

	draw(prop, &drawn);
	write_steps(&drawn, context);
	require(price_study_read(&study, context, &models, NULL, &error) == STATUS_OK, "%s",
		error.text);
	struct price_sum expected = sum_of(&drawn, takes_all, NULL, false);
	require_sum(&study.all, &expected, "all");
	expected = sum_of(&drawn, takes_all, NULL, true);
	require_sum(&study.host, &expected, "the host");
	for (struct group group = {0, 0}; group.view < STEP_VIEWS; group.view++) {
		for (group.number = 0; group.number < STEP_GROUPS; group.number++) {
			expected = sum_of(&drawn, takes_group, &group, false);
			require_sum(&study.views[group.view][group.number], &expected,
				step_views[group.view].title);
		}
	}
	for (uint32_t i = 0; i < study.cell_count; i++) {
		expected = sum_of(&drawn, takes_cell, &study.cells[i], false);
		require_sum(&study.cells[i].sum, &expected, "cell");
		in_cells += study.cells[i].sum.steps;
	}
	require_equal(in_cells, drawn.count);
	require_printed(&study, &drawn, (uint32_t)prop_below(prop, DRAWN_MAX));
	price_study_close(&study);
}

Test(price_study, accounts_for_every_step, .timeout = 120)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	cr_assert(prop_holds(&(struct prop_options){
		.name = "price", .body = accounts, .context = folder, .trials = 150}));
	temporary_remove(folder);
}

/* A step that cannot be has no price: it is refused with its line and column. */
Test(price_study, steps_that_cannot_be_are_refused)
{
	static const struct {
		struct step_counts counts;
		const char *part;
	} cases[] = {
		{{.prefill_tokens = 100},
			"steps.tsv:3: column prefill_rows: found '0', expected 1 to"},
		{{.decode_context_tokens = 500},
			"steps.tsv:3: column decode_context_tokens: found '500', expected 0 to 0"},
		{{.decode_rows = 5, .sampled_rows = 5},
			"steps.tsv:3: column decode_context_tokens: found '0', expected 5 to"},
	};
	static struct drawn drawn;
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct price_study study = {.cell_count = 0};
		struct error error = {0};
		drawn.count = 2;
		drawn.steps[1].counts = cases[i].counts;
		write_steps(&drawn, folder);
		require_equal(
			price_study_read(&study, folder, &models, NULL, &error), STATUS_INPUT);
		require(strstr(error.text, cases[i].part) != NULL, "'%s' does not say '%s'",
			error.text, cases[i].part);
		price_study_close(&study);
	}
	temporary_remove(folder);
}

/* Prompts one behind the other, of 0.1 s each: behind the second all the time before was theirs,
   however many there have been. */
Test(price_study, long_runs_of_prompts_are_remembered)
{
	static struct drawn drawn;
	char folder[TEMPORARY_PATH_BYTES];
	struct price_study study = {.cell_count = 0};
	struct error error = {0};

	drawn.count = STEPS_MAX;
	for (uint32_t i = 0; i < STEPS_MAX; i++) {
		drawn.steps[i] = (struct priced_step){.counts = {.prefill_rows = 1,
							      .prefill_tokens = 100,
							      .prefill_attention_pairs = 5050,
							      .sampled_rows = 1},
			.start_ns = i * UINT64_C(100000000),
			.measured_ns = 100000000,
			.measured_host_ns = 30000,
			.predicted_host_ns = 30000,
			.predicted_ns = 30000 + 77 * 100,
			.has_hull = true};
		drawn.steps[i].recent = i < 2 ? i * 0.5 : 1;
	}
	temporary_folder(folder);
	write_steps(&drawn, folder);
	require(price_study_read(&study, folder, &models, NULL, &error) == STATUS_OK, "%s",
		error.text);
	for (struct group group = {0, 0}; group.view < STEP_VIEWS; group.view++) {
		for (group.number = 0; group.number < STEP_GROUPS; group.number++) {
			const struct price_sum expected =
				sum_of(&drawn, takes_group, &group, false);
			require_sum(&study.views[group.view][group.number], &expected,
				step_views[group.view].title);
		}
	}
	price_study_close(&study);
	temporary_remove(folder);
}

Test(price_study, puts_steps_into_the_groups_that_it_names)
{
	const struct priced_step mixed = {.counts = {.decode_rows = 16,
						  .prefill_rows = 1,
						  .prefill_tokens = 300,
						  .prefill_longest_context = 4096},
		.recent = 0.25,
		.has_hull = true,
		.is_ahead = true};
	static const char *const names[STEP_VIEWS] = {"both", NULL, NULL, NULL, "256 to 511",
		"16 to 31", "4096 to 8191", "before the step in front ended", "up to a half",
		"inside"};

	for (uint32_t i = 0; i < STEP_VIEWS; i++) {
		uint32_t group = step_views[i].group(&mixed);
		struct text name = {0};
		cr_assert_eq(group == STEP_NO_GROUP, names[i] == NULL, "%s", step_views[i].title);
		if (names[i] != NULL) {
			step_views[i].name(group, &name);
			cr_assert_str_eq(name.bytes, names[i]);
		}
		text_deinit(&name);
	}
}

/* Every name is one of a share that it tells. */
Test(price_study, names_shares_of_the_time_before)
{
	static const struct {
		double recent;
		const char *name;
	} rows[] = {{0, "nothing"}, {0.001, "up to a quarter"}, {0.24, "up to a quarter"},
		{0.26, "up to a half"}, {0.49, "up to a half"}, {0.51, "up to three quarters"},
		{0.74, "up to three quarters"}, {0.76, "more"}, {1, "more"}};
	const struct step_view *view = step_views;

	while (strstr(view->title, "share of the 0.2 s") == NULL) {
		view++;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct priced_step step = {.recent = rows[i].recent};
		struct text name = {0};
		view->name(view->group(&step), &name);
		cr_expect_str_eq(name.bytes, rows[i].name, "%g is %s", rows[i].recent, name.bytes);
		text_deinit(&name);
	}
}

/* A profile of rates was fitted to nothing that a step could be inside or outside of. */
Test(price_study, without_a_hull_no_step_is_inside)
{
	struct priced_step step = {.counts = {.decode_rows = 16}, .has_hull = true};
	const struct step_view *hull = &step_views[STEP_VIEWS - 1];

	cr_assert_eq(hull->group(&step), 0);
	step.is_outside = true;
	cr_assert_eq(hull->group(&step), 1);
	step.has_hull = false;
	cr_assert_eq(hull->group(&step), STEP_NO_GROUP);
	step.is_outside = false;
	cr_assert_eq(hull->group(&step), STEP_NO_GROUP);
}
