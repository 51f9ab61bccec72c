#ifndef TESTS_HARNESS_REQUIRE_H
#define TESTS_HARNESS_REQUIRE_H

#include <stdint.h>

/* Requirements of a test. Like check(), a failed one prints a line and aborts, which both a
   Criterion test and a property's trial count as a failure. Unlike check(), it prints the compared
   values. */

_Noreturn void require_failed(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* require(condition, format, ...): with a message. */
#define require(condition, ...)                                                                    \
	((condition) ? (void)0 : require_failed(__FILE__, __LINE__, __VA_ARGS__))

/* require_equal(found, expected): two integers. */
#define require_equal(found, expected)                                                             \
	require_equal_u64(                                                                         \
		(uint64_t)(found), (uint64_t)(expected), #found, #expected, __FILE__, __LINE__)

void require_equal_u64(uint64_t found, uint64_t expected, const char *found_text,
	const char *expected_text, const char *file, int line);

#endif
