#include "sim/step_hull.h"

#include <criterion/criterion.h>
#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* ---- beside a naive hull: a list of the measured steps ---- */

enum { STEPS_MAX = 12 };

static uint32_t naive_octave(uint64_t count)
{
	uint32_t octave = 0;

	while (count > 0) {
		count /= 2;
		octave++;
	}
	return octave;
}

static void naive_cell(const struct step_counts *counts, uint32_t cell[3])
{
	uint64_t rows = counts->decode_rows;

	cell[0] = naive_octave(rows);
	cell[1] = naive_octave(counts->prefill_tokens);
	cell[2] = rows == 0 ? 0 : naive_octave(counts->decode_context_tokens / rows);
}

/* One octave of one of the three apart at most, and none at 0 where the other is not. */
static bool is_beside(const struct step_counts *a, const struct step_counts *b)
{
	uint32_t one[3], other[3], apart = 0;

	naive_cell(a, one);
	naive_cell(b, other);
	for (uint32_t i = 0; i < 3; i++) {
		if ((one[i] == 0) != (other[i] == 0)) {
			return false;
		}
		apart += one[i] > other[i] ? one[i] - other[i] : other[i] - one[i];
	}
	return apart <= 1;
}

static bool naive_is_outside(
	const struct step_counts *measured, uint32_t count, const struct step_counts *step)
{
	struct step_counts most = {0};
	bool has_cell = false;

	for (uint32_t i = 0; i < count; i++) {
#define RAISE(name) most.name = measured[i].name > most.name ? measured[i].name : most.name;
		STEP_HULL_COUNT_LIST(RAISE)
#undef RAISE
		has_cell = has_cell || is_beside(&measured[i], step);
	}
	bool is_above = false;
#define COMPARE(name)                                                                              \
	bool is_known_##name = most.name > 0 || strstr(#name, "longest") == NULL;                  \
	is_above = is_above || (is_known_##name && step->name > most.name);
	STEP_HULL_COUNT_LIST(COMPARE)
#undef COMPARE
	return is_above || !has_cell;
}

static void draw_counts(struct prop *prop, struct step_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	if (prop_chance(prop, 2, 3)) {
		counts->decode_rows = prop_range(prop, 1, 9);
		counts->decode_context_tokens = counts->decode_rows * prop_range(prop, 1, 40);
		counts->decode_longest_context = prop_below(prop, 50);
		counts->shared_tokens = prop_below(prop, 5);
	}
	if (prop_chance(prop, 1, 2)) {
		counts->prefill_rows = prop_range(prop, 1, 3);
		counts->prefill_tokens =
			prop_range(prop, counts->prefill_rows, prop_chance(prop, 1, 2) ? 3 : 30);
		counts->prefill_attention_pairs = prop_range(prop, 1, 900);
		counts->prefill_longest_context = prop_below(prop, 60);
	}
	counts->sampled_rows = counts->decode_rows + prop_below(prop, counts->prefill_rows + 1);
}

static void body_hull(struct prop *prop, const void *context)
{
	struct step_counts measured[STEPS_MAX], step;
	static struct step_hull hull;
	uint32_t count = prop_range(prop, 0, STEPS_MAX);
	(void)context;

	step_hull_init(&hull);
	for (uint32_t i = 0; i < count; i++) {
		draw_counts(prop, &measured[i]);
		step_hull_add(&hull, &measured[i]);
	}
	for (uint32_t i = 0; i < count; i++) {
		require(!step_hull_is_outside(&hull, &measured[i]), "a measured step is outside");
	}
	draw_counts(prop, &step);
	require_equal(step_hull_is_outside(&hull, &step), naive_is_outside(measured, count, &step));
}

Test(step_hull, is_that_of_the_measured_steps)
{
	const struct prop_options options = {.name = "hull", .body = body_hull, .trials = 20000};

	cr_assert(prop_holds(&options));
}

/* ---- what a run says of it ---- */

static double share_of(const char *folder, const char *name)
{
	char path[TEMPORARY_PATH_BYTES + 32];

	snprintf(path, sizeof(path), "%s/r/summary.json", folder);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	const cJSON *share = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "time"), name);
	double value = cJSON_IsNumber(share) ? share->valuedouble : -1;
	cJSON_Delete(root);
	free(text);
	return value;
}

/* 40 sequences of 20,000 tokens: more context than any step of qwen3-8b was measured with. */
Test(step_hull, a_run_says_how_much_lies_outside, .timeout = 120)
{
	char folder[TEMPORARY_PATH_BYTES], arguments[256];
	static const char *const warning = "of the time is in steps unlike those that the profile";

	temporary_folder(folder);
	char *text = quire_output(folder, 0,
		"trace make --requests 40 --input 20000 --output 50 --rate inf --out @/long.jsonl");
	free(text);
	for (uint32_t is_short = 0; is_short < 2; is_short++) {
		snprintf(arguments, sizeof(arguments),
			"replay @/long.jsonl --model qwen3-8b --gpu h200 --max-model-len 32768 "
			"--out @/r --force --max-requests %s",
			is_short ? "2" : "40");
		text = quire_output(folder, 0, arguments);
		double steps = share_of(folder, "outside_steps");
		double time = share_of(folder, "outside_time");
		require(is_short || (time > 0.3 && time <= 1), "%.3f of the time", time);
		require(steps >= 0 && steps <= (is_short ? 0.5 : 1) && (steps > 0) == (time > 0),
			"%.3f of the steps", steps);
		require((strstr(text, warning) != NULL) == (time > 0.05), "%.3f: %s", time, text);
		free(text);
	}
	text = quire_output(folder, 0,
		"replay @/long.jsonl --model qwen3-8b --gpu h200-datasheet --max-model-len 32768 "
		"--out @/r --force");
	require(share_of(folder, "outside_time") == -1, "a data sheet has no hull");
	free(text);
	temporary_remove(folder);
}
