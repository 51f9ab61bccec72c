#include "bench/calibrate/from_steps.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "engine/base/counter_hash.h"
#include "engine/base/table.h"
#include "engine/base/text.h"
#include "engine/model/config_json.h"
#include "sim/kv_memory.h"
#include "sim/price_by_operations.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/replay_cli.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(from_steps, .init = set_up, .fini = tear_down);

#define NEEDED "elapsed_ns\tdecode_rows\tprefill_tokens\tdecode_context_tokens"

static enum status read_text(struct step_log *log, const char *text, struct error *error)
{
	const struct step_log_options options = {.left_out = "warmup", .held_out = "nano"};
	char path[TEMPORARY_PATH_BYTES];

	temporary_write(folder, "log.tsv", text, path);
	return step_log_read(log, path, &options, error);
}

/* ---- reading ---- */

Test(from_steps, what_a_log_lacks_is_filled_in)
{
	struct step_log log;
	struct error error = {0};

	require_equal(
		read_text(&log, NEEDED "\n500\t3\t0\t70\n900\t2\t100\t9\n", &error), STATUS_OK);
	require_equal(log.fitted.count, 2);
	const struct calibrate_point *decode = &log.fitted.points[0], *mixed = decode + 1;
	require_equal(decode->elapsed_ns, 500);
	require_equal(decode->gpu_ns, 500);
	require_equal(decode->host_ns, 0);
	require_equal(decode->counts.prefill_rows, 0);
	require_equal(decode->counts.sampled_rows, 3);
	require_equal(decode->counts.decode_context_tokens, 70);
	require_equal(mixed->counts.prefill_rows, 1);
	require_equal(mixed->counts.sampled_rows, 3);
	require_equal(mixed->counts.prefill_attention_pairs, 5050);
	step_log_free(&log);
}

/* Of prompts that are counted each gives a token, and they are taken to be of one length. */
Test(from_steps, what_a_log_has_is_what_the_rest_follows_from)
{
	struct step_log log;
	struct error error = {0};

	for (uint64_t rows = 1; rows <= 8; rows *= 2) {
		char text[256];
		snprintf(text, sizeof(text),
			NEEDED "\tprefill_rows\n500\t3\t0\t70\t0\n"
			       "900\t2\t400\t9\t%llu\n",
			(unsigned long long)rows);
		require_equal(read_text(&log, text, &error), STATUS_OK);
		require_equal(log.fitted.count, 2);
		require_equal(log.fitted.points[0].counts.sampled_rows, 3);
		require_equal(log.fitted.points[0].counts.prefill_attention_pairs, 0);
		const struct step_counts *counts = &log.fitted.points[1].counts;
		require_equal(counts->prefill_rows, rows);
		require_equal(counts->sampled_rows, 2 + rows);
		require_equal(counts->prefill_attention_pairs,
			rows * (400 / rows) * (400 / rows + 1) / 2);
		step_log_free(&log);
	}
	require_equal(read_text(&log,
			      NEEDED "\tprefill_rows\tsampled_rows\tprefill_attention_pairs\n"
				     "900\t2\t400\t9\t4\t5\t20777\n",
			      &error),
		STATUS_OK);
	require_equal(log.fitted.points[0].counts.sampled_rows, 5);
	require_equal(log.fitted.points[0].counts.prefill_attention_pairs, 20777);
	step_log_free(&log);
}

Test(from_steps, columns_stand_in_any_order_and_phases_are_told_apart)
{
	struct step_log log;
	struct error error = {0};

	require_equal(read_text(&log,
			      "prefill_tokens\tphase\tother\tdecode_rows\tdecode_context_tokens\t"
			      "elapsed_ns\tprefill_rows\tsampled_rows\tprefill_attention_pairs\n"
			      "0\twarmup\tx\t1\t1\t1\t0\t1\t0\n"
			      "64\tnano\tx\t0\t0\t7\t4\t2\t999\n"
			      "0\tb1\t\t1\t9\t8\t0\t1\t0\n",
			      &error),
		STATUS_OK);
	require_equal(log.left_out_count, 1);
	require_equal(log.held_out.count, 1);
	require_equal(log.held_out.points[0].counts.prefill_attention_pairs, 999);
	require_equal(log.held_out.points[0].counts.sampled_rows, 2);
	require_equal(log.fitted.count, 1);
	require_equal(log.fitted.points[0].elapsed_ns, 8);
	step_log_free(&log);
}

Test(from_steps, a_compressed_log_is_the_same)
{
	struct step_log plain, packed;
	struct error error = {0};
	char path[TEMPORARY_PATH_BYTES];
	const char *text = NEEDED "\n500\t3\t0\t70\n900\t2\t100\t9\n";
	const struct step_log_options options = {.left_out = NULL};

	require_equal(read_text(&plain, text, &error), STATUS_OK);
	snprintf(path, sizeof(path), "%.480s/log.gz", folder);
	gzFile file = gzopen(path, "wb");
	require(gzputs(file, text) > 0 && gzclose(file) == Z_OK, "cannot write");
	require_equal(step_log_read(&packed, path, &options, &error), STATUS_OK);
	require_equal(packed.fitted.count, plain.fitted.count);
	require(memcmp(packed.fitted.points, plain.fitted.points,
			plain.fitted.count * sizeof(*plain.fitted.points)) == 0,
		"other points");
	step_log_free(&plain);
	step_log_free(&packed);
}

Test(from_steps, bad_logs_get_one_clear_line)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"", "log.tsv: found an empty file, expected the log of steps"},
		{"elapsed_ns\tdecode_rows\tprefill_tokens\n",
			"log.tsv:1: decode_context_tokens: found elapsed_ns"},
		{NEEDED "\tdecode_rows\n", "log.tsv:1: decode_rows: found the column twice"},
		{NEEDED "\tshared_tokens\tshared_tokens\n",
			"log.tsv:1: shared_tokens: found the column twice"},
		{"phase\t" NEEDED "\tphase\n", "log.tsv:1: phase: found the column twice"},
		{NEEDED "\n", "log.tsv: found no step, expected some"},
		{"phase\t" NEEDED "\nnano\t1\t1\t0\t1\n", "log.tsv: found no step, expected some"},
		{NEEDED "\n0\t1\t0\t1\n", "log.tsv:2: elapsed_ns: found 0, expected an integer in "
					  "[1, "},
		{NEEDED "\n1000000000000001\t1\t0\t1\n",
			"log.tsv:2: elapsed_ns: found 1000000000000001, expected an integer in [1, "
			"1000000000000000]"},
		{NEEDED "\n5.5\t1\t0\t1\n", "log.tsv:2: elapsed_ns: found 5.5"},
		{NEEDED "\n5\t-1\t0\t1\n", "log.tsv:2: decode_rows: found -1"},
		{NEEDED "\n5\t4294967296\t0\t1\n", "log.tsv:2: decode_rows: found 4294967296"},
		{NEEDED "\n5\t1\t0\n", "log.tsv:2: found 5?1?0, expected 4 cells between tabs"},
		{NEEDED "\n5\t0\t0\t0\n", "log.tsv:2: decode_rows: found 0, expected a decode row"},
		{NEEDED "\n5\t2\t0\t1\n",
			"log.tsv:2: decode_context_tokens: found 1, expected 2 to 8589934590: one "
			"or more for each of decode_rows"},
		{NEEDED "\n5\t0\t8\t1\n",
			"log.tsv:2: decode_context_tokens: found 1, expected 0 to 0"},
		{NEEDED "\tprefill_rows\n5\t0\t8\t0\t0\n",
			"log.tsv:2: prefill_rows: found 0, expected 1 to 8"},
		{NEEDED "\tprefill_rows\n5\t0\t8\t0\t9\n",
			"log.tsv:2: prefill_rows: found 9, expected 1 to 8"},
		{NEEDED "\tsampled_rows\n5\t1\t0\t1\t2\n",
			"log.tsv:2: sampled_rows: found 2, expected 0 to 1"},
		{NEEDED "\tshared_tokens\treread_tokens\n5\t2\t0\t100\t101\t0\n",
			"log.tsv:2: shared_tokens: found 101, expected 0 to 100"},
		{NEEDED "\tshared_tokens\treread_tokens\n5\t2\t0\t100\t40\t41\n",
			"log.tsv:2: reread_tokens: found 41, expected 0 to 40"},
		{NEEDED "\tshared_tokens\trepeat_tokens\n5\t2\t0\t100\t40\t41\n",
			"log.tsv:2: repeat_tokens: found 41, expected 0 to 40"},
		{NEEDED "\tdecode_longest_context\n5\t2\t0\t9\t9\n",
			"log.tsv:2: decode_longest_context: found 9, expected 4 to 8"},
		{NEEDED "\tdecode_longest_context\n5\t2\t0\t9\t3\n",
			"log.tsv:2: decode_longest_context: found 3, expected 4 to 8"},
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct step_log log;
		struct error error = {0};
		require_equal(read_text(&log, cases[i].text, &error), STATUS_INPUT);
		require(strstr(error.text, cases[i].error) != NULL, "%u: %s, expected %s", i,
			error.text, cases[i].error);
		step_log_free(&log);
	}
}

/* 256 columns are read, of which the first four are needed. */
Test(from_steps, a_log_of_too_many_columns_is_refused)
{
	for (uint32_t columns = 256; columns <= 257; columns++) {
		struct text text = {0};
		struct step_log log;
		struct error error = {0};
		text_add(&text, NEEDED);
		for (uint32_t i = 4; i < columns; i++) {
			text_format(&text, "\tc%u", i);
		}
		text_add(&text, "\n");
		require_equal(read_text(&log, text.bytes, &error), STATUS_INPUT);
		bool is_read = strstr(error.text, "found no step") != NULL;
		require(is_read == (columns == 256), "%u columns: %s", columns, error.text);
		step_log_free(&log);
		text_deinit(&text);
	}
}

/* ---- steps that were noticed late ---- */

static void add(struct calibrate_points *points, uint64_t elapsed_ns)
{
	struct calibrate_point point = {.samples = 1,
		.elapsed_ns = elapsed_ns,
		.counts = {.decode_rows = 1, .decode_context_tokens = 1, .sampled_rows = 1}};
	const struct calibrate_points one = {.points = &point, .count = 1};

	calibrate_points_append(points, &one);
}

Test(from_steps, a_step_below_its_floors_goes_with_the_one_before_it)
{
	/* 100 ns a step at least */
	const struct operation_floors floors = {.products = 100};
	static const uint64_t times[] = {90, 150, 200, 190, 20, 160, 30, 40, 170};
	static const uint64_t kept[] = {150, 200, 170};
	struct step_log log = {.late_count = 0};

	for (uint32_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		add(&log.fitted, times[i]);
	}
	step_log_drop_late(&log, &floors);
	require_equal(log.fitted.count, 3);
	require_equal(log.late_count, 6);
	for (uint32_t i = 0; i < 3; i++) {
		require_equal(log.fitted.points[i].elapsed_ns, kept[i]);
	}
	step_log_free(&log);
}

/* ---- the fit ---- */

/* A log whose times the prices of a profile gave, with noise of a percent. */
static void write_priced_log(const char *path, const struct gpu_profile *gpu)
{
	struct operation_pricer *pricer = malloc(sizeof(*pricer));
	FILE *file = fopen(path, "w");

	require(pricer != NULL && file != NULL, "cannot write");
	operation_pricer_init(pricer, &gpu->prices);
	fprintf(file, "phase\t" NEEDED "\tdecode_longest_context\n");
	for (uint64_t i = 0; i < 900; i++) {
		uint64_t hash = counter_hash(11, i);
		uint64_t rows = 1 + (hash % 8 == 0 ? 0 : (hash >> 8) % 256);
		uint64_t each = 200 + (hash >> 20) % 900;
		bool has_prompt = (hash >> 40) % 4 == 0;
		struct step_counts counts = {.decode_rows = rows,
			.decode_context_tokens = rows * each,
			.decode_longest_context = each,
			.prefill_rows = has_prompt,
			.prefill_tokens = has_prompt ? 16 + (hash >> 44) % 4000 : 0};
		counts.prefill_attention_pairs =
			counts.prefill_tokens * (counts.prefill_tokens + 1) / 2;
		counts.sampled_rows = rows + has_prompt;
		const struct operation_price price = price_by_operations(pricer, &counts, false);
		double noise = 0.99 + 0.02 * (double)(hash >> 54) / 1024;
		fprintf(file, "%s\t%.0f\t%llu\t%llu\t%llu\t%llu\n", i % 3 == 0 ? "nano" : "serve",
			(price.gpu_ns + price.host_ns) * noise, (unsigned long long)rows,
			(unsigned long long)counts.prefill_tokens,
			(unsigned long long)counts.decode_context_tokens, (unsigned long long)each);
	}
	fclose(file);
	free(pricer);
}

/* What prices made, the fit predicts where it was not fitted. The profile that is written finds the
   blocks that it was told, and has the host's times. */
Test(from_steps, prices_of_a_log_are_found_again)
{
	char path[TEMPORARY_PATH_BYTES], command[4 * TEMPORARY_PATH_BYTES];
	struct gpu_profile gpu, made;
	struct error error = {0};

	require(gpu_profile_find("h200-vllm-qwen3-8b", &gpu, &error) == STATUS_OK, "%s",
		error.text);
	snprintf(path, sizeof(path), "%.480s/log.tsv", folder);
	write_priced_log(path, &gpu);
	char *out = quire_output(folder, 0,
		"calibrate --from-steps @/log.tsv --model qwen3-8b --name v --out @/p --kv-blocks "
		"40000 --host-step-us 3000 --host-row-us 1.5");
	const char *phase = strstr(out, "(");
	require(phase != NULL && fabs(atof(phase + 1)) < 1, "%s", out);
	phase = strstr(out, "mean error of a step ");
	require(phase != NULL && atof(phase + 21) < 2, "%s", out);
	free(out);

	snprintf(path, sizeof(path), "%.480s/p/v.json", folder);
	require(gpu_profile_find(path, &made, &error) == STATUS_OK, "%s", error.text);
	require(made.process_step == 3e6 && made.process_row == 1500, "%g and %g ns",
		made.process_step, made.process_row);
	snprintf(command, sizeof(command), "info --policy vllm --model qwen3-8b --gpu @/p/v.json");
	out = quire_output(folder, 0, command);
	require(strstr(out, "40000 of 16 tokens") != NULL, "%s", out);
	free(out);
}

/* What an engine of the configuration has on the GPU. */
static struct kv_memory memory_of(const struct replay_config *given, const struct gpu_profile *gpu)
{
	struct replay_config config = *given;
	struct engine_config engine;
	struct model_config model;
	struct kv_memory memory;
	struct error error = {0};

	require(model_config_find(config.model, &model, &error) == STATUS_OK, "%s", error.text);
	replay_config_complete(&config, &model);
	replay_config_engine(&config, &engine);
	require(kv_memory_estimate(&model, gpu, &engine, config.gpu_memory_utilization,
			(uint32_t)config.tensor_parallel_size, &memory, &error) == STATUS_OK,
		"%s", error.text);
	return memory;
}

/* The engine that a profile describes holds the blocks that it was told, alone and among ranks: one
   block, many, and the most that fit beside weights and exchange and leave a byte, of a GPU whose
   memory is a number of blocks. One more is refused. */
Test(from_steps, a_profile_has_the_blocks_that_it_was_told)
{
	char path[TEMPORARY_PATH_BYTES];
	struct gpu_profile gpu;
	struct error error = {0};

	require(gpu_profile_find("h200-vllm-qwen3-8b", &gpu, &error) == STATUS_OK, "%s",
		error.text);
	snprintf(path, sizeof(path), "%.480s/log.tsv", folder);
	write_priced_log(path, &gpu);
	for (uint32_t i = 0; i < 16; i++) {
		struct gpu_profile made = gpu;
		struct replay_config config;
		struct from_steps_result result;
		bool is_too_many = i >= 12;
		replay_config_default(&config);
		config.model = "qwen3-8b";
		config.tensor_parallel_size = UINT64_C(1) << i % 4;
		config.gpu_memory_utilization = 1000000;
		config.given.gpu_memory_utilization = true;
		config.policy = 2; /* vllm */
		replay_config_take_policy(&config);
		made.engine_bytes = 1;
		const struct kv_memory room = memory_of(&config, &made);
		const uint64_t rest = room.usable_bytes - room.weight_bytes - room.exchange_bytes;
		const uint64_t most = rest / room.block_bytes - 1;
		made.memory_bytes -= (double)(rest % room.block_bytes);
		config.kv_blocks = (const uint64_t[]){1, 40000, most, most + 1}[i / 4];
		const struct from_steps_request request = {.path = path, .config = &config};
		error = (struct error){0};
		enum status status = from_steps(&result, &request, &made, &error);
		require(status == (is_too_many ? STATUS_USAGE : STATUS_OK), "%llu blocks: %s",
			(unsigned long long)config.kv_blocks, error.text);
		if (!is_too_many) {
			const struct calibrate_origin *origin = &result.log.fitted.origin;
			require_equal(memory_of(&config, &made).block_count, config.kv_blocks);
			require_equal(strtoull(origin->kv_blocks, NULL, 10), config.kv_blocks);
			require_equal(strtoull(origin->tensor_parallel_size, NULL, 10),
				config.tensor_parallel_size);
		}
		step_log_free(&result.log);
	}
}

/* The middle of the times that stand `offset` bytes into each step; of two, the lesser. */
static double lower_median_ms(const struct calibrate_points *steps, size_t offset)
{
	for (size_t i = 0; i < steps->count; i++) {
		uint64_t own = *(const uint64_t *)((const char *)&steps->points[i] + offset);
		size_t less = 0, no_more = 0;
		for (size_t j = 0; j < steps->count; j++) {
			uint64_t time =
				*(const uint64_t *)((const char *)&steps->points[j] + offset);
			less += time < own;
			no_more += time <= own;
		}
		if (2 * less < steps->count && 2 * no_more >= steps->count) {
			return (double)own / 1e6;
		}
	}
	return -1;
}

static double sum_s(const struct calibrate_points *steps, size_t offset)
{
	double sum = 0;

	for (size_t i = 0; i < steps->count; i++) {
		sum += (double)*(const uint64_t *)((const char *)&steps->points[i] + offset);
	}
	return sum / 1e9;
}

/* Steps of a log, of which only the first few of one phase are left. */
static void write_part(const char *from, const char *to, const char *phase, uint32_t count)
{
	char *text = file_read(from, NULL);
	FILE *file = fopen(to, "w");
	char *rest = NULL;
	uint32_t found = 0;

	require(file != NULL, "cannot write");
	for (char *line = strtok_r(text, "\n", &rest); line != NULL;
		line = strtok_r(NULL, "\n", &rest)) {
		bool is_of_phase = strncmp(line, phase, strlen(phase)) == 0;
		if (!is_of_phase || found++ < count) {
			fprintf(file, "%s\n", line);
		}
	}
	fclose(file);
	free(text);
}

static int compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* How far off the predictions are: means, and the nearest rank of the absolute errors in order. */
static void require_errors(const struct profile_errors *found, const struct calibrate_points *steps)
{
	double *all = calloc(steps->count, sizeof(*all));
	double sum = 0, bias = 0, count = (double)steps->count;

	for (size_t i = 0; i < steps->count; i++) {
		const struct calibrate_point *step = &steps->points[i];
		double off = (double)step->predicted_ns / (double)step->elapsed_ns - 1;
		all[i] = fabs(off);
		sum += all[i];
		bias += off;
	}
	qsort(all, steps->count, sizeof(*all), compare_doubles);
	require_equal(found->points, steps->count);
	cr_assert_float_eq(found->mean, sum / count, 1e-12);
	cr_assert_float_eq(found->bias, bias / count, 1e-12);
	require(found->p50 == all[(size_t)ceil(0.5 * count) - 1], "p50 %g", found->p50);
	require(found->p90 == all[(size_t)ceil(0.9 * count) - 1], "p90 %g", found->p90);
	require(found->p99 == all[(size_t)ceil(0.99 * count) - 1], "p99 %g", found->p99);
	require(found->max == all[steps->count - 1], "at most %g", found->max);
	require(steps->count < 5 || fabs(bias) < sum, "all errors have one sign");
	free(all);
}

/* Its sums, medians and errors are those of its steps, of an odd number of them as of an even
   one. */
Test(from_steps, a_phase_that_is_held_out_is_summed_up)
{
	static const uint32_t counts[] = {1, 2, 3, 4, 5, 40, 41};
	char path[TEMPORARY_PATH_BYTES], part[TEMPORARY_PATH_BYTES];
	struct gpu_profile gpu;
	struct error error = {0};

	require(gpu_profile_find("h200-vllm-qwen3-8b", &gpu, &error) == STATUS_OK, "%s",
		error.text);
	snprintf(path, sizeof(path), "%.480s/log.tsv", folder);
	snprintf(part, sizeof(part), "%.480s/part.tsv", folder);
	write_priced_log(path, &gpu);
	for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct replay_config config;
		struct from_steps_result result;
		replay_config_default(&config);
		config.model = "qwen3-8b";
		const struct from_steps_request request = {
			.path = part, .held_out_phase = "nano", .config = &config};
		write_part(path, part, "nano", counts[i]);
		require(from_steps(&result, &request, &gpu, &error) == STATUS_OK, "%s", error.text);
		const struct calibrate_points *steps = &result.log.held_out;
		const struct phase_errors *phase = &result.phase;
		const size_t elapsed = offsetof(struct calibrate_point, elapsed_ns);
		const size_t predicted = offsetof(struct calibrate_point, predicted_ns);
		require_equal(steps->count, counts[i]);
		require_equal(phase->steps, counts[i]);
		cr_assert_float_eq(phase->measured_s, sum_s(steps, elapsed), 1e-9);
		cr_assert_float_eq(phase->predicted_s, sum_s(steps, predicted), 1e-9);
		cr_assert_float_eq(
			phase->measured_median_ms, lower_median_ms(steps, elapsed), 1e-9);
		cr_assert_float_eq(
			phase->predicted_median_ms, lower_median_ms(steps, predicted), 1e-9);
		require_errors(&phase->each, steps);
		step_log_free(&result.log);
	}
}

/* Appends the lines of a command's output that say how far off the prices are. */
static void add_errors(struct text *text, const char *out)
{
	for (const char *line = out; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		const char *name = line + strspn(line, " ");
		if (strncmp(name, "fitted", 6) == 0 || strncmp(name, "held out", 8) == 0) {
			text_add_bytes(text, line, strcspn(line, "\n") + 1);
		}
	}
}

static char *read_made(const char *name)
{
	char path[TEMPORARY_PATH_BYTES];

	snprintf(path, sizeof(path), "%.480s/%s", folder, name);
	return file_read(path, NULL);
}

/* The points of a log give the profile of the log again, with the same errors. */
Test(from_steps, its_points_are_fitted_to_the_same_errors)
{
	char path[TEMPORARY_PATH_BYTES];
	struct gpu_profile gpu;
	struct text first = {0}, again = {0};
	struct error error = {0};

	require(gpu_profile_find("h200-vllm-qwen3-8b", &gpu, &error) == STATUS_OK, "%s",
		error.text);
	snprintf(path, sizeof(path), "%.480s/log.tsv", folder);
	write_priced_log(path, &gpu);
	char *out = quire_output(folder, 0,
		"calibrate --from-steps @/log.tsv --model qwen3-8b --name v --out @/p "
		"--kv-blocks 50000 --host-step-us 2504.6 --host-row-us 25.4");
	add_errors(&first, out);
	free(out);
	out = quire_output(folder, 0,
		"calibrate --points @/p/points.tsv --model qwen3-8b --name v --out @/again");
	add_errors(&again, out);
	require(strstr(out, "no line '# engine_bytes'") == NULL, "%s", out);
	free(out);
	char *made = read_made("p/v.json"), *made_again = read_made("again/v.json");
	cr_assert_str_eq(made, made_again);
	require(strstr(made, "engine_bytes") != NULL && strstr(made, "2504600") != NULL, "%s",
		made);
	free(made);
	free(made_again);
	const char *held_out = strstr(first.bytes, "held out");
	require(strncmp(first.bytes + strspn(first.bytes, " "), "fitted", 6) == 0, "%s",
		first.bytes);
	require(held_out != NULL && strstr(held_out + 1, "held out") == NULL, "%s", first.bytes);
	cr_assert_str_eq(first.bytes, again.bytes);
	text_deinit(&first);
	text_deinit(&again);
}

/* log.tsv, with the times of the built-in profile. */
static void write_log_of_8b(void)
{
	char path[TEMPORARY_PATH_BYTES];
	struct gpu_profile gpu;
	struct error error = {0};

	require(gpu_profile_find("h200-vllm-qwen3-8b", &gpu, &error) == STATUS_OK, "%s",
		error.text);
	snprintf(path, sizeof(path), "%.480s/log.tsv", folder);
	write_priced_log(path, &gpu);
}

/* Points without these lines give a profile without their numbers, and a note; a number that is
   none is refused with its line. */
Test(from_steps, points_may_lack_what_they_say_of_the_engine)
{
	write_log_of_8b();
	free(quire_output(folder, 0,
		"calibrate --from-steps @/log.tsv --model qwen3-8b --name v --out @/p --kv-blocks "
		"50000"));
	struct process_result result = shell_run(folder,
		"sed '/^# engine/d' p/points.tsv >bare.tsv && "
		"sed 's/^# engine_process_row_ns .*/# engine_process_row_ns x/' p/points.tsv "
		">odd.tsv");
	require(result.code == 0, "%s", result.err);
	process_result_free(&result);
	char *out = quire_output(
		folder, 0, "calibrate --points @/bare.tsv --model qwen3-8b --name v --out @/bare");
	require(strstr(out, "the points have no line '# engine_bytes'") != NULL, "%s", out);
	free(out);
	char *made = read_made("bare/v.json");
	require(strstr(made, "engine_bytes") == NULL, "%s", made);
	free(made);
	out = quire_output(folder, 2, "calibrate --points @/odd.tsv --name v --out @/odd");
	require(strstr(out, "the line '# engine_process_row_ns' of the points: found 'x', expected "
			    "0 to 1000000000") != NULL,
		"%s", out);
	free(out);
}

/* A step and its rows take an engine process time, either of them alone too. A profile of an engine
   in one process has neither. */
Test(from_steps, times_of_an_engine_process_are_kept)
{
	static const struct {
		const char *options;
		double step_ns, row_ns;
	} cases[] = {
		{"", 0, 0},
		{" --host-row-us 5", 0, 5000},
		{" --host-step-us 1200.5", 1200500, 0},
		{" --host-step-us 1200.5 --host-row-us 0.25", 1200500, 250},
		{" --host-step-us 0 --host-row-us 0", 0, 0},
	};
	char path[TEMPORARY_PATH_BYTES], command[512];
	static struct gpu_profile gpu, made;
	struct error error = {0};

	require(gpu_profile_find("h200-vllm-qwen3-8b", &gpu, &error) == STATUS_OK, "%s",
		error.text);
	snprintf(path, sizeof(path), "%.480s/log.tsv", folder);
	write_priced_log(path, &gpu);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(command, sizeof(command),
			"calibrate --from-steps @/log.tsv --model qwen3-8b --name v --out @/p%zu%s",
			i, cases[i].options);
		free(quire_output(folder, 0, command));
		snprintf(path, sizeof(path), "%.480s/p%zu/v.json", folder, i);
		require(gpu_profile_find(path, &made, &error) == STATUS_OK, "%s", error.text);
		require(made.process_step == cases[i].step_ns &&
				made.process_row == cases[i].row_ns,
			"'%s': %g and %g ns", cases[i].options, made.process_step,
			made.process_row);
		char *text = file_read(path, NULL);
		bool has_any = cases[i].step_ns + cases[i].row_ns > 0;
		require((strstr(text, "engine_process") != NULL) == has_any, "'%s': %s",
			cases[i].options, has_any ? "no times" : "times of nothing");
		free(text);
	}
}

#define LLAMA QUIRE_SOURCE_DIR "/tests/fixtures/llama-3.1-8b.json"

/* A model that no runner computes: its log is fitted, its profile prices a replay of vLLM's policy,
   and the points are fitted again. The times are those of a model of about its size. */
Test(from_steps, a_llama_is_calibrated_and_replayed)
{
	write_log_of_8b();
	free(quire_output(folder, 0,
		"calibrate --from-steps @/log.tsv --model " LLAMA " --name l --out @/p"));
	free(quire_output(folder, 0,
		"calibrate --points @/p/points.tsv --model " LLAMA " --name l --out @/again"));
	free(quire_output(folder, 2, "calibrate --points @/p/points.tsv --name l --out @/other"));
	free(quire_output(folder, 0,
		"trace make --requests 40 --input 200:900 --output 20:60 --rate 20 --seed 1 --out "
		"@/t.jsonl"));
	char *out = quire_output(folder, 0,
		"replay @/t.jsonl --policy vllm --model " LLAMA " --gpu @/p/l.json --json");
	require(strstr(out, "\"model\":\t\"llama-3.1-8b\"") != NULL, "%s", out);
	require(strstr(out, "\"calibrated\":\ttrue") != NULL, "%s", out);
	free(out);
	out = quire_output(
		folder, 2, "replay @/t.jsonl --policy vllm --model qwen3-8b --gpu @/p/l.json");
	require(strstr(out, "llama-3.1-8b") != NULL, "%s", out);
	free(out);
	out = quire_output(folder, 2,
		"replay @/t.jsonl --model " LLAMA " --runner reference --weights dummy:0");
	require(strstr(out, "llama-3.1-8b has model_type \"llama\", which no runner computes") !=
			NULL,
		"%s", out);
	free(out);
}

Test(from_steps, wrong_options_are_refused)
{
	char path[TEMPORARY_PATH_BYTES];

	temporary_write(folder, "log.tsv", NEEDED "\n500\t3\t0\t70\n", path);
	free(quire_output(folder, 2, "calibrate --from-steps @/log.tsv --name v --out @/a"));
	free(quire_output(
		folder, 2, "calibrate --from-steps @/log.tsv --measured --name v --out @/a"));
	char *out = quire_output(
		folder, 2, "calibrate --from-steps @/log.tsv --kv-blocks 90000 --name v --out @/a");
	static const char said[] = "--kv-blocks 90000: beside the weights, ";
	const char *at = strstr(out, said);
	require(at != NULL, "%s", out);
	for (uint32_t more = 0; more < 2; more++) { /* as many fit as it says */
		char line[256];
		snprintf(line, sizeof(line),
			"calibrate --from-steps @/log.tsv --kv-blocks %ld --name v --out @/a",
			atol(at + strlen(said)) + more);
		char *refusal = quire_output(folder, 2, line);
		require((strstr(refusal, "beside the weights") != NULL) == (more == 1), "%s",
			refusal);
		free(refusal);
	}
	free(out);
}

/* ---- the profiles of the project ---- */

static const char *references(void)
{
	const char *own = getenv("QUIRE_REFERENCES");

	return own == NULL ? QUIRE_SOURCE_DIR "/../shared" : own;
}

static const struct {
	const char *model, *log;
	uint32_t kv_blocks;
	double seconds, tokens_per_s; /* nano_bench, measured: in one process, in two */
	double off_median;	      /* states how far off the median step may be, percent */
} shipped[] = {
	{"qwen3-0.6b", "steps_0.6b.tsv.gz", 74181, 5.61, 21300, 1},
	{"qwen3-8b", "steps_8b.tsv.gz", 50760, 14.55, 9190, 1.5},
};

static double figure(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	require(at != NULL, "no %s in %s", name, text);
	return atof(strpbrk(at + strlen(name), "0123456789+-"));
}

/* The fit of each log is the profile byte for byte, and its error is what README.md says. */
Test(from_steps, those_of_the_project_are_the_fit_of_their_logs, .timeout = 300)
{
	char path[2 * TEMPORARY_PATH_BYTES], command[4 * TEMPORARY_PATH_BYTES];

	snprintf(path, sizeof(path), "%.400s/vllm_h200/%s", references(), shipped[0].log);
	FILE *file = fopen(path, "r");
	if (file == NULL) {
		cr_skip_test("no step logs of vLLM in %s (QUIRE_REFERENCES)", references());
	}
	fclose(file);
	for (uint32_t i = 0; i < 2; i++) {
		snprintf(command, sizeof(command),
			"calibrate --from-steps %.400s/vllm_h200/%s --model %s --kv-blocks %u "
			"--host-step-us 2504.6 --host-row-us 25.4 --source 'vLLM 0.26.0' --name "
			"h200-vllm-%s --out @/p --force",
			references(), shipped[i].log, shipped[i].model, shipped[i].kv_blocks,
			shipped[i].model);
		char *out = quire_output(folder, 0, command);
		require(fabs(figure(out, "predicted (")) < 3, "%s", out);
		require(fabs(figure(strstr(out, "median step"), "(")) < shipped[i].off_median, "%s",
			out);
		free(out);
		snprintf(path, sizeof(path), "%.400s/p", folder);
		snprintf(command, sizeof(command), "h200-vllm-%s.json", shipped[i].model);
		require_same_file(path, QUIRE_SOURCE_DIR "/sim/profiles", command);
	}
}

/* nano_bench under vLLM's scheduler, with no option that says how much memory there is. */
Test(from_steps, a_replay_takes_as_long_as_vllm_did, .timeout = 300)
{
	char trace[TEMPORARY_PATH_BYTES], command[4 * TEMPORARY_PATH_BYTES];

	snprintf(trace, sizeof(trace), "%.400s/traces/nano_bench.jsonl", references());
	FILE *file = fopen(trace, "r");
	if (file == NULL) {
		cr_skip_test("no nano_bench.jsonl in %s/traces (QUIRE_REFERENCES)", references());
	}
	fclose(file);
	for (uint32_t i = 0; i < 4; i++) {
		bool is_own = i >= 2;
		snprintf(command, sizeof(command),
			"replay %s --policy vllm --model %s --max-num-batched-tokens 16384 "
			"--no-enable-prefix-caching --engine-process %s --json",
			trace, shipped[i % 2].model, is_own ? "own" : "same");
		char *out = quire_output(folder, 0, command);
		double seconds = figure(out, "\"makespan_s\":");
		double rate = figure(out, "\"output_tokens_per_s\":");
		require(figure(out, "\"kv_blocks\":") == shipped[i % 2].kv_blocks, "%s", out);
		require(is_own || fabs(seconds / shipped[i % 2].seconds - 1) < 0.03, "%g s",
			seconds);
		require(!is_own || fabs(rate / shipped[i % 2].tokens_per_s - 1) < 0.03,
			"%g tokens/s", rate);
		free(out);
	}
}

/* The replay decides what vLLM decided in each of the steps that its log has: a simulation is of
   the engine that was measured. */
Test(from_steps, a_replay_decides_what_vllm_did, .timeout = 300)
{
	const struct step_log_options options = {.held_out = "nano"};
	char log_path[TEMPORARY_PATH_BYTES], path[2 * TEMPORARY_PATH_BYTES],
		command[4 * TEMPORARY_PATH_BYTES];
	struct table_reader steps;
	struct step_log log;
	struct error error = {0};

	snprintf(log_path, sizeof(log_path), "%.400s/vllm_h200/%s", references(), shipped[1].log);
	FILE *file = fopen(log_path, "r");
	if (file == NULL) {
		cr_skip_test("no step logs of vLLM in %s (QUIRE_REFERENCES)", references());
	}
	fclose(file);
	snprintf(command, sizeof(command),
		"replay %.400s/traces/nano_bench.jsonl --policy vllm --model qwen3-8b "
		"--max-num-batched-tokens 16384 --no-enable-prefix-caching --steps --out @/r",
		references());
	free(quire_output(folder, 0, command));
	snprintf(path, sizeof(path), "%.480s/r/steps.tsv", folder);
	require(table_reader_open(&steps, path, NULL, &error) == STATUS_OK, "%s", error.text);
	require(step_log_read(&log, log_path, &options, &error) == STATUS_OK, "%s", error.text);
	require_equal(log.held_out.count, 1032);
	for (size_t i = 0; i < log.held_out.count; i++) {
		const struct step_counts *counts = &log.held_out.points[i].counts;
		require(table_reader_next(&steps, &error), "step %zu is missing", i);
#define SAME(name)                                                                                 \
	require_equal(                                                                             \
		strtoull(steps.cells[table_reader_find(&steps, #name)], NULL, 10), counts->name)
		SAME(decode_rows);
		SAME(prefill_rows);
		SAME(prefill_tokens);
		SAME(decode_context_tokens);
		SAME(decode_longest_context);
		SAME(prefill_attention_pairs);
		SAME(sampled_rows);
#undef SAME
	}
	step_log_free(&log);
	table_reader_close(&steps);
}
