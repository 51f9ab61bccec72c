#ifndef REPORTS_FIGURES_FIGURES_H
#define REPORTS_FIGURES_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/text.h"

/* Which results a figure can be drawn of. */
enum figure_need {
	FIGURE_OF_ALL,
	FIGURE_OF_HITS,	    /* of all, if the trace of one says which prompts share tokens */
	FIGURE_OF_KERNELS,  /* whose kernels were measured */
	FIGURE_OF_REQUESTS, /* whose folders have the table of requests */
	FIGURE_OF_FLEETS,   /* of several replicas */
};

/* The figures of a report, in the order of the page. A new one is a script beside this file, with a
   comment on what it draws, and a row in figures.c. */
struct figure {
	const char *name;   /* prefix of its SVG ids */
	const char *script; /* among the embedded files */
	const char *metric; /* for latency.gp; NULL: the script draws one thing only */
	const char *title;
	const char *reading; /* a sentence on how to read it */
	bool has_own_legend; /* a panel for each result, named in the drawing */
	bool has_linear;     /* a second drawing, with is_linear set, has linear axes */
	enum figure_need need;
};

enum { FIGURES_MAX = 32 };

/* A figure as its script drew it. */
struct figure_drawing {
	struct text svg; /* empty: no result has what the figure shows */
	struct text notes;
};

enum figure_view { VIEW_MAIN, VIEW_LINEAR, VIEW_COUNT };

extern const struct figure figures[]; /* (figure_count) */
extern const uint32_t figure_count;   /* <= FIGURES_MAX */

#endif
