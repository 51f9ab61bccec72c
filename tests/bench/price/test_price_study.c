#include "bench/price/price_study.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/step_record.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Recorded steps that are priced, beside a naive account of them. */

enum { STEPS_MAX = 60, REPLICAS = 2 };

struct drawn {
	struct priced_step steps[STEPS_MAX]; /* what a reader must find */
	uint64_t replica[STEPS_MAX];
	uint32_t count;
};

/* Prices of a made-up profile. The host takes 2,000 ns of a step that is launched ahead, else
   30,000. Steps of an odd number of rows are outside. */
static enum status fake_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct step_counts *counts = &batch->counts;

	(void)state;
	(void)token_ids;
	(void)error;
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
	drawn->count = prop_range(prop, 1, STEPS_MAX);
	for (uint32_t i = 0; i < drawn->count; i++) {
		struct priced_step *step = &drawn->steps[i];
		struct step_counts *counts = &step->counts;
		uint64_t replica = prop_below(prop, REPLICAS);
		counts->decode_rows = draw_count(prop);
		counts->prefill_rows = prop_below(prop, 3);
		counts->prefill_tokens = counts->prefill_rows > 0 ? draw_count(prop) : 0;
		counts->decode_context_tokens = counts->decode_rows * prop_below(prop, 5000);
		counts->shared_tokens = draw_count(prop);
		counts->prefill_longest_context = draw_count(prop);
		step->measured_host_ns = 1 + prop_below(prop, 40000);
		step->measured_ns = step->measured_host_ns + 400 * draw_count(prop);
		step->start_ns = now[replica] + prop_below(prop, 50000000);
		now[replica] = step->start_ns + step->measured_ns;
		drawn->replica[i] = replica;
		step->is_ahead = step->measured_host_ns < 16000;
		step->has_hull = true;
		step->is_outside = counts->decode_rows % 2 == 1;
		step->predicted_host_ns = step->is_ahead ? 2000 : 30000;
		step->predicted_ns = step->predicted_host_ns + 1000 * counts->decode_rows +
				     77 * counts->prefill_tokens + counts->decode_context_tokens;
		step->recent = naive_recent(drawn, i);
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

static void require_sum(const struct price_sum *sum, const struct drawn *drawn,
	bool (*takes)(const struct priced_step *step, const void *context), const void *context,
	const char *name)
{
	uint64_t steps = 0;
	double measured = 0, predicted = 0, apart = 0;

	for (uint32_t i = 0; i < drawn->count; i++) {
		const struct priced_step *step = &drawn->steps[i];
		if (takes(step, context)) {
			steps++;
			measured += (double)step->measured_ns;
			predicted += (double)step->predicted_ns;
			apart += fabs((double)step->predicted_ns - (double)step->measured_ns);
		}
	}
	require(sum->steps == steps, "%s: %llu steps, expected %llu", name,
		(unsigned long long)sum->steps, (unsigned long long)steps);
	require(sum->measured_ns == measured && sum->predicted_ns == predicted &&
			sum->apart_ns == apart,
		"%s: %g %g %g, expected %g %g %g", name, sum->measured_ns, sum->predicted_ns,
		sum->apart_ns, measured, predicted, apart);
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

static void accounts(struct prop *prop, const void *context)
{
	struct drawn drawn;
	struct price_study study = {.cell_count = 0};
	struct error error = {0};
	uint64_t in_cells = 0;

	draw(prop, &drawn);
	write_steps(&drawn, context);
	require(price_study_read(&study, context, &models, NULL, &error) == STATUS_OK, "%s",
		error.text);
	require_sum(&study.all, &drawn, takes_all, NULL, "all");
	for (struct group group = {0, 0}; group.view < STEP_VIEWS; group.view++) {
		for (group.number = 0; group.number < STEP_GROUPS; group.number++) {
			require_sum(&study.views[group.view][group.number], &drawn, takes_group,
				&group, step_views[group.view].title);
		}
	}
	for (uint32_t i = 0; i < study.cell_count; i++) {
		require_sum(&study.cells[i].sum, &drawn, takes_cell, &study.cells[i], "cell");
		in_cells += study.cells[i].sum.steps;
	}
	require_equal(in_cells, drawn.count);
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
