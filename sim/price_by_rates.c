#include "sim/price_by_rates.h"

#include "engine/shape/work.h"

#include <string.h>

enum { FLOPS_PER_NS_AND_TFLOP = 1000 };

static double double_max(double a, double b)
{
	return a > b ? a : b;
}

static double double_min(double a, double b)
{
	return a < b ? a : b;
}

static double linear_price(const struct linear_rates *rates, double rows)
{
	double memory = rates->memory + rows * rates->memory_row;
	return rates->fixed + double_max(memory, rows * rates->flop_row);
}

void price_by_rates(
	const struct step_rates *rates, const struct step_counts *counts, struct step_price *out)
{
	double decode_rows = (double)counts->decode_rows;
	double prefill_rows = (double)counts->prefill_rows;
	double prefill_tokens = (double)counts->prefill_tokens;
	double tokens = decode_rows + prefill_tokens;
	double sampled = (double)counts->sampled_rows;

	memset(out, 0, sizeof(*out));
	if (tokens > 0) {
		for (uint32_t i = 0; i < MODEL_LINEAR_LM_HEAD; i++) {
			out->linear[i] = linear_price(&rates->linear[i], tokens);
		}
		out->elementwise = rates->elementwise_fixed + tokens * rates->elementwise_token;
		out->exchange =
			double_min(rates->exchange_once_fixed + tokens * rates->exchange_once_token,
				rates->exchange_twice_fixed + tokens * rates->exchange_twice_token);
	}
	if (sampled > 0) {
		out->linear[MODEL_LINEAR_LM_HEAD] =
			linear_price(&rates->linear[MODEL_LINEAR_LM_HEAD], sampled);
		out->sampling = rates->sampling_fixed + sampled * rates->sampling_row;
		out->exchange += rates->candidates;
	}
	if (decode_rows > 0) {
		out->decode_attention = rates->decode_fixed + decode_rows * rates->decode_row +
					(double)counts->decode_context_tokens * rates->decode_token;
	}
	if (prefill_tokens > 0) {
		double pairs = (double)counts->prefill_attention_pairs;
		double context = (double)counts->prefill_context_tokens;
		if (context == 0) { /* not known */
			context = prefill_rows * (double)counts->prefill_longest_context;
		}
		out->prefill_attention = rates->prefill_fixed +
					 prefill_tokens * rates->prefill_token +
					 double_max(pairs * rates->prefill_pair,
						 context * rates->prefill_context_token);
	}
	out->step_fixed = rates->step_fixed;
	out->host = rates->host_fixed + (decode_rows + prefill_rows) * rates->host_row;
}

/* ---- coefficients ---- */

static struct linear_rates linear_rates_of(const struct gpu_linear *gpu,
	struct model_linear_shape shape, double times, double flop_share)
{
	const uint64_t element = 2; /* bytes, of logits too */
	struct work weight = work_linear(0, shape.inputs, shape.outputs, element);
	struct work row = work_linear(1, shape.inputs, shape.outputs, element);
	double flop_rate = gpu->flop_rate * FLOPS_PER_NS_AND_TFLOP * flop_share;

	return (struct linear_rates){
		.fixed = gpu->floor * times,
		.memory = (double)weight.bytes / gpu->memory_rate * times,
		.memory_row = (double)(row.bytes - weight.bytes) / gpu->memory_rate * times,
		.flop_row = (double)row.flops / flop_rate * times,
	};
}

/* Bytes that the kernels between the linear layers move for a token in a layer, unfused: two norms
   of residual sums, the gated activation, and the rows of qkv twice, once for norm and rotation of
   queries and keys, once for the store. */
static double elementwise_bytes(const struct model_config *model)
{
	uint64_t query = model_config_query_size(model);
	uint64_t key = model_config_kv_size(model);

	return (double)(2 * work_add_rms_norm(1, model->hidden_size).bytes +
			2 * work_qk_norm_rope_store(1, query, key).bytes +
			work_silu_mul(1, model->intermediate_size).bytes);
}

static void exchange_rates_init(struct step_rates *out, const struct model_config *model,
	const struct gpu_profile *gpu, uint32_t ranks)
{
	double times = 2.0 * model->num_hidden_layers;
	double others = ranks - 1;
	double once = gpu->link_fixed + gpu->link_rank * (ranks - 2);
	double token_ns = (double)(MODEL_ELEMENT_BYTES * model->hidden_size) / gpu->link_rate;

	out->exchange_once_fixed = times * once;
	out->exchange_once_token = times * others * token_ns;
	out->exchange_twice_fixed = times * 2 * once;
	out->exchange_twice_token = times * 2 * others / ranks * token_ns;
	out->candidates = once;
	out->host_fixed += gpu->host_rank * others;
}

void step_rates_init(struct step_rates *out, const struct model_config *whole,
	const struct gpu_profile *gpu, uint32_t ranks)
{
	const struct model_config own = weight_shard_config(whole, (struct weight_shard){0, ranks});
	const struct model_config *model = &own;
	double layers = model->num_hidden_layers;
	double kv_heads = model->num_key_value_heads;
	double heads = model->num_attention_heads;
	double prefill_rate = gpu->prefill_attention_rate * FLOPS_PER_NS_AND_TFLOP;
	const struct attention_counts one_pair = {.pairs = 1};
	struct work pair = work_attention(&one_pair, model_config_query_size(model), 0);

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		bool is_in_layer = i != MODEL_LINEAR_LM_HEAD;
		out->linear[i] = linear_rates_of(&gpu->linear[i],
			model_linear_shape(model, (enum model_linear)i), is_in_layer ? layers : 1,
			is_in_layer ? gpu->product_sustained : 1);
	}
	double kv_token_ns =
		(double)model_config_kv_bytes_per_token(model) / gpu->decode_attention_rate;
	out->decode_fixed = gpu->decode_attention_fixed * layers;
	out->decode_row = gpu->decode_attention_row * kv_heads * layers;
	out->decode_token = kv_token_ns;
	out->prefill_fixed = gpu->prefill_attention_fixed * layers;
	out->prefill_token = gpu->prefill_attention_token * heads * layers;
	out->prefill_pair = (double)pair.flops / prefill_rate * layers;
	out->prefill_context_token = kv_token_ns;
	out->elementwise_fixed = gpu->elementwise_fixed * layers;
	out->elementwise_token = elementwise_bytes(model) / gpu->memory_rate * layers;
	out->sampling_fixed = gpu->sampling_fixed;
	out->sampling_row = model->vocab_size / gpu->sampling_rate;
	out->step_fixed = gpu->step_fixed;
	out->host_fixed = gpu->host_fixed;
	out->host_row = gpu->host_row;
	if (ranks > 1) {
		exchange_rates_init(out, model, gpu, ranks);
	}
}
