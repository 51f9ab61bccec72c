#define _XOPEN_SOURCE 700

#include "tests/harness/temporary.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/require.h"

void temporary_folder(char *folder)
{
	const char *parent = getenv("TMPDIR");
	int length = snprintf(folder, TEMPORARY_PATH_BYTES, "%s/quire-test-XXXXXX",
		parent == NULL ? P_tmpdir : parent);
	require(length > 0 && length < TEMPORARY_PATH_BYTES, "TMPDIR is too long");
	require(mkdtemp(folder) != NULL, "cannot make %s", folder);
}

void temporary_write(const char *folder, const char *name, const char *text, char *path)
{
	char own[TEMPORARY_PATH_BYTES];
	int length = snprintf(own, sizeof(own), "%s/%s", folder, name);
	require(length > 0 && length < TEMPORARY_PATH_BYTES, "the path is too long");
	FILE *file = fopen(own, "wb");
	require(file != NULL, "cannot write %s", own);
	require(fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s", own);
	if (path != NULL) {
		memcpy(path, own, (size_t)length + 1);
	}
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)kind;
	(void)walk;
	return remove(path);
}

void temporary_remove(const char *folder)
{
	require(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "cannot remove %s",
		folder);
}
