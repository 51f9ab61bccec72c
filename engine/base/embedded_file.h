#ifndef ENGINE_BASE_EMBEDDED_FILE_H
#define ENGINE_BASE_EMBEDDED_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Files that the build compiles into the program, so that it finds them wherever it runs. The build
   names the table, and the code that reads it declares it:

       extern const struct embedded_file sim_profiles[];
       extern const uint32_t sim_profiles_count;  */

struct embedded_file {
	const char *name;  /* without its folder, "h200.json"; the table is sorted by it */
	const char *bytes; /* (size), then a NUL that is not counted */
	size_t size;
};

/* The file of that name, or NULL. */
const struct embedded_file *embedded_file_find(
	const struct embedded_file *files, uint32_t count, const char *name);

#endif
