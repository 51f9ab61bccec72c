#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/model/config_json.h"
#include "engine/model/safetensors.h"
#include "engine/model/weights.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/weights_dummy.h"
#include "engine/model/weights_export.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/small_model.h"
#include "tests/harness/temporary.h"

/* Odd sizes, so that a mistaken stride shows; 3 key/value heads of 2 query heads each. */
static struct model_config small_config(void)
{
	return (struct model_config)SMALL_MODEL(.name = "small", .hidden_size = 20,
		.num_hidden_layers = 3, .num_attention_heads = 6, .num_key_value_heads = 3,
		.head_dim = 4, .intermediate_size = 27, .vocab_size = 53, .attention_bias = true,
		.eos_token_ids = {7, 9}, .eos_token_id_count = 2);
}

static struct weights *open_weights(const struct model_config *config, const char *source)
{
	struct weights *weights = NULL;
	struct error error = {STATUS_OK, ""};

	enum status status = weights_open(&weights, config, source, &error);
	require(status == STATUS_OK, "%s", error.text);
	return weights;
}

/* A tensor or a shard of it, owned by the caller. */
static float *read_shard(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, struct weight_shape *shape)
{
	*shape = weight_shape(weights_config(weights), weight, shard);
	float *out = memory_take((size_t)shape->rows * shape->columns, sizeof(*out));
	weights_read_f32(weights, weight, layer, shard, 0, shape->rows, out);
	return out;
}

static float bf16_value(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;
	memcpy(&value, &wide, sizeof(value));
	return value;
}

/* ---- dummy weights ---- */

Test(weights, a_dummy_element_is_what_its_definition_says)
{
	struct model_config config = small_config();
	struct weights *weights = open_weights(&config, "dummy:12345678901234567890");

	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		struct weight_dummy dummy =
			weight_dummy(&config, UINT64_C(12345678901234567890), (enum weight)i, 0);
		struct weight_shape shape;
		float *values = read_shard(weights, (enum weight)i, 0, WEIGHT_WHOLE, &shape);
		double scale = 1;
		for (uint32_t j = 0; j < dummy.shift; j++) {
			scale /= 2;
		}
		for (uint32_t j = 0; j < shape.rows * shape.columns; j++) {
			uint64_t hash = counter_hash(dummy.key, j / 8);
			int byte = (int)(hash >> (8 * (j % 8)) & 255);
			double expected =
				(dummy.is_norm ? 112 + byte % 32 : 2 * byte - 255) * scale;
			require(values[j] == expected, "%s %u: %g is not %g",
				weight_name((enum weight)i), j, (double)values[j], expected);
		}
		free(values);
	}
	weights_close(weights);
}

Test(weights, dummy_scales_suit_their_tensors)
{
	struct model_config config;
	struct error error = {STATUS_OK, ""};

	require_equal(model_config_find("qwen3-0.6b", &config, &error), STATUS_OK);
	config.attention_bias = true;
	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		struct weight_dummy dummy = weight_dummy(&config, 0, (enum weight)i, 0);
		struct weight_shape shape = weight_shape(&config, (enum weight)i, WEIGHT_WHOLE);
		double sum = 0, squares = 0;
		enum { SAMPLES = 1 << 16 };
		for (uint32_t j = 0; j < SAMPLES; j++) {
			double value = (double)bf16_value(weight_dummy_bf16(dummy, j));
			sum += value;
			squares += value * value;
		}
		double mean = sum / SAMPLES;
		double variance = squares / SAMPLES - mean * mean;
		if (dummy.is_norm) {
			require(mean > 0.98 && mean < 1.01, "norm mean %g", mean);
		} else if (shape.rows > 1) {
			double share = variance * shape.columns;
			require(share > 0.24 && share < 1.02, "%s: variance share %g",
				weight_name((enum weight)i), share);
			require(mean * mean < variance / 1000, "mean %g", mean);
		} else {
			require(variance > 1e-4 && variance < 4e-3, "bias variance %g", variance);
		}
	}
}

Test(weights, dummy_tensors_are_unrelated)
{
	struct model_config config = small_config();
	uint64_t keys[2 * 3 * WEIGHT_COUNT];
	uint32_t count = 0;

	for (uint32_t i = 0; i < 2 * 3 * WEIGHT_COUNT; i++) {
		keys[count++] = weight_dummy(&config, i / (3 * WEIGHT_COUNT),
			(enum weight)(i % WEIGHT_COUNT), i / WEIGHT_COUNT % 3)
					.key;
		for (uint32_t j = 0; j + 1 < count; j++) {
			require(keys[j] != keys[count - 1], "tensors %u and %u have one key", j, i);
		}
	}
	config.tie_word_embeddings = true;
	require_equal(weight_dummy(&config, 1, WEIGHT_LM_HEAD, 0).key,
		weight_dummy(&config, 1, WEIGHT_EMBEDDING, 0).key);
}

/* Pinned, so that no change can silently give other weights for the same seed. */
Test(weights, dummy_bits_stay_what_they_were)
{
	struct model_config config = small_config();
	static const uint16_t matrix[] = {
		0x3dee, 0xbdee, 0xbe53, 0x3e73, 0x3e57, 0xbe79, 0xbda2, 0x3e0f};
	static const uint16_t norm[] = {
		0x3f62, 0x3f87, 0x3f8f, 0x3f8c, 0x3f8b, 0x3f8a, 0x3f8b, 0x3f8f};

	for (uint32_t i = 0; i < 8; i++) {
		require_equal(weight_dummy_bf16(weight_dummy(&config, 1, WEIGHT_QKV, 2), 60 + i),
			matrix[i]);
		require_equal(
			weight_dummy_bf16(weight_dummy(&config, 1, WEIGHT_K_NORM, 0), i), norm[i]);
	}
}

Test(weights, a_wrong_seed_is_refused)
{
	static const char *const sources[] = {
		"dummy:", "dummy:-1", "dummy:1x", "dummy: 1", "dummy:18446744073709551616"};
	struct model_config config = small_config();

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		struct weights *weights = NULL;
		struct error error = {STATUS_OK, ""};
		require_equal(weights_open(&weights, &config, sources[i], &error), STATUS_USAGE);
		require(strstr(error.text, sources[i]) != NULL, "%s", error.text);
	}
}

/* ---- shards ---- */

/* The rows of a whole packed tensor that a rank holds of it, by the header's words. */
static uint32_t whole_row(const struct model_config *config, enum weight weight,
	struct weight_shard shard, uint32_t row)
{
	uint32_t query = config->num_attention_heads * config->head_dim;
	uint32_t key = config->num_key_value_heads * config->head_dim;
	uint32_t own_query = query / shard.ranks, own_key = key / shard.ranks;

	switch (weight) {
	case WEIGHT_QKV:
	case WEIGHT_QKV_BIAS:
		if (row < own_query) {
			return shard.rank * own_query + row;
		}
		row -= own_query;
		return query + row / own_key * key + shard.rank * own_key + row % own_key;
	case WEIGHT_GATE_UP: {
		uint32_t own = config->intermediate_size / shard.ranks;
		return row / own * config->intermediate_size + shard.rank * own + row % own;
	}
	case WEIGHT_LM_HEAD:
		return config->vocab_size * shard.rank / shard.ranks + row;
	default:
		return row;
	}
}

/* Finds every element of a shard where the whole tensor has it. hits: (elements of the whole),
   counts how many ranks have each. */
static void require_shard(const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard, uint32_t *hits)
{
	const struct model_config *config = weights_config(weights);
	struct weight_shape whole_shape, shape;
	float *whole = read_shard(weights, weight, layer, WEIGHT_WHOLE, &whole_shape);
	float *own = read_shard(weights, weight, layer, shard, &shape);
	bool is_bias = weight == WEIGHT_QKV_BIAS;
	bool has_columns = weight == WEIGHT_O || weight == WEIGHT_DOWN;

	for (uint32_t row = 0; row < shape.rows; row++) {
		for (uint32_t column = 0; column < shape.columns; column++) {
			uint32_t from_row = is_bias ? 0 : whole_row(config, weight, shard, row);
			uint32_t from_column =
				is_bias ? whole_row(config, weight, shard, column)
					: column + (has_columns ? shard.rank * shape.columns : 0);
			size_t at = (size_t)from_row * whole_shape.columns + from_column;
			require(own[(size_t)row * shape.columns + column] == whole[at],
				"%s of rank %u: row %u, column %u", weight_name(weight), shard.rank,
				row, column);
			hits[at]++;
		}
	}
	free(whole);
	free(own);
}

/* Each element is on one rank, or on all where every rank has the whole tensor. */
static void require_all_shards(const struct weights *weights, uint32_t ranks)
{
	const struct model_config *config = weights_config(weights);
	struct error error = {STATUS_OK, ""};

	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		enum weight weight = (enum weight)i;
		if (!weight_exists(config, weight)) {
			continue;
		}
		struct weight_shape whole = weight_shape(config, weight, WEIGHT_WHOLE);
		size_t count = (size_t)whole.rows * whole.columns;
		uint32_t *hits = memory_take(count, sizeof(*hits));
		for (uint32_t rank = 0; rank < ranks; rank++) {
			struct weight_shard shard = {rank, ranks};
			require_equal(weight_shard_check(config, shard, &error), STATUS_OK);
			require_shard(
				weights, weight, weight_is_layered(weight) ? 2 : 0, shard, hits);
		}
		bool is_whole = i == WEIGHT_EMBEDDING || i == WEIGHT_INPUT_NORM ||
				i == WEIGHT_POST_NORM || i == WEIGHT_FINAL_NORM ||
				i == WEIGHT_Q_NORM || i == WEIGHT_K_NORM || i == WEIGHT_O_BIAS;
		for (size_t j = 0; j < count; j++) {
			require(hits[j] == (is_whole ? ranks : 1), "%s: element %zu on %u ranks",
				weight_name(weight), j, hits[j]);
		}
		free(hits);
	}
}

Test(weights, shards_are_the_parts_of_a_whole)
{
	struct model_config config = small_config();
	struct weights *weights = open_weights(&config, "dummy:5");

	require_all_shards(weights, 1);
	require_all_shards(weights, 3);
	weights_close(weights);
}

/* The tensors of a step and the linear layers of a rank are sized by this configuration. */
Test(weights, the_config_of_a_shard_has_the_shapes_of_its_weights)
{
	struct model_config config;

	for (uint32_t m = 0; m < model_config_count(); m++) {
		require_equal(model_config_builtin(model_config_name(m), &config), true);
		for (uint32_t ranks = 1; ranks <= 8; ranks *= 2) {
			for (uint32_t i = 1; i < ranks * WEIGHT_COUNT; i++) {
				enum weight weight = (enum weight)(i % WEIGHT_COUNT);
				struct weight_shard shard = {i / WEIGHT_COUNT, ranks};
				struct model_config own = weight_shard_config(&config, shard);
				struct weight_shape a = weight_shape(&config, weight, shard);
				struct weight_shape b = weight_shape(&own, weight, WEIGHT_WHOLE);
				if (weight != WEIGHT_EMBEDDING) {
					require_equal(a.rows, b.rows);
					require_equal(a.columns, b.columns);
				}
			}
		}
	}
}

/* 8 key/value heads of 2 query heads each, and 53 ids, which no number of ranks divides. The files
   hold the dummy weights of another seed. */
static void require_powers_of_two(bool is_tied)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct model_config config = small_config();
	struct error error = {0};

	config.num_attention_heads = 16;
	config.num_key_value_heads = 8;
	config.intermediate_size = 40;
	config.tie_word_embeddings = is_tied;
	struct weights *dummy = open_weights(&config, "dummy:6");
	temporary_folder(folder);
	require(weights_export(dummy, folder, &error) == STATUS_OK, "%s", error.text);
	struct weights *stored = open_weights(&config, folder);
	for (uint32_t ranks = 1; ranks <= 8; ranks *= 2) {
		require_all_shards(dummy, ranks);
		require_all_shards(stored, ranks);
	}
	weights_close(dummy);
	weights_close(stored);
	temporary_remove(folder);
}

Test(weights, shards_of_1_2_4_and_8_ranks_are_the_parts_of_a_whole)
{
	require_powers_of_two(false);
	require_powers_of_two(true);
}

Test(weights, ranks_that_cannot_divide_a_model_are_refused_by_name)
{
	static const struct {
		uint32_t heads, kv_heads, intermediate, ranks;
		const char *words;
	} cases[] = {
		{6, 3, 27, 2, "found 2 ranks, expected a divisor of its num_key_value_heads 3"},
		{6, 3, 27, 4, "found 4 ranks, expected at most 3, its num_key_value_heads"},
		{6, 3, 26, 3, "found 3 ranks, expected a divisor of its intermediate_size 26"},
		{8, 8, 24, 16, "found 16 ranks, expected at most 8, its num_key_value_heads"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct model_config config = small_config();
		struct error error = {0};
		config.num_attention_heads = cases[i].heads;
		config.num_key_value_heads = cases[i].kv_heads;
		config.intermediate_size = cases[i].intermediate;
		require_equal(weight_shard_check(
				      &config, (struct weight_shard){0, cases[i].ranks}, &error),
			STATUS_USAGE);
		require(strstr(error.text, cases[i].words) != NULL, "%s", error.text);
		require(strstr(error.text, "model small") != NULL, "%s", error.text);
	}
}

Test(weights, any_rows_read_as_all_rows_do)
{
	struct model_config config = small_config();
	struct weights *weights = open_weights(&config, "dummy:5");
	struct weight_shard shard = {1, 3};

	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		struct weight_shape shape;
		float *all = read_shard(weights, (enum weight)i, 0, shard, &shape);
		float *some = memory_take((size_t)shape.rows * shape.columns, sizeof(*some));
		uint16_t *halves = memory_take((size_t)shape.rows * shape.columns, sizeof(*halves));
		for (uint32_t first = 0; first < shape.rows; first++) {
			uint32_t count = (first * 7 + 3) % (shape.rows - first + 1);
			size_t at = (size_t)first * shape.columns;
			weights_read_f32(
				weights, (enum weight)i, 0, shard, first, count, some + at);
			weights_read_bf16(
				weights, (enum weight)i, 0, shard, first, count, halves + at);
			for (size_t j = 0; j < (size_t)count * shape.columns; j++) {
				require(some[at + j] == all[at + j], "%s: row %u",
					weight_name((enum weight)i), first);
				require(bf16_value(halves[at + j]) == all[at + j], "bf16 of %s",
					weight_name((enum weight)i));
			}
		}
		free(all);
		free(some);
		free(halves);
	}
	weights_close(weights);
}

/* ---- files ---- */

static void require_same_weights(const struct weights *a, const struct weights *b)
{
	const struct model_config *config = weights_config(a);

	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		enum weight weight = (enum weight)i;
		uint32_t layers = weight_is_layered(weight) ? config->num_hidden_layers : 1;
		for (uint32_t layer = 0; weight_exists(config, weight) && layer < layers; layer++) {
			struct weight_shape shape;
			float *x = read_shard(a, weight, layer, WEIGHT_WHOLE, &shape);
			float *y = read_shard(b, weight, layer, WEIGHT_WHOLE, &shape);
			require(memcmp(x, y, sizeof(*x) * shape.rows * shape.columns) == 0,
				"%s of layer %u differs", weight_name(weight), layer);
			free(x);
			free(y);
		}
	}
}

/* Exports weights, reads configuration and weights back, and compares. */
static void require_round_trip(bool is_tied, bool has_bias)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct model_config config = small_config(), read;
	struct error error = {STATUS_OK, ""};

	config.tie_word_embeddings = is_tied;
	config.attention_bias = has_bias;
	struct weights *dummy = open_weights(&config, "dummy:77");
	temporary_folder(folder);
	enum status status = weights_export(dummy, folder, &error);
	require(status == STATUS_OK, "%s", error.text);
	require_equal(weights_export(dummy, folder, &error), STATUS_FILE);
	error = (struct error){0};
	status = model_config_find(folder, &read, &error);
	require(status == STATUS_OK, "%s", error.text);
	memcpy(read.name, config.name, sizeof(read.name));
	require(memcmp(&read, &config, sizeof(read)) == 0, "the configurations differ");
	struct weights *file = open_weights(&read, folder);
	require_same_weights(dummy, file);
	if (has_bias) {
		require_all_shards(file, 3);
	}
	weights_close(file);
	weights_close(dummy);
	temporary_remove(folder);
}

Test(weights, exported_weights_read_back_the_same)
{
	for (uint32_t i = 0; i < 4; i++) {
		require_round_trip(i % 2, i / 2);
	}
}

/* Neither file that is there is replaced, and nothing is left beside it. */
Test(weights, an_export_replaces_neither_file)
{
	static const char *const names[] = {"config.json", "model.safetensors"};
	const struct model_config config = small_config();
	struct weights *dummy = open_weights(&config, "dummy:77");

	for (uint32_t i = 0; i < 2; i++) {
		char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 32];
		struct error error = {STATUS_OK, ""};
		temporary_folder(folder);
		temporary_write(folder, names[i], "mine", NULL);
		require_equal(weights_export(dummy, folder, &error), STATUS_FILE);
		require(strstr(error.text, names[i]) != NULL &&
				strstr(error.text, "exists already") != NULL,
			"%s", error.text);
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		char *text = file_read(path, NULL);
		cr_assert_str_eq(text, "mine");
		free(text);
		snprintf(path, sizeof(path), "%s/%s", folder, names[1 - i]);
		require(file_read_if_there(path, NULL) == NULL, "%s is there", names[1 - i]);
		temporary_remove(folder);
	}
	weights_close(dummy);
}

/* Readers map the file, so its data begin at a multiple of 8 bytes, as the format's own writer has
   it: whatever the header says, blanks fill it up. */
Test(weights, exported_data_are_aligned)
{
	enum { SIZE_BYTES = 8, ALIGNMENT = 8 };

	for (uint32_t vocabulary = 1; vocabulary <= 100000; vocabulary *= 10) {
		char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 32];
		struct model_config config = small_config();
		struct error error = {STATUS_OK, ""};
		uint64_t header_bytes = 0;
		size_t file_bytes;
		config.vocab_size = vocabulary;
		config.eos_token_id_count = 0;
		struct weights *dummy = open_weights(&config, "dummy:77");
		temporary_folder(folder);
		require(weights_export(dummy, folder, &error) == STATUS_OK, "%s", error.text);
		snprintf(path, sizeof(path), "%s/model.safetensors", folder);
		char *file = file_read(path, &file_bytes);
		require(file_bytes > SIZE_BYTES, "%zu bytes", file_bytes);
		for (uint32_t i = 0; i < SIZE_BYTES; i++) {
			header_bytes |= (uint64_t)(uint8_t)file[i] << (8 * i);
		}
		require(header_bytes % ALIGNMENT == 0, "%u tokens: a header of %llu bytes",
			vocabulary, (unsigned long long)header_bytes);
		require(file[SIZE_BYTES] == '{', "the header begins with %c", file[SIZE_BYTES]);
		free(file);
		weights_close(dummy);
		temporary_remove(folder);
	}
}

enum { HEADER_BYTES = 1 << 16 };

/* Appends text to a buffer of HEADER_BYTES. */
static void append(char *text, const char *more)
{
	size_t used = strlen(text);
	size_t bytes = strlen(more) + 1;

	require(used + bytes <= HEADER_BYTES, "the header is too long");
	memcpy(text + used, more, bytes);
}

/* The flaw of a generated checkpoint. */
struct flaw {
	const char *without;  /* leaves this tensor out */
	const char *with;     /* adds a tensor of this name */
	const char *with_too; /* and one of this */
	const char *reshaped; /* gives this tensor a row more */
	const char *widened;  /* and this one a column */
	const char *flat;     /* gives this one a single dimension */
	const char *retyped;  /* gives this tensor the dtype I16 */
};

struct made_tensor {
	const char *name;
	uint32_t rows, columns; /* 1 column: a vector */
};

static const struct made_tensor made_tensors[] = {
	{"model.embed_tokens.weight", 5, 4},
	{"model.layers.0.input_layernorm.weight", 4, 1},
	{"model.layers.0.self_attn.q_proj.weight", 6, 4},
	{"model.layers.0.self_attn.k_proj.weight", 2, 4},
	{"model.layers.0.self_attn.v_proj.weight", 2, 4},
	{"model.layers.0.self_attn.q_norm.weight", 2, 1},
	{"model.layers.0.self_attn.k_norm.weight", 2, 1},
	{"model.layers.0.self_attn.o_proj.weight", 4, 6},
	{"model.layers.0.post_attention_layernorm.weight", 4, 1},
	{"model.layers.0.mlp.gate_proj.weight", 3, 4},
	{"model.layers.0.mlp.up_proj.weight", 3, 4},
	{"model.layers.0.mlp.down_proj.weight", 4, 3},
	{"model.norm.weight", 4, 1},
	{"lm_head.weight", 5, 4},
};

enum { MADE_COUNT = sizeof(made_tensors) / sizeof(made_tensors[0]) };

static struct model_config made_config(void)
{
	return (struct model_config)SMALL_MODEL(.name = "made", .hidden_size = 4,
		.num_hidden_layers = 1, .num_attention_heads = 3, .num_key_value_heads = 1,
		.head_dim = 2, .intermediate_size = 3, .vocab_size = 5);
}

static bool is_name(const char *wanted, const char *name)
{
	return wanted != NULL && strcmp(wanted, name) == 0;
}

/* Appends a tensor's entry to a header; returns the end of its data. */
static uint64_t append_entry(
	char *header, const struct made_tensor *tensor, const struct flaw *flaw, uint64_t offset)
{
	char entry[256], shape[32];
	bool is_retyped = is_name(flaw->retyped, tensor->name);
	uint32_t rows = tensor->rows + is_name(flaw->reshaped, tensor->name);
	uint32_t columns = tensor->columns + is_name(flaw->widened, tensor->name);
	uint64_t end = offset + (uint64_t)(is_retyped ? 2 : 4) * rows * columns;

	if (columns == 1 || is_name(flaw->flat, tensor->name)) {
		snprintf(shape, sizeof(shape), "%u", rows * columns);
	} else {
		snprintf(shape, sizeof(shape), "%u, %u", rows, columns);
	}
	snprintf(entry, sizeof(entry),
		", \"%s\": {\"dtype\": \"%s\", \"shape\": [%s], \"data_offsets\": [%llu, %llu]}",
		tensor->name, is_retyped ? "I16" : "F32", shape, (unsigned long long)offset,
		(unsigned long long)end);
	append(header, entry);
	return end;
}

/* Writes tensors [first, end) of the table and a flaw's addition into a file. Value i of the file
   is the float32 i / 8. */
static void write_made(
	const char *folder, const char *name, uint32_t first, uint32_t end, const struct flaw *flaw)
{
	static char header[HEADER_BYTES];
	char path[TEMPORARY_PATH_BYTES + 64];
	const struct made_tensor extra = {flaw->with, 2, 1}, extra_too = {flaw->with_too, 2, 1};
	uint64_t bytes = 0;

	strcpy(header, "{\"__metadata__\": {\"format\": \"pt\"}");
	for (uint32_t i = first; i < end; i++) {
		if (!is_name(flaw->without, made_tensors[i].name)) {
			bytes = append_entry(header, &made_tensors[i], flaw, bytes);
		}
	}
	if (flaw->with != NULL) {
		bytes = append_entry(header, &extra, flaw, bytes);
	}
	if (flaw->with_too != NULL) {
		bytes = append_entry(header, &extra_too, flaw, bytes);
	}
	append(header, "}");
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "wb");
	require(file != NULL, "cannot write %s", path);
	uint64_t header_bytes = strlen(header);
	fwrite(&header_bytes, sizeof(header_bytes), 1, file);
	fwrite(header, 1, header_bytes, file);
	for (uint64_t i = 0; i < bytes / 4; i++) {
		float value = (float)i / 8;
		fwrite(&value, sizeof(value), 1, file);
	}
	fwrite("\0\0", 1, bytes % 4, file);
	fclose(file);
}

/* Opens a folder with one file of that flaw, and demands the parts of the error line. */
static void require_flaw(const struct flaw *flaw, bool is_tied, const char *part, const char *other)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct model_config config = made_config();
	struct weights *weights = NULL;
	struct error error = {STATUS_OK, ""};

	config.tie_word_embeddings = is_tied;
	temporary_folder(folder);
	write_made(folder, "model.safetensors", 0, MADE_COUNT, flaw);
	enum status status = weights_open(&weights, &config, folder, &error);
	temporary_remove(folder);
	weights_close(weights);
	if (part == NULL) {
		require(status == STATUS_OK, "%s", error.text);
		return;
	}
	require_equal(status, STATUS_INPUT);
	require(strstr(error.text, part) != NULL, "'%s' does not say '%s'", error.text, part);
	require(strstr(error.text, other) != NULL, "'%s' does not say '%s'", error.text, other);
}

Test(weights, tensors_missing_and_unexpected_are_listed)
{
	require_flaw(&(struct flaw){.without = NULL}, false, NULL, "");
	require_flaw(&(struct flaw){.without = "model.norm.weight", .with = "model.nrom.weight"},
		false, "1 tensor missing: model.norm.weight", "1 not expected: model.nrom.weight");
	require_flaw(&(struct flaw){.with = "model.layers.1.mlp.up_proj.weight"}, false,
		"0 tensors missing;", "1 not expected: model.layers.1.mlp.up_proj.weight");
	require_flaw(&(struct flaw){.without = "lm_head.weight"}, false,
		"1 tensor missing: lm_head.weight", "0 not expected");
	require_flaw(&(struct flaw){.without = "lm_head.weight"}, true, NULL, "");
	require_flaw(&(struct flaw){.without = NULL}, true, "tensor lm_head.weight: found other",
		"tie_word_embeddings");
}

/* There is room for 159 characters. */
Test(weights, names_are_listed_whole_or_not_at_all)
{
	char first[128] = "", second[64] = "", listed[256];

	memset(first, 'a', 99);
	memset(second, 'b', 54);
	for (uint32_t length = 55; length <= 60; length++) {
		strcat(second, "b");
		snprintf(listed, sizeof(listed), "2 not expected: %s, %s", first,
			length <= 58 ? second : "...");
		require_flaw(&(struct flaw){.with = first, .with_too = second}, false,
			"0 tensors missing; ", listed);
	}
}

Test(weights, tensors_of_another_shape_or_type_are_refused)
{
	require_flaw(&(struct flaw){.reshaped = "model.layers.0.mlp.down_proj.weight"}, false,
		"down_proj.weight: found shape [5, 3], expected [4, 3]", "model.safetensors");
	require_flaw(&(struct flaw){.reshaped = "model.layers.0.self_attn.k_norm.weight"}, false,
		"k_norm.weight: found shape [3], expected [2]", "");
	require_flaw(&(struct flaw){.widened = "model.layers.0.mlp.down_proj.weight"}, false,
		"down_proj.weight: found shape [4, 4], expected [4, 3]", "model.safetensors");
	require_flaw(&(struct flaw){.widened = "model.layers.0.self_attn.k_norm.weight"}, false,
		"k_norm.weight: found shape [2, 2], expected [2]", "");
	require_flaw(&(struct flaw){.flat = "model.layers.0.mlp.down_proj.weight"}, false,
		"down_proj.weight: found shape [12], expected [4, 3]", "");
	require_flaw(&(struct flaw){.retyped = "model.norm.weight"}, false,
		"model.norm.weight: found dtype I16, expected BF16, F16 or F32", "");
}

Test(weights, a_long_list_of_missing_tensors_is_cut)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct model_config config = made_config();
	struct weights *weights = NULL;
	struct error error = {STATUS_OK, ""};

	config.num_hidden_layers = 1000;
	config.attention_bias = true;
	temporary_folder(folder);
	write_made(folder, "model.safetensors", 0, MADE_COUNT, &(struct flaw){.with = NULL});
	require_equal(weights_open(&weights, &config, folder, &error), STATUS_INPUT);
	temporary_remove(folder);
	/* 999 layers of 11 tensors and 4 biases, and the biases of layer 0 */
	require(strstr(error.text, "14989 tensors missing: model.layers.1.input") != NULL, "%s",
		error.text);
	require(strstr(error.text, ", ...; 0 not expected") != NULL, "%s", error.text);
}

static void write_index(const char *folder, const char *moved, const char *file)
{
	static char text[HEADER_BYTES];
	char line[256];

	strcpy(text, "{\"metadata\": {}, \"weight_map\": {");
	for (uint32_t i = 0; i < MADE_COUNT; i++) {
		const char *own = i < 4 ? "a.safetensors" : "b.safetensors";
		snprintf(line, sizeof(line), "%s\"%s\": \"%s\"", i == 0 ? "" : ", ",
			made_tensors[i].name, is_name(moved, made_tensors[i].name) ? file : own);
		append(text, line);
	}
	append(text, "}}");
	temporary_write(folder, "model.safetensors.index.json", text, NULL);
}

/* Opens two files by an index in which a tensor is moved. */
static enum status open_two_files(const char *moved, const char *file, const char *extra,
	struct weights **weights, struct error *error)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct model_config config = made_config();

	temporary_folder(folder);
	write_made(folder, "a.safetensors", 0, 4, &(struct flaw){.with = NULL});
	write_made(folder, "b.safetensors", 4, MADE_COUNT, &(struct flaw){.with = extra});
	write_index(folder, moved, file);
	enum status status = weights_open(weights, &config, folder, error);
	temporary_remove(folder);
	return status;
}

Test(weights, an_index_joins_several_files)
{
	struct weights *weights = NULL;
	struct error error = {STATUS_OK, ""};
	float row[4];

	enum status status = open_two_files(NULL, NULL, NULL, &weights, &error);
	require(status == STATUS_OK, "%s", error.text);
	/* Row 6 of qkv is the only part of it in file a: k row 0 behind 20 + 4 + 24 values. */
	weights_read_f32(weights, WEIGHT_QKV, 0, WEIGHT_WHOLE, 6, 1, row);
	require(row[0] == 48 / 8.0F && row[3] == 51 / 8.0F, "k row: %g", (double)row[0]);
	weights_read_f32(weights, WEIGHT_QKV, 0, WEIGHT_WHOLE, 9, 1, row);
	require(row[0] == 4 / 8.0F, "v row: %g", (double)row[0]);
	weights_close(weights);
}

Test(weights, an_index_that_errs_is_refused)
{
	static const struct {
		const char *moved, *file, *extra, *part;
		enum status status;
	} cases[] = {
		{"lm_head.weight", "a.safetensors", NULL,
			"/model.safetensors.index.json: tensor lm_head.weight: not found in "
			"a.safetensors, where the index says it is",
			STATUS_INPUT},
		{"lm_head.weight", "c.safetensors", NULL,
			"c.safetensors: cannot be opened: No such", STATUS_FILE},
		{"lm_head.weight", "../c.safetensors", NULL, "a file beside it", STATUS_INPUT},
		{"lm_head.weight", "", NULL, "a file beside it", STATUS_INPUT},
		{NULL, NULL, "model.norm.weight", "found it twice", STATUS_INPUT},
		{NULL, NULL, "model.extra",
			"/model.safetensors.index.json: found 15 tensors in its files, expected "
			"the 14 that it names",
			STATUS_INPUT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weights *weights = NULL;
		struct error error = {STATUS_OK, ""};
		enum status status = open_two_files(
			cases[i].moved, cases[i].file, cases[i].extra, &weights, &error);
		require_equal(status, cases[i].status);
		require(strstr(error.text, cases[i].part) != NULL, "case %zu: %s", i, error.text);
	}
}

/* Opens one embedding of 16-bit values beside the made tensors and reads it both ways. */
static void require_values(const char *dtype, const uint16_t *stored, const float *values,
	const uint16_t *halves, uint32_t count)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES + 32], header[4096] = "{";
	struct model_config config = {
		.hidden_size = 2, .vocab_size = count / 2, .tie_word_embeddings = true};
	struct weights *weights = NULL;
	struct error error = {STATUS_OK, ""};
	float floats[32];
	uint16_t read[32];

	snprintf(header, sizeof(header),
		"{\"model.embed_tokens.weight\": {\"dtype\": \"%s\", \"shape\": [%u, 2], "
		"\"data_offsets\": [0, %u]}, \"model.norm.weight\": {\"dtype\": \"%s\", "
		"\"shape\": [2], \"data_offsets\": [%u, %u]}}",
		dtype, count / 2, 2 * count, dtype, 2 * count, 2 * count + 4);
	temporary_folder(folder);
	snprintf(path, sizeof(path), "%s/model.safetensors", folder);
	FILE *file = fopen(path, "wb");
	uint64_t bytes = strlen(header);
	fwrite(&bytes, sizeof(bytes), 1, file);
	fwrite(header, 1, bytes, file);
	fwrite(stored, 2, count, file);
	fwrite(stored, 2, 2, file);
	fclose(file);
	enum status status = weights_open(&weights, &config, folder, &error);
	temporary_remove(folder);
	require(status == STATUS_OK, "%s", error.text);
	weights_read_f32(weights, WEIGHT_EMBEDDING, 0, WEIGHT_WHOLE, 0, count / 2, floats);
	weights_read_bf16(weights, WEIGHT_LM_HEAD, 0, WEIGHT_WHOLE, 0, count / 2, read);
	for (uint32_t i = 0; i < count; i++) {
		require(memcmp(&floats[i], &values[i], 4) == 0, "%s 0x%04x: %g, expected %g", dtype,
			stored[i], (double)floats[i], (double)values[i]);
		require(read[i] == halves[i], "%s 0x%04x: 0x%04x, expected 0x%04x", dtype,
			stored[i], read[i], halves[i]);
	}
	weights_close(weights);
}

Test(weights, sixteen_bit_values_keep_theirs)
{
	/* 1, -2, the largest, the smallest normal, the largest and smallest below it, two that
	   fall between bf16 values, -0, infinity */
	static const uint16_t f16[] = {
		0x3c00, 0xc000, 0x7bff, 0x0400, 0x03ff, 0x0001, 0x3c04, 0x3c0c, 0x8000, 0x7c00};
	static const float values[] = {1, -2, 65504, 0x1p-14F, 0x1.ff8p-15F, 0x1p-24F, 0x1.01p0F,
		0x1.03p0F, -0.0F, INFINITY};
	static const uint16_t halves[] = {
		0x3f80, 0xc000, 0x4780, 0x3880, 0x3880, 0x3380, 0x3f80, 0x3f82, 0x8000, 0x7f80};
	static const uint16_t bf16[] = {0x3f80, 0xc000, 0x0001, 0x8000, 0x7f80, 0x4049};
	static const float bf16_values[] = {1, -2, 0x1p-133F, -0.0F, INFINITY, 0x1.92p1F};

	require_values("F16", f16, values, halves, 10);
	require_values("BF16", bf16, bf16_values, bf16, 6);
}
