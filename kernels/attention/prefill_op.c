#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "kernels/attention/attention_operands.h"

#include <stdio.h>
#include <stdlib.h>

#define CASE(size_, rows_, heads_, kv, dim, block, context_, chunk_, ragged)                       \
	{                                                                                          \
		.size = size_, .rows = rows_, .heads = heads_, .kv_heads = kv, .head_dim = dim,    \
		.block_size = block, .context = context_, .chunk = chunk_, .is_ragged = ragged     \
	}

static const struct op_case cases[] = {
	CASE(CASE_TINY, 1, 1, 1, 2, 1, 1, 1, false),
	CASE(CASE_TINY, 3, 2, 2, 16, 5, 11, 6, true),
	CASE(CASE_TINY, 2, 2, 1, 128, 64, 63, 63, false),
	CASE(CASE_TINY, 2, 2, 1, 128, 64, 64, 64, false),
	CASE(CASE_TINY, 2, 2, 1, 128, 64, 65, 1, false),
	CASE(CASE_TINY, 3, 3, 1, 128, 64, 130, 65, true),
	CASE(CASE_TINY, 3, 4, 1, 128, 256, 257, 129, true),
	CASE(CASE_TINY, 2, 5, 1, 128, 64, 100, 100, true),
	CASE(CASE_TINY, 2, 6, 1, 128, 64, 100, 37, true),
	CASE(CASE_TINY, 2, 7, 1, 128, 64, 100, 99, true),
	CASE(CASE_TINY, 2, 16, 2, 128, 256, 300, 40, true),
	CASE(CASE_TINY, 2, 4, 2, 128, 16, 300, 200, true),
	CASE(CASE_TINY, 2, 4, 1, 64, 48, 270, 130, true),
	CASE(CASE_MODEL, 16, 16, 8, 128, 256, 1024, 1024, false),
	CASE(CASE_MODEL, 4, 16, 8, 128, 256, 4096, 4096, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 16384, 16384, false),
	CASE(CASE_MODEL, 30, 16, 8, 128, 256, 1024, 1024, true),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 32768, 2048, false),
	CASE(CASE_MODEL, 16, 32, 8, 128, 256, 1024, 1024, false),
	CASE(CASE_MODEL, 16, 16, 8, 128, 16, 1024, 1024, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 16, 16384, 16384, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 16, 32768, 2048, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 56384, 16384, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 136384, 16384, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 40064, 64, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 40256, 256, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 42048, 2048, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 120064, 64, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 120256, 256, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 122048, 2048, false),
	CASE(CASE_MODEL, 8, 16, 8, 128, 256, 40256, 256, false),
};

static void describe(const struct op_case *c, char *text)
{
	char blocks[24] = "";

	attention_describe_blocks(c, blocks, sizeof(blocks));
	snprintf(text, OP_TEXT_BYTES, "%ux%u of %u%s, %u/%u heads%s", c->rows, c->chunk, c->context,
		c->is_ragged ? " ragged" : "", c->heads, c->kv_heads, blocks);
}

/* When checked, the first tokens belong to decode rows, which prefill must not touch. */
static void open(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	size_t width = attention_query_width(c);
	uint32_t *start = memory_take((size_t)c->rows + 1, sizeof(*start));
	uint32_t *contexts = memory_take(c->rows, sizeof(*contexts));

	start[0] = operands->is_checked ? 3 : 0;
	for (uint32_t r = 0; r < c->rows; r++) {
		contexts[r] = op_case_context(c, r);
		start[r + 1] = start[r] + op_case_chunk(c, r);
	}
	uint32_t tokens = start[c->rows];
	struct prefill_tile *tiles =
		memory_take((size_t)tokens / PREFILL_QUERY_TILE + c->rows, sizeof(*tiles));
	uint32_t count = prefill_tiles_fill(tiles, start, contexts, 0, c->rows);
	operands_output(
		operands, OPERAND_OUT, OPERAND_BF16, tokens * width, width, OPERAND_BF16_TOLERANCE);
	operands_random(operands, OPERAND_IN, tokens * width);
	attention_open_pool(operands);
	operands_list(operands, ATTENTION_TILES, tiles, count * sizeof(*tiles));
	operands_list(
		operands, ATTENTION_QUERY_START, start, ((size_t)c->rows + 1) * sizeof(*start));
	free(tiles);
	free(start);
	free(contexts);
}

struct prefill_work prefill_attention_work(const struct operands *operands)
{
	return (struct prefill_work){
		.path = operands->path,
		.tables = operand_at(operands, ATTENTION_TABLES, 0),
		.rows = operand_at(operands, ATTENTION_ROWS, 0),
		.query_start = operand_at(operands, ATTENTION_QUERY_START, 0),
		.contexts = operand_at(operands, ATTENTION_CONTEXTS, 0),
		.tiles = operand_at(operands, ATTENTION_TILES, 0),
		.tile_count = u32_from(
			operands->operand[ATTENTION_TILES].count / sizeof(struct prefill_tile)),
	};
}

#ifdef QUIRE_HAS_CUDA
static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct attention_shape shape = attention_shape_of(operands->op_case);
	const struct prefill_work prefill = prefill_attention_work(operands);

	return prefill_attention(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, OPERAND_IN, set), operand_at(operands, ATTENTION_KEYS, set),
		operand_at(operands, ATTENTION_VALUES, set), &prefill, &shape, stream);
}
#endif

static void twin(struct operands *operands)
{
	const struct attention_shape shape = attention_shape_of(operands->op_case);

	prefill_attention_cpu(operand_host(operands, OPERAND_OUT),
		operand_host(operands, OPERAND_IN), operand_host(operands, ATTENTION_KEYS),
		operand_host(operands, ATTENTION_VALUES), operand_host(operands, ATTENTION_TABLES),
		operand_host(operands, ATTENTION_ROWS),
		operand_host(operands, ATTENTION_QUERY_START),
		operand_host(operands, ATTENTION_CONTEXTS), operands->op_case->rows, &shape,
		ROUNDING_BF16);
}

const struct op prefill_attention_op = {
	.name = "prefill_attention",
	OP_CASES(cases),
	.properties = OP_HAS_PATHS | OP_COMPUTES,
	.fits = attention_fits,
	.describe = describe,
	.work = attention_work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
