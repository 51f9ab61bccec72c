#ifndef ENGINE_MODEL_CONFIG_JSON_H
#define ENGINE_MODEL_CONFIG_JSON_H

#include <stddef.h>

#include "engine/base/status.h"
#include "engine/shape/model_config.h"

/* A model's configuration from a config.json in the Hugging Face form, and back. A file that asks
   for something this engine does not compute (rope scaling, sliding windows, experts, another
   activation or architecture) is refused by the name of the field. */

/* A built-in name, a folder with a config.json, or a path that ends in ".json". An unknown name is
   refused with the list of names. A generation_config.json beside a folder's config.json decides on
   the tokens that end a text, when it names some. */
enum status model_config_find(
	const char *name_or_path, struct model_config *out, struct error *error);

/* The text of a config.json; `path` is what errors call it and where the name comes from. */
enum status model_config_parse(struct model_config *out, const char *path, const char *text,
	size_t byte_count, struct error *error);

/* Writes FOLDER/config.json, from which model_config_find() reads the same again, but for the name
   and for the dtype, which is bfloat16. A file that is there already is refused. */
enum status model_config_write(
	const struct model_config *config, const char *folder, struct error *error);

#endif
