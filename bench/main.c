#include "bench/commands/commands.h"
#include "engine/base/interrupt.h"
#include "engine/base/json.h"
#include "engine/base/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A command whose output could not be written has failed, even if what it found is a verdict. One
   that has failed has said why. */
static int finish(int exit_code)
{
	errno = 0;
	if ((fflush(stdout) == 0 && !ferror(stdout)) || exit_code == 2) {
		return exit_code;
	}
	fprintf(stderr, "quire: the standard output could not be written: %s\n",
		errno == 0 ? "an earlier write failed" : strerror(errno));
	return 2;
}

/* A standard descriptor that is closed would be that of the first file that is opened, into which
   the answer would go. In its place stands one that cannot be read, or written: then the command
   fails. */
static void hold_descriptors(void)
{
	for (int i = 0; i <= STDERR_FILENO; i++) {
		if (fcntl(i, F_GETFD) == -1 && errno == EBADF) {
			(void)open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY);
		}
	}
}

int main(int argc, char **argv)
{
	char version[] = "version";

	hold_descriptors();
	interrupt_catch();
	json_memory_init();
	if (argc == 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
		argv[1] = version;
	}
	int exit_code = command_run(&command_quire, argc, argv);
	unfinished_remove_all();
	return finish(exit_code);
}
