#define _XOPEN_SOURCE 700

#include <criterion/criterion.h>

#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/text.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* Command lines drawn from a grammar of all options, and a hash of all that each prints and
   writes: tests/fixtures/drawn/NAME.tsv, which tests/fixtures/drawn/README.md explains. No line
   says what is right. Together they say that a change altered nothing but what it meant to. */

#define DRAWN QUIRE_SOURCE_DIR "/tests/fixtures/drawn/"

enum { LINES_SHOWN = 5 };

/* A sanitizer's program takes ten times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { LINES_STEP = 5 };
#else
enum { LINES_STEP = 1 };
#endif

static uint64_t tree_sum;
static size_t tree_root_bytes;

/* Sums need no order of the files. A link is one of those that a command begins with. */
static int add_file(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)walk;
	const char *name = path + tree_root_bytes;

	if (kind == FTW_F) {
		size_t byte_count;
		char *bytes = file_read(path, &byte_count);
		tree_sum += XXH64(bytes, byte_count, XXH64(name, strlen(name), 1));
		free(bytes);
	}
	return 0;
}

/* A command that takes long says every 30 s how far it is. Whether it does depends on the machine.
 */
static void remove_progress(char *err)
{
	static const char end[] = " s left\n";

	for (char *found; (found = strstr(err, end)) != NULL;) {
		char *line = found;
		while (line > err && line[-1] != '\n') {
			line--;
		}
		memmove(line, found + strlen(end), strlen(found + strlen(end)) + 1);
	}
}

Test(drawn_commands, progress_is_no_output)
{
	char err[] = "a\n3 of 12 runs complete, about 9 s left\nleft\n4 of 12, about 7 s left\n";

	remove_progress(err);
	cr_assert_str_eq(err, "a\nleft\n");
}

static uint64_t hash_of(const char *command)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	struct process_result result = shell_run(folder,
		"PATH='" FAULT_GNUPLOT_FOLDER "':$PATH; QUIRE='" QUIRE_EXECUTABLE
		"'; ROOT='" QUIRE_SOURCE_DIR "'; . '" DRAWN "begin.sh'\n%s",
		command);
	remove_progress(result.err);
	tree_sum = 0;
	tree_root_bytes = strlen(folder);
	require(nftw(folder, add_file, 16, FTW_PHYS) == 0, "cannot read %s", folder);
	uint64_t hash = XXH64(result.out, strlen(result.out), tree_sum);
	hash = XXH64(result.err, strlen(result.err), hash);
	hash = XXH64(&result.code, sizeof(result.code), hash);
	process_result_free(&result);
	temporary_remove(folder);
	return hash;
}

static void require_drawn(const char *name)
{
	struct text found = {0}, changed = {0};
	char path[600];
	uint32_t line = 0, change_count = 0;

	snprintf(path, sizeof(path), DRAWN "%s.tsv", name);
	char *table = file_read(path, NULL);
	for (char *row = table, *end; (end = strchr(row, '\n')) != NULL; row = end + 1) {
		*end = '\0';
		char *command = strchr(row, '\t');
		line++;
		require(command != NULL, "%s:%u: no tab", path, line);
		uint64_t hash =
			line % LINES_STEP == 0 ? hash_of(command + 1) : strtoull(row, NULL, 16);
		text_format(&found, "%016" PRIx64, hash);
		text_add(&found, command);
		text_add(&found, "\n");
		if (hash != strtoull(row, NULL, 16) && ++change_count <= LINES_SHOWN) {
			text_format(&changed, "\n%s.tsv:%u:", name, line);
			text_add(&changed, command);
		}
	}
	require(line > 0, "%s is empty", path);
	if (change_count > 0) {
		snprintf(path, sizeof(path), QUIRE_EXECUTABLE "-drawn-%s.tsv", name);
		file_write(path, found.bytes, found.byte_count);
	}
	require(change_count == 0,
		"%u of %u commands print or write something else; %s has their hashes; first:%s",
		change_count, line, path, changed.bytes);
	text_deinit(&changed);
	text_deinit(&found);
	free(table);
}

#define TABLE(name)                                                                                \
	Test(drawn_commands, name)                                                                 \
	{                                                                                          \
		require_drawn(#name);                                                              \
	}

TABLE(replay)
TABLE(fleet)
TABLE(trace)
TABLE(plan)
TABLE(sweep)
TABLE(compare)
TABLE(refused)
TABLE(fit)
TABLE(texts)
TABLE(computed)
TABLE(gate)
TABLE(errors)
TABLE(history)
TABLE(calibration)
TABLE(corrupted)
