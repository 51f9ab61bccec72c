#ifndef BENCH_GATE_GATE_PRINT_H
#define BENCH_GATE_GATE_PRINT_H

#include <stdio.h>

#include "bench/gate/gate.h"

/* A gate's verdicts in the forms in which people and machines read them. */

void gate_print_text(const struct gate *gate, FILE *out);

/* One case of it. */
void gate_print_case(const struct gate_verdict *verdict, FILE *out);

/* For a comment on a pull request, or GitHub's step summary. */
void gate_print_markdown(const struct gate *gate, FILE *out);

/* JUnit's XML: a test case for each case; what costs an exit code is a failure. */
void gate_print_junit(const struct gate *gate, FILE *out);

void gate_print_json(const struct gate *gate, FILE *out);

/* GitHub's annotations: a line ::error or ::notice for each case that is not as it was. */
void gate_print_annotations(const struct gate *gate, FILE *out);

#endif
