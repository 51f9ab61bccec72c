#include "bench/replay/replay.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/counter_hash.h"
#include "engine/base/interrupt.h"
#include "engine/base/text.h"
#include "engine/policy.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"
#include "workloads/trace/format.h"

/* A replay decides the same whether blocks are known by keys, as for a runner that prices, or by
   their tokens, as for one that computes. Both runners here take the same time for a step; the one
   that computes gets the tokens and returns none of its own, since all are forced. */

static enum status take_time(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct runner *runner = state;
	const struct step_counts *counts = &batch->counts;

	(void)error;
	if (runner->is_computing) {
		memset(token_ids, 0, counts->sampled_rows * sizeof(*token_ids));
	}
	time->elapsed_ns = 1000 + 10 * counts->prefill_tokens + counts->decode_rows;
	return STATUS_OK;
}

struct scene {
	struct replay_config config;
	struct workload_options load;
	struct engine_config engine;
	uint32_t vocab_size;
	const char *trace_path;
};

struct decisions {
	uint64_t result_hash;
	uint64_t hit_tokens, query_tokens, steps, finished;
};

static struct decisions replay_scene(const struct scene *scene, bool is_computing)
{
	struct runner runner = {
		.name = "either", .is_computing = is_computing, .execute = take_time};
	const struct replay_options options = {.config = &scene->config,
		.workload = &scene->load,
		.trace_path = scene->trace_path,
		.vocab_size = scene->vocab_size};
	struct replay *replay = calloc(1, sizeof(*replay));
	struct error error = {0};

	runner.state = &runner;
	require(replay_open(replay, &options, &scene->engine, &runner, &error) == STATUS_OK, "%s",
		error.text);
	interrupt_hold();
	require(replay_run(replay, &error) == STATUS_OK, "%s", error.text);
	const struct decisions decisions = {
		.result_hash = metrics_result_hash(&replay->metrics),
		.hit_tokens = replay->metrics.work.hit_tokens,
		.query_tokens = replay->metrics.work.prompt_tokens,
		.steps = replay->metrics.work.steps,
		.finished = replay->metrics.finished,
	};
	replay_close(replay);
	interrupt_release();
	free(replay);
	return decisions;
}

static struct decisions require_same_decisions(const struct scene *scene)
{
	struct decisions by_keys = replay_scene(scene, false);
	struct decisions by_tokens = replay_scene(scene, true);

	require_equal(by_keys.hit_tokens, by_tokens.hit_tokens);
	require_equal(by_keys.query_tokens, by_tokens.query_tokens);
	require_equal(by_keys.steps, by_tokens.steps);
	require_equal(by_keys.finished, by_tokens.finished);
	require(by_keys.result_hash == by_tokens.result_hash, "only the result hashes differ");
	return by_keys;
}

/* ---- drawn traces of every format ---- */

enum { ROWS = 30, SESSIONS = 4, FAMILIES = 3, INPUT_MAX = 150 };

enum drawn_format { MOONCAKE, BAILIAN, AZURE, BURSTGPT, TOKEN_IDS, DRAWN_FORMATS };

/* Ids or tokens of a family for the first part of a prompt, then some of its own; some spell out
   the part behind the last whole block. */
static void draw_list(struct prop *prop, struct text *text, uint32_t index, uint32_t count)
{
	uint32_t family = prop_range(prop, 0, FAMILIES - 1);
	uint32_t shared = prop_range(prop, 0, count);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t id = i < shared ? family * 1000 + i : 10000 + index * 1000 + i;
		text_format(text, "%s%u", i == 0 ? "" : ",", id);
	}
}

static uint32_t draw_id_count(struct prop *prop, uint32_t input, uint32_t block_size)
{
	return input / block_size + (input % block_size > 0 && prop_chance(prop, 1, 2));
}

static void draw_session_row(struct prop *prop, struct text *text, uint32_t index, uint32_t input,
	uint32_t output, uint32_t block_size, enum drawn_format format)
{
	uint32_t session = prop_range(prop, 0, SESSIONS);

	if (format == MOONCAKE) {
		text_format(text, "{\"timestamp\":%u,\"input_length\":%u,\"output_length\":%u",
			index, input, output);
		if (session > 0) {
			text_format(text, ",\"session_id\":\"%u\"", session);
		}
		if (prop_chance(prop, 2, 3)) {
			text_format(text, ",\"hash_ids\":[");
			draw_list(prop, text, index, draw_id_count(prop, input, block_size));
			text_format(text, "]");
		}
		text_format(text, "}\n");
		return;
	}
	uint32_t parent = prop_chance(prop, 1, 2) ? prop_range(prop, 0, index) : index;
	text_format(text,
		"{\"chat_id\":%u,\"parent_chat_id\":%d,\"timestamp\":%u.5,\"input_length\":%u,"
		"\"output_length\":%u,\"type\":\"text\",\"turn\":1,\"hash_ids\":[",
		index, parent < index ? (int)parent : -1, index / 8, input, output);
	draw_list(prop, text, index, draw_id_count(prop, input, block_size));
	text_format(text, "]}\n");
}

static void draw_trace_row(struct prop *prop, struct text *text, uint32_t index,
	enum drawn_format format, uint32_t block_size)
{
	/* Later prompts are longer, so that they may continue earlier ones. */
	uint32_t input = prop_range(prop, 1, 10 + index * 4);
	uint32_t output = prop_range(prop, 1, 20);

	switch (format) {
	case AZURE:
		text_format(text, "2023-11-16 18:15:%02u.000,%u,%u\n", index, input, output);
		break;
	case BURSTGPT:
		text_format(text, "%u,%u,model,%u,%u,%u,Conversation log\n", index / 4,
			prop_range(prop, 0, SESSIONS), input, output, input + output);
		break;
	case TOKEN_IDS:
		text_format(text, "{\"arrival_time_ns\":%u,\"input_tok_ids\":[", index * 1000);
		draw_list(prop, text, index, input);
		if (prop_chance(prop, 1, 2)) {
			text_format(text, "],\"output_tok_ids\":[");
			draw_list(prop, text, index, output);
		}
		text_format(text, "],\"output_toks\":%u}\n", output);
		break;
	default:
		draw_session_row(prop, text, index, input, output, block_size, format);
	}
}

static void draw_trace(
	struct prop *prop, struct scene *scene, enum drawn_format format, struct text *text)
{
	uint32_t row_count = prop_range(prop, 1, ROWS);

	if (format == AZURE) {
		text_format(text, "TIMESTAMP,ContextTokens,GeneratedTokens\n");
	} else if (format == BURSTGPT) {
		text_format(text, "Timestamp,Session ID,Model,Request tokens,Response tokens,"
				  "Total tokens,Log Type\n");
	}
	for (uint32_t i = 0; i < row_count; i++) {
		draw_trace_row(prop, text, i, format, scene->load.trace.trace_block_size);
	}
	prop_log(prop, "%s", text->bytes);
	file_write(scene->trace_path, text->bytes, text->byte_count);
}

static void draw_scene(struct prop *prop, struct scene *scene)
{
	static const uint32_t vocabularies[] = {TOKEN_VOCABULARY_LIMIT, 2, 30, 1000};
	struct engine_config *engine = &scene->engine;

	scene->vocab_size = vocabularies[prop_below(prop, 4)];
	scene->config =
		(struct replay_config){.tokens = TOKENS_FORCED, .seed = prop_below(prop, 3)};
	scene->load = (struct workload_options){
		.trace = {.trace_block_size = prop_range(prop, 1, 40)},
		.speedup_millionths = 1000000,
	};
	if (prop_chance(prop, 1, 3)) {
		scene->load.concurrency = prop_range(prop, 1, 6);
	} else {
		scene->load.sessions = prop_chance(prop, 1, 2) ? SESSIONS_CLOSED : SESSIONS_OPEN;
	}
	*engine = (struct engine_config){
		.policy = prop_chance(prop, 1, 2) ? &policy_prefill_first : &policy_mixed,
		.block_size = prop_range(prop, 1, prop_chance(prop, 1, 2) ? 8 : 40),
		.max_num_seqs = prop_range(prop, 1, 6),
		.max_model_len = INPUT_MAX + 50,
		.max_num_batched_tokens = INPUT_MAX + 50,
		.eos_token_id = -1,
	};
	uint32_t longest = engine->max_model_len / engine->block_size + 1;
	engine->kv_block_count = prop_range(prop, longest, 4 * longest);
	prop_log(prop, "%s, %u blocks of %u, %u sequences; of the trace %u; vocabulary %u",
		engine->policy->name, engine->kv_block_count, engine->block_size,
		engine->max_num_seqs, scene->load.trace.trace_block_size, scene->vocab_size);
}

static void drawn_traces_decide_the_same(struct prop *prop, const void *context)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	const enum drawn_format *format = context;
	struct scene scene;
	struct text text = {0};

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/trace", folder);
	draw_scene(prop, &scene);
	scene.trace_path = path;
	draw_trace(prop, &scene, *format, &text);
	require_same_decisions(&scene);
	text_deinit(&text);
	temporary_remove(folder);
}

static void try_format(enum drawn_format format)
{
	const struct prop_options options = {.name = "keys and tokens",
		.body = drawn_traces_decide_the_same,
		.context = &format,
		.trials = 300};

	interrupt_catch();
	cr_assert(prop_holds(&options));
}

Test(replay_keys, decide_as_tokens_do_with_hash_ids)
{
	try_format(MOONCAKE);
}

Test(replay_keys, decide_as_tokens_do_in_chats)
{
	try_format(BAILIAN);
}

Test(replay_keys, decide_as_tokens_do_with_lengths_only)
{
	try_format(AZURE);
	try_format(BURSTGPT);
}

Test(replay_keys, decide_as_tokens_do_with_tokens_spelled_out)
{
	try_format(TOKEN_IDS);
}

/* ---- real traces ---- */

static void try_real(const char *name, uint32_t trace_block_size, uint64_t most)
{
	static const uint32_t block_sizes[] = {256, 16, 96, 100, 7};
	char path[512];
	const char *folder = QUIRE_SOURCE_DIR "/../shared/traces";

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (access(path, R_OK) != 0) {
		cr_skip_test("%s is not there", path);
	}
	interrupt_catch();
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t block_size = block_sizes[i];
		struct scene scene = {.config = {.tokens = TOKENS_FORCED},
			.load = {.trace = {.trace_block_size = trace_block_size},
				.speedup_millionths = 1000000,
				.concurrency = i % 2 == 0 ? 16 : 0,
				.max_requests = most},
			.engine = {.policy = i == 2 ? &policy_prefill_first : &policy_mixed,
				.block_size = block_size,
				.kv_block_count = 400000 / block_size,
				.max_num_seqs = 64,
				.max_num_batched_tokens = 131072,
				.max_model_len = 131072,
				.eos_token_id = -1},
			.vocab_size = 151936,
			.trace_path = path};
		struct decisions found = require_same_decisions(&scene);
		cr_log_info("%s, blocks of %u: %lu of %lu tokens hit", name, block_size,
			(unsigned long)found.hit_tokens, (unsigned long)found.query_tokens);
	}
}

Test(replay_keys, decide_as_tokens_do_on_mooncake)
{
	try_real("mooncake_conversation.jsonl", 0, 500);
}

Test(replay_keys, decide_as_tokens_do_on_coding_agents)
{
	try_real("kvct_dev12.jsonl", 64, 60);
}

Test(replay_keys, decide_as_tokens_do_on_azure)
{
	try_real("azure2023_conv.csv", 0, 2000);
}

Test(replay_keys, decide_as_tokens_do_on_spelled_out_prompts)
{
	try_real("sharegpt_rtxpro6000/workload.jsonl", 0, 0);
}
