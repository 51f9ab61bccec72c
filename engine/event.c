#include "engine/event.h"

#include "engine/base/memory.h"

#include <string.h>

void event_list_grow(struct event_list *list, size_t count)
{
	list->events = memory_grow(list->events, &list->capacity, count, sizeof(struct event));
}

void event_list_copy(struct event_list *to, const struct event_list *from)
{
	event_list_grow(to, from->count);
	if (from->count > 0) {
		memcpy(to->events, from->events, from->count * sizeof(struct event));
	}
	to->count = from->count;
}
