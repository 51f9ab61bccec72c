#include "engine/base/interrupt.h"

#include "engine/base/check.h"
#include "engine/base/unfinished.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static atomic_uint interrupt_holds; /* 0: signals end the program */
static atomic_bool interrupt_was_noted;
static atomic_bool interrupt_is_deferred;

static _Noreturn void end_interrupted(void)
{
	static const char line[] = "quire: interrupted\n";

	unfinished_remove_all();
	ssize_t ignored = write(STDERR_FILENO, line, sizeof(line) - 1);
	(void)ignored;
	_exit(1);
}

static void on_interrupt(int signal)
{
	(void)signal;
	if (atomic_load(&interrupt_holds) > 0 || atomic_load(&interrupt_is_deferred)) {
		atomic_store(&interrupt_was_noted, true);
	} else {
		end_interrupted();
	}
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	sigfillset(&action.sa_mask);
	check(sigaction(signal, &action, NULL) == 0);
}

/* The signal is blocked in its handler, and kills once that returns. */
static void on_death(int signal)
{
	unfinished_remove_all();
	handle(signal, SIG_DFL, 0);
	raise(signal);
}

static bool is_left_to(int signal, void (*handler)(int))
{
	struct sigaction action;

	return sigaction(signal, NULL, &action) == 0 && action.sa_handler == handler;
}

/* A signal that is ignored, or that a profiler has taken for itself, stays as it is. */
static void catch_death(int signal)
{
	if (is_left_to(signal, SIG_DFL)) {
		handle(signal, on_death, 0);
	}
}

void interrupt_catch(void)
{
	/* All that end a program unless it says otherwise, but for those of a crash, after which
	   nothing in memory can be relied on. */
	static const int deaths[] = {SIGPIPE, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM,
		SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGSYS, SIGTRAP, SIGABRT};

	/* SIGINT too when it is ignored, as shells do to jobs of a script: `kill -INT` ends a run
	   in the background. */
	handle(SIGINT, on_interrupt, SA_RESTART);
	handle(SIGTERM, on_interrupt, SA_RESTART);
	if (!is_left_to(SIGHUP, SIG_IGN)) {
		handle(SIGHUP, on_interrupt, SA_RESTART);
	}
	for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
		catch_death(deaths[i]);
	}
	/* valgrind keeps the last one. */
	for (int signal = SIGRTMIN; signal < SIGRTMAX; signal++) {
		catch_death(signal);
	}
	handle(SIGXFSZ, SIG_IGN, 0);
}

void interrupt_hold(void)
{
	if (atomic_load(&interrupt_holds) == 0) {
		atomic_store(&interrupt_was_noted, false);
	}
	atomic_fetch_add(&interrupt_holds, 1);
}

bool interrupt_is_pending(void)
{
	return atomic_load(&interrupt_was_noted);
}

void interrupt_release(void)
{
	check(atomic_load(&interrupt_holds) > 0);
	if (atomic_fetch_sub(&interrupt_holds, 1) == 1) {
		atomic_store(&interrupt_was_noted, false);
	}
}

void interrupt_defer(void)
{
	check(!atomic_load(&interrupt_is_deferred));
	atomic_store(&interrupt_is_deferred, true);
}

void interrupt_resume(void)
{
	atomic_store(&interrupt_is_deferred, false);
	if (atomic_load(&interrupt_holds) == 0 && atomic_load(&interrupt_was_noted)) {
		end_interrupted();
	}
}
