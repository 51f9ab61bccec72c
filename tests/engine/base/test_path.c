#include "engine/base/path.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/harness/require.h"

Test(path, is_composed_as_by_printf)
{
	struct error error = {STATUS_OK, ""};
	char path[PATH_BYTES_MAX];

	require_equal(path_format(path, &error, "%s/plan%s.jsonl", "a/b", "_x"), STATUS_OK);
	cr_expect_str_eq(path, "a/b/plan_x.jsonl");
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
