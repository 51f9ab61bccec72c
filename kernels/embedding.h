#ifndef KERNELS_EMBEDDING_H
#define KERNELS_EMBEDDING_H

#include "kernels/number.h"

#include <stdint.h>

/* Looks up the embedding of each token:

       out[t] = round(table[token_ids[t]]) */

/* out: (token_count, width); table: (vocabulary_size, width); token_ids: (token_count), each in
   [0, vocabulary_size). */
void embedding_cpu(float *out, struct matrix table, const int32_t *token_ids, uint32_t token_count,
	uint32_t vocabulary_size, uint32_t width, enum rounding rounding);

/* Here stands the launcher of the GPU: embedding(), which also resolves a token of -1 to the last
   one that its row sampled. */

#endif
