#ifndef ENGINE_TOKENIZER_TOKENIZER_SPLIT_H
#define ENGINE_TOKENIZER_TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/status.h"

/* Cuts text into words by a tokenizer's regular expression: each match is a word, and so is what
   lies between two.

   The expressions are written for Oniguruma and matched by PCRE2 with Unicode properties. Only
   syntax with the same meaning in both is accepted:

       literals, \r \n \t \f \v and escaped punctuation; \s \S \d \D; \p{L} and the other general
       categories of one or two letters, \P{L}; classes of these and of ranges, [^ ] too; groups
       (?: ) ( ) (?i: ), lookaheads (?= ) (?! ); | ? * + {n} {n,} {n,m}, lazy and possessive forms
       of ? * +

   and anything else is refused with its position. \s is Unicode's White_Space, as in Oniguruma.
   Characters newer than Unicode 14 (PCRE2 10.42) may be classified differently. */

struct splitter;

/* `pattern` is zero-terminated. An error describes what was found; the caller adds the field. */
enum status splitter_open(struct splitter **out, const char *pattern, struct error *error);

/* Accepts NULL. */
void splitter_close(struct splitter *splitter);

/* The progress of cutting a text. */
struct split {
	const struct splitter *splitter; /* borrowed */
	const char *text;		 /* (byte_count) valid UTF-8, borrowed */
	size_t byte_count;
	size_t position;	       /* end of the latest word */
	size_t from;		       /* where the next match is searched for */
	size_t match_begin, match_end; /* found but not returned yet */
	size_t last_end;	       /* of the latest match */
	bool has_match;
	bool has_last;
	struct pcre2_real_match_data_8 *match_data;
};

void split_start(
	struct split *split, const struct splitter *splitter, const char *text, size_t byte_count);

/* The next word, never empty; at the end *word is NULL. An expression that backtracks beyond
   PCRE2's limits is an error. */
enum status split_next(
	struct split *split, const char **word, size_t *byte_count, struct error *error);

void split_end(struct split *split);

#endif
