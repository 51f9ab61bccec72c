#ifndef SIM_TAPE_H
#define SIM_TAPE_H

#include "engine/base/status.h"
#include "engine/runner.h"

/* A runner that replays the times of a recorded run: the steps.tsv of a result folder. It returns
   the recorded starts and durations as long as the engine's decisions equal the recorded ones. The
   first step with different counts, or beyond the tape's end, is a STATUS_VERDICT that names step
   and column. `waiting` is not compared, since it depends on how far the replay has read ahead, nor
   are prefill_chain_keys, prefill_half_chain_keys and repeat_tokens where the replay does not know
   the GPU (tape_set_gpu()).

   A tape of an older engine may lack the counts shared_tokens, reread_tokens, repeat_tokens,
   decode_longest_context, prefill_longest_context, prefill_context_tokens, prefill_shared_tokens,
   prefill_tiles, prefill_tile_keys, prefill_chain_keys and prefill_half_chain_keys; these are then
   not compared, and without prefill_shared_tokens nor are the three counts of shared blocks.

   The tape is streamed, a row at a time. Columns are found by name, and additional ones are
   ignored. A malformed row is a STATUS_INPUT with file, line and column. So are times that no run
   can have recorded: a step that starts before the preceding one has ended, one that ends beyond
   CLOCK_NS_MAX, or one whose gpu_ns and host_ns do not add up to elapsed_ns. */

/* The tape of replica 0 of a run. steps_path: DIR/steps.tsv; replica_count: of the recorded run. */
enum status tape_open(
	struct runner *out, const char *steps_path, uint32_t replica_count, struct error *error);

/* The tape of another replica of the same run. Rows are read in the order of the file and kept for
   the replica that they belong to. */
void tape_open_beside(struct runner *out, const struct runner *first, uint32_t replica);

/* What the recorded GPU spreads prompts over, and the sequences that one reading of a shared block
   serves (engine/runner.h); zeros where that is not known, as after opening. To be called before
   the runner is given to an engine. */
void tape_set_gpu(struct runner *tape, struct prefill_spread spread, uint32_t readers);

/* A replica failed at time_ns in the recorded run, whose steps started as soon as they could. The
   step that it lost is not on the tape; it is played as one that starts at once and would end just
   behind the failure. To be called before the first step, in order of time. */
void tape_note_failure(const struct runner *first, uint32_t replica, uint64_t time_ns);

/* To be called when the run has ended, for replica 0 on behalf of all. STATUS_VERDICT if recorded
   steps remain: the run has diverged. */
enum status tape_finish(const struct runner *tape, struct error *error);

#endif
