#ifndef TESTS_FUZZ_TRACE_TARGET_H
#define TESTS_FUZZ_TRACE_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* Reads the bytes as a trace file and demands that every row keeps the promises of
   workloads/trace/trace.h, that what is refused is refused in one line, and that rows which are
   written and read again are the same. The first byte chooses how the rest is read:

       bits 0 to 2   format by number, 0 and 6, 7: recognised by the first line
       bit 3         rows are sorted
       bits 4 to 7   tokens of a hash id: 0 the format's own, else this many

   tests/fuzz/fuzz_trace.c lets libFuzzer call it; tests/workloads/trace/test_trace_fuzz.c calls it
   with the corpus and with mutations of it. */
void fuzz_trace(const uint8_t *bytes, size_t size);

#endif
