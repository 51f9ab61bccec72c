#!/usr/bin/env python3
"""Compares what `quire plan` prints with the files that the same plan wrote, figure by figure.

    plan_text.py PRINTED FOLDER

PRINTED: the standard output of `quire plan --out FOLDER`. Prints each difference; exit code 1 if
there is one, 0 if the printed tables hold the values of plan.tsv and plan.json and nothing else."""
import csv
import json
import re
import sys

COLUMNS = ["offered_requests_per_s", "attained", "goodput_requests_per_s", "ttft_p99_ms",
           "tpot_p99_ms", "e2e_p99_ms", "utilisation"]
FORMATS = ["%.4g", "%.2f%%", "%.4g", "%.1f", "%.1f", "%.1f", "%.1f%%"]
PERCENT = {"attained", "utilisation"}
differences = []


def expect(where, found, expected):
    if found != expected:
        differences.append(f"{where}: found {found!r}, expected {expected!r}")


def shown(name, form, value):
    if value in ("-", None):
        return "-"
    return form % (float(value) * (100 if name in PERCENT else 1))


def shown_of_rounded(name, form, value):
    """What may be printed of a number that the file has rounded: where that is the middle between two
    printed ones, either."""
    if value in ("-", None):
        return {"-"}
    return {shown(name, form, float(value) * (1 + off)) for off in (-1e-9, 1e-9)}


def check_probes(lines, rows, answer):
    """lines: of the table of loads. rows: of plan.tsv, of the best configuration's own search."""
    searched = {}
    for row in rows:
        key = "1 at a time" if row["purpose"] == "alone" else "%.6g" % float(row["load"])
        searched[key] = row
    seen = set()
    for line in lines:
        is_answer, load, rest = line.startswith("->"), line[3:15].strip(), line[15:].split()
        key = load if load == "1 at a time" else "%.6g" % float(load)
        row = searched.get(key)
        if row is None:
            differences.append(f"load {load}: not in plan.tsv")
            continue
        seen.add(key)
        for i, (name, form) in enumerate(zip(COLUMNS, FORMATS)):
            # alone, nothing is offered; the first column then has the finished requests
            if not (name == "offered_requests_per_s" and row[name] == "-"):
                may_be = shown_of_rounded(name, form, row[name])
                expect(f"load {load}, {name}", rest[i],
                       rest[i] if rest[i] in may_be else shown(name, form, row[name]))
        expect(f"load {load}, verdict", rest[7], "passes" if row["passes"] == "1" else "fails")
        passing = answer["lowest_pass"] if answer["is_least"] else answer["highest_pass"]
        is_pass = load != "1 at a time" and passing is not None and \
            "%.6g" % float(passing) == key
        expect(f"load {load}, arrow", is_answer, is_pass)
    expect("loads that are printed", sorted(seen), sorted(searched))


def check_configurations(lines, configurations):
    by_rank = sorted(configurations, key=lambda c: c["rank"])
    for line, own in zip(lines, by_rank):
        answer = own["answer"]
        passing = answer["lowest_pass"] if answer["is_least"] else answer["highest_pass"]
        words = [str(own["rank"])] + own["name"].split()
        if passing is None:
            words.append("none")
        else:
            load = "%.4g" if answer["vary"] in ("speedup", "rate") else "%.0f"
            words += [load % passing, str(own["gpus"]),
                      "%.4g" % own["goodput_per_gpu"]["value"],
                      "%.4g" % own["throughput_per_gpu"], "%.4g" % own["speed_per_user"],
                      shown("utilisation", "%.1f%%", own["utilisation"]), own["profile"]]
            words += ["front"] if own["on_pareto_front"] else []
        found = line.split()
        if passing is None:  # its reason comes behind
            expect(f"configuration {own['name']}, a reason", len(found) > len(words), True)
            found = found[:len(words)]
        expect(f"configuration {own['name']}", found, words)
    expect("configurations that are printed", len(lines), len(by_rank))


def check_details(lines, own):
    expected, answer = {}, own["answer"]
    for label, text in (("binds", answer["binding_text"]), ("sampling", answer["sampling"]["text"]),
                        ("model", answer["model"]["text"])):
        if text:
            expected[label] = text
    passing = answer["lowest_pass"] if answer["is_least"] else answer["highest_pass"]
    if passing is not None and answer["why_not_more"]:
        expected["not fewer" if answer["is_least"] else "not more"] = answer["why_not_more"]
    if passing is not None and answer["alone"]["misses"]:
        expected["alone"] = "%.0f of %.0f requests miss it with one in the system at a time" % (
            answer["alone"]["misses"], answer["alone"]["requests"])
    if not own["calibrated"]:
        expected["prices"] = ("uncalibrated: the times of profile %s were never compared with a run "
                              "of this engine on a GPU" % own["profile"])
    # The line of the model interval says it where there is one.
    if (answer["outside_share"] is not None and answer["outside_share"] > 0.05
            and "model" not in expected):
        expected["outside"] = ("%.1f %% of the step time is of steps unlike those that the profile "
                               "was fitted to" % (100 * answer["outside_share"]))
    if answer["cost_per_million_tokens"] is not None:
        expected["costs"] = ("%.4g a million output tokens, in the unit of --cost-per-gpu-hour %.4g"
                             % (answer["cost_per_million_tokens"],
                                answer["currency_per_gpu_hour"]))
    found = {line[2:12].strip(): line[12:] for line in lines}
    plain = {label: text.replace("\u00a0", " ") for label, text in expected.items()}
    expect("details", {k: v.replace("\u00a0", " ") for k, v in found.items()}, plain)


def main():
    printed = open(sys.argv[1]).read().split("\n")
    plan = json.load(open(sys.argv[2] + "/plan.json"))
    rows = list(csv.DictReader(open(sys.argv[2] + "/plan.tsv"), delimiter="\t"))
    best = min(plan["configurations"], key=lambda c: c["rank"])
    answer = best["answer"]

    expect("the sentence", printed[0].replace("\u00a0", " "),
           answer["sentence"].replace("\u00a0", " "))
    heads = [i for i, line in enumerate(printed) if re.match(r"   \S+ +requests/s ", line)]
    ranks = [i for i, line in enumerate(printed) if line.startswith("  rank configuration")]
    details = [line for line in printed[1:heads[0]] if line.startswith("  ")]
    check_details(details, best)
    probes = []
    for line in printed[heads[0] + 1:]:
        if not line.strip():
            break
        probes.append(line)
    own = [row for row in rows if row["configuration"] == best["name"] and
           row["replicate"] == "0" and float(row["step_time_scale"]) == 1]
    check_probes(probes, own, answer)
    expect("tables of configurations", len(ranks), int(len(plan["configurations"]) > 1))
    if ranks:
        last = ranks[0] + 1 + len(plan["configurations"])
        check_configurations(printed[ranks[0] + 1:last], plan["configurations"])
    print("\n".join(differences[:20]))
    sys.exit(bool(differences))


main()
