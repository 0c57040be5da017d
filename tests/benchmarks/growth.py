"""How our time grows as one thing does and all else stays."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.benchmarks.contest import cpu
from tests.benchmarks.runs import ours as at_once
from tests.benchmarks.steps import Ours
from tests.benchmarks.work import FIVE, Work
from vitalsdsl.policies.policy import load
from vitalsdsl.streaming.stream import Stream

SETTLED = 200
"""Steps after which a stream with short windows has met all that it meets."""


@dataclass(frozen=True)
class Curve:
    """What grows, what is measured in which unit, and the points."""

    grows: str
    unit: str
    points: tuple[tuple[float, float], ...]


def curves(quick: bool) -> list[Curve]:
    few = 500 if quick else 2_000
    lengths = (1_000, 10_000, 100_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    tens = (10, 100) if quick else (10, 100, 1_000)
    return [
        _curve("length of both windows, step by step", "us a step", (50, 500, 5_000, 50_000), partial(_window, few)),
        _curve("length of both windows, at once", "us a step", (50, 500, 5_000, 50_000), _window_at_once),
        _curve("rules over the same windows", "us a step", tens, partial(_rules, few, True)),
        _curve("rules, each over windows of its own", "us a step", tens, partial(_rules, few, False)),
        _curve("metrics with five rules each, step by step", "us a step", (1, *tens), partial(_metrics, few)),
        _curve("metrics with five rules each, at once", "us a step", (1, 10, 100), _metrics_at_once),
        _curve("metrics that rules read and of which ten come", "us a step", tens, partial(_absent, few)),
        _curve("runs by turns in one process", "us a step of each", (1, 10, 100), partial(_runs, few // 10)),
        _curve("steps that a run has had, step by step", "us a step", lengths, partial(_so_far, few)),
        _curve("length of a run, at once", "us a step", lengths, _length_at_once),
    ]


def _curve(grows: str, unit: str, at: Sequence[int], measure: Callable[[int], float]) -> Curve:
    return Curve(grows, unit, tuple((x, measure(x)) for x in at))


def latencies(steps: int) -> dict[str, float]:
    """Of single steps of the work of ten metrics and fifty rules, in microseconds of wall time."""
    ours = Ours(Work.made(5_000 + steps, healthy=True))
    ours.fill(5_000)
    taken = []
    for step in range(5_000, 5_000 + steps):
        began = time.perf_counter()
        ours.walk(step, step + 1)
        taken.append((time.perf_counter() - began) * 1e6)
    taken.sort()
    return {"median": statistics.median(taken), "p99": taken[steps * 99 // 100], "p99.9": taken[steps * 999 // 1000]}


def _walked(ours: Ours, begin: int, steps: int) -> float:
    """The least of three times."""
    return min(cpu(partial(ours.walk, begin + n * steps, begin + (n + 1) * steps)) for n in range(3)) / steps * 1e6


def _window(few: int, length: int) -> float:
    work = Work.made(length + 3 * few, 10, max(length // 10, 5), length, healthy=True)
    ours = Ours(work)
    ours.fill(length)
    return _walked(ours, length, few)


def _window_at_once(length: int) -> float:
    return _at_once(Work.made(200_000, 2, max(length // 10, 5), length, healthy=True))


def _at_once(work: Work) -> float:
    run = at_once(work)
    return min(cpu(run) for _ in range(2)) / work.steps * 1e6


def _rules(few: int, is_shared: bool, count: int) -> float:
    """A tenth of them on each of ten metrics."""
    rules = []
    for i in range(count // 10):
        window = 100 if is_shared else 100 + i
        rules.append((f"{{m}} > mean({{m}}, {window} steps) + {6 + 0.01 * i:.2f} * std({{m}}, {window} steps)", 1))
    length = SETTLED if is_shared else SETTLED + count // 10
    ours = Ours(Work.made(length + 3 * few, 10, rules=tuple(rules), healthy=True))
    ours.fill(length)
    return _walked(ours, length, few)


def _metrics(few: int, count: int) -> float:
    steps = max(few * 10 // max(count, 10), 30)
    ours = Ours(Work.made(SETTLED + 3 * steps, count, 20, SETTLED, healthy=True))
    ours.fill(SETTLED)
    return _walked(ours, SETTLED, steps)


def _metrics_at_once(count: int) -> float:
    return _at_once(Work.made(20_000, count, 50, 500, healthy=True))


def _absent(few: int, count: int) -> float:
    text = "\n".join(
        f"rule m{i}_{n} {{ when {said.format(m=f'm{i}', s=20, l=SETTLED)} -> yellow }}"
        for i in range(count)
        for n, (said, _) in enumerate(FIVE)
    )
    ours = Ours(Work.made(SETTLED + 3 * few, 10, healthy=True))
    ours.put(Stream(load("work", text=f"nonfinite off\n{text}").policy, keep_rows=False))
    ours.fill(SETTLED)
    return _walked(ours, SETTLED, few)


def _runs(few: int, count: int) -> float:
    """Each under a policy that has been loaded once; a step of each, again and again."""
    work = Work.made(SETTLED + 3 * few, 10, 20, SETTLED, healthy=True)
    runs = [Ours(work) for _ in range(count)]
    for ours in runs:
        ours.fill(SETTLED)

    def turn(begin: int) -> None:
        for step in range(begin, begin + few):
            for ours in runs:
                ours.walk(step, step + 1)

    return min(cpu(partial(turn, SETTLED + n * few)) for n in range(3)) / (few * count) * 1e6


def _so_far(few: int, steps: int) -> float:
    ours = Ours(Work.made(steps + 3 * few, 2, 50, 500, healthy=True))
    ours.fill(steps)
    return _walked(ours, steps, few)


def _length_at_once(steps: int) -> float:
    return _at_once(Work.made(steps, 2, 50, 500, healthy=True))
