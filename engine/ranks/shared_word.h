#ifndef ENGINE_RANKS_SHARED_WORD_H
#define ENGINE_RANKS_SHARED_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A number in memory that processes share. One of them sets it to ever larger values; others wait
   for a value. A waiter spins for some time and then sleeps until it is woken, and the one that
   sets the word makes a system call only where somebody sleeps.

   Values are compared by their difference, so they may pass 2^32. Setting a word releases what was
   written before; a wait that succeeds acquires it. */

enum { CACHE_LINE = 64 };

struct shared_word {
	_Alignas(CACHE_LINE) _Atomic uint32_t value;
	_Atomic uint32_t sleepers;
};

/* A waiter that has spun this long sleeps. Spinning longer heats the processor and takes its turbo
   clock from rank 0. */
#define SHARED_WORD_SPIN_NS UINT64_C(2000000)

void shared_word_set(struct shared_word *word, uint32_t value);

/* Sets it to the next value: for a word that several set. */
void shared_word_add(struct shared_word *word);

uint32_t shared_word_value(const struct shared_word *word);

/* Waits until the word is `value` or later, at most timeout_ns, of which it spins spin_ns. Returns
   whether it is. */
bool shared_word_await(
	struct shared_word *word, uint32_t value, uint64_t spin_ns, uint64_t timeout_ns);

#endif
