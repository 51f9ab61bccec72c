/* For libFuzzer; the preset `fuzz` builds it. It starts from tests/fuzz/corpus/trace:

       mkdir -p new && build/fuzz/tests/fuzz_trace new tests/fuzz/corpus/trace

   Inputs that found a bug are added to that folder once it is fixed: the ordinary tests replay
   them.
 */

#include "tests/fuzz/trace_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
	fuzz_trace(bytes, byte_count);
	return 0;
}
