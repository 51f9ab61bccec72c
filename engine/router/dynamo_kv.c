#include "engine/router/router.h"

/* The KV router of Dynamo (ai-dynamo/dynamo, lib/kv-router/src/scheduling/selector/default.rs,
   07a6c9c), with one tier of memory, at temperature 0:

       logit  = prefill_scale * max(0, raw_prefill_blocks - credit) + decode_blocks
                + request_weight * requests
       credit = overlap_credit * cached_blocks / (1 + credit_decay * waiting_more)
       raw_prefill_blocks = (prefill tokens of the replica + prompt) / block_size
       waiting_more       = (prefill tokens - least of any replica) / block_size / request blocks
       decode_blocks      = blocks in use and those that the request would add: its own, less those
                            that unfinished requests hold there

   The least logit wins, ties are drawn. Logits are in millionths of a block. */

enum { OVERLAP_CREDIT, CREDIT_DECAY, PREFILL_SCALE, REQUEST_WEIGHT, DRAWS_TIES };

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
	return router_least(router, views, router->settings[DRAWS_TIES] > 0);
}

const struct router_kind router_dynamo_kv = {
	.name = "dynamo-kv",
	.summary = "Dynamo's KV router: blocks to prefill, less those cached, and blocks in use",
	.wants_blocks = true,
	.settings =
		{
			[OVERLAP_CREDIT] = {"overlap-credit", ROUTER_MILLION, 1000},
			[CREDIT_DECAY] = {"credit-decay", 0, 1000},
			[PREFILL_SCALE] = {"prefill-scale", ROUTER_MILLION, 1000},
			[REQUEST_WEIGHT] = {"request-weight", 0, 1000},
			[DRAWS_TIES] = {"draw-ties", ROUTER_MILLION, 1},
		},
	.pick = pick,
};
