#include <criterion/criterion.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "tests/faults/fault_sweep.h"
#include "tests/harness/require.h"

/* Sweeps the program with a planted fault. Whether a bad run is told of with these words, which say
   where it failed; NULL: whether none is. */
static bool is_found(const char *fault, const char *words)
{
	struct fault_tally *tally = memory_take(1, sizeof(*tally));
	const struct fault_command command = {
		.name = fault,
		.program = FAULTY,
		.prepare = "seq 2000 >in.txt; echo older >out.txt; echo mine >notes.txt",
		.arguments = fault,
	};
	bool is_possible = fault_sweep(&command, 0, tally);
	bool has_words = words == NULL && tally->noted_count == 0;

	for (uint32_t i = 0; i < tally->noted_count; i++) {
		has_words = has_words || (words != NULL && strstr(tally->bad[i], words) != NULL);
	}
	free(tally);
	if (!is_possible) {
		cr_skip_test("the kernel has no syscall user dispatch");
	}
	return has_words;
}

Test(faults_found, each_planted_fault)
{
	static const char *const faults[][2] = {
		{"none", NULL},
		{"an-unchecked-allocation", "allocation 3 of 5 fails once: exit code -1"},
		{"an-unheeded-read", "fails, EIO: exit code 0"},
		{"an-unheeded-write", "finds the disk full: exit code 0"},
		{"an-unheeded-close", "close 2 of 2 fails, EIO: exit code 0"},
		{"an-unheeded-rename", "rename or link 1 of 1 fails, EACCES: exit code 0"},
		{"two-lines", "fails, EIO: exit code 2"},
		{"another-code", "exit code 3"},
		{"leaves-its-part", "a new out.txt."},
		{"removes-what-is-not-its-own", "no notes.txt"},
		{"writes-in-place", "half of out.txt"},
		{"appends-to-one-part", "waits for another"},
		{"a-silent-interrupt", "gets SIGINT: exit code 0"},
		{"no-hangup", "gets SIGHUP"},
	};

	for (uint32_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		require(is_found(faults[i][0], faults[i][1]), "the fault '%s' is not found",
			faults[i][0]);
	}
}
