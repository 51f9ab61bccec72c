#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/commands/commands.h"
#include "engine/base/status.h"
#include "reports/report.h"
#include "tests/harness/made_result.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* A simulated run against a real one: the section of the page, and the table of errors. */

#define STEP_HEADER                                                                                \
	"step\telapsed_ns\tmode\tdecode_rows\tprefill_rows\tprefill_tokens\tcached_tokens\t"       \
	"decode_context_tokens\tprefill_attention_pairs\tsampled_rows\n"

static const struct made_result measured = {
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
static struct made_result simulated_of(const struct made_result *real)
{
	struct made_result sim = *real;

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

static void make_pair(
	struct pair *pair, const struct made_result *real, const struct made_result *sim)
{
	temporary_folder(pair->folder);
	make_result(pair->folder, "measured", real, pair->real);
	make_result(pair->folder, "simulated", sim, pair->sim);
}

Test(page_fidelity, a_simulated_run_is_compared_with_the_real_one)
{
	struct made_result sim = simulated_of(&measured);
	struct pair pair;

	make_pair(&pair, &measured, &sim);
	const char *directories[] = {pair.sim, pair.real};
	char *page = make_page(pair.folder, directories, 2, "page.html");
	require_has(page, "<h1>Simulated against real</h1>");
	require_has(page, "<span class=\"name run-1\">real</span> is measured, of runner cuda; ");
	require_has(page, "</strong> on <strong>NVIDIA H200</strong> (runner cuda");
	require_has(page, "</strong> on <strong>h200</strong> (runner sim");
	require_has(
		page, "<span class=\"name run-2\">simulated</span> is simulated, of runner sim.");
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

Test(page_fidelity, settings_that_spoil_a_fidelity_are_named)
{
	struct made_result sim = simulated_of(&measured);
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

/* How far two runs do the same work: in every step, in as many as one has, in none. */
Test(page_fidelity, equal_steps_are_counted)
{
	static const char *const first = "0\t4000000\tnone\t0\t1\t50\t0\t0\t1275\t1\n";
	static const char *const rest = "1\t1000000\tnone\t1\t0\t0\t0\t51\t0\t1\n"
					"2\t2000000\tnone\t1\t0\t0\t0\t52\t0\t1\n";
	static const char *const other = "0\t4000000\tnone\t0\t1\t49\t0\t0\t1225\t1\n";
	const struct {
		const char *begin, *end, *sentence;
	} cases[] = {
		{first, rest, "All 3 steps do the same work in both runs. Step by step"},
		{first, "", "The first step does the same work in both runs."},
		{other, rest, "Already the first steps do different work, so no two can be "},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made_result sim = simulated_of(&measured);
		struct text steps = {0};
		struct pair pair;
		text_format(&steps, STEP_HEADER "%s%s", cases[i].begin, cases[i].end);
		sim.steps = steps.bytes;
		make_pair(&pair, &measured, &sim);
		const char *directories[] = {pair.sim, pair.real};
		char *page = make_page(pair.folder, directories, 2, "page.html");
		require_has(page, cases[i].sentence);
		free(page);
		text_deinit(&steps);
		temporary_remove(pair.folder);
	}
}

/* Two runs of one kind stay what they were: the first is compared with, and nothing is assumed. */
Test(page_fidelity, two_runs_of_one_kind_are_no_fidelity)
{
	struct made_result again = measured;
	struct pair pair;

	make_pair(&pair, &measured, &again);
	const char *directories[] = {pair.real, pair.sim};
	char *page = make_page(pair.folder, directories, 2, "page.html");
	require_has(page, "<h1>2 replays compared</h1>");
	require_lacks(page, "How far the simulation is off");
	free(page);
	temporary_remove(pair.folder);
}

Test(page_fidelity, runs_of_different_traces_are_no_fidelity)
{
	struct made_result sim = simulated_of(&measured);
	struct pair pair;
	char path[TEMPORARY_PATH_BYTES + 16];
	struct error error = {0};

	sim.trace_hash = "abcd";
	make_pair(&pair, &measured, &sim);
	const char *directories[] = {pair.real, pair.sim};
	snprintf(path, sizeof(path), "%s/page.html", pair.folder);
	require_equal(report_write(directories, 2, path, NULL, &error), STATUS_INPUT);
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

Test(page_fidelity, the_errors_are_a_table_too)
{
	struct made_result sim = simulated_of(&measured);
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
