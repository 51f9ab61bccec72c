#ifndef KERNELS_ATTENTION_ATTENTION_OPERANDS_H
#define KERNELS_ATTENTION_ATTENTION_OPERANDS_H

#include "kernels/attention/decode.h"
#include "kernels/attention/prefill.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/op/op.h"

/* What the operations on the paged KV pool share when they are tested and timed. */

/* OPERAND_OUT: the output of attention, or the rotated queries. OPERAND_IN: the queries, or rows
   of qkv. OPERAND_WEIGHT: the weight of the queries' norm. */
enum attention_operand {
	ATTENTION_KEYS = OPERAND_MORE,
	ATTENTION_VALUES,
	ATTENTION_TABLES,	 /* (rows, table_width), in another order than the batch */
	ATTENTION_ROWS,		 /* (rows) index into the tables */
	ATTENTION_CONTEXTS,	 /* (rows) */
	ATTENTION_QUERY_START,	 /* prefill: (rows + 1) */
	ATTENTION_TILES,	 /* prefill */
	ATTENTION_SPLITS,	 /* decode: those of all rows */
	ATTENTION_SPLIT_START,	 /* decode: (rows + 1) */
	ATTENTION_PARTIAL_OUT,	 /* decode */
	ATTENTION_PARTIAL_STATE, /* decode */
	ATTENTION_ARRIVALS,	 /* decode */

	/* of qk_norm_rope_store, which has no tables and no splits */
	STORE_K_WEIGHT = ATTENTION_TABLES,
	STORE_ROPE,
	STORE_POSITIONS,
	STORE_SLOTS,
};

struct attention_shape attention_shape_of(const struct op_case *op_case);

/* Whether the kernels support a case: head_dim 32, 64 or 128, block_size a multiple of 64. */
bool attention_fits(const struct op_case *op_case);

/* Elements of a token: of its queries in all query heads, and of its keys or its values in all
   key/value heads. */
uint64_t attention_query_width(const struct op_case *op_case);
uint64_t attention_key_width(const struct op_case *op_case);

struct work attention_work(const struct op_case *op_case);

/* Opens keys, values, tables, rows and contexts. */
void attention_open_pool(struct operands *operands);

/* Permutes the 16-byte chunks of rows of the pool from host order to device order
   (paged_kv_chunk()). The permutation is its own inverse. */
void attention_permute(float *rows, size_t row_count, const struct attention_shape *shape);

/* The arguments of a launch of these operands. Decode: all rows, with blocks for the whole
   device. */
struct decode_work decode_attention_work(const struct operands *operands);
struct prefill_work prefill_attention_work(const struct operands *operands);
struct qk_norm_rope_device qk_norm_rope_store_norm(const struct operands *operands);

#endif
