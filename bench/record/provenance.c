#include "bench/record/provenance.h"

#include "bench/record/commit.h"
#include "engine/base/json.h"
#include "engine/base/number.h"
#include "engine/base/text.h"
#include "reports/results/results.h"

#include <cJSON.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { COMMAND_BYTES = 4096, CPUINFO_BYTES = 4096, TEXT_BYTES = 512 };

const char *version_number(void)
{
	return QUIRE_VERSION;
}

const char *version_commit(void)
{
	return QUIRE_COMMIT;
}

const char *version_cuda(void)
{
#ifdef QUIRE_HAS_CUDA
	return "CUDA " QUIRE_CUDA_VERSION " for " QUIRE_CUDA_ARCHITECTURES;
#else
	return "no CUDA";
#endif
}

/* As a shell takes it again; cut where it is longer than COMMAND_BYTES. */
static void command_text(char *text, const struct provenance *provenance)
{
	struct text line = {0};

	text_add(&line, "quire");
	for (int i = 0; i < provenance->argc; i++) {
		text_add(&line, " ");
		text_add_shell_word(&line, provenance->argv[i]);
	}
	if (provenance->command != NULL) {
		text_add(&line, " ");
		text_add(&line, provenance->command);
	}
	snprintf(text, COMMAND_BYTES, "%s", line.bytes);
	text_deinit(&line);
}

/* The beginning of /proc/cpuinfo, which describes the first processor; empty if there is none. */
static void read_cpuinfo(char *text, size_t size)
{
	int file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	ssize_t bytes = file < 0 ? 0 : read(file, text, size - 1);

	text[bytes < 0 ? 0 : bytes] = '\0';
	if (file >= 0) {
		close(file);
	}
}

/* Operating system, architecture, and the processor's name. */
static void machine_text(char *text)
{
	struct utsname system;
	char cpuinfo[CPUINFO_BYTES];

	read_cpuinfo(cpuinfo, sizeof(cpuinfo));
	char *processor = strstr(cpuinfo, "model name");
	processor = processor == NULL ? NULL : strchr(processor, ':');
	if (processor != NULL) {
		processor += processor[1] == ' ' ? 2 : 1;
		processor[strcspn(processor, "\n")] = '\0';
	}
	if (uname(&system) != 0) {
		memset(&system, 0, sizeof(system));
	}
	snprintf(text, TEXT_BYTES, "%.64s %.64s, %.256s", system.sysname, system.machine,
		processor == NULL ? "processor unknown" : processor);
}

void provenance_write(const struct provenance *provenance, FILE *file)
{
	char text[COMMAND_BYTES];
	time_t now = time(NULL);
	struct tm utc;
	cJSON *root = cJSON_CreateObject();

	cJSON_AddStringToObject(root, PROVENANCE_COMMIT, QUIRE_COMMIT);
	machine_text(text);
	cJSON_AddStringToObject(root, PROVENANCE_MACHINE, text);
	if (provenance->device[0] != '\0') {
		cJSON_AddStringToObject(root, PROVENANCE_DEVICE, provenance->device);
	}
	gmtime_r(&now, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
	cJSON_AddStringToObject(root, PROVENANCE_DATE, text);
	command_text(text, provenance);
	cJSON_AddStringToObject(root, PROVENANCE_COMMAND, text);
	if (provenance->identity != 0) {
		snprintf(text, sizeof(text), "%016llx", (unsigned long long)provenance->identity);
		cJSON_AddStringToObject(root, PROVENANCE_IDENTITY, text);
	}
	decimal_text(text, provenance->wall_ns, 9);
	cJSON_AddRawToObject(root, PROVENANCE_WALL_S, text);
	json_print(root, file);
	cJSON_Delete(root);
}
