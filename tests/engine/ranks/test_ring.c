#include "engine/ranks/ring.h"

#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/ring_stress.h"

#include "engine/base/clock.h"
#include "engine/ranks/shared_word.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* The ring in one thread against a plain queue for each reader, and between threads. */

/* ---- against queues ---- */

enum { OPERATIONS = 200 };

/* Random posts and takes. Nothing waits: what cannot be done is refused at once. The model is two
   counts a reader, since message i says i. */
static void compare_with_queues(struct prop *prop, const void *context)
{
	_Alignas(CACHE_LINE) static struct ring ring;
	uint32_t readers = prop_range(prop, 1, RING_READERS_MAX);
	/* Often just below the count where 32 bits wrap. */
	uint32_t first = prop_range(prop, 0, 2) == 0 ? 0 : UINT32_MAX - prop_range(prop, 0, 40);
	uint64_t posted = 0, taken[RING_READERS_MAX] = {0};
	struct rank_message message;
	uint32_t slowest = 0;

	(void)context; /* all it needs is drawn */
	memset(&ring, 0, sizeof(ring));
	ring_init(&ring, readers, first);
	for (uint32_t i = 0; i < OPERATIONS; i++) {
		uint32_t reader = prop_range(prop, 0, readers); /* or the writer */
		if (reader < readers) {
			bool is_there = ring_take(&ring, reader, &message, 0, 0);
			require_equal(is_there, taken[reader] < posted);
			if (is_there) {
				require_equal(message.step, taken[reader]);
				taken[reader]++;
			}
			continue;
		}
		uint64_t least = posted;
		for (uint32_t r = 0; r < readers; r++) {
			least = taken[r] < least ? taken[r] : least;
		}
		message = (struct rank_message){.step = posted};
		bool is_posted = ring_post(&ring, &message, 0, 0, &slowest);
		require_equal(is_posted, posted - least < RING_SLOTS);
		require(is_posted || taken[slowest] + RING_SLOTS == posted, "%u is not slow",
			slowest);
		posted += is_posted;
	}
}

Test(ring, gives_every_reader_what_a_queue_would)
{
	const struct prop_options options = {
		.name = "ring", .body = compare_with_queues, .trials = 300};

	cr_assert(prop_holds(&options));
}

/* ---- between threads ---- */

static void stress(const struct ring_stress *stress)
{
	cr_assert_eq(ring_stress_run(stress), 0);
}

Test(ring, passes_a_million_messages_of_empty_steps)
{
	stress(&(const struct ring_stress){.readers = 1, .messages = 1000 * 1000});
}

Test(ring, passes_the_count_where_32_bits_wrap)
{
	stress(&(const struct ring_stress){
		.readers = 3, .messages = 20000, .first = UINT32_MAX - 10000});
}

Test(ring, wakes_readers_that_sleep_and_waits_for_slow_ones)
{
	stress(&(const struct ring_stress){.readers = 3, .messages = 1500, .naps = 50});
}

Test(ring, lets_readers_spin_before_they_sleep)
{
	stress(&(const struct ring_stress){
		.readers = 1, .messages = 400, .naps = 20, .spin_ns = SHARED_WORD_SPIN_NS});
}

/* ---- the word itself ---- */

Test(shared_word, is_awaited_by_the_difference_of_values)
{
	_Alignas(CACHE_LINE) static struct shared_word word;

	shared_word_set(&word, UINT32_MAX);
	cr_assert(shared_word_await(&word, UINT32_MAX, 0, 0));
	cr_assert(shared_word_await(&word, UINT32_MAX - 5, 0, 0));
	cr_assert_not(shared_word_await(&word, 0, 0, 0));
	cr_assert_not(shared_word_await(&word, 3, 1000, 2000000));
	shared_word_set(&word, 3);
	cr_assert(shared_word_await(&word, 3, 0, 0));
	cr_assert(shared_word_await(&word, UINT32_MAX, 0, 0));
}

/* ---- a word that several wait for ---- */

static void *await_one(void *word)
{
	return shared_word_await(word, 1, 0, UINT64_C(20000000000)) ? word : NULL;
}

/* However many sleep, all wake: none waits for the end of its time. */
Test(ring, a_word_that_is_set_wakes_all_sleepers)
{
	_Alignas(CACHE_LINE) static struct shared_word word;
	pthread_t sleepers[7];

	for (uint32_t i = 0; i < 7; i++) {
		require(pthread_create(&sleepers[i], NULL, await_one, &word) == 0, "no thread");
	}
	while (atomic_load(&word.sleepers) < 7) {
		usleep(1000);
	}
	usleep(20000); /* from the count to the system call */
	uint64_t start_ns = monotonic_ns();
	shared_word_set(&word, 1);
	for (uint32_t i = 0; i < 7; i++) {
		void *has_woken;
		pthread_join(sleepers[i], &has_woken);
		require(has_woken != NULL, "a sleeper has not seen the value");
	}
	uint64_t took_ns = monotonic_ns() - start_ns;
	require(took_ns < UINT64_C(10000000000), "%llu ns until all were awake",
		(unsigned long long)took_ns);
}
