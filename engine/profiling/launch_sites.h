#ifndef ENGINE_PROFILING_LAUNCH_SITES_H
#define ENGINE_PROFILING_LAUNCH_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/map.h"
#include "engine/profiling/kernel_source.h"
#include "engine/profiling/nvtx.h"

/* Which ranges were open around a launch, and around the capture of a graph's node. Launches are
   identified by correlation ids, which rise, nodes by ids of their own. */

enum {
	LAUNCHES_MAX = 1 << 19, /* kept, a power of two */
	SITES_MAX = 1 << 12,
	SITE_PATH_BYTES = 128,
};

/* All calls from `correlation` up to the next launch's belong to this site and step. */
struct launch {
	uint64_t step;
	uint32_t correlation;
	uint32_t site;
	uint32_t rows;
	uint32_t call;
};

struct graph_node {
	uint32_t site;
	uint32_t rows;
	uint32_t call;
};

struct launch_site {
	uint32_t depth;
	struct range ranges[RANGE_DEPTH_MAX]; /* rows are not part of a site */
	char path[SITE_PATH_BYTES];
};

struct launch_sites {
	struct range_stack stack; /* the ranges open now */
	struct launch *launches;  /* (LAUNCHES_MAX) ring, by rising correlation */
	uint64_t launch_count;	  /* number of launches since the start */
	struct graph_node *nodes; /* (node_count) */
	size_t node_capacity, node_count;
	struct map node_by_id;	   /* to its index in nodes */
	struct launch_site *sites; /* (SITES_MAX), site_count of them in use */
	uint32_t site_count;
	struct map site_by_ranges; /* from the hash of the open ranges to the index in sites */
};

void launch_sites_init(struct launch_sites *sites);
void launch_sites_deinit(struct launch_sites *sites);

/* A call that may launch work: it belongs to the ranges open now. */
void launch_sites_note_launch(struct launch_sites *sites, uint32_t correlation);

/* Notes a captured node, and a copy of a node. A launched graph consists of copies of the captured
   nodes. A copy of an unknown node is ignored. */
void launch_sites_note_node(struct launch_sites *sites, uint64_t id);
void launch_sites_note_copy(struct launch_sites *sites, uint64_t id, uint64_t original_id);

/* Fills in step, sites, rows and call of a record; node_id: 0 outside graphs. False: its launch was
   overwritten in the ring. */
bool launch_sites_find(const struct launch_sites *sites, uint32_t correlation, uint64_t node_id,
	struct kernel_record *record);

struct kernel_site launch_sites_at(const struct launch_sites *sites, uint32_t index);

#endif
