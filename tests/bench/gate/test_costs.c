#include "bench/gate/costs.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/path.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The files of a result count; what has a date, is hidden or is no file does not. */
Test(costs, bytes_written_are_those_of_the_result)
{
	char folder[TEMPORARY_PATH_BYTES], path[PATH_BYTES_MAX];
	struct error error = {0};
	double bytes = 7;

	temporary_folder(folder);
	require(costs_bytes_written(folder, &bytes, &error) == STATUS_OK, "%s", error.text);
	require(bytes == 0, "%g", bytes);
	temporary_write(folder, "summary.json", "12345", NULL);
	temporary_write(folder, "steps.tsv", "123", NULL);
	temporary_write(folder, "provenance.json", "1234567890", NULL);
	temporary_write(folder, ".hidden", "12", NULL);
	snprintf(path, sizeof(path), "%s/more", folder);
	require_equal(mkdir(path, 0700), 0);
	require(costs_bytes_written(folder, &bytes, &error) == STATUS_OK, "%s", error.text);
	require(bytes == 8, "%g", bytes);
	temporary_remove(folder);
	require_equal(costs_bytes_written(folder, &bytes, &error), STATUS_FILE);
}

/* What a program that counts says on its standard error; 0: nothing that counts. */
static double counted(const char *line)
{
	const char *const arguments[] = {"sh", "-c", line, NULL};
	struct child child;
	struct child *const children[] = {&child};
	struct error error = {0};
	double instructions = -1;
	uint32_t ended;

	require(child_start(&child, arguments, 0, &error) == STATUS_OK, "%s", error.text);
	require(child_wait(children, 1, &ended, &error) == STATUS_OK, "%s", error.text);
	bool is_known = costs_instructions(&child, &instructions);
	child_close(&child);
	return is_known ? instructions : 0;
}

Test(costs, instructions_are_what_valgrind_says)
{
	double found = counted("echo '==7== Events    : Ir\n==7== Collected : 123456789' >&2");

	require(found == 123456789, "%g", found);
	require(counted("echo 'Collected : 5'") == 0, "the standard output counts");
	require(counted("echo 'Collected : 0' >&2") == 0, "no instruction at all");
	require(counted("echo none >&2") == 0, "no line");
	require(counted("true") == 0, "no output");
}

Test(costs, valgrind_writes_no_file)
{
	const char *words[COUNTING_WORDS];

	require_equal(costs_count_words(words), COUNTING_WORDS);
	cr_assert_str_eq(words[0], "valgrind");
	cr_assert_str_eq(words[1], "--tool=callgrind");
	cr_assert_str_eq(words[2], "--callgrind-out-file=/dev/null");
}

/* The name of the processor stands in the environment of a baseline, not its number. */
Test(costs, the_environment_has_the_name_of_the_processor)
{
	struct text text = {0};
	struct error error = {0};
	char line[1024], expected[1100] = "";
	FILE *file = fopen("/proc/cpuinfo", "r");

	while (file != NULL && expected[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, "model name", 10) == 0) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(expected, sizeof(expected), "; processor %s; its features ",
				strchr(line, ':') + 2);
		}
	}
	if (file != NULL) {
		fclose(file);
	}
	if (expected[0] == '\0') {
		cr_skip_test("no processor is named");
	}
	require_equal(costs_add_environment(&text, &error), STATUS_OK);
	const char *at = strstr(text.bytes, expected);
	require(at != NULL, "'%s' is not in '%s'", expected, text.bytes);
	require_equal(strspn(at + strlen(expected), "0123456789abcdef"), 16);
	text_deinit(&text);
}
