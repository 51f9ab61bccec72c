#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/files.h"
#include "tests/harness/made_history.h"
#include "tests/harness/made_plan.h"
#include "tests/harness/made_result.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Every kind of page in a real browser, Chromium without a screen: wide and narrow, light and dark,
   with scripts and without. One page shows all of them in frames and writes down what is wrong. */

static const char *const browsers[] = {
	"chromium", "chromium-browser", "chromium-headless-shell", "google-chrome"};

/* A browser on PATH, or NULL. */
static const char *find_browser(void)
{
	for (uint32_t i = 0; i < sizeof(browsers) / sizeof(browsers[0]); i++) {
		struct process_result found =
			shell_run(".", "command -v %s >/dev/null", browsers[i]);
		bool is_there = found.code == 0;
		process_result_free(&found);
		if (is_there) {
			return browsers[i];
		}
	}
	return NULL;
}

static void make_histories(const char *folder)
{
	char path[TEMPORARY_PATH_BYTES];
	const char *file = path;

	make_history(folder, "few.jsonl", (struct made_history){3, 1}, path);
	free(make_page(folder, &file, 1, "start.html"));
	make_history(folder, "many.jsonl", (struct made_history){60, 16}, path);
	free(make_page(folder, &file, 1, "history.html"));
}

static void make_sheets(const char *folder)
{
	struct made_plan plan = made_plan_ordinary;
	char path[TEMPORARY_PATH_BYTES];
	const char *directory = path;

	make_plan(folder, "p1", &plan, path);
	free(make_page(folder, &directory, 1, "plan.html"));
	plan.configurations = 12;
	plan.has_stretch = true;
	plan.is_calibrated = false;
	make_plan(folder, "p12", &plan, path);
	free(make_page(folder, &directory, 1, "plans.html"));
	for (uint32_t i = 1; i <= 3; i++) {
		static const char *const pages[] = {"lines.html", "map.html", "multiples.html"};
		struct made_sweep sweep = {.parameters = i, .values = 6, .has_cache = i != 2};
		char name[] = {'s', (char)('0' + i), '\0'};
		sweep.has_failures = i > 1;
		make_sweep(folder, name, &sweep, path);
		free(make_page(folder, &directory, 1, pages[i - 1]));
	}
}

static void make_pages(const char *folder)
{
	char path[4][TEMPORARY_PATH_BYTES];
	struct made_result made[4] = {made_ordinary, made_ordinary, made_ordinary, made_ordinary};

	made[0].replicas = 64;
	made[1].seed = 7;
	made[2].trace_name = "a-trace-with-a-long-name-that-has-no-space-in-it.jsonl";
	made[2].trace_hash = "11ff";
	made[3].runner = "cuda";
	made[3].device = "NVIDIA H200";
	made[3].is_calibrated = true;
	for (uint32_t i = 0; i < 4; i++) {
		char name[] = {(char)('a' + i), '\0'};
		make_result(folder, name, &made[i], path[i]);
	}
	const char *directories[] = {path[0], path[1], path[2]};
	free(make_page(folder, directories, 1, "one.html"));
	free(make_page(folder, directories, 2, "two.html"));
	free(make_page(folder, directories, 3, "three.html"));
	const char *pair[] = {path[3], path[0]};
	free(make_page(folder, pair, 2, "fidelity.html"));
	struct process_result drawn = shell_run(folder,
		"set -e; q='" QUIRE_EXECUTABLE "'; s='" QUIRE_SOURCE_DIR
		"'; t=$s/workloads/traces\n"
		"$q kernels --from $s/bench/kernels/kernels_h200.tsv --plot kernels.svg\n"
		"$q trace stat $t/demo.jsonl --plot stat.svg\n"
		"$q trace cache $t/demo.jsonl --model qwen3-0.6b --gpu h200 --plot cache.svg\n"
		"$q calibrate --points $s/sim/profiles/points/h200-qwen3-0.6b.tsv --name again "
		"--out fit --plot calibration.svg");
	require(drawn.code == 0, "%s", drawn.err);
	process_result_free(&drawn);
}

/* The frames' page, run once a colour scheme. */
static void require_sound(const char *browser, const char *folder, const char *scheme)
{
	/* 0 is dark, 1 light. Frames of files may look into each other. */
	struct process_result shown = shell_run(folder,
		"timeout 100 %s --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
		"--user-data-dir='%s/browser' --allow-file-access-from-files "
		"--blink-settings=preferredColorScheme=%d --enable-logging=stderr "
		"--virtual-time-budget=60000 --dump-dom 'file://%s/frames.html#%s'",
		browser, folder, strcmp(scheme, "dark") == 0 ? 0 : 1, folder, scheme);
	const char *said = strstr(shown.out, "<pre id=\"said\">");

	require(shown.code == 0 && said != NULL, "%s: exit code %d: %s", browser, shown.code,
		shown.err);
	said += strlen("<pre id=\"said\">");
	require(strncmp(said, "52 frames, 0 faults\n", 20) == 0, "%s: %.*s", scheme,
		(int)strcspn(said, "<"), said);
	for (const char *at = shown.err; (at = strstr(at, "CONSOLE")) != NULL; at++) {
		const char *end = at + strcspn(at, "\n");
		const char *blocked = strstr(at, "Blocked script execution"); /* on purpose */
		require(blocked != NULL && blocked < end, "%s: %.*s", scheme, (int)(end - at), at);
	}
	process_result_free(&shown);
}

Test(browser, every_kind_of_page_is_sound, .timeout = 240)
{
	char folder[TEMPORARY_PATH_BYTES], out[TEMPORARY_PATH_BYTES];
	const char *browser = find_browser();

	if (browser == NULL) {
		cr_skip_test(
			"no Chromium; bench/scripts/setup.sh with QUIRE_BROWSER=ON installs it");
	}
	temporary_folder(folder);
	make_pages(folder);
	make_sheets(folder);
	make_histories(folder);
	char *frames = file_read("tests/reports/page/frames.html", NULL);
	temporary_write(folder, "frames.html", frames, out);
	free(frames);
	require_sound(browser, folder, "light");
	require_sound(browser, folder, "dark");
	temporary_remove(folder);
}
