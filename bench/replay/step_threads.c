#include "bench/replay/step_threads.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/ranks/shared_word.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Between two looks of a waiting thread nothing happens, so its length does not matter. */
#define SLICE_NS UINT64_C(1000000000)

/* A thread and the replica that it works for. */
struct step_thread {
	struct shared_word begun; /* steps to execute; one more than there are ends the thread */
	struct shared_word done;  /* steps executed */
	struct shared_word *executed;
	struct engine *engine;
	pthread_t thread;
	uint32_t begun_count, ended_count; /* the caller's */
	bool is_ending;

	/* of the latest step; the caller's from `done` to the next `begun` */
	enum status status;
	struct step_time time;
	struct error error;
};

struct step_threads {
	struct shared_word executed; /* by all threads */
	void *memory;		     /* that this lies in */
	uint32_t count;
	struct step_thread each[]; /* (count) */
};

static void *work(void *argument)
{
	struct step_thread *own = argument;

	for (uint32_t step = 1;; step++) {
		while (!shared_word_await(&own->begun, step, SHARED_WORD_SPIN_NS, SLICE_NS)) {
		}
		if (own->is_ending) {
			return NULL;
		}
		own->error = (struct error){0};
		own->status = engine_execute(own->engine, &own->time, &own->error);
		shared_word_set(&own->done, step);
		shared_word_add(own->executed);
	}
}

/* Words of shared memory begin a cache line. */
static struct step_threads *take(uint32_t count)
{
	struct step_threads *threads = NULL;
	size_t bytes = sizeof(*threads) + count * sizeof(threads->each[0]);
	unsigned char *memory = memory_take(1, bytes + CACHE_LINE);

	threads = (void *)(memory + (CACHE_LINE - (uintptr_t)memory % CACHE_LINE));
	threads->memory = memory;
	return threads;
}

enum status step_threads_open(struct step_threads **out, struct engine *const *engines,
	uint32_t count, struct error *error)
{
	struct step_threads *threads = take(count);

	*out = threads;
	for (; threads->count < count; threads->count++) {
		struct step_thread *own = &threads->each[threads->count];
		own->executed = &threads->executed;
		own->engine = engines[threads->count];
		int code = pthread_create(&own->thread, NULL, work, own);
		if (code != 0) {
			return error_set(error, STATUS_MEMORY,
				"no thread for replica %u of %u, whose steps take real time: %s",
				threads->count, count, strerror(code));
		}
	}
	return STATUS_OK;
}

void step_threads_close(struct step_threads *threads)
{
	if (threads == NULL) {
		return;
	}
	for (uint32_t i = 0; i < threads->count; i++) {
		struct step_time time;
		struct error ignored = {0};
		if (step_threads_is_busy(threads, i)) {
			step_threads_end(threads, i, &time, &ignored);
		}
		threads->each[i].is_ending = true;
		shared_word_set(&threads->each[i].begun, threads->each[i].begun_count + 1);
		pthread_join(threads->each[i].thread, NULL);
	}
	free(threads->memory);
}

void step_threads_begin(struct step_threads *threads, uint32_t replica)
{
	struct step_thread *own = &threads->each[replica];

	check(!step_threads_is_busy(threads, replica));
	shared_word_set(&own->begun, ++own->begun_count);
}

bool step_threads_is_busy(const struct step_threads *threads, uint32_t replica)
{
	const struct step_thread *own = &threads->each[replica];

	return own->begun_count != own->ended_count;
}

bool step_threads_is_done(const struct step_threads *threads, uint32_t replica)
{
	const struct step_thread *own = &threads->each[replica];

	check(step_threads_is_busy(threads, replica));
	return shared_word_value(&own->done) == own->begun_count;
}

enum status step_threads_end(
	struct step_threads *threads, uint32_t replica, struct step_time *time, struct error *error)
{
	struct step_thread *own = &threads->each[replica];

	check(step_threads_is_busy(threads, replica));
	while (!shared_word_await(&own->done, own->begun_count, SHARED_WORD_SPIN_NS, SLICE_NS)) {
	}
	own->ended_count++;
	*time = own->time;
	if (own->status != STATUS_OK) {
		*error = own->error;
	}
	return own->status;
}

uint32_t step_threads_executed(const struct step_threads *threads)
{
	return shared_word_value(&threads->executed);
}

void step_threads_await(
	struct step_threads *threads, uint32_t seen, uint64_t spin_ns, uint64_t timeout_ns)
{
	(void)shared_word_await(&threads->executed, seen + 1, spin_ns, timeout_ns);
}
