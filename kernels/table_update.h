#ifndef KERNELS_TABLE_UPDATE_H
#define KERNELS_TABLE_UPDATE_H

#include "kernels/launch.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enters additions into the block tables: tables[row][index] = block. */

struct table_addition {
	uint32_t row;
	uint32_t index;
	uint32_t block;
};

/* On the GPU. tables: (any, table_width); additions: (count), no entry twice. */
int table_update(uint32_t *tables, uint32_t table_width, const struct table_addition *additions,
	uint32_t count, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
