/* getline is not C. */
#define _DEFAULT_SOURCE

#include "tests/harness/recording.h"

#include "tests/harness/files.h"
#include "tests/harness/require.h"

#include <stdio.h>
#include <stdlib.h>

void recordings_find(struct recordings *recordings, const char *variable, const char *folder_beside)
{
	const char *folder = getenv(variable);

	if (folder == NULL || folder[0] == '\0') {
		folder = folder_beside;
	}
	recordings->folder = folder;
	recordings->paths = files_list(folder, ".jsonl", &recordings->count);
}

void recordings_forget(struct recordings *recordings)
{
	files_forget(recordings->paths, recordings->count);
}

void recording_read(const char *path, void (*take)(void *own, cJSON *content), void *own)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t capacity = 0;

	require(file != NULL, "%s cannot be read", path);
	while (getline(&line, &capacity, file) > 0) {
		cJSON *row = cJSON_Parse(line);
		require(row != NULL && row->child != NULL, "%s has a line that is no object", path);
		take(own, cJSON_DetachItemViaPointer(row, row->child));
		cJSON_Delete(row);
	}
	free(line);
	(void)fclose(file);
}

const cJSON *recording_item(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	require(item != NULL, "the recording has no %s", name);
	return item;
}

const cJSON *recording_array(const cJSON *object, const char *name)
{
	const cJSON *item = recording_item(object, name);

	require(cJSON_IsArray(item), "%s of the recording is no list", name);
	return item;
}

double recording_decimal(const cJSON *object, const char *name)
{
	const cJSON *item = recording_item(object, name);

	require(cJSON_IsNumber(item), "%s of the recording is no number", name);
	return item->valuedouble;
}

uint32_t recording_number(const cJSON *object, const char *name)
{
	return (uint32_t)recording_decimal(object, name);
}

bool recording_truth(const cJSON *object, const char *name)
{
	return cJSON_IsTrue(recording_item(object, name));
}
