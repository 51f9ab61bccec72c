#include "tests/fuzz/sections.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/integer.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"

/* Whether a line that names a section begins at `at`; its length without line feed. */
static bool is_head(const uint8_t *bytes, size_t byte_count, size_t at, size_t *line_bytes)
{
	const uint8_t *end = memchr(bytes + at, '\n', byte_count - at);

	*line_bytes = end == NULL ? byte_count - at : (size_t)(end - bytes) - at;
	return *line_bytes > 3 && *line_bytes - 3 < SECTION_NAME_BYTES &&
	       memcmp(bytes + at, "== ", 3) == 0 && memchr(bytes + at, '\0', *line_bytes) == NULL;
}

uint32_t sections_find(const uint8_t *bytes, size_t byte_count, struct section *sections)
{
	struct section *open = NULL;
	uint32_t count = 0;

	for (size_t at = 0; at < byte_count;) {
		size_t line_bytes;
		bool begins = is_head(bytes, byte_count, at, &line_bytes) && count < SECTIONS_MAX;
		size_t next = u64_min(at + line_bytes + 1, byte_count);
		if (begins) {
			open = &sections[count++];
			*open = (struct section){.bytes = bytes + next};
			memcpy(open->name, bytes + at + 3, line_bytes - 3);
		} else if (open != NULL) {
			open->byte_count = (size_t)(bytes + next - open->bytes);
		}
		at = next;
	}
	return count;
}

void sections_path(char *path, const char *folder, const char *name)
{
	int length = snprintf(path, SECTIONS_PATH_BYTES, "%s/%s", folder, name);

	require(length > 0 && length < SECTIONS_PATH_BYTES, "the path is too long");
}

static void write_section(const char *folder, const struct section *section)
{
	char path[SECTIONS_PATH_BYTES];
	const char *slash = strchr(section->name, '/');

	if (slash != NULL) {
		char name[SECTION_NAME_BYTES];
		snprintf(name, sizeof(name), "%.*s", (int)(slash - section->name), section->name);
		sections_path(path, folder, name);
		mkdir(path, 0777);
	}
	sections_path(path, folder, section->name);
	file_write(path, section->bytes, section->byte_count);
}

void sections_unpack(
	const uint8_t *bytes, size_t byte_count, const char *const *names, char *folder)
{
	struct section sections[SECTIONS_MAX];
	uint32_t count = sections_find(bytes, byte_count, sections);

	temporary_folder(folder);
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t name = 0; names[name] != NULL; name++) {
			if (strcmp(sections[i].name, names[name]) == 0) {
				write_section(folder, &sections[i]);
			}
		}
	}
}

void sections_remove(const char *folder)
{
	temporary_remove(folder);
}

void require_refused_in_one_line(enum status status, const struct error *error)
{
	require(status == error->status, "status %d, error %d", (int)status, (int)error->status);
	require((status == STATUS_OK) == (error->text[0] == '\0'), "'%s'", error->text);
	require(strpbrk(error->text, "\r\n") == NULL, "two lines: '%s'", error->text);
}
