/* The program of each target, for libFuzzer; the preset `fuzz` builds it with FUZZ_TARGET defined.
   It starts from the target's corpus:

       mkdir -p new && build/fuzz/tests/fuzz_tape new tests/fuzz/corpus/tape

   Inputs that found a bug are added to the corpus once it is mended: the ordinary tests replay
   them. */

#include "engine/base/check.h"
#include "tests/fuzz/targets.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t byte_count, size_t room, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t byte_count, size_t room);

static const struct fuzz_target *target(void)
{
	const struct fuzz_target *found = fuzz_target_find(FUZZ_TARGET);

	check(found != NULL);
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
	target()->run(bytes, byte_count);
	return 0;
}

/* Three changes of four keep the form of the input, the fourth is any change of its bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t byte_count, size_t room, unsigned int seed)
{
	return seed % 4 == 0 ? LLVMFuzzerMutate(bytes, byte_count, room)
			     : target()->mutate(bytes, byte_count, room, seed);
}
