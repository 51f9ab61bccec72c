#include "engine/router/router.h"

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	(void)request;
	for (uint32_t i = 0; i < router->replica_count; i++) {
		router->costs[i] = router_share(views[i].used_blocks, views[i].kv_blocks);
	}
	return router_least(router, views, false);
}

const struct router_kind router_least_kv = {
	.name = "least-kv",
	.summary = "the smallest share of KV blocks in use",
	.pick = pick,
};
