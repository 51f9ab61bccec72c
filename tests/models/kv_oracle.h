#ifndef TESTS_MODELS_KV_ORACLE_H
#define TESTS_MODELS_KV_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/config.h"
#include "engine/runner.h"
#include "engine/sequence.h"

/* A runner without a model that knows what every slot of the KV pool must hold. In each slot it
   keeps a fingerprint of the whole token prefix that was computed there. A step first stores the
   fingerprints of all its tokens by their slots, as every layer stores K/V before any row attends;
   then every row reads its whole context through the runner's own block table, which was built from
   the batch's additions and from nothing else, and each slot must hold exactly the prefix of that
   row's sequence. A wrong hit, a block reused too early, a wrong slot, a missing
   table entry: each of them shows as a wrong fingerprint.

   It gets every request too, so that it knows by itself what each sequence is.
   Sampled tokens are a function of request, position and prefix, so they are the same whatever else
   is in the batch. */

struct kv_oracle_request {
	int32_t *tokens;	/* (prompt + max tokens), of which token_count are known */
	uint64_t *fingerprints; /* (prompt + max tokens) of the prefix that ends in the token */
	uint32_t token_count;
	uint32_t capacity;
	uint32_t row;  /* in the latest batch, UINT32_MAX: none yet */
	uint64_t step; /* + 1 of the latest batch it was in */
	bool is_forced;
	float temperature;
};

struct kv_oracle {
	struct engine_config config;
	uint32_t row_limit;
	uint32_t table_width;
	uint64_t *pool;	      /* (kv_block_count, block_size) fingerprints, 0: never written */
	uint32_t *tables;     /* (row_limit, table_width) block + 1, 0: none yet */
	int32_t *last_tokens; /* (row_limit) last token sampled in a row */
	struct kv_oracle_request *requests; /* (request_limit), by the request's id */
	uint32_t request_limit;
	uint64_t seed;
	uint32_t vocabulary; /* sampled tokens are in [0, vocabulary) */
	uint64_t rows_read, tokens_read;
};

/* Requests have ids in [0, request_limit). */
void kv_oracle_init(struct kv_oracle *oracle, const struct engine_config *config,
	uint32_t request_limit, uint32_t vocabulary, uint64_t seed);
void kv_oracle_deinit(struct kv_oracle *oracle);

void kv_oracle_add(struct kv_oracle *oracle, const struct request *request);

/* The runner borrows the oracle. */
struct runner kv_oracle_runner(struct kv_oracle *oracle);

/* A runner that computes nothing and takes the same time for the same step. */
struct runner counting_runner(uint64_t *seed);

#endif
