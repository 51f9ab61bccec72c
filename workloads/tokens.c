#include "workloads/tokens.h"

#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/integer.h"

/* The counters 0, 1, 2, ... of a key each give 64 bits, which are two tokens, the low half first.
   So token p of a stream lies in half p % 2 of counter p / 2. */

enum purpose { PURPOSE_BLOCK = 1, PURPOSE_ROW = 2 };

static int32_t half_token(uint64_t bits, uint32_t half, uint32_t vocab_size)
{
	return (int32_t)counter_below((uint32_t)(bits >> (32 * half)), vocab_size);
}

/* Tokens [first, first + count) of a stream. */
static void fill(
	uint64_t key, uint64_t first, size_t count, uint32_t vocab_size, int32_t *token_ids)
{
	uint64_t counter = first / 2;
	size_t i = 0;

	if (count > 0 && first % 2 == 1) {
		token_ids[i++] = half_token(counter_hash(key, counter++), 1, vocab_size);
	}
	for (; i + 2 <= count; i += 2) {
		uint64_t bits = counter_hash(key, counter++);
		token_ids[i] = half_token(bits, 0, vocab_size);
		token_ids[i + 1] = half_token(bits, 1, vocab_size);
	}
	if (i < count) {
		token_ids[i] = half_token(counter_hash(key, counter), 0, vocab_size);
	}
}

void token_piece_fill(const struct token_piece *piece, uint64_t skipped, size_t count,
	uint32_t vocab_size, int32_t *token_ids)
{
	if (piece->given == NULL) {
		fill(piece->key, piece->first + skipped, count, vocab_size, token_ids);
		return;
	}
	check(skipped + count <= piece->count);
	for (size_t i = 0; i < count; i++) {
		token_ids[i] = (int32_t)(piece->given[skipped + i] % vocab_size);
	}
}

/* ---- pieces ---- */

struct token_pieces token_pieces_from(
	const struct token_source *source, const struct trace_row *row, uint32_t position)
{
	struct token_pieces pieces = {
		.row = row,
		.trace_block_size = source->trace_block_size,
		.block_base = counter_key(source->seed, PURPOSE_BLOCK),
		.row_base = counter_key(source->seed, PURPOSE_ROW),
		.position = position,
	};

	check(source->vocab_size >= 1 && source->vocab_size <= TOKEN_VOCABULARY_LIMIT);
	check(row->hash_ids == NULL || source->trace_block_size > 0);
	check(row->hash_ids == NULL ||
		row->hash_id_count >= row->input_length / source->trace_block_size);
	pieces.row_key = counter_hash(pieces.row_base, row->index);
	return pieces;
}

/* The span at or behind the position, or NULL. */
static const struct token_span *next_span(struct token_pieces *pieces)
{
	const struct trace_row *row = pieces->row;

	while (pieces->span < row->span_count) {
		const struct token_span *span = &row->spans[pieces->span];
		check(span->origin <= span->first && span->count <= row->input_length &&
			span->first <= row->input_length - span->count);
		if (span->first + span->count > pieces->position) {
			return span;
		}
		pieces->span++;
	}
	return NULL;
}

static struct token_piece span_piece(
	const struct token_pieces *pieces, const struct token_span *span)
{
	uint64_t base = span->is_block ? pieces->block_base : pieces->row_base;

	check(span->first <= pieces->position); /* they are disjoint and in order */
	return (struct token_piece){
		.key = counter_hash(base, span->source),
		.first = pieces->position - span->origin,
		.count = span->first + span->count - pieces->position,
	};
}

/* Of the prompt, where the trace does not spell it out. The row's own stream runs on through its
   completion. */
static struct token_piece prompt_piece(struct token_pieces *pieces)
{
	const struct trace_row *row = pieces->row;
	const struct token_span *span = next_span(pieces);
	uint32_t at = pieces->position;
	uint32_t limit = span != NULL ? span->first : row->input_length;

	if (span != NULL && limit <= at) {
		return span_piece(pieces, span);
	}
	if (row->hash_ids != NULL && at / pieces->trace_block_size < row->hash_id_count) {
		uint32_t block = at / pieces->trace_block_size;
		uint32_t offset = at % pieces->trace_block_size;
		return (struct token_piece){
			.key = counter_hash(pieces->block_base, row->hash_ids[block]),
			.first = offset,
			.count = u32_min(pieces->trace_block_size - offset, limit - at),
		};
	}
	bool runs_on = span == NULL && row->output_ids == NULL;
	return (struct token_piece){
		.key = pieces->row_key,
		.first = at,
		.count = limit + (runs_on ? row->output_length : 0) - at,
	};
}

bool token_pieces_next(struct token_pieces *pieces, struct token_piece *piece)
{
	const struct trace_row *row = pieces->row;
	uint32_t at = pieces->position;
	uint32_t end = row->input_length + row->output_length;

	if (at == end) {
		return false;
	}
	if (at >= row->input_length) {
		*piece = (struct token_piece){
			.key = pieces->row_key,
			.first = at,
			.given = row->output_ids == NULL
					 ? NULL
					 : row->output_ids + (at - row->input_length),
			.count = end - at,
		};
	} else if (row->prompt_ids != NULL) {
		*piece = (struct token_piece){
			.given = row->prompt_ids + at, .count = row->input_length - at};
	} else {
		*piece = prompt_piece(pieces);
	}
	pieces->position = at + piece->count;
	return true;
}

/* ---- tokens ---- */

static void fill_range(const struct token_source *source, const struct trace_row *row,
	uint32_t first, uint32_t count, int32_t *token_ids)
{
	struct token_pieces pieces = token_pieces_from(source, row, first);
	struct token_piece piece;

	for (uint32_t filled = 0; filled < count; filled += piece.count) {
		bool has_piece = token_pieces_next(&pieces, &piece);
		check(has_piece);
		token_piece_fill(&piece, 0, u32_min(piece.count, count - filled),
			source->vocab_size, token_ids + filled);
	}
}

void tokens_prompt(
	const struct token_source *source, const struct trace_row *row, int32_t *token_ids)
{
	fill_range(source, row, 0, row->input_length, token_ids);
}

void tokens_forced(
	const struct token_source *source, const struct trace_row *row, int32_t *token_ids)
{
	fill_range(source, row, row->input_length, row->output_length, token_ids);
}
