#include "kernels/op/op.h"
#include "kernels/rows/silu_mul.h"

static const struct op_case cases[] = {
	{CASE_TINY, .rows = 1, .width = 1},
	{CASE_TINY, .rows = 7, .width = 33},
	{CASE_EDGE, .rows = 1, .width = 8},
	{CASE_EDGE, .rows = 3, .width = 96},
	{CASE_EDGE, .rows = 7, .width = 3072},
	{CASE_EDGE, .rows = 257, .width = 12288},
	{CASE_MODEL, .rows = 1, .width = 3072},
	{CASE_MODEL, .rows = 256, .width = 3072},
	{CASE_MODEL, .rows = 16384, .width = 3072},
};

static struct work work(const struct op_case *c)
{
	return work_silu_mul(c->rows, c->width);
}

static void open(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	size_t count = (size_t)c->rows * c->width;

	operands_output(
		operands, OPERAND_OUT, OPERAND_BF16, count, c->width, OPERAND_BF16_TOLERANCE);
	operands_random(operands, OPERAND_IN, 2 * count);
	if (operands->is_checked) {
		float *gate_up = operand_host(operands, OPERAND_IN);
		for (size_t i = 0; i < 2 * count; i++) {
			gate_up[i] *= 16; /* into the range where silu bends and saturates */
		}
		operands_send(operands, OPERAND_IN);
	}
}

#ifdef QUIRE_HAS_CUDA
static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	return silu_mul(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, OPERAND_IN, set), operands->op_case->rows,
		operands->op_case->width, stream);
}
#endif

static void twin(struct operands *operands)
{
	silu_mul_cpu(operand_host(operands, OPERAND_OUT), operand_host(operands, OPERAND_IN),
		operands->op_case->rows, operands->op_case->width, ROUNDING_BF16);
}

const struct op silu_mul_op = {
	.name = "silu_mul",
	OP_CASES(cases),
	.fits = op_fits_rows,
	.describe = op_describe_rows,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
