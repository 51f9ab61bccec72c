#include "engine/router/router.h"

/* The KV router of Dynamo (github.com/ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector/
   default.rs at 07a6c9ce and a4bdb9bf, config.rs at 0243c51b) with one tier of memory:

       logit  = prefill_scale * max(0, raw_prefill_blocks - credit) + decode_blocks
                + request_weight * requests
       credit = overlap_credit * cached_blocks / (1 + credit_decay * waiting_more)
       raw_prefill_blocks = (prefill tokens of the replica + prompt) / block_size
       waiting_more       = (prefill tokens - least of any replica) / block_size / request blocks
       decode_blocks      = blocks in use and those that the request would add: its own, less those
                            that unfinished requests hold there

   At temperature 0 the least logit wins, ties are drawn. At others a replica is drawn, with a
   probability in proportion to exp(-(logit - least) / (most - least) / temperature). Logits are in
   millionths of a block.

   Dynamo counts the blocks of unfinished prompts by what it has sent, here they are those in use
   as far as the router sees. Its queue, which holds requests back while all workers have 16 times
   max_num_batched_tokens to prefill, is not here: --replica-limit and --router-queue are. */

enum { OVERLAP_CREDIT, CREDIT_DECAY, PREFILL_SCALE, REQUEST_WEIGHT, DRAWS_TIES, TEMPERATURE };
enum { DRAWS = 1 << 30 };

static int64_t logit(const struct router *router, const struct router_request *request,
	const struct replica_view *view, uint64_t least_prefill)
{
	const uint64_t *settings = router->settings;
	uint64_t block_size = request->block_size;
	uint64_t request_blocks = u64_divide_up(request->prompt_tokens, block_size);
	u128 raw =
		(u128)(view->prefill_tokens + request->prompt_tokens) * ROUTER_MILLION / block_size;
	u128 even = (u128)block_size * request_blocks * ROUTER_MILLION;
	u128 more = (u128)settings[CREDIT_DECAY] * (view->prefill_tokens - least_prefill);
	u128 credit = (u128)settings[OVERLAP_CREDIT] * view->cached_blocks * even / (even + more);
	u128 prefill = raw > credit ? raw - credit : 0;
	uint64_t decode = view->used_blocks + request_blocks - view->held_blocks;

	return (int64_t)(prefill * settings[PREFILL_SCALE] / ROUTER_MILLION +
			 (u128)decode * ROUTER_MILLION +
			 (u128)settings[REQUEST_WEIGHT] * view->requests);
}

/* exp(-x), x >= 0, by + - * / alone, so that it is the same on every machine: a power series of
   x / 2^n, squared n times. The relative error is below 1e-12, which fixed-point numbers of 2^-32
   (workloads/generate/fixed.h) cannot have. */
static double exp_of_negative(double x)
{
	enum { TERMS = 14 };
	double sum = 1;
	uint32_t halvings = 0;

	if (x > 700) {
		return 0; /* of 2^30 draws none would see it */
	}
	for (; x > 0.5; x /= 2) {
		halvings++;
	}
	for (uint32_t i = TERMS; i > 0; i--) {
		sum = 1 - x * sum / i;
	}
	for (; halvings > 0; halvings--) {
		sum *= sum;
	}
	return sum;
}

/* Of a logit over the least, as a share of the range. */
static double weight(const struct router *router, int64_t over, int64_t range)
{
	double temperature = (double)router->settings[TEMPERATURE] / ROUTER_MILLION;

	return range == 0 ? 1 : exp_of_negative((double)over / (double)range / temperature);
}

static uint32_t draw_by_weight(struct router *router, const struct replica_view *views)
{
	const int64_t *costs = router->costs;
	int64_t least = INT64_MAX, most = INT64_MIN;
	double sum = 0;
	uint32_t last = 0;

	for (uint32_t i = 0; i < router->replica_count; i++) {
		if (views[i].is_open) {
			least = costs[i] < least ? costs[i] : least;
			most = costs[i] > most ? costs[i] : most;
			last = i;
		}
	}
	for (uint32_t i = 0; i < router->replica_count; i++) {
		sum += views[i].is_open ? weight(router, costs[i] - least, most - least) : 0;
	}
	double rest = sum * router_draw(router, DRAWS) / DRAWS;
	for (uint32_t i = 0; i < last; i++) {
		if (views[i].is_open) {
			rest -= weight(router, costs[i] - least, most - least);
			if (rest < 0) {
				return i;
			}
		}
	}
	return last;
}

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	uint64_t least_prefill = UINT64_MAX;

	for (uint32_t i = 0; i < router->replica_count; i++) {
		if (views[i].is_open) {
			least_prefill = u64_min(least_prefill, views[i].prefill_tokens);
		}
	}
	for (uint32_t i = 0; i < router->replica_count; i++) {
		if (views[i].is_open) {
			router->costs[i] = logit(router, request, &views[i], least_prefill);
		}
	}
	return router->settings[TEMPERATURE] > 0
		       ? draw_by_weight(router, views)
		       : router_least(router, views, router->settings[DRAWS_TIES] > 0);
}

const struct router_kind router_dynamo_kv = {
	.name = "dynamo-kv",
	.summary = "Dynamo's KV router: blocks to prefill, less those cached, and blocks in use",
	.wants_blocks = true,
	.wants_held = true,
	.settings =
		{
			[OVERLAP_CREDIT] = {"overlap-credit", ROUTER_MILLION, 1},
			[CREDIT_DECAY] = {"credit-decay", 0, 1000},
			[PREFILL_SCALE] = {"prefill-scale", ROUTER_MILLION, 1000},
			[REQUEST_WEIGHT] = {"request-weight", 0, 1000},
			[DRAWS_TIES] = {"draw-ties", ROUTER_MILLION, 1},
			[TEMPERATURE] = {"temperature", 0, 1000},
		},
	.pick = pick,
};
