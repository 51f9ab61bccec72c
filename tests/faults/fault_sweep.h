#ifndef TESTS_FAULTS_FAULT_SWEEP_H
#define TESTS_FAULTS_FAULT_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

/* A command is run once for each operation that it does and each way in which that can fail, and
   after each run its end, its outputs and all files are judged. It may

       succeed, with exactly the outputs and files of a run without a fault
       be refused: exit code 2, one line, and every file as it was before
       be interrupted: exit code 1, one line, whole files, a summary that says so
       be ended by the signal that it was sent, and every file as it was before

   Of a run that is killed (kill -9) a file with the name of a result is whole or is not there, and
   the same command succeeds afterwards or is refused. Of two at once one succeeds with all of its
   files. Everything else is bad. */

struct fault_command {
	const char *name;
	const char *program;   /* NULL: quire */
	const char *prepare;   /* shell commands, run in its folder, which find quire as $quire; or
				  NULL */
	const char *arguments; /* split at spaces */
	int code;	       /* exit code of a run without a fault */
	const char *beside; /* a new output of its own beside another, which may be whole when the
				  command failed at the other; or NULL */
	bool is_resumed; /* a run that fails or is interrupted keeps what it has done, and the same
			    command then ends with all files of a run without a fault */
	uint32_t points_max; /* of fault_sweep(), for a command of very many operations; 0: all */
};

enum fault_outcome {
	FAULT_SUCCEEDED,
	FAULT_REFUSED,
	FAULT_INTERRUPTED,
	FAULT_ENDED,
	FAULT_BAD,
	FAULT_OUTCOME_COUNT
};

enum { FAULT_BAD_SHOWN = 64, FAULT_BAD_BYTES = 400 };

struct fault_tally {
	uint32_t outcomes[FAULT_OUTCOME_COUNT];
	uint32_t noted_count;
	char bad[FAULT_BAD_SHOWN]
		[FAULT_BAD_BYTES]; /* (noted_count): some of the bad, a line each */
};

/* points_max: how many of the operations at one place are made to fail in each way, evenly spaced;
   0: all. False: the kernel lacks what the shim needs. */
bool fault_sweep(
	const struct fault_command *command, uint32_t points_max, struct fault_tally *tally);

/* Sweeps, prints the tally, and demands that nothing was bad; skips the test where the shim does
   not work. Under a sanitizer, which takes ten times as long, only a few operations of each place
   fail. */
void fault_sweep_require(const struct fault_command *command);

#endif
