#ifndef BENCH_REPLAY_CUDA_OPEN_H
#define BENCH_REPLAY_CUDA_OPEN_H

#include "bench/replay/runners.h"

/* Whether this machine has as many GPUs as are needed, and a driver that can run what was compiled;
   the error says what is missing. */
enum status cuda_check_device(uint32_t needed, struct error *error);

/* Prints what the GPU of this machine offers for a configuration, if there is one; *block_count is
   its number of KV blocks, 0 without a GPU. */
enum status cuda_print_info(const struct replay_config *config,
	const struct runner_request *request, uint32_t *block_count, struct error *error);

#endif
