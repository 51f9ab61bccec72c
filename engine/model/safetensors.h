#ifndef ENGINE_MODEL_SAFETENSORS_H
#define ENGINE_MODEL_SAFETENSORS_H

#include <stdint.h>

#include "engine/base/status.h"

/* The tensors of a checkpoint in safetensors files, mapped into memory and never copied.

       | u64 header size | header: JSON, name -> dtype, shape, data_offsets | data ...... |
	 little endian                                                      offsets count from here

   A folder holds model.safetensors, or model.safetensors.index.json and the files that its
   weight_map names. Files are checked against the format's description, so that every tensor's
   bytes are within its file: the tensors of a file cover its data without overlap or gap, each has
   the size of its shape and dtype, and every name occurs once. The files must not change while they
   are open.

   Limits: a header of 16 MiB, 8 dimensions. */

#define SAFETENSORS_DTYPE_LIST(X)                                                                  \
	X(SAFETENSORS_BOOL, "BOOL", 1)                                                             \
	X(SAFETENSORS_U8, "U8", 1)                                                                 \
	X(SAFETENSORS_I8, "I8", 1)                                                                 \
	X(SAFETENSORS_F8_E4M3, "F8_E4M3", 1)                                                       \
	X(SAFETENSORS_F8_E5M2, "F8_E5M2", 1)                                                       \
	X(SAFETENSORS_U16, "U16", 2)                                                               \
	X(SAFETENSORS_I16, "I16", 2)                                                               \
	X(SAFETENSORS_F16, "F16", 2)                                                               \
	X(SAFETENSORS_BF16, "BF16", 2)                                                             \
	X(SAFETENSORS_U32, "U32", 4)                                                               \
	X(SAFETENSORS_I32, "I32", 4)                                                               \
	X(SAFETENSORS_F32, "F32", 4)                                                               \
	X(SAFETENSORS_U64, "U64", 8)                                                               \
	X(SAFETENSORS_I64, "I64", 8)                                                               \
	X(SAFETENSORS_F64, "F64", 8)

enum safetensors_dtype {
#define SAFETENSORS_ENUM(name, text, bytes) name,
	SAFETENSORS_DTYPE_LIST(SAFETENSORS_ENUM)
#undef SAFETENSORS_ENUM
		SAFETENSORS_DTYPE_COUNT
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype);

enum { SAFETENSORS_DIMENSIONS_MAX = 8 };

struct safetensors_tensor {
	const char *name;
	uint32_t file; /* index, see safetensors_file() */
	enum safetensors_dtype dtype;
	uint32_t dimension_count;
	uint64_t dimensions[SAFETENSORS_DIMENSIONS_MAX];
	const uint8_t *bytes; /* (byte_count), little endian, unaligned */
	uint64_t byte_count;
};

struct safetensors;

/* Opens a folder's checkpoint. */
enum status safetensors_open(struct safetensors **out, const char *folder, struct error *error);

/* Opens the bytes of one file; they are borrowed. `name` is used in errors. */
enum status safetensors_open_bytes(struct safetensors **out, const char *name, const uint8_t *bytes,
	uint64_t byte_count, struct error *error);

/* Accepts NULL. */
void safetensors_close(struct safetensors *safetensors);

/* The tensors, sorted by the bytes of their names. */
uint32_t safetensors_count(const struct safetensors *safetensors);
const struct safetensors_tensor *safetensors_at(
	const struct safetensors *safetensors, uint32_t index);

/* The tensor of that name, or NULL. */
const struct safetensors_tensor *safetensors_find(
	const struct safetensors *safetensors, const char *name);

/* The path of a tensor's file. */
const char *safetensors_file(const struct safetensors *safetensors, uint32_t file);

#endif
