#ifndef TESTS_HARNESS_TEMPORARY_H
#define TESTS_HARNESS_TEMPORARY_H

/* A temporary folder of a test, and text files in it. */

enum { TEMPORARY_PATH_BYTES = 512 };

/* Makes an empty folder; its path is written to `folder` (TEMPORARY_PATH_BYTES). */
void temporary_folder(char *folder);

/* Writes FOLDER/NAME; its path is written to `path` (TEMPORARY_PATH_BYTES), unless NULL. */
void temporary_write(const char *folder, const char *name, const char *text, char *path);

/* Removes the folder with the files in it, and the files in its folders. */
void temporary_remove(const char *folder);

#endif
