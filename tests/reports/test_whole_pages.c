#include <criterion/criterion.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/text.h"
#include "tests/harness/drawn_texts.h"
#include "tests/harness/files.h"
#include "tests/harness/made_history.h"
#include "tests/harness/made_plan.h"
#include "tests/harness/made_result.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Whole pages, byte by byte: tests/fixtures/pages/NAME.txt is a page of which each figure and each
   JSON is replaced by its hash, and style and scripts by nothing. Its first line is the gnuplot
   that drew it; where another one is installed, hashes of figures are not compared. A page that
   has to change is replaced by the file that the failure names, once its figures were looked at. */

#define PAGES QUIRE_SOURCE_DIR "/tests/fixtures/pages/"

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	if (system("command -v gnuplot >/dev/null") != 0) {
		cr_skip_test("gnuplot is not here");
	}
	temporary_folder(folder);
}

static void tear_down(void)
{
	struct process_result removed = shell_run(folder, "rm -rf '%s'", folder);

	process_result_free(&removed);
}

TestSuite(whole_pages, .init = set_up, .fini = tear_down);

/* Runs a shell command line in the folder, with `quire` and the demo's trace. */
static void session(const char *line)
{
	struct text text = {0};

	text_format(&text,
		"set -e\nquire() { \"%s\" \"$@\"; }\ndemo=%s/workloads/traces/demo.jsonl\n%s\n",
		QUIRE_EXECUTABLE, QUIRE_SOURCE_DIR, line);
	temporary_write(folder, "session", text.bytes, NULL);
	text_deinit(&text);
	struct process_result result = shell_run(folder, ". ./session >printed");
	require(result.code == 0, "exit code %d of %s: %s", result.code, line, result.err);
	process_result_free(&result);
}

/* Whether a row of a page differs from run to run. */
static bool is_volatile(const char *line)
{
	static const char *const starts[] = {"<tr>", "<tr class=\"differs\">"};
	static const char *const rows[] = {"commit", "machine", "date", "command", "wall_s"};
	char start[96];

	for (uint32_t i = 0; i < 10; i++) {
		int size = snprintf(start, sizeof(start), "%s<th scope=\"row\">%s</th>",
			starts[i / 5], rows[i % 5]);
		if (strncmp(line, start, (size_t)size) == 0) {
			return true;
		}
	}
	return false;
}

/* Adds the page from `at` on, without what differs from run to run. */
static void add_shown(struct text *out, const char *at)
{
	static const struct {
		const char *start, *end, *name; /* name NULL: its content is not compared */
	} hidden[] = {{"<style", "</style>", NULL}, {"<script>", "</script>", NULL},
		{"<script", "</script>", "JSON"}, {"<svg", "</svg>", "figure"}};

	while (*at != '\0') {
		uint32_t i = 0;
		while (i < 4 && strncmp(at, hidden[i].start, strlen(hidden[i].start)) != 0) {
			i++;
		}
		if (i < 4) {
			const char *end = strstr(at, hidden[i].end) + strlen(hidden[i].end);
			if (hidden[i].name != NULL) {
				text_format(out, "(%s %016llx)", hidden[i].name,
					(unsigned long long)XXH64(at, (size_t)(end - at), 0));
			}
			at = end;
		} else if (is_volatile(at)) {
			at += strcspn(at, "\n");
		} else {
			text_add_bytes(out, at++, 1);
		}
	}
}

/* Writes ? for each hash that follows `name`. */
static void hide(char *text, const char *name)
{
	for (char *at = text; (at = strstr(at, name)) != NULL;) {
		at += strlen(name);
		for (uint32_t i = 0; i < 16 && isxdigit((unsigned char)at[i]); i++) {
			at[i] = '?';
		}
	}
}

/* Compares FOLDER/page.html. */
static void require_page(const char *name, bool has_fixed_json)
{
	struct text found = {0};
	struct process_result version = shell_run(folder, "gnuplot --version");
	char line[1024], path[1024];

	snprintf(path, sizeof(path), "%s/page.html", folder);
	char *page = file_read(path, NULL);
	require_texts_apart(page);
	text_add(&found, version.out);
	add_shown(&found, page);
	if (!has_fixed_json) {
		hide(found.bytes, "(JSON ");
	}
	snprintf(path, sizeof(path), PAGES "%s.txt", name);
	char *expected = file_read(path, NULL);
	char *kept = strdup(found.bytes);
	if (strncmp(expected, version.out, strlen(version.out)) != 0) {
		hide(expected, "(figure ");
		hide(kept, "(figure ");
	}
	const char *a = strchr(kept, '\n'), *b = strchr(expected, '\n');
	uint32_t number = 1;
	for (; b != NULL && *a == *b && *a != '\0'; a++, b++) {
		number += *a == '\n';
	}
	if (b == NULL || *a != *b) {
		snprintf(path, sizeof(path), QUIRE_EXECUTABLE "-page-%s.txt", name);
		file_write(path, found.bytes, found.byte_count);
		snprintf(line, sizeof(line), "cp page.html '" QUIRE_EXECUTABLE "-page-%s.html'",
			name);
		session(line);
		require(false, "%s.txt:%u: another page; %s has it, and .html is it", name, number,
			path);
	}
	free(kept);
	free(expected);
	free(page);
	process_result_free(&version);
	text_deinit(&found);
}

/* ---- runs ---- */

#define TRACE                                                                                      \
	"printf "                                                                                  \
	"'{\"timestamp\":%s,\"input_length\":%s,\"output_length\":%s,\"hash_ids\":[%s]}\\n'"       \
	" 0 40 6 0,1,2  0 64 9 0,1,3,4  3 20 30 5,6  4 50 3 0,1,3,7"                               \
	" 4.5 130 3 20,21,22,23,24,25,26,27,28  9 33 12 0,8,9  30 16 1 0  31 16 40 0 >t.jsonl\n"
#define REPLAY "quire replay t.jsonl --trace-block-size 16 --gpu h200-datasheet --block-size 16 "

Test(whole_pages, a_run)
{
	session(TRACE REPLAY "--kv-blocks 10 --max-num-seqs 3 --max-num-batched-tokens 48 "
			     "--max-model-len 128 --slo-ttft-ms 8 --slo-tpot-ms 3 --warmup 1 "
			     "--cooldown 2 --out one");
	session("quire report one --out page.html");
	require_page("run", false);
}

/* Three that differ in two settings, of which one is left to the engine once. */
Test(whole_pages, runs_that_differ)
{
	session(TRACE REPLAY "--max-num-seqs 3 --out one\n" REPLAY
			     "--max-num-seqs 2 --kv-blocks 10 --slo-ttft-ms 8 --out two\n" REPLAY
			     "--max-num-seqs 1 --kv-blocks 10 --policy prefill-first --out three");
	session("quire report one two three --out page.html");
	require_page("runs", false);
}

Test(whole_pages, fleets_and_levels)
{
	session(TRACE
		"printf 'group\\treplicas\\tgpu\\tkv_blocks\\nbig\\t1\\th200-datasheet\\t90\\n"
		"small\\t2\\th100-datasheet\\t20\\n' >fleet.tsv\n"
		"quire replay t.jsonl --trace-block-size 16 --block-size 16 --fleet fleet.tsv "
		"--router prefix --router-queue 1 --replica-limit 2 --loop shared "
		"--max-requests 60 --ramp 20:90:3 --duration 2 --slo-ttft-ms 20 "
		"--outages fail:1@0.3,join:1@0.9 --out fleet\n" REPLAY
		"--kv-blocks 40 --max-num-seqs 2 --loop shared --max-requests 60 "
		"--ramp 20:90:3 --duration 2 --slo-ttft-ms 20 --seed 3 --out one\n");
	session("quire report one fleet --out page.html");
	require_page("fleets", false);
}

/* Equal replicas of two GPUs each, of which some get no request. */
Test(whole_pages, a_fleet_of_equals)
{
	session(TRACE REPLAY "-tp 2 --replicas 6 --router prefix --kv-blocks 40 --out one");
	session("quire report one --out page.html");
	require_page("fleet", false);
}

/* The recording of a slower engine with more memory passes for a real run. */
Test(whole_pages, a_real_run_and_a_simulated_one)
{
	session(TRACE REPLAY "--kv-blocks 10 --max-num-seqs 3 --steps --out simulated\n" REPLAY
			     "--kv-blocks 40 --max-num-seqs 4 --steps --step-time-scale 1.1 "
			     "--seed 7 --out real\n"
			     "sed -i 's/\"sim\"/\"cuda\"/; s/\"priced\"/\"computed\"/' "
			     "real/summary.json");
	session("quire report simulated real --out page.html\n"
		"grep -q 'How far the simulation is off' page.html\n"
		"quire compare --errors simulated real >>page.html\n"
		"quire compare --errors simulated simulated >>page.html");
	require_page("fidelity", false);
}

Test(whole_pages, runs_with_measured_kernels)
{
	char path[TEMPORARY_PATH_BYTES];
	struct made_result other = made_ordinary;

	other.status = "failed";
	other.replicas = 3;
	other.slo_e2e_ms = 50;
	other.device = "NVIDIA H200";
	other.kv_blocks = 3000;
	make_result(folder, "one", &made_ordinary, path);
	make_result(folder, "two", &other, path);
	session("quire report one two --out page.html");
	require_page("kernels", true);
}

/* Panels stand in columns by their number: the figures of six and of seven small results. */
Test(whole_pages, figures_of_many_runs)
{
	struct made_result small = made_ordinary;
	char path[TEMPORARY_PATH_BYTES];

	small.bins = small.latency_buckets = 4;
	small.rows_octaves = small.tokens_octaves = 2;
	small.operations = 0;
	for (uint32_t i = 0; i < 7; i++) {
		const char name[] = {(char)('a' + i), '\0'};
		small.seed = i;
		make_result(folder, name, &small, path);
	}
	session("for runs in 'a b c d e f' 'a b c d e f g'; do\n"
		"quire report $runs --out many.html\n"
		"grep -E '<figure|<h3>' many.html; sed -n '/<svg/,/<\\/svg>/p' many.html\n"
		"done >page.html");
	require_page("many-runs", false);
}

/* ---- sweeps, plans, histories ---- */

Test(whole_pages, a_sweep_of_one_parameter)
{
	char path[TEMPORARY_PATH_BYTES];

	make_sweep(folder, "swept", &made_sweep_ordinary, path);
	session("quire report swept --out page.html");
	require_page("sweep-1", false);
}

/* More runs than are shown at once; some failed, the last is missing. */
Test(whole_pages, a_sweep_of_two_parameters)
{
	char path[TEMPORARY_PATH_BYTES];

	make_sweep(folder, "swept", &(struct made_sweep){2, 7, true, true}, path);
	session("quire report swept --out page.html");
	require_page("sweep-2", false);
}

Test(whole_pages, a_sweep_of_four_parameters)
{
	session("quire sweep $demo --gpu h200-datasheet --max-requests 20 --out swept --grid "
		"'max-num-seqs=2,8;speedup=1,9;kv-blocks=300,400;policy=mixed,vllm' || [ $? = 1 ]");
	session("quire report swept --out page.html");
	require_page("sweep-4", false);
}

Test(whole_pages, a_plan)
{
	char path[TEMPORARY_PATH_BYTES];
	struct made_plan made = made_plan_ordinary;

	made.configurations = 2;
	made.loads = 6;
	made.has_stretch = true;
	make_plan(folder, "plan", &made, path);
	session("quire report plan --out page.html");
	require_page("plan", false);
}

Test(whole_pages, a_plan_without_an_answer)
{
	char path[TEMPORARY_PATH_BYTES];
	struct made_plan made = made_plan_ordinary;

	made.is_unmet = made.is_interrupted = made.has_run_limits = true;
	made.is_calibrated = made.has_cost = false;
	made.loads = 5;
	made.replicates = 0;
	make_plan(folder, "plan", &made, path);
	session("quire report plan --out page.html");
	require_page("plan-unmet", false);
}

Test(whole_pages, a_plan_of_replicas)
{
	session("quire plan $demo --max-requests 60 --replicates 8 --precision 0.3 --out plan "
		"--slo-ttft-ms 900 --slo-tpot-ms 30 --target-speedup 40 --router prefix "
		"--grid 'gpu=h200-datasheet,h100-datasheet;max-num-seqs=4,128' --spare 1");
	session("quire report plan --out page.html");
	require_page("plan-replicas", false);
}

/* Runs of longer steps carry more here, so the ends of the model's interval change places. */
Test(whole_pages, a_plan_of_many_loads)
{
	session("quire plan $demo --max-requests 60 --replicates 4 --precision 0.1 --out plan "
		"--slo 'ttft.p99<=700,tpot.p50<=30' --gpu h200-datasheet --max-num-seqs 128");
	session("quire report plan --out page.html");
	require_page("plan-loads", false);
}

Test(whole_pages, a_history)
{
	char path[TEMPORARY_PATH_BYTES];

	make_history(folder, "h.jsonl", (struct made_history){30, 3}, path);
	session("quire report h.jsonl --out page.html");
	require_page("history", false);
}

Test(whole_pages, a_long_history)
{
	char path[TEMPORARY_PATH_BYTES];

	make_history(folder, "h.jsonl", (struct made_history){60, 1}, path);
	session("quire report h.jsonl --out page.html");
	require_page("history-long", false);
}

/* ---- single figures ---- */

#define STEP_COLUMNS                                                                               \
	"BEGIN { printf "                                                                          \
	"\"phase\\tstep\\telapsed_ns\\tdecode_rows\\tprefill_rows\\tprefill_tokens\\t"             \
	"decode_context_tokens\\tdecode_longest_context\\tprefill_attention_pairs\\t"              \
	"sampled_rows\\trunning\\twaiting\\n\"\n"

/* Steps of a log, of which the times follow from the counts, and what is fitted to them. */
Test(whole_pages, a_calibration)
{
	session("awk '" STEP_COLUMNS "for (i = 0; i < 600; i++) {\n"
		"d = 1 + i * 7 % 33; m = i % 3 == 0; p = m * (1 + i * 31 % 900)\n"
		"c = 300 + i * 13 % 2000; t = 20000 * d + 9000 * p + d * c / 2 + i * 97 % 50000\n"
		"printf \"%s\\t%d\\t%d\\t%d\\t%d\\t%d\\t%d\\t%d\\t%d\\t%d\\t%d\\t0\\n\","
		"(i < 400 ? \"serve\" : \"nano\"), i, 4000000 + t, d, m, p, d * c, c,"
		"p * (p + 1) / 2, d + m, d + m } }' >steps.tsv\n"
		"quire calibrate --from-steps steps.tsv --name x --out fit --plot fit.svg "
		">page.html\n"
		"cat fit.svg >>page.html");
	require_page("calibration", false);
}

Test(whole_pages, figures_of_traces)
{
	session(TRACE "quire trace stat t.jsonl --trace-block-size 16 --plot a.svg >page.html\n"
		      "quire trace cache t.jsonl --trace-block-size 16 --plot b.svg "
		      "--model qwen3-8b >>page.html\n"
		      "quire trace stat $demo --plot c.svg >>page.html\n"
		      "quire trace cache $demo --plot d.svg >>page.html\n"
		      "cat a.svg b.svg c.svg d.svg >>page.html");
	require_page("traces", false);
}

#define KERNEL_COLUMNS                                                                             \
	"# NVIDIA H200, "                                                                          \
	"2026-01-02\nkernel\tcase\trows\tbytes\tflops\tlaunches\tus\tus_min\tus_max\t"             \
	"gb_per_s\ttflop_per_s\tfloor_us\tbound\tshare\n"                                          \
	"limit_read\t-\t0\t4294967296\t0\t5\t921.5\t921.4\t922.0\t4660.6\t0.00\t-\t-\t-\n"         \
	"limit_copy\t-\t0\t4294967296\t0\t4\t1080.8\t1080.4\t1081.6\t3973.6\t0.00\t-\t-\t-\n"      \
	"limit_product\t8x8x8\t0\t0\t1099511627776\t4\t1338.5\t1338.3\t1340.9\t0.0\t821.40\t-\t-"  \
	"\t-\n"                                                                                    \
	"limit_launch\t-\t0\t0\t0\t256\t0.476\t0.474\t0.479\t0.0\t0.00\t-\t-\t-\n"

Test(whole_pages, figures_of_kernels)
{
	static const char *const names[] = {
		"matmul", "sampler", "attention", "exchange_gathered_add_rms_norm_in_rounds"};
	static const char *const bounds[] = {"memory", "launch", "compute"};
	struct text table = {0};

	text_add(&table, KERNEL_COLUMNS);
	for (uint32_t i = 0; i < 45; i++) {
		text_format(&table, "%s\t%ux64\t%u\t%u\t%u\t5\t%u\t%u\t%u\t%u\t%u\t%u\t%s\t%u\n",
			names[i % 4], i, 1u << i % 14, 1000 * i, 9000 * i, 10 + i, 9 + i, 12 + i,
			100 + i, i / 4, 5 + i, bounds[i % 3], 100 * (5 + i) / (10 + i));
	}
	temporary_write(folder, "k.tsv", table.bytes, NULL);
	text_deinit(&table);
	session("quire kernels --from k.tsv --plot page.html");
	require_page("kernel-figure", false);
}

/* ---- texts in figures ---- */

/* A run of which a latency ends at a long tick, and whose fastest and slowest steps are beyond the
   colour scale, of which both ends are told, with the prices that are built in. */
Test(whole_pages, no_text_of_the_demo_is_cut_or_covered)
{
	char path[1024];

	session("quire replay $demo --max-num-seqs 32 --out run\nquire report run --out "
		"page.html");
	snprintf(path, sizeof(path), "%s/page.html", folder);
	char *page = file_read(path, NULL);
	require(strstr(page, ">\u2264 ") != NULL && strstr(page, ">\u2265 ") != NULL,
		"no ends of a scale");
	require_texts_apart(page);
	free(page);
}

/* What was said of a figure named `id` that was drawn, from its start. */
static char *figure_of(const char *line, const char *id)
{
	char path[1024], wanted[64];

	session(line);
	snprintf(path, sizeof(path), "%s/page.html", folder);
	char *page = file_read(path, NULL);
	snprintf(wanted, sizeof(wanted), "<figure id=\"figure-%s\"", id);
	const char *start = strstr(page, wanted);
	char *figure =
		start == NULL ? NULL : strndup(start, (size_t)(strstr(start, "</figure>") - start));
	free(page);
	return figure;
}

/* Blocks of 16 and of 32 tokens are no common scale. */
Test(whole_pages, blocks_of_different_sizes_are_drawn_as_tokens)
{
	char *figure = figure_of(TRACE REPLAY
		"--out a\n"
		"quire replay t.jsonl --trace-block-size 16 --gpu h200-datasheet --block-size 32 "
		"--out b\n"
		"quire report a b --out page.html",
		"kv-use");

	require(figure != NULL && strstr(figure, ">KV tokens<") != NULL, "%s", figure);
	free(figure);
	figure = figure_of("quire report a --out page.html", "kv-use");
	require(figure != NULL && strstr(figure, ">KV blocks<") != NULL, "%s", figure);
	free(figure);
}

/* Requests that are left out at either end alone, and at both. */
Test(whole_pages, what_the_window_leaves_out_is_told)
{
	static const char *const cases[][2] = {
		{"--warmup 5", "without 5 requests of the warm-up and 0 of the cooldown"},
		{"--cooldown 7", "without 0 requests of the warm-up and 7 of the cooldown"},
		{"--warmup 1 --cooldown 2",
			"without 1 request of the warm-up and 2 of the cooldown"},
	};
	char line[512];

	for (uint32_t i = 0; i < 3; i++) {
		snprintf(line, sizeof(line),
			"quire replay $demo --gpu h200-datasheet --max-requests 40 %s --out run "
			"--force >x\nquire report run --out page.html\ngrep -q '%s' page.html",
			cases[i][0], cases[i][1]);
		session(line);
	}
}

/* A result is named by its folder, also where it is given as the one above. */
Test(whole_pages, a_folder_of_dots_has_its_own_name)
{
	session("quire replay $demo --gpu h200-datasheet --max-requests 20 --out named >x\n"
		"mkdir named/deep\ncd named/deep\nquire report .. --out ../../above.html\n"
		"cd ..\nquire report . --out ../here.html\ncd ..\n"
		"quire report named --out page.html\n"
		"for page in above here page; do grep -q '<h1[^>]*>named<' $page.html; done");
}

/* Every option that changes the tokens of a cache draws the sweep against them. */
Test(whole_pages, sizes_of_caches_make_the_curve_of_a_sweep)
{
	session("for grid in kv-blocks=300,400 gpu-memory-utilization=0.5,0.6 gpu=h200,a100 "
		"block-size=128,256 replicas=1,2; do\nrm -rf s\n"
		"quire sweep $demo --max-requests 20 --grid $grid --out s >x 2>&1\n"
		"test -f s/cache.tsv\ndone\n"
		"quire sweep $demo --max-requests 20 --grid max-num-seqs=2,8 --out t >x 2>&1\n"
		"test ! -e t/cache.tsv");
}

/* Points of one capacity, with no curve, show nothing about capacity. */
Test(whole_pages, runs_with_caches_of_one_size_are_not_drawn_against_it)
{
	char path[1024];

	session("quire sweep $demo --max-requests 50 --grid speedup=1,2 --out s >x 2>&1\n"
		"quire report s --out page.html");
	snprintf(path, sizeof(path), "%s/page.html", folder);
	char *page = file_read(path, NULL);
	require(strstr(page, "(all runs have a cache of the same size)") != NULL, "it is drawn");
	free(page);
}
