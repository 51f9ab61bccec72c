#include "engine/model/weights_export.h"

#include "engine/base/integer.h"
#include "engine/base/interrupt.h"
#include "engine/base/memory.h"
#include "engine/base/output_file.h"
#include "engine/base/path.h"
#include "engine/model/checkpoint_names.h"
#include "engine/model/config_json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_ELEMENTS = 1 << 16, HEADER_ALIGNMENT = 8 };

/* Prints a tensor's header entry; returns the bytes printed and adds the tensor's size to *offset.
   */
static int print_tensor(const struct model_config *config, enum weight weight, uint32_t layer,
	uint32_t part, uint64_t *offset, FILE *file)
{
	struct weight_shape shape = weight_part_shape(config, weight, part);
	uint64_t begin = *offset;
	char name[CHECKPOINT_NAME_BYTES], columns[16] = "";

	*offset += (uint64_t)MODEL_ELEMENT_BYTES * shape.rows * shape.columns;
	checkpoint_name(weight, layer, part, name);
	if (weight_form(weight) == WEIGHT_MATRIX) {
		snprintf(columns, sizeof(columns), ",%u", shape.columns);
	}
	return fprintf(file,
		",\n\"%s\":{\"dtype\":\"BF16\",\"shape\":[%u%s],\"data_offsets\":[%llu,%llu]}",
		name, shape.rows, columns, (unsigned long long)begin, (unsigned long long)*offset);
}

/* Prints the header's JSON and returns its bytes. A packed weight's parts follow each other like
   its rows. */
static uint64_t print_header(const struct model_config *config, FILE *file)
{
	uint64_t offset = 0;
	int bytes = fprintf(file, "{\"__metadata__\":{\"format\":\"pt\"}");

	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		enum weight weight = (enum weight)i;
		uint32_t parts = weight_part_count(weight);
		uint32_t tensors = weight_stored_count(config, weight) * parts;
		for (uint32_t j = 0; j < tensors; j++) {
			bytes += print_tensor(config, weight, j / parts, j % parts, &offset, file);
		}
	}
	bytes += fprintf(file, "}");
	while (bytes % HEADER_ALIGNMENT != 0) {
		bytes += fprintf(file, " ");
	}
	return (uint64_t)bytes;
}

static void write_tensor(
	const struct weights *weights, enum weight weight, uint32_t layer, FILE *file)
{
	struct weight_shape shape = weight_shape(weights_config(weights), weight, WEIGHT_WHOLE);
	uint32_t rows = u32_max(1, BUFFER_ELEMENTS / shape.columns);
	uint16_t *buffer = memory_take((size_t)rows * shape.columns, sizeof(*buffer));

	for (uint32_t row = 0; row < shape.rows; row += rows) {
		uint32_t count = u32_min(rows, shape.rows - row);
		weights_read_bf16(weights, weight, layer, WEIGHT_WHOLE, row, count, buffer);
		fwrite(buffer, sizeof(*buffer), (size_t)count * shape.columns, file);
	}
	free(buffer);
}

/* The header's size precedes it in the file, but is known only after printing it. False: the file
   cannot be rewound for it; other failures show when the file is finished. */
static bool write_file(const struct weights *weights, FILE *file)
{
	const struct model_config *config = weights_config(weights);
	uint8_t size[8] = {0};

	fwrite(size, 1, sizeof(size), file);
	uint64_t header_bytes = print_header(config, file);
	for (uint32_t i = 0; i < WEIGHT_COUNT; i++) {
		enum weight weight = (enum weight)i;
		for (uint32_t layer = 0; layer < weight_stored_count(config, weight); layer++) {
			write_tensor(weights, weight, layer, file);
		}
	}
	for (uint32_t i = 0; i < sizeof(size); i++) {
		size[i] = (uint8_t)(header_bytes >> (8 * i));
	}
	if (fseek(file, 0, SEEK_SET) != 0) {
		return false;
	}
	fwrite(size, 1, sizeof(size), file);
	return true;
}

static enum status refuse_old(const char *path, struct error *error)
{
	struct stat found;

	return lstat(path, &found) != 0
		       ? STATUS_OK
		       : error_set(error, STATUS_FILE, "%.200s exists already", path);
}

/* Both files, complete under their part names. */
static enum status write_parts(const struct weights *weights, struct output_file *config,
	struct output_file *tensors, const char *folder, struct error *error)
{
	char path[PATH_BYTES_MAX];

	TRY(path_format(path, error, "%s/config.json", folder));
	TRY(refuse_old(path, error));
	TRY(output_file_open(config, path, error));
	TRY(path_format(path, error, "%s/model.safetensors", folder));
	TRY(refuse_old(path, error));
	TRY(output_file_open(tensors, path, error));
	model_config_write(weights_config(weights), config->file);
	if (!write_file(weights, tensors->file)) {
		return error_set(
			error, STATUS_FILE, "%.200s: cannot be written: %s", path, strerror(errno));
	}
	TRY(output_file_finish(config, error));
	return output_file_finish(tensors, error);
}

static enum status publish(
	struct output_file *config, struct output_file *tensors, struct error *error)
{
	TRY(output_file_publish(tensors, error));
	enum status status = output_file_publish(config, error);
	if (status != STATUS_OK) {
		unlink(tensors->path);
		return status;
	}
	return output_file_sync_folder(config->path, error);
}

enum status weights_export(const struct weights *weights, const char *folder, struct error *error)
{
	struct output_file config = {.file = NULL}, tensors = {.file = NULL};

	enum status status = write_parts(weights, &config, &tensors, folder, error);
	if (status == STATUS_OK) {
		interrupt_defer(); /* both files appear, or none */
		status = publish(&config, &tensors, error);
		interrupt_resume();
	}
	output_file_abandon(&config);
	output_file_abandon(&tensors);
	return status;
}
