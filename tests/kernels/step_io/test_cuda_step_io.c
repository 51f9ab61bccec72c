/* The kernels at the begin and the end of a step, against what the host wrote. */

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "kernels/step_io/step_io.h"
#include "tests/harness/cuda_device.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_step_io, .init = skip_without_device);

/* Steps use both slots of the double buffer, more than once. Each copies the data up to the length
   in its header, additions to block tables, sampled tokens and the completion record. */
struct step_trial {
	struct step_io io;
	unsigned char *host_data;
	int32_t *host_tokens;
	uint32_t tables[1500];
	int32_t sampled[700];
};

enum { STEP_DATA = 64 * 1024, STEP_ADDITIONS = 700, STEP_WIDTH = 5, STEP_TOKENS = 700 };

static void step_open(struct step_trial *own)
{
	size_t line = sizeof(struct step_header);
	size_t stride = STEP_DATA + STEP_ADDITIONS * sizeof(struct table_addition);

	memset(own, 0, sizeof(*own));
	stride = (STEP_BLOCKS * line + stride + line - 1) / line * line;
	for (uint32_t i = 0; i < STEP_TOKENS; i++) {
		own->sampled[i] = (int32_t)(i * 3 + 1);
	}
	must(cudaMallocHost((void **)&own->host_data, 2 * stride), "cudaMallocHost");
	must(cudaMallocHost((void **)&own->host_tokens, 2 * STEP_TOKENS * sizeof(int32_t)),
		"cudaMallocHost");
	own->io = (struct step_io){
		.step_count = device_take(sizeof(uint64_t)),
		.data = device_take(STEP_DATA),
		.data_bytes = STEP_DATA,
		.host_data = own->host_data,
		.host_stride = stride,
		.tables = device_copy(own->tables, sizeof(own->tables)),
		.table_width = STEP_WIDTH,
		.host_tokens = own->host_tokens,
		.token_stride = STEP_TOKENS,
		.sampled = device_copy(own->sampled, sizeof(own->sampled)),
	};
	must(cudaMemset(own->io.step_count, 0, sizeof(uint64_t)), "cudaMemset");
	must(cudaMallocHost((void **)&own->io.completions, 2 * sizeof(struct step_completion)),
		"cudaMallocHost");
	memset(own->io.completions, 0, 2 * sizeof(struct step_completion));
}

static void step_close(struct step_trial *own)
{
	cudaFree(own->io.step_count);
	cudaFree(own->io.data);
	cudaFree(own->io.tables);
	cudaFree((void *)(uintptr_t)own->io.sampled);
	cudaFreeHost(own->io.completions);
	cudaFreeHost(own->host_data);
	cudaFreeHost(own->host_tokens);
}

/* Runs step number `step`, whose data are `bytes` long. The first `sure` bytes are copied before
   the header is read. */
static void check_step(struct step_trial *own, uint64_t step, size_t bytes, size_t sure,
	uint32_t addition_count, uint32_t token_count)
{
	struct step_header *headers = (void *)(own->host_data + step % 2 * own->io.host_stride);
	unsigned char *data = (unsigned char *)(headers + STEP_BLOCKS);
	struct table_addition *additions = (struct table_addition *)(void *)(data + STEP_DATA);
	unsigned char *found = memory_take(STEP_DATA, 1);
	uint32_t tables[1500];

	for (uint32_t i = 0; i < STEP_DATA; i++) {
		data[i] = (unsigned char)counter_hash(step, i);
	}
	for (uint32_t i = 0; i < STEP_BLOCKS; i++) {
		headers[i] = (struct step_header){.chunk_count = (uint32_t)(bytes / STEP_CHUNK),
			.addition_count = addition_count};
	}
	for (uint32_t a = 0; a < addition_count; a++) {
		uint32_t entry = (a * 7 + 3) % 1500; /* 7 and 1,500 share no factor */
		uint32_t block = (uint32_t)step * 1000 + a;
		additions[a] =
			(struct table_addition){entry / STEP_WIDTH, entry % STEP_WIDTH, block, 0};
		own->tables[entry] = block;
	}
	must(cudaMemset(own->io.data, 0xee, STEP_DATA), "cudaMemset");
	must(step_begin(&own->io, sure, NULL), "step_begin");
	must(step_end(&own->io, token_count, NULL), "step_end");
	must(cudaDeviceSynchronize(), "kernel");
	must(cudaMemcpy(found, own->io.data, STEP_DATA, cudaMemcpyDeviceToHost), "cudaMemcpy");
	must(cudaMemcpy(tables, own->io.tables, sizeof(tables), cudaMemcpyDeviceToHost),
		"cudaMemcpy");
	size_t copied = bytes > sure ? bytes : sure;
	cr_expect(memcmp(found, data, copied) == 0, "step %d: the data differ", (int)step);
	cr_expect(copied == STEP_DATA || found[copied] == 0xee, "step %d: too much", (int)step);
	cr_expect(memcmp(tables, own->tables, sizeof(tables)) == 0, "step %d", (int)step);
	cr_expect(memcmp(own->host_tokens + step % 2 * STEP_TOKENS, own->sampled,
			  token_count * sizeof(int32_t)) == 0);
	const struct step_completion *completion = &own->io.completions[step % 2];
	cr_expect(completion->done == step + 1);
	cr_expect(completion->begin_ns > 0 && completion->end_ns >= completion->begin_ns);
	free(found);
}

Test(cuda_step_io, steps_copy_data_tables_tokens_and_completions)
{
	struct step_trial own;

	step_open(&own);
	check_step(&own, 0, 16, 16, 0, 0);
	check_step(&own, 1, 4096, 4096, 1, 1);
	check_step(&own, 2, STEP_DATA, 4096, STEP_ADDITIONS, STEP_TOKENS);
	check_step(&own, 3, 128, 4096, 257, 513);
	check_step(&own, 4, 9008, 16, 64, 512);
	check_step(&own, 5, STEP_DATA, STEP_DATA, 65, 3);
	check_step(&own, 6, 16, 0, 0, 1);
	step_close(&own);
}
