#ifndef KERNELS_ROWS_EMBEDDING_H
#define KERNELS_ROWS_EMBEDDING_H

#include "kernels/op/launch.h"
#include "kernels/op/number.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Looks up the embedding of each token:

       out[t] = round(table[token_ids[t]]) */

/* out: (token_count, width); table: (vocabulary_size, width); token_ids: (token_count), each in
   [0, vocabulary_size). */
void embedding_cpu(float *out, struct matrix table, const int32_t *token_ids, uint32_t token_count,
	uint32_t vocabulary_size, uint32_t width, enum rounding rounding);

/* On the GPU, in bf16. A token id of -1 means the token that its row sampled last,
   last_tokens[rows[t]]. rows: (token_count) index into last_tokens, read only for such ids. */
int embedding(uint16_t *out, const uint16_t *table, const int32_t *token_ids,
	const int32_t *last_tokens, const uint32_t *rows, uint32_t token_count, uint32_t width,
	struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
