#ifndef ENGINE_RUNNERS_CUDA_STEP_DATA_H
#define ENGINE_RUNNERS_CUDA_STEP_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/batch.h"
#include "engine/config.h"
#include "engine/runners/cuda_forward.h"
#include "kernels/exchange/exchange.h"
#include "kernels/step_io/step_io.h"

/* The input of a step as lists. The host fills them in one slot of a double buffer of pinned
   memory; the step's first kernel copies them to the device (kernels/step_io/step_io.h).

   With several ranks the pinned memory is shared by their processes. Rank 0 fills the slots; each
   rank's GPU reads them by itself, and writes what it reports of a step to a part of its own:

       slots      (CUDA_STEP_SLOTS) as kernels/step_io/step_io.h draws them
       reports    of each rank: struct cuda_rank_report, then tokens (CUDA_STEP_SLOTS, samples)

   No rank needs to say that it has read a slot. Rank 0 fills it again when its own GPU has finished
   the step, and that needed the first exchange of every rank, which comes behind the reading. */

enum { CUDA_STEP_SLOTS = 2 };

struct cuda_rank_report {
	struct step_completion completions[CUDA_STEP_SLOTS];
	struct exchange_report exchange;
	uint8_t unused[40]; /* the tokens begin in a line of their own */
};

/* Offsets of the lists in a slot, in bytes. Only the last list, the claims, has no fixed length. */
struct cuda_step_layout {
	size_t split_start, rows, contexts, query_start, sample_index, sample_rows;
	size_t row_keys, temperatures, token_ids, positions, slots, tiles, launches, claims;
};

/* What a step consists of, or is padded to. Padding stores nothing and attends to nothing. Decode
   rows come first, each with its token and its sample; prompts follow, with theirs. */
struct cuda_step_sizes {
	uint32_t rows; /* decode rows and prompts */
	uint32_t decode_rows;
	uint32_t tokens;
	uint32_t samples;
	uint32_t tiles; /* of prompts; behind them there is one more for each sample of a prompt */
};

struct cuda_step_layout cuda_step_layout(const struct cuda_step_sizes *sizes);

/* The sizes of a batch without padding. */
struct cuda_step_sizes cuda_step_sizes(const struct batch *batch);

/* The lists of a layout, on the host or on the device. */
struct cuda_step_lists {
	uint32_t *split_start;		/* (rows + 1) */
	uint32_t *rows;			/* (rows) of the block tables */
	uint32_t *contexts;		/* (rows) tokens */
	uint32_t *query_start;		/* (rows + 1) */
	uint32_t *sample_index;		/* (samples) */
	uint32_t *sample_rows;		/* (samples) */
	uint64_t *row_keys;		/* (samples) */
	float *temperatures;		/* (samples) */
	int32_t *token_ids;		/* (tokens) */
	uint32_t *positions;		/* (tokens) */
	int64_t *slots;			/* (tokens) */
	struct prefill_tile *tiles;	/* (tiles + samples of prompts) */
	struct decode_launch *launches; /* (rows) of decode attention; nearly always one */
	struct decode_claim *claims;
};

struct cuda_step_data {
	uint64_t seed;		/* of the sampler's noise */
	uint32_t decode_blocks; /* thread blocks of decode attention */
	uint64_t split_limit;	/* splits in one launch of decode attention */
	/* its shape, path and sharing are set before the tables are opened */
	struct decode_list list;
	uint32_t *group_ends; /* (max_num_seqs) see struct cuda_batch */

	/* by the engine's configuration */
	uint32_t table_width;
	uint32_t sample_capacity;
	uint32_t addition_capacity;
	uint32_t split_capacity;
	uint32_t running_capacity;
	uint64_t report_bytes; /* of a rank */

	/* device */
	unsigned char *device; /* the lists */
	uint32_t *tables;      /* (max running, table_width) */
	int32_t *last_tokens;  /* (max running) */
	int32_t *sampled;      /* (sample_capacity) */
	uint64_t *step_count;

	unsigned char *pinned; /* slots and reports */
	bool owns_pinned;

	struct step_io io; /* the same buffers, as parameters of the kernels */

	uint32_t *host_tables; /* the block tables once more */
	uint32_t claim_count;  /* of the latest step, with readers */

	/* the selected slot */
	struct step_header *headers;
	unsigned char *host; /* its lists */
};

/* Bytes of slots and reports. */
uint64_t cuda_step_data_shared_bytes(const struct engine_config *engine, uint32_t ranks);

/* Allocates everything but tables and last_tokens, which cuda_step_data_open_tables() allocates
   with the KV pool. shared: the ranks' memory for slots and reports, pinned and zeroed; NULL for
   one rank, whose memory is allocated. The caller sets the first fields of *data before a step. */
enum status cuda_step_data_open(struct cuda_step_data *data, const struct engine_config *engine,
	uint32_t rank, void *shared, struct error *error);
void cuda_step_data_close(struct cuda_step_data *data); /* also after a failure */

enum status cuda_step_data_open_tables(
	struct cuda_step_data *data, const struct engine_config *engine, struct error *error);
void cuda_step_data_close_tables(struct cuda_step_data *data);

/* What a rank reports, and the tokens of a slot in it. Its GPU writes both at any time. */
volatile struct cuda_rank_report *cuda_step_data_report(
	const struct cuda_step_data *data, uint32_t rank);
const int32_t *cuda_step_data_tokens(
	const struct cuda_step_data *data, uint32_t rank, uint32_t slot);

/* Selects the slot to fill. */
void cuda_step_data_select(struct cuda_step_data *data, uint32_t slot);

/* The lists of the selected slot. */
struct cuda_step_lists cuda_step_data_lists(
	const struct cuda_step_data *data, const struct cuda_step_layout *layout);

/* A batch whose pointers are the device's lists. */
struct cuda_batch cuda_step_data_batch(const struct cuda_step_data *data,
	const struct cuda_step_sizes *sizes, const struct cuda_step_layout *layout);

/* Fills the lists from a batch, or with padding alone where it is NULL; returns the number of
   splits. */
uint32_t cuda_step_data_fill(struct cuda_step_data *data, const struct cuda_step_sizes *sizes,
	const struct cuda_step_layout *layout, const struct batch *batch);

/* Divides the decode rows into groups whose splits fit into one launch of decode attention. */
void cuda_step_data_group(
	struct cuda_step_data *data, const struct cuda_step_layout *layout, struct cuda_batch *out);

/* Whether any launch of the filled slot is long (kernels/attention/decode_list.h). */
bool cuda_step_data_is_long(const struct cuda_step_data *data,
	const struct cuda_step_layout *layout, uint32_t launch_count);

/* Writes the additions to the block tables, and the headers with the amounts of data. claim_count:
   with readers. */
void cuda_step_data_finish(struct cuda_step_data *data, const struct cuda_step_layout *layout,
	uint32_t claim_count, const struct block_addition *additions, uint32_t addition_count);

#endif
