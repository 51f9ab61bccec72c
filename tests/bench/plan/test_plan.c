#include "reports/results/plan_file.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/plan/plan.h"
#include "bench/record/run_outcome.h"
#include "engine/base/number.h"
#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* `quire plan` as its users run it: queues whose capacity a formula gives, what must grow with
   what, runs repeated by `quire replay`, and every refusal. */

enum { LINE_BYTES = 1024, PATH_BYTES = 600, INTERRUPT_US = 2500000 };

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	char line[PATH_BYTES + 16];

	snprintf(line, sizeof(line), "rm -rf '%s'", folder);
	require_equal(system(line), 0);
}

TestSuite(plan, .init = set_up, .fini = tear_down);

/* Runs `quire FORMAT...`, in which @ is the folder, and demands the exit code. */
static char *quire(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
static char *quire(int code, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	return quire_output(folder, code, line);
}

/* On the Pareto front is what passes at a load and is beaten by no other: none has as much of
   throughput a GPU and of speed a user, and more of one of them. So of equal ones all are. */
static void require_front(const struct plan_file *plan)
{
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		const struct plan_configuration *own = &plan->configurations[i];
		bool is_first = own->throughput_per_gpu.has_value && own->speed_per_user.has_value;
		for (uint32_t k = 0; k < plan->configuration_count && is_first; k++) {
			const struct plan_configuration *other = &plan->configurations[k];
			double more =
				other->throughput_per_gpu.value - own->throughput_per_gpu.value;
			double faster = other->speed_per_user.value - own->speed_per_user.value;
			bool has_both = other->throughput_per_gpu.has_value &&
					other->speed_per_user.has_value;
			is_first = !(has_both &&
				     ((more > 0 && faster >= 0) || (more >= 0 && faster > 0)));
		}
		require(own->on_pareto_front == is_first, "%s is %son the front", own->name,
			is_first ? "not " : "");
		require_equal(own->rank, i + 1);
	}
}

/* The run of a configuration at the load that passes; NULL: none does. */
static const struct plan_probe *run_that_passes(const struct plan_file *plan, uint32_t index)
{
	struct result_value pass = plan_answer_pass(&plan->configurations[index].answer);

	for (uint64_t i = 0; i < plan->probe_count && pass.has_value; i++) {
		const struct plan_probe *probe = &plan->probes[i];
		bool is_main = probe->purpose != PROBE_SAMPLING && probe->purpose != PROBE_MODEL &&
			       probe->purpose != PROBE_ALONE;
		if (is_main && probe->configuration == index &&
			fabs(probe->load.value - pass.value) <= 1e-6) {
			return probe;
		}
	}
	require(!pass.has_value, "%s has no run at its answer", plan->configurations[index].name);
	return NULL;
}

/* Equal up to the places of plan.tsv. */
static void require_about(const char *name, struct result_value found, struct result_value expected)
{
	require(found.has_value == expected.has_value, "%s: a value %s", name,
		expected.has_value ? "is missing" : "that is not there");
	require(!found.has_value ||
			fabs(found.value - expected.value) <= 2e-6 + 1e-5 * expected.value,
		"%s is %.9g, not %.9g", name, found.value, expected.value);
}

static struct result_value some(bool has_value, double value)
{
	return (struct result_value){has_value, has_value ? value : 0};
}

/* The work of what arrives over the time in which it arrives, from the share of capacity that was
   used until the last answer. */
static double demand_of(const struct plan_file *plan, const struct plan_probe *run)
{
	double requests = plan->trace_requests.value;
	double window_s = requests * run->attained.value / run->goodput_requests_per_s.value;

	return run->utilisation.value * window_s * run->offered_requests_per_s.value / requests;
}

/* What an answer says follows from the run at its load: the speed of a user from the median time of
   a token, goodput from the load that is offered, or that there is capacity for, and the share that
   is within the limits, money from GPUs and tokens. Where no load fails, goodput may be what the
   run had. */
static void require_figures(const struct plan_file *plan, uint32_t index)
{
	const struct plan_configuration *own = &plan->configurations[index];
	const struct plan_answer *answer = &own->answer;
	const struct plan_probe *run = run_that_passes(plan, index);
	struct result_value best = plan->configurations[0].goodput_per_gpu;

	if (run == NULL) {
		require(!own->goodput_per_gpu.has_value && !answer->attained.has_value &&
				!own->on_pareto_front,
			"%s has figures and no answer", own->name);
		return;
	}
	bool is_offered =
		run->offered_requests_per_s.has_value && plan_answer_fail(answer).has_value;
	double goodput = is_offered ? run->offered_requests_per_s.value * run->attained.value
				    : run->goodput_requests_per_s.value;
	double demand = is_offered && run->utilisation.has_value ? demand_of(plan, run) : 0;
	double gpus = answer->gpus.value, tokens = answer->output_tokens_per_s.value;
	double price = answer->currency_per_gpu_hour.value;
	bool has_price = answer->currency_per_gpu_hour.has_value;
	require_about("attained", answer->attained, run->attained);
	require_about("the load", answer->offered_requests_per_s, run->offered_requests_per_s);
	require_about("outside_share", answer->outside_share, run->outside_share);
	require_about("replicas", answer->replicas, run->replicas);
	require_about("utilisation", own->utilisation, run->utilisation);
	require_about("speed", own->speed_per_user,
		some(run->tpot_p50_ms.value > 0, 1000 / run->tpot_p50_ms.value));
	if (is_offered || !run->offered_requests_per_s.has_value) {
		/* The demand is of numbers of six places. */
		if (demand > 1) {
			double found = answer->goodput_requests_per_s.value;
			require(fabs(found * demand / goodput - 1) < 1e-3, "goodput is %g, not %g",
				found, goodput / demand);
		} else {
			require_about(
				"goodput", answer->goodput_requests_per_s, some(true, goodput));
		}
	}
	require_about("goodput a GPU", own->goodput_per_gpu,
		some(true, answer->goodput_requests_per_s.value / gpus));
	require_about("throughput a GPU", own->throughput_per_gpu, some(true, tokens / gpus));
	require_about("a million tokens", answer->cost_per_million_tokens,
		some(has_price && tokens > 0, gpus * price / 3600 / tokens * 1e6));
	require_about("of the best", own->against_best,
		some(best.value > 0, own->goodput_per_gpu.value / best.value));
}

/* Goodput a GPU is in proportion to the load; of more replicas a GPU has the less of it. */
static void require_interval(const struct plan_configuration *own)
{
	const struct plan_interval *loads = &own->answer.sampling.interval;
	const struct plan_interval *found = &own->goodput_per_gpu_interval;
	double pass = plan_answer_pass(&own->answer).value, goodput = own->goodput_per_gpu.value;
	bool is_there = own->goodput_per_gpu.has_value;

	if (!own->answer.is_least) {
		require_about("the low end", found->low,
			some(is_there && loads->low.has_value, goodput * loads->low.value / pass));
		require_about("the high end", found->high,
			some(is_there && loads->high.has_value,
				goodput * loads->high.value / pass));
	} else if (strcmp(own->answer.vary, "replicas") == 0) {
		require_about("the low end", found->low,
			some(is_there && loads->high.has_value,
				goodput * pass / loads->high.value));
		require_about("the high end", found->high,
			some(is_there && loads->low.has_value, goodput * pass / loads->low.value));
	}
}

/* A search to its end for the least bounds nothing; loads that fail are told from low to high. */
static void require_bounds(const struct plan_file *plan, const struct plan_answer *answer)
{
	require(!(plan->is_complete && answer->is_least && answer->is_bound),
		"the least number is a bound");
	for (uint32_t i = 0; i < answer->stretch_count; i++) {
		const struct plan_stretch *stretch = &answer->stretches[i];
		require(stretch->from <= stretch->to && (i == 0 || stretch->from > stretch[-1].to),
			"stretch %u is out of order", i);
	}
}

static void open_plan(struct plan_file *plan, const char *name)
{
	static char path[PATH_BYTES];
	struct error error = {0};

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	require(plan_file_open(plan, path, &error) == STATUS_OK, "%s", error.text);
	require_front(plan);
	for (uint32_t i = 0; i < plan->configuration_count; i++) {
		require_figures(plan, i);
		require_interval(&plan->configurations[i]);
		require_bounds(plan, &plan->configurations[i].answer);
	}
}

/* The load that passes of `quire plan OPTIONS`. */
static double answer_of(const char *options)
{
	static uint32_t number;
	struct plan_file plan;
	char name[32];

	snprintf(name, sizeof(name), "answer%u", number++);
	free(quire(0, "plan %s --replicates 0 --out @/%s", options, name));
	open_plan(&plan, name);
	struct result_value pass = plan_answer_pass(&plan.answer);
	require(pass.has_value, "no answer");
	plan_file_close(&plan);
	return pass.value;
}

/* ---- queues with a known capacity ---- */

static void set_all(cJSON *curve, double ns)
{
	cJSON *number, *list = cJSON_GetObjectItem(curve, "ns");

	cJSON_ArrayForEach(number, list)
	{
		cJSON_SetNumberValue(number, ns);
	}
}

/* A profile whose prefill steps take `step_ns` and `token_ns` for each token of a prompt, and all
   else nothing; but for weights and K and V at a rate at which they take about a microsecond. */
static void write_profile(double step_ns, double token_ns)
{
	char *text = file_read(QUIRE_SOURCE_DIR "/sim/profiles/h200-qwen3-0.6b.json", NULL);
	char path[PATH_BYTES];
	cJSON *root = cJSON_Parse(text), *curve;
	cJSON *prices = cJSON_GetObjectItem(root, "prices");
	cJSON *limits = cJSON_GetObjectItem(root, "limits");

	cJSON_ArrayForEach(curve, prices)
	{
		set_all(curve, 0);
	}
	set_all(cJSON_GetObjectItem(prices, "eager"), step_ns);
	set_all(cJSON_GetObjectItem(prices, "eager_tokens"), token_ns);
	set_all(cJSON_GetObjectItem(prices, "kv_all"), 0.2); /* no less than its bytes take */
	cJSON_SetNumberValue(
		cJSON_GetObjectItem(cJSON_GetObjectItem(limits, "read_rate"), "value"), 1e6);
	cJSON_SetNumberValue(
		cJSON_GetObjectItem(cJSON_GetObjectItem(limits, "flop_rate"), "value"), 1e6);
	char *changed = cJSON_Print(root);
	snprintf(path, sizeof(path), "%s/profile.json", folder);
	file_write(path, changed, strlen(changed));
	free(changed);
	cJSON_Delete(root);
	free(text);
}

/* One server: a seat, and one output token, so that a request is one step. */
#define ONE_SERVER                                                                                 \
	"@/trace.jsonl --model qwen3-0.6b --gpu @/profile.json --max-num-seqs 1 "                  \
	"--enable-prefix-caching off --precision 0.002 --vary rate "

/* Poisson arrivals at rate r, service of always D: the mean time in the system is
   D + r D^2 / (2 (1 - r D)), by Pollaczek and Khinchine. With D = 10 ms it is 30 ms at r = 80/s. */
Test(plan, finds_the_capacity_of_a_queue_with_constant_service)
{
	write_profile(10e6, 0);
	free(quire(0, "trace make --requests 60000 --input 20 --output 1 --rate 50 --seed 3 "
		      "--out @/trace.jsonl"));
	double rate = answer_of(ONE_SERVER "--rate 50 --slo 'ttft.mean<=30'");
	require(fabs(rate / 80 - 1) < 0.01, "found %g, expected 80", rate);
}

/* Service of 2 ms and 0.1 ms a token of prompts of 1 to 199 tokens, all alike likely: mean 12 ms,
   mean square 12^2 + 0.01 * (199^2 - 1) / 12 = 177 ms^2. The mean wait is r E[S^2] / (2 (1 - r
   E[S])), which at r = 60/s is 0.06 * 177 / (2 * (1 - 0.72)) = 18.964 ms. */
Test(plan, finds_the_capacity_of_a_queue_with_drawn_service)
{
	write_profile(2e6, 100e3);
	free(quire(0, "trace make --requests 60000 --input 1:199 --output 1 --rate 50 --seed 3 "
		      "--out @/trace.jsonl"));
	double rate = answer_of(ONE_SERVER "--rate 50 --slo 'ttft.mean<=30.964'");
	require(fabs(rate / 60 - 1) < 0.01, "found %g, expected 60", rate);
}

/* Arrivals at equal distances never wait below 100/s, and above it each waits longer than the one
   before. */
Test(plan, finds_the_capacity_of_a_queue_without_chance)
{
	write_profile(10e6, 0);
	free(quire(0, "trace make --requests 20000 --input 20 --output 1 --rate 50 --seed 3 "
		      "--out @/trace.jsonl"));
	double rate =
		answer_of(ONE_SERVER "--arrivals constant --rate 1 --slo-ttft-ms 20 --attain 1");
	require(rate > 99.8 && rate <= 100.1, "found %g, expected 100", rate);
}

/* n servers of 10 ms behind a router, arrivals at equal distances: rate / 100, rounded up. */
Test(plan, finds_the_least_number_of_replicas)
{
	static const struct {
		const char *rate;
		double replicas;
	} cases[] = {{"95", 1}, {"195", 2}, {"205", 3}, {"690", 7}};

	write_profile(10e6, 0);
	free(quire(0, "trace make --requests 6000 --input 20 --output 1 --rate 50 --seed 3 "
		      "--out @/trace.jsonl"));
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint32_t spare = 0; spare < 3; spare += 2) {
			char options[LINE_BYTES];
			snprintf(options, sizeof(options),
				"@/trace.jsonl --gpu @/profile.json --max-num-seqs 1 "
				"--enable-prefix-caching off --arrivals constant --slo-ttft-ms 20 "
				"--router round-robin --target-rate %s --spare %u",
				cases[i].rate, spare);
			double found = answer_of(options);
			require(found == cases[i].replicas + spare, "%s/s, %u spare: found %g",
				cases[i].rate, spare, found);
		}
	}
}

/* Replicas to spare fail before anything comes: the last ones, so that the first are there. */
Test(plan, the_last_replicas_are_spared)
{
	struct plan_file plan;

	write_profile(10e6, 0);
	free(quire(0, "trace make --requests 600 --input 20 --output 1 --rate 50 --seed 3 "
		      "--out @/trace.jsonl"));
	for (uint32_t spare = 0; spare < 4; spare++) {
		free(quire(0,
			"plan @/trace.jsonl --gpu @/profile.json --max-num-seqs 1 --arrivals "
			"constant --slo-ttft-ms 20 --router round-robin --target-rate 195 "
			"--replicates 0 --spare %u --out @/spare%u",
			spare, spare));
		char name[16];
		snprintf(name, sizeof(name), "spare%u", spare);
		open_plan(&plan, name);
		require(plan.probe_count > 0, "no run");
		for (uint64_t i = 0; i < plan.probe_count; i++) {
			const struct plan_probe *probe = &plan.probes[i];
			char expected[128] = "", *end = expected;
			uint32_t count = (uint32_t)probe->replicas.value;
			for (uint32_t j = count - spare; j < count; j++) {
				end += sprintf(end, "%sfail:%u@0",
					j == count - spare ? "--outages " : ",", j);
			}
			bool is_alone = probe->purpose == PROBE_ALONE;
			const char *found = strstr(probe->options, "--outages ");
			require(probe->lost.value == (is_alone ? 0 : spare), "%g are lost",
				probe->lost.value);
			require((found == NULL) == (is_alone || spare == 0) &&
					(found == NULL ||
						strncmp(found, expected, strlen(expected)) == 0),
				"%s, expected %s", probe->options, expected);
		}
		plan_file_close(&plan);
	}
}

/* The limit is of a figure of the run, whose replicas are gone when it is judged. */
Test(plan, judges_figures_of_several_replicas)
{
	write_profile(10e6, 0);
	free(quire(0, "trace make --requests 6000 --input 20 --output 1 --rate 50 --seed 3 "
		      "--out @/trace.jsonl"));
	double found = answer_of(
		"@/trace.jsonl --gpu @/profile.json --max-num-seqs 1 --enable-prefix-caching off "
		"--arrivals constant --slo 'ttft.max<=20' --router round-robin --target-rate 195 "
		"--jobs 2");
	require(found == 2, "found %g", found);
}

/* ---- what grows with what ---- */

#define TRACE QUIRE_SOURCE_DIR "/workloads/traces/demo.jsonl"
#define DEMO TRACE " --max-requests 250 --slo-ttft-ms 400 --slo-tpot-ms 40 "

static double demo_answer(const char *options)
{
	char line[LINE_BYTES];

	snprintf(line, sizeof(line), DEMO "%s", options);
	return answer_of(line);
}

static void require_growing(const char *const *options, uint32_t count)
{
	double before = 0;

	for (uint32_t i = 0; i < count; i++) {
		double found = demo_answer(options[i]);
		require(found >= before * 0.99, "%s: %g after %g", options[i], found, before);
		before = found;
	}
}

Test(plan, capacity_grows_with_memory_speed_and_replicas)
{
	require_growing((const char *const[]){"--kv-blocks 200", "--kv-blocks 400",
				"--kv-blocks 800", "--kv-blocks 4000"},
		4);
	require_growing((const char *const[]){"--step-time-scale 2", "--step-time-scale 1.2", "",
				"--step-time-scale 0.8"},
		4);
	require_growing((const char *const[]){"", "--replicas 2", "--replicas 4"}, 3);
}

/* ---- runs ---- */

static double figure(const cJSON *root, const char *section, const char *field)
{
	const cJSON *node = cJSON_GetObjectItem(cJSON_GetObjectItem(root, section), field);

	require(cJSON_IsNumber(node), "%s.%s is missing", section, field);
	return node->valuedouble;
}

static void require_near(double found, double expected, double size, const char *name)
{
	require(fabs(found - expected) <= size, "%s is %.9g in the plan and %.9g in the replay",
		name, found, expected);
}

static void require_latencies(const struct plan_probe *probe, const cJSON *latency)
{
	const struct {
		struct result_value found;
		const char *metric, *statistic;
	} cells[] = {
		{probe->ttft_p50_ms, "ttft", "p50"},
		{probe->ttft_p90_ms, "ttft", "p90"},
		{probe->ttft_p99_ms, "ttft", "p99"},
		{probe->tpot_p50_ms, "tpot", "p50"},
		{probe->tpot_p90_ms, "tpot", "p90"},
		{probe->tpot_p99_ms, "tpot", "p99"},
		{probe->e2e_p50_ms, "e2e", "p50"},
		{probe->e2e_p99_ms, "e2e", "p99"},
	};

	for (uint32_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
		double expected = figure(latency, cells[i].metric, cells[i].statistic);
		require_near(cells[i].found.value, expected, 1e-6, cells[i].metric);
	}
}

/* Each run of a plan is what `quire replay` finds with the options of its row. */
static void require_repeated(const struct plan_probe *probe, const char *trace)
{
	char *text = quire(0, "replay %s --json %s 2>@/notes", trace, probe->options);
	cJSON *summary = cJSON_Parse(text);
	require_near(probe->attained.value, figure(summary, "slo", "attained"), 2e-6, "attained");
	double goodput = figure(summary, "slo", "goodput_requests_per_s"); /* of six digits */
	require_near(probe->goodput_requests_per_s.value, goodput, 1e-5 * goodput, "goodput");
	require_near(probe->output_tokens_per_s.value,
		figure(summary, "throughput", "output_tokens_per_s"), 1e-2, "throughput");
	require_latencies(probe, cJSON_GetObjectItem(summary, "latency_ms"));
	const cJSON *load = cJSON_GetObjectItem(summary, "load");
	const cJSON *offered = cJSON_GetObjectItem(load, "offered_per_s");
	require(probe->offered_requests_per_s.has_value == cJSON_IsNumber(offered), "%s",
		probe->options);
	if (cJSON_IsNumber(offered)) {
		require_near(probe->offered_requests_per_s.value, offered->valuedouble,
			1e-5 * offered->valuedouble, "the load");
	}
	require(probe->has_verdict &&
			strcmp(verdict_name(probe->verdict),
				cJSON_GetObjectItem(load, "verdict")->valuestring) == 0,
		"%s has another verdict", probe->options);
	require_equal(
		probe->preemptions.value, cJSON_GetObjectItem(summary, "preemptions")->valuedouble);
	require_near(probe->outside_share.value, figure(summary, "time", "outside_time"), 2e-6,
		"the share outside");
	require_near(probe->hit_rate.value, figure(summary, "prefix_cache", "hit_rate"), 2e-6,
		"the hit rate");
	require_near(probe->utilisation.value, figure(summary, "load", "utilisation"), 2e-6,
		"utilisation");
	cJSON_Delete(summary);
	free(text);
}

Test(plan, each_run_is_what_replay_finds)
{
	struct plan_file plan;
	free(quire(0, "plan " DEMO "--replicates 8 --out @/plan"));
	open_plan(&plan, "plan");
	require(plan.probe_count > 8 && plan.is_complete, "%llu runs",
		(unsigned long long)plan.probe_count);
	bool has_pass = false, has_fail = false;
	for (uint64_t i = 0; i < plan.probe_count; i++) {
		const struct plan_probe *probe = &plan.probes[i];
		bool is_main = probe->purpose != PROBE_SAMPLING && probe->purpose != PROBE_MODEL;
		has_pass |= is_main && probe->load.value == plan.answer.highest_pass.value &&
			    probe->passes.value == 1;
		has_fail |= is_main && probe->load.value == plan.answer.lowest_fail.value &&
			    probe->passes.value == 0;
		require_repeated(probe, TRACE);
		require(probe->resample_seed.has_value == (probe->purpose == PROBE_SAMPLING) &&
				probe->resample_window_s.has_value ==
					probe->resample_seed.has_value,
			"%s", probe->options);
	}
	require(has_pass && has_fail, "the answer is not among the runs");
	require(plan.answer.lowest_fail.value <= plan.answer.highest_pass.value * 1.0101,
		"%g and %g are too far apart", plan.answer.highest_pass.value,
		plan.answer.lowest_fail.value);
	plan_file_close(&plan);
}

/* A run that cannot be made at its load is a row with the reason, and no outcome. With less than
   3 requests/s the warm-up is longer than what comes in 100 s. */
#define SHORT                                                                                      \
	TRACE " --duration 100 --warmup 300 --vary rate --replicates 0 --gpu " QUIRE_SOURCE_DIR    \
	      "/tests/fixtures/calibrated_profile.json "

static void require_voids(const char *name, const char *words, const char *text)
{
	struct plan_file plan;
	uint32_t count = 0;

	open_plan(&plan, name);
	for (uint64_t i = 0; i < plan.probe_count; i++) {
		const struct plan_probe *probe = &plan.probes[i];
		require((probe->failure != NULL) != probe->passes.has_value, "%s", probe->options);
		if (probe->failure != NULL) {
			require(strstr(probe->failure, "--warmup 300") != NULL &&
					!probe->attained.has_value && !probe->has_verdict,
				"%s", probe->failure);
			count++;
		}
	}
	require(count > 0 && plan.is_complete, "%u runs were not made", count);
	require(strstr(text, words) != NULL, "'%s' is not in %s", words, text);
	plan_file_close(&plan);
}

Test(plan, a_run_that_cannot_be_made_is_a_row)
{
	char *text =
		quire(0, "plan " SHORT "--rate 10 --slo-ttft-ms 50 --attain 0.94 --out @/some");
	require_voids("some", " cannot be run: --warmup 300 leaves nothing", text);
	free(text);
	text = quire(1, "plan " SHORT "--rate 10 --slo-tpot-ms 1.6 --attain 0.95 --out @/none");
	require(strncmp(text, "no load passes", 14) == 0, "%s", text);
	require_voids("none", " cannot be run: --warmup 300 leaves nothing", text);
	free(text);
	text = quire(2, "plan " SHORT "--rate 2 --slo-ttft-ms 50 --out @/void");
	require(strstr(text, "--warmup 300 leaves nothing") != NULL, "%s", text);
	free(text);
}

/* Beyond some load nothing changes: all requests are there at once. */
Test(plan, says_what_the_trace_cannot_show)
{
	struct plan_file plan;

	free(quire(0, "trace make --requests 40 --input 100 --output 50 --seed 1 --out "
		      "@/at_once"));
	free(quire(0, "trace make --requests 2 --input 100 --output 50 --seed 1 --rate 2 "
		      "--out @/slow"));
	char *text = quire(0, "plan @/at_once --slo-ttft-ms 1000 --vary concurrency --out @/rows");
	require(strstr(text, "cannot show more") != NULL &&
			strstr(text, "--concurrency 40") != NULL,
		"%s", text);
	free(text);
	open_plan(&plan, "rows");
	require(plan.answer.highest_pass.value == 40 && plan.answer.is_bound, "%g",
		plan.answer.highest_pass.value);
	plan_file_close(&plan);
	text = quire(0, "plan @/slow --slo-ttft-ms 1000 --out @/span");
	require(strstr(text, "cannot show more") != NULL && strstr(text, "within one step") != NULL,
		"%s", text);
	free(text);
	open_plan(&plan, "span");
	const struct plan_answer *answer = &plan.answer;
	const struct plan_probe *run = run_that_passes(&plan, 0);
	require(run->offered_requests_per_s.value > 2 * run->goodput_requests_per_s.value,
		"it is served as fast as it comes");
	require_about("goodput", answer->goodput_requests_per_s, run->goodput_requests_per_s);
	require_about("throughput", answer->output_tokens_per_s, run->output_tokens_per_s);
	char *bound = quire(
		0, "replay @/slow --speedup %.6f --json 2>@/notes", answer->highest_pass.value);
	char *beyond = quire(0, "replay @/slow --speedup %.6f --json 2>@/notes",
		answer->highest_pass.value * 1000);
	const char *hash = strstr(bound, "result_hash");
	require(hash != NULL && strstr(beyond, hash) != NULL, "more load changes the run");
	free(bound);
	free(beyond);
	plan_file_close(&plan);
}

/* Steps of vLLM that no profile has are priced by those of quire's own engine, and a data sheet's
   were never measured: the answer says so. */
Test(plan, says_that_prices_are_of_another_engine)
{
	static const struct {
		const char *options, *profile;
	} cases[] = {{"--policy vllm --model qwen3-14b", "h200-qwen3-14b"},
		{"--gpu h200-datasheet", "h200-datasheet"},
		{"--policy vllm --model qwen3-8b", NULL}, {"--model qwen3-14b", NULL}};

	for (uint32_t i = 0; i < 4; i++) {
		struct plan_file plan;
		char name[24];
		snprintf(name, sizeof(name), "priced%u", i);
		char *text = quire(0,
			"plan --input 200 --output 20 --requests 60 --slo-ttft-ms 9000 "
			"--replicates 8 %s --out @/%s",
			cases[i].options, name);
		const char *line = strstr(text, "uncalibrated: the times of profile ");
		require((line != NULL) == (cases[i].profile != NULL), "%s", text);
		require(line == NULL || strstr(line, cases[i].profile) != NULL, "%s", text);
		free(text);
		open_plan(&plan, name);
		require_equal(plan.is_calibrated, line == NULL);
		plan_file_close(&plan);
	}
}

/* A rate leaves the trace's bursts out, and the number of replicas is what is looked for. */
Test(plan, says_what_a_target_is)
{
	static const char *const trace = "plan --input 200 --output 20 --requests 60 "
					 "--slo-ttft-ms 9000 --replicates 0 ";
	char *text = quire(0, "%s--target-rate 5", trace);

	require(strstr(text, "arrivals are drawn at the rate, without the bursts of the trace; "
			     "--target-speedup keeps its times") != NULL,
		"%s", text);
	free(text);
	text = quire(0, "%s--vary rate", trace);
	require(strstr(text, "; --vary speedup keeps its times") != NULL, "%s", text);
	free(text);
	text = quire(0, "%s--target-speedup 5", trace);
	require(strstr(text, "arrivals are drawn") == NULL, "%s", text);
	free(text);
	text = quire(2, "%s--target-speedup 5 --replicas 3", trace);
	require(strstr(text, "--target-speedup looks for the number of replicas: leave --replicas "
			     "out") != NULL,
		"%s", text);
	free(text);
	text = quire(2, "%s--target-rate 5 --replicas 3", trace);
	require(strstr(text, "--target-rate looks for") != NULL, "%s", text);
	free(text);
}

/* As many requests at once as the trace has, which is a preset's own number or the one that is
   asked for. */
Test(plan, a_made_trace_has_the_requests_of_its_preset)
{
	static const struct {
		const char *options;
		double requests;
	} cases[] = {{"--preset batch", 256}, {"--preset batch --requests 30", 30}};

	for (uint32_t i = 0; i < 2; i++) {
		struct plan_file plan;
		free(quire(0,
			"plan %s --slo-ttft-ms 600000 --vary concurrency --replicates 0 "
			"--out @/made%u",
			cases[i].options, i));
		open_plan(&plan, i == 0 ? "made0" : "made1");
		require(plan.answer.is_bound && plan.answer.highest_pass.value == cases[i].requests,
			"%s: %g", cases[i].options, plan.answer.highest_pass.value);
		plan_file_close(&plan);
	}
}

/* A plan of the trace with a limit advises another value of it, or all requests pass (0). */
static void require_advised(const char *trace, const char *option, uint64_t value, uint64_t advised)
{
	char words[64];
	char *text = quire(advised > 0 ? 1 : 0,
		"plan @/%s --block-size 16 --%s %llu --slo-ttft-ms 5000 --replicates 0", trace,
		option, (unsigned long long)value);

	snprintf(
		words, sizeof(words), "(--%s %llu takes all)", option, (unsigned long long)advised);
	require((strstr(text, advised > 0 ? words : "rejected") != NULL) == (advised > 0),
		"--%s %llu, not %s: %s", option, (unsigned long long)value, words, text);
	free(text);
}

/* What a plan says would take all requests does, and one less does not: the last of the blocks
   of 16 tokens is part-filled or filled by the longest request. */
Test(plan, the_limit_that_takes_all_is_advised)
{
	static const uint64_t outputs[] = {24, 27, 28, 29, 30, 44};

	for (uint32_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
		uint64_t tokens = 100 + outputs[i], blocks = (tokens - 1 + 15) / 16;
		char trace[32];
		snprintf(trace, sizeof(trace), "t%llu", (unsigned long long)tokens);
		free(quire(0,
			"trace make --requests 10 --input 100 --output %llu --rate 5 --seed 1 "
			"--out @/%s",
			(unsigned long long)outputs[i], trace));
		require_advised(trace, "kv-blocks", 1, blocks);
		require_advised(trace, "kv-blocks", blocks - 1, blocks);
		require_advised(trace, "kv-blocks", blocks, 0);
		require_advised(trace, "max-model-len", 101, tokens);
		require_advised(trace, "max-model-len", tokens - 1, tokens);
		require_advised(trace, "max-model-len", tokens, 0);
	}
}

/* A plan for two groups with these limits says the words; NULL: it has an answer. */
static void require_fleet_advised(uint64_t kv_blocks, uint64_t max_model_len, const char *words)
{
	char table[256];

	snprintf(table, sizeof(table),
		"group\treplicas\tkv_blocks\tmax_model_len\na\t1\t%llu\t%llu\nb\t1\t%llu\t%llu\n",
		(unsigned long long)kv_blocks, (unsigned long long)max_model_len,
		(unsigned long long)kv_blocks, (unsigned long long)max_model_len);
	temporary_write(folder, "fleet.tsv", table, NULL);
	char *text = quire(words != NULL ? 1 : 0,
		"plan @/t --block-size 16 --kv-blocks 50 --max-model-len 800 --fleet @/fleet.tsv "
		"--slo-ttft-ms 5000 --replicates 0");
	const char *found = strstr(text, words != NULL ? words : "rejected");
	require((found != NULL) == (words != NULL), "%s", text);
	free(text);
}

/* What groups of a fleet have in their table, options do not change: the advice is of columns. */
Test(plan, columns_that_take_all_are_advised_for_a_fleet)
{
	free(quire(0, "trace make --requests 10 --input 100 --output 30 --rate 5 --seed 1 --out "
		      "@/t"));
	require_fleet_advised(
		8, 800, "lack of KV blocks (kv_blocks 9 in every row of --fleet takes all)");
	require_fleet_advised(9, 144, NULL);
	require_fleet_advised(
		9, 129, "too long (max_model_len 130 in every row of --fleet takes all)");
	require_fleet_advised(9, 130, NULL);
}

/* Every other prompt is long, and in turn an even number of replicas gives all of these to half of
   them: less than the next odd number carries. So some even numbers fail between those that pass,
   and the notes and plan.json name them from the lowest up. */
Test(plan, numbers_of_replicas_that_fail_are_told_from_the_lowest_up)
{
	struct text trace = {0};
	struct plan_file plan;
	char note[64];

	for (uint32_t i = 0; i < 240; i++) {
		text_format(&trace,
			"{\"timestamp\": 0, \"input_length\": %u, \"output_length\": 1}\n",
			i % 2 == 0 ? 8000 : 16);
	}
	temporary_write(folder, "odd.jsonl", trace.bytes, NULL);
	text_deinit(&trace);
	char *said = quire(0, "plan @/odd.jsonl --vary replicas --router round-robin "
			      "--slo-ttft-ms 240 --attain 1 --replicates 0 --out @/odd");
	open_plan(&plan, "odd");
	require(plan.answer.stretch_count > 1, "%u stretches", plan.answer.stretch_count);
	const char *rest = said;
	for (uint32_t i = 0; i < plan.answer.stretch_count; i++) {
		const struct plan_stretch *stretch = &plan.answer.stretches[i];
		snprintf(note, sizeof(note), "note: replicas %g fails although", stretch->from);
		require(stretch->from == stretch->to, "%g to %g", stretch->from, stretch->to);
		rest = strstr(rest, note);
		require(rest != NULL, "no \"%s\" at its place in\n%s", note, said);
		require((uint64_t)stretch->from % 2 == 0, "%g replicas fail", stretch->from);
	}
	plan_file_close(&plan);
	free(said);
}

/* The same bytes with any number of workers. */
Test(plan, one_worker_and_four_write_the_same)
{
	char path[2][PATH_BYTES];
	static const char *const names[] = {"plan.json", "plan.tsv"};
	char *text[2];

	for (uint32_t i = 0; i < 2; i++) {
		text[i] = quire(0,
			"plan " DEMO "--replicates 8 --grid 'max-num-seqs=16,64' --jobs %u "
			"--out @/p%u",
			i == 0 ? 1 : 4, i);
	}
	require(strcmp(text[0], text[1]) == 0, "it prints %s and %s", text[0], text[1]);
	for (uint32_t i = 0; i < 2; i++) {
		char *bytes[2];
		for (uint32_t k = 0; k < 2; k++) {
			snprintf(path[k], PATH_BYTES, "%s/p%u/%s", folder, k, names[i]);
			bytes[k] = file_read(path[k], NULL);
		}
		require(strcmp(bytes[0], bytes[1]) == 0, "%s differs", names[i]);
		free(bytes[0]);
		free(bytes[1]);
	}
	free(text[0]);
	free(text[1]);
}

/* What fails with one request in the system at a time fails always. */
/* Of 30 requests two have a long prompt, and four an answer of more than a token. */
static void write_few(void)
{
	struct text rows = {0};

	for (uint32_t i = 0; i < 30; i++) {
		text_format(&rows, "{\"timestamp\":%u,\"input_length\":%u,\"output_length\":%u}\n",
			i * 1000, i % 15 == 7 ? 30000 : 100, i % 8 == 1 ? 5 : 1);
	}
	temporary_write(folder, "few", rows.bytes, NULL);
	text_deinit(&rows);
}

Test(plan, says_which_requests_alone_break_the_limits)
{
	struct plan_file plan;
	write_few();
	char *text = quire(1, "plan " TRACE " --max-requests 300 --slo-e2e-ms "
			      "2000 --out @/none");
	require(strncmp(text, "no load passes", 14) == 0 &&
			strchr(text, '\n') == text + strlen(text) - 1 &&
			strstr(text, "one request in the system at a time") != NULL,
		"%s", text);
	free(text);
	text = quire(1, "plan @/few --slo-ttft-ms 100 --slo-tpot-ms 0.01 --replicas 2");
	require(strstr(text, ": 6 of 30 requests (20.0\u00a0%) miss it even with one request in "
			     "the system "
			     "at a time, the longest of 30,001 tokens: 2 miss TTFT, 4 miss TPOT; "
			     "--attain 0.80 could pass\n") != NULL,
		"%s", text);
	free(text);
	text = quire(1, "plan " TRACE " --max-requests 50 --slo-e2e-ms 9000 --max-model-len 64");
	require(strstr(text, "50 of them rejected: 50 too long (--max-model-len 32768 takes all") !=
			NULL,
		"%s", text);
	free(text);
	/* A study may assume a larger memory, and says so. */
	text = quire(0, "plan " TRACE " --max-requests 50 --slo-e2e-ms 90000 --replicates 0 "
			"--kv-blocks 9000 --out @/large");
	require(strstr(text, ": 9000 KV blocks are more than the memory of h200-") != NULL, "%s",
		text);
	free(text);
	open_plan(&plan, "large");
	require(plan.configurations[0].is_beyond_memory, "a larger memory is not marked");
	plan_file_close(&plan);
	open_plan(&plan, "none");
	require(!plan.configurations[0].is_beyond_memory, "a memory is marked");
	require(plan.answer.alone.misses.value > 3 && !plan.answer.highest_pass.has_value, "alone");
	plan_file_close(&plan);
}

/* Sessions whose prompts one cache cannot hold: one request in the system at a time computes them
   again at every turn, while replicas have a cache each. */
Test(plan, replicas_may_carry_what_one_cannot_alone)
{
	struct text rows = {0};
	struct plan_file plan;

	for (uint32_t i = 0; i < 48; i++) {
		text_format(&rows,
			"{\"timestamp\":%u,\"input_length\":8192,\"output_length\":4,"
			"\"session_id\":\"s%u\",\"hash_ids\":[",
			i * 2000, i % 4);
		for (uint32_t k = 0; k < 16; k++) {
			text_format(&rows, "%s%u", k == 0 ? "" : ",", i % 4 * 100 + k);
		}
		text_add(&rows, "]}\n");
	}
	temporary_write(folder, "sessions.jsonl", rows.bytes, NULL);
	text_deinit(&rows);
	free(quire(0, "plan @/sessions.jsonl --trace-block-size 512 --kv-blocks 40 "
		      "--max-model-len 9000 --slo-ttft-ms 20 --attain 0.9 --target-speedup 1 "
		      "--router session --replicates 0 --out @/more"));
	open_plan(&plan, "more");
	require(plan.answer.alone.misses.value > 5, "%g miss it alone",
		plan.answer.alone.misses.value);
	require(plan.answer.replicas.value > 1, "%g replicas", plan.answer.replicas.value);
	plan_file_close(&plan);
	/* Without shared tokens no number of replicas is faster than an idle one. */
	char *text = quire(1, "plan @/sessions.jsonl --trace-block-size 512 --kv-blocks 40 "
			      "--max-model-len 9000 --slo-ttft-ms 20 --attain 0.9 "
			      "--target-speedup 1 --router session --replicates 0 "
			      "--enable-prefix-caching off");
	require(strstr(text, "with one request in the system at a time") != NULL, "%s", text);
	free(text);
}

/* A configuration that its GPU has no memory for is none of those compared; all of them are refused
   as one is. */
Test(plan, what_does_not_fit_a_gpu_is_ranked_as_none)
{
	struct plan_file plan;

	free(quire(0, "plan " TRACE " --max-requests 20 --slo-e2e-ms 90000 --replicates 0 "
		      "--model qwen3-14b --grid gpu=rtx4090,h200 --out @/fits"));
	open_plan(&plan, "fits");
	require_equal(plan.configuration_count, 2);
	cr_assert_str_eq(plan.configurations[0].name, "gpu=h200");
	cr_assert_str_eq(plan.configurations[1].name, "gpu=rtx4090");
	require(strstr(plan.configurations[1].answer.sentence, "no KV block fits: rtx4090") != NULL,
		"%s", plan.configurations[1].answer.sentence);
	plan_file_close(&plan);
	char *text = quire(2, "plan " TRACE " --max-requests 20 --slo-e2e-ms 90000 "
			      "--model qwen3-32b --grid gpu=rtx4090,l40s");
	require(strncmp(text, "quire plan: configuration gpu=rtx4090: no KV block fits", 55) == 0,
		"%s", text);
	free(text);
}

/* What arrives within a moment is no rate that is served for long: a short trace carries what the
   same requests do over and over, though none of its requests waits. */
Test(plan, a_short_trace_carries_what_a_long_one_does)
{
	struct plan_file plan;
	struct plan_answer answers[2];
	const char *const more[] = {"", "--loop fresh --max-requests 8000"};

	for (uint32_t i = 0; i < 2; i++) {
		char *text = quire(0,
			"plan --preset batch --slo-ttft-ms 3000 --replicates 0 --out @/moment%u "
			"--cost-per-gpu-hour 3 %s",
			i, more[i]);
		require(strstr(text, " requests/s for 0.") == NULL &&
				strstr(text, "overload binds") != NULL &&
				strstr(text, "capacity: 1.") != NULL &&
				strstr(text, "; --replicas would help") != NULL,
			"%s", text);
		free(text);
		char name[16];
		snprintf(name, sizeof(name), "moment%u", i);
		open_plan(&plan, name);
		answers[i] = plan.answer;
		plan_file_close(&plan);
	}
	double load =
		answers[0].offered_requests_per_s.value / answers[1].offered_requests_per_s.value;
	double goodput =
		answers[0].goodput_requests_per_s.value / answers[1].goodput_requests_per_s.value;
	double cost =
		answers[0].cost_per_million_tokens.value / answers[1].cost_per_million_tokens.value;
	require(fabs(load - 1) < 0.05 && fabs(goodput - 1) < 0.05 && fabs(cost - 1) < 0.05,
		"%g, %g, %g", load, goodput, cost);
}

/* Wrong use of a plan names the options that were given, and a misspelt name is wrong use in a grid
   too. */
Test(plan, wrong_use_names_what_was_given)
{
	static const struct {
		const char *options, *expected;
	} cases[] = {
		{"--concurrency 4", "by default --speedup"},
		{"--concurrency 4 --vary rate", "--vary rate"},
		{"--concurrency 4 --target-speedup 2", "--target-speedup"},
		{"--grid gpu=h200,h2000", "configuration gpu=h2000: gpu 'h2000'"},
		{"--grid model=qwen3-0.6b,qwen3-9b", "configuration model=qwen3-9b: "},
		{"--grid kv-blocks=500:4000", "a range is FROM:TO:xFACTOR or FROM:TO:+STEP"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = quire(2, "plan " TRACE " --slo-ttft-ms 400 %s", cases[i].options);
		require(strstr(text, cases[i].expected) != NULL, "%s: %s", cases[i].options, text);
		free(text);
	}
	free(quire(0, "plan " TRACE " --gpu h200-datasheet --slo-ttft-ms 400 --vary concurrency "
		      "--concurrency 4 --max-requests 50 --replicates 0"));
}

/* Groups of a fleet have profiles of their own. */
Test(plan, a_mixed_fleet_names_its_profiles_and_gpus)
{
	static const char table[] = "group\treplicas\tgpu\ttensor_parallel_size\r\n"
				    "a\t1\th200\t2\r\nb\t2\th100\t-\r\n";
	struct plan_file plan;
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/fleet.tsv", folder);
	file_write(path, table, strlen(table));
	char *text =
		quire(0, "plan " TRACE " --slo-ttft-ms 4000 --replicates 0 --precision 0.5 "
			 "--model qwen3-8b --max-requests 100 --fleet @/fleet.tsv --out @/mix");
	require(strncmp(text,
			"3 replicas (4 GPUs) of qwen3-8b on h200-qwen3-8b-tp2, h100-datasheet ",
			68) == 0,
		"%s", text);
	require(strstr(text, "the times of profile h100-datasheet were never compared") != NULL,
		"%s", text);
	free(text);
	open_plan(&plan, "mix");
	cr_assert_str_eq(plan.configurations[0].profile, "h200-qwen3-8b-tp2, h100-datasheet");
	plan_file_close(&plan);
	text = quire(0, "replay " TRACE " --model qwen3-8b --max-requests 100 --fleet @/fleet.tsv "
			"--out @/mixed");
	require(strstr(text, "priced by profiles h200-qwen3-8b-tp2, h100-datasheet\n"
			     "uncalibrated: the times of h100-datasheet were never") != NULL,
		"%s", text);
	free(text);
}

static void write_lengths(const char *ids)
{
	struct text text = {0};
	char path[PATH_BYTES];

	for (uint32_t i = 0; i < 200; i++) {
		text_format(&text,
			"{\"timestamp\":%u,\"input_length\":600,\"output_length\":300%s}\n", i * 20,
			ids);
	}
	snprintf(path, sizeof(path), "%s/lengths.jsonl", folder);
	file_write(path, text.bytes, text.byte_count);
	text_deinit(&text);
}

/* A router of prefixes has nothing to go by where the trace has no prompt ids: the answer, be there
   one or not, says so, and smaller steps are no way out. */
Test(plan, a_router_without_prompt_ids_is_noted)
{
	static const struct {
		const char *router, *options, *ids;
		int code;
		bool is_blind;
	} cases[] = {
		{"prefix", "--replicas 2 --slo-tpot-ms 4", "", 0, true},
		{"prefix", "--vary replicas --slo-tpot-ms 3", "", 1, true},
		{"least-requests", "--replicas 2 --slo-tpot-ms 4", "", 0, false},
		{"prefix", "--replicas 2 --slo-tpot-ms 4", ",\"hash_ids\":[7,8]", 0, false},
	};
	static const char note[] = "the trace has no prompt ids, by which router prefix";
	struct plan_file plan;

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_lengths(cases[i].ids);
		char *text = quire(cases[i].code,
			"plan @/lengths.jsonl --gpu h200-datasheet %s --router %s --replicates 0 "
			"--out @/router --force",
			cases[i].options, cases[i].router);
		open_plan(&plan, "router");
		require((strstr(plan.answer.router_note, note) != NULL) == cases[i].is_blind,
			"%u: %s", i, text);
		require((strstr(text, note) != NULL) == cases[i].is_blind, "%u: %s", i, text);
		require(!cases[i].is_blind || strstr(plan.answer.binding_text, "smaller") == NULL,
			"%s", plan.answer.binding_text);
		plan_file_close(&plan);
		free(text);
	}
}

Test(plan, progress_says_the_time_left)
{
	char line[PROGRESS_LINE_BYTES];

	plan_progress_line(18, 7, 9, line);
	cr_assert_str_eq(line, "18 of about 25 runs, 4 s left");
	plan_progress_line(4, 400, 30, line);
	cr_assert_str_eq(line, "4 of about 404 runs, 3000 s left");
	plan_progress_line(0, 6, 2, line);
	cr_assert_str_eq(line, "0 of about 6 runs, 12 s left");
	plan_progress_line(UINT64_MAX / 2, UINT64_MAX / 2, 1e15, line);
	require(strstr(line, " s left") != NULL, "%s", line);
}

/* Half a second of searching. */
#define LONG_PLAN                                                                                  \
	"plan " TRACE " --gpu h200-datasheet --slo-ttft-ms 400 --max-requests 3000 --loop fresh "  \
	"--replicates 0 --jobs 1"

/* Progress is cleared from its line: what stays is what is printed without a terminal. */
Test(plan, a_terminal_shows_progress)
{
	static const char clear[] = "\033[K";
	char *plain = quire(0, LONG_PLAN);
	struct process_result result = shell_run(
		folder, "script -qec '%s %s' /dev/null | tr -d '\\r'", QUIRE_EXECUTABLE, LONG_PLAN);
	char *rest = result.out;

	require_equal(result.code, 0);
	require(strstr(rest, " s left") != NULL, "no progress: %s", rest);
	for (char *at = rest; (at = strstr(at, clear)) != NULL;) {
		at += strlen(clear);
		rest = at;
	}
	cr_assert_str_eq(rest, plain);
	process_result_free(&result);
	free(plain);
}

/* Rows of a table of runs, which has a heading. */
static uint64_t row_count(const char *text)
{
	const char *line = strstr(text, "e2e p99");
	uint64_t count = 0;

	require(line != NULL, "no table: %s", text);
	while ((line = strchr(line, '\n')) != NULL && *++line != '\0') {
		count += strncmp(line, "   ", 3) == 0 || strncmp(line, "-> ", 3) == 0;
	}
	return count;
}

/* Ctrl-C leaves what is known as a bound. The whole plan takes twenty times as long as it gets. */
Test(plan, an_interrupt_leaves_a_bound)
{
	char out[PATH_BYTES];
	struct plan_file plan;
	struct process process;

	snprintf(out, sizeof(out), "%s/cut", folder);
	const char *const arguments[] = {"quire", "plan", TRACE, "--slo-ttft-ms", "400", "--jobs",
		"2", "--precision", "0.0001", "--vary", "rate", "--replicates", "0", "--loop",
		"fresh", "--max-requests", "60000", "--out", out, NULL};
	const struct process_order order = {.program = QUIRE_EXECUTABLE, .arguments = arguments};
	process_start(&process, &order);
	usleep(700000);
	kill(process.id, SIGINT);
	struct process_result result = process_finish(&process);
	require_equal(result.code, 1);
	require(strstr(result.err, "interrupted; what is known so far is a bound") != NULL, "%s",
		result.err);
	open_plan(&plan, "cut");
	require(!plan.is_complete, "it says that it is complete");
	require(!plan_answer_pass(&plan.answer).has_value || plan.answer.is_bound, "no bound");
	/* Those that were not done are no rows. */
	require(row_count(result.out) == plan.probe_count, "not %llu runs: %s",
		(unsigned long long)plan.probe_count, result.out);
	plan_file_close(&plan);
	process_result_free(&result);
}

/* The replicates take a hundred times as long as the search for the answer. */
Test(plan, an_interrupt_of_the_error_bars_leaves_the_answer)
{
	char out[PATH_BYTES], said[PATH_BYTES + 128];
	struct plan_file plan;
	struct process process;

	snprintf(out, sizeof(out), "%s/cut", folder);
	snprintf(said, sizeof(said),
		"interrupted; the answer is whole, but error bars are missing or of fewer "
		"replicates, and in %s\n",
		out);
	const char *const arguments[] = {"quire", "plan", TRACE, "--slo-ttft-ms", "400", "--jobs",
		"2", "--precision", "0.05", "--vary", "rate", "--replicates", "5000",
		"--max-requests", "300", "--out", out, NULL};
	const struct process_order order = {.program = QUIRE_EXECUTABLE, .arguments = arguments};
	process_start(&process, &order);
	usleep(INTERRUPT_US);
	kill(process.id, SIGINT);
	struct process_result result = process_finish(&process);
	require_equal(result.code, 1);
	require(strstr(result.err, said) != NULL, "%s", result.err);
	open_plan(&plan, "cut");
	require(!plan.is_complete, "it says that it is complete");
	require(plan_answer_pass(&plan.answer).has_value && !plan.answer.is_bound, "a bound");
	plan_file_close(&plan);
	process_result_free(&result);
}

#define FEW "plan " DEMO "--precision 0.2 --replicates "

/* An interval that cannot be is said to be none, and its ends are null in the files. */
Test(plan, too_few_replicates_are_said)
{
	static const char said[] = "  sampling  not told: fewer than 8 replicates\n";
	struct plan_file plan;
	char *text = quire(0, FEW "7 --out @/seven");

	require(strstr(text, said) != NULL, "%s", text);
	free(text);
	open_plan(&plan, "seven");
	const struct plan_interval *interval = &plan.answer.sampling.interval;
	require(!interval->low.has_value && !interval->high.has_value, "an interval");
	require(strstr(said, plan.answer.sampling.text) != NULL &&
			plan.answer.sampling.text[0] != '\0',
		"%s", plan.answer.sampling.text);
	require_equal(plan.answer.sampling.replicates.value, 7);
	plan_file_close(&plan);
	text = quire(0, FEW "8");
	require(strstr(text, "not told") == NULL && strstr(text, "by 8 traces") != NULL, "%s",
		text);
	char *doubt = strstr(text, "it may be too narrow");
	require(doubt != NULL && strstr(doubt + 1, "it may be too narrow") == NULL, "%s", text);
	free(text);
}

/* A trace of one request shows nothing beyond it. */
Test(plan, a_trace_of_one_request_is_said)
{
	char *text =
		quire(0, "plan " TRACE " --slo-ttft-ms 400 --vary concurrency --max-requests 1");

	require(strstr(text, "; it cannot show more, for it has one request; ") != NULL, "%s",
		text);
	free(text);
}

/* A trace that is over before its requests are shows no load that lasts. */
Test(plan, a_trace_too_short_for_its_load_is_said)
{
	static const char said[] = "note: all requests arrive within";
	char *text = quire(0, "plan " DEMO "--replicates 0 --target-rate 500");

	require(strstr(text, said) != NULL, "%s", text);
	free(text);
	text = quire(0, "plan " TRACE " --slo-ttft-ms 400 --replicates 0");
	require(strstr(text, said) == NULL, "%s", text);
	free(text);
}

/* ---- configurations ---- */

/* One replica is enough. What a router does takes two, and replicas to spare come on top of one. */
Test(plan, searches_no_fewer_replicas_than_its_options_take)
{
	static const struct {
		const char *options;
		double replicas;
	} cases[] = {{"", 1}, {"--spare 1", 2}, {"--spare 2", 3}, {"--router-queue 50", 2},
		{"--replica-limit 9", 2}, {"--router-queue 50 --spare 1", 2},
		{"--replica-limit 9 --spare 2", 3}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[16];
		struct plan_file plan;
		free(quire(0, "plan " DEMO "--replicates 0 --target-rate 1 %s --out @/least%u",
			cases[i].options, i));
		snprintf(name, sizeof(name), "least%u", i);
		open_plan(&plan, name);
		require(plan.answer.lowest_pass.value == cases[i].replicas, "%s: found %g",
			cases[i].options, plan.answer.lowest_pass.value);
		for (uint64_t k = 0; k < plan.probe_count; k++) {
			const struct plan_probe *run = &plan.probes[k];
			require(run->purpose == PROBE_ALONE || run->load.value >= cases[i].replicas,
				"%s: a run of %g", cases[i].options, run->load.value);
		}
		plan_file_close(&plan);
	}
}

/* One that passes is enough, wherever it stands; none is a verdict. */
Test(plan, succeeds_where_a_configuration_passes)
{
	static const struct {
		const char *scales;
		int code;
	} cases[] = {{"1,100", 0}, {"100,1", 0}, {"100,90,1", 0}, {"100,1,90", 0}, {"100,90", 1}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		free(quire(cases[i].code, "plan " DEMO "--replicates 0 --grid 'step-time-scale=%s'",
			cases[i].scales));
	}
}

Test(plan, ranks_configurations_by_goodput_a_gpu)
{
	struct plan_file plan;
	free(quire(0,
		"plan " DEMO "--replicates 0 --grid 'max-num-seqs=4,64' --try '--kv-blocks 60' "
		"--out @/g"));
	open_plan(&plan, "g");
	require_equal(plan.configuration_count, 3);
	for (uint32_t i = 0; i + 1 < plan.configuration_count; i++) {
		const struct plan_configuration *one = &plan.configurations[i];
		require_equal(one->rank, i + 1);
		require(!one[1].goodput_per_gpu.has_value ||
				one->goodput_per_gpu.value >= one[1].goodput_per_gpu.value,
			"not by goodput");
	}
	require(strcmp(plan.configurations[0].name, "max-num-seqs=64") == 0, "%s is best",
		plan.configurations[0].name);
	require(plan.configurations[0].on_pareto_front, "the best is not on the front");
	plan_file_close(&plan);
}

/* In the table of configurations, too, a plan says why there is no answer. */
Test(plan, a_configuration_without_an_answer_says_why)
{
	write_few();
	char *text = quire(0, "plan @/few --slo-ttft-ms 100 --replicates 0 --precision 0.5 "
			      "--attain 0.9 --grid 'step-time-scale=1,1000;warmup=0,40'");
	require(strstr(text, "none  with one request at a time, 0.00 % of the requests are within "
			     "the limits: 30 miss TTFT\n") != NULL,
		"%s", text);
	require(strstr(text, "none  --warmup 40 leaves nothing of 30 requests to measure\n") !=
			NULL,
		"%s", text);
	free(text);
}

/* One replica of a grid has nothing to choose among. */
Test(plan, one_replica_of_a_grid_needs_no_router)
{
	free(quire(
		0, "plan " DEMO "--replicates 0 --router prefix --grid 'replicas=1,2' --out @/r"));
	free(quire(0, "plan " DEMO "--replicates 0 --out @/one"));
	struct plan_file grid, one;
	open_plan(&grid, "r");
	open_plan(&one, "one");
	for (uint32_t i = 0; i < 2; i++) {
		const struct plan_configuration *own = &grid.configurations[i];
		require(own->answer.highest_pass.has_value, "no answer of %s", own->name);
		require(strcmp(own->name, "replicas=1") != 0 ||
				!(own->answer.highest_pass.value < one.answer.highest_pass.value) ||
				!(own->answer.highest_pass.value > one.answer.highest_pass.value),
			"one replica carries %g behind a router", own->answer.highest_pass.value);
	}
	plan_file_close(&grid);
	plan_file_close(&one);
}

Test(plan, a_length_beyond_the_model_is_told_once)
{
	char *text = quire(0, "plan " DEMO "--replicates 0 --grid 'max-model-len=40961,50000'");
	const char *note = strstr(text, "note: --max-model-len 40961 is beyond the 40960 positions "
					"qwen3-0.6b was made for\n");

	require(note != NULL, "%s", text);
	require(strstr(strchr(note, '\n'), "positions") == NULL, "told twice: %s", text);
	free(text);
}

/* As many requests as there are are all in the system from the start. How many there are is that of
   the configuration, which may take more of the trace, or all of it again and again. */
Test(plan, no_more_at_a_time_than_a_configuration_has)
{
	struct plan_file plan;

	free(quire(0, "trace make --requests 40 --input 100 --output 50 --seed 1 --out @/forty"));
	free(quire(0, "plan @/forty --slo-ttft-ms 100000 --max-requests 10 --vary concurrency "
		      "--replicates "
		      "0 --precision 0.5 --try '--max-requests 10' --try '--max-requests 40' --try "
		      "'--max-requests 20 --loop fresh' --out @/own"));
	open_plan(&plan, "own");
	require_equal(plan.configuration_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct plan_configuration *own = &plan.configurations[i];
		double most = plan_answer_pass(&own->answer).value;
		bool is_ten = strcmp(own->name, "max-requests=10") == 0;
		require(is_ten ? most == 10 : most >= 40, "%s: %g at a time", own->name, most);
		require(own->answer.is_bound, "%s: no bound", own->name);
	}
	plan_file_close(&plan);
}

/* Both have the same draws, so what differs in nothing but a name has the ratio 1. */
Test(plan, configurations_are_compared_on_the_same_draws)
{
	struct plan_file plan;
	char *text = quire(0,
		"plan " DEMO "--replicates 8 --precision 0.05 --try '--max-num-seqs 64' "
		"--try '--max-num-seqs 64 --max-num-batched-tokens 16384' --try '--max-num-seqs 8' "
		"--out @/g");
	require(strstr(text, "do not differ: 1 times") != NULL &&
			strstr(text, "is ahead of max-num-seqs=8: ") != NULL,
		"%s", text);
	free(text);
	open_plan(&plan, "g");
	double windows[3] = {0};
	for (uint64_t i = 0; i < plan.probe_count; i++) {
		const struct plan_probe *probe = &plan.probes[i];
		if (probe->purpose == PROBE_SAMPLING) {
			require(probe->resample_seed.value == probe->replicate.value, "%s",
				probe->options);
			windows[probe->configuration] = probe->resample_window_s.value;
		}
	}
	require(windows[0] > 0 && windows[0] == windows[1] && windows[1] == windows[2],
		"windows of %g, %g and %g s", windows[0], windows[1], windows[2]);
	require(plan.configurations[0].on_pareto_front && plan.configurations[1].on_pareto_front,
		"of two equal ones one is off the front");
	for (uint32_t i = 0; i < 3; i++) {
		const struct plan_configuration *one = &plan.configurations[i];
		require_equal(cJSON_GetArraySize(one->same_as), i < 2 ? 1 : 0);
		require((i == 2) == (one->against_best.value < 1), "%g", one->against_best.value);
		const struct plan_interval *interval = &one->against_best_interval;
		require(i == 0 || interval->high.has_value, "no interval");
		require(i < 2 ? interval->low.value == interval->high.value
			      : interval->low.value < one->against_best.value &&
					one->against_best.value < interval->high.value,
			"%g to %g around %g", interval->low.value, interval->high.value,
			one->against_best.value);
	}
	require(plan.configurations[2].against_best_interval.high.value < 1, "they differ");
	plan_file_close(&plan);
}

/* Of a given load, fewer GPUs are better, and of equal ones those that are used less. */
#define HEAD_ROOM                                                                                  \
	"plan @/trace.jsonl --gpu @/profile.json --max-num-seqs 1 --arrivals constant "            \
	"--enable-prefix-caching off --slo-ttft-ms 30 --router round-robin --replicates 0 "        \
	"--target-rate 150 "

Test(plan, equal_gpus_are_told_apart_by_head_room)
{
	struct plan_file plan;

	write_profile(10e6, 0);
	free(quire(0, "trace make --requests 3000 --input 20 --output 1 --rate 50 --seed 3 "
		      "--out @/trace.jsonl"));
	char *said = quire(0, HEAD_ROOM "--grid 'step-time-scale=1.3,0.7,1.2,1.4' --out @/g");
	const char *pair = strstr(said, "scale=0.7 and step-time-scale=1.2 need the same GPUs");
	require(pair != NULL && strstr(pair, "1.2 and step-time-scale=1.3 need the same") != NULL,
		"%s", said);
	free(said);
	said = quire(0, HEAD_ROOM "--grid 'step-time-scale=0.7,1.4'"); /* 2 and 3 */
	require(strstr(said, "need the same GPUs") == NULL, "%s", said);
	free(said);
	open_plan(&plan, "g");
	const struct plan_configuration *list = plan.configurations;
	require(list[0].answer.gpus.value == 2 && list[1].answer.gpus.value == 2 &&
			list[2].answer.gpus.value == 2 && list[3].answer.gpus.value == 3,
		"GPUs");
	require(strcmp(list[0].name, "step-time-scale=0.7") == 0 &&
			list[0].utilisation.value < list[1].utilisation.value &&
			list[1].utilisation.value < list[2].utilisation.value,
		"%s, %s, %s", list[0].name, list[1].name, list[2].name);
	plan_file_close(&plan);
}

/* The more traffic draws need, the more replicas, of which each GPU has less. */
Test(plan, goodput_a_gpu_of_more_replicas_is_less)
{
	struct plan_file plan;

	free(quire(0, "plan " DEMO "--replicates 12 --target-rate 40 --router round-robin "
		      "--precision 0.05 --kv-blocks 300 --out @/g"));
	open_plan(&plan, "g");
	const struct plan_configuration *own = &plan.configurations[0];
	const struct plan_interval *loads = &own->answer.sampling.interval;
	const struct plan_interval *goodput = &own->goodput_per_gpu_interval;
	require(loads->low.value < loads->high.value && loads->low.value >= 1, "%g to %g replicas",
		loads->low.value, loads->high.value);
	require(goodput->low.value < goodput->high.value, "%g to %g", goodput->low.value,
		goodput->high.value);
	plan_file_close(&plan);
}

/* Of the requests that miss the service level alone, some or one, as many are told of. */
Test(plan, requests_that_miss_it_alone_are_counted)
{
	static const char *const expected[] = {
		NULL, "1 of 30 requests misses it", "2 of 30 requests miss it"};

	for (uint32_t misses = 0; misses < 3; misses++) {
		struct text rows = {0};
		for (uint32_t i = 0; i < 30; i++) {
			text_format(&rows,
				"{\"timestamp\":%u,\"input_length\":%u,\"output_length\":5}\n",
				i * 1000, i % 15 == 7 && i / 15 < misses ? 30000 : 100);
		}
		temporary_write(folder, "few", rows.bytes, NULL);
		char *text = quire(0, "plan @/few --slo-ttft-ms 100 --attain 0.9 --replicates 0 "
				      "--precision 0.5");
		require((strstr(text, "\n  alone ") != NULL) == (misses > 0), "%s", text);
		require(misses == 0 || strstr(text, expected[misses]) != NULL, "no '%s' in %s",
			expected[misses], text);
		free(text);
		text_deinit(&rows);
	}
}

/* Of KV blocks the smaller pool is better, in tokens and not in blocks. */
Test(plan, the_least_pool_is_counted_in_tokens)
{
	static const double sizes[] = {16, 2000};
	struct plan_file plan;
	double tokens[2];

	free(quire(0, "plan " DEMO "--replicates 0 --vary kv-blocks --rate 3 "
		      "--grid 'block-size=2000,16' --out @/g"));
	open_plan(&plan, "g");
	for (uint32_t i = 0; i < 2; i++) {
		bool is_small = strcmp(plan.configurations[i].name, "block-size=16") == 0;
		double blocks = plan.configurations[i].answer.lowest_pass.value;
		require(is_small == (i == 0), "%s is better", plan.configurations[0].name);
		tokens[i] = blocks * sizes[i];
	}
	require(tokens[0] < tokens[1] && tokens[0] / sizes[0] > tokens[1] / sizes[1],
		"%g tokens before %g", tokens[0], tokens[1]);
	plan_file_close(&plan);
}

/* The time of a run's work, at capacity, from what `quire replay` finds with the options of the row
   that passes. */
static double work_s(const struct plan_file *plan, uint32_t configuration)
{
	for (uint64_t i = 0; i < plan->probe_count; i++) {
		const struct plan_probe *probe = &plan->probes[i];
		if (probe->configuration == configuration && probe->purpose != PROBE_ALONE &&
			probe->load.value == 1) {
			char *text = quire(0, "replay @/tail --json %s 2>@/notes", probe->options);
			cJSON *summary = cJSON_Parse(text);
			double window_s = figure(summary, "window", "end_s") -
					  figure(summary, "window", "start_s");
			double used = figure(summary, "load", "utilisation");
			require(used > 0 && used < 1, "%g is used", used);
			cJSON_Delete(summary);
			free(text);
			return used * window_s;
		}
	}
	require(false, "no run with one replica");
	return 0;
}

/* All requests but the last are short, and the last one makes a run the longer the slower its steps
   are. Of a longer run a smaller share is used, which is no head room: what counts is the work of
   what arrives. Three seats with steps of 0.9 of the time have more of it than two with half the
   time, and a smaller share. */
Test(plan, a_long_end_of_a_run_is_no_head_room)
{
	struct plan_file plan;
	struct text rows = {0};
	double before = 0;

	for (uint32_t i = 0; i <= 40; i++) {
		text_format(&rows,
			"{\"timestamp\": %u, \"input_length\": 20, \"output_length\": %u}\n",
			i * 100, i < 40 ? 2 : 2000);
	}
	temporary_write(folder, "tail", rows.bytes, NULL);
	text_deinit(&rows);
	free(quire(0, "plan @/tail --slo-ttft-ms 200 --router round-robin --replicates 0 "
		      "--target-rate 100 --enable-prefix-caching off --out @/g "
		      "--try '--max-num-seqs 3 --step-time-scale 0.9' "
		      "--try '--max-num-seqs 2 --step-time-scale 0.5' "
		      "--try '--max-num-seqs 4 --step-time-scale 0.4'"));
	open_plan(&plan, "g");
	const struct plan_configuration *list = plan.configurations;
	for (uint32_t i = 0; i < 3; i++) {
		require_equal(list[i].answer.gpus.value, 1);
		double work = work_s(&plan, i);
		require(work > before, "%s: %g s of work behind %g s", list[i].name, work, before);
		before = work;
	}
	require(list[1].utilisation.value > list[2].utilisation.value,
		"the scene does not tell head room from what is used");
	plan_file_close(&plan);
}

/* Of equal throughput, here of a given load on as many GPUs, what is slower for each user is not on
   the front. */
Test(plan, what_is_slower_at_equal_throughput_is_beaten)
{
	struct plan_file plan;

	free(quire(0, "plan " TRACE " --max-requests 200 --slo-ttft-ms 2000 --router round-robin "
		      "--replicates 0 --target-speedup 0.5 --grid 'step-time-scale=1,1.2,0.9' "
		      "--out @/e"));
	open_plan(&plan, "e");
	for (uint32_t i = 0; i < 3; i++) {
		const struct plan_configuration *one = &plan.configurations[i];
		bool is_fastest = strcmp(one->name, "step-time-scale=0.9") == 0;
		require(one->throughput_per_gpu.value ==
				plan.configurations[0].throughput_per_gpu.value,
			"%s: %.17g tokens/s", one->name, one->throughput_per_gpu.value);
		require(one->on_pareto_front == is_fastest, "%s: %d", one->name,
			one->on_pareto_front);
	}
	plan_file_close(&plan);
}

/* Each row says what priced it: another policy has another profile. */
Test(plan, names_the_profile_of_each_configuration)
{
	struct plan_file plan;
	char *text = quire(0, "plan " DEMO "--replicates 0 --grid 'policy=mixed,vllm' --out @/g");

	require(strstr(text, "priced by different profiles") != NULL &&
			strstr(text, "h200-vllm-qwen3-0.6b") != NULL,
		"%s", text);
	free(text);
	open_plan(&plan, "g");
	for (uint32_t i = 0; i < 2; i++) {
		const struct plan_configuration *one = &plan.configurations[i];
		bool is_vllm = strcmp(one->name, "policy=vllm") == 0;
		require(strcmp(one->profile,
				is_vllm ? "h200-vllm-qwen3-0.6b" : "h200-qwen3-0.6b") == 0 &&
				one->is_calibrated,
			"%s is priced by %s", one->name, one->profile);
	}
	plan_file_close(&plan);
}

/* One may be the beginning or the end of another. */
Test(plan, names_each_profile_of_a_fleet_once)
{
	static const char *const names[] = {
		"my-profile.json", "profile.json2.json", "profile.json"};
	struct text table = {0};
	struct plan_file plan;
	char path[PATH_BYTES];

	text_add(&table, "group\treplicas\tgpu\n");
	write_profile(10e6, 0);
	snprintf(path, sizeof(path), "%s/profile.json", folder);
	char *profile = file_read(path, NULL);
	for (uint32_t i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i % 3]);
		file_write(path, profile, strlen(profile));
		text_format(&table, "group%u\t1\t%s\n", i, path);
	}
	snprintf(path, sizeof(path), "%s/fleet.tsv", folder);
	file_write(path, table.bytes, table.byte_count);
	char *said = quire(0, "plan " TRACE " --max-requests 50 --slo-ttft-ms 2000 --replicates 0 "
			      "--router round-robin --fleet @/fleet.tsv --out @/f");
	require(strstr(said, "on my-profile.json, profile.json2.json, profile.json carry") != NULL,
		"%s", said);
	free(said);
	open_plan(&plan, "f");
	cr_assert_str_eq(plan.configurations[0].profile,
		"my-profile.json, profile.json2.json, profile.json");
	require(plan.configurations[0].gpus == 1, "%g GPUs", plan.configurations[0].gpus);
	for (uint64_t i = 0; i < plan.probe_count; i++) { /* one request at a time has it, too */
		require(strstr(plan.probes[i].options, "--router round-robin") != NULL, "%s",
			plan.probes[i].options);
	}
	plan_file_close(&plan);
	text_deinit(&table);
	free(profile);
}

/* Replicas of one GPU and of two: what a GPU carries is the same figure from the answer and from
   the run that it is, of which a page draws one as a ring and the other as a point. */
Test(plan, gpus_of_unlike_replicas_are_those_of_their_runs)
{
	struct plan_file plan;
	bool is_met = false;

	temporary_write(folder, "fleet.tsv",
		"group\treplicas\ttensor_parallel_size\none\t1\t1\ntwo\t2\t2\n", NULL);
	free(quire(0, "plan " TRACE " --max-requests 50 --slo-ttft-ms 2000 --replicates 0 "
		      "--gpu h200-datasheet --router round-robin --fleet @/fleet.tsv --out @/f"));
	open_plan(&plan, "f");
	const struct plan_configuration *one = &plan.configurations[0];
	require_equal(one->answer.gpus.value, 5);
	for (uint64_t i = 0; i < plan.probe_count; i++) {
		const struct plan_probe *probe = &plan.probes[i];
		double gpus = plan_gpus(one->gpus, probe->replicas.value);
		double own = probe->output_tokens_per_s.value / gpus;
		require_equal(gpus, 5);
		is_met = is_met || fabs(own / one->throughput_per_gpu.value - 1) < 1e-6;
	}
	require(is_met, "no run has %g tokens/s a GPU", one->throughput_per_gpu.value);
	plan_file_close(&plan);
}

/* What is printed of it is in the file, for the page. */
Test(plan, a_trace_that_ends_before_its_latencies_is_noted)
{
	struct plan_file plan;
	char *text = quire(
		0, "plan " TRACE " --max-requests 50 --slo-ttft-ms 2000 --replicates 0 --out @/s");

	open_plan(&plan, "s");
	require(strstr(plan.answer.short_trace, "all requests arrive within") != NULL, "'%s'",
		plan.answer.short_trace);
	require(strstr(text, plan.answer.short_trace) != NULL, "%s", text);
	plan_file_close(&plan);
	free(text);
}

/* Two sessions, one behind the other, whose turns come 1 s and 100 s behind the turn before. An
   answer takes about 0.2 s, so that at ten times the speed half of the later turns come too
   early. */
static void write_sessions(void)
{
	struct text text = {0};
	char path[PATH_BYTES];

	for (uint32_t i = 0; i < 10; i++) {
		uint32_t session = i / 5, turn = i % 5;
		text_format(&text,
			"{\"timestamp\":%u,\"input_length\":100,\"output_length\":400,"
			"\"session_id\":\"%u\"}\n",
			session * 5000 + turn * (session == 0 ? 1000 : 100000), session);
	}
	snprintf(path, sizeof(path), "%s/sessions.jsonl", folder);
	file_write(path, text.bytes, text.byte_count);
	text_deinit(&text);
}

Test(plan, sessions_that_a_load_squeezes_are_noted)
{
	struct plan_file plan;
	char *text;

	write_sessions();
	text = quire(0, "plan @/sessions.jsonl --slo-ttft-ms 60000 --target-speedup 10 "
			"--replicates 0 --out @/e");
	open_plan(&plan, "e");
	require(strstr(plan.answer.early_turns,
			"about 50 % of the turns behind a session's first") ==
				plan.answer.early_turns &&
			plan.answer.early_turns[0] != '\0',
		"'%s'", plan.answer.early_turns);
	require(strstr(text, plan.answer.early_turns) != NULL, "%s", text);
	plan_file_close(&plan);
	free(text);
	/* neither at a load that leaves them time, nor where turns wait for answers */
	text = quire(0, "plan @/sessions.jsonl --slo-ttft-ms 60000 --target-speedup 0.1 "
			"--replicates 0");
	require(strstr(text, "of the turns") == NULL, "%s", text);
	free(text);
	text = quire(1, "plan @/sessions.jsonl --slo-ttft-ms 60000 --target-rate 40 "
			"--sessions closed --replicates 0");
	require(strstr(text, "of the turns") == NULL, "%s", text);
	free(text);
}

/* Sessions of two turns that begin over 10 s, and whose second turns come long behind. */
static void write_late_turns(void)
{
	struct text trace = {0};

	for (uint32_t turn = 0; turn < 2; turn++) {
		for (uint32_t i = 0; i < 100; i++) {
			text_format(&trace,
				"{\"timestamp\": %u, \"input_length\": %u, \"output_length\": 400, "
				"\"session_id\": \"%u\"}\n",
				100 * i + 40000 * turn, 100 + 100 * turn, i);
		}
	}
	temporary_write(folder, "late.jsonl", trace.bytes, NULL);
	text_deinit(&trace);
}

/* A target that does not come has no answer: neither in the sentence nor in the file. What fails at
   less load fails at more. */
Test(plan, a_target_that_does_not_arrive_has_no_answer)
{
	struct plan_file plan;

	write_late_turns();
	char *text = quire(1, "plan @/late.jsonl --slo-ttft-ms 60000 --sessions closed "
			      "--target-speedup 1000 --replicates 8 --out @/missed");
	require(strncmp(text, "not known: only ", 16) == 0, "%s", text);
	require(strstr(text, "requests/s that are asked for arrive: with --sessions closed") !=
			NULL,
		"%s", text);
	require(strstr(text, "--replicas 1 passes what arrives") != NULL, "%s", text);
	free(text);
	open_plan(&plan, "missed");
	require(!plan_answer_pass(&plan.answer).has_value && !plan.answer.is_bound,
		"%s has an answer", plan.answer.sentence);
	for (uint64_t i = 0; i < plan.probe_count; i++) {
		require(plan.probes[i].purpose != PROBE_SAMPLING, "it has error bars");
	}
	plan_file_close(&plan);
	text = quire(0, "plan @/late.jsonl --slo-ttft-ms 60000 --sessions closed "
			"--target-speedup 1 --replicates 0");
	require(strstr(text, "asked for") == NULL, "%s", text);
	free(text);
}

static char *read_page(const char *name)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return file_read(path, NULL);
}

/* With closed sessions the rate is a mean that sessions lower, and --rate is of sessions: a target
   of requests/s begins half as many of these, of two turns each. */
Test(plan, closed_sessions_bring_a_mean)
{
	write_late_turns();
	char *text = quire(0, "plan @/late.jsonl --slo-ttft-ms 20 --sessions closed "
			      "--replicates 0");
	require(strstr(text, " as a mean over the whole run (--speedup ") != NULL, "%s", text);
	require(strstr(text, "note: only ") != NULL, "%s", text);
	free(text);
	text = quire(0, "plan @/late.jsonl --slo-ttft-ms 60000 --sessions closed --target-rate 1 "
			"--replicates 0 --out @/rate");
	require(strstr(text, "--rate is of sessions, of 2 requests each on average") != NULL, "%s",
		text);
	free(text);
	text = quire(0, "plan @/late.jsonl --slo-ttft-ms 20 --sessions closed --vary rate "
			"--replicates 0 --out @/sessions");
	free(text);
	struct plan_file plan;
	open_plan(&plan, "sessions");
	cr_assert_str_eq(plan.answer.unit, PLAN_UNIT_SESSIONS);
	plan_file_close(&plan);
	free(quire(0, "report @/sessions --out @/sessions.html"));
	char *page = read_page("sessions.html");
	require(strstr(page, "Session rate") != NULL && strstr(page, "Request rate") == NULL,
		"another axis");
	free(page);
	open_plan(&plan, "rate");
	require(strstr(run_that_passes(&plan, 0)->options, "--rate 0.5 ") != NULL, "%s",
		run_that_passes(&plan, 0)->options);
	plan_file_close(&plan);
}

/* What is drawn may be another load by chance: 2 % are told, and 10 % less is no answer. */
Test(plan, a_drawn_load_that_differs_is_told)
{
	static const struct {
		uint32_t requests, seed;
		int code;
		const char *words;
	} cases[] = {{4000, 1, 0, NULL},
		{4000, 3, 0,
			"note: only 19.56 of the 20 requests/s that are asked for arrive: "
			"the times of 4,000 requests are drawn"},
		{300, 2, 1, "not known: only 17.68 of the 20 requests/s"},
		{60, 1, 0, "note: 23.11 requests/s arrive where 20 are asked for: "}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = quire(cases[i].code,
			"plan --input 100 --output 2 --requests %u --seed %u --slo-ttft-ms 9000 "
			"--target-rate 20 --replicates 0",
			cases[i].requests, cases[i].seed);
		bool is_told = strstr(text, "asked for") != NULL;
		require(is_told == (cases[i].words != NULL), "%s", text);
		require(!is_told || strstr(text, cases[i].words) != NULL, "%s", text);
		free(text);
	}
}

/* The first requests of a closed loop come all at once, which --warmup leaves out. */
Test(plan, the_start_of_a_closed_loop_is_noted)
{
	for (uint32_t warmup = 0; warmup < 2; warmup++) {
		char *text = quire(0,
			"plan --input 200 --output 20 --requests 300 --slo-ttft-ms 60 --vary "
			"concurrency --warmup %u --replicates 0",
			warmup);
		require((strstr(text, "begin at time 0") != NULL) == (warmup == 0), "%s", text);
		free(text);
	}
}

/* The last requests are served behind the trace's end; goodput and cost are of the load that is
   offered, here of 50 tokens a request. */
Test(plan, the_cost_is_that_of_the_load_that_is_offered)
{
	struct plan_file plan;

	free(quire(0, "trace make --requests 6000 --input 100 --output 50 --seed 1 --rate 20 "
		      "--out @/short"));
	free(quire(0, "plan @/short --slo-ttft-ms 10 --slo-tpot-ms 4 --replicates 0 "
		      "--cost-per-gpu-hour 0.36 --replicas 2 --out @/c"));
	open_plan(&plan, "c");
	const struct plan_answer *answer = &plan.answer;
	double offered = answer->offered_requests_per_s.value;
	require_near(answer->output_tokens_per_s.value, 50 * offered, 1e-6 * offered, "tokens/s");
	require_near(answer->goodput_requests_per_s.value, answer->attained.value * offered,
		1e-9 * offered, "goodput");
	require_near(answer->cost_per_million_tokens.value, 2 * 0.36 / 3600 / (50 * offered) * 1e6,
		1e-9, "the cost");
	plan_file_close(&plan);
}

/* The fortieth part lies outside on each side, so 39 values have one there. */
Test(plan, fewer_replicates_than_95_percent_takes_are_said)
{
	for (uint32_t count = 38; count < 40; count++) {
		char *text = quire(0,
			"plan " TRACE
			" --max-requests 120 --slo-ttft-ms 2000 --precision 0.5 --replicates %u",
			count);
		require((strstr(text, "95 % takes --replicates 39") != NULL) == (count < 39), "%s",
			text);
		free(text);
	}
}

/* ---- misuse ---- */

/* The command is refused in one line that has these words. */
static void require_refusal(const char *command, const char *words)
{
	char *text = quire(2, "%s", command);
	require(strncmp(text, "quire plan: ", 12) == 0 &&
			strchr(text, '\n') == text + strlen(text) - 1,
		"%s: %s", command, text);
	require(strstr(text, words) != NULL, "%s: '%s' is not in %s", command, words, text);
	free(text);
}

static void require_misuse(const char *options, const char *words)
{
	struct text command = {0};

	text_format(&command, "plan " TRACE " --max-requests 50 %s", options);
	require_refusal(command.bytes, words);
	text_deinit(&command);
}

Test(plan, misuse_is_refused_in_a_line)
{
	require_misuse("", "no service level");
	require_misuse("--slo 'ttft.p98<=3'", "ttft.p98");
	require_misuse("--slo 'output_tokens_per_s>=400'", "no limit of a load");
	require_misuse("--slo 'ttft.p99<=+5%'", "without a sign");
	require_misuse("--slo-ttft-ms 9 --vary batch", "--vary");
	require_misuse("--slo-ttft-ms 9 --attain 0", "--attain");
	require_misuse("--slo-ttft-ms 9 --attain 1.5", "--attain");
	require_misuse("--slo-ttft-ms 9 --precision 0", "0.0001");
	require_misuse("--slo-ttft-ms 9 --precision 0.00009", "0.0001");
	require_misuse("--slo-ttft-ms 9 --target-rate 3 --target-speedup 2", "--target-speedup");
	require_misuse("--slo-ttft-ms 9 --target-rate 3 --vary speedup", "--vary");
	require_misuse("--slo-ttft-ms 9 --spare 1", "--spare");
	require_misuse("--slo-ttft-ms 9 --target-rate 3 --spare 65", "from 0 to 64");
	require_misuse("--slo-ttft-ms 9 --ramp 1:2:3 --duration 9", "--ramp");
	require_misuse("--slo-ttft-ms 9 --concurrency 3", "--concurrency");
	require_misuse("--slo-ttft-ms 9 --router prefix", "--router");
	require_misuse("--slo-ttft-ms 9 --grid 'speedup=2,3;gpu=h200'", "speedup");
	require_misuse("--slo-ttft-ms 9 --grid 'gpu'", "--grid");
	require_misuse("--slo-ttft-ms 9 --runner tape", "tape");
	require_misuse("--slo-ttft-ms 9 --warmup 50", "warmup");
	require_misuse("--slo-ttft-ms 9 --gpu nothing", "nothing");
	require_misuse("--slo-ttft-ms 9 --vary replicas --outages fail:0@0", "--spare");
	require_misuse("--slo-ttft-ms 9 --target-rate 9 --rate 5", "two loads");
	require_misuse("--slo-ttft-ms 9 --target-speedup 9 --speedup 5", "two loads");
	require_misuse("--slo-ttft-ms 9 --rate 3", "or --vary rate");
	require_misuse("--slo-ttft-ms 9 --request-rate 3 --vary speedup", "or --vary rate");
	require_misuse("--slo-ttft-ms 9 --grid 'rate=3,4'", "and --vary speedup divides");
	require_misuse("--slo-ttft-ms 9 --try '--rate 3'", "or --vary rate");
	require_misuse("--slo-ttft-ms 9 --target-speedup 2 --rate 3",
		"and --target-speedup divides the times that they have: leave --rate out, or give "
		"--target-rate");
	require_misuse("--slo-ttft-ms 9 --target-speedup 2 --grid 'rate=3,4'", "--target-rate");
	require_misuse("--slo-ttft-ms 9 --target-rate 9 --grid rate=1,2", "--rate");
	free(quire(0, "trace make --requests 40 --input 100 --output 50 --out @/at_once"));
	require_refusal("plan @/at_once --slo-ttft-ms 9", "--speedup changes nothing");
	require_refusal("plan @/at_once --slo-ttft-ms 9 --target-speedup 2",
		"--target-speedup changes nothing");
	require_refusal("plan @/at_once --slo-ttft-ms 9 --vary rate --max-requests 1",
		"--rate changes nothing");
	require_refusal("plan @/at_once --vary concurrency --slo 'hit_rate>=0.5'",
		"--slo hit_rate: the trace at_once does not say which prompts share tokens");
	free(quire(0, "trace make --requests 40 --input 100 --output 1 --rate 9 --out @/short"));
	require_refusal("plan @/short --slo 'tpot.p99<=9'",
		"--slo tpot.p99: no request of the trace short has one");
	require_refusal("plan @/missing.jsonl --slo-ttft-ms 9", "missing.jsonl");
}

/* Without a trace, one is made: the same as `quire trace make` makes, and nothing of it is left. */
Test(plan, makes_its_own_trace)
{
#define MADE "--input 20:400 --output 2:60 --prefix 256:3"
	struct plan_file plans[2];

	free(quire(0, "trace make --requests 900 --rate 2 --seed 5 --out @/made.jsonl " MADE));
	free(quire(0, "plan @/made.jsonl --seed 5 --slo-ttft-ms 30 --slo-tpot-ms 4 --replicates 0 "
		      "--out @/a"));
	free(quire(0, "plan --requests 900 --rate 2 --seed 5 " MADE
		      " --slo-ttft-ms 30 --slo-tpot-ms 4 --replicates 0 --out @/b"));
	open_plan(&plans[0], "a");
	open_plan(&plans[1], "b");
	require(plans[0].answer.highest_pass.value == plans[1].answer.highest_pass.value &&
			plans[0].probe_count == plans[1].probe_count &&
			strcmp(plans[0].trace_name, plans[1].trace_name) == 0,
		"%g and %g", plans[0].answer.highest_pass.value,
		plans[1].answer.highest_pass.value);
	plan_file_close(&plans[0]);
	plan_file_close(&plans[1]);
	require_refusal("plan --input 20 --slo-ttft-ms 30", "--output");
	require_refusal("plan --slo-ttft-ms 30", "give a TRACE");
	require_refusal("plan @/made.jsonl --input 20 --slo-ttft-ms 30", "one of them");
}

/* A plan of a described load says the command that makes it again, with the rate as what it is. */
Test(plan, a_described_load_can_be_made_again)
{
	static const struct {
		const char *options, *rate;
	} cases[] = {{"--preset chat --rate 6 --requests 300 --seed 3", " --session-rate 6 "},
		{"--preset chat --session-rate 6 --requests 300 --seed 3", " --session-rate 6 "},
		{"--preset chat --requests 300 --arrivals gamma --burstiness 0.5 --think 2.5",
			" --session-rate 1.4 "},
		{"--input 20:400 --output 2:60 --prefix 256:3 --requests 300 "
		 "--trace-block-size 128",
			" --rate 1 "},
		{"--preset rag --requests 300 --input lognormal:90:0.5 --rate 3", " --rate 3 "}};
	static const char *const rest = "--slo-ttft-ms 30 --slo-tpot-ms 9 --replicates 0";

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct plan_file plans[2];
		char made[24], again[24];
		snprintf(made, sizeof(made), "described%u", i);
		snprintf(again, sizeof(again), "again%u", i);
		char *text = quire(0, "plan %s %s --out @/%s", cases[i].options, rest, made);
		open_plan(&plans[0], made);
		const char *command = plans[0].made_by;
		require(strstr(text, command) != NULL && command[0] != '\0', "%s", text);
		require(strstr(command, cases[i].rate) != NULL, "%s", command);
		const char *out = strstr(command, "--out made.jsonl");
		require(strncmp(command, "quire ", 6) == 0 && out != NULL, "%s", command);
		free(text);
		free(quire(0, "%.*s--force --out @/made.jsonl", (int)(out - command - 6),
			command + 6));
		free(quire(0, "plan @/made.jsonl %s --out @/%s", rest, again));
		open_plan(&plans[1], again);
		require_equal(plans[1].made_by[0], '\0');
		char *bytes[2];
		for (uint32_t k = 0; k < 2; k++) {
			struct json_object trace;
			struct error error = {0};
			json_object(&plans[k].root, "trace", &trace, &error);
			bytes[k] = cJSON_GetObjectItem(trace.node, "xxh64")->valuestring;
		}
		require(strcmp(bytes[0], bytes[1]) == 0, "%s: %s and %s", command, bytes[0],
			bytes[1]);
		plan_file_close(&plans[0]);
		plan_file_close(&plans[1]);
	}
	require_refusal("plan --preset chat --rate 6 --session-rate 6 --slo-ttft-ms 30",
		"--rate is of requests and --session-rate of sessions: give one of them");
	require_refusal("plan @/made.jsonl --session-rate 6 --slo-ttft-ms 30", "one of them");
}

/* The load is described, so replicates are made from other seeds, and not drawn from one trace. */
Test(plan, replicates_of_a_described_load_are_made_anew)
{
	struct plan_file plan;
	uint32_t repeated = 0;

	char *text = quire(0, "plan --requests 300 --rate 2 --seed 5 " MADE
			      " --slo-ttft-ms 30 --slo-tpot-ms 4 --replicates 8 --jobs 2 "
			      "--precision 0.05 --out @/made");
	require(strstr(text, "by 8 traces of other seeds; 95 %") != NULL, "%s", text);
	free(text);
	open_plan(&plan, "made");
	require(strcmp(plan.answer.sampling.method, "seeds") == 0, "%s",
		plan.answer.sampling.method);
	for (uint64_t i = 0; i < plan.probe_count; i++) {
		const struct plan_probe *probe = &plan.probes[i];
		require(!probe->resample_seed.has_value &&
				probe->seed.value == 5 + probe->replicate.value,
			"%s", probe->options);
		if (probe->purpose == PROBE_SAMPLING && probe->replicate.value > 5) {
			free(quire(0,
				"trace make --requests 300 --rate 2 --seed %.0f --out "
				"@/again%u " MADE,
				probe->seed.value, repeated));
			text = quire(0, "replay @/again%u --json %s 2>@/notes", repeated,
				probe->options);
			cJSON *summary = cJSON_Parse(text);
			require_near(probe->attained.value, figure(summary, "slo", "attained"),
				2e-6, "attained");
			require_near(probe->output_tokens_per_s.value,
				figure(summary, "throughput", "output_tokens_per_s"), 1e-2,
				"throughput");
			cJSON_Delete(summary);
			free(text);
			repeated++;
		}
	}
	require(repeated >= 3, "%u runs", repeated);
	plan_file_close(&plan);
}

/* ---- numbers ---- */

/* A decimal with up to six places, of any number of digits. */
static double draw_decimal(struct prop *prop, char *text, uint64_t least, uint64_t most)
{
	static const uint64_t steps[] = {1, 10, 1000, 100000, 1000000};
	uint64_t step = steps[prop_below(prop, sizeof(steps) / sizeof(steps[0]))];
	uint64_t millionths = least + prop_below(prop, most - least + 1);

	millionths = millionths / step * step >= least ? millionths / step * step : millionths;
	decimal_text(text, millionths, 6);
	return strtod(text, NULL);
}

/* The configuration at the answer is that of the run that passes, and so is the trace. */
static void require_config(const struct plan_file *plan, const cJSON *root)
{
	const struct plan_probe *probe = run_that_passes(plan, 0);
	const cJSON *config = cJSON_GetObjectItem(root, "config"), *field;

	require(probe != NULL, "no load passes");
	char *text = quire(0, "replay " TRACE " --json %s 2>@/notes", probe->options);
	cJSON *summary = cJSON_Parse(text);
	const cJSON *expected = cJSON_GetObjectItem(summary, "config");
	require_equal(cJSON_GetArraySize(config), cJSON_GetArraySize(expected));
	cJSON_ArrayForEach(field, expected)
	{
		const cJSON *found = cJSON_GetObjectItem(config, field->string);
		require(found != NULL && cJSON_Compare(found, field, true), "%s is %s, not %s",
			field->string, cJSON_PrintUnformatted(found),
			cJSON_PrintUnformatted(field));
	}
	const cJSON *trace = cJSON_GetObjectItem(root, "trace");
	const cJSON *traced = cJSON_GetObjectItem(summary, "trace");
	require(cJSON_Compare(cJSON_GetObjectItem(trace, "xxh64"),
			cJSON_GetObjectItem(traced, "xxh64"), true),
		"another trace");
	require_equal(cJSON_GetObjectItem(trace, "requests")->valuedouble,
		cJSON_GetObjectItem(traced, "requests")->valuedouble);
	cJSON_Delete(summary);
	free(text);
}

static void require_decimal(const cJSON *object, const char *name, bool has, double expected)
{
	const cJSON *node = cJSON_GetObjectItem(object, name);

	require(node != NULL && cJSON_IsNumber(node) == has && cJSON_IsNull(node) == !has,
		"%s is %sthere", name, has ? "not " : "");
	require(!has || node->valuedouble == expected, "%s is %.17g, not %.17g", name,
		node->valuedouble, expected);
}

static void body_numbers(struct prop *prop, const void *context)
{
	static const char *const limits[] = {"ttft", "tpot", "e2e"};
	static const char *const others[] = {
		"gpu-memory-utilization", "step-time-scale", "burstiness"};
	static const uint64_t ranges[][2] = {
		{700000, 1000000}, {500000, 2000000}, {300000, 9000000}};
	char line[LINE_BYTES], decimal[NUMBER_TEXT_BYTES], name[32], path[PATH_BYTES];
	double limit[3] = {0}, other[3] = {0};
	struct plan_file plan;

	(void)context;
	uint32_t given = prop_range(prop, 1, 7); /* bits: which limits */
	double attain = draw_decimal(prop, decimal, 1, 999999);
	int used = snprintf(line, sizeof(line), "--max-requests %u --seed %u --attain %s",
		prop_range(prop, 20, 40), prop_range(prop, 0, 4000000000u), decimal);
	for (uint32_t i = 0; i < 3; i++) {
		if ((given >> i & 1) != 0) {
			limit[i] = draw_decimal(prop, decimal, 200000000000, 900000000000);
			used += snprintf(line + used, sizeof(line) - (size_t)used,
				" --slo-%s-ms %s", limits[i], decimal);
		}
	}
	for (uint32_t i = 0; i < 3; i++) {
		other[i] = draw_decimal(prop, decimal, ranges[i][0], ranges[i][1]);
		used += snprintf(
			line + used, sizeof(line) - (size_t)used, " --%s %s", others[i], decimal);
	}
	prop_log(prop, "%s", line);
	free(quire(0,
		"plan " TRACE " %s --arrivals gamma --vary rate --precision 0.2 --replicates 0 "
		"--gpu " QUIRE_SOURCE_DIR
		"/tests/fixtures/calibrated_profile.json --out @/numbers --force",
		line));
	snprintf(path, sizeof(path), "%s/numbers/plan.json", folder);
	char *text = file_read(path, NULL);
	cJSON *root = cJSON_Parse(text);
	const cJSON *slo = cJSON_GetObjectItem(root, "slo");
	const cJSON *config = cJSON_GetObjectItem(root, "config");
	require_decimal(slo, "attain", true, attain);
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "%s_ms", limits[i]);
		require_decimal(slo, name, (given >> i & 1) != 0, limit[i]);
	}
	require_decimal(config, "gpu_memory_utilization", true, other[0]);
	require_decimal(config, "step_time_scale", true, other[1]);
	require_decimal(config, "burstiness", true, other[2]);
	open_plan(&plan, "numbers");
	require_config(&plan, root);
	plan_file_close(&plan);
	cJSON_Delete(root);
	free(text);
}

/* What a user gives with many places stands in plan.json with all of them. */
Test(plan, numbers_are_kept_to_their_last_place, .timeout = 300)
{
	const struct prop_options options = {.name = "numbers", .body = body_numbers, .trials = 40};

	cr_assert(prop_holds(&options));
}

/* Nothing is replaced that may not be. */
Test(plan, a_folder_with_a_result_is_kept)
{
	char path[PATH_BYTES];

	free(quire(0, "plan " DEMO "--precision 0.2 --replicates 0 --out @/twice"));
	char *text = quire(2, "plan " DEMO "--precision 0.2 --replicates 0 --out @/twice");
	require(strstr(text, "--force") != NULL, "%s", text);
	free(text);
	free(quire(0, "plan " DEMO "--precision 0.2 --replicates 0 --out @/twice --force"));
	snprintf(path, sizeof(path), "%s/twice/plan.json", folder);
	file_write(path, "{}\n", 3);
	text = quire(2, "plan " DEMO "--precision 0.2 --replicates 0 --out @/twice --force");
	require(strstr(text, "not written by quire") != NULL, "%s", text);
	free(text);
	free(quire(0, "replay " DEMO "--out @/run"));
	text = quire(2, "plan " DEMO "--precision 0.2 --replicates 0 --out @/run --force");
	require(strstr(text, "summary.json") != NULL, "%s", text);
	free(text);
}
