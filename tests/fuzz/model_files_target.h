#ifndef TESTS_FUZZ_MODEL_FILES_TARGET_H
#define TESTS_FUZZ_MODEL_FILES_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* A model's files, as an attacker could make them. The first byte picks the reader, the rest is
   the file. What is refused must be refused in one line, and what is accepted must work. */

enum { FUZZ_CONFIG, FUZZ_SAFETENSORS, FUZZ_TOKENIZER, FUZZ_READERS };

void fuzz_model_files(const uint8_t *bytes, size_t byte_count);

#endif
