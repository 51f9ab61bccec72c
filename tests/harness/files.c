#include "tests/harness/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/memory.h"
#include "tests/harness/require.h"

enum { CHUNK_BYTES = 1 << 16 };

char *file_read_if_there(const char *path, size_t *byte_count)
{
	FILE *file = fopen(path, "rb");
	char *bytes = NULL;
	size_t capacity = 0, count = 0;

	if (file == NULL) {
		return NULL;
	}
	for (size_t got = 1; got > 0; count += got) {
		bytes = memory_grow(bytes, &capacity, count + CHUNK_BYTES + 1, 1);
		got = fread(bytes + count, 1, CHUNK_BYTES, file);
	}
	require(!ferror(file) && fclose(file) == 0, "cannot read %s", path);
	bytes[count] = '\0';
	if (byte_count != NULL) {
		*byte_count = count;
	}
	return bytes;
}

char *file_read(const char *path, size_t *byte_count)
{
	char *bytes = file_read_if_there(path, byte_count);

	require(bytes != NULL, "cannot open %s", path);
	return bytes;
}

void file_write(const char *path, const void *bytes, size_t byte_count)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "cannot open %s", path);
	require(fwrite(bytes, 1, byte_count, file) == byte_count && fclose(file) == 0,
		"cannot write %s", path);
}

bool file_exists(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0;
}

uint64_t file_byte_count(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

void require_no_parts(const char *folder)
{
	DIR *open = opendir(folder);
	struct dirent *entry;

	require(open != NULL, "%s is not there", folder);
	while ((entry = readdir(open)) != NULL) {
		require(strstr(entry->d_name, ".part") == NULL, "%s is left behind", entry->d_name);
	}
	closedir(open);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_ending(const char *name, const char *ending)
{
	size_t length = strlen(name), ending_length = strlen(ending);

	return name[0] != '.' && length > ending_length &&
	       strcmp(name + length - ending_length, ending) == 0;
}

char **files_list(const char *folder, const char *ending, size_t *count)
{
	DIR *open = opendir(folder);
	char **paths = NULL;
	struct dirent *entry;

	*count = 0;
	while (open != NULL && (entry = readdir(open)) != NULL) {
		if (!has_ending(entry->d_name, ending)) {
			continue;
		}
		size_t bytes = strlen(folder) + strlen(entry->d_name) + 2;
		char *path = malloc(bytes);
		paths = realloc(paths, (*count + 1) * sizeof(*paths));
		require(paths != NULL && path != NULL, "out of memory");
		snprintf(path, bytes, "%s/%s", folder, entry->d_name);
		paths[(*count)++] = path;
	}
	if (open != NULL) {
		closedir(open);
	}
	if (paths != NULL) {
		qsort(paths, *count, sizeof(*paths), compare_paths);
	}
	return paths;
}

void files_forget(char **paths, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(paths[i]);
	}
	free(paths);
}
