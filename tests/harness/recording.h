#ifndef TESTS_HARNESS_RECORDING_H
#define TESTS_HARNESS_RECORDING_H

#include <cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Recordings of what other engines decided: a folder of .jsonl files. A line is an object with one
   member, whose name says what it holds, e.g. {"step": {...}}. A recording that breaks these rules
   ends the test. */
struct recordings {
	const char *folder;
	char **paths; /* in order */
	size_t count; /* 0 if the folder is not there */
};

/* The folder that the variable of the environment names, or else the one beside the project. */
void recordings_find(
	struct recordings *recordings, const char *variable, const char *folder_beside);

void recordings_forget(struct recordings *recordings);

/* Hands over the member of each line; its `string` is its name. take() owns it from then on. */
void recording_read(const char *path, void (*take)(void *own, cJSON *content), void *own);

const cJSON *recording_item(const cJSON *object, const char *name);
const cJSON *recording_array(const cJSON *object, const char *name);
double recording_decimal(const cJSON *object, const char *name);
uint32_t recording_number(const cJSON *object, const char *name);
bool recording_truth(const cJSON *object, const char *name);

#endif
