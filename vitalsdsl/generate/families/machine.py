"""What machines do: slow down, fill up, hang."""

from __future__ import annotations

import numpy as np

from vitalsdsl.generate.draft import SECONDS, Draft
from vitalsdsl.generate.registry import Span, curve
from vitalsdsl.generate.run import Numbers
from vitalsdsl.language.rules import Level

TOKENS = 2.0**19
"""A step."""


def _speed(draft: Draft, slower: Numbers) -> None:
    """Step times by a factor a step, and everything that follows from them."""
    draft.seconds = SECONDS * slower * np.exp(0.02 * draft.gauss("step_time"))
    draft.series["step_time"] = draft.seconds
    draft.series["throughput"] = TOKENS / draft.seconds


@curve("throughput falls", Level.YELLOW, most=Level.ORANGE, shows=("throughput", "step_time"))
def throughput_drop30(draft: Draft, drop: float = 0.3, onset: int | None = None) -> Span:
    """throughput (tokens/s, scattering by 2 %) a share `drop` lower from `onset` on, step_time longer to match.

    Source: a bottleneck of data loading, or a GPU that clocks down (the monitoring guide).
    """
    start = draft.onset(onset)
    _speed(draft, 1 / (1 - drop * draft.from_(start)))
    return start, draft.length - 1


@curve("one rank is slow, and all wait for it", Level.YELLOW, shows=("rank/step_time_max", "throughput"))
def straggler_6pct(draft: Draft, drop: float = 0.06, onset: int | None = None) -> Span:
    """throughput a share `drop` lower; rank/step_time_max rises with step_time, rank/step_time_med does not; each 100.

    Source: one bad GPU took BLOOM-176B from 149 to 140 TFLOPs; it was found by elimination (its chronicles).
    """
    start = draft.onset(onset)
    _speed(draft, 1 / (1 - drop * draft.from_(start)))
    median = SECONDS * np.exp(0.005 * draft.gauss("median"))
    draft.series["rank/step_time_med"] = draft.every(100, median)
    draft.series["rank/step_time_max"] = draft.every(100, np.maximum(median, median / (1 - drop * draft.from_(start))))
    return start, draft.length - 1


@curve("steps wait for data", Level.YELLOW, shows=("data_frac", "data_time", "throughput"))
def data_stall(draft: Draft, share: float = 0.5, onset: int | None = None) -> Span:
    """data_frac, the share of a step that waits for data, 2 % and then `share`; step_time and throughput to match.

    Source: torchtitan's `time_metrics/data_loading(%)`; more than 10..30 % is a stall.
    """
    start = draft.onset(onset)
    waits = np.where(draft.t >= start, share, 0.02) * np.exp(0.1 * draft.gauss("data"))
    _speed(draft, 0.98 / (1 - np.minimum(0.95, waits)))
    draft.series["data_frac"] = np.minimum(0.95, waits)
    draft.series["data_time"] = draft.series["data_frac"] * draft.seconds
    return start, draft.length - 1


def _memory(draft: Draft, leaked: Numbers) -> None:
    saw = (draft.t % 200) / 200
    draft.series["mem/alloc"] = 2.0**30 * (40 + 8 * saw + leaked + 0.2 * draft.gauss("mem"))


@curve("memory leaks", Level.YELLOW, most=Level.ORANGE, shows=("mem/alloc",))
def mem_leak(draft: Draft, gigabytes: float = 20.0, onset: int | None = None) -> Span:
    """mem/alloc (bytes): a saw of 40..48 GiB with 200 steps a tooth, whose floor rises by `gigabytes` GiB until the end.

    Source: the least of each window rises (S. Bekman's Machine Learning Engineering; SageMaker's GPUMemoryIncrease).
    """
    start = draft.onset(onset, 2)
    _memory(draft, gigabytes * draft.ramp(start, draft.length - 1 - start))
    return start, draft.length - 1


@curve()
def mem_sawtooth(draft: Draft) -> Span:
    """mem/alloc (bytes): a saw of 40..48 GiB with 200 steps a tooth: caches that fill and are emptied."""
    _memory(draft, np.zeros(draft.length))
    return None


@curve("nothing is logged any more", Level.ORANGE)
def hang(draft: Draft, hours: float = 3.0, onset: int | None = None) -> Span:
    """After step `onset` no row comes for some hours of wall time; then the run goes on. It shows in no metric: only a
    watcher's clock can see it while it lasts.

    Source: BLOOM-176B hung for three hours without a timeout (its chronicles).
    """
    start = draft.onset(onset, 2)
    draft.jumps[start + 1] = hours * 3600
    return start, start + 1


@curve(length=20_000)
def healthy_machine(draft: Draft) -> Span:
    """A sound machine: step_time scatters by 2 %, each 500 steps one is three times as long (an evaluation, a
    checkpoint); 2 % of a step waits for data; memory is a saw; ranks differ by 2 %; GPUs at 60..70 °C, 95 % busy.
    """
    pauses = np.where(draft.t % 500 == 499, 3.0, 1.0)
    _speed(draft, pauses)
    _memory(draft, np.zeros(draft.length))
    draft.series["mem/reserved"] = np.full(draft.length, 2.0**30 * 52)
    draft.series["mem/retries"] = np.zeros(draft.length)
    draft.series["mem/ooms"] = np.zeros(draft.length)
    draft.series["mem/frag"] = draft.every(100, np.clip(0.08 + 0.01 * draft.gauss("frag"), 0, 1))
    draft.series["data_frac"] = 0.02 * np.exp(0.1 * draft.gauss("data"))
    draft.series["data_time"] = draft.series["data_frac"] * draft.seconds
    median = SECONDS * np.exp(0.005 * draft.gauss("median"))
    draft.series["rank/step_time_med"] = draft.every(100, median)
    draft.series["rank/step_time_max"] = draft.every(100, median * (1.02 + 0.005 * np.abs(draft.gauss("slowest"))))
    for gpu in range(2):
        draft.series[f"gpu/{gpu}/temp"] = draft.every(100, 65 + 1.5 * draft.gauss(f"temp{gpu}"))
        draft.series[f"gpu/{gpu}/util"] = draft.every(100, np.clip(95 + 1.5 * draft.gauss(f"util{gpu}"), 0, 100))
        draft.series[f"gpu/{gpu}/throttle"] = draft.every(100, np.zeros(draft.length))
    return None
