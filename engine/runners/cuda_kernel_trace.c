#include "engine/runners/cuda_kernel_trace.h"

#include "engine/base/check.h"
#include "engine/base/integer.h"
#include "engine/base/memory.h"
#include "engine/runners/cuda_forward.h"

#ifdef QUIRE_HAS_CUPTI

#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BUFFER_BYTES = 1 << 20,
	BUFFERS_MAX = 64,
	LAUNCHES_MAX = 1 << 19, /* a power of two */
	SITES_MAX = 1 << 13,	/* a power of two */
	NAMES_MAX = 1 << 12,	/* a power of two */
	PATH_BYTES = 128,
};

struct cupti {
	void *library;
	CUptiResult (*subscribe)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *);
	CUptiResult (*unsubscribe)(CUpti_SubscriberHandle);
	CUptiResult (*enable_callback)(
		uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId);
	CUptiResult (*register_callbacks)(
		CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
	CUptiResult (*enable)(CUpti_ActivityKind);
	CUptiResult (*disable)(CUpti_ActivityKind);
	CUptiResult (*flush_all)(uint32_t);
	CUptiResult (*next_record)(uint8_t *, size_t, CUpti_Activity **);
	CUptiResult (*dropped)(CUcontext, uint32_t, size_t *);
	CUptiResult (*timestamp)(uint64_t *);
	CUptiResult (*node_id)(CUgraphNode, uint64_t *);
	CUptiResult (*result_text)(CUptiResult, const char **);
};

struct buffer {
	struct buffer *next;
	bool is_out; /* with CUPTI */
	size_t valid_bytes;
	uint8_t *bytes; /* (BUFFER_BYTES) */
};

/* What CUPTI's own thread and ours share. */
struct buffers {
	pthread_mutex_t mutex;
	struct buffer all[BUFFERS_MAX];
	struct buffer *free;
	struct buffer *full, *last_full; /* in order of completion */
	uint64_t dropped;
	const struct cupti *api;
};

/* The calls from `correlation` up to the next launch's were made in this site, for this step. */
struct launch {
	uint64_t step;
	uint32_t correlation;
	uint32_t site;
	uint32_t rows;
	uint32_t call;
};

struct node {
	uint64_t id; /* 0: no node */
	uint32_t site;
	uint32_t rows;
	uint32_t call;
};

struct site {
	bool is_taken;
	uint32_t depth;
	struct range ranges[RANGE_DEPTH_MAX]; /* rows left out */
	char path[PATH_BYTES];
};

struct name {
	const char *theirs; /* CUPTI's pointer; NULL: free */
	char *ours;
};

struct kernel_trace {
	struct cupti api;
	CUpti_SubscriberHandle subscriber; /* NULL: none */
	struct range_stack stack;
	struct buffers buffers;

	struct launch *launches; /* (LAUNCHES_MAX) ring, by rising correlation */
	uint64_t launch_count;	 /* ever noted */
	struct node *nodes;	 /* (node_capacity) open addressing */
	size_t node_capacity, node_count;
	struct site *sites; /* (SITES_MAX) open addressing */
	uint32_t site_count;
	struct name *names; /* (NAMES_MAX) open addressing */
	uint32_t name_count;

	struct buffer *reading; /* NULL: none */
	CUpti_Activity *position;
	uint64_t lost;
};

/* CUPTI hands its buffer callbacks nothing of ours, so they find the buffers here. */
static struct buffers *cupti_buffers;

/* ---- the library ---- */

static void *find(const struct cupti *api, const char *name, bool *has_all)
{
	void *symbol = dlsym(api->library, name);

	*has_all = *has_all && symbol != NULL;
	return symbol;
}

/* ISO C knows no conversion of dlsym's answer to a function. */
#define FIND(field, name)                                                                          \
	do {                                                                                       \
		void *symbol = find(api, name, &has_all);                                          \
		memcpy(&api->field, &symbol, sizeof(symbol));                                      \
	} while (0)

static enum status load(struct cupti *api, struct error *error)
{
	char file[32];
	bool has_all = true;

	snprintf(file, sizeof(file), "libcupti.so.%d", CUDART_VERSION / 1000);
	api->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (api->library == NULL) {
		return error_set(error, STATUS_DEVICE,
			"kernel times need CUPTI, and %s cannot be loaded: it is part of the CUDA "
			"toolkit, mostly in extras/CUPTI/lib64",
			file);
	}
	FIND(subscribe, "cuptiSubscribe");
	FIND(unsubscribe, "cuptiUnsubscribe");
	FIND(enable_callback, "cuptiEnableCallback");
	FIND(register_callbacks, "cuptiActivityRegisterCallbacks");
	FIND(enable, "cuptiActivityEnable");
	FIND(disable, "cuptiActivityDisable");
	FIND(flush_all, "cuptiActivityFlushAll");
	FIND(next_record, "cuptiActivityGetNextRecord");
	FIND(dropped, "cuptiActivityGetNumDroppedRecords");
	FIND(timestamp, "cuptiGetTimestamp");
	FIND(node_id, "cuptiGetGraphNodeId");
	FIND(result_text, "cuptiGetResultString");
	return has_all ? STATUS_OK
		       : error_set(error, STATUS_DEVICE,
				 "kernel times need CUPTI, and %s lacks a function: it belongs to "
				 "another version of CUDA",
				 file);
}

static enum status cupti_status(
	const struct cupti *api, CUptiResult result, const char *call, struct error *error)
{
	const char *text = NULL;

	if (result == CUPTI_SUCCESS) {
		return STATUS_OK;
	}
	api->result_text(result, &text);
	return error_set(error, STATUS_DEVICE, "kernel times: %s: %s", call,
		text == NULL ? "an unknown error" : text);
}

/* ---- buffers ---- */

static void CUPTIAPI on_buffer_wanted(uint8_t **bytes, size_t *size, size_t *record_count)
{
	struct buffers *buffers = cupti_buffers;

	*bytes = NULL;
	*size = 0;
	*record_count = 0; /* as many as fit */
	if (buffers == NULL) {
		return;
	}
	pthread_mutex_lock(&buffers->mutex);
	struct buffer *buffer = buffers->free;
	if (buffer != NULL) {
		buffers->free = buffer->next;
		if (buffer->bytes == NULL) {
			buffer->bytes = memory_take(BUFFER_BYTES, 1);
		}
		buffer->is_out = true;
		*bytes = buffer->bytes;
		*size = BUFFER_BYTES;
	}
	pthread_mutex_unlock(&buffers->mutex);
}

static void CUPTIAPI on_buffer_full(
	CUcontext context, uint32_t stream, uint8_t *bytes, size_t size, size_t valid_bytes)
{
	struct buffers *buffers = cupti_buffers;
	size_t dropped = 0;
	uint32_t i = 0;

	(void)size;
	if (buffers == NULL) {
		return;
	}
	if (buffers->api->dropped(context, stream, &dropped) != CUPTI_SUCCESS) {
		dropped = 0;
	}
	pthread_mutex_lock(&buffers->mutex);
	while (buffers->all[i].bytes != bytes) {
		i++;
		check(i < BUFFERS_MAX);
	}
	struct buffer *buffer = &buffers->all[i];
	buffer->next = NULL;
	buffer->is_out = false;
	buffer->valid_bytes = valid_bytes;
	if (buffers->last_full == NULL) {
		buffers->full = buffer;
	} else {
		buffers->last_full->next = buffer;
	}
	buffers->last_full = buffer;
	buffers->dropped += dropped;
	pthread_mutex_unlock(&buffers->mutex);
}

static struct buffer *take_full(struct buffers *buffers)
{
	pthread_mutex_lock(&buffers->mutex);
	struct buffer *buffer = buffers->full;
	if (buffer != NULL) {
		buffers->full = buffer->next;
		buffers->last_full = buffers->full == NULL ? NULL : buffers->last_full;
	}
	pthread_mutex_unlock(&buffers->mutex);
	return buffer;
}

static void give_back(struct buffers *buffers, struct buffer *buffer)
{
	pthread_mutex_lock(&buffers->mutex);
	buffer->next = buffers->free;
	buffers->free = buffer;
	pthread_mutex_unlock(&buffers->mutex);
}

/* ---- where a launch belongs ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static bool is_site(const struct site *site, const struct range_stack *stack, uint32_t depth)
{
	bool is_equal = site->depth == depth;

	for (uint32_t i = 0; i < depth && is_equal; i++) {
		is_equal = site->ranges[i].name == stack->open[i].name &&
			   site->ranges[i].layer == stack->open[i].layer;
	}
	return is_equal;
}

static void fill_site(struct site *site, const struct range_stack *stack, uint32_t depth)
{
	size_t used = 0;

	site->is_taken = true;
	site->depth = depth;
	for (uint32_t i = 0; i < depth && used < PATH_BYTES; i++) {
		site->ranges[i] = stack->open[i];
		used += (size_t)snprintf(site->path + used, PATH_BYTES - used, "%s%s",
			i == 0 ? "" : "/", stack->open[i].name);
	}
}

/* The site of the ranges open now; KERNEL_NO_SITE once the table is full. */
static uint32_t site_now(struct kernel_trace *trace)
{
	const struct range_stack *stack = &trace->stack;
	uint32_t depth = u32_min(stack->depth, RANGE_DEPTH_MAX);
	uint64_t hash = depth;

	for (uint32_t i = 0; i < depth; i++) {
		hash = mix(hash, (uintptr_t)stack->open[i].name);
		hash = mix(hash, stack->open[i].layer);
	}
	for (uint32_t i = (uint32_t)hash & (SITES_MAX - 1);; i = (i + 1) & (SITES_MAX - 1)) {
		struct site *site = &trace->sites[i];
		if (site->is_taken && is_site(site, stack, depth)) {
			return i;
		}
		if (!site->is_taken) {
			if (trace->site_count == SITES_MAX / 2) {
				return KERNEL_NO_SITE;
			}
			trace->site_count++;
			fill_site(site, stack, depth);
			return i;
		}
	}
}

/* The innermost range, NULL: none is open. */
static const struct range *range_now(const struct kernel_trace *trace)
{
	uint32_t depth = u32_min(trace->stack.depth, RANGE_DEPTH_MAX);

	return depth == 0 ? NULL : &trace->stack.open[depth - 1];
}

static void note_launch(struct kernel_trace *trace, uint32_t correlation)
{
	const struct range *range = range_now(trace);
	const struct launch launch = {
		.step = trace->stack.step,
		.correlation = correlation,
		.site = site_now(trace),
		.rows = range == NULL ? 0 : range->rows,
		.call = range == NULL ? 0 : range->serial,
	};
	const struct launch *last =
		&trace->launches[(trace->launch_count - 1) & (LAUNCHES_MAX - 1)];

	if (trace->launch_count == 0 || last->site != launch.site || last->step != launch.step ||
		last->call != launch.call) {
		trace->launches[trace->launch_count++ & (LAUNCHES_MAX - 1)] = launch;
	}
}

/* The last launch that is not after the call; NULL: it is not kept any more. */
static const struct launch *find_launch(const struct kernel_trace *trace, uint32_t correlation)
{
	uint64_t end = trace->launch_count;
	uint64_t low = end > LAUNCHES_MAX ? end - LAUNCHES_MAX : 0;
	uint64_t first = low, high = end;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (trace->launches[middle & (LAUNCHES_MAX - 1)].correlation <= correlation) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low == first ? NULL : &trace->launches[(low - 1) & (LAUNCHES_MAX - 1)];
}

/* The node's place, or the free one where it belongs. */
static struct node *node_place(struct node *nodes, size_t capacity, uint64_t id)
{
	size_t i = mix(0, id) & (capacity - 1);

	while (nodes[i].id != 0 && nodes[i].id != id) {
		i = (i + 1) & (capacity - 1);
	}
	return &nodes[i];
}

/* The node, added if it is new. Nodes are made by captures only, so their number is bounded by that
   of the graphs. */
static struct node *node_at(struct kernel_trace *trace, uint64_t id)
{
	struct node *node = node_place(trace->nodes, trace->node_capacity, id);

	if (node->id == id) {
		return node;
	}
	if (2 * (trace->node_count + 1) > trace->node_capacity) {
		size_t capacity = 2 * trace->node_capacity;
		struct node *grown = memory_take(capacity, sizeof(*grown));
		for (size_t i = 0; i < trace->node_capacity; i++) {
			if (trace->nodes[i].id != 0) {
				*node_place(grown, capacity, trace->nodes[i].id) = trace->nodes[i];
			}
		}
		free(trace->nodes);
		trace->nodes = grown;
		trace->node_capacity = capacity;
		node = node_place(grown, capacity, id);
	}
	trace->node_count++;
	*node = (struct node){.id = id, .site = KERNEL_NO_SITE};
	return node;
}

static void on_graph(struct kernel_trace *trace, CUpti_CallbackId id, const CUpti_GraphData *graph)
{
	uint64_t node_id = 0, original_id = 0;

	if (trace->api.node_id(graph->node, &node_id) != CUPTI_SUCCESS || node_id == 0) {
		return;
	}
	if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
		struct node *node = node_at(trace, node_id);
		const struct range *range = range_now(trace);
		if (node->site == KERNEL_NO_SITE && range != NULL) {
			node->site = site_now(trace);
			node->rows = range->rows;
			node->call = range->serial;
		}
		return;
	}
	/* What is launched is a clone of what was captured. */
	if (trace->api.node_id(graph->originalNode, &original_id) == CUPTI_SUCCESS) {
		const struct node *original =
			node_place(trace->nodes, trace->node_capacity, original_id);
		if (original->id == original_id) {
			struct node copy = *original;
			copy.id = node_id;
			*node_at(trace, node_id) = copy;
		}
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
		note_launch(trace, call->correlationId);
	}
}

/* ---- records ---- */

/* A copy of CUPTI's name: the same pointer for the same name. */
static const char *name_of(struct kernel_trace *trace, const char *theirs)
{
	if (theirs == NULL) {
		return "";
	}
	uint32_t i = (uint32_t)mix(0, (uintptr_t)theirs) & (NAMES_MAX - 1);
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

/* Fills in where the record belongs; false: nobody knows any more. */
static bool place(struct kernel_trace *trace, struct kernel_record *record, uint32_t correlation,
	uint64_t node_id)
{
	const struct launch *launch = find_launch(trace, correlation);

	if (launch == NULL || record->end_ns == 0) {
		trace->lost++;
		return false;
	}
	record->step = launch->step;
	record->launch_site = launch->site;
	record->graph_site = KERNEL_NO_SITE;
	record->rows = launch->rows;
	record->call = launch->call;
	if (node_id != 0) {
		const struct node *node = node_place(trace->nodes, trace->node_capacity, node_id);
		record->rows = 0;
		if (node->id == node_id) {
			record->graph_site = node->site;
			record->rows = node->rows;
			record->call = node->call;
		}
	}
	return true;
}

/* False: the activity is none that is wanted. */
static bool convert(
	struct kernel_trace *trace, const CUpti_Activity *activity, struct kernel_record *out)
{
	memset(out, 0, sizeof(*out));
	if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
		const CUpti_ActivityKernel10 *kernel = (const void *)activity;
		out->start_ns = kernel->start;
		out->end_ns = kernel->end;
		out->name = name_of(trace, kernel->name);
		return place(trace, out, kernel->correlationId, kernel->graphNodeId);
	}
	if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
		const CUpti_ActivityMemcpy6 *copy = (const void *)activity;
		out->start_ns = copy->start;
		out->end_ns = copy->end;
		out->bytes = copy->bytes;
		out->name = copy_name(copy->copyKind);
		return place(trace, out, copy->correlationId, copy->graphNodeId);
	}
	if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
		const CUpti_ActivityMemset4 *fill = (const void *)activity;
		out->start_ns = fill->start;
		out->end_ns = fill->end;
		out->bytes = fill->bytes;
		out->name = "fill";
		return place(trace, out, fill->correlationId, fill->graphNodeId);
	}
	return false;
}

static size_t trace_take(void *state, struct kernel_record *records, size_t capacity)
{
	struct kernel_trace *trace = state;
	size_t count = 0;

	while (count < capacity) {
		if (trace->reading == NULL) {
			trace->reading = take_full(&trace->buffers);
			trace->position = NULL;
			if (trace->reading == NULL) {
				break;
			}
		}
		struct buffer *buffer = trace->reading;
		if (buffer->valid_bytes > 0 &&
			trace->api.next_record(buffer->bytes, buffer->valid_bytes,
				&trace->position) == CUPTI_SUCCESS) {
			count += convert(trace, trace->position, &records[count]);
		} else {
			give_back(&trace->buffers, buffer);
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
	struct kernel_site out = {.path = "", .operation = "", .layer = RANGE_NO_LAYER};

	if (index == KERNEL_NO_SITE) {
		return out;
	}
	const struct site *site = &trace->sites[index];
	out.path = site->path;
	for (uint32_t i = 0; i < site->depth; i++) {
		out.operation = site->ranges[i].name;
		if (site->ranges[i].layer != RANGE_NO_LAYER) {
			out.layer = site->ranges[i].layer;
		}
	}
	return out;
}

static uint64_t trace_lost(void *state)
{
	struct kernel_trace *trace = state;

	pthread_mutex_lock(&trace->buffers.mutex);
	uint64_t dropped = trace->buffers.dropped;
	pthread_mutex_unlock(&trace->buffers.mutex);
	return trace->lost + dropped;
}

/* ---- opening ---- */

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
	CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

/* The library stays loaded: its thread may be at work until the program ends. */
static void trace_close(void *state)
{
	struct kernel_trace *trace = state;

	for (uint32_t i = 0; i < KIND_COUNT && cupti_buffers != NULL; i++) {
		trace->api.disable(kinds[i]);
	}
	if (cupti_buffers != NULL) {
		trace->api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	}
	if (trace->subscriber != NULL) {
		trace->api.unsubscribe(trace->subscriber);
	}
	cupti_buffers = NULL;
	for (uint32_t i = 0; i < BUFFERS_MAX; i++) {
		if (!trace->buffers.all[i].is_out) {
			free(trace->buffers.all[i].bytes);
		}
	}
	for (uint32_t i = 0; i < NAMES_MAX; i++) {
		free(trace->names[i].ours);
	}
	pthread_mutex_destroy(&trace->buffers.mutex);
	free(trace->launches);
	free(trace->nodes);
	free(trace->sites);
	free(trace->names);
	free(trace);
}

/* Whatever launches work, and the making of graph nodes. */
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

static enum status start(struct kernel_trace *trace, struct error *error)
{
	const struct cupti *api = &trace->api;

	int device_count;
	CUptiResult result = api->subscribe(&trace->subscriber, on_callback, trace);
	int code = result == CUPTI_SUCCESS ? 0 : (int)cudaGetDeviceCount(&device_count);
	if (code != 0) {
		/* That is why, and CUPTI does not know. */
		trace->subscriber = NULL;
		return cuda_status(code, "cudaGetDeviceCount", error);
	}
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
		trace->subscriber = NULL;
		return error_set(error, STATUS_DEVICE,
			"kernel times: another profiler watches this program already, and CUPTI "
			"serves one");
	}
	enum status status = cupti_status(api, result, "cuptiSubscribe", error);
	if (status == STATUS_OK) {
		status = cupti_status(api, enable_callbacks(trace), "cuptiEnableCallback", error);
	} else {
		trace->subscriber = NULL;
	}
	if (status == STATUS_OK) {
		cupti_buffers = &trace->buffers;
		status =
			cupti_status(api, api->register_callbacks(on_buffer_wanted, on_buffer_full),
				"cuptiActivityRegisterCallbacks", error);
	}
	for (uint32_t i = 0; i < KIND_COUNT && status == STATUS_OK; i++) {
		status = cupti_status(api, api->enable(kinds[i]), "cuptiActivityEnable", error);
	}
	return status;
}

enum status cuda_kernel_trace_open(
	struct kernel_source *out, struct range_stack **stack, struct error *error)
{
	struct cupti api = {0};
	enum status status = load(&api, error);

	if (status != STATUS_OK) {
		return status;
	}
	check(cupti_buffers == NULL);
	struct kernel_trace *trace = memory_take(1, sizeof(*trace));
	trace->api = api;
	trace->stack.step = RANGE_NO_STEP;
	trace->launches = memory_take(LAUNCHES_MAX, sizeof(*trace->launches));
	trace->node_capacity = 1 << 12;
	trace->nodes = memory_take(trace->node_capacity, sizeof(*trace->nodes));
	trace->sites = memory_take(SITES_MAX, sizeof(*trace->sites));
	trace->names = memory_take(NAMES_MAX, sizeof(*trace->names));
	trace->buffers.api = &trace->api;
	for (uint32_t i = 0; i < BUFFERS_MAX; i++) {
		trace->buffers.all[i].next = trace->buffers.free;
		trace->buffers.free = &trace->buffers.all[i];
	}
	check(pthread_mutex_init(&trace->buffers.mutex, NULL) == 0);
	status = start(trace, error);
	if (status != STATUS_OK) {
		trace_close(trace);
		return status;
	}
	*stack = &trace->stack;
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

#else

enum status cuda_kernel_trace_open(
	struct kernel_source *out, struct range_stack **stack, struct error *error)
{
	(void)out;
	(void)stack;
	return error_set(error, STATUS_DEVICE,
		"kernel times need CUPTI, whose headers were not there when this was built");
}

#endif
