#include "tests/harness/made_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "reports/results/plan_file.h"
#include "reports/results/sweep_file.h"
#include "tests/harness/made_result.h"
#include "tests/harness/require.h"
#include "tests/harness/table_file.h"
#include "tests/harness/temporary.h"

const struct made_plan made_plan_ordinary = {
	.configurations = 1,
	.loads = 12,
	.replicates = 20,
	.has_cost = true,
	.is_calibrated = true,
	.trace_name = "chat.jsonl",
};

const struct made_sweep made_sweep_ordinary = {.parameters = 1, .values = 6, .has_cache = true};

static struct result_value some(double value)
{
	return (struct result_value){.has_value = true, .value = value};
}

/* What a configuration carries, in requests/s. */
static double capacity_of(uint32_t configuration)
{
	return 8 + 3 * (double)((configuration * 5) % 7);
}

static void make_directory(const char *folder, const char *name, char *path)
{
	int length = snprintf(path, TEMPORARY_PATH_BYTES, "%s/%s", folder, name);

	require(length < TEMPORARY_PATH_BYTES, "%s/%s is too long", folder, name);
	require(mkdir(path, 0777) == 0, "%s cannot be made", path);
}

/* ---- a plan ---- */

static struct plan_probe probe_at(const struct made_plan *made, uint32_t configuration, double load)
{
	double x = made->is_least ? 6 / load : load / capacity_of(configuration);
	double wait = x < 0.98 ? 1 / (1 - x) : 50 * x;
	bool is_stretch = made->has_stretch && x > 0.4 && x < 0.5;
	double attained = is_stretch ? 0.97 : x < 0.9 ? 1 - 0.01 * x : fmax(0.2, 1.9 - x);
	double offered = made->is_least ? 6 : load;

	return (struct plan_probe){.configuration = configuration,
		.purpose = PROBE_SHAPE,
		.has_verdict = true,
		.verdict = x < 1 ? VERDICT_STABLE : VERDICT_OVERLOADED,
		.load = some(load),
		.replicate = some(0),
		.step_time_scale = some(1),
		.replicas = some(made->is_least ? load : 1),
		.lost = some(made->is_least ? 1 : 0),
		.offered_requests_per_s = some(offered),
		.attained = some(attained),
		.attained_low = some(attained * 0.995),
		.attained_high = some(fmin(1, attained * 1.004)),
		.goodput_requests_per_s = some(offered * attained),
		.output_tokens_per_s = some(300 * fmin(offered, 20)),
		.ttft_p50_ms = some(60 * wait),
		.ttft_p90_ms = some(200 * wait),
		.ttft_p99_ms = some(500 * wait),
		.tpot_p50_ms = some(10 + 12 * x),
		.tpot_p90_ms = some(14 + 20 * x),
		.tpot_p99_ms = some(16 + 24 * x),
		.e2e_p50_ms = some(4000 * wait),
		.e2e_p99_ms = some(20000 * wait),
		.hit_rate = some(0.4),
		.preemptions = some(floor(10 * x)),
		.utilisation = some(fmin(x, 1)),
		.outside_share = some(0.02),
		.passes = some(made->is_unmet || attained < 0.99 ? 0 : 1)};
}

/* The limits of made->has_run_limits, and what a run has of them. */
static struct plan_limits limits_of(const struct made_plan *made, struct plan_probe *probe)
{
	struct plan_limits limits = {.count = made->has_run_limits ? 2 : 0};

	limits.list[0].metric = metric_find("ttft.p95");
	limits.list[1].metric = metric_find("queue.mean");
	if (probe != NULL) {
		probe->limits[0] = some(0.7 * probe->ttft_p99_ms.value);
		probe->limits[1] = some(0.1 * probe->ttft_p99_ms.value);
	}
	return limits;
}

static void write_probes(const char *path, const struct made_plan *made)
{
	struct table_writer table;
	struct text header = {0};
	char name[TEMPORARY_PATH_BYTES + 16];
	char configuration[16];

	snprintf(name, sizeof(name), "%s/%s", path, PLAN_PROBES);
	const struct plan_limits limits = limits_of(made, NULL);
	plan_probe_header(&header, &limits);
	table_file_open(&table, name, header.bytes);
	text_deinit(&header);
	for (uint32_t i = 0; i < made->configurations; i++) {
		snprintf(configuration, sizeof(configuration), "c%u", i);
		for (uint32_t j = 0; j < made->loads; j++) {
			double load = made->is_least ? j + 1
						     : capacity_of(i) * 1.3 * (j + 1) / made->loads;
			struct plan_probe probe = probe_at(made, i, load);
			probe.purpose = j == 0 ? PROBE_FIRST : PROBE_BISECT;
			limits_of(made, &probe);
			plan_probe_write(&table, configuration, &probe, &limits);
		}
		for (uint32_t j = 0; j < made->replicates; j++) {
			struct plan_probe probe =
				probe_at(made, i, capacity_of(i) * (0.7 + 0.02 * j));
			probe.purpose = PROBE_SAMPLING;
			probe.replicate = some(j + 1);
			limits_of(made, &probe);
			plan_probe_write(&table, configuration, &probe, &limits);
		}
	}
	table_file_close(&table);
}

static struct plan_answer answer_of(const struct made_plan *made, uint32_t configuration)
{
	double pass = made->is_least ? 8 : 0.87 * capacity_of(configuration);
	struct plan_answer answer = {
		.sentence = made->is_unmet
				    ? "No load meets the SLO: 3 requests miss it on their own."
				    : "One H200 carries 2.6 times this traffic with 99 % of the "
				      "requests within the SLO.",
		.vary = made->is_least ? "replicas" : "rate",
		.unit = made->is_least ? "replicas" : "requests/s",
		.binding = "ttft",
		.binding_text = "the time to first token, which waits for KV blocks; "
				"--gpu-memory-utilization would help",
		.why_not_more = "At the lowest load that fails, 97.1 % are within the SLO.",
		.short_trace = made->is_least ? NULL : "all <requests> arrive within 2 s",
		.early_turns = made->is_least ? "half of the <turns> come too early" : NULL,
		.is_bound = made->is_interrupted,
		.is_least = made->is_least,
		.attained = some(0.9913),
		.offered_requests_per_s = some(pass),
		.goodput_requests_per_s = some(0.99 * pass),
		.output_tokens_per_s = some(300 * pass),
		.outside_share = some(0.021),
		.replicas = some(made->is_least ? pass : 1),
		.gpus = some(made->is_least ? pass : 1),
		.model = {.error = some(0.15),
			.is_guess = !made->is_calibrated,
			.text = "step times may be 15 % off"},
		.alone = {.requests = some(2200),
			.misses = some(made->is_unmet ? 3 : 0),
			.longest_tokens = some(120000)},
	};
	if (made->is_least) {
		answer.lowest_pass = some(pass);
		answer.highest_fail = some(pass - 1);
	} else if (!made->is_unmet) {
		answer.highest_pass = some(pass);
		answer.lowest_fail = some(1.02 * pass);
	} else {
		answer.lowest_fail = some(0.1);
	}
	if (!made->is_unmet) {
		answer.model.interval =
			(struct plan_interval){.low = some(0.8 * pass), .high = some(1.2 * pass)};
	}
	answer.sampling.method = "none";
	if (made->replicates > 0 && !made->is_unmet) {
		answer.sampling.interval =
			(struct plan_interval){.low = some(0.94 * pass), .high = some(1.05 * pass)};
		answer.sampling.replicates = some(made->replicates);
		answer.sampling.window_s = some(60);
		answer.sampling.method = "block bootstrap";
		answer.sampling.text = "20 resampled traces of blocks of 60 s";
	}
	if (made->has_cost) {
		answer.currency_per_gpu_hour = some(3.5);
		answer.cost_per_million_tokens = some(0.41);
		answer.spare = some(1);
	}
	if (made->has_stretch) {
		answer.stretches[answer.stretch_count++] = (struct plan_stretch){
			0.4 * capacity_of(configuration), 0.5 * capacity_of(configuration)};
	}
	return answer;
}

static cJSON *configuration_json(const struct made_plan *made, uint32_t index)
{
	cJSON *root = cJSON_CreateObject();
	char name[16], other[16];
	double pass = 0.87 * capacity_of(index);
	struct plan_answer answer = answer_of(made, index);

	snprintf(name, sizeof(name), "c%u", index);
	snprintf(other, sizeof(other), "c%u", index ^ 1);
	cJSON_AddStringToObject(root, "name", name);
	cJSON_AddStringToObject(
		root, "options", index == 0 ? "" : "--policy vllm --max-num-seqs 256");
	cJSON_AddStringToObject(
		root, "profile", index % 2 ? "h200-vllm-qwen3-8b" : "h200-qwen3-8b");
	cJSON_AddBoolToObject(root, "calibrated", made->is_calibrated);
	cJSON_AddNumberToObject(root, "gpus", 1 + index % 2);
	cJSON_AddItemToObject(root, "answer", plan_answer_json(&answer));
	cJSON *goodput = cJSON_AddObjectToObject(root, "goodput_per_gpu");
	cJSON_AddNumberToObject(goodput, "value", pass);
	cJSON_AddNumberToObject(goodput, "low", 0.9 * pass);
	cJSON_AddNumberToObject(goodput, "high", 1.1 * pass);
	cJSON *against = cJSON_AddObjectToObject(root, "against_best");
	cJSON_AddNumberToObject(against, "value", capacity_of(index) / capacity_of(0));
	cJSON_AddNumberToObject(against, "low", 0.95 * capacity_of(index) / capacity_of(0));
	cJSON_AddNumberToObject(against, "high", 1.05 * capacity_of(index) / capacity_of(0));
	cJSON_AddNumberToObject(root, "utilisation", 0.8);
	cJSON_AddNumberToObject(root, "throughput_per_gpu", 300 * pass);
	cJSON_AddNumberToObject(root, "speed_per_user", 30 + 3 * (double)((index * 3) % 11));
	cJSON_AddNumberToObject(root, "rank", index + 1);
	cJSON *same = cJSON_AddArrayToObject(root, "same_as");
	if ((index ^ 1) < made->configurations && index < 2) {
		cJSON_AddItemToArray(same, cJSON_CreateString(other));
	}
	cJSON_AddBoolToObject(root, "on_pareto_front", index % 3 == 0);
	return root;
}

static void write_json(const char *path, const char *name, cJSON *root)
{
	char *printed = cJSON_Print(root);

	temporary_write(path, name, printed, NULL);
	cJSON_free(printed);
	cJSON_Delete(root);
}

static void add_trace(cJSON *root, const char *name)
{
	cJSON *trace = cJSON_AddObjectToObject(root, "trace");

	cJSON_AddStringToObject(trace, "name", name);
	cJSON_AddStringToObject(trace, "xxh64", "0123456789abcdef");
	cJSON_AddNumberToObject(trace, "requests", 2200);
}

static void add_config(cJSON *root)
{
	cJSON *config = cJSON_AddObjectToObject(root, "config");

	cJSON_AddStringToObject(config, "model", "qwen3-8b");
	cJSON_AddStringToObject(config, "runner", "sim");
	cJSON_AddStringToObject(config, "gpu", "h200-qwen3-8b");
	cJSON_AddStringToObject(config, "policy", "mixed");
	cJSON_AddNumberToObject(config, "max_num_seqs", 256);
	cJSON_AddNumberToObject(config, "tensor_parallel_size", 1);
}

void make_plan(const char *folder, const char *name, const struct made_plan *made, char *path)
{
	cJSON *root = cJSON_CreateObject();
	struct plan_answer answer = answer_of(made, 0);

	make_directory(folder, name, path);
	write_probes(path, made);
	cJSON_AddStringToObject(root, "schema", PLAN_SCHEMA);
	cJSON_AddStringToObject(root, "status", made->is_interrupted ? "interrupted" : "complete");
	cJSON_AddBoolToObject(root, "calibrated", made->is_calibrated);
	cJSON_AddItemToObject(root, "answer", plan_answer_json(&answer));
	cJSON *slo = cJSON_AddObjectToObject(root, "slo");
	cJSON_AddStringToObject(
		slo, "text", "99 % of the requests with TTFT \u2264 2 s and TPOT \u2264 50 ms");
	if (made->has_run_limits) {
		cJSON_AddNullToObject(slo, "ttft_ms");
		cJSON_AddNullToObject(slo, "tpot_ms");
	} else {
		cJSON_AddNumberToObject(slo, "ttft_ms", 2000);
		cJSON_AddNumberToObject(slo, "tpot_ms", 50);
	}
	cJSON_AddNullToObject(slo, "e2e_ms");
	cJSON_AddNumberToObject(slo, "attain", 0.99);
	cJSON_AddStringToObject(
		slo, "limits", made->has_run_limits ? "ttft.p95<=2000,queue.mean<=90" : "");
	add_trace(root, made->trace_name);
	cJSON *configurations = cJSON_AddArrayToObject(root, "configurations");
	for (uint32_t i = 0; i < made->configurations; i++) {
		cJSON_AddItemToArray(configurations, configuration_json(made, i));
	}
	add_config(root);
	write_json(path, PLAN_SUMMARY, root);
}

/* ---- a sweep ---- */

static const char *const parameter_names[] = {
	"kv-blocks", "max-num-seqs", "policy", "model", "block-size"};

static void value_of(uint32_t parameter, uint32_t index, char *text)
{
	static const char *const policies[] = {"mixed", "vllm", "prefill-first"};
	static const char *const models[] = {"qwen3-0.6b", "qwen3-8b"};

	switch (parameter) {
	case 0:
		snprintf(text, 32, "%u", 256u << index);
		break;
	case 1:
		snprintf(text, 32, "%u", 32u << index);
		break;
	case 2:
		snprintf(text, 32, "%s", policies[index]);
		break;
	case 3:
		snprintf(text, 32, "%s", models[index]);
		break;
	default:
		snprintf(text, 32, "%u", 16u << index);
		break;
	}
}

static uint32_t value_count(const struct made_sweep *made, uint32_t parameter)
{
	uint32_t most = parameter == 2 ? 3 : parameter >= 3 ? 2 : 8;

	return made->values < most ? made->values : most;
}

static void add_run(
	struct text *table, const struct made_sweep *made, uint32_t run, bool is_missing)
{
	uint32_t at = run;
	double blocks = 256, seats = 32, shift = 1;
	bool is_failed = made->has_failures && run % 7 == 6 && !is_missing;
	char value[32];

	text_format(table, "r%04u\t%s\t%s", run,
		is_missing  ? "missing"
		: is_failed ? "failed"
			    : "complete",
		is_failed ? "--kv-blocks 256: found fewer than a request needs" : "-");
	for (uint32_t i = 0; i < made->parameters; i++) {
		uint32_t index = at % value_count(made, i);
		value_of(i, index, value);
		text_format(table, "\t%s", value);
		at /= value_count(made, i);
		blocks = i == 0 ? (double)(256u << index) : blocks;
		seats = i == 1 ? (double)(32u << index) : seats;
		shift = i >= 2 ? shift + 0.3 * index : shift;
	}
	for (uint32_t i = 0; i < SWEEP_METRIC_COUNT; i++) {
		const struct metric *metric = metric_find(sweep_metrics[i]);
		double share = blocks / (blocks + 3000) * seats / (seats + 10) * shift / 2;
		if (is_failed || is_missing) {
			text_add(table, "\t-");
		} else if (strcmp(metric->unit, "share") == 0) {
			text_format(table, "\t%.6f", share);
		} else {
			text_format(table, "\t%.3f", (i + 1) * 100 * share);
		}
	}
	text_format(table, "\t%.0f\t%.0f\t1\t%s\n", blocks, 256 * blocks,
		is_failed || is_missing ? "-\t-"
		: run % 3 == 2		? "overloaded\t1"
					: "stable\t1");
}

static void add_cache(const char *path)
{
	struct text table = {0};

	text_add(&table,
		"capacity_blocks\tcapacity_tokens\tcapacity_gib\ttotal_blocks\ttotal_tokens\t"
		"lru_stream_hit_blocks\tlru_stream_hit_tokens\tlru_tail_hit_blocks\t"
		"lru_tail_hit_tokens\tfifo_hit_blocks\tfifo_hit_tokens\tbelady_hit_blocks\t"
		"belady_hit_tokens\tinfinite_hit_blocks\tinfinite_hit_tokens\n");
	for (uint32_t i = 0; i < 30; i++) {
		double tokens = 512 * floor(exp(i / 3.0));
		double share = tokens / (tokens + 800000);
		text_format(&table,
			"1\t%.0f\t-\t100\t1000000\t1\t%.0f\t1\t%.0f\t1\t%.0f\t1\t%.0f\t1\t700000\n",
			tokens, 690000 * share, 700000 * share, 600000 * share,
			700000 * sqrt(share));
	}
	made_write(path, SWEEP_CACHE, &table);
}

void make_sweep(const char *folder, const char *name, const struct made_sweep *made, char *path)
{
	cJSON *root = cJSON_CreateObject();
	struct text table = {0};
	uint32_t runs = 1;
	char value[32];

	make_directory(folder, name, path);
	cJSON_AddStringToObject(root, "schema", SWEEP_SCHEMA);
	cJSON_AddStringToObject(root, "status", made->has_failures ? "interrupted" : "complete");
	cJSON_AddBoolToObject(root, "calibrated", true);
	cJSON *parameters = cJSON_AddArrayToObject(root, "parameters");
	for (uint32_t i = 0; i < made->parameters; i++) {
		cJSON *one = cJSON_CreateObject();
		cJSON_AddStringToObject(one, "name", parameter_names[i]);
		cJSON *values = cJSON_AddArrayToObject(one, "values");
		for (uint32_t j = 0; j < value_count(made, i); j++) {
			value_of(i, j, value);
			cJSON_AddItemToArray(values, cJSON_CreateString(value));
		}
		cJSON_AddItemToArray(parameters, one);
		runs *= value_count(made, i);
	}
	cJSON *slo = cJSON_AddObjectToObject(root, SWEEP_SLO);
	cJSON_AddNumberToObject(slo, "ttft_ms", 500);
	cJSON_AddNullToObject(slo, "tpot_ms");
	cJSON_AddNumberToObject(slo, "e2e_ms", 30000);
	add_trace(root, "chat.jsonl");
	add_config(root);
	write_json(path, SWEEP_SUMMARY, root);
	sweep_header(&table, parameter_names, made->parameters);
	text_add(&table, "\n");
	for (uint32_t i = 0; i < runs; i++) {
		add_run(&table, made, i, made->has_failures && i + 1 == runs);
	}
	made_write(path, SWEEP_RUNS, &table);
	if (made->has_cache) {
		add_cache(path);
	}
}
