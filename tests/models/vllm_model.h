#ifndef TESTS_MODELS_VLLM_MODEL_H
#define TESTS_MODELS_VLLM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* vLLM's scheduler and KV cache manager as their rules read: lists that are searched from end to
   end, whole prefixes compared token by token, everything counted anew. It shares no code with the
   engine. It reproduces decisions of vLLM 0.33 recorded step by step (test_scheduler_vllm_golden),
   and so says what the engine must decide where nothing was recorded. */

enum {
	VLLM_REQUESTS = 64,
	VLLM_BLOCKS = 1024,
	VLLM_TOKENS = 2048,
	VLLM_LIST = 1024,
};

#define VLLM_NOTHING UINT32_MAX /* no step was applied */

struct vllm_rules {
	uint32_t block_size;
	uint32_t num_blocks; /* with the null block */
	uint32_t max_num_seqs;
	uint32_t max_num_batched_tokens;
	uint32_t max_model_len;
	int32_t eos;
	bool is_priority; /* else fcfs */
	bool is_async;
	bool has_prefix_caching;
	bool has_chunked_prefill;
	uint32_t long_prefill_token_threshold; /* 0: none */
	bool reserves_full_isl;
	double watermark;
};

struct vllm_request {
	int32_t *tokens; /* (prompt_count + max_tokens) prompt, then the answer to max_tokens */
	uint32_t prompt_count;
	uint32_t max_tokens;
	uint32_t arrival_step;
	bool ignore_eos;
	int32_t priority;
	double arrival_time; /* of the policy priority only */
};

/* A list of numbers, large enough for any list of the model. */
struct vllm_list {
	uint32_t items[VLLM_LIST];
	uint32_t count;
};

struct vllm_row {
	uint32_t request;
	char kind; /* N: new, R: resumed, C: was running */
	uint32_t first, count;
	uint32_t first_block, block_count; /* in vllm_step.blocks */
	bool is_sampled;
	bool is_decode; /* set by vllm_drive.h only */
};

/* What a step did. Its lists are empty if nothing was decided. */
struct vllm_step {
	uint32_t step;
	bool is_decided;
	struct vllm_row rows[VLLM_REQUESTS];
	uint32_t row_count;
	struct vllm_list blocks; /* of all rows */
	struct vllm_list preempted, evicted;
	/* What the decision leaves the waiting head without. '-': nobody waits; S: a seat; T:
	   tokens of the step; B: blocks, also where others were preempted for theirs. */
	char lack;
	uint32_t free_after_schedule;
	uint32_t applied; /* step whose tokens were applied, or VLLM_NOTHING */
	struct vllm_list finished;
	uint32_t free_after_step;
	struct vllm_list waiting, running;
};

struct vllm_sequence {
	const struct vllm_request *request;
	int32_t tokens[VLLM_TOKENS];
	uint32_t known;	    /* L */
	uint32_t computed;  /* C */
	uint32_t pending;   /* P */
	uint32_t in_flight; /* F */
	uint32_t stale;	    /* S */
	uint32_t registered;
	struct vllm_list table;
	bool was_admitted, is_finished;
};

/* A block whose content can be found: the first token_count tokens of a sequence, block_size of
   them in the block. */
struct vllm_entry {
	uint32_t block;
	uint32_t token_count;
	uint32_t sequence;
};

struct vllm_model {
	struct vllm_rules rules;
	struct vllm_sequence sequences[VLLM_REQUESTS]; /* (sequence_count) */
	uint32_t sequence_count;
	uint32_t references[VLLM_BLOCKS];
	struct vllm_list free;
	struct vllm_entry entries[VLLM_BLOCKS]; /* (entry_count) in order of registration */
	uint32_t entry_count;
	struct vllm_list waiting, running;

	struct vllm_step now;	 /* the latest step */
	struct vllm_step before; /* asynchronous: decided and not applied */
	bool has_before;
	uint32_t budget; /* of the step being decided */
};

/* rules are copied; num_blocks >= 2. The model is large: allocate it. */
void vllm_model_init(struct vllm_model *model, const struct vllm_rules *rules);

/* Hands a request over; requests are numbered in the order in which they are added. It is borrowed
   while the model is used. */
void vllm_model_add(struct vllm_model *model, uint32_t id, const struct vllm_request *request);

/* Whether anything waits, runs or is in flight. */
bool vllm_model_has_work(const struct vllm_model *model);

/* Decides and applies; model->now is then what happened. */
void vllm_model_step(struct vllm_model *model, uint32_t step);

#endif
