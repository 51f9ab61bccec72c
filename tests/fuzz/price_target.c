#include "tests/fuzz/targets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/commands/commands.h"
#include "reports/results/results.h"
#include "tests/fuzz/sections.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"

/* Steps that a run recorded are priced by the command itself, since it reads the run's
   configuration. What it prints is not looked at. */

static enum status run_silently(struct command_line *line, struct error *error)
{
	int out = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);

	fflush(stdout);
	require(out >= 0 && nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0, "no output");
	enum status status = command_price.run(line, error);
	fflush(stdout);
	require(dup2(out, STDOUT_FILENO) >= 0, "no output");
	close(out);
	close(nowhere);
	return status;
}

bool fuzz_price(const uint8_t *bytes, size_t byte_count)
{
	static const char *const names[] = {RESULT_SUMMARY, RESULT_STEPS, NULL};
	char folder[TEMPORARY_PATH_BYTES], path[SECTIONS_PATH_BYTES];
	struct command_line line = {.command = &command_price,
		.values = calloc(1, command_price.value_bytes),
		.positionals = {folder},
		.positional_count = 1};
	struct error error = {0};

	sections_unpack(bytes, byte_count, names, folder);
	sections_path(path, folder, "priced.tsv");
	command_defaults(&command_price, line.values);
	require(command_set(&line, "out", path, &error) == STATUS_OK, "%s", error.text);
	enum status status = run_silently(&line, &error);
	require_refused_in_one_line(status, &error);
	require_equal(file_exists(path), status == STATUS_OK);
	free(line.values);
	sections_remove(folder);
	return status == STATUS_OK;
}
