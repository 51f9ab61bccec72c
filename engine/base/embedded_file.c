#include "engine/base/embedded_file.h"

#include <string.h>

const struct embedded_file *embedded_file_find(
	const struct embedded_file *files, uint32_t count, const char *name)
{
	for (uint32_t index = 0; index < count; index++) {
		if (strcmp(files[index].name, name) == 0) {
			return &files[index];
		}
	}
	return NULL;
}
