#ifndef KERNELS_OP_TABLE_H
#define KERNELS_OP_TABLE_H

#include "kernels/op/op.h"

/* All operations, in the order of the forward pass; then those that replace several of them, and
   those between ranks.
   NULL past the end. */
const struct op *op_at(uint32_t index);

/* The operation with this name, or NULL. */
const struct op *op_find(const char *name);

#endif
