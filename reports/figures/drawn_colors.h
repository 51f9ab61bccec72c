#ifndef REPORTS_FIGURES_DRAWN_COLORS_H
#define REPORTS_FIGURES_DRAWN_COLORS_H

#include <stdint.h>

/* The colours that figures are drawn in, read from style.gp, where they stand:

       palette_run[1] = 0x0072b2      run-1
       text_color = "#1f2933"         text

   A page calls them by these names and has others when it is dark. */

enum { DRAWN_COLORS_MAX = 16, DRAWN_COLOR_NAME_BYTES = 16 };

struct drawn_color {
	char name[DRAWN_COLOR_NAME_BYTES];
	uint32_t rgb; /* 0xrrggbb */
};

/* colors: (DRAWN_COLORS_MAX); returns their number. */
uint32_t drawn_colors(struct drawn_color *colors);

#endif
