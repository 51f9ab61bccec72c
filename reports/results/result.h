#ifndef REPORTS_RESULTS_RESULT_H
#define REPORTS_RESULTS_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "engine/base/status.h"
#include "engine/base/text.h"
#include "reports/results/metric.h"
#include "reports/results/results.h"

/* A result folder as the report reads it: summary.json, provenance.json if it exists, and the
   tables, checked for use in figures. */

/* Texts are owned by the documents. */
struct result {
	const char *directory; /* borrowed */
	struct text label;     /* the end of its folder's path */
	struct text legend;    /* what the page calls it (page_name_runs()) */
	struct json_document summary;
	struct json_document provenance; /* not open when the folder has none */
	struct json_object root;
	struct json_object config;
	enum runner_kind runner_kind; /* RUNNER_KIND_COUNT: unknown */
	const char *status;	      /* complete, interrupted or failed */
	const char *failure;	      /* "" unless failed */
	const char *verdict;	      /* a name of VERDICT_LIST */
	const char *trace_name;
	const char *trace_xxh64;
	const char *result_hash;
	bool is_calibrated;
	const char *profile_note; /* "": none */
	bool is_beyond_memory;	  /* it has more KV blocks than the GPU that is priced */
	bool has_kernels;	  /* its kernels were measured */
	bool has_requests;	  /* the folder has requests.tsv */
	struct result_value numbers[RESULT_NUMBER_COUNT];
	struct result_value latency_ms[LATENCY_COUNT][STATISTIC_COUNT];
};

/* Opens the summary.json of a folder that must be a result. */
enum status result_summary_open(
	struct json_document *summary, const char *directory, struct error *error);

/* Reads and checks everything that the page and its figures use. To be closed after a failure too.
 */
enum status result_open(struct result *result, const char *directory, struct error *error);
void result_close(struct result *result);

/* Labels results with the shortest ends of their folders' paths that differ. */
void results_label(struct result *results, uint32_t count);

#endif
