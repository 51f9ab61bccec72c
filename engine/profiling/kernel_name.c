#include "engine/profiling/kernel_name.h"

#include "engine/base/integer.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* In a mangled name each identifier is preceded by its length. Returns that length and moves *at to
   the identifier. 0: no identifier follows. */
static size_t identifier_size(const char **at)
{
	size_t size = 0;

	while (**at >= '0' && **at <= '9' && size < 1000) {
		size = size * 10 + (size_t)(**at - '0');
		(*at)++;
	}
	return size <= strlen(*at) ? size : 0;
}

void kernel_name_short(const char *name, char *short_name)
{
	const char *found = name;
	size_t size = strlen(name);

	if (strncmp(name, "_Z", 2) == 0) {
		const char *at = name + 2;
		bool is_nested = *at == 'N';
		at += is_nested;
		at += *at == 'L';
		for (size_t part; (part = identifier_size(&at)) > 0; at += part) {
			/* The last identifier: names of namespaces precede it. */
			found = at;
			size = part;
			if (!is_nested) {
				break;
			}
		}
	}
	size = u64_min(size, KERNEL_NAME_BYTES - 1);
	memcpy(short_name, found, size);
	short_name[size] = '\0';
}
