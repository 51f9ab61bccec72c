#include "engine/model/safetensors.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* A file in memory: the header's size, the header, data of so many bytes. Owned by the caller. */
static uint8_t *make_file(const char *header, uint64_t data_bytes, uint64_t *byte_count)
{
	uint64_t header_bytes = strlen(header);

	*byte_count = 8 + header_bytes + data_bytes;
	uint8_t *bytes = malloc(*byte_count);
	require(bytes != NULL, "out of memory");
	for (uint32_t i = 0; i < 8; i++) {
		bytes[i] = (uint8_t)(header_bytes >> (8 * i));
	}
	memcpy(bytes + 8, header, header_bytes);
	for (uint64_t i = 0; i < data_bytes; i++) {
		bytes[8 + header_bytes + i] = (uint8_t)i;
	}
	return bytes;
}

static enum status open_header(const char *header, uint64_t data_bytes, struct safetensors **out,
	uint8_t **bytes, struct error *error)
{
	uint64_t byte_count;

	*bytes = make_file(header, data_bytes, &byte_count);
	return safetensors_open_bytes(out, "m.safetensors", *bytes, byte_count, error);
}

static void require_refused(const char *header, uint64_t data_bytes, const char *part)
{
	struct safetensors *safetensors = NULL;
	struct error error = {STATUS_OK, ""};
	uint8_t *bytes = NULL;

	enum status status = open_header(header, data_bytes, &safetensors, &bytes, &error);
	require(status == STATUS_INPUT, "accepted, or another status: %s", header);
	require(strstr(error.text, part) != NULL, "'%s' does not say '%s'", error.text, part);
	require(strncmp(error.text, "m.safetensors", 13) == 0, "'%s' names no file", error.text);
	free(bytes);
}

static struct safetensors *require_opened(const char *header, uint64_t data_bytes, uint8_t **bytes)
{
	struct safetensors *safetensors = NULL;
	struct error error = {STATUS_OK, ""};

	enum status status = open_header(header, data_bytes, &safetensors, bytes, &error);
	require(status == STATUS_OK, "%s", error.text);
	return safetensors;
}

Test(safetensors, tensors_lie_where_the_header_says)
{
	uint8_t *bytes = NULL;
	struct safetensors *safetensors = require_opened(
		"{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[2,26]},"
		"\"__metadata__\":{\"format\":\"pt\"},"
		"\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
		"\"none\":{\"dtype\":\"I64\",\"shape\":[4,0],\"data_offsets\":[26,26]},"
		"\"c\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,3],\"data_offsets\":[26,29]}}"
		"   ",
		29, &bytes);

	require_equal(safetensors_count(safetensors), 4);
	cr_assert_str_eq(safetensors_at(safetensors, 0)->name, "a");
	cr_assert_str_eq(safetensors_at(safetensors, 3)->name, "none");
	const struct safetensors_tensor *b = safetensors_find(safetensors, "b");
	require_equal(b->dtype, SAFETENSORS_F32);
	require_equal(b->dimension_count, 2);
	require_equal(b->dimensions[1], 3);
	require_equal(b->byte_count, 24);
	require_equal(b->bytes[0], 2);
	require_equal(safetensors_find(safetensors, "a")->byte_count, 2);
	require_equal(safetensors_find(safetensors, "c")->bytes[2], 28);
	cr_assert_null(safetensors_find(safetensors, "d"));
	cr_assert_str_eq(safetensors_file(safetensors, b->file), "m.safetensors");
	safetensors_close(safetensors);
	free(bytes);
	safetensors_close(NULL);
}

Test(safetensors, a_file_without_tensors_is_one)
{
	uint8_t *bytes = NULL;
	struct safetensors *safetensors = require_opened("{}", 0, &bytes);

	require_equal(safetensors_count(safetensors), 0);
	cr_assert_null(safetensors_find(safetensors, "a"));
	safetensors_close(safetensors);
	free(bytes);
}

#define TENSOR(name, dtype, shape, begin, end)                                                     \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin       \
	"," end "]}"

Test(safetensors, what_a_header_may_not_say_is_refused)
{
	/* offsets beyond the file, backwards, of another size, broken */
	require_refused("{" TENSOR("a", "U8", "[5]", "0", "5") "}", 4, "file's 4 bytes of data");
	require_refused("{" TENSOR("a", "U8", "[5]", "9007199254740991", "9007199254740992") "}", 4,
		"field a.data_offsets");
	require_refused("{" TENSOR("a", "U8", "[1]", "4", "3") "}", 4, "not [4, 3]");
	require_refused("{" TENSOR("a", "F32", "[1]", "0", "4") "}", 5, "1 byte behind the last");
	require_refused("{" TENSOR("a", "F32", "[2]", "0", "4") "}", 4, "8 bytes, as shape");
	require_refused("{" TENSOR("a", "F32", "[1]", "0", "4.5") "}", 5, "two offsets");
	require_refused("{" TENSOR("a", "F32", "[1]", "-4", "0") "}", 5, "two offsets");
	require_refused("{" TENSOR("a", "F32", "[1]", "0", "1e300") "}", 5, "two offsets");
	require_refused("{" TENSOR("a", "F32", "[1]", "0", "4,8") "}", 8, "two offsets");
	/* overlap and gap */
	require_refused(
		"{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "2", "6") "}",
		6, "tensor b: found its data at byte 2, expected it at 4");
	require_refused(
		"{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "0", "4") "}",
		4, "tensor b: found its data at byte 0, expected it at 4");
	require_refused(
		"{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[1]", "5", "6") "}",
		6, "tensor b: found its data at byte 5, expected it at 4");
	require_refused("{}", 1, "1 byte behind the last");
	/* shapes whose product does not fit, or that are none */
	require_refused("{" TENSOR("a", "F32", "[9007199254740992,2048]", "0", "0") "}", 0,
		"a size in bytes below 2^64");
	require_refused("{" TENSOR("a", "U8", "[9007199254740992,2048,0]", "0", "0") "}", 0,
		"a size in bytes below 2^64");
	require_refused("{" TENSOR("a", "U8", "[-1]", "0", "1") "}", 1, "field a.shape");
	require_refused("{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", "0", "1") "}", 1, "at most 8");
	require_refused("{" TENSOR("a", "U8", "3", "0", "3") "}", 3, "an array of sizes");
	require_refused("{" TENSOR("a", "Q4", "[1]", "0", "1") "}", 1, "dtype: found \"Q4\"");
	/* names and values */
	require_refused(
		"{" TENSOR("a", "U8", "[1]", "0", "1") "," TENSOR("a", "U8", "[1]", "1", "2") "}",
		2, "tensor a: found it twice");
	require_refused("{\"a\":[]}", 0, "field a: found an array");
	require_refused("{\"a\":{}}", 0, "field a.dtype: found nothing");
	require_refused("[]", 0, "found an array, expected an object");
	require_refused("{\"a\"", 0, "m.safetensors:1: found no valid JSON");
}

Test(safetensors, a_header_must_lie_within_its_file)
{
	static const struct {
		uint8_t bytes[12];
		uint64_t byte_count;
		const char *part;
	} cases[] = {
		{{0}, 0, "found 0 bytes, expected a safetensors file"},
		{{2, 0, 0, 0, 0, 0, 0}, 7, "found 7 bytes"},
		{{2, 0, 0, 0, 0, 0, 0, 0, '{'}, 9, "a header of 2 bytes in a file of 9"},
		{{255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}, 10,
			"a header of 18446744073709551615 bytes"},
		{{0, 0, 0, 0, 0, 0, 0, 128, '{', '}'}, 10, "a header of 9223372036854775808"},
		{{0, 0, 0, 0, 0, 0, 0, 0}, 8, "found no valid JSON"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct safetensors *safetensors = NULL;
		struct error error = {STATUS_OK, ""};
		require_equal(safetensors_open_bytes(&safetensors, "m", cases[i].bytes,
				      cases[i].byte_count, &error),
			STATUS_INPUT);
		require(strstr(error.text, cases[i].part) != NULL, "case %zu: %s", i, error.text);
		cr_assert_null(safetensors);
	}
}

/* Every prefix of a file, and every file with one byte changed, is opened or refused; a sanitizer
   or a crash would show errors. Opened tensors are within the file. */
Test(safetensors, damaged_files_are_refused_or_whole)
{
	static const char header[] = "{" TENSOR("a.b", "F16", "[3,2]", "0", "12") "," TENSOR(
		"c", "BF16", "[4]", "12", "20") ",\"__metadata__\":{\"x\":\"y\"}}";
	uint64_t byte_count;
	uint8_t *bytes = make_file(header, 20, &byte_count);
	uint32_t opened = 0;

	for (uint64_t i = 0; i < 257 * byte_count; i++) {
		uint64_t at = i / 257;
		bool is_prefix = i % 257 == 256;
		uint8_t *copy = malloc(byte_count);
		struct safetensors *safetensors = NULL;
		struct error error = {STATUS_OK, ""};
		memcpy(copy, bytes, byte_count);
		if (!is_prefix) {
			copy[at] = (uint8_t)(i % 257);
		}
		uint64_t count = is_prefix ? at : byte_count;
		if (safetensors_open_bytes(&safetensors, "m", copy, count, &error) == STATUS_OK) {
			require(!is_prefix, "a prefix of %llu bytes", (unsigned long long)at);
			for (uint32_t j = 0; j < safetensors_count(safetensors); j++) {
				const struct safetensors_tensor *t = safetensors_at(safetensors, j);
				require(t->bytes >= copy &&
						t->bytes + t->byte_count <= copy + count,
					"a tensor out of its file");
			}
			opened++;
		}
		safetensors_close(safetensors);
		free(copy);
	}
	require(opened > 20 * 256 && opened < 60 * 256, "%u files were opened", opened);
	free(bytes);
}

Test(safetensors, folders_without_a_checkpoint_are_refused)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct safetensors *safetensors = NULL;
	struct error error = {STATUS_OK, ""};

	temporary_folder(folder);
	require_equal(safetensors_open(&safetensors, folder, &error), STATUS_FILE);
	require(strstr(error.text, "neither model.safetensors nor") != NULL, "%s", error.text);
	temporary_write(folder, "model.safetensors", "", NULL);
	require_equal(safetensors_open(&safetensors, folder, &error), STATUS_INPUT);
	require(strstr(error.text, "model.safetensors: found 0 bytes") != NULL, "%s", error.text);
	temporary_remove(folder);
	require_equal(safetensors_open(&safetensors, folder, &error), STATUS_FILE);
}
