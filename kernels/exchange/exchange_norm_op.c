#include "engine/base/memory.h"
#include "kernels/exchange/exchange_operands.h"
#include "kernels/rows/add_rms_norm.h"

#include <stdio.h>
#include <stdlib.h>

enum { RESIDUAL = EXCHANGE_MORE };
static const float EPSILON = 1e-6f;

static const struct op_case cases[] = {
	{CASE_TINY, .rows = 1, .width = 8, .ranks = 2},
	{CASE_TINY, .rows = 3, .width = 24, .ranks = 3},
	{CASE_EDGE, .rows = 1, .width = 8, .ranks = 1},
	{CASE_EDGE, .rows = 1, .width = 64, .ranks = 8},
	{CASE_EDGE, .rows = 257, .width = 1032, .ranks = 2},
	{CASE_EDGE, .rows = 5, .width = 2048, .ranks = 4},
	{CASE_EDGE, .rows = 130, .width = 2560, .ranks = 5},
	{CASE_EDGE, .rows = 700, .width = 2560, .ranks = 2},
	{CASE_EDGE, .rows = 7, .width = 5120, .ranks = 8},
	{CASE_EDGE, .rows = 300, .width = 5120, .ranks = 4},
	{CASE_EDGE, .rows = 2, .width = EXCHANGE_WIDTH_MAX, .ranks = 8},
	{CASE_MODEL, .rows = 1, .width = 1024, .ranks = 2},
	{CASE_MODEL, .rows = 1, .width = 4096, .ranks = 2},
	{CASE_MODEL, .rows = 64, .width = 4096, .ranks = 2},
	{CASE_MODEL, .rows = 256, .width = 4096, .ranks = 2},
	{CASE_MODEL, .rows = 256, .width = 4096, .ranks = 8},
	{CASE_MODEL, .rows = 16384, .width = 4096, .ranks = 2},
};

static bool fits(const struct op_case *c)
{
	return c->width <= EXCHANGE_WIDTH_MAX;
}

static void describe(const struct op_case *c, char *text)
{
	snprintf(text, OP_TEXT_BYTES, "%ux%u, %u ranks", c->rows, c->width, c->ranks);
}

/* Elements of all rows of a rank. */
static size_t rank_size(const struct op_case *c)
{
	return (size_t)c->rows * c->width;
}

static struct exchange_layout layout_of(const struct op_case *c)
{
	return exchange_layout(c->ranks, c->width, c->rows, c->rows);
}

/* ---- one GPU that has gathered the parts of all ranks ---- */

static struct work work_of_one(const struct op_case *c)
{
	return work_exchange_add_rms_norm(c->rows, c->width, c->ranks);
}

static void open_common(struct operands *operands, uint32_t ranks)
{
	const struct op_case *c = operands->op_case;
	size_t size = ranks * rank_size(c);

	operands_output(
		operands, OPERAND_OUT, OPERAND_BF16, size, c->width, OPERAND_BF16_TOLERANCE);
	operands_random_shared(operands, OPERAND_WEIGHT, c->width);
	operands_random(operands, RESIDUAL, size);
	operands_expect(operands, RESIDUAL, c->width, 0);
}

static void open_gathered(struct operands *operands)
{
	const struct op_case *c = operands->op_case;

	open_common(operands, 1);
	operands_random(operands, OPERAND_IN, c->ranks * rank_size(c));
}

/* The same sum is added to the residual stream of each of residual_ranks. */
static void twin(struct operands *operands, uint32_t residual_ranks)
{
	const struct op_case *c = operands->op_case;
	const size_t size = rank_size(c);
	const float *in = operand_host(operands, OPERAND_IN);
	float *out = operand_host(operands, OPERAND_OUT);
	float *residual = operand_host(operands, RESIDUAL);
	const float *parts[EXCHANGE_RANKS_MAX];
	float *sum = memory_take(size, sizeof(*sum));

	for (uint32_t r = 0; r < c->ranks; r++) {
		parts[r] = in + r * size;
	}
	exchange_sum_cpu(sum, parts, c->ranks, size, ROUNDING_BF16);
	for (uint32_t r = 0; r < residual_ranks; r++) {
		add_rms_norm_cpu(out + r * size, residual + r * size, sum,
			operand_host(operands, OPERAND_WEIGHT), c->rows, c->width, EPSILON,
			ROUNDING_BF16);
	}
	free(sum);
}

static void twin_gathered(struct operands *operands)
{
	twin(operands, 1);
}

/* ---- all ranks on one GPU ---- */

static struct work work_of_all(const struct op_case *c)
{
	struct work work = work_of_one(c);

	work.bytes *= c->ranks;
	return work;
}

/* Writes the parts of a rank to both of its partial buffers. */
static void fill_partials(
	struct operands *operands, const struct exchange_layout *layout, uint32_t rank)
{
	const size_t size = rank_size(operands->op_case), bytes = size * sizeof(uint16_t);

	for (uint32_t i = 0; i < EXCHANGE_PARTIALS && operands->code == 0; i++) {
		uint64_t offset = rank * layout->bytes + layout->partials + i * bytes;
		if (operands->is_checked) {
			const float *in = operand_host(operands, OPERAND_IN);
			unsigned char *memory = operand_host(operands, EXCHANGE_MEMORY);
			uint16_t *out = (uint16_t *)(void *)(memory + offset);
			for (size_t k = 0; k < size; k++) {
				out[k] = bf16_from_float(in[rank * size + k]);
			}
		} else {
			unsigned char *memory = operand_at(operands, EXCHANGE_MEMORY, 0);
			operands->code = operands->memory->fill_bf16(
				(uint16_t *)(void *)(memory + offset), size, rank + i);
		}
	}
}

static void open_exchange(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct exchange_layout layout = layout_of(c);

	open_common(operands, c->ranks);
	exchange_open_operands(operands, &layout);
	if (operands->is_checked) {
		operands_random(operands, OPERAND_IN, c->ranks * rank_size(c));
	}
	for (uint32_t r = 0; r < c->ranks; r++) {
		fill_partials(operands, &layout, r);
	}
	operands_send(operands, EXCHANGE_MEMORY);
}

static void twin_exchange(struct operands *operands)
{
	twin(operands, operands->op_case->ranks);
}

#ifdef QUIRE_HAS_CUDA
static struct exchange_norm norm_of(const struct operands *operands, uint32_t set)
{
	return (struct exchange_norm){
		.out = operand_at(operands, OPERAND_OUT, set),
		.residual = operand_at(operands, RESIDUAL, set),
		.weight = operand_at(operands, OPERAND_WEIGHT, set),
		.row_count = operands->op_case->rows,
		.epsilon = EPSILON,
	};
}

static int launch_gathered(
	const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct op_case *c = operands->op_case;
	const struct exchange_norm norm = norm_of(operands, set);

	return exchange_gathered_add_rms_norm(
		&norm, operand_at(operands, OPERAND_IN, set), c->ranks, c->rows, c->width, stream);
}

static int launch_exchange(
	const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct exchange_layout layout = layout_of(operands->op_case);
	const struct exchange exchange = exchange_of_operands(operands, &layout);
	const struct exchange_norm norm = norm_of(operands, set);

	return exchange_end_set(
		operands, set, exchange_add_rms_norm(&norm, &exchange, set, stream), stream);
}
#endif

const struct op exchange_gathered_add_rms_norm_op = {
	.name = "exchange_gathered_add_rms_norm",
	OP_CASES(cases),
	.fits = fits,
	.describe = describe,
	.work = work_of_one,
	.open = open_gathered,
	.launch = OP_ON_GPU(launch_gathered),
	.twin = twin_gathered,
};

const struct op exchange_add_rms_norm_op = {
	.name = "exchange_add_rms_norm",
	OP_CASES(cases),
	.fits = fits,
	.describe = describe,
	.work = work_of_all,
	.open = open_exchange,
	.launch = OP_ON_GPU(launch_exchange),
	.twin = twin_exchange,
};
