#include "engine/model/nvtx.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

enum { RANGE_NAME_BYTES = 64 };

struct nvtxDomainRegistration_st *nvtx_open(void)
{
	return nvtxDomainCreateA("quire");
}

void nvtx_close(struct nvtxDomainRegistration_st *domain)
{
	if (domain != NULL) {
		nvtxDomainDestroy(domain);
	}
}

void nvtx_push(struct nvtxDomainRegistration_st *domain, const char *name)
{
	if (domain == NULL) {
		return; /* no tool is listening */
	}
	nvtxEventAttributes_t range = {
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message.ascii = name,
	};
	nvtxDomainRangePushEx(domain, &range);
}

void nvtx_push_layer(struct nvtxDomainRegistration_st *domain, const char *name, uint32_t layer)
{
	char text[RANGE_NAME_BYTES];

	if (domain == NULL) {
		return;
	}
	snprintf(text, sizeof(text), "%s %u", name, layer);
	nvtx_push(domain, text);
}

void nvtx_pop(struct nvtxDomainRegistration_st *domain)
{
	if (domain != NULL) {
		nvtxDomainRangePop(domain);
	}
}
