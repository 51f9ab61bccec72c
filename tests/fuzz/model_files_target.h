#ifndef TESTS_FUZZ_MODEL_FILES_TARGET_H
#define TESTS_FUZZ_MODEL_FILES_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* Reads arbitrary bytes as one of a model's files. The first byte selects the reader, the rest is
   the file. A refusal must be one line, and an accepted file must work. */

enum { FUZZ_CONFIG, FUZZ_SAFETENSORS, FUZZ_TOKENIZER, FUZZ_READERS };

void fuzz_model_files(const uint8_t *bytes, size_t byte_count);

#endif
