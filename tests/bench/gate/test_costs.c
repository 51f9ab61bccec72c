#include "bench/gate/costs.h"

#include <criterion/criterion.h>

#include <stdio.h>
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
