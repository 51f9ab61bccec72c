#include "bench/commands/trace.h"

#include "bench/replay/trace_reading.h"
#include "engine/base/number.h"
#include "engine/base/output_file.h"
#include "engine/model/config_json.h"
#include "reports/figures/plot.h"
#include "engine/shape/model_config.h"
#include "workloads/study/cache_curve.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

enum { TABLE_ROWS_ABOUT = 20 };

/* What the user asked for. */
struct cache_order {
	struct trace_reading reading;
	const char *path, *capacities, *policy, *model, *out, *plot;
	bool wants_json;
	uint64_t asked[CACHE_CURVE_ASKED_MAX];
	uint32_t asked_count;
	uint64_t kv_bytes_per_token; /* 0: no model */
};

/* "5000" or "1000,2000,4000": blocks of the trace. */
static enum status parse_capacities(struct cache_order *order, struct error *error)
{
	const char *at = order->capacities;

	while (at != NULL) {
		char text[24] = "";
		const char *comma = strchr(at, ',');
		size_t bytes = comma == NULL ? strlen(at) : (size_t)(comma - at);
		uint64_t *value = &order->asked[order->asked_count];
		if (bytes < sizeof(text)) {
			memcpy(text, at, bytes);
		}
		if (!text_to_u64(text, value) || *value < 1 || *value > UINT32_MAX) {
			return error_set(error, STATUS_USAGE,
				"--capacity: found '%s', expected numbers of blocks from 1 to %u, "
				"with commas between them",
				order->capacities, UINT32_MAX);
		}
		order->asked_count++;
		at = comma == NULL ? NULL : comma + 1;
		if (at != NULL && order->asked_count == CACHE_CURVE_ASKED_MAX) {
			return error_set(error, STATUS_USAGE,
				"--capacity: found more than %d numbers, expected fewer",
				CACHE_CURVE_ASKED_MAX);
		}
	}
	return STATUS_OK;
}

static enum status find_policy(const char *name, enum cache_policy *policy, struct error *error)
{
	for (uint32_t i = 0; i < CACHE_POLICY_COUNT; i++) {
		if (strcmp(cache_policy_name((enum cache_policy)i), name) == 0) {
			*policy = (enum cache_policy)i;
			return STATUS_OK;
		}
	}
	return error_set(error, STATUS_USAGE,
		"--policy: found '%s', expected lru_stream, lru_tail, fifo, belady or infinite",
		name);
}

static enum status read_references(
	const struct cache_order *order, struct references *references, struct error *error)
{
	struct trace *trace = NULL;
	struct trace_row row;
	bool has_row = true;
	bool has_ids = false;
	enum status status = trace_reading_open(&trace, order->path, &order->reading, error);

	if (status != STATUS_OK) {
		return status;
	}
	references_init(references, trace_reading_block_size(trace));
	while (status == STATUS_OK && has_row) {
		status = trace_next(trace, &row, &has_row, error);
		if (status == STATUS_OK && has_row) {
			has_ids = has_ids || row.hash_ids != NULL || row.prompt_ids != NULL;
			status = references_add(references, &row, error);
		}
	}
	if (status == STATUS_OK && !has_ids) {
		status = error_set(error, STATUS_INPUT,
			"%.200s: found neither hash ids nor token ids in any row, expected some: "
			"without them no prompt shares anything",
			order->path);
	}
	if (status == STATUS_OK) {
		trace_reading_report(trace);
	}
	trace_close(trace);
	return status;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 0 : (double)part / (double)whole;
}

static double gib(const struct cache_order *order, uint64_t tokens)
{
	return (double)tokens * (double)order->kv_bytes_per_token / (1024.0 * 1024 * 1024);
}

/* ---- one policy at the capacities asked for ---- */

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
	cJSON *object, const struct cache_order *order, uint64_t capacity, uint32_t block_size)
{
	cJSON_AddNumberToObject(object, "capacity_blocks", (double)capacity);
	cJSON_AddNumberToObject(object, "capacity_tokens", (double)(capacity * block_size));
	if (order->kv_bytes_per_token > 0) {
		cJSON_AddNumberToObject(object, "capacity_gib", gib(order, capacity * block_size));
	}
}

static void print_and_free(cJSON *root)
{
	char *text = cJSON_Print(root);

	printf("%s\n", text);
	free(text);
	cJSON_Delete(root);
}

static void answer(const struct cache_order *order, const struct references *references,
	enum cache_policy policy)
{
	cJSON *all = order->asked_count > 1 ? cJSON_CreateArray() : NULL;

	for (uint32_t i = 0; i < order->asked_count; i++) {
		struct cache_hits hits = cache_hits_at(references, policy, order->asked[i]);
		if (!order->wants_json) {
			printf("%-10s %10" PRIu64 " blocks: %" PRIu64
			       " hit blocks (%.2f %%), %" PRIu64 " hit tokens (%.2f %%)\n",
				cache_policy_name(policy), order->asked[i], hits.blocks,
				100 * share(hits.blocks, references->reference_count), hits.tokens,
				100 * share(hits.tokens, references->token_count));
			continue;
		}
		cJSON *object = hits_json(references, &hits);
		cJSON_AddStringToObject(object, "policy", cache_policy_name(policy));
		add_capacity(object, order, order->asked[i], references->block_size);
		if (all == NULL) {
			print_and_free(object);
		} else {
			cJSON_AddItemToArray(all, object);
		}
	}
	if (all != NULL && order->wants_json) {
		print_and_free(all);
	} else {
		cJSON_Delete(all);
	}
}

/* ---- the curve ---- */

static void print_curve_json(const struct cache_order *order, const struct references *references,
	const struct cache_curve *curve)
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
		add_capacity(point, order, curve->points[i].capacity, references->block_size);
		for (uint32_t p = 0; p < CACHE_POLICY_COUNT; p++) {
			cJSON_AddItemToObject(point, cache_policy_name((enum cache_policy)p),
				hits_json(references, &curve->points[i].hits[p]));
		}
		cJSON_AddItemToArray(points, point);
	}
	print_and_free(root);
}

static void print_table(const struct cache_order *order, const struct references *references,
	const struct cache_curve *curve)
{
	static const enum cache_policy columns[] = {
		CACHE_LRU_TAIL, CACHE_LRU_STREAM, CACHE_FIFO, CACHE_BELADY};
	uint32_t every = curve->point_count / TABLE_ROWS_ABOUT + 1;
	const struct cache_hits *ideal = &curve->points[0].hits[CACHE_INFINITE];

	printf("%" PRIu64 " requests, %" PRIu64 " blocks of %" PRIu32 " tokens, %" PRIu64
	       " different\n"
	       "share of %" PRIu64 " prompt tokens found, in %%; without end: %.2f\n\n",
		references->request_count, references->reference_count, references->block_size,
		references->block_count, references->token_count,
		100 * share(ideal->tokens, references->token_count));
	printf("    blocks       tokens  %s lru_tail lru_stream    fifo  belady\n",
		order->kv_bytes_per_token > 0 ? "      GiB " : "");
	for (uint32_t i = 0; i < curve->point_count; i++) {
		const struct cache_point *point = &curve->points[i];
		uint64_t tokens = point->capacity * references->block_size;
		if ((curve->point_count - 1 - i) % every != 0 && !point->is_asked) {
			continue;
		}
		printf("%10" PRIu64 " %12" PRIu64 "  ", point->capacity, tokens);
		if (order->kv_bytes_per_token > 0) {
			printf("%9.3f ", gib(order, tokens));
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

/* The columns that reports/figures/trace_cache.gp reads. */
static void write_tsv(FILE *file, const struct cache_order *order,
	const struct references *references, const struct cache_curve *curve)
{
	fprintf(file, "capacity_blocks\tcapacity_tokens\tcapacity_gib\ttotal_blocks\ttotal_tokens");
	for (uint32_t p = 0; p < CACHE_POLICY_COUNT; p++) {
		const char *name = cache_policy_name((enum cache_policy)p);
		fprintf(file, "\t%s_hit_blocks\t%s_hit_tokens", name, name);
	}
	fprintf(file, "\n");
	for (uint32_t i = 0; i < curve->point_count; i++) {
		const struct cache_point *point = &curve->points[i];
		uint64_t tokens = point->capacity * references->block_size;
		fprintf(file, "%" PRIu64 "\t%" PRIu64 "\t", point->capacity, tokens);
		if (order->kv_bytes_per_token > 0) {
			fprintf(file, "%.6f", gib(order, tokens));
		} else {
			fprintf(file, "-");
		}
		fprintf(file, "\t%" PRIu64 "\t%" PRIu64, references->reference_count,
			references->token_count);
		for (uint32_t p = 0; p < CACHE_POLICY_COUNT; p++) {
			fprintf(file, "\t%" PRIu64 "\t%" PRIu64, point->hits[p].blocks,
				point->hits[p].tokens);
		}
		fprintf(file, "\n");
	}
}

static enum status write_files(const struct cache_order *order, const struct references *references,
	const struct cache_curve *curve, struct error *error)
{
	enum status status = STATUS_OK;

	if (order->out != NULL) {
		struct output_file output;
		status = output_file_open(&output, order->out, error);
		if (status == STATUS_OK) {
			write_tsv(output.file, order, references, curve);
			status = output_file_commit(&output, error);
		}
	}
	if (status == STATUS_OK && order->plot != NULL) {
		struct plot plot;
		status = plot_begin(&plot, error);
		if (status == STATUS_OK) {
			write_tsv(plot.table, order, references, curve);
			status = plot_draw(
				&plot, "trace_cache.gp", order->model, order->plot, error);
		}
	}
	return status;
}

static enum status work(
	const struct cache_order *order, const struct references *references, struct error *error)
{
	enum cache_policy policy = CACHE_LRU_TAIL;
	enum status status = STATUS_OK;

	if (order->policy != NULL) {
		status = find_policy(order->policy, &policy, error);
		if (status == STATUS_OK) {
			answer(order, references, policy);
		}
		return status;
	}
	struct cache_curve *curve = malloc(sizeof(*curve));
	if (curve == NULL) {
		return error_set(error, STATUS_MEMORY, "no memory for the curve");
	}
	cache_curve_make(curve, references, order->asked, order->asked_count);
	status = write_files(order, references, curve, error);
	if (status == STATUS_OK && order->wants_json) {
		print_curve_json(order, references, curve);
	} else if (status == STATUS_OK) {
		print_table(order, references, curve);
	}
	free(curve);
	return status;
}

static enum status run(struct cache_order *order, struct error *error)
{
	struct references references = {0};
	struct model_config model;
	enum cache_policy policy;
	enum status status = parse_capacities(order, error);

	if (status == STATUS_OK && order->policy != NULL) {
		status = find_policy(order->policy, &policy, error);
	}
	if (status == STATUS_OK && order->policy != NULL && order->asked_count == 0) {
		status = error_set(error, STATUS_USAGE,
			"--policy needs --capacity: without both, every policy is shown");
	}
	if (status == STATUS_OK && order->policy != NULL &&
		(order->out != NULL || order->plot != NULL)) {
		status = error_set(error, STATUS_USAGE,
			"%s holds every policy, so --policy does not go with it",
			order->out != NULL ? "--out" : "--plot");
	}
	if (status == STATUS_OK && order->model != NULL) {
		status = model_config_find(order->model, &model, error);
		if (status == STATUS_OK) {
			order->kv_bytes_per_token = model_config_kv_bytes_per_token(&model);
		}
	}
	if (status == STATUS_OK) {
		status = read_references(order, &references, error);
	}
	if (status == STATUS_OK) {
		status = work(order, &references, error);
	}
	references_deinit(&references);
	return status;
}

int command_trace_cache(int argc, char **argv)
{
	struct cache_order order = {0};
	struct option options[TRACE_READING_ROWS + 8] = {
		[TRACE_READING_ROWS] = {.kind = OPTION_HEADING, .help = "What is asked"},
		{"capacity", OPTION_TEXT, &order.capacities, "N[,N...]",
			"cache sizes in blocks of the trace, beside 64 others", 0, 0, NULL, NULL},
		{"policy", OPTION_TEXT, &order.policy, "P",
			"only this one, at --capacity: lru_stream, lru_tail (as an engine frees "
			"blocks), fifo, belady (the optimum) or infinite",
			0, 0, NULL, NULL},
		{"model", OPTION_TEXT, &order.model, "NAME|DIR",
			"say sizes in GiB of this model's KV cache too, as qwen3-0.6b", 0, 0, NULL,
			NULL},
		{.kind = OPTION_HEADING, .help = "What is written"},
		{"json", OPTION_FLAG, &order.wants_json, NULL, "JSON with exact counts", 0, 0, NULL,
			NULL},
		{"out", OPTION_TEXT, &order.out, "FILE.tsv", "the whole curve as a table", 0, 0,
			NULL, NULL},
		{"plot", OPTION_TEXT, &order.plot, "FILE.svg", "the whole curve as a picture", 0, 0,
			NULL, NULL},
	};
	const struct command command = {
		.name = "trace cache",
		.arguments = "TRACE [options]",
		.summary = "Says how much of a trace's prompts a prefix cache would find, against "
			   "its size: how\n"
			   "much KV memory would pay, from the trace alone. LRU as engines do it, "
			   "FIFO, and the\n"
			   "optimum that no policy can beat.",
		.examples =
			"  quire trace cache chat.jsonl --model qwen3-0.6b --plot cache.svg\n"
			"  quire trace cache chat.jsonl --capacity 5000 --policy lru_tail --json\n",
		.options = options,
		.option_count = sizeof(options) / sizeof(options[0]),
		.positional_minimum = 1,
		.positional_maximum = 1,
	};
	uint32_t positional_count = 0;
	bool wants_help = false;
	struct error error = {0};

	trace_reading_options(&order.reading, options);
	enum status status = options_parse(
		&command, argc, argv, &order.path, &positional_count, &wants_help, &error);
	if (status == STATUS_OK && wants_help) {
		command_help(&command);
		return 0;
	}
	if (status == STATUS_OK) {
		status = run(&order, &error);
	}
	return status == STATUS_OK ? 0 : command_fail(&command, &error);
}
