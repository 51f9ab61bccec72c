#include "engine/shape/work.h"

#include "engine/shape/model_config.h"
#include "engine/shape/weight_shape.h"

#include <stdbool.h>
#include <string.h>

enum { BF16_BYTES = 2, FLOAT_BYTES = 4, ID_BYTES = 4, CANDIDATE_BYTES = 8, FLOPS_OF_PAIR = 4 };

/* Tensors of (rows, width) in bf16, each read or written once. */
static struct work moved(uint64_t tensors, uint64_t rows, uint64_t width)
{
	return (struct work){.bytes = tensors * rows * width * BF16_BYTES};
}

struct work work_embedding(uint64_t rows, uint64_t width)
{
	struct work work = moved(2, rows, width);

	work.bytes += rows * ID_BYTES;
	return work;
}

struct work work_gather_rows(uint64_t rows, uint64_t width)
{
	return moved(2, rows, width);
}

struct work work_rms_norm(uint64_t rows, uint64_t width)
{
	return moved(2, rows, width);
}

struct work work_add_rms_norm(uint64_t rows, uint64_t width)
{
	return moved(4, rows, width);
}

struct work work_exchange_add_rms_norm(uint64_t rows, uint64_t width, uint64_t ranks)
{
	return moved(3 + ranks, rows, width);
}

struct work work_exchange_candidates(uint64_t rows, uint64_t tiles, uint64_t ranks)
{
	uint64_t words = tiles + 2 * (ranks - 1);

	return (struct work){.bytes = rows * (words * CANDIDATE_BYTES + ID_BYTES)};
}

struct work work_silu_mul(uint64_t rows, uint64_t width)
{
	return moved(3, rows, width);
}

struct work work_qk_norm_rope_store(uint64_t rows, uint64_t query_width, uint64_t key_width)
{
	return moved(2, rows, query_width + 2 * key_width);
}

struct work work_attention(
	const struct attention_counts *counts, uint64_t query_width, uint64_t key_width)
{
	return (struct work){
		.bytes = moved(2, counts->contexts, key_width).bytes +
			 moved(2, counts->queries, query_width).bytes,
		.flops = FLOPS_OF_PAIR * counts->pairs * query_width,
	};
}

struct work work_linear(uint64_t rows, uint64_t inputs, uint64_t outputs, uint64_t output_bytes)
{
	return (struct work){
		.bytes = inputs * outputs * BF16_BYTES +
			 rows * (inputs * BF16_BYTES + outputs * output_bytes),
		.flops = 2 * rows * inputs * outputs,
	};
}

struct work work_linear_silu(uint64_t rows, uint64_t inputs, uint64_t outputs)
{
	/* Half of the outputs at 2 bytes each are as many bytes as all of them at 1. */
	return work_linear(rows, inputs, outputs, BF16_BYTES / 2);
}

struct work work_sampler(uint64_t rows, uint64_t vocabulary_size)
{
	return (struct work){.bytes = rows * (vocabulary_size * FLOAT_BYTES + ID_BYTES)};
}

/* ---- ranges of the forward pass ---- */

struct range {
	const struct model_config *model;
	const struct range_counts *counts;
};

/* The range holds the norm of layer 0 too. */
static struct work range_embedding(const struct range *range)
{
	struct work work = work_embedding(range->counts->rows, range->model->hidden_size);

	work.bytes += work_rms_norm(range->counts->rows, range->model->hidden_size).bytes;
	return work;
}

static struct work range_norm(const struct range *range)
{
	return work_add_rms_norm(range->counts->rows, range->model->hidden_size);
}

static struct work range_exchange(const struct range *range)
{
	return work_exchange_add_rms_norm(
		range->counts->rows, range->model->hidden_size, range->counts->ranks);
}

static struct work range_linear(
	const struct range *range, enum model_linear linear, uint64_t output_bytes)
{
	struct model_linear_shape shape = model_linear_shape(range->model, linear);

	return work_linear(range->counts->rows, shape.inputs, shape.outputs, output_bytes);
}

static struct work range_qkv(const struct range *range)
{
	return range_linear(range, MODEL_LINEAR_QKV, BF16_BYTES);
}

static struct work range_o(const struct range *range)
{
	return range_linear(range, MODEL_LINEAR_O, BF16_BYTES);
}

/* Some steps fuse the activation with it, so only the activation's output is counted. */
static struct work range_gate_up(const struct range *range)
{
	struct model_linear_shape shape = model_linear_shape(range->model, MODEL_LINEAR_GATE_UP);

	return work_linear_silu(range->counts->rows, shape.inputs, shape.outputs);
}

static struct work range_down(const struct range *range)
{
	return range_linear(range, MODEL_LINEAR_DOWN, BF16_BYTES);
}

static struct work range_lm_head(const struct range *range)
{
	return range_linear(range, MODEL_LINEAR_LM_HEAD, FLOAT_BYTES);
}

static struct work range_store(const struct range *range)
{
	return work_qk_norm_rope_store(range->counts->rows, model_config_query_size(range->model),
		model_config_kv_size(range->model));
}

static struct work range_decode_attention(const struct range *range)
{
	/* A decode row is one query that attends to its whole context. */
	const struct attention_counts counts = {
		.contexts = range->counts->decode_contexts,
		.queries = range->counts->rows,
		.pairs = range->counts->decode_contexts,
	};

	return work_attention(
		&counts, model_config_query_size(range->model), model_config_kv_size(range->model));
}

static struct work range_prefill_attention(const struct range *range)
{
	const struct attention_counts counts = {.pairs = range->counts->prefill_pairs};

	return work_attention(
		&counts, model_config_query_size(range->model), model_config_kv_size(range->model));
}

/* Of the output of attention and of the residual stream. */
static struct work range_gather_rows(const struct range *range)
{
	return work_gather_rows(range->counts->rows,
		model_config_query_size(range->model) + range->model->hidden_size);
}

static struct work range_silu_mul(const struct range *range)
{
	return work_silu_mul(range->counts->rows, range->model->intermediate_size);
}

static struct work range_sampler(const struct range *range)
{
	return work_sampler(range->counts->rows, range->model->vocab_size);
}

struct work work_of_range(
	const struct model_config *model, const char *name, const struct range_counts *counts)
{
	static const struct {
		const char *name;
		struct work (*work)(const struct range *range);
		bool has_no_rows; /* the work does not depend on the number of rows */
	} ranges[] = {
		{"embedding", range_embedding, false},
		{"input_norm", range_norm, false},
		{"qkv", range_qkv, false},
		{"qk_norm_rope_store", range_store, false},
		{"decode_attention", range_decode_attention, true},
		{"prefill_attention", range_prefill_attention, true},
		{"gather_rows", range_gather_rows, false},
		{"o", range_o, false},
		{"post_norm", range_norm, false},
		{"gate_up", range_gate_up, false},
		{"silu_mul", range_silu_mul, false},
		{"down", range_down, false},
		{"exchange", range_exchange, false},
		{"lm_head", range_lm_head, false},
		{"sampler", range_sampler, false},
	};
	const struct range range = {model, counts};

	for (uint32_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (strcmp(ranges[i].name, name) == 0 &&
			(counts->rows > 0 || ranges[i].has_no_rows)) {
			return ranges[i].work(&range);
		}
	}
	return (struct work){0};
}
