#ifndef ENGINE_RUNNERS_CUDA_STATUS_H
#define ENGINE_RUNNERS_CUDA_STATUS_H

#include "engine/base/status.h"

/* Converts 0 or the code of a CUDA call or launcher to a status whose error names the call. */
enum status cuda_status(int code, const char *call, struct error *error);

#endif
