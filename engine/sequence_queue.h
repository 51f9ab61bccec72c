#ifndef ENGINE_SEQUENCE_QUEUE_H
#define ENGINE_SEQUENCE_QUEUE_H

#include <stdint.h>

#include "engine/sequence.h"

/* A doubly linked list through sequence.previous and sequence.next: a sequence is in one queue at a
   time, and leaves it from anywhere in O(1). */

struct sequence_queue {
	struct sequence *head, *tail;
	uint32_t count;
};

void queue_push_back(struct sequence_queue *queue, struct sequence *sequence);
/* Inserts behind a member of the queue; NULL: at the front. */
void queue_insert_behind(
	struct sequence_queue *queue, struct sequence *before, struct sequence *sequence);

void queue_push_front(struct sequence_queue *queue, struct sequence *sequence);
void queue_remove(struct sequence_queue *queue, struct sequence *sequence);

#endif
