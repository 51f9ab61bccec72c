#include "engine/profiling/cupti_api.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Stores a function's address; false: the library lacks it. ISO C has no conversion from dlsym's
   void pointer to a function pointer, so its bytes are copied. */
static bool find(const struct cupti_api *api, const char *name, void *function)
{
	void *symbol = dlsym(api->library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

enum status cupti_api_load(struct cupti_api *api, struct error *error)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
		{"cuptiSubscribe", &api->subscribe},
		{"cuptiUnsubscribe", &api->unsubscribe},
		{"cuptiEnableCallback", &api->enable_callback},
		{"cuptiActivityRegisterCallbacks", &api->register_callbacks},
		{"cuptiActivityEnable", &api->enable},
		{"cuptiActivityDisable", &api->disable},
		{"cuptiActivityFlushAll", &api->flush_all},
		{"cuptiActivityGetNextRecord", &api->next_record},
		{"cuptiActivityGetNumDroppedRecords", &api->dropped},
		{"cuptiGetTimestamp", &api->timestamp},
		{"cuptiGetGraphNodeId", &api->node_id},
		{"cuptiGetResultString", &api->result_text},
	};
	char file[32];

	snprintf(file, sizeof(file), "libcupti.so.%d", CUDART_VERSION / 1000);
	api->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (api->library == NULL) {
		return error_set(error, STATUS_DEVICE,
			"kernel times need CUPTI, and %s cannot be loaded: it is part of the CUDA "
			"toolkit, mostly in extras/CUPTI/lib64",
			file);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (!find(api, functions[i].name, functions[i].function)) {
			return error_set(error, STATUS_DEVICE,
				"kernel times need CUPTI, and %s lacks a function: it belongs to "
				"another version of CUDA",
				file);
		}
	}
	return STATUS_OK;
}

enum status cupti_api_status(
	const struct cupti_api *api, CUptiResult result, const char *call, struct error *error)
{
	const char *text = NULL;

	if (result == CUPTI_SUCCESS) {
		return STATUS_OK;
	}
	api->result_text(result, &text);
	return error_set(error, STATUS_DEVICE, "kernel times: %s: %s", call,
		text == NULL ? "an unknown error" : text);
}
