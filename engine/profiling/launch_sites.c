#include "engine/profiling/launch_sites.h"

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { NODES_AT_FIRST = 1 << 12 }; /* a power of two */

void launch_sites_init(struct launch_sites *sites)
{
	*sites = (struct launch_sites){
		.stack = {.step = RANGE_NO_STEP},
		.launches = memory_take(LAUNCHES_MAX, sizeof(*sites->launches)),
		.nodes = memory_take(NODES_AT_FIRST, sizeof(*sites->nodes)),
		.node_capacity = NODES_AT_FIRST,
		.sites = memory_take(SITES_MAX, sizeof(*sites->sites)),
	};
}

void launch_sites_deinit(struct launch_sites *sites)
{
	free(sites->launches);
	free(sites->nodes);
	free(sites->sites);
}

/* ---- sites ---- */

static bool is_site(const struct launch_site *site, const struct range_stack *stack, uint32_t depth)
{
	bool is_equal = site->depth == depth;

	for (uint32_t i = 0; i < depth && is_equal; i++) {
		is_equal = site->ranges[i].name == stack->open[i].name &&
			   site->ranges[i].layer == stack->open[i].layer;
	}
	return is_equal;
}

static void fill_site(struct launch_site *site, const struct range_stack *stack, uint32_t depth)
{
	size_t used = 0;

	site->is_used = true;
	site->depth = depth;
	for (uint32_t i = 0; i < depth && used < SITE_PATH_BYTES; i++) {
		site->ranges[i] = stack->open[i];
		used += (size_t)snprintf(site->path + used, SITE_PATH_BYTES - used, "%s%s",
			i == 0 ? "" : "/", stack->open[i].name);
	}
}

/* The site of the ranges open now; KERNEL_NO_SITE once the table is full. */
static uint32_t site_now(struct launch_sites *sites)
{
	const struct range_stack *stack = &sites->stack;
	uint32_t depth = u32_min(stack->depth, RANGE_DEPTH_MAX);
	uint64_t hash = depth;

	for (uint32_t i = 0; i < depth; i++) {
		hash = counter_mix(hash ^ (uintptr_t)stack->open[i].name);
		hash = counter_mix(hash ^ stack->open[i].layer);
	}
	for (uint32_t i = (uint32_t)hash & (SITES_MAX - 1);; i = (i + 1) & (SITES_MAX - 1)) {
		struct launch_site *site = &sites->sites[i];
		if (site->is_used && is_site(site, stack, depth)) {
			return i;
		}
		if (!site->is_used) {
			if (sites->site_count == SITES_MAX / 2) {
				return KERNEL_NO_SITE;
			}
			sites->site_count++;
			fill_site(site, stack, depth);
			return i;
		}
	}
}

struct kernel_site launch_sites_at(const struct launch_sites *sites, uint32_t index)
{
	struct kernel_site out = {.path = "", .operation = "", .layer = RANGE_NO_LAYER};

	if (index == KERNEL_NO_SITE) {
		return out;
	}
	const struct launch_site *site = &sites->sites[index];
	out.path = site->path;
	for (uint32_t i = 0; i < site->depth; i++) {
		out.operation = site->ranges[i].name;
		if (site->ranges[i].layer != RANGE_NO_LAYER) {
			out.layer = site->ranges[i].layer;
		}
	}
	return out;
}

/* The innermost range; NULL: none is open. */
static const struct range *innermost(const struct launch_sites *sites)
{
	uint32_t depth = u32_min(sites->stack.depth, RANGE_DEPTH_MAX);

	return depth == 0 ? NULL : &sites->stack.open[depth - 1];
}

/* ---- launches ---- */

void launch_sites_note_launch(struct launch_sites *sites, uint32_t correlation)
{
	const struct range *range = innermost(sites);
	const struct launch launch = {
		.step = sites->stack.step,
		.correlation = correlation,
		.site = site_now(sites),
		.rows = range == NULL ? 0 : range->rows,
		.call = range == NULL ? 0 : range->serial,
	};
	const struct launch *last =
		&sites->launches[(sites->launch_count - 1) & (LAUNCHES_MAX - 1)];

	if (sites->launch_count == 0 || last->site != launch.site || last->step != launch.step ||
		last->call != launch.call) {
		sites->launches[sites->launch_count++ & (LAUNCHES_MAX - 1)] = launch;
	}
}

/* The last launch not after the call; NULL: it was overwritten in the ring. */
static const struct launch *find_launch(const struct launch_sites *sites, uint32_t correlation)
{
	uint64_t end = sites->launch_count;
	uint64_t low = end > LAUNCHES_MAX ? end - LAUNCHES_MAX : 0;
	uint64_t first = low, high = end;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (sites->launches[middle & (LAUNCHES_MAX - 1)].correlation <= correlation) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low == first ? NULL : &sites->launches[(low - 1) & (LAUNCHES_MAX - 1)];
}

/* ---- nodes ---- */

/* The node's entry, or the free entry for it. */
static struct graph_node *node_entry(struct graph_node *nodes, size_t capacity, uint64_t id)
{
	size_t i = counter_mix(id) & (capacity - 1);

	while (nodes[i].id != 0 && nodes[i].id != id) {
		i = (i + 1) & (capacity - 1);
	}
	return &nodes[i];
}

/* NULL: unknown. */
static const struct graph_node *find_node(const struct launch_sites *sites, uint64_t id)
{
	const struct graph_node *node = node_entry(sites->nodes, sites->node_capacity, id);

	return node->id == id ? node : NULL;
}

static void grow_nodes(struct launch_sites *sites)
{
	size_t capacity = 2 * sites->node_capacity;
	struct graph_node *grown = memory_take(capacity, sizeof(*grown));

	for (size_t i = 0; i < sites->node_capacity; i++) {
		if (sites->nodes[i].id != 0) {
			*node_entry(grown, capacity, sites->nodes[i].id) = sites->nodes[i];
		}
	}
	free(sites->nodes);
	sites->nodes = grown;
	sites->node_capacity = capacity;
}

/* The node, added if it is new. Only captures create nodes, so the number of graphs bounds theirs.
   */
static struct graph_node *add_node(struct launch_sites *sites, uint64_t id)
{
	if (2 * (sites->node_count + 1) > sites->node_capacity) {
		grow_nodes(sites);
	}
	struct graph_node *node = node_entry(sites->nodes, sites->node_capacity, id);
	if (node->id != id) {
		sites->node_count++;
		*node = (struct graph_node){.id = id, .site = KERNEL_NO_SITE};
	}
	return node;
}

void launch_sites_note_node(struct launch_sites *sites, uint64_t id)
{
	struct graph_node *node = add_node(sites, id);
	const struct range *range = innermost(sites);

	if (node->site == KERNEL_NO_SITE && range != NULL) {
		node->site = site_now(sites);
		node->rows = range->rows;
		node->call = range->serial;
	}
}

void launch_sites_note_copy(struct launch_sites *sites, uint64_t id, uint64_t original_id)
{
	const struct graph_node *original = find_node(sites, original_id);

	if (original != NULL) {
		struct graph_node copy = *original;
		copy.id = id;
		*add_node(sites, id) = copy;
	}
}

/* ---- records ---- */

bool launch_sites_find(const struct launch_sites *sites, uint32_t correlation, uint64_t node_id,
	struct kernel_record *record)
{
	const struct launch *launch = find_launch(sites, correlation);

	if (launch == NULL) {
		return false;
	}
	record->step = launch->step;
	record->launch_site = launch->site;
	record->graph_site = KERNEL_NO_SITE;
	record->rows = launch->rows;
	record->call = launch->call;
	if (node_id != 0) {
		const struct graph_node *node = find_node(sites, node_id);
		record->rows = 0;
		if (node != NULL) {
			record->graph_site = node->site;
			record->rows = node->rows;
			record->call = node->call;
		}
	}
	return true;
}
