#include "engine/event.h"

#include "engine/base/memory.h"

void event_list_add(struct event_list *list, const struct event *event)
{
	list->events =
		memory_grow(list->events, &list->capacity, list->count + 1, sizeof(struct event));
	list->events[list->count++] = *event;
}
