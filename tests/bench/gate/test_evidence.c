#include "bench/gate/evidence.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/gate/judge.h"
#include "tests/harness/require.h"

/* The committed baselines, some of which only a machine with GPUs is judged by: each can be read,
   passes by itself and is of a case. A case may lack one, as long as nobody has run it. */

static void require_baseline(const struct suite_case *rules, const char *folder)
{
	char path[PATH_BYTES_MAX];
	struct evidence base = {.run_count = 0}, value = {.run_count = 0};
	struct gate_verdict verdict = {.status = GATE_PASS};
	struct error error = {0};

	snprintf(path, sizeof(path), "%s/%s.json", folder, rules->name);
	evidence_read(&base, path, &error);
	require(error.status == STATUS_OK, "%s", error.text);
	evidence_read(&value, path, &error);
	verdict_note_figures(&verdict, rules, &value);
	judge_case(&verdict, rules, &base, &value, true);
	require(verdict.status == GATE_PASS && verdict.count == 0, "%s: %s", path,
		verdict.findings[0].bytes);
	for (uint32_t i = 0; i < rules->limits.count; i++) {
		double values[SUITE_REPEATS_MAX];
		uint32_t count = evidence_figures(&base, rules->limits.limits[i].metric, values);
		/* of a trace without prompt ids no hits are known */
		bool may_lack = strcmp(rules->limits.limits[i].metric->name, "hit_rate") == 0;
		require(count > 0 || may_lack, "%s has no %s", path,
			rules->limits.limits[i].metric->name);
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
