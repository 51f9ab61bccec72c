#ifndef REPORTS_FIGURES_GNUPLOT_H
#define REPORTS_FIGURES_GNUPLOT_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "engine/base/status.h"
#include "engine/base/text.h"

/* A gnuplot process that draws one figure. It is started without a shell, reads its script from
   standard input, and ignores the user's settings and environment, so the same script and files
   give the same figure. Several may run at once: start them all, then finish each. */

enum { GNUPLOT_ARGUMENTS_MAX = 8 };

/* To be zeroed before gnuplot_start(). */
struct gnuplot {
	pid_t process; /* 0: not running */
	FILE *script;
	FILE *output;
	FILE *errors;
};

/* arguments: (count), count <= GNUPLOT_ARGUMENTS_MAX; the script finds them as ARG2, ARG3, ...;
   ARG1 is the file to write to. */
enum status gnuplot_start(struct gnuplot *gnuplot, const struct text *script,
	const char *const *arguments, uint32_t count, struct error *error);

/* Waits for the process, appends the drawing to `output` and what the script printed to `notes`
   (notes.h). An error carries gnuplot's own message. To be called after every start, failed or not;
   STATUS_OK if no process runs. */
enum status gnuplot_finish(
	struct gnuplot *gnuplot, struct text *output, struct text *notes, struct error *error);

#endif
