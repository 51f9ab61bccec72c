#include "engine/ranks/shared_word.h"

#include "engine/base/clock.h"
#include "engine/base/integer.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS_A_CLOCK = 64 }; /* spins for each look at the clock, which takes longer than a spin */

static void spin(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static bool has_reached(const struct shared_word *word, uint32_t value)
{
	return (int32_t)(shared_word_value(word) - value) >= 0;
}

static void wake_sleepers(struct shared_word *word)
{
	if (atomic_load(&word->sleepers) != 0) {
		syscall(SYS_futex, &word->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

void shared_word_set(struct shared_word *word, uint32_t value)
{
	/* Sequentially consistent, as the waiter's two accesses are: either the waiter sees the
	   value or this sees the sleeper. */
	atomic_store(&word->value, value);
	wake_sleepers(word);
}

void shared_word_add(struct shared_word *word)
{
	atomic_fetch_add(&word->value, 1);
	wake_sleepers(word);
}

uint32_t shared_word_value(const struct shared_word *word)
{
	return atomic_load_explicit(&word->value, memory_order_acquire);
}

/* Sleeps until the word is set, is `value` already, or timeout_ns have passed. */
static void sleep_on(struct shared_word *word, uint32_t value, uint64_t timeout_ns)
{
	const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
		.tv_nsec = (long)(timeout_ns % 1000000000)};

	atomic_fetch_add(&word->sleepers, 1);
	uint32_t seen = atomic_load(&word->value);
	if ((int32_t)(seen - value) < 0) {
		/* Returns at once if the word has changed since. */
		syscall(SYS_futex, &word->value, FUTEX_WAIT, seen, &timeout, NULL, 0);
	}
	atomic_fetch_sub(&word->sleepers, 1);
}

bool shared_word_await(
	struct shared_word *word, uint32_t value, uint64_t spin_ns, uint64_t timeout_ns)
{
	if (has_reached(word, value)) {
		return true;
	}
	uint64_t start_ns = monotonic_ns();
	uint64_t waited_ns = 0;
	while (waited_ns < u64_min(spin_ns, timeout_ns)) {
		for (uint32_t i = 0; i < SPINS_A_CLOCK; i++) {
			if (has_reached(word, value)) {
				return true;
			}
			spin();
		}
		waited_ns = monotonic_ns() - start_ns;
	}
	while (waited_ns < timeout_ns && !has_reached(word, value)) {
		sleep_on(word, value, timeout_ns - waited_ns);
		waited_ns = monotonic_ns() - start_ns;
	}
	return has_reached(word, value);
}
