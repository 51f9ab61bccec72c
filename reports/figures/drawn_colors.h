#ifndef REPORTS_FIGURES_DRAWN_COLORS_H
#define REPORTS_FIGURES_DRAWN_COLORS_H

#include <stdint.h>

/* The colours of the figures, read from style.gp, where they are defined as:

       palette_run[1] = 0x0072b2      run-1
       text_color = "#1f2933"         text

   A page has a CSS variable for each name, with another value in dark mode. */

enum { DRAWN_COLORS_MAX = 16, DRAWN_COLOR_NAME_BYTES = 16 };

struct drawn_color {
	char name[DRAWN_COLOR_NAME_BYTES];
	uint32_t rgb; /* 0xrrggbb */
};

/* colors: (DRAWN_COLORS_MAX); returns their number. */
uint32_t drawn_colors(struct drawn_color *colors);

#endif
