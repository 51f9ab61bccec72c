#ifndef ENGINE_RANKS_MPI_LIBRARY_H
#define ENGINE_RANKS_MPI_LIBRARY_H

#include <mpi.h>
#include <stdbool.h>

#include "engine/base/status.h"

/* Open MPI, loaded by dlopen(), as cuBLASLt and CUPTI are, and not linked or put into a plugin: the
   program is one file that runs where there is no MPI. Types and prototypes are those of the
   header, so the library must have the header's ABI: libmpi.so.40 is Open MPI 3 to 5. */

struct mpi {
	void *library;
	MPI_Comm world;
	MPI_Datatype byte;
	__typeof__(MPI_Init) *init;
	__typeof__(MPI_Initialized) *initialized;
	__typeof__(MPI_Finalize) *finalize;
	__typeof__(MPI_Finalized) *finalized;
	__typeof__(MPI_Abort) *abort;
	__typeof__(MPI_Bcast) *broadcast;
	__typeof__(MPI_Allgather) *gather;
	__typeof__(MPI_Send) *send;
	__typeof__(MPI_Recv) *receive;
	__typeof__(MPI_Iprobe) *probe;
	__typeof__(MPI_Get_count) *count;
};

enum status mpi_load(struct mpi *mpi, struct error *error);

/* Begins MPI, once in the life of a process. */
void mpi_begin(const struct mpi *mpi);

/* Whether MPI has ended. */
bool mpi_is_over(const struct mpi *mpi);

/* Ends MPI, unless it has ended. All processes come here. */
void mpi_end(const struct mpi *mpi);

#endif
