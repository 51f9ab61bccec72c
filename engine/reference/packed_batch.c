#include "engine/reference/packed_batch.h"

#include <string.h>

enum { ALIGNMENT = 8 };

enum list_length { LENGTH_ROWS, LENGTH_ROW_STARTS, LENGTH_TOKENS, LENGTH_ADDITIONS };

struct list {
	size_t field; /* offset of the pointer in struct batch */
	size_t element_bytes;
	enum list_length length;
};

#define LIST(name, count)                                                                          \
	{                                                                                          \
		offsetof(struct batch, name), sizeof(*((struct batch *)0)->name), count            \
	}

static const struct list lists[] = {
	LIST(row, LENGTH_ROWS),
	LIST(query_start, LENGTH_ROW_STARTS),
	LIST(context_length, LENGTH_ROWS),
	LIST(is_sampled, LENGTH_ROWS),
	LIST(request, LENGTH_ROWS),
	LIST(sample_position, LENGTH_ROWS),
	LIST(temperature, LENGTH_ROWS),
	LIST(token_id, LENGTH_TOKENS),
	LIST(position, LENGTH_TOKENS),
	LIST(slot, LENGTH_TOKENS),
	LIST(additions, LENGTH_ADDITIONS),
};

enum { LIST_COUNT = sizeof(lists) / sizeof(lists[0]) };

static size_t aligned(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t list_bytes(const struct list *list, size_t rows, size_t tokens, size_t additions)
{
	const size_t lengths[] = {
		[LENGTH_ROWS] = rows,
		[LENGTH_ROW_STARTS] = rows + 1,
		[LENGTH_TOKENS] = tokens,
		[LENGTH_ADDITIONS] = additions,
	};

	return lengths[list->length] * list->element_bytes;
}

size_t packed_batch_bytes(uint32_t rows, uint32_t tokens, uint64_t additions)
{
	size_t bytes = aligned(sizeof(struct batch));

	for (uint32_t i = 0; i < LIST_COUNT; i++) {
		bytes += aligned(list_bytes(&lists[i], rows, tokens, additions));
	}
	return bytes;
}

size_t packed_batch_write(void *to, const struct batch *batch)
{
	unsigned char *at = to;
	const unsigned char *fields = (const unsigned char *)batch;

	memcpy(at, batch, sizeof(*batch));
	at += aligned(sizeof(*batch));
	for (uint32_t i = 0; i < LIST_COUNT; i++) {
		const void *list;
		size_t bytes = list_bytes(
			&lists[i], batch->row_count, batch->token_count, batch->addition_count);
		memcpy(&list, fields + lists[i].field, sizeof(list));
		if (bytes > 0) {
			memcpy(at, list, bytes);
		}
		at += aligned(bytes);
	}
	return (size_t)(at - (unsigned char *)to);
}

void packed_batch_read(struct batch *batch, void *from)
{
	unsigned char *at = from;
	unsigned char *fields = (unsigned char *)batch;

	memcpy(batch, at, sizeof(*batch));
	at += aligned(sizeof(*batch));
	for (uint32_t i = 0; i < LIST_COUNT; i++) {
		void *list = at;
		memcpy(fields + lists[i].field, &list, sizeof(list));
		at += aligned(list_bytes(
			&lists[i], batch->row_count, batch->token_count, batch->addition_count));
	}
}
