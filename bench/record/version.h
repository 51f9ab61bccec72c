#ifndef BENCH_RECORD_VERSION_H
#define BENCH_RECORD_VERSION_H

/* What this program was built from: the project's version, the commit, and the CUDA toolkit with
   the GPU architectures, or "no CUDA". */

const char *version_number(void); /* "0.1.0" */
const char *version_commit(void); /* output of git describe; "unknown" outside a repository */
const char *version_cuda(void);	  /* "CUDA 13.0 for 90a", or "no CUDA" */

#endif
