#include "engine/runners/cuda_peer.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/runners/cuda_status.h"

#include <assert.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The driver's functions are looked up at run time, because a simulation also runs on machines
   without a driver. */
struct driver {
	CUresult (*granularity)(
		size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
	CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
		unsigned long long);
	CUresult (*release)(CUmemGenericAllocationHandle);
	CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
	CUresult (*address_free)(CUdeviceptr, size_t);
	CUresult (*map)(
		CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
	CUresult (*unmap)(CUdeviceptr, size_t);
	CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
	CUresult (*export_handle)(void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
		unsigned long long);
	CUresult (*import_handle)(
		CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType);
};

static enum status driver_find(struct driver *driver, struct error *error)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
		{"cuMemGetAllocationGranularity", &driver->granularity},
		{"cuMemCreate", &driver->create},
		{"cuMemRelease", &driver->release},
		{"cuMemAddressReserve", &driver->reserve},
		{"cuMemAddressFree", &driver->address_free},
		{"cuMemMap", &driver->map},
		{"cuMemUnmap", &driver->unmap},
		{"cuMemSetAccess", &driver->set_access},
		{"cuMemExportToShareableHandle", &driver->export_handle},
		{"cuMemImportFromShareableHandle", &driver->import_handle},
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *symbol = NULL;
		enum cudaDriverEntryPointQueryResult found;
		int code = (int)cudaGetDriverEntryPointByVersion(
			functions[i].name, &symbol, 12000, cudaEnableDefault, &found);
		if (code == 0 && found != cudaDriverEntryPointSuccess) {
			code = (int)cudaErrorSymbolNotFound;
		}
		TRY(cuda_status(code, functions[i].name, error));
		memcpy(functions[i].function, &symbol, sizeof(symbol));
	}
	return STATUS_OK;
}

static enum status driver_status(CUresult result, const char *call, struct error *error)
{
	if (result == CUDA_SUCCESS) {
		return STATUS_OK;
	}
	return error_set(error, STATUS_DEVICE, "%s: driver error %d", call, (int)result);
}

/* ---- whether peers can be mapped ---- */

/* The first rank whose GPU the GPU of this rank cannot access; the number of ranks: none. Ranks use
   consecutive devices. */
static enum status first_unreachable(
	const struct ranks *ranks, uint32_t *unreachable, struct error *error)
{
	int own = 0;

	*unreachable = ranks_count(ranks);
	TRY(cuda_status((int)cudaGetDevice(&own), "cudaGetDevice", error));
	for (uint32_t r = ranks_count(ranks); r-- > 0;) {
		int peer = own - (int)ranks_index(ranks) + (int)r;
		int can_access = 1;
		if (peer != own) {
			TRY(cuda_status((int)cudaDeviceCanAccessPeer(&can_access, own, peer),
				"cudaDeviceCanAccessPeer", error));
		}
		if (!can_access) {
			*unreachable = r;
		}
	}
	return STATUS_OK;
}

enum status cuda_peer_is_possible(
	struct ranks *ranks, bool *is_possible, char *missing, struct error *error)
{
	uint32_t all[RANKS_MAX] = {0}, own = 0;

	(void)first_unreachable(ranks, &own, error);
	TRY(ranks_barrier(ranks, error));
	TRY(ranks_gather(ranks, &own, sizeof(own), all, error));
	*is_possible = true;
	for (uint32_t r = 0; r < ranks_count(ranks) && *is_possible; r++) {
		if (all[r] < ranks_count(ranks)) {
			*is_possible = false;
			snprintf(missing, CUDA_PEER_TEXT, "GPU %u cannot access GPU %u", r, all[r]);
		}
	}
	return STATUS_OK;
}

/* ---- pieces by file descriptor ---- */

static CUmemAllocationProp properties(void)
{
	CUmemAllocationProp own = {0};
	int device = 0;

	cudaGetDevice(&device);
	own.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	own.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	own.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	own.location.id = device;
	return own;
}

static enum status map_piece(const struct driver *driver, struct cuda_peer_piece *piece,
	uint64_t bytes, struct error *error)
{
	const CUmemAccessDesc access = {
		.location = properties().location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address = 0;

	TRY(driver_status(driver->reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve", error));
	CUresult result = driver->map(address, bytes, 0, piece->handle, 0);
	if (result != CUDA_SUCCESS) {
		driver->address_free(address, bytes);
		return driver_status(result, "cuMemMap", error);
	}
	piece->base = (unsigned char *)(uintptr_t)address; /* a device address is a number here */
	return driver_status(
		driver->set_access(address, bytes, &access, 1), "cuMemSetAccess", error);
}

/* Allocates this rank's piece; *file: a descriptor of it, or -1. */
static enum status make_piece(const struct driver *driver, struct cuda_peer_memory *memory,
	int *file, struct error *error)
{
	struct cuda_peer_piece *piece = &memory->pieces[memory->rank];
	const CUmemAllocationProp own = properties();
	CUmemGenericAllocationHandle handle = 0;
	size_t granularity = 0;

	TRY(driver_status(
		driver->granularity(&granularity, &own, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
		"cuMemGetAllocationGranularity", error));
	memory->bytes = u64_divide_up(memory->bytes, (uint64_t)granularity) * granularity;
	TRY(driver_status(driver->create(&handle, memory->bytes, &own, 0), "cuMemCreate", error));
	piece->handle = handle;
	TRY(map_piece(driver, piece, memory->bytes, error));
	return driver_status(
		driver->export_handle(file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		"cuMemExportToShareableHandle", error);
}

static enum status import_piece(const struct driver *driver, struct cuda_peer_piece *piece,
	uint64_t bytes, int file, struct error *error)
{
	CUmemGenericAllocationHandle handle = 0;

	TRY(driver_status(driver->import_handle(&handle, (void *)(uintptr_t)file,
				  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		"cuMemImportFromShareableHandle", error));
	piece->handle = handle;
	return map_piece(driver, piece, bytes, error);
}

/* Maps the pieces of the other ranks and closes their descriptors. */
static enum status import_pieces(const struct driver *driver, struct cuda_peer_memory *memory,
	const int *files, struct error *error)
{
	enum status status = STATUS_OK;

	for (uint32_t r = 0; r < memory->count; r++) {
		if (r == memory->rank) {
			continue;
		}
		if (status == STATUS_OK) {
			status = import_piece(
				driver, &memory->pieces[r], memory->bytes, files[r], error);
		}
		close(files[r]);
	}
	return status;
}

static enum status open_by_descriptors(
	struct cuda_peer_memory *memory, struct ranks *ranks, struct error *error)
{
	struct driver driver;
	int files[RANKS_MAX], own = -1;

	enum status status = driver_find(&driver, error);
	if (status == STATUS_OK) {
		status = make_piece(&driver, memory, &own, error);
	}
	status = ranks_barrier(ranks, error);
	if (status == STATUS_OK) {
		status = ranks_gather_files(ranks, own, files, error);
	}
	if (own >= 0) {
		close(own);
	}
	TRY(status);
	(void)import_pieces(&driver, memory, files, error);
	return ranks_barrier(ranks, error);
}

/* ---- pieces by legacy handle ---- */

static enum status open_by_handles(
	struct cuda_peer_memory *memory, struct ranks *ranks, struct error *error)
{
	cudaIpcMemHandle_t own = {0}, all[RANKS_MAX];
	void *base = NULL;

	static_assert(sizeof(own) <= RANK_PAYLOAD_BYTES, "a handle fits into a gathered payload");
	memory->is_legacy = true;
	if (cuda_status((int)cudaMalloc(&base, memory->bytes), "cudaMalloc", error) == STATUS_OK) {
		memory->pieces[memory->rank].base = base;
		(void)cuda_status(
			(int)cudaIpcGetMemHandle(&own, base), "cudaIpcGetMemHandle", error);
	}
	TRY(ranks_barrier(ranks, error));
	TRY(ranks_gather(ranks, &own, sizeof(own), all, error));
	for (uint32_t r = 0; r < memory->count && error->status == STATUS_OK; r++) {
		if (r != memory->rank && cuda_status((int)cudaIpcOpenMemHandle(&base, all[r],
							     cudaIpcMemLazyEnablePeerAccess),
						 "cudaIpcOpenMemHandle", error) == STATUS_OK) {
			memory->pieces[r].base = base;
		}
	}
	return ranks_barrier(ranks, error);
}

/* ---- both ---- */

enum status cuda_peer_open(
	struct cuda_peer_memory *memory, struct ranks *ranks, uint64_t bytes, struct error *error)
{
	*memory = (struct cuda_peer_memory){
		.rank = ranks_index(ranks), .count = ranks_count(ranks), .bytes = bytes};
	if (open_by_descriptors(memory, ranks, error) != STATUS_OK) {
		cuda_peer_close(memory);
		*error = (struct error){0};
		TRY(open_by_handles(memory, ranks, error));
	}
	(void)cuda_status((int)cudaMemset(memory->pieces[memory->rank].base, 0, memory->bytes),
		"cudaMemset", error);
	if (error->status == STATUS_OK) {
		(void)cuda_status((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize", error);
	}
	return ranks_barrier(ranks, error);
}

static void close_piece(
	const struct driver *driver, const struct cuda_peer_memory *memory, uint32_t rank)
{
	const struct cuda_peer_piece *piece = &memory->pieces[rank];
	CUdeviceptr address = (uintptr_t)piece->base;

	if (memory->is_legacy && rank == memory->rank) {
		cudaFree(piece->base);
	} else if (memory->is_legacy && piece->base != NULL) {
		cudaIpcCloseMemHandle(piece->base);
	} else if (!memory->is_legacy && piece->base != NULL) {
		driver->unmap(address, memory->bytes);
		driver->address_free(address, memory->bytes);
	}
	if (piece->handle != 0) {
		driver->release(piece->handle);
	}
}

void cuda_peer_close(struct cuda_peer_memory *memory)
{
	struct error none = {0};
	struct driver driver;

	if (memory->count > 0 && driver_find(&driver, &none) == STATUS_OK) {
		for (uint32_t r = 0; r < memory->count; r++) {
			close_piece(&driver, memory, r);
		}
	}
	memset(memory->pieces, 0, sizeof(memory->pieces));
}
