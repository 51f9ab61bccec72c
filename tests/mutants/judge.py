#!/usr/bin/env python3
"""Runs the tests of a build with mutants: which mutant makes one of them fail?

    judge.py TREE BUILD [SECONDS [WORKERS]]

First every suite once without a mutant: its time, and the mutants whose places it runs. Then, for
each mutant in random order, the suites that run its place: the one named like its file, then the
cheapest first, until one fails or SECONDS (40) are spent. Slow suites, scripts and those of a GPU are
left out. BUILD/verdicts.jsonl gets a line a mutant and is gone on with when the program is started
again; at the end, and with --show, the survivors are listed.
"""
import ctypes
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

MOST = 1 << 17  # MUTANT_MOST
PR_SET_CHILD_SUBREAPER = 36


def suites_of(build):
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True)
    suites = {}
    for test in json.loads(listed.stdout)["tests"]:
        labels = [p["value"] for p in test["properties"] if p["name"] == "LABELS"]
        is_special = any("gpu" in x or "slow" in x for x in labels) or test["name"].startswith("faults")
        if test["command"][-1] == "--jobs=1" and not is_special:
            suites[test["name"]] = test["command"]
    return suites


def end_children():
    """A mutant may loop in a process that has left its group: all that this worker inherits end."""
    while True:
        children = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())],
            capture_output=True, text=True).stdout.split("\n")
        pids = [int(line.split()[0]) for line in children if line.strip() and line.split()[1] != "ps"]
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def run(command, tree, variables, limit_s):
    """Whether it passes within limit_s, and the seconds."""
    begin = time.monotonic()
    process = subprocess.Popen(command, cwd=tree, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        passes = process.wait(limit_s) == 0
    except subprocess.TimeoutExpired:
        passes = False
        process.kill()
        process.wait()
    end_children()
    return passes, time.monotonic() - begin


def reach(task):
    name, command, tree, build = task
    path = f"{build}/reached-{name}"
    with open(path, "wb") as file:
        file.write(bytes(MOST))
    passes, seconds = run(command, tree, {"MUTANT_REACHED": path}, 600)
    with open(path, "rb") as file:
        reached = [i for i, byte in enumerate(file.read()) if byte != 0]
    os.remove(path)
    return name, {"passes": passes, "seconds": seconds, "reached": reached}


def judge(task):
    mutant, suites, known, tree, limit_s = task
    stem = os.path.basename(mutant["file"])[:-2]
    names = [n for n, k in known.items() if k["passes"] and mutant["id"] in k["reached"]]
    names.sort(key=lambda n: (n != stem, known[n]["seconds"]))
    spent, tried, killer = 0, [], None
    for name in names:
        if tried and spent + known[name]["seconds"] > limit_s:
            continue
        tried.append(name)
        passes, seconds = run(suites[name] + ["--fail-fast"], tree, {"MUTANT": str(mutant["id"])},
            10 + 8 * known[name]["seconds"])
        spent += seconds
        if not passes:
            killer = name
            break
    return {**mutant, "killer": killer, "tried": tried, "untried": [n for n in names if n not in tried]}


def work():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def show(path):
    with open(path) as file:
        verdicts = [json.loads(line) for line in file]
    for v in sorted(verdicts, key=lambda v: (v["file"], v["line"])):
        if v["killer"] is None:
            rest = f", not {' '.join(v['untried'])}" if v["untried"] else ""
            print(f"{v['id']} {v['file']}:{v['line']}: {v['what'][:150]} (passed: {' '.join(v['tried']) or 'none'}{rest})")
    caught = sum(v["killer"] is not None for v in verdicts)
    print(f"{caught} of {len(verdicts)} mutants caught")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--show"]
    tree, build = os.path.abspath(arguments[0]), os.path.abspath(arguments[1])
    limit_s = float(arguments[2]) if len(arguments) > 2 else 40
    workers = int(arguments[3]) if len(arguments) > 3 else os.cpu_count()
    verdicts, suites_file = f"{build}/verdicts.jsonl", f"{build}/suites.json"
    if "--show" in sys.argv:
        return show(verdicts)
    suites = suites_of(build)
    with multiprocessing.Pool(workers, work) as pool:
        if not os.path.exists(suites_file):
            known = dict(pool.imap_unordered(reach, [(n, c, tree, build) for n, c in suites.items()]))
            with open(suites_file, "w") as file:
                json.dump(known, file)
        with open(suites_file) as file:
            known = {n: {**k, "reached": set(k["reached"])} for n, k in json.load(file).items()}
        with open(f"{build}/mutants.json") as file:
            mutants = json.load(file)
        done = set()
        if os.path.exists(verdicts):
            with open(verdicts) as file:
                done = {json.loads(line)["id"] for line in file}
        random.Random(1).shuffle(mutants)
        tasks = [(m, suites, known, tree, limit_s) for m in mutants if m["id"] not in done]
        with open(verdicts, "a", buffering=1) as file:
            for verdict in pool.imap_unordered(judge, tasks):
                file.write(json.dumps(verdict) + "\n")
    return show(verdicts)


main()
