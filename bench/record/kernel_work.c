#include "bench/record/kernel_work.h"

#include "engine/model/weights.h"

#include <string.h>

enum { BF16_BYTES = 2, FLOAT_BYTES = 4 };

static bool is_named(const char *operation, const char *name)
{
	return strcmp(operation, name) == 0;
}

/* A product with a weight: the weight once, the rows in and out. */
static struct kernel_work product(
	const struct model_config *model, enum weight weight, uint64_t rows, uint64_t out_bytes)
{
	const struct weight_shape shape = weight_shape(model, weight, WEIGHT_WHOLE);
	uint64_t in = shape.columns, out = shape.rows;
	/* Gate and up may leave as one product. */
	uint64_t written = weight == WEIGHT_GATE_UP ? out / 2 : out;

	return (struct kernel_work){
		.has_bytes = true,
		.has_flops = true,
		.bytes = in * out * BF16_BYTES + rows * (in * BF16_BYTES + written * out_bytes),
		.flops = 2 * rows * in * out,
	};
}

static struct kernel_work moved(uint64_t bytes)
{
	return (struct kernel_work){.has_bytes = true, .bytes = bytes};
}

static struct kernel_work attention(const struct model_config *model, const char *operation,
	uint64_t rows, const struct step_counts *step)
{
	uint64_t query = (uint64_t)model->num_attention_heads * model->head_dim;
	uint64_t key = (uint64_t)model->num_key_value_heads * model->head_dim;

	if (is_named(operation, "decode_attention")) {
		uint64_t context = step->decode_context_tokens;
		return (struct kernel_work){
			.has_bytes = true,
			.has_flops = true,
			.bytes = BF16_BYTES * (2 * context * key + 2 * rows * query),
			.flops = 4 * context * query,
		};
	}
	/* How often prefill reads keys and values is its own affair. */
	return (struct kernel_work){
		.has_flops = true,
		.flops = 4 * step->prefill_attention_pairs * query,
	};
}

struct kernel_work kernel_work_of(const struct model_config *model, const char *operation,
	uint32_t rows, const struct step_counts *step)
{
	static const enum weight products[] = {WEIGHT_QKV, WEIGHT_O, WEIGHT_GATE_UP, WEIGHT_DOWN};
	uint64_t hidden = model->hidden_size;
	uint64_t qkv = ((uint64_t)model->num_attention_heads + 2 * model->num_key_value_heads) *
		       model->head_dim;

	if (strstr(operation, "_attention") != NULL) {
		return attention(model, operation, rows, step);
	}
	for (uint32_t i = 0; i < sizeof(products) / sizeof(products[0]) && rows > 0; i++) {
		if (is_named(operation, weight_name(products[i]))) {
			return product(model, products[i], rows, BF16_BYTES);
		}
	}
	if (rows == 0) {
		return (struct kernel_work){0};
	}
	if (is_named(operation, "lm_head")) {
		return product(model, WEIGHT_LM_HEAD, rows, FLOAT_BYTES);
	}
	if (is_named(operation, "sampler")) {
		return moved(rows * (uint64_t)model->vocab_size * FLOAT_BYTES);
	}
	if (is_named(operation, weight_name(WEIGHT_INPUT_NORM)) ||
		is_named(operation, weight_name(WEIGHT_POST_NORM)) ||
		is_named(operation, "embedding")) {
		return moved(4 * rows * hidden * BF16_BYTES);
	}
	if (is_named(operation, "qk_norm_rope_store")) {
		return moved(2 * rows * qkv * BF16_BYTES);
	}
	if (is_named(operation, "silu_mul")) {
		return moved(3 * rows * model->intermediate_size * BF16_BYTES);
	}
	return (struct kernel_work){0};
}
