#include "engine/router/history.h"

/* The estimated profile of llm-d (github.com/llm-d/llm-d-router, ebab6879,
   deploy/config/epp-estimate-prefix-cache-config.yaml and pkg/epp/framework/plugins/:
   scheduling/scorer/prefix, loadaware and requestcontrol/dataproducer/approximateprefix), which
   does not ask the engines what they have cached:

       prefix   leading blocks sent there before / blocks of the request    weight 1
                at most `match-tokens` of a request are looked at, 0: all; of each replica the
                latest `capacity` blocks are remembered, 0: as many as it has
       load     0.5 with none waiting, else 0.5 * (1 - min(waiting, limit) / limit)   weight 1

   ties drawn. What was sent to a replica that fails is forgotten. llm-d makes blocks of at least
   64 tokens and counts the last, shorter one too; here they are the full ones of --block-size. */

enum { PREFIX_WEIGHT, LOAD_WEIGHT, CAPACITY, MATCH_TOKENS, QUEUE_LIMIT, DRAWS_TIES };

static void open_history(struct router *router)
{
	router_history_open(router, (uint32_t)(router->settings[CAPACITY] / ROUTER_MILLION), 0);
}

/* The first block is used before those behind it, so it is also forgotten before them. */
static void remember(struct router *router, uint32_t replica, const struct router_request *request,
	uint32_t count, uint32_t kv_blocks)
{
	const struct router_history *history = router->state;
	struct block_set *set = &history->sets[replica];

	if (router->settings[CAPACITY] < ROUTER_MILLION) {
		set->capacity = kv_blocks;
	}
	for (uint32_t i = 0; i < count; i++) {
		block_set_add(set, &request->blocks[i], 1, request->now_ns);
	}
}

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	const struct router_history *history = router->state;
	uint64_t tokens = router->settings[MATCH_TOKENS] / ROUTER_MILLION;
	uint32_t blocks =
		tokens == 0 ? request->block_count
			    : u32_min(request->block_count, (uint32_t)tokens / request->block_size);
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
	remember(router, picked, request, blocks, views[picked].kv_blocks);
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
			[CAPACITY] = {"capacity", 0, 1 << 30},
			[MATCH_TOKENS] = {"match-tokens", UINT64_C(131072) * ROUTER_MILLION,
				1 << 30},
			[QUEUE_LIMIT] = {"queue-limit", UINT64_C(128) * ROUTER_MILLION, 1 << 20},
			[DRAWS_TIES] = {"draw-ties", ROUTER_MILLION, 1},
		},
	.open = open_history,
	.pick = pick,
	.forget = router_history_forget,
	.close = router_history_close,
};
