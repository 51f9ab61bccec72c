#include "engine/runners/cuda_nccl.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/runners/cuda_status.h"

#include <stdlib.h>

void cuda_nccl_prepare(void)
{
	setenv("NCCL_NVLS_ENABLE", "0", 1);
}

#ifdef QUIRE_HAS_NCCL

#include <assert.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_INTERVAL = 1000 }; /* polls between looks at the GPU, which take longer */

static const char library_name[] = "libnccl.so.2";

struct cuda_nccl {
	struct ranks *ranks; /* borrowed */
	void *library;
	ncclComm_t communicator;

	ncclResult_t (*get_unique_id)(ncclUniqueId *);
	ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
	ncclResult_t (*all_gather)(
		const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
	ncclResult_t (*async_error)(ncclComm_t, ncclResult_t *);
	ncclResult_t (*abort)(ncclComm_t);
};

const char *cuda_nccl_error_text(int code)
{
	switch ((ncclResult_t)(code - CUDA_NCCL_ERROR)) {
	case ncclUnhandledCudaError:
		return "NCCL: a CUDA call failed";
	case ncclSystemError:
		return "NCCL: a system call failed";
	case ncclInternalError:
		return "NCCL: internal error";
	case ncclInvalidArgument:
	case ncclInvalidUsage:
		return "NCCL: invalid usage";
	case ncclRemoteError:
		return "NCCL: another rank has failed";
	default:
		return "NCCL failed";
	}
}

static int code_of(ncclResult_t result)
{
	return result == ncclSuccess ? 0 : CUDA_NCCL_ERROR + (int)result;
}

static enum status load(struct cuda_nccl *nccl, struct error *error)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
		{"ncclGetUniqueId", &nccl->get_unique_id},
		{"ncclCommInitRankConfig", &nccl->init},
		{"ncclAllGather", &nccl->all_gather},
		{"ncclCommGetAsyncError", &nccl->async_error},
		{"ncclCommAbort", &nccl->abort},
	};

	nccl->library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
	if (nccl->library == NULL) {
		return error_set(error, STATUS_DEVICE,
			"exchange by NCCL: found no %s, expected it where the dynamic linker looks "
			"(LD_LIBRARY_PATH)",
			library_name);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *symbol = dlsym(nccl->library, functions[i].name);
		memcpy(functions[i].function, &symbol, sizeof(symbol));
		if (symbol == NULL) {
			return error_set(error, STATUS_DEVICE,
				"%s lacks %s: expected NCCL 2.18 or later", library_name,
				functions[i].name);
		}
	}
	return STATUS_OK;
}

/* NCCL may wait for a GPU that has failed. */
static bool has_failed_gpu(void)
{
	size_t free_bytes, all_bytes;

	return cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess;
}

/* Waits for a call that returned before it was done, as those of a nonblocking communicator do:
   opening, and the first of a kind, which connects to the other ranks. */
static ncclResult_t finish(const struct cuda_nccl *nccl, ncclResult_t result)
{
	const struct timespec pause = {.tv_nsec = 100 * 1000};
	struct error failure = {0};

	for (uint32_t i = 1; result == ncclInProgress; i++) {
		ncclResult_t asked = nccl->async_error(nccl->communicator, &result);
		if (asked != ncclSuccess) {
			return asked;
		}
		if (result == ncclInProgress) {
			nanosleep(&pause, NULL);
			if (ranks_check(nccl->ranks, &failure) != STATUS_OK) {
				return ncclRemoteError;
			}
			if (i % LOOK_INTERVAL == 0 && has_failed_gpu()) {
				return ncclUnhandledCudaError;
			}
		}
	}
	return result;
}

static enum status connect(struct cuda_nccl *nccl, struct ranks *ranks, struct error *error)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;

	static_assert(sizeof(id) <= RANK_PAYLOAD_BYTES, "an id fits into a payload");
	memset(&id, 0, sizeof(id));
	if (ranks_index(ranks) == 0) {
		(void)cuda_status(code_of(nccl->get_unique_id(&id)), "ncclGetUniqueId", error);
	}
	TRY(ranks_broadcast(ranks, &id, sizeof(id), error));
	config.blocking = 0;
	ncclResult_t result = nccl->init(
		&nccl->communicator, (int)ranks_count(ranks), id, (int)ranks_index(ranks), &config);
	result = finish(nccl, result);
	if (result == ncclRemoteError) {
		TRY(ranks_check(ranks, error)); /* the cause, if it is known */
	}
	return cuda_status(code_of(result), "ncclCommInitRankConfig", error);
}

enum status cuda_nccl_open(struct cuda_nccl **out, struct ranks *ranks, struct error *error)
{
	struct cuda_nccl *nccl = memory_take(1, sizeof(*nccl));

	*out = nccl;
	nccl->ranks = ranks;
	(void)load(nccl, error);
	TRY(ranks_barrier(ranks, error));
	/* Those that wait inside NCCL come to no barrier, so the caller has to tell of an error. */
	TRY(connect(nccl, ranks, error));
	return ranks_barrier(ranks, error);
}

int cuda_nccl_all_gather(struct cuda_nccl *nccl, void *out, const void *own, uint64_t bytes,
	struct CUstream_st *stream)
{
	if (bytes == 0) {
		return 0;
	}
	ncclResult_t result =
		nccl->all_gather(own, out, (size_t)bytes, ncclInt8, nccl->communicator, stream);
	return code_of(finish(nccl, result));
}

int cuda_nccl_failure(const struct cuda_nccl *nccl)
{
	ncclResult_t result = ncclSuccess;
	ncclResult_t asked = nccl->async_error(nccl->communicator, &result);

	if (asked != ncclSuccess) {
		return code_of(asked);
	}
	return result == ncclInProgress ? 0 : code_of(result);
}

static void end_process(int exit_code, void *unused)
{
	(void)unused;
	fflush(NULL);
	_exit(exit_code);
}

void cuda_nccl_leave(void)
{
	/* Its threads would use what the exit functions of libraries take away. */
	check(on_exit(end_process, NULL) == 0);
}

void cuda_nccl_close(struct cuda_nccl *nccl)
{
	if (nccl == NULL) {
		return;
	}
	if (nccl->communicator != NULL) {
		/* Destroying it would wait for ranks that may have ended; no operation is left. */
		nccl->abort(nccl->communicator);
	}
	free(nccl);
}

#else

const char *cuda_nccl_error_text(int code)
{
	(void)code;
	return "NCCL failed";
}

enum status cuda_nccl_open(struct cuda_nccl **out, struct ranks *ranks, struct error *error)
{
	(void)ranks;
	*out = NULL;
	return error_set(error, STATUS_DEVICE,
		"exchange by NCCL: this quire was built without NCCL's header nccl.h");
}

int cuda_nccl_all_gather(struct cuda_nccl *nccl, void *out, const void *own, uint64_t bytes,
	struct CUstream_st *stream)
{
	(void)nccl, (void)out, (void)own, (void)bytes, (void)stream;
	return CUDA_NCCL_ERROR;
}

int cuda_nccl_failure(const struct cuda_nccl *nccl)
{
	(void)nccl;
	return 0;
}

void cuda_nccl_leave(void)
{
}

void cuda_nccl_close(struct cuda_nccl *nccl)
{
	(void)nccl;
}

#endif
