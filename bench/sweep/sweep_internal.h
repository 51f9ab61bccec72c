#ifndef BENCH_SWEEP_SWEEP_INTERNAL_H
#define BENCH_SWEEP_SWEEP_INTERNAL_H

#include "bench/grid/grid.h"
#include "bench/sweep/sweep.h"
#include "engine/base/json.h"
#include "engine/base/path.h"
#include "engine/base/text.h"
#include "reports/results/sweep_file.h"

/* For the files of bench/sweep only. */

/* A run of a configuration. */
struct sweep_item {
	uint64_t identity;
	enum sweep_run_status status;
	bool was_whole;	     /* before this sweep */
	bool is_refused;     /* failed for its options or the trace */
	struct text message; /* of a failed run */
};

struct sweep {
	const struct sweep_request *request;
	struct grid grid;
	struct sweep_item *items; /* (grid.count) */
	uint64_t trace_xxh64;
	uint64_t start_ns;
	bool is_new;	/* the folder had no sweep.json */
	bool has_begun; /* the folder is that of this sweep */
	bool is_alone;	/* a run may use the GPU, so each has a process of its own */
};

/* ---- one run (sweep_item.c) ---- */

/* The hash of the trace's bytes, as the runs will have it. */
enum status sweep_hash_trace(const char *path, uint64_t *hash, struct error *error);

/* Sets items[].identity; files that options name are read. Returns a hash of them all. */
uint64_t sweep_identify(struct sweep *sweep);

/* What the folder of a run holds: no whole result, that of this very run, or that of another trace,
   program or options. */
enum sweep_item_state { SWEEP_ITEM_MISSING, SWEEP_ITEM_WHOLE, SWEEP_ITEM_OTHER };

enum sweep_item_state sweep_item_look(const struct sweep *sweep, uint32_t index);

/* The function of bench/jobs: the job is an index, the result the line of a failure, or nothing.
   context: struct sweep. */
enum status sweep_do_item(
	void *context, const struct text *job, struct text *result, struct error *error);

/* Likewise: "max-num-seqs=64". */
void sweep_describe_item(void *context, const struct text *job, struct text *text);

/* ---- files (sweep_tables.c) ---- */

/* Opens DIR/NAME/FILE. */
enum status sweep_open_json(const struct sweep *sweep, uint32_t index, const char *file,
	struct json_document *document, struct error *error);

/* Writes sweep.tsv, provenance.json and sweep.json of a sweep none of whose runs is done yet. With
   --force it takes the place of an older sweep: up to the moment in which that one's sweep.json
   goes, the folder holds it whole, and after a failure again. kill -9 in the few milliseconds of
   the renames leaves a folder without sweep.json, and older files as NAME.old. */
enum status sweep_begin(const struct sweep *sweep, struct error *error);

/* Writes them as the runs are by now. */
enum status sweep_write(const struct sweep *sweep, struct error *error);

/* Writes cache.tsv, the curve of `quire trace cache`, where the grid varies how much the KV pool
   holds and the trace says what prompts share; else removes it (sweep_cache.c). */
enum status sweep_write_cache(const struct sweep *sweep, struct error *error);

/* The complete runs with more KV blocks than the GPU's memory has room for, as sweep.json lists
   them (sweep_memory.c); owned by the caller. */
cJSON *sweep_memory_json(const struct sweep *sweep, struct error *error);

/* Warns of them, once a number of blocks. */
enum status sweep_warn_of_memory(const struct sweep *sweep, struct error *error);

/* Notes on stderr what the whole table says: pools that only look alike, a seed that changes
   nothing, sequences longer than the model was made for (sweep_notes.c). */
enum status sweep_tell(const struct sweep *sweep, struct error *error);

/* Prints a line for each run. */
enum status sweep_print(const struct sweep *sweep, struct error *error);

#endif
