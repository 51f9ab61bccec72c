#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/text.h"

/* Changes of an input that a reader does not refuse at its first byte. Each takes an input of
   byte_count bytes in a buffer of `room`, changes it in place and returns its new length. The seed
   decides everything. */

/* A bit, a byte, a cut, a piece that is dropped or comes again, or a word that means something. */
size_t fuzz_mutate_bytes(uint8_t *bytes, size_t byte_count, size_t room, uint64_t seed);

/* Of an input made of sections (tests/fuzz/sections.h), one is changed by its name: .json stays
   JSON, .jsonl stays lines of JSON, .tsv stays a table. Others are changed as bytes. */
size_t fuzz_mutate_sections(uint8_t *bytes, size_t byte_count, size_t room, uint64_t seed);

/* Lines are changed into names and values of options of the command in the first line. */
size_t fuzz_mutate_command_line(uint8_t *bytes, size_t byte_count, size_t room, uint64_t seed);

/* ---- for mutators ---- */

/* Numbers from a seed. */
struct draw {
	uint64_t key, count;
};

/* In [0, bound). */
uint32_t draw_below(struct draw *draw, uint32_t bound);

/* A number as text: the edges of all ranges and types, and what is almost one. */
const char *draw_number(struct draw *draw);

/* One change of a JSON text or of a table; the result is appended to `out`. */
void mutate_json(const char *text, size_t byte_count, struct draw *draw, struct text *out);
void mutate_table(const char *text, size_t byte_count, struct draw *draw, struct text *out);

#endif
