#ifndef MODEL_NVTX_H
#define MODEL_NVTX_H

#include <stdint.h>

/* NVTX ranges in the domain "quire", which any profiler of NVIDIA's shows; without one attached a
   range costs some nanoseconds. */

struct nvtxDomainRegistration_st; /* nvtxDomainHandle_t is a pointer to it */

struct nvtxDomainRegistration_st *nvtx_open(void);
void nvtx_close(struct nvtxDomainRegistration_st *domain);

void nvtx_push(struct nvtxDomainRegistration_st *domain, const char *name);

/* "NAME LAYER" */
void nvtx_push_layer(struct nvtxDomainRegistration_st *domain, const char *name, uint32_t layer);

void nvtx_pop(struct nvtxDomainRegistration_st *domain);

#endif
