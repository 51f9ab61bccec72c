#include <criterion/criterion.h>

#include "bench/commands/commands.h"
#include "engine/base/status.h"
#include "engine/step_record.h"
#include "reports/figures/drawn_colors.h"
#include "reports/figures/figures.h"
#include "reports/report.h"
#include "reports/results/results.h"
#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- result folders of the test's own making ---- */

struct fixture {
	uint32_t bins;
	uint32_t rows_octaves, tokens_octaves; /* of the step grid, four cells to an octave */
	uint32_t latency_buckets;	       /* of each metric; 0: percentiles are null */
	uint32_t operations;		       /* of kernels; 0: they were not measured */
	uint32_t kernel_bins;
	uint64_t kv_blocks;
	const char *status;
	const char *verdict;
	const char *trace_name;
	bool is_calibrated;
	const char *runner; /* NULL: sim */
	const char *device; /* that computed; NULL: none, the profile h200 did */
	const char *trace_hash;
	uint64_t found_kv_blocks; /* 0: null */
	uint64_t seed;
	double ttft_p99_ms; /* 0: 2240 */
	const char *steps;  /* steps.tsv; NULL: there is none */
};

static const struct fixture ordinary = {
	.bins = 200,
	.rows_octaves = 6,
	.tokens_octaves = 8,
	.latency_buckets = 500,
	.operations = 14,
	.kernel_bins = 100,
	.kv_blocks = 4500,
	.status = "complete",
	.verdict = "backlogged",
	.trace_name = "chat.jsonl",
};

static const char *const metrics[] = {"queue", "ttft", "tpot", "itl", "e2e"};

static void add_timeline(struct text *out, uint32_t bins)
{
	text_add(out, "time_s\twidth_s\trunning\twaiting\tused_blocks\thit_tokens\tquery_tokens\t"
		      "output_tokens\tprefill_tokens\tpreemptions\tsteps\tbusy_share\n");
	for (uint32_t i = 0; i < bins; i++) {
		uint32_t noise = i * 2654435761u >> 20; /* in [0, 4096) */
		text_format(out, "%u.5\t1.5\t%u.25\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t0.%03u\n", i,
			noise / 10, noise / 3, noise, noise, 40000 + noise, noise * 3, noise * 7,
			noise % 3, 20 + noise % 5, noise % 1000);
	}
}

static uint64_t quarter_octave(uint32_t index)
{
	return index == 0 ? 0 : (UINT64_C(4) + (index - 1) % 4) << ((index - 1) / 4) >> 2;
}

static void add_step_grid(struct text *out, uint32_t rows_octaves, uint32_t tokens_octaves)
{
	text_add(out, "decode_rows_low\tdecode_rows_high\tprefill_tokens_low\t"
		      "prefill_tokens_high\tsteps\tmean_ns\tmax_ns\n");
	for (uint32_t i = 0; i < 4 * rows_octaves; i++) {
		for (uint32_t j = 0; j < 4 * tokens_octaves; j++) {
			uint64_t low[] = {quarter_octave(i), quarter_octave(j)};
			uint64_t high[] = {quarter_octave(i + 1) - 1, quarter_octave(j + 1) - 1};
			if (high[0] + 1 == low[0] || high[1] + 1 == low[1]) {
				continue; /* a quarter without an integer */
			}
			text_format(out, "%llu\t%llu\t%llu\t%llu\t%u\t%u\t%u\n",
				(unsigned long long)low[0], (unsigned long long)high[0],
				(unsigned long long)low[1], (unsigned long long)high[1], 1 + i * j,
				1000000 + 30000 * i + 500000 * j, 9000000 + 600000 * j);
		}
	}
}

/* As many buckets as asked for, of relative width 2^-10 from 1 us on. */
static void add_latency(struct text *out, uint32_t buckets)
{
	text_add(out, "metric\tupper_ns\tcount\n");
	for (uint32_t metric = 0; metric < 5; metric++) {
		uint64_t upper = 1024;
		for (uint32_t i = 0; i < buckets; i++) {
			text_format(out, "%s\t%llu\t%u\n", metrics[metric],
				(unsigned long long)upper, 1 + (i * 2654435761u >> 25));
			upper += upper >> 10;
		}
	}
}

/* Two kinds of steps; of the first operation less and less. */
static void add_kernel_phases(struct text *out, uint32_t operations)
{
	static const char *const phases[] = {"decode", "prefill"};

	text_add(out, "phase\tsteps\tstep_ns\tbusy_ns\toperation\trank\tsum_ns\tbelow_ns\n");
	for (uint32_t phase = 0; phase < 2; phase++) {
		uint32_t below = 0;
		for (uint32_t i = 0; i < operations; i++) {
			text_format(out, "%s\t%u\t3000000\t2500000\toperation_%u\t%u\t%u\t%u\n",
				phases[phase], 7 + 20 * phase, i, i + 1, 800000 / (i + 1), below);
			below += 800000 / (i + 1);
		}
	}
}

static void add_kernel_timeline(struct text *out, uint32_t operations, uint32_t bins)
{
	uint32_t below[120] = {0};

	require(bins <= 120, "more bins than a replay writes");
	text_add(out, "operation\trank\ttime_s\twidth_s\tsum_ns\tbelow_ns\n");
	for (uint32_t i = 0; i < operations; i++) {
		for (uint32_t bin = 0; bin < bins; bin++) {
			uint32_t sum = ((i * 120 + bin) * 2654435761u >> 8) / (i + 1);
			text_format(out, "operation_%u\t%u\t%u.05\t0.05\t%u\t%u\n", i, i + 1, bin,
				sum, below[bin]);
			below[bin] += sum;
		}
	}
}

static void add_summary(struct text *out, const struct fixture *fixture)
{
	bool has_values = fixture->latency_buckets > 0;

	text_format(out,
		"{\"schema\": \"quire-result-1\", \"status\": \"%s\", \"failure\": \"device "
		"lost\",\n"
		"\"config\": {\"model\": \"qwen3-0.6b\", \"runner\": \"%s\", \"gpu\": \"%s\",\n"
		"\"policy\": \"mixed\", \"kv_blocks\": %llu, \"seed\": %llu},\n",
		fixture->status, fixture->runner == NULL ? "sim" : fixture->runner,
		fixture->device == NULL ? "h200" : "device", (unsigned long long)fixture->kv_blocks,
		(unsigned long long)fixture->seed);
	text_format(out,
		"\"trace\": {\"name\": \"%s\", \"xxh64\": \"%s\", \"requests\": 12031},\n"
		"\"calibrated\": %s,\n"
		"\"requests\": {\"submitted\": 12031, \"finished\": 12028, \"rejected\": 3,"
		" \"failed\": 0, \"unfinished\": 0},\n",
		fixture->trace_name, fixture->trace_hash == NULL ? "00ff" : fixture->trace_hash,
		fixture->is_calibrated ? "true" : "false");
	if (fixture->found_kv_blocks > 0) {
		text_format(out, "\"found_kv_blocks\": %llu,\n",
			(unsigned long long)fixture->found_kv_blocks);
	}
	text_format(out,
		"\"time\": {\"makespan_s\": 300.5, \"busy_s\": 280.25, \"steps\": %u},\n"
		"\"load\": {\"offered_per_s\": 40.1, \"busy_share\": 0.9321,"
		" \"backlog_at_last_arrival\": 7, \"drain_s\": 1.5, \"verdict\": \"%s\"},\n"
		"\"tokens\": {\"prompt\": 1000000, \"output\": 200000, \"prefill_computed\": 9,"
		" \"recomputed\": 8},\n",
		fixture->bins * 20, fixture->verdict);
	text_format(out,
		"\"prefix_cache\": {\"query_tokens\": 1000000, \"hit_tokens\": 60600,"
		" \"hit_rate\": 0.0606},\n"
		"\"preemptions\": %llu,\n"
		"\"throughput\": {\"output_tokens_per_s\": 3983.25,"
		" \"total_tokens_per_s\": 45000, \"requests_per_s\": 40.02},\n"
		"\"latency_ms\": {",
		(unsigned long long)fixture->kv_blocks);
	for (uint32_t i = 0; i < 5; i++) {
		text_format(out,
			has_values ? "%s\"%s\": {\"mean\": 20.5, \"p50\": 12.5, \"p90\": 40,"
				     " \"p99\": %g, \"max\": 3100000}"
				   : "%s\"%s\": {\"mean\": null, \"p50\": null, \"p90\": null,"
				     " \"p99\": null, \"max\": null}",
			i == 0 ? "" : ", ", metrics[i],
			i == 1 && fixture->ttft_p99_ms > 0 ? fixture->ttft_p99_ms : 2240.0);
	}
	text_add(out, "},\n\"slo\": {\"ttft_ms\": null, \"tpot_ms\": null, \"attained\": null,"
		      " \"goodput_requests_per_s\": null},\n"
		      "\"result_hash\": \"0123456789abcdef\"}\n");
}

static void write_text(const char *folder, const char *name, struct text *text)
{
	temporary_write(folder, name, text->bytes, NULL);
	text_deinit(text);
}

/* Makes FOLDER/NAME, a result folder, and writes its path. */
static void make_result(
	const char *folder, const char *name, const struct fixture *fixture, char *path)
{
	struct text text = {0};

	int size = snprintf(path, TEMPORARY_PATH_BYTES, "%s/%s", folder, name);
	require(size > 0 && size < TEMPORARY_PATH_BYTES, "the path of %s is too long", name);
	require(mkdir(path, 0777) == 0, "cannot make %s", path);
	add_timeline(&text, fixture->bins);
	write_text(path, "timeline.tsv", &text);
	add_step_grid(&text, fixture->rows_octaves, fixture->tokens_octaves);
	write_text(path, "step_grid.tsv", &text);
	add_latency(&text, fixture->latency_buckets);
	write_text(path, "latency.tsv", &text);
	if (fixture->operations > 0) {
		add_kernel_phases(&text, fixture->operations);
		write_text(path, "kernel_phases.tsv", &text);
		add_kernel_timeline(&text, fixture->operations, fixture->kernel_bins);
		write_text(path, "kernel_timeline.tsv", &text);
	}
	add_summary(&text, fixture);
	write_text(path, "summary.json", &text);
	if (fixture->steps != NULL) {
		temporary_write(path, "steps.tsv", fixture->steps, NULL);
	}
	text_add(&text, "{\"commit\": \"abc123\", \"command\": \"quire replay chat.jsonl\"");
	if (fixture->device != NULL) {
		text_format(&text, ", \"device\": \"%s\"", fixture->device);
	}
	text_add(&text, "}\n");
	write_text(path, "provenance.json", &text);
}

/* The page of some folders, owned by the caller. */
static char *make_page(
	const char *folder, const char *const *directories, uint32_t count, const char *name)
{
	struct error error = {0};
	char path[TEMPORARY_PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	enum status status = report_write(directories, count, path, &error);
	require(status == STATUS_OK, "no report: %s", error.text);
	return file_read(path, NULL);
}

static char *make_page_of(const char *folder, const struct fixture *fixture)
{
	char path[TEMPORARY_PATH_BYTES];

	make_result(folder, "run", fixture, path);
	const char *directories[] = {path};
	return make_page(folder, directories, 1, "page.html");
}

static void require_has(const char *page, const char *text)
{
	require(strstr(page, text) != NULL, "the page lacks: %s", text);
}

static void require_lacks(const char *page, const char *text)
{
	require(strstr(page, text) == NULL, "the page has: %s", text);
}

static uint32_t count_of(const char *page, const char *text)
{
	uint32_t count = 0;

	for (const char *at = strstr(page, text); at != NULL; at = strstr(at + 1, text)) {
		count++;
	}
	return count;
}

/* ---- the page ---- */

/* Ids are there once, and what is referred to is there. */
static void require_sound_ids(const char *page)
{
	static const char *const marks[] = {" id=\"", " id='", "href=\"#", "href='#", "url(#"};
	char wanted[2][128];

	for (uint32_t i = 0; i < 5; i++) {
		for (const char *at = strstr(page, marks[i]); at != NULL;
			at = strstr(at + 1, marks[i])) {
			const char *name = at + strlen(marks[i]);
			int size = (int)strcspn(name, "\"')");
			snprintf(wanted[0], sizeof(wanted[0]), " id=\"%.*s\"", size, name);
			snprintf(wanted[1], sizeof(wanted[1]), " id='%.*s'", size, name);
			uint32_t found = count_of(page, wanted[0]) + count_of(page, wanted[1]);
			require(found == 1, "the id %.*s is there %u times", size, name, found);
		}
	}
}

/* Nothing is loaded from anywhere, and nothing runs. */
static void require_self_contained(const char *page)
{
	static const char *const loaders[] = {"http:", "https:", " src=", "<link", "@import",
		"<script", "<iframe", "<object", "<img", " onload", " onerror"};

	for (uint32_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++) {
		require_lacks(page, loaders[i]);
	}
}

Test(report, a_page_of_one_result)
{
	char folder[TEMPORARY_PATH_BYTES], wanted[128];

	temporary_folder(folder);
	char *page = make_page_of(folder, &ordinary);
	require(strncmp(page, "<!DOCTYPE html>", 15) == 0, "no doctype");
	require_has(page, "<title>run \u2013 replay report</title>");
	require_has(page, "<section class=\"verdict backlogged\"");
	require_has(page, ">uncalibrated<");
	require_has(page, "<dt>Output throughput</dt><dd>3,983<small>");
	require_has(page, "<dd>12.5\u00a0ms<small>median; p99 2.24\u00a0s");
	require_has(page, "<em>3 rejected</em>");
	require_has(page, "<td>6.06\u00a0%</td>");
	require_has(page, "<th scope=\"row\">kv_blocks</th><td>4500</td>");
	require_has(page, "<td>quire replay chat.jsonl</td>");
	require_has(page, "<td>3,100,000</td>");
	require_lacks(page, "class=\"banner\"");
	require_lacks(page, "Goodput");
	for (uint32_t i = 0; i < figure_count; i++) {
		snprintf(wanted, sizeof(wanted), "<figure id=\"figure-%s\">", figures[i].name);
		require_has(page, wanted);
	}
	require_equal(count_of(page, "<svg "), figure_count);
	require_equal(count_of(page, "</svg>"), figure_count);
	require(count_of(page, "var(--run-1)") >= figure_count - 1,
		"figures lack the page's color");
	require_lacks(page, "rgb(  0, 114, 178)");
	require_lacks(page, "black");
	require_sound_ids(page);
	require_self_contained(page);
	free(page);
	temporary_remove(folder);
}

Test(report, several_results_are_compared_with_the_first)
{
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES];
	struct fixture other = ordinary;

	temporary_folder(folder);
	other.kv_blocks = 9000;
	other.is_calibrated = true;
	other.verdict = "stable";
	make_result(folder, "before", &ordinary, path[0]);
	make_result(folder, "after", &other, path[1]);
	const char *directories[] = {path[0], path[1]};
	char *page = make_page(folder, directories, 2, "page.html");

	require_has(page, "<h1>2 replays compared</h1>");
	require_has(page, "<span class=\"name run-1\">before</span>");
	require_has(page, "<span class=\"name run-2\">after</span>");
	require_has(page, "<span class=\"chip backlogged\"");
	require_has(page, "<span class=\"chip stable\"");
	/* Preemptions of the fixture are its KV blocks. */
	require_has(page, "<td>9,000 <span class=\"difference worse\">+100\u00a0%</span></td>");
	require_has(page, "<tr class=\"differs\"><th scope=\"row\">kv_blocks</th>");
	require_has(page, "<tr><th scope=\"row\">gpu</th>");
	require_has(page, "var(--run-2)");
	require_sound_ids(page);
	require_self_contained(page);
	free(page);
	temporary_remove(folder);
}

/* ---- a simulated run against a real one ---- */

#define STEP_HEADER                                                                                \
	"step\telapsed_ns\tmode\tdecode_rows\tprefill_rows\tprefill_tokens\tcached_tokens\t"       \
	"decode_context_tokens\tprefill_attention_pairs\tsampled_rows\n"

static const struct fixture measured = {
	.bins = 50,
	.rows_octaves = 3,
	.tokens_octaves = 3,
	.latency_buckets = 50,
	.kv_blocks = 4000,
	.status = "complete",
	.verdict = "stable",
	.trace_name = "chat.jsonl",
	.is_calibrated = true,
	.runner = "cuda",
	.device = "NVIDIA H200",
	.found_kv_blocks = 4000,
	.steps = STEP_HEADER "0\t4000000\teager\t0\t1\t50\t0\t0\t1275\t1\n"
			     "1\t1000000\tgraph\t1\t0\t0\t0\t51\t0\t1\n"
			     "2\t2000000\tgraph\t1\t0\t0\t0\t52\t0\t1\n",
};

/* Its first step is a tenth too slow, its second a twentieth too fast, its third another one. */
static struct fixture simulated_of(const struct fixture *real)
{
	struct fixture sim = *real;

	sim.runner = "sim";
	sim.device = NULL;
	sim.found_kv_blocks = 4400;
	sim.ttft_p99_ms = 2296;
	sim.steps = STEP_HEADER "0\t4400000\tnone\t0\t1\t50\t0\t0\t1275\t1\n"
				"1\t950000\tnone\t1\t0\t0\t0\t51\t0\t1\n"
				"2\t5000000\tnone\t1\t1\t9\t0\t52\t45\t2\n";
	return sim;
}

struct pair {
	char folder[TEMPORARY_PATH_BYTES];
	char real[TEMPORARY_PATH_BYTES], sim[TEMPORARY_PATH_BYTES];
};

static void make_pair(struct pair *pair, const struct fixture *real, const struct fixture *sim)
{
	temporary_folder(pair->folder);
	make_result(pair->folder, "measured", real, pair->real);
	make_result(pair->folder, "simulated", sim, pair->sim);
}

Test(report, a_simulated_run_is_compared_with_the_real_one)
{
	struct fixture sim = simulated_of(&measured);
	struct pair pair;

	make_pair(&pair, &measured, &sim);
	const char *directories[] = {pair.sim, pair.real};
	char *page = make_page(pair.folder, directories, 2, "page.html");
	require_has(page, "<h1>Simulated against real</h1>");
	require_has(
		page, "<span class=\"name run-1\">measured</span> (runner cuda) is the real run");
	require_has(page, "</strong> on <strong>NVIDIA H200</strong> (runner cuda");
	require_has(page, "</strong> on <strong>h200</strong> (runner sim");
	require_has(page, "<span class=\"name run-2\">simulated</span> (runner sim) the simulated");
	/* The 99th percentile of the time to first token, and nothing else of the summary. */
	require_has(page, "<strong class=\"error fair\">+2.50 %</strong>");
	require_has(page, "<small>2.24\u00a0s \u2192 2.30\u00a0s</small>");
	require_has(page, "found and estimated</th><td>4,000</td><td>4,400</td><td>"
			  "<strong class=\"error poor\">+10.00 %</strong>");
	require_has(page, "The first 2 steps do the same work in both runs. Step by step the "
			  "simulated times are 7.50 % off on average, weighted by time 9.00 %, and "
			  "in sum +7.00 %.");
	require_has(page, "Steps of both</th><td>0</td><td>1</td>");
	require_lacks(page, "not the same run");
	require_lacks(page, "Side by side");
	require_sound_ids(page);
	require_self_contained(page);
	const char *other_way[] = {pair.real, pair.sim};
	char *same = make_page(pair.folder, other_way, 2, "same.html");
	require(strcmp(page, same) == 0, "the order of the folders matters");
	free(page);
	free(same);
	temporary_remove(pair.folder);
}

Test(report, settings_that_spoil_a_fidelity_are_named)
{
	struct fixture sim = simulated_of(&measured);
	struct pair pair;

	sim.seed = 7;
	sim.kv_blocks = 3000;
	sim.steps = NULL;
	make_pair(&pair, &measured, &sim);
	const char *directories[] = {pair.real, pair.sim};
	char *page = make_page(pair.folder, directories, 2, "page.html");
	require_has(page, "not the cost model's alone: kv_blocks, seed.</p>");
	require_has(page, "not both folders have a steps.tsv");
	free(page);
	temporary_remove(pair.folder);
}

/* Two runs of one kind stay what they were: the first is compared with, and nothing is assumed. */
Test(report, two_runs_of_one_kind_are_no_fidelity)
{
	struct fixture again = measured;
	struct pair pair;

	make_pair(&pair, &measured, &again);
	const char *directories[] = {pair.real, pair.sim};
	char *page = make_page(pair.folder, directories, 2, "page.html");
	require_has(page, "<h1>2 replays compared</h1>");
	require_lacks(page, "How far the simulation is off");
	free(page);
	temporary_remove(pair.folder);
}

Test(report, runs_of_different_traces_are_no_fidelity)
{
	struct fixture sim = simulated_of(&measured);
	struct pair pair;
	char path[TEMPORARY_PATH_BYTES + 16];
	struct error error = {0};

	sim.trace_hash = "abcd";
	make_pair(&pair, &measured, &sim);
	const char *directories[] = {pair.real, pair.sim};
	snprintf(path, sizeof(path), "%s/page.html", pair.folder);
	require_equal(report_write(directories, 2, path, &error), STATUS_INPUT);
	require(strstr(error.text, "different traces (00ff and abcd)") != NULL, "%s", error.text);
	require(access(path, F_OK) != 0, "a page was written");
	temporary_remove(pair.folder);
}

/* What quire compare --errors prints; owned by the caller. */
static char *errors_of(struct pair *pair, int *code)
{
	char command[] = "compare", option[] = "--errors";
	char *argv[] = {command, pair->sim, pair->real, option, NULL};
	struct capture capture;

	capture_begin(&capture, STDOUT_FILENO);
	*code = command_run(&command_compare, 4, argv);
	return capture_end(&capture);
}

Test(report, the_errors_are_a_table_too)
{
	struct fixture sim = simulated_of(&measured);
	struct pair pair;
	int code = -1;

	make_pair(&pair, &measured, &sim);
	char *text = errors_of(&pair, &code);
	require_equal(code, 0);
	require(strncmp(text, "metric\treal\tsim\terror\n", 22) == 0, "no header: %s", text);
	require_has(text, "\nthroughput.output_tokens_per_s\t3983.25\t3983.25\t0.000000\n");
	require_has(text, "\nlatency_ms.ttft.p99\t2240\t2296\t0.025000\n");
	require_has(text, "\nfound_kv_blocks\t4000\t4400\t0.100000\n");
	require_has(text, "\nsteps.decode.count\t2\t1\t-0.500000\n");
	require_has(text, "\nstep_ms.decode.mean\t1.5\t0.95\t-0.366667\n");
	require_has(text, "\nsteps.mixed.count\t0\t1\t-\n");
	require_has(text, "\nstep_ms.mixed.mean\t-\t5\t-\n");
	require_has(text, "\nsteps.same.count\t2\t2\t0\n");
	require_has(text, "\nstep_ms.same.mean_absolute_error\t-\t-\t0.075000\n");
	require_has(text, "\nstep_ms.same.sum\t5\t5.35\t0.070000\n");
	free(text);
	temporary_remove(pair.folder);
}

Test(report, equal_files_give_equal_bytes)
{
	char folder[2][TEMPORARY_PATH_BYTES];
	char *page[2];

	for (uint32_t i = 0; i < 2; i++) {
		temporary_folder(folder[i]);
		page[i] = make_page_of(folder[i], &ordinary);
	}
	require(strcmp(page[0], page[1]) == 0, "two pages of equal folders differ");
	for (uint32_t i = 0; i < 2; i++) {
		free(page[i]);
		temporary_remove(folder[i]);
	}
}

Test(report, results_of_equal_names_are_distinguished)
{
	char folder[TEMPORARY_PATH_BYTES], inner[2][TEMPORARY_PATH_BYTES];
	char path[2][TEMPORARY_PATH_BYTES + 8];

	temporary_folder(folder);
	make_result(folder, "a", &ordinary, inner[0]);
	make_result(folder, "b", &ordinary, inner[1]);
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/../%c/", inner[i], "ab"[i]);
	}
	const char *names[] = {path[0], inner[0], inner[1], inner[1]};
	char *page = make_page(folder, names, 4, "page.html");
	require_has(page, ">../a</span>");
	require_has(page, ">b (3)</span>");
	require_has(page, ">b (4)</span>");
	free(page);
	temporary_remove(folder);
}

Test(report, a_run_that_broke_off_says_so)
{
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES];
	struct fixture failed = ordinary, stopped = ordinary;

	temporary_folder(folder);
	failed.status = "failed";
	stopped.status = "interrupted";
	make_result(folder, "failed", &failed, path[0]);
	make_result(folder, "stopped", &stopped, path[1]);
	const char *directories[] = {path[0], path[1]};
	char *page = make_page(folder, directories, 2, "page.html");
	require_equal(count_of(page, "class=\"banner\""), 2);
	require_has(page, "device lost");
	require_has(page, "<strong>interrupted</strong>");
	free(page);
	temporary_remove(folder);
}

/* ---- little data, and much ---- */

Test(report, having_nothing_to_draw_is_reported)
{
	static const char *const sentences[] = {
		"no step was run<", "no prompt asked the cache<", "no request gave a value<"};
	char folder[TEMPORARY_PATH_BYTES];
	struct fixture empty = ordinary;

	temporary_folder(folder);
	empty.bins = empty.rows_octaves = empty.tokens_octaves = empty.latency_buckets = 0;
	char *page = make_page_of(folder, &empty);
	uint32_t said = 0;
	for (uint32_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
		uint32_t found = count_of(page, sentences[i]);
		require(found > 0, "no figure says '%s'", sentences[i]);
		said += found;
	}
	for (uint32_t i = 0; i < figure_count; i++) {
		said += figures[i].needs_kernels; /* kernels were measured */
	}
	require_equal(said, figure_count);
	require_has(page, "<dd>\u2013<small>median; p99 \u2013</small>");
	require_lacks(page, ">nan");
	require_sound_ids(page);
	free(page);
	temporary_remove(folder);
}

/* From nothing to a few of everything: each is drawn, alone and beside a full result. */
Test(report, odd_sizes_are_drawn)
{
	static const struct {
		uint32_t bins, octaves, buckets;
		uint32_t operations, kernel_bins;
	} sizes[] = {{1, 1, 1, 1, 1}, {2, 1, 2, 2, 0}, {1, 0, 0, 0, 0}, {0, 1, 3, 7, 2},
		{25, 3, 40, 8, 3}, {301, 2, 1, 9, 120}};
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES], name[16];

	temporary_folder(folder);
	make_result(folder, "full", &ordinary, path[0]);
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct fixture odd = ordinary;
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
			uint32_t drawn = figure_count - (odd.operations == 0 && count == 1 ? 2 : 0);
			require_equal(count_of(page, "</svg>"), drawn);
			free(page);
		}
	}
	temporary_remove(folder);
}

/* Figures of kernels are there when one result has some, and draw that one. */
Test(report, kernels_are_drawn_where_they_were_measured)
{
	char folder[TEMPORARY_PATH_BYTES], path[2][TEMPORARY_PATH_BYTES];
	struct fixture plain = ordinary;

	temporary_folder(folder);
	plain.operations = 0;
	make_result(folder, "plain", &plain, path[0]);
	make_result(folder, "measured", &ordinary, path[1]);
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

/* reports/README.md explains each column of each table to those who read them by other means. */
Test(report, the_readme_names_every_column)
{
	static const char *const headers[] = {REQUEST_COLUMNS, TIMELINE_COLUMNS, STEP_GRID_COLUMNS,
		LATENCY_COLUMNS, STEP_COLUMNS, KERNEL_COLUMNS, KERNEL_PHASE_COLUMNS,
		KERNEL_TIMELINE_COLUMNS};
	char *readme = file_read("reports/README.md", NULL);

	for (uint32_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		const char *names = strrchr(headers[i], '\n');
		for (const char *at = names == NULL ? headers[i] : names + 1; *at != '\0';) {
			char name[64];
			int bytes = (int)strcspn(at, "\t");
			snprintf(name, sizeof(name), "`%.*s`", bytes, at);
			require(strstr(readme, name) != NULL, "%s is not explained", name);
			at += (size_t)bytes + (at[bytes] == '\t');
		}
	}
	free(readme);
}

/* style.gp says the colours; the page has each of them, and another one in the dark. */
Test(report, figures_and_page_have_the_same_colors)
{
	struct drawn_color colors[DRAWN_COLORS_MAX];
	uint32_t count = drawn_colors(colors), runs = 0;
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES], line[64];
	const char *directory = path;

	temporary_folder(folder);
	make_result(folder, "one", &ordinary, path);
	char *page = make_page(folder, &directory, 1, "page.html");
	for (uint32_t i = 0; i < count; i++) {
		runs += strncmp(colors[i].name, "run-", 4) == 0;
		if (strcmp(colors[i].name, "background") == 0) {
			continue;
		}
		snprintf(line, sizeof(line), "--%.15s: #%06x;", colors[i].name, colors[i].rgb);
		require_equal(count_of(page, line), 1);
		snprintf(line, sizeof(line), "--%.15s: #", colors[i].name);
		require_equal(count_of(page, line), 2);
	}
	require_equal(runs, REPORT_RESULTS_MAX);
	require_equal(count, REPORT_RESULTS_MAX + 3);
	free(page);
	temporary_remove(folder);
}

/* Runs a script by hand, as its comment teaches, and returns its exit code. */
static int run_script(const char *script, const char *metric, const char *out,
	const char *const *directories, uint32_t count)
{
	char path[64], setting[32];
	char *argv[16] = {"gnuplot", "-e", setting, "-c", path, (char *)out};
	static char locale[] = "LC_ALL=C.UTF-8";
	char *environment[] = {locale, NULL};
	pid_t process = 0;
	int state = 0;
	posix_spawn_file_actions_t actions;

	snprintf(path, sizeof(path), "reports/figures/%s", script);
	snprintf(setting, sizeof(setting), "metric = '%s'", metric == NULL ? "" : metric);
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

/* The largest tables that a replay writes: each figure stays under 300 kB, for one and for eight.
 */
Test(report, large_results_give_small_figures)
{
	char folder[TEMPORARY_PATH_BYTES], path[8][TEMPORARY_PATH_BYTES];
	char name[8], out[TEMPORARY_PATH_BYTES + 8];
	const char *directories[8];
	struct fixture large = ordinary;

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
		if (is_again) {
			continue; /* the metrics of the fixture are alike */
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

Test(report, a_script_run_directly_prints_its_usage)
{
	for (uint32_t i = 0; i < figure_count; i++) {
		require_equal(run_script(figures[i].script, NULL, "out.svg", NULL, 0), 2);
	}
	require(access("out.svg", F_OK) != 0, "a script without a folder drew something");
}

/* ---- foreign text ---- */

Test(report, hostile_names_stay_text)
{
	static const char *const names[] = {"<img onerror=alert(1)>", "it's \"quoted\" & `id`",
		"$(id) {Symbol a}_b^c %s @x", "\xff\xfe broken \x01\x1b[31m\n utf-8"};
	char folder[TEMPORARY_PATH_BYTES], path[4][TEMPORARY_PATH_BYTES];
	const char *directories[4];
	struct fixture hostile = ordinary;

	temporary_folder(folder);
	hostile.trace_name = "</style><script>alert('x')</script>.jsonl";
	for (uint32_t i = 0; i < 4; i++) {
		make_result(folder, names[i], &hostile, path[i]);
		directories[i] = path[i];
	}
	char *page = make_page(folder, directories, 4, "page.html");
	require_lacks(page, "<script");
	require_lacks(page, "<img");
	require_has(page, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
	require_has(page, ">&lt;img onerror=alert(1)&gt;</span>");
	require_has(page, ">it&#39;s &quot;quoted&quot; &amp; `id`</span>");
	require_has(page, "it's \"quoted\" &amp; `id`</text>"); /* the title of a heat map */
	require_has(page, "$(id) {Symbol a}_b^c %s @x</text>");
	require_has(page, ">\ufffd\ufffd broken \ufffd\ufffd[31m  utf-8</span>");
	for (const char *at = page; *at != '\0'; at++) {
		require((unsigned char)*at >= 0x20 || *at == '\n' || *at == '\t',
			"a control character in the page");
	}
	require_sound_ids(page);
	free(page);
	temporary_remove(folder);
}

/* gnuplot takes a file name that starts with < for a command and with ~ for a home. */
Test(report, a_folder_is_no_command)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char before[4096];
	const char *directories[] = {"< touch hacked;", "~", "-"};

	temporary_folder(folder);
	for (uint32_t i = 0; i < 3; i++) {
		make_result(folder, directories[i], &ordinary, path);
	}
	require(getcwd(before, sizeof(before)) != NULL && chdir(folder) == 0, "cannot go there");
	char *page = make_page(".", directories, 3, "page.html");
	require(access("hacked", F_OK) != 0, "a folder's name was run as a command");
	require_has(page, ">~</span>");
	free(page);
	require(chdir(before) == 0, "cannot go back");
	temporary_remove(folder);
}

Test(report, invalid_utf8_is_replaced)
{
	static const char *const cases[][2] = {
		{"a\x80z", "a\ufffdz"},
		{"\xc0\xaf", "\ufffd\ufffd"},			  /* overlong */
		{"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"},		  /* overlong */
		{"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},		  /* a surrogate */
		{"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"}, /* behind U+10FFFF */
		{"\xe2\x82", "\ufffd\ufffd"},			  /* cut */
		{"\u20ac \xf0\x9f\x98\x80 <&>", "\u20ac \xf0\x9f\x98\x80 &lt;&amp;&gt;"},
	};
	struct text text = {0};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text.byte_count = 0;
		text_add_escaped(&text, cases[i][0]);
		require(strcmp(text.bytes, cases[i][1]) == 0, "case %u: found %s", i, text.bytes);
	}
	text_deinit(&text);
}

/* ---- refusals ---- */

/* A report of a folder that does not get made: the line, and nothing left behind. */
static void require_refusal(
	const char *folder, const char *directory, enum status expected, const char *line)
{
	struct error error = {0};
	char out[TEMPORARY_PATH_BYTES + 16];

	snprintf(out, sizeof(out), "%s/page.html", folder);
	enum status status = report_write(&directory, 1, out, &error);
	require_equal(status, expected);
	require(strstr(error.text, line) != NULL, "found \"%s\", expected \"%s\"", error.text,
		line);
	require(strchr(error.text, '\n') == NULL, "more than a line: %s", error.text);
	require(access(out, F_OK) != 0, "a page was written");
	strcat(out, ".part");
	require(access(out, F_OK) != 0, "half a page was left");
}

Test(report, a_missing_gnuplot_is_named)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	make_result(folder, "run", &ordinary, path);
	setenv("PATH", folder, 1);
	require_refusal(folder, path, STATUS_FILE, "install gnuplot");
	temporary_remove(folder);
}

Test(report, a_gnuplot_that_fails_is_quoted)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES], tool[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	make_result(folder, "run", &ordinary, path);
	temporary_write(
		folder, "gnuplot", "#!/bin/sh\necho 'line 7: no such thing' >&2\nexit 1\n", tool);
	chmod(tool, 0755);
	setenv("PATH", folder, 1);
	require_refusal(folder, path, STATUS_FILE, "gnuplot failed: line 7: no such thing");
	temporary_write(folder, "gnuplot", "#!/bin/sh\nexit 0\n", tool);
	require_refusal(folder, path, STATUS_FILE, "no whole SVG");
	temporary_remove(folder);
}

/* Writes a summary in which `old` became `new`. */
static void change_summary(const char *path, const char *old, const char *new)
{
	struct text text = {0}, changed = {0};

	add_summary(&text, &ordinary);
	const char *at = strstr(text.bytes, old);
	require(at != NULL, "the fixture has no %s", old);
	text_add_bytes(&changed, text.bytes, (size_t)(at - text.bytes));
	text_add(&changed, new);
	text_add(&changed, at + strlen(old));
	write_text(path, "summary.json", &changed);
	text_deinit(&text);
}

Test(report, an_invalid_summary_is_refused)
{
	static const struct {
		const char *old, *new, *line;
	} cases[] = {
		{"\"quire-result-1\"", "\"quire-result-9\"",
			"field schema: found \"quire-result-9\", expected \"quire-result-1\""},
		{"\"status\": \"complete\"", "\"status\": \"fine\"",
			"field status: found \"fine\""},
		{"\"verdict\": \"backlogged\"", "\"verdict\": 1", "field load.verdict: found 1"},
		{"\"calibrated\": false", "\"calibrated\": null", "field calibrated: found null"},
		{"\"preemptions\"", "\"preemption\"", "field preemptions: found nothing"},
		{"\"hit_rate\": 0.0606", "\"hit_rate\": \"6 %\"",
			"field prefix_cache.hit_rate: found \"6 %\", expected a number or null"},
		{"\"finished\": 12028", "\"finished\": null",
			"field requests.finished: found null, expected a number"},
		{"\"finished\": 12028", "\"finished\": -2", "found -2, expected a number >= 0"},
		{"\"p99\": 2240", "\"p99\": []", "field latency_ms.queue.p99: found an array"},
		{"\"steps\": 4000", "\"steps\": 1e999", "summary.json"},
		{"\"config\": {", "\"config\": 5, \"other\": {", "field config: found 5"},
		{"}\n", "", "summary.json"},
	};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	make_result(folder, "run", &ordinary, path);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		change_summary(path, cases[i].old, cases[i].new);
		require_refusal(folder, path, STATUS_INPUT, cases[i].line);
	}
	temporary_remove(folder);
}

Test(report, a_broken_table_is_refused)
{
	static const struct {
		const char *name, *text, *line;
	} cases[] = {
		{"latency.tsv", "", "latency.tsv:1: found an empty file"},
		{"latency.tsv", "metric\tupper_ns\n", "latency.tsv:1: column count is missing"},
		{"latency.tsv", "upper_ns\tcount\n", "latency.tsv:1: column metric is missing"},
		{"latency.tsv", "metric\tupper_ns\tcount\nttft\t5\tx7\n",
			"latency.tsv:2: column count: found 'x7', expected a number"},
		{"latency.tsv", "metric\tupper_ns\tcount\nttft\t5\t1\nttft\t7\n",
			"latency.tsv:3: found 2 columns, expected the header's 3"},
		{"latency.tsv", "metric\tupper_ns\tcount\nttft\t-5\t1\n", "found '-5'"},
		{"latency.tsv", "metric\tupper_ns\tcount\nttft\tnan\t1\n", "found 'nan'"},
		{"latency.tsv", "metric\tupper_ns\tcount\r\nttft\t5\t1\r\n",
			"latency.tsv:1: found a carriage return"},
		{"timeline.tsv", "time_s\twidth_s\n", "timeline.tsv:1: column running is missing"},
	};
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct text whole = {0};

	temporary_folder(folder);
	make_result(folder, "run", &ordinary, path);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		add_latency(&whole, 3);
		write_text(path, "latency.tsv", &whole);
		temporary_write(path, cases[i].name, cases[i].text, NULL);
		require_refusal(folder, path, STATUS_INPUT, cases[i].line);
	}
	temporary_remove(folder);
}

Test(report, a_folder_without_a_result_is_refused)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char file[TEMPORARY_PATH_BYTES + 32];

	temporary_folder(folder);
	require_refusal(folder, folder, STATUS_FILE, "it has no summary.json");
	make_result(folder, "run", &ordinary, path);
	snprintf(file, sizeof(file), "%s/step_grid.tsv", path);
	require(unlink(file) == 0, "no %s", file);
	require_refusal(folder, path, STATUS_FILE, "step_grid.tsv: No such file");
	temporary_remove(folder);
}

Test(report, an_older_page_survives_a_failure)
{
	char folder[TEMPORARY_PATH_BYTES], out[TEMPORARY_PATH_BYTES];
	char path[TEMPORARY_PATH_BYTES], part[TEMPORARY_PATH_BYTES + 8];
	struct error error = {0};
	const char *directory = folder;

	temporary_folder(folder);
	temporary_write(folder, "page.html", "old", out);
	require_equal(report_write(&directory, 1, out, &error), STATUS_FILE);
	char *page = file_read(out, NULL);
	require(strcmp(page, "old") == 0, "the old page is gone");
	free(page);

	/* The page is made beside the old one, here where it cannot be. */
	make_result(folder, "run", &ordinary, path);
	snprintf(part, sizeof(part), "%s.part", out);
	require(mkdir(part, 0777) == 0, "cannot make %s", part);
	directory = path;
	require_equal(report_write(&directory, 1, out, &error), STATUS_FILE);
	page = file_read(out, NULL);
	require(strcmp(page, "old") == 0, "the old page is gone");
	free(page);
	temporary_remove(folder);
}

/* ---- the command ---- */

static int run_command(int argc, const char *const *argv)
{
	char *copy[16] = {0};

	for (int i = 0; i < argc; i++) {
		copy[i] = strdup(argv[i]);
	}
	int code = command_run(&command_report, argc, copy);
	for (int i = 0; i < argc; i++) {
		free(copy[i]);
	}
	return code;
}

Test(report, the_command_checks_its_arguments)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	char out[TEMPORARY_PATH_BYTES + 16];

	temporary_folder(folder);
	make_result(folder, "run", &ordinary, path);
	snprintf(out, sizeof(out), "%s/page.html", folder);
	const char *nothing[] = {"report"};
	const char *no_out[] = {"report", path};
	const char *nine[] = {"report", "a", "b", "c", "d", "e", "f", "g", "h", "i", "--out", out};
	const char *good[] = {"report", path, "--out", out};
	const char *help[] = {"report", "--help"};

	require_equal(run_command(1, nothing), 2);
	require_equal(run_command(2, no_out), 2);
	require_equal(run_command(12, nine), 2);
	require(access(out, F_OK) != 0, "wrong use wrote a page");
	require_equal(run_command(4, good), 0);
	require(access(out, F_OK) == 0, "no page");
	require_equal(run_command(2, help), 0);
	temporary_remove(folder);
}

/* ---- numbers ---- */

Test(report, numbers_are_written_for_people)
{
	static const struct {
		enum number_format format;
		double value;
		const char *text;
	} cases[] = {
		{NUMBER_COUNT, 0, "0"},
		{NUMBER_COUNT, 999, "999"},
		{NUMBER_COUNT, 12031, "12,031"},
		{NUMBER_COUNT, 144409080, "144,409,080"},
		{NUMBER_RATE, 3983.25, "3,983"},
		{NUMBER_RATE, 99.97, "100"},
		{NUMBER_RATE, 40.02, "40.0"},
		{NUMBER_RATE, 3.3967, "3.40"},
		{NUMBER_RATE, 0.000283, "0.000283"},
		{NUMBER_RATE, 1e-12, "0.000000"},
		{NUMBER_SHARE, 0.0606, "6.06\u00a0%"},
		{NUMBER_SHARE, 0.9321, "93.2\u00a0%"},
		{NUMBER_SHARE, 1, "100.0\u00a0%"},
		{NUMBER_TIME_MS, 0, "0\u00a0ms"},
		{NUMBER_TIME_MS, 0.25, "250\u00a0\u00b5s"},
		{NUMBER_TIME_MS, 855.4, "855\u00a0ms"},
		{NUMBER_TIME_MS, 999.6, "1.00\u00a0s"},
		{NUMBER_TIME_S, 3537, "3,537\u00a0s"},
	};
	struct text text = {0};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text.byte_count = 0;
		text_add_number(&text, cases[i].format, true, cases[i].value);
		require(strcmp(text.bytes, cases[i].text) == 0, "found %s, expected %s", text.bytes,
			cases[i].text);
	}
	text_deinit(&text);
}

Test(report, differences_are_written_for_people)
{
	static const struct {
		enum number_format format;
		double base, value;
		const char *text;
	} cases[] = {
		{NUMBER_RATE, 100, 103.2, "+3.20\u00a0%"},
		{NUMBER_RATE, 100, 50, "\u221250.0\u00a0%"},
		{NUMBER_RATE, 100, 100, "="},
		{NUMBER_RATE, 100, 100.001, "\u2248"},
		{NUMBER_RATE, 100, 123000, "\u00d71,230"},
		{NUMBER_COUNT, 0, 5, "from 0"},
		{NUMBER_SHARE, 0.06, 0.072, "+1.20\u00a0pt"},
		{NUMBER_SHARE, 0, 0.5, "+50.0\u00a0pt"},
	};
	struct text text = {0};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		text.byte_count = 0;
		text_add_difference(&text, cases[i].format, &cases[i].base, &cases[i].value);
		require(strcmp(text.bytes, cases[i].text) == 0, "found %s, expected %s", text.bytes,
			cases[i].text);
	}
	text_deinit(&text);
}
