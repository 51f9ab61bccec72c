#include "engine/router/router.h"

/* The precise profile of llm-d (github.com/llm-d/llm-d-router, ebab6879,
   deploy/config/epp-precise-prefix-cache-config.yaml and pkg/epp/framework/plugins/scheduling/:
   scorer/prefix, kvcacheutilization, queuedepth and picker/maxscore; llm-d-inference-scheduler
   520af47 had the same): the largest sum of weighted scores in [0, 1],

       prefix   matched blocks / blocks of the request                    weight 2
       kv       1 - share of KV blocks in use                             weight 1
       queue    (most waiting - waiting) / (most - least), 1 where equal   weight 1

   ties drawn. llm-d sees the last two some 50 ms late. Scores are in billionths. */

enum { PREFIX_WEIGHT, KV_WEIGHT, QUEUE_WEIGHT, DRAWS_TIES };

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	uint32_t most = 0, least = UINT32_MAX;

	for (uint32_t i = 0; i < router->replica_count; i++) {
		if (views[i].is_open) {
			most = u32_max(most, views[i].waiting);
			least = u32_min(least, views[i].waiting);
		}
	}
	for (uint32_t i = 0; i < router->replica_count; i++) {
		const struct replica_view *view = &views[i];
		int64_t prefix =
			router_share(view->cached_blocks, u32_max(request->block_count, 1));
		int64_t kv = ROUTER_BILLION - router_share(view->used_blocks, view->kv_blocks);
		int64_t queue = most == least || !view->is_open
					? ROUTER_BILLION
					: router_share(most - view->waiting, most - least);
		router->costs[i] = -(router_weigh(router, PREFIX_WEIGHT, prefix) +
				     router_weigh(router, KV_WEIGHT, kv) +
				     router_weigh(router, QUEUE_WEIGHT, queue));
	}
	return router_least(router, views, router->settings[DRAWS_TIES] > 0);
}

const struct router_kind router_llm_d = {
	.name = "llm-d",
	.summary = "llm-d's precise profile: cached prefix, free KV blocks and queue, weighted",
	.wants_blocks = true,
	.settings =
		{
			[PREFIX_WEIGHT] = {"prefix-weight", 2 * ROUTER_MILLION, 1000},
			[KV_WEIGHT] = {"kv-weight", ROUTER_MILLION, 1000},
			[QUEUE_WEIGHT] = {"queue-weight", ROUTER_MILLION, 1000},
			[DRAWS_TIES] = {"draw-ties", ROUTER_MILLION, 1},
		},
	.pick = pick,
};
