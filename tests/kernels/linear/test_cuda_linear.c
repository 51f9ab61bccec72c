/* The kernels of linear layers bit by bit: the order of sums, fused activations and norms, and
   launches in a graph. */

#include "engine/base/memory.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/linear/linear.h"
#include "kernels/op_table.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/rows/silu_mul.h"
#include "tests/harness/cuda_op.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void skip_without_kernels(void)
{
	skip_without_device();
	if (!linear_fits(128, 64)) {
		cr_skip_test("this device leaves all linear layers to cuBLASLt");
	}
}

TestSuite(cuda_linear, .init = skip_without_kernels);

/* ---- the order of sums ---- */

/* Copies inputs [first, first + slice_width) of every row: (rows, slice_width). */
static uint16_t *copy_slice(
	const struct tensor *tensor, uint32_t width, uint32_t first, uint32_t slice_width)
{
	size_t rows = tensor->count / width, bytes = slice_width * sizeof(uint16_t);
	uint16_t *slice = device_take(rows * bytes);

	must(cudaMemcpy2D(slice, bytes, tensor->device + first, width * sizeof(uint16_t), bytes,
		     rows, cudaMemcpyDeviceToDevice),
		"cudaMemcpy2D");
	return slice;
}

/* Sums in the order that kernels/linear/linear.h promises, by cuBLASLt: each slice of split-K by
   itself, then added in ascending order. */
static void sum_slices(float *sums, const struct tensor *in, const struct tensor *weight,
	uint32_t rows, uint32_t width, uint32_t outputs)
{
	uint32_t split_k = linear_split_k(width, outputs), slice_width = width / split_k;
	size_t count = (size_t)rows * outputs;
	float *logits = device_take(count * sizeof(*logits));
	float *more = memory_take(count, sizeof(*more));
	struct cublaslt *context;

	must(cublaslt_open(&context), "cublaslt_open");
	for (uint32_t i = 0; i < split_k; i++) {
		uint16_t *in_slice = copy_slice(in, width, i * slice_width, slice_width);
		uint16_t *weight_slice = copy_slice(weight, width, i * slice_width, slice_width);
		must(cublaslt_linear_logits(context, logits, in_slice, weight_slice, rows,
			     slice_width, outputs, NULL),
			"cublaslt_linear_logits");
		must(cudaDeviceSynchronize(), "kernel");
		must(cudaMemcpy(more, logits, count * sizeof(*more), cudaMemcpyDeviceToHost),
			"cudaMemcpy");
		for (size_t k = 0; k < count; k++) {
			sums[k] = i == 0 ? more[k] : sums[k] + more[k];
		}
		cudaFree(in_slice);
		cudaFree(weight_slice);
	}
	cublaslt_close(context);
	cudaFree(logits);
	free(more);
}

static void check_order_of_sums(
	const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	struct operands operands = open_case(op, c, KERNEL_PATH_GENERAL, CASE_UNIFORM, cublaslt);
	const struct tensor in = tensor_of(&operands, OPERAND_IN);
	const struct tensor weight = tensor_of(&operands, OPERAND_WEIGHT);
	struct tensor out = tensor_of(&operands, OPERAND_OUT), bias = tensor_random(c->outputs, 77);
	char what[100];

	sum_slices(out.host, &in, &weight, c->rows, c->width, c->outputs);
	for (size_t i = 0; i < out.count; i++) {
		out.host[i] = rounded(out.host[i] + bias.host[i % c->outputs], ROUNDING_BF16);
	}
	must(linear(out.device, in.device, weight.device, bias.device, c->rows, c->width,
		     c->outputs, NULL),
		"linear");
	snprintf(what, sizeof(what), "the order of sums of %u rows, %u to %u", c->rows, c->width,
		c->outputs);
	expect_close(&out, c->outputs, 0, what);
	tensor_free(&bias);
	operands_close(&operands);
}

Test(cuda_linear, sums_are_added_in_the_promised_order)
{
	for_cases(op_find("decode_matmul"), NULL, check_order_of_sums);
}

/* linear_silu() has the bits of linear() and silu_mul(). Where linear() has no kernel for all
   numbers of rows, cuBLASLt has its bits. */
static void check_fused_silu(
	const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	uint32_t width = c->outputs / 2;
	size_t count = (size_t)c->rows * width;
	struct operands operands = open_case(op, c, KERNEL_PATH_GENERAL, CASE_UNIFORM, cublaslt);
	struct tensor gate_up = tensor_poisoned(2 * count), expected = tensor_poisoned(count);
	const struct tensor out = tensor_of(&operands, OPERAND_OUT);
	const uint16_t *in = operand_at(&operands, OPERAND_IN, 0);
	const uint16_t *weight = operand_at(&operands, OPERAND_WEIGHT, 0);

	must(op->launch(&operands, 0, NULL), op->name);
	if (linear_fits(c->width, c->outputs)) {
		must(linear(gate_up.device, in, weight, NULL, c->rows, c->width, c->outputs, NULL),
			"linear");
	} else {
		must(cublaslt_linear(cublaslt, gate_up.device, in, weight, NULL, c->rows, c->width,
			     c->outputs, NULL),
			"cublaslt_linear");
	}
	must(silu_mul(expected.device, gate_up.device, c->rows, width, NULL), "silu_mul");
	expect_same_bits(&out, tensor_fetch(&expected), "linear_silu against two operations");
	tensor_free(&gate_up);
	tensor_free(&expected);
	operands_close(&operands);
}

Test(cuda_linear, fused_silu_has_the_bits_of_two_operations)
{
	struct cublaslt *library;

	must(cublaslt_open(&library), "cublaslt_open");
	for_cases(op_find("decode_matmul_silu"), library, check_fused_silu);
	cublaslt_close(library);
}

static struct linear_plan plan_with_norm(
	uint32_t rows, uint32_t width, uint32_t outputs, bool has_silu)
{
	const struct linear_device device = linear_device(kernel_path_of_device());
	const struct linear_shape shape = {width, outputs, 1, has_silu, false};

	return linear_plan(&shape, rows, true, &device);
}

/* A linear layer with a fused norm has the bits of add_rms_norm() and linear(). */
static void check_fused_norm(uint32_t rows, uint32_t width, uint32_t outputs)
{
	size_t inputs = (size_t)rows * width, count = (size_t)rows * outputs;
	struct tensor residual = tensor_random(inputs, 1), kept = tensor_random(inputs, 1);
	struct tensor in = tensor_random(inputs, 2), norm = tensor_random(width, 3);
	struct tensor weight = tensor_random((size_t)outputs * width, 9);
	struct tensor hidden = tensor_poisoned(inputs), sum = tensor_poisoned(inputs);
	struct tensor separate = tensor_poisoned(count), out = tensor_poisoned(count);
	struct tensor gated_separate = tensor_poisoned(count / 2),
		      gated = tensor_poisoned(count / 2);
	const struct linear_norm with = {residual.device, sum.device, norm.device, 1e-6f};
	struct tensor *all[] = {&residual, &kept, &in, &norm, &weight, &hidden, &sum, &separate,
		&out, &gated_separate, &gated};
	char what[100];

	snprintf(what, sizeof(what), "%u rows, %u to %u", rows, width, outputs);
	const struct linear_plan plan = plan_with_norm(rows, width, outputs, false);
	const struct linear_plan silu_plan = plan_with_norm(rows, width, outputs, true);
	const struct linear_operands operands = {
		.out = out.device, .in = in.device, .weight = weight.device, .norm = &with};
	struct linear_operands silu_operands = operands;

	silu_operands.out = gated.device;
	cr_assert(plan.fuses_norm && silu_plan.fuses_norm, "%s", what);
	must(add_rms_norm(hidden.device, kept.device, in.device, norm.device, NULL, rows, width,
		     1e-6f, NULL),
		"add_rms_norm");
	must(linear(separate.device, hidden.device, weight.device, NULL, rows, width, outputs,
		     NULL),
		"linear");
	must(linear_silu(gated_separate.device, hidden.device, weight.device, rows, width,
		     outputs / 2, NULL),
		"linear_silu");
	must(linear_run(&plan, &operands, NULL, NULL), "linear_run");
	must(cudaDeviceSynchronize(), "kernel");
	expect_same_bits(&sum, tensor_fetch(&kept), what);
	expect_same_bits(&out, tensor_fetch(&separate), what);
	tensor_poison(&sum);
	must(linear_run(&silu_plan, &silu_operands, NULL, NULL), "linear_run");
	must(cudaDeviceSynchronize(), "kernel");
	expect_same_bits(&sum, tensor_fetch(&kept), what);
	expect_same_bits(&gated, tensor_fetch(&gated_separate), what);
	for (uint32_t i = 0; i < COUNT(all); i++) {
		tensor_free(all[i]);
	}
}

Test(cuda_linear, fused_norms_have_the_bits_of_two_operations)
{
	for (uint32_t rows = 1; rows <= 4; rows++) {
		check_fused_norm(rows, 1024, rows % 2 == 0 ? 4096 : 6144);
	}
	check_fused_norm(3, 512, 64);
	/* streamed: one and two vectors a thread, several tiles a block, the most inputs */
	check_fused_norm(1, 2048, 4096);
	check_fused_norm(1, 2560, 19456);
	check_fused_norm(1, 4096, 6144);
	check_fused_norm(1, 8192, 10240);
	cr_expect(!plan_with_norm(2, 2048, 4096, false).fuses_norm);
	cr_expect(!plan_with_norm(1, 8192 + 256, 10240, false).fuses_norm);
	cr_expect(!plan_with_norm(5, 1024, 4096, false).fuses_norm);
	cr_expect(!plan_with_norm(1, 1280 + 128, 4096, false).fuses_norm);
	cr_expect(!plan_with_norm(1, 2048, 1024, false).fuses_norm);
}

/* ---- the wide kernel ---- */

/* The output has two rows more than the batch, which must stay poisoned. */
static void expect_sums(const struct linear_plan *plan, const struct linear_operands *inputs,
	const float *sums, const struct tensor *bias)
{
	const bool has_silu = plan->shape.has_silu;
	uint32_t width = plan->shape.output_count;
	size_t count = (size_t)plan->row_count * width;
	struct linear_operands operands = *inputs;
	struct tensor products = tensor_poisoned(count);
	struct tensor out = tensor_poisoned(count + 2 * (size_t)width);
	char what[100];

	for (size_t k = 0; k < count; k++) {
		float sum = bias == NULL ? sums[k] : sums[k] + bias->host[k % width];
		products.host[k] = rounded(sum, ROUNDING_BF16);
	}
	operands.out = out.device;
	operands.bias = bias == NULL ? NULL : bias->device;
	if (has_silu) {
		cudaFree(products.device);
		tensor_send(&products);
		struct tensor gated = tensor_poisoned(count / 2);
		must(silu_mul(gated.device, products.device, plan->row_count, width / 2, NULL),
			"silu_mul");
		float *bits = tensor_fetch(&gated);
		memcpy(out.host, bits, gated.count * sizeof(*bits));
		free(bits);
		tensor_free(&gated);
	} else {
		memcpy(out.host, products.host, count * sizeof(*out.host));
	}
	must(linear_run(plan, &operands, NULL, NULL), "linear_run");
	snprintf(what, sizeof(what), "path %d of %u rows, %u to %u, bias %d, silu %d",
		(int)plan->path, plan->row_count, plan->shape.input_count, width, bias != NULL,
		has_silu);
	expect_close(&out, has_silu ? width / 2 : width, 0, what);
	tensor_free(&products);
	tensor_free(&out);
}

Test(cuda_linear, wide_kernels_add_in_the_same_order)
{
	static const uint32_t rows[] = {
		65, 129, 208, 300, 1, 64, 97, 192, 256, 264, 8, 13, 24, 31, 41, 80, 112};
	static const uint32_t shapes[][2] = {{2048, 1024}, {1024, 6144}, {3072, 1024}, {384, 192},
		{4096, 64}, {2048, 2048}, {2560, 448}, {6144, 2048}};

	const struct linear_device device = linear_device(kernel_path_of_device());

	for (uint32_t i = 0; i < COUNT(shapes) * COUNT(rows); i++) {
		if (takes_few() && i % COUNT(rows) % 8 != i / COUNT(rows) % 4) {
			continue;
		}
		uint32_t row_count = rows[i % COUNT(rows)];
		uint32_t width = shapes[i / COUNT(rows)][0], outputs = shapes[i / COUNT(rows)][1];
		struct linear_shape shape = {
			width, outputs, linear_split_k(width, outputs), false, false};
		struct linear_plan plan = linear_plan_path(LINEAR_WIDE, &shape, row_count, &device);
		if (plan.path != LINEAR_WIDE) {
			continue;
		}
		struct tensor in = tensor_random((size_t)row_count * width, i);
		struct tensor weight = tensor_random((size_t)outputs * width, 100 + i);
		struct tensor bias = tensor_random(outputs, 200 + i);
		float *sums = memory_take((size_t)row_count * outputs, sizeof(*sums));
		const struct linear_operands operands = {.in = in.device, .weight = weight.device};

		sum_slices(sums, &in, &weight, row_count, width, outputs);
		expect_sums(&plan, &operands, sums, NULL);
		expect_sums(&plan, &operands, sums, &bias);
		if (shape.split_k == 1) {
			shape.has_silu = true;
			plan = linear_plan_path(LINEAR_WIDE, &shape, row_count, &device);
			expect_sums(&plan, &operands, sums, NULL);
		}
		free(sums);
		tensor_free(&in);
		tensor_free(&weight);
		tensor_free(&bias);
	}
}

/* ---- the streaming kernel ---- */

/* Blocks of one group of rows, and of two where there are fewer multiprocessors. */
Test(cuda_linear, streams_with_split_k_add_in_the_promised_order)
{
	static const uint32_t shapes[][2] = {
		{6144, 2048}, {2048, 2048}, {3072, 1984}, {2560, 64}, {4096, 1024}};
	const uint32_t most = LINEAR_STREAM_TOKENS;

	for (uint32_t i = 0; i < COUNT(shapes) * most * 2; i++) {
		if (takes_few() && i % 7 != 0) {
			continue;
		}
		struct linear_device device = linear_device(kernel_path_of_device());
		uint32_t row_count = i % most + 1;
		uint32_t width = shapes[i / most / 2][0], outputs = shapes[i / most / 2][1];
		const struct linear_shape shape = {
			width, outputs, linear_split_k(width, outputs), false, false};
		if (i / most % 2 == 1) {
			device.multiprocessors = (outputs / LINEAR_STREAM_ROWS + 1) / 2;
		}
		const struct linear_plan plan =
			linear_plan_path(LINEAR_STREAM, &shape, row_count, &device);
		cr_assert(plan.path == LINEAR_STREAM && shape.split_k == SPLIT_K);
		struct tensor in = tensor_random((size_t)row_count * width, i);
		struct tensor weight = tensor_random((size_t)outputs * width, 100 + i);
		struct tensor bias = tensor_random(outputs, 200 + i);
		float *sums = memory_take((size_t)row_count * outputs, sizeof(*sums));
		const struct linear_operands operands = {.in = in.device, .weight = weight.device};

		sum_slices(sums, &in, &weight, row_count, width, outputs);
		expect_sums(&plan, &operands, sums, NULL);
		expect_sums(&plan, &operands, sums, &bias);
		free(sums);
		tensor_free(&in);
		tensor_free(&weight);
		tensor_free(&bias);
	}
}

struct streamed {
	struct tensor in, weight, bias, linear, silu; /* linear, silu: what is expected */
};

/* Two more rows than the batch, which must stay poisoned. */
static void expect_streamed(
	const struct linear_plan *plan, const struct streamed *all, bool has_bias)
{
	const bool has_silu = plan->shape.has_silu;
	uint32_t width = plan->shape.output_count / (has_silu ? 2 : 1);
	size_t count = (size_t)plan->row_count * width, more = 2 * (size_t)width;
	struct tensor out = tensor_poisoned(count + more), expected = tensor_poisoned(count + more);
	const struct tensor *same = has_silu ? &all->silu : &all->linear;
	const struct linear_operands operands = {.out = out.device,
		.in = all->in.device,
		.weight = all->weight.device,
		.bias = has_bias ? all->bias.device : NULL};
	char what[100];

	must(cudaMemcpy(expected.device, same->device, count * sizeof(uint16_t),
		     cudaMemcpyDeviceToDevice),
		"cudaMemcpy");
	must(linear_run(plan, &operands, NULL, NULL), "linear_run");
	must(cudaDeviceSynchronize(), "kernel");
	snprintf(what, sizeof(what), "path %d, %u rows, %u to %u, bias %d, silu %d",
		(int)plan->path, plan->row_count, plan->shape.input_count, plan->shape.output_count,
		has_bias, has_silu);
	expect_equal_tensors(&out, &expected, what);
	tensor_free(&out);
	tensor_free(&expected);
}

/* Logits have the library's bits, and the two rows behind them stay poisoned. */
static void check_streamed_logits(uint32_t width, uint32_t outputs, struct cublaslt *library)
{
	const struct linear_device device = linear_device(kernel_path_of_device());
	const uint32_t most = LINEAR_STREAM_TOKENS;
	const struct linear_shape shape = {width, outputs, 1, false, true};
	const size_t row = outputs * sizeof(float), bytes = (most + 2) * row;
	struct tensor in = tensor_random((size_t)most * width, width);
	struct tensor weight = tensor_random((size_t)outputs * width, outputs);
	char *all = memory_take(bytes, 1), *some = memory_take(bytes, 1);
	char *poison = memory_take(2, row);
	float *logits = device_take(bytes);

	memset(poison, 0xff, 2 * row);
	must(cublaslt_linear_logits(
		     library, logits, in.device, weight.device, most, width, outputs, NULL),
		"cublaslt_linear_logits");
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(all, logits, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (uint32_t rows = 1; rows <= most; rows++) {
		const struct linear_plan plan = linear_plan(&shape, rows, false, &device);
		const struct linear_operands operands = {
			.out = logits, .in = in.device, .weight = weight.device};
		cr_assert(plan.path == LINEAR_STREAM);
		must(cudaMemset(logits, 0xff, bytes), "cudaMemset");
		must(linear_run(&plan, &operands, NULL, NULL), "linear_run");
		must(cudaDeviceSynchronize(), "kernel");
		must(cudaMemcpy(some, logits, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
		cr_expect(memcmp(some, all, rows * row) == 0 &&
				  memcmp(some + rows * row, poison, 2 * row) == 0,
			"logits of %u rows, %u to %u", rows, width, outputs);
	}
	cudaFree(logits);
	free(all);
	free(some);
	free(poison);
	tensor_free(&in);
	tensor_free(&weight);
}

static void check_streamed(uint32_t width, uint32_t outputs, struct cublaslt *library)
{
	const struct linear_device device = linear_device(kernel_path_of_device());
	const uint32_t most = LINEAR_STREAM_TOKENS;
	struct linear_shape shape = {width, outputs, 1, false, false};
	struct streamed all = {
		.in = tensor_random((size_t)most * width, width),
		.weight = tensor_random((size_t)outputs * width, outputs),
		.bias = tensor_random(outputs, 5),
		.linear = tensor_poisoned((size_t)most * outputs),
		.silu = tensor_poisoned((size_t)most * outputs / 2),
	};

	for (uint32_t i = 0; i < 3 * most; i++) {
		if (takes_few() && i % 3 != 0) {
			continue;
		}
		const uint16_t *bias = i / most == 1 ? all.bias.device : NULL;
		shape.has_silu = i / most == 2;
		must(cublaslt_linear(library, all.linear.device, all.in.device, all.weight.device,
			     bias, most, width, outputs, NULL),
			"cublaslt_linear");
		must(silu_mul(all.silu.device, all.linear.device, most, outputs / 2, NULL),
			"silu_mul");
		const struct linear_plan plan =
			linear_plan_path(LINEAR_STREAM, &shape, i % most + 1, &device);
		cr_assert(plan.path == LINEAR_STREAM);
		expect_streamed(&plan, &all, bias != NULL);
	}
	tensor_free(&all.in);
	tensor_free(&all.weight);
	tensor_free(&all.bias);
	tensor_free(&all.linear);
	tensor_free(&all.silu);
}

/* One group of rows, blocks of fewer groups than others, tiles of fewer groups than others; inputs
   of one stage, of the ring's size and of many rounds. */
Test(cuda_linear, streams_add_in_the_order_of_the_library)
{
	static const uint32_t shapes[][2] = {{256, 16}, {512, 2112}, {768, 2128}, {2048, 4096},
		{2560, 19456}, {4096, 6144}, {5120, 18704}, {12288, 1024}, {25600, 272}};
	struct cublaslt *library;

	must(cublaslt_open(&library), "cublaslt_open");
	for (uint32_t i = 0; i < (takes_few() ? 3 : COUNT(shapes)); i++) {
		check_streamed(shapes[i][0], shapes[i][1], library);
		check_streamed_logits(shapes[i][0], shapes[i][1], library);
	}
	check_streamed_logits(1024, 37984, library); /* several tiles of 8 warps */
	cublaslt_close(library);
}

/* ---- the tall kernel ---- */

/* Every tile of one batch, with and without bias or silu, has the bits of cuBLASLt. */
static void check_tall(
	const struct streamed *all, const struct linear_shape *whole, uint32_t rows, bool has_bias)
{
	const struct linear_device device = linear_device(kernel_path_of_device());
	const struct linear_tall_tile most = {3, 4, 4, 2};
	uint32_t count = most.groups * most.token_tiles * most.token_sharers * most.weight_sharers;

	for (uint32_t i = 0; i < 2 * count; i++) {
		struct linear_shape shape = *whole;
		const uint32_t token_tiles[] = {1, 2, 3, 10};
		const struct linear_tall_tile tile = {
			i % 3 + 1, token_tiles[i / 3 % 4], i / 12 % 4 + 1, i / 48 % 2 + 1};
		shape.has_silu = i >= count;
		const struct linear_plan plan = linear_plan_tall(&shape, rows, &tile, &device);
		if (plan.path == LINEAR_TALL && tile.token_sharers != 3 &&
			!(shape.has_silu && has_bias)) {
			expect_streamed(&plan, all, has_bias);
		}
	}
}

static struct streamed open_products(uint32_t rows, uint32_t width, uint32_t outputs)
{
	return (struct streamed){
		.in = tensor_random((size_t)rows * width, width + rows),
		.weight = tensor_random((size_t)outputs * width, outputs),
		.bias = tensor_random(outputs, 5),
		.linear = tensor_poisoned((size_t)rows * outputs),
		.silu = tensor_poisoned((size_t)rows * outputs / 2),
	};
}

static void ask_library(struct streamed *all, const struct linear_shape *shape, uint32_t rows,
	bool has_bias, struct cublaslt *library)
{
	must(cublaslt_linear(library, all->linear.device, all->in.device, all->weight.device,
		     has_bias ? all->bias.device : NULL, rows, shape->input_count,
		     shape->output_count, NULL),
		"cublaslt_linear");
	must(silu_mul(all->silu.device, all->linear.device, rows, shape->output_count / 2, NULL),
		"silu_mul");
}

static void close_products(struct streamed *all)
{
	tensor_free(&all->in);
	tensor_free(&all->weight);
	tensor_free(&all->bias);
	tensor_free(&all->linear);
	tensor_free(&all->silu);
}

static void check_tall_shape(
	uint32_t rows, uint32_t width, uint32_t outputs, struct cublaslt *library)
{
	const struct linear_shape shape = {width, outputs, 1, false, false};
	struct streamed all = open_products(rows, width, outputs);

	for (uint32_t i = 0; i < 2; i++) {
		ask_library(&all, &shape, rows, i == 1, library);
		check_tall(&all, &shape, rows, i == 1);
	}
	close_products(&all);
}

/* Inputs of one stage, of less than a ring and of many rounds; each tile and its neighbours. */
Test(cuda_linear, tall_kernels_add_in_the_order_of_the_library)
{
	static const uint32_t shapes[][2] = {{128, 1536}, {640, 3072}, {4096, 1536}};
	static const uint32_t rows[] = {9, 16, 33, 64, 100, 128, 130, 161, 208, 224, 250, 256, 600};
	struct cublaslt *library;

	must(cublaslt_open(&library), "cublaslt_open");
	for (uint32_t i = 0; i < COUNT(shapes) * COUNT(rows); i++) {
		const uint32_t *shape = shapes[i % COUNT(shapes)];
		check_tall_shape(rows[i / COUNT(shapes)], shape[0], shape[1], library);
	}
	cublaslt_close(library);
}

/* Rows of prompts have the bits of the library by the path that serves them, at the first and last
   row of each path; weights with split-K too, which are one chain there. */
Test(cuda_linear, prompts_have_the_bits_of_the_library)
{
	static const struct linear_shape shapes[] = {{2048, 1024, 1, false, false},
		{3072, 1024, 1, false, false}, {1024, 4096, 1, false, false},
		{1024, 6144, 1, true, false}, {2048, 2048, 1, false, false},
		{6144, 2048, 1, false, false}, {2048, 4096, 1, false, false},
		{2048, 12288, 1, true, false}};
	static const uint32_t rows[] = {1, 4, 5, 8, 9, 64, 65, 72, 73, 128, 129, 160, 161, 224, 225,
		256, 257, 384, 385, 392, 393, 512, 513, 1024, 1025};
	const struct linear_device device = linear_device(kernel_path_of_device());
	struct cublaslt *library;
	uint32_t own = 0;

	must(cublaslt_open(&library), "cublaslt_open");
	for (uint32_t i = 0; i < COUNT(shapes) * COUNT(rows); i++) {
		const struct linear_shape *shape = &shapes[i % COUNT(shapes)];
		const uint32_t count = rows[i / COUNT(shapes)];
		const struct linear_plan plan = linear_plan(shape, count, false, &device);
		if (plan.path == LINEAR_CUBLASLT) {
			continue;
		}
		struct streamed all = open_products(count, shape->input_count, shape->output_count);
		ask_library(&all, shape, count, false, library);
		expect_streamed(&plan, &all, false);
		close_products(&all);
		own++;
	}
	cr_expect(own > 100 || kernel_path_of_device() != KERNEL_PATH_SM90, "%u products", own);
	cublaslt_close(library);
}

/* ---- a chain of layers in a graph ---- */

/* A weight that keeps the size of what it is multiplied by. */
static struct tensor tensor_shrunk(size_t count)
{
	struct tensor tensor = {.count = count, .host = memory_take(count, sizeof(float))};

	case_fill(tensor.host, count, 9, CASE_UNIFORM);
	for (size_t i = 0; i < count; i++) {
		tensor.host[i] /= 16; /* a power of two: bf16 still holds it */
	}
	tensor_send(&tensor);
	return tensor;
}

enum { LINKS = 12 };

/* Each layer reads what the one before has written. */
static void run_chain(const struct tensor *chain, const struct tensor *weight, uint32_t rows,
	uint32_t width, bool waits, cudaStream_t stream)
{
	for (uint32_t i = 0; i < LINKS; i++) {
		must(linear(chain[i + 1].device, chain[i].device, weight->device, NULL, rows, width,
			     width, stream),
			"linear");
		if (waits) {
			must(cudaDeviceSynchronize(), "kernel");
		}
	}
}

static void check_chain(uint32_t rows, uint32_t width)
{
	struct tensor weight = tensor_shrunk((size_t)width * width);
	struct tensor chain[LINKS + 1];
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t ready;

	chain[0] = tensor_random((size_t)rows * width, 1);
	for (uint32_t i = 1; i <= LINKS; i++) {
		chain[i] = tensor_poisoned((size_t)rows * width);
	}
	must(cudaStreamCreate(&stream), "cudaStreamCreate");
	must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
	run_chain(chain, &weight, rows, width, false, stream);
	must(cudaStreamEndCapture(stream, &graph), "capture");
	must(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
	for (uint32_t launch = 0; launch < (takes_few() ? 2 : 20); launch++) {
		for (uint32_t i = 1; i <= LINKS; i++) {
			tensor_poison(&chain[i]); /* no result of an earlier launch */
		}
		must(cudaDeviceSynchronize(), "cudaMemset");
		must(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
		must(cudaStreamSynchronize(stream), "the graph");
	}
	float *at_once = tensor_fetch(&chain[LINKS]);
	run_chain(chain, &weight, rows, width, true, NULL);
	memcpy(chain[LINKS].host, at_once, chain[LINKS].count * sizeof(float));
	expect_close(&chain[LINKS], width, 0, "a chain of linear layers in a graph");
	free(at_once);
	must(cudaGraphExecDestroy(ready), "cudaGraphExecDestroy");
	must(cudaGraphDestroy(graph), "cudaGraphDestroy");
	must(cudaStreamDestroy(stream), "cudaStreamDestroy");
	for (uint32_t i = 0; i <= LINKS; i++) {
		tensor_free(&chain[i]);
	}
	tensor_free(&weight);
}

/* With PDL (programmatic dependent launch) a kernel begins before the one ahead of it is done, and
   must still read what that one writes. The cases: few rows, split-K, and more rows. */
Test(cuda_linear, layers_in_a_graph_read_what_the_layer_before_has_written)
{
	check_chain(1, 1024);
	check_chain(3, 2048);
	check_chain(16, 2048);
	check_chain(40, 1024);
	check_chain(1, 4096);
	check_chain(8, 2560);
}
