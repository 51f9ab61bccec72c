/* unsetenv is not C. */
#define _DEFAULT_SOURCE

#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/process.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"

/* Tests of the harness itself: it must find failures and shrink them. */

static void body_true(struct prop *prop, const void *context)
{
	(void)context;
	uint32_t bound = prop_range(prop, 1, 100);
	require(prop_below(prop, bound) < bound, "a choice left its range");
	uint32_t value = prop_range(prop, 5, 7);
	require(value >= 5 && value <= 7, "a range left its range");
	uint32_t weights[5];
	prop_swarm(prop, weights, 5);
	uint32_t index = prop_weighted(prop, weights, 5);
	require(index < 5 && weights[index] > 0, "an operation of weight 0 was drawn");
}

Test(property, holds_where_nothing_fails)
{
	struct prop_options options = {.name = "true", .body = body_true, .trials = 2000};
	cr_assert(prop_holds(&options));
}

/* Runs a property and demands that it fails. Returns its output, owned by the caller. */
static char *failure_of(const struct prop_options *options)
{
	struct capture capture;

	unsetenv("PROP_SEED");
	unsetenv("PROP_TRIALS");
	unsetenv("PROP_SHRINK");
	capture_begin(&capture, STDERR_FILENO);
	bool is_holding = prop_holds(options);
	char *text = capture_end(&capture);
	cr_assert(!is_holding, "it holds: %s", text);
	return text;
}

/* Fails when 3 of the numbers drawn exceed 1000: the smallest case is three times 1001. */
static void body_three_large(struct prop *prop, const void *context)
{
	(void)context;
	uint32_t count = prop_range(prop, 0, 50);
	uint32_t large = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = prop_below(prop, 2000);
		prop_log(prop, "draw %u", (unsigned)value);
		large += value > 1000;
	}
	require(large < 3, "three large numbers");
}

Test(property, shrinks_to_the_smallest_script)
{
	struct prop_options options = {.name = "large", .body = body_three_large, .trials = 100};
	char *text = failure_of(&options);
	cr_assert(strstr(text, "PROP_SEED=") != NULL, "%s", text);
	cr_assert(strstr(text, "the script:\ndraw 1001\ndraw 1001\ndraw 1001\nand") != NULL, "%s",
		text);
	cr_assert(strstr(text, "three large numbers") != NULL, "%s", text);
	free(text);
}

static void body_crash(struct prop *prop, const void *context)
{
	(void)context;
	if (prop_range(prop, 0, 1000) >= 17) {
		prop_log(prop, "crash");
		(void)raise(SIGSEGV);
	}
}

Test(property, a_crash_is_a_failure_and_shrinks)
{
	struct prop_options options = {.name = "crash", .body = body_crash, .trials = 100};
	char *text = failure_of(&options);
	cr_assert(strstr(text, "shrink them: 17\nthe script:\ncrash\n") != NULL, "%s", text);
	free(text);
}

static void body_hang(struct prop *prop, const void *context)
{
	(void)context;
	volatile bool is_hanging = prop_range(prop, 0, 1) == 1;
	while (is_hanging) {
	}
}

Test(property, a_hang_is_a_failure, .timeout = 60)
{
	struct prop_options options = {
		.name = "hang", .body = body_hang, .trials = 100, .timeout_s = 1};
	char *text = failure_of(&options);
	cr_assert(strstr(text, "shrink them: 1\n") != NULL, "%s", text);
	free(text);
}

/* A failing seed that was reported fails again at once when it is given. */
static void body_rare(struct prop *prop, const void *context)
{
	(void)context;
	require(prop_below(prop, 1000) != 7, "seven");
}

Test(property, a_reported_seed_fails_again)
{
	struct prop_options options = {.name = "rare", .body = body_rare, .trials = 100000};
	char *text = failure_of(&options);
	const char *found = strstr(text, "PROP_SEED=");
	cr_assert(found != NULL);
	uint64_t seed = strtoull(found + strlen("PROP_SEED="), NULL, 10);
	struct prop_options again = {
		.name = "again", .body = body_rare, .always_seeds = &seed, .always_count = 1};
	free(text);
	free(failure_of(&again));
}

static void body_count(struct prop *prop, const void *context)
{
	(void)context;
	uint32_t length = prop_range(prop, 0, 3);
	for (uint32_t i = 0; i < length; i++) {
		(void)prop_below(prop, 3);
	}
}

/* 3^0 + 3^1 + 3^2 + 3^3 strings over three letters. */
Test(property, exhaustive_counts_every_case_once)
{
	struct prop_options options = {.name = "count", .body = body_count, .trials = 100};
	uint64_t case_count = 0;
	cr_assert(prop_holds_always(&options, &case_count));
	cr_assert_eq(case_count, 40);
}

static void body_one_case(struct prop *prop, const void *context)
{
	(void)context;
	uint64_t a = prop_below(prop, 5);
	uint64_t b = prop_below(prop, 5);
	uint64_t c = prop_below(prop, 5);
	require(!(a == 3 && b == 4 && c == 2), "the one case");
}

Test(property, exhaustive_finds_the_only_failing_case)
{
	struct prop_options options = {
		.name = "one case", .body = body_one_case, .trials = 1000, .is_silent = true};
	uint64_t case_count = 0;
	cr_assert(!prop_holds_always(&options, &case_count));
	cr_assert_eq(case_count, 3 * 25 + 4 * 5 + 2);
}

Test(property, exhaustive_refuses_to_claim_what_it_did_not_run)
{
	struct prop_options options = {.name = "too many", .body = body_count, .trials = 10};
	uint64_t case_count = 0;
	cr_assert(!prop_holds_always(&options, &case_count));
}
