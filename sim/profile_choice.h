#ifndef SIM_PROFILE_CHOICE_H
#define SIM_PROFILE_CHOICE_H

#include "engine/base/status.h"
#include "sim/profile.h"

/* Which profile prices a run on a GPU.

       --gpu h200                 h200-MODEL, calibrated for this model and number of ranks, where
                                  it is built in; else h200-datasheet
       --gpu h200 --policy vllm   h200-vllm-MODEL, of vLLM's own steps, where it is built in; else
                                  as above, which a note says
       --gpu h200-datasheet       that profile
       --gpu mine.json            that file

   A calibrated profile of N > 1 ranks is named h200-MODEL-tpN. Policies of quire's own engine are
   compared by prices of one profile; a policy of another engine goes before where a profile has its
   name. */

enum { GPU_PROFILE_NOTE_BYTES = 320 };

struct gpu_profile_choice {
	struct gpu_profile profile; /* .name is what a result records */
	/* Why a profile less fitting was chosen for the name of a GPU; "": none was. */
	char note[GPU_PROFILE_NOTE_BYTES];
};

/* gpu: the name of a GPU or of a built-in profile, or a path that ends in ".json". policy: as
   --policy spells it. model: NULL chooses the data sheet's profile of a GPU. */
enum status gpu_profile_choose(const char *gpu, const char *policy, const char *model,
	uint32_t ranks, struct gpu_profile_choice *out, struct error *error);

#endif
