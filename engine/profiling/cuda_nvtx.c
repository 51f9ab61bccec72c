#include "engine/profiling/nvtx.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANGE_NAME_BYTES = 64 };

struct nvtx_ranges {
	nvtxDomainHandle_t domain; /* NULL: no tool is listening */
	struct range_watch *watch;
};

struct nvtx_ranges *nvtx_open(struct range_watch *watch)
{
	struct nvtx_ranges *ranges = memory_take(1, sizeof(*ranges));

	ranges->domain = nvtxDomainCreateA("quire");
	ranges->watch = watch;
	if (watch != NULL) {
		watch->depth = 0;
		watch->step = RANGE_NO_STEP;
	}
	return ranges;
}

void nvtx_close(struct nvtx_ranges *ranges)
{
	if (ranges != NULL && ranges->domain != NULL) {
		nvtxDomainDestroy(ranges->domain);
	}
	free(ranges);
}

static nvtxEventAttributes_t attributes(const char *text, uint64_t payload)
{
	return (nvtxEventAttributes_t){
		.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
		.payload.ullValue = payload,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message.ascii = text,
	};
}

void nvtx_step(struct nvtx_ranges *ranges, uint64_t step)
{
	if (ranges == NULL) {
		return;
	}
	if (ranges->watch != NULL) {
		ranges->watch->step = step;
	}
	if (ranges->domain != NULL) {
		nvtxEventAttributes_t mark = attributes("step", step);
		nvtxDomainMarkEx(ranges->domain, &mark);
	}
}

static void watch_push(
	struct range_watch *watch, const char *name, uint32_t layer, uint32_t row_count)
{
	if (watch == NULL) {
		return;
	}
	watch->push_count++;
	if (watch->depth++ < RANGE_DEPTH_MAX) {
		watch->open[watch->depth - 1] = (struct range){.name = name,
			.layer = layer,
			.rows = row_count,
			.serial = watch->push_count};
	}
}

void nvtx_push(struct nvtx_ranges *ranges, const char *name)
{
	nvtx_push_layer(ranges, name, RANGE_NO_LAYER, 0);
}

void nvtx_push_layer(
	struct nvtx_ranges *ranges, const char *name, uint32_t layer, uint32_t row_count)
{
	char text[RANGE_NAME_BYTES];

	if (ranges == NULL) {
		return;
	}
	watch_push(ranges->watch, name, layer, row_count);
	if (ranges->domain == NULL) {
		return;
	}
	if (layer == RANGE_NO_LAYER) {
		snprintf(text, sizeof(text), "%s", name);
	} else {
		snprintf(text, sizeof(text), "%s %u", name, layer);
	}
	nvtxEventAttributes_t event = attributes(text, row_count);
	nvtxDomainRangePushEx(ranges->domain, &event);
}

void nvtx_pop(struct nvtx_ranges *ranges)
{
	if (ranges == NULL) {
		return;
	}
	if (ranges->watch != NULL) {
		check(ranges->watch->depth > 0);
		ranges->watch->depth--;
	}
	if (ranges->domain != NULL) {
		nvtxDomainRangePop(ranges->domain);
	}
}
