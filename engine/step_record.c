#include "engine/step_record.h"

#include "engine/base/check.h"

#include <string.h>

const char *const step_column_names[STEP_COLUMN_COUNT] = {
#define STEP_COLUMN_NAME(column) #column,
	STEP_COLUMN_LIST(STEP_COLUMN_NAME, STEP_COLUMN_NAME)
#undef STEP_COLUMN_NAME
};

void step_count_values(const struct step_counts *counts, uint64_t *values)
{
#define STEP_COUNT_VALUE(column) *values++ = counts->column;
	STEP_COUNT_LIST(STEP_COUNT_VALUE)
#undef STEP_COUNT_VALUE
}

/* By enum step_mode. */
static const char *const mode_names[] = {"none", "eager", "graph"};

enum { MODE_COUNT = sizeof(mode_names) / sizeof(mode_names[0]) };

const char *step_mode_name(enum step_mode mode)
{
	check((uint32_t)mode < MODE_COUNT);
	return mode_names[mode];
}

bool step_mode_find(const char *name, enum step_mode *mode)
{
	for (uint32_t i = 0; i < MODE_COUNT; i++) {
		if (strcmp(name, mode_names[i]) == 0) {
			*mode = (enum step_mode)i;
			return true;
		}
	}
	return false;
}

enum step_kind step_kind_of(const struct step_counts *counts)
{
	if (counts->prefill_rows == 0) {
		return STEP_DECODE;
	}
	return counts->decode_rows == 0 ? STEP_PREFILL : STEP_MIXED;
}

const char *step_kind_name(enum step_kind kind)
{
	static const char *const names[STEP_KIND_COUNT] = {"decode", "prefill", "mixed"};

	check((uint32_t)kind < STEP_KIND_COUNT);
	return names[kind];
}
