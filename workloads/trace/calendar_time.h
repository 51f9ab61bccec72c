#ifndef WORKLOADS_TRACE_CALENDAR_TIME_H
#define WORKLOADS_TRACE_CALENDAR_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A calendar time of the years 1971 to 2200, such as "2023-11-16 18:15:46.6805900" (with a T in the
   middle too; with Z or an offset from UTC behind it, or without) to nanoseconds since 1970. False:
   it is none. */
bool calendar_time_ns(const char *text, size_t bytes, uint64_t *ns);

/* Whether a text that is no calendar time has the form of a date: digits as in 2023-13-01. */
bool calendar_time_has_form(const char *text, size_t bytes);

#define CALENDAR_TIME_FORM "YYYY-MM-DD HH:MM:SS.fraction, with +HH:MM or without"

#endif
