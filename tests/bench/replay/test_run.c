#include "bench/replay/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/record/summary.h"
#include "bench/replay/run_to_folder.h"
#include "tests/harness/files.h"
#include "tests/harness/temporary.h"

/* A run without files beside the same run with a result folder. */

enum { PATH_BYTES = TEMPORARY_PATH_BYTES + 32, ROWS = 200 };

struct scene {
	char folder[TEMPORARY_PATH_BYTES];
	char trace[PATH_BYTES];
};

static void open_scene(struct scene *scene)
{
	temporary_folder(scene->folder);
	snprintf(scene->trace, PATH_BYTES, "%s/trace.jsonl", scene->folder);
	FILE *file = fopen(scene->trace, "wb");
	cr_assert_not_null(file);
	for (unsigned i = 0; i < ROWS; i++) {
		fprintf(file,
			"{\"timestamp\": %u, \"input_length\": %u, \"output_length\": %u, "
			"\"hash_ids\": [%u, %u]}\n",
			i * 4, 520 + i * 37 % 200, 20 + i * 13 % 60, i % 7, i);
	}
	cr_assert_eq(fclose(file), 0);
}

static struct run_request request_of(const struct scene *scene)
{
	struct run_request request = {.trace_path = scene->trace, .slo.ttft_ns = 50000000};

	replay_config_default(&request.config);
	request.config.block_size = 16;
	request.config.kv_blocks = 300;
	request.config.max_num_seqs = 8;
	request.config.max_model_len = 780; /* the longest rows are rejected */
	return request;
}

static struct run_outcome run_without_files(const struct scene *scene)
{
	struct run_request request = request_of(scene);
	struct run_outcome outcome;
	struct error error = {0};

	cr_assert_eq(run_replay(&request, &outcome, &error), STATUS_OK, "%s", error.text);
	return outcome;
}

/* The outcome as summary.json says it. */
static char *summary_of(const struct scene *scene, const struct run_outcome *outcome)
{
	struct run_request request = request_of(scene);
	char path[PATH_BYTES];

	request.config.model = "qwen3-0.6b";
	request.config.gpu = "h200-qwen3-0.6b"; /* which --gpu h200 is for this model */
	request.config.dtype = DTYPE_BFLOAT16;
	snprintf(path, sizeof(path), "%s/summary.json", scene->folder);
	FILE *file = fopen(path, "wb");
	cr_assert_not_null(file);
	summary_write(outcome, replay_config_json(&request.config), file);
	cr_assert_eq(fclose(file), 0);
	char *text = file_read(path, NULL);
	unlink(path);
	return text;
}

Test(run, can_be_done_twice_in_a_process_and_gives_what_the_result_folder_says)
{
	struct scene scene;
	struct error error = {0};
	char out[PATH_BYTES], summary[PATH_BYTES + 16];

	open_scene(&scene);
	const struct run_outcome first = run_without_files(&scene);
	const struct run_outcome second = run_without_files(&scene);
	snprintf(out, sizeof(out), "%s/out", scene.folder);
	struct replay_request recorded = {.run = request_of(&scene), .out = out};
	cr_assert_eq(run_to_folder(&recorded, &error), STATUS_OK, "%s", error.text);

	cr_assert_eq(first.end, RUN_COMPLETE);
	cr_assert_gt(first.finished, 0);
	cr_assert_gt(first.rejected, 0);
	cr_assert_eq(first.submitted, ROWS);
	cr_assert_gt(first.work.output_tokens, 0);
	snprintf(summary, sizeof(summary), "%s/summary.json", out);
	char *written = file_read(summary, NULL);
	char *of_first = summary_of(&scene, &first);
	char *of_second = summary_of(&scene, &second);
	cr_assert_str_eq(of_first, written);
	cr_assert_str_eq(of_second, written);
	free(written);
	free(of_first);
	free(of_second);
	temporary_remove(scene.folder);
}

Test(run, leaves_no_file_behind)
{
	struct scene scene;

	open_scene(&scene);
	run_without_files(&scene);
	cr_assert_eq(unlink(scene.trace), 0);
	cr_assert_eq(rmdir(scene.folder), 0, "the folder holds something beside the trace");
}

Test(run, of_another_trace_than_the_recorded_one_has_failed)
{
	struct scene scene;
	struct error error = {0};
	struct run_outcome outcome;
	char out[PATH_BYTES];

	open_scene(&scene);
	snprintf(out, sizeof(out), "%s/out", scene.folder);
	struct replay_request recorded = {
		.run = request_of(&scene), .out = out, .wants_steps = true};
	cr_assert_eq(run_to_folder(&recorded, &error), STATUS_OK, "%s", error.text);

	struct run_request request = request_of(&scene);
	request.config.runner = "tape";
	request.tape = out;
	cr_assert_eq(run_replay(&request, &outcome, &error), STATUS_OK, "%s", error.text);
	cr_assert_eq(outcome.end, RUN_COMPLETE);

	FILE *file = fopen(scene.trace, "ab");
	cr_assert_not_null(file);
	fprintf(file, "\n");
	cr_assert_eq(fclose(file), 0);
	request = request_of(&scene);
	request.config.runner = "tape";
	request.tape = out;
	cr_assert_eq(run_replay(&request, &outcome, &error), STATUS_VERDICT);
	cr_assert_not_null(
		strstr(error.text, "not the trace of the recorded run"), "found: %s", error.text);
	char hash[64];
	snprintf(hash, sizeof(hash), "its XXH64 is %016llx, recorded was ",
		(unsigned long long)outcome.trace_xxh64);
	cr_assert_not_null(strstr(error.text, hash), "found: %s", error.text);
	cr_assert_eq(outcome.end, RUN_FAILED);
	temporary_remove(scene.folder);
}

Test(run, without_a_trace_is_an_error_and_leaves_no_outcome)
{
	struct scene scene;
	struct error error = {0};
	struct run_outcome outcome;

	open_scene(&scene);
	struct run_request request = request_of(&scene);
	unlink(scene.trace);
	cr_assert_eq(run_replay(&request, &outcome, &error), STATUS_FILE);
	cr_assert_not_null(strstr(error.text, scene.trace), "found: %s", error.text);
	temporary_remove(scene.folder);
}
