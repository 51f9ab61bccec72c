#ifndef BENCH_CALIBRATE_POINTS_H
#define BENCH_CALIBRATE_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/batch.h"

/* Measured steps, the raw material of a calibration: a table of times and counts.

   points.tsv begins with lines "# key value" on its origin, then is tab-separated with one header
   line: samples (steps of which the times are medians), start_ns (of the one with the median
   elapsed_ns, in the run's time; steps launched ahead are of a run of their own), elapsed_ns,
   gpu_ns, host_ns, ahead (1 for steps that were launched ahead), then the counts that a price
   depends on. The steps.tsv of a replay has the same columns except samples and ahead, and can be
   read in its place. start_ns may be missing. Where gpu_ns and host_ns are missing, all time is the
   GPU's. Missing columns shared_tokens and reread_tokens
   mean that no blocks were shared; in place of the latter, pair_tokens (held by both of two
   sequences, summed over all pairs) is read as if all groups were of one size. Without
   decode_longest_context the longest row is unknown, and no price depends on it; without
   prefill_longest_context prompts are taken as equal. Without prefill_shared_tokens, shared_tokens
   are those of all that ran (step_give_shares_to_rows()), and mixed steps whose prompts share may
   be fitted too cheap. Times add up, and counts are those of a step that can be
   (sim/possible_step.h). */
#define CALIBRATE_POINT_LIST(X)                                                                    \
	X(decode_rows)                                                                             \
	X(prefill_rows)                                                                            \
	X(prefill_tokens)                                                                          \
	X(decode_context_tokens)                                                                   \
	X(prefill_attention_pairs)                                                                 \
	X(sampled_rows)                                                                            \
	X(shared_tokens)                                                                           \
	X(reread_tokens)                                                                           \
	X(repeat_tokens)                                                                           \
	X(decode_longest_context)                                                                  \
	X(prefill_longest_context)                                                                 \
	X(prefill_tiles)                                                                           \
	X(prefill_tile_keys)                                                                       \
	X(prefill_chain_keys)                                                                      \
	X(prefill_half_chain_keys)                                                                 \
	X(prefill_context_tokens)                                                                  \
	X(prefill_shared_tokens)

enum { CALIBRATE_HEAT_DECAYS = 7 };

struct calibrate_point {
	struct step_counts counts; /* those of the list; the others are 0 */
	uint64_t samples, start_ns, elapsed_ns, gpu_ns, host_ns, ahead;
	/* Of the GPU when it began, by each decay of bench/calibrate/heat.h, and what the step's
	   own FLOPs take at the limit, ns; not in a file. */
	double heat[CALIBRATE_HEAT_DECAYS], flops_ns;
	uint64_t line; /* of its file; of joined steps one of theirs */
	uint32_t file; /* index, where several are pooled */
	bool is_held_out;
	uint64_t predicted_ns;
};

/* X(key, bytes). The keys of heat say how it raises times, which are those at no heat; "" where
   they are as measured (sim/step_heat.h). source: of steps of another engine, what was
   recorded. calibrations: how many the points are the means of; "": one. card_spread: by how much
   the card that is farthest from these means took longer or shorter than they, as a share of them
   (bench/calibrate/pool.h); "": not known. */
#define CALIBRATE_ORIGIN_LIST(X)                                                                   \
	X(model, 64)                                                                               \
	X(device, 64)                                                                              \
	X(date, 32)                                                                                \
	X(commit, 256)                                                                             \
	X(kv_blocks, 32)                                                                           \
	X(tensor_parallel_size, 32)                                                                \
	X(calibrations, 32)                                                                        \
	X(card_spread, 32)                                                                         \
	X(heat_form, 32)                                                                           \
	X(heat_prompt, 32)                                                                         \
	X(heat_decode, 32)                                                                         \
	X(heat_decay_ns, 32)                                                                       \
	X(source, 160)                                                                             \
	X(command, 512)

/* Of steps of another engine, what cannot be fitted from their times: what the engine holds of the
   memory, and the least that a step and its rows take on the host of an engine process; 0: not
   known, and no time. */
#define CALIBRATE_ENGINE_LIST(X)                                                                   \
	X(engine_bytes, 32)                                                                        \
	X(engine_process_step_ns, 32)                                                              \
	X(engine_process_row_ns, 32)

/* The lines in front of the table. */
#define CALIBRATE_LINE_LIST(X) CALIBRATE_ORIGIN_LIST(X) CALIBRATE_ENGINE_LIST(X)

/* Texts; "": unknown. path: of the file that they were read from, "": none; line_of: where. */
struct calibrate_origin {
#define CALIBRATE_ORIGIN_FIELD(key, bytes) char key[bytes];
	CALIBRATE_LINE_LIST(CALIBRATE_ORIGIN_FIELD)
#undef CALIBRATE_ORIGIN_FIELD
	char path[256];
	struct {
#define CALIBRATE_ORIGIN_LINE(key, bytes) uint32_t key;
		CALIBRATE_LINE_LIST(CALIBRATE_ORIGIN_LINE)
#undef CALIBRATE_ORIGIN_LINE
	} line_of;
};

/* "FILE:LINE: line '# KEY': found 'TEXT', expected EXPECTED", as far as file and line are known. */
enum status calibrate_origin_refuse(const struct calibrate_origin *origin, const char *key,
	struct error *error, const char *expected_format, ...)
	__attribute__((format(printf, 4, 5)));

/* Reads `text`, the value of a key, as a share of at most `most` millionths. */
enum status calibrate_origin_share(const struct calibrate_origin *origin, const char *text,
	const char *key, uint64_t most, double *out, struct error *error);

struct calibrate_points {
	struct calibrate_origin origin;
	struct calibrate_point *points; /* (count), owned */
	size_t count, capacity;
};

/* Reads a points.tsv or a steps.tsv; rows that start before from_ns are skipped. */
enum status calibrate_points_read(
	struct calibrate_points *out, const char *path, uint64_t from_ns, struct error *error);

/* Sorts by counts, of nearly equal steps by time. */
void calibrate_points_sort(struct calibrate_points *points);

/* Of sorted points: the end of those that are nearly equal to the one at `begin`. */
size_t calibrate_points_group(const struct calibrate_points *points, size_t begin);

/* Joins nearly equal steps into one point with the median of each time; of one or two decode rows,
   where there are four samples and more, with the mean of those within 15 % of the median. Rows,
   tokens and samples must be equal; contexts, pairs and shared tokens equal to one part in 32. The
   result has a fixed order. */
void calibrate_points_join(struct calibrate_points *points);

/* Drops joined steps that were measured only once. These were not planned, such as the step that
   admits a decode batch, the last one before a batch grows, or the first launch of a graph. */
void calibrate_points_drop_lone(struct calibrate_points *points);

/* The ranks that the points were measured with, 1 where their origin does not say. A number that no
   run has is refused. */
enum status calibrate_points_ranks(
	const struct calibrate_points *points, uint32_t *ranks, struct error *error);

/* How many calibrations the points are the means of, 1 where their origin does not say. */
enum status calibrate_points_calibrations(
	const struct calibrate_points *points, uint64_t *count, struct error *error);

/* Adds the points of `more`. */
void calibrate_points_append(struct calibrate_points *points, const struct calibrate_points *more);

enum status calibrate_points_write(
	const struct calibrate_points *points, const char *path, struct error *error);

void calibrate_points_free(struct calibrate_points *points);

#endif
