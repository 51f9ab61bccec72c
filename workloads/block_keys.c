#include "workloads/block_keys.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* A piece, or the part of one, in a block. */
struct key_part {
	struct token_piece piece; /* from its first token in the block on */
	uint32_t start, end;	  /* in the block */
};

struct key_run {
	uint64_t key;
	uint64_t first; /* position in the stream */
	uint32_t start, end;
};

enum { KEY_BITS = 128 };

/* The fewest tokens that are drawn alike once in 2^128 times at most. */
static uint32_t shortest_run(uint32_t vocab_size)
{
	uint32_t bits = 31 - (uint32_t)__builtin_clz(vocab_size);

	return bits == 0 ? UINT32_MAX : (KEY_BITS + bits - 1) / bits;
}

void block_keys_init(
	struct block_keys *keys, const struct token_source *source, uint32_t block_size)
{
	check(source->vocab_size >= 1);
	*keys = (struct block_keys){
		.source = *source,
		.block_size = block_size,
		.shortest_run = shortest_run(source->vocab_size),
		.parts = memory_take(block_size, sizeof(struct key_part)),
		.runs = memory_take(block_size, sizeof(struct key_run)),
		.token_ids = memory_take(block_size, sizeof(int32_t)),
	};
}

void block_keys_deinit(struct block_keys *keys)
{
	free(keys->keys);
	free(keys->parts);
	free(keys->runs);
	free(keys->token_ids);
	memset(keys, 0, sizeof(*keys));
}

/* A block that is all of one stream. From both words key and position can be had back, so different
   places differ in one of them. */
static struct block_key add_stream(struct block_key before, uint64_t key, uint64_t first)
{
	return block_key_add(before, key + first * UINT64_C(0x9e3779b97f4a7c15), key + 2 * first);
}

/* ---- blocks over several pieces ---- */

/* The token at a position of the block, by the stream of a part. */
static int32_t token_by(
	const struct block_keys *keys, const struct key_part *part, uint32_t position)
{
	int32_t token;
	uint64_t skipped = (uint64_t)position - part->start; /* wraps, and back in the sum */

	token_piece_fill(&part->piece, skipped, 1, keys->source.vocab_size, &token);
	return token;
}

/* The longest stretch of the block around a part that agrees with the part's stream. */
static struct key_run run_around(
	const struct block_keys *keys, const struct key_part *part, uint32_t index, uint32_t count)
{
	const struct key_part *parts = keys->parts;
	uint32_t start = part->start;
	uint32_t end = part->end;

	for (uint32_t at = index; start > 0 && part->piece.first > part->start - start; start--) {
		at -= start == parts[at].start;
		if (token_by(keys, part, start - 1) != token_by(keys, &parts[at], start - 1)) {
			break;
		}
	}
	for (uint32_t at = index; end < keys->block_size; end++) {
		at += end == parts[at].end;
		check(at < count);
		if (token_by(keys, part, end) != token_by(keys, &parts[at], end)) {
			break;
		}
	}
	return (struct key_run){
		.key = part->piece.key,
		.first = part->piece.first - (part->start - start),
		.start = start,
		.end = end,
	};
}

static uint32_t find_runs(const struct block_keys *keys, uint32_t part_count)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < part_count; i++) {
		if (keys->parts[i].piece.given != NULL) {
			continue;
		}
		struct key_run run = run_around(keys, &keys->parts[i], i, part_count);
		const struct key_run *last = count > 0 ? &keys->runs[count - 1] : NULL;
		/* Two parts of one run find the same. */
		bool is_known = last != NULL && last->key == run.key && last->start == run.start &&
				last->first == run.first;
		if (run.end - run.start >= keys->shortest_run && !is_known) {
			keys->runs[count++] = run;
		}
	}
	return count;
}

/* Appends the block's tokens [start, end) to those in no run. */
static uint32_t add_rest(const struct block_keys *keys, uint32_t part_count, uint32_t start,
	uint32_t end, uint32_t count)
{
	for (uint32_t i = 0; i < part_count; i++) {
		const struct key_part *part = &keys->parts[i];
		uint32_t from = u32_max(start, part->start);
		uint32_t to = u32_min(end, part->end);
		if (from < to) {
			token_piece_fill(&part->piece, from - part->start, to - from,
				keys->source.vocab_size, keys->token_ids + count);
			count += to - from;
		}
	}
	return count;
}

static struct block_key add_parts(
	const struct block_keys *keys, struct block_key before, uint32_t part_count)
{
	struct block_key key = before;
	uint32_t run_count = find_runs(keys, part_count);
	uint32_t rest = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < run_count; i++) {
		const struct key_run *run = &keys->runs[i];
		if (run->start == 0 && run->end == keys->block_size) {
			return add_stream(before, run->key, run->first);
		}
		key = block_key_add(key, run->start, run->end);
		key = add_stream(key, run->key, run->first);
		if (run->start > at) {
			rest = add_rest(keys, part_count, at, run->start, rest);
		}
		at = u32_max(at, run->end);
	}
	rest = add_rest(keys, part_count, at, keys->block_size, rest);
	return block_key_of_tokens(key, keys->token_ids, rest);
}

/* ---- rows ---- */

/* A walk over a row's pieces, block by block. */
struct key_walk {
	struct token_pieces pieces;
	struct token_piece piece; /* its remaining tokens; none: count is 0 */
};

static void skip(struct key_walk *walk, uint32_t count)
{
	walk->piece.first += count;
	if (walk->piece.given != NULL) {
		walk->piece.given += count;
	}
	walk->piece.count -= count;
}

static void reach_piece(struct key_walk *walk)
{
	if (walk->piece.count == 0) {
		bool has_piece = token_pieces_next(&walk->pieces, &walk->piece);
		check(has_piece);
	}
}

static struct block_key add_block(
	const struct block_keys *keys, struct block_key before, struct key_walk *walk)
{
	uint32_t part_count = 0;

	for (uint32_t at = 0; at < keys->block_size;) {
		reach_piece(walk);
		uint32_t count = u32_min(walk->piece.count, keys->block_size - at);
		keys->parts[part_count++] =
			(struct key_part){.piece = walk->piece, .start = at, .end = at + count};
		skip(walk, count);
		at += count;
	}
	return add_parts(keys, before, part_count);
}

const struct block_key *block_keys_of(struct block_keys *keys, const struct trace_row *row)
{
	uint32_t block_size = keys->block_size;
	uint32_t count = (row->input_length + row->output_length) / block_size;
	struct key_walk walk = {.pieces = token_pieces_from(&keys->source, row, 0)};
	struct block_key key = {0};

	keys->keys = memory_grow(
		keys->keys, &keys->key_capacity, count > 0 ? count : 1, sizeof(*keys->keys));
	for (uint32_t i = 0; i < count;) {
		reach_piece(&walk);
		bool is_inside = walk.piece.given == NULL && walk.piece.count >= block_size &&
				 block_size >= keys->shortest_run;
		uint32_t inside = is_inside ? walk.piece.count / block_size : 0;
		if (inside == 0) {
			keys->keys[i++] = key = add_block(keys, key, &walk);
			continue;
		}
		for (uint32_t j = 0; j < inside; j++) {
			key = add_stream(
				key, walk.piece.key, walk.piece.first + (uint64_t)j * block_size);
			keys->keys[i++] = key;
		}
		skip(&walk, inside * block_size);
	}
	return keys->keys;
}
