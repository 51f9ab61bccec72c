#ifndef BENCH_FLEET_GROUPS_H
#define BENCH_FLEET_GROUPS_H

#include <stdint.h>

#include "engine/base/status.h"

/* A fleet whose replicas differ: a table with a row for each group of equal ones. Columns are found
   by name; `group` and `replicas` must be there. In the others `-`, or a missing column, stands for
   what the options of the run say. Names differ.

       group  replicas  gpu  tensor_parallel_size  kv_blocks  max_num_seqs
                                                   max_num_batched_tokens  max_model_len */

enum { FLEET_GROUPS_MAX = 64, FLEET_NAME_BYTES = 64, FLEET_GPU_BYTES = 256 };

struct fleet_group {
	char name[FLEET_NAME_BYTES];
	char gpu[FLEET_GPU_BYTES]; /* "": as the options say */
	uint64_t replicas;
	/* 0: as the options say */
	uint64_t tensor_parallel_size, kv_blocks, max_num_seqs, max_num_batched_tokens,
		max_model_len;
};

struct fleet_groups {
	uint32_t count; /* 0: no table was read */
	uint64_t replicas;
	struct fleet_group list[FLEET_GROUPS_MAX];
};

/* A malformed table is refused with file, line and column. */
enum status fleet_groups_read(struct fleet_groups *groups, const char *path, struct error *error);

#endif
