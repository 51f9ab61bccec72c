#ifndef TESTS_HARNESS_MADE_RESULT_H
#define TESTS_HARNESS_MADE_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/text.h"

/* Result folders that a test makes up, and the pages that are written of them. */

struct made_result {
	uint32_t bins;
	uint32_t rows_octaves, tokens_octaves; /* of the step grid, four cells to an octave */
	uint32_t latency_buckets;	       /* of each metric; 0: percentiles are null */
	uint32_t operations;		       /* of kernels; 0: they were not measured */
	uint32_t kernel_bins;
	uint64_t kv_blocks;
	uint32_t ranks;	   /* 0: the configuration lacks them */
	uint32_t replicas; /* of a fleet; 0: it is none */
	const char *status;
	const char *failure; /* NULL: device lost */
	const char *verdict;
	const char *trace_name;
	bool is_calibrated;
	const char *runner; /* NULL: sim */
	const char *device; /* that computed; NULL: none, the profile h200 did */
	const char *trace_hash;
	uint64_t found_kv_blocks; /* 0: null */
	uint64_t seed;
	double ttft_p99_ms; /* 0: 2240 */
	double slo_e2e_ms;  /* 0: there is no SLO */
	const char *steps;  /* steps.tsv; NULL: there is none */
};

extern const struct made_result made_ordinary;

/* Makes FOLDER/NAME, a result folder. Its path is written to `path` (TEMPORARY_PATH_BYTES). */
void make_result(const char *folder, const char *name, const struct made_result *made, char *path);

/* latency.tsv with as many buckets for each metric, of relative width 2^-10 from 1 us on. */
void made_latency(struct text *out, uint32_t buckets);

void made_summary(struct text *out, const struct made_result *made);

/* Writes FOLDER/NAME and frees the text. */
void made_write(const char *folder, const char *name, struct text *text);

/* Writes FOLDER/NAME, the page of some result folders. Returns its text, owned by the caller. */
char *make_page(
	const char *folder, const char *const *directories, uint32_t count, const char *name);

/* Makes FOLDER/run and the page of it. */
char *make_page_of(const char *folder, const struct made_result *made);

void require_has(const char *page, const char *text);
void require_lacks(const char *page, const char *text);
uint32_t occurrences(const char *page, const char *text);

/* Demands that no id is there twice, and that each id that is referred to is there. */
void require_sound_ids(const char *page);

/* Demands a page that loads nothing and runs nothing. */
void require_self_contained(const char *page);

#endif
