#include "tests/harness/made_history.h"

#include "engine/base/text.h"
#include "tests/harness/made_result.h"
#include "tests/harness/temporary.h"

#include <stdio.h>

/* From -1 to 1. */
static double noise_of(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(*state >> 11) / 4503599627370496.0 - 1;
}

static void add_case(
	struct text *out, struct made_history made, uint32_t run, uint32_t index, uint64_t *state)
{
	bool is_first = index == 0, is_noisy = index + 1 == made.cases && index > 0;
	bool is_late = is_first && 3 * run >= 2 * made.runs;
	bool is_regressed = is_first && run + 2 >= made.runs;
	bool is_better = index == 1 && 3 * run >= made.runs;

	text_format(out,
		"%s\"c%u\":{\"verdict\":\"%s\",\"figures\":{\"ttft.p99\":%.9g,\"hit_rate\":%g,",
		is_first ? "" : ",", index, is_regressed ? "REGRESSED" : "PASS",
		(is_late ? 92 : 80) + (is_noisy ? 0.8 * noise_of(state) : 0),
		is_better ? 0.48 : 0.43);
	text_format(out, "\"instructions\":%u,\"preemptions\":0}}", is_late ? 29000000 : 30000000);
}

void make_history(const char *folder, const char *name, struct made_history made, char *path)
{
	struct text text = {0};
	uint64_t state = 11;

	text_add(&text, "");
	for (uint32_t run = 0; run < made.runs; run++) {
		text_format(&text,
			"{\"commit\":\"%07x\",\"date\":\"2026-11-%02uT09:10:46Z\",\"cases\":{",
			0xa000000 + run, 1 + run % 28);
		for (uint32_t i = 0; i < made.cases; i++) {
			add_case(&text, made, run, i, &state);
		}
		text_add(&text, "}}\n");
	}
	snprintf(path, TEMPORARY_PATH_BYTES, "%s/%s", folder, name);
	made_write(folder, name, &text);
}
