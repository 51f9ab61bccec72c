#include "bench/commands/commands.h"

#include "bench/record/provenance.h"

#include <stdio.h>

static enum status run(struct command_line *line, struct error *error)
{
	(void)line;
	(void)error;
	printf("quire %s, commit %s, %s\n", version_number(), version_commit(), version_cuda());
	return STATUS_OK;
}

const struct command command_version = {
	.name = "version",
	.title = "print version, commit, and whether CUDA is built in",
	.arguments = "",
	.summary =
		"Prints the version, the commit, and the CUDA toolkit and GPU architectures that "
		"this\n"
		"program was built with. `quire --version` and `quire -V` do the same.",
	.run = run,
};
