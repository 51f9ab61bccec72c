#ifndef BENCH_COMMANDS_CASE_INPUTS_H
#define BENCH_COMMANDS_CASE_INPUTS_H

#include "bench/gate/suite.h"

/* The files that runs of a suite read. They are processes of their own, so that the gate opens none
   of these and would replace them by its outputs (engine/base/input_file.h).

   Remembers every file and folder that an option of a case names, profiles that a table of replicas
   names too. records: the runs have the options of the baseline's runs. What is not there is
   refused by the run. */
void case_inputs_note(const struct suite *suite, bool records);

#endif
