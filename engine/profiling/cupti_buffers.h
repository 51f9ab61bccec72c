#ifndef ENGINE_PROFILING_CUPTI_BUFFERS_H
#define ENGINE_PROFILING_CUPTI_BUFFERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/profiling/cupti_api.h"

/* The buffers that CUPTI fills with activity records. CUPTI's own thread and ours share them. */

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

/* One at a time in a program, at a fixed address until it is closed. */
void cupti_buffers_init(struct cupti_buffers *buffers, const struct cupti_api *api);
void cupti_buffers_deinit(struct cupti_buffers *buffers);

/* From here on CUPTI's requests are served; until the end of it they get nothing. */
CUptiResult cupti_buffers_register(struct cupti_buffers *buffers);
bool cupti_buffers_are_registered(void);
void cupti_buffers_unregister(void);

/* The full buffer that is next in order, NULL: there is none. It is returned when it was read. */
struct cupti_buffer *cupti_buffers_next(struct cupti_buffers *buffers);
void cupti_buffers_return(struct cupti_buffers *buffers, struct cupti_buffer *buffer);

uint64_t cupti_buffers_dropped(struct cupti_buffers *buffers);

#endif
