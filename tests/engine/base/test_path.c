#include "engine/base/path.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

Test(path, is_composed_as_by_printf)
{
	struct error error = {STATUS_OK, ""};
	char path[PATH_BYTES_MAX];

	require_equal(path_format(path, &error, "%s/plan%s.jsonl", "a/b", "_x"), STATUS_OK);
	cr_expect_str_eq(path, "a/b/plan_x.jsonl");
	require_equal(path_format(path, &error, "%s", ""), STATUS_OK);
	cr_expect_str_eq(path, "");
}

Test(path, that_is_too_long_is_refused_and_named)
{
	struct error error = {STATUS_OK, ""};
	char path[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];

	memset(folder, 'x', sizeof(folder));
	folder[PATH_BYTES_MAX - 3] = '\0';
	require_equal(path_format(path, &error, "%s/a", folder), STATUS_OK);
	require_equal(path_format(path, &error, "%s/ab", folder), STATUS_USAGE);
	cr_expect_str_eq(error.text, "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...': the path is too long");
}

Test(path, ends_in_its_name)
{
	cr_expect_str_eq(path_name("a/b/c.json"), "c.json");
	cr_expect_str_eq(path_name("c.json"), "c.json");
	cr_expect_str_eq(path_name("a/"), "");
}

/* What lies behind a file is not there; a name that no file can have is an error. */
Test(path, is_there_or_not)
{
	char folder[TEMPORARY_PATH_BYTES], path[TEMPORARY_PATH_BYTES], inner[PATH_BYTES_MAX];
	struct error error = {STATUS_OK, ""};
	bool is_there = false;

	temporary_folder(folder);
	temporary_write(folder, "file", "", path);
	require_equal(path_is_there(path, &is_there, &error), STATUS_OK);
	cr_expect(is_there);
	require_equal(path_is_there(folder, &is_there, &error), STATUS_OK);
	cr_expect(is_there);
	require_equal(path_format(inner, &error, "%s/inside", path), STATUS_OK);
	require_equal(path_is_there(inner, &is_there, &error), STATUS_OK);
	cr_expect(!is_there);
	require_equal(path_format(inner, &error, "%s/none", folder), STATUS_OK);
	require_equal(path_is_there(inner, &is_there, &error), STATUS_OK);
	cr_expect(!is_there);
	memset(inner, 'x', sizeof(inner));
	inner[sizeof(inner) - 1] = '\0';
	require_equal(path_is_there(inner, &is_there, &error), STATUS_FILE);
	cr_expect(!is_there);
	temporary_remove(folder);
}
