#ifndef ENGINE_MODEL_CONFIG_JSON_H
#define ENGINE_MODEL_CONFIG_JSON_H

#include <stddef.h>

#include <stdio.h>

#include "engine/base/status.h"
#include "engine/shape/model_config.h"

/* A model's configuration from a config.json in the Hugging Face form, and back. A file that needs
   an unsupported feature (rope scaling, sliding windows, experts, another activation or
   architecture) is refused with the name of the field.

   A Llama is read too, with any rope scaling, but can only be priced: its matrices are those of a
   Qwen3 of its sizes, and prices do not know that it has no norms of queries and keys. */

/* A built-in name, a folder with a config.json, or a path that ends in ".json". An unknown name is
   refused with the list of names. A generation_config.json in the folder overrides the tokens that
   end a text, if it has any. */
enum status model_config_find(
	const char *name_or_path, struct model_config *out, struct error *error);

/* Whether a name is a built-in model rather than a path: Qwen/Qwen3-8B is a folder if there is
   one. */
enum status model_config_find_builtin(
	const char *name_or_path, struct model_config *out, bool *is_builtin, struct error *error);

/* Parses the text of a config.json. `path` is used in errors and for the model's name. */
enum status model_config_parse(struct model_config *out, const char *path, const char *text,
	size_t byte_count, struct error *error);

/* Refuses a model that can only be priced. */
enum status model_config_check_computed(const struct model_config *config, struct error *error);

/* Writes a config.json. model_config_find() reads the same configuration from it, except the name,
   and with dtype bfloat16. A failed write is reported when the file is closed. */
void model_config_write(const struct model_config *config, FILE *file);

#endif
