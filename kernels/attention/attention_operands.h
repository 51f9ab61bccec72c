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
	ATTENTION_LAUNCH,	 /* decode: of all rows */
	ATTENTION_CLAIMS,	 /* decode */
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

/* Whether the kernels support a case: head_dim 32, 64 or 128, block_size a multiple of
   PAGED_KV_STEP. */
bool attention_fits(const struct op_case *op_case);

/* Elements of a token: of its queries in all query heads, and of its keys or its values in all
   key/value heads. */
uint64_t attention_query_width(const struct op_case *op_case);
uint64_t attention_key_width(const struct op_case *op_case);

/* ", blocks of 16", or nothing where they have 256 tokens. */
void attention_describe_blocks(const struct op_case *op_case, char *text, size_t size);

struct work attention_work(const struct op_case *op_case);

/* Blocks of the pool of a case. */
uint32_t attention_pool_blocks(const struct op_case *op_case);

/* The lists of a case, made from its sizes alone. */
struct attention_lists {
	uint32_t *tables;      /* (rows, table_width), in another order than the batch */
	uint32_t *rows;	       /* (rows) index into the tables */
	uint32_t *contexts;    /* (rows) */
	uint32_t *split_start; /* (rows + 1), decode */
};

void attention_lists_make(struct attention_lists *lists, const struct op_case *op_case);
void attention_lists_free(struct attention_lists *lists);

/* Opens keys, values, tables, rows and contexts. */
void attention_open_pool(struct operands *operands);

/* Permutes the 16-byte chunks of rows of the pool from host order to device order
   (paged_kv_chunk()). The permutation is its own inverse. */
void attention_permute(float *rows, size_t row_count, const struct attention_shape *shape);

/* The lists of a launch of rows [first_row, first_row + row_count), on the host. The caller frees
   the claims. */
struct decode_claims {
	struct decode_launch launch;
	struct decode_claim *claims;
	uint32_t count;	   /* with readers */
	uint32_t capacity; /* with what a kernel may load beyond */
};

void decode_attention_claims(struct decode_claims *out, const struct operands *operands,
	const struct attention_lists *lists, uint32_t first_row, uint32_t row_count,
	bool is_sharing);

/* The arguments of a launch of these operands. Decode: all rows, with blocks for the whole
   device. */
struct decode_work decode_attention_work(const struct operands *operands);
struct prefill_work prefill_attention_work(const struct operands *operands);
struct qk_norm_rope_device qk_norm_rope_store_norm(const struct operands *operands);

#endif
