#include "bench/commands/trace/trace_commands.h"

#include "bench/replay/trace_reading.h"
#include "engine/base/json.h"
#include "engine/base/number.h"
#include "engine/base/output_file.h"
#include "engine/base/memory.h"
#include "engine/model/config_json.h"
#include "reports/figures/plot.h"
#include "engine/shape/model_config.h"
#include "reports/results/result_names.h"
#include "sim/kv_memory.h"
#include "sim/profile_choice.h"
#include "workloads/study/cache_curve.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_ROWS_ABOUT = 20, GPUS_BYTES = 256 };

struct cache_request {
	struct replay_config config; /* how the trace is read, and the model */
	const char *path, *capacities, *out, *plot;
	bool is_forced;
	uint32_t policy; /* enum cache_policy */
	bool has_policy, wants_json;
	uint64_t asked[CACHE_CURVE_ASKED_MAX];
	uint32_t asked_count;
	uint64_t kv_bytes_per_token; /* 0: no model */
	uint64_t gpu_tokens;	     /* that --gpu holds beside the model; 0: no GPU */
	char gpus[GPUS_BYTES];	     /* "h200", or "h200 -tp 2" */
};

/* "5000" or "1000,2000,4000": blocks of the trace. */
static enum status parse_capacities(struct cache_request *request, struct error *error)
{
	const char *at = request->capacities;

	while (at != NULL) {
		char text[24] = "";
		const char *comma = strchr(at, ',');
		size_t bytes = comma == NULL ? strlen(at) : (size_t)(comma - at);
		uint64_t *value = &request->asked[request->asked_count];
		if (bytes < sizeof(text)) {
			memcpy(text, at, bytes);
		}
		if (!text_to_u64(text, value) || *value < 1 || *value > UINT32_MAX) {
			return error_set(error, STATUS_USAGE,
				"--capacity: found '%s', expected numbers of blocks from 1 to %u, "
				"with commas between them",
				request->capacities, UINT32_MAX);
		}
		request->asked_count++;
		at = comma == NULL ? NULL : comma + 1;
		if (at != NULL && request->asked_count == CACHE_CURVE_ASKED_MAX) {
			return error_set(error, STATUS_USAGE,
				"--capacity: found more than %d numbers, expected fewer",
				CACHE_CURVE_ASKED_MAX);
		}
	}
	return STATUS_OK;
}

static enum status read_references(
	const struct cache_request *request, struct references *references, struct error *error)
{
	struct trace *trace = NULL;

	TRY(trace_reading_open(&trace, request->path, &request->config, error));
	references_init(references, trace_reading_block_size(trace));
	bool has_ids;
	enum status status = references_read(references, trace, &has_ids, error);
	if (status == STATUS_OK) {
		trace_reading_report(trace);
	}
	if (status == STATUS_OK && !has_ids) {
		status = error_set(error, STATUS_INPUT,
			"%.200s: found neither hash ids nor token ids in any row, expected some: "
			"without them no prompt shares anything",
			request->path);
	}
	trace_close(trace);
	return status;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 0 : (double)part / (double)whole;
}

static double gib(const struct cache_request *request, uint64_t tokens)
{
	return (double)tokens * (double)request->kv_bytes_per_token / (1024.0 * 1024 * 1024);
}

/* ---- one policy at requested capacities ---- */

static cJSON *hits_json(const struct references *references, const struct cache_hits *hits)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "hit_blocks", (double)hits->blocks);
	cJSON_AddNumberToObject(object, "hit_tokens", (double)hits->tokens);
	cJSON_AddNumberToObject(object, "hit_blocks_2nd_half", (double)hits->blocks_2nd_half);
	cJSON_AddNumberToObject(object, "hit_tokens_2nd_half", (double)hits->tokens_2nd_half);
	cJSON_AddNumberToObject(
		object, "block_hit_rate", share(hits->blocks, references->reference_count));
	cJSON_AddNumberToObject(
		object, "token_hit_rate", share(hits->tokens, references->token_count));
	return object;
}

static void add_capacity(
	cJSON *object, const struct cache_request *request, uint64_t capacity, uint32_t block_size)
{
	cJSON_AddNumberToObject(object, "capacity_blocks", (double)capacity);
	cJSON_AddNumberToObject(object, "capacity_tokens", (double)(capacity * block_size));
	if (request->kv_bytes_per_token > 0) {
		cJSON_AddNumberToObject(
			object, "capacity_gib", gib(request, capacity * block_size));
	}
}

static void print_and_free(cJSON *root)
{
	json_print(root, stdout);
	cJSON_Delete(root);
}

static void answer(const struct cache_request *request, const struct references *references,
	enum cache_policy policy)
{
	cJSON *all = request->asked_count > 1 ? cJSON_CreateArray() : NULL;

	for (uint32_t i = 0; i < request->asked_count; i++) {
		struct cache_hits hits = cache_hits_at(references, policy, request->asked[i]);
		if (!request->wants_json) {
			printf("%-10s %10" PRIu64 " %s: %" PRIu64 " hit %s (%.2f %%), %" PRIu64
			       " hit %s (%.2f %%)\n",
				cache_policy_name(policy), request->asked[i],
				word_of_count(request->asked[i], "block", "blocks"), hits.blocks,
				word_of_count(hits.blocks, "block", "blocks"),
				100 * share(hits.blocks, references->reference_count), hits.tokens,
				word_of_count(hits.tokens, "token", "tokens"),
				100 * share(hits.tokens, references->token_count));
			continue;
		}
		cJSON *object = hits_json(references, &hits);
		cJSON_AddStringToObject(object, "policy", cache_policy_name(policy));
		add_capacity(object, request, request->asked[i], references->block_size);
		if (all == NULL) {
			print_and_free(object);
		} else {
			cJSON_AddItemToArray(all, object);
		}
	}
	if (all != NULL && request->wants_json) {
		print_and_free(all);
	} else {
		cJSON_Delete(all);
	}
}

/* ---- the curve ---- */

static void print_curve_json(const struct cache_request *request,
	const struct references *references, const struct cache_curve *curve)
{
	cJSON *root = cJSON_CreateObject();

	cJSON_AddNumberToObject(root, "requests", (double)references->request_count);
	cJSON_AddNumberToObject(root, "block_size", references->block_size);
	cJSON_AddNumberToObject(root, "total_blocks", (double)references->reference_count);
	cJSON_AddNumberToObject(root, "total_tokens", (double)references->token_count);
	cJSON_AddNumberToObject(root, "unique_blocks", (double)references->block_count);
	cJSON *points = cJSON_AddArrayToObject(root, "points");
	for (uint32_t i = 0; i < curve->point_count; i++) {
		cJSON *point = cJSON_CreateObject();
		add_capacity(point, request, curve->points[i].capacity, references->block_size);
		for (uint32_t p = 0; p < CACHE_POLICY_COUNT; p++) {
			cJSON_AddItemToObject(point, cache_policy_name((enum cache_policy)p),
				hits_json(references, &curve->points[i].hits[p]));
		}
		cJSON_AddItemToArray(points, point);
	}
	print_and_free(root);
}

static void print_table(const struct cache_request *request, const struct references *references,
	const struct cache_curve *curve)
{
	static const enum cache_policy columns[] = {
		CACHE_LRU_TAIL, CACHE_LRU_STREAM, CACHE_FIFO, CACHE_BELADY};
	uint32_t every = curve->point_count / TABLE_ROWS_ABOUT + 1;
	const struct cache_hits *ideal = &curve->points[0].hits[CACHE_INFINITE];

	printf("%" PRIu64 " %s, %" PRIu64 " %s of %" PRIu32 " %s, %" PRIu64 " different\n"
	       "share of %" PRIu64 " prompt %s found, in %%; infinite: %.2f\n\n",
		references->request_count,
		word_of_count(references->request_count, "request", "requests"),
		references->reference_count,
		word_of_count(references->reference_count, "block", "blocks"),
		references->block_size, word_of_count(references->block_size, "token", "tokens"),
		references->block_count, references->token_count,
		word_of_count(references->token_count, "token", "tokens"),
		100 * share(ideal->tokens, references->token_count));
	printf("    blocks       tokens  %s lru_tail lru_stream    fifo  belady\n",
		request->kv_bytes_per_token > 0 ? "      GiB " : "");
	for (uint32_t i = 0; i < curve->point_count; i++) {
		const struct cache_point *point = &curve->points[i];
		uint64_t tokens = point->capacity * references->block_size;
		if ((curve->point_count - 1 - i) % every != 0 && !point->is_asked) {
			continue;
		}
		printf("%10" PRIu64 " %12" PRIu64 "  ", point->capacity, tokens);
		if (request->kv_bytes_per_token > 0) {
			printf("%9.3f ", gib(request, tokens));
		}
		for (uint32_t c = 0; c < 4; c++) {
			printf(" %*.2f",
				c == 0	 ? 8
				: c == 1 ? 10
					 : 7,
				100 * share(point->hits[columns[c]].tokens,
					      references->token_count));
		}
		printf("\n");
	}
}

static enum status write_table(const struct cache_request *request,
	const struct references *references, const struct cache_curve *curve, struct error *error)
{
	struct output_file output;

	TRY(output_file_open(&output, request->out, error));
	cache_curve_write(curve, references, request->kv_bytes_per_token, output.file);
	return output_file_commit(&output, error);
}

static enum status write_plot(const struct cache_request *request,
	const struct references *references, const struct cache_curve *curve, struct error *error)
{
	const char *slash = strrchr(request->path, '/');
	struct plot plot;

	TRY(plot_begin(&plot, error));
	cache_curve_write(curve, references, request->kv_bytes_per_token, plot.table);
	plot_set_text(&plot, "subject", slash == NULL ? request->path : slash + 1);
	if (request->config.model != NULL) {
		plot_set_text(&plot, "model", request->config.model);
	}
	if (request->gpu_tokens > 0) {
		plot_set_text(&plot, "gpu", request->gpus);
		plot_set_number(&plot, "gpu_gib", gib(request, request->gpu_tokens));
	}
	return plot_draw(&plot, "trace_cache.gp", request->plot, error);
}

/* The KV cache of the GPU, or of all that share the model, with the other limits of a run at their
   defaults. */
static enum status find_gpu(
	struct cache_request *request, const struct model_config *model, struct error *error)
{
	struct gpu_profile_choice choice;
	struct replay_config usual;
	struct engine_config engine;
	struct kv_memory memory;
	uint32_t ranks = (uint32_t)request->config.tensor_parallel_size;

	TRY(replay_config_ranks_check(&request->config, model, error));
	replay_config_default(&usual);
	usual.max_model_len = model->max_position_embeddings;
	replay_config_engine(&usual, &engine);
	TRY(gpu_profile_choose(request->config.gpu, replay_config_policy(&request->config),
		model->name, ranks, &choice, error));
	TRY(kv_memory_estimate(model, &choice.profile, &engine, usual.gpu_memory_utilization, ranks,
		&memory, error));
	if (ranks == 1) {
		snprintf(request->gpus, GPUS_BYTES, "%s", request->config.gpu);
	} else {
		snprintf(request->gpus, GPUS_BYTES, "%s -tp %u", request->config.gpu, ranks);
	}
	request->gpu_tokens = (uint64_t)memory.block_count * usual.block_size;
	return STATUS_OK;
}

static enum status write_curve(const struct cache_request *request,
	const struct references *references, const struct cache_curve *curve, struct error *error)
{
	if (request->wants_json) {
		print_curve_json(request, references, curve);
	} else {
		print_table(request, references, curve);
		if (request->gpu_tokens > 0) {
			printf("\n%s has room for %" PRIu64 " %s, %.3f GiB, beside %s\n",
				request->gpus, request->gpu_tokens,
				word_of_count(request->gpu_tokens, "token", "tokens"),
				gib(request, request->gpu_tokens), request->config.model);
		}
	}
	if (request->plot != NULL) {
		TRY(write_plot(request, references, curve, error));
	}
	return request->out == NULL ? STATUS_OK : write_table(request, references, curve, error);
}

static enum status study(
	const struct cache_request *request, struct references *references, struct error *error)
{
	TRY(read_references(request, references, error));
	if (request->has_policy) {
		answer(request, references, (enum cache_policy)request->policy);
		return STATUS_OK;
	}
	struct cache_curve *curve = memory_take(1, sizeof(*curve));
	cache_curve_make(curve, references, request->asked, request->asked_count);
	enum status status = write_curve(request, references, curve, error);
	free(curve);
	return status;
}

static enum status refuse_old(const char *path, bool is_forced, struct error *error)
{
	return path == NULL ? STATUS_OK : output_file_refuse_old(path, is_forced, error);
}

static enum status check_request(const struct cache_request *request, struct error *error)
{
	if (request->has_policy && request->asked_count == 0) {
		return error_set(error, STATUS_USAGE,
			"--policy needs --capacity: without both, every policy is shown");
	}
	if (request->config.gpu != NULL && request->config.model == NULL) {
		return error_set(error, STATUS_USAGE,
			"--gpu needs --model: what a GPU holds depends on both");
	}
	if (request->config.given.tensor_parallel_size && request->config.gpu == NULL) {
		return error_set(error, STATUS_USAGE,
			"--tensor-parallel-size needs --gpu: it says how many of them there are");
	}
	if (request->has_policy && (request->out != NULL || request->plot != NULL)) {
		return error_set(error, STATUS_USAGE,
			"%s holds every policy, so --policy does not go with it",
			request->out != NULL ? "--out" : "--plot");
	}
	TRY(result_names_refuse("--out", request->out, "curve.tsv", error));
	TRY(result_names_refuse("--plot", request->plot, "curve.svg", error));
	TRY(refuse_old(request->out, request->is_forced, error));
	return refuse_old(request->plot, request->is_forced, error);
}

static enum status run(struct command_line *line, struct error *error)
{
	struct cache_request *request = line->values;
	struct references references = {0};
	struct model_config model;

	request->path = line->positionals[0];
	TRY(parse_capacities(request, error));
	TRY(check_request(request, error));
	if (request->config.model != NULL) {
		TRY(model_config_find(request->config.model, &model, error));
		request->kv_bytes_per_token = model_config_kv_bytes_per_token(&model);
	}
	if (request->config.gpu != NULL) {
		TRY(find_gpu(request, &model, error));
	}
	enum status status = study(request, &references, error);
	references_deinit(&references);
	return status;
}

static const char *policy_word(uint32_t index)
{
	return index < CACHE_POLICY_COUNT ? cache_policy_name((enum cache_policy)index) : NULL;
}

#define REQUEST(field) offsetof(struct cache_request, field)

static const struct option options[] = {
	TRACE_READING_OPTIONS,
	{.kind = OPTION_HEADING, .help = "Analysis"},
	{"capacity", OPTION_TEXT, REQUEST(capacities), .argument = "N[,N...]",
		.help = "cache sizes in blocks of the trace, beside 64 others"},
	{"policy", OPTION_WORD, REQUEST(policy), REQUEST(has_policy), .argument = "P",
		.word_at = policy_word,
		.help = "only this one, at --capacity: lru_stream, lru_tail (as an engine frees "
			"blocks), fifo, belady (the optimum) or infinite"},
	{FROM_TABLE("model"), .initial = "",
		.help = "also show sizes in GiB of this model's KV cache, such as qwen3-0.6b"},
	{FROM_TABLE("gpu"), .initial = "",
		.help = "with --model: also show how much this GPU holds, such as h200"},
	{FROM_TABLE("tensor-parallel-size"),
		.help = "with --gpu: GPUs that share the model, and hold more together"},
	{.kind = OPTION_HEADING, .help = "Output"},
	{"json", OPTION_FLAG, REQUEST(wants_json), .help = "JSON with exact counts"},
	{"out", OPTION_TEXT, REQUEST(out), .argument = "FILE.tsv",
		.help = "the whole curve as a table"},
	{"plot", OPTION_TEXT, REQUEST(plot), .argument = "FILE.svg",
		.help = "the whole curve as a picture"},
	{"force", OPTION_FLAG, REQUEST(is_forced), .help = "replace existing files"},
};

const struct command command_trace_cache = {
	.name = "trace cache",
	.title = "prefix-cache hits by cache size",
	.arguments = "TRACE [options]",
	.summary =
		"Says how much of a trace's prompts a prefix cache would find, against its size: "
		"how\n"
		"much KV memory would help, from the trace only. LRU as engines do it, FIFO, and "
		"the\n"
		"optimum that no policy can beat. Only prompts count: a run also finds the "
		"answers\n"
		"of earlier turns, which a trace without token ids does not tell.",
	.examples =
		"  quire trace cache chat.jsonl --model qwen3-0.6b --gpu h200 --plot cache.svg\n"
		"  quire trace cache chat.jsonl --capacity 5000 --policy lru_tail --json\n",
	OPTIONS(options),
	.table = &replay_options,
	.table_offset = REQUEST(config),
	.value_bytes = sizeof(struct cache_request),
	.positional_minimum = 1,
	.positional_maximum = 1,
	.run = run,
};
