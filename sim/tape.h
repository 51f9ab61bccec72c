#ifndef SIM_TAPE_H
#define SIM_TAPE_H

#include "engine/base/status.h"
#include "engine/runner.h"

/* A runner that plays the times of a recorded run: the steps.tsv of a result folder. It answers
   with the recorded start and durations as long as the engine decides what it decided then. The
   first step whose counts differ (all but `waiting`, which depends on how far the replay has read
   ahead), or that lies beyond the tape's end, is a STATUS_VERDICT naming step and column.

   A tape of an older engine may lack counts that were thought of later (shared_tokens,
   pair_tokens, decode_longest_context); those are not compared.

   The tape is streamed, a row at a time. Its columns are found by name, so further ones do no harm;
   a malformed row is a STATUS_INPUT with file, line and column. */

/* steps_path: DIR/steps.tsv. */
enum status tape_open(struct runner *out, const char *steps_path, struct error *error);

/* Is a recorded step left? A run that ends with one left has diverged too. STATUS_VERDICT then. */
enum status tape_finish(const struct runner *tape, struct error *error);

#endif
