#include "engine/tokenizer/tokenizer_bpe.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A token of the word being encoded, in a doubly linked list. */
struct bpe_symbol {
	int32_t id;		 /* -1: merged into the preceding symbol */
	uint32_t previous, next; /* NONE at the ends */
};

/* A pair that can be merged. It is stale when its symbols have changed since. */
struct bpe_candidate {
	uint32_t rank;
	uint32_t position; /* of the left symbol */
	int32_t left, right, id;
};

static const uint32_t NONE = UINT32_MAX;

void token_list_add(struct token_list *list, int32_t id)
{
	list->ids = memory_grow(list->ids, &list->capacity, list->count + 1, sizeof(*list->ids));
	list->ids[list->count++] = id;
}

/* ---- the alphabet ---- */

/* Bytes that are spelled as themselves: the printable ones of Latin-1. */
static bool is_plain(uint32_t byte)
{
	return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
	       (byte >= 0xae && byte <= 0xff);
}

/* The others are spelled as U+0100 and up, in order: 0x00-0x20, 0x7f-0xa0, 0xad. */
bool bpe_byte_of(uint32_t code_point, uint8_t *byte)
{
	uint32_t value = code_point;

	if (code_point >= 0x100 && code_point <= 0x143) {
		uint32_t index = code_point - 0x100;
		value = index < 0x21 ? index : index < 0x43 ? index - 0x21 + 0x7f : 0xad;
	} else if (!is_plain(code_point)) {
		return false;
	}
	*byte = (uint8_t)value;
	return true;
}

static uint32_t letter_of(uint8_t byte)
{
	if (is_plain(byte)) {
		return byte;
	}
	return 0x100U + (byte <= 0x20 ? byte : byte <= 0xa0 ? byte - 0x7fU + 0x21 : 0x43);
}

void bpe_meaning(const char *spelling, size_t spelling_bytes, struct text *out)
{
	size_t before = out->byte_count;

	for (size_t i = 0; i < spelling_bytes;) {
		uint32_t used;
		uint8_t byte;
		uint32_t letter = utf8_code_point(spelling + i, &used);
		if (!bpe_byte_of(letter, &byte)) {
			out->byte_count = before;
			text_add_bytes(out, spelling, spelling_bytes);
			return;
		}
		text_add_bytes(out, (const char *)&byte, 1);
		i += used;
	}
}

/* ---- tokens ---- */

void bpe_init(struct bpe *bpe, uint32_t token_count, uint32_t merge_count)
{
	map_reserve(&bpe->by_spelling, token_count);
	map_reserve(&bpe->merges, merge_count);
	memset(bpe->byte_ids, 0xff, sizeof(bpe->byte_ids));
}

void bpe_deinit(struct bpe *bpe)
{
	free(bpe->tokens);
	free(bpe->arena.bytes);
	map_deinit(&bpe->by_spelling);
	map_deinit(&bpe->merges);
	memset(bpe, 0, sizeof(*bpe));
}

/* The id of a spelling, or -1; *key: its key, or the one that it would get. */
static int32_t find_spelling(
	const struct bpe *bpe, const char *spelling, size_t spelling_bytes, uint64_t *key)
{
	*key = XXH64(spelling, spelling_bytes, 0);
	for (;; (*key)++) {
		const uint64_t *id = map_find(&bpe->by_spelling, *key);
		if (id == NULL) {
			return -1;
		}
		const struct bpe_token *token = &bpe->tokens[*id];
		if (token->spelling_bytes == spelling_bytes &&
			memcmp(bpe->arena.bytes + token->spelling, spelling, spelling_bytes) == 0) {
			return (int32_t)*id;
		}
	}
}

bool bpe_add_token(struct bpe *bpe, const char *spelling, size_t spelling_bytes, int32_t id)
{
	uint32_t index = (uint32_t)id;
	uint64_t key;

	check(id >= 0 && id < 1 << 24);
	if (find_spelling(bpe, spelling, spelling_bytes, &key) >= 0 ||
		(index < bpe->id_limit && bpe->tokens[index].is_there)) {
		return false;
	}
	bpe->tokens = memory_grow(
		bpe->tokens, &bpe->token_capacity, (size_t)index + 1, sizeof(*bpe->tokens));
	if (index >= bpe->id_limit) {
		memset(bpe->tokens + bpe->id_limit, 0,
			(index + 1 - bpe->id_limit) * sizeof(*bpe->tokens));
		bpe->id_limit = index + 1;
	}
	struct bpe_token *token = &bpe->tokens[index];
	token->is_there = true;
	token->spelling = u32_from(bpe->arena.byte_count);
	token->spelling_bytes = u32_from(spelling_bytes);
	text_add_bytes(&bpe->arena, spelling, spelling_bytes);
	token->bytes = u32_from(bpe->arena.byte_count);
	bpe_meaning(spelling, spelling_bytes, &bpe->arena);
	token->byte_count = u32_from(bpe->arena.byte_count - token->bytes);
	map_add(&bpe->by_spelling, key, index);

	uint32_t used;
	uint8_t byte;
	if (spelling_bytes > 0) {
		uint32_t letter = utf8_code_point(spelling, &used);
		if (used == spelling_bytes && bpe_byte_of(letter, &byte)) {
			bpe->byte_ids[byte] = id;
		}
	}
	return true;
}

int32_t bpe_find(const struct bpe *bpe, const char *spelling, size_t spelling_bytes)
{
	uint64_t key;

	return find_spelling(bpe, spelling, spelling_bytes, &key);
}

const char *bpe_bytes(const struct bpe *bpe, int32_t id, size_t *byte_count)
{
	*byte_count = 0;
	if (id < 0 || (uint32_t)id >= bpe->id_limit || !bpe->tokens[id].is_there) {
		return "";
	}
	*byte_count = bpe->tokens[id].byte_count;
	return bpe->arena.bytes + bpe->tokens[id].bytes;
}

/* ---- merges ---- */

static uint64_t pair_key(int32_t left, int32_t right)
{
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

bool bpe_add_merge(struct bpe *bpe, int32_t left, int32_t right, int32_t id)
{
	uint64_t pair = pair_key(left, right);

	check(left >= 0 && right >= 0 && id >= 0);
	if (map_find(&bpe->merges, pair) != NULL) {
		return false;
	}
	map_add(&bpe->merges, pair, pair_key((int32_t)bpe->merge_count++, id));
	return true;
}

/* ---- the queue of candidates: a binary heap, lowest rank and then leftmost first ---- */

static bool is_before(const struct bpe_candidate *a, const struct bpe_candidate *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->position < b->position;
}

static void heap_push(struct bpe_scratch *scratch, struct bpe_candidate candidate)
{
	scratch->heap = memory_grow(scratch->heap, &scratch->heap_capacity, scratch->heap_count + 1,
		sizeof(*scratch->heap));
	size_t at = scratch->heap_count++;
	while (at > 0 && is_before(&candidate, &scratch->heap[(at - 1) / 2])) {
		scratch->heap[at] = scratch->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	scratch->heap[at] = candidate;
}

static struct bpe_candidate heap_pop(struct bpe_scratch *scratch)
{
	struct bpe_candidate *heap = scratch->heap;
	struct bpe_candidate first = heap[0];
	struct bpe_candidate last = heap[--scratch->heap_count];
	size_t at = 0;

	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= scratch->heap_count) {
			break;
		}
		if (child + 1 < scratch->heap_count && is_before(&heap[child + 1], &heap[child])) {
			child++;
		}
		if (!is_before(&heap[child], &last)) {
			break;
		}
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

/* ---- encoding ---- */

void bpe_scratch_deinit(struct bpe_scratch *scratch)
{
	free(scratch->symbols);
	free(scratch->heap);
	free(scratch->spelling);
	memset(scratch, 0, sizeof(*scratch));
}

/* The token whose bytes are the whole word, or -1. */
static int32_t find_word(
	const struct bpe *bpe, struct bpe_scratch *scratch, const char *word, size_t byte_count)
{
	size_t used = 0;

	scratch->spelling =
		memory_grow(scratch->spelling, &scratch->spelling_capacity, 4 * byte_count, 1);
	for (size_t i = 0; i < byte_count; i++) {
		used += utf8_write(letter_of((uint8_t)word[i]), scratch->spelling + used);
	}
	return bpe_find(bpe, scratch->spelling, used);
}

/* Queues a symbol and its successor as a candidate, if they have a merge. */
static void consider(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t position)
{
	const struct bpe_symbol *left = &scratch->symbols[position];

	if (left->next == NONE) {
		return;
	}
	const struct bpe_symbol *right = &scratch->symbols[left->next];
	const uint64_t *merge = map_find(&bpe->merges, pair_key(left->id, right->id));
	if (merge != NULL) {
		heap_push(scratch, (struct bpe_candidate){(uint32_t)(*merge >> 32), position,
					   left->id, right->id, (int32_t)(uint32_t)*merge});
	}
}

static void join(
	const struct bpe *bpe, struct bpe_scratch *scratch, const struct bpe_candidate *candidate)
{
	struct bpe_symbol *left = &scratch->symbols[candidate->position];

	if (left->id != candidate->left || left->next == NONE ||
		scratch->symbols[left->next].id != candidate->right) {
		return; /* stale */
	}
	struct bpe_symbol *right = &scratch->symbols[left->next];
	left->id = candidate->id;
	left->next = right->next;
	right->id = -1;
	if (left->next != NONE) {
		scratch->symbols[left->next].previous = candidate->position;
	}
	consider(bpe, scratch, candidate->position);
	if (left->previous != NONE) {
		consider(bpe, scratch, left->previous);
	}
}

void bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *word,
	size_t byte_count, struct token_list *out)
{
	check(byte_count > 0 && byte_count <= INT32_MAX);
	int32_t whole = bpe->ignores_merges ? find_word(bpe, scratch, word, byte_count) : -1;
	if (whole >= 0) {
		token_list_add(out, whole);
		return;
	}
	uint32_t count = (uint32_t)byte_count;
	scratch->symbols = memory_grow(
		scratch->symbols, &scratch->symbol_capacity, count, sizeof(*scratch->symbols));
	for (uint32_t i = 0; i < count; i++) {
		scratch->symbols[i] = (struct bpe_symbol){
			.id = bpe->byte_ids[(uint8_t)word[i]],
			.previous = i == 0 ? NONE : i - 1,
			.next = i + 1 == count ? NONE : i + 1,
		};
		check(scratch->symbols[i].id >= 0);
	}
	check(scratch->heap_count == 0);
	for (uint32_t i = 0; i < count; i++) {
		consider(bpe, scratch, i);
	}
	while (scratch->heap_count > 0) {
		struct bpe_candidate candidate = heap_pop(scratch);
		join(bpe, scratch, &candidate);
	}
	for (uint32_t i = 0; i != NONE; i = scratch->symbols[i].next) {
		token_list_add(out, scratch->symbols[i].id);
	}
}
