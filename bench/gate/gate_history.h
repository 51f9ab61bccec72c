#ifndef BENCH_GATE_GATE_HISTORY_H
#define BENCH_GATE_GATE_HISTORY_H

#include "bench/gate/gate.h"
#include "engine/base/status.h"

/* Adds a line to a history: a file of JSON lines, one a gate, which reports/history.h draws.

       {"commit": "1a2b3c4", "date": "2026-11-22T09:10:46Z",
        "cases": {"chat": {"verdict": "PASS", "figures": {"ttft.p99": 81.2}}}}

   The file is replaced as a whole, so that it never has half a line. */
enum status gate_history_add(const struct gate *gate, const char *path, struct error *error);

#endif
