#ifndef ENGINE_BASE_CHECK_H
#define ENGINE_BASE_CHECK_H

#include <stdbool.h>

/* check(condition): an assertion about quire's own code that is compiled into every build. A failed
   check is a bug in quire, never bad input: it prints the condition, its file and line, and aborts.
   */

#ifdef __cplusplus
extern "C" {
#endif

_Noreturn void check_failed(const char *condition, const char *file, int line);

#ifdef __cplusplus
}
#endif

#define check(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

/* Marks a line that cannot be reached; if it is, prints the reason and aborts. */
#define check_unreachable(reason) check_failed(reason, __FILE__, __LINE__)

#endif
