#include "kernels/exchange/exchange_operands.h"

/* The words behind the pointers of struct exchange that are not memory of a rank. */
struct words {
	uint64_t step_count;
	uint32_t abort, aborted;
	struct exchange_report report;
};

void exchange_open_operands(struct operands *operands, const struct exchange_layout *layout)
{
	operands_scratch(operands, EXCHANGE_MEMORY, layout->ranks * layout->bytes);
	operands_counters(operands, EXCHANGE_WORDS, sizeof(struct words));
}

struct exchange exchange_of_operands(
	const struct operands *operands, const struct exchange_layout *layout)
{
	struct words *words = operand_at(operands, EXCHANGE_WORDS, 0);
	unsigned char *memory = operand_at(operands, EXCHANGE_MEMORY, 0);
	struct exchange exchange = {
		.layout = *layout,
		.per_step = operands->set_count,
		.local_ranks = layout->ranks,
		.multiprocessors = operands->processors,
		.limit_ns = EXCHANGE_LIMIT_NS,
		.step_count = &words->step_count,
		.abort = &words->abort,
		.aborted = &words->aborted,
		.report = &words->report,
	};

	for (uint32_t r = 0; r < layout->ranks; r++) {
		exchange.memory[r] = memory + r * layout->bytes;
	}
	return exchange;
}

#ifdef QUIRE_HAS_CUDA
int exchange_end_set(
	const struct operands *operands, uint32_t set, int code, struct CUstream_st *stream)
{
	struct words *words = operand_at(operands, EXCHANGE_WORDS, 0);

	return code != 0 || set + 1 < operands->set_count
		       ? code
		       : exchange_end_step(&words->step_count, stream);
}
#endif
