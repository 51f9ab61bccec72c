#ifndef ENGINE_TOKENIZER_TOKENIZER_H
#define ENGINE_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/tokenizer/tokenizer_bpe.h"
#include "engine/tokenizer/tokenizer_utf8.h"

/* Text to token ids and back, by a tokenizer.json of Qwen's kind, with the results of the
   `tokenizers` package:

       text ─► added tokens ─► NFC ─► words by a regular ─► byte pair ─► ids
	       cut out, as                 expression         encoding
	       they stand

   It must describe a byte-level BPE: every byte is a token, a Split by an expression (see
   tokenizer_split.h) in front of a ByteLevel, NFC or no normalizer, a ByteLevel decoder, and a
   post-processor that adds nothing. Anything else in the file is refused by its name. Added tokens
   are found in a text wherever they stand, the special ones too: whoever must not let a text name
   special tokens has to look for them before.

   Invalid UTF-8 in a text is encoded as if each part of it (see tokenizer_utf8.h) were U+FFFD.

   Unicode's tables are those of the libraries, and may differ from the package's for characters
   younger than those: \p{..} of PCRE2 10.42 knows Unicode 14, and NFC of utf8proc 2.8 orders rows
   of combining marks that the package's tables, of Unicode 9, do not know.

   A tokenizer is only read once it is open, and may be used by several threads. Limits: a file of
   16 MiB, ids below 2^24, texts below 2^29 bytes. */

struct tokenizer;

/* Opens FOLDER/tokenizer.json. */
enum status tokenizer_open(struct tokenizer **out, const char *folder, struct error *error);

/* Reads the text of such a file; `name` is what errors call it. */
enum status tokenizer_parse(struct tokenizer **out, const char *name, const char *text,
	size_t byte_count, struct error *error);

/* Accepts NULL. */
void tokenizer_close(struct tokenizer *tokenizer);

/* Ids are below it; a model's vocabulary may be larger, and ids in between stand for nothing. */
uint32_t tokenizer_id_limit(const struct tokenizer *tokenizer);

/* The id of an added token by its text, as "<|im_end|>", or -1. */
int32_t tokenizer_find_added(const struct tokenizer *tokenizer, const char *content);

/* Is the id an added token that is marked as special? */
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);

/* Appends the tokens of a text to `out`. Fails only when a text drives the expression beyond the
   matcher's limits, or is too long. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t byte_count,
	struct token_list *out, struct error *error);

/* Appends what a token adds to the text; bytes of a character that is not complete yet are held
   back in `stream`. Special tokens add nothing when they are skipped, unknown ids never do. At the
   end of the text, utf8_end(). */
void tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, bool skips_special,
	struct utf8_stream *stream, struct text *out);

#endif
