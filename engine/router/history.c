#include "engine/router/history.h"

#include "engine/base/memory.h"

#include <stdlib.h>

void router_history_open(struct router *router, uint32_t capacity, uint64_t ttl_ns)
{
	struct router_history *history = memory_take(1, sizeof(*history));

	history->sets = memory_take(router->replica_count, sizeof(*history->sets));
	history->recent = memory_take(router->replica_count, sizeof(*history->recent));
	history->was_sent = memory_take(router->replica_count, sizeof(*history->was_sent));
	for (uint32_t i = 0; i < router->replica_count; i++) {
		block_set_init(&history->sets[i], capacity, ttl_ns);
	}
	router->state = history;
}

void router_history_forget(struct router *router, uint32_t replica)
{
	const struct router_history *history = router->state;

	block_set_shrink(&history->sets[replica], 0);
}

void router_history_close(struct router *router)
{
	struct router_history *history = router->state;

	for (uint32_t i = 0; i < router->replica_count; i++) {
		block_set_deinit(&history->sets[i]);
	}
	free(history->sets);
	free(history->recent);
	free(history->was_sent);
	free(history->sent_ns);
	free(history->sent_to);
	free(history);
}

uint32_t router_history_match(const struct router_history *history, uint32_t replica,
	const struct router_request *request, uint32_t count)
{
	return block_set_match(&history->sets[replica], request->blocks, count, request->now_ns);
}

void router_history_add(struct router_history *history, uint32_t replica,
	const struct router_request *request, uint32_t count)
{
	block_set_add(&history->sets[replica], request->blocks, count, request->now_ns);
}

void router_history_sent(struct router_history *history, uint32_t replica, uint64_t now_ns)
{
	size_t capacity = history->sent_capacity;

	if (history->sent_count == capacity) {
		size_t grown = capacity == 0 ? 64 : 2 * capacity;
		uint64_t *times = memory_take(grown, sizeof(*times));
		uint32_t *replicas = memory_take(grown, sizeof(*replicas));
		for (size_t i = 0; i < history->sent_count; i++) {
			size_t from = (history->sent_first + i) % capacity;
			times[i] = history->sent_ns[from];
			replicas[i] = history->sent_to[from];
		}
		free(history->sent_ns);
		free(history->sent_to);
		history->sent_ns = times;
		history->sent_to = replicas;
		history->sent_first = 0;
		history->sent_capacity = grown;
	}
	size_t at = (history->sent_first + history->sent_count++) % history->sent_capacity;
	history->sent_ns[at] = now_ns;
	history->sent_to[at] = replica;
	history->recent[replica]++;
	history->was_sent[replica] = true;
}

void router_history_forget_sent(struct router_history *history, uint64_t now_ns, uint64_t window_ns)
{
	while (history->sent_count > 0 &&
		now_ns - history->sent_ns[history->sent_first] > window_ns) {
		history->recent[history->sent_to[history->sent_first]]--;
		history->sent_first = (history->sent_first + 1) % history->sent_capacity;
		history->sent_count--;
	}
}
