#include "engine/profiling/cupti_buffers.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <stdlib.h>

/* CUPTI's callbacks have no user pointer, so they find the buffers here. */
static struct cupti_buffers *cupti_buffers;

/* ---- callbacks ---- */

static void CUPTIAPI on_buffer_wanted(uint8_t **bytes, size_t *size, size_t *record_count)
{
	struct cupti_buffers *buffers = cupti_buffers;

	*bytes = NULL;
	*size = 0;
	*record_count = 0; /* 0: as many records as fit */
	if (buffers == NULL) {
		return;
	}
	pthread_mutex_lock(&buffers->mutex);
	struct cupti_buffer *buffer = buffers->free;
	if (buffer != NULL) {
		buffers->free = buffer->next;
		if (buffer->bytes == NULL) {
			buffer->bytes = memory_take(CUPTI_BUFFER_BYTES, 1);
		}
		buffer->is_lent = true;
		*bytes = buffer->bytes;
		*size = CUPTI_BUFFER_BYTES;
	}
	pthread_mutex_unlock(&buffers->mutex);
}

static void CUPTIAPI on_buffer_full(
	CUcontext context, uint32_t stream, uint8_t *bytes, size_t size, size_t valid_bytes)
{
	struct cupti_buffers *buffers = cupti_buffers;
	size_t dropped = 0;
	uint32_t i = 0;

	(void)size;
	if (buffers == NULL) {
		return;
	}
	if (buffers->api->dropped(context, stream, &dropped) != CUPTI_SUCCESS) {
		dropped = 0;
	}
	pthread_mutex_lock(&buffers->mutex);
	while (buffers->all[i].bytes != bytes) {
		i++;
		check(i < CUPTI_BUFFERS_MAX);
	}
	struct cupti_buffer *buffer = &buffers->all[i];
	buffer->next = NULL;
	buffer->is_lent = false;
	buffer->valid_bytes = valid_bytes;
	if (buffers->last_full == NULL) {
		buffers->full = buffer;
	} else {
		buffers->last_full->next = buffer;
	}
	buffers->last_full = buffer;
	buffers->dropped += dropped;
	pthread_mutex_unlock(&buffers->mutex);
}

/* ---- reading ---- */

struct cupti_buffer *cupti_buffers_next(struct cupti_buffers *buffers)
{
	pthread_mutex_lock(&buffers->mutex);
	struct cupti_buffer *buffer = buffers->full;
	if (buffer != NULL) {
		buffers->full = buffer->next;
		buffers->last_full = buffers->full == NULL ? NULL : buffers->last_full;
	}
	pthread_mutex_unlock(&buffers->mutex);
	return buffer;
}

void cupti_buffers_return(struct cupti_buffers *buffers, struct cupti_buffer *buffer)
{
	pthread_mutex_lock(&buffers->mutex);
	buffer->next = buffers->free;
	buffers->free = buffer;
	pthread_mutex_unlock(&buffers->mutex);
}

uint64_t cupti_buffers_dropped(struct cupti_buffers *buffers)
{
	pthread_mutex_lock(&buffers->mutex);
	uint64_t dropped = buffers->dropped;
	pthread_mutex_unlock(&buffers->mutex);
	return dropped;
}

void cupti_buffers_init(struct cupti_buffers *buffers, const struct cupti_api *api)
{
	*buffers = (struct cupti_buffers){.api = api};
	for (uint32_t i = 0; i < CUPTI_BUFFERS_MAX; i++) {
		buffers->all[i].next = buffers->free;
		buffers->free = &buffers->all[i];
	}
	check(pthread_mutex_init(&buffers->mutex, NULL) == 0);
}

/* A buffer that is lent to CUPTI is never freed. */
void cupti_buffers_deinit(struct cupti_buffers *buffers)
{
	for (uint32_t i = 0; i < CUPTI_BUFFERS_MAX; i++) {
		if (!buffers->all[i].is_lent) {
			free(buffers->all[i].bytes);
		}
	}
	pthread_mutex_destroy(&buffers->mutex);
}

CUptiResult cupti_buffers_register(struct cupti_buffers *buffers)
{
	check(cupti_buffers == NULL);
	cupti_buffers = buffers;
	return buffers->api->register_callbacks(on_buffer_wanted, on_buffer_full);
}

bool cupti_buffers_are_registered(void)
{
	return cupti_buffers != NULL;
}

void cupti_buffers_unregister(void)
{
	cupti_buffers = NULL;
}
