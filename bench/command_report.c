#include "bench/commands.h"

#include <stdio.h>

int command_report(int argc, char **argv)
{
	(void)argc;
	fprintf(stderr, "quire %s: not in this build yet\n", argv[0]);
	return 2;
}
