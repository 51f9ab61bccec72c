#include "engine/model/config_json.h"
#include "engine/shape/weight_shape.h"
#include "tests/fuzz/targets.h"

#include <stdlib.h>
#include <string.h>

#include "engine/shape/model_config.h"
#include "engine/model/safetensors.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/harness/require.h"

static void require_one_line(const struct error *error, enum status status)
{
	require(status == STATUS_INPUT && error->status == STATUS_INPUT, "another status");
	require(error->text[0] != '\0' && strpbrk(error->text, "\r\n") == NULL, "not one line");
}

static bool read_config(const char *text, size_t byte_count)
{
	struct model_config config;
	struct error error = {STATUS_OK, ""};

	enum status status = model_config_parse(&config, "a/config.json", text, byte_count, &error);
	if (status != STATUS_OK) {
		require_one_line(&error, status);
		return false;
	}
	require(weight_parameter_count(&config) > 0, "a model without weights");
	require(config.num_attention_heads % config.num_key_value_heads == 0, "heads");
	require(config.eos_token_id_count <= MODEL_EOS_MAX, "ends");
	return true;
}

static bool read_safetensors(const uint8_t *bytes, size_t byte_count)
{
	struct safetensors *safetensors = NULL;
	struct error error = {STATUS_OK, ""};
	uint64_t sum = 0, total = 0;

	enum status status = safetensors_open_bytes(&safetensors, "m", bytes, byte_count, &error);
	if (status != STATUS_OK) {
		require_one_line(&error, status);
		return false;
	}
	for (uint32_t i = 0; i < safetensors_count(safetensors); i++) {
		const struct safetensors_tensor *tensor = safetensors_at(safetensors, i);
		require(safetensors_find(safetensors, tensor->name) == tensor, "not found");
		for (uint64_t j = 0; j < tensor->byte_count; j++) {
			sum += tensor->bytes[j];
		}
		total += tensor->byte_count;
	}
	require(total < byte_count && sum <= 255 * total, "more bytes than there are");
	safetensors_close(safetensors);
	return true;
}

static bool read_tokenizer(const char *text, size_t byte_count)
{
	static const char sample[] =
		"It's 12 \xc3\xa9t\xc3\xa9s\n\n\t<|im_end|> \xff\xf0\x9f\x98\x80";
	struct tokenizer *tokenizer = NULL;
	struct token_list ids = {.ids = NULL};
	struct text out = {.bytes = NULL};
	struct utf8_stream stream = {.pending_count = 0};
	struct error error = {STATUS_OK, ""};

	enum status status =
		tokenizer_parse(&tokenizer, "tokenizer.json", text, byte_count, &error);
	if (status == STATUS_OK) {
		status = tokenizer_encode(tokenizer, sample, sizeof(sample) - 1, &ids, &error);
	}
	if (status != STATUS_OK) {
		require_one_line(&error, status);
	}
	for (size_t i = 0; i < ids.count; i++) {
		require((uint32_t)ids.ids[i] < tokenizer_id_limit(tokenizer), "an id too large");
		tokenizer_decode(tokenizer, ids.ids[i], false, &stream, &out);
		require(utf8_is_valid(out.bytes, out.byte_count), "half a character");
	}
	free(ids.ids);
	free(out.bytes);
	tokenizer_close(tokenizer);
	return status == STATUS_OK;
}

bool fuzz_model_files(const uint8_t *bytes, size_t byte_count)
{
	if (byte_count == 0) {
		return false;
	}
	const uint8_t *file = bytes + 1;
	switch (bytes[0] % FUZZ_READERS) {
	case FUZZ_CONFIG:
		return read_config((const char *)file, byte_count - 1);
	case FUZZ_SAFETENSORS:
		return read_safetensors(file, byte_count - 1);
	default:
		return read_tokenizer((const char *)file, byte_count - 1);
	}
}
