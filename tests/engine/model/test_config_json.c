#include "engine/model/config_json.h"
#include "engine/shape/model_config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/shape/weight_shape.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* What is common to the config.json of every published dense Qwen3; %s takes further fields. */
#define CONFIG_TEXT                                                                                \
	"{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\",\n"                 \
	" \"attention_bias\": false, \"bos_token_id\": 151643, \"eos_token_id\": 151645,\n"        \
	" \"head_dim\": 128, \"hidden_act\": \"silu\", \"hidden_size\": 1024,\n"                   \
	" \"intermediate_size\": 3072, \"max_position_embeddings\": 40960,\n"                      \
	" \"max_window_layers\": 28, \"num_attention_heads\": 16, \"num_hidden_layers\": 28,\n"    \
	" \"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-06, \"sliding_window\": null,\n"        \
	" \"tie_word_embeddings\": true, \"use_sliding_window\": false,\n"                         \
	" \"vocab_size\": 151936"

#define ROPE_TEXT ", \"rope_theta\": 1000000, \"rope_scaling\": null, \"torch_dtype\": \"bfloat16\""

/* Reads a config.json of this text. */
static enum status read_text(const char *text, struct model_config *out, struct error *error)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "config.json", text, path);
	enum status status = model_config_find(folder, out, error);
	temporary_remove(folder);
	return status;
}

static void require_refused(const char *text, const char *part)
{
	struct model_config config;
	struct error error = {STATUS_OK, ""};

	enum status status = read_text(text, &config, &error);
	require(status == STATUS_INPUT, "accepted, or another status: %s", text);
	require(strstr(error.text, part) != NULL, "'%s' does not name '%s'", error.text, part);
	require(strstr(error.text, "config.json") != NULL, "'%s' names no file", error.text);
}

/* By its folder, or by the file where that has another name. */
Test(model_config, is_named_by_its_path)
{
	static const char *const cases[][2] = {{"tiny", "tiny"}, {"./tiny", "tiny"},
		{"tiny/", "tiny"}, {"tiny//config.json", "tiny"}, {"tiny/config.json", "tiny"},
		{"mine.json", "mine"}, {"tiny/../mine.json", "mine"}};
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	require(chdir(folder) == 0 && mkdir("tiny", 0755) == 0, "no folder");
	temporary_write(folder, "mine.json", CONFIG_TEXT ROPE_TEXT "}", NULL);
	temporary_write(folder, "tiny/config.json", CONFIG_TEXT ROPE_TEXT "}", NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model_config config;
		struct error error = {STATUS_OK, ""};
		require(model_config_find(cases[i][0], &config, &error) == STATUS_OK, "%s",
			error.text);
		require(strcmp(config.name, cases[i][1]) == 0, "%s is named %s", cases[i][0],
			config.name);
	}
	temporary_remove(folder);
}

Test(model_config, a_published_file_reads_as_the_built_in_shape)
{
	struct model_config read, built_in;
	struct error error = {STATUS_OK, ""};

	require_equal(model_config_find("qwen3-0.6b", &built_in, &error), STATUS_OK);
	enum status status = read_text(CONFIG_TEXT ROPE_TEXT "}", &read, &error);
	require(status == STATUS_OK, "%s", error.text);
	require(strncmp(read.name, "quire-test-", 11) == 0, "named %s", read.name);
	require_equal(read.hidden_size, built_in.hidden_size);
	require_equal(read.num_hidden_layers, built_in.num_hidden_layers);
	require_equal(read.num_attention_heads, built_in.num_attention_heads);
	require_equal(read.num_key_value_heads, built_in.num_key_value_heads);
	require_equal(read.head_dim, built_in.head_dim);
	require_equal(read.intermediate_size, built_in.intermediate_size);
	require_equal(read.vocab_size, built_in.vocab_size);
	require_equal(read.max_position_embeddings, built_in.max_position_embeddings);
	require_equal(read.tie_word_embeddings, built_in.tie_word_embeddings);
	require_equal(read.attention_bias, built_in.attention_bias);
	require_equal(read.dtype, built_in.dtype);
	require_equal(read.eos_token_id_count, 1);
	require_equal(read.eos_token_ids[0], built_in.eos_token_ids[0]);
	cr_assert(read.rms_norm_eps == built_in.rms_norm_eps);
	cr_assert(read.rope_theta == built_in.rope_theta);
}

Test(model_config, newer_and_older_forms_are_understood)
{
	struct model_config config;
	struct error error = {STATUS_OK, ""};

	enum status status = read_text(CONFIG_TEXT
		", \"rope_parameters\": {\"rope_theta\": 5000000.0, \"rope_type\": \"default\"},"
		" \"dtype\": \"float16\", \"layer_types\": [\"full_attention\"]}",
		&config, &error);
	require(status == STATUS_OK, "%s", error.text);
	cr_assert(config.rope_theta == 5e6);
	require_equal(config.dtype, MODEL_DTYPE_FLOAT16);

	status = read_text("{\"model_type\": \"qwen3\", \"hidden_size\": 64, "
			   "\"intermediate_size\": 96, \"max_position_embeddings\": 512, "
			   "\"num_attention_heads\": 4, \"num_hidden_layers\": 2, "
			   "\"num_key_value_heads\": 2, \"vocab_size\": 300, "
			   "\"rope_theta\": 10000.0, \"attention_bias\": true, "
			   "\"eos_token_id\": [7, 9]}",
		&config, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(config.head_dim, 128);
	require_equal(config.tie_word_embeddings, false);
	require_equal(config.eos_token_id_count, 2);
	require_equal(config.eos_token_ids[1], 9);
	/* qkv (64, 1024) and o (512, 64) with biases, gate_up, down, four norms; twice; two tables.
	 */
	uint64_t layer = 64 * 1024 + 1024 + 512 * 64 + 64 + 64 * 192 + 96 * 64 + 2 * 64 + 2 * 128;
	require_equal(weight_parameter_count(&config), 2 * layer + 2 * 300 * 64 + 64);
}

Test(model_config, unsupported_features_are_refused_by_name)
{
	require_refused(CONFIG_TEXT ", \"rope_theta\": 1, \"rope_scaling\": "
				    "{\"rope_type\": \"yarn\", \"factor\": 4.0}}",
		"rope_scaling.rope_type: found \"yarn\"");
	require_refused(CONFIG_TEXT ", \"rope_theta\": 1, \"rope_scaling\": {\"factor\": 4.0}}",
		"rope_scaling.factor: found 4");
	require_refused(CONFIG_TEXT ", \"rope_parameters\": {\"rope_theta\": 1, "
				    "\"rope_type\": \"linear\"}}",
		"rope_parameters.rope_type");
	require_refused(CONFIG_TEXT ROPE_TEXT ", \"num_experts\": 128}", "num_experts: found 128");
	require_refused(
		CONFIG_TEXT ROPE_TEXT ", \"quantization_config\": {}}", "quantization_config");
	require_refused(CONFIG_TEXT ROPE_TEXT
		", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}",
		"layer_types");
	require_refused("{\"model_type\": \"gemma3\"}", "model_type: found \"gemma3\"");
	require_refused("{\"model_type\": \"llama\", \"architectures\": [\"Qwen3ForCausalLM\"]}",
		"expected [\"LlamaForCausalLM\"]");
	require_refused("{\"model_type\": \"llama\", \"mlp_bias\": true}", "mlp_bias: found true");
	require_refused("{\"model_type\": \"qwen3\", \"architectures\": [\"Qwen3Model\"]}",
		"architectures");
	require_refused("{\"model_type\": \"qwen3\", \"hidden_act\": \"gelu\"}",
		"hidden_act: found \"gelu\"");
	require_refused("{\"model_type\": \"qwen3\", \"use_sliding_window\": true}",
		"use_sliding_window: found true");
}

/* Its sizes price it; nothing of it is computed, so rope scaling does not matter. */
Test(model_config, a_llama_can_be_priced_only)
{
	struct model_config config;
	struct error error = {STATUS_OK, ""}, refused = {STATUS_OK, ""};

	enum status status = model_config_find(
		QUIRE_SOURCE_DIR "/tests/fixtures/llama-3.1-8b.json", &config, &error);
	require(status == STATUS_OK, "%s", error.text);
	cr_assert_str_eq(config.name, "llama-3.1-8b");
	require_equal(config.head_dim, 128);
	require_equal(model_config_kv_bytes_per_token(&config), 131072);
	require_equal(model_config_check_computed(&config, &refused), STATUS_USAGE);
	cr_assert_not_null(strstr(refused.text, "model_type \"llama\""));

	status = read_text("{\"model_type\": \"llama\", \"hidden_size\": 64, "
			   "\"intermediate_size\": 96, \"max_position_embeddings\": 512, "
			   "\"num_attention_heads\": 4, \"num_hidden_layers\": 2, "
			   "\"num_key_value_heads\": 2, \"vocab_size\": 300}",
		&config, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(config.head_dim, 16);
	cr_assert(config.rope_theta == 10000);
	require(read_text(CONFIG_TEXT ROPE_TEXT "}", &config, &error) == STATUS_OK, "%s",
		error.text);
	require_equal(model_config_check_computed(&config, &error), STATUS_OK);
}

Test(model_config, malformed_files_are_refused_with_field_and_expectation)
{
	require_refused(CONFIG_TEXT "}", "rope_theta: found nothing");
	require_refused(CONFIG_TEXT ROPE_TEXT ", \"torch_dtype\": \"int8\"}", "twice");
	require_refused(CONFIG_TEXT ", \"rope_theta\": 1, \"torch_dtype\": \"int8\"}",
		"torch_dtype: found \"int8\"");
	require_refused(
		CONFIG_TEXT ROPE_TEXT ", \"hidden_size\": 64}", "hidden_size: found it twice");
	require_refused("{\"model_type\": \"qwen3\", \"hidden_size\": 0}",
		"hidden_size: found 0, expected an integer in [1, 131072]");
	require_refused("{\"model_type\": \"qwen3\", \"hidden_size\": 10.5}", "found 10.5");
	require_refused("{\"model_type\": \"qwen3\", \"hidden_size\": \"1024\"}", "found \"1024\"");
	require_refused("{\"model_type\": \"qwen3\", \"hidden_size\": 1e300}", "found 1e+300");
	require_refused("{\n\"model_type\": \"qwen3\",\n\"hidden_size\": }", "config.json:3");
	require_refused("{\"model_type\": \"qwen3\"", "config.json:1");
	require_refused("{\"model_type\": \"qwen3\"}\n]", "config.json:2: found more");
	require_refused("", "config.json:1");
	require_refused("[1]", "found an array, expected an object");
	require_refused("{\"model_type\": \"qwen3\", \"hidden_size\": 64, "
			"\"intermediate_size\": 96, \"max_position_embeddings\": 512, "
			"\"num_attention_heads\": 5, \"num_hidden_layers\": 2, "
			"\"num_key_value_heads\": 2, \"vocab_size\": 300}",
		"num_key_value_heads: found 2, expected a divisor");
}

/* All that a config.json must say. */
#define NEEDED                                                                                     \
	"{\"model_type\": \"qwen3\", \"hidden_size\": 64, \"intermediate_size\": 96, "             \
	"\"max_position_embeddings\": 512, \"num_attention_heads\": 4, \"num_hidden_layers\": 2, " \
	"\"num_key_value_heads\": 2, \"vocab_size\": 300, \"rope_theta\": 10000"

Test(model_config, what_a_file_does_not_say_has_a_default)
{
	struct model_config config;
	struct error error = {STATUS_OK, ""};

	require(read_text(NEEDED "}", &config, &error) == STATUS_OK, "%s", error.text);
	require_equal(config.head_dim, 128);
	require_equal(config.tie_word_embeddings, false);
	require_equal(config.attention_bias, false);
	require_equal(config.dtype, MODEL_DTYPE_BFLOAT16);
	require_equal(config.eos_token_id_count, 0);
	require(config.rms_norm_eps == 1e-6, "%g", config.rms_norm_eps);
	require(read_text(NEEDED ", \"dtype\": \"float32\", \"torch_dtype\": \"float16\"}", &config,
			&error) == STATUS_OK,
		"%s", error.text);
	require_equal(config.dtype, MODEL_DTYPE_FLOAT32);
	require(read_text(NEEDED ", \"torch_dtype\": \"float16\", \"eos_token_id\": [0, 299]}",
			&config, &error) == STATUS_OK,
		"%s", error.text);
	require_equal(config.dtype, MODEL_DTYPE_FLOAT16);
	require_equal(config.eos_token_id_count, 2);
	require_equal(config.eos_token_ids[1], 299);
}

/* Behind what is needed. part: of the refusal; NULL: accepted. */
Test(model_config, each_further_field_is_accepted_or_refused)
{
	static const struct {
		const char *field, *part;
	} cases[] = {
		{"\"rope_parameters\": {\"rope_theta\": 10000, \"rope_type\": \"default\"}", NULL},
		{"\"rope_parameters\": {\"rope_theta\": 9999}", "one value throughout the file"},
		{"\"rope_parameters\": {\"rope_theta\": 10001}", "one value throughout the file"},
		{"\"rope_scaling\": {\"rope_theta\": 5}", "one value throughout the file"},
		{"\"rope_scaling\": {\"type\": \"default\", \"factor\": null}", NULL},
		{"\"rope_scaling\": {\"factor\": 2}", "rope scaling is not computed"},
		{"\"rope_scaling\": {\"rope_type\": \"yarn\"}", "rope scaling is not computed"},
		{"\"eos_token_id\": 299", NULL},
		{"\"eos_token_id\": 300", "a token id"},
		{"\"eos_token_id\": -1", "a token id"},
		{"\"eos_token_id\": 1.5", "a token id"},
		{"\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8]", NULL},
		{"\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9]", "at most 8"},
		{"\"eos_token_id\": [1, null]", "a token id"},
		{"\"architectures\": [\"Qwen3ForCausalLM\"]", NULL},
		{"\"architectures\": []", "[\"Qwen3ForCausalLM\"]"},
		{"\"architectures\": [\"Qwen3ForCausalLM\", \"Qwen3ForCausalLM\"]",
			"[\"Qwen3ForCausalLM\"]"},
		{"\"rms_norm_eps\": 0", NULL},
		{"\"rms_norm_eps\": 1", NULL},
		{"\"rms_norm_eps\": 1.001", "rms_norm_eps: found 1.001"},
		{"\"rms_norm_eps\": -1e-9", "rms_norm_eps: found -1e-09"},
		{"\"attention_bias\": 1", "attention_bias: found 1"},
		{"\"tie_word_embeddings\": \"no\"", "tie_word_embeddings: found \"no\""},
		{"\"hidden_act\": null", NULL},
		{"\"layer_types\": [\"full_attention\", \"full_attention\"]", NULL},
		{"\"layer_types\": [\"full_attention\", 1]", "layer_types"},
		{"\"layer_types\": {}", "layer_types: found an object, expected an array"},
	};
	static const char *const features[] = {"use_sliding_window", "num_experts",
		"num_local_experts", "partial_rotary_factor", "mlp_bias", "quantization_config"};
	static const char *const values[] = {"null", "false", "true", "1", "{}", "0.5"};
	enum { FEATURES = sizeof(features) / sizeof(features[0]) };
	enum { CASES = sizeof(cases) / sizeof(cases[0]) };

	for (size_t i = 0; i < CASES + FEATURES * 6; i++) {
		char text[1024], field[128], part[64];
		struct model_config config;
		struct error error = {STATUS_OK, ""};
		const char *feature = features[i < CASES ? 0 : (i - CASES) / 6];
		size_t value = i < CASES ? 0 : (i - CASES) % 6;
		snprintf(field, sizeof(field), "\"%s\": %s", feature, values[value]);
		snprintf(part, sizeof(part), "%s: found ", feature);
		const char *expected = i < CASES ? cases[i].part : value < 2 ? NULL : part;
		snprintf(text, sizeof(text), NEEDED ", %s}", i < CASES ? cases[i].field : field);
		if (expected != NULL) {
			require_refused(text, expected);
		} else {
			require(read_text(text, &config, &error) == STATUS_OK, "%s", error.text);
		}
	}
}

/* The published config.json with another value of a size. */
static enum status read_with(
	const char *field, unsigned long long value, struct model_config *out, struct error *error)
{
	const char *whole = CONFIG_TEXT ROPE_TEXT "}";
	char text[2048];

	const char *place = strstr(whole, field) + strlen(field) + strlen("\": ");
	snprintf(text, sizeof(text), "%.*s%llu%s", (int)(place - whole), whole, value,
		place + strspn(place, "0123456789"));
	memset(error, 0, sizeof(*error));
	return read_text(text, out, error);
}

Test(model_config, sizes_have_their_ranges)
{
	static const struct {
		const char *field;
		unsigned long long most;
	} sizes[] = {{"hidden_size", 131072}, {"num_hidden_layers", 1024},
		{"num_attention_heads", 1024}, {"num_key_value_heads", 1024}, {"head_dim", 1024},
		{"intermediate_size", 1048576}, {"vocab_size", 16777216},
		{"max_position_embeddings", 268435456}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct model_config config;
		struct error error;
		char expected[128];
		snprintf(expected, sizeof(expected),
			"%s: found %llu, expected an integer in [1, %llu]", sizes[i].field,
			sizes[i].most + 1, sizes[i].most);
		require_equal(read_with(sizes[i].field, sizes[i].most + 1, &config, &error),
			STATUS_INPUT);
		require(strstr(error.text, expected) != NULL, "%s", error.text);
		/* The most may go with no other size, but is no number out of range. */
		(void)read_with(sizes[i].field, sizes[i].most, &config, &error);
		require(strstr(error.text, "an integer in") == NULL, "%s", error.text);
	}
}

/* A plain name is the built-in model, whatever lies in the current folder; one with a slash is a
   folder if there is one. */
Test(model_config, a_folder_may_have_the_name_of_a_model)
{
	static const char *const names[] = {"qwen3-8b", "Qwen/Qwen3-8B"};
	char folder[TEMPORARY_PATH_BYTES];
	struct error error = {STATUS_OK, ""};
	struct model_config config;

	temporary_folder(folder);
	require(chdir(folder) == 0, "no %s", folder);
	for (uint32_t has_folder = 0; has_folder < 2; has_folder++) {
		for (uint32_t i = 0; i < 2; i++) {
			bool is_builtin = false;
			require_equal(
				model_config_find_builtin(names[i], &config, &is_builtin, &error),
				STATUS_OK);
			require(is_builtin == (i == 0 || !has_folder), "%s", names[i]);
			require(!is_builtin || config.hidden_size == 4096, "%s", names[i]);
		}
		require(has_folder || (mkdir(names[0], 0755) == 0 && mkdir("Qwen", 0755) == 0 &&
					      mkdir(names[1], 0755) == 0),
			"no folders");
	}
	require(chdir("/") == 0, "no /");
	temporary_remove(folder);
}

Test(model_config, what_is_written_reads_back_to_the_last_bit)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 16];
	struct error error = {STATUS_OK, ""};
	struct model_config config, read;

	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/config.json", folder);
	require_equal(model_config_find("qwen3-0.6b", &config, &error), STATUS_OK);
	for (uint32_t i = 1; i <= 100; i++) {
		config.rms_norm_eps = 1e-6 * i / 7;
		config.rope_theta = 1e5 * i / 3;
		FILE *file = fopen(path, "w");
		require(file != NULL, "no %s", path);
		model_config_write(&config, file);
		require_equal(fclose(file), 0);
		enum status status = model_config_find(folder, &read, &error);
		require(status == STATUS_OK, "%s", error.text);
		require(read.rms_norm_eps == config.rms_norm_eps, "%.17g", config.rms_norm_eps);
		require(read.rope_theta == config.rope_theta, "%.17g", config.rope_theta);
	}
	temporary_remove(folder);
}

Test(model_config, deep_nesting_is_an_error_and_no_crash)
{
	enum { DEPTH = 100000 };
	static char text[DEPTH + 1];
	memset(text, '[', DEPTH);
	require_refused(text, "config.json:1");
}

Test(model_config, an_unknown_name_is_answered_with_the_names)
{
	struct model_config config;
	struct error error = {STATUS_OK, ""};

	require_equal(model_config_find("qwen3-7b", &config, &error), STATUS_USAGE);
	cr_assert_not_null(strstr(error.text, "'qwen3-7b'"));
	for (uint32_t i = 0; i < model_config_count(); i++) {
		cr_assert_not_null(strstr(error.text, model_config_name(i)));
	}
	require_equal(model_config_find("no/such.json", &config, &error), STATUS_FILE);
	cr_assert_not_null(strstr(error.text, "no/such.json"));
}

Test(model_config, a_file_can_be_named_itself)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES];
	struct model_config config;
	struct error error = {STATUS_OK, ""};

	temporary_folder(folder);
	temporary_write(folder, "small.json", CONFIG_TEXT ROPE_TEXT "}", path);
	enum status status = model_config_find(path, &config, &error);
	temporary_remove(folder);
	require(status == STATUS_OK, "%s", error.text);
	cr_assert_str_eq(config.name, "small");
}

Test(model_config, unsupported_rope_settings_are_refused)
{
	require_refused(CONFIG_TEXT ", \"rope_theta\": 1, \"rope_scaling\": "
				    "{\"mrope_section\": [1, 2]}}",
		"rope_scaling.mrope_section: found an array");
	require_refused(CONFIG_TEXT ", \"rope_theta\": 1, \"partial_rotary_factor\": 0.5}",
		"partial_rotary_factor: found 0.5");
	require_refused(CONFIG_TEXT ", \"rope_theta\": 1, \"rope_parameters\": "
				    "{\"rope_theta\": 2, \"rope_type\": \"default\"}}",
		"rope_parameters.rope_theta: found 2, expected one value");
	require_refused(CONFIG_TEXT ", \"rope_theta\": 1, \"rope_scaling\": {\"type\": 3}}",
		"rope_scaling.type: found 3");
	require_refused(CONFIG_TEXT ", \"rope_theta\": 1, \"layer_types\": \"full_attention\"}",
		"layer_types: found \"full_attention\"");
}

/* Reads a folder with a config.json and a generation_config.json of these texts. */
static enum status read_both(const char *config_text, const char *generation_text,
	struct model_config *out, struct error *error)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	temporary_write(folder, "config.json", config_text, NULL);
	temporary_write(folder, "generation_config.json", generation_text, NULL);
	enum status status = model_config_find(folder, out, error);
	temporary_remove(folder);
	return status;
}

Test(model_config, the_generation_config_names_the_ends_of_a_text)
{
	struct model_config config;
	struct error error = {STATUS_OK, ""};
	static const char text[] = CONFIG_TEXT ROPE_TEXT "}";

	enum status status = read_both(text,
		"{\"eos_token_id\": [151645, 151643], \"temperature\": 0.6}", &config, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(config.eos_token_id_count, 2);
	require_equal(config.eos_token_ids[0], 151645);
	require_equal(config.eos_token_ids[1], 151643);
	require_equal(read_both(text, "{\"eos_token_id\": 5}", &config, &error), STATUS_OK);
	require_equal(config.eos_token_id_count, 1);
	require_equal(config.eos_token_ids[0], 5);
	require_equal(read_both(text, "{\"top_k\": 20}", &config, &error), STATUS_OK);
	require_equal(config.eos_token_id_count, 1);
	require_equal(config.eos_token_ids[0], 151645);
	require_equal(
		read_both(text, "{\"eos_token_id\": [200000]}", &config, &error), STATUS_INPUT);
	require(strstr(error.text, "generation_config.json: field eos_token_id") != NULL, "%s",
		error.text);
	require_equal(read_both(text, "[]", &config, &error), STATUS_INPUT);
}
