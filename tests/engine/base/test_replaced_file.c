#include "engine/base/replaced_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/input_file.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

static char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES], made[PATH_BYTES_MAX];
static struct replaced_file file;
static struct error error;

static void set_up(void)
{
	temporary_folder(folder);
	temporary_write(folder, "history", "old\nlast", path);
	snprintf(made, sizeof(made), "%s.%ld.new", path, (long)getpid());
	require_equal(replaced_file_open(&file, path, &error), STATUS_OK);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(replaced_file, .init = set_up, .fini = tear_down);

static void require_alone(void)
{
	require(access(made, F_OK) != 0, "%s is still there", made);
}

static void require_content(const char *expected)
{
	size_t bytes;
	char *text = file_read(path, &bytes);

	cr_assert_str_eq(text, expected);
	free(text);
}

Test(replaced_file, is_the_old_one_until_it_is_committed)
{
	require_equal(replaced_file_copy(&file, path, &error), STATUS_OK);
	fputs("new\n", file.output.file);
	require_content("old\nlast");
	require_equal(replaced_file_commit(&file, &error), STATUS_OK);
	require_content("old\nlast\nnew\n");
	require_alone();
}

/* Whole lines, of files around the size of a buffer too; nothing is added to one without a line. */
Test(replaced_file, copies_whole_lines)
{
	static const uint32_t sizes[] = {0, 1, 65535, 65536, 65537, 131072};
	static char text[131072 + 2];

	replaced_file_abandon(&file);
	for (uint32_t i = 0; i < 2 * (sizeof(sizes) / sizeof(sizes[0])); i++) {
		uint32_t size = sizes[i / 2];
		bool has_end = i % 2 == 0 || size == 0;
		char from[TEMPORARY_PATH_BYTES];
		memset(text, 'x', sizeof(text));
		text[size] = '\0';
		if (has_end && size > 0) {
			text[size - 1] = '\n';
		}
		temporary_write(folder, "from", text, from);
		require_equal(replaced_file_open(&file, path, &error), STATUS_OK);
		require_equal(replaced_file_copy(&file, from, &error), STATUS_OK);
		require_equal(replaced_file_commit(&file, &error), STATUS_OK);
		strcpy(text + size, has_end ? "" : "\n");
		require_content(text);
	}
}

Test(replaced_file, stays_where_the_new_one_is_abandoned)
{
	fputs("new\n", file.output.file);
	replaced_file_abandon(&file);
	require_content("old\nlast");
	require_alone();
}

Test(replaced_file, cannot_have_the_name_of_a_folder)
{
	fputs("new\n", file.output.file);
	require(unlink(path) == 0 && mkdir(path, 0755) == 0, "no folder");
	require_equal(replaced_file_commit(&file, &error), STATUS_FILE);
	require(strstr(error.text, path) != NULL, "'%s' does not name %s", error.text, path);
	require(rmdir(path) == 0, "the folder is gone");
	require_alone();
}

Test(replaced_file, is_refused_where_the_command_reads_it)
{
	bool is_there = false;

	require_equal(replaced_file_old(&file, "--baseline", &is_there, &error), STATUS_OK);
	cr_assert(is_there);
	int descriptor = input_descriptor(path, INPUT_FILE, &error);
	require(descriptor >= 0, "%s", error.text);
	require_equal(replaced_file_old(&file, "--baseline", &is_there, &error), STATUS_USAGE);
	char expected[2 * TEMPORARY_PATH_BYTES];
	snprintf(expected, sizeof(expected),
		"--baseline %s: is read by this command, expected another file", path);
	require(strcmp(error.text, expected) == 0, "%s", error.text);
	close(descriptor);
	replaced_file_abandon(&file);
}
