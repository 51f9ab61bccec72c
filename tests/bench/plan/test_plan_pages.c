#include "reports/results/plan_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* A page is made of whatever `quire plan` writes, and what it writes is in order: an answer of one,
   of the least there can be, a bound or none, with both intervals, one or neither. */

enum { LINE_BYTES = 1024 };

#define DEMO                                                                                       \
	"plan " QUIRE_SOURCE_DIR "/workloads/traces/demo.jsonl "                                   \
	"--precision 0.2 "

static void require_ordered(
	const char *name, const struct plan_interval *interval, struct result_value pass)
{
	const struct result_value low = interval->low, high = interval->high;

	require(!low.has_value || !high.has_value || low.value <= high.value, "%s: %g to %g", name,
		low.value, high.value);
	require(!low.has_value || low.value > 0, "%s from %g", name, low.value);
	require((!low.has_value && !high.has_value) || pass.has_value, "%s of no answer", name);
}

/* Where replicates were asked for, an answer has an interval or says why there is none. */
static void require_told(const struct plan_answer *answer, bool asks)
{
	const struct plan_interval *sampling = &answer->sampling.interval;
	const struct result_value pass = plan_answer_pass(answer);
	double least = 1 + (answer->spare.has_value ? answer->spare.value : 0);
	bool is_told = sampling->low.has_value && sampling->high.has_value;

	require_ordered("sampling", sampling, pass);
	require_ordered("model", &answer->model.interval, pass);
	if (strcmp(answer->vary, "replicas") == 0) {
		require(!sampling->low.has_value || sampling->low.value >= least,
			"%g replicas, fewer than %g", sampling->low.value, least);
	}
	require(is_told || !asks || !pass.has_value || answer->alone.misses.value > 0 ||
			answer->sampling.text[0] != '\0',
		"no interval and no reason");
	require(is_told || (!sampling->low.has_value && !sampling->high.has_value) ||
			strstr(answer->sampling.text, " end: ") != NULL,
		"an open end without a reason: %s", answer->sampling.text);
}

/* Plans with the options, reads that and has a page of it. */
static void require_page(const char *folder, const char *options, bool asks)
{
	char line[LINE_BYTES], path[TEMPORARY_PATH_BYTES + 32];
	struct error error = {0};
	struct plan_file plan;

	snprintf(line, sizeof(line), DEMO "%s --out p --force", options);
	struct process_result planned = quire_run_in(folder, line);
	require(planned.code <= 1, "%s: %s", options, planned.err);
	process_result_free(&planned);
	snprintf(path, sizeof(path), "%s/p", folder);
	require(plan_file_open(&plan, path, &error) == STATUS_OK, "%s: %s", options, error.text);
	require_told(&plan.answer, asks);
	for (uint32_t i = 0; i < plan.configuration_count; i++) {
		require_told(&plan.configurations[i].answer, asks);
	}
	plan_file_close(&plan);
	struct process_result paged = quire_run_in(folder, "report p --out p.html");
	require(paged.code == 0, "%s: %s", options, paged.err);
	process_result_free(&paged);
	snprintf(path, sizeof(path), "%s/p.html", folder);
	char *page = file_read(path, NULL);
	require(strstr(page, "</html>") != NULL, "%s", options);
	free(page);
}

#define WORD(list) list[prop_below(prop, sizeof(list) / sizeof((list)[0]))]

static void body_page(struct prop *prop, const void *context)
{
	static const char *const loads[] = {"--target-speedup 1", "--target-speedup 1.2",
		"--target-rate 2", "--target-rate 30", "--target-speedup 20", "", "--vary rate",
		"--vary concurrency", "--vary kv-blocks", "--vary kv-blocks --speedup 0.5"};
	static const char *const limits[] = {"--slo-ttft-ms 2000 --slo-tpot-ms 80",
		"--slo 'ttft.p95<=2000'", "--slo-ttft-ms 60", "--slo-e2e-ms 1",
		"--slo-e2e-ms 30000"};
	static const char *const routes[] = {"", "--router prefix", "--router least-requests"};
	static const char *const others[] = {"", "", "--loop shared",
		"--gpu h200-datasheet --grid tensor-parallel-size=1,2", "--try '--max-num-seqs 4'",
		"--cost-per-gpu-hour 3"};
	static const char *const spares[] = {"", "--spare 1", "--spare 2"};
	static const uint32_t counts[] = {8, 0, 1, 40};
	char folder[TEMPORARY_PATH_BYTES], options[LINE_BYTES / 2], line[TEMPORARY_PATH_BYTES + 16];
	uint64_t load = prop_below(prop, sizeof(loads) / sizeof(loads[0]));
	bool has_replicas = load < 5;
	uint32_t replicates = WORD(counts);

	(void)context;
	temporary_folder(folder);
	snprintf(options, sizeof(options),
		"%s %s --attain 0.9 %s %s %s --max-requests %u "
		"--replicates %u",
		loads[load], WORD(limits), has_replicas ? WORD(routes) : "",
		has_replicas ? WORD(spares) : "", WORD(others), prop_range(prop, 2, 150),
		replicates);
	prop_log(prop, "%s", options);
	require_page(folder, options, replicates > 0);
	snprintf(line, sizeof(line), "rm -rf '%s'", folder);
	require_equal(system(line), 0);
}

Test(plan_pages, are_made_of_all_plans, .timeout = 300)
{
	const struct prop_options options = {
		.name = "pages of plans", .body = body_page, .trials = 40, .timeout_s = 120};

	cr_assert(prop_holds(&options));
}

/* The shapes that are rare among those that are drawn. */
Test(plan_pages, are_made_of_each_shape, .timeout = 450)
{
	static const char *const shapes[] = {
		"--target-speedup 1 --slo-ttft-ms 2000 --slo-tpot-ms 80",
		"--target-rate 2 --slo-ttft-ms 2000 --slo-tpot-ms 80",
		"--target-rate 2 --slo 'ttft.p99<=2000' --router least-requests",
		"--target-speedup 1 --slo-ttft-ms 2000 --spare 1",
		"--target-speedup 3 --slo-ttft-ms 2000 --spare 2 --router prefix",
		"--target-rate 2 --slo-ttft-ms 2000 --gpu h200-datasheet --grid "
		"tensor-parallel-size=1,2",
		"--slo-ttft-ms 2000 --vary concurrency --max-requests 20",
		"--slo-ttft-ms 2000 --loop shared --max-requests 500",
		"--slo-ttft-ms 2000 --slo-tpot-ms 80 --max-requests 600",
		"--slo-ttft-ms 2000 --vary kv-blocks --max-requests 20 --kv-blocks 120",
		"--slo-ttft-ms 1"};
	char folder[TEMPORARY_PATH_BYTES], line[TEMPORARY_PATH_BYTES + 16];

	temporary_folder(folder);
	for (uint32_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		require_page(folder, shapes[i], true);
	}
	snprintf(line, sizeof(line), "rm -rf '%s'", folder);
	require_equal(system(line), 0);
}

/* There are eight colours: the ninth configuration has that of the first. */
Test(plan_pages, say_where_colours_begin_again, .timeout = 100)
{
	static const char *const grids[] = {"8,9,10,11,12,13,14,15", "8,9,10,11,12,13,14,15,16"};
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	for (uint32_t i = 0; i < 2; i++) {
		struct process_result made = shell_run(folder,
			"'" QUIRE_EXECUTABLE "' plan '" QUIRE_SOURCE_DIR
			"/workloads/traces/demo.jsonl' --max-requests 100 --slo-ttft-ms 2000 "
			"--replicates 0 --precision 0.5 --grid max-num-seqs=%s --out p%u && "
			"'" QUIRE_EXECUTABLE "' report p%u --out p.html",
			grids[i], i, i);
		require(made.code == 0, "%s", made.err);
		process_result_free(&made);
		struct process_result told =
			shell_run(folder, "grep -c 'colours begin again' p.html");
		require((told.code == 0) == (i == 1), "%s", told.out);
		process_result_free(&told);
	}
	temporary_remove(folder);
}

/* Where no request has a limit of its own, no page says that requests were within the SLO. */
Test(plan_pages, say_what_goodput_counts, .timeout = 100)
{
	static const char *const limits[] = {"--slo 'ttft.p99<=2000'", "--slo-ttft-ms 2000"};
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	for (uint32_t i = 0; i < 2; i++) {
		struct process_result told = shell_run(folder,
			"'" QUIRE_EXECUTABLE "' plan '" QUIRE_SOURCE_DIR
			"/workloads/traces/demo.jsonl' --max-requests 100 %s --replicates 0 "
			"--precision 0.5 --out g%u >said && '" QUIRE_EXECUTABLE
			"' report g%u --out g.html && grep -c 'Requests a second that finished' "
			"g.html; grep -c 'were within the SLO' g.html",
			limits[i], i, i);
		require(strcmp(told.out, i == 0 ? "1\n0\n" : "0\n1\n") == 0, "%s: %s%s", limits[i],
			told.out, told.err);
		process_result_free(&told);
	}
	temporary_remove(folder);
}
