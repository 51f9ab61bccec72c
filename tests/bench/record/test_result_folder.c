#include "bench/record/result_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* A folder with a summary.json holds one whole result: the old one or the new one, never a mixture,
   wherever the writing of the new one fails. */

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(result_folder, .init = set_up, .fini = tear_down);

static const char *const old_files[] = {RESULT_REQUESTS, RESULT_TIMELINE, RESULT_STEP_GRID,
	RESULT_LATENCY, RESULT_STEPS, RESULT_PROVENANCE, RESULT_SUMMARY};
static const char *const new_files[] = {RESULT_REQUESTS, RESULT_TIMELINE, RESULT_STEP_GRID,
	RESULT_LATENCY, RESULT_PROVENANCE, RESULT_SUMMARY};

enum { OLD_COUNT = 7, NEW_COUNT = 6, OWN_PATH_BYTES = TEMPORARY_PATH_BYTES + 64 };

static void path_of(char *path, const char *name)
{
	snprintf(path, OWN_PATH_BYTES, "%s/%s", folder, name);
}

static void write_old_result(void)
{
	for (uint32_t i = 0; i < OLD_COUNT; i++) {
		bool is_summary = strcmp(old_files[i], RESULT_SUMMARY) == 0;
		temporary_write(folder, old_files[i],
			is_summary ? "{\"schema\": \"" RESULT_SCHEMA "\"}\n" : "old\n", NULL);
	}
}

/* Begins and writes every file of the new result, and commits it. */
static enum status write_new_result(struct error *error)
{
	struct result_folder result;
	char path[PATH_BYTES_MAX];

	TRY(result_folder_open(&result, folder, true, error));
	for (uint32_t i = 0; i < NEW_COUNT; i++) {
		require_equal(result_folder_begin(&result, new_files[i], path, error), STATUS_OK);
		file_write(path, "new\n", 4);
	}
	enum status status = result_folder_commit(&result, error);
	if (status != STATUS_OK) {
		result_folder_abandon(&result);
	}
	return status;
}

/* Whether the file is there, and begins with this letter. */
static bool holds(const char *name, char first)
{
	char path[OWN_PATH_BYTES];

	path_of(path, name);
	char *text = file_read_if_there(path, NULL);
	bool is_it = text != NULL && text[0] == first;
	free(text);
	return is_it;
}

static bool is_there(const char *name)
{
	char path[OWN_PATH_BYTES];

	path_of(path, name);
	return access(path, F_OK) == 0;
}

Test(result_folder, a_commit_replaces_the_whole_result)
{
	struct error error = {0};

	write_old_result();
	require(write_new_result(&error) == STATUS_OK, "%s", error.text);
	for (uint32_t i = 0; i < NEW_COUNT; i++) {
		require(holds(new_files[i], 'n'), "%s is not new", new_files[i]);
	}
	/* The old run had steps, the new one has none. */
	require(!is_there(RESULT_STEPS), "old steps beside a new summary");
}

/* One of the files cannot be replaced, since a folder has its name. Then there is no summary, or it
   is the old one and all files are old. */
Test(result_folder, no_summary_stands_beside_files_of_another_run)
{
	for (uint32_t i = 0; i < OLD_COUNT; i++) {
		struct error error = {0};
		char path[OWN_PATH_BYTES], inner[OWN_PATH_BYTES + 8];
		if (strcmp(old_files[i], RESULT_SUMMARY) == 0) {
			continue;
		}
		write_old_result();
		path_of(path, old_files[i]);
		snprintf(inner, sizeof(inner), "%s/inner", path);
		unlink(path);
		require(mkdir(path, 0777) == 0, "cannot make %s", path);
		file_write(inner, "x", 1);
		require(write_new_result(&error) != STATUS_OK, "%s was replaced", path);
		require(strchr(error.text, '\n') == NULL && error.text[0] != '\0', "no line");
		bool has_summary = is_there(RESULT_SUMMARY);
		for (uint32_t j = 0; j < OLD_COUNT && has_summary; j++) {
			require(j == i || holds(old_files[j], j == OLD_COUNT - 1 ? '{' : 'o'),
				"a summary beside %s of another run, since %s failed", old_files[j],
				old_files[i]);
		}
		require(file_exists(inner), "a file of somebody else's is gone");
		unlink(inner);
		rmdir(path);
		unlink(inner);
	}
}
