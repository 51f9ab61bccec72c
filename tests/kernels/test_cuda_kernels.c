/* Every operation of kernels/op_table.h on the GPU against its CPU twin, and what else holds of
   some of them: other ways to the same bits. Inputs are values that bf16 holds, outputs are
   poisoned before each run. Skipped, and said so, without a device. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/attention/attention_operands.h"
#include "kernels/linear/linear.h"
#include "kernels/op/split_k.h"
#include "kernels/device/cuda_operand_memory.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/op_table.h"
#include "kernels/rows/silu_mul.h"
#include "kernels/step_io/step_io.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void skip_without_device(void)
{
	int count = 0;

	if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
		cr_skip_test("no GPU");
	}
}

TestSuite(cuda_kernels, .init = skip_without_device);

/* ---- tensors on both sides ---- */

static void must(int code, const char *call)
{
	cr_assert(code == 0, "%s: %s", call, cublaslt_error_text(code));
}

static void *device_take(size_t bytes)
{
	void *memory = NULL;

	must(cudaMalloc(&memory, bytes == 0 ? 1 : bytes), "cudaMalloc");
	must(cudaMemset(memory, 0xff, bytes), "cudaMemset"); /* NaN in bf16 and float32 */
	return memory;
}

static void *device_copy(const void *host, size_t bytes)
{
	void *memory = device_take(bytes);

	must(cudaMemcpy(memory, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
	return memory;
}

/* A tensor of values that bf16 holds: float32 for the twin, bf16 on the device. */
struct tensor {
	size_t count;
	float *host;
	uint16_t *device;
};

static void tensor_send(struct tensor *tensor)
{
	uint16_t *bits = memory_take(tensor->count, sizeof(*bits));

	for (size_t i = 0; i < tensor->count; i++) {
		bits[i] = bf16_from_float(tensor->host[i]);
	}
	tensor->device = device_copy(bits, tensor->count * sizeof(*bits));
	free(bits);
}

static struct tensor tensor_filled(size_t count, uint64_t key, enum case_values values)
{
	struct tensor tensor = {.count = count, .host = memory_take(count, sizeof(float))};

	case_fill(tensor.host, count, key, values);
	tensor_send(&tensor);
	return tensor;
}

static struct tensor tensor_random(size_t count, uint64_t key)
{
	return tensor_filled(count, key, CASE_UNIFORM);
}

static struct tensor tensor_poisoned(size_t count)
{
	struct tensor tensor = {.count = count, .host = memory_take(count, sizeof(float))};

	for (size_t i = 0; i < count; i++) {
		tensor.host[i] = NAN;
	}
	tensor.device = device_take(count * sizeof(uint16_t));
	return tensor;
}

/* Before the device writes it again. */
static void tensor_poison(struct tensor *tensor)
{
	must(cudaMemset(tensor->device, 0xff, tensor->count * sizeof(uint16_t)), "cudaMemset");
}

static void tensor_free(struct tensor *tensor)
{
	free(tensor->host);
	cudaFree(tensor->device);
}

static float *tensor_fetch(const struct tensor *tensor)
{
	uint16_t *bits = memory_take(tensor->count, sizeof(*bits));
	float *values = memory_take(tensor->count, sizeof(*values));

	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(
		     bits, tensor->device, tensor->count * sizeof(*bits), cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	for (size_t i = 0; i < tensor->count; i++) {
		values[i] = bf16_to_float(bits[i]);
	}
	free(bits);
	return values;
}

/* Against what it held `before`, which is freed. */
static void expect_same_bits(const struct tensor *tensor, float *before, const char *what)
{
	float *after = tensor_fetch(tensor);

	cr_expect(
		memcmp(before, after, tensor->count * sizeof(*after)) == 0, "%s: other bits", what);
	free(before);
	free(after);
}

/* ||out - ref|| / ||ref||; an element that neither wrote counts as equal. */
static double distance(const float *out, const float *ref, size_t count)
{
	double difference = 0, size = 0;

	for (size_t i = 0; i < count; i++) {
		if (isnan(ref[i]) && isnan(out[i])) {
			continue;
		}
		difference += ((double)out[i] - ref[i]) * ((double)out[i] - ref[i]);
		size += (double)ref[i] * ref[i];
	}
	return size == 0 ? sqrt(difference) : sqrt(difference / size);
}

/* Row by row, so that what goes wrong in one is not lost in the size of the others. */
static void expect_rows(const float *found, const float *expected, size_t count, size_t width,
	double tolerance, const char *what)
{
	size_t rows = count / width, row = 0;
	double error = 0;

	while (row < rows) {
		error = distance(found + row * width, expected + row * width, width);
		if (!(error <= tolerance)) { /* NaN is not close either */
			break;
		}
		row++;
	}
	cr_expect(row == rows, "%s: row %zu of %zu: relative error %g, at most %g", what, row, rows,
		error, tolerance);
}

static void expect_close(
	const struct tensor *tensor, size_t width, double tolerance, const char *what)
{
	float *out = tensor_fetch(tensor);

	expect_rows(out, tensor->host, tensor->count, width, tolerance, what);
	free(out);
}

static const enum rounding ROUNDING = ROUNDING_BF16;

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof(array[0])))

/* ---- every operation ---- */

/* What a twin computes in about a second. */
static const uint64_t FLOPS_MAX = UINT64_C(1) << 31, BYTES_MAX = UINT64_C(320) << 20;

static bool is_fitting(const struct op *op, const struct op_case *c)
{
	struct work work = op->work(c);

	return work.flops <= FLOPS_MAX && work.bytes <= BYTES_MAX && op->fits(c);
}

/* Opens a case to be checked. cublaslt: NULL where the operation needs none. */
static struct operands open_case(const struct op *op, const struct op_case *c,
	enum kernel_path path, enum case_values values, struct cublaslt *cublaslt)
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

/* An operand in bf16 as a tensor, which is not to be freed. */
static struct tensor tensor_of(const struct operands *operands, uint32_t index)
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

/* The outputs against what the twin has made. */
static void expect_outputs(struct operands *operands, const char *what)
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

static void check_case(const struct op *op, const struct op_case *c, enum kernel_path path,
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

/* A case with all that its operation can be told besides. */
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

/* Calls a test with every case that fits, of which there must be some: no kernels of decode rows
   are built for GPUs before sm_90. */
static void for_cases(const struct op *op, struct cublaslt *cublaslt,
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

Test(cuda_kernels, every_operation_gives_what_its_twin_gives)
{
	struct cublaslt *cublaslt;

	must(cublaslt_open(&cublaslt), "cublaslt_open");
	for (uint32_t i = 0; op_at(i) != NULL; i++) {
		for_cases(op_at(i), cublaslt, check_variants);
	}
	cublaslt_close(cublaslt);
}

/* ---- operations on rows ---- */

/* As the forward pass calls it: out is in. */
static void check_in_place(const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	size_t size = (size_t)c->rows * c->width;
	struct tensor in = tensor_random(size, 1), weight = tensor_random(c->width, 50);
	struct tensor residual = tensor_random(size, 100);

	(void)op;
	(void)cublaslt;
	add_rms_norm_cpu(
		in.host, residual.host, in.host, weight.host, c->rows, c->width, 1e-6f, ROUNDING);
	must(add_rms_norm(in.device, residual.device, in.device, weight.device, NULL, c->rows,
		     c->width, 1e-6f, NULL),
		"add_rms_norm in place");
	expect_close(&in, c->width, OPERAND_BF16_TOLERANCE, "add_rms_norm in place");
	expect_close(&residual, c->width, 0, "the residual stream of add_rms_norm in place");
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&residual);
}

/* Picked rows get the bits that they get among all of them, and nothing is kept. */
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

Test(cuda_kernels, add_rms_norm_in_place_and_of_picked_rows)
{
	for_cases(op_find("add_rms_norm"), NULL, check_in_place);
	for_cases(op_find("add_rms_norm"), NULL, check_picked_rows);
}

/* ---- the ends of a step ---- */

/* Both slots of the double buffer, more than once: the data up to the length in the header,
   additions, tokens and the completion record. */
struct step_trial {
	struct step_io io;
	unsigned char *host_data;
	int32_t *host_tokens;
	uint32_t tables[1500];
	int32_t sampled[700];
};

enum { STEP_DATA = 64 * 1024, STEP_ADDITIONS = 700, STEP_WIDTH = 5, STEP_TOKENS = 700 };

static void step_open(struct step_trial *own)
{
	size_t line = sizeof(struct step_header);
	size_t stride = STEP_DATA + STEP_ADDITIONS * sizeof(struct table_addition);

	memset(own, 0, sizeof(*own));
	stride = (STEP_BLOCKS * line + stride + line - 1) / line * line;
	for (uint32_t i = 0; i < STEP_TOKENS; i++) {
		own->sampled[i] = (int32_t)(i * 3 + 1);
	}
	must(cudaMallocHost((void **)&own->host_data, 2 * stride), "cudaMallocHost");
	must(cudaMallocHost((void **)&own->host_tokens, 2 * STEP_TOKENS * sizeof(int32_t)),
		"cudaMallocHost");
	own->io = (struct step_io){
		.step_count = device_take(sizeof(uint64_t)),
		.data = device_take(STEP_DATA),
		.data_bytes = STEP_DATA,
		.host_data = own->host_data,
		.host_stride = stride,
		.tables = device_copy(own->tables, sizeof(own->tables)),
		.table_width = STEP_WIDTH,
		.host_tokens = own->host_tokens,
		.token_stride = STEP_TOKENS,
		.sampled = device_copy(own->sampled, sizeof(own->sampled)),
	};
	must(cudaMemset(own->io.step_count, 0, sizeof(uint64_t)), "cudaMemset");
	must(cudaMallocHost((void **)&own->io.completions, 2 * sizeof(struct step_completion)),
		"cudaMallocHost");
	memset(own->io.completions, 0, 2 * sizeof(struct step_completion));
}

static void step_close(struct step_trial *own)
{
	cudaFree(own->io.step_count);
	cudaFree(own->io.data);
	cudaFree(own->io.tables);
	cudaFree((void *)(uintptr_t)own->io.sampled);
	cudaFreeHost(own->io.completions);
	cudaFreeHost(own->host_data);
	cudaFreeHost(own->host_tokens);
}

/* Step number `step`, whose data are `bytes` long; `sure` are copied before the header is read. */
static void check_step(struct step_trial *own, uint64_t step, size_t bytes, size_t sure,
	uint32_t addition_count, uint32_t token_count)
{
	struct step_header *headers = (void *)(own->host_data + step % 2 * own->io.host_stride);
	unsigned char *data = (unsigned char *)(headers + STEP_BLOCKS);
	struct table_addition *additions = (struct table_addition *)(void *)(data + STEP_DATA);
	unsigned char *found = memory_take(STEP_DATA, 1);
	uint32_t tables[1500];

	for (uint32_t i = 0; i < STEP_DATA; i++) {
		data[i] = (unsigned char)counter_hash(step, i);
	}
	for (uint32_t i = 0; i < STEP_BLOCKS; i++) {
		headers[i] = (struct step_header){.chunk_count = (uint32_t)(bytes / STEP_CHUNK),
			.addition_count = addition_count};
	}
	for (uint32_t a = 0; a < addition_count; a++) {
		uint32_t entry = (a * 7 + 3) % 1500; /* 7 and 1,500 share no factor */
		uint32_t block = (uint32_t)step * 1000 + a;
		additions[a] =
			(struct table_addition){entry / STEP_WIDTH, entry % STEP_WIDTH, block, 0};
		own->tables[entry] = block;
	}
	must(cudaMemset(own->io.data, 0xee, STEP_DATA), "cudaMemset");
	must(step_begin(&own->io, sure, NULL), "step_begin");
	must(step_end(&own->io, token_count, NULL), "step_end");
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(found, own->io.data, STEP_DATA, cudaMemcpyDeviceToHost), "cudaMemcpy");
	must(cudaMemcpy(tables, own->io.tables, sizeof(tables), cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	size_t copied = bytes > sure ? bytes : sure;
	cr_expect(memcmp(found, data, copied) == 0, "step %d: the data differ", (int)step);
	cr_expect(copied == STEP_DATA || found[copied] == 0xee, "step %d: too much", (int)step);
	cr_expect(memcmp(tables, own->tables, sizeof(tables)) == 0, "step %d", (int)step);
	cr_expect(memcmp(own->host_tokens + step % 2 * STEP_TOKENS, own->sampled,
			  token_count * sizeof(int32_t)) == 0);
	const struct step_completion *completion = &own->io.completions[step % 2];
	cr_expect(completion->done == step + 1);
	cr_expect(completion->begin_ns > 0 && completion->end_ns >= completion->begin_ns);
	free(found);
}

Test(cuda_kernels, step_io)
{
	struct step_trial own;

	step_open(&own);
	check_step(&own, 0, 16, 16, 0, 0);
	check_step(&own, 1, 4096, 4096, 1, 1);
	check_step(&own, 2, STEP_DATA, 4096, STEP_ADDITIONS, STEP_TOKENS);
	check_step(&own, 3, 128, 4096, 257, 513);
	check_step(&own, 4, 9008, 16, 64, 512);
	check_step(&own, 5, STEP_DATA, STEP_DATA, 65, 3);
	check_step(&own, 6, 16, 0, 0, 1);
	step_close(&own);
}

/* ---- linear layers ---- */

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

Test(cuda_kernels, logits)
{
	struct cublaslt *cublaslt;

	must(cublaslt_open(&cublaslt), "cublaslt_open");
	for_cases(op_find("matmul"), cublaslt, check_logits_of_case);
	cublaslt_close(cublaslt);
}

/* A context remembers what it chose for each shape: shapes that alternate do not mix. */
Test(cuda_kernels, linear_layers_of_many_shapes_in_one_context)
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

/* ---- linear layers of decode rows ---- */

static void skip_without_decode_linear(void)
{
	if (!linear_fits(128, 64)) {
		cr_skip_test("this device leaves all linear layers to cuBLASLt");
	}
}

/* (rows, slice_width) of the inputs from `first` on, in memory of their own. */
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

/* The order of sums that kernels/linear/linear.h promises, made of cuBLASLt's chains: each slice of
   split-K by itself, then added in ascending order. */
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

/* Bit for bit. */
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
		out.host[i] = rounded(out.host[i] + bias.host[i % c->outputs], ROUNDING);
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

Test(cuda_kernels, linear_sums_in_its_order)
{
	skip_without_decode_linear();
	for_cases(op_find("decode_matmul"), NULL, check_order_of_sums);
}

/* The bits of the two operations that it stands for. */
static void check_fused_silu(
	const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	uint32_t width = c->outputs / 2;
	size_t count = (size_t)c->rows * width;
	struct operands operands = open_case(op, c, KERNEL_PATH_GENERAL, CASE_UNIFORM, cublaslt);
	struct tensor gate_up = tensor_poisoned(2 * count), expected = tensor_poisoned(count);
	const struct tensor out = tensor_of(&operands, OPERAND_OUT);

	must(op->launch(&operands, 0, NULL), op->name);
	must(linear(gate_up.device, operand_at(&operands, OPERAND_IN, 0),
		     operand_at(&operands, OPERAND_WEIGHT, 0), NULL, c->rows, c->width, c->outputs,
		     NULL),
		"linear");
	must(silu_mul(expected.device, gate_up.device, c->rows, width, NULL), "silu_mul");
	expect_same_bits(&out, tensor_fetch(&expected), "linear_silu against two operations");
	tensor_free(&gate_up);
	tensor_free(&expected);
	operands_close(&operands);
}

Test(cuda_kernels, linear_silu_has_the_bits_of_two_operations)
{
	skip_without_decode_linear();
	for_cases(op_find("decode_matmul_silu"), NULL, check_fused_silu);
}

static struct linear_plan plan_with_norm(
	uint32_t rows, uint32_t width, uint32_t outputs, bool has_silu)
{
	const struct linear_device device = linear_device(kernel_path_of_device());
	const struct linear_shape shape = {width, outputs, 1, has_silu};

	return linear_plan(&shape, rows, true, &device);
}

/* The bits of add_rms_norm() and a linear layer. */
static void check_of_sum(uint32_t rows, uint32_t width, uint32_t outputs)
{
	size_t inputs = (size_t)rows * width, count = (size_t)rows * outputs;
	struct tensor residual = tensor_random(inputs, 1), kept = tensor_random(inputs, 1);
	struct tensor in = tensor_random(inputs, 2), norm = tensor_random(width, 3);
	struct tensor weight = tensor_random((size_t)outputs * width, 9);
	struct tensor hidden = tensor_poisoned(inputs), sum = tensor_poisoned(inputs);
	struct tensor apart = tensor_poisoned(count), out = tensor_poisoned(count);
	struct tensor gated_apart = tensor_poisoned(count / 2), gated = tensor_poisoned(count / 2);
	const struct linear_norm with = {residual.device, sum.device, norm.device, 1e-6f};
	struct tensor *all[] = {&residual, &kept, &in, &norm, &weight, &hidden, &sum, &apart, &out,
		&gated_apart, &gated};
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
	must(linear(apart.device, hidden.device, weight.device, NULL, rows, width, outputs, NULL),
		"linear");
	must(linear_silu(gated_apart.device, hidden.device, weight.device, rows, width, outputs / 2,
		     NULL),
		"linear_silu");
	must(linear_run(&plan, &operands, NULL, NULL), "linear_run");
	must(cudaDeviceSynchronize(), "kernel");
	expect_same_bits(&sum, tensor_fetch(&kept), what);
	expect_same_bits(&out, tensor_fetch(&apart), what);
	tensor_poison(&sum);
	must(linear_run(&silu_plan, &silu_operands, NULL, NULL), "linear_run");
	must(cudaDeviceSynchronize(), "kernel");
	expect_same_bits(&sum, tensor_fetch(&kept), what);
	expect_same_bits(&gated, tensor_fetch(&gated_apart), what);
	for (uint32_t i = 0; i < COUNT(all); i++) {
		tensor_free(all[i]);
	}
}

Test(cuda_kernels, linear_with_a_fused_norm)
{
	skip_without_decode_linear();
	for (uint32_t rows = 1; rows <= 4; rows++) {
		check_of_sum(rows, 1024, rows % 2 == 0 ? 4096 : 6144);
	}
	check_of_sum(3, 512, 64);
	check_of_sum(4, 2048, 4096);
	cr_expect(!plan_with_norm(5, 1024, 4096, false).fuses_norm);
	cr_expect(!plan_with_norm(1, 1280 + 128, 4096, false).fuses_norm);
	cr_expect(!plan_with_norm(1, 4096, 6144, false).fuses_norm);
	cr_expect(!plan_with_norm(1, 2048, 1024, false).fuses_norm);
}

/* ---- linear layers of many decode rows ---- */

/* Two rows more than there are: nothing is written to them. */
static void expect_wide(const struct linear_plan *plan, const struct linear_operands *inputs,
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
		products.host[k] = rounded(sum, ROUNDING);
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
	snprintf(what, sizeof(what), "linear_wide of %u rows, %u to %u, bias %d, silu %d",
		plan->row_count, plan->shape.input_count, width, bias != NULL, has_silu);
	expect_close(&out, has_silu ? width / 2 : width, 0, what);
	tensor_free(&products);
	tensor_free(&out);
}

Test(cuda_kernels, linear_wide)
{
	static const uint32_t rows[] = {1, 64, 65, 97, 129, 192, 208, 256, 264, 300};
	static const uint32_t shapes[][2] = {{2048, 1024}, {1024, 6144}, {3072, 1024}, {384, 192},
		{4096, 64}, {2048, 2048}, {2560, 448}};

	skip_without_decode_linear();
	const struct linear_device device = linear_device(kernel_path_of_device());

	for (uint32_t i = 0; i < COUNT(shapes) * COUNT(rows); i++) {
		uint32_t row_count = rows[i % COUNT(rows)];
		uint32_t width = shapes[i / COUNT(rows)][0], outputs = shapes[i / COUNT(rows)][1];
		struct linear_shape shape = {width, outputs, linear_split_k(width, outputs), false};
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
		expect_wide(&plan, &operands, sums, NULL);
		expect_wide(&plan, &operands, sums, &bias);
		if (shape.split_k == 1) {
			shape.has_silu = true;
			plan = linear_plan_path(LINEAR_WIDE, &shape, row_count, &device);
			expect_wide(&plan, &operands, sums, NULL);
		}
		free(sums);
		tensor_free(&in);
		tensor_free(&weight);
		tensor_free(&bias);
	}
}

/* ---- batch invariance ---- */

enum { ROWS_MOST = 512 };

/* One of the linear operations, which all run through the same test. */
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

/* The first and the last rows of a batch of ROWS_MOST get the same bits in a batch of their own. */
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
	for (uint32_t i = 0; i < 2 * COUNT(counts); i++) {
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

/* Widths of qwen3-0.6b. */
static const uint32_t layer_shapes[][2] = {{1024, 4096}, {2048, 1024}, {1024, 6144}, {3072, 1024}};

Test(cuda_kernels, linear_is_batch_invariant)
{
	skip_without_decode_linear();
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

Test(cuda_kernels, cublaslt_is_batch_invariant)
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
		sum.host[i] = rounded(all, ROUNDING);
	}
	tensor_send(&sum);
	free(host);
	return sum;
}

static void expect_equal_tensors(const struct tensor *a, const struct tensor *b, const char *what)
{
	float *left = tensor_fetch(a), *right = tensor_fetch(b);

	cr_expect(a->count == b->count && memcmp(left, right, a->count * sizeof(*left)) == 0, "%s",
		what);
	free(left);
	free(right);
}

/* The norm that adds the slices against the norm of their sum. Each has its residual stream. */
static void check_norm_of_slices(
	const float *slices, const struct tensor *sum, uint32_t rows, const uint32_t *index)
{
	struct tensor weight = tensor_random(SPLIT_K_OUTPUTS, 3);
	struct tensor of_slices = tensor_poisoned(sum->count), of_sum = tensor_poisoned(sum->count);
	struct tensor a = tensor_random(sum->count, 4), b = tensor_random(sum->count, 4);

	must(add_rms_norm_split_k(of_slices.device, a.device, slices, weight.device, index, rows,
		     rows, SPLIT_K_OUTPUTS, 1e-6f, NULL),
		"add_rms_norm_split_k");
	must(add_rms_norm(of_sum.device, b.device, sum->device, weight.device, index, rows,
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
	check_norm_of_slices(slices, &sum, rows, NULL);
	check_norm_of_slices(slices, &sum, rows, device_index);
	cudaFree(device_index);
	cudaFree(slices);
	tensor_free(&sum);
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&out);
}

Test(cuda_kernels, norms_add_the_slices_of_split_k)
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
	for (uint32_t launch = 0; launch < 20; launch++) {
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

/* With PDL a kernel begins before the one ahead of it is done, and must still read what that one
   writes: few rows, split-K, and more rows. */
Test(cuda_kernels, linear_in_a_graph)
{
	skip_without_decode_linear();
	check_chain(1, 1024);
	check_chain(3, 2048);
	check_chain(16, 2048);
	check_chain(40, 1024);
}

/* ---- attention ---- */

/* Every number of query heads to a key/value head, with every size of a head. */
static struct op_case case_of_group(uint32_t group, uint32_t i)
{
	static const uint32_t dims[] = {32, 64, 128};

	return (struct op_case){.heads = 2 * group,
		.kv_heads = 2,
		.head_dim = dims[i],
		.block_size = (group + i) % 2 == 0 ? 64 : 256};
}

static const struct op_case SMALLEST_PUBLISHED = {
	.heads = 16, .kv_heads = 8, .head_dim = 128, .block_size = 256};

/* The case with these sequences; chunks: of prefill, or NULL. */
static struct op_case with_sequences(
	struct op_case c, const uint32_t *contexts, const uint32_t *chunks, uint32_t count)
{
	c.rows = count;
	c.contexts = contexts;
	c.chunks = chunks;
	for (uint32_t r = 0; r < count; r++) {
		c.context = contexts[r] > c.context ? contexts[r] : c.context;
	}
	return c;
}

/* Computes rows [first, first + count) of the batch. */
static void decode_rows(
	struct operands *operands, struct decode_work *work, uint32_t first, uint32_t count)
{
	const struct attention_shape shape = attention_shape_of(operands->op_case);

	work->first_row = first;
	must(decode_attention(operand_at(operands, OPERAND_OUT, 0),
		     operand_at(operands, OPERAND_IN, 0), operand_at(operands, ATTENTION_KEYS, 0),
		     operand_at(operands, ATTENTION_VALUES, 0), work, count, &shape, NULL),
		"decode_attention");
}

/* By any number of blocks and launches: near the twin, and the same bits. */
static void check_decode_ways(const struct op_case *c, uint32_t block_count, enum kernel_path path)
{
	const struct op *op = op_find("decode_attention");
	struct operands operands = open_case(op, c, path, CASE_UNIFORM, NULL);
	struct decode_work work = decode_attention_work(&operands);
	const struct tensor out = tensor_of(&operands, OPERAND_OUT);
	uint32_t count = c->rows;
	const struct {
		const char *what;
		uint32_t first_rows, block_count;
	} ways[] = {{"two launches", count / 2, block_count}, {"one block", 0, 1},
		{"many blocks", 0, 3 * block_count + 1}, {"clusters", 0, 16 * count * c->kv_heads}};

	work.block_count = block_count;
	decode_rows(&operands, &work, 0, count);
	op->twin(&operands);
	expect_outputs(&operands, "decode_attention");
	for (uint32_t i = 0; i < COUNT(ways); i++) {
		float *whole = tensor_fetch(&out);
		operands_poison(&operands, OPERAND_OUT);
		work.block_count = ways[i].block_count;
		decode_rows(&operands, &work, 0, ways[i].first_rows);
		decode_rows(&operands, &work, ways[i].first_rows, count - ways[i].first_rows);
		expect_same_bits(&out, whole, ways[i].what);
	}
	operands_close(&operands);
}

static void check_decode(const struct op_case *c, uint32_t block_count)
{
	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		check_decode_ways(c, block_count, (enum kernel_path)path);
	}
}

static void check_decode_case(
	const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	(void)op;
	(void)cublaslt;
	check_decode(c, c->size == CASE_TINY ? 7 : 264);
}

Test(cuda_kernels, decode_attention)
{
	static const uint32_t contexts[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1000, 2049};
	static const uint32_t long_contexts[] = {8193, 100};
	struct op_case c;

	for (uint32_t i = 0; i < 24; i++) {
		c = with_sequences(
			case_of_group(1 + i / 3, i % 3), contexts, NULL, COUNT(contexts));
		check_decode(&c, 7);
	}
	/* Without the longest a block may take all splits of a row. */
	for (uint32_t i = 0; i < 2; i++) {
		c = with_sequences(SMALLEST_PUBLISHED, contexts, NULL, COUNT(contexts) - i);
		check_decode(&c, 7);
	}
	for (uint32_t i = 0; i < COUNT(contexts); i++) {
		c = with_sequences(SMALLEST_PUBLISHED, contexts + i, NULL, 1);
		check_decode(&c, 1 + i);
	}
	/* More than is gathered at a time. */
	c = with_sequences(case_of_group(2, 2), long_contexts, NULL, COUNT(long_contexts));
	check_decode(&c, 7);
	c = with_sequences(case_of_group(8, 2), long_contexts, NULL, COUNT(long_contexts));
	check_decode(&c, 7);
	for_cases(op_find("decode_attention"), NULL, check_decode_case);
}

/* Padding of a graph: rows without context behind the others get zeros and change nothing else. */
Test(cuda_kernels, decode_attention_of_padded_rows)
{
	static const uint32_t contexts[] = {300, 1, 0, 0, 0};
	const struct op *op = op_find("decode_attention");
	const struct op_case c =
		with_sequences(SMALLEST_PUBLISHED, contexts, NULL, COUNT(contexts));

	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		struct operands operands =
			open_case(op, &c, (enum kernel_path)path, CASE_UNIFORM, NULL);
		struct decode_work work = decode_attention_work(&operands);
		op->twin(&operands);
		for (work.block_count = 7; work.block_count < 1000; work.block_count *= 5) {
			operands_poison(&operands, OPERAND_OUT);
			decode_rows(&operands, &work, 0, c.rows);
			expect_outputs(&operands, "decode_attention of padded rows");
		}
		operands_close(&operands);
	}
}

/* Row r of a batch as a batch of its own: its query, table and context are the batch's, its splits
   and scratch those of one row. The result is row 0 of a batch's output, for the caller to free. */
static float *decode_single_row(const struct operands *batch, uint32_t r)
{
	const struct op_case *all = batch->op_case;
	const struct op_case c = with_sequences(SMALLEST_PUBLISHED, all->contexts + r, NULL, 1);
	const struct attention_shape shape = attention_shape_of(all);
	struct operands single =
		open_case(op_find("decode_attention"), &c, batch->path, CASE_UNIFORM, NULL);
	struct decode_work work = decode_attention_work(&single);
	const struct decode_work whole = decode_attention_work(batch);
	const struct tensor query = tensor_of(batch, OPERAND_IN);
	const struct tensor out = tensor_of(&single, OPERAND_OUT);

	work.tables = whole.tables;
	work.rows = whole.rows + r;
	work.contexts = whole.contexts + r;
	work.block_count = 13;
	must(decode_attention(out.device, query.device + r * attention_query_width(all),
		     operand_at(batch, ATTENTION_KEYS, 0), operand_at(batch, ATTENTION_VALUES, 0),
		     &work, 1, &shape, NULL),
		"decode_attention");
	float *result = tensor_fetch(&out);
	operands_close(&single);
	return result;
}

Test(cuda_kernels, decode_attention_of_a_row_has_the_same_bits_in_any_batch)
{
	static const uint32_t contexts[] = {
		1, 700, 64, 65, 256, 257, 2000, 511, 15, 16, 17, 1024, 320, 2, 1025, 100};
	const struct op_case c =
		with_sequences(SMALLEST_PUBLISHED, contexts, NULL, COUNT(contexts));
	size_t width = attention_query_width(&c);

	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		struct operands batch = open_case(op_find("decode_attention"), &c,
			(enum kernel_path)path, CASE_UNIFORM, NULL);
		struct decode_work work = decode_attention_work(&batch);
		const struct tensor out = tensor_of(&batch, OPERAND_OUT);
		work.block_count = 5;
		decode_rows(&batch, &work, 0, c.rows);
		float *together = tensor_fetch(&out);
		for (uint32_t r = 0; r < c.rows; r++) {
			float *single = decode_single_row(&batch, r);
			cr_expect(memcmp(single, together + r * width, width * sizeof(float)) == 0,
				"path %u, row %u", path, r);
			free(single);
		}
		free(together);
		operands_close(&batch);
	}
}

static void check_prefill(const struct op_case *c)
{
	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		check_case(op_find("prefill_attention"), c, (enum kernel_path)path, CASE_UNIFORM,
			NULL);
	}
}

Test(cuda_kernels, prefill_attention)
{
	/* whole prompts, then chunks behind a cached prefix */
	static const uint32_t chunks[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 200, 257, 1, 1, 5, 130, 64, 1, 33};
	static const uint32_t contexts[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 200, 257, 65, 256, 261, 387, 512, 2049, 545};
	struct op_case c;

	for (uint32_t i = 0; i < 24; i++) {
		c = with_sequences(
			case_of_group(1 + i / 3, i % 3), contexts, chunks, COUNT(contexts));
		check_prefill(&c);
	}
	c = with_sequences(SMALLEST_PUBLISHED, contexts, chunks, COUNT(contexts));
	check_prefill(&c);
	for (uint32_t i = 0; i < COUNT(contexts); i++) {
		c = with_sequences(SMALLEST_PUBLISHED, contexts + i, chunks + i, 1);
		check_prefill(&c);
	}
}

enum { CHUNKS = 9 };

/* One launch of `count` chunks of one sequence: chunk r computes tokens [start[r], start[r + 1]) of
   the batch and ends at position ends[r]. */
static void prefill_chunks(const struct operands *operands, const uint32_t *start,
	const uint32_t *ends, uint32_t count)
{
	static const uint32_t no_rows[CHUNKS] = {0}; /* every chunk is of the same sequence */
	const struct attention_shape shape = attention_shape_of(operands->op_case);
	struct prefill_work work = prefill_attention_work(operands);
	struct prefill_tile tiles[2048 / PREFILL_QUERY_TILE + CHUNKS];
	uint32_t tile_count = prefill_tiles_fill(tiles, start, ends, 0, count);
	uint32_t *rows = device_copy(no_rows, sizeof(no_rows));
	uint32_t *query_start = device_copy(start, (count + 1) * sizeof(*start));
	uint32_t *contexts = device_copy(ends, count * sizeof(*ends));
	struct prefill_tile *device_tiles = device_copy(tiles, tile_count * sizeof(*tiles));

	work.rows = rows;
	work.query_start = query_start;
	work.contexts = contexts;
	work.tiles = device_tiles;
	work.tile_count = tile_count;
	must(prefill_attention(operand_at(operands, OPERAND_OUT, 0),
		     operand_at(operands, OPERAND_IN, 0), operand_at(operands, ATTENTION_KEYS, 0),
		     operand_at(operands, ATTENTION_VALUES, 0), &work, &shape, NULL),
		"prefill_attention of chunks");
	must(cudaDeviceSynchronize(), "kernel");
	cudaFree(rows);
	cudaFree(query_start);
	cudaFree(contexts);
	cudaFree(device_tiles);
}

/* What a token gets has the same bits however its sequence is cut. */
static void check_chunks(struct op_case c, enum kernel_path path)
{
	static const uint32_t ends[CHUNKS] = {1, 64, 100, 333, 334, 512, 777, 1280, 1290};
	static const uint32_t whole = 1290;
	const struct op *op = op_find("prefill_attention");
	uint32_t start[CHUNKS + 1];

	c = with_sequences(c, &whole, &whole, 1);
	struct operands operands = open_case(op, &c, path, CASE_UNIFORM, NULL);
	const struct tensor out = tensor_of(&operands, OPERAND_OUT);
	const uint32_t *first = operand_host(&operands, ATTENTION_QUERY_START);
	start[0] = first[0];
	for (uint32_t r = 0; r < CHUNKS; r++) {
		start[r + 1] = first[0] + ends[r];
	}
	must(op->launch(&operands, 0, NULL), op->name);
	float *expected = tensor_fetch(&out);
	operands_poison(&operands, OPERAND_OUT);
	prefill_chunks(&operands, start, ends, CHUNKS);
	expect_same_bits(&out, expected, "chunks in one launch");
	expected = tensor_fetch(&out);
	operands_poison(&operands, OPERAND_OUT);
	for (uint32_t r = 0; r < CHUNKS; r++) {
		prefill_chunks(&operands, start + r, ends + r, 1);
	}
	expect_same_bits(&out, expected, "chunks in launches of their own");
	operands_close(&operands);
}

Test(cuda_kernels, prefill_attention_in_chunks)
{
	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		for (uint32_t i = 0; i < 24; i++) {
			check_chunks(case_of_group(1 + i / 3, i % 3), (enum kernel_path)path);
		}
		check_chunks(SMALLEST_PUBLISHED, (enum kernel_path)path);
	}
}

/* Near the twin; and in pieces the same bits. */
static void check_store(const struct op *op, const struct op_case *c, struct cublaslt *cublaslt)
{
	static const uint32_t outputs[] = {OPERAND_OUT, ATTENTION_KEYS, ATTENTION_VALUES};
	const struct attention_shape shape = attention_shape_of(c);
	struct operands operands = open_case(op, c, KERNEL_PATH_GENERAL, CASE_UNIFORM, cublaslt);
	const struct qk_norm_rope_device norm = qk_norm_rope_store_norm(&operands);
	const struct tensor query = tensor_of(&operands, OPERAND_OUT);
	const struct tensor qkv = tensor_of(&operands, OPERAND_IN);
	const uint32_t *positions = operand_at(&operands, STORE_POSITIONS, 0);
	const int64_t *slots = operand_at(&operands, STORE_SLOTS, 0);
	uint64_t width = attention_query_width(c), qkv_width = width + 2 * attention_key_width(c);
	float *whole[COUNT(outputs)];

	must(op->launch(&operands, 0, NULL), op->name);
	op->twin(&operands);
	expect_outputs(&operands, op->name);
	for (uint32_t i = 0; i < COUNT(outputs); i++) {
		whole[i] = operands_fetch(&operands, outputs[i]);
		operands_poison(&operands, outputs[i]);
	}
	for (uint32_t t = 0, count = c->rows > 700 ? 700 : 7; t < c->rows; t += count) {
		count = c->rows - t < count ? c->rows - t : count;
		must(qk_norm_rope_store(query.device + t * width,
			     operand_at(&operands, ATTENTION_KEYS, 0),
			     operand_at(&operands, ATTENTION_VALUES, 0), qkv.device + t * qkv_width,
			     positions + t, slots + t, count, &norm, &shape, NULL),
			"qk_norm_rope_store of a piece");
	}
	for (uint32_t i = 0; i < COUNT(outputs); i++) {
		const struct tensor tensor = tensor_of(&operands, outputs[i]);
		expect_same_bits(&tensor, whole[i], "qk_norm_rope_store in pieces");
	}
	operands_close(&operands);
}

Test(cuda_kernels, qk_norm_rope_store)
{
	const struct op *op = op_find("qk_norm_rope_store");

	for (uint32_t i = 0; i < 24; i++) {
		struct op_case c = case_of_group(1 + i / 3, i % 3);
		c.rows = 1 + 5 * i;
		check_store(op, &c, NULL);
	}
	for_cases(op, NULL, check_store);
}
