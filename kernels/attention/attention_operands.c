#include "kernels/attention/attention_operands.h"

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool attention_fits(const struct op_case *c)
{
	return (c->head_dim == 32 || c->head_dim == 64 || c->head_dim == 128) &&
	       c->block_size % PAGED_KV_STEP == 0;
}

struct attention_shape attention_shape_of(const struct op_case *c)
{
	uint32_t most = 0;

	for (uint32_t r = 0; c->context > 0 && r < c->rows; r++) {
		most = u32_max(most, op_case_context(c, r));
	}
	return (struct attention_shape){.head_count = c->heads,
		.kv_head_count = c->kv_heads,
		.head_dim = c->head_dim,
		.block_size = c->block_size,
		.table_width = u32_max(u32_from(u64_divide_up(most, c->block_size)), 1)};
}

uint32_t attention_pool_blocks(const struct op_case *c)
{
	uint32_t width = attention_shape_of(c).table_width;

	return c->rows * width - (c->rows - 1) * (c->prefix / c->block_size);
}

uint64_t attention_query_width(const struct op_case *c)
{
	return (uint64_t)c->heads * c->head_dim;
}

uint64_t attention_key_width(const struct op_case *c)
{
	return (uint64_t)c->kv_heads * c->head_dim;
}

void attention_describe_blocks(const struct op_case *c, char *text, size_t size)
{
	if (c->block_size != 256) {
		snprintf(text, size, ", blocks of %u", c->block_size);
	}
}

struct work attention_work(const struct op_case *c)
{
	struct attention_counts counts = {0};

	for (uint32_t row = 0; row < c->rows; row++) {
		uint64_t context = op_case_context(c, row), chunk = op_case_chunk(c, row);
		counts.contexts += context - (row > 0 ? c->prefix : 0);
		counts.queries += chunk;
		counts.pairs += chunk * (context - chunk) + chunk * (chunk + 1) / 2;
	}
	return work_attention(&counts, attention_query_width(c), attention_key_width(c));
}

void attention_permute(float *rows, size_t row_count, const struct attention_shape *shape)
{
	uint32_t dim = shape->head_dim;
	float *row = memory_take(dim, sizeof(*row));

	for (size_t r = 0; r < row_count; r++) {
		uint32_t token = (uint32_t)(r % shape->block_size);
		memcpy(row, rows + r * dim, dim * sizeof(*row));
		for (uint32_t chunk = 0; chunk < dim / 8; chunk++) {
			memcpy(rows + r * dim + (size_t)paged_kv_chunk(shape, token, chunk) * 8,
				row + (size_t)chunk * 8, 8 * sizeof(*row));
		}
	}
	free(row);
}

/* The numbers below `count` in random order, like the blocks of an engine after some time. */
static uint32_t *shuffled(uint32_t count)
{
	uint32_t *numbers = memory_take(count, sizeof(*numbers));

	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = counter_below((uint32_t)counter_hash(ATTENTION_TABLES, i), i + 1);
		numbers[i] = numbers[other];
		numbers[other] = i;
	}
	return numbers;
}

/* Keys or values of `rows` tokens and heads, with the chunks permuted on the device. */
static void open_tokens(
	struct operands *operands, uint32_t index, size_t rows, const struct attention_shape *shape)
{
	operands_random(operands, index, rows * shape->head_dim);
	if (operands->is_checked) {
		attention_permute(operand_host(operands, index), rows, shape);
		operands_send(operands, index);
		attention_permute(operand_host(operands, index), rows, shape);
	}
}

void attention_lists_make(struct attention_lists *lists, const struct op_case *c)
{
	uint32_t width = attention_shape_of(c).table_width, used = 0;
	uint32_t *blocks = shuffled(attention_pool_blocks(c));

	*lists = (struct attention_lists){
		.tables = memory_take((size_t)c->rows * width, sizeof(*lists->tables)),
		.rows = memory_take(c->rows, sizeof(*lists->rows)),
		.contexts = memory_take(c->rows, sizeof(*lists->contexts)),
		.split_start = memory_take((size_t)c->rows + 1, sizeof(*lists->split_start)),
	};
	for (uint32_t r = 0; r < c->rows; r++) {
		uint32_t context = op_case_context(c, r);
		const uint32_t *first = lists->tables + (size_t)(c->rows - 1) * width;
		uint32_t *table = lists->tables + (size_t)(c->rows - 1 - r) * width;
		lists->rows[r] = c->rows - 1 - r;
		lists->contexts[r] = context;
		lists->split_start[r + 1] =
			lists->split_start[r] +
			u32_from(u64_divide_up(context, (uint64_t)DECODE_SPLIT));
		for (uint32_t i = 0; i * c->block_size < context; i++) {
			bool is_prefix = r > 0 && i < c->prefix / c->block_size;
			table[i] = is_prefix ? first[i] : blocks[used++];
		}
	}
	free(blocks);
}

void attention_lists_free(struct attention_lists *lists)
{
	free(lists->tables);
	free(lists->rows);
	free(lists->contexts);
	free(lists->split_start);
}

void attention_open_pool(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct attention_shape shape = attention_shape_of(c);
	size_t tokens = (size_t)attention_pool_blocks(c) * c->kv_heads * c->block_size;
	size_t entries = (size_t)c->rows * shape.table_width;
	struct attention_lists lists;

	attention_lists_make(&lists, c);
	open_tokens(operands, ATTENTION_KEYS, tokens, &shape);
	open_tokens(operands, ATTENTION_VALUES, tokens, &shape);
	operands_list(operands, ATTENTION_TABLES, lists.tables, entries * sizeof(uint32_t));
	operands_list(operands, ATTENTION_ROWS, lists.rows, c->rows * sizeof(uint32_t));
	operands_list(operands, ATTENTION_CONTEXTS, lists.contexts, c->rows * sizeof(uint32_t));
	attention_lists_free(&lists);
}
