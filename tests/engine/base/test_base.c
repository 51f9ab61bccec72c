#include "engine/base/check.h"
#include "engine/base/counter_hash.h"
#include "engine/base/embedded_file.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/base/status.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/process.h"
#include "tests/harness/require.h"

Test(check, passes_a_true_condition)
{
	check(1 + 1 == 2);
}

Test(check, aborts_on_a_false_one, .signal = SIGABRT)
{
	check(1 + 1 == 3);
}

Test(check, says_where_and_what_is_false)
{
	char text[256] = "";
	int ends[2], state;
	require_equal(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		check(1 + 1 == 3);
	}
	close(ends[1]);
	require(read(ends[0], text, sizeof(text) - 1) > 0, "nothing was said");
	close(ends[0]);
	waitpid(child, &state, 0);
	require(WIFSIGNALED(state) && WTERMSIG(state) == SIGABRT, "state %d", state);
	require(strstr(text, "test_base.c:") != NULL &&
			strstr(text, ": check failed: 1 + 1 == 3\n") != NULL,
		"'%s'", text);
}

Test(status, text_is_one_line)
{
	struct error error = {STATUS_OK, ""};
	enum status status = error_set(&error, STATUS_INPUT, "a.jsonl:%d:\r\nfound %s", 7, "x\ny");
	require_equal(status, STATUS_INPUT);
	require_equal(error.status, STATUS_INPUT);
	cr_assert_str_eq(error.text, "a.jsonl:7:  found x y");
}

Test(status, text_is_cut_to_its_buffer)
{
	struct error error = {STATUS_OK, ""};
	char text[2 * ERROR_TEXT_BYTES];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(&error, STATUS_FILE, "%s", text);
	require_equal(strlen(error.text), ERROR_TEXT_BYTES - 1);
}

Test(status, an_error_is_never_ok, .signal = SIGABRT)
{
	struct error error = {STATUS_OK, ""};
	error_set(&error, STATUS_OK, "all is well");
}

Test(status, exit_codes_distinguish_a_verdict_from_invalid_input)
{
	require_equal(status_exit_code(STATUS_OK), 0);
	require_equal(status_exit_code(STATUS_VERDICT), 1);
	require_equal(status_exit_code(STATUS_USAGE), 2);
	require_equal(status_exit_code(STATUS_INPUT), 2);
	require_equal(status_exit_code(STATUS_FILE), 2);
	require_equal(status_exit_code(STATUS_MEMORY), 2);
	require_equal(status_exit_code(STATUS_DEVICE), 2);
}

Test(integer, narrowing_keeps_values_in_range)
{
	require_equal(u32_from(UINT32_MAX), UINT32_MAX);
	cr_assert_eq(i32_from(INT32_MIN), INT32_MIN);
	cr_assert_eq(i32_from(INT32_MAX), INT32_MAX);
}

Test(integer, narrowing_refuses_one_more, .signal = SIGABRT)
{
	u32_from((uint64_t)UINT32_MAX + 1);
}

Test(integer, narrowing_refuses_one_less, .signal = SIGABRT)
{
	i32_from((int64_t)INT32_MIN - 1);
}

Test(integer, divides_up_without_overflow)
{
	require_equal(u64_divide_up(0, 7), 0);
	require_equal(u64_divide_up(1, 7), 1);
	require_equal(u64_divide_up(7, 7), 1);
	require_equal(u64_divide_up(8, 7), 2);
	require_equal(u64_divide_up(UINT64_MAX, 2), UINT64_C(1) << 63);
	require_equal(u64_divide_up(UINT64_MAX, UINT64_MAX), 1);
}

Test(integer, power_of_two_at_least)
{
	require_equal(u64_power_of_two_at_least(1), 1);
	for (uint32_t bit = 1; bit < 63; bit++) {
		uint64_t power = UINT64_C(1) << bit;
		require_equal(u64_power_of_two_at_least(power), power);
		require_equal(u64_power_of_two_at_least(power + 1), 2 * power);
	}
	require_equal(u64_power_of_two_at_least(UINT64_C(1) << 63), UINT64_C(1) << 63);
}

Test(integer, no_power_of_two_beyond_64_bits, .signal = SIGABRT)
{
	u64_power_of_two_at_least((UINT64_C(1) << 63) + 1);
}

Test(integer, smaller_and_larger)
{
	require_equal(u64_min(3, UINT64_MAX), 3);
	require_equal(u64_max(3, UINT64_MAX), UINT64_MAX);
	require_equal(u32_min(UINT32_MAX, 4), 4);
	require_equal(u32_max(UINT32_MAX, 4), UINT32_MAX);
}

Test(memory, is_zeroed_and_never_null)
{
	unsigned char *bytes = memory_take(1000, 3);
	for (size_t index = 0; index < 3000; index++) {
		require_equal(bytes[index], 0);
	}
	free(bytes);
	void *nothing = memory_take(0, 8);
	cr_assert_not_null(nothing);
	free(nothing);
}

#ifndef __SANITIZE_ADDRESS__ /* its allocator ends the program by itself */
/* More than any address space has. */
Test(memory, that_is_exhausted_is_told_in_bytes)
{
	struct capture capture;
	int end = -1;

	capture_begin(&capture, STDERR_FILENO);
	pid_t child = fork();
	if (child == 0) {
		memory_take((size_t)1 << 40, 1 << 20);
	}
	bool has_ended = child > 0 && waitpid(child, &end, 0) == child;
	char *text = capture_end(&capture);
	require(has_ended && WIFEXITED(end) && WEXITSTATUS(end) == 2, "it ended with %d", end);
	cr_assert_str_eq(text, "quire: out of memory: 1152921504606846976 bytes requested\n");
	free(text);
}
#endif

Test(memory, an_overflowing_product_is_a_bug, .signal = SIGABRT)
{
	memory_take(SIZE_MAX / 2, 3);
}

Test(memory, grows_by_powers_of_two_and_keeps_its_content)
{
	size_t capacity = 4;
	uint32_t *numbers = memory_take(capacity, sizeof(*numbers));
	for (uint32_t count = 1; count <= 1000; count++) {
		size_t before = capacity;
		numbers = memory_grow(numbers, &capacity, count, sizeof(*numbers));
		require(capacity >= count, "%zu elements for %u", capacity, count);
		require(capacity == before || (capacity & (capacity - 1)) == 0,
			"%zu is no power of two", capacity);
		numbers[count - 1] = count;
	}
	require_equal(capacity, 1024);
	for (uint32_t index = 0; index < 1000; index++) {
		require_equal(numbers[index], index + 1);
	}
	free(numbers);
}

/* Traces, forced tokens and generators depend on these values: a change here changes every result.
   The first three are SplitMix64's published outputs for seed 0. */
Test(counter_hash, values_never_change)
{
	require_equal(counter_hash(0, 1), UINT64_C(0xe220a8397b1dcdaf));
	require_equal(counter_hash(0, 2), UINT64_C(0x6e789e6aa1b965f4));
	require_equal(counter_hash(0, 3), UINT64_C(0x06c45d188009454f));
	require_equal(counter_key(0, 0), counter_mix(counter_mix(UINT64_C(0x9e3779b97f4a7c15))));
}

Test(counter_hash, keys_separate_seeds_and_purposes)
{
	enum { SIDE = 32 };
	uint64_t keys[SIDE * SIDE];
	for (uint32_t index = 0; index < SIDE * SIDE; index++) {
		keys[index] = counter_key(index / SIDE, index % SIDE);
		for (uint32_t other = 0; other < index; other++) {
			require(keys[index] != keys[other], "keys %u and %u agree", index, other);
		}
	}
}

Test(counter_hash, below_stays_below_and_reaches_both_ends)
{
	require_equal(counter_below(0, 10), 0);
	require_equal(counter_below(UINT32_MAX, 10), 9);
	require_equal(counter_below(UINT32_MAX, 1), 0);
	require_equal(counter_below(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
	uint32_t counts[10] = {0};
	for (uint64_t counter = 0; counter < 10000; counter++) {
		counts[counter_below((uint32_t)counter_hash(1, counter), 10)]++;
	}
	for (uint32_t value = 0; value < 10; value++) {
		require(counts[value] > 850 && counts[value] < 1150, "%u came %u times in 10,000",
			value, counts[value]);
	}
}

Test(embedded_file, is_found_by_its_whole_name)
{
	static const struct embedded_file files[] = {{"a.json", "{}", 2}, {"b.json", "[]", 2}};
	cr_assert_eq(embedded_file_find(files, 2, "b.json"), &files[1]);
	cr_assert_null(embedded_file_find(files, 2, "b"));
	cr_assert_null(embedded_file_find(files, 2, "b.jsonl"));
	cr_assert_null(embedded_file_find(files, 0, "a.json"));
}
