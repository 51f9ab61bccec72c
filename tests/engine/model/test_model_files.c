#include "engine/base/counter_hash.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/targets.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"

/* The body of the fuzzer, fed with good files and with damaged ones that are the same every time.
 */

enum { FILE_BYTES_MAX = 1 << 16, SPAN_MAX = 40 };

struct file {
	uint8_t bytes[FILE_BYTES_MAX + 1]; /* the reader, then the file */
	size_t byte_count;
};

static const char config_text[] =
	"{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
	"\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
	"\"num_key_value_heads\": 2, \"head_dim\": 16, \"intermediate_size\": 96, "
	"\"vocab_size\": 300, \"hidden_act\": \"silu\", \"max_position_embeddings\": 512, "
	"\"rms_norm_eps\": 1e-06, \"eos_token_id\": [1, 2, 3], "
	"\"rope_parameters\": {\"rope_theta\": 1e6, \"rope_type\": \"default\"}, "
	"\"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": true, \"attention_bias\": false, "
	"\"layer_types\": [\"full_attention\", \"full_attention\"], \"use_sliding_window\": false}";

static const char safetensors_text[] =
	"\xcb\0\0\0\0\0\0\0"
	"{\"__metadata__\":{\"format\":\"pt\"},"
	"\"a\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
	"\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]},"
	"\"c\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[16,20]}}   "
	"0123456789abcdefghij";

static void set_file(struct file *file, uint8_t reader, const void *bytes, size_t byte_count)
{
	require(byte_count <= FILE_BYTES_MAX, "the file is too long");
	file->bytes[0] = reader;
	memcpy(file->bytes + 1, bytes, byte_count);
	file->byte_count = byte_count + 1;
}

static void read_fixture(struct file *file)
{
	size_t byte_count;
	char *bytes =
		file_read(QUIRE_SOURCE_DIR "/tests/fixtures/tokenizer/small.json", &byte_count);

	set_file(file, FUZZ_TOKENIZER, bytes, byte_count);
	free(bytes);
}

/* Texts that mean something to a reader, put where others were. */
static const char *const words[] = {"null", "true", "false", "-1", "0", "1e400",
	"18446744073709551616", "9007199254740993", "\"\"", "[]", "{}", "[[[[", "\\u0000",
	"\\ud800", "\xff", "(", ")+*", "[^", "\"", ",", ":", "0.5", "\"a\":1,", "\\p{L}",
	"2147483648", "4294967296"};

/* Changes the file at a few places drawn from the key. */
static void damage(struct file *file, uint64_t key)
{
	uint32_t changes = 1 + counter_below((uint32_t)counter_hash(key, 0), 4);

	for (uint32_t i = 0; i < changes && file->byte_count > 1; i++) {
		uint64_t hash = counter_hash(key, 1 + 2 * i), more = counter_hash(key, 2 + 2 * i);
		size_t room = file->byte_count - 1;
		size_t at = 1 + counter_below((uint32_t)hash, (uint32_t)room);
		size_t span = 1 + counter_below((uint32_t)(hash >> 32), SPAN_MAX);
		span = span < file->byte_count - at ? span : file->byte_count - at;
		const char *word = words[(more >> 8) % (sizeof(words) / sizeof(words[0]))];
		size_t word_bytes = strlen(word);
		switch (more % 5) {
		case 0: /* another byte */
			file->bytes[at] = (uint8_t)(more >> 8);
			break;
		case 1: /* a part less */
			memmove(file->bytes + at, file->bytes + at + span,
				file->byte_count - at - span);
			file->byte_count -= span;
			break;
		case 2: /* a word over what was there */
			span = word_bytes < file->byte_count - at ? word_bytes
								  : file->byte_count - at;
			memcpy(file->bytes + at, word, span);
			break;
		case 3: /* a word more */
			if (file->byte_count + word_bytes <= FILE_BYTES_MAX) {
				memmove(file->bytes + at + word_bytes, file->bytes + at,
					file->byte_count - at);
				memcpy(file->bytes + at, word, word_bytes);
				file->byte_count += word_bytes;
			}
			break;
		default: /* the end missing */
			file->byte_count = more >> 8 & 7 ? file->byte_count : at;
		}
	}
}

/* In memory of its own, so that a sanitizer sees a step beyond the end. */
static void feed(const struct file *file)
{
	uint8_t *copy = malloc(file->byte_count);

	require(copy != NULL, "out of memory");
	memcpy(copy, file->bytes, file->byte_count);
	fuzz_model_files(copy, file->byte_count);
	free(copy);
}

static void feed_damaged(const struct file *good, uint32_t count)
{
	static struct file damaged;

	feed(good);
	for (uint32_t i = 0; i < count; i++) {
		damaged = *good;
		damage(&damaged, counter_key(good->bytes[0], i));
		feed(&damaged);
	}
}

Test(model_files, damaged_configurations_are_refused_in_one_line)
{
	static struct file file;

	set_file(&file, FUZZ_CONFIG, config_text, sizeof(config_text) - 1);
	feed_damaged(&file, 20000);
}

Test(model_files, damaged_weights_are_refused_in_one_line)
{
	static struct file file;

	set_file(&file, FUZZ_SAFETENSORS, safetensors_text, sizeof(safetensors_text) - 1);
	feed_damaged(&file, 20000);
}

Test(model_files, damaged_tokenizers_are_refused_in_one_line)
{
	static struct file file;

	read_fixture(&file);
	feed_damaged(&file, 2000);
}

/* The settings of a tokenizer.json lie in its first and last part; the middle is vocabulary. */
Test(model_files, damaged_settings_of_a_tokenizer_are_refused_in_one_line)
{
	static struct file file, damaged, part;

	read_fixture(&file);
	const uint8_t *model = NULL;
	for (size_t i = 1; i + 8 < file.byte_count && model == NULL; i++) {
		model = memcmp(file.bytes + i, "\"vocab\":", 8) == 0 ? file.bytes + i : NULL;
	}
	require(model != NULL, "no vocabulary");
	size_t settings = (size_t)(model - file.bytes);
	for (uint32_t i = 0; i < 3000; i++) {
		memcpy(part.bytes, file.bytes, settings);
		part.byte_count = settings;
		damage(&part, counter_key(99, i));
		size_t rest = file.byte_count - settings;
		require(part.byte_count + rest <= sizeof(damaged.bytes), "too long");
		memcpy(damaged.bytes, part.bytes, part.byte_count);
		memcpy(damaged.bytes + part.byte_count, model, rest);
		damaged.byte_count = part.byte_count + rest;
		feed(&damaged);
	}
}
