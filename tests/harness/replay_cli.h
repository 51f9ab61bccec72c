#ifndef TESTS_HARNESS_REPLAY_CLI_H
#define TESTS_HARNESS_REPLAY_CLI_H

#include <cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/temporary.h"

/* `quire replay` as its users run it: the built program, its exit codes, its lines and its
   files. */

enum { PATH_BYTES = 2 * TEMPORARY_PATH_BYTES, ARGUMENTS_MAX = 64, REPLAY_FILES = 7 };

/* The files of a result. */
extern const char *const replay_files[REPLAY_FILES];

/* A folder with a trace of 60 requests. */
struct replay_fixture {
	char folder[TEMPORARY_PATH_BYTES];
	char trace[PATH_BYTES];
	char out[PATH_BYTES]; /* FOLDER/result */
};

void replay_fixture_open(struct replay_fixture *fixture);
void replay_fixture_close(struct replay_fixture *fixture);

/* Prompts share prefixes and need more blocks than the small engine below has. The sixth and the
   last are too long for it. extra_line: written in the middle, or NULL. */
void replay_write_trace(const char *path, uint32_t count, const char *extra_line);

struct replay_arguments {
	const char *list[ARGUMENTS_MAX];
	uint32_t count;
};

/* list ends with NULL. */
void add_all(struct replay_arguments *arguments, const char *const *list);

/* `quire replay OWN...`; is_small: with the options of an engine so small that it preempts. */
struct replay_arguments replay_arguments(const char *const *own, bool is_small);

/* Runs the program with folder, environment and limits of the order. */
struct process_result quire_replay(
	struct process_order order, bool is_small, const char *const *own);

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define RUN(...) quire_replay((struct process_order){0}, false, LIST(__VA_ARGS__))
#define RUN_SMALL(...) quire_replay((struct process_order){0}, true, LIST(__VA_ARGS__))

/* Writes FOLDER/NAME to path (PATH_BYTES). */
void path_in(char *path, const char *folder, const char *name);

/* The text of FOLDER/NAME, owned by the caller; NULL if there is no such file. */
char *read_in(const char *folder, const char *name);

/* Demands FOLDER/NAME in both folders, equal byte for byte. */
void require_same_file(const char *a, const char *b, const char *name);

/* Demands the same files in both folders, except provenance.json. */
void require_same_result(const char *a, const char *b);

/* Demands exit code 0, output, and nothing on stderr. */
void require_good(struct process_result outcome);

/* Demands one line on stderr that begins with the command and has the words. */
void require_line(struct process_result outcome, int code, const char *words);

/* Demands such a line with exit code 2, and no output. */
void require_refused(struct process_result outcome, const char *words);

cJSON *read_summary(const char *folder);

/* A field of the summary. section: NULL where the field is at the top. */
uint64_t number_in(const cJSON *root, const char *section, const char *name);
const char *text_in(const cJSON *root, const char *section, const char *name);

/* The sum of a column over the rows whose column `key` is `wanted`, or over all where wanted is
   NULL; `-` is 0. *rows: how many rows were added. Columns count from 0. */
uint64_t sum_column(
	const char *table, uint32_t column, uint32_t key, const char *wanted, uint64_t *rows);

#endif
