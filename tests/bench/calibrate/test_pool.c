#include "bench/calibrate/pool.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/counter_hash.h"
#include "tests/harness/files.h"
#include "tests/harness/process.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

#define HEADER                                                                                     \
	"samples\telapsed_ns\tgpu_ns\thost_ns\tahead\tdecode_rows\tprefill_rows\tprefill_tokens\t" \
	"decode_context_tokens\tprefill_attention_pairs\tsampled_rows\n"

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(pool, .init = set_up, .fini = tear_down);

static void write_points(const char *name, const char *origin, const char *rows)
{
	static char text[65536];

	snprintf(text, sizeof(text), "%s%s%s", origin, HEADER, rows);
	temporary_write(folder, name, text, NULL);
}

/* Names without a folder, with commas between them. */
static enum status read_pool(struct calibrate_pool *pool, const char *names, struct error *error)
{
	char paths[8192] = "", copy[512];

	snprintf(copy, sizeof(copy), "%s", names);
	for (char *name = strtok(copy, ","); name != NULL; name = strtok(NULL, ",")) {
		size_t length = strlen(paths);
		snprintf(paths + length, sizeof(paths) - length, "%s%s/%s", length > 0 ? "," : "",
			folder, name);
	}
	return calibrate_pool_read(pool, paths, error);
}

#define MODEL "# model m\n# date 2026-01-02\n# commit a\n# device X\n"
#define HEAT                                                                                       \
	"# heat_form mean-square\n# heat_prompt 0.1\n# heat_decode 0.05\n# heat_decay_ns "         \
	"50000000\n"

#define ROW "3\t500\t400\t100\t0\t2\t0\t0\t1000\t0\t2\n"

/* A step of both, whose contexts differ by one part in 1,000, and one of each. */
Test(pool, a_step_of_several_takes_their_mean)
{
	static const char *const orders[] = {"a.tsv,b.tsv", "b.tsv,a.tsv"};

	write_points("a.tsv", MODEL HEAT,
		"3\t500\t400\t100\t0\t2\t0\t0\t1000\t0\t2\n"
		"3\t900\t800\t100\t0\t3\t0\t0\t1000\t0\t3\n");
	write_points("b.tsv",
		"# model m\n# date 2026-01-03\n# commit b\n# device X\n# heat_form mean-square\n"
		"# heat_prompt 0.3\n# heat_decode 0.15\n# heat_decay_ns 100000000\n",
		"2\t601\t480\t121\t0\t2\t0\t0\t1002\t0\t2\n"
		"2\t700\t600\t100\t0\t4\t0\t0\t1000\t0\t4\n");
	for (uint32_t i = 0; i < 2; i++) {
		struct calibrate_pool pool;
		struct error error = {0};
		require(read_pool(&pool, orders[i], &error) == STATUS_OK, "%s", error.text);
		const struct calibrate_point *points = pool.points.points;
		require_equal(pool.points.count, 3);
		require_equal(points[0].elapsed_ns, 550);
		require_equal(points[0].gpu_ns, 440);
		require_equal(points[0].host_ns, 110);
		require_equal(points[0].samples, 5);
		require_equal(points[0].counts.decode_context_tokens, 1001);
		require_equal(points[1].elapsed_ns, 900);
		require_equal(points[1].counts.decode_rows, 3);
		require_equal(points[2].elapsed_ns, 700);
		require_equal(points[2].samples, 2);
		const struct calibrate_origin *origin = &pool.points.origin;
		cr_expect_str_eq(origin->calibrations, "2");
		cr_expect_str_eq(origin->date, "2026-01-03");
		cr_expect_str_eq(origin->commit, i == 0 ? "a, b" : "b, a");
		cr_expect_str_eq(origin->device, "X");
		cr_expect_str_eq(origin->heat_prompt, "0.200000");
		cr_expect_str_eq(origin->heat_decode, "0.100000");
		cr_expect_str_eq(origin->heat_decay_ns, "75000000");
		calibrate_pool_free(&pool);
	}
}

/* Of more commits than a line holds the last ones stay, each once, behind what was added before. */
Test(pool, the_last_commits_have_room)
{
	char origin[512] = "# model m\n# device X\n# commit c000001";
	struct calibrate_pool pool;
	struct error error = {0};

	for (uint32_t i = 2; i <= 28; i++) {
		size_t length = strlen(origin);
		snprintf(origin + length, sizeof(origin) - length, ", c%06u", i);
	}
	strcat(origin, "\n");
	write_points("a.tsv", origin, ROW);
	write_points("b.tsv", "# model m\n# device X\n# commit d000001\n",
		"3\t600\t500\t100\t0\t4\t0\t0\t1000\t0\t4\n");
	write_points("c.tsv", "# model m\n# device X\n# commit c000028\n",
		"3\t700\t600\t100\t0\t5\t0\t0\t1000\t0\t5\n");
	require(read_pool(&pool, "a.tsv,b.tsv,c.tsv", &error) == STATUS_OK, "%s", error.text);
	const char *commit = pool.points.origin.commit;
	cr_expect(strncmp(commit, "c000002, c000003, ", 18) == 0, "%s", commit);
	cr_expect(strstr(commit, "c000027, d000001") != NULL, "%s", commit);
	cr_expect_str_eq(commit + strlen(commit) - 16, "d000001, c000028");
	calibrate_pool_free(&pool);
}

/* A file of several calibrations weighs as many as it holds, in times and in heat. */
Test(pool, each_calibration_weighs_the_same)
{
	struct calibrate_pool pool;
	struct error error = {0};

	write_points("a.tsv", "# calibrations 3\n" MODEL HEAT,
		"3\t400\t300\t100\t0\t2\t0\t0\t1000\t0\t2\n");
	write_points("b.tsv",
		MODEL "# heat_form mean-square\n# heat_prompt 0.3\n# heat_decode 0.25\n"
		      "# heat_decay_ns 90000000\n",
		"2\t800\t500\t300\t0\t2\t0\t0\t1004\t0\t2\n");
	require(read_pool(&pool, "a.tsv,b.tsv", &error) == STATUS_OK, "%s", error.text);
	require_equal(pool.points.count, 1);
	require_equal(pool.points.points[0].elapsed_ns, 500);
	require_equal(pool.points.points[0].gpu_ns, 350);
	require_equal(pool.points.points[0].counts.decode_context_tokens, 1001);
	cr_expect_str_eq(pool.points.origin.calibrations, "4");
	cr_expect_str_eq(pool.points.origin.heat_prompt, "0.150000");
	cr_expect_str_eq(pool.points.origin.heat_decode, "0.100000");
	cr_expect_str_eq(pool.points.origin.heat_decay_ns, "60000000");
	calibrate_pool_free(&pool);
}

/* `steps` steps of both cards, of which the second takes `decode` and `prompt` times as long
   without and with prompts, then one of each kind that only the second has, of 900,000 ns on the
   first. */
static void write_fast_and_slow(uint32_t steps, double decode, double prompt)
{
	static char a[32768], b[32768];
	size_t a_bytes = 0, b_bytes = 0;

	for (uint32_t i = 0; i <= steps; i++) {
		const double base[] = {i < steps ? 100000 + 1000 * i : 900000, decode, prompt};
		for (uint32_t kind = 1; kind <= 2; kind++) {
			uint32_t rows = 2 + i, tokens = kind == 2 ? 10 + i : 0;
			uint32_t first = (uint32_t)base[0];
			uint32_t second = (uint32_t)(base[0] * base[kind] + 0.5);
			static const char format[] = "3\t%u\t%u\t0\t0\t%u\t%u\t%u\t1000\t%u\t%u\n";
			if (i < steps) {
				a_bytes += (size_t)snprintf(a + a_bytes, sizeof(a) - a_bytes,
					format, first, first, rows, kind == 2, tokens, tokens * 50,
					rows);
			}
			b_bytes += (size_t)snprintf(b + b_bytes, sizeof(b) - b_bytes, format,
				second, second, rows, kind == 2, tokens, tokens * 50, rows);
		}
	}
	write_points("a.tsv", MODEL, a);
	write_points("b.tsv", MODEL, b);
}

/* A step that only a fast card has takes as long as on the mean of the cards. */
Test(pool, steps_of_one_card_are_scaled_by_its_pace)
{
	static const double paces[][2] = {{0.8, 0.9}, {1, 1}, {1.25, 1.1}};

	for (uint32_t i = 0; i < sizeof(paces) / sizeof(paces[0]); i++) {
		struct calibrate_pool pool;
		struct error error = {0};
		uint32_t found = 0;
		write_fast_and_slow(CALIBRATE_PACE_STEPS, paces[i][0], paces[i][1]);
		require(read_pool(&pool, "a.tsv,b.tsv", &error) == STATUS_OK, "%s", error.text);
		require_equal(pool.points.count, 2 * CALIBRATE_PACE_STEPS + 2);
		for (size_t k = 0; k < pool.points.count; k++) {
			const struct calibrate_point *point = &pool.points.points[k];
			if (point->counts.decode_rows == 2 + CALIBRATE_PACE_STEPS) {
				double mean = (1 + paces[i][point->counts.prefill_rows]) / 2;
				require(fabs((double)point->elapsed_ns / (900000 * mean) - 1) <
						0.0001,
					"%llu ns", (unsigned long long)point->elapsed_ns);
				found++;
			}
		}
		require_equal(found, 2);
		calibrate_pool_free(&pool);
	}
}

/* By how much the farthest card is off the means, of what it says of its own cards too. Prompts do
   not count. */
Test(pool, the_spread_of_the_cards_is_that_of_the_farthest)
{
	static const struct {
		double decode;
		const char *own, *spread;
	} cases[] = {
		{0.8, "", "0.111111"},
		{1.25, "", "0.111111"},
		{0.8, "# card_spread 0.05\n", "0.166667"}, /* 1 / 9 and 0.05 * 10 / 9 */
		{1, "# card_spread 0.02\n", "0.020000"},
		{1, "", ""},
		{0.2, "# card_spread 0.5\n", "0.500000"},
		{0.8, "# calibrations 2\n", ""}, /* it does not say how far its own are */
		{0.8, "# calibrations 1\n", "0.111111"},
	};
	char text[32768], path[TEMPORARY_PATH_BYTES + 32];

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calibrate_pool pool;
		struct error error = {0};
		write_fast_and_slow(CALIBRATE_PACE_STEPS, cases[i].decode, 0.7);
		snprintf(path, sizeof(path), "%s/a.tsv", folder);
		char *rows = file_read(path, NULL);
		snprintf(text, sizeof(text), "%s%s", cases[i].own, rows);
		temporary_write(folder, "a.tsv", text, NULL);
		free(rows);
		require(read_pool(&pool, "a.tsv,b.tsv", &error) == STATUS_OK, "%s", error.text);
		cr_expect_str_eq(pool.points.origin.card_spread, cases[i].spread);
		calibrate_pool_free(&pool);
	}
}

/* With few steps of both the spread is not known; a file alone says its own. */
Test(pool, few_steps_tell_no_spread)
{
	static const char *const files[] = {"a.tsv,b.tsv", "a.tsv"}, *const spreads[] = {
									     "", "0.03"};
	struct calibrate_pool pool;
	struct error error = {0};

	write_points("a.tsv", "# card_spread 0.03\n" MODEL, ROW);
	write_points("b.tsv", MODEL, "3\t800\t300\t500\t0\t2\t0\t0\t1000\t0\t2\n");
	for (uint32_t i = 0; i < 2; i++) {
		require(read_pool(&pool, files[i], &error) == STATUS_OK, "%s", error.text);
		cr_expect_str_eq(pool.points.origin.card_spread, spreads[i]);
		calibrate_pool_free(&pool);
	}
}

/* Few steps of both do not tell how fast a card is. */
Test(pool, a_card_has_no_pace_by_few_steps)
{
	struct calibrate_pool pool;
	struct error error = {0};

	write_fast_and_slow(CALIBRATE_PACE_STEPS - 1, 0.8, 0.9);
	require(read_pool(&pool, "a.tsv,b.tsv", &error) == STATUS_OK, "%s", error.text);
	const struct calibrate_point *last = &pool.points.points[pool.points.count - 1];
	require_equal(last->counts.decode_rows, 1 + CALIBRATE_PACE_STEPS);
	require_equal(last->elapsed_ns, 810000);
	for (uint32_t i = 0; i < pool.count; i++) {
		cr_expect_eq(pool.spreads[i].pace[0], 1);
		cr_expect_eq(pool.spreads[i].pace[1], 1);
	}
	calibrate_pool_free(&pool);
}

/* Points that do not name their device are of that of the others. */
Test(pool, a_device_is_that_of_the_files_that_name_one)
{
	static const char *const orders[] = {"a.tsv,b.tsv", "b.tsv,a.tsv"};

	write_points("a.tsv", MODEL, "3\t500\t400\t100\t0\t2\t0\t0\t1000\t0\t2\n");
	write_points("b.tsv", "# model m\n# calibrations 6\n",
		"3\t501\t400\t101\t0\t2\t0\t0\t1000\t0\t2\n");
	for (uint32_t i = 0; i < 2; i++) {
		struct calibrate_pool pool;
		struct error error = {0};
		require(read_pool(&pool, orders[i], &error) == STATUS_OK, "%s", error.text);
		cr_expect_str_eq(pool.points.origin.device, "X");
		cr_expect_str_eq(pool.points.origin.calibrations, "7");
		calibrate_pool_free(&pool);
	}
}

/* One file is read as it is. */
Test(pool, a_calibration_alone_stays_as_it_is)
{
	struct calibrate_pool pool;
	struct error error = {0};

	write_points("a.tsv", MODEL, "3\t500\t400\t100\t0\t2\t0\t0\t1000\t0\t2\n");
	require(read_pool(&pool, "a.tsv", &error) == STATUS_OK, "%s", error.text);
	require_equal(pool.count, 1);
	require_equal(pool.points.points[0].elapsed_ns, 500);
	cr_expect_str_empty(pool.points.origin.calibrations);
	calibrate_pool_free(&pool);
}

static int compare_doubles(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

enum { STEPS_MAX = 101 };

/* Of so many steps of both, by their ratio, the places that are told; steps of one alone have no
   ratio. */
static void check_spread(uint32_t steps, uint32_t low, uint32_t median, uint32_t high)
{
	static char a[16384], b[16384];
	double ratios[STEPS_MAX];
	size_t a_bytes = 0, b_bytes = 0;
	struct calibrate_pool pool;
	struct error error = {0};

	for (uint32_t i = 0; i < steps; i++) {
		uint32_t rows = 2 + i, ns = 100000;
		uint32_t more = ns + (uint32_t)(counter_hash(3, i) % 9000);
		ratios[i] = (double)more / ns;
		a_bytes += (size_t)snprintf(a + a_bytes, sizeof(a) - a_bytes,
			"3\t%u\t%u\t0\t0\t%u\t0\t0\t1000\t0\t%u\n", ns, ns, rows, rows);
		b_bytes += (size_t)snprintf(b + b_bytes, sizeof(b) - b_bytes,
			"3\t%u\t%u\t0\t0\t%u\t0\t0\t1000\t0\t%u\n", more, more, rows, rows);
	}
	snprintf(b + b_bytes, sizeof(b) - b_bytes, "3\t9\t9\t0\t0\t400\t0\t0\t1000\t0\t400\n");
	write_points("a.tsv", MODEL, a);
	write_points("b.tsv", MODEL, b);
	write_points("c.tsv", MODEL, "3\t9\t9\t0\t0\t500\t0\t0\t1000\t0\t500\n");
	require(read_pool(&pool, "a.tsv,b.tsv,c.tsv", &error) == STATUS_OK, "%s", error.text);
	qsort(ratios, steps, sizeof(*ratios), compare_doubles);
	require_equal(pool.count, 3);
	require_equal(pool.points.count, steps + 2);
	require_equal(pool.spreads[0].steps, steps);
	cr_expect_eq(pool.spreads[0].median, 1.0);
	require_equal(pool.spreads[1].steps, steps);
	cr_expect_eq(pool.spreads[1].low, ratios[low]);
	cr_expect_eq(pool.spreads[1].median, ratios[median]);
	cr_expect_eq(pool.spreads[1].high, ratios[high]);
	require_equal(pool.spreads[2].steps, 0);
	calibrate_pool_free(&pool);
}

Test(pool, the_spread_is_of_the_steps_of_both)
{
	check_spread(101, 5, 50, 95);
	check_spread(98, 4, 48, 93);
	check_spread(12, 0, 5, 11);
}

Test(pool, what_is_not_alike_is_refused)
{
	static const struct {
		const char *origin, *part;
	} cases[] = {
		{"# model n\n", "b.tsv: found model n, expected m as in "},
		{"", "b.tsv: found no line '# model NAME' at the start"},
		{"# model m\n# tensor_parallel_size 2\n",
			"b.tsv: found tensor_parallel_size 2, expected none as in "},
		{"# model m\n# source vLLM\n", "b.tsv: found source vLLM, expected none as in "},
		{"# model m\n" HEAT, "b.tsv: found a heat_prompt, expected none as in "},
		{"# model m\n# heat_form mean-square\n# heat_prompt 7\n",
			"b.tsv:3: the line '# heat_prompt' of the points: found '7', expected 0 to "
			"1.000000"},
		{"# model m\n# device Y\n", "b.tsv: found device Y, expected X as in "},
		{"# model m\n# calibrations -1\n", "b.tsv:2: the line '# calibrations' of the "
						   "points: found '-1', expected 1 to"},
		{"# model m\n# card_spread 0.6\n", "b.tsv:2: the line '# card_spread' of the "
						   "points: found '0.6', expected 0 to 0.500000"},
		{"# model m\n# card_spread x\n", "found 'x', expected 0 to 0.500000"},
		{"# model m\n# engine_bytes 5\n",
			"b.tsv: found engine_bytes 5, expected none as in "},
		{MODEL, "b.tsv: found the steps and times of "},
	};

	write_points("a.tsv", MODEL, ROW);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct calibrate_pool pool;
		struct error error = {0};
		write_points("b.tsv", cases[i].origin, ROW);
		require_equal(read_pool(&pool, "a.tsv,b.tsv", &error), STATUS_INPUT);
		require(strstr(error.text, cases[i].part) != NULL, "'%s' does not say '%s'",
			error.text, cases[i].part);
		require(strchr(error.text, '\n') == NULL, "not one line: %s", error.text);
		calibrate_pool_free(&pool);
	}
}

Test(pool, more_files_than_there_may_be_are_refused)
{
	char names[512] = "a.tsv", name[16], row[64];
	struct calibrate_pool pool;
	struct error error = {0};

	write_points("a.tsv", MODEL, ROW);
	for (uint32_t i = 1; i < CALIBRATE_POOL_MOST; i++) {
		snprintf(name, sizeof(name), ",%u.tsv", i);
		strcat(names, name);
		snprintf(row, sizeof(row), "3\t%u\t400\t%u\t0\t2\t0\t0\t1000\t0\t2\n", 500 + 2 * i,
			100 + 2 * i);
		write_points(name + 1, MODEL, row);
	}
	require(read_pool(&pool, names, &error) == STATUS_OK, "%s", error.text);
	require_equal(pool.points.count, 1);
	require_equal(pool.points.points[0].elapsed_ns, 515);
	calibrate_pool_free(&pool);
	strcat(names, ",a.tsv");
	require_equal(read_pool(&pool, names, &error), STATUS_USAGE);
	require(strstr(error.text, "found more files, expected 1 to 16") != NULL, "%s", error.text);
	calibrate_pool_free(&pool);
}

Test(pool, files_without_a_name_are_refused)
{
	static const char *const paths[] = {"", ",", "%s,", ",%s", "%s,,%s"};
	char file[TEMPORARY_PATH_BYTES + 32], text[3 * sizeof(file)];

	write_points("a.tsv", MODEL, ROW);
	snprintf(file, sizeof(file), "%s/a.tsv", folder);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct calibrate_pool pool;
		struct error error = {0};
		size_t bytes = 0;
		for (const char *at = paths[i]; *at != '\0'; at++) {
			bool is_file = *at == '%';
			bytes += (size_t)snprintf(
				text + bytes, sizeof(text) - bytes, "%s", is_file ? file : ",");
			at += is_file;
		}
		text[bytes] = '\0';
		require_equal(calibrate_pool_read(&pool, text, &error), STATUS_USAGE);
		require(strstr(error.text, "found a file without a name") != NULL, "%s: %s",
			paths[i], error.text);
		calibrate_pool_free(&pool);
	}
}

/* Times of another unit, or of another GPU, are below what the steps take at its limits. Of a
   hundred steps one may be. */
Test(pool, times_that_no_gpu_can_take_are_refused)
{
	const struct operation_floors floors = {.products = 1000};
	static char rows[8192];

	for (uint32_t below = 1; below <= 2; below++) {
		struct calibrate_pool pool;
		struct error error = {0};
		size_t bytes = 0;
		for (uint32_t i = 1; i <= 100; i++) {
			uint32_t ns = i > 100 - below ? 949 : 950;
			bytes += (size_t)snprintf(rows + bytes, sizeof(rows) - bytes,
				"3\t%u\t%u\t0\t0\t%u\t0\t0\t%u\t0\t%u\n", ns, ns, i, i, i);
		}
		write_points("a.tsv", MODEL, rows);
		require(read_pool(&pool, "a.tsv", &error) == STATUS_OK, "%s", error.text);
		enum status status = calibrate_pool_check(&pool, &floors, "mine", &error);
		require_equal(status, below > 1 ? STATUS_INPUT : STATUS_OK);
		require(below == 1 || strstr(error.text,
					      "a.tsv:104: column elapsed_ns: found 949, expected "
					      "1000 or more at the limits of mine (--gpu); 2 of "
					      "100 steps take less than they can") != NULL,
			"%s", error.text);
		calibrate_pool_free(&pool);
	}
}

/* ---- the command ---- */

#define POINTS QUIRE_SOURCE_DIR "/sim/profiles/points/"

/* The means are kept, replaced only by force, and give the same profile again. */
Test(pool, the_command_keeps_the_means)
{
	const char *line = "calibrate --points @/one.tsv,@/other.tsv --name both --out @/c";
	char path[TEMPORARY_PATH_BYTES + 32];
	struct calibrate_points points;
	struct error error = {0};

	require(calibrate_points_read(&points, POINTS "h200-qwen3-0.6b.tsv", 0, &error) ==
			STATUS_OK,
		"%s", error.text);
	snprintf(path, sizeof(path), "%s/one.tsv", folder);
	require(calibrate_points_write(&points, path, &error) == STATUS_OK, "%s", error.text);
	for (size_t i = 0; i < points.count; i++) {
		points.points[i].elapsed_ns += points.points[i].elapsed_ns / 50;
		points.points[i].gpu_ns = points.points[i].elapsed_ns - points.points[i].host_ns;
	}
	snprintf(path, sizeof(path), "%s/other.tsv", folder);
	require(calibrate_points_write(&points, path, &error) == STATUS_OK, "%s", error.text);
	char *text = quire_output(folder, 0, line), words[160];
	const unsigned long long calibrations = 2 * strtoull(points.origin.calibrations, NULL, 10);
	snprintf(words, sizeof(words), "%llu calibrations in 2 files, %zu different steps\n",
		calibrations, points.count);
	require(strstr(text, words) != NULL, "%s", text);
	require(strstr(text, "other.tsv over that of ") != NULL, "%s", text);
	snprintf(words, sizeof(words),
		"one.tsv: +2.00 %% (median of the %zu steps that both have, nine of ten +2.00 to "
		"+2.00)",
		points.count);
	require(strstr(text, words) != NULL, "%s", text);
	calibrate_points_free(&points);
	free(text);
	free(quire_output(folder, 2, line));
	free(quire_output(folder, 0, "calibrate --points @/c/points.tsv --name both --out @/d"));
	snprintf(path, sizeof(path), "%s/c/both.json", folder);
	char *both = file_read(path, NULL);
	snprintf(path, sizeof(path), "%s/d/both.json", folder);
	char *again = file_read(path, NULL);
	cr_expect_str_eq(both, again);
	snprintf(words, sizeof(words), "calibrated %llu times until ", calibrations);
	require(strstr(both, words) != NULL, "%s", both);
	free(both);
	free(again);
}
