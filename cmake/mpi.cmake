# MPI is optional: where mpi.h of Open MPI is found, ranks may be processes of mpirun. Only the
# header is used; the library is loaded at run time (engine/ranks/mpi_ranks.c). QUIRE_HAS_MPI says
# whether files with names mpi_* are compiled.

set(QUIRE_HAS_MPI OFF)
if(NOT QUIRE_MPI STREQUAL "OFF")
	find_path(QUIRE_MPI_INCLUDE mpi.h PATH_SUFFIXES openmpi
		HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include /usr/include/openmpi)
	mark_as_advanced(QUIRE_MPI_INCLUDE)
	if(QUIRE_MPI_INCLUDE)
		file(STRINGS ${QUIRE_MPI_INCLUDE}/mpi.h quire_open_mpi
			REGEX "define OMPI_MAJOR_VERSION")
	endif()
	if(quire_open_mpi)
		set(QUIRE_HAS_MPI ON)
	elseif(QUIRE_MPI STREQUAL "ON")
		message(FATAL_ERROR "QUIRE_MPI=ON, but mpi.h of Open MPI was not found")
	endif()
endif()
