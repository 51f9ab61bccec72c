#include "engine/router/history.h"

/* The prefix-aware routing of vLLM's production-stack (github.com/vllm-project/production-stack,
   a6c01db0, src/vllm_router/routers/routing_logic.py, prefix/hashtrie.py, parsers/parser.py). A
   trie holds every prompt that was sent to each replica and forgets nothing. Among the replicas
   that were sent the longest part of the prompt one is drawn; if that part is shorter than
   `min-match` tokens, it is the first that was never sent a request, else the one that was sent the
   fewest in the last `window-s` seconds. The trie has chunks of 128 characters; here they are
   blocks. */

enum { MIN_MATCH, WINDOW_S };

static void open_history(struct router *router)
{
	router_history_open(router, 0, 0);
}

static uint32_t pick(struct router *router, const struct router_request *request,
	const struct replica_view *views)
{
	struct router_history *history = router->state;
	uint64_t most = 0;

	router_history_forget_sent(history, request->now_ns, router->settings[WINDOW_S] * 1000);
	for (uint32_t i = 0; i < router->replica_count; i++) {
		uint32_t known = router_history_match(history, i, request, request->block_count);
		router->costs[i] = -(int64_t)known;
		most = views[i].is_open ? u64_max(most, known) : most;
	}
	bool is_short = most * request->block_size * ROUTER_MILLION < router->settings[MIN_MATCH];
	for (uint32_t i = 0; is_short && i < router->replica_count; i++) {
		router->costs[i] = history->was_sent[i] ? (int64_t)history->recent[i] : -1;
	}
	uint32_t picked = router_least(router, views, !is_short);
	router_history_add(history, picked, request, request->block_count);
	router_history_sent(history, picked, request->now_ns);
	return picked;
}

const struct router_kind router_production_stack = {
	.name = "production-stack",
	.summary =
		"prefix-aware routing of vLLM's production-stack: the longest prompt sent before",
	.wants_blocks = true,
	.settings =
		{
			[MIN_MATCH] = {"min-match", 0, 1 << 30},
			[WINDOW_S] = {"window-s", 60 * ROUTER_MILLION, 1 << 20},
		},
	.open = open_history,
	.pick = pick,
	.close = router_history_close,
};
