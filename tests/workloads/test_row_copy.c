#include "workloads/row_copy.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/require.h"

/* What a row refers to, in memory of its own. */
struct source {
	uint64_t hash_ids[2], prompt_ids[3], output_ids[1];
	struct token_span spans[2];
	char session[10], turn[16], parent[8];
};

static const struct source original = {
	.hash_ids = {1, 2},
	.prompt_ids = {3, 4, 5},
	.output_ids = {6},
	.spans = {{.first = 7}, {.first = 8}},
	.session = "session 1",
	.turn = "turn of 15 byte",
	.parent = "before",
};

enum { PARTS = 7, EXTRA = 8 };

/* A row with those of the parts whose bits are set. */
static struct trace_row row_of(const struct source *source, uint32_t parts)
{
	return (struct trace_row){.index = 9,
		.input_length = 3,
		.output_length = 1,
		.hash_ids = parts & 1 ? source->hash_ids : NULL,
		.hash_id_count = parts & 1 ? 2 : 0,
		.prompt_ids = parts & 2 ? source->prompt_ids : NULL,
		.output_ids = parts & 4 ? source->output_ids : NULL,
		.spans = parts & 8 ? source->spans : NULL,
		.span_count = parts & 8 ? 2 : 0,
		.session = parts & 16 ? source->session : NULL,
		.turn = parts & 32 ? source->turn : NULL,
		.parent = parts & 64 ? source->parent : NULL};
}

static void require_text(const char *found, const char *expected)
{
	require((found == NULL) == (expected == NULL), "a text too many");
	require(found == NULL || strcmp(found, expected) == 0, "%s", found);
}

/* A copy is whole when the row is gone, whatever the row has. It takes the bytes that were said. */
Test(row_copy, needs_nothing_of_the_row)
{
	for (uint32_t parts = 0; parts < 1U << PARTS; parts++) {
		struct source source = original;
		struct trace_row row = row_of(&source, parts), copy;
		const struct trace_row same = row_of(&original, parts);
		size_t bytes = row_copy_bytes(&row);
		unsigned char *memory = malloc(bytes + EXTRA);
		require(memory != NULL, "no memory");
		memset(memory + bytes, 0xa5, EXTRA);
		row_copy(&copy, &row, memory);
		memset(&source, 0xff, sizeof(source));
		for (size_t i = 0; i < EXTRA; i++) {
			require_equal(memory[bytes + i], 0xa5);
		}
		require_equal(copy.index, 9);
		require_equal(copy.hash_id_count, same.hash_id_count);
		require_equal(copy.span_count, same.span_count);
		require((copy.hash_ids == NULL) == (same.hash_ids == NULL) &&
				(copy.prompt_ids == NULL) == (same.prompt_ids == NULL) &&
				(copy.output_ids == NULL) == (same.output_ids == NULL) &&
				(copy.spans == NULL) == (same.spans == NULL),
			"parts %u", parts);
		if (copy.hash_ids != NULL) {
			cr_assert_arr_eq(copy.hash_ids, original.hash_ids, sizeof(source.hash_ids));
		}
		if (copy.prompt_ids != NULL) {
			cr_assert_arr_eq(
				copy.prompt_ids, original.prompt_ids, sizeof(source.prompt_ids));
		}
		if (copy.output_ids != NULL) {
			cr_assert_arr_eq(
				copy.output_ids, original.output_ids, sizeof(source.output_ids));
		}
		for (uint32_t i = 0; i < copy.span_count; i++) {
			require_equal(copy.spans[i].first, original.spans[i].first);
		}
		require_text(copy.session, same.session);
		require_text(copy.turn, same.turn);
		require_text(copy.parent, same.parent);
		free(memory);
	}
}
