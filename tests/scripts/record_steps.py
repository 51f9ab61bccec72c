"""Checks bench/vllm/record_steps.py on a stand-in of vLLM's scheduler: the same names and calls, a
clock that the test moves, three requests with a chunked prompt, a preemption and a pause. Prints
what was wrong and how many checks passed."""

import os
import sys
import tempfile
from types import SimpleNamespace

root = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(root, "bench", "vllm"))
import record_steps  # noqa: E402

clock = 0
record_steps.time = SimpleNamespace(perf_counter_ns=lambda: clock)
passed = failed = 0


def check(what, found, expected):
    global passed, failed
    if found == expected:
        passed += 1
    else:
        failed += 1
        print(f"failed: {what}: found {found}, expected {expected}")


class StandIn:
    """What vLLM's Scheduler shows to the recorder. Steps are given, not decided."""

    num_spec_tokens = 0

    def __init__(self, steps):
        self.steps, self.requests, self.running, self.waiting = steps, {}, [], []

    def schedule(self, throttle=False):
        step = self.steps.pop(0)
        self.running, self.waiting = step.get("running", []), step.get("waiting", [])
        cached = step.get("cached", [])
        return SimpleNamespace(
            scheduled_new_reqs=[SimpleNamespace(req_id=i, num_computed_tokens=c)
                                for i, c in step.get("new", [])],
            scheduled_cached_reqs=SimpleNamespace(req_ids=[i for i, _ in cached],
                                                  num_computed_tokens=[c for _, c in cached]),
            num_scheduled_tokens=step["tokens"], after=step.get("after"))

    def update_from_output(self, output, model_output):
        if output.after is not None:
            self.running = output.after
        return "outputs"


class Recorder(record_steps.Recording, StandIn):
    pass


def request(prompt, tokens):
    return SimpleNamespace(num_prompt_tokens=prompt, num_tokens=tokens)


def rows_of(folder):
    with open(os.path.join(folder, "steps.tsv"), encoding="ascii") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    check("columns", tuple(lines[0]), record_steps.COLUMNS)
    return [line[:1] + [int(cell) for cell in line[1:]] for line in lines[1:]]


def phases(folder):
    """The first phase by its name, another one after a rest, and the file of a second engine."""
    global clock
    os.environ["QUIRE_STEP_PHASE"] = "first"
    StandIn.num_spec_tokens = 0
    StandIn.vllm_config = SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_rank=1))
    step = {"new": [("a", 0)], "tokens": {"a": 5}, "running": [1]}
    scheduler = Recorder([dict(step), dict(step), dict(step, after=[])])
    scheduler.requests = {"a": request(5, 5)}
    for start, end, phase in (100, 130, None), (200, 250, None), (300, 370, "second"):
        if phase is not None:
            scheduler.begin_phase(phase)
        clock = start
        output = scheduler.schedule()
        clock = end
        scheduler.update_from_output(output, None)
    with open(os.path.join(folder, "steps.tsv.1"), encoding="ascii") as file:
        found = [line.split("\t")[:3] for line in file][1:]
    check("phases", found, [["first", "0", "30"], ["first", "1", "120"], ["second", "2", "70"]])
    check("steps of the first engine", len(rows_of(folder)), 7)


def main():
    global clock
    folder = tempfile.mkdtemp()
    os.environ["QUIRE_STEP_LOG"] = os.path.join(folder, "steps.tsv")
    scheduler = Recorder([
        # a: 5 prompt tokens, of which 2 are cached; b: the first chunk, 4 of 10 tokens
        {"new": [("a", 2), ("b", 0)], "tokens": {"a": 3, "b": 4}, "running": [1, 2], "waiting": [3]},
        {"cached": [("a", 5), ("b", 4)], "tokens": {"a": 1, "b": 6}, "running": [1, 2]},
        {"cached": [("a", 6), ("b", 10)], "tokens": {"a": 1, "b": 1}, "running": [1, 2]},
        # b comes back after a preemption: its answer is computed again
        {"cached": [("b", 0)], "tokens": {"b": 12}, "running": [2], "after": []},
        {"tokens": {}},
        # one prompt token is a prompt, not a decode row; b was preempted and waits: no pause
        {"new": [("c", 0)], "tokens": {"c": 1}, "running": [1], "waiting": [2], "after": []},
        # its prompt and answer are computed but for a token, and then with it: sampled once
        {"cached": [("b", 0)], "tokens": {"b": 12}, "running": [2]},
        {"cached": [("b", 12)], "tokens": {"b": 1}, "running": [2], "after": []},
    ])
    scheduler.requests = {"a": request(5, 5), "b": request(10, 10), "c": request(1, 1)}

    # Asynchronous: a step is scheduled before the one ahead of it has ended.
    clock = 100
    first = scheduler.schedule(False)
    clock = 150
    second = scheduler.schedule()
    clock = 1100
    check("what update_from_output returns", scheduler.update_from_output(first, None), "outputs")
    third = scheduler.schedule()
    clock = 1600
    scheduler.update_from_output(second, model_output=None)
    # Synchronous: the third ends before the fourth is scheduled, but nothing rests.
    clock = 2000
    scheduler.update_from_output(third, None)
    clock = 2050
    scheduler.requests["b"].num_tokens = 12
    fourth = scheduler.schedule()
    clock = 2500
    scheduler.update_from_output(fourth, None)
    # A step without tokens is none; after the pause time counts from the scheduling.
    clock = 9000
    scheduler.update_from_output(scheduler.schedule(), None)
    fifth = scheduler.schedule()
    clock = 9030
    scheduler.update_from_output(fifth, None)

    clock = 9100
    scheduler.requests["b"].num_tokens = 13
    scheduler.skipped_waiting = [3, 4]
    sixth = scheduler.schedule()
    clock = 9130
    scheduler.update_from_output(sixth, None)
    # The clock of a coarse machine may stand still.
    scheduler.update_from_output(scheduler.schedule(), None)

    expected = [
        # phase, step, elapsed, decode rows, prompts, tokens, context, longest, pairs, sampled, ...
        ["serve", 0, 1000, 0, 2, 7, 0, 0, 3 + 4 + 5 + 1 + 2 + 3 + 4, 1, 2, 1],
        ["serve", 1, 500, 1, 1, 6, 6, 6, 5 + 6 + 7 + 8 + 9 + 10, 2, 2, 0],
        ["serve", 2, 400, 2, 0, 0, 7 + 11, 11, 0, 2, 2, 0],
        ["serve", 3, 500, 0, 1, 12, 0, 0, 12 * 13 // 2, 1, 1, 0],
        ["serve", 4, 30, 0, 1, 1, 0, 0, 1, 1, 1, 1],
        ["serve", 5, 100, 0, 1, 12, 0, 0, 12 * 13 // 2, 0, 1, 2],
        ["serve", 6, 1, 1, 0, 0, 13, 13, 0, 1, 1, 2],
    ]
    rows = rows_of(folder)
    check("number of rows", len(rows), len(expected))
    for found, row in zip(rows, expected):
        check(f"step {row[1]}", found, row)

    StandIn.num_spec_tokens = 2
    try:
        Recorder([])
        check("speculative decoding", "accepted", "refused")
    except ValueError as error:
        check("speculative decoding", "speculative" in str(error), True)
    try:
        scheduler.begin_phase("two\nlines")
        check("a phase of two lines", "accepted", "refused")
    except ValueError:
        check("a phase of two lines", "refused", "refused")
    phases(folder)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


sys.exit(main())
