#include "engine/base/check.h"

#include "engine/base/unfinished.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
	unfinished_remove_all();
	abort();
}
