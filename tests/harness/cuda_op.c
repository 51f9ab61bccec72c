#include "tests/harness/cuda_op.h"

#include "kernels/device/cuda_operand_memory.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/op_table.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

/* What a twin computes in about a second. */
static const uint64_t FLOPS_MAX = UINT64_C(1) << 31, BYTES_MAX = UINT64_C(320) << 20;

static bool is_fitting(const struct op *op, const struct op_case *c)
{
	const uint64_t part = takes_few() ? 8 : 1;
	struct work work = op->work(c);

	return work.flops <= FLOPS_MAX / part && work.bytes <= BYTES_MAX / part && op->fits(c);
}

struct operands open_case(const struct op *op, const struct op_case *c, enum kernel_path path,
	enum case_values values, struct cublaslt *cublaslt)
{
	int processors = 0;

	must(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0),
		"cudaDeviceGetAttribute");
	struct operands operands = {.op_case = c,
		.memory = &cuda_operand_memory,
		.path = path,
		.cublaslt = cublaslt,
		.processors = (uint32_t)processors,
		.set_count = 1,
		.is_checked = true,
		.values = values};
	op->open(&operands);
	must(operands.code, op->name);
	return operands;
}

struct tensor tensor_of(const struct operands *operands, uint32_t index)
{
	cr_assert(operands->operand[index].type == OPERAND_BF16);
	return (struct tensor){operands->operand[index].count, operand_host(operands, index),
		operand_at(operands, index, 0)};
}

static void expect_ids(
	const int32_t *found, const int32_t *expected, size_t count, const char *what)
{
	for (size_t i = 0; i < count; i++) {
		cr_expect(found[i] == expected[i], "%s: row %zu: %d, expected %d", what, i,
			found[i], expected[i]);
	}
}

void expect_outputs(struct operands *operands, const char *what)
{
	for (uint32_t i = 0; i < OPERANDS_MAX; i++) {
		const struct operand *operand = &operands->operand[i];
		if (!operand->is_output) {
			continue;
		}
		void *found = operands_fetch(operands, i);
		must(operands->code, what);
		if (operand->type == OPERAND_BYTES) {
			expect_ids(found, operand->host, operand->count / sizeof(int32_t), what);
		} else {
			expect_rows(found, operand->host, operand->count, operand->row_width,
				operand->tolerance, what);
		}
		free(found);
	}
}

void check_case(const struct op *op, const struct op_case *c, enum kernel_path path,
	enum case_values values, struct cublaslt *cublaslt)
{
	struct operands operands = open_case(op, c, path, values, cublaslt);
	char text[OP_TEXT_BYTES], what[2 * OP_TEXT_BYTES];

	op->describe(c, text);
	snprintf(what, sizeof(what), "%s %s, bias %d, integers %d, path %d", op->name, text,
		c->has_bias, values == CASE_INTEGERS, (int)path);
	must(op->launch(&operands, 0, NULL), what);
	op->twin(&operands);
	expect_outputs(&operands, what);
	operands_close(&operands);
}

void for_cases(const struct op *op, struct cublaslt *cublaslt,
	void (*test)(const struct op *op, const struct op_case *c, struct cublaslt *cublaslt))
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < op->case_count; i++) {
		if (is_fitting(op, &op->cases[i])) {
			test(op, &op->cases[i], cublaslt);
			count++;
		}
	}
	cr_expect(count >= 3 || kernel_path_of_device() != KERNEL_PATH_SM90, "%s: %u cases",
		op->name, count);
}
