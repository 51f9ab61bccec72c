#ifndef TESTS_HARNESS_MADE_HISTORY_H
#define TESTS_HARNESS_MADE_HISTORY_H

#include <stdint.h>

/* A history of `quire gate` that a test makes up: the cases c0, c1, ... with the figures ttft.p99,
   hit_rate, instructions and preemptions. Two thirds in, the ttft.p99 of c0 grows from 80 to 92 ms
   and its instructions fall; from one third on, the hit_rate of c1 is 48 and not 43 %. The last
   case is of a noise of 1 %. c0 is REGRESSED in the last two runs, the others PASS. */
struct made_history {
	uint32_t runs, cases;
};

/* Writes FOLDER/NAME; its path is written to `path` (TEMPORARY_PATH_BYTES). */
void make_history(const char *folder, const char *name, struct made_history made, char *path);

#endif
