#include "engine/event.h"

#include "engine/base/memory.h"

void event_list_add(struct event_list *list, enum event_kind kind, const struct sequence *sequence,
	uint64_t request, uint64_t a, uint64_t b)
{
	list->events =
		memory_grow(list->events, &list->capacity, list->count + 1, sizeof(struct event));
	list->events[list->count++] = (struct event){
		.kind = kind, .sequence = sequence, .request = request, .a = a, .b = b};
}
