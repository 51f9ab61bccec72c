#include "tests/fuzz/targets.h"

#include <string.h>

#include "tests/fuzz/mutate.h"

const struct fuzz_target fuzz_targets[FUZZ_TARGET_COUNT] = {
#define FUZZ_ROW(name, mutator, changes, what) {#name, fuzz_##name, fuzz_mutate_##mutator},
	FUZZ_TARGETS(FUZZ_ROW)
#undef FUZZ_ROW
};

const struct fuzz_target *fuzz_target_find(const char *name)
{
	for (uint32_t i = 0; i < FUZZ_TARGET_COUNT; i++) {
		if (strcmp(fuzz_targets[i].name, name) == 0) {
			return &fuzz_targets[i];
		}
	}
	return NULL;
}
