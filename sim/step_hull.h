#ifndef SIM_STEP_HULL_H
#define SIM_STEP_HULL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/batch.h"

/* Which steps a profile was fitted to: the largest of every count, and the cells that held a
   measured step. A cell is an octave of decode rows x one of prompt tokens x one of context tokens
   a decode row. A step is outside when a count is above the largest measured one, or when neither
   its cell nor a cell beside it was measured. A cell without prompts is beside none with prompts,
   nor one without decode rows beside one with some. */

/* Octaves: 0 holds the number 0, i holds [2^(i - 1), 2^i). */
enum { STEP_HULL_OCTAVES = 32 };

/* X(count). Contexts that were not recorded have 0 as their largest, and are not compared. */
#define STEP_HULL_COUNT_LIST(X)                                                                    \
	X(decode_rows)                                                                             \
	X(prefill_rows)                                                                            \
	X(prefill_tokens)                                                                          \
	X(decode_context_tokens)                                                                   \
	X(decode_longest_context)                                                                  \
	X(prefill_attention_pairs)                                                                 \
	X(prefill_longest_context)                                                                 \
	X(sampled_rows)                                                                            \
	X(shared_tokens)

struct step_hull {
	struct step_counts largest;
	/* A bit for each octave of contexts, (decode rows, prompt tokens). */
	uint32_t measured[STEP_HULL_OCTAVES][STEP_HULL_OCTAVES];
	uint32_t inside[STEP_HULL_OCTAVES][STEP_HULL_OCTAVES]; /* measured or beside one */
};

void step_hull_init(struct step_hull *hull);
void step_hull_add(struct step_hull *hull, const struct step_counts *counts);

/* The octaves of a cell, each below STEP_HULL_OCTAVES. */
void step_hull_add_cell(struct step_hull *hull, uint32_t rows, uint32_t tokens, uint32_t context);

bool step_hull_is_outside(const struct step_hull *hull, const struct step_counts *counts);

#endif
