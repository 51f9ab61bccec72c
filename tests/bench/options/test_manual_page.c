#include "bench/options/manual.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/require.h"

/* roff would read a dot or an apostrophe at the beginning of a line as a request, and a backslash
   as an escape. */
Test(manual_page, texts_are_no_requests)
{
	static char page[1 << 14];
	const struct command example = {.name = "try",
		.title = "tries",
		.arguments = "A",
		.summary = ".first\n'second'\nthird .4 'fifth'\n  'sixth\n",
		.examples = "'one'\n.two\nback\\slash --x\n"};
	const struct command *const members[] = {&example, NULL};
	const struct command program = {.name = "quire",
		.title = "'quoted'",
		.summary = ".all\n",
		.examples = "'end\n",
		.members = members};
	FILE *file = fmemopen(page, sizeof(page), "w");

	require(file != NULL, "no file in memory");
	manual_print(&program, "1", file);
	fclose(file);
	static const char *const lines[] = {"\n\\&.first\n", "\n\\&'second'\nthird .4 'fifth'\n",
		"\n.br\n\\&'sixth\n", "\n.nf\n\\&'one'\n\\&.two\nback\\eslash \\-\\-x\n.fi\n",
		"quire \\- \\&'quoted'\n", "\n\\&.all\n", "\n\\&'end\n"};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		require(strstr(page, lines[i]) != NULL, "no\n%s\nin\n%s", lines[i], page);
	}
}
