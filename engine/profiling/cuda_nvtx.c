#include "engine/profiling/nvtx.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANGE_NAME_BYTES = 64 };

struct nvtx_ranges {
	nvtxDomainHandle_t domain; /* NULL: no tool is listening */
	struct range_stack *stack;
};

struct nvtx_ranges *nvtx_open(struct range_stack *stack)
{
	struct nvtx_ranges *ranges = memory_take(1, sizeof(*ranges));

	ranges->domain = nvtxDomainCreateA("quire");
	ranges->stack = stack;
	if (stack != NULL) {
		stack->depth = 0;
		stack->step = RANGE_NO_STEP;
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
	if (ranges->stack != NULL) {
		ranges->stack->step = step;
	}
	if (ranges->domain != NULL) {
		nvtxEventAttributes_t mark = attributes("step", step);
		nvtxDomainMarkEx(ranges->domain, &mark);
	}
}

static void stack_push(
	struct range_stack *stack, const char *name, uint32_t layer, uint32_t row_count)
{
	if (stack == NULL) {
		return;
	}
	stack->push_count++;
	if (stack->depth++ < RANGE_DEPTH_MAX) {
		stack->open[stack->depth - 1] = (struct range){.name = name,
			.layer = layer,
			.rows = row_count,
			.serial = stack->push_count};
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
	stack_push(ranges->stack, name, layer, row_count);
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
	if (ranges->stack != NULL) {
		check(ranges->stack->depth > 0);
		ranges->stack->depth--;
	}
	if (ranges->domain != NULL) {
		nvtxDomainRangePop(ranges->domain);
	}
}
