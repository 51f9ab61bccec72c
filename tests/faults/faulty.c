/* A program with one planted fault, which a sweep has to find:

       faulty FAULT    copies in.txt to out.txt, as quire writes files; FAULT `none` is right */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_BYTES = 4096 };

static const char *fault;
static char part[64] = "out.txt.part";

static bool has(const char *name)
{
	return strcmp(fault, name) == 0;
}

static int give_up(FILE *in, FILE *out)
{
	fprintf(stderr, "quire: it failed\n");
	if (has("two lines")) {
		fprintf(stderr, "quire: it failed, it did\n");
	}
	if (in != NULL) {
		fclose(in);
	}
	if (out != NULL) {
		fclose(out);
		if (!has("leaves its part")) {
			remove(part);
		}
	}
	if (has("removes what is not its own")) {
		remove("notes.txt");
	}
	return has("another code") ? 3 : 2;
}

static void on_interrupt(int signal)
{
	static const char line[] = "quire: interrupted\n";

	(void)signal;
	unlink(part);
	if (has("a silent interrupt")) {
		_exit(0);
	}
	(void)!write(STDERR_FILENO, line, sizeof(line) - 1);
	_exit(1);
}

static int copy(FILE *in, FILE *out)
{
	char *bytes = malloc(COPY_BYTES);
	size_t count;

	if (bytes == NULL && !has("an unchecked allocation")) {
		return give_up(in, out);
	}
	*(volatile char *)bytes = '\0';
	while ((count = fread(bytes, 1, COPY_BYTES, in)) > 0) {
		fwrite(bytes, 1, count, out);
	}
	free(bytes);
	if (ferror(in) && !has("an unheeded read")) {
		return give_up(in, out);
	}
	if ((fflush(out) != 0 || ferror(out)) && !has("an unheeded write")) {
		return give_up(in, out);
	}
	fclose(in);
	bool is_whole = fclose(out) == 0 || has("an unheeded close");
	if (has("writes in place")) {
		return is_whole ? 0 : give_up(NULL, NULL);
	}
	if (!is_whole || (rename(part, "out.txt") != 0 && !has("an unheeded rename"))) {
		remove(part);
		return give_up(NULL, NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	fault = argc > 1 ? argv[1] : "none";
	for (char *c = argc > 1 ? argv[1] : part; *c != '\0'; c++) {
		*c = *c == '-' ? ' ' : *c;
	}
	if (has("writes in place")) {
		strcpy(part, "out.txt");
	} else if (!has("appends to one part")) {
		snprintf(part, sizeof(part), "out.txt.%d.part", (int)getpid());
	}
	signal(SIGINT, on_interrupt);
	signal(SIGTERM, on_interrupt);
	signal(SIGHUP, has("no hangup") ? SIG_DFL : on_interrupt);
	FILE *in = fopen("in.txt", "r");
	if (in == NULL) {
		return give_up(NULL, NULL);
	}
	FILE *out = fopen(part, has("appends to one part") ? "a" : "w");
	if (out == NULL) {
		return give_up(in, NULL);
	}
	return copy(in, out);
}
