#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reports/figures/drawn_colors.h"
#include "reports/figures/figures.h"
#include "reports/report.h"
#include "tests/harness/files.h"
#include "tests/harness/made_result.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Figures of little data, and of much. */

Test(figures, having_nothing_to_draw_is_reported)
{
	static const char *const sentences[] = {"(no step was run)", "(no prompt asked the cache)",
		"(no request gave a value)", "(no request)", "(too few requests finished"};
	char folder[TEMPORARY_PATH_BYTES];
	struct made_result empty = made_ordinary;

	temporary_folder(folder);
	empty.bins = empty.rows_octaves = empty.tokens_octaves = empty.latency_buckets = 0;
	char *page = make_page_of(folder, &empty);
	uint32_t said = 0;
	for (uint32_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
		uint32_t found = occurrences(page, sentences[i]);
		require(found > 0, "no figure says '%s'", sentences[i]);
		said += found;
	}
	for (uint32_t i = 0; i < figure_count; i++) {
		/* Kernels were measured, and it is no fleet. */
		said += figures[i].need == FIGURE_OF_KERNELS || figures[i].need == FIGURE_OF_FLEETS;
	}
	require_equal(said, figure_count);
	require_has(page, "<span>\u2013<small>median</small></span>");
	require_lacks(page, ">nan");
	require_sound_ids(page);
	free(page);
	temporary_remove(folder);
}

/* Each figure is drawn, or named with the reason why not; the linear views come on top. */
static void require_every_figure_accounted(const char *page, uint32_t absent)
{
	const char *empty = strstr(page, "<p class=\"note\" id=\"empty\">");
	const char *end = empty == NULL ? NULL : strstr(empty, "</p>");
	uint32_t accounted = absent;

	for (uint32_t i = 0; i < figure_count; i++) {
		char wanted[128];
		snprintf(wanted, sizeof(wanted), "<figure id=\"figure-%s\"", figures[i].name);
		bool is_drawn = strstr(page, wanted) != NULL;
		snprintf(wanted, sizeof(wanted), "%s (", figures[i].title);
		const char *named = empty == NULL ? NULL : strstr(empty, wanted);
		bool is_named = named != NULL && named < end;
		require(!is_drawn || !is_named, "%s is drawn and said not to be", figures[i].name);
		accounted += is_drawn || is_named;
	}
	require_equal(accounted, figure_count);
}

/* From nothing to a few of everything: each is drawn, by itself and beside a full result. */
Test(figures, odd_sizes_are_drawn)
{
	static const struct {
		uint32_t bins, octaves, buckets;
		uint32_t operations, kernel_bins;
	} sizes[] = {{1, 1, 1, 1, 1}, {2, 1, 2, 2, 0}, {1, 0, 0, 0, 0}, {0, 1, 3, 7, 2},
		{25, 3, 40, 8, 3}, {301, 2, 1, 9, 120}};
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES], name[16];

	temporary_folder(folder);
	make_result(folder, "full", &made_ordinary, path[0]);
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct made_result odd = made_ordinary;
		odd.bins = sizes[i].bins;
		odd.rows_octaves = odd.tokens_octaves = sizes[i].octaves;
		odd.latency_buckets = sizes[i].buckets;
		odd.operations = sizes[i].operations;
		odd.kernel_bins = sizes[i].kernel_bins;
		snprintf(name, sizeof(name), "odd%u", i);
		make_result(folder, name, &odd, path[1]);
		const char *directories[] = {path[1], path[0]};
		for (uint32_t count = 1; count <= 2; count++) {
			char *page = make_page(folder, directories, count, "page.html");
			require_every_figure_accounted(
				page, odd.operations == 0 && count == 1 ? 3 : 1); /* no fleet */
			free(page);
		}
	}
	temporary_remove(folder);
}

/* Figures of kernels are there when one result has some, and draw that one. */
Test(figures, kernels_are_drawn_where_they_were_measured)
{
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES];
	struct made_result plain = made_ordinary;

	temporary_folder(folder);
	plain.operations = 0;
	make_result(folder, "plain", &plain, path[0]);
	make_result(folder, "measured", &made_ordinary, path[1]);
	const char *directories[] = {path[0], path[1]};
	char *page = make_page(folder, directories, 1, "page.html");
	require_lacks(page, "figure-operations");
	require_lacks(page, "figure-step-operations");
	free(page);
	page = make_page(folder, directories, 2, "page.html");
	require_has(page, "<figure id=\"figure-operations\" class=\"wide\">");
	require_has(page, "operation_0");
	require_has(page, "the others");
	require_has(page, "27 \u00d7 0.11 ms");
	free(page);
	temporary_remove(folder);
}

/* From one replica, which is no fleet, to more than there are pixels. */
Test(figures, replicas_are_drawn_of_fleets)
{
	static const uint32_t sizes[] = {1, 2, 64, 3000};
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES], name[16];

	temporary_folder(folder);
	make_result(folder, "single", &made_ordinary, path[0]);
	for (uint32_t i = 0; i < 4; i++) {
		struct made_result fleet = made_ordinary;
		fleet.replicas = sizes[i];
		snprintf(name, sizeof(name), "fleet%u", i);
		make_result(folder, name, &fleet, path[1]);
		const char *directories[] = {path[1], path[0]};
		for (uint32_t count = 1; count <= 2; count++) {
			char *page = make_page(folder, directories, count, "page.html");
			bool is_drawn = strstr(page, "<figure id=\"figure-replicas\"") != NULL;
			require(is_drawn == (sizes[i] > 1), "%u replicas", sizes[i]);
			require_has(page, "<section id=\"fleet\">");
			require(strlen(page) < 3000000, "%zu bytes", strlen(page));
			require_sound_ids(page);
			free(page);
		}
	}
	struct made_result fleet = made_ordinary;
	fleet.replicas = 64;
	make_result(folder, "many", &fleet, path[1]);
	const char *directory = path[1];
	char *page = make_page(folder, &directory, 1, "page.html");
	require_has(page, "The load was somewhat uneven: over the time in which each could work, "
			  "the replica with the most tokens had 1.25 times the mean, and Jain's "
			  "index is 0.930");
	require_has(page, "Tokens, prompt and output of 64 replicas: from");
	require_has(page, "64 behind prefix");
	free(page);
	temporary_remove(folder);
}

/* style.gp says the colours; the page has each of them, and another one in the dark. */
Test(figures, figures_and_page_have_the_same_colors)
{
	struct drawn_color colors[DRAWN_COLORS_MAX];
	uint32_t count = drawn_colors(colors), runs = 0;
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES], line[64];
	const char *directory = path;

	temporary_folder(folder);
	make_result(folder, "one", &made_ordinary, path);
	char *page = make_page(folder, &directory, 1, "page.html");
	for (uint32_t i = 0; i < count; i++) {
		runs += strncmp(colors[i].name, "run-", 4) == 0;
		if (strcmp(colors[i].name, "background") == 0) {
			continue;
		}
		snprintf(line, sizeof(line), "--%.15s: #%06x;", colors[i].name, colors[i].rgb);
		require_equal(occurrences(page, line), 1);
		snprintf(line, sizeof(line), "--%.15s: #", colors[i].name);
		require_equal(occurrences(page, line), 2);
	}
	require_equal(runs, REPORT_RESULTS_MAX);
	require_equal(count, REPORT_RESULTS_MAX + 4);
	free(page);
	temporary_remove(folder);
}

/* Runs a script by hand, as its comment teaches, and returns its exit code. settings: commands that
   come first. */
static int run_script_with(const char *script, const char *settings, const char *out,
	const char *const *directories, uint32_t count)
{
	char path[64];
	char *argv[16] = {"gnuplot", "-e", (char *)settings, "-c", path, (char *)out};
	static char locale[] = "LC_ALL=C.UTF-8";
	char *environment[] = {locale, NULL};
	pid_t process = 0;
	int state = 0;
	posix_spawn_file_actions_t actions;

	snprintf(path, sizeof(path), "reports/figures/%s", script);
	for (uint32_t i = 0; i < count; i++) {
		argv[6 + i] = (char *)directories[i];
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	int failure = posix_spawnp(&process, "gnuplot", &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	require(failure == 0, "gnuplot does not start: %s", strerror(failure));
	waitpid(process, &state, 0);
	return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static int run_script(const char *script, const char *metric, const char *out,
	const char *const *directories, uint32_t count)
{
	char setting[32];

	snprintf(setting, sizeof(setting), "metric = '%s'", metric == NULL ? "" : metric);
	return run_script_with(script, setting, out, directories, count);
}

/* The largest tables that a replay writes: each figure stays under 300 kB, for one and for eight.
 */
Test(figures, large_results_give_small_figures)
{
	char folder[TEMPORARY_PATH_BYTES], path[8][TEMPORARY_PATH_BYTES];
	char name[8], out[TEMPORARY_PATH_BYTES + 8];
	const char *directories[8];
	struct made_result large = made_ordinary;

	temporary_folder(folder);
	large.bins = 2000;
	large.rows_octaves = 17;
	large.tokens_octaves = 20;
	large.latency_buckets = 20 * 1024;
	large.operations = 48;
	large.kernel_bins = 120;
	for (uint32_t i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "r%u", i);
		make_result(folder, name, &large, path[i]);
		directories[i] = path[i];
	}
	snprintf(out, sizeof(out), "%s/out.svg", folder);
	for (uint32_t i = 0; i < figure_count; i++) {
		bool is_again = figures[i].metric != NULL && strcmp(figures[i].metric, "ttft") != 0;
		if (is_again || figures[i].need == FIGURE_OF_FLEETS) {
			continue; /* the metrics are alike; only quire has figures of replicas */
		}
		for (uint32_t count = 1; count <= 8; count += 7) {
			int code = run_script(
				figures[i].script, figures[i].metric, out, directories, count);
			require_equal(code, 0);
			struct stat file;
			require(stat(out, &file) == 0, "%s drew nothing", figures[i].script);
			require(file.st_size < 300000 && file.st_size > 5000,
				"%s of %u results has %lld bytes", figures[i].name, count,
				(long long)file.st_size);
		}
	}
	temporary_remove(folder);
}

Test(figures, a_script_run_directly_prints_its_usage)
{
	for (uint32_t i = 0; i < figure_count; i++) {
		require_equal(run_script(figures[i].script, NULL, "out.svg", NULL, 0), 2);
	}
	require(access("out.svg", F_OK) != 0, "a script without a folder drew something");
}

/* The fills of the fields of a map, as drawn; the ends of the scale among them. */
static uint32_t count_ends(const char *folder, const double *values)
{
	char table[TEMPORARY_PATH_BYTES + 16], out[TEMPORARY_PATH_BYTES + 16];
	const char *arguments[] = {table};

	snprintf(table, sizeof(table), "%s/heat.tsv", folder);
	snprintf(out, sizeof(out), "%s/heat.svg", folder);
	FILE *file = fopen(table, "w");
	require(file != NULL, "%s cannot be written", table);
	fprintf(file, "panel\tx\ty\tvalue\n");
	for (uint32_t i = 0; i < 4; i++) {
		fprintf(file, "1\t%u\t%u\t%.6f\n", 1 + i % 2, 1 + i / 2, values[i]);
	}
	fclose(file);
	require_equal(run_script("sweep_heat.gp", NULL, out, arguments, 1), 0);
	char *svg = file_read(out, NULL);
	uint32_t ends =
		occurrences(svg, "rgb(253, 231,  37)") + occurrences(svg, "rgb( 68,   1,  84)");
	require(occurrences(svg, "<polygon") >= 4, "no fields: %s", svg);
	free(svg);
	return ends;
}

/* Values within a hundredth of each other have nearly one colour, others the whole scale. */
Test(figures, a_heat_map_does_not_stretch_what_hardly_differs)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	require_equal(count_ends(folder, (const double[]){2400, 2410, 2405, 2420}), 0);
	require_equal(count_ends(folder, (const double[]){100, 2000, 1405, 2420}), 2);
	temporary_remove(folder);
}

/* The drawing of a run of 302 s over time, by its own script. */
static char *draw_over_time(const char *settings)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char out[TEMPORARY_PATH_BYTES + 16];
	const char *directories[] = {path};
	struct made_result made = made_ordinary;

	temporary_folder(folder);
	made.bins = 301;
	make_result(folder, "ramp", &made, path);
	snprintf(out, sizeof(out), "%s/out.svg", folder);
	require_equal(run_script_with("kv_use.gp", settings, out, directories, 1), 0);
	char *svg = file_read(out, NULL);
	temporary_remove(folder);
	return svg;
}

/* Marks of levels stand at their seconds, also where the axis has minutes. */
Test(figures, levels_are_marked_where_they_start)
{
	static const char stroke[] = "stroke='rgb(154, 165, 177)'";
	double places[6] = {0};
	uint32_t count = 0;
	char *svg = draw_over_time(
		"level_count = 6; level_start_1 = 0; level_start_2 = 50; level_start_3 = 100; "
		"level_start_4 = 150; level_start_5 = 200; level_start_6 = 250; level_rate_1 = 1; "
		"level_rate_2 = 3.2; level_rate_3 = 5.4; level_rate_4 = 7.6; level_rate_5 = 9.8; "
		"level_rate_6 = 12");

	require_has(svg, "Time (min)");
	const char *at = strstr(svg, stroke);
	require(at != NULL, "there are no marks");
	at = strstr(at, "d='") + strlen("d='");
	const char *end = strchr(at, '\'');
	for (; count < 6 && (at = strchr(at, 'M')) != NULL && at < end; at++) {
		places[count++] = strtod(at + 1, NULL);
	}
	require_equal(count, 6);
	for (uint32_t i = 1; i < count; i++) {
		/* 538 pixels are 302 s. */
		double distance = places[i] - places[i - 1];
		require(distance > 88 && distance < 90, "level %u is %g pixels behind", i + 1,
			distance);
	}
	require_has(svg, ">1/s<");
	require_has(svg, ">3.2/s<");
	require_has(svg, ">12/s<");
	free(svg);
}

/* A rate that would lie over the one before is not written. */
Test(figures, rates_of_short_levels_do_not_overlap)
{
	char *svg = draw_over_time("level_count = 3; level_start_1 = 0; level_start_2 = 10; "
				   "level_start_3 = 40; level_rate_1 = 1; level_rate_2 = 3.2; "
				   "level_rate_3 = 5.4");

	require_has(svg, ">1/s<");
	require_lacks(svg, ">3.2/s<");
	require_has(svg, ">5.4/s<");
	free(svg);
}

/* What quire sets is an integer where it has no fraction: no division may drop one. */
Test(figures, integers_give_the_same_axes_as_numbers_with_a_fraction)
{
	static const struct {
		const char *code, *printed;
	} axes[] = {{"x_end = 4; knob = ''; eval load_axis; print x_tic", "0.5\n"},
		{"x_end = 10; knob = ''; eval load_axis; print x_tic", "2.0\n"},
		{"print tic_of(19)", "20.0\n"}, {"print tic_of(19.0)", "20.0\n"},
		{"eval log_axis('y', 2, 5); print sprintf('%.4f', decades)", "0.3979\n"},
		{"time_end = 400; eval time_axis; print 90 / time_unit", "1.5\n"},
		{"time_end = 20000; eval time_axis; print 1800 / time_unit", "0.5\n"}};

	for (uint32_t i = 0; i < sizeof(axes) / sizeof(axes[0]); i++) {
		char command[512], printed[64] = "";
		snprintf(command, sizeof(command),
			"gnuplot -e \"load 'reports/figures/style.gp'; %s\" 2>&1", axes[i].code);
		FILE *pipe = popen(command, "r");
		require(pipe != NULL, "gnuplot does not start");
		size_t size = fread(printed, 1, sizeof(printed) - 1, pipe);
		printed[size] = '\0';
		require_equal(pclose(pipe), 0);
		require(strcmp(printed, axes[i].printed) == 0, "%s: %s", axes[i].code, printed);
	}
}

/* Titles of panels: cut at the end, in the middle where that leaves equal ones, else numbered. */
Test(figures, cut_titles_of_panels_differ)
{
	static const struct {
		const char *titles[3], *shown[3];
	} cases[] = {{{"blocks 600", "blocks 60", "one"}, {"blocks 600", "blocks 60", "one"}},
		{{"one-two-three", "two-three-four", "four"}, {"one-two-t…", "two-three…", "four"}},
		{{"scale-1-blocks-10", "scale-1-blocks-20", "scale-3-blocks-10"},
			{"scal…ks-10", "scal…ks-20", "scale-3-b…"}},
		{{"scale-10-blocks-1", "scale-20-blocks-1", "one"},
			{"scale-10-…", "scale-20-…", "one"}},
		{{"scale-1-blocks-1-x", "scale-1-block-1-x", "scale-1-blocks-1-x"},
			{"1. scale-…", "scal…k-1-x", "3. scale-…"}},
		{{"äöüäöüäöüä1", "äöüäöüäöüä2", "ä"}, {"äöüä…äöüä1", "äöüä…äöüä2", "ä"}}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char command[1024], printed[256] = "", expected[256];
		const char *const *t = cases[i].titles, *const *shown = cases[i].shown;
		snprintf(command, sizeof(command),
			"LC_ALL=C.UTF-8 gnuplot -e \"load 'reports/figures/style.gp'; "
			"panel_total = 3; title_most = 10; "
			"panel_title(i) = i == 1 ? '%s' : i == 2 ? '%s' : '%s'; "
			"print cut_title(1).'|'.cut_title(2).'|'.cut_title(3)\" 2>&1",
			t[0], t[1], t[2]);
		snprintf(expected, sizeof(expected), "%s|%s|%s\n", shown[0], shown[1], shown[2]);
		FILE *pipe = popen(command, "r");
		require(pipe != NULL, "gnuplot does not start");
		size_t size = fread(printed, 1, sizeof(printed) - 1, pipe);
		printed[size] = '\0';
		require_equal(pclose(pipe), 0);
		require(strcmp(printed, expected) == 0, "found %s, expected %s", printed, expected);
	}
}

/* A wide panel has room for longer titles than a narrow one. */
Test(figures, titles_have_the_room_of_their_panel)
{
	static const struct {
		int panels;
		const char *most;
	} cases[] = {{1, "74\n"}, {2, "74\n"}, {4, "74\n"}, {6, "44\n"}, {9, "30\n"}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char command[256], printed[64] = "";
		snprintf(command, sizeof(command),
			"gnuplot -e \"load 'reports/figures/style.gp'; ARG1 = '/dev/null'; "
			"panel_total = %d; eval grid_open(30, 270, 4); print title_most\" 2>&1",
			cases[i].panels);
		FILE *pipe = popen(command, "r");
		require(pipe != NULL, "gnuplot does not start");
		size_t size = fread(printed, 1, sizeof(printed) - 1, pipe);
		printed[size] = '\0';
		require_equal(pclose(pipe), 0);
		require(strcmp(printed, cases[i].most) == 0, "%d: %s", cases[i].panels, printed);
	}
}

/* Draws a table of sweep_lines.gp. */
static char *draw_lines(const char *settings, const char *rows)
{
	char folder[TEMPORARY_PATH_BYTES], table[TEMPORARY_PATH_BYTES];
	char out[TEMPORARY_PATH_BYTES + 16], text[512];
	const char *arguments[] = {table};

	temporary_folder(folder);
	snprintf(text, sizeof(text), "panel\tcurve\tx\ty\n%s", rows);
	temporary_write(folder, "lines.tsv", text, table);
	snprintf(out, sizeof(out), "%s/lines.svg", folder);
	require_equal(run_script_with("sweep_lines.gp", settings, out, arguments, 1), 0);
	char *svg = file_read(out, NULL);
	temporary_remove(folder);
	return svg;
}

/* Also where no 1, 2 or 5 lies in the range but one. */
Test(figures, an_axis_of_times_has_three_tics_at_least)
{
	static const char *const rows[] = {"1\t1\t1\t700\n1\t1\t2\t1100\n",
		"1\t1\t1\t990\n1\t1\t2\t1010\n", "1\t1\t1\t0.3\n1\t1\t2\t0.9\n",
		"1\t1\t1\t0.02\n1\t1\t2\t0.9\n"};

	for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *svg = draw_lines("panel_kind_1 = 'time'", rows[i]);
		uint32_t tics = occurrences(svg, " s</tspan>") + occurrences(svg, " ms</tspan>");
		require(tics >= 3 && tics <= 9, "%u tics: %s", tics, rows[i]);
		free(svg);
	}
}

Test(figures, a_panel_without_a_run_says_so)
{
	char *svg =
		draw_lines("panel_total = 3; panel_unfinished_2 = 1", "1\t1\t1\t7\n1\t1\t2\t9\n");

	require_equal(occurrences(svg, "no run finished"), 1);
	require_equal(occurrences(svg, "no run has a value"), 1);
	free(svg);
}

/* A row of the curve 0 is a ring. */
Test(figures, points_of_runs_that_reject_have_a_ring)
{
	static const char ring[] = "rgb(166,  44,   0)";
	char *svg = draw_lines("", "1\t1\t1\t7\n1\t1\t2\t9\n1\t0\t2\t9\n");
	char *plain = draw_lines("", "1\t1\t1\t7\n1\t1\t2\t9\n");

	require(occurrences(svg, ring) > occurrences(plain, ring), "no ring: %s", svg);
	free(svg);
	free(plain);
}

/* Two charts of waiting requests count differently; the first says what it leaves out. */
Test(figures, waiting_sequences_say_whom_they_leave_out)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	char *page = make_page_of(folder, &made_ordinary);
	require_has(page,
		"Waiting are those that a step leaves behind when it starts, preempted ones "
		"too; who arrives while it runs, waits at the router or lost an attempt "
		"counts in \u201cWhy requests wait\u201d alone.");
	free(page);
	temporary_remove(folder);
}

/* Where the text of a percentile stands, from the top. */
static double height_of_text(const char *svg, const char *text)
{
	const char *found = strstr(svg, text), *at = svg, *last = NULL;

	require(found != NULL, "no '%s'", text);
	for (; (at = strstr(at, "translate(")) != NULL && at < found; at++) {
		last = at;
	}
	require(last != NULL, "'%s' has no place", text);
	return strtod(strchr(last, ',') + 1, NULL);
}

/* The median's text stands above the x axis, not on it. */
Test(figures, the_median_is_not_written_over_the_axis)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char out[TEMPORARY_PATH_BYTES + 16];
	const char *directories[] = {path};
	struct made_result made = made_ordinary;

	temporary_folder(folder);
	snprintf(out, sizeof(out), "%s/out.svg", folder);
	made.latency_buckets = 3000;
	make_result(folder, "run", &made, path);
	require_equal(run_script("latency.gp", "ttft", out, directories, 1), 0);
	char *svg = file_read(out, NULL);
	double zero = height_of_text(svg, ">0<"), median = height_of_text(svg, ">p50  ");
	double half = height_of_text(svg, ">50 %<");
	require(median <= half + 6, "p50 at %g, 50 %% at %g, 0 at %g", median, half, zero);
	free(svg);
	temporary_remove(folder);
}

/* The names of the curves end above the title of the y axis, with runs that reject and without. */
Test(figures, the_legend_of_a_cache_is_above_its_axis)
{
	char folder[TEMPORARY_PATH_BYTES], table[TEMPORARY_PATH_BYTES];
	char out[TEMPORARY_PATH_BYTES + 16], rows[512];
	const char *arguments[] = {table};

	temporary_folder(folder);
	snprintf(out, sizeof(out), "%s/cache.svg", folder);
	for (uint32_t last = 6; last <= 7; last++) {
		size_t used = (size_t)sprintf(rows, "series\ttokens\tpercent\tgroup\n");
		for (uint32_t k = 1; k <= last; k++) {
			used += (size_t)sprintf(rows + used, "%u\t100\t%u\t%u\n%u\t900\t50\t%u\n",
				k, 5 * k, k > 5, k, k > 5);
		}
		temporary_write(folder, "cache.tsv", rows, table);
		require_equal(run_script_with("sweep_cache.gp", "", out, arguments, 1), 0);
		char *svg = file_read(out, NULL);
		double name = height_of_text(svg, ">optimum (Belady)</text>");
		double axis = height_of_text(svg, ">Prompt tokens found<");
		require(name + 16 <= axis, "a name at %g, the axis at %g", name, axis);
		free(svg);
	}
	temporary_remove(folder);
}
