#include "kernels/linear/cublaslt.h"
#include "kernels/linear/linear.h"
#include "kernels/op/op.h"

#include <stdio.h>

/* The operations `matmul` (cuBLASLt, any number of rows), `decode_matmul` and
   `decode_matmul_silu` (our own kernels for the few rows of a decode step) for tests and the
   kernel benchmark. */

enum { BIAS = OPERAND_MORE };

/* Widths of qwen3-0.6b: hidden 1024, qkv 4096, q 2048, intermediate 3072; of qwen3-8b: 4096, 6144,
   4096, 12288. */
#define CASE(size_, rows_, inputs, outputs_)                                                       \
	{                                                                                          \
		.size = size_, .rows = rows_, .width = inputs, .outputs = outputs_                 \
	}
#define ALL_LAYERS(rows)                                                                           \
	CASE(CASE_MODEL, rows, 1024, 4096), CASE(CASE_MODEL, rows, 2048, 1024),                    \
		CASE(CASE_MODEL, rows, 1024, 6144), CASE(CASE_MODEL, rows, 3072, 1024),            \
		CASE(CASE_MODEL, rows, 4096, 6144), CASE(CASE_MODEL, rows, 4096, 4096),            \
		CASE(CASE_MODEL, rows, 4096, 24576), CASE(CASE_MODEL, rows, 12288, 4096)
#define DECODE_LAYERS(rows)                                                                        \
	CASE(CASE_MODEL, rows, 1024, 4096), CASE(CASE_MODEL, rows, 2048, 1024),                    \
		CASE(CASE_MODEL, rows, 3072, 1024)

/* Wide weights and few rows: qkv, o and down of qwen3-1.7b, 4b, 8b, 14b and 32b. */
#define WIDE_LAYERS(rows)                                                                          \
	CASE(CASE_MODEL, rows, 2048, 4096), CASE(CASE_MODEL, rows, 2048, 2048),                    \
		CASE(CASE_MODEL, rows, 6144, 2048), CASE(CASE_MODEL, rows, 2560, 6144),            \
		CASE(CASE_MODEL, rows, 4096, 2560), CASE(CASE_MODEL, rows, 9728, 2560),            \
		CASE(CASE_MODEL, rows, 4096, 6144), CASE(CASE_MODEL, rows, 4096, 4096),            \
		CASE(CASE_MODEL, rows, 12288, 4096), CASE(CASE_MODEL, rows, 5120, 7168),           \
		CASE(CASE_MODEL, rows, 5120, 5120), CASE(CASE_MODEL, rows, 17408, 5120),           \
		CASE(CASE_MODEL, rows, 5120, 10240), CASE(CASE_MODEL, rows, 8192, 5120),           \
		CASE(CASE_MODEL, rows, 25600, 5120)
/* gate_up of the same. */
#define WIDE_GATE_UPS(rows)                                                                        \
	CASE(CASE_MODEL, rows, 2048, 12288), CASE(CASE_MODEL, rows, 2560, 19456),                  \
		CASE(CASE_MODEL, rows, 4096, 24576), CASE(CASE_MODEL, rows, 5120, 34816),          \
		CASE(CASE_MODEL, rows, 5120, 51200)

/* Wide weights and tens to hundreds of rows: qkv of qwen3-0.6b; qkv, o and down of 8b. */
#define TALL_LAYERS(rows)                                                                          \
	CASE(CASE_MODEL, rows, 1024, 4096), CASE(CASE_MODEL, rows, 4096, 6144),                    \
		CASE(CASE_MODEL, rows, 4096, 4096), CASE(CASE_MODEL, rows, 12288, 4096)
/* gate_up of the same. */
#define TALL_GATE_UPS(rows) CASE(CASE_MODEL, rows, 1024, 6144), CASE(CASE_MODEL, rows, 4096, 24576)

/* The share of one of two ranks: qkv, o and down of qwen3-0.6b, 8b and 32b. */
#define SHARE_LAYERS(rows)                                                                         \
	CASE(CASE_MODEL, rows, 1024, 2048), CASE(CASE_MODEL, rows, 1024, 1024),                    \
		CASE(CASE_MODEL, rows, 1536, 1024), CASE(CASE_MODEL, rows, 4096, 3072),            \
		CASE(CASE_MODEL, rows, 2048, 4096), CASE(CASE_MODEL, rows, 6144, 4096),            \
		CASE(CASE_MODEL, rows, 4096, 5120), CASE(CASE_MODEL, rows, 12800, 5120)
/* gate_up of the same. */
#define SHARE_GATE_UPS(rows)                                                                       \
	CASE(CASE_MODEL, rows, 1024, 3072), CASE(CASE_MODEL, rows, 4096, 12288),                   \
		CASE(CASE_MODEL, rows, 5120, 25600)

static const struct op_case cublaslt_cases[] = {
	CASE(CASE_TINY, 1, 1, 1),
	{CASE_TINY, .rows = 1, .width = 16, .outputs = 3, .has_bias = true},
	{CASE_TINY, .rows = 2, .width = 15, .outputs = 17, .has_bias = true},
	CASE(CASE_TINY, 5, 63, 31),
	{CASE_TINY, .rows = 17, .width = 128, .outputs = 65, .has_bias = true},
	CASE(CASE_TINY, 65, 100, 129),
	CASE(CASE_EDGE, 1, 64, 8),
	CASE(CASE_EDGE, 2, 8, 8),
	CASE(CASE_EDGE, 7, 2048, 1024),
	CASE(CASE_EDGE, 17, 128, 72),
	CASE(CASE_EDGE, 65, 104, 136),
	CASE(CASE_EDGE, 129, 3072, 1024),
	CASE(CASE_EDGE, 300, 72, 136),
	ALL_LAYERS(1),
	ALL_LAYERS(8),
	ALL_LAYERS(64),
	ALL_LAYERS(128),
	ALL_LAYERS(256),
	ALL_LAYERS(512),
	ALL_LAYERS(4096),
	ALL_LAYERS(16384),
	SHARE_LAYERS(64),
	SHARE_GATE_UPS(64),
	SHARE_LAYERS(256),
	SHARE_GATE_UPS(256),
	CASE(CASE_MODEL, 1, 1024, 151936),
	CASE(CASE_MODEL, 256, 1024, 151936),
	CASE(CASE_MODEL, 256, 4096, 151936),
};

/* Edge cases: each tile size and its neighbours, several tiles, with and without split-K. */
static const struct op_case linear_cases[] = {
	CASE(CASE_TINY, 1, 128, 64),
	CASE(CASE_TINY, 3, 128, 192),
	CASE(CASE_EDGE, 7, 512, 64),
	CASE(CASE_EDGE, 9, 128, 128),
	CASE(CASE_EDGE, 16, 384, 192),
	CASE(CASE_EDGE, 17, 256, 192),
	CASE(CASE_EDGE, 1, 1024, 4160),
	CASE(CASE_EDGE, 65, 1024, 384),
	CASE(CASE_EDGE, 129, 128, 448),
	CASE(CASE_EDGE, 200, 256, 320),
	CASE(CASE_EDGE, 300, 1024, 576),
	CASE(CASE_EDGE, 1, 2048, 64),
	CASE(CASE_EDGE, 2, 3584, 128),
	CASE(CASE_EDGE, 7, 4096, 192),
	CASE(CASE_EDGE, 8, 2560, 2048),
	CASE(CASE_EDGE, 9, 2048, 1984),
	CASE(CASE_EDGE, 16, 4096, 64),
	CASE(CASE_EDGE, 16, 3072, 64),
	CASE(CASE_EDGE, 33, 3072, 1024),
	CASE(CASE_EDGE, 97, 2048, 128),
	DECODE_LAYERS(1),
	DECODE_LAYERS(8),
	DECODE_LAYERS(16),
	DECODE_LAYERS(32),
	DECODE_LAYERS(64),
	WIDE_LAYERS(1),
	WIDE_LAYERS(8),
	TALL_LAYERS(96),
	TALL_LAYERS(192),
	TALL_LAYERS(256),
	SHARE_LAYERS(1),
	SHARE_LAYERS(64),
};

static const struct op_case linear_silu_cases[] = {
	CASE(CASE_TINY, 1, 1, 2),
	CASE(CASE_TINY, 5, 17, 6),
	CASE(CASE_TINY, 3, 128, 64),
	CASE(CASE_EDGE, 1, 128, 64),
	CASE(CASE_EDGE, 7, 512, 64),
	CASE(CASE_EDGE, 9, 128, 128),
	CASE(CASE_EDGE, 16, 384, 192),
	CASE(CASE_EDGE, 33, 256, 192),
	CASE(CASE_EDGE, 65, 1024, 384),
	CASE(CASE_EDGE, 129, 128, 448),
	CASE(CASE_EDGE, 200, 256, 320),
	CASE(CASE_EDGE, 1, 2048, 64),
	CASE(CASE_EDGE, 9, 3072, 192),
	CASE(CASE_EDGE, 18, 2048, 2048),
	CASE(CASE_MODEL, 1, 1024, 6144),
	CASE(CASE_MODEL, 8, 1024, 6144),
	CASE(CASE_MODEL, 16, 1024, 6144),
	CASE(CASE_MODEL, 32, 1024, 6144),
	CASE(CASE_MODEL, 64, 1024, 6144),
	WIDE_GATE_UPS(1),
	WIDE_GATE_UPS(8),
	TALL_GATE_UPS(96),
	TALL_GATE_UPS(192),
	TALL_GATE_UPS(256),
	SHARE_GATE_UPS(1),
	SHARE_GATE_UPS(64),
};

static void describe(const struct op_case *c, char *text)
{
	snprintf(text, OP_TEXT_BYTES, "%ux%ux%u", c->rows, c->width, c->outputs);
}

static struct work work(const struct op_case *c)
{
	return work_linear(c->rows, c->width, c->outputs, sizeof(uint16_t));
}

static struct work silu_work(const struct op_case *c)
{
	return work_linear_silu(c->rows, c->width, c->outputs);
}

static void open_with(struct operands *operands, uint32_t outputs, double tolerance)
{
	const struct op_case *c = operands->op_case;

	operands_output(
		operands, OPERAND_OUT, OPERAND_BF16, (size_t)c->rows * outputs, outputs, tolerance);
	operands_random(operands, OPERAND_IN, (size_t)c->rows * c->width);
	operands_random(operands, OPERAND_WEIGHT, (size_t)c->outputs * c->width);
	if (c->has_bias) {
		operands_random_shared(operands, BIAS, c->outputs);
	}
}

static void open(struct operands *operands)
{
	bool is_exact = operands->is_checked && operands->values == CASE_INTEGERS;

	open_with(operands, operands->op_case->outputs, is_exact ? 0 : OPERAND_BF16_TOLERANCE);
}

static void open_silu(struct operands *operands)
{
	open_with(operands, operands->op_case->outputs / 2, OPERAND_BF16_TOLERANCE);
}

#ifdef QUIRE_HAS_CUDA

static bool cublaslt_fits(const struct op_case *c)
{
	return c->width % 8 == 0 && c->outputs % 8 == 0;
}

static bool has_kernel(const struct op_case *c, bool has_silu)
{
	const struct linear_device device = linear_device(kernel_path_of_device());
	const struct linear_shape shape = {
		c->width, c->outputs, linear_split_k(c->width, c->outputs), has_silu, false};

	return linear_plan_kernel(&shape, c->rows, false, &device).path != LINEAR_NONE;
}

static bool fits(const struct op_case *c)
{
	return has_kernel(c, false);
}

static bool silu_fits(const struct op_case *c)
{
	return has_kernel(c, true);
}

static const uint16_t *bias_at(const struct operands *operands, uint32_t set)
{
	return operands->op_case->has_bias ? operand_at(operands, BIAS, set) : NULL;
}

static int launch_cublaslt(
	const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct op_case *c = operands->op_case;

	return cublaslt_linear(operands->cublaslt, operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, OPERAND_IN, set), operand_at(operands, OPERAND_WEIGHT, set),
		bias_at(operands, set), c->rows, c->width, c->outputs, stream);
}

static int launch_linear(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct op_case *c = operands->op_case;

	return linear(operand_at(operands, OPERAND_OUT, set), operand_at(operands, OPERAND_IN, set),
		operand_at(operands, OPERAND_WEIGHT, set), bias_at(operands, set), c->rows,
		c->width, c->outputs, stream);
}

static int launch_linear_silu(
	const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct op_case *c = operands->op_case;

	return linear_silu(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, OPERAND_IN, set), operand_at(operands, OPERAND_WEIGHT, set),
		c->rows, c->width, c->outputs / 2, stream);
}

#endif

static void twin(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct matrix weight = {.f32 = operand_host(operands, OPERAND_WEIGHT)};

	linear_cpu(operand_host(operands, OPERAND_OUT), operand_host(operands, OPERAND_IN), weight,
		c->has_bias ? operand_host(operands, BIAS) : NULL, c->rows, c->width, c->outputs,
		ROUNDING_BF16);
}

static void silu_twin(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct matrix weight = {.f32 = operand_host(operands, OPERAND_WEIGHT)};

	linear_silu_cpu(operand_host(operands, OPERAND_OUT), operand_host(operands, OPERAND_IN),
		weight, c->rows, c->width, c->outputs / 2, ROUNDING_BF16);
}

const struct op cublaslt_linear_op = {
	.name = "matmul",
	OP_CASES(cublaslt_cases),
	.properties = OP_HAS_BIAS | OP_IS_EXACT | OP_COMPUTES,
	.fits = OP_ON_GPU(cublaslt_fits),
	.describe = describe,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch_cublaslt),
	.twin = twin,
};

const struct op linear_op = {
	.name = "decode_matmul",
	OP_CASES(linear_cases),
	.properties = OP_HAS_BIAS | OP_IS_EXACT | OP_COMPUTES,
	.fits = OP_ON_GPU(fits),
	.describe = describe,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch_linear),
	.twin = twin,
};

const struct op linear_silu_op = {
	.name = "decode_matmul_silu",
	OP_CASES(linear_silu_cases),
	.properties = OP_COMPUTES,
	.fits = OP_ON_GPU(silu_fits),
	.describe = describe,
	.work = silu_work,
	.open = open_silu,
	.launch = OP_ON_GPU(launch_linear_silu),
	.twin = silu_twin,
};
