#include <criterion/criterion.h>

#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/counter_hash.h"
#include "engine/model/config_json.h"
#include "engine/reference/reference_runner.h"
#include "engine/policy.h"
#include "tests/harness/property.h"
#include "tests/models/reference_run.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/models/simulation.h"
#include "tests/harness/temporary.h"

/* ---- against transformers: tests/fixtures/models, made by tests/fixtures/make_models.py ---- */

static const char models[] = QUIRE_SOURCE_DIR "/tests/fixtures/models/";

static const char *const model_names[] = {"group1", "group2", "group2-head64", "group2-head128",
	"group3", "group3-head32", "group4", "group5", "group6", "group7", "group8"};

enum { MODEL_COUNT = sizeof(model_names) / sizeof(model_names[0]), SEQUENCE_MAX = 512 };

struct expected {
	struct model_config model;
	struct weights *weights;
	struct json_document document;
	int32_t sequence[SEQUENCE_MAX];
	uint32_t sequence_count;
	uint32_t prompt_count;
	int32_t greedy[SEQUENCE_MAX];
	uint32_t greedy_count;
};

static uint32_t read_ids(const struct json_object *root, const char *field, int32_t *ids)
{
	const cJSON *list = json_find(root, field);
	const cJSON *item;
	uint32_t count = 0;

	cJSON_ArrayForEach(item, list)
	{
		require(count < SEQUENCE_MAX, "%s is too long", field);
		ids[count++] = (int32_t)item->valueint;
	}
	return count;
}

static void expected_open(struct expected *expected, const char *name)
{
	char path[512];
	struct error error = {0};
	struct json_object root;

	memset(expected, 0, sizeof(*expected));
	snprintf(path, sizeof(path), "%s%s", models, name);
	require(model_config_find(path, &expected->model, &error) == STATUS_OK, "%s", error.text);
	expected->weights = open_weights(&expected->model, path);
	snprintf(path, sizeof(path), "%s%s/expected.json", models, name);
	require(json_document_open(&expected->document, path, &error) == STATUS_OK, "%s",
		error.text);
	require(json_root(&root, &expected->document, &error) == STATUS_OK, "%s", error.text);
	expected->sequence_count = read_ids(&root, "sequence", expected->sequence);
	expected->greedy_count = read_ids(&root, "greedy", expected->greedy);
	require(json_u32(&root, "prompt_count", 1, SEQUENCE_MAX, &expected->prompt_count, &error) ==
			STATUS_OK,
		"%s", error.text);
	require_equal(expected->greedy_count, 200);
}

static void expected_close(struct expected *expected)
{
	weights_close(expected->weights);
	json_document_close(&expected->document);
}

/* The logits of position p decide on the token at p + 1. */
struct logits_check {
	const struct expected *expected;
	uint32_t compared;
	double largest_error; /* relative to the largest logit of the row */
};

static void compare_logits(void *context, uint64_t request, uint32_t position, const float *logits)
{
	struct logits_check *own = context;
	const cJSON *root = own->expected->document.root;
	const cJSON *rows = cJSON_GetObjectItemCaseSensitive(root, "logits");
	const cJSON *place;
	int index = 0;

	(void)request;
	cJSON_ArrayForEach(place, cJSON_GetObjectItemCaseSensitive(root, "positions"))
	{
		if ((uint32_t)place->valueint + 1 == position) {
			const cJSON *row = cJSON_GetArrayItem(rows, index);
			const cJSON *value;
			double largest = 0, error = 0;
			const float *logit = logits;
			require_equal(cJSON_GetArraySize(row), own->expected->model.vocab_size);
			cJSON_ArrayForEach(value, row)
			{
				largest = fmax(largest, fabs(value->valuedouble));
				error = fmax(error, fabs(*logit++ - value->valuedouble));
			}
			own->largest_error = fmax(own->largest_error, error / largest);
			own->compared++;
		}
		index++;
	}
}

/* The fixture's sequence, of which the first tokens are the prompt and the rest is forced, so that
   prompts and decodes of all lengths are compared. */
static void compare_sequence(const struct expected *expected, uint32_t prompt_count, uint32_t ranks,
	const struct engine_config *config, struct logits_check *own)
{
	struct reference_run run;
	/* After the last token comes any: its logits are of the last position. */
	int32_t tokens[SEQUENCE_MAX + 1] = {0};
	memcpy(tokens, expected->sequence, expected->sequence_count * sizeof(*tokens));
	const struct request request = {
		.prompt = tokens,
		.prompt_count = prompt_count,
		.forced = tokens + prompt_count,
		.max_tokens = expected->sequence_count + 1 - prompt_count,
		.ignore_eos = true,
	};
	const struct reference_run_options options = {
		.weights = expected->weights,
		.engine = config,
		.ranks.count = ranks,
		.look = compare_logits,
		.context = own,
	};

	reference_run(&run, &request, 1, &options);
	reference_run_deinit(&run);
}

/* Models of one key/value head cannot be divided. */
static uint32_t rank_limit(const struct expected *expected)
{
	return expected->model.num_key_value_heads;
}

static struct engine_config engine_of(uint32_t block_size, uint32_t batched_tokens)
{
	return (struct engine_config){
		.policy = &policy_mixed,
		.block_size = block_size,
		.kv_block_count = 512 / block_size + 1,
		.max_num_seqs = 4,
		.max_num_batched_tokens = batched_tokens,
		.max_model_len = 512,
		.eos_token_id = -1,
	};
}

static void compare_logits_of_model(const char *name, uint32_t ranks)
{
	static const uint32_t block_sizes[] = {1, 5, 16, 64};
	struct expected expected;
	struct logits_check own = {.expected = &expected};

	expected_open(&expected, name);
	for (uint32_t b = 0; b < 4 && ranks <= rank_limit(&expected); b++) {
		struct engine_config whole = engine_of(block_sizes[b], 512);
		struct engine_config chunked = engine_of(block_sizes[b], 7);
		compare_sequence(&expected, 1, ranks, &whole, &own);
		compare_sequence(&expected, 16, ranks, &whole, &own);
		compare_sequence(&expected, 65, ranks, &whole, &own);
		compare_sequence(&expected, expected.sequence_count, ranks, &chunked, &own);
	}
	/* From prompts of 1, 16, 65 and 70 tokens 14, 8, 2 and 1 positions are seen. */
	require_equal(own.compared, ranks > rank_limit(&expected) ? 0 : 4 * (14 + 8 + 2 + 1));
	cr_log_info("%s, %u ranks: logits are within %.2g", name, ranks, own.largest_error);
	require(own.largest_error < 1e-5, "%s, %u ranks: logits are off by %g of the largest", name,
		ranks, own.largest_error);
	expected_close(&expected);
}

Test(reference_runner, logits_are_those_of_transformers, .timeout = 120)
{
	for (uint32_t i = 0; i < MODEL_COUNT; i++) {
		compare_logits_of_model(model_names[i], 1);
		compare_logits_of_model(model_names[i], 2);
	}
}

static void check_greedy(const struct expected *expected, const char *name, uint32_t ranks,
	const struct engine_config *config)
{
	struct reference_run run;
	const struct request request = {
		.prompt = expected->sequence,
		.prompt_count = expected->prompt_count,
		.max_tokens = expected->greedy_count,
		.ignore_eos = true,
	};
	const struct reference_run_options options = {
		.weights = expected->weights, .engine = config, .ranks.count = ranks};

	reference_run(&run, &request, 1, &options);
	require_equal(run.answers[0].token_count, expected->prompt_count + expected->greedy_count);
	for (uint32_t i = 0; i < expected->greedy_count; i++) {
		int32_t found = run.answers[0].tokens[expected->prompt_count + i];
		require(found == expected->greedy[i], "%s: token %u is %d, expected %d", name, i,
			found, expected->greedy[i]);
	}
	reference_run_deinit(&run);
}

Test(reference_runner, greedy_texts_are_those_of_transformers, .timeout = 120)
{
	for (uint32_t i = 0; i < MODEL_COUNT; i++) {
		struct expected expected;
		struct engine_config whole = engine_of(16, 512);
		struct engine_config chunked = engine_of(3, 4);
		expected_open(&expected, model_names[i]);
		for (uint32_t ranks = 1; ranks <= rank_limit(&expected); ranks++) {
			check_greedy(&expected, model_names[i], ranks, &whole);
			check_greedy(&expected, model_names[i], ranks, &chunked);
		}
		expected_close(&expected);
	}
}

/* ---- the same tokens, however they are computed ---- */

/* Prompts that share prefixes, of lengths around the edges of blocks. */
enum { CHAT_COUNT = 24, CHAT_PROMPT_MAX = 70, CHAT_OUTPUT = 20, CHAT_SHARED = 40 };

struct chat {
	int32_t prompts[CHAT_COUNT][CHAT_PROMPT_MAX];
	struct request requests[CHAT_COUNT];
};

static void chat_init(struct chat *chat, uint32_t vocab_size)
{
	for (uint32_t i = 0; i < CHAT_COUNT; i++) {
		uint32_t count = CHAT_SHARED / 2 + i * 2;
		for (uint32_t t = 0; t < CHAT_PROMPT_MAX; t++) {
			uint64_t stream = t < CHAT_SHARED ? i % 3 : 100 + i;
			chat->prompts[i][t] = (int32_t)counter_below(
				(uint32_t)counter_hash(stream, t), vocab_size);
		}
		chat->requests[i] = (struct request){
			.id = i,
			.prompt = chat->prompts[i],
			.prompt_count = count < CHAT_PROMPT_MAX ? count : CHAT_PROMPT_MAX,
			.max_tokens = 1 + (i * 7) % CHAT_OUTPUT,
			/* a third of them greedy */
			.temperature = (float)(i % 3) * 0.7f,
			.ignore_eos = i % 2 == 0,
		};
	}
}

/* One request after the other, with blocks that no sequence fills: whole prefills, no hits, batches
   of one. */
static struct engine_config plain_engine(uint32_t model_len)
{
	return (struct engine_config){
		.policy = &policy_mixed,
		.block_size = 128,
		.kv_block_count = 1,
		.max_num_seqs = 1,
		.max_num_batched_tokens = 512,
		.max_model_len = model_len,
		.eos_token_id = 3,
	};
}

struct variant {
	const char *name;
	const struct policy *policy;
	enum admission admission;
	uint32_t block_size, blocks, seqs, tokens;
	bool is_one_by_one, is_fed_back;
	/* what must have happened, or not at all; -1: whatever */
	int hits, preemptions, chunks, mixed;
};

#define MIXED &policy_mixed, ADMISSION_EXACT
#define PREFILL_FIRST &policy_prefill_first, ADMISSION_EXACT

static const struct variant variants[] = {
	{"batched", MIXED, 128, 99, 99, 4096, false, false, 0, 0, 0, 0},
	{"cached", MIXED, 8, 999, 1, 4096, true, false, 1, 0, 0, 0},
	{"chunked", MIXED, 128, 1, 1, 7, true, false, 0, 0, 1, 0},
	{"mixed", MIXED, 128, 99, 4, 9, false, false, 0, 0, 1, 1},
	{"preempted", MIXED, 4, 40, 8, 4096, false, false, -1, 1, 0, -1},
	{"fed back", MIXED, 4, 60, 8, 16, false, true, 1, 1, 1, 1},
	{"all at once", MIXED, 4, 60, 8, 16, false, false, 1, 1, 1, 1},
	{"blocks of 1", MIXED, 1, 200, 8, 50, false, false, 1, 1, 1, 1},
	{"blocks of 7", MIXED, 7, 40, 8, 50, false, false, 1, -1, 1, 1},
	{"blocks of 64", MIXED, 64, 20, 8, 50, false, false, -1, 0, 1, 1},
	{"prefill first", PREFILL_FIRST, 16, 200, 8, 128, false, false, 1, 0, 0, 0},
	{"prefill first, tight", PREFILL_FIRST, 4, 40, 8, 128, false, false, 1, 1, 0, 0},
	{"as the original admits", &policy_prefill_first, ADMISSION_SEED, 4, 40, 8, 128, false,
		false, 1, 1, 0, 0},
};

enum { VARIANT_COUNT = sizeof(variants) / sizeof(variants[0]) };

static struct engine_config variant_engine(const struct variant *variant)
{
	return (struct engine_config){
		.policy = variant->policy,
		.admission = variant->admission,
		.block_size = variant->block_size,
		.kv_block_count = variant->blocks,
		.max_num_seqs = variant->seqs,
		.max_num_batched_tokens = variant->tokens,
		.max_model_len = 100,
		.eos_token_id = 3,
	};
}

static void require_happened(const char *variant, const char *what, int wanted, uint64_t count)
{
	require(wanted < 0 || (wanted > 0) == (count > 0), "%s: %lu %s", variant,
		(unsigned long)count, what);
}

static void check_variants(const struct model_config *model, const char *source,
	enum rounding rounding, uint32_t ranks)
{
	struct weights *weights = open_weights(model, source);
	struct chat *chat = memory_take(1, sizeof(*chat));
	struct engine_config plain = plain_engine(100);
	struct reference_run_options options = {
		.weights = weights,
		.engine = &plain,
		.rounding = rounding,
		.seed = 77,
		.ranks.count = ranks,
		.is_one_by_one = true,
	};
	struct reference_run one_by_one, run;

	chat_init(chat, model->vocab_size);
	reference_run(&one_by_one, chat->requests, CHAT_COUNT, &options);
	require_equal(one_by_one.cached_tokens + one_by_one.preemptions + one_by_one.chunks, 0);
	for (uint32_t i = 0; i < VARIANT_COUNT; i++) {
		const struct variant *variant = &variants[i];
		struct engine_config engine = variant_engine(variant);
		options.engine = &engine;
		options.is_one_by_one = variant->is_one_by_one;
		options.is_fed_back = variant->is_fed_back;
		reference_run(&run, chat->requests, CHAT_COUNT, &options);
		require_same_answers(&one_by_one, &run, variant->name);
		require_happened(variant->name, "hits", variant->hits, run.cached_tokens);
		require_happened(
			variant->name, "preemptions", variant->preemptions, run.preemptions);
		require_happened(variant->name, "chunks", variant->chunks, run.chunks);
		require_happened(variant->name, "mixed steps", variant->mixed, run.mixed_steps);
		reference_run_deinit(&run);
	}
	reference_run_deinit(&one_by_one);
	weights_close(weights);
	free(chat);
}

Test(reference_runner, answers_do_not_depend_on_how_they_are_computed, .timeout = 120)
{
	struct model_config model = tiny_model(211);

	check_variants(&model, "dummy:5", ROUNDING_NONE, 1);
	check_variants(&model, "dummy:5", ROUNDING_BF16, 1);
	model.tie_word_embeddings = true;
	model.attention_bias = false;
	model.dtype = MODEL_DTYPE_FLOAT32;
	check_variants(&model, "dummy:5", ROUNDING_NONE, 1);
}

Test(reference_runner, answers_of_ranks_do_not_depend_on_how_they_are_computed, .timeout = 120)
{
	struct model_config model = tiny_model_of_8_heads(211);

	check_variants(&model, "dummy:1", ROUNDING_BF16, 8);
	model.tie_word_embeddings = true;
	check_variants(&model, "dummy:1", ROUNDING_NONE, 4);
}

/* The same with random engines, requests and overlapping arrivals. */
static void body_drawn(struct prop *prop, const void *context)
{
	(void)context;
	struct model_config model = tiny_model(1000);
	struct engine_config config = simulation_draw_config(prop);
	struct drawn_requests drawn;
	struct request requests[64];
	uint32_t count = 0;
	struct reference_run one_by_one, run;

	requests_draw(prop, &drawn, &config);
	for (uint32_t i = 0; i < drawn.request_count && count < 64; i++) {
		const struct simulation_request *own = &drawn.requests[i];
		if (engine_config_fit(&config, own->prompt_count, own->max_tokens) != FIT_OK) {
			continue;
		}
		requests[count] = (struct request){
			.id = count,
			.prompt = own->tokens,
			.prompt_count = own->prompt_count,
			.forced = own->is_forced ? own->tokens + own->prompt_count : NULL,
			.max_tokens = own->max_tokens,
			.temperature = own->temperature,
			.ignore_eos = own->ignore_eos,
		};
		count++;
	}
	struct engine_config plain = plain_engine(config.max_model_len);
	plain.eos_token_id = config.eos_token_id;
	struct weights *weights = open_weights(&model, "dummy:1");
	struct reference_run_options options = {
		.weights = weights, .engine = &plain, .seed = drawn.seed, .is_one_by_one = true};
	reference_run(&one_by_one, requests, count, &options);
	options.engine = &config;
	options.is_one_by_one = false;
	reference_run(&run, requests, count, &options);
	require_same_answers(&one_by_one, &run, "drawn");
	reference_run_deinit(&run);
	reference_run_deinit(&one_by_one);
	weights_close(weights);
	requests_deinit(&drawn);
}

Test(reference_runner, answers_do_not_depend_on_drawn_engines, .timeout = 300)
{
	const struct prop_options options = {
		.name = "drawn engines", .body = body_drawn, .trials = 150};

	cr_assert(prop_holds(&options));
}

/* Noise is keyed by seed, request and position: other seeds write other texts, and greedy ones are
   the same under all. */
Test(reference_runner, seeds_decide_what_is_sampled, .timeout = 60)
{
	struct model_config model = tiny_model(211);
	struct weights *weights = open_weights(&model, "dummy:5");
	struct chat *chat = memory_take(1, sizeof(*chat));
	struct engine_config plain = plain_engine(100);
	struct reference_run_options options = {
		.weights = weights, .engine = &plain, .seed = 1, .is_one_by_one = true};
	struct reference_run one, two;
	uint32_t different = 0;

	chat_init(chat, model.vocab_size);
	for (uint32_t i = 0; i < CHAT_COUNT; i++) {
		chat->requests[i].ignore_eos = true;
	}
	reference_run(&one, chat->requests, CHAT_COUNT, &options);
	options.seed = 2;
	reference_run(&two, chat->requests, CHAT_COUNT, &options);
	for (uint32_t i = 0; i < CHAT_COUNT; i++) {
		bool is_same = memcmp(one.answers[i].tokens, two.answers[i].tokens,
				       one.answers[i].token_count * sizeof(int32_t)) == 0;
		require(is_same || chat->requests[i].temperature > 0,
			"a greedy text depends on the seed");
		different += !is_same;
	}
	require(different >= CHAT_COUNT / 2, "only %u texts differ", different);
	reference_run_deinit(&one);
	reference_run_deinit(&two);
	weights_close(weights);
	free(chat);
}

/* ---- the same decisions as runners that compute nothing ---- */

/* Runs quire, whatever it prints; returns its exit code. */
static int run_quire(const char *folder, const char *arguments)
{
	struct process_result result = quire_run_in(folder, arguments);
	int code = result.code;

	process_result_free(&result);
	return code;
}

static void require_same_file(const char *folder, const char *a, const char *b, const char *name)
{
	char command[2048];
	snprintf(command, sizeof(command), "cd '%s' && cmp %s/%s %s/%s", folder, a, name, b, name);
	require(system(command) == 0, "%s of %s and %s differ", name, a, b);
}

static void read_summary(const char *folder, const char *result, struct json_document *document)
{
	char path[TEMPORARY_PATH_BYTES + 64];
	struct error error = {0};

	snprintf(path, sizeof(path), "%s/%s/summary.json", folder, result);
	require(json_document_open(document, path, &error) == STATUS_OK, "%s", error.text);
}

static void require_same_hash(const char *folder, const char *a, const char *b)
{
	struct json_document first, second;
	read_summary(folder, a, &first);
	read_summary(folder, b, &second);
	const cJSON *x = cJSON_GetObjectItemCaseSensitive(first.root, "result_hash");
	const cJSON *y = cJSON_GetObjectItemCaseSensitive(second.root, "result_hash");
	require(strlen(x->valuestring) == 16, "no hash");
	require(strcmp(x->valuestring, y->valuestring) == 0, "%s and %s decide differently", a, b);
	const cJSON *cache = cJSON_GetObjectItemCaseSensitive(first.root, "prefix_cache");
	const cJSON *hits = cJSON_GetObjectItemCaseSensitive(cache, "hit_tokens");
	const cJSON *preemptions = cJSON_GetObjectItemCaseSensitive(first.root, "preemptions");
	require(hits->valuedouble > 0, "%s had no hits", a);
	require(preemptions->valuedouble > 0, "%s had no preemptions", a);
	json_document_close(&first);
	json_document_close(&second);
}

/* Prompts of 20 to 59 tokens, of which three in four begin with the same 32. The first 40 are there
   at once and the late ones come 1 ms apart. Seven of the first still wait when blocks run out, so
   a sequence is preempted before a late one is looked at: however fast the machine is. */
enum { BURST_COUNT = 40 };

static void write_trace(const char *folder, const char *name, uint32_t late_count)
{
	char text[16384] = "";
	size_t used = 0;
	for (uint32_t i = 0; i < BURST_COUNT + late_count; i++) {
		uint32_t input = 20 + i % 40;
		used += (size_t)snprintf(text + used, sizeof(text) - used,
			"{\"timestamp\":%u,\"input_length\":%u,\"output_length\":%u,"
			"\"hash_ids\":",
			i < BURST_COUNT ? 0 : 1 + i - BURST_COUNT, input, 10 + i % 20);
		for (uint32_t block = 0; block < (input + 15) / 16; block++) {
			uint32_t id = i % 4 != 0 && block < 2 ? block : 100 + 10 * i + block;
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%c%u",
				block == 0 ? '[' : ',', id);
		}
		used += (size_t)snprintf(text + used, sizeof(text) - used, "]}\n");
		require(used < sizeof(text), "the trace is too long");
	}
	temporary_write(folder, name, text, NULL);
}

#define REPLAY_OPTIONS                                                                             \
	" --model " QUIRE_SOURCE_DIR "/tests/fixtures/models/group3 --trace-block-size 16"
#define ENGINE_OPTIONS                                                                             \
	REPLAY_OPTIONS                                                                             \
	" --block-size 8 --kv-blocks 40 --max-num-seqs 8 --max-num-batched-tokens 48"

/* With forced tokens what a step computes is not what decides. When all requests are there at once,
   neither is time, so the cost model decides the same; when they are not, a tape of the run has
   its times and must decide the same. */
Test(reference_runner, decides_as_runners_that_compute_nothing, .timeout = 60)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	write_trace(folder, "burst.jsonl", 0);
	write_trace(folder, "spread.jsonl", 40);
	cr_assert_eq(run_quire(folder, "replay burst.jsonl" ENGINE_OPTIONS
				       " --runner reference --out computed"),
		0);
	cr_assert_eq(
		run_quire(folder, "replay burst.jsonl" ENGINE_OPTIONS " --runner sim --out priced"),
		0);
	require_same_hash(folder, "computed", "priced");

	cr_assert_eq(run_quire(folder, "replay spread.jsonl" ENGINE_OPTIONS
				       " --runner reference --steps --out recorded"),
		0);
	cr_assert_eq(run_quire(folder, "replay spread.jsonl" REPLAY_OPTIONS
				       " --runner tape --tape recorded --steps --out played"),
		0);
	require_same_hash(folder, "recorded", "played");
	require_same_file(folder, "recorded", "played", "steps.tsv");
	require_same_file(folder, "recorded", "played", "requests.tsv");

	/* Sampled tokens need a runner that samples. */
	cr_assert_eq(run_quire(folder, "replay burst.jsonl" ENGINE_OPTIONS
				       " --runner reference --tokens sampled --out sampled"),
		0);
	cr_assert_neq(run_quire(folder, "replay burst.jsonl" ENGINE_OPTIONS
					" --runner sim --tokens sampled --out refused"),
		0);
	temporary_remove(folder);
}

/* Decisions follow from forced tokens and the number of blocks, not from the number of ranks. */
Test(reference_runner, ranks_decide_as_one, .timeout = 60)
{
	static const char options[] =
		" --model " QUIRE_SOURCE_DIR "/tests/fixtures/models/group2 --trace-block-size 16"
		" --block-size 8 --kv-blocks 40 --max-num-seqs 8 --max-num-batched-tokens 48"
		" --runner reference --dtype bfloat16";
	char folder[TEMPORARY_PATH_BYTES], command[1024];

	temporary_folder(folder);
	write_trace(folder, "burst.jsonl", 0);
	for (uint32_t ranks = 1; ranks <= 2; ranks++) {
		snprintf(command, sizeof(command), "replay burst.jsonl%s -tp %u --out of%u",
			options, ranks, ranks);
		require_equal(run_quire(folder, command), 0);
	}
	require_same_hash(folder, "of1", "of2");
	snprintf(command, sizeof(command), "replay burst.jsonl%s -tp 4 --out of4", options);
	struct process_result result = quire_run_in(folder, command);
	require_equal(result.code, 2);
	require(strstr(result.err, "model group2: found 4 ranks, expected at most 2") != NULL, "%s",
		result.err);
	process_result_free(&result);
	temporary_remove(folder);
}

/* Pinned: every compiler and every level of optimisation must get these bits. */
Test(reference_runner, bits_are_what_they_were, .timeout = 60)
{
	static const struct {
		enum rounding rounding;
		uint32_t ranks;
		uint64_t hash;
	} expected[] = {
		{ROUNDING_NONE, 1, UINT64_C(0x6e03d04b934ee5b6)},
		{ROUNDING_BF16, 1, UINT64_C(0x6a8d5d29476001a0)},
		{ROUNDING_NONE, 8, UINT64_C(0xabf0bdce86378bcd)},
		{ROUNDING_BF16, 8, UINT64_C(0xb00e11f7a03a92a1)},
	};
	struct chat *chat = memory_take(1, sizeof(*chat));
	struct engine_config plain = plain_engine(100);

	for (uint32_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		struct model_config model =
			expected[i].ranks == 1 ? tiny_model(211) : tiny_model_of_8_heads(211);
		struct weights *weights = open_weights(&model, "dummy:5");
		struct reference_run run;
		uint64_t sum = 0;
		const struct reference_run_options options = {
			.weights = weights,
			.engine = &plain,
			.rounding = expected[i].rounding,
			.ranks.count = expected[i].ranks,
			.is_one_by_one = true,
		};
		chat_init(chat, model.vocab_size);
		reference_run(&run, chat->requests, CHAT_COUNT, &options);
		for (uint32_t r = 0; r < CHAT_COUNT; r++) {
			for (uint32_t p = 0; p < run.answers[r].token_count; p++) {
				sum = counter_mix(sum ^ run.answers[r].logits_hash[p]);
			}
		}
		require(sum == expected[i].hash, "the bits of run %u hash to %llx", i,
			(unsigned long long)sum);
		reference_run_deinit(&run);
		weights_close(weights);
	}
	free(chat);
}

/* Rounding to bf16 changes logits, and by about as much as 8 bits of precision say. */
struct logits_record {
	float *logits;
	uint32_t capacity, count, vocab_size;
};

static void record_logits(void *context, uint64_t request, uint32_t position, const float *logits)
{
	struct logits_record *record = context;

	(void)request;
	(void)position;
	require(record->count < record->capacity, "more logits than steps");
	memcpy(record->logits + (size_t)record->count++ * record->vocab_size, logits,
		record->vocab_size * sizeof(*logits));
}

Test(reference_runner, bf16_is_near_float32, .timeout = 60)
{
	struct expected expected;
	struct engine_config config = engine_of(16, 512);
	struct logits_record records[2];
	double noise = 0, signal = 0;

	expected_open(&expected, "group2-head128");
	const struct request request = {
		.prompt = expected.sequence,
		.prompt_count = 20,
		.forced = expected.sequence + 20,
		.max_tokens = expected.sequence_count - 20,
		.ignore_eos = true,
	};
	for (uint32_t i = 0; i < 2; i++) {
		struct reference_run run;
		uint32_t vocab_size = expected.model.vocab_size;
		records[i] = (struct logits_record){.capacity = 64, .vocab_size = vocab_size};
		records[i].logits = memory_take((size_t)64 * vocab_size, sizeof(float));
		const struct reference_run_options options = {
			.weights = expected.weights,
			.engine = &config,
			.rounding = i == 0 ? ROUNDING_NONE : ROUNDING_BF16,
			.look = record_logits,
			.context = &records[i],
		};
		reference_run(&run, &request, 1, &options);
		reference_run_deinit(&run);
	}
	for (uint32_t i = 0; i < records[0].count * records[0].vocab_size; i++) {
		double difference = (double)records[1].logits[i] - (double)records[0].logits[i];
		noise += difference * difference;
		signal += (double)records[0].logits[i] * (double)records[0].logits[i];
	}
	cr_log_info("noise of bf16 is %.2g of the signal", noise / signal);
	require(noise / signal > 1e-8, "bf16 was not rounded to");
	require(noise / signal < 1e-3, "bf16 is far from float32: %g", noise / signal);
	free(records[0].logits);
	free(records[1].logits);
	expected_close(&expected);
}

/* A pool that no machine has is refused in one line. */
Test(reference_runner, refuses_an_absurd_pool)
{
	struct model_config model = tiny_model(211);
	struct weights *weights = open_weights(&model, "dummy:5");
	struct engine_config config = plain_engine(100);
	struct error error = {0};
	struct runner runner;

	config.block_size = 65536;
	config.kv_block_count = 1 << 28;
	const struct reference_options options = {.weights = weights, .engine = &config};
	cr_assert_eq(reference_runner_open(&runner, &options, &error), STATUS_MEMORY);
	cr_assert(strstr(error.text, "268435456 blocks of 65536 tokens") != NULL, "%s", error.text);
	weights_close(weights);

	cr_assert_eq(reference_runner_blocks(&model, 16, 0), 1);
	/* 2 layers of 2 heads of 6 numbers of 4 bytes, keys and values: 192 bytes a token */
	cr_assert_eq(reference_runner_blocks(&model, 16, 192 * 16 * 5 + 100), 5);
}
