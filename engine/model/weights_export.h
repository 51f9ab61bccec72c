#ifndef ENGINE_MODEL_WEIGHTS_EXPORT_H
#define ENGINE_MODEL_WEIGHTS_EXPORT_H

#include "engine/base/status.h"
#include "engine/model/weights.h"

/* Writes the weights as one bf16 model.safetensors and the configuration as config.json into a
   folder that exists, under the names that Hugging Face gives them, so that other programs run the
   same model. A file that is there already is refused. */
enum status weights_export(const struct weights *weights, const char *folder, struct error *error);

#endif
