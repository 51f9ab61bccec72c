#include "bench/kernels/cuda_kernel_operands.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "kernels/rows/add_rms_norm.h"
#include "kernels/attention/decode_attention.h"
#include "kernels/linear/linear.h"
#include "kernels/rows/embedding.h"
#include "kernels/rows/gather_rows.h"
#include "kernels/device/limits.h"
#include "kernels/attention/prefill_attention.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/rows/rms_norm.h"
#include "kernels/attention/rope_table.h"
#include "kernels/sampling/sampler.h"
#include "kernels/rows/silu_mul.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

enum {
	/* where the tensors lie in kernel_operands.tensor */
	OUT = 0,
	IN = 1,
	WEIGHT = 2,
	RESIDUAL = 3,
	KEYS = 3,
	VALUES = 4,
	LISTS = 5, /* and those behind it: ids, positions, tables and the like */
	POSITIONS = 4096,
	LARGEST_ALIGNMENT = 256,
};

static const float EPSILON = 1e-6f;

/* ---- taking ---- */

static void note(struct kernel_operands *operands, int code)
{
	operands->code = operands->code == 0 ? code : operands->code;
}

static void *at(const struct kernel_operands *operands, uint32_t tensor, uint32_t set)
{
	return operands->tensor[tensor].base + operands->tensor[tensor].stride * set;
}

/* Memory for a tensor of `bytes`, `sets` times. */
static void take(struct kernel_operands *operands, uint32_t tensor, uint64_t bytes, uint32_t sets)
{
	struct operand *operand = &operands->tensor[tensor];
	size_t stride = u64_divide_up(bytes, LARGEST_ALIGNMENT) * LARGEST_ALIGNMENT;

	check(operand->base == NULL);
	if (operands->code != 0) {
		return;
	}
	operand->stride = sets == 1 ? 0 : stride;
	note(operands, (int)cudaMalloc((void **)&operand->base, stride * sets));
	if (operands->code == 0) {
		note(operands, (int)cudaMemset(operand->base, 0, stride * sets));
	}
}

/* A tensor of bf16, in every set another one. */
static void take_random(struct kernel_operands *operands, uint32_t tensor, uint64_t count)
{
	take(operands, tensor, count * 2, operands->set_count);
	for (uint32_t set = 0; set < operands->set_count && operands->code == 0; set++) {
		note(operands, fill_bf16(at(operands, tensor, set), count,
				       counter_key(tensor, (uint64_t)set + 1), NULL));
	}
}

/* One that all sets share. */
static void take_shared(struct kernel_operands *operands, uint32_t tensor, uint64_t count)
{
	take(operands, tensor, count * 2, 1);
	if (operands->code == 0) {
		note(operands, fill_bf16(at(operands, tensor, 0), count, tensor, NULL));
	}
}

/* A list that all sets share, copied from the host. */
static void take_list(
	struct kernel_operands *operands, uint32_t tensor, const void *list, size_t bytes)
{
	take(operands, tensor, bytes, 1);
	if (operands->code == 0) {
		note(operands, (int)cudaMemcpy(at(operands, tensor, 0), list, bytes,
				       cudaMemcpyHostToDevice));
	}
}

/* ---- operations on rows ---- */

static void open_rows(struct kernel_operands *operands, uint64_t out_width, uint64_t in_width)
{
	const struct kernel_case *c = operands->kernel_case;

	take(operands, OUT, c->rows * out_width * 2, operands->set_count);
	take_random(operands, IN, c->rows * in_width);
}

static void open_norm(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;

	open_rows(operands, c->width, c->width);
	take_shared(operands, WEIGHT, c->width);
	if (c->kernel == KERNEL_ADD_RMS_NORM) {
		take_random(operands, RESIDUAL, (uint64_t)c->rows * c->width);
	}
}

static int launch_rms_norm(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return rms_norm(at(operands, OUT, set), at(operands, IN, set), at(operands, WEIGHT, set),
		c->rows, c->width, EPSILON, stream);
}

static int launch_add_rms_norm(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return add_rms_norm(at(operands, OUT, set), at(operands, RESIDUAL, set),
		at(operands, IN, set), at(operands, WEIGHT, set), NULL, c->rows, c->width, EPSILON,
		stream);
}

static void open_silu_mul(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;

	open_rows(operands, c->width, 2 * (uint64_t)c->width);
}

static int launch_silu_mul(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return silu_mul(at(operands, OUT, set), at(operands, IN, set), c->rows, c->width, stream);
}

/* Ids below `end`, in no order, other ones in every set. */
static void take_ids(struct kernel_operands *operands, uint32_t end)
{
	uint32_t count = operands->kernel_case->rows;
	uint32_t *ids = memory_take(count, sizeof(*ids));

	take(operands, LISTS, count * sizeof(*ids), operands->set_count);
	for (uint32_t set = 0; set < operands->set_count && operands->code == 0; set++) {
		for (uint32_t i = 0; i < count; i++) {
			uint64_t hash = counter_hash(counter_key(LISTS, set), i);
			ids[i] = counter_below((uint32_t)hash, end);
		}
		note(operands, (int)cudaMemcpy(at(operands, LISTS, set), ids, count * sizeof(*ids),
				       cudaMemcpyHostToDevice));
	}
	free(ids);
}

static void open_embedding(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;

	take(operands, OUT, (uint64_t)c->rows * c->width * 2, operands->set_count);
	take_shared(operands, WEIGHT, (uint64_t)c->outputs * c->width);
	take_ids(operands, c->outputs);
}

static int launch_embedding(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return embedding(at(operands, OUT, set), at(operands, WEIGHT, set),
		at(operands, LISTS, set), NULL, NULL, c->rows, c->width, stream);
}

static void open_gather_rows(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;

	open_rows(operands, c->width, c->width);
	take_ids(operands, c->rows);
}

static int launch_gather_rows(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return gather_rows(at(operands, OUT, set), at(operands, IN, set), at(operands, LISTS, set),
		c->rows, c->width, stream);
}

/* ---- matrix products ---- */

static void open_product(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;

	open_rows(operands, c->outputs, c->width);
	take_random(operands, WEIGHT, (uint64_t)c->outputs * c->width);
}

static int launch_matmul(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return cublaslt_linear(operands->products, at(operands, OUT, set), at(operands, IN, set),
		at(operands, WEIGHT, set), NULL, c->rows, c->width, c->outputs, stream);
}

static int launch_decode_matmul(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return linear(at(operands, OUT, set), at(operands, IN, set), at(operands, WEIGHT, set),
		NULL, c->rows, c->width, c->outputs, stream);
}

static int launch_decode_matmul_silu(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return linear_silu(at(operands, OUT, set), at(operands, IN, set), at(operands, WEIGHT, set),
		c->rows, c->width, c->outputs / 2, stream);
}

/* ---- attention ---- */

enum { TABLES = LISTS, ROWS, CONTEXTS, PIECES, STARTS, PARTIAL_OUT, PARTIAL_STATE };

/* The numbers below `count` in no order, as an engine's blocks are after a while. */
static uint32_t *shuffled(uint32_t count)
{
	uint32_t *numbers = memory_take(count, sizeof(*numbers));

	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = counter_below((uint32_t)counter_hash(TABLES, i), i + 1);
		numbers[i] = numbers[other];
		numbers[other] = i;
	}
	return numbers;
}

/* Keys and values, block tables and the rows' contexts. */
static void open_pool(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;
	uint32_t width = u32_from(u64_divide_up(c->context, c->block_size));
	uint32_t used = 0;
	uint32_t *blocks = shuffled(c->rows * width);
	uint32_t *tables = memory_take((size_t)c->rows * width, sizeof(*tables));
	uint32_t *rows = memory_take(c->rows, sizeof(*rows));
	uint32_t *contexts = memory_take(c->rows, sizeof(*contexts));
	uint64_t pool = (uint64_t)c->rows * width * c->kv_heads * c->block_size * c->head_dim;

	operands->shape =
		(struct attention_shape){c->heads, c->kv_heads, c->head_dim, c->block_size, width};
	for (uint32_t r = 0; r < c->rows; r++) {
		rows[r] = r;
		contexts[r] = kernel_case_context(c, r);
		for (uint32_t i = 0; i * c->block_size < contexts[r]; i++) {
			tables[(size_t)r * width + i] = blocks[used++];
		}
	}
	take_random(operands, KEYS, pool);
	take_random(operands, VALUES, pool);
	take_list(operands, TABLES, tables, (size_t)c->rows * width * sizeof(*tables));
	take_list(operands, ROWS, rows, c->rows * sizeof(*rows));
	take_list(operands, CONTEXTS, contexts, c->rows * sizeof(*contexts));
	free(blocks);
	free(tables);
	free(rows);
	free(contexts);
}

static void open_decode(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;
	size_t most = u64_divide_up(c->context, (uint64_t)DECODE_SPLIT) * c->rows;
	uint32_t count = 0;
	struct decode_split *splits = memory_take(most, sizeof(*splits));
	uint32_t *starts = memory_take((size_t)c->rows + 1, sizeof(*starts));

	open_pool(operands);
	for (uint32_t r = 0; r < c->rows; r++) {
		for (uint32_t i = 0; i * DECODE_SPLIT < kernel_case_context(c, r); i++) {
			splits[count++] = (struct decode_split){.row = r, .index = i};
		}
		starts[r + 1] = count;
	}
	open_rows(operands, (uint64_t)c->heads * c->head_dim, (uint64_t)c->heads * c->head_dim);
	take_list(operands, PIECES, splits, count * sizeof(*splits));
	take_list(operands, STARTS, starts, ((size_t)c->rows + 1) * sizeof(*starts));
	take(operands, PARTIAL_OUT, (uint64_t)count * c->heads * c->head_dim * 4, 1);
	take(operands, PARTIAL_STATE, (uint64_t)count * c->heads * 2 * 4, 1);
	/* the counters, zero */
	take(operands, WEIGHT, (1 + (uint64_t)c->rows * c->kv_heads) * sizeof(uint32_t), 1);
	free(splits);
	free(starts);
}

static int launch_decode_attention(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct decode_work work = {
		.path = operands->path,
		.tables = at(operands, TABLES, 0),
		.rows = at(operands, ROWS, 0),
		.contexts = at(operands, CONTEXTS, 0),
		.splits = at(operands, PIECES, 0),
		.split_start = at(operands, STARTS, 0),
		.partial_out = at(operands, PARTIAL_OUT, 0),
		.partial_state = at(operands, PARTIAL_STATE, 0),
		.arrivals = at(operands, WEIGHT, 0),
		.block_count = decode_attention_blocks(operands->path, operands->processors),
	};

	return decode_attention(at(operands, OUT, set), at(operands, IN, set),
		at(operands, KEYS, set), at(operands, VALUES, set), &work,
		operands->kernel_case->rows, &operands->shape, stream);
}

static void open_prefill(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;
	size_t most = (u64_divide_up(c->chunk, (uint64_t)PREFILL_QUERY_TILE) + 1) * c->rows;
	struct prefill_tile *tiles = memory_take(most, sizeof(*tiles));
	uint32_t *starts = memory_take((size_t)c->rows + 1, sizeof(*starts));
	uint32_t *contexts = memory_take(c->rows, sizeof(*contexts));
	uint64_t width = (uint64_t)c->heads * c->head_dim;

	open_pool(operands);
	for (uint32_t r = 0; r < c->rows; r++) {
		contexts[r] = kernel_case_context(c, r);
		starts[r + 1] = starts[r] + kernel_case_chunk(c, r);
	}
	operands->tile_count = prefill_tiles_fill(tiles, starts, contexts, 0, c->rows);
	take(operands, OUT, starts[c->rows] * width * 2, operands->set_count);
	take_random(operands, IN, starts[c->rows] * width);
	take_list(operands, PIECES, tiles, operands->tile_count * sizeof(*tiles));
	take_list(operands, STARTS, starts, ((size_t)c->rows + 1) * sizeof(*starts));
	free(tiles);
	free(starts);
	free(contexts);
}

static int launch_prefill_attention(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct prefill_work work = {
		.path = operands->path,
		.tables = at(operands, TABLES, 0),
		.rows = at(operands, ROWS, 0),
		.query_start = at(operands, STARTS, 0),
		.contexts = at(operands, CONTEXTS, 0),
		.tiles = at(operands, PIECES, 0),
		.tile_count = operands->tile_count,
	};

	return prefill_attention(at(operands, OUT, set), at(operands, IN, set),
		at(operands, KEYS, set), at(operands, VALUES, set), &work, &operands->shape,
		stream);
}

/* ---- the store into the pool ---- */

enum { QKV = IN, ROPE = RESIDUAL + 2, POSITION_LIST, SLOT_LIST, STORED_KEYS, STORED_VALUES };

/* A slot for each token, in no order; of the cases no number of slots is divided by 5. */
static void open_store(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;
	uint64_t slot_count = u64_divide_up(c->rows, c->block_size) * c->block_size;
	uint64_t heads = c->heads + 2 * c->kv_heads;
	uint64_t pool = slot_count * c->kv_heads * c->head_dim;
	int64_t *slots = memory_take(c->rows, sizeof(*slots));
	uint32_t *positions = memory_take(c->rows, sizeof(*positions));
	float *rope = memory_take((size_t)POSITIONS * c->head_dim, sizeof(*rope));

	operands->shape =
		(struct attention_shape){c->heads, c->kv_heads, c->head_dim, c->block_size, 1};
	for (uint32_t r = 0; r < c->rows; r++) {
		slots[r] = (int64_t)(r * UINT64_C(5) % slot_count);
		positions[r] = r * 7 % POSITIONS;
	}
	rope_table_fill(rope, POSITIONS, c->head_dim, 1e6);
	open_rows(operands, (uint64_t)c->heads * c->head_dim, heads * c->head_dim);
	take_shared(operands, WEIGHT, c->head_dim);
	take_list(operands, ROPE, rope, (size_t)POSITIONS * c->head_dim * sizeof(*rope));
	take_list(operands, POSITION_LIST, positions, c->rows * sizeof(*positions));
	take_list(operands, SLOT_LIST, slots, c->rows * sizeof(*slots));
	take(operands, STORED_KEYS, pool * 2, operands->set_count);
	take(operands, STORED_VALUES, pool * 2, operands->set_count);
	free(slots);
	free(positions);
	free(rope);
}

static int launch_store(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct qk_norm_rope_device norm = {
		.q_weight = at(operands, WEIGHT, 0),
		.k_weight = at(operands, WEIGHT, 0),
		.rope = at(operands, ROPE, 0),
		.epsilon = EPSILON,
	};

	return qk_norm_rope_store(at(operands, OUT, set), at(operands, STORED_KEYS, set),
		at(operands, STORED_VALUES, set), at(operands, QKV, set),
		at(operands, POSITION_LIST, 0), at(operands, SLOT_LIST, 0),
		operands->kernel_case->rows, &norm, &operands->shape, stream);
}

/* ---- sampling ---- */

enum { LOGITS = IN, HEATS = RESIDUAL, KEY_LIST = LISTS, ROW_LIST, LAST_TOKENS, TILES };

static void open_sampler(struct kernel_operands *operands)
{
	const struct kernel_case *c = operands->kernel_case;
	uint64_t count = (uint64_t)c->rows * c->outputs;
	uint64_t tiles = u64_divide_up(c->outputs, (uint64_t)SAMPLER_TILE);
	uint64_t *keys = memory_take(c->rows, sizeof(*keys));
	uint32_t *rows = memory_take(c->rows, sizeof(*rows));
	float *heats = memory_take(c->rows, sizeof(*heats));

	for (uint32_t r = 0; r < c->rows; r++) {
		keys[r] = sampler_row_key(0, r, 0);
		rows[r] = r;
		heats[r] = 1;
	}
	take(operands, LOGITS, count * 4, operands->set_count);
	for (uint32_t set = 0; set < operands->set_count && operands->code == 0; set++) {
		note(operands, fill_float(at(operands, LOGITS, set), count, set, NULL));
	}
	take(operands, OUT, c->rows * sizeof(int32_t), 1);
	take(operands, LAST_TOKENS, c->rows * sizeof(int32_t), 1);
	take(operands, TILES, c->rows * tiles * SAMPLER_TILE_BYTES, 1);
	take_list(operands, KEY_LIST, keys, c->rows * sizeof(*keys));
	take_list(operands, ROW_LIST, rows, c->rows * sizeof(*rows));
	take_list(operands, HEATS, heats, c->rows * sizeof(*heats));
	free(keys);
	free(rows);
	free(heats);
}

static int launch_sampler(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct kernel_case *c = operands->kernel_case;

	return sampler(at(operands, OUT, 0), at(operands, LAST_TOKENS, 0), at(operands, TILES, 0),
		at(operands, LOGITS, set), at(operands, KEY_LIST, 0), at(operands, HEATS, 0),
		at(operands, ROW_LIST, 0), c->rows, c->outputs, stream);
}

/* ---- the table ---- */

struct operation {
	void (*open)(struct kernel_operands *operands);
	int (*launch)(
		const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream);
};

static const struct operation operations[KERNEL_COUNT] = {
	[KERNEL_EMBEDDING] = {open_embedding, launch_embedding},
	[KERNEL_RMS_NORM] = {open_norm, launch_rms_norm},
	[KERNEL_ADD_RMS_NORM] = {open_norm, launch_add_rms_norm},
	[KERNEL_QK_NORM_ROPE_STORE] = {open_store, launch_store},
	[KERNEL_DECODE_ATTENTION] = {open_decode, launch_decode_attention},
	[KERNEL_PREFILL_ATTENTION] = {open_prefill, launch_prefill_attention},
	[KERNEL_SILU_MUL] = {open_silu_mul, launch_silu_mul},
	[KERNEL_GATHER_ROWS] = {open_gather_rows, launch_gather_rows},
	[KERNEL_MATMUL] = {open_product, launch_matmul},
	[KERNEL_DECODE_MATMUL] = {open_product, launch_decode_matmul},
	[KERNEL_DECODE_MATMUL_SILU] = {open_product, launch_decode_matmul_silu},
	[KERNEL_SAMPLER] = {open_sampler, launch_sampler},
};

bool kernel_operands_fit(const struct kernel_case *c)
{
	bool is_decode_product =
		c->kernel == KERNEL_DECODE_MATMUL || c->kernel == KERNEL_DECODE_MATMUL_SILU;

	return !is_decode_product || linear_fits(c->width, c->outputs);
}

int kernel_operands_open(struct kernel_operands *operands)
{
	operations[operands->kernel_case->kernel].open(operands);
	note(operands, (int)cudaDeviceSynchronize());
	return operands->code;
}

void kernel_operands_close(struct kernel_operands *operands)
{
	for (uint32_t i = 0; i < OPERAND_COUNT; i++) {
		cudaFree(operands->tensor[i].base);
		operands->tensor[i].base = NULL;
	}
}

int kernel_operands_launch(
	const struct kernel_operands *operands, uint32_t set, struct CUstream_st *stream)
{
	check(set < operands->set_count);
	return operations[operands->kernel_case->kernel].launch(operands, set, stream);
}
