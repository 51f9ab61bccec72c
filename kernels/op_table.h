#ifndef KERNELS_OP_TABLE_H
#define KERNELS_OP_TABLE_H

#include "kernels/op/op.h"

/* Every operation, in the order of the forward pass, then those that replace several of them. NULL
   past the end. */
const struct op *op_at(uint32_t index);

/* By name; NULL: there is none. */
const struct op *op_find(const char *name);

#endif
