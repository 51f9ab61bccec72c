#include "engine/model/safetensors.h"

#include "engine/base/check.h"
#include "engine/base/input_file.h"
#include "engine/base/integer.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/number.h"
#include "engine/base/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES_MAX = 16 * 1024 * 1024, SIZE_BYTES = 8 };

struct mapped_file {
	char *path;
	const uint8_t *bytes; /* (byte_count) */
	uint64_t byte_count;
	bool is_mapped;		     /* else borrowed */
	struct json_document header; /* owns the tensors' names */
};

struct safetensors {
	struct mapped_file *files; /* (file_count) */
	uint32_t file_count;
	size_t file_capacity;
	struct safetensors_tensor *tensors; /* (tensor_count), sorted by name once opened */
	uint32_t tensor_count;
	size_t tensor_capacity;
};

/* A line of an index's weight_map. */
struct index_entry {
	const char *tensor;
	const char *file;
};

/* ---- dtypes ---- */

static const struct {
	const char *name;
	uint32_t bytes;
} dtypes[] = {
#define SAFETENSORS_ROW(name, text, bytes) {text, bytes},
	SAFETENSORS_DTYPE_LIST(SAFETENSORS_ROW)
#undef SAFETENSORS_ROW
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype)
{
	check((uint32_t)dtype < SAFETENSORS_DTYPE_COUNT);
	return dtypes[dtype].name;
}

/* ---- one tensor of a header ---- */

static enum status read_dtype(
	const struct json_object *object, struct safetensors_tensor *out, struct error *error)
{
	const char *text = NULL;

	TRY(json_text(object, "dtype", &text, error));
	for (uint32_t i = 0; i < SAFETENSORS_DTYPE_COUNT; i++) {
		if (strcmp(dtypes[i].name, text) == 0) {
			out->dtype = (enum safetensors_dtype)i;
			return STATUS_OK;
		}
	}
	return json_refuse(object, "dtype", "a dtype such as \"BF16\", \"F16\" or \"F32\"", error);
}

/* An integer in [0, 2^53]; false for anything else. */
static bool node_u64(const cJSON *node, uint64_t *out)
{
	const double maximum = 9007199254740992.0;
	double value = cJSON_IsNumber(node) ? node->valuedouble : -1;

	if (!(value >= 0 && value <= maximum) || (double)(uint64_t)value != value) {
		return false;
	}
	*out = (uint64_t)value;
	return true;
}

static enum status read_shape(
	const struct json_object *object, struct safetensors_tensor *out, struct error *error)
{
	const cJSON *shape = json_find(object, "shape");
	const cJSON *node = NULL;
	uint64_t byte_count = dtypes[out->dtype].bytes;

	if (!cJSON_IsArray(shape)) {
		return json_refuse(object, "shape", "an array of sizes", error);
	}
	cJSON_ArrayForEach(node, shape)
	{
		uint64_t size;
		if (out->dimension_count == SAFETENSORS_DIMENSIONS_MAX || !node_u64(node, &size)) {
			return json_refuse(object, "shape",
				"an array of at most 8 sizes, each an integer in [0, 2^53]", error);
		}
		if (size != 0 && byte_count > UINT64_MAX / size) {
			return json_refuse(object, "shape", "a size in bytes below 2^64", error);
		}
		byte_count *= size;
		out->dimensions[out->dimension_count++] = size;
	}
	out->byte_count = byte_count;
	return STATUS_OK;
}

/* Locates the tensor within the file's data: (data_bytes) from `data` on. */
static enum status read_offsets(const struct json_object *object, const uint8_t *data,
	uint64_t data_bytes, struct safetensors_tensor *out, struct error *error)
{
	const cJSON *offsets = json_find(object, "data_offsets");
	uint64_t begin = 0, end = 0;
	char expected[128];

	if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
		!node_u64(offsets->child, &begin) || !node_u64(offsets->child->next, &end)) {
		return json_refuse(object, "data_offsets", "an array of two offsets", error);
	}
	if (begin > end || end > data_bytes) {
		snprintf(expected, sizeof(expected),
			"[begin, end] within the file's %llu bytes of data, not [%llu, %llu]",
			(unsigned long long)data_bytes, (unsigned long long)begin,
			(unsigned long long)end);
		return json_refuse(object, "data_offsets", expected, error);
	}
	if (end - begin != out->byte_count) {
		snprintf(expected, sizeof(expected),
			"%llu bytes, as shape and dtype make them, not %llu",
			(unsigned long long)out->byte_count, (unsigned long long)(end - begin));
		return json_refuse(object, "data_offsets", expected, error);
	}
	out->bytes = data + begin;
	return STATUS_OK;
}

/* ---- one file ---- */

static int compare_offsets(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;

	if (x->bytes != y->bytes) {
		return x->bytes < y->bytes ? -1 : 1;
	}
	/* An empty tensor comes before a tensor that begins at the same byte. */
	if (x->byte_count != y->byte_count) {
		return x->byte_count < y->byte_count ? -1 : 1;
	}
	return strcmp(x->name, y->name);
}

/* The tensors of a file, sorted by offset, must cover its data. */
static enum status check_cover(const struct mapped_file *file,
	const struct safetensors_tensor *tensors, uint32_t count, const uint8_t *data,
	struct error *error)
{
	const uint8_t *end = data;

	for (uint32_t i = 0; i < count; i++) {
		if (tensors[i].bytes != end) {
			return error_set(error, STATUS_INPUT,
				"%s: tensor %.80s: found its data at byte %llu, expected it at "
				"%llu: tensors may not overlap or leave gaps",
				file->path, tensors[i].name,
				(unsigned long long)(tensors[i].bytes - data),
				(unsigned long long)(end - data));
		}
		end += tensors[i].byte_count;
	}
	if (end != file->bytes + file->byte_count) {
		return error_set(error, STATUS_INPUT,
			"%s: found %llu %s behind the last tensor, expected the file's end",
			file->path, (unsigned long long)(file->bytes + file->byte_count - end),
			word_of_count(
				(uint64_t)(file->bytes + file->byte_count - end), "byte", "bytes"));
	}
	return STATUS_OK;
}

/* Adds the tensors that the header lists. */
static enum status read_tensors(
	struct safetensors *out, uint32_t file_index, uint64_t header_bytes, struct error *error)
{
	const struct mapped_file *file = &out->files[file_index];
	const uint8_t *data = file->bytes + SIZE_BYTES + header_bytes;
	uint64_t data_bytes = file->byte_count - SIZE_BYTES - header_bytes;
	uint32_t first = out->tensor_count;
	struct json_object root;
	const cJSON *node = NULL;

	TRY(json_root(&root, &file->header, error));
	cJSON_ArrayForEach(node, root.node)
	{
		if (strcmp(node->string, "__metadata__") == 0) {
			continue;
		}
		struct safetensors_tensor tensor = {.name = node->string, .file = file_index};
		struct json_object object = root;
		if (!cJSON_IsObject(node)) {
			return json_refuse(&root, node->string, "an object", error);
		}
		object.node = node;
		snprintf(object.path, sizeof(object.path), "%s", node->string);
		TRY(read_dtype(&object, &tensor, error));
		TRY(read_shape(&object, &tensor, error));
		TRY(read_offsets(&object, data, data_bytes, &tensor, error));
		out->tensors = memory_grow(out->tensors, &out->tensor_capacity,
			(size_t)out->tensor_count + 1, sizeof(*out->tensors));
		out->tensors[out->tensor_count++] = tensor;
	}
	struct safetensors_tensor *added = out->tensor_count == 0 ? NULL : out->tensors + first;
	uint32_t count = out->tensor_count - first;
	if (count > 0) {
		qsort(added, count, sizeof(*added), compare_offsets);
	}
	return check_cover(file, added, count, data, error);
}

/* Reads the header of a mapped file. */
static enum status read_header(struct safetensors *out, uint32_t file_index, struct error *error)
{
	struct mapped_file *file = &out->files[file_index];
	uint64_t header_bytes = 0;

	if (file->byte_count < SIZE_BYTES) {
		return error_set(error, STATUS_INPUT,
			"%s: found %llu %s, expected a safetensors file of at least %d", file->path,
			(unsigned long long)file->byte_count,
			word_of_count(file->byte_count, "byte", "bytes"), SIZE_BYTES);
	}
	for (uint32_t i = 0; i < SIZE_BYTES; i++) {
		header_bytes |= (uint64_t)file->bytes[i] << (8 * i);
	}
	if (header_bytes > HEADER_BYTES_MAX || header_bytes > file->byte_count - SIZE_BYTES) {
		return error_set(error, STATUS_INPUT,
			"%s: found a header of %llu %s in a file of %llu, expected one within "
			"the file and of at most %d",
			file->path, (unsigned long long)header_bytes,
			word_of_count(header_bytes, "byte", "bytes"),
			(unsigned long long)file->byte_count, HEADER_BYTES_MAX);
	}
	TRY(json_document_parse(&file->header, file->path, (const char *)file->bytes + SIZE_BYTES,
		(size_t)header_bytes, error));
	return read_tensors(out, file_index, header_bytes, error);
}

static struct mapped_file *add_file(struct safetensors *out, const char *path)
{
	out->files = memory_grow(
		out->files, &out->file_capacity, (size_t)out->file_count + 1, sizeof(*out->files));
	struct mapped_file *file = &out->files[out->file_count++];
	memset(file, 0, sizeof(*file));
	size_t bytes = strlen(path) + 1;
	file->path = memory_take(bytes, 1);
	memcpy(file->path, path, bytes);
	return file;
}

static enum status map_descriptor(
	struct safetensors *out, const char *path, int descriptor, struct error *error)
{
	struct stat about;
	void *bytes = NULL;

	if (fstat(descriptor, &about) != 0) {
		return error_set(error, STATUS_FILE, "cannot read %s: %s", path, strerror(errno));
	}
	if (about.st_size > 0) {
		bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
		if (bytes == MAP_FAILED) {
			return error_set(
				error, STATUS_MEMORY, "cannot map %s: %s", path, strerror(errno));
		}
	}
	struct mapped_file *file = add_file(out, path);
	file->bytes = bytes;
	file->byte_count = (uint64_t)about.st_size;
	file->is_mapped = bytes != NULL;
	return read_header(out, out->file_count - 1, error);
}

static enum status map_file(struct safetensors *out, const char *path, struct error *error)
{
	int descriptor = input_descriptor(path, INPUT_FILE, error);

	if (descriptor < 0) {
		return error->status;
	}
	enum status status = map_descriptor(out, path, descriptor, error);
	close(descriptor);
	return status;
}

/* ---- a checkpoint ---- */

static int compare_names(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static enum status sort_by_name(struct safetensors *out, struct error *error)
{
	if (out->tensor_count == 0) {
		return STATUS_OK;
	}
	qsort(out->tensors, out->tensor_count, sizeof(*out->tensors), compare_names);
	for (uint32_t i = 1; i < out->tensor_count; i++) {
		if (strcmp(out->tensors[i - 1].name, out->tensors[i].name) == 0) {
			return error_set(error, STATUS_INPUT,
				"%s: tensor %.80s: found it twice, expected it once",
				safetensors_file(out, out->tensors[i].file), out->tensors[i].name);
		}
	}
	return STATUS_OK;
}

static int compare_entries(const void *a, const void *b)
{
	const struct index_entry *x = a, *y = b;
	int order = strcmp(x->file, y->file);
	return order != 0 ? order : strcmp(x->tensor, y->tensor);
}

/* Sorts the lines of weight_map by file. The texts are borrowed from the document. */
static enum status read_index(const struct json_object *map, struct index_entry **entries,
	uint32_t *count, struct error *error)
{
	const cJSON *node = NULL;
	size_t capacity = 0;

	cJSON_ArrayForEach(node, map->node)
	{
		if (!cJSON_IsString(node) || node->valuestring[0] == '\0' ||
			strchr(node->valuestring, '/') != NULL) {
			return json_refuse(
				map, node->string, "the name of a file beside it", error);
		}
		*entries = memory_grow(*entries, &capacity, (size_t)*count + 1, sizeof(**entries));
		(*entries)[(*count)++] =
			(struct index_entry){.tensor = node->string, .file = node->valuestring};
	}
	if (*count > 0) {
		qsort(*entries, *count, sizeof(**entries), compare_entries);
	}
	return STATUS_OK;
}

/* The files must hold exactly the tensors of the index. */
static enum status check_index(const struct safetensors *safetensors, const char *index_path,
	const struct index_entry *entries, uint32_t count, struct error *error)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct safetensors_tensor *tensor =
			safetensors_find(safetensors, entries[i].tensor);
		const char *path =
			tensor == NULL ? "" : safetensors_file(safetensors, tensor->file);
		if (tensor == NULL || strcmp(path_name(path), entries[i].file) != 0) {
			return error_set(error, STATUS_INPUT,
				"%s: tensor %.80s: not found in %.80s, where the index says it is",
				index_path, entries[i].tensor, entries[i].file);
		}
	}
	if (count != safetensors->tensor_count) {
		return error_set(error, STATUS_INPUT,
			"%s: found %u %s in its files, expected the %u that it names", index_path,
			safetensors->tensor_count,
			word_of_count(safetensors->tensor_count, "tensor", "tensors"), count);
	}
	return STATUS_OK;
}

/* Maps each file of the index once. */
static enum status map_files(struct safetensors *out, const char *folder,
	const struct index_entry *entries, uint32_t count, struct error *error)
{
	char path[PATH_BYTES_MAX];

	for (uint32_t i = 0; i < count; i++) {
		if (i > 0 && strcmp(entries[i - 1].file, entries[i].file) == 0) {
			continue;
		}
		TRY(path_format(path, error, "%s/%s", folder, entries[i].file));
		TRY(map_file(out, path, error));
	}
	return sort_by_name(out, error);
}

static enum status read_indexed(struct safetensors *out, const char *folder, const char *index_path,
	const struct json_document *document, struct index_entry **entries, struct error *error)
{
	struct json_object root, map;
	uint32_t count = 0;

	json_root(&root, document, error);
	TRY(json_object(&root, "weight_map", &map, error));
	TRY(read_index(&map, entries, &count, error));
	TRY(map_files(out, folder, *entries, count, error));
	return check_index(out, index_path, *entries, count, error);
}

static enum status open_index(
	struct safetensors *out, const char *folder, const char *index_path, struct error *error)
{
	struct json_document document = {.root = NULL};
	struct index_entry *entries = NULL;

	TRY(json_document_open(&document, index_path, error));
	enum status status = read_indexed(out, folder, index_path, &document, &entries, error);
	free(entries);
	json_document_close(&document);
	return status;
}

static enum status open_folder(struct safetensors *out, const char *folder, struct error *error)
{
	char single[PATH_BYTES_MAX], index[PATH_BYTES_MAX];
	bool is_single = false, has_index = false;

	TRY(path_format(index, error, "%s/model.safetensors.index.json", folder));
	TRY(path_format(single, error, "%s/model.safetensors", folder));
	TRY(path_is_there(single, &is_single, error));
	TRY(path_is_there(index, &has_index, error));
	if (is_single) {
		TRY(map_file(out, single, error));
		return sort_by_name(out, error);
	}
	if (has_index) {
		return open_index(out, folder, index, error);
	}
	return error_set(error, STATUS_FILE,
		"%s: found neither model.safetensors nor model.safetensors.index.json", folder);
}

/* Returns the opened checkpoint, or closes it after a failure. */
static enum status finish(struct safetensors **out, struct safetensors *opened, enum status status)
{
	*out = status == STATUS_OK ? opened : NULL;
	if (status != STATUS_OK) {
		safetensors_close(opened);
	}
	return status;
}

enum status safetensors_open(struct safetensors **out, const char *folder, struct error *error)
{
	struct safetensors *opened = memory_take(1, sizeof(*opened));

	return finish(out, opened, open_folder(opened, folder, error));
}

static enum status read_bytes(struct safetensors *out, struct error *error)
{
	TRY(read_header(out, 0, error));
	return sort_by_name(out, error);
}

enum status safetensors_open_bytes(struct safetensors **out, const char *name, const uint8_t *bytes,
	uint64_t byte_count, struct error *error)
{
	struct safetensors *opened = memory_take(1, sizeof(*opened));
	struct mapped_file *file = add_file(opened, name);

	file->bytes = bytes;
	file->byte_count = byte_count;
	return finish(out, opened, read_bytes(opened, error));
}

void safetensors_close(struct safetensors *safetensors)
{
	if (safetensors == NULL) {
		return;
	}
	for (uint32_t i = 0; i < safetensors->file_count; i++) {
		struct mapped_file *file = &safetensors->files[i];
		if (file->is_mapped) {
			munmap((void *)(uintptr_t)file->bytes, (size_t)file->byte_count);
		}
		json_document_close(&file->header);
		free(file->path);
	}
	free(safetensors->files);
	free(safetensors->tensors);
	free(safetensors);
}

uint32_t safetensors_count(const struct safetensors *safetensors)
{
	return safetensors->tensor_count;
}

const struct safetensors_tensor *safetensors_at(
	const struct safetensors *safetensors, uint32_t index)
{
	check(index < safetensors->tensor_count);
	return &safetensors->tensors[index];
}

const struct safetensors_tensor *safetensors_find(
	const struct safetensors *safetensors, const char *name)
{
	const struct safetensors_tensor key = {.name = name};

	if (safetensors->tensor_count == 0) {
		return NULL;
	}
	return bsearch(&key, safetensors->tensors, safetensors->tensor_count,
		sizeof(*safetensors->tensors), compare_names);
}

const char *safetensors_file(const struct safetensors *safetensors, uint32_t file)
{
	check(file < safetensors->file_count);
	return safetensors->files[file].path;
}
