/* Linked to every program of a build with mutants: reads which of them acts (mutant.h). */
#include "tests/mutants/mutant.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

unsigned mutant_chosen;
unsigned char *mutant_reached;

static __attribute__((constructor)) void choose_mutant(void)
{
	const char *chosen = getenv("MUTANT");
	const char *path = getenv("MUTANT_REACHED");

	if (chosen != NULL) {
		mutant_chosen = (unsigned)strtoul(chosen, NULL, 10);
	}
	int file = path == NULL ? -1 : open(path, O_RDWR);
	if (file >= 0) {
		void *bytes = mmap(NULL, MUTANT_MOST, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		mutant_reached = bytes == MAP_FAILED ? NULL : bytes;
		close(file);
	}
}
