#include "tests/fuzz/targets.h"

#include <stdio.h>
#include <string.h>

#include "engine/model/config_json.h"
#include "engine/shape/weight_shape.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/require.h"

/* What was read is written, and read again as the same. */
static void write_and_read(const struct model_config *config)
{
	char written[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct model_config again;
	struct error error = {0};

	temporary_folder(written);
	snprintf(path, sizeof(path), "%s/config.json", written);
	FILE *file = fopen(path, "wb");
	require(file != NULL, "%s cannot be written", path);
	model_config_write(config, file);
	require(fclose(file) == 0, "%s cannot be written", path);
	enum status status = model_config_find(written, &again, &error);
	require(status == STATUS_OK, "%s", error.text);
	require(again.hidden_size == config->hidden_size &&
			again.num_hidden_layers == config->num_hidden_layers &&
			again.vocab_size == config->vocab_size &&
			again.rope_theta == config->rope_theta &&
			again.rms_norm_eps == config->rms_norm_eps &&
			again.eos_token_id_count == config->eos_token_id_count,
		"another configuration");
	sections_remove(written);
}

bool fuzz_config(const uint8_t *bytes, size_t byte_count)
{
	static const char *const names[] = {"config.json", "generation_config.json", NULL};
	char folder[TEMPORARY_PATH_BYTES];
	struct model_config config;
	struct error error = {0};

	sections_unpack(bytes, byte_count, names, folder);
	enum status status = model_config_find(folder, &config, &error);
	require_refused_in_one_line(status, &error);
	if (status == STATUS_OK) {
		require(weight_parameter_count(&config) > 0, "a model without weights");
		require(config.num_attention_heads % config.num_key_value_heads == 0, "heads");
		require(config.eos_token_id_count <= MODEL_EOS_MAX, "ends");
		write_and_read(&config);
	}
	sections_remove(folder);
	return status == STATUS_OK;
}
