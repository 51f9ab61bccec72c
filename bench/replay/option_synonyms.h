#ifndef BENCH_REPLAY_OPTION_SYNONYMS_H
#define BENCH_REPLAY_OPTION_SYNONYMS_H

#include "bench/options/options.h"

/* The options of `vllm serve` and `vllm bench serve` (0.26 to 0.33) under the names that quire has
   for them, and a word on those that it does not have. Options that both spell alike are not
   listed. Ends with a row without a name. */
extern const struct option_synonym option_synonyms[];

#endif
