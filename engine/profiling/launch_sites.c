#include "engine/profiling/launch_sites.h"

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

void launch_sites_init(struct launch_sites *sites)
{
	*sites = (struct launch_sites){
		.stack = {.step = RANGE_NO_STEP},
		.launches = memory_take(LAUNCHES_MAX, sizeof(*sites->launches)),
		.sites = memory_take(SITES_MAX, sizeof(*sites->sites)),
	};
}

void launch_sites_deinit(struct launch_sites *sites)
{
	free(sites->launches);
	free(sites->nodes);
	free(sites->sites);
	map_deinit(&sites->node_by_id);
	map_deinit(&sites->site_by_ranges);
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
	for (;; hash++) {
		const uint64_t *index = map_find(&sites->site_by_ranges, hash);
		if (index == NULL) {
			break;
		}
		if (is_site(&sites->sites[*index], stack, depth)) {
			return (uint32_t)*index;
		}
	}
	if (sites->site_count == SITES_MAX) {
		return KERNEL_NO_SITE;
	}
	map_add(&sites->site_by_ranges, hash, sites->site_count);
	fill_site(&sites->sites[sites->site_count], stack, depth);
	return sites->site_count++;
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

/* NULL: unknown. */
static const struct graph_node *find_node(const struct launch_sites *sites, uint64_t id)
{
	const uint64_t *index = map_find(&sites->node_by_id, id);

	return index == NULL ? NULL : &sites->nodes[*index];
}

/* The node, added if it is new. Only captures create nodes, so the number of graphs bounds theirs.
   */
static struct graph_node *add_node(struct launch_sites *sites, uint64_t id)
{
	uint64_t index = *map_add(&sites->node_by_id, id, sites->node_count);

	if (index == sites->node_count) {
		sites->nodes = memory_grow(sites->nodes, &sites->node_capacity, ++sites->node_count,
			sizeof(*sites->nodes));
		sites->nodes[index] = (struct graph_node){.site = KERNEL_NO_SITE};
	}
	return &sites->nodes[index];
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
		const struct graph_node copy = *original; /* adding may move it */
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
