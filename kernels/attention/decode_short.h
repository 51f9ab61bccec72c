#ifndef KERNELS_ATTENTION_DECODE_SHORT_H
#define KERNELS_ATTENTION_DECODE_SHORT_H

#include "kernels/attention/decode_list.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills the claims of a launch that is not long (decode_list.h) from index `end` on, and returns
   the index behind them. Which rows are singles is the best of a few tries by a model of the
   launch: busy blocks share the memory, but a block alone cannot use all of it, and the rows that
   are singles are merged behind their last split. Its times are tokens that all blocks together
   read meanwhile. */
uint32_t decode_short_fill(struct decode_list *list, const struct decode_rows *rows,
	struct decode_claim *claims, uint32_t end);

#ifdef __cplusplus
}
#endif

#endif
