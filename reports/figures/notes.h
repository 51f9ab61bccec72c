#ifndef REPORTS_FIGURES_NOTES_H
#define REPORTS_FIGURES_NOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/text.h"

/* What a figure's script says beside its drawing: lines `note KIND TEXT` among what it prints, by
   note() of style.gp. Other lines are warnings of gnuplot, and skipped.

       describe   a sentence of the figure's data, for those who cannot see it
       panel      JSON: where a panel lies in the drawing and which values its edges have
       cells      JSON: the values of the fields of a heat map, in the order of its polygons
       empty      there is nothing to draw, and why
       title      of a figure that stands alone */

/* Appends the text of the index-th note of a kind; false: there is none. */
bool notes_find(const struct text *notes, const char *kind, uint32_t index, struct text *out);

#endif
