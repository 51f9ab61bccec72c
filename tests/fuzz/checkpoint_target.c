#include "tests/fuzz/targets.h"

#include <cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/integer.h"
#include "engine/base/text.h"
#include "engine/model/safetensors.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"

/* The headers of safetensors files are sections of JSON, so that mutations keep them so. The length
   in front of a header and the data behind it are made to match it. */

enum { DATA_BYTES_MAX = 1 << 13 };

static const char *const names[] = {
	"model.safetensors.index.json", "model.json", "a.json", "b.json", NULL};

/* How many bytes of data the header speaks of, up to a limit. */
static uint64_t data_bytes(const char *header, size_t header_bytes)
{
	cJSON *root = cJSON_ParseWithLength(header, header_bytes);
	const cJSON *tensor = NULL;
	uint64_t most = 0;

	cJSON_ArrayForEach(tensor, root)
	{
		const cJSON *end = cJSON_GetArrayItem(
			cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets"), 1);
		double value = cJSON_IsNumber(end) ? end->valuedouble : 0;
		most = value > (double)most
			       ? (uint64_t)(value < DATA_BYTES_MAX ? value : DATA_BYTES_MAX)
			       : most;
	}
	cJSON_Delete(root);
	return most;
}

/* Writes FOLDER/NAME.safetensors from FOLDER/NAME.json, where that is there. */
static void write_file(const char *folder, const char *name)
{
	static const char zeros[DATA_BYTES_MAX];
	char from[SECTIONS_PATH_BYTES], to[SECTIONS_PATH_BYTES], own[SECTION_NAME_BYTES];
	struct text file = {0};
	uint8_t length[8];
	size_t header_bytes;

	sections_path(from, folder, name);
	char *header = file_read_if_there(from, &header_bytes);
	if (header == NULL) {
		return;
	}
	for (uint32_t i = 0; i < 8; i++) {
		length[i] = (uint8_t)((uint64_t)header_bytes >> 8 * i);
	}
	text_add_bytes(&file, (const char *)length, 8);
	text_add_bytes(&file, header, header_bytes);
	text_add_bytes(&file, zeros, data_bytes(header, header_bytes));
	snprintf(own, sizeof(own), "%.*s.safetensors", (int)(strlen(name) - 5), name);
	sections_path(to, folder, own);
	file_write(to, file.bytes, file.byte_count);
	text_deinit(&file);
	free(header);
}

/* Every tensor is found by its name, and its bytes can be read. */
static void read_tensors(const struct safetensors *opened)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < safetensors_count(opened); i++) {
		const struct safetensors_tensor *tensor = safetensors_at(opened, i);
		require(safetensors_find(opened, tensor->name) == tensor, "not found");
		for (uint64_t j = 0; j < tensor->byte_count; j++) {
			sum += tensor->bytes[j];
		}
	}
	require(sum == 0, "bytes that are none of a tensor's");
}

bool fuzz_checkpoint(const uint8_t *bytes, size_t byte_count)
{
	char folder[TEMPORARY_PATH_BYTES];
	struct safetensors *opened = NULL;
	struct error error = {0};

	sections_unpack(bytes, byte_count, names, folder);
	for (uint32_t i = 1; names[i] != NULL; i++) {
		write_file(folder, names[i]);
	}
	enum status status = safetensors_open(&opened, folder, &error);
	require_refused_in_one_line(status, &error);
	if (status == STATUS_OK) {
		read_tensors(opened);
	}
	safetensors_close(opened);
	sections_remove(folder);
	return status == STATUS_OK;
}
