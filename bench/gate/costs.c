#include "bench/gate/costs.h"

#include "engine/base/input_file.h"
#include "reports/results/results.h"

#include <dirent.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* Adds what stands behind the first "NAME : " of /proc/cpuinfo; a long list as its hash. */
static enum status add_processor_line(
	struct text *text, const char *name, bool as_hash, struct error *error)
{
	static const char path[] = "/proc/cpuinfo";
	FILE *file;
	char line[8192];

	if (access(path, R_OK) != 0 && errno == ENOENT) {
		text_add(text, "unknown");
		return STATUS_OK;
	}
	TRY(input_file_open(&file, path, INPUT_FILE, error));
	while (fgets(line, sizeof(line), file) != NULL) {
		const char *value = strchr(line, ':');
		if (value == NULL || strncmp(line, name, strlen(name)) != 0) {
			continue;
		}
		value += 1 + strspn(value + 1, " ");
		size_t length = strcspn(value, "\n");
		if (as_hash) {
			text_format(text, "%016llx", (unsigned long long)XXH64(value, length, 0));
		} else {
			text_add_bytes(text, value, length);
		}
		break;
	}
	bool is_bad = ferror(file) != 0;
	fclose(file);
	return is_bad ? error_set(error, STATUS_FILE, "%s: cannot be read", path) : STATUS_OK;
}

enum status costs_add_environment(struct text *text, struct error *error)
{
	text_format(text, "compiler %s; glibc %s; cJSON %s; xxHash %u; processor ", __VERSION__,
		gnu_get_libc_version(), cJSON_Version(), XXH_versionNumber());
	TRY(add_processor_line(text, "model name", false, error));
	text_add(text, "; its features ");
	return add_processor_line(text, "flags", true, error);
}

enum status costs_bytes_written(const char *folder, double *bytes, struct error *error)
{
	DIR *directory = opendir(folder);

	if (directory == NULL) {
		return error_set(
			error, STATUS_FILE, "%s: cannot be read: %s", folder, strerror(errno));
	}
	*bytes = 0;
	for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		char path[PATH_BYTES_MAX];
		struct stat file;
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, RESULT_PROVENANCE) == 0) {
			continue;
		}
		if (path_format(path, error, "%s/%s", folder, entry->d_name) == STATUS_OK &&
			stat(path, &file) == 0 && S_ISREG(file.st_mode)) {
			*bytes += (double)file.st_size;
		}
	}
	closedir(directory);
	return error->status;
}

uint32_t costs_count_words(const char **arguments)
{
	arguments[0] = "valgrind";
	arguments[1] = "--tool=callgrind";
	arguments[2] = "--callgrind-out-file=/dev/null";
	return COUNTING_WORDS;
}

bool costs_instructions(struct child *child, double *instructions)
{
	static const char mark[] = "Collected : ";
	struct text text = {0};

	child_add_errors(child, &text);
	const char *found = text.bytes == NULL ? NULL : strstr(text.bytes, mark);
	if (found != NULL) {
		*instructions = strtod(found + sizeof(mark) - 1, NULL);
	}
	text_deinit(&text);
	return found != NULL && *instructions > 0;
}
