#include "tests/harness/replay_cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/require.h"

const char *const replay_files[REPLAY_FILES] = {RESULT_REQUESTS, RESULT_TIMELINE, RESULT_STEP_GRID,
	RESULT_LATENCY, RESULT_STEPS, RESULT_PROVENANCE, RESULT_SUMMARY};

void replay_write_trace(const char *path, uint32_t count, const char *extra_line)
{
	FILE *file = fopen(path, "wb");

	require(file != NULL, "cannot write %s", path);
	for (uint32_t i = 0; i < count; i++) {
		bool is_long = i == 5 || i + 1 == count;
		uint32_t input = is_long ? 1000 : 20 + i * 7 % 60;
		fprintf(file,
			"{\"timestamp\": %u, \"input_length\": %u, \"output_length\": %u, "
			"\"hash_ids\": [%u",
			i * 3 / 2, input, 1 + i * 5 % 50, i % 3);
		for (uint32_t id = 1; id < (input + 15) / 16; id++) {
			fprintf(file, ", %u", (i % 3) * 1000 + id);
		}
		fprintf(file, "]}\n");
		if (extra_line != NULL && i == count / 2) {
			fprintf(file, "%s\n", extra_line);
		}
	}
	fclose(file);
}

void replay_fixture_open(struct replay_fixture *fixture)
{
	temporary_folder(fixture->folder);
	snprintf(fixture->trace, PATH_BYTES, "%s/trace.jsonl", fixture->folder);
	snprintf(fixture->out, PATH_BYTES, "%s/result", fixture->folder);
	replay_write_trace(fixture->trace, 60, NULL);
}

void replay_fixture_close(struct replay_fixture *fixture)
{
	temporary_remove(fixture->folder);
}

void add_all(struct replay_arguments *arguments, const char *const *list)
{
	for (; *list != NULL; list++) {
		require(arguments->count + 1 < ARGUMENTS_MAX, "too many arguments");
		arguments->list[arguments->count++] = *list;
	}
}

struct replay_arguments replay_arguments(const char *const *own, bool is_small)
{
	static const char *const first[] = {"quire", "replay", NULL};
	static const char *const small[] = {"--block-size", "16", "--trace-block-size", "16",
		"--kv-blocks", "16", "--max-model-len", "200", "--max-num-seqs", "4",
		"--max-num-batched-tokens", "48", NULL};
	struct replay_arguments arguments = {.count = 0};

	add_all(&arguments, first);
	add_all(&arguments, own);
	if (is_small) {
		add_all(&arguments, small);
	}
	return arguments;
}

struct process_result quire_replay(
	struct process_order order, bool is_small, const char *const *own)
{
	struct replay_arguments arguments = replay_arguments(own, is_small);
	struct process process;

	order.program = QUIRE_EXECUTABLE;
	order.arguments = arguments.list;
	process_start(&process, &order);
	return process_finish(&process);
}

void path_in(char *path, const char *folder, const char *name)
{
	int bytes = snprintf(path, PATH_BYTES, "%s/%s", folder, name);

	require(bytes > 0 && bytes < PATH_BYTES, "the path is too long");
}

char *read_in(const char *folder, const char *name)
{
	char path[PATH_BYTES];

	path_in(path, folder, name);
	return file_read_if_there(path, NULL);
}

void require_same_file(const char *a, const char *b, const char *name)
{
	char *first = read_in(a, name);
	char *second = read_in(b, name);

	require(first != NULL, "%s/%s is not there", a, name);
	require(second != NULL, "%s/%s is not there", b, name);
	require(strcmp(first, second) == 0, "%s differs", name);
	free(first);
	free(second);
}

static bool is_in(const char *folder, const char *name)
{
	char path[PATH_BYTES];

	path_in(path, folder, name);
	return access(path, F_OK) == 0;
}

/* A result may lack some of the files. */
void require_same_result(const char *a, const char *b)
{
	for (uint32_t i = 0; i < REPLAY_FILES; i++) {
		bool is_there = is_in(a, replay_files[i]) || is_in(b, replay_files[i]);
		if (is_there && strcmp(replay_files[i], RESULT_PROVENANCE) != 0) {
			require_same_file(a, b, replay_files[i]);
		}
	}
}

void require_good(struct process_result outcome)
{
	require(outcome.code == 0, "code %d: %s", outcome.code, outcome.err);
	/* The trace of these tests has two rows that are too long for some of their limits. */
	size_t bytes = strlen(outcome.err);
	bool is_advice = bytes > 11 && strcmp(outcome.err + bytes - 11, " takes all\n") == 0;
	require(bytes == 0 || is_advice, "it says %s", outcome.err);
	require(outcome.out[0] != '\0', "it says nothing");
	process_result_free(&outcome);
}

void require_line(struct process_result outcome, int code, const char *words)
{
	size_t bytes = strlen(outcome.err);

	require(outcome.code == code, "code %d instead of %d: %s%s", outcome.code, code,
		outcome.out, outcome.err);
	require(bytes > 0, "it says nothing");
	require(strchr(outcome.err, '\n') == outcome.err + bytes - 1, "not one line: %s",
		outcome.err);
	require(strncmp(outcome.err, "quire replay: ", 14) == 0, "it says %s", outcome.err);
	require(strstr(outcome.err, words) != NULL, "'%s' is not in: %s", words, outcome.err);
	process_result_free(&outcome);
}

void require_refused(struct process_result outcome, const char *words)
{
	require(outcome.out[0] == '\0', "a refused run prints %s", outcome.out);
	require_line(outcome, 2, words);
}

cJSON *read_summary(const char *folder)
{
	char *text = read_in(folder, RESULT_SUMMARY);

	require(text != NULL, "no summary");
	cJSON *root = cJSON_Parse(text);
	require(root != NULL, "the summary is no JSON");
	free(text);
	return root;
}

uint64_t number_in(const cJSON *root, const char *section, const char *name)
{
	const cJSON *object = section == NULL ? root : cJSON_GetObjectItem(root, section);
	const cJSON *value = cJSON_GetObjectItem(object, name);

	require(cJSON_IsNumber(value), "%s is no number", name);
	return (uint64_t)value->valuedouble;
}

const char *text_in(const cJSON *root, const char *section, const char *name)
{
	const cJSON *object = section == NULL ? root : cJSON_GetObjectItem(root, section);
	const cJSON *value = cJSON_GetObjectItem(object, name);

	require(cJSON_IsString(value), "%s is no text", name);
	return value->valuestring;
}

uint64_t sum_column(
	const char *table, uint32_t column, uint32_t key, const char *wanted, uint64_t *rows)
{
	uint64_t sum = 0;

	*rows = 0;
	for (const char *row = strchr(table, '\n') + 1; *row != '\0';) {
		uint64_t value = 0;
		bool is_wanted = wanted == NULL;
		for (uint32_t i = 0;; i++) {
			size_t bytes = strcspn(row, "\t\n");
			value = i == column ? strtoull(row, NULL, 10) : value;
			is_wanted = is_wanted || (i == key && strlen(wanted) == bytes &&
							 strncmp(row, wanted, bytes) == 0);
			row += bytes + 1;
			if (row[-1] == '\n') {
				break;
			}
		}
		sum += is_wanted ? value : 0;
		*rows += is_wanted;
	}
	return sum;
}
