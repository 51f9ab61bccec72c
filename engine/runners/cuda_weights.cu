extern "C" {
#include "engine/model/weights_dummy.h"
#include "engine/runners/cuda_weights.h"
}

#include <cuda_runtime.h>

enum {
	UPLOAD_BYTES = 32 << 20,
	DUMMY_THREADS = 256,
	DUMMY_EACH = 8,
	FILL_ELEMENTS = 32 << 20,
	FILL_KEY = 0x6b76, /* any one will do */
	FILL_SHIFT = 7,
};

/* ---- dummy weights ---- */

/* A part of a shard: rows and columns of a whole tensor. */
struct dummy_range {
	uint64_t first_row, first_column, columns, whole_columns;
	uint64_t count; /* of elements */
};

/* A thread computes DUMMY_EACH elements; of a whole tensor these are the elements of one hash. */
static __global__ void dummy_kernel(uint16_t *out, struct weight_dummy dummy, dummy_range range)
{
	uint64_t first = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * DUMMY_EACH;
	uint64_t row = range.first_row + first / range.columns;
	uint64_t column = first % range.columns;

	for (uint64_t i = first; i < first + DUMMY_EACH && i < range.count; i++) {
		uint64_t index = row * range.whole_columns + range.first_column + column;
		out[i] = weight_dummy_bf16(dummy, index);
		if (++column == range.columns) {
			column = 0;
			row++;
		}
	}
}

/* The parts of a weight follow each other in the whole tensor and in a shard. */
static int make_dummy(uint16_t *out, const struct model_config *config, uint64_t seed,
	enum weight weight, uint32_t layer, struct weight_shard shard)
{
	const uint64_t each = DUMMY_THREADS * DUMMY_EACH;
	const struct weight_range columns = weight_shard_columns(config, weight, shard);
	uint64_t part_row = 0;

	for (uint32_t part = 0; part < weight_part_count(weight); part++) {
		struct weight_shape whole = weight_part_shape(config, weight, part);
		struct weight_range rows = weight_shard_rows(config, weight, part, shard);
		dummy_range range = {};
		range.first_row = part_row + rows.first;
		range.first_column = columns.first;
		range.columns = columns.count;
		range.whole_columns = whole.columns;
		range.count = (uint64_t)rows.count * columns.count;
		dummy_kernel<<<(uint32_t)((range.count + each - 1) / each), DUMMY_THREADS>>>(
			out, weight_dummy(config, seed, weight, layer), range);
		out += range.count;
		part_row += whole.rows;
	}
	return cudaGetLastError();
}

/* The first FILL_ELEMENTS are computed, and then copied behind themselves until out is full. */
extern "C" int cuda_fill_dummy(uint16_t *out, uint64_t count)
{
	const uint64_t each = DUMMY_THREADS * DUMMY_EACH;
	struct weight_dummy dummy = {};
	dummy_range range = {};

	if (count == 0) {
		return 0;
	}
	dummy.key = FILL_KEY;
	dummy.shift = FILL_SHIFT;
	range.count = count < FILL_ELEMENTS ? count : FILL_ELEMENTS;
	range.columns = range.whole_columns = range.count;
	dummy_kernel<<<(uint32_t)((range.count + each - 1) / each), DUMMY_THREADS>>>(
		out, dummy, range);
	int code = cudaGetLastError();
	for (uint64_t done = range.count, more; done < count && code == 0; done += more) {
		more = count - done < done ? count - done : done;
		code = cudaMemcpyAsync(
			out + done, out, more * sizeof(*out), cudaMemcpyDeviceToDevice, 0);
	}
	return code != 0 ? code : (int)cudaDeviceSynchronize();
}

/* ---- files ---- */

static int open_buffers(struct cuda_upload *upload)
{
	for (int i = 0; i < 2 && upload->copied[i] == nullptr; i++) {
		int code = cudaMallocHost((void **)&upload->buffers[i], UPLOAD_BYTES);
		if (code == 0) {
			code = cudaEventCreateWithFlags(&upload->copied[i], cudaEventDisableTiming);
		}
		if (code != 0) {
			return code;
		}
	}
	return 0;
}

static int copy_rows(struct cuda_upload *upload, uint16_t *out, const struct weights *weights,
	enum weight weight, uint32_t layer, struct weight_shard shard)
{
	struct weight_shape shape = weight_shape(weights_config(weights), weight, shard);
	uint64_t row_bytes = (uint64_t)shape.columns * sizeof(uint16_t);
	uint32_t rows_at_once = (uint32_t)(UPLOAD_BYTES / row_bytes);
	int code = rows_at_once == 0 ? (int)cudaErrorInvalidValue : open_buffers(upload);

	for (uint32_t row = 0; row < shape.rows && code == 0; row += rows_at_once) {
		uint32_t rows = shape.rows - row < rows_at_once ? shape.rows - row : rows_at_once;
		uint16_t *buffer = upload->buffers[upload->next];
		struct CUevent_st *copied = upload->copied[upload->next];
		code = cudaEventSynchronize(copied);
		if (code != 0) {
			break;
		}
		weights_read_bf16(weights, weight, layer, shard, row, rows, buffer);
		code = cudaMemcpyAsync(out + (uint64_t)row * shape.columns, buffer,
			rows * row_bytes, cudaMemcpyHostToDevice, 0);
		if (code == 0) {
			code = cudaEventRecord(copied, 0);
		}
		upload->next ^= 1;
	}
	return code;
}

/* ---- both ---- */

extern "C" int cuda_upload_weight(struct cuda_upload *upload, uint16_t *out,
	const struct weights *weights, enum weight weight, uint32_t layer,
	struct weight_shard shard)
{
	uint64_t seed;

	if (weights_are_dummy(weights, &seed)) {
		return make_dummy(out, weights_config(weights), seed, weight, layer, shard);
	}
	return copy_rows(upload, out, weights, weight, layer, shard);
}

extern "C" int cuda_upload_close(struct cuda_upload *upload)
{
	int code = cudaDeviceSynchronize();

	for (int i = 0; i < 2; i++) {
		if (upload->copied[i] != nullptr) {
			cudaEventDestroy(upload->copied[i]);
		}
		cudaFreeHost(upload->buffers[i]);
	}
	return code;
}
