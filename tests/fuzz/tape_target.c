#include "tests/fuzz/targets.h"

#include <stdio.h>

#include "bench/replay/run.h"
#include "engine/base/clock.h"
#include "reports/results/results.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/require.h"

/* The trace of every recorded run in the corpus. */
static const char trace[] =
	"{\"timestamp\":0,\"input_length\":60,\"output_length\":5,\"hash_ids\":[0]}\n"
	"{\"timestamp\":10,\"input_length\":61,\"output_length\":5,\"hash_ids\":[1]}\n"
	"{\"timestamp\":20,\"input_length\":62,\"output_length\":3,\"hash_ids\":[0],"
	"\"session_id\":\"a\"}\n"
	"{\"timestamp\":20,\"input_length\":90,\"output_length\":4,\"session_id\":\"a\"}\n";

/* An accepted recording may describe an engine of many GB, which is no fault of the reader. */
static bool is_small(const char *folder)
{
	struct replay_config config;
	struct replay_recording recording;
	struct error error = {0};

	replay_config_default(&config);
	if (replay_config_from_recording(&config, folder, &recording, &error) != STATUS_OK) {
		return true;
	}
	replay_recording_close(&recording);
	return config.kv_blocks <= 1 << 16 && config.max_num_batched_tokens <= 1 << 20 &&
	       config.max_num_seqs <= 1 << 12 && config.max_model_len <= 1 << 20 &&
	       config.block_size <= 1 << 12 && config.replicas <= 8;
}

static void check_outcome(const struct run_outcome *outcome)
{
	require(outcome->finished <= outcome->submitted, "more finished than came");
	require(outcome->work.busy_ns <= CLOCK_NS_MAX && outcome->window_ns <= CLOCK_NS_MAX,
		"beyond the clock");
	for (uint32_t i = 0; i < LATENCY_COUNT; i++) {
		require(outcome->latency[i].ns[STATISTIC_MAX] <= CLOCK_NS_MAX, "a latency wraps");
	}
}

bool fuzz_tape(const uint8_t *bytes, size_t byte_count)
{
	static const char *const names[] = {RESULT_SUMMARY, RESULT_STEPS, NULL};
	char folder[TEMPORARY_PATH_BYTES], path[SECTIONS_PATH_BYTES];
	struct run_request request = {.is_checking = true};
	struct run_outcome outcome = {0};
	struct error error = {0};
	bool is_played = false;

	sections_unpack(bytes, byte_count, names, folder);
	temporary_write(folder, "trace.jsonl", trace, NULL);
	sections_path(path, folder, "trace.jsonl");
	replay_config_default(&request.config);
	request.config.runner = "tape";
	request.trace_path = path;
	request.tape = folder;
	if (is_small(folder)) {
		enum status status = run_replay(&request, &outcome, &error);
		require_refused_in_one_line(status, &error);
		check_outcome(&outcome);
		is_played = status == STATUS_OK;
	}
	sections_remove(folder);
	return is_played;
}
