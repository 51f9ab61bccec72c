#include "kernels/op/cases.h"

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "kernels/op/number.h"

#define TINY true
#define MODEL false

#define EMBEDDING(tiny, rows_, width_, vocabulary)                                                 \
	{                                                                                          \
		.kernel = KERNEL_EMBEDDING, .is_tiny = tiny, .rows = rows_, .width = width_,       \
		.outputs = vocabulary,                                                             \
	}
#define BY_ROW(kernel_, tiny, rows_, width_)                                                       \
	{                                                                                          \
		.kernel = kernel_, .is_tiny = tiny, .rows = rows_, .width = width_,                \
	}
#define MATMUL(tiny, rows_, inputs, outputs_, bias)                                                \
	{                                                                                          \
		.kernel = KERNEL_MATMUL, .is_tiny = tiny, .rows = rows_, .width = inputs,          \
		.outputs = outputs_, .has_bias = bias,                                             \
	}
#define DECODE_PRODUCT(kernel_, tiny, rows_, inputs, outputs_)                                     \
	{                                                                                          \
		.kernel = kernel_, .is_tiny = tiny, .rows = rows_, .width = inputs,                \
		.outputs = outputs_,                                                               \
	}
#define STORE(tiny, rows_, heads_, kv, dim, block)                                                 \
	{                                                                                          \
		.kernel = KERNEL_QK_NORM_ROPE_STORE, .is_tiny = tiny, .rows = rows_,               \
		.heads = heads_, .kv_heads = kv, .head_dim = dim, .block_size = block,             \
	}
#define DECODE(tiny, rows_, heads_, kv, dim, block, context_, ragged)                              \
	{                                                                                          \
		.kernel = KERNEL_DECODE_ATTENTION, .is_tiny = tiny, .rows = rows_,                 \
		.heads = heads_, .kv_heads = kv, .head_dim = dim, .block_size = block,             \
		.context = context_, .chunk = 1, .is_ragged = ragged,                              \
	}
#define PREFILL(tiny, rows_, heads_, kv, dim, block, context_, chunk_, ragged)                     \
	{                                                                                          \
		.kernel = KERNEL_PREFILL_ATTENTION, .is_tiny = tiny, .rows = rows_,                \
		.heads = heads_, .kv_heads = kv, .head_dim = dim, .block_size = block,             \
		.context = context_, .chunk = chunk_, .is_ragged = ragged,                         \
	}
#define SAMPLER(tiny, rows_, vocabulary)                                                           \
	{                                                                                          \
		.kernel = KERNEL_SAMPLER, .is_tiny = tiny, .rows = rows_, .outputs = vocabulary,   \
	}

/* Widths of qwen3-0.6b: hidden 1024, qkv 4096, q 2048, intermediate 3072; of qwen3-8b: 4096, 6144,
   4096, 12288. */
#define LAYER_PRODUCTS(rows)                                                                       \
	MATMUL(MODEL, rows, 1024, 4096, false), MATMUL(MODEL, rows, 2048, 1024, false),            \
		MATMUL(MODEL, rows, 1024, 6144, false), MATMUL(MODEL, rows, 3072, 1024, false),    \
		MATMUL(MODEL, rows, 4096, 6144, false), MATMUL(MODEL, rows, 4096, 4096, false),    \
		MATMUL(MODEL, rows, 4096, 24576, false), MATMUL(MODEL, rows, 12288, 4096, false)

/* A decode step of qwen3-0.6b. */
#define DECODE_PRODUCTS(rows)                                                                      \
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL, MODEL, rows, 1024, 4096),                             \
		DECODE_PRODUCT(KERNEL_DECODE_MATMUL, MODEL, rows, 2048, 1024),                     \
		DECODE_PRODUCT(KERNEL_DECODE_MATMUL, MODEL, rows, 3072, 1024)

static const struct kernel_case cases[] = {
	EMBEDDING(TINY, 1, 1, 1),
	EMBEDDING(TINY, 7, 34, 11),
	EMBEDDING(MODEL, 1, 1024, 151936),
	EMBEDDING(MODEL, 256, 1024, 151936),
	EMBEDDING(MODEL, 16384, 1024, 151936),

	BY_ROW(KERNEL_RMS_NORM, TINY, 1, 1),
	BY_ROW(KERNEL_RMS_NORM, TINY, 3, 15),
	BY_ROW(KERNEL_RMS_NORM, TINY, 5, 1024),
	BY_ROW(KERNEL_RMS_NORM, MODEL, 1, 1024),
	BY_ROW(KERNEL_RMS_NORM, MODEL, 256, 1024),
	BY_ROW(KERNEL_RMS_NORM, MODEL, 16384, 4096),

	BY_ROW(KERNEL_ADD_RMS_NORM, TINY, 1, 2),
	BY_ROW(KERNEL_ADD_RMS_NORM, TINY, 3, 17),
	BY_ROW(KERNEL_ADD_RMS_NORM, TINY, 5, 2560),
	BY_ROW(KERNEL_ADD_RMS_NORM, MODEL, 1, 1024),
	BY_ROW(KERNEL_ADD_RMS_NORM, MODEL, 256, 1024),
	BY_ROW(KERNEL_ADD_RMS_NORM, MODEL, 16384, 1024),

	STORE(TINY, 1, 1, 1, 2, 1),
	STORE(TINY, 9, 3, 1, 16, 4),
	STORE(TINY, 70, 16, 8, 128, 64),
	STORE(MODEL, 1, 16, 8, 128, 256),
	STORE(MODEL, 256, 16, 8, 128, 256),
	STORE(MODEL, 16384, 16, 8, 128, 256),

	DECODE(TINY, 1, 1, 1, 2, 1, 1, false),
	DECODE(TINY, 3, 2, 2, 16, 5, 11, true),
	DECODE(TINY, 2, 2, 1, 128, 64, 1, false),
	DECODE(TINY, 2, 2, 1, 128, 64, 63, false),
	DECODE(TINY, 2, 2, 1, 128, 64, 64, false),
	DECODE(TINY, 2, 2, 1, 128, 64, 65, false),
	DECODE(TINY, 9, 3, 1, 128, 64, 200, true),
	DECODE(TINY, 9, 4, 1, 128, 256, 257, true),
	DECODE(TINY, 3, 5, 1, 128, 64, 300, true),
	DECODE(TINY, 3, 6, 1, 128, 64, 129, true),
	DECODE(TINY, 3, 14, 2, 128, 64, 129, true),
	DECODE(TINY, 5, 8, 1, 128, 256, 600, true),
	DECODE(MODEL, 1, 16, 8, 128, 256, 600, false),
	DECODE(MODEL, 1, 16, 8, 128, 256, 1024, false),
	DECODE(MODEL, 8, 16, 8, 128, 256, 1024, false),
	DECODE(MODEL, 64, 16, 8, 128, 256, 512, false),
	DECODE(MODEL, 128, 16, 8, 128, 256, 1024, false),
	DECODE(MODEL, 256, 16, 8, 128, 256, 512, false),
	DECODE(MODEL, 256, 16, 8, 128, 256, 1024, false),
	DECODE(MODEL, 188, 16, 8, 128, 256, 1024, true),
	DECODE(MODEL, 37, 16, 8, 128, 256, 2048, true),
	DECODE(MODEL, 1, 16, 8, 128, 256, 32768, false),
	DECODE(MODEL, 256, 32, 8, 128, 256, 1024, false),
	DECODE(MODEL, 64, 64, 8, 128, 256, 1024, false),

	PREFILL(TINY, 1, 1, 1, 2, 1, 1, 1, false),
	PREFILL(TINY, 3, 2, 2, 16, 5, 11, 6, true),
	PREFILL(TINY, 2, 2, 1, 128, 64, 63, 63, false),
	PREFILL(TINY, 2, 2, 1, 128, 64, 64, 64, false),
	PREFILL(TINY, 2, 2, 1, 128, 64, 65, 1, false),
	PREFILL(TINY, 3, 3, 1, 128, 64, 130, 65, true),
	PREFILL(TINY, 3, 4, 1, 128, 256, 257, 129, true),
	PREFILL(TINY, 2, 5, 1, 128, 64, 100, 100, true),
	PREFILL(TINY, 2, 6, 1, 128, 64, 100, 37, true),
	PREFILL(TINY, 2, 7, 1, 128, 64, 100, 99, true),
	PREFILL(TINY, 2, 16, 2, 128, 256, 300, 40, true),
	PREFILL(MODEL, 16, 16, 8, 128, 256, 1024, 1024, false),
	PREFILL(MODEL, 4, 16, 8, 128, 256, 4096, 4096, false),
	PREFILL(MODEL, 1, 16, 8, 128, 256, 16384, 16384, false),
	PREFILL(MODEL, 30, 16, 8, 128, 256, 1024, 1024, true),
	PREFILL(MODEL, 1, 16, 8, 128, 256, 32768, 2048, false),
	PREFILL(MODEL, 16, 32, 8, 128, 256, 1024, 1024, false),

	BY_ROW(KERNEL_SILU_MUL, TINY, 1, 1),
	BY_ROW(KERNEL_SILU_MUL, TINY, 7, 33),
	BY_ROW(KERNEL_SILU_MUL, MODEL, 1, 3072),
	BY_ROW(KERNEL_SILU_MUL, MODEL, 256, 3072),
	BY_ROW(KERNEL_SILU_MUL, MODEL, 16384, 3072),

	BY_ROW(KERNEL_GATHER_ROWS, TINY, 1, 1),
	BY_ROW(KERNEL_GATHER_ROWS, TINY, 6, 21),
	BY_ROW(KERNEL_GATHER_ROWS, MODEL, 256, 1024),

	MATMUL(TINY, 1, 1, 1, false),
	MATMUL(TINY, 1, 16, 3, true),
	MATMUL(TINY, 2, 15, 17, true),
	MATMUL(TINY, 5, 63, 31, false),
	MATMUL(TINY, 17, 128, 65, true),
	MATMUL(TINY, 65, 100, 129, false),
	LAYER_PRODUCTS(1),
	LAYER_PRODUCTS(8),
	LAYER_PRODUCTS(64),
	LAYER_PRODUCTS(128),
	LAYER_PRODUCTS(256),
	LAYER_PRODUCTS(512),
	LAYER_PRODUCTS(4096),
	LAYER_PRODUCTS(16384),
	MATMUL(MODEL, 1, 1024, 151936, false),
	MATMUL(MODEL, 256, 1024, 151936, false),
	MATMUL(MODEL, 256, 4096, 151936, false),

	DECODE_PRODUCT(KERNEL_DECODE_MATMUL, TINY, 1, 128, 64),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL, TINY, 3, 128, 192),
	DECODE_PRODUCTS(1),
	DECODE_PRODUCTS(8),
	DECODE_PRODUCTS(16),
	DECODE_PRODUCTS(32),
	DECODE_PRODUCTS(64),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL_SILU, TINY, 1, 1, 2),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL_SILU, TINY, 5, 17, 6),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL_SILU, TINY, 3, 128, 64),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL_SILU, MODEL, 1, 1024, 6144),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL_SILU, MODEL, 8, 1024, 6144),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL_SILU, MODEL, 16, 1024, 6144),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL_SILU, MODEL, 32, 1024, 6144),
	DECODE_PRODUCT(KERNEL_DECODE_MATMUL_SILU, MODEL, 64, 1024, 6144),

	SAMPLER(TINY, 1, 1),
	SAMPLER(TINY, 5, 33),
	SAMPLER(TINY, 2, 5000),
	SAMPLER(MODEL, 1, 151936),
	SAMPLER(MODEL, 256, 151936),
};

enum { CASE_COUNT = sizeof(cases) / sizeof(cases[0]), CASE_LENGTHS_KEY = 1 };

const char *kernel_name(enum kernel kernel)
{
	static const char *const names[] = {
#define KERNEL_TEXT(name, text) text,
		KERNEL_LIST(KERNEL_TEXT)
#undef KERNEL_TEXT
	};

	check(kernel < KERNEL_COUNT);
	return names[kernel];
}

const struct kernel_case *kernel_case_at(uint32_t index)
{
	return index < CASE_COUNT ? &cases[index] : NULL;
}

uint32_t kernel_case_context(const struct kernel_case *kernel_case, uint32_t row)
{
	if (!kernel_case->is_ragged || row == 0) {
		return kernel_case->context;
	}
	uint32_t bits = (uint32_t)counter_hash(counter_key(CASE_LENGTHS_KEY, 0), row);
	return 1 + counter_below(bits, kernel_case->context);
}

uint32_t kernel_case_chunk(const struct kernel_case *kernel_case, uint32_t row)
{
	return u32_min(kernel_case->chunk, kernel_case_context(kernel_case, row));
}

/* ---- what a case costs ---- */

struct attention_sums {
	uint64_t contexts; /* tokens read */
	uint64_t queries;  /* tokens computed */
	uint64_t pairs;	   /* queries and the tokens they attend to */
};

static struct attention_sums attention_sums(const struct kernel_case *c)
{
	struct attention_sums sums = {0};

	for (uint32_t row = 0; row < c->rows; row++) {
		uint64_t context = kernel_case_context(c, row);
		uint64_t chunk = kernel_case_chunk(c, row);
		sums.contexts += context;
		sums.queries += chunk;
		sums.pairs += chunk * (context - chunk) + chunk * (chunk + 1) / 2;
	}
	return sums;
}

uint64_t kernel_case_bytes(const struct kernel_case *c)
{
	uint64_t row = (uint64_t)c->rows * c->width * 2;
	uint64_t heads = (uint64_t)c->heads * c->head_dim * 2;
	uint64_t kv_heads = (uint64_t)c->kv_heads * c->head_dim * 2;
	struct attention_sums sums;

	switch (c->kernel) {
	case KERNEL_EMBEDDING:
		return 2 * row + 4 * (uint64_t)c->rows;
	case KERNEL_RMS_NORM:
	case KERNEL_GATHER_ROWS:
		return 2 * row;
	case KERNEL_ADD_RMS_NORM:
		return 4 * row;
	case KERNEL_SILU_MUL:
		return 3 * row;
	case KERNEL_QK_NORM_ROPE_STORE:
		return c->rows * 2 * (heads + 2 * kv_heads);
	case KERNEL_DECODE_ATTENTION:
	case KERNEL_PREFILL_ATTENTION:
		sums = attention_sums(c);
		return sums.contexts * 2 * kv_heads + sums.queries * 2 * heads;
	case KERNEL_MATMUL:
	case KERNEL_DECODE_MATMUL:
		return row + 2 * (uint64_t)c->outputs * ((uint64_t)c->width + c->rows);
	case KERNEL_DECODE_MATMUL_SILU:
		return row + 2 * (uint64_t)c->outputs * c->width + (uint64_t)c->outputs * c->rows;
	case KERNEL_SAMPLER:
		return 4 * (uint64_t)c->rows * ((uint64_t)c->outputs + 1);
	case KERNEL_COUNT:
		break;
	}
	check_unreachable("a kernel that is none");
}

uint64_t kernel_case_flops(const struct kernel_case *c)
{
	switch (c->kernel) {
	case KERNEL_DECODE_ATTENTION:
	case KERNEL_PREFILL_ATTENTION:
		return 4 * attention_sums(c).pairs * c->heads * c->head_dim;
	case KERNEL_MATMUL:
	case KERNEL_DECODE_MATMUL:
	case KERNEL_DECODE_MATMUL_SILU:
		return 2 * (uint64_t)c->rows * c->width * c->outputs;
	default:
		return 0;
	}
}

void case_fill(float *out, uint64_t count, uint64_t key, enum case_values values)
{
	uint64_t stream = counter_key(key, 0);

	for (uint64_t i = 0; i < count; i++) {
		uint32_t bits = (uint32_t)counter_hash(stream, i);
		if (values == CASE_INTEGERS) {
			out[i] = (float)((int32_t)counter_below(bits, 9) - 4);
		} else {
			float value = ((float)(bits >> 8) + 0.5f) * 0x1p-23f - 1;
			out[i] = bf16_to_float(bf16_from_float(value));
		}
	}
}
