#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "kernels/op/op.h"
#include "kernels/sampling/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOGITS = OPERAND_IN, TEMPERATURES = OPERAND_MORE, ROW_KEYS, ROWS, LAST_TOKENS, TILES };

static const struct op_case cases[] = {
	{CASE_TINY, .rows = 1, .outputs = 1},
	{CASE_TINY, .rows = 5, .outputs = 33},
	{CASE_TINY, .rows = 2, .outputs = 5000},
	{CASE_EDGE, .rows = 8, .outputs = 1},
	{CASE_EDGE, .rows = 8, .outputs = 2},
	{CASE_EDGE, .rows = 8, .outputs = 257},
	{CASE_EDGE, .rows = 8, .outputs = 4095},
	{CASE_EDGE, .rows = 8, .outputs = 4096},
	{CASE_EDGE, .rows = 8, .outputs = 4097},
	{CASE_EDGE, .rows = 8, .outputs = 151936},
	{CASE_MODEL, .rows = 1, .outputs = 151936},
	{CASE_MODEL, .rows = 256, .outputs = 151936},
};

static bool fits(const struct op_case *c)
{
	(void)c;
	return true;
}

static void describe(const struct op_case *c, char *text)
{
	snprintf(text, OP_TEXT_BYTES, "%ux%u", c->rows, c->outputs);
}

static struct work work(const struct op_case *c)
{
	return work_sampler(c->rows, c->outputs);
}

/* Plants ties among the best, NaN and infinities in some of the rows. */
static void spoil(float *logits, uint32_t row, uint32_t size)
{
	for (uint32_t v = 0; v < size; v++) {
		float x = 10 * logits[v];
		x = row % 8 == 1 && v % 7 == 3 ? 12 : x;
		x = row % 8 == 4 && v % 2 == 0 ? NAN : x;
		x = row % 8 == 6 ? -INFINITY : x;
		x = row % 8 == 7 && v % 1000 == 999 ? INFINITY : x;
		logits[v] = x;
	}
}

/* Timed cases have temperature 1 and store each row's token. Checked cases mix all kinds. */
static void open(struct operands *operands)
{
	static const float temperatures[] = {0, 0, 0.1f, 0.7f, 1, 1, 1.5f, 20};
	const struct op_case *c = operands->op_case;
	uint64_t tiles = u64_divide_up(c->outputs, (uint64_t)SAMPLER_TILE);
	uint64_t *keys = memory_take(c->rows, sizeof(*keys));
	uint32_t *rows = memory_take(c->rows, sizeof(*rows));
	float *temperature = memory_take(c->rows, sizeof(*temperature));

	operands_random_float(operands, LOGITS, (size_t)c->rows * c->outputs);
	for (uint32_t r = 0; r < c->rows; r++) {
		keys[r] = sampler_row_key(3, r, c->outputs);
		rows[r] = operands->is_checked && r % 8 == 5 ? SAMPLER_NO_ROW : c->rows - 1 - r;
		temperature[r] = operands->is_checked ? temperatures[r % 8] : 1;
		if (operands->is_checked) {
			float *logits = operand_host(operands, LOGITS);
			spoil(logits + (size_t)r * c->outputs, r, c->outputs);
		}
	}
	operands_send(operands, LOGITS);
	operands_output(operands, OPERAND_OUT, OPERAND_BYTES, c->rows * sizeof(int32_t),
		sizeof(int32_t), 0);
	operands_output(operands, LAST_TOKENS, OPERAND_BYTES, c->rows * sizeof(int32_t),
		sizeof(int32_t), 0);
	operands_scratch(operands, TILES, c->rows * tiles * SAMPLER_TILE_BYTES);
	operands_list(operands, ROW_KEYS, keys, c->rows * sizeof(*keys));
	operands_list(operands, ROWS, rows, c->rows * sizeof(*rows));
	operands_list(operands, TEMPERATURES, temperature, c->rows * sizeof(*temperature));
	free(keys);
	free(rows);
	free(temperature);
}

#ifdef QUIRE_HAS_CUDA
static int launch(const struct operands *operands, uint32_t set, struct CUstream_st *stream)
{
	return sampler(operand_at(operands, OPERAND_OUT, set),
		operand_at(operands, LAST_TOKENS, set), operand_at(operands, TILES, set),
		operand_at(operands, LOGITS, set), operand_at(operands, ROW_KEYS, set),
		operand_at(operands, TEMPERATURES, set), operand_at(operands, ROWS, set),
		operands->op_case->rows, operands->op_case->outputs, stream);
}
#endif

static void twin(struct operands *operands)
{
	const struct op_case *c = operands->op_case;
	int32_t *token_ids = operand_host(operands, OPERAND_OUT);
	int32_t *last_tokens = operand_host(operands, LAST_TOKENS);
	const uint32_t *rows = operand_host(operands, ROWS);

	sampler_cpu(token_ids, operand_host(operands, LOGITS), operand_host(operands, ROW_KEYS),
		operand_host(operands, TEMPERATURES), c->rows, c->outputs);
	for (uint32_t r = 0; r < c->rows; r++) {
		if (rows[r] != SAMPLER_NO_ROW) {
			last_tokens[rows[r]] = token_ids[r];
		}
	}
}

const struct op sampler_op = {
	.name = "sampler",
	OP_CASES(cases),
	.fits = fits,
	.describe = describe,
	.work = work,
	.open = open,
	.launch = OP_ON_GPU(launch),
	.twin = twin,
};
