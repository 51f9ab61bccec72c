#ifndef ENGINE_RUNNERS_CUDA_FORWARD_H
#define ENGINE_RUNNERS_CUDA_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/model/weights.h"
#include "engine/shape/step_tensors.h"
#include "kernels/attention/decode.h"
#include "kernels/attention/prefill.h"

/* The forward pass of a Qwen3 on a GPU: the launchers of kernels/ in the order of
   engine/reference/reference_forward.h, with bf16 tensors, and float32 sums and logits. The
   sampled rows are gathered behind the attention of the last layer already; bits are the same. It
   owns the weights, the tensors of a step and the KV pool (engine/runners/cuda_tensors.h).
   It reads the batch from device memory, so a decode step can be captured into a graph and replayed
   with other numbers in the same buffers.

   Errors: every CUDA or cuBLAS call is checked. A failure is a STATUS_DEVICE that names the
   call, or a STATUS_MEMORY that says how much was requested and how much was free.

   A rank of several holds a shard of the weights and of the KV pool, and computes its heads and its
   part of the intermediate size for all tokens. Its outputs of o and down are partial sums, which
   the exchange adds over the ranks in place of each add_rms_norm(). The residual stream is the same
   on all ranks, bit by bit, and so are the tokens; logits are those of its own part of the
   vocabulary. */

struct CUstream_st;
struct cuda_exchange;
struct cuda_forward;
struct nvtx_ranges;

struct cuda_forward_options {
	const struct weights *weights;	      /* read by open only */
	struct weight_shard shard;	      /* of the weights */
	const struct cuda_exchange *exchange; /* borrowed; NULL: one rank */
	struct model_step_limits limits;      /* of a batch */
	uint32_t block_size;		      /* tokens in a block; a multiple of 16 */
	uint32_t table_width;		      /* blocks in a row of the block tables */
	enum kernel_path path;
	struct nvtx_ranges *ranges; /* borrowed; NULL: disabled */
};

/* The last layer computes the sampled rows alone where it drops at least so many others. Dropping
   fewer saves nothing that was measured, since the weights are read all the same, and takes two
   more launches (engine/runners/TUNING.md). */
enum { CUDA_DROPPED_ROWS_LEAST = 128 };

/* A batch on the device. Decode rows come first; decode row r is token r. */
struct cuda_batch {
	uint32_t token_count;
	uint32_t decode_count;
	uint32_t sample_count;
	const int32_t *token_ids;  /* (token_count); -1: last_tokens of the row */
	const uint32_t *positions; /* (token_count) */
	const int64_t *slots;	   /* (token_count) */
	struct decode_work decode; /* the forward pass sets path and scratch */
	/* on the host: the end row of each group of at most limits.splits splits, the last
	   decode_count; NULL: one group */
	const uint32_t *decode_group_ends;
	/* behind its tiles, one more for each sampled row that is no decode row: what the last
	   layer computes where it drops rows */
	struct prefill_work prefill;
	/* (sample_count) index of the token whose logits are sampled */
	const uint32_t *sample_index;
	const uint32_t *sample_rows; /* (sample_count) stable row, or SAMPLER_NO_ROW */
	const uint64_t *row_keys;    /* (sample_count) */
	const float *temperatures;   /* (sample_count) */
	int32_t *last_tokens;	     /* by stable row */
	int32_t *sampled;	     /* (sample_count) */
};

/* Refuses shapes that the kernels do not compute. ranks: a number that divides the model. */
enum status cuda_forward_check(
	const struct model_config *model, uint32_t ranks, uint32_t block_size, struct error *error);

/* Opens weights, tensors and cuBLASLt on the current device, but no KV pool. */
enum status cuda_forward_open(
	struct cuda_forward **out, const struct cuda_forward_options *options, struct error *error);

/* Bytes of a block of the KV pool, all layers. */
uint64_t cuda_forward_block_bytes(const struct cuda_forward *forward);

/* Allocates the KV pool, zeroed; frees it. */
enum status cuda_forward_open_pool(
	struct cuda_forward *forward, uint32_t block_count, struct error *error);
void cuda_forward_close_pool(struct cuda_forward *forward);

/* Chooses and loads cuBLASLt's kernels for every number of rows, so that no step waits for them.
   Overwrites tensors of a step, on the stream. */
enum status cuda_forward_prepare(
	struct cuda_forward *forward, struct CUstream_st *stream, struct error *error);

/* A forward pass is enqueued on the stream in parts, of half a layer each. cuda_forward_begin()
   enqueues nothing, cuda_forward_run_part() the next part, with the first one also the embedding,
   and with the last one the head and the sampler. *is_over: that was the last. The batch is
   copied; what it points to must stay until then. */
void cuda_forward_begin(
	struct cuda_forward *forward, const struct cuda_batch *batch, struct CUstream_st *stream);
enum status cuda_forward_run_part(struct cuda_forward *forward, bool *is_over, struct error *error);

/* Copies a block of the KV pool to the host in device layout: (layers, k and v, kv_heads,
   block_size, head_dim). */
enum status cuda_forward_read_block(
	const struct cuda_forward *forward, uint32_t block, uint16_t *out, struct error *error);

/* Of attention on this rank. */
struct attention_shape cuda_forward_shape(const struct cuda_forward *forward);

/* Ids of the vocabulary whose logits this rank computes. */
uint32_t cuda_forward_vocabulary(const struct cuda_forward *forward);

/* Logits of the latest batch, on the device: (sample_count, cuda_forward_vocabulary()) float32. */
const float *cuda_forward_logits(const struct cuda_forward *forward);

void cuda_forward_close(struct cuda_forward *forward); /* accepts NULL */

#endif
