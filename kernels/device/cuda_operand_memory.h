#ifndef KERNELS_DEVICE_CUDA_OPERAND_MEMORY_H
#define KERNELS_DEVICE_CUDA_OPERAND_MEMORY_H

#include "kernels/op/operands.h"

/* Memory of the current GPU for the operands of tests and benchmarks. */
extern const struct operand_memory cuda_operand_memory;

#endif
