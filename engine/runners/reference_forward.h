#ifndef ENGINE_RUNNERS_REFERENCE_FORWARD_H
#define ENGINE_RUNNERS_REFERENCE_FORWARD_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/batch.h"
#include "engine/model/weights.h"
#include "kernels/op/number.h"

/* The forward pass of a Qwen3 on the CPU: one pass over a batch, composed only of the CPU versions
   of kernels/, in the order in which a GPU runs the operations.

       embedding, rms_norm
       each layer:  linear qkv, qk_norm_rope_store, decode_attention, prefill_attention, linear o,
		    add_rms_norm, linear gate_up, silu_mul, linear down, add_rms_norm
       gather_rows of the sampled rows, (the last) add_rms_norm, linear lm_head, sampler

   A layer stores the keys and values of the whole batch before any of its rows attends, so a row
   may read a block that another row of the same step fills.

   It owns a copy of the weights, the KV pool in the layout of kernels/attention/paged_kv.h, and the
   tensors of a step. All are allocated when it is opened; untouched pages take no memory. Tensors
   are float32. */

struct forward;

struct forward_options {
	const struct weights *weights; /* read when opened, not needed afterwards */
	enum rounding rounding;	       /* ROUNDING_BF16: of weights, activations, keys, values */
	uint32_t token_capacity;       /* tokens in a batch */
	uint32_t sample_capacity;      /* sampled rows in a batch */
	uint32_t position_count;       /* positions are below it */
	uint32_t block_size;	       /* tokens in a block of the KV pool */
	uint32_t block_count;
	uint32_t table_width; /* blocks in a row of the block tables */
	uint64_t seed;	      /* of the sampler's noise */
};

/* Bytes of a block of the KV pool. */
uint64_t forward_block_bytes(const struct model_config *model, uint32_t block_size);

/* Refuses sizes beyond the address space; see engine/base/memory.h for exhausted memory. */
enum status forward_open(
	struct forward **out, const struct forward_options *options, struct error *error);

/* Accepts NULL. */
void forward_close(struct forward *forward);

/* Computes a batch and samples. token_ids: (batch->token_count), the batch's with every -1
   resolved; tables: (rows, table_width) with the batch's additions made; sampled:
   (batch->counts.sampled_rows), in row order. */
void forward_run(struct forward *forward, const struct batch *batch, const int32_t *token_ids,
	const uint32_t *tables, int32_t *sampled);

/* Of the latest batch: (sampled_rows, vocab_size), overwritten by the next. */
const float *forward_logits(const struct forward *forward);

#endif
