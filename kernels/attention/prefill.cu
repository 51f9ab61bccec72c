#include "kernels/attention/prefill.cuh"

int prefill_attention(uint16_t *out, const uint16_t *query, const uint16_t *keys,
	const uint16_t *values, const struct prefill_work *work,
	const struct attention_shape *shape, struct CUstream_st *stream)
{
	if (shape->block_size % PAGED_KV_STEP != 0) {
		return cudaErrorInvalidValue;
	}
	if (work->tile_count == 0) {
		return cudaSuccess;
	}
	prefill_arguments a = {};
	a.out = out;
	a.query = query;
	a.keys = keys;
	a.values = values;
	a.tables = work->tables;
	a.rows = work->rows;
	a.query_start = work->query_start;
	a.contexts = work->contexts;
	a.tiles = work->tiles;
	a.tile_count = work->tile_count;
	a.scale = 1.4426950408889634f / sqrtf((float)shape->head_dim);
	a.shape = *shape;
	if (work->path == KERNEL_PATH_SM90 && (shape->head_dim == 64 || shape->head_dim == 128)) {
		return prefill_attention_sm90(a, stream);
	}
	return prefill_attention_sm80(a, stream);
}
