#include "bench/calibrate/heat.h"

#include "engine/base/counter_hash.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Steps of a GPU whose heat is known: rises are found again, and what they added is taken off. */

enum { KINDS = 40, STEPS = 4000 };

static struct calibrate_setup setup_of_h200(void)
{
	struct calibrate_setup setup = {0};
	static struct gpu_profile gpu;
	struct error error = {0};

	require(gpu_profile_find("h200-datasheet", &gpu, &error) == STATUS_OK, "%s", error.text);
	setup.limits = gpu.prices.limits;
	require(model_config_builtin("qwen3-0.6b", &setup.shape), "no such model");
	return setup;
}

/* What a step of a kind takes at no heat, no less than its FLOPs at the limit. */
static uint64_t rested_ns(uint64_t kind)
{
	return 500000 + kind % 8 * (kind % 8) * (kind % 8) * 60000;
}

/* Bursts of prompts among decode steps, by a seed, with noise up to a share. */
static void make_steps(struct calibrate_points *points, const struct heat_prices *heat,
	double noise, uint64_t seed)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct operation_floors floors;
	double hot = 0;

	operation_floors_of(&floors, &setup.limits, &setup.shape);
	memset(points, 0, sizeof(*points));
	points->points = calloc(2 * STEPS, sizeof(*points->points));
	points->count = STEPS;
	points->capacity = 2 * STEPS;
	for (uint32_t i = 0; i < STEPS; i++) {
		struct calibrate_point *point = &points->points[i];
		uint64_t kind = counter_hash(seed, 2 * i) % KINDS;
		bool is_prompt = i / 64 % 3 == 0 ? kind % 2 == 0 : kind % 16 == 0;
		point->samples = 1;
		point->counts.sampled_rows = 1 + kind;
		if (is_prompt) {
			point->counts.prefill_rows = 1 + kind;
			point->counts.prefill_tokens = 100 + kind % 8 * (kind % 8) * 150;
			point->counts.prefill_attention_pairs =
				batch_attention_pairs(0, point->counts.prefill_tokens);
		} else {
			point->counts.decode_rows = 1 + kind;
			point->counts.decode_context_tokens = 1000 * (1 + kind);
		}
		double off =
			1 + noise * ((double)(counter_hash(seed, 2 * i + 1) % 2001) / 1000 - 1);
		double ns = (double)rested_ns(kind) * off;
		ns += heat_extra_ns(
			heat, hot, heat_flops_ns(&floors, &point->counts), &point->counts, ns);
		point->elapsed_ns = (uint64_t)(ns + 0.5);
		point->gpu_ns = point->elapsed_ns - 1000;
		point->host_ns = 1000;
		hot = heat->decay_ns > 0 ? heat_after(heat->decay_ns, hot,
						   heat_flops_ns(&floors, &point->counts),
						   (double)point->elapsed_ns)
					 : 0;
	}
	/* What lies behind the last step is no step. */
	for (uint32_t i = STEPS; i < 2 * STEPS; i++) {
		points->points[i] = points->points[i - STEPS];
		points->points[i].elapsed_ns += points->points[i].elapsed_ns / (2 + i % 5);
	}
	calibrate_heat_note(points, &setup);
}

static void require_found(
	const struct heat_prices *heat, double noise, uint64_t seed, double most_off)
{
	struct calibrate_points points;

	make_steps(&points, heat, noise, seed);
	const struct heat_prices found = calibrate_heat_fit(&points);
	require(found.decay_ns == heat->decay_ns && fabs(found.prompt - heat->prompt) < most_off &&
			fabs(found.decode - heat->decode) < most_off,
		"found %.9g, %.9g, %g, expected %g, %g, %g", found.prompt, found.decode,
		found.decay_ns, heat->prompt, heat->decode, heat->decay_ns);
	calibrate_points_free(&points);
}

Test(calibrate_heat, finds_the_rises_and_the_decay)
{
	static const struct heat_prices cases[] = {
		{0.2, 0.1, 1e8}, {0.35, 0.05, 5e7}, {0.1, 0.1, 2e8}, {0.3, 0, 4e8}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		require_found(&cases[i], 0.01, i, 0.03);
		require_found(&cases[i], 0, i, 5e-5);
	}
}

static void add_step(struct calibrate_points *points, const struct heat_prices *heat, double *hot,
	uint32_t tokens, double ns)
{
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_point *point = &points->points[points->count++];
	struct operation_floors floors;

	operation_floors_of(&floors, &setup.limits, &setup.shape);
	point->samples = 1;
	point->counts.prefill_rows = tokens > 0;
	point->counts.prefill_tokens = tokens;
	point->counts.decode_rows = tokens == 0;
	double flops_ns = heat_flops_ns(&floors, &point->counts);
	ns = tokens > 0 ? 1.2 * flops_ns : ns;
	ns += heat_extra_ns(heat, *hot, flops_ns, &point->counts, ns);
	point->elapsed_ns = point->gpu_ns = (uint64_t)(ns + 0.5);
	*hot = heat_after(heat->decay_ns, *hot, flops_ns, (double)point->elapsed_ns);
}

/* Each prompt twice behind a second of decoding and once behind many prompts, where it takes a
   fifth longer: two equal times do not make the third a disturbed one. */
Test(calibrate_heat, a_fifth_longer_is_heat)
{
	enum { LENGTHS = 20, OTHERS = 200 };
	const struct heat_prices heat = {0.4, 0, 5e7};
	const struct calibrate_setup setup = setup_of_h200();
	struct calibrate_points points = {0};
	uint32_t other = 4000;
	double hot = 0;

	points.points = calloc(LENGTHS * (OTHERS + 5), sizeof(*points.points));
	for (uint32_t i = 0; i < LENGTHS; i++) {
		for (uint32_t time = 0; time < 3; time++) {
			for (uint32_t j = 0; time == 2 && j < OTHERS; j++) {
				add_step(&points, &heat, &hot, other++, 0); /* each only once */
			}
			if (time < 2) {
				add_step(&points, &heat, &hot, 0, 1e9);
			}
			add_step(&points, &heat, &hot, 400 + 20 * i, 0);
		}
	}
	calibrate_heat_note(&points, &setup);
	const struct heat_prices found = calibrate_heat_fit(&points);
	require(fabs(found.prompt - heat.prompt) < 0.005 && found.decay_ns == heat.decay_ns,
		"found %g, %g", found.prompt, found.decay_ns);
	calibrate_points_free(&points);
}

Test(calibrate_heat, finds_none_in_noise)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		const struct heat_prices none = {0};
		struct calibrate_points points;
		make_steps(&points, &none, 0.04, seed);
		const struct heat_prices found = calibrate_heat_fit(&points);
		require(found.prompt == 0 && found.decode == 0 && found.decay_ns == 0,
			"seed %llu: %g, %g", (unsigned long long)seed, found.prompt, found.decode);
		calibrate_heat_remove(&points, &found);
		require(points.origin.heat_prompt[0] == '\0', "an origin of no heat");
		calibrate_points_free(&points);
	}
}

Test(calibrate_heat, leaves_the_times_at_no_heat)
{
	const struct heat_prices heat = {0.2, 0.1, 5e7};
	struct calibrate_points points;

	make_steps(&points, &heat, 0, 1);
	calibrate_heat_remove(&points, &heat);
	for (size_t i = 0; i < points.count; i++) {
		const struct calibrate_point *point = &points.points[i];
		uint64_t kind = point->counts.sampled_rows - 1;
		int64_t off = (int64_t)point->elapsed_ns - (int64_t)rested_ns(kind);
		require(off >= -1 && off <= 1, "%llu ns, rested %llu",
			(unsigned long long)point->elapsed_ns, (unsigned long long)rested_ns(kind));
		require_equal(point->gpu_ns + point->host_ns, point->elapsed_ns);
	}
	calibrate_points_free(&points);
}

/* The FLOPs of a step heat it for as long as it takes, no longer, also where it takes less than
   they do at the limit: a point is of a faster GPU than the profile says. */
Test(calibrate_heat, a_step_is_no_hotter_than_all_of_its_time)
{
	const struct heat_prices heat = {0.2, 0.1, 5e7};
	static const double shares[] = {0, 0.5, 1, 1.05, 2, 10, 100};

	for (uint32_t i = 0; i < 5 * sizeof(shares) / sizeof(shares[0]); i++) {
		double ns = 2e6, hot = i % 5 / 4.0, flops_ns = shares[i / 5] * ns;
		const struct step_counts counts = {
			.prefill_rows = 1, .prefill_tokens = 100, .sampled_rows = 1};
		struct calibrate_point point = {.samples = 1, .counts = counts};
		point.elapsed_ns =
			(uint64_t)(ns + heat_extra_ns(&heat, hot, flops_ns, &counts, ns) + 0.5);
		point.gpu_ns = point.elapsed_ns;
		point.flops_ns = flops_ns;
		for (uint32_t d = 0; d < CALIBRATE_HEAT_DECAYS; d++) {
			point.heat[d] = hot;
		}
		struct calibrate_points points = {.points = &point, .count = 1};
		calibrate_heat_remove(&points, &heat);
		double off = (double)point.elapsed_ns / ns - 1; /* times at heat have more FLOPs */
		require(fabs(off) < 0.002, "%g of the time, heat %g: %.4f %% off", shares[i / 5],
			hot, 100 * off);
	}
}

/* No price may say that decode rows become dearer than prompts: where the steps do, the rises are
   equal, and the points are read again. */
Test(calibrate_heat, decode_rises_no_more_than_prompts)
{
	const struct heat_prices heat = {0.1, 0.2, 5e7};
	struct calibrate_points points;
	struct heat_prices again;
	struct error error = {0};

	make_steps(&points, &heat, 0, 3);
	const struct heat_prices found = calibrate_heat_fit(&points);
	require(found.prompt > 0 && found.decode == found.prompt, "%g and %g", found.prompt,
		found.decode);
	calibrate_heat_remove(&points, &found);
	require(calibrate_heat_read(&points, &again, &error) == STATUS_OK, "%s", error.text);
	calibrate_points_free(&points);
}

Test(calibrate_heat, goes_through_the_points_into_the_prices)
{
	const struct heat_prices heat = {0.200001, 0.1, 5e7};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct calibrate_points points, again;
	struct heat_prices found;
	struct error error = {0};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/points.tsv", folder);
	make_steps(&points, &heat, 0, 1);
	calibrate_heat_remove(&points, &heat);
	require_equal(calibrate_points_write(&points, path, &error), STATUS_OK);
	require(calibrate_points_read(&again, path, 0, &error) == STATUS_OK, "%s", error.text);
	require(calibrate_heat_read(&again, &found, &error) == STATUS_OK, "%s", error.text);
	require(found.prompt == heat.prompt && found.decode == heat.decode &&
			found.decay_ns == heat.decay_ns,
		"%g, %g, %g", found.prompt, found.decode, found.decay_ns);
	calibrate_points_free(&points);
	calibrate_points_free(&again);
	temporary_remove(folder);
}

Test(calibrate_heat, wrong_lines_of_points_are_refused)
{
	static const struct {
		const char *form, *prompt, *decode, *decay_ns, *part;
	} cases[] = {
		{"", "0.1", "0", "1", "heat_form' of the points: found '', expected mean-square"},
		{"mean", "0.1", "0", "1",
			"heat_form' of the points: found 'mean', expected mean-square"},
		{HEAT_FORM, "x", "0", "1",
			"heat_prompt' of the points: found 'x', expected 0 to 1.0"},
		{HEAT_FORM, "1.5", "0", "1", "heat_prompt' of the points: found '1.5'"},
		{HEAT_FORM, "", "0", "1", "heat_prompt' of the points: found ''"},
		{"", "", "0", "", "heat_form' of the points: found '', expected mean-square"},
		{HEAT_FORM, "0.1", "", "1", "heat_decode' of the points: found ''"},
		{HEAT_FORM, "0.1", "0.2", "1",
			"heat_decode' of the points: found '0.2', expected 0 to 0.1"},
		{HEAT_FORM, "0.1", "0.1", "0",
			"heat_decay_ns' of the points: found '0', expected 1 to"},
		{HEAT_FORM, "0.1", "0.1", "",
			"heat_decay_ns' of the points: found '', expected 1 to"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calibrate_points points = {0};
		struct heat_prices found;
		struct error error = {0};
		snprintf(points.origin.heat_form, 32, "%s", cases[i].form);
		snprintf(points.origin.heat_prompt, 32, "%s", cases[i].prompt);
		snprintf(points.origin.heat_decode, 32, "%s", cases[i].decode);
		snprintf(points.origin.heat_decay_ns, 32, "%s", cases[i].decay_ns);
		require_equal(calibrate_heat_read(&points, &found, &error), STATUS_INPUT);
		require(strstr(error.text, cases[i].part) != NULL, "'%s' does not say '%s'",
			error.text, cases[i].part);
	}
}
