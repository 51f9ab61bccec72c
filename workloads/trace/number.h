#ifndef WORKLOADS_TRACE_NUMBER_H
#define WORKLOADS_TRACE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers out of text, exactly, without floating point. */

/* Digits only: no sign, no blanks, no fraction. False: not that, or beyond 64 bits. */
bool number_count(const char *text, size_t bytes, uint64_t *value);

/* A decimal fraction such as 12, 0.5 or 6.1114e1, times 10^places; what lies beyond is cut off. No
   sign but in the exponent. False: not that, or beyond 64 bits. */
bool number_scaled(const char *text, size_t bytes, uint32_t places, uint64_t *value);

#endif
