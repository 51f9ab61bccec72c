#ifndef ENGINE_RANKS_APART_H
#define ENGINE_RANKS_APART_H

#include "engine/base/status.h"

/* Runs a function in a process of its own and returns its status and error. Ranks must be started
   before anything of CUDA is called (ranks_open()), so a program that runs several of them calls
   each apart, and nothing of CUDA itself.

   What the function writes to its arguments stays there. It handles signals as in a program of its
   own; this process waits for its end meanwhile, and its death ends the function's process. */
enum status apart_run(enum status (*function)(void *argument, struct error *error), void *argument,
	struct error *error);

#endif
