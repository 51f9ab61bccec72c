/* Linear layers by cuBLASLt: logits in float32, and one context for many shapes. */

#include "engine/base/memory.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/linear/linear.h"
#include "kernels/op_table.h"
#include "tests/harness/cuda_op.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>

TestSuite(cuda_cublaslt, .init = skip_without_device);

/* Logits stay in float32: the twin's sums without rounding. */
static void check_logits(
	const struct op_case *c, enum case_values values, struct cublaslt *cublaslt)
{
	size_t count = (size_t)c->rows * c->outputs;
	struct operands operands =
		open_case(op_find("matmul"), c, KERNEL_PATH_GENERAL, values, cublaslt);
	float *sums = memory_take(count, sizeof(float));
	float *logits = memory_take(count, sizeof(float));
	float *device = device_take(count * sizeof(float));

	must(cublaslt_linear_logits(cublaslt, device, operand_at(&operands, OPERAND_IN, 0),
		     operand_at(&operands, OPERAND_WEIGHT, 0), c->rows, c->width, c->outputs, NULL),
		"cublaslt_linear_logits");
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(logits, device, count * sizeof(float), cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	linear_cpu(sums, operand_host(&operands, OPERAND_IN),
		(struct matrix){.f32 = operand_host(&operands, OPERAND_WEIGHT)}, NULL, c->rows,
		c->width, c->outputs, ROUNDING_NONE);
	expect_rows(logits, sums, count, count, values == CASE_INTEGERS ? 0 : 3e-5,
		"cublaslt_linear_logits");
	free(sums);
	free(logits);
	cudaFree(device);
	operands_close(&operands);
}

static void check_logits_of_case(
	const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	(void)op;
	check_logits(c, CASE_INTEGERS, cublaslt);
	check_logits(c, CASE_UNIFORM, cublaslt);
}

Test(cuda_cublaslt, logits_are_the_sums_of_the_twin)
{
	struct cublaslt *cublaslt;

	must(cublaslt_open(&cublaslt), "cublaslt_open");
	for_cases(op_find("matmul"), cublaslt, check_logits_of_case);
	cublaslt_close(cublaslt);
}

/* A context remembers the algorithm of each shape. */
Test(cuda_cublaslt, shapes_may_alternate_in_one_context)
{
	const struct op *op = op_find("matmul");
	struct cublaslt *cublaslt;

	must(cublaslt_open(&cublaslt), "cublaslt_open");
	for (uint32_t i = 0; i < 60; i++) {
		struct op_case c = {
			.rows = 1 + i % 20, .width = 8 * (1 + i % 3), .outputs = 8 * (1 + i % 4)};
		check_case(op, &c, KERNEL_PATH_GENERAL, CASE_INTEGERS, cublaslt);
		c.has_bias = true;
		check_case(op, &c, KERNEL_PATH_GENERAL, CASE_INTEGERS, cublaslt);
		check_logits(&c, CASE_INTEGERS, cublaslt);
	}
	cublaslt_close(cublaslt);
}
