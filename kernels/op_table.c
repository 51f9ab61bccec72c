#include "kernels/op_table.h"

#include <string.h>

/* One row for each operation: its struct op in X_op.c. */
#define OP_LIST(X)                                                                                 \
	X(embedding_op)                                                                            \
	X(rms_norm_op)                                                                             \
	X(add_rms_norm_op)                                                                         \
	X(qk_norm_rope_store_op)                                                                   \
	X(decode_attention_op)                                                                     \
	X(prefill_attention_op)                                                                    \
	X(silu_mul_op)                                                                             \
	X(gather_rows_op)                                                                          \
	X(cublaslt_linear_op)                                                                      \
	X(linear_op)                                                                               \
	X(linear_silu_op)                                                                          \
	X(sampler_op)                                                                              \
	X(exchange_add_rms_norm_op)                                                                \
	X(exchange_gathered_add_rms_norm_op)                                                       \
	X(exchange_candidates_op)

#define OP_DECLARATION(row) extern const struct op row;
OP_LIST(OP_DECLARATION)
#undef OP_DECLARATION

static const struct op *const ops[] = {
#define OP_ROW(row) &row,
	OP_LIST(OP_ROW)
#undef OP_ROW
};

enum { OP_COUNT = sizeof(ops) / sizeof(ops[0]) };

const struct op *op_at(uint32_t index)
{
	return index < OP_COUNT ? ops[index] : NULL;
}

const struct op *op_find(const char *name)
{
	for (uint32_t i = 0; i < OP_COUNT; i++) {
		if (strcmp(ops[i]->name, name) == 0) {
			return ops[i];
		}
	}
	return NULL;
}
