/* For libFuzzer; the preset `fuzz` builds it. Files to start from are in tests/fixtures, each with
   one byte in front of it that picks the reader. */

#include "tests/fuzz/model_files_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
	fuzz_model_files(bytes, byte_count);
	return 0;
}
