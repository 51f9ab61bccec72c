#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/op/op.h"
#include "kernels/rows/embedding.h"

#include <stdlib.h>

enum { IDS = OPERAND_IN, LAST_TOKENS = OPERAND_MORE, ROWS };

static const struct op_case cases[] = {
	{CASE_TINY, .rows = 1, .width = 1, .outputs = 1},
	{CASE_TINY, .rows = 7, .width = 34, .outputs = 11},
	{CASE_EDGE, .rows = 1, .width = 8, .outputs = 1},
	{CASE_EDGE, .rows = 2, .width = 8, .outputs = 3},
	{CASE_EDGE, .rows = 7, .width = 1032, .outputs = 99},
	{CASE_EDGE, .rows = 300, .width = 64, .outputs = 11},
	{CASE_MODEL, .rows = 1, .width = 1024, .outputs = 151936},
	{CASE_MODEL, .rows = 256, .width = 1024, .outputs = 151936},
	{CASE_MODEL, .rows = 16384, .width = 1024, .outputs = 151936},
};

static struct work work(const struct op_case *c)
{
	return work_embedding(c->rows, c->width);
}

/* When checked, every fifth token id is -1, the last token of its row. */
static void open(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	size_t bytes = c->rows * sizeof(int32_t);
	int32_t *ids = memory_take(c->rows, sizeof(*ids));
	int32_t *last = memory_take(c->rows, sizeof(*last));
	uint32_t *rows = memory_take(c->rows, sizeof(*rows));

	operands_output(
		operands, OPERAND_OUT, OPERAND_BF16, (size_t)c->rows * c->width, c->width, 0);
	operands_random_shared(operands, OPERAND_WEIGHT, (size_t)c->outputs * c->width);
	for (uint32_t set = 0; set < operands->set_count; set++) {
		for (uint32_t r = 0; r < c->rows; r++) {
			uint64_t hash = counter_hash(counter_key(IDS, set), r);
			ids[r] = (int32_t)counter_below((uint32_t)hash, c->outputs);
			ids[r] = operands->is_checked && r % 5 == 1 ? -1 : ids[r];
		}
		operands_list_of_set(operands, IDS, set, ids, bytes);
	}
	for (uint32_t r = 0; r < c->rows; r++) {
		last[r] = (int32_t)(counter_hash(LAST_TOKENS, r) % c->outputs);
		rows[r] = c->rows - 1 - r;
	}
	operands_list(operands, LAST_TOKENS, last, bytes);
	operands_list(operands, ROWS, rows, bytes);
	free(ids);
	free(last);
	free(rows);
}

#ifdef QUIRE_HAS_CUDA
static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	return embedding(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, OPERAND_WEIGHT, set), operand_at(operands, IDS, set),
		operand_at(operands, LAST_TOKENS, set), operand_at(operands, ROWS, set),
		operands->op_case->rows, operands->op_case->width, stream);
}
#endif

static void twin(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct matrix table = {.f32 = operand_host(operands, OPERAND_WEIGHT)};
	const int32_t *ids = operand_host(operands, IDS);
	const int32_t *last = operand_host(operands, LAST_TOKENS);
	const uint32_t *rows = operand_host(operands, ROWS);
	int32_t *resolved = memory_take(c->rows, sizeof(*resolved));

	for (uint32_t r = 0; r < c->rows; r++) {
		resolved[r] = ids[r] < 0 ? last[rows[r]] : ids[r];
	}
	embedding_cpu(operand_host(operands, OPERAND_OUT), table, resolved, c->rows, c->outputs,
		c->width, ROUNDING_BF16);
	free(resolved);
}

const struct op embedding_op = {
	.name = "embedding",
	OP_CASES(cases),
	.fits = op_fits_rows,
	.describe = op_describe_rows,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
