#include "bench/replay/replay_config.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/policy.h"
#include "tests/harness/require.h"
#include "workloads/generate/arrivals.h"

/* What the options of a run come to: limits of the engine, the workload and its drawn arrivals, in
   their units. */

/* Sets an option from its text, as the command line and the defaults do. */
static void set(struct replay_config *config, const char *name, const char *text)
{
	struct error error = {0};

	for (uint32_t i = 0; i < replay_options.count; i++) {
		const struct option *option = &replay_options.rows[i];
		if (option->kind != OPTION_HEADING && strcmp(option->name, name) == 0) {
			require(option_set(option, config, text, &error) == STATUS_OK, "%s",
				error.text);
			return;
		}
	}
	require(false, "no option --%s", name);
}

/* Sets pairs of names and texts; NULL ends them. */
static struct replay_config config_of(const char *const *pairs)
{
	struct replay_config config;

	replay_config_default(&config);
	for (; pairs[0] != NULL; pairs += 2) {
		set(&config, pairs[0], pairs[1]);
	}
	return config;
}

#define CONFIG(...) config_of((const char *const[]){__VA_ARGS__, NULL})

static void workload_of(const struct replay_config *config, struct workload_options *options,
	struct arrival_profile *profile)
{
	struct error error = {0};

	require(replay_config_workload(config, options, profile, &error) == STATUS_OK, "%s",
		error.text);
}

Test(replay_config, limits_are_those_of_the_engine)
{
	struct replay_config config = CONFIG("policy", "prefill-first", "admission", "seed",
		"block-size", "17", "kv-blocks", "1234567", "max-num-seqs", "33",
		"max-num-batched-tokens", "8193", "max-model-len", "4097");
	struct engine_config engine;

	replay_config_engine(&config, &engine);
	cr_expect_eq(engine.policy, &policy_prefill_first);
	require_equal(engine.admission, ADMISSION_SEED);
	require_equal(engine.block_size, 17);
	require_equal(engine.kv_block_count, 1234567);
	require_equal(engine.max_num_seqs, 33);
	require_equal(engine.max_num_batched_tokens, 8193);
	require_equal(engine.max_model_len, 4097);
	/* Lengths are the trace's, so no token ends a request. */
	require_equal(engine.eos_token_id, -1);
	require_equal(engine.further_eos_count, 0);
	replay_config_default(&config);
	set(&config, "kv-blocks", "1");
	set(&config, "max-model-len", "1");
	replay_config_engine(&config, &engine);
	cr_expect_eq(engine.policy, &policy_mixed);
	require_equal(engine.admission, ADMISSION_EXACT);
	require_equal(engine.block_size, 256);
	require_equal(engine.max_num_seqs, 512);
	require_equal(engine.max_num_batched_tokens, 16384);
}

/* Those of vLLM 0.33, but for what the user gave. */
/* Requires that the engine has the words of all strategies, each by its index. */
static void require_strategies(const struct replay_config *config, const uint32_t *words)
{
	struct engine_config engine;

	replay_config_engine(config, &engine);
	require_equal(engine.admission, words[0]);
	require_equal(engine.prefix_caching, words[1]);
	require_equal(engine.allocation, words[2]);
	require_equal(engine.strategies.free_order, words[3]);
	require_equal(engine.strategies.eviction, words[4]);
	require_equal(engine.queue_order, words[5]);
	require_equal(engine.has_whole_prompts, words[6]);
	require_equal(engine.is_async, words[7]);
	require_equal(engine.has_no_full_gate, words[8]);
	require_equal(engine.long_prefill_threshold, words[9]);
	require_equal((uint64_t)(engine.watermark * 1000 + 0.5), words[10]);
}

/* Each option reaches the engine as itself, and none as another. */
Test(replay_config, strategies_are_those_of_the_engine)
{
	static const struct {
		uint32_t word; /* in the order above */
		uint32_t index;
		const char *name, *value;
	} cases[] = {
		{0, ADMISSION_SEED, "admission", "seed"},
		{1, PREFIX_CACHING_OFF, "enable-prefix-caching", "off"},
		{2, 1, "allocation", NULL},
		{3, FREE_UNHASHED_FIRST, "free-order", NULL},
		{4, EVICTION_FIFO, "eviction", "fifo"},
		{4, EVICTION_RANDOM, "eviction", "random"},
		{5, 1, "scheduling-policy", "priority"},
		{6, 1, "enable-chunked-prefill", "off"},
		{7, 1, "async-scheduling", "on"},
		{9, 77, "long-prefill-token-threshold", "77"},
		{10, 125, "watermark", "0.125"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct replay_config config = CONFIG("policy", "vllm", "kv-blocks", "100",
			"max-model-len", "100", "async-scheduling", "off");
		uint32_t words[11] = {0};
		require_strategies(&config, words);
		const struct option *row = option_table_find(&replay_options, cases[i].name);
		require(row != NULL, "no --%s", cases[i].name);
		set(&config, cases[i].name,
			cases[i].value != NULL ? cases[i].value : row->word_at(cases[i].index));
		words[cases[i].word] = cases[i].index;
		require_strategies(&config, words);
	}
}

Test(replay_config, policy_vllm_has_its_own_limits)
{
	struct replay_config config = CONFIG("policy", "vllm");
	struct engine_config engine;

	replay_config_take_policy(&config);
	require_equal(config.gpu_memory_utilization, 920000);
	require_equal(config.async_scheduling, ASYNC_SCHEDULING_ON);
	replay_config_engine(&config, &engine);
	require_equal(engine.block_size, 16);
	require_equal(engine.max_num_seqs, 1024);
	require_equal(engine.max_num_batched_tokens, 8192);
	config = CONFIG("policy", "vllm", "block-size", "32", "max-num-seqs", "7",
		"max-num-batched-tokens", "99", "gpu-memory-utilization", "0.5", "async-scheduling",
		"off");
	config.given.block_size = config.given.max_num_seqs = true;
	config.given.max_num_batched_tokens = config.given.gpu_memory_utilization = true;
	config.given.async_scheduling = true;
	replay_config_take_policy(&config);
	require_equal(config.gpu_memory_utilization, 500000);
	require_equal(config.async_scheduling, ASYNC_SCHEDULING_OFF);
	replay_config_engine(&config, &engine);
	require_equal(engine.block_size, 32);
	require_equal(engine.max_num_seqs, 7);
	require_equal(engine.max_num_batched_tokens, 99);
}

/* As in vLLM: seats are at most the tokens of a step, and a step has the tokens of a whole prompt
   where prompts are not cut; each unless given. */
Test(replay_config, limits_of_vllm_follow_each_other)
{
	static const struct model_config model = {.max_position_embeddings = 40000};
	struct replay_config config = CONFIG("policy", "vllm", "max-num-batched-tokens", "300");

	config.given.max_num_batched_tokens = true;
	replay_config_take_policy(&config);
	replay_config_complete(&config, &model);
	require_equal(config.max_num_seqs, 300);
	require_equal(config.max_num_batched_tokens, 300);
	config = CONFIG("policy", "vllm", "enable-chunked-prefill", "off");
	replay_config_take_policy(&config);
	replay_config_complete(&config, &model);
	require_equal(config.max_num_seqs, 1024);
	require_equal(config.max_num_batched_tokens, 40000);
	config = CONFIG("policy", "vllm", "enable-chunked-prefill", "off", "max-model-len", "100");
	replay_config_take_policy(&config);
	replay_config_complete(&config, &model);
	require_equal(config.max_num_batched_tokens, 8192);
	config = CONFIG(
		"policy", "vllm", "enable-chunked-prefill", "off", "max-num-batched-tokens", "900");
	config.given.max_num_batched_tokens = true;
	replay_config_take_policy(&config);
	replay_config_complete(&config, &model);
	require_equal(config.max_num_seqs, 900);
	require_equal(config.max_num_batched_tokens, 900);
}

Test(replay_config, the_trace_is_read_as_the_options_say)
{
	struct replay_config config = CONFIG("duration", "2.000003", "speedup", "1.5",
		"max-requests", "77", "trace-block-size", "48", "sessions", "closed", "seed", "9",
		"format", "bailian");
	struct workload_options options;
	struct arrival_profile profile;

	config.sort = true;
	workload_of(&config, &options, &profile);
	require_equal(options.duration_ns, 2000003000);
	require_equal(options.speedup_millionths, 1500000);
	require_equal(options.max_requests, 77);
	require_equal(options.trace.trace_block_size, 48);
	require_equal(options.trace.sort, true);
	require(options.trace.format != NULL, "no format");
	require_equal(options.sessions, SESSIONS_CLOSED);
	require_equal(options.seed, 9);
	require_equal(options.concurrency, 0);
	cr_expect_null(options.profile);
	config = CONFIG("concurrency", "12");
	workload_of(&config, &options, &profile);
	require_equal(options.concurrency, 12);
	require_equal(options.duration_ns, 0);
	require_equal(options.speedup_millionths, 1000000);
	require_equal(options.trace.sort, false);
	require_equal(options.trace.trace_block_size, 0);
	require_equal(options.sessions, SESSIONS_OPEN);
	cr_expect_null(options.trace.format);
}

/* ---- drawn arrivals ---- */

Test(replay_config, a_rate_draws_arrivals_of_its_kind)
{
	static const struct {
		const char *arrivals, *burstiness;
		enum arrival_kind kind;
		uint64_t shape;
	} cases[] = {
		{"trace", NULL, ARRIVALS_POISSON, 1000000},
		{"poisson", NULL, ARRIVALS_POISSON, 1000000},
		{"constant", NULL, ARRIVALS_CONSTANT, 1000000},
		{"gamma", NULL, ARRIVALS_GAMMA, 1000000},
		{"gamma", "0.25", ARRIVALS_GAMMA, 250000},
		{"trace", "4", ARRIVALS_GAMMA, 4000000},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct replay_config config = CONFIG("rate", "6.25", "arrivals", cases[i].arrivals);
		struct workload_options options;
		struct arrival_profile profile;
		if (cases[i].burstiness != NULL) {
			set(&config, "burstiness", cases[i].burstiness);
		}
		workload_of(&config, &options, &profile);
		cr_expect_eq(options.profile, &profile);
		require_equal(profile.kind, cases[i].kind);
		require_equal(profile.burstiness_millionths, cases[i].shape);
		require_equal(profile.rate_from, 6250000);
		require_equal(profile.rate_to, 6250000);
		require_equal(profile.step_count, 1);
		require_equal(profile.resolution_ns, 1);
		require_equal(profile.swings, false);
	}
}

Test(replay_config, a_ramp_goes_from_one_rate_to_another_in_the_run_s_time)
{
	struct replay_config config =
		CONFIG("ramp", "0.5:40.25:5", "duration", "600", "arrivals", "constant");
	struct workload_options options;
	struct arrival_profile profile;

	workload_of(&config, &options, &profile);
	require_equal(profile.kind, ARRIVALS_CONSTANT);
	require_equal(profile.rate_from, 500000);
	require_equal(profile.rate_to, 40250000);
	require_equal(profile.step_count, 5);
	require_equal(profile.step_ns, 120000000000);
	require_equal(profile.swings, false);
	require_equal(options.duration_ns, 600000000000);
	config = CONFIG("ramp", "1000000:0.000001:1000", "duration", "1");
	workload_of(&config, &options, &profile);
	require_equal(profile.rate_from, 1000000000000);
	require_equal(profile.rate_to, 1);
	require_equal(profile.step_count, 1000);
	require_equal(profile.step_ns, 1000000);
}

Test(replay_config, a_malformed_ramp_is_refused)
{
	static const char *const ramps[] = {"", "1", "1:2", "1:2:", "1:2:1", "1:2:1001", "0:2:3",
		"1:0:3", "1000001:2:3", "1:1000001:3", "a:2:3", "1:b:3", "1:2:3:4", "1:2:2.5",
		"-1:2:3", ":2:3", "1::3"};

	for (uint32_t i = 0; i < sizeof(ramps) / sizeof(ramps[0]); i++) {
		struct replay_config config = CONFIG("duration", "10");
		struct workload_options options;
		struct arrival_profile profile;
		struct error error = {0};
		config.ramp = ramps[i];
		require(replay_config_workload(&config, &options, &profile, &error) == STATUS_USAGE,
			"accepts '%s'", ramps[i]);
		require(strncmp(error.text, "--ramp", 6) == 0, "%s", error.text);
	}
}

/* ---- contradictions ---- */

Test(replay_config, options_that_contradict_each_other_are_named)
{
	static const struct {
		const char *pairs[9];
		bool gives_speedup;
		const char *first, *second;
	} cases[] = {
		{{"rate", "1", "ramp", "1:2:3", "duration", "9", NULL}, false, "--rate", "--ramp"},
		{{"ramp", "1:2:3", NULL}, false, "--ramp", "--duration"},
		{{"arrivals", "gamma", NULL}, false, "--arrivals", "--rate"},
		{{"burstiness", "2", NULL}, false, "--burstiness", "--rate"},
		{{"burstiness", "2", "arrivals", "constant", "rate", "1", NULL}, false,
			"--burstiness", "constant"},
		{{"burstiness", "2", "arrivals", "poisson", "rate", "1", NULL}, false,
			"--burstiness", "poisson"},
		{{"concurrency", "4", NULL}, true, "--speedup", "--concurrency"},
		{{"concurrency", "4", "rate", "1", NULL}, false, "--rate", "--concurrency"},
		{{"concurrency", "4", "sessions", "closed", NULL}, false, "--concurrency",
			"--sessions closed"},
		{{"rate", "1", NULL}, true, "--speedup", "--rate"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct replay_config config = config_of(cases[i].pairs);
		struct workload_options options;
		struct arrival_profile profile;
		struct error error = {0};
		config.given.speedup = cases[i].gives_speedup;
		require_equal(
			replay_config_workload(&config, &options, &profile, &error), STATUS_USAGE);
		require(strstr(error.text, cases[i].first) != NULL &&
				strstr(error.text, cases[i].second) != NULL,
			"%s", error.text);
	}
}

/* What is refused because of several options at once, and what is not, in all combinations. */
Test(replay_config, a_check_refuses_what_its_line_says_and_no_more)
{
	for (uint32_t bits = 0; bits < 1 << 6; bits++) {
		bool cools = bits & 1, lasts = bits & 2, is_closed = bits & 4, has_seats = bits & 8;
		bool has_most = bits & 16, is_vllm = bits & 32;
		struct replay_config config = CONFIG("policy", is_vllm ? "vllm" : "prefill-first",
			"cooldown", cools ? "1" : "0", "sessions", is_closed ? "closed" : "open");
		struct error error = {0};
		const char *expected = NULL;

		if (lasts) {
			set(&config, "duration", "0.000001");
		}
		if (has_seats) {
			set(&config, "concurrency", "1");
		}
		if (has_most) {
			set(&config, "max-concurrency", "1");
		}
		if (has_most && has_seats) {
			expected = "--max-concurrency holds arrivals back, and --concurrency";
		} else if (has_most && !is_vllm) {
			expected = "--max-concurrency belongs to a policy";
		} else if (cools && lasts && (is_closed || has_seats)) {
			expected = "--cooldown counts from the last request";
		}
		replay_config_take_policy(&config);
		enum status status = replay_config_check(&config, &error);
		require_equal(status, expected == NULL ? STATUS_OK : STATUS_USAGE);
		require(expected == NULL || strncmp(error.text, expected, strlen(expected)) == 0,
			"'%s' does not begin with '%s'", error.text, expected);
	}
}

/* Repetitions end by a number of requests, or by a time that is reached. */
Test(replay_config, a_loop_needs_an_end)
{
	for (uint32_t bits = 0; bits < 1 << 6; bits++) {
		bool loops = bits & 1, spreads = bits & 2, counts = bits & 4, lasts = bits & 8;
		bool is_closed = bits & 16, has_rate = bits & 32;
		struct replay_config config = CONFIG(
			"loop", loops ? "fresh" : "off", "sessions", is_closed ? "closed" : "open");
		struct workload_options options;
		struct arrival_profile profile;
		struct error error = {0};
		const char *expected = NULL;

		config.spread_ties = spreads;
		if (counts) {
			set(&config, "max-requests", "5");
		}
		if (lasts) {
			set(&config, "duration", "5");
		}
		if (has_rate) {
			set(&config, "rate", "2");
		}
		if (spreads && has_rate) {
			continue; /* refused for another reason */
		}
		if (loops && spreads) {
			expected = "--spread-ties spreads the times of one reading, --loop";
		} else if (loops && !counts && !lasts) {
			expected = "--loop repeats the trace until --duration or --max-requests";
		} else if (loops && !counts && is_closed && has_rate) {
			expected = "--loop with --sessions closed and a rate";
		}
		enum status status = replay_config_workload(&config, &options, &profile, &error);
		require(status == (expected == NULL ? STATUS_OK : STATUS_USAGE), "%x: %s", bits,
			error.text);
		require(expected == NULL || strncmp(error.text, expected, strlen(expected)) == 0,
			"'%s' does not begin with '%s'", error.text, expected);
	}
}

/* A warm-up leaves at least one of the requests that are asked for. */
Test(replay_config, a_warm_up_leaves_something_to_measure)
{
	for (uint32_t warmup = 0; warmup < 6; warmup++) {
		for (uint32_t most = 0; most < 5; most++) {
			struct replay_config config = CONFIG("policy", "mixed");
			struct error error = {0};
			config.warmup = warmup;
			config.max_requests = most;
			config.given.max_requests = most > 0;
			enum status status = replay_config_check(&config, &error);
			require((status == STATUS_OK) == (most == 0 || warmup < most),
				"%u of %u requests: %s", warmup, most, error.text);
		}
	}
}
