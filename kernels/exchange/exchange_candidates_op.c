#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/exchange/exchange_operands.h"
#include "kernels/sampling/candidate.h"
#include "kernels/sampling/sampler.h"

#include <stdio.h>
#include <stdlib.h>

enum { TILES = OPERAND_IN, ROWS = EXCHANGE_MORE, LAST_TOKENS, WIDTH = 8 };

/* outputs: tiles of a row on each rank. */
static const struct op_case cases[] = {
	{CASE_TINY, .rows = 2, .outputs = 1, .ranks = 2},
	{CASE_TINY, .rows = 7, .outputs = 5, .ranks = 3},
	{CASE_EDGE, .rows = 1, .outputs = 19, .ranks = 8},
	{CASE_EDGE, .rows = 5, .outputs = 33, .ranks = 1},
	{CASE_EDGE, .rows = 513, .outputs = 2, .ranks = 4},
	{CASE_EDGE, .rows = 3000, .outputs = 1, .ranks = 5},
	{CASE_MODEL, .rows = 1, .outputs = 75, .ranks = 2},
	{CASE_MODEL, .rows = 256, .outputs = 5, .ranks = 2},
};

static bool fits(const struct op_case *c)
{
	(void)c;
	return true;
}

static void describe(const struct op_case *c, char *text)
{
	snprintf(text, OP_TEXT_BYTES, "%ux%u, %u ranks", c->rows, c->outputs, c->ranks);
}

static struct work work(const struct op_case *c)
{
	struct work work = work_exchange_candidates(c->rows, c->outputs, c->ranks);

	work.bytes *= c->ranks;
	return work;
}

static struct exchange_layout layout_of(const struct op_case *c)
{
	return exchange_layout(c->ranks, WIDTH, 1, c->rows);
}

/* The best of a tile: scores tie often. Every fifth row has no candidate at all. */
static struct candidate candidate_at(uint32_t row, uint32_t set, uint64_t index)
{
	uint64_t bits = counter_hash(counter_key(set, row), index);

	return row % 5 == 4 ? candidate_none()
			    : (struct candidate){0.1f * (float)(bits % 50), (int32_t)(bits >> 40)};
}

static void open(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct exchange_layout layout = layout_of(c);
	const size_t count = (size_t)c->ranks * c->rows * c->outputs;
	const size_t ids = c->ranks * c->rows * sizeof(int32_t);
	struct candidate *tiles = memory_take(count, sizeof(*tiles));
	uint32_t *rows = memory_take(c->rows, sizeof(*rows));

	for (uint32_t set = 0; set < operands->set_count; set++) {
		for (size_t i = 0; i < count; i++) {
			uint32_t row = (uint32_t)(i / c->outputs % c->rows);
			tiles[i] = candidate_at(row, set, i);
		}
		operands_list_of_set(operands, TILES, set, tiles, count * sizeof(*tiles));
	}
	for (uint32_t r = 0; r < c->rows; r++) {
		rows[r] = operands->is_checked && r % 4 == 3 ? SAMPLER_NO_ROW : c->rows - 1 - r;
	}
	operands_list(operands, ROWS, rows, c->rows * sizeof(*rows));
	operands_output(operands, OPERAND_OUT, OPERAND_BYTES, ids, sizeof(int32_t), 0);
	operands_output(operands, LAST_TOKENS, OPERAND_BYTES, ids, sizeof(int32_t), 0);
	exchange_open_operands(operands, &layout);
	free(tiles);
	free(rows);
}

#ifdef QUIRE_HAS_CUDA
/* Candidates are exchanged once a step, so each set is a step. */
static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	const struct op_case *c = operands->op_case;
	const struct exchange_layout layout = layout_of(c);
	const struct exchange exchange = exchange_of_operands(operands, &layout);
	int code = exchange_candidates(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, LAST_TOKENS, set), operand_at(operands, TILES, set),
		c->outputs, operand_at(operands, ROWS, set), c->rows, &exchange, stream);

	return exchange_end_set(operands, operands->set_count - 1, code, stream);
}
#endif

static void twin(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	const struct candidate *tiles = operand_host(operands, TILES);
	const uint32_t *rows = operand_host(operands, ROWS);
	int32_t *token_ids = operand_host(operands, OPERAND_OUT);
	int32_t *last_tokens = operand_host(operands, LAST_TOKENS);

	for (uint32_t row = 0; row < c->rows; row++) {
		struct candidate best = candidate_none();
		for (uint32_t i = 0; i < c->ranks * c->outputs; i++) {
			uint32_t rank = i / c->outputs, tile = i % c->outputs;
			best = candidate_better(
				best, tiles[((size_t)rank * c->rows + row) * c->outputs + tile]);
		}
		for (uint32_t rank = 0; rank < c->ranks; rank++) {
			token_ids[rank * c->rows + row] = candidate_token(best);
			if (rows[row] != SAMPLER_NO_ROW) {
				last_tokens[rank * c->rows + rows[row]] = candidate_token(best);
			}
		}
	}
}

const struct op exchange_candidates_op = {
	.name = "exchange_candidates",
	OP_CASES(cases),
	.fits = fits,
	.describe = describe,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
