#include "engine/router/block_set.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Against a list in order of use. */

enum { LIST_MAX = 256, PREFIX_MAX = 8 };

struct list_block {
	struct block_key key;
	uint64_t used_ns;
};

struct list {
	struct list_block blocks[LIST_MAX]; /* (count), the oldest first */
	uint32_t count;
};

static uint32_t list_find(const struct list *list, struct block_key key)
{
	uint32_t i = 0;

	while (i < list->count && !block_key_equal(list->blocks[i].key, key)) {
		i++;
	}
	return i;
}

static void list_drop(struct list *list, uint32_t at)
{
	if (at < list->count) {
		list->count--;
		memmove(&list->blocks[at], &list->blocks[at + 1],
			(list->count - at) * sizeof(list->blocks[0]));
	}
}

static void list_add(struct list *list, struct block_key key, uint32_t capacity, uint64_t now_ns)
{
	uint32_t at = list_find(list, key);

	if (at == list->count && capacity > 0 && list->count == capacity) {
		list_drop(list, 0);
	} else {
		list_drop(list, at);
	}
	list->blocks[list->count++] = (struct list_block){.key = key, .used_ns = now_ns};
}

static void body(struct prop *prop, const void *context)
{
	uint32_t capacity = prop_chance(prop, 1, 3) ? 0 : prop_range(prop, 1, 20);
	uint64_t ttl_ns = prop_chance(prop, 1, 2) ? 0 : 10, now_ns = 0;
	static struct list list;
	struct block_set set;

	(void)context;
	list.count = 0;
	block_set_init(&set, capacity, ttl_ns);
	for (uint32_t n = prop_range(prop, 1, 80); n > 0; n--) {
		uint32_t count = prop_range(prop, 0, PREFIX_MAX);
		uint64_t family = prop_range(prop, 0, 5);
		struct block_key keys[PREFIX_MAX];
		uint32_t expected = 0;
		for (uint32_t i = 0; i < count; i++) {
			/* The low halves meet, so that entries collide. */
			keys[i] = (struct block_key){.low = i % 3, .high = 100 * family + i};
		}
		now_ns += prop_below(prop, 4);
		if (prop_chance(prop, 1, 8) && count > 0) {
			block_set_remove(&set, keys[0]);
			list_drop(&list, list_find(&list, keys[0]));
		} else if (prop_chance(prop, 1, 12)) {
			block_set_shrink(&set, count);
			while (list.count > count) {
				list_drop(&list, 0);
			}
		}
		for (; expected < count; expected++) {
			uint32_t at = list_find(&list, keys[expected]);
			if (at == list.count ||
				(ttl_ns > 0 && now_ns - list.blocks[at].used_ns > ttl_ns)) {
				break;
			}
		}
		require_equal(block_set_match(&set, keys, count, now_ns), expected);
		block_set_add(&set, keys, count, now_ns);
		while (ttl_ns > 0 && list.count > 0 && now_ns - list.blocks[0].used_ns > ttl_ns) {
			list_drop(&list, 0);
		}
		for (uint32_t i = count; i > 0; i--) {
			list_add(&list, keys[i - 1], capacity, now_ns);
		}
		require_equal(set.count, list.count);
	}
	block_set_deinit(&set);
}

Test(block_set, remembers_what_a_list_in_order_of_use_does)
{
	const struct prop_options options = {.name = "block_set", .body = body, .trials = 2000};

	cr_assert(prop_holds(&options));
}
