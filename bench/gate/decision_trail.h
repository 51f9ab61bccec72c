#ifndef BENCH_GATE_DECISION_TRAIL_H
#define BENCH_GATE_DECISION_TRAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"

/* The decisions of a run in a few kilobytes: a running hash of the columns of steps.tsv that show
   decisions, at up to TRAIL_CHECKPOINTS_MAX steps at equal distances. Two trails tell between which
   steps two runs parted.

   The columns are sums over a step's rows. Two runs that swap requests of equal lengths have equal
   trails; their result hashes differ. */

enum { TRAIL_CHECKPOINTS_MAX = 4096 };

struct decision_trail {
	uint64_t step_count;
	uint64_t stride;    /* steps between checkpoints: a power of two */
	uint32_t count;	    /* of checkpoints: step_count / stride */
	uint32_t *hashes;   /* (count) owned: the low 32 bits after (i + 1) * stride steps */
	uint64_t decisions; /* after the last step */
	uint64_t times;	    /* the hash of all other columns, after the last step */
};

/* Reads a steps.tsv. To be closed after a failure too. */
enum status decision_trail_read(
	struct decision_trail *trail, const char *path, struct error *error);
void decision_trail_close(struct decision_trail *trail);

/* To and from a baseline. */
cJSON *decision_trail_to_json(const struct decision_trail *trail);
enum status decision_trail_from_json(
	struct decision_trail *trail, const struct json_object *object, struct error *error);

/* Where two trails part: the first step that differs lies in [first, end). False: the trails have
   the same decisions. */
bool decision_trail_part(const struct decision_trail *a, const struct decision_trail *b,
	uint64_t *first, uint64_t *end);

#endif
