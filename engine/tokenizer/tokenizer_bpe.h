#ifndef ENGINE_TOKENIZER_TOKENIZER_BPE_H
#define ENGINE_TOKENIZER_TOKENIZER_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/map.h"
#include "engine/tokenizer/tokenizer_utf8.h"

/* Byte pair encoding over bytes. A word starts as the tokens of its bytes; of all neighbours that
   the list of merges knows, the pair of lowest rank is joined, the leftmost of equals, until none
   remains. With a priority queue a word of n bytes costs n log n.

   The structure is filled once, by bpe_add_token() for every token and then bpe_add_merge() for
   every merge, and only read from then on. */

struct token_list {
	int32_t *ids; /* (count), free() it */
	size_t count;
	size_t capacity;
};

void token_list_add(struct token_list *list, int32_t id);

/* A token's spelling in tokenizer.json, and its bytes. */
struct bpe_token {
	uint32_t spelling, spelling_bytes; /* offset and length in the arena */
	uint32_t bytes, byte_count;
	bool is_there;
};

struct bpe {
	struct bpe_token *tokens; /* (id_limit) by id, with holes */
	uint32_t id_limit;
	size_t token_capacity;
	struct text arena; /* spellings and bytes of all tokens */

	struct map by_spelling; /* from a spelling's hash to its id */
	struct map merges;	/* from left id << 32 | right id to rank << 32 | joined id */
	uint32_t merge_count;

	int32_t byte_ids[256]; /* -1: no token is just that byte */
	bool ignores_merges;   /* a word that is a token is encoded as that token */
};

/* The byte of a character in a spelling: printable characters, and letters from U+0100 up. False:
   the character has no byte. */
bool bpe_byte_of(uint32_t code_point, uint8_t *byte);

/* Appends the bytes of a spelling: those of its characters, or its own UTF-8 bytes if a character
   has no byte. The spelling is valid UTF-8. */
void bpe_meaning(const char *spelling, size_t spelling_bytes, struct text *out);

/* bpe must be zeroed. Allocates room for this many tokens and merges. */
void bpe_init(struct bpe *bpe, uint32_t token_count, uint32_t merge_count);
void bpe_deinit(struct bpe *bpe);

/* The spelling is valid UTF-8, id in [0, 2^24). False: the id or the spelling is in use. */
bool bpe_add_token(struct bpe *bpe, const char *spelling, size_t spelling_bytes, int32_t id);

/* The id of a spelling, or -1. */
int32_t bpe_find(const struct bpe *bpe, const char *spelling, size_t spelling_bytes);

/* Must be called in order of rising rank. False: the pair has a merge already. */
bool bpe_add_merge(struct bpe *bpe, int32_t left, int32_t right, int32_t id);

/* The bytes of a token; none for an unknown id. */
const char *bpe_bytes(const struct bpe *bpe, int32_t id, size_t *byte_count);

/* Memory that encoding reuses from word to word; to be zeroed first. */
struct bpe_scratch {
	struct bpe_symbol *symbols;
	size_t symbol_capacity;
	struct bpe_candidate *heap;
	size_t heap_count, heap_capacity;
	char *spelling;
	size_t spelling_capacity;
};

void bpe_scratch_deinit(struct bpe_scratch *scratch);

/* Appends the tokens of a word of 1 to 2^31 - 1 bytes; every byte has a token. */
void bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
	size_t byte_count, struct token_list *out);

#endif
