#ifndef TESTS_HARNESS_DRAWN_TEXTS_H
#define TESTS_HARNESS_DRAWN_TEXTS_H

/* Requires of each figure that gnuplot drew into a page, or of one that stands alone, that no text
   lies on another and that none is cut off at the sides. Widths are estimated, as the font is the
   reader's. */
void require_texts_apart(const char *page);

#endif
