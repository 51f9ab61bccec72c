#ifndef ENGINE_SEQUENCE_H
#define ENGINE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/block_key.h"

/* A sequence: one request inside the engine, with its tokens, the progress of their computation,
   and the KV blocks that hold them.

       token_ids     | prompt ............ | completion ...... | room up to max_tokens |
		     0                 prompt_count       token_count          token_capacity
       block_table   | block | block | block | block |       entry i holds tokens
							      [i * block_size, (i + 1) * block_size)
       block_keys    | key   | key   |                        of the full blocks, made once

   A decoding sequence gains a token with every decode pass of the scheduler, without being visited:
   token_count and computed_count are those of decode pass `decode_clock`, and sequence_settle()
   brings them up to a later pass. Settle a sequence that may be decoding before reading its counts.
   Sequences that the engine returns are settled.

   With asynchronous scheduling the counts are those of decided steps: the last token may be
   pending, decided to be sampled and not known, or -1 in token_ids where it is not forced.

   The structure belongs to the scheduler's pool. Other code holds const pointers, valid until the
   sequence is recycled, a step after the engine returned it. */

enum sequence_status { SEQUENCE_WAITING, SEQUENCE_RUNNING, SEQUENCE_FINISHED };

static const uint32_t SEQUENCE_NO_ROW = UINT32_MAX;

struct sequence {
	/* identity */
	uint64_t request; /* the caller's number, never reused within a run */
	uint32_t slot;	  /* index in the scheduler's pool, valid until the sequence is recycled */
	enum sequence_status status;

	/* the request */
	uint32_t prompt_count; /* tokens, at least 1 */
	uint32_t max_tokens;   /* completion tokens at most, at least 1 */
	uint32_t stored_count; /* leading prompt tokens that it came with as stored */
	int32_t priority;      /* with QUEUE_PRIORITY: smaller goes first, */
	uint64_t arrival;      /* then the earlier, in the caller's unit */
	float temperature;     /* 0 is greedy */
	bool ignore_eos;
	bool is_forced; /* the completion is known in advance, not sampled */

	/* tokens; the arrays are one allocation, owned by the sequence */
	uint32_t token_count;	 /* prompt + completion so far */
	uint32_t token_capacity; /* prompt_count + max_tokens */
	/* (token_capacity); forced: all valid, else token_count are; NULL: the request came with
	   keys instead */
	int32_t *token_ids;
	struct block_key
		*block_keys; /* (token_capacity / block_size), the first block_key_count valid */
	uint32_t block_key_count;
	uint32_t *block_table;	   /* (ceil(token_capacity / block_size)) block ids */
	uint32_t block_count;	   /* entries in use */
	uint32_t registered_count; /* leading blocks whose content is registered */

	/* progress */
	uint32_t cached_count;	  /* tokens found in the prefix cache at the latest admission */
	uint32_t computed_count;  /* tokens whose K/V is in the pool, cached ones included */
	uint32_t scheduled_count; /* tokens placed in the current step */
	uint32_t computed_high;	  /* highest computed_count before a preemption: tokens below it are
				     computed again */
	uint32_t preemption_count;
	uint32_t
		forced_eos_count; /* completion tokens up to a forced EOS, which ends it; 0: none */
	uint64_t sampled_step;	  /* the latest step that placed and sampled it, plus 1 */
	uint64_t decode_clock;	  /* the decode pass up to which the counts above hold */
	bool is_prompt_computed;  /* all tokens it was admitted with are computed */
	bool is_decoding;	  /* gains a token with every decode pass */
	bool is_ending;		  /* is_async: its last token is decided, and not applied */
	bool is_outside;	  /* could decode, and is not in the decode window */

	/* links of the scheduler's queues */
	uint64_t admission; /* ordinal of the latest admission: the order of the running queue */
	uint32_t row;	    /* stable while running; SEQUENCE_NO_ROW otherwise */
	struct sequence *previous, *next;	  /* waiting, running or finished queue */
	struct sequence *due_previous, *due_next; /* list of one decode pass in the timing wheel */
	uint64_t due_clock;
	bool is_due_listed;

	/* the latest result of block_manager_probe(), valid while the pool's version is unchanged
	   */
	uint64_t probe_version;
	uint32_t probed_hits; /* leading blocks that are cached */
	bool probed_fits;     /* blocks for the rest are free */
	bool is_probed;
};

/* Brings a decoding sequence up to decode pass `clock`: one more token each pass. */
static inline void sequence_settle(struct sequence *sequence, uint64_t clock)
{
	if (sequence->is_decoding) {
		uint32_t passes = (uint32_t)(clock - sequence->decode_clock);
		sequence->token_count += passes;
		sequence->computed_count += passes;
		sequence->decode_clock = clock;
	}
}

static inline uint32_t sequence_completion_count(const struct sequence *sequence)
{
	return sequence->token_count - sequence->prompt_count;
}

/* Blocks that hold token_count tokens. */
static inline uint32_t sequence_num_blocks(const struct sequence *sequence, uint32_t block_size)
{
	return (sequence->token_count + block_size - 1) / block_size;
}

/* Blocks found in the prefix cache at the latest admission. */
static inline uint32_t sequence_num_cached_blocks(
	const struct sequence *sequence, uint32_t block_size)
{
	return sequence->cached_count / block_size;
}

/* Tokens in the last of sequence_num_blocks() blocks, in [1, block_size]. */
static inline uint32_t sequence_last_block_num_tokens(
	const struct sequence *sequence, uint32_t block_size)
{
	return sequence->token_count - (sequence_num_blocks(sequence, block_size) - 1) * block_size;
}

/* The most blocks a prefix hit may cover: at least one token is always computed. */
static inline uint32_t sequence_max_hit_blocks(const struct sequence *sequence, uint32_t block_size)
{
	return (sequence->token_count - 1) / block_size;
}

/* A request, as the caller adds it. The arrays are borrowed for the call. It has its tokens, or
   else the keys of its blocks: a runner that computes nothing reads no token, and the keys say
   which blocks are equal. With keys the completion counts as forced, and ignore_eos is set. */
struct request {
	uint64_t id;
	const struct block_key *keys; /* ((prompt_count + max_tokens) / block_size), or NULL */
	const int32_t *prompt;	      /* (prompt_count); NULL with keys */
	uint32_t prompt_count;	      /* >= 1 */
	const int32_t *forced; /* (max_tokens) completion tokens to append, or NULL: sample them */
	uint32_t max_tokens;   /* >= 1 */
	uint32_t forced_eos_count; /* set by the scheduler, as in struct sequence */
	int32_t priority;	   /* these two have a meaning with QUEUE_PRIORITY only */
	uint64_t arrival;
	uint32_t stored_count; /* leading prompt tokens whose blocks are entered into the prefix
				  cache without being computed, see scheduler_add() and
				  block_manager_store() */
	float temperature;
	bool ignore_eos;
};

/* Whether all tokens of its completion are known in advance. */
static inline bool request_is_forced(const struct request *request)
{
	return request->forced != NULL || request->keys != NULL;
}

/* Prepares a zeroed sequence for a request: copies its keys, or copies its tokens and makes the
   keys of the prompt's full blocks. */
void sequence_init(struct sequence *sequence, const struct request *request, uint32_t block_size);
void sequence_deinit(struct sequence *sequence);

/* The key of full block `index`, made when it is first asked for; (index + 1) * block_size tokens
   must be known. */
struct block_key sequence_make_block_key(
	struct sequence *sequence, uint32_t index, uint32_t block_size);

static inline struct block_key sequence_block_key(
	struct sequence *sequence, uint32_t index, uint32_t block_size)
{
	return index < sequence->block_key_count
		       ? sequence->block_keys[index]
		       : sequence_make_block_key(sequence, index, block_size);
}

#endif
