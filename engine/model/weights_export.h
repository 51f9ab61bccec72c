#ifndef ENGINE_MODEL_WEIGHTS_EXPORT_H
#define ENGINE_MODEL_WEIGHTS_EXPORT_H

#include "engine/base/status.h"
#include "engine/model/weights.h"

/* Writes the weights as one bf16 model.safetensors and the configuration as config.json into a
   folder that exists, with the names of Hugging Face, so that other programs can run the same
   model. An existing file is not overwritten but an error. */
enum status weights_export(const struct weights *weights, const char *folder, struct error *error);

#endif
