#include "engine/sequence_queue.h"

#include <stddef.h>

void queue_push_back(struct sequence_queue *queue, struct sequence *sequence)
{
	sequence->previous = queue->tail;
	sequence->next = NULL;
	if (queue->tail == NULL) {
		queue->head = sequence;
	} else {
		queue->tail->next = sequence;
	}
	queue->tail = sequence;
	queue->count++;
}

void queue_insert_behind(
	struct sequence_queue *queue, struct sequence *before, struct sequence *sequence)
{
	if (before == NULL) {
		queue_push_front(queue, sequence);
		return;
	}
	if (before == queue->tail) {
		queue_push_back(queue, sequence);
		return;
	}
	sequence->previous = before;
	sequence->next = before->next;
	before->next->previous = sequence;
	before->next = sequence;
	queue->count++;
}

void queue_push_front(struct sequence_queue *queue, struct sequence *sequence)
{
	sequence->previous = NULL;
	sequence->next = queue->head;
	if (queue->head == NULL) {
		queue->tail = sequence;
	} else {
		queue->head->previous = sequence;
	}
	queue->head = sequence;
	queue->count++;
}

void queue_remove(struct sequence_queue *queue, struct sequence *sequence)
{
	if (sequence->previous == NULL) {
		queue->head = sequence->next;
	} else {
		sequence->previous->next = sequence->next;
	}
	if (sequence->next == NULL) {
		queue->tail = sequence->previous;
	} else {
		sequence->next->previous = sequence->previous;
	}
	sequence->previous = NULL;
	sequence->next = NULL;
	queue->count--;
}
