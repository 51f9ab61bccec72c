#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "kernels/attention/attention_operands.h"
#include "kernels/attention/rope_table.h"

#include <stdio.h>
#include <stdlib.h>

enum { POSITION_LIMIT = 4096 };

static const float EPSILON = 1e-6f;

#define CASE(size_, rows_, heads_, kv, dim, block)                                                 \
	{                                                                                          \
		.size = size_, .rows = rows_, .heads = heads_, .kv_heads = kv, .head_dim = dim,    \
		.block_size = block                                                                \
	}

static const struct op_case cases[] = {
	CASE(CASE_TINY, 1, 1, 1, 2, 1),
	CASE(CASE_TINY, 9, 3, 1, 16, 4),
	CASE(CASE_TINY, 70, 16, 8, 128, 64),
	CASE(CASE_MODEL, 1, 16, 8, 128, 256),
	CASE(CASE_MODEL, 256, 16, 8, 128, 256),
	CASE(CASE_MODEL, 16384, 16, 8, 128, 256),
};

static void describe(const struct op_case *c, char *text)
{
	snprintf(text, OP_TEXT_BYTES, "%u, %u/%u heads", c->rows, c->heads, c->kv_heads);
}

static struct work work(const struct op_case *c)
{
	return work_qk_norm_rope_store(c->rows, attention_query_width(c), attention_key_width(c));
}

/* A slot for each token, scattered over the pool. When checked, the pool has more slots than
   tokens, and every fourth token has none. */
static void open_slots(struct operands *operands, uint32_t slot_count)
{
	static const uint32_t edges[] = {0, 1, 63, 64, 65, 300, 511, 512, 699};
	const struct op_case *c = operands->op_case;
	int64_t *slots = memory_take(c->rows, sizeof(*slots));
	uint32_t *positions = memory_take(c->rows, sizeof(*positions));

	for (uint32_t t = 0; t < c->rows; t++) {
		slots[t] = (int64_t)((t * UINT64_C(5) + slot_count - 1) % slot_count);
		slots[t] = operands->is_checked && t % 4 == 3 ? -1 : slots[t];
		positions[t] =
			t < sizeof(edges) / sizeof(edges[0]) ? edges[t] : t * 37 % POSITION_LIMIT;
	}
	operands_list(operands, STORE_POSITIONS, positions, c->rows * sizeof(*positions));
	operands_list(operands, STORE_SLOTS, slots, c->rows * sizeof(*slots));
	free(slots);
	free(positions);
}

static void open(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	uint32_t dim = c->head_dim;
	uint32_t blocks = operands->is_checked ? 2 + 2 * c->rows / c->block_size
					       : u32_from(u64_divide_up(c->rows, c->block_size));
	blocks += blocks % 5 == 0; /* so that steps of 5 slots visit no slot twice */
	size_t pool = (size_t)blocks * c->block_size * attention_key_width(c);
	size_t width = attention_query_width(c) + 2 * attention_key_width(c);
	size_t rope_count = (size_t)POSITION_LIMIT * dim;
	float *rope = memory_take(rope_count, sizeof(*rope));

	rope_table_fill(rope, POSITION_LIMIT, dim, 1e6);
	operands_output(operands, OPERAND_OUT, OPERAND_BF16, c->rows * attention_query_width(c),
		dim, OPERAND_BF16_TOLERANCE);
	operands_random(operands, OPERAND_IN, c->rows * width);
	operands_random_shared(operands, OPERAND_WEIGHT, dim);
	operands_random_shared(operands, STORE_K_WEIGHT, dim);
	operands_list(operands, STORE_ROPE, rope, rope_count * sizeof(*rope));
	operands_output(operands, ATTENTION_KEYS, OPERAND_BF16, pool, dim, OPERAND_BF16_TOLERANCE);
	operands_output(operands, ATTENTION_VALUES, OPERAND_BF16, pool, dim, 0);
	open_slots(operands, blocks * c->block_size);
	free(rope);
}

struct qk_norm_rope_device qk_norm_rope_store_norm(const struct operands *operands)
{
	return (struct qk_norm_rope_device){
		.q_weight = operand_at(operands, OPERAND_WEIGHT, 0),
		.k_weight = operand_at(operands, STORE_K_WEIGHT, 0),
		.rope = operand_at(operands, STORE_ROPE, 0),
		.epsilon = EPSILON,
	};
}

#ifdef QUIRE_HAS_CUDA
static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct attention_shape shape = attention_shape_of(operands->op_case);
	const struct qk_norm_rope_device norm = qk_norm_rope_store_norm(operands);

	return qk_norm_rope_store(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, ATTENTION_KEYS, set),
		operand_at(operands, ATTENTION_VALUES, set), operand_at(operands, OPERAND_IN, set),
		operand_at(operands, STORE_POSITIONS, 0), operand_at(operands, STORE_SLOTS, 0),
		operands->op_case->rows, &norm, &shape, stream);
}
#endif

/* The stored rows are in device order. */
static void twin(struct operands *operands)
{
	const struct attention_shape shape = attention_shape_of(operands->op_case);
	size_t pool = operands->operand[ATTENTION_KEYS].count / shape.head_dim;
	const struct qk_norm_rope norm = {
		.q_weight = operand_host(operands, OPERAND_WEIGHT),
		.k_weight = operand_host(operands, STORE_K_WEIGHT),
		.rope = operand_host(operands, STORE_ROPE),
		.epsilon = EPSILON,
	};

	qk_norm_rope_store_cpu(operand_host(operands, OPERAND_OUT),
		operand_host(operands, ATTENTION_KEYS), operand_host(operands, ATTENTION_VALUES),
		operand_host(operands, OPERAND_IN), operand_host(operands, STORE_POSITIONS),
		operand_host(operands, STORE_SLOTS), operands->op_case->rows, &norm, &shape,
		ROUNDING_BF16);
	attention_permute(operand_host(operands, ATTENTION_KEYS), pool, &shape);
	attention_permute(operand_host(operands, ATTENTION_VALUES), pool, &shape);
}

const struct op qk_norm_rope_store_op = {
	.name = "qk_norm_rope_store",
	OP_CASES(cases),
	.fits = attention_fits,
	.describe = describe,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
