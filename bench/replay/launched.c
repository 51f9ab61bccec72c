#include "bench/replay/launched.h"

#include "bench/record/provenance.h"
#include "engine/ranks/launch.h"

#include <cJSON.h>
#include <string.h>
#include <xxhash.h>

uint64_t launched_identity(const struct replay_config *config)
{
	cJSON *json = replay_config_json(config);
	char *text = cJSON_PrintUnformatted(json);
	uint64_t commit = XXH64(version_commit(), strlen(version_commit()), 0);
	uint64_t identity = XXH64(text, strlen(text), commit);

	cJSON_free(text);
	cJSON_Delete(json);
	return identity;
}

enum status launched_join(const struct replay_config *config, struct error *error)
{
	return rank_launch_join(error->status == STATUS_OK ? launched_identity(config) : 0, error);
}
