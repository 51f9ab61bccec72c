#ifndef ENGINE_BASE_INTERRUPT_H
#define ENGINE_BASE_INTERRUPT_H

#include <stdbool.h>

/* Signals that ask the program to end: SIGINT, SIGTERM, and SIGHUP unless it is ignored, as under
   nohup.

   They end the program at once, with one line and exit code 1, and what it has not finished is
   removed (engine/base/unfinished.h). While a run holds them they are only noted: the run polls
   interrupt_is_pending() and completes its results. A handler notes them instead of a mask, because
   they reach any thread, those of CUDA included. */

/* Installs the handlers, once, for the whole program. Other signals that end a program, such as
   SIGPIPE, SIGQUIT, or SIGUSR1 of a batch system, kill as ever, but remove what is unfinished.
   SIGKILL, SIGRTMAX and the signals of a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL) leave it. SIGXFSZ
   is ignored, so that a write beyond a limit fails with EFBIG. */
void interrupt_catch(void);

/* From here on signals are noted, until the interrupt_release() that belongs to it. Holds may be
   nested: what several runs are held by notes what comes during and between them. */
void interrupt_hold(void);

/* Whether a signal has come since the outermost interrupt_hold(). */
bool interrupt_is_pending(void);

/* Ends a hold. The outermost forgets what was noted: the run has heeded it. */
void interrupt_release(void);

/* Between these two a signal that would end the program waits: for some steps of which all or none
   should be done. Not nested. */
void interrupt_defer(void);
void interrupt_resume(void);

#endif
