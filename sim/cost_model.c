#include "sim/cost_model.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/shape/step_tensors.h"
#include "engine/shape/work.h"

#include <stdlib.h>
#include <string.h>

enum { FLOPS_PER_NS_AND_TFLOP = 1000, KV_BLOCKS_MAX = 1 << 28 };

/* A cost that grows with rows: fixed + max(memory + rows * memory_row, rows * flop_row), in ns. */
struct product_price {
	double fixed;
	double memory;
	double memory_row;
	double flop_row;
};

/* A step that was launched and not collected. */
struct flight {
	struct step_counts counts;
	uint64_t step;
	bool is_ahead; /* of the end of the one before it */
};

enum { FLIGHTS = 2 };

/* Every coefficient is in nanoseconds and already summed over the layers. */
struct cost_model {
	struct product_price product[MODEL_LINEAR_COUNT];
	double decode_fixed, decode_row, decode_token;
	double prefill_fixed, prefill_token, prefill_pair, prefill_context_token;
	double elementwise_fixed, elementwise_token;
	double sampling_fixed, sampling_row;
	double step_fixed;
	double host_fixed, host_row;

	/* A calibrated profile has these in place of all that. */
	bool has_curves;
	struct step_curve_table curves[STEP_CURVE_COUNT];
	struct flight flights[FLIGHTS];
	uint64_t launched, collected; /* steps */
};

static double double_max(double a, double b)
{
	return a > b ? a : b;
}

static double product_cost(const struct product_price *price, double rows)
{
	double memory = price->memory + rows * price->memory_row;
	return price->fixed + double_max(memory, rows * price->flop_row);
}

/* Attention and sampling have curves of their own; whatever else a step does on the GPU has one by
   rows or tokens, so that products and what lies between them are not told apart. */
static void price_by_curves(const struct cost_model *model, const struct step_counts *counts,
	bool is_ahead, struct step_price *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < STEP_CURVE_COUNT; i++) {
		enum step_curve curve = (enum step_curve)i;
		struct step_curve_point place = step_curve_point_of(curve, counts, is_ahead);
		double ns = place.factor * step_curve_at(&model->curves[i], place.x);
		if (step_curve_is_host(curve)) {
			out->host += ns;
		} else if (curve == STEP_CURVE_decode_attention ||
			   curve == STEP_CURVE_decode_attention_rows ||
			   curve == STEP_CURVE_decode_spread || curve == STEP_CURVE_decode_merge) {
			out->decode_attention += ns;
		} else if (curve == STEP_CURVE_prefill_attention ||
			   curve == STEP_CURVE_prefill_context) {
			out->prefill_attention += ns;
		} else if (curve == STEP_CURVE_sampled_rows) {
			out->sampling += ns;
		} else {
			out->step_fixed += ns;
		}
	}
}

static void price_by_rates(
	const struct cost_model *model, const struct step_counts *counts, struct step_price *out)
{
	double decode_rows = (double)counts->decode_rows;
	double prefill_rows = (double)counts->prefill_rows;
	double prefill_tokens = (double)counts->prefill_tokens;
	double tokens = decode_rows + prefill_tokens;
	double sampled = (double)counts->sampled_rows;

	memset(out, 0, sizeof(*out));
	if (tokens > 0) {
		for (uint32_t i = 0; i < MODEL_LINEAR_LM_HEAD; i++) {
			out->product[i] = product_cost(&model->product[i], tokens);
		}
		out->elementwise = model->elementwise_fixed + tokens * model->elementwise_token;
	}
	if (sampled > 0) {
		out->product[MODEL_LINEAR_LM_HEAD] =
			product_cost(&model->product[MODEL_LINEAR_LM_HEAD], sampled);
		out->sampling = model->sampling_fixed + sampled * model->sampling_row;
	}
	if (decode_rows > 0) {
		out->decode_attention = model->decode_fixed + decode_rows * model->decode_row +
					(double)counts->decode_context_tokens * model->decode_token;
	}
	if (prefill_tokens > 0) {
		double pairs = (double)counts->prefill_attention_pairs;
		double context = pairs * prefill_rows / prefill_tokens;
		out->prefill_attention = model->prefill_fixed +
					 prefill_tokens * model->prefill_token +
					 double_max(pairs * model->prefill_pair,
						 context * model->prefill_context_token);
	}
	out->step_fixed = model->step_fixed;
	out->host = model->host_fixed + (decode_rows + prefill_rows) * model->host_row;
}

static void price_step(const struct cost_model *model, const struct step_counts *counts,
	bool is_ahead, struct step_price *out)
{
	if (model->has_curves) {
		price_by_curves(model, counts, is_ahead, out);
	} else {
		price_by_rates(model, counts, out);
	}
}

static enum status cost_model_time(const struct cost_model *model, const struct flight *flight,
	struct step_time *time, struct error *error)
{
	const double limit_ns = 1e15;
	struct step_price price;
	double gpu = 0;

	price_step(model, &flight->counts, flight->is_ahead, &price);
	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		gpu += price.product[i];
	}
	gpu += price.decode_attention + price.prefill_attention + price.elementwise;
	gpu += price.sampling + price.step_fixed;
	/* Curves that fall somewhere may meet below 0 where nothing was measured. */
	gpu = double_max(gpu, 0);
	double elapsed = gpu + price.host;
	if (!(elapsed <= limit_ns)) {
		return error_set(error, STATUS_INPUT,
			"step %llu: its price of %g ns is beyond 10^15, the profile's numbers are "
			"not for this model",
			(unsigned long long)flight->step, elapsed);
	}
	time->elapsed_ns = (uint64_t)(elapsed + 0.5);
	time->host_ns = u64_min((uint64_t)(price.host + 0.5), time->elapsed_ns);
	time->gpu_ns = time->elapsed_ns - time->host_ns;
	time->mode = STEP_MODE_NONE;
	return STATUS_OK;
}

static enum status cost_model_execute(void *state, const struct batch *batch, int32_t *token_ids,
	struct step_time *time, struct error *error)
{
	const struct flight flight = {.counts = batch->counts, .step = batch->step};

	(void)token_ids;
	return cost_model_time(state, &flight, time, error);
}

static enum status cost_model_launch(void *state, const struct batch *batch, struct error *error)
{
	struct cost_model *model = state;

	(void)error;
	check(model->launched - model->collected < FLIGHTS);
	model->flights[model->launched % FLIGHTS] = (struct flight){.counts = batch->counts,
		.step = batch->step,
		.is_ahead = model->launched > model->collected};
	model->launched++;
	return STATUS_OK;
}

static enum status cost_model_collect(
	void *state, int32_t *token_ids, struct step_time *time, struct error *error)
{
	struct cost_model *model = state;

	(void)token_ids;
	check(model->launched > model->collected);
	return cost_model_time(model, &model->flights[model->collected++ % FLIGHTS], time, error);
}

void cost_model_price(
	const struct runner *cost_model, const struct step_counts *counts, struct step_price *out)
{
	check(cost_model->execute == cost_model_execute);
	price_step(cost_model->state, counts, false, out);
}

/* ---- coefficients ---- */

static struct product_price product_prices(const struct gpu_product *gpu,
	struct model_linear_shape shape, double times, double flop_share)
{
	const uint64_t element = 2; /* bytes, of logits too */
	struct work weight = work_linear(0, shape.inputs, shape.outputs, element);
	struct work row = work_linear(1, shape.inputs, shape.outputs, element);
	double flop_rate = gpu->flop_rate * FLOPS_PER_NS_AND_TFLOP * flop_share;

	return (struct product_price){
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

static void fill_coefficients(
	struct cost_model *out, const struct model_config *model, const struct gpu_profile *gpu)
{
	double layers = model->num_hidden_layers;
	double kv_heads = model->num_key_value_heads;
	double heads = model->num_attention_heads;
	double prefill_rate = gpu->prefill_attention_rate * FLOPS_PER_NS_AND_TFLOP;
	const struct attention_counts one_pair = {.pairs = 1};
	struct work pair = work_attention(&one_pair, model_config_query_size(model), 0);

	for (uint32_t i = 0; i < MODEL_LINEAR_COUNT; i++) {
		bool is_in_layer = i != MODEL_LINEAR_LM_HEAD;
		out->product[i] = product_prices(&gpu->product[i],
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
}

enum status cost_model_open(struct runner *out, const struct model_config *model,
	const struct gpu_profile *profile, struct error *error)
{
	if (profile->is_calibrated && strcmp(profile->model, model->name) != 0) {
		return error_set(error, STATUS_USAGE,
			"profile %s was calibrated with %s and prices no other model, found %s",
			profile->name, profile->model, model->name);
	}
	struct cost_model *state = memory_take(1, sizeof(*state));
	state->has_curves = profile->is_calibrated;
	if (state->has_curves) {
		memcpy(state->curves, profile->curves, sizeof(state->curves));
	} else {
		fill_coefficients(state, model, profile);
	}
	*out = (struct runner){
		.name = "sim",
		.state = state,
		.is_computing = false,
		.execute = cost_model_execute,
		/* A profile of rates does not know what launching ahead saves. */
		.launch = state->has_curves ? cost_model_launch : NULL,
		.collect = state->has_curves ? cost_model_collect : NULL,
		.start = NULL,
		.close = free,
	};
	return STATUS_OK;
}

/* ---- memory ---- */

enum status cost_model_kv_memory(const struct model_config *model,
	const struct gpu_profile *profile, const struct kv_memory_limits *limits,
	struct kv_memory *out, struct error *error)
{
	check(limits->gpu_memory_utilization >= 1 && limits->gpu_memory_utilization <= 1000000);
	check(limits->block_size >= 1 && limits->max_num_seqs >= 1);
	check(limits->max_num_batched_tokens >= 1 && limits->max_model_len >= 1);
	uint64_t total = (uint64_t)profile->memory_bytes;
	struct model_step_limits step = model_step_limits(
		limits->max_num_batched_tokens, limits->max_num_seqs, limits->max_model_len);
	*out = (struct kv_memory){
		.total_bytes = total,
		/* total < 2^50: whole millionths first, so that nothing overflows. */
		.usable_bytes = total / 1000000 * limits->gpu_memory_utilization +
				total % 1000000 * limits->gpu_memory_utilization / 1000000,
		.context_bytes = (uint64_t)profile->context_bytes,
		.weight_bytes = weight_total_bytes(model),
		.activation_bytes = step_tensors_bytes(model, &step),
		.block_bytes = model_config_kv_bytes_per_token(model) * limits->block_size,
	};
	uint64_t taken = out->context_bytes + out->weight_bytes + out->activation_bytes;
	uint64_t left = out->usable_bytes > taken ? out->usable_bytes - taken : 0;
	if (left < out->block_bytes) {
		return error_set(error, STATUS_MEMORY,
			"no KV block fits: %s has %.3f GB, %.3f usable, less context %.3f, weights "
			"of "
			"%s %.3f and activations %.3f, and a block of %u tokens takes %.3f",
			profile->name, (double)total / 1e9, (double)out->usable_bytes / 1e9,
			(double)out->context_bytes / 1e9, model->name,
			(double)out->weight_bytes / 1e9, (double)out->activation_bytes / 1e9,
			limits->block_size, (double)out->block_bytes / 1e9);
	}
	out->block_count = (uint32_t)u64_min(left / out->block_bytes, KV_BLOCKS_MAX);
	return STATUS_OK;
}
