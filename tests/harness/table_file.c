#include "tests/harness/table_file.h"

#include "tests/harness/require.h"

void table_file_open(struct table_writer *table, const char *path, const char *header)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "%s cannot be written", path);
	table_begin(table, file, header);
}

void table_file_close(struct table_writer *table)
{
	FILE *file = table->file;

	table_end(table);
	require(ferror(file) == 0 && fclose(file) == 0, "a table cannot be written");
}
