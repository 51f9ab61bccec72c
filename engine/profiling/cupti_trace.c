#include "engine/profiling/cupti_trace.h"

#include "engine/base/counter_hash.h"
#include "engine/base/memory.h"
#include "engine/profiling/cupti_api.h"
#include "engine/profiling/cupti_buffers.h"
#include "engine/profiling/launch_sites.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 1 << 12 }; /* a power of two */

struct name {
	const char *theirs; /* CUPTI's pointer; NULL: a free entry */
	char *ours;
};

struct kernel_trace {
	struct cupti_api api;
	CUpti_SubscriberHandle subscriber; /* NULL: none */
	struct cupti_buffers buffers;
	struct launch_sites sites;
	struct name *names; /* (NAMES_MAX) open addressing */
	uint32_t name_count;

	struct cupti_buffer *reading; /* NULL: none */
	CUpti_Activity *position;     /* in that buffer */
	uint64_t lost;
};

/* ---- callbacks ---- */

static void on_graph(struct kernel_trace *trace, CUpti_CallbackId id, const CUpti_GraphData *graph)
{
	uint64_t node_id = 0, original_id = 0;

	if (trace->api.node_id(graph->node, &node_id) != CUPTI_SUCCESS || node_id == 0) {
		return;
	}
	if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
		launch_sites_note_node(&trace->sites, node_id);
	} else if (trace->api.node_id(graph->originalNode, &original_id) == CUPTI_SUCCESS) {
		launch_sites_note_copy(&trace->sites, node_id, original_id);
	}
}

static void CUPTIAPI on_callback(
	void *state, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	struct kernel_trace *trace = state;

	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		on_graph(trace, id, ((const CUpti_ResourceData *)data)->resourceDescriptor);
		return;
	}
	const CUpti_CallbackData *call = data;
	if (call->callbackSite == CUPTI_API_ENTER) {
		launch_sites_note_launch(&trace->sites, call->correlationId);
	}
}

/* ---- records ---- */

/* Interns a name of CUPTI's: equal names give the same pointer. */
static const char *name_of(struct kernel_trace *trace, const char *theirs)
{
	if (theirs == NULL) {
		return "";
	}
	uint32_t i = (uint32_t)counter_mix((uintptr_t)theirs) & (NAMES_MAX - 1);
	while (trace->names[i].theirs != NULL && trace->names[i].theirs != theirs) {
		i = (i + 1) & (NAMES_MAX - 1);
	}
	struct name *name = &trace->names[i];
	if (name->theirs == NULL) {
		if (trace->name_count == NAMES_MAX / 2) {
			return "";
		}
		trace->name_count++;
		name->theirs = theirs;
		size_t bytes = strlen(theirs) + 1;
		name->ours = memory_take(bytes, 1);
		memcpy(name->ours, theirs, bytes);
	}
	return name->ours;
}

static const char *copy_name(uint8_t kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
		return "copy to the GPU";
	case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
		return "copy from the GPU";
	default:
		return "copy";
	}
}

/* Fills in step and sites of a record; if they are unknown, counts it as lost and returns false. */
static bool attribute(struct kernel_trace *trace, struct kernel_record *record,
	uint32_t correlation, uint64_t node_id)
{
	if (record->end_ns == 0 ||
		!launch_sites_find(&trace->sites, correlation, node_id, record)) {
		trace->lost++;
		return false;
	}
	return true;
}

/* False: the activity is of another kind, or the record is lost. */
static bool convert(
	struct kernel_trace *trace, const CUpti_Activity *activity, struct kernel_record *out)
{
	memset(out, 0, sizeof(*out));
	if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
		const CUpti_ActivityKernel10 *kernel = (const void *)activity;
		out->start_ns = kernel->start;
		out->end_ns = kernel->end;
		out->name = name_of(trace, kernel->name);
		return attribute(trace, out, kernel->correlationId, kernel->graphNodeId);
	}
	if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
		const CUpti_ActivityMemcpy6 *copy = (const void *)activity;
		out->start_ns = copy->start;
		out->end_ns = copy->end;
		out->bytes = copy->bytes;
		out->name = copy_name(copy->copyKind);
		return attribute(trace, out, copy->correlationId, copy->graphNodeId);
	}
	if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
		const CUpti_ActivityMemset4 *fill = (const void *)activity;
		out->start_ns = fill->start;
		out->end_ns = fill->end;
		out->bytes = fill->bytes;
		out->name = "fill";
		return attribute(trace, out, fill->correlationId, fill->graphNodeId);
	}
	return false;
}

static size_t trace_take(void *state, struct kernel_record *records, size_t capacity)
{
	struct kernel_trace *trace = state;
	size_t count = 0;

	while (count < capacity) {
		if (trace->reading == NULL) {
			trace->reading = cupti_buffers_next(&trace->buffers);
			trace->position = NULL;
			if (trace->reading == NULL) {
				break;
			}
		}
		struct cupti_buffer *buffer = trace->reading;
		if (buffer->valid_bytes > 0 &&
			trace->api.next_record(buffer->bytes, buffer->valid_bytes,
				&trace->position) == CUPTI_SUCCESS) {
			count += convert(trace, trace->position, &records[count]);
		} else {
			cupti_buffers_return(&trace->buffers, buffer);
			trace->reading = NULL;
		}
	}
	return count;
}

static uint64_t trace_now(void *state)
{
	const struct kernel_trace *trace = state;
	uint64_t now = 0;

	trace->api.timestamp(&now);
	return now;
}

static void trace_flush(void *state)
{
	const struct kernel_trace *trace = state;

	cudaDeviceSynchronize();
	trace->api.flush_all(0);
	trace->api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

static struct kernel_site trace_site(void *state, uint32_t index)
{
	const struct kernel_trace *trace = state;

	return launch_sites_at(&trace->sites, index);
}

static uint64_t trace_lost(void *state)
{
	struct kernel_trace *trace = state;

	return trace->lost + cupti_buffers_dropped(&trace->buffers);
}

/* ---- opening ---- */

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
	CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

static void trace_close(void *state)
{
	struct kernel_trace *trace = state;

	if (cupti_buffers_are_registered()) {
		for (uint32_t i = 0; i < KIND_COUNT; i++) {
			trace->api.disable(kinds[i]);
		}
		trace->api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	}
	if (trace->subscriber != NULL) {
		trace->api.unsubscribe(trace->subscriber);
	}
	cupti_buffers_unregister();
	cupti_buffers_deinit(&trace->buffers);
	launch_sites_deinit(&trace->sites);
	for (uint32_t i = 0; i < NAMES_MAX; i++) {
		free(trace->names[i].ours);
	}
	free(trace->names);
	free(trace);
}

/* Enables callbacks for every call that may launch work, and for the creation of graph nodes. */
static CUptiResult enable_callbacks(struct kernel_trace *trace)
{
	static const struct {
		CUpti_CallbackDomain domain;
		CUpti_CallbackId id;
	} wanted[] = {
		{CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED},
		{CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED},
		{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000},
#if CUDART_VERSION >= 13000
		{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000},
#endif
		{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060},
		{CUPTI_CB_DOMAIN_RUNTIME_API,
			CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000},
		{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000},
		{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020},
		{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020},
		{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020},
		{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020},
		{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel},
		{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx},
		{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel},
	};
	CUptiResult result = CUPTI_SUCCESS;

	for (uint32_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && result == CUPTI_SUCCESS;
		i++) {
		result = trace->api.enable_callback(
			1, trace->subscriber, wanted[i].domain, wanted[i].id);
	}
	return result;
}

/* subscriber stays NULL after a failure. */
static enum status subscribe(struct kernel_trace *trace, struct error *error)
{
	CUpti_SubscriberHandle subscriber = NULL;
	int device_count;
	CUptiResult result = trace->api.subscribe(&subscriber, on_callback, trace);
	cudaError_t code =
		result == CUPTI_SUCCESS ? cudaSuccess : cudaGetDeviceCount(&device_count);

	if (code != cudaSuccess) {
		/* CUPTI does not report the reason, but the runtime does. */
		return error_set(
			error, STATUS_DEVICE, "cudaGetDeviceCount: %s", cudaGetErrorString(code));
	}
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		return error_set(error, STATUS_DEVICE,
			"kernel times: another profiler watches this program already, and CUPTI "
			"serves one");
	}
	TRY(cupti_api_status(&trace->api, result, "cuptiSubscribe", error));
	trace->subscriber = subscriber;
	return STATUS_OK;
}

static enum status start(struct kernel_trace *trace, struct error *error)
{
	const struct cupti_api *api = &trace->api;

	TRY(subscribe(trace, error));
	TRY(cupti_api_status(api, enable_callbacks(trace), "cuptiEnableCallback", error));
	TRY(cupti_api_status(api, cupti_buffers_register(&trace->buffers),
		"cuptiActivityRegisterCallbacks", error));
	for (uint32_t i = 0; i < KIND_COUNT; i++) {
		TRY(cupti_api_status(api, api->enable(kinds[i]), "cuptiActivityEnable", error));
	}
	return STATUS_OK;
}

enum status cupti_trace_open(
	struct kernel_source *out, struct range_stack **stack, struct error *error)
{
	struct cupti_api api = {0};

	TRY(cupti_api_load(&api, error));
	struct kernel_trace *trace = memory_take(1, sizeof(*trace));
	trace->api = api;
	trace->names = memory_take(NAMES_MAX, sizeof(*trace->names));
	launch_sites_init(&trace->sites);
	cupti_buffers_init(&trace->buffers, &trace->api);
	enum status status = start(trace, error);
	if (status != STATUS_OK) {
		trace_close(trace);
		return status;
	}
	*stack = &trace->sites.stack;
	*out = (struct kernel_source){
		.state = trace,
		.now = trace_now,
		.take = trace_take,
		.flush = trace_flush,
		.site = trace_site,
		.lost = trace_lost,
		.close = trace_close,
	};
	return STATUS_OK;
}
