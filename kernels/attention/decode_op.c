#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "kernels/attention/attention_operands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASE(size_, rows_, heads_, kv, dim, block, context_, ragged)                               \
	{                                                                                          \
		.size = size_, .rows = rows_, .heads = heads_, .kv_heads = kv, .head_dim = dim,    \
		.block_size = block, .context = context_, .chunk = 1, .is_ragged = ragged          \
	}

static const struct op_case cases[] = {
	CASE(CASE_TINY, 1, 1, 1, 2, 1, 1, false),
	CASE(CASE_TINY, 3, 2, 2, 16, 5, 11, true),
	CASE(CASE_TINY, 2, 2, 1, 128, 64, 1, false),
	CASE(CASE_TINY, 2, 2, 1, 128, 64, 63, false),
	CASE(CASE_TINY, 2, 2, 1, 128, 64, 64, false),
	CASE(CASE_TINY, 2, 2, 1, 128, 64, 65, false),
	CASE(CASE_TINY, 9, 3, 1, 128, 64, 200, true),
	CASE(CASE_TINY, 9, 4, 1, 128, 256, 257, true),
	CASE(CASE_TINY, 3, 5, 1, 128, 64, 300, true),
	CASE(CASE_TINY, 3, 6, 1, 128, 64, 129, true),
	CASE(CASE_TINY, 3, 14, 2, 128, 64, 129, true),
	CASE(CASE_TINY, 5, 8, 1, 128, 256, 600, true),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 600, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 8, 16, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 64, 16, 8, 128, 256, 512, false),
	CASE(CASE_MODEL, 128, 16, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 256, 16, 8, 128, 256, 512, false),
	CASE(CASE_MODEL, 256, 16, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 188, 16, 8, 128, 256, 1024, true),
	CASE(CASE_MODEL, 37, 16, 8, 128, 256, 2048, true),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 32768, false),
	CASE(CASE_MODEL, 256, 32, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 64, 64, 8, 128, 256, 1024, false),
};

static void describe(const struct op_case *c, char *text)
{
	snprintf(text, OP_TEXT_BYTES, "%ux%u%s, %u/%u heads", c->rows, c->context,
		c->is_ragged ? " ragged" : "", c->heads, c->kv_heads);
}

static void open_splits(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct attention_shape shape = attention_shape_of(c);
	size_t most =
		u64_divide_up((uint64_t)shape.table_width * c->block_size, (uint64_t)DECODE_SPLIT) *
		c->rows;
	uint32_t count = 0;
	struct decode_split *splits = memory_take(most, sizeof(*splits));
	uint32_t *start = memory_take((size_t)c->rows + 1, sizeof(*start));

	for (uint32_t r = 0; r < c->rows; r++) {
		for (uint32_t i = 0; i * DECODE_SPLIT < op_case_context(c, r); i++) {
			splits[count++] = (struct decode_split){.row = r, .index = i};
		}
		start[r + 1] = count;
	}
	operands_list(operands, ATTENTION_SPLITS, splits, count * sizeof(*splits));
	operands_list(
		operands, ATTENTION_SPLIT_START, start, ((size_t)c->rows + 1) * sizeof(*start));
	operands_scratch(
		operands, ATTENTION_PARTIAL_OUT, count * attention_query_width(c) * sizeof(float));
	operands_scratch(
		operands, ATTENTION_PARTIAL_STATE, (size_t)count * c->heads * 2 * sizeof(float));
	operands_counters(operands, ATTENTION_ARRIVALS,
		(1 + (size_t)c->rows * c->kv_heads) * sizeof(uint32_t));
	free(splits);
	free(start);
}

static void open(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	size_t width = attention_query_width(c);

	operands_output(operands, OPERAND_OUT, OPERAND_BF16, c->rows * width, width,
		OPERAND_BF16_TOLERANCE);
	operands_random(operands, OPERAND_IN, c->rows * width);
	attention_open_pool(operands);
	open_splits(operands);
}

#ifdef QUIRE_HAS_CUDA

struct decode_work decode_attention_work(const struct operands *operands)
{
	return (struct decode_work){
		.path = operands->path,
		.tables = operand_at(operands, ATTENTION_TABLES, 0),
		.rows = operand_at(operands, ATTENTION_ROWS, 0),
		.contexts = operand_at(operands, ATTENTION_CONTEXTS, 0),
		.splits = operand_at(operands, ATTENTION_SPLITS, 0),
		.split_start = operand_at(operands, ATTENTION_SPLIT_START, 0),
		.partial_out = operand_at(operands, ATTENTION_PARTIAL_OUT, 0),
		.partial_state = operand_at(operands, ATTENTION_PARTIAL_STATE, 0),
		.arrivals = operand_at(operands, ATTENTION_ARRIVALS, 0),
		.block_count = decode_attention_blocks(operands->path, operands->processors),
	};
}

static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct attention_shape shape = attention_shape_of(operands->op_case);
	const struct decode_work decode = decode_attention_work(operands);

	return decode_attention(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, OPERAND_IN, set), operand_at(operands, ATTENTION_KEYS, set),
		operand_at(operands, ATTENTION_VALUES, set), &decode, operands->op_case->rows,
		&shape, stream);
}

#endif

/* Rows without context, as the padding of a graph, come last and get zeroes. */
static void twin(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct attention_shape shape = attention_shape_of(c);
	float *out = operand_host(operands, OPERAND_OUT);
	size_t width = attention_query_width(c);
	uint32_t count = c->rows;

	while (count > 0 && op_case_context(c, count - 1) == 0) {
		count--;
	}
	decode_attention_cpu(out, operand_host(operands, OPERAND_IN),
		operand_host(operands, ATTENTION_KEYS), operand_host(operands, ATTENTION_VALUES),
		operand_host(operands, ATTENTION_TABLES), operand_host(operands, ATTENTION_ROWS),
		operand_host(operands, ATTENTION_CONTEXTS), count, &shape, ROUNDING_BF16);
	memset(out + count * width, 0, (c->rows - count) * width * sizeof(*out));
}

const struct op decode_attention_op = {
	.name = "decode_attention",
	OP_CASES(cases),
	.properties = OP_HAS_PATHS | OP_COMPUTES,
	.fits = attention_fits,
	.describe = describe,
	.work = attention_work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
