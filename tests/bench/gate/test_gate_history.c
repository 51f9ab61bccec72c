#include "bench/gate/gate_history.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gate/gate.h"
#include "engine/base/text.h"
#include "reports/results/history_file.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* What a gate says of its history, and the line that it adds to it. */

enum { RUNS_MOST = 30, CASES_MOST = 3 };

/* Stretches of equal figures, some of 0, so that the levels are plain. */
static void draw_history(struct prop *prop, struct text *text)
{
	static const double values[] = {0, 1, 80, 92.5};
	uint32_t runs = prop_range(prop, 1, RUNS_MOST), cases = prop_range(prop, 1, CASES_MOST);
	double now[CASES_MOST][2] = {{0}};

	text_add(text, "");
	for (uint32_t run = 0; run < runs; run++) {
		text_format(text, "{\"commit\":\"c%u\",\"date\":\"d%u\",\"cases\":{", run, run);
		for (uint32_t i = 0; i < cases; i++) {
			for (uint32_t k = 0; k < 2 && (run == 0 || prop_chance(prop, 1, 8)); k++) {
				now[i][k] = values[prop_below(prop, 4)];
			}
			text_format(text,
				"%s\"case %u\":{\"verdict\":\"PASS\",\"figures\":{\"ttft.p99\":%g,"
				"\"preemptions\":%g}}",
				i == 0 ? "" : ",", i, now[i][0], now[i][1]);
		}
		text_add(text, "}}\n");
	}
}

static double mean_of_level(const struct history_track *track, uint32_t level)
{
	double sum = 0;

	for (uint32_t i = track->starts[level]; i < track->starts[level + 1]; i++) {
		sum += track->values[i];
	}
	return sum / (track->starts[level + 1] - track->starts[level]);
}

/* A line a change, in order of the cases' figures. Of a level behind one of 0 there is no change in
   per cent. */
static void expect_changes(const struct history_file *history, struct text *out)
{
	text_add(out, "");
	for (uint32_t i = 0; i < history->track_count; i++) {
		const struct history_track *track = &history->tracks[i];
		for (uint32_t level = 1; level < track->level_count; level++) {
			double before = mean_of_level(track, level - 1);
			double after = mean_of_level(track, level);
			text_format(out, "since c%u: %s %s %.6g to %.6g (%+.2f %%)\n",
				track->runs[track->starts[level]], track->name, track->figure,
				before, after, fabs(before) <= 0 ? 0 : 100 * (after / before - 1));
		}
	}
}

static void body_changes(struct prop *prop, const void *context)
{
	char path[TEMPORARY_PATH_BYTES], *found = NULL;
	struct text text = {0}, expected = {0};
	struct history_file history;
	struct error error = {0};
	size_t bytes = 0;

	draw_history(prop, &text);
	temporary_write(context, "history", text.bytes, path);
	require(history_file_open(&history, path, &error) == STATUS_OK, "%s", error.text);
	expect_changes(&history, &expected);
	FILE *out = open_memstream(&found, &bytes);
	require(gate_history_print(path, out, &error) == STATUS_OK, "%s", error.text);
	require(fclose(out) == 0, "no text");
	require(strcmp(found, expected.bytes) == 0, "found\n%s\nexpected\n%s", found,
		expected.bytes);
	free(found);
	text_deinit(&text);
	text_deinit(&expected);
	history_file_close(&history);
}

Test(gate_history, tells_every_change_of_level)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	const struct prop_options options = {
		.name = "changes", .body = body_changes, .context = folder, .trials = 300};
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}

/* A run adds one line with the verdict and the figures of each case; those before stay. */
static void body_line(struct prop *prop, const void *context)
{
	static const char *const names[] = {"ttft.p99", "preemptions", "cpu_ms"};
	struct gate_verdict *verdicts = calloc(CASES_MOST, sizeof(*verdicts));
	struct gate *gate = calloc(1, sizeof(*gate));
	char path[TEMPORARY_PATH_BYTES];
	struct text text = {0};
	struct history_file history;
	struct error error = {0};

	require(verdicts != NULL && gate != NULL, "out of memory");
	draw_history(prop, &text);
	temporary_write(context, "history", text.bytes, path);
	gate->verdicts = verdicts;
	gate->count = prop_range(prop, 1, CASES_MOST);
	for (uint32_t i = 0; i < gate->count; i++) {
		snprintf(verdicts[i].name, sizeof(verdicts[i].name), "case %u", i);
		verdicts[i].status = (enum gate_status)prop_below(prop, GATE_STATUS_COUNT);
		verdicts[i].figure_count = prop_range(prop, 0, 3);
		for (uint32_t k = 0; k < verdicts[i].figure_count; k++) {
			verdicts[i].figures[k] = (struct gate_figure){
				.name = names[k], .value = (double)prop_below(prop, 99999) / 7};
		}
	}
	require(gate_history_add(gate, path, &error) == STATUS_OK, "%s", error.text);
	char *after = file_read(path, NULL);
	require(strncmp(after, text.bytes, text.byte_count) == 0, "older lines have changed");
	require(history_file_open(&history, path, &error) == STATUS_OK, "%s", error.text);
	const struct history_run *last = &history.runs[history.count - 1];
	require_equal(cJSON_GetArraySize(last->cases), gate->count);
	for (uint32_t i = 0; i < gate->count; i++) {
		const cJSON *one = cJSON_GetObjectItem(last->cases, verdicts[i].name);
		const cJSON *figures = cJSON_GetObjectItem(one, "figures");
		require_equal(history_verdict(last, verdicts[i].name), verdicts[i].status);
		require_equal(cJSON_GetArraySize(figures), verdicts[i].figure_count);
		for (uint32_t k = 0; k < verdicts[i].figure_count; k++) {
			double found = cJSON_GetObjectItem(figures, names[k])->valuedouble;
			double value = verdicts[i].figures[k].value; /* JSON has 15 digits */
			require(fabs(found - value) <= 1e-14 * value, "%s of %s: %.17g, not %.17g",
				names[k], verdicts[i].name, found, value);
		}
	}
	history_file_close(&history);
	free(after);
	free(verdicts);
	free(gate);
	text_deinit(&text);
}

Test(gate_history, a_line_has_every_case)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	const struct prop_options options = {
		.name = "line of a history", .body = body_line, .context = folder, .trials = 100};
	cr_assert(prop_holds(&options));
	temporary_remove(folder);
}
