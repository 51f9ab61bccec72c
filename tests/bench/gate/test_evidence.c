#include "bench/gate/evidence.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/gate/judge.h"
#include "engine/base/memory.h"
#include "reports/results/results.h"
#include "tests/harness/files.h"
#include "tests/harness/property.h"
#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

/* The committed baselines, some of which only a machine with GPUs is judged by: each can be read,
   passes by itself and is of a case. A case may lack one, as long as nobody has run it. */

static bool has_one_token(const struct evidence *evidence)
{
	double tokens = metric_value(&evidence->summary, metric_find("output_tokens")).value;

	return tokens == metric_value(&evidence->summary, metric_find("finished")).value;
}

static void require_baseline(const struct suite_case *rules, const char *folder)
{
	char path[PATH_BYTES_MAX];
	struct evidence base = {.run_count = 0}, value = {.run_count = 0};
	struct gate_verdict verdict = {.status = GATE_PASS};
	struct error error = {0};

	snprintf(path, sizeof(path), "%s/%s.json", folder, rules->name);
	evidence_read(&base, path, rules->name, &error);
	require(error.status == STATUS_OK, "%s", error.text);
	evidence_read(&value, path, rules->name, &error);
	verdict_note_figures(&verdict, rules, &value);
	judge_case(&verdict, rules, &base, &value, true);
	require(verdict.status == GATE_PASS, "%s: %s", path, verdict.findings[0].bytes);
	/* Limits on figures that such a run has not are named. */
	for (uint32_t i = 0; i < verdict.count; i++) {
		require(strstr(verdict.findings[i].bytes, " not judged: neither") != NULL, "%s: %s",
			path, verdict.findings[i].bytes);
	}
	for (uint32_t i = 0; i < rules->limits.count; i++) {
		double values[SUITE_REPEATS_MAX];
		uint32_t count = evidence_figures(&base, rules->limits.limits[i].metric, values);
		const char *name = rules->limits.limits[i].metric->name;
		/* of a trace without prompt ids no hits are known, of answers of one token no
		   times between tokens */
		bool may_lack = strcmp(name, "hit_rate") == 0 ||
				(has_one_token(&base) && strncmp(name, "tpot.", 5) == 0);
		require(count > 0 || may_lack, "%s has no %s", path, name);
	}
	verdict_close(&verdict);
	evidence_close(&base);
	evidence_close(&value);
}

static size_t count_of_files(const char *folder)
{
	char pattern[PATH_BYTES_MAX];
	glob_t files;

	snprintf(pattern, sizeof(pattern), "%s/*.json", folder);
	require_equal(glob(pattern, 0, NULL, &files), 0);
	size_t count = files.gl_pathc;
	globfree(&files);
	return count;
}

Test(evidence, committed_baselines_pass_by_themselves)
{
	glob_t found;

	require_equal(glob(QUIRE_SOURCE_DIR "/bench/suites/*-baseline", 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char path[PATH_BYTES_MAX];
		struct error error = {0};
		struct suite suite;
		int length = (int)(strlen(found.gl_pathv[i]) - strlen("-baseline"));
		snprintf(path, sizeof(path), "%.*s.json", length, found.gl_pathv[i]);
		suite_open(&suite, path, &error);
		require(error.status == STATUS_OK, "%s", error.text);
		size_t count = 0;
		for (uint32_t j = 0; j < suite.count; j++) {
			snprintf(path, sizeof(path), "%s/%s.json", found.gl_pathv[i],
				suite.cases[j].name);
			if (access(path, F_OK) == 0) {
				require_baseline(&suite.cases[j], found.gl_pathv[i]);
				count++;
			}
		}
		require_equal(count, count_of_files(found.gl_pathv[i]));
		suite_close(&suite);
	}
	globfree(&found);
}

/* ---- several runs ---- */

/* A folder with the result of a run whose decisions have a hash. */
static void write_run(const char *folder, uint32_t hash)
{
	char text[512];

	snprintf(text, sizeof(text),
		"{\"schema\": \"" RESULT_SCHEMA
		"\", \"status\": \"complete\", \"runner_kind\": \"priced\", \"config\": {}, "
		"\"trace\": {\"xxh64\": \"t\"}, \"result_hash\": \"r%u\"}",
		hash);
	temporary_write(folder, RESULT_SUMMARY, text, NULL);
	snprintf(text, sizeof(text), "%s\n", LATENCY_COLUMNS);
	temporary_write(folder, RESULT_LATENCY, text, NULL);
}

/* Runs decide the same if each decides as the first does, whichever of them is the other one. */
Test(evidence, one_run_of_other_decisions_is_enough)
{
	enum { RUNS = 4 };
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	for (uint32_t way = 0; way < 1 << RUNS; way++) {
		struct evidence evidence = {.run_count = 0};
		struct error error = {0};
		bool is_same = true;
		for (uint32_t run = 0; run < RUNS; run++) {
			is_same = is_same && (way >> run & 1) == (way & 1);
			write_run(folder, way >> run & 1);
			evidence_add_run(&evidence, folder, &error);
			require(error.status == STATUS_OK, "%s", error.text);
			require(evidence.has_same_decisions == is_same, "hashes %x, run %u", way,
				run);
		}
		require_equal(evidence.run_count, RUNS);
		evidence_close(&evidence);
	}
	temporary_remove(folder);
}

/* ---- what each run has ---- */

/* A computed run: its figures, and the latencies of its requests in any order. */
static void write_computed(struct prop *prop, const char *folder, uint32_t requests)
{
	struct text text = {0};

	text_format(&text,
		"{\"schema\": \"" RESULT_SCHEMA
		"\", \"status\": \"complete\", \"runner_kind\": \"computed\", \"config\": {}, "
		"\"trace\": {\"xxh64\": \"t\"}, \"result_hash\": \"r1\", \"preemptions\": %u, "
		"\"window\": {\"warmup_requests\": %u, \"measured_requests\": %u}}",
		prop_range(prop, 0, 9), prop_range(prop, 0, 2), prop_range(prop, 0, requests));
	temporary_write(folder, RESULT_SUMMARY, text.bytes, NULL);
	text_deinit(&text);
	text_format(&text, "%s\n", LATENCY_COLUMNS);
	temporary_write(folder, RESULT_LATENCY, text.bytes, NULL);
	text_deinit(&text);
	text_add(&text, "id\tfinish_ns\tqueue_ns\tttft_ns\ttpot_ns\te2e_ns\n");
	for (uint32_t i = 0; i < requests; i++) {
		text_format(&text, "%u\t9\t%u\t%u\t%u\t%u\n", requests - 1 - i,
			prop_range(prop, 0, 99), prop_range(prop, 0, 99), prop_range(prop, 0, 99),
			prop_range(prop, 0, 99));
	}
	temporary_write(folder, RESULT_REQUESTS, text.bytes, NULL);
	text_deinit(&text);
}

/* Of each run, the first and the later ones, what its own files say. */
static void require_run(const struct evidence *all, uint32_t run, const char *folder)
{
	struct evidence alone = {.run_count = 0};
	struct error error = {0};

	evidence_add_run(&alone, folder, &error);
	require(error.status == STATUS_OK, "%s", error.text);
	for (uint32_t i = 0; i < METRIC_COUNT; i++) {
		size_t at = (size_t)run * METRIC_COUNT + i;
		require(all->is_present[at] == alone.is_present[i] &&
				all->figures[at] == alone.figures[i],
			"%s of run %u", metrics_table[i].name, run);
	}
	const struct request_latencies *found = &all->requests[run], *own = &alone.requests[0];
	require_equal(found->count, own->count);
	for (uint32_t i = 0; i < LATENCY_COUNT && own->count > 0; i++) {
		require(own->ns[i] == NULL || memcmp(found->ns[i], own->ns[i],
						      own->count * sizeof(uint64_t)) == 0,
			"%s of run %u", latency_names[i], run);
	}
	evidence_close(&alone);
}

static void body_runs(struct prop *prop, const void *context)
{
	enum { COMPUTED_MOST = 4 };
	char folder[TEMPORARY_PATH_BYTES], folders[COMPUTED_MOST][TEMPORARY_PATH_BYTES];
	struct evidence evidence = {.run_count = 0};
	struct error error = {0};
	uint32_t count = prop_range(prop, 1, COMPUTED_MOST);

	(void)context;
	for (uint32_t run = 0; run < count; run++) {
		temporary_folder(folder);
		snprintf(folders[run], sizeof(folders[run]), "%s", folder);
		write_computed(prop, folder, prop_range(prop, 0, 5));
		evidence_add_run(&evidence, folder, &error);
		require(error.status == STATUS_OK, "%s", error.text);
	}
	require_equal(evidence.run_count, count);
	for (uint32_t run = 0; run < count; run++) {
		require_run(&evidence, run, folders[run]);
		temporary_remove(folders[run]);
	}
	evidence_close(&evidence);
}

Test(evidence, each_run_has_its_own_figures_and_requests)
{
	const struct prop_options options = {
		.name = "runs of evidence", .body = body_runs, .trials = 60};

	cr_assert(prop_holds(&options));
}

/* Requests of the warm-up are not measured, nor are those behind the last that is. */
Test(evidence, latencies_are_those_of_measured_requests)
{
	enum { REQUESTS = 5 };

	for (uint32_t warmup = 0; warmup < REQUESTS; warmup++) {
		for (uint32_t count = 1; warmup + count <= REQUESTS; count++) {
			struct evidence evidence = {.run_count = 0};
			struct text text = {0};
			struct error error = {0};
			char folder[TEMPORARY_PATH_BYTES];
			temporary_folder(folder);
			text_format(&text,
				"{\"schema\": \"" RESULT_SCHEMA
				"\", \"status\": \"complete\", \"runner_kind\": \"computed\", "
				"\"config\": {}, "
				"\"trace\": {\"xxh64\": \"t\"}, \"result_hash\": \"r1\", "
				"\"window\": {\"warmup_requests\": %u, "
				"\"measured_requests\": %u}}",
				warmup, count);
			temporary_write(folder, RESULT_SUMMARY, text.bytes, NULL);
			text_deinit(&text);
			text_format(&text, "%s\n", LATENCY_COLUMNS);
			temporary_write(folder, RESULT_LATENCY, text.bytes, NULL);
			text_deinit(&text);
			text_add(&text, "id\tfinish_ns\tqueue_ns\tttft_ns\ttpot_ns\te2e_ns\n");
			for (uint32_t id = 0; id < REQUESTS; id++) {
				text_format(&text, "%u\t9\t1\t%u\t2\t3\n", id, 100 + id);
			}
			temporary_write(folder, RESULT_REQUESTS, text.bytes, NULL);
			text_deinit(&text);
			evidence_add_run(&evidence, folder, &error);
			require(error.status == STATUS_OK, "%s", error.text);
			require_equal(evidence.requests[0].count, count);
			for (uint32_t i = 0; i < count; i++) {
				require_equal(
					evidence.requests[0].ns[LATENCY_TTFT][i], 100 + warmup + i);
			}
			evidence_close(&evidence);
			temporary_remove(folder);
		}
	}
}

/* ---- a baseline is what was written ---- */

enum { RUNS_MOST = 4 };

/* Evidence as runs make it, of which each part may be absent. */
static void make_evidence(struct prop *prop, struct evidence *out)
{
	char text[512];
	struct error error = {0};

	memset(out, 0, sizeof(*out));
	out->is_computed = prop_chance(prop, 1, 2);
	snprintf(text, sizeof(text),
		"{\"schema\": \"" RESULT_SCHEMA
		"\", \"status\": \"complete\", \"runner_kind\": \"%s\", "
		"\"config\": {\"seed\": 7}, \"trace\": {\"xxh64\": \"t%u\"}, "
		"\"result_hash\": \"r%u\", \"makespan_s\": 2.5}",
		out->is_computed ? "computed" : "priced", prop_range(prop, 1, 9),
		prop_range(prop, 1, 9));
	json_document_parse(&out->document, "summary", text, strlen(text), &error);
	json_root(&out->summary, &out->document, &error);
	require(error.status == STATUS_OK, "%s", error.text);
	out->has_same_decisions = prop_chance(prop, 1, 2);
	out->trail.stride = 1;
	out->trail.times = prop_below(prop, 1000);
	text_add(&out->environment, prop_chance(prop, 1, 2) ? "a compiler \"9\"\n" : "");
	for (uint32_t i = 0; i < COST_COUNT; i++) {
		for (uint32_t k = prop_range(prop, 0, 3); k > 0; k--) {
			gate_costs_add(&out->costs, i, (double)prop_below(prop, 1000) / 8);
		}
	}
}

/* Figures and latencies of runs; those of one in three runs are not known or are too many. */
static void make_runs(struct prop *prop, struct evidence *out)
{
	out->run_count = out->is_computed ? prop_range(prop, 1, RUNS_MOST) : 1;
	size_t count = (size_t)out->run_count * METRIC_COUNT;
	out->figures = memory_take(count, sizeof(*out->figures));
	out->is_present = memory_take(count, sizeof(*out->is_present));
	for (size_t i = 0; i < count; i++) {
		struct result_value kept =
			metric_value(&out->summary, &metrics_table[i % METRIC_COUNT]);
		bool is_drawn = out->is_computed && prop_chance(prop, 1, 8);
		out->is_present[i] = out->is_computed ? is_drawn : kept.has_value;
		out->figures[i] = is_drawn ? (double)prop_below(prop, 99999) / 7 : kept.value;
	}
	if (!out->is_computed) {
		return;
	}
	out->requests = memory_take(out->run_count, sizeof(*out->requests));
	for (uint32_t run = 0; run < out->run_count; run++) {
		struct request_latencies *requests = &out->requests[run];
		requests->count = prop_range(prop, 0, 3) == 0 ? 0 : prop_range(prop, 1, 3);
		requests->count += prop_chance(prop, 1, 4) ? REQUEST_LATENCIES_KEPT_MAX - 1 : 0;
		for (uint32_t i = 0; i < LATENCY_COUNT && requests->count > 0; i++) {
			uint64_t base = prop_below(prop, 1000);
			if (i == LATENCY_ITL) {
				continue;
			}
			requests->ns[i] = memory_take(requests->count, sizeof(uint64_t));
			for (uint32_t k = 0; k < requests->count; k++) {
				requests->ns[i][k] = (base + k) % 5 == 0 ? NO_LATENCY : base + k;
			}
		}
	}
}

/* Latencies of many requests are not kept. */
static void require_requests(const struct request_latencies *a, const struct request_latencies *b)
{
	require_equal(b->count, a->count > REQUEST_LATENCIES_KEPT_MAX ? 0 : a->count);
	for (uint32_t i = 0; i < LATENCY_COUNT && b->count > 0; i++) {
		require((a->ns[i] == NULL) == (b->ns[i] == NULL) &&
				(a->ns[i] == NULL || memcmp(a->ns[i], b->ns[i],
							     a->count * sizeof(uint64_t)) == 0),
			"%s differs", latency_names[i]);
	}
}

static void require_equal_evidence(const struct evidence *a, const struct evidence *b)
{
	require_equal(b->is_computed, a->is_computed);
	require_equal(b->has_same_decisions, a->has_same_decisions);
	require_equal(b->trail.times, a->trail.times);
	cr_assert_str_eq(b->trace_xxh64, json_find(&a->summary, "trace")->child->valuestring);
	cr_assert_str_eq(b->result_hash, json_find(&a->summary, "result_hash")->valuestring);
	cr_assert_str_eq(b->environment.bytes, a->environment.bytes);
	require_equal(b->run_count, a->run_count);
	for (size_t i = 0; i < (size_t)a->run_count * METRIC_COUNT; i++) {
		/* JSON has 15 digits. */
		double apart = fabs(a->figures[i] - b->figures[i]);
		require(a->is_present[i] == b->is_present[i] && apart <= 1e-14 * a->figures[i],
			"%s of run %zu: %.17g, was %.17g", metrics_table[i % METRIC_COUNT].name,
			i / METRIC_COUNT, b->figures[i], a->figures[i]);
	}
	for (uint32_t run = 0; a->is_computed && run < a->run_count; run++) {
		require_requests(&a->requests[run], &b->requests[run]);
	}
	for (uint32_t i = 0; i < COST_COUNT; i++) {
		require_equal(b->costs.counts[i], a->costs.counts[i]);
		require(memcmp(a->costs.values[i], b->costs.values[i],
				a->costs.counts[i] * sizeof(double)) == 0,
			"%s differs", gate_cost_names[i]);
	}
}

static void write_baseline(const struct evidence *evidence, const char *path)
{
	FILE *file = fopen(path, "w");

	require(file != NULL, "%s", path);
	evidence_write(evidence, "the case", file);
	fclose(file);
}

static void baseline_body(struct prop *prop, const void *context)
{
	struct evidence evidence, again;
	struct error error = {0};
	char path[TEMPORARY_PATH_BYTES + 16];

	make_evidence(prop, &evidence);
	make_runs(prop, &evidence);
	snprintf(path, sizeof(path), "%s/case.json", (const char *)context);
	write_baseline(&evidence, path);
	evidence_read(&again, path, "the case", &error);
	require(error.status == STATUS_OK, "%s", error.text);
	require_equal_evidence(&evidence, &again);
	char *text = file_read(path, NULL);
	require(strstr(text, "\"case\":\t\"the case\"") != NULL, "no name in %s", text);
	write_baseline(&again, path);
	char *same = file_read(path, NULL);
	require(strcmp(same, text) == 0, "found\n%s\nexpected\n%s", same, text);
	free(same);
	free(text);
	evidence_close(&evidence);
	evidence_close(&again);
}

Test(evidence, a_baseline_has_all_that_was_known)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	const struct prop_options options = {
		.name = "baseline", .body = baseline_body, .context = folder, .trials = 100};
	require(prop_holds(&options), "a baseline lacks something");
	temporary_remove(folder);
}

#define SUMMARY_WITH(figure)                                                                       \
	"{\"schema\": \"" RESULT_SCHEMA "\", \"status\": \"complete\", \"runner_kind\": "          \
	"\"computed\", \"config\": {}, \"trace\": {\"xxh64\": \"t\"}, \"result_hash\": "           \
	"\"r\", " figure "}"

/* A baseline with one part replaced. */
static void require_part(const char *folder, const char *part, const char *text, const char *words)
{
	static const char *const parts[][2] = {
		{"schema", "\"" BASELINE_SCHEMA "\""},
		{"case", "\"c\""},
		{"same_decisions", "true"},
		{"summary", SUMMARY_WITH("\"preemptions\": 0")},
		{"decisions", "{\"steps\": 0, \"stride\": 1, \"checkpoints\": \"\", "
			      "\"decisions\": \"0123456789abcdef\", "
			      "\"times\": \"0123456789abcdef\"}"},
		{"runs", "[{}]"},
		{"costs", "{}"},
		{"environment", "\"\""},
	};
	struct text all = {0};
	struct evidence evidence;
	struct error error = {0};
	char path[TEMPORARY_PATH_BYTES];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		bool is_part = strcmp(parts[i][0], part) == 0;
		text_format(&all, "%s\"%s\": ", i == 0 ? "{" : ", ", parts[i][0]);
		text_add(&all, is_part ? text : parts[i][1]);
	}
	text_add(&all, "}");
	temporary_write(folder, "part.json", all.bytes, path);
	evidence_read(&evidence, path, "c", &error);
	if (words == NULL) {
		require(error.status == STATUS_OK, "%s %.60s: %s", part, text, error.text);
	} else {
		require(error.status == STATUS_INPUT && strstr(error.text, words) != NULL,
			"%s %.60s: %s", part, text, error.text);
	}
	evidence_close(&evidence);
	text_deinit(&all);
}

/* A list of `count` values. */
static void require_list(const char *folder, const char *part, const char *format,
	const char *value, uint32_t count, const char *words)
{
	struct text list = {0}, text = {0};

	for (uint32_t i = 0; i < count; i++) {
		text_format(&list, "%s%s", i == 0 ? "" : ", ", value);
	}
	text_add(&text, format);
	text_add(&text, list.bytes);
	text_add(&text, strchr(format, '{') == NULL ? "]" : "]}");
	require_part(folder, part, text.bytes, words);
	text_deinit(&list);
	text_deinit(&text);
}

/* As many runs as a suite may ask for, and one more. */
Test(evidence, a_damaged_baseline_is_refused)
{
	char folder[TEMPORARY_PATH_BYTES];

	temporary_folder(folder);
	require_part(folder, "", "", NULL);
	require_part(folder, "schema", "\"quire-baseline-0\"", "schema");
	require_part(folder, "same_decisions", "1", "same_decisions");
	require_part(folder, "case", "\"zz\"",
		"part.json: field case: found \"zz\", expected \"c\", the case of this file");
	require_part(folder, "case", "3", "field case: found 3");
	require_part(folder, "runs", "[]", "1 to 64 runs");
	require_part(folder, "runs", "[{\"ttft.p99\": 0}]", NULL);
	require_part(folder, "runs", "[{\"ttft.p99\": -1}]",
		"field runs[0].ttft.p99: found -1, expected a number >= 0");
	require_part(folder, "runs", "[{}, {\"ttft.p99\": \"5\"}]",
		"field runs[1].ttft.p99: found \"5\", expected a number");
	require_part(folder, "summary", SUMMARY_WITH("\"preemptions\": 1"), NULL);
	require_part(folder, "summary", SUMMARY_WITH("\"preemptions\": \"5\""),
		"field summary.preemptions: found \"5\", expected a number or null");
	require_part(folder, "summary", SUMMARY_WITH("\"latency_ms\": {\"ttft\": {\"p99\": -1}}"),
		"field summary.latency_ms.ttft.p99: found -1, expected a number >= 0");
	require_part(folder, "runs", "{}", "1 to 64 runs");
	require_part(folder, "runs", "[{\"requests_ns\": {\"ttft\": []}}]", "requests_ns");
	require_part(folder, "costs", "{\"instructions\": 1e18}", NULL);
	require_part(folder, "costs", "{\"instructions\": 1.1e18}", "costs.instructions");
	require_part(folder, "costs", "{\"instructions\": -1}", "costs.instructions");
	require_part(folder, "costs", "{\"instructions\": [3, \"x\"]}", "costs.instructions");
	for (uint32_t more = 0; more < 2; more++) {
		uint32_t count = SUITE_REPEATS_MAX + more;
		require_list(folder, "runs", "[", "{}", count, more ? "1 to 64 runs" : NULL);
		require_list(folder, "costs", "{\"cpu_ms\": [", "1", count,
			more ? "costs.cpu_ms" : NULL);
	}
	temporary_remove(folder);
}
