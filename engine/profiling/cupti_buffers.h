#ifndef ENGINE_PROFILING_CUPTI_BUFFERS_H
#define ENGINE_PROFILING_CUPTI_BUFFERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/profiling/cupti_api.h"

/* The buffers that CUPTI fills with activity records. They are shared with CUPTI's own thread. */

enum { CUPTI_BUFFER_BYTES = 1 << 20, CUPTI_BUFFERS_MAX = 64 };

struct cupti_buffer {
	struct cupti_buffer *next;
	bool is_lent; /* to CUPTI */
	size_t valid_bytes;
	uint8_t *bytes; /* (CUPTI_BUFFER_BYTES) */
};

struct cupti_buffers {
	pthread_mutex_t mutex;
	struct cupti_buffer all[CUPTI_BUFFERS_MAX];
	struct cupti_buffer *free;
	struct cupti_buffer *full, *last_full; /* in order of completion */
	uint64_t dropped;		       /* records that found no buffer */
	const struct cupti_api *api;	       /* borrowed */
};

/* At most one in a program. It must not move until it is closed. */
void cupti_buffers_init(struct cupti_buffers *buffers, const struct cupti_api *api);
void cupti_buffers_deinit(struct cupti_buffers *buffers);

/* Registers the callbacks. From then on CUPTI's requests for buffers are served. */
CUptiResult cupti_buffers_register(struct cupti_buffers *buffers);
bool cupti_buffers_are_registered(void);
void cupti_buffers_unregister(void);

/* The next full buffer in order, or NULL. It must be returned after it was read. */
struct cupti_buffer *cupti_buffers_next(struct cupti_buffers *buffers);
void cupti_buffers_return(struct cupti_buffers *buffers, struct cupti_buffer *buffer);

uint64_t cupti_buffers_dropped(struct cupti_buffers *buffers);

#endif
