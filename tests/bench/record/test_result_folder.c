#include "bench/record/owned_folder.h"
#include "bench/record/result_folder.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

enum { PATH_BYTES = 2 * TEMPORARY_PATH_BYTES, CALLS_MAX = 100 };

/* ---- the calls that change a folder ---- */

/* They stand in front of the C library's, and fail or kill at the one of that number. */
static struct {
	uint32_t count;
	uint32_t fail_at; /* 0: none */
	uint32_t kill_at; /* before it is made; 0: none */
	bool has_no_locks;
	uint32_t logged;
	char log[CALLS_MAX]; /* s: fsync of a file, S: of a folder, r: rename */
} calls;

static bool fails_now(void)
{
	calls.count++;
	if (calls.count == calls.kill_at) {
		_exit(9);
	}
	errno = EIO;
	return calls.count == calls.fail_at;
}

static int logged(int result, char what)
{
	if (result == 0 && calls.logged < CALLS_MAX - 1) {
		calls.log[calls.logged++] = what;
	}
	return result;
}

int rename(const char *from, const char *to)
{
	return fails_now() ? -1 : logged(renameat(AT_FDCWD, from, AT_FDCWD, to), 'r');
}

int fsync(int descriptor)
{
	struct stat synced;
	bool is_folder = fstat(descriptor, &synced) == 0 && S_ISDIR(synced.st_mode);

	return fails_now() ? -1 : logged(fdatasync(descriptor), is_folder ? 'S' : 's');
}

/* What a file system without locks says. */
int flock(int descriptor, int operation)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	(void)operation;
	if (calls.has_no_locks) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return fcntl(descriptor, F_SETLK, &whole);
}

/* ---- results of some words ---- */

static char folder[TEMPORARY_PATH_BYTES];
static char out[PATH_BYTES];
static char beside[PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
	snprintf(out, sizeof(out), "%s/out", folder);
	snprintf(beside, sizeof(beside), "%s/beside", folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(result_folder, .init = set_up, .fini = tear_down, .timeout = 60);

/* Writes a result whose files hold the word; the old one has steps, the new one kernels. */
static enum status write_result(const char *word, struct error *error)
{
	static struct result_folder result;
	const char *const names[] = {RESULT_REQUESTS,
		strcmp(word, "old") == 0 ? RESULT_STEPS : RESULT_KERNELS, RESULT_TIMELINE,
		RESULT_SUMMARY};
	FILE *file;

	enum status status = result_folder_open(&result, out, true, error);
	for (uint32_t i = 0; i < 4 && status == STATUS_OK; i++) {
		if (i == 1) {
			status = result_folder_begin_beside(&result, beside, &file, error);
			fprintf(file, "%s\n", word);
		}
		status = result_folder_begin(&result, names[i], &file, error);
		fprintf(file, "%s {\"schema\": \"quire-result-2\"}\n", word);
	}
	if (status == STATUS_OK) {
		status = result_folder_commit(&result, error);
	}
	result_folder_close(&result);
	return status;
}

static bool holds(const char *name, const char *word)
{
	char path[PATH_BYTES + 64];

	snprintf(path, sizeof(path), "%s/%s", out, name);
	char *text = file_read_if_there(path, NULL);
	bool is_held = text == NULL ? word == NULL
				    : word != NULL && strncmp(text, word, strlen(word)) == 0;
	free(text);
	return is_held;
}

/* Whether the folder holds this result and nothing of the other. */
static bool is_result(const char *word)
{
	bool is_old = strcmp(word, "old") == 0;

	return holds(RESULT_SUMMARY, word) && holds(RESULT_REQUESTS, word) &&
	       holds(RESULT_TIMELINE, word) && holds(RESULT_STEPS, is_old ? word : NULL) &&
	       holds(RESULT_KERNELS, is_old ? NULL : word);
}

static char *names(void)
{
	struct process_result result = shell_run(folder, "ls -A . out");

	free(result.err);
	return result.out;
}

/* Runs a write of the new result in a child. Returns its exit code: 9 if it was killed. */
static int write_new_in_child(void)
{
	pid_t child = fork();
	int state;

	if (child == 0) {
		struct error error = {0};
		calls.count = 0;
		_exit(write_result("new", &error) == STATUS_OK ? 0 : 2);
	}
	require(waitpid(child, &state, 0) == child && WIFEXITED(state), "the child is lost");
	return WEXITSTATUS(state);
}

static void make_old(void)
{
	struct process_result cleaned = shell_run(folder, "rm -rf ./* out");
	struct error error = {0};

	process_result_free(&cleaned);
	memset(&calls, 0, sizeof(calls));
	require(write_result("old", &error) == STATUS_OK, "%s", error.text);
	require(is_result("old"), "it is not there");
}

/* ---- what must hold ---- */

static uint32_t count_descriptors(void)
{
	uint32_t count = 0;

	for (int i = 0; i < 256; i++) {
		count += fcntl(i, F_GETFD) >= 0;
	}
	return count;
}

/* A process may write thousands of results. */
Test(result_folder, leaves_no_descriptor_open)
{
	struct error error = {0};

	make_old();
	uint32_t before = count_descriptors();
	for (int i = 0; i < 3; i++) {
		require(write_result("new", &error) == STATUS_OK, "%s", error.text);
		require_equal(count_descriptors(), before);
	}
	calls.fail_at = calls.count + 3;
	require(write_result("new", &error) != STATUS_OK, "it did not fail");
	require_equal(count_descriptors(), before);
}

Test(result_folder, holds_the_old_result_or_the_new_one_or_none_after_a_kill)
{
	uint32_t old = 0, new = 0, none = 0, code = 9;

	for (uint32_t call = 1; code == 9; call++) {
		require(call < CALLS_MAX, "it never ends");
		make_old();
		calls.kill_at = call;
		code = (uint32_t)write_new_in_child();
		if (holds(RESULT_SUMMARY, NULL)) {
			none++;
		} else {
			require(is_result("old") || is_result("new"), "a mixture at call %u", call);
			old += is_result("old");
			new += is_result("new");
		}
		/* Whatever it was, it can be replaced. */
		calls.kill_at = 0;
		require_equal(write_new_in_child(), 0);
		require(is_result("new"), "it is not there");
	}
	require(old > 3 && none > 3 && new > 0, "%u old, %u none, %u new", old, none, new);
}

Test(result_folder, holds_the_old_result_after_a_failure)
{
	for (uint32_t call = 1;; call++) {
		require(call < CALLS_MAX, "it never ends");
		make_old();
		char *before = names();
		calls.fail_at = call;
		if (write_new_in_child() == 0) {
			require(call > 10, "only %u calls", call);
			require(is_result("new"), "it is not there");
			free(before);
			return;
		}
		char *after = names();
		require(is_result("old"), "call %u has changed the old result", call);
		require(strcmp(before, after) == 0, "call %u leaves %s", call, after);
		char *text = file_read(beside, NULL);
		cr_assert_str_eq(text, "old\n");
		free(text);
		free(before);
		free(after);
	}
}

/* A first result, of which a failure leaves nothing. */
Test(result_folder, is_gone_after_a_failure_if_it_was_made)
{
	for (calls.fail_at = 1;; calls.fail_at++) {
		if (write_new_in_child() == 0) {
			return;
		}
		char *after = names();
		require(strchr(after, '.') == after && strstr(after, "new") == NULL &&
				!file_exists(out) && !file_exists(beside),
			"call %u leaves %s", calls.fail_at, after);
		free(after);
	}
}

/* Five files; the old summary is renamed first and the new one last, each in a step of its own. */
Test(result_folder, brings_files_to_the_disk_before_it_names_them)
{
	struct error error = {0};

	require(write_result("new", &error) == STATUS_OK, "%s", error.text);
	cr_assert_str_eq(calls.log, "sssss"
				    "rrrr"
				    "S"
				    "r"
				    "S");
	make_old();
	memset(&calls, 0, sizeof(calls));
	require(write_result("new", &error) == STATUS_OK, "%s", error.text);
	cr_assert_str_eq(calls.log, "sssss"
				    "rSrrrr"
				    "rrrr"
				    "S"
				    "r"
				    "S");
}

Test(result_folder, is_owned_where_a_file_system_has_no_locks)
{
	static struct result_folder first, second;
	struct error error = {0};

	calls.has_no_locks = true;
	require(result_folder_open(&first, out, false, &error) == STATUS_OK, "%s", error.text);
	require_equal(result_folder_open(&second, out, false, &error), STATUS_FILE);
	require(strstr(error.text, "or was killed: remove") != NULL, "%s", error.text);
	result_folder_close(&second);
	result_folder_close(&first);
	error = (struct error){0};
	require(result_folder_open(&second, out, false, &error) == STATUS_OK, "%s", error.text);
	result_folder_close(&second);
	require(!file_exists(out), "the folder is left");
}

/* Files that were put there while the run went on. */
Test(result_folder, does_not_replace_what_came_meanwhile)
{
	static struct result_folder result;
	struct error error = {0};
	char path[PATH_BYTES + 32];
	FILE *file;

	require(result_folder_open(&result, out, false, &error) == STATUS_OK, "%s", error.text);
	require(result_folder_begin(&result, RESULT_SUMMARY, &file, &error) == STATUS_OK, "%s",
		error.text);
	snprintf(path, sizeof(path), "%s/" RESULT_STEPS, out);
	file_write(path, "mine", 4);
	require_equal(result_folder_commit(&result, &error), STATUS_FILE);
	require(strstr(error.text, RESULT_STEPS) != NULL, "%s", error.text);
	result_folder_close(&result);
	char *text = file_read(path, NULL);
	cr_assert_str_eq(text, "mine");
	free(text);
}

/* ---- the folders above ---- */

enum { DEPTH_MAX = 4 };

/* FOLDER/d/d/..., with as many d as the depth; separator: what stands between two. */
static void path_of_depth(char *path, uint32_t depth, const char *separator)
{
	size_t used = (size_t)snprintf(path, PATH_BYTES, "%s", folder);

	for (uint32_t i = 0; i < depth; i++) {
		used += (size_t)snprintf(path + used, PATH_BYTES - used, "%sd", separator);
	}
}

/* Demands that the first `count` folders are there and no further one, and removes them. */
static void require_depth(uint32_t count, const char *when)
{
	char path[PATH_BYTES];

	for (uint32_t depth = OWNED_FOLDERS_MAX + 1; depth > 0; depth--) {
		path_of_depth(path, depth, "/");
		require(file_exists(path) == (depth <= count), "%s: %u folders, of %u %s", when,
			depth, count, depth <= count ? "removed" : "left");
		if (depth <= count) {
			require(rmdir(path) == 0, "%s is not empty", path);
		}
	}
}

/* Whichever of the folders were there before stay, and no other, however the path is written:
   after a command without a result, and where the last one cannot be made. */
Test(result_folder, folders_that_were_made_for_nothing_are_removed)
{
	static const char *const separators[] = {"/", "//", "/./"};
	static char long_name[300];
	char path[PATH_BYTES + 300];

	memset(long_name, 'x', sizeof(long_name) - 1);
	for (uint32_t n = 0; n < 3 * DEPTH_MAX * (DEPTH_MAX + 1); n++) {
		const char *separator = separators[n % 3];
		uint32_t depth = 1 + n / 3 % DEPTH_MAX, before = n / 3 / DEPTH_MAX;
		for (uint32_t is_good = 0; is_good < 2 && before <= depth; is_good++) {
			struct owned_folder owned;
			struct error error = {0};
			for (uint32_t i = 1; i <= before; i++) {
				path_of_depth(path, i, "/");
				require(mkdir(path, 0777) == 0, "cannot make %s", path);
			}
			path_of_depth(path, depth, separator);
			if (!is_good) {
				strcat(strcat(path, separator), long_name);
			}
			enum status status = owned_folder_open(&owned, path, &error);
			require_equal(status, is_good ? STATUS_OK : STATUS_FILE);
			if (is_good) {
				path_of_depth(path, depth, "/");
				require(file_exists(path), "%s is not made", path);
				owned_folder_close(&owned);
			}
			require_depth(before, path);
		}
	}
}

/* A folder in which something was written stays, and so do those that it is in. */
Test(result_folder, folders_of_a_file_stay)
{
	for (uint32_t kept = 0; kept <= DEPTH_MAX; kept++) {
		struct owned_folder owned;
		struct error error = {0};
		char path[PATH_BYTES], file[PATH_BYTES + 8];
		path_of_depth(path, DEPTH_MAX, "/");
		require(owned_folder_open(&owned, path, &error) == STATUS_OK, "%s", error.text);
		path_of_depth(path, kept, "/");
		snprintf(file, sizeof(file), "%s/file", path);
		file_write(file, "x", 1);
		owned_folder_close(&owned);
		require(unlink(file) == 0, "%s is gone", file);
		require_depth(kept, "a file");
	}
}

/* As many as the list has room for are made, or none. */
Test(result_folder, folders_beyond_the_most_are_not_made)
{
	for (uint32_t depth = OWNED_FOLDERS_MAX - 1; depth <= OWNED_FOLDERS_MAX + 1; depth++) {
		struct owned_folder owned;
		struct error error = {0};
		char path[PATH_BYTES];
		bool fits = depth <= OWNED_FOLDERS_MAX;
		path_of_depth(path, depth, "/");
		require_equal(
			owned_folder_open(&owned, path, &error), fits ? STATUS_OK : STATUS_FILE);
		require(file_exists(path) == fits, "%u folders", depth);
		if (fits) {
			owned_folder_close(&owned);
		}
		require_depth(0, "none");
	}
}

/* What has the name of the folder and is none stays as it is, and no folder is made for it. */
Test(result_folder, what_is_no_folder_is_refused)
{
	static const char *const cases[] = {"touch it", "mkfifo it", "touch file; ln -s file it",
		"ln -s nowhere it", "touch it; mkdir made", "true"};
	char path[PATH_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct owned_folder owned;
		struct error error = {0};
		bool is_there = i + 1 < sizeof(cases) / sizeof(cases[0]);
		struct process_result made = shell_run(folder, "rm -rf ./*; %s", cases[i]);
		require_equal(made.code, 0);
		process_result_free(&made);
		for (uint32_t is_below = 0; is_below < 2; is_below++) {
			snprintf(path, sizeof(path), "%s/%sit", folder, is_below ? "made/../" : "");
			error = (struct error){0};
			enum status status = owned_folder_open(&owned, path, &error);
			require(status == (is_there ? STATUS_FILE : STATUS_OK), "%s", cases[i]);
			require(!is_there || strstr(error.text, "exists and is no folder") != NULL,
				"%s: %s", cases[i], error.text);
			if (status == STATUS_OK) {
				owned_folder_close(&owned);
			}
			snprintf(path, sizeof(path), "%s/made", folder);
			require(file_exists(path) == (strstr(cases[i], "made") != NULL), "%s",
				cases[i]);
		}
	}
	struct process_result cleaned = shell_run(folder, "rm -rf ./*");
	process_result_free(&cleaned);
}

/* ---- names and owners of files ---- */

/* A file beside the result, as --timeline writes one, is none of the result, however its path is
   written. */
Test(result_folder, the_file_beside_is_none_of_the_result)
{
	static const char *const inside[] = {"out/" RESULT_SUMMARY, "out/" RESULT_KERNELS,
		"./out/../out/" RESULT_STEPS, "out/./" RESULT_TIMELINE};
	static const char *const others[] = {"out/t.json", RESULT_SUMMARY, "out/../" RESULT_STEPS};

	for (uint32_t i = 0; i < 7; i++) {
		static struct result_folder result;
		struct error error = {0};
		char path[PATH_BYTES + 64];
		FILE *file;
		bool is_inside = i < 4;
		snprintf(
			path, sizeof(path), "%s/%s", folder, is_inside ? inside[i] : others[i - 4]);
		require(result_folder_open(&result, out, false, &error) == STATUS_OK, "%s",
			error.text);
		enum status status = result_folder_begin_beside(&result, path, &file, &error);
		require(status == (is_inside ? STATUS_USAGE : STATUS_OK), "%s: %s", path,
			error.text);
		result_folder_close(&result);
	}
}

/* Only a regular file is looked at, and no link to one. */
Test(result_folder, what_quire_wrote_is_known_by_its_schema)
{
	static const struct {
		const char *make;
		bool is_of_quire;
	} cases[] = {
		{"echo '{\"schema\": \"quire-result-2\"}' >file", true},
		{"echo '{\"schema\": \"quire-result-2\"}' >other; ln -s other file", false},
		{"echo '{\"schema\": \"other\"}' >file", false},
		{"echo '\"quire-result-2\"' >file", false},
		{"printf '' >file", false},
		{"mkdir file", false},
		{"mkfifo file", false},
		{"true", false},
	};
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/file", folder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct process_result made =
			shell_run(folder, "rm -rf file other; %s", cases[i].make);
		require_equal(made.code, 0);
		process_result_free(&made);
		require(owned_folder_is_of_quire(path, "quire-result-") == cases[i].is_of_quire,
			"%s", cases[i].make);
	}
	struct process_result cleaned = shell_run(folder, "rm -rf file other");
	process_result_free(&cleaned);
}
