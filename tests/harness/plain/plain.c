#include "tests/harness/plain/criterion/criterion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum outcome { OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_SKIPPED, OUTCOME_COUNT };

/* Criterion's macros pass no context, so the shared state is static. */
static struct {
	struct plain_case *cases, *suites;
	jmp_buf end;
	enum outcome outcome; /* of the running case */
	pid_t pid;
} plain;

/* Appends to a list, so that cases run in the order of the source. */
static void append(struct plain_case **list, struct plain_case *added)
{
	while (*list != NULL) {
		list = &(*list)->next;
	}
	*list = added;
}

void plain_add_case(struct plain_case *test)
{
	append(&plain.cases, test);
}

void plain_add_suite(struct plain_case *suite)
{
	append(&plain.suites, suite);
}

void plain_demand(bool is_fatal, const char *file, int line, const char *text, int condition, ...)
{
	va_list arguments;

	if (condition) {
		return;
	}
	plain.outcome = OUTCOME_FAILED;
	va_start(arguments, condition);
	const char *format = va_arg(arguments, const char *);
	printf("%s:%d: ", file, line);
	if (format == NULL) {
		printf("not so: %s", text);
	} else {
		vprintf(format, arguments);
	}
	printf("\n");
	va_end(arguments);
	if (getpid() != plain.pid) { /* a process that the case has forked */
		fflush(stdout);
		_exit(1);
	}
	if (is_fatal) {
		longjmp(plain.end, 1);
	}
}

void plain_skip(const char *format, ...)
{
	va_list arguments;

	plain.outcome = OUTCOME_SKIPPED;
	va_start(arguments, format);
	vprintf(format, arguments);
	printf(": ");
	va_end(arguments);
	longjmp(plain.end, 1);
}

static enum outcome run(const struct plain_case *test)
{
	plain.outcome = OUTCOME_PASSED;
	plain.pid = getpid();
	if (setjmp(plain.end) != 0) {
		return plain.outcome;
	}
	for (const struct plain_case *suite = plain.suites; suite != NULL; suite = suite->next) {
		if (strcmp(suite->suite, test->suite) == 0 && suite->settings.init != NULL) {
			suite->settings.init();
		}
	}
	if (test->settings.init != NULL) {
		test->settings.init();
	}
	test->run();
	return plain.outcome;
}

int main(int argc, char **argv)
{
	static const char *const words[] = {"passed", "FAILED", "skipped"};
	unsigned counts[OUTCOME_COUNT] = {0};
	char name[256];

	if (argc > 2) {
		fprintf(stderr, "expected at most one argument: a part of SUITE/CASE\n");
		return 2;
	}
	for (const struct plain_case *test = plain.cases; test != NULL; test = test->next) {
		snprintf(name, sizeof(name), "%s/%s", test->suite, test->name);
		if (argc == 2 && strstr(name, argv[1]) == NULL) {
			continue;
		}
		enum outcome outcome = run(test);
		counts[outcome]++;
		printf("%s %s\n", name, words[outcome]);
		fflush(stdout);
	}
	printf("%u passed, %u failed, %u skipped\n", counts[OUTCOME_PASSED], counts[OUTCOME_FAILED],
		counts[OUTCOME_SKIPPED]);
	return counts[OUTCOME_FAILED] > 0 || counts[OUTCOME_PASSED] + counts[OUTCOME_SKIPPED] == 0;
}
