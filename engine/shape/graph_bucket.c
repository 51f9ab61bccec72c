#include "engine/shape/graph_bucket.h"

#include "engine/base/integer.h"
#include "engine/shape/weight_shape.h"

uint64_t graph_bucket(uint64_t count)
{
	if (count <= GRAPH_BUCKET_STEP) {
		return count == 0 ? 0 : u64_power_of_two_at_least(count);
	}
	return u64_divide_up(count, (uint64_t)GRAPH_BUCKET_STEP) * GRAPH_BUCKET_STEP;
}

uint64_t graph_prompt_tokens(const struct model_config *model)
{
	uint64_t weights = 0;

	for (uint32_t i = 0; i < MODEL_LINEAR_LM_HEAD; i++) {
		struct model_linear_shape shape = model_linear_shape(model, (enum model_linear)i);
		weights += shape.inputs * shape.outputs;
	}
	return weights * model->num_hidden_layers <= GRAPH_PROMPT_WEIGHTS ? GRAPH_PROMPT_TOKENS : 0;
}

bool graph_holds_prompts(
	uint64_t most_tokens, uint64_t decode_rows, uint64_t prompts, uint64_t tokens)
{
	return tokens > 0 && tokens <= most_tokens && prompts <= GRAPH_PROMPTS &&
	       decode_rows <= GRAPH_PROMPT_DECODES;
}
