#include "bench/commands/commands.h"
#include "engine/base/json.h"

#include <stdio.h>
#include <string.h>

/* A command whose output could not be written has failed. */
static int finish(int exit_code)
{
	if (fflush(stdout) != 0 || ferror(stdout)) {
		perror("quire: the standard output could not be written");
		return exit_code == 0 ? 2 : exit_code;
	}
	return exit_code;
}

int main(int argc, char **argv)
{
	char version[] = "version";

	json_memory_init();
	if (argc == 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
		argv[1] = version;
	}
	return finish(command_run(&command_quire, argc, argv));
}
