#ifndef TESTS_HARNESS_CUDA_OP_H
#define TESTS_HARNESS_CUDA_OP_H

#include "kernels/op/op.h"
#include "tests/harness/cuda_device.h"
#include "tests/harness/cuda_tensor.h"

/* Cases of an operation (kernels/op/op.h) run on the GPU and by the CPU twin. */

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof(array[0])))

/* Opens a case to be checked. cublaslt: NULL where the operation needs none. */
struct operands open_case(const struct op *op, const struct op_case *c, enum kernel_path path,
	enum case_values values, struct cublaslt *cublaslt);

/* A view of an operand in bf16. It is not to be freed. */
struct tensor tensor_of(const struct operands *operands, uint32_t index);

/* Compares the outputs on the device with those that the twin has computed. */
void expect_outputs(struct operands *operands, const char *what);

/* Opens a case, launches it, runs the twin and compares. */
void check_case(const struct op *op, const struct op_case *c, enum kernel_path path,
	enum case_values values, struct cublaslt *cublaslt);

/* Calls a test with every case that fits the device and that the twin computes in about a second.
   On sm_90 there must be at least three; older GPUs have no kernels for some operations. */
void for_cases(const struct op *op, struct cublaslt *cublaslt,
	void (*test)(const struct op *op, const struct op_case *c, struct cublaslt *cublaslt));

#endif
