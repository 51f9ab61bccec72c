#include "engine/router/history.h"

/* The cache-aware policy of SGLang's gateway (github.com/sgl-project/sglang, 01f6c92a,
   sgl-model-gateway/src/policies/cache_aware.rs and mod.rs; the same by default in its successor
   github.com/lightseekorg/smg, 73da68ca, model_gateway/src/policies/cache_aware.rs). It keeps a
   tree of the prompts it has sent to each replica, not of what is cached there:

       most requests - least > balance-abs and most > balance-rel * least: the fewest requests
       else, if a replica was sent more than cache-threshold of the prompt: the one with most of it
       else the fewest requests

   Every `evict-s` seconds, if not 0, a replica's tree is cut to the latest `tree-size` tokens. A
   replica that fails leaves it. SGLang matches characters of text; here they are blocks. Ties go to
   the lowest index; smg, of the replicas with the fewest requests, takes the one that it has sent
   the fewest so far. The defaults are those of the policy (CacheAwareConfig); SGLang's launcher
   (sglang_router/router_args.py) sets a threshold of 0.3, 64 requests, 1.5 times, 2^26 characters
   and 120 s. */

enum { CACHE_THRESHOLD, BALANCE_ABS, BALANCE_REL, TREE_SIZE, EVICT_S };

static void open_history(struct router *router)
{
	router_history_open(router, 0, 0);
}

static bool is_imbalanced(const struct router *router, const struct replica_view *views)
{
	uint64_t most = 0, least = UINT64_MAX;

	for (uint32_t i = 0; i < router->replica_count; i++) {
		if (views[i].is_open) {
			most = u64_max(most, views[i].requests);
			least = u64_min(least, views[i].requests);
		}
	}
	return (most - least) * ROUTER_MILLION > router->settings[BALANCE_ABS] &&
	       most * ROUTER_MILLION > router->settings[BALANCE_REL] * least;
}

/* What was due since the last request. */
static void evict(struct router *router, const struct router_request *request)
{
	struct router_history *history = router->state;
	uint64_t interval_ns = router->settings[EVICT_S] * 1000; /* millionths of a second */
	uint64_t tokens = router->settings[TREE_SIZE] / ROUTER_MILLION;

	if (interval_ns == 0 || request->now_ns / interval_ns == history->evictions) {
		return;
	}
	history->evictions = request->now_ns / interval_ns;
	for (uint32_t i = 0; i < router->replica_count; i++) {
		block_set_shrink(&history->sets[i], (uint32_t)(tokens / request->block_size));
	}
}

static uint32_t choose(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	uint64_t most = 0;
	uint32_t best = UINT32_MAX;

	if (is_imbalanced(router, views)) {
		return router_fewest_requests(router, views);
	}
	for (uint32_t i = 0; i < router->replica_count; i++) {
		uint64_t known =
			router_history_match(router->state, i, request, request->block_count);
		if (views[i].is_open && (best == UINT32_MAX || known > most)) {
			best = i;
			most = known;
		}
	}
	bool is_known = most * request->block_size * ROUTER_MILLION >
			router->settings[CACHE_THRESHOLD] * request->prompt_tokens;
	return is_known ? best : router_fewest_requests(router, views);
}

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	evict(router, request);
	uint32_t picked = choose(router, request, views);
	router_history_add(router->state, picked, request, request->block_count);
	return picked;
}

const struct router_kind router_sglang = {
	.name = "sglang",
	.summary =
		"SGLang's cache-aware policy: the longest prompt sent before, unless loads differ",
	.wants_blocks = true,
	.settings =
		{
			[CACHE_THRESHOLD] = {"cache-threshold", ROUTER_MILLION / 2, 1},
			[BALANCE_ABS] = {"balance-abs", 32 * ROUTER_MILLION, 1 << 20},
			[BALANCE_REL] = {"balance-rel", 1100000, 1000},
			[TREE_SIZE] = {"tree-size", UINT64_C(10000) * ROUTER_MILLION, 1 << 30},
			[EVICT_S] = {"evict-s", 30 * ROUTER_MILLION, 1 << 20},
		},
	.open = open_history,
	.pick = pick,
	.forget = router_history_forget,
	.close = router_history_close,
};
