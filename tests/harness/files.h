#ifndef TESTS_HARNESS_FILES_H
#define TESTS_HARNESS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole files of a test. A failure to read or write ends the test. */

/* The bytes of a file and a zero byte behind them; owned by the caller. *byte_count, unless NULL:
   without the zero byte. */
char *file_read(const char *path, size_t *byte_count);

/* As file_read(), but NULL if there is no such file. */
char *file_read_if_there(const char *path, size_t *byte_count);

void file_write(const char *path, const void *bytes, size_t byte_count);

bool file_exists(const char *path);

/* 0 if there is no such file. */
uint64_t file_byte_count(const char *path);

/* Paths of the files in a folder whose names end so, in order; none, and NULL, if
   there is no such folder. To be freed by files_forget(). */
char **files_list(const char *folder, const char *ending, size_t *count);

void files_forget(char **paths, size_t count);

/* Demands that no unfinished file, NAME.PID.part, is left. */
void require_no_parts(const char *folder);

#endif
