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

/* Sequences that share whole blocks of 256 tokens. */
#define SHARED(rows_, heads_, kv, context_, prefix_)                                               \
	{                                                                                          \
		.size = CASE_MODEL, .rows = rows_, .heads = heads_, .kv_heads = kv,                \
		.head_dim = 128, .block_size = 256, .context = context_, .chunk = 1,               \
		.prefix = prefix_                                                                  \
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
	CASE(CASE_TINY, 4, 4, 2, 128, 16, 300, true),
	CASE(CASE_TINY, 4, 4, 1, 64, 48, 270, true),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 600, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 8, 16, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 64, 16, 8, 128, 256, 512, false),
	CASE(CASE_MODEL, 128, 16, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 256, 16, 8, 128, 256, 512, false),
	CASE(CASE_MODEL, 256, 16, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 188, 16, 8, 128, 256, 1024, true),
	CASE(CASE_MODEL, 37, 16, 8, 128, 256, 2048, true),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 16384, false),
	CASE(CASE_MODEL, 64, 16, 8, 128, 256, 4096, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 32768, false),
	CASE(CASE_MODEL, 256, 32, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 64, 64, 8, 128, 256, 1024, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256, 131072, false),
	CASE(CASE_MODEL, 8, 16, 8, 128, 256, 40000, false),
	CASE(CASE_MODEL, 32, 16, 8, 128, 256, 16384, false),
	CASE(CASE_MODEL, 1, 16, 8, 128, 16, 600, false),
	CASE(CASE_MODEL, 8, 16, 8, 128, 16, 1024, false),
	CASE(CASE_MODEL, 64, 16, 8, 128, 16, 512, false),
	CASE(CASE_MODEL, 256, 16, 8, 128, 16, 1024, false),
	CASE(CASE_MODEL, 256, 32, 8, 128, 16, 1024, false),
	CASE(CASE_MODEL, 8, 16, 8, 128, 16, 40000, false),
	SHARED(4, 16, 8, 40000, 39680),
	SHARED(4, 32, 8, 40000, 39680),
	SHARED(64, 16, 8, 8192, 7936),
	SHARED(64, 32, 8, 8192, 7936),
	SHARED(64, 64, 8, 8192, 7936),
	SHARED(256, 16, 8, 3072, 2048),
};

static void describe(const struct op_case *c, char *text)
{
	char prefix[24] = "", blocks[24] = "";

	if (c->prefix > 0) {
		snprintf(prefix, sizeof(prefix), " sharing %u", c->prefix);
	}
	attention_describe_blocks(c, blocks, sizeof(blocks));
	snprintf(text, OP_TEXT_BYTES, "%ux%u%s%s, %u/%u heads%s", c->rows, c->context,
		c->is_ragged ? " ragged" : "", prefix, c->heads, c->kv_heads, blocks);
}

void decode_attention_claims(struct decode_claims *out, const struct operands *operands,
	const struct attention_lists *lists, uint32_t first_row, uint32_t row_count,
	bool is_sharing)
{
	const struct op_case *c = operands->op_case;
	uint32_t splits = lists->split_start[c->rows];
	struct decode_list list = {
		.shape = attention_shape_of(c),
		.path = operands->path,
		.sharing = is_sharing ? DECODE_SHARING_ON : DECODE_SHARING_OFF,
		.block_count = operands->processors,
		.pool_blocks = attention_pool_blocks(c),
		.row_capacity = c->rows,
		.split_capacity = splits,
	};
	const struct decode_rows rows = {
		.tables = lists->tables,
		.rows = lists->rows,
		.contexts = lists->contexts,
		.split_start = lists->split_start,
		.first_row = first_row,
		.row_count = row_count,
		.may_share = true,
	};

	out->capacity = u32_from(decode_list_capacity(splits));
	out->claims = memory_take(out->capacity, sizeof(*out->claims));
	decode_list_open(&list);
	out->count = decode_list_fill(
		&list, &rows, out->claims, lists->split_start[first_row], &out->launch);
	decode_list_close(&list);
}

static void open_splits(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	struct attention_lists lists;
	struct decode_claims claims;

	attention_lists_make(&lists, c);
	size_t count = lists.split_start[c->rows];
	operands_list(operands, ATTENTION_SPLIT_START, lists.split_start,
		((size_t)c->rows + 1) * sizeof(uint32_t));
	decode_attention_claims(&claims, operands, &lists, 0, c->rows, true);
	operands_list(operands, ATTENTION_LAUNCH, &claims.launch, sizeof(claims.launch));
	operands_list(operands, ATTENTION_CLAIMS, claims.claims,
		claims.capacity * sizeof(*claims.claims));
	operands_scratch(
		operands, ATTENTION_PARTIAL_OUT, count * attention_query_width(c) * sizeof(float));
	operands_scratch(operands, ATTENTION_PARTIAL_STATE, count * c->heads * 2 * sizeof(float));
	operands_counters(operands, ATTENTION_ARRIVALS,
		decode_counters(c->rows, c->kv_heads) * sizeof(uint32_t));
	free(claims.claims);
	attention_lists_free(&lists);
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
	const struct decode_launch *launch = operand_host(operands, ATTENTION_LAUNCH);

	return (struct decode_work){
		.path = operands->path,
		.tables = operand_at(operands, ATTENTION_TABLES, 0),
		.rows = operand_at(operands, ATTENTION_ROWS, 0),
		.contexts = operand_at(operands, ATTENTION_CONTEXTS, 0),
		.launch = operand_at(operands, ATTENTION_LAUNCH, 0),
		.claims = operand_at(operands, ATTENTION_CLAIMS, 0),
		.is_long = launch->is_long,
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
