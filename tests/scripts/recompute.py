"""Recomputes the figures of a result from its tables, without any code of quire.

    python3 tests/scripts/recompute.py FOLDER [NAME=VALUE]...

FOLDER holds summary.json, requests.tsv and steps.tsv of a run by the virtual clock. Each figure of
the summary that follows from the tables is computed again, by the rules of reports/README.md. Prints
a line for each that differs, then "N figures, N differ". NAME=VALUE demands a figure of the summary,
by its path: requests.rejected=574. A rate and a mean may be rounded; everything else must be exact.
"""

import json
import math
import sys
from decimal import Decimal

NS = 10**9
SLO_LIMITS = ("ttft", "tpot", "e2e")


def table(path):
    with open(path) as file:
        names = file.readline().rstrip("\n").split("\t")
        rows = []
        for line in file:
            cells = line.rstrip("\n").split("\t")
            rows.append({n: c for n, c in zip(names, cells)})
    texts = ("session", "status", "mode")
    for row in rows:
        for name in names:
            if name not in texts:
                row[name] = None if row[name] == "-" else int(row[name])
    return rows


def overlap(start, end, low, high):
    return max(0, min(end, high) - max(start, low))


def nearest_rank(values, per_mille):
    return values[math.ceil(len(values) * per_mille / 1000) - 1]


def deviation(values):
    """The standard deviation, rounded down."""
    count = len(values)
    return math.isqrt((count * sum(v * v for v in values) - sum(values) ** 2) // count**2)


class Check:
    def __init__(self, folder):
        self.summary = json.load(open(f"{folder}/summary.json"), parse_float=Decimal)
        self.requests = table(f"{folder}/requests.tsv")
        self.steps = table(f"{folder}/steps.tsv")
        self.config = self.summary["config"]
        self.count = self.differing = 0
        self.is_cut_short = self.summary["status"] != "complete"

    def figure(self, path):
        node = self.summary
        for name in path.split("."):
            node = node[int(name)] if isinstance(node, list) else node[name]
        return node

    def tell(self, path, found, expected):
        self.differing += 1
        print(f"{path} is {found}, the tables say {expected}")

    def same(self, path, expected):
        """Equal, to the last digit that is written."""
        self.count += 1
        found = self.figure(path)
        if (found is None) != (expected is None) or found is not None and found != expected:
            self.tell(path, found, expected)

    def seconds(self, path, ns):
        self.same(path, Decimal(ns) / NS)

    def near(self, path, numerator, denominator, error=1e-5):
        """A ratio that is rounded; null where there is nothing to divide by."""
        self.count += 1
        found = self.figure(path)
        if denominator == 0:
            if found is not None:
                self.tell(path, found, None)
            return
        expected = float(numerator) / float(denominator)
        if found is None or abs(float(found) - expected) > error * max(abs(expected), 0.1):
            self.tell(path, found, expected)

    def percentile(self, path, values, per_mille):
        """The end of a bucket, at most 1/1024 above the value, in ms."""
        self.count += 1
        found = self.figure(path)
        if not values:
            if found is not None:
                self.tell(path, found, None)
            return
        exact = nearest_rank(values, per_mille)
        if found is None or not exact <= found * 10**6 <= exact * (1 + Decimal(1) / 1024) + 1:
            self.tell(path, found, exact / 1e6)

    # ---- which requests and steps ----

    def outages(self):
        """(time in ns, kind, replica), in order of time."""
        listed = [o for o in (self.config.get("outages") or "").split(",") if "@" in o]
        parts = [(o.split("@")[1], *o.split("@")[0].split(":")) for o in listed]
        found = [(int(Decimal(time) * NS), kind, int(replica)) for time, kind, replica in parts]
        return sorted(found, key=lambda outage: outage[0])

    def up_spans(self, replica):
        """When a replica could work. One that drains works until its last step has ended."""
        events = [o for o in self.outages() if o[2] == replica] + [(math.inf, "end", replica)]
        spans, since = [], None if events[0][1] == "join" else 0
        for index, (time, kind, _) in enumerate(events):
            until = events[index + 1][0] if kind == "drain" else None
            if kind == "drain":
                ends = [
                    s["end_ns"]
                    for s in self.steps
                    if s["replica"] == replica and s["start_ns"] < until
                ]
                time = min(max([time] + ends), until)
            if kind == "join":
                since = time if since is None else since
            elif since is not None:
                spans.append((since, time))
                since = None
        return spans

    def up(self, replica, low, high):
        return sum(overlap(start, end, low, high) for start, end in self.up_spans(replica))

    def up_of_all(self, low, high):
        replicas = self.config.get("replicas") or 1
        if replicas == 1:
            return high - low
        return sum(self.up(replica, low, high) for replica in range(replicas))

    def find_window(self):
        warmup = self.config["warmup"] or 0
        end = len(self.requests) - (self.config["cooldown"] or 0)
        measured = [r for r in self.requests if warmup <= r["id"] < end]
        taken = [r for r in measured if not r["status"].startswith("rejected")]
        self.warmup = sum(r["id"] < warmup for r in self.requests)
        self.measured = measured
        self.is_open = bool(taken)
        self.start = min((r["arrival_ns"] for r in taken), default=0)
        run_end = max((s["start_ns"] + s["elapsed_ns"] for s in self.steps), default=self.start)
        # The run of a fleet that leaves requests goes on to its last arrival and its last failure.
        left = [r["arrival_ns"] for r in self.requests if r["status"] == "unfinished"]
        if left and not self.is_cut_short:
            failures = [time for time, kind, _ in self.outages() if kind == "fail"]
            run_end = max([run_end] + failures + left)
        self.run_end = run_end
        finishes = [r["finish_ns"] for r in taken if r["status"] == "finished"]
        whole = len(finishes) == len(taken) and not self.is_cut_short
        self.end = max(finishes) if whole and finishes else max(run_end, self.start)
        if not self.is_open:
            self.end = self.start
        for step in self.steps:
            step["end_ns"] = step["start_ns"] + step["elapsed_ns"]
            step["in"] = overlap(step["start_ns"], step["end_ns"], self.start, self.end)
        before = [s for s in self.steps if s["end_ns"] <= self.start and s["start_ns"] < self.start]
        after = [s for s in self.steps if s["end_ns"] > self.end]
        if not self.is_open:
            before, after = self.steps, []
        outside = {id(s) for s in before + after}
        self.before, self.after = before, after
        self.inside = [s for s in self.steps if id(s) not in outside]

    # ---- the sections of the summary ----

    def check_requests(self):
        count = lambda *words: sum(r["status"] in words for r in self.requests)
        too_long, never = count("rejected_too_long"), count("rejected_never_fits")
        self.same("trace.requests", len(self.requests))
        self.same("requests.submitted", len(self.requests))
        self.same("requests.finished", count("finished"))
        self.same("requests.failed", count("failed"))
        self.same("requests.unfinished", count("unfinished"))
        self.same("requests.rejected", too_long + never + count("rejected_queue_full"))
        self.same("requests.rejected_too_long", too_long)
        self.same("requests.rejected_never_fits", never)

    def check_window(self):
        if self.is_open:
            self.seconds("window.start_s", self.start)
            self.seconds("window.end_s", self.end)
        self.same("window.warmup_requests", self.warmup)
        self.same("window.measured_requests", len(self.measured))
        self.same(
            "window.cooldown_requests", len(self.requests) - self.warmup - len(self.measured)
        )
        self.same("window.steps_before", len(self.before))
        self.same("window.steps_after", len(self.after))
        self.finished = sum(
            r["finish_ns"] is not None and self.start < r["finish_ns"] <= self.end
            for r in self.requests
        )
        self.same("window.finished", self.finished)
        self.seconds("time.makespan_s", self.end - self.start)
        self.seconds("time.busy_s", sum(s["in"] for s in self.steps))
        self.same("time.steps", len(self.inside))

    def check_work(self):
        total = lambda name: sum(s[name] for s in self.inside)
        starts = {s["start_ns"] for s in self.inside}
        admitted = [r for r in self.requests if r["first_scheduled_ns"] in starts]
        length = self.end - self.start
        lost = self.figure("tokens.lost")
        output = total("sampled_rows") - lost
        prompt = sum(r["prompt_tokens"] for r in admitted)
        hits = sum(r["cached_tokens"] for r in admitted)
        knows_hits = self.figure("prefix_cache.hit_rate") is not None
        self.same("tokens.output", output)
        self.same("tokens.prompt", prompt)
        self.same("tokens.prefill_computed", total("prefill_tokens"))
        self.same("preemptions", total("preemptions"))
        self.same("prefix_cache.query_tokens", prompt)
        self.same("prefix_cache.hit_tokens", hits)
        self.near("prefix_cache.hit_rate", hits, prompt if knows_hits else 0)
        if len(self.inside) == len(self.steps):
            self.same("tokens.recomputed", sum(r["recomputed_tokens"] for r in self.requests))
            self.same("tokens.output", sum(r["output_tokens"] for r in self.requests))
            self.same("tokens.lost", total("sampled_rows") - output)
        self.near("throughput.output_tokens_per_s", output * NS, length)
        self.near("throughput.total_tokens_per_s", (output + prompt) * NS, length)
        self.near("throughput.requests_per_s", self.finished * NS, length)

    def check_load(self):
        up = self.up_of_all(self.start, self.end)
        limits = {
            "kv": ("used_blocks", "kv_blocks"),
            "seats": ("running", "max_num_seqs"),
        }
        for name, (column, limit) in limits.items():
            peak = max((s[column] for s in self.inside), default=0)
            mean = sum(s[column] * s["in"] for s in self.steps)
            limit = self.config[limit]
            self.near(f"load.{name}_peak", peak, limit if self.inside else 0)
            self.near(f"load.{name}_mean", mean, limit * up if self.inside else 0)
        tokens = [s["decode_rows"] + s["prefill_tokens"] for s in self.inside]
        budget = self.config["max_num_batched_tokens"]
        self.near("load.budget_peak", max(tokens, default=0), budget if tokens else 0)
        self.near("load.budget_mean", sum(tokens), budget * len(tokens))
        arrivals = [r["arrival_ns"] for r in self.measured]
        span = max(arrivals) - min(arrivals) if arrivals else 0
        is_closed = self.config["concurrency"] is not None
        self.near("load.offered_per_s", (len(arrivals) - 1) * NS, 0 if is_closed else span)
        last = max(r["arrival_ns"] for r in self.requests)
        finishes = [r["finish_ns"] for r in self.requests if r["finish_ns"] is not None]
        self.seconds("load.drain_s", max(0, max(finishes) - last) if finishes else 0)

    def check_waits(self):
        """The causes add up to the time from arrival to first admission, exactly."""
        waited = 0
        for row in self.requests:
            if row["status"].startswith("rejected"):
                continue
            until = row["first_scheduled_ns"]
            waited += overlap(
                row["arrival_ns"], self.end if until is None else until, self.start, self.end
            )
        self.count += 1
        found = sum(self.summary["waiting"].values()) * NS
        # Of a run that was cut short, requests that the engine had no room for have no row.
        if found != waited if not self.is_cut_short else found < waited:
            self.tell("waiting, all causes", found, waited)
        if len(self.measured) == len(self.requests) and not self.is_cut_short:
            self.count += 1
            column = sum(r["queue_ns"] or 0 for r in self.requests)
            if found != column:
                self.tell("waiting, all causes", found, column)

    def check_fleet(self):
        """How even the load was, over the time in which each replica could work."""
        if "fleet" not in self.summary:
            return
        replicas = self.config["replicas"]
        first = min(r["arrival_ns"] for r in self.requests)
        end = max([self.run_end] + [r["arrival_ns"] for r in self.requests])
        weights, tokens = [], []
        for replica in range(replicas):
            path = f"fleet.replicas.{replica}"
            up = self.up(replica, first, end)
            rows = [r for r in self.requests if r["replica"] == replica]
            own = sum(r["output_tokens"] for r in rows)
            own += sum(r["prompt_tokens"] for r in rows if r["first_scheduled_ns"] is not None)
            self.seconds(f"{path}.up_s", up)
            if up > 0:
                weights.append(up)
                tokens.append(own)
        if sum(tokens) == 0:
            self.same("fleet.imbalance", 1)
            self.same("fleet.jain", 1)
            return
        rates = [own / up for own, up in zip(tokens, weights)]
        mean = sum(tokens) / sum(weights)
        squares = sum(up * rate * rate for up, rate in zip(weights, rates))
        self.near("fleet.imbalance", max(rates), mean)
        self.near("fleet.jain", sum(tokens) ** 2, sum(weights) * squares)

    def check_latencies(self):
        columns = {"queue": "queue_ns", "ttft": "ttft_ns", "tpot": "tpot_ns", "e2e": "e2e_ns"}
        ranks = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99_9": 999}
        done = [r for r in self.measured if r["status"] == "finished"]
        for name, column in columns.items():
            values = sorted(r[column] for r in done if r[column] is not None)
            path = f"latency_ms.{name}"
            self.near(f"{path}.mean", sum(values), len(values) * 10**6)
            self.same(f"{path}.std", Decimal(deviation(values)) / 10**6 if values else None)
            self.same(f"{path}.min", Decimal(values[0]) / 10**6 if values else None)
            self.same(f"{path}.max", Decimal(values[-1]) / 10**6 if values else None)
            for word, per_mille in ranks.items():
                self.percentile(f"{path}.{word}", values, per_mille)

    def meets(self, row):
        limits = [self.figure(f"slo.{n}_ms") for n in SLO_LIMITS]
        values = [row[f"{n}_ns"] for n in SLO_LIMITS]
        return row["status"] == "finished" and all(
            limit is None or value is None or value <= limit * 10**6
            for limit, value in zip(limits, values)
        )

    def check_slo(self):
        has_limit = any(self.figure(f"slo.{n}_ms") is not None for n in SLO_LIMITS)
        met = sum(self.meets(r) for r in self.measured)
        self.near("slo.attained", met, len(self.measured) if has_limit else 0)
        length = self.end - self.start
        served = sum(
            self.meets(r) and self.start < r["finish_ns"] <= self.end for r in self.requests
        )
        self.near("slo.goodput_requests_per_s", served * NS, length if has_limit else 0)

    def check_levels(self):
        levels = self.summary.get("levels")
        if levels is None:
            return
        first, last, count = self.config["ramp"].split(":")
        count = int(count)
        width = int(self.config["duration_s"] * NS) // count
        self.count += 1
        if len(levels) != count:
            self.tell("levels", len(levels), count)
        has_limit = any(self.figure(f"slo.{n}_ms") is not None for n in SLO_LIMITS)
        for index in range(count):
            path = f"levels.{index}"
            low = index * width
            is_in = lambda r: min(r["arrival_ns"] // width, count - 1) == index
            rows = [r for r in self.measured if is_in(r)]
            done = [r for r in rows if r["status"] == "finished"]
            rate = Decimal(first) + (Decimal(last) - Decimal(first)) * index / (count - 1)
            self.near(f"{path}.rate_per_s", rate, 1)
            self.seconds(f"{path}.start_s", low)
            self.same(f"{path}.requests", len(rows))
            self.same(f"{path}.finished", len(done))
            ttft = sorted(r["ttft_ns"] for r in done)
            tpot = sorted(r["tpot_ns"] for r in done if r["tpot_ns"] is not None)
            self.percentile(f"{path}.ttft_p50_ms", ttft, 500)
            self.percentile(f"{path}.ttft_p99_ms", ttft, 990)
            self.percentile(f"{path}.tpot_p99_ms", tpot, 990)
            met = sum(self.meets(r) for r in rows)
            self.near(f"{path}.attained", met, len(rows) if has_limit else 0)
            waiting = sum(
                s["waiting"] * overlap(s["start_ns"], s["end_ns"], low, low + width)
                for s in self.steps
            )
            self.near(f"{path}.waiting", waiting, width, error=1e-3)

    def run(self, demands):
        self.find_window()
        for name in dir(self):
            if name.startswith("check_"):
                getattr(self, name)()
        for demand in demands:
            path, expected = demand.split("=")
            self.same(path, None if expected == "null" else Decimal(expected))
        print(f"{self.count} figures, {self.differing} differ")
        return 1 if self.differing else 0


if __name__ == "__main__":
    sys.exit(Check(sys.argv[1]).run(sys.argv[2:]))
