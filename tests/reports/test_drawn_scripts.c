#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/text.h"
#include "reports/results/plan_file.h"
#include "reports/results/sweep_file.h"
#include "tests/harness/files.h"
#include "tests/harness/made_history.h"
#include "tests/harness/made_plan.h"
#include "tests/harness/made_result.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* What gnuplot is given: the variables and tables of figures, of inputs whose values are known. A
   gnuplot that keeps its script stands before the real one in PATH. A script is called after the
   time, since process numbers begin again. */

static char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	char script[8192], tools[2 * TEMPORARY_PATH_BYTES], both[8192];
	const char *search = getenv("PATH");

	temporary_folder(folder);
	snprintf(tools, sizeof(tools), "%s/tools", folder);
	require(mkdir(tools, 0777) == 0, "%s cannot be made", tools);
	snprintf(script, sizeof(script),
		"#!/bin/sh\nPATH='%s'\nscript='%s'/script.$(date +%%s%%N).$$\n"
		"cat >\"$script\"\nshift 3\nexec gnuplot -d -c \"$script\" \"$@\"\n",
		search, tools);
	temporary_write(folder, "tools/gnuplot", script, path);
	require(chmod(path, 0755) == 0, "%s cannot be executed", path);
	snprintf(both, sizeof(both), "%s:%s", tools, search);
	setenv("PATH", both, 1);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(drawn_scripts, .init = set_up, .fini = tear_down);

/* All scripts since the last call, owned by the caller. */
static char *take_scripts(void)
{
	char command[2 * TEMPORARY_PATH_BYTES], all[2 * TEMPORARY_PATH_BYTES];

	snprintf(command, sizeof(command), "cd %s/tools && cat script.* >all && rm script.*",
		folder);
	require(system(command) == 0, "%s", command);
	snprintf(all, sizeof(all), "%s/tools/all", folder);
	return file_read(all, NULL);
}

/* The scripts of the page of `path`. */
static char *scripts_of_page(void)
{
	const char *directory = path;

	free(make_page(folder, &directory, 1, "page.html"));
	return take_scripts();
}

static void require_lines(const char *scripts, const char *const *lines, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		char line[256];
		snprintf(line, sizeof(line), "\n%s\n", lines[i]);
		require(strstr(scripts, line) != NULL, "no line '%s'", lines[i]);
	}
}

#define REQUIRE_LINES(scripts, ...)                                                                \
	do {                                                                                       \
		static const char *const lines[] = {__VA_ARGS__};                                  \
		require_lines(scripts, lines, sizeof(lines) / sizeof(lines[0]));                   \
	} while (0)

static void require_variable(const char *scripts, const char *name, double expected)
{
	char start[64];

	snprintf(start, sizeof(start), "\n%s = ", name);
	const char *at = strstr(scripts, start);
	require(at != NULL, "%s is not set", name);
	double found = strtod(at + strlen(start), NULL);
	require(fabs(found - expected) < 1e-9, "%s: found %.12g, expected %.12g", name, found,
		expected);
}

/* Of a real run and a simulated one a figure that only one of them has does not say which it is:
   its line is drawn as any other. */
Test(drawn_scripts, a_figure_of_one_run_of_a_pair_has_no_real_run)
{
	static const char start[] = "has_legend = 0\nhas_notes = 1\n";
	enum { KINDS = 2 };
	struct made_result real = made_ordinary, simulated = made_ordinary;
	char paths[KINDS][TEMPORARY_PATH_BYTES];
	const char *directories[KINDS] = {paths[0], paths[1]};
	uint32_t count[KINDS] = {0}; /* figures of one run, and of both */

	real.runner = "cuda";
	real.device = "GPU";
	simulated.operations = 0;
	make_result(folder, "real", &real, paths[0]);
	make_result(folder, "simulated", &simulated, paths[1]);
	free(make_page(folder, directories, KINDS, "page.html"));
	char *scripts = take_scripts();
	for (char *at = strstr(scripts, start); at != NULL;) {
		char *next = strstr(at + 1, start);
		if (next != NULL) {
			next[-1] = '\0';
		}
		bool is_of_both = strstr(at, "\nlabel_2 = ") != NULL;
		require((strstr(at, "\nhas_real = 1\n") != NULL) == is_of_both, "%.200s", at);
		count[is_of_both]++;
		at = next;
	}
	require(count[0] > 0 && count[1] > 0, "%u and %u figures", count[0], count[1]);
	free(scripts);
}

/* Level changes of made_history.h: c0 at run 20 of 30, counted from 0, c1 at run 10. */
Test(drawn_scripts, a_history_has_panels_points_and_levels)
{
	make_history(folder, "h.jsonl", (struct made_history){30, 4}, path);
	char *scripts = scripts_of_page();

	REQUIRE_LINES(scripts, "run_total = 30", "tic_total = 4", "tic_at_1 = 1", "tic_at_2 = 10",
		"tic_at_3 = 20", "tic_at_4 = 30", "tic_text_1 = 'a000000'",
		"tic_text_2 = 'a000009'", "tic_text_4 = 'a00001d'", "panel_total = 4",
		"kind = 'time'", "kind = 'share'", "kind = 'plain'");
	/* c0 */
	REQUIRE_LINES(scripts, "1\t1\t0.08\tNaN\t0\t-", "1\t20\t0.08\tNaN\t0\t-",
		"1\t21\t0.092\tNaN\t0\t-", "1\t0.5\tNaN\t0.08\t0\t-", "1\t20.5\tNaN\t0.08\t0\t-",
		"1\t1\tNaN\tNaN\t0\t-", "1\t20.5\tNaN\t0.092\t0\t-", "1\t30.5\tNaN\t0.092\t0\t-",
		"1\t21\tNaN\tNaN\t-1\ta000014", "1\t21\tNaN\tNaN\t1\ta000014");
	/* c1 comes first where only its hit rate changed */
	REQUIRE_LINES(scripts, "panel_name_1 = 'c1'", "panel_name_2 = 'c0'", "1\t10\t43\tNaN\t0\t-",
		"1\t11\t48\tNaN\t0\t-", "1\t10.5\tNaN\t43\t0\t-", "1\t30.5\tNaN\t48\t0\t-",
		"1\t11\tNaN\tNaN\t1\ta00000a");
	free(scripts);
}

/* No figure has more than 24 panels. */
Test(drawn_scripts, a_history_of_many_cases_has_24_panels)
{
	make_history(folder, "h.jsonl", (struct made_history){3, 40}, path);
	char *scripts = scripts_of_page();

	REQUIRE_LINES(scripts, "panel_total = 24");
	require(strstr(scripts, "\npanel_name_24 = ") != NULL, "no 24th panel");
	require(strstr(scripts, "\npanel_name_25 = ") == NULL, "a 25th panel");
	free(scripts);
}

/* Of many runs only the points at which a curve bends are drawn. */
Test(drawn_scripts, equal_neighbours_of_long_histories_are_left_out)
{
	make_history(folder, "h.jsonl", (struct made_history){300, 1}, path);
	char *scripts = scripts_of_page();

	REQUIRE_LINES(scripts, "1\t1\t0.08\tNaN\t0\t-", "1\t200\t0.08\tNaN\t0\t-",
		"1\t201\t0.092\tNaN\t0\t-", "1\t300\t0.092\tNaN\t0\t-");
	require_equal(occurrences(scripts, "\t0.08\tNaN\t"), 2);
	require_equal(occurrences(scripts, "\t0.092\tNaN\t"), 2);
	free(scripts);
}

/* c0 carries 8 requests/s and its answer is 0.87 of that, c1 23 on two GPUs (made_plan.c). */
Test(drawn_scripts, a_plan_has_its_answer_and_intervals)
{
	struct made_plan made = made_plan_ordinary;

	made.configurations = 2;
	make_plan(folder, "plan", &made, path);
	char *scripts = scripts_of_page();

	REQUIRE_LINES(scripts, "knob = 'Request rate'", "unit = 'requests/s'", "chosen = 'c0'",
		"lost_own = 0", "ttft_slo = 2000", "has_slo = 1", "limit_total = 0");
	require_variable(scripts, "pass", 6.96);
	require_variable(scripts, "fail", 1.02 * 6.96);
	require_variable(scripts, "sampling_low", 0.94 * 6.96);
	require_variable(scripts, "sampling_high", 1.05 * 6.96);
	require_variable(scripts, "model_low", 0.8 * 6.96);
	require_variable(scripts, "model_high", 1.2 * 6.96);
	require_variable(scripts, "attain_slo", 0.99);
	/* Three figures of the 12 loads of c0; no replicates, no other configuration. */
	require_equal(occurrences(scripts, "\nc0\t"), 36);
	require_equal(occurrences(scripts, "\nc1\t"), 0);
	/* Loads of a twelfth of 1.3 of the capacity: TPOT 11.3 ms, 300 tokens a request. */
	REQUIRE_LINES(scripts, "1\t88.4955752\t260\t0\t0\t-", "2\t88.4955752\t373.75\t0\t0\t-",
		"1\t30\t2088\t1\t1\t1", "2\t39\t6003\t1\t0\t2");
	require_equal(occurrences(scripts, "\t0\t0\t-\n"), 24);
	free(scripts);
}

static void set_number(cJSON *object, const char *name, double value)
{
	cJSON *number = cJSON_GetObjectItem(object, name);

	require(cJSON_IsNumber(number), "no number %s", name);
	cJSON_SetNumberValue(number, value);
}

/* Ranks that would be written over each other stand beside the first point, each of them once: of
   these four the second and the last are near each other, the third is near neither. */
Test(drawn_scripts, ranks_of_near_points_are_written_together)
{
	static const double places[][2] = {{30, 9000}, {60, 4000}, {60, 3000}, {61, 4001}};
	struct made_plan made = made_plan_ordinary;
	char file[2 * TEMPORARY_PATH_BYTES];

	made.configurations = 4;
	make_plan(folder, "plan", &made, path);
	snprintf(file, sizeof(file), "%s/plan.json", path);
	char *text = file_read(file, NULL);
	cJSON *root = cJSON_Parse(text), *list = cJSON_GetObjectItem(root, "configurations");
	for (int i = 0; i < 4; i++) {
		cJSON *one = cJSON_GetArrayItem(list, i);
		set_number(one, "speed_per_user", places[i][0]);
		set_number(one, "throughput_per_gpu", places[i][1]);
	}
	free(text);
	text = cJSON_Print(root);
	file_write(file, text, strlen(text));
	char *scripts = scripts_of_page();
	require_equal(occurrences(scripts, "\n1\t30\t9000\t1\t"), 1);
	require_equal(occurrences(scripts, "\t1\n"), 1);
	require_equal(occurrences(scripts, "\t2, 4\n"), 1);
	require_equal(occurrences(scripts, "\t3\n"), 1);
	const char *last = strstr(scripts, "\n4\t61\t4001\t1\t");
	require(last != NULL && strncmp(strchr(last + 1, '\n') - 2, "\t-", 2) == 0,
		"the fourth has a rank of its own");
	free(scripts);
	free(text);
	cJSON_Delete(root);
}

/* The cells of a row, each ended by a zero byte; how many. line is written to. */
static uint32_t split_row(char *line, char **cells, uint32_t most)
{
	uint32_t count = 0;

	for (char *at = line; at != NULL && count < most; count++) {
		cells[count] = at;
		at = strchr(at, '\t');
		if (at != NULL) {
			*at++ = '\0';
		}
	}
	return count;
}

/* Whether a run of the search is its own, of the trace as it is. */
static bool is_of_search(const char *purpose)
{
	return strcmp(purpose, probe_purposes[PROBE_SAMPLING]) != 0 &&
	       strcmp(purpose, probe_purposes[PROBE_MODEL]) != 0;
}

/* Writes plan.tsv with purposes and lost replicas in turn. The rows of the best configuration that
   are of its search are added to `shown`, the others of it to `hidden`, each as a line. Returns the
   most replicas that are lost. */
static uint32_t vary_probes(struct text *shown, struct text *hidden)
{
	enum { CELLS_MAX = 64 };
	char file[2 * TEMPORARY_PATH_BYTES], *names[CELLS_MAX], *cells[CELLS_MAX], *rest = NULL;
	struct text other = {0};
	uint32_t row = 0, most = 0;

	snprintf(file, sizeof(file), "%s/plan.tsv", path);
	char *text = file_read(file, NULL);
	char *header = strtok_r(text, "\n", &rest);
	text_add(&other, header);
	text_add(&other, "\n");
	uint32_t count = split_row(header, names, CELLS_MAX);
	for (char *line; (line = strtok_r(NULL, "\n", &rest)) != NULL; row++) {
		uint32_t lost = row % 5 == 2 ? 3 : row % 3, purpose = row % PROBE_PURPOSE_COUNT;
		struct text made = {0};
		require_equal(split_row(line, cells, CELLS_MAX), count);
		for (uint32_t i = 0; i < count; i++) {
			bool is_purpose = strcmp(names[i], "purpose") == 0;
			char number[16];
			snprintf(number, sizeof(number), "%u", lost);
			text_add(&made, i == 0 ? "" : "\t");
			text_add(&made, is_purpose			? probe_purposes[purpose]
					: strcmp(names[i], "lost") == 0 ? number
									: cells[i]);
		}
		text_add(&made, "\n");
		text_add(&other, made.bytes);
		if (strcmp(cells[0], "c0") == 0) {
			text_add(
				is_of_search(probe_purposes[purpose]) ? shown : hidden, made.bytes);
		}
		text_deinit(&made);
		most = lost > most ? lost : most;
	}
	file_write(file, other.bytes, other.byte_count);
	text_deinit(&other);
	free(text);
	return most;
}

/* In the three figures over load: the best configuration's runs of the trace as it is, whatever
   they were for, and no draws of other traces or step times. */
Test(drawn_scripts, a_plan_shows_the_runs_of_its_search)
{
	struct made_plan made = made_plan_ordinary;
	struct text shown = {0}, hidden = {0};
	char *rest = NULL, row[4096];

	made.configurations = 2;
	make_plan(folder, "plan", &made, path);
	uint32_t lost = vary_probes(&shown, &hidden);
	char *scripts = scripts_of_page();
	require_variable(scripts, "lost_own", lost);
	require(lost > 0, "no replica is lost");
	for (uint32_t i = 0; i < 2; i++) {
		char *lines = i == 0 ? shown.bytes : hidden.bytes;
		for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
			line = strtok_r(NULL, "\n", &rest)) {
			snprintf(row, sizeof(row), "\n%s\n", line);
			require(occurrences(scripts, row) == (i == 0 ? 3 : 0), "%u times %s",
				occurrences(scripts, row), line);
		}
	}
	text_deinit(&shown);
	text_deinit(&hidden);
	free(scripts);
}

/* made_plan.c: 256 blocks and more, doubled for each value; runs have growing figures. */
Test(drawn_scripts, a_sweep_of_one_parameter_is_lines)
{
	struct made_sweep made = made_sweep_ordinary;

	make_sweep(folder, "sweep", &made, path);
	char *scripts = scripts_of_page();

	REQUIRE_LINES(scripts, "tic_total = 6", "tic_text_2 = '512'", "tic_at_6 = 8192",
		"is_log = 1", "x_title = 'kv-blocks'", "curve_total = 1",
		"curve_name_1 = 'kv-blocks'", "panel_total = 9", "panel_name_1 = 'Output tokens/s'",
		"panel_kind_1 = 'plain'", "panel_name_4 = 'TTFT p99'", "panel_kind_4 = 'time'",
		"panel_name_6 = 'E2E p50'", "panel_kind_7 = 'share'");
	/* The share of 256 blocks is 256 / 3256 * 32 / 42 / 2 = 0.029952 (made_plan.c). */
	REQUIRE_LINES(scripts, "3\t1\t256\t2.9952", "7\t1\t256\t2.9952");
	/* The capacity of the cache's row 6 is 512 * floor(e^2): 3,584 tokens of 803,584. */
	REQUIRE_LINES(scripts, "1\t3584\t0.3122\t0", "2\t3584\t0.3077\t0", "3\t3584\t0.2676\t0",
		"4\t3584\t4.6748\t0", "5\t3584\t70\t0", "7\t65536\t2.9952\t1");
	free(scripts);
}

/* Another first value of the parameter, in both files of a sweep. */
static void replace_first_value(const char *value)
{
	static const char *const files[] = {"sweep.json", "sweep.tsv"};
	static const char *const from[] = {"\"256\"", "\t256\t"};

	for (uint32_t i = 0; i < 2; i++) {
		char file[2 * TEMPORARY_PATH_BYTES], end = from[i][0];
		struct text other = {0};
		snprintf(file, sizeof(file), "%s/%s", path, files[i]);
		char *text = file_read(file, NULL);
		require(strstr(text, from[i]) != NULL, "%s has no value 256", files[i]);
		for (const char *at = text; *at != '\0';) {
			bool is_value = strncmp(at, from[i], strlen(from[i])) == 0;
			text_add_bytes(&other, at, 1);
			text_add(&other, is_value ? value : "");
			text_add_bytes(&other, &end, is_value);
			at += is_value ? strlen(from[i]) : 1;
		}
		file_write(file, other.bytes, other.byte_count);
		text_deinit(&other);
		free(text);
	}
}

/* An axis is logarithmic where all values are above 0 and the largest is 8 times the least, in
   whatever order they stand. The first of 256, 512, ... is replaced. */
Test(drawn_scripts, an_axis_is_logarithmic_over_a_wide_range)
{
	static const struct {
		uint32_t values;
		const char *first;
		double least;
		bool is_log;
	} cases[] = {{3, "256", 256, false}, {4, "256", 256, true}, {4, "257", 257, false},
		{4, "255", 255, true}, {4, "0", 0, false}, {2, "4096", 512, true},
		{3, "4095", 512, false}, {2, "64", 64, true}, {2, "65", 65, false}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made_sweep made = made_sweep_ordinary;
		char name[32];
		made.values = cases[i].values;
		snprintf(name, sizeof(name), "sweep%u", i);
		make_sweep(folder, name, &made, path);
		replace_first_value(cases[i].first);
		char *scripts = scripts_of_page();
		require_variable(scripts, "is_log", cases[i].is_log);
		require_variable(scripts, "tic_at_1", strtod(cases[i].first, NULL));
		require_variable(scripts, "tic_total", cases[i].values);
		free(scripts);
	}
}

Test(drawn_scripts, a_sweep_of_two_parameters_is_maps)
{
	struct made_sweep made = made_sweep_ordinary;

	made.parameters = 2;
	made.values = 3;
	make_sweep(folder, "sweep", &made, path);
	char *scripts = scripts_of_page();

	REQUIRE_LINES(scripts, "x_total = 3", "y_total = 3", "x_text_3 = '1024'",
		"y_text_3 = '128'", "x_title = 'kv-blocks'", "y_title_text = 'max-num-seqs'");
	/* 512 / 3512 * 128 / 138 / 2 */
	REQUIRE_LINES(scripts, "3\t2\t3\t6.7611");
	free(scripts);
}

/* Of four parameters the third varies fastest from panel to panel. */
Test(drawn_scripts, a_sweep_of_four_parameters_has_panels)
{
	struct made_sweep made = made_sweep_ordinary;

	made.parameters = 4;
	made.values = 3;
	make_sweep(folder, "sweep", &made, path);
	char *scripts = scripts_of_page();

	REQUIRE_LINES(scripts, "panel_total = 6", "panel_name_1 = 'mixed, qwen3-0.6b'",
		"panel_name_3 = 'prefill-first, qwen3-0.6b'", "panel_name_5 = 'vllm, qwen3-8b'",
		"curve_total = 3", "curve_name_3 = 'max-num-seqs 128'", "tic_at_3 = 1024",
		"is_log = 0", "is_shared = 1", "has_legend = 0");
	/* 512 / 3512 * 128 / 138 * 1.6 / 2: the second policy and the second model. */
	REQUIRE_LINES(scripts, "5\t3\t512\t10.8177");
	free(scripts);
}

/* The number behind the variable whose text is `text`, such as 3 of panel_name_3; 0: none. */
static uint32_t number_of(const char *scripts, const char *variable, const char *text)
{
	char line[256];

	for (uint32_t i = 1; i <= 12; i++) {
		snprintf(line, sizeof(line), "\n%s_%u = '%s'\n", variable, i, text);
		if (strstr(scripts, line) != NULL) {
			return i;
		}
	}
	return 0;
}

/* The row of a run stands in the panel and the curve that are named by its values. */
static void require_drawn_run(const char *scripts, const struct sweep_file *sweep, uint32_t index)
{
	const struct sweep_run *run = &sweep->runs[index];
	struct text panel = {0};
	const char *value[SWEEP_PARAMETERS_MAX];
	char curve[64], row[128];
	uint32_t rate = 0;

	for (uint32_t i = 0; i < sweep->parameter_count; i++) {
		value[i] = sweep->parameters[i].values[run->values[i]];
	}
	/* The policy alone fits with its name (made_plan.c). */
	for (uint32_t i = 2; i < sweep->parameter_count; i++) {
		bool is_short = sweep->parameter_count > 3;
		text_format(&panel, "%s%s%s%s", i == 2 ? "" : ", ",
			is_short ? "" : sweep->parameters[i].name, is_short ? "" : " ", value[i]);
	}
	snprintf(curve, sizeof(curve), "%s %s", sweep->parameters[1].name, value[1]);
	while (strcmp(sweep_metrics[rate], "output_tokens_per_s") != 0) {
		rate++;
	}
	uint32_t panel_number = number_of(scripts, "panel_name", panel.bytes);
	uint32_t curve_number = number_of(scripts, "curve_name", curve);
	require(panel_number > 0 && curve_number > 0, "no '%s' or no '%s'", panel.bytes, curve);
	snprintf(row, sizeof(row), "\n%u\t%u\t%s\t%.9g\n", panel_number, curve_number, value[0],
		run->metrics[rate].value);
	require(strstr(scripts, row) != NULL, "run %s is not drawn at%s", run->name, row);
	text_deinit(&panel);
}

/* Up to 12 panels and 8 curves all runs are drawn, each where its values say. */
Test(drawn_scripts, a_run_is_drawn_in_the_panel_of_its_values)
{
	static const struct made_sweep sweeps[] = {{.parameters = 3, .values = 8},
		{.parameters = 4, .values = 3}, {.parameters = 5, .values = 3}};

	for (uint32_t i = 0; i < sizeof(sweeps) / sizeof(sweeps[0]); i++) {
		struct sweep_file sweep;
		struct error error = {0};
		char name[32];
		snprintf(name, sizeof(name), "sweep%u", i);
		make_sweep(folder, name, &sweeps[i], path);
		char *scripts = scripts_of_page();
		require(sweep_file_open(&sweep, path, &error) == STATUS_OK, "%s", error.text);
		for (uint32_t run = 0; run < sweep.run_count; run++) {
			require_drawn_run(scripts, &sweep, run);
		}
		sweep_file_close(&sweep);
		free(scripts);
	}
}

/* Whether a column of sweep.tsv is that of a metric, and its place among those. */
static bool find_metric(const char *column, uint32_t *metric)
{
	for (*metric = 0; *metric < SWEEP_METRIC_COUNT; *metric += 1) {
		if (strcmp(sweep_metrics[*metric], column) == 0) {
			return true;
		}
	}
	return false;
}

/* Draws the figures of the runs anew. Of some metrics no run has one, of some all are 0, of the
   others some are. */
static void vary_figures(uint64_t *state)
{
	enum { CELLS_MAX = 64 };
	static const char *const texts[] = {"-", "0", "0.5", "1"};
	char file[2 * TEMPORARY_PATH_BYTES], *names[CELLS_MAX], *cells[CELLS_MAX], *rest = NULL;
	uint32_t kinds[CELLS_MAX], metric;
	struct text other = {0};

	snprintf(file, sizeof(file), "%s/sweep.tsv", path);
	char *text = file_read(file, NULL);
	char *header = strtok_r(text, "\n", &rest);
	text_add(&other, header);
	text_add(&other, "\n");
	uint32_t count = split_row(header, names, CELLS_MAX);
	for (uint32_t i = 0; i < count; i++) {
		*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
		kinds[i] = (uint32_t)(*state >> 40) % 6;
	}
	for (char *line; (line = strtok_r(NULL, "\n", &rest)) != NULL;) {
		require_equal(split_row(line, cells, CELLS_MAX), count);
		for (uint32_t i = 0; i < count; i++) {
			*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
			uint32_t drawn = (uint32_t)(*state >> 40) % 6;
			bool is_drawn =
				find_metric(names[i], &metric) && strcmp(cells[i], "-") != 0;
			drawn = kinds[i] < 2 ? kinds[i] : drawn;
			text_add(&other, i == 0 ? "" : "\t");
			text_add(&other, is_drawn && drawn < 4 ? texts[drawn] : cells[i]);
		}
		text_add(&other, "\n");
	}
	file_write(file, other.bytes, other.byte_count);
	text_deinit(&other);
	free(text);
}

static const struct {
	const char *metric, *panel;
} drawn_metrics[] = {{"output_tokens_per_s", "Output tokens/s"}, {"goodput", NULL},
	{"attained", NULL}, {"ttft.p99", "TTFT p99"}, {"tpot.p99", "TPOT p99"},
	{"e2e.p50", "E2E p50"}, {"hit_rate", NULL}, {"preemptions", NULL}, {"utilisation", NULL}};

/* Demands each run's figure in its place, or that there is none. */
static void require_drawn_figures(const char *scripts, const struct sweep_file *sweep,
	uint32_t panel, const struct metric *metric, uint32_t index)
{
	char place[128], row[192];

	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		const struct result_value *own = &run->metrics[index];
		double scale = strcmp(metric->unit, "ms") == 0	    ? 1e-3
			       : strcmp(metric->unit, "share") == 0 ? 100
								    : 1;
		if (sweep->parameter_count == 1 || sweep->parameters[1].value_count == 1) {
			snprintf(place, sizeof(place), "\n%u\t1\t%s\t", panel,
				sweep->parameters[0].values[run->values[0]]);
		} else {
			snprintf(place, sizeof(place), "\n%u\t%u\t%u\t", panel, run->values[0] + 1,
				run->values[1] + 1);
		}
		require(occurrences(scripts, place) == own->has_value, "%s of %s: %u times%s",
			metric->name, run->name, occurrences(scripts, place), place);
		const char *at = strstr(scripts, place);
		double found = at == NULL ? 0 : strtod(at + strlen(place), NULL);
		double expected = own->has_value ? own->value * scale : 0;
		snprintf(row, sizeof(row), "%s of %s", metric->name, run->name);
		require(fabs(found - expected) <= 1e-8 * fabs(expected),
			"%s: %.12g, expected %.12g", row, found, expected);
	}
}

/* The hit rates of the runs beside the curves of caches. */
static void require_cache_points(const char *scripts, const struct sweep_file *sweep)
{
	uint32_t hit_rate, rejected, count = 0;
	char row[96];

	require(find_metric("hit_rate", &hit_rate), "no hit rate");
	require(find_metric("rejected", &rejected), "no rejected requests");
	for (uint32_t i = 0; i < sweep->run_count; i++) {
		const struct sweep_run *run = &sweep->runs[i];
		if (run->metrics[hit_rate].has_value && run->kv_tokens.has_value) {
			bool rejects = run->metrics[rejected].value > 0;
			/* the first parameter is the size, the second what tells runs apart */
			uint32_t group = sweep->parameter_count == 2 ? run->values[1] : 0;
			snprintf(row, sizeof(row), "\n%u\t%.9g\t%.9g\t%u\n", rejects ? 7 : 6,
				run->kv_tokens.value, 100 * run->metrics[hit_rate].value,
				group + 1);
			require(strstr(scripts, row) != NULL, "no point%s", row);
			count++;
		}
	}
	static const char header[] = "\nseries\ttokens\tpercent\tgroup";
	const char *at = strstr(scripts, header);
	at = at == NULL ? NULL : at + strlen(header);
	while (at != NULL && at[1] >= '0' && at[1] <= '9') {
		count -= at[1] == '6' || at[1] == '7';
		at = strchr(at + 1, '\n');
	}
	require_equal(count, 0);
}

/* A metric has a panel where a run has it, and a count where it is not always 0. A run has a point
   where it has the figure, 0 too. */
Test(drawn_scripts, a_sweep_has_the_figures_that_its_runs_have, .timeout = 240)
{
	uint64_t state = 3;

	for (uint32_t trial = 0; trial < 10; trial++) {
		struct made_sweep made = {.parameters = 1 + trial % 2,
			.values = 1 + trial / 2,
			.has_failures = trial % 3 == 0,
			.has_cache = trial % 4 < 2};
		struct sweep_file sweep;
		struct error error = {0};
		uint32_t panels = 0;
		char name[32];
		snprintf(name, sizeof(name), "sweep%u", trial);
		make_sweep(folder, name, &made, path);
		vary_figures(&state);
		char *scripts = scripts_of_page();
		require(sweep_file_open(&sweep, path, &error) == STATUS_OK, "%s", error.text);
		for (uint32_t i = 0; i < sizeof(drawn_metrics) / sizeof(drawn_metrics[0]); i++) {
			const struct metric *metric = metric_find(drawn_metrics[i].metric);
			uint32_t index;
			bool is_there = false;
			require(find_metric(metric->name, &index), "no %s", metric->name);
			for (uint32_t run = 0; run < sweep.run_count; run++) {
				const struct result_value *own = &sweep.runs[run].metrics[index];
				is_there |= own->has_value &&
					    (own->value > 0 ||
						    strcmp(metric->name, "preemptions") != 0);
			}
			const char *panel = drawn_metrics[i].panel;
			uint32_t number = number_of(
				scripts, "panel_name", panel == NULL ? metric->title : panel);
			require_equal(number, is_there ? ++panels : 0);
			if (is_there) {
				require_drawn_figures(scripts, &sweep, number, metric, index);
			}
		}
		if (panels > 0) {
			require_variable(scripts, "panel_total", panels);
		}
		require_cache_points(scripts, &sweep);
		sweep_file_close(&sweep);
		free(scripts);
	}
}

/* Arrivals at 0.5, 1.5, 1.5 and 4.5 s. Quantile i of 200 of four values is value floor(3 i / 200).
 */
Test(drawn_scripts, a_trace_has_its_rate_and_quantiles)
{
	temporary_write(folder, "small.jsonl",
		"{\"timestamp\":500,\"input_length\":10,\"output_length\":1,\"hash_ids\":[1]}\n"
		"{\"timestamp\":1500,\"input_length\":8,\"output_length\":3,\"hash_ids\":[1]}\n"
		"{\"timestamp\":1500,\"input_length\":12,\"output_length\":5,\"hash_ids\":[1]}\n"
		"{\"timestamp\":4500,\"input_length\":100,\"output_length\":7,\"hash_ids\":[1]}\n",
		path);
	free(quire_output(folder, 0, "trace stat @/small.jsonl --plot @/small.svg"));
	char *scripts = take_scripts();
	double arrived = 0, before_s = NAN, width_s = NAN, last = 0;

	for (const char *at = scripts; (at = strstr(at, "\nrate\t")) != NULL; at++) {
		double from_s, rate;
		require_equal(sscanf(at, "\nrate\t%lf\t%lf", &from_s, &rate), 2);
		require(!isnan(before_s) || from_s == 0.5, "the first bin is at %g s", from_s);
		width_s = from_s - before_s;
		before_s = from_s;
		arrived += rate;
		last = rate;
	}
	/* The last bin has the last arrival alone. */
	require(fabs(last * width_s - 1) < 1e-3 && fabs(arrived * width_s - 4) < 4e-3,
		"bins of %g s have %g of %g arrivals", width_s, last * width_s, arrived * width_s);
	require_equal(occurrences(scripts, "\ninput\t8\t0.250000"), 67);
	require_equal(occurrences(scripts, "\ninput\t10\t0.500000"), 67);
	require_equal(occurrences(scripts, "\ninput\t12\t0.750000"), 66);
	require_equal(occurrences(scripts, "\ninput\t100\t1.000000"), 1);
	require_equal(occurrences(scripts, "\noutput\t7\t1.000000"), 1);
	REQUIRE_LINES(scripts, "subject = 'small.jsonl'", "requests = 4");
	free(scripts);
}

/* ---- figures of runs ---- */

/* What a run says of itself that figures draw; NaN: nothing. */
struct drawn_run {
	double blocks, block_size, replicas, slo_ms[3]; /* TTFT, TPOT, E2E */
	const char *fleet;
	bool has_hits;
	uint32_t listed; /* replicas of the fleet's list */
};

static const char *const slo_names[] = {"ttft", "tpot", "e2e"};

static double draw_number(struct prop *prop, uint32_t none, double low, uint64_t count)
{
	return prop_chance(prop, 1, none) ? NAN : low + (double)prop_below(prop, count);
}

static struct drawn_run draw_run(struct prop *prop)
{
	static const char *const fleets[] = {NULL, "none", "fleet.tsv"};
	struct drawn_run run = {.blocks = draw_number(prop, 5, 0, 3) * 750,
		.block_size = draw_number(prop, 4, 15, 3),
		.replicas = draw_number(prop, 4, 1, 4),
		.fleet = fleets[prop_below(prop, 3)],
		.has_hits = prop_chance(prop, 2, 3),
		.listed = prop_range(prop, 0, 3)};

	for (uint32_t i = 0; i < 3; i++) {
		run.slo_ms[i] = draw_number(prop, 3, 0, 4) * 12.5;
	}
	prop_log(prop, "blocks %g of %g, replicas %g, fleet %s, hits %d, %u listed, SLO %g %g %g",
		run.blocks, run.block_size, run.replicas, run.fleet, run.has_hits, run.listed,
		run.slo_ms[0], run.slo_ms[1], run.slo_ms[2]);
	return run;
}

/* Adds "NAME": X, or null, or nothing at all for odd `place`. */
static void add_field(struct text *out, const char *name, double value, uint32_t place)
{
	if (!isnan(value)) {
		text_format(out, "\"%s\": %g, ", name, value);
	} else if (place % 2 == 0) {
		text_format(out, "\"%s\": null, ", name);
	}
}

/* Puts `to` in the place of the first `from`. */
static void replace(struct text *text, const char *from, const char *to)
{
	struct text other = {0};
	const char *at = strstr(text->bytes, from);

	require(at != NULL, "no %s", from);
	text_add_bytes(&other, text->bytes, (size_t)(at - text->bytes));
	text_add(&other, to);
	text_add(&other, at + strlen(from));
	text_deinit(text);
	*text = other;
}

static void write_run(const struct drawn_run *run, uint32_t place, char *directory)
{
	struct made_result made = made_ordinary;
	struct text summary = {0}, config = {0}, slo = {0};
	char name[16];

	made.bins = 30;
	made.latency_buckets = 40;
	made.rows_octaves = made.tokens_octaves = 2;
	made.operations = 0;
	made.replicas = run->listed;
	made.seed = place; /* by which the page names it */
	snprintf(name, sizeof(name), "run%u", place);
	make_result(folder, name, &made, directory);
	made_summary(&summary, &made);
	text_add(&config, "\"policy\": \"mixed\", ");
	add_field(&config, "kv_blocks", run->blocks, place);
	add_field(&config, "block_size", run->block_size, place);
	add_field(&config, "replicas", run->replicas, place);
	if (run->fleet != NULL) {
		text_format(&config, "\"fleet\": \"%s\", ", run->fleet);
	}
	text_add(&config, "\"seed\"");
	replace(&summary, "\"policy\": \"mixed\", \"kv_blocks\": 4500, \"seed\"", config.bytes);
	add_field(&slo, "ttft_ms", run->slo_ms[0], 0);
	add_field(&slo, "tpot_ms", run->slo_ms[1], 0);
	add_field(&slo, "e2e_ms", run->slo_ms[2], 0);
	replace(&summary, "\"ttft_ms\": null, \"tpot_ms\": null, \"e2e_ms\": null, ", slo.bytes);
	if (!run->has_hits) {
		replace(&summary, "\"hit_rate\": 0.0606", "\"hit_rate\": null");
	}
	made_write(directory, "summary.json", &summary);
	text_deinit(&config);
	text_deinit(&slo);
}

/* Demands that a script sets the variable NAME_NUMBER so, or, for NaN, not at all. */
static void require_set(const char *script, const char *name, uint32_t number, double expected)
{
	char numbered[64], start[80];

	snprintf(numbered, sizeof(numbered), "%s_%u", name, number);
	snprintf(start, sizeof(start), "\n%s = ", numbered);
	if (isnan(expected)) {
		require(strstr(script, start) == NULL, "%s is set", numbered);
	} else {
		require_variable(script, numbered, expected);
	}
}

/* The rows of a fleet's replicas (add_fleet() of made_result.c). */
static void require_replicas(const char *script, const struct drawn_run *run, uint32_t number)
{
	struct text expected = {0};

	text_format(&expected, "\n$replicas_%u << END_OF_REPLICAS\n", number);
	for (uint32_t i = 0; i < run->listed; i++) {
		text_format(&expected, "%u\t%u\t%u\t%s\t%u.5\n", i, 1000 + 70 * (i * 7 % 11),
			300 + i % 5, i % 2 == 0 ? "25" : "nan", 40 + i % 9);
	}
	text_add(&expected, "END_OF_REPLICAS\n");
	require(strstr(script, expected.bytes) != NULL, "no%s", expected.bytes);
	text_deinit(&expected);
}

/* The script of one figure. runs: (count) those that it draws. */
static void require_script(
	const char *script, const struct drawn_run *const *runs, uint32_t count, bool of_fleets)
{
	double slo_ms = NAN;

	for (uint32_t i = 0; i < count; i++) {
		const struct drawn_run *run = runs[i];
		bool is_one_size = run->fleet == NULL || strcmp(run->fleet, "none") == 0;
		double blocks = run->blocks * (isnan(run->replicas) ? 1 : run->replicas);
		char metric[32];
		for (uint32_t k = 0; k < 3; k++) {
			snprintf(metric, sizeof(metric), "\nmetric = '%s'\n", slo_names[k]);
			slo_ms = strstr(script, metric) == NULL ? slo_ms : run->slo_ms[k];
		}
		require_set(script, "kv_block_size", i + 1, is_one_size ? run->block_size : NAN);
		require_set(script, "kv_capacity", i + 1, is_one_size && blocks > 0 ? blocks : NAN);
		require_set(script, "no_hits", i + 1, run->has_hits ? NAN : 1);
		require_set(script, "slo", i + 1, slo_ms > 0 ? slo_ms / 1000 : NAN);
		if (of_fleets) {
			require_replicas(script, run, i + 1);
		}
	}
	require_set(script, "kv_capacity", count + 1, NAN);
	require((strstr(script, "\nlevel_count = 0\n") != NULL) == (count == 1), "marks");
	require_equal(
		strstr(script, "\nwindow_start = 0.5\nwindow_end = 301\n") != NULL, count == 1);
}

/* Every variable of every figure, of one run to three. */
static void body_runs(struct prop *prop, const void *context)
{
	static const char start[] = "has_legend = 0\nhas_notes = 1\n";
	struct drawn_run drawn[3];
	const struct drawn_run *all[3], *fleets[3];
	char paths[3][TEMPORARY_PATH_BYTES];
	const char *directories[3];
	uint32_t count = prop_range(prop, 1, 3), fleet_count = 0, figures[2] = {0};
	char command[3 * TEMPORARY_PATH_BYTES];

	(void)context;
	snprintf(command, sizeof(command), "rm -rf %s/run* %s/tools/script.*", folder, folder);
	require(system(command) == 0, "%s", command);
	for (uint32_t i = 0; i < count; i++) {
		drawn[i] = draw_run(prop);
		write_run(&drawn[i], i, paths[i]);
		directories[i] = paths[i];
		all[i] = &drawn[i];
		if (drawn[i].listed > 1) {
			fleets[fleet_count++] = &drawn[i];
		}
	}
	free(make_page(folder, directories, count, "page.html"));
	char *scripts = take_scripts();
	for (char *at = strstr(scripts, start), *next; at != NULL; at = next) {
		next = strstr(at + 1, start);
		if (next != NULL) {
			next[-1] = '\0'; /* a line's end */
		}
		bool of_fleets = strstr(at, "\n$replicas_1 << ") != NULL;
		figures[of_fleets]++;
		require_script(
			at, of_fleets ? fleets : all, of_fleets ? fleet_count : count, of_fleets);
	}
	require(figures[0] >= 14, "%u figures", figures[0]);
	require_equal(figures[1], fleet_count > 0);
	free(scripts);
}

Test(drawn_scripts, figures_have_the_pool_and_the_limits_of_each_run, .timeout = 240)
{
	const struct prop_options options = {.name = "runs", .body = body_runs, .trials = 12};

	cr_assert(prop_holds(&options));
}
