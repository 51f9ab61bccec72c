#ifndef TESTS_FAULTS_FAULT_BOARD_H
#define TESTS_FAULTS_FAULT_BOARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Memory that a test and the shim inside a program share: the fault to cause, and what the program
   did. */

/* Operations that can fail. All but ALLOCATE and SPAWN are system calls, so that those inside libc
   and other libraries count too. Not counted: what is written to stderr, and files of /proc. */
#define FAULT_PLACE_LIST(X)                                                                        \
	X(FAULT_ALLOCATE, "allocation")                                                            \
	X(FAULT_MAP, "mmap or brk")                                                                \
	X(FAULT_OPEN, "open")                                                                      \
	X(FAULT_READ, "read")                                                                      \
	X(FAULT_WRITE, "write")                                                                    \
	X(FAULT_RENAME, "rename or link")                                                          \
	X(FAULT_SYNC, "fsync")                                                                     \
	X(FAULT_CLOSE, "close")                                                                    \
	X(FAULT_REMOVE, "unlink or rmdir")                                                         \
	X(FAULT_MAKE_FOLDER, "mkdir")                                                              \
	X(FAULT_LOOK, "stat, lseek, flock and the like")                                           \
	X(FAULT_SPAWN, "posix_spawn")                                                              \
	X(FAULT_WAIT, "wait")

enum fault_place {
#define FAULT_PLACE_ENUM(name, text) name,
	FAULT_PLACE_LIST(FAULT_PLACE_ENUM)
#undef FAULT_PLACE_ENUM
		FAULT_PLACE_COUNT
};

enum fault_effect {
	FAULT_NONE,
	FAULT_ERROR,  /* the operation fails with errno `value`; a close has happened all the same.
			With it or with an fsync a file loses the second half of its bytes. */
	FAULT_SHORT,  /* half of the bytes are read or written */
	FAULT_FULL,   /* the disk is full: half of this write succeeds, nothing of any later one */
	FAULT_SIGNAL, /* the program is sent signal `value` just before the operation */
};

struct fault {
	enum fault_place place;
	uint32_t number; /* which operation at that place, from 1 on */
	enum fault_effect effect;
	int value;
	bool is_lasting; /* every later operation at that place fails too */
};

struct fault_board {
	struct fault fault;
	uint32_t counts[FAULT_PLACE_COUNT]; /* operations so far */
	uint32_t struck;		    /* how often the fault was caused */
	pid_t process;
};

/* Descriptors of the server in the program, and the bytes that order it about. It answers each with
   the state of the process as waitpid() gives it, an int. */
enum { FAULT_ORDERS = 200, FAULT_ANSWERS = 201, FAULT_BOARD = 202 };
enum { FAULT_RUN = 'r', FAULT_CONTINUE = 'c' };

#endif
