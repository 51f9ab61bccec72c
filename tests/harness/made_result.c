#include "tests/harness/made_result.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/status.h"
#include "reports/report.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

const struct made_result made_ordinary = {
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
		      "output_tokens\tprefill_tokens\tpreemptions\tsteps\tbusy_share\t"
		      "wait_step\twait_seats\twait_blocks\twait_budget\twait_order\t"
		      "wait_router\twait_lost\n");
	for (uint32_t i = 0; i < bins; i++) {
		uint32_t noise = i * 2654435761u >> 20; /* in [0, 4096) */
		text_format(out,
			"%u.5\t1.5\t%u.25\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t%u\t0.%03u"
			"\t0.%03u\t%u\t%u\t0.000\t0.000\t0.000\t0.000\n",
			i, noise / 10, noise / 3, noise, noise, 40000 + noise, noise * 3, noise * 7,
			noise % 3, 20 + noise % 5, noise % 1000, noise % 1000, noise / 5,
			noise / 9);
	}
}

/* Every seventh was rejected; prompts of 1 to 2^16 tokens. */
static void add_requests(struct text *out, uint32_t count)
{
	text_add(out, "id\tstatus\tprompt_tokens\toutput_tokens\tttft_ns\n");
	for (uint32_t i = 0; i < count; i++) {
		uint32_t noise = i * 2654435761u >> 20; /* in [0, 4096) */
		uint32_t prompt = 1 + (noise << i % 5);
		if (i % 7 == 6) {
			text_format(out, "%u\trejected_too_long\t%u\t0\t-\n", i, 16 * prompt);
		} else {
			text_format(out, "%u\tfinished\t%u\t%u\t%u000\n", i, prompt, noise,
				prompt + 40 * noise);
		}
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

void made_latency(struct text *out, uint32_t buckets)
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

/* Even replicas have a hit rate, odd ones saw no prompt. */
static void add_fleet(struct text *out, uint32_t replicas)
{
	text_add(out, replicas == 0 ? ""
				    : "\"fleet\": {\"router\": \"prefix\", \"imbalance\": 1.25, "
				      "\"jain\": 0.93, \"regret_blocks\": null, \"retries\": 3, "
				      "\"rejected_queue_full\": 0, \"whole_hit_rate\": 0.5, "
				      "\"replicas\": [");
	for (uint32_t i = 0; i < replicas; i++) {
		text_format(out,
			"%s{\"replica\": %u, \"prompt_tokens\": %u, \"output_tokens\": %u, "
			"\"hit_rate\": %s, \"busy_s\": %u.5}",
			i == 0 ? "" : ", ", i, 1000 + 70 * (i * 7 % 11), 300 + i % 5,
			i % 2 == 0 ? "0.25" : "null", 40 + i % 9);
	}
	text_add(out, replicas == 0 ? "" : "]}, ");
}

static void add_slo(struct text *out, const struct made_result *made)
{
	text_add(out, "\"slo\": {\"ttft_ms\": null, \"tpot_ms\": null, ");
	if (made->slo_e2e_ms > 0) {
		text_format(out,
			"\"e2e_ms\": %g, \"attained\": 0.5, \"goodput_requests_per_s\": 20},\n",
			made->slo_e2e_ms);
	} else {
		text_add(out, "\"e2e_ms\": null, \"attained\": null, "
			      "\"goodput_requests_per_s\": null},\n");
	}
}

void made_summary(struct text *out, const struct made_result *made)
{
	bool has_values = made->latency_buckets > 0;
	char ranks[64] = "";

	if (made->ranks > 0) {
		snprintf(ranks, sizeof(ranks), "\"tensor_parallel_size\": %u, ", made->ranks);
	}
	text_format(out,
		"{\"schema\": \"quire-result-2\", \"status\": \"%s\", \"failure\": \"%s\",\n"
		"\"config\": {\"model\": \"qwen3-0.6b\", \"runner\": \"%s\", \"gpu\": \"%s\",\n"
		"%s\"policy\": \"mixed\", \"kv_blocks\": %llu, \"seed\": %llu},\n",
		made->status, made->failure == NULL ? "device lost" : made->failure,
		made->runner == NULL ? "sim" : made->runner,
		made->device == NULL ? "h200" : "device", ranks,
		(unsigned long long)made->kv_blocks, (unsigned long long)made->seed);
	text_format(out,
		"\"trace\": {\"name\": \"%s\", \"xxh64\": \"%s\", \"requests\": 12031, "
		"\"ran_out_s\": null},\n"
		"\"calibrated\": %s,\n"
		"\"requests\": {\"submitted\": 12031, \"finished\": 12028, \"rejected\": 3,"
		" \"failed\": 0, \"unfinished\": 0, \"rejected_too_long\": 3,"
		" \"rejected_never_fits\": 0, \"longest_too_long\": 126527},\n",
		made->trace_name, made->trace_hash == NULL ? "00ff" : made->trace_hash,
		made->is_calibrated ? "true" : "false");
	if (made->found_kv_blocks > 0) {
		text_format(out, "\"found_kv_blocks\": %llu,\n",
			(unsigned long long)made->found_kv_blocks);
	}
	text_format(out,
		"\"window\": {\"start_s\": 0.5, \"end_s\": 301, \"warmup_requests\": 0, "
		"\"measured_requests\": 30, \"cooldown_requests\": 0, \"finished\": 28, "
		"\"steps_before\": 0, \"steps_after\": 0},\n"
		"\"time\": {\"makespan_s\": 300.5, \"busy_s\": 280.25, \"steps\": %u, "
		"\"outside_steps\": null, \"outside_time\": null},\n"
		"\"load\": {\"offered_per_s\": 40.1, \"utilisation\": 0.6321,"
		" \"kv_mean\": 0.41, \"kv_peak\": 0.9, \"seats_mean\": 0.2, \"seats_peak\": 1,"
		" \"budget_mean\": 0.05, \"budget_peak\": 1,"
		" \"backlog_at_last_arrival\": 7, \"drain_s\": 1.5, \"verdict\": \"%s\"},\n"
		"\"tokens\": {\"prompt\": 1000000, \"output\": 200000, \"prefill_computed\": 9,"
		" \"recomputed\": 8, \"lost\": 0},\n",
		made->bins * 20, made->verdict);
	text_format(out,
		"\"prefix_cache\": {\"query_tokens\": 1000000, \"hit_tokens\": 60600,"
		" \"hit_rate\": 0.0606},\n"
		"\"preemptions\": %llu,\n"
		"\"waiting\": {\"step_s\": 1.5, \"seats_s\": 30.25, \"blocks_s\": 0,"
		" \"budget_s\": 2, \"order_s\": 0, \"router_s\": 0, \"lost_s\": 0},\n"
		"\"throughput\": {\"output_tokens_per_s\": 3983.25,"
		" \"total_tokens_per_s\": 45000, \"requests_per_s\": 40.02},\n"
		"\"latency_ms\": {",
		(unsigned long long)made->kv_blocks);
	for (uint32_t i = 0; i < 5; i++) {
		text_format(out,
			has_values ? "%s\"%s\": {\"mean\": 20.5, \"std\": 8, \"min\": 1,"
				     " \"p50\": 12.5, \"p90\": 40, \"p95\": 60, \"p99\": %g,"
				     " \"p99_9\": 2900000, \"max\": 3100000}"
				   : "%s\"%s\": {\"mean\": null, \"std\": null, \"min\": null,"
				     " \"p50\": null, \"p90\": null, \"p95\": null,"
				     " \"p99\": null, \"p99_9\": null, \"max\": null}",
			i == 0 ? "" : ", ", metrics[i],
			i == 1 && made->ttft_p99_ms > 0 ? made->ttft_p99_ms : 2240.0);
	}
	text_add(out, "},\n");
	add_slo(out, made);
	add_fleet(out, made->replicas);
	text_add(out, "\"result_hash\": \"0123456789abcdef\"}\n");
}

void made_write(const char *folder, const char *name, struct text *text)
{
	temporary_write(folder, name, text->bytes, NULL);
	text_deinit(text);
}

void make_result(const char *folder, const char *name, const struct made_result *made, char *path)
{
	struct text text = {0};

	int size = snprintf(path, TEMPORARY_PATH_BYTES, "%s/%s", folder, name);
	require(size > 0 && size < TEMPORARY_PATH_BYTES, "the path of %s is too long", name);
	require(mkdir(path, 0777) == 0, "cannot make %s", path);
	add_timeline(&text, made->bins);
	made_write(path, "timeline.tsv", &text);
	add_requests(&text, made->latency_buckets);
	made_write(path, "requests.tsv", &text);
	add_step_grid(&text, made->rows_octaves, made->tokens_octaves);
	made_write(path, "step_grid.tsv", &text);
	made_latency(&text, made->latency_buckets);
	made_write(path, "latency.tsv", &text);
	if (made->operations > 0) {
		add_kernel_phases(&text, made->operations);
		made_write(path, "kernel_phases.tsv", &text);
		add_kernel_timeline(&text, made->operations, made->kernel_bins);
		made_write(path, "kernel_timeline.tsv", &text);
	}
	made_summary(&text, made);
	made_write(path, "summary.json", &text);
	if (made->steps != NULL) {
		temporary_write(path, "steps.tsv", made->steps, NULL);
	}
	text_add(&text, "{\"commit\": \"abc123\", \"command\": \"quire replay chat.jsonl\"");
	if (made->device != NULL) {
		text_format(&text, ", \"device\": \"%s\"", made->device);
	}
	text_add(&text, "}\n");
	made_write(path, "provenance.json", &text);
}

char *make_page(
	const char *folder, const char *const *directories, uint32_t count, const char *name)
{
	struct error error = {0};
	char path[TEMPORARY_PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	unlink(path); /* a command writes each file once, and a test is one command */
	enum status status = report_write(directories, count, path, NULL, &error);
	require(status == STATUS_OK, "no report: %s", error.text);
	return file_read(path, NULL);
}

char *make_page_of(const char *folder, const struct made_result *made)
{
	char path[TEMPORARY_PATH_BYTES];

	make_result(folder, "run", made, path);
	const char *directories[] = {path};
	return make_page(folder, directories, 1, "page.html");
}

void require_has(const char *page, const char *text)
{
	require(strstr(page, text) != NULL, "the page lacks: %s", text);
}

void require_lacks(const char *page, const char *text)
{
	require(strstr(page, text) == NULL, "the page has: %s", text);
}

uint32_t occurrences(const char *page, const char *text)
{
	uint32_t count = 0;

	for (const char *at = strstr(page, text); at != NULL; at = strstr(at + 1, text)) {
		count++;
	}
	return count;
}

void require_sound_ids(const char *page)
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
			uint32_t found =
				occurrences(page, wanted[0]) + occurrences(page, wanted[1]);
			require(found == 1, "the id %.*s is there %u times", size, name, found);
		}
	}
}

void require_self_contained(const char *page)
{
	static const char *const loaders[] = {"http:", "https:", " src=", "<link", "@import",
		"<script src", "<iframe", "<object", "<img", " onload", " onerror"};

	for (uint32_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++) {
		require_lacks(page, loaders[i]);
	}
}
