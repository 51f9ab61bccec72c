#ifndef TESTS_HARNESS_PLAIN_CRITERION_H
#define TESTS_HARNESS_PLAIN_CRITERION_H

#include <stdbool.h>

/* The part of Criterion that the tests of the GPU use, without its worker processes: compiled with
   this header in front of Criterion's, a test is a plain program that runs its cases one after the
   other in one process, so that tools which follow one process can watch it:

       compute-sanitizer build/release/tests/cuda_linear_plain [FILTER]

   FILTER is a substring of SUITE/CASE; only cases that contain it run. Exit code 1 when a case
   failed, or when no case has such a name. */

/* Settings of a suite or a case. init is called before each case; the others are accepted but
   ignored. */
struct plain_settings {
	void (*init)(void);
	double timeout;
	const char *description;
	int end; /* ends the initialiser list, which may otherwise be empty */
};

struct plain_case {
	const char *suite, *name;
	void (*run)(void);
	struct plain_settings settings;
	struct plain_case *next;
};

/* Called before main() by what Test and TestSuite define. The memory stays theirs. */
void plain_add_case(struct plain_case *test);
void plain_add_suite(struct plain_case *suite);

/* Prints and counts a failed requirement; is_fatal: the case ends too. `condition` may be followed
   by a format and its arguments; NULL ends the list. */
void plain_demand(bool is_fatal, const char *file, int line, const char *text, int condition, ...);

/* Ends the case; NULL ends the argument list. */
_Noreturn void plain_skip(const char *format, ...);

#define Test(...) PLAIN_TEST(__VA_ARGS__, .end = 0)
#define PLAIN_TEST(suite_, name_, ...)                                                             \
	static void suite_##_##name_(void);                                                        \
	__attribute__((constructor)) static void suite_##_##name_##_add(void)                      \
	{                                                                                          \
		static struct plain_case added = {.suite = #suite_,                                \
			.name = #name_,                                                            \
			.run = suite_##_##name_,                                                   \
			.settings = {__VA_ARGS__}};                                                \
		plain_add_case(&added);                                                            \
	}                                                                                          \
	static void suite_##_##name_(void)

#define TestSuite(...) PLAIN_SUITE(__VA_ARGS__, .end = 0)
#define PLAIN_SUITE(suite_, ...)                                                                   \
	__attribute__((constructor)) static void suite_##_suite_add(void)                          \
	{                                                                                          \
		static struct plain_case added = {.suite = #suite_, .settings = {__VA_ARGS__}};    \
		plain_add_suite(&added);                                                           \
	}                                                                                          \
	struct plain_case

#define cr_assert(...) PLAIN_DEMAND(true, __VA_ARGS__)
#define cr_expect(...) PLAIN_DEMAND(false, __VA_ARGS__)
#define PLAIN_DEMAND(is_fatal, ...)                                                                \
	plain_demand(is_fatal, __FILE__, __LINE__, #__VA_ARGS__, __VA_ARGS__, NULL)

#define cr_skip_test(...) plain_skip(__VA_ARGS__, NULL)

#endif
