#ifndef TESTS_HARNESS_TABLE_FILE_H
#define TESTS_HARNESS_TABLE_FILE_H

#include "engine/base/table.h"

/* A table with a file of its own. A failure ends the test. */

void table_file_open(struct table_writer *table, const char *path, const char *header);
void table_file_close(struct table_writer *table);

#endif
