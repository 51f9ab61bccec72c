#include "kernels/attention/decode.cuh"

uint32_t decode_attention_blocks(enum kernel_path path, uint32_t processors)
{
	return path == KERNEL_PATH_SM90 ? processors : 2 * processors;
}

int decode_attention(uint16_t *out, const uint16_t *query, const uint16_t *keys,
	const uint16_t *values, const struct decode_work *work, uint32_t row_count,
	const struct attention_shape *shape, struct CUstream_st *stream)
{
	uint32_t group = shape->head_count / shape->kv_head_count;

	if (group > GROUP_MAX || shape->block_size % PAGED_KV_STEP != 0) {
		return cudaErrorInvalidValue;
	}
	if (row_count == 0) {
		return cudaSuccess;
	}
	decode_arguments a = {};
	a.out = out;
	a.partial_out = work->partial_out;
	a.partial_state = (float2 *)work->partial_state;
	a.arrivals = work->arrivals;
	a.query = query;
	a.keys = keys;
	a.values = values;
	a.tables = work->tables;
	a.rows = work->rows;
	a.contexts = work->contexts;
	a.split_start = work->split_start;
	a.launch = work->launch;
	a.claims = work->claims;
	a.first_row = work->first_row;
	a.row_count = row_count;
	a.scale = 1.4426950408889634f / sqrtf((float)shape->head_dim);
	a.shape = *shape;
#ifdef QUIRE_HAS_SM90
	if (decode_list_has_sm90(work->path, shape)) {
		if (work->is_long) {
			return decode_attention_shared_sm90(a, work->block_count, stream);
		}
		return decode_attention_fits_clusters(row_count, shape, work->block_count)
			       ? decode_attention_cluster_sm90(a, stream)
			       : decode_attention_sm90(a, work->block_count, stream);
	}
#endif
	return decode_attention_sm80(a, work->block_count, stream);
}
