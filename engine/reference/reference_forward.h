#ifndef ENGINE_REFERENCE_REFERENCE_FORWARD_H
#define ENGINE_REFERENCE_REFERENCE_FORWARD_H

#include <stddef.h>
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

   Tensor parallelism. The model may be divided into the shares of several ranks
   (engine/reference/reference_share.h). Behind o and behind down each share leaves a partial sum,
   rounded as a linear layer rounds. These are added in the order of the ranks and rounded once
   (kernels/exchange/exchange.h), then add_rms_norm goes on. Behind lm_head each share has the best
   token of its part of the vocabulary, and the best of these is the sampled one. All else is
   computed once. A process computes all shares, one after the other, or some of them, and then gets
   the others' results by an exchange; the bits are the same.

   It owns a copy of the weights of its shares, their KV pools in the layout of
   kernels/attention/paged_kv.h, and the tensors of a step. All are allocated when it is opened;
   untouched pages take no memory. Tensors are float32. */

struct forward;

/* How processes that compute different shares of a step give each other their results. */
struct forward_exchange {
	void *state;

	/* Completes `all`: (ranks, bytes), in the order of the ranks, of which those of this
	   process's shares are filled in. A step calls it 2 * num_hidden_layers times with partial
	   sums (token_count, hidden_size) float32, and then, if it samples, with candidates
	   (sampled_rows) of kernels/sampling/candidate.h. A failure ends the step. */
	enum status (*gather)(void *state, void *all, size_t bytes, struct error *error);
};

/* The ranks of tensor parallelism, and those whose shares this process computes. Zeroed: one rank,
   without an exchange. */
struct forward_ranks {
	uint32_t count;
	uint32_t first, here;		  /* shares of ranks [first, first + here); 0: all */
	struct forward_exchange exchange; /* gather NULL: all shares are here */
};

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
	struct forward_ranks ranks;
};

/* Bytes of a block of the KV pool, of all ranks. */
uint64_t forward_block_bytes(const struct model_config *model, uint32_t block_size);

/* Refuses ranks by which the model cannot be divided, and sizes beyond the address space; see
   engine/base/memory.h for exhausted memory. */
enum status forward_open(
	struct forward **out, const struct forward_options *options, struct error *error);

/* Accepts NULL. */
void forward_close(struct forward *forward);

/* Computes a batch and samples. token_ids: (batch->token_count), the batch's with every -1
   resolved; tables: (rows, table_width) with the batch's additions made; sampled:
   (batch->counts.sampled_rows), in row order. Fails only where the exchange does. */
enum status forward_run(struct forward *forward, const struct batch *batch,
	const int32_t *token_ids, const uint32_t *tables, int32_t *sampled, struct error *error);

/* Of the latest batch: (sampled_rows, ids), overwritten by the next. The ids are those of the
   shares that this process computes, the whole vocabulary if it computes all. */
const float *forward_logits(const struct forward *forward);

#endif
