#include "kernels/op/op.h"
#include "kernels/rows/rms_norm.h"

static const float EPSILON = 1e-6f;

static const struct op_case cases[] = {
	{CASE_TINY, .rows = 1, .width = 1},
	{CASE_TINY, .rows = 3, .width = 15},
	{CASE_TINY, .rows = 5, .width = 1024},
	{CASE_EDGE, .rows = 1, .width = 8},
	{CASE_EDGE, .rows = 1, .width = 64},
	{CASE_EDGE, .rows = 2, .width = 1024},
	{CASE_EDGE, .rows = 1, .width = 2560},
	{CASE_EDGE, .rows = 2, .width = 5120},
	{CASE_EDGE, .rows = 257, .width = 8},
	{CASE_EDGE, .rows = 257, .width = 64},
	{CASE_EDGE, .rows = 257, .width = 1032},
	{CASE_EDGE, .rows = 257, .width = 2560},
	{CASE_EDGE, .rows = 257, .width = 5120},
	{CASE_EDGE, .rows = 3, .width = 8192},
	{CASE_EDGE, .rows = 2, .width = 16384},
	{CASE_MODEL, .rows = 1, .width = 1024},
	{CASE_MODEL, .rows = 256, .width = 1024},
	{CASE_MODEL, .rows = 16384, .width = 4096},
};

static struct work work(const struct op_case *c)
{
	return work_rms_norm(c->rows, c->width);
}

static void open(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	size_t count = (size_t)c->rows * c->width;

	operands_output(
		operands, OPERAND_OUT, OPERAND_BF16, count, c->width, OPERAND_BF16_TOLERANCE);
	operands_random(operands, OPERAND_IN, count);
	operands_random_shared(operands, OPERAND_WEIGHT, c->width);
}

#ifdef QUIRE_HAS_CUDA
static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	return rms_norm(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, OPERAND_IN, set), operand_at(operands, OPERAND_WEIGHT, set),
		operands->op_case->rows, operands->op_case->width, EPSILON, stream);
}
#endif

static void twin(struct operands *operands)
{
	rms_norm_cpu(operand_host(operands, OPERAND_OUT), operand_host(operands, OPERAND_IN),
		operand_host(operands, OPERAND_WEIGHT), operands->op_case->rows,
		operands->op_case->width, EPSILON, ROUNDING_BF16);
}

const struct op rms_norm_op = {
	.name = "rms_norm",
	OP_CASES(cases),
	.fits = op_fits_rows,
	.describe = op_describe_rows,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
