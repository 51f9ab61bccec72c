/* Operations on rows on the GPU, called as the forward pass does: in place, and for picked rows. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/op_table.h"
#include "kernels/rows/add_rms_norm.h"
#include "tests/harness/cuda_op.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_rows, .init = skip_without_device);

/* The forward pass passes the same tensor as out and in. */
static void check_in_place(const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	size_t size = (size_t)c->rows * c->width;
	struct tensor in = tensor_random(size, 1), weight = tensor_random(c->width, 50);
	struct tensor residual = tensor_random(size, 100);

	(void)op;
	(void)cublaslt;
	add_rms_norm_cpu(in.host, residual.host, in.host, weight.host, c->rows, c->width, 1e-6f,
		ROUNDING_BF16);
	must(add_rms_norm(in.device, residual.device, in.device, weight.device, NULL, c->rows,
		     c->width, 1e-6f, NULL),
		"add_rms_norm in place");
	expect_close(&in, c->width, OPERAND_BF16_TOLERANCE, "add_rms_norm in place");
	expect_close(&residual, c->width, 0, "the residual stream of add_rms_norm in place");
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&residual);
}

/* Picked rows get the bits that they get among all rows. The residual stream is not written. */
static void check_picked_rows(
	const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	size_t size = (size_t)c->rows * c->width, bytes = c->width * sizeof(float);
	uint32_t count = c->rows / 2 + 1;
	struct tensor in = tensor_random(size, 1), weight = tensor_random(c->width, 50);
	struct tensor residual = tensor_random(size, 100), sum = tensor_random(size, 100);
	struct tensor all = tensor_poisoned(size), picked = tensor_poisoned(count * c->width);
	uint32_t *index = memory_take(count, sizeof(*index));

	(void)op;
	(void)cublaslt;
	for (uint32_t i = 0; i < count; i++) {
		index[i] = (uint32_t)(counter_hash(8, i) % c->rows);
	}
	uint32_t *device = device_copy(index, count * sizeof(*index));
	must(add_rms_norm(all.device, sum.device, in.device, weight.device, NULL, c->rows, c->width,
		     1e-6f, NULL),
		"add_rms_norm");
	must(add_rms_norm(picked.device, residual.device, in.device, weight.device, device, count,
		     c->width, 1e-6f, NULL),
		"add_rms_norm of picked rows");
	float *from = tensor_fetch(&all), *found = tensor_fetch(&picked);
	for (uint32_t i = 0; i < count; i++) {
		cr_expect(memcmp(found + (size_t)i * c->width, from + (size_t)index[i] * c->width,
				  bytes) == 0,
			"width %u: picked row %u is not row %u", c->width, i, index[i]);
	}
	expect_close(&residual, c->width, 0, "the residual stream behind picked rows");
	free(index);
	free(from);
	free(found);
	cudaFree(device);
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&residual);
	tensor_free(&sum);
	tensor_free(&all);
	tensor_free(&picked);
}

Test(cuda_rows, add_rms_norm_in_place_and_of_picked_rows)
{
	for_cases(op_find("add_rms_norm"), NULL, check_in_place);
	for_cases(op_find("add_rms_norm"), NULL, check_picked_rows);
}
