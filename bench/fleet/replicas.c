#include "bench/fleet/replicas.h"

#include "engine/base/number.h"

#include <cJSON.h>
#include <stdio.h>

void replicas_add_blind(struct text *text, const char *router)
{
	text_format(text,
		"the trace has no prompt ids, by which router %s finds cached prefixes: by what is "
		"left it may crowd requests on few replicas; --router least-requests needs none",
		router);
}

static uint64_t tokens_of(const struct replica_figures *figures)
{
	return figures->prompt_tokens + figures->output_tokens;
}

/* The longest time that a replica was there; 0: none was. */
static uint64_t longest_up(const struct fleet_figures *fleet)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < fleet->count; i++) {
		most = fleet->each[i].up_ns > most ? fleet->each[i].up_ns : most;
	}
	return most;
}

struct rates {
	double most, weights, sum, squares; /* max x, sum w, sum w x, sum w x^2 */
};

/* Times are in units of the longest, so that replicas that are always there weigh exactly 1. */
static struct rates rates_of(const struct fleet_figures *fleet)
{
	double unit = (double)longest_up(fleet);
	struct rates rates = {0};

	for (uint32_t i = 0; i < fleet->count; i++) {
		double weight = unit > 0 ? (double)fleet->each[i].up_ns / unit : 0;
		double tokens = (double)tokens_of(&fleet->each[i]);
		if (weight > 0) {
			rates.most = tokens / weight > rates.most ? tokens / weight : rates.most;
			rates.weights += weight;
			rates.sum += tokens;
			rates.squares += tokens * tokens / weight;
		}
	}
	return rates;
}

double replicas_imbalance(const struct fleet_figures *fleet)
{
	struct rates rates = rates_of(fleet);

	return rates.sum > 0 ? rates.most * rates.weights / rates.sum : 1;
}

double replicas_jain(const struct fleet_figures *fleet)
{
	struct rates rates = rates_of(fleet);

	return rates.squares > 0 ? rates.sum * rates.sum / (rates.weights * rates.squares) : 1;
}

/* ---- summary.json ---- */

static void add_count(cJSON *object, const char *name, bool has_value, uint64_t value)
{
	char text[NUMBER_TEXT_BYTES] = "null";

	if (has_value) {
		decimal_text(text, value, 0);
	}
	cJSON_AddRawToObject(object, name, text);
}

static void add_decimal(cJSON *object, const char *name, double value)
{
	char text[NUMBER_TEXT_BYTES];

	decimal_text(text, (uint64_t)(value * 1e6 + 0.5), 6);
	cJSON_AddRawToObject(object, name, text);
}

static void add_share(cJSON *object, const char *name, uint64_t part, uint64_t whole)
{
	char text[NUMBER_TEXT_BYTES];

	ratio_text(text, part, whole, 6, "null");
	cJSON_AddRawToObject(object, name, text);
}

static cJSON *replica_json(const struct fleet_figures *fleet, uint32_t index)
{
	const struct replica_figures *own = &fleet->each[index];
	cJSON *object = cJSON_CreateObject();
	char busy[NUMBER_TEXT_BYTES], up[NUMBER_TEXT_BYTES];

	add_count(object, "replica", true, index);
	if (own->group != NULL) {
		cJSON_AddStringToObject(object, "group", own->group);
	}
	add_count(object, "requests", true, own->submitted);
	add_count(object, "finished", true, own->finished);
	add_count(object, "prompt_tokens", true, own->prompt_tokens);
	add_count(object, "output_tokens", true, own->output_tokens);
	add_count(object, "lost_tokens", true, own->lost_tokens);
	add_share(
		object, "hit_rate", own->hit_tokens, fleet->has_prompt_ids ? own->query_tokens : 0);
	add_count(object, "preemptions", true, own->preemptions);
	add_count(object, "steps", true, own->steps);
	decimal_text(busy, own->busy_ns, 9);
	cJSON_AddRawToObject(object, "busy_s", busy);
	decimal_text(up, own->up_ns, 9);
	cJSON_AddRawToObject(object, "up_s", up);
	return object;
}

cJSON *replicas_json(const struct fleet_figures *fleet)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "router", fleet->router);
	add_decimal(object, "imbalance", replicas_imbalance(fleet));
	add_decimal(object, "jain", replicas_jain(fleet));
	add_count(object, "regret_blocks", fleet->knows_regret, fleet->regret_blocks);
	add_count(object, "retries", true, fleet->retries);
	add_count(object, "rejected_queue_full", true, fleet->refused);
	add_share(object, "whole_hit_rate", fleet->whole_hit_tokens,
		fleet->has_prompt_ids ? fleet->whole_query_tokens : 0);
	if (fleet->is_router_blind) {
		struct text note = {0};
		replicas_add_blind(&note, fleet->router);
		cJSON_AddStringToObject(object, "router_note", note.bytes);
		text_deinit(&note);
	}
	cJSON *list = cJSON_AddArrayToObject(object, "replicas");
	for (uint32_t i = 0; i < fleet->count; i++) {
		cJSON_AddItemToArray(list, replica_json(fleet, i));
	}
	return object;
}

/* ---- the printed table ---- */

enum { PRINTED_REPLICAS = 64 };

void replicas_print(const struct fleet_figures *fleet)
{
	char hits[NUMBER_TEXT_BYTES], busy[NUMBER_TEXT_BYTES];

	printf("\n  fleet     %u %s behind %s; most tokens over mean %.3f, Jain's index %.4f",
		fleet->count, word_of_count(fleet->count, "replica", "replicas"), fleet->router,
		replicas_imbalance(fleet), replicas_jain(fleet));
	if (fleet->knows_regret) {
		printf(", regret %llu %s", (unsigned long long)fleet->regret_blocks,
			word_of_count(fleet->regret_blocks, "block", "blocks"));
	}
	if (fleet->has_prompt_ids && fleet->whole_query_tokens > 0) {
		rounded_text(hits, (u128)fleet->whole_hit_tokens * 100, fleet->whole_query_tokens,
			2, "-");
		printf("; one cache with all the memory would hit %s%%", hits);
	}
	if (fleet->retries > 0 || fleet->refused > 0) {
		uint64_t lost_tokens = 0;
		for (uint32_t i = 0; i < fleet->count; i++) {
			lost_tokens += fleet->each[i].lost_tokens;
		}
		printf("\n            %llu %s sent again after a failure, which lost %llu output "
		       "%s; "
		       "%llu rejected by a full queue",
			(unsigned long long)fleet->retries,
			word_of_count(fleet->retries, "request", "requests"),
			(unsigned long long)lost_tokens,
			word_of_count(lost_tokens, "token", "tokens"),
			(unsigned long long)fleet->refused);
	}
	if (fleet->is_router_blind) {
		struct text note = {0};
		replicas_add_blind(&note, fleet->router);
		printf("\n            %s", note.bytes);
		text_deinit(&note);
	}
	printf("\n\n  %7s %10s %13s %13s %8s %11s %10s %10s\n", "replica", "requests", "prompt",
		"output", "hit %", "preemptions", "steps", "busy s");
	for (uint32_t i = 0; i < fleet->count && i < PRINTED_REPLICAS; i++) {
		const struct replica_figures *own = &fleet->each[i];
		rounded_text(hits, (u128)own->hit_tokens * 100,
			fleet->has_prompt_ids ? own->query_tokens : 0, 2, "-");
		rounded_text(busy, own->busy_ns, 1000000000, 3, "-");
		printf("  %7u %10llu %13llu %13llu %8s %11llu %10llu %10s%s%s\n", i,
			(unsigned long long)own->submitted, (unsigned long long)own->prompt_tokens,
			(unsigned long long)own->output_tokens, hits,
			(unsigned long long)own->preemptions, (unsigned long long)own->steps, busy,
			own->group == NULL ? "" : "  ", own->group == NULL ? "" : own->group);
	}
	if (fleet->count > PRINTED_REPLICAS) {
		printf("  ...     summary.json has all %u\n", fleet->count);
	}
}
