/* Every operation on the GPU against its CPU twin: the cases of kernels/op/cases.h that fit, and
   what the table lacks. Inputs are values that bf16 holds, outputs are poisoned before each run.
   Skipped, and said so, without a device. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/op/cases.h"
#include "kernels/attention/decode_attention.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_wide.h"
#include "kernels/rows/embedding.h"
#include "kernels/rows/gather_rows.h"
#include "kernels/linear/cublaslt.h"
#include "kernels/attention/prefill_attention.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/attention/rope_table.h"
#include "kernels/sampling/sampler.h"
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

/* Row by row: what goes wrong in one is not to drown in the others. */
static void expect_close(
	const struct tensor *tensor, size_t width, double tolerance, const char *what)
{
	float *out = tensor_fetch(tensor);
	size_t rows = tensor->count / width, row = 0;
	double error = 0;

	while (row < rows) {
		error = distance(out + row * width, tensor->host + row * width, width);
		if (!(error <= tolerance)) { /* NaN is not close either */
			break;
		}
		row++;
	}
	cr_expect(row == rows, "%s: row %zu of %zu: relative error %g, at most %g", what, row, rows,
		error, tolerance);
	free(out);
}

static const enum rounding ROUNDING = ROUNDING_BF16;
static const double BF16_TOLERANCE = 1e-2;

/* ---- the table ---- */

/* What a twin computes in about a second. */
static const uint64_t FLOPS_MAX = UINT64_C(1) << 31, BYTES_MAX = UINT64_C(320) << 20;

/* 16 bytes divide every row of a bf16 tensor; attention and the store have demands of their own. */
static bool is_fitting(const struct kernel_case *c)
{
	bool has_heads = c->heads > 0;
	bool is_wide = c->width % 8 == 0;

	if (kernel_case_flops(c) > FLOPS_MAX || kernel_case_bytes(c) > BYTES_MAX) {
		return false;
	}
	if (has_heads) {
		return (c->head_dim == 32 || c->head_dim == 64 || c->head_dim == 128) &&
		       c->block_size % 64 == 0;
	}
	if (c->kernel == KERNEL_DECODE_MATMUL || c->kernel == KERNEL_DECODE_MATMUL_SILU) {
		return linear_fits(c->width, c->outputs);
	}
	return is_wide && (c->kernel != KERNEL_MATMUL || c->outputs % 8 == 0);
}

/* Calls a test with every case of the table that fits, of which there must be some. */
static void for_table(enum kernel kernel, uint32_t least, void (*test)(const struct kernel_case *))
{
	uint32_t count = 0;

	for (uint32_t i = 0; kernel_case_at(i) != NULL; i++) {
		const struct kernel_case *c = kernel_case_at(i);
		if (c->kernel == kernel && is_fitting(c)) {
			test(c);
			count++;
		}
	}
	cr_expect(count >= least, "%s: %u cases, at least %u", kernel_name(kernel), count, least);
}

/* Calls a test with shapes (rows, width, outputs) that the table lacks. */
static void for_shapes(enum kernel kernel, const uint32_t (*shapes)[3], uint32_t count,
	void (*test)(const struct kernel_case *))
{
	for (uint32_t i = 0; i < count; i++) {
		const struct kernel_case c = {.kernel = kernel,
			.rows = shapes[i][0],
			.width = shapes[i][1],
			.outputs = shapes[i][2]};
		test(&c);
	}
}

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof(array[0])))

/* ---- operations on rows ---- */

static void check_rms_norm(const struct kernel_case *c)
{
	size_t size = (size_t)c->rows * c->width;
	struct tensor in = tensor_random(size, 1), weight = tensor_random(c->width, 50);
	struct tensor out = tensor_poisoned(size);

	rms_norm_cpu(out.host, in.host, weight.host, c->rows, c->width, 1e-6f, ROUNDING);
	must(rms_norm(out.device, in.device, weight.device, c->rows, c->width, 1e-6f, NULL),
		"rms_norm");
	expect_close(&out, c->width, BF16_TOLERANCE, "rms_norm");
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&out);
}

static void check_add_rms_norm(const struct kernel_case *c)
{
	size_t size = (size_t)c->rows * c->width;
	struct tensor in = tensor_random(size, 1), weight = tensor_random(c->width, 50);
	struct tensor residual = tensor_random(size, 100), out = tensor_poisoned(size);

	add_rms_norm_cpu(
		out.host, residual.host, in.host, weight.host, c->rows, c->width, 1e-6f, ROUNDING);
	must(add_rms_norm(out.device, residual.device, in.device, weight.device, NULL, c->rows,
		     c->width, 1e-6f, NULL),
		"add_rms_norm");
	expect_close(&out, c->width, BF16_TOLERANCE, "add_rms_norm");
	expect_close(&residual, c->width, 0, "the residual stream");
	/* as the forward pass calls it: out is in */
	add_rms_norm_cpu(
		in.host, residual.host, in.host, weight.host, c->rows, c->width, 1e-6f, ROUNDING);
	must(add_rms_norm(in.device, residual.device, in.device, weight.device, NULL, c->rows,
		     c->width, 1e-6f, NULL),
		"add_rms_norm in place");
	expect_close(&in, c->width, BF16_TOLERANCE, "add_rms_norm in place");
	expect_close(&residual, c->width, 0, "the residual stream of add_rms_norm in place");
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&residual);
	tensor_free(&out);
}

/* Picked rows get the bits that they get among all of them, and nothing is kept. */
static void check_picked_rows(const struct kernel_case *c)
{
	size_t size = (size_t)c->rows * c->width, bytes = c->width * sizeof(float);
	uint32_t count = c->rows / 2 + 1;
	struct tensor in = tensor_random(size, 1), weight = tensor_random(c->width, 50);
	struct tensor residual = tensor_random(size, 100), sum = tensor_random(size, 100);
	struct tensor all = tensor_poisoned(size), picked = tensor_poisoned(count * c->width);
	uint32_t *index = memory_take(count, sizeof(*index));

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

static const uint32_t norm_shapes[][3] = {{1, 8}, {1, 64}, {2, 1024}, {1, 2560}, {2, 5120},
	{257, 8}, {257, 64}, {257, 1032}, {257, 2560}, {257, 5120}, {3, 8192}, {2, 16384}};

Test(cuda_kernels, rms_norm)
{
	for_shapes(KERNEL_RMS_NORM, norm_shapes, COUNT(norm_shapes), check_rms_norm);
	for_table(KERNEL_RMS_NORM, 3, check_rms_norm);
}

Test(cuda_kernels, add_rms_norm)
{
	for_shapes(KERNEL_ADD_RMS_NORM, norm_shapes, COUNT(norm_shapes), check_add_rms_norm);
	for_table(KERNEL_ADD_RMS_NORM, 4, check_add_rms_norm);
	for_shapes(KERNEL_ADD_RMS_NORM, norm_shapes, COUNT(norm_shapes), check_picked_rows);
}

static void check_silu_mul(const struct kernel_case *c)
{
	size_t size = (size_t)c->rows * c->width;
	struct tensor in = {.count = size * 2, .host = memory_take(size * 2, sizeof(float))};
	struct tensor out = tensor_poisoned(size);

	case_fill(in.host, in.count, 1, CASE_UNIFORM);
	for (size_t i = 0; i < in.count; i++) {
		in.host[i] *= 16; /* to where the function bends and saturates */
	}
	tensor_send(&in);
	silu_mul_cpu(out.host, in.host, c->rows, c->width, ROUNDING);
	must(silu_mul(out.device, in.device, c->rows, c->width, NULL), "silu_mul");
	expect_close(&out, c->width, BF16_TOLERANCE, "silu_mul");
	tensor_free(&in);
	tensor_free(&out);
}

Test(cuda_kernels, silu_mul)
{
	static const uint32_t shapes[][3] = {{1, 8}, {3, 96}, {7, 3072}, {257, 12288}};

	for_shapes(KERNEL_SILU_MUL, shapes, COUNT(shapes), check_silu_mul);
	for_table(KERNEL_SILU_MUL, 2, check_silu_mul);
}

/* Every fifth token is the last one that its row sampled. */
static void check_embedding(const struct kernel_case *c)
{
	struct tensor table = tensor_random((size_t)c->outputs * c->width, 3);
	struct tensor out = tensor_poisoned((size_t)c->rows * c->width);
	const struct matrix matrix = {.f32 = table.host};
	int32_t *ids = memory_take(c->rows, sizeof(*ids));
	int32_t *resolved = memory_take(c->rows, sizeof(*ids));
	int32_t *last = memory_take(c->rows, sizeof(*last));
	uint32_t *rows = memory_take(c->rows, sizeof(*rows));

	for (uint32_t r = 0; r < c->rows; r++) {
		last[r] = (int32_t)(counter_hash(31, r) % c->outputs);
	}
	for (uint32_t r = 0; r < c->rows; r++) {
		rows[r] = c->rows - 1 - r;
		ids[r] = r % 5 == 1 ? -1 : (int32_t)(c->outputs - 1 - r % c->outputs);
		resolved[r] = ids[r] < 0 ? last[rows[r]] : ids[r];
	}
	int32_t *device_ids = device_copy(ids, c->rows * sizeof(*ids));
	int32_t *device_last = device_copy(last, c->rows * sizeof(*last));
	uint32_t *device_rows = device_copy(rows, c->rows * sizeof(*rows));
	embedding_cpu(out.host, matrix, resolved, c->rows, c->outputs, c->width, ROUNDING);
	must(embedding(out.device, table.device, device_ids, device_last, device_rows, c->rows,
		     c->width, NULL),
		"embedding");
	expect_close(&out, c->width, 0, "embedding");
	free(ids);
	free(resolved);
	free(last);
	free(rows);
	cudaFree(device_ids);
	cudaFree(device_last);
	cudaFree(device_rows);
	tensor_free(&table);
	tensor_free(&out);
}

Test(cuda_kernels, embedding)
{
	static const uint32_t shapes[][3] = {{1, 8, 1}, {2, 8, 3}, {7, 1032, 99}, {300, 64, 11}};

	for_shapes(KERNEL_EMBEDDING, shapes, COUNT(shapes), check_embedding);
	for_table(KERNEL_EMBEDDING, 2, check_embedding);
}

static void check_gather_rows(const struct kernel_case *c)
{
	size_t size = (size_t)c->rows * c->width;
	struct tensor in = tensor_random(3 * size, 3), out = tensor_poisoned(size);
	uint32_t *indices = memory_take(c->rows, sizeof(*indices));

	for (uint32_t r = 0; r < c->rows; r++) {
		indices[r] = (uint32_t)(counter_hash(8, r) % (3 * c->rows));
	}
	uint32_t *device = device_copy(indices, c->rows * sizeof(*indices));
	gather_rows_cpu(out.host, in.host, indices, c->rows, c->width);
	must(gather_rows(out.device, in.device, device, c->rows, c->width, NULL), "gather_rows");
	expect_close(&out, c->width, 0, "gather_rows");
	free(indices);
	cudaFree(device);
	tensor_free(&in);
	tensor_free(&out);
}

Test(cuda_kernels, gather_rows)
{
	static const uint32_t shapes[][3] = {{1, 8}, {3, 1032}, {257, 64}, {20, 5120}};

	for_shapes(KERNEL_GATHER_ROWS, shapes, COUNT(shapes), check_gather_rows);
	for_table(KERNEL_GATHER_ROWS, 1, check_gather_rows);
}

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
		uint32_t place = (a * 7 + 3) % 1500; /* 7 and 1,500 share no factor */
		uint32_t block = (uint32_t)step * 1000 + a;
		additions[a] =
			(struct table_addition){place / STEP_WIDTH, place % STEP_WIDTH, block, 0};
		own->tables[place] = block;
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

/* ---- matrix products ---- */

/* tests/kernels/test_kernels.c shows that the twin's other results are this one, rounded, and that
   its bias is added to the sum. */
static void fill_product(struct tensor *out, const float *sums, const float *bias, uint32_t width)
{
	for (size_t i = 0; i < out->count; i++) {
		out->host[i] =
			rounded(bias == NULL ? sums[i] : bias[i % width] + sums[i], ROUNDING);
	}
	tensor_poison(out);
}

static void check_logits(struct cublaslt *context, const struct kernel_case *c,
	const struct tensor *in, const struct tensor *weight, const float *sums, double tolerance)
{
	size_t count = (size_t)c->rows * c->outputs;
	float *logits = memory_take(count, sizeof(float));
	float *device = device_take(count * sizeof(float));

	must(cublaslt_linear_logits(context, device, in->device, weight->device, c->rows, c->width,
		     c->outputs, NULL),
		"cublaslt_linear_logits");
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(logits, device, count * sizeof(float), cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	double error = distance(logits, sums, count);
	cr_expect(error <= tolerance, "cublaslt_linear_logits: relative error %g, at most %g",
		error, tolerance);
	free(logits);
	cudaFree(device);
}

static void check_product(struct cublaslt *context, const struct kernel_case *c, bool is_exact)
{
	enum case_values values = is_exact ? CASE_INTEGERS : CASE_UNIFORM;
	size_t count = (size_t)c->rows * c->outputs;
	struct tensor in = tensor_filled((size_t)c->rows * c->width, 1, values);
	struct tensor weight = tensor_filled((size_t)c->outputs * c->width, 9, values);
	struct tensor bias = tensor_filled(c->outputs, 77, values);
	struct tensor out = tensor_poisoned(count);
	float *sums = memory_take(count, sizeof(*sums));
	char what[100];

	linear_cpu(sums, in.host, (struct matrix){.f32 = weight.host}, NULL, c->rows, c->width,
		c->outputs, ROUNDING_NONE);
	fill_product(&out, sums, NULL, c->outputs);
	must(cublaslt_linear(context, out.device, in.device, weight.device, NULL, c->rows, c->width,
		     c->outputs, NULL),
		"matmul");
	snprintf(what, sizeof(what), "matmul of %u rows, %u to %u", c->rows, c->width, c->outputs);
	expect_close(&out, c->outputs, is_exact ? 0 : BF16_TOLERANCE, what);
	fill_product(&out, sums, bias.host, c->outputs);
	must(cublaslt_linear(context, out.device, in.device, weight.device, bias.device, c->rows,
		     c->width, c->outputs, NULL),
		"matmul with bias");
	strcat(what, " with bias");
	expect_close(&out, c->outputs, is_exact ? 0 : BF16_TOLERANCE, what);
	check_logits(context, c, &in, &weight, sums, is_exact ? 0 : 3e-5);
	free(sums);
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&bias);
	tensor_free(&out);
}

static void check_matmul(const struct kernel_case *c)
{
	struct cublaslt *context;

	must(cublaslt_open(&context), "cublaslt_open");
	check_product(context, c, true);
	check_product(context, c, false);
	cublaslt_close(context);
}

Test(cuda_kernels, matmul)
{
	static const uint32_t shapes[][3] = {{1, 64, 8}, {2, 8, 8}, {7, 2048, 1024}, {17, 128, 72},
		{65, 104, 136}, {129, 3072, 1024}, {300, 72, 136}};

	for_shapes(KERNEL_MATMUL, shapes, COUNT(shapes), check_matmul);
	for_table(KERNEL_MATMUL, 12, check_matmul);
}

/* A context remembers what it chose for each shape: shapes in turn do not mix. */
Test(cuda_kernels, matmul_of_many_shapes_in_one_context)
{
	struct cublaslt *context;

	must(cublaslt_open(&context), "cublaslt_open");
	for (uint32_t i = 0; i < 60; i++) {
		const struct kernel_case c = {.kernel = KERNEL_MATMUL,
			.rows = 1 + i % 20,
			.width = 8 * (1 + i % 3),
			.outputs = 8 * (1 + i % 4)};
		check_product(context, &c, true);
	}
	cublaslt_close(context);
}

/* ---- products of decode rows ---- */

static void skip_unless_decode_matmul(void)
{
	if (!linear_fits(128, 64)) {
		cr_skip_test("this device leaves all products to cuBLASLt");
	}
}

static void check_decode_product(const struct kernel_case *c, bool is_exact)
{
	enum case_values values = is_exact ? CASE_INTEGERS : CASE_UNIFORM;
	struct tensor in = tensor_filled((size_t)c->rows * c->width, 1, values);
	struct tensor weight = tensor_filled((size_t)c->outputs * c->width, 9, values);
	struct tensor bias = tensor_filled(c->outputs, 77, values);
	struct tensor out = tensor_poisoned((size_t)c->rows * c->outputs);
	char what[100];

	for (uint32_t has_bias = 0; has_bias < 2; has_bias++) {
		tensor_poison(&out);
		linear_cpu(out.host, in.host, (struct matrix){.f32 = weight.host},
			has_bias ? bias.host : NULL, c->rows, c->width, c->outputs, ROUNDING);
		must(linear(out.device, in.device, weight.device, has_bias ? bias.device : NULL,
			     c->rows, c->width, c->outputs, NULL),
			"decode_matmul");
		snprintf(what, sizeof(what), "decode_matmul of %u rows, %u to %u, bias %u", c->rows,
			c->width, c->outputs, has_bias);
		expect_close(&out, c->outputs, is_exact ? 0 : BF16_TOLERANCE, what);
	}
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&bias);
	tensor_free(&out);
}

/* Part `part` of each row's inputs, of which there are `own`, as a tensor of its own. */
static struct tensor tensor_part(
	const struct tensor *whole, uint32_t width, uint32_t own, uint32_t part)
{
	uint32_t rows = (uint32_t)(whole->count / width);
	struct tensor tensor = {.count = (size_t)rows * own};

	tensor.host = memory_take(tensor.count, sizeof(float));
	for (size_t r = 0; r < rows; r++) {
		memcpy(tensor.host + r * own, whole->host + r * width + (size_t)part * own,
			own * sizeof(float));
	}
	tensor_send(&tensor);
	return tensor;
}

/* sums += the products of one part. A chain over all of its inputs is what logits are. */
static void add_part(float *sums, const struct kernel_case *c, const struct tensor *in,
	const struct tensor *weight, uint32_t part)
{
	uint32_t width = c->width / linear_split_k(c->width, c->outputs);
	struct tensor part_in = tensor_part(in, c->width, width, part);
	struct tensor part_weight = tensor_part(weight, c->width, width, part);
	size_t count = (size_t)c->rows * c->outputs;
	float *host = memory_take(count, sizeof(*host));
	float *device = device_take(count * sizeof(*device));
	struct cublaslt *context;

	must(cublaslt_open(&context), "cublaslt_open");
	must(cublaslt_linear_logits(context, device, part_in.device, part_weight.device, c->rows,
		     width, c->outputs, NULL),
		"cublaslt_linear_logits");
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(host, device, count * sizeof(*host), cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (size_t i = 0; i < count; i++) {
		sums[i] = part == 0 ? host[i] : sums[i] + host[i];
	}
	cublaslt_close(context);
	cudaFree(device);
	free(host);
	tensor_free(&part_in);
	tensor_free(&part_weight);
}

/* Bit for bit the order that kernels/linear/linear.h promises. */
static void check_order_of_parts(const struct kernel_case *c)
{
	struct tensor in = tensor_random((size_t)c->rows * c->width, 1);
	struct tensor weight = tensor_random((size_t)c->outputs * c->width, 9);
	struct tensor bias = tensor_random(c->outputs, 77);
	struct tensor out = tensor_poisoned((size_t)c->rows * c->outputs);
	char what[100];

	for (uint32_t part = 0; part < linear_split_k(c->width, c->outputs); part++) {
		add_part(out.host, c, &in, &weight, part);
	}
	must(linear(out.device, in.device, weight.device, bias.device, c->rows, c->width,
		     c->outputs, NULL),
		"decode_matmul");
	for (size_t i = 0; i < out.count; i++) {
		out.host[i] = rounded(out.host[i] + bias.host[i % c->outputs], ROUNDING);
	}
	snprintf(what, sizeof(what), "decode_matmul of %u rows, %u to %u, in parts", c->rows,
		c->width, c->outputs);
	expect_close(&out, c->outputs, 0, what);
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&bias);
	tensor_free(&out);
}

static void check_decode_matmul(const struct kernel_case *c)
{
	check_order_of_parts(c);
	check_decode_product(c, true);
	check_decode_product(c, false);
}

Test(cuda_kernels, decode_matmul)
{
	/* rows, inputs, outputs: each size of tile and the places beside it, several tiles; without
	   parts and with */
	static const uint32_t shapes[][3] = {{1, 128, 64}, {7, 512, 64}, {9, 128, 128},
		{16, 384, 192}, {17, 256, 192}, {1, 1024, 4160}, {65, 1024, 384}, {129, 128, 448},
		{200, 256, 320}, {300, 1024, 576}, {1, 2048, 64}, {2, 3584, 128}, {7, 4096, 192},
		{8, 2560, 2048}, {9, 2048, 1984}, {16, 4096, 64}, {16, 3072, 64}, {33, 3072, 1024},
		{97, 2048, 128}};

	skip_unless_decode_matmul();
	for_shapes(KERNEL_DECODE_MATMUL, shapes, COUNT(shapes), check_decode_matmul);
	for_table(KERNEL_DECODE_MATMUL, 8, check_decode_matmul);
}

/* Near the twin, and the bits of the two operations that it stands for. */
static void check_decode_matmul_silu(const struct kernel_case *c)
{
	uint32_t width = c->outputs / 2;
	size_t count = (size_t)c->rows * width;
	struct tensor in = tensor_random((size_t)c->rows * c->width, 1);
	struct tensor weight = tensor_random((size_t)c->outputs * c->width, 9);
	struct tensor between = tensor_poisoned(2 * count), out = tensor_poisoned(count);
	struct tensor apart = tensor_poisoned(count);

	linear_silu_cpu(out.host, in.host, (struct matrix){.f32 = weight.host}, c->rows, c->width,
		width, ROUNDING);
	must(linear_silu(out.device, in.device, weight.device, c->rows, c->width, width, NULL),
		"decode_matmul_silu");
	expect_close(&out, width, BF16_TOLERANCE, "decode_matmul_silu");
	must(linear(between.device, in.device, weight.device, NULL, c->rows, c->width, c->outputs,
		     NULL),
		"decode_matmul");
	must(silu_mul(apart.device, between.device, c->rows, width, NULL), "silu_mul");
	float *bits = tensor_fetch(&apart);
	memcpy(out.host, bits, count * sizeof(*bits));
	expect_close(&out, width, 0, "decode_matmul_silu against two operations");
	free(bits);
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&between);
	tensor_free(&out);
	tensor_free(&apart);
}

Test(cuda_kernels, decode_matmul_silu)
{
	static const uint32_t shapes[][3] = {{1, 128, 64}, {7, 512, 64}, {9, 128, 128},
		{16, 384, 192}, {33, 256, 192}, {65, 1024, 384}, {129, 128, 448}, {200, 256, 320},
		{1, 2048, 64}, {9, 3072, 192}, {18, 2048, 2048}};

	skip_unless_decode_matmul();
	for_shapes(KERNEL_DECODE_MATMUL_SILU, shapes, COUNT(shapes), check_decode_matmul_silu);
	for_table(KERNEL_DECODE_MATMUL_SILU, 3, check_decode_matmul_silu);
}

/* The bits of add_rms_norm() and a product. */
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
	cr_assert(linear_fuses_norm(rows, width, outputs), "%s", what);
	must(add_rms_norm(hidden.device, kept.device, in.device, norm.device, NULL, rows, width,
		     1e-6f, NULL),
		"add_rms_norm");
	must(linear(apart.device, hidden.device, weight.device, NULL, rows, width, outputs, NULL),
		"decode_matmul");
	must(linear_silu(gated_apart.device, hidden.device, weight.device, rows, width, outputs / 2,
		     NULL),
		"decode_matmul_silu");
	must(add_rms_norm_linear(
		     out.device, in.device, &with, weight.device, NULL, rows, width, outputs, NULL),
		"add_rms_norm_linear");
	must(cudaDeviceSynchronize(), "kernel");
	expect_same_bits(&sum, tensor_fetch(&kept), what);
	expect_same_bits(&out, tensor_fetch(&apart), what);
	tensor_poison(&sum);
	must(add_rms_norm_linear_silu(
		     gated.device, in.device, &with, weight.device, rows, width, outputs / 2, NULL),
		"add_rms_norm_linear_silu");
	must(cudaDeviceSynchronize(), "kernel");
	expect_same_bits(&sum, tensor_fetch(&kept), what);
	expect_same_bits(&gated, tensor_fetch(&gated_apart), what);
	for (uint32_t i = 0; i < COUNT(all); i++) {
		tensor_free(all[i]);
	}
}

Test(cuda_kernels, add_rms_norm_linear)
{
	skip_unless_decode_matmul();
	for (uint32_t rows = 1; rows <= 4; rows++) {
		check_of_sum(rows, 1024, rows % 2 == 0 ? 4096 : 6144);
	}
	check_of_sum(3, 512, 64);
	check_of_sum(4, 2048, 4096);
	cr_expect(!linear_fuses_norm(5, 1024, 4096));
	cr_expect(!linear_fuses_norm(1, 1280 + 128, 4096));
	cr_expect(!linear_fuses_norm(1, 4096, 6144));
	cr_expect(!linear_fuses_norm(1, 2048, 1024));
}

/* ---- products of many decode rows ---- */

/* (rows, part_width) of the inputs from `first` on, by themselves. */
static uint16_t *take_part(
	const struct tensor *tensor, uint32_t width, uint32_t first, uint32_t part_width)
{
	size_t rows = tensor->count / width, bytes = part_width * sizeof(uint16_t);
	uint16_t *part = device_take(rows * bytes);

	must(cudaMemcpy2D(part, bytes, tensor->device + first, width * sizeof(uint16_t), bytes,
		     rows, cudaMemcpyDeviceToDevice),
		"cudaMemcpy2D");
	return part;
}

/* What is promised, made of cuBLASLt's chains: parts by themselves, added in ascending order. */
static void sum_parts(float *sums, const struct tensor *in, const struct tensor *weight,
	const struct linear_operands *product)
{
	uint32_t width = product->input_count;
	uint32_t parts = linear_split_k(width, product->output_count);
	size_t count = (size_t)product->row_count * product->output_count;
	float *logits = device_take(count * sizeof(*logits));
	float *more = memory_take(count, sizeof(*more));
	struct cublaslt *context;

	must(cublaslt_open(&context), "cublaslt_open");
	for (uint32_t i = 0; i < parts; i++) {
		uint16_t *in_part = take_part(in, width, i * (width / parts), width / parts);
		uint16_t *rows = take_part(weight, width, i * (width / parts), width / parts);
		must(cublaslt_linear_logits(context, logits, in_part, rows, product->row_count,
			     width / parts, product->output_count, NULL),
			"cublaslt_linear_logits");
		must(cudaDeviceSynchronize(), "kernel");
		must(cudaMemcpy(more, logits, count * sizeof(*more), cudaMemcpyDeviceToHost),
			"cudaMemcpy");
		for (size_t k = 0; k < count; k++) {
			sums[k] = i == 0 ? more[k] : sums[k] + more[k];
		}
		cudaFree(in_part);
		cudaFree(rows);
	}
	cublaslt_close(context);
	cudaFree(logits);
	free(more);
}

/* Two rows more than there are: nothing is written to them. */
static void expect_wide(
	struct linear_operands product, const float *sums, const struct tensor *bias)
{
	uint32_t width = product.output_count;
	size_t count = (size_t)product.row_count * width;
	struct tensor products = tensor_poisoned(count);
	struct tensor out = tensor_poisoned(count + 2 * (size_t)width);
	char what[100];

	for (size_t k = 0; k < count; k++) {
		float sum = bias == NULL ? sums[k] : sums[k] + bias->host[k % width];
		products.host[k] = rounded(sum, ROUNDING);
	}
	product.out = out.device;
	product.bias = bias == NULL ? NULL : bias->device;
	if (product.is_silu) {
		cudaFree(products.device);
		tensor_send(&products);
		struct tensor gated = tensor_poisoned(count / 2);
		must(silu_mul(gated.device, products.device, product.row_count, width / 2, NULL),
			"silu_mul");
		float *bits = tensor_fetch(&gated);
		memcpy(out.host, bits, gated.count * sizeof(*bits));
		free(bits);
		tensor_free(&gated);
	} else {
		memcpy(out.host, products.host, count * sizeof(*out.host));
	}
	must(linear_wide(&product, NULL), "linear_wide");
	snprintf(what, sizeof(what), "linear_wide of %u rows, %u to %u, bias %d, silu %d",
		product.row_count, product.input_count, width, bias != NULL, product.is_silu);
	expect_close(&out, product.is_silu ? width / 2 : width, 0, what);
	tensor_free(&products);
	tensor_free(&out);
}

Test(cuda_kernels, decode_matmul_of_many_rows)
{
	static const uint32_t rows[] = {1, 64, 65, 97, 129, 192, 208, 256, 264, 300};
	static const uint32_t shapes[][2] = {{2048, 1024}, {1024, 6144}, {3072, 1024}, {384, 192},
		{4096, 64}, {2048, 2048}, {2560, 448}};

	skip_unless_decode_matmul();
	for (uint32_t i = 0; i < COUNT(shapes) * COUNT(rows); i++) {
		struct linear_operands product = {.row_count = rows[i % COUNT(rows)],
			.input_count = shapes[i / COUNT(rows)][0],
			.output_count = shapes[i / COUNT(rows)][1]};
		if (!linear_wide_pays(
			    product.row_count, product.input_count, product.output_count)) {
			continue;
		}
		size_t width = product.input_count, outputs = product.output_count;
		struct tensor in = tensor_random(product.row_count * width, i);
		struct tensor weight = tensor_random(outputs * width, 100 + i);
		struct tensor bias = tensor_random(outputs, 200 + i);
		float *sums = memory_take(product.row_count * outputs, sizeof(*sums));

		sum_parts(sums, &in, &weight, &product);
		product.in = in.device;
		product.weight = weight.device;
		expect_wide(product, sums, NULL);
		expect_wide(product, sums, &bias);
		product.is_silu = linear_split_k(product.input_count, product.output_count) == 1;
		if (product.is_silu) {
			expect_wide(product, sums, NULL);
		}
		free(sums);
		tensor_free(&in);
		tensor_free(&weight);
		tensor_free(&bias);
	}
}

/* ---- a row's bits beside any others ---- */

enum { ROWS_MOST = 512 };

/* One of the products, so that all are asked the same question. */
struct row_product {
	const char *name;
	struct cublaslt *context; /* of cublaslt_linear() */
	bool is_silu, is_logits;
	uint32_t width, outputs; /* of the weight */
	size_t row_bytes;	 /* of a row out */
};

static void run_rows(const struct row_product *product, void *out, const uint16_t *in,
	const uint16_t *weight, uint32_t rows)
{
	uint32_t width = product->width, outputs = product->outputs;
	int code;

	if (product->is_logits) {
		code = cublaslt_linear_logits(
			product->context, out, in, weight, rows, width, outputs, NULL);
	} else if (product->context != NULL) {
		code = cublaslt_linear(
			product->context, out, in, weight, NULL, rows, width, outputs, NULL);
	} else if (product->is_silu) {
		code = linear_silu(out, in, weight, rows, width, outputs / 2, NULL);
	} else {
		code = linear(out, in, weight, NULL, rows, width, outputs, NULL);
	}
	must(code, product->name);
}

/* The last rows of every batch, the first, and one between are those of the largest batch. */
static void expect_rows_alone(const struct row_product *product)
{
	static const uint32_t counts[] = {
		1, 2, 7, 8, 9, 16, 33, 64, 65, 100, 128, 129, 192, 255, 256, 511};
	struct tensor in = tensor_random((size_t)ROWS_MOST * product->width, 1);
	struct tensor weight = tensor_random((size_t)product->outputs * product->width, 9);
	size_t bytes = ROWS_MOST * product->row_bytes;
	unsigned char *all = memory_take(bytes, 1), *some = memory_take(bytes, 1);
	void *out = device_take(bytes);

	run_rows(product, out, in.device, weight.device, ROWS_MOST);
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(all, out, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (uint32_t i = 0; i < 2 * COUNT(counts); i++) {
		uint32_t rows = counts[i / 2], first = i % 2 == 0 ? 0 : ROWS_MOST - rows;
		must(cudaMemset(out, 0xff, bytes), "cudaMemset");
		run_rows(product, out, in.device + (size_t)first * product->width, weight.device,
			rows);
		must(cudaDeviceSynchronize(), "kernel");
		must(cudaMemcpy(some, out, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
		cr_expect(memcmp(some, all + first * product->row_bytes,
				  rows * product->row_bytes) == 0,
			"%s, %u to %u: rows %u to %u have other bits beside %u", product->name,
			product->width, product->outputs, first, first + rows, ROWS_MOST);
	}
	free(all);
	free(some);
	cudaFree(out);
	tensor_free(&in);
	tensor_free(&weight);
}

/* Widths of qwen3-0.6b. */
static const uint32_t layer_shapes[][2] = {{1024, 4096}, {2048, 1024}, {1024, 6144}, {3072, 1024}};

Test(cuda_kernels, decode_matmul_rows_do_not_see_each_other)
{
	skip_unless_decode_matmul();
	for (uint32_t i = 0; i < COUNT(layer_shapes); i++) {
		struct row_product product = {.name = "decode_matmul",
			.width = layer_shapes[i][0],
			.outputs = layer_shapes[i][1],
			.row_bytes = layer_shapes[i][1] * sizeof(uint16_t)};
		cr_expect(linear_fits(product.width, product.outputs));
		expect_rows_alone(&product);
		product.name = "decode_matmul_silu";
		product.is_silu = true;
		product.row_bytes /= 2;
		expect_rows_alone(&product);
	}
}

Test(cuda_kernels, matmul_rows_do_not_see_each_other)
{
	struct cublaslt *context;

	must(cublaslt_open(&context), "cublaslt_open");
	for (uint32_t i = 0; i < COUNT(layer_shapes); i++) {
		struct row_product product = {.name = "matmul",
			.context = context,
			.width = layer_shapes[i][0],
			.outputs = layer_shapes[i][1],
			.row_bytes = layer_shapes[i][1] * sizeof(uint16_t)};
		expect_rows_alone(&product);
		product.name = "cublaslt_linear_logits";
		product.is_logits = true;
		product.row_bytes *= 2;
		expect_rows_alone(&product);
	}
	cublaslt_close(context);
}

/* ---- products left in parts for the norm behind them ---- */

enum { PARTS = 4, PARTS_WIDTH = 2048, PARTS_OUTPUTS = 1024 };

/* The parts' sums added as is promised: what the norm takes, and what linear() gives. */
static struct tensor add_parts(const float *parts, uint32_t rows)
{
	size_t count = (size_t)rows * PARTS_OUTPUTS;
	struct tensor sum = {.count = count, .host = memory_take(count, sizeof(float))};
	float *host = memory_take(PARTS * count, sizeof(*host));

	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(host, parts, PARTS * count * sizeof(*host), cudaMemcpyDeviceToHost),
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

/* The norm of parts against that of their sum; both with a residual stream of their own. */
static void check_norm_of_parts(
	const float *parts, const struct tensor *sum, uint32_t rows, const uint32_t *index)
{
	struct tensor weight = tensor_random(PARTS_OUTPUTS, 3);
	struct tensor of_parts = tensor_poisoned(sum->count), of_sum = tensor_poisoned(sum->count);
	struct tensor a = tensor_random(sum->count, 4), b = tensor_random(sum->count, 4);

	must(add_rms_norm_parts(of_parts.device, a.device, parts, weight.device, index, PARTS, rows,
		     rows, PARTS_OUTPUTS, 1e-6f, NULL),
		"add_rms_norm_parts");
	must(add_rms_norm(of_sum.device, b.device, sum->device, weight.device, index, rows,
		     PARTS_OUTPUTS, 1e-6f, NULL),
		"add_rms_norm");
	expect_equal_tensors(&of_parts, &of_sum, "norms");
	expect_equal_tensors(&a, &b, "residual streams");
	tensor_free(&weight);
	tensor_free(&of_parts);
	tensor_free(&of_sum);
	tensor_free(&a);
	tensor_free(&b);
}

static void check_parts(struct cublaslt *context, uint32_t rows)
{
	size_t count = (size_t)rows * PARTS_OUTPUTS;
	struct tensor in = tensor_random((size_t)rows * PARTS_WIDTH, 1);
	struct tensor weight = tensor_random((size_t)PARTS_OUTPUTS * PARTS_WIDTH, 2);
	struct tensor out = tensor_poisoned(count);
	float *parts = device_take(PARTS * count * sizeof(*parts));
	uint32_t index[ROWS_MOST];

	must(cublaslt_linear_split_k(context, parts, in.device, weight.device, rows, PARTS_WIDTH,
		     PARTS_OUTPUTS, PARTS, NULL),
		"cublaslt_linear_split_k");
	struct tensor sum = add_parts(parts, rows);
	if (linear_fits(PARTS_WIDTH, PARTS_OUTPUTS)) {
		must(linear(out.device, in.device, weight.device, NULL, rows, PARTS_WIDTH,
			     PARTS_OUTPUTS, NULL),
			"decode_matmul");
		expect_equal_tensors(&sum, &out, "sums of parts and decode_matmul");
	}
	for (uint32_t i = 0; i < rows; i++) {
		index[i] = rows - 1 - i;
	}
	uint32_t *device_index = device_copy(index, rows * sizeof(*index));
	check_norm_of_parts(parts, &sum, rows, NULL);
	check_norm_of_parts(parts, &sum, rows, device_index);
	cudaFree(device_index);
	cudaFree(parts);
	tensor_free(&sum);
	tensor_free(&in);
	tensor_free(&weight);
	tensor_free(&out);
}

Test(cuda_kernels, products_left_in_parts)
{
	static const uint32_t rows[] = {1, 17, 64, 65, 200, 257, ROWS_MOST};
	struct cublaslt *context;

	cr_assert(linear_split_k(PARTS_WIDTH, PARTS_OUTPUTS) == PARTS);
	must(cublaslt_open(&context), "cublaslt_open");
	for (uint32_t i = 0; i < COUNT(rows); i++) {
		check_parts(context, rows[i]);
	}
	cublaslt_close(context);
}

/* A weight whose products with rows keep their size. */
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

/* Each product reads what the one before has written. */
static void run_chain(const struct tensor *chain, const struct tensor *weight, uint32_t rows,
	uint32_t width, bool waits, cudaStream_t stream)
{
	for (uint32_t i = 0; i < LINKS; i++) {
		must(linear(chain[i + 1].device, chain[i].device, weight->device, NULL, rows, width,
			     width, stream),
			"decode_matmul");
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
			tensor_poison(&chain[i]); /* what an earlier launch left would do */
		}
		must(cudaDeviceSynchronize(), "cudaMemset");
		must(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
		must(cudaStreamSynchronize(stream), "the graph");
	}
	float *at_once = tensor_fetch(&chain[LINKS]);
	run_chain(chain, &weight, rows, width, true, NULL);
	memcpy(chain[LINKS].host, at_once, chain[LINKS].count * sizeof(float));
	expect_close(&chain[LINKS], width, 0, "a chain of products in a graph");
	free(at_once);
	must(cudaGraphExecDestroy(ready), "cudaGraphExecDestroy");
	must(cudaGraphDestroy(graph), "cudaGraphDestroy");
	must(cudaStreamDestroy(stream), "cudaStreamDestroy");
	for (uint32_t i = 0; i <= LINKS; i++) {
		tensor_free(&chain[i]);
	}
	tensor_free(&weight);
}

/* Kernels that begin before those ahead are done read what these have written all the same: of few
   rows, in parts, and of more rows. */
Test(cuda_kernels, decode_matmul_in_a_graph)
{
	skip_unless_decode_matmul();
	check_chain(1, 1024);
	check_chain(3, 2048);
	check_chain(16, 2048);
	check_chain(40, 1024);
}

/* ---- attention ---- */

/* A paged pool with a permuted table: no two entries share a block. Row r of the batch is not row r
   of the tables. */
struct paged {
	struct attention_shape shape;
	uint32_t row_count;
	uint32_t *tables, *device_tables;
	uint32_t *rows, *device_rows;
	uint32_t *device_contexts;
	struct tensor keys, values;
};

/* Puts the chunks of the pool's rows from their order into the device's, or back. */
static void permute_rows(float *rows, size_t row_count, const struct attention_shape *shape)
{
	uint32_t dim = shape->head_dim;
	float *row = memory_take(dim, sizeof(*row));

	for (size_t r = 0; r < row_count; r++) {
		uint32_t token = (uint32_t)(r % shape->block_size);
		memcpy(row, rows + r * dim, dim * sizeof(*row));
		for (uint32_t chunk = 0; chunk < dim / 8; chunk++) {
			memcpy(rows + r * dim + (size_t)paged_kv_chunk(shape, token, chunk) * 8,
				row + (size_t)chunk * 8, 8 * sizeof(*row));
		}
	}
	free(row);
}

static struct tensor pool_random(
	size_t row_count, const struct attention_shape *shape, uint64_t key)
{
	size_t count = row_count * shape->head_dim;
	struct tensor tensor = {.count = count, .host = memory_take(count, sizeof(float))};

	case_fill(tensor.host, count, key, CASE_UNIFORM);
	permute_rows(tensor.host, row_count, shape);
	tensor_send(&tensor);
	permute_rows(tensor.host, row_count, shape);
	return tensor;
}

static struct paged paged_make(
	struct attention_shape shape, const uint32_t *contexts, uint32_t row_count, uint64_t key)
{
	struct paged paged = {.shape = shape, .row_count = row_count};
	uint32_t most = 0;

	paged.rows = memory_take(row_count, sizeof(*paged.rows));
	for (uint32_t r = 0; r < row_count; r++) {
		paged.rows[r] = row_count - 1 - r;
		most = contexts[r] > most ? contexts[r] : most;
	}
	uint32_t width = (most + shape.block_size - 1) / shape.block_size;
	uint32_t entries = width * row_count;
	paged.shape.table_width = width;
	paged.tables = memory_take(entries, sizeof(uint32_t));
	for (uint32_t i = 0; i < entries; i++) {
		paged.tables[i] = i + 1;
	}
	for (uint32_t i = entries; i > 1; i--) {
		uint32_t j = (uint32_t)(counter_hash(key, i) % i);
		uint32_t swapped = paged.tables[i - 1];
		paged.tables[i - 1] = paged.tables[j];
		paged.tables[j] = swapped;
	}
	size_t count = (size_t)(entries + 1) * shape.kv_head_count * shape.block_size;
	paged.keys = pool_random(count, &shape, key + 1);
	paged.values = pool_random(count, &shape, key + 2);
	paged.device_tables = device_copy(paged.tables, entries * sizeof(uint32_t));
	paged.device_rows = device_copy(paged.rows, row_count * sizeof(uint32_t));
	paged.device_contexts = device_copy(contexts, row_count * sizeof(uint32_t));
	return paged;
}

static void paged_free(struct paged *paged)
{
	free(paged->tables);
	free(paged->rows);
	cudaFree(paged->device_tables);
	cudaFree(paged->device_rows);
	cudaFree(paged->device_contexts);
	tensor_free(&paged->keys);
	tensor_free(&paged->values);
}

/* Buffers of the splits; returns what a launch gets. */
static struct decode_work decode_work_make(
	const struct paged *paged, const uint32_t *contexts, uint32_t block_count)
{
	const struct attention_shape *shape = &paged->shape;
	uint32_t count = paged->row_count, splits = 0;
	uint32_t most = shape->table_width * shape->block_size / DECODE_SPLIT + 1;
	uint32_t *start = memory_take(count + 1, sizeof(*start));
	struct decode_split *list = memory_take((size_t)count * most, sizeof(*list));

	for (uint32_t r = 0; r < count; r++) {
		start[r] = splits;
		for (uint32_t i = 0; i * DECODE_SPLIT < contexts[r]; i++) {
			list[splits++] = (struct decode_split){.row = r, .index = i};
		}
	}
	start[count] = splits;
	size_t heads = (size_t)splits * shape->head_count;
	size_t arrivals = 1 + (size_t)count * shape->kv_head_count;
	struct decode_work work = {
		.tables = paged->device_tables,
		.rows = paged->device_rows,
		.contexts = paged->device_contexts,
		.splits = device_copy(list, splits * sizeof(*list)),
		.split_start = device_copy(start, (count + 1) * sizeof(*start)),
		.partial_out = device_take(heads * shape->head_dim * sizeof(float)),
		.partial_state = device_take(heads * 2 * sizeof(float)),
		.arrivals = device_take(arrivals * sizeof(uint32_t)),
		.block_count = block_count,
	};
	must(cudaMemset(work.arrivals, 0, arrivals * sizeof(uint32_t)), "cudaMemset");
	free(start);
	free(list);
	return work;
}

static void decode_work_free(struct decode_work *work)
{
	cudaFree((void *)(uintptr_t)work->splits);
	cudaFree((void *)(uintptr_t)work->split_start);
	cudaFree(work->partial_out);
	cudaFree(work->partial_state);
	cudaFree(work->arrivals);
}

/* The paths that this device has. */
static uint32_t decode_paths(enum kernel_path *paths)
{
	paths[0] = KERNEL_PATH_GENERAL;
	paths[1] = KERNEL_PATH_SM90;
	return kernel_path_of_device() == KERNEL_PATH_SM90 ? 2 : 1;
}

/* Computes rows [first, first + count) of the batch. */
static void decode_rows(struct tensor *out, const struct tensor *query, const struct paged *paged,
	struct decode_work *work, uint32_t first, uint32_t count)
{
	work->first_row = first;
	must(decode_attention(out->device, query->device, paged->keys.device, paged->values.device,
		     work, count, &paged->shape, NULL),
		"decode_attention");
}

/* out: what the twin says. */
static void check_decode_path(struct tensor *out, const struct tensor *query,
	const struct paged *paged, struct decode_work *work)
{
	uint32_t count = paged->row_count;
	size_t width = out->count / count;
	uint32_t units = count * paged->shape.kv_head_count;
	const struct {
		const char *what;
		uint32_t first_rows, block_count;
	} ways[] = {{"two launches", count / 2, work->block_count}, {"one block", 0, 1},
		{"many blocks", 0, 3 * work->block_count + 1}, {"clusters", 0, 16 * units}};

	tensor_poison(out);
	decode_rows(out, query, paged, work, 0, count);
	expect_close(out, width, BF16_TOLERANCE, "decode_attention");
	float *whole = tensor_fetch(out);
	for (uint32_t i = 0; i < COUNT(ways); i++) {
		tensor_poison(out);
		work->block_count = ways[i].block_count;
		decode_rows(out, query, paged, work, 0, ways[i].first_rows);
		decode_rows(
			out, query, paged, work, ways[i].first_rows, count - ways[i].first_rows);
		float *again = tensor_fetch(out);
		cr_expect(memcmp(whole, again, out->count * sizeof(float)) == 0,
			"%s give other bits", ways[i].what);
		free(again);
	}
	free(whole);
}

static void check_decode(struct attention_shape shape, const uint32_t *contexts, uint32_t count,
	uint32_t block_count)
{
	struct paged paged = paged_make(shape, contexts, count, 11);
	size_t size = (size_t)count * shape.head_count * shape.head_dim;
	struct tensor query = tensor_random(size, 5), out = tensor_poisoned(size);
	enum kernel_path paths[2];
	uint32_t path_count = decode_paths(paths);

	decode_attention_cpu(out.host, query.host, paged.keys.host, paged.values.host, paged.tables,
		paged.rows, contexts, count, &paged.shape, ROUNDING);
	for (uint32_t i = 0; i < path_count; i++) {
		struct decode_work work = decode_work_make(&paged, contexts, block_count);
		work.path = paths[i];
		check_decode_path(&out, &query, &paged, &work);
		decode_work_free(&work);
	}
	paged_free(&paged);
	tensor_free(&query);
	tensor_free(&out);
}

static struct attention_shape shape_of(const struct kernel_case *c)
{
	return (struct attention_shape){.head_count = c->heads,
		.kv_head_count = c->kv_heads,
		.head_dim = c->head_dim,
		.block_size = c->block_size};
}

static void check_decode_case(const struct kernel_case *c)
{
	uint32_t *contexts = memory_take(c->rows, sizeof(*contexts));

	for (uint32_t r = 0; r < c->rows; r++) {
		contexts[r] = kernel_case_context(c, r);
	}
	check_decode(shape_of(c), contexts, c->rows, c->is_tiny ? 7 : 264);
	free(contexts);
}

/* Every number of query heads to a key/value head, with every size of a head. */
static struct attention_shape shape_of_group(uint32_t group, uint32_t i)
{
	static const uint32_t dims[] = {32, 64, 128};

	return (struct attention_shape){.head_count = 2 * group,
		.kv_head_count = 2,
		.head_dim = dims[i],
		.block_size = (group + i) % 2 == 0 ? 64 : 256};
}

static const struct attention_shape SMALLEST_PUBLISHED = {
	.head_count = 16, .kv_head_count = 8, .head_dim = 128, .block_size = 256};

Test(cuda_kernels, decode_attention)
{
	static const uint32_t contexts[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1000, 2049};
	static const uint32_t long_contexts[] = {8193, 100};

	for (uint32_t i = 0; i < 24; i++) {
		check_decode(shape_of_group(1 + i / 3, i % 3), contexts, COUNT(contexts), 7);
	}
	check_decode(SMALLEST_PUBLISHED, contexts, COUNT(contexts), 7);
	/* Without the longest a block may take all splits of a row. */
	check_decode(SMALLEST_PUBLISHED, contexts, COUNT(contexts) - 1, 7);
	for (uint32_t i = 0; i < COUNT(contexts); i++) {
		check_decode(SMALLEST_PUBLISHED, contexts + i, 1, 1 + i);
	}
	/* More than is gathered at a time. */
	check_decode(shape_of_group(2, 2), long_contexts, COUNT(long_contexts), 7);
	check_decode(shape_of_group(8, 2), long_contexts, COUNT(long_contexts), 7);
	for_table(KERNEL_DECODE_ATTENTION, 12, check_decode_case);
}

/* Padding of a graph: rows without context behind the others get zeroes and change nothing else. */
Test(cuda_kernels, decode_attention_of_padded_rows)
{
	static const uint32_t contexts[] = {300, 1, 0, 0, 0};
	enum { ROWS = COUNT(contexts), REAL = 2 };
	struct attention_shape shape = SMALLEST_PUBLISHED;
	struct paged paged = paged_make(shape, contexts, ROWS, 11);
	size_t row = (size_t)shape.head_count * shape.head_dim;
	struct tensor query = tensor_random(ROWS * row, 5), out = tensor_poisoned(ROWS * row);
	enum kernel_path paths[2];
	uint32_t path_count = decode_paths(paths);

	decode_attention_cpu(out.host, query.host, paged.keys.host, paged.values.host, paged.tables,
		paged.rows, contexts, REAL, &paged.shape, ROUNDING);
	memset(out.host + REAL * row, 0, (ROWS - REAL) * row * sizeof(float));
	for (uint32_t i = 0; i < path_count; i++) {
		struct decode_work work = decode_work_make(&paged, contexts, 7);
		work.path = paths[i];
		for (; work.block_count < 1000; work.block_count *= 5) {
			tensor_poison(&out);
			decode_rows(&out, &query, &paged, &work, 0, ROWS);
			expect_close(&out, row, BF16_TOLERANCE, "decode_attention of padded rows");
		}
		decode_work_free(&work);
	}
	paged_free(&paged);
	tensor_free(&query);
	tensor_free(&out);
}

/* Row r of the batch with nothing beside it, into row 0 of out. */
static void decode_alone(struct tensor *out, const struct tensor *query, const struct paged *paged,
	const uint32_t *contexts, uint32_t r, enum kernel_path path)
{
	struct paged alone = *paged;
	struct tensor its_query = *query;

	alone.row_count = 1;
	alone.device_rows += r;
	alone.device_contexts += r;
	its_query.device += (size_t)r * paged->shape.head_count * paged->shape.head_dim;
	struct decode_work work = decode_work_make(&alone, contexts + r, 13);
	work.path = path;
	tensor_poison(out);
	decode_rows(out, &its_query, &alone, &work, 0, 1);
	decode_work_free(&work);
}

Test(cuda_kernels, decode_attention_of_a_row_is_the_same_bits_alone)
{
	static const uint32_t contexts[] = {
		1, 700, 64, 65, 256, 257, 2000, 511, 15, 16, 17, 1024, 320, 2, 1025, 100};
	enum { ROWS = COUNT(contexts) };
	struct attention_shape shape = SMALLEST_PUBLISHED;
	struct paged paged = paged_make(shape, contexts, ROWS, 11);
	size_t row = (size_t)shape.head_count * shape.head_dim;
	struct tensor query = tensor_random(ROWS * row, 5), out = tensor_poisoned(ROWS * row);
	enum kernel_path paths[2];
	uint32_t path_count = decode_paths(paths);

	for (uint32_t i = 0; i < path_count; i++) {
		struct decode_work work = decode_work_make(&paged, contexts, 5);
		work.path = paths[i];
		decode_rows(&out, &query, &paged, &work, 0, ROWS);
		float *together = tensor_fetch(&out);
		for (uint32_t r = 0; r < ROWS; r++) {
			decode_alone(&out, &query, &paged, contexts, r, paths[i]);
			float *alone = tensor_fetch(&out);
			cr_expect(memcmp(alone, together + r * row, row * sizeof(float)) == 0,
				"path %u, row %u", i, r);
			free(alone);
		}
		free(together);
		decode_work_free(&work);
	}
	paged_free(&paged);
	tensor_free(&query);
	tensor_free(&out);
}

/* The work of rows; its lists are on the device. */
static struct prefill_work prefill_work_make(const struct paged *paged, const uint32_t *start,
	const uint32_t *contexts, uint32_t count, enum kernel_path path)
{
	size_t most = start[count] / PREFILL_QUERY_TILE + count;
	struct prefill_tile *tiles = memory_take(most, sizeof(*tiles));
	uint32_t tile_count = prefill_tiles_fill(tiles, start, contexts, 0, count);
	struct prefill_work work = {
		.path = path,
		.tables = paged->device_tables,
		.rows = paged->device_rows,
		.query_start = device_copy(start, (count + 1) * sizeof(*start)),
		.contexts = device_copy(contexts, count * sizeof(*contexts)),
		.tiles = device_copy(tiles, tile_count * sizeof(*tiles)),
		.tile_count = tile_count,
	};

	free(tiles);
	return work;
}

static void prefill_work_free(struct prefill_work *work)
{
	cudaFree((void *)(uintptr_t)work->query_start);
	cudaFree((void *)(uintptr_t)work->contexts);
	cudaFree((void *)(uintptr_t)work->tiles);
}

/* tokens: of each row that are computed, the last of its context. */
static void check_prefill(struct attention_shape shape, const uint32_t *tokens,
	const uint32_t *contexts, uint32_t count)
{
	uint32_t *start = memory_take(count + 1, sizeof(*start));

	start[0] = 3; /* decode tokens in front */
	for (uint32_t r = 0; r < count; r++) {
		start[r + 1] = start[r] + tokens[r];
	}
	struct paged paged = paged_make(shape, contexts, count, 21);
	size_t size = (size_t)start[count] * shape.head_count * shape.head_dim;
	struct tensor query = tensor_random(size, 6), out = tensor_poisoned(size);
	prefill_attention_cpu(out.host, query.host, paged.keys.host, paged.values.host,
		paged.tables, paged.rows, start, contexts, count, &paged.shape, ROUNDING);
	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		struct prefill_work work =
			prefill_work_make(&paged, start, contexts, count, (enum kernel_path)path);
		tensor_poison(&out);
		must(prefill_attention(out.device, query.device, paged.keys.device,
			     paged.values.device, &work, &paged.shape, NULL),
			"prefill_attention");
		expect_close(&out, (size_t)shape.head_count * shape.head_dim, BF16_TOLERANCE,
			path == KERNEL_PATH_SM90 ? "prefill_attention of sm_90"
						 : "prefill_attention");
		prefill_work_free(&work);
	}
	free(start);
	paged_free(&paged);
	tensor_free(&query);
	tensor_free(&out);
}

static void check_prefill_case(const struct kernel_case *c)
{
	uint32_t *contexts = memory_take(c->rows, sizeof(*contexts));
	uint32_t *tokens = memory_take(c->rows, sizeof(*tokens));

	for (uint32_t r = 0; r < c->rows; r++) {
		contexts[r] = kernel_case_context(c, r);
		tokens[r] = kernel_case_chunk(c, r);
	}
	check_prefill(shape_of(c), tokens, contexts, c->rows);
	free(contexts);
	free(tokens);
}

Test(cuda_kernels, prefill_attention)
{
	/* whole prompts, then such behind a cached prefix */
	static const uint32_t tokens[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 200, 257, 1, 1, 5, 130, 64, 1, 33};
	static const uint32_t contexts[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 200, 257, 65, 256, 261, 387, 512, 2049, 545};

	for (uint32_t i = 0; i < 24; i++) {
		check_prefill(shape_of_group(1 + i / 3, i % 3), tokens, contexts, COUNT(contexts));
	}
	check_prefill(SMALLEST_PUBLISHED, tokens, contexts, COUNT(contexts));
	for (uint32_t i = 0; i < COUNT(contexts); i++) {
		check_prefill(SMALLEST_PUBLISHED, tokens + i, contexts + i, 1);
	}
	for_table(KERNEL_PREFILL_ATTENTION, 8, check_prefill_case);
}

enum { CHUNKS = 9 };

/* A sequence in chunks, cut at ends[0 .. count - 1]: all in one launch, or each in its own. */
static void run_chunks(struct tensor *out, const struct tensor *query, struct paged *paged,
	const uint32_t *ends, uint32_t count, bool in_one, enum kernel_path path)
{
	uint32_t start[CHUNKS + 1] = {0};

	memcpy(start + 1, ends, count * sizeof(*ends));
	tensor_poison(out);
	for (uint32_t r = 0; r < count; r += in_one ? count : 1) {
		struct prefill_work work =
			prefill_work_make(paged, start + r, ends + r, in_one ? count : 1, path);
		must(prefill_attention(out->device, query->device, paged->keys.device,
			     paged->values.device, &work, &paged->shape, NULL),
			"prefill_attention of chunks");
		prefill_work_free(&work);
	}
}

/* What a token gets has the same bits however its sequence is cut. */
static void check_chunks(struct attention_shape shape, enum kernel_path path)
{
	static const uint32_t ends[CHUNKS] = {1, 64, 100, 333, 334, 512, 777, 1280, 1290};
	uint32_t whole = ends[CHUNKS - 1];
	struct paged paged = paged_make(shape, &whole, 1, 31);
	uint32_t no_rows[CHUNKS] = {0}; /* every chunk is of the same sequence */
	size_t size = (size_t)whole * shape.head_count * shape.head_dim;
	struct tensor query = tensor_random(size, 7), out = tensor_poisoned(size);

	cudaFree(paged.device_rows);
	paged.device_rows = device_copy(no_rows, sizeof(no_rows));
	run_chunks(&out, &query, &paged, &whole, 1, true, path);
	float *expected = tensor_fetch(&out);
	for (int in_one = 0; in_one < 2; in_one++) {
		run_chunks(&out, &query, &paged, ends, CHUNKS, in_one, path);
		float *got = tensor_fetch(&out);
		cr_expect(memcmp(got, expected, size * sizeof(float)) == 0,
			"path %d: chunks in %s give other bits", (int)path,
			in_one ? "one launch" : "launches of their own");
		free(got);
	}
	free(expected);
	paged_free(&paged);
	tensor_free(&query);
	tensor_free(&out);
}

Test(cuda_kernels, prefill_attention_in_chunks)
{
	for (uint32_t path = 0; path <= kernel_path_of_device(); path++) {
		for (uint32_t i = 0; i < 24; i++) {
			check_chunks(shape_of_group(1 + i / 3, i % 3), (enum kernel_path)path);
		}
		check_chunks(SMALLEST_PUBLISHED, (enum kernel_path)path);
	}
}

enum { POSITIONS = 700 };

/* Slots of tokens, no two the same, all over the pool; every fourth token has none. */
static void fill_store(
	const struct kernel_case *c, uint32_t slot_count, uint32_t *positions, int64_t *slots)
{
	static const uint32_t edges[] = {0, 1, 63, 64, 65, 300, 511, 512, 699};

	for (uint32_t t = 0; t < c->rows; t++) {
		positions[t] = t < COUNT(edges) ? edges[t] : t * 37 % POSITIONS;
		slots[t] = t % 4 == 3 ? -1 : (int64_t)((t * 7 + slot_count - 1) % slot_count);
	}
}

static void check_store(const struct kernel_case *c)
{
	struct attention_shape shape = shape_of(c);
	uint32_t blocks = 2 + 2 * c->rows / c->block_size;
	blocks += blocks % 7 == 0; /* so that steps of 7 slots meet no slot twice */
	uint32_t slot_count = blocks * c->block_size;
	size_t heads = c->heads + 2 * c->kv_heads, dim = c->head_dim;
	size_t pool = slot_count * c->kv_heads * dim;
	struct tensor qkv = tensor_random(c->rows * heads * dim, 4);
	struct tensor q_weight = tensor_random(dim, 40), k_weight = tensor_random(dim, 41);
	struct tensor query = tensor_poisoned(c->rows * c->heads * dim);
	struct tensor keys = tensor_poisoned(pool), values = tensor_poisoned(pool);
	uint32_t *positions = memory_take(c->rows, sizeof(*positions));
	int64_t *slots = memory_take(c->rows, sizeof(*slots));
	float *rope = memory_take(POSITIONS * dim, sizeof(float));

	fill_store(c, slot_count, positions, slots);
	rope_table_fill(rope, POSITIONS, c->head_dim, 1e6);
	uint32_t *device_positions = device_copy(positions, c->rows * sizeof(*positions));
	int64_t *device_slots = device_copy(slots, c->rows * sizeof(*slots));
	float *device_rope = device_copy(rope, POSITIONS * dim * sizeof(float));
	const struct qk_norm_rope norm = {q_weight.host, k_weight.host, rope, 1e-6f};
	const struct qk_norm_rope_device device = {
		q_weight.device, k_weight.device, device_rope, 1e-6f};
	qk_norm_rope_store_cpu(query.host, keys.host, values.host, qkv.host, positions, slots,
		c->rows, &norm, &shape, ROUNDING);
	must(qk_norm_rope_store(query.device, keys.device, values.device, qkv.device,
		     device_positions, device_slots, c->rows, &device, &shape, NULL),
		"qk_norm_rope_store");
	permute_rows(keys.host, pool / dim, &shape);
	permute_rows(values.host, pool / dim, &shape);
	expect_close(&query, dim, BF16_TOLERANCE, "query");
	expect_close(&keys, dim, BF16_TOLERANCE, "keys"); /* untouched slots stay poisoned */
	expect_close(&values, dim, 0, "values");
	/* In pieces it is the same, bit by bit. */
	float *whole[] = {tensor_fetch(&query), tensor_fetch(&keys), tensor_fetch(&values)};
	tensor_poison(&query);
	tensor_poison(&keys);
	tensor_poison(&values);
	for (uint32_t t = 0, count = c->rows > 700 ? 700 : 7; t < c->rows; t += count) {
		count = c->rows - t < count ? c->rows - t : count;
		must(qk_norm_rope_store(query.device + t * c->heads * dim, keys.device,
			     values.device, qkv.device + t * heads * dim, device_positions + t,
			     device_slots + t, count, &device, &shape, NULL),
			"qk_norm_rope_store of a piece");
	}
	expect_same_bits(&query, whole[0], "query in pieces");
	expect_same_bits(&keys, whole[1], "keys in pieces");
	expect_same_bits(&values, whole[2], "values in pieces");
	free(rope);
	free(positions);
	free(slots);
	cudaFree(device_positions);
	cudaFree(device_slots);
	cudaFree(device_rope);
	tensor_free(&qkv);
	tensor_free(&query);
	tensor_free(&keys);
	tensor_free(&values);
	tensor_free(&q_weight);
	tensor_free(&k_weight);
}

Test(cuda_kernels, qk_norm_rope_store)
{
	for (uint32_t i = 0; i < 24; i++) {
		struct attention_shape shape = shape_of_group(1 + i / 3, i % 3);
		const struct kernel_case c = {.kernel = KERNEL_QK_NORM_ROPE_STORE,
			.rows = 1 + 5 * i,
			.heads = shape.head_count,
			.kv_heads = shape.kv_head_count,
			.head_dim = shape.head_dim,
			.block_size = shape.block_size};
		check_store(&c);
	}
	for_table(KERNEL_QK_NORM_ROPE_STORE, 4, check_store);
}

/* ---- sampling ---- */

/* Ties among the best, NaN and infinities, in some of the rows. */
static void fill_logits(float *logits, uint32_t row, uint32_t size, uint64_t key)
{
	case_fill(logits, size, key, CASE_UNIFORM);
	for (uint32_t v = 0; v < size; v++) {
		float x = 10 * logits[v];
		x = row % 8 == 1 && v % 7 == 3 ? 12 : x;
		x = row % 8 == 4 && v % 2 == 0 ? NAN : x;
		x = row % 8 == 6 ? -INFINITY : x;
		x = row % 8 == 7 && v % 1000 == 999 ? INFINITY : x;
		logits[v] = x;
	}
}

/* What a sampler reads and writes on the device. */
struct sampling {
	float *logits, *heats;
	uint64_t *keys;
	uint32_t *rows;
	int32_t *drawn, *last;
	void *tiles;
};

static void sampling_free(struct sampling *sampling)
{
	cudaFree(sampling->logits);
	cudaFree(sampling->heats);
	cudaFree(sampling->keys);
	cudaFree(sampling->rows);
	cudaFree(sampling->drawn);
	cudaFree(sampling->last);
	cudaFree(sampling->tiles);
}

static void check_drawn(const struct sampling *sampling, const struct kernel_case *c,
	const uint32_t *rows, const int32_t *expected)
{
	int32_t *drawn = memory_take(c->rows, sizeof(*drawn));
	int32_t *last = memory_take(c->rows, sizeof(*last));
	size_t bytes = c->rows * sizeof(*drawn);

	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(drawn, sampling->drawn, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	must(cudaMemcpy(last, sampling->last, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (uint32_t r = 0; r < c->rows; r++) {
		cr_expect(drawn[r] == expected[r], "size %u row %u: %d, expected %d", c->outputs, r,
			drawn[r], expected[r]);
		if (rows[r] != SAMPLER_NO_ROW) {
			cr_expect(last[rows[r]] == expected[r], "the last token of row %u", r);
		} else {
			cr_expect(last[c->rows - 1 - r] == -1, "a row noted for padding %u", r);
		}
	}
	free(drawn);
	free(last);
}

static void check_sampler(const struct kernel_case *c)
{
	static const float heats[] = {0, 0, 0.1f, 0.7f, 1, 1, 1.5f, 20};
	uint32_t size = c->outputs, tiles = (size + SAMPLER_TILE - 1) / SAMPLER_TILE;
	float *logits = memory_take((size_t)c->rows * size, sizeof(float));
	float *heat = memory_take(c->rows, sizeof(*heat));
	uint64_t *keys = memory_take(c->rows, sizeof(*keys));
	uint32_t *rows = memory_take(c->rows, sizeof(*rows));
	int32_t *expected = memory_take(c->rows, sizeof(*expected));

	for (uint32_t r = 0; r < c->rows; r++) {
		keys[r] = sampler_row_key(3, r, size);
		heat[r] = heats[r % 8];
		rows[r] = r % 8 == 5 ? SAMPLER_NO_ROW : c->rows - 1 - r;
		fill_logits(logits + (size_t)r * size, r, size, keys[r]);
	}
	struct sampling sampling = {
		.logits = device_copy(logits, (size_t)c->rows * size * sizeof(float)),
		.heats = device_copy(heat, c->rows * sizeof(*heat)),
		.keys = device_copy(keys, c->rows * sizeof(*keys)),
		.rows = device_copy(rows, c->rows * sizeof(*rows)),
		.drawn = device_take(c->rows * sizeof(int32_t)),
		.last = device_take(c->rows * sizeof(int32_t)),
		.tiles = device_take((size_t)c->rows * tiles * SAMPLER_TILE_BYTES),
	};
	sampler_cpu(expected, logits, keys, heat, c->rows, size);
	must(sampler(sampling.drawn, sampling.last, sampling.tiles, sampling.logits, sampling.keys,
		     sampling.heats, sampling.rows, c->rows, size, NULL),
		"sampler");
	check_drawn(&sampling, c, rows, expected);
	sampling_free(&sampling);
	free(logits);
	free(heat);
	free(keys);
	free(rows);
	free(expected);
}

Test(cuda_kernels, sampler_draws_what_its_twin_draws)
{
	static const uint32_t shapes[][3] = {{8, 0, 1}, {8, 0, 2}, {8, 0, 257}, {8, 0, 4095},
		{8, 0, 4096}, {8, 0, 4097}, {8, 0, 151936}};

	for_shapes(KERNEL_SAMPLER, shapes, COUNT(shapes), check_sampler);
	for_table(KERNEL_SAMPLER, 5, check_sampler);
}
