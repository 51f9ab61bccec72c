#ifndef ENGINE_TOKENIZER_TOKENIZER_H
#define ENGINE_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/tokenizer/tokenizer_bpe.h"
#include "engine/tokenizer/tokenizer_utf8.h"

/* Text to token ids and back, by a tokenizer.json of Qwen's kind. Gives the same ids as the
   `tokenizers` package:

       text ─► added tokens ─► NFC ─► words by a regular ─► byte pair ─► ids
	       cut out, as                 expression         encoding
	       they stand

   It must describe a byte-level BPE: every byte is a token, a Split by an expression (see
   tokenizer_split.h) in front of a ByteLevel, NFC or no normalizer, a ByteLevel decoder, and a
   post-processor that adds nothing. Anything else in the file is refused with the name of the
   field. Added tokens, special ones included, are recognised anywhere in a text. A caller that must
   not accept special tokens from a text has to search for them first.

   Invalid UTF-8 in a text is encoded as U+FFFD (see tokenizer_utf8.h).

   The Unicode tables are those of the libraries, and may differ from the package's for newer
   characters. \p{..} of PCRE2 10.42 has Unicode 14. NFC of utf8proc 2.8 reorders combining marks
   that the package's tables (Unicode 9) lack.

   A tokenizer is immutable once it is open, so several threads may use it. Limits: a file of 16
   MiB, ids below 2^24, texts below 2^29 bytes. */

struct tokenizer;

/* Opens FOLDER/tokenizer.json. */
enum status tokenizer_open(struct tokenizer **out, const char *folder, struct error *error);

/* Parses the text of such a file; `name` is used in errors. */
enum status tokenizer_parse(struct tokenizer **out, const char *name, const char *text,
	size_t byte_count, struct error *error);

/* Accepts NULL. */
void tokenizer_close(struct tokenizer *tokenizer);

/* Ids are below this limit. A model's vocabulary may be larger; ids beyond the limit decode to
   nothing. */
uint32_t tokenizer_id_limit(const struct tokenizer *tokenizer);

/* The id of an added token by its text, such as "<|im_end|>", or -1. */
int32_t tokenizer_find_added(const struct tokenizer *tokenizer, const char *content);

/* Appends the tokens of a text to `out`. Fails only when a text exceeds the regular expression
   matcher's limits, or is too long. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t byte_count,
	struct token_list *out, struct error *error);

/* Appends a token's text. Bytes of an incomplete character are kept in `stream` until it is
   complete. Unknown ids, and special tokens that are skipped, add nothing. Call utf8_end() at the
   end of the text. */
void tokenizer_decode(const struct tokenizer *tokenizer, int32_t id, bool skips_special,
	struct utf8_stream *stream, struct text *out);

#endif
