#ifndef ENGINE_REFERENCE_REFERENCE_RANKS_H
#define ENGINE_REFERENCE_REFERENCE_RANKS_H

#include "engine/base/status.h"
#include "engine/reference/reference_runner.h"
#include "engine/runner.h"

/* The reference runner as processes (engine/ranks/ranks.h), one for each rank of tensor
   parallelism. Rank 0 packs each batch into the data that ranks share and posts the step; every
   rank computes its share, exchanges partial sums and candidates in memory of the host, and
   compares the tokens with those of all others. The bits are those of one process that computes all
   shares in turn. */

/* options->ranks.count is at least 2; the rest of options->ranks is not looked at. The weights are
   read by every rank. Returns in rank 0 only. Closing the runner ends the ranks. */
enum status reference_ranks_open(
	struct runner *out, const struct reference_options *options, struct error *error);

#endif
