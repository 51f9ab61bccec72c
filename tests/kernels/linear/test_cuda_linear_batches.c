/* Batch invariance of linear layers, bit by bit, and the norm that adds the slices of split-K. */

#include "engine/base/memory.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/linear/linear.h"
#include "engine/shape/kernel_tiles.h"
#include "kernels/rows/add_rms_norm.h"
#include "tests/harness/cuda_op.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_linear_batches, .init = skip_without_device);

enum { ROWS_MOST = 512 };

/* One of the linear operations; the same test takes them all. */
struct row_operation {
	const char *name;
	struct cublaslt *context; /* of cublaslt_linear() */
	bool is_silu, is_logits;
	uint32_t width, outputs; /* of the weight */
	size_t row_bytes;	 /* of a row out */
};

static void run_rows(const struct row_operation *operation, void *out, const uint16_t *in,
	const uint16_t *weight, uint32_t rows)
{
	uint32_t width = operation->width, outputs = operation->outputs;
	int code;

	if (operation->is_logits) {
		code = cublaslt_linear_logits(
			operation->context, out, in, weight, rows, width, outputs, NULL);
	} else if (operation->context != NULL) {
		code = cublaslt_linear(
			operation->context, out, in, weight, NULL, rows, width, outputs, NULL);
	} else if (operation->is_silu) {
		code = linear_silu(out, in, weight, rows, width, outputs / 2, NULL);
	} else {
		code = linear(out, in, weight, NULL, rows, width, outputs, NULL);
	}
	must(code, operation->name);
}

/* The first and the last rows of a batch of ROWS_MOST get the same bits in a smaller batch. */
static void expect_batch_invariance(const struct row_operation *operation)
{
	static const uint32_t counts[] = {
		1, 2, 7, 8, 9, 16, 33, 64, 65, 100, 128, 129, 192, 255, 256, 511};
	struct tensor in = tensor_random((size_t)ROWS_MOST * operation->width, 1);
	struct tensor weight = tensor_random((size_t)operation->outputs * operation->width, 9);
	size_t bytes = ROWS_MOST * operation->row_bytes;
	unsigned char *all = memory_take(bytes, 1), *some = memory_take(bytes, 1);
	void *out = device_take(bytes);

	run_rows(operation, out, in.device, weight.device, ROWS_MOST);
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(all, out, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (uint32_t i = 0; i < 2 * COUNT(counts); i += takes_few() ? 7 : 1) {
		uint32_t rows = counts[i / 2], first = i % 2 == 0 ? 0 : ROWS_MOST - rows;
		must(cudaMemset(out, 0xff, bytes), "cudaMemset");
		run_rows(operation, out, in.device + (size_t)first * operation->width,
			weight.device, rows);
		must(cudaDeviceSynchronize(), "kernel");
		must(cudaMemcpy(some, out, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
		cr_expect(memcmp(some, all + first * operation->row_bytes,
				  rows * operation->row_bytes) == 0,
			"%s, %u to %u: rows %u to %u of %u have other bits in a batch of their own",
			operation->name, operation->width, operation->outputs, first, first + rows,
			ROWS_MOST);
	}
	free(all);
	free(some);
	cudaFree(out);
	tensor_free(&in);
	tensor_free(&weight);
}

/* Widths of qwen3-0.6b, and four for LINEAR_STREAM, of which two have split-K. */
static const uint32_t layer_shapes[][2] = {{1024, 4096}, {2048, 1024}, {1024, 6144}, {3072, 1024},
	{4096, 6144}, {9728, 2560}, {2048, 2048}, {4096, 2048}};

Test(cuda_linear_batches, linear_is_batch_invariant)
{
	if (!linear_fits(128, 64)) {
		cr_skip_test("this device leaves all linear layers to cuBLASLt");
	}
	for (uint32_t i = 0; i < COUNT(layer_shapes); i++) {
		struct row_operation operation = {.name = "linear",
			.width = layer_shapes[i][0],
			.outputs = layer_shapes[i][1],
			.row_bytes = layer_shapes[i][1] * sizeof(uint16_t)};
		cr_expect(linear_fits(operation.width, operation.outputs));
		expect_batch_invariance(&operation);
		operation.name = "linear_silu";
		operation.is_silu = true;
		operation.row_bytes /= 2;
		expect_batch_invariance(&operation);
	}
}

Test(cuda_linear_batches, cublaslt_is_batch_invariant)
{
	struct cublaslt *context;

	must(cublaslt_open(&context), "cublaslt_open");
	for (uint32_t i = 0; i < COUNT(layer_shapes); i++) {
		struct row_operation operation = {.name = "cublaslt_linear",
			.context = context,
			.width = layer_shapes[i][0],
			.outputs = layer_shapes[i][1],
			.row_bytes = layer_shapes[i][1] * sizeof(uint16_t)};
		expect_batch_invariance(&operation);
		operation.name = "cublaslt_linear_logits";
		operation.is_logits = true;
		operation.row_bytes *= 2;
		expect_batch_invariance(&operation);
	}
	cublaslt_close(context);
}

/* Weights large enough to be timed: shares of qwen3-4b, 14b and 32b. */
static const uint32_t timed_shapes[][2] = {{5120, 5120}, {9728, 2560}, {2560, 6144}};

/* Rows by the algorithms that were the fastest when they were prepared have the bits of the
   library's first choice, whatever their number. */
static void expect_first_bits(struct row_operation *operation, struct cublaslt *prepared)
{
	enum { ROWS = 1100 };
	static const uint32_t counts[] = {
		16, 100, 176, 192, 208, 300, 320, 400, 416, 448, 511, 640, 832, 1024, ROWS};
	struct tensor in = tensor_random((size_t)ROWS * operation->width, 1);
	struct tensor weight = tensor_random((size_t)operation->outputs * operation->width, 9);
	const uint16_t *const layers[] = {weight.device, weight.device};
	const struct cublaslt_weights weights = {.layers = layers, .count = COUNT(layers)};
	size_t bytes = ROWS * operation->row_bytes;
	unsigned char *first = memory_take(bytes, 1), *fastest = memory_take(bytes, 1);
	struct cublaslt *context = operation->context;
	void *out = device_take(bytes);

	must(operation->is_logits ? cublaslt_prepare_logits(prepared, out, in.device, &weights,
					    ROWS, operation->width, operation->outputs, NULL)
				  : cublaslt_prepare(prepared, out, in.device, &weights, NULL, ROWS,
					    operation->width, operation->outputs, NULL),
		"cublaslt_prepare");
	for (uint32_t i = 0; i < COUNT(counts); i += takes_few() ? 6 : 1) {
		size_t used = counts[i] * operation->row_bytes;
		operation->context = context;
		must(cudaMemset(out, 0xff, bytes), "cudaMemset");
		run_rows(operation, out, in.device, weight.device, counts[i]);
		must(cudaMemcpy(first, out, used, cudaMemcpyDeviceToHost), "cudaMemcpy");
		operation->context = prepared;
		must(cudaMemset(out, 0xff, bytes), "cudaMemset");
		run_rows(operation, out, in.device, weight.device, counts[i]);
		must(cudaMemcpy(fastest, out, used, cudaMemcpyDeviceToHost), "cudaMemcpy");
		cr_expect(memcmp(first, fastest, used) == 0,
			"%s, %u to %u: %u rows have other bits once it is prepared",
			operation->name, operation->width, operation->outputs, counts[i]);
	}
	operation->context = context;
	free(first);
	free(fastest);
	cudaFree(out);
	tensor_free(&in);
	tensor_free(&weight);
}

Test(cuda_linear_batches, timed_algorithms_have_the_bits_of_the_first)
{
	for (uint32_t i = 0; i < COUNT(timed_shapes); i++) {
		struct cublaslt *context, *prepared;
		must(cublaslt_open(&context), "cublaslt_open");
		must(cublaslt_open(&prepared), "cublaslt_open");
		struct row_operation operation = {.name = "cublaslt_linear",
			.context = context,
			.width = timed_shapes[i][0],
			.outputs = timed_shapes[i][1],
			.row_bytes = timed_shapes[i][1] * sizeof(uint16_t)};
		expect_first_bits(&operation, prepared);
		operation.name = "cublaslt_linear_logits";
		operation.is_logits = true;
		operation.row_bytes *= 2;
		expect_first_bits(&operation, prepared);
		cublaslt_close(context);
		cublaslt_close(prepared);
	}
}

/* ---- split-K: sums of slices that the norm adds ---- */

enum { SPLIT_K_WIDTH = 2048, SPLIT_K_OUTPUTS = 1024 };

/* The sums of the slices, added in ascending order: what the norm adds to the residual stream, and
   what linear() gives. */
static struct tensor add_slices(const float *slices, uint32_t rows)
{
	size_t count = (size_t)rows * SPLIT_K_OUTPUTS;
	struct tensor sum = {.count = count, .host = memory_take(count, sizeof(float))};
	float *host = memory_take(SPLIT_K * count, sizeof(*host));

	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(host, slices, SPLIT_K * count * sizeof(*host), cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	for (size_t i = 0; i < count; i++) {
		float all = host[i] + host[count + i];
		all += host[2 * count + i];
		all += host[3 * count + i];
		sum.host[i] = rounded(all, ROUNDING_BF16);
	}
	tensor_send(&sum);
	free(host);
	return sum;
}

/* The norm that adds the slices has the bits of the norm of their sum, of `count` rows, which index
   may pick from `rows`. Each works on a residual stream of its own. */
static void check_norm_of_slices(const float *slices, const struct tensor *sum, uint32_t rows,
	const uint32_t *index, uint32_t count)
{
	struct tensor weight = tensor_random(SPLIT_K_OUTPUTS, 3);
	struct tensor of_slices = tensor_poisoned(sum->count), of_sum = tensor_poisoned(sum->count);
	struct tensor a = tensor_random(sum->count, 4), b = tensor_random(sum->count, 4);

	must(add_rms_norm_split_k(of_slices.device, a.device, slices, weight.device, index, rows,
		     count, SPLIT_K_OUTPUTS, 1e-6f, NULL),
		"add_rms_norm_split_k");
	must(add_rms_norm(of_sum.device, b.device, sum->device, weight.device, index, count,
		     SPLIT_K_OUTPUTS, 1e-6f, NULL),
		"add_rms_norm");
	expect_equal_tensors(&of_slices, &of_sum, "norms");
	expect_equal_tensors(&a, &b, "residual streams");
	tensor_free(&weight);
	tensor_free(&of_slices);
	tensor_free(&of_sum);
	tensor_free(&a);
	tensor_free(&b);
}

static void check_split_k(struct cublaslt *context, uint32_t rows)
{
	size_t count = (size_t)rows * SPLIT_K_OUTPUTS;
	struct tensor in = tensor_random((size_t)rows * SPLIT_K_WIDTH, 1);
	struct tensor weight = tensor_random((size_t)SPLIT_K_OUTPUTS * SPLIT_K_WIDTH, 2);
	struct tensor out = tensor_poisoned(count);
	float *slices = device_take(SPLIT_K * count * sizeof(*slices));
	uint32_t index[ROWS_MOST];

	must(cublaslt_linear_split_k(context, slices, in.device, weight.device, rows, SPLIT_K_WIDTH,
		     SPLIT_K_OUTPUTS, SPLIT_K, NULL),
		"cublaslt_linear_split_k");
	struct tensor sum = add_slices(slices, rows);
	if (linear_fits(SPLIT_K_WIDTH, SPLIT_K_OUTPUTS)) {
		must(linear(out.device, in.device, weight.device, NULL, rows, SPLIT_K_WIDTH,
			     SPLIT_K_OUTPUTS, NULL),
			"linear");
		expect_equal_tensors(&sum, &out, "sums of slices and linear");
	}
	for (uint32_t i = 0; i < rows; i++) {
		index[i] = rows - 1 - i;
	}
	uint32_t *device_index = device_copy(index, rows * sizeof(*index));
	check_norm_of_slices(slices, &sum, rows, NULL, rows);
	check_norm_of_slices(slices, &sum, rows, device_index, rows - rows / 2);
	cudaFree(device_index);
	cudaFree(slices);
	tensor_free(&sum);
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&out);
}

Test(cuda_linear_batches, norms_add_the_slices_of_split_k)
{
	static const uint32_t rows[] = {1, 17, 64, 65, 200, 257, ROWS_MOST};
	struct cublaslt *context;

	cr_assert(linear_split_k(SPLIT_K_WIDTH, SPLIT_K_OUTPUTS) == SPLIT_K);
	must(cublaslt_open(&context), "cublaslt_open");
	for (uint32_t i = 0; i < COUNT(rows); i++) {
		check_split_k(context, rows[i]);
	}
	cublaslt_close(context);
}
