#ifndef BENCH_RECORD_KERNEL_WORK_H
#define BENCH_RECORD_KERNEL_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"
#include "engine/shape/model_config.h"

/* What an operation has to move and to multiply at least: weights and what it reads and writes once
   each, keys and values once for each decode row, 2 FLOPs for a multiplication and its addition.
   Caches can make it less than what is moved, and a kernel may move more. */

struct kernel_work {
	bool has_bytes, has_flops;
	uint64_t bytes;
	uint64_t flops;
};

/* Of one execution of the operation, by the name of its range; rows: that it computed, 0: unknown.
   What is not known is left out. */
struct kernel_work kernel_work_of(const struct model_config *model, const char *operation,
	uint32_t rows, const struct step_counts *step);

#endif
