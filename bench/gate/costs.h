#ifndef BENCH_GATE_COSTS_H
#define BENCH_GATE_COSTS_H

#include <stdint.h>

#include "bench/gate/child.h"
#include "bench/gate/evidence.h"
#include "engine/base/status.h"
#include "engine/base/text.h"

/* What a run costs beside its result. */

/* Adds compiler, C library and processor: what instructions and memory depend on. */
enum status costs_add_environment(struct text *text, struct error *error);

/* The sum of the sizes of a result's files, without provenance.json, which has the date. */
enum status costs_bytes_written(const char *folder, double *bytes, struct error *error);

/* Puts "valgrind --tool=callgrind" in front of a command; returns how many words. */
enum { COUNTING_WORDS = 3 };
uint32_t costs_count_words(const char **arguments);

/* The instructions in what callgrind wrote. False: it wrote none. */
bool costs_instructions(struct child *child, double *instructions);

#endif
