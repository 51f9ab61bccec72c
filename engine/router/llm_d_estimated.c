#include "engine/router/history.h"

/* The estimated profile of llm-d (sources as in llm_d.c), which does not ask the engines:

       prefix   leading blocks sent there before / blocks of the request    weight 1
                the latest `capacity` blocks of each replica are remembered, and at most
                `match-blocks` of a request are looked at
       load     0.5 with none waiting, else 0.5 * (1 - min(waiting, limit) / limit)   weight 1

   ties drawn. llm-d counts blocks of 16 tokens; here they are those of --block-size. */

enum { PREFIX_WEIGHT, LOAD_WEIGHT, CAPACITY, MATCH_BLOCKS, QUEUE_LIMIT, DRAWS_TIES };

static void open_history(struct router *router)
{
	router_history_open(router, (uint32_t)(router->settings[CAPACITY] / ROUTER_MILLION), 0);
}

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	struct router_history *history = router->state;
	uint32_t blocks = u32_min(
		request->block_count, (uint32_t)(router->settings[MATCH_BLOCKS] / ROUTER_MILLION));
	uint32_t limit = u32_max(1, (uint32_t)(router->settings[QUEUE_LIMIT] / ROUTER_MILLION));

	for (uint32_t i = 0; i < router->replica_count; i++) {
		uint32_t known = router_history_match(history, i, request, blocks);
		uint32_t waiting = u32_min(views[i].waiting, limit);
		int64_t prefix = router_share(known, u32_max(blocks, 1));
		int64_t load = (ROUTER_BILLION - router_share(waiting, limit)) / 2;
		router->costs[i] = -(router_weigh(router, PREFIX_WEIGHT, prefix) +
				     router_weigh(router, LOAD_WEIGHT, load));
	}
	uint32_t picked = router_least(router, views, router->settings[DRAWS_TIES] > 0);
	router_history_add(history, picked, request, blocks);
	return picked;
}

const struct router_kind router_llm_d_estimated = {
	.name = "llm-d-estimated",
	.summary = "llm-d's estimated profile: prefixes sent there before, and the queue",
	.wants_blocks = true,
	.settings =
		{
			[PREFIX_WEIGHT] = {"prefix-weight", ROUTER_MILLION, 1000},
			[LOAD_WEIGHT] = {"load-weight", ROUTER_MILLION, 1000},
			[CAPACITY] = {"capacity", UINT64_C(31250) * ROUTER_MILLION, 1 << 30},
			[MATCH_BLOCKS] = {"match-blocks", UINT64_C(256) * ROUTER_MILLION, 1 << 30},
			[QUEUE_LIMIT] = {"queue-limit", UINT64_C(128) * ROUTER_MILLION, 1 << 20},
			[DRAWS_TIES] = {"draw-ties", ROUTER_MILLION, 1},
		},
	.open = open_history,
	.pick = pick,
	.close = router_history_close,
};
