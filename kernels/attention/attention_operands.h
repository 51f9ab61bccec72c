#ifndef KERNELS_ATTENTION_ATTENTION_OPERANDS_H
#define KERNELS_ATTENTION_ATTENTION_OPERANDS_H

#include "kernels/attention/decode.h"
#include "kernels/attention/prefill.h"
#include "kernels/attention/qk_norm_rope_store.h"
#include "kernels/op/op.h"

/* What the operations around the paged pool share when they are tested and timed. */

/* OPERAND_OUT: what attention gives, or the rotated queries; OPERAND_IN: queries, or rows of qkv;
   OPERAND_WEIGHT: that of the queries' norm. */
enum attention_operand {
	ATTENTION_KEYS = OPERAND_MORE,
	ATTENTION_VALUES,
	ATTENTION_TABLES,   /* (rows, table_width), sequences in another order than in the batch */
	ATTENTION_ROWS,	    /* (rows) index into the tables */
	ATTENTION_CONTEXTS, /* (rows) */
	ATTENTION_QUERY_START,	 /* prefill: (rows + 1) */
	ATTENTION_TILES,	 /* prefill */
	ATTENTION_SPLITS,	 /* decode: those of all rows */
	ATTENTION_SPLIT_START,	 /* decode: (rows + 1) */
	ATTENTION_PARTIAL_OUT,	 /* decode */
	ATTENTION_PARTIAL_STATE, /* decode */
	ATTENTION_ARRIVALS,	 /* decode */

	/* of the store, which has no tables and no splits */
	STORE_K_WEIGHT = ATTENTION_TABLES,
	STORE_ROPE,
	STORE_POSITIONS,
	STORE_SLOTS,
};

struct attention_shape attention_shape_of(const struct op_case *op_case);

/* The kernels take head_dim 32, 64 and 128, and blocks of a multiple of 64 tokens. */
bool attention_fits(const struct op_case *op_case);

/* Queries or keys and values of all heads, in elements of a token. */
uint64_t attention_query_width(const struct op_case *op_case);
uint64_t attention_key_width(const struct op_case *op_case);

struct work attention_work(const struct op_case *op_case);

/* Keys, values, tables, rows and contexts. */
void attention_open_pool(struct operands *operands);

/* Puts the chunks of the pool's rows from their order on the host into that of the device
   (paged_kv_chunk()), or back. */
void attention_permute(float *rows, size_t row_count, const struct attention_shape *shape);

/* What a launch of these operands takes; of decode all rows, by blocks for the whole device. */
struct decode_work decode_attention_work(const struct operands *operands);
struct prefill_work prefill_attention_work(const struct operands *operands);
struct qk_norm_rope_device qk_norm_rope_store_norm(const struct operands *operands);

#endif
