#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/op/op.h"
#include "kernels/rows/gather_rows.h"

#include <stdlib.h>

enum { INDICES = OPERAND_MORE };

static const struct op_case cases[] = {
	{CASE_TINY, .rows = 1, .width = 1},
	{CASE_TINY, .rows = 6, .width = 21},
	{CASE_EDGE, .rows = 1, .width = 8},
	{CASE_EDGE, .rows = 3, .width = 1032},
	{CASE_EDGE, .rows = 257, .width = 64},
	{CASE_EDGE, .rows = 20, .width = 5120},
	{CASE_MODEL, .rows = 256, .width = 1024},
};

static struct work work(const struct op_case *c)
{
	return work_gather_rows(c->rows, c->width);
}

static void open(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	size_t count = (size_t)c->rows * c->width;
	uint32_t sources = operands->is_checked ? 3 * c->rows : c->rows;
	uint32_t *indices = memory_take(c->rows, sizeof(*indices));

	operands_output(operands, OPERAND_OUT, OPERAND_BF16, count, c->width, 0);
	operands_random(operands, OPERAND_IN, (size_t)sources * c->width);
	for (uint32_t set = 0; set < operands->set_count; set++) {
		for (uint32_t r = 0; r < c->rows; r++) {
			uint64_t hash = counter_hash(counter_key(INDICES, set), r);
			indices[r] = counter_below((uint32_t)hash, sources);
		}
		operands_list_of_set(operands, INDICES, set, indices, c->rows * sizeof(*indices));
	}
	free(indices);
}

#ifdef QUIRE_HAS_CUDA
static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	return gather_rows(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, OPERAND_IN, set), operand_at(operands, INDICES, set),
		operands->op_case->rows, operands->op_case->width, stream);
}
#endif

static void twin(struct operands *operands)
{
	gather_rows_cpu(operand_host(operands, OPERAND_OUT), operand_host(operands, OPERAND_IN),
		operand_host(operands, INDICES), operands->op_case->rows, operands->op_case->width);
}

const struct op gather_rows_op = {
	.name = "gather_rows",
	OP_CASES(cases),
	.fits = op_fits_rows,
	.describe = op_describe_rows,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
