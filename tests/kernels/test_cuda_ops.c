/* Every operation of kernels/op_table.h on the GPU against its CPU twin. Inputs are values that
   bf16 holds, outputs are poisoned before each run. Skipped without a device. */

#include "kernels/linear/cublaslt.h"
#include "kernels/op_table.h"
#include "tests/harness/cuda_op.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(cuda_ops, .init = skip_without_device);

/* A case on every kernel path, with and without bias, with random values and with integers. */
static void check_variants(const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	uint32_t paths = op->properties & OP_HAS_PATHS ? 1 + kernel_path_of_device() : 1;
	uint32_t biases = op->properties & OP_HAS_BIAS ? 2 : 1;
	uint32_t values = op->properties & OP_IS_EXACT ? 2 : 1;

	for (uint32_t i = 0; i < paths * biases * values; i++) {
		struct op_case variant = *c;
		variant.has_bias = i / paths % biases == 1;
		check_case(op, &variant, (enum kernel_path)(i % paths),
			i / paths / biases == 0 ? CASE_UNIFORM : CASE_INTEGERS, cublaslt);
	}
}

/* The operations are divided over cases, so that a case is short under a sanitizer too. */
enum part { PRODUCTS, ATTENTION, OTHERS };

static enum part part_of(const struct op *op)
{
	if (strstr(op->name, "matmul") != NULL) {
		return PRODUCTS;
	}
	return strstr(op->name, "attention") != NULL ? ATTENTION : OTHERS;
}

static void check_ops(enum part part)
{
	struct cublaslt *cublaslt;

	must(cublaslt_open(&cublaslt), "cublaslt_open");
	for (uint32_t i = 0; op_at(i) != NULL; i++) {
		if (part_of(op_at(i)) == part) {
			for_cases(op_at(i), cublaslt, check_variants);
		}
	}
	cublaslt_close(cublaslt);
}

Test(cuda_ops, every_product_gives_what_its_twin_gives)
{
	check_ops(PRODUCTS);
}

Test(cuda_ops, every_attention_gives_what_its_twin_gives)
{
	check_ops(ATTENTION);
}

Test(cuda_ops, every_other_operation_gives_what_its_twin_gives)
{
	check_ops(OTHERS);
}
