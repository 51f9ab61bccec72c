#include "kernels/op/op.h"

#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"

#include <stdio.h>

enum { LENGTHS_KEY = 1 };

uint32_t op_case_context(const struct op_case *op_case, uint32_t row)
{
	if (op_case->contexts != NULL) {
		return op_case->contexts[row];
	}
	if (!op_case->is_ragged || row == 0) {
		return op_case->context;
	}
	uint32_t bits = (uint32_t)counter_hash(counter_key(LENGTHS_KEY, 0), row);
	return 1 + counter_below(bits, op_case->context);
}

uint32_t op_case_chunk(const struct op_case *op_case, uint32_t row)
{
	return op_case->chunks != NULL ? op_case->chunks[row]
				       : u32_min(op_case->chunk, op_case_context(op_case, row));
}

bool op_fits_rows(const struct op_case *op_case)
{
	return op_case->width % 8 == 0;
}

void op_describe_rows(const struct op_case *op_case, char *text)
{
	snprintf(text, OP_TEXT_BYTES, "%ux%u", op_case->rows, op_case->width);
}
