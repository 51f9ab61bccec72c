/* Stands in for gnuplot, which takes longer than all the rest of a command: draws a picture of the
   length of its script. The file ../gnuplot, if there is one, says how it fails. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	char order[16] = "";
	unsigned long long bytes = 0, sum = 0;
	FILE *orders = fopen("../gnuplot", "r");

	if (orders != NULL) {
		(void)!fgets(order, sizeof(order), orders);
		fclose(orders);
	}
	for (int c = getchar(); c != EOF; c = getchar()) {
		bytes++;
		sum = sum * 31 + (unsigned)c;
	}
	if (strcmp(order, "fail") == 0) {
		fprintf(stderr, "gnuplot> plot\n         ^\n\"a script\" line 1: it fails\n");
		return 1;
	}
	if (strcmp(order, "silent") == 0) {
		return 0;
	}
	if (strcmp(order, "die") == 0) {
		raise(SIGKILL);
	}
	printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 480\"><title>%llu "
	       "%llx</title>",
		bytes, sum);
	printf(strcmp(order, "half") == 0 ? "<g>" : "</svg>\n");
	return 0;
}
