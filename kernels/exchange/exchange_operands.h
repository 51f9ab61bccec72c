#ifndef KERNELS_EXCHANGE_EXCHANGE_OPERANDS_H
#define KERNELS_EXCHANGE_EXCHANGE_OPERANDS_H

#include "kernels/exchange/exchange.h"
#include "kernels/op/op.h"

/* The operands of exchanges when all ranks are on one GPU, where one launch computes all of them.
   The sets of operands are the exchanges of a step. */

enum { EXCHANGE_MEMORY = OPERAND_MORE, EXCHANGE_WORDS, EXCHANGE_MORE };

/* Makes the memory of all ranks, empty, and the words that count steps and end waits. */
void exchange_open_operands(struct operands *operands, const struct exchange_layout *layout);

struct exchange exchange_of_operands(
	const struct operands *operands, const struct exchange_layout *layout);

/* Behind a launch on the set, which returned code: ends a step with the last set. */
int exchange_end_set(
	const struct operands *operands, uint32_t set, int code, struct CUstream_st *stream);

#endif
