#ifndef KERNELS_DEVICE_CUDA_OPERAND_MEMORY_H
#define KERNELS_DEVICE_CUDA_OPERAND_MEMORY_H

#include "kernels/op/operands.h"

/* Operands on the current GPU. */
extern const struct operand_memory cuda_operand_memory;

#endif
