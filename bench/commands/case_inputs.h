#ifndef BENCH_COMMANDS_CASE_INPUTS_H
#define BENCH_COMMANDS_CASE_INPUTS_H

#include "bench/gate/suite.h"
#include "engine/base/status.h"

/* The files that runs of a suite read. They are processes of their own, so that the gate opens none
   of these and would replace them by its outputs (engine/base/input_file.h).

   Remembers every file and folder that an option of a case names, profiles that a table of replicas
   names too. records: the runs have the options of the baseline's runs. What is not there is
   refused by the run. */
void case_inputs_note(const struct suite *suite, bool records);

/* Refuses a case whose `recorded` has another option than those that say what computes the steps
   (fidelity_is_of_runner()), or no runner that computes: it would simulate another run. */
enum status case_inputs_check(const struct suite *suite, struct error *error);

#endif
