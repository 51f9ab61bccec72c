#ifndef ENGINE_PROFILING_CUPTI_API_H
#define ENGINE_PROFILING_CUPTI_API_H

#include <cupti.h>

#include "engine/base/status.h"

/* CUPTI, loaded at run time, so that the program runs without it unless kernel times are wanted. */

struct cupti_api {
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

/* The library stays loaded until the program ends, since its thread may still run. */
enum status cupti_api_load(struct cupti_api *api, struct error *error);

/* Converts the result of a CUPTI call to a status; the error names the call. */
enum status cupti_api_status(
	const struct cupti_api *api, CUptiResult result, const char *call, struct error *error);

#endif
