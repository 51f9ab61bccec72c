#include "engine/ranks/mpi_library.h"

#include <dlfcn.h>
#include <string.h>

/* Stores an address; false: the library lacks it. ISO C has no conversion from dlsym's void pointer
   to a function pointer, so its bytes are copied. */
static bool find(const struct mpi *mpi, const char *name, void *address)
{
	void *symbol = dlsym(mpi->library, name);

	memcpy(address, &symbol, sizeof(symbol));
	return symbol != NULL;
}

enum status mpi_load(struct mpi *mpi, struct error *error)
{
	static const char file[] = "libmpi.so.40";

	/* Its plugins look for its symbols in the whole program. */
	mpi->library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
	if (mpi->library == NULL) {
		return error_set(error, STATUS_DEVICE,
			"mpirun started this process, but %s of Open MPI cannot be loaded", file);
	}
	if (!find(mpi, "ompi_mpi_comm_world", &mpi->world) ||
		!find(mpi, "ompi_mpi_byte", &mpi->byte) || !find(mpi, "MPI_Init", &mpi->init) ||
		!find(mpi, "MPI_Initialized", &mpi->initialized) ||
		!find(mpi, "MPI_Finalize", &mpi->finalize) ||
		!find(mpi, "MPI_Finalized", &mpi->finalized) ||
		!find(mpi, "MPI_Abort", &mpi->abort) || !find(mpi, "MPI_Bcast", &mpi->broadcast) ||
		!find(mpi, "MPI_Allgather", &mpi->gather) || !find(mpi, "MPI_Send", &mpi->send) ||
		!find(mpi, "MPI_Recv", &mpi->receive) || !find(mpi, "MPI_Iprobe", &mpi->probe) ||
		!find(mpi, "MPI_Get_count", &mpi->count)) {
		return error_set(error, STATUS_DEVICE, "%s lacks a function of Open MPI", file);
	}
	return STATUS_OK;
}

void mpi_begin(const struct mpi *mpi)
{
	int flag = 0;

	mpi->initialized(&flag);
	if (flag == 0) {
		mpi->init(NULL, NULL);
	}
}

bool mpi_is_over(const struct mpi *mpi)
{
	int flag = 0;

	mpi->finalized(&flag);
	return flag != 0;
}

void mpi_end(const struct mpi *mpi)
{
	if (!mpi_is_over(mpi)) {
		mpi->finalize();
	}
}
