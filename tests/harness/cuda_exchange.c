#include "tests/harness/cuda_exchange.h"

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

void skip_without_device_for_group(void)
{
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	skip_without_device();
}

uint32_t group_devices(uint32_t most)
{
	int count = 0;

	must(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
	count = count > (int)most ? (int)most : count;
	for (int a = 0; a < count; a++) {
		for (int b = 0; b < count; b++) {
			int can_access = a == b;
			if (a != b) {
				must(cudaDeviceCanAccessPeer(&can_access, a, b),
					"cudaDeviceCanAccessPeer");
			}
			if (!can_access) {
				return 1;
			}
		}
	}
	return (uint32_t)count;
}

void group_use(const struct group *group, uint32_t rank)
{
	must(cudaSetDevice((int)(rank % group->devices)), "cudaSetDevice");
}

static void open_rank(struct group *group, uint32_t rank)
{
	struct exchange *x = &group->x[rank];
	int processors = 0;

	group_use(group, rank);
	for (uint32_t d = 0; d < group->devices; d++) {
		int code = d == rank % group->devices ? 0 : cudaDeviceEnablePeerAccess((int)d, 0);
		if (code == cudaErrorPeerAccessAlreadyEnabled) {
			cudaGetLastError();
			code = 0;
		}
		must(code, "cudaDeviceEnablePeerAccess");
	}
	must(cudaDeviceGetAttribute(
		     &processors, cudaDevAttrMultiProcessorCount, (int)(rank % group->devices)),
		"cudaDeviceGetAttribute");
	must(cudaStreamCreateWithFlags(&group->streams[rank], cudaStreamNonBlocking),
		"cudaStreamCreate");
	group->words[rank] = device_take(sizeof(*group->words[rank]));
	must(cudaMemset(group->words[rank], 0, sizeof(*group->words[rank])), "cudaMemset");
	x->memory[rank] = device_take(x->layout.bytes);
	must(exchange_clear(x->memory[rank], &x->layout, NULL), "exchange_clear");
	must(cudaDeviceSynchronize(), "exchange_clear");
	x->rank = rank;
	x->step_count = &group->words[rank]->step_count;
	x->aborted = &group->words[rank]->aborted;
	x->report = &group->reports[rank];
	x->abort = group->abort;
	/* Half of a GPU's room is left to what follows in each stream and starts early. */
	uint32_t shared = (group->ranks + group->devices - 1) / group->devices;
	x->multiprocessors = (uint32_t)processors / (shared == 1 ? 1 : 2 * shared);
}

void group_open(struct group *group, uint32_t ranks, uint32_t devices, uint32_t width,
	uint32_t tokens, uint32_t per_step, uint32_t limit_ms)
{
	const struct exchange x = {
		.layout = exchange_layout(ranks, width, tokens, tokens),
		.per_step = per_step,
		.local_ranks = 1,
		.limit_ns = (uint64_t)limit_ms * 1000000 * (takes_few() ? 100 : 1),
	};

	*group = (struct group){.ranks = ranks, .devices = devices};
	must(cudaMallocHost((void **)&group->reports, ranks * sizeof(*group->reports)),
		"cudaMallocHost");
	must(cudaMallocHost((void **)&group->abort, sizeof(*group->abort)), "cudaMallocHost");
	memset(group->reports, 0, ranks * sizeof(*group->reports));
	*group->abort = 0;
	for (uint32_t r = 0; r < ranks; r++) {
		group->x[r] = x;
		open_rank(group, r);
	}
	for (uint32_t r = 0; r < ranks; r++) {
		for (uint32_t k = 0; k < ranks; k++) {
			group->x[r].memory[k] = group->x[k].memory[k];
		}
	}
}

void group_close(struct group *group)
{
	for (uint32_t r = 0; r < group->ranks; r++) {
		group_use(group, r);
		cudaStreamDestroy(group->streams[r]);
		cudaFree(group->x[r].memory[r]);
		cudaFree(group->words[r]);
	}
	cudaFreeHost(group->reports);
	cudaFreeHost(group->abort);
	must(cudaSetDevice(0), "cudaSetDevice");
}

struct exchange group_of_one_launch(const struct group *group)
{
	struct exchange x = group->x[0];

	x.local_ranks = group->ranks;
	x.multiprocessors *= 2 * group->ranks;
	return x;
}

void group_end_step(struct group *group)
{
	for (uint32_t r = 0; r < group->ranks; r++) {
		group_use(group, r);
		must(exchange_end_step(&group->words[r]->step_count, group->streams[r]),
			"exchange_end_step");
	}
}

void group_wait(struct group *group, const char *what)
{
	for (uint32_t r = 0; r < group->ranks; r++) {
		const struct exchange_report *report = &group->reports[r];
		group_use(group, r);
		must(cudaStreamSynchronize(group->streams[r]), what);
		cr_assert(report->end == EXCHANGE_RUNS,
			"%s: rank %u gave up (%u) exchange %u of step %u, waiting for rank %u",
			what, r, report->end, report->index, (unsigned)report->step, report->peer);
	}
}
