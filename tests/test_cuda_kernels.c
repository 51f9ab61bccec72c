/* Every operation on the GPU against its CPU twin, odd shapes first. Inputs are random values that
   bf16 holds, outputs are poisoned before each run. Skipped, and said so, without a device. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/add_rms_norm.h"
#include "kernels/decode_attention.h"
#include "kernels/embedding.h"
#include "kernels/gather_rows.h"
#include "kernels/matmul.h"
#include "kernels/prefill_attention.h"
#include "kernels/qk_norm_rope_store.h"
#include "kernels/rms_norm.h"
#include "kernels/rope_table.h"
#include "kernels/sampler.h"
#include "kernels/silu_mul.h"
#include "kernels/table_update.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <math.h>
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
	cr_assert(code == 0, "%s: %s", call, matmul_error_text(code));
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
		tensor->host[i] = bf16_to_float(bits[i]);
	}
	tensor->device = device_copy(bits, tensor->count * sizeof(*bits));
	free(bits);
}

static float uniform(uint64_t key, uint64_t i)
{
	return (float)(counter_hash(key, i) >> 40) / (float)(1 << 23) - 1;
}

static struct tensor tensor_random(size_t count, uint64_t key)
{
	struct tensor tensor = {.count = count, .host = memory_take(count, sizeof(float))};

	for (size_t i = 0; i < count; i++) {
		tensor.host[i] = uniform(key, i);
	}
	tensor_send(&tensor);
	return tensor;
}

/* Small integers: every product and sum is exact. */
static struct tensor tensor_integers(size_t count, uint64_t key)
{
	struct tensor tensor = {.count = count, .host = memory_take(count, sizeof(float))};

	for (size_t i = 0; i < count; i++) {
		tensor.host[i] = (float)(counter_hash(key, i) % 5) - 2;
	}
	tensor_send(&tensor);
	return tensor;
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

static void expect_close(const struct tensor *tensor, double tolerance, const char *what)
{
	float *out = tensor_fetch(tensor);
	double error = distance(out, tensor->host, tensor->count);

	cr_expect(error <= tolerance, "%s: relative error %g, at most %g", what, error, tolerance);
	free(out);
}

static const enum rounding ROUNDING = ROUNDING_BF16;
static const double BF16_TOLERANCE = 1e-2;

/* ---- operations on rows ---- */

Test(cuda_kernels, norms)
{
	static const uint32_t widths[] = {8, 64, 1024, 2560, 5120};
	static const uint32_t rows[] = {1, 2, 257};

	for (uint32_t i = 0; i < 15; i++) {
		uint32_t width = widths[i % 5], count = rows[i / 5];
		size_t size = (size_t)width * count;
		struct tensor in = tensor_random(size, 1 + i), weight = tensor_random(width, 50);
		struct tensor residual = tensor_random(size, 100 + i), out = tensor_poisoned(size);
		rms_norm_cpu(out.host, in.host, weight.host, count, width, 1e-6f, ROUNDING);
		must(rms_norm(out.device, in.device, weight.device, count, width, 1e-6f, NULL),
			"rms_norm");
		expect_close(&out, BF16_TOLERANCE, "rms_norm");
		add_rms_norm_cpu(out.host, residual.host, in.host, weight.host, count, width, 1e-6f,
			ROUNDING);
		must(add_rms_norm(out.device, residual.device, in.device, weight.device, count,
			     width, 1e-6f, NULL),
			"add_rms_norm");
		expect_close(&out, BF16_TOLERANCE, "add_rms_norm");
		expect_close(&residual, 0, "the residual stream");
		/* as the forward pass calls it: out is in */
		add_rms_norm_cpu(in.host, residual.host, in.host, weight.host, count, width, 1e-6f,
			ROUNDING);
		must(add_rms_norm(in.device, residual.device, in.device, weight.device, count,
			     width, 1e-6f, NULL),
			"add_rms_norm in place");
		expect_close(&in, BF16_TOLERANCE, "add_rms_norm in place");
		tensor_free(&in);
		tensor_free(&weight);
		tensor_free(&residual);
		tensor_free(&out);
	}
}

Test(cuda_kernels, silu_mul)
{
	static const uint32_t shapes[][2] = {{1, 8}, {3, 96}, {7, 3072}, {257, 12288}};

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t rows = shapes[i][0], width = shapes[i][1];
		struct tensor in = tensor_random((size_t)rows * width * 2, i);
		struct tensor out = tensor_poisoned((size_t)rows * width);
		silu_mul_cpu(out.host, in.host, rows, width, ROUNDING);
		must(silu_mul(out.device, in.device, rows, width, NULL), "silu_mul");
		expect_close(&out, BF16_TOLERANCE, "silu_mul");
		tensor_free(&in);
		tensor_free(&out);
	}
}

Test(cuda_kernels, copies_are_exact)
{
	enum { WIDTH = 1032, VOCABULARY = 99, TOKENS = 5 };
	const int32_t ids[TOKENS] = {0, -1, 98, 7, -1};
	const int32_t last[3] = {55, 12, 31};
	const uint32_t rows[TOKENS] = {0, 2, 0, 0, 1};
	const int32_t resolved[TOKENS] = {0, 31, 98, 7, 12};
	const uint32_t indices[3] = {4, 0, 4};
	struct tensor table = tensor_random((size_t)VOCABULARY * WIDTH, 3);
	struct tensor out = tensor_poisoned((size_t)TOKENS * WIDTH);
	struct tensor gathered = tensor_poisoned((size_t)3 * WIDTH);
	const struct matrix matrix = {.f32 = table.host};

	embedding_cpu(out.host, matrix, resolved, TOKENS, VOCABULARY, WIDTH, ROUNDING);
	must(embedding(out.device, table.device, device_copy(ids, sizeof(ids)),
		     device_copy(last, sizeof(last)), device_copy(rows, sizeof(rows)), TOKENS,
		     WIDTH, NULL),
		"embedding");
	expect_close(&out, 0, "embedding");
	gather_rows_cpu(gathered.host, out.host, indices, 3, WIDTH);
	must(gather_rows(gathered.device, out.device, device_copy(indices, sizeof(indices)), 3,
		     WIDTH, NULL),
		"gather_rows");
	expect_close(&gathered, 0, "gather_rows");
}

Test(cuda_kernels, table_update)
{
	const struct table_addition additions[] = {{0, 0, 5}, {2, 1, 7}, {1, 3, 9}};
	uint32_t expected[12], tables[12];

	memset(expected, 0xff, sizeof(expected));
	expected[0] = 5;
	expected[2 * 4 + 1] = 7;
	expected[1 * 4 + 3] = 9;
	uint32_t *device = device_take(sizeof(tables));
	must(table_update(device, 4, device_copy(additions, sizeof(additions)), 3, NULL),
		"table_update");
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(tables, device, sizeof(tables), cudaMemcpyDeviceToHost), "cudaMemcpy");
	cr_expect(memcmp(tables, expected, sizeof(tables)) == 0);
}

/* ---- matrix products ---- */

Test(cuda_kernels, matmul)
{
	static const uint32_t shapes[][3] = {{1, 64, 8}, {1, 1024, 4096}, {7, 2048, 1024},
		{64, 1024, 6144}, {129, 3072, 1024}, {300, 72, 136}};

	struct matmul_context *context;
	must(matmul_open(&context), "matmul_open");
	for (uint32_t i = 0; i < 12; i++) {
		const uint32_t *shape = shapes[i % 6];
		uint32_t rows = shape[0], inputs = shape[1], outputs = shape[2];
		bool is_exact = i < 6;
		struct tensor in = is_exact ? tensor_integers((size_t)rows * inputs, i)
					    : tensor_random((size_t)rows * inputs, i);
		struct tensor weight = is_exact ? tensor_integers((size_t)outputs * inputs, 9)
						: tensor_random((size_t)outputs * inputs, 9);
		struct tensor bias = tensor_random(outputs, 77);
		struct tensor out = tensor_poisoned((size_t)rows * outputs);
		const struct matrix matrix = {.f32 = weight.host};
		matmul_cpu(out.host, in.host, matrix, NULL, rows, inputs, outputs, ROUNDING);
		must(matmul(context, out.device, in.device, weight.device, NULL, rows, inputs,
			     outputs, NULL),
			"matmul");
		expect_close(&out, is_exact ? 0 : BF16_TOLERANCE, "matmul");
		matmul_cpu(out.host, in.host, matrix, bias.host, rows, inputs, outputs, ROUNDING);
		must(matmul(context, out.device, in.device, weight.device, bias.device, rows,
			     inputs, outputs, NULL),
			"matmul with bias");
		expect_close(&out, BF16_TOLERANCE, "matmul with bias");

		size_t count = (size_t)rows * outputs;
		float *logits = memory_take(count, sizeof(float));
		float *device = device_take(count * sizeof(float));
		matmul_cpu(out.host, in.host, matrix, NULL, rows, inputs, outputs, ROUNDING_NONE);
		must(matmul_logits(context, device, in.device, weight.device, rows, inputs, outputs,
			     NULL),
			"matmul_logits");
		must(cudaDeviceSynchronize(), "kernel");
		must(cudaMemcpy(logits, device, count * sizeof(float), cudaMemcpyDeviceToHost),
			"cudaMemcpy");
		cr_expect(distance(logits, out.host, count) <= (is_exact ? 0 : 1e-5));
		free(logits);
		cudaFree(device);
		tensor_free(&in);
		tensor_free(&weight);
		tensor_free(&bias);
		tensor_free(&out);
	}
	matmul_close(context);
}

/* ---- attention ---- */

/* A paged pool with a permuted table: no two entries share a block. */
struct paged {
	struct attention_shape shape;
	uint32_t row_count, block_count;
	uint32_t *tables, *device_tables;
	struct tensor keys, values;
};

static struct paged paged_make(
	struct attention_shape shape, uint32_t row_count, uint32_t context_max, uint64_t key)
{
	struct paged paged = {.shape = shape, .row_count = row_count};
	uint32_t width = (context_max + shape.block_size - 1) / shape.block_size;

	paged.shape.table_width = width;
	paged.block_count = width * row_count + 1;
	paged.tables = memory_take((size_t)width * row_count, sizeof(uint32_t));
	for (uint32_t i = 0; i < width * row_count; i++) {
		paged.tables[i] = i + 1;
	}
	for (uint32_t i = width * row_count; i > 1; i--) {
		uint32_t j = (uint32_t)(counter_hash(key, i) % i);
		uint32_t swapped = paged.tables[i - 1];
		paged.tables[i - 1] = paged.tables[j];
		paged.tables[j] = swapped;
	}
	size_t count =
		(size_t)paged.block_count * shape.kv_head_count * shape.block_size * shape.head_dim;
	paged.keys = tensor_random(count, key + 1);
	paged.values = tensor_random(count, key + 2);
	paged.device_tables =
		device_copy(paged.tables, (size_t)width * row_count * sizeof(uint32_t));
	return paged;
}

static void paged_free(struct paged *paged)
{
	free(paged->tables);
	cudaFree(paged->device_tables);
	tensor_free(&paged->keys);
	tensor_free(&paged->values);
}

static void check_decode(struct attention_shape shape, const uint32_t *contexts, uint32_t count)
{
	uint32_t most = 0, splits = 0;
	uint32_t rows[32], start[33];
	struct decode_split list[1024];

	for (uint32_t r = 0; r < count; r++) {
		rows[r] = count - 1 - r; /* batch order is not table order */
		most = contexts[r] > most ? contexts[r] : most;
		start[r] = splits;
		for (uint32_t i = 0; i * DECODE_SPLIT < contexts[r]; i++) {
			list[splits++] = (struct decode_split){.row = r, .index = i};
		}
	}
	start[count] = splits;
	struct paged paged = paged_make(shape, count, most, 11);
	size_t size = (size_t)count * shape.head_count * shape.head_dim;
	struct tensor query = tensor_random(size, 5), out = tensor_poisoned(size);
	struct decode_work work = {
		.tables = paged.device_tables,
		.rows = device_copy(rows, count * sizeof(uint32_t)),
		.contexts = device_copy(contexts, count * sizeof(uint32_t)),
		.splits = device_copy(list, splits * sizeof(*list)),
		.split_start = device_copy(start, (count + 1) * sizeof(uint32_t)),
		.partial_out = device_take(
			(size_t)splits * shape.head_count * shape.head_dim * sizeof(float)),
		.partial_state = device_take((size_t)splits * shape.head_count * 2 * sizeof(float)),
		.block_count = 7,
	};
	decode_attention_cpu(out.host, query.host, paged.keys.host, paged.values.host, paged.tables,
		rows, contexts, count, &paged.shape, ROUNDING);
	must(decode_attention(out.device, query.device, paged.keys.device, paged.values.device,
		     &work, count, &paged.shape, NULL),
		"decode_attention");
	expect_close(&out, BF16_TOLERANCE, "decode_attention");

	/* In two launches, each with its own rows: the same bits. */
	float *whole = tensor_fetch(&out);
	must(cudaMemset(out.device, 0xff, size * sizeof(uint16_t)), "cudaMemset");
	must(decode_attention(out.device, query.device, paged.keys.device, paged.values.device,
		     &work, count / 2, &paged.shape, NULL),
		"decode_attention of the first rows");
	work.first_row = count / 2;
	must(decode_attention(out.device, query.device, paged.keys.device, paged.values.device,
		     &work, count - count / 2, &paged.shape, NULL),
		"decode_attention of the last rows");
	float *halves = tensor_fetch(&out);
	cr_expect(memcmp(whole, halves, size * sizeof(float)) == 0);
	free(whole);
	free(halves);
	paged_free(&paged);
	tensor_free(&query);
	tensor_free(&out);
}

Test(cuda_kernels, decode_attention)
{
	static const uint32_t contexts[] = {
		1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1000, 2049};
	static const uint32_t dims[] = {32, 64, 128};

	for (uint32_t group = 1; group <= 8; group++) {
		struct attention_shape shape = {.head_count = 2 * group,
			.kv_head_count = 2,
			.head_dim = dims[group % 3],
			.block_size = group % 2 == 0 ? 64 : 256};
		check_decode(shape, contexts, 16);
	}
	struct attention_shape shape = {
		.head_count = 16, .kv_head_count = 8, .head_dim = 128, .block_size = 256};
	check_decode(shape, contexts, 16);
	for (uint32_t i = 0; i < 16; i++) {
		check_decode(shape, contexts + i, 1);
	}
}

static void check_prefill(
	struct attention_shape shape, const uint32_t (*rows_of)[2], uint32_t count)
{
	uint32_t most = 0, tiles = 0;
	uint32_t rows[16], contexts[16], start[17] = {3}; /* three decode tokens in front */
	struct prefill_tile list[512];

	for (uint32_t r = 0; r < count; r++) {
		uint32_t tokens = rows_of[r][0];
		rows[r] = count - 1 - r;
		contexts[r] = rows_of[r][1] + tokens; /* behind a cached prefix */
		most = contexts[r] > most ? contexts[r] : most;
		start[r + 1] = start[r] + tokens;
		for (uint32_t i = 0; i * PREFILL_QUERY_TILE < tokens; i++) {
			list[tiles++] = (struct prefill_tile){.row = r, .index = i};
		}
	}
	struct paged paged = paged_make(shape, count, most, 21);
	size_t size = (size_t)start[count] * shape.head_count * shape.head_dim;
	struct tensor query = tensor_random(size, 6), out = tensor_poisoned(size);
	const struct prefill_work work = {
		.tables = paged.device_tables,
		.rows = device_copy(rows, count * sizeof(uint32_t)),
		.query_start = device_copy(start, (count + 1) * sizeof(uint32_t)),
		.contexts = device_copy(contexts, count * sizeof(uint32_t)),
		.tiles = device_copy(list, tiles * sizeof(*list)),
		.tile_count = tiles,
	};
	prefill_attention_cpu(out.host, query.host, paged.keys.host, paged.values.host,
		paged.tables, rows, start, contexts, count, &paged.shape, ROUNDING);
	must(prefill_attention(out.device, query.device, paged.keys.device, paged.values.device,
		     &work, &paged.shape, NULL),
		"prefill_attention");
	expect_close(&out, BF16_TOLERANCE, "prefill_attention");
	paged_free(&paged);
	tensor_free(&query);
	tensor_free(&out);
}

Test(cuda_kernels, prefill_attention)
{
	/* tokens, cached tokens before them */
	static const uint32_t rows[][2] = {{1, 0}, {2, 0}, {63, 0}, {64, 0}, {65, 0}, {1, 64},
		{1, 255}, {5, 256}, {130, 257}, {200, 0}, {64, 448}};
	static const uint32_t dims[] = {32, 64, 128};

	for (uint32_t group = 1; group <= 8; group++) {
		struct attention_shape shape = {.head_count = 2 * group,
			.kv_head_count = 2,
			.head_dim = dims[group % 3],
			.block_size = group % 2 == 0 ? 64 : 256};
		check_prefill(shape, rows, 11);
	}
	struct attention_shape shape = {
		.head_count = 16, .kv_head_count = 8, .head_dim = 128, .block_size = 256};
	for (uint32_t i = 0; i < 11; i++) {
		check_prefill(shape, rows + i, 1);
	}
}

Test(cuda_kernels, qk_norm_rope_store)
{
	static const uint32_t shapes[][3] = {{2, 1, 32}, {6, 2, 64}, {16, 8, 128}, {8, 1, 128}};
	enum { TOKENS = 9, BLOCKS = 5, BLOCK_SIZE = 64, POSITIONS = 700 };
	const uint32_t positions[TOKENS] = {0, 1, 63, 64, 65, 300, 511, 512, 699};
	const int64_t slots[TOKENS] = {0, 1, 319, -1, 64, 127, 128, 200, -1};

	for (uint32_t i = 0; i < 4; i++) {
		struct attention_shape shape = {.head_count = shapes[i][0],
			.kv_head_count = shapes[i][1],
			.head_dim = shapes[i][2],
			.block_size = BLOCK_SIZE};
		size_t heads = shape.head_count + 2 * shape.kv_head_count;
		size_t pool = (size_t)BLOCKS * BLOCK_SIZE * shape.kv_head_count * shape.head_dim;
		struct tensor qkv = tensor_random(TOKENS * heads * shape.head_dim, i);
		struct tensor q_weight = tensor_random(shape.head_dim, 40);
		struct tensor k_weight = tensor_random(shape.head_dim, 41);
		struct tensor query =
			tensor_poisoned((size_t)TOKENS * shape.head_count * shape.head_dim);
		struct tensor keys = tensor_poisoned(pool), values = tensor_poisoned(pool);
		float *rope = memory_take((size_t)POSITIONS * shape.head_dim, sizeof(float));
		rope_table_fill(rope, POSITIONS, shape.head_dim, 1e6);
		const struct qk_norm_rope norm = {q_weight.host, k_weight.host, rope, 1e-6f};
		const struct qk_norm_rope_device device = {q_weight.device, k_weight.device,
			device_copy(rope, (size_t)POSITIONS * shape.head_dim * sizeof(float)),
			1e-6f};
		qk_norm_rope_store_cpu(query.host, keys.host, values.host, qkv.host, positions,
			slots, TOKENS, &norm, &shape, ROUNDING);
		must(qk_norm_rope_store(query.device, keys.device, values.device, qkv.device,
			     device_copy(positions, sizeof(positions)),
			     device_copy(slots, sizeof(slots)), TOKENS, &device, &shape, NULL),
			"qk_norm_rope_store");
		expect_close(&query, BF16_TOLERANCE, "query");
		expect_close(&keys, BF16_TOLERANCE, "keys"); /* untouched slots stay poisoned */
		expect_close(&values, 0, "values");
		free(rope);
		tensor_free(&qkv);
		tensor_free(&query);
		tensor_free(&keys);
		tensor_free(&values);
		tensor_free(&q_weight);
		tensor_free(&k_weight);
	}
}

/* ---- sampling ---- */

Test(cuda_kernels, sampler_draws_what_its_twin_draws)
{
	static const uint32_t sizes[] = {1, 2, 257, 4096, 4097, 151936};
	static const float heats[] = {0, 0, 0.1f, 0.7f, 1, 1, 1.5f, 20};
	enum { ROWS = 8 };

	for (uint32_t i = 0; i < 6; i++) {
		uint32_t size = sizes[i];
		uint32_t tiles = (size + SAMPLER_TILE - 1) / SAMPLER_TILE;
		float *logits = memory_take((size_t)ROWS * size, sizeof(float));
		uint64_t keys[ROWS];
		uint32_t rows[ROWS];
		int32_t expected[ROWS], drawn[ROWS], last[ROWS];
		for (uint32_t r = 0; r < ROWS; r++) {
			keys[r] = sampler_row_key(3, r, 17 + i);
			rows[r] = r == 5 ? SAMPLER_NO_ROW : ROWS - 1 - r;
			for (uint32_t v = 0; v < size; v++) {
				float x = 10 * uniform(keys[r], v);
				/* ties among the best, NaN and infinities */
				x = r == 1 && v % 7 == 3 ? 12 : x;
				x = r == 4 && v % 2 == 0 ? NAN : x;
				x = r == 6 ? -INFINITY : x;
				x = r == 7 && v % 1000 == 999 ? INFINITY : x;
				logits[(size_t)r * size + v] = x;
			}
		}
		sampler_cpu(expected, logits, keys, heats, ROWS, size);
		int32_t *device = device_take(sizeof(drawn));
		int32_t *device_last = device_take(sizeof(last));
		must(sampler(device, device_last,
			     device_take((size_t)ROWS * tiles * SAMPLER_TILE_BYTES),
			     device_copy(logits, (size_t)ROWS * size * sizeof(float)),
			     device_copy(keys, sizeof(keys)), device_copy(heats, sizeof(heats)),
			     device_copy(rows, sizeof(rows)), ROWS, size, NULL),
			"sampler");
		must(cudaDeviceSynchronize(), "kernel");
		must(cudaMemcpy(drawn, device, sizeof(drawn), cudaMemcpyDeviceToHost),
			"cudaMemcpy");
		must(cudaMemcpy(last, device_last, sizeof(last), cudaMemcpyDeviceToHost),
			"cudaMemcpy");
		for (uint32_t r = 0; r < ROWS; r++) {
			cr_expect(drawn[r] == expected[r], "size %u row %u: %d, expected %d", size,
				r, drawn[r], expected[r]);
			if (rows[r] != SAMPLER_NO_ROW) {
				cr_expect(last[rows[r]] == expected[r]);
			}
		}
		free(logits);
	}
}
