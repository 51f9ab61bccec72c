#include "engine/router/router.h"

enum { LOAD, REQUESTS };

/* The prompt tokens that must be computed before its first token can be sampled: its own that are
   not cached, and those that are ahead of it. Where few prompts wait this is blind to the requests
   that decode: they gather where their prefixes are. With `requests` each unfinished request counts
   as so many tokens more. */
static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	for (uint32_t i = 0; i < router->replica_count; i++) {
		uint64_t cached = (uint64_t)views[i].cached_blocks * request->block_size;
		uint64_t own = request->prompt_tokens - cached;
		router->costs[i] = (int64_t)(own * ROUTER_MILLION +
					     views[i].prefill_tokens * router->settings[LOAD] +
					     views[i].requests * router->settings[REQUESTS]);
	}
	return router_least(router, views, false);
}

const struct router_kind router_prefix = {
	.name = "prefix",
	.summary = "the fewest prompt tokens to compute: those of the request that are not cached, "
		   "and those that wait before it",
	.wants_blocks = true,
	.settings =
		{[LOAD] = {"load", ROUTER_MILLION, 1000}, [REQUESTS] = {"requests", 0, 1 << 20}},
	.pick = pick,
};
