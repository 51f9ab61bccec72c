#include "engine/base/status.h"

#include "engine/base/check.h"
#include "engine/base/text.h"

#include <stdarg.h>
#include <stdio.h>

enum status error_set(struct error *error, enum status status, const char *format, ...)
{
	va_list arguments;

	check(status != STATUS_OK);
	error->status = status;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	text_make_printable(error->text);
	return status;
}

int status_exit_code(enum status status)
{
	switch (status) {
#define STATUS_CASE(name, exit_code)                                                               \
	case name:                                                                                 \
		return exit_code;
		STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
	}
	check_unreachable("status outside its list");
}
