"""Writes the step log of a running vLLM, from which `quire calibrate --from-steps` makes a profile.

    PYTHONPATH=bench/vllm QUIRE_STEP_LOG=steps.tsv vllm serve MODEL \\
        --scheduler-cls record_steps.AsyncStepRecorder

With --no-async-scheduling the class is record_steps.StepRecorder. The log has a row for each step,
with the columns of COLUMNS; bench/vllm/README.md says what they mean. It is written as the engine
runs, and each start of the engine replaces it. Where several engines run (--data-parallel-size),
the first keeps the name and the others add their number. QUIRE_STEP_PHASE names the first phase,
`serve` unless it is set; begin_phase(NAME) of the scheduler begins another one.

Written for the v1 scheduler of vLLM 0.26 to 0.33: its method schedule() and update_from_output(),
the fields scheduled_new_reqs, scheduled_cached_reqs and num_scheduled_tokens of its output, and
num_prompt_tokens and num_tokens of its requests. Tested with a stand-in of these classes
(tests/scripts/record_steps.py), and with the schedulers of vLLM 0.33 themselves, which no model
followed: the counts of 14,194 steps were those of the decisions. Speculative decoding is refused: its steps
have more than one token a row.
"""

import os
import time

COLUMNS = ("phase", "step", "elapsed_ns", "decode_rows", "prefill_rows", "prefill_tokens",
           "decode_context_tokens", "decode_longest_context", "prefill_attention_pairs",
           "sampled_rows", "running", "waiting")


def counts_of(output, requests):
    """The counts of a step, from what schedule() returned. requests: by id."""
    rows = [(new.req_id, new.num_computed_tokens) for new in output.scheduled_new_reqs]
    cached = output.scheduled_cached_reqs
    rows += zip(cached.req_ids, cached.num_computed_tokens)
    counts = dict.fromkeys(COLUMNS[3:10], 0)
    for request_id, computed in rows:
        request, tokens = requests[request_id], output.num_scheduled_tokens[request_id]
        if computed >= request.num_prompt_tokens and tokens == 1:
            context = computed + 1  # the token attends to itself too
            counts["decode_rows"] += 1
            counts["decode_context_tokens"] += context
            counts["decode_longest_context"] = max(counts["decode_longest_context"], context)
            counts["sampled_rows"] += 1
        else:
            counts["prefill_rows"] += 1
            counts["prefill_tokens"] += tokens
            counts["prefill_attention_pairs"] += tokens * computed + tokens * (tokens + 1) // 2
            counts["sampled_rows"] += computed + tokens >= request.num_tokens
    return counts


class Recording:
    """To be mixed into a scheduler class of vLLM, in front of it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if getattr(self, "num_spec_tokens", 0) > 0:
            raise ValueError("record_steps: speculative decoding is on, and its steps have more "
                             "than one token a row")
        self._log = open(self._log_path(), "w", encoding="ascii")
        self._log.write("\t".join(COLUMNS) + "\n")
        self._pending = {}  # steps that are scheduled and not ended, by id() of their output
        self._step = 0
        self._ended_ns = None  # when the latest step ended
        self._is_resting = True  # no step goes before the next one
        self.begin_phase(os.environ.get("QUIRE_STEP_PHASE", "serve"))

    def _log_path(self):
        path = os.environ.get("QUIRE_STEP_LOG", "steps.tsv")
        config = getattr(getattr(self, "vllm_config", None), "parallel_config", None)
        rank = getattr(config, "data_parallel_rank", 0) or 0
        return f"{path}.{rank}" if rank > 0 else path

    def begin_phase(self, name):
        if not name or any(c in name for c in "\t\r\n"):
            raise ValueError(f"record_steps: found the phase name {name!r}, expected one line")
        self._phase, self._is_resting = name, True

    def schedule(self, *args, **kwargs):
        now = time.perf_counter_ns()
        output = super().schedule(*args, **kwargs)
        if not output.num_scheduled_tokens:
            return output
        # A step after a pause starts when it is scheduled, any other when the one before ends.
        started, self._is_resting = now if self._is_resting else None, False
        counts = counts_of(output, self.requests)
        counts["running"] = len(self.running)
        counts["waiting"] = len(self.waiting) + len(getattr(self, "skipped_waiting", ()))
        self._pending[id(output)] = (started, counts)
        return output

    def update_from_output(self, scheduler_output, *args, **kwargs):
        now = time.perf_counter_ns()
        started, counts = self._pending.pop(id(scheduler_output), (None, None))
        if counts is not None:
            self._write(now - (self._ended_ns if started is None else started), counts)
            self._ended_ns = now
        result = super().update_from_output(scheduler_output, *args, **kwargs)
        if not self.running and not self.waiting:
            self._is_resting = True
            self._log.flush()
        return result

    def _write(self, elapsed_ns, counts):
        cells = [self._phase, self._step, max(elapsed_ns, 1), *counts.values()]
        self._log.write("\t".join(map(str, cells)) + "\n")
        self._step += 1


try:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler
except ImportError:  # without vLLM the rest can be tested
    AsyncScheduler = Scheduler = None
if Scheduler is not None:

    class StepRecorder(Recording, Scheduler):
        pass

    class AsyncStepRecorder(Recording, AsyncScheduler):
        pass
