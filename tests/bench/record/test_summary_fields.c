#include "bench/record/summary.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* summary.json and the printed table, whole, of an outcome in which every figure is another number.
   So no figure can stand for another, and none can be left out or scaled. */

static struct latency_figures figures(uint64_t first)
{
	return (struct latency_figures){.count = 9,
		.ns = {first + 1, first + 20, first + 300, first + 4000, first + 50000,
			first + 600000, first + 7000000, first + 80000000, first + 90000000}};
}

static struct run_outcome whole_outcome(void)
{
	struct run_outcome outcome = {
		.end = RUN_COMPLETE,
		.trace_name = "demo \"a\".jsonl",
		.trace_xxh64 = 0x0123456789abcdef,
		.result_hash = 0xa,
		.verdict = VERDICT_BACKLOGGED,
		.runner_kind = "priced",
		.is_calibrated = true,
		.profile = "one GPU, 2026-01-02",
		.found_kv_blocks = 4321,
		.kv_blocks = 1234567,
		.block_size = 256,
		.submitted = 2201,
		.finished = 1002,
		.rejected = 103,
		.rejected_too_long = 92,
		.capped = 7,
		.rejected_never_fits = 11,
		.failed = 14,
		.unfinished = 1082,
		.window_start_ns = 7000000001,
		.window_ns = 123456789012,
		.steps_before = 501,
		.steps_after = 602,
		.has_utilisation = true,
		.utilisation = 0.41,
		.kv_mean = 0.101,
		.kv_peak = 0.202,
		.seats_mean = 0.303,
		.seats_peak = 0.404,
		.budget_mean = 0.506,
		.budget_peak = 0.607,
		.arrival_span_ns = 11000000000,
		.has_run_out = true,
		.last_arrival_ns = 44000000005,
		.drain_ns = 5000000007,
		.backlog_at_last_arrival = 77,
		.warmup_submitted = 701,
		.measured_submitted = 1234,
		.measured_finished = 999,
		.has_prompt_ids = true,
		.work = {.steps = 33158,
			.busy_ns = 65000000001,
			.finished = 1001,
			.attained = 611,
			.prompt_tokens = 16648565,
			.output_tokens = 1312031,
			.sums.prefill_tokens = 8765432,
			.recomputed_tokens = 72769,
			.lost_output_tokens = 51,
			.hit_tokens = 9500001,
			.preemptions = 65},
		.slo.ttft_ns = 250000000,
		.slo.tpot_ns = 40000001,
		.slo.e2e_ns = 9000000000,
		.slo_attained = 601,
		.has_dispatch_late = true,
		.dispatch_late = figures(600000000),
		.gpu_idle = figures(700000000),
	};

	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		outcome.latency[i] = figures((i + 1) * 100000000);
	}
	return outcome;
}

/* What summary_write() writes for the outcome, owned by the caller. */
static char *written(const struct run_outcome *outcome)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	cJSON *config = cJSON_CreateObject();

	cJSON_AddStringToObject(config, "model", "small");
	temporary_folder(folder);
	temporary_write(folder, "summary.json", "", path);
	FILE *file = fopen(path, "wb");
	require(file != NULL, "%s cannot be written", path);
	summary_write(outcome, config, file);
	require(fclose(file) == 0, "%s cannot be written", path);
	char *text = file_read(path, NULL);
	temporary_remove(folder);
	return text;
}

static char *printed(const struct run_outcome *outcome)
{
	struct capture capture;

	fflush(stdout);
	capture_begin(&capture, STDOUT_FILENO);
	summary_print(outcome, "h200");
	fflush(stdout);
	return capture_end(&capture);
}

/* What stderr says of the outcome, owned by the caller. */
static char *warned(const struct run_outcome *outcome)
{
	struct capture capture;

	fflush(stderr);
	capture_begin(&capture, STDERR_FILENO);
	summary_warn_of_end(outcome);
	summary_warn_of_memory(outcome, "h200");
	summary_warn_of_rejections(outcome, 2048);
	fflush(stderr);
	return capture_end(&capture);
}

/* Demands that the text holds each of the parts, as they are. NULL ends them. */
static void require_parts(char *found, const char *const *parts)
{
	for (uint32_t i = 0; parts[i] != NULL; i++) {
		require(strstr(found, parts[i]) != NULL, "no\n%s\nin\n%s", parts[i], found);
	}
	free(found);
}

#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A section of latencies: the digits before "00." ms, and the depth. */
#define FIGURES(name, first, tabs)                                                                 \
	tabs "\"" name "\":\t{\n" tabs "\t\"mean\":\t" first "00.000001,\n" tabs                   \
	     "\t\"std\":\t" first "00.000020,\n" tabs "\t\"min\":\t" first "00.000300,\n" tabs     \
	     "\t\"p50\":\t" first "00.004000,\n" tabs "\t\"p90\":\t" first "00.050000,\n" tabs     \
	     "\t\"p95\":\t" first "00.600000,\n" tabs "\t\"p99\":\t" first "07.000000,\n" tabs     \
	     "\t\"p99_9\":\t" first "80.000000,\n" tabs "\t\"max\":\t" first "90.000000\n" tabs    \
	     "}"

Test(summary_fields, every_figure_is_written_in_its_place_and_unit)
{
	struct run_outcome outcome = whole_outcome();

	require_parts(written(&outcome),
		PARTS("\t\"status\":\t\"complete\",\n",
			"\t\"config\":\t{\n\t\t\"model\":\t\"small\"\n\t},\n",
			"\t\"trace\":\t{\n\t\t\"name\":\t\"demo \\\"a\\\".jsonl\",\n"
			"\t\t\"xxh64\":\t\"0123456789abcdef\",\n\t\t\"requests\":\t2201,\n"
			"\t\t\"ran_out_s\":\t44.000000005\n\t},\n",
			"\t\"runner_kind\":\t\"priced\",\n\t\"calibrated\":\ttrue,\n"
			"\t\"found_kv_blocks\":\t4321,\n",
			"\t\"requests\":\t{\n\t\t\"submitted\":\t2201,\n\t\t\"finished\":\t1002,\n"
			"\t\t\"rejected\":\t103,\n\t\t\"failed\":\t14,\n"
			"\t\t\"unfinished\":\t1082,\n\t\t\"rejected_too_long\":\t92,\n"
			"\t\t\"rejected_never_fits\":\t11,\n\t\t\"capped\":\t7\n\t},\n",
			"\t\"window\":\t{\n\t\t\"start_s\":\t7.000000001,\n"
			"\t\t\"end_s\":\t130.456789013,\n\t\t\"warmup_requests\":\t701,\n"
			"\t\t\"measured_requests\":\t1234,\n\t\t\"cooldown_requests\":\t266,\n"
			"\t\t\"finished\":\t1001,\n\t\t\"steps_before\":\t501,\n"
			"\t\t\"steps_after\":\t602\n\t},\n",
			"\t\"time\":\t{\n\t\t\"makespan_s\":\t123.456789012,\n"
			"\t\t\"busy_s\":\t65.000000001,\n\t\t\"steps\":\t33158,\n\t\t\"outside_"
			"steps\":\tnull,\n"
			"\t\t\"outside_time\":\tnull\n\t},\n",
			"\t\"load\":\t{\n\t\t\"offered_per_s\":\t112.090,\n"
			"\t\t\"utilisation\":\t0.410000,\n\t\t\"kv_mean\":\t0.101000,\n"
			"\t\t\"kv_peak\":\t0.202000,\n\t\t\"seats_mean\":\t0.303000,\n"
			"\t\t\"seats_peak\":\t0.404000,\n\t\t\"budget_mean\":\t0.506000,\n"
			"\t\t\"budget_peak\":\t0.607000,\n"
			"\t\t\"backlog_at_last_arrival\":\t77,\n"
			"\t\t\"drain_s\":\t5.000000007,\n\t\t\"verdict\":\t\"backlogged\"\n\t},\n",
			"\t\"tokens\":\t{\n\t\t\"prompt\":\t16648565,\n\t\t\"output\":\t1312031,\n"
			"\t\t\"prefill_computed\":\t8765432,\n\t\t\"recomputed\":\t72769,"
			"\n\t\t\"lost\":\t51\n\t},\n",
			"\t\"prefix_cache\":\t{\n\t\t\"query_tokens\":\t16648565,\n"
			"\t\t\"hit_tokens\":\t9500001,\n\t\t\"hit_rate\":\t0.570619\n\t},\n"
			"\t\"preemptions\":\t65,\n",
			"\t\"throughput\":\t{\n\t\t\"output_tokens_per_s\":\t10627.451,\n"
			"\t\t\"total_tokens_per_s\":\t145480.828,\n"
			"\t\t\"requests_per_s\":\t8.10810\n\t},\n"));
	require_parts(written(&outcome),
		PARTS(FIGURES("queue", "1", "\t\t"), FIGURES("ttft", "2", "\t\t"),
			FIGURES("tpot", "3", "\t\t"), FIGURES("itl", "4", "\t\t"),
			FIGURES("e2e", "5", "\t\t"), FIGURES("dispatch_late_ms", "6", "\t"),
			FIGURES("gpu_idle_ms", "7", "\t"),
			"\t\"slo\":\t{\n\t\t\"ttft_ms\":\t250.000000,\n\t\t\"tpot_ms\":\t40.000001,"
			"\n\t\t\"e2e_ms\":\t9000.000000,"
			"\n"
			"\t\t\"attained\":\t0.487034,\n"
			"\t\t\"goodput_requests_per_s\":\t4.94910\n\t},\n",
			"\t\"result_hash\":\t\"000000000000000a\""));
}

Test(summary_fields, every_figure_is_printed)
{
	struct run_outcome outcome = whole_outcome();
	const char *row =
		"  queue         100.000      100.004      100.050      107.000      190.000\n"
		"  ttft          200.000      200.004      200.050      207.000      290.000\n"
		"  tpot          300.000      300.004      300.050      307.000      390.000\n"
		"  itl           400.000      400.004      400.050      407.000      490.000\n"
		"  e2e           500.000      500.004      500.050      507.000      590.000\n"
		"  late          600.000      600.004      600.050      607.000      690.000\n"
		"  gpu idle      700.000      700.004      700.050      707.000      790.000\n";

	require_parts(printed(&outcome),
		PARTS("backlogged: requests queued longer than they were served, or many waited "
		      "when arrivals ended; 103 of 2,201 requests (4.7%) were rejected (112.091 "
		      "requests/s offered)\n",
			"priced by profile h200: one GPU, 2026-01-02\n",
			"  requests  2,201 submitted,  1,002 finished,  103 rejected,  14 failed,  "
			"1,082 unfinished\n",
			"  window    7.000 to 130.457 s:   701 requests of the warm-up,  1,234 "
			"measured,  266 of the cooldown\n",
			"  time      123.457 s of the window,  33,158 steps\n",
			"  used      41.0% of capacity; at most 20% of the KV blocks, 40% of the "
			"seats\n",
			"  rate      10627.451 output tokens/s, 145480.829 tokens/s in all, 8.108 "
			"requests/s\n",
			"  tokens    16,648,565 prompt,  1,312,031 output,  72,769 recomputed\n",
			"  cache     57.06% of prompt tokens hit;  65 preemptions;  1,234,567 KV "
			"blocks of  256 tokens\n",
			"  ms               mean          p50          p90          p99          "
			"max\n",
			row, "  slo      48.70% of requests attain it, goodput 4.949 requests/s\n",
			"  result_hash 000000000000000a\n"));
}

/* Without a warm-up or a cooldown the time is that of the whole run, and says from when to when. */
Test(summary_fields, the_time_is_told_with_its_ends)
{
	struct run_outcome outcome = whole_outcome();

	outcome.measured_submitted = outcome.submitted;
	require_parts(printed(&outcome),
		PARTS("  time      123.457 s from first arrival to the end of the run,  33,158 "
		      "steps\n"));
	for (uint32_t i = 0; i < 4; i++) {
		outcome.failed = i % 2;
		outcome.unfinished = i / 2;
		require_parts(printed(&outcome),
			PARTS(i == 0 ? "  time      123.457 s from first arrival to last finish,  "
				       "33,158 steps\n"
				     : "  time      123.457 s from first arrival to the end of the "
				       "run,  33,158 steps\n"));
	}
}

/* A run that rejected requests is not praised: their share is told, and no head room. */
Test(summary_fields, a_verdict_says_what_share_was_rejected)
{
	struct run_outcome outcome = whole_outcome();

	outcome.verdict = VERDICT_STABLE;
	outcome.submitted = 2200;
	outcome.rejected = 2191;
	require_parts(printed(&outcome),
		PARTS("stable: 2,191 of 2,200 requests (99.6%) were rejected; the engine kept up "
		      "with the others (112.091 requests/s offered)\n",
			"  used      41.0% of capacity; at most "));
	outcome.rejected = 1;
	require_parts(printed(&outcome),
		PARTS("stable: 1 of 2,200 requests (0.0%) was rejected; the engine kept up",
			"  used      41.0% of capacity; at most "));
	outcome.rejected = 2200;
	require_parts(printed(&outcome),
		PARTS("stable: 2,200 of 2,200 requests (100.0%) were rejected (112.091 requests"));
	outcome.rejected = 0;
	require_parts(printed(&outcome),
		PARTS("stable: the engine kept up with what arrived (112.091 requests/s offered)\n",
			"  used      41.0% of capacity (2.4x the load fits if evenly spread); at "
			"most "));
	/* A burst that filled the memory or the seats had no room for more. */
	for (uint32_t i = 0; i < 2; i++) {
		struct run_outcome full = outcome;
		*(i == 0 ? &full.kv_peak : &full.seats_peak) = 1;
		require_parts(printed(&full), PARTS("  used      41.0% of capacity; at most "));
	}
	outcome.verdict = VERDICT_OVERLOADED;
	require_parts(printed(&outcome), PARTS("  used      41.0% of capacity; at most "));
}

/* What is waited for most is told with the option that shortens it, where there is one. */
Test(summary_fields, waits_are_told_with_the_option_that_helps)
{
	struct run_outcome outcome = whole_outcome();
	u128 *ns = outcome.work.waits.ns;

	ns[WAIT_STEP] = 1000000000;
	ns[WAIT_BLOCKS] = 3000000000;
	require_parts(printed(&outcome),
		PARTS("  waited    for the step in flight 25.0%, KV blocks 75.0%; "
		      "--gpu-memory-utilization would help\n"));
	outcome.has_given_blocks = true;
	require_parts(printed(&outcome), PARTS("KV blocks 75.0%; --kv-blocks would help\n"));
	/* Of equal ones the first counts. */
	ns[WAIT_ROUTER] = ns[WAIT_BLOCKS];
	require_parts(printed(&outcome), PARTS("%; --kv-blocks would help\n"));
	ns[WAIT_ROUTER] = 0;
	ns[WAIT_SEATS] = 5000000000;
	require_parts(printed(&outcome), PARTS("%; --max-num-seqs would help\n"));
	outcome.is_held_back = true;
	require_parts(printed(&outcome), PARTS("%; --max-concurrency would help\n"));
	outcome.vain_causes = 1 << WAIT_SEATS;
	require_parts(printed(&outcome),
		PARTS("%; more of that would not help, --replicas would help\n"));
	outcome.vain_causes = 1 << WAIT_BLOCKS;
	require_parts(printed(&outcome), PARTS("%; --max-concurrency would help\n"));
	ns[WAIT_SEATS] = 0;
	outcome.vain_causes = 0;
	ns[WAIT_ROUTER] = 4000000000;
	require_parts(printed(&outcome),
		PARTS("KV blocks 37.5%, a replica that takes requests 50.0%; --replicas would "
		      "help\n"));
	/* None is advised that is at its end. */
	outcome.spent_causes = 1 << WAIT_ROUTER;
	require_parts(printed(&outcome), PARTS("a replica that takes requests 50.0%\n"));
	ns[WAIT_ROUTER] = 0;
	outcome.spent_causes = 1 << WAIT_BLOCKS;
	require_parts(printed(&outcome), PARTS("KV blocks 75.0%; --replicas would help\n"));
	ns[WAIT_ROUTER] = 4000000000;
	ns[WAIT_STEP] = 13000000000;
	require_parts(printed(&outcome), PARTS("a replica that takes requests 20.0%\n"));
	require_parts(written(&outcome),
		PARTS("\t\"waiting\":\t{\n\t\t\"step_s\":\t13.000000000,\n",
			"\t\t\"router_s\":\t4.000000000,\n\t\t\"lost_s\":\t0.000000000\n\t},\n"));
}

/* What was not measured, has no limit or divides by nothing is null, and a dash where it is
   printed. */
Test(summary_fields, what_there_is_not_is_null)
{
	struct run_outcome outcome = whole_outcome();
	const struct latency_figures none = {0};

	outcome.found_kv_blocks = 0;
	outcome.has_run_out = false;
	outcome.slo.ttft_ns = 0;
	outcome.has_dispatch_late = false;
	outcome.gpu_idle = none;
	outcome.latency[LATENCY_TPOT] = none;
	outcome.arrival_span_ns = 0;
	outcome.work.prompt_tokens = 0;
	outcome.work.steps = 0;
	outcome.has_utilisation = false;
	char *text = written(&outcome);
	require(strstr(text, "dispatch_late_ms") == NULL && strstr(text, "gpu_idle_ms") == NULL,
		"figures of nothing in %s", text);
	require_parts(
		text, PARTS("\"found_kv_blocks\":\tnull,", "\"ran_out_s\":\tnull\n",
			      "\"offered_per_s\":\tnull,",
			      "\"utilisation\":\tnull,\n\t\t\"kv_mean\":\tnull,\n",
			      "\"seats_mean\":\tnull,", "\"budget_peak\":\tnull,",
			      "\"hit_rate\":\tnull\n",
			      "\t\"tpot\":\t{\n\t\t\t\"mean\":\tnull,\n\t\t\t\"std\":\tnull,\n"
			      "\t\t\t\"min\":\tnull,\n\t\t\t\"p50\":\tnull,\n"
			      "\t\t\t\"p90\":\tnull,\n\t\t\t\"p95\":\tnull,\n"
			      "\t\t\t\"p99\":\tnull,\n\t\t\t\"p99_9\":\tnull,\n"
			      "\t\t\t\"max\":\tnull\n",
			      "\"ttft_ms\":\tnull,\n\t\t\"tpot_ms\":\t40.000001,\n"
			      "\t\t\"e2e_ms\":\t9000.000000,\n"
			      "\t\t\"attained\":\t0.487034,"));
	require_parts(printed(&outcome),
		PARTS("(4.7%) were rejected\n", "no step was computed; at most",
			"  cache     -% of prompt tokens hit;",
			"  tpot                -            -            -            -            "
			"-\n",
			"\n  slo      48.70%"));
	outcome.slo.tpot_ns = 0;
	outcome.slo.e2e_ns = 0;
	outcome.window_ns = 0;
	outcome.work.steps = 3; /* that took no time: of nothing there is no mean */
	require_parts(
		written(&outcome), PARTS("\"utilisation\":\tnull,\n\t\t\"kv_mean\":\tnull,\n",
					   "\"seats_mean\":\tnull,", "\"budget_peak\":\tnull,"));
	outcome.work.steps = 0;
	require_parts(written(&outcome),
		PARTS("\"ttft_ms\":\tnull,\n\t\t\"tpot_ms\":\tnull,\n"
		      "\t\t\"e2e_ms\":\tnull,\n\t\t\"attained\":\tnull,\n"
		      "\t\t\"goodput_requests_per_s\":\tnull",
			"\"output_tokens_per_s\":\tnull,\n\t\t\"total_tokens_per_s\":\tnull,\n"
			"\t\t\"requests_per_s\":\tnull"));
	text = printed(&outcome);
	require(strstr(text, "slo") == NULL && strstr(text, "late") == NULL, "%s", text);
	require_parts(
		text, PARTS("  rate      - output tokens/s, - tokens/s in all, - requests/s\n"));
}

/* A study may assume more KV blocks than the GPU has room for, and says so. */
Test(summary_fields, blocks_beyond_the_memory_are_marked)
{
	struct run_outcome outcome = whole_outcome();

	char *text = written(&outcome);
	require(strstr(text, "beyond_memory") == NULL, "%s", text);
	free(text);
	outcome.is_beyond_memory = true;
	require_parts(written(&outcome), PARTS("\t\"beyond_memory\":\ttrue,\n"));
	require_parts(printed(&outcome), PARTS(" tokens, more than the memory has room for\n"));
}

/* A run that left requests is not stable, whatever its queue did. */
Test(summary_fields, requests_that_nobody_took_are_told)
{
	struct run_outcome outcome = whole_outcome();

	outcome.verdict = VERDICT_UNSERVED;
	require_parts(written(&outcome), PARTS("\"verdict\":\t\"unserved\"\n"));
	require_parts(printed(&outcome), PARTS("unserved: requests were left when no replica"));
}

Test(summary_fields, the_end_of_a_run_is_told)
{
	struct run_outcome outcome = whole_outcome();

	outcome.end = RUN_INTERRUPTED;
	outcome.is_calibrated = false;
	outcome.verdict = VERDICT_OVERLOADED;
	require_parts(written(&outcome), PARTS("\t\"status\":\t\"interrupted\",\n",
						 "\"calibrated\":\tfalse,\n", "\"overloaded\""));
	require_parts(printed(&outcome),
		PARTS("interrupted: what follows is up to that point\nuntil then overloaded: "
		      "more arrived than was served",
			"uncalibrated: the times of profile h200 were never compared"));
	outcome.end = RUN_FAILED;
	outcome.verdict = VERDICT_STABLE;
	outcome.profile[0] = '\0';
	outcome.is_calibrated = true;
	strcpy(outcome.failure.text, "step 7: the GPU is gone");
	require_parts(written(&outcome), PARTS("\t\"status\":\t\"failed\",\n"
					       "\t\"failure\":\t\"step 7: the GPU is gone\",\n"));
	char *text = printed(&outcome);
	require(strstr(text, "profile") == NULL, "%s", text);
	require_parts(text, PARTS("failed: step 7: the GPU is gone\nuntil then stable: 103 of "
				  "2,201 requests (4.7%) were rejected; the engine kept up "
				  "with the others"));
}

/* ---- warnings ---- */

Test(summary_fields, every_warning_has_its_figures)
{
	struct run_outcome outcome = whole_outcome();

	outcome.longest_too_long = 3001;
	outcome.longest_never_fitting = 70000;
	outcome.fleet.refused = 23;
	outcome.is_beyond_memory = true;
	char *text = warned(&outcome);
	cr_assert_str_eq(text,
		"the trace ran out after 2201 requests, at 44.000 s, before --duration or "
		"--max-requests: --loop shared repeats it\n"
		"1082 requests were not served: no replica was left to send them to\n"
		"warning: 1234567 KV blocks are more than the memory of h200 has room for, which "
		"is 4321\n"
		"92 requests (4.2%; the longest has 3001 tokens) exceed --max-model-len 2048 and "
		"were rejected; --max-model-len 3001 takes all\n"
		"11 requests (0.5%; the longest has 70000 tokens) need more than the 1234567 KV "
		"blocks there are and were rejected; --kv-blocks 274 takes all\n"
		"23 requests (1.0%) found the router's queue full and were rejected; a larger "
		"--router-queue or --replica-limit, or more --replicas, takes them\n"
		"the answers of 7 requests (0.3%) were cut short at --max-model-len 2048\n");
	free(text);
	outcome.found_kv_blocks = 0;
	require_parts(warned(&outcome), PARTS("room for: beside the weights none fits\n"));
}

static uint64_t one_or_more(uint32_t bits, uint32_t bit)
{
	return bits >> bit & 1 ? 2 + bit : 1;
}

/* Each sentence agrees with its own number and with no other. */
Test(summary_fields, one_request_is_told_of_as_one)
{
	for (uint32_t bits = 0; bits < 32; bits++) {
		struct run_outcome outcome = {.submitted = 1000, .block_size = 16};
		struct text expected = {0};
		uint64_t too_long = one_or_more(bits, 0), never_fits = one_or_more(bits, 1);
		uint64_t refused = one_or_more(bits, 2), capped = one_or_more(bits, 3);
		uint64_t blocks = one_or_more(bits, 4);
#define LONG(count) (unsigned long long)(count), (count) == 1 ? "" : "s"
#define WAS(count) (count) == 1 ? "was" : "were"
#define SHARE(count) 100 * (double)(count) / 1000
		text_format(&expected,
			"%llu request%s (%.1f%%; the longest has 3001 tokens) exceed%s "
			"--max-model-len 2048 and %s rejected; --max-model-len 3001 takes all\n",
			LONG(too_long), SHARE(too_long), too_long == 1 ? "s" : "", WAS(too_long));
		text_format(&expected,
			"%llu request%s (%.1f%%; the longest has 129 tokens) need%s more than the "
			"%llu KV block%s there %s and %s rejected; --kv-blocks 8 takes all\n",
			LONG(never_fits), SHARE(never_fits), never_fits == 1 ? "s" : "",
			LONG(blocks), blocks == 1 ? "is" : "are", WAS(never_fits));
		text_format(&expected,
			"%llu request%s (%.1f%%) found the router's queue full and %s rejected; a "
			"larger --router-queue or --replica-limit, or more --replicas, takes %s\n",
			LONG(refused), SHARE(refused), WAS(refused), refused == 1 ? "it" : "them");
		text_format(&expected,
			"the answer%s of %llu request%s (%.1f%%) %s cut short at --max-model-len "
			"2048\n",
			capped == 1 ? "" : "s", LONG(capped), SHARE(capped), WAS(capped));
		outcome.rejected_too_long = too_long;
		outcome.longest_too_long = 3001;
		outcome.rejected_never_fits = never_fits;
		outcome.longest_never_fitting = 129;
		outcome.kv_blocks = blocks;
		outcome.fleet.refused = refused;
		outcome.capped = capped;
		char *text = warned(&outcome);
		require(strcmp(text, expected.bytes) == 0, "found\n%sexpected\n%s", text,
			expected.bytes);
		free(text);
		text_deinit(&expected);
	}
}

/* Where groups of a fleet have limits of their own, their columns take the requests. */
Test(summary_fields, warnings_of_a_fleet_name_the_columns)
{
	struct run_outcome outcome = whole_outcome();
	struct replica_figures group = {.group = "big"};

	outcome.longest_too_long = 3001;
	outcome.longest_never_fitting = 70000;
	outcome.fleet.count = 1;
	outcome.fleet.each = &group;
	require_parts(warned(&outcome),
		PARTS("92 requests (4.2%; the longest has 3001 tokens) exceed max_model_len of "
		      "the group that they were sent to and were rejected; max_model_len 3001 in "
		      "every row of --fleet takes all\n",
			"11 requests (0.5%; the longest has 70000 tokens) need more than the KV "
			"blocks of the group that they were sent to and were rejected; kv_blocks "
			"274 in every row of --fleet takes all\n"));
}

/* Nothing is said of what did not happen. */
Test(summary_fields, a_run_without_losses_warns_of_nothing)
{
	struct run_outcome outcome = whole_outcome();

	outcome.has_run_out = false;
	outcome.unfinished = 0;
	outcome.rejected_too_long = outcome.rejected_never_fits = outcome.capped = 0;
	char *text = warned(&outcome);
	cr_assert_str_eq(text, "");
	free(text);
}

Test(summary_fields, time_outside_the_profile_is_told_above_its_share)
{
	struct run_outcome outcome = whole_outcome();

	outcome.has_outside = true;
	outcome.outside_share = 0.373;
	require_parts(printed(&outcome),
		PARTS("warning: 37.3% of the time is in steps unlike those that the profile was "
		      "fitted to\n"));
	outcome.outside_share = 0;
	char *text = printed(&outcome);
	require(strstr(text, "unlike") == NULL, "%s", text);
	free(text);
}

Test(summary_fields, every_level_of_a_ramp_has_its_row)
{
	struct run_outcome outcome = whole_outcome();
	struct level_figures levels[] = {{.rate_millionths = 2500000,
						 .submitted = 40,
						 .finished = 39,
						 .attained = 31,
						 .has_ttft = true,
						 .has_tpot = true,
						 .ttft_p50_ns = 11000000,
						 .ttft_p99_ns = 22000000,
						 .tpot_p99_ns = 33000000,
						 .waiting = 4.25,
						 .has_utilisation = true,
						 .utilisation = 0.515},
		{.rate_millionths = 7000000, .submitted = 3, .attained = 1}};

	outcome.level_count = 2;
	outcome.levels = levels;
	/* Without a limit there is no share that attains it. */
	const struct slo slo = outcome.slo;
	outcome.slo = (struct slo){0};
	char *text = written(&outcome);
	require(strstr(text, "\"levels\"") != NULL, "no levels");
	require(strstr(strstr(text, "\"levels\""), "\"attained\":\tnull") != NULL &&
			strstr(strstr(text, "\"levels\""), "\"attained\":\t0") == NULL,
		"a share of no SLO: %s", text);
	free(text);
	outcome.slo = slo;
	require_parts(printed(&outcome),
		PARTS("  1          2.500        40      11.000      22.000      33.000     77.5% "
		      "      4.2     51.5%\n",
			"  2          7.000         3           -           -           -     "
			"33.3%  "
			"     0.0         -\n"));
}
